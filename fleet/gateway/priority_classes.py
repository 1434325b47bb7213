"""Of the fleet's own PriorityClasses one at most is marked as the default, as in any cluster.

What one must be by itself is in `fleet.kube.defaults.validation`; where they are read in `givens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.errors import Forbidden
from fleet.gateway.givens import PRIORITY_CLASSES, row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.kube.resources import Resource
    from fleet.kube.wire import UserInfo
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]


class OneDefault:
    """An `Admission` of the fleet's own objects, upstream's plugin Priority for its classes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Forbidden for a second class that would be the default."""
        if resource.gvr != PRIORITY_CLASSES or not obj.get("globalDefault"):
            return obj
        name = obj["metadata"]["name"]
        defaults = [*self._defaults()]
        if defaults and (old is None or name not in defaults):
            raise Forbidden.of(
                group=resource.gvr.group,
                resource=resource.gvr.resource,
                name=name,
                why=f"PriorityClass {defaults[0]} is already marked as default. Only one default "
                "can exist",
            )
        return obj

    def _defaults(self) -> Iterator[str]:
        for entry in self._store.collection(row(PRIORITY_CLASSES)).snapshot().entries():
            if entry.parse().get("globalDefault"):
                yield entry.name
