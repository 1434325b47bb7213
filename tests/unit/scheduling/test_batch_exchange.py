"""Gangs that change places over sums, and units that find their blocks."""

from __future__ import annotations

from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.exchange import Exchange
from fleet.scheduling.stowage import Lot, Stowage
from fleet.scheduling.tally import Tally
from fleet.scheduling.totals import Gang, Option, Row, Sort, rows_of

GPU = "nvidia.com/gpu"


def sort(gpus=1, pods=1):
    return Sort(PodKind(((GPU, gpus),)), pods)


def gang(units, *options, span=1, priority=0, ceiling=None):
    """Options are (cluster, tier, domain, micro) of a unit."""
    return Gang(
        sort=sort(),
        units=units,
        span=span,
        priority=priority,
        weight=units,
        options=tuple(
            Option(at, tier, domain, units, micro) for at, tier, domain, micro in options
        ),
        ceiling=ceiling,
    )


def tally(gangs, limits, *, seed=0):
    rows = [[Row(limit, {0: 1})] for limit in limits]
    return Tally(gangs, [0] * len(gangs), rows, chance=Random(seed))


def best_of_all(gangs, limits):
    """All choices of clusters for gangs of one cluster each: the least value there is."""
    classes = sorted({each.priority for each in gangs}, reverse=True)
    found = []
    for choice in product(*((None, *each.options) for each in gangs)):
        used = [0] * len(limits)
        for each, option in zip(gangs, choice, strict=True):
            if option is not None:
                used[option.cluster] += each.units
        if any(map(int.__gt__, used, limits)):
            continue
        there = [(g, o) for g, o in zip(gangs, choice, strict=True) if o is not None]
        found.append(
            (
                *(-sum(g.weight for g, _ in there if g.priority == each) for each in classes),
                sum(o.tier for _, o in there),
                len(there),
                sum(g.units for g, o in there if o.micro is None),
                sum(g.units * (o.micro or 0) for g, o in there),
            )
        )
    return min(found)


def improved(gangs, limits, *, rounds=600):
    found = tally(gangs, limits)
    for at in range(len(gangs)):
        found.place(at)
    Exchange(found).improve(rounds)
    assert found.holds()
    return found


def test_a_small_one_makes_way_for_a_large_one():
    gangs = [gang(2, (0, 1, "", 0), (1, 1, "", 0)), gang(5, (1, 1, "", 0))]
    found = tally(gangs, [2, 6])
    found.put(0, ((1, 2),))
    Exchange(found).improve(50)
    assert found.shares == [((0, 2),), ((1, 5),)]


def test_many_small_ones_have_an_early_tier_rather_than_a_large_one():
    ways = (0, 1, "", 0), (1, 2, "", 0)
    found = improved([gang(6, *ways), gang(3, *ways), gang(3, *ways)], [6, 6])
    assert found.shares == [((1, 6),), ((0, 3),), ((0, 3),)]


def test_who_does_not_mind_leaves_the_early_tier_to_those_who_do():
    found = improved(
        [
            gang(4, (0, 1, "", 0), (1, 1, "", 9)),
            gang(4, (0, 1, "", 0), (1, 2, "", 9)),
        ],
        [4, 4],
    )
    assert found.shares == [((1, 4),), ((0, 4),)]


def test_two_change_places_for_the_sake_of_money():
    ways = (0, 1, "", 1), (1, 1, "", 10)
    found = tally([gang(3, *ways), gang(4, *ways)], [4, 4])
    found.put(0, ((0, 3),))
    found.put(1, ((1, 4),))
    Exchange(found).improve(100)
    assert found.shares == [((1, 3),), ((0, 4),)]


def test_the_more_important_gang_puts_the_larger_one_out():
    gangs = [gang(9, (0, 1, "", 0)), gang(2, (0, 1, "", 0), priority=5)]
    assert improved(gangs, [9]).shares == [(), ((0, 2),)]


def test_a_gang_spans_clusters_of_one_network_only():
    options = (0, 1, "a", 0), (1, 1, "a", 0), (2, 1, "b", 0)
    assert improved([gang(5, *options, span=2)], [3, 2, 4]).shares == [((1, 2), (0, 3))]
    assert improved([gang(6, *options, span=2)], [3, 2, 4]).shares == [()]


def test_a_gang_keeps_below_its_ceiling():
    ways = (0, 1, "", 1), (1, 1, "", 10)
    assert improved([gang(3, *ways, ceiling=9)], [0, 3]).shares == [()]


_GANGS = st.lists(
    st.builds(
        lambda units, ways, priority: gang(
            units, *((at, *way) for at, way in enumerate(ways)), priority=priority
        ),
        st.integers(1, 6),
        st.lists(
            st.tuples(st.integers(1, 2), st.just(""), st.sampled_from((None, 0, 2, 5))),
            min_size=1,
            max_size=3,
        ),
        st.sampled_from((0, 0, 1)),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(_GANGS, st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_of_a_few_gangs_the_best_of_all_choices_is_found(gangs, limits):
    assert improved(gangs, limits, rounds=1500).value() == best_of_all(gangs, limits)


def test_larger_pods_and_larger_units_are_limited_by_what_nodes_and_blocks_hold(build):
    capacity = build.cluster("a", [4, 4, 2], blocks=["x", "y", "y"]).capacity
    sorts = [sort(1), sort(4), sort(2, 4)]
    limits = {
        (row.limit, tuple(sorted(row.takes)))
        for row in rows_of(capacity, sorts, [99, 99, 99])
        if row.takes.get(0, 1) == 1
    }
    assert (10, (0, 1, 2)) in limits
    assert (8, (1, 2)) in limits
    # Pods of 2, four of a unit: 8 are not found in a block of 4 or 6.
    assert (0, (2,)) in limits


def stowed(capacity, *lots):
    """Lots are (sort, units, what a unit costs by block)."""
    sorts = list(dict.fromkeys(each for each, _, _ in lots))
    asked = [Lot(sorts.index(each), units, slopes) for each, units, slopes in lots]
    return Stowage(capacity, sorts).stow(asked, chance=Random(0))


def test_units_leave_room_in_blocks_for_those_that_need_all_of_one(build):
    """A small pod in the block of three nodes would leave no room for the unit of three."""
    capacity = build.cluster("a", [4, 4, 4, 4], blocks=["x", "x", "x", "y"]).capacity
    every = {"x": 0, "y": 0}
    found = stowed(capacity, (sort(2), 2, every), (sort(4, 3), 1, every))
    assert found.blocks == ({"y": 2}, {"x": 1})
    assert found.left == (0, 0)


def test_what_finds_no_block_is_told(build):
    capacity = build.cluster("a", [4, 4], blocks=["x", "y"]).capacity
    assert stowed(capacity, (sort(4, 2), 1, {"x": 0, "y": 0})).left == (1,)


def test_cheap_blocks_are_used_first(build):
    capacity = build.cluster("a", [4, 4], blocks=["x", "y"]).capacity
    assert stowed(capacity, (sort(1), 5, {"x": 7, "y": 2})).blocks == ({"y": 4, "x": 1},)


def test_what_was_learnt_of_blocks_changes_no_answer(build):
    capacity = build.cluster("a", [4, 4, 2], blocks=["x", "x", "y"]).capacity
    every = {"x": 0, "y": 0}
    stowage = Stowage(capacity, [sort(1), sort(4)])
    for _ in range(3):
        found = stowage.stow([Lot(1, 2, every), Lot(0, 2, every)], chance=Random(0))
        assert found.blocks == ({"x": 2}, {"y": 2})
        assert stowage.stow([Lot(0, 11, every)], chance=Random(0)).left == (1,)
