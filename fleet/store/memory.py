"""A backend that keeps nothing beyond the process: embedded members and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.store.objects import Record


class MemoryBackend:
    """Records by key, so that a second store over the same backend finds what the first wrote."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str, str], Record] = {}

    def load(self) -> Iterable[Record]:
        return list(self._records.values())

    async def put(self, record: Record) -> None:
        self._records[(record.kind, record.namespace, record.name)] = record

    async def delete(self, record: Record) -> None:
        self._records.pop((record.kind, record.namespace, record.name), None)

    async def close(self) -> None:
        return None
