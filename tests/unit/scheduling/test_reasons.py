"""Why something waits for quota: numbers that a reader can add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import Anywhere

from fleet.scheduling.decisions import Preempt, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.lending.terms import Terms
from fleet.scheduling.placer import Item
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree
from fleet.scheduling.reasons import because, reason_of

GPU = Key("nvidia.com/gpu", "h200")


def item(uid, quota, amount, sequence, **more):
    return Item(
        uid, quota, priority=0, sequence=sequence, requests={GPU: amount}, shape=uid, **more
    )


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


def answers(engine):
    """What each that waits is told, and the reason, by uid."""
    book, foreseen = engine.book, engine.foreseen()
    return {
        each.uid: (
            reason_of(why, each, book),
            because(why, each, book, name=lambda uid: f"job solo/{uid}", foreseen=foreseen),
        )
        for each, why in engine.waiting()
    }


def test_what_is_kept_for_others_is_not_in_use():
    engine = Engine(Tree.of([Node("team", shares={GPU: Share(guaranteed=64)})]), Anywhere())
    engine.submit(item("first", "team", 48, 1, run_time_s=60.0), 0.0)
    engine.submit(item("big", "team", 32, 2), 0.0)
    engine.submit(item("small", "team", 8, 3), 0.0)
    engine.step(0.0)
    told = answers(engine)
    assert told["big"] == (
        "QuotaExceeded",
        "quota team: it asks for 32 nvidia.com/gpu (h200), and of the 64 that it may use 48 are in "
        "use; it starts when 16 more are given back",
    )
    assert told["small"] == (
        "RoomKept",
        "quota team: it asks for 8 nvidia.com/gpu (h200), and of the 64 that it may use 48 are in "
        "use and 16 kept for job solo/big until about 1970-01-01T00:01:00Z; what is kept goes "
        "first to those it is kept for",
    )
    (line,) = engine.report()
    assert (line.used - line.earmarked, line.borrowed) == (48, 0)


def test_who_asks_for_more_than_is_kept_is_short_of_quota_all_the_same():
    engine = Engine(Tree.of([Node("team", shares={GPU: Share(guaranteed=64)})]), Anywhere())
    for each in (("first", 48), ("big", 32), ("other", 20)):
        engine.submit(item(each[0], "team", each[1], 64 - each[1]), 0.0)
        engine.step(0.0)
    reason, words = answers(engine)["other"]
    assert reason == "QuotaExceeded"
    assert "48 are in use and 16 kept for job solo/big; it starts when 20 more" in words


def test_what_may_be_ended_for_it_later_is_told_with_when():
    company = Node("company", shares={GPU: Share(guaranteed=16)})
    research = Node("research", "company", {GPU: Share(guaranteed=0)})
    spares = Preemption(min_run_time_s=10)
    lab = Node("lab", "research", {GPU: Share(guaranteed=0)}, preemption=spares)
    cv = Node("cv", "company", {GPU: Share(guaranteed=16)}, preemption=Preemption(reclaim="Any"))
    engine = Engine(Tree.of([company, research, lab, cv]), Anywhere())
    engine.submit(item("sweep", "lab", 4, 1), 0.0)
    engine.step(0.0)
    engine.submit(item("train", "cv", 16, 2), 2.0)
    engine.step(2.0)
    _, words = answers(engine)["train"]
    assert words.endswith(
        "; it starts when 4 more are given back; job solo/sweep may be ended for it from "
        "1970-01-01T00:00:10Z; until then it is spared (minRunTime, or an eviction before)"
    )
    decided = engine.step(10.0)
    assert [e.victims for e in decided if isinstance(e, Preempt)] == [("sweep",)]


def test_what_ends_for_it_once_it_has_saved_is_told_with_when_that_should_be():
    team = Node("team", shares={GPU: Share(guaranteed=16)})
    engine = Engine(Tree.of([team]), Anywhere())
    engine.submit(item("sweep", "team", 16, 1, saves_every_s=3600.0), 0.0)
    engine.step(0.0)
    engine.saved("sweep", 3600.0)
    engine.submit(replace(item("train", "team", 16, 2), priority=1), 7000.0)
    engine.step(7000.0)
    _, words = answers(engine)["train"]
    assert words.endswith(
        "; it starts when 16 more are given back; job solo/sweep is to end for it once it has "
        "saved, which it should have by 1970-01-01T02:06:00Z"
    )
    engine.saved("sweep", 7200.0)
    decided = engine.step(7210.0)
    assert [e.victims for e in decided if isinstance(e, Preempt)] == [("sweep",)]


LENT = Terms("night", "serving", ("research",))


@pytest.mark.parametrize(
    ("terms", "limit", "more"),
    [
        ([LENT], None, ", or when serving can lend it what it is short of"),
        ([], None, ""),
        ([replace(LENT, borrowers=("serving",))], None, ""),
        ([replace(LENT, renew=False)], None, ""),
        ([LENT], 8, ""),
    ],
)
def test_what_a_donor_may_lend_to_is_told_so(
    terms: list[Terms], limit: int | None, more: str
) -> None:
    tree = Tree.of([
        Node("company", shares={GPU: Share(64)}),
        Node("serving", "company", {GPU: Share(56, lendable=0)}),
        Node("research", "company", {GPU: Share(8, limit=limit)}),
    ])  # fmt: skip
    engine = Engine(tree, Anywhere())
    for each in (item("first", "research", 8, 1), item("second", "research", 8, 2)):
        engine.submit(each, 0.0)
    (wait,) = (each for each in engine.step(0.0) if isinstance(each, Wait))
    why = replace(wait.why, reason="Quota")
    message = because(why, wait.item, engine.book, name=str, terms=terms)
    assert message.endswith(f"more are given back{more}")
