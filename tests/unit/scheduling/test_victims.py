"""Whole gangs that go for another: the least costly, in the right place, none in vain."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.placement import Plan, Refusal, place
from fleet.scheduling.requests import vector
from fleet.scheduling.victims import Held, Running, make_room

GPU = PodKind(vector({"nvidia.com/gpu": 1, "pods": 1}))
SPLIT = {"mode": "Split", "gang": {"maxClusters": 2}}


class Stage:
    """Clusters, and the gangs that run in them."""

    def __init__(self, clusters):
        self.clusters = {each.name: each for each in clusters}
        self.running = []

    def run(self, uid, cost, **pods):
        held = []
        for name, count in pods.items():
            cluster = self.clusters[name]
            capacity, taken = cluster.capacity.take(GPU, count)
            assert taken.pods == count
            self.clusters[name] = replace(cluster, capacity=capacity)
            held.append(Held.on(name, taken))
        self.running.append(Running(uid, 0, cost, tuple(held)))

    def ask(self, demand, running=None):
        return make_room(
            demand,
            self.clusters.values(),
            self.running if running is None else running,
            generation=1,
            now_s=0.0,
        )


def test_nobody_goes_where_there_is_room(build):
    stage = Stage([build.cluster("a", 4), build.cluster("b", 4)])
    stage.run("x", 1, a=4)
    found = stage.ask(build.demand(4))
    assert (found.victims, found.cost, found.plan.shards[0].cluster) == ((), 0, "b")


def test_the_least_costly_whole_gangs_go(build):
    stage = Stage([build.cluster("a", 8)])
    for uid, cost, pods in (("dear", 9, 4), ("cheap", 2, 2), ("small", 3, 2)):
        stage.run(uid, cost, a=pods)
    assert stage.ask(build.demand(4)).victims == ("cheap", "small")
    assert stage.ask(build.demand(2)).victims == ("cheap",)
    assert stage.ask(build.demand(6)).victims == ("cheap", "dear")
    assert isinstance(stage.ask(build.demand(9)), Refusal)


def test_victims_are_of_one_domain_not_one_here_and_one_there(build):
    """volcano#4533: what is freed on two networks, cheap as it is, no plan could use together."""
    stage = Stage([build.cluster("a", 4), build.cluster("b", 4, plane="roce-2")])
    stage.run("a1", 1, a=2)
    stage.run("a2", 5, a=2)
    stage.run("b1", 1, b=2)
    stage.run("b2", 6, b=2)
    found = stage.ask(build.demand(4, SPLIT))
    assert found.victims == ("a1", "a2")
    assert found.plan.domain == "roce-1"


def test_units_that_gangs_leave_in_parts_count_only_when_whole(build):
    cluster = build.cluster("a", [4, 4], blocks=["r0", "r1"])
    stage = Stage([cluster])
    stage.run("x", 1, a=2)
    stage.run("y", 1, a=3)
    stage.run("z", 9, a=3)
    found = stage.ask(build.demand(4, {"gang": {"unit": 4}}))
    assert found.victims == ("x", "y")


def test_a_gang_over_two_clusters_goes_as_a_whole(build):
    stage = Stage([build.cluster("a", 2), build.cluster("b", 2)])
    stage.run("wide", 1, a=2, b=2)
    found = stage.ask(build.demand(1))
    assert found.victims == ("wide",)


def test_without_its_nodes_known_a_gang_gives_back_its_blocks(build):
    stage = Stage([build.cluster("a", [4, 4], blocks=["r0", "r1"])])
    stage.run("x", 1, a=8)
    told = [replace(each, held=(Held("a", GPU, (("r0", 4), ("r1", 4))),)) for each in stage.running]
    assert stage.ask(build.demand(8), told).victims == ("x",)


GANGS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)),
    max_size=5,
)


@given(GANGS, st.integers(1, 9), st.sampled_from([1, 2]), st.sampled_from([1, 2]))
@settings(max_examples=150, deadline=None)
def test_no_other_set_costs_less_and_none_of_it_can_be_spared(build, gangs, pods, unit, span):
    fleet = [
        build.cluster("a", [3, 2], blocks=["r0", "r1"]),
        build.cluster("b", 4),
        build.cluster("c", 4, plane="roce-2"),
    ]
    stage = Stage(fleet)
    for at, (cost, *sizes) in enumerate(gangs):
        free = {n: sum(r.pods for r in c.capacity.rooms(GPU)) for n, c in stage.clusters.items()}
        wanted = {name: min(free[name], n) for name, n in zip("abc", sizes, strict=True)}
        if any(wanted.values()):
            stage.run(f"g{at}", cost, **{name: n for name, n in wanted.items() if n})
    spec = {"mode": "Split", "gang": {"maxClusters": span, "unit": unit}}
    demand = build.demand(pods * unit, spec)

    def fits(gone):
        left = dict(stage.clusters)
        for each in gone:
            for held in each.held:
                capacity = held.freed(left[held.cluster].capacity)
                left[held.cluster] = replace(left[held.cluster], capacity=capacity)
        return isinstance(place(demand, left.values(), generation=1, now_s=0.0), Plan)

    sets = [
        gone
        for count in range(len(stage.running) + 1)
        for gone in combinations(stage.running, count)
        if fits(gone)
    ]
    found = stage.ask(demand)
    if not sets:
        assert isinstance(found, Refusal)
        return
    assert found.cost == found.bound == min(sum(each.cost for each in gone) for gone in sets)
    chosen = [each for each in stage.running if each.uid in found.victims]
    assert fits(chosen)
    assert not any(fits([other for other in chosen if other is not each]) for each in chosen)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_the_order_of_those_that_run_changes_nothing(build, order):
    stage = Stage([build.cluster("a", 4), build.cluster("b", 4)])
    for uid, name in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "b")):
        stage.run(uid, 1, **{name: 2})
    assert stage.ask(build.demand(2), stage.running[order]).victims == ("p",)
