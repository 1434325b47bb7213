"""The kinds of workloads that dispatch carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.jobs import JOBS
from fleet.dispatch.pods import PODS
from fleet.kube import builtin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.dispatch.kind import Kind
    from fleet.kube.resources import GroupVersionResource, Resource

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in (JOBS, PODS)}


def kind_of(obj: Mapping[str, Any]) -> Kind | None:
    """The kind of a workload, or of what a Placement says of one; None for any other object."""
    kind = KINDS.get(obj.get("kind", ""))
    if kind is None or obj.get("apiVersion") != kind.gvr.group_version:
        return None
    return kind


def row_of(gvr: GroupVersionResource) -> Resource:
    """The row of a resource of the release. Raises LookupError where it has none."""
    row = builtin.resource(gvr)
    if row is None:
        raise LookupError(f"the release has no {gvr}")
    return row
