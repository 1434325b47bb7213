"""A backend that fails, or is slow when somebody leaves: store and collections never differ."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import StoreError
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleet.store.backend import Record, Stored

MAPS = Resource(GroupVersionResource("", "v1", "configmaps"), "ConfigMap", True, ("list",))


def config(name: str, value: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "payments"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"v": value}}


class Faulty:
    """A backend whose commits fail where `refuses` says so, and wait while `gate` is closed."""

    def __init__(self, refuses: Callable[[Sequence[Record]], bool] = lambda _: False) -> None:
        self.inner = MemoryBackend()
        self.refuses = refuses
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self) -> Stored:
        return await self.inner.open()

    def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._commit(changes))

    async def _commit(self, changes: Sequence[Record]) -> None:
        self.begun.set()
        await self.gate.wait()
        if self.refuses(changes):
            raise StoreError("the disk is full")
        await self.inner.commit(changes)

    async def close(self) -> None:
        await self.inner.close()


async def stored(backend: Faulty) -> dict[str, bytes]:
    return {record.name: record.raw for record in (await backend.open()).records}


def shown(store: ObjectStore) -> dict[str, bytes]:
    return {entry.name: entry.raw for entry in store.collection(MAPS).snapshot().entries()}


async def test_a_failed_write_is_told_and_shown_to_nobody() -> None:
    backend = Faulty()
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        kept = await store.create(MAPS, config("kept"))
        cursor = store.collection(MAPS).cursor(store.sequencer.current)
        backend.refuses = lambda _: True
        with pytest.raises(StoreError, match="disk is full"):
            await store.create(MAPS, config("refused"))
        with pytest.raises(StoreError):
            await store.update(MAPS, config("kept", "2"), expected=kept.revision)
        with pytest.raises(StoreError):
            await store.delete(MAPS, namespace="payments", name="kept", expected=kept.revision)
        assert store.collection(MAPS).read(cursor) == []
        backend.refuses = lambda _: False
        later = await store.update(MAPS, config("kept", "3"), expected=kept.revision)
        assert later.revision > kept.revision + 3  # a number that was given up is not used again
        assert shown(store) == await stored(backend)


async def test_a_write_the_backend_cannot_take_spoils_no_other() -> None:
    backend = Faulty(lambda changes: any(change.name == "huge" for change in changes))
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        outcomes = await asyncio.gather(
            *(store.create(MAPS, config(name)) for name in ("a", "huge", "b", "c")),
            return_exceptions=True,
        )
        assert [isinstance(outcome, StoreError) for outcome in outcomes] == [
            False,
            True,
            False,
            False,
        ]
        assert shown(store) == await stored(backend)
        assert sorted(shown(store)) == ["a", "b", "c"]


async def test_nobody_is_refused_for_a_write_that_failed() -> None:
    """The second write's conflict with the first is none once the first has failed."""
    backend = Faulty(lambda changes: any(b'"lost"' in change.raw for change in changes))
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        entry = await store.create(MAPS, config("one", "1"))
        lost, made = await asyncio.gather(
            store.update(MAPS, config("one", "lost"), expected=entry.revision),
            store.update(MAPS, config("one", "made"), expected=entry.revision),
            return_exceptions=True,
        )
        assert isinstance(lost, StoreError)
        assert made.parse()["data"] == {"v": "made"}


async def test_members_events_wait_for_the_commit_and_no_longer() -> None:
    backend = Faulty(lambda _: True)
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        backend.gate.clear()
        write = asyncio.create_task(store.create(MAPS, config("one")))
        await backend.begun.wait()
        numbered: list[int] = []
        store.sequencer.submit(numbered.append)
        assert numbered == []
        backend.gate.set()
        with pytest.raises(StoreError):
            await write
        assert len(numbered) == 1


async def test_an_event_that_cannot_be_applied_is_no_failure_of_the_write() -> None:
    backend = Faulty()
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        backend.gate.clear()
        write = asyncio.create_task(store.create(MAPS, config("one")))
        await backend.begun.wait()
        numbered: list[int] = []

        def broken(_: int) -> None:
            raise ValueError("no object at all")

        store.sequencer.submit(broken)
        store.sequencer.submit(numbered.append)
        backend.gate.set()
        assert (await write).name == "one"
        assert len(numbered) == 1


async def test_a_caller_that_leaves_during_the_commit_undoes_nothing() -> None:
    backend = Faulty()
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        backend.gate.clear()
        write = asyncio.create_task(store.create(MAPS, config("one")))
        await backend.begun.wait()
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        assert shown(store) == {}
        backend.gate.set()
        await store.create(MAPS, config("two"))
        assert sorted(shown(store)) == ["one", "two"]
        assert shown(store) == await stored(backend)


async def test_a_store_that_is_torn_down_during_a_commit_shows_what_is_durable() -> None:
    """Cancelled twice, so that closing in order is cut off as well."""
    backend = Faulty()
    store = ObjectStore(backend, Sequencer(epoch=1))
    opened = asyncio.Event()

    async def gateway() -> None:
        async with store:
            backend.gate.clear()
            opened.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(gateway())
    await opened.wait()
    writes = [asyncio.create_task(store.create(MAPS, config(name))) for name in ("one", "two")]
    await backend.begun.wait()
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    assert not running.done()
    backend.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    outcomes = await asyncio.gather(*writes)
    assert sorted(entry.name for entry in outcomes) == sorted(shown(store)) == ["one", "two"]
    assert shown(store) == await stored(backend)


async def test_a_store_cut_off_while_its_queue_is_full_ends_nevertheless() -> None:
    """There is no room to tell the writer to end, so the cancellation must do it."""
    backend = Faulty()
    store = ObjectStore(backend, Sequencer(epoch=1), queue_limit=1)
    opened = asyncio.Event()

    async def gateway() -> None:
        async with store:
            backend.gate.clear()
            opened.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(gateway())
    await opened.wait()
    writes = [asyncio.create_task(store.create(MAPS, config("one")))]
    await backend.begun.wait()
    writes += [asyncio.create_task(store.create(MAPS, config(name))) for name in ("two", "three")]
    await asyncio.sleep(0)
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    backend.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, timeout=10)
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    made = [outcome.name for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert "one" in made
    assert sorted(made) == sorted(shown(store)) == sorted(await stored(backend))


async def test_a_writer_that_breaks_takes_the_gateway_with_it_and_leaves_nobody_waiting() -> None:
    class Broken(Faulty):
        async def _commit(self, changes: Sequence[Record]) -> None:
            await asyncio.sleep(0)
            raise ZeroDivisionError

    writes: list[asyncio.Task[Any]] = []
    with pytest.raises(BaseExceptionGroup) as broken:
        async with ObjectStore(Broken(), Sequencer(epoch=1), queue_limit=2) as store:
            writes.extend(
                asyncio.create_task(store.create(MAPS, config(f"m{number}"))) for number in range(9)
            )
            await asyncio.Event().wait()
    assert broken.group_contains(ZeroDivisionError)
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert all(isinstance(outcome, StoreError) for outcome in outcomes)
