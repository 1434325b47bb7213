"""What clusters hold in sums: gangs as units, and rows that no choice of units may overrun.

A row is a cluster's limit on units of several kinds together: all of one resource, or what pods of
some size, in units of some size, find on nodes one beside the other. Where sizes divide one another
what keeps all rows is nearly always to be put onto nodes; whoever puts it there knows. `exchange`
searches over sums, `batch` puts what it found onto nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fleet.scheduling.requests import accelerators

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.stock import PodKind


class Option(NamedTuple):
    """A cluster, by position, as it is to a gang."""

    cluster: int
    tier: int
    domain: str
    most: int
    """Units that it would hold if there were nobody else."""
    micro: int | None
    """What a unit costs per hour there; None where that is not known."""


class Sort(NamedTuple):
    """Units that take the same."""

    kind: PodKind
    pods: int
    """Of a unit."""

    @property
    def size(self) -> int:
        """Accelerators of a pod."""
        return accelerators(self.kind.request)

    @property
    def whole(self) -> int:
        """Accelerators of a unit, which has to find them in one block."""
        return self.size * self.pods


@dataclass(frozen=True, slots=True)
class Gang:
    """All of its units or none, in at most `span` clusters of one network."""

    sort: Sort
    units: int
    span: int
    priority: int
    weight: int
    options: tuple[Option, ...]
    ceiling: int | None = None
    """The most that it may cost, in millionths per hour."""


class Row(NamedTuple):
    """At most `limit` in sum of what units of some sorts take, by position of the sort."""

    limit: int
    takes: Mapping[int, int]


def rows_of(capacity: Capacity, sorts: Sequence[Sort], asked: Sequence[int]) -> list[Row]:
    """What a cluster sets against the sorts. `asked` are all units of each that are wanted.

    Rows that others imply, or that all units together would keep, are left out.
    """
    found = [*_of_sizes(capacity, sorts), *_of_resources(capacity, sorts)]
    found = [
        row
        for row in found
        if sum(need * asked[sort] for sort, need in row.takes.items()) > row.limit
    ]
    return [
        row
        for at, row in enumerate(found)
        if not any(
            _implied(row, by, strictly=other > at) for other, by in enumerate(found) if other != at
        )
    ]


def _implied(row: Row, by: Row, *, strictly: bool) -> bool:
    """Whether what keeps `by` keeps the row. Of two that imply each other the first is kept."""
    return _follows(row, by) and not (strictly and _follows(by, row))


def _follows(row: Row, by: Row) -> bool:
    # Every sort takes at least as large a part of the other limit.
    return all(
        sort in by.takes and need * by.limit <= by.takes[sort] * row.limit
        for sort, need in row.takes.items()
    )


def _of_sizes(capacity: Capacity, sorts: Sequence[Sort]) -> Iterable[Row]:
    """No more of the larger pods than fit on nodes, no more of the larger units than in blocks."""
    free = [
        [max(0, accelerators(block.free(at))) for at in range(len(block.states))]
        for block in capacity.blocks.values()
    ]
    sizes = sorted({sort.size for sort in sorts if sort.size})
    wholes = sorted({sort.whole for sort in sorts if sort.size})
    for size in sizes:
        for whole in wholes:
            larger = {
                at: sort.whole
                for at, sort in enumerate(sorts)
                if sort.size >= size and sort.whole >= whole
            }
            if any(sorts[at].size % size or sorts[at].whole % whole for at in larger):
                continue
            there = (sum(each // size * size for each in block) for block in free)
            yield Row(sum(each // whole * whole for each in there), larger)


def _of_resources(capacity: Capacity, sorts: Sequence[Sort]) -> Iterable[Row]:
    sums: dict[str, int] = {}
    for block in capacity.blocks.values():
        for at in range(len(block.states)):
            for name, amount in block.free(at).items():
                sums[name] = sums.get(name, 0) + max(0, amount)
    takes: dict[str, dict[int, int]] = {}
    for at, sort in enumerate(sorts):
        for name, need in sort.kind.request:
            if need:
                takes.setdefault(name, {})[at] = need * sort.pods
    for name in sorted(takes):
        yield Row(sums.get(name, 0), takes[name])
