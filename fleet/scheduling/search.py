"""Which clusters, and how much in each: the cheapest way to put a gang into as few as do.

Least in this order: units of unknown price, money, blocks touched; of equals what strands least,
then the first by name, with as much as possible in the first. A branch is followed only if it could
still be as good as the best that is known: what is chosen so far, and beside it as much of the best
blocks of all clusters to come as the span allows. For one role that is exact: any units of one
cluster can be exchanged for units of another, so a set of clusters costs what their blocks cost
when filled in the order of price. Several roles may want the same nodes; there the bound says what
they would cost if they did not, and a `check` says what they do cost.

What a cluster costs to be used at all (`Curve.once`) comes on top for each that is.

Work is bounded in steps, not in time, so that the same question always gets the same answer;
`proven` is False where the bound of steps was met. `gang` asks, for each tier and network.
"""

from __future__ import annotations

from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.fit import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fleet.scheduling.fit import Curve, Ramp

Row = tuple["Curve", ...]
"""What a cluster has for each role."""

Share = tuple[int, tuple[int, ...]]
"""(position of the cluster, units of each role)."""

_STEPS: Final = 4000
_CHECKS: Final = 96
_TIES: Final = 64


class Packed(NamedTuple):
    """What a set of clusters really holds and costs."""

    cost: int
    shares: tuple[Share, ...]


class Found(NamedTuple):
    """A best choice, its packed cost (`fit.Cost.of`), and what it strands.

    `chosen` are the clusters that were tried, of which a `check` may have found one needless.
    `bound` is what no choice can be below; `proven` says that none was left out.
    """

    cost: int
    stranded: int
    shares: tuple[Share, ...]
    chosen: tuple[int, ...]
    bound: int
    proven: bool


def cheapest(
    rows: Sequence[Row],
    wants: Sequence[int],
    clusters: int,
    *,
    limit: int | None = None,
    check: Callable[[tuple[int, ...]], Packed | None] | None = None,
) -> Found | None:
    """The best choice of `clusters` of `rows`, where fewer do not do, for `wants` of each role.

    None when there is none that costs at most `limit` (packed). The order of `rows` is the order of
    names that breaks ties. With `check`, which is asked for sets that could be the best, None also
    where it found none in as many as it may be asked about.
    """
    if clusters == 1:
        return _single(rows, wants, limit, check)
    search = _Search(rows, wants, clusters, limit, check)
    return search.run()


def _single(
    rows: Sequence[Row],
    wants: Sequence[int],
    limit: int | None,
    check: Callable[[tuple[int, ...]], Packed | None] | None,
) -> Found | None:
    costs = []
    if len(wants) == 1:
        (want,) = wants
        costs = [
            (curve.cost(want) + curve.once, position)
            for position, (curve,) in enumerate(rows)
            if curve.units >= want
        ]
    else:
        for position, row in enumerate(rows):
            if all(curve.units >= want for curve, want in zip(row, wants, strict=True)):
                each = [curve.cost(want) for curve, want in zip(row, wants, strict=True)]
                costs.append((together(each) + _once(row), position))
    if limit is not None:
        costs = [each for each in costs if each[0] <= limit]
    if not costs:
        return None
    bound = min(costs)[0]
    if check is None:
        lost, position = min((_lost(rows[p], wants), p) for cost, p in costs if cost == bound)
        return Found(bound, lost, ((position, tuple(wants)),), (position,), bound, proven=True)
    best: Found | None = None
    asked = 0
    for cost, alike in groupby(sorted(costs), key=lambda each: each[0]):
        if best is not None and cost >= best.cost:
            break
        for lost, position in sorted((_lost(rows[at], wants), at) for _, at in alike):
            if asked == _CHECKS or (best is not None and cost >= best.cost):
                break
            asked += 1
            packed = _with_once(check((position,)), rows)
            if packed is None or (limit is not None and packed.cost > limit):
                continue
            if best is None or packed.cost < best.cost:
                proven = packed.cost == bound
                best = Found(packed.cost, lost, packed.shares, (position,), bound, proven)
    return best


def _once(row: Row) -> int:
    """What a cluster costs to be used at all, the same for all roles that may go there."""
    return max(curve.once for curve in row)


def _with_once(packed: Packed | None, rows: Sequence[Row]) -> Packed | None:
    """With what each cluster costs that is used."""
    if packed is None:
        return None
    return packed._replace(cost=packed.cost + sum(_once(rows[at]) for at, _ in packed.shares))


def _lost(row: Row, wants: Sequence[int]) -> int:
    return sum(curve.stranded(want) for curve, want in zip(row, wants, strict=True))


def ramp_cost(ramp: Iterable[tuple[int, int, int]], units: int) -> int | None:
    """What `units` cost when filled in order; None where there are fewer."""
    cost, left = 0, units
    for slope, opens, negative in ramp:
        if left <= 0:
            break
        if -negative >= left:
            return cost + opens + left * slope
        cost += opens - negative * slope
        left += negative
    return cost if left <= 0 else None


def joined(*ramps: Ramp) -> Ramp:
    return tuple(sorted(chain.from_iterable(ramps)))


def shortened(ramp: Ramp, units: int) -> Ramp:
    """The first `units` of it."""
    kept, left = [], units
    for slope, opens, negative in ramp:
        if left <= 0:
            break
        kept.append((slope, opens, max(negative, -left)))
        left += negative
    return tuple(kept)


_Equal = tuple[int, tuple[Share, ...], tuple[int, ...]]
"""(stranded, shares with negative units so that the first in order is the least, clusters)."""


class _Search:
    """Sets of `clusters` positions, by branch and bound."""

    def __init__(
        self,
        rows: Sequence[Row],
        wants: Sequence[int],
        clusters: int,
        limit: int | None,
        check: Callable[[tuple[int, ...]], Packed | None] | None,
    ) -> None:
        self._rows = rows
        self._wants = tuple(wants)
        self._clusters = clusters
        self._limit = limit
        self._check = check
        self._order: list[int] = []
        self._most: list[list[list[int]]] = []
        self._rest: list[list[Ramp]] = []
        self._once = [_once(row) for row in rows]
        self._least_once: list[list[int]] = []
        self._shorter: dict[tuple[int, int, int], Ramp] = {}
        self._steps = 0
        self._checks = 0
        self._cut = False
        self._best: int | None = None
        self._known: dict[tuple[int, ...], Packed | None] = {}
        self._by_name = check is not None or not any(c.mixed for row in rows for c in row)

    def run(self) -> Found | None:
        useful = [at for at, row in enumerate(self._rows) if any(curve.units for curve in row)]
        if len(useful) < self._clusters:
            return None
        # The cheapest first, so that good choices are found early and cut the others off.
        self._sort(sorted(useful, key=self._promise))
        if not self._reachable(0, self._clusters, (0,) * len(self._wants)):
            return None
        bound = self._bound(0, (), ((),) * len(self._wants))
        if bound is None or (self._limit is not None and bound > self._limit):
            return None
        if self._check is None:
            self._try(self._largest())
        self._descend(0, (), ((),) * len(self._wants), bound=bound)
        if self._best is None:
            return None
        cut, self._cut, self._steps, self._checks = self._cut, False, 0, 0
        self._sort(useful)
        best = self._tied()
        cost = self._best
        if best is None:
            # Too many to look through: the first of those that came up.
            chosen = min(
                key for key, packed in self._known.items() if packed and packed.cost == cost
            )
            packed = self._known[chosen]
            assert packed is not None
            best = self._stranded(packed.shares), packed.shares, chosen
        proven = cost == bound or (not cut and self._check is None)
        return Found(cost, *best, bound, proven)

    def _promise(self, at: int) -> tuple[int, int, int]:
        curve = self._rows[at][0]
        return (curve.ramp[0][0] if curve.ramp else 1 << 200, -curve.units, at)

    def _sort(self, order: list[int]) -> None:
        """Prepare what is asked of all clusters from a place in the order on."""
        self._order, self._shorter = order, {}
        self._most, self._rest = [], []
        for role, want in enumerate(self._wants):
            largest: list[int] = []
            most = [[0] * (self._clusters + 1)]
            rest: list[Ramp] = [()]
            for at in reversed(order):
                curve = self._rows[at][role]
                largest = sorted([*largest, curve.units], reverse=True)[: self._clusters]
                sums = [0, *accumulate(largest)]
                sums += [sums[-1]] * (self._clusters + 1 - len(sums))
                most.append(sums)
                rest.append(shortened(joined(rest[-1], curve.ramp), want))
            self._most.append(most[::-1])
            self._rest.append(rest[::-1])
        least: list[int] = []
        self._least_once = [[0] * (self._clusters + 1)]
        for at in reversed(order):
            least = sorted([*least, self._once[at]])[: self._clusters]
            sums = [0, *accumulate(least)]
            self._least_once.append(sums + [sums[-1]] * (self._clusters + 1 - len(sums)))
        self._least_once.reverse()

    def _largest(self) -> tuple[int, ...]:
        """Those with the most room: they hold it if any do."""
        ranked = sorted(self._order, key=lambda at: (-self._rows[at][0].units, at))
        return tuple(sorted(ranked[: self._clusters]))

    def _reachable(self, place: int, more: int, held: Sequence[int]) -> bool:
        return all(
            held[role] + self._most[role][place][more] >= want
            for role, want in enumerate(self._wants)
        )

    def _bound(self, place: int, chosen: Sequence[int], ramps: Sequence[Ramp]) -> int | None:
        """What any choice costs at least that adds to the `chosen`, whose ramps these are, from a
        place in the order on."""
        more = self._clusters - len(chosen)
        costs = []
        for role, want in enumerate(self._wants):
            ramp = ramps[role]
            if more:
                key = role, place, more
                rest = self._shorter.get(key)
                if rest is None:
                    rest = shortened(self._rest[role][place], self._most[role][place][more])
                    self._shorter[key] = rest
                ramp = joined(ramp, rest) if ramp else rest
            cost = ramp_cost(ramp, want)
            if cost is None:
                return None
            costs.append(cost)
        once = sum(self._once[at] for at in chosen) + self._least_once[place][more]
        return together(costs) + once

    def _descend(
        self, place: int, chosen: tuple[int, ...], ramps: tuple[Ramp, ...], *, bound: int
    ) -> None:
        """Find the least cost; `bound` is that of all choices, to stop when it is met."""
        more = self._clusters - len(chosen)
        held = [sum(-units for _, _, units in ramp) for ramp in ramps]
        for at in range(place, len(self._order)):
            if self._best == bound:
                return
            if not self._reachable(at, more, held) or self._worse(at, chosen, ramps):
                return
            if self._steps >= _STEPS or self._checks >= _CHECKS:
                self._cut = True
                return
            self._steps += 1
            position = self._order[at]
            row = self._rows[position]
            grown = tuple(joined(ramp, curve.ramp) for ramp, curve in zip(ramps, row, strict=True))
            taken = (*chosen, position)
            if more == 1:
                if not self._worse(at + 1, taken, grown):
                    self._try(tuple(sorted(taken)))
            elif not self._worse(at + 1, taken, grown):
                self._descend(at + 1, taken, grown, bound=bound)

    def _worse(self, place: int, chosen: Sequence[int], ramps: Sequence[Ramp]) -> bool:
        least = self._bound(place, chosen, ramps)
        return (
            least is None
            or (self._best is not None and least >= self._best)
            or (self._limit is not None and least > self._limit)
        )

    def _try(self, chosen: tuple[int, ...]) -> None:
        packed = self._pack(chosen)
        if packed is not None and (self._limit is None or packed.cost <= self._limit):
            if self._best is None or packed.cost < self._best:
                self._best = packed.cost

    def _pack(self, chosen: tuple[int, ...]) -> Packed | None:
        if chosen not in self._known:
            if self._check is None:
                found = self._alone(chosen)
            else:
                self._checks += 1
                found = self._check(chosen)
            self._known[chosen] = _with_once(found, self._rows)
        return self._known[chosen]

    def _alone(self, chosen: tuple[int, ...]) -> Packed | None:
        """One role: as much as possible in the first, as long as it costs no more."""
        (want,) = self._wants
        curves = [self._rows[at][0] for at in chosen]
        cost = ramp_cost(joined(*(curve.ramp for curve in curves)), want)
        if cost is None:
            return None
        once = sum(self._once[at] for at in chosen)
        if self._limit is not None and cost + once > self._limit:
            return None  # some of them may hold it, and be too dear as well
        shares = split(curves, want, cost, least=1)
        return Packed(cost, tuple((at, (n,)) for at, n in zip(chosen, shares, strict=True)))

    # -- among equals

    def _tied(self) -> tuple[int, tuple[Share, ...], tuple[int, ...]] | None:
        """Of all sets of least cost the one that strands least, then the first by name."""
        found: list[_Equal] = []
        self._equals(0, (), ((),) * len(self._wants), found)
        if not found:
            return None
        lost, negative, chosen = min(found)
        shares = tuple((at, tuple(-units for units in counts)) for at, counts in negative)
        return lost, shares, chosen

    def _equals(
        self,
        place: int,
        chosen: tuple[int, ...],
        ramps: tuple[Ramp, ...],
        found: list[_Equal],
    ) -> None:
        more = self._clusters - len(chosen)
        held = [sum(-units for _, _, units in ramp) for ramp in ramps]
        for at in range(place, len(self._order)):
            if not self._reachable(at, more, held) or self._beyond(at, chosen, ramps):
                return
            if self._steps >= _STEPS or self._checks >= _CHECKS or len(found) >= _TIES:
                return
            if found and (self._check is not None or (self._by_name and not chosen)):
                return
            self._steps += 1
            position = self._order[at]
            row = self._rows[position]
            grown = tuple(joined(ramp, curve.ramp) for ramp, curve in zip(ramps, row, strict=True))
            taken = (*chosen, position)
            if self._beyond(at + 1, taken, grown):
                continue
            if more > 1:
                self._equals(at + 1, taken, grown, found)
                continue
            packed = self._pack(taken)
            if packed is not None and packed.cost == self._best:
                negative = tuple((at, tuple(-n for n in counts)) for at, counts in packed.shares)
                found.append((self._stranded(packed.shares), negative, taken))

    def _beyond(self, place: int, chosen: Sequence[int], ramps: Sequence[Ramp]) -> bool:
        least = self._bound(place, chosen, ramps)
        assert self._best is not None
        return least is None or least > self._best

    def _stranded(self, shares: Iterable[Share]) -> int:
        return sum(
            self._rows[at][role].stranded(units)
            for at, counts in shares
            for role, units in enumerate(counts)
            if units <= self._rows[at][role].units
        )


def split(curves: Sequence[Curve], want: int, cost: int, *, least: int) -> tuple[int, ...]:
    """How `want` units cost so much: with as much as possible in the first, then in the second.

    Each gets `least` units. The cost of two parts together is a straight line between ends of
    blocks or prices in one of them, so the most that costs as little is at such an end.
    """
    shares: list[int] = []
    for curve in curves[:-1]:
        others = curves[len(shares) + 1 :]
        rest = joined(*(each.ramp for each in others))
        ends = [0, *accumulate(-units for _, _, units in rest)]
        highest = min(curve.units, want - least * len(others))
        lowest = max(least, want - ends[-1])
        tried = {highest, lowest, *curve.ends(), *(end + 1 for end in curve.ends())}
        tried |= {want - end for end in ends} | {want - end - 1 for end in ends}
        for units in sorted(tried, reverse=True):
            if lowest <= units <= highest:
                left = ramp_cost(rest, want - units)
                if left is not None and curve.cost(units) + left == cost:
                    shares.append(units)
                    want -= units
                    cost = left
                    break
        else:
            raise AssertionError(f"no split of {want} units costs {cost}")
    return (*shares, want)
