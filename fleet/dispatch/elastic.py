"""What becomes of an elastic workload that lost a part, or that runs with fewer ranks than it may.

It goes on as long as enough ranks are left: the part is dropped, and nobody else's ranks move. Each
change of those that run is a generation. Whoever runs with fewer than were asked for may grow: what
is missing is planned, held and committed beside the ranks that run. Pure; `decisions` asks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from policies.scalars import amount_text, parse_amount

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.dispatch.record import Record, Shard

Object = dict[str, Any]

DROPPED: Final = "ShardDropped"
"""Why a record says what it says: a part of it is gone, and the rest goes on."""


def goes_on(record: Record) -> bool:
    """Whether what runs of it is enough to go on with."""
    running = sum(each.count for each in record.shards if each.live)
    return record.least is not None and running >= record.least


def without(record: Record, broken: Collection[Shard], now: float) -> Record:
    """Without the shards that broke away: another generation, in which nobody's ranks moved."""
    kept = tuple(each for each in record.shards if each not in broken)
    left = replace(record, shards=kept, generation=record.generation + 1)
    why = "; ".join(each.message for each in broken if each.message)
    message = f"{why}; goes on with {left.ranks} of {left.most} ranks"
    return left.with_phase(left.phase, now, reason=DROPPED, message=message)


def grows(record: Record, nodes: int) -> bool:
    """Whether it stands in line for more ranks, of the `nodes` it asks for: while all that it has
    run, and nothing of it is in doubt, done, or to go."""
    if record.least is None or record.phase != "Running" or record.preempted_for:
        return False
    if record.loan is not None:
        return False  # a loan is of one size
    calm = all(
        each.state == "Running" and each.lost_at is None and each.refused_at is None
        for each in record.shards
    )
    return calm and record.ranks < record.most == nodes


def resized(status: Object, before: Mapping[str, Any]) -> Object:
    """`status` of a workload that has other shards than `before`, with what they are and cost."""
    shards: list[Object] = status.get("shards") or []
    if _keys(shards) == _keys(before.get("shards") or ()) or not shards:
        return status
    several = len(shards) > 1
    used = ", ".join(
        f"{each['cluster']} {each['roles'][0]['count']}" if several else each["cluster"]
        for each in shards
    )
    found = {**status, "usedClusters": used}
    if not several:
        found.pop("whySeveral", None)
    if "cost" in status:
        found["cost"] = _cost(status["cost"], shards)
    return found


def _keys(shards: Collection[Mapping[str, Any]]) -> set[tuple[str, int]]:
    return {(each["cluster"], each.get("generation", 0)) for each in shards}


def _cost(cost: Mapping[str, Any], shards: Collection[Mapping[str, Any]]) -> Object:
    """What is known per hour, once all of it is."""
    left = {name: each for name, each in cost.items() if name not in ("perHour", "unknown")}
    there = {each["cluster"] for each in shards}
    unknown = [name for name in cost.get("unknown") or () if name in there]
    if unknown:
        left["unknown"] = unknown
    known = [parse_amount(each["perHour"]) for each in shards if "perHour" in each]
    if len(known) == len(shards) and known:
        left["perHour"] = amount_text(sum(known))
    return left
