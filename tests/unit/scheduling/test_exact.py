"""The exact reference against all choices there are on small fleets, and placement against both."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import ConfigError
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.demand import Role
from fleet.scheduling.exact.gang import Infeasible, Objective, Optimum, Share, Unproven, optimum
from fleet.scheduling.exact.question import Seat, Victim
from fleet.scheduling.exact.solver import Limits
from fleet.scheduling.placement import Plan, place
from fleet.scheduling.requests import amounts, vector

GPU = "nvidia.com/gpu"
TIERS = {
    "tiers": [{"name": n, "selector": {"matchLabels": {"fleet.dev/provider": n}}} for n in "12"]
}


@dataclass(frozen=True)
class Member:
    """A cluster in a few words: what is free on the nodes of each block, and each block's price."""

    plane: str
    tier: int
    blocks: tuple[tuple[tuple[int, ...], int | None], ...]


def members(*, nodes: int = 2, blocks: int = 2) -> st.SearchStrategy[Member]:
    block = st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=nodes).map(tuple),
        st.sampled_from([None, 0, 1, 2]),
    )
    return st.builds(
        Member,
        st.sampled_from(["roce-1", "roce-2"]),
        st.sampled_from([1, 2]),
        st.lists(block, min_size=1, max_size=blocks).map(tuple),
    )


def fleets(most: int = 4, **size: int) -> st.SearchStrategy[list[Member]]:
    return st.lists(members(**size), min_size=1, max_size=most)


def built(build, fleet: list[Member]):
    """The clusters and prices of a fleet; each block has nodes of a type of its own."""
    clusters, offers = [], []
    for at, member in enumerate(fleet):
        sizes = [free for frees, _ in member.blocks for free in frees]
        names = [f"b{b}" for b, (frees, _) in enumerate(member.blocks) for _ in frees]
        cluster = build.cluster(
            f"c{at}", sizes, plane=member.plane, provider=str(member.tier), blocks=names
        )
        nodes = tuple(replace(each, instance_type=each.block) for each in cluster.capacity.nodes)
        clusters.append(replace(cluster, capacity=type(cluster.capacity)(nodes, 0.0)))
        offers += [
            {
                "cluster": f"c{at}", "instanceType": f"b{b}", "perHour": str(price),
                "per": "Accelerator",
            }
            for b, (_, price) in enumerate(member.blocks)
            if price is not None
        ]  # fmt: skip
    return clusters, build.prices(*offers)


def split(span: int) -> dict:
    return {"mode": "Split", "gang": {"maxClusters": span}, "clusters": TIERS}


def all_ways(units: int, rooms: list[int]):
    """Every way to put so many units into rooms."""
    if not rooms:
        if not units:
            yield ()
        return
    for here in range(min(units, rooms[0]) + 1):
        for rest in all_ways(units - here, rooms[1:]):
            yield (here, *rest)


def brute_force(fleet: list[Member], pods: int, unit: int, span: int):
    """(objective, pods by cluster) of the best choice of one role; None when there is none."""
    places = [(at, block) for at, member in enumerate(fleet) for block in member.blocks]
    best = None
    for units in all_ways(pods // unit, [sum(frees) // unit for _, (frees, _) in places]):
        used = {at for (at, _), count in zip(places, units, strict=True) if count}
        if len(used) > span or len({fleet[at].plane for at in used}) > 1:
            continue
        chosen = [
            (block[1], count) for (_, block), count in zip(places, units, strict=True) if count
        ]
        objective = Objective(
            several=0,
            preemption=0,
            tier=max(fleet[at].tier for at in used),
            clusters=len(used),
            unknown=sum(count for price, count in chosen if price is None),
            micro=sum(
                (price * 1_000_000 or 1) * count * unit
                for price, count in chosen
                if price is not None
            ),
            blocks=len(chosen),
        )
        spread = [0] * len(fleet)
        for (at, _), count in zip(places, units, strict=True):
            spread[at] += count * unit
        key = (objective, [-count for count in spread])
        if best is None or key < best:
            best = key
    return best and (best[0], {f"c{at}": -n for at, n in enumerate(best[1]) if n})


def spread_of(shares):
    found: dict[str, int] = {}
    for cluster, pods in shares:
        found[cluster] = found.get(cluster, 0) + pods
    return found


@settings(max_examples=40, deadline=None)
@given(fleets(), st.integers(1, 6), st.sampled_from([1, 1, 2]), st.integers(1, 3))
def test_one_role_all_choices_and_the_model_and_placement_agree(build, fleet, units, unit, span):
    clusters, prices = built(build, fleet)
    demand = build.demand(
        units * unit, {**split(span), "gang": {"maxClusters": span, "unit": unit}}
    )
    expected = brute_force(fleet, units * unit, unit, span)
    answer = optimum(demand, clusters, now_s=0.0, prices=prices)
    plan = place(demand, clusters, generation=1, now_s=0.0, prices=prices)
    if expected is None:
        assert answer == Infeasible()
        assert not isinstance(plan, Plan)
        return
    assert isinstance(answer, Optimum)
    assert isinstance(plan, Plan)
    assert answer.objective == expected[0]
    assert spread_of((each.cluster, each.pods) for each in answer.shares) == expected[1]
    assert spread_of((each.cluster, each.pods) for each in plan.shards) == expected[1]
    if plan.per_hour is not None:
        assert plan.per_hour == expected[0].micro
    assert sum(len(shard.blocks) for shard in plan.shards) == expected[0].blocks
    assert sum(pods for shard in plan.shards for _, pods in shard.blocks) == demand.role.pods


@settings(max_examples=40, deadline=None)
@given(fleets(3), st.integers(1, 5), st.integers(1, 2), st.data())
def test_gangs_are_evicted_where_nothing_else_helps_and_those_whose_work_is_worth_least(
    build, fleet, pods, span, data
):
    """Victims hold all of some nodes: without them these are empty, with them full."""
    nodes = [
        (at, b, n)
        for at, member in enumerate(fleet)
        for b, (frees, _) in enumerate(member.blocks)
        for n in range(len(frees))
    ]
    holders = data.draw(
        st.lists(st.sampled_from([None, 0, 1, 2]), min_size=len(nodes), max_size=len(nodes))
    )
    costs = data.draw(st.lists(st.integers(1, 4), min_size=3, max_size=3))
    clusters, prices = built(build, fleet)
    seats: list[list[Seat]] = [[], [], []]
    for at, cluster in enumerate(clusters):
        changed = list(cluster.capacity.nodes)
        mine = [holder for (c, _, _), holder in zip(nodes, holders, strict=True) if c == at]
        for position, holder in enumerate(mine):
            node = changed[position]
            if holder is not None:
                changed[position] = replace(node, free={**node.free, GPU: 0})
                seats[holder].append(
                    Seat(f"c{at}", node.name, vector({GPU: node.free.get(GPU, 0)}))
                )
        clusters[at] = replace(cluster, capacity=type(cluster.capacity)(tuple(changed), 0.0))
    victims = [Victim(f"v{v}", costs[v], tuple(each)) for v, each in enumerate(seats)]
    best = None
    for gone in (set(c) for size in range(4) for c in combinations(range(3), size)):
        left = []
        for at, member in enumerate(fleet):
            blocks = []
            for b, (frees, price) in enumerate(member.blocks):
                held = [h for (c, k, _), h in zip(nodes, holders, strict=True) if (c, k) == (at, b)]
                kept = [
                    free if holder is None or holder in gone else 0
                    for free, holder in zip(frees, held, strict=True)
                ]
                blocks.append((tuple(kept), price))
            left.append(replace(member, blocks=tuple(blocks)))
        found = brute_force(left, pods, 1, span)
        if found is not None:
            members = {seat.cluster for v in gone for seat in seats[v]}
            objective = found[0]._replace(
                several=int(len(members) > 1), preemption=sum(costs[v] for v in gone)
            )
            best = objective if best is None else min(best, objective)
    demand = build.demand(pods, split(span))
    answer = optimum(demand, clusters, now_s=0.0, prices=prices, victims=victims)
    assert (answer.objective if isinstance(answer, Optimum) else None) == best


@settings(max_examples=60, deadline=None)
@given(
    fleets(3, nodes=2, blocks=1),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([("ParameterPlane", "None"), ("ParameterPlane", "ParameterPlane")]),
)
def test_several_roles_share_what_a_node_has(build, fleet, pods, loaders, span, networks):
    """A worker takes an accelerator and 8 cores, a loader 12; a node has 24."""
    clusters, prices = built(build, fleet)
    for at, cluster in enumerate(clusters):
        nodes = tuple(
            replace(node, free={**node.free, "cpu": 24_000}) for node in cluster.capacity.nodes
        )
        clusters[at] = replace(cluster, capacity=type(cluster.capacity)(nodes, 0.0))
    base = build.demand(pods, split(span))
    worker = PodKind(vector({**amounts({GPU: "1", "cpu": "8"}), "pods": 1}))
    loader = PodKind(vector({**amounts({"cpu": "12"}), "pods": 1}))
    demand = replace(
        base,
        roles=(
            Role("worker", pods, 1, worker, networks[0]),
            Role("loader", loaders, 1, loader, networks[1]),
        ),
    )
    nodes = [
        (at, free, price)
        for at, member in enumerate(fleet)
        for frees, price in member.blocks
        for free in frees
    ]
    able = [(w, d) for w, d in product(range(4), range(3)) if w * 8 + d * 12 <= 24]
    best = None
    for choice in product(*([x for x in able if x[0] <= free] for _, free, _ in nodes)):
        if sum(w for w, _ in choice) != pods or sum(d for _, d in choice) != loaders:
            continue
        taken = list(zip(nodes, choice, strict=True))
        by_role = [{at for (at, _, _), each in taken if each[role]} for role in (0, 1)]
        used = by_role[0] | by_role[1]
        linked = used if networks[1] == "ParameterPlane" else by_role[0]
        if len(used) > span or len({fleet[at].plane for at in linked}) > 1:
            continue
        objective = Objective(
            several=0,
            preemption=0,
            tier=max(fleet[at].tier for at in used),
            clusters=len(used),
            unknown=sum(w + d for (_, _, price), (w, d) in taken if price is None),
            # Priced by the accelerator: a pod without one costs next to nothing.
            micro=sum(
                (price * 1_000_000 or 1) * w + d
                for (_, _, price), (w, d) in taken
                if price is not None
            ),
            blocks=len(used),
        )
        best = objective if best is None else min(best, objective)
    answer = optimum(demand, clusters, now_s=0.0, prices=prices)
    assert (answer.objective if isinstance(answer, Optimum) else None) == best


def test_the_answer_names_role_cluster_and_block(build):
    clusters = [
        build.cluster("a", [2, 1], blocks=["x", "y"]),
        build.cluster("b", [3], blocks=["z"]),
    ]
    answer = optimum(build.demand(5, {"mode": "Split"}), clusters, now_s=0.0)
    assert answer == Optimum(
        Objective(several=0, preemption=0, tier=1, clusters=2, unknown=5, micro=0, blocks=2),
        (Share("worker", "a", "x", 2), Share("worker", "b", "z", 3)),
    )


def test_a_limit_that_is_met_is_said_with_what_is_known(build):
    clusters = [build.cluster(f"c{n}", [3, 5, 2, 4]) for n in range(20)]
    demand = build.demand(60, {"mode": "Split", "gang": {"maxClusters": 20}})
    answer = optimum(demand, clusters, now_s=0.0, limits=Limits(work=0.0))
    assert isinstance(answer, Unproven)
    assert answer.level == "tier"


def test_without_or_tools_the_error_says_what_to_install(build, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(ConfigError, match=r"pip install 'fleet-gateway\[exact\]'"):
        optimum(build.demand(1), [build.cluster("a")], now_s=0.0)
