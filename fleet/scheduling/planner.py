"""One workload through all steps: policy, demand, promises, placement, record.

Pure functions of what the fleet is at one time, so that they can be asked without acting as well.
The promises are read off the Placements in flight, which hold every decision that was made: nothing
is remembered between two questions, and a restart changes nothing. `fleet.gateway.placing` gathers
the values; `rooms` asks for the engine, which decides whose turn it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.errors import Cause, Invalid
from fleet.scheduling.clusters import opens_after_s
from fleet.scheduling.cost.ceilings import NO_CEILINGS, afforded
from fleet.scheduling.counted import times, total
from fleet.scheduling.demand import demand_of, pod_kinds_of, template_of, workload_of
from fleet.scheduling.extension import NONE
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placement import Plan, Refusal, placed, placed_anew
from fleet.scheduling.placer import Item
from fleet.scheduling.price import Prices
from fleet.scheduling.record import (
    COUNTED,
    Held,
    plan_of,
    shards_of,
    spec_of,
    status_of,
    with_condition,
)
from fleet.scheduling.selection import select
from fleet.scheduling.views import AS_IT_IS, Views
from policies.placement_policy import Failover
from policies.scalars import duration_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.cost.ceilings import Ceilings
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.extension import Extensions
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.selection import Policy
    from fleet.scheduling.standing import Wish

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
    never_preempt: frozenset[str] = frozenset()
    """Priority classes for whose work nothing is ended."""
    lease: timedelta = _DEFAULT_LEASE
    """Of workloads whose policy leaves it at the default."""
    extensions: Extensions = NONE
    ceilings: Ceilings = NO_CEILINGS
    """What may still be spent."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The Placement's spec and status after a decision, and the rules it was made under.

    `policy` is as it was applied: in one cluster where the workload cannot be split, and with the
    fleet's lease where it names no other. What `warnings` say of the workload is in the status too.
    """

    decision: Plan | Refusal | Held
    policy: Policy
    spec: Object
    status: Object
    warnings: tuple[str, ...] = ()

    @property
    def placed(self) -> bool:
        return isinstance(self.decision, Plan)

    @property
    def final(self) -> bool:
        """Whether it is refused, and not to wait."""
        return isinstance(self.decision, Refusal) and self.decision.final

    @property
    def retry_after_s(self) -> float | None:
        return self.decision.retry_after_s if isinstance(self.decision, Refusal) else None


@dataclass(frozen=True, slots=True)
class Asked:
    """A workload that is to be placed, read together with its Placement and its policy."""

    demand: Demand
    policy: Policy
    before: Object
    """The status of its Placement."""
    queued_at: datetime
    notes: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()
    barred: Mapping[str, str] = field(default_factory=dict)
    running: Plan | None = None
    """What stays while only the shards in `lost` are placed anew."""
    extensions: Extensions = NONE
    elastic: bool = False
    grows: bool = False
    """Whether it runs with what stays, and can do without more."""
    more: int | None = None
    """Most pods that it may get besides what stays; None: all that it asks for."""

    @property
    def generation(self) -> int:
        """Of the plan to come."""
        return int(self.before.get("generation", 0)) + 1

    @property
    def latest_s(self) -> float | None:
        """When it has to start to be done by its deadline; None where that is not known."""
        slack_s = self.demand.slack_s
        return None if slack_s is None else self.queued_at.timestamp() + slack_s

    @property
    def likeness(self) -> tuple[object, ...] | None:
        """Equal for workloads that find room together or not at all; None for one that is to be
        asked about by itself."""
        policy = self.policy
        if (
            self.running is not None
            or self.extensions.decide
            or any(each.after for each in policy.spec.clusters.tiers)
        ):
            return None
        return (
            self.demand.roles,
            self.demand.run_time_s,
            (policy.namespace, policy.name, policy.spec.mode, self.demand.policy.mode),
            tuple(sorted(self.barred.items())),
            tuple(sorted(_ran_in(self.before))),
        )

    def asks_the_same(self, other: Asked) -> bool:
        """Whether both are answered alike: what a Placement says besides is of no account."""
        if self is other:
            return True
        mine, theirs = replace(self, before={}), replace(other, before={})
        return (
            mine == theirs
            and self.generation == other.generation
            and _ran_in(self.before) == _ran_in(other.before)
        )

    def next_s(self, now_s: float) -> float | None:
        """When it may be answered otherwise by time alone: a later tier is tried, or its deadline
        cannot be met any more."""
        queued_s, slack_s = self.queued_at.timestamp(), self.demand.slack_s
        tiers = self.demand.policy.clusters.tiers
        times = [] if slack_s is None else [queued_s + slack_s]
        if any(each.after for each in tiers):
            times += (
                queued_s + opens_after_s(self.demand, number) for number in range(1, 1 + len(tiers))
            )
        return min((at for at in times if at > now_s), default=None)

    @property
    def policy_name(self) -> str:
        """As bills have it."""
        return f"{self.policy.namespace}/{self.policy.name}"

    def at_most(self, requests: Mapping[Key, int], wish: Wish) -> Asked:
        """The same, elastic, and no larger than what is requested pays for."""
        roles = self.demand.roles
        fixed = {
            role.name: total(
                times(wish.counts[other.name], other.pods) for other in roles if other is not role
            )
            for role in roles
        }
        paid = []
        for role in roles:
            counts, pods = wish.counts[role.name], role.pods
            if role.least is not None:
                for key, value in requests.items():
                    if counts.get(key):
                        left = value - fixed[role.name].get(key, 0)
                        pods = min(pods, left // counts[key] // role.unit * role.unit)
                pods = max(role.least, pods)
            paid.append(replace(role, pods=pods))
        return replace(self, demand=replace(self.demand, roles=tuple(paid)), elastic=True)

    def choose(
        self,
        views: Views,
        ceilings: Ceilings,
        *,
        now: datetime,
        but: Mapping[str, Cluster] = AS_IT_IS,
        quick: bool = False,
    ) -> Plan | Refusal:
        """Where it goes, over clusters that have deducted what is promised to others, if budgets
        let it. `but` are clusters of them as they would be for this question; `quick` is for
        questions whose answer nobody is told."""
        decision = self._place(views, now, but, quick=quick)
        if isinstance(decision, Refusal):
            return decision
        budget = self.policy.spec.objective.budget
        return afforded(decision, ceilings, policy=self.policy_name, budget=budget, now=now)

    def _place(
        self, views: Views, now: datetime, but: Mapping[str, Cluster], *, quick: bool
    ) -> Plan | Refusal:
        if self.barred:
            but = {**but, **_barred(views, but, self.barred)}
        waited_s = max(0.0, (now - self.queued_at).total_seconds())
        if self.running is not None:
            return placed_anew(
                self.running, self.lost, views,
                generation=self.generation, waited_s=waited_s, extensions=self.extensions, but=but,
                more=self.more,
            )  # fmt: skip
        return placed(
            self.demand, views,
            generation=self.generation, waited_s=waited_s, incumbents=_ran_in(self.before),
            elastic=self.elastic, extensions=self.extensions, but=but, quick=quick,
        )  # fmt: skip

    def decided(self, decision: Plan | Refusal | Held, prices: Prices, *, now: datetime) -> Decided:
        """The decision as it is written down."""
        status = status_of(
            decision, now=now, queued_at=self.queued_at, before=self.before, roles=self.demand.roles
        )
        notes = (
            *_smaller(self.demand, decision), *self.notes, *_late(self.demand, self.queued_at, now)
        )  # fmt: skip
        if notes:
            status["message"] = "; ".join(filter(None, (status.get("message"), *notes)))
        return Decided(
            decision=decision,
            policy=self.policy,
            spec=spec_of(self.demand.workload, self.policy),
            status=status,
            warnings=(*notes, *prices.warnings),
        )


def asked_of(
    workload: Object,
    placement: Object | None,
    fleet: Fleet,
    *,
    now: datetime,
    lost: Collection[str] = (),
    stays: bool = False,
    grows: bool = False,
    barred: Mapping[str, str] | None = None,
    unsplittable: str = "",
) -> Asked:
    """What is asked for a workload. `placement` is its Placement, None before there was one. With
    `lost`, only the shards in those clusters are to be placed anew; without, all of it, but for
    what it has where that `stays`. It `grows` where that will do. `barred` says of clusters why
    they cannot take it now, `unsplittable` why it has to stay in one.

    Raises Invalid for a workload, policy or resize that nobody could place.
    """
    selection = select(workload, fleet.policies)
    policy, notes = _applied(selection.policy, fleet.lease, unsplittable)
    demand = demand_of(workload, policy.spec, priorities=fleet.priorities)
    before: Object = (placement or {}).get("status") or {}
    running = plan_of(placement, demand) if placement is not None and (lost or stays) else None
    if running is not None:
        _unresized(demand, before)
    return Asked(
        demand=demand,
        policy=policy,
        before=before,
        queued_at=_moment(before.get("queuedAt")) or now,
        notes=(*selection.warnings, *notes, *_rigid(demand)),
        lost=frozenset(lost),
        barred=barred or {},
        running=running,
        extensions=fleet.extensions,
        grows=grows,
    )


def item_of(asked: Asked, wish: Wish, *, quota: str, sequence: int, preempts: bool) -> Item:
    """What waits, as the engine sees it. `quota` counts its namespace, `sequence` says who came
    first, `preempts` whether anything may be ended for it."""
    checkpoint = asked.policy.spec.objective.checkpoint
    return Item(
        uid=asked.demand.workload.uid,
        quota=quota,
        priority=asked.demand.priority,
        sequence=sequence,
        requests=wish.whole,
        least=_least(asked.demand, wish),
        shape=asked.demand.workload.uid,
        run_time_s=asked.demand.run_time_s,
        saves_every_s=checkpoint.every.total_seconds(),
        restart_s=checkpoint.restart.total_seconds(),
        generation=asked.generation,
        pods=sum(wish.pods.values()),
        latest_s=asked.latest_s,
        preempts=preempts,
    )


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
    """Where a workload goes, all others left as they are. See `asked_of`; `now_s` is of the clock
    that capacities are dated with."""
    asked = asked_of(
        workload, placement, fleet, now=now, lost=lost, barred=barred, unsplittable=unsplittable
    )
    ledger = promises.release(asked.demand.workload.uid)
    views = Views(ledger.deducted(fleet.clusters), prices=fleet.prices, now_s=now_s)
    decision = asked.choose(views, fleet.ceilings, now=now)
    return asked.decided(decision, fleet.prices, now=now)


def counted_in(decided: Decided, quota: str, now: datetime) -> Object:
    """The status with the FleetQuota that counts it, "" where none does."""
    status, decision = decided.status, decided.decision
    if not quota:
        conditions = [e for e in status.get("conditions") or () if e["type"] != COUNTED]
        left = {name: value for name, value in status.items() if name != "quota"}
        return {**left, "conditions": conditions}
    if isinstance(decision, Plan):
        told = "True", "QuotaReserved", f"counted in quota {quota}"
    elif isinstance(decision, Held):
        told = "False", decision.reason, decision.message
    elif decision.reason:
        told = "False", decision.reason, decision.message
    else:
        told = "False", decision.awaits or "NoRoom", "what has no room holds no quota"
    conditions = with_condition(
        status.get("conditions") or (),
        type=COUNTED, status=told[0], reason=told[1], message=told[2], now=now,
    )  # fmt: skip
    return {**status, "quota": quota, "conditions": conditions}


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


class Urgency(NamedTuple):
    """What a workload says of its priority: a number of its own, or its class."""

    priority: int | None
    class_name: str
    never_preempts: bool

    @classmethod
    def of(cls, obj: Object) -> Urgency:
        pod_spec: Object = template_of(obj).get("spec") or {}
        priority = pod_spec.get("priority")
        return cls(
            None if priority is None else int(priority),
            str(pod_spec.get("priorityClassName") or ""),
            pod_spec.get("preemptionPolicy") == "Never",
        )

    def value(self, fleet: Fleet) -> int:
        if self.priority is not None:
            return self.priority
        return fleet.priorities.get(self.class_name, 0)

    def preempts(self, fleet: Fleet) -> bool:
        """Whether anything may be ended for it, as Kubernetes has it."""
        return not self.never_preempts and self.class_name not in fleet.never_preempt


def _applied(policy: Policy, lease: timedelta, unsplittable: str) -> tuple[Policy, tuple[str, ...]]:
    """The policy as it applies to the workload, and what its user has to know of that."""
    spec, notes = policy.spec, list[str]()
    if spec.failover.tolerate == _DEFAULT_LEASE != lease:
        failover = spec.failover.model_copy(update={"tolerate": lease})
        spec = spec.model_copy(update={"failover": failover})
    if unsplittable and spec.mode != "One":
        spec = spec.model_copy(update={"mode": "One"})
        notes.append(f"kept in one cluster: {unsplittable}")
    return replace(policy, spec=spec), tuple(notes)


def _rigid(demand: Demand) -> Iterator[str]:
    """That it is not placed smaller, where its policy would let it be."""
    if demand.rigid:
        yield f"all of it or none, whatever its policy says: {demand.rigid}"


def _smaller(demand: Demand, decision: Plan | Refusal | Held) -> Iterator[str]:
    """That an elastic gang begins with fewer ranks than it asks for."""
    if isinstance(decision, Plan) and decision.pods < demand.pods:
        yield f"{decision.pods} of {demand.pods} ranks found room; it grows when more do"


def _least(demand: Demand, wish: Wish) -> dict[Key, int] | None:
    """What the smallest size of an elastic gang counts for; None where it is all or none."""
    if not demand.elastic:
        return None
    return total(
        times(wish.counts[role.name], role.pods if role.least is None else role.least)
        for role in demand.roles
    )


def _late(demand: Demand, queued_at: datetime, now: datetime) -> Iterator[str]:
    """That a deadline cannot be met, once that is so."""
    deadline, slack_s = demand.policy.objective.deadline, demand.slack_s
    if deadline is None or slack_s is None or now <= queued_at + timedelta(seconds=slack_s):
        return
    due = (queued_at + deadline).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    needs = duration_text(timedelta(seconds=demand.run_time_s or 0))
    yield f"its deadline, {due}, cannot be met any more: it is expected to run for {needs}"


def _ran_in(before: Object) -> list[str]:
    """Where it is, or was placed last: dispatch takes the shards out of a record that waits for
    another plan, the verdicts stay."""
    there = [each["cluster"] for each in before.get("shards") or ()]
    verdicts = before.get("clusters") or ()
    return there or [each["name"] for each in verdicts if each.get("verdict") == "Used"]


def _barred(
    views: Views, but: Mapping[str, Cluster], barred: Mapping[str, str]
) -> dict[str, Cluster]:
    return {
        name: replace(but.get(name) or views.cluster(name), barred_because=why)
        for name, why in barred.items()
        if name in views
    }


def _unresized(demand: Demand, before: Object) -> None:
    """Raises Invalid when the workload has another size than when it was placed, or of one that may
    have that, not as many ranks as have a place."""
    placed = {each["name"]: each["pods"] for each in before.get("roles") or ()}
    if demand.elastic:
        placed = {
            each["name"]: int(each["first"]) + int(each["count"])
            for shard in before.get("shards") or ()
            for each in shard.get("roles") or ()
            if int(each["first"]) + int(each["count"]) > demand.pods
        }
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


def _moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None
