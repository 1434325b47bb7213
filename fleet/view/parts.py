"""Objects of shards between a member's watch and the merged collections.

The record of shards (`fleet.dispatch` keeps it) says of each object whether it is the member's own,
a part of a fleet workload, or one that goes with a shard and is kept out of merged lists. Parts
are projected into the fleet's namespace; what is hidden stops here. An object keeps the place in
which it first appeared for as long as it says that it belongs there, and leaves it before it
appears in another, so nobody sees it twice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from cachetools import LRUCache

from fleet.view.projection import PartProjector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fleet.kube.resources import Resource
    from fleet.kube.revision import Revision
    from fleet.view.intake import Intake
    from fleet.view.projection import ObjectKey, Part, Projector

    RevisionOf = Callable[[Revision], str | None]

Standing = Literal["Native", "Part", "Hidden"]


class Seat(NamedTuple):
    """Where the one shard of a fleet object is: the member, and its name there."""

    member: str
    name: str


class Shards(Protocol):
    """The record of shards."""

    def standing(self, member: str, group: str, kind: str, obj: Mapping[str, Any]) -> Standing:
        """How a member's object stands in the merged world."""

    def part_of(self, member: str, key: ObjectKey) -> Part | None:
        """Where an object that something in a member refers to stands; None for no part."""

    def hosts(self, namespace: str) -> frozenset[str]:
        """The members that have parts of workloads of a fleet's namespace."""

    def seat(self, kind: str, namespace: str, name: str, uid: str) -> Seat | None:
        """Where the one shard of a fleet object is, once it may run; None before."""

    def seen(self, member: str, obj: dict[str, Any], *, gone: bool) -> None:
        """A Pod or Job came, changed or went in a member; as the member has it."""


class NoShards:
    """A fleet that puts nothing into members."""

    def standing(self, member: str, group: str, kind: str, obj: Mapping[str, Any]) -> Standing:
        return "Native"

    def part_of(self, member: str, key: ObjectKey) -> Part | None:
        return None

    def hosts(self, namespace: str) -> frozenset[str]:
        return frozenset()

    def seat(self, kind: str, namespace: str, name: str, uid: str) -> Seat | None:
        return None

    def seen(self, member: str, obj: dict[str, Any], *, gone: bool) -> None:
        """Nobody wants to know."""


# What may belong to a shard, by group and kind; nothing else is ever asked about.
_CONCERNED = frozenset({
    ("", "Pod"), ("", "Event"), ("events.k8s.io", "Event"), ("batch", "Job"),
    ("", "ConfigMap"), ("", "Secret"), ("", "Service"), ("", "ServiceAccount"),
    ("discovery.k8s.io", "EndpointSlice"),
})  # fmt: skip
_REMEMBERED = 1 << 16
_POD = ("", "Pod")
_TOLD = frozenset({_POD, ("batch", "Job")})


class Sorting:
    """The projection of one (member, resource): the ordinary one, or that of parts."""

    def __init__(self, projector: Projector, shards: Shards) -> None:
        self.projector = projector
        self.member = projector.member
        self.part_projector = PartProjector(
            projector, part_of=partial(shards.part_of, projector.member)
        )
        self._shards = shards
        self._kind = (projector.resource.gvr.group, projector.resource.kind)
        # UIDs of those that appeared as parts, and of shards that are pods; beyond the limit the
        # record alone decides.
        self._known: LRUCache[str, Standing] = LRUCache(maxsize=_REMEMBERED)
        self._places: LRUCache[str, tuple[str, str]] = LRUCache(maxsize=_REMEMBERED)

    @property
    def keeps_hidden(self) -> bool:
        """Whether hidden objects of this kind are kept beside the others: they take room."""
        return self._kind == _POD

    def standing(self, obj: Mapping[str, Any]) -> Standing:
        """How an object stands; parts that say so stay parts, and shards that are pods stay
        hidden."""
        uid = obj["metadata"].get("uid", "")
        known = self._known.get(uid)
        if known == "Part" and not self._is_in_place(uid, obj):
            del self._known[uid]
        elif known is not None:
            return known
        standing = self._shards.standing(self.member, *self._kind, obj)
        if standing == "Hidden" and self.keeps_hidden:
            self._known[uid] = standing
        return standing

    def _is_in_place(self, uid: str, obj: Mapping[str, Any]) -> bool:
        place = self._places.get(uid)
        return place is None or self.part_projector.namespace_of(obj) == place[0]

    def moved_from(self, obj: dict[str, Any]) -> tuple[str, str] | None:
        """The key under which an object appeared as a part, if it does so no more; from here on it
        is known where it stands now."""
        uid = obj["metadata"].get("uid", "")
        part = self._is_part(obj)
        before = self._places.get(uid)
        if before is None and not part:
            return None
        place = self.key(obj)
        if part:
            self._places[uid] = place
        else:
            del self._places[uid]
        return before if before != place else None

    def hides(self, obj: dict[str, Any]) -> bool:
        """Whether an object is not to be seen in the merged world."""
        return self.standing(obj) == "Hidden"

    def key(self, obj: dict[str, Any]) -> tuple[str, str]:
        """The (namespace, name) under which an object appears."""
        if self._is_part(obj):
            return self.part_projector.key(obj)
        return self.projector.key(obj)

    def project(self, obj: dict[str, Any], *, revision: Revision) -> dict[str, Any]:
        """The object as the merged world shows it, in place."""
        if self._is_part(obj):
            self._known[obj["metadata"].get("uid", "")] = "Part"
            return self.part_projector.project(obj, revision=revision)
        return self.projector.project(obj, revision=revision)

    def _is_part(self, obj: dict[str, Any]) -> bool:
        return self.standing(obj) == "Part" and self.part_projector.namespace_of(obj) is not None


class Sieve:
    """A sink before an intake: tells of what belongs to shards, lets nothing hidden through.

    What is hidden goes into an intake of its own, where there is one.
    """

    def __init__(
        self, intake: Intake, sorting: Sorting, shards: Shards, *, hidden: Intake | None = None
    ) -> None:
        self._intake = intake
        self._hidden = hidden
        self._sorting = sorting
        self._shards = shards
        gvr = sorting.projector.resource.gvr
        self._tells = (gvr.group, sorting.projector.resource.kind) in _TOLD

    def replace(self, objects: Iterable[dict[str, Any]], revision: int) -> Iterator[None]:
        aside: list[dict[str, Any]] = []
        yield from self._intake.replace(self._sifted(objects, aside), revision)
        if self._hidden is not None:
            yield from self._hidden.replace(aside, revision)

    def _sifted(
        self, objects: Iterable[dict[str, Any]], aside: list[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        for obj in objects:
            self._sorting.moved_from(obj)  # what is listed nowhere goes
            if self._passes(obj):
                yield obj
            elif self._hidden is not None:
                aside.append(obj)

    def upsert(self, obj: dict[str, Any]) -> None:
        self._move(obj)
        if self._passes(obj):
            self._intake.upsert(obj)
            return
        if self._hidden is not None:
            self._hidden.upsert(obj)
        self._intake.progress(_revision_of(obj))

    def _move(self, obj: dict[str, Any]) -> None:
        before = self._sorting.moved_from(obj)
        if before is not None:
            self._intake.moved(before, revision=_revision_of(obj))

    def remove(self, obj: dict[str, Any]) -> None:
        self._move(obj)
        if self._passes(obj, gone=True):
            self._intake.remove(obj)
            return
        if self._hidden is not None:
            self._hidden.remove(obj)
        self._intake.progress(_revision_of(obj))

    def progress(self, revision: int) -> None:
        self._intake.progress(revision)

    def _passes(self, obj: dict[str, Any], *, gone: bool = False) -> bool:
        standing = self._sorting.standing(obj)
        if self._tells and standing != "Native":
            self._shards.seen(self._sorting.member, obj, gone=gone)
        return standing != "Hidden"


class PartBodies:
    """Bodies of requests about one part, as its member has them, and the answers back.

    `current` is the part as last projected: what it displaced is taken from there and never from
    a body. Has the methods of `Projector` that a forwarded call needs.
    """

    def __init__(
        self,
        projector: Projector,
        shards: Shards,
        *,
        subresource: str,
        name: str,
        current: Mapping[str, Any],
    ) -> None:
        """`name` is the part's own in its member."""
        of = projector.subresource(subresource) if subresource else projector
        self.resource = of.resource
        self._own = self.resource.kind == projector.resource.kind
        self._ordinary = projector
        self._projector = PartProjector(
            projector, part_of=partial(shards.part_of, projector.member)
        )
        self._name = name
        self._current = current

    def project(self, obj: dict[str, Any], *, revision: Revision) -> dict[str, Any]:
        """An object of the member under the fleet's names; of a subresource as it is."""
        if self._own and self._projector.namespace_of(obj) is not None:
            return self._projector.project(obj, revision=revision)
        return obj

    def project_status(self, status: dict[str, Any]) -> dict[str, Any]:
        return self._ordinary.project_status(status)

    def unproject_delete_options(
        self,
        options: dict[str, Any],
        *,
        name: str = "",
        revision_of: RevisionOf | None = None,
    ) -> dict[str, Any]:
        return self._ordinary.unproject_delete_options(options, name=name, revision_of=revision_of)

    def unproject(
        self,
        obj: dict[str, Any],
        *,
        namespace: str = "",
        name: str = "",
        revision_of: RevisionOf | None = None,
    ) -> dict[str, Any]:
        """A whole body, in place. Raises as `PartProjector.unproject`."""
        if self._own:
            return self._projector.unproject(
                obj,
                namespace=namespace,
                name=name,
                revision_of=revision_of,
                current=self._current,
            )
        # Eviction, Binding: about the pod, by its name.
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("namespace", None)
            metadata["name"] = self._name
        options = obj.get("deleteOptions")
        if isinstance(options, dict):
            self.unproject_delete_options(options, name=name, revision_of=revision_of)
        return obj

    def unproject_patch(
        self, content_type: str, body: bytes, *, revision_of: RevisionOf | None
    ) -> bytes:
        """A patch that does the same to the member's object."""
        return self._projector.unproject_patch(
            content_type, body, current=self._current, revision_of=revision_of
        )


def concerns(resource: Resource) -> bool:
    """Whether objects of the resource may belong to shards."""
    return (resource.gvr.group, resource.kind) in _CONCERNED


def _revision_of(obj: Mapping[str, Any]) -> int:
    text = obj["metadata"].get("resourceVersion", "")
    return int(text) if isinstance(text, str) and text.isdecimal() else 0
