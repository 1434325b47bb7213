"""Gangs of two clusters that are divided between them anew, where nodes hold it."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.barter import Barter
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.tally import Tally
from fleet.scheduling.totals import Gang, Option, Row, Sort

UNIT = Sort(PodKind((("nvidia.com/gpu", 1),)), 1)
PAIR = Sort(PodKind((("nvidia.com/gpu", 2),)), 1)


def gang(units, *prices, span=1, sort=UNIT, ceiling=None, priority=0, tiers=()):
    """`prices` of a unit by cluster."""
    options = (
        Option(at, tiers[at] if tiers else 1, "", units, micro) for at, micro in enumerate(prices)
    )
    return Gang(sort, units, span, priority, units * sort.whole, tuple(options), ceiling)


def tally(gangs, rows, shares=(), seed=0):
    sorts = [UNIT, PAIR]
    found = Tally(gangs, [sorts.index(each.sort) for each in gangs], rows, chance=Random(seed))
    for at, each in enumerate(shares):
        found.put(at, each)
    return found


def rows(*limits):
    return [[Row(limit, {0: 1, 1: 2})] for limit in limits]


def everything(cluster, there):
    """Nodes hold whatever sums hold."""
    return ()


def improved(found, short=everything, kicks=40):
    Barter(found, short).improve(kicks)
    assert found.holds()
    return found


def test_the_cheap_cluster_is_filled_by_those_that_fill_it():
    gangs = [gang(units, 1, 10) for units in (6, 5, 4, 3)]
    start = [((0, 6),), ((1, 5),), ((1, 4),), ((1, 3),)]
    found = improved(tally(gangs, rows(9, 20), start), kicks=1)
    assert sum(units for each in found.shares for at, units in each if at == 0) == 9


def test_what_is_left_over_is_gathered_until_somebody_fits():
    """Two clusters of one price have 2 left each; a third is dear."""
    gangs = [gang(3, 0, 0, 9), gang(3, 0, 0, 9), gang(2, 0, 0, 9), gang(4, 0, 0, 9)]
    start = [((0, 3),), ((1, 3),), ((0, 2),), ((2, 4),)]
    found = improved(tally(gangs, rows(7, 5, 9), start))
    assert found.value()[-1] == 0


def test_a_gang_in_two_clusters_has_as_much_as_possible_in_the_cheap_one():
    found = tally([gang(8, 1, 10, span=2)], rows(6, 6), [((1, 5), (0, 3))])
    assert sorted(improved(found).shares[0]) == [(0, 6), (1, 2)]


def test_a_gang_that_came_to_be_in_one_cluster_leaves_the_other():
    found = tally([gang(8, 1, 10, span=2)], rows(9, 6), [((1, 5), (0, 3))])
    assert improved(found).shares == [((0, 8),)]


def test_nobody_goes_where_he_would_cost_more_than_he_may():
    found = tally([gang(2, None, 3, ceiling=6)], rows(2, 2), [((1, 2),)])
    assert improved(found).shares == [((1, 2),)]


def test_a_choice_that_nodes_do_not_hold_is_none():
    """Sums hold both gangs in the cheap cluster, its nodes one of them."""
    gangs = [gang(3, 1, 10), gang(4, 1, 10)]

    def one_only(cluster, there):
        return [at for at, _ in there[1:]] if cluster == 0 else ()

    found = improved(tally(gangs, rows(7, 7), [((1, 3),), ((1, 4),)]), one_only)
    assert found.shares == [((1, 3),), ((0, 4),)]


def test_who_has_no_nodes_where_he_is_finds_some_elsewhere():
    def short(cluster, there):
        return [at for at, _ in there[1:]] if cluster == 0 else ()

    gangs = [gang(3, 1, 10), gang(4, 1, 10)]
    found = improved(tally(gangs, rows(7, 7), [((0, 3),), ((0, 4),)]), short)
    assert found.value() == (-7, 2, 2, 0, 3 * 10 + 4)


def test_what_no_nodes_hold_is_left_out():
    found = tally([gang(3, 1, 10)], rows(7, 7), [((0, 3),)])
    assert improved(found, lambda cluster, there: [at for at, _ in there]).shares == [()]


def test_more_gangs_than_are_divided_at_once_are_divided_as_well():
    start = [((at % 2, 1),) for at in range(150)]
    found = improved(tally([gang(1, 1, 10) for _ in range(150)], rows(100, 80), start))
    assert found.value()[-1] == 100 + 50 * 10


@pytest.mark.parametrize("limits", [(0, 3), (5, 5), (2, 9)])
def test_an_earlier_tier_and_fewer_clusters_come_before_money(limits):
    gangs = [gang(3, 9, 1, tiers=(1, 2)), gang(2, 9, 1, span=2)]
    start = tally(gangs, rows(*limits))
    for at in range(len(gangs)):
        start.place(at)
    before = start.value()
    assert improved(start).value() <= before


_GANGS = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.sampled_from((UNIT, PAIR)),
        st.lists(st.sampled_from((None, 0, 1, 3, 8)), min_size=1, max_size=3),
        st.sampled_from((0, 0, 1)),
    ),
    min_size=1,
    max_size=5,
)
_LIMITS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=3, max_size=3)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(_GANGS, _LIMITS)
def test_of_a_few_gangs_the_best_of_all_choices_is_found(asked, limits):
    """In one cluster each; of pairs no more than the second limit, one beside the other."""
    gangs = [
        gang(units, *prices, sort=sort, priority=priority)
        for units, sort, prices, priority in asked
    ]
    there = [[Row(both, {0: 1, 1: 2}), Row(pairs, {1: 1})] for both, pairs in limits]
    start = tally(gangs, there)
    for at in range(len(gangs)):
        start.place(at)
    assert improved(start, kicks=400).value() == best_of_all(gangs, there)


def best_of_all(gangs, there):
    classes = sorted({each.priority for each in gangs}, reverse=True)
    found = []
    for choice in product(*((None, *each.options) for each in gangs)):
        chosen = [(g, o) for g, o in zip(gangs, choice, strict=True) if o is not None]
        used = [
            [
                sum(g.units * row.takes.get([UNIT, PAIR].index(g.sort), 0) for g, o in chosen
                    if o.cluster == at)
                for row in limits
            ]
            for at, limits in enumerate(there)
        ]  # fmt: skip
        if any(
            units > row.limit
            for mine, limits in zip(used, there, strict=True)
            for units, row in zip(mine, limits, strict=True)
        ):
            continue
        found.append(
            (
                *(-sum(g.weight for g, _ in chosen if g.priority == each) for each in classes),
                len(chosen),
                len(chosen),
                sum(g.units for g, o in chosen if o.micro is None),
                sum(g.units * (o.micro or 0) for g, o in chosen),
            )
        )
    return min(found)
