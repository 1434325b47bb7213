"""Proofs on demand: what counts, who shares them, and what a broken watch costs."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from fleet.errors import TransportError
from fleet.members.freshness import Freshness

FAR = float("inf")


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Probe:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.sent = 0
        self._sent = asyncio.Event()
        self._answers: asyncio.Queue[int | Exception] = asyncio.Queue()

    async def __call__(self) -> int:
        self.sent += 1
        self._sent.set()
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, answer: int | Exception) -> None:
        self._answers.put_nowait(answer)

    async def was_sent(self, times: int = 1) -> None:
        while self.sent < times:
            self._sent.clear()
            await self._sent.wait()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
async def freshness(clock, probe):
    made = Freshness(probe=probe, clock=clock)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_recent_traffic_is_proof_enough(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 0.9
    assert await freshness.confirm(FAR)
    assert await freshness.confirm(FAR, within_s=0.9)
    assert probe.sent == 0


async def test_a_quiet_watch_is_probed_once_for_all_callers(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    callers = [asyncio.create_task(freshness.confirm(FAR)) for _ in range(50)]
    await probe.was_sent()
    probe.answer(7)
    assert await asyncio.gather(*callers) == [True] * 50
    assert probe.sent == 1


async def test_a_slow_probe_proves_what_was_so_when_it_was_asked_for(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    caller = asyncio.create_task(freshness.confirm(FAR))
    await probe.was_sent()
    clock.now_s += 5
    probe.answer(7)
    assert await caller
    assert freshness.last_contact_s == 110.0


async def test_a_probe_sent_too_early_does_not_serve_a_later_caller(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    first = asyncio.create_task(freshness.confirm(FAR))
    await probe.was_sent()
    clock.now_s += 5
    second = asyncio.create_task(freshness.confirm(FAR))
    await asyncio.sleep(0)
    probe.answer(7)
    assert await first
    await probe.was_sent(2)
    assert not second.done()
    probe.answer(8)
    assert await second


async def test_the_deadline_bounds_the_wait(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    assert not await freshness.confirm(clock.now_s + 0.001)
    assert not await freshness.confirm(clock.now_s - 1)


async def test_a_caller_that_goes_away_takes_nothing_from_the_others(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    leaving, staying = (asyncio.create_task(freshness.confirm(FAR)) for _ in range(2))
    await probe.was_sent()
    leaving.cancel()
    probe.answer(7)
    assert await staying


async def test_a_failed_probe_marks_the_watch_until_traffic_or_a_better_one(
    freshness, clock, probe
):
    freshness.opened()
    clock.now_s += 10
    caller = asyncio.create_task(freshness.confirm(FAR))
    await probe.was_sent()
    probe.answer(TransportError("no answer"))
    assert not await caller
    assert freshness.failure == "no answer"
    # Known to be broken: no waiting, but another probe is on its way.
    assert not await freshness.confirm(FAR)
    await probe.was_sent(2)
    probe.answer(7)
    for _ in range(3):
        await asyncio.sleep(0)
    assert freshness.failure == ""
    assert await freshness.confirm(FAR)
    clock.now_s += 10
    freshness.contact()
    assert await freshness.confirm(FAR)
    assert probe.sent == 2


async def test_traffic_outweighs_a_probe_that_failed_meanwhile(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    caller = asyncio.create_task(freshness.confirm(FAR))
    await probe.was_sent()
    clock.now_s += 1
    freshness.contact()
    probe.answer(TransportError("no answer"))
    assert await caller
    assert freshness.failure == ""


async def test_traffic_answers_those_who_wait_for_a_probe(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    caller = asyncio.create_task(freshness.confirm(FAR))
    await probe.was_sent()
    freshness.contact()
    assert await caller


async def test_a_watch_that_broke_meanwhile_is_not_probed(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    caller = asyncio.create_task(freshness.confirm(FAR))
    await asyncio.sleep(0)  # the probe is wanted now, and its turn comes next
    freshness.closed("cut")
    assert not await caller
    assert probe.sent == 0


async def test_a_watch_being_resumed_is_waited_for(freshness, clock, probe):
    freshness.opened()
    freshness.closed("")
    caller = asyncio.create_task(freshness.confirm(FAR))
    await asyncio.sleep(0)
    assert not caller.done()
    freshness.opened()
    assert await caller
    assert probe.sent == 0


async def test_a_broken_watch_is_no_at_once_and_wanted_back(freshness, clock, probe):
    freshness.opened()
    freshness.closed("connection refused")
    freshness.retry.clear()
    assert not await freshness.confirm(FAR)
    assert freshness.retry.is_set()
    freshness.retry.clear()
    assert not await freshness.confirm(FAR)
    assert not freshness.retry.is_set()  # not for every request
    clock.now_s += 1
    assert not await freshness.confirm(FAR)
    assert freshness.retry.is_set()
    assert probe.sent == 0


async def test_breaking_while_callers_wait_answers_them(freshness, clock, probe):
    freshness.opened()
    clock.now_s += 10
    caller = asyncio.create_task(freshness.confirm(FAR))
    await probe.was_sent()
    freshness.closed("cut")
    assert not await caller


async def test_traffic_before_the_initial_events_have_ended_proves_nothing(freshness, clock):
    freshness.contact()
    assert not await freshness.confirm(clock.now_s + 0.001)


async def test_waiting_for_a_revision(freshness, clock):
    freshness.advance(5)
    assert await freshness.reached(5, clock.now_s)
    later = asyncio.create_task(freshness.reached(7, FAR))
    never = asyncio.create_task(freshness.reached(9, FAR))
    await asyncio.sleep(0)
    freshness.advance(6)
    await asyncio.sleep(0)
    assert not later.done()
    freshness.advance(8)
    assert await later
    never.cancel()
    assert not await freshness.reached(9, clock.now_s + 0.001)
