"""The `scale` subresource of workloads: autoscaling/v1 Scale, there and back.

The selector is a string, as clients of the subresource expect it; a Scale carries the names,
identity and revision of the object it scales (pkg/registry/apps/*/storage). A custom kind says
where its numbers are (`ScalePaths`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.errors import BadRequest, Cause, Invalid
from fleet.kube.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Mapping

_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what a Scale says, as field paths; `selector` () when nowhere."""

    wanted: tuple[str, ...] = ("spec", "replicas")
    present: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> ScalePaths:
        """From a CRD's `subresources.scale`, whose paths look like `.spec.replicas`."""

        def path(name: str) -> tuple[str, ...]:
            return tuple(part for part in str(declared.get(name) or "").split(".") if part)

        return cls(path("specReplicasPath"), path("statusReplicasPath"), path("labelSelectorPath"))


def scale_of(obj: dict[str, Any], paths: ScalePaths | None = None) -> dict[str, Any]:
    """The Scale of a workload; `paths` for a custom kind."""
    metadata = obj["metadata"]
    if paths is None:
        where = ScalePaths()
        selector = (obj.get("spec") or {}).get("selector") or {}
        if obj["kind"] == "ReplicationController":
            selector = {"matchLabels": selector}
        selected = str(LabelSelector.from_object(selector))
    else:
        where = paths
        selected = str(_at(obj, paths.selector) or "") if paths.selector else ""
    status: dict[str, Any] = {"replicas": _at(obj, where.present) or 0}
    if selected:
        status["selector"] = selected
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _COPIED if key in metadata},
        "spec": {"replicas": _at(obj, where.wanted) or 0},
        "status": status,
    }


def patch_of(scale: dict[str, Any], *, name: str, paths: ScalePaths | None = None) -> Any:
    """The merge patch that gives the object `name` what `scale` asks for.

    Raises BadRequest for another object's Scale, Invalid for a negative count.
    """
    metadata = scale.get("metadata") or {}
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
    patch: Any = replicas
    for step in reversed((paths or ScalePaths()).wanted):
        patch = {step: patch}
    revision = metadata.get("resourceVersion")
    return {**patch, "metadata": {"resourceVersion": revision}} if revision else patch


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj
