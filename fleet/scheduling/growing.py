"""More ranks for elastic gangs that run with fewer than they ask for.

They stand behind everybody that waits: whoever does is decided about first, a cluster in which work
of the same priority or a higher one waits for room is left to that, and growth never makes a gang a
borrower that was none, for then all of it could have to go. What it gets is one change of its
charge. `rooms` says where; `fleet.gateway.placing` asks once a round has decided all else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.scheduling.counted import total
from fleet.scheduling.placement import Plan
from fleet.scheduling.rooms import amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.scheduling.engine import Engine
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.queue.running import Run
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.rooms import Rooms
    from fleet.scheduling.standing import Wish

_FOR_ROOM: Final = frozenset({"Capacity", "Behind", "Evicting"})
"""Why work waits that takes the room there is as soon as there is enough of it."""
_WITH_ROOM: Final = frozenset({"Full", "TierNotYet"})
"""Why a cluster is refused that may be taken later."""


class Growing:
    """Of one round, once everything else in it is decided."""

    def __init__(self, engine: Engine, rooms: Rooms) -> None:
        self._engine = engine
        self._rooms = rooms
        self._larger: dict[str, str] = {}
        """Clusters in which shards were made larger: which nodes those take is not known before
        they are promised."""
        self._awaited = [*_awaited(engine, rooms)]

    def more(self, asked: Asked, wish: Wish) -> Plan | None:
        """The plan with more ranks, charged and reserved; None where there is none to be had."""
        uid = asked.demand.workload.uid
        run = self._engine.running().get(uid)
        if run is None or run.leaving_for or asked.running is None or len(asked.demand.roles) != 1:
            return None
        pods = _affordable(self._engine, run, asked, wish)
        if not pods:
            return None
        barred = {
            name: "work that waits comes first"
            for priority, clusters in self._awaited
            if priority >= run.item.priority
            for name in clusters
        }
        barred = {**barred, **self._larger, **asked.barred}
        plan = self._rooms.choose(replace(asked, more=pods, barred=barred))
        if not isinstance(plan, Plan) or plan.pods <= asked.running.pods:
            return None
        amounts = total(amounts_of(shard, wish) for shard in plan.shards)
        if not self._engine.resize(uid, run.item.generation + 1, amounts):
            return None
        self._rooms.reserve(uid, plan)
        before = {each.cluster: each.pods for each in asked.running.shards}
        for each in plan.shards:
            if before.get(each.cluster, each.pods) < each.pods:
                self._larger[each.cluster] = "more was given there a moment ago"
        return plan


def _affordable(engine: Engine, run: Run, asked: Asked, wish: Wish) -> int:
    """Most pods in whole units that its quota pays for besides those that it has."""
    assert asked.running is not None
    role = asked.demand.role
    counts = wish.counts[role.name]
    low, high = 0, (role.pods - asked.running.pods) // role.unit
    while low < high:
        tried = (low + high + 1) // 2
        wanted = _with(run.item.requests, counts, tried * role.unit)
        if engine.affords(run.item.uid, wanted):
            low = tried
        else:
            high = tried - 1
    return low * role.unit


def _with(held: Mapping[Key, int], counts: Mapping[Key, int], pods: int) -> dict[Key, int]:
    return {key: held.get(key, 0) + counts.get(key, 0) * pods for key in {*held, *counts}}


def _awaited(engine: Engine, rooms: Rooms) -> Iterator[tuple[int, frozenset[str]]]:
    """The priorities of what waits for room, and the clusters that it may get it in."""
    for item, why in engine.waiting():
        refusal = rooms.refusals.get(item.uid)
        if why is not None and refusal is not None and why.reason in _FOR_ROOM:
            yield (
                item.priority,
                frozenset(
                    each.cluster
                    for each in refusal.verdicts
                    if each.verdict != "Refused" or each.reason in _WITH_ROOM
                ),
            )
