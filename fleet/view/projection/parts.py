"""Parts of fleet workloads: the objects of a shard under the fleet's names.

A pod of a shard, its events, PodMetrics and EndpointSlices stand in the fleet's namespace as
`NAME.MEMBER`, owned by the fleet's object. That is a second bijection on top of the ordinary one;
what it displaces is kept in the same annotation. Which objects are parts is for the caller to know,
from its own record of shards: labels alone prove nothing, anybody in the member can set them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from fleet.errors import BadRequest, Cause
from fleet.view.naming import (
    MEMBER_METADATA_ANNOTATION,
    OWNER_REFERENCE_ANNOTATION,
    WORKLOAD_NAMESPACE_LABEL,
)
from fleet.view.projection import marks, patches
from fleet.view.projection.projector import OTHER_NAMESPACE
from fleet.view.projection.tree import METADATA, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fleet.kube.revision import Revision
    from fleet.view.projection.projector import Projector, RevisionOf

    PartOf = Callable[["ObjectKey"], "Part | None"]

JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")
POD_LABEL = "statefulset.kubernetes.io/pod-name"
SERVICE_LABEL = "kubernetes.io/service-name"
_OWNERS = "ownerReferences"


class ObjectKey(NamedTuple):
    """An object of the member, as a reference names it; `uid` may be ""."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Part:
    """Where an object of a shard stands in the merged world; `uid` "" where it keeps its own."""

    namespace: str
    name: str
    uid: str = ""


class PartProjector:
    """The bijection for objects of shards, over the ordinary one of their resource.

    `part_of` tells where an object that a reference names stands: the shard's pods under
    `NAME.MEMBER`, its Job under the fleet's Job; None for an object that is no part. It has to
    answer the same for as long as an object refers to it.
    """

    def __init__(self, projector: Projector, *, part_of: PartOf) -> None:
        self.projector = projector
        self.part_of = part_of
        self.suffix = projector.suffix

    # -- there

    def namespace_of(self, obj: Mapping[str, Any]) -> str | None:
        """The fleet's namespace for a member's object; None when it is no part.

        The label says it, or for an event the object that it is about.
        """
        labels = (obj.get(METADATA) or {}).get("labels")
        namespace = labels.get(WORKLOAD_NAMESPACE_LABEL) if isinstance(labels, dict) else None
        if isinstance(namespace, str) and namespace:
            return namespace
        about = obj.get("involvedObject") or obj.get("regarding")
        part = self.part_of(self._key_of(about)) if isinstance(about, dict) else None
        return part.namespace if part else None

    def key(self, obj: Mapping[str, Any]) -> tuple[str, str]:
        """The (namespace, name) under which a member's object appears. Raises ValueError when it
        is no part."""
        return (self._part_namespace(obj), obj[METADATA]["name"] + self.suffix)

    def _part_namespace(self, obj: Mapping[str, Any]) -> str:
        namespace = self.namespace_of(obj)
        if namespace is None:
            raise ValueError(f"no part of a fleet workload: {obj.get(METADATA)}")
        return namespace

    def project(self, obj: dict[str, Any], *, revision: Revision) -> dict[str, Any]:
        """The member's object under the fleet's names, in place. Raises ValueError for no part."""
        namespace = self._part_namespace(obj)
        metadata = self.projector.project(obj, revision=revision)[METADATA]
        kept: dict[str, Any] = {"namespace": metadata["namespace"]}
        name: str = metadata["name"]
        metadata["namespace"] = namespace
        metadata["name"] = name + self.suffix
        if (owner := _owner(metadata)) is not None:
            kept[_OWNERS] = [metadata[_OWNERS]] if _OWNERS in metadata else []
            metadata[_OWNERS] = [owner]
        if shown := self._labels(metadata, kept["namespace"], name=name, owner=owner):
            kept["labels"] = shown
        if moved := self._references(obj):
            kept["references"] = moved
        self._keep(metadata, kept)
        return obj

    def _labels(
        self, metadata: dict[str, Any], namespace: str, *, name: str, owner: dict[str, Any] | None
    ) -> dict[str, list[str]]:
        """Point labels at the fleet's names; by label what is shown and what was there."""
        labels = metadata["labels"]
        shown: dict[str, str] = {}
        if owner is not None and owner.get("kind") == "Job" and isinstance(owner["name"], str):
            shown |= dict.fromkeys(JOB_LABELS, owner["name"])
        if labels.get(POD_LABEL) == name:
            shown[POD_LABEL] = metadata["name"]
        service = labels.get(SERVICE_LABEL)
        if isinstance(service, str):
            plain = namespace.removesuffix(self.suffix)
            if part := self.part_of(ObjectKey("Service", plain, service, "")):
                shown[SERVICE_LABEL] = part.name
        changed = {
            key: [value, labels[key]]
            for key, value in shown.items()
            if key in labels and labels[key] != value
        }
        for key, (value, _) in changed.items():
            labels[key] = value
        return changed

    def _references(self, obj: dict[str, Any]) -> list[list[Any]]:
        """Point references at parts; for each the path and what was there."""
        moved: list[list[Any]] = []
        for path, reference in _object_references(self.projector.tree, obj):
            part = self.part_of(self._key_of(reference, projected=True))
            if part is None:
                continue
            moved.append([path, {k: reference[k] for k in _COORDINATES if k in reference}])
            reference["namespace"], reference["name"] = part.namespace, part.name
            if part.uid:
                reference["uid"] = part.uid
        return moved

    def _key_of(self, reference: Mapping[str, Any], *, projected: bool = False) -> ObjectKey:
        kind, namespace, name, uid = (
            value if isinstance(value := reference.get(key), str) else ""
            for key in ("kind", "namespace", "name", "uid")
        )
        if projected:
            namespace = namespace.removesuffix(self.suffix)
        return ObjectKey(kind, namespace, name, uid)

    def _keep(self, metadata: dict[str, Any], kept: dict[str, Any]) -> None:
        annotations = metadata.get("annotations")
        if not isinstance(annotations, dict):
            kept["annotations"] = [annotations] if "annotations" in metadata else []
            annotations = metadata["annotations"] = {}
        whole = marks.kept_by(metadata) | {marks.PART: kept}
        annotations[MEMBER_METADATA_ANNOTATION] = orjson.dumps(whole).decode()

    # -- and back

    def unproject(
        self,
        obj: dict[str, Any],
        *,
        namespace: str = "",
        name: str = "",
        revision_of: RevisionOf | None = None,
        current: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A whole body as the member has it, in place; `current` is the part as last projected.

        With `current`, what was displaced is taken from there and never from the body, whose
        writer may not be trusted with the gateway's own rights in the member. Raises as
        `Projector.unproject`, and Invalid for owners that differ from the fleet's.
        """
        self._layer_back(obj, namespace=namespace, name=name, current=current)
        return self.projector.unproject(obj, revision_of=revision_of)

    def unproject_patch(
        self,
        content_type: str,
        body: bytes,
        *,
        current: Mapping[str, Any],
        revision_of: RevisionOf | None = None,
    ) -> bytes:
        """A patch of the part `current` as JSON that does the same to the member's object."""
        beneath: dict[str, Any] = orjson.loads(orjson.dumps(current))
        self._layer_back(beneath, namespace="", name="", current=current)
        document = patches.read(content_type, body)
        if isinstance(document, dict):
            self._layer_back(document, namespace="", name="", current=current, part_only=True)
        elif isinstance(document, list):
            document = [
                op for op in document if not (isinstance(op, dict) and self._no_op(op, current))
            ]
        return self.projector.unproject_patch(
            content_type,
            orjson.dumps(document, default=float),
            namespace=beneath[METADATA]["namespace"],
            name=beneath[METADATA]["name"],
            revision_of=revision_of,
            current=beneath,
        )

    def _layer_back(
        self,
        obj: dict[str, Any],
        *,
        namespace: str,
        name: str,
        current: Mapping[str, Any] | None,
        part_only: bool = False,
    ) -> None:
        """Undo this layer over a whole object, or over what a patch has of it (`part_only`)."""
        metadata = obj.get(METADATA)
        if not isinstance(metadata, dict):
            if part_only:
                return
            raise BadRequest("the object provided has no metadata")
        reference = current[METADATA] if current is not None else metadata
        kept, rest = _kept_part(reference)
        self._coordinates_back(metadata, kept, namespace or reference.get("namespace", ""), name)
        self._owners_back(metadata, kept, reference, part_only=part_only)
        for key, (shown, was) in kept.get("labels", {}).items():
            labels = metadata.get("labels")
            if isinstance(labels, dict) and labels.get(key) == shown:
                labels[key] = was
        for path, was in kept.get("references", ()):
            _restore(obj, path, was)
        if not part_only:
            _annotations_back(metadata, kept, rest)

    def _coordinates_back(
        self, metadata: dict[str, Any], kept: Mapping[str, Any], namespace: str, name: str
    ) -> None:
        said = metadata.get("namespace")
        if said:
            if said != namespace:
                raise BadRequest(OTHER_NAMESPACE)
            metadata["namespace"] = kept["namespace"]
        text = metadata.get("name")
        if isinstance(text, str) and text:
            plain = text.removesuffix(self.suffix)
            if not plain or plain == text or name not in ("", text):
                raise BadRequest(
                    f"the name of the object ({text}) does not match the name on the URL "
                    f"({name or 'NAME' + self.suffix})"
                )
            metadata["name"] = plain

    def _owners_back(
        self,
        metadata: dict[str, Any],
        kept: Mapping[str, Any],
        reference: Mapping[str, Any],
        *,
        part_only: bool,
    ) -> None:
        if _OWNERS not in kept or (part_only and _OWNERS not in metadata):
            return
        if metadata.get(_OWNERS) != [_owner(reference)]:
            cause = Cause(
                "FieldValueInvalid",
                "Invalid value: the owner of a fleet workload's part is the fleet's to set",
                f"metadata.{_OWNERS}",
            )
            self.projector.refuse([cause], name=str(metadata.get("name", "")))
        if part_only or not kept[_OWNERS]:
            del metadata[_OWNERS]
        else:
            metadata[_OWNERS] = kept[_OWNERS][0]

    def _no_op(self, operation: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
        """Whether a JSON patch operation sets or tests a name that the part has already.

        Raises BadRequest for any other operation on what the fleet decides.
        """
        path = operation.get("path")
        match path:
            case "/metadata/namespace" | "/metadata/name":
                if operation.get("value") == current[METADATA][path.rpartition("/")[2]]:
                    return True
            case "" | "/metadata":
                pass
            case str() if path.startswith(f"/{METADATA}/{_OWNERS}"):
                pass
            case _:
                return False
        raise BadRequest(
            f'{operation.get("op")} "{path}": a part of a fleet workload has its name and owner '
            "from the fleet; patch single fields of it"
        )


_COORDINATES = ("namespace", "name", "uid")


def _owner(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fleet's ownerReference, from the annotation; None without one that can be read."""
    annotations = metadata.get("annotations")
    text = annotations.get(OWNER_REFERENCE_ANNOTATION) if isinstance(annotations, dict) else None
    try:
        owner = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return None
    return owner if isinstance(owner, dict) and "name" in owner else None


def _kept_part(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What this layer displaced, and what the ordinary one did."""
    try:
        rest = marks.kept_by(metadata)
    except marks.Unreadable:
        rest = {}
    kept = rest.pop(marks.PART, None)
    if not isinstance(kept, dict) or "namespace" not in kept:
        raise BadRequest(
            f"annotation {MEMBER_METADATA_ANNOTATION} is missing: read the object and send it back "
            "with the annotations that it has"
        )
    return kept, rest


def _annotations_back(
    metadata: dict[str, Any], kept: Mapping[str, Any], rest: dict[str, Any]
) -> None:
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return
    annotations.pop(MEMBER_METADATA_ANNOTATION, None)
    if rest:
        annotations[MEMBER_METADATA_ANNOTATION] = orjson.dumps(rest).decode()
    elif not annotations and "annotations" in kept:
        if kept["annotations"]:
            metadata["annotations"] = kept["annotations"][0]
        else:
            del metadata["annotations"]


def _object_references(
    node: Node, value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Every ObjectReference of the table that `value` holds, with its path."""
    if node.items is not None:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _object_references(node.items, item, (*path, index))
    elif isinstance(value, dict):
        if node.typed is not None and "namespace" in node.children:
            yield path, value
        for key, child in node.children.items():
            if key in value and not child.to:
                yield from _object_references(child, value[key], (*path, key))


def _restore(obj: Any, path: list[str | int], was: Mapping[str, Any]) -> None:
    """Put coordinates back at `path`; passes over what a writer has taken away."""
    place = obj
    for step in path:
        if isinstance(place, dict) and isinstance(step, str):
            place = place.get(step)
        elif isinstance(place, list) and isinstance(step, int) and step < len(place):
            place = place[step]
        else:
            return
    if isinstance(place, dict):
        for key in _COORDINATES:
            place.pop(key, None)
        place |= was
