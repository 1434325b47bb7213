"""Units of several sorts in the blocks of one cluster, so that all of them find room.

One after the other, the largest first, each into the block where it takes least from those that are
still to come: where these would run short first of all, then where they have least to spare. Where
not all find room so, other orders are tried. Which blocks cost less is minded before that.
Next step: `batch` seats gangs in the blocks that were found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.stock import Block
    from fleet.scheduling.totals import Sort

_TRIES: Final = 5


class Lot(NamedTuple):
    """What one gang has in the cluster."""

    sort: int
    """Its position."""
    units: int
    slopes: Mapping[str, int]
    """What a unit costs by block; blocks that are not in it may not be used."""


class Stowed(NamedTuple):
    """Units of each lot by block, and of each what found no room, where not all did."""

    blocks: tuple[dict[str, int], ...]
    left: tuple[int, ...]


class _Rack:
    """A block as it is after some units, and what comes of one more of a sort."""

    __slots__ = ("_block", "_more", "_sorts", "rooms")

    def __init__(self, block: Block, sorts: Sequence[Sort]) -> None:
        self._block = block
        self._sorts = sorts
        self._more: dict[int, _Rack] = {}
        self.rooms = tuple(
            sum(room.pods for room in block.rooms(sort.kind)) // sort.pods for sort in sorts
        )
        """Units of each sort, if there were only that one."""

    def more(self, sort: int, known: dict[tuple[int, ...], _Rack]) -> _Rack:
        found = self._more.get(sort)
        if found is None:
            of = self._sorts[sort]
            block = self._block.take(of.kind, of.pods)[0]
            found = known.get(block.states)
            if found is None:
                found = known[block.states] = _Rack(block, self._sorts)
            self._more[sort] = found
        return found


class Stowage:
    """The blocks of one cluster, with what was learnt of them from one question to the next."""

    def __init__(self, capacity: Capacity, sorts: Sequence[Sort]) -> None:
        self.sorts = sorts
        self.racks = {name: _Rack(block, sorts) for name, block in capacity.blocks.items()}
        self._known: dict[str, dict[tuple[int, ...], _Rack]] = {name: {} for name in self.racks}
        self.worth = [max(1, sort.whole) for sort in sorts]
        # Whoever finds room for one of a sort might have taken one of these instead.
        self.larger = [
            [
                at
                for at, other in enumerate(sorts)
                if other.size >= sort.size and other.whole >= sort.whole
            ]
            for sort in sorts
        ]

    def stow(self, lots: Sequence[Lot], *, chance: Random) -> Stowed:
        """A way that leaves nothing over if one is found, else the one that leaves least."""
        sizes = [(-self.sorts[lot.sort].size, -self._whole(lot)) for lot in lots]
        by_size = sorted(range(len(lots)), key=lambda at: (*sizes[at], at))
        by_whole = sorted(range(len(lots)), key=lambda at: (*sizes[at][::-1], at))
        best: tuple[int, Stowed] | None = None
        for tried in range(_TRIES):
            order = [by_size, by_whole][tried % 2]
            found = _Hold(self, lots).fill(order, chance if tried > 1 else None)
            over = sum(left * self._whole(lot) for left, lot in zip(found.left, lots, strict=True))
            if best is None or over < best[0]:
                best = over, found
            if not over:
                break
        assert best is not None
        return best[1]

    def _whole(self, lot: Lot) -> int:
        sort = self.sorts[lot.sort]
        return sort.whole or sort.pods

    def more(self, name: str, rack: _Rack, sort: int) -> _Rack:
        return rack.more(sort, self._known[name])


class _Hold:
    """One try."""

    def __init__(self, stowage: Stowage, lots: Sequence[Lot]) -> None:
        self._stowage = stowage
        self._lots = lots
        self._racks = dict(stowage.racks)
        self._wanted = [0] * len(stowage.sorts)
        for lot in lots:
            self._wanted[lot.sort] += lot.units

    def fill(self, order: Sequence[int], chance: Random | None) -> Stowed:
        blocks: list[dict[str, int]] = [{} for _ in self._lots]
        left = [lot.units for lot in self._lots]
        for at in order:
            lot = self._lots[at]
            while left[at]:
                name = self._where(lot, chance)
                if name is None:
                    self._wanted[lot.sort] -= left[at]
                    break
                self._racks[name] = self._stowage.more(name, self._racks[name], lot.sort)
                self._wanted[lot.sort] -= 1
                left[at] -= 1
                blocks[at][name] = blocks[at].get(name, 0) + 1
        return Stowed(tuple(blocks), tuple(left))

    def _where(self, lot: Lot, chance: Random | None) -> str | None:
        racks, sort = self._racks, lot.sort
        open_ = [name for name in lot.slopes if name in racks and racks[name].rooms[sort]]
        if not open_:
            return None
        cheapest = min(lot.slopes[name] for name in open_)
        there = sorted(name for name in open_ if lot.slopes[name] == cheapest)
        if len(there) == 1:
            return there[0]
        spare = self._spare(sort)
        worth = self._stowage.worth
        best: tuple[float, float, int] | None = None
        found = None
        for name in there:
            before = racks[name].rooms
            after = self._stowage.more(name, racks[name], sort).rooms
            short, cost = 0, 0.0
            for at, slack in spare:
                lost = (before[at] - after[at]) * worth[at]
                if lost > slack:
                    short += lost - max(0, slack)
                cost += lost / (1 + max(0, slack))
            if chance is not None:
                cost *= 0.7 + 0.6 * chance.random()
            key = float(short), cost, before[sort]
            if best is None or key < best:
                best, found = key, name
        return found

    def _spare(self, placed: int) -> list[tuple[int, int]]:
        """What the cluster has more of each sort that is still to come than will be wanted of it,
        once one unit of `placed` has its place."""
        wanted = list(self._wanted)
        wanted[placed] -= 1
        worth = self._stowage.worth
        spare = []
        for at, larger in enumerate(self._stowage.larger):
            asked = sum(wanted[other] * worth[other] for other in larger)
            if asked:
                room = sum(rack.rooms[at] for rack in self._racks.values()) * worth[at]
                spare.append((at, room - asked))
        return spare
