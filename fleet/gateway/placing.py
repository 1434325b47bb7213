"""The planner of `fleet.dispatch`, made of `fleet.scheduling` and the fleet's books.

Every question is answered from the present state: policies, prices and plans in flight are read
from the store, capacity from `books`. Nothing is kept between questions, so nothing can go stale
or leak.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.planning import Answer
from fleet.errors import Invalid
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling import record
from fleet.scheduling.demand import demand_of
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placement import Plan, place, replace_shards
from fleet.scheduling.price import prices_of
from fleet.scheduling.selection import policy_of, select
from policies import PLACEMENT, PLACEMENT_POLICY, PRICE_BOOK
from policies.placement_policy import Failover
from policies.scalars import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime

    from fleet.dispatch.planning import Question
    from fleet.gateway.books import Books
    from fleet.kube.resources import Resource
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.selection import Policy
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

JOBS: Final = GroupVersionResource("batch", "v1", "jobs")
PRIORITY_CLASSES: Final = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")
_DEFAULT_LEASE: Final = Failover.model_validate({}).tolerate
_IN_FLIGHT: Final = frozenset({"QuotaHeld", "Holding", "Committed"})


class Placing:
    """Answers where a workload goes. See `fleet.dispatch.planning.Planner`."""

    def __init__(
        self,
        store: ObjectStore,
        books: Books,
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        lease_s: float,
    ) -> None:
        """`clock` is the one that the books date capacity with; `lease_s` is the lease of
        workloads whose policy says nothing else."""
        self._store = store
        self._books = books
        self._jobs = _row(JOBS)
        self._priority_classes = _row(PRIORITY_CLASSES)
        self._now = now
        self._clock = clock
        self._lease_s = lease_s

    def order(self, workloads: Collection[Object]) -> list[Object]:
        """By priority, then by age, then by name."""
        priorities = self._priorities()

        def urgency(obj: Object) -> tuple[int, str, str, str]:
            spec = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
            metadata = obj["metadata"]
            priority = priorities.get(spec.get("priorityClassName") or "", 0)
            made = str(metadata.get("creationTimestamp", ""))
            return -priority, made, metadata.get("namespace", ""), metadata["name"]

        return sorted(workloads, key=urgency)

    async def plan(self, question: Question) -> Answer:
        """Raises Invalid for a workload that nobody could place, or a policy that it names and
        that does not exist."""
        selection = select(question.workload, self._policies())
        policy = _whole(selection.policy) if question.unsplittable else selection.policy
        demand = demand_of(question.workload, policy.spec, priorities=self._priorities())
        before: Object = question.placement.get("status") or {}
        decision = self._decide(question, demand, before)
        now = self._now()
        status = record.status_of(
            decision, now=now, queued_at=_queued_at(before) or now, before=before
        )
        if notes := _notes(question, selection.policy, selection.warnings):
            status["message"] = "; ".join(filter(None, (status.get("message", ""), *notes)))
        spec = {
            **question.placement["spec"],
            "policy": {"namespace": policy.namespace, "name": policy.name},
        }
        return Answer(
            spec=spec,
            status=status,
            placed=isinstance(decision, Plan),
            lease_s=self._lease_of(policy),
            fencing=policy.spec.failover.fencing,
            offsets=policy.spec.gang.index_mode == "Offset",
            retry_after_s=None if isinstance(decision, Plan) else decision.retry_after_s,
        )

    def _decide(
        self, question: Question, demand: Demand, before: Mapping[str, Any]
    ) -> Plan | Refusal:
        now = self._now()
        queued_at = _queued_at(before)
        generation = int(before.get("generation", 0)) + 1
        clusters = self._ledger(demand.workload.uid).deducted(self._clusters(question.barred))
        prices = prices_of(self._objects(PRICE_BOOK.resource), now=now)
        waited_s = (now - queued_at).total_seconds() if queued_at is not None else 0.0
        present = record.plan_of(question.placement, demand) if question.lost else None
        if present is None:
            return place(
                demand,
                clusters,
                generation=generation,
                now_s=self._clock(),
                prices=prices,
                waited_s=waited_s,
            )
        return replace_shards(
            present,
            question.lost,
            clusters,
            generation=generation,
            now_s=self._clock(),
            prices=prices,
            waited_s=waited_s,
        )

    def _lease_of(self, policy: Policy) -> float:
        told = policy.spec.failover.tolerate
        return self._lease_s if told == _DEFAULT_LEASE else told.total_seconds()

    # -- what there is

    def _clusters(self, barred: Mapping[str, str]) -> list[Cluster]:
        return [
            replace(cluster, barred_because=barred[cluster.name])
            if cluster.name in barred
            else cluster
            for cluster in self._books.clusters()
        ]

    def _ledger(self, but: str) -> Ledger:
        """What plans of other workloads have been promised and is not seen to be taken yet."""
        ledger = Ledger()
        for placement in self._objects(PLACEMENT.resource):
            told = placement["spec"]["workload"]
            status = placement.get("status") or {}
            if told.get("uid") == but or status.get("phase") not in _IN_FLIGHT:
                continue
            namespace = placement["metadata"]["namespace"]
            job = self._store.get(self._jobs, namespace, told["name"])
            if job is None or job.uid != told.get("uid"):
                continue
            plan = self._plan_in_flight(placement, job.parse())
            if plan is not None:
                ledger = ledger.reserve(plan)
        return ledger

    def _plan_in_flight(self, placement: Object, job: Object) -> Plan | None:
        try:
            policy = select(job, self._policies()).policy
            demand = demand_of(job, policy.spec, priorities=self._priorities())
            return record.plan_of(placement, demand)
        except Invalid:
            # its policy went: it was refused, or its pods are seen soon; or its record is of an
            # older form, which must not be the fault of whoever asks
            return None

    def _policies(self) -> list[Policy]:
        return [policy_of(obj) for obj in self._objects(PLACEMENT_POLICY.resource)]

    def _priorities(self) -> dict[str, int]:
        return {
            obj["metadata"]["name"]: int(obj.get("value", 0))
            for obj in self._objects(self._priority_classes)
        }

    def _objects(self, resource: Resource) -> Iterator[Object]:
        for entry in self._store.collection(resource).snapshot().entries():
            yield entry.parse()


def _row(gvr: GroupVersionResource) -> Resource:
    row = builtin.resource(gvr)
    if row is None:
        raise LookupError(f"the release has no {gvr}")
    return row


def _whole(policy: Policy) -> Policy:
    """The policy for a workload that cannot be split."""
    return replace(policy, spec=policy.spec.model_copy(update={"mode": "One"}))


def _notes(question: Question, policy: Policy, warnings: tuple[str, ...]) -> list[str]:
    notes = list(warnings)
    if question.unsplittable and policy.spec.mode != "One":
        notes.append(f"kept in one cluster: {question.unsplittable}")
    return notes


def _queued_at(status: Mapping[str, Any]) -> datetime | None:
    text = status.get("queuedAt")
    return parse_time(text) if text else None
