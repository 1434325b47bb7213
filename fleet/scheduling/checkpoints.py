"""What of a run is saved: as its owner or its program says, else as its policy lets one expect.

Whoever saves says when the last checkpoint was complete, by an annotation of the workload or of any
of its pods, while they run; the newest counts. A time that is still to come is not believed before
it has come, and one that is none says nothing. Where nobody says anything, at most the interval of
`objective.checkpoint` counts as lost; starting again takes what that says, too. Next step:
`queue.running` says what an eviction loses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Invalid
from policies.placement import CHECKPOINTED_ANNOTATION
from policies.placement_policy import Checkpoint
from policies.scalars import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]

USUAL_RESTART_S: Final = Checkpoint.model_validate({}).restart.total_seconds()
"""Of work whose policy is not known: as of one that does not say."""


def check_saved(obj: Object) -> None:
    """Raises Invalid for an object that says of its last checkpoint what is no time."""
    try:
        _annotated(obj)
    except ValueError as error:
        group = str(obj.get("apiVersion", "")).rpartition("/")[0]
        raise Invalid.of(
            group=group,
            kind=str(obj.get("kind", "")),
            name=str((obj.get("metadata") or {}).get("name", "")),
            causes=[Cause("FieldValueInvalid", str(error), FIELD)],
        ) from error


def saved_s(obj: Object) -> float | None:
    """When the last checkpoint was complete, as an object says; None where it says nothing that
    can be read."""
    try:
        return _annotated(obj)
    except ValueError:
        return None


def not_come(obj: Object, *, now: float) -> str:
    """What to say of a last checkpoint that is to come; "" where there is none."""
    at = saved_s(obj)
    if at is None or at <= now:
        return ""
    said = obj["metadata"]["annotations"][CHECKPOINTED_ANNOTATION]
    return f"{FIELD}: {said} is to come; it is not believed before"


def newest_s(times: Iterable[float | None], *, now: float) -> float | None:
    """The last of them that has come."""
    return max((each for each in times if each is not None and each <= now), default=None)


def _annotated(obj: Object) -> float | None:
    annotations: Object = (obj.get("metadata") or {}).get("annotations") or {}
    said = annotations.get(CHECKPOINTED_ANNOTATION)
    return None if said is None else parse_time(said).timestamp()


FIELD = f"metadata.annotations[{CHECKPOINTED_ANNOTATION}]"
