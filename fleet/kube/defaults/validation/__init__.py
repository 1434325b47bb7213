"""Whether an object may be stored: upstream's rules, in upstream's words.

`validate_create` and `validate_update` find the rules of a kind, run all of them and raise one
Invalid with a cause per fault. Kinds without rules of their own are held to those of `metadata`,
custom resources to their schema as well.

Invariant: rules only look. They see objects after defaults and `prepare_*`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import (
    apps,
    jobs,
    names,
    networking,
    pods,
    policies,
    services,
    storage,
)
from fleet.kube.defaults.validation.custom import check_custom
from fleet.kube.defaults.validation.metadata import check_metadata, check_metadata_update
from fleet.kube.defaults.validation.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.defaults.validation.names import NameRule
    from fleet.kube.schema import Schema

__all__ = ["Problems", "needs_revision", "validate_create", "validate_update"]

Object = dict[str, Any]
GroupKind = tuple[str, str]

_RBAC: Final = "rbac.authorization.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_AUTOSCALER: Final = ("autoscaling", "HorizontalPodAutoscaler")

_NAME_RULES: Final[Mapping[GroupKind, NameRule]] = MappingProxyType(
    {
        ("", "Event"): names.path_segment,
        ("", "Namespace"): names.dns_label,
        ("", "Service"): names.dns_label,
        ("apps", "StatefulSet"): names.dns_label,
        ("policy", "PodDisruptionBudget"): names.path_segment,
        (_RBAC, "ClusterRole"): names.path_segment,
        (_RBAC, "ClusterRoleBinding"): names.path_segment,
        (_RBAC, "Role"): names.path_segment,
        (_RBAC, "RoleBinding"): names.path_segment,
    }
)

_RULES: Final[Mapping[GroupKind, Callable[[Problems, Object], None]]] = MappingProxyType(
    {
        ("", "ConfigMap"): storage.check_config_map,
        ("", "Event"): policies.check_event,
        ("", "Namespace"): policies.check_namespace,
        ("", "PersistentVolumeClaim"): storage.check_claim,
        ("", "Pod"): pods.check_pod,
        ("", "ReplicationController"): apps.check_replication_controller,
        ("", "Secret"): storage.check_secret,
        ("", "Service"): services.check_service,
        ("apps", "DaemonSet"): apps.check_daemon_set,
        ("apps", "Deployment"): apps.check_deployment,
        ("apps", "ReplicaSet"): apps.check_replica_set,
        ("apps", "StatefulSet"): apps.check_stateful_set,
        _AUTOSCALER: policies.check_autoscaler,
        ("batch", "CronJob"): jobs.check_cron_job,
        ("batch", "Job"): jobs.check_job,
        ("coordination.k8s.io", "Lease"): policies.check_lease,
        ("events.k8s.io", "Event"): policies.check_event,
        ("policy", "PodDisruptionBudget"): policies.check_disruption_budget,
        (_NETWORKING, "Ingress"): networking.check_ingress,
        (_NETWORKING, "NetworkPolicy"): networking.check_network_policy,
        (_RBAC, "ClusterRole"): policies.check_role,
        (_RBAC, "ClusterRoleBinding"): policies.check_role_binding,
        (_RBAC, "Role"): policies.check_role,
        (_RBAC, "RoleBinding"): policies.check_role_binding,
    }
)

_CREATE_RULES: Final[Mapping[GroupKind, Callable[[Problems, Object], None]]] = MappingProxyType(
    {("scheduling.k8s.io", "PriorityClass"): policies.check_priority_class}
)
"""Of kinds that a change is not held to what a new one is."""

_UPDATE_RULES: Final[Mapping[GroupKind, Callable[[Problems, Object, Object], None]]] = (
    MappingProxyType(
        {
            ("", "ConfigMap"): storage.check_fixed_data,
            ("", "PersistentVolumeClaim"): storage.check_claim_update,
            ("", "Pod"): pods.check_pod_update,
            ("", "Secret"): storage.check_secret_update,
            ("", "Service"): services.check_service_update,
            ("apps", "DaemonSet"): apps.check_selector_update,
            ("apps", "Deployment"): apps.check_selector_update,
            ("apps", "ReplicaSet"): apps.check_selector_update,
            ("apps", "StatefulSet"): apps.check_stateful_set_update,
            ("batch", "Job"): jobs.check_job_update,
            ("scheduling.k8s.io", "PriorityClass"): policies.check_priority_class_update,
            (_RBAC, "ClusterRoleBinding"): policies.check_role_binding_update,
            (_RBAC, "RoleBinding"): policies.check_role_binding_update,
        }
    )
)

# Kinds that refuse an update which does not say what it was based on.
_NEEDS_REVISION: Final = frozenset(
    {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("coordination.k8s.io", "Lease"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "VolumeAttachment"),
    }
)


def needs_revision(group: str, kind: str, *, custom: bool = False) -> bool:
    """Whether an update must carry `metadata.resourceVersion`."""
    return custom or (group, kind) in _NEEDS_REVISION


def _core_finalizers(key: GroupKind, schema: Schema | None) -> bool:
    """Whether bare finalizers must be standard ones: leases, events and custom resources differ."""
    if schema is not None and schema.custom:
        return False
    return key[0] not in ("coordination.k8s.io", "events.k8s.io", "apiextensions.k8s.io")


def validate_create(
    group: str,
    version: str,
    kind: str,
    obj: Object,
    *,
    namespaced: bool,
    schema: Schema | None = None,
) -> None:
    """Raises Invalid, with one cause per fault, when a new object must not be stored.

    `schema` is that of a custom resource's CRD version.
    """
    problems, key = Problems(), (group, kind)
    rule = _NAME_RULES.get(key, names.dns_subdomain)
    check_metadata(
        problems,
        obj["metadata"],
        namespaced=namespaced,
        name_rule=rule,
        core_finalizers=_core_finalizers(key, schema),
    )
    for rules in (_RULES, _CREATE_RULES):
        if key in rules:
            rules[key](problems, obj)
    if schema is not None and schema.custom:
        check_custom(problems, obj, schema)
    problems.raise_if_any(group=group, kind=kind, name=obj["metadata"].get("name", ""))


def validate_update(
    group: str,
    version: str,
    kind: str,
    new: Object,
    old: Object,
    *,
    namespaced: bool,
    subresource: str = "",
    schema: Schema | None = None,
) -> None:
    """Raises Invalid, with one cause per fault, when `new` must not replace `old`."""
    problems, key = Problems(), (group, kind)
    metadata = new["metadata"]
    check_metadata(
        problems,
        metadata,
        namespaced=namespaced,
        name_rule=names.path_segment,
        core_finalizers=_core_finalizers(key, schema),
    )
    custom = schema is not None and schema.custom
    if not metadata.get("resourceVersion") and needs_revision(group, kind, custom=custom):
        problems.invalid("metadata.resourceVersion", "", "must be specified for an update")
    check_metadata_update(problems, metadata, old["metadata"])
    if subresource == "":
        if key == ("apps", "StatefulSet"):
            apps.check_stateful_set(problems, new, update=True)
        elif key == ("batch", "CronJob"):
            jobs.check_cron_job(problems, new, old=old)
        elif key in _RULES:
            _RULES[key](problems, new)
        if key in _UPDATE_RULES:
            _UPDATE_RULES[key](problems, new, old)
    elif (key, subresource) == (("", "Namespace"), "status"):
        policies.check_namespace_status(problems, new, old)
    if schema is not None and schema.custom:
        check_custom(problems, new, schema)
    problems.raise_if_any(group=group, kind=kind, name=metadata.get("name", ""))
