"""What an object store needs of the place where its records lie.

Backends (`memory`, `sqlite`) keep bytes by key and know nothing of Kubernetes; `objects` gives
them changes in order and shows nobody a change before the backend has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from fleet.kube.revision import Revision


@dataclass(frozen=True, slots=True)
class Record:
    """One object, or the removal of one. `kind` is the group-resource (`jobs.batch`), `raw` the
    object's JSON (of a removal, its last state) and `revision` that of the change."""

    kind: str
    namespace: str
    name: str
    revision: Revision
    raw: bytes
    deleted: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a backend holds when it is opened: its objects in any order, and the highest revision
    that was ever committed to it, removals included; 0 when there was none."""

    records: Sequence[Record]
    revision: Revision


class Backend(Protocol):
    """Where records lie. One store at a time uses it, one commit at a time."""

    async def open(self) -> Stored:
        """Take hold of it and read everything. Raises StoreError when it cannot be used."""

    def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
        """Begin to apply `changes`, in order, all or none.

        Done once they are durable. Fails with StoreError when none was applied – after a crash
        right then all of them may be found applied after all, as nobody was promised otherwise.
        """

    async def prove(self) -> None:
        """Write something that changes nothing, as durably as a commit. Raises StoreError when
        that cannot be done at this moment."""

    @property
    def broken(self) -> str:
        """Why it cannot be used any more until it is opened anew, "" while it can."""

    async def close(self) -> None:
        """Let go of files; safe to call twice, and without `open`."""
