"""Rules for pods and pod templates (`pkg/apis/core/validation`)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.containers import check_containers, check_image_blanks
from fleet.kube.defaults.validation.metadata import check_annotations, check_labels
from fleet.kube.defaults.validation.resources import check_resources
from fleet.kube.defaults.validation.scheduling import (
    check_affinity,
    check_tolerations,
    check_topology_spread,
)
from fleet.kube.defaults.validation.volumes import check_volumes

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MUTABLE_IN_PODS: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod(problems: Problems, pod: Object) -> None:
    """A pod's spec, and what pods must observe beyond templates."""
    spec, metadata = pod.get("spec", {}), pod["metadata"]
    check_pod_spec(problems, spec, "spec", pod_name=metadata.get("name", ""), is_pod=True)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or []):
            sources = (volume.get("projected") or {}).get("sources") or []
            for position, source in enumerate(sources):
                if "serviceAccountToken" in source:
                    problems.forbidden(
                        f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken",
                        "must not be specified when serviceAccountName is not set",
                    )
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            check_image_blanks(problems, container, f"spec.{field}[{index}]")


def check_pod_template(problems: Problems, template: Object, path: str) -> None:
    metadata = template.get("metadata", {})
    check_labels(problems, metadata.get("labels"), f"{path}.labels")
    check_annotations(problems, metadata.get("annotations"), f"{path}.annotations")
    spec = template.get("spec", {})
    check_pod_spec(problems, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        problems.forbidden(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def check_pod_spec(
    problems: Problems, spec: Object, path: str, *, pod_name: str = "", is_pod: bool = False
) -> None:
    if "terminationGracePeriodSeconds" not in spec:
        problems.required(f"{path}.terminationGracePeriodSeconds")
    volumes = check_volumes(
        problems, spec.get("volumes") or [], f"{path}.volumes", pod_name=pod_name
    )
    check_containers(problems, spec, volumes, path)
    if resources := spec.get("resources"):
        check_resources(problems, resources, f"{path}.resources")
    if spec.get("hostNetwork"):
        _host_network(problems, spec, path, is_pod=is_pod)
    problems.one_of(
        f"{path}.restartPolicy", spec.get("restartPolicy", ""), ("Always", "OnFailure", "Never")
    )
    problems.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES)
    check_labels(problems, spec.get("nodeSelector"), f"{path}.nodeSelector")
    _security(problems, spec.get("securityContext") or {}, f"{path}.securityContext")
    check_affinity(problems, spec.get("affinity") or {}, f"{path}.affinity")
    _dns(problems, spec, path)
    for index, gate in enumerate(spec.get("readinessGates") or []):
        kind = gate.get("conditionType", "")
        wrong = names.qualified_name(kind)
        problems.invalid_each(f"{path}.readinessGates[{index}].conditionType", kind, wrong)
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        where, name = f"{path}.schedulingGates[{index}]", gate.get("name", "")
        problems.invalid_each(where, name, names.qualified_name(name))
        if name in seen:
            problems.duplicate(where, name)
        seen.add(name)
    check_topology_spread(
        problems, spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints"
    )
    for field, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
        ("priorityClassName", names.dns_subdomain),
        ("runtimeClassName", names.dns_subdomain),
    ):
        if value := spec.get(field):
            problems.invalid_each(f"{path}.{field}", value, rule(value))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        problems.invalid(
            f"{path}.activeDeadlineSeconds",
            deadline,
            f"must be between 1 and {2**31 - 1}, inclusive",
        )
    check_tolerations(problems, spec.get("tolerations") or [], f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or []):
        for position, hostname in enumerate(alias.get("hostnames") or []):
            rule_text = names.dns_subdomain(hostname)
            where = f"{path}.hostAliases[{index}].hostnames[{position}]"
            problems.invalid_each(where, hostname, rule_text)
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        problems.one_of(f"{path}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if (system := spec.get("os")) is not None:
        if not system.get("name"):
            problems.required(f"{path}.os.name")
        elif system["name"] not in ("linux", "windows"):
            problems.not_supported(f"{path}.os", system["name"], ("linux", "windows"))


def check_pod_update(problems: Problems, new: Object, old: Object) -> None:
    """The few fields of a pod that may change."""
    fresh, stale = new.get("spec", {}), old.get("spec", {})
    for field in ("containers", "initContainers"):
        if len(fresh.get(field) or []) != len(stale.get(field) or []):
            problems.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    deadline, before = fresh.get("activeDeadlineSeconds"), stale.get("activeDeadlineSeconds")
    if deadline is not None:
        if not 0 <= deadline < 2**31:
            problems.invalid(
                "spec.activeDeadlineSeconds",
                deadline,
                f"must be between 0 and {2**31 - 1}, inclusive",
            )
            return
        if before is not None and before < deadline:
            problems.invalid(
                "spec.activeDeadlineSeconds",
                deadline,
                "must be less than or equal to previous value",
            )
            return
    elif before is not None:
        problems.invalid(
            "spec.activeDeadlineSeconds",
            None,
            "must not update from a positive integer to nil value",
        )
    missing = [t for t in stale.get("tolerations") or [] if not _tolerated(t, fresh)]
    if missing:
        problems.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )
    gates = {gate.get("name") for gate in stale.get("schedulingGates") or []}
    for index, gate in enumerate(fresh.get("schedulingGates") or []):
        if gate.get("name") not in gates:
            problems.forbidden(
                f"spec.schedulingGates[{index}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
            )
    allowed = copy.deepcopy(fresh)
    for field in ("containers", "initContainers"):
        for container, twin in zip(allowed.get(field) or [], stale.get(field) or [], strict=True):
            container["image"] = twin.get("image", "")
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        allowed.pop(field, None)
        if field in stale:
            allowed[field] = stale[field]
    if gates:
        for field in ("nodeSelector", "affinity"):
            allowed.pop(field, None)
            if field in stale:
                allowed[field] = stale[field]
    if stale.get("terminationGracePeriodSeconds", 0) < 0:
        if allowed.get("terminationGracePeriodSeconds") == 1:
            allowed["terminationGracePeriodSeconds"] = stale["terminationGracePeriodSeconds"]
    if allowed != stale:
        changed = sorted(
            name for name in allowed.keys() | stale.keys() if allowed.get(name) != stale.get(name)
        )
        problems.forbidden(
            "spec",
            f"pod updates may not change fields other than {_MUTABLE_IN_PODS}\n"
            f"changed: {', '.join(changed)}",
        )


def _tolerated(toleration: Object, spec: Object) -> bool:
    def bare(entry: Object) -> Object:
        return {k: v for k, v in entry.items() if k != "tolerationSeconds"}

    return any(bare(toleration) == bare(t) for t in spec.get("tolerations") or [])


def _host_network(problems: Problems, spec: Object, path: str, *, is_pod: bool) -> None:
    for index, container in enumerate(spec.get("containers") or []):
        for position, port in enumerate(container.get("ports") or []):
            host_port = port.get("hostPort", 0)
            if (is_pod or host_port) and host_port != port.get("containerPort", 0):
                problems.invalid(
                    f"{path}.containers[{index}].ports[{position}].hostPort",
                    host_port,
                    "must match `containerPort` when `hostNetwork` is true",
                )


def _security(problems: Problems, context: Object, path: str) -> None:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            problems.invalid_each(f"{path}.{field}", number, names.user_or_group(number))
    for index, number in enumerate(context.get("supplementalGroups") or []):
        where = f"{path}.supplementalGroups[{index}]"
        problems.invalid_each(where, number, names.user_or_group(number))


def _dns(problems: Problems, spec: Object, path: str) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            problems.required(
                f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"
            )
            return
        if not config.get("nameservers"):
            problems.required(
                f"{path}.dnsConfig.nameservers",
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            )
            return
    servers = (config or {}).get("nameservers") or []
    if len(servers) > 3:
        problems.invalid(
            f"{path}.dnsConfig.nameservers", servers, "must not have more than 3 nameservers"
        )
