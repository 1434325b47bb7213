"""Loans over members with nodes: what a donor keeps holds its pods, whatever is edited meanwhile.

The engine, the desk and the search of the product over a few nodes; pods go onto the very nodes
that were found for them. What is kept is checked by putting pods onto nodes in every way.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from asking import capacity_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.engine import Engine
from fleet.scheduling.keeping import Holds, Waits, bring
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.loans import Lend, Loan, Recall, Renew, Return, Settle
from fleet.scheduling.lending.record import loan_of, written
from fleet.scheduling.lending.seats import unseated
from fleet.scheduling.lending.spare import Spare
from fleet.scheduling.lending.terms import Terms
from fleet.scheduling.planner import Fleet, asked_of, item_of
from fleet.scheduling.quota.tree import Key, Node, Share, Tree
from fleet.scheduling.rooms import Picture, Rooms
from fleet.scheduling.standing import Standing, wish_of

GPU = Key("nvidia.com/gpu")
START = datetime(2026, 11, 29, tzinfo=UTC)
NOTICE_S = 20.0
SPARE = "SurvivesLossOfOneCluster"


def tree(
    serving: int = 28, research: int = 4, cv: int = 4, *, parents: Any = None
) -> Tree:  # fmt: skip
    given = {"serving": serving, "research": research, "cv": cv, "labs": 0}
    return Tree.of([
        Node("company", "", {GPU: Share(serving + research + cv)}),
        *(
            Node(name, (parents or {}).get(name, "company"), {GPU: Share(amount)})
            for name, amount in given.items()
        ),
    ])  # fmt: skip


class World:
    """Clusters of nodes with so many accelerators each, and what runs on which node."""

    def __init__(self, build: Any, *terms: Terms, quotas: Tree | None = None, **nodes: Any) -> None:
        self.build = build
        self.nodes: dict[str, list[int]] = nodes or {"east": [8, 4], "west": [8, 4], "south": [8]}
        self.quotas, self.terms = quotas or tree(), list(terms)
        self.now_s = 0.0
        self.made = 0
        self.jobs: dict[str, tuple[Any, str, int]] = {}
        """By uid: the Job, its quota, the accelerators of a pod."""
        self.waiting: dict[str, float] = {}
        self.evicted: set[str] = set()
        self.on: dict[str, Counter[tuple[str, str]]] = {}
        """By uid of what runs, pods by cluster and node."""
        self.since: dict[str, float] = {}
        self.loans: dict[str, Loan] = {}
        self.leaves: dict[str, float] = {}
        self.told: list[Any] = []
        self.restart()

    def restart(self) -> None:
        """All that is not stored with the work is gone."""
        self.rooms = Rooms()
        self.engine = Engine(self.quotas, self.rooms)
        spare = Spare(self.rooms, lambda donor: self.desk.keys_of(donor))
        self.desk = Desk(self.engine, self.rooms, self.quotas, self.terms, members=spare)

    def change(self, *terms: Terms, quotas: Tree | None = None) -> None:
        self.terms, self.quotas = list(terms) or self.terms, quotas or self.quotas
        self.desk.change(self.quotas, self.terms)

    def submit(self, quota: str, pods: int, gpus: int, uid: str = "") -> str:
        self.made += 1
        uid = uid or f"w{self.made}"
        job = self.build.job(pods, name=uid, requests={"nvidia.com/gpu": str(gpus)})
        job["metadata"]["uid"] = uid
        self.jobs[uid] = job, quota, gpus
        self.waiting[uid] = self.now_s
        return uid

    def run(self, uid: str, **there: int) -> None:
        """What is there already, on the first nodes that hold it."""
        gpus = self.jobs[uid][2]
        del self.waiting[uid]
        self.on[uid], self.since[uid] = Counter(), self.now_s
        for cluster, pods in there.items():
            for _ in range(pods):
                free = self.free()
                node = next(n for (c, n), left in free.items() if c == cluster and left >= gpus)
                self.on[uid][cluster, node] += 1

    def end(self, uid: str, *, waits: bool = False) -> None:
        for each in (self.on, self.since, self.loans, self.leaves):
            each.pop(uid, None)
        self.waiting.pop(uid, None)
        if waits:
            self.waiting[uid] = self.now_s
            self.evicted.add(uid)
        else:
            del self.jobs[uid]

    def free(self) -> dict[tuple[str, str], int]:
        left = {
            (name, f"n{at}"): size
            for name, sizes in self.nodes.items()
            for at, size in enumerate(sizes)
        }
        for uid, pods in self.on.items():
            for where, count in pods.items():
                left[where] -= count * self.jobs[uid][2]
        return left

    # -- rounds

    def round(self) -> list[Any]:
        """As the gateway makes them; what was decided is there at once."""
        now = START + timedelta(seconds=self.now_s)
        accounts = {name: NodeAccounts() for name in self.nodes}
        for name, sizes in self.nodes.items():
            for at, size in enumerate(sizes):
                accounts[name].upsert_node(self.build.node(f"n{at}", size))
        for uid, pods in self.on.items():
            labels = {"fleet.dev/workload-uid": uid, "fleet.dev/generation": "1"}
            requests = {"nvidia.com/gpu": str(self.jobs[uid][2])}
            for at, (cluster, node) in enumerate(pods.elements()):
                pod = self.build.pod(f"{uid}-{at}", node, requests=requests, labels=labels)
                accounts[cluster].upsert_pod(pod)
        clusters = tuple(
            replace(self.build.cluster(name), capacity=accounts[name].capacity(0.0))
            for name in sorted(accounts)
        )
        rules = self.build.policy({"workloads": {}, "mode": "Split", "gang": {"maxClusters": 3}})
        fleet = Fleet(clusters, policies=(rules,))
        asked, items = {}, {}
        for uid in self.waiting:
            job, quota, _ = self.jobs[uid]
            asked[uid] = asked_of(job, None, fleet, now=now), wish_of(job)
            items[uid] = replace(
                item_of(*asked[uid], quota=quota, sequence=int(uid[1:]), preempts=True),  # type: ignore[arg-type]
                priority=0,
            )
        taken_by = lambda uid: {  # noqa: E731
            name: taken for name, each in accounts.items() if (taken := each.taken_by(uid))
        }
        picture = Picture(clusters, Ledger(), fleet.prices, now, 0.0, taken_by)
        self.rooms.begin(picture, asked)  # type: ignore[arg-type]
        waits = {
            uid: Waits(items[uid], since, uid in self.evicted)
            for uid, since in self.waiting.items()
        }
        bring(self.engine, waits, {uid: self.holds(uid) for uid in self.on}, self.at)
        self.desk.hold([
            loan for uid, each in self.loans.items() if (loan := self.stored(uid, each))
        ])  # fmt: skip
        self.engine.capacity_changed()
        decided = self.desk.step(self.at)
        self.engine.verify()
        for each in decided:
            self.take_in(each)
        self.told += decided
        return decided

    @property
    def at(self) -> float:
        return START.timestamp() + self.now_s

    def stored(self, uid: str, loan: Loan) -> Loan | None:
        """As the Placement has it."""
        status = {"phase": "Running", "shards": [{}], "loan": written(loan)}
        return loan_of({**status, **({"preemptedFor": {}} if uid in self.leaves else {})}, uid)

    def holds(self, uid: str) -> Holds:
        job, quota, gpus = self.jobs[uid]
        wish = wish_of(job)
        assert wish is not None
        (kind,) = wish.kinds.values()
        pods: Counter[str] = Counter()
        for (cluster, _), count in self.on[uid].items():
            pods[cluster] += count
        standing = Standing(
            wish.whole,
            {name: {GPU: gpus * count, Key("pods"): count} for name, count in pods.items()},
            pods={name: {kind: count} for name, count in pods.items()},
            started_s=START.timestamp() + self.since[uid],
            leaving_for=self.loans[uid].mark if uid in self.leaves and uid in self.loans
            else "other" if uid in self.leaves else "",
        )  # fmt: skip
        fleet = Fleet((), policies=(self.build.policy({"workloads": {}}),))
        asked = asked_of(job, None, fleet, now=START)
        item = item_of(asked, wish, quota=quota, sequence=int(uid[1:]), preempts=True)
        return Holds(item, standing)

    def take_in(self, each: Any) -> None:
        uid = getattr(each, "uid", "")
        match each:
            case Admit() | Lend():
                _, seats = self.rooms._taken[uid]
                there: Counter[tuple[str, str]] = Counter()
                for cluster, taken in seats.items():
                    capacity = self.rooms._bases[cluster].left
                    assert capacity is not None
                    for kind in taken:
                        for block, on in kind.seats:
                            for at, count in on:
                                node = capacity.blocks[block].site.nodes[at].name
                                there[cluster, node] += count
                self.on[uid], self.since[uid] = there, self.now_s
                self.waiting.pop(uid)
                self.evicted.discard(uid)
                if isinstance(each, Lend):
                    self.loans[uid] = each.loan
            case Recall() | Renew():
                self.loans[uid] = each.loan
            case Settle():
                del self.loans[uid]
            case Return():
                self.leaves[uid] = self.now_s + 5
            case Preempt():
                for victim in each.victims:
                    self.leaves[victim] = self.now_s + 5

    def pass_time(self, seconds: float) -> None:
        """By rounds whenever one was asked for, and when something has left."""
        until = self.now_s + seconds
        while True:
            again = self.desk.next_s()
            times = [*self.leaves.values()]
            times += [again - START.timestamp()] if again is not None else []
            self.now_s = min((at for at in times if self.now_s < at < until), default=until)
            for uid in [uid for uid, at in self.leaves.items() if at <= self.now_s]:
                self.end(uid, waits=True)
            if self.now_s >= until:
                return
            self.check(self.round())

    # -- what holds

    def survives(self, donor: str) -> bool:
        """Whether pods of the donor find nodes wherever the worst cluster is lost, with what waits:
        by trying everything."""
        left, ours = self.free(), [uid for uid in self.on if self.jobs[uid][1] == donor]
        waits = [
            self.jobs[uid][2]
            for uid in self.waiting
            if self.jobs[uid][1] == donor
            for _ in range(self.jobs[uid][0]["spec"]["parallelism"])
        ]
        for lost in self.nodes:
            pods = [
                self.jobs[uid][2]
                for uid in ours
                for (cluster, _), count in self.on[uid].items()
                if cluster == lost
                for _ in range(count)
            ]
            nodes = tuple(sorted(max(0, n) for (name, _), n in left.items() if name != lost))
            if pods and not fits(tuple(sorted(pods + waits, reverse=True)), nodes):
                return False
        return True

    def check(self, decided: list[Any]) -> None:
        floors = {t.name: t for t in self.terms if t.keep_floor == SPARE}
        for each in decided:
            if isinstance(each, Lend) and each.loan.policy in floors:
                assert self.survives(each.loan.donor), each
            if isinstance(each, Recall):
                assert each.loan.ends_s == self.at + each.loan.notice_s
            if isinstance(each, Return):
                assert each.loan.recalled_s is not None
                assert self.at >= each.loan.recalled_s + NOTICE_S, "sooner than was promised"
        assert self.desk.loans.keys() == self.loans.keys() <= self.on.keys()
        for (_, name), amount in self.free().items():
            assert amount >= 0, f"{name} holds more than it has"


@cache
def fits(pods: tuple[int, ...], nodes: tuple[int, ...]) -> bool:
    if not pods:
        return True
    for at, free in enumerate(nodes):
        if free >= pods[0] and (at == 0 or free != nodes[at - 1]):
            left = tuple(sorted((*nodes[:at], free - pods[0], *nodes[at + 1 :])))
            if fits(pods[1:], left):
                return True
    return False


def uids(decided: list[Any], kind: type[Any]) -> list[str]:
    return sorted(each.uid for each in decided if isinstance(each, kind))


NIGHT = Terms("night", "serving", ("research", "cv"), keep_floor=SPARE, notice_s=NOTICE_S)


@pytest.mark.parametrize(("gpus", "lent"), [(1, True), (8, False)])
def test_a_spare_on_parts_of_nodes_holds_no_pod_that_wants_a_whole_one(build, gpus, lent) -> None:
    """Sums say the same of both: the west has twelve free, of which four are asked for."""
    world = World(build, NIGHT, quotas=tree(32, 4, 0), east=[8], west=[8, 4, 4])
    world.run(world.submit("serving", 8 // gpus, gpus), east=8 // gpus)
    world.run(world.submit("research", 4, 1), west=4)
    guest = world.submit("research", 4, 1)
    assert uids(world.round(), Lend) == ([guest] if lent else [])
    assert world.survives("serving") is lent


def test_loans_are_called_back_where_what_is_left_holds_no_pod(build) -> None:
    """Serving begins anew with pods that want whole nodes, and two loans have a part of one."""
    world = World(build, NIGHT, quotas=tree(40, 4, 0), east=[8, 8], west=[8, 8])
    world.run(world.submit("research", 4, 1), west=4)
    first, second = world.submit("research", 2, 2), world.submit("research", 1, 4)
    assert uids(world.round(), Lend) == [first, second]
    world.on[first] = Counter({("west", "n0"): 1, ("west", "n1"): 1})
    world.on[second] = Counter({("east", "n1"): 1})
    web = world.submit("serving", 1, 8)
    world.run(web, east=1)
    assert not world.survives("serving")
    assert uids(world.round(), Recall) == [first], "whole nodes are in the way of one of them"
    assert world.desk.standing(NIGHT) == "CalledBack"


def test_pods_that_no_node_could_hold_stand_in_nobodys_way(build) -> None:
    world = World(build, NIGHT, quotas=tree(24, 4, 0), east=[8], west=[8, 8, 8])
    world.run(world.submit("serving", 1, 4), east=1)
    world.submit("serving", 1, 9)
    world.run(world.submit("research", 4, 1), west=4)
    guest = world.submit("research", 1, 1)
    assert uids(world.round(), Lend) == [guest]


def test_a_part_that_was_placed_anew_is_where_it_is(build) -> None:
    world = World(build, NIGHT)
    web = world.submit("serving", 2, 2)
    world.run(web, east=2)
    world.round()
    assert world.engine.running()[web].placed.clusters.keys() == {"east"}
    world.on[web] = Counter({("east", "n0"): 1, ("west", "n0"): 1})
    world.round()
    placed = world.engine.running()[web].placed
    assert placed.clusters.keys() == placed.pods.keys() == {"east", "west"}


COUNTS = st.lists(st.integers(1, 8), min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(COUNTS, COUNTS, st.lists(st.integers(0, 8), min_size=1, max_size=5))
def test_what_finds_nodes_could_be_put_onto_them(build, lost, coming, nodes) -> None:
    """Never less is kept than is needed; and where pods are alike, never more."""

    def kinds(sizes: list[int]) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for size in sizes:
            job = build.job(1, requests={"nvidia.com/gpu": str(size)})
            wish = wish_of(job)
            assert wish is not None
            found.update(wish.kinds.values())
        return found

    west = capacity_of(
        [build.node(f"n{at}", 8) for at in range(len(nodes))],
        [
            build.pod(f"p{at}", f"n{at}", requests={"nvidia.com/gpu": str(8 - free)})
            for at, free in enumerate(nodes)
            if free < 8
        ],
        as_of_s=0.0,
    )
    there = {"west": west}
    ours = {"east": kinds(lost)}
    left = unseated(ours, kinds(coming), there, resources={"nvidia.com/gpu"})
    pods = tuple(sorted(lost + coming, reverse=True))
    possible = fits(pods, tuple(sorted(nodes)))
    assert possible or left > 0
    if len({*pods}) == 1:
        assert possible is (left == 0)


# -- every history

EDITS = ("floor", "none", "borrowers", "two", "gone", "cut", "zero", "moved", "below", "back")


def play(build: Any, seed: int) -> World:
    draw = random.Random(seed)
    night = replace(NIGHT, term_s=draw.choice([60.0, 600.0]), renew=draw.random() < 0.7)
    world = World(build, night)
    for _ in range(40):
        match draw.choice(["submit"] * 4 + ["end", "end", "wait", "wait", "restart", "edit"]):
            case "submit":
                quota = draw.choice(["serving", "research", "research", "cv", "labs"])
                world.submit(quota, draw.randint(1, 3), draw.choice([1, 2, 4, 8]))
            case "end" if world.on:
                world.end(draw.choice(sorted(world.on)))
            case "wait":
                world.pass_time(draw.choice([1, 10, 30, 120]))
            case "restart":
                world.check(world.round())
                before = dict(world.desk.loans)
                world.restart()
                decided = world.round()
                anew = (Recall, Return, Renew)
                assert [each for each in decided if isinstance(each, anew)] == []
                assert {uid: world.desk.loans.get(uid) for uid in before} == {
                    uid: None if uid in uids(decided, Settle) else loan
                    for uid, loan in before.items()
                }
                world.check(decided)
            case "edit":
                edit(world, draw.choice(EDITS), night)
        world.check(world.round())
        again = world.round()
        assert [e for e in again if isinstance(e, Recall | Return | Renew | Settle)] == []
        world.check(again)
    return world


def edit(world: World, what: str, night: Terms) -> None:
    labs = Terms("day", "serving", ("labs",), keep_floor="None", notice_s=NOTICE_S)
    match what:
        case "floor":
            world.change(night)
        case "none":
            world.change(replace(night, keep_floor="None"))
        case "borrowers":
            world.change(replace(night, borrowers=("labs",)))
        case "two":
            world.change(night, labs)
        case "gone":
            world.change(labs)
        case "cut":
            world.change(quotas=tree(6))
        case "zero":
            world.change(quotas=tree(0))
        case "moved":
            world.change(quotas=tree(parents={"labs": "research"}))
        case "below":
            world.change(quotas=tree(32, parents={"research": "serving"}))
        case "back":
            world.change(quotas=tree())


@pytest.mark.parametrize("seed", [*range(12), 124])
def test_histories_of_loans_over_members(build, seed) -> None:
    play(build, seed)


def test_histories_have_all_that_becomes_of_a_loan(build) -> None:
    told = {type(each) for seed in range(8) for each in play(build, seed).told}
    assert told >= {Lend, Recall, Return, Renew, Settle}
