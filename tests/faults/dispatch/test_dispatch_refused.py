"""Members that refuse what a shard needs after its commit, or lose it."""

from __future__ import annotations

import pytest

from fleet.errors import Invalid, Unavailable


class Refusing:
    """Whatever of `resource` is written in a member is refused with `error`, while there is one."""

    def __init__(self, member, resource):
        self.error = None
        self._resource = f"/{resource}"
        self._handle = member.handle
        member.handle = self.handle

    async def handle(self, request):
        if self.error is not None and request.method != "DELETE" and self._resource in request.path:
            raise self.error
        return await self._handle(request)


@pytest.fixture
async def west(fleet):
    await fleet.join("east", room=4)
    return await fleet.join("west", room=4)


def gate_in(member):
    found = [
        each for each in member.all("configmaps") if each["metadata"]["name"].endswith("-gate")
    ]
    return found[0] if found else None


async def test_a_gate_that_is_deleted_is_put_back(fleet, west):
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await west.drop("configmaps", gate_in(west))
    await fleet.wait(20)
    assert gate_in(west) is not None


async def test_a_gate_is_put_back_whatever_else_fails(fleet, west):
    services = Refusing(west, "services")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    services.error = Unavailable("not at the moment")
    await fleet.wait(61)  # until all is looked at again
    await west.drop("configmaps", gate_in(west))
    await fleet.wait(20)
    assert gate_in(west) is not None


async def test_a_gang_that_is_refused_its_names_is_aborted_and_placed_elsewhere(fleet, west):
    slices = Refusing(west, "endpointslices")
    slices.error = Invalid("EndpointSlice is invalid: may not be in the loopback range")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Committed")
    await fleet.until(lambda: any("loopback" in each.message for each in fleet.record().shards))
    await fleet.until(lambda: fleet.placed()["east"][2] == "Running")
    said = fleet.record()
    (told,) = [each for each in said.shards if each.cluster == "west"]
    assert (told.state, told.reason) == ("Committed", "Invalid")
    assert "Invalid" in fleet.events()
    await fleet.wait(20)
    assert fleet.record() == said  # nothing is written over and over
    await fleet.until(lambda: not fleet.record().shards)
    assert "loopback" in fleet.bars.of(fleet.job()["metadata"]["uid"])["west"]
    await fleet.wait(10)
    assert fleet.running() == {}
    await fleet.join("north", room=4)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert set(fleet.placed()) == {"east", "north"}


async def test_a_refusal_that_ends_is_said_no_more(fleet, west):
    slices = Refusing(west, "endpointslices")
    slices.error = Invalid("EndpointSlice is invalid")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: any(each.message for each in fleet.record().shards if each.live))
    slices.error = None
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert fleet.record().generation == 1
    assert not any(each.message or each.reason for each in fleet.record().shards)


async def test_a_member_may_leave_while_it_is_looked_at(fleet, west):
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    handle = west.handle

    async def last(request):
        answer = await handle(request)
        if "/jobs/" in request.path:
            fleet.members.pop("west", None)
        return answer

    west.handle = last
    await fleet.until(lambda: any(s.reason == "MemberLeft" for s in fleet.record().shards))


async def test_a_shard_that_somebody_suspends_is_placed_anew_and_says_so(fleet, west):
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    (job,) = west.all("jobs")
    job["spec"]["suspend"] = True
    await west._change("jobs", job)
    await fleet.until(lambda: fleet.record().phase == "Lost")
    assert fleet.record().reason == "JobSuspended"
    assert "ShardEvicted" in fleet.events()
    assert "suspended" in fleet.bars.of(fleet.job()["metadata"]["uid"])["west"]
    await fleet.join("north", room=4)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert set(fleet.placed()) == {"east", "north"}
