"""What an object store promises, over every backend."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import AlreadyExists, Conflict, Forbidden, NotFound, StoreError
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.store.entry import Entry
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from fleet.store.backend import Backend
    from fleet.store.collection import Event
    from fleet.store.objects import Lookup

    Start = Callable[[], Any]

MAPS = Resource(
    GroupVersionResource("", "v1", "configmaps"), "ConfigMap", True, ("list", "watch", "create")
)
SPACES = Resource(GroupVersionResource("", "v1", "namespaces"), "Namespace", False, ("list",))


def config(name: str, value: str = "", namespace: str = "payments") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"v": value}}


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "memory":
        return MemoryBackend()
    return SqliteBackend(tmp_path / "objects.db")


@pytest.fixture
def start(backend: Backend) -> Start:
    """Each use is a start of a store over the same records, in an epoch of its own."""
    epochs = iter(range(1, 100))

    @asynccontextmanager
    async def starting() -> AsyncIterator[ObjectStore]:
        async with ObjectStore(backend, Sequencer(epoch=next(epochs))) as store:
            yield store

    return starting


def keys(store: ObjectStore) -> list[str]:
    return [entry.name for entry in store.collection(MAPS).snapshot().entries()]


async def test_what_was_written_is_there_after_a_restart(start: Start) -> None:
    async with start() as store:
        await store.create(MAPS, config("kept", "1"))
        changed = await store.create(MAPS, config("changed", "1"))
        changed = await store.update(MAPS, config("changed", "2"), expected=changed.revision)
        gone = await store.create(MAPS, config("gone"))
        await store.delete(MAPS, namespace="payments", name="gone", expected=gone.revision)
        kept = store.get(MAPS, "payments", "kept")
    async with start() as store:
        assert keys(store) == ["changed", "kept"]
        assert store.get(MAPS, "payments", "kept").raw == kept.raw
        again = store.get(MAPS, "payments", "changed")
        assert again.parse()["data"] == {"v": "2"}
        assert again.revision == changed.revision
        # the revision of before is a precondition that holds
        await store.update(MAPS, config("changed", "3"), expected=changed.revision)


async def test_a_restart_numbers_from_above_everything_before(start: Start) -> None:
    seen: set[int] = set()
    for _ in range(3):
        async with start() as store:
            for number in range(4):
                entry = await store.create(MAPS, config(f"m{number}"))
                assert entry.revision > max(seen, default=0)
                seen.add(entry.revision)
                gone = await store.delete(
                    MAPS, namespace="payments", name=f"m{number}", expected=entry.revision
                )
                assert gone.revision > entry.revision
                seen.add(gone.revision)
    assert len(seen) == 3 * 4 * 2


async def test_an_epoch_from_before_the_objects_is_refused(backend: Backend) -> None:
    async with ObjectStore(backend, Sequencer(epoch=7)) as store:
        entry = await store.create(MAPS, config("one"))
        await store.delete(MAPS, namespace="payments", name="one", expected=entry.revision)
    for epoch in (6, 7):
        with pytest.raises(StoreError, match="epoch is older"):
            await ObjectStore(backend, Sequencer(epoch=epoch)).__aenter__()


async def test_compare_and_set(start: Start) -> None:
    async with start() as store:
        first = await store.create(MAPS, config("one", "1"))
        with pytest.raises(AlreadyExists, match='configmaps "one" already exists'):
            await store.create(MAPS, config("one", "2"))
        second = await store.update(MAPS, config("one", "2"), expected=first.revision)
        with pytest.raises(Conflict, match="has been modified"):
            await store.update(MAPS, config("one", "3"), expected=first.revision)
        with pytest.raises(Conflict):
            await store.delete(MAPS, namespace="payments", name="one", expected=first.revision)
        with pytest.raises(NotFound, match='configmaps "two" not found'):
            await store.update(MAPS, config("two"), expected=first.revision)
        assert store.get(MAPS, "payments", "one") is second
        assert second.parse()["metadata"]["resourceVersion"] == str(second.revision)


async def test_the_caller_keeps_its_object(start: Start) -> None:
    async with start() as store:
        obj = config("one")
        await store.create(MAPS, obj)
        assert obj == config("one")


async def test_what_a_watcher_sees_is_what_was_written_in_order(start: Start) -> None:
    async with start() as store:
        maps = store.collection(MAPS)
        cursor = maps.cursor(store.sequencer.current)
        entry = await store.create(MAPS, config("one"))
        entry = await store.update(MAPS, config("one", "2"), expected=entry.revision)
        gone = await store.delete(MAPS, namespace="payments", name="one", expected=entry.revision)
        events = maps.read(cursor)
        assert [event.deleted for event in events] == [False, False, True]
        assert [event.revision for event in events] == sorted(e.revision for e in events)
        assert events[-1].entry is gone
        assert gone.parse()["metadata"]["resourceVersion"] == str(gone.revision)


async def test_writes_that_wait_are_committed_together_each_under_its_own_revision(
    start: Start, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    commit = backend.commit

    def counted(changes: Any) -> asyncio.Future[None]:
        sizes.append(len(changes))
        return commit(changes)

    monkeypatch.setattr(backend, "commit", counted)
    async with start() as store:
        maps = store.collection(MAPS)
        cursor = maps.cursor(store.sequencer.current)
        entries = await asyncio.gather(
            *(store.create(MAPS, config(f"m{number:02}")) for number in range(40))
        )
        assert sum(sizes) == 40
        assert len(sizes) < 40
        revisions = [entry.revision for entry in entries]
        assert len(set(revisions)) == 40
        assert [event.revision for event in maps.read(cursor)] == sorted(revisions)
        assert store.sequencer.current >= max(revisions)
    async with start() as store:
        assert len(keys(store)) == 40


async def test_in_a_batch_each_write_meets_what_the_one_before_left(start: Start) -> None:
    async with start() as store:
        entry = await store.create(MAPS, config("one", "1"))

        outcomes = await asyncio.gather(
            store.delete(MAPS, namespace="payments", name="one", expected=entry.revision),
            store.update(MAPS, config("one", "lost"), expected=entry.revision),
            store.create(MAPS, config("one", "again")),
            store.create(MAPS, config("one", "too late")),
            return_exceptions=True,
        )
        gone, lost, again, late = outcomes
        assert gone.name == "one"
        assert isinstance(lost, NotFound)
        assert again.parse()["data"] == {"v": "again"}
        assert isinstance(late, AlreadyExists)
    async with start() as store:
        assert store.get(MAPS, "payments", "one").parse()["data"] == {"v": "again"}


async def test_a_guard_looks_at_the_moment_of_the_write(start: Start) -> None:
    """A namespace removed by a write of the same batch is gone for what comes after it."""

    def in_its_namespace(look: Lookup) -> None:
        if look(SPACES, "", "payments") is None:
            raise Forbidden("no such namespace")

    space = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "payments"}}
    async with start() as store:
        there = await store.create(SPACES, space)
        before, _, after = await asyncio.gather(
            store.create(MAPS, config("before"), guard=in_its_namespace),
            store.delete(SPACES, namespace="", name="payments", expected=there.revision),
            store.create(MAPS, config("after"), guard=in_its_namespace),
            return_exceptions=True,
        )
        assert before.name == "before"
        assert isinstance(after, Forbidden)
        assert keys(store) == ["before"]


async def test_a_guard_sees_all_objects_as_the_writes_before_it_leave_them(start: Start) -> None:
    """Of writes of one batch that each need the others' absence, the first is made; so it is with
    replacing and deleting."""
    seen: list[list[str]] = []

    def alone(look: Lookup) -> None:
        seen.append(sorted(entry.name for entry in look.entries(MAPS)))
        if len(seen[-1]) > 1:
            raise Forbidden("one too many")

    async with start() as store:
        first = await store.create(MAPS, config("a"))
        outcomes = await asyncio.gather(
            store.create(MAPS, config("b"), guard=alone),
            store.create(MAPS, config("c"), guard=alone),
            store.update(MAPS, config("a", "2"), expected=first.revision, guard=alone),
            store.delete(
                MAPS, namespace="payments", name="a", expected=first.revision, guard=alone
            ),
            store.delete(MAPS, namespace="payments", name="a", expected=first.revision),
            store.create(MAPS, config("d"), guard=alone),
            return_exceptions=True,
        )
        assert [type(each) for each in outcomes] == [
            Entry, Forbidden, Forbidden, Forbidden, Entry, Entry,
        ]  # fmt: skip
        assert seen == [["a"], ["a", "b"], ["a", "b"], ["a", "b"], ["b"]]
        assert sorted(entry.name for entry in store.look().entries(MAPS)) == ["b", "d"]


async def test_a_write_that_cannot_be_encoded_spoils_no_other(start: Start) -> None:
    async with start() as store:
        odd = config("odd")
        odd["data"]["n"] = object()
        outcome, entry = await asyncio.gather(
            store.create(MAPS, odd), store.create(MAPS, config("fine")), return_exceptions=True
        )
        assert isinstance(outcome, TypeError)
        assert entry.name == "fine"
        assert keys(store) == ["fine"]


async def test_the_next_commit_waits_for_members_events_in_order(start: Start) -> None:
    """Numbers given out during a commit follow those of the batch."""
    async with start() as store:
        numbered: list[int] = []
        writes = [asyncio.create_task(store.create(MAPS, config(f"m{n}"))) for n in range(5)]
        while not all(write.done() for write in writes):
            store.sequencer.submit(numbered.append)
            await asyncio.sleep(0)
        revisions = [write.result().revision for write in writes]
        assert len({*numbered, *revisions}) == len(numbered) + len(revisions)
        assert numbered == sorted(numbered)


@pytest.mark.parametrize("after_steps", range(8))
async def test_a_cancelled_caller_leaves_store_and_collection_equal(
    start: Start, after_steps: int
) -> None:
    async with start() as store:
        entry = await store.create(MAPS, config("one", "1"))
        writer = asyncio.create_task(
            store.update(MAPS, config("one", "2"), expected=entry.revision)
        )
        for _ in range(after_steps):
            await asyncio.sleep(0)
        writer.cancel()
        await asyncio.wait((writer,))
        # whatever became of it, the store goes on
        present = store.get(MAPS, "payments", "one")
        await store.rewrite(
            MAPS, namespace="payments", name="one", change=lambda o: {**o, "after": present.name}
        )
        shown = store.get(MAPS, "payments", "one")
    async with start() as store:
        assert store.get(MAPS, "payments", "one").raw == shown.raw


async def test_closing_makes_the_writes_that_wait(start: Start) -> None:
    async with start() as store:
        writes = [asyncio.create_task(store.create(MAPS, config(f"m{n}"))) for n in range(300)]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*writes)
    assert len(outcomes) == 300
    async with start() as store:
        assert len(keys(store)) == 300


async def test_a_full_queue_makes_callers_wait(backend: Backend) -> None:
    async with ObjectStore(backend, Sequencer(epoch=1), queue_limit=2) as store:
        entries = await asyncio.gather(
            *(store.create(MAPS, config(f"m{number}")) for number in range(20))
        )
        assert len({entry.revision for entry in entries}) == 20


async def test_a_caller_waiting_for_room_when_the_store_closes_is_told(backend: Backend) -> None:
    async with ObjectStore(backend, Sequencer(epoch=1), queue_limit=1) as store:
        writes = [asyncio.create_task(store.create(MAPS, config(f"m{n}"))) for n in range(20)]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    made = [outcome.name for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert all(isinstance(o, StoreError) for o in outcomes if isinstance(o, BaseException))
    async with ObjectStore(backend, Sequencer(epoch=2)) as store:
        assert keys(store) == sorted(made)


async def test_outside_its_context_a_store_refuses_writes(start: Start) -> None:
    async with start() as store:
        await store.create(MAPS, config("one"))
    with pytest.raises(StoreError, match="is closed"):
        await store.create(MAPS, config("two"))


async def test_an_error_of_the_body_leaves_as_it_is(start: Start) -> None:
    with pytest.raises(ZeroDivisionError):
        async with start() as store:
            await store.create(MAPS, config("one"))
            raise ZeroDivisionError


async def test_cancelling_the_body_closes_in_order(start: Start) -> None:
    writes: list[asyncio.Task[Entry]] = []
    begun = asyncio.Event()

    async def gateway() -> None:
        async with start() as store:
            writes.extend(
                asyncio.create_task(store.create(MAPS, config(f"m{number}"))) for number in range(9)
            )
            await asyncio.sleep(0)
            begun.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(gateway())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(await asyncio.gather(*writes)) == 9


async def test_rewriting_meets_what_others_wrote(start: Start) -> None:
    async with start() as store:
        await store.create(MAPS, config("count", "0"))

        def more(obj: dict[str, Any]) -> dict[str, Any]:
            obj["data"]["v"] = str(int(obj["data"]["v"]) + 1)
            return obj

        await asyncio.gather(
            *(
                store.rewrite(MAPS, namespace="payments", name="count", change=more, attempts=20)
                for _ in range(10)
            )
        )
        assert store.get(MAPS, "payments", "count").parse()["data"] == {"v": "10"}
        before = store.sequencer.current
        await store.rewrite(MAPS, namespace="payments", name="count", change=lambda _: None)
        assert store.sequencer.current == before
        with pytest.raises(NotFound):
            await store.rewrite(MAPS, namespace="payments", name="none", change=more)


async def test_a_follower_that_fails_stops_no_write(start: Start) -> None:
    def faulty(event: Event) -> None:
        raise KeyError("spec")

    async with start() as store:
        store.collection(MAPS).follow(faulty)
        await store.create(MAPS, config("first"))
        await store.create(MAPS, config("second"))
        assert keys(store) == ["first", "second"]
