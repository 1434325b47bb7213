"""Everything that can upset the scheduler, in any order: what it decided stays within the rules.

Quotas that change or vanish under running work, members that shrink while room is made in them,
shards that are lost and fenced late, members' own work, earmarks that expire.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.engine import Engine
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

if TYPE_CHECKING:
    from collections.abc import Collection

GPU = Key("nvidia.com/gpu", "h200")
TREES = [
    Tree.of(Node(n, up, {GPU: Share(own, limit)}, kept) for n, up, own, limit, kept in rows)
    for rows in (
        [("root", "", 12, None, {}), ("a", "root", 6, None, {}), ("b", "root", 6, 8, {})],
        [("root", "", 8, None, {GPU: 1}), ("a", "root", 2, 4, {}), ("b", "root", 4, None, {})],
        [("root", "", 12, None, {}), ("b", "root", 12, None, {GPU: 2})],
        [("a", "", 4, None, {}), ("b", "", 4, None, {})],
        [],
    )
]  # fmt: skip


class Members:
    def __init__(self) -> None:
        self.size = {"east": 8, "west": 4}
        self.taken: dict[str, Placed] = {}

    def free(self, without: Collection[str] = ()) -> Counter[str]:
        found = Counter(self.size)
        for uid, placed in self.taken.items():
            if uid not in without:
                found.subtract({name: each[GPU] for name, each in placed.clusters.items()})
        return found

    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        need = item.requests[GPU]
        for name, amount in sorted(self.free(without).items()):
            if amount >= need:
                return Placed(None, {name: {GPU: need}})
        return Unplaced("no room", ever=need <= max(self.size.values()))

    def take(self, uid: str, placed: Placed) -> None:
        self.taken[uid] = placed

    def give(self, uid: str) -> None:
        self.taken.pop(uid, None)


UPSETS = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "submit", "submit", "finish", "leave", "quota", "members", "lose", "fence",
             "own", "later", "withdraw", "restart", "save"]
        ),
        st.integers(0, 20),
        st.sampled_from("ab"),
        st.integers(1, 6),
    ),
    min_size=10,
    max_size=70,
)  # fmt: skip


@settings(max_examples=100)
@given(UPSETS, st.sampled_from([0.0, 30.0]))
def test_no_upset_makes_an_admission_break_a_limit_or_a_sum(
    upsets: list[tuple[str, int, str, int]], patience_s: float
) -> None:
    rules = Rules(patience_s=patience_s, worth=None, earmark_s=50, damping_s=5)
    members = Members()
    engine = Engine(TREES[0], members, rules=rules)
    now, leaving = 0.0, set[str]()
    for number, (what, pick, node, size) in enumerate(upsets):
        running = sorted(engine.running())
        chosen = running[pick % len(running)] if running else ""
        if what == "submit":
            runs = (None, 20.0, 100.0)[pick % 3]
            engine.submit(Item(f"w{number}", node, pick % 3, number, {GPU: size}, size, runs), now)
        elif what == "finish" and chosen:
            engine.finish(chosen)
        elif what == "leave" and leaving:
            engine.evicted(sorted(leaving)[pick % len(leaving)], now)
        elif what == "quota":
            engine.quota_changed(TREES[pick % len(TREES)])
        elif what == "members":
            members.size = {"east": pick % 10, "west": size}
            engine.capacity_changed()
        elif what == "lose" and chosen:
            engine.lose(chosen, "east", {GPU: size})
        elif what == "fence" and chosen:
            engine.fenced(chosen, "east")
        elif what == "own":
            engine.set_unmanaged(node, "west", {GPU: pick % 4})
        elif what == "withdraw":
            waiting = sorted(item.uid for item, _ in engine.waiting())
            if waiting:
                engine.withdraw(waiting[pick % len(waiting)])
        elif what == "restart":
            members = Members()
            engine = engine.fork(members)
        elif what == "save" and chosen:
            engine.saved(chosen, now)
        now += 25.0 if what == "later" else 1.0
        before = {*engine.running()}
        leaving &= before
        over, free = engine.book.overcommitted(), members.free(members.taken.keys() - before)
        for each in engine.step(now):
            if isinstance(each, Admit):
                assert each.uid in engine.running()
                for name, amounts in each.placed.clusters.items():
                    assert amounts[GPU] <= members.size[name]
            elif isinstance(each, Preempt):
                assert set(each.victims) <= engine.running().keys()
                leaving |= set(each.victims)
        engine.verify()
        assert all(amount <= over.get(at, 0) for at, amount in engine.book.overcommitted().items())
        kept = members.taken.keys() - engine.running().keys()
        left = members.free(leaving | kept)
        assert all(left[name] >= min(0, free[name]) for name in left)
        assert engine.running().keys() <= members.taken.keys()
