"""Many gangs at once: whom to admit and where, so that as much as possible runs as well as it can.

By priority class as much as possible is admitted, then the sums over all gangs are made least:
tiers, clusters, pods of unknown price, money. First each gang is placed in the order of regret:
those who would find the fewest other networks if they were put off, and the largest of these.
Then gangs of one role change places over what clusters hold in sums (`exchange`, then `barter`,
which asks whether nodes hold it), and what comes out is put onto nodes, the largest pods first.
Gangs of several roles, and elastic ones, change places on nodes, one round after the
other: somebody who was turned away or is worse off than it could be is placed first, and some of
those in its way again after it. What is no better is undone. `bound` is what no admission can beat;
`fleet.scheduling.exact` certifies closer ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.scheduling.barter import Barter
from fleet.scheduling.exchange import Exchange
from fleet.scheduling.fit import Cost
from fleet.scheduling.holdings import Holdings, Seating
from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.requests import accelerators
from fleet.scheduling.stowage import Lot, Stowage, Stowed
from fleet.scheduling.tally import Tally
from fleet.scheduling.totals import Gang, Option, Sort, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from random import Random

    from fleet.scheduling.barter import Blocks, Short
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.price import Prices
    from fleet.scheduling.tally import Shares, There

    Polish = Callable[[Tally, Short, Blocks], int]
    """Improves what a tally has, and says how many tries that took."""

_ROUNDS: Final = 400
"""For each gang, of changing places over sums."""
_ON_NODES: Final = 100
"""How many rounds over sums are worth one on nodes."""
_PATIENCE: Final = 100
"""Rounds on nodes without anything better after which nothing better is expected."""
_KICK: Final = 12
"""How many rounds over sums are worth one that settles clusters with each other."""

Value = tuple[int, ...]
"""Worse the larger: minus what is admitted of each class, then tiers, clusters, unknown, money."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A gang of the batch and its place."""

    demand: Demand
    placed: Placed

    @property
    def seating(self) -> Seating:
        assert isinstance(self.placed.plan, Seating)
        return self.placed.plan


@dataclass(frozen=True, slots=True)
class Batch:
    """By position in what was asked. What is not in `admitted` found no room."""

    admitted: Mapping[int, Admitted]
    reached: Mapping[int, int]
    """By priority, what is admitted: accelerators, or pods of gangs without."""
    bound: Mapping[int, int]
    """By priority, what nobody can admit more than, with as much of the classes above."""
    rounds: int

    @property
    def gap(self) -> float:
        """How much more could be admitted at most, as a share, in the first class that is short."""
        for priority in sorted(self.bound, reverse=True):
            if self.reached[priority] < self.bound[priority]:
                return 1 - self.reached[priority] / self.bound[priority]
        return 0.0


def weight(demand: Demand) -> int:
    """What admitting a gang is worth among those of equal priority."""
    return devices(demand) or sum(role.pods for role in demand.roles)


def place_batch(
    demands: Sequence[Demand],
    clusters: Iterable[Cluster],
    *,
    now_s: float,
    chance: Random,
    prices: Prices | None = None,
    rounds: int = _ROUNDS,
    polish: Polish | None = None,
) -> Batch:
    """Who is admitted, and where to. `clusters` have everything deducted that is promised.

    `chance` chooses what is tried again; the same seed gives the same answer, in whatever order the
    gangs and clusters come. `rounds`, for each gang, bound the work. `polish` goes on with what
    came out of that, over sums (`fleet.scheduling.exact.neighbourhood`).
    """
    fleet = tuple(clusters)
    run = _Run(demands, fleet, now_s=now_s, chance=chance, prices=prices)
    run.first()
    tried = run.exchange(rounds * len(demands), polish)
    if run.unsettled():
        tried += run.improve(max(1, rounds * len(demands) // _ON_NODES))
    reached = dict.fromkeys(sorted({each.priority for each in demands}), 0)
    for at in run.placed:
        reached[demands[at].priority] += weight(demands[at])
    return Batch(
        admitted={at: Admitted(demands[at], run.placed[at]) for at in sorted(run.placed)},
        reached=reached,
        bound=_bound(demands, fleet, reached),
        rounds=tried,
    )


def free_in(clusters: Iterable[Cluster]) -> int:
    """Accelerators that nothing asks for yet."""
    return sum(
        max(0, accelerators(block.free(at)))
        for cluster in clusters
        if cluster.capacity is not None
        for block in cluster.capacity.blocks.values()
        for at in range(len(block.states))
    )


def devices(demand: Demand) -> int:
    """Accelerators that all of it takes."""
    return sum(role.pods * accelerators(role.kind.request) for role in demand.roles)


def _bound(
    demands: Sequence[Demand], clusters: Iterable[Cluster], reached: Mapping[int, int]
) -> dict[int, int]:
    free, found = free_in(clusters), dict[int, int]()
    for priority in sorted(reached, reverse=True):
        mine = [each for each in demands if each.priority == priority]
        # Gangs without accelerators take none of them.
        others = sum(weight(each) for each in mine if not devices(each))
        found[priority] = min(sum(map(weight, mine)), free + others)
        free -= min(free, max(0, reached[priority] - others))
    return found


class _Run:
    def __init__(
        self,
        demands: Sequence[Demand],
        clusters: Sequence[Cluster],
        *,
        now_s: float,
        chance: Random,
        prices: Prices | None,
    ) -> None:
        self._demands = demands
        self._chance = chance
        self._holdings = Holdings(clusters, prices=prices, mix=(), clock=lambda: now_s)
        self._classes = sorted({each.priority for each in demands}, reverse=True)
        # Positions in an order of their own, so that the order they come in changes nothing.
        self._order = sorted(
            range(len(demands)),
            key=lambda at: (
                -demands[at].priority, -weight(demands[at]), str(demands[at].workload),
                demands[at].workload.uid,
            ),
        )  # fmt: skip
        self._items = [
            Item(f"{at}", "", each.priority, 0, {}, shape=at, demand=each)
            for at, each in enumerate(demands)
        ]
        self._devices = [devices(each) for each in demands]
        self._free = free_in(clusters)
        self._names = sorted(each.name for each in clusters)
        self._plane = {each.name: each.parameter_plane for each in clusters}
        self.placed: dict[int, Placed] = {}
        self._ideal: dict[int, tuple[Value, tuple[str, ...]]] = {}

    # -- the first time round

    def first(self) -> None:
        for at in self._order:
            found = self._holdings.place(self._items[at])
            if isinstance(found, Placed):
                self._ideal[at] = self._costs(at, found), tuple(found.clusters)
        left = [at for at in self._order if at in self._ideal]
        left.sort(key=lambda at: (-self._demands[at].priority, *self._regret(at)))
        for at in left:
            self._place(at)

    def _regret(self, at: int) -> tuple[int, int]:
        """Fewest other networks first, then the largest."""
        demand = self._demands[at]
        planes = set(self._plane.values())
        asks = any(role.network == "ParameterPlane" for role in demand.roles)
        named = demand.policy.gang.plane
        choices = 1 if named else len(planes) if asks else len(planes) + 1
        return choices if demand.policy.gang.max_clusters == 1 else choices + 1, -weight(demand)

    # -- over sums

    def exchange(self, rounds: int, polish: Polish | None = None) -> int:
        """Those of one role change places."""
        movers = [at for at in self._order if at in self._ideal and self._simple(at)]
        before, value = dict(self.placed), self._value()
        for at in movers:
            if at in self.placed:
                self._leave(at)
        gangs = [self._gang(at) for at in movers]
        sorts = list(dict.fromkeys(each.sort for each in gangs))
        asked = [sum(each.units for each in gangs if each.sort == sort) for sort in sorts]
        rows = []
        for name in self._names:
            capacity = self._holdings.capacity(name)
            rows.append(rows_of(capacity, sorts, asked) if capacity is not None else [])
        tally = Tally(gangs, [sorts.index(each.sort) for each in gangs], rows, chance=self._chance)
        for at, mover in enumerate(movers):
            if mover in before:
                tally.put(at, self._shares(mover, before[mover]))
        tried = 0
        if tally.holds():
            tried += Exchange(tally).improve(rounds // 2)

        stowed = self._stowed_by(tally, sorts, movers)

        def short(cluster: int, there: There) -> Collection[int]:
            left = stowed(cluster, there).left
            return [at for (at, _), units in zip(there, left, strict=True) if units]

        tried += Barter(tally, short).improve(rounds // 2 // _KICK) * _KICK
        if polish is not None and tally.holds():
            tried += polish(tally, short, self._blocks())
        self._seat(tally, movers, stowed)
        for at in self._order:
            if at not in self.placed:
                self._place(at)
        if self._value() > value:
            self._undo(before)
        return tried

    def _blocks(self) -> Blocks:
        capacities = map(self._holdings.capacity, self._names)
        return [
            []
            if capacity is None
            else [
                [max(0, accelerators(block.free(at))) for at in range(len(block.states))]
                for block in capacity.blocks.values()
            ]
            for capacity in capacities
        ]

    def _simple(self, at: int) -> bool:
        roles = self._demands[at].roles
        return len(roles) == 1 and roles[0].least is None

    def _gang(self, at: int) -> Gang:
        demand = self._demands[at]
        (role,) = demand.roles
        units = role.pods // role.unit
        options = []
        for name, candidate in sorted(self._holdings.candidates(demand).items()):
            most = min(units, candidate.curve.units)
            if most:
                cost = Cost.of(candidate.curve.cost(most))
                micro = None if cost.unknown else cost.micro // most
                place = self._names.index(name)
                options.append(Option(place, candidate.tier, candidate.domain, most, micro))
        limit = demand.policy.objective.max_price
        return Gang(
            sort=Sort(role.kind, role.unit),
            units=units,
            span=1 if demand.policy.mode == "One" else demand.policy.gang.max_clusters,
            priority=demand.priority,
            weight=weight(demand),
            options=tuple(options),
            ceiling=None if limit is None else limit.micro,
        )

    def _shares(self, at: int, placed: Placed) -> Shares:
        assert isinstance(placed.plan, Seating)
        unit = self._demands[at].roles[0].unit
        return tuple(
            (self._names.index(piece.cluster), sum(piece.pods) // unit)
            for piece in placed.plan.answer.pieces
        )

    def _stowed_by(
        self, tally: Tally, sorts: Sequence[Sort], movers: Sequence[int]
    ) -> Callable[[int, There], Stowed]:
        """Tells blocks for those in a cluster; of the same ones always the same."""
        stowages: dict[int, Stowage] = {}
        known: dict[tuple[int, There], Stowed] = {}
        slopes: dict[tuple[int, int], Mapping[str, int]] = {}

        def stow(cluster: int, there: There) -> Stowed:
            found = known.get((cluster, there))
            if found is not None:
                return found
            name, lots = self._names[cluster], []
            if cluster not in stowages:
                capacity = self._holdings.capacity(name)
                assert capacity is not None
                stowages[cluster] = Stowage(capacity, sorts)
            for at, units in there:
                if (at, cluster) not in slopes:
                    candidate = self._holdings.candidates(self._demands[movers[at]])[name]
                    slopes[at, cluster] = {
                        step.block: step.slope for step in reversed(candidate.curve.steps)
                    }
                lots.append(Lot(tally.sorts[at], units, slopes[at, cluster]))
            found = known[cluster, there] = stowages[cluster].stow(lots, chance=self._chance)
            return found

        return stow

    def _seat(
        self, tally: Tally, movers: Sequence[int], stowed: Callable[[int, There], Stowed]
    ) -> None:
        """Put all onto nodes, those that find theirs."""
        seats: list[dict[str, dict[str, int]]] = [{} for _ in movers]
        out = set()
        for cluster, name in enumerate(self._names):
            there = tally.there(cluster)
            if there:
                found = stowed(cluster, there)
                for (at, _), blocks, left in zip(there, found.blocks, found.left, strict=True):
                    seats[at][name] = blocks
                    if left:
                        out.add(at)
        sorts = [each.sort for each in tally.gangs]
        # In a block that holds them all, the largest pods first do find their nodes.
        order = sorted(range(len(movers)), key=lambda at: (-sorts[at].size, -sorts[at].whole, at))
        for at in order:
            if tally.shares[at] and at not in out:
                placed = self._holdings.seat(self._items[movers[at]], seats[at])
                if placed is not None:
                    self._take(movers[at], placed)

    def unsettled(self) -> bool:
        """Whether somebody is worse off than it could be, and not only by others of one role."""
        return any(
            at not in self.placed or not self._simple(at) for at in self._wronged()
        ) and not all(map(self._simple, self._ideal))

    # -- on nodes

    def improve(self, rounds: int) -> int:
        best, since, tried = self._value(), 0, 0
        while tried < rounds and since < _PATIENCE:
            tried += 1
            since += 1
            wronged = self._wronged()
            if not wronged:
                break
            before = dict(self.placed)
            out = [at for at in wronged if at not in self.placed]
            most = out if out and self._chance.random() < 0.75 else wronged
            self._again(self._chance.choice(most))
            value = self._value()
            if value < best:
                best, since = value, 0
            elif value > best:
                self._undo(before)
        return tried

    def _wronged(self) -> list[int]:
        """Those who were turned away, or have it worse than if they had been alone."""
        return [
            at
            for at in self._order
            if at in self._ideal
            and (at not in self.placed or self._costs(at, self.placed[at]) > self._ideal[at][0])
        ]

    def _again(self, at: int) -> None:
        """Place it before some or all of those that are where it could be.

        Whoever matters more may have to move for it, but has to find a place again.
        """
        chance = self._chance
        where = self._where(at)
        there = [
            other
            for other in self._order
            if other in self.placed and other != at and where & self.placed[other].clusters.keys()
        ]
        chance.shuffle(there)
        gone = there[: chance.choice((1, 2, 3, 5, 8, 13, len(there)))]
        for other in gone if at not in self.placed else (at, *gone):
            self._leave(other)
        self._place(at)
        if chance.random() < 0.7:
            # The large ones first, small ones find room beside them; or those who may use less.
            few = chance.random() < 0.3
            by_class = chance.random() < 0.5
            gone.sort(
                key=lambda other: (
                    -self._demands[other].priority if by_class else 0,
                    self._demands[other].policy.gang.max_clusters if few else 0,
                    -self._size(other),
                    other,
                )
            )
        for other in gone:
            self._place(other)
        for other in self._order:
            if other not in self.placed and self._devices[other] <= self._free:
                self._place(other)

    def _where(self, at: int) -> set[str]:
        """Some clusters of one network: of its ideal place, or of any."""
        chance = self._chance
        ideal = self._plane[self._ideal[at][1][0]]
        planes = sorted(set(self._plane.values()))
        plane = ideal if chance.random() < 0.5 else chance.choice(planes)
        free = chance.random() < 0.3
        names = sorted(name for name, each in self._plane.items() if free or each == plane)
        return set(chance.sample(names, min(len(names), chance.randint(1, 4))))

    def _size(self, at: int) -> int:
        return weight(self._demands[at])

    # -- one by one

    def _place(self, at: int) -> None:
        if at not in self._ideal or self._devices[at] > self._free:
            return
        found = self._holdings.place(self._items[at])
        if isinstance(found, Placed):
            self._take(at, found)

    def _take(self, at: int, placed: Placed) -> None:
        self._holdings.take(self._items[at].uid, placed)
        self.placed[at] = placed
        self._free -= self._devices[at]

    def _leave(self, at: int) -> None:
        self._free += self._devices[at]
        self._holdings.give(self._items[at].uid)
        del self.placed[at]

    def _undo(self, before: Mapping[int, Placed]) -> None:
        changed = [at for at in self.placed if self.placed[at] is not before.get(at)]
        for at in changed:
            self._leave(at)
        for at, placed in before.items():
            if at not in self.placed:
                self._take(at, placed)

    # -- how good

    def _value(self) -> Value:
        classes = dict.fromkeys(self._classes, 0)
        sums = [0, 0, 0, 0]
        for at, placed in self.placed.items():
            classes[self._demands[at].priority] -= weight(self._demands[at])
            for position, value in enumerate(self._costs(at, placed)):
                sums[position] += value
        return (*classes.values(), *sums)

    @staticmethod
    def _costs(at: int, placed: Placed) -> Value:
        assert isinstance(placed.plan, Seating)
        answer = placed.plan.answer
        unknown = sum(sum(p.pods) for p in answer.pieces if p.per_hour is None)
        micro = sum(p.per_hour or 0 for p in answer.pieces)
        return answer.tier, len(answer.pieces), unknown, micro
