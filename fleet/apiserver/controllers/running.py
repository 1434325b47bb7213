"""The controllers of one store, started and run together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fleet.apiserver.controllers.furnishing import NamespaceFurnishing
from fleet.apiserver.controllers.garbage import GarbageCollector
from fleet.apiserver.controllers.namespaces import NAMESPACES, NamespaceDeletion
from fleet.apiserver.controllers.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from fleet.apiserver.writing import Writer
    from fleet.kube.resources import Resource
    from fleet.store.collection import Event
    from fleet.store.objects import ObjectStore


class Controllers:
    """Namespaces and garbage of one store.

    The store must be open while `run` runs, and `rows` name Namespace among its resources.
    """

    def __init__(
        self,
        store: ObjectStore,
        rows: Callable[[], Sequence[Resource]],
        writer: Writer,
        *,
        now: Callable[[], datetime],
        root_ca: str,
        elsewhere: Callable[[Resource, str], bool] = lambda resource, name: False,
    ) -> None:
        """`root_ca` is the PEM bundle of the API's own authority. `elsewhere` says of a resource
        and a name that such an object, if there is one, lives in a member: it is never taken for
        absent."""
        self._objects = Objects(store, rows, writer)
        self._garbage = GarbageCollector(self._objects, elsewhere=elsewhere)
        self._namespaces = NamespaceDeletion(self._objects, now=now)
        self._furnishing = NamespaceFurnishing(self._objects, root_ca=root_ca)

    async def run(self) -> None:
        """Bring everything to what it should be, and keep it so until cancelled."""
        rows = list(self._objects.rows())
        unfollow = self._objects.follow(rows, self._changed)
        try:
            for row in rows:
                self._garbage.start(row)
                if row.gvr.group_resource == NAMESPACES:
                    self._namespaces.start(row)
                    self._furnishing.start(row)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._namespaces.run(), name="namespaces")
                group.create_task(self._furnishing.run(), name="furnishing")
                group.create_task(self._garbage.run(), name="garbage")
        finally:
            unfollow()

    def _changed(self, resource: Resource, event: Event) -> None:
        self._garbage.changed(resource, event)
        self._namespaces.changed(resource, event)
        self._furnishing.changed(resource, event)
