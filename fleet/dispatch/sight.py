"""What is seen of a shard in its member, as values; parsed from Job and Pod objects.

A sight is of one pass and never kept. Not to have reached a member is a sight of its own and says
nothing about what is there. Next step: `decisions` judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from fleet.dispatch.marks import (
    COMPLETION_INDEX_ANNOTATION,
    FLEET_ANNOTATION,
    GENERATION_LABEL,
    GLOBAL_INDEX_ANNOTATION,
)
from fleet.view.naming import SHARD_LABEL, WORKLOAD_UID_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]
Outcome = Literal["", "Complete", "Failed"]

LAPSED: Final = "DeadlineExceeded"
_UNSCHEDULABLE: Final = "Unschedulable"


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of a shard. `rank` is None for a pod without an index of its own; `numbered` is
    whether the member gave it a global one."""

    name: str
    rank: int | None = None
    numbered: bool = False
    bound: bool = False
    phase: str = "Pending"
    address: str = ""
    deleting: bool = False
    message: str = ""
    """Why the member has not put it on a node."""

    @property
    def started(self) -> bool:
        return self.phase in ("Running", "Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class JobView:
    """The Job of a shard. `deadline_s` counts from `started_at`; both None where not set."""

    uid: str
    revision: str
    outcome: Outcome = ""
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    deadline_s: int | None = None
    deleting: bool = False
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    completed: str = ""
    """Completed indexes as the Job counts them, `0,2-3`."""
    failed_indexes: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The member, or what is in it, does not let the shard be: why."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at a shard in its member.

    `reached` is whether the member answered everything that was asked. `clock` is the member's
    time then, in seconds since the epoch. `job` is None where there is none of that name;
    `unfinished` then says that it was seen to go without having finished. `foreign` is set where
    the name is somebody else's. `leased_until` is when the shard ends by itself at the latest,
    by our clock. `trouble` is why the member cannot make the shard's pods.
    """

    cluster: str
    reached: bool = False
    why: str = ""
    member: bool = True
    clock: float = 0.0
    job: JobView | None = None
    pods: tuple[PodView, ...] = ()
    trouble: str = ""
    foreign: str = ""
    unfinished: bool = False
    refused: Refused | None = None
    leased_until: float = 0.0

    @property
    def absent(self) -> bool:
        """Whether the shard is known to be gone."""
        return self.reached and self.job is None

    def left_s(self) -> float | None:
        """Seconds until the Job's deadline, by the member's clock; None while none runs."""
        job = self.job
        if job is None or job.deadline_s is None or job.started_at is None:
            return None
        return job.started_at + job.deadline_s - self.clock

    def bound(self) -> int:
        """Pods on nodes, each rank once, not counting those on their way out."""
        return self._counted(lambda pod: pod.bound)

    def started(self) -> int:
        """Pods whose containers run or ran, each rank once."""
        return self._counted(lambda pod: pod.started)

    def _counted(self, test: Any) -> int:
        pods = [pod for pod in self.pods if test(pod) and not pod.deleting]
        ranks = {pod.rank for pod in pods if pod.rank is not None}
        return len(ranks) + sum(pod.rank is None for pod in pods)

    def unbound_because(self) -> str:
        """The first reason the member gives for a pod that is on no node, or is not made."""
        messages = sorted({pod.message for pod in self.pods if not pod.bound and pod.message})
        return messages[0] if messages else self.trouble


def is_ours(obj: Mapping[str, Any], *, fleet: str, workload_uid: str, shard: str) -> bool:
    """Whether a member's object is this shard of ours, by all its marks."""
    metadata = obj.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return (
        labels.get(WORKLOAD_UID_LABEL) == workload_uid
        and labels.get(SHARD_LABEL) == shard
        and annotations.get(FLEET_ANNOTATION) == fleet
    )


def generation_of(obj: Mapping[str, Any]) -> int:
    text = ((obj.get("metadata") or {}).get("labels") or {}).get(GENERATION_LABEL, "")
    return int(text) if isinstance(text, str) and text.isdecimal() else 0


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
        active=status.get("active") or 0,
        ready=status.get("ready") or 0,
        terminating=status.get("terminating") or 0,
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        completed=status.get("completedIndexes") or "",
        failed_indexes=status.get("failedIndexes") or "",
    )


def _outcome(status: Mapping[str, Any]) -> tuple[Outcome, str, str]:
    """The terminal condition. What is about to fail has failed: pods are on their way out."""
    conditions = {c.get("type"): c for c in status.get("conditions") or () if _true(c)}
    for kind, outcome in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("FailureTarget", "Failed"),
    ):
        if condition := conditions.get(kind):
            return outcome, condition.get("reason") or "", condition.get("message") or ""  # type: ignore[return-value]
    return "", "", ""


def pod_view(pod: Mapping[str, Any], *, offset: int = 0) -> PodView:
    """A Pod object as a value; `offset` is added to a local index where there is no global one."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    return PodView(
        name=metadata["name"],
        rank=_rank(metadata.get("annotations") or {}, offset),
        numbered=GLOBAL_INDEX_ANNOTATION in (metadata.get("annotations") or {}),
        bound=bool(spec.get("nodeName")),
        phase=status.get("phase") or "Pending",
        address=status.get("podIP") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        message=_unscheduled(status),
    )


def _rank(annotations: Mapping[str, str], offset: int) -> int | None:
    text = annotations.get(GLOBAL_INDEX_ANNOTATION, "")
    if text.isdecimal():
        return int(text)
    text = annotations.get(COMPLETION_INDEX_ANNOTATION, "")
    return int(text) + offset if text.isdecimal() else None


def _unscheduled(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("message") or condition.get("reason") or ""
    return ""


def _true(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True"


def moment(text: Any) -> float | None:
    """A Kubernetes time in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) and text else None
