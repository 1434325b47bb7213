"""A Placement in words: where each part of a workload is, why there, why nowhere else.

Reads objects alone and imports nothing heavy, so that a command line can use it at once. Why each
cluster was taken or not was written by `sentences` when the decision was made, and is told as what
was so then; what has changed since is read off the clusters as they are.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Object = dict[str, Any]

# The time that a shard's state dates from.
_SINCE: Final = {
    "Held": "heldAt",
    "Committed": "committedAt",
    "Running": "startedAt",
    "Succeeded": "finishedAt",
    "Failed": "finishedAt",
    "Evicted": "finishedAt",
    "Lost": "lostAt",
}
_NEVER: Final = "9999-12-31T00:00:00Z"
_OVER: Final = frozenset({"Succeeded", "Failed", "Evicted", "Lost"})
_UNUSED: Final = {
    "BudgetSpent": "over budget",
    "NetworkTooSmall": "too small",
    "OtherCurrency": "not payable",
    "PriceUnknown": "no price",
    "TooDear": "too dear",
    "TooSmall": "too small",
}
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def explained(
    placement: Mapping[str, Any],
    clusters: Sequence[Mapping[str, Any]] | None = None,
    *,
    ahead: int | None = None,
    foretold: bool = False,
) -> list[str]:
    """The lines of `fleet explain` for a Placement object of `fleet.dev/v1alpha1`.

    `clusters` are the Cluster objects of the fleet as they are, None where they are not known;
    `ahead` is how many of its quota come before one that waits. `foretold`: the Placement is one
    that there would be, so what it says is so now.
    """
    spec, status = placement["spec"], placement.get("status") or {}
    shards: Sequence[Object] = status.get("shards") or ()
    cost: Object = status.get("cost") or {}
    used = {shard["cluster"] for shard in shards}
    verdicts: Sequence[Object] = status.get("clusters") or ()
    present = None if clusters is None else {each["metadata"]["name"]: each for each in clusters}
    rows = [_shard_row(shard, cost) for shard in shards]
    owed = [each for each in status.get("owed") or () if each["cluster"] not in used]
    ends = status.get("phase") in ("Succeeded", "Failed") or status.get("reason") == "Deleted"
    rows += [_owed_row(each, present, ends=ends) for each in owed]
    used.update(each["cluster"] for each in owed)
    rows += [
        _other_row(each, _changed(each, present), past=bool(shards) and not foretold)
        for each in verdicts
        if each["name"] not in used
    ]
    judged = used.union(each["name"] for each in verdicts)
    asked = shards or any(each.get("verdict") != "Used" for each in verdicts)
    if asked and verdicts and present is not None:
        since = "placed" if shards else "last asked about"
        rows += [
            (name, "not asked", f"joined after this was {since}")
            for name in sorted(present.keys() - judged)
        ]
    lines = [_head(spec, status)]
    if message := status.get("message"):
        lines.append(f"  {message}")
    if ahead is not None:
        before = "first of its quota" if not ahead else f"{ahead} of its quota before it"
        lines.append(f"  in the queue since {clock(status.get('queuedAt', ''))}, {before}")
    if shards or owed:
        lines += _loan(status.get("loan"))
    if told := status.get("preemptedFor"):
        lines.append(f"  {_ended_for(told)}; its restart budget is untouched")
    lines += _aligned(rows)
    if len(shards) > 1 and (why := status.get("whySeveral")):
        lines.append(f"  why {_count(len(shards))} clusters: {why}")
    over = bool(shards or owed) and all(map(_is_over, shards))
    lines += _cost(cost, over=over)
    if (shards or owed) and not over and (above := status.get("overBudget")):
        lines.append(f"  warning  {above}")
    return lines


def held_up(
    workload: Mapping[str, Any],
    earlier: Mapping[str, Any],
    clusters: Sequence[Mapping[str, Any]],
) -> list[str]:
    """The lines for a workload that has no Placement yet, since that of an `earlier` one of its
    name still has something to be gone from members."""
    present = {each["metadata"]["name"]: each for each in clusters}
    status = earlier.get("status") or {}
    owed: Sequence[Object] = status.get("owed") or ()
    debts = [_owed_row(each, present, ends=True) for each in owed]
    owing = {each["cluster"] for each in owed}
    debts += [
        (each["cluster"], _ranks(each.get("roles") or ()), "to leave", "not told to go yet")
        for each in status.get("shards") or ()
        if each["cluster"] not in owing
    ]
    where = ", ".join(sorted({row[0] for row in debts})) or "the fleet"
    return [
        f"{workload['metadata']['name']}  Queued",
        f"  waits until an earlier {workload['kind']} of this name is seen gone from {where}",
        *_aligned(debts),
    ]


def ahead_of(
    placement: Mapping[str, Any],
    others: Iterable[Mapping[str, Any]],
    priorities: Mapping[str, int],
    policies: Iterable[Mapping[str, Any]] = (),
    *,
    now: datetime,
) -> int | None:
    """How many that wait in the same quota come before, in the engine's order; None of one that is
    not in line.

    `priorities` are the values of priority classes, by name; `policies` are PlacementPolicies.
    """
    from fleet.scheduling.queue.rules import Rules
    from policies.scalars import parse_duration

    deadlines = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): deadline
        for each in policies
        if (deadline := (each["spec"].get("objective") or {}).get("deadline"))
    }

    def rank(each: Mapping[str, Any]) -> tuple[bool, int, bool, datetime, int, str]:
        status = each["status"]
        queued = datetime.fromisoformat(status.get("queuedAt") or _NEVER)
        policy = each["spec"].get("policy") or {}
        deadline = deadlines.get((policy.get("namespace"), policy.get("name")))
        late = False
        if deadline is not None and (run_time := status.get("runTime")):
            slack = parse_duration(deadline) - parse_duration(run_time)
            late = queued + max(slack, timedelta()) <= now
        return (
            (now - queued).total_seconds() < Rules().aging_s,
            -priorities.get(status.get("priority", ""), 0),
            not late,
            queued,
            int(status.get("arrival") or 0),
            str((each["spec"].get("workload") or {}).get("uid", "")),
        )

    if not _in_line(placement):
        return None
    mine, quota = rank(placement), placement["status"].get("quota")
    line = [each for each in others if _in_line(each) and each["status"].get("quota") == quota]
    return sum(rank(each) < mine for each in line)


def _in_line(placement: Mapping[str, Any]) -> bool:
    status = placement.get("status") or {}
    return status.get("phase") == "Queued" and status.get("reason") != "Suspended"


def _changed(
    verdict: Mapping[str, Any], present: Mapping[str, Mapping[str, Any]] | None
) -> str | None:
    """What makes the verdict a thing of the past, None where nothing does."""
    if present is None:
        return None
    cluster = present.get(verdict["name"])
    if cluster is None:
        return "has left the fleet"
    if verdict.get("reason") == "NotReady" and (since := _ready_since(cluster)):
        return f"was not ready then; is ready since {clock(since)}"
    if verdict.get("reason") == "Cordoned" and not _cordoned(cluster):
        return "took no new work then; takes it again"
    return None


def _ready_since(cluster: Mapping[str, Any]) -> str:
    """Since when the cluster is ready, "" when it is not."""
    for each in (cluster.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready" and each.get("status") == "True":
            return str(each.get("lastTransitionTime", ""))
    return ""


def _unheard(cluster: Mapping[str, Any]) -> str:
    """Why the cluster confirms nothing, "" where it answers."""
    for each in (cluster.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Reachable" and each.get("status") == "False":
            since, why = clock(each.get("lastTransitionTime", "")), each.get("message")
            return f": the cluster does not answer since {since}" + (f" ({why})" if why else "")
    return ""


def _cordoned(cluster: Mapping[str, Any]) -> bool:
    maintenance = (cluster.get("spec") or {}).get("maintenance") or {}
    return bool(maintenance.get("cordoned"))


def _head(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    roles: Sequence[Object] = status.get("roles") or ()
    alone = len(roles) == 1
    facts = []
    for role in roles:
        ranks = "rank" if role["pods"] == 1 else "ranks"
        pods = status["ranks"] if alone and status.get("ranks") else role["pods"]
        facts.append(f"{pods} {ranks if alone else role['name']}")
        if alone or role.get("unit", 1) > 1:
            facts.append(f"unit {role.get('unit', 1)}")
    facts += [f"{key} {status[key]}" for key in ("plane", "priority", "quota") if status.get(key)]
    if policy := spec.get("policy"):
        facts.append(f"policy {policy['namespace']}/{policy['name']}")
    parts = [
        spec["workload"]["name"],
        status.get("phase", "Queued"),
        f"generation {status.get('generation', 0)}",
        ", ".join(facts),
    ]
    return "  ".join(filter(None, parts))


def _loan(loan: Mapping[str, Any] | None) -> Iterator[str]:
    """What it runs on that is not its own, until when, and why it was called back."""
    if not loan:
        return
    amounts = ", ".join(
        f"{each['amount']} {each['name']}"
        + (f" ({each['accelerator']})" if each.get("accelerator") else "")
        for each in loan["resources"]
    )
    times = loan.get("renewals", 0)
    renewed = f", renewed {_count(times)} time{'s' if times > 1 else ''}" if times else ""
    yield (
        f"  on loan  {amounts} of {loan['donor']} until {clock(loan['until'])}{renewed}, by "
        f"LendingPolicy {loan['policy']}"
    )
    if ends := loan.get("endsAt"):
        at = clock(loan["recalledAt"])
        yield f"  called back at {at}, ends at {clock(ends)}: {loan.get('why', '')}"


def _ended_for(told: Mapping[str, Any]) -> str:
    if told["kind"] == "LendingPolicy":
        return f"ended by LendingPolicy {told['name']}: {told.get('why', '')}"
    if told["kind"] == "PlacementPolicy":
        return f"goes back: {told.get('why', '')}"
    return f"ended for {told['kind'].lower()} {told['namespace']}/{told['name']}"


def _shard_row(shard: Mapping[str, Any], cost: Mapping[str, Any]) -> tuple[str, ...]:
    state = str(shard.get("state", "Planned"))
    told = state.lower()
    if since := shard.get(_SINCE.get(state, "")):
        told += f" {clock(since)}"
    if state not in _OVER and (since := shard.get("amissAt")):
        told += f", not whole since {clock(since)}"
    facts = [f"tier {shard.get('tier', 1)}"]
    if billing := shard.get("billing"):
        facts.append("own" if billing == "Owned" else _words(billing))
    facts.append(_price(shard.get("perHour"), cost))
    if blocks := shard.get("blocks"):
        facts.append(f"{'block' if len(blocks) == 1 else 'blocks'} {' '.join(blocks)}")
    if message := shard.get("message"):
        facts.append(message)
    return shard["cluster"], _ranks(shard.get("roles") or ()), told, ", ".join(facts)


def _ranks(intervals: Sequence[Mapping[str, Any]]) -> str:
    """`ranks 0-3`; with the role's name where there are several: `worker 0-7, loader 2`."""
    texts = []
    for each in intervals:
        first, count = each["first"], each["count"]
        numbers = str(first) if count == 1 else f"{first}-{first + count - 1}"
        name = each["name"] if len(intervals) > 1 else "rank" if count == 1 else "ranks"
        texts.append(f"{name} {numbers}")
    return ", ".join(texts)


def _owed_row(
    debt: Mapping[str, Any], present: Mapping[str, Mapping[str, Any]] | None, *, ends: bool
) -> tuple[str, ...]:
    """What the workload had there and has to be gone. One that does not `end` and is fenced by
    proof waits for that even if the cluster leaves."""
    cluster = debt["cluster"]
    why = "not seen gone yet"
    if present is not None:
        found = present.get(cluster)
        if found is None:
            why = "the cluster has left the fleet"
        elif (unheard := _unheard(found)) and not ends and not debt.get("fencedAt"):
            why += (
                f"{unheard}; its fencing wants proof, so if that is dead for good: fleet leave "
                f"{cluster}, and make the workload anew"
            )
        elif unheard := _unheard(found):
            why += f"{unheard}; what is dead for good goes with: fleet leave {cluster}"
    return cluster, "no rank any more", "leaving", f"{debt['shard']}: {why}"


def _other_row(cluster: Mapping[str, Any], changed: str | None, *, past: bool) -> tuple[str, ...]:
    reason = cluster.get("reason", "")
    if cluster.get("verdict") == "Used":
        return cluster["name"], "was used", "when it ran last"
    told = _UNUSED.get(reason, "not needed") if cluster.get("verdict") == "Unused" else "not used"
    why = cluster.get("message") or reason
    if changed is not None:
        why = changed
    elif past:  # policies, prices and labels change too, not only what is free
        why = f"when this was placed: {why}"
    return cluster["name"], told, why


def _cost(cost: Mapping[str, Any], *, over: bool) -> Iterator[str]:
    if not cost:
        return
    if over:
        if amount := cost.get("perHour"):
            yield f"  cost     nothing now; was {_price(amount, cost)}"
        return
    text = f"{_price(cost.get('perHour'), cost)} now"
    if unknown := cost.get("unknown"):
        text = f"price not known: {', '.join(unknown)}"
    if best := cost.get("nextBest"):
        price = _price(cost.get("nextBestPerHour"), cost)
        text += f"; the next best single cluster would be {best} at {price}"
    yield f"  cost     {text}"


def _is_over(shard: Mapping[str, Any]) -> bool:
    """Whether it costs nothing more: it has ended, or its cluster has left the fleet."""
    return shard.get("state") in _OVER or shard.get("reason") == "MemberLeft"


def _price(amount: str | None, cost: Mapping[str, Any]) -> str:
    """`11.40 $/h`."""
    if amount is None:
        return "price not known"
    return f"{money(amount, cost.get('currency', ''))}/h"


def money(amount: str, currency: str) -> str:
    """`11.40 $`, `0 EUR`."""
    whole, point, fraction = amount.partition(".")
    shown = f"{whole}.{fraction.ljust(2, '0')}" if point else whole
    return f"{shown} {'$' if currency in ('', 'USD') else currency}"


def clock(moment: str) -> str:
    """The time of day where this runs; with the day, unless that is today."""
    try:
        here = datetime.fromisoformat(moment).astimezone()
    except ValueError:
        return moment
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


def not_as_written(policy: Object) -> str:
    """Why a policy of any kind is not acted on as it is stored; "" where it is."""
    for each in (policy.get("status") or {}).get("conditions") or ():
        if each["type"] == "Valid" and each.get("reason") in ("Unreadable", "AtOdds"):
            return f"{policy['kind']} {policy['metadata']['name']}: {each['message']}"
    return ""


def moves_back(told: Object) -> str:
    """What is said of a workload for which an earlier tier has room; `told` is what the gateway
    says of it under `/fleet/returns`."""
    tier = f'tier "{told["tierName"]}"' if told.get("tierName") else f"tier {told['tier']}"
    return (
        f"moves back to {tier} ({', '.join(told['clusters'])}) after {clock(told['after'])} if the "
        f"room is still there, which it is since {clock(told['roomSince'])}"
    )


def counted_elsewhere(status: Object, now: str) -> str:
    """What is said of a workload that another quota counts than stands in its Placement, so that
    of its namespace; "" where it is the same. `now` is that quota's name, "" for none."""
    was, waits = str(status.get("quota") or ""), status.get("phase", "Queued") == "Queued"
    if was == now or (waits and not was):
        return ""  # of what was not decided about yet nothing stands there
    when = "when this was decided" if waits else "when it was placed"
    return f"quota {was or 'none'} {when}; {now or 'none'} counts it now"


def gone(*, quota: str = "", instead: str = "", policy: str = "") -> str:
    """What is said of a workload whose quota, or whose policy, is there no more. `instead` is the
    quota that counts it now."""
    if quota:
        return f"FleetQuota {quota}: is there no more; {instead or 'no quota'} counts this workload"
    return (
        f"PlacementPolicy {policy}: is there no more; what runs goes on as it was placed, what has "
        "to be placed is under what selects it, or waits for the policy it names"
    )
