"""What a decision is made of, and what it is: one workload as it stands, and what follows.

Values alone. `looking` and the reconciler make a `Situation`, `decisions` a `Decision` of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.dispatch.acts import Act
    from fleet.dispatch.record import Record
    from fleet.dispatch.sight import Sight


@dataclass(frozen=True, slots=True)
class Ask:
    """The fleet's object, as far as decisions depend on it.

    `started_at` is its recorded start, `deadline_s` the user's own. `completions` is None for a
    work queue. `lapses` is whether a member ends a shard by itself that it hears nothing about,
    `moves` whether a shard that was taken away is placed anew; if not, the workload goes with it.
    """

    name: str
    completions: int | None = None
    indexed: bool = False
    gang: bool = False
    """Whether its ranks all run together, so that none outlives another."""
    nodes: int = 0
    """Ranks that are asked for; 0 where that is not known."""
    backoff_limit: int = 6
    deadline_s: int | None = None
    started_at: float | None = None
    suspended: bool = False
    deleting: bool = False
    orphaned: bool = False
    """Whether the shards are to stay when the workload is deleted."""
    grace_s: int | None = None
    """The time that it was given to end when it was deleted; None where that was left open."""
    lapses: bool = True
    moves: bool = True
    end_s: int = 0
    """How long one that does not move is given to end."""

    @property
    def deadline(self) -> float | None:
        if self.deadline_s is None or self.started_at is None:
            return None
        return self.started_at + self.deadline_s


@dataclass(frozen=True, slots=True)
class Timing:
    """`hold_s`: after which a hold lapses in the member when nobody renews it. `hold_limit_s`: how
    long all holds may take to stand. `margin_s`: added to leases for clocks that differ."""

    hold_s: float = 30.0
    hold_limit_s: float = 120.0
    margin_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Situation:
    """One workload at `now`. `sights` are of the record's shards, by cluster; `debts` of what is
    owed, by cluster and name."""

    ask: Ask
    record: Record
    now: float
    sights: Mapping[str, Sight] = field(default_factory=dict)
    debts: Mapping[tuple[str, str], Sight] = field(default_factory=dict)
    disturbed: bool = False
    """Whether a pod was seen to be taken away just now, whatever is seen of it."""
    timing: Timing = field(default_factory=Timing)
    elsewhere: frozenset[str] = frozenset()
    """Clusters whose part would find another place."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`record` as it should be; `acts` only count when that is what is stored.

    `barred` says which clusters did not hold what was planned, and why. `gone` is whether nothing
    is left anywhere of a workload that is being deleted. `taken_s` is set where a shard that does
    not move was taken away: the workload is to go too, within so many seconds. `again_s` is when
    to look again.
    """

    record: Record
    acts: tuple[Act, ...] = ()
    barred: Mapping[str, str] = field(default_factory=dict)
    gone: bool = False
    taken_s: int | None = None
    again_s: float | None = None
