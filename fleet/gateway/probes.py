"""What a gateway's health is made of: the checks behind `health`, each asked when somebody asks.

None says anything of a member that is down: its objects are served as last seen, and a gateway that
is restarted because of it would forget them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fleet.errors import StoreError
from fleet.view.world import ALWAYS_ON

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fleet.gateway.health import Health
    from fleet.store.objects import ObjectStore
    from fleet.view.world import World

_EVERY_S = 1.0
_WITHIN_S = 2.0


def add_store(health: Health, store: ObjectStore, *, clock: Callable[[], float]) -> None:
    """`store`: ready while something can be written; alive unless only a restart can mend it, which
    gives a full disk no more room."""
    health.add("store", lambda: store.broken or None, ready=False)
    health.add("store", Writable(store, clock=clock), live=False)


class Writable:
    """Whether the store takes writes, tried by one that changes nothing, at most once a second
    however many ask."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        clock: Callable[[], float],
        every_s: float = _EVERY_S,
        within_s: float = _WITHIN_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._every_s = every_s
        self._within_s = within_s
        self._until_s = float("-inf")
        self._wrong: str | None = None
        self._asking = asyncio.Lock()

    async def __call__(self) -> str | None:
        async with self._asking:
            if self._clock() >= self._until_s:
                self._wrong = await self._ask()
                self._until_s = self._clock() + self._every_s
            return self._wrong

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(self._within_s):
                await self._store.prove()
        except StoreError as error:
            return str(error)
        except TimeoutError:
            return f"nothing was written within {self._within_s:g} s"
        return None


class Running:
    """Whether a part that runs for as long as the gateway does is running."""

    def __init__(self) -> None:
        self._wrong: str | None = "it has not begun"

    def __call__(self) -> str | None:
        return self._wrong

    async def run(self, work: Awaitable[None]) -> None:
        """Await the part's work, and know of it."""
        self._wrong = None
        try:
            await work
        except asyncio.CancelledError:
            raise  # the gateway stops
        except BaseException:
            self._wrong = "it broke off"
            raise
        self._wrong = "it has ended"


class FirstLists:
    """Whether every member that was one at the start has given its first lists, or is known not to
    answer or not to let the gateway in. Once that was so it stays so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._awaited = set(world.members)

    def __call__(self) -> str | None:
        self._awaited -= {name for name in self._awaited if not self._awaits(name)}
        if not self._awaited:
            return None
        return f"the first lists of {', '.join(sorted(self._awaited))} are not here yet"

    def _awaits(self, name: str) -> bool:
        world = self._world
        member = world.members.get(name)
        if member is None:
            return False
        conditions = member.conditions
        if any(conditions[truth].status == "False" for truth in ("Reachable", "CredentialsValid")):
            return False
        if world.unheard([name]):
            return True
        for gvr in ALWAYS_ON:
            merged = world.running(gvr)
            source = merged.sources.get(name) if merged is not None else None
            if source is not None:
                watching = source.watching
                if not watching.synced.is_set() and not watching.failure:
                    return True
        return False
