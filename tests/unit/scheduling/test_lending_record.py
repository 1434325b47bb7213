"""A loan as its Placement tells it: the same loan again, and never a shorter one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.lending.loans import Loan
from fleet.scheduling.lending.record import (
    ends_words,
    loan_of,
    recalled_words,
    returned_to,
    words,
    written,
)
from fleet.scheduling.quota.tree import Key
from policies import PLACEMENT

KEYS = st.sampled_from([
    Key("nvidia.com/gpu", "h200"), Key("cpu"), Key("memory"), Key("pods"),
])  # fmt: skip
TIMES = st.floats(1_700_000_000, 1_900_000_000)
LOAN = Loan(
    "u", "night", "serving", "nlp", {Key("nvidia.com/gpu", "h200"): 8}, since_s=1795910400,
    until_s=1795924800, notice_s=300,
)  # fmt: skip
RECALLED = replace(LOAN, recalled_s=1795911000, ends_s=1795911300, why="serving needs it")


@st.composite
def loans(draw: st.DrawFn) -> Loan:
    since_s = draw(TIMES)
    amounts = draw(st.dictionaries(KEYS, st.integers(1, 10**9), min_size=1))
    made = Loan(
        "u", "night", "serving", "nlp", amounts,
        since_s=since_s, until_s=since_s + draw(st.floats(0, 10**6)),
        notice_s=draw(st.integers(0, 86400)), renewals=draw(st.integers(0, 9)),
    )  # fmt: skip
    if draw(st.booleans()):
        at_s = since_s + draw(st.floats(0, 10**5))
        return replace(made, recalled_s=at_s, ends_s=at_s + made.notice_s, why="why")
    return made


def status(loan: Loan, **more: Any) -> dict[str, Any]:
    return {"phase": "Running", "shards": [{"cluster": "east"}], "loan": written(loan), **more}


@given(loans())
def test_what_is_read_again_is_the_loan_and_gives_no_less(loan: Loan) -> None:
    again = loan_of(status(loan), "u")
    assert again is not None
    assert loan_of(status(again), "u") == again
    assert (again.amounts, again.renewals, again.recalled) == (
        loan.amounts, loan.renewals, loan.recalled,
    )  # fmt: skip
    assert loan.since_s - 1 < again.since_s <= loan.since_s
    assert loan.until_s <= again.until_s < loan.until_s + 1
    if loan.ends_s is not None:
        assert again.ends_s is not None
        assert again.recalled_s is not None
        assert loan.ends_s <= again.ends_s < loan.ends_s + 1
        assert again.ends_s - again.recalled_s >= loan.notice_s


def test_the_kind_takes_what_is_written() -> None:
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    told = {"loan": written(RECALLED), "preemptedFor": returned_to(RECALLED, uid="")}
    PLACEMENT.parse({"spec": {"workload": workload}, "status": told})


@pytest.mark.parametrize(
    ("more", "ending"),
    [
        ({}, False),
        ({"preemptedFor": returned_to(RECALLED, uid="")}, True),
        ({"shards": []}, True),
        ({"phase": "Failed"}, True),
    ],
)
def test_nothing_more_is_said_to_what_goes_already(more: dict[str, Any], ending: bool) -> None:
    loan = loan_of(status(LOAN, **more), "u")
    assert loan is not None
    assert loan.ending is ending
    assert loan_of({"phase": "Running"}, "u") is None


def test_in_words() -> None:
    assert words(LOAN) == ("8 nvidia.com/gpu (h200) of serving, on loan until 2026-11-29T04:00:00Z")
    told = "the loan of 8 nvidia.com/gpu (h200) of serving was called back at 2026-11-29T00:10:00Z"
    assert recalled_words(RECALLED) == f"{told}: serving needs it"
    assert ends_words(RECALLED) == (
        f"{told}: serving needs it; save what is to be kept, it is ended at 2026-11-29T00:15:00Z"
    )
