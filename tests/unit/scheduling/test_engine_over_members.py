"""The engine over the search: quota says who may, the members' nodes say where."""

from __future__ import annotations

from typing import Any

from fleet.scheduling.decisions import Admit, Preempt, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.holdings import Holdings
from fleet.scheduling.placer import Item
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

GPU = Key("nvidia.com/gpu", "h200")
EAGER = Rules(worth=None, patience_s=0, restart_s=0)


def tree(a: int, b: int) -> Tree:
    shares = {"root": a + b, "a": a, "b": b}
    return Tree.of(
        Node(name, "" if name == "root" else "root", {GPU: Share(amount)})
        for name, amount in shares.items()
    )


def item(build: Any, uid: str, quota: str, pods: int, sequence: int, **more: Any) -> Item:
    priority = more.pop("priority", 0)
    demand = build.demand(pods, {"mode": "Split", "gang": {"maxClusters": 2}}, name=uid)
    return Item(uid, quota, priority, sequence, {GPU: pods}, pods, demand=demand, **more)


def test_gangs_are_placed_whole_until_members_are_full_and_wait_then(build: Any) -> None:
    holdings = Holdings([build.cluster("east", [4, 4]), build.cluster("west", [4])])
    engine = Engine(tree(32, 32), holdings, rules=EAGER)
    for number, pods in enumerate([6, 4, 4, 2, 40]):
        engine.submit(item(build, f"w{number}", "a", pods, number), 0)
    told = engine.step(0)
    assert [each.uid for each in told if isinstance(each, Admit)] == ["w0", "w1", "w3"]
    reasons = {each.uid: each.why.reason for each in told if isinstance(each, Wait)}
    assert reasons == {"w2": "Capacity", "w4": "NoSuchCapacity"}
    engine.finish("w1")
    assert [each.uid for each in engine.step(1) if isinstance(each, Admit)] == ["w2"]


def test_what_is_evicted_leaves_room_where_the_preemptor_starts(build: Any) -> None:
    holdings = Holdings([build.cluster("east", [8]), build.cluster("west", [8])])
    engine = Engine(tree(8, 8), holdings, rules=EAGER)
    for number in range(4):
        engine.submit(item(build, f"b{number}", "b", 4, number), 0)
    engine.step(0)
    engine.submit(item(build, "owner", "a", 8, 9), 10)
    (told,) = [each for each in engine.step(10) if isinstance(each, Preempt)]
    assert len(told.victims) == 2
    engine.submit(item(build, "small", "b", 1, 10), 10)
    for uid in told.victims:
        engine.evicted(uid, 11)
    decided = engine.step(11)
    (admit,) = [each for each in decided if isinstance(each, Admit)]
    assert admit.uid == "owner"
    assert sum(amounts[GPU] for amounts in admit.placed.clusters.values()) == 8
    engine.verify()
    assert engine.book.overcommitted() == {}


def test_what_waits_for_ever_bars_only_what_it_wants_where_it_could_be(build: Any) -> None:
    """A gang that found no room for longer than the aging bound, with no end in sight."""
    holdings = Holdings([build.cluster("east", [4, 4]), build.cluster("west", [2])])
    engine = Engine(tree(32, 32), holdings, rules=Rules(worth=None, patience_s=0, aging_s=100))
    engine.submit(item(build, "runs", "a", 3, 0), 0)
    engine.step(0)
    engine.submit(item(build, "wide", "a", 8, 1), 0)
    assert isinstance(engine.step(0)[0], Wait)
    engine.submit(item(build, "later", "a", 3, 2), 200)
    engine.submit(item(build, "small", "a", 2, 3), 200)
    engine.capacity_changed()
    told = engine.step(200)
    assert [each.uid for each in told if isinstance(each, Admit)] == ["small"]
    reasons = {each.uid: each.why.reason for each in told if isinstance(each, Wait)}
    assert reasons["later"] == "Behind"
