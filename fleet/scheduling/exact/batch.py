"""What no placement of many gangs together can beat: a bound, certified, level by level.

Two levels (clusters, then blocks) of which only the first is modelled: a cluster holds no more of
the larger pods than fit on its nodes one beside the other, and no more of the larger units than fit
in its blocks. Whoever places for real keeps these rules too, so what comes out is a bound for him;
it can be reached where units of one size compete. Work is admitted by priority first, then less is
better: tiers, clusters, units of unknown price, money.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.scheduling.exact.question import question_of
from fleet.scheduling.exact.solver import Limits, cp_sat, solved_with
from fleet.scheduling.price import Prices
from fleet.scheduling.requests import accelerators

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.exact.question import Question

_NO_PRICES = Prices()
_NO_LIMITS = Limits(work=10.0, workers=2)


class Level(NamedTuple):
    """One level of the objective of a batch. Admitted work is made most, everything else least."""

    name: str
    value: int

    @property
    def most(self) -> bool:
        return self.name.startswith("admitted")


class Share(NamedTuple):
    """What one gang of a batch has in one cluster."""

    cluster: str
    tier: int
    pods: int
    micro: int | None
    """Per hour; None where a part of it has no known price."""


@dataclass(frozen=True, slots=True)
class Gap:
    """How far a placement is from the bound on the first level on which it is not at it."""

    level: str
    reached: int
    bound: int

    @property
    def relative(self) -> float:
        return abs(self.reached - self.bound) / max(1, abs(self.bound), abs(self.reached))


def gap(
    batch: Sequence[Demand],
    placed: Mapping[int, Sequence[Share]],
    clusters: Iterable[Cluster],
    *,
    now_s: float,
    prices: Prices = _NO_PRICES,
    limits: Limits = _NO_LIMITS,
) -> Gap:
    """How much better than `placed` – shares by position in the batch – any placement could be.

    The gap on the first level where the bound is better than what was reached, else that of the
    last, which is 0. Each level is bounded under the condition that the ones before are at least as
    good as reached; a bound that the limit leaves loose makes the gap larger, never smaller.

    Raises ConfigError where OR-tools is not installed.
    """
    fleet = tuple(clusters)
    questions = [question_of(each, fleet, now_s=now_s, prices=prices) for each in batch]
    model = _Model(batch, questions, fleet)
    reached = levels(batch, placed)
    found = Gap("", 0, 0)
    for level in reached:
        bound = model.bound(level, limits)
        found = Gap(level.name, level.value, bound)
        if bound != level.value:
            return found
        model.keep(level)
    return found


def levels(batch: Sequence[Demand], placed: Mapping[int, Sequence[Share]]) -> list[Level]:
    """What a placement of a batch reached, the most important first."""
    by_class = {
        priority: sum(
            weight(each)
            for at, each in enumerate(batch)
            if each.priority == priority and placed.get(at)
        )
        for priority in sorted({each.priority for each in batch}, reverse=True)
    }
    shares = [(batch[at], each) for at, there in placed.items() for each in there]
    return [
        *(Level(f"admitted {priority}", value) for priority, value in by_class.items()),
        Level("tier", sum(max(each.tier for each in there) for there in placed.values() if there)),
        Level("clusters", len(shares)),
        Level("unpriced", sum(each.pods for _, each in shares if each.micro is None)),
        Level("micro", sum(each.micro or 0 for _, each in shares)),
    ]


def weight(demand: Demand) -> int:
    """What admitting it is worth among gangs of equal priority: its accelerators, or its pods."""
    devices = sum(role.pods * accelerators(role.kind.request) for role in demand.roles)
    return devices or sum(role.pods for role in demand.roles)


class _Model:
    def __init__(
        self, batch: Sequence[Demand], questions: Sequence[Question], clusters: Sequence[Cluster]
    ) -> None:
        self._cp = cp_sat()
        self._m = self._cp.CpModel()
        self._batch = batch
        self._admitted: list[Any] = []
        self._tiers: list[Any] = []
        self._used: list[Any] = []
        self._unpriced: list[Any] = []
        self._money: list[Any] = []
        self._claims: dict[str, list[tuple[int, int, Any]]] = {each.name: [] for each in clusters}
        """By cluster: (accelerators of a pod, accelerators of a unit, units)."""
        for demand, question in zip(batch, questions, strict=True):
            self._admit(demand, question)
        for cluster in clusters:
            self._hold(cluster)

    def _admit(self, demand: Demand, question: Question) -> None:
        """One gang, all or nothing, one network of each kind, no more clusters than it may have."""
        m = self._m
        admitted = m.new_bool_var("admit")
        self._admitted.append(admitted)
        used = {place.name: m.new_bool_var("use") for place in question.places}
        latest = m.new_int_var(
            0, max((t or 0 for p in question.places for t in p.tiers), default=0), "tier"
        )
        m.add(sum(used.values()) <= question.span * admitted)
        networks: dict[tuple[str, str], Any] = {}
        for at, role in enumerate(demand.roles):
            units = []
            for place in question.places:
                most, cheapest, priced = _offer(question, place.name, at)
                tier = place.tiers[at]
                if not most or not tier:
                    continue
                var = m.new_int_var(0, min(most, role.units), "units")
                by = m.new_bool_var("use by")
                m.add(var <= min(most, role.units) * by)
                m.add(by <= var)
                m.add_implication(by, used[place.name])
                m.add(latest >= tier * by)
                if role.network != "None":
                    key = role.network, place.networks[at]
                    chosen = networks.setdefault(key, m.new_bool_var("network"))
                    m.add_implication(by, chosen)
                if not priced:
                    self._unpriced.append(var * role.unit)
                if cheapest:
                    self._money.append(var * cheapest)
                size = accelerators(role.kind.request)
                if size:
                    self._claims[place.name].append((size, size * role.unit, var))
                units.append(var)
            m.add(sum(units) == role.units * admitted)
        for kind in {kind for kind, _ in networks}:
            m.add(sum(var for (of, _), var in networks.items() if of == kind) <= 1)
        self._used += used.values()
        self._tiers.append(latest)

    def _hold(self, cluster: Cluster) -> None:
        """No more than there is, of the larger pods and of the larger units too."""
        claims = self._claims[cluster.name]
        if not claims or cluster.capacity is None:
            return
        blocks: dict[str, list[int]] = {}
        for node in cluster.capacity.nodes:
            blocks.setdefault(node.block, []).append(max(0, accelerators(node.free)))
        sizes = sorted({size for size, _, _ in claims})
        wholes = sorted({whole for _, whole, _ in claims})
        for size in sizes:
            for whole in wholes:
                larger = [each for each in claims if each[0] >= size and each[1] >= whole]
                if any(each[0] % size or each[1] % whole for each in larger):
                    continue
                there = 0
                for free in blocks.values():
                    on_nodes = sum(each // size * size for each in free)
                    there += on_nodes // whole * whole
                self._m.add(sum(of * var for _, of, var in larger) <= there)

    def bound(self, level: Level, limits: Limits) -> int:
        """The best that is possible on a level."""
        expression = self._expression(level)
        if isinstance(expression, int):
            return expression
        self._m.clear_objective()
        if level.most:
            self._m.maximize(expression)
        else:
            self._m.minimize(expression)
        status, solved = solved_with(self._m, limits)
        if status == self._cp.INFEASIBLE:
            raise AssertionError(f"a placement that was made is impossible, at level {level.name}")
        # Bounds are of integers: the next one that could be reached.
        bound: float = solved.best_objective_bound
        return floor(bound + 1e-6) if level.most else ceil(bound - 1e-6)

    def keep(self, level: Level) -> None:
        expression = self._expression(level)
        if isinstance(expression, int):
            return
        if level.most:
            self._m.add(expression >= level.value)
        else:
            self._m.add(expression <= level.value)

    def _expression(self, level: Level) -> Any:
        match level.name:
            case "tier":
                return sum(self._tiers)
            case "clusters":
                return sum(self._used)
            case "unpriced":
                return sum(self._unpriced)
            case "micro":
                return sum(self._money)
        priority = int(level.name.removeprefix("admitted "))
        return sum(
            weight(each) * admitted
            for each, admitted in zip(self._batch, self._admitted, strict=True)
            if each.priority == priority
        )


def _offer(question: Question, cluster: str, role: int) -> tuple[int, int, bool]:
    """Units of a role that a cluster holds at most, what one costs there at least, and whether any
    has a price.
    """
    unit = question.roles[role].unit
    pods = [0] * len(question.pools)
    for one in question.bins:
        pool = one.pools[role]
        if one.cluster == cluster and pool is not None:
            request = question.roles[role].kind.request
            fits = min((one.free.get(name, 0) // need for name, need in request), default=0)
            pods[pool] += max(0, fits) * one.count
    mine = [
        (pods[at] // unit, pool.micro)
        for at, pool in enumerate(question.pools)
        if pool.role == role and pool.cluster == cluster and pods[at] >= unit
    ]
    most = sum(units for units, _ in mine)
    known = [micro for _, micro in mine if micro is not None]
    return most, min(known, default=0) if len(known) == len(mine) else 0, bool(known)
