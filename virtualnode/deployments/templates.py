"""Which ReplicaSet has the pod template that a Deployment asks for, and how one is made. Pure.

A set is told by its template, not by its name or age: that is what lets `kubectl rollout undo`
bring an older set back by writing its template into the Deployment. The hash in names and labels
only keeps sets apart; it is stable, and no other than this controller computes it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from virtualnode.objects import controller_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]

HASH_LABEL: Final = "pod-template-hash"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so no words
_HASH_LENGTH: Final = 10
_LONGEST_NAME: Final = 253


def current(deployment: Object, replica_sets: Iterable[Object]) -> Object | None:
    """The set with the Deployment's template; of several the oldest."""
    template = _comparable(deployment["spec"]["template"])
    same = (s for s in replica_sets if _comparable(s["spec"]["template"]) == template)
    return min(same, key=age, default=None)


def age(replica_set: Object) -> tuple[str, str]:
    """Sorts older sets first."""
    metadata = replica_set["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def template_hash(template: Object, collisions: int) -> str:
    """A label value for a template; another one for each number of collisions seen."""
    text = orjson.dumps([_comparable(template), collisions], option=orjson.OPT_SORT_KEYS)
    number = int.from_bytes(hashlib.sha256(text).digest(), "big")
    letters: list[str] = []
    for _ in range(_HASH_LENGTH):
        number, position = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[position])
    return "".join(letters)


def replica_set_of(deployment: Object, *, replicas: int, annotations: Mapping[str, str]) -> Object:
    """The ReplicaSet for the Deployment's template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    collisions = int((deployment.get("status") or {}).get("collisionCount") or 0)
    marked = {HASH_LABEL: template_hash(template, collisions)}
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), **marked}
    selector = spec.get("selector") or {}
    made: Object = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **marked}},
        "template": {**template, "metadata": {**given, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    suffix = f"-{marked[HASH_LABEL]}"
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": metadata["name"][: _LONGEST_NAME - len(suffix)] + suffix,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": dict(annotations),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": made,
    }


def _comparable(template: Object) -> Object:
    """A template without the hash, and without what says the same when it is left out."""
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if v}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": _without_empty_lists(template.get("spec"))}


def _without_empty_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_empty_lists(v) for k, v in value.items() if v is not None and v != []}
    if isinstance(value, list):
        return [_without_empty_lists(each) for each in value]
    return value
