"""One workload brought to what it should be: read the store, look, decide, store, act, fold.

A pass ends when the stored record needs no change and everything that follows from it was done.
Nothing is remembered between passes that could not be read again, but for what saves asking.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.dispatch import fold
from fleet.dispatch import record as records
from fleet.dispatch.decisions import Decision, Hold, Release, Remove, Situation, Timing, decide
from fleet.dispatch.marks import FINALIZER
from fleet.dispatch.record import Record
from fleet.dispatch.shape import Workload, owner_reference
from fleet.errors import AlreadyExists, ApiError, NotFound, TransportError
from policies import PLACEMENT
from policies.placement import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.dispatch.acting import Actor
    from fleet.dispatch.chronicle import Chronicle
    from fleet.dispatch.decisions import Act
    from fleet.dispatch.looking import Looker, Seen
    from fleet.dispatch.sight import Refused, Sight
    from fleet.kube.resources import Resource
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

Object = dict[str, Any]

_STEPS: Final = 24  # of one pass; a workload that needs more is looked at again
_POLL_S: Final[Mapping[str, float]] = {"Holding": 2.0, "Committed": 2.0, "Running": 20.0}
"""In case news from a member is late; nothing waits for it."""


class Key(NamedTuple):
    """A Job of the fleet."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Outcome(NamedTuple):
    """What a pass leaves to be done: look again in `again_s`, and whether a plan is wanted."""

    again_s: float | None = None
    wants_plan: bool = False


class Reconciler:
    def __init__(
        self,
        store: ObjectStore,
        jobs: Resource,
        *,
        looker: Looker,
        actor: Actor,
        chronicle: Chronicle,
        barred: Callable[[str, str, str], None],
        orphaned: Callable[[str], bool],
        uid: Callable[[], str],
        now: Callable[[], float],
        timing: Timing,
    ) -> None:
        """`barred` is told (workload uid, cluster, why) of clusters that did not hold a plan;
        `orphaned` says of a Job's UID whether its deletion leaves the shards where they are."""
        self._store = store
        self._jobs = jobs
        self._placements = PLACEMENT.resource
        self._looker = looker
        self._actor = actor
        self._chronicle = chronicle
        self._barred = barred
        self._orphaned = orphaned
        self._uid = uid
        self._now = now
        self._timing = timing

    async def reconcile(self, key: Key) -> Outcome:
        """One pass. Raises what is to be tried again: StoreError, ApiError, TransportError."""
        job = self._store.get(self._jobs, *key)
        placement = self._store.get(self._placements, key.namespace, name_of("Job", key.name))
        workload = Workload(job.parse()) if job is not None else None
        if placement is not None:
            owner = placement.parse()["spec"]["workload"]["uid"]
            if workload is None or workload.uid != owner:
                return await self._bury(key, placement, again=workload is not None)
        if workload is None or _is_others(workload):
            return Outcome()
        if placement is None:
            return await self._begin(key, workload)
        return await self._bring(key, workload, placement)

    # -- the objects at the gateway

    async def _begin(self, key: Key, workload: Workload) -> Outcome:
        """A Job that is not known yet: hold on to it, then begin its record."""
        if workload.obj["metadata"].get("deletionTimestamp"):
            await self._let_go(key, workload.uid)
            return Outcome()
        if workload.finished:
            return Outcome()
        await self._hold_on(key, workload.uid)
        now = self._now()
        record = Record(since=now)
        status = records.write(record, {"queuedAt": records.text_of(now)})
        obj = {
            "apiVersion": self._placements.api_version,
            "kind": PLACEMENT.name,
            "metadata": {
                "name": name_of("Job", key.name),
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

        await self._store.rewrite(self._jobs, namespace=key.namespace, name=key.name, change=change)

    async def _let_go(self, key: Key, uid: str) -> None:
        """Take our finalizer off; a Job that is held by nobody else goes."""
        entry = self._store.get(self._jobs, *key)
        if entry is None or entry.uid != uid:
            return
        await self._release(self._jobs, entry)

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
            await self._store.update(resource, obj, expected=entry.revision)
            return
        try:
            await self._store.delete(
                resource, namespace=entry.namespace, name=entry.name, expected=entry.revision
            )
        except NotFound:
            return

    async def _bury(self, key: Key, placement: Entry, *, again: bool) -> Outcome:
        """A record whose Job is no more: what it put into members goes, then the record."""
        told = placement.parse()["spec"]["workload"]
        stub = Workload(
            {
                "apiVersion": told["apiVersion"],
                "kind": told["kind"],
                "metadata": {
                    "name": told["name"],
                    "namespace": key.namespace,
                    "uid": told["uid"],
                    "deletionTimestamp": records.text_of(self._now()),
                },
                "spec": {"template": {}},
            }
        )
        outcome = await self._bring(key, stub, placement)
        return outcome._replace(again_s=0.0) if again and outcome.again_s is None else outcome

    async def _finish(self, key: Key, uid: str) -> None:
        """Nothing is left in any member: the record goes, then the Job may."""
        name = name_of("Job", key.name)
        entry = self._store.get(self._placements, key.namespace, name)
        if entry is not None:
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
            seen = _with_refusals(await self._looker.look(workload, record), refused)
            decision = decide(self._situation(workload, record, seen))
            for cluster, why in decision.barred.items():
                self._barred(workload.uid, cluster, why)
            if decision.gone and decision.record == record:
                await self._finish(key, workload.uid)
                return Outcome()
            if decision.record != record:
                placement = await self._write(placement, decision.record)
                await self._chronicle.note(workload, record, decision.record)
                refused.clear()
                continue
            refused |= await self._act(decision, workload, record, seen)
            await self._fold(key, workload, record, seen)
            if not refused:
                expires_s = await self._expire(key, workload)
                return self._outcome(workload, record, decision, expires_s)
        return Outcome(again_s=0.0)

    def _situation(self, workload: Workload, record: Record, seen: Seen) -> Situation:
        return Situation(
            ask=replace(workload.ask(), orphaned=self._orphaned(workload.uid)),
            record=record,
            now=self._now(),
            sights=seen.shards,
            debts=seen.debts,
            timing=self._timing,
        )

    async def _write(self, placement: Entry, record: Record) -> Entry:
        """Store the record if nobody else did meanwhile. Raises Conflict otherwise."""
        obj = placement.parse()
        obj["status"] = records.write(record, obj.get("status") or {})
        return await self._store.update(self._placements, obj, expected=placement.revision)

    async def _act(
        self, decision: Decision, workload: Workload, record: Record, seen: Seen
    ) -> dict[str, Refused]:
        """Everything that is to be done, members side by side. Returns refusals by cluster."""
        by_cluster: dict[str, list[Act]] = {}
        for act in decision.acts:
            cluster = act.cluster if isinstance(act, Remove | Release) else act.shard.cluster
            by_cluster.setdefault(cluster, []).append(act)
        if not by_cluster:
            return {}
        refused: dict[str, Refused] = {}
        failures: list[Exception] = []

        async def in_one(cluster: str, acts: Sequence[Act]) -> None:
            for act in acts:
                try:
                    why = await self._actor.act(act, workload, record, seen.shards)
                except (ApiError, TransportError) as error:
                    failures.append(error)
                    return
                if why is not None and isinstance(act, Hold):
                    refused[cluster] = why
                    return

        async with asyncio.TaskGroup() as group:
            for cluster, acts in by_cluster.items():
                group.create_task(in_one(cluster, acts), name=f"act in {cluster}")
        if failures and not refused:
            raise failures[0]
        return refused

    async def _fold(self, key: Key, workload: Workload, record: Record, seen: Seen) -> None:
        now = self._now()

        def change(obj: Object) -> Object | None:
            if obj["metadata"]["uid"] != workload.uid:
                return None
            status = fold.fold(Workload(obj), record, seen.shards, now=now)
            if status == (obj.get("status") or {}):
                return None
            obj["status"] = status
            return obj

        try:
            await self._store.rewrite(
                self._jobs, namespace=key.namespace, name=key.name, change=change
            )
        except NotFound:
            return

    async def _expire(self, key: Key, workload: Workload) -> float | None:
        """Begin the deletion of a Job that has outlived its end; seconds until then otherwise."""
        ends = workload.expires_at()
        if ends is None or workload.ask().deleting:
            return None
        now = self._now()
        if now < ends:
            return ends - now

        def change(obj: Object) -> Object | None:
            metadata = obj["metadata"]
            if metadata["uid"] != workload.uid or metadata.get("deletionTimestamp"):
                return None
            metadata["deletionTimestamp"] = records.text_of(now)
            metadata["deletionGracePeriodSeconds"] = 0
            return obj

        await self._store.rewrite(self._jobs, namespace=key.namespace, name=key.name, change=change)
        return 0.0

    def _outcome(
        self, workload: Workload, record: Record, decision: Decision, expires_s: float | None
    ) -> Outcome:
        waits = [decision.again_s, expires_s, _POLL_S.get(record.phase)]
        ask = workload.ask()
        wants = record.waiting and not (ask.suspended or ask.deleting)
        return Outcome(
            again_s=min((each for each in waits if each is not None), default=None),
            wants_plan=wants and not record.unfenced(self._now()),
        )


def _with_refusals(seen: Seen, refused: Mapping[str, Refused]) -> Seen:
    if not refused:
        return seen
    shards: dict[str, Sight] = {
        cluster: replace(sight, refused=refused.get(cluster))
        for cluster, sight in seen.shards.items()
    }
    return seen._replace(shards=shards)


def _is_others(workload: Workload) -> bool:
    """Whether somebody else said that the Job is theirs to run."""
    manager = workload.spec.get("managedBy")
    return manager not in (None, FINALIZER, "kubernetes.io/job-controller")
