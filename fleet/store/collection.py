"""One resource's objects, in key order, with the bounded ring of their changes.

A collection is fed by whoever owns its objects (a store, or the intake of members' events) with
entries already numbered by the sequencer. Readers take snapshots – the present one, or one at an
earlier revision for as long as the ring reaches back – and follow the ring with a cursor: no
queue per watcher, so a slow watcher costs nothing and in the end loses its watch with 410.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, Any

from fleet.errors import Expired
from fleet.kube.revision import Revision, epoch_of
from fleet.store.index import Index, Key, Run, between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.kube.resources import Resource
    from fleet.store.entry import Entry
    from fleet.store.sequencer import Sequencer

log = logging.getLogger(__name__)

MAX_EVENTS = 8192
MIN_EVENTS = 128  # kept whatever they weigh, or a watcher could never catch up
MIN_SUPERSEDED_BYTES = 4 << 20
SUPERSEDED_SHARE = 4  # old versions may take a quarter of what the live objects take


class Event:
    """One change. `entry` is the object after it – for a deletion its last state, carrying the
    deletion's revision – and `previous` the object before it, None for a creation."""

    __slots__ = ("deleted", "entry", "frames", "previous")

    def __init__(self, entry: Entry, previous: Entry | None, *, deleted: bool) -> None:
        self.entry = entry
        self.previous = previous
        self.deleted = deleted
        self.frames: dict[str, bytes] | None = None  # encoded once, shared by all watchers

    @property
    def revision(self) -> Revision:
        return self.entry.revision


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A resource at one revision; unaffected by later changes."""

    revision: Revision
    runs: list[Run]

    def namespace(self, namespace: str) -> Snapshot:
        """Only the objects of one namespace."""
        return self.span(start=(namespace, ""), end=(namespace + "\0", ""))

    def span(self, *, start: Key | None = None, end: Key | None = None) -> Snapshot:
        """Only keys with start ≤ key < end."""
        return Snapshot(self.revision, between(self.runs, start=start, end=end))

    def __len__(self) -> int:
        return sum(len(run.entries) for run in self.runs)

    def entries(self) -> list[Entry]:
        return [entry for run in self.runs for entry in run.entries]


class Cursor:
    """A watcher's place in the ring: the events up to `position` have been read."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class Collection:
    """The objects of one resource. Owned by one event loop; every method is synchronous but
    `wait`."""

    def __init__(self, resource: Resource, sequencer: Sequencer) -> None:
        self.resource = resource
        self.sequencer = sequencer
        self.live_bytes = 0
        self._index = Index()
        self._events: list[Event] = []
        self._base = 0  # absolute position of _events[0]
        self._floor = sequencer.current  # the ring holds every change after this revision
        self._superseded_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._followers: list[Callable[[Event], None]] = []

    def __len__(self) -> int:
        return len(self._index)

    @property
    def floor(self) -> Revision:
        """The oldest revision that can still be read or watched from."""
        return self._floor

    # -- feeding

    def put(self, entry: Entry) -> None:
        """Apply a creation or change. `entry.revision` must exceed every earlier one's."""
        previous = self._index.put(entry)
        self.live_bytes += len(entry.raw) - (len(previous.raw) if previous else 0)
        self._append(Event(entry, previous, deleted=False))

    def remove(self, final: Entry) -> None:
        """Apply a deletion; `final` is the last state with the revision of the deletion.

        Nothing happens when no object has that key.
        """
        previous = self._index.remove(final.key)
        if previous is None:
            return
        self.live_bytes -= len(previous.raw)
        self._append(Event(final, previous, deleted=True))

    def load(self, entries: Iterable[Entry]) -> None:
        """Fill an empty collection without events: what a store finds when it opens."""
        if len(self._index) or self._events:
            raise ValueError("only an empty collection can be loaded")
        self._index = Index(entries)
        self.live_bytes = sum(len(e.raw) for e in self._index.entries())

    def follow(self, follower: Callable[[Event], None]) -> Callable[[], None]:
        """Call `follower` with each change as it is applied; returns what ends that.

        What it raises is logged and goes no further: the change is made, and whoever made it and
        whoever else follows must not suffer for it.
        """
        self._followers.append(follower)
        return lambda: self._followers.remove(follower)

    def widen(
        self, resource: Resource, fields_of: Callable[[dict[str, Any]], tuple[str, ...]]
    ) -> None:
        """Go on with `resource`, which has more selectable fields than before. Those it had keep
        their places, so open watches go on as well."""
        self.resource = resource
        held = {id(entry): entry for entry in self._index.entries()}
        for event in self._events:
            for entry in (event.entry, event.previous):
                if entry is not None:
                    held[id(entry)] = entry
        for entry in held.values():
            entry.fields = tuple(map(intern, fields_of(entry.parse())))

    # -- reading

    def get(self, namespace: str, name: str) -> Entry | None:
        return self._index.get((namespace, name))

    def snapshot(self) -> Snapshot:
        """The present state, at the newest published revision."""
        return Snapshot(self.sequencer.current, self._index.runs())

    def at(self, revision: Revision) -> Snapshot:
        """The state at `revision`.

        Raises Expired when the ring no longer reaches back to it or it is of another epoch.
        `revision` must not be ahead of the sequencer: the caller has waited for it.
        """
        self.check(revision)
        changed: dict[Key, Entry | None] = {}
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            changed[event.entry.key] = event.previous
        runs = self._index.runs()
        if changed:
            runs = _overlay(runs, changed)
        return Snapshot(revision, runs)

    def check(self, revision: Revision) -> None:
        """Raises Expired unless changes after `revision` are all still held."""
        if revision < self._floor or epoch_of(revision) != self.sequencer.epoch:
            raise Expired(f"too old resource version: {revision} ({self._floor})")

    def cursor(self, after: Revision) -> Cursor:
        """A cursor whose first event is the first change after `after`; raises Expired."""
        self.check(after)
        return Cursor(self._base + bisect_right(self._events, after, key=_revision))

    def read(self, cursor: Cursor, *, limit: int = 512) -> list[Event]:
        """The next events, at most `limit`, moving the cursor; [] when there are none.

        Raises Expired when the cursor fell out of the ring: the watcher was too slow.
        """
        offset = cursor.position - self._base
        if offset < 0:
            raise Expired("the watch was too slow for the changes; list again")
        events = self._events[offset : offset + limit]
        cursor.position += len(events)
        return events

    async def wait(self, cursor: Cursor, *, timeout_s: float) -> bool:
        """Until there is something after the cursor; False when `timeout_s` passed first."""
        if cursor.position < self._base + len(self._events):
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            if not waiter.done() or waiter.cancelled():
                # woken waiters were taken off the list by `_wake`
                with_waiter = [w for w in self._waiters if w is not waiter]
                self._waiters = with_waiter
        return True

    def wake(self) -> None:
        """Wake every waiting watcher, so that it looks at its other reasons to go on or end."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- the ring

    def _append(self, event: Event) -> None:
        self._events.append(event)
        if event.previous is not None:
            self._superseded_bytes += len(event.previous.raw)
        self._trim()
        for follower in tuple(self._followers):
            try:
                follower(event)
            except Exception:
                log.exception(
                    "%s: a follower failed at %r", self.resource.gvr.group_resource, event.entry
                )
        self.wake()

    def _trim(self) -> None:
        allowed = max(MIN_SUPERSEDED_BYTES, self.live_bytes // SUPERSEDED_SHARE)
        if len(self._events) <= MAX_EVENTS and self._superseded_bytes <= allowed:
            return
        drop = 0
        if len(self._events) > MAX_EVENTS:
            drop = MAX_EVENTS // 8  # in blocks, or each change would move the whole list
        freed = sum(_bytes(event.previous) for event in self._events[:drop])
        last = len(self._events) - MIN_EVENTS
        while drop < last and self._superseded_bytes - freed > allowed:
            freed += _bytes(self._events[drop].previous)
            drop += 1
        if drop:
            self._floor = self._events[drop - 1].revision
            del self._events[:drop]
            self._base += drop
            self._superseded_bytes -= freed


def _bytes(entry: Entry | None) -> int:
    return 0 if entry is None else len(entry.raw)


def _revision(event: Event) -> Revision:
    return event.revision


def _overlay(runs: list[Run], changed: dict[Key, Entry | None]) -> list[Run]:
    """`runs` with each key of `changed` put back to an earlier entry, or taken out."""
    index_runs: list[Run] = []
    pending = sorted(changed.items(), reverse=True)
    for position, run in enumerate(runs):
        bound = runs[position + 1].first if position + 1 < len(runs) else None
        mine: dict[Key, Entry | None] = {}
        while pending and (bound is None or pending[-1][0] < bound):
            key, entry = pending.pop()
            mine[key] = entry
        if not mine:
            index_runs.append(run)
            continue
        merged = {entry.key: entry for entry in run.entries}
        for key, entry in mine.items():
            if entry is None:
                merged.pop(key, None)
            else:
                merged[key] = entry
        if merged:
            index_runs.append(Run(tuple(merged[key] for key in sorted(merged))))
    rest = [entry for _, entry in reversed(pending) if entry is not None]
    if rest:
        index_runs.append(Run(tuple(rest)))
    return index_runs
