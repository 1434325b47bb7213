"""What workloads say of themselves by annotations of the fleet, refused where it cannot be read.

A write is the last moment that somebody listens: a run time that is none would be found when the
workload is placed, and of one that runs already never. An object that has it from before may be
written again as long as it stays as it was. What is meant by it is in `fleet.scheduling.demand`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.kinds import KINDS
from fleet.scheduling.demand import check_run_time
from policies.placement import RUN_TIME_ANNOTATION

if TYPE_CHECKING:
    from fleet.kube.resources import Resource
    from fleet.kube.wire import UserInfo

Object = dict[str, Any]

_PLACED: Final = frozenset(kind.gvr for kind in KINDS.values())


class Declared:
    """An `Admission` of the fleet's own objects."""

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Invalid for a workload with a run time that is no duration."""
        if resource.gvr in _PLACED and _run_time(obj) != _run_time(old):
            check_run_time({"apiVersion": resource.api_version, "kind": resource.kind, **obj})
        return obj


def _run_time(obj: Object | None) -> object:
    annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(RUN_TIME_ANNOTATION)
