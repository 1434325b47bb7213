"""Whether work may spend more: what was spent this month, what runs will, and what it would itself.

A budget is a ceiling for a calendar month. Work that costs nothing is never stopped by one. What
cannot be compared – a price that is not known, or in another currency – is treated as too much,
since guessing either way would be the fleet's fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from fleet.scheduling.cost.intervals import next_month
from policies.scalars import amount_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from fleet.scheduling.cost.showback import Spending
    from policies.parts import Budget

Action = Literal["Admit", "Warn", "Queue", "Refuse"]
_ORDER: Final[tuple[Action, ...]] = ("Admit", "Warn", "Queue", "Refuse")
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of the work. `retry_after_s` is when a month begins in which it may be asked
    again; only for what waits."""

    action: Action = "Admit"
    reason: Literal["", "BudgetSpent", "PriceUnknown", "OtherCurrency"] = ""
    message: str = ""
    retry_after_s: float | None = None


def cost_this_month(
    per_hour: int | None, *, run_time_s: float | None, now: datetime, once: int | None = 0
) -> int | None:
    """What work would cost until the month ends, or it does; `once` is paid for moving its data.

    None where a part is not known. A run time that is not known is taken to last.
    """
    if per_hour is None or once is None:
        return None
    rest_s = (next_month(now) - now).total_seconds()
    seconds = rest_s if run_time_s is None else min(rest_s, run_time_s)
    return once + -(-per_hour * round(seconds * 1000) // (_HOUR_S * 1000))


def judge(
    budget: Budget,
    *,
    owner: str,
    spending: Spending,
    more: int | None,
    currency: str,
    now: datetime,
) -> Judgement:
    """Whether work that costs `more` in `currency` this month may start.

    `owner` is whose budget it is, as people know it: `quota research`, `policy nlp/big`.
    """
    if more == 0:
        return Judgement()
    ceiling = budget.per_month
    if more is None:
        return _above(
            budget, "PriceUnknown", f"the budget of {owner} is {ceiling} a month, and what this "
            "would cost is not known: a PriceBook has to tell it", now,
        )  # fmt: skip
    if currency != ceiling.currency:
        return _above(
            budget, "OtherCurrency", f"the budget of {owner} is in {ceiling.currency}, and prices "
            f"are in {currency or 'none'}: nothing is converted", now,
        )  # fmt: skip
    others = sorted(
        other
        for other, micro in {**spending.spent, **spending.to_come}.items()
        if micro and other != currency
    )
    if others:
        return _above(
            budget, "OtherCurrency", f"the budget of {owner} is in {ceiling.currency}, and it has "
            f"spent {', '.join(others)} as well: nothing is converted", now,
        )  # fmt: skip
    spent, to_come = spending.spent.get(currency, 0), spending.to_come.get(currency, 0)
    if spent + to_come + more <= ceiling.micro:
        return Judgement()
    message = (
        f"{amount_text(more)} {currency} more would go above the budget of {owner}, {ceiling} a "
        f"month: {amount_text(spent)} are spent, {amount_text(to_come)} to come for what runs"
    )
    if spending.unpriced:
        message += ", and some ran without a known price"
    return _above(budget, "BudgetSpent", message, now)


def judge_all(
    budgets: Iterable[tuple[str, Budget, Spending]],
    *,
    more: int | None,
    currency: str,
    now: datetime,
) -> Judgement:
    """Whether work may start under all budgets that apply to it – that of its policy, and those of
    its quota and all above – each with its owner and what was spent of it."""
    return strictest(
        judge(budget, owner=owner, spending=spending, more=more, currency=currency, now=now)
        for owner, budget, spending in budgets
    )


def strictest(judgements: Iterable[Judgement]) -> Judgement:
    """What counts where several budgets apply; of equally strict ones the first."""
    return max(judgements, key=lambda each: _ORDER.index(each.action), default=Judgement())


def _above(
    budget: Budget,
    reason: Literal["BudgetSpent", "PriceUnknown", "OtherCurrency"],
    message: str,
    now: datetime,
) -> Judgement:
    wait: timedelta | None = None
    if budget.when_spent == "Queue" and reason == "BudgetSpent":
        wait = next_month(now) - now
    return Judgement(
        budget.when_spent, reason, message, None if wait is None else wait.total_seconds()
    )
