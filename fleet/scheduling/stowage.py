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

_TRIES: Final = 12


class Lot(NamedTuple):
    """What one gang has in the cluster."""

    sort: Sort
    units: int
    slopes: Mapping[str, int]
    """What a unit costs by block; blocks that are not in it may not be used."""


class Stowed(NamedTuple):
    """Units of each lot by block, and of each what found no room, where not all did."""

    blocks: tuple[dict[str, int], ...]
    left: tuple[int, ...]


def stow(capacity: Capacity, lots: Sequence[Lot], *, chance: Random) -> Stowed:
    """A way that leaves nothing over if one is found, else the one that leaves least."""
    by_size = sorted(range(len(lots)), key=lambda at: (-lots[at].sort.size, -_whole(lots[at]), at))
    by_whole = sorted(range(len(lots)), key=lambda at: (-_whole(lots[at]), -lots[at].sort.size, at))
    best: Stowed | None = None
    for tried in range(_TRIES):
        order = [by_size, by_whole][tried % 2]
        found = _Hold(capacity, lots).fill(order, chance if tried > 1 else None)
        if best is None or _over(found, lots) < _over(best, lots):
            best = found
        if not any(best.left):
            break
    assert best is not None
    return best


def _whole(lot: Lot) -> int:
    return lot.sort.whole or lot.sort.pods


def _over(found: Stowed, lots: Sequence[Lot]) -> int:
    return sum(left * _whole(lot) for left, lot in zip(found.left, lots, strict=True))


class _Hold:
    def __init__(self, capacity: Capacity, lots: Sequence[Lot]) -> None:
        self._lots = lots
        self._sorts = list(dict.fromkeys(lot.sort for lot in lots))
        self._of = [self._sorts.index(lot.sort) for lot in lots]
        self._blocks = dict(capacity.blocks)
        self._memo: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}
        self._taken: dict[tuple[str, tuple[int, ...], int], Block] = {}
        self._worth = [max(1, sort.whole) for sort in self._sorts]
        # Whoever finds room for one of a sort might have taken one of these instead.
        self._larger = [
            [
                at
                for at, other in enumerate(self._sorts)
                if other.size >= sort.size and other.whole >= sort.whole
            ]
            for sort in self._sorts
        ]
        self._wanted = [0] * len(self._sorts)
        for lot, sort in zip(lots, self._of, strict=True):
            self._wanted[sort] += lot.units
        self._rooms = {name: self._room(block) for name, block in self._blocks.items()}

    def _room(self, block: Block) -> tuple[int, ...]:
        """Units of each sort, if there were only that one."""
        key = block.name, block.states
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = tuple(
                sum(room.pods for room in block.rooms(sort.kind)) // sort.pods
                for sort in self._sorts
            )
        return found

    def _with(self, name: str, sort: int) -> Block:
        """The block with one more unit."""
        block = self._blocks[name]
        key = name, block.states, sort
        found = self._taken.get(key)
        if found is None:
            found = block.take(self._sorts[sort].kind, self._sorts[sort].pods)[0]
            self._taken[key] = found
        return found

    def fill(self, order: Sequence[int], chance: Random | None) -> Stowed:
        blocks: list[dict[str, int]] = [{} for _ in self._lots]
        left = [lot.units for lot in self._lots]
        for at in order:
            lot, sort = self._lots[at], self._of[at]
            while left[at]:
                name = self._where(lot, sort, chance)
                if name is None:
                    self._wanted[sort] -= left[at]
                    break
                self._blocks[name] = self._with(name, sort)
                self._rooms[name] = self._room(self._blocks[name])
                self._wanted[sort] -= 1
                left[at] -= 1
                blocks[at][name] = blocks[at].get(name, 0) + 1
        return Stowed(tuple(blocks), tuple(left))

    def _where(self, lot: Lot, sort: int, chance: Random | None) -> str | None:
        open_ = [name for name in lot.slopes if name in self._rooms and self._rooms[name][sort]]
        if not open_:
            return None
        cheapest = min(lot.slopes[name] for name in open_)
        there = sorted(name for name in open_ if lot.slopes[name] == cheapest)
        if len(there) == 1:
            return there[0]
        spare = self._spare(sort)
        best: tuple[float, float, int] | None = None
        found = None
        for name in there:
            before, after = self._rooms[name], self._room(self._with(name, sort))
            short, cost = 0, 0.0
            for at, slack in spare.items():
                lost = (before[at] - after[at]) * self._worth[at]
                if lost > slack:
                    short += lost - max(0, slack)
                cost += lost / (1 + max(0, slack))
            if chance is not None:
                cost *= 0.7 + 0.6 * chance.random()
            key = float(short), cost, before[sort]
            if best is None or key < best:
                best, found = key, name
        return found

    def _spare(self, placed: int) -> dict[int, int]:
        """What the cluster has more of each sort that is still to come than will be wanted of it,
        once one unit of `placed` has its place."""
        wanted = list(self._wanted)
        wanted[placed] -= 1
        spare = {}
        for at, larger in enumerate(self._larger):
            if any(wanted[other] for other in larger):
                room = sum(rooms[at] for rooms in self._rooms.values()) * self._worth[at]
                spare[at] = room - sum(wanted[other] * self._worth[other] for other in larger)
        return spare
