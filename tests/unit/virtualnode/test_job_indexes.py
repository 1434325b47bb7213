"""Sets of completion indexes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtualnode.jobs.indexes import Indexes, first_pending

numbers = st.sets(st.integers(min_value=0, max_value=60))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([1, 2], "1,2"), ([0, 1, 2, 5, 7, 8], "0-2,5,7,8")],
)
def test_the_written_form_is_upstreams(indexes, text):
    assert str(Indexes.of(indexes)) == text


@given(numbers, numbers)
def test_a_set_is_what_it_was_made_of(first, second):
    whole = Indexes.of(first) | second
    assert list(whole) == sorted(first | second)
    assert len(whole) == len(first | second)
    assert all((index in whole) is (index in first | second) for index in range(61))
    assert Indexes.parse(str(whole), below=61) == whole


def test_what_is_too_high_or_corrupt_is_left_out():
    assert list(Indexes.parse("0-3,x,5-,8", below=3)) == [0, 1, 2]


@given(numbers, st.integers(0, 70), st.integers(0, 61))
def test_the_lowest_free_indexes_come_first(taken, count, below):
    found = first_pending(taken, count=count, below=below)
    free = [index for index in range(below) if index not in taken]
    assert found == free[:count]
