"""A Placement in words: where each part of a workload is, why there, why nowhere else."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Json = "Mapping[str, Any]"

# The time that a shard's state dates from.
_SINCE = {
    "Held": "heldAt",
    "Committed": "committedAt",
    "Running": "startedAt",
    "Succeeded": "finishedAt",
    "Failed": "finishedAt",
    "Evicted": "finishedAt",
    "Lost": "lostAt",
}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def explained(placement: Mapping[str, Any]) -> list[str]:
    """The lines of `fleet explain` for a Placement object of `fleet.dev/v1alpha1`."""
    status = placement.get("status") or {}
    shards = status.get("shards") or []
    rows = [_shard_row(shard, status) for shard in shards]
    used = {shard.get("cluster") for shard in shards}
    rows += [
        _other_row(cluster)
        for cluster in status.get("clusters") or []
        if cluster["name"] not in used
    ]
    lines = [_head(placement["spec"]["workload"]["name"], status)]
    if message := status.get("message"):
        lines.append(f"  {message}")
    lines += _aligned(rows)
    if why := status.get("whySeveral"):
        lines.append(f"  why {_count(len(shards))} clusters: {why}")
    lines += _cost(status.get("cost") or {})
    return lines


def _head(name: str, status: Mapping[str, Any]) -> str:
    facts = []
    for role in status.get("roles") or []:
        label = "ranks" if len(status["roles"]) == 1 else role["name"]
        facts.append(f"{role['pods']} {label}")
        if role.get("unit", 1) > 1 or len(status["roles"]) == 1:
            facts.append(f"unit {role.get('unit', 1)}")
    facts += [f"{key} {status[key]}" for key in ("plane", "priority") if status.get(key)]
    generation = f"generation {status.get('generation', 0)}"
    head = f"{name}  {status.get('phase', 'Queued')}  {generation}"
    return f"{head}  {', '.join(facts)}" if facts else head


def _shard_row(shard: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, ...]:
    state = str(shard.get("state", "Planned"))
    told = state.lower()
    if since := shard.get(_SINCE.get(state, "")):
        told += f" {_clock(since)}"
    facts = [f"tier {shard.get('tier', 1)}"]
    if billing := shard.get("billing"):
        facts.append("own" if billing == "Owned" else _words(billing))
    facts.append(_price(shard.get("perHour"), status))
    if message := shard.get("message"):
        facts.append(message)
    return shard["cluster"], _ranks(shard.get("roles") or []), told, ", ".join(facts)


def _ranks(roles: list[Any]) -> str:
    parts = []
    for role in roles:
        first, count = role["first"], role["count"]
        label = "rank" if len(roles) == 1 else role["name"]
        if count == 1:
            parts.append(f"{label} {first}")
        else:
            plural = "ranks" if len(roles) == 1 else label
            parts.append(f"{plural} {first}-{first + count - 1}")
    return ", ".join(parts)


def _other_row(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    told = "not needed" if cluster.get("verdict") == "Unused" else "not used"
    return cluster["name"], told, cluster.get("message") or cluster.get("reason") or ""


def _cost(cost: Mapping[str, Any]) -> Iterator[str]:
    status = {"cost": cost}
    if not cost:
        return
    text = f"{_price(cost.get('perHour'), status)} now"
    if unknown := cost.get("unknown"):
        text += f" (price not known: {', '.join(unknown)})"
    if best := cost.get("nextBest"):
        price = _price(cost.get("nextBestPerHour"), status)
        text += f"; the next best single cluster would be {best} at {price}"
    yield f"  cost     {text}"


def _price(amount: str | None, status: Mapping[str, Any]) -> str:
    if amount is None:
        return "price not known"
    currency = (status.get("cost") or {}).get("currency", "")
    unit = "$" if currency in ("", "USD") else currency
    return f"{amount} {unit}/h"


def _clock(moment: str) -> str:
    """The time of day here; with the day, unless that is today."""
    try:
        there = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    here = there.astimezone()
    today = here.date() == datetime.now(here.tzinfo).date()
    return here.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def _words(name: str) -> str:
    """`OnDemand` as `on demand`."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows with all columns but the last aligned; a row may have fewer."""
    table = list(rows)
    widths: dict[int, int] = {}
    for row in table:
        for at, cell in enumerate(row[:-1]):
            widths[at] = max(widths.get(at, 0), len(cell))
    lines = []
    for row in table:
        cells = [cell.ljust(widths[at]) for at, cell in enumerate(row[:-1])] + [row[-1]]
        lines.append("  " + "   ".join(cells).rstrip())
    return lines
