"""Who may be beside whom in a member, told to dispatch: `fleet.scheduling.lending.isolation`, with
what is known of the member's nodes.

Pods that carry their class keep others away themselves; nodes on which work without a class uses
accelerators are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.gateway.books import NODES, PODS
from fleet.scheduling.lending import isolation
from fleet.scheduling.requests import is_accelerator, pod_request

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fleet.kube.resources import GroupVersionResource
    from fleet.view.world import World

Object = dict[str, Any]

_HOST_NAME: Final = isolation.HOST_NAME


class Neighbours:
    """See `fleet.dispatch.walls.Neighbours`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def alone(self, cluster: str, template: Object, *, work: str) -> Object:
        nodes = isolation.classes_by_node(self._objects(PODS, cluster), counts=_takes_what_is_lent)
        unlabelled = {name for name, classes in nodes.items() if "" in classes}
        hosts = {
            str((node["metadata"].get("labels") or {}).get(_HOST_NAME) or node["metadata"]["name"])
            for node in self._objects(NODES, cluster)
            if node["metadata"]["name"] in unlabelled
        }
        return isolation.alone(template, work=work, others=hosts)

    def wall(
        self, *, namespace: str, workload: str, uid: str, work: str, elsewhere: Collection[str]
    ) -> Object:
        return isolation.network_policy(
            namespace=namespace, workload=workload, uid=uid, work=work, elsewhere=elsewhere
        )

    def _objects(self, gvr: GroupVersionResource, cluster: str) -> Iterator[Object]:
        merged = self._world.running(gvr)
        for collection in (merged.collection, merged.hidden) if merged is not None else ():
            for entry in collection.snapshot().entries():
                if entry.member == cluster:
                    yield entry.parse()


def _takes_what_is_lent(pod: Object) -> bool:
    return any(amount and is_accelerator(name) for name, amount in pod_request(pod).items())
