"""A backend that keeps nothing beyond the process: embedded members and tests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fleet.kube.revision import Revision
from fleet.store.backend import Stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.store.backend import Record


class MemoryBackend:
    """Records by key, so that a second store over the same backend finds what the first wrote."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str, str], Record] = {}
        self._revision = Revision(0)

    async def open(self) -> Stored:
        return Stored(list(self._records.values()), self._revision)

    def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
        for change in changes:
            if change.deleted:
                self._records.pop(change.key, None)
            else:
                self._records[change.key] = change
            self._revision = max(self._revision, change.revision)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def prove(self) -> None:
        return None

    @property
    def broken(self) -> str:
        return ""

    async def close(self) -> None:
        return None
