"""A few clusters of a batch dealt out anew by CP-SAT: never worse, and where nodes hold it."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.batch import place_batch
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.exact.neighbourhood import Neighbourhoods
from fleet.scheduling.exact.solver import Limits
from fleet.scheduling.tally import Tally
from fleet.scheduling.totals import Gang, Option, Row, Sort

UNIT = Sort(PodKind((("nvidia.com/gpu", 1),)), 1)
PAIR = Sort(PodKind((("nvidia.com/gpu", 2),)), 1)
SORTS = [UNIT, PAIR]


def gang(units, *prices, span=1, sort=UNIT, ceiling=None, priority=0, tiers=(), networks=()):
    """`prices` of a unit by cluster; None: not known."""
    options = (
        Option(
            at,
            tiers[at] if tiers else 1,
            networks[at] if networks else "",
            units,
            micro,
        )
        for at, micro in enumerate(prices)
    )
    return Gang(sort, units, span, priority, units * sort.whole, tuple(options), ceiling)


def tally(gangs, limits, shares=(), seed=0):
    rows = [[Row(limit, {0: 1, 1: 2})] for limit in limits]
    found = Tally(gangs, [SORTS.index(each.sort) for each in gangs], rows, chance=Random(seed))
    for at, each in enumerate(shares):
        found.put(at, each)
    return found


def everything(cluster, there):
    """Nodes hold whatever sums hold."""
    return ()


def improved(found, short=everything, blocks=None, work=0.3):
    before = found.value()
    blocks = [[[100]] for _ in found.rows] if blocks is None else blocks
    Neighbourhoods(Limits(work=work)).improve(found, short, blocks)
    assert found.holds()
    assert found.value() <= before
    return found


def best(found):
    """Of all ways to put each gang whole into one cluster, or nowhere."""
    start, values = list(found.shares), []
    every = [
        [(), *(((c, g.units),) for c in found.options[at] if found.options[at][c].most >= g.units)]
        for at, g in enumerate(found.gangs)
    ]
    for choice in product(*every):
        found.restore(choice)
        if found.holds() and all(found.allowed(at, s) for at, s in enumerate(choice) if s):
            values.append(found.value())
    found.restore(start)
    return min(values)


def test_the_cheap_cluster_is_filled_by_those_that_fill_it():
    gangs = [gang(units, 1, 10) for units in (6, 5, 4, 3)]
    start = [((0, 6),), ((1, 5),), ((1, 4),), ((1, 3),)]
    found = improved(tally(gangs, (9, 20), start))
    assert sum(units for each in found.shares for at, units in each if at == 0) == 9


def test_who_matters_more_comes_in_and_less_is_paid_after_that():
    gangs = [gang(4, 1, 5), gang(6, 1, 5, priority=1), gang(3, 1, 5)]
    found = improved(tally(gangs, (6, 4), [((0, 4),), (), ((1, 3),)]))
    assert found.value() == (-6, -4, 2, 2, 0, 26)


def test_a_gang_is_divided_within_one_network_and_no_further_than_it_may_be():
    networks = ("a", "a", "b", "b")
    gangs = [gang(6, 1, 1, 1, 1, span=2, networks=networks), gang(3, 1, 1, 1, 1)]
    found = improved(tally(gangs, (4, 2, 4, 1), [(), ((0, 3),)]))
    assert sorted(found.shares[0]) == [(0, 4), (1, 2)]
    assert found.shares[1] == ((2, 3),)


def test_what_nodes_do_not_hold_does_not_count():
    """Pairs need whole nodes of 2: of 3 in two blocks there is room for one, whatever sums say."""
    gangs = [gang(2, 1, 9, sort=PAIR), gang(1, 1, 9, sort=PAIR)]
    start = [((1, 2),), ((1, 1),)]

    def short(cluster, there):
        pairs = sum(units for _, units in there)
        return [at for at, _ in there] if cluster == 0 and pairs > 1 else ()

    found = improved(tally(gangs, (6, 6), start), short, [[[3], [1], [2 - 2]], [[2], [2], [2]]])
    assert found.shares == [((1, 2),), ((0, 1),)]


def test_what_nobody_may_pay_or_know_the_price_of_is_left_alone():
    gangs = [gang(2, 3, None, ceiling=6), gang(2, 1, 2)]
    found = improved(tally(gangs, (2, 4), [(), ((0, 2),)]))
    assert found.shares == [((0, 2),), ((1, 2),)]


def test_a_later_tier_is_left_where_there_is_room_before_it():
    gangs = [gang(3, 1, 1, tiers=(1, 2)), gang(3, 1, 1)]
    found = improved(tally(gangs, (3, 3), [((1, 3),), ((0, 3),)]))
    assert found.shares == [((0, 3),), ((1, 3),)]


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_few_gangs_in_few_clusters_find_the_best_there_is(seed):
    chance = Random(seed)
    clusters = chance.randint(2, 3)
    gangs = [
        gang(
            chance.randint(1, 4),
            *(chance.choice((0, 1, 3, 7)) for _ in range(clusters)),
            sort=chance.choice(SORTS),
            priority=chance.randint(0, 1),
            tiers=[chance.randint(1, 2) for _ in range(clusters)],
        )
        for _ in range(4)
    ]
    found = tally(gangs, [chance.randint(2, 7) for _ in range(clusters)], seed=seed)
    assert improved(found, work=0.4).value() == best(found)


def test_a_batch_goes_on_with_it_and_stays_the_same_in_any_order(build):
    pytest.importorskip("ortools")
    fleet = [
        build.cluster("a", [4, 4]), build.cluster("b", [4, 2]), build.cluster("c", [4], plane="r-2")
    ]  # fmt: skip
    split = {"mode": "Split", "gang": {"maxClusters": 2}}
    demands = [build.demand(n, split, name=f"g{at}") for at, n in enumerate((5, 4, 4, 3, 2, 2))]
    polish = Neighbourhoods(Limits(work=0.2)).improve

    def places(demands, fleet):
        found = place_batch(demands, fleet, now_s=0.0, chance=Random(1), rounds=5, polish=polish)
        return {demands[at].workload.name: e.placed.clusters for at, e in found.admitted.items()}

    straight = places(demands, fleet)
    assert straight == places(demands[::-1], fleet[::-1])
    plain = place_batch(demands, fleet, now_s=0.0, chance=Random(1), rounds=5)
    assert len(straight) >= len(plain.admitted)
