"""The engine over the search: quota says who may, the members' nodes say where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asking import opened

from fleet.scheduling.decisions import Admit, Preempt, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.placer import Item
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

if TYPE_CHECKING:
    from fleet.scheduling.rooms import Rooms

GPU = Key("nvidia.com/gpu", "h200")
EAGER = Rules(worth=None, patience_s=0)


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


def members(clusters: list[Any], items: list[Item]) -> Rooms:
    return opened(clusters, items, key=lambda name: GPU if name == GPU.resource else Key(name))


def test_gangs_are_placed_whole_until_members_are_full_and_wait_then(build: Any) -> None:
    items = [item(build, f"w{n}", "a", pods, n) for n, pods in enumerate([6, 4, 4, 2, 40])]
    rooms = members([build.cluster("east", [4, 4]), build.cluster("west", [4])], items)
    engine = Engine(tree(32, 32), rooms, rules=EAGER)
    for one in items:
        engine.submit(one, 0)
    told = engine.step(0)
    assert [each.uid for each in told if isinstance(each, Admit)] == ["w0", "w1", "w3"]
    reasons = {each.uid: each.why.reason for each in told if isinstance(each, Wait)}
    assert reasons == {"w2": "Capacity", "w4": "NoSuchCapacity"}
    engine.finish("w1")
    assert [each.uid for each in engine.step(1) if isinstance(each, Admit)] == ["w2"]


def test_what_is_evicted_leaves_room_where_the_preemptor_starts(build: Any) -> None:
    borrowers = [item(build, f"b{number}", "b", 4, number) for number in range(4)]
    owner, small = item(build, "owner", "a", 8, 9), item(build, "small", "b", 1, 10)
    fleet = [build.cluster("east", [8]), build.cluster("west", [8])]
    engine = Engine(tree(8, 8), members(fleet, [*borrowers, owner, small]), rules=EAGER)
    for one in borrowers:
        engine.submit(one, 0)
    engine.step(0)
    engine.submit(owner, 10)
    (told,) = [each for each in engine.step(10) if isinstance(each, Preempt)]
    assert len(told.victims) == 2
    engine.submit(small, 10)
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
    asked = {"runs": 3, "wide": 8, "later": 3, "small": 2}
    items = {name: item(build, name, "a", n, at) for at, (name, n) in enumerate(asked.items())}
    fleet = [build.cluster("annex", [2]), build.cluster("east", [4, 4])]
    rooms = members(fleet, [*items.values()])
    engine = Engine(tree(32, 32), rooms, rules=Rules(worth=None, patience_s=0, aging_s=100))
    engine.submit(items["runs"], 0)
    engine.step(0)
    engine.submit(items["wide"], 0)
    assert isinstance(engine.step(0)[0], Wait)
    engine.submit(items["later"], 200)
    engine.submit(items["small"], 200)
    engine.capacity_changed()
    told = engine.step(200)
    assert [each.uid for each in told if isinstance(each, Admit)] == ["small"]
    reasons = {each.uid: each.why.reason for each in told if isinstance(each, Wait)}
    assert reasons["later"] == "Behind"
