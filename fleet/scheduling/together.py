"""Several gangs that are asked about at once: whether more of them would start, placed together.

The engine decides about one after the other and moves nobody who was given a place. Here those that
would start, and those that find no place, are placed as one batch over what all others leave. It is
said only what costs nobody anything: all that would start one by one still do, and what starts
besides keeps its quota. A value of its own, so that another thread may answer it. `foretelling`
asks, `fleet.gateway.plans` writes the answer down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from fleet.scheduling.batch import devices, free_in, place_batch
from fleet.scheduling.quota.book import Book, blocked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.batch import Polish
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.placer import Item
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.price import Prices

_ROUNDS: Final = 100
"""For each gang; somebody waits for the answer, and prices matter less to it than room."""


@dataclass(frozen=True, slots=True)
class Gang:
    """One that is asked about."""

    item: Item
    demand: Demand
    starts: bool
    """One by one."""

    @property
    def order(self) -> tuple[bool, int]:
        """Who comes last in a batch."""
        return self.starts, 0 if self.starts else self.item.priority


@dataclass(frozen=True, slots=True)
class Gain:
    """More of them start: by uid, how many pods in which cluster."""

    starts: int
    """One by one."""
    places: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Together:
    """See the module. `clusters` have nothing deducted of what the gangs themselves would take, and
    in `book` those are charged that start one by one, none of the others."""

    gangs: tuple[Gang, ...]
    clusters: tuple[Cluster, ...]
    prices: Prices
    book: Book
    now_s: float

    def gain(self, polish: Polish | None = None) -> Gain | None:
        """None where no more would start. `polish` goes on where the search ends."""
        left = free_in(self.clusters) - sum(devices(e.demand) for e in self.gangs if e.starts)
        if all(devices(each.demand) > left for each in self.gangs if not each.starts):
            return None
        found = place_batch(
            self._demands(), self.clusters, now_s=self.now_s, chance=Random(0),
            prices=self.prices, rounds=_ROUNDS, polish=polish,
        )  # fmt: skip
        starts = [at for at, gang in enumerate(self.gangs) if gang.starts]
        if not found.admitted.keys() >= set(starts):
            return None
        admitted = [*starts, *self._affordable(found.admitted.keys() - set(starts))]
        if len(admitted) == len(starts):
            return None
        places = {
            self.gangs[at].item.uid: {
                piece.cluster: sum(piece.pods)
                for piece in found.admitted[at].seating.answer.pieces
            }
            for at in sorted(admitted)
        }  # fmt: skip
        return Gain(len(starts), places)

    def _demands(self) -> list[Demand]:
        """Those that start come before all others, whatever their priorities."""
        ranks = {each: rank for rank, each in enumerate(sorted({e.order for e in self.gangs}))}
        return [replace(each.demand, priority=ranks[each.order]) for each in self.gangs]

    def _affordable(self, more: set[int]) -> list[int]:
        """Those whose quota covers them too, in the order of the queue."""
        found, book = [], Book.over(self.book.tree, self.book)
        for at in sorted(more, key=lambda at: (-self.gangs[at].item.priority,
                                               self.gangs[at].item.sequence)):  # fmt: skip
            item = self.gangs[at].item
            asked = book.ask(item.quota, item.requests.items())
            if blocked(asked) is None:
                book.charge(item.uid, 1, item.quota, item.requests, asked=asked)
                found.append(at)
        return found


def is_plain(asked: Asked) -> bool:
    """Whether nothing but room, network, tier and price decides about it: no part of it runs, no
    cluster is barred to it, no extension has a say, and no data has to be fetched for it."""
    return (
        asked.running is None
        and not asked.lost
        and not asked.barred
        and not asked.extensions.decide
        and not asked.demand.policy.data
        and all(role.least is None for role in asked.demand.roles)
    )
