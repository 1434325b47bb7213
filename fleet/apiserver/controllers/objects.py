"""The store as controllers see it: every resource it serves, its changes, conditional writes."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.apiserver import deletion
from fleet.errors import Conflict, NotFound
from fleet.kube import defaults

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from fleet.apiserver.writing import Writer
    from fleet.kube.options import DeleteOptions
    from fleet.kube.resources import Resource
    from fleet.kube.wire import UserInfo
    from fleet.store.collection import Event
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

TOGETHER = 64  # writes under way at once, so that they share commits
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Key:
    """An object by its place. `resource` is the group-resource (`jobs.batch`)."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.resource, self.namespace, self.name) if part)


class Objects:
    """The objects of one store. `rows` says which resources there are; it may grow."""

    def __init__(
        self, store: ObjectStore, rows: Callable[[], Sequence[Resource]], writer: Writer
    ) -> None:
        self._store = store
        self._rows = rows
        self._writer = writer

    # -- reading

    def rows(self) -> Iterator[Resource]:
        """The resources that have objects, reviews and the like left out."""
        seen = set()
        for row in self._rows():
            if {"list", "delete"} <= set(row.verbs) and row.gvr.group_resource not in seen:
                seen.add(row.gvr.group_resource)
                yield row

    def row(self, group_resource: str) -> Resource | None:
        return next((r for r in self.rows() if r.gvr.group_resource == group_resource), None)

    def row_of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, in any of its versions that is served."""
        for row in self._rows():
            if row.kind == kind and row.api_version == api_version:
                return self.row(row.gvr.group_resource)
        return None

    def get(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        return self._store.get(resource, namespace, name)

    def entries(self, resource: Resource, namespace: str | None = None) -> list[Entry]:
        """All objects of a resource, or those of one namespace, as they are now."""
        snapshot = self._store.collection(resource).snapshot()
        if namespace is not None:
            snapshot = snapshot.namespace(namespace)
        return snapshot.entries()

    def follow(
        self, rows: Iterable[Resource], follower: Callable[[Resource, Event], None]
    ) -> Callable[[], None]:
        """Tell `follower` of each change as it is made; returns what ends that."""
        stack = contextlib.ExitStack()
        for row in rows:
            stack.callback(
                self._store.collection(row).follow(
                    lambda event, row=row: follower(row, event)  # type: ignore[misc]
                )
            )
        return stack.close

    # -- writing

    async def make(self, resource: Resource, obj: Object, *, user: UserInfo) -> None:
        """Create an object as through the API. Raises ApiError."""
        namespace = obj["metadata"].get("namespace", "")
        await self._writer.make(resource, obj, namespace=namespace, user=user)

    async def change(
        self, resource: Resource, key: Key, change: Callable[[Object], Object], *, uid: str
    ) -> None:
        """Store what `change` makes of a copy of the object; nothing when that is equal.

        Only the very object with `uid` is meant. What loses its last finalizer in deletion is
        removed. Raises Conflict when others write all the time, StoreError.
        """
        for attempt in range(_ATTEMPTS):
            entry = self.get(resource, key.namespace, key.name)
            if entry is None or entry.uid != uid:
                return
            old = entry.parse()
            new = change(entry.parse())
            finished = deletion.is_finished(new, old)
            if not finished and defaults.is_unchanged(new, old):
                return
            try:
                if finished:
                    await self._store.delete(
                        resource, namespace=key.namespace, name=key.name, expected=entry.revision
                    )
                else:
                    await self._store.update(resource, new, expected=entry.revision)
            except NotFound:
                return
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return

    async def remove(self, resource: Resource, entry: Entry, options: DeleteOptions) -> None:
        """DELETE as through the API; what is gone already is left alone. Raises Conflict for a
        precondition, Forbidden, StoreError."""
        with contextlib.suppress(NotFound):
            await self._writer.remove(resource, entry, options)


async def together(calls: Iterable[Callable[[], Awaitable[None]]]) -> list[Exception]:
    """Make the calls, some at a time; returns what they raised."""
    failures: list[Exception] = []
    waiting = iter(calls)

    async def worker() -> None:
        for call in waiting:
            try:
                await call()
            except Exception as error:
                failures.append(error)

    async with asyncio.TaskGroup() as group:
        for number in range(TOGETHER):
            group.create_task(worker(), name=f"write {number}")
    return failures
