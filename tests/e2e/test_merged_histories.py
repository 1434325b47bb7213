"""One history: what a watch told up to a revision is what a list at that revision shows, while
several writers change objects through the gateway and behind its back."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.controlplane

SPACE = "histories"
SELECT = "labelSelector=suite%3Dhistories"
LIST = f"/api/v1/namespaces/{SPACE}.*/configmaps?{SELECT}"
WRITES = 60
NAMES = [f"h{n}" for n in range(6)]

State = dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def gateway(start_gateway: Any, bare_members: Any, door_to: Any) -> Iterator[Any]:
    for member in bare_members:
        door_to(member).post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    with start_gateway(one=bare_members[0], two=bare_members[1]) as gateway:
        gateway.door().post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
        yield gateway


def _write(door: Any, namespace: str, seed: int) -> None:
    """Creates, changes and deletes, whatever is there; others do the same to the same names."""
    rng = random.Random(seed)
    base = f"/api/v1/namespaces/{namespace}/configmaps"
    for n in range(WRITES):
        name = rng.choice(NAMES)
        value = f"{seed}-{n}"
        body = {
            "metadata": {"name": name, "labels": {"suite": "histories"}},
            "data": {"v": value},
        }
        headers = {"Content-Type": "application/merge-patch+json"}
        match rng.choice(["create", "create", "patch", "patch", "delete", "sweep"]):
            case "create":
                answer = door.request("POST", base, body)
            case "patch":
                answer = door.request(
                    "PATCH", f"{base}/{name}", {"data": {"v": value}}, headers=headers
                )
            case "delete":
                answer = door.request("DELETE", f"{base}/{name}")
            case _ if n % 20 == 19:
                answer = door.request("DELETE", f"{base}?{SELECT}")
            case _:
                continue
        assert answer.status in (200, 201, 404, 409), answer.body


def _state(items: list[dict[str, Any]]) -> State:
    return {
        (i["metadata"]["namespace"], i["metadata"]["name"]): i["data"]["v"]
        + "@" + i["metadata"]["resourceVersion"]
        for i in items
    }  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lists_at_a_revision_are_the_watch_up_to_it(
    gateway: Any, bare_members: Any, door_to: Any, seed: int
) -> None:
    door = gateway.door()
    first = door.get(LIST)
    writers = [
        (gateway.door(), f"{SPACE}.one"),
        (gateway.door(), f"{SPACE}.two"),
        (gateway.door(), SPACE),
        (door_to(bare_members[0]), SPACE),
        (door_to(bare_members[1]), SPACE),
    ]
    threads = [
        threading.Thread(target=_write, args=(to, where, seed * 10 + n))
        for n, (to, where) in enumerate(writers)
    ]
    start = first["metadata"]["resourceVersion"]
    with door.watch(f"{LIST}&resourceVersion={start}") as watch:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads)
        end = {"metadata": {"name": f"end{seed}", "labels": {"suite": "histories"}}}
        door.post(f"/api/v1/namespaces/{SPACE}/configmaps", end | {"data": {"v": "end"}})
        events = watch.until(lambda e: e["object"]["metadata"]["name"] == f"end{seed}")
    history: list[tuple[int, State]] = [(int(start), _state(first["items"]))]
    for event in events:
        revision = int(event["object"]["metadata"]["resourceVersion"])
        assert revision > history[-1][0]
        state = dict(history[-1][1])
        [(key, value)] = _state([event["object"]]).items()
        match event["type"]:
            case "ADDED":
                assert key not in state, event
                state[key] = value
            case "MODIFIED":
                assert key in state, event
                state[key] = value
            case "DELETED":
                del state[key]
        history.append((revision, state))
    assert len(history) > WRITES
    for revision, state in [*random.Random(seed).sample(history, 40), history[-1]]:
        listed = door.get(f"{LIST}&resourceVersion={revision}&resourceVersionMatch=Exact")
        assert listed["metadata"]["resourceVersion"] == str(revision)
        assert _state(listed["items"]) == state
    # and in the end it is what the members themselves have
    for number, member in enumerate(("one", "two")):
        there = door_to(bare_members[number]).get(f"/api/v1/namespaces/{SPACE}/configmaps?{SELECT}")
        theirs = {i["metadata"]["name"]: i["data"]["v"] for i in there["items"]}
        while _values(door.get(LIST), f"{SPACE}.{member}") != theirs:
            pass  # what was written directly may be on its way


def _values(listed: dict[str, Any], namespace: str) -> dict[str, str]:
    return {
        i["metadata"]["name"]: i["data"]["v"]
        for i in listed["items"]
        if i["metadata"]["namespace"] == namespace
    }
