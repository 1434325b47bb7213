"""Which objects of members belong to fleet workloads, told from the record of shards.

The view asks for every object it takes in: a pod of a shard is shown as a part of its workload, a
shard's Job and what goes with it are kept out of merged lists, all else is the member's own. Labels
alone prove nothing – anybody in a member can set them – so a shard counts only if a Placement names
it in that cluster. Whatever of a shard is seen is told to `follower`, shown or not.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.dispatch import record as records
from fleet.dispatch.environment import GATE_VOLUME
from fleet.dispatch.kinds import KINDS, kind_of
from fleet.dispatch.marks import FLEET_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, is_pod_of
from fleet.view.naming import SHARD_LABEL, WORKLOAD_NAMESPACE_LABEL, WORKLOAD_UID_LABEL
from fleet.view.parts import Seat
from fleet.view.projection import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.dispatch.record import Record
    from fleet.store.collection import Collection, Event
    from fleet.store.entry import Entry
    from fleet.view.parts import Standing
    from fleet.view.projection import ObjectKey

log = logging.getLogger(__name__)

Object = dict[str, Any]

_POD: Final = ("", "Pod")
_SHARDS: Final = {(kind.gvr.group, kind.name): kind.name for kind in KINDS.values()}
_EVENTS: Final = frozenset({("", "Event"), ("events.k8s.io", "Event")})
_GONE_WITH_SHARDS: Final = frozenset({
    ("", "ConfigMap"), ("", "Secret"), ("", "Service"), ("", "ServiceAccount"),
    ("discovery.k8s.io", "EndpointSlice"),
})  # fmt: skip


class Workload(NamedTuple):
    """The fleet's object that a shard belongs to. `kind` is one of `kinds.KINDS`."""

    kind: str
    namespace: str
    name: str
    uid: str


class Place(NamedTuple):
    """A cluster, by the name that it had and by its UID; "" where that was not written down."""

    cluster: str
    uid: str


class _Shard(NamedTuple):
    """A shard's object in one member."""

    cluster: str
    kind: str
    namespace: str
    name: str


class Parts:
    """The record of shards, for the view. Fed by the store's Placements as they change."""

    def __init__(self, *, fleet: str) -> None:
        self._fleet = fleet
        self._shards: dict[_Shard, Workload] = {}
        self._of: dict[str, list[_Shard]] = {}
        self._seats: dict[Workload, Seat] = {}
        self._live: dict[str, dict[str, Place]] = {}
        self.follower: Callable[[str, Workload, Object, bool], None] = _nobody

    # -- the record

    def follow(self, placements: Collection) -> Callable[[], None]:
        """Take in every Placement and its changes; returns what ends that."""
        for entry in placements.snapshot().entries():
            self._take(entry)
        return placements.follow(self._changed)

    def _changed(self, event: Event) -> None:
        self._take(event.entry, gone=event.deleted)

    def _take(self, entry: Entry, *, gone: bool = False) -> None:
        """Whoever wrote it, it must not keep a store from writing or a gateway from starting."""
        try:
            self._read(entry, gone=gone)
        except (AttributeError, LookupError, TypeError, ValueError):
            log.exception("the Placement %s/%s cannot be read, and is left out", *entry.key)

    def _read(self, entry: Entry, *, gone: bool) -> None:
        obj = entry.parse()
        if gone:
            self._drop(obj["spec"]["workload"]["uid"])
            return
        told = obj["spec"]["workload"]
        kind = kind_of(told)
        if kind is None:
            return
        workload = Workload(kind.name, entry.namespace, told["name"], told["uid"])
        record = records.read(obj.get("status") or {})
        keys = [
            _Shard(shard.cluster, kind.name, entry.namespace, shard.name(workload.name))
            for shard in record.shards
        ]
        keys += [
            _Shard(debt.cluster, kind.name, entry.namespace, debt.shard) for debt in record.owed
        ]
        self._drop(workload.uid)
        self._of[workload.uid] = keys
        self._live[workload.uid] = {
            shard.name(workload.name): Place(shard.cluster, shard.cluster_uid)
            for shard in record.shards
            if shard.live
        }
        self._shards |= dict.fromkeys(keys, workload)
        if (seat := _seat(record, workload.name)) is not None:
            self._seats[workload] = seat

    def _drop(self, uid: str) -> None:
        self._live.pop(uid, None)
        for key in self._of.pop(uid, ()):
            workload = self._shards.pop(key, None)
            if workload is not None:
                self._seats.pop(workload, None)

    def of_shard(self, cluster: str, kind: str, namespace: str, shard: str) -> Workload | None:
        """The workload of that kind whose shard this is, by the record."""
        return self._shards.get(_Shard(cluster, kind, namespace, shard))

    def counted_on(self, uid: str, shard: str) -> Place | None:
        """The cluster in which the record of that workload counts on such a shard."""
        return self._live.get(uid, {}).get(shard)

    def workloads_in(self, cluster: str) -> Iterable[Workload]:
        """The workloads that have a shard in a cluster, or one that is owed."""
        return {workload for key, workload in self._shards.items() if key.cluster == cluster}

    def hosts(self, namespace: str) -> frozenset[str]:
        """The members that have parts of workloads of a fleet's namespace."""
        return frozenset(key.cluster for key in self._shards if key.namespace == namespace)

    # -- what the view asks

    def standing(self, member: str, group: str, kind: str, obj: Mapping[str, Any]) -> Standing:
        """How a member's object stands in the merged world."""
        key = (group, kind)
        if key in _EVENTS:
            if self._about(member, obj) is None:
                return "Native"
            return "Hidden" if _is_of_the_fleet(obj) else "Part"
        metadata = obj.get("metadata") or {}
        labels = metadata.get("labels") or {}
        if key in _GONE_WITH_SHARDS:
            return "Hidden" if self._goes_along(labels, metadata) else "Native"
        if SHARD_LABEL not in labels:
            return "Native"
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        if key in _SHARDS and labels[SHARD_LABEL] == name:
            workload = self.of_shard(member, _SHARDS[key], namespace, name)
            if workload is not None and _says(labels, workload):
                return "Hidden"
        if key == _POD:
            workload = self._with_pods(member, namespace, labels[SHARD_LABEL])
            if workload is not None and _says(labels, workload):
                return "Part"
        return "Native"

    def _with_pods(self, member: str, namespace: str, shard: str) -> Workload | None:
        """The workload whose shard has pods of its own."""
        for kind in KINDS:
            workload = self.of_shard(member, kind, namespace, shard)
            if workload is not None and kind != _POD[1]:
                return workload
        return None

    def _goes_along(self, labels: Mapping[str, str], metadata: Mapping[str, Any]) -> bool:
        annotations = metadata.get("annotations") or {}
        return (
            labels.get(MANAGED_BY_LABEL) == MANAGED_BY
            and annotations.get(FLEET_ANNOTATION) == self._fleet
        )

    def _about(self, member: str, event: Mapping[str, Any]) -> Part | None:
        about = event.get("involvedObject") or event.get("regarding") or {}
        return self._part(
            member, about.get("kind"), about.get("namespace") or "", about.get("name") or ""
        )

    def part_of(self, member: str, key: ObjectKey) -> Part | None:
        """Where an object stands that something in a member refers to."""
        return self._part(member, key.kind, key.namespace, key.name)

    def _part(self, member: str, kind: Any, namespace: str, name: str) -> Part | None:
        workload = self.of_shard(member, kind, namespace, name) if kind in KINDS else None
        if workload is not None:
            return Part(namespace, workload.name, workload.uid)
        if kind != "Pod":
            return None
        shard = name.rpartition("-")[0]
        for candidate in (shard, shard.rpartition("-")[0]):
            if self._with_pods(member, namespace, candidate) and is_pod_of(candidate, name):
                return Part(namespace, f"{name}.{member}")
        return None

    def seat(self, kind: str, namespace: str, name: str, uid: str) -> Seat | None:
        """Where the workload's shard may run, or runs until it is gone, if it has one alone."""
        return self._seats.get(Workload(kind, namespace, name, uid))

    def seen(self, member: str, obj: Object, *, gone: bool) -> None:
        """A shard, or a pod of one, came, changed or went."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        shard = (metadata.get("labels") or {}).get(SHARD_LABEL, "")
        workload = self.of_shard(member, obj.get("kind", ""), namespace, name)
        if workload is None or shard != name:
            workload = self._with_pods(member, namespace, shard)
        if workload is not None:
            self.follower(member, workload, obj, gone)


def _seat(record: Record, workload: str) -> Seat | None:
    """Where the one shard is that was committed, or that is leaving and ran."""
    placed = [Seat(each.cluster, each.name(workload)) for each in record.shards if not each.to_come]
    leaving = [Seat(each.cluster, each.shard) for each in record.owed if each.fenced_at is None]
    found = placed or leaving
    return found[0] if len(found) == 1 else None


def _is_of_the_fleet(event: Mapping[str, Any]) -> bool:
    """Whether a member tells of what the fleet does there by means that the user knows nothing of:
    that a pod's gate is shut, which holds it and is no fault; that a Job's deadline is over, which
    is the fleet's lease or how it ends the Job – what becomes of that, the fleet says itself."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    if about.get("kind") == "Job" and event.get("reason") == "DeadlineExceeded":
        return True
    text = str(event.get("message") or event.get("note") or "")
    shut = f'volume "{GATE_VOLUME}"' in text and "not found" in text
    waits = f"unmounted volumes=[{GATE_VOLUME}]" in text
    return event.get("reason") == "FailedMount" and (shut or waits)


def _says(labels: Mapping[str, str], workload: Workload) -> bool:
    return (
        labels.get(WORKLOAD_UID_LABEL) == workload.uid
        and labels.get(WORKLOAD_NAMESPACE_LABEL) == workload.namespace
    )


def _nobody(member: str, workload: Workload, obj: Object, gone: bool) -> None:
    """Until somebody follows."""
