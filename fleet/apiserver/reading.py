"""GET, LIST and WATCH over a collection.

A list is a snapshot's runs joined to bytes while they are sent: nothing is copied whole, and an
unchanged run is compressed once in its life. A watch is a cursor in the collection's ring; frames
of plain objects are encoded once an event, however many watch.

Rules of revisions, chunks and initial events: https://kubernetes.io/docs/reference/using-api/api-concepts/
and k8s.io/apiserver's cacher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import orjson

from fleet.apiserver.compression import (
    GZIP_FROM_BYTES,
    HEADER,
    Block,
    Trailer,
    compress,
    stored,
)
from fleet.errors import ApiError, Expired, NotFound, RevisionTooLarge
from fleet.kube import continuation, fields
from fleet.kube.status import status_of
from fleet.kube.wire import Response
from fleet.store.collection import Snapshot
from fleet.store.index import Run

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Iterator

    from fleet.apiserver.rendering import Rendering
    from fleet.kube.options import ListOptions, WatchOptions
    from fleet.kube.resources import Resource
    from fleet.kube.revision import Revision
    from fleet.kube.selectors import FieldSelector, LabelSelector
    from fleet.store.collection import Collection, Cursor, Event
    from fleet.store.entry import Entry

BOOKMARK_EVERY_S = 60.0
BOOKMARK_BEFORE_END_S = 2.0
WATCH_AT_LEAST_S = 1800.0  # without timeoutSeconds a watch ends at random within 30-60 min

_JSON = {"content-type": "application/json"}
_SEPARATOR = stored(b",")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which part of a collection a request is about.

    `namespaces` is None for all of them, else the ones to read, in key order; `grows` says of a
    namespace that appears in an open watch whether it belongs to them. `allowed` filters by what
    the caller may see; None when everything in the namespaces may be seen.
    """

    namespaces: tuple[str, ...] | None = None
    allowed: Callable[[Entry], bool] | None = None
    grows: Callable[[str], bool] | None = None

    def snapshot(self, whole: Snapshot) -> Snapshot:
        if self.namespaces is None:
            return whole
        runs: list[Run] = []
        for namespace in self.namespaces:
            runs += whole.namespace(namespace).runs
        return Snapshot(whole.revision, runs)

    def predicate(
        self, resource: Resource, label: LabelSelector, field: FieldSelector
    ) -> Callable[[Entry], bool] | None:
        """What an entry of the scope's namespaces must satisfy; None when nothing is asked."""
        tests: list[Callable[[Entry], bool]] = []
        if self.allowed is not None:
            tests.append(self.allowed)
        if not label.empty:
            tests.append(lambda entry: label.matches(entry.labels))
        if not field.empty:
            tests.append(_field_test(resource, field))
        if not tests:
            return None
        if len(tests) == 1:
            return tests[0]
        return lambda entry: all(test(entry) for test in tests)

    def holds(self, entry: Entry) -> bool:
        if self.namespaces is None or entry.namespace in self.namespaces:
            return True
        return self.grows is not None and self.grows(entry.namespace)


def _field_test(resource: Resource, field: FieldSelector) -> Callable[[Entry], bool]:
    matches = fields.matcher(resource, field)
    return lambda entry: matches(entry.namespace, entry.name, entry.fields)


# -- GET


def get_response(entry: Entry | None, rendering: Rendering, *, missing: NotFound) -> Response:
    """One object; raises `missing` when there is none."""
    if entry is None:
        raise missing
    return Response(200, _JSON, rendering.single(entry))


# -- LIST


def list_response(
    collection: Collection,
    options: ListOptions,
    rendering: Rendering,
    *,
    scope: Scope,
    path: str,
    gzip: bool = False,
) -> Response:
    """A list at one revision.

    `path` binds continue tokens to the request they continue. Raises Expired (with a token that
    goes on at the newest revision, when a continue token was given), RevisionTooLarge.
    """
    runs, metadata = select(collection, options, scope=scope, path=path)
    head = rendering.head(orjson.dumps(metadata))
    if gzip and _exceeds(runs, GZIP_FROM_BYTES):
        headers = {**_JSON, "content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(200, headers, GzipPieces(head, runs, rendering))
    return Response(200, _JSON, Pieces(head, runs, rendering))


def select(
    collection: Collection, options: ListOptions, *, scope: Scope, path: str
) -> tuple[list[Run], dict[str, object]]:
    """The entries that a list has, and its ListMeta. Raises as `list_response` does."""
    selectors = continuation.selection(options)
    snapshot, after = _list_snapshot(collection, options, path=path, selectors=selectors)
    part = scope.snapshot(snapshot)
    if after is not None:
        namespace, name = after
        part = part.span(start=(namespace, name + "\0"))
    test = scope.predicate(collection.resource, options.label, options.field)
    runs, last, remaining = _take(part.runs, test, options.limit)
    metadata: dict[str, object] = {"resourceVersion": str(snapshot.revision)}
    if last is not None:
        metadata["continue"] = continuation.encode(
            snapshot.revision, last, path=path, selectors=selectors
        )
        if options.label.empty and options.field.empty and remaining is not None:
            metadata["remainingItemCount"] = remaining
    return runs, metadata


def _list_snapshot(
    collection: Collection, options: ListOptions, *, path: str, selectors: str
) -> tuple[Snapshot, tuple[str, str] | None]:
    """The state to list and, for a continued list, the key of the last item given out."""
    current = collection.sequencer.current
    if options.continue_:
        token = continuation.decode(options.continue_, path=path, selectors=selectors)
        if token.revision is None:  # goes on at the newest revision, its own being gone
            return collection.snapshot(), token.after
        try:
            return collection.at(token.revision), token.after
        except Expired:
            raise continuation.expired(token, path=path, selectors=selectors) from None
    if options.revision > current:
        raise RevisionTooLarge(wanted=options.revision, current=current)
    # a revision with a limit and without a match has always meant that very revision
    exact = options.match == "Exact" or (not options.match and options.limit > 0)
    if exact and options.revision > 0:
        try:
            return collection.at(options.revision), None
        except Expired:
            raise continuation.expired_list() from None
    return collection.snapshot(), None


def _take(
    runs: list[Run], test: Callable[[Entry], bool] | None, limit: int
) -> tuple[list[Run], tuple[str, str] | None, int | None]:
    """At most `limit` matching entries (0: all); the last key taken and how many follow it.

    The key is None when nothing follows.

    The count is None when it is not known without looking at the rest.
    """
    if test is not None:
        return _take_matching(runs, test, limit)
    if not limit:
        return runs, None, 0
    taken: list[Run] = []
    room = limit
    total = sum(len(run.entries) for run in runs)
    for run in runs:
        if len(run.entries) > room:
            if room:
                taken.append(Run(run.entries[:room]))
            return taken, taken[-1].entries[-1].key, total - limit
        taken.append(run)
        room -= len(run.entries)
    return taken, None, 0


def _take_matching(
    runs: list[Run], test: Callable[[Entry], bool], limit: int
) -> tuple[list[Run], tuple[str, str] | None, int | None]:
    taken: list[Run] = []
    room = limit if limit else -1
    for run in runs:
        matching = tuple(filter(test, run.entries))
        if not matching:
            continue
        if 0 <= room < len(matching):
            if room:
                taken.append(Run(matching[:room]))
            return taken, taken[-1].entries[-1].key, None
        taken.append(run if len(matching) == len(run.entries) else Run(matching))
        room -= len(matching) if limit else 0
    return taken, None, 0


def _exceeds(runs: list[Run], size: int) -> bool:
    for run in runs:
        for entry in run.entries:
            size -= len(entry.raw)
            if size < 0:
                return True
    return False


class Pieces(Sequence[bytes]):
    """A list's body, a run at a time; each piece is made when it is asked for."""

    def __init__(self, head: bytes, runs: list[Run], rendering: Rendering) -> None:
        self._head = head
        self._runs = runs
        self._rendering = rendering

    def __len__(self) -> int:
        return len(self._runs) + 2

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if index == 0:
            return self._head
        if index == len(self._runs) + 1:
            return self._rendering.tail
        if not 0 < index <= len(self._runs):
            raise IndexError(index)
        joined = _joined(self._runs[index - 1], self._rendering)
        return joined if index == 1 else b"," + joined


class GzipPieces(Sequence[bytes]):
    """The same body, compressed; iterated once, in order."""

    def __init__(self, head: bytes, runs: list[Run], rendering: Rendering) -> None:
        self._head = head
        self._runs = runs
        self._rendering = rendering

    def __len__(self) -> int:
        return len(self._runs) + 2

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        raise TypeError("a compressed body is read in order")

    def __iter__(self) -> Iterator[bytes]:
        trailer = Trailer()
        yield HEADER + trailer.add(compress(self._head))
        for number, run in enumerate(self._runs):
            separator = trailer.add(_SEPARATOR) if number else b""
            yield separator + trailer.add(_compressed(run, self._rendering))
        yield trailer.add(compress(self._rendering.tail)) + trailer.finish()


def _joined(run: Run, rendering: Rendering) -> bytes:
    return b",".join(map(rendering.item, run.entries))


def _compressed(run: Run, rendering: Rendering) -> Block:
    key = rendering.cache_key
    if not key:
        return compress(_joined(run, rendering))
    if run.cache is None:
        run.cache = {}
    block: Block | None = run.cache.get(key)
    if block is None:
        block = run.cache[key] = compress(_joined(run, rendering))
    return block


# -- WATCH


def watch_response(
    collection: Collection,
    options: WatchOptions,
    rendering: Rendering,
    *,
    scope: Scope,
    rng: random.Random,
    held: AbstractContextManager[None] | None = None,
    since: Sequence[Event] | None = None,
) -> Response:
    """A stream of events from the revision asked for; `held` is entered while it is read.

    `since` are the changes from that revision to the present one, where somebody else than the
    collection's ring knows them.

    What is known to be wrong is raised before the first byte: Expired, RevisionTooLarge. Later a
    watcher that falls behind the ring gets an ERROR event with 410.
    """
    current = collection.sequencer.current
    if options.revision > current:
        raise RevisionTooLarge(wanted=options.revision, current=current)
    initial: Snapshot | None = None
    if options.send_initial_events:
        initial = scope.snapshot(collection.snapshot())
        cursor = collection.cursor(current)
    elif since is not None:
        cursor = collection.cursor(current)
    else:
        cursor = collection.cursor(options.revision or current)
    timeout_s = options.timeout_s
    if timeout_s is None:
        timeout_s = WATCH_AT_LEAST_S * (1 + rng.random())
    watch = _Watch(collection, cursor, options, rendering, scope)
    stream = watch.stream(initial, since or (), timeout_s, held or nullcontext())
    return Response(200, _JSON, stream)


class _Watch:
    """One open watch."""

    def __init__(
        self,
        collection: Collection,
        cursor: Cursor,
        options: WatchOptions,
        rendering: Rendering,
        scope: Scope,
    ) -> None:
        self._collection = collection
        self._cursor = cursor
        self._options = options
        self._rendering = rendering
        self._scope = scope
        self._test = scope.predicate(collection.resource, options.label, options.field)

    async def stream(
        self,
        initial: Snapshot | None,
        since: Sequence[Event],
        timeout_s: float,
        held: AbstractContextManager[None],
    ) -> AsyncIterator[bytes]:
        with held:
            loop = asyncio.get_running_loop()
            end_s = loop.time() + timeout_s
            bookmark_s = min(loop.time() + BOOKMARK_EVERY_S, max(end_s - BOOKMARK_BEFORE_END_S, 0))
            if not self._options.bookmarks:
                bookmark_s = float("inf")
            if initial is not None:
                for run in initial.runs:
                    frames = [
                        _frame("ADDED", self._rendering.single(entry))
                        for entry in run.entries
                        if self._test is None or self._test(entry)
                    ]
                    if frames:
                        yield b"".join(frames)
                if self._options.send_initial_events and self._options.bookmarks:
                    yield self._bookmark(initial.revision, initial_end=True)
            missed = b"".join(map(self._event, since))
            if missed:
                yield missed
            while True:
                try:
                    events = self._collection.read(self._cursor)
                except ApiError as error:
                    yield _frame("ERROR", orjson.dumps(status_of(error)))
                    return
                if events:
                    frames = [frame for event in events if (frame := self._event(event))]
                    if frames:
                        yield b"".join(frames)
                    continue
                now_s = loop.time()
                if now_s >= end_s:
                    return
                if now_s >= bookmark_s:
                    # everything up to the sequencer's present number is in the ring, and read
                    yield self._bookmark(self._collection.sequencer.current, initial_end=False)
                    last_s = end_s - BOOKMARK_BEFORE_END_S
                    bookmark_s = now_s + BOOKMARK_EVERY_S
                    if now_s < last_s < bookmark_s:
                        bookmark_s = last_s
                    continue
                await self._collection.wait(
                    self._cursor, timeout_s=max(min(bookmark_s, end_s) - now_s, 0)
                )

    def _event(self, event: Event) -> bytes:
        """The frame of `event` as this watch sees it; b"" when it does not concern it."""
        entry, previous = event.entry, event.previous
        if not self._scope.holds(entry):
            return b""
        test = self._test
        before = previous is not None and (test is None or test(previous))
        after = not event.deleted and (test is None or test(entry))
        if after:
            return self._shared(event, "MODIFIED" if before else "ADDED")
        if not before:
            return b""
        if event.deleted:
            return self._shared(event, "DELETED")
        assert previous is not None
        last = previous.restated(event.revision)
        return _frame("DELETED", self._rendering.single(last))

    def _shared(self, event: Event, kind: str) -> bytes:
        key = self._rendering.cache_key
        if not key:
            return _frame(kind, self._rendering.single(event.entry))
        if event.frames is None:
            event.frames = {}
        key = kind + key
        frame = event.frames.get(key)
        if frame is None:
            frame = event.frames[key] = _frame(kind, self._rendering.single(event.entry))
        return frame

    def _bookmark(self, revision: Revision, *, initial_end: bool) -> bytes:
        return _frame("BOOKMARK", self._rendering.bookmark(revision, initial_end=initial_end))


def _frame(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)
