"""What the engine keeps in every history: sums, limits, whole gangs, progress, order, restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from asking import Anywhere
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.engine import Engine
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree

if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.scheduling.decisions import Decision

GPU = Key("nvidia.com/gpu", "h200")
MEMBERS = {"east": 10, "west": 6}


class Members:
    """Accelerators of two members; a gang of an even size may span both, by halves."""

    def __init__(self) -> None:
        self.taken: dict[str, Placed] = {}

    def used(self, without: Collection[str] = ()) -> Counter[str]:
        found: Counter[str] = Counter()
        for uid, placed in self.taken.items():
            if uid not in without:
                found.update({name: amounts[GPU] for name, amounts in placed.clusters.items()})
        return found

    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        used, need = self.used(without), item.requests[GPU]
        options = [{"east": need}, {"west": need}]
        if need % 2 == 0:
            options.append({"east": need // 2, "west": need // 2})
        for option in options:
            if all(MEMBERS[name] - used[name] >= amount for name, amount in option.items()):
                return Placed(None, {name: {GPU: amount} for name, amount in option.items()})
        ever = any(all(MEMBERS[n] >= amount for n, amount in option.items()) for option in options)
        return Unplaced("no room", ever)

    def take(self, uid: str, placed: Placed) -> None:
        self.taken[uid] = placed

    def give(self, uid: str) -> None:
        self.taken.pop(uid, None)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    nodes = []
    leaves = {"a": "left", "b": "left", "c": "right", "d": "right"}
    guaranteed = {name: draw(st.sampled_from([5, 4, 2, 0])) for name in leaves}
    for name, parent in leaves.items():
        share = Share(
            guaranteed[name],
            draw(st.none() | st.integers(guaranteed[name], 16)),
            draw(st.none() | st.integers(0, guaranteed[name])),
        )
        policy = Preemption(
            within=draw(st.sampled_from(["LowerPriority", "Never"])),
            reclaim=draw(st.sampled_from(["Any", "Any", "LowerPriority", "Never"])),
            min_run_time_s=draw(st.sampled_from([0, 0, 20])),
        )
        nodes.append(Node(name, parent, {GPU: share}, preemption=policy))
    for parent in ("left", "right"):
        own = sum(guaranteed[n] for n, p in leaves.items() if p == parent) + draw(st.integers(0, 2))
        limit = draw(st.none() | st.integers(own, own + 8))
        nodes.append(Node(parent, "root", {GPU: Share(own, limit)}))
        guaranteed[parent] = own
    total = guaranteed["left"] + guaranteed["right"] + draw(st.integers(0, 3))
    nodes.append(Node("root", "", {GPU: Share(total)}))
    return Tree.of(nodes)


Event = tuple[str, int, str, int, int, float | None]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit"] * 5 + ["finish"] * 2 + ["leave"] * 2 + ["save", "resize", "withdraw"]
        ),
        st.integers(0, 30),
        st.sampled_from("abcd"),
        st.integers(1, 6),
        st.integers(0, 2),
        st.sampled_from([None, 5.0, 30.0]),
    ),
    min_size=15,
    max_size=60,
)
RULES = st.builds(
    Rules,
    worth=st.sampled_from([None, 1.0]),
    patience_s=st.sampled_from([0.0, 10.0]),
    earmark_s=st.just(1e6),
)


class History:
    """Plays events, and checks every decision against sums of its own."""

    def __init__(self, tree: Tree, rules: Rules) -> None:
        self.tree, self.rules = tree, rules
        self.placer = Members()
        self.engine = Engine(tree, self.placer, rules=rules)
        self.now = 0.0
        self.items: dict[str, Item] = {}
        self.running: dict[str, tuple[str, int, Placed]] = {}
        self.leaving: dict[str, str] = {}
        """Victims that have not ended, and for whom they go."""
        self.owed: dict[str, set[str]] = {}

    def play(self, event: Event) -> None:
        what, number, node, size, priority, run = event
        if what == "submit":
            uid = f"w{len(self.items)}"
            self.items[uid] = Item(
                uid, node, priority, len(self.items), {GPU: size}, size, run_time_s=run,
                saves_every_s=(None, 5.0, 20.0)[number % 3], restart_s=0.0,
            )  # fmt: skip
            self.engine.submit(self.items[uid], self.now)
        elif what == "finish" and self.running:
            uid = sorted(self.running)[number % len(self.running)]
            self.gone(uid)
            self.engine.finish(uid)
        elif what == "leave" and self.leaving:
            uid = sorted(self.leaving)[number % len(self.leaving)]
            self.gone(uid)
            self.engine.evicted(uid, self.now)
        elif what == "save" and self.running:
            self.engine.saved(sorted(self.running)[number % len(self.running)], self.now)
        elif what == "resize" and self.running:
            uid = sorted(self.running)[number % len(self.running)]
            name, held, placed = self.running[uid]
            generation = self.engine.running()[uid].item.generation + 1
            if self.engine.resize(uid, generation, {GPU: max(1, held - 1)}):
                self.running[uid] = (name, max(1, held - 1), placed)
        elif what == "withdraw":
            waiting = sorted(item.uid for item, _ in self.engine.waiting())
            if waiting and (uid := waiting[number % len(waiting)]) not in self.owed:
                self.engine.withdraw(uid)

    def gone(self, uid: str) -> None:
        del self.running[uid]
        preemptor = self.leaving.pop(uid, "")
        self.owed.get(preemptor, set()).discard(uid)

    def step(self, later: float = 1) -> list[Decision]:
        self.now += later
        told = self.engine.step(self.now)
        for each in told:
            if isinstance(each, Admit):
                self.check_admission(each)
            elif isinstance(each, Preempt):
                self.check_preemption(each)
        assert [uid for uid, left in self.owed.items() if not left] == [], "evicted in vain"
        self.engine.verify()
        assert self.engine.book.overcommitted() == {}
        return told

    def check_admission(self, told: Admit) -> None:
        assert dict(told.requests) == dict(self.items[told.uid].requests), "a part of a gang"
        assert told.uid not in self.running
        self.owed.pop(told.uid, None)
        self.running[told.uid] = (told.item.quota, told.requests[GPU], told.placed)
        for node in self.tree.path(told.item.quota):
            below = set(self.tree.under(node.name))
            used = sum(size for name, size, _ in self.running.values() if name in below)
            share = node.shares[GPU]
            limit = share.limit if node.parent else share.guaranteed
            assert limit is None or used <= limit
        taken: Counter[str] = Counter()
        for uid, (_, _, placed) in self.running.items():
            assert self.placer.taken[uid] is placed
            taken.update({name: amounts[GPU] for name, amounts in placed.clusters.items()})
        assert all(amount <= MEMBERS[name] for name, amount in taken.items())

    def check_preemption(self, told: Preempt) -> None:
        assert told.victims
        assert not self.leaving.keys() & set(told.victims)
        self.owed[told.uid] = set(told.victims)
        sizes = [self.running[uid][1] for uid in told.victims]
        assert sum(sizes) - max(sizes) <= told.item.requests[GPU] * 2
        for uid in told.victims:
            self.leaving[uid] = told.uid
            victim, asker = self.items[uid], told.item
            if victim.quota == asker.quota:
                assert victim.priority < asker.priority
            elif self.tree.nodes[asker.quota].preemption.reclaim == "LowerPriority":
                assert victim.priority < asker.priority
            else:
                assert self.tree.nodes[asker.quota].preemption.reclaim == "Any"
                assert self.tree.nodes[asker.quota].shares[GPU].guaranteed >= 0

    def drain(self) -> None:
        """No more comes; everything ends in time. Whatever could ever start must have started."""
        for _ in range(4 * len(self.items) + 8):
            for uid in sorted(self.leaving):
                self.gone(uid)
                self.engine.evicted(uid, self.now)
            for uid in sorted(self.running)[:1]:
                self.gone(uid)
                self.engine.finish(uid)
            self.step(60)
        assert self.running == {}
        reasons = {str(why.reason) for _, why in self.engine.waiting() if why is not None}
        assert reasons <= {"AboveLimit", "NoSuchCapacity"}


@settings(max_examples=60)
@given(trees(), RULES, EVENTS)
def test_every_history_keeps_limits_and_sums_and_starts_whom_it_evicts_for(
    tree: Tree, rules: Rules, events: list[Event]
) -> None:
    history = History(tree, rules)
    for number, event in enumerate(events):
        history.play(event)
        if number % 2:
            history.step()
    history.step()
    history.drain()


@settings(max_examples=25)
@given(trees(), RULES, EVENTS, st.randoms(use_true_random=False))
def test_the_order_of_events_between_two_steps_changes_nothing(
    tree: Tree,
    rules: Rules,
    events: list[Event],
    random: object,
) -> None:
    told: list[list[str]] = []
    for shuffled in (False, True):
        engine = Engine(tree, Members(), rules=rules)
        found: list[str] = []
        items = [
            Item(f"w{number}", node, priority, number, {GPU: size}, size, run_time_s=run)
            for number, (_, _, node, size, priority, run) in enumerate(events)
        ]
        for start in range(0, len(items), 6):
            batch = items[start : start + 6]
            running = sorted(engine.running())[: start // 6]
            if shuffled:
                random.shuffle(batch)  # type: ignore[attr-defined]
                random.shuffle(running)  # type: ignore[attr-defined]
            for uid in running:
                engine.finish(uid)
            for item in batch:
                engine.submit(item, start)
            found += [f"{type(each).__name__} {each.uid}" for each in engine.step(start)]
        told.append(found)
    assert told[0] == told[1]


@settings(max_examples=30)
@given(trees(), EVENTS)
def test_a_state_made_anew_from_what_runs_and_waits_is_the_same(
    tree: Tree, events: list[Event]
) -> None:
    history = History(tree, Rules(worth=None, patience_s=0, earmark_s=1e6))
    for event in events:
        history.play((*event[:-1], None))
        history.step()
    again = History(tree, history.rules)
    again.now = history.now
    again.items = history.items
    for uid, run in history.engine.running().items():
        again.engine.adopt(
            replace(run.whole, generation=run.item.generation),
            run.placed,
            run.started_s,
            requests=run.item.requests,
            evictions=run.evictions,
            saved_s=run.saved_s,
            leaving_for=run.leaving_for,
        )
        again.running[uid] = history.running[uid]
    earmarks = history.engine.earmarks()
    for item, _ in history.engine.waiting():
        again.engine.submit(item, history.now, earmarked_s=earmarks.get(item.uid))
    same = [
        [(line.node, line.used - line.earmarked, line.waiting) for line in each.engine.report()]
        for each in (history, again)
    ]
    assert same[0] == same[1]
    again.leaving = {
        uid: run.leaving_for
        for uid, run in again.engine.running().items()
        if run.leaving_for in again.items and run.leaving_for not in again.running
    }
    again.step(0)
    again.drain()


CPU = Key("cpu")


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 8), st.integers(0, 8), st.integers(0, 2)),
        min_size=4,
        max_size=24,
    ),
    st.sampled_from([3.0, 1e6]),
    st.randoms(use_true_random=False),
)
def test_gangs_that_ask_for_two_resources_never_wait_for_each_other(
    asked: list[tuple[str, int, int, int]], aging_s: float, random: object
) -> None:
    """Each could hold what the other lacks."""
    tree = Tree.of(
        [
            Node("root", "", {GPU: Share(8), CPU: Share(8)}),
            Node("a", "root", {GPU: Share(4), CPU: Share(4)}),
            Node("b", "root", {GPU: Share(4), CPU: Share(2)}),
        ]
    )
    engine = Engine(tree, Anywhere(), rules=Rules(aging_s=aging_s))
    waiting = {
        f"w{n}": Item(f"w{n}", node, priority, n, {GPU: gpus, CPU: cores}, (gpus, cores))
        for n, (node, gpus, cores, priority) in enumerate(asked)
    }
    started: set[str] = set()
    items = [*waiting.values()]
    for now in range(5 * len(asked) + 20):
        for _ in range(2):
            if items:
                engine.submit(items.pop(0), now)
        running = sorted(engine.running())
        if running and now % 2:
            engine.finish(random.choice(running))  # type: ignore[attr-defined]
        for each in engine.step(now):
            if isinstance(each, Admit):
                started.add(each.uid)
            elif isinstance(each, Preempt):
                for uid in each.victims:
                    engine.evicted(uid, now)
        engine.verify()
    assert started == waiting.keys()
