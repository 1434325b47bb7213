"""What is changed at a fleet's Pod after it was placed, brought to its shard.

Labels and annotations, and of the spec what Kubernetes lets anybody change: images, the deadline,
more tolerations. What others have set on the shard in its member stays; what the user takes away is
taken away there, so the shard remembers which labels and annotations were brought. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.dispatch.marks import FLEET_ANNOTATION, MANAGED_BY_LABEL
from fleet.dispatch.shape import MARKS, crossing
from fleet.view.naming import CLUSTER_LABEL, OWNER_REFERENCE_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]

CARRIED_ANNOTATION: Final = "fleet.dev/carried"
"""On a shard's Pod: which of its labels and annotations are the user's, as JSON."""
_OURS: Final = frozenset(
    {*MARKS, MANAGED_BY_LABEL, CLUSTER_LABEL}
    | {FLEET_ANNOTATION, OWNER_REFERENCE_ANNOTATION, CARRIED_ANNOTATION}
)
_FIELDS: Final = ("labels", "annotations")


def users(pod: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The user's labels and annotations of a fleet's Pod that go along."""
    metadata = pod["metadata"]
    found = {field: metadata.get(field) or {} for field in _FIELDS}
    found["annotations"] = crossing(found["annotations"])
    return {
        field: {key: value for key, value in values.items() if key not in _OURS}
        for field, values in found.items()
    }


def patch_of(pod: Mapping[str, Any], shard: Mapping[str, Any]) -> Object | None:
    """The merge patch that makes a shard follow the fleet's Pod, None when it does."""
    patch: Object = {}
    if metadata := _metadata(pod, shard):
        patch["metadata"] = metadata
    if spec := _spec(pod["spec"], shard["spec"]):
        patch["spec"] = spec
    return patch or None


def _metadata(pod: Mapping[str, Any], shard: Mapping[str, Any]) -> Object:
    present, before = shard["metadata"], _carried(shard)
    changed: Object = {}
    wanted = users(pod)
    for field, values in wanted.items():
        there = present.get(field) or {}
        changes: Object = {k: v for k, v in values.items() if there.get(k) != v}
        changes |= {k: None for k in before[field] if k not in values and k in there}
        if changes:
            changed[field] = changes
    carried = {field: sorted(values) for field, values in wanted.items()}
    if carried != before:
        told = orjson.dumps(carried).decode()
        changed.setdefault("annotations", {})[CARRIED_ANNOTATION] = told
    return changed


def _carried(shard: Mapping[str, Any]) -> dict[str, list[str]]:
    text = (shard["metadata"].get("annotations") or {}).get(CARRIED_ANNOTATION)
    try:
        told = orjson.loads(text) if isinstance(text, str) else {}
    except orjson.JSONDecodeError:
        told = {}
    if not isinstance(told, dict):
        told = {}
    return {
        field: [key for key in told.get(field) or () if isinstance(key, str) and key not in _OURS]
        for field in _FIELDS
    }


def _spec(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> Object:
    changed: Object = {}
    for field in ("containers", "initContainers"):
        images = {each["name"]: each.get("image") for each in wanted.get(field) or ()}
        there = present.get(field) or []
        if any(images.get(e["name"], e.get("image")) != e.get("image") for e in there):
            changed[field] = [
                {**each, "image": images.get(each["name"], each.get("image"))} for each in there
            ]
    deadline_s = wanted.get("activeDeadlineSeconds")
    if deadline_s is not None and deadline_s != present.get("activeDeadlineSeconds"):
        changed["activeDeadlineSeconds"] = deadline_s
    tolerations = present.get("tolerations") or []
    if more := _missing(wanted.get("tolerations") or (), tolerations):
        changed["tolerations"] = [*tolerations, *more]
    return changed


def _missing(wanted: Iterable[Object], present: list[Object]) -> list[Object]:
    return [each for each in wanted if each not in present]
