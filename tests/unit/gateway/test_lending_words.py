"""What work is told about its loan."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fleet.gateway.lending import told
from fleet.scheduling.lending.loans import Loan, Settle
from fleet.scheduling.quota.tree import Key

LOAN = Loan(
    "uid", "night", "serving", "research", {Key("nvidia.com/gpu"): 8},
    since_s=0, until_s=100, notice_s=10,
)  # fmt: skip


@pytest.mark.parametrize(
    ("covered", "words"),
    [
        (True, "quota research covers what was on loan from serving: it goes on"),
        (
            False,
            "no LendingPolicy lends for serving any more: it goes on, and what was on loan is "
            "borrowed without a term, as quotas allow",
        ),
    ],
)
def test_why_a_loan_is_none_any_more_is_told(covered: bool, words: str) -> None:
    step = told(Settle(LOAN, covered=covered), ("research", "guest"), cast("Any", None))
    assert step.said.reason == "LoanSettled"
    assert step.said.message == words
