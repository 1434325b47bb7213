"""The objects that the fleet owns: compare-and-set over a durable backend.

Every write goes through one task. It takes what has queued up, checks each write against the
state that the ones before it leave, makes the whole batch durable under revisions of its own, and
only then shows it in the collections. So nothing a client was told of can be lost, nothing
undurable is ever seen, and a caller that is cancelled leaves no difference between the two:
its write was begun and ends as it ends.

Members' events that arrive during a commit are numbered after it (`sequencer`).
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Self

import orjson

from fleet.errors import AlreadyExists, Conflict, NotFound, StoreError
from fleet.kube.fields import extract
from fleet.kube.revision import Revision
from fleet.store.backend import Record
from fleet.store.collection import Collection
from fleet.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from fleet.kube.resources import Resource
    from fleet.store.backend import Backend
    from fleet.store.sequencer import Sequencer

    Guard = Callable[["Lookup"], None]

MODIFIED_MEANWHILE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
QUEUE_LIMIT = 1024
BATCH_LIMIT = 128


class ObjectStore:
    """Fleet objects by resource; each resource is a `Collection` to read from.

    An async context manager: inside it the store can be written. Objects handed in are complete
    (defaults, uid, timestamps set by the caller); the store sets `metadata.resourceVersion`
    alone. At most `queue_limit` writes wait; more wait for room, and are given up when their
    caller is cancelled there. A write that is queued is made.
    """

    def __init__(
        self, backend: Backend, sequencer: Sequencer, *, queue_limit: int = QUEUE_LIMIT
    ) -> None:
        self.sequencer = sequencer
        self._backend = backend
        self._collections: dict[str, Collection] = {}
        self._unclaimed: dict[str, list[Record]] = {}
        self._queue: asyncio.Queue[_Write | None] = asyncio.Queue(queue_limit)
        self._group = asyncio.TaskGroup()
        self._writer: asyncio.Task[None] | None = None
        self._state = _State.NEW

    async def __aenter__(self) -> Self:
        """Read what is stored. Raises StoreError."""
        try:
            stored = await self._backend.open()
            if stored.revision >= self.sequencer.first:
                raise StoreError(
                    f"the object store holds revision {stored.revision}, and this start would give "
                    f"out revisions from {self.sequencer.first} on: the epoch is older than the "
                    "objects; restore both from the same moment, or raise the epoch"
                )
        except BaseException:
            await self._backend.close()
            raise
        for record in stored.records:
            self._unclaimed.setdefault(record.kind, []).append(record)
        await self._group.__aenter__()
        self._writer = self._group.create_task(self._run(), name="object store")
        self._state = _State.OPEN
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Make the writes that are queued, then let go of the backend."""
        assert self._writer is not None
        if self._state is _State.OPEN:
            self._state = _State.CLOSING
        try:
            if not self._writer.done():
                await self._queue.put(None)
                await asyncio.wait((self._writer,))
        finally:
            try:
                if isinstance(error, asyncio.CancelledError):
                    await self._group.__aexit__(kind, error, trace)
                else:
                    # What the body raised leaves as it is, not wrapped with the end of a task.
                    await self._group.__aexit__(None, None, None)
            finally:
                await self._backend.close()

    # -- reading

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

    def redefine(self, resource: Resource) -> None:
        """A kind was defined anew: an empty collection takes on its row. One with objects keeps
        the row by which their selectable fields were read."""
        found = self._collections.get(resource.gvr.group_resource)
        if found is not None and not len(found):
            found.resource = resource

    def get(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        return self.collection(resource).get(namespace, name)

    def look(self) -> Lookup:
        """What a guard would be given for a write whose turn were now."""
        return _Pending(self)

    # -- writing

    async def create(
        self, resource: Resource, obj: dict[str, Any], *, guard: Guard | None = None
    ) -> Entry:
        """Store a new object.

        `guard` is called when the write's turn has come, with a look at the state it would be
        made in; what it raises refuses the write. It takes no time. Raises AlreadyExists,
        StoreError.
        """
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        return await self._submit(_Write(self.collection(resource), key, obj=obj, guard=guard))

    async def update(
        self,
        resource: Resource,
        obj: dict[str, Any],
        *,
        expected: Revision,
        guard: Guard | None = None,
    ) -> Entry:
        """Replace an object whose revision still is `expected`; `guard` as for a create.

        Raises NotFound, Conflict when it changed meanwhile, StoreError.
        """
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        return await self._submit(
            _Write(self.collection(resource), key, obj=obj, expected=expected, guard=guard)
        )

    async def delete(
        self,
        resource: Resource,
        *,
        namespace: str,
        name: str,
        expected: Revision,
        guard: Guard | None = None,
    ) -> Entry:
        """Remove an object whose revision still is `expected`; returns its last state, under
        the revision of the deletion; `guard` as for a create. Raises NotFound, Conflict,
        StoreError."""
        return await self._submit(
            _Write(self.collection(resource), (namespace, name), expected=expected, guard=guard)
        )

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

    # -- health

    @property
    def broken(self) -> str:
        """Why nothing can be written until the store is opened anew, "" while something can."""
        if self._state in (_State.NEW, _State.CLOSED):
            return f"the object store {self._state.value}"
        return self._backend.broken

    async def prove(self) -> None:
        """See that something could be written now. Raises StoreError otherwise."""
        if not self._accepts:
            raise StoreError(f"the object store {self._state.value}")
        await self._backend.prove()

    # -- the writer

    async def _submit(self, write: _Write) -> Entry:
        if not self._accepts:
            raise StoreError(
                f"the object store {self._state.value}: nothing was changed, try again later"
            )
        await self._queue.put(write)
        if self._state is _State.CLOSED:  # room came when nobody was left to write
            self._refuse_waiting()
        return await write.outcome

    @property
    def _accepts(self) -> bool:
        return self._state is _State.OPEN

    def _refuse_waiting(self) -> None:
        """Empty the queue; whoever waits for room in it comes next, and refuses itself."""
        while not self._queue.empty():
            write = self._queue.get_nowait()
            if write is not None:
                write.settle(StoreError("the object store broke off: nothing was changed"))

    async def _run(self) -> None:
        try:
            last = False
            while not last:
                batch, last = await self._next_batch()
                if batch:
                    await self._write(batch)
        finally:
            self._state = _State.CLOSED
            self._refuse_waiting()

    async def _next_batch(self) -> tuple[list[_Write], bool]:
        """What waits, at least one write unless the store closes; whether these are the last."""
        batch: list[_Write] = []
        write = await self._queue.get()
        while write is not None:
            batch.append(write)
            if len(batch) == BATCH_LIMIT or self._queue.empty():
                return batch, False
            write = self._queue.get_nowait()
        return batch, True

    async def _write(self, batch: Sequence[_Write]) -> None:
        try:
            await self._commit(batch)
        except StoreError as error:
            if len(batch) == 1:
                batch[0].settle(error)
                return
            for write in batch:  # one of them may be what the backend could not take
                await self._write((write,))
        except BaseException:
            for write in batch:
                write.settle(
                    StoreError(
                        "the object store broke off: whether the change was made is not known, "
                        "look before you repeat it"
                    )
                )
            raise

    async def _commit(self, batch: Sequence[_Write]) -> None:
        """Make every write of the batch that may be made, and settle all of them."""
        with self.sequencer.reserve(len(batch)) as first:
            pending = _Pending(self)
            outcomes = [
                pending.prepare(write, Revision(first + number))
                for number, write in enumerate(batch)
            ]
            made = [
                (write, outcome)
                for write, outcome in zip(batch, outcomes, strict=True)
                if isinstance(outcome, Entry)
            ]
            if made:
                changes = [write.record(entry) for write, entry in made]
                await _uninterrupted(self._backend.commit(changes))
            for write, entry in made:
                write.show(entry)
        for write, outcome in zip(batch, outcomes, strict=True):
            write.settle(outcome)


class Lookup(Protocol):
    """A look at the state in which a write would be made."""

    def __call__(self, resource: Resource, namespace: str, name: str, /) -> Entry | None:
        """The object of this name."""

    def entries(self, resource: Resource) -> Iterator[Entry]:
        """All objects of the resource, in no order."""


class _State(Enum):
    NEW = "is not open yet"
    OPEN = "is open"
    CLOSING = "is being closed"
    CLOSED = "is closed"


class _Write:
    """One write on its way: a create has no `expected` revision, a delete no `obj`."""

    __slots__ = ("collection", "expected", "guard", "key", "obj", "outcome")

    def __init__(
        self,
        collection: Collection,
        key: tuple[str, str],
        *,
        obj: dict[str, Any] | None = None,
        expected: Revision | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.collection = collection
        self.key = key
        self.obj = obj
        self.expected = expected
        self.guard = guard
        self.outcome: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

    def entry(self, present: Entry | None, revision: Revision) -> Entry:
        """What the write makes of `present`. Raises AlreadyExists, NotFound, Conflict."""
        gvr, name = self.collection.resource.gvr, self.key[1]
        if self.expected is None:
            if present is not None:
                raise AlreadyExists.of(group=gvr.group, resource=gvr.resource, name=name)
        elif present is None:
            raise NotFound.of(group=gvr.group, resource=gvr.resource, name=name)
        elif present.revision != self.expected:
            raise Conflict.of(
                group=gvr.group, resource=gvr.resource, name=name, why=MODIFIED_MEANWHILE
            )
        if self.obj is None:
            assert present is not None
            return present.restated(revision)
        metadata = {**self.obj["metadata"], "resourceVersion": str(revision)}
        return _entry({**self.obj, "metadata": metadata}, self.collection.resource, revision)

    def record(self, entry: Entry) -> Record:
        return Record(
            kind=self.collection.resource.gvr.group_resource,
            namespace=entry.namespace,
            name=entry.name,
            revision=entry.revision,
            raw=entry.raw,
            deleted=self.obj is None,
        )

    def show(self, entry: Entry) -> None:
        if self.obj is None:
            self.collection.remove(entry)
        else:
            self.collection.put(entry)

    def settle(self, outcome: Entry | Exception) -> None:
        """Tell the caller, unless it is gone."""
        if self.outcome.done():
            return
        if isinstance(outcome, Entry):
            self.outcome.set_result(outcome)
        else:
            self.outcome.set_exception(outcome)


class _Pending:
    """The state that the writes of a batch leave, before it is durable."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._changed: dict[tuple[str, str, str], Entry | None] = {}

    def __call__(self, resource: Resource, namespace: str, name: str, /) -> Entry | None:
        key = (resource.gvr.group_resource, namespace, name)
        if key in self._changed:
            return self._changed[key]
        return self._store.get(resource, namespace, name)

    def entries(self, resource: Resource) -> Iterator[Entry]:
        kind = resource.gvr.group_resource
        for entry in self._store.collection(resource).snapshot().entries():
            if (kind, entry.namespace, entry.name) not in self._changed:
                yield entry
        for (changed, _, _), after in self._changed.items():
            if changed == kind and after is not None:
                yield after

    def suppose(self, resource: Resource, entry: Entry) -> None:
        self._changed[resource.gvr.group_resource, entry.namespace, entry.name] = entry

    def prepare(self, write: _Write, revision: Revision) -> Entry | Exception:
        """The write's entry, or why it cannot be made."""
        resource = write.collection.resource
        try:
            if write.guard is not None:
                write.guard(self)
            entry = write.entry(self(resource, *write.key), revision)
        except Exception as error:  # told to the one who asked, who alone may have caused it
            return error
        key = (resource.gvr.group_resource, *write.key)
        self._changed[key] = None if write.obj is None else entry
        return entry


class Draft:
    """The store as it would be with objects on top that nobody writes: to read, and for guards."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._pending = _Pending(store)

    def get(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        return self._pending(resource, namespace, name)

    def look(self) -> Lookup:
        return self._pending

    def put(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Have an object there, in the place of one of its name."""
        metadata = obj["metadata"]
        present = self.get(resource, metadata.get("namespace", ""), metadata["name"])
        revision = present.revision if present is not None else self._store.sequencer.current
        there = {**obj, "metadata": {**metadata, "resourceVersion": str(revision)}}
        self._pending.suppose(resource, _entry(there, resource, revision))


async def _uninterrupted(commit: asyncio.Future[None]) -> None:
    """Until the outcome is known, whoever cancels; the cancellation strikes at the next await."""
    cancelled = False
    while not commit.done():
        try:
            await asyncio.wait((commit,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
    commit.result()


def _entry(obj: dict[str, Any], resource: Resource, revision: Revision) -> Entry:
    return Entry(obj, revision=revision, fields=extract(resource, obj))
