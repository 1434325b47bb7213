"""The furniture of a cluster and its namespaces: nodes, events, config, identities, quotas."""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.columns import AGE, NAME, column
from fleet.kube.tables.quantities import quantity
from fleet.kube.tables.reading import (
    Object,
    condition,
    flag,
    items,
    mapping,
    number,
    string_map,
    text,
)
from fleet.kube.tables.rows import UNKNOWN, Cells, Printer, Since, instant, since
from fleet.kube.tables.wording import NONE, UNSET, count, first_three

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _node_status(obj: Object) -> str:
    ready = [e for e in items(mapping(obj, "status"), "conditions") if e.get("type") == "Ready"]
    if ready:
        shown = "Ready" if ready[-1].get("status") == "True" else "NotReady"
    else:
        shown = "Unknown"
    return f"{shown},SchedulingDisabled" if flag(mapping(obj, "spec"), "unschedulable") else shown


def _node_roles(metadata: Object) -> str:
    roles = set()
    for key, value in string_map(metadata, "labels").items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL:
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(status: Object, kind: str) -> str:
    for address in items(status, "addresses"):
        if address.get("type") == kind:
            return text(address, "address")
    return NONE


def _node(obj: Object) -> Cells:
    metadata, status = mapping(obj, "metadata"), mapping(obj, "status")
    info = mapping(status, "nodeInfo")
    kernel = text(info, "kernelVersion") or UNKNOWN
    if architecture := text(info, "architecture"):
        kernel += f" ({architecture})"
    return (
        text(metadata, "name"),
        _node_status(obj),
        _node_roles(metadata),
        since(metadata, "creationTimestamp"),
        text(info, "kubeletVersion"),
        _node_address(status, "InternalIP"),
        _node_address(status, "ExternalIP"),
        text(info, "osImage") or UNKNOWN,
        kernel,
        text(info, "containerRuntimeVersion") or UNKNOWN,
    )


def _event(obj: Object) -> Cells:
    """An event of either group: `events.k8s.io` names the same fields differently."""
    metadata = mapping(obj, "metadata")
    subject = mapping(obj, "involvedObject") or mapping(obj, "regarding")
    source = mapping(obj, "source") or mapping(obj, "deprecatedSource")
    series = obj.get("series")

    def either(core: str, events: str) -> Since | None:
        at_s = instant(obj, core)
        if at_s is None:
            at_s = instant(obj, events)
        return None if at_s is None else Since(at_s)

    first = either("firstTimestamp", "deprecatedFirstTimestamp") or since(obj, "eventTime")
    last = either("lastTimestamp", "deprecatedLastTimestamp") or first
    times = number(obj, "count") or number(obj, "deprecatedCount") or 1
    if isinstance(series, dict):
        last = since(series, "lastObservedTime")
        times = number(series, "count")

    kind, name = text(subject, "kind").lower(), text(subject, "name")
    component = (
        text(source, "component")
        or text(obj, "reportingComponent")
        or text(obj, "reportingController")
    )
    host = text(source, "host") or text(obj, "reportingInstance")
    return (
        last,
        text(obj, "type"),
        text(obj, "reason"),
        f"{kind}/{name}" if name else kind,
        text(subject, "fieldPath"),
        f"{component}, {host}" if host else component,
        (text(obj, "message") or text(obj, "note")).strip(),
        first,
        times,
        text(metadata, "name"),
    )


_EVENTS: Final = Printer(
    columns=(
        column("Last Seen", doc="core/v1.Event.lastTimestamp"),
        column("Type", doc="core/v1.Event.type"),
        column("Reason", doc="core/v1.Event.reason"),
        column("Object", doc="core/v1.Event.involvedObject"),
        column("Subobject", doc="core/v1.ObjectReference.fieldPath", priority=1),
        column("Source", doc="core/v1.Event.source", priority=1),
        column("Message", doc="core/v1.Event.message"),
        column("First Seen", doc="core/v1.Event.firstTimestamp", priority=1),
        column("Count", doc="core/v1.Event.count", priority=1),
        column("Name", doc="meta/v1.ObjectMeta.name", format="name", priority=1),
    ),
    render=_event,
)


def _namespace(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        text(mapping(obj, "status"), "phase"),
        since(metadata, "creationTimestamp"),
    )


def _secret(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        text(obj, "type"),
        count(obj.get("data")),
        since(metadata, "creationTimestamp"),
    )


def _config_map(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        count(obj.get("data")) + count(obj.get("binaryData")),
        since(metadata, "creationTimestamp"),
    )


def name_and_age(obj: Object) -> Cells:
    """Cells of kinds that show nothing else."""
    metadata = mapping(obj, "metadata")
    return text(metadata, "name"), since(metadata, "creationTimestamp")


def _component_status(obj: Object) -> Cells:
    status, message, error = "Unknown", "", ""
    healthy = condition(obj, "Healthy")
    if healthy is not None:
        status = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
        message, error = text(healthy, "message"), text(healthy, "error")
    return text(mapping(obj, "metadata"), "name"), status, message, error


def _resource_quota(obj: Object) -> Cells:
    metadata, status = mapping(obj, "metadata"), mapping(obj, "status")
    hard, used = mapping(status, "hard"), mapping(status, "used")
    requests: list[str] = []
    limits: list[str] = []
    for resource in sorted(hard):
        shown = f"{resource}: {quantity(used.get(resource))}/{quantity(hard[resource])}"
        (limits if resource.startswith("limits.") else requests).append(shown)
    return (
        text(metadata, "name"),
        ", ".join(requests),
        ", ".join(limits),
        since(metadata, "creationTimestamp"),
    )


def _runtime_class(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return text(metadata, "name"), text(obj, "handler"), since(metadata, "creationTimestamp")


def _lease(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        text(mapping(obj, "spec"), "holderIdentity"),
        since(metadata, "creationTimestamp"),
    )


def _lease_candidate(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    return (
        text(metadata, "name"),
        text(spec, "leaseName"),
        text(spec, "binaryVersion"),
        text(spec, "emulationVersion"),
        since(metadata, "creationTimestamp"),
    )


def _storage_version(obj: Object) -> Cells:
    metadata, status = mapping(obj, "metadata"), mapping(obj, "status")
    encoding = status.get("commonEncodingVersion")
    return (
        text(metadata, "name"),
        encoding if isinstance(encoding, str) else UNSET,
        first_three(
            f"{text(each, 'apiServerID')}={text(each, 'encodingVersion')}"
            for each in items(status, "storageVersions")
        ),
        since(metadata, "creationTimestamp"),
    )


def _storage_version_migration(obj: Object) -> Cells:
    metadata, resource = mapping(obj, "metadata"), mapping(mapping(obj, "spec"), "resource")
    group, plural = text(resource, "group"), text(resource, "resource")
    status = "Unknown"
    for each in items(mapping(obj, "status"), "conditions"):
        kind = text(each, "type")
        if each.get("status") == "True" and kind in ("Running", "Failed", "Succeeded"):
            status = kind
    return text(metadata, "name"), f"{plural}.{group}" if group else plural, status


def _api_service(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    service = "Local"
    if isinstance(spec.get("service"), dict):
        reference = mapping(spec, "service")
        service = f"{text(reference, 'namespace')}/{text(reference, 'name')}"
    status = "Unknown"
    available = condition(mapping(obj, "status"), "Available")
    if available is not None:
        status, reason = text(available, "status"), text(available, "reason")
        if status != "True" and reason:
            status += f" ({reason})"
    return text(metadata, "name"), service, status, since(metadata, "creationTimestamp")


PRINTERS: Final = {
    ("", "nodes"): Printer(
        columns=(
            NAME,
            column("Status", "The status of the node"),
            column("Roles", "The roles of the node"),
            AGE,
            column("Version", doc="core/v1.NodeSystemInfo.kubeletVersion"),
            column("Internal-IP", doc="core/v1.NodeStatus.addresses", priority=1),
            column("External-IP", doc="core/v1.NodeStatus.addresses", priority=1),
            column("OS-Image", doc="core/v1.NodeSystemInfo.osImage", priority=1),
            column("Kernel-Version", doc="core/v1.NodeSystemInfo.kernelVersion", priority=1),
            column(
                "Container-Runtime",
                doc="core/v1.NodeSystemInfo.containerRuntimeVersion",
                priority=1,
            ),
        ),
        render=_node,
    ),
    ("", "events"): _EVENTS,
    ("events.k8s.io", "events"): _EVENTS,
    ("", "namespaces"): Printer(
        columns=(NAME, column("Status", "The status of the namespace"), AGE), render=_namespace
    ),
    ("", "secrets"): Printer(
        columns=(
            NAME,
            column("Type", doc="core/v1.Secret.type"),
            column("Data", doc="core/v1.Secret.data"),
            AGE,
        ),
        render=_secret,
    ),
    ("", "configmaps"): Printer(
        columns=(NAME, column("Data", doc="core/v1.ConfigMap.data"), AGE), render=_config_map
    ),
    ("", "serviceaccounts"): Printer(columns=(NAME, AGE), render=name_and_age),
    ("", "componentstatuses"): Printer(
        columns=(
            NAME,
            column("Status", "Status of the component conditions"),
            column("Message", "Message of the component conditions"),
            column("Error", "Error of the component conditions"),
        ),
        render=_component_status,
    ),
    ("", "resourcequotas"): Printer(
        columns=(
            NAME,
            column(
                "Request",
                "Request represents a minimum amount of cpu/memory that a container may consume.",
            ),
            column(
                "Limit",
                "Limits control the maximum amount of cpu/memory that a container may use"
                " independent of contention on the node.",
            ),
            AGE,
        ),
        render=_resource_quota,
    ),
    ("node.k8s.io", "runtimeclasses"): Printer(
        columns=(NAME, column("Handler"), AGE), render=_runtime_class
    ),
    ("coordination.k8s.io", "leases"): Printer(
        columns=(NAME, column("Holder", doc="coordination/v1.LeaseSpec.holderIdentity"), AGE),
        render=_lease,
    ),
    ("coordination.k8s.io", "leasecandidates"): Printer(
        columns=(
            NAME,
            column("LeaseName", doc="coordination/v1alpha2.LeaseCandidateSpec.leaseName"),
            column("BinaryVersion"),
            column("EmulationVersion"),
            AGE,
        ),
        render=_lease_candidate,
    ),
    ("internal.apiserver.k8s.io", "storageversions"): Printer(
        columns=(
            NAME,
            column(
                "CommonEncodingVersion",
                doc="apiserverinternal/v1alpha1.StorageVersionStatus.commonEncodingVersion",
            ),
            column(
                "StorageVersions",
                doc="apiserverinternal/v1alpha1.StorageVersionStatus.storageVersions",
            ),
            AGE,
        ),
        render=_storage_version,
    ),
    ("storagemigration.k8s.io", "storageversionmigrations"): Printer(
        columns=(
            column("Name", doc="meta/v1.ObjectMeta.name"),
            column("Resource", "GroupResource to migrate"),
            column("Status", "Status of the migration"),
        ),
        render=_storage_version_migration,
    ),
    ("apiregistration.k8s.io", "apiservices"): Printer(
        columns=(
            NAME,
            column("Service", "The reference to the service that hosts this API endpoint."),
            column("Available", "Whether this service is available."),
            AGE,
        ),
        render=_api_service,
    ),
}
