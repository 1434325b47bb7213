"""What running gangs hold: nothing twice, nothing lost, and the same answer as a count anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.accounts import capacity_of
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.demand import Demand, Role, Workload
from fleet.scheduling.holdings import Holdings
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.requests import vector

GPUS = Key("nvidia.com/gpu", "h200")
GPU = PodKind(vector({"nvidia.com/gpu": 1, "pods": 1}))
NODE = PodKind(vector({"nvidia.com/gpu": 4, "cpu": 16_000, "pods": 1}))
CPU = PodKind(vector({"cpu": 24_000, "pods": 1}))


def member(build, name, sizes, plane="roce-1"):
    """Nodes of 4 accelerators, in blocks of `sizes`."""
    racks = [f"r{at}" for at, count in enumerate(sizes) for _ in range(count)]
    nodes = [build.node(f"n{at}", 4, labels={"rack": rack}) for at, rack in enumerate(racks)]
    capacity = capacity_of(nodes, [], as_of_s=0.0, block_label="rack")
    return Cluster(name, {}, capacity, parameter_plane=plane)


def item(build, uid, *roles, span=2, requests=None, **more):
    spec = {"mode": "Split", "gang": {"maxClusters": span, **more}}
    demand = Demand(
        Workload("batch/v1", "Job", "default", uid, uid), roles, build.policy(spec).spec
    )
    if requests is None:
        wanted = sum(r.pods * dict(r.kind.request).get("nvidia.com/gpu", 0) for r in roles)
        requests = {GPUS: wanted}
    return Item(uid, "", 0, 0, requests, shape=uid, demand=demand)


def workers(pods, *, kind=GPU, unit=1, least=None):
    return Role("worker", pods, unit, kind, "ParameterPlane", least=least)


def start(holdings, one):
    found = holdings.place(one)
    if isinstance(found, Placed):
        holdings.take(one.uid, found)
    return found


def free(holdings, *names):
    return [sum(room.pods for room in holdings.capacity(n).rooms(GPU)) for n in names]


def test_decisions_that_follow_each_other_do_not_see_the_same_room(build):
    """karmada#1385, karmada#6518, kueue#14570: one journal, checked at every decision."""
    holdings = Holdings([member(build, "a", [1]), member(build, "b", [2])])
    found = [start(holdings, item(build, f"g{at}", workers(2), span=1)) for at in range(9)]
    assert [isinstance(each, Placed) for each in found] == [True] * 6 + [False] * 3
    assert free(holdings, "a", "b") == [0, 0]
    assert isinstance(found[-1], Unplaced)
    assert found[-1].ever


def test_what_is_given_back_is_free_at_once(build):
    """KAI#1217: no refusal outlives what caused it."""
    holdings = Holdings([member(build, "a", [1])])
    start(holdings, item(build, "first", workers(4)))
    second = item(build, "second", workers(3))
    assert isinstance(holdings.place(second), Unplaced)
    holdings.give("first")
    assert isinstance(start(holdings, second), Placed)
    holdings.give("nobody")
    assert free(holdings, "a") == [1]


def test_a_place_may_count_on_some_being_gone_and_is_taken_before_they_leave(build):
    holdings = Holdings([member(build, "a", [2])])
    start(holdings, item(build, "old", workers(6)))
    wanted = item(build, "new", workers(5))
    assert isinstance(holdings.place(wanted), Unplaced)
    found = holdings.place(wanted, without=["old"])
    assert isinstance(found, Placed)
    holdings.take("new", found)
    holdings.give("old")
    assert free(holdings, "a") == [3]


def test_what_no_member_could_ever_hold_is_told(build):
    holdings = Holdings([member(build, "a", [2]), member(build, "b", [2], plane="roce-2")])
    found = holdings.place(item(build, "g", workers(9)))
    assert isinstance(found, Unplaced)
    assert not found.ever
    assert found.why == "role worker needs 9, 2 clusters of one network have 8 free"


def test_amounts_are_by_cluster_and_key(build):
    holdings = Holdings([member(build, "a", [1]), member(build, "b", [1])])
    found = holdings.place(item(build, "g", workers(6)))
    assert isinstance(found, Placed)
    assert {name: dict(amounts) for name, amounts in found.clusters.items()} == {
        "a": {GPUS: 4}, "b": {GPUS: 2},
    }  # fmt: skip
    assert found.amounts is None


@pytest.mark.parametrize(
    ("asked", "least", "requested", "pods"),
    [
        pytest.param(6, 2, 6, 6, id="all find room"),
        pytest.param(12, 2, 12, 8, id="as many as find room"),
        pytest.param(12, 2, 5, 4, id="as many as the quota pays, in whole units"),
        pytest.param(12, 10, 12, None, id="not fewer than the least"),
    ],
)
def test_an_elastic_gang_gets_the_largest_size_there_is(build, asked, least, requested, pods):
    holdings = Holdings([member(build, "a", [1]), member(build, "b", [1])])
    one = item(build, "g", workers(asked, unit=2, least=least), requests={GPUS: requested})
    found = holdings.place(one)
    if pods is None:
        assert isinstance(found, Unplaced)
        return
    assert isinstance(found, Placed)
    assert sum(amounts[GPUS] for amounts in found.clusters.values()) == pods
    assert found.plan.roles[0].pods == pods
    assert (found.amounts is None) is (pods == requested)


def test_a_gang_does_not_grow_into_a_later_tier(build):
    names = ("own", "far")
    fleet = [replace(member(build, n, [1]), labels={"t": n}) for n in names]
    tiers = [{"name": n, "selector": {"matchLabels": {"t": n}}} for n in names]
    spec = {"mode": "Split", "clusters": {"tiers": tiers}}
    role = workers(8, least=2)
    demand = Demand(Workload("", "Job", "d", "g", "g"), (role,), build.policy(spec).spec)
    found = Holdings(fleet).place(Item("g", "", 0, 0, {GPUS: 8}, shape=0, demand=demand))
    assert isinstance(found, Placed)
    assert list(found.clusters) == ["own"]


def test_a_cluster_that_changes_keeps_what_is_held_in_it(build):
    holdings = Holdings([member(build, "a", [1])])
    start(holdings, item(build, "g", workers(3)))
    holdings.put(member(build, "a", [2]))
    assert free(holdings, "a") == [5]
    holdings.put(replace(member(build, "b", [4]), cordoned=True))
    large = item(build, "h", workers(6), span=1)
    assert isinstance(holdings.place(large), Unplaced)
    holdings.put(member(build, "b", [4]))
    assert isinstance(holdings.place(large), Placed)
    holdings.remove("b")
    assert isinstance(holdings.place(large), Unplaced)


# -- properties

ROLES = st.one_of(
    st.builds(lambda n: (workers(n),), st.integers(1, 6)),
    st.builds(lambda n: (workers(2 * n, unit=2),), st.integers(1, 3)),
    st.builds(
        lambda n, m: (Role("head", m, 1, CPU, "None"), workers(n, kind=NODE)),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
)
FLEET = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=1, max_size=2), st.sampled_from(["roce-1", "roce-2"])
    ),
    min_size=1,
    max_size=3,
)
EVENTS = st.lists(st.tuples(st.booleans(), ROLES, st.integers(0, 4)), max_size=10)


@given(FLEET, EVENTS)
@settings(max_examples=60, deadline=None)
def test_nothing_is_taken_twice_and_all_comes_back(build, members, events):
    """Conservation: on no node more than there is, and as it was when all have ended."""
    fleet = [member(build, f"c{at}", *each) for at, each in enumerate(members)]
    holdings, running = Holdings(fleet), []
    for at, (ends, roles, which) in enumerate(events):
        if ends and running:
            holdings.give(running.pop(which % len(running)))
        elif isinstance(start(holdings, item(build, f"g{at}", *roles)), Placed):
            running.append(f"g{at}")
        for cluster in fleet:
            nodes = holdings.capacity(cluster.name).nodes
            assert all(value >= 0 for node in nodes for value in node.free.values())
    for uid in running:
        holdings.give(uid)
    for cluster in fleet:
        assert holdings.capacity(cluster.name).nodes == cluster.capacity.nodes


@given(FLEET, EVENTS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_answers_as_a_count_anew_in_any_order(build, members, events, random):
    fleet = [member(build, f"c{at}", *each) for at, each in enumerate(members)]
    shuffled = list(fleet)
    random.shuffle(shuffled)
    holdings, other = Holdings(fleet), Holdings(shuffled)
    for at, (_, roles, _) in enumerate(events):
        one = item(build, f"g{at}", *roles)
        now = [replace(c, capacity=holdings.capacity(c.name)) for c in fleet]
        found = holdings.place(one)
        assert found == Holdings(now).place(one) == other.place(one)
        if isinstance(found, Placed):
            holdings.take(one.uid, found)
            other.take(one.uid, found)
