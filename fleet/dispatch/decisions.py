"""What follows from what is recorded and what is seen: the whole protocol as one pure function.

`decide` gives the record as it should be and what to do in the members. The caller stores the
record first and acts only on a record that is stored and needs no change; then it looks again. So a
crash between any two steps leaves a record that foretells what may have been done. Renewals of
shards that are stored as running on foretell nothing and go out at once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.dispatch import amiss, elastic
from fleet.dispatch.acts import Act, Hold, Meet, Open, Release, Remove, Renew, Resize, Stop
from fleet.dispatch.budget import brought_on
from fleet.dispatch.record import Debt, Record, Shard
from fleet.dispatch.sight import Refused, ShardView, Sight
from fleet.dispatch.situation import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.dispatch.situation import Situation

ORPHANED: Final = "Orphaned"
_FIRST_LOOK_S: Final = 5.0
_LAST_LOOK_S: Final = 60.0
_RENEW_AT: Final = 2 / 3  # of the time given, so that one renewal in three may fail
_RENEW_BESIDE_HOLDS_AT: Final = 0.9  # a hold that is being asked for may take long
_COMMIT_AT: Final = 1 / 3  # of the hold's time must be left for the commit to reach the member


def decide(s: Situation) -> Decision:
    """What follows."""
    return _Pass(s).decide()


class _Pass:
    """One decision; collects acts and the next time to look while the record is brought on."""

    def __init__(self, situation: Situation) -> None:
        self.s = situation
        self.now = situation.now
        self.acts: list[Act] = []
        self.barred: dict[str, str] = {}
        self._taken_s: int | None = None
        self._again: list[float] = []

    def decide(self) -> Decision:
        ask = self.s.ask
        record = self._discharge(self._identified(self.s.record))
        if ask.deleting:
            record = self._owe(record, record.shards, ORPHANED if ask.orphaned else "Deleted")
            return self._decision(self._say_it_leaves(record), gone=not record.owed)
        if record.ended:
            return self._decision(self._wind_down(record))
        if ask.suspended:
            return self._decision(self._suspend(record))
        record = self._follow(record)
        record = self._judge_live(record)
        if record.preempted_for and record.shards and not record.ended:
            return self._decision(self._make_room(record))
        if not record.ended:
            record = self._regroup(record)
            match record.phase:
                case "QuotaHeld":
                    record = self._begin(record)
                case "Holding":
                    record = self._hold(record)
                case "Committed":
                    record = self._start(record)
                case _:
                    pass  # Running is judged already; Queued, Lost, Evicted wait for a plan
        return self._decision(record)

    def _decision(self, record: Record, *, gone: bool = False) -> Decision:
        again = min(self._again, default=None)
        return Decision(
            record=elastic.told(self.s.record, record),
            acts=tuple(self.acts),
            barred=self.barred,
            gone=gone,
            taken_s=self._taken_s,
            again_s=None if again is None else max(again - self.now, 0.0),
        )

    def _sight(self, shard: Shard) -> Sight:
        return self.s.sights.get(shard.cluster) or Sight(shard.cluster)

    def _identified(self, record: Record) -> Record:
        """With the cluster of each shard that was asked for, where that was not known."""
        return record.with_shards(
            replace(each, cluster_uid=self._sight(each).uid)
            for each in record.shards
            if not each.cluster_uid and (each.live or each.state in ("Holding", "Held"))
        )

    # -- what is owed

    def _discharge(self, record: Record) -> Record:
        """Remove what is owed; what is seen gone is owed no more."""
        left = []
        for debt in record.owed:
            sight = self.s.debts.get((debt.cluster, debt.shard)) or Sight(debt.cluster)
            if sight.absent or sight.foreign:
                continue
            fenced = debt.fenced_at is not None and debt.fenced_at <= self.now
            if not sight.member and (fenced or record.ended or self.s.ask.deleting):
                continue  # forced out of the fleet: cleaned up if it ever comes back
            if not fenced and debt.fenced_at is not None:
                self._again.append(debt.fenced_at)
            left.append(debt)
            if not sight.reached and sight.member:
                self._look_again(record)
            if sight.view is None:
                continue
            if debt.reason == ORPHANED and not sight.view.deleting:
                self.acts.append(Release(debt.cluster, debt.shard, sight.view))
            elif self._is_to_be_told(sight.view):
                grace_s = self.s.ask.grace_s
                self.acts.append(Remove(debt.cluster, debt.shard, sight.view, grace_s))
        return record if len(left) == len(record.owed) else replace(record, owed=tuple(left))

    def _look_again(self, record: Record) -> None:
        """Where nothing tells when a member can be looked at: less often as time goes by."""
        wait_s = min(max(self.now - record.since, _FIRST_LOOK_S), _LAST_LOOK_S)
        self._again.append(self.now + wait_s)

    def _is_to_be_told(self, view: ShardView) -> bool:
        """Whether a shard is still to be deleted, or sooner than it was told."""
        if not view.deleting:
            return True
        grace_s = self.s.ask.grace_s
        return grace_s is not None and view.grace_s is not None and grace_s < view.grace_s

    def _owe(self, record: Record, shards: Iterable[Shard], reason: str) -> Record:
        """The record without `shards`, which are to be gone. Of what was only planned nothing was
        asked of any member."""
        leaving = {(each.cluster, each.generation) for each in shards}
        if not leaving:
            return record
        asked = [each for each in shards if each.state != "Planned"]
        owed = [*record.owed, *(self._debt(record, each, reason) for each in asked)]
        unique = {(each.cluster, each.shard): each for each in reversed(owed)}
        return replace(
            record,
            shards=tuple(e for e in record.shards if (e.cluster, e.generation) not in leaving),
            owed=tuple(sorted(unique.values(), key=lambda each: (each.cluster, each.shard))),
        )

    def _debt(self, record: Record, shard: Shard, reason: str) -> Debt:
        fenced_at: float | None
        if shard.to_come:
            fenced_at = self.now  # its gate was never opened: nothing of it can run
        elif record.fencing == "Controller":
            fenced_at = self._fence(shard)
        else:
            fenced_at = None
        return Debt(
            cluster=shard.cluster,
            shard=shard.name(self.s.ask.name),
            generation=shard.generation,
            reason=reason,
            fenced_at=None if fenced_at is None else math.ceil(fenced_at),
            cluster_uid=shard.cluster_uid,
            count=shard.count,
        )

    def _fence(self, shard: Shard) -> float:
        until = shard.leased_until
        if until is None:
            until = self._sight(shard).leased_until
        return until + self.s.timing.margin_s

    def _say_it_leaves(self, record: Record) -> Record:
        if record.ended or not record.owed:
            return record
        where = ", ".join(sorted({debt.cluster for debt in record.owed}))
        message = f"is being deleted; not seen gone yet from {where}"
        return record.with_phase(record.phase, self.now, reason="Deleted", message=message)

    # -- the end

    def _wind_down(self, record: Record) -> Record:
        """Stop what still runs of a workload that has ended."""
        ended = []
        for shard in record.shards:
            if not (shard.live or shard.to_come):
                continue
            sight = self._sight(shard)
            if shard.to_come or not sight.member:
                record = self._owe(record, (shard,), "Ended")
            elif sight.absent or sight.foreign or (sight.view and sight.view.outcome):
                ended.append(self._ended(shard, sight.view, record))
            elif sight.view is not None:
                self.acts.append(Stop(shard, sight.view))
        return record.with_shards(ended)

    def _ended(self, shard: Shard, view: ShardView | None, record: Record) -> Shard:
        if view is not None and view.outcome == "Complete":
            return replace(shard, state="Succeeded", finished_at=self.now)
        reason = "Stopped" if view is None or view.lapsed else view.reason
        message = f"stopped: the workload has {record.phase.lower()}"
        return replace(shard, state="Evicted", reason=reason, message=message, finished_at=self.now)

    def _suspend(self, record: Record) -> Record:
        record = self._owe(record, record.shards, "Suspended")
        return record.with_phase("Queued", self.now, reason="Suspended", message="suspended")

    def _follow(self, record: Record) -> Record:
        """As many ranks as an elastic workload asks for by now; the last ones go first."""
        if not elastic.is_resized(record, self.s.ask.nodes):
            return record
        record = self._owe(record, [e for e in record.shards if e.to_come], elastic.RESIZED)
        record, gone = elastic.fitted(record, self.s.ask.nodes, self.now)
        return self._owe(record, gone, elastic.RESIZED)

    # -- when it has to go for another

    def _make_room(self, record: Record) -> Record:
        """End all of it. It waits again where it stood, unless it cannot begin anew: then it goes.

        What its pods had failed by themselves counts on; that they are ended does not
        (jobset#1117).
        """
        if not self.s.ask.moves and any(not each.to_come for each in record.shards):
            self._taken_s = self.s.ask.end_s
            return record
        record = replace(record, failures=record.failures + self._failures(record))
        reason, message = record.goes
        record = self._owe(record, record.shards, reason)
        return record.with_phase("Queued", self.now, reason=reason, message=message)

    # -- shards that were committed

    def _judge_live(self, record: Record) -> Record:
        """Renew, serve and judge every shard that was committed."""
        for shard in record.shards:
            if shard.live:
                record = self._judge(record, shard)
                if record.ended:
                    return record
        return self._judge_whole(record)

    def _judge(self, record: Record, shard: Shard) -> Record:
        sight = self._sight(shard)
        if not sight.reached:
            return self._silent(record, shard, sight)
        view = sight.view
        if view is None:
            return self._missing(record, shard, sight)
        if shard.lost_at is not None:
            shard = replace(shard, lost_at=None, leased_until=None, reason="", message="")
            record = record.with_shards([shard])
        if view.deleting and not self.s.ask.moves:
            self._taken_s = view.grace_s or 0
            return record
        if view.outcome == "Complete":
            return self._done(record, shard, view)
        if view.outcome == "Failed":
            return self._failed(record, shard, view)
        if view.deleting:
            return self._evict(record, shard, view, "JobDeleted", "its Job is being deleted there")
        if view.suspended:
            # Its pods are taken away: what waits for it to be resumed is the rest of the gang.
            self.barred[shard.cluster] = "somebody there suspended its Job"
            message = f"its Job was suspended in {shard.cluster}, and not by the fleet"
            return self._evict(record, shard, view, "JobSuspended", message)
        record, goes_on = self._unserved(record, shard, sight, view)
        if goes_on:
            self._renew(shard, sight, view, record.lease_s)
            self._size(record, shard, view)
            self._serve(record, shard, view)
        return record

    def _done(self, record: Record, shard: Shard, view: ShardView) -> Record:
        """What it was to grow by when it came to its end has not run."""
        if elastic.enlarged(shard) and view.size is not None and view.size < shard.count:
            record = elastic.cut(record, {shard.cluster: view.size})
            shard = next(each for each in record.shards if each.cluster == shard.cluster)
        return record.with_shards([replace(shard, state="Succeeded", finished_at=self.now)])

    def _size(self, record: Record, shard: Shard, view: ShardView) -> None:
        """Have it be as large as is recorded, once its lease need not be renewed: both change the
        very object that was seen."""
        if record.elastic and view.size is not None and view.size != shard.count:
            if view.size < shard.count and elastic.finishes(record, self.s.sights):
                return
            if not any(isinstance(act, Renew) and act.shard == shard for act in self.acts):
                self.acts.append(Resize(shard, view))
            else:
                self._again.append(self.now)

    def _unserved(
        self, record: Record, shard: Shard, sight: Sight, view: ShardView
    ) -> tuple[Record, bool]:
        """Say what the member refuses of a shard that was committed. While not all of it has begun
        it gets no more time for that than a hold, so that no gang stays half begun; `goes_on`."""
        why = sight.refused
        if why is None:
            return self._whole(record, shard, sight, view)
        message = f"{amiss.refusing(shard)}{why.message}"
        since = max(shard.refused_at or why.since, shard.committed_at or self.now)
        if shard.state == "Committed" and not elastic.enlarged(shard):
            ends = since + self.s.timing.hold_limit_s
            if self.now >= ends:
                self.barred[shard.cluster] = why.message
                return self._evict(record, shard, view, why.reason, message), False
            self._again.append(ends)
        noted = replace(
            shard, reason=why.reason, message=message, refused_at=since, amiss_at=None, amiss=0
        )
        return record.with_shards([noted]), True

    def _whole(
        self, record: Record, shard: Shard, sight: Sight, view: ShardView
    ) -> tuple[Record, bool]:
        """Say what is amiss with its pods, and end it where there is another place for those that
        have had no node for too long; `goes_on`."""
        moves = self.s.ask.moves
        shard = amiss.noted(shard, sight, record, self.now, moves=moves)
        record = record.with_shards([shard])
        due = amiss.due(shard, record)
        if due is None or not moves:
            return record, True
        if self.now < due:
            self._again.append(due)
        elif shard in amiss.leaving(record, self.now) and (
            shard.cluster in self.s.elsewhere or amiss.is_spared(record, shard, sight)
        ):
            told = amiss.told_at_the_end(shard, record.lease_s)
            self.barred[shard.cluster] = told
            return self._evict(record, shard, view, shard.reason, told), False
        return record, True

    def _silent(self, record: Record, shard: Shard, sight: Sight) -> Record:
        if sight.refused is not None:
            self._look_again(record)
        silent = self._noted_silent(shard, sight)
        if silent != shard:
            shard = silent
            record = record.with_shards([shard])
        if record.fencing != "Controller":
            return record
        over = self._fence(shard)
        if self.now < over:
            self._again.append(over)
            return record
        message = f"{shard.cluster} was not heard of for longer than its lease"
        if not sight.member:
            message = f"{sight.silence()}, and its lease is over"
        lost = replace(shard, state="Lost", reason="LeaseOver", message=message)
        return self._retire(record, lost, failures=0)

    def _noted_silent(self, shard: Shard, sight: Sight) -> Shard:
        """Since when, why, and until when it may run: no renewal goes out before this is taken
        back, so that a gateway that starts anew need not wait for a whole lease again."""
        reason = sight.refused.reason if sight.refused else "Unreachable"
        if not sight.member:
            reason = "MemberLeft"
        if shard.lost_at is None or shard.reason != reason:
            lost_at = self.now if shard.lost_at is None else shard.lost_at
            shard = replace(shard, lost_at=lost_at, reason=reason, message=sight.silence())
        if shard.leased_until is None and self.s.ask.lapses:
            shard = replace(shard, leased_until=math.ceil(sight.leased_until))
        return shard

    def _missing(self, record: Record, shard: Shard, sight: Sight) -> Record:
        if not self.s.ask.moves:
            self._taken_s = 0
            return record
        message = f"its Job is gone from {shard.cluster}, and the fleet did not delete it"
        if sight.unfinished or shard.state == "Committed":
            return self._evict(record, shard, None, "JobDeleted", message)
        failed = replace(
            shard, state="Failed", reason="ResultUnknown", message=message, finished_at=self.now
        )
        return self._end(
            record.with_shards([failed]),
            "Failed",
            reason="ResultUnknown",
            message=f"{message}; whether it had finished is not known, so it is not run again. "
            "To run it again, create the workload anew",
        )

    def _failed(self, record: Record, shard: Shard, view: ShardView) -> Record:
        deadline = self.s.ask.deadline
        if view.lapsed and (deadline is None or self.now < deadline):
            message = f"{shard.cluster} did not hear from the fleet within its lease and ended it"
            return self._evict(record, shard, view, "LeaseLapsed", message)
        failed = replace(
            shard, state="Failed", reason=view.reason, message=view.message, finished_at=self.now
        )
        return self._end(
            record.with_shards([failed]),
            "Failed",
            reason=view.reason,
            message=f"{shard.cluster}: {view.message or view.reason}",
        )

    def _evict(
        self, record: Record, shard: Shard, view: ShardView | None, reason: str, message: str
    ) -> Record:
        evicted = replace(
            shard, state="Evicted", reason=reason, message=message, finished_at=self.now
        )
        return self._retire(record, evicted, failures=view.failed if view else 0)

    def _retire(self, record: Record, shard: Shard, *, failures: int) -> Record:
        """A shard that has to be placed anew; the old copy is owed."""
        debt = self._debt(record, shard, shard.reason)
        others = [e for e in record.owed if (e.cluster, e.shard) != (debt.cluster, debt.shard)]
        record = replace(record, owed=(*others, debt), failures=record.failures + failures)
        return record.with_shards([shard])

    def _judge_whole(self, record: Record) -> Record:
        ask = self.s.ask
        states = [shard.state for shard in record.shards]
        queue = ask.completions is None and not ask.indexed
        missing = record.waiting or any(each != "Succeeded" for each in states)
        if states and (not missing or (queue and "Succeeded" in states)):
            return self._end(record, "Succeeded")
        record, failures = self._charged(record)
        if failures > ask.backoff_limit:
            message = f"{failures} pods failed, and the Job allows {ask.backoff_limit}"
            return self._end(record, "Failed", reason="BackoffLimitExceeded", message=message)
        deadline = ask.deadline
        if deadline is not None and any(shard.live for shard in record.shards):
            if self.now >= deadline:
                message = "Job was active longer than specified deadline"
                return self._end(record, "Failed", reason="DeadlineExceeded", message=message)
            self._again.append(deadline)
        return record

    def _failures(self, record: Record) -> int:
        """Pods that have failed of shards that run."""
        return sum(
            sight.view.failed
            for shard in record.shards
            if shard.live and (sight := self._sight(shard)).view is not None
        )

    def _charged(self, record: Record) -> tuple[Record, int]:
        """What counts against the limit. Of a gang only what has been stored, and so looked at
        twice: what broke it may be seen a moment after what came of that."""
        if not self.s.ask.gang:
            return record, record.failures + self._failures(record)
        budget = brought_on(record, self.s.sights, disturbed=self.s.disturbed)
        return replace(record, budget=budget), min(budget.charged, self.s.record.budget.charged)

    def _end(self, record: Record, phase: str, *, reason: str = "", message: str = "") -> Record:
        assert phase in ("Succeeded", "Failed")
        return record.with_phase(phase, self.now, reason=reason, message=message)  # type: ignore[arg-type]

    def _renew(self, shard: Shard, sight: Sight, view: ShardView, seconds: float) -> None:
        if not self.s.ask.lapses:
            return
        left_s = sight.left_s()
        if left_s is None and view.deadline_s is not None:
            return  # not begun to count
        due_s = seconds * (_RENEW_BESIDE_HOLDS_AT if self._holds_begin() else _RENEW_AT)
        if left_s is None or left_s < due_s:
            self.acts.append(Renew(shard, view, seconds))
            self._again.append(self.now + seconds - due_s)
        else:
            self._again.append(self.now + left_s - due_s)

    def _holds_begin(self) -> bool:
        return any(shard.to_come for shard in self.s.record.shards)

    def _serve(self, record: Record, shard: Shard, view: ShardView) -> None:
        self.acts.append(Meet(shard, view))
        lead = record.lead
        leads = lead is not None and lead.cluster == shard.cluster
        if leads or self._lead_is_known(lead):
            self.acts.append(Open(shard, view))

    def _lead_is_known(self, lead: Shard | None) -> bool:
        """Whether pods of the other shards may start: the leading rank can be found."""
        if not self.s.ask.indexed:
            return True
        if lead is None:
            return False
        if lead.state == "Succeeded":
            return True
        return any(pod.rank == lead.first and pod.address for pod in self._sight(lead).pods)

    # -- plans on their way

    def _regroup(self, record: Record) -> Record:
        """Go back for a plan where a part of the present one has broken away."""
        broken = [each for each in record.shards if each.state in ("Lost", "Evicted")]
        if not broken or record.waiting:
            return self._growth_is_late(record)
        if elastic.goes_on(record):
            return elastic.without(record, broken, self.now)
        message = "; ".join(each.message for each in broken)
        if record.phase == "Committed":
            # Not all of the gang had begun: none of this generation goes on without the rest.
            rest = [
                each
                for each in record.shards
                if each.generation == record.generation and each not in broken
            ]
            record = self._owe(record, rest, "Aborted")
        else:
            record = self._owe(record, [e for e in record.shards if e.to_come], "Aborted")
        if record.elastic:
            record = replace(record, generation=record.generation + 1)  # fewer run, and are told
        return self._wait(record, reason=broken[0].reason, message=message)

    def _growth_is_late(self, record: Record) -> Record:
        """Let go of what an elastic workload was to grow by once its first ranks are done."""
        coming = any(each.to_come for each in record.shards)
        if not (record.elastic and coming) or record.phase not in ("QuotaHeld", "Holding"):
            return record
        if elastic.goes_on(record) and elastic.finishes(record, self.s.sights):
            return self._release(record, reason="Finishing", message="its first ranks are done")
        return record

    def _wait(self, record: Record, *, reason: str, message: str) -> Record:
        """Queued, or Lost while other shards go on; an elastic workload with enough of those runs
        as it did."""
        broken = any(each.state in ("Lost", "Evicted") for each in record.shards)
        if elastic.goes_on(record) and not broken:
            phase = elastic.at_work(record)
            return record.with_phase(phase, self.now, reason=reason, message=message)
        if any(each.live or each.state == "Succeeded" for each in record.shards):
            return record.with_phase("Lost", self.now, reason=reason, message=message)
        return replace(record, shards=()).with_phase(
            "Queued", self.now, reason=reason, message=message
        )

    def _begin(self, record: Record) -> Record:
        """Begin to hold once nothing of an earlier generation can run any more."""
        planned = {each.cluster for each in record.shards if each.to_come}
        before = [debt for debt in record.owed if debt.cluster in planned]
        for debt in before:
            sight = self.s.debts.get((debt.cluster, debt.shard))
            if sight is not None and sight.refused is not None:
                why = sight.refused  # nor would it let anything be held
                self.barred[debt.cluster] = why.message
                message = f"{debt.cluster}: {why.message}"
                return self._release(record, reason=why.reason, message=message)
        if record.unfenced(self.now) or before:
            return self._hold_over(record)
        holding = [
            replace(each, state="Holding", cluster_uid=self._sight(each).uid)
            for each in record.shards
            if each.state == "Planned"
        ]
        return record.with_shards(holding).with_phase("Holding", self.now)

    def _hold_over(self, record: Record) -> Record:
        """Give a plan up that cannot begin within its time."""
        ends = record.since + self.s.timing.hold_limit_s
        if self.now < ends:
            self._again.append(ends)
            return record
        where = ", ".join(sorted({debt.cluster for debt in record.owed}))
        message = f"an earlier copy is not seen gone from {where}"
        return self._release(record, reason="NotFenced", message=message)

    def _release(self, record: Record, *, reason: str, message: str) -> Record:
        record = self._owe(record, [each for each in record.shards if each.to_come], reason)
        return self._wait(record, reason=reason, message=message)

    def _hold(self, record: Record) -> Record:
        coming = [each for each in record.shards if each.to_come]
        failures: list[tuple[Shard, Refused]] = []
        held = []
        for shard in coming:
            sight = self._sight(shard)
            refused = self._hold_failed(shard, sight)
            if refused is not None:
                failures.append((shard, refused))
            elif sight.view is not None:
                self._renew(shard, sight, sight.view, self._hold_s(record))
                if sight.bound() >= shard.count:
                    held.append(shard)
            elif sight.reached:
                self.acts.append(Hold(shard, math.ceil(self._hold_s(record))))
        if not failures and self.now >= record.since + self.s.timing.hold_limit_s:
            failures = [(e, self._too_late(e)) for e in coming if e not in held]
        if failures:
            return self._hold_broke(record, failures)
        if coming and len(held) == len(coming) and self._all_valid(record, held):
            return self._commit(record, held)
        self._again.append(record.since + self.s.timing.hold_limit_s)
        stands = {each.cluster for each in held}
        return record.with_shards(self._noted(each, each.cluster in stands) for each in coming)

    def _noted(self, shard: Shard, stands: bool) -> Shard:
        if stands:
            if shard.state == "Held":
                return shard
            return replace(shard, state="Held", held_at=self.now, reason="", message="")
        sight = self._sight(shard)
        why = f"its pods are not made: {sight.trouble}" if sight.trouble else ""
        if not sight.reached:
            why = sight.silence()
        return replace(shard, state="Holding", held_at=None, message=why)

    def _hold_failed(self, shard: Shard, sight: Sight) -> Refused | None:
        if sight.refused is not None:
            return sight.refused
        if not sight.member:
            return Refused("MemberLeft", sight.silent_because())
        if sight.foreign:
            return Refused("NameTaken", sight.foreign)
        view = sight.view
        if view is None:
            return None
        if view.outcome or view.deleting:
            why = view.message or view.reason or "it is being deleted there"
            if view.lapsed:
                why = "it lapsed"
            return Refused("HoldLost", f"lost its hold: {why}")
        return None

    def _too_late(self, shard: Shard) -> Refused:
        sight = self._sight(shard)
        limit_s = self.s.timing.hold_limit_s
        if not sight.reached:
            return Refused("Unreachable", sight.silent_because())
        why = sight.unbound_because()
        if sight.view is not None and sight.view.suspended:
            why = "somebody there suspended its Job"
        message = f"put {sight.bound()} of {shard.count} pods on nodes in {limit_s:g} s"
        return Refused("NoRoom", f"{message}: {why}" if why else message)

    def _hold_broke(self, record: Record, failures: list[tuple[Shard, Refused]]) -> Record:
        self.barred |= {shard.cluster: refused.message for shard, refused in failures}
        told = "; ".join(f"{shard.cluster} {refused.message}" for shard, refused in failures)
        message = f"not all parts could be held, so none is: {told}"
        return self._release(record, reason=failures[0][1].reason, message=message)

    def _hold_s(self, record: Record) -> float:
        """After which a hold lapses: never longer than a lease, which it becomes."""
        return min(self.s.timing.hold_s, record.lease_s)

    def _all_valid(self, record: Record, held: list[Shard]) -> bool:
        """Whether every hold has time enough left for the commit to reach it."""
        if not self.s.ask.lapses:
            return True
        least_s = self._hold_s(record) * _COMMIT_AT
        lefts = [self._sight(each).left_s() for each in held]
        return all(left_s is not None and left_s >= least_s for left_s in lefts)

    def _commit(self, record: Record, held: list[Shard]) -> Record:
        committed = [
            replace(
                each,
                state="Committed",
                held_at=each.held_at or self.now,
                committed_at=self.now,
                reason="",
                message="",
            )
            for each in held
        ]
        return record.with_shards(committed).with_phase("Committed", self.now)

    def _start(self, record: Record) -> Record:
        """Committed until every pod has begun."""
        record = record.with_shards(
            replace(shard, state="Running", started_at=shard.started_at or self.now)
            for shard in record.shards
            if shard.state == "Committed" and self._sight(shard).started() >= shard.count
        )
        if all(each.state in ("Running", "Succeeded") for each in record.shards):
            return record.with_phase("Running", self.now)
        return self._cut_back(record)

    def _cut_back(self, record: Record) -> Record:
        """Without the ranks that a shard was to grow by and that its member has no room for."""
        late = [
            each
            for each in record.shards
            if elastic.enlarged(each)
            and self._sight(each).view is not None
            and self._sight(each).bound() < each.count
        ]
        ends = record.since + self.s.timing.hold_limit_s
        finishes = elastic.finishes(record, self.s.sights)
        if not late or (self.now < ends and not finishes):
            self._again += [ends] if late else []
            return record
        kept = {each.cluster: elastic.bound(each, self._sight(each).pods, record) for each in late}
        for shard in () if finishes else late:
            self.barred[shard.cluster] = self._too_late(shard).message
        left = elastic.cut(record, {cluster: n for cluster, n in kept.items() if n})
        if left is record or elastic.goes_on(left):
            return left
        message = "; ".join(f"{each.cluster} {self._too_late(each).message}" for each in late)
        return self._wait(left, reason="NoRoom", message=message)
