"""The gateway's Placer, for those who ask it about demands instead of objects in a store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fleet.scheduling.ledger import Ledger
from fleet.scheduling.planner import Asked
from fleet.scheduling.price import Prices
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.rooms import Picture, Rooms
from fleet.scheduling.selection import Policy
from fleet.scheduling.standing import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.placer import Item

NOW = datetime(2026, 11, 29, tzinfo=UTC)


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
