"""Cluster objects: there while their member is one, whatever fails and comes in between."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.errors import StoreError
from fleet.gateway import clusters, own
from fleet.gateway.clusters import CLUSTERS, Clusters
from fleet.gateway.rulebook import Rulebook
from fleet.members.health import Condition
from fleet.members.roster import Change
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from fleet.store.backend import Record


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


class Disk(MemoryBackend):
    """Full as long as somebody says so."""

    full = False

    def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
        if self.full:
            raise StoreError("the disk is full")
        return super().commit(changes)


class Member:
    uid = "uid"
    version = "v1.36.3"

    def __init__(self, name: str) -> None:
        self.name = name
        self.conditions: dict[str, Any] = {}
        self.discovery = SimpleNamespace(resources={})


class Roster(dict[str, Member]):
    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.values()))


class Books:
    """What is free; `wrong` is raised instead."""

    wrong: Exception | None = None
    there: tuple[Cluster, ...] = ()

    def clusters(self) -> list[Any]:
        if self.wrong is not None:
            raise self.wrong
        return list(self.there)


class Setting:
    def __init__(self, store: ObjectStore, disk: Disk) -> None:
        self.store, self.disk = store, disk
        self.members, self.books = Roster(), Books()
        rows = {kind.resource.gvr: kind.resource for kind in policies.kinds()}
        numbers = itertools.count()
        kernel = own.build(
            store,
            [
                CustomKind(kind.resource, kind.openapi, kind.columns, kind.status, kind.rules)
                for kind in policies.kinds()
            ],
            openapi=own.OwnOpenApi({}),
            now=now,
            uid=lambda: f"uid-{next(numbers)}",
            rng=random.Random(1),
            server_address="fleet",
        )
        self.clusters = Clusters(
            kernel=kernel,
            store=store,
            resource=rows[CLUSTERS],
            rulebook=Rulebook(store),
            members=self.members,  # type: ignore[arg-type]
            books=self.books,  # type: ignore[arg-type]
            now=now,
        )
        self.collection = store.collection(rows[CLUSTERS])

    async def join(self, name: str) -> Member:
        member = self.members[name] = Member(name)
        await self.clusters.changed(Change("joined", member))  # type: ignore[arg-type]
        return member

    async def leave(self, member: Member) -> None:
        del self.members[member.name]
        await self.clusters.changed(Change("left", member))  # type: ignore[arg-type]

    def names(self) -> list[str]:
        return [entry.name for entry in self.collection.snapshot().entries()]

    def news(self, member: Member) -> Any:
        return self.clusters.changed(Change("health", member))  # type: ignore[arg-type]

    async def until(self, names: list[str]) -> None:
        """Wait until there are Cluster objects of these names."""
        while self.names() != names:
            cursor = self.collection.cursor(self.store.sequencer.current)
            assert await self.collection.wait(cursor, timeout_s=20)


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    disk = Disk()
    async with ObjectStore(disk, Sequencer(epoch=1)) as store:
        yield Setting(store, disk)


async def test_a_member_has_an_object_from_join_to_leave(setting: Setting) -> None:
    east = await setting.join("east")
    await setting.join("west")
    assert setting.names() == ["east", "west"]
    await setting.leave(east)
    assert setting.names() == ["west"]


async def test_news_of_a_member_that_has_left_makes_no_object_again(setting: Setting) -> None:
    east = await setting.join("east")
    writing = asyncio.create_task(setting.clusters._write(east))  # type: ignore[arg-type]
    await setting.leave(east)
    await writing
    await setting.clusters._write(east)  # type: ignore[arg-type]
    assert setting.names() == []


async def test_what_could_not_be_removed_is_removed_later(setting: Setting) -> None:
    east, west = await setting.join("east"), await setting.join("west")
    setting.disk.full = True
    with pytest.raises(Exception, match="the disk is full"):
        await setting.leave(east)
    setting.disk.full = False
    running = asyncio.create_task(setting.clusters.run())
    await setting.news(west)
    await setting.until(["west"])
    running.cancel()


async def test_a_change_of_what_is_free_is_shown_without_other_news(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No beat, no news of health: the books alone say that a pod came."""
    monkeypatch.setattr(clusters, "SETTLE_S", 0.0)
    await setting.join("east")
    await setting.join("west")
    written: list[str] = []
    status = setting.clusters._status

    def counting(member: Any) -> dict[str, Any]:
        written.append(member.name)
        return {**status(member), "summary": {"free": str(len(written))}}

    monkeypatch.setattr(setting.clusters, "_status", counting)
    running = asyncio.create_task(setting.clusters.run())
    cursor = setting.collection.cursor(setting.store.sequencer.current)
    while sorted(written) != ["east", "west"]:  # the first round
        assert await setting.collection.wait(cursor, timeout_s=20)
        cursor = setting.collection.cursor(setting.store.sequencer.current)
    for _ in range(100):
        setting.clusters.counted("west")
    while written[2:] != ["west"]:
        assert await setting.collection.wait(cursor, timeout_s=20)
    running.cancel()


async def test_a_fault_of_our_own_does_not_end_the_rounds(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.books.wrong = ZeroDivisionError("books")
    setting.members["east"] = east = Member("east")
    running = asyncio.create_task(setting.clusters.run())
    await setting.until(["east"])
    await asyncio.sleep(0)
    assert "cluster east: its status was not written" in caplog.text
    setting.books.wrong = None
    cursor = setting.collection.cursor(setting.store.sequencer.current)
    await setting.news(east)
    assert await setting.collection.wait(cursor, timeout_s=20)
    [event] = setting.collection.read(cursor)
    assert event.entry.parse()["status"]["version"] == "v1.36.3"
    running.cancel()


def with_gpus(name: str) -> Cluster:
    """Two machines of a type, with four accelerators each."""
    accounts = NodeAccounts()
    for node in ("n1", "n2"):
        labels = {"node.kubernetes.io/instance-type": "p5"}
        status = {"allocatable": {"nvidia.com/gpu": "4", "cpu": "8", "pods": "110"}}
        accounts.upsert_node({"metadata": {"name": node, "labels": labels}, "status": status})
    return Cluster(name, {}, accounts.capacity(0.0))


def book(currency: str, **offer: str) -> dict[str, Any]:
    spec = {"currency": currency, "offers": [{"cluster": "east", **offer}] if offer else []}
    return {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "PriceBook",
        "metadata": {"name": "list", "uid": "b"}, "spec": spec,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("prices", "per_hour", "shown"),
    [
        (book("USD", perHour="9.6"), "2.4", "2.40 $"),
        (book("EUR", perHour="9.6", instanceType="p5"), "2.4", "2.40 EUR"),
        (book("EUR", perHour="9.6", instanceType="other"), "", ""),
        (book("CHF", billing="Owned"), "0", "0 CHF"),
        (book("USD"), "", ""),
    ],
)
async def test_the_price_is_of_an_accelerator_that_is_there_and_in_its_currency(
    setting: Setting, prices: dict[str, Any], per_hour: str, shown: str
) -> None:
    setting.books.there = (with_gpus("east"),)
    await setting.store.create(policies.PRICE_BOOK.resource, prices)
    await setting.join("east")
    [entry] = setting.collection.snapshot().entries()
    summary = entry.parse()["status"]["summary"]
    assert (summary["pricePerHour"], summary["price"]) == (per_hour, shown)


async def test_a_cluster_that_takes_no_new_work_is_shown_so_at_once(setting: Setting) -> None:
    east = await setting.join("east")
    east.conditions = {"Ready": Condition("Ready", "True")}
    running = asyncio.create_task(setting.clusters.run())
    cordon = True
    for shown in ("True", "True,Cordoned", "True"):
        while True:
            cursor = setting.collection.cursor(setting.store.sequencer.current)
            [entry] = setting.collection.snapshot().entries()
            if entry.parse().get("status", {}).get("summary", {}).get("ready") == shown:
                break
            assert await setting.collection.wait(cursor, timeout_s=20)

        def change(obj: dict[str, Any], cordoned: bool = cordon) -> dict[str, Any]:
            obj["spec"] = {"maintenance": {"cordoned": cordoned}}
            return obj

        await setting.store.rewrite(
            setting.collection.resource, namespace="", name="east", change=change
        )
        cordon = False
    running.cancel()
