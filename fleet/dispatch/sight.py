"""What is seen of a shard in its member, as values; parsed from the objects there.

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
    GLOBAL_INDEX_ANNOTATION,
)
from fleet.view.naming import SHARD_LABEL, WORKLOAD_UID_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
_BEGINS: Final = ("ContainerCreating", "PodInitializing")
_PULLS: Final = ("ErrImagePull", "ImagePullBackOff")
_OFTEN_OTHERWISE: Final = ("CrashLoopBackOff", "ImagePullBackOff")
"""Reasons whose message is another one with every attempt."""

Object = dict[str, Any]
Outcome = Literal["", "Complete", "Failed"]


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
    disrupted: bool = False
    """Whether the member took it away: evicted, preempted, its node lost."""
    unschedulable: bool = False
    """Whether its scheduler found no node for it."""
    waits: str = ""
    """Why it does not run: what its first container that waits says."""
    begins: bool = False
    """Whether that is what every pod says while it starts."""
    since: float | None = None
    """Since when it has no node, or is not ready on it, by the member's clock."""
    restarts: int = 0
    """How often its containers were started again in place."""

    @property
    def runs(self) -> bool:
        """Whether it is there and does what it should, or did."""
        return self.phase in ("Running", "Succeeded") and not (self.deleting or self.disrupted)

    @property
    def started(self) -> bool:
        return self.phase in ("Running", "Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ShardView:
    """The object of a shard. `deadline_s` counts from `started_at`; both None where not set, or
    where the kind has no such thing. `grace_s` is the time it was given when it was deleted."""

    uid: str
    revision: str
    outcome: Outcome = ""
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    deadline_s: int | None = None
    deleting: bool = False
    suspended: bool = False
    """Whether somebody in the member took its pods away until it is resumed."""
    grace_s: int | None = None
    failed: int = 0
    """Pods of it that failed."""
    succeeded: int = 0
    """Pods of it that are done."""
    size: int | None = None
    """Pods that are to run of it; None of a kind that has one alone."""

    @property
    def lapsed(self) -> bool:
        """Whether it ended because nobody renewed its lease."""
        return False


@dataclass(frozen=True, slots=True)
class Refused:
    """The member, or what is in it, does not let the shard be: why, and since when where that
    counts. What is `passing` may be over with the next try, and is not said at once."""

    reason: str
    message: str
    since: float = 0.0
    passing: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at a shard in its member.

    `uid` is which cluster was asked. `reached` is whether the member answered everything that was
    asked. `member` is whether that cluster is one, whatever its name. `clock` is the member's
    time then, in seconds since the epoch. `view` is None where there is none of that name;
    `unfinished` then says that it was seen to go without having finished. `foreign` is set where
    the name is somebody else's. `leased_until` is when the shard ends by itself at the latest,
    by our clock. `trouble` is why the member cannot make the shard's pods.
    """

    cluster: str
    uid: str = ""
    reached: bool = False
    why: str = ""
    member: bool = True
    clock: float = 0.0
    view: ShardView | None = None
    pods: tuple[PodView, ...] = ()
    trouble: str = ""
    foreign: str = ""
    unfinished: bool = False
    refused: Refused | None = None
    leased_until: float = 0.0

    @property
    def absent(self) -> bool:
        """Whether the shard is known to be gone."""
        return self.reached and self.view is None

    def silence(self) -> str:
        """That its member says nothing of the shard, and why."""
        return f"{self.cluster} {self.silent_because()}"

    def silent_because(self) -> str:
        """The same, of a member that was named."""
        if not self.member:
            return self.why or "is no member of the fleet any more"
        if self.refused is not None:
            return f"refuses the fleet: {self.refused.message}"
        return "does not answer" + (f": {self.why}" if self.why else "")

    def left_s(self) -> float | None:
        """Seconds until the shard's deadline, by the member's clock; None while none runs."""
        view = self.view
        if view is None or view.deadline_s is None or view.started_at is None:
            return None
        return view.started_at + view.deadline_s - self.clock

    def bound(self) -> int:
        """Pods on nodes, each rank once, not counting those on their way out."""
        return self._counted(lambda pod: pod.bound)

    def started(self) -> int:
        """Pods whose containers run or ran, each rank once."""
        return self._counted(lambda pod: pod.started)

    def whole(self, count: int) -> bool:
        """Whether all of so many ranks run, or are done."""
        return len({pod.rank for pod in self.pods if pod.runs}) >= count

    def broken(self) -> bool:
        """Whether a pod was taken away and none runs in its place yet."""
        running = {pod.rank for pod in self.pods if pod.runs}
        return any((pod.deleting or pod.disrupted) and pod.rank not in running for pod in self.pods)

    def failures(self) -> int:
        """Pods of it that failed, and what was started again in place."""
        failed = self.view.failed if self.view is not None else 0
        return failed + sum(pod.restarts for pod in self.pods)

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


def pod_view(pod: Mapping[str, Any], *, offset: int = 0) -> PodView:
    """A Pod object as a value; `offset` is added to a local index where there is no global one."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    waits, begins = _waits(spec, status)
    return PodView(
        name=metadata["name"],
        rank=_rank(metadata.get("annotations") or {}, offset),
        numbered=GLOBAL_INDEX_ANNOTATION in (metadata.get("annotations") or {}),
        bound=bool(spec.get("nodeName")),
        phase=status.get("phase") or "Pending",
        address=status.get("podIP") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        message=_unscheduled(status),
        disrupted=_is_disrupted(status),
        unschedulable=_is_unschedulable(spec, status),
        waits=waits,
        begins=begins,
        since=_since(spec, status),
        restarts=_restarts(status),
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


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition, while it is False."""
    return next(
        (
            each
            for each in status.get("conditions") or ()
            if each.get("type") == kind and each.get("status") == "False"
        ),
        {},
    )


def _is_unschedulable(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    return not spec.get("nodeName") and _condition(status, SCHEDULED).get("reason") == UNSCHEDULABLE


def _waits(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, bool]:
    """Why the pod does not run, and whether that is only its beginning. What differs from one
    attempt to the next is left out."""
    if not spec.get("nodeName"):
        return _unscheduled(status), False
    found = [
        each["state"]["waiting"]
        for field in ("initContainerStatuses", "containerStatuses")
        for each in status.get(field) or ()
        if (each.get("state") or {}).get("waiting")
    ]
    for waiting in found:
        reason, message = waiting.get("reason") or "", waiting.get("message") or ""
        if reason in _BEGINS or not reason:
            continue
        if reason in _PULLS:
            reason = _PULLS[-1]
        told = message if message and reason not in _OFTEN_OTHERWISE else ""
        return (f"{reason}: {told}" if told else reason), False
    return (found[0].get("reason") or "", True) if found else ("", False)


def _since(spec: Mapping[str, Any], status: Mapping[str, Any]) -> float | None:
    kind = "Ready" if spec.get("nodeName") else SCHEDULED
    return moment(_condition(status, kind).get("lastTransitionTime"))


def _is_disrupted(status: Mapping[str, Any]) -> bool:
    return any(
        each.get("type") == "DisruptionTarget" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )


def _restarts(status: Mapping[str, Any]) -> int:
    if status.get("phase") not in ("Pending", "Running"):
        return 0  # an end counts as one failure, with all that led to it
    return sum(
        each.get("restartCount") or 0
        for field in ("initContainerStatuses", "containerStatuses")
        for each in status.get(field) or ()
    )


def moment(text: Any) -> float | None:
    """A Kubernetes time in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) and text else None
