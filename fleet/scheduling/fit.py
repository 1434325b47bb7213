"""Units of a role in one cluster: how many fit, in which blocks, and what each number costs.

A `Curve` answers what x units cost there: units of unknown price first of all, then money, then
blocks touched. Units are filled in the order that is cheapest at every x, so each answer is exact:
cheaper nodes before dearer ones, and among equal prices blocks in use before new ones, large ones
first. Which of equally many blocks are taken is up to what would be stranded (`stranding`).
`search` adds curves of several clusters.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.stranding import NO_MIX, Place, choose, stranded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.demand import Role
    from fleet.scheduling.price import Price, Prices, Spot
    from fleet.scheduling.stranding import Mix

# A cost is one integer, most significant part first, so that sums and comparisons are exact and
# lexicographic: units of unknown price, millionths of money, blocks.
_BLOCK_BITS: Final = 40
_MONEY_BITS: Final = 120
_MONEY: Final = 1 << _BLOCK_BITS
_UNKNOWN: Final = 1 << (_BLOCK_BITS + _MONEY_BITS)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a choice costs: units whose price is not known, money per hour for the rest, blocks."""

    unknown: int
    micro: int
    blocks: int

    @classmethod
    def of(cls, packed: int) -> Cost:
        return cls(packed // _UNKNOWN, packed % _UNKNOWN // _MONEY, packed % _MONEY)

    @property
    def packed(self) -> int:
        return self.unknown * _UNKNOWN + self.micro * _MONEY + self.blocks


def together(costs: Iterable[int]) -> int:
    """The least that several roles can cost at once, packed: one block may serve them all."""
    listed = list(costs)
    blocks = [cost % _MONEY for cost in listed]
    return sum(listed) - sum(blocks) + max(blocks, default=0)


@dataclass(frozen=True, slots=True)
class Pool:
    """Units in one block that cost the same and are paid for alike.

    `micro` is what a unit's work costs per hour; `paid` is what the bill says of it, the same where
    it is None.
    """

    block: str
    micro: int | None
    billing: str
    units: int
    paid: int | None = None


@dataclass(frozen=True, slots=True)
class Offered:
    """What a cluster has for a role."""

    pools: tuple[Pool, ...]
    pods: int
    """Free, in whole units, whether or not the policy lets them be used."""
    pods_if_empty: int
    """The same if nothing ran there."""
    free: Mapping[str, int]
    """Pods free by block, whole units or not, payable or not."""
    why: str = ""
    """Why room is not in `pools`, where some is not."""
    payable_if_empty: bool = False
    """Whether the policy would let any of it be used if nothing ran there."""


def offered(
    cluster: str, capacity: Capacity, role: Role, prices: Prices, *, spot: Spot, priced: bool
) -> Offered:
    """`priced`: only what has a known price may be used."""
    free: dict[tuple[str, str, int | None, str, int | None], int] = {}
    by_block: dict[str, int] = {}
    total: dict[tuple[str, str], tuple[int, int]] = {}
    why, unit, payable = "", role.unit, dict[str, int]()
    known: dict[tuple[object, ...], Price] = {}
    for room in capacity.rooms(role.kind):
        block, accelerator, pods = room.block, room.accelerator, room.pods
        there, empty = total.get((block, accelerator), (0, 0))
        total[block, accelerator] = there + pods, empty + room.pods_if_empty
        by_block[block] = by_block.get(block, 0) + pods
        alike = accelerator, room.instance_type, room.billing, room.shape
        price = known.get(alike)
        if price is None:
            price = prices.of_pod(cluster, room, role.kind.request, spot=spot)
            known[alike] = price
        if not price.usable or (priced and price.micro is None):
            why = why or price.why
            continue
        payable[block] = payable.get(block, 0) + room.pods_if_empty
        key = (block, accelerator, price.micro, price.billing, price.paid)
        free[key] = free.get(key, 0) + pods
    pools = tuple(
        Pool(block, _times(micro, unit), billing, pods // unit, _times(paid, unit))
        for (block, _, micro, billing, paid), pods in free.items()
        if pods >= unit
    )
    whole = whole_if_empty = 0
    for pods, empty in total.values():
        whole += pods // unit * unit
        whole_if_empty += empty // unit * unit
    return Offered(
        pools=pools,
        pods=whole,
        pods_if_empty=whole_if_empty,
        free=by_block,
        why=why,
        payable_if_empty=any(pods >= unit for pods in payable.values()),
    )


def _times(micro: int | None, unit: int) -> int | None:
    return None if micro is None else micro * unit


@dataclass(frozen=True, slots=True)
class Filling:
    """Where some units of a cluster go."""

    blocks: tuple[tuple[str, int], ...]
    """Units by block, in the order of choice."""
    cost: Cost
    billing: str
    """How they are paid for; several ways are joined by `+`."""
    stranded: int = 0
    """How much more of the mix of jobs is stranded by it, in pods."""

    @property
    def units(self) -> int:
        return sum(units for _, units in self.blocks)


class Step(NamedTuple):
    """Units of one price in one block, in the order in which they are filled.

    `opens` is 0 where dearer units are in a block that cheaper ones opened already, else 1;
    `units` are negative, so that the larger of two equal blocks comes first. Sorted together, the
    steps of several clusters are the steps of all of them.
    """

    slope: int
    opens: int
    units: int
    block: str
    ways: tuple[tuple[str, int, int | None], ...]
    """How they are paid for: (billing, units, what a unit is billed per hour)."""


Ramp = tuple[tuple[int, int, int], ...]
"""(slope, opens, -units), sorted: what a cost depends on."""


class Curve:
    """What 0 … `units` units of a role cost in one cluster.

    `free` has all pods of the kind that are free in each block, `unit` the pods of a unit; both
    matter to what is stranded only. Blocks that are `opened` are in use already. `once` is what it
    costs to use the cluster at all, packed: no part of `cost`, since other roles use it too.
    """

    __slots__ = (
        "_costs", "_ends", "_fillings", "_free", "_mix", "_unit", "once", "ramp", "steps", "units",
    )  # fmt: skip

    def __init__(
        self,
        pools: Iterable[Pool],
        free: Mapping[str, int] | None = None,
        *,
        unit: int = 1,
        mix: Mix = NO_MIX,
        opened: Iterable[str] = (),
        once: int = 0,
    ) -> None:
        self.once = once
        self.steps = tuple(sorted(_steps(pools, opened)))
        self.ramp: Ramp = tuple(step[:3] for step in self.steps)
        self._ends: Sequence[int] = [0, *accumulate(-units for _, _, units in self.ramp)]
        full = [opens - units * slope for slope, opens, units in self.ramp]
        self._costs: Sequence[int] = [0, *accumulate(full)]
        self._free = free
        self._unit = unit
        self._mix = mix
        self._fillings: dict[int, Filling] = {}
        self.units = self._ends[-1]

    def cost(self, units: int) -> int:
        """Packed; `Cost.of` unpacks. 0 <= units <= self.units."""
        if not units:
            return 0
        at = bisect_left(self._ends, units) - 1
        slope, opens, _ = self.ramp[at]
        return self._costs[at] + opens + (units - self._ends[at]) * slope

    @property
    def mixed(self) -> bool:
        """Whether what is stranded matters."""
        return bool(self._mix)

    def ends(self) -> Sequence[int]:
        """0, and every number of units at which a block or a price is used up.

        From behind one to the next the cost is a straight line.
        """
        return self._ends

    def fill(self, units: int) -> Filling:
        found = self._fillings.get(units)
        if found is None:
            found = self._fillings[units] = self._fill(units)
        return found

    def of_blocks(self, blocks: Mapping[str, int]) -> Filling | None:
        """So many units in each block, the cheaper ones of each first; None where it has fewer."""
        left, billing, cost = dict(blocks), dict[str, None](), 0
        for step in self.steps:
            units = min(left.get(step.block, 0), -step.units)
            if units:
                left[step.block] -= _take(step, units, {}, billing)
                cost += step.opens + units * step.slope
        if any(left.values()):
            return None
        ways = "+".join(filter(None, billing))
        lost = self._stranded(blocks) if self._mix else 0
        return Filling(tuple(sorted(blocks.items())), Cost.of(cost), ways, lost)

    def paid(self, blocks: Mapping[str, int]) -> int | None:
        """What the bill says per hour of so many units by block; None where that is not known."""
        left, total = dict(blocks), 0
        for step in self.steps:
            units = min(left.get(step.block, 0), -step.units)
            if not units:
                continue
            left[step.block] -= units
            for _, count, paid in step.ways:
                if units and paid is None:
                    return None
                total += min(units, count) * (paid or 0)
                units -= min(units, count)
        return None if any(left.values()) else total

    def stranded(self, units: int) -> int:
        """What `fill` strands."""
        return self.fill(units).stranded if self._mix else 0

    def _fill(self, units: int) -> Filling:
        left, blocks, billing = units, dict[str, int](), dict[str, None]()
        last = self.steps[bisect_left(self._ends, units) - 1].slope if units else 0
        fresh = []
        for step in self.steps:
            if not left:
                break
            if self._mix and (step.slope, step.opens) >= (last, 1):
                fresh = [each for each in self.steps if (each.slope, each.opens) == (last, 1)]
                break
            left -= _take(step, min(left, -step.units), blocks, billing)
        if left:
            by_block = {step.block: step for step in fresh}
            places = [Place(each.block, -each.units, self._pods(each.block)) for each in fresh]
            _, chosen = choose(places, left, unit=self._unit, mix=self._mix)
            for block, count in chosen:
                _take(by_block[block], count, blocks, billing)
        ways = "+".join(filter(None, billing))
        lost = self._stranded(blocks) if self._mix else 0
        return Filling(tuple(blocks.items()), Cost.of(self.cost(units)), ways, lost)

    def _stranded(self, blocks: Mapping[str, int]) -> int:
        return sum(
            stranded(self._pods(block) - units * self._unit, self._mix)
            - stranded(self._pods(block), self._mix)
            for block, units in blocks.items()
        )

    def _pods(self, block: str) -> int:
        if self._free is not None:
            return self._free.get(block, 0)
        return -sum(step.units for step in self.steps if step.block == block) * self._unit


def _take(step: Step, units: int, blocks: dict[str, int], billing: dict[str, None]) -> int:
    blocks[step.block] = blocks.get(step.block, 0) + units
    left = units
    for way, count, _ in step.ways:
        if left > 0:
            billing[way] = None
            left -= count
    return units


def _steps(pools: Iterable[Pool], opened: Iterable[str]) -> Iterable[Step]:
    together: dict[tuple[int, str], list[tuple[str, int, int | None]]] = {}
    for slope, block, billing, _, pool in sorted(
        (_slope(pool), pool.block, pool.billing, at, pool) for at, pool in enumerate(pools)
    ):
        paid = pool.micro if pool.paid is None else pool.paid
        together.setdefault((slope, block), []).append((billing, pool.units, paid))
    used = set(opened)
    for (slope, block), ways in together.items():
        units = ways[0][1] if len(ways) == 1 else sum(count for _, count, _ in ways)
        yield Step(slope, int(block not in used), -units, block, tuple(ways))
        used.add(block)


def _slope(pool: Pool) -> int:
    return _UNKNOWN if pool.micro is None else pool.micro * _MONEY


NOTHING: Final = Curve(())
"""Where a role may not go."""
