"""Traces in virtual time: the published load shapes and what replaying them over a member gives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from asking import Anywhere, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_loads import BASELINE, LARGE, TOPOLOGY, Load, Pods, member, shortened
from queue_replay import Outcome, replay

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.engine import Engine
from fleet.scheduling.placement import Plan
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

if TYPE_CHECKING:
    from fleet.scheduling.rooms import Rooms

EAGER = Rules(worth=None, patience_s=0)
CPU = Key("cpu")
GPU = Key("nvidia.com/gpu", "h200")


class Watched(Engine):
    """Sums up by itself what runs in each queue and cohort, and holds it against the limits."""

    def __init__(self, load: Load, placer: Rooms) -> None:
        super().__init__(load.tree(), placer, rules=Rules(patience_s=0))
        self.cohort_cpu = load.queues * 20_000
        self.queues: Counter[str] = Counter()
        self.cohorts: Counter[str] = Counter()
        self.held: dict[str, tuple[str, int]] = {}

    def _drop(self, uid: str) -> None:
        queue, cpu = self.held.pop(uid)
        self.queues[queue] -= cpu
        self.cohorts[queue.split("-")[1]] -= cpu

    def finish(self, uid: str) -> None:
        self._drop(uid)
        super().finish(uid)

    def evicted(self, uid: str, now: float) -> None:
        self._drop(uid)
        super().evicted(uid, now)

    def step(self, now: float) -> list[object]:  # type: ignore[override]
        told = super().step(now)
        for each in told:
            if isinstance(each, Admit):
                queue, cpu = each.item.quota, each.item.requests[CPU]
                self.held[each.uid] = (queue, cpu)
                self.queues[queue] += cpu
                self.cohorts[queue.split("-")[1]] += cpu
                assert self.queues[queue] <= 120_000
                assert self.cohorts[queue.split("-")[1]] <= self.cohort_cpu
            elif isinstance(each, Preempt):
                assert set(each.victims) <= self.held.keys()
        return [*told]


def play(load: Load) -> Outcome:
    arrivals = load.arrivals()
    engine = Watched(load, opened([load.member()], [item for _, item in arrivals]))
    told = replay(engine, arrivals, class_of=lambda item: item.uid.partition("-")[0])
    engine.verify()
    return told


def test_the_loads_are_those_that_were_published() -> None:
    assert [load.workloads for load in (BASELINE, LARGE, TOPOLOGY)] == [15_000, 50_000, 15_000]
    assert BASELINE.work_bound_s == pytest.approx(66.0)
    assert LARGE.work_bound_s == pytest.approx(4.025)
    arrivals = BASELINE.arrivals()
    assert len(arrivals) == 15_000
    assert [at for at, _ in arrivals] == sorted(at for at, _ in arrivals)
    kinds = Counter(
        (item.uid.partition("-")[0], item.shape.topology)
        for _, item in TOPOLOGY.arrivals()
        if isinstance(item.shape, Pods) and item.quota == "queue-0-0"
    )
    assert kinds["small", "Required"] == 120
    assert kinds["medium", "Balanced"] == 33
    assert kinds["large", "Balanced"] == 16


def test_the_baseline_ends_within_a_tenth_of_what_its_work_takes() -> None:
    load = shortened(BASELINE, share=5)
    told = play(load)
    assert told.unfinished == 0
    assert told.makespan_s <= 1.1 * load.work_bound_s
    assert told.mean_wait_s("large") <= 6.7
    assert told.evicted_amount <= told.requested_amount
    assert told.beyond_rounding <= 0
    assert told.used == load.work_bound_s * 600_000
    assert told.admitted == load.workloads + told.evicted
    assert told.evicted


@pytest.mark.parametrize("load", [LARGE, TOPOLOGY], ids=["large", "topology"])
def test_the_other_loads_end_too(load: Load) -> None:
    short = shortened(load, share=7)
    told = play(short)
    assert told.unfinished == 0
    assert told.beyond_rounding <= 0
    assert sum(len(waits) for waits in told.waits_s.values()) == short.workloads


def test_the_same_trace_gives_the_same_outcome() -> None:
    short = shortened(BASELINE, share=25)
    assert play(short) == play(short)


def test_evicted_work_is_lost_and_runs_again() -> None:
    engine = Engine(
        Tree.of([Node("a", "", {GPU: Share(8)})]),
        Anywhere(),
        rules=EAGER,
    )
    low = Item("low", "a", 0, 0, {GPU: 8}, "low", run_time_s=10)
    high = Item("high", "a", 1, 1, {GPU: 8}, "high", run_time_s=5)
    told = replay(
        engine, [(0, low), (4_000, high)], class_of=lambda item: item.uid, leaving_ms=2_000
    )
    assert told.makespan_s == 4 + 2 + 5 + 10
    assert (told.lost, told.used) == (32.0, 120.0)
    assert (told.waits_s["high"], told.waits_s["low"]) == ([2.0], [11.0])


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(100, 2_000), st.integers(0, 300)),
        min_size=30,
        max_size=60,
    ),
    st.booleans(),
)
def test_the_largest_gang_waits_no_longer_than_what_ran_before_it(
    stream: list[tuple[int, int, int]], declared: bool
) -> None:
    """Under a stream of small work that never lets enough go at once."""
    arrivals, at_ms = [], 0
    for number, (size, runs_ms, later_ms) in enumerate(stream):
        at_ms += later_ms
        run_time_s = runs_ms / 1000 if declared else None
        work = Item(f"w{number}", "a", 0, number, {GPU: size}, number, run_time_s=run_time_s)
        arrivals.append((at_ms, work))
    comes_ms = arrivals[20][0]
    arrivals.insert(20, (comes_ms, Item("large", "a", 0, 20, {GPU: 8}, "large", run_time_s=1.0)))
    engine = Engine(Tree.of([Node("a", "", {GPU: Share(8)})]), Anywhere())
    runs = {f"w{number}": runs_ms for number, (_, runs_ms, _) in enumerate(stream)}
    told = replay(
        engine,
        arrivals,
        class_of=lambda item: item.uid,
        run_ms=lambda item: runs.get(item.uid, 1_000),
    )
    # Those before it in line may still have to start; none of those after it may delay it.
    before_ms = sum(runs[f"w{number}"] for number in range(20))
    assert told.waits_s["large"][0] * 1000 <= before_ms
    alone = replay(
        Engine(Tree.of([Node("a", "", {GPU: Share(8)})]), Anywhere()),
        arrivals[:21],
        class_of=lambda item: item.uid,
        run_ms=lambda item: runs.get(item.uid, 1_000),
    )
    assert told.waits_s["large"][0] <= alone.waits_s["large"][0] + max(runs.values()) / 1000


def test_work_that_runs_longer_than_it_declares_delays_but_breaks_nothing() -> None:
    engine = Engine(Tree.of([Node("a", "", {GPU: Share(8)})]), Anywhere())
    items = [
        (0, Item(f"w{n}", "a", 0, n, {GPU: 3 + n % 5}, n % 5, run_time_s=1.0)) for n in range(20)
    ]
    told = replay(engine, items, class_of=lambda item: "w", run_ms=lambda item: 2_500)
    assert told.unfinished == 0
    assert told.admitted == 20


@pytest.mark.parametrize(
    ("asked", "racks"),
    [
        pytest.param(Pods(8, 1000, "Required"), {"r0": 8}, id="whole in one rack"),
        pytest.param(Pods(9, 1000, "Required"), None, id="too large for a rack"),
        pytest.param(Pods(10, 1000, "Preferred"), {"r0": 8, "r1": 2}, id="in as few as do"),
        pytest.param(Pods(12, 1000, "Balanced", 4), {"r0": 8, "r1": 4}, id="in slices"),
        pytest.param(Pods(4, 3000, "Preferred"), {"r0": 2, "r1": 2}, id="no pod in two parts"),
    ],
)
def test_a_gang_is_put_into_racks_as_it_asks(asked: Pods, racks: dict[str, int] | None) -> None:
    one = Item("w", "", 0, 0, {CPU: asked.count * asked.cpu_m}, asked, demand=asked.demand("w"))
    found = opened([member(racks=3, nodes=2, cpu_m=4000)], [one]).place(one)
    if racks is None:
        assert isinstance(found, Unplaced)
        assert not found.ever
        return
    assert isinstance(found, Placed)
    assert isinstance(found.plan, Plan)
    assert dict(found.plan.shards[0].blocks) == racks
