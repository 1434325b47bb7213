"""The engine's Placer over the fleet as it is: capacities, promises, and `placement` to search.

The books of the members say what is free and which nodes the pods of a running gang are on, the
ledger what is promised and not seen yet. A picture is made at the beginning of a round; what is
decided in the round is deducted from it at once. Only what preemptors wait for outlives a round:
nobody else may be placed there. Not for two tasks at once. Next step: `fleet.gateway.placing`
writes the plans down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.cost.ceilings import NO_CEILINGS
from fleet.scheduling.counted import times, total
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placement import Plan, Refusal
from fleet.scheduling.placer import Placed, Unplaced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.cost.ceilings import Ceilings
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
    promises: Ledger
    prices: Prices
    now: datetime
    now_s: float
    """Of the clock that capacities are dated with."""
    taken_by: Callable[[str], Mapping[str, Mapping[Vector, Mapping[str, int]]]] = field(
        default=lambda uid: {}
    )
    """What the pods of a workload take: by cluster, by kind of pod, how many on which node."""
    ceilings: Ceilings = NO_CEILINGS


class Rooms:
    """See `fleet.scheduling.placer.Placer`."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._asked: Mapping[str, tuple[Asked, Wish]] = {}
        self._taken: dict[str, Plan] = {}
        self._view: dict[str, Cluster] = {}
        self._undo: tuple[str, dict[str, Cluster]] | None = None
        self._alike: dict[object, Refusal] = {}
        self.refusals: dict[str, Refusal] = {}
        """What was said last to those that found no room, by uid."""

    def begin(self, picture: Picture, asked: Mapping[str, tuple[Asked, Wish]]) -> None:
        """A round over `picture`, for the workloads in `asked`, by uid.

        What was taken for a workload that does not wait any more is for the promises to say.
        """
        self._picture = picture
        self._asked = asked
        self._taken = {uid: plan for uid, plan in self._taken.items() if uid in asked}
        self.refusals = {uid: each for uid, each in self.refusals.items() if uid in asked}
        self._refresh()

    # -- the Placer

    def place(self, item: Item, *, without: Collection[str] = ()) -> Placed | Unplaced:
        asked, wish = self._asked[item.uid]
        alike = asked.likeness if not without else None
        decision: Plan | Refusal
        if alike is not None and alike in self._alike:
            decision = replace(self._alike[alike], demand=asked.demand)
        else:
            decision = self.choose(asked, without=without)
        if isinstance(decision, Refusal):
            if all(uid in self._asked for uid in without):
                self.refusals[item.uid] = decision
            if alike is not None and not decision.reason:
                self._alike[alike] = decision
            # Room that becomes free is no help against a budget: none is kept for it.
            ever = not (decision.impossible or decision.reason)
            return Unplaced(decision.message, ever=ever)
        return Placed(
            decision, {shard.cluster: amounts_of(shard, wish) for shard in decision.shards}
        )

    def take(self, uid: str, placed: Placed) -> None:
        """Of what runs, the books and promises tell already: it comes without a plan."""
        if isinstance(placed.plan, Plan):
            self.reserve(uid, placed.plan)

    def give(self, uid: str) -> None:
        plan = self._taken.pop(uid, None)
        if plan is None:
            return
        self._alike.clear()
        if self._undo is not None and self._undo[0] == uid:
            self._view = self._undo[1]
            self._undo = None
        else:
            self._refresh()

    # -- beside it

    @property
    def now_s(self) -> float:
        """Of the clock that capacities are dated with."""
        return self._now.now_s

    def clusters(
        self, *, without: Collection[str] = (), beside: Placed | None = None
    ) -> Mapping[str, Cluster]:
        """By name, as they are with what was decided in this round, `without` what runs of some
        and with one more place taken."""
        found = self._view | self._freed(without) if without else dict(self._view)
        if beside is not None and isinstance(beside.plan, Plan):
            ledger = _promise(beside.plan.demand.workload.uid, beside.plan)
            for name in {key.cluster for key in ledger.entries} & found.keys():
                capacity = found[name].capacity
                if capacity is not None:
                    found[name] = replace(found[name], capacity=ledger.deduct(name, capacity))
        return found

    def choose(self, asked: Asked, *, without: Collection[str] = ()) -> Plan | Refusal:
        """Where it goes, `without` what runs of others."""
        picture = self._now
        clusters = self._view | self._freed(without) if without else self._view
        return asked.choose(
            clusters.values(),
            picture.prices,
            self._ceilings(asked.demand.workload.uid),
            now=picture.now,
            now_s=picture.now_s,
        )

    def _ceilings(self, uid: str) -> Ceilings:
        """With what was accepted in this round for others."""
        found = self._now.ceilings
        if found is NO_CEILINGS:
            return found
        for other, plan in self._taken.items():
            if other != uid and other in self._asked:
                asked, _ = self._asked[other]
                found = found.after(plan, policy=asked.policy_name, now=self._now.now)
        return found

    def reserve(self, uid: str, plan: Plan) -> None:
        """Deduct a plan."""
        self._undo = (uid, dict(self._view))
        self._taken[uid] = plan
        ledger = _promise(uid, plan)
        for name in {key.cluster for key in ledger.entries}:
            cluster = self._view.get(name)
            if cluster is not None and cluster.capacity is not None:
                self._view[name] = replace(cluster, capacity=ledger.deduct(name, cluster.capacity))

    @property
    def _now(self) -> Picture:
        assert self._picture is not None, "begin comes first"
        return self._picture

    def _refresh(self) -> None:
        self._undo = None
        self._alike = {}
        self._view = {each.name: each for each in self._ledger(()).deducted(self._now.clusters)}

    def _ledger(self, without: Collection[str]) -> Ledger:
        found = self._now.promises
        for uid in without:
            found = found.release(uid)
        plans = [_promise(uid, plan) for uid, plan in self._taken.items() if uid not in without]
        return Ledger.of([found, *plans]) if plans else found

    def _freed(self, without: Collection[str]) -> dict[str, Cluster]:
        """The clusters that some of those are in, as they would be without."""
        held = {uid: self._now.taken_by(uid) for uid in sorted(without)}
        promised = {
            key.cluster for key in self._ledger(()).entries if key.uid in held
        }  # fmt: skip
        where = promised.union(*held.values())
        ledger = self._ledger(without)
        found = {}
        for cluster in self._now.clusters:
            if cluster.name in where and cluster.capacity is not None:
                capacity = cluster.capacity
                for taken in held.values():
                    capacity = _given(capacity, taken.get(cluster.name, {}))
                capacity = ledger.deduct(cluster.name, capacity)
                found[cluster.name] = replace(cluster, capacity=capacity)
        return found


def amounts_of(shard: Shard, wish: Wish) -> dict[Key, int]:
    return total(times(wish.counts.get(each.role, {}), each.count) for each in shard.intervals)


def _given(capacity: Capacity, taken: Mapping[Vector, Mapping[str, int]]) -> Capacity:
    for request, nodes in sorted(taken.items()):
        kind = PodKind(request)
        capacity = capacity.give(capacity.on_nodes(kind, nodes))
    return capacity


def _promise(uid: str, plan: Plan) -> Ledger:
    """As `planner.promises_of` promises it once it is stored."""
    added = [each for each in plan.shards if each.generation == plan.generation]
    return Ledger().reserve(uid, {role.name: role.kind for role in plan.demand.roles}, added)
