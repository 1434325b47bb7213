"""Elastic roles beside what stays: as much as finds room, where it is first, in whole units."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.numbering import Interval
from fleet.scheduling.placement import Plan, Refusal, Shard
from fleet.scheduling.placement import placed_anew as anew
from fleet.scheduling.views import Views

SPLIT = {"mode": "Split", "gang": {"maxClusters": 3, "unit": 2, "min": 4}}


def shard(cluster, index, first, count, **more):
    return Shard(cluster, index, 1, (Interval("worker", first, count),), **more)


def plan_of(demand, *shards):
    return Plan(demand, 1, "roce-1", shards, ())


def asked(plan, fleet, lost=(), more=None):
    return anew(plan, lost, Views(fleet, now_s=0.0), generation=2, more=more)


def spread(plan):
    assert isinstance(plan, Plan), plan
    return {s.cluster: (s.intervals[0].first, s.pods, s.generation) for s in plan.shards}


def test_it_becomes_larger_where_it_is_first(build):
    plan = plan_of(build.demand(12, SPLIT), shard("a", 0, 0, 4))
    grown = asked(plan, [build.cluster("a", 5), build.cluster("b", 8)])
    assert spread(grown) == {"a": (0, 8, 1)}
    assert grown.generation == 2
    assert grown.note == "made larger where it is: a to 8"


def test_what_is_done_becomes_no_larger(build):
    done = replace(shard("a", 0, 0, 4), done=True)
    grown = asked(
        plan_of(build.demand(8, SPLIT), done), [build.cluster("a", 8), build.cluster("b", 4)]
    )
    assert spread(grown) == {"a": (0, 4, 1), "b": (4, 4, 2)}


@pytest.mark.parametrize(("more", "count"), [(1, None), (2, 6), (3, 6), (4, 8), (None, 8)])
def test_no_more_than_it_may_have_and_whole_units(build, more, count):
    plan = plan_of(build.demand(12, SPLIT), shard("a", 0, 0, 4))
    grown = asked(plan, [build.cluster("a", 5)], more=more)
    if count is None:
        assert isinstance(grown, Refusal)
    else:
        assert spread(grown) == {"a": (0, count, 1)}


def test_ranks_that_are_not_right_behind_its_own_go_elsewhere(build):
    plan = plan_of(build.demand(8, SPLIT), shard("a", 1, 4, 4))
    grown = asked(plan, [build.cluster("a", 8), build.cluster("b", 3)])
    assert spread(grown) == {"b": (0, 2, 2), "a": (4, 4, 1)}
    assert [s.index for s in grown.shards] == [0, 1]


def test_blocks_that_it_is_bound_to_are_kept(build):
    here = build.cluster("a", [2, 8], blocks=["r0", "r1"])
    bound = plan_of(build.demand(8, SPLIT), shard("a", 0, 0, 4, within=("r0",)))
    free = plan_of(build.demand(8, SPLIT), shard("a", 0, 0, 4, within=("r0", "r1")))
    assert isinstance(asked(bound, [here]), Refusal)
    assert spread(asked(free, [here])) == {"a": (0, 8, 1)}


def test_fewer_than_it_needs_at_least_is_refused(build):
    plan = plan_of(build.demand(8, SPLIT), shard("a", 0, 0, 2), shard("b", 1, 2, 6))
    refused = asked(plan, [build.cluster("a", 1), build.cluster("c", 1)], lost={"b"})
    assert isinstance(refused, Refusal)
    enough = asked(plan, [build.cluster("a", 0), build.cluster("c", 2)], lost={"b"})
    assert spread(enough) == {"a": (0, 2, 1), "c": (2, 2, 2)}


def test_a_ceiling_counts_what_it_costs_already(build):
    dear = {**SPLIT, "objective": {"maxPrice": "5 USD/h"}}
    prices = build.prices({"cluster": "a", "per": "Accelerator", "perHour": "1"})
    plan = plan_of(build.demand(8, dear), shard("a", 0, 0, 4, per_hour=4_000_000))
    views = Views([build.cluster("a", 8)], prices=prices, now_s=0.0)
    assert isinstance(anew(plan, (), views, generation=2), Refusal)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=3, max_size=3),
    st.integers(0, 2),
    st.sampled_from([4, 6, 8]),
    st.sampled_from([None, 2, 4, 6]),
)
def test_what_stays_keeps_its_ranks_and_nothing_is_cut_through(build, rooms, lost, least, more):
    gang = {**SPLIT["gang"], "min": least}
    demand = build.demand(12, {"mode": "Split", "gang": gang})
    plan = plan_of(demand, shard("a", 0, 0, 4), shard("b", 1, 4, 4), shard("c", 2, 8, 2))
    gone = {"abc"[lost]}
    fleet = [build.cluster(name, room) for name, room in zip("abc", rooms, strict=True)]
    found = asked(plan, fleet, gone, more)
    if isinstance(found, Refusal):
        return
    for before in plan.shards:
        if before.cluster not in gone:
            now = found.shard(before.cluster)
            assert now.intervals[0].first == before.intervals[0].first
            assert now.pods >= before.pods
            assert now.generation == 1
    ranks = [r for s in found.shards for i in s.intervals for r in range(i.first, i.end)]
    assert len(ranks) == len({*ranks})
    assert max(ranks) < 12
    assert least <= len(ranks)
    assert all(i.first % 2 == i.count % 2 == 0 for s in found.shards for i in s.intervals)
    kept = sum(s.pods for s in plan.shards if s.cluster not in gone)
    assert more is None or len(ranks) - kept <= more
    stayed = {s.cluster: s.pods for s in plan.shards if s.cluster not in gone}
    for each in found.shards:
        assert each.pods - stayed.get(each.cluster, 0) <= rooms["abc".index(each.cluster)]
