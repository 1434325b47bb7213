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
from fleet.dispatch.marks import FLEET_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, is_pod_of
from fleet.view.naming import SHARD_LABEL, WORKLOAD_NAMESPACE_LABEL, WORKLOAD_UID_LABEL
from fleet.view.projection import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.store.collection import Collection, Event
    from fleet.store.entry import Entry
    from fleet.view.parts import Standing
    from fleet.view.projection import ObjectKey

log = logging.getLogger(__name__)

Object = dict[str, Any]

_JOB: Final = ("batch", "Job")
_POD: Final = ("", "Pod")
_EVENTS: Final = frozenset({("", "Event"), ("events.k8s.io", "Event")})
_GONE_WITH_SHARDS: Final = frozenset({
    ("", "ConfigMap"), ("", "Secret"), ("", "Service"), ("", "ServiceAccount"),
    ("discovery.k8s.io", "EndpointSlice"),
})  # fmt: skip


class Workload(NamedTuple):
    """The fleet's object that a shard belongs to."""

    namespace: str
    name: str
    uid: str


class Parts:
    """The record of shards, for the view. Fed by the store's Placements as they change."""

    def __init__(self, *, fleet: str) -> None:
        self._fleet = fleet
        self._shards: dict[tuple[str, str, str], Workload] = {}
        self._of: dict[str, list[tuple[str, str, str]]] = {}
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
        workload = Workload(entry.namespace, told["name"], told["uid"])
        record = records.read(obj.get("status") or {})
        keys = [
            (shard.cluster, entry.namespace, shard.name(workload.name)) for shard in record.shards
        ]
        keys += [(debt.cluster, entry.namespace, debt.shard) for debt in record.owed]
        self._drop(workload.uid)
        self._of[workload.uid] = keys
        self._shards |= dict.fromkeys(keys, workload)

    def _drop(self, uid: str) -> None:
        for key in self._of.pop(uid, ()):
            self._shards.pop(key, None)

    def of_shard(self, cluster: str, namespace: str, shard: str) -> Workload | None:
        """The workload whose shard this is, by the record."""
        return self._shards.get((cluster, namespace, shard))

    def workloads_in(self, cluster: str) -> Iterable[Workload]:
        """The workloads that have a shard in a cluster, or one that is owed."""
        return {workload for key, workload in self._shards.items() if key[0] == cluster}

    def hosts(self, namespace: str) -> frozenset[str]:
        """The members that have parts of workloads of a fleet's namespace."""
        return frozenset(cluster for (cluster, there, _) in self._shards if there == namespace)

    # -- what the view asks

    def standing(self, member: str, group: str, kind: str, obj: Mapping[str, Any]) -> Standing:
        """How a member's object stands in the merged world."""
        key = (group, kind)
        if key in _EVENTS:
            return "Part" if self._about(member, obj) is not None else "Native"
        metadata = obj.get("metadata") or {}
        labels = metadata.get("labels") or {}
        if key in _GONE_WITH_SHARDS:
            return "Hidden" if self._goes_along(labels, metadata) else "Native"
        if key not in (_JOB, _POD) or SHARD_LABEL not in labels:
            return "Native"
        namespace = metadata.get("namespace") or ""
        workload = self.of_shard(member, namespace, labels[SHARD_LABEL])
        if workload is None or not _says(labels, workload):
            return "Native"
        return "Part" if key == _POD else "Hidden"

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
        if kind == "Job":
            workload = self.of_shard(member, namespace, name)
            return Part(namespace, workload.name, workload.uid) if workload else None
        if kind != "Pod":
            return None
        shard = name.rpartition("-")[0]
        for candidate in (shard, shard.rpartition("-")[0]):
            if self.of_shard(member, namespace, candidate) and is_pod_of(candidate, name):
                return Part(namespace, f"{name}.{member}")
        return None

    def seen(self, member: str, obj: Object, *, gone: bool) -> None:
        """A pod or a Job of a shard came, changed or went."""
        labels = obj["metadata"].get("labels") or {}
        namespace = obj["metadata"].get("namespace") or ""
        workload = self.of_shard(member, namespace, labels.get(SHARD_LABEL, ""))
        if workload is not None:
            self.follower(member, workload, obj, gone)


def _says(labels: Mapping[str, str], workload: Workload) -> bool:
    return (
        labels.get(WORKLOAD_UID_LABEL) == workload.uid
        and labels.get(WORKLOAD_NAMESPACE_LABEL) == workload.namespace
    )


def _nobody(member: str, workload: Workload, obj: Object, gone: bool) -> None:
    """Until somebody follows."""
