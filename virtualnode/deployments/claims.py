"""What belongs to a controller: by its reference first, by its selector where there is none.

The rules of upstream's ControllerRefManager (pkg/controller/controller_ref_manager.go): an object
of another controller is left alone, one of ours that is no longer selected is released, an orphan
that is selected is adopted. `claim` decides; `settle` writes, each time on the very object that
was judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.errors import BadRequest
from fleet.kube.selectors import NOTHING, LabelSelector
from virtualnode.objects import controller_of, controller_reference, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.kube.resources import Resource
    from virtualnode.objects import Change, Index, Objects

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """Who belongs to an owner already, who is to, and who is to no longer."""

    held: tuple[Object, ...] = ()
    adopt: tuple[Object, ...] = ()
    release: tuple[Object, ...] = ()


def claim(owner: Object, candidates: Iterable[Object]) -> Claim:
    """Sort the objects of the owner's namespace that may be its own."""
    selector = selector_of(owner)
    if selector.nothing:
        return Claim()
    ending = bool(owner["metadata"].get("deletionTimestamp"))
    held: list[Object] = []
    adopt: list[Object] = []
    release: list[Object] = []
    for each in candidates:
        reference = controller_of(each)
        selected = selector.matches(each["metadata"].get("labels") or {})
        if reference is not None:
            if reference["uid"] != owner["metadata"]["uid"]:
                continue
            if selected:
                held.append(each)
            elif not ending:
                release.append(each)
        elif selected and not ending and not each["metadata"].get("deletionTimestamp"):
            adopt.append(each)
    return Claim(tuple(held), tuple(adopt), tuple(release))


def selector_of(owner: Object) -> LabelSelector:
    """The owner's selector; an empty one selects nothing, since it would take everything."""
    try:
        selector = LabelSelector.from_object(owner["spec"].get("selector"))
    except BadRequest:
        return NOTHING
    return NOTHING if selector.empty else selector


async def settle(objects: Objects, resource: Resource, owner: Object, claim: Claim) -> None:
    """Write what `claim` says has to change. Raises StoreError, Conflict."""
    reference = controller_reference(owner)

    def adopted(obj: Object) -> Object | None:
        metadata = obj["metadata"]
        if controller_of(obj) is not None or metadata.get("deletionTimestamp"):
            return None
        references = [*(metadata.get("ownerReferences") or ()), reference]
        return {**obj, "metadata": {**metadata, "ownerReferences": references}}

    def released(obj: Object) -> Object:
        metadata = dict(obj["metadata"])
        left = [r for r in metadata.get("ownerReferences") or () if r["uid"] != reference["uid"]]
        if left:
            metadata["ownerReferences"] = left
        else:
            metadata.pop("ownerReferences", None)
        return {**obj, "metadata": metadata}

    for each in claim.adopt:
        await objects.change(resource, key_of(each), adopted, uid=each["metadata"]["uid"])
    for each in claim.release:
        await objects.change(resource, key_of(each), released, uid=each["metadata"]["uid"])


# -- finding candidates


def handles(obj: Object) -> list[str]:
    """What an object is found under by those who may own it: its controller, or its namespace."""
    reference = controller_of(obj)
    return [reference["uid"] if reference is not None else _orphans(obj)]


def candidates(objects: Objects, resource: Resource, index: Index, owner: Object) -> list[Object]:
    """The owner's objects and the orphans beside it, out of an index by `handles`."""
    keys = (*index[owner["metadata"]["uid"]], *index[_orphans(owner)])
    found = (objects.get(resource, *key) for key in sorted(keys))
    return [each for each in found if each is not None]


def owners(objects: Objects, change: Change, resource: Resource) -> Iterator[Object]:
    """The owners in `resource` whom a change may concern: those it refers or referred to, or,
    for an orphan, those that select it."""
    for state in (change.old, change.new):
        if state is None:
            continue
        namespace = state["metadata"]["namespace"]
        reference = controller_of(state)
        if reference is not None:
            owner = objects.get(resource, namespace, reference["name"])
            if owner is not None and owner["metadata"]["uid"] == reference["uid"]:
                yield owner
            continue
        labels = state["metadata"].get("labels") or {}
        for owner in objects.list(resource, namespace):
            if selector_of(owner).matches(labels):
                yield owner


def _orphans(obj: Object) -> str:
    return f"orphans in {obj['metadata']['namespace']}"
