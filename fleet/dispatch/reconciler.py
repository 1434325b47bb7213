"""One workload brought to what it should be: read the store, look, decide, store, act, fold.

A pass ends when the stored record needs no change and everything that follows from it was done.
Nothing is remembered between passes that could not be read again, but for what saves asking.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.dispatch import record as records
from fleet.dispatch.acting import reason_of
from fleet.dispatch.acts import Hold, Meet, Open, Release, Remove, Renew, Resize
from fleet.dispatch.amiss import leaving, refused_before
from fleet.dispatch.decisions import decide
from fleet.dispatch.elastic import grows
from fleet.dispatch.kinds import KINDS, row_of
from fleet.dispatch.looking import Seen
from fleet.dispatch.marks import FINALIZER
from fleet.dispatch.record import Record
from fleet.dispatch.shape import owner_reference
from fleet.dispatch.sight import Refused
from fleet.dispatch.situation import Decision, Situation, Timing
from fleet.errors import AlreadyExists, ApiError, NotFound, TransportError
from policies import PLACEMENT
from policies.placement import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.dispatch.acting import Actor
    from fleet.dispatch.acts import Act
    from fleet.dispatch.billing import Bill
    from fleet.dispatch.chronicle import Chronicle
    from fleet.dispatch.looking import Looker
    from fleet.dispatch.openings import Openings
    from fleet.dispatch.record import Shard
    from fleet.dispatch.shape import Workload
    from fleet.dispatch.sight import Sight
    from fleet.kube.resources import Resource
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

Object = dict[str, Any]
_ShardOf = tuple[str, int]  # cluster and generation

_STEPS: Final = 24  # of one pass; a workload that needs more is looked at again
# How much of its lease a workload waits for one member, while others wait to be renewed; longer for
# the many requests of a hold, before which all are renewed.
_OF_A_LEASE: Final = 0.2
_OF_A_LEASE_FOR_A_HOLD: Final = 0.4
_PASSING_S: Final = 10.0  # a member that answers with faults for longer refuses
_POLL_S: Final[Mapping[str, float]] = {"Holding": 2.0, "Committed": 2.0, "Running": 20.0}
_CALM_S: Final[Mapping[str, float]] = {"Holding": 2.0, "Committed": 20.0, "Running": 300.0}
"""In case news from a member is late; nothing waits for it. Calmer where there is no lease, since
there may be thousands of such workloads."""


class Key(NamedTuple):
    """A workload of the fleet. `kind` is one of `kinds.KINDS`."""

    kind: str
    namespace: str
    name: str

    @property
    def resource(self) -> Resource:
        return row_of(KINDS[self.kind].gvr)

    @property
    def placement(self) -> str:
        """The name of its Placement."""
        return name_of(self.kind, self.name)

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"


class Outcome(NamedTuple):
    """What a pass leaves to be done: look again in `again_s`, and whether a plan is wanted."""

    again_s: float | None = None
    wants_plan: bool = False


class Reconciler:
    def __init__(
        self,
        store: ObjectStore,
        *,
        looker: Looker,
        actor: Actor,
        chronicle: Chronicle,
        bill: Bill,
        barred: Callable[[str, str, str], None],
        openings: Openings,
        uid: Callable[[], str],
        now: Callable[[], float],
        timing: Timing,
    ) -> None:
        """`barred` is told (workload uid, cluster, why) of clusters that did not hold a plan."""
        self._store = store
        self._placements = PLACEMENT.resource
        self._looker = looker
        self._actor = actor
        self._chronicle = chronicle
        self._bill = bill
        self._barred = barred
        self._openings = openings
        self._uid = uid
        self._now = now
        self._timing = timing
        # What members refuse of shards that were committed, by workload; tried again all the time.
        self._unserved: dict[str, dict[_ShardOf, Refused]] = {}

    def patience_s(self, key: Key) -> float | None:
        """How long a pass that failed may be left at that: other shards' leases run meanwhile."""
        entry = self._get(key)
        placement = self._store.get(self._placements, key.namespace, key.placement)
        if entry is None or placement is None:
            return None
        record = records.read(placement.parse().get("status") or {})
        return _patience_s(KINDS[key.kind].read(entry.parse()), record)

    async def reconcile(self, key: Key) -> Outcome:
        """One pass. Raises what is to be tried again: StoreError, ApiError, TransportError."""
        entry = self._get(key)
        placement = self._store.get(self._placements, key.namespace, key.placement)
        workload = KINDS[key.kind].read(entry.parse()) if entry is not None else None
        if placement is not None:
            owner = placement.parse()["spec"]["workload"]["uid"]
            if workload is None or workload.uid != owner:
                outcome = await self._bury(key, placement, again=workload is not None)
                if workload is not None and not workload.deleting:
                    await self._say_what_is_in_its_way(key, workload)
                return outcome
        if workload is None or workload.others:
            return Outcome()
        if placement is None:
            assert entry is not None
            return await self._begin(key, workload, entry.revision)
        return await self._bring(key, workload, placement)

    # -- the objects at the gateway

    def _get(self, key: Key) -> Entry | None:
        return self._store.get(key.resource, key.namespace, key.name)

    async def _begin(self, key: Key, workload: Workload, revision: int) -> Outcome:
        """One that is not known yet, as of `revision`: hold on to it, then begin its record."""
        if workload.deleting:
            await self._let_go(key, workload.uid)
            return Outcome()
        if workload.finished:
            return Outcome()
        await self._hold_on(key, workload.uid)
        now = self._now()
        record = Record(since=now)
        status = records.write(record, {"queuedAt": records.text_of(now), "arrival": revision})
        obj = {
            "apiVersion": self._placements.api_version,
            "kind": PLACEMENT.name,
            "metadata": {
                "name": key.placement,
                "namespace": key.namespace,
                "uid": self._uid(),
                "creationTimestamp": records.text_of(now),
                "generation": 1,
                "finalizers": [FINALIZER],
                "ownerReferences": [owner_reference(workload)],
            },
            "spec": {
                "workload": {
                    "apiVersion": workload.obj["apiVersion"],
                    "kind": workload.obj["kind"],
                    "name": workload.name,
                    "uid": workload.uid,
                }
            },
            "status": status,
        }
        try:
            placement = await self._store.create(self._placements, obj)
        except AlreadyExists:
            return Outcome(again_s=0.0)
        return await self._bring(key, workload, placement)

    async def _hold_on(self, key: Key, uid: str) -> None:
        def change(obj: Object) -> Object | None:
            metadata = obj["metadata"]
            if metadata["uid"] != uid or metadata.get("deletionTimestamp"):
                return None
            finalizers = metadata.get("finalizers") or []
            if FINALIZER in finalizers:
                return None
            metadata["finalizers"] = [*finalizers, FINALIZER]
            return obj

        await self._rewrite(key, change)

    async def _rewrite(self, key: Key, change: Callable[[Object], Object | None]) -> None:
        await self._store.rewrite(
            key.resource, namespace=key.namespace, name=key.name, change=change
        )

    async def _let_go(self, key: Key, uid: str) -> None:
        """Take our finalizer off; what is held by nobody else goes."""
        entry = self._get(key)
        if entry is None or entry.uid != uid:
            return
        await self._release(key.resource, entry)

    async def _release(self, resource: Resource, entry: Entry) -> None:
        obj = entry.parse()
        metadata = obj["metadata"]
        finalizers = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
        if finalizers or not metadata.get("deletionTimestamp"):
            if finalizers == (metadata.get("finalizers") or []):
                return
            metadata["finalizers"] = finalizers
            if not finalizers:
                del metadata["finalizers"]
            if metadata.get("deletionGracePeriodSeconds"):
                metadata["deletionGracePeriodSeconds"] = 0  # it is over: only finalizers hold it
            await self._store.update(resource, obj, expected=entry.revision)
            return
        try:
            await self._store.delete(
                resource, namespace=entry.namespace, name=entry.name, expected=entry.revision
            )
        except NotFound:
            return

    async def _bury(self, key: Key, placement: Entry, *, again: bool) -> Outcome:
        """A record whose workload is no more: what it put into members goes, then the record."""
        told = placement.parse()["spec"]["workload"]
        stub = KINDS[key.kind].stub(
            {
                "name": told["name"],
                "namespace": key.namespace,
                "uid": told["uid"],
                "deletionTimestamp": records.text_of(self._now()),
            }
        )
        outcome = await self._bring(key, stub, placement)
        return outcome._replace(again_s=0.0) if again and outcome.again_s is None else outcome

    async def _say_what_is_in_its_way(self, key: Key, workload: Workload) -> None:
        """An earlier one of its name, as long as that is not seen gone."""
        placement = self._store.get(self._placements, key.namespace, key.placement)
        if placement is None:
            return
        owed = records.read(placement.parse().get("status") or {}).owed
        where = ", ".join(sorted({debt.cluster for debt in owed})) or "the fleet"
        message = f"an earlier {workload.kind.name} of this name is not seen gone from {where}"
        record = Record(reason="NotFenced", message=message)
        await self._fold(key, workload, record, Seen({}, {}))

    async def _finish(self, key: Key, uid: str) -> None:
        """Nothing is left in any member: the record goes, then the workload may. What it cost is
        kept before."""
        self._unserved.pop(uid, None)
        name = key.placement
        entry = self._store.get(self._placements, key.namespace, name)
        if entry is not None:
            await self._bill.settle(entry.parse())
            try:
                await self._store.delete(
                    self._placements,
                    namespace=key.namespace,
                    name=name,
                    expected=entry.revision,
                )
            except NotFound:
                pass
        await self._let_go(key, uid)

    # -- the pass

    async def _bring(self, key: Key, workload: Workload, placement: Entry) -> Outcome:
        refused: dict[str, Refused] = {}
        for _ in range(_STEPS):
            record = records.read(placement.parse().get("status") or {})
            unserved = dict(self._refusals(workload.uid, record))
            lasting = {
                shard.cluster: told
                for shard in record.shards
                if shard.live and (told := unserved.get(_of(shard))) and self._is_said(told)
            }
            seen = _with_refusals(await self._looker.look(workload, record), lasting | refused)
            decision = decide(self._situation(workload, record, seen))
            for cluster, why in decision.barred.items():
                self._barred(workload.uid, cluster, why)
            if decision.gone and decision.record == record:
                await self._finish(key, workload.uid)
                return Outcome()
            if decision.record != record:
                # One that fails is due again after what is to be stored.
                await self._carry_out(_renewals(decision, record), workload, record, seen)
                placement = await self._write(placement, decision.record)
                await self._chronicle.note(workload, record, decision.record)
                refused.clear()
                continue
            if workload.deleting and workload.ask().grace_s == 0:
                # Forced: it goes at once, what is left of it in members stays owed by its record.
                await self._let_go(key, workload.uid)
            refusals, failures = await self._carry_out(decision.acts, workload, record, seen)
            refused |= refusals
            await self._fold(key, workload, record, seen)
            if failures and not refused:
                raise failures[0]
            if not refused and self._unserved.get(workload.uid, {}) == unserved:
                expires_s = await self._expire(key, workload, decision)
                return self._outcome(workload, record, decision, expires_s)
        return Outcome(again_s=0.0)

    def _situation(self, workload: Workload, record: Record, seen: Seen) -> Situation:
        return Situation(
            ask=workload.ask(),
            record=record,
            now=self._now(),
            sights=seen.shards,
            debts=seen.debts,
            disturbed=seen.disturbed,
            timing=self._timing,
            elsewhere=self._openings.of(workload.uid),
        )

    async def _write(self, placement: Entry, record: Record) -> Entry:
        """Store the record if nobody else did meanwhile. Raises Conflict otherwise."""
        obj = placement.parse()
        before = obj.get("status") or {}
        obj["status"] = self._bill.carry(before, records.write(record, before))
        return await self._store.update(self._placements, obj, expected=placement.revision)

    async def _carry_out(
        self, todo: Sequence[Act], workload: Workload, record: Record, seen: Seen
    ) -> tuple[dict[str, Refused], list[Exception]]:
        """Everything that is to be done, members side by side; none takes longer than the leases of
        the others allow. Returns refusals by cluster, and what failed."""
        by_cluster: dict[str, list[Act]] = {}
        for act in todo:
            cluster = act.cluster if isinstance(act, Remove | Release) else act.shard.cluster
            by_cluster.setdefault(cluster, []).append(act)
        if not by_cluster:
            return {}, []
        refused: dict[str, Refused] = {}
        served: dict[_ShardOf, Refused | None] = {}
        failures: list[Exception] = []

        async def in_one(cluster: str, acts: Sequence[Act]) -> None:
            for act in acts:
                try:
                    why = await self._actor.act(act, workload, record, seen.shards)
                except (ApiError, TransportError) as error:
                    failures.append(error)
                    if isinstance(act, Meet | Open | Renew | Resize):
                        served[_of(act.shard)] = served.get(_of(act.shard)) or self._failed(error)
                    if isinstance(act, Meet) and not _before_it_begins(act, workload, record):
                        continue  # what begins there anew needs its gate all the same
                    return
                if isinstance(act, Meet | Open | Resize):
                    served[_of(act.shard)] = served.get(_of(act.shard)) or why
                if why is None:
                    continue
                if isinstance(act, Hold):
                    refused[cluster] = why
                    return
                if isinstance(act, Meet) and _before_it_begins(act, workload, record):
                    return

        async def in_time(cluster: str, acts: Sequence[Act]) -> None:
            holds = any(isinstance(act, Hold) for act in acts)
            within_s = _patience_s(workload, record, holds=holds)
            try:
                async with asyncio.timeout(within_s):
                    await in_one(cluster, acts)
            except TimeoutError:
                # What it was asked for is perhaps done; the next look will tell.
                failures.append(TransportError(f"{cluster} is not done within {within_s:g} s"))

        async with asyncio.TaskGroup() as group:
            for cluster, acts in by_cluster.items():
                group.create_task(in_time(cluster, acts), name=f"act in {cluster}")
        self._note_served(workload.uid, record, served)
        return refused, failures

    def _note_served(
        self, uid: str, record: Record, served: Mapping[_ShardOf, Refused | None]
    ) -> None:
        live = {_of(each) for each in record.shards}
        known = {each: why for each, why in self._refusals(uid, record).items() if each in live}
        for each, why in served.items():
            before = known.pop(each, None)
            if why is not None and before is not None:
                # Its first words stay while the reason does: some tell a time or a revision.
                why = before if before.reason == why.reason else replace(why, since=before.since)
            if why is not None:
                known[each] = why
        self._unserved[uid] = known

    def _refusals(self, uid: str, record: Record) -> Mapping[_ShardOf, Refused]:
        """What was refused when it was last tried; after a start, as it is stored: until it is
        tried again, nothing says that it is over."""
        if uid not in self._unserved:
            stored = ((_of(each), refused_before(each)) for each in record.shards)
            self._unserved[uid] = {each: why for each, why in stored if why is not None}
        return self._unserved[uid]

    def _failed(self, error: ApiError | TransportError) -> Refused:
        reason = reason_of(error) if isinstance(error, ApiError) else "Unreachable"
        return Refused(reason, str(error), since=self._now(), passing=True)

    def _is_said(self, why: Refused) -> bool:
        """What may be over with the next try is no refusal before it has lasted."""
        return not why.passing or self._now() >= why.since + _PASSING_S

    async def _fold(self, key: Key, workload: Workload, record: Record, seen: Seen) -> None:
        now = self._now()

        def change(obj: Object) -> Object | None:
            if obj["metadata"]["uid"] != workload.uid:
                return None
            kind = workload.kind
            folded = kind.fold(kind.read(obj), record, seen.folded, now=now)
            return None if folded == obj else folded

        try:
            await self._rewrite(key, change)
        except NotFound:
            return

    async def _expire(self, key: Key, workload: Workload, decision: Decision) -> float | None:
        """Begin the deletion of a workload that has outlived its end, or that was taken away in
        its member; seconds until then otherwise."""
        if workload.deleting:
            return None
        now = self._now()
        grace_s = decision.taken_s
        if grace_s is None:
            ends = workload.expires_at()
            if ends is None:
                return None
            if now < ends:
                return ends - now

        def change(obj: Object) -> Object | None:
            metadata = obj["metadata"]
            if metadata["uid"] != workload.uid or metadata.get("deletionTimestamp"):
                return None
            metadata["deletionTimestamp"] = records.text_of(now + (grace_s or 0))
            metadata["deletionGracePeriodSeconds"] = grace_s or 0
            return obj

        await self._rewrite(key, change)
        return 0.0

    def _outcome(
        self, workload: Workload, record: Record, decision: Decision, expires_s: float | None
    ) -> Outcome:
        ask = workload.ask()
        poll_s = (_POLL_S if ask.lapses else _CALM_S).get(record.phase)
        waits = [decision.again_s, expires_s, poll_s]
        wants = not (ask.suspended or ask.deleting) and (
            record.waiting
            or grows(record, workload.obj, workload.nodes)
            or (ask.moves and bool(leaving(record, self._now())))
        )
        return Outcome(
            again_s=min((each for each in waits if each is not None), default=None),
            wants_plan=wants and not record.unfenced(self._now()),
        )


def _patience_s(workload: Workload, record: Record, *, holds: bool = False) -> float | None:
    """How long a member may keep the others waiting; None where nobody's lease runs."""
    if not workload.ask().lapses or not any(shard.live for shard in record.shards):
        return None
    return record.lease_s * (_OF_A_LEASE_FOR_A_HOLD if holds else _OF_A_LEASE)


def _renewals(decision: Decision, record: Record) -> list[Act]:
    """What need not wait until the decision is stored: leases of shards that are stored as running
    on, and not as silent."""
    stored = {_of(each) for each in record.shards if each.live and each.leased_until is None}
    return [act for act in decision.acts if isinstance(act, Renew) and _of(act.shard) in stored]


def _of(shard: Shard) -> _ShardOf:
    return shard.cluster, shard.generation


def _before_it_begins(act: Meet, workload: Workload, record: Record) -> bool:
    """Whether pods are to find each other, or to be walled in, before the first of them starts."""
    return (workload.gang or record.apart.walled) and act.shard.state != "Running"


def _with_refusals(seen: Seen, refused: Mapping[str, Refused]) -> Seen:
    if not refused:
        return seen
    shards: dict[str, Sight] = {
        cluster: replace(sight, refused=refused.get(cluster)) if sight.reached else sight
        for cluster, sight in seen.shards.items()
    }
    return seen._replace(shards=shards)
