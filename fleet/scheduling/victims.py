"""Room for a gang by ending others: the whole gangs that cost least, and the plan once they go.

Who may go is for the caller to say; here it is only asked which of them. What is made least is the
cost of those that go, then what `placement` makes least. A gang is freed of whole gangs of one
cluster, or of the clusters of one network where the span allows several, never of a bit here and a
bit there that no plan could use (volcano#4533); each choice is one with which the gang was placed
again, and none of them could be spared. The search is exhaustive up to a number of steps; `exact`
says whether that sufficed, and `bound` what any choice costs at least.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fleet.scheduling.clusters import judge
from fleet.scheduling.gang import Asked, Terms, solve
from fleet.scheduling.placement import Plan, place
from fleet.scheduling.price import Prices
from fleet.scheduling.stranding import NO_MIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.capacity import Capacity, PodKind, Taken
    from fleet.scheduling.clusters import Candidate, Cluster
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.gang import Answer
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.stranding import Mix

_NO_PRICES: Final = Prices()
_STEPS: Final = 1500
_PARTITION_STEPS: Final = 400


@dataclass(frozen=True, slots=True)
class Held:
    """Pods of a running gang in one cluster; `taken`, where it is known, says on which nodes."""

    cluster: str
    kind: PodKind
    blocks: tuple[tuple[str, int], ...]
    taken: Taken | None = None

    @classmethod
    def on(cls, cluster: str, taken: Taken) -> Held:
        blocks = tuple((block, sum(n for _, n in seats)) for block, seats in taken.seats)
        return cls(cluster, taken.kind, blocks, taken)

    def freed(self, capacity: Capacity) -> Capacity:
        if self.taken is not None:
            return capacity.give(self.taken)
        return capacity.released(self.kind, dict(self.blocks))


@dataclass(frozen=True, slots=True)
class Running:
    """A gang that may be ended as a whole. `cost` is what that would lose."""

    uid: str
    priority: int
    cost: int
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """The plan, and who has to go first; nobody where there is room as it is."""

    plan: Plan
    victims: tuple[str, ...]
    cost: int
    bound: int
    """No choice of victims costs less."""
    exact: bool
    """Whether none that costs as little and has a better plan was left out."""


def make_room(
    demand: Demand,
    clusters: Iterable[Cluster],
    running: Iterable[Running],
    *,
    generation: int,
    now_s: float,
    prices: Prices = _NO_PRICES,
    waited_s: float = 0.0,
    incumbents: Collection[str] = (),
    mix: Mix = NO_MIX,
) -> Eviction | Refusal:
    """The least costly way to place a workload, with any of `running` gone.

    Takes what `placement.place` takes; `clusters` have what runs deducted. The refusal is the one
    of the fleet as it is.
    """
    fleet = {cluster.name: cluster for cluster in clusters}

    def placed(gone: Iterable[Running]) -> Plan | Refusal:
        return place(
            demand,
            _without(fleet, gone),
            generation=generation,
            now_s=now_s,
            prices=prices,
            waited_s=waited_s,
            incumbents=incumbents,
            mix=mix,
        )

    as_it_is = placed(())
    if isinstance(as_it_is, Plan):
        return Eviction(as_it_is, (), cost=0, bound=0, exact=as_it_is.exact)
    able = sorted(running, key=lambda each: (-each.cost, -each.priority, each.uid))
    trial = _Trial(demand, fleet, prices, now_s=now_s, waited_s=waited_s, incumbents=incumbents)
    search = _Search(trial, able)
    found = search.run()
    if found is None:
        return as_it_is
    plan = placed(found.gone)
    if not isinstance(plan, Plan):
        return as_it_is
    return Eviction(
        plan=plan,
        victims=tuple(sorted(each.uid for each in found.gone)),
        cost=found.cost,
        bound=found.cost if search.complete else min(each.cost for each in able),
        exact=search.complete and plan.exact and len(demand.roles) == 1,
    )


def _without(fleet: Mapping[str, Cluster], gone: Iterable[Running]) -> list[Cluster]:
    capacities: dict[str, Capacity] = {}
    for each in sorted(gone, key=lambda running: running.uid):
        for held in each.held:
            cluster = fleet.get(held.cluster)
            if cluster is not None and cluster.capacity is not None:
                before = capacities.get(held.cluster, cluster.capacity)
                capacities[held.cluster] = held.freed(before)
    return [
        replace(cluster, capacity=capacities.get(name, cluster.capacity))
        for name, cluster in fleet.items()
    ]


class _Trial:
    """Does it fit with some gone, and how well? Remembers each cluster in each state."""

    def __init__(
        self,
        demand: Demand,
        fleet: Mapping[str, Cluster],
        prices: Prices,
        *,
        now_s: float,
        waited_s: float,
        incumbents: Collection[str],
    ) -> None:
        self.demand = demand
        self.fleet = fleet
        self._prices = prices = prices.seen_by(demand)
        self._now_s = now_s
        self._waited_s = waited_s
        self._order = sorted(fleet, key=lambda name: (name not in incumbents, name))
        self._known: dict[tuple[str, tuple[str, ...]], tuple[Capacity, list[Candidate]]] = {}
        policy = demand.policy
        limit = policy.objective.max_price
        self._ceiling = None if limit is None else limit.micro
        self._terms = Terms(prices, policy.objective.spot, limit is not None)
        self.span = 1 if policy.mode == "One" else policy.gang.max_clusters

    def state(self, name: str, gone: Sequence[Running]) -> tuple[Capacity, list[Candidate]] | None:
        """Its capacity, and the cluster judged for each role; None where nothing is known."""
        cluster = self.fleet[name]
        if cluster.capacity is None:
            return None
        there = sorted(
            (each for each in gone if any(held.cluster == name for held in each.held)),
            key=lambda each: each.uid,
        )
        key = name, tuple(each.uid for each in there)
        known = self._known.get(key)
        if known is None:
            capacity = cluster.capacity
            for each in there:
                for held in each.held:
                    if held.cluster == name:
                        capacity = held.freed(capacity)
            freed = replace(cluster, capacity=capacity)
            known = self._known[key] = (
                capacity,
                [self._judged(role, freed) for role in self.demand.roles],
            )
        return known

    def _judged(self, role: Role, cluster: Cluster) -> Candidate:
        return judge(
            self.demand,
            role,
            cluster,
            prices=self._prices,
            now_s=self._now_s,
            waited_s=self._waited_s,
        )

    def answer(self, names: Collection[str], gone: Sequence[Running]) -> Answer | None:
        """The best in these clusters."""
        capacities: dict[str, Capacity] = {}
        candidates: list[dict[str, Candidate]] = [{} for _ in self.demand.roles]
        for name in sorted(names):
            state = self.state(name, gone)
            if state is None:
                continue
            capacities[name] = state[0]
            for at, candidate in enumerate(state[1]):
                if candidate.usable:
                    candidates[at][name] = candidate
        asked = [
            Asked(role, role.units, there)
            for role, there in zip(self.demand.roles, candidates, strict=True)
        ]
        if not all(map(self._enough, asked)):
            return None
        return solve(
            asked,
            self._order,
            capacities,
            self._terms,
            span=self.span,
            ceiling=self._ceiling,
            quick=True,
        )

    def _enough(self, asked: Asked) -> bool:
        """Whether a role alone would find room."""
        by_domain: dict[str, list[int]] = {}
        for each in asked.candidates.values():
            by_domain.setdefault(each.domain, []).append(each.curve.units)
        return any(sum(sorted(units)[-self.span :]) >= asked.units for units in by_domain.values())

    def partitions(self) -> list[frozenset[str]]:
        """The sets of clusters that a plan may be in: each alone, then each network."""
        names = [name for name in self._order if self.state(name, ()) is not None]
        found: dict[frozenset[str], None] = {frozenset([name]): None for name in names}
        if self.span > 1:
            kinds = {role.network for role in self.demand.roles}
            for domain in sorted({self._domain(name) for name in names}):
                there = {name for name in names if self._domain(name) == domain}
                if len(kinds) > 1:
                    # Roles of other networks may be anywhere.
                    there |= {name for name in names if self._other(name)}
                found[frozenset(there)] = None
        return list(found)

    def _domain(self, name: str) -> str:
        """The network of the first role that asks for one."""
        state = self.state(name, ())
        assert state is not None
        kinds = [role.network for role in self.demand.roles]
        for kind in ("ParameterPlane", "DataPlane"):
            if kind in kinds:
                return state[1][kinds.index(kind)].domain
        return ""

    def _other(self, name: str) -> bool:
        """Whether a role that asks for another network, or none, could be there."""
        state = self.state(name, ())
        assert state is not None
        kind = "ParameterPlane" if any(
            role.network == "ParameterPlane" for role in self.demand.roles
        ) else "DataPlane"  # fmt: skip
        return any(
            role.network != kind and candidate.reason in ("", "Full")
            for role, candidate in zip(self.demand.roles, state[1], strict=True)
        )


@dataclass(frozen=True, slots=True)
class _Choice:
    cost: int
    rank: tuple[object, ...]
    gone: tuple[Running, ...]


class _Search:
    """The least costly set, by deciding on one gang after the other, the costliest first."""

    def __init__(self, trial: _Trial, able: Sequence[Running]) -> None:
        self._trial = trial
        self._able = able
        self._best: _Choice | None = None
        self._steps = 0
        self._end = 0
        self.complete = True

    def run(self) -> _Choice | None:
        for names in self._trial.partitions():
            there = [
                each for each in self._able if any(held.cluster in names for held in each.held)
            ]
            if self._fits(names, there) is None:
                continue
            self._end = min(_STEPS, self._steps + _PARTITION_STEPS)
            self._decide(names, (), there)
        return self._best

    def _fits(self, names: frozenset[str], gone: Sequence[Running]) -> Answer | None:
        self._steps += 1
        return self._trial.answer(names, gone)

    def _decide(
        self, names: frozenset[str], gone: tuple[Running, ...], left: Sequence[Running]
    ) -> None:
        """It fits with all of `gone` and `left` gone; which of `left` can stay?"""
        cost = sum(each.cost for each in gone)
        if self._best is not None and cost > self._best.cost:
            return
        if self._steps >= self._end:
            self.complete = False
            self._settle(names, gone, left)
            return
        if self._fits_now(names, gone):
            return
        if not left:
            return
        first, *rest = left
        if self._fits(names, (*gone, *rest)) is not None:
            self._decide(names, gone, rest)
        self._decide(names, (*gone, first), rest)

    def _fits_now(self, names: frozenset[str], gone: tuple[Running, ...]) -> bool:
        answer = self._fits(names, gone)
        if answer is None:
            return False
        self._keep(gone, answer)
        return True

    def _settle(
        self, names: frozenset[str], gone: tuple[Running, ...], left: Sequence[Running]
    ) -> None:
        """No more steps: spare whom can be spared, the costliest first, if there is nothing yet."""
        if self._best is not None:
            return
        chosen = [*gone, *left]
        for each in sorted(chosen, key=lambda running: (-running.cost, running.uid)):
            fewer = [other for other in chosen if other is not each]
            if self._trial.answer(names, fewer) is not None:
                chosen = fewer
        answer = self._trial.answer(names, chosen)
        assert answer is not None
        self._keep(tuple(chosen), answer)

    def _keep(self, gone: tuple[Running, ...], answer: Answer) -> None:
        rank = (
            answer.tier,
            len(answer.pieces),
            answer.cost.packed,
            max((each.priority for each in gone), default=0),
            len(gone),
            sorted(each.uid for each in gone),
        )
        choice = _Choice(sum(each.cost for each in gone), rank, gone)
        if self._best is None or (choice.cost, choice.rank) < (self._best.cost, self._best.rank):
            self._best = choice
