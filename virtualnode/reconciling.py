"""The loop of a level-triggered controller: keys in, one at a time, each once however often named.

A queue holds every key at most once; a key named while it is being worked on is worked on again
afterwards. A reconcile that fails is tried again after a growing delay, so nothing is forgotten
and nothing spins. Unbounded only in the number of distinct keys, which is that of the objects.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from fleet.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from virtualnode.objects import Key

log = logging.getLogger(__name__)

_FIRST_RETRY_S: Final = 0.005
_LAST_RETRY_S: Final = 30.0


class Queue:
    """Keys that want a look. Owned by one event loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ready: dict[Key, None] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._arrived = asyncio.Event()

    def add(self, key: Key) -> None:
        """Look at `key` soon."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
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

    async def run(self, reconcile: Callable[[Key], Awaitable[float | None]]) -> None:
        """Reconcile keys until cancelled. `reconcile` returns seconds after which the key wants
        another look whatever happens, or None."""
        try:
            while True:
                while not self._ready:
                    self._arrived.clear()
                    await self._arrived.wait()
                key = next(iter(self._ready))
                del self._ready[key]
                await self._once(key, reconcile)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _once(self, key: Key, reconcile: Callable[[Key], Awaitable[float | None]]) -> None:
        try:
            after_s = await reconcile(key)
        except Exception as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay_s = min(_FIRST_RETRY_S * 2 ** min(failures - 1, 20), _LAST_RETRY_S)
            if isinstance(error, ApiError):
                log.info("%s: %s: %s; again in %g s", self.name, "/".join(key), error, delay_s)
            else:
                log.exception("%s: %s failed; again in %g s", self.name, "/".join(key), delay_s)
            self.add_after(key, delay_s)
        else:
            self._failures.pop(key, None)
            if after_s is not None:
                self.add_after(key, after_s)
