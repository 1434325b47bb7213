"""Objects of kinds that nobody carries out yet: what is told of them as soon as they are created.

Of workloads an Event, for who looks later; `fleet.gateway.workload_warnings` warns whoever writes,
of rules too that nothing obeys: what looks like a protection and is none has to say so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.apiserver.controllers.queue import Queue
from fleet.dispatch.kinds import row_of
from fleet.dispatch.marks import ACCEPT_LABEL
from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from contextlib import ExitStack

    from fleet.dispatch.chronicle import Chronicle
    from fleet.store.collection import Event
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

BUILT_IN: Final = (
    GroupVersionResource("apps", "v1", "daemonsets"),
    GroupVersionResource("apps", "v1", "deployments"),
    GroupVersionResource("apps", "v1", "replicasets"),
    GroupVersionResource("apps", "v1", "statefulsets"),
    GroupVersionResource("batch", "v1", "cronjobs"),
)
_CUSTOM_GROUPS: Final = frozenset({
    "batch.volcano.sh", "jobset.x-k8s.io", "kubeflow.org", "leaderworkerset.x-k8s.io", "ray.io",
    "trainer.kubeflow.org",
})  # fmt: skip

UNHEEDED: Final = {
    GroupVersionResource("", "v1", "limitranges"): "no pod gets its defaults or is held to it",
    GroupVersionResource("", "v1", "persistentvolumeclaims"): "no volume is made for it",
    GroupVersionResource("", "v1", "resourcequotas"): (
        "what a namespace may use is limited by a FleetQuota"
    ),
    GroupVersionResource("", "v1", "services"): (
        "it has no address and does not go where the pods go; what ranks of a gang need to find "
        "each other is made for them"
    ),
    GroupVersionResource("autoscaling", "v2", "horizontalpodautoscalers"): "it scales nothing",
    GroupVersionResource("networking.k8s.io", "v1", "ingresses"): "nothing is routed by it",
    GroupVersionResource("networking.k8s.io", "v1", "networkpolicies"): (
        "pods of the fleet are as open as their members let them be"
    ),
    GroupVersionResource("policy", "v1", "poddisruptionbudgets"): "evictions do not ask it",
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings"): (
        "the fleet knows one user, the admin, who may do everything"
    ),
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles"): (
        "the fleet knows one user, the admin, who may do everything"
    ),
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "rolebindings"): (
        "the fleet knows one user, the admin, who may do everything"
    ),
    GroupVersionResource("rbac.authorization.k8s.io", "v1", "roles"): (
        "the fleet knows one user, the admin, who may do everything"
    ),
}
"""Kinds that are kept, and what that means for who counts on them."""


class _Key(NamedTuple):
    gvr: GroupVersionResource
    namespace: str
    name: str


class Unplaced:
    """Tells an Event about each that is created."""

    def __init__(self, store: ObjectStore, chronicle: Chronicle) -> None:
        self._store = store
        self._chronicle = chronicle
        self._queue: Queue[_Key] = Queue("workloads that are not placed")

    def follow(self, stack: ExitStack) -> None:
        for gvr in BUILT_IN:
            collection = self._store.collection(row_of(gvr))
            stack.callback(collection.follow(partial(self._changed, gvr)))

    def _changed(self, gvr: GroupVersionResource, event: Event) -> None:
        if event.previous is None and not event.deleted:
            self._queue.add(_Key(gvr, *event.entry.key))

    async def run(self) -> None:
        await self._queue.work(self._tell, workers=1)

    async def _tell(self, key: _Key) -> None:
        entry = self._store.get(row_of(key.gvr), key.namespace, key.name)
        if entry is not None:
            obj = entry.parse()
            await self._chronicle.tell(obj, "Warning", "NotPlaced", why(obj["kind"], key.namespace))


def is_unplaced(gvr: GroupVersionResource) -> bool:
    """Whether objects of a resource are workloads that nobody carries out."""
    return gvr in BUILT_IN or gvr.group in _CUSTOM_GROUPS


def why(kind: str, namespace: str) -> str:
    """What whoever made one has to know. The fleet makes its namespaces in members with the first
    work that goes there, so the way into one begins with the namespace."""
    there = f"{namespace}.MEMBER"
    return (
        f"the fleet does not run {_a(kind)} yet: it is kept, and no pods are made of it; the fleet "
        f"runs Jobs and Pods. To run it in one member, create it there, -n {there}; where MEMBER "
        f"has no namespace {namespace}: kubectl create namespace {there} && kubectl label "
        f"namespace {there} {ACCEPT_LABEL}=true (the label lets the fleet use it too)"
    )


def unheeded(gvr: GroupVersionResource, kind: str, namespace: str) -> str:
    """What whoever writes a rule that nothing obeys has to know; "" for other kinds."""
    meaning = UNHEEDED.get(gvr)
    if meaning is None:
        return ""
    where = f"create it there, -n {namespace}.MEMBER" if namespace else "use --context MEMBER"
    return (
        f"the fleet keeps {_a(kind)} and does not act on it yet: {meaning}. For one member, {where}"
    )


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'AEIO' else 'a'} {kind}"
