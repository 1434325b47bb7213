"""Who changes places with whom: many gangs over the sums that clusters hold, as well as can be.

Some gangs are taken out of a few clusters, where they are in the way of somebody who was turned
away or is worse off than need be, and put back in another order. What is worse is kept now and
then, ever less as time goes on: first while it is about admission, last about money only, so that
the levels of the objective settle one after the other. The best that came up is the answer. Only
sums are looked at (`totals`); `batch` asks, and puts what was found onto nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, combinations
from math import exp
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from fleet.scheduling.totals import Gang, Option, Row

Shares = tuple[tuple[int, int], ...]
"""(position of the cluster, units); none in a gang that is not admitted."""

Value = tuple[int, ...]
"""Worse the larger: minus what is admitted of each class, then tiers, clusters, unknown, money."""

# How much worse a round may leave things: a late tier weighs 30, a cluster more 3, and about what a
# gang costs 1.
_HOT: Final = 60.0
_SETTLED: Final = 3.0
"""Below it admission and tiers hardly change."""
_WARM: Final = 3.0
_TEPID: Final = 0.3
_COLD: Final = 0.008
_GONE: Final = (1, 2, 3, 4, 6, 9, 13)
"""How many are taken out at once,"""
_JUST: Final = 0.2
"""and how often just as many as have to go."""
_BLINK: Final = 0.04
"""How often a cluster is overlooked, so that not all go where they went before."""
_ENDLESS: Final = 1 << 60
_FEW: Final = 6
"""Clusters of which all sets are tried."""


class Exchange:
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
        self._chance = chance
        self._left = [[row.limit for row in there] for there in rows]
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
        self._options = [{each.cluster: each for each in gang.options} for gang in gangs]
        self._groups = [_groups(gang) for gang in gangs]
        self._level = [len({each.tier for each in gang.options}) == 1 for gang in gangs]
        """Whether all clusters are of one tier to it."""
        self._classes = sorted({each.priority for each in gangs}, reverse=True)
        self._steps = self._scale()
        self.shares: list[Shares] = [() for _ in gangs]
        self._costs: list[Value] = [(0, 0, 0, 0) for _ in gangs]
        self._in: list[set[int]] = [set() for _ in rows]
        self._ideal = [self._alone(at) for at in range(len(gangs))]

    # -- how good

    def _scale(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What a step weighs: of each class, then of tier, cluster, unknown, money."""
        gangs = self.gangs
        mean = sum(each.weight for each in gangs) / max(1, len(gangs))
        known = [each.micro * gang.units for gang in gangs for each in gang.options if each.micro]
        money = sum(known) / max(1, len(known))
        classes = tuple(300.0 * 10.0**rank / max(1.0, mean) for rank in range(len(self._classes)))[
            ::-1
        ]
        return classes, (30.0, 3.0, 3.0, 1.0 / money if money else 0.0)

    def value(self) -> Value:
        sums = [0] * len(self._classes)
        totals = [0, 0, 0, 0]
        for gang, shares, costs in zip(self.gangs, self.shares, self._costs, strict=True):
            if shares:
                sums[self._classes.index(gang.priority)] -= gang.weight
                for level, cost in enumerate(costs):
                    totals[level] += cost
        return (*sums, *totals)

    def _energy(self, at: int) -> float:
        """What a gang adds to what is made least."""
        classes, steps = self._steps
        if not self.shares[at]:
            gang = self.gangs[at]
            return classes[self._classes.index(gang.priority)] * gang.weight
        return sum(cost * step for cost, step in zip(self._costs[at], steps, strict=True))

    def _cost(self, at: int, shares: Shares) -> Value:
        options = self._options[at]
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
            left = self._left[cluster]
            for row, need in self._takes[cluster][sort]:
                left[row] -= need * units
            self._room[cluster].clear()
            self._in[cluster].add(at)
        self.shares[at] = shares
        self._costs[at] = self._cost(at, shares)

    def leave(self, at: int) -> None:
        sort = self.sorts[at]
        for cluster, units in self.shares[at]:
            left = self._left[cluster]
            for row, need in self._takes[cluster][sort]:
                left[row] += need * units
            self._room[cluster].clear()
            self._in[cluster].discard(at)
        self.shares[at] = ()

    def less(self, cluster: int, sort: int, units: int) -> None:
        """Take from each row that counts a sort: the nodes hold fewer units than sums say."""
        left = self._left[cluster]
        for row, need in self._takes[cluster][sort]:
            left[row] -= need * units
        self._room[cluster].clear()

    def holds(self) -> bool:
        """Whether no row is overrun."""
        return all(left >= 0 for there in self._left for left in there)

    def _rooms(self, at: int, options: Sequence[Option], blink: float) -> list[tuple[int, Option]]:
        """(units, option) where there are any. Some are overlooked by chance."""
        sort, chance = self.sorts[at], self._chance.random
        found = []
        for option in options:
            if blink and chance() < blink:
                continue
            cluster = option.cluster
            known = self._room[cluster]
            room = known.get(sort)
            if room is None:
                left, room = self._left[cluster], _ENDLESS
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
        for tier, options in self._groups[at]:
            if best is not None and best[0][0] < tier:
                break
            rooms = self._rooms(at, options, blink)
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
        costs = self._costs[at]
        self.leave(at)
        return costs

    # -- better

    def improve(self, rounds: int, *, warm: bool = False) -> int:
        """Leaves the best that came up; says how many rounds that took.

        What is `warm` only, since it was improved before, is not shaken up again.
        """
        best, kept = self.value(), list(self.shares)
        heat, tried = _TEPID if warm else _HOT, 0
        # Admission and tiers settle soon, money does not.
        soon = 0 if warm else rounds * 2 // 5
        early = (_WARM / _HOT) ** (1 / max(1, soon))
        late = (_COLD / (_TEPID if warm else _WARM)) ** (1 / (rounds - soon + 1))
        while tried < rounds:
            tried += 1
            heat *= late if tried > soon else early
            wronged = self._wronged()
            if not wronged:
                break
            before = self._again(wronged, heat)
            changed = [at for at, (shares, _) in before.items() if self.shares[at] != shares]
            if not changed:
                continue
            worse = sum(self._energy(at) - before[at][1] for at in changed)
            if worse > 0 and self._chance.random() >= exp(-worse / heat):
                for at in changed:
                    self.leave(at)
                for at in changed:
                    if before[at][0]:
                        self.put(at, before[at][0])
                continue
            value = self.value()
            if value < best:
                best, kept = value, list(self.shares)
        self.restore(kept)
        return tried

    def restore(self, shares: Sequence[Shares]) -> None:
        for at in range(len(self.gangs)):
            self.leave(at)
        for at, each in enumerate(shares):
            if each:
                self.put(at, each)

    def _wronged(self) -> list[int]:
        """Who could be better off if others were not there."""
        return [
            at
            for at, ideal in enumerate(self._ideal)
            if ideal is not None and (not self.shares[at] or self._costs[at] > ideal)
        ]

    def _again(self, wronged: Sequence[int], heat: float) -> Mapping[int, tuple[Shares, float]]:
        """Take some out and put them back; what was before, of all that may have changed."""
        chance = self._chance
        first = self._whom(wronged, heat)
        clusters = self._where(first)
        there = sorted({at for cluster in clusters for at in self._in[cluster]} - {first})
        chance.shuffle(there)
        if chance.random() < _JUST:
            gone = self._enough(first, clusters, there)
        else:
            gone = there[: chance.choice(_GONE)]
        out = [
            at
            for at, shares in enumerate(self.shares)
            if not shares and self._ideal[at] is not None and at != first
        ]
        before = {at: (self.shares[at], self._energy(at)) for at in (first, *gone, *out)}
        for at in (first, *gone):
            self.leave(at)
        order = [*gone, *out]
        chance.shuffle(order)
        gangs, way = self.gangs, chance.random()
        if way < 0.35:
            order.sort(key=lambda at: -gangs[at].weight)
        elif way < 0.6:
            order.sort(key=lambda at: (len(self._groups[at]) == 1, -gangs[at].weight))
        elif way < 0.75:
            order.sort(key=lambda at: (gangs[at].span, -gangs[at].weight))
        elif way < 0.85:
            order.sort(key=lambda at: gangs[at].weight)
        if chance.random() < 0.7:
            order.insert(0, first)
        else:
            order.insert(chance.randint(0, len(order)), first)
        away = 1.0 if chance.random() < 0.3 else 0.0
        for at in order:
            self.place(at, blink=_BLINK, away=away if self._level[at] else 0.0)
        return before

    def _whom(self, wronged: Sequence[int], heat: float) -> int:
        """Mostly somebody who was turned away, or whose tier is late, while that may change."""
        chance = self._chance.random()
        if chance < (0.5 if heat > _SETTLED else 0.03):
            out = [at for at in wronged if not self.shares[at]]
            if out:
                return self._chance.choice(out)
        if chance < (0.75 if heat > _SETTLED else 0.1):
            ideal = self._ideal
            late = [
                at
                for at in wronged
                if self.shares[at]
                and (each := ideal[at]) is not None
                and self._costs[at][0] > each[0]
            ]
            if late:
                return self._chance.choice(late)
        return self._chance.choice(wronged)

    def _enough(self, at: int, clusters: Sequence[int], there: Sequence[int]) -> list[int]:
        """As many of those there as have to go for it."""
        gang = self.gangs[at]
        need = gang.units * gang.sort.whole - sum(
            room * gang.sort.whole
            for room, _ in self._rooms(at, [self._options[at][each] for each in clusters], 0.0)
        )
        gone = []
        for other in there:
            if need <= 0:
                break
            whole = self.gangs[other].sort.whole
            need -= sum(n * whole for cluster, n in self.shares[other] if cluster in clusters)
            gone.append(other)
        return gone

    def _where(self, at: int) -> Sequence[int]:
        """A few clusters of one network that the gang could go to."""
        chance = self._chance
        _, options = chance.choice(self._groups[at])
        count = min(len(options), chance.randint(1, 4))
        return [each.cluster for each in chance.sample(options, count)]


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
