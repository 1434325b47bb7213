"""What follows for a plan on its way: begun, held, committed or released.

All of a generation or none: nothing is committed before every hold stands, and what has broken away
sends the rest back for another plan. Next step: `decisions` puts the whole together.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.dispatch import elastic
from fleet.dispatch.acts import Hold
from fleet.dispatch.judging import Judging
from fleet.dispatch.sight import Refused, Sight

if TYPE_CHECKING:
    from fleet.dispatch.record import Record, Shard

    pass

_COMMIT_AT: Final = 1 / 3  # of the hold's time must be left for the commit to reach the member


class Holding(Judging):
    """Part of one decision."""

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
        if not why and (waits := sight.unbound_because()):
            # How many is told when it is given up: it changes with each pod.
            why = f"not all of its pods have a node: {waits}"
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
                why = f"it lapsed; {shard.message}" if shard.message else "it lapsed"
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
