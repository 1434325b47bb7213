"""The roles of a gang in a given set of clusters at once: does it hold them, and where do they go?

Roles of different kinds may want the same nodes, so they are placed one after the other on what the
ones before have left, in several orders. Where the best that comes out could be better, each block
is looked at by itself: how many units of each role it holds at once and what they cost there; the
cheapest sum over the blocks is the best there is. That is bounded in work, so a large gang may have
to do with the first. `search` asks for sets of clusters that could be the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, permutations, product
from operator import add, gt, lt
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.fit import NOTHING, Cost, together
from fleet.scheduling.mixing import Mixing
from fleet.scheduling.search import Packed, joined, ramp_cost, split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.demand import Role
    from fleet.scheduling.fit import Curve, Filling

    Pricing = Callable[[str, Capacity, Role, Collection[str]], Curve]
    """What units of a role cost in a cluster; blocks in use already cost no block."""

_ORDERS: Final = 6
_OPTIONS: Final = 512
_NOTHING: Final[tuple[tuple[int, ...], int]] = ((), 0)
_WORK: Final = 100_000


@dataclass(frozen=True, slots=True)
class Member:
    """A cluster of the set: what it has, and which roles may go there, by position."""

    name: str
    capacity: Capacity
    roles: frozenset[int]


class Part(NamedTuple):
    """Units of a role in one block of a cluster."""

    role: int
    member: int
    block: str
    units: int


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the units of each role are, and what that costs."""

    cost: int
    parts: tuple[Part, ...]
    order: tuple[int, ...]
    """The roles in the order in which they took their nodes."""
    billing: tuple[str, ...] = ()
    """By member, how it is paid for."""
    micro: tuple[int | None, ...] = ()
    """By member, what it costs per hour; None where a part of it has no known price."""

    def packed(self, positions: Sequence[int], roles: int) -> Packed:
        counts = [[0] * roles for _ in positions]
        for part in self.parts:
            counts[part.member][part.role] += part.units
        shares = zip(positions, map(tuple, counts), strict=True)
        return Packed(self.cost, tuple((at, units) for at, units in shares if any(units)))


def pack(
    members: Sequence[Member],
    roles: Sequence[Role],
    wants: Sequence[int],
    pricing: Pricing,
    *,
    quick: bool = False,
) -> Packing | None:
    """The best way that was found; None where the clusters do not hold it, or none was found.

    With `quick` a way that an order of the roles comes to is good enough.
    """
    packer = _Packer(members, roles, wants, pricing)
    bound = packer.bound()
    if bound is None:
        return None
    best: Packing | None = None
    for order in islice(permutations(packer.hardest_first()), _ORDERS):
        found = packer.one_by_one(order)
        if found is not None and (best is None or found.cost < best.cost):
            best = found
            if best.cost == bound:
                return best
    if best is not None and quick:
        return best
    found = packer.block_by_block(below=None if best is None else best.cost)
    return found if best is None or (found is not None and found.cost < best.cost) else best


class _Packer:
    def __init__(
        self,
        members: Sequence[Member],
        roles: Sequence[Role],
        wants: Sequence[int],
        pricing: Pricing,
    ) -> None:
        self._members = members
        self._roles = roles
        self._wants = wants
        self._pricing = pricing

    def hardest_first(self) -> list[int]:
        """What needs accelerators, and most of them at once, has the least choice."""

        def ease(at: int) -> tuple[int, int, int]:
            role = self._roles[at]
            devices = sum(count for name, count in role.kind.request if "/" in name)
            return -devices * role.unit, -role.unit, at

        return sorted(range(len(self._roles)), key=ease)

    def bound(self) -> int | None:
        """What all cost at least; None where one of the roles alone finds no room."""
        costs = []
        for role, want in enumerate(self._wants):
            curves = self._curves(role, [member.capacity for member in self._members])
            least = ramp_cost(joined(*(curve.ramp for curve in curves)), want)
            if least is None:
                return None
            costs.append(least)
        return together(costs)

    def _curves(
        self,
        role: int,
        capacities: Sequence[Capacity],
        opened: Sequence[Collection[str]] | None = None,
    ) -> list[Curve]:
        return [
            self._pricing(member.name, capacity, self._roles[role], opened[at] if opened else ())
            if role in member.roles
            else NOTHING
            for at, (member, capacity) in enumerate(zip(self._members, capacities, strict=True))
        ]

    def one_by_one(self, order: Sequence[int]) -> Packing | None:
        """Each role as cheaply as the ones before let it be."""
        capacities = [member.capacity for member in self._members]
        opened: list[set[str]] = [set() for _ in self._members]
        parts = []
        costs = [0] * len(self._members)
        ways: list[dict[str, None]] = [{} for _ in self._members]
        for role in order:
            want = self._wants[role]
            curves = self._curves(role, capacities, opened)
            cost = ramp_cost(joined(*(curve.ramp for curve in curves)), want)
            if cost is None:
                return None
            for at, units in enumerate(split(curves, want, cost, least=0)):
                if not units:
                    continue
                filling = curves[at].fill(units)
                costs[at] += curves[at].cost(units)
                ways[at][filling.billing] = None
                opened[at].update(block for block, _ in filling.blocks)
                parts += [Part(role, at, block, count) for block, count in filling.blocks]
                capacities[at] = self._taken(capacities[at], role, filling)
        return Packing(
            cost=sum(costs),
            parts=tuple(sorted(parts)),
            order=tuple(order),
            billing=tuple("+".join(filter(None, each)) for each in ways),
            micro=tuple(map(_micro, costs)),
        )

    def _taken(self, capacity: Capacity, role: int, filling: Filling) -> Capacity:
        kind, unit = self._roles[role].kind, self._roles[role].unit
        blocks = {block: units * unit for block, units in filling.blocks}
        return capacity.without(kind, filling.units * unit, blocks=blocks)

    # -- block by block

    def block_by_block(self, *, below: int | None) -> Packing | None:
        """The cheapest way, by what each block holds of all roles at once; None where that is too
        much work, or there is none that costs less than `below`."""
        wants = tuple(self._wants)
        # Units of each role that are placed → (cost, what went where).
        states: dict[tuple[int, ...], tuple[int, tuple[Part, ...]]] = {(0,) * len(wants): (0, ())}
        work = 0
        places = [
            (at, block, self._options(at, block))
            for at, member in enumerate(self._members)
            for block in sorted(member.capacity.blocks)
        ]
        to_come = self._to_come([options for _, _, options in places])
        if to_come is None:
            return None
        for (at, block, options), after in zip(places, to_come, strict=True):
            needed = tuple(want - most for want, most in zip(wants, after, strict=True))
            grown: dict[tuple[int, ...], tuple[int, tuple[Part, ...]]] = {}
            work += len(states) * len(options or ())
            if work > _WORK:
                return None
            for placed, (cost, parts) in states.items():
                for more, price in (_NOTHING, *(options or ())):
                    total = cost + price
                    if below is not None and total >= below:
                        continue
                    sums = tuple(map(add, placed, more)) if more else placed
                    if any(map(gt, sums, wants)) or any(map(lt, sums, needed)):
                        continue
                    known = grown.get(sums)
                    if known is None or total < known[0]:
                        added = (
                            Part(role, at, block, count) for role, count in enumerate(more) if count
                        )
                        grown[sums] = total, (*parts, *added)
            states = grown
        if wants not in states:
            return None
        cost, parts = states[wants]
        return self._priced(cost, parts)

    def _to_come(
        self, options: Sequence[list[tuple[tuple[int, ...], int]] | None]
    ) -> list[list[int]] | None:
        """The most units of each role in the blocks after each; None where one is not known."""
        found = [[0] * len(self._wants)]
        for each in reversed(options[1:]):
            if each is None:
                return None
            most = [
                max((row[role] for row, _ in each), default=0) for role in range(len(self._wants))
            ]
            found.append(list(map(add, found[-1], most)))
        return found[::-1] if not options or options[0] is not None else None

    def _options(self, at: int, block: str) -> list[tuple[tuple[int, ...], int]] | None:
        """(units of each role, what they cost there) that a block holds at once."""
        member = self._members[at]
        alone = _alone(member.capacity, block)
        there = [role for role in self.hardest_first() if role in member.roles]
        curves = {role: self._pricing(member.name, alone, self._roles[role], ()) for role in there}
        there = [role for role in there if curves[role].units]
        if not there:
            return []
        most = [min(curves[role].units, self._wants[role]) for role in there]
        units = [self._roles[role].unit for role in there]
        kinds = [self._roles[role].kind for role in there]
        pods = [count * unit for count, unit in zip(most, units, strict=True)]
        mixing = Mixing(member.capacity.blocks[block], kinds, pods)
        if not mixing.known:
            return None
        found = []
        for counts in product(*(range(count + 1) for count in most[1:])):
            others = tuple(count * unit for count, unit in zip(counts, units[1:], strict=True))
            beside = min(mixing.most(others) // units[0], most[0])
            for first in range(beside + 1):
                held = dict(zip(there, (first, *counts), strict=True))
                if any(held.values()):
                    cost = together(curves[role].cost(count) for role, count in held.items())
                    row = tuple(held.get(role, 0) for role in range(len(self._roles)))
                    found.append((row, cost))
            if len(found) > _OPTIONS:
                return None
        return found

    def _priced(self, cost: int, parts: Sequence[Part]) -> Packing:
        ways: list[dict[str, None]] = [{} for _ in self._members]
        costs: list[dict[str, list[int]]] = [{} for _ in self._members]
        for part in parts:
            member = self._members[part.member]
            alone = _alone(member.capacity, part.block)
            curve = self._pricing(member.name, alone, self._roles[part.role], ())
            ways[part.member][curve.fill(part.units).billing] = None
            costs[part.member].setdefault(part.block, []).append(curve.cost(part.units))
        return Packing(
            cost=cost,
            parts=tuple(sorted(parts)),
            order=tuple(self.hardest_first()),
            billing=tuple("+".join(filter(None, each)) for each in ways),
            micro=tuple(_micro(sum(map(together, each.values()))) for each in costs),
        )


def _alone(capacity: Capacity, block: str) -> Capacity:
    return type(capacity).of_blocks([capacity.blocks[block]], capacity.as_of_s)


def _micro(packed: int) -> int | None:
    cost = Cost.of(packed)
    return None if cost.unknown else cost.micro
