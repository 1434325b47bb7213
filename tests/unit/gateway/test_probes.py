"""The checks behind /livez and /readyz: each says what is so, and fails for what it is about."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import StoreError
from fleet.gateway.health import Health
from fleet.gateway.probes import FirstLists, Running, Writable, add_store
from fleet.kube.wire import Request
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend
from fleet.view.world import ALWAYS_ON

if TYPE_CHECKING:
    from pathlib import Path

    from fleet.kube.resources import GroupVersionResource


class Disk(MemoryBackend):
    """Full, or gone for good, as long as somebody says so."""

    full = False
    gone = ""
    proofs = 0

    async def prove(self) -> None:
        self.proofs += 1
        if self.full or self.gone:
            raise StoreError("the disk is full")

    @property
    def broken(self) -> str:
        return self.gone


async def status(health: Health, path: str) -> int:
    return (await health.handle(Request("GET", path))).status


@pytest.mark.parametrize(
    ("full", "gone", "live", "ready"),
    [(False, "", 200, 200), (True, "", 200, 500), (True, "out of use", 500, 500)],
)
async def test_a_restart_is_asked_for_where_it_helps(
    full: bool, gone: str, live: int, ready: int
) -> None:
    disk = Disk()
    async with ObjectStore(disk, Sequencer(epoch=1)) as store:
        health = Health()
        add_store(health, store, clock=lambda: 0.0)
        disk.full, disk.gone = full, gone
        assert await status(health, "/livez/store") == live
        assert await status(health, "/readyz/store") == ready
    assert await status(health, "/livez/store") == 500  # it is closed


async def test_however_many_ask_the_disk_is_asked_once_a_second() -> None:
    disk, now = Disk(), [0.0]
    async with ObjectStore(disk, Sequencer(epoch=1)) as store:
        probe = Writable(store, clock=lambda: now[0])
        assert await asyncio.gather(*(probe() for _ in range(20))) == [None] * 20
        assert disk.proofs == 1
        disk.full = True
        now[0] = 1.0
        assert await probe() == "the disk is full"
        disk.full = False
        assert await probe() == "the disk is full"
        now[0] = 2.0
        assert await probe() is None


async def test_a_disk_that_hangs_is_not_waited_for() -> None:
    class Hanging(Disk):
        async def prove(self) -> None:
            await asyncio.Event().wait()

    async with ObjectStore(Hanging(), Sequencer(epoch=1)) as store:
        probe = Writable(store, clock=lambda: 0.0, within_s=0.001)
        assert await probe() == "nothing was written within 0.001 s"


async def test_a_proof_is_a_write_that_changes_nothing(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path / "objects.db")

    async def inside(call: Any) -> Any:
        assert backend._thread is not None
        return await backend._in_thread(backend._thread, lambda: call(backend._connection))

    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        before = await inside(lambda connection: connection.total_changes)
        await store.prove()
        assert await inside(lambda connection: connection.total_changes) == before + 1
        await inside(lambda connection: connection.execute("PRAGMA query_only = ON"))
        with pytest.raises(StoreError, match="cannot be written"):
            await store.prove()
        assert store.broken == ""
        await inside(lambda _: backend._close())
        assert "restart the gateway" in store.broken
        with pytest.raises(StoreError, match="restart the gateway"):
            await store.prove()


async def test_a_part_is_well_from_its_begin_to_its_end() -> None:
    dispatch = Running()
    assert dispatch() == "it has not begun"
    go_on = asyncio.Event()

    async def work() -> None:
        await go_on.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(dispatch.run(work()))
        await asyncio.sleep(0)
        assert dispatch() is None
        go_on.set()
    assert dispatch() == "it has ended"

    async def fault() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await dispatch.run(fault())
    assert dispatch() == "it broke off"


async def test_a_part_that_is_told_to_stop_is_no_reason_to_restart() -> None:
    dispatch = Running()
    task = asyncio.create_task(dispatch.run(asyncio.Event().wait()))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert dispatch() is None


class World:
    """One member, `east`, with a watch of each resource that is always on."""

    def __init__(self) -> None:
        self.watching = SimpleNamespace(synced=asyncio.Event(), failure="")
        self.east = {truth: SimpleNamespace(status="Unknown") for truth in CONDITIONS}
        self.members: dict[str, Any] = {"east": SimpleNamespace(conditions=self.east)}
        self.silent = ["east"]

    def unheard(self, names: list[str]) -> list[str]:
        return [name for name in names if name in self.silent]

    def running(self, gvr: GroupVersionResource) -> Any:
        assert gvr in ALWAYS_ON
        return SimpleNamespace(sources={"east": SimpleNamespace(watching=self.watching)})


CONDITIONS = ("Reachable", "CredentialsValid")


async def test_a_gateway_is_ready_once_its_members_gave_their_first_lists() -> None:
    world = World()
    probe = FirstLists(world)  # type: ignore[arg-type]
    assert probe() == "the first lists of east are not here yet"
    world.silent = []
    assert probe() is not None
    world.watching.synced.set()
    assert probe() is None
    world.silent, world.watching = ["east"], SimpleNamespace(synced=asyncio.Event(), failure="")
    assert probe() is None  # what comes later is no matter of the start


@pytest.mark.parametrize("truth", CONDITIONS)
async def test_a_member_that_is_down_keeps_no_gateway_from_being_ready(truth: str) -> None:
    world = World()
    probe = FirstLists(world)  # type: ignore[arg-type]
    assert probe() is not None
    world.east[truth] = SimpleNamespace(status="False")
    assert probe() is None


async def test_a_watch_that_fails_and_a_member_that_leaves_are_not_waited_for() -> None:
    world = World()
    world.silent = []
    failing, leaving = FirstLists(world), FirstLists(world)  # type: ignore[arg-type]
    assert failing() is not None
    world.watching.failure = "no list: forbidden"
    assert failing() is None
    world.watching.failure = ""
    assert leaving() is not None
    world.members.clear()
    assert leaving() is None
