"""Who of two clusters is in which: of all ways to divide some gangs between them, the best.

What finds room is told by the rows of both clusters (`totals`), packed into one number each. Costs
are single integers, the most important level in the highest bits. `barter` asks, for two clusters
after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.scheduling.tally import Shares


class Piece(NamedTuple):
    """A gang that may be in either of two clusters."""

    size: int
    at: int
    here: int
    there: int
    """What it takes of the rows of each, packed."""
    cost_here: int
    cost_there: int
    is_here: bool
    units: int
    """In the field of its sort."""


class Way(NamedTuple):
    """One way to divide a gang between two clusters."""

    cost: int
    here: int
    there: int
    units_here: int
    units_there: int
    shares: Shares


class Rows:
    """The rows of a cluster as one number: a field for each, so that one subtraction and one mask
    tell whether something finds room.

    The highest bit of a field is set while its row is not overrun. What is taken at once must not
    be more than a row's limit, so that no field borrows from the next.
    """

    def __init__(self, limits: Sequence[int], takes: Sequence[Mapping[int, int]]) -> None:
        width = max((limit.bit_length() for limit in limits), default=0) + 1
        self.shifts = [at * width for at in range(len(limits))]
        self.guards = sum(1 << (shift + width - 1) for shift in self.shifts)
        self.field = (1 << (width - 1)) - 1
        self.limits = limits
        self.takes = takes
        widest = max(range(len(limits)), key=lambda at: (len(takes[at]), -at), default=None)
        self.widest = None if widest is None else self.shifts[widest]

    def load(self, sort: int, units: int) -> int | None:
        """None for more than there could ever be."""
        found = 0
        for shift, limit, takes in zip(self.shifts, self.limits, self.takes, strict=True):
            need = takes.get(sort, 0) * units
            if need > limit:
                return None
            found += need << shift
        return found

    def left(self, left: Sequence[int]) -> int:
        return self.guards + sum(
            each << shift for each, shift in zip(left, self.shifts, strict=True)
        )

    def size(self, load: int) -> int:
        return 0 if self.widest is None else (load >> self.widest) & self.field


def divide(
    pieces: Sequence[Piece],
    ways: Sequence[Way],
    free_here: int,
    free_there: int,
    here: Rows,
    there: Rows,
    *,
    bad: Callable[[Sequence[bool], Way], bool],
    below: int,
    nodes: int,
) -> tuple[list[bool], Way] | None:
    """Who is here, and the way for the one that may be divided, at less cost than `below`.

    The best there is if fewer steps than `nodes` were enough. A branch is left where even if all
    that is free here were used by those to come who save most by its size, it would be no better.
    """
    count = len(pieces)
    # Of the pieces from a position on: what they cost there, what they would save here, and what
    # of that needs nothing of the row that is looked at; the most that any saves by its size.
    costs, saves, sure, rates = ([0] * (count + 1) for _ in range(4))
    for at in range(count - 1, -1, -1):
        piece = pieces[at]
        saved = max(0, piece.cost_there - piece.cost_here)
        costs[at] = costs[at + 1] + piece.cost_there
        saves[at] = saves[at + 1] + saved
        sure[at] = sure[at + 1] + (0 if piece.size else saved)
        rates[at] = max(rates[at + 1], -(-saved // piece.size) if piece.size else 0)
    guards_here, guards_there, field = here.guards, there.guards, here.field
    widest, least_way = here.widest, ways[0].cost
    best, chosen, steps = below, None, 0
    choice = [False] * count

    def go(at: int, left_here: int, left_there: int, cost: int) -> None:
        nonlocal best, chosen, steps
        steps += 1
        if steps > nodes:
            return
        if at == count:
            for way in ways:
                if cost + way.cost >= best:
                    return
                if (
                    (left_here - way.here) & guards_here == guards_here
                    and (left_there - way.there) & guards_there == guards_there
                    and not bad(choice, way)
                ):
                    best, chosen = cost + way.cost, (choice[:], way)
                    return
            return
        save = saves[at]
        if widest is not None:
            held = sure[at] + ((left_here >> widest) & field) * rates[at]
            if held < save:
                save = held
        if cost + least_way + costs[at] - save >= best:
            return
        _, _, mine, theirs, cost_here, cost_there, _, _ = pieces[at]
        left = left_here - mine
        if left & guards_here == guards_here:
            choice[at] = True
            go(at + 1, left, left_there, cost + cost_here)
        left = left_there - theirs
        if left & guards_there == guards_there:
            choice[at] = False
            go(at + 1, left_here, left, cost + cost_there)

    go(0, free_here, free_there, 0)
    return chosen
