"""One gang over clusters that were judged: tiers, span and networks around the search.

The earliest tier with which it can be done at all, then the fewest clusters over all roles, then
what `search` makes least. Roles that ask for the same kind of network share one of them. Roles
whose pods are alike are searched as one and dealt out afterwards, which keeps that exact; those of
different kinds go through `packing`, and the answer says how much better another could be.
`placement` asks, and makes a plan or a refusal of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final

from fleet.scheduling.fit import NOTHING, Cost, Curve, offered, together
from fleet.scheduling.packing import Member, pack
from fleet.scheduling.search import cheapest, joined, ramp_cost, shortened
from fleet.scheduling.stranding import NO_MIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Candidate
    from fleet.scheduling.demand import Role
    from fleet.scheduling.packing import Packing
    from fleet.scheduling.price import Prices, Spot
    from fleet.scheduling.search import Found, Packed, Row
    from fleet.scheduling.stranding import Mix
    from policies.placement_policy import Network

_NETWORKS: Final[tuple[Network, ...]] = ("ParameterPlane", "DataPlane")
_COMBINATIONS: Final = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """Units of a role, and the clusters that come into question for it, by name."""

    role: Role
    units: int
    candidates: Mapping[str, Candidate]


@dataclass(frozen=True, slots=True)
class Terms:
    """What units cost: everything that a curve depends on beside the room there is."""

    prices: Prices
    spot: Spot
    priced: bool
    """Only what has a known price may be used."""
    mix: Mix = NO_MIX

    def curve(
        self, cluster: str, capacity: Capacity, role: Role, opened: Collection[str] = ()
    ) -> Curve:
        has = offered(cluster, capacity, role, self.prices, spot=self.spot, priced=self.priced)
        return Curve(has.pools, has.free, unit=role.unit, mix=self.mix, opened=opened)


@dataclass(frozen=True, slots=True)
class Piece:
    """What a cluster gets: pods of each role by block, in the order of the roles."""

    cluster: str
    pods: tuple[int, ...]
    blocks: tuple[tuple[tuple[str, int], ...], ...]
    billing: str
    per_hour: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The best that was found. Only clusters that get something are in it."""

    tier: int
    domains: Mapping[Network, str]
    cost: Cost
    stranded: int
    pieces: tuple[Piece, ...]
    order: tuple[int, ...]
    """The roles in the order in which they took their nodes."""
    bound: Cost
    """With this tier and as many clusters nothing costs less."""
    exact: bool
    """Whether no better one was left out."""


def solve(
    asked: Sequence[Asked],
    order: Sequence[str],
    capacities: Mapping[str, Capacity],
    terms: Terms,
    *,
    span: int,
    ceiling: int | None = None,
    quick: bool = False,
) -> Answer | None:
    """The best placement; None where there is none. `order` are the names as ties are broken.

    `ceiling` is the most that all may cost, in millionths per hour. With `quick`, roles of
    different kinds are placed well, not best.
    """
    if span < 1:
        return None
    solver = _Solver(asked, order, capacities, terms, span=span, ceiling=ceiling, quick=quick)
    return solver.best()


_Place = tuple[str, frozenset[int]]
"""A cluster, and which roles may go there."""


class _Solver:
    def __init__(
        self,
        asked: Sequence[Asked],
        order: Sequence[str],
        capacities: Mapping[str, Capacity],
        terms: Terms,
        *,
        span: int,
        ceiling: int | None,
        quick: bool,
    ) -> None:
        self._asked = asked
        self._quick = quick
        self._alike = _alike(asked)
        """Positions of the roles that are searched as one."""
        self._groups = [_group(asked, positions) for positions in self._alike]
        self._wants = [group.units for group in self._groups]
        self._order = order
        self._capacities = capacities
        self._terms = terms
        self._span = span
        self._limit = None if ceiling is None else Cost(0, ceiling + 1, 0).packed - 1
        self._packings: dict[tuple[_Place, ...], Packing | None] = {}

    def best(self) -> Answer | None:
        tiers = {each.tier for group in self._groups for each in group.candidates.values()}
        for tier in sorted(tiers):
            within = [
                {name: each for name, each in group.candidates.items() if each.tier <= tier}
                for group in self._groups
            ]
            for clusters in range(1, self._span + 1):
                found = self._with(within, clusters)
                if found is not None:
                    return self._answer(tier, *found)
        return None

    def _with(
        self, within: Sequence[Mapping[str, Candidate]], clusters: int
    ) -> tuple[Found, Sequence[str], Mapping[Network, str]] | None:
        if clusters == 1:
            names = [name for name in self._order if all(name in each for each in within)]
            found = self._search(names, within, 1)
            if found is None:
                return None
            (share,) = found.shares
            return found, names, self._domains(within, names[share[0]])
        best: (
            tuple[tuple[int, int, list[tuple[int, int]]], Found, list[str], Mapping[Network, str]]
            | None
        ) = None
        place_of = {name: place for place, name in enumerate(self._order)}
        for least, domains in self._combinations(within, clusters):
            if best is not None and least > best[1].cost:
                break
            there = [
                {
                    name: each
                    for name, each in candidates.items()
                    if each.domain == domains.get(group.role.network, "")
                }
                for group, candidates in zip(self._groups, within, strict=True)
            ]
            names = [name for name in self._order if any(name in each for each in there)]
            found = self._search(names, there, clusters)
            if found is None:
                continue
            path = [(place_of[names[at]], -sum(units)) for at, units in found.shares]
            key = found.cost, found.stranded, path
            if best is None or key < best[0]:
                best = key, found, names, domains
        return None if best is None else best[1:]

    def _combinations(
        self, within: Sequence[Mapping[str, Candidate]], clusters: int
    ) -> list[tuple[int, dict[Network, str]]]:
        """One network of each kind that is asked for, with what it costs at least; the least
        first."""
        kinds = [kind for kind in _NETWORKS if any(g.role.network == kind for g in self._groups)]
        names = [
            sorted(
                {
                    each.domain
                    for group, candidates in zip(self._groups, within, strict=True)
                    if group.role.network == kind
                    for each in candidates.values()
                }
            )
            for kind in kinds
        ]
        least: list[dict[str, int]] = []
        for group, candidates in zip(self._groups, within, strict=True):
            by_domain: dict[str, list[Candidate]] = {}
            for each in candidates.values():
                by_domain.setdefault(each.domain, []).append(each)
            costs = {}
            for domain, there in by_domain.items():
                cost = _least([each.curve for each in there], group.units, clusters)
                if cost is not None:
                    costs[domain] = cost
            least.append(costs)
        found = []
        for chosen in product(*names):
            domains = dict(zip(kinds, chosen, strict=True))
            costs_of_all = [
                costs.get(domains.get(group.role.network, ""))
                for group, costs in zip(self._groups, least, strict=True)
            ]
            known = [cost for cost in costs_of_all if cost is not None]
            if len(known) == len(self._groups):
                found.append((together(known), domains))
        found.sort(key=lambda each: (each[0], sorted(each[1].items())))
        return found[:_COMBINATIONS] if len(kinds) > 1 else found

    def _domains(self, within: Sequence[Mapping[str, Candidate]], name: str) -> dict[Network, str]:
        return {
            group.role.network: candidates[name].domain
            for group, candidates in zip(self._groups, within, strict=True)
            if group.role.network != "None"
        }

    def _search(
        self, names: Sequence[str], within: Sequence[Mapping[str, Candidate]], clusters: int
    ) -> Found | None:
        rows: list[Row] = [
            tuple(each[name].curve if name in each else NOTHING for each in within)
            for name in names
        ]
        if len(self._groups) == 1:
            return cheapest(rows, self._wants, clusters, limit=self._limit)
        roles = [frozenset(at for at, each in enumerate(within) if name in each) for name in names]

        def check(positions: tuple[int, ...]) -> Packed | None:
            packing = self._pack(tuple((names[at], roles[at]) for at in positions))
            return None if packing is None else packing.packed(positions, len(self._groups))

        return cheapest(rows, self._wants, clusters, limit=self._limit, check=check)

    def _pack(self, key: tuple[_Place, ...]) -> Packing | None:
        if key not in self._packings:
            self._packings[key] = pack(
                [Member(name, self._capacities[name], roles) for name, roles in key],
                [group.role for group in self._groups],
                self._wants,
                self._curve,
                quick=self._quick,
            )
        return self._packings[key]

    def _curve(
        self, cluster: str, capacity: Capacity, role: Role, opened: Collection[str]
    ) -> Curve:
        if not opened and capacity is self._capacities[cluster]:
            for group in self._groups:
                if group.role is role and cluster in group.candidates:
                    return group.candidates[cluster].curve
        return self._terms.curve(cluster, capacity, role, opened)

    # -- the answer

    def _answer(
        self, tier: int, found: Found, names: Sequence[str], domains: Mapping[Network, str]
    ) -> Answer:
        chosen = [names[at] for at, _ in found.shares]
        if len(self._groups) == 1:
            order: tuple[int, ...] = (0,)
            (group,) = self._groups
            pieces = []
            for name, (_, (units,)) in zip(chosen, found.shares, strict=True):
                filling = group.candidates[name].curve.fill(units)
                unknown = filling.cost.unknown
                pieces.append(
                    (
                        name,
                        {0: dict(filling.blocks)},
                        filling.billing,
                        None if unknown else filling.cost.micro,
                    )
                )
        else:
            chosen_at = tuple(
                (names[at], self._roles(names[at], tier, domains)) for at in found.chosen
            )
            pieces, order = self._packed(chosen_at)
        return Answer(
            tier=tier,
            domains=domains,
            cost=Cost.of(found.cost),
            stranded=found.stranded,
            pieces=tuple(self._dealt(pieces)),
            order=tuple(at for group in order for at in self._alike[group]),
            bound=Cost.of(found.bound),
            exact=found.proven,
        )

    def _roles(self, name: str, tier: int, domains: Mapping[Network, str]) -> frozenset[int]:
        """Those that may go there under these networks."""
        return frozenset(
            at
            for at, group in enumerate(self._groups)
            if (each := group.candidates.get(name)) is not None
            and each.tier <= tier
            and each.domain == domains.get(group.role.network, "")
        )

    def _packed(
        self, key: tuple[_Place, ...]
    ) -> tuple[list[tuple[str, dict[int, dict[str, int]], str, int | None]], tuple[int, ...]]:
        packing = self._packings[key]
        assert packing is not None
        pieces = []
        for at, (name, _) in enumerate(key):
            blocks: dict[int, dict[str, int]] = {}
            for part in packing.parts:
                if part.member == at:
                    there = blocks.setdefault(part.role, {})
                    there[part.block] = there.get(part.block, 0) + part.units
            if blocks:
                pieces.append((name, blocks, packing.billing[at], packing.micro[at]))
        return pieces, packing.order

    def _dealt(
        self, pieces: Iterable[tuple[str, dict[int, dict[str, int]], str, int | None]]
    ) -> Iterable[Piece]:
        """Pods of each role that was asked for, of the units of those that are alike."""
        left = [each.units for each in self._asked]
        for name, blocks, billing, per_hour in pieces:
            dealt: list[dict[str, int]] = [{} for _ in self._asked]
            for group, by_block in blocks.items():
                for block, units in by_block.items():
                    for at in self._alike[group]:
                        taken = min(units, left[at])
                        if taken:
                            dealt[at][block] = taken * self._asked[at].role.unit
                            left[at] -= taken
                            units -= taken
            yield Piece(
                cluster=name,
                pods=tuple(sum(each.values()) for each in dealt),
                blocks=tuple(tuple(each.items()) for each in dealt),
                billing=billing,
                per_hour=per_hour,
            )


def largest(
    asked: Sequence[Asked],
    least: Sequence[int],
    order: Sequence[str],
    capacities: Mapping[str, Capacity],
    terms: Terms,
    *,
    span: int,
    ceiling: int | None = None,
) -> Answer | None:
    """The best placement of as many units as find room, between `least` and what is asked for.

    No later tier is used than the least size needs. Where several roles are elastic, the first
    grows first.
    """

    def sized(sizes: Sequence[int], latest: int | None) -> Answer | None:
        resized = [
            replace(
                each,
                units=units,
                candidates=each.candidates
                if latest is None
                else {n: c for n, c in each.candidates.items() if c.tier <= latest},
            )
            for each, units in zip(asked, sizes, strict=True)
        ]
        return solve(resized, order, capacities, terms, span=span, ceiling=ceiling)

    best = sized(least, None)
    if best is None:
        return None
    sizes, tier = list(least), best.tier
    for at, each in enumerate(asked):
        low, high = sizes[at], each.units
        while low < high:
            tried = (low + high + 1) // 2
            found = sized([*sizes[:at], tried, *sizes[at + 1 :]], tier)
            if found is None:
                high = tried - 1
            else:
                best, low = found, tried
        sizes[at] = low
    return best


def _alike(asked: Sequence[Asked]) -> list[list[int]]:
    """Positions of roles that any two pods of could change places."""
    found: dict[object, list[int]] = {}
    for at, each in enumerate(asked):
        role = each.role
        found.setdefault((role.kind, role.unit, role.network, role.tiers), []).append(at)
    return list(found.values())


def _group(asked: Sequence[Asked], positions: Sequence[int]) -> Asked:
    first = asked[positions[0]]
    units = sum(asked[at].units for at in positions)
    return first if len(positions) == 1 else replace(first, units=units)


def _least(curves: Sequence[Curve], units: int, clusters: int) -> int | None:
    """What `units` cost at least in so many of the clusters; None where they hold fewer."""
    largest = sorted((curve.units for curve in curves), reverse=True)[:clusters]
    if sum(largest) < units:
        return None
    return ramp_cost(shortened(joined(*(curve.ramp for curve in curves)), units), units)
