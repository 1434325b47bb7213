"""Units of a role in one cluster: how many fit, in which blocks, and what each number costs.

A `Curve` answers what x units cost there: units of unknown price first of all, then money, then
blocks touched. Units are filled in the order that is cheapest at every x, so each answer is exact:
cheaper nodes before dearer ones, and among equal prices blocks in use before new ones, large ones
first. `search` adds curves of several clusters.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.demand import Role
    from fleet.scheduling.price import Prices, Spot

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


@dataclass(frozen=True, slots=True)
class Pool:
    """Units in one block that cost the same and are paid for alike. `micro`: per unit and hour."""

    block: str
    micro: int | None
    billing: str
    units: int


@dataclass(frozen=True, slots=True)
class Offered:
    """What a cluster has for a role."""

    pools: tuple[Pool, ...]
    pods: int
    """Free, in whole units, whether or not the policy lets them be used."""
    pods_if_empty: int
    """The same if nothing ran there."""
    why: str = ""
    """Why room is not in `pools`, where some is not."""


def offered(
    cluster: str, capacity: Capacity, role: Role, prices: Prices, *, spot: Spot, priced: bool
) -> Offered:
    """`priced`: only what has a known price may be used."""
    free: dict[tuple[str, str, int | None, str], int] = {}
    total: dict[tuple[str, str], list[int]] = {}
    why = ""
    for room in capacity.rooms(role.kind):
        sums = total.setdefault((room.block, room.accelerator), [0, 0])
        sums[0] += room.pods
        sums[1] += room.pods_if_empty
        price = prices.of_pod(cluster, room, role.kind.request, spot=spot)
        if not price.usable or (priced and price.micro is None):
            why = why or price.why
            continue
        key = (room.block, room.accelerator, price.micro, price.billing)
        free[key] = free.get(key, 0) + room.pods
    pools = tuple(
        Pool(block, None if micro is None else micro * role.unit, billing, pods // role.unit)
        for (block, _, micro, billing), pods in free.items()
        if pods >= role.unit
    )
    return Offered(
        pools=pools,
        pods=sum(pods // role.unit * role.unit for pods, _ in total.values()),
        pods_if_empty=sum(pods // role.unit * role.unit for _, pods in total.values()),
        why=why,
    )


@dataclass(frozen=True, slots=True)
class Filling:
    """Where some units of a cluster go."""

    blocks: tuple[tuple[str, int], ...]
    """Units by block, in the order of choice."""
    cost: Cost
    billing: str
    """How they are paid for; several ways are joined by `+`."""


class Curve:
    """What 0 … `units` units of a role cost in one cluster."""

    __slots__ = ("_costs", "_ends", "_segments", "units")

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._segments = tuple(_segments(pools))
        ends = [0, *accumulate(segment.units for segment in self._segments)]
        full = [segment.units * segment.slope + segment.opens for segment in self._segments]
        self._ends: Sequence[int] = ends
        self._costs: Sequence[int] = [0, *accumulate(full)]
        self.units = ends[-1]

    def cost(self, units: int) -> int:
        """Packed; `Cost.of` unpacks. 0 <= units <= self.units."""
        if not units:
            return 0
        at = bisect_left(self._ends, units) - 1
        segment = self._segments[at]
        return self._costs[at] + segment.opens + (units - self._ends[at]) * segment.slope

    def corners(self) -> tuple[int, ...]:
        """1, and every number of units at which a block or a price is used up.

        Between two corners the cost is a straight line.
        """
        return tuple(sorted({1, *self._ends[1:]})) if self.units else ()

    def fill(self, units: int) -> Filling:
        left, blocks, billing = units, dict[str, int](), dict[str, None]()
        for segment in self._segments:
            taken = min(left, segment.units)
            if taken:
                blocks[segment.block] = blocks.get(segment.block, 0) + taken
                billing[segment.billing] = None
                left -= taken
        ways = "+".join(filter(None, billing))
        return Filling(tuple(blocks.items()), Cost.of(self.cost(units)), ways)


@dataclass(frozen=True, slots=True)
class _Segment:
    """Units of one price in one block; `opens` is 1 where the block is not in use before."""

    units: int
    slope: int
    opens: int
    block: str
    billing: str


def _segments(pools: Iterable[Pool]) -> Iterable[_Segment]:
    used: set[str] = set()
    ordered = sorted(pools, key=lambda pool: (_slope(pool), pool.block, pool.billing))
    for slope, equal in groupby(ordered, key=_slope):
        by_block: dict[str, list[Pool]] = {}
        for pool in equal:
            by_block.setdefault(pool.block, []).append(pool)
        sizes = {block: sum(pool.units for pool in found) for block, found in by_block.items()}
        for block in sorted(sizes, key=lambda each: (each not in used, -sizes[each], each)):
            opens = int(block not in used)
            for position, pool in enumerate(by_block[block]):
                yield _Segment(pool.units, slope, opens if not position else 0, block, pool.billing)
            used.add(block)


def _slope(pool: Pool) -> int:
    return _UNKNOWN if pool.micro is None else pool.micro * _MONEY
