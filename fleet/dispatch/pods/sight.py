"""What is seen of a shard's Pod, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.sight import Outcome, ShardView

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

_OUTCOMES: Final[Mapping[str, Outcome]] = {"Succeeded": "Complete", "Failed": "Failed"}


@dataclass(frozen=True, slots=True)
class PodShard(ShardView):
    """The Pod of a shard; `pod` is the whole of it, as the member has it."""

    pod: Object = field(default_factory=dict)


def shard_view(pod: Mapping[str, Any]) -> PodShard:
    """A Pod object as a value."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    outcome = _OUTCOMES.get(status.get("phase", ""), "")
    return PodShard(
        uid=metadata.get("uid", ""),
        revision=metadata.get("resourceVersion", ""),
        outcome=outcome,
        reason=status.get("reason") or ("PodFailed" if outcome == "Failed" else ""),
        message=status.get("message") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        grace_s=metadata.get("deletionGracePeriodSeconds"),
        pod=dict(pod),
    )
