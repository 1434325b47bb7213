"""What no placement of many gangs together can beat: a bound, certified, level by level.

Two levels (clusters, then blocks) of which only the first is modelled: a cluster holds no more of
the larger pods than fit on its nodes one beside the other, and no more of the larger units than fit
in its blocks. Whoever places for real keeps these rules too, so what comes out is a bound for him;
it can be reached where units of one size compete. Two programs are asked (`programs`), of which one
relaxes further; no placement is better than what either says. Work is admitted by priority first,
then less is better: tiers, clusters, units of unknown price, money.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.scheduling.exact.programs import Relaxed, Whole
from fleet.scheduling.exact.question import question_of
from fleet.scheduling.exact.solver import Limits
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
    good as reached; a bound that the limit leaves loose makes the gap larger, never smaller. Of two
    bounds (`programs`) the closer one counts: no placement is better than either.

    Raises ConfigError where OR-tools is not installed.
    """
    fleet = tuple(clusters)
    questions = [question_of(each, fleet, now_s=now_s, prices=prices) for each in batch]
    model = Model(batch, questions, fleet, Whole())
    reached = levels(batch, placed)
    found = Gap("", 0, 0)
    for at, level in enumerate(reached):
        bound = model.bound(level, limits)
        assert bound is not None
        if bound != level.value:
            relaxed = Model(batch, questions, fleet, Relaxed([weight(each) for each in batch]))
            for before in reached[:at]:
                relaxed.keep(before)
            other = relaxed.bound(level, limits)
            if other is not None:
                bound = min(bound, other) if level.most else max(bound, other)
        found = Gap(level.name, level.value, bound)
        if bound != level.value:
            made = bound < level.value if level.most else bound > level.value
            assert not made, f"what was placed is better than its bound: {found}"
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


class Model:
    """A batch as a program whose solutions include every placement there is.

    With the program `Relaxed` only some gangs are whole, so it has more solutions.
    """

    def __init__(
        self,
        batch: Sequence[Demand],
        questions: Sequence[Question],
        clusters: Sequence[Cluster],
        program: Whole | Relaxed,
    ) -> None:
        self._m = program
        self._batch = batch
        self._admitted: list[Any] = []
        self._tiers: list[tuple[int, Any, int]] = []
        self._used: list[tuple[int, Any, int]] = []
        self._unpriced: list[tuple[int, Any, int]] = []
        self._money: list[tuple[int, Any, int]] = []
        self._claims: dict[str, list[tuple[int, int, Any]]] = {each.name: [] for each in clusters}
        """By cluster: (accelerators of a pod, accelerators of a unit, units)."""
        for at, (demand, question) in enumerate(zip(batch, questions, strict=True)):
            program.begin(at)
            self._admit(demand, question)
        for cluster in clusters:
            self._hold(cluster)

    def _admit(self, demand: Demand, question: Question) -> None:
        """One gang, all or nothing, one network of each kind, no more clusters than it may have."""
        m = self._m
        admitted = m.new_bool_var("admit")
        self._admitted.append(admitted)
        used = {place.name: m.new_bool_var("use") for place in question.places}
        tiers = max((t or 0 for p in question.places for t in p.tiers), default=0)
        first = min((t for p in question.places for t in p.tiers if t), default=0)
        latest = m.new_int_var(0, tiers, "tier")
        m.add(sum(used.values()) <= question.span * admitted)
        networks: dict[tuple[str, str], Any] = {}
        for at, role in enumerate(demand.roles):
            units = []
            by_network: dict[tuple[str, str] | None, list[tuple[int, Any, Any]]] = {}
            for place in question.places:
                most, cheapest, priced = _offer(question, place.name, at)
                tier = place.tiers[at]
                if not most or not tier:
                    continue
                by = used[place.name]
                if len(demand.roles) > 1:
                    by = m.new_bool_var("use by")
                    m.add(by <= used[place.name])
                if question.span == 1 and len(demand.roles) == 1:
                    if most < role.units:
                        m.add(by <= 0)
                        continue
                    var = role.units * by
                else:
                    var = m.new_int_var(0, min(most, role.units), "units")
                    m.add(var <= min(most, role.units) * by)
                    m.add(by <= var)
                m.add(latest >= first * admitted + (tier - first) * by)
                key: tuple[str, str] | None = None
                if role.network != "None":
                    key = role.network, place.networks[at]
                    if key not in networks:
                        networks[key] = m.new_bool_var("network")
                    m.add(by <= networks[key])
                by_network.setdefault(key, []).append((min(most, role.units), var, by))
                if not priced:
                    self._unpriced.append((role.unit, var, min(most, role.units)))
                if cheapest:
                    self._money.append((cheapest, var, min(most, role.units)))
                size = accelerators(role.kind.request)
                if size:
                    self._claims[place.name].append((size, size * role.unit, var))
                units.append(var)
            m.add(sum(units) == role.units * admitted)
            for key, there in by_network.items():
                self._gather(there, role.units, question.span, networks[key] if key else admitted)
        for kind in {kind for kind, _ in networks}:
            m.add(sum(var for (of, _), var in networks.items() if of == kind) <= 1)
        self._used += [(1, var, 1) for var in used.values()]
        self._tiers.append((1, latest, tiers))

    def _gather(
        self, there: Sequence[tuple[int, Any, Any]], units: int, span: int, chosen: Any
    ) -> None:
        """All units of a role are in the chosen network, in no fewer clusters than hold them.

        That follows from the rest where everything is whole; where it is not, it says more.
        """
        m = self._m
        m.add(sum(var for _, var, _ in there) == units * chosen)
        m.add(sum(by for _, _, by in there) <= span * chosen)
        needed, held = 0, 0
        for most in sorted((most for most, _, _ in there), reverse=True):
            if held < units:
                needed, held = needed + 1, held + most
        if held < units or needed > span:
            m.add(chosen <= 0)
        else:
            m.add(sum(by for _, _, by in there) >= needed * chosen)

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

    def bound(self, level: Level, limits: Limits) -> int | None:
        """The best that is possible on a level; None where that could not be told."""
        terms = self._terms(level)
        return self._m.bound(terms, most=level.most, limits=limits) if terms else 0

    def keep(self, level: Level) -> None:
        terms = self._terms(level)
        if terms:
            total = sum(factor * var for factor, var, _ in terms)
            self._m.add(total >= level.value if level.most else total <= level.value)

    def _terms(self, level: Level) -> list[tuple[int, Any, int]]:
        """(factor, variable, its largest value)"""
        match level.name:
            case "tier":
                return self._tiers
            case "clusters":
                return self._used
            case "unpriced":
                return self._unpriced
            case "micro":
                return self._money
        priority = int(level.name.removeprefix("admitted "))
        return [
            (weight(each), admitted, 1)
            for each, admitted in zip(self._batch, self._admitted, strict=True)
            if each.priority == priority
        ]


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
