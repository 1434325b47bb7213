"""Keys are looked at once however often they are named, and again when it went wrong."""

from __future__ import annotations

import asyncio
import logging

import pytest

from fleet.apiserver.controllers import queue as queues
from fleet.apiserver.controllers.queue import Queue
from fleet.errors import StoreError


class Work:
    """A queue with its workers running, whose reconciles wait to be let go."""

    def __init__(self, *, workers: int = 1) -> None:
        self.queue: Queue[str] = Queue("test")
        self.begun: list[str] = []
        self.gate = asyncio.Event()
        self.fails: list[Exception] = []
        self._workers = workers

    async def reconcile(self, key: str) -> None:
        self.begun.append(key)
        await self.gate.wait()
        if self.fails:
            raise self.fails.pop(0)

    async def __aenter__(self) -> Work:
        running = self.queue.work(self.reconcile, workers=self._workers)
        self._task = asyncio.create_task(running)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_key_named_often_is_looked_at_once() -> None:
    async with Work() as work:
        work.gate.set()
        for key in "abaab":
            work.queue.add(key)
        await turns()
        assert work.begun == ["a", "b"]


async def test_a_key_named_while_it_is_worked_on_is_looked_at_again() -> None:
    async with Work() as work:
        work.queue.add("a")
        await turns()
        work.queue.add("a")
        work.queue.add("a")
        await turns()
        assert work.begun == ["a"]
        work.gate.set()
        await turns()
        assert work.begun == ["a", "a"]


async def test_no_two_workers_have_the_same_key() -> None:
    async with Work(workers=3) as work:
        for key in "ab":
            work.queue.add(key)
        await turns()
        work.queue.add("a")
        await turns()
        assert work.begun == ["a", "b"]
        work.queue.add("c")
        await turns()
        assert work.begun == ["a", "b", "c"]


async def test_what_fails_comes_back_ever_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queues, "FIRST_RETRY_S", 0.0)
    caplog.set_level(logging.INFO)
    async with Work() as work:
        work.gate.set()
        work.fails = [StoreError("full"), ZeroDivisionError()]
        work.queue.add("a")
        await turns(60)
        assert work.begun == ["a", "a", "a"]
    told = [(record.levelname, record.exc_info is not None) for record in caplog.records]
    assert told == [("INFO", False), ("ERROR", True)]


async def test_delays_double_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []
    loop = asyncio.get_running_loop()
    call_at, now_s = loop.call_at, 1000.0

    def noted(when: float, call: object, *arguments: object) -> asyncio.TimerHandle:
        delays.append(round(when - now_s, 6))
        return call_at(0, call, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "time", lambda: now_s)
    monkeypatch.setattr(loop, "call_at", noted)
    async with Work() as work:
        work.gate.set()
        work.fails = [StoreError("full") for _ in range(16)]
        work.queue.add("a")
        await turns(400)
        assert len(work.begun) == 17
        assert delays[:3] == [0.01, 0.02, 0.04]
        assert delays[-1] == queues.LAST_RETRY_S
        # after a success the next failure begins anew
        delays.clear()
        work.fails = [StoreError("full")]
        work.queue.add("a")
        await turns()
        assert delays == [0.01]


async def test_naming_a_key_again_does_not_wait_for_its_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queues, "FIRST_RETRY_S", 1000.0)
    async with Work() as work:
        work.gate.set()
        work.fails = [StoreError("full")]
        work.queue.add("a")
        await turns()
        work.queue.add("a")
        await turns()
        assert work.begun == ["a", "a"]


async def test_a_key_can_be_put_off_and_the_earliest_time_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    now_s = 1000.0
    monkeypatch.setattr(loop, "time", lambda: now_s)
    async with Work() as work:
        work.gate.set()
        work.queue.add_after("a", 60)
        work.queue.add_after("a", 5)
        work.queue.add_after("a", 30)
        await turns()
        assert work.begun == []
        now_s += 5
        await turns()
        assert work.begun == ["a"]
        now_s += 100
        await turns()
        assert work.begun == ["a"]
        # one that is due anyway is not put off
        work.queue.add("b")
        work.queue.add_after("b", 60)
        await turns()
        assert work.begun == ["a", "b"]
