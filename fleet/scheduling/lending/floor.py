"""What a donor keeps, of one key: what it needs, and what it could need at once.

What it needs is what its work has and waits for. To survive the loss of one cluster it keeps as
much again as its work has in the cluster where it has most; what it holds in reserve for that
anyway counts. Where it is known what members have free, that must be in other clusters than the
one that is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.lending.terms import Terms


@dataclass(frozen=True, slots=True)
class Need:
    """Of a donor and one key."""

    guaranteed: int
    lendable: int
    in_clusters: Mapping[str, int]
    """What its work has, by cluster."""
    elsewhere: int = 0
    """What it uses besides: work that waits, was lost, or came from nobody the fleet knows."""
    reserve: int = 0
    """Its failover reserve, as far as nothing that was lost fills it."""

    @property
    def worth_of_one_cluster(self) -> int:
        return max(self.in_clusters.values(), default=0)


def floor(terms: Terms, need: Need) -> int:
    """What it does not lend, at most all it is guaranteed."""
    spare = need.reserve
    if terms.keep_floor == "SurvivesLossOfOneCluster":
        spare = max(spare, need.worth_of_one_cluster)
    used = sum(need.in_clusters.values()) + need.elsewhere
    share = -(-need.guaranteed * terms.keep_percent // 100)
    return min(need.guaranteed, max(share, used + spare))


def lendable(terms: Terms, need: Need) -> int:
    """The most that may be on loan."""
    return max(0, min(need.lendable, need.guaranteed - floor(terms, need)))


def lacking(need: Need, free: Mapping[str, int]) -> int:
    """By how much the other clusters are short of what the worst one to lose holds."""
    whole = sum(max(0, amount) for amount in free.values())
    return max(
        (held - (whole - max(0, free.get(name, 0))) for name, held in need.in_clusters.items()),
        default=0,
    )
