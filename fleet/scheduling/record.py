"""A decision written down as a Placement object, and read back from one.

The object is the answer to "why is it there", and enough to go on from after a restart: which
cluster has which ranks under which generation, and what a pod asks for. What `fleet.dispatch` notes
about a shard – its state and times – is kept as long as the shard is. Next step: the store, then
`fleet.dispatch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final

from fleet.scheduling.numbering import Interval
from fleet.scheduling.placement import Plan, Refusal, Shard
from fleet.scheduling.requests import PODS, quantity_text
from policies import PLACEMENT
from policies.scalars import amount_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fleet.scheduling.demand import Demand, Role, Workload
    from fleet.scheduling.placement import Verdict
    from fleet.scheduling.selection import Policy
    from policies.placement import PlacementStatus

Object = dict[str, Any]

PLACED: Final = "Placed"
COUNTED: Final = "QuotaReserved"
_NOTES: Final = (
    "state", "reason", "message", "heldAt", "holdExpiresAt", "committedAt", "startedAt",
    "finishedAt", "lostAt", "leasedUntil", "refusedAt", "clusterUid", "amissAt",
    "amissPods",
)  # fmt: skip
# What every decision says anew; the rest of a status is `fleet.dispatch`'s and stays.
_RUNNING: Final = ("shards", "usedClusters", "plane", "whySeveral", "overBudget", "cost")
_PLANNED: Final = frozenset({*_RUNNING, "message", "priority", "runTime"})


@dataclass(frozen=True, slots=True)
class Held:
    """It waits for something else than room: it was not asked where it could go."""

    demand: Demand
    reason: str
    message: str


def spec_of(workload: Workload, policy: Policy) -> Object:
    """The spec of a workload's Placement: what is placed, and under which policy."""
    return {
        "workload": {
            "apiVersion": workload.api_version,
            "kind": workload.kind,
            "name": workload.name,
            "uid": workload.uid,
        },
        "policy": {"namespace": policy.namespace, "name": policy.name},
    }


def status_of(
    decision: Plan | Refusal | Held,
    *,
    now: datetime,
    queued_at: datetime,
    before: Mapping[str, Any] | None = None,
    roles: Sequence[Role] = (),
) -> Object:
    """The whole status after a decision; `before` is the status it replaces. `roles` are those
    that were asked for, where what is placed may be smaller.

    A plan is QuotaHeld, a refusal is Queued. Written again with nothing new it is equal to
    `before`.
    """
    before = before or {}
    failover = decision.demand.policy.failover
    status: Object = {
        **{name: value for name, value in before.items() if name not in _PLANNED},
        "generation": int(before.get("generation", 0)),
        "phase": "QuotaHeld" if isinstance(decision, Plan) else "Queued",
        "mode": decision.demand.policy.mode,
        "queuedAt": before.get("queuedAt") or _time(queued_at),
        "roles": [_role(each) for each in roles or decision.demand.roles],
        "clusters": _verdicts(decision, before),
        "lease": duration_text(failover.tolerate),
        "fencing": failover.fencing,
    }
    if decision.demand.priority_class:
        status["priority"] = decision.demand.priority_class
    if decision.demand.run_time_s is not None:
        status["runTime"] = duration_text(timedelta(seconds=decision.demand.run_time_s))
    if isinstance(decision, Plan):
        status |= _planned(decision, before)
        placed, reason, message = "True", "Placed", status["usedClusters"]
    else:
        status["message"] = decision.message
        # What runs goes on running while a part of it waits to be placed anew.
        status |= {name: before[name] for name in _RUNNING if name in before}
        placed, reason, message = "False", _reason(decision), decision.message
    status["conditions"] = with_condition(
        before.get("conditions") or (),
        type=PLACED, status=placed, reason=reason, message=message, now=now,
    )  # fmt: skip
    return status


def plan_of(placement: Mapping[str, Any], demand: Demand) -> Plan | None:
    """The plan that a Placement has; None where nothing was ever placed.

    Verdicts are not read back: they belong to their time.
    """
    status: Mapping[str, Any] = placement.get("status") or {}
    if not status.get("shards"):
        return None
    typed = PLACEMENT.parse({"spec": placement["spec"], "status": status}).status
    return Plan(
        demand=demand,
        generation=typed.generation,
        domain=typed.plane,
        shards=_shards(typed),
        verdicts=(),
        why_several=typed.why_several,
        over_budget=typed.over_budget,
        currency=typed.cost.currency,
    )


def shards_of(placement: Mapping[str, Any]) -> tuple[Shard, ...]:
    """The parts that a Placement has, by number, without asking for what the workload demands."""
    shards = (placement.get("status") or {}).get("shards") or ()
    return _shards(
        PLACEMENT.parse({"spec": placement["spec"], "status": {"shards": shards}}).status
    )


def _shards(status: PlacementStatus) -> tuple[Shard, ...]:
    return tuple(
        Shard(
            cluster=each.cluster,
            index=each.index,
            generation=each.generation,
            intervals=tuple(Interval(role.name, role.first, role.count) for role in each.roles),
            tier=each.tier,
            billing=each.billing,
            per_hour=each.per_hour,
            once=each.data_cost,
            within=tuple(each.blocks),
            done=each.state == "Succeeded",
        )
        for each in sorted(status.shards, key=lambda shard: shard.index)
    )


def with_condition(
    conditions: Sequence[Mapping[str, Any]],
    *,
    type: str,
    status: str,
    reason: str,
    message: str,
    now: datetime,
) -> list[Object]:
    """The conditions with one set; its time moves only when its status changes."""
    before = next((each for each in conditions if each.get("type") == type), None)
    unmoved = before is not None and before.get("status") == status
    since = before["lastTransitionTime"] if before is not None and unmoved else _time(now)
    mine = {
        "type": type, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since,
    }  # fmt: skip
    others = [dict(each) for each in conditions if each.get("type") != type]
    return sorted([*others, mine], key=lambda each: str(each["type"]))


def _planned(plan: Plan, before: Mapping[str, Any]) -> Object:
    noted = {(each["cluster"], each.get("generation")): each for each in before.get("shards") or ()}
    found: Object = {
        "generation": plan.generation,
        "shards": [
            _shard(each, noted.get((each.cluster, each.generation))) for each in plan.shards
        ],
        "usedClusters": ", ".join(
            f"{shard.cluster} {shard.pods}" if len(plan.shards) > 1 else shard.cluster
            for shard in plan.shards
        ),
        "cost": _cost(plan),
    }
    if plan.domain:
        found["plane"] = plan.domain
    if plan.note:
        found["message"] = plan.note
    if plan.why_several:
        found["whySeveral"] = plan.why_several
    if plan.over_budget:
        found["overBudget"] = plan.over_budget
    return found


def _shard(shard: Shard, noted: Mapping[str, Any] | None) -> Object:
    found: Object = {
        "cluster": shard.cluster,
        "index": shard.index,
        "generation": shard.generation,
        "roles": [
            {"name": each.role, "first": each.first, "count": each.count}
            for each in shard.intervals
        ],
        "tier": shard.tier,
        "state": "Planned",
    }
    blocks = [block for block, _ in shard.blocks] or (noted or {}).get("blocks") or []
    if not all(blocks):
        blocks = []  # nodes without the label: there is no way to speak of them
    if blocks:
        found["blocks"] = blocks
    if shard.billing:
        found["billing"] = shard.billing
    if shard.per_hour is not None:
        found["perHour"] = amount_text(shard.per_hour)
    if shard.once:
        found["dataCost"] = amount_text(shard.once)
    return found | {name: noted[name] for name in _NOTES if noted and name in noted}


def _reason(decision: Refusal | Held) -> str:
    return decision.reason if isinstance(decision, Held) else decision.word


def _verdicts(decision: Plan | Refusal | Held, before: Mapping[str, Any]) -> list[Object]:
    """Of a workload that was not asked about only where it was last: it goes there again if it
    can."""
    if isinstance(decision, Held):
        return [each for each in before.get("clusters") or () if each.get("verdict") == "Used"]
    if isinstance(decision, Plan) and not decision.verdicts:
        return list(before.get("clusters") or ())  # nobody else was asked about
    return [_verdict(each) for each in decision.verdicts]


def _role(role: Role) -> Object:
    least: Object = {} if role.least is None else {"min": role.least}
    return {
        "name": role.name,
        "pods": role.pods,
        **least,
        "unit": role.unit,
        "network": role.network,
        "request": {
            name: quantity_text(name, value) for name, value in role.kind.request if name != PODS
        },
    }


def _verdict(verdict: Verdict) -> Object:
    found: Object = {
        "name": verdict.cluster,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "message": verdict.message,
        "tier": verdict.tier,
    }
    if verdict.domain:
        found["plane"] = verdict.domain
    if verdict.pods is not None:
        found["freePods"] = verdict.pods
    if verdict.per_hour is not None:
        found["perHour"] = amount_text(verdict.per_hour)
    return found


def _cost(plan: Plan) -> Object:
    found: Object = {}
    if plan.currency:
        found["currency"] = plan.currency
    if plan.per_hour is not None:
        found["perHour"] = amount_text(plan.per_hour)
    unknown = sorted(
        shard.cluster for shard in plan.shards if shard.per_hour is None or shard.once is None
    )
    if unknown:
        found["unknown"] = unknown
    if plan.next_best is not None and plan.next_best.per_hour is not None:
        found["nextBest"] = plan.next_best.cluster
        found["nextBestPerHour"] = amount_text(plan.next_best.per_hour)
    return found


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
