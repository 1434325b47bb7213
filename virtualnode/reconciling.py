"""The loop of a level-triggered controller: keys in, each once however often it is named.

A queue of `fleet.apiserver.controllers` whose reconcilers may ask for another look later: what
depends on time – a deadline, a backoff – is looked at when its time comes, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.apiserver.controllers.queue import Queue as KeyQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from virtualnode.objects import Key

_WORKERS: Final = 4


class Queue:
    """Keys that want a look. Owned by one event loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._keys: KeyQueue[Key] = KeyQueue(name)

    def add(self, key: Key) -> None:
        """Look at `key` soon."""
        self._keys.add(key)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Look at `key` in `delay_s` seconds, or earlier if that is said already."""
        self._keys.add_after(key, delay_s)

    async def run(self, reconcile: Callable[[Key], Awaitable[float | None]]) -> None:
        """Reconcile keys until cancelled, several at a time but never one of them twice at once.

        `reconcile` returns seconds after which the key wants another look whatever happens, or
        None. What fails is tried again after a growing delay.
        """

        async def look(key: Key) -> None:
            after_s = await reconcile(key)
            if after_s is not None:
                self._keys.add_after(key, after_s)

        await self._keys.work(look, workers=_WORKERS)
