"""The dispatch of one fleet: what wants a look, when, and by whom.

Changes in the store and news from members name keys; a key is looked at by one worker at a time.
Everything is level-triggered: it does not matter which news was seen, and whatever a pass could not
do is tried again. One gateway runs it: the leader. Wiring is `fleet.gateway`'s.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cachetools import TTLCache

import policies
from fleet.apiserver.controllers.queue import Queue
from fleet.dispatch.acting import Actor, OnBlocks, anywhere
from fleet.dispatch.bars import Bars
from fleet.dispatch.carrying import CARRIED
from fleet.dispatch.chronicle import Chronicle
from fleet.dispatch.kinds import KINDS, kind_of, row_of
from fleet.dispatch.leases import Leases, ShardKey
from fleet.dispatch.looking import PODS, Looker
from fleet.dispatch.marks import FLEET_ANNOTATION
from fleet.dispatch.openings import Openings
from fleet.dispatch.premises import NAMESPACES, PRIORITY_CLASSES, Premises, not_accepted
from fleet.dispatch.reconciler import Key, Reconciler
from fleet.dispatch.remote import Remote
from fleet.dispatch.sight import pod_view
from fleet.dispatch.situation import Timing
from fleet.dispatch.unplaced import Unplaced
from fleet.dispatch.waiting import Waiting
from fleet.errors import ApiError, Conflict, FleetError, TransportError
from fleet.kube.resources import GroupVersionResource
from fleet.view.naming import SHARD_LABEL, WORKLOAD_UID_LABEL
from policies import PLACEMENT
from policies.placement import CHECKPOINTED_ANNOTATION, RUN_TIME_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.dispatch.billing import Bill
    from fleet.dispatch.kind import Kind
    from fleet.dispatch.parts import Parts, Workload
    from fleet.dispatch.planning import Planner
    from fleet.dispatch.walls import Neighbours
    from fleet.store.collection import Event
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore
    from fleet.view.world import World

log = logging.getLogger(__name__)

Object = dict[str, Any]

# They wait for members most of the time: one that hangs must not hold up everybody's renewals.
_WORKERS: Final = 256
_DISTURBED_S: Final = 10.0
_NODES: Final = GroupVersionResource("", "v1", "nodes")
_EVENTS: Final = GroupVersionResource("", "v1", "events")
_ENDED: Final = ("Succeeded", "Failed")
_REMEMBERED: Final = 4096


class Dispatch:
    """Follows the fleet's workloads and carries them out."""

    def __init__(
        self,
        store: ObjectStore,
        world: World,
        *,
        parts: Parts,
        planner: Planner,
        bill: Bill,
        neighbours: Neighbours,
        fleet: str,
        uid: Callable[[], str],
        now: Callable[[], float],
        timing: Timing | None = None,
        answer_s: float = 4.0,
        on_blocks: OnBlocks = anywhere,
    ) -> None:
        """`fleet` is the UID that marks what this fleet made; `now` gives seconds since the epoch;
        `answer_s` is how long a member may take to answer one request; `on_blocks` binds a pod spec
        to blocks of a cluster, `neighbours` keeps work apart."""
        self._store = store
        self._world = world
        self._parts = parts
        self._fleet = fleet
        self._now = now
        self._answer_s = answer_s
        self._remotes: dict[str, tuple[object, Remote]] = {}
        self._departed: dict[ShardKey, bool] = {}
        self._swept: dict[tuple[str, str], None] = {}  # workload's UID and shard: ended by us
        self._spared: dict[str, set[str]] = {}  # clusters, by workload's UID
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._followed: ExitStack | None = None
        self._following: set[GroupVersionResource] = set()
        self._queue: Queue[Key] = Queue("dispatch")
        self._sweeps: Queue[str] = Queue("left-overs")
        self._leases = Leases(now)
        self._bars = Bars(now)
        openings = Openings(now)
        # UIDs of workloads whose pods were seen to be taken away.
        self._disturbed: TTLCache[str, bool] = TTLCache(_REMEMBERED, _DISTURBED_S, timer=now)
        chronicle = Chronicle(store, row_of(_EVENTS), uid=uid, now=now)
        self._unplaced = Unplaced(store, chronicle)
        self._planner = planner
        self._waiting = Waiting(
            store,
            planner=planner,
            bars=self._bars,
            barred=self._not_accepting,
            openings=openings,
            found=self._queue.add,
            chronicle=chronicle,
            bill=bill,
            now=now,
        )
        premises = Premises(fleet=fleet, offers=self, priority_of=self._priority_of)
        self._reconciler = Reconciler(
            store,
            looker=Looker(
                self.remote,
                fleet=fleet,
                leases=self._leases,
                departures=self,
                silent=self.unreachable,
                answer_s=answer_s,
            ),
            actor=Actor(
                self.remote,
                premises=premises,
                sources=self,
                fleet=fleet,
                leases=self._leases,
                on_blocks=on_blocks,
                neighbours=neighbours,
            ),
            chronicle=chronicle,
            bill=bill,
            barred=self._bars.put,
            openings=openings,
            uid=uid,
            now=now,
            timing=timing or Timing(),
        )

    # -- life

    async def run(self) -> None:
        """Carry the fleet's workloads out until cancelled."""
        with ExitStack() as stack:
            self._follow_store(stack)
            self._follow_members(stack)
            stack.callback(self._stop_timers)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._waiting.run(), name="waiting workloads")
                group.create_task(
                    self._queue.work(self._reconcile, workers=_WORKERS), name="dispatch"
                )
                group.create_task(self._unplaced.run(), name="workloads that are not placed")
                group.create_task(self._sweeps.work(self._sweep, workers=4), name="left-overs")

    def member_changed(self, name: str) -> None:
        """A member joined, left, or its conditions changed: what waits for it is looked at."""
        self._follow_more()
        for workload in self._parts.workloads_in(name):
            self._queue.add(_key(workload))
        self._bars.changed(name)
        self._waiting.changed()
        if self.unreachable(name) == "":
            self._sweeps.add(name)

    def room_changed(self) -> None:
        """Room that was promised to others than workloads of the fleet is free again."""
        self._waiting.changed()

    async def _reconcile(self, key: Key) -> None:
        self._cancel_timer(key)
        try:
            outcome = await self._reconciler.reconcile(key)
        except Conflict:
            self._queue.add(key)  # somebody wrote in between: look again
            return
        except FleetError:
            self._look_again(key, self._reconciler.patience_s(key))
            raise
        if outcome.wants_plan:
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        self._look_again(key, outcome.again_s)

    def _look_again(self, key: Key, in_s: float | None) -> None:
        if in_s is not None:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(in_s, self._queue.add, key)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _stop_timers(self) -> None:
        for key in list(self._timers):
            self._cancel_timer(key)

    # -- news of the store

    def _follow_store(self, stack: ExitStack) -> None:
        placements = self._store.collection(PLACEMENT.resource)
        for kind in KINDS.values():
            workloads = self._store.collection(row_of(kind.gvr))
            stack.callback(workloads.follow(partial(self._workload_changed, kind)))
            for entry in workloads.snapshot().entries():
                self._queue.add(Key(kind.name, *entry.key))
        stack.callback(placements.follow(self._placement_changed))
        self._unplaced.follow(stack)
        for gvr in CARRIED:
            collection = self._store.collection(row_of(gvr))
            stack.callback(collection.follow(self._carried_changed))
        for policy in policies.kinds():
            if policy is not PLACEMENT:
                rules = self._store.collection(policy.resource)
                stack.callback(rules.follow(lambda _: self._waiting.changed()))
        for gvr in (NAMESPACES, PRIORITY_CLASSES):
            named = self._store.collection(row_of(gvr))
            stack.callback(named.follow(lambda _: self._waiting.changed()))
        for entry in placements.snapshot().entries():
            self._placement_named(entry.parse())
        self._waiting.changed()  # policies say how they are taken, though nothing waits

    def _placement_named(self, placement: Object) -> None:
        told = placement["spec"]["workload"]
        kind = kind_of(told)
        if kind is not None:
            self._queue.add(Key(kind.name, placement["metadata"]["namespace"], told["name"]))

    def _workload_changed(self, kind: Kind, event: Event) -> None:
        entry = event.entry
        if event.deleted:
            self._bars.forget(entry.uid)
        if event.previous is not None and _wish(entry) != _wish(event.previous):
            self._waiting.changed()  # it may ask for less, or under another policy
        elif self._says_it_saved(event):
            self._waiting.changed()
        self._queue.add(Key(kind.name, *entry.key))

    def _placement_changed(self, event: Event) -> None:
        obj = event.entry.parse()
        self._placement_named(obj)
        for cluster in self._spared.pop(obj["spec"]["workload"]["uid"], ()):
            self._sweeps.add(cluster)
        if event.deleted or (
            event.previous is not None and _standing(obj) != _standing(event.previous.parse())
        ):
            self._waiting.changed()  # what it had may be free

    def _carried_changed(self, event: Event) -> None:
        """A ConfigMap or the like: the namespace's workloads look whether it is theirs."""
        entry = event.entry
        for placement in (
            self._store.collection(PLACEMENT.resource).snapshot().namespace(entry.namespace)
        ).entries():
            self._placement_named(placement.parse())

    # -- news of members

    def _follow_members(self, stack: ExitStack) -> None:
        self._parts.follower = self._shard_seen
        self._followed = stack
        stack.callback(self._unfollow)
        self._follow_more()
        for name in self._world.members:
            self.member_changed(name)

    def _unfollow(self) -> None:
        self._followed = None
        self._following.clear()

    def _follow_more(self) -> None:
        """Follow what members have, as soon as there is a member that has it."""
        stack = self._followed
        if stack is None:
            return
        followers = {
            _NODES: self._node_changed,
            PODS: self._pod_changed,
            NAMESPACES: self._namespace_changed,
        }
        for kind in KINDS.values():
            # For the sake of being watched: `Parts` tells of what is a shard.
            followers.setdefault(kind.gvr, _not_of_interest)
        for gvr, follower in followers.items():
            merged = self._world.merged(gvr) if gvr not in self._following else None
            if merged is not None:
                self._following.add(gvr)
                stack.enter_context(merged.reading())
                stack.callback(merged.collection.follow(follower))
                stack.callback(merged.hidden.follow(follower))

    def _shard_seen(self, member: str, workload: Workload, obj: Object, gone: bool) -> None:
        self._queue.add(_key(workload))
        if obj.get("kind") != workload.kind and _is_taken_away(obj, gone=gone):
            self._disturbed[workload.uid] = True
        if obj.get("kind") == workload.kind:
            metadata = obj["metadata"]
            key = ShardKey(member, workload.kind, metadata["namespace"], metadata["name"])
            if gone:
                self._remember_departure(key, obj)
            else:
                self._departed.pop(key, None)

    def _remember_departure(self, key: ShardKey, shard: Object) -> None:
        while len(self._departed) >= _REMEMBERED:
            del self._departed[next(iter(self._departed))]
        self._departed[key] = KINDS[key.kind].view(shard).outcome == ""
        self._leases.forget(key)

    def went_unfinished(self, key: ShardKey) -> bool:
        """See `looking.Departures`."""
        if self._departed.get(key, False):
            return True
        workload = self._parts.of_shard(key.cluster, key.kind, key.namespace, key.name)
        return workload is not None and (workload.uid, key.name) in self._swept

    def disturbed(self, uid: str) -> bool:
        """See `looking.Departures`."""
        return uid in self._disturbed

    def _pod_changed(self, event: Event) -> None:
        """A pod of a member that lets go of its node makes room."""
        entry = event.entry
        if entry.member and (event.deleted or _has_ended(event)):
            self._bars.changed(entry.member, by=entry.labels.get(WORKLOAD_UID_LABEL, ""))
            self._waiting.changed()
        elif entry.member and WORKLOAD_UID_LABEL in entry.labels and self._says_it_saved(event):
            self._waiting.changed()

    def _says_it_saved(self, event: Event) -> bool:
        """Whether others wait for that, and it is said otherwise than before."""
        before = event.previous
        return (
            before is not None
            and self._planner.lets_save()
            and _saved(event.entry) != _saved(before)
        )

    def _node_changed(self, event: Event) -> None:
        entry, before = event.entry, event.previous
        if not entry.member or event.deleted:
            return
        if before is None or _room(entry.parse()) != _room(before.parse()):
            self._bars.changed(entry.member)
            self._waiting.changed()

    def _namespace_changed(self, event: Event) -> None:
        """A namespace of a member may let the fleet in from here on."""
        entry, before = event.entry, event.previous
        if entry.member and (event.deleted or before is None or before.labels != entry.labels):
            self._waiting.changed()

    # -- what others ask

    def remote(self, name: str) -> Remote | None:
        """The API of a member, None for a name that is no member's."""
        member = self._world.members.get(name)
        if member is None:
            self._remotes.pop(name, None)
            return None
        known = self._remotes.get(name)
        if known is None or known[0] is not member:
            remote = Remote(
                member.handler, timeout_s=self._answer_s, clock=self._now, uid=member.uid
            )
            known = self._remotes[name] = (member, remote)
        return known[1]

    def unreachable(self, name: str) -> str:
        """Why a member cannot be reached, "" when it can."""
        member = self._world.members.get(name)
        if member is None:
            return "no member"
        reachable = member.conditions.get("Reachable")
        if reachable is None or reachable.status != "False":
            return ""
        return reachable.message or "it does not answer"

    def serves(self, cluster: str, gvr: GroupVersionResource) -> bool:
        """See `premises.Offers`."""
        return self._world.projector(cluster, gvr) is not None

    def get(self, gvr: GroupVersionResource, namespace: str, name: str) -> Object | None:
        """See `acting.Sources`."""
        entry = self._store.get(row_of(gvr), namespace, name)
        return entry.parse() if entry is not None else None

    def _priority_of(self, name: str) -> int | None:
        found = self.get(PRIORITY_CLASSES, "", name)
        return None if found is None else int(found.get("value", 0))

    def _not_accepting(self, namespace: str) -> dict[str, str]:
        """Members whose namespace of that name is not open to the fleet, and why."""
        merged = self._world.running(NAMESPACES)
        found: dict[str, str] = {}
        if merged is None:
            return found
        for name in self._world.members:
            entry = merged.collection.get("", f"{namespace}.{name}")
            if entry is None:
                continue
            obj = entry.parse()
            obj["metadata"]["name"] = namespace
            refused = not_accepted(name, obj)
            if refused is not None:
                found[name] = refused.message
        return found

    # -- left-overs

    async def _sweep(self, cluster: str) -> None:
        """End every shard of this fleet in a member that no record knows of: left by a gateway
        that was put back, or in a member that had left the fleet."""
        remote = self.remote(cluster)
        if remote is None:
            return
        try:
            for kind in KINDS.values():
                await self._sweep_of(kind, cluster, remote)
        except TransportError as error:
            log.debug("%s: left-overs were not looked for: %s", cluster, error)
        except ApiError as error:
            log.info("%s: left-overs could not be removed: %s", cluster, error)

    async def _sweep_of(self, kind: Kind, cluster: str, remote: Remote) -> None:
        for obj in await remote.list(kind.gvr, labels=f"{SHARD_LABEL},{WORKLOAD_UID_LABEL}"):
            if self._is_left_over(kind, cluster, obj):
                metadata = obj["metadata"]
                log.info("%s: removing left-over %s %s", cluster, kind.name, metadata["name"])
                if kind.view(obj).outcome == "":
                    self._remember_swept(metadata["labels"][WORKLOAD_UID_LABEL], metadata["name"])
                await remote.delete(
                    kind.gvr,
                    metadata["namespace"],
                    metadata["name"],
                    uid=metadata["uid"],
                    propagation=kind.propagation,
                )

    def _is_left_over(self, kind: Kind, cluster: str, obj: Object) -> bool:
        metadata = obj["metadata"]
        annotations = metadata.get("annotations") or {}
        if annotations.get(FLEET_ANNOTATION) != self._fleet or metadata.get("deletionTimestamp"):
            return False
        if metadata["labels"][SHARD_LABEL] != metadata["name"]:
            return False  # a pod of a shard goes with it
        workload = self._parts.of_shard(cluster, kind.name, metadata["namespace"], metadata["name"])
        uid = metadata["labels"][WORKLOAD_UID_LABEL]
        if workload is not None and workload.uid == uid:
            return False
        counted_on = self._parts.counted_on(uid, metadata["name"])
        named = counted_on and self.remote(counted_on.cluster)
        if counted_on and (not named or named.is_another(counted_on.uid)):
            # A cluster that left and came under another name: the record decides, and its lease.
            what = metadata["name"]
            log.info("%s: leaving %s, as the part of %s", cluster, what, counted_on.cluster)
            self._spared.setdefault(uid, set()).add(cluster)
            return False
        return True

    def _remember_swept(self, uid: str, shard: str) -> None:
        """What the fleet ended itself is never a result that nobody knows."""
        while len(self._swept) >= _REMEMBERED:
            del self._swept[next(iter(self._swept))]
        self._swept[uid, shard] = None


def _not_of_interest(event: Event) -> None:
    """Only that it is watched matters."""


def _key(workload: Workload) -> Key:
    return Key(workload.kind, workload.namespace, workload.name)


def _wish(workload: Entry) -> Object:
    """What of a workload decides where it can go, and who can go when."""
    obj = workload.parse()
    annotations = obj["metadata"].get("annotations") or {}
    return {
        "spec": obj.get("spec"),
        "labels": workload.labels,
        "runTime": annotations.get(RUN_TIME_ANNOTATION),
    }


def _saved(entry: Entry) -> object:
    """What an object says of the last checkpoint."""
    if CHECKPOINTED_ANNOTATION.encode() not in entry.raw:
        return None
    return entry.parse()["metadata"].get("annotations", {}).get(CHECKPOINTED_ANNOTATION)


def _standing(placement: Object) -> Object:
    """What of a Placement decides what it holds."""
    status = placement.get("status") or {}
    return {
        "phase": status.get("phase"),
        "shards": [
            (e["cluster"], e.get("state"), e.get("lostAt")) for e in status.get("shards", ())
        ],
        "owed": status.get("owed"),
    }


def _is_taken_away(pod: Object, *, gone: bool) -> bool:
    """Whether a pod of a shard goes that had not ended, or that its member took away."""
    seen = pod_view(pod)
    return seen.disrupted or ((gone or seen.deleting) and seen.phase not in _ENDED)


def _has_ended(event: Event) -> bool:
    """Whether a pod was seen to end with this change."""
    ends = [f'"phase":"{phase}"'.encode() for phase in _ENDED]
    before = event.previous
    return any(end in event.entry.raw for end in ends) and not (
        before is not None and any(end in before.raw for end in ends)
    )


def _room(node: Object) -> Iterable[Any]:
    """What of a node decides how much fits."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = [c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"]
    return (
        status.get("allocatable"),
        spec.get("unschedulable"),
        spec.get("taints"),
        node["metadata"].get("labels"),
        ready,
    )
