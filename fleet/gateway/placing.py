"""The planner of `fleet.dispatch`: gathers what there is and has `fleet.scheduling` decide.

Every question is answered from the present state: policies, prices and Placements in flight are
read from the store, capacity from `books`. What an object says is kept beside the very entry it was
read from, so that a thousand Placements in flight are not read a thousand times; what is gone from
the store is gone from here with the next question.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.dispatch.planning import Answer
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.planner import Fleet, decide, in_order, promises_of
from fleet.scheduling.price import prices_of
from fleet.scheduling.selection import policy_of
from policies import PLACEMENT, PLACEMENT_POLICY, PRICE_BOOK
from policies.placement import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime

    from fleet.dispatch.planning import Question
    from fleet.gateway.books import Books
    from fleet.kube.resources import Resource
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

PRIORITY_CLASSES: Final = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")


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
        self._now = now
        self._clock = clock
        self._lease = timedelta(seconds=lease_s)
        self._read: dict[tuple[str, str], _Read] = {}

    def order(self, workloads: Collection[Object]) -> list[Object]:
        """By priority, then by how long they wait, then by name."""
        return in_order([(each, self._placement(each)) for each in workloads], self._priorities())

    async def plan(self, question: Question) -> Answer:
        """Raises Invalid for a workload that nobody could place, a policy that it names and that
        does not exist, or a change of its size while a part of it is to be placed anew."""
        decided = decide(
            question.workload,
            question.placement,
            self._fleet(),
            self._promises(),
            now=self._now(),
            now_s=self._clock(),
            lost=question.lost,
            barred=question.barred,
            unsplittable=question.unsplittable,
        )
        rules = decided.policy.spec
        return Answer(
            spec=decided.spec,
            status=decided.status,
            placed=decided.placed,
            lease_s=rules.failover.tolerate.total_seconds(),
            fencing=rules.failover.fencing,
            offsets=rules.gang.index_mode == "Offset",
            retry_after_s=decided.retry_after_s,
        )

    # -- what there is

    def _fleet(self) -> Fleet:
        return Fleet(
            clusters=tuple(self._books.clusters()),
            policies=tuple(map(policy_of, self._objects(PLACEMENT_POLICY.resource))),
            prices=prices_of(self._objects(PRICE_BOOK.resource), now=self._now()),
            priorities=self._priorities(),
            lease=self._lease,
        )

    def _priorities(self) -> dict[str, int]:
        return {
            obj["metadata"]["name"]: int(obj.get("value", 0))
            for obj in self._objects(_row(PRIORITY_CLASSES))
        }

    def _promises(self) -> Ledger:
        before, self._read = self._read, {}
        for entry in self._store.collection(PLACEMENT.resource).snapshot().entries():
            self._read[entry.key] = self._promised(entry, before.get(entry.key))
        return Ledger.of(each.promises for each in self._read.values())

    def _promised(self, placement: Entry, before: _Read | None) -> _Read:
        """What a Placement promises, read only if it or its workload is not as it was."""
        same = before is not None and before.placement is placement
        told = before.told if before is not None and same else placement.parse()["spec"]["workload"]
        workload = self._workload(placement.namespace, told)
        if before is not None and same and before.workload is workload:
            return before
        promises = Ledger()
        if workload is not None and workload.uid == told.get("uid"):
            promises = promises_of(placement.parse(), workload.parse())
        return _Read(placement, workload, told, promises)

    def _workload(self, namespace: str, told: Object) -> Entry | None:
        resource = builtin.by_kind(told["apiVersion"], told["kind"])
        return self._store.get(resource, namespace, told["name"]) if resource is not None else None

    def _placement(self, workload: Object) -> Object | None:
        metadata = workload["metadata"]
        name = name_of(workload["kind"], metadata["name"])
        entry = self._store.get(PLACEMENT.resource, metadata.get("namespace", ""), name)
        obj = entry.parse() if entry is not None else None
        if obj is None or obj["spec"]["workload"].get("uid") != metadata.get("uid"):
            return None
        return obj

    def _objects(self, resource: Resource) -> Iterator[Object]:
        for entry in self._store.collection(resource).snapshot().entries():
            yield entry.parse()


class _Read(NamedTuple):
    """What a Placement promises as long as it and its workload are these entries."""

    placement: Entry
    workload: Entry | None
    told: Object
    promises: Ledger


def _row(gvr: GroupVersionResource) -> Resource:
    row = builtin.resource(gvr)
    if row is None:
        raise LookupError(f"the release has no {gvr}")
    return row
