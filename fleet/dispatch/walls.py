"""The NetworkPolicy that goes with work that is kept apart, and goes away with it.

It belongs to the shard's object in the member, so the member removes both together. It is made
right after that, where a dry run said that it would be let in, and before the gate opens, at which
the first pod waits; and is brought up to date as pods in other members get addresses.
What it says is not decided here: `Neighbours` does, which is wired outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.shape import Workload
    from fleet.dispatch.sight import Sight

Object = dict[str, Any]

NETWORK_POLICIES: Final = GroupVersionResource("networking.k8s.io", "v1", "networkpolicies")


class Neighbours(Protocol):
    """Who may be beside whom in a member."""

    def alone(self, cluster: str, template: Object, *, work: str) -> Object:
        """A template, or a Pod, whose pods share nodes with their class alone."""

    def wall(
        self, *, namespace: str, workload: str, uid: str, work: str, elsewhere: Collection[str]
    ) -> Object:
        """The NetworkPolicy of a workload; `elsewhere` are CIDRs of its pods in other members."""


def wall(
    neighbours: Neighbours,
    workload: Workload,
    shard: Shard,
    record: Record,
    sights: Mapping[str, Sight],
    metadata: Object,
) -> Object:
    """The NetworkPolicy of a shard, with `metadata` of the fleet's beside its own."""
    made = neighbours.wall(
        namespace=workload.namespace,
        workload=f"{shard.name(workload.name)}-{workload.kind.name.lower()}",
        uid=workload.uid,
        work=record.apart.work,
        elsewhere=sorted(_elsewhere(shard, record, sights)),
    )
    labels = {**made["metadata"]["labels"], **metadata["labels"]}
    return {**made, "metadata": {**metadata, "name": made["metadata"]["name"], "labels": labels}}


def _elsewhere(shard: Shard, record: Record, sights: Mapping[str, Sight]) -> Iterator[str]:
    for other in record.shards:
        sight = sights.get(other.cluster)
        if other.cluster == shard.cluster or sight is None:
            continue
        for pod in sight.pods:
            if pod.address:
                yield f"{pod.address}/{128 if ':' in pod.address else 32}"
