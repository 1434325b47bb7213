"""The engine over the gateway's Placer, whatever happens: what holds in every history of a fleet.

Gangs of several sizes and units are submitted, end and are withdrawn; quotas change; nodes and
clusters go and come back. Checked by sums of its own: conservation, no partial gang, no eviction
without progress, bounded wait, and that the order in which clusters are told changes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from asking import capacity_of
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fleet.scheduling.clusters import Cluster
from fleet.scheduling.decisions import Admit, Preempt, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placer import Item, Unplaced
from fleet.scheduling.plan import Plan
from fleet.scheduling.planner import Asked
from fleet.scheduling.price import Prices
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree
from fleet.scheduling.rooms import Picture, Rooms
from fleet.scheduling.selection import Policy
from fleet.scheduling.standing import Wish

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.scheduling.decisions import Decision

GPU = Key("nvidia.com/gpu", "h200")
PER_NODE = 4
FLEET = {
    "east": ("roce-1", ("r0", "r0", "r1")),
    "west": ("roce-1", ("r0", "r0")),
    "far": ("roce-2", ("r0", "r0")),
}
"""By cluster, its network and the block of each node."""
NODES = [(name, at) for name, (_, blocks) in FLEET.items() for at in range(len(blocks))]
DAMPING_S = 10.0


def quotas(*rows: tuple[str, str, int, int | None, int], **more: Any) -> Tree:
    return Tree.of(
        Node(name, parent, {GPU: Share(own, limit)}, {GPU: kept} if kept else {}, **more)
        for name, parent, own, limit, kept in rows
    )


BORROWS = Preemption(min_run_time_s=3)
TREES = (
    quotas(
        ("root", "", 28, None, 0), ("a", "root", 12, None, 0), ("b", "root", 12, 20, 0),
        preemption=BORROWS,
    ),
    quotas(("root", "", 20, None, 2), ("a", "root", 4, 12, 0), ("b", "root", 8, None, 0)),
    quotas(("root", "", 10, None, 0), ("a", "root", 0, None, 0), ("b", "root", 2, 6, 0)),
)  # fmt: skip


class World:
    """A fleet, what runs in it by accounts of our own, and an engine that is told what happens."""

    def __init__(self, build: Any, rules: Rules, *, order: Iterable[str] = FLEET) -> None:
        self.build = build
        self.order = [*order]
        self.broken: set[tuple[str, int]] = set()
        self.away: set[str] = set()
        self.items: dict[str, Item] = {}
        self.rooms = Rooms()
        self.engine = Engine(TREES[0], self.rooms, rules=rules)
        self.tree = TREES[0]
        self.now = 0.0
        self.running: dict[str, Admit] = {}
        self.seats: dict[str, Counter[tuple[str, int]]] = {}
        """On which nodes the pods of what runs are, as its members chose."""
        self.since: dict[str, float] = {}
        self.evictions: Counter[str] = Counter()
        self.leaving: dict[str, str] = {}
        """Victims that have not ended, and for whom they go."""
        self.owed: dict[str, set[str]] = {}
        """What has to end yet for whom; nobody for whom something else happened meanwhile."""

    def cluster(self, name: str) -> Cluster:
        plane, blocks = FLEET[name]
        nodes = [
            self.build.node(
                f"n{at}",
                PER_NODE,
                labels={"rack": block},
                ready="False" if (name, at) in self.broken else "True",
            )
            for at, block in enumerate(blocks)
        ]
        pods = [
            self.build.pod(f"{uid}-{at}-{number}", f"n{at}", requests={GPU.resource: "1"})
            for uid, seats in self.seats.items()
            for (cluster, at), count in seats.items()
            if cluster == name
            for number in range(count)
        ]
        capacity = capacity_of(nodes, pods, as_of_s=0.0, block_label="rack")
        return Cluster(name, {}, capacity, parameter_plane=plane)

    def look(self) -> None:
        """A round begins: over the fleet as it is, for all that waits."""
        there = [self.cluster(name) for name in self.order if name not in self.away]
        picture = Picture(
            tuple(there), Ledger(), Prices(), self.build.now, now_s=0.0, taken_by=self.taken_by
        )  # fmt: skip
        waiting = [item for item, _ in self.engine.waiting()]
        self.rooms.begin(picture, {item.uid: self.asked(item) for item in waiting})

    def taken_by(self, uid: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for (name, at), pods in self.seats.get(uid, {}).items():
            if name not in self.away:
                demand: Any = self.items[uid].demand
                taken = found.setdefault(name, {}).setdefault(demand.role.kind.request, {})
                taken[f"n{at}"] = pods
        return found

    def asked(self, item: Item) -> tuple[Asked, Wish]:
        demand: Any = item.demand
        policy = Policy("default", item.uid, demand.policy)
        wish = Wish({"worker": item.pods}, {"worker": {GPU: 1}})
        return Asked(demand, policy, before={}, queued_at=self.build.now), wish

    # -- events

    def play(self, event: Event) -> None:
        what, pick, quota, size, priority, run_time_s = event
        if what == "submit":
            self.submit(pick, quota, size, priority, run_time_s)
        elif what == "end" and self.running:
            uid = self.pick(self.running, pick)
            self.gone(uid)
            self.engine.finish(uid)
        elif what == "leave" and self.leaving:
            uid = self.pick(self.leaving, pick)
            self.gone(uid)
            self.engine.evicted(uid, self.now)
        elif what == "withdraw":
            waiting = {item.uid for item, _ in self.engine.waiting()}
            if waiting:
                uid = self.pick(waiting, pick)
                self.owed.pop(uid, None)
                self.engine.withdraw(uid)
        elif what == "quota":
            self.tree = TREES[pick % len(TREES)]
            self.owed.clear()
            self.engine.quota_changed(self.tree)
        elif what == "node":
            self.toggle_node(NODES[pick % len(NODES)])
        elif what == "cluster":
            self.toggle_cluster(sorted(FLEET)[pick % len(FLEET)])

    @staticmethod
    def pick(uids: Iterable[str], number: int) -> str:
        return sorted(uids)[number % len([*uids])]

    def submit(
        self, pick: int, quota: str, size: int, priority: int, run_time_s: float | None
    ) -> None:
        uid = f"w{len(self.items):02}"
        unit = (1, 1, 2, 4)[pick % 4]
        spec = {
            "mode": "One" if pick % 5 == 0 else "Split",
            "gang": {"maxClusters": 1 + pick % 3, "unit": unit},
        }
        demand = self.build.demand(size * unit, spec, name=uid)
        self.items[uid] = Item(
            uid, quota, priority, len(self.items), {GPU: size * unit}, uid,
            run_time_s=run_time_s, restart_s=0.0, demand=demand, pods=size * unit,
        )  # fmt: skip
        self.engine.submit(self.items[uid], self.now)

    def toggle_node(self, node: tuple[str, int]) -> None:
        self.broken ^= {node}
        self.upset([uid for uid, seats in self.seats.items() if seats[node]])

    def toggle_cluster(self, name: str) -> None:
        self.away ^= {name}
        self.upset([u for u, seats in self.seats.items() if any(c == name for c, _ in seats)])

    def upset(self, hit: list[str]) -> None:
        """Members are not what they were, and what ran there has to begin anew."""
        self.owed.clear()
        for uid in hit:
            self.gone(uid)
            self.engine.evicted(uid, self.now)

    def gone(self, uid: str) -> None:
        del self.running[uid], self.seats[uid]
        self.owed.get(self.leaving.pop(uid, ""), set()).discard(uid)

    # -- what must hold

    def step(self, later: float = 1) -> list[Decision]:
        self.now += later
        self.look()
        self.engine.capacity_changed()  # as the gateway does before each round
        told = self.engine.step(self.now)
        for each in told:
            if isinstance(each, Admit):
                self.check_gang(each)
                self.owed.pop(each.uid, None)
                assert isinstance(each.placed.plan, Plan)
                self.seats[each.uid] = self.seated(each.placed.plan)
                self.running[each.uid] = each
                self.since[each.uid] = self.now
                self.check_sums(each)
            elif isinstance(each, Preempt):
                self.check_victims(each)
        assert [uid for uid, left in self.owed.items() if not left] == [], "evicted in vain"
        assert self.running.keys() == self.engine.running().keys()
        self.engine.verify()
        return told

    def seated(self, plan: Plan) -> Counter[tuple[str, int]]:
        """Where members put the pods: each on the first node of its block that has room."""
        used: Counter[tuple[str, int]] = Counter()
        for seats in self.seats.values():
            used.update(seats)
        found: Counter[tuple[str, int]] = Counter()
        for shard in plan.shards:
            blocks = FLEET[shard.cluster][1]
            for block, pods in shard.blocks:
                for _ in range(pods):
                    node = next(
                        (shard.cluster, at)
                        for at, each in enumerate(blocks)
                        if each == block
                        and (shard.cluster, at) not in self.broken
                        and used[shard.cluster, at] + found[shard.cluster, at] < PER_NODE
                    )
                    found[node] += 1
        return found

    def check_gang(self, told: Admit) -> None:
        """All of it, in whole units, on one network, in no more clusters than allowed."""
        assert told.uid not in self.running
        item, plan = self.items[told.uid], told.placed.plan
        assert isinstance(plan, Plan)
        gang = plan.demand.policy.gang
        assert sum(shard.pods for shard in plan.shards) == item.pods
        assert dict(told.requests) == dict(item.requests)
        for shard in plan.shards:
            assert sum(pods for _, pods in shard.blocks) == shard.pods
            assert all(pods % gang.unit == 0 for _, pods in shard.blocks)
            assert shard.cluster not in self.away
        split = plan.demand.policy.mode == "Split"
        assert len(plan.shards) <= (gang.max_clusters if split else 1)
        if split:
            assert len({FLEET[shard.cluster][0] for shard in plan.shards}) == 1

    def check_sums(self, told: Admit) -> None:
        """No node of the quota tree above its limit by it."""
        for node in self.tree.path(told.item.quota):
            below = {*self.tree.under(node.name)}
            used = sum(
                each.requests[GPU] for each in self.running.values() if each.item.quota in below
            )
            share = node.shares[GPU]
            limit = share.limit if node.parent else share.guaranteed
            assert limit is None or used <= limit

    def check_victims(self, told: Preempt) -> None:
        assert told.victims
        assert told.uid not in self.running
        assert not self.leaving.keys() & {*told.victims}, "they go for somebody already"
        self.owed[told.uid] = {*told.victims}
        sizes = [self.running[uid].requests[GPU] for uid in told.victims]
        assert sum(sizes) - max(sizes) <= told.item.requests[GPU], "more than one gang too many"
        for uid in told.victims:
            self.leaving[uid] = told.uid
            ran = self.now - self.since[uid]
            least = self.tree.nodes[self.items[uid].quota].preemption.min_run_time_s
            if self.evictions[uid]:
                least = max(least, DAMPING_S) * 2 ** (self.evictions[uid] - 1)
            assert ran >= least, "longer after each time"
            self.evictions[uid] += 1

    def drain(self) -> None:
        """Everything is whole again and nothing more comes: whatever could ever start has to."""
        self.broken, self.away, self.tree = set(), set(), TREES[0]
        self.upset([])
        self.engine.quota_changed(self.tree)
        for _ in range(3 * len(self.items) + 8):
            for uid in sorted(self.leaving):
                self.gone(uid)
                self.engine.evicted(uid, self.now)
            for uid in sorted(self.running)[:1]:
                self.gone(uid)
                self.engine.finish(uid)
            self.step(60)
        assert self.running == {}
        for item, why in self.engine.waiting():
            assert why is not None
            if why.reason == "AboveLimit":
                assert item.requests[GPU] > 20
            else:
                assert why.reason == "NoSuchCapacity"
                assert isinstance(self.rooms.place(item), Unplaced)


Event = tuple[str, int, str, int, int, float | None]
KINDS = ["submit"] * 6 + ["end"] * 2 + ["leave"] * 3 + ["withdraw", "quota", "node", "cluster"]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 60),
        st.sampled_from("ab"),
        st.integers(1, 7),
        st.integers(0, 2),
        st.sampled_from([None, 5.0, 40.0]),
    ),
    min_size=12,
    max_size=45,
)
RULES = st.builds(
    Rules,
    worth=st.sampled_from([None, 1.0]),
    patience_s=st.sampled_from([0.0, 10.0]),
    damping_s=st.just(DAMPING_S),
    earmark_s=st.just(1e6),
    aging_s=st.sampled_from([20.0, 1e6]),
)


@pytest.mark.timeout(300)
@settings(max_examples=50, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(RULES, EVENTS)
def test_whatever_happens_to_a_fleet_gangs_are_whole_and_sums_are_kept(
    build: Any, rules: Rules, events: list[Event]
) -> None:
    world = World(build, rules)
    for number, event in enumerate(events):
        world.play(event)
        if number % 2:
            world.step()
    world.step()
    world.drain()


@pytest.mark.timeout(300)
@settings(max_examples=25, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(RULES, EVENTS, st.randoms(use_true_random=False))
def test_the_order_in_which_clusters_are_told_changes_no_decision(
    build: Any, rules: Rules, events: list[Event], random: Any
) -> None:
    names = [*FLEET]
    random.shuffle(names)
    worlds = (World(build, rules), World(build, rules, order=names))
    for event in events:
        for world in worlds:
            world.play(event)
        told = [[shown(each) for each in world.step()] for world in worlds]
        assert told[0] == told[1]


def shown(told: Decision) -> tuple[object, ...]:
    kind = type(told).__name__
    if isinstance(told, Admit | Preempt):
        placed = told.placed
        victims = told.victims if isinstance(told, Preempt) else ()
        assert isinstance(placed.plan, Plan)
        where = [(shard.cluster, shard.blocks) for shard in placed.plan.shards]
        return kind, told.uid, victims, placed.clusters, where
    assert isinstance(told, Wait)
    return kind, told.uid, str(told.why)


AGING_S = 30
LONGEST_S = 12
BOUND_S = AGING_S + 5 * LONGEST_S


@pytest.mark.timeout(300)
@settings(max_examples=20, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3), st.integers(1, LONGEST_S), st.integers(0, 2), st.sampled_from("ab")
        ),
        min_size=5,
        max_size=25,
    ),
    st.sampled_from([(8, 4), (12, 1), (20, 4)]),
    st.booleans(),
)
def test_the_largest_gang_starts_in_bounded_time_under_a_stream_of_small_ones(
    build: Any, stream: list[tuple[int, int, int, str]], large: tuple[int, int], evicts: bool
) -> None:
    """kueue#8309, KAI#1969: whatever comes, and however urgent, it starts once what ran when it had
    waited long enough is over, and what came before it then. None says when it ends."""
    policy = Preemption() if evicts else Preemption("Never", "Never")
    world = World(build, Rules(aging_s=AGING_S, worth=None))
    world.tree = quotas(
        ("root", "", 28, None, 0), ("a", "root", 20, None, 0), ("b", "root", 8, None, 0),
        preemption=policy,
    )  # fmt: skip
    world.engine.quota_changed(world.tree)
    ends: dict[str, float] = {}
    count = 0

    def saturate() -> None:
        nonlocal count
        while sum(1 for _ in world.engine.waiting()) < 4:
            size, runs_s, priority, quota = stream[count % len(stream)]
            count += 1
            uid = f"w{len(world.items):02}"
            world.submit(1, quota, size, priority, None)
            ends[uid] = runs_s

    def tick() -> None:
        for uid in sorted(world.leaving):
            world.gone(uid)
            world.engine.evicted(uid, world.now)
        over = [u for u in world.running if u in ends and world.now - world.since[u] >= ends[u]]
        for uid in sorted(over):
            world.gone(uid)
            world.engine.finish(uid)
        saturate()
        world.step()

    for _ in range(LONGEST_S):
        tick()
    pods, unit = large
    uid = f"w{len(world.items):02}"
    world.submit({1: 1, 4: 7}[unit], "a", pods // unit, 1, None)
    for _ in range(BOUND_S):
        tick()
        if uid in world.running:
            return
    raise AssertionError(f"{large} pods waited for more than {BOUND_S} s")
