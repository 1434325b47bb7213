"""The marks that projection leaves in `metadata`: whose object it is, and the member's revision.

`inject` makes room where the object itself uses one of their keys, or has labels or annotations
of a shape that would not come back (`{}`, null): what was there is kept, as JSON, in an annotation
that nearly no object has. `remove` restores it. So every object comes back as it was.
"""

from __future__ import annotations

from typing import Any

import orjson

from fleet.view.naming import (
    CLUSTER_LABEL,
    MEMBER_METADATA_ANNOTATION,
    MEMBER_REVISION_ANNOTATION,
)

# Keys of the kept JSON; PART is of the layer above, `parts`.
_LABEL, _LABELS, _ANNOTATIONS = "label", "labels", "annotations"
_REVISION, _METADATA = "revision", "metadata"
PART = "part"
_SHAPES = {_LABEL, _LABELS, _ANNOTATIONS, _REVISION, _METADATA, PART}


class Unreadable(ValueError):
    """The annotation with what was displaced is not one that projection writes."""


def inject(metadata: dict[str, Any], *, member: str, revision: str) -> None:
    """Put in the label, the member's revision, and `revision` in its place ("" for none)."""
    kept: dict[str, Any] | None = None
    labels = metadata.get("labels")
    if type(labels) is dict and labels:
        if CLUSTER_LABEL in labels:
            kept = _keep(kept, _LABEL, labels[CLUSTER_LABEL])
        labels[CLUSTER_LABEL] = member
    else:
        if "labels" in metadata:
            kept = _keep(kept, _LABELS, labels)
        metadata["labels"] = {CLUSTER_LABEL: member}

    annotations = metadata.get("annotations")
    if type(annotations) is dict:
        if MEMBER_REVISION_ANNOTATION in annotations:
            kept = _keep(kept, _REVISION, annotations.pop(MEMBER_REVISION_ANNOTATION))
        if MEMBER_METADATA_ANNOTATION in annotations:
            kept = _keep(kept, _METADATA, annotations.pop(MEMBER_METADATA_ANNOTATION))
    own = metadata.get("resourceVersion")
    marked = type(own) is str and own != ""
    if not marked and kept is None:
        return
    if type(annotations) is not dict or not annotations:
        if "annotations" in metadata:
            kept = _keep(kept, _ANNOTATIONS, annotations)
        annotations = metadata["annotations"] = {}
    if marked:
        annotations[MEMBER_REVISION_ANNOTATION] = own
        if revision:
            metadata["resourceVersion"] = revision
        else:
            del metadata["resourceVersion"]
    if kept is not None:
        annotations[MEMBER_METADATA_ANNOTATION] = orjson.dumps(kept).decode()


def _keep(kept: dict[str, Any] | None, key: str, value: Any) -> dict[str, Any]:
    kept = {} if kept is None else kept
    kept[key] = value
    return kept


def kept_by(metadata: Any) -> dict[str, Any]:
    """What was displaced, from the annotation; empty when nothing was. Raises Unreadable."""
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(MEMBER_METADATA_ANNOTATION) if isinstance(annotations, dict) else None
    if text is None:
        return {}
    try:
        kept = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        raise Unreadable from None
    if not isinstance(kept, dict) or not kept.keys() <= _SHAPES:
        raise Unreadable
    return kept


def remove(metadata: dict[str, Any], kept: dict[str, Any]) -> str | None:
    """Take the marks out and put back what they displaced.

    Returns the member's revision that the object says it is at, None when it says none. What the
    caller has changed since it read the object wins over what was kept.
    """
    labels = metadata.get("labels")
    marked = isinstance(labels, dict) and labels.pop(CLUSTER_LABEL, None) is not None
    if isinstance(labels, dict) and _LABEL in kept:
        labels[CLUSTER_LABEL] = kept[_LABEL]
    elif marked and not labels:
        _put_back(metadata, "labels", kept, _LABELS)

    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return None
    told = annotations.pop(MEMBER_REVISION_ANNOTATION, None)
    held = annotations.pop(MEMBER_METADATA_ANNOTATION, None)
    if _REVISION in kept:
        annotations[MEMBER_REVISION_ANNOTATION] = kept[_REVISION]
    if _METADATA in kept:
        annotations[MEMBER_METADATA_ANNOTATION] = kept[_METADATA]
    if not annotations and (told is not None or held is not None):
        _put_back(metadata, "annotations", kept, _ANNOTATIONS)
    return told if isinstance(told, str) else None


def _put_back(metadata: dict[str, Any], key: str, kept: dict[str, Any], kept_key: str) -> None:
    if kept_key in kept:
        metadata[key] = kept[kept_key]
    else:
        del metadata[key]


def drop(metadata: dict[str, Any]) -> str | None:
    """Take the marks out of a patch: absence there means unchanged, so nothing is put back.

    Returns the member's revision that the patch says, as `remove` does.
    """
    told = None
    if isinstance(labels := metadata.get("labels"), dict):
        labels.pop(CLUSTER_LABEL, None)
    if isinstance(annotations := metadata.get("annotations"), dict):
        told = annotations.pop(MEMBER_REVISION_ANNOTATION, None)
        annotations.pop(MEMBER_METADATA_ANNOTATION, None)
    return told if isinstance(told, str) else None
