"""The roles of a gang in a given set of clusters at once: does it hold them, and where do they go?

Roles of different kinds may want the same nodes, so they are placed one after the other on what the
ones before have left, in several orders; the best that comes out counts. Where no order works, one
more pass looks at each block by itself: how many units of the first role it still holds beside so
many of the others, and adds the blocks up. That finds a way whenever the nodes of a block can be
dealt out role by role; it is no proof that there is none. `search` asks for sets of clusters that
could be the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.fit import NOTHING, Cost, together
from fleet.scheduling.search import Packed, joined, ramp_cost, split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.demand import Role
    from fleet.scheduling.fit import Curve, Filling

    Pricing = Callable[[str, Capacity, Role, Collection[str]], Curve]
    """What units of a role cost in a cluster; blocks in use already cost no block."""

_ORDERS: Final = 6
_STATES: Final = 2048
_OPTIONS: Final = 256


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
    members: Sequence[Member], roles: Sequence[Role], wants: Sequence[int], pricing: Pricing
) -> Packing | None:
    """The best way that was found; None where the clusters do not hold it, or none was found."""
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
                break
    return best or packer.block_by_block()


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

    def block_by_block(self) -> Packing | None:
        """Any way at all: what each block holds of all roles at once, added up."""
        *others, first = reversed(self.hardest_first())
        wants = tuple(self._wants[role] for role in others)
        # Units of the other roles that are placed → (units of the first, what went where).
        states: dict[tuple[int, ...], tuple[int, tuple[Part, ...]]] = {(0,) * len(others): (0, ())}
        for at, member in enumerate(self._members):
            for block in sorted(member.capacity.blocks):
                options = list(self._options(at, block, first, others))
                grown = dict(states)
                for placed, (units, parts) in states.items():
                    for more, held in options:
                        sums = tuple(
                            map(
                                min,
                                zip(map(sum, zip(placed, more, strict=True)), wants, strict=True),
                            )
                        )
                        total = min(units + held, self._wants[first])
                        known = grown.get(sums)
                        if known is not None and known[0] >= total:
                            continue
                        if known is None and len(grown) >= _STATES:
                            continue
                        added = [
                            Part(role, at, block, count)
                            for role, count in zip((*others, first), (*more, held), strict=True)
                        ]
                        grown[sums] = total, (*parts, *added)
                states = grown
        units, parts = states.get(wants, (0, ()))
        if units < self._wants[first]:
            return None
        return self._priced(self._trimmed(parts))

    def _options(
        self, at: int, block: str, first: int, others: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        """(units of the others, units of the first beside them) that a block holds."""
        member = self._members[at]
        alone = self._alone(at, block)
        ranges = [range(min(self._held(at, alone, role), self._wants[role]) + 1) for role in others]
        for counts in islice(product(*ranges), _OPTIONS):
            capacity = alone
            for role, count in zip(others, counts, strict=True):
                if count:
                    if self._held(at, capacity, role) < count:
                        break
                    unit = self._roles[role].unit
                    capacity = capacity.without(self._roles[role].kind, count * unit)
            else:
                held = self._held(at, capacity, first) if first in member.roles else 0
                if held or any(counts):
                    yield counts, held

    def _alone(self, at: int, block: str) -> Capacity:
        capacity = self._members[at].capacity
        return type(capacity).of_blocks([capacity.blocks[block]], capacity.as_of_s)

    def _held(self, at: int, capacity: Capacity, role: int) -> int:
        member = self._members[at]
        if role not in member.roles:
            return 0
        return self._pricing(member.name, capacity, self._roles[role], ()).units

    def _trimmed(self, parts: Sequence[Part]) -> list[Part]:
        """Without what is more than is wanted."""
        left, kept = list(self._wants), []
        for part in parts:
            units = min(part.units, left[part.role])
            if units:
                left[part.role] -= units
                kept.append(part._replace(units=units))
        return kept

    def _priced(self, parts: Sequence[Part]) -> Packing:
        """What it costs to have the units in these blocks."""
        capacities = [member.capacity for member in self._members]
        opened: list[set[str]] = [set() for _ in self._members]
        costs = [0] * len(self._members)
        ways: list[dict[str, None]] = [{} for _ in self._members]
        order = self.hardest_first()[::-1]
        for part in sorted(parts, key=lambda each: (order.index(each.role), each)):
            at, role = part.member, self._roles[part.role]
            alone = type(capacities[at]).of_blocks([capacities[at].blocks[part.block]], 0.0)
            inside = part.block in opened[at]
            curve = self._pricing(
                self._members[at].name, alone, role, (part.block,) if inside else ()
            )
            costs[at] += curve.cost(part.units)
            ways[at][curve.fill(part.units).billing] = None
            opened[at].add(part.block)
            pods = part.units * role.unit
            capacities[at] = capacities[at].without(role.kind, pods, blocks={part.block: pods})
        return Packing(
            cost=sum(costs),
            parts=tuple(sorted(parts)),
            order=tuple(order),
            billing=tuple("+".join(filter(None, each)) for each in ways),
            micro=tuple(map(_micro, costs)),
        )


def _micro(packed: int) -> int | None:
    cost = Cost.of(packed)
    return None if cost.unknown else cost.micro
