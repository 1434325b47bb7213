"""Some of the seeded instances of the placement bench, so that quality is not lost between runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import placement_instances
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from placement_exact import FAMILIES, compare, place_all, summary

from fleet.scheduling.exact import batch as exact_batch
from fleet.scheduling.exact.batch import Gap, Level, Share, gap, levels
from fleet.scheduling.exact.gang import solve
from fleet.scheduling.exact.programs import Relaxed, Whole
from fleet.scheduling.exact.question import question_of
from fleet.scheduling.exact.solver import Limits
from fleet.scheduling.placement import Plan, place

SOME = range(24)


def test_the_instances_are_of_all_families_and_always_the_same():
    assert placement_instances.COUNT >= 500
    families = Counter(
        family
        for number in range(placement_instances.COUNT)
        for family in placement_instances.families_of(number)
    )
    assert all(families[family] >= 0.3 * placement_instances.COUNT for family in FAMILIES)
    for number in (4, 5, 6, 7):
        made, again = (placement_instances.instance(number) for _ in range(2))
        assert (made.demand, made.victims) == (again.demand, again.victims)
        assert [each.capacity.nodes for each in made.clusters] == [
            each.capacity.nodes for each in again.clusters
        ]
        assert made.in_use > 0.9
    assert any(placement_instances.instance(number).victims for number in (2, 3, 6, 7))


def test_gangs_are_placed_as_well_as_they_can_be():
    told = summary(compare(placement_instances.instance(number)) for number in SOME)
    assert told["refused_feasible"] == 0
    assert told["exact_equal_share"] >= 0.95
    assert told["mean_gap"] <= 0.01


@pytest.mark.parametrize("number", [3, 5, 6])
def test_the_order_of_the_clusters_does_not_matter(number):
    one = placement_instances.instance(number)
    asked = {"victims": one.victims, **one.question}
    there, back = (
        solve(question_of(one.demand, clusters, **asked), ties=True)
        for clusters in (one.clusters, one.clusters[::-1])
    )
    assert there == back


# -- batches


@pytest.fixture(scope="module")
def batch():
    return placement_instances.batch(1, gangs=10, clusters=4, asked=1.0)


def bound_of(batch, placed, clusters=None):
    return gap(
        batch.demands,
        placed,
        clusters or batch.clusters,
        now_s=0.0,
        prices=batch.prices,
        limits=Limits(work=1.0),
    )


def test_what_was_placed_is_never_better_than_the_bound(batch):
    placed = place_all(batch)
    found = bound_of(batch, placed)
    reached = dict(levels(batch.demands, placed))[found.level]
    assert found.reached == reached
    if found.level.startswith("admitted"):
        assert found.bound >= reached
    else:
        assert found.bound <= reached


def test_a_gang_left_out_is_a_gap_on_the_level_of_its_class(batch):
    placed = place_all(batch)
    at = max(placed, key=lambda each: batch.demands[each].priority)
    del placed[at]
    found = bound_of(batch, placed)
    assert found.level == f"admitted {batch.demands[at].priority}"
    assert found.bound >= found.reached + exact_batch.weight(batch.demands[at])


def test_a_batch_that_has_no_better_has_no_gap(batch):
    """One gang alone, placed as the exact reference would."""
    one = replace(batch, demands=batch.demands[:1])
    assert bound_of(one, place_all(one)).relative == 0


def test_nothing_is_reached_where_nothing_is_free(batch):
    full = [replace(each, cordoned=True) for each in batch.clusters]
    assert bound_of(batch, {}, full).relative == 0


def test_a_gap_is_relative_to_the_larger():
    assert Gap("clusters", 110, 100).relative == pytest.approx(10 / 110)
    assert Gap("admitted 1", 90, 100).relative == pytest.approx(0.1)
    assert Share("a", 1, 1, None).micro is None


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(100, 200), st.integers(0, 6), st.sampled_from((0.7, 1.0, 1.3)))
def test_a_relaxed_program_bounds_what_the_whole_one_proves(number, whole, asked):
    """Level by level, each held at its optimum while the next is bounded."""
    made = placement_instances.batch(number, gangs=6, clusters=3, asked=asked)
    questions = [
        question_of(each, made.clusters, now_s=0.0, prices=made.prices) for each in made.demands
    ]
    exact, relaxed = (
        exact_batch.Model(made.demands, questions, made.clusters, program)
        for program in (Whole(), Relaxed([*map(exact_batch.weight, made.demands)], whole=whole))
    )
    limits = Limits(work=5.0)
    for level in levels(made.demands, {}):
        best = exact.bound(level, limits)
        bound = relaxed.bound(level, limits)
        assert best is not None and bound is not None
        assert bound >= best if level.most else bound <= best
        for program in (exact, relaxed):
            program.keep(Level(level.name, best))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=4), min_size=1, max_size=2),
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
        min_size=1,
        max_size=3,
    ),
)
@example([[3]], [(3, 1, 1, 1), (2, 1, 1, 1)])
@example([[3, 3]], [(1, 3, 2, 1), (1, 2, 1, 1)])
def test_no_order_of_placing_beats_the_bound(build, fleet, gangs):
    """Pods and units of sizes that do not divide each other among them."""
    clusters = [
        build.cluster(f"c{at}", sizes, blocks=[f"b{n // 2}" for n in range(len(sizes))])
        for at, sizes in enumerate(fleet)
    ]
    demands = [
        replace(
            build.demand(
                unit * units,
                {"mode": "Split", "gang": {"unit": unit}},
                name=f"g{at}",
                requests={"nvidia.com/gpu": str(gpus)},
            ),
            priority=priority,
        )
        for at, (gpus, unit, units, priority) in enumerate(gangs)
    ]
    for order in permutations(range(len(demands))):
        left = {each.name: each for each in clusters}
        placed = {}
        for at in order:
            plan = place(demands[at], left.values(), generation=1, now_s=0.0)
            if not isinstance(plan, Plan):
                continue
            placed[at] = [
                Share(each.cluster, each.tier, each.pods, each.per_hour) for each in plan.shards
            ]
            for shard in plan.shards:
                there = left[shard.cluster]
                capacity = there.capacity.without(
                    demands[at].role.kind, shard.pods, blocks=dict(shard.blocks)
                )
                left[shard.cluster] = replace(there, capacity=capacity)
        found = gap(demands, placed, clusters, now_s=0.0, limits=Limits(work=1.0))
        if found.level.startswith("admitted"):
            assert found.bound >= found.reached
        else:
            assert found.bound <= found.reached
