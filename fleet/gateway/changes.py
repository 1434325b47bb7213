"""Which of the fleet's own objects have changed, by the store's journal.

Whoever keeps what he read asks before he uses it: what changed since he asked last, or that nobody
can tell any more, and all is to be read. Nothing is called back, so there is nothing to end.
`fleet.gateway.placements` asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import Expired

if TYPE_CHECKING:
    from fleet.kube.resources import Resource
    from fleet.store.collection import Collection, Cursor
    from fleet.store.index import Key
    from fleet.store.objects import ObjectStore


class Changes:
    """Of some resources, for one who asks."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._at: dict[str, tuple[Collection, Cursor]] = {}

    def of(self, resource: Resource) -> set[Key] | None:
        """Namespaces and names of what has come, changed or gone since the last time; None the
        first time, and when the journal does not reach back to the last."""
        kind = resource.gvr.group_resource
        known = self._at.get(kind)
        if known is None:
            self._begin(kind, resource)
            return None
        collection, cursor = known
        found: set[Key] = set()
        try:
            while events := collection.read(cursor):
                found.update(each.entry.key for each in events)
        except Expired:
            self._begin(kind, resource)
            return None
        return found

    def _begin(self, kind: str, resource: Resource) -> None:
        collection = self._store.collection(resource)
        self._at[kind] = collection, collection.cursor(collection.sequencer.current)

    def forget(self) -> None:
        """As if nothing had been asked about."""
        self._at.clear()
