"""One resource of one member, listed and watched for as long as it is wanted.

The loop asks for a WatchList (the initial state as a stream, then changes); a member that does
not serve it is asked for pages of a list, then watched from the list's revision. A watch that
ends is resumed at the last revision seen, however long it was away or its credentials refused; a
member that no longer knows that revision (410, as HTTP status or as an ERROR event) is listed
again, and the sink makes the difference of it.
Nothing a member sends ends the loop: what cannot be read is asked for again.

Invariant: the sink gets whole lists and changes in the member's order, and `last_revision` never
runs ahead of what it got. Next step: the sink, that is `fleet.view`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import ApiError, TransportError
from fleet.kube.paths import path_of
from fleet.kube.wire import Request
from fleet.members import calls, events, metrics
from fleet.members.backoff import Backoff
from fleet.members.freshness import Freshness
from fleet.members.lines import LineSplitter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from random import Random

    from fleet.kube.resources import Resource
    from fleet.kube.wire import Handler, Response
    from fleet.members.sink import Sink

log = logging.getLogger(__name__)

_NO_OBJECT = "-"  # legal in a path and a selector, but no name the API accepts for an object
_REFUSALS = frozenset({400, 405, 406, 415, 422})  # of WatchList, not of the resource
_OF_RIGHTS = frozenset({401, 403})  # of who asks: what was seen before stays true
_NOT_THE_FORM = frozenset({401, 403, 404, 410, 429})  # a plain list would be answered the same
_SHORT_S = 1.0
_LINES_PER_TURN = 256
_GARBLED_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits and waits of a reflector, in seconds unless said otherwise."""

    page: int = 500
    """Objects a page where the member serves no WatchList."""
    answer_s: float = 30.0
    """For the head of an answer, and for a whole page."""
    initial_silence_s: float = 10.0
    """Without a byte before the initial events have ended: WatchList is not served."""
    silence_s: float = 90.0
    """Without a byte on an open watch (bookmarks come about once a minute): it is opened anew."""
    watch_s: tuple[float, float] = (300.0, 600.0)
    """A watch asks to be ended after a random time in this range."""
    probe_s: float = 5.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 10.0


class _WatchListRefusedError(Exception):
    """The member answers a WatchList with an error, a plain list, or never ends it.

    `doubtful`: it may as well have been a failure of the moment; if the list that follows fails
    too, WatchList is tried again.
    """

    def __init__(self, why: object, *, doubtful: bool = False) -> None:
        super().__init__(str(why))
        self.doubtful = doubtful


class Reflector:
    """Feeds `sink` from one (member, resource) while `run` runs."""

    def __init__(
        self,
        *,
        member: str,
        handler: Handler,
        resource: Resource,
        sink: Sink,
        random: Random,
        clock: Callable[[], float] = time.monotonic,
        pace: Pace | None = None,
    ) -> None:
        self.member = member
        self.resource = resource
        self.freshness = Freshness(probe=self._current_revision, clock=clock)
        self._handler = handler
        self._sink = sink
        self._random = random
        self._clock = clock
        self._pace = pace or Pace()
        self._path = path_of(resource.gvr)
        self._namespace = _NO_OBJECT if resource.namespaced else ""
        self._watch_list = True
        self._doubted = False
        self._resumable = False
        self._garbled = 0
        self._told = ""
        self._labels = (member, resource.gvr.group_resource)

    @property
    def synced(self) -> asyncio.Event:
        return self.freshness.synced

    @property
    def failure(self) -> str:
        return self.freshness.failure

    @property
    def last_contact_s(self) -> float:
        return self.freshness.last_contact_s

    @property
    def last_revision(self) -> int:
        return self.freshness.last_revision

    async def confirm(self, deadline_s: float, *, within_s: float = 1.0) -> bool:
        """See `Freshness.confirm`."""
        return await self.freshness.confirm(deadline_s, within_s=within_s)

    async def reached(self, revision: int, deadline_s: float) -> bool:
        """See `Freshness.reached`."""
        return await self.freshness.reached(revision, deadline_s)

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.freshness.run(), name=f"probe {self._name}")
                await self._loop()
        finally:
            self.freshness.closed("not watched")

    @property
    def _name(self) -> str:
        return f"{self.member}/{self.resource.gvr.group_resource}"

    async def _loop(self) -> None:
        backoff = Backoff(
            random=self._random,
            base_s=self._pace.first_wait_s,
            cap_s=self._pace.longest_wait_s,
        )
        expired = False
        while True:
            retry_after_s = 0.0
            failure = ""
            started_s = self._clock()
            try:
                heard = await self._session()
                lasted_s = self._clock() - started_s
                if not heard and lasted_s < _SHORT_S:
                    failure = f"the watch ended after {lasted_s:.3f} s without a word"
            except _WatchListRefusedError as refusal:
                log.info("%s: no WatchList (%s); listing in pages", self._name, refusal)
                self._watch_list = False
                self._doubted = refusal.doubtful
                self.freshness.closed("")
                continue
            except ApiError as error:
                failure = str(error) or type(error).__name__
                retry_after_s = _retry_after_s(error)
                if error.http_code == 410:
                    log.info(
                        "%s: revision %d is gone: listing anew", self._name, self.last_revision
                    )
                    self._resumable = False
                    if not expired:
                        expired = True
                        self.freshness.closed("")
                        continue
                elif error.http_code < 500 and error.http_code not in (*_OF_RIGHTS, 429):
                    self._resumable = False
            except TransportError as error:
                failure = str(error) or "connection lost"
                if isinstance(error, events.GarbledError):
                    self._garbled += 1
                    self._resumable = self._resumable and self._garbled < _GARBLED_IN_A_ROW
            except Exception as error:
                # A fault of our own, in the sink most likely: start again from a whole list.
                log.exception("%s: cannot take in what the member sent", self._name)
                self._resumable = False
                failure = f"{type(error).__name__}: {error}"
            lasted_s = self._clock() - started_s
            if lasted_s >= _SHORT_S:
                expired = False
            if not failure:
                backoff.reset()
                self.freshness.closed("")
                continue
            if self.freshness.live and lasted_s >= self._pace.longest_wait_s:
                backoff.reset()
            metrics.WATCH_FAILURES.labels(*self._labels).inc()
            if failure != self._told:
                log.warning("%s: %s", self._name, failure)
                self._told = failure
            self.freshness.closed(failure)
            await self._wait(max(backoff.next_s(), retry_after_s))

    async def _wait(self, wait_s: float) -> None:
        self.freshness.retry.clear()
        try:
            async with asyncio.timeout(wait_s):
                await self.freshness.retry.wait()
        except TimeoutError:
            pass

    async def _session(self) -> bool:
        """One watch, from its request to its end; a list before it where one is needed.

        Returns whether anything was heard on it.
        """
        initial = not self._resumable
        if initial and not self._watch_list:
            await self._list()
            initial = False
        lowest_s, highest_s = self._pace.watch_s
        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(int(self._random.uniform(lowest_s, highest_s)))),
        ]
        if initial:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        else:
            query += [("resourceVersion", str(self.last_revision))]
        try:
            response = await self._answer(self._path, query)
        except ApiError as error:
            if initial and error.http_code in _REFUSALS:
                raise _WatchListRefusedError(error) from error
            raise
        try:
            if initial:
                return await self._follow(response, _Initial())
            self.freshness.opened()
            return await self._follow(response, None)
        finally:
            await response.aclose()

    async def _answer(self, path: str, query: list[tuple[str, str]]) -> Response:
        request = Request("GET", path, tuple(query), headers={"accept": "application/json"})
        return await calls.answer(self._handler, request, timeout_s=self._pace.answer_s)

    async def _follow(self, response: Response, initial: _Initial | None) -> bool:
        """Take in the events of one watch until it ends; whether there was anything."""
        taken = metrics.EVENTS.labels(*self._labels)
        pieces = calls.pieces_of(response)
        splitter = LineSplitter()
        heard = False
        while (piece := await self._piece(pieces, before_end=initial is not None)) is not None:
            heard = True
            self.freshness.contact()
            lines = splitter.feed(piece)
            for at, line in enumerate(lines, start=1):
                if initial is None:
                    self._take(events.parse(line))
                elif initial.take(line):
                    await self._replace(initial.objects(), initial.revision, "watchlist")
                    initial = None
                    self.freshness.opened()
                if not at % _LINES_PER_TURN:
                    await asyncio.sleep(0)
            taken.inc(len(lines))
            # Buffered pieces follow each other without a wait: let others have a turn.
            await asyncio.sleep(0)
        if initial is not None:
            raise _WatchListRefusedError("it ended before the initial events did", doubtful=True)
        if splitter.end().strip():
            raise TransportError("the watch ended within a line")
        return heard

    async def _piece(self, pieces: AsyncIterator[bytes], *, before_end: bool) -> bytes | None:
        """The next bytes of a watch, None at its end."""
        silence_s = self._pace.initial_silence_s if before_end else self._pace.silence_s
        try:
            async with asyncio.timeout(silence_s):
                return await anext(pieces, None)
        except TimeoutError as error:
            if before_end:
                why = f"it did not end the initial events and was silent for {silence_s:g} s"
                raise _WatchListRefusedError(why, doubtful=True) from error
            # Quiet or dead; opening it anew tells, and costs nothing where it was only quiet.
            log.debug("%s: silent for %g s", self._name, silence_s)
            return None

    def _take(self, event: events.WatchEvent) -> None:
        revision = events.revision_of(event.object)
        match event.kind:
            case "ADDED" | "MODIFIED":
                self._sink.upsert(event.object)
            case "DELETED":
                self._sink.remove(event.object)
            case "BOOKMARK":
                self._sink.progress(revision)
            case _:
                log.warning("%s: unknown watch event %.32r ignored", self._name, event.kind)
                return
        if revision:
            self._garbled = 0
            self.freshness.advance(revision)

    async def _replace(self, objects: Iterator[dict[str, Any]], revision: int, form: str) -> None:
        steps = self._sink.replace(objects, revision)
        for _ in steps or ():
            await asyncio.sleep(0)
        self._resumable = revision > 0
        self._garbled = 0
        self.freshness.advance(revision)
        self.freshness.synced.set()
        metrics.RELISTS.labels(*self._labels, form).inc()

    async def _list(self) -> None:
        """The whole list, in pages at one revision; a page that is gone starts it anew, unpaged."""
        try:
            try:
                pages, revision = await self._pages(self._pace.page)
            except ApiError as error:
                if error.http_code != 410:
                    raise
                pages, revision = await self._pages(0)
        except (ApiError, TransportError):
            self._watch_list = self._doubted
            raise
        self._doubted = False
        await self._replace(self._objects_of(pages), revision, "list")
        if not self._resumable:
            raise TransportError(f"the list of {self._path} has no resourceVersion to watch from")

    async def _pages(self, limit: int) -> tuple[list[bytes], int]:
        pages: list[bytes] = []
        token = ""
        while True:
            query = [("limit", str(limit))] if limit else []
            if token:
                query.append(("continue", token))
            page = await calls.get(
                self._handler, self._path, timeout_s=self._pace.answer_s, query=tuple(query)
            )
            if not _is_list_value(page.value):
                raise TransportError(f"{self._path} answered no list")
            pages.append(page.raw)
            metadata = page.value.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return pages, events.revision_of(page.value)

    def _objects_of(self, pages: list[bytes]) -> Iterator[dict[str, Any]]:
        """The items, parsed a page at a time: parsed objects cost ten times their bytes."""
        kind, api_version = self.resource.kind, self.resource.api_version
        pages.reverse()
        while pages:
            for item in orjson.loads(pages.pop()).get("items") or ():
                yield {"kind": kind, "apiVersion": api_version, **item}

    async def _current_revision(self) -> int:
        """The member's revision at this moment, by a request that matches no object."""
        path = path_of(self.resource.gvr, namespace=self._namespace)
        query = [("fieldSelector", f"metadata.name={_NO_OBJECT}")]
        pace_s = self._pace.probe_s
        outcome = "failed"
        try:
            async with asyncio.timeout(pace_s):
                if self._watch_list:
                    revision = await self._probe_by_watch(path, query)
                else:
                    page = await calls.get(
                        self._handler, path, timeout_s=pace_s, query=(*query, ("limit", "1"))
                    )
                    if not _is_list_value(page.value):
                        raise TransportError(f"{path} answered no list")
                    revision = events.revision_of(page.value)
            outcome = "answered"
        except TimeoutError as error:
            raise TransportError(f"no answer to a probe within {pace_s:g} s") from error
        finally:
            metrics.PROBES.labels(*self._labels, outcome).inc()
        return revision

    async def _probe_by_watch(self, path: str, query: list[tuple[str, str]]) -> int:
        query = [
            *query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("timeoutSeconds", str(int(self._pace.probe_s) + 1)),
        ]
        response = await self._answer(path, query)
        splitter = LineSplitter()
        try:
            async for piece in calls.pieces_of(response):
                for line in splitter.feed(piece):
                    event = events.parse(line)
                    if event.kind == "BOOKMARK" and events.ends_initial_events(event.object):
                        return events.revision_of(event.object)
        finally:
            await response.aclose()
        raise TransportError("a probe ended without an answer")


class _Initial:
    """The initial events of a WatchList, kept as lines until their end is announced."""

    __slots__ = ("lines", "revision")

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], bytes] = {}
        self.revision = 0

    def take(self, line: bytes) -> bool:
        """Whether this was the end of the initial events.

        Raises _WatchListRefusedError where the line shows that WatchList is not served here.
        """
        try:
            event = events.parse(line)
        except ApiError as error:
            if error.http_code in _NOT_THE_FORM:
                raise
            raise _WatchListRefusedError(error, doubtful=error.http_code >= 500) from error
        except TransportError:
            if not self.lines and _is_list(line):
                raise _WatchListRefusedError("it answers a plain list") from None
            raise
        match event.kind:
            case "ADDED" | "MODIFIED":
                self.lines[events.key_of(event.object)] = line
            case "DELETED":
                self.lines.pop(events.key_of(event.object), None)
            case "BOOKMARK" if events.ends_initial_events(event.object):
                self.revision = events.revision_of(event.object)
                return True
        return False

    def objects(self) -> Iterator[dict[str, Any]]:
        """What they say is there; each line is let go of as it is parsed."""
        lines = list(self.lines.values())
        self.lines.clear()
        lines.reverse()
        while lines:
            yield orjson.loads(lines.pop())["object"]


def _is_list(line: bytes) -> bool:
    try:
        return _is_list_value(orjson.loads(line))
    except orjson.JSONDecodeError:
        return False


def _is_list_value(value: Any) -> bool:
    return isinstance(value, dict) and "items" in value and "type" not in value


def _retry_after_s(error: ApiError) -> float:
    details = error.details
    if details is not None:
        return float(min(details.retry_after_s, 30))
    status = getattr(error, "status", None) or {}
    asked = (status.get("details") or {}).get("retryAfterSeconds")
    return float(min(asked, 30)) if isinstance(asked, int) else 0.0
