"""A decision as a value: where everything goes, or why not, and what is said of each cluster.

Nothing is decided or put into words here. `placement` makes plans, `verdicts` says why; `record`
writes both down as a Placement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.demand import Demand
    from fleet.scheduling.fit import Cost
    from fleet.scheduling.numbering import Interval
    from policies.placement import Verdict as VerdictWord


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a workload that one cluster gets.

    `per_hour` is what its nodes are billed at, in millionths; `once` what it costs to bring the
    workload's data there. None: unknown.
    """

    cluster: str
    index: int
    generation: int
    intervals: tuple[Interval, ...]
    blocks: tuple[tuple[str, int], ...] = ()
    """Pods by block."""
    tier: int = 1
    billing: str = ""
    per_hour: int | None = None
    once: int | None = 0
    within: tuple[str, ...] = ()
    """The blocks that it is bound to, of one that was placed before."""
    done: bool = False
    """Whether all of it has succeeded: what is missing beside it is none of its own."""
    by_role: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    """Pods of each role by block, the roles in the order in which they took their nodes."""

    @property
    def pods(self) -> int:
        return sum(interval.count for interval in self.intervals)

    def interval(self, role: str) -> Interval | None:
        return next((each for each in self.intervals if each.role == role), None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a cluster was taken or not. `pods` and `per_hour` are None where not known."""

    cluster: str
    verdict: VerdictWord
    reason: str
    message: str
    tier: int = 0
    domain: str = ""
    pods: int | None = None
    per_hour: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Where everything goes. Shards are ordered by number; shard 0 has rank 0."""

    demand: Demand
    generation: int
    domain: str
    shards: tuple[Shard, ...]
    verdicts: tuple[Verdict, ...]
    why_several: str = ""
    note: str = ""
    """What this generation changed in the one before."""
    over_budget: str = ""
    """Which budgets it goes above, that let such work run."""
    currency: str = ""
    next_best: Verdict | None = None
    """The best single cluster besides, with the price of the whole workload there."""
    exact: bool = True
    """Whether no better plan was left out."""
    cost: Cost | None = None
    """What was placed by this decision: units of unknown price, money, blocks."""
    bound: Cost | None = None
    """What it would have cost at least, in this tier and as many clusters."""

    @property
    def per_hour(self) -> int | None:
        """Of all shards; None while one of them has no known price."""
        known = [shard.per_hour for shard in self.shards if shard.per_hour is not None]
        return sum(known) if len(known) == len(self.shards) else None

    @property
    def pods(self) -> int:
        """That are placed, of all roles."""
        return sum(shard.pods for shard in self.shards)

    def shard(self, cluster: str) -> Shard | None:
        return next((each for each in self.shards if each.cluster == cluster), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was placed, and what would help."""

    demand: Demand
    message: str
    verdicts: tuple[Verdict, ...]
    at_best: Mapping[str, int] = field(default_factory=dict)
    """Most pods that could be had at once, by network ("" where none is asked for)."""
    retry_after_s: float | None = None
    """When the next tier is tried, if nothing else changes before."""
    impossible: bool = False
    """Whether the clusters that come into question could not hold it even if they were empty."""
    reason: str = ""
    """What is in its way, where that is no want of room."""
    final: bool = False
    """Whether it is not to wait."""
    awaits: str = ""
    """What it waits for, where there would be room: another tier, other prices."""

    @property
    def word(self) -> str:
        """Why, in one word for programs."""
        return self.reason or ("Impossible" if self.impossible else self.awaits or "NoRoom")
