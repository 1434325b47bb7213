"""The cheapest way to put a number of units into exactly m of some clusters, exactly.

Least in this order: units of unknown price, money, blocks touched; of equals the one that comes
first by name, with as much as possible in the first. A cluster that is used gets a unit at least.

Costs are piecewise linear (`fit.Curve`) with jumps at corners, so some best choice has every
cluster but one at a corner: were two between corners, moving units from one to the other would not
cost more until one of them is at a corner. The dynamic programme over (clusters used, units placed,
whether the one is spent) therefore tries corners only, and every number just once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.scheduling.fit import Curve

Choice = tuple[tuple[int, int], ...]
"""(position of the cluster, units), by position."""

_Path = tuple[tuple[int, int], ...]


class Found(NamedTuple):
    """A best choice and its packed cost (`fit.Cost.of`)."""

    cost: int
    choice: Choice


def cheapest(curves: Sequence[Curve], units: int, clusters: int) -> Found | None:
    """The best choice of exactly `clusters` of `curves` for `units`; None when none fits.

    The order of `curves` is the order of names that breaks ties.
    """
    if clusters == 1:
        single = [
            (curve.cost(units), position)
            for position, curve in enumerate(curves)
            if curve.units >= units
        ]
        if not single:
            return None
        cost, position = min(single)
        return Found(cost, ((position, units),))
    most = _most_after(curves, clusters)
    # (clusters used, units placed, one is between corners) → (cost, path); a path holds
    # (position, -units), so that the lesser path is the one with more in the earlier cluster.
    states: dict[tuple[int, int, bool], tuple[int, _Path]] = {(0, 0, False): (0, ())}
    for position, curve in enumerate(curves):
        if not curve.units:
            continue
        corners = curve.corners()
        prices: dict[int, int] = {}
        grown = dict(states)
        for (used, placed, spent), (cost, path) in states.items():
            if used == clusters:
                continue
            after = clusters - used - 1
            highest = min(curve.units, units - placed - after)
            lowest = max(1, units - placed - most[position + 1][after])
            if lowest > highest:
                continue
            steps = [c for c in corners if lowest <= c <= highest]
            options = [(each, spent) for each in steps]
            if not spent:
                if after:
                    between = range(lowest, highest + 1)
                    options += [(each, True) for each in between if each not in steps]
                elif lowest == highest and not steps:
                    options.append((lowest, True))
            for taken, spends in options:
                price = prices.get(taken)
                if price is None:
                    price = prices[taken] = curve.cost(taken)
                key = (used + 1, placed + taken, spends)
                value = (cost + price, (*path, (position, -taken)))
                best = grown.get(key)
                if best is None or value < best:
                    grown[key] = value
        states = {
            key: value
            for key, value in grown.items()
            if key[0] == clusters or units - key[1] <= most[position + 1][clusters - key[0]]
        }
    ends = [
        states[key] for key in ((clusters, units, False), (clusters, units, True)) if key in states
    ]
    if not ends:
        return None
    cost, path = min(ends)
    return Found(cost, tuple((position, -negative) for position, negative in path))


def _most_after(curves: Sequence[Curve], clusters: int) -> list[list[int]]:
    """[position][k]: the most units that k clusters from a position on can hold."""
    table = [[0] * (clusters + 1) for _ in range(len(curves) + 1)]
    largest: list[int] = []
    for position in range(len(curves) - 1, -1, -1):
        largest = sorted([*largest, curves[position].units], reverse=True)[:clusters]
        total = 0
        for count in range(1, clusters + 1):
            total += largest[count - 1] if count <= len(largest) else 0
            table[position][count] = total
    return table
