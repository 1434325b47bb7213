"""CustomResourceDefinitions: their names are accepted, their kinds served, their objects removed.

A definition that is deleted keeps its finalizer until the last of its objects is gone. The kernel
is told what to serve with every change of a definition, before anybody else sees the next one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fleet.apiserver import definitions
from fleet.apiserver.controllers.objects import Key, together
from fleet.apiserver.controllers.owners import without_finalizer
from fleet.apiserver.controllers.queue import Queue
from fleet.kube.defaults.lifecycle import timestamp
from fleet.kube.options import DeleteOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from fleet.apiserver.controllers.objects import Objects
    from fleet.apiserver.kernel import Kernel
    from fleet.kube.resources import Resource
    from fleet.store.collection import Event

Object = dict[str, Any]

RESOURCE = definitions.CRDS.group_resource
_WORKERS = 2


class Definitions:
    """The definitions of one store, for one kernel."""

    def __init__(self, objects: Objects, kernel: Kernel, *, now: Callable[[], datetime]) -> None:
        self._objects = objects
        self._kernel = kernel
        self._now = now
        self._queue: Queue[str] = Queue("definitions")
        self._known: dict[str, Object] = {}

    def start(self, resource: Resource) -> None:
        """Serve what is established, and look at every definition there is."""
        for entry in self._objects.entries(resource):
            self._known[entry.name] = entry.parse()
            self._queue.add(entry.name)
        self._serve()

    def changed(self, resource: Resource, event: Event) -> None:
        """Take note of a change in the store."""
        entry = event.entry
        if resource.gvr.group_resource == RESOURCE:
            if event.deleted:
                gone = self._known.pop(entry.name, None)
                if gone is not None:  # its names are free: others in the group may have wanted them
                    for name in self._in_group(gone["spec"]["group"]):
                        self._queue.add(name)
            else:
                self._known[entry.name] = entry.parse()
                self._queue.add(entry.name)
            self._serve()
        elif event.deleted and resource.custom:
            name = resource.gvr.group_resource
            if name in self._known:
                self._queue.add(name)

    async def run(self) -> None:
        await self._queue.work(self.reconcile, workers=_WORKERS)

    async def reconcile(self, name: str) -> None:
        """Bring one definition on its way."""
        definition = self._known.get(name)
        resource = self._objects.row(RESOURCE)
        if definition is None or resource is None:
            return
        uid = definition["metadata"].get("uid", "")
        key = Key(RESOURCE, "", name)
        if definition["metadata"].get("deletionTimestamp"):
            row = definitions.row_of(definition)
            failures = await self._remove_objects(row)
            if failures:
                raise failures[0]
            if not self._objects.entries(row):
                change = partial(without_finalizer, finalizer=definitions.CLEANUP)
                await self._objects.change(resource, key, change, uid=uid)
            return
        others = [self._known[other] for other in self._in_group(definition["spec"]["group"])]
        await self._objects.change(
            resource,
            key,
            partial(
                definitions.with_status,
                taken=set(_names(name, others, self._fixed(definition))),
                taken_kinds=set(_kinds(name, others, self._fixed(definition))),
                now=timestamp(self._now()),
            ),
            uid=uid,
        )

    def _serve(self) -> None:
        kinds = [
            kind
            for definition in self._known.values()
            if definitions.is_established(definition)
            and (kind := definitions.kind_of(definition)) is not None
        ]
        if kinds != list(self._kernel.kinds.defined):
            self._kernel.define(kinds)

    def _in_group(self, group: str) -> Iterator[str]:
        return (name for name, found in self._known.items() if found["spec"]["group"] == group)

    def _fixed(self, definition: Object) -> list[Resource]:
        group = definition["spec"]["group"]
        return [row for row in self._kernel.fixed if row.gvr.group == group]

    async def _remove_objects(self, row: Resource) -> list[Exception]:
        options = DeleteOptions(propagation="Background")
        return await together(
            partial(self._objects.remove, row, entry, options)
            for entry in self._objects.entries(row)
        )


def _names(name: str, others: list[Object], fixed: list[Resource]) -> Iterator[str]:
    """Resource names in a group that are somebody else's."""
    for other in others:
        accepted = (other.get("status") or {}).get("acceptedNames") or {}
        if other["metadata"]["name"] != name and accepted:
            yield accepted.get("plural", "")
            yield accepted.get("singular", "")
            yield from accepted.get("shortNames") or ()
    for row in fixed:
        yield from (row.gvr.resource, row.singular, *row.short_names)


def _kinds(name: str, others: list[Object], fixed: list[Resource]) -> Iterator[str]:
    """Kinds in a group that are somebody else's."""
    for other in others:
        accepted = (other.get("status") or {}).get("acceptedNames") or {}
        if other["metadata"]["name"] != name and accepted:
            yield accepted.get("kind", "")
            yield accepted.get("listKind", "")
    for row in fixed:
        yield from (row.kind, row.list_kind)
