"""How far a decision about one gang is from the best there is, with everything else as it is.

The optimum is proven level by level; what was decided is valued by the same model with the choice
held, so that both are counted alike. What the model does not know of – data that is paid for once –
is not compared at all. Next step: `fleet plan --exact` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from fleet.scheduling.exact.gang import Infeasible, Objective, Optimum, Unproven, solve
from fleet.scheduling.exact.question import question_of
from fleet.scheduling.exact.solver import Limits
from fleet.scheduling.placement import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.exact.gang import Answer
    from fleet.scheduling.exact.question import Question
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.price import Prices

Word = Literal["Optimal", "Worse", "Infeasible", "Possible", "Unproven", "NotCompared"]

FOR_PEOPLE: Final = Limits(work=5.0, time_limit_s=10.0)
"""Somebody waits for the answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`Optimal`: proven that nothing is better. `Worse`: something is, by `gap` on `level`.
    `Infeasible`: proven that there is no place. `Possible`: there is one, although none was found.
    `Unproven`: on `level` nothing is below `bound`; more is not known. `NotCompared`: see `why`.
    """

    word: Word
    reached: Objective | None = None
    """What was decided."""
    best: Optimum | None = None
    level: str = ""
    """The first on which the two differ, or that is not proven."""
    gap: float = 0.0
    """Relative difference there."""
    bound: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is to be compared: values of its own, so that it may be solved in another thread."""

    question: Question | None
    shares: Mapping[tuple[str, str, str], int] | None = None
    """What was decided; None where no place was found."""
    why_not: str = ""

    def verdict(self, limits: Limits = FOR_PEOPLE) -> Verdict:
        """Raises ConfigError where OR-tools is not installed."""
        if self.question is None:
            return Verdict("NotCompared", why=self.why_not)
        best = solve(self.question, limits=limits)
        if self.shares is None:
            return _of_refusal(best)
        worth = solve(self.question, limits=limits, shares=self.shares)
        if isinstance(worth, Unproven):
            return Verdict("NotCompared", why="the time was too short to value what was chosen")
        if isinstance(worth, Infeasible):
            return Verdict("NotCompared", why="the exact model has no such place as was chosen")
        return _of_plan(best, worth.objective)


def comparison_of(
    asked: Asked,
    decision: Plan | Refusal,
    clusters: Iterable[Cluster],
    prices: Prices,
    *,
    now: datetime,
    now_s: float,
) -> Comparison:
    """`clusters` have deducted what all others have."""
    demand = decision.demand if isinstance(decision, Plan) else asked.demand
    if demand.policy.data:
        return Comparison(None, why_not="what its data costs is not in the exact model")
    if not isinstance(decision, Plan) and decision.reason:
        return Comparison(None, why_not="what is in its way is no want of room")
    everywhere, _ = asked.extensions.applied(demand, clusters)
    question = question_of(
        demand,
        [c for c in everywhere if not c.filtered_because and c.name not in asked.barred],
        now_s=now_s,
        prices=prices.seen_by(demand),
        waited_s=max(0.0, (now - asked.queued_at).total_seconds()),
    )
    return Comparison(question, shares_of(decision) if isinstance(decision, Plan) else None)


def _of_refusal(best: Answer) -> Verdict:
    match best:
        case Optimum():
            return Verdict("Possible", best=best)
        case Unproven(level, bound, found):
            if found is not None:
                return Verdict("Possible", best=found, level=level, bound=bound)
            return Verdict("Unproven", level=level, bound=bound)
    return Verdict("Infeasible")


def _of_plan(best: Answer, reached: Objective) -> Verdict:
    match best:
        case Infeasible():
            return Verdict("NotCompared", reached, why="the exact model finds no place at all")
        case Unproven(level, bound, found):
            better = found if found is not None and found.objective < reached else None
            value = int(getattr(reached, level))
            if better is None:
                return Verdict("Unproven", reached, level=level, bound=bound,
                               gap=_gap(value, bound))  # fmt: skip
            best = better
        case Optimum(objective) if objective == reached:
            return Verdict("Optimal", reached, best)
    level = next(
        name
        for name, ours, theirs in zip(Objective._fields, reached, best.objective, strict=True)
        if ours != theirs
    )
    ours, theirs = int(getattr(reached, level)), int(getattr(best.objective, level))
    return Verdict("Worse", reached, best, level, _gap(ours, theirs))


def _gap(ours: int, theirs: int) -> float:
    return (ours - theirs) / max(1, abs(ours), abs(theirs))


def shares_of(plan: Plan) -> dict[tuple[str, str, str], int]:
    """Pods of a plan by (role, cluster, block)."""
    found: dict[tuple[str, str, str], int] = {}
    for shard in plan.shards:
        by_role = shard.by_role or ((plan.demand.roles[0].name, shard.blocks),)
        for role, blocks in by_role:
            for block, pods in blocks:
                key = role, shard.cluster, block
                found[key] = found.get(key, 0) + pods
    return found
