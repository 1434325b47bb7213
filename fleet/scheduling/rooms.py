"""The engine's Placer over the fleet as it is: capacities, promises, and `placement` to search.

The books of the members say what is free and which nodes the pods of a running gang are on, the
ledger what is promised and not seen yet. A picture is made at the beginning of a round; what is
decided in the round is taken off it at once, on the very nodes it was found for. From one round to
the next only clusters that have changed are counted and judged anew (`views`). Only what preemptors
wait for outlives a round: nobody else may be placed there. Not for two tasks at once. Next step:
`fleet.gateway.placing` writes the plans down.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.capacity import PodKind, ShardKey, Taken
from fleet.scheduling.cost.ceilings import NO_CEILINGS
from fleet.scheduling.counted import times, total
from fleet.scheduling.ledger import Ledger, taken_off
from fleet.scheduling.lending.occupancy import Occupancy, User
from fleet.scheduling.placement import Plan, Refusal
from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.stranding import POWERS
from fleet.scheduling.views import AS_IT_IS, Views

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.cost.ceilings import Ceilings
    from fleet.scheduling.ledger import Outstanding, Promises, Reservation
    from fleet.scheduling.placement import Shard
    from fleet.scheduling.placer import Item
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.price import Prices
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.requests import Vector
    from fleet.scheduling.standing import Wish


@dataclass(frozen=True, slots=True)
class Picture:
    """The fleet at the beginning of a round. Nothing promised is deducted from `clusters`."""

    clusters: tuple[Cluster, ...]
    promises: Ledger | Promises
    prices: Prices
    now: datetime
    now_s: float
    """Of the clock that capacities are dated with."""
    taken_by: Callable[[str], Mapping[str, Mapping[Vector, Mapping[str, int]]]] = field(
        default=lambda uid: {}
    )
    """What the pods of a workload take: by cluster, by kind of pod, how many on which node."""
    ceilings: Ceilings = NO_CEILINGS
    occupancy: Occupancy = field(default_factory=Occupancy)
    """Who uses which nodes, where some work shares none with others."""


Seats = dict[str, tuple[Taken, ...]]
"""By cluster, the nodes that a plan takes."""

_NO_PROMISES: Final = Ledger()
_TRIALS: Final = 64
_KINDS: Final = 4096


class _Base(NamedTuple):
    """A cluster without what this round takes."""

    given: Cluster
    promises: Ledger
    """Of this cluster."""
    outstanding: Outstanding
    left: Capacity | None

    def has_seen(self, capacity: Capacity) -> bool:
        """Whether it was made of that very picture, whatever the time of it."""
        mine = self.given.capacity
        return mine is not None and mine.seen is capacity.seen

    def shows(self, other: _Base) -> bool:
        """Whether both are of one picture of the member."""
        mine, theirs = self.given.capacity, other.given.capacity
        if mine is None or theirs is None:
            return mine is theirs
        return mine.blocks is theirs.blocks and mine.seen is theirs.seen


class Rooms:
    """See `fleet.scheduling.placer.Placer`."""

    def __init__(self) -> None:
        self.views = Views(mix=POWERS)
        """The fleet with everything deducted that is promised or taken."""
        self._picture: Picture | None = None
        self._asked: Mapping[str, tuple[Asked, Wish]] = {}
        self._bases: dict[str, _Base] = {}
        self._taken: dict[str, tuple[Plan, Seats]] = {}
        self._found: OrderedDict[int, tuple[Plan, dict[str, Capacity]]] = OrderedDict()
        """The last ones that were found with others gone, and what they were found in."""
        self._promised: dict[str, set[str]] | None = None
        """By uid, in which clusters something is promised to it."""
        self._held: dict[str, Mapping[str, Mapping[Vector, Mapping[str, int]]]] = {}
        """By uid, what has been asked of `Picture.taken_by` in this round."""
        self._empty: dict[frozenset[str], dict[str, Capacity]] = {}
        """Clusters without some, as far as this round had use for them."""
        self._shuts: dict[tuple[str, frozenset[str]], tuple[Capacity, Capacity]] = {}
        """Clusters with some nodes shut, and what they were made of."""
        self._alike: dict[object, Refusal] = {}
        """By what is alike, why there is no room for it now."""
        self._said: dict[object, Refusal] = {}
        """The same, as it was said last."""
        self._kinds: dict[object, int] = {}
        """Numbers for what is alike, and those of workloads as they were asked about."""
        self._kind_of: dict[str, tuple[Asked, int | None]] = {}
        self._pictures = 0
        self.refusals: dict[str, Refusal] = {}
        """What was said last to those that found no room, by uid."""

    @property
    def changes(self) -> int:
        """How often anything that decisions depend on was changed, which pods are whose included.
        What is asked for, prices and time are not."""
        return self.views.changes + self._pictures

    def begin(self, picture: Picture, asked: Mapping[str, tuple[Asked, Wish]]) -> None:
        """A round over `picture`, which stays as it is, for the workloads in `asked`, by uid.

        What was taken for a workload that does not wait any more is for the promises to say.
        """
        self._picture = replace(picture, occupancy=picture.occupancy.copy())
        self._asked = asked
        self._promised, self._held, self._empty, self._alike = None, {}, {}, {}
        self._found.clear()
        if self.refusals.keys() - asked.keys():
            self.refusals = {uid: each for uid, each in self.refusals.items() if uid in asked}
            self._kind_of = {uid: each for uid, each in self._kind_of.items() if uid in asked}
        kept = {uid: plan for uid, (plan, _) in self._taken.items() if uid in asked}
        self.views.at(picture.now_s, picture.prices)
        promises = picture.promises.by_cluster()
        bases = {
            cluster.name: self._based(cluster, promises.get(cluster.name, _NO_PROMISES))
            for cluster in picture.clusters
        }
        for name in self._bases.keys() - bases.keys():
            self.views.remove(name)
        for name, base in bases.items():
            self._pictures += name not in self._bases or not base.shows(self._bases[name])
        self._bases = bases
        left = {name: base.left for name, base in bases.items() if base.left is not None}
        self._taken = {}
        for uid, plan in kept.items():
            self._taken[uid] = plan, self._kept(uid, plan, left)
        for name, base in bases.items():
            self.views.put(replace(base.given, capacity=left.get(name)))
        now = self.views.capacities
        self._shuts = {key: made for key, made in self._shuts.items() if made[0] is now.get(key[0])}

    def _kept(self, uid: str, plan: Plan, left: dict[str, Capacity]) -> Seats:
        """What a plan of an earlier round takes of `left`. In a class that is on nodes which it may
        use, where those are enough; else also on those that others are to leave."""
        occupancy = self._now.occupancy
        if not occupancy:
            return _seated(plan, left)
        work = occupancy.work_of(uid)
        names = {each.cluster for each in plan.shards} & left.keys()
        shut = {name: occupancy.shut(name, work) for name in names}
        apart = {name: left[name].shut(nodes) for name, nodes in shut.items()}
        seats = _seated(plan, apart)
        anew = [each for each in plan.shards if each.generation == plan.generation]
        wanted = sum(each.pods for each in anew if each.cluster in names)
        if sum(each.pods for taken in seats.values() for each in taken) < wanted:
            seats = _seated(plan, left)
        else:
            for name, taken in seats.items():
                for each in taken:
                    left[name] = left[name].retake(each)
        for name, taken in seats.items():
            nodes = {node for each in taken for node in left[name].names(each)}
            occupancy.add(name, nodes - shut[name], User(uid, work))
        return seats

    def _based(self, cluster: Cluster, promises: Ledger) -> _Base:
        capacity = cluster.capacity
        if capacity is None:
            return _Base(cluster, promises, (), None)
        before = self._bases.get(cluster.name)
        if before is not None and before.promises is promises and before.has_seen(capacity):
            outstanding = before.outstanding
        else:
            outstanding = promises.outstanding(cluster.name, capacity)
        if outstanding and self._now.occupancy:
            left = self._taken_apart(cluster.name, capacity, promises)
            return _Base(cluster, promises, outstanding, left)
        if (
            before is not None
            and before.left is not None
            and before.given.capacity is not None
            and before.outstanding == outstanding
            and before.given.capacity.alike(capacity)
        ):
            left = before.left.at(capacity.as_of_s)
        else:
            left = taken_off(capacity, outstanding)
        return _Base(cluster, promises, outstanding, left)

    def _taken_apart(self, cluster: str, capacity: Capacity, promises: Ledger) -> Capacity:
        """What is left of a cluster in which classes share no node: promises of a class are taken
        off nodes that it may use, which the others may not use then."""
        occupancy = self._now.occupancy
        by_work: dict[str, dict[ShardKey, tuple[Reservation, ...]]] = {}
        for key, entry in promises.entries.items():
            by_work.setdefault(occupancy.work_of(key.uid), {})[key] = entry
        left = capacity
        for work, entries in sorted(by_work.items()):
            for kind, pods, blocks in Ledger(entries).outstanding(cluster, capacity):
                nodes = occupancy.shut(cluster, work)
                _, taken = left.shut(nodes).take(kind, pods, blocks=dict(blocks))
                left = left.retake(taken)
                for uid in {key.uid for key in entries}:
                    occupancy.add(cluster, left.names(taken), User(uid, work))
        return left

    @contextmanager
    def as_if(self, uid: str, asked: Asked) -> Iterator[None]:
        """One that waits, asked for otherwise; then it was never so."""
        before, refusal = self._asked, self.refusals.get(uid)
        self._asked = {**before, uid: (asked, before[uid][1])}
        try:
            yield
        finally:
            self._asked = before
            self.refusals.pop(uid, None)
            if refusal is not None:
                self.refusals[uid] = refusal

    # -- the Placer

    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        asked, wish = self._asked[item.uid]
        if item.least is not None:
            asked = asked.at_most(item.requests, wish)
        kind = self._kind(item.uid, asked) if not without and item.least is None else None
        alike = None if kind is None else (kind, self._now.occupancy.work_of(item.uid))
        decision: Plan | Refusal
        if alike is not None and alike in self._alike:
            decision = self._alike[alike]
        else:
            decision = self.choose(asked, without=without, quick=quick)
            if isinstance(decision, Refusal) and alike is not None and not quick:
                decision = self._as_said(alike, decision)
        if isinstance(decision, Refusal):
            if not quick and all(uid in self._asked for uid in without):
                self._refuse(item.uid, asked, decision)
            # Room that becomes free is no help against a budget: none is kept for it.
            ever = not (decision.impossible or decision.reason)
            return Unplaced(decision.message, ever=ever)
        clusters = {shard.cluster: amounts_of(shard, wish) for shard in decision.shards}
        if item.least is None:
            return Placed(decision, clusters, rank=_rank(decision))
        amounts = total(clusters.values())
        less = any(amounts.get(key, value) < value for key, value in item.requests.items())
        return Placed(decision, clusters, amounts if less else None, _rank(decision))

    def _kind(self, uid: str, asked: Asked) -> int | None:
        """Equal for what finds room together or not at all; None for what is by itself."""
        known = self._kind_of.get(uid)
        if known is None or known[0] is not asked:
            likeness = asked.likeness
            if len(self._kinds) > _KINDS:
                for each in (self._kinds, self._kind_of, self._alike, self._said):
                    each.clear()
            number = (
                None if likeness is None else self._kinds.setdefault(likeness, len(self._kinds))
            )
            known = self._kind_of[uid] = asked, number
        return known[1]

    def _as_said(self, alike: object, refusal: Refusal) -> Refusal:
        """What is said of all that are alike: where it was said before, the very same."""
        if refusal.reason:
            return refusal
        said = self._said.get(alike)
        if said is not None and replace(refusal, demand=said.demand) == said:
            refusal = said
        self._alike[alike] = self._said[alike] = refusal
        return refusal

    def _refuse(self, uid: str, asked: Asked, refusal: Refusal) -> None:
        """What is said again is the very same."""
        before = self.refusals.get(uid)
        if refusal.demand is not asked.demand:
            if (
                before is not None
                and before.verdicts is refusal.verdicts
                and before.message is refusal.message
                and before.demand is asked.demand
            ):
                return
            refusal = replace(refusal, demand=asked.demand)
        self.refusals[uid] = refusal

    def take(self, uid: str, placed: Placed) -> None:
        """Of what runs, the books and promises tell already: it comes without a plan."""
        if isinstance(placed.plan, Plan):
            self.reserve(uid, placed.plan)

    def give(self, uid: str) -> None:
        plan, seats = self._taken.pop(uid, (None, {}))
        if plan is None:
            return
        self._alike.clear()
        self._now.occupancy.remove(uid)
        for name, taken in seats.items():
            self.views.change(name, _given(self.views.capacities[name], taken))

    # -- beside it

    def pods_of(self, uid: str) -> dict[PodKind, int]:
        """What one asks for that waits; nothing of one that does not."""
        known = self._asked.get(uid)
        return {role.kind: role.pods for role in known[0].demand.roles} if known else {}

    @property
    def now_s(self) -> float:
        """Of the clock that capacities are dated with."""
        return self._now.now_s

    def clusters(
        self, *, without: Collection[str] = (), beside: Placed | None = None, work: str = ""
    ) -> Mapping[str, Cluster]:
        """By name, as they are with what was decided in this round, `without` what runs of some
        and with one more place taken. For a class of `work`, nodes that others use are shut."""
        found = {name: self.views.cluster(name) for name in self.views.names}
        if without:
            found |= self._freed(without)
        seated: dict[str, set[str]] = {}
        if beside is not None and isinstance(beside.plan, Plan):
            uid = beside.plan.demand.workload.uid
            now = {name: each.capacity for name, each in found.items() if each.capacity}
            for name, taken in self._seat(beside.plan, now).items():
                found[name] = replace(found[name], capacity=now[name])
                if self._now.occupancy.work_of(uid) != work:
                    seated[name] = {node for each in taken for node in now[name].names(each)}
        if work:
            found |= self._shut(work, found, gone=without, to_fleet=False, besides=seated)
        return found

    def _shut(
        self,
        work: str,
        known: Mapping[str, Cluster],
        *,
        gone: Collection[str],
        to_fleet: bool = True,
        besides: Mapping[str, Collection[str]] | None = None,
    ) -> dict[str, Cluster]:
        """The clusters in which others use nodes, as they are to a class. `known` are some as they
        are to everybody."""
        found = {}
        for name in self.views.names:
            nodes = self._now.occupancy.shut(name, work, gone=gone, to_fleet=to_fleet)
            nodes |= frozenset((besides or {}).get(name, ()))
            cluster = known.get(name) or self.views.cluster(name)
            if nodes and cluster.capacity is not None:
                made = self._shuts.get((name, nodes))
                if made is None or made[0] is not cluster.capacity:
                    made = cluster.capacity, cluster.capacity.shut(nodes)
                    self._shuts[name, nodes] = made
                found[name] = replace(cluster, capacity=made[1])
        return found

    def choose(
        self, asked: Asked, *, without: Collection[str] = (), quick: bool = False
    ) -> Plan | Refusal:
        """Where it goes, `without` what runs of others."""
        freed = self._freed(without) if without else AS_IT_IS
        uid = asked.demand.workload.uid
        if work := self._now.occupancy.work_of(uid):
            freed = {**freed, **self._shut(work, freed, gone=without)}
        ceilings = self._ceilings(uid)
        decision = asked.choose(self.views, ceilings, now=self._now.now, but=freed, quick=quick)
        if (without or work) and isinstance(decision, Plan):
            known = {name: each.capacity for name, each in freed.items() if each.capacity}
            self._found[id(decision)] = decision, {**self.views.capacities, **known}
            if len(self._found) > _TRIALS:
                self._found.popitem(last=False)
        return decision

    def _ceilings(self, uid: str) -> Ceilings:
        """With what was accepted in this round for others."""
        found = self._now.ceilings
        if found is NO_CEILINGS:
            return found
        for other, (plan, _) in self._taken.items():
            if other != uid and other in self._asked:
                asked, _ = self._asked[other]
                found = found.after(plan, policy=asked.policy_name, now=self._now.now)
        return found

    def reserve(self, uid: str, plan: Plan) -> None:
        """Take the nodes that were found, even if those who are to leave are still on them."""
        self.give(uid)
        names = {shard.cluster for shard in plan.shards} & self.views.capacities.keys()
        now = {name: self.views.capacities[name] for name in names}
        seats = self._seat(plan, now)
        for name in seats:
            self.views.change(name, now[name])
        self._taken[uid] = plan, seats
        occupancy = self._now.occupancy
        if occupancy:
            user = User(uid, occupancy.work_of(uid))
            for name, taken in seats.items():
                occupancy.add(
                    name, (node for each in taken for node in now[name].names(each)), user
                )

    def _seat(self, plan: Plan, now: dict[str, Capacity]) -> Seats:
        """The nodes that were found for a plan, which are taken of `now`."""
        found = self._found.get(id(plan))
        if found is None:
            return _seated(plan, now)
        seats = _seated(plan, {name: found[1][name] for name in now if name in found[1]})
        for name, taken in seats.items():
            for each in taken:
                now[name] = now[name].retake(each)
        return seats

    @property
    def _now(self) -> Picture:
        assert self._picture is not None, "begin comes first"
        return self._picture

    def _freed(self, without: Collection[str]) -> dict[str, Cluster]:
        """The clusters that some of those are in, as they would be without."""
        gone = frozenset(without)
        seen = frozenset(uid for uid in gone if self._held_by(uid))
        emptied = self._empty.get(seen)
        if emptied is None:
            emptied = self._empty[seen] = self._emptied(seen)
        left = dict(emptied)
        again = frozenset(left)
        for uid, (_, seats) in self._taken.items():
            if uid not in gone:
                for name in seats.keys() & again:
                    left[name] = _taken_again(left[name], seats[name])
            else:
                for name in seats.keys() - again:
                    capacity = left.get(name, self.views.capacities[name])
                    left[name] = _given(capacity, seats[name])
        return {
            name: replace(self.views.cluster(name), capacity=capacity)
            for name, capacity in left.items()
        }

    def _held_by(self, uid: str) -> Mapping[str, Mapping[Vector, Mapping[str, int]]]:
        """What the pods of a workload take, by cluster; of those where something is only promised
        to it, nothing."""
        known = self._held.get(uid)
        if known is None:
            if self._promised is None:
                self._promised = {}
                for name, base in self._bases.items():
                    for key in base.promises.entries:
                        self._promised.setdefault(key.uid, set()).add(name)
            known = {name: {} for name in self._promised.get(uid, ())}
            known = self._held[uid] = {**known, **self._now.taken_by(uid)}
        return known

    def _emptied(self, gone: Collection[str]) -> dict[str, Capacity]:
        """The clusters that pods of those who are gone were in, or were promised to, without what
        was taken in this round: the pods have left the nodes that they are on."""
        there: dict[str, dict[Vector, Counter[str]]] = {}
        for uid in sorted(gone):
            for name, taken in self._held_by(uid).items():
                pods = there.setdefault(name, {})
                for request, nodes in taken.items():
                    pods.setdefault(request, Counter()).update(nodes)
        left: dict[str, Capacity] = {}
        for name, pods in there.items():
            base = self._bases.get(name)
            if base is None or base.given.capacity is None:
                continue
            capacity = base.given.capacity
            for request, on in sorted(pods.items(), key=lambda each: each[0]):
                capacity = capacity.give(capacity.on_nodes(PodKind(request), on))
            entries = base.promises.entries.items()
            kept = Ledger({key: entry for key, entry in entries if key.uid not in gone})
            left[name] = kept.deduct(name, capacity)
        return left


def amounts_of(shard: Shard, wish: Wish) -> dict[Key, int]:
    return total(times(wish.counts.get(each.role, {}), each.count) for each in shard.intervals)


def _rank(plan: Plan) -> tuple[int, ...]:
    """By the levels of the objective; elastic work is the better placed the more of it is."""
    tier = max((shard.tier for shard in plan.shards), default=0)
    cost = plan.cost.packed if plan.cost is not None else 0
    return -sum(shard.pods for shard in plan.shards), tier, len(plan.shards), cost


def _seated(plan: Plan, left: dict[str, Capacity]) -> Seats:
    """What a plan takes of `left`, which is less then. What finds no room takes nothing."""
    kinds = {role.name: role.kind for role in plan.demand.roles}
    seats = Seats()
    for shard in plan.shards:
        name = shard.cluster
        if shard.generation != plan.generation or name not in left:
            continue
        blocks = shard.by_role or ((shard.intervals[0].role, shard.blocks),)
        wanted = [(kinds[role], dict(there)) for role, there in blocks if there]
        left[name], seats[name] = left[name].take_together(wanted)
    return seats


def _taken_again(capacity: Capacity, seats: Iterable[Taken]) -> Capacity:
    """On the very nodes: what is found beside it has to be free in both pictures."""
    for taken in seats:
        capacity = capacity.retake(taken)
    return capacity


def _given(capacity: Capacity, seats: Iterable[Taken]) -> Capacity:
    for taken in seats:
        capacity = capacity.give(taken)
    return capacity
