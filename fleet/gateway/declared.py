"""What workloads say of themselves by annotations of the fleet, refused where it cannot be read.

A write is the last moment that somebody listens: a run time that is none would be found when the
workload is placed, and of one that runs already never; a last checkpoint at no time never. An
object that has it from before may be written again as long as it stays as it was. What is meant by
them is in `fleet.scheduling.demand` and `fleet.scheduling.checkpoints`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.kinds import KINDS
from fleet.scheduling.checkpoints import check_saved
from fleet.scheduling.demand import check_run_time
from policies.placement import CHECKPOINTED_ANNOTATION, RUN_TIME_ANNOTATION

if TYPE_CHECKING:
    from fleet.kube.resources import Resource
    from fleet.kube.wire import UserInfo

Object = dict[str, Any]

_PLACED: Final = frozenset(kind.gvr for kind in KINDS.values())
_CHECKS: Final = {RUN_TIME_ANNOTATION: check_run_time, CHECKPOINTED_ANNOTATION: check_saved}


class Declared:
    """An `Admission` of the fleet's own objects."""

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Invalid for a workload with a run time that is no duration, or with a last
        checkpoint at no time."""
        if resource.gvr not in _PLACED:
            return obj
        for name, check in _CHECKS.items():
            if _said(obj, name) != _said(old, name):
                check({"apiVersion": resource.api_version, "kind": resource.kind, **obj})
        return obj


def _said(obj: Object | None, name: str) -> object:
    return (((obj or {}).get("metadata") or {}).get("annotations") or {}).get(name)
