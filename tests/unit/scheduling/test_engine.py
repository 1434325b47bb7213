"""The engine: who starts, who waits and why, who goes for whom."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from asking import Anywhere

from fleet.errors import InternalError
from fleet.scheduling.decisions import Admit, Preempt, Refuse, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree

if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.scheduling.decisions import Decision

GPU = Key("nvidia.com/gpu", "h200")
CPU = Key("cpu")


class Members:
    """A Placer over members with so many accelerators each; a gang stays in one."""

    def __init__(self, **free: int) -> None:
        self.size = dict(free)
        self.taken: dict[str, Placed] = {}
        self.asked = 0

    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        self.asked += 1
        need = item.requests.get(GPU, 0)
        for name in sorted(self.size):
            used = sum(
                amounts.get(GPU, 0)
                for uid, placed in self.taken.items()
                if uid not in without
                for member, amounts in placed.clusters.items()
                if member == name
            )
            if self.size[name] - used >= need:
                return Placed(name, {name: {GPU: need}})
        return Unplaced("too small", ever=need <= max(self.size.values(), default=0))

    def take(self, uid: str, placed: Placed) -> None:
        self.taken[uid] = placed

    def give(self, uid: str) -> None:
        self.taken.pop(uid, None)


def node(
    name: str, parent: str = "", preemption: Preemption | None = None, **share: int | None
) -> Node:
    shares = {GPU: Share(**share)} if share else {}  # type: ignore[arg-type]
    return Node(name, parent, shares, preemption=preemption or Preemption())


def two(
    a: int = 8, b: int = 8, *, limit: int | None = None, policy: Preemption | None = None
) -> Tree:
    """Nodes a and b under a root that has what they have; `policy` is a's."""
    return Tree.of(
        [
            node("root", guaranteed=a + b),
            node("a", "root", policy, guaranteed=a, limit=limit),
            node("b", "root", None, guaranteed=b, limit=limit),
        ]
    )


class Case:
    """An engine, items numbered as they come, a clock that is moved by hand."""

    def __init__(self, tree: Tree, placer: Any = None, **rules: Any) -> None:
        self.placer = placer or Anywhere()
        self.engine = Engine(
            tree,
            self.placer,
            rules=Rules(**{"worth": None, "patience_s": 0, **rules}),
        )
        self.now = 0.0
        self.sequence = 0

    def item(self, uid: str, quota: str, size: int, priority: int = 0, **more: Any) -> Item:
        self.sequence += 1
        requests = more.pop("requests", {GPU: size})
        shape = more.pop("shape", (size, str(sorted(requests.items()))))
        sequence = more.pop("sequence", self.sequence)
        more = {"restart_s": 0, **more}
        return Item(uid, quota, priority, sequence, requests, shape, **more)

    def submit(self, uid: str, quota: str, size: int, priority: int = 0, **more: Any) -> None:
        self.engine.submit(self.item(uid, quota, size, priority, **more), self.now)

    def step(self, later: float = 0) -> list[Decision]:
        self.now += later
        told = self.engine.step(self.now)
        self.engine.verify()
        return told

    def start(self, uid: str, quota: str, size: int, priority: int = 0, **more: Any) -> None:
        self.submit(uid, quota, size, priority, **more)
        assert uid in admitted(self.step()), f"{uid} did not start"

    def evict(self, *uids: str) -> None:
        for uid in uids:
            self.engine.evicted(uid, self.now)

    def why(self, uid: str) -> str:
        return next(str(why) for item, why in self.engine.waiting() if item.uid == uid)

    def used(self, name: str) -> int:
        return next(line.used for line in self.engine.report() if line.node == name)


def admitted(told: list[Decision]) -> list[str]:
    return [each.uid for each in told if isinstance(each, Admit)]


def evicted(told: list[Decision]) -> dict[str, tuple[str, ...]]:
    return {each.uid: each.victims for each in told if isinstance(each, Preempt)}


def waits(told: list[Decision]) -> dict[str, str]:
    return {each.uid: each.why.reason for each in told if isinstance(each, Wait)}


NEVER = Preemption(within="Never", reclaim="Never")


# Order


def test_a_line_goes_by_priority_then_by_sequence() -> None:
    case = Case(two(a=8, b=0, limit=8))
    case.submit("late", "a", 4, sequence=9)
    case.submit("early", "a", 4, sequence=3)
    case.submit("urgent", "a", 4, priority=1, sequence=12)
    assert admitted(case.step()) == ["urgent", "early"]
    case.engine.finish("urgent")
    assert admitted(case.step()) == ["late"]


def test_what_is_within_its_guarantee_goes_before_what_borrows() -> None:
    """kueue#3405."""
    case = Case(two())
    case.submit("borrows", "a", 12, priority=100)
    case.submit("owns", "b", 8)
    assert admitted(case.step()) == ["owns"]


def test_borrowers_take_turns_by_how_much_they_use() -> None:
    tree = Tree.of([node("root", guaranteed=8), *(node(n, "root", guaranteed=0) for n in "ab")])
    case = Case(tree)
    for number in range(4):
        case.submit(f"a{number}", "a", 2)
    for number in range(4):
        case.submit(f"b{number}", "b", 2)
    assert admitted(case.step()) == ["a0", "b0", "a1", "b1"]


def test_a_lenders_head_that_cannot_start_keeps_nobody_from_borrowing() -> None:
    """kueue#4809."""
    case = Case(two(limit=12), Members(east=8, west=8))
    case.submit("no-member-is-so-big", "b", 12)
    case.submit("borrows", "a", 8)
    case.submit("more", "a", 4)
    assert admitted(case.step()) == ["borrows", "more"]


def test_a_small_one_passes_a_large_one_that_it_does_not_delay() -> None:
    case = Case(two(a=8, b=0, limit=8))
    case.start("runs", "a", 6, run_time_s=100)
    case.submit("large", "a", 8)
    case.submit("ends-in-time", "a", 2, run_time_s=100)
    told = case.step()
    assert admitted(told) == ["ends-in-time"]
    assert next(each.ahead for each in told if isinstance(each, Admit))
    assert waits(told) == {"large": "Quota"}
    case.submit("too-long", "a", 1, run_time_s=101)
    case.submit("who-knows", "a", 1)
    case.engine.finish("ends-in-time")
    assert admitted(case.step()) == []
    case.submit("short", "a", 2, run_time_s=99)
    assert admitted(case.step(1)) == ["short"]
    case.now = 100
    case.engine.finish("runs")
    case.engine.finish("short")
    assert admitted(case.step()) == ["large"]


@pytest.mark.parametrize("run_time_s", [None, 10])
def test_a_large_gang_starts_under_a_stream_of_small_ones(run_time_s: float | None) -> None:
    """kueue#8309: small ones kept overtaking."""
    case = Case(two(a=8, b=0, limit=8))
    for number in range(8):
        case.start(f"small-{number}", "a", 1, run_time_s=run_time_s)
    case.submit("large", "a", 8, run_time_s=run_time_s)
    running = [f"small-{number}" for number in range(8)]
    started = []
    for number in range(8, 40):
        case.submit(f"small-{number}", "a", 1, run_time_s=run_time_s)
        case.engine.finish(running.pop(0))
        told = admitted(case.step(10 / 8))
        started += told
        running += told
        if "large" in told:
            break
    assert started == ["large"]


def test_at_its_last_moment_to_start_work_goes_before_others_of_its_priority() -> None:
    case = Case(two(a=8, b=0, limit=8, policy=NEVER))
    case.start("runs", "a", 8)
    case.submit("early", "a", 8)
    case.submit("due", "a", 8, latest_s=50)
    case.submit("urgent", "a", 8, priority=1)
    case.step()
    assert case.engine.next_s() == 50
    case.now = 50
    case.engine.finish("runs")
    for expected in ("urgent", "due", "early"):
        assert admitted(case.step()) == [expected]
        case.engine.finish(expected)


def test_aged_work_goes_before_newer_work_of_higher_priority() -> None:
    case = Case(two(a=8, b=0, limit=8, policy=NEVER), aging_s=100)
    case.start("first", "a", 8)
    case.submit("old", "a", 8)
    case.step(99)
    case.submit("urgent", "a", 8, priority=1)
    case.step(1)
    case.engine.finish("first")
    assert admitted(case.step()) == ["old"]


def test_a_gang_short_of_accelerators_holds_up_nobody_who_asks_for_cores() -> None:
    shares = {GPU: Share(8), CPU: Share(8)}
    case = Case(Tree.of([Node("a", "", shares)]))
    case.start("runs", "a", 0, requests={GPU: 4, CPU: 1})
    case.submit("head", "a", 0, requests={GPU: 8})
    case.submit("cores", "a", 0, requests={CPU: 7})
    assert admitted(case.step()) == ["cores"]


# Waking


def test_work_wakes_when_something_is_released_and_not_before() -> None:
    """skypilot#5494: capacity idle while all slept."""
    case = Case(two(a=8, b=0, limit=8), Members(east=8))
    case.start("runs", "a", 8)
    for number in range(4):
        case.submit(f"w{number}", "a", 2)
    case.step()
    asked = case.placer.asked
    for _ in range(50):
        assert case.step(1) == []
    assert case.placer.asked == asked, "nothing happened, nobody was asked"
    case.engine.finish("runs")
    assert admitted(case.step()) == ["w0", "w1", "w2", "w3"]


def test_a_no_for_want_of_capacity_is_forgotten_when_capacity_changes() -> None:
    """KAI#1217: an idle rack, the gang refused until the scheduler was restarted."""
    case = Case(two(), Members(east=2))
    case.submit("large", "a", 8)
    assert waits(case.step()) == {"large": "NoSuchCapacity"}
    case.placer.size["east"] = 8
    case.engine.capacity_changed()
    assert admitted(case.step()) == ["large"]


def test_a_no_for_want_of_quota_is_forgotten_when_quota_changes() -> None:
    case = Case(two(a=8, limit=8))
    case.submit("large", "a", 12)
    assert waits(case.step()) == {"large": "AboveLimit"}
    case.engine.quota_changed(two(a=8))
    assert admitted(case.step()) == ["large"]


def test_work_is_never_given_up_however_often_it_was_tried() -> None:
    """kueue#15255: spot was dry for long, the job was deactivated for good."""
    case = Case(two(), Members(east=2))
    case.submit("large", "a", 8)
    for _ in range(300):
        case.engine.capacity_changed()
        case.step(60)
    case.placer.size["east"] = 8
    case.engine.capacity_changed()
    assert admitted(case.step()) == ["large"]


def test_who_waits_is_told_once_and_again_when_the_reason_changes() -> None:
    case = Case(two(a=8, b=0, limit=8), Members(east=8))
    case.start("runs", "a", 8)
    case.submit("w", "a", 4)
    assert waits(case.step()) == {"w": "Quota"}
    assert case.why("w") == "node a is short of 4 nvidia.com/gpu (h200)"
    case.engine.set_unmanaged("b", "east", {})
    case.engine.quota_changed(two(a=16, b=0))
    assert waits(case.step()) == {"w": "Capacity"}
    assert case.step() == []


# Quota


def test_what_fits_in_no_member_holds_no_quota() -> None:
    """kueue#8602."""
    case = Case(two(), Members(east=4))
    case.submit("large", "a", 8)
    case.step()
    assert case.used("a") == 0
    case.start("small", "a", 4)
    assert case.used("a") == 4


def test_what_waits_for_a_member_with_no_end_in_sight_holds_no_quota_from_others() -> None:
    """kueue#8602: nor when those come later, one after the other."""
    case = Case(two(a=12, b=0), Members(east=8, west=4))
    case.start("runs", "a", 1)
    case.submit("large", "a", 8)
    case.step()
    assert case.why("large").startswith("no member has room")
    assert case.used("a") == 1
    case.submit("w", "a", 2, shape="w")
    case.submit("v", "a", 2, shape="v")
    assert admitted(case.step()) == ["w", "v"]
    assert case.used("a") == 5


def test_that_there_is_quota_for_it_is_no_end_in_sight_for_what_waits_for_a_member() -> None:
    """Nor when somebody else's turn by quota is foreseen in between."""
    tree = Tree.of([Node("a", "", {GPU: Share(32), CPU: Share(8)})])
    case = Case(tree, Members(east=8), aging_s=50)
    case.start("runs", "a", 0, requests={GPU: 4, CPU: 4})
    case.submit("large", "a", 8)
    case.step()
    case.now = 60
    case.submit("cores", "a", 0, requests={CPU: 8})
    case.submit("small", "a", 1)
    case.engine.capacity_changed()
    told = case.step()
    assert admitted(told) == []
    assert waits(told) == {"cores": "Quota", "small": "Behind"}


def test_as_many_start_as_fit_however_many_come_at_once() -> None:
    """karmada#1385, karmada#6518: all saw the same free capacity."""
    case = Case(two(a=64, b=0), Members(east=2, west=2))
    for number in range(20):
        case.submit(f"w{number:02}", "a", 1)
    told = case.step()
    assert admitted(told) == ["w00", "w01", "w02", "w03"]
    members = [each.placed.plan for each in told if isinstance(each, Admit)]
    assert members == ["east", "east", "west", "west"]


def test_two_nodes_never_get_the_same_room_in_one_step() -> None:
    """kueue#14570."""
    case = Case(two(), Members(east=8))
    case.submit("one", "a", 8)
    case.submit("other", "b", 8)
    told = case.step()
    assert admitted(told) == ["one"]
    assert waits(told) == {"other": "Capacity"}


def test_finished_indexes_hold_nothing() -> None:
    """kueue#13178: hold = running + required pending only."""
    case = Case(two(a=8, b=0, limit=8))
    case.start("job", "a", 8)
    case.submit("next", "a", 3)
    case.step()
    assert case.engine.resize("job", 2, {GPU: 5})
    assert admitted(case.step()) == ["next"]
    assert case.used("a") == 8


def test_a_resize_above_what_is_available_changes_nothing() -> None:
    case = Case(two(a=8, b=0, limit=8))
    case.start("job", "a", 4)
    case.start("other", "a", 4)
    assert not case.engine.resize("job", 2, {GPU: 5})
    assert case.engine.resize("job", 3, {GPU: 2})
    assert not case.engine.resize("job", 3, {GPU: 1}), "the same generation says the same"
    assert not case.engine.resize("job", 2, {GPU: 1})
    assert case.used("a") == 6


def test_an_elastic_gang_starts_as_large_as_quota_allows() -> None:
    case = Case(two(a=8, b=0, limit=8))
    case.start("runs", "a", 3)
    case.submit("elastic", "a", 8, least={GPU: 4})
    told = case.step()
    assert [dict(each.requests) for each in told if isinstance(each, Admit)] == [{GPU: 5}]
    case.evict("elastic")
    case.engine.finish("runs")
    assert [dict(e.requests) for e in case.step() if isinstance(e, Admit)] == [{GPU: 8}]


def test_an_elastic_gang_behind_others_starts_smaller_where_the_whole_would_not_fit() -> None:
    case = Case(two(a=8, b=0, limit=8))
    case.start("runs", "a", 8, run_time_s=100)
    case.submit("head", "a", 8)
    case.submit("elastic", "a", 8, least={GPU: 1}, run_time_s=10, shape="elastic")
    assert waits(case.step()) == {"head": "Quota", "elastic": "Quota"}
    assert case.engine.resize("runs", 2, {GPU: 6})
    assert [dict(e.requests) for e in case.step() if isinstance(e, Admit)] == [{GPU: 2}]


def test_a_job_over_quota_waits_and_a_service_is_refused() -> None:
    case = Case(two(a=8, limit=8))
    case.start("runs", "a", 8)
    case.submit("job", "a", 1)
    case.submit("service", "a", 1, queues=False)
    told = case.step()
    assert waits(told) == {"job": "Quota"}
    assert [each.uid for each in told if isinstance(each, Refuse)] == ["service"]
    case.engine.finish("runs")
    assert admitted(case.step()) == ["job"]


def test_a_service_takes_back_what_was_lent_before_it_is_refused() -> None:
    case = Case(two())
    case.start("borrows", "b", 16)
    case.now = 1
    case.submit("service", "a", 1, queues=False)
    assert evicted(case.step()) == {"service": ("borrows",)}
    case.evict("borrows")
    assert admitted(case.step()) == ["service"]


def test_work_of_an_unknown_quota_waits_and_work_of_none_is_not_limited() -> None:
    case = Case(two(), Members(east=99))
    case.submit("lost", "nobody", 1)
    case.submit("free", "", 90)
    told = case.step()
    assert (admitted(told), waits(told)) == (["free"], {"lost": "NoSuchQuota"})
    assert case.why("lost") == "there is no quota nobody"


def test_a_lost_shard_is_replaced_out_of_the_reserve() -> None:
    reserve = {GPU: 2}
    tree = Tree.of([Node("a", "", {GPU: Share(8)}, reserve)])
    case = Case(tree)
    case.start("job", "a", 6)
    case.submit("more", "a", 2)
    assert waits(case.step()) == {"more": "Quota"}
    case.engine.lose("job", "east", {GPU: 2})
    assert case.engine.resize("job", 2, {GPU: 6}), "the replacement, while the old is not fenced"
    assert admitted(case.step()) == []
    case.engine.fenced("job", "east")
    assert admitted(case.step()) == [], "the reserve is free again, for the next loss"
    case.engine.finish("job")
    assert admitted(case.step()) == ["more"]


def test_what_waits_is_counted_as_what_it_asks_for() -> None:
    """KAI#1847: demand valued with a sentinel, on the first and only kind of node."""
    case = Case(two(a=0, b=0))
    case.submit("w", "a", 3)
    case.step()
    waiting = {line.node: (line.waiting, line.waiting_gangs) for line in case.engine.report()}
    assert waiting == {"root": (3, 1), "a": (3, 1), "b": (0, 0)}


# Preemption


def test_the_owner_takes_back_what_was_lent_and_starts() -> None:
    case = Case(two())
    case.start("b0", "b", 8, priority=9)
    case.now = 5
    case.start("b1", "b", 4, priority=9)
    case.start("b2", "b", 4, priority=9)
    case.now = 10
    case.submit("owner", "a", 8)
    told = case.step()
    assert evicted(told) == {"owner": ("b1", "b2")}
    case.evict("b1")
    assert admitted(case.step()) == []
    assert case.why("owner") == "what was evicted for it has not ended"
    case.evict("b2")
    assert admitted(case.step()) == ["owner"]


def test_nothing_within_its_guarantee_goes_for_anybody_else() -> None:
    """kueue#10171, kueue#4962: whatever the share of the node."""
    case = Case(two())
    case.start("a0", "a", 8)
    case.start("b0", "b", 8)
    case.now = 10
    case.submit("urgent", "a", 8, priority=1000)
    assert evicted(case.step()) == {"urgent": ("a0",)}, "of its own node only"


def test_a_borrower_is_cut_to_its_guarantee_and_no_further() -> None:
    case = Case(two(a=6, b=6))
    for number in range(12):
        case.start(f"b{number:02}", "b", 1)
    case.now = 10
    for number in range(8):
        case.submit(f"a{number}", "a", 1, shape=number)
        told = case.step()
        for uids in evicted(told).values():
            case.evict(*uids)
        case.step()
    assert (case.used("a"), case.used("b")) == (6, 6)


def test_a_gang_that_reaches_below_the_guarantee_goes_only_where_nothing_else_does() -> None:
    case = Case(two())
    case.start("reaches", "b", 10)
    case.start("above", "b", 6)
    case.now = 10
    case.submit("owner", "a", 6, priority=0)
    assert evicted(case.step()) == {"owner": ("above",)}
    case.evict("above")
    assert admitted(case.step()) == ["owner"]
    case.submit("owner-2", "a", 2)
    case.now = 20
    assert evicted(case.step()) == {"owner-2": ("reaches",)}


def test_lower_priority_goes_in_its_own_node_only_and_equals_stay() -> None:
    """armada#4405: equal bids preempted each other."""
    case = Case(two(a=8, b=0, limit=8))
    case.start("low", "a", 4, priority=1)
    case.start("mid", "a", 4, priority=5)
    case.now = 10
    case.submit("equal", "a", 4, priority=1)
    assert evicted(case.step()) == {}
    case.submit("high", "a", 4, priority=5)
    assert evicted(case.step()) == {"high": ("low",)}


def test_the_order_of_victims_is_priority_then_lost_work_then_age() -> None:
    case = Case(two(a=16, b=0, limit=16))
    for uid, at in [("oldest", 0.0), ("saved", 0.0), ("older", 5.0), ("young", 8.0)]:
        case.now = at
        case.start(uid, "a", 4)
    case.now = 10
    case.engine.saved("saved", 9.5)
    case.submit("h1", "a", 4, priority=1)
    assert evicted(case.step()) == {"h1": ("saved",)}
    case.engine.finish("saved")
    case.step()
    case.submit("h2", "a", 4, priority=1)
    assert evicted(case.step()) == {"h2": ("young",)}


def test_no_victim_is_one_too_many() -> None:
    """volcano#5896: 18 evictions instead of 16."""
    case = Case(two(a=8, b=0, limit=8))
    for number, size in enumerate([1, 1, 2, 4]):
        case.now = number
        case.start(f"v{size}-{number}", "a", size)
    case.now = 10
    case.submit("high", "a", 4, priority=1)
    assert evicted(case.step()) == {"high": ("v4-3",)}


def test_a_protected_gang_is_passed_over_and_others_are_looked_at() -> None:
    """KAI#1750: reclaim gave up at the first protected queue."""
    protected = Preemption(min_run_time_s=100)
    tree = Tree.of(
        [
            node("root", guaranteed=8),
            node("a", "root", guaranteed=8),
            node("b", "root", protected, guaranteed=0),
            node("c", "root", guaranteed=0),
        ]
    )
    case = Case(tree)
    case.start("b0", "b", 4)
    case.start("c0", "c", 4)
    case.now = 10
    case.submit("owner", "a", 4)
    assert evicted(case.step()) == {"owner": ("c0",)}
    case.evict("c0")
    case.step()
    case.submit("owner-2", "a", 4)
    assert evicted(case.step()) == {}
    assert case.engine.next_s() == 100, "when its minimum run time is over"
    case.now = 100
    assert evicted(case.step()) == {"owner-2": ("b0",)}


def test_nothing_is_evicted_where_the_preemptor_would_not_start() -> None:
    case = Case(two(a=8, b=8, limit=8), Members(east=8, west=4))
    case.start("keeps", "b", 6)
    case.start("low", "a", 4)
    case.now = 10
    case.submit("high", "a", 8, priority=1)
    assert evicted(case.step()) == {}, "b's gang is within its guarantee and fills the member"


def test_what_was_freed_is_for_the_preemptor_and_counts_as_its_use() -> None:
    """kueue#13662: victims were admitted again; volcano#4947: an empty queue was first in line."""
    case = Case(two(), Members(east=16))
    for number in range(4):
        case.start(f"b{number}", "b", 4)
    case.now = 10
    case.submit("owner", "a", 8)
    (victims,) = evicted(case.step()).values()
    case.evict(victims[0])
    assert admitted(case.step()) == []
    assert case.used("a") == 4, "its earmark, half full"
    case.submit("another", "a", 4, priority=9)
    case.submit("third", "b", 4, priority=9, run_time_s=0.1)
    assert admitted(case.step()) == []
    case.evict(victims[1])
    told = case.step()
    assert admitted(told) == ["owner"]


def test_a_place_that_is_kept_until_others_end_does_not_stand_in_a_preemptors_way() -> None:
    """Both are in the same nodes: the preemptor's becomes free first."""
    tree = Tree.of(
        [
            node("root", guaranteed=16),
            node("a", "root", guaranteed=8),
            node("b", "root", guaranteed=0),
            node("c", "root", guaranteed=8),
        ]
    )
    case = Case(tree, Members(east=8))
    case.start("ends-at-40", "b", 6, run_time_s=40)
    case.start("goes", "b", 2)
    case.submit("owner", "a", 2)
    assert evicted(case.step(1)) == {"owner": ("goes",)}
    case.submit("next", "c", 4)
    case.step()
    starts = {item.uid: why.starts_s for item, why in case.engine.waiting() if why is not None}
    assert starts["next"] == 40
    case.evict("goes")
    assert admitted(case.step()) == ["owner"]


def test_an_earmark_expires_and_its_preemptor_tries_more_rarely() -> None:
    case = Case(two(), Members(east=16), earmark_s=60)
    case.start("b0", "b", 16)
    case.now = 10
    case.submit("owner", "a", 8)
    assert evicted(case.step()) == {"owner": ("b0",)}
    case.placer.size["east"] = 4
    case.evict("b0")
    assert admitted(case.step()) == [], "its place has gone meanwhile"
    assert case.engine.next_s() == 70
    case.submit("small", "b", 4)
    case.now = 70
    assert admitted(case.step()) == ["small"]
    assert case.used("a") == 0
    case.placer.size["east"] = 4
    case.submit("small-2", "b", 12)
    case.placer.size["east"] = 16
    case.engine.capacity_changed()
    assert "owner" in admitted(case.step())


def test_no_two_gangs_evict_each_other_for_ever() -> None:
    """kueue#2821, kueue#3779."""
    case = Case(two(a=4, b=4), damping_s=60)
    evictions = 0
    case.submit("a", "a", 6, priority=1)
    case.submit("b", "b", 6, priority=1)
    for _ in range(200):
        for uids in evicted(case.step(1)).values():
            evictions += len(uids)
            case.evict(*uids)
    assert evictions == 0, "neither is within its guarantee, so neither may take from the other"


def test_what_was_evicted_often_is_protected_longer_each_time() -> None:
    case = Case(two(a=4, b=0, limit=4), damping_s=60)
    case.submit("low", "a", 4)
    case.step()
    gone_at = []
    for number in range(2000):
        case.submit(f"high-{number}", "a", 4, priority=1, run_time_s=None)
        told = case.step(1)
        if evicted(told):
            gone_at.append(case.now)
            case.evict("low")
            case.step()
        for uid in [u for u in case.engine.running() if u != "low"]:
            case.engine.finish(uid)
        for item, _ in [*case.engine.waiting()]:
            if item.uid != "low":
                case.engine.withdraw(item.uid)
        case.step()
    ran = [later - earlier for earlier, later in pairwise(gone_at)]
    assert ran == sorted(ran)
    assert ran[0] >= 60
    assert ran[3] >= 480


def test_little_is_not_made_room_for_with_much() -> None:
    """KAI#1565: 48 accelerators asked for moved 376 running ones."""
    case = Case(two(a=8, b=0), Members(**{f"m{number}": 4 for number in range(12)}))
    case.engine.quota_changed(two(a=8, b=40, limit=None))
    for number in range(12):
        case.start(f"b{number:02}", "b", 4)
    case.now = 10
    case.submit("owner", "a", 4)
    (victims,) = evicted(case.step()).values()
    assert len(victims) == 1


def test_a_node_takes_back_no_faster_than_it_may() -> None:
    slow = Preemption(max_reclaim_per_minute=4)
    case = Case(two(a=12, b=4, policy=slow))
    for number in range(8):
        case.start(f"b{number}", "b", 2)
    gone = 0
    for number in range(4):
        case.submit(f"a{number}", "a", 3, shape=number)
    for second in range(10, 70):
        case.now = second
        for uids in evicted(case.step()).values():
            gone += 2 * len(uids)
            case.evict(*uids)
        case.step()
    assert gone == 4, "the second would make 8 in this minute"
    case.now = 71
    assert evicted(case.step()) != {}


def test_at_most_one_gang_makes_room_in_a_member_at_a_time() -> None:
    tree = Tree.of(
        [
            node("root", guaranteed=16),
            node("a", "root", guaranteed=8),
            node("b", "root", guaranteed=0),
            node("c", "root", guaranteed=8),
        ]
    )
    case = Case(tree, Members(east=16))
    for number in range(4):
        case.start(f"b{number}", "b", 4)
    case.now = 10
    case.submit("a0", "a", 4)
    case.submit("c0", "c", 4)
    told = evicted(case.step())
    assert list(told) == ["a0"]
    case.evict(*told["a0"])
    told_then = case.step()
    assert admitted(told_then) == ["a0"]
    assert list(evicted(told_then)) == ["c0"], "as soon as the first has started"


def test_room_is_made_in_the_one_member_that_loses_least() -> None:
    case = Case(two(a=8, b=8), Members(east=8, west=8))
    case.start("e0", "b", 4)
    case.start("e1", "b", 4)
    case.now = 6
    case.start("w0", "b", 4)
    case.now = 9
    case.start("w1", "b", 4)
    case.now = 10
    case.engine.saved("e1", 9.9)
    case.submit("owner", "a", 8)
    assert evicted(case.step()) == {"owner": ("w0", "w1")}, "5 × 4 lost; e1 and w1 are in two"


def test_work_of_a_node_may_go_for_that_of_the_node_above() -> None:
    """Child-level preemption, as self-level: by priority."""
    tree = Tree.of([node("mid", guaranteed=8), node("leaf", "mid", guaranteed=4)])
    case = Case(tree)
    case.start("low", "leaf", 8)
    case.now = 10
    case.submit("equal", "mid", 4, priority=0)
    assert evicted(case.step()) == {}
    case.submit("high", "mid", 4, priority=1)
    assert evicted(case.step()) == {"high": ("low",)}


def test_reclaim_works_at_every_height_of_the_tree() -> None:
    tree = Tree.of(
        [
            node("root", guaranteed=16),
            node("left", "root", guaranteed=8),
            node("l1", "left", guaranteed=0),
            node("right", "root", guaranteed=8),
            node("r1", "right", guaranteed=4),
        ]
    )
    case = Case(tree)
    case.start("r-own", "r1", 8)
    case.start("r-more", "r1", 8)
    case.now = 10
    case.submit("l-own", "l1", 8)
    assert evicted(case.step()) in ({"l-own": ("r-more",)}, {"l-own": ("r-own",)})


def test_policies_say_never_and_lower_priority_only() -> None:
    case = Case(two())
    case.engine.quota_changed(
        Tree.of(
            [
                node("root", guaranteed=16),
                node(
                    "a", "root", Preemption(within="Never", reclaim="LowerPriority"), guaranteed=8
                ),
                node("b", "root", guaranteed=8),
            ]
        )
    )
    case.start("own", "a", 2)
    case.start("b0", "b", 14, priority=5)
    case.now = 10
    case.submit("low", "a", 2, priority=4)
    case.submit("mid", "a", 2, priority=5)
    assert evicted(case.step()) == {}
    case.submit("high", "a", 2, priority=6)
    assert evicted(case.step()) == {"high": ("b0",)}


def test_nothing_is_evicted_for_what_starts_soon_by_itself() -> None:
    case = Case(two(a=8, b=0, limit=8), patience_s=30)
    case.start("low", "a", 8, run_time_s=40)
    case.submit("high", "a", 8, priority=1)
    assert evicted(case.step(1)) == {"high": ("low",)}, "39 s are too long"
    other = Case(two(a=8, b=0, limit=8), patience_s=30)
    other.start("low", "a", 8, run_time_s=40)
    other.submit("high", "a", 8, priority=1)
    other.now = 10
    assert evicted(other.step()) == {}


def test_nothing_is_evicted_that_loses_more_than_waiting_costs() -> None:
    for elapsed, expected in [(49, {"high": ("low",)}), (51, {})]:
        case = Case(two(a=8, b=0, limit=8), worth=1)
        case.start("low", "a", 8, run_time_s=100)
        case.submit("high", "a", 8, priority=1)
        case.now = elapsed
        assert evicted(case.step()) == expected
    case.engine.saved("low", 50.5)
    case.submit("high", "a", 8, priority=1)
    assert evicted(case.step()) == {"high": ("low",)}, "a checkpoint makes it cheap"


def test_what_runs_longer_than_it_declared_is_not_waited_for() -> None:
    case = Case(two(a=8, b=0, limit=8), patience_s=30)
    case.start("low", "a", 8, run_time_s=10)
    case.submit("high", "a", 8, priority=1)
    assert evicted(case.step(5)) == {}
    again_s = case.engine.next_s()
    assert again_s is not None
    assert 40 < again_s < 41
    assert evicted(case.step(30)) == {}
    case.now = again_s
    assert evicted(case.step()) == {"high": ("low",)}


def test_the_platforms_stop_takes_nothing_from_the_user() -> None:
    """jobset#1117: it counted as a failure; here it waits again where it stood."""
    case = Case(two(a=8, b=0, limit=8))
    case.start("first", "a", 4)
    case.submit("second", "a", 8)
    case.submit("third", "a", 8)
    case.step()
    case.evict("first")
    told = case.step()
    assert admitted(told)[:1] == ["first"]
    again = next(each for each in told if isinstance(each, Admit))
    assert (again.item.sequence, again.item.generation) == (1, 2)


# Room in members


def test_a_gang_that_waits_for_a_member_is_not_passed_by_what_would_delay_it() -> None:
    case = Case(two(a=64, b=0), Members(east=8))
    case.start("runs", "a", 6, run_time_s=100)
    case.submit("large", "a", 8)
    case.submit("long", "a", 2, run_time_s=200)
    case.submit("short", "a", 2, run_time_s=90)
    told = case.step()
    assert admitted(told) == ["short"]
    assert waits(told) == {"large": "Capacity", "long": "Behind"}
    case.now = 100
    case.engine.finish("runs")
    case.engine.finish("short")
    assert admitted(case.step()) == ["large"]


def test_places_are_kept_for_those_that_come_first() -> None:
    names = [f"t{number}" for number in range(4)]
    tree = Tree.of([node("root", guaranteed=64), *(node(n, "root", guaranteed=16) for n in names)])
    case = Case(tree, Members(east=8, west=8), searched=2, patience_s=1000)
    for uid in ("e", "w"):
        case.start(uid, "t0", 7, run_time_s=100)
    for number, name in enumerate(names):
        case.submit(f"w{number}", name, 8, priority=number, run_time_s=10)
    case.step()
    case.submit("long", "t1", 1, run_time_s=1000)
    assert waits(case.step()) == {"long": "Behind"}
    case.now = 100
    case.engine.finish("e")
    assert admitted(case.step()) == ["w3"]
    case.engine.finish("w")
    assert admitted(case.step()) == ["w2"]


def test_a_gang_that_waits_for_a_member_without_end_in_sight_is_not_starved() -> None:
    case = Case(two(a=64, b=0), Members(east=8), aging_s=50)
    for number in range(4):
        case.start(f"r{number}", "a", 2)
    case.submit("large", "a", 8)
    running = [f"r{number}" for number in range(4)]
    for number in range(4, 200):
        case.submit(f"r{number}", "a", 2)
        case.engine.finish(running.pop(0))
        told = admitted(case.step(10))
        running += told
        if "large" in told:
            break
    assert running == ["large"]


def test_after_the_aging_bound_nothing_of_its_own_node_passes_a_gang() -> None:
    """Whatever is within the guarantee of the node, which the gang itself would exceed with it."""
    case = Case(two(a=8, b=0), Members(east=8), aging_s=50)
    case.engine.quota_changed(two(a=8, b=8))
    running = []
    for number in range(4):
        case.start(f"r{number}", "a", 1)
        running.append(f"r{number}")
    case.submit("large", "a", 8)
    for number in range(4, 60):
        case.submit(f"r{number}", "a", 1)
        case.engine.finish(running.pop(0))
        told = admitted(case.step(10))
        running += told
        if "large" in told:
            break
    assert running == ["large"]


# The whole


def test_a_state_made_anew_from_what_runs_decides_the_same() -> None:
    case = Case(two(), Members(east=16))
    for number in range(4):
        case.start(f"b{number}", "b", 4)
    case.now = 10
    case.submit("owner", "a", 8)
    (victims,) = evicted(case.step()).values()
    again = Case(two(), Members(east=16))
    for run in case.engine.running().values():
        again.engine.adopt(run.item, run.placed, run.started_s, leaving_for=run.leaving_for)
    for item, _ in case.engine.waiting():
        again.engine.submit(item, 10)
    again.now = 10
    assert admitted(again.step()) == []
    assert again.engine.report() == case.engine.report()
    for each in (case, again):
        each.evict(*victims)
        assert admitted(each.step()) == ["owner"]


@pytest.mark.parametrize("late", ["the preemptor", "the members"])
def test_who_preempts_is_known_again_however_late_the_rest_is_heard_of(late: str) -> None:
    """After a restart not everything is there at once; nobody else is told to go meanwhile."""
    case = Case(two(), Members(east=16))
    for number in range(4):
        case.start(f"b{number}", "b", 4)
    case.now = 10
    case.submit("owner", "a", 8)
    (victims,) = evicted(case.step()).values()
    members = Members(east=16)
    again = Case(two(), members)
    for run in case.engine.running().values():
        again.engine.adopt(run.item, run.placed, run.started_s, leaving_for=run.leaving_for)
    again.now = 10
    ((owner, _),) = case.engine.waiting()
    if late == "the members":
        members.size["east"] = 0
        again.engine.submit(owner, 10)
    told = again.step()
    assert (admitted(told), evicted(told)) == ([], {})
    members.size["east"] = 16
    again.engine.capacity_changed()
    again.engine.submit(owner, 10)
    told = again.step()
    assert (admitted(told), evicted(told)) == ([], {})
    ((_, why),) = again.engine.waiting()
    assert why is not None and why.reason == "Evicting"
    again.evict(*victims)
    assert admitted(again.step()) == ["owner"]


def test_a_fork_answers_without_acting() -> None:
    case = Case(two(), Members(east=16))
    for number in range(4):
        case.start(f"b{number}", "b", 4)
    case.engine.saved("b2", 9)
    case.engine.set_unmanaged("b", "west", {GPU: 0})
    case.submit("waits", "b", 4)
    case.now = 10
    case.step()
    before = (case.engine.report(), {**case.placer.taken})
    fork = case.engine.fork(Members(east=16))
    fork.submit(case.item("what-if", "a", 4), 10)
    assert evicted(fork.step(10)) == {"what-if": ("b2",)}
    assert (case.engine.report(), case.placer.taken) == before
    assert "b2" in case.engine.running()


def test_a_preemptor_whose_victims_never_left_is_remembered_once() -> None:
    case = Case(two(a=12, b=0), Members(east=8), earmark_s=50)
    case.start("stays", "a", 5)
    case.submit("high", "a", 6, priority=1)
    assert evicted(case.step(1)) == {"high": ("stays",)}
    case.step(60)
    fork = case.engine.fork(Members(east=8))
    assert evicted(fork.step(62)) == {}
    fork.verify()
    assert fork.book.cell("a", GPU).used == 11


def test_all_that_wait_are_told_so() -> None:
    case = Case(two(a=8, b=0, limit=8))
    case.start("runs", "a", 8)
    for uid in ("w0", "w1"):
        case.submit(uid, "a", 4)
    assert waits(case.step()) == {"w0": "Quota", "w1": "Quota"}
    case.submit("w2", "a", 4)
    assert waits(case.step()) == {"w2": "Quota"}
    assert case.step(5) == []


def test_events_between_two_steps_may_come_in_any_order() -> None:
    outcomes = set()
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]):
        case = Case(two())
        items = [case.item(f"w{n}", "ab"[n % 2], 5 + n % 3, priority=n % 2) for n in range(5)]
        for number in order:
            case.engine.submit(items[number], 0)
        outcomes.add(tuple(admitted(case.step())))
    assert len(outcomes) == 1


def test_a_priority_that_changes_while_it_runs_counts_from_then_on() -> None:
    """kueue#8464."""
    case = Case(two(a=8, b=0, limit=8))
    item = case.item("runs", "a", 8, priority=5)
    case.engine.submit(item, 0)
    case.step()
    case.submit("next", "a", 8, priority=5)
    assert evicted(case.step(1)) == {}
    case.engine.submit(replace(item, priority=4), 1)
    case.engine.set_unmanaged("a", "east", {GPU: 0})
    assert evicted(case.step(1)) == {"next": ("runs",)}


def test_a_change_of_quota_is_decided_on_at_once_and_ends_nothing() -> None:
    case = Case(two())
    case.start("a0", "a", 12)
    case.engine.quota_changed(two(a=4, b=4, limit=4))
    case.submit("w", "a", 1)
    assert (admitted(case.step()), case.used("a")) == ([], 12)
    over = {line.node: line.overcommitted for line in case.engine.report()}
    assert over == {"root": 4, "a": 8, "b": 0}
    case.engine.finish("a0")
    assert admitted(case.step()) == ["w"]


def test_a_book_that_does_not_add_up_stops_the_engine() -> None:
    case = Case(two())
    case.start("a0", "a", 4)
    case.engine.book.cell("a", GPU).used += 1
    with pytest.raises(InternalError, match=r"a nvidia.com/gpu .h200.: used 5 .* 4"):
        case.engine.verify()


def test_what_changed_while_it_waited_is_tried_as_it_is() -> None:
    case = Case(two(a=8, b=0, limit=8))
    case.start("runs", "a", 4)
    item = case.item("w", "a", 8)
    case.engine.submit(item, 0)
    case.step()
    case.engine.submit(replace(item, requests={GPU: 4}, shape=4), 0)
    assert admitted(case.step()) == ["w"]
    case.engine.submit(item, 0)
    assert case.step() == [], "what runs is left alone"
    case.engine.withdraw("w")
    assert case.used("a") == 8


@pytest.mark.parametrize(
    ("runs", "waiter", "waited_s", "gives"),
    [
        (4, ("a", 4, 0), 0, False),
        (4, ("a", 4, -1), 0, False),
        (4, ("a", 4, 1), 0, True),
        (4, ("a", 4, -1), 7 * 3600, True),
        (4, ("b", 4, 1), 0, False),  # that would borrow
        (6, ("b", 4, -1), 0, True),  # that would have its own
        (6, ("b", 6, 0), 0, True),
    ],
)
def test_whether_what_runs_would_lose_its_quota_if_it_waited(runs, waiter, waited_s, gives):
    """It is asked before work is moved: what gives way would be ended for nothing."""
    case = Case(two(4, 4))
    case.start("runs", "a", runs)
    if runs == 4:
        case.start("full", "b", 4)
    quota, size, priority = waiter
    case.submit("waits", quota, size, priority, preempts=False)
    assert waits(case.step(1)) == {"waits": "Quota"}
    case.step(waited_s)
    before = case.engine.report()
    assert case.engine.gives_way("runs", case.now) == gives
    assert case.engine.report() == before
    case.evict("runs")
    first, *_ = admitted(case.step())
    assert gives or first == "runs"
