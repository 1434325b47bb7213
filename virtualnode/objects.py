"""The cluster's objects as its controllers see and write them.

Reads give parsed objects that are shared: whoever wants to change one goes through `change`, which
hands out a copy. Writes are conditional and tried again when somebody wrote in between, so a
controller states what it wants to be so and never overwrites what it has not seen.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.apiserver import deletion
from fleet.errors import ApiError, Conflict, NotFound
from fleet.kube import defaults
from fleet.kube.options import DeleteOptions
from fleet.kube.wire import UserInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.apiserver.writing import Writer
    from fleet.kube.options import Propagation
    from fleet.kube.resources import Resource
    from fleet.store.collection import Event
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]
Key = tuple[str, str]

CONTROLLERS: Final = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))
_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True)
class Change:
    """One change as a follower is told it. `old` is None for a creation; `new` is the state after
    it, None for a deletion."""

    old: Object | None
    new: Object | None

    @property
    def present(self) -> Object:
        """The newest state there is."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found


class Objects:
    """Reads from and writes to one cluster's store."""

    def __init__(self, store: ObjectStore, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._parsed: dict[str, dict[Key, tuple[Entry, Object]]] = {}

    # -- reading

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object, not to be changed; None when there is none."""
        entry = self._store.get(resource, namespace, name)
        return None if entry is None else self._object(resource, entry)

    def list(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        """All objects in key order, or those of one namespace; not to be changed."""
        snapshot = self._store.collection(resource).snapshot()
        if namespace is not None:
            snapshot = snapshot.namespace(namespace)
        return [self._object(resource, entry) for entry in snapshot.entries()]

    def follow(self, resource: Resource, follower: Callable[[Change], None]) -> Callable[[], None]:
        """Tell `follower` of each change as it is made; returns what ends that."""

        def changed(event: Event) -> None:
            parsed = self._parsed.setdefault(resource.gvr.resource, {})
            known = parsed.get(event.entry.key)
            old: Object | None = None
            if event.previous is not None:
                if known is not None and known[0] is event.previous:
                    old = known[1]
                else:
                    old = event.previous.parse()
            new = None if event.deleted else self._object(resource, event.entry)
            if new is None:
                parsed.pop(event.entry.key, None)
            follower(Change(old, new))

        return self._store.collection(resource).follow(changed)

    def index(self, resource: Resource, keys_of: Callable[[Object], Iterable[str]]) -> Index:
        """The objects of a resource by what `keys_of` says of each; kept up to date."""
        index = Index(keys_of)
        for obj in self.list(resource):
            index.changed(Change(None, obj))
        self.follow(resource, index.changed)
        return index

    def _object(self, resource: Resource, entry: Entry) -> Object:
        parsed = self._parsed.setdefault(resource.gvr.resource, {})
        known = parsed.get(entry.key)
        if known is not None and known[0] is entry:
            return known[1]
        obj = entry.parse()
        parsed[entry.key] = (entry, obj)
        return obj

    # -- writing

    async def create(
        self, resource: Resource, obj: Object, *, user: UserInfo = CONTROLLERS
    ) -> Object:
        """Create as through the API: defaults, validation, admission. Raises ApiError."""
        namespace = obj["metadata"].get("namespace", "")
        return (await self._writer.make(resource, obj, namespace=namespace, user=user)).obj

    async def change(
        self,
        resource: Resource,
        key: Key,
        change: Callable[[Object], Object | None],
        *,
        uid: str = "",
        spec: bool = False,
    ) -> Object | None:
        """Let `change` alter a copy of the object and store what it returns.

        Nothing is written when it returns None or an equal object. With `uid` only that very
        object is meant; `spec` counts a new generation. What lost its last finalizer in deletion
        is removed. Returns the object as it is afterwards, None when it is gone.

        Raises Conflict when others write all the time, StoreError.
        """
        for _ in range(_ATTEMPTS):
            entry = self._store.get(resource, *key)
            if entry is None:
                return None
            old = self._object(resource, entry)
            if uid and old["metadata"].get("uid") != uid:
                return None
            new = change(entry.parse())
            if new is None:
                return old
            finished = deletion.is_finished(new, old)
            if not finished and defaults.is_unchanged(new, old):
                return old
            metadata = new["metadata"]
            if spec and new.get("spec") != old.get("spec"):
                metadata["generation"] = metadata.get("generation", 0) + 1
            try:
                if finished:
                    await self._store.delete(
                        resource, namespace=key[0], name=key[1], expected=entry.revision
                    )
                    return None
                stored = await self._store.update(resource, new, expected=entry.revision)
            except Conflict:
                continue
            except NotFound:
                return None
            return self._object(resource, stored)
        gvr = resource.gvr
        raise Conflict.of(
            group=gvr.group, resource=gvr.resource, name=key[1], why="it changes all the time"
        )

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str = "",
        grace_s: int | None = None,
        propagation: Propagation = "",
    ) -> None:
        """Delete as through the API; what is gone or is another object already is left alone."""
        entry = self._store.get(resource, *key)
        if entry is None or (uid and entry.uid != uid):
            return
        options = DeleteOptions(grace_period_s=grace_s, uid=uid, propagation=propagation)
        with contextlib.suppress(NotFound):
            await self._writer.remove(resource, entry, options)


class Index:
    """Keys of objects by a property. Fed by `Objects.index`."""

    def __init__(self, keys_of: Callable[[Object], Iterable[str]]) -> None:
        self._keys_of = keys_of
        self._held: dict[str, dict[Key, None]] = {}

    def changed(self, change: Change) -> None:
        """Take in one change."""
        before = set(self._keys_of(change.old)) if change.old is not None else set()
        after = set(self._keys_of(change.new)) if change.new is not None else set()
        key = key_of(change.present)
        for value in before - after:
            held = self._held.get(value)
            if held is not None:
                held.pop(key, None)
                if not held:
                    del self._held[value]
        for value in after - before:
            self._held.setdefault(value, {})[key] = None

    def __getitem__(self, value: str) -> tuple[Key, ...]:
        """The keys of the objects with that property, in the order in which they got it."""
        return tuple(self._held.get(value, ()))


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the controller that manages `obj`."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def controller_reference(owner: Object) -> Object:
    """What an object made by the controller of `owner` carries."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_terminating(error: ApiError) -> bool:
    """Whether a create was refused because its namespace goes away."""
    return error.http_code == 403 and "being terminated" in error.message
