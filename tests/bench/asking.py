"""The gateway's Placer, and the engine over it, for those who ask about demands instead of objects
in a store; capacity of objects as they are, and a Placer where quota alone decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.counted import times, total
from fleet.scheduling.engine import Engine
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.planner import Asked
from fleet.scheduling.price import Prices
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Tree
from fleet.scheduling.rooms import Picture, Rooms
from fleet.scheduling.selection import Policy
from fleet.scheduling.standing import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.decisions import Decision
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.exact.question import Victim
    from fleet.scheduling.placer import Unplaced
    from fleet.scheduling.requests import Vector

    Object = dict[str, Any]

NOW = datetime(2026, 11, 29, tzinfo=UTC)
_LONG_S = 1e6
_AT_ONCE = Rules(patience_s=0, worth=None)
"""Evict whatever may go, at the cost of the work it loses."""


def capacity_of(
    nodes: Iterable[Object], pods: Iterable[Object], *, as_of_s: float, block_label: str = ""
) -> Capacity:
    """The picture from scratch."""
    accounts = NodeAccounts(block_label=block_label)
    for node in nodes:
        accounts.upsert_node(node)
    for pod in pods:
        accounts.upsert_pod(pod)
    return accounts.capacity(as_of_s)


class Anywhere:
    """A Placer with a place for everything."""

    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        return Placed(plan=None)

    def take(self, uid: str, placed: Placed) -> None:
        pass

    def give(self, uid: str) -> None:
        pass


def opened(
    clusters: Iterable[Cluster],
    items: Iterable[Item],
    *,
    prices: Prices | None = None,
    key: Callable[[str], Key] = Key,
) -> Rooms:
    """A round over `clusters`, which have deducted what runs there, for all of `items`, whose
    demands are `Demand`s. `key` is what a resource counts at."""
    rooms = Rooms()
    picture = Picture(tuple(clusters), Ledger(), prices or Prices(), NOW, now_s=0.0)
    rooms.begin(picture, {each.uid: asked(each.demand, key) for each in items})
    return rooms


def asked(demand: Demand, key: Callable[[str], Key] = Key) -> tuple[Asked, Wish]:
    """A demand as the planner reads it off a workload that has just come."""
    policy = Policy(demand.workload.namespace, "bench", demand.policy)
    counts = {
        role.name: {key(name): need for name, need in role.kind.request} for role in demand.roles
    }
    wish = Wish({role.name: role.pods for role in demand.roles}, counts)
    return Asked(demand=demand, policy=policy, before={}, queued_at=NOW), wish


def decided(
    demand: Demand,
    clusters: Iterable[Cluster],
    running: Iterable[Victim],
    *,
    prices: Prices | None = None,
    waited_s: float = 0.0,
) -> Decision:
    """What the engine says of one gang, over `clusters` in which gangs of a lower priority run.

    None of it counts at a quota. Each has run for so long that it loses its `cost`.
    """
    running = [*running]
    seats = {each.uid: _seats(each) for each in running}
    rooms, uid = Rooms(), demand.workload.uid
    question, wish = asked(demand)
    question = replace(question, queued_at=NOW - timedelta(seconds=waited_s))
    picture = Picture(
        tuple(clusters),
        Ledger(),
        prices or Prices(),
        NOW,
        now_s=0.0,
        taken_by=lambda who: seats.get(who, {}),
    )
    rooms.begin(picture, {uid: (question, wish)})
    engine = Engine(Tree.of([]), rooms, rules=_AT_ONCE)
    for each in running:
        requests = total(times(dict(seat.amounts), 1) for seat in each.seats)
        item = Item(
            each.uid, "", 0, 0, {Key(name): amount for name, amount in requests.items()}, each.uid,
            pods=len(each.seats), restart_s=0.0,
        )  # fmt: skip
        placed = Placed(None, {name: {} for name in seats[each.uid]})
        engine.adopt(item, placed, _LONG_S - each.cost / item.pieces)
    requests = total(times(wish.counts[role.name], role.pods) for role in demand.roles)
    pods = sum(role.pods for role in demand.roles)
    engine.submit(Item(uid, "", 1, 0, requests, uid, demand=demand, pods=pods), _LONG_S)
    told, *_ = engine.step(_LONG_S)  # what follows an eviction is that it waits for it
    return told


def _seats(victim: Victim) -> Mapping[str, Mapping[Vector, Mapping[str, int]]]:
    found: dict[str, dict[Vector, Counter[str]]] = {}
    for seat in victim.seats:
        found.setdefault(seat.cluster, {}).setdefault(seat.amounts, Counter())[seat.node] += 1
    return found
