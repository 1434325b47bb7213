"""What else must be so for a write to be made: its namespace, and the objects it is related to.

A guard is asked twice, by `writing` before anything is stored – for a dry run that is all – and by
the store when the write's turn has come, so that two writes at once cannot both rely on what one of
them takes away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from fleet.apiserver import refusals
from fleet.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from fleet.apiserver.kinds import Kinds, Others, Relations
    from fleet.kube.resources import GroupVersionResource, Resource
    from fleet.store.entry import Entry
    from fleet.store.objects import Guard, Lookup

Object = dict[str, Any]


class Guards:
    """The guards of a kernel's writes; each is None where there is nothing to look at."""

    def __init__(
        self, kinds: Kinds, *, now: Callable[[], datetime], namespaces: Resource | None
    ) -> None:
        """`namespaces` is the row of Namespace, when creates must find theirs."""
        self._kinds = kinds
        self._now = now
        self._namespaces = namespaces

    def of_namespace(self, resource: Resource, obj: Object, namespace: str) -> Guard | None:
        """Refuses a create whose namespace is not there or goes away. Raises BadRequest for an
        object that says it is in another one."""
        namespaces = self._namespaces
        if not resource.namespaced or namespaces is None:
            return None
        metadata = obj.get("metadata") or {}
        given = metadata.get("namespace")
        if given and given != namespace:
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        name = str(metadata.get("name") or metadata.get("generateName") or "Unknown")

        def guard(look: Lookup) -> None:
            found = look(namespaces, "", namespace)
            if found is None:
                raise NotFound.of(group="", resource="namespaces", name=namespace)
            if is_marked(found):
                raise refusals.terminating(resource, name=name, namespace=namespace)

        return guard

    def of_relations(self, resource: Resource, new: Object, old: Object | None) -> Guard | None:
        """Refuses an object that is at odds with others; one that is going may be so."""
        relations = self._relations(resource)
        if relations is None or new["metadata"].get("deletionTimestamp"):
            return None

        def guard(look: Lookup) -> None:
            relations.validate(new, old, self._others(look), now=self._now())

        return guard

    def of_release(self, resource: Resource, obj: Object) -> Guard | None:
        """Refuses to delete an object that others need."""
        relations = self._relations(resource)
        if relations is None or obj["metadata"].get("deletionTimestamp"):
            return None

        def guard(look: Lookup) -> None:
            relations.release(obj, self._others(look))

        return guard

    def _relations(self, resource: Resource) -> Relations | None:
        custom = self._kinds.custom(resource.gvr)
        return custom.relations if custom is not None else None

    def _others(self, look: Lookup) -> Others:
        def others(gvr: GroupVersionResource) -> Iterator[Object]:
            row = self._kinds.row(gvr)
            for entry in look.entries(row) if row is not None else ():
                yield entry.parse()

        return others


def all_of(*guards: Guard | None) -> Guard | None:
    """One guard that asks each of these."""
    asked = [guard for guard in guards if guard is not None]

    def guard(look: Lookup) -> None:
        for each in asked:
            each(look)

    return guard if asked else None


def is_marked(entry: Entry) -> bool:
    """Whether the object is being deleted."""
    metadata = entry.metadata
    # an annotation may be called that as well
    return b'"deletionTimestamp":' in metadata and "deletionTimestamp" in orjson.loads(metadata)
