"""Sets of completion indexes, as a Job's status writes them: `0,2-5,7`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Indexes:
    """Disjoint intervals in order, ends included."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str, *, below: int) -> Indexes:
        """Read a status field; indexes from `below` on are left out, and so is what is corrupt."""
        found: list[int] = []
        for part in text.split(","):
            first, dash, last = part.partition("-")
            if first.isdigit() and (not dash or last.isdigit()):
                end = min(int(last) if dash else int(first), below - 1)
                found += range(int(first), end + 1)
        return cls.of(found)

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        intervals: list[tuple[int, int]] = []
        for index in sorted(set(indexes)):
            if intervals and intervals[-1][1] == index - 1:
                intervals[-1] = (intervals[-1][0], index)
            else:
                intervals.append((index, index))
        return cls(tuple(intervals))

    def __or__(self, more: Iterable[int]) -> Indexes:
        return Indexes.of((*self, *more))

    def __iter__(self) -> Iterator[int]:
        for first, last in self.intervals:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        return any(first <= index <= last for first, last in self.intervals)

    def __str__(self) -> str:
        return ",".join(_written(first, last) for first, last in self.intervals)


def _written(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def first_pending(taken: Iterable[int], *, count: int, below: int) -> list[int]:
    """The lowest `count` indexes under `below` that are not `taken`."""
    occupied = set(taken)
    found: list[int] = []
    for index in range(below):
        if len(found) == count:
            break
        if index not in occupied:
            found.append(index)
    return found
