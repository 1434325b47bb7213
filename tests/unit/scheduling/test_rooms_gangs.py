"""What gangs of a round hold: nothing twice, nothing lost, and the answer of a count anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import NOW, asked, capacity_of, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.demand import Demand, Role, Workload
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.price import Prices
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.requests import vector
from fleet.scheduling.rooms import Picture

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
    least = {GPUS: 0} if any(role.least is not None for role in roles) else None
    return Item(uid, "", 0, 0, requests, shape=uid, demand=demand, least=least)


def key(name):
    return GPUS if name == GPUS.resource else Key(name)


def rooms_of(fleet, *items):
    return opened(fleet, items, key=key)


def workers(pods, *, kind=GPU, unit=1, least=None):
    return Role("worker", pods, unit, kind, "ParameterPlane", least=least)


def start(rooms, one):
    found = rooms.place(one)
    if isinstance(found, Placed):
        rooms.take(one.uid, found)
    return found


def free(rooms, *names):
    left = [rooms.views.capacities[name].rooms(GPU) for name in names]
    return [sum(room.pods for room in each) for each in left]


def test_decisions_that_follow_each_other_do_not_see_the_same_room(build):
    """karmada#1385, karmada#6518, kueue#14570: one journal, checked at every decision."""
    items = [item(build, f"g{at}", workers(2), span=1) for at in range(9)]
    rooms = rooms_of([member(build, "a", [1]), member(build, "b", [2])], *items)
    found = [start(rooms, one) for one in items]
    assert [isinstance(each, Placed) for each in found] == [True] * 6 + [False] * 3
    assert free(rooms, "a", "b") == [0, 0]
    assert isinstance(found[-1], Unplaced)
    assert found[-1].ever


def test_what_is_given_back_is_free_at_once(build):
    """KAI#1217: no refusal outlives what caused it."""
    first, second = item(build, "first", workers(4)), item(build, "second", workers(3))
    rooms = rooms_of([member(build, "a", [1])], first, second)
    start(rooms, first)
    assert isinstance(rooms.place(second), Unplaced)
    rooms.give("first")
    assert isinstance(start(rooms, second), Placed)
    rooms.give("nobody")
    assert free(rooms, "a") == [1]


def test_a_place_may_count_on_some_being_gone_and_is_taken_before_they_leave(build):
    old, wanted = item(build, "old", workers(6)), item(build, "new", workers(5))
    rooms = rooms_of([member(build, "a", [2])], old, wanted)
    start(rooms, old)
    assert isinstance(rooms.place(wanted), Unplaced)
    found = rooms.place(wanted, without=["old"])
    assert isinstance(found, Placed)
    rooms.take("new", found)
    rooms.give("old")
    assert free(rooms, "a") == [3]


def test_what_no_member_could_ever_hold_is_told(build):
    one = item(build, "g", workers(9))
    fleet = [member(build, "a", [2]), member(build, "b", [2], plane="roce-2")]
    found = rooms_of(fleet, one).place(one)
    assert isinstance(found, Unplaced)
    assert not found.ever
    assert found.why == (
        "roce-1 has 8 free, roce-2 has 8 free, needs 9; it would not fit even if nothing else ran"
    )


def test_amounts_are_by_cluster_and_key(build):
    one = item(build, "g", workers(6))
    found = rooms_of([member(build, "a", [1]), member(build, "b", [1])], one).place(one)
    assert isinstance(found, Placed)
    assert {name: dict(amounts) for name, amounts in found.clusters.items()} == {
        "a": {GPUS: 4, Key("pods"): 4}, "b": {GPUS: 2, Key("pods"): 2},
    }  # fmt: skip
    assert found.amounts is None


@pytest.mark.parametrize(
    ("asked_for", "least", "requested", "pods"),
    [
        pytest.param(6, 2, 6, 6, id="all find room"),
        pytest.param(12, 2, 12, 8, id="as many as find room"),
        pytest.param(12, 2, 5, 4, id="as many as the quota pays, in whole units"),
        pytest.param(12, 10, 12, None, id="not fewer than the least"),
    ],
)
def test_an_elastic_gang_gets_the_largest_size_there_is(build, asked_for, least, requested, pods):
    role = workers(asked_for, unit=2, least=least)
    one = item(build, "g", role, requests={GPUS: requested})
    found = rooms_of([member(build, "a", [1]), member(build, "b", [1])], one).place(one)
    if pods is None:
        assert isinstance(found, Unplaced)
        return
    assert isinstance(found, Placed)
    assert sum(amounts[GPUS] for amounts in found.clusters.values()) == pods
    assert found.plan.demand.roles[0].pods == pods
    assert (found.amounts is None) is (pods == requested)


def test_a_gang_does_not_grow_into_a_later_tier(build):
    names = ("own", "far")
    fleet = [replace(member(build, n, [1]), labels={"t": n}) for n in names]
    tiers = [{"name": n, "selector": {"matchLabels": {"t": n}}} for n in names]
    one = item(build, "g", workers(8, least=2))
    spec = {"mode": "Split", "clusters": {"tiers": tiers}}
    one = replace(one, demand=replace(one.demand, policy=build.policy(spec).spec))
    found = rooms_of(fleet, one).place(one)
    assert isinstance(found, Placed)
    assert list(found.clusters) == ["own"]


def test_a_cluster_that_changes_keeps_what_is_held_in_it(build):
    one, large = item(build, "g", workers(3)), item(build, "h", workers(6), span=1)
    waiting = {each.uid: asked(each.demand, key) for each in (one, large)}
    rooms = rooms_of([member(build, "a", [1])], one, large)
    start(rooms, one)

    def see(*clusters):
        rooms.begin(Picture(clusters, Ledger(), Prices(), NOW, 0.0), waiting)

    see(member(build, "a", [2]))
    assert free(rooms, "a") == [5]
    see(member(build, "a", [2]), replace(member(build, "b", [4]), cordoned=True))
    assert isinstance(rooms.place(large), Unplaced)
    see(member(build, "a", [2]), member(build, "b", [4]))
    assert isinstance(rooms.place(large), Placed)
    see(member(build, "a", [2]))
    assert isinstance(rooms.place(large), Unplaced)


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
    items = [item(build, f"g{at}", *roles) for at, (_, roles, _) in enumerate(events)]
    rooms, running = rooms_of(fleet, *items), []
    for one, (ends, _, which) in zip(items, events, strict=True):
        if ends and running:
            rooms.give(running.pop(which % len(running)))
        elif isinstance(start(rooms, one), Placed):
            running.append(one.uid)
        for left in rooms.views.capacities.values():
            assert all(value >= 0 for node in left.nodes for value in node.free.values())
    for uid in running:
        rooms.give(uid)
    for cluster in fleet:
        assert rooms.views.capacities[cluster.name].nodes == cluster.capacity.nodes


@given(FLEET, EVENTS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_answers_as_a_count_anew_in_any_order(build, members, events, random):
    fleet = [member(build, f"c{at}", *each) for at, each in enumerate(members)]
    shuffled = list(fleet)
    random.shuffle(shuffled)
    items = [item(build, f"g{at}", *roles) for at, (_, roles, _) in enumerate(events)]
    rooms, other = rooms_of(fleet, *items), rooms_of(shuffled, *items)
    for one in items:
        now = [replace(c, capacity=rooms.views.capacities[c.name]) for c in fleet]
        found, same, anew = (
            each.place(one) for each in (rooms, other, rooms_of(now, one))
        )  # fmt: skip
        assert found == same
        if isinstance(found, Unplaced):
            # Of those that are alike the first was told what there was then.
            assert found.ever == anew.ever
        else:
            assert found == anew
            rooms.take(one.uid, found)
            other.take(one.uid, same)
