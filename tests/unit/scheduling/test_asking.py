"""What would be decided about one more is what a step decides about it, and changes nothing."""

from __future__ import annotations

import random

from asking import Anywhere
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.engine import Engine
from fleet.scheduling.placer import Item
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree

GPU = Key("gpu")
RULES = Rules(patience_s=10, damping_s=20)


def some_tree(choose: random.Random) -> Tree:
    reclaim = choose.choice(("Any", "LowerPriority", "Never"))
    rules = Preemption(within="LowerPriority", reclaim=reclaim)
    nodes = [Node("root", "", {GPU: Share(16)})]
    for name in ("a", "b"):
        share = Share(choose.choice((4, 8)), limit=choose.choice((None, 10)))
        nodes.append(Node(name, "root", {GPU: share}, preemption=rules))
    return Tree.of(nodes)


def some_item(choose: random.Random, number: int, *, priority: int | None = None) -> Item:
    return Item(
        f"gang-{number:02}",
        choose.choice(("a", "b")),
        choose.choice((0, 0, 5)) if priority is None else priority,
        number,
        {GPU: choose.randint(1, 9)},
        f"gang-{number:02}",
        run_time_s=choose.choice((None, 30.0, 400.0)),
        restart_s=choose.choice((0.0, 5.0, 60.0)),
        saves_every_s=choose.choice((None, 20.0, 90.0)),
    )


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_one_more_is_told_what_a_step_would_decide(seed):
    choose = random.Random(seed)
    engine = Engine(some_tree(choose), Anywhere(), rules=RULES)
    now = 0.0
    for number in range(choose.randint(1, 12)):
        engine.submit(some_item(choose, number), now)
        now += choose.choice((0.0, 7.0, 60.0))
        engine.step(now)
        for uid, run in engine.running().items():
            if choose.random() < 0.5:
                engine.saved(uid, max(run.started_s, now - choose.choice((0.0, 15.0, 70.0))))
    for _ in range(3):
        engine.step(now)
    before = (dict(engine.book.charges), engine.earmarks(), [*engine.waiting()])
    item = some_item(choose, 99, priority=9)
    told = engine.ask(item, now)
    assert (dict(engine.book.charges), engine.earmarks(), [*engine.waiting()]) == before
    engine.verify()
    engine.submit(item, now)
    decided = next((each for each in engine.step(now) if each.uid == item.uid), None)
    if isinstance(decided, Admit):
        assert isinstance(told, Admit)
    elif isinstance(decided, Preempt):
        assert isinstance(told, Preempt)
        assert told.victims == decided.victims
    else:
        assert told is None
