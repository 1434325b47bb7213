"""Price sources become PriceBooks, failures are counted and said once, and nobody waits for one."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from fleet.gateway.extensions import EVERY_S, FAILURES, Complaints, PriceSources
from fleet.scheduling.extension import Extension, Extensions
from fleet.scheduling.price import prices_of
from policies import PRICE_BOOK

START = datetime(2026, 11, 29, tzinfo=UTC)


class Source:
    """Says `spec`, or raises it."""

    def __init__(self, spec):
        self.spec = spec

    def prices(self):
        if isinstance(self.spec, Exception):
            raise self.spec
        return self.spec


def offering(price, **more):
    return {"currency": "USD", "offers": [{"cluster": "a", "perHour": price, **more}]}


class Asking:
    """Price sources in virtual time; `turn` lets every one be asked once more."""

    def __init__(self, store, **sources):
        self.now = START
        self.complaints = []
        self.store = store
        made = tuple(Extension(name, "dist", each) for name, each in sources.items())
        extensions = Extensions(prices=made, failed=lambda *said: self.complaints.append(said))
        self.rounds = asyncio.Semaphore(0)
        self.asked = asyncio.Semaphore(0)
        self.sources = PriceSources(
            store, extensions, now=lambda: self.now, uid=lambda: "u", sleep=self.sleep
        )

    async def sleep(self, seconds):
        assert seconds == EVERY_S
        self.asked.release()
        await self.rounds.acquire()

    async def __aenter__(self):
        self.task = asyncio.create_task(self.sources.run())
        return self

    async def __aexit__(self, *args):
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task

    async def turn(self, after=timedelta(0)):
        await self.asked.acquire()
        self.now += after
        self.rounds.release()
        await self.asked.acquire()
        self.asked.release()

    async def once(self):
        await self.asked.acquire()
        self.asked.release()

    def book(self, name="cloud"):
        entry = self.store.get(PRICE_BOOK.resource, "", name)
        return entry.parse() if entry is not None else None

    def price(self):
        return prices_of([self.book()], now=self.now)


async def test_what_a_source_says_is_a_price_book_as_of_then(store):
    source = Source(offering("2"))
    async with Asking(store, cloud=source) as asking:
        await asking.once()
        book = asking.book()
        assert book["spec"]["offers"][0]["asOf"] == "2026-11-29T00:00:00Z"
        assert book["metadata"]["annotations"] == {"fleet.dev/price-source": "cloud (dist)"}
        PRICE_BOOK.rules.validate(book, None)
        before = store.sequencer.current
        await asking.turn(timedelta(minutes=1))
        assert store.sequencer.current == before, "nothing new was said"
        await asking.turn(timedelta(hours=7))
        assert asking.book()["spec"]["offers"][0]["asOf"] == "2026-11-29T07:01:00Z"
        source.spec = offering("3")
        await asking.turn(timedelta(minutes=1))
        assert asking.book()["spec"]["offers"][0]["perHour"] == "3"
        assert asking.book()["metadata"]["generation"] == 3


async def test_times_that_a_source_gives_are_its_own(store):
    source = Source(offering("2", asOf="2026-11-28T00:00:00Z"))
    async with Asking(store, cloud=source) as asking:
        await asking.turn(timedelta(days=1))
        assert asking.book()["spec"]["offers"][0]["asOf"] == "2026-11-28T00:00:00Z"


async def test_prices_of_a_source_that_fails_grow_old(store):
    source = Source(offering("2"))
    async with Asking(store, cloud=source) as asking:
        await asking.once()
        source.spec = OSError("no route")
        await asking.turn(timedelta(hours=23))
        assert not asking.price().outdated
        assert asking.complaints == [("price source", "cloud (dist)", "OSError: no route")]
        await asking.turn(timedelta(hours=2))
        assert asking.price().outdated


async def test_a_book_of_somebody_elses_is_not_touched(store):
    mine = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "PriceBook",
        "metadata": {"name": "cloud", "uid": "m"}, "spec": offering("9"),
    }  # fmt: skip
    await store.create(PRICE_BOOK.resource, mine)
    async with Asking(store, cloud=Source(offering("2"))) as asking:
        await asking.once()
        assert asking.book()["spec"] == mine["spec"]
        ((kind, name, why),) = asking.complaints
        assert (kind, name) == ("price source", "cloud (dist)")
        assert "none of its own" in why


async def test_a_source_that_hangs_holds_up_nobody_not_even_the_end(store):
    never, begun = threading.Event(), threading.Event()

    class Hanging:
        def prices(self):
            begun.set()
            never.wait()
            return offering("1")

    async with Asking(store, hangs=Hanging(), cloud=Source(offering("2"))) as asking:
        await asking.once()
        assert asking.book() is not None
        assert begun.is_set()
    assert asking.book("hangs") is None
    never.set()


def test_failures_are_counted_and_said_once(caplog):
    now = [0.0]
    complain = Complaints(lambda: now[0])
    counted = FAILURES.labels("filter", "mine (dist)")
    before = counted._value.get()
    for _ in range(3):
        complain("filter", "mine (dist)", "KeyError: 'x'")
    assert counted._value.get() == before + 3
    assert caplog.text.count("the filter mine (dist) failed: KeyError: 'x'") == 1
    complain("filter", "mine (dist)", "ValueError")
    now[0] = 601.0
    complain("filter", "mine (dist)", "ValueError")
    assert caplog.text.count("the filter mine (dist) failed") == 3
