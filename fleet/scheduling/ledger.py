"""What is promised and not yet seen: pods of plans in flight, taken off the capacity of members.

A plan's pods are deducted from the moment it is made until they are seen bound in the member, so
that decisions that follow each other at once do not all see the same free nodes (karmada#1385).
A `Ledger` is a value: each change makes a new one. It can be made anew from the plans in flight at
any time; `Promises` are kept in step with them instead, so that a round costs what changed.
`placement` is asked with the clusters that `deducted` returns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fleet.scheduling.capacity import PodKind, ShardKey

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.placement import Shard


@dataclass(frozen=True, slots=True)
class Reservation:
    """Pods of one kind that a plan put into one member."""

    pods: int
    kind: PodKind
    blocks: tuple[tuple[str, int], ...] = ()


Outstanding = tuple[tuple[PodKind, int, tuple[tuple[str, int], ...]], ...]
"""Pods by kind, and in which blocks."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Reservations by workload, generation and member."""

    entries: Mapping[ShardKey, tuple[Reservation, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """One reservation for each role of a shard."""

    @classmethod
    def of(cls, ledgers: Iterable[Ledger]) -> Ledger:
        """All of them as one."""
        entries: dict[ShardKey, tuple[Reservation, ...]] = {}
        for each in ledgers:
            entries.update(each.entries)
        return cls(MappingProxyType(entries))

    def reserve(
        self, uid: str, kinds: PodKind | Mapping[str, PodKind], shards: Iterable[Shard]
    ) -> Ledger:
        """With shards of a workload, whose pods are of one kind or of one for each role; doing so
        twice changes nothing.
        """
        added = {
            ShardKey(uid, shard.generation, shard.cluster): tuple(_reservations(shard, kinds))
            for shard in shards
        }
        return Ledger(MappingProxyType({**self.entries, **added}))

    def release(self, uid: str) -> Ledger:
        """Without a workload's reservations."""
        left = {key: entry for key, entry in self.entries.items() if key.uid != uid}
        return self if len(left) == len(self.entries) else Ledger(MappingProxyType(left))

    def by_cluster(self) -> dict[str, Ledger]:
        """What is promised in each."""
        found: dict[str, dict[ShardKey, tuple[Reservation, ...]]] = {}
        for key, entry in self.entries.items():
            found.setdefault(key.cluster, {})[key] = entry
        return {cluster: Ledger(entries) for cluster, entries in found.items()}

    def outstanding(self, cluster: str, capacity: Capacity) -> Outstanding:
        """What is promised in a member and not seen there yet. Equal promises are told alike."""
        wanted: Counter[tuple[PodKind, bool]] = Counter()
        blocks: defaultdict[PodKind, Counter[str]] = defaultdict(Counter)
        there = [key for key in self.entries if key.cluster == cluster]
        for key in sorted(there, key=lambda each: (each.uid, each.generation)):
            for entry, pods in _outstanding(key, self.entries[key], capacity):
                wanted[entry.kind, bool(entry.blocks)] += pods
                if entry.blocks:
                    blocks[entry.kind].update(dict(entry.blocks))
        return tuple(
            (kind, pods, tuple(blocks[kind].items()) if placed else ())
            for (kind, placed), pods in wanted.items()
        )

    def deduct(self, cluster: str, capacity: Capacity) -> Capacity:
        """What is left of a member's capacity for new decisions."""
        return taken_off(capacity, self.outstanding(cluster, capacity))

    def deducted(self, clusters: Iterable[Cluster]) -> tuple[Cluster, ...]:
        """The clusters with what is left of their capacity."""
        return tuple(
            cluster
            if cluster.capacity is None
            else replace(cluster, capacity=self.deduct(cluster.name, cluster.capacity))
            for cluster in clusters
        )


_NOTHING: Final = Ledger()


class Promises:
    """The ledgers of many, as one by cluster: each is put, or put anew, by itself. No two promise
    the same shard."""

    def __init__(self) -> None:
        self._of: dict[Hashable, Ledger] = {}
        self._there: dict[str, dict[ShardKey, tuple[Reservation, ...]]] = {}
        self._ledgers: dict[str, Ledger] = {}
        """By cluster, until something of it changes."""

    def put(self, source: Hashable, ledger: Ledger = _NOTHING) -> None:
        """What one promises from here on."""
        before = self._of.pop(source, _NOTHING)
        if ledger.entries:
            self._of[source] = ledger
        if before is ledger or before.entries == ledger.entries:
            return
        for key in before.entries:
            there = self._there[key.cluster]
            del there[key]
            if not there:
                del self._there[key.cluster]
            self._ledgers.pop(key.cluster, None)
        for key, entry in ledger.entries.items():
            self._there.setdefault(key.cluster, {})[key] = entry
            self._ledgers.pop(key.cluster, None)

    def clear(self) -> None:
        for each in (self._of, self._there, self._ledgers):
            each.clear()

    def by_cluster(self) -> dict[str, Ledger]:
        """What is promised in each: the very same as before where nothing has changed."""
        for cluster in self._there.keys() - self._ledgers.keys():
            self._ledgers[cluster] = Ledger(MappingProxyType(dict(self._there[cluster])))
        return dict(self._ledgers)


def taken_off(capacity: Capacity, outstanding: Outstanding) -> Capacity:
    """Pods of a kind go together: a crowd of promises costs no more than its kinds do."""
    for kind, pods, blocks in outstanding:
        capacity = capacity.without(kind, pods, blocks=dict(blocks))
    return capacity


def _reservations(shard: Shard, kinds: PodKind | Mapping[str, PodKind]) -> Iterable[Reservation]:
    if isinstance(kinds, PodKind):
        yield Reservation(shard.pods, kinds, shard.blocks)
        return
    blocks = dict(shard.by_role)
    alone = len(shard.intervals) == 1
    for each in shard.intervals:
        there = blocks.get(each.role, shard.blocks if alone else ())
        yield Reservation(each.count, kinds[each.role], there)


def _outstanding(
    key: ShardKey, entries: Iterable[Reservation], capacity: Capacity
) -> Iterable[tuple[Reservation, int]]:
    """What of each is not seen yet. Pods are seen by shard, not by role: the first count first."""
    seen = capacity.seen.get((key.uid, key.generation), 0)
    for entry in entries:
        left = max(0, entry.pods - seen)
        seen -= entry.pods - left
        if left:
            yield entry, left
