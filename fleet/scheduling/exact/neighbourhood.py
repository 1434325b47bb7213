"""A batch over sums, a few clusters at a time: CP-SAT deals out anew what is in them.

Whoever is outside stays there. The levels are those of `tally`, the most important first; what one
solve makes of them is never worse than what was there, and counts only where the nodes of each
cluster hold it. It is what `batch` may be given to go on with after `barter`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.scheduling.exact.solver import Limits, cp_sat, solved_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random

    from fleet.scheduling.barter import Blocks, Short
    from fleet.scheduling.tally import Shares, Tally
    from fleet.scheduling.totals import Sort

_SIZES: Final = (4, 5, 5, 6)
"""How many clusters."""
_EVEN: Final = 20
"""How much likelier a cluster is chosen that may be worth most than one that is worth nothing."""
_EACH: Final = 0.25
"""Units of work of one solve; what takes longer is left as it was found by then."""
_MENDS: Final = 3
"""How often it is solved again where nodes did not hold what came out."""
_PATIENCE: Final = 200
"""Solves without anything better after which nothing better is expected."""
_LEAST: Final = 0.01
"""Work that a solve counts as at least."""
_FIRST: Final = 0.6
"""How often the first level is tried that could be better, and of the others the next."""
_KNOWN: Final = 12
"""Choices of a cluster that nodes did not hold, of those that were met last."""

_DEFAULT: Final = Limits(work=11.0)

Term = tuple[int, Any, int]
"""(factor, variable, its largest value)"""


class Neighbourhoods:
    """Improves what a tally has, within a limit of work. Raises ConfigError without OR-tools."""

    def __init__(self, limits: Limits = _DEFAULT) -> None:
        cp_sat()
        self._limits = limits

    def improve(self, tally: Tally, short: Short, blocks: Blocks) -> int:
        """Leaves it no worse than it was; says how many solves that took."""
        left, solves, best, since = self._limits.work, 0, tally.value(), 0
        bad: dict[int, list[Mapping[int, int]]] = defaultdict(list)
        while left > 0 and solves - since < _PATIENCE and tally.wronged():
            clusters = _clusters(tally, _worth(tally))
            for _ in range(_MENDS):
                local = _Local(tally, clusters, blocks, bad)
                found, work = local.solved(min(left, _EACH), tally.chance)
                solves += 1
                left -= work
                if not _take(tally, found, short, bad):
                    break
            if tally.value() < best:
                best, since = tally.value(), solves
        return solves


def _clusters(tally: Tally, worth: Mapping[int, float]) -> list[int]:
    """Some of one network, or of any; half of these by what they may be worth."""
    chance = tally.chance
    every = sorted(worth)
    size = min(len(every), chance.choice(_SIZES))
    way = chance.random()
    if way < 0.3:
        return sorted(chance.sample(every, size))
    found: list[int] = []
    if way < 0.6:
        networks = sorted({each.domain for options in tally.options for each in options.values()})
        chance.shuffle(networks)
        for network in networks:
            more = sorted(
                {
                    each.cluster
                    for options in tally.options
                    for each in options.values()
                    if each.domain == network and each.cluster not in found
                }
            )
            found += chance.sample(more, min(len(more), size - len(found)))
        return sorted(found)
    while len(found) < -(-size // 2):
        rest = [each for each in every if each not in found]
        found += chance.choices(rest, [worth[each] for each in rest])
    rest = [each for each in every if each not in found]
    return sorted([*found, *chance.sample(rest, size - len(found))])


def _worth(tally: Tally) -> dict[int, float]:
    """By cluster, what might be saved: where much is paid, or where it would cost less and there
    is room left."""
    prices: dict[int, float] = {}
    sizes = [max(1, gang.sort.whole) for gang in tally.gangs]
    for options, size in zip(tally.options, sizes, strict=True):
        for each in options.values():
            price = (each.micro or 0) / size
            prices[each.cluster] = min(price, prices.get(each.cluster, price))
    dearest, found = max(prices.values(), default=0.0), {}
    for cluster, price in prices.items():
        used = sum(units * sizes[at] for at, units in tally.there(cluster))
        rows = zip(tally.rows[cluster], tally.left[cluster], strict=True)
        _, left = max(((row.limit, left) for row, left in rows), default=(0, 0))
        found[cluster] = used * price + left * (dearest - price)
    least = max(found.values(), default=0.0) / _EVEN
    return {cluster: 1.0 + value + least for cluster, value in found.items()}


def _take(
    tally: Tally,
    found: Mapping[int, Shares],
    short: Short,
    bad: dict[int, list[Mapping[int, int]]],
) -> bool:
    """Whether it has to be solved again, because nodes do not hold what was found."""
    before = {at: tally.shares[at] for at, shares in found.items() if tally.shares[at] != shares}
    for at in before:
        tally.leave(at)
    for at in before:
        tally.put(at, found[at])
    touched = sorted({c for at, old in before.items() for c, _ in (*old, *found[at])})
    unseated = [each for each in touched if short(each, tally.there(each))]
    for cluster in unseated:
        count: dict[int, int] = defaultdict(int)
        for at, units in tally.there(cluster):
            count[tally.sorts[at]] += units
        bad[cluster] = [*bad[cluster][1 - _KNOWN :], count]
    if unseated:
        for at in before:
            tally.leave(at)
        for at, shares in before.items():
            tally.put(at, shares)
    return bool(unseated)


class _Part(NamedTuple):
    """What a gang may have in the clusters that are dealt out."""

    at: int
    admitted: Any
    """A variable; 1 where the rest of it is elsewhere."""
    units: Mapping[int, Term]
    """By cluster."""
    elsewhere: Shares


class _Local:
    """The program of a few clusters."""

    def __init__(
        self,
        tally: Tally,
        clusters: Sequence[int],
        blocks: Blocks,
        bad: Mapping[int, Sequence[Mapping[int, int]]],
    ) -> None:
        self._tally = tally
        self._clusters = clusters
        self._m = cp_sat().CpModel()
        self._vars: list[Any] = []
        self._hints: dict[int, int] = {}
        """By variable, what it is at present."""
        self._tiers: list[Term] = []
        self._used: list[Term] = []
        self._parts = [self._part(at) for at in self._who()]
        for cluster in clusters:
            there = [
                (each.at, each.units[cluster]) for each in self._parts if cluster in each.units
            ]
            self._hold(cluster, there)
            if cluster in bad:
                self._hold_in_blocks(blocks[cluster], there)
                self._hold_fewer(there, bad[cluster])

    def _who(self) -> list[int]:
        tally = self._tally
        inside = {at for cluster in self._clusters for at in tally.inside[cluster]}
        out = {
            at for at, ideal in enumerate(tally.ideal) if ideal is not None and not tally.shares[at]
        }
        return sorted(inside | out)

    def _bool(self, hint: bool) -> Any:
        made = self._m.new_bool_var("")
        return self._hinted(made, int(hint))

    def _hinted(self, var: Any, value: int) -> Any:
        self._vars.append(var)
        self._hints[var.index] = value
        return var

    def _part(self, at: int) -> _Part:
        tally, m = self._tally, self._m
        gang, options = tally.gangs[at], tally.options[at]
        shares = dict(tally.shares[at])
        elsewhere = tuple(each for each in tally.shares[at] if each[0] not in self._clusters)
        need = gang.units - sum(units for _, units in elsewhere)
        admitted = 1 if elsewhere else self._bool(bool(shares))
        network = options[elsewhere[0][0]].domain if elsewhere else None
        units: dict[int, Term] = {}
        used: dict[int, Any] = {}
        networks: dict[str, list[Any]] = defaultdict(list)
        for cluster in self._clusters:
            option = options.get(cluster)
            if option is None or network not in (None, option.domain):
                continue
            if gang.ceiling is not None and option.micro is None:
                continue
            most = min(option.most, need)
            if gang.span == 1 and most < need:
                continue
            by = used[cluster] = self._bool(cluster in shares)
            if gang.span == 1:
                units[cluster] = need, by, 1
            else:
                var = self._hinted(m.new_int_var(0, most, ""), shares.get(cluster, 0))
                m.add(var <= most * by)
                m.add(by <= var)
                units[cluster] = 1, var, most
            networks[option.domain].append(by)
        m.add(_sum(units.values()) == need * admitted)
        m.add(sum(used.values()) <= gang.span - len(elsewhere))
        if len(networks) > 1:
            chosen = [
                self._bool(any(options[each].domain == name for each in shares))
                for name in networks
            ]
            m.add_at_most_one(chosen)
            for one, there in zip(chosen, networks.values(), strict=True):
                for by in there:
                    m.add_implication(by, one)
        if gang.ceiling is not None:
            m.add(_sum(self._money(at, units)) <= gang.ceiling - tally.cost(at, elsewhere)[3])
        self._count(at, admitted, used, elsewhere)
        return _Part(at, admitted, units, elsewhere)

    def _count(self, at: int, admitted: Any, used: Mapping[int, Any], elsewhere: Shares) -> None:
        """Its tier is the latest of its clusters, and never before that of those elsewhere."""
        options = self._tally.options[at]
        tiers = sorted({options[each].tier for each in used})
        least = max((options[each].tier for each, _ in elsewhere), default=0)
        before = max(least, tiers[0] if tiers else 0)
        self._tiers.append((before, admitted, 1))
        for tier in tiers:
            if tier > before:
                late = [by for each, by in used.items() if options[each].tier >= tier]
                there = self._bool(
                    any(options[each].tier >= tier for each, _ in self._tally.shares[at])
                )
                for by in late:
                    self._m.add_implication(by, there)
                self._tiers.append((tier - before, there, 1))
                before = tier
        self._used += [(1, by, 1) for by in used.values()]

    def _hold(self, cluster: int, there: Sequence[tuple[int, Term]]) -> None:
        sorts = self._tally.sorts
        for row in self._tally.rows[cluster]:
            taken = [
                (row.takes[sorts[at]] * factor, var, most)
                for at, (factor, var, most) in there
                if row.takes.get(sorts[at])
            ]
            if taken:
                self._m.add(_sum(taken) <= row.limit)

    def _hold_in_blocks(
        self, blocks: Sequence[Sequence[int]], there: Sequence[tuple[int, Term]]
    ) -> None:
        """Each unit finds its pods in one block. Where sizes divide one another, what fits in sums
        fits on nodes."""
        m = self._m
        by_sort: dict[Sort, list[Term]] = defaultdict(list)
        for at, term in there:
            sort = self._tally.gangs[at].sort
            if sort.size:
                by_sort[sort].append(term)
        sizes = sorted({sort.size for sort in by_sort})
        inside: dict[Sort, list[Any]] = {sort: [] for sort in by_sort}
        for free in blocks:
            for sort, units in inside.items():
                units.append(m.new_int_var(0, sum(free) // sort.whole, ""))
            for size in sizes:
                larger = [sort for sort in inside if sort.size >= size]
                if all(sort.size % size == 0 for sort in larger):
                    taken = sum(sort.whole * inside[sort][-1] for sort in larger)
                    m.add(taken <= sum(each // size * size for each in free))
        for sort, terms in by_sort.items():
            m.add(_sum(terms) == sum(inside[sort]))

    def _hold_fewer(
        self, there: Sequence[tuple[int, Term]], bad: Sequence[Mapping[int, int]]
    ) -> None:
        """Fewer of one sort at least than were seen not to find their nodes."""
        for count in bad:
            fewer = []
            for sort, units in count.items():
                one = self._m.new_bool_var("")
                mine = _sum(term for at, term in there if self._tally.sorts[at] == sort)
                self._m.add(mine <= units - 1).only_enforce_if(one)
                fewer.append(one)
            self._m.add_bool_or(fewer)

    def _money(self, at: int, units: Mapping[int, Term]) -> Iterator[Term]:
        for cluster, (factor, var, most) in units.items():
            micro = self._tally.options[at][cluster].micro
            if micro:
                yield factor * micro, var, most

    def _levels(self) -> Iterator[tuple[list[Term], bool]]:
        """What is made least, the most important first, and whether it is not yet as small as if
        nobody were in anybody's way.
        """
        tally = self._tally
        inside = [(each.at, tally.ideal[each.at]) for each in self._parts if tally.shares[each.at]]
        for priority in tally.classes:
            mine = [
                (-tally.gangs[each.at].weight, each.admitted, 1)
                for each in self._parts
                if tally.gangs[each.at].priority == priority and not each.elsewhere
            ]
            yield mine, any(not self._now(each) for _, each, _ in mine)
        unknown, money = list[Term](), list[Term]()
        for part in self._parts:
            for cluster, (factor, var, most) in part.units.items():
                if tally.options[part.at][cluster].micro is None:
                    unknown.append((factor * tally.gangs[part.at].sort.pods, var, most))
            money += self._money(part.at, part.units)
        for level, terms in enumerate((self._tiers, self._used, unknown, money)):
            yield terms, any(best and tally.costs[at][level] > best[level] for at, best in inside)

    def _now(self, var: Any) -> int:
        return 1 if isinstance(var, int) else self._hints[var.index]

    def solved(self, work: float, chance: Random) -> tuple[Mapping[int, Shares], float]:
        """Where everybody is then, and the work that it took.

        Only one level is tried, with those before it held; where it became better, those after it
        are too. So most solves have one level, and prove soon that there is nothing to gain.
        """
        cp, m, spent, best = cp_sat(), self._m, 0.0, None
        levels = [(terms, open_) for terms, open_ in self._levels() if terms]
        tries = [at for at, (_, open_) in enumerate(levels) if open_]
        first = next((at for at in tries if chance.random() < _FIRST), tries[-1] if tries else None)
        found = {part.at: self._tally.shares[part.at] for part in self._parts}
        if first is None:
            return found, _LEAST
        for at, (terms, _) in enumerate(levels):
            value = sum(factor * self._now(var) for factor, var, _ in terms)
            if at >= first:
                m.clear_hints()
                for var in self._vars:
                    m.add_hint(var, self._hints[var.index])
                m.minimize(_sum(terms))
                status, solver = solved_with(m, Limits(work=work))
                spent += max(_LEAST, solver.response_proto.deterministic_time)
                if status not in (cp.OPTIMAL, cp.FEASIBLE):
                    break
                reached = round(solver.objective_value)
                if best is None and reached >= value:
                    break
                best, value = solver, reached
                self._hints = {each: solver.response_proto.solution[each] for each in self._hints}
            m.add(_sum(terms) <= value)
        if best is not None:
            for part in self._parts:
                here = [
                    (cluster, factor * int(best.value(var)))
                    for cluster, (factor, var, _) in part.units.items()
                    if best.value(var)
                ]
                found[part.at] = tuple(sorted((*part.elsewhere, *here)))
        return found, spent


def _sum(terms: Iterable[Term]) -> Any:
    return sum(factor * var for factor, var, _ in terms)
