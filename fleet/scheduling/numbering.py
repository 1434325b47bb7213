"""Ranks: which shard has which pods of a role.

Every role has ranks 0 … n-1; every shard one contiguous interval of them, in whole units; the
intervals are disjoint and complete, keyed by cluster name and in its order, and rank 0 is in shard
0. A later plan fills the gaps that lost shards left and moves nobody else's ranks. Sizes are
`placement`'s decision; which ranks of an elastic workload go is `fleet.dispatch.elastic`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """Ranks `first` to `first + count - 1` of a role."""

    role: str
    first: int
    count: int

    @property
    def end(self) -> int:
        """One past the last rank."""
        return self.first + self.count

    @property
    def last(self) -> int:
        return self.end - 1

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.count > 1 else str(self.first)


def number(
    role: str,
    pods: Mapping[str, int],
    *,
    first: int = 0,
    order: Sequence[str] | None = None,
) -> dict[str, Interval]:
    """Intervals by cluster for the pods each gets, from rank `first` on, in the order of the
    shards; by cluster name, where none is given.

    Raises ValueError for a shard without pods.
    """
    intervals: dict[str, Interval] = {}
    for cluster in sorted(pods) if order is None else [each for each in order if each in pods]:
        count = pods[cluster]
        if count < 1:
            raise ValueError(f"shard {cluster} of role {role} has no pods")
        intervals[cluster] = Interval(role, first, count)
        first += count
    return intervals


def in_order(pods: Sequence[tuple[str, Mapping[str, int]]]) -> tuple[str, ...]:
    """The clusters as their shards are numbered, for the pods of each role, in the order of roles.

    Those with the first role come first, so that the launcher, head or leader, with rank 0, is in
    shard 0; then those with the second; each by name.
    """
    found: dict[str, None] = {}
    for _, by_cluster in pods:
        found |= dict.fromkeys(sorted(cluster for cluster, count in by_cluster.items() if count))
    return tuple(found)


def gaps(role: str, pods: int, kept: Iterable[Interval]) -> tuple[Interval, ...]:
    """The ranks of 0 … pods-1 that no kept interval has, as few intervals as possible.

    Raises ValueError when the kept ones overlap or reach beyond.
    """
    found, free = [], 0
    for interval in sorted(kept):
        if interval.role != role or interval.first < free or interval.end > pods:
            raise ValueError(f"{interval} does not belong to the {pods} ranks of role {role}")
        if interval.first > free:
            found.append(Interval(role, free, interval.first - free))
        free = interval.end
    if free < pods:
        found.append(Interval(role, free, pods - free))
    return tuple(found)


def indexes(first_ranks: Mapping[str, int], *, kept: Mapping[str, int]) -> dict[str, int]:
    """Shard numbers by cluster: kept ones stay, shards without one get the lowest free.

    `first_ranks` has the first rank of each shard; in their order numbers are given. Whoever has
    rank 0 gets number 0, which is free whenever its former holder was lost.
    """
    numbers = {cluster: kept[cluster] for cluster in first_ranks if cluster in kept}
    used = set(numbers.values())
    fresh = iter(each for each in range(len(first_ranks) + len(used)) if each not in used)
    without: Sequence[str] = sorted(
        (cluster for cluster in first_ranks if cluster not in numbers),
        key=lambda cluster: first_ranks[cluster],
    )
    return numbers | {cluster: next(fresh) for cluster in without}
