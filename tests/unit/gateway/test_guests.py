"""Seats for work that others carry out: the fleet's own planner, ledger and rules."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from adapters.kueue.fleet import Ask, NoSeat, Promised, Seat
from adapters.kueue.objects import CONFIGS, WORKLOADS
from fleet.dispatch.planning import Answered, Question
from fleet.gateway.books import PODS
from fleet.gateway.guests import Guests
from fleet.gateway.placing import Placing
from fleet.kube.resources import Resource
from fleet.kube.revision import Revision
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster
from fleet.store.collection import Collection
from fleet.store.entry import Entry
from fleet.store.sequencer import Sequencer
from policies import PLACEMENT_POLICY
from policies.placement import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.kube.resources import GroupVersionResource
    from fleet.store.objects import ObjectStore

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

    def saved_s(self, *, now: float) -> dict[str, float]:
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


class Stage:
    def __init__(self, store: ObjectStore, **free: int) -> None:
        self.books = Books(**free)
        self.freed = 0
        self.placing = Placing(
            store, self.books, now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0
        )  # fmt: skip
        self.world = World(*free)
        self.guests = Guests(self.world, self.books, self.placing, freed=self._free)

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


class Merged:
    """A merged resource with objects of members in it."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.collection = Collection(resource, Sequencer(epoch=1))
        self.readers = 0
        self._next = 1

    def put(self, member: str, name: str, namespace: str = "", **more: Any) -> None:
        self._next += 1
        metadata = {"name": name, "labels": {"fleet.dev/cluster": member, "a": "b"}}
        if namespace:
            metadata["namespace"] = namespace
        obj = {"apiVersion": "v1", "kind": "X", "metadata": metadata, **more}
        revision = Revision(self._next)
        self.collection.put(Entry(obj, revision=revision, member=member, member_revision=7))

    @contextmanager
    def reading(self) -> Iterator[None]:
        self.readers += 1
        yield
        self.readers -= 1


@pytest.fixture
def merged() -> dict[GroupVersionResource, Merged]:
    rows = (
        Resource(gvr=WORKLOADS, kind="Workload", namespaced=True, verbs=("list", "watch")),
        Resource(gvr=CONFIGS, kind="MultiKueueConfig", namespaced=False, verbs=("list", "watch")),
    )
    return {row.gvr: Merged(row) for row in rows}


async def test_objects_are_told_as_their_members_have_them(store, merged):
    stage, told = Stage(store, east=1), []
    served: dict[Any, Merged] = {}
    stage.world.merged = served.get

    def heard(member: str, gvr: Any, obj: dict[str, Any], gone: bool) -> None:
        metadata = obj["metadata"]
        place = metadata.get("namespace", ""), metadata["name"], metadata["resourceVersion"]
        told.append((member, gvr.resource, place, metadata["labels"], gone))

    merged[WORKLOADS].put("hub", "w", "payments.hub")
    end = stage.guests.follow((WORKLOADS, CONFIGS), heard)
    assert told == []  # nobody serves it yet
    served.update(merged)
    stage.guests.member_changed()
    stage.guests.member_changed()
    assert told == [("hub", "workloads", ("payments", "w", "7"), {"a": "b"}, False)]

    merged[CONFIGS].put("hub", "fleet.hub")
    merged[CONFIGS].put("", "fleet")  # no member's
    entry = merged[WORKLOADS].collection.get("payments.hub", "w")
    merged[WORKLOADS].collection.remove(entry)
    assert [each[1:3] for each in told[1:]] == [
        ("multikueueconfigs", ("", "fleet", "7")),
        ("workloads", ("payments", "w", "7")),
    ]
    assert told[-1][-1] is True
    assert [each.readers for each in merged.values()] == [1, 1]
    end()
    assert [each.readers for each in merged.values()] == [0, 0]
    merged[WORKLOADS].put("hub", "later", "payments.hub")
    stage.guests.member_changed()
    assert len(told) == 3


async def test_pods_on_nodes_are_counted_in_one_namespace_of_one_member(store):
    stage = Stage(store, east=1)
    pods = Merged(Resource(gvr=PODS, kind="Pod", namespaced=True, verbs=("list", "watch")))
    stage.world.running = {PODS: pods}.get
    pods.put("east", "a", "payments.east", spec={"nodeName": "n1"})
    pods.put("east", "b", "payments.east", spec={})
    pods.put("west", "a", "payments.west", spec={"nodeName": "n1"})
    pods.put("east", "a", "other.east", spec={"nodeName": "n1"})
    found = stage.guests.bound("east", "payments", lambda labels, pod: labels["a"] == "b")
    assert found == 1
    assert stage.guests.bound("east", "payments", lambda labels, pod: False) == 0


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
