"""What a pod costs per hour in a cluster, from the offers of a PriceBook.

Amounts are whole millionths of the currency's unit. An offer is joint: it prices a node of a
cluster under one way of billing, and a pod pays its share of that node, so that no price is put
together from parts nobody sells together (skypilot#10199). A missing or outdated price is not free:
it is unknown, and loses to every known one. What is owned costs 0 and says so. Offers are compared
by what an hour's work costs a workload: where nodes can be taken away, what it loses with them
counts (`cost.spot`), and data that it has to fetch comes on top (`cost.egress`). The bill is of
what is paid.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from fleet.scheduling.cost.egress import Transfer, spread, transfer
from fleet.scheduling.cost.spot import USUAL_LOSS, expected, lost_per_interruption
from fleet.scheduling.requests import PODS, accelerators, is_accelerator, vector
from fleet.scheduling.stock import Room
from policies import PRICE_BOOK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.requests import Vector
    from policies.placement_policy import DataSet
    from policies.price_book import Offer

Object = dict[str, Any]
Spot = Literal["Never", "Allowed", "Preferred"]


@dataclass(frozen=True, slots=True)
class Price:
    """Per pod and hour; `micro` is None where it is not known, `why` then says why not.

    `micro` is what an hour's work costs, and what places are compared by; `paid` is what the bill
    says, which is less where interruptions are to be expected. `usable` is False where the only
    way to get the node is one that the policy forbids.
    """

    micro: int | None
    billing: str = ""
    why: str = ""
    usable: bool = True
    paid: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What of a workload its price depends on. `lost` is what one interruption costs it."""

    lost: timedelta = USUAL_LOSS
    data: tuple[DataSet, ...] = ()
    run_time_s: float | None = None
    """How long it bears what is paid once for its data; None where nobody said, or nothing is."""

    @classmethod
    def of(cls, demand: Demand) -> Work:
        policy = demand.policy
        return cls(
            lost=lost_per_interruption(policy.objective.checkpoint),
            data=policy.data,
            run_time_s=demand.run_time_s if policy.data else None,
        )


_ANY: Final = Work()
_NOTHING_MOVED: Final = Transfer()


@dataclass(frozen=True, slots=True)
class Prices:
    """The offers of the fleet in one currency, with their ages judged at one time."""

    currency: str = ""
    offers: Mapping[str, tuple[Offer, ...]] = field(default_factory=dict)
    """By cluster; those that are too old are marked in `outdated`."""
    outdated: frozenset[Offer] = frozenset()
    warnings: tuple[str, ...] = ()
    egress: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Per GiB, by the network that data leaves and the cluster it goes to."""
    work: Work = _ANY
    """Whom they are for."""
    until: datetime | None = field(default=None, compare=False)
    """When the next offer becomes outdated."""

    def seen_by(self, demand: Demand) -> Prices:
        """The same as they are for a workload."""
        work = Work.of(demand)
        return self if work == self.work else replace(self, work=work)

    def of_data(self, *, cluster: str, network: str) -> Transfer:
        """What is paid once for the data that the workload reads in a cluster, which is on a
        network."""
        if not self.work.data:
            return _NOTHING_MOVED
        return transfer(self.work.data, cluster=cluster, network=network, per_gib=self.egress)

    def hourly(self, moved: Transfer) -> int | None:
        """What a transfer adds to each hour of the workload's run; None where it is not known."""
        return None if moved.micro is None else spread(moved.micro, self.work.run_time_s)

    def of_pod(
        self,
        cluster: str,
        room: Room,
        request: Vector,
        *,
        spot: Spot,
    ) -> Price:
        """The cheapest fitting offer for a pod in a room of a cluster.

        Of equal prices spot wins only where the policy prefers it.
        """
        fitting = [offer for offer in self.offers.get(cluster, ()) if _fits(offer, room)]
        allowed = [offer for offer in fitting if spot != "Never" or offer.billing != "Spot"]
        if room.billing == "Spot" and spot == "Never":
            return Price(None, "Spot", "spot nodes, and the policy says spot: Never", usable=False)
        if fitting and not allowed:
            why = "only spot offers, and the policy says spot: Never"
            return Price(None, "Spot", why, usable=False)
        fresh = [offer for offer in allowed if offer not in self.outdated]
        if not fresh:
            why = "its price is outdated" if allowed else "it has no price"
            return Price(None, room.billing, why)
        favoured = spot == "Preferred"
        paid = [(_share(offer, room, request), offer) for offer in fresh]
        micro, _, billing, bill = min(
            (
                expected(share, offer, lost=self.work.lost),
                (offer.billing == "Spot") != favoured,
                offer.billing,
                share,
            )
            for share, offer in paid
        )
        return Price(micro, billing, paid=bill)

    def of_accelerator(self, cluster: str, capacity: Capacity) -> int | None:
        """The least that an hour of one of the accelerators of a cluster is paid with; None where
        it has none, or no price of any is known."""
        asked = {
            (Room("", each.accelerator, each.instance_type, each.billing, shape, 1, 1), name)
            for each in capacity.nodes
            if (shape := vector(each.allocatable))
            for name, _ in shape
            if is_accelerator(name)
        }
        found = (
            self.of_pod(cluster, room, ((name, 1),), spot="Allowed").paid for room, name in asked
        )
        return min((paid for paid in found if paid is not None), default=None)


def prices_of(books: Iterable[Object], *, now: datetime) -> Prices:
    """The offers of all price books, their ages judged at `now`.

    Amounts of different currencies cannot be compared: the books in the currency of the first, by
    name, count, and a warning names the others. Raises Invalid for an unsound book.
    """
    sound = sorted(
        ((str(book["metadata"]["name"]), PRICE_BOOK.parse(book).spec) for book in books),
        key=lambda named: named[0],
    )
    if not sound:
        return Prices()
    currency = sound[0][1].currency
    others = [name for name, spec in sound if spec.currency != currency]
    offers: dict[str, list[Offer]] = {}
    outdated: set[Offer] = set()
    until: datetime | None = None
    egress: dict[tuple[str, str], int] = {}
    for _, spec in sound:
        if spec.currency != currency:
            continue
        for offer in spec.offers:
            offers.setdefault(offer.cluster, []).append(offer)
            if offer.as_of is None:
                continue
            ends = offer.as_of + spec.max_age
            if now.astimezone(UTC) > ends:
                outdated.add(offer)
            else:
                until = ends if until is None else min(until, ends)
        for each in spec.egress:
            route = (each.from_, each.to)
            egress[route] = min(each.per_gib, egress.get(route, each.per_gib))
    warning = f"prices in {sound[0][0]} are in {currency}; not compared: {', '.join(others)}"
    return Prices(
        currency=currency,
        offers={cluster: tuple(found) for cluster, found in offers.items()},
        outdated=frozenset(outdated),
        warnings=(warning,) if others else (),
        egress=egress,
        until=until,
    )


def _fits(offer: Offer, room: Room) -> bool:
    return (
        offer.accelerator in ("", room.accelerator)
        and offer.instance_type in ("", room.instance_type)
        and (not room.billing or room.billing == offer.billing)
    )


def _share(offer: Offer, room: Room, request: Vector) -> int:
    """What a pod's part of the node costs, rounded up to a millionth: what is not owned is never
    as cheap as what is, even for a pod that takes none of the accelerators that are paid for."""
    if offer.billing == "Owned" or offer.per_hour is None:
        return 0
    wanted, there = accelerators(request), accelerators(room.shape)
    if offer.per == "Accelerator":
        return offer.per_hour * wanted or 1
    if wanted and there:
        return -(-offer.per_hour * wanted // there)
    shape = dict(room.shape)
    shares = {
        name: -(-offer.per_hour * need // shape[name]) for name, need in request if shape.get(name)
    }
    if len(shares) > 1:
        shares.pop(PODS, None)  # what it asks for counts, not that it is one of many
    return max(shares.values(), default=offer.per_hour)
