"""No member that hangs, refuses or fails keeps others from having their leases renewed."""

from __future__ import annotations

import asyncio
from datetime import datetime
from types import SimpleNamespace

import pytest

from fleet.apiserver.controllers import queue as queues
from fleet.dispatch.controller import Dispatch
from fleet.dispatch.parts import Parts
from fleet.dispatch.reconciler import Key, Reconciler
from fleet.errors import TransportError, Unavailable

JOB = Key("Job", "payments", "train")
LEASE_S = 15.0
FLEET = "f1ee7000-0000-4000-8000-000000000000"
NOBODY = SimpleNamespace(
    members={}, merged=lambda gvr: None, running=lambda gvr: None, projector=lambda *_: None
)


class Listening:
    """Notes the requests of one member; `before` is awaited ahead of each."""

    def __init__(self, member, before=None):
        self.asked = []
        self.renewed = asyncio.Event()
        self._handle = member.handle
        self._before = before
        member.handle = self.handle

    async def handle(self, request):
        self.asked.append((request.method, request.path.rsplit("/", 1)[-1]))
        if self._before is not None:
            await self._before(request)
        answer = await self._handle(request)
        if request.method == "PATCH":
            self.renewed.set()
        return answer


@pytest.fixture
async def split(fleet):
    """A gang over two members, a little after its leases are due to be renewed."""
    await fleet.join("east", room=4)
    await fleet.join("west", room=4)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.settle()
    await fleet.wait(LEASE_S / 3 + 1, gateway=False)
    return fleet.members


async def test_the_time_that_a_look_took_counts(fleet, split):
    """A lease that was not due yet when its member answered is when another one has not."""
    split["west"].cut = True
    await fleet.reconciler.reconcile(JOB)  # renewed, and the silence is stored

    def left_s():
        (job,) = split["east"].all("jobs")
        began = datetime.fromisoformat(job["status"]["startTime"]).timestamp()
        return began + job["spec"]["activeDeadlineSeconds"] - fleet.clock.now

    while left_s() > LEASE_S * 2 / 3 + 1:
        await fleet.round(gateway=False)
    answered = asyncio.Event()

    async def tells(request):
        if "labelSelector" in dict(request.query):  # for its pods, the last that it is asked for
            answered.set()

    async def takes_long(request):
        await answered.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        fleet.clock.now += 3
        raise TransportError("no answer")

    east = Listening(split["east"], tells)
    split["west"].handle = takes_long
    assert left_s() > LEASE_S * 2 / 3
    await fleet.reconciler.reconcile(JOB)
    assert east.renewed.is_set()


async def test_a_renewal_goes_out_before_another_ones_silence_is_stored(fleet, split):
    east = Listening(split["east"])
    split["west"].cut = True
    await fleet.reconciler.reconcile(JOB)
    assert fleet.record().shards[1].lost_at is not None
    renewed = east.asked.index(("PATCH", "train-g1-east"))
    assert east.asked[:renewed].count(("GET", "train-g1-east")) == 1  # one look, and no second


async def test_a_renewal_that_fails_does_not_keep_anothers_silence_from_being_stored(fleet, split):
    async def refused(request):
        if request.method == "PATCH":
            raise Unavailable("the disk is full")

    Listening(split["east"], refused)
    split["west"].cut = True
    with pytest.raises(Unavailable):
        await fleet.reconciler.reconcile(JOB)
    assert fleet.record().shards[1].lost_at is not None


async def test_what_was_silent_is_not_renewed_before_that_is_taken_back(fleet, split):
    """A gateway that begins anew counts on what is stored: the lease ends when it says."""
    split["west"].cut = True
    await fleet.reconciler.reconcile(JOB)
    assert fleet.record().shards[1].leased_until is not None
    split["west"].cut = False
    stored = []

    async def looked(request):
        if request.method == "PATCH":
            stored.append(fleet.record().shards[1].leased_until)

    Listening(split["west"], looked)
    await fleet.reconciler.reconcile(JOB)
    assert stored == [None]


async def test_a_member_whose_writes_hang_holds_nobody_up(fleet, split, monkeypatch):
    loop, now_s = asyncio.get_running_loop(), 1000.0
    monkeypatch.setattr(loop, "time", lambda: now_s)

    async def hangs(request):
        nonlocal now_s
        if request.method != "GET":
            await east.renewed.wait()
            now_s += LEASE_S / 4  # no request has been given up by then
            await asyncio.Event().wait()

    east = Listening(split["east"])
    Listening(split["west"], hangs)
    with pytest.raises(TransportError, match="west is not done within 3 s"):
        await fleet.reconciler.reconcile(JOB)


async def test_while_one_refuses_for_long_the_others_are_renewed(fleet, split, monkeypatch):
    """However long it has been failing, the next pass comes while leases run."""
    within_s = fleet.reconciler.patience_s(JOB)
    assert within_s is not None and within_s <= LEASE_S / 3
    passes = asyncio.Queue()

    async def failing(self, key):
        passes.put_nowait(key)
        raise Unavailable("the disk of west is full")

    monkeypatch.setattr(queues, "FIRST_RETRY_S", 1000.0)
    monkeypatch.setattr(Reconciler, "reconcile", failing)
    monkeypatch.setattr(Reconciler, "patience_s", lambda self, key: 0.01)
    dispatch = Dispatch(
        fleet.store, NOBODY, parts=Parts(fleet=FLEET), planner=fleet.planner, bill=fleet.bills,
        neighbours=fleet,
        fleet=FLEET, uid=lambda: "u", now=fleet.clock,
    )  # fmt: skip
    running = asyncio.create_task(dispatch.run())
    async with asyncio.timeout(60):
        assert [await passes.get() for _ in range(3)] == [JOB] * 3
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_what_is_placed_anew_is_held_in_a_member_far_away(fleet, split, monkeypatch):
    """Every request there takes a while, and all of a hold longer than anything else may."""
    loop, now_s = asyncio.get_running_loop(), 1000.0
    monkeypatch.setattr(loop, "time", lambda: now_s)

    async def takes_a_while(request):
        nonlocal now_s
        now_s += 0.4
        await asyncio.sleep(0)

    far = await fleet.join("far", room=4)
    asked = Listening(far, takes_a_while)
    split["west"].cut = True
    await fleet.until(lambda: "far" in fleet.placed() and fleet.record().phase == "Running")
    made = asked.asked.index(("POST", "jobs"))
    assert made * 0.4 > LEASE_S * 0.2
    assert fleet.record().shards[0].generation == 1  # east ran on all the while


async def test_while_a_hold_is_asked_for_all_others_are_renewed_early(fleet, split):
    """So that it may take its time: every pass begins with nearly a whole lease."""
    await fleet.settle()  # renewed
    far = await fleet.join("far", room=4)
    split["west"].cut = True
    await fleet.until(lambda: "west" not in fleet.placed())
    far.lingers, far.cut = True, False
    east = Listening(split["east"])
    await fleet.round(tick_s=LEASE_S / 8)
    await fleet.gateway()
    assert ("PATCH", "train-g1-east") in east.asked


async def test_nobody_is_hurried_where_no_lease_runs(fleet):
    await fleet.join("east", room=4)
    await fleet.run_job(ranks=9)
    await fleet.gateway()
    assert fleet.reconciler.patience_s(JOB) is None
    assert fleet.reconciler.patience_s(Key("Job", "payments", "nobody")) is None
