"""One gang as a constraint model, solved exactly: the levels of the objective, one after the other.

Hard: all pods of every role or none, units whole in one block and alike, one network of a kind for
the roles that ask for it, span, ceiling, what is free on each node and what evicted gangs give
back. Each level is minimised, then held at its minimum while the next is; so the vector that comes
out is the lexicographic optimum, or names the first level that was not proven. `question` made the
integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.scheduling.exact.question import question_of
from fleet.scheduling.exact.solver import Limits, cp_sat, hint, solved_with
from fleet.scheduling.price import Prices
from fleet.scheduling.stranding import NO_MIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.exact.question import Bin, Place, Question, Victim
    from fleet.scheduling.stranding import Mix

_NO_PRICES = Prices()
_NO_LIMITS = Limits()
_MOST_PATTERNS: Final = 64


class Objective(NamedTuple):
    """What is made least, the first first."""

    several: int
    """1 where room is made in more than one cluster."""
    preemption: int
    """Lost work of evicted gangs."""
    tier: int
    """The latest tier that is used."""
    clusters: int
    unknown: int
    """Units whose price is not known."""
    micro: int
    """Per hour, of the other units."""
    blocks: int
    stranded: int = 0
    """How much more is of no use to the jobs that are expected; may be less than before. Counted
    where all pods are of one kind, nobody is evicted, and a mix is given."""


class Share(NamedTuple):
    """Pods of a role in one block of a cluster."""

    role: str
    cluster: str
    block: str
    pods: int


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best placement there is."""

    objective: Objective
    shares: tuple[Share, ...]
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Infeasible:
    """There is none: every way to place all pods breaks a hard constraint. Proven."""


@dataclass(frozen=True, slots=True)
class Unproven:
    """The limit was reached first."""

    level: str
    """The first level whose minimum is not proven; those before are."""
    bound: int
    """Nothing can be below this on that level while the levels before are at their minimum."""
    best: Optimum | None
    """The best that was found, if anything was."""


Answer = Optimum | Infeasible | Unproven


def optimum(
    demand: Demand,
    clusters: Iterable[Cluster],
    *,
    now_s: float,
    prices: Prices = _NO_PRICES,
    waited_s: float = 0.0,
    incumbents: Collection[str] = (),
    victims: Iterable[Victim] = (),
    mix: Mix = NO_MIX,
    limits: Limits = _NO_LIMITS,
    ties: bool = True,
) -> Answer:
    """The best placement of a workload, or the proof that there is none, within `limits`.

    Takes what `placement.place` takes. With `ties` the clusters are also those that come first,
    incumbents before others and then by name, with as much as possible in the first; a limit that
    is met there leaves the objective proven and the names as they are.

    Raises ConfigError where OR-tools is not installed.
    """
    question = question_of(
        demand,
        clusters,
        now_s=now_s,
        prices=prices,
        waited_s=waited_s,
        incumbents=incumbents,
        victims=victims,
        mix=mix,
    )
    return solve(question, limits=limits, ties=ties)


def solve(
    question: Question,
    *,
    limits: Limits = _NO_LIMITS,
    ties: bool = False,
    shares: Mapping[tuple[str, str, str], int] | None = None,
    victims: Collection[str] | None = None,
) -> Answer:
    """The best answer to a question; `shares` – pods by (role, cluster, block) – and `victims`,
    where given, are what was chosen already: then it is what that choice is worth, Infeasible if it
    cannot be.
    """
    model = _Model(question)
    if shares is not None and not model.fix(shares):
        return Infeasible()
    if victims is not None:
        model.fix_victims(victims)
    return model.solve(limits, ties=ties)


class _Model:
    """The variables; each method adds one group of constraints."""

    def __init__(self, question: Question) -> None:
        self._cp = cp_sat()
        self._m = self._cp.CpModel()
        self._q = question
        self._evicted = [self._m.new_bool_var(f"evict {each.uid}") for each in question.victims]
        self._pods: list[list[Any]] = [[] for _ in question.pools]
        """Terms by pool: pods of its role in its bins."""
        self._most = [0] * len(question.pools)
        self._touched: dict[tuple[str, str], Any] = {}
        for one in question.bins:
            self._fill(one)
        self._units = self._buy()
        self._used, self._used_by = self._choose()
        self._connect()
        self._tier = self._latest()
        self._several = self._part()
        self._levels = self._objective()

    # -- what fits

    def _fill(self, one: Bin) -> None:
        roles = [role for role, pool in enumerate(one.pools) if pool is not None]
        if one.freed:
            for _ in range(one.count):
                self._add(one, self._one_by_one(one, roles))
            return
        each = {role: _fitting(one.free, self._request(role)) for role in roles}
        roles = [role for role in roles if each[role]]
        if len(roles) < 2:
            pods = {r: self._m.new_int_var(0, each[r] * one.count, "pods") for r in roles}
            self._add(one, {role: (var, each[role] * one.count) for role, var in pods.items()})
            return
        patterns = _patterns(one.free, [self._request(role) for role in roles])
        if patterns is None:
            for _ in range(one.count):
                self._add(one, self._one_by_one(one, roles))
            return
        counts = [self._m.new_int_var(0, one.count, "nodes") for _ in patterns]
        self._m.add(sum(counts) <= one.count)
        found = {}
        for at, role in enumerate(roles):
            most = each[role] * one.count
            var = self._m.new_int_var(0, most, "pods")
            self._m.add(var <= sum(c * p[at] for c, p in zip(counts, patterns, strict=True)))
            found[role] = (var, most)
        self._add(one, found)

    def _one_by_one(self, one: Bin, roles: Sequence[int]) -> dict[int, tuple[Any, int]]:
        """A single node, with what its victims may give back."""
        full = dict(one.free)
        for _, amounts in one.freed:
            for name, value in amounts:
                full[name] = full.get(name, 0) + value
        found = {}
        for role in roles:
            most = _fitting(full, self._request(role))
            if most:
                found[role] = (self._m.new_int_var(0, most, "pods"), most)
        for name in sorted({name for role in found for name, _ in self._request(role)}):
            needs = [
                (var, most, dict(self._request(role)).get(name, 0))
                for role, (var, most) in found.items()
            ]
            taken = sum(need * var for var, _, need in needs if need)
            there = one.free.get(name, 0) + sum(
                dict(amounts).get(name, 0) * self._evicted[victim] for victim, amounts in one.freed
            )
            if one.free.get(name, 0) < 0:
                # Asked for more than there is: binds only those who want more of it.
                busy = self._m.new_bool_var("busy")
                for var, most, need in needs:
                    if need:
                        self._m.add(var <= most * busy)
                self._m.add(taken <= there).only_enforce_if(busy)
            else:
                self._m.add(taken <= there)
        return found

    def _add(self, one: Bin, found: Mapping[int, tuple[Any, int]]) -> None:
        for role, (var, most) in found.items():
            pool = one.pools[role]
            assert pool is not None
            self._pods[pool].append(var)
            self._most[pool] += most

    def _request(self, role: int) -> tuple[tuple[str, int], ...]:
        return self._q.roles[role].kind.request

    # -- what is chosen

    def _buy(self) -> list[Any]:
        """Whole units by pool; all units of every role."""
        units = []
        for pool, terms, most in zip(self._q.pools, self._pods, self._most, strict=True):
            size = self._q.roles[pool.role].unit
            var = self._m.new_int_var(0, most // size, "units")
            self._m.add(sum(terms) == size * var)
            units.append(var)
        for at, role in enumerate(self._q.roles):
            mine = [var for pool, var in zip(self._q.pools, units, strict=True) if pool.role == at]
            self._m.add(sum(mine) == role.units)
        return units

    def _choose(self) -> tuple[dict[str, Any], dict[tuple[str, int], Any]]:
        used, used_by = {}, {}
        for place in self._q.places:
            used[place.name] = here = self._m.new_bool_var(f"use {place.name}")
            for at, role in enumerate(self._q.roles):
                units = self._of(place, at)
                if units:
                    used_by[place.name, at] = by = self._m.new_bool_var("use by")
                    for var, most in units:
                        self._m.add(var <= min(most, role.units) * by)
                    self._m.add(by <= sum(var for var, _ in units))
                    self._m.add_implication(by, here)
        for place in self._q.places:
            any_role = [used_by[key] for key in used_by if key[0] == place.name]
            self._m.add(used[place.name] <= sum(any_role))
        self._m.add(sum(used.values()) <= self._q.span)
        for pool, var, most in self._bought():
            size = self._q.roles[pool.role]
            block = self._touched.setdefault(
                (pool.cluster, pool.block), self._m.new_bool_var("block")
            )
            self._m.add(var <= min(most, size.units) * block)
        return used, used_by

    def _connect(self) -> None:
        """One network of each kind for the roles that ask for it."""
        kinds: dict[str, list[int]] = {}
        for at, role in enumerate(self._q.roles):
            if role.network != "None":
                kinds.setdefault(role.network, []).append(at)
        for roles in kinds.values():
            names = sorted({p.networks[at] for p in self._q.places for at in roles if p.tiers[at]})
            chosen = {name: self._m.new_bool_var(f"network {name}") for name in names}
            self._m.add(sum(chosen.values()) <= 1)
            for place in self._q.places:
                for at in roles:
                    if (place.name, at) in self._used_by:
                        self._m.add_implication(
                            self._used_by[place.name, at], chosen[place.networks[at]]
                        )

    def _latest(self) -> Any:
        tiers = [tier for place in self._q.places for tier in place.tiers if tier]
        latest = self._m.new_int_var(0, max(tiers, default=0), "tier")
        for place in self._q.places:
            for at, tier in enumerate(place.tiers):
                if tier and (place.name, at) in self._used_by:
                    self._m.add(latest >= tier * self._used_by[place.name, at])
        return latest

    def _part(self) -> Any:
        """Who may be evicted together; and whether those are of several clusters."""
        victims = [*zip(self._q.victims, self._evicted, strict=True)]
        if self._q.size is not None and victims:
            largest = [self._m.new_bool_var("largest") for _ in victims]
            self._m.add(sum(largest) <= 1)
            for one, (_, evicted) in zip(largest, victims, strict=True):
                self._m.add_implication(one, evicted)
            sizes = [victim.size for victim, _ in victims]
            self._m.add(
                sum(
                    size * (evicted - one)
                    for size, one, (_, evicted) in zip(sizes, largest, victims, strict=True)
                )
                <= self._q.size
            )
        names = sorted({seat.cluster for victim, _ in victims for seat in victim.seats})
        if len(names) < 2:
            return 0
        several = self._m.new_bool_var("several")
        emptied = {name: self._m.new_bool_var("emptied") for name in names}
        for victim, evicted in victims:
            for seat in victim.seats:
                self._m.add_implication(evicted, emptied[seat.cluster])
        self._m.add(sum(emptied.values()) <= 1 + len(names) * several)
        return several

    def _of(self, place: Place, role: int) -> list[tuple[Any, int]]:
        return [
            (var, most)
            for pool, var, most in self._bought()
            if pool.cluster == place.name and pool.role == role
        ]

    def _bought(self) -> Iterator[tuple[Any, Any, int]]:
        for pool, var, pods in zip(self._q.pools, self._units, self._most, strict=True):
            most = pods // self._q.roles[pool.role].unit
            if most:
                yield pool, var, most

    def _objective(self) -> Objective:
        money = sum(pool.micro * var for pool, var, _ in self._bought() if pool.micro is not None)
        if self._q.ceiling is not None:
            self._m.add(money <= self._q.ceiling)
        expressions: Any = (
            self._several,
            sum(v.cost * e for v, e in zip(self._q.victims, self._evicted, strict=True)),
            self._tier,
            sum(self._used.values()),
            sum(var for pool, var, _ in self._bought() if pool.micro is None),
            money,
            sum(self._touched.values()),
            self._stranded(),
        )
        return Objective(*expressions)

    def _stranded(self) -> Any:
        """Of what is left in each block: the rest beyond whole units of each expected job."""
        terms: list[Any] = []
        for (cluster, block), free in sorted(self._q.free.items()):
            taken = [
                (self._q.roles[pool.role].unit, var, most)
                for pool, var, most in self._bought()
                if (pool.cluster, pool.block) == (cluster, block)
            ]
            if not taken:
                continue
            most = min(free, sum(unit * each for unit, _, each in taken))
            pods = self._m.new_int_var(0, most, "taken")
            self._m.add(pods == sum(unit * var for unit, var, _ in taken))
            lost = [sum((free - x) % size * w for size, w in self._q.mix) for x in range(most + 1)]
            change = self._m.new_int_var(min(lost) - lost[0], max(lost) - lost[0], "stranded")
            self._m.add_element(pods, [each - lost[0] for each in lost], change)
            terms.append(change)
        return sum(terms)

    # -- what was chosen elsewhere

    def fix(self, shares: Mapping[tuple[str, str, str], int]) -> bool:
        """False where pods are in blocks that the question does not have."""
        names = [role.name for role in self._q.roles]
        terms: dict[tuple[str, str, str], list[Any]] = {}
        for pool, var in zip(self._q.pools, self._units, strict=True):
            size = self._q.roles[pool.role].unit
            terms.setdefault((names[pool.role], pool.cluster, pool.block), []).append(size * var)
        for key, found in terms.items():
            self._m.add(sum(found) == shares.get(key, 0))
        return all(key in terms for key, pods in shares.items() if pods)

    def fix_victims(self, uids: Collection[str]) -> None:
        for victim, evicted in zip(self._q.victims, self._evicted, strict=True):
            self._m.add(evicted == (victim.uid in uids))

    # -- solving

    def solve(self, limits: Limits, *, ties: bool) -> Answer:
        found: Any = None
        values: list[int] = []
        for name, expression in zip(Objective._fields, self._levels, strict=True):
            if found is None and isinstance(expression, int):
                values.append(expression)  # nobody may be evicted: nothing to prove
                continue
            status, solved = self._minimise(name, expression, limits, found)
            if status == self._cp.INFEASIBLE:
                return Infeasible()
            if status != self._cp.OPTIMAL:
                known = status == self._cp.FEASIBLE
                best = self._read(solved) if known else (self._read(found) if found else None)
                bound = ceil(solved.best_objective_bound - 1e-6) if known or found else 0
                return Unproven(name, bound, best)
            found = solved
            value = _value(found, expression)
            values.append(value)
            self._m.add(expression == value)
        if ties:
            found = self._first(limits, found)
        return self._read(found)

    def _minimise(self, name: str, expression: Any, limits: Limits, found: Any) -> tuple[Any, Any]:
        if found is not None:
            least = 0 if name != "stranded" else None
            if isinstance(expression, int) or _value(found, expression) == least:
                return self._cp.OPTIMAL, found
            hint(self._m, found)
        self._m.clear_objective()
        if not isinstance(expression, int):
            self._m.minimize(expression)
        return solved_with(self._m, limits)

    def _first(self, limits: Limits, found: Any) -> Any:
        """Of all optima the one with the most in the first cluster, then in the second, …"""
        for place in self._q.places:
            here = [
                self._q.roles[pool.role].unit * var
                for pool, var, _ in self._bought()
                if pool.cluster == place.name
            ]
            if not here:
                continue
            most = sum(here)
            self._m.clear_objective()
            self._m.maximize(most)
            hint(self._m, found)
            status, solved = solved_with(self._m, limits)
            if status != self._cp.OPTIMAL:
                return found
            found = solved
            self._m.add(most == _value(found, most))
            if sum(found.value(used) for used in self._used.values()) == 1:
                # One cluster: nothing else can differ.
                if found.value(self._used[place.name]):
                    return found
        return found

    def _read(self, found: Any) -> Optimum:
        pods: dict[tuple[str, str, str], int] = {}
        for pool, var, _ in self._bought():
            role = self._q.roles[pool.role]
            if units := found.value(var):
                key = role.name, pool.cluster, pool.block
                pods[key] = pods.get(key, 0) + units * role.unit
        return Optimum(
            objective=Objective(*(_value(found, each) for each in self._levels)),
            shares=tuple(Share(*key, count) for key, count in sorted(pods.items())),
            victims=tuple(
                victim.uid
                for victim, evicted in zip(self._q.victims, self._evicted, strict=True)
                if found.value(evicted)
            ),
        )


def _value(found: Any, expression: Any) -> int:
    return expression if isinstance(expression, int) else int(found.value(expression))


def _fitting(free: Mapping[str, int], request: Iterable[tuple[str, int]]) -> int:
    return max(0, min((free.get(name, 0) // need for name, need in request), default=0))


def _patterns(
    free: Mapping[str, int], requests: Sequence[Sequence[tuple[str, int]]]
) -> list[tuple[int, ...]] | None:
    """What a node can hold of several roles at once, without what is less than another in all.

    None where there are too many to list.
    """
    *others, last = requests
    ranges = [range(_fitting(free, request) + 1) for request in others]
    found: list[tuple[int, ...]] = []
    tried = 0
    for counts in product(*(reversed(each) for each in ranges)):
        tried += 1
        if tried > _MOST_PATTERNS * _MOST_PATTERNS:
            return None
        left = dict(free)
        for count, request in zip(counts, others, strict=True):
            for name, need in request:
                left[name] = left.get(name, 0) - need * count
        if any(left[name] < 0 for request in others for name, need in request if need):
            # A node that lacks something already holds none of those who ask for it.
            continue
        pattern = (*counts, _fitting(left, last))
        if not any(all(a >= b for a, b in zip(each, pattern, strict=True)) for each in found):
            found.append(pattern)
    return found if len(found) <= _MOST_PATTERNS else None
