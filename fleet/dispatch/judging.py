"""What follows for shards that were committed: renewed, served, or over.

Each is judged by what its member shows; then the workload by all of them. Next step: `holding`
brings on what was planned.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.dispatch import amiss, elastic
from fleet.dispatch.acts import Meet, Open, Renew, Resize
from fleet.dispatch.budget import brought_on
from fleet.dispatch.owing import Owing
from fleet.dispatch.record import LEASE_OVER

if TYPE_CHECKING:
    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.sight import ShardView, Sight

    pass

_RENEW_AT: Final = 2 / 3  # of the time given, so that one renewal in three may fail
_RENEW_BESIDE_HOLDS_AT: Final = 0.9  # a hold that is being asked for may take long


class Judging(Owing):
    """Part of one decision."""

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
        lost = replace(shard, state="Lost", reason=LEASE_OVER, message=message)
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
