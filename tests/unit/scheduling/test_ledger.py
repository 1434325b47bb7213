"""Promises: deducted at once, seen once, never twice."""

from __future__ import annotations

from dataclasses import replace

from asking import capacity_of
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.ledger import Ledger
from fleet.scheduling.numbering import Interval
from fleet.scheduling.placement import Plan, Refusal, Shard, place

SPLIT = {"mode": "Split"}


def decide(demand, fleet, ledger, generation=1):
    return place(demand, ledger.deducted(fleet), generation=generation, now_s=0.0)


def reserve(ledger, plan):
    demand = plan.demand
    return ledger.reserve(demand.workload.uid, demand.role.kind, plan.shards)


def test_twenty_requests_at_once_go_only_where_there_is_room(build):
    """karmada#1385: of 20 requests to members with room for two each, two land in each."""
    fleet = [build.cluster(f"c{i}", 2) for i in range(5)]
    ledger, landed, refused = Ledger(), [], 0
    for number in range(20):
        decision = decide(build.demand(1, name=f"job-{number}"), fleet, ledger)
        if isinstance(decision, Plan):
            landed += [shard.cluster for shard in decision.shards]
            ledger = reserve(ledger, decision)
        else:
            refused += 1
    assert {name: landed.count(name) for name in landed} == {f"c{i}": 2 for i in range(5)}
    assert refused == 10


def test_many_that_fail_over_together_do_not_all_see_the_same_room(build):
    """karmada#6518: 15 workloads leave a member; the one with 10 free takes 10."""
    fleet = [build.cluster("big", 10), build.cluster("small", 5)]
    ledger, landed = Ledger(), []
    for number in range(15):
        decision = decide(build.demand(1, name=f"app-{number}"), fleet, ledger)
        assert isinstance(decision, Plan)
        landed += [shard.cluster for shard in decision.shards]
        ledger = reserve(ledger, decision)
    assert (landed.count("big"), landed.count("small")) == (10, 5)


def test_a_promise_is_deducted_until_its_pods_are_seen(build):
    cluster = build.cluster("east", 8)
    plan = decide(build.demand(4), [cluster], Ledger())
    ledger = reserve(Ledger(), plan)

    def seen(bound, phase="Running"):
        labels = {"fleet.dev/workload-uid": "uid-train", "fleet.dev/generation": "1"}
        pods = [
            build.pod(f"p{i}", "n0", requests={"nvidia.com/gpu": "1"}, labels=labels, phase=phase)
            for i in range(bound)
        ]
        capacity = capacity_of([build.node("n0", 8)], pods, as_of_s=0.0)
        (there,) = ledger.deducted([replace(cluster, capacity=capacity)])
        rooms = there.capacity.rooms(plan.demand.role.kind)
        return sum(room.pods for room in rooms)

    assert [seen(0), seen(3), seen(4), seen(4, "Succeeded")] == [4, 4, 4, 8]


def test_reserving_twice_is_reserving_once(build):
    plan = decide(build.demand(4), [build.cluster("east", 8)], Ledger())
    once = reserve(Ledger(), plan)
    assert reserve(once, plan) == once


def test_ledgers_together_and_without_one_workload(build):
    fleet = [build.cluster("a", 2), build.cluster("b", 2), build.cluster("c", 2)]
    train = reserve(Ledger(), decide(build.demand(4, SPLIT), fleet, Ledger()))
    other = reserve(Ledger(), decide(build.demand(1, name="other"), fleet, Ledger()))
    ledger = Ledger.of([train, other])
    assert len(ledger.entries) == 3
    assert ledger.release("uid-train") == other
    assert ledger.release("nobody") is ledger


@given(
    promised=st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=6),
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_promises_taken_off_together_are_those_taken_off_one_by_one(build, promised, sizes):
    capacity = build.cluster("a", sizes).capacity
    one, two = (
        build.demand(1).role.kind,
        build.demand(1, requests={"nvidia.com/gpu": "2"}).role.kind,
    )
    ledger, alone = Ledger(), capacity
    for number, (pods, small) in enumerate(sorted(promised, key=lambda each: each[1])):
        kind = one if small else two
        shard = Shard("a", 0, 1, (Interval("worker", 0, pods),))
        ledger = ledger.reserve(f"uid-{number}", kind, [shard])
        alone = alone.without(kind, pods)
    together = ledger.deduct("a", capacity)
    assert [each.free for each in together.nodes] == [each.free for each in alone.nodes]


def test_what_another_plan_was_promised_is_not_free(build):
    fleet = [build.cluster("a", 4), build.cluster("b", 2)]
    ledger = reserve(Ledger(), decide(build.demand(3, name="first"), fleet, Ledger()))
    decision = decide(build.demand(4, SPLIT), fleet, ledger)
    assert isinstance(decision, Refusal)
    assert decision.message.startswith("roce-1 has 3 free, needs 4")


def test_unknown_capacity_stays_unknown(build):
    cluster = replace(build.cluster("a"), capacity=None)
    assert Ledger().deducted([cluster]) == (cluster,)
