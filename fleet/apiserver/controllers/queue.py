"""Keys that want a look, each once however often it is named.

A key is handed to one worker at a time; named again meanwhile, it is handed out again afterwards.
What fails comes back after a growing delay. The queue has no limit of its own: it holds each key
at most once, so the number of objects is its bound.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Generic, TypeVar

from fleet.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    Key = TypeVar("Key", bound=Hashable)
else:
    Key = TypeVar("Key")

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.01
LAST_RETRY_S = 60.0


class Queue(Generic[Key]):
    """The keys of one controller. Owned by one event loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ready: dict[Key, None] = {}  # in order of arrival
        self._held: set[Key] = set()  # by workers
        self._named_again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Event()

    def add(self, key: Key) -> None:
        """Look at `key` as soon as somebody has time."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._held:
            self._named_again.add(key)
        else:
            self._ready[key] = None
            self._arrived.set()

    def add_after(self, key: Key, delay_s: float) -> None:
        """Look at `key` in `delay_s` seconds, or earlier if that is said already."""
        if key in self._ready:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(delay_s, 0)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self.add, key)

    async def work(self, reconcile: Callable[[Key], Awaitable[None]], *, workers: int) -> None:
        """Reconcile keys until cancelled, `workers` at a time."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(workers):
                    group.create_task(self._worker(reconcile), name=f"{self.name} {number}")
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _worker(self, reconcile: Callable[[Key], Awaitable[None]]) -> None:
        while True:
            while not self._ready:
                self._arrived.clear()
                await self._arrived.wait()
            key = next(iter(self._ready))
            del self._ready[key]
            self._held.add(key)
            try:
                await self._once(key, reconcile)
            finally:
                self._held.discard(key)
            if key in self._named_again:
                self._named_again.discard(key)
                self.add(key)

    async def _once(self, key: Key, reconcile: Callable[[Key], Awaitable[None]]) -> None:
        try:
            await reconcile(key)
        except Exception as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay_s = min(FIRST_RETRY_S * 2 ** min(failures - 1, 20), LAST_RETRY_S)
            if isinstance(error, FleetError):
                log.info("%s: %s: %s; again in %g s", self.name, key, error, delay_s)
            else:
                log.exception("%s: %s failed; again in %g s", self.name, key, delay_s)
            self.add_after(key, delay_s)
        else:
            self._failures.pop(key, None)
