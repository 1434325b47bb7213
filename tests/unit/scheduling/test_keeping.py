"""The engine brought in line with what is stored, whatever happened in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import Anywhere
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.decisions import Admit
from fleet.scheduling.engine import Engine
from fleet.scheduling.keeping import Holds, Waits, bring
from fleet.scheduling.placer import Item
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree
from fleet.scheduling.standing import Standing

GPU = Key("gpu")


def tree(limit=8, **nodes):
    found = [Node("root", "", {GPU: Share(limit)})]
    found += [Node(name, "root", {GPU: Share(each)}) for name, each in nodes.items()]
    return Tree.of(found)


@pytest.fixture
def engine():
    return Engine(tree(8, a=4, b=4), Anywhere())


def item(uid, size, quota="a", sequence=0, **more):
    return Item(uid, quota, more.pop("priority", 0), sequence, {GPU: size}, uid, **more)


def holds(uid, size, *, of=None, quota="a", **more):
    standing = Standing({GPU: size}, {"east": {GPU: size}}, **more)
    return Holds(item(uid, of or size, quota), standing)


def used(engine, node="root"):
    engine.verify()
    return sum(line.used - line.earmarked for line in engine.report() if line.node == node)


def test_a_decision_that_was_stored_changes_nothing_more(engine):
    bring(engine, {"x": Waits(item("x", 4), 0)}, {}, 0)
    (admit,) = engine.step(0)
    assert isinstance(admit, Admit)
    run = engine.running()["x"]
    bring(engine, {}, {"x": holds("x", 4)}, 1)
    assert engine.running()["x"] is run
    assert used(engine) == 4


def test_a_decision_that_was_not_stored_is_undone_and_made_again(engine):
    waiting = {"x": Waits(item("x", 4), 0)}
    bring(engine, waiting, {}, 0)
    engine.step(0)
    bring(engine, waiting, {}, 1)
    assert not engine.running()
    assert used(engine) == 0
    assert [each.uid for each in engine.step(1)] == ["x"]


def test_what_runs_is_taken_up_above_any_limit(engine):
    bring(engine, {}, {"x": holds("x", 12)}, 0)
    assert used(engine) == 12
    assert engine.book.overcommitted()


def test_what_went_is_forgotten(engine):
    bring(engine, {"w": Waits(item("w", 9), 0)}, {"x": holds("x", 4)}, 0)
    engine.step(0)
    bring(engine, {}, {}, 1)
    assert used(engine) == 0
    assert not list(engine.waiting())


def test_less_is_held_and_then_more(engine):
    bring(engine, {}, {"x": holds("x", 4)}, 0)
    bring(engine, {}, {"x": holds("x", 1, of=4)}, 1)
    assert used(engine) == 1
    bring(engine, {}, {"x": holds("x", 4)}, 2)
    assert used(engine) == 4
    bring(engine, {}, {"x": holds("x", 12)}, 3)
    assert used(engine) == 12, "what it holds is so, whatever the limit"


def test_a_namespace_that_changes_its_quota_takes_its_work_along(engine):
    bring(engine, {}, {"x": holds("x", 4)}, 0)
    bring(engine, {}, {"x": holds("x", 4, quota="b")}, 1)
    assert (used(engine, "a"), used(engine, "b")) == (0, 4)


def test_a_lost_shard_is_in_the_reserve_until_it_is_fenced():
    keeps = Node("root", "", {GPU: Share(8)}, reserve={GPU: 2})
    engine = Engine(Tree.of([keeps]), Anywhere())
    lost = {"west": {GPU: 2}}
    bring(engine, {}, {"x": holds("x", 6, quota="root")}, 0)
    bring(engine, {}, {"x": holds("x", 6, quota="root", lost=lost)}, 1)
    (line,) = engine.report()
    assert (line.used, line.lost) == (6, 2)
    assert engine.book.available("root", GPU) == 2, "the reserve took it"
    bring(engine, {}, {"x": holds("x", 6, quota="root")}, 2)
    (line,) = engine.report()
    assert (line.used, line.lost) == (6, 0)
    assert engine.book.available("root", GPU) == 0
    bring(engine, {}, {"x": holds("x", 6, quota="root", lost=lost)}, 3)
    bring(engine, {}, {}, 4)
    assert not engine.book.lost
    assert used(engine) == 0


def test_an_evicted_gang_waits_where_it_stood(engine):
    bring(engine, {}, {"x": holds("x", 4, leaving_for="y")}, 0)
    assert engine.running()["x"].leaving_for == "y"
    waiting = {"x": Waits(item("x", 4, sequence=1), 0, True), "z": Waits(item("z", 8, "b", 2), 0)}
    bring(engine, waiting, {}, 1)
    assert [each.uid for each, _ in engine.waiting()] == ["x", "z"]
    engine.step(1)
    assert engine.running()["x"].evictions == 1


def reclaim_tree():
    node = Node("b", "root", {GPU: Share(4)}, preemption=Preemption(reclaim="Any"))
    return Tree.of([Node("root", "", {GPU: Share(8)}), Node("a", "root", {GPU: Share(4)}), node])


def test_one_that_was_to_go_and_does_not_know_is_told_again_or_spared():
    engine = Engine(reclaim_tree(), Anywhere())
    running = {"x": holds("x", 8)}
    waiting = {"y": Waits(item("y", 4, "b", 1), 0)}
    assert bring(engine, waiting, running, 1000) == []
    engine.step(1000)
    assert engine.running()["x"].leaving_for == "y"
    assert bring(engine, waiting, running, 1001) == ["x"]
    assert bring(engine, {}, running, 1002) == []
    assert engine.running()["x"].leaving_for == ""


def test_a_restart_remembers_for_whom_something_is_leaving():
    engine = Engine(reclaim_tree(), Anywhere())
    waiting = {
        "y": Waits(item("y", 4, "b", 1), 0),
        "z": Waits(item("z", 4, "b", 0, run_time_s=1), 0),
    }
    bring(engine, waiting, {"x": holds("x", 8, leaving_for="y")}, 1000)
    engine.step(1000)
    bring(engine, waiting | {"x": Waits(item("x", 8), 0, True)}, {}, 1001)
    admitted = [each.uid for each in engine.step(1001) if isinstance(each, Admit)]
    assert admitted[0] == "y"


@given(st.lists(st.dictionaries(st.sampled_from("uvwxyz"), st.tuples(
    st.sampled_from(["waits", "holds", "leaves", "lost"]), st.integers(1, 6), st.sampled_from("ab"),
)), max_size=8))  # fmt: skip
def test_whatever_was_seen_the_sums_are_what_is_held(histories):
    """Any state after any other: no history of events is needed to get there."""
    engine = Engine(tree(8, a=4, b=4), Anywhere())
    for now, history in enumerate(histories):
        waiting, holding = {}, {}
        for uid, (how, size, quota) in history.items():
            if how == "waits":
                waiting[uid] = Waits(item(uid, size, quota, ord(uid)), 0)
            else:
                more = {"leaves": {"leaving_for": "u"}, "lost": {"lost": {"east": {GPU: 1}}}}
                holding[uid] = holds(uid, size, quota=quota, **more.get(how, {}))
        bring(engine, waiting, holding, now)
        assert engine.running().keys() == holding.keys()
        assert {each.uid for each, _ in engine.waiting()} == waiting.keys()
        assert used(engine) == sum(each.standing.amounts[GPU] for each in holding.values())
        before = {uid: replace(run.item) for uid, run in engine.running().items()}
        bring(engine, waiting, holding, now)
        assert {uid: run.item for uid, run in engine.running().items()} == before
        engine.step(now)


def test_another_run_time_counts_of_what_runs():
    """Others are foreseen to start when it ends."""
    engine = Engine(tree(8, a=8), Anywhere())

    def told(run_time_s):
        x = holds("x", 8, started_s=0.0)
        return {"x": Holds(replace(x.item, run_time_s=run_time_s), x.standing)}

    waiting = {"y": Waits(item("y", 4, "a", 1), 0)}
    for run_time_s in (None, 600.0, 60.0, 60.0, None, 90.0):
        bring(engine, waiting, told(run_time_s), 1)
        engine.step(1)
        ((_, why),) = engine.waiting()
        assert why.starts_s == run_time_s
        assert engine.running()["x"].whole.run_time_s == run_time_s
        engine.verify()
    bring(engine, {}, {}, 2)
    assert used(engine) == 0
