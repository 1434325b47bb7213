"""Pods of several kinds on the nodes of one block at once: what it holds, and on which nodes.

A node holds so many of one kind beside so many of another; a block holds the sums. Adding node by
node what each way to fill it gives, and keeping for every number of the other kinds the most of the
first, is exact. It is bounded in size all the same: blocks with too many ways say that nothing is
known (None), and whoever asks places the kinds one after the other. `packing` asks.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.stock import fitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.scheduling.requests import Amounts, Vector
    from fleet.scheduling.stock import Block, PodKind, Seats

_PATTERNS: Final = 64
_WORK: Final = 60_000

Counts = tuple[int, ...]
"""Pods of each kind."""


class _Step(NamedTuple):
    """The most of the first kind that is reached, and how."""

    first: int
    before: Counts
    pattern: Counts


class Mixing:
    """What a block holds of `kinds` at once, of each at most as many as in `wants`."""

    def __init__(self, block: Block, kinds: Sequence[PodKind], wants: Sequence[int]) -> None:
        self._kinds = kinds
        self._wants = tuple(wants)
        self._tables: list[dict[Counts, _Step]] = [{(0,) * (len(kinds) - 1): _Step(0, (), ())}]
        self._positions: list[int] = []
        self.known = self._fill(block)

    def _fill(self, block: Block) -> bool:
        """False where that is too much work."""
        masks = [block.site.mask(kind.selector) if kind.selector else None for kind in self._kinds]
        patterns: dict[tuple[object, ...], list[Counts] | None] = {}
        work, others = 0, self._wants[1:]
        for position, state in enumerate(block.states):
            open_to = tuple(mask is None or mask[position] for mask in masks)
            key = state, open_to
            if key not in patterns:
                fits = [
                    block.site.fit(state, kind).pods if may else 0
                    for kind, may in zip(self._kinds, open_to, strict=True)
                ]
                patterns[key] = self._ways(block.site.states[state].free, fits)
            ways = patterns[key]
            if ways is None:
                return False
            if not ways:
                continue
            table = self._tables[-1]
            work += len(table) * len(ways)
            if work > _WORK:
                return False
            grown = {key: step._replace(before=key, pattern=()) for key, step in table.items()}
            for placed, step in table.items():
                for way in ways:
                    sums = tuple(
                        min(have + more, want)
                        for have, more, want in zip(placed, way[1:], others, strict=True)
                    )
                    first = min(step.first + way[0], self._wants[0])
                    known = grown.get(sums)
                    if known is None or first > known.first:
                        grown[sums] = _Step(first, placed, way)
            self._tables.append(grown)
            self._positions.append(position)
        return True

    def _ways(self, free: Amounts, fits: Sequence[int]) -> list[Counts] | None:
        """How the node can be filled, without ways that hold less of everything."""
        if not any(fits):
            return []
        found: list[Counts] = []
        ranges = [
            range(min(fit, want), -1, -1)
            for fit, want in zip(fits[1:], self._wants[1:], strict=True)
        ]
        for counts in product(*ranges):
            first = self._beside(free, counts, fits)
            if first is None:
                continue
            way = (first, *counts)
            if not any(all(a >= b for a, b in zip(other, way, strict=True)) for other in found):
                found.append(way)
                if len(found) > _PATTERNS:
                    return None
        return [way for way in found if any(way)]

    def _beside(self, free: Amounts, counts: Counts, fits: Sequence[int]) -> int | None:
        """The most of the first kind beside so many of the others; None where these do not fit."""
        left = dict(free)
        for kind, count in zip(self._kinds[1:], counts, strict=True):
            if count:
                _less(left, kind.request, count)
                if any(left[name] < 0 for name, _ in kind.request):
                    return None
        return min(fitting(left, self._kinds[0].request), fits[0], self._wants[0])

    def most(self, others: Counts) -> int:
        """The most pods of the first kind beside at least so many of the others; -1: none."""
        step = self._tables[-1].get(others)
        if step is not None:
            return step.first
        return max(
            (
                step.first
                for key, step in self._tables[-1].items()
                if all(a >= b for a, b in zip(key, others, strict=True))
            ),
            default=-1,
        )

    def seats(self, counts: Counts) -> tuple[Seats, ...] | None:
        """Where so many pods of each kind sit; None where they do not fit."""
        first, others = counts[0], counts[1:]
        ends = [
            key
            for key, step in self._tables[-1].items()
            if step.first >= first and all(a >= b for a, b in zip(key, others, strict=True))
        ]
        if not ends:
            return None
        key = min(ends)
        left, found = list(counts), [list[tuple[int, int]]() for _ in counts]
        for position, table in zip(
            reversed(self._positions), reversed(self._tables[1:]), strict=True
        ):
            step = table[key]
            key = step.before
            for at, pods in enumerate(step.pattern):
                taken = min(pods, left[at])
                if taken:
                    found[at].append((position, taken))
                    left[at] -= taken
        return tuple(tuple(sorted(each)) for each in found)


def _less(left: Amounts, request: Vector, count: int) -> None:
    for name, need in request:
        left[name] = left.get(name, 0) - need * count
