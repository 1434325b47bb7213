"""A collection against a model: past snapshots, cursors, the ring's bounds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import Expired
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.revision import Revision
from fleet.store import collection as collections
from fleet.store.collection import Collection
from fleet.store.entry import Entry
from fleet.store.sequencer import Sequencer

THINGS = Resource(GroupVersionResource("", "v1", "things"), "Thing", True, ("list", "watch"))


def entry(name: str, revision: Revision, *, size: int = 0) -> Entry:
    obj: dict[str, Any] = {
        "kind": "Thing",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": str(revision)},
        "data": "x" * size,
    }
    return Entry(obj, revision=revision)


def put(target: Collection, name: str, *, size: int = 0) -> Revision:
    revision = target.sequencer.next()
    target.put(entry(name, revision, size=size))
    return revision


def remove(target: Collection, name: str) -> None:
    target.remove(entry(name, target.sequencer.next()))


@pytest.fixture
def things() -> Collection:
    return Collection(THINGS, Sequencer(epoch=3))


steps = st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefgh")), max_size=60)


@given(steps)
def test_every_past_revision_reads_as_it_was(changes: list[tuple[bool, str]]) -> None:
    target = Collection(THINGS, Sequencer(epoch=1))
    history = {target.sequencer.current: []}
    model: set[str] = set()
    for is_put, name in changes:
        if is_put:
            put(target, name)
            model.add(name)
        else:
            remove(target, name)
            model.discard(name)
        history[target.sequencer.current] = sorted(model)
    for revision, expected in history.items():
        assert [e.name for e in target.at(revision).entries()] == expected


@given(steps, st.integers(0, 59))
def test_a_cursor_sees_exactly_the_changes_after_its_revision(
    changes: list[tuple[bool, str]], start: int
) -> None:
    target = Collection(THINGS, Sequencer(epoch=1))
    cursor, replay = None, {}
    for number, (is_put, name) in enumerate(changes):
        if number == start:
            cursor = target.cursor(target.sequencer.current)
            replay = {e.name: e.revision for e in target.snapshot().entries()}
        put(target, name) if is_put else remove(target, name)
    if cursor is None:
        return
    last = Revision(0)
    while events := target.read(cursor, limit=3):
        for event in events:
            assert event.revision > last
            last = event.revision
            if event.deleted:
                del replay[event.entry.name]
            else:
                replay[event.entry.name] = event.revision
    assert replay == {e.name: e.revision for e in target.snapshot().entries()}


def test_revisions_of_another_epoch_are_expired(things: Collection) -> None:
    put(things, "a")
    other = Sequencer(epoch=2)
    with pytest.raises(Expired):
        things.at(other.current)
    with pytest.raises(Expired):
        things.cursor(other.current)


def test_the_ring_is_bounded_by_count_and_tells_so(things: Collection) -> None:
    first = put(things, "a")
    for _ in range(collections.MAX_EVENTS + 10):
        put(things, "a")
    with pytest.raises(Expired):
        things.cursor(first)
    assert things.cursor(things.floor)


def test_the_ring_is_bounded_by_what_old_versions_weigh(things: Collection) -> None:
    start = things.sequencer.current
    for _ in range(400):
        put(things, "big", size=100_000)
    with pytest.raises(Expired):
        things.at(start)
    held = things.sequencer.current - things.floor
    assert collections.MIN_EVENTS <= held < 400


def test_a_big_object_changed_often_does_not_cut_off_its_watchers(things: Collection) -> None:
    cursor = things.cursor(things.sequencer.current)
    for _ in range(50):
        put(things, "big", size=1_400_000)
        assert len(things.read(cursor)) == 1


def test_a_slow_cursor_is_expired_and_the_collection_goes_on(things: Collection) -> None:
    cursor = things.cursor(things.sequencer.current)
    for _ in range(collections.MAX_EVENTS * 2):
        put(things, "a")
    with pytest.raises(Expired):
        things.read(cursor)


async def test_wait_wakes_on_a_change_and_times_out_without(things: Collection) -> None:
    cursor = things.cursor(things.sequencer.current)
    assert not await things.wait(cursor, timeout_s=0.001)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(things.wait(cursor, timeout_s=5)) for _ in range(3)]
        await asyncio.sleep(0)
        put(things, "a")
    assert all(task.result() for task in waiting)
    assert await things.wait(cursor, timeout_s=0)


async def test_a_cancelled_waiter_is_forgotten(things: Collection) -> None:
    cursor = things.cursor(things.sequencer.current)
    task = asyncio.create_task(things.wait(cursor, timeout_s=5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert things._waiters == []


def test_metadata_is_a_slice_of_the_bytes(things: Collection) -> None:
    put(things, "a", size=3)
    found = things.get("ns", "a")
    assert found is not None
    assert found.metadata == b'{"name":"a","namespace":"ns","resourceVersion":"%d"}' % (
        found.revision
    )
    assert found.raw.startswith(b'{"kind":"Thing","apiVersion":"v1","metadata":{')


async def test_a_follower_that_fails_keeps_the_change_from_nobody(
    things: Collection, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def faulty(event: collections.Event) -> None:
        raise KeyError("spec")

    things.follow(faulty)
    things.follow(lambda event: heard.append(event.entry.name))
    cursor = things.cursor(things.sequencer.current)
    watcher = asyncio.create_task(things.wait(cursor, timeout_s=60))
    await asyncio.sleep(0)
    put(things, "a")
    assert await watcher
    assert heard == ["a"]
    assert "things: a follower failed at <Entry ns/a" in caplog.text
