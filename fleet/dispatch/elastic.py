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
    from fleet.dispatch.sight import PodView, Sight
    from policies.placement import Phase

Object = dict[str, Any]

RESIZED: Final = "Resized"
"""Its user asked for another number of ranks."""
DROPPED: Final = "ShardDropped"
"""Why a record says what it says: a part of it is gone, and the rest goes on."""


def goes_on(record: Record) -> bool:
    """Whether what runs of it, or is done, is enough to go on with."""
    left = sum(each.count for each in record.shards if each.live or each.state == "Succeeded")
    return record.least is not None and left >= record.least


def without(record: Record, broken: Collection[Shard], now: float) -> Record:
    """Without the shards that broke away: another generation, in which nobody's ranks moved."""
    kept = tuple(each for each in record.shards if each not in broken)
    left = replace(record, shards=kept, generation=record.generation + 1)
    why = "; ".join(each.message for each in broken if each.message)
    message = f"{why}; goes on with {left.ranks} of {left.most} ranks"
    return left.with_phase(left.phase, now, reason=DROPPED, message=message)


def told(before: Record, after: Record) -> Record:
    """`after`, which is to be stored in place of `before`: where others of an elastic workload run
    than did, those that run have another generation."""
    if not after.elastic or not after.world or _who(before) == _who(after):
        return after
    return replace(after, known=max(before.known + 1, after.generation))


def _who(record: Record) -> set[tuple[str, int, int, int]]:
    return {(each.cluster, each.generation, each.first, each.count) for each in record.world}


def grows(record: Record, job: Object, nodes: int) -> bool:
    """Whether it stands in line for more ranks, of the `nodes` it asks for: while all that it has
    run, and nothing of it is in doubt, done, or to go."""
    if (job.get("status") or {}).get("succeeded"):
        return False
    if record.least is None or record.phase != "Running" or record.preempted_for:
        return False
    if record.loan is not None:
        return False  # a loan is of one size
    calm = all(
        each.state == "Running"
        and (each.lost_at, each.refused_at, each.amiss_at) == (None, None, None)
        for each in record.shards
    )
    return calm and record.ranks < record.most == nodes


def finishes(record: Record, sights: Mapping[str, Sight]) -> bool:
    """Whether a rank of it is done: who would join now, would find nobody."""
    if any(each.state == "Succeeded" for each in record.shards):
        return True
    seen = [sights.get(each.cluster) for each in record.shards if each.live]
    return any(
        (each.view is not None and each.view.succeeded)
        or any(pod.phase == "Succeeded" for pod in each.pods)
        for each in seen
        if each is not None
    )


def enlarged(shard: Shard) -> bool:
    """Whether it is to have more ranks than those with which it ran."""
    return shard.state == "Committed" and shard.started_at is not None


def at_work(record: Record) -> Phase:
    """The phase of one to which nothing more is to come: parts of it may be on their way still."""
    begins = any(each.state == "Committed" for each in record.shards)
    return "Committed" if begins else "Running"


def with_more(before: Record, after: Record) -> Record:
    """A plan's record with the shards that it makes larger committed to that: what is added to a
    shard needs no hold, for with fewer it runs as well."""
    counts = {(each.cluster, each.generation): each.count for each in before.shards if each.live}
    return after.with_shards(
        replace(each, state="Committed")
        for each in after.shards
        if each.live and each.count > counts.get((each.cluster, each.generation), each.count)
    )


def bound(shard: Shard, pods: Collection[PodView], record: Record) -> int:
    """How many of a shard's first ranks are on nodes, in whole units."""
    there = [pod for pod in pods if pod.bound and not pod.deleting]
    ranks = {pod.rank for pod in there}
    count = len(there) if ranks == {None} else 0
    while shard.first + count in ranks:
        count += 1
    return count - count % record.unit


def cut(record: Record, counts: Mapping[str, int]) -> Record:
    """With shards of so many ranks, by cluster: another generation."""
    shards = [
        _of_size(each, counts[each.cluster]) for each in record.shards if each.cluster in counts
    ]
    changed = record.with_shards(shards)
    return record if changed is record else replace(changed, generation=record.generation + 1)


def _of_size(shard: Shard, count: int) -> Shard:
    """With its first ranks alone. What it costs is taken to be shared by all of them."""
    planned = dict(shard.planned)
    if "roles" in planned:
        planned["roles"] = [{**each, "count": count} for each in planned["roles"]]
    if "perHour" in planned and shard.count:
        whole = parse_amount(planned["perHour"])
        planned["perHour"] = amount_text(-(-whole * count // shard.count))
    return replace(shard, count=count, planned=tuple(planned.items()))


def why_not(record: Record, nodes: int) -> str:
    """Why it cannot be of so many ranks; "" where it can."""
    assert record.least is not None
    if nodes % record.unit:
        return f"{nodes} ranks are not in whole units of {record.unit}"
    if nodes < record.least:
        return f"it runs with {record.least} ranks at least"
    if not record.world:
        return ""  # what is to come is cut once it runs
    left = sum(max(0, min(each.first + each.count, nodes) - each.first) for each in record.world)
    if left < record.least:
        return f"of those that run {left} are among the first {nodes}, and it needs {record.least}"
    return ""


def is_resized(record: Record, nodes: int) -> bool:
    """Whether it asks for another number of ranks than it was placed with, and can have that."""
    placed = record.least is not None and bool(record.world) and not record.waiting
    return placed and nodes not in (0, record.most) and not why_not(record, nodes)


def fitted(record: Record, nodes: int, now: float) -> tuple[Record, tuple[Shard, ...]]:
    """Of so many ranks, and the shards that none is left for. More than before come as it grows."""
    gone = tuple(each for each in record.shards if each.first >= nodes)
    counts = {
        each.cluster: nodes - each.first
        for each in record.shards
        if each.first < nodes < each.first + each.count
    }
    smaller = cut(record, counts)
    if gone and smaller is record:
        smaller = replace(record, generation=record.generation + 1)
    message = f"resized from {record.most} to {nodes} ranks"
    phase = at_work(record) if record.phase in ("QuotaHeld", "Holding") else record.phase
    after = replace(smaller, most=nodes).with_phase(phase, now, reason=RESIZED, message=message)
    return after, gone


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
