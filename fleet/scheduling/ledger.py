"""What is promised and not yet seen: pods of plans in flight, taken off the capacity of members.

A plan's pods are deducted from the moment it is made until they are seen bound in the member, so
that decisions that follow each other at once do not all see the same free nodes (karmada#1385).
A value: each change makes a new ledger. It can be made anew from the plans in flight at any time;
`placement` is asked with the clusters that `deducted` returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleet.scheduling.capacity import ShardKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.scheduling.capacity import Capacity, PodKind
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.placement import Plan


@dataclass(frozen=True, slots=True)
class Reservation:
    """Pods that a plan put into one member."""

    pods: int
    kind: PodKind
    blocks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """Reservations by workload, generation and member."""

    entries: Mapping[ShardKey, Reservation] = field(default_factory=lambda: MappingProxyType({}))

    def reserve(self, plan: Plan) -> Ledger:
        """With the shards that this generation of the plan added; doing so twice changes nothing.

        Shards that were kept stand in the ledger under the generation that added them.
        """
        workload = plan.demand.workload
        added = {
            ShardKey(workload.uid, shard.generation, shard.cluster): Reservation(
                shard.pods, plan.demand.role.kind, shard.blocks
            )
            for shard in plan.shards
            if shard.generation == plan.generation
        }
        return Ledger(MappingProxyType({**self.entries, **added}))

    def release(
        self, uid: str, *, generation: int | None = None, cluster: str | None = None
    ) -> Ledger:
        """Without a workload's reservations; of one generation or one member only, where given."""
        left = {
            key: entry
            for key, entry in self.entries.items()
            if key.uid != uid
            or (generation is not None and key.generation != generation)
            or (cluster is not None and key.cluster != cluster)
        }
        return self if len(left) == len(self.entries) else Ledger(MappingProxyType(left))

    def settle(self, capacities: Mapping[str, Capacity]) -> Ledger:
        """Without the reservations whose pods were all seen bound."""
        left = {
            key: entry
            for key, entry in self.entries.items()
            if key.cluster not in capacities or _outstanding(key, entry, capacities[key.cluster])
        }
        return self if len(left) == len(self.entries) else Ledger(MappingProxyType(left))

    def deduct(self, cluster: str, capacity: Capacity) -> Capacity:
        """What is left of a member's capacity for new decisions."""
        for key in sorted(self.entries, key=lambda each: (each.uid, each.generation)):
            if key.cluster == cluster:
                entry = self.entries[key]
                pods = _outstanding(key, entry, capacity)
                if pods:
                    capacity = capacity.without(entry.kind, pods, blocks=dict(entry.blocks))
        return capacity

    def deducted(self, clusters: Iterable[Cluster]) -> tuple[Cluster, ...]:
        """The clusters with what is left of their capacity."""
        return tuple(
            cluster
            if cluster.capacity is None
            else replace(cluster, capacity=self.deduct(cluster.name, cluster.capacity))
            for cluster in clusters
        )


def _outstanding(key: ShardKey, entry: Reservation, capacity: Capacity) -> int:
    return max(0, entry.pods - capacity.seen.get((key.uid, key.generation), 0))
