"""What a Job wants done: pods to make and delete, pods to count, and its next status. Pure.

`decide` is upstream's syncJob (pkg/controller/job/job_controller.go, 1.36), from the same facts to
the same outcome: criteria that a Job met or failed are recorded first (SuccessCriteriaMet,
FailureTarget), and the final condition (Complete, Failed) follows when all its pods have ended.
`backoffLimitPerIndex` is not done; `admission` refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from virtualnode import conditions
from virtualnode.conditions import seconds, stamp
from virtualnode.jobs import pods as jobpods
from virtualnode.jobs.indexes import Indexes, first_pending
from virtualnode.jobs.policies import Failures, match_failure, match_success

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

Object = dict[str, Any]

MOST_AT_ONCE: Final = 500
_FINISHED: Final = ("Complete", "Failed")
_NO_FAILURES: Final = Failures()
_COMPLETE: Final = ("CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True, slots=True)
class Note:
    """An event of the Job."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a look at a Job.

    `create` holds completion indexes, None for each pod without one. `status` is written after
    pods were made and deleted; then the pods `release` lose their finalizer, and `settle` makes
    the final status, with `finish` in it once nothing is left.
    """

    status: Object
    create: tuple[int | None, ...] = ()
    delete: tuple[Object, ...] = ()
    release: tuple[Object, ...] = ()
    finish: Object | None = None
    failures: Failures = _NO_FAILURES
    look_again_s: float | None = None
    notes: tuple[Note, ...] = ()


def is_finished(job: Object) -> bool:
    return any(conditions.is_true(job, kind) for kind in _FINISHED)


def finished_since(job: Object) -> float | None:
    """When the Job got its final condition."""
    for kind in _FINISHED:
        found = conditions.find((job.get("status") or {}).get("conditions"), kind)
        if found is not None and found.get("status") == "True":
            return seconds(found.get("lastTransitionTime"))
    return None


@dataclass(slots=True)
class _Look:
    """One pass over a Job: what is known, and what is decided so far."""

    job: Object
    pods: Sequence[Object]
    now: datetime
    base_s: float
    failures: Failures
    status: Object
    completions: int | None
    active: list[Object]
    terminating: int
    done: Indexes
    succeeded: int = 0
    failed: int = 0
    criterion: Object | None = None
    create: tuple[int | None, ...] = ()
    delete: tuple[Object, ...] = ()
    look_again_s: float | None = None
    notes: tuple[Note, ...] = ()

    @property
    def spec(self) -> Object:
        spec: Object = self.job["spec"]
        return spec

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))


def decide(
    job: Object, pods: Sequence[Object], failures: Failures, *, now: datetime, base_s: float
) -> Plan:
    """What to do about a Job that is not finished; `pods` are those it controls."""
    look = _look(job, pods, failures, now=now, base_s=base_s)
    _judge(look)
    if look.criterion is not None:
        look.delete = tuple(look.active)
        active_left = 0
    else:
        if not job["metadata"].get("deletionTimestamp"):
            _manage(look)
            _note_suspension(look)
        active_left = len(look.active) - len(look.delete) + len(look.create)
        if _is_complete(look, active_left):
            look.criterion = _criterion("SuccessCriteriaMet", *_COMPLETE)
    return _account(look, active_left)


def settle(
    status: Object,
    held: Collection[str],
    *,
    finish: Object | None,
    terminating: int,
    now: datetime,
) -> tuple[Object, tuple[Note, ...]]:
    """The status once pods were released: those no longer `held` (uids that still carry the
    finalizer) move from the uncounted to the counts, and the final condition is set when nothing
    is uncounted and no pod is ending any more."""
    uncounted = status.get("uncountedTerminatedPods") or {}
    settled = dict(status)
    left: Object = {}
    for kind in ("succeeded", "failed"):
        before = uncounted.get(kind) or []
        kept = [uid for uid in before if uid in held]
        if kept:
            left[kind] = kept
        if len(before) > len(kept):
            settled[kind] = settled.get(kind, 0) + len(before) - len(kept)
    settled["uncountedTerminatedPods"] = left
    if finish is None or left or terminating:
        return settled, ()
    settled["conditions"] = conditions.settle(
        settled.get("conditions"), {**finish, "lastProbeTime": stamp(now)}, now=now
    )
    if finish["type"] == "Complete":
        settled["completionTime"] = stamp(now)
        return settled, (Note("Completed", "Job completed"),)
    return settled, (Note(finish["reason"], finish["message"], warning=True),)


# -- what is so


def _look(
    job: Object, pods: Sequence[Object], failures: Failures, *, now: datetime, base_s: float
) -> _Look:
    spec, status = job["spec"], dict(job.get("status") or {})
    completions = spec.get("completions")
    uncounted = status.get("uncountedTerminatedPods") or {}
    counted_twice = {uid for kind in ("succeeded", "failed") for uid in uncounted.get(kind) or ()}
    fresh = [
        pod
        for pod in pods
        if jobpods.is_tracked(pod)
        and pod["metadata"]["uid"] not in counted_twice
        and _index_counts(job, pod)
    ]
    succeeded = [pod for pod in fresh if jobpods.phase_of(pod) == "Succeeded"]
    failed = [pod for pod in fresh if jobpods.is_failed(pod, job)]
    look = _Look(
        job=job,
        pods=pods,
        now=now,
        base_s=base_s,
        failures=failures.after(succeeded, failed),
        status=status,
        completions=completions,
        active=[pod for pod in pods if jobpods.is_active(pod)],
        terminating=sum(map(jobpods.is_terminating, pods)),
        done=Indexes(),
    )
    policy = spec.get("podFailurePolicy")
    look.succeeded = (
        status.get("succeeded", 0) + len(succeeded) + len(uncounted.get("succeeded") or ())
    )
    look.failed = (
        status.get("failed", 0)
        + sum(match_failure(policy, pod).counts for pod in failed)
        + len(uncounted.get("failed") or ())
    )
    if jobpods.is_indexed(job):
        before = Indexes.parse(status.get("completedIndexes") or "", below=completions or 0)
        look.done = before | (
            index for pod in succeeded if (index := jobpods.index_of(pod)) is not None
        )
        look.succeeded = len(look.done)
    if not status.get("startTime") and not look.suspended:
        status["startTime"] = stamp(now)
    return look


def _index_counts(job: Object, pod: Object) -> bool:
    if not jobpods.is_indexed(job):
        return True
    index = jobpods.index_of(pod)
    return index is not None and index < (job["spec"].get("completions") or 0)


# -- whether it is over


def _judge(look: _Look) -> None:
    """Set the criterion by which the Job is over, if there is one: what was recorded before comes
    first, then failures, then the success policy."""
    recorded = look.status.get("conditions")
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        found = conditions.find(recorded, kind)
        if found is not None and found.get("status") == "True":
            look.criterion = _criterion(kind, found.get("reason", ""), found.get("message", ""))
            return
    spec = look.spec
    policy = spec.get("podFailurePolicy")
    for pod in look.pods if policy else ():
        if jobpods.is_failed(pod, look.job) and (why := match_failure(policy, pod).fails_job):
            look.criterion = _criterion("FailureTarget", "PodFailurePolicy", why)
            return
    if look.failed > spec.get("backoffLimit", 6) or _restarted_too_often(look):
        look.criterion = _criterion(
            "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
        return
    if _deadline_passed(look):
        look.criterion = _criterion(
            "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline"
        )
        return
    if jobpods.is_indexed(look.job):
        met = match_success(spec.get("successPolicy"), look.done, completions=look.completions or 0)
        if met:
            look.criterion = _criterion("SuccessCriteriaMet", "SuccessPolicy", met)


def _restarted_too_often(look: _Look) -> bool:
    """Containers that are restarted in place count against the limit as well."""
    if (look.spec["template"]["spec"]).get("restartPolicy") != "OnFailure":
        return False
    total = sum(
        jobpods.restarts(pod)
        for pod in look.pods
        if jobpods.phase_of(pod) in ("Running", "Pending")
    )
    limit = look.spec.get("backoffLimit", 6)
    return total > 0 if limit == 0 else bool(total >= limit)


def _deadline_passed(look: _Look) -> bool:
    limit_s = look.spec.get("activeDeadlineSeconds")
    started = seconds(look.status.get("startTime"))
    if limit_s is None or look.suspended or started is None:
        return False
    left_s = started + float(limit_s) - look.now.timestamp()
    if left_s <= 0:
        return True
    look.look_again_s = left_s
    return False


def _is_complete(look: _Look, active_left: int) -> bool:
    if active_left:
        return False
    if look.completions is None:
        return look.succeeded > 0
    return look.succeeded >= look.completions


def _criterion(kind: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


# -- pods to make and delete


def _manage(look: _Look) -> None:
    """Deletions come before creations; one look does one of them."""
    if look.suspended:
        look.delete = tuple(look.active)
        return
    active = len(look.active)
    surplus = _surplus(look, max(active - _wanted(look), 0))
    if surplus:
        look.delete = tuple(surplus[:MOST_AT_ONCE])
        return
    waiting_for = look.terminating if jobpods.replaces_failed_only(look.job) else 0
    lacking = min(_wanted(look) - waiting_for - active, MOST_AT_ONCE)
    if lacking <= 0:
        return
    held_s = look.failures.remaining_s(now=look.now.timestamp(), base_s=look.base_s)
    if held_s > 0:
        look.look_again_s = min(held_s, look.look_again_s or held_s)
        return
    if not jobpods.is_indexed(look.job):
        look.create = (None,) * lacking
        return
    taken = {jobpods.index_of(pod) for pod in look.active}
    if jobpods.replaces_failed_only(look.job):
        taken |= {jobpods.index_of(pod) for pod in look.pods if jobpods.is_terminating(pod)}
    occupied = {index for index in taken if index is not None} | set(look.done)
    look.create = tuple(first_pending(occupied, count=lacking, below=look.completions or 0))


def _wanted(look: _Look) -> int:
    """How many pods should be active."""
    parallelism = int(look.spec.get("parallelism", 1))
    if look.completions is None:
        # once one has succeeded the rest is left to end, and nothing is begun
        return len(look.active) if look.succeeded > 0 else parallelism
    return max(min(look.completions - look.succeeded, parallelism), 0)


def _surplus(look: _Look, at_least: int) -> list[Object]:
    """Pods that should go: of an Indexed Job those whose index is too high or taken, then the
    least wanted until `at_least` are found."""
    going: list[Object] = []
    staying = look.active
    if jobpods.is_indexed(look.job):
        seen: set[int] = set()
        staying = []
        for pod in reversed(jobpods.least_wanted_first(look.active)):
            index = jobpods.index_of(pod)
            if index is None or index >= (look.completions or 0) or index in seen:
                going.append(pod)
            else:
                seen.add(index)
                staying.append(pod)
    missing = at_least - len(going)
    if missing > 0:
        going += jobpods.least_wanted_first(staying)[:missing]
    return going


def _note_suspension(look: _Look) -> None:
    present = look.status.get("conditions")
    known = conditions.find(present, "Suspended")
    if look.suspended:
        wanted = _criterion("Suspended", "JobSuspended", "Job suspended")
        told = Note("Suspended", "Job suspended")
    else:
        wanted = {
            **_criterion("Suspended", "JobResumed", "Job resumed"),
            "status": "False",
        }
        told = Note("Resumed", "Job resumed")
        if known is None:
            return  # it was never suspended, and nothing is said of that
    if known is not None and known.get("status") == wanted["status"]:
        return
    wanted["lastProbeTime"] = stamp(look.now)
    look.status["conditions"] = conditions.settle(present, wanted, now=look.now)
    look.notes += (told,)
    if look.suspended:
        look.status.pop("startTime", None)
    else:
        look.status["startTime"] = stamp(look.now)  # a Job is given its time anew


# -- the books


def _account(look: _Look, active_left: int) -> Plan:
    """Count what ended, and write down how the Job stands."""
    job, status = look.job, look.status
    over = look.criterion is not None
    failing = over and look.criterion is not None and look.criterion["type"] == "FailureTarget"
    uncounted = {
        kind: list((status.get("uncountedTerminatedPods") or {}).get(kind) or ())
        for kind in ("succeeded", "failed")
    }
    release: list[Object] = []
    indexed = jobpods.is_indexed(job)
    for pod in look.pods:
        if not jobpods.is_tracked(pod):
            continue
        failed = jobpods.is_failed(pod, job)
        succeeded = jobpods.phase_of(pod) == "Succeeded"
        if not (job["metadata"].get("deletionTimestamp") or over or succeeded or failed):
            continue
        release.append(pod)
        uid = pod["metadata"]["uid"]
        if uid in uncounted["succeeded"] or uid in uncounted["failed"]:
            continue
        if succeeded:
            if not indexed:  # an index counts once by itself
                uncounted["succeeded"].append(uid)
        elif (failed or failing) and _index_counts(job, pod):
            if match_failure(look.spec.get("podFailurePolicy"), pod).counts:
                uncounted["failed"].append(uid)
    status["uncountedTerminatedPods"] = {kind: uids for kind, uids in uncounted.items() if uids}
    if indexed:
        _set(status, "completedIndexes", str(look.done))
        _set(status, "succeeded", len(look.done))
    going = {pod["metadata"]["uid"] for pod in look.delete}
    staying = [pod for pod in look.active if pod["metadata"]["uid"] not in going]
    _set(status, "active", active_left)
    status["ready"] = sum(map(jobpods.is_ready, staying))
    status["terminating"] = look.terminating + len(look.delete)
    finish: Object | None = None
    if look.criterion is not None:
        if conditions.find(status.get("conditions"), look.criterion["type"]) is None:
            told = {**look.criterion, "lastProbeTime": stamp(look.now)}
            status["conditions"] = conditions.settle(status.get("conditions"), told, now=look.now)
        finish = {**look.criterion, "type": "Failed" if failing else "Complete"}
    return Plan(
        status=status,
        create=look.create,
        delete=look.delete,
        release=tuple(release),
        finish=finish,
        failures=look.failures,
        look_again_s=look.look_again_s,
        notes=look.notes,
    )


def _set(status: Object, field: str, value: Any) -> None:
    """As Go leaves out what is empty."""
    if value:
        status[field] = value
    else:
        status.pop(field, None)
