"""The status of the fleet's Job, made of its record and of what is seen of its shards.

Counts are sums, indexes the global ones. While a shard that runs cannot be seen, counts stay as
they were: a member's silence changes nothing. A terminal condition is written once and outlives
the objects in the members; what others write over a status gives way to the record's. Pure; the
reconciler stores what changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.elastic import goes_on
from fleet.dispatch.jobs.sight import JobView
from fleet.dispatch.record import ON_LOAN, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.shape import Workload
    from fleet.dispatch.sight import Sight

Object = dict[str, Any]

PLACED: Final = "fleet.dev/Placed"
ALL_RANKS: Final = "fleet.dev/AllRanks"
"""Of a Job that may run with fewer ranks than it asks for: whether all of them run."""
_COMPLETE_MESSAGE: Final = "Reached expected number of succeeded pods"
_TERMINAL: Final = ("Complete", "Failed")
_ENDS: Final = frozenset({*_TERMINAL, "SuccessCriteriaMet", "FailureTarget"})


def fold(workload: Workload, record: Record, sights: Mapping[str, Sight], *, now: float) -> Object:
    """The whole status. Equal to what is there when nothing changed."""
    status: Object = dict(workload.obj.get("status") or {})
    if any(each.get("type") in _TERMINAL for each in _true(status.get("conditions"))):
        if record.ended or workload.deleting:
            return status
        status.pop("completionTime", None)  # somebody else's end: the shards go on
    conditions = _Conditions(
        [e for e in status.get("conditions") or () if e.get("type") not in _ENDS or record.ended],
        now,
    )
    starts = [each.committed_at for each in record.shards if each.committed_at is not None]
    if starts and "startTime" not in status:
        status["startTime"] = text_of(min(starts))
    if not record.shards and (
        workload.spec.get("suspend") or (record.phase == "Queued" and record.preempted_for)
    ):
        status.pop("startTime", None)  # it starts anew: when it is resumed, or comes to its turn
    _count(status, workload, record, sights)
    _say_placed(conditions, record)
    _say_suspended(conditions, workload, record)
    _say_on_loan(conditions, record)
    _say_how_many(conditions, record)
    if record.phase == "Succeeded":
        _complete(status, conditions, record)
    elif record.phase == "Failed":
        _fail(status, conditions, record)
    if conditions.listed or "conditions" in status:
        status["conditions"] = conditions.listed
    return status


def _count(status: Object, workload: Workload, record: Record, sights: Mapping[str, Sight]) -> None:
    seen: list[tuple[Shard, JobView | None]] = []
    for shard in record.shards:
        sight = sights.get(shard.cluster)
        if shard.live and (sight is None or not sight.reached):
            return
        view = sight.view if sight is not None else None
        seen.append((shard, view if isinstance(view, JobView) else None))
    ended = record.ended
    active = sum(job.active for shard, job in seen if job and shard.live and not ended)
    ready = sum(job.ready for shard, job in seen if job and shard.live and not ended)
    succeeded = sum(_succeeded(workload, shard, job) for shard, job in seen)
    failed = record.failures + sum(
        job.failed for shard, job in seen if job and shard.state != "Evicted"
    )
    _set(status, "active", active)
    _set(status, "succeeded", succeeded)
    _set(status, "failed", failed)
    if "ready" in status or (record.shards and "startTime" in status):
        status["ready"] = ready
        status["terminating"] = sum(job.terminating for _, job in seen if job)
        status["uncountedTerminatedPods"] = {}
    if workload.indexed:
        for field, indexes in (
            ("completedIndexes", _completed(workload, seen)),
            ("failedIndexes", _globally(seen, "failed_indexes")),
        ):
            if indexes:
                status[field] = ranges(indexes)
            elif field in status:
                del status[field]


def _succeeded(workload: Workload, shard: Shard, job: JobView | None) -> int:
    if job is not None:
        return job.succeeded
    return len(_all_of(workload, shard)) if shard.state == "Succeeded" else 0


def _completed(workload: Workload, seen: Sequence[tuple[Shard, JobView | None]]) -> Iterable[int]:
    found = set(_globally(seen, "completed"))
    for shard, job in seen:
        if job is None and shard.state == "Succeeded":
            found.update(_all_of(workload, shard))
    return sorted(found)


def _all_of(workload: Workload, shard: Shard) -> range:
    """The indexes a shard has when it is done; of a whole Job more than run at a time."""
    completions = workload.spec.get("completions")
    if shard.count == workload.nodes and completions is not None:
        return range(completions)
    return range(shard.first, shard.first + shard.count)


def _globally(seen: Sequence[tuple[Shard, JobView | None]], field: str) -> list[int]:
    return sorted(
        shard.first + index
        for shard, job in seen
        if job is not None
        for index in indexes_in(getattr(job, field))
    )


def indexes_in(text: str) -> list[int]:
    """`0,2-4` as numbers."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def ranges(indexes: Iterable[int]) -> str:
    """Numbers in order as a Job writes them: `0,2-4`; two in a row stand alone."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


def _say_placed(conditions: _Conditions, record: Record) -> None:
    """Whether it has a place, and if not, why."""
    if record.waiting:
        reason = record.reason or "Waiting"
        conditions.put(PLACED, "False", reason, record.message)
    elif record.phase in ("QuotaHeld", "Holding") and not goes_on(record):
        conditions.put(PLACED, "False", record.phase, "its parts are being held")
    elif not record.ended:
        amiss = [each for each in record.shards if each.live and each.amiss and each.reason]
        reason = amiss[0].reason if amiss else record.phase
        told = [_where(record), *(f"in {each.cluster} {each.message}" for each in amiss)]
        conditions.put(PLACED, "True", reason, "; ".join(told))


def _where(record: Record) -> str:
    return ", ".join(f"{shard.count} in {shard.cluster}" for shard in record.world)


def _say_suspended(conditions: _Conditions, workload: Workload, record: Record) -> None:
    suspended = bool(workload.spec.get("suspend"))
    if suspended and not record.shards and not record.owed:
        conditions.put("Suspended", "True", "JobSuspended", "Job suspended")
    elif not suspended and conditions.has("Suspended"):
        conditions.put("Suspended", "False", "JobResumed", "Job resumed")


def _say_on_loan(conditions: _Conditions, record: Record) -> None:
    """Notice that a loan was called back is given here too; never a word where there was none."""
    loan = record.loan if not record.ended else None
    if loan is not None:
        conditions.put(ON_LOAN, "True", loan.reason, str(loan))
    elif conditions.has(ON_LOAN):
        conditions.put(ON_LOAN, "False", "NotOnLoan", "")


def _say_how_many(conditions: _Conditions, record: Record) -> None:
    """Of an elastic Job, while it has a place."""
    if not record.elastic or not record.world:
        if conditions.has(ALL_RANKS):
            conditions.put(ALL_RANKS, "False", "NotPlaced", "")
        return
    if record.ranks >= record.most:
        conditions.put(ALL_RANKS, "True", "AllRanks", f"all {record.most} ranks have a place")
        return
    told = f"{record.ranks} of {record.most} ranks have a place, and {record.least} are enough"
    conditions.put(ALL_RANKS, "False", "Smaller", told)


def _complete(status: Object, conditions: _Conditions, record: Record) -> None:
    message = _COMPLETE_MESSAGE
    if record.elastic and record.ranks < record.most:
        message = f"{record.ranks} of {record.most} ranks ran, and all of those succeeded"
    for kind in ("SuccessCriteriaMet", "Complete"):
        conditions.put(kind, "True", "CompletionsReached", message)
    conditions.put(PLACED, "True", "Succeeded", _where(record))
    status["completionTime"] = text_of(record.since)
    _at_rest(status)


def _fail(status: Object, conditions: _Conditions, record: Record) -> None:
    for kind in ("FailureTarget", "Failed"):
        conditions.put(kind, "True", record.reason, record.message)
    conditions.put(PLACED, "False", "Failed", "the workload has ended")
    _at_rest(status)


def _at_rest(status: Object) -> None:
    status.pop("active", None)
    status["ready"] = 0
    status["terminating"] = 0


class _Conditions:
    """Conditions of a Job; a time moves when a status does."""

    def __init__(self, present: Iterable[Object], now: float) -> None:
        self.listed = [dict(each) for each in present]
        self._now = text_of(now)

    def has(self, kind: str) -> bool:
        return any(each.get("type") == kind for each in self.listed)

    def put(self, kind: str, status: str, reason: str, message: str) -> None:
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        for each in self.listed:
            if each.get("type") != kind:
                continue
            if each.get("status") != status:
                each["lastTransitionTime"] = self._now
            if any(each.get(key) != value for key, value in new.items()):
                each |= new | {"lastProbeTime": self._now}
            return
        times = {"lastProbeTime": self._now, "lastTransitionTime": self._now}
        self.listed.append(new | times)


def _true(conditions: Any) -> list[Object]:
    return [each for each in conditions or () if each.get("status") == "True"]


def _set(status: Object, field: str, count: int) -> None:
    if count:
        status[field] = count
    else:
        status.pop(field, None)
