"""What is promised and not yet seen: pods of plans in flight, taken off the capacity of members.

A plan's pods are deducted from the moment it is made until they are seen bound in the member, so
that decisions that follow each other at once do not all see the same free nodes (karmada#1385).
A value: each change makes a new ledger. It can be made anew from the plans in flight at any time;
`placement` is asked with the clusters that `deducted` returns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleet.scheduling.capacity import ShardKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.scheduling.capacity import Capacity, PodKind
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.placement import Shard


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

    @classmethod
    def of(cls, ledgers: Iterable[Ledger]) -> Ledger:
        """All of them as one."""
        entries: dict[ShardKey, Reservation] = {}
        for each in ledgers:
            entries.update(each.entries)
        return cls(MappingProxyType(entries))

    def reserve(self, uid: str, kind: PodKind, shards: Iterable[Shard]) -> Ledger:
        """With shards of a workload whose pods are of a kind; doing so twice changes nothing."""
        added = {
            ShardKey(uid, shard.generation, shard.cluster): Reservation(
                shard.pods, kind, shard.blocks
            )
            for shard in shards
        }
        return Ledger(MappingProxyType({**self.entries, **added}))

    def release(self, uid: str) -> Ledger:
        """Without a workload's reservations."""
        left = {key: entry for key, entry in self.entries.items() if key.uid != uid}
        return self if len(left) == len(self.entries) else Ledger(MappingProxyType(left))

    def deduct(self, cluster: str, capacity: Capacity) -> Capacity:
        """What is left of a member's capacity for new decisions.

        Pods of a kind are taken off together: a crowd of promises costs no more than its kinds do.
        """
        wanted: Counter[tuple[PodKind, bool]] = Counter()
        blocks: defaultdict[PodKind, Counter[str]] = defaultdict(Counter)
        there = [key for key in self.entries if key.cluster == cluster]
        for key in sorted(there, key=lambda each: (each.uid, each.generation)):
            entry = self.entries[key]
            if pods := _outstanding(key, entry, capacity):
                wanted[entry.kind, bool(entry.blocks)] += pods
                if entry.blocks:
                    blocks[entry.kind].update(dict(entry.blocks))
        for (kind, placed), pods in wanted.items():
            capacity = capacity.without(kind, pods, blocks=blocks[kind] if placed else None)
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
