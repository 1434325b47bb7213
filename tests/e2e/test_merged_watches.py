"""WATCH over two real members: no event lost or told twice, whatever the members go through."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.controlplane

SPACE = "watches"
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
OURS = {"suite": "watches"}
END = "k8s.io/initial-events-end"


@pytest.fixture(scope="module")
def gateway(start_gateway: Any, bare_members: Any, door_to: Any) -> Iterator[Any]:
    for member in bare_members:
        door_to(member).post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    with start_gateway(one=bare_members[0], two=bare_members[1]) as gateway:
        gateway.door().post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
        yield gateway


@pytest.fixture
def door(gateway: Any, bare_members: Any) -> Iterator[Any]:
    door = gateway.door()
    yield door
    if door.request("GET", _path(".two")).status == 404:
        gateway.join("two", bare_members[1])
    for part in ("", ".one", ".two"):
        door.delete(_path(part))


def _path(part: str = "", name: str = "") -> str:
    path = f"/api/v1/namespaces/{SPACE}{part}/configmaps"
    return f"{path}/{name}" if name else path


def _map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": (labels or {}) | OURS}, "data": data}


def _ours(query: str, *, part: str = ".*") -> str:
    """What this module made, nothing that namespaces are furnished with."""
    selector = ",".join(f"{key}%3D{value}" for key, value in OURS.items())
    return f"{_path(part)}?labelSelector={selector}&{query}"


def _everywhere(query: str) -> str:
    return _ours(query).replace(_path(".*"), "/api/v1/configmaps")


def _told(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (e["type"], e["object"]["metadata"]["namespace"], e["object"]["metadata"]["name"])
        for e in events
    ]


def _is_end(event: dict[str, Any]) -> bool:
    annotations = event["object"]["metadata"].get("annotations") or {}
    return event["type"] == "BOOKMARK" and annotations.get(END) == "true"


def _named(name: str) -> Any:
    return lambda event: event["object"]["metadata"].get("name") == name


def test_initial_events_end_with_the_bookmark_of_their_revision(door: Any) -> None:
    """rancher#55606, cozystack#2786: the annotated bookmark is ours, and covers every member."""
    for part in (".one", ".two", ""):
        door.post(_path(part), _map("c"))
    revision = int(door.get(_path(".*"))["metadata"]["resourceVersion"])
    with door.watch(_ours(INITIAL)) as watch:
        events = watch.until(_is_end)
        assert _told(events[:-1]) == [
            ("ADDED", SPACE, "c"),
            ("ADDED", f"{SPACE}.one", "c"),
            ("ADDED", f"{SPACE}.two", "c"),
        ]
        assert int(events[-1]["object"]["metadata"]["resourceVersion"]) >= revision
        door.post(_path(".two"), _map("later"))
        assert _told([watch.change()]) == [("ADDED", f"{SPACE}.two", "later")]


def test_an_object_enters_and_leaves_a_selector(door: Any) -> None:
    query = f"labelSelector=colour%3Dgreen&{INITIAL}"
    with door.watch(f"{_path('.*')}?{query}") as watch:
        watch.until(_is_end)
        door.post(_path(".one"), _map("c", labels={"colour": "red"}))
        for colour in ("green", "red", "green"):
            door.patch(_path(".one", "c"), {"metadata": {"labels": {"colour": colour}}})
        door.patch(_path(".one", "c"), {"data": {"v": "1"}})
        door.delete(_path(".one", "c"))
        events = [watch.change() for _ in range(5)]
    assert [e["type"] for e in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    # the last matching state, under the revision of the change
    assert events[1]["object"]["metadata"]["labels"]["colour"] == "green"
    revisions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert revisions == sorted(set(revisions))


def test_legacy_paths_are_the_same_watch(door: Any) -> None:
    """kubernetes#125133."""
    door.post(_path(".one"), _map("c"))
    for path in (
        f"/api/v1/watch/namespaces/{SPACE}.one/configmaps",
        f"/api/v1/watch/namespaces/{SPACE}.one/configmaps/c",
        "/api/v1/watch/configmaps",
    ):
        with door.watch(path) as watch:
            assert ("ADDED", f"{SPACE}.one", "c") in _told(
                watch.until(lambda e: e["object"]["metadata"]["namespace"] == f"{SPACE}.one")
            )
    with door.watch(f"/api/v1/watch/namespaces/{SPACE}.two") as watch:
        event = watch.event()
        assert event["object"]["metadata"]["name"] == f"{SPACE}.two"


@pytest.mark.parametrize("resource", ["configmaps", "events", "pods"])
def test_an_old_revision_is_gone_before_the_first_byte_and_on_one_line(
    door: Any, resource: str
) -> None:
    """kubernetes#137307, kube-rs#2062."""
    old = str((1 << 40) - 1)
    answer = door.request("GET", f"/api/v1/{resource}?watch=true&resourceVersion={old}&pretty=true")
    assert answer.status == 410
    assert answer.json["reason"] == "Expired"
    assert b"\n" not in answer.body.rstrip(b"\n")


def test_a_watch_ends_cleanly_after_its_time(door: Any) -> None:
    door.post(_path(".one"), _map("c"))
    with door.watch(f"{_path('.one')}?timeoutSeconds=1&allowWatchBookmarks=true") as watch:
        events = []
        while (event := watch.event()) is not None:
            events.append(event)
    assert events[0]["type"] == "ADDED"
    assert {e["type"] for e in events[1:]} <= {"BOOKMARK"}


def test_tables_are_watched_with_columns_once(door: Any) -> None:
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    door.post(_path(".one"), _map("c", v="1"))
    with door.watch(_ours("resourceVersion=0"), headers=table) as watch:
        first = watch.event()
        door.patch(_path(".one", "c"), {"data": {"w": "2"}})
        second = watch.event()
    names = [column["name"] for column in first["object"]["columnDefinitions"]]
    assert names[:2] == ["Name", "Cluster"]
    assert first["object"]["rows"][0]["cells"][:3] == ["c", "one", 1]
    assert not second["object"].get("columnDefinitions")
    assert second["object"]["rows"][0]["cells"][:3] == ["c", "one", 2]


def test_a_member_that_stands_still_holds_up_nobody(
    door: Any, gateway: Any, bare_members: Any
) -> None:
    """karmada#5672, openyurt#2745: a watch opened meanwhile tells of the others, and of the
    silent one what was known."""
    _, two = bare_members
    door.post(_path(".one"), _map("c"))
    door.post(_path(".two"), _map("c"))
    door.get(_path(".*"))
    asyncio.run(two.pause_api())
    try:
        for query in (INITIAL, "resourceVersion=0", ""):
            with door.watch(_ours(query)) as watch:
                told = _told([watch.change(), watch.change()])
                assert told == [("ADDED", f"{SPACE}.one", "c"), ("ADDED", f"{SPACE}.two", "c")]
                if query == INITIAL:
                    assert _is_end(watch.event())
                door.patch(_path(".one", "c"), {"data": {"v": query}})
                assert _told(watch.until(_named("c"))) == [("MODIFIED", f"{SPACE}.one", "c")]
    finally:
        asyncio.run(two.resume_api())


def test_fifty_watches_that_begin_during_a_restart_see_every_deletion(
    door: Any, gateway: Any, bare_members: Any, door_to: Any
) -> None:
    """kubernetes#116172, #123072."""
    one, _ = bare_members
    for n in range(30):
        door.post(_path(".one"), _map(f"d{n}"))
    door.get(_path(".one"))
    asyncio.run(one.stop_api())
    results: list[set[str]] = []
    ready = threading.Barrier(11)

    def follow() -> None:
        mine = gateway.door()
        with ExitStack() as stack:
            watches = []
            for _ in range(5):
                listed = mine.get(_path(".one"))
                revision = listed["metadata"]["resourceVersion"]
                state = {item["metadata"]["name"] for item in listed["items"]}
                path = f"{_path('.one')}?resourceVersion={revision}"
                watches.append((stack.enter_context(mine.watch(path)), state))
            ready.wait(timeout=60)
            for watch, state in watches:
                done = False
                while not done:
                    event = watch.event()
                    assert event is not None
                    name = event["object"]["metadata"]["name"]
                    done = name == "last"
                    if event["type"] == "DELETED":
                        state.discard(name)
                    else:
                        state.add(name)
                results.append(state)

    threads = [threading.Thread(target=follow) for _ in range(10)]
    for thread in threads:
        thread.start()
    asyncio.run(one.start_api())
    there = door_to(one)
    for n in range(30):
        there.delete(f"/api/v1/namespaces/{SPACE}/configmaps/d{n}")
    ready.wait(timeout=60)
    there.post(f"/api/v1/namespaces/{SPACE}/configmaps", _map("last"))
    for thread in threads:
        thread.join(timeout=120)
    assert results == [{"last"}] * 50


def test_members_come_and_go_inside_an_open_watch_and_in_a_union(
    door: Any, gateway: Any, bare_members: Any
) -> None:
    _, two = bare_members
    door.post(_path(".one"), _map("c"))
    door.post(_path(".two"), _map("c"))
    gateway.leave("two")
    with door.watch(_ours(INITIAL)) as union:
        assert _told(union.until(_is_end)[:-1]) == [("ADDED", f"{SPACE}.one", "c")]
        with door.watch(_everywhere(INITIAL)) as every:
            every.until(_is_end)
            gateway.join("two", two)
            for watch in (union, every):
                assert _told([watch.change()]) == [("ADDED", f"{SPACE}.two", "c")]
            gateway.leave("two")
            for watch in (union, every):
                assert _told([watch.change()]) == [("DELETED", f"{SPACE}.two", "c")]
            answer = door.request("GET", _path(".two"))
            assert answer.status == 404
            assert 'no member "two"' in answer.json["message"]
            gateway.join("two", two)
            for watch in (union, every):
                assert _told([watch.change()]) == [("ADDED", f"{SPACE}.two", "c")]


def test_a_watch_of_a_member_that_leaves_ends_or_tells(
    door: Any, gateway: Any, bare_members: Any
) -> None:
    """`-n watches.two` names nothing any more: its objects are deleted for whoever watches."""
    _, two = bare_members
    door.post(_path(".two"), _map("c"))
    with door.watch(_ours(INITIAL, part=".two")) as watch:
        watch.until(_is_end)
        gateway.leave("two")
        assert _told([watch.change()]) == [("DELETED", f"{SPACE}.two", "c")]
        gateway.join("two", two)
        assert _told([watch.change()]) == [("ADDED", f"{SPACE}.two", "c")]


def test_quiet_resources_get_bookmarks_that_advance(door: Any) -> None:
    """kine#250: a bookmark before the end of a watch has the present revision."""
    listed = door.get("/apis/node.k8s.io/v1/runtimeclasses")
    start = listed["metadata"]["resourceVersion"]
    path = f"/apis/node.k8s.io/v1/runtimeclasses?resourceVersion={start}&allowWatchBookmarks=true"
    with door.watch(f"{path}&timeoutSeconds=3") as watch:
        for n in range(5):
            door.post(_path(".one"), _map(f"c{n}"))
        event = watch.event()
        assert event is not None
        assert event["type"] == "BOOKMARK"
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(start)
        assert json.dumps(event).count("\n") == 0
