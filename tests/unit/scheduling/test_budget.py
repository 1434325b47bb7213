"""Budgets: the ceiling with what runs and what comes, what is not known, currencies."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fleet.scheduling.cost.budget import (
    Judgement,
    cost_this_month,
    judge,
    judge_all,
    strictest,
)
from fleet.scheduling.cost.showback import Spending
from policies.parts import Budget

NOW = datetime(2026, 11, 30, 20, tzinfo=UTC)  # four hours before the month ends
M = 10**6


def budget(per_month="100 USD", when="Queue"):
    return Budget.model_validate({"perMonth": per_month, "whenSpent": when})


def ask(more, *, spent=0, to_come=0, currency="USD", when="Queue", **others):
    return judge(
        budget(when=when),
        owner="quota research",
        spending=Spending({"USD": spent, **others}, {"USD": to_come}),
        more=more,
        currency=currency,
        now=NOW,
    )


@pytest.mark.parametrize("when", ["Queue", "Refuse", "Warn"])
@pytest.mark.parametrize(
    ("spent", "to_come", "more", "enough"),
    [
        (0, 0, 100 * M, True),
        (0, 0, 100 * M + 1, False),
        (60 * M, 30 * M, 10 * M, True),
        (60 * M, 30 * M, 10 * M + 1, False),
        (100 * M, 0, 1, False),
        (500 * M, 0, 0, True),
    ],
)
def test_the_ceiling_counts_what_was_spent_and_what_is_to_come(when, spent, to_come, more, enough):
    found = ask(more, spent=spent, to_come=to_come, when=when)
    assert found.action == ("Admit" if enough else when)
    assert found.reason == ("" if enough else "BudgetSpent")


def test_what_waits_waits_for_the_next_month():
    assert ask(200 * M).retry_after_s == 4 * 3600
    assert ask(200 * M, when="Refuse").retry_after_s is None


def test_the_message_says_how_much_of_what():
    found = ask(10 * M, spent=60 * M, to_come=31 * M)
    assert found.message == (
        "10 USD more would go above the budget of quota research, 100 USD a month: 60 are spent, "
        "31 to come for what runs"
    )


@pytest.mark.parametrize("when", ["Queue", "Refuse", "Warn"])
def test_what_cannot_be_compared_is_too_much_but_nothing_is_converted(when):
    unknown = ask(None, when=when)
    assert (unknown.action, unknown.reason) == (when, "PriceUnknown")
    other = ask(1, currency="EUR", when=when)
    assert (other.action, other.reason) == (when, "OtherCurrency")
    assert "nothing is converted" in other.message
    before = ask(1, EUR=5, when=when)
    assert (before.action, before.reason) == (when, "OtherCurrency")


def test_what_costs_nothing_is_never_stopped():
    assert ask(0, spent=10**12, EUR=5, currency="") == Judgement()


def test_the_strictest_of_several_counts():
    found = [Judgement(action) for action in ("Warn", "Refuse", "Queue", "Admit")]
    assert strictest(found).action == "Refuse"
    assert strictest([]) == Judgement()


def test_every_budget_that_applies_is_asked():
    found = judge_all(
        [
            ("quota nlp", budget("9 USD", "Queue"), Spending()),
            ("quota research", budget("8 USD", "Refuse"), Spending()),
            ("policy nlp/big", budget("100 USD"), Spending()),
        ],
        more=10 * M,
        currency="USD",
        now=NOW,
    )
    assert (found.action, "quota research" in found.message) == ("Refuse", True)
    assert judge_all([], more=None, currency="", now=NOW) == Judgement()


@pytest.mark.parametrize(
    ("per_hour", "run_time_s", "once", "micro"),
    [
        (M, None, 0, 4 * M),
        (M, 3600, 0, M),
        (M, 99 * 3600, 0, 4 * M),
        (M, 1800, 7, M // 2 + 7),
        (None, 3600, 0, None),
        (M, 3600, None, None),
        (0, None, 0, 0),
        (1, 1, 0, 1),
    ],
)
def test_what_work_costs_until_the_month_ends(per_hour, run_time_s, once, micro):
    assert cost_this_month(per_hour, run_time_s=run_time_s, now=NOW, once=once) == micro
