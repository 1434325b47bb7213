"""Pods: one shard each, which is a Pod in the chosen member.

It is held as any shard is – on a node, at a gate that is shut – and never moved once it was
committed. A member keeps no lease of it: the one deadline that a Pod has can be brought closer but
not pushed away. So nothing is placed anew because of silence, and a hold does not lapse by itself;
what waits at a gate has started nothing, and goes when a gateway looks again. `shape` makes the
shard, `following` brings later changes to it, `fold` shows what the member says of it as the
fleet's Pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.pods import fold, following, shape, sight
from fleet.dispatch.shape import Workload
from fleet.dispatch.sight import pod_view
from fleet.dispatch.situation import Ask
from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.dispatch.kind import Kind, Propagation
    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.shape import Terms
    from fleet.dispatch.sight import PodView, ShardView, Sight

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodWorkload(Workload):
    """A fleet Pod, read once."""

    @property
    def kind(self) -> Kind:
        return PODS

    @property
    def template(self) -> Object:
        return self.obj

    @property
    def finished(self) -> bool:
        return (self.obj.get("status") or {}).get("phase") in fold.ENDED

    def ask(self) -> Ask:
        """A Pod has no dependents to leave behind: that it is `orphaned` says nothing."""
        # Without a node its period is 0 whatever the user said.
        placed = bool(self.spec.get("nodeName"))
        grace_s = self.obj["metadata"].get("deletionGracePeriodSeconds")
        return Ask(
            name=self.name,
            suspended=bool(self.spec.get("schedulingGates")),
            deleting=self.deleting,
            grace_s=grace_s if placed and self.deleting else None,
            lapses=False,
            moves=False,
            end_s=int(self.spec.get("terminationGracePeriodSeconds") or 0),
        )


class Pods:
    """The kind Pod. See `fleet.dispatch.kind.Kind`."""

    name: Final = "Pod"
    gvr: Final = GroupVersionResource("", "v1", "pods")
    lapses: Final = False
    propagation: Final[Propagation] = "Background"

    def read(self, obj: Object) -> Workload:
        return PodWorkload(obj)

    def stub(self, metadata: Object) -> Workload:
        return PodWorkload({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}})

    def gate_name(self, shard: str) -> str:
        return shape.gate_name(shard)

    def shape(self, workload: Workload, shard: Shard, terms: Terms) -> Object:
        return shape.pod_of(workload, shard, terms)

    def view(self, obj: Mapping[str, Any]) -> ShardView:
        return sight.shard_view(obj)

    def pods_in(self, obj: Mapping[str, Any]) -> tuple[PodView, ...] | None:
        return (pod_view(obj),)

    def deadline(self, seconds: int) -> Object:
        return {"spec": {"activeDeadlineSeconds": seconds}}

    def unleased(self, workload: Workload) -> Object:
        return {}

    def sized(self, workload: Workload, count: int) -> Object:
        return {}

    def followed(self, workload: Workload, view: ShardView) -> Object | None:
        assert isinstance(view, sight.PodShard)
        return following.patch_of(workload.obj, view.pod)

    def fold(
        self, workload: Workload, record: Record, sights: Mapping[str, Sight], *, now: float
    ) -> Object:
        return fold.fold(workload.obj, record, sights, now=now)


PODS: Final = Pods()
