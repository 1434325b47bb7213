"""A Placer over the fleet's books: what is promised, what runs, and what would be gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.planner import Fleet, asked_of
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
