"""The garbage collector: dependents follow their owners, and owners wait for them or let them go.

An owner is absent only when this store serves its kind and holds no such object with that uid.
An owner of a kind that is not served here keeps its dependents for good: it may well exist in a
member, and an absence seen from here proves nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from fleet.apiserver.controllers import owners
from fleet.apiserver.controllers.objects import Key, together
from fleet.apiserver.controllers.owners import NOTHING, Graph, Owner, Reference, Standing
from fleet.apiserver.controllers.queue import Queue
from fleet.apiserver.deletion import FOREGROUND, ORPHAN
from fleet.kube.options import DeleteOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fleet.apiserver.controllers.objects import Objects
    from fleet.kube.resources import Resource
    from fleet.store.collection import Event
    from fleet.store.entry import Entry

Object = dict[str, Any]

_WORKERS = 16
_MARKS = tuple(orjson.dumps(text) for text in ("ownerReferences", ORPHAN, FOREGROUND))


def _nowhere(resource: Resource, name: str) -> bool:
    return False


class GarbageCollector:
    """Collects the garbage of one store."""

    def __init__(
        self,
        objects: Objects,
        *,
        elsewhere: Callable[[Resource, str], bool] = _nowhere,
        orphaned_first: Collection[str] = (),
    ) -> None:
        """`elsewhere` says of which names this store is no judge: their objects, if there are
        any, live in members. `orphaned_first` are finalizers of those who leave dependents behind
        themselves: they read the mark that says so, which stays for as long as they hold on."""
        self._objects = objects
        self._orphaned_first = frozenset(orphaned_first)
        self._elsewhere = elsewhere
        self._graph = Graph()
        self._queue: Queue[Key] = Queue("garbage")

    def start(self, resource: Resource) -> None:
        """Take in everything there is of a resource."""
        for entry in self._objects.entries(resource):
            self._see(resource, entry)

    def changed(self, resource: Resource, event: Event) -> None:
        """Take note of a change in the store."""
        entry = event.entry
        if event.deleted:
            key = key_of(resource, entry)
            self._left(key, self._graph.put(key, NOTHING))
            self._ended(entry)
        else:
            if event.previous is not None and event.previous.uid != entry.uid:
                self._ended(event.previous)
            self._see(resource, entry)

    def _see(self, resource: Resource, entry: Entry) -> None:
        key = key_of(resource, entry)
        metadata = entry.metadata
        standing = NOTHING
        if any(mark in metadata for mark in _MARKS):
            standing = Standing.of(orjson.loads(metadata))
        before = self._graph.put(key, standing)
        if standing != before:
            self._left(key, before)
            self._queue.add(key)
        elif standing.marked and ORPHAN in standing.finalizers:
            self._queue.add(key)  # others may have let go of it

    def _left(self, key: Key, before: Standing) -> None:
        """An owner may have waited for what `key` was before."""
        for reference in before.owners:
            owner = self._place(reference, key.namespace)
            if owner is not None:
                self._queue.add(owner)

    def _ended(self, entry: Entry) -> None:
        for dependent in self._graph.dependents(entry.uid):
            self._queue.add(dependent)

    async def run(self) -> None:
        await self._queue.work(self.reconcile, workers=_WORKERS)

    async def reconcile(self, key: Key) -> None:
        """Bring one object to what its owners and dependents ask for."""
        resource, entry = self._find(key)
        if resource is None or entry is None:
            return
        metadata = orjson.loads(entry.metadata)
        uid = metadata.get("uid", "")
        decision = owners.decide(
            Standing.of(metadata),
            self._graph.dependents(uid),
            look=lambda reference: self._look(reference, resource, key.namespace),
            waits=self._graph.waits,
        )
        change = partial(self._objects.change, resource, key, uid=uid)
        match decision:
            case owners.Delete(propagation, unblock):
                if unblock:
                    await change(owners.unblocked)
                    entry = self._find(key)[1] or entry
                options = DeleteOptions(
                    propagation=propagation, uid=uid, resource_version=str(entry.revision)
                )
                await self._objects.remove(resource, entry, options)
            case owners.Forget(uids):
                await change(lambda obj: owners.without_owners(obj, uids))
            case owners.Release(finalizer):
                await change(lambda obj: owners.without_finalizer(obj, finalizer))
            case owners.Orphan(left):
                if self._orphaned_first.intersection(metadata["finalizers"]):
                    return
                await self._orphan(left, uid)
                await change(lambda obj: owners.without_finalizer(obj, ORPHAN))
            case owners.Await(waited_for):
                for dependent in waited_for:
                    self._queue.add(dependent)

    async def _orphan(self, dependents: tuple[Key, ...], uid: str) -> None:
        failures = await together(partial(self._disown, dependent, uid) for dependent in dependents)
        if failures:
            raise failures[0]

    async def _disown(self, dependent: Key, owner_uid: str) -> None:
        resource, entry = self._find(dependent)
        if resource is not None and entry is not None:
            await self._objects.change(
                resource,
                dependent,
                lambda obj: owners.without_owners(obj, (owner_uid,)),
                uid=entry.uid,
            )

    def _find(self, key: Key) -> tuple[Resource | None, Entry | None]:
        resource = self._objects.row(key.resource)
        if resource is None:
            return None, None
        return resource, self._objects.get(resource, key.namespace, key.name)

    # -- looking owners up

    def _look(self, reference: Reference, dependent: Resource, namespace: str) -> Owner:
        row = self._objects.row_of_kind(reference.api_version, reference.kind)
        if row is None or (row.namespaced and not dependent.namespaced):
            return Owner.UNKNOWN
        if self._elsewhere(row, reference.name):
            return Owner.UNKNOWN
        entry = self._objects.get(row, namespace if row.namespaced else "", reference.name)
        if entry is None or entry.uid != reference.uid:
            return Owner.ABSENT
        return Owner.WAITING if self._graph.waits(key_of(row, entry)) else Owner.SOLID

    def _place(self, reference: Reference, namespace: str) -> Key | None:
        row = self._objects.row_of_kind(reference.api_version, reference.kind)
        if row is None:
            return None
        inside = namespace if row.namespaced else ""
        return Key(row.gvr.group_resource, inside, reference.name)


def key_of(resource: Resource, entry: Entry) -> Key:
    return Key(resource.gvr.group_resource, entry.namespace, entry.name)
