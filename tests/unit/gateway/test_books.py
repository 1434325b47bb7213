"""The books: they tell of every change of what a member has free, and of nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fleet.gateway.books import NODES, PODS, Books


class Entries:
    """A collection that tests write into."""

    def __init__(self) -> None:
        self.followers: list[Any] = []

    def snapshot(self) -> Any:
        return SimpleNamespace(entries=lambda: [])

    def follow(self, follower: Any) -> Any:
        self.followers.append(follower)
        return lambda: self.followers.remove(follower)

    def say(self, obj: dict[str, Any], *, deleted: bool = False) -> None:
        entry = SimpleNamespace(member="east", parse=lambda: obj)
        for follower in self.followers:
            follower(SimpleNamespace(entry=entry, deleted=deleted))


class World:
    """Nodes and pods of one member, watched and up to date."""

    members = ("east",)

    def __init__(self) -> None:
        self.kinds = {NODES: self._merged(), PODS: self._merged()}

    @staticmethod
    def _merged() -> Any:
        synced = SimpleNamespace(is_set=lambda: True)
        watching = SimpleNamespace(synced=synced, failure=None, last_contact_s=0.0)
        return SimpleNamespace(
            collection=Entries(),
            hidden=Entries(),
            sources={"east": SimpleNamespace(watching=watching)},
        )

    def merged(self, gvr: Any) -> Any:
        return self.kinds[gvr]

    running = merged


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def books(world: World, told: list[str]) -> Books:
    books = Books(world=world, store=None, clusters=None, clock=lambda: 0.0)  # type: ignore[arg-type]
    books.on_change(told.append)
    books.begin()
    return books


def node(**status: Any) -> dict[str, Any]:
    allocatable = {"cpu": "4", "pods": "10"}
    return {"metadata": {"name": "n"}, "status": {"allocatable": allocatable, **status}}


def pod(phase: str = "Running", **more: Any) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": "p", "namespace": "default", **more},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"phase": phase},
    }


def test_what_changes_the_room_is_told_and_nothing_else(
    books: Books, world: World, told: list[str]
) -> None:
    nodes, pods = world.kinds[NODES].collection, world.kinds[PODS].collection

    def tells(say: Any, *args: Any, **more: Any) -> bool:
        books._capacity("east")  # looked at
        told.clear()
        say(*args, **more)
        return told == ["east"]

    assert tells(nodes.say, node())
    assert not tells(nodes.say, node(nodeInfo={"heartbeat": "2"}))
    assert tells(pods.say, pod())
    assert not tells(pods.say, pod(resourceVersion="2"))
    assert tells(pods.say, pod("Succeeded"))
    assert not tells(pods.say, pod("Succeeded", labels={"a": "b"}))
    assert tells(pods.say, pod())
    assert tells(pods.say, pod(), deleted=True)
    assert tells(nodes.say, node(), deleted=True)


def test_nothing_is_kept_of_a_member_that_left(books: Books, world: World) -> None:
    nodes, pods = world.kinds[NODES].collection, world.kinds[PODS].collection
    books._divide("east", {"spec": {"blocks": {"nodeLabel": "rack"}}})
    nodes.say(node())
    pods.say(pod())
    assert books._capacity("east") is not None
    nodes.say(node(), deleted=True)
    books.forget("east")
    pods.say(pod(), deleted=True)  # it was still on its way
    assert (books._accounts, books._block_labels) == ({}, {})
    nodes.say(node())  # it joined again
    assert books._capacity("east") is not None


def test_pods_that_no_list_shows_take_room_all_the_same(
    books: Books, world: World, told: list[str]
) -> None:
    nodes, hidden = world.kinds[NODES].collection, world.kinds[PODS].hidden
    nodes.say(node())
    before = books._capacity("east")
    told.clear()
    hidden.say(pod(name="web-g1-east"))
    assert told == ["east"]
    after = books._capacity("east")
    assert before is not None
    assert after is not None
    assert after.nodes[0].free["cpu"] < before.nodes[0].free["cpu"]
    hidden.say(pod(name="web-g1-east"), deleted=True)
    assert books._capacity("east") == before


def test_who_takes_accelerators_that_the_fleet_did_not_give_them(
    books: Books, world: World
) -> None:
    pods = world.kinds[PODS].collection
    world.kinds[NODES].collection.say(node())
    container = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}

    def on(name: str, namespace: str, **labels: str) -> dict[str, Any]:
        found = pod(name=name, namespace=namespace, labels=labels)
        return {**found, "spec": {"nodeName": "n", "containers": [container]}}

    marks = {"fleet.dev/workload-uid": "u", "fleet.dev/generation": "1"}
    pods.say(on("own", "serving.east"))
    pods.say(on("shard", "research.east", **marks))
    pods.say(pod(name="agent", namespace="kube-system.east"))
    assert books.others_on() == {"east": {"n": {"serving"}}}
