"""Promises: deducted at once, seen once, never twice."""

from __future__ import annotations

from dataclasses import replace

from fleet.scheduling.accounts import capacity_of
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placement import Plan, Refusal, place, replace_shards

SPLIT = {"mode": "Split"}


def decide(demand, fleet, ledger, generation=1):
    return place(demand, ledger.deducted(fleet), generation=generation, now_s=0.0)


def test_twenty_requests_at_once_go_only_where_there_is_room(build):
    """karmada#1385: of 20 requests to members with room for two each, two land in each."""
    fleet = [build.cluster(f"c{i}", 2) for i in range(5)]
    ledger, landed, refused = Ledger(), [], 0
    for number in range(20):
        decision = decide(build.demand(1, name=f"job-{number}"), fleet, ledger)
        if isinstance(decision, Plan):
            landed += [shard.cluster for shard in decision.shards]
            ledger = ledger.reserve(decision)
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
        ledger = ledger.reserve(decision)
    assert (landed.count("big"), landed.count("small")) == (10, 5)


def test_a_promise_is_deducted_until_its_pods_are_seen(build):
    cluster = build.cluster("east", 8)
    plan = decide(build.demand(4), [cluster], Ledger())
    ledger = Ledger().reserve(plan)

    def seen(bound, phase="Running"):
        labels = {"fleet.dev/workload-uid": "uid-train", "fleet.dev/generation": "1"}
        pods = [
            build.pod(f"p{i}", "n0", requests={"nvidia.com/gpu": "1"}, labels=labels, phase=phase)
            for i in range(bound)
        ]
        capacity = capacity_of([build.node("n0", 8)], pods, as_of_s=0.0)
        (there,) = ledger.deducted([replace(cluster, capacity=capacity)])
        rooms = there.capacity.rooms(plan.demand.role.kind)
        return sum(room.pods for room in rooms), len(ledger.settle({"east": capacity}).entries)

    assert seen(0) == (4, 1)
    assert seen(3) == (4, 1)
    assert seen(4) == (4, 0)
    assert seen(4, "Succeeded") == (8, 0)


def test_reserving_twice_is_reserving_once(build):
    plan = decide(build.demand(4), [build.cluster("east", 8)], Ledger())
    once = Ledger().reserve(plan)
    assert once.reserve(plan) == once


def test_release_by_workload_generation_and_cluster(build):
    fleet = [build.cluster("a", 2), build.cluster("b", 2), build.cluster("c", 2)]
    plan = decide(build.demand(4, SPLIT), fleet, Ledger())
    other = decide(build.demand(1, name="other"), fleet, Ledger())
    ledger = Ledger().reserve(plan).reserve(other)
    assert len(ledger.entries) == 3
    assert len(ledger.release("uid-train").entries) == 1
    assert len(ledger.release("uid-train", cluster="a").entries) == 2
    assert ledger.release("uid-train", generation=2) is ledger
    assert ledger.release("nobody") is ledger


def test_a_new_generation_reserves_only_what_it_adds(build):
    fleet = [build.cluster("a", 2), build.cluster("b", 2)]
    plan = decide(build.demand(4, SPLIT), fleet, Ledger())
    ledger = Ledger().reserve(plan).release("uid-train", cluster="b")
    again = replace_shards(plan, {"b"}, [fleet[0], build.cluster("c", 2)], generation=2, now_s=0.0)
    assert isinstance(again, Plan)
    keys = {(key.cluster, key.generation) for key in ledger.reserve(again).entries}
    assert keys == {("a", 1), ("c", 2)}
    # What a kept shard was promised may have been seen, and settled, long ago.
    keys = {(key.cluster, key.generation) for key in Ledger().reserve(again).entries}
    assert keys == {("c", 2)}


def test_what_another_plan_was_promised_is_not_free(build):
    fleet = [build.cluster("a", 4), build.cluster("b", 2)]
    ledger = Ledger().reserve(decide(build.demand(3, name="first"), fleet, Ledger()))
    decision = decide(build.demand(4, SPLIT), fleet, ledger)
    assert isinstance(decision, Refusal)
    assert decision.message.startswith("roce-1 has 3 free, needs 4")


def test_unknown_capacity_stays_unknown(build):
    cluster = replace(build.cluster("a"), capacity=None)
    assert Ledger().deducted([cluster]) == (cluster,)
