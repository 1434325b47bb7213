"""Seats for work that others carry out: the fleet's own planner, ledger and rules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from adapters.kueue.fleet import Ask, NoSeat, Promised, Seat
from fleet.dispatch.planning import Answered, Question
from fleet.gateway.guests import Guests
from fleet.gateway.placing import Placing
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from policies import PLACEMENT_POLICY
from policies.placement import name_of

NOW = datetime(2026, 11, 29, tzinfo=UTC)
GPU = "nvidia.com/gpu"


class Books:
    """Members with so many accelerators free, on the plane `roce-1` if they are not `alone`."""

    def __init__(self, **free: int) -> None:
        self.free = free

    def on_change(self, listener: Any) -> None:
        self.listener = listener

    def clusters(self) -> list[Cluster]:
        return [self._cluster(name, free) for name, free in self.free.items()]

    def taken_by(self, workload: str) -> dict[str, Any]:
        return {}

    def taken_by_others(self, namespace: str) -> dict[str, Any]:
        return {}

    def _cluster(self, name: str, free: int) -> Cluster:
        accounts = NodeAccounts()
        allocatable = {GPU: str(free), "cpu": "64", "memory": "64Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": allocatable, "conditions": ready}
        accounts.upsert_node({"metadata": {"name": "n1"}, "status": status})
        plane = "" if name == "alone" else "roce-1"
        return Cluster(name, {"name": name}, accounts.capacity(0.0), parameter_plane=plane)


class World:
    def __init__(self, *members: str) -> None:
        self.members = dict.fromkeys(members)


@pytest.fixture
async def store():
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as made:
        yield made


class Stage:
    def __init__(self, store: ObjectStore, **free: int) -> None:
        self.books = Books(**free)
        self.freed = 0
        self.placing = Placing(
            store, self.books, now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0
        )  # fmt: skip
        self.guests = Guests(World(*free), self.books, self.placing, freed=self._free)

    def _free(self) -> None:
        self.freed += 1


def gang(uid: str = "u1", pods: int = 2, **labels: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {GPU: "1"}}}
    template = {"spec": {"containers": [container], "priority": 0}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"namespace": "payments", "name": f"job-{uid}", "uid": uid, "labels": labels},
        "spec": {"podSets": [{"name": "main", "count": pods, "template": template}]},
    }


def ask(uid: str = "u1", pods: int = 2, *, barred: dict[str, str] | None = None) -> Ask:
    return Ask(uid, gang(uid, pods), "2026-11-29T00:00:00Z", barred or {})


def job(ranks: int, uid: str = "uid-train") -> Question:
    container = {"name": "main", "image": "x", "resources": {"requests": {GPU: "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    workload = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "payments", "uid": uid},
        "spec": {"completions": ranks, "parallelism": ranks, "template": template},
    }
    told = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    placement = {
        "metadata": {"name": name_of("Job", "train"), "namespace": "payments"},
        "spec": {"workload": told},
        "status": {},
    }
    return Question(workload=workload, placement=placement)


async def policy(store: ObjectStore, **spec: Any) -> None:
    await store.create(
        PLACEMENT_POLICY.resource,
        {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "PlacementPolicy",
            "metadata": {"name": "gangs", "namespace": "payments", "uid": "pp"},
            "spec": {"workloads": {}, **spec},
        },
    )


async def test_the_whole_gang_goes_to_one_member_whatever_its_policy_would_split(store):
    await policy(store, mode="Split")
    stage = Stage(store, east=3, west=3)
    found = stage.guests.seat([ask(pods=4)])["u1"]
    assert isinstance(found, NoSeat)
    assert found.reason == "Impossible" and "4" in found.message
    assert isinstance(stage.guests.seat([ask(pods=3)])["u1"], Seat)


async def test_a_rule_of_the_namespaces_policy_decides_and_is_told_apart_from_want_of_room(store):
    await policy(store, gang={"network": "ParameterPlane"})
    stage = Stage(store, alone=8, east=1, west=2)
    found = stage.guests.seat([ask()])["u1"]
    assert isinstance(found, Seat)
    assert found.member == "west"
    assert found.shut == {"alone"}
    refused = stage.guests.seat([ask(pods=3)])["u1"]
    assert isinstance(refused, NoSeat) and refused.shut == {"alone"}


async def test_one_that_could_be_smaller_here_is_given_room_for_all_of_it(store):
    """Its size is Kueue's to say."""
    await policy(store, gang={"min": 1})
    stage = Stage(store, east=2, west=4)
    assert stage.guests.seat([ask(pods=4)])["u1"].member == "west"
    assert isinstance(stage.guests.seat([ask(pods=5)])["u1"], NoSeat)


async def test_barred_members_are_not_taken_and_the_reason_is_said(store):
    stage = Stage(store, east=4)
    found = stage.guests.seat([ask(barred={"east": "its Kueue: no quota"})])["u1"]
    assert isinstance(found, NoSeat)
    assert "its Kueue: no quota" in found.message
    assert not found.shut


async def test_those_asked_about_together_do_not_get_the_same_room(store):
    stage = Stage(store, east=4, west=4)
    found = stage.guests.seat([ask(f"u{n}", pods=1) for n in range(50)])
    seats = [each.member for each in found.values() if isinstance(each, Seat)]
    assert sorted(seats) == ["east"] * 4 + ["west"] * 4


async def test_what_is_promised_is_nobody_elses_until_it_is_given_back(store):
    stage = Stage(store, east=4)
    stage.guests.promise("u1", Promised(gang("u1", 3), "east"))
    found = stage.guests.seat([ask("u2", pods=2)])["u2"]
    assert isinstance(found, NoSeat) and found.reason == "NoRoom"
    answers = [each async for each in stage.placing.round([job(2)])]
    assert [each.answer.placed for each in answers if isinstance(each, Answered)] == [False]

    stage.guests.promise("u1", Promised(gang("u1", 3), "east", seen=2))
    assert isinstance(stage.guests.seat([ask("u2", pods=1)])["u2"], Seat)  # the job has two
    assert stage.freed == 0
    stage.guests.promise("u1", None)
    assert stage.freed == 1
    stage.guests.promise("u1", None)
    assert stage.freed == 1
    assert isinstance(stage.guests.seat([ask("u2", pods=2)])["u2"], Seat)


async def test_work_of_the_fleet_that_waits_and_comes_first_keeps_its_room(store):
    stage = Stage(store, east=4)
    async for _ in stage.placing.round([job(6, uid="uid-large")]):
        pass
    assert isinstance(stage.guests.seat([ask(pods=2)])["u1"], Seat)  # that one fits nowhere at all
    stage.books.free["east"] = 8
    assert isinstance(stage.guests.seat([ask(pods=3)])["u1"], NoSeat)
    assert isinstance(stage.guests.seat([ask(pods=2)])["u1"], Seat)


async def test_what_cannot_be_read_says_so(store):
    broken = gang()
    broken["metadata"]["labels"] = {"fleet.dev/policy": "missing"}
    stage = Stage(store, east=4)
    found = stage.guests.seat([Ask("u1", broken, "")])["u1"]
    assert isinstance(found, NoSeat) and found.reason == "Invalid"
    assert 'no PlacementPolicy is called "missing"' in found.message
    empty = stage.guests.seat([ask(pods=0)])["u1"]
    assert isinstance(empty, NoSeat) and empty.reason == "Invalid"


async def test_news_of_room_and_of_members_is_passed_on(store):
    stage, heard = Stage(store, east=4), []
    end = stage.guests.on_change(lambda: heard.append(1))
    stage.books.listener("east")
    async for _ in stage.placing.round([]):
        pass
    stage.guests.member_changed()
    end()
    stage.books.listener("east")
    assert len(heard) == 3
