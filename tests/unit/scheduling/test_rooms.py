"""A Placer over the fleet's books: what is promised, what runs, and what would be gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.planner import Fleet, asked_of
from fleet.scheduling.price import prices_of
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.rooms import Picture, Rooms
from fleet.scheduling.standing import wish_of

GPU = Key("nvidia.com/gpu")
RUNS = {"fleet.dev/workload-uid": "uid-crawl", "fleet.dev/generation": "1"}


class Member:
    """East: two nodes of four accelerators, three of the first in use by the workload crawl."""

    def __init__(self, build):
        self.accounts = NodeAccounts()
        for name in ("n0", "n1"):
            self.accounts.upsert_node(build.node(name, 4))
        for number in range(3):
            requests = {"nvidia.com/gpu": "1"}
            self.accounts.upsert_pod(build.pod(f"c{number}", "n0", requests=requests, labels=RUNS))
        self.cluster = replace(build.cluster("east"), capacity=self.accounts.capacity(0.0))

    def taken_by(self, uid):
        taken = self.accounts.taken_by(uid)
        return {"east": taken} if taken else {}


@pytest.fixture
def member(build):
    return Member(build)


@pytest.fixture
def ask(build, member):
    """Rooms that know of jobs by name: of one accelerator for each rank."""

    def ask(**ranks):
        fleet = Fleet((member.cluster,), policies=(build.policy({"workloads": {}}),))
        asked = {}
        for name, count in ranks.items():
            job = build.job(count, name=name)
            asked[f"uid-{name}"] = (asked_of(job, None, fleet, now=build.now), wish_of(job))
        rooms = Rooms()
        picture = Picture(
            (member.cluster,), Ledger(), fleet.prices, build.now, 0.0, member.taken_by
        )
        rooms.begin(picture, asked)
        return rooms

    return ask


def item(name, ranks):
    return Item(f"uid-{name}", "", 0, 0, {GPU: ranks}, name)


def test_a_place_and_what_it_takes(ask):
    found = ask(train=5).place(item("train", 5))
    assert isinstance(found, Placed)
    assert found.clusters == {"east": {GPU: 5, Key("pods"): 5}}


def test_of_equal_blocks_those_are_taken_that_leave_most_for_larger_units(build):
    """Anti-fragmentation: eight that are free together stay so."""
    sizes, blocks = [4, 4, 5], ["r0", "r0", "r1"]
    cluster = build.cluster("east", sizes, blocks=blocks)
    job = build.job(1, name="small")
    asked = asked_of(job, None, Fleet((cluster,)), now=build.now)
    rooms = Rooms()
    rooms.begin(
        Picture((cluster,), Ledger(), prices_of([], now=build.now), build.now, 0.0),
        {"uid-small": (asked, wish_of(job))},
    )
    found = rooms.place(item("small", 1))
    assert [shard.blocks for shard in found.plan.shards] == [(("r1", 1),)]


def test_what_is_decided_is_deducted_and_given_back(ask):
    rooms = ask(train=4, other=2)
    found = rooms.place(item("train", 4))
    rooms.take("uid-train", found)
    refused = rooms.place(item("other", 2))
    assert isinstance(refused, Unplaced)
    assert refused.ever
    assert rooms.refusals["uid-other"].message == refused.why
    rooms.give("uid-train")
    assert isinstance(rooms.place(item("other", 2)), Placed)


def test_without_others_their_pods_are_gone_from_the_very_nodes(ask):
    rooms = ask(train=8, wide=9)
    assert isinstance(rooms.place(item("train", 8)), Unplaced)
    assert isinstance(rooms.place(item("train", 8), without=["uid-crawl"]), Placed)
    never = rooms.place(item("wide", 9), without=["uid-crawl"])
    assert isinstance(never, Unplaced)
    assert not never.ever


def test_what_is_found_with_others_gone_is_free_beside_what_the_round_took(ask, build, member):
    """Eight accelerators are nobody's twice, whichever nodes a plan of this round is thought on."""
    native = build.pod("native", "n1", requests={"nvidia.com/gpu": "1"})
    member.accounts.upsert_pod(native)
    member.cluster = replace(member.cluster, capacity=member.accounts.capacity(0.0))
    rooms = ask(small=3, train=4, other=1)
    rooms.take("uid-small", rooms.place(item("small", 3)))
    rooms.take("uid-train", rooms.place(item("train", 4), without=["uid-crawl"]))
    assert isinstance(rooms.place(item("other", 1)), Unplaced)


def test_without_another_its_promise_is_gone(ask):
    rooms = ask(train=5, other=5)
    rooms.take("uid-train", rooms.place(item("train", 5)))
    assert isinstance(rooms.place(item("other", 5)), Unplaced)
    assert isinstance(rooms.place(item("other", 5), without=["uid-train"]), Placed)


def test_a_preemptors_place_outlives_the_round_and_what_was_stored_does_not(ask, member, build):
    rooms = ask(train=8, other=1)
    rooms.take("uid-train", rooms.place(item("train", 8), without=["uid-crawl"]))
    picture, asked = rooms._picture, rooms._asked
    rooms.begin(picture, asked)
    assert isinstance(rooms.place(item("other", 1)), Unplaced), "kept for the preemptor"
    del asked["uid-train"]
    rooms.begin(picture, asked)
    assert isinstance(rooms.place(item("other", 1)), Placed), "for the promises to say"


def test_those_who_are_alike_are_refused_alike(ask, monkeypatch):
    rooms = ask(train=6, same=6, other=7)
    searched = []
    choose = rooms.choose
    monkeypatch.setattr(
        rooms, "choose", lambda asked, **how: searched.append(asked) or choose(asked, **how)
    )
    for name, ranks in (("train", 6), ("same", 6), ("other", 7)):
        assert isinstance(rooms.place(item(name, ranks)), Unplaced)
    assert len(searched) == 2
    assert rooms.refusals["uid-same"].demand.workload.name == "same"


# -- from round to round

CHANGES = st.lists(
    st.sampled_from(
        ["pod", "gone", "node", "cordon", "price", "later", "leaves", "joins", "nothing"]
    ),
    max_size=4,
)


class Moving:
    """Members to which things happen, and a ledger."""

    def __init__(self, build):
        self.build, self.at, self.now_s = build, 0, 0.0
        self.accounts, self.pods = {}, {}
        self.cordoned = set()
        self.promises = Ledger()
        self.prices = ("1", "2", "1.5")
        for name in ("east", "west", "north"):
            self.joins(name)

    def joins(self, name):
        accounts = self.accounts[name] = NodeAccounts(block_label="rack")
        for number in range(3):
            labels = {"rack": f"r{number % 2}"}
            accounts.upsert_node(self.build.node(f"n{number}", 4, labels=labels))

    def change(self, what, name):
        self.at += 1
        accounts = self.accounts.get(name)
        if what == "later":
            self.now_s += 25.0
        elif what == "price":
            self.prices = self.prices[1:] + self.prices[:1]
        elif what == "joins" and accounts is None:
            self.joins(name)
        elif what == "cordon":
            self.cordoned ^= {name}
        elif accounts is None:
            pass
        elif what == "leaves":
            del self.accounts[name]
            self.pods.pop(name, None)
        elif what == "pod":
            requests = {"nvidia.com/gpu": "2"}
            labels = {"fleet.dev/workload-uid": "uid-crawl", "fleet.dev/generation": "1"}
            pod = self.build.pod(f"p{self.at}", "n1", requests=requests, labels=labels)
            accounts.upsert_pod(pod)
            self.pods.setdefault(name, []).append(pod)
        elif what == "gone":
            for pod in self.pods.pop(name, []):
                accounts.remove_pod(pod)
        elif what == "node":
            accounts.upsert_node(self.build.node(f"m{self.at}", 4, labels={"rack": "r1"}))

    def taken_by(self, uid):
        found = {name: each.taken_by(uid) for name, each in self.accounts.items()}
        return {name: taken for name, taken in found.items() if taken}

    def picture(self):
        clusters = tuple(
            replace(
                self.build.cluster(name),
                capacity=accounts.capacity(0.0 if name == "west" else self.now_s),
                cordoned=name in self.cordoned,
            )
            for name, accounts in self.accounts.items()
        )
        offers = [
            {"cluster": name, "perHour": price, "per": "Accelerator"}
            for name, price in zip(("east", "north"), self.prices, strict=False)
        ]
        spec = {"currency": "USD", "offers": offers}
        prices = prices_of([{"metadata": {"name": "b"}, "spec": spec}], now=self.build.now)
        return Picture(
            clusters, self.promises, prices, self.build.now, self.now_s, self.taken_by
        )  # fmt: skip


@given(st.lists(CHANGES, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_what_is_kept_from_round_to_round_answers_as_if_counted_anew(build, rounds, chance):
    fleet = Moving(build)
    policy = build.policy({"workloads": {}, "mode": "Split", "gang": {"network": "None"}})
    rules = Fleet((), policies=(policy,))
    jobs = {n: build.job(n, name=f"j{n}") for n in (1, 3, 6, 11)}
    asked = {
        f"uid-j{n}": (asked_of(job, None, rules, now=build.now), wish_of(job))
        for n, job in jobs.items()
    }
    rooms = Rooms()
    for changes in rounds:
        for what in changes:
            fleet.change(what, chance.choice(("east", "west", "north")))
        picture, anew = fleet.picture(), Rooms()
        rooms.begin(picture, asked)
        anew.begin(picture, asked)
        rooms.begin(picture, asked)
        taken = []
        for number in chance.sample(sorted(jobs), 3):
            one = item(f"j{number}", number)
            for without in ((), ["uid-crawl"], taken[:1]):
                found, other = (each.place(one, without=without) for each in (rooms, anew))
                assert found == other
            if isinstance(found, Placed) and chance.random() < 0.7:
                rooms.take(one.uid, found)
                anew.take(one.uid, other)
                taken.append(one.uid)
                if chance.random() < 0.3:
                    rooms.give(one.uid)
                    anew.give(one.uid)
                    taken.remove(one.uid)
        for uid in taken:
            plan, _ = rooms._taken[uid]
            kinds = {role.name: role.kind for role in plan.demand.roles}
            fleet.promises = fleet.promises.reserve(uid, kinds, plan.shards)
            rooms.give(uid)
