"""Ranks: contiguous, complete, rank 0 in shard 0, and survivors never move."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.numbering import Interval, gaps, in_order, indexes, number

NAMES = st.text("abcdefghij-", min_size=1, max_size=6)
SHARES = st.dictionaries(NAMES, st.integers(1, 20), min_size=1, max_size=6)


def ranks_of(intervals):
    return [rank for each in intervals for rank in range(each.first, each.end)]


@given(SHARES)
def test_intervals_are_disjoint_complete_and_in_the_order_of_names(shares):
    intervals = number("worker", shares)
    assert {name: each.count for name, each in intervals.items()} == shares
    in_order = [intervals[name] for name in sorted(shares)]
    assert ranks_of(in_order) == list(range(sum(shares.values())))


@given(SHARES, st.randoms(use_true_random=False))
def test_the_order_of_the_shares_changes_nothing(shares, random):
    shuffled = list(shares.items())
    random.shuffle(shuffled)
    assert number("worker", dict(shuffled)) == number("worker", shares)


@given(SHARES, st.integers(1, 8))
def test_whole_units_stay_whole(shares, unit):
    intervals = number("worker", {name: count * unit for name, count in shares.items()})
    assert all(each.first % unit == 0 and each.count % unit == 0 for each in intervals.values())


@given(SHARES, st.data())
def test_the_gaps_are_exactly_the_ranks_of_lost_shards(shares, data):
    intervals = number("worker", shares)
    lost = data.draw(st.sets(st.sampled_from(sorted(shares))))
    kept = [each for name, each in intervals.items() if name not in lost]
    missing = gaps("worker", sum(shares.values()), kept)
    assert ranks_of(missing) == sorted(ranks_of(intervals[name] for name in lost))
    # As few as possible: no two gaps touch.
    assert all(a.end < b.first for a, b in pairwise(missing))


@given(SHARES, st.data())
def test_numbers_of_shards_are_unique_kept_and_zero_goes_with_rank_zero(shares, data):
    intervals = number("worker", shares)
    firsts = {name: each.first for name, each in intervals.items()}
    before = indexes(firsts, kept={})
    assert sorted(before.values()) == list(range(len(shares)))
    assert before[min(firsts, key=lambda name: firsts[name])] == 0
    lost = data.draw(st.sets(st.sampled_from(sorted(shares))))
    # Each lost shard is replaced by one elsewhere with the same ranks.
    after = {f"{name}-again" if name in lost else name: first for name, first in firsts.items()}
    kept = {name: before[name] for name in shares if name not in lost}
    numbers = indexes(after, kept=kept)
    assert {name: numbers[name] for name in kept} == kept
    assert len(set(numbers.values())) == len(numbers)
    assert numbers[min(after, key=lambda name: after[name])] == 0


def test_a_shard_without_pods_is_an_error():
    with pytest.raises(ValueError, match="shard east of role worker has no pods"):
        number("worker", {"east": 0, "west": 3})


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param([Interval("worker", 0, 3), Interval("worker", 2, 2)], id="overlap"),
        pytest.param([Interval("worker", 4, 3)], id="beyond the end"),
        pytest.param([Interval("loader", 0, 2)], id="another role"),
    ],
)
def test_kept_intervals_that_cannot_be_are_refused(kept):
    with pytest.raises(ValueError, match="does not belong to the 6 ranks of role worker"):
        gaps("worker", 6, kept)


def test_an_interval_reads_as_people_write_it():
    assert str(Interval("worker", 4, 2)) == "4-5"
    assert str(Interval("worker", 7, 1)) == "7"


def test_the_shard_with_the_first_role_comes_first():
    roles = [("head", {"z": 1}), ("worker", {"a": 4, "z": 2, "m": 0})]
    assert in_order(roles) == ("z", "a")
    assert number("worker", {"a": 4, "z": 2}, order=in_order(roles)) == {
        "z": Interval("worker", 0, 2),
        "a": Interval("worker", 2, 4),
    }
