"""Who of two clusters is in which: many gangs, two clusters at a time, above all for less money.

A kick puts one gang somewhere else and turns out who is in its way. Then the clusters that it
touched are settled with every other one: of all gangs that could be in either, those are looked for
that are best in the first, as many as it holds. What is worse in money only is kept now and then,
ever less as time goes on. A choice counts only where the nodes hold what is in each cluster, so
what comes out can be seated as it is. `exchange` went before it, `batch` seats.
"""

from __future__ import annotations

from math import exp, inf
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.division import Piece, Rows, Way, divide

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from fleet.scheduling.tally import Shares, Tally, There

    Short = Callable[[int, There], Collection[int]]
    """Of the gangs in a cluster, those of which not all units find their nodes."""
    Blocks = Sequence[Sequence[Sequence[int]]]
    """By cluster and block, the free accelerators of each node."""

_HOT: Final = 0.006
"""By how much of all money a kick may leave things worse, at first"""
_COLD: Final = 0.0003
"""and at last."""
_BOLD: Final = 0.2
"""How often a kick is gone on with that has left somebody without a place or in a later tier."""
_BLINK: Final = 0.03
_MENDS: Final = 3
_AWAY: Final = 0.4
"""How often a cluster is overlooked: by everybody, and by those who found no nodes in one."""
_GONE: Final = (1, 2, 3, 4, 6)
_SETTLE: Final = 2
"""How often the clusters of a kick, and those that changed with them, are settled."""
_NODES: Final = 1500
"""Steps of a search over two clusters,"""
_TIDY: Final = 80
"""and where there is nothing to gain but room in one piece."""
_MOST: Final = 60
"""Gangs that are divided at once; where there are more, the others stay where they are."""
_SIZE_BITS: Final = 32
_MONEY_BITS: Final = 72
_COUNT_BITS: Final = 32


class _Solo(NamedTuple):
    """A gang that is in one cluster alone: what it takes there, and what that costs."""

    load: int
    """By row, packed."""
    cost: int
    size: int
    """What it takes of the row that most sorts are in."""


class Barter:
    """Improves what a tally has."""

    def __init__(self, tally: Tally, short: Short) -> None:
        self._tally = tally
        self._chance = tally.chance
        self._short = short
        self._ranks = {each: rank for rank, each in enumerate(reversed(tally.classes))}
        self._worth: dict[tuple[int, Shares], int] = {(at, ()): 0 for at in range(len(tally.gangs))}
        self._width = max((each.units for each in tally.gangs), default=0).bit_length() + 16
        self._over = sum(
            1 << ((at + 1) * self._width - 1) for at in range(max(tally.sorts, default=-1) + 1)
        )
        """The highest bit of each field."""
        self._bad: list[list[int]] = [[] for _ in tally.rows]
        """By cluster, units by sort that did not find their nodes."""
        self._rows = [
            Rows([row.limit for row in there], [row.takes for row in there]) for there in tally.rows
        ]
        self._solo: list[dict[int, _Solo]] = [{} for _ in tally.rows]
        for at, gang in enumerate(tally.gangs):
            for cluster, option in tally.options[at].items():
                alone = ((cluster, gang.units),)
                load = self._rows[cluster].load(tally.sorts[at], gang.units)
                if option.most >= gang.units and load is not None and tally.allowed(at, alone):
                    size = self._rows[cluster].size(load)
                    self._solo[cluster][at] = _Solo(load, self._cost(at, alone), size)

        self._dear = [self._price(cluster) for cluster in range(len(tally.rows))]

    def _price(self, cluster: int) -> float:
        """About what things cost in a cluster; more than anything where that is not known."""
        found = [
            inf if unknown else micro / max(1, solo.size)
            for at, solo in self._solo[cluster].items()
            for _, _, unknown, micro in [
                self._tally.cost(at, ((cluster, self._tally.gangs[at].units),))
            ]
        ]
        return min(found, default=0.0)

    # -- how good, as one number

    def _cost(self, at: int, shares: Shares) -> int:
        """What a gang adds to what is made least, the most important level in the highest bits."""
        found = self._worth.get((at, shares))
        if found is None:
            gang = self._tally.gangs[at]
            tier, clusters, unknown, micro = self._tally.cost(at, shares)
            found = (tier << _COUNT_BITS) + clusters
            found = (((found << _COUNT_BITS) + unknown) << _MONEY_BITS) + micro
            rank = self._ranks[gang.priority]
            found -= gang.weight << (_MONEY_BITS + _COUNT_BITS * (3 + rank))
            self._worth[at, shares] = found
        return found

    def _value(self) -> int:
        return sum(map(self._cost, range(len(self._tally.shares)), self._tally.shares))

    # -- better

    def improve(self, kicks: int) -> int:
        """Leaves the best that came up and nodes hold; says how many kicks that took.

        Gangs that find no nodes where they are lose their place first.
        """
        tally = self._tally
        for cluster in range(len(tally.rows)):
            while short := self._unseated(cluster):
                for at in short:
                    tally.leave(at)
        if not tally.holds():
            return 0
        self._try(range(len(tally.rows)), list(tally.shares), self._value(), _COLD)
        best = now = self._value()
        kept = list(tally.shares)
        heat = _HOT
        for tried in range(kicks):
            wronged = tally.wronged()
            if not wronged:
                return tried
            heat *= (_COLD / _HOT) ** (1 / kicks)
            before = list(tally.shares)
            self._kick(wronged)
            worse = self._value() >> _MONEY_BITS > now >> _MONEY_BITS
            if worse and self._chance.random() >= _BOLD:
                self._back(before)
                continue
            touched = {
                cluster
                for old, new in zip(before, tally.shares, strict=True)
                if old != new
                for cluster, _ in (*old, *new)
            }
            if self._try(touched, before, now, heat):
                now = self._value()
                if now < best:
                    best, kept = now, list(tally.shares)
        tally.restore(kept)
        return kicks

    def _try(
        self, clusters: Iterable[int], before: Sequence[Shares], now: int, heat: float
    ) -> bool:
        """Settle clusters; whether that is kept: where it is good enough and nodes hold it.

        Who finds no nodes is put somewhere else, a few times.
        """
        tally = self._tally
        for _ in range(_MENDS):
            self._settle(set(clusters))
            value = self._value()
            good = value <= now
            if not good and value >> _MONEY_BITS == now >> _MONEY_BITS:
                money = now & ((1 << _MONEY_BITS) - 1)
                good = self._chance.random() < exp((now - value) / max(1, money) / heat)
            if not good:
                break
            clusters = self._changed(before)
            short = sorted({at for cluster in clusters for at in self._unseated(cluster)})
            if not short:
                return True
            for at in short:
                tally.leave(at)
            for at in short:
                tally.place(at, blink=_AWAY)
        self._back(before)
        return False

    def _changed(self, before: Sequence[Shares]) -> list[int]:
        """Clusters in which somebody is who was not so before."""
        return sorted(
            {
                cluster
                for old, new in zip(before, self._tally.shares, strict=True)
                if old != new
                for cluster, _ in new
            }
        )

    def _back(self, before: Sequence[Shares]) -> None:
        tally = self._tally
        changed = [at for at, shares in enumerate(before) if tally.shares[at] != shares]
        for at in changed:
            tally.leave(at)
        for at in changed:
            tally.put(at, before[at])

    def _unseated(self, cluster: int) -> Collection[int]:
        found = self._short(cluster, self._tally.there(cluster))
        if found:
            count = self._count(cluster)
            if not self._known_bad(cluster, count):
                self._bad[cluster].append(count)
        return found

    def _count(self, cluster: int) -> int:
        """Units by sort, packed."""
        tally = self._tally
        there = tally.there(cluster)
        return sum(units << (tally.sorts[at] * self._width) for at, units in there)

    def _known_bad(self, cluster: int, count: int) -> bool:
        """Whether as many or fewer were seen not to find their nodes."""
        count |= self._over
        return any((count - bad) & self._over == self._over for bad in self._bad[cluster])

    # -- somebody else somewhere else

    def _kick(self, wronged: Sequence[int]) -> None:
        tally, chance = self._tally, self._chance
        out = [at for at in wronged if not tally.shares[at]]
        everybody = [at for at, ideal in enumerate(tally.ideal) if ideal is not None]
        way = chance.random()
        if out and way < 0.3:
            first = chance.choice(out)
        elif way < 0.7:
            # The large ones decide about most.
            first = chance.choices(everybody, [tally.gangs[at].weight for at in everybody])[0]
        else:
            first = chance.choice(everybody)
        _, options = chance.choice(tally.groups[first])
        most = min(len(options), 3, tally.gangs[first].span + 1)
        chosen = chance.sample(options, chance.randint(1, most))
        clusters = [each.cluster for each in chosen]
        there = sorted({at for cluster in clusters for at in tally.inside[cluster]} - {first})
        chance.shuffle(there)
        tally.leave(first)
        if chance.random() < 0.7:
            gone = tally.in_the_way(first, clusters, there)
        else:
            gone = there[: chance.choice(_GONE)]
        for at in gone:
            tally.leave(at)
        order = [*gone, *(at for at in out if at != first)]
        chance.shuffle(order)
        if chance.random() < 0.6:
            order.sort(key=lambda at: -tally.gangs[at].weight)
        if not tally.place_among(first, chosen):
            order.insert(0, first)
        for at in order:
            tally.place(at, blink=_BLINK)

    # -- two clusters

    def _settle(self, clusters: set[int]) -> None:
        every = range(len(self._tally.rows))
        value = self._value()
        for _ in range(_SETTLE):
            # Nothing is gained by filling a dear cluster from a cheap one.
            pairs = [
                (here, there)
                for here in every
                for there in every
                if here != there
                and (here in clusters or there in clusters)
                and self._dear[here] <= self._dear[there]
            ]
            self._chance.shuffle(pairs)
            clusters = set()
            for pair in pairs:
                if self._divide(*pair):
                    clusters.update(pair)
            before, value = value, self._value()
            if value >= before:
                return

    def _divide(self, here: int, there: int) -> bool:
        """Put the best into the first of two clusters; whether anything changed for it."""
        tally = self._tally
        pieces, divided, now = self._pieces(here, there)
        if not pieces and divided is None:
            return False
        left = self._rows[here].left(tally.left[here]), self._rows[there].left(tally.left[there])
        free_here = left[0] + sum(each.here for each in pieces if each.is_here)
        free_there = left[1] + sum(each.there for each in pieces if not each.is_here)
        ways = [Way(0, 0, 0, 0, 0, ())]
        if divided is not None:
            ways = self._ways(divided, here, there)
            (mine,) = (each for each in ways if each.shares == tally.shares[divided])
            now += mine.cost
            free_here += mine.here
            free_there += mine.there
        fixed_here = self._count(here) - sum(each.units for each in pieces if each.is_here)
        fixed_there = self._count(there) - sum(each.units for each in pieces if not each.is_here)
        if divided is not None:
            fixed_here -= mine.units_here
            fixed_there -= mine.units_there

        def bad(choice: Sequence[bool], way: Way) -> bool:
            one, other = fixed_here + way.units_here, fixed_there + way.units_there
            for each, goes in zip(pieces, choice, strict=True):
                if goes:
                    one += each.units
                else:
                    other += each.units
            return self._known_bad(here, one) or self._known_bad(there, other)

        gain = divided is not None or any(
            each.cost_here + each.size != each.cost_there for each in pieces
        )
        pieces.sort(reverse=True)
        if self._chance.random() < 0.5:
            pieces.sort(key=lambda each: -each.size * (0.4 + 1.2 * self._chance.random()))
        found = divide(
            pieces, ways, free_here, free_there, self._rows[here], self._rows[there],
            bad=bad, below=now, nodes=_NODES if gain else _TIDY,
        )  # fmt: skip
        if found is None:
            return False
        moves: list[tuple[int, Shares]] = [
            (each.at, ((here if goes else there, tally.gangs[each.at].units),))
            for each, goes in zip(pieces, found[0], strict=True)
            if goes != each.is_here
        ]
        if divided is not None and found[1].shares != tally.shares[divided]:
            moves.append((divided, found[1].shares))
        for at, _ in moves:
            tally.leave(at)
        for at, shares in moves:
            tally.put(at, shares)
        return True

    def _pieces(self, here: int, there: int) -> tuple[list[Piece], int | None, int]:
        """Who may be in either, one gang that is in both, and what the first cost now.

        What it costs here is less by its size, so that of equals as much as possible is here.
        """
        shares = self._tally.shares
        mine, theirs = self._solo[here], self._solo[there]
        loose, divided, now = [], None, 0
        for cluster in (here, there):
            for at in sorted(self._tally.inside[cluster]):
                if len(shares[at]) == 1:
                    if at in mine and at in theirs:
                        loose.append((at, cluster == here))
                elif {each for each, _ in shares[at]} == {here, there}:
                    divided = at
        if len(loose) > _MOST:
            loose = self._chance.sample(loose, _MOST)
        found = []
        for at, is_here in loose:
            one, other = mine[at], theirs[at]
            cost_here, cost_there = (one.cost << _SIZE_BITS) - one.size, other.cost << _SIZE_BITS
            now += cost_here if is_here else cost_there
            units = self._tally.gangs[at].units << (self._tally.sorts[at] * self._width)
            found.append(
                Piece(one.size, at, one.load, other.load, cost_here, cost_there, is_here, units)
            )
        return found, divided, now

    def _ways(self, at: int, here: int, there: int) -> list[Way]:
        """The cheapest first."""
        tally = self._tally
        units, sort, options = tally.gangs[at].units, tally.sorts[at], tally.options[at]
        found = []
        for mine in range(max(0, units - options[there].most), min(options[here].most, units) + 1):
            both = (here, mine), (there, units - mine)
            shares = tuple(each for each in both if each[1])
            if tally.shares[at] == shares[::-1]:
                shares = tally.shares[at]
            one = self._rows[here].load(sort, mine)
            other = self._rows[there].load(sort, units - mine)
            if one is not None and other is not None and tally.allowed(at, shares):
                cost = (self._cost(at, shares) << _SIZE_BITS) - self._rows[here].size(one)
                shift = sort * self._width
                found.append(Way(cost, one, other, mine << shift, (units - mine) << shift, shares))
        found.sort()
        return found
