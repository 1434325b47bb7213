"""Which kind has which defaults, and what counts as a new generation of it."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults import objects, workloads
from fleet.kube.defaults.pods import default_pod
from fleet.kube.schema import schema_for
from fleet.kube.schema.defaulting import fill_declared_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.schema import Schema

Object = dict[str, Any]
GroupKind = tuple[str, str]

_RBAC = "rbac.authorization.k8s.io"
_NETWORKING = "networking.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

_DEFAULTS: Final[Mapping[GroupKind, Callable[[Object], None]]] = MappingProxyType(
    {
        ("", "Endpoints"): objects.default_endpoints,
        ("", "LimitRange"): objects.default_limit_range,
        ("", "Namespace"): objects.default_namespace,
        ("", "Node"): objects.default_node,
        ("", "PersistentVolume"): objects.default_volume,
        ("", "PersistentVolumeClaim"): objects.default_claim,
        ("", "Pod"): default_pod,
        ("", "PodTemplate"): workloads.default_pod_template_object,
        ("", "ReplicationController"): workloads.default_replication_controller,
        ("", "Secret"): objects.default_secret,
        ("", "Service"): objects.default_service,
        ("apps", "DaemonSet"): workloads.default_daemon_set,
        ("apps", "Deployment"): workloads.default_deployment,
        ("apps", "ReplicaSet"): workloads.default_replica_set,
        ("apps", "StatefulSet"): workloads.default_stateful_set,
        ("batch", "CronJob"): workloads.default_cron_job,
        ("batch", "Job"): workloads.default_job,
        ("autoscaling", "HorizontalPodAutoscaler"): objects.default_autoscaler,
        ("discovery.k8s.io", "EndpointSlice"): objects.default_endpoint_slice,
        ("scheduling.k8s.io", "PriorityClass"): objects.default_priority_class,
        ("storage.k8s.io", "StorageClass"): objects.default_storage_class,
        (_NETWORKING, "IngressClass"): objects.default_ingress_class,
        (_NETWORKING, "NetworkPolicy"): objects.default_network_policy,
        (_RBAC, "ClusterRoleBinding"): objects.default_role_binding,
        (_RBAC, "RoleBinding"): objects.default_role_binding,
        (_ADMISSION, "MutatingWebhookConfiguration"): objects.default_webhooks,
        (_ADMISSION, "ValidatingWebhookConfiguration"): objects.default_webhooks,
        ("apiextensions.k8s.io", "CustomResourceDefinition"): (
            objects.default_custom_resource_definition
        ),
    }
)

_SPEC: Final = (("spec",),)
_SPEC_AND_ANNOTATIONS: Final = (("spec",), ("metadata", "annotations"))

GENERATION_FIELDS: Final[Mapping[GroupKind, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        ("", "Pod"): _SPEC,
        ("", "PodTemplate"): (("template",),),
        ("", "ReplicationController"): _SPEC,
        ("apps", "DaemonSet"): _SPEC,
        # Annotations are copied to the replica sets, so they count.
        ("apps", "Deployment"): _SPEC_AND_ANNOTATIONS,
        ("apps", "ReplicaSet"): _SPEC,
        ("apps", "StatefulSet"): _SPEC,
        ("batch", "CronJob"): _SPEC,
        ("batch", "Job"): _SPEC,
        ("discovery.k8s.io", "EndpointSlice"): (
            ("metadata", "labels"), ("metadata", "annotations"),
            ("addressType",), ("endpoints",), ("ports",),
        ),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _SPEC,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _SPEC,
        (_NETWORKING, "Ingress"): _SPEC,
        (_NETWORKING, "IngressClass"): _SPEC,
        (_NETWORKING, "NetworkPolicy"): _SPEC,
        ("policy", "PodDisruptionBudget"): _SPEC,
        # Set once; nothing of it that counts can change.
        ("scheduling.k8s.io", "PriorityClass"): (),
        (_ADMISSION, "MutatingAdmissionPolicy"): _SPEC,
        (_ADMISSION, "MutatingAdmissionPolicyBinding"): _SPEC,
        (_ADMISSION, "MutatingWebhookConfiguration"): (("webhooks",),),
        (_ADMISSION, "ValidatingAdmissionPolicy"): _SPEC,
        (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _SPEC,
        (_ADMISSION, "ValidatingWebhookConfiguration"): (("webhooks",),),
        ("apiextensions.k8s.io", "CustomResourceDefinition"): _SPEC,
        ("resource.k8s.io", "DeviceClass"): _SPEC,
        ("resource.k8s.io", "ResourceSlice"): _SPEC,
    }
)  # fmt: skip
"""Kinds with a generation, and the fields whose change makes a new one.

Built-in kinds that are not listed have no generation; custom resources count every field except
`metadata` and, with a status subresource, `status`.
"""


def apply_defaults(
    group: str, version: str, kind: str, obj: Object, *, schema: Schema | None = None
) -> Object:
    """A copy of a decoded object with every default an API server would fill in.

    `schema` is needed for custom resources only.
    """
    filled = fill_defaults(group, version, kind, obj, schema=schema)
    # Parts that stand for one another at creation are one value until here.
    if "labels" in filled["metadata"]:
        filled["metadata"]["labels"] = dict(filled["metadata"]["labels"])
    return filled


def fill_defaults(
    group: str, version: str, kind: str, obj: Object, *, schema: Schema | None = None
) -> Object:
    """As `apply_defaults`, but the labels a Job has from its template are its template's."""
    schema = schema or schema_for(group, version, kind)
    filled = copy.deepcopy(obj)
    filled.setdefault("metadata", {})
    if schema is not None:
        fill_declared_defaults(filled, schema)
        if schema.custom:
            return filled
        if schema.field("spec") is not None:
            filled.setdefault("spec", {})
    if (group, version, kind) == ("autoscaling", "v1", "HorizontalPodAutoscaler"):
        objects.default_autoscaler_v1(filled)
    elif (defaults := _DEFAULTS.get((group, kind))) is not None:
        defaults(filled)
    return filled
