"""What lists of objects that are not kept have shown, so that a watch can go on from them.

A client lists, then watches from the list's revision. Where the list was read through, the kept
collection begins with the watch and does not reach back to it; what changed in between is found by
comparing the two. Of the objects only their identity is remembered – no data, no annotations –
and not for long: a client that comes later is told 410 and lists again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachetools import TTLCache

from fleet.store.collection import Event
from fleet.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Collection as Sized

    from fleet.apiserver.reading import Scope
    from fleet.kube.resources import GroupVersionResource
    from fleet.kube.revision import Revision
    from fleet.store.collection import Collection

KEPT_S = 60.0
LISTS = 64
LARGEST = 5000  # objects; a longer list is not remembered

_IDENTITY = ("name", "namespace", "uid", "creationTimestamp", "labels", "resourceVersion")


class _Listed:
    """What lists at one revision have shown, and of which namespaces; None is all of them."""

    __slots__ = ("entries", "namespaces")

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], Entry] = {}
        self.namespaces: set[str] | None = set()

    def covers(self, scope: Scope) -> bool:
        if self.namespaces is None:
            return True
        return scope.namespaces is not None and self.namespaces.issuperset(scope.namespaces)


class Recollections:
    """The lists of the last minute."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._lists: TTLCache[tuple[GroupVersionResource, Revision], _Listed] = TTLCache(
            maxsize=LISTS, ttl=KEPT_S, timer=clock
        )

    def keep(
        self,
        gvr: GroupVersionResource,
        revision: Revision,
        listed: Sized[Entry],
        *,
        scope: Scope,
    ) -> None:
        """A list of these entries was answered at `revision`; it adds to what others at the same
        revision have shown."""
        if len(listed) > LARGEST:
            return
        known = self._lists.get((gvr, revision)) or _Listed()
        known.entries.update((entry.key, _identity(entry)) for entry in listed)
        if scope.namespaces is None:
            known.namespaces = None
        elif known.namespaces is not None:
            known.namespaces.update(scope.namespaces)
        self._lists[(gvr, revision)] = known

    def changes(
        self,
        gvr: GroupVersionResource,
        revision: Revision,
        *,
        present: Collection,
        scope: Scope,
        known: Callable[[str], bool],
    ) -> list[Event] | None:
        """What happened since the list at `revision`, in the order of revisions; None when it is
        not remembered, or of a member whose part is not `known` at present."""
        listed = self._lists.get((gvr, revision))
        if listed is None or not listed.covers(scope):
            return None
        if not all(known(entry.member) for entry in listed.entries.values()):
            return None
        snapshot = scope.snapshot(present.snapshot())
        events = []
        gone = {key: entry for key, entry in listed.entries.items() if scope.holds(entry)}
        for entry in snapshot.entries():
            before = gone.pop(entry.key, None)
            if before is None or _state(before) != _state(entry):
                events.append(Event(entry, before, deleted=False))
        events += [
            Event(entry.restated(snapshot.revision), entry, deleted=True) for entry in gone.values()
        ]
        return sorted(events, key=lambda event: event.revision)


def _identity(entry: Entry) -> Entry:
    obj = entry.parse()
    obj = {
        "kind": obj["kind"],
        "apiVersion": obj["apiVersion"],
        "metadata": {key: obj["metadata"][key] for key in _IDENTITY if key in obj["metadata"]},
    }
    return Entry(
        obj,
        revision=entry.revision,
        fields=entry.fields,
        member=entry.member,
        member_revision=entry.member_revision,
    )


def _state(entry: Entry) -> tuple[str, int]:
    """What tells two states of an object apart: a member's revision, the fleet's for its own."""
    return entry.uid, entry.member_revision or entry.revision
