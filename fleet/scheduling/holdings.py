"""What running gangs hold of a fleet, and where the next ones could go: a `Placer` for the engine.

Keeps the free capacity of each cluster as it is after everything that was taken, by node. Judged
clusters are kept for each kind of question – a role under a policy – and judged again only where
something was taken or given since. So a decision costs the clusters that changed and a search over
numbers, whatever the size of the fleet. Not for two tasks at once. Next step: `engine`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Final

from fleet.scheduling.clusters import judge, room, standing
from fleet.scheduling.fit import Cost
from fleet.scheduling.gang import Answer, Asked, Piece, Terms, largest, solve
from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.price import Prices, Work
from fleet.scheduling.stranding import POWERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.capacity import Capacity, Taken
    from fleet.scheduling.clusters import Candidate, Cluster, Standing
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.fit import Curve, Offered
    from fleet.scheduling.placer import Item
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.stranding import Mix

_VIEWS: Final = 512
_PASSING: Final = frozenset({"", "Full", "TierNotYet", "Cordoned", "NotReady", "Barred"})


@dataclass(frozen=True, slots=True)
class Seating:
    """A place that was found: the plan of a `Placed`."""

    answer: Answer
    roles: tuple[Role, ...]
    """As they are placed: an elastic role has as many pods as found room."""
    seats: tuple[tuple[str, Taken], ...]
    """By cluster, on which nodes."""


@dataclass(slots=True)
class _View:
    """All clusters judged for one role under one policy."""

    demand: Demand
    role: Role
    waited_s: float
    upto: int
    """How much of the log of changes it has seen."""
    known: dict[str, Candidate] = field(default_factory=dict)
    usable: dict[str, Candidate] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    """What clusters are to the role whatever room they have; until they change themselves."""

    def put(self, candidate: Candidate) -> None:
        self.known[candidate.cluster] = candidate
        if candidate.usable:
            self.usable[candidate.cluster] = candidate
        else:
            self.usable.pop(candidate.cluster, None)


class Holdings:
    """See `fleet.scheduling.placer.Placer`."""

    def __init__(
        self,
        clusters: Iterable[Cluster],
        *,
        prices: Prices | None = None,
        mix: Mix = POWERS,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`clusters` have nothing deducted of what will be taken here; `clock` is the one that
        their capacity is dated with."""
        self._prices = prices if prices is not None else Prices()
        self._mix = mix
        self._clock = clock
        self._clusters: dict[str, Cluster] = {}
        self._order: list[str] = []
        self._capacities: dict[str, Capacity] = {}
        self._held: dict[str, tuple[tuple[str, Taken], ...]] = {}
        self._rooms: dict[str, dict[object, tuple[Offered, Curve]]] = {}
        """By cluster, what its capacity holds of each kind of pod."""
        self._log: list[str] = []
        self._views: OrderedDict[object, _View] = OrderedDict()
        for cluster in clusters:
            self._clusters[cluster.name] = cluster
            if cluster.capacity is not None:
                self._capacities[cluster.name] = cluster.capacity
        self._order = sorted(self._clusters)

    # -- the Placer

    def place(
        self,
        item: Item,
        *,
        without: Collection[str] = (),
        waited_s: float = inf,
        incumbents: Collection[str] = (),
    ) -> Placed | Unplaced:
        """Where the gang could go if the gangs in `without` were gone; nothing is taken.

        `item.demand` is a `Demand`. `waited_s` says which tiers are open to it, all if not given.
        """
        demand = item.demand
        assert demand is not None
        demand = _demand(demand)
        changed = self._given(without)
        capacities = self._capacities if not changed else {**self._capacities, **changed}
        sizes = [_most(item, demand, role) for role in demand.roles]
        views = [self._view(demand, role, waited_s) for role in demand.roles]
        asked = [
            Asked(role, pods // role.unit, self._candidates(view, changed))
            for role, pods, view in zip(demand.roles, sizes, views, strict=True)
        ]
        answer = self._solve(demand, asked, capacities, incumbents)
        if answer is None:
            return self._unplaced(demand, asked, views)
        return self._placed(item, demand, answer, capacities)

    def candidates(self, demand: Demand) -> Mapping[str, Candidate]:
        """For a gang of one role, the clusters that come into question, as they are now."""
        (role,) = demand.roles
        return self._view(demand, role, inf).usable

    def seat(self, item: Item, shares: Mapping[str, Mapping[str, int]]) -> Placed | None:
        """A gang of one role with so many units in each block of each cluster; None where one does
        not hold them.

        The clusters are not weighed against others, nor the sum against a ceiling.
        """
        demand = _demand(item.demand)
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
        return self._placed(item, demand, answer, self._capacities)

    def take(self, uid: str, placed: Placed) -> None:
        """Take the nodes that were found, even if those who are to leave are still on them, or
        their cluster has left meanwhile."""
        seating = placed.plan
        assert isinstance(seating, Seating)
        self.give(uid)
        self._held[uid] = seating.seats
        for cluster, taken in seating.seats:
            if cluster in self._capacities:
                self._change(cluster, self._capacities[cluster].retake(taken))

    def give(self, uid: str) -> None:
        for cluster, taken in self._held.pop(uid, ()):
            if cluster in self._capacities:
                self._change(cluster, self._capacities[cluster].give(taken))

    # -- what else changes

    def put(self, cluster: Cluster) -> None:
        """A cluster as it is: new, or changed. What is held in it stays taken."""
        name = cluster.name
        self._forget(name)
        if name not in self._clusters:
            self._order = sorted([*self._order, name])
        self._clusters[name] = cluster
        self._capacities.pop(name, None)
        if cluster.capacity is not None:
            capacity = cluster.capacity
            for uid in sorted(self._held):
                for where, taken in self._held[uid]:
                    if where == name:
                        capacity = capacity.retake(taken)
            self._capacities[name] = capacity
        self._rooms.pop(name, None)
        self._log.append(name)

    def remove(self, cluster: str) -> None:
        """It has left. Gangs that were in it still hold what they have elsewhere."""
        if self._clusters.pop(cluster, None) is not None:
            self._forget(cluster)
            self._order.remove(cluster)
            self._capacities.pop(cluster, None)
            self._rooms.pop(cluster, None)
            self._log.append(cluster)

    def _forget(self, name: str) -> None:
        for view in self._views.values():
            view.standings.pop(name, None)

    def capacity(self, cluster: str) -> Capacity | None:
        """What is left of it."""
        return self._capacities.get(cluster)

    # -- views

    def _change(self, cluster: str, capacity: Capacity) -> None:
        self._capacities[cluster] = capacity
        self._rooms.pop(cluster, None)
        self._log.append(cluster)

    def _view(self, demand: Demand, role: Role, waited_s: float) -> _View:
        tiers = demand.policy.clusters.tiers
        waited_s = waited_s if any(each.after.total_seconds() for each in tiers) else inf
        work = Work.of(demand)
        key = (id(demand.policy), role.kind, role.unit, role.network, role.tiers, waited_s, work)
        view = self._views.get(key)
        if view is None or view.demand.policy is not demand.policy:
            view = self._views[key] = _View(demand, role, waited_s, len(self._log))
            for name in self._order:
                view.put(self._judge(view, name, self._capacities.get(name)))
            if len(self._views) > _VIEWS:
                self._views.popitem(last=False)
            return view
        self._views.move_to_end(key)
        if view.upto < len(self._log):
            for name in sorted(set(self._log[view.upto :])):
                if name in self._clusters:
                    view.put(self._judge(view, name, self._capacities.get(name)))
                else:
                    view.known.pop(name, None)
                    view.usable.pop(name, None)
            view.upto = len(self._log)
        return view

    def _judge(self, view: _View, name: str, capacity: Capacity | None) -> Candidate:
        """A cluster with a capacity; what one that is kept has is counted once for all views."""
        cluster = self._clusters[name]
        if cluster.capacity is not capacity:
            cluster = replace(cluster, capacity=capacity)
        demand, role = view.demand, view.role
        stands = view.standings.get(name)
        if stands is None:
            stands = standing(demand, role, cluster, waited_s=view.waited_s)
            view.standings[name] = stands
        has: tuple[Offered, Curve] | None = None
        if capacity is not None and capacity is self._capacities.get(name):
            objective = demand.policy.objective
            work = Work.of(demand)
            key = role.kind, role.unit, objective.spot, objective.max_price is None, work
            rooms = self._rooms.setdefault(name, {})
            has = rooms.get(key)
            if has is None:
                has = rooms[key] = room(demand, role, cluster, self._prices, self._mix)
        return judge(
            demand,
            role,
            cluster,
            prices=self._prices,
            now_s=self._clock(),
            waited_s=view.waited_s,
            mix=self._mix,
            known=(stands, has),
        )

    def _candidates(self, view: _View, changed: Mapping[str, Capacity]) -> Mapping[str, Candidate]:
        if not changed:
            return view.usable
        found = dict(view.usable)
        for name, capacity in changed.items():
            candidate = self._judge(view, name, capacity)
            found.pop(name, None)
            if candidate.usable:
                found[name] = candidate
        return found

    def _given(self, uids: Collection[str]) -> dict[str, Capacity]:
        changed: dict[str, Capacity] = {}
        for uid in sorted(uids):
            for cluster, taken in self._held.get(uid, ()):
                before = changed.get(cluster, self._capacities.get(cluster))
                if before is not None:
                    changed[cluster] = before.give(taken)
        return changed

    # -- answers

    def _solve(
        self,
        demand: Demand,
        asked: Sequence[Asked],
        capacities: Mapping[str, Capacity],
        incumbents: Collection[str],
    ) -> Answer | None:
        policy = demand.policy
        limit = policy.objective.max_price
        if limit is not None and self._prices.currency not in ("", limit.currency):
            return None
        order = self._order
        if incumbents:
            order = sorted(order, key=lambda name: (name not in incumbents, name))
        prices = self._prices.seen_by(demand)
        terms = Terms(prices, policy.objective.spot, limit is not None, self._mix)
        span = 1 if policy.mode == "One" else policy.gang.max_clusters
        ceiling = None if limit is None else limit.micro
        if any(role.least is not None for role in demand.roles):
            least = [
                each.units if each.role.least is None else each.role.least // each.role.unit
                for each in asked
            ]
            return largest(asked, least, order, capacities, terms, span=span, ceiling=ceiling)
        return solve(asked, order, capacities, terms, span=span, ceiling=ceiling)

    def _placed(
        self, item: Item, demand: Demand, answer: Answer, capacities: Mapping[str, Capacity]
    ) -> Placed:
        seats: list[tuple[str, Taken]] = []
        amounts: dict[str, dict[Key, int]] = {}
        keys = {key.resource: key for key in sorted(item.requests, reverse=True)}
        for piece in answer.pieces:
            capacity = capacities[piece.cluster]
            sums: dict[Key, int] = {}
            present = [at for at in answer.order if piece.pods[at]]
            _, found = capacity.take_together(
                [(demand.roles[at].kind, dict(piece.blocks[at])) for at in present]
            )
            seats += [(piece.cluster, taken) for taken in found]
            for at in present:
                for name, need in demand.roles[at].kind.request:
                    key = keys.get(name)
                    if key is not None:
                        sums[key] = sums.get(key, 0) + need * piece.pods[at]
            amounts[piece.cluster] = sums
        pods_of = [sum(piece.pods[at] for piece in answer.pieces) for at in answer.order]
        by_role = dict(zip(answer.order, pods_of, strict=True))
        roles = tuple(replace(role, pods=by_role[at]) for at, role in enumerate(demand.roles))
        total: dict[Key, int] = {}
        for there in amounts.values():
            for key, value in there.items():
                total[key] = total.get(key, 0) + value
        less = any(total.get(key, value) < value for key, value in item.requests.items())
        return Placed(
            plan=Seating(answer, roles, tuple(seats)),
            clusters=amounts,
            amounts=total if less else None,
        )

    def _unplaced(self, demand: Demand, asked: Sequence[Asked], views: Sequence[_View]) -> Unplaced:
        policy = demand.policy
        span = 1 if policy.mode == "One" else policy.gang.max_clusters
        ever = True
        for each, view in zip(asked, views, strict=True):
            role = each.role
            least = role.least if role.least is not None else each.units * role.unit
            free = _at_best(view.known.values(), span, lambda c: c.pods if c.usable else 0)
            if free < least:
                empty = _at_best(
                    view.known.values(),
                    span,
                    lambda c: c.pods_if_empty if c.reason in _PASSING else 0,
                )
                ever = empty >= least or any(c.pods_if_empty is None for c in view.known.values())
                where = "one cluster" if span == 1 else f"{span} clusters"
                why = f"role {role.name} needs {least}, {where} of one network have {free} free"
                return Unplaced(why, ever)
        return Unplaced("its roles do not fit together, or only above the price ceiling", ever)


def _demand(demand: object) -> Demand:
    from fleet.scheduling.demand import Demand

    assert isinstance(demand, Demand)
    return demand


def _most(item: Item, demand: Demand, role: Role) -> int:
    """Pods of a role that may be placed: of an elastic one as many as what is requested pays."""
    if role.least is None:
        return role.pods
    fixed: dict[str, int] = {}
    for other in demand.roles:
        if other is not role:
            for name, need in other.kind.request:
                fixed[name] = fixed.get(name, 0) + need * other.pods
    most = role.pods
    for key, value in item.requests.items():
        need = dict(role.kind.request).get(key.resource, 0)
        if need:
            most = min(most, (value - fixed.get(key.resource, 0)) // need)
    return max(role.least, most // role.unit * role.unit)


def _at_best(
    candidates: Iterable[Candidate], span: int, pods: Callable[[Candidate], int | None]
) -> int:
    by_domain: dict[str, list[int]] = {}
    for each in candidates:
        by_domain.setdefault(each.domain, []).append(pods(each) or 0)
    return max((sum(sorted(found)[-span:]) for found in by_domain.values()), default=0)
