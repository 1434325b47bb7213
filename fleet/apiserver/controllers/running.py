"""The controllers of one store, started and run together."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from fleet.apiserver.controllers.definitions import RESOURCE, Definitions
from fleet.apiserver.controllers.furnishing import NamespaceFurnishing
from fleet.apiserver.controllers.garbage import GarbageCollector
from fleet.apiserver.controllers.namespaces import NAMESPACES, NamespaceDeletion
from fleet.apiserver.controllers.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from fleet.apiserver.kernel import Kernel
    from fleet.apiserver.writing import Writer
    from fleet.kube.resources import Resource
    from fleet.store.collection import Event
    from fleet.store.objects import ObjectStore


class Controllers:
    """Namespaces and garbage of one store, and with a kernel that can define kinds also those.

    The store must be open from `start` on, and `rows` name Namespace among its resources.
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
        orphaned_first: Collection[str] = (),
        kernel: Kernel | None = None,
    ) -> None:
        """`root_ca` is the PEM bundle of the API's own authority. `elsewhere` says of a resource
        and a name that such an object, if there is one, lives in a member: it is never taken for
        absent. `orphaned_first` is `GarbageCollector`'s. `kernel` is what serves the kinds that
        CustomResourceDefinitions define."""
        self._objects = Objects(store, rows, writer)
        self._kernel = kernel
        self._garbage = GarbageCollector(
            self._objects, elsewhere=elsewhere, orphaned_first=orphaned_first
        )
        self._namespaces = NamespaceDeletion(self._objects, now=now)
        self._furnishing = NamespaceFurnishing(self._objects, root_ca=root_ca)
        self._definitions = None
        if kernel is not None:
            self._definitions = Definitions(self._objects, kernel, now=now)
        self._followed: set[str] = set()
        self._ends = contextlib.ExitStack()

    def start(self) -> None:
        """Take in what there is and follow the store; kinds that are defined are served from here
        on. `run` does it where nobody has."""
        if self._followed:
            return
        if self._kernel is not None:
            self._ends.callback(self._kernel.on_change(self._follow))
        self._follow()

    async def run(self) -> None:
        """Bring everything to what it should be, and keep it so until cancelled."""
        self.start()
        with self._ends:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._namespaces.run(), name="namespaces")
                group.create_task(self._furnishing.run(), name="furnishing")
                group.create_task(self._garbage.run(), name="garbage")
                if self._definitions is not None:
                    group.create_task(self._definitions.run(), name="definitions")

    def _follow(self) -> None:
        """Take in the resources that are new."""
        for row in list(self._objects.rows()):
            name = row.gvr.group_resource
            if name in self._followed:
                continue
            self._followed.add(name)
            self._ends.callback(self._objects.follow((row,), self._changed))
            self._garbage.start(row)
            if name == NAMESPACES:
                self._namespaces.start(row)
                self._furnishing.start(row)
            elif name == RESOURCE and self._definitions is not None:
                self._definitions.start(row)

    def _changed(self, resource: Resource, event: Event) -> None:
        self._garbage.changed(resource, event)
        self._namespaces.changed(resource, event)
        self._furnishing.changed(resource, event)
        if self._definitions is not None:
            self._definitions.changed(resource, event)
