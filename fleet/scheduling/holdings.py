"""A batch as it stands: who holds which nodes of a fleet, and where the next one could go.

Asks the same search over the same views as the engine's Placer (`rooms`), for as many gangs as
change places, and without words for any of it. Not for two tasks at once. Next step: `batch`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fleet.scheduling.demand import Demand
from fleet.scheduling.fit import Cost
from fleet.scheduling.gang import Answer, Piece
from fleet.scheduling.placer import Placed
from fleet.scheduling.price import Prices
from fleet.scheduling.question import Question, best, judged, sized
from fleet.scheduling.views import Views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.scheduling.capacity import Capacity, Taken
    from fleet.scheduling.clusters import Candidate, Cluster
    from fleet.scheduling.demand import Role
    from fleet.scheduling.placer import Item
    from fleet.scheduling.stranding import Mix


@dataclass(frozen=True, slots=True)
class Seating:
    """A place that was found: the plan of a `Placed`."""

    answer: Answer
    roles: tuple[Role, ...]
    """As they are placed: an elastic role has as many pods as found room."""
    seats: tuple[tuple[str, Taken], ...]
    """By cluster, on which nodes."""


class Holdings:
    """See the module."""

    def __init__(
        self,
        clusters: Iterable[Cluster],
        *,
        prices: Prices | None = None,
        mix: Mix = (),
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`clusters` have nothing deducted of what will be taken here; `clock` is the one that
        their capacity is dated with."""
        self._views = Views(clusters, prices=prices or Prices(), now_s=clock(), mix=mix)
        self._held: dict[str, tuple[tuple[str, Taken], ...]] = {}

    def place(self, item: Item) -> Placed | None:
        """Where the gang could go; nothing is taken. `item.demand` is a `Demand`."""
        question = Question(_demand(item), self._views, generation=1)
        if any(role.least is not None for role in question.demand.roles):
            question = replace(question, demand=sized(question))
        roles = judged(question)
        answer = best(question, roles, question.ceiling) if question.payable else None
        return None if answer is None else self._placed(question.demand, answer)

    def candidates(self, demand: Demand) -> Mapping[str, Candidate]:
        """For a gang of one role, the clusters that come into question, as they are now."""
        (role,) = demand.roles
        return self._views.seen(demand, role, waited_s=0.0).usable

    def seat(self, item: Item, shares: Mapping[str, Mapping[str, int]]) -> Placed | None:
        """A gang of one role with so many units in each block of each cluster; None where one does
        not hold them.

        The clusters are not weighed against others, nor the sum against a ceiling.
        """
        demand = _demand(item)
        (role,) = demand.roles
        there = self.candidates(demand)
        pieces, total = [], 0
        for name in sorted(shares):
            candidate = there.get(name)
            filling = None if candidate is None else candidate.curve.of_blocks(shares[name])
            if candidate is None or filling is None:
                return None
            total += filling.cost.packed + candidate.curve.once
            pods = tuple((block, units * role.unit) for block, units in filling.blocks)
            per_hour = None if filling.cost.unknown else filling.cost.micro
            pieces.append(
                Piece(name, (filling.units * role.unit,), (pods,), filling.billing, per_hour)
            )
        (domain, *_) = (there[name].domain for name in shares)
        answer = Answer(
            tier=max(there[name].tier for name in shares),
            domains={} if role.network == "None" else {role.network: domain},
            cost=Cost.of(total),
            stranded=0,
            pieces=tuple(pieces),
            order=(0,),
            bound=Cost(0, 0, 0),
            exact=False,
        )
        return self._placed(demand, answer)

    def take(self, uid: str, placed: Placed) -> None:
        """Take the nodes that were found."""
        seating = placed.plan
        assert isinstance(seating, Seating)
        self.give(uid)
        self._held[uid] = seating.seats
        for cluster, taken in seating.seats:
            self._views.change(cluster, self._views.capacities[cluster].retake(taken))

    def give(self, uid: str) -> None:
        for cluster, taken in self._held.pop(uid, ()):
            self._views.change(cluster, self._views.capacities[cluster].give(taken))

    def capacity(self, cluster: str) -> Capacity | None:
        """What is left of it."""
        return self._views.capacities.get(cluster)

    def _placed(self, demand: Demand, answer: Answer) -> Placed:
        seats: list[tuple[str, Taken]] = []
        for piece in answer.pieces:
            present = [at for at in answer.order if piece.pods[at]]
            _, found = self._views.capacities[piece.cluster].take_together(
                [(demand.roles[at].kind, dict(piece.blocks[at])) for at in present]
            )
            seats += [(piece.cluster, taken) for taken in found]
        return Placed(
            plan=Seating(answer, demand.roles, tuple(seats)),
            clusters={piece.cluster: {} for piece in answer.pieces},
        )


def _demand(item: Item) -> Demand:
    assert isinstance(item.demand, Demand)
    return item.demand
