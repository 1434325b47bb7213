"""What a donor keeps, of one key: what it needs, and what it could need at once.

What it needs is what its work has and waits for. To survive the loss of one cluster it keeps as
much again as its work has in the cluster where it has most; what it holds in reserve for that
anyway counts. Where members are known, the spare has to be in other clusters than the one that is
lost: so it is larger by what is lost with that, and `lacking` says where it is not; `seats` says
the same of pods.
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
    """What it uses besides: what was lost, or came from nobody the fleet knows."""
    coming: int = 0
    """What waits, and what it expects to need soon."""
    reserve: int = 0
    """Its failover reserve, as far as nothing that was lost fills it."""

    clusters: int = 0
    """Over how many the spare is spread; 0: nobody knows."""

    @property
    def worth_of_one_cluster(self) -> int:
        """What its work has where it has most, and what of the spare is lost with that."""
        most = max(self.in_clusters.values(), default=0)
        return -(-most * self.clusters // (self.clusters - 1)) if self.clusters > 1 else most


def floor(terms: Terms, need: Need) -> int:
    """What it does not lend, at most all it is guaranteed."""
    spare = need.reserve
    if terms.keep_floor == "SurvivesLossOfOneCluster":
        spare = max(spare, need.worth_of_one_cluster)
    used = sum(need.in_clusters.values()) + need.elsewhere + need.coming
    share = -(-need.guaranteed * terms.keep_percent // 100)
    return min(need.guaranteed, max(share, used + spare))


def lendable(terms: Terms, need: Need) -> int:
    """The most that may be on loan."""
    return max(0, min(need.lendable, need.guaranteed - floor(terms, need)))


def lacking(need: Need, free: Mapping[str, int]) -> int:
    """By how much the other clusters are short of what the worst one to lose holds, and of what is
    coming.
    """
    whole = sum(max(0, amount) for amount in free.values())
    return max(
        (
            held + need.coming - (whole - max(0, free.get(name, 0)))
            for name, held in need.in_clusters.items()
        ),
        default=0,
    )
