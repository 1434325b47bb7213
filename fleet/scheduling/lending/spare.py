"""What of the members' free capacity a donor's work could have: the spare that survives a cluster.

Reads a `Rooms` as it is in the middle of a round, with all that was decided taken off. Only members
that take work and whose capacity is known count, and only where there are nodes for what the donor
is guaranteed: where nobody could put it there is no spare. Next step: `desk` asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.scheduling.quota.tree import Key
from fleet.scheduling.requests import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.placer import Placed
    from fleet.scheduling.rooms import Rooms


class Spare:
    """See `fleet.scheduling.lending.desk.Members`."""

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

    def free(
        self, donor: str, *, without: Collection[str] = (), beside: Placed | None = None
    ) -> Mapping[str, Mapping[Key, int]]:
        plain = not without and beside is None
        found = {}
        work = self._work_of(donor)
        there = self._rooms.clusters(without=without, beside=beside, work=work)
        for cluster in there.values():
            if not self._is_open(cluster) or cluster.capacity is None:
                continue
            amounts = self._of(donor, cluster.name, cluster.capacity, keep=plain)
            if amounts is not None:
                found[cluster.name] = amounts
        return found

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
