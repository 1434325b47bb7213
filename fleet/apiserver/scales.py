"""The `scale` subresource of workloads: autoscaling/v1 Scale, there and back.

The selector is a string, as clients of the subresource expect it; a Scale carries the names,
identity and revision of the object it scales (pkg/registry/apps/*/storage).
"""

from __future__ import annotations

from typing import Any

from fleet.errors import BadRequest, Cause, Invalid
from fleet.kube.selectors import LabelSelector

SCALABLE = frozenset({
    ("apps", "deployments"), ("apps", "replicasets"), ("apps", "statefulsets"),
    ("", "replicationcontrollers"),
})  # fmt: skip
_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: dict[str, Any]) -> dict[str, Any]:
    """The Scale of a workload."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    selector = spec.get("selector") or {}
    if obj["kind"] == "ReplicationController":
        selector = {"matchLabels": selector}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _COPIED if key in metadata},
        "spec": {"replicas": spec.get("replicas", 0)},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": str(LabelSelector.from_object(selector)),
        },
    }


def scaled(obj: dict[str, Any], scale: dict[str, Any]) -> dict[str, Any]:
    """`obj` with the replicas and revision that `scale` asks for, changed in place.

    Raises BadRequest for another object's Scale, Invalid for a negative count.
    """
    metadata = scale.get("metadata") or {}
    name = obj["metadata"]["name"]
    if metadata.get("name") not in (None, "", name):
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise BadRequest("spec.replicas of a Scale is an integer")
    if replicas < 0:
        cause = Cause(
            "FieldValueInvalid",
            f"Invalid value: {replicas}: must be greater than or equal to 0",
            "spec.replicas",
        )
        raise Invalid.of(group="autoscaling", kind="Scale", name=name, causes=[cause])
    obj.setdefault("spec", {})["replicas"] = replicas
    revision = metadata.get("resourceVersion")
    if revision:
        obj["metadata"]["resourceVersion"] = revision
    else:
        obj["metadata"].pop("resourceVersion", None)
    return obj
