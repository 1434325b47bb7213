"""The exact search against all choices there are."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.fit import Cost, Curve, Pool
from fleet.scheduling.search import cheapest
from fleet.scheduling.stranding import stranded

POOLS = st.lists(
    st.builds(
        Pool,
        block=st.sampled_from(["a", "b", "c"]),
        micro=st.sampled_from([None, 0, 0, 1, 5]),
        billing=st.just(""),
        units=st.integers(1, 3),
    ),
    max_size=4,
)
CURVES = st.lists(POOLS, min_size=1, max_size=4)


def all_costs(pools: list[Pool]) -> dict[int, tuple[int, int, int]]:
    """Least (unknown, micro, blocks) for every number of units, by trying every filling."""
    best: dict[int, tuple[int, int, int]] = {}
    for counts in product(*(range(pool.units + 1) for pool in pools)):
        chosen = [(pool, count) for pool, count in zip(pools, counts, strict=True) if count]
        cost = (
            sum(count for pool, count in chosen if pool.micro is None),
            sum((pool.micro or 0) * count for pool, count in chosen),
            len({pool.block for pool, _ in chosen}),
        )
        units = sum(counts)
        best[units] = min(best.get(units, cost), cost)
    return best


@given(POOLS)
def test_a_curve_is_the_least_cost_at_every_number_of_units(pools):
    curve, best = Curve(pools), all_costs(pools)
    assert curve.units == max(best)
    for units, cost in best.items():
        found = Cost.of(curve.cost(units))
        assert (found.unknown, found.micro, found.blocks) == cost


@given(POOLS, st.data())
def test_a_filling_has_the_units_and_costs_what_the_curve_says(pools, data):
    curve = Curve(pools)
    units = data.draw(st.integers(0, curve.units))
    filling = curve.fill(units)
    there = {block: sum(p.units for p in pools if p.block == block) for block in "abc"}
    assert sum(count for _, count in filling.blocks) == units
    assert all(0 < count <= there[block] for block, count in filling.blocks)
    assert filling.cost == Cost.of(curve.cost(units))
    assert filling.cost.blocks == len(filling.blocks)


def every_choice(clusters, units, count, onces=(0, 0, 0, 0)):
    """(cost, path) of all ways to put so many units into exactly so many clusters, each of which
    costs something to be used at all (None: unknown)."""
    curves = [Curve(pools) for pools in clusters]
    costs = [all_costs(pools) for pools in clusters]
    for chosen in combinations(range(len(curves)), count):
        for shares in product(*(range(1, curves[i].units + 1) for i in chosen)):
            if sum(shares) == units:
                parts = [costs[i][share] for i, share in zip(chosen, shares, strict=True)]
                parts += [(onces[i] is None, onces[i] or 0, 0) for i in chosen]
                path = tuple((i, -share) for i, share in zip(chosen, shares, strict=True))
                yield tuple(map(sum, zip(*parts, strict=True))), path


ONCES = st.one_of(
    st.just([0] * 4), st.lists(st.sampled_from([None, 0, 1, 7, 30]), min_size=4, max_size=4)
)


@given(CURVES, ONCES, st.integers(1, 12), st.sampled_from([None, 0, 4, 12]))
@settings(max_examples=600)
def test_the_best_choice_is_the_best_of_all_choices(clusters, onces, units, ceiling):
    """Of as few clusters as do; a ceiling may ask for more of them."""
    packed = [Cost(once is None, once or 0, 0).packed for once in onces]
    rows = [
        (Curve(pools, once=once),)
        for pools, once in zip(clusters, packed[: len(clusters)], strict=True)
    ]
    for count in range(1, 5):
        choices = [
            (cost, path)
            for cost, path in every_choice(clusters, units, count, onces)
            if ceiling is None or (cost[0] == 0 and cost[1] <= ceiling)
        ]
        limit = None if ceiling is None else Cost(0, ceiling + 1, 0).packed - 1
        found = cheapest(rows, [units], count, limit=limit)
        if not choices:
            assert found is None
            continue
        best, path = min(choices)
        assert found is not None
        assert found.proven
        cost = Cost.of(found.cost)
        assert (cost.unknown, cost.micro, cost.blocks) == best
        assert found.shares == tuple((i, (-negative,)) for i, negative in path)
        return


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 6)), min_size=1, max_size=4,
             unique_by=lambda each: each[0]),
    st.data(),
)  # fmt: skip
def test_the_blocks_taken_are_those_that_strand_least(sizes, data):
    """Of all ways to fill as few blocks as possible; in units of one pod at one price."""
    mix = ((2, 1), (3, 2), (4, 1))
    curve = Curve([Pool(block, 0, "", units) for block, units in sizes], mix=mix)
    units = data.draw(st.integers(1, curve.units))
    lost = {}
    for counts in product(*(range(size + 1) for _, size in sizes)):
        if sum(counts) == units:
            blocks = sum(1 for count in counts if count)
            left = [size - count for (_, size), count in zip(sizes, counts, strict=True)]
            lost.setdefault(blocks, []).append(sum(stranded(each, mix) for each in left))
    before = sum(stranded(size, mix) for _, size in sizes)
    filling = curve.fill(units)
    assert len(filling.blocks) == min(lost)
    assert filling.stranded == min(lost[min(lost)]) - before


@pytest.mark.parametrize(
    ("sizes", "units", "clusters", "expected"),
    [
        pytest.param([4, 2], 6, 2, ((0, 4), (1, 2)), id="all of both"),
        pytest.param([4, 2], 7, 2, None, id="too many"),
        pytest.param([2, 4, 4], 7, 2, ((1, 4), (2, 3)), id="the first is left out"),
        pytest.param([0, 4, 4], 8, 2, ((1, 4), (2, 4)), id="an empty one is none"),
        pytest.param([3, 3, 3], 9, 3, ((0, 3), (1, 3), (2, 3)), id="three"),
        pytest.param([3], 3, 2, None, id="fewer clusters than asked for"),
    ],
)
def test_choices(sizes, units, clusters, expected):
    rows = [(Curve([Pool("", 0, "", size)] if size else []),) for size in sizes]
    found = cheapest(rows, [units], clusters)
    assert (found and tuple((at, share) for at, (share,) in found.shares)) == expected


def test_a_hundred_clusters_with_large_gangs_stay_exact_in_sum():
    """Every cluster of another size and price: the sum must still be the units asked for."""
    rows = [
        (Curve([Pool(f"b{b}", (i * 7 + b) % 11, "", 5 + (i + b) % 9) for b in range(4)]),)
        for i in range(100)
    ]
    found = cheapest(rows, [170], 4)
    assert found is not None
    assert sum(units for _, (units,) in found.shares) == 170
    assert len({position for position, _ in found.shares}) == 4
