"""The objects that the fleet owns: compare-and-set over a durable backend.

A write reserves the next revision, makes the object durable under it, and only then shows it in
the collection, so nothing a client was told of can be lost and nothing undurable is ever seen.
Writers take turns; members' events that arrive meanwhile are numbered after the write.

Backends (`memory`, `sqlite`) keep bytes by key and know nothing of Kubernetes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from fleet.errors import AlreadyExists, Conflict, NotFound
from fleet.kube.fields import extract
from fleet.store.collection import Collection
from fleet.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.kube.resources import Resource
    from fleet.kube.revision import Revision
    from fleet.store.sequencer import Sequencer

MODIFIED_MEANWHILE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclass(frozen=True, slots=True)
class Record:
    """One stored object. `kind` is the group-resource (`jobs.batch`), `raw` its JSON."""

    kind: str
    namespace: str
    name: str
    revision: Revision
    raw: bytes


class Backend(Protocol):
    """Where records lie. One store uses it, one change at a time."""

    def load(self) -> Iterable[Record]:
        """Every record, in any order. Raises StoreError."""

    async def put(self, record: Record) -> None:
        """Insert or replace; durable when it returns. Raises StoreError, nothing changed."""

    async def delete(self, record: Record) -> None:
        """Take out the object with the record's key; `record` carries the deletion's revision.
        Durable when it returns. Raises StoreError, nothing changed."""

    async def close(self) -> None:
        """Let go of files; safe to call twice."""


class ObjectStore:
    """Fleet objects by resource; each resource is a `Collection` to read from.

    Objects handed in are complete (defaults, uid, timestamps set by the caller); the store sets
    `metadata.resourceVersion` alone.
    """

    def __init__(self, backend: Backend, sequencer: Sequencer) -> None:
        self.sequencer = sequencer
        self._backend = backend
        self._collections: dict[str, Collection] = {}
        self._unclaimed: dict[str, list[Record]] = {}
        self._writer = asyncio.Lock()
        for record in backend.load():
            self._unclaimed.setdefault(record.kind, []).append(record)

    def collection(self, resource: Resource) -> Collection:
        """The collection of a resource, filled with what is stored; made at the first call."""
        kind = resource.gvr.group_resource
        found = self._collections.get(kind)
        if found is None:
            found = self._collections[kind] = Collection(resource, self.sequencer)
            found.load(
                _entry(orjson.loads(record.raw), resource, record.revision)
                for record in self._unclaimed.pop(kind, ())
            )
        return found

    def get(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        return self.collection(resource).get(namespace, name)

    async def create(self, resource: Resource, obj: dict[str, Any]) -> Entry:
        """Store a new object. Raises AlreadyExists, StoreError."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        collection = self.collection(resource)
        async with self._writer:
            if collection.get(namespace, name) is not None:
                gvr = resource.gvr
                raise AlreadyExists.of(group=gvr.group, resource=gvr.resource, name=name)
            return await self._put(collection, obj)

    async def update(self, resource: Resource, obj: dict[str, Any], *, expected: Revision) -> Entry:
        """Replace an object whose revision still is `expected`.

        Raises NotFound, Conflict when it changed meanwhile, StoreError.
        """
        metadata = obj["metadata"]
        collection = self.collection(resource)
        async with self._writer:
            _expect(collection, metadata.get("namespace", ""), metadata["name"], expected)
            return await self._put(collection, obj)

    async def delete(
        self, resource: Resource, *, namespace: str, name: str, expected: Revision
    ) -> Entry:
        """Remove an object whose revision still is `expected`; returns its last state, under
        the revision of the deletion. Raises NotFound, Conflict, StoreError."""
        collection = self.collection(resource)
        async with self._writer:
            present = _expect(collection, namespace, name, expected)
            with self.sequencer.reserve() as revision:
                final = present.restated(revision)
                await self._backend.delete(_record(collection, final))
                collection.remove(final)
            return final

    async def rewrite(
        self,
        resource: Resource,
        *,
        namespace: str,
        name: str,
        change: Callable[[dict[str, Any]], dict[str, Any] | None],
        attempts: int = 5,
    ) -> Entry:
        """Read, change and write until nobody wrote in between.

        `change` gets a fresh copy and returns the new object, or None to leave it as it is.
        Raises NotFound, Conflict after `attempts`, and whatever `change` raises.
        """
        gvr = resource.gvr
        for _ in range(attempts):
            present = self.get(resource, namespace, name)
            if present is None:
                raise NotFound.of(group=gvr.group, resource=gvr.resource, name=name)
            changed = change(present.parse())
            if changed is None:
                return present
            try:
                return await self.update(resource, changed, expected=present.revision)
            except Conflict:
                continue
        raise Conflict.of(group=gvr.group, resource=gvr.resource, name=name, why=MODIFIED_MEANWHILE)

    async def close(self) -> None:
        await self._backend.close()

    async def _put(self, collection: Collection, obj: dict[str, Any]) -> Entry:
        with self.sequencer.reserve() as revision:
            obj["metadata"]["resourceVersion"] = str(revision)
            entry = _entry(obj, collection.resource, revision)
            await self._backend.put(_record(collection, entry))
            collection.put(entry)
        return entry


def _entry(obj: dict[str, Any], resource: Resource, revision: Revision) -> Entry:
    return Entry(obj, revision=revision, fields=extract(resource, obj))


def _record(collection: Collection, entry: Entry) -> Record:
    return Record(
        kind=collection.resource.gvr.group_resource,
        namespace=entry.namespace,
        name=entry.name,
        revision=entry.revision,
        raw=entry.raw,
    )


def _expect(collection: Collection, namespace: str, name: str, expected: Revision) -> Entry:
    present = collection.get(namespace, name)
    gvr = collection.resource.gvr
    if present is None:
        raise NotFound.of(group=gvr.group, resource=gvr.resource, name=name)
    if present.revision != expected:
        raise Conflict.of(group=gvr.group, resource=gvr.resource, name=name, why=MODIFIED_MEANWHILE)
    return present
