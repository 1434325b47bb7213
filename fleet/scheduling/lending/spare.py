"""What of the members' free capacity a donor's work could have: the spare that survives a cluster.

Reads a `Rooms` as it is in the middle of a round, with all that was decided taken off. Only members
that take work and whose capacity is known count, and only where there are nodes for what the donor
is guaranteed: where nobody could put it there is no spare. Next step: `desk` asks.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleet.scheduling.lending.seats import pods_of, unseated
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.requests import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.placer import Placed
    from fleet.scheduling.rooms import Rooms
    from fleet.scheduling.stock import PodKind


class Spare:
    """See `fleet.scheduling.lending.floors.Members`."""

    def __init__(
        self,
        rooms: Rooms,
        keys_of: Callable[[str], Collection[Key]],
        *,
        work_of: Callable[[str], str] = lambda donor: "",
    ) -> None:
        """`keys_of` says what a donor is guaranteed any of, `work_of` the class of its work, ""
        where that shares its nodes with others."""
        self._rooms = rooms
        self._keys_of = keys_of
        self._work_of = work_of
        self._sums: dict[tuple[str, str], tuple[Capacity, Mapping[Key, int] | None]] = {}
        """By donor and cluster, of the capacity that was seen last."""
        self._ours: tuple[Sequence[Placed], Mapping[str, Mapping[PodKind, int]]] | None = None
        """What was asked about last, in pods: the same is asked about again and again."""

    def free(
        self, donor: str, *, without: Collection[str] = (), beside: Placed | None = None
    ) -> Mapping[str, Mapping[Key, int]]:
        plain = not without and beside is None
        found = {}
        for name, capacity in self._open(donor, without, beside).items():
            amounts = self._of(donor, name, capacity, keep=plain)
            if amounts is not None:
                found[name] = amounts
        return found

    def unseated(
        self,
        donor: str,
        *,
        ours: Sequence[Placed],
        coming: Iterable[str],
        without: Collection[str] = (),
        beside: Placed | None = None,
    ) -> int:
        if self._ours is None or self._ours[0] is not ours:
            there: dict[str, Counter[PodKind]] = {}
            for placed in ours:
                for name, pods in pods_of(placed).items():
                    there.setdefault(name, Counter()).update(pods)
            self._ours = ours, there
        waits: Counter[PodKind] = Counter()
        for uid in coming:
            waits.update(self._rooms.pods_of(uid))
        resources = {key.resource for key in self._keys_of(donor)}
        left = self._open(donor, without, beside)
        return unseated(self._ours[1], waits, left, resources=resources)

    def _open(
        self, donor: str, without: Collection[str], beside: Placed | None
    ) -> dict[str, Capacity]:
        """Of the clusters that take work, what is known and left to the donor."""
        work = self._work_of(donor)
        there = self._rooms.clusters(without=without, beside=beside, work=work)
        return {
            name: cluster.capacity
            for name, cluster in there.items()
            if cluster.capacity is not None and self._is_open(cluster)
        }

    def _is_open(self, cluster: Cluster) -> bool:
        if cluster.capacity is None or not cluster.ready or cluster.cordoned:
            return False
        return self._rooms.now_s - cluster.capacity.as_of_s <= cluster.max_age_s

    def _of(
        self, donor: str, cluster: str, capacity: Capacity, *, keep: bool
    ) -> Mapping[Key, int] | None:
        known = self._sums.get((donor, cluster))
        if known is not None and known[0].alike(capacity):
            return known[1]
        found = self._sum(donor, capacity)
        if keep:
            self._sums[donor, cluster] = (capacity, found)
        return found

    def _sum(self, donor: str, capacity: Capacity) -> Mapping[Key, int] | None:
        """None where no node is of use to the donor."""
        keys = self._keys_of(donor)
        names = {key.resource for key in keys}
        of_use = False
        found: dict[Key, int] = {}
        for node, free, count in (each for b in capacity.blocks.values() for each in b.kinds()):
            for name in names:
                kind = node.accelerator if is_accelerator(name) else ""
                if not node.allocatable.get(name) or not any(
                    key.resource == name and key.accelerator in ("", kind) for key in keys
                ):
                    continue
                of_use = True
                if not node.unusable:
                    key = Key(name, kind)
                    found[key] = found.get(key, 0) + count * max(0, free.get(name, 0))
        return found if of_use else None
