"""Many gangs at once: as much as can be, the more important first, the same in any order."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fleet.scheduling.batch import place_batch, weight
from fleet.scheduling.placement import Plan, place

SPLIT = {"mode": "Split", "gang": {"maxClusters": 2}}


def gangs(build, *sizes):
    return [build.demand(pods, SPLIT, name=f"g{at}") for at, pods in enumerate(sizes)]


def batch(demands, fleet, seed=1, **more):
    return place_batch(demands, fleet, now_s=0.0, chance=Random(seed), **more)


def test_what_one_after_the_other_leaves_out_finds_room_together(build):
    """First come first served puts the small gangs where only the large one could have been."""
    fleet = [build.cluster("a", 4), build.cluster("b", 6, plane="roce-2")]
    demands = gangs(build, 2, 2, 6)
    found = batch(demands, fleet)
    assert sorted(found.admitted) == [0, 1, 2]
    assert found.reached == found.bound == {0: 10}
    assert found.gap == 0.0


def test_the_more_important_are_admitted_first(build):
    demands = [build.demand(8), build.demand(3, name="urgent")]
    demands[1] = replace(demands[1], priority=9)
    found = batch(demands, [build.cluster("a", 8)])
    assert list(found.admitted) == [1]
    assert found.bound == {0: 5, 9: 3}
    assert found.gap == 1.0


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_never_worse_than_one_after_the_other_and_holds_no_node_twice(build, seed):
    chance = Random(seed)
    fleet = [
        build.cluster(f"c{at}", [4] * chance.randint(1, 3), plane=f"roce-{at % 2}")
        for at in range(4)
    ]
    demands = gangs(build, *(chance.randint(1, 9) for _ in range(8)))
    found = batch(demands, fleet, seed=seed, rounds=60)
    free = {each.name: sum(n.free["nvidia.com/gpu"] for n in each.capacity.nodes) for each in fleet}
    for admitted in found.admitted.values():
        assert sum(role.pods for role in admitted.seating.roles) == weight(admitted.demand)
        for piece in admitted.seating.answer.pieces:
            free[piece.cluster] -= sum(piece.pods)
    assert all(left >= 0 for left in free.values())
    assert sum(found.reached.values()) <= sum(found.bound.values())

    reached, capacities = 0, {each.name: each for each in fleet}
    for demand in demands:
        plan = place(demand, capacities.values(), generation=1, now_s=0.0)
        if isinstance(plan, Plan):
            reached += weight(demand)
            for shard in plan.shards:
                there = capacities[shard.cluster]
                left = there.capacity.without(demand.role.kind, shard.pods)
                capacities[shard.cluster] = replace(there, capacity=left)
    assert sum(found.reached.values()) >= reached


def test_the_order_of_gangs_and_clusters_changes_nothing(build):
    fleet = [build.cluster(name, size) for name, size in (("a", 5), ("b", 4), ("c", 7))]
    demands = gangs(build, 3, 6, 2, 5, 4)
    straight = batch(demands, fleet, rounds=40)
    turned = batch(demands[::-1], fleet[::-1], rounds=40)

    def places(found, of):
        return {of[at].workload.name: each.placed.clusters for at, each in found.admitted.items()}

    assert places(straight, demands) == places(turned, demands[::-1])


def test_gangs_of_several_roles_and_of_one_are_placed_together(build):
    """The gang of two roles has to leave the cluster that alone holds the large one."""
    fleet = [build.cluster("a", 4), build.cluster("b", 6, plane="roce-2")]
    demands = gangs(build, 2, 6, 2)
    (role,) = demands[0].roles
    two = (replace(role, pods=1), replace(role, name="leader", pods=1))
    demands[0] = replace(demands[0], roles=two)
    found = batch(demands, fleet)
    assert found.reached == {0: 10}
    assert sorted(found.admitted[1].placed.clusters) == ["b"]
