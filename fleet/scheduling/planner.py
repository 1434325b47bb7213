"""One workload through all steps: policy, demand, promises, placement, record.

Pure functions of what the fleet is at one time, so that they can be asked without acting as well.
The promises are read off the Placements in flight, which hold every decision that was made: nothing
is remembered between two questions, and a restart changes nothing. `fleet.gateway.placing` gathers
the values and asks for `fleet.dispatch`, which stores each answer before the next question.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Invalid
from fleet.scheduling.demand import demand_of, pod_kinds_of, template_of, workload_of
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placement import Plan, Refusal, place, replace_shards
from fleet.scheduling.price import Prices
from fleet.scheduling.record import plan_of, shards_of, spec_of, status_of
from fleet.scheduling.selection import select
from policies.placement_policy import Failover

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.selection import Policy

Object = dict[str, Any]

_IN_FLIGHT: Final = frozenset({"QuotaHeld", "Holding", "Committed", "Running", "Lost"})
_PROMISED: Final = frozenset({"Planned", "Holding", "Held", "Committed"})
_DEFAULT_LEASE: Final = Failover.model_validate({}).tolerate


@dataclass(frozen=True, slots=True)
class Fleet:
    """What decisions are made over, at one time."""

    clusters: tuple[Cluster, ...]
    policies: tuple[Policy, ...] = ()
    prices: Prices = field(default_factory=Prices)
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Values of the priority classes, by name."""
    lease: timedelta = _DEFAULT_LEASE
    """Of workloads whose policy leaves it at the default."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The Placement's spec and status after a decision, and the rules it was made under.

    `policy` is as it was applied: in one cluster where the workload cannot be split, and with the
    fleet's lease where it names no other. What `warnings` say of the workload is in the status too.
    """

    decision: Plan | Refusal
    policy: Policy
    spec: Object
    status: Object
    warnings: tuple[str, ...] = ()

    @property
    def placed(self) -> bool:
        return isinstance(self.decision, Plan)

    @property
    def retry_after_s(self) -> float | None:
        return None if isinstance(self.decision, Plan) else self.decision.retry_after_s


def decide(
    workload: Object,
    placement: Object | None,
    fleet: Fleet,
    promises: Ledger,
    *,
    now: datetime,
    now_s: float,
    lost: Collection[str] = (),
    barred: Mapping[str, str] | None = None,
    unsplittable: str = "",
) -> Decided:
    """Where a workload goes.

    `placement` is its Placement, None before there was one. With `lost`, only the shards in those
    clusters are placed anew; without, all of it. `barred` says of clusters why they cannot take it
    now, `unsplittable` why it has to stay in one. `now_s` is of the clock that capacities are dated
    with.

    Raises Invalid for a workload, policy or resize that nobody could place.
    """
    selection = select(workload, fleet.policies)
    policy, notes = _applied(selection.policy, fleet.lease, unsplittable)
    notes = (*selection.warnings, *notes)
    demand = demand_of(workload, policy.spec, priorities=fleet.priorities)
    before: Object = (placement or {}).get("status") or {}
    queued_at = _moment(before.get("queuedAt")) or now
    ledger = promises.release(demand.workload.uid)
    clusters = ledger.deducted(_barred(fleet.clusters, barred or {}))
    generation = int(before.get("generation", 0)) + 1
    waited_s = max(0.0, (now - queued_at).total_seconds())
    running = plan_of(placement, demand) if placement is not None and lost else None
    if running is not None:
        _unresized(demand, before)
        decision = replace_shards(
            running, lost, clusters,
            generation=generation, now_s=now_s, prices=fleet.prices, waited_s=waited_s,
        )  # fmt: skip
    else:
        decision = place(
            demand, clusters,
            generation=generation, now_s=now_s, prices=fleet.prices, waited_s=waited_s,
            incumbents=_ran_in(before),
        )  # fmt: skip
    status = status_of(decision, now=now, queued_at=queued_at, before=before)
    if notes:
        status["message"] = "; ".join(filter(None, (status.get("message"), *notes)))
    return Decided(
        decision=decision,
        policy=policy,
        spec=spec_of(demand.workload, policy),
        status=status,
        warnings=(*notes, *fleet.prices.warnings),
    )


def promises_of(placement: Object, workload: Object) -> Ledger:
    """What a Placement promises that may not be seen yet; all that are in flight together are the
    `promises` to decide with.

    Policies have no say in it: what was decided under one that is gone is promised none the less.
    A workload that cannot be read any more promises nothing: nobody will start it.
    """
    status: Object = placement.get("status") or {}
    if status.get("phase") not in _IN_FLIGHT:
        return Ledger()
    shards = status.get("shards") or ()
    states = {each.get("cluster"): each.get("state", "Planned") for each in shards}
    try:
        kinds = pod_kinds_of(workload)
        promised = [each for each in shards_of(placement) if states[each.cluster] in _PROMISED]
    except Invalid:
        return Ledger()
    return Ledger().reserve(workload_of(workload).uid, kinds, promised)


def in_order(
    waiting: Iterable[tuple[Object, Object | None]], priorities: Mapping[str, int]
) -> list[Object]:
    """The workloads, most urgent first: by priority, then who waits longest, then by name.

    Each comes with its Placement, None before there was one.
    """

    def urgency(pair: tuple[Object, Object | None]) -> tuple[int, datetime, str, str]:
        obj, placement = pair
        workload = workload_of(obj)
        queued = _moment(((placement or {}).get("status") or {}).get("queuedAt"))
        since = queued or _moment(_created(obj)) or datetime.max.replace(tzinfo=UTC)
        return -_priority(obj, priorities), since, workload.namespace, workload.name

    return [obj for obj, _ in sorted(waiting, key=urgency)]


def _priority(obj: Object, priorities: Mapping[str, int]) -> int:
    pod_spec: Object = template_of(obj).get("spec") or {}
    given = pod_spec.get("priority")
    return int(
        priorities.get(pod_spec.get("priorityClassName") or "", 0) if given is None else given
    )


def _applied(policy: Policy, lease: timedelta, unsplittable: str) -> tuple[Policy, tuple[str, ...]]:
    """The policy as it applies to the workload, and what its user has to know of that."""
    spec, notes = policy.spec, list[str]()
    if spec.failover.tolerate == _DEFAULT_LEASE:
        failover = spec.failover.model_copy(update={"tolerate": lease})
        spec = spec.model_copy(update={"failover": failover})
    if unsplittable and spec.mode != "One":
        spec = spec.model_copy(update={"mode": "One"})
        notes.append(f"kept in one cluster: {unsplittable}")
    return replace(policy, spec=spec), tuple(notes)


def _ran_in(before: Object) -> list[str]:
    """Where it is, or was placed last: dispatch takes the shards out of a record that waits for
    another plan, the verdicts stay."""
    there = [each["cluster"] for each in before.get("shards") or ()]
    verdicts = before.get("clusters") or ()
    return there or [each["name"] for each in verdicts if each.get("verdict") == "Used"]


def _barred(clusters: Iterable[Cluster], barred: Mapping[str, str]) -> list[Cluster]:
    return [
        replace(each, barred_because=barred[each.name]) if each.name in barred else each
        for each in clusters
    ]


def _unresized(demand: Demand, before: Object) -> None:
    """Raises Invalid when the workload has another size than when it was placed."""
    placed = {each["name"]: each["pods"] for each in before.get("roles") or ()}
    workload = demand.workload
    resized = [role for role in demand.roles if placed.get(role.name, role.pods) != role.pods]
    if not resized:
        return
    role = resized[0]
    why = (
        f"{role.pods} ranks, {placed[role.name]} were placed: what was lost of it cannot be placed "
        "anew in another size; set it back, or delete the workload and create it again"
    )
    raise Invalid.of(
        group=workload.api_version.rpartition("/")[0],
        kind=workload.kind,
        name=workload.name,
        causes=[Cause("FieldValueInvalid", why, "spec.parallelism")],
    )


def _created(obj: Object) -> Any:
    return (obj.get("metadata") or {}).get("creationTimestamp")


def _moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None
