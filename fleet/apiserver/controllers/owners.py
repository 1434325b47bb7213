"""Who owns whom, and what follows from it: the garbage collector's decisions.

Pure: `garbage` feeds the graph, looks owners up and carries the decisions out. The rules are those
of k8s.io/kubernetes, pkg/controller/garbagecollector.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from fleet.apiserver.deletion import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.apiserver.controllers.objects import Key
    from fleet.kube.options import Propagation

Object = dict[str, Any]


class Owner(Enum):
    """What is known of the object an owner reference names."""

    SOLID = "it is there"
    WAITING = "it is there, in deletion, and waits for its dependents"
    ABSENT = "there is no such object"
    UNKNOWN = "its kind is not served here, or it cannot own this object"


@dataclass(frozen=True, slots=True)
class Reference:
    """An owner reference, as far as it matters here."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool

    @classmethod
    def all_of(cls, metadata: Object) -> tuple[Reference, ...]:
        return tuple(
            cls(
                api_version=str(reference.get("apiVersion", "")),
                kind=str(reference.get("kind", "")),
                name=str(reference.get("name", "")),
                uid=str(reference.get("uid", "")),
                blocks=bool(reference.get("blockOwnerDeletion")),
            )
            for reference in metadata.get("ownerReferences") or ()
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """What of an object's metadata the garbage collector goes by."""

    owners: tuple[Reference, ...] = ()
    marked: bool = False
    finalizers: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: Object) -> Standing:
        finalizers = metadata.get("finalizers") or ()
        return cls(
            owners=Reference.all_of(metadata),
            marked=bool(metadata.get("deletionTimestamp")),
            finalizers=tuple(name for name in finalizers if name in (ORPHAN, FOREGROUND)),
        )

    @property
    def waits(self) -> bool:
        """Whether the object is in foreground deletion."""
        return self.marked and FOREGROUND in self.finalizers


NOTHING = Standing()


class Graph:
    """Objects that own or are owned, and the dependents of each uid."""

    def __init__(self) -> None:
        self._standings: dict[Key, Standing] = {}
        self._dependents: dict[str, dict[Key, Reference]] = {}

    def put(self, key: Key, standing: Standing) -> Standing:
        """The object `key` stands so from here on; returns how it stood before."""
        before = self._standings.pop(key, NOTHING)
        for uid in {reference.uid for reference in before.owners}:
            held = self._dependents[uid]
            del held[key]
            if not held:
                del self._dependents[uid]
        if standing != NOTHING:
            self._standings[key] = standing
        for reference in standing.owners:
            self._dependents.setdefault(reference.uid, {})[key] = reference
        return before

    def dependents(self, uid: str) -> dict[Key, Reference]:
        """Who names `uid` as an owner, and how."""
        return dict(self._dependents.get(uid, {}))

    def waits(self, key: Key) -> bool:
        """Whether the object is in foreground deletion."""
        return self._standings.get(key, NOTHING).waits


# -- decisions


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object. With `unblock` its references stop to block their owners before, since
    it and one of its dependents wait for each other."""

    propagation: Propagation
    unblock: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """Take the references to these owners off the object."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off the object: nothing is owed to it any more."""

    finalizer: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """Take the references to the object off these dependents, then its finalizer."""

    dependents: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Await:
    """The object waits for these dependents, which want a look."""

    dependents: tuple[Key, ...]


Decision = Delete | Forget | Release | Orphan | Await | None


def decide(
    standing: Standing,
    dependents: Mapping[Key, Reference],
    *,
    look: Callable[[Reference], Owner],
    waits: Callable[[Key], bool],
) -> Decision:
    """What to do about one object.

    `dependents` are those of its uid, `look` tells what is known of an owner, `waits` whether a
    dependent itself is in foreground deletion.
    """
    if standing.marked:
        return _in_deletion(standing, dependents, waits)
    if not standing.owners:
        return None
    found = {reference.uid: look(reference) for reference in standing.owners}
    if Owner.UNKNOWN in found.values():
        return None
    if Owner.SOLID in found.values():
        gone = tuple(uid for uid, owner in found.items() if owner is not Owner.SOLID)
        return Forget(gone) if gone else None
    if Owner.WAITING in found.values() and dependents:
        return Delete("Foreground", unblock=any(map(waits, dependents)))
    if ORPHAN in standing.finalizers:
        return Delete("Orphan")
    return Delete("Foreground" if FOREGROUND in standing.finalizers else "Background")


def _in_deletion(
    standing: Standing, dependents: Mapping[Key, Reference], waits: Callable[[Key], bool]
) -> Decision:
    if ORPHAN in standing.finalizers:
        return Orphan(tuple(dependents))
    if FOREGROUND in standing.finalizers:
        blocking = [key for key, reference in dependents.items() if reference.blocks]
        if not blocking:
            return Release(FOREGROUND)
        return Await(tuple(key for key in blocking if not waits(key)))
    return None


def without_owners(obj: Object, uids: Sequence[str]) -> Object:
    kept = [r for r in obj["metadata"].get("ownerReferences") or () if r.get("uid") not in uids]
    return _with_owners(obj, kept)


def unblocked(obj: Object) -> Object:
    """The object with references that let their owners go first."""
    return _with_owners(
        obj,
        [
            {**reference, "blockOwnerDeletion": False}
            for reference in obj["metadata"].get("ownerReferences") or ()
        ],
    )


def without_finalizer(obj: Object, finalizer: str) -> Object:
    metadata = dict(obj["metadata"])
    kept = [name for name in metadata.pop("finalizers", None) or () if name != finalizer]
    if kept:
        metadata["finalizers"] = kept
    return {**obj, "metadata": metadata}


def _with_owners(obj: Object, references: list[Object]) -> Object:
    metadata = dict(obj["metadata"])
    metadata.pop("ownerReferences", None)
    if references:
        metadata["ownerReferences"] = references
    return {**obj, "metadata": metadata}
