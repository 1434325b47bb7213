"""What is to be gone from members, and how it is known to be: the ground of a decision.

A shard that goes is owed until it was seen gone, or cannot run any more. `judging` decides which of
those that run have to go, `holding` which of those that were to come.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.dispatch.acts import Act, Release, Remove
from fleet.dispatch.record import Debt, Record, Shard
from fleet.dispatch.sight import ShardView, Sight

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.dispatch.situation import Situation

ORPHANED: Final = "Orphaned"
_FIRST_LOOK_S: Final = 5.0
_LAST_LOOK_S: Final = 60.0


class Owing:
    """Part of one decision; collects acts and the next time to look."""

    def __init__(self, situation: Situation) -> None:
        self.s = situation
        self.now = situation.now
        self.acts: list[Act] = []
        self.barred: dict[str, str] = {}
        self._taken_s: int | None = None
        self._again: list[float] = []

    def _sight(self, shard: Shard) -> Sight:
        return self.s.sights.get(shard.cluster) or Sight(shard.cluster)

    def _identified(self, record: Record) -> Record:
        """With the cluster of each shard that was asked for, where that was not known."""
        return record.with_shards(
            replace(each, cluster_uid=self._sight(each).uid)
            for each in record.shards
            if not each.cluster_uid and (each.live or each.state in ("Holding", "Held"))
        )

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
