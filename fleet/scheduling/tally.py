"""Who is where, and what that leaves: many gangs over the sums that clusters hold.

A gang is put where it is best off by itself, given who is there already, or taken out again; the
rows of a cluster (`totals`) are never overrun by who is placed here. `exchange` and `barter` search
for who should be where.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from fleet.scheduling.totals import Gang, Option, Row

Shares = tuple[tuple[int, int], ...]
"""(position of the cluster, units); none in a gang that is not admitted."""

There = tuple[tuple[int, int], ...]
"""(gang, units) in a cluster."""

Value = tuple[int, ...]
"""Worse the larger: minus what is admitted of each class, then tiers, clusters, unknown, money."""

_ENDLESS: Final = 1 << 60
_FEW: Final = 6
"""Clusters of which all sets are tried."""


class Tally:
    """Gangs and where they are. Sorts are told by position: `sorts` has that of each gang, and
    `rows` those of each cluster.
    """

    def __init__(
        self,
        gangs: Sequence[Gang],
        sorts: Sequence[int],
        rows: Sequence[Sequence[Row]],
        *,
        chance: Random,
    ) -> None:
        self.gangs = gangs
        self.sorts = sorts
        self.rows = rows
        self.chance = chance
        self.left = [[row.limit for row in there] for there in rows]
        kinds = range(max(sorts, default=-1) + 1)
        self._takes = [
            [
                [(at, row.takes[sort]) for at, row in enumerate(there) if row.takes.get(sort)]
                for sort in kinds
            ]
            for there in rows
        ]
        self._room: list[dict[int, int]] = [{} for _ in rows]
        """By cluster, units of a sort for which there is room, where it was counted."""
        self.options = [{each.cluster: each for each in gang.options} for gang in gangs]
        self.groups = [_groups(gang) for gang in gangs]
        self.level = [len({each.tier for each in gang.options}) == 1 for gang in gangs]
        """Whether all clusters are of one tier to it."""
        self.classes = sorted({each.priority for each in gangs}, reverse=True)
        self.shares: list[Shares] = [() for _ in gangs]
        self.costs: list[Value] = [(0, 0, 0, 0) for _ in gangs]
        self.inside: list[set[int]] = [set() for _ in rows]
        self.ideal = [self._alone(at) for at in range(len(gangs))]

    # -- how good

    def value(self) -> Value:
        sums = [0] * len(self.classes)
        totals = [0, 0, 0, 0]
        for gang, shares, costs in zip(self.gangs, self.shares, self.costs, strict=True):
            if shares:
                sums[self.classes.index(gang.priority)] -= gang.weight
                for level, cost in enumerate(costs):
                    totals[level] += cost
        return (*sums, *totals)

    def cost(self, at: int, shares: Shares) -> Value:
        options = self.options[at]
        tier = unknown = micro = 0
        for cluster, units in shares:
            option = options[cluster]
            tier = max(tier, option.tier)
            if option.micro is None:
                unknown += units * self.gangs[at].sort.pods
            else:
                micro += units * option.micro
        return tier, len(shares), unknown, micro

    # -- one by one

    def put(self, at: int, shares: Shares) -> None:
        sort = self.sorts[at]
        for cluster, units in shares:
            left = self.left[cluster]
            for row, need in self._takes[cluster][sort]:
                left[row] -= need * units
            self._room[cluster].clear()
            self.inside[cluster].add(at)
        self.shares[at] = shares
        self.costs[at] = self.cost(at, shares)

    def leave(self, at: int) -> None:
        sort = self.sorts[at]
        for cluster, units in self.shares[at]:
            left = self.left[cluster]
            for row, need in self._takes[cluster][sort]:
                left[row] += need * units
            self._room[cluster].clear()
            self.inside[cluster].discard(at)
        self.shares[at] = ()

    def place_among(self, at: int, options: Sequence[Option]) -> bool:
        """Put a gang into some of these, which are of one network, if it can be."""
        found = self._choose(at, self.rooms(at, options, 0.0), self.gangs[at].span, 0.0)
        if found is not None:
            self.put(at, found[1])
        return found is not None

    def allowed(self, at: int, shares: Shares) -> bool:
        """Whether a gang keeps below its ceiling."""
        ceiling = self.gangs[at].ceiling
        _, _, unknown, micro = self.cost(at, shares)
        return ceiling is None or (not unknown and micro <= ceiling)

    def there(self, cluster: int) -> There:
        return tuple(
            (at, units)
            for at in sorted(self.inside[cluster])
            for where, units in self.shares[at]
            if where == cluster
        )

    def holds(self) -> bool:
        """Whether no row is overrun."""
        return all(left >= 0 for there in self.left for left in there)

    def rooms(self, at: int, options: Sequence[Option], blink: float) -> list[tuple[int, Option]]:
        """(units, option) where there are any. Some are overlooked by chance."""
        sort, chance = self.sorts[at], self.chance.random
        found = []
        for option in options:
            if blink and chance() < blink:
                continue
            cluster = option.cluster
            known = self._room[cluster]
            room = known.get(sort)
            if room is None:
                left, room = self.left[cluster], _ENDLESS
                for row, need in self._takes[cluster][sort]:
                    more = left[row] // need
                    if more < room:
                        room = more
                known[sort] = room
            if room > option.most:
                room = option.most
            if room > 0:
                found.append((room, option))
        return found

    def place(self, at: int, *, blink: float = 0.0, away: float = 0.0) -> bool:
        """Put a gang where it is best off by itself; of equals where it fits most closely.

        With `away`, a gang that may go anywhere keeps away from where others would be of an earlier
        tier.
        """
        best: tuple[tuple[float, ...], Shares] | None = None
        for tier, options in self.groups[at]:
            if best is not None and best[0][0] < tier:
                break
            rooms = self.rooms(at, options, blink)
            limit = self.gangs[at].span if best is None else int(best[0][1])
            found = self._choose(at, rooms, limit, away)
            if found is not None:
                key = (float(tier), *found[0])
                if best is None or key < best[0]:
                    best = key, found[1]
        if best is None:
            return False
        self.put(at, best[1])
        return True

    def _choose(
        self, at: int, rooms: list[tuple[int, Option]], span: int, away: float
    ) -> tuple[tuple[float, ...], Shares] | None:
        """The fewest clusters that hold it, then the cheapest, then those with the least over."""
        gang = self.gangs[at]
        units = gang.units
        if not rooms:
            return None
        largest = sorted((room for room, _ in rooms), reverse=True)
        sums = list(accumulate(largest[:span]))
        if sums[-1] < units:
            return None
        count = bisect_left(sums, units) + 1
        best: tuple[tuple[float, ...], Shares] | None = None
        sets: Iterable[tuple[tuple[int, Option], ...]]
        if count == 1:
            sets = [(each,) for each in rooms if each[0] >= units]
        else:
            sets = combinations(self._promising(rooms, count), count)
        for chosen in sets:
            over = -units
            for room, _ in chosen:
                over += room
            if over < 0:
                continue
            if count > 1:
                # Cheap ones first, and what is over in the largest.
                chosen = tuple(sorted(chosen, key=_cheapness))
            shares, left, unknown, micro = [], units, 0, 0
            for room, option in chosen:
                taken = room if room < left else left
                if not taken:
                    break
                left -= taken
                shares.append((option.cluster, taken))
                if option.micro is None:
                    unknown += taken
                else:
                    micro += taken * option.micro
            if gang.ceiling is not None and (unknown or micro > gang.ceiling):
                continue
            price = float(micro)
            if away:
                price = -away * price
            key = (len(shares), unknown, price, over)
            if best is None or key < best[0]:
                best = key, tuple(shares)
        return best

    def _promising(self, rooms: list[tuple[int, Option]], count: int) -> list[tuple[int, Option]]:
        """Few clusters: the largest, which hold it if any do, and the cheapest."""
        if len(rooms) <= _FEW:
            return rooms
        by_room = sorted(rooms, key=lambda each: (-each[0], each[1].cluster))
        kept = by_room[:count]
        rest = by_room[count:]
        rest.sort(key=lambda each: (_cheapness(each)[0:2], -each[0], each[1].cluster))
        return [*kept, *rest[: max(1, _FEW - count)]]

    def _alone(self, at: int) -> Value | None:
        """What it would cost if nobody else were there; None where it could go nowhere."""
        if not self.place(at):
            return None
        costs = self.costs[at]
        self.leave(at)
        return costs

    # -- all

    def restore(self, shares: Sequence[Shares]) -> None:
        for at in range(len(self.gangs)):
            self.leave(at)
        for at, each in enumerate(shares):
            if each:
                self.put(at, each)

    def wronged(self) -> list[int]:
        """Who could be better off if others were not there."""
        return [
            at
            for at, ideal in enumerate(self.ideal)
            if ideal is not None and (not self.shares[at] or self.costs[at] > ideal)
        ]

    def in_the_way(self, at: int, clusters: Sequence[int], there: Sequence[int]) -> list[int]:
        """As many of those there as have to go for it."""
        gang = self.gangs[at]
        need = gang.units * gang.sort.whole - sum(
            room * gang.sort.whole
            for room, _ in self.rooms(at, [self.options[at][each] for each in clusters], 0.0)
        )
        gone = []
        for other in there:
            if need <= 0:
                break
            whole = self.gangs[other].sort.whole
            need -= sum(n * whole for cluster, n in self.shares[other] if cluster in clusters)
            gone.append(other)
        return gone


def _cheapness(each: tuple[int, Option]) -> tuple[bool, int, int, int]:
    room, option = each
    return option.micro is None, option.micro or 0, room, option.cluster


def _groups(gang: Gang) -> list[tuple[int, tuple[Option, ...]]]:
    """By latest tier and network, what may be used, the earliest first."""
    found = []
    for tier in sorted({each.tier for each in gang.options}):
        within = [each for each in gang.options if each.tier <= tier]
        for domain in sorted({each.domain for each in within}):
            options = tuple(each for each in within if each.domain == domain)
            if any(each.tier == tier for each in options):
                found.append((tier, options))
    return found
