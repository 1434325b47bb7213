"""Budgets against a plan: the last question before it is accepted.

`Ceilings` are what was spent this month and the budgets there are, at one time; `afforded` lets a
plan pass, passes it with a warning, or makes a refusal of it. `fleet.gateway.bills` reads them,
`planner` asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fleet.scheduling.cost.budget import cost_this_month, judge_all
from fleet.scheduling.cost.showback import Spending, below
from fleet.scheduling.placement import Refusal
from policies.scalars import amount_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from fleet.scheduling.placement import Plan, Shard
    from policies.parts import Budget

_NOTHING = Spending()


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What was spent this month, and is to come until its end, by policy (`namespace/name`) and by
    quota (what each counts itself); and the budgets of quotas."""

    by_policy: Mapping[str, Spending] = field(default_factory=dict)
    by_quota: Mapping[str, Spending] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    quota_of: Mapping[str, str] = field(default_factory=dict)
    """By namespace."""

    def over(
        self, *, policy: str, budget: Budget | None, namespace: str
    ) -> Iterator[tuple[str, Budget, Spending]]:
        """The budgets that work of a namespace is under, each with its owner and what is spent of
        it; `budget` is the policy's."""
        if budget is not None:
            yield f"policy {policy}", budget, self.by_policy.get(policy, _NOTHING)
        name, seen = self.quota_of.get(namespace, ""), set[str]()
        while name and name not in seen:
            if name in self.budgets:
                spent = below(name, self.by_quota, self.parents)
                yield f"quota {name}", self.budgets[name], spent
            seen.add(name)
            name = self.parents.get(name, "")

    def after(self, plan: Plan, *, policy: str, now: datetime) -> Ceilings:
        """With a plan that was accepted and is not in what was read."""
        more = added_cost(plan, now)
        if not more or not plan.currency:
            return self
        quota = self.quota_of.get(plan.demand.workload.namespace, "")
        return replace(
            self,
            by_policy=_with(self.by_policy, policy, plan.currency, more),
            by_quota=_with(self.by_quota, quota, plan.currency, more) if quota else self.by_quota,
        )


NO_CEILINGS = Ceilings()


def added_cost(plan: Plan, now: datetime) -> int | None:
    """What a plan adds until the month ends; None where it is not known."""
    added = [shard for shard in plan.shards if shard.generation == plan.generation]
    return cost_this_month(
        _sum([shard.per_hour for shard in added]),
        run_time_s=plan.demand.run_time_s,
        now=now,
        once=_sum([shard.once for shard in added]),
    )


def afforded(
    plan: Plan, ceilings: Ceilings, *, policy: str, budget: Budget | None, now: datetime
) -> Plan | Refusal:
    """The plan, if no budget is against it. It says which let it run with a warning."""
    found = list(
        ceilings.over(policy=policy, budget=budget, namespace=plan.demand.workload.namespace)
    )
    if not found:
        return plan
    judged = judge_all(found, more=added_cost(plan, now), currency=plan.currency, now=now)
    if judged.action == "Admit":
        return plan
    if judged.action == "Warn":
        return replace(plan, over_budget=judged.message)
    added = {shard.cluster: shard for shard in plan.shards if shard.generation == plan.generation}
    return Refusal(
        demand=plan.demand,
        message=judged.message,
        verdicts=tuple(
            replace(each, verdict="Unused", reason=judged.reason, message=_there(added[name]))
            if (name := each.cluster) in added
            else each
            for each in plan.verdicts
        ),
        retry_after_s=judged.retry_after_s,
        reason=judged.reason,
        final=judged.action == "Refuse" and len(added) == len(plan.shards),
    )


def _there(shard: Shard) -> str:
    cost = "" if shard.per_hour is None else f" at {amount_text(shard.per_hour)} per hour"
    return f"it would go there{cost}, if the budget let it"


def _sum(amounts: list[int | None]) -> int | None:
    known = [each for each in amounts if each is not None]
    return sum(known) if len(known) == len(amounts) else None


def _with(
    spendings: Mapping[str, Spending], name: str, currency: str, more: int
) -> dict[str, Spending]:
    before = spendings.get(name, _NOTHING)
    to_come = {**before.to_come, currency: before.to_come.get(currency, 0) + more}
    return {**spendings, name: replace(before, to_come=to_come)}
