"""Whether what a reflector has given is known to be up to date, and the proof of it on demand.

A watch that says nothing may be quiet or dead. Any bytes on it prove it live; so does, while it
is open, a probe: a request that makes the member look up its current revision and answer from the
same watch cache that feeds the watch (a WatchList whose name selector matches nothing). Many
callers share one probe. A proof holds from the moment the probe was sent, so whoever asks gets
what was so when they asked, or at most `within_s` before.

The proof is about the path: member up, its cache fresh, our watch open. An event that the member
wrote to our socket in the same instant may still be on its way; whoever waits for a write of
theirs waits for its revision (`reached`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from fleet.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_NEVER_S = float("-inf")


class Freshness:
    """The facts about one reflector's watch, kept by its loop; `run` serves the probes."""

    def __init__(
        self,
        *,
        probe: Callable[[], Awaitable[int]],
        clock: Callable[[], float] = time.monotonic,
        nudge_every_s: float = 0.5,
    ) -> None:
        self.synced = asyncio.Event()
        """A whole list has been given at least once."""
        self.live = False
        """The watch is open and past its initial events."""
        self.failure = ""
        """Why the watch is not to be trusted; "" while nothing speaks against it."""
        self.last_contact_s = _NEVER_S
        """Clock time of the last proof: bytes received, or the sending of an answered probe."""
        self.last_revision = 0
        """Everything up to this member revision has been given to the sink."""
        self.retry = asyncio.Event()
        """Set when somebody needs a broken watch: the loop cuts its wait short."""
        self._probe = probe
        self._clock = clock
        self._nudge_every_s = nudge_every_s
        self._nudged_s = _NEVER_S
        self._wanted = asyncio.Event()
        self._change: asyncio.Future[None] | None = None
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []

    # Kept by the reflector's loop.

    def contact(self) -> None:
        """Bytes came on the watch."""
        self.last_contact_s = self._clock()
        self.failure = ""
        if self._change is not None:
            self._changed()

    def opened(self) -> None:
        """The watch is open and everything before it has been given."""
        self.live = True
        self.contact()
        self.synced.set()
        self._changed()

    def closed(self, failure: str) -> None:
        """The watch ended: "" for a clean end, after which it is resumed at once."""
        self.live = False
        self.failure = failure
        self._changed()

    def advance(self, revision: int) -> None:
        """Everything up to `revision` has been given."""
        self.last_revision = revision
        if self._awaited:
            for awaited, waiter in self._awaited:
                if awaited <= revision and not waiter.done():
                    waiter.set_result(None)
            self._awaited = [pair for pair in self._awaited if not pair[1].done()]

    # Asked by everybody else.

    async def confirm(self, deadline_s: float, *, within_s: float = 1.0) -> bool:
        """Whether the watch was proven live not earlier than `within_s` before this call.

        Probes when needed and waits for the answer until `deadline_s` on the clock; a watch that
        is known to be broken gives False at once (and is tried again soon).
        """
        asked_s = self._clock()
        while True:
            if self.live and self.last_contact_s >= asked_s - within_s:
                return True
            if self.failure:
                self._nudge()
                return False
            left_s = deadline_s - self._clock()
            if left_s <= 0:
                return False
            if self.live:
                self._wanted.set()
            if self._change is None:
                self._change = asyncio.get_running_loop().create_future()
            done, _ = await asyncio.wait({self._change}, timeout=left_s)
            if not done:
                return False

    async def reached(self, revision: int, deadline_s: float) -> bool:
        """Whether everything up to `revision` was given before `deadline_s` on the clock: how a
        write's own event is awaited (its revision is in the write's answer)."""
        if self.last_revision >= revision:
            return True
        waiter = asyncio.get_running_loop().create_future()
        entry = (revision, waiter)
        self._awaited.append(entry)
        try:
            await asyncio.wait({waiter}, timeout=max(0.0, deadline_s - self._clock()))
            return waiter.done()
        finally:
            if entry in self._awaited:
                self._awaited.remove(entry)

    async def run(self) -> None:
        """Serve probes, one at a time, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if not self.live:
                continue
            sent_s = self._clock()
            try:
                await self._probe()
            except (ApiError, TransportError) as error:
                if self.last_contact_s < sent_s:
                    self.failure = str(error) or type(error).__name__
            except Exception as error:
                log.exception("a probe failed")
                self.failure = f"{type(error).__name__}: {error}"
            else:
                self.last_contact_s = max(self.last_contact_s, sent_s)
                self.failure = ""
            self._changed()

    def _nudge(self) -> None:
        now_s = self._clock()
        if now_s - self._nudged_s < self._nudge_every_s:
            return
        self._nudged_s = now_s
        if self.live:
            self._wanted.set()
        else:
            self.retry.set()

    def _changed(self) -> None:
        if self._change is not None:
            self._change.set_result(None)
            self._change = None
