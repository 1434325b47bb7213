"""Namespaces that go away: everything in them is deleted, then they are let go.

A Namespace in deletion carries the finalizer `kubernetes` in its spec until this controller has
seen it empty; nothing can be created in it meanwhile. While something stays – behind finalizers,
or a pod that is still ending – the conditions say what (k8s.io/kubernetes,
pkg/controller/namespace/deletion).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from fleet.apiserver.controllers.objects import Key, together
from fleet.apiserver.controllers.queue import Queue
from fleet.errors import FleetError
from fleet.kube.defaults.lifecycle import timestamp
from fleet.kube.options import DeleteOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from fleet.apiserver.controllers.objects import Objects
    from fleet.kube.resources import Resource
    from fleet.store.collection import Event
    from fleet.store.entry import Entry

Object = dict[str, Any]

NAMESPACES = "namespaces"
FINALIZER = "kubernetes"
_WORKERS = 4


class NamespaceDeletion:
    """Deletes the contents of namespaces in deletion, and finishes them."""

    def __init__(self, objects: Objects, *, now: Callable[[], datetime]) -> None:
        self._objects = objects
        self._now = now
        self._queue: Queue[str] = Queue("namespaces")
        self._terminating: set[str] = set()

    def start(self, namespaces: Resource) -> None:
        """Look at every namespace there is."""
        for entry in self._objects.entries(namespaces):
            self._see(entry)

    def changed(self, resource: Resource, event: Event) -> None:
        """Take note of a change in the store."""
        entry = event.entry
        if resource.gvr.group_resource == NAMESPACES:
            if event.deleted:
                self._terminating.discard(entry.name)
            else:
                self._see(entry)
        elif entry.namespace in self._terminating:
            self._queue.add(entry.namespace)

    async def run(self) -> None:
        await self._queue.work(self.reconcile, workers=_WORKERS)

    def _see(self, namespace: Entry) -> None:
        if is_ending(namespace.parse()):
            self._terminating.add(namespace.name)
            self._queue.add(namespace.name)

    async def reconcile(self, name: str) -> None:
        """Bring one namespace on its way. Raises what a deletion in it failed with."""
        resource = self._objects.row(NAMESPACES)
        entry = self._objects.get(resource, "", name) if resource is not None else None
        if resource is None or entry is None or not is_ending(entry.parse()):
            return
        options = DeleteOptions(propagation="Background")
        failures = await together(
            partial(self._objects.remove, row, content, options)
            for row, contents in self._contents(name).items()
            for content in contents
        )
        left = self._contents(name)
        change = released
        if left:
            conditions = conditions_of(left, failures)
            change = partial(with_conditions, conditions=conditions, now=self._now())
        await self._objects.change(resource, Key(NAMESPACES, "", name), change, uid=entry.uid)
        if failures:
            raise failures[0]

    def _contents(self, namespace: str) -> dict[Resource, list[Entry]]:
        contents = {}
        for row in self._objects.rows():
            if row.namespaced:
                entries = self._objects.entries(row, namespace)
                if entries:
                    contents[row] = entries
        return contents


# -- decisions


def is_ending(namespace: Object) -> bool:
    """Whether the namespace is in deletion and waits for this controller."""
    if not namespace["metadata"].get("deletionTimestamp"):
        return False
    return FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ())


def released(namespace: Object) -> Object:
    """The namespace without the finalizer that this controller owes it."""
    spec = namespace.get("spec") or {}
    kept = [name for name in spec.get("finalizers") or () if name != FINALIZER]
    spec = {key: value for key, value in spec.items() if key != "finalizers"}
    if kept:
        spec["finalizers"] = kept
    return {**namespace, "spec": spec}


def conditions_of(
    left: Mapping[Resource, Sequence[Entry]], failures: Sequence[Exception]
) -> list[Object]:
    """What keeps the namespace, as conditions without their times."""
    remaining = sorted(
        f"{row.gvr.resource}.{row.gvr.group} has {len(entries)} resource instances"
        for row, entries in left.items()
    )
    finalizers = Counter(
        finalizer
        for entries in left.values()
        for entry in entries
        for finalizer in entry.parse()["metadata"].get("finalizers") or ()
    )
    held = sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
    failed = sorted(str(f) if isinstance(f, FleetError) else type(f).__name__ for f in failures)
    return [
        _condition(
            "NamespaceDeletionDiscoveryFailure",
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        _condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        _condition(
            "NamespaceDeletionContentFailure",
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            failed,
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(failed)} remaining: ",
        ),
        _condition(
            "NamespaceContentRemaining",
            ("ContentRemoved", "All content successfully removed"),
            remaining,
            "SomeResourcesRemain",
            "Some resources are remaining: ",
        ),
        _condition(
            "NamespaceFinalizersRemaining",
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            held,
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: ",
        ),
    ]


def _condition(
    kind: str,
    fine: tuple[str, str],
    found: Sequence[str] = (),
    reason: str = "",
    beginning: str = "",
) -> Object:
    if found:
        message = beginning + ", ".join(found)
        return {"type": kind, "status": "True", "reason": reason, "message": message}
    return {"type": kind, "status": "False", "reason": fine[0], "message": fine[1]}


def with_conditions(namespace: Object, *, conditions: Sequence[Object], now: datetime) -> Object:
    """The namespace with these conditions; a time changes only with its condition's status."""
    status = namespace.get("status") or {}
    before = {condition["type"]: condition for condition in status.get("conditions") or ()}
    merged = []
    for condition in conditions:
        known = before.pop(condition["type"], None)
        since = timestamp(now)
        if known is not None and known.get("status") == condition["status"]:
            since = known.get("lastTransitionTime", since)
        merged.append({**condition, "lastTransitionTime": since})
    return {**namespace, "status": {**status, "conditions": [*before.values(), *merged]}}
