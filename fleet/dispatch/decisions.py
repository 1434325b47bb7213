"""What follows from what is recorded and what is seen: the whole protocol as one pure function.

`decide` gives the record as it should be and what to do in the members. The caller stores the
record first and acts only on a record that is stored and needs no change; then it looks again. So a
crash between any two steps leaves a record that foretells what may have been done. Renewals of
shards that are stored as running on foretell nothing and go out at once.

What is owed is in `owing`, what runs in `judging`, what is on its way in `holding`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.dispatch import elastic
from fleet.dispatch.acts import Stop
from fleet.dispatch.holding import Holding
from fleet.dispatch.owing import ORPHANED
from fleet.dispatch.situation import Decision

if TYPE_CHECKING:
    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.sight import ShardView
    from fleet.dispatch.situation import Situation


def decide(s: Situation) -> Decision:
    """What follows."""
    return _Pass(s).decide()


class _Pass(Holding):
    """One decision: the record is brought on part by part."""

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
