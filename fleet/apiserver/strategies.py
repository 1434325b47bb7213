"""How kinds differ in what a write does, beyond defaults and validation.

Upstream spreads these facts over the registries (`AllowCreateOnUpdate`,
`DefaultGarbageCollectionPolicy`, `ReturnDeletedObject`, k8s.io/kubernetes/pkg/registry, 1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fleet.kube.resources import Resource

_RBAC: Final = "rbac.authorization.k8s.io"

_MADE_BY_PUT: Final = frozenset({
    ("", "endpoints"), ("", "events"), ("", "limitranges"), ("", "services"),
    ("coordination.k8s.io", "leases"), ("coordination.k8s.io", "leasecandidates"),
    ("events.k8s.io", "events"), ("node.k8s.io", "runtimeclasses"),
    (_RBAC, "clusterrolebindings"), (_RBAC, "clusterroles"), (_RBAC, "rolebindings"),
    (_RBAC, "roles"),
})  # fmt: skip
_ORPHANING: Final = frozenset({("", "replicationcontrollers"), ("batch", "jobs")})
_NOT_COLLECTED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
_RETURNED: Final = frozenset({
    ("", "namespaces"), ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("", "pods"),
    ("", "podtemplates"), ("", "resourcequotas"), ("", "serviceaccounts"), ("", "services"),
    ("storage.k8s.io", "csidrivers"), ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"), ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"), ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
})  # fmt: skip

PODS_PRESERVED: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


def made_by_put(resource: Resource) -> bool:
    """Whether a PUT to a name that is free creates the object."""
    return _key(resource) in _MADE_BY_PUT


def orphans_by_default(resource: Resource) -> bool:
    """Whether a DELETE that says nothing of dependents leaves them behind."""
    return _key(resource) in _ORPHANING


def has_dependents(resource: Resource) -> bool:
    """Whether a DELETE may set finalizers of the garbage collector at all."""
    return _key(resource) not in _NOT_COLLECTED


def returns_deleted(resource: Resource) -> bool:
    """Whether DELETE answers with the object that is gone, not with a Status."""
    return _key(resource) in _RETURNED


def _key(resource: Resource) -> tuple[str, str]:
    return (resource.gvr.group, resource.gvr.resource)
