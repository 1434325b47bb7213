"""What a scenario costs, as `fleet cost` would have it, and what its budgets say meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.scheduling.cost.ceilings import NO_CEILINGS, Ceilings
from fleet.scheduling.cost.intervals import Interval, Spent, added, month_of
from fleet.scheduling.cost.showback import Account, spending
from fleet.scheduling.record import shards_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from fleet.scheduling.placement import Plan, Shard
    from fleet.scheduling.simulation.notes import History
    from fleet.scheduling.simulation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Charge:
    """What one workload had at one time."""

    quota: str
    policy: str
    class_name: str
    intervals: tuple[Interval, ...]
    once: tuple[Spent, ...]
    ends_at: datetime | None = None

    def spent(self, until: datetime) -> tuple[Spent, ...]:
        return added([*self.once, *(s for each in self.intervals for s in each.spent(until))])


class Bills:
    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._open: dict[str, Charge] = {}
        self.closed: list[Charge] = []

    def begin(self, uid: str, history: History, plan: Plan, now: datetime) -> None:
        """Nodes are paid from when they are had, data when work is let start."""
        run_time_s = plan.demand.run_time_s
        ends_at = None if run_time_s is None else now + timedelta(seconds=run_time_s)
        charge = _charge(plan.shards, plan.currency, history, now)
        self._open[uid] = replace(charge, ends_at=ends_at)

    def adopt(
        self, uid: str, history: History, placement: Mapping[str, Any], now: datetime
    ) -> None:
        """What runs already was paid until now, and for its data."""
        status = placement.get("status") or {}
        currency = str((status.get("cost") or {}).get("currency", ""))
        shards = [replace(each, once=0) for each in shards_of(placement)]
        self._open[uid] = _charge(shards, currency, history, now)

    def end(self, uid: str, now: datetime) -> None:
        charge = self._open.pop(uid, None)
        if charge is not None:
            intervals = tuple(replace(each, end=now) for each in charge.intervals)
            self.closed.append(replace(charge, intervals=intervals))

    def ceilings(self, now: datetime) -> Ceilings:
        """What was spent this month, and may be."""
        scenario = self._scenario
        if not scenario.has_budgets:
            return NO_CEILINGS
        accounts = list(self._accounts(now))
        return Ceilings(
            by_policy=spending(accounts, (), by="policy", now=now),
            by_quota=spending(accounts, (), by="team", now=now),
            budgets=scenario.budgets,
            parents=scenario.parents,
            quota_of=scenario.quota_of,
        )

    def _accounts(self, now: datetime) -> Iterator[Account]:
        month = month_of(now)
        for charge in self.closed:
            spent = tuple(each for each in charge.spent(now) if each.month == month)
            yield Account("", "", charge.quota, spent, charge.policy)
        for charge in self._open.values():
            spent = charge.spent(now)
            yield Account(
                "", "", charge.quota, spent, charge.policy, charge.intervals, charge.ends_at
            )


def _charge(
    shards: Sequence[Shard],
    currency: str,
    history: History,
    now: datetime,
) -> Charge:
    return Charge(
        quota=history.quota,
        policy=history.policy,
        class_name=history.work.class_name,
        intervals=tuple(
            Interval(each.cluster, now, None, each.per_hour if currency else None, currency)
            for each in shards
        ),
        once=tuple(
            Spent(month_of(now), each.cluster, currency, each.once)
            for each in shards
            if each.once and currency
        ),
    )
