"""What a small cluster serves: the rows of its discovery.

A resource is here when something acts on it or a client of a small cluster needs it stored;
workload kinds that no controller of ours runs (StatefulSet, DaemonSet, CronJob) are left out, so
that creating one fails at once instead of waiting for ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable


def _row(
    group: str, resource: str, *, subresources: Iterable[str] = (), version: str = "v1"
) -> Resource:
    row = builtin.resource(GroupVersionResource(group, version, resource))
    if row is None:
        raise LookupError(f"the release has no {resource} in {group or 'the core group'}")
    wanted = frozenset(subresources)
    return replace(row, subresources=tuple(s for s in row.subresources if s.name in wanted))


NAMESPACES: Final = _row("", "namespaces", subresources=("status", "finalize"))
NODES: Final = _row("", "nodes", subresources=("status",))
PODS: Final = _row(
    "",
    "pods",
    subresources=("attach", "binding", "eviction", "exec", "log", "portforward", "status"),
)
SERVICES: Final = _row("", "services", subresources=("status",))
CONFIG_MAPS: Final = _row("", "configmaps")
SECRETS: Final = _row("", "secrets")
SERVICE_ACCOUNTS: Final = _row("", "serviceaccounts")
EVENTS: Final = _row("", "events")
DEPLOYMENTS: Final = _row("apps", "deployments", subresources=("scale", "status"))
REPLICA_SETS: Final = _row("apps", "replicasets", subresources=("scale", "status"))
JOBS: Final = _row("batch", "jobs", subresources=("status",))
LEASES: Final = _row("coordination.k8s.io", "leases")
ENDPOINT_SLICES: Final = _row("discovery.k8s.io", "endpointslices")
PRIORITY_CLASSES: Final = _row("scheduling.k8s.io", "priorityclasses")

_RBAC: Final = "rbac.authorization.k8s.io"
STORED: Final = (
    *(
        _row(_RBAC, name)
        for name in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
    ),
    _row("networking.k8s.io", "networkpolicies"),
)
"""Kept for whoever reads them back. Authorization is not enforced (see `access`), nor, as in any
cluster whose network does not know them, are NetworkPolicies."""

REVIEWS: Final = (
    _row("authentication.k8s.io", "selfsubjectreviews"),
    *(
        _row("authorization.k8s.io", name)
        for name in (
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        )
    ),
)

ALL: Final[tuple[Resource, ...]] = (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    DEPLOYMENTS,
    REPLICA_SETS,
    JOBS,
    LEASES,
    ENDPOINT_SLICES,
    *STORED,
    PRIORITY_CLASSES,
    *REVIEWS,
)
