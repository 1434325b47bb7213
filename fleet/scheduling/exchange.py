"""Who changes places with whom: many gangs over the sums that clusters hold, above all who is in.

Some gangs are taken out of a few clusters, where they are in the way of somebody who was turned
away or is worse off than need be, and put back in another order. What is worse is kept now and
then, ever less as time goes on: first while it is about admission, last about money only, so that
the levels of the objective settle one after the other. The best that came up is the answer. Only
sums are looked at (`totals`); next `barter` settles money, and what nodes hold.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.scheduling.tally import Shares, Tally

# How much worse a round may leave things: a late tier weighs 30, a cluster more 3, and about what a
# gang costs 1.
_HOT: Final = 60.0
_SETTLED: Final = 3.0
"""Below it admission and tiers hardly change."""
_WARM: Final = 3.0
_COLD: Final = 0.008
_GONE: Final = (1, 2, 3, 4, 6, 9, 13)
"""How many are taken out at once,"""
_JUST: Final = 0.2
"""and how often just as many as have to go."""
_BLINK: Final = 0.04
"""How often a cluster is overlooked, so that not all go where they went before."""


class Exchange:
    """Changes the places of the gangs of a tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._chance = tally.chance
        self._steps = self._scale()

    def _scale(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What a step weighs: of each class, then of tier, cluster, unknown, money."""
        gangs = self._tally.gangs
        mean = sum(each.weight for each in gangs) / max(1, len(gangs))
        known = [each.micro * gang.units for gang in gangs for each in gang.options if each.micro]
        money = sum(known) / max(1, len(known))
        classes = tuple(
            300.0 * 10.0**rank / max(1.0, mean) for rank in range(len(self._tally.classes))
        )[::-1]
        return classes, (30.0, 3.0, 3.0, 1.0 / money if money else 0.0)

    def _energy(self, at: int) -> float:
        """What a gang adds to what is made least."""
        classes, steps = self._steps
        if not self._tally.shares[at]:
            gang = self._tally.gangs[at]
            return classes[self._tally.classes.index(gang.priority)] * gang.weight
        return sum(cost * step for cost, step in zip(self._tally.costs[at], steps, strict=True))

    def improve(self, rounds: int) -> int:
        """Leaves the best that came up; says how many rounds that took."""
        best, kept = self._tally.value(), list(self._tally.shares)
        heat, tried = _HOT, 0
        # Admission and tiers settle soon, money does not.
        soon = rounds * 2 // 5
        early = (_WARM / _HOT) ** (1 / max(1, soon))
        late = (_COLD / _WARM) ** (1 / (rounds - soon + 1))
        while tried < rounds:
            tried += 1
            heat *= late if tried > soon else early
            wronged = self._tally.wronged()
            if not wronged:
                break
            before = self._again(wronged, heat)
            changed = [at for at, (shares, _) in before.items() if self._tally.shares[at] != shares]
            if not changed:
                continue
            worse = sum(self._energy(at) - before[at][1] for at in changed)
            if worse > 0 and self._chance.random() >= exp(-worse / heat):
                for at in changed:
                    self._tally.leave(at)
                for at in changed:
                    if before[at][0]:
                        self._tally.put(at, before[at][0])
                continue
            value = self._tally.value()
            if value < best:
                best, kept = value, list(self._tally.shares)
        self._tally.restore(kept)
        return tried

    def _again(self, wronged: Sequence[int], heat: float) -> Mapping[int, tuple[Shares, float]]:
        """Take some out and put them back; what was before, of all that may have changed."""
        chance = self._chance
        first = self._whom(wronged, heat)
        clusters = self._where(first)
        there = sorted({at for cluster in clusters for at in self._tally.inside[cluster]} - {first})
        chance.shuffle(there)
        if chance.random() < _JUST:
            gone = self._tally.in_the_way(first, clusters, there)
        else:
            gone = there[: chance.choice(_GONE)]
        out = [
            at
            for at, shares in enumerate(self._tally.shares)
            if not shares and self._tally.ideal[at] is not None and at != first
        ]
        before = {at: (self._tally.shares[at], self._energy(at)) for at in (first, *gone, *out)}
        for at in (first, *gone):
            self._tally.leave(at)
        order = [*gone, *out]
        chance.shuffle(order)
        gangs, way = self._tally.gangs, chance.random()
        if way < 0.35:
            order.sort(key=lambda at: -gangs[at].weight)
        elif way < 0.6:
            order.sort(key=lambda at: (len(self._tally.groups[at]) == 1, -gangs[at].weight))
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
            self._tally.place(at, blink=_BLINK, away=away if self._tally.level[at] else 0.0)
        return before

    def _whom(self, wronged: Sequence[int], heat: float) -> int:
        """Mostly somebody who was turned away, or whose tier is late, while that may change."""
        chance = self._chance.random()
        if chance < (0.5 if heat > _SETTLED else 0.03):
            out = [at for at in wronged if not self._tally.shares[at]]
            if out:
                return self._chance.choice(out)
        if chance < (0.75 if heat > _SETTLED else 0.1):
            ideal = self._tally.ideal
            late = [
                at
                for at in wronged
                if self._tally.shares[at]
                and (each := ideal[at]) is not None
                and self._tally.costs[at][0] > each[0]
            ]
            if late:
                return self._chance.choice(late)
        return self._chance.choice(wronged)

    def _where(self, at: int) -> Sequence[int]:
        """A few clusters of one network that the gang could go to."""
        chance = self._chance
        _, options = chance.choice(self._tally.groups[at])
        count = min(len(options), chance.randint(1, 4))
        return [each.cluster for each in chance.sample(options, count)]
