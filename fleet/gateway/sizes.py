"""Sizes that a gang with a place cannot have, refused where its user asks for them.

The ranks of a gang run together: its parallelism and its completions are one number for as long as
it is there. One that may run with fewer follows that number (`fleet.dispatch.elastic`) where its
units and what runs of it let it. Any other runs on as it was placed, of which `workload_warnings`
speaks; a Job that is taken away, or is not placed yet, may be of any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch import record as records
from fleet.dispatch.elastic import why_not
from fleet.dispatch.jobs import JOBS
from fleet.errors import Cause, Invalid
from policies.placement import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.kube.resources import Resource
    from fleet.kube.wire import UserInfo
    from fleet.store.entry import Entry

Object = dict[str, Any]

_PLACED: Final = frozenset({"QuotaHeld", "Holding", "Committed", "Running", "Lost"})
_FIELD: Final = "spec.parallelism"
_TOGETHER: Final = "its ranks run together: set spec.completions to the same number"


class GangSizes:
    """An `Admission` of the fleet's own objects."""

    def __init__(self, placement: Callable[[str, str], Entry | None]) -> None:
        """`placement` gives the Placement of a namespace by its name."""
        self._placement = placement

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Invalid for a Job with a place that cannot be of the size that it is to have."""
        if resource.gvr != JOBS.gvr or old is None:
            return obj
        spec, before = obj["spec"], old["spec"]
        parallelism, completions = _size(spec)
        if (parallelism, completions) == _size(before) or spec.get("suspend"):
            return obj
        metadata = obj["metadata"]
        place = self._placement(metadata["namespace"], name_of(JOBS.name, metadata["name"]))
        record = records.read((place.parse().get("status") or {}) if place is not None else {})
        if record.phase not in _PLACED or not record.shards:
            return obj
        why = ""
        if JOBS.read(old).gang and completions != parallelism:
            why = _TOGETHER
        elif record.elastic and parallelism is not None:
            why = why_not(record, parallelism)
        if why:
            causes = [Cause("FieldValueInvalid", f"Invalid value: {parallelism}: {why}", _FIELD)]
            raise Invalid.of(group="batch", kind=JOBS.name, name=metadata["name"], causes=causes)
        return obj


def _size(spec: Object) -> tuple[int | None, int | None]:
    return spec.get("parallelism", 1), spec.get("completions")
