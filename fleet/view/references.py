"""The closed table of references: the fields that name a namespace or a cluster-scoped object.

A *reference* names one object and is projected as that object's name is, so that following it in
the merged world leads to the same object. A *term* – selector, affinity, rule, class name, text,
annotation – is read by the member's own machinery and stays as the member has it. Anything not
listed is a term; docs/projection.md gives the reason for each. The table is keyed by group and
kind, whatever the version, and never depends on what a member serves: otherwise a body could be
taken back by another rule than it was projected by. `fleet.view.projection` compiles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ITEMS = "[]"


@dataclass(frozen=True, slots=True)
class Field:
    """A text at `path` that names a namespace or an object of one cluster-scoped kind.

    `[]` in `path` steps into the items of a list. `to` is "namespace" or the kind.
    """

    path: tuple[str, ...]
    to: str


@dataclass(frozen=True, slots=True)
class Typed:
    """An object at `path` whose `name` is projected when the kind beside it is cluster-scoped.

    `kind` and `group` are the keys that say so: `kind` holds a kind, or under the key `resource` a
    plural; `group` a group, or under the key `apiVersion` a group and version.
    `uid`: the kubelet's events give a node's name as its UID as well, and clients search by it.
    """

    path: tuple[str, ...]
    kind: str = "kind"
    group: str = "apiVersion"
    uid: bool = False

    def cluster_scoped(self, reference: Mapping[str, Any]) -> bool:
        """Whether `reference` says a built-in cluster-scoped kind.

        A group that is said must fit (longhorn.io has a namespaced Node); without one the kind
        alone decides, as events of nodes often say no more.
        """
        kind = reference.get(self.kind)
        known = _RESOURCES if self.kind == "resource" else CLUSTER_SCOPED
        group = known.get(kind) if isinstance(kind, str) else None
        if group is None:
            return False
        said = reference.get(self.group)
        if not said:
            return True
        if self.group == "apiVersion" and isinstance(said, str):
            said = said.rpartition("/")[0]
        return bool(said == group)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The keys that together tell how the name, and the UID, are read."""
        return (self.kind, self.group, "name", "uid") if self.uid else (
            self.kind, self.group, "name"
        )  # fmt: skip


Reference = Field | Typed

_SCOPE: Mapping[str, Mapping[str, str]] = {
    "": {
        "ComponentStatus": "componentstatuses",
        "Namespace": "namespaces",
        "Node": "nodes",
        "PersistentVolume": "persistentvolumes",
    },
    "admissionregistration.k8s.io": {
        "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
        "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
        "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
        "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    },
    "apiextensions.k8s.io": {"CustomResourceDefinition": "customresourcedefinitions"},
    "apiregistration.k8s.io": {"APIService": "apiservices"},
    "certificates.k8s.io": {
        "CertificateSigningRequest": "certificatesigningrequests",
        "ClusterTrustBundle": "clustertrustbundles",
    },
    "flowcontrol.apiserver.k8s.io": {
        "FlowSchema": "flowschemas",
        "PriorityLevelConfiguration": "prioritylevelconfigurations",
    },
    "internal.apiserver.k8s.io": {"StorageVersion": "storageversions"},
    "networking.k8s.io": {
        "IPAddress": "ipaddresses",
        "IngressClass": "ingressclasses",
        "ServiceCIDR": "servicecidrs",
    },
    "node.k8s.io": {"RuntimeClass": "runtimeclasses"},
    "rbac.authorization.k8s.io": {
        "ClusterRole": "clusterroles",
        "ClusterRoleBinding": "clusterrolebindings",
    },
    "resource.k8s.io": {
        "DeviceClass": "deviceclasses",
        "DeviceTaintRule": "devicetaintrules",
        "ResourcePoolStatusRequest": "resourcepoolstatusrequests",
        "ResourceSlice": "resourceslices",
    },
    "scheduling.k8s.io": {"PriorityClass": "priorityclasses"},
    "storage.k8s.io": {
        "CSIDriver": "csidrivers",
        "CSINode": "csinodes",
        "StorageClass": "storageclasses",
        "VolumeAttachment": "volumeattachments",
        "VolumeAttributesClass": "volumeattributesclasses",
    },
    "storagemigration.k8s.io": {"StorageVersionMigration": "storageversionmigrations"},
}

CLUSTER_SCOPED: Mapping[str, str] = {
    kind: group for group, kinds in _SCOPE.items() for kind in kinds
}
"""Built-in cluster-scoped kinds that another object can name, and their groups."""

_RESOURCES: Mapping[str, str] = {
    plural: group for group, kinds in _SCOPE.items() for plural in kinds.values()
}


def cluster_scoped(*, group: str, kind: str) -> bool:
    """Whether a built-in cluster-scoped kind is meant; `kind` may be its plural, as in Status."""
    return group in (CLUSTER_SCOPED.get(kind), _RESOURCES.get(kind))


# -- the table


def _path(text: str) -> tuple[str, ...]:
    """`subjects[].namespace` to ("subjects", "[]", "namespace")."""
    return tuple(text.replace("[]", ".[]").split(".")) if text else ()


def _namespaces(*paths: str) -> tuple[Reference, ...]:
    return tuple(Field(_path(path), "namespace") for path in paths)


def _names(kind: str, *paths: str) -> tuple[Reference, ...]:
    return tuple(Field(_path(path), kind) for path in paths)


def _objects(*paths: str, uid: bool = False) -> tuple[Reference, ...]:
    """ObjectReferences: the namespace, and the name where the kind has none."""
    return tuple(
        reference
        for path in paths
        for reference in (
            *_namespaces(f"{path}.namespace"),
            Typed(_path(path), uid=uid),
        )
    )


def _claim_spec(prefix: str) -> tuple[Reference, ...]:
    return (
        *_names("PersistentVolume", f"{prefix}.volumeName"),
        *_namespaces(f"{prefix}.dataSourceRef.namespace"),
    )


def _pod_spec(prefix: str) -> tuple[Reference, ...]:
    return (
        *_names("Node", f"{prefix}.nodeName"),
        *_claim_spec(f"{prefix}.volumes[].ephemeral.volumeClaimTemplate.spec"),
    )


def _volume_spec(prefix: str) -> tuple[Reference, ...]:
    return _namespaces(
        f"{prefix}.claimRef.namespace",
        f"{prefix}.azureFile.secretNamespace",
        f"{prefix}.cephfs.secretRef.namespace",
        f"{prefix}.cinder.secretRef.namespace",
        f"{prefix}.csi.controllerExpandSecretRef.namespace",
        f"{prefix}.csi.controllerPublishSecretRef.namespace",
        f"{prefix}.csi.nodeExpandSecretRef.namespace",
        f"{prefix}.csi.nodePublishSecretRef.namespace",
        f"{prefix}.csi.nodeStageSecretRef.namespace",
        f"{prefix}.flexVolume.secretRef.namespace",
        f"{prefix}.glusterfs.endpointsNamespace",
        f"{prefix}.iscsi.secretRef.namespace",
        f"{prefix}.rbd.secretRef.namespace",
        f"{prefix}.scaleIO.secretRef.namespace",
        f"{prefix}.storageos.secretRef.namespace",
    )


_BINDING: tuple[Reference, ...] = (
    *_namespaces("subjects[].namespace"),
    Typed(("roleRef",), group="apiGroup"),
)
_REVIEW: tuple[Reference, ...] = (
    *_namespaces("spec.resourceAttributes.namespace"),
    Typed(("spec", "resourceAttributes"), kind="resource", group="group"),
)
_POLICY_BINDING = _namespaces("spec.paramRef.namespace")
_WEBHOOKS = _namespaces("webhooks[].clientConfig.service.namespace")
_WORKLOAD = _pod_spec("spec.template.spec")

OWNERS = Typed(("metadata", "ownerReferences", ITEMS))
"""What every object may hold."""

REFERENCES: Mapping[tuple[str, str], tuple[Reference, ...]] = {
    ("", "Binding"): (*_names("Node", "target.name"), *_namespaces("target.namespace")),
    ("", "Endpoints"): tuple(
        reference
        for addresses in ("subsets[].addresses[]", "subsets[].notReadyAddresses[]")
        for reference in (
            *_names("Node", f"{addresses}.nodeName"),
            *_objects(f"{addresses}.targetRef"),
        )
    ),
    ("", "Event"): _objects("involvedObject", "related", uid=True),
    ("", "PersistentVolume"): _volume_spec("spec"),
    ("", "PersistentVolumeClaim"): _claim_spec("spec"),
    ("", "Pod"): (*_pod_spec("spec"), *_names("Node", "status.nominatedNodeName")),
    ("", "PodTemplate"): _pod_spec("template.spec"),
    ("", "ReplicationController"): _WORKLOAD,
    ("", "ServiceAccount"): _namespaces("secrets[].namespace"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): (
        *_names("MutatingAdmissionPolicy", "spec.policyName"),
        *_POLICY_BINDING,
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): (
        *_names("ValidatingAdmissionPolicy", "spec.policyName"),
        *_POLICY_BINDING,
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _namespaces(
        "spec.conversion.webhook.clientConfig.service.namespace"
    ),
    ("apiregistration.k8s.io", "APIService"): _namespaces("spec.service.namespace"),
    ("apps", "ControllerRevision"): _pod_spec("data.spec.template.spec"),
    ("apps", "DaemonSet"): _WORKLOAD,
    ("apps", "Deployment"): _WORKLOAD,
    ("apps", "ReplicaSet"): _WORKLOAD,
    ("apps", "StatefulSet"): (*_WORKLOAD, *_claim_spec("spec.volumeClaimTemplates[].spec")),
    ("authentication.k8s.io", "TokenRequest"): (Typed(("spec", "boundObjectRef")),),
    ("authorization.k8s.io", "LocalSubjectAccessReview"): _REVIEW,
    ("authorization.k8s.io", "SelfSubjectAccessReview"): _REVIEW,
    ("authorization.k8s.io", "SelfSubjectRulesReview"): _namespaces("spec.namespace"),
    ("authorization.k8s.io", "SubjectAccessReview"): _REVIEW,
    ("batch", "CronJob"): (
        *_pod_spec("spec.jobTemplate.spec.template.spec"),
        *_namespaces("status.active[].namespace"),
    ),
    ("batch", "Job"): _WORKLOAD,
    ("certificates.k8s.io", "PodCertificateRequest"): _names("Node", "spec.nodeName"),
    ("discovery.k8s.io", "EndpointSlice"): (
        *_names("Node", "endpoints[].nodeName"),
        *_objects("endpoints[].targetRef"),
    ),
    ("events.k8s.io", "Event"): _objects("regarding", "related", uid=True),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): (
        *_names("PriorityLevelConfiguration", "spec.priorityLevelConfiguration.name"),
        *_namespaces("spec.rules[].subjects[].serviceAccount.namespace"),
    ),
    ("networking.k8s.io", "IPAddress"): _namespaces("spec.parentRef.namespace"),
    ("networking.k8s.io", "IngressClass"): _namespaces("spec.parameters.namespace"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("resource.k8s.io", "ResourcePoolStatusRequest"): _names("Node", "status.pools[].nodeName"),
    ("resource.k8s.io", "ResourceSlice"): _names(
        "Node", "spec.nodeName", "spec.devices[].nodeName", "spec.devices[].basic.nodeName"
    ),
    ("storage.k8s.io", "VolumeAttachment"): (
        *_names("Node", "spec.nodeName"),
        *_names("PersistentVolume", "spec.source.persistentVolumeName"),
        *_volume_spec("spec.source.inlineVolumeSpec"),
    ),
}


def references_of(*, group: str, kind: str, custom: bool = False) -> tuple[Reference, ...]:
    """What objects of a kind refer to beside `OWNERS`; a custom resource to nothing known."""
    return () if custom else REFERENCES.get((group, kind), ())
