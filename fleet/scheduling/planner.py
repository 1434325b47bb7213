"""One workload through all steps: policy, demand, promises, placement, record.

A pure function of what the fleet is at one time, so that it can be asked without acting as well.
The promises are read off the Placements in flight, which hold every decision that was made; nothing
is remembered between two questions, and a restart changes nothing. Whoever asks stores the answer
before the next question. Next step: `fleet.dispatch`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Invalid
from fleet.scheduling.demand import demand_of, workload_of
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placement import Plan, Refusal, place, replace_shards
from fleet.scheduling.price import Prices
from fleet.scheduling.record import placement_of, plan_of, status_of
from fleet.scheduling.selection import select

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.selection import Policy
    from policies.placement import Fencing

Object = dict[str, Any]

_IN_FLIGHT: Final = frozenset({"QuotaHeld", "Holding", "Committed", "Running"})
_PROMISED: Final = frozenset({"Planned", "Holding", "Held", "Committed"})


@dataclass(frozen=True, slots=True)
class Fleet:
    """What decisions are made over, at one time."""

    clusters: tuple[Cluster, ...]
    policies: tuple[Policy, ...] = ()
    prices: Prices = field(default_factory=Prices)
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Values of the priority classes, by name."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The Placement's spec and status after a decision, and what follows from the policy."""

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
        return self.decision.retry_after_s if isinstance(self.decision, Refusal) else None

    @property
    def lease_s(self) -> float:
        return self.policy.spec.failover.tolerate.total_seconds()

    @property
    def fencing(self) -> Fencing:
        return self.policy.spec.failover.fencing


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
    demand = demand_of(workload, selection.policy.spec, priorities=fleet.priorities)
    warnings = [*selection.warnings, *fleet.prices.warnings]
    if unsplittable and demand.policy.mode != "One":
        whole = demand.policy.model_copy(update={"mode": "One"})
        demand = replace(demand, policy=whole)
        warnings.append(f"it has to stay in one cluster: {unsplittable}")
    before: Object = (placement or {}).get("status") or {}
    queued_at = _moment(before.get("queuedAt")) or _moment(_created(workload)) or now
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
            incumbents=[shard["cluster"] for shard in before.get("shards") or ()],
        )  # fmt: skip
    if isinstance(decision, Refusal) and unsplittable and selection.policy.spec.mode != "One":
        message = f"{decision.message}; it has to stay in one cluster: {unsplittable}"
        decision = replace(decision, message=message)
    return Decided(
        decision=decision,
        policy=selection.policy,
        spec=placement_of(demand, selection.policy)["spec"],
        status=status_of(decision, now=now, queued_at=queued_at, before=before),
        warnings=tuple(warnings),
    )


def promises_of(placed: Iterable[tuple[Object, Object]], fleet: Fleet) -> Ledger:
    """What all Placements in flight promise; each comes with its workload.

    A workload that cannot be read any more promises nothing: nobody will start it.
    """
    ledger = Ledger()
    for placement, workload in placed:
        status: Object = placement.get("status") or {}
        if status.get("phase") not in _IN_FLIGHT:
            continue
        try:
            policy = select(workload, fleet.policies).policy.spec
            demand = demand_of(workload, policy, priorities=fleet.priorities)
            plan = plan_of(placement, demand)
        except Invalid:
            continue
        states = {each["cluster"]: each.get("state", "Planned") for each in status["shards"]}
        for shard in plan.shards if plan is not None else ():
            if plan is not None and states[shard.cluster] in _PROMISED:
                alone = replace(plan, generation=shard.generation, shards=(shard,))
                ledger = ledger.reserve(alone)
    return ledger


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
    spec: Object = obj.get("spec") or {}
    template = obj if obj.get("kind") == "Pod" else spec.get("template") or {}
    pod_spec: Object = template.get("spec") or {}
    given = pod_spec.get("priority")
    return int(
        priorities.get(pod_spec.get("priorityClassName") or "", 0) if given is None else given
    )


def _barred(clusters: Iterable[Cluster], barred: Mapping[str, str]) -> list[Cluster]:
    return [
        replace(each, barred_because=barred[each.name]) if each.name in barred else each
        for each in clusters
    ]


def _unresized(demand: Demand, before: Object) -> None:
    """Raises Invalid when the workload has another size than when it was placed."""
    placed = {each["name"]: each["pods"] for each in before.get("roles") or ()}
    role, workload = demand.role, demand.workload
    if placed.get(role.name, role.pods) == role.pods:
        return
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
