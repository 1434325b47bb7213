"""Why something waits for quota: numbers that a reader can add up."""

from __future__ import annotations

from fleet.scheduling.decisions import Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.placer import Anywhere, Item
from fleet.scheduling.quota.tree import Key, Node, Share, Tree
from fleet.scheduling.reasons import because

GPU = Key("nvidia.com/gpu", "h200")


def item(uid, quota, amount, sequence):
    return Item(uid, quota, priority=0, sequence=sequence, requests={GPU: amount}, shape=uid)


def told(nodes, *items):
    """What is said to the last of them, the only one that waits."""
    engine = Engine(Tree.of(nodes), Anywhere())
    for each in items:
        engine.submit(each, 0.0)
    (wait,) = (each for each in engine.step(0.0) if isinstance(each, Wait))
    return because(wait.why, wait.item, engine.book, name=str)


def test_what_is_in_use_in_reserve_and_kept_adds_up_to_what_is_missing():
    nodes = [
        Node("company", shares={GPU: Share(guaranteed=64, limit=64)}),
        Node("research", "company", {GPU: Share(guaranteed=40, limit=64)}),
        Node("nlp", "research", {GPU: Share(guaranteed=40, limit=60)}),
        Node("serving", "company", {GPU: Share(guaranteed=24, lendable=12)}, reserve={GPU: 3}),
    ]
    # 64 - 40 - 3 - 9 leaves 12 for 16
    assert told(nodes, item("first", "nlp", 40, 1), item("second", "nlp", 16, 2)) == (
        "quota nlp: it asks for 16 nvidia.com/gpu (h200), and of the 64 that node company may use "
        "40 are in use, 3 in the failover reserve and 9 kept for those below it that lend no more; "
        "it starts when 4 more are given back"
    )


def test_where_nothing_is_kept_only_use_is_told():
    nodes = [Node("team", shares={GPU: Share(guaranteed=4)})]
    assert told(nodes, item("first", "team", 3, 1), item("second", "team", 3, 2)) == (
        "quota team: it asks for 3 nvidia.com/gpu (h200), and of the 4 that it may use 3 are in "
        "use; it starts when 2 more are given back"
    )


def test_pods_that_name_no_kind_are_told_how_to():
    nodes = [Node("team", shares={GPU: Share(guaranteed=4)})]
    any_kind = Item("a", "team", priority=0, sequence=1, requests={Key(GPU.resource): 1}, shape="a")
    assert told(nodes, any_kind) == (
        "quota team counts nvidia.com/gpu of kind h200, and the pods ask for no kind: add a node "
        "selector for fleet.dev/accelerator or nvidia.com/gpu.product, whichever the nodes carry"
    )
