"""Whole gangs that go for another, as the engine chooses them over the gateway's Placer: the least
costly, in the right place, none in vain."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from asking import decided
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.decisions import Admit, Preempt, Wait
from fleet.scheduling.exact.question import Seat, Victim
from fleet.scheduling.placement import Plan, place
from fleet.scheduling.placer import Placed
from fleet.scheduling.requests import vector
from fleet.scheduling.victims import Gang, least

GPU = PodKind(vector({"nvidia.com/gpu": 1, "pods": 1}))
SPLIT = {"mode": "Split", "gang": {"maxClusters": 2}}


class Stage:
    """Clusters, and the gangs that run in them."""

    def __init__(self, clusters):
        self.clusters = {each.name: each for each in clusters}
        self.running = []
        self.freed = {}

    def run(self, uid, cost, **pods):
        seats = []
        self.freed[uid] = []
        for name, count in pods.items():
            cluster = self.clusters[name]
            capacity, taken = cluster.capacity.take(GPU, count)
            assert taken.pods == count
            self.clusters[name] = replace(cluster, capacity=capacity)
            self.freed[uid].append((name, taken))
            for block, on in taken.seats:
                for at, there in on:
                    node = capacity.blocks[block].site.nodes[at].name
                    seats += [Seat(name, node, GPU.request)] * there
        self.running.append(Victim(uid, cost, tuple(seats), len(seats)))

    def ask(self, demand, running=None):
        running = self.running if running is None else running
        return decided(demand, self.clusters.values(), running)

    def without(self, gone):
        left = dict(self.clusters)
        for each in gone:
            for name, taken in self.freed[each.uid]:
                left[name] = replace(left[name], capacity=left[name].capacity.give(taken))
        return left.values()


def members_of(gone):
    return {seat.cluster for each in gone for seat in each.seats}


def test_nobody_goes_where_there_is_room(build):
    stage = Stage([build.cluster("a", 4), build.cluster("b", 4)])
    stage.run("x", 1, a=4)
    found = stage.ask(build.demand(4))
    assert isinstance(found, Admit)
    assert found.placed.plan.shards[0].cluster == "b"


def test_the_least_costly_whole_gangs_go(build):
    stage = Stage([build.cluster("a", 8)])
    for uid, cost, pods in (("dear", 9, 4), ("cheap", 2, 2), ("small", 3, 2)):
        stage.run(uid, cost, a=pods)
    assert stage.ask(build.demand(4)).victims == ("cheap", "small")
    assert stage.ask(build.demand(2)).victims == ("cheap",)
    assert stage.ask(build.demand(6)).victims == ("cheap", "dear")
    assert isinstance(stage.ask(build.demand(9)), Wait)


def test_victims_are_of_one_domain_not_one_here_and_one_there(build):
    """volcano#4533: what is freed on two networks, cheap as it is, no plan could use together."""
    stage = Stage([build.cluster("a", 4), build.cluster("b", 4, plane="roce-2")])
    stage.run("a1", 1, a=2)
    stage.run("a2", 5, a=2)
    stage.run("b1", 1, b=2)
    stage.run("b2", 6, b=2)
    found = stage.ask(build.demand(4, SPLIT))
    assert found.victims == ("a1", "a2")
    assert found.placed.plan.domain == "roce-1"


def test_room_is_made_in_one_member_where_one_is_enough(build):
    """Two members that make room for one gang are two that nobody else may make room in."""
    stage = Stage([build.cluster("a", 4), build.cluster("b", 4)])
    for uid, cost, name in (("a1", 1, "a"), ("a2", 9, "a"), ("b1", 1, "b"), ("b2", 8, "b")):
        stage.run(uid, cost, **{name: 2})
    assert stage.ask(build.demand(4, SPLIT)).victims == ("b1", "b2")
    assert stage.ask(build.demand(6, SPLIT)).victims == ("a1", "b1", "b2")


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


def test_of_many_small_ones_and_a_large_one_the_cheaper_goes(build):
    """As many as no search could try all sets of."""
    for large, victims in ((9, 16), (100, 0)):
        stage = Stage([build.cluster("a", [8] * 8)])
        stage.run("large", large, a=16)
        for at in range(48):
            stage.run(f"s{at:02}", at + 1, a=1)
        found = stage.ask(build.demand(16))
        if victims:
            assert found.victims == ("large",)
        else:
            assert found.victims == ("large",) or len(found.victims) == 16


def test_what_evicts_more_than_is_asked_for_and_one_gang_is_no_choice(build):
    """Four gangs of four, each with a pod in each block: all of them for one block is too much."""
    stage = Stage([build.cluster("a", [4] * 4, blocks=["r0", "r1", "r2", "r3"])])
    stage.run("all", 1, a=16)
    seats = [Seat("a", f"n{at}", GPU.request) for at in range(4)]
    gangs = [Victim(f"g{at}", 1 + at, tuple(seats), 4) for at in range(4)]
    assert isinstance(stage.ask(build.demand(4, {"gang": {"unit": 4}}), gangs), Wait)
    assert stage.ask(build.demand(4, {"gang": {"unit": 2}}), gangs).victims == ("g0", "g1")
    assert stage.ask(build.demand(4), gangs).victims == ("g0",)


GANGS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)),
    max_size=5,
)


@given(GANGS, st.integers(1, 9), st.sampled_from([1, 2]), st.sampled_from([1, 2]))
@settings(max_examples=100, deadline=None)
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
        found = place(demand, stage.without(gone), generation=1, now_s=0.0)
        return isinstance(found, Plan)

    def worth(gone):
        return len(members_of(gone)) > 1, sum(each.cost for each in gone)

    sets = [
        gone
        for count in range(len(stage.running) + 1)
        for gone in combinations(stage.running, count)
        if fits(gone)
        and sum(each.size for each in gone) - max([0, *(each.size for each in gone)]) <= pods * unit
    ]
    found = stage.ask(demand)
    if not sets:
        assert isinstance(found, Wait)
        return
    gone = found.victims if isinstance(found, Preempt) else ()
    chosen = [each for each in stage.running if each.uid in gone]
    assert worth(chosen) == min(map(worth, sets))
    assert fits(chosen)
    assert not any(fits([other for other in chosen if other is not each]) for each in chosen)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_the_order_of_those_that_run_changes_nothing(build, order):
    stage = Stage([build.cluster("a", 4), build.cluster("b", 4)])
    for uid, name in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "b")):
        stage.run(uid, 1, **{name: 2})
    assert stage.ask(build.demand(2), stage.running[order]).victims == ("p",)


# -- the search by itself


class Sizes:
    """Room for what is asked once the sizes of those that are gone add up to it."""

    def __init__(self, asked, *, apart=()):
        self.asked = asked
        self.apart = apart
        self.tried = 0

    def place(self, gone, *, quick):
        self.tried += quick
        return Placed(None) if sum(each.size for each in gone) >= self.asked else None

    def forbids(self, gone, one):
        return any({one.uid, each.uid} in self.apart for each in gone)


def test_whom_a_rule_forbids_after_others_is_passed_over():
    gangs = [Gang("a", 1, size=2), Gang("b", 2, size=2), Gang("c", 5, size=2)]
    assert [each.uid for each in least(gangs, Sizes(4)).gone] == ["b", "a"]
    apart = [{"a", "b"}]
    found = least(gangs, Sizes(4, apart=apart))
    assert [each.uid for each in found.gone] == ["c", "a"]
    assert found.exact
    apart = [{"a", "b"}, {"a", "c"}, {"b", "c"}]
    assert least(gangs, Sizes(4, apart=apart)) is None


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1, max_size=120),
    st.integers(1, 60),
    st.integers(1, 60),
)
@settings(deadline=None)
def test_few_steps_still_give_a_choice_with_nobody_to_spare(gangs, asked, steps):
    trial = Sizes(asked)
    listed = [Gang(f"g{at:03}", cost, size=size) for at, (cost, size) in enumerate(gangs)]
    found = least(listed, trial, steps=steps)
    if sum(each.size for each in listed) < asked:
        assert found is None
        return
    left = sum(each.size for each in found.gone)
    assert left >= asked
    assert all(left - each.size < asked for each in found.gone)
    assert trial.tried <= steps + 30
    cheapest = [0] + [10**9] * asked
    for cost, size in gangs:
        for more in range(asked, 0, -1):
            cheapest[more] = min(cheapest[more], cost + cheapest[max(0, more - size)])
    cost = sum(each.cost for each in found.gone)
    assert cost >= cheapest[asked]
    assert not found.exact or cost == cheapest[asked]
