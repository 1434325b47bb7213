"""What is seen of a shard's Job, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.sight import Outcome, ShardView, moment

if TYPE_CHECKING:
    from collections.abc import Mapping

LAPSED: Final = "DeadlineExceeded"


@dataclass(frozen=True, slots=True)
class JobView(ShardView):
    """The Job of a shard."""

    active: int = 0
    ready: int = 0
    terminating: int = 0
    completed: str = ""
    """Completed indexes as the Job counts them, `0,2-3`."""
    failed_indexes: str = ""

    @property
    def lapsed(self) -> bool:
        return self.reason == LAPSED


def job_view(job: Mapping[str, Any]) -> JobView:
    """A Job object as a value."""
    metadata, spec = job["metadata"], job.get("spec") or {}
    status = job.get("status") or {}
    outcome, reason, message = _outcome(status)
    return JobView(
        uid=metadata.get("uid", ""),
        revision=metadata.get("resourceVersion", ""),
        outcome=outcome,
        reason=reason,
        message=message,
        started_at=moment(status.get("startTime")),
        deadline_s=spec.get("activeDeadlineSeconds"),
        deleting=bool(metadata.get("deletionTimestamp")),
        suspended=bool(spec.get("suspend")),
        active=status.get("active") or 0,
        ready=status.get("ready") or 0,
        terminating=status.get("terminating") or 0,
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        size=spec.get("parallelism"),
        completed=status.get("completedIndexes") or "",
        failed_indexes=status.get("failedIndexes") or "",
    )


def _outcome(status: Mapping[str, Any]) -> tuple[Outcome, str, str]:
    """The terminal condition. What is about to fail has failed: pods are on their way out."""
    conditions = {
        each.get("type"): each
        for each in status.get("conditions") or ()
        if each.get("status") == "True"
    }
    for kind, outcome in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("FailureTarget", "Failed"),
    ):
        if condition := conditions.get(kind):
            return outcome, condition.get("reason") or "", condition.get("message") or ""  # type: ignore[return-value]
    return "", "", ""
