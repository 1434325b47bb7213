"""Statuses that follow from what the planner knows: written when a round has changed them.

One task for each kind, told after each round, writes what differs and at most once in a while; so a
crowd of decisions makes one write of each object. Nothing is read back from there. `quotas` and
`loans` say what is written.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from fleet.errors import ApiError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from fleet.gateway.placing import Placing
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

_SETTLE_S: Final = 1.0


class Statuses(ABC):
    what: str
    """In messages of the log."""

    def __init__(
        self,
        store: ObjectStore,
        placing: Placing,
        *,
        now: Callable[[], datetime],
        settle_s: float = _SETTLE_S,
    ) -> None:
        self._store = store
        self._placing = placing
        self._now = now
        self._settle_s = settle_s
        self._news = asyncio.Event()
        placing.on_round(self._news.set)

    async def run(self) -> None:
        """Write what has changed, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.write()
            except (ApiError, StoreError) as error:
                log.warning("%s was not written: %s", self.what, error)
                self._news.set()
            except Exception:
                log.exception("%s was not written", self.what)
            await asyncio.sleep(self._settle_s)

    @abstractmethod
    async def write(self) -> None:
        """Once, for all objects. A second time with nothing new writes nothing."""
