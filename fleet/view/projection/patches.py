"""Patches on their way to a member: merge, strategic merge, server-side apply, JSON patch.

A merge patch is a part of an object and is walked as one; what it does not say stays as it is.
Server-side apply sends a whole object as JSON or YAML. JSON patch has `operations` of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import BadRequest, UnsupportedMediaType
from fleet.kube.schema.reading import Unreadable, parse_yaml
from fleet.view.projection import operations
from fleet.view.projection.tree import METADATA, Stripper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.view.projection.projector import Projector, RevisionOf

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
ACCEPTED = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


@dataclass(frozen=True, slots=True)
class PatchTarget:
    """The object that is patched: namespace and name of the URL, its revisions, its last state."""

    namespace: str
    name: str
    revision_of: RevisionOf | None
    current: Mapping[str, Any] | None


def read(content_type: str, body: bytes) -> Any:
    """The patch document. Raises BadRequest for what does not parse, UnsupportedMediaType."""
    match _media_type(content_type):
        case "application/json-patch+json" | "application/merge-patch+json":
            return _json(body)
        case "application/strategic-merge-patch+json":
            return _json(body)
        case "application/apply-patch+yaml":
            return _yaml(body)
    raise UnsupportedMediaType.of(ACCEPTED)


def hangs_on_maps(content_type: str, body: bytes) -> bool:
    """Whether what is sent depends on which of labels and annotations the member's object has.

    Raises as `read`.
    """
    document = read(content_type, body) if _media_type(content_type) == JSON_PATCH else None
    return isinstance(document, list) and operations.hang_on_maps(document)


def unproject(
    projector: Projector, content_type: str, body: bytes, *, target: PatchTarget
) -> bytes:
    """The body that does to the member's object what `body` does to the projected one."""
    document = read(content_type, body)
    match _media_type(content_type), document:
        case "application/json-patch+json", list():
            document = operations.unproject(projector, document, target=target)
        case "application/apply-patch+yaml", dict():
            projector.unproject(
                document,
                namespace=target.namespace,
                name=target.name,
                revision_of=target.revision_of,
            )
        case "application/merge-patch+json" | "application/strategic-merge-patch+json", dict():
            strategic = _media_type(content_type) == STRATEGIC_MERGE_PATCH
            _merge(projector, document, target=target, strategic=strategic)
        case _:
            return body
    # YAML numbers with a fraction come as a float that knows its text.
    return orjson.dumps(document, default=float)


def _merge(
    projector: Projector, patch: dict[str, Any], *, target: PatchTarget, strategic: bool
) -> None:
    stripper = Stripper(projector.member, merges=True, strategic=strategic)
    if isinstance(metadata := patch.get(METADATA), dict):
        projector.metadata_back(
            metadata,
            stripper=stripper,
            namespace=target.namespace,
            name=target.name,
            revision_of=target.revision_of,
        )
    stripper.strip(projector.tree, patch)
    projector.refuse(stripper.causes, name=target.name)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _yaml(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        document, _ = parse_yaml(body)
    except Unreadable as error:
        raise BadRequest(f"error decoding YAML: {error}") from None
    return document


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"error decoding patch: {error}") from None
