"""What an eviction or a recall is taken to lose: by what is said of checkpoints, or expected."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from asking import Anywhere
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.checkpoints import USUAL_RESTART_S, newest_s, not_come, saved_s
from fleet.scheduling.decisions import Preempt
from fleet.scheduling.engine import Engine
from fleet.scheduling.keeping import Holds, bring
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.loans import Recall
from fleet.scheduling.lending.terms import Terms
from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.planner import Fleet, asked_of, item_of
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree
from fleet.scheduling.standing import Standing, expectation_of, wish_of

GPU = Key("nvidia.com/gpu")
HOUR = 3600.0
AT = datetime(2026, 11, 29, 6, tzinfo=UTC).timestamp()
WORK = {"fleet.dev/workload-uid": "w", "fleet.dev/generation": "1"}


def saying(at: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "annotations": {"fleet.dev/checkpointed-at": at}}}


def test_what_is_no_time_says_nothing() -> None:
    assert saved_s(saying("2026-11-29T06:00:00Z")) == AT
    assert saved_s(saying("2026-11-29T07:30:00+01:30")) == AT
    for at in ("", "yesterday", "2026-11-29T06:00:00", "9999999-01-01T00:00:00Z", 7, None):
        assert saved_s(saying(at)) is None
    assert saved_s({}) is saved_s({"metadata": {}}) is None


def test_a_time_is_believed_once_it_has_come_and_the_newest_counts() -> None:
    assert newest_s([AT, None, AT - 60], now=AT) == AT
    assert newest_s([AT, AT - 60], now=AT - 1) == AT - 60, "one that is ahead hides no other"
    assert newest_s([AT], now=AT - 1) is newest_s([], now=AT) is None
    assert not_come(saying("2026-11-29T06:00:00Z"), now=AT) == ""
    assert "2026-11-29T06:00:00Z is to come" in not_come(saying("2026-11-29T06:00:00Z"), now=0)


# -- what the pods of a member say


def pod(build: Any, name: str, at: str | None = None, node: str = "n0", **more: Any) -> Any:
    found = build.pod(name, node, requests={"nvidia.com/gpu": "1"}, labels=WORK, **more)
    if at is not None:
        found["metadata"]["annotations"] = {"fleet.dev/checkpointed-at": at}
    return found


def test_any_pod_may_say_it_and_goes_with_what_it_said(build) -> None:
    accounts = NodeAccounts()
    accounts.upsert_node(build.node("n0", 8))
    accounts.upsert_pod(pod(build, "a"))
    accounts.upsert_pod(pod(build, "b", "2026-11-29T05:00:00Z"))
    assert accounts.saved_s(now=AT) == {"w": AT - HOUR}
    accounts.upsert_pod(pod(build, "a", "2026-11-29T06:00:00Z"))
    assert accounts.saved_s(now=AT) == {"w": AT}
    assert accounts.saved_s(now=AT - 1) == {"w": AT - HOUR}
    accounts.upsert_pod(pod(build, "a", "soon"))
    assert accounts.saved_s(now=AT) == {"w": AT - HOUR}
    accounts.remove_pod(pod(build, "b"))
    assert accounts.saved_s(now=AT) == {}


def test_a_checkpoint_is_no_news_of_what_is_free(build) -> None:
    accounts = NodeAccounts()
    accounts.upsert_node(build.node("n0", 8))
    accounts.upsert_pod(pod(build, "a"))
    picture = accounts.capacity(0.0)
    accounts.upsert_pod(pod(build, "a", "2026-11-29T06:00:00Z"))
    assert not accounts.stale and accounts.capacity(0.0) is picture
    accounts.upsert_pod(pod(build, "a", "2026-11-29T06:00:00Z", phase="Succeeded"))
    assert accounts.stale and accounts.saved_s(now=AT) == {"w": AT}


TIMES = st.sampled_from([None, "soon", *(f"2026-11-29T06:00:0{n}Z" for n in range(4))])
CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.booleans(), TIMES, st.sampled_from(["n0", ""]))
)


@given(CHANGES, st.integers(0, 4))
def test_what_pods_say_is_what_those_say_that_are_there(build, changes, after) -> None:
    accounts, there = NodeAccounts(), {}
    for name, goes, at, node in changes:
        if goes:
            there.pop(name, None)
            accounts.remove_pod(pod(build, name))
        else:
            there[name] = at if node else None
            accounts.upsert_pod(pod(build, name, at, node))
    times = [saved_s(saying(at)) for at in there.values()]
    wanted = newest_s(times, now=AT + after)
    assert accounts.saved_s(now=AT + after) == ({} if wanted is None else {"w": wanted})
    again = NodeAccounts()
    for name, at in there.items():
        if at:
            again.upsert_pod(pod(build, name, at))
    assert again.saved_s(now=AT + after) == accounts.saved_s(now=AT + after)


# -- what it is good for


def item(uid: str, *, size: int = 4, **more: Any) -> Item:
    return Item(uid, "team", more.pop("priority", 0), 0, {GPU: size}, uid, **more)


@pytest.mark.parametrize(
    ("every_s", "saved", "lost"),
    [
        (None, None, 5 * HOUR),
        (HOUR, None, HOUR),
        (9 * HOUR, None, 5 * HOUR),
        (HOUR, 2 * HOUR, 4 * HOUR),
        (HOUR, 6 * HOUR, 0),
        (HOUR, -HOUR, 5 * HOUR),
    ],
    ids=["unknown", "by policy", "younger", "said", "just now", "of an earlier run"],
)
@pytest.mark.parametrize("restart_s", [0.0, 90.0])
def test_what_an_eviction_loses(every_s, saved, lost, restart_s) -> None:
    engine = Engine(Tree(), Anywhere())
    work = item("w", saves_every_s=every_s, restart_s=restart_s)
    bring(engine, {}, {"w": Holds(work, held(work, since=HOUR), saved)}, 6 * HOUR)
    assert engine.running()["w"].lost_s(6 * HOUR) == lost + restart_s


def held(work: Item, *, since: float = 0.0) -> Standing:
    return Standing(work.requests, {"east": work.requests}, started_s=since)


def test_what_is_said_and_what_its_policy_lets_expect_may_change_while_it_runs() -> None:
    engine = Engine(Tree(), Anywhere())
    for every_s, saved, restart_s, lost in (
        (None, None, 0, 9 * HOUR), (2 * HOUR, None, 0, 2 * HOUR), (HOUR, 8 * HOUR, 0, HOUR),
        (HOUR, None, 0, HOUR), (HOUR, None, 60, HOUR + 60), (None, None, 0, 9 * HOUR),
    ):  # fmt: skip
        work = item("w", saves_every_s=every_s, restart_s=restart_s)
        bring(engine, {}, {"w": Holds(work, held(work), saved)}, 9 * HOUR)
        assert engine.running()["w"].lost_s(9 * HOUR) == lost
    engine.evicted("w", 9 * HOUR)
    assert engine.waits("w").restart_s == 0


def test_a_workload_that_nobody_knows_the_policy_of_saves_nothing_that_is_known(build) -> None:
    job = build.job(1)
    job["metadata"]["annotations"] = {"fleet.dev/checkpointed-at": "2026-11-29T06:00:00Z"}
    found = expectation_of(job, {"spec": {"policy": {"namespace": "default", "name": "gang"}}})
    assert found.saved_s == AT
    spec = build.policy({"objective": {"checkpoint": {"every": "10m"}}}).spec
    assert found.checkpoint({("default", "gang"): spec}) == spec.objective.checkpoint
    assert found.checkpoint({}) is None


def test_what_a_policy_says_of_checkpoints_is_what_its_work_loses(build) -> None:
    """What says nothing loses as much as what has no policy that is known, but for its work."""
    for said, every_s, restart_s in (
        ({"every": "10m", "restart": "90s"}, 600.0, 90.0),
        ({}, 1800.0, USUAL_RESTART_S),
    ):
        rules = build.policy({"workloads": {}, "objective": {"checkpoint": said}})
        job = build.job(1)
        asked = asked_of(job, None, Fleet((), (rules,)), now=build.now)
        found = item_of(asked, wish_of(job), quota="team", sequence=0, preempts=True)
        assert (found.saves_every_s, found.restart_s) == (every_s, restart_s)
    assert item("w").restart_s == USUAL_RESTART_S


@pytest.mark.parametrize(("restart_s", "goes"), [(10 * 60.0, True), (3 * HOUR, False)])
def test_what_takes_longer_to_start_again_than_others_would_wait_stays(restart_s, goes) -> None:
    engine = Engine(Tree.of([Node("team", "", {GPU: Share(4)})]), Anywhere())
    work = item("w", run_time_s=2 * HOUR, restart_s=restart_s)
    bring(engine, {}, {"w": Holds(work, held(work), HOUR / 2)}, HOUR / 2)
    engine.submit(item("urgent", priority=5), HOUR / 2)
    assert any(isinstance(e, Preempt) for e in engine.step(HOUR / 2)) is goes


@pytest.mark.parametrize("quick", ["a", "b"])
def test_of_two_victims_the_one_goes_that_starts_again_sooner(quick) -> None:
    engine = Engine(Tree.of([Node("team", "", {GPU: Share(8)})]), Anywhere())
    works = [item(uid, restart_s=60.0 if uid == quick else 120.0) for uid in ("a", "b")]
    told = {work.uid: Holds(work, held(work), 10 * HOUR) for work in works}
    bring(engine, {}, told, 10 * HOUR)
    engine.submit(item("urgent", priority=5), 10 * HOUR)
    (decided,) = (e for e in engine.step(10 * HOUR) if isinstance(e, Preempt))
    assert decided.victims == (quick,)


def full(*works: tuple[Item, float | None], now: float, **rules: Any) -> Engine:
    """A team whose quota is used up by these, each with when it saved."""
    size = sum(work.requests[GPU] for work, _ in works)
    engine = Engine(
        Tree.of([Node("team", "", {GPU: Share(size)})]), Anywhere(), rules=Rules(**rules)
    )
    bring(engine, {}, {work.uid: Holds(work, held(work), saved) for work, saved in works}, now)
    return engine


def gone(engine: Engine, now: float) -> tuple[str, ...]:
    """Who is told to go for others."""
    return sum((e.victims for e in engine.step(now) if isinstance(e, Preempt)), ())


SAVES = {"saves_every_s": HOUR, "restart_s": 300.0}


def test_what_is_about_to_save_goes_once_it_has() -> None:
    engine = full((item("w", **SAVES), 9 * HOUR), now=9.9 * HOUR)
    engine.submit(item("urgent", priority=5), 9.9 * HOUR)
    assert gone(engine, 9.9 * HOUR) == ()
    why = engine.why("urgent")
    assert (why.spared, why.spared_s, why.saves) == ("w", pytest.approx(10.1 * HOUR), True)
    assert engine.lets_save(), "what it says is news"
    engine.saved("w", 9 * HOUR)
    assert gone(engine, 9.95 * HOUR) == (), "that is said again, and nothing else"
    engine.saved("w", 10 * HOUR)
    assert gone(engine, 10.02 * HOUR) == ("w",)
    assert not engine.lets_save()


def test_a_checkpoint_that_does_not_come_is_not_waited_for_longer() -> None:
    engine = full((item("w", **SAVES), 9 * HOUR), now=9.9 * HOUR)
    engine.submit(item("urgent", priority=5), 9.9 * HOUR)
    assert gone(engine, 9.9 * HOUR) == ()
    at = engine.next_s()
    assert at == pytest.approx(10.1 * HOUR)
    assert gone(engine, at) == ("w",)


@pytest.mark.parametrize(
    ("saved", "victim", "urgent"),
    [
        (9.7 * HOUR, {}, {}),
        (None, {}, {}),
        (9 * HOUR, {"saves_every_s": None}, {}),
        (8.5 * HOUR, {}, {}),
        (9 * HOUR, {}, {"queues": False}),
        (9 * HOUR, {}, {"latest_s": 10 * HOUR}),
        (9 * HOUR, {"run_time_s": 10 * HOUR}, {}),
    ],
    ids=["just saved", "never said", "no policy", "overdue", "service", "deadline", "soon over"],
)
def test_it_goes_at_once_where_nothing_is_gained_by_waiting(saved, victim, urgent) -> None:
    rules = {"worth": None, "patience_s": 0}
    engine = full((item("w", **{**SAVES, **victim}), saved), now=9.9 * HOUR, **rules)
    engine.submit(item("urgent", priority=5, **urgent), 9.9 * HOUR)
    assert gone(engine, 9.9 * HOUR) == ("w",)


def test_of_two_victims_the_one_that_saves_soon_is_waited_for() -> None:
    soon, later = item("a", **SAVES), item("b", **SAVES)
    engine = full((soon, 9 * HOUR), (later, 9.5 * HOUR), now=9.98 * HOUR)
    engine.submit(item("urgent", priority=5), 9.98 * HOUR)
    assert gone(engine, 9.98 * HOUR) == ()
    assert engine.why("urgent").spared == "a"
    engine.saved("a", 10 * HOUR)
    assert gone(engine, 10 * HOUR) == ("a",)


def test_of_several_that_go_together_those_are_waited_for_that_lose_more_by_it() -> None:
    """The one saves within 80 seconds; what the other does in that time may be worth more."""
    for size, waits in ((16, True), (1, False)):
        first = item("a", size=size, **{**SAVES, "saves_every_s": 600.0})
        engine = full((first, 10 * HOUR - 580), (item("b", size=16), None), now=10 * HOUR)
        engine.submit(item("urgent", size=16 + size, priority=5), 10 * HOUR)
        assert (gone(engine, 10 * HOUR) == ()) is waits


def test_of_two_victims_the_one_goes_that_has_just_saved() -> None:
    tree = Tree.of([Node("team", "", {GPU: Share(8)})])
    for fresh in ("a", "b"):
        engine = Engine(tree, Anywhere(), rules=Rules(patience_s=0, worth=None))
        holds = {uid: item(uid) for uid in ("a", "b")}
        told = {
            uid: Holds(work, held(work), 9 * HOUR if uid == fresh else 2 * HOUR)
            for uid, work in holds.items()
        }
        bring(engine, {}, told, 10 * HOUR)
        engine.submit(item("urgent", priority=5), 10 * HOUR)
        (decided,) = (e for e in engine.step(10 * HOUR) if isinstance(e, Preempt))
        assert decided.victims == (fresh,)


@pytest.mark.parametrize("by", ["saved", "restart"])
@pytest.mark.parametrize("cheap", ["b", "c"])
def test_of_two_loans_that_one_comes_back_that_loses_less(cheap, by) -> None:
    """It has just saved, or starts again sooner."""
    tree = Tree.of([
        Node("company", "", {GPU: Share(16)}),
        Node("serving", "company", {GPU: Share(8)}),
        Node("team", "company", {GPU: Share(8)}),
    ])  # fmt: skip
    night = Terms("night", "serving", ("team",), keep_floor="None", term_s=100 * HOUR)
    engine = Engine(tree, Anywhere())
    desk = Desk(engine, Anywhere(), tree, [night])
    for uid, size in (("a", 8), ("b", 4), ("c", 4)):
        sooner = by == "restart" and uid == cheap
        engine.submit(item(uid, size=size, restart_s=30.0 if sooner else 60.0), 0)
        desk.step(0)
    assert desk.loans.keys() == {"b", "c"}
    for uid in ("b", "c"):
        engine.saved(uid, 9 * HOUR if by == "saved" and uid == cheap else 2 * HOUR)
    need = replace(item("web", size=4), quota="serving")
    engine.adopt(need, Placed(None, {"east": {GPU: 4}}), 10 * HOUR)
    recalled = [e.uid for e in desk.step(10 * HOUR) if isinstance(e, Recall)]
    assert recalled == [cheap]


@pytest.mark.parametrize("say", ["saved, long ago", "saves more rarely"])
def test_nobody_is_waited_for_longer_than_was_told_first(say) -> None:
    work = item("w", **SAVES)
    engine = full((work, 9 * HOUR), now=9.9 * HOUR)
    engine.submit(item("urgent", priority=5), 9.9 * HOUR)
    assert gone(engine, 9.9 * HOUR) == ()
    if say == "saved, long ago":
        engine.saved("w", 9.02 * HOUR)
    else:
        slower = replace(work, saves_every_s=1.1 * HOUR)
        told = {"w": Holds(slower, held(slower), 9 * HOUR)}
        bring(engine, {}, told, 9.95 * HOUR, among={"w"})
    assert gone(engine, 10.1 * HOUR) == ("w",)


def test_meanwhile_another_goes_that_has_saved() -> None:
    engine = full((item("w", **SAVES), 9 * HOUR), (item("v", **SAVES), 9.3 * HOUR), now=9.9 * HOUR)
    engine.submit(item("urgent", priority=5), 9.9 * HOUR)
    assert gone(engine, 9.9 * HOUR) == ()
    assert engine.why("urgent").spared == "w"
    engine.saved("v", 9.905 * HOUR)
    assert gone(engine, 9.91 * HOUR) == ("v",)


def test_meanwhile_another_goes_that_is_spared_no_longer() -> None:
    now = 9.9 * HOUR
    least = Preemption(within="LowerPriority", reclaim="Never", min_run_time_s=600)
    engine = Engine(Tree.of([Node("team", "", {GPU: Share(8)}, preemption=least)]), Anywhere())
    works = item("w", saves_every_s=2 * HOUR), item("young", **SAVES)
    told = {
        "w": Holds(works[0], held(works[0]), 8.5 * HOUR),
        "young": Holds(works[1], held(works[1], since=now - 300), now),
    }
    bring(engine, {}, told, now)
    engine.submit(item("urgent", priority=5), now)
    assert gone(engine, now) == ()
    why = engine.why("urgent")
    assert (why.spared, why.spared_s, why.saves) == ("w", pytest.approx(10.7 * HOUR), True)
    assert engine.next_s() == pytest.approx(now + 300)
    engine.saved("young", now + 300)
    assert gone(engine, now + 301) == ("young",)
