"""Members that refuse what a shard needs after its commit, or lose it."""

from __future__ import annotations

import pytest

from fleet.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    TransportError,
    Unavailable,
)

HOLD_LIMIT_S = 60


class Refusing:
    """Whatever of `resource` is written in a member is refused with `error`, while there is one:
    in earnest, by `dry` runs, or both."""

    def __init__(self, member, resource, *, earnest=True, dry=False):
        self.error = None
        self._refuses = {False: earnest, True: dry}
        self._resource = f"/{resource}"
        self._handle = member.handle
        member.handle = self.handle

    async def handle(self, request):
        writes = request.method not in ("GET", "DELETE") and self._resource in request.path
        dry = ("dryRun", "All") in request.query
        if self.error is not None and writes and self._refuses[dry]:
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


# -- what is refused is known before anything begins, where a member can be asked


@pytest.mark.parametrize("resource", ["configmaps", "services", "endpointslices"])
async def test_a_gang_does_not_begin_where_what_follows_would_be_refused(fleet, west, resource):
    refusing = Refusing(west, resource, dry=True)
    refusing.error = Forbidden(f"{resource} is forbidden: exceeded quota: tight")
    await fleet.run_job(ranks=6)
    why = "exceeded quota"
    uid = fleet.job()["metadata"]["uid"]
    await fleet.until(lambda: why in fleet.bars.of(uid).get("west", ""))
    await fleet.wait(20)
    assert fleet.starts == []
    await fleet.join("north", room=4)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert set(fleet.placed()) == {"east", "north"}


async def test_a_gang_does_not_begin_where_what_follows_would_fail(fleet, west):
    """As with a webhook that is down: when it is up again, all goes on."""
    refusing = Refusing(west, "configmaps", dry=True)
    refusing.error = InternalError("failed calling webhook")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Holding")
    await fleet.wait(HOLD_LIMIT_S / 2)
    assert (fleet.record().phase, fleet.starts) == ("Holding", [])
    refusing.error = None
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert set(fleet.placed()) == {"east", "west"}


async def test_a_webhook_that_knows_no_dry_run_refuses_nothing(fleet, west):
    refusing = Refusing(west, "services", earnest=False, dry=True)
    refusing.error = BadRequest("admission webhook does not support dry run")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert set(fleet.placed()) == {"east", "west"}


# -- what fails after the commit, and does not stop failing


@pytest.mark.parametrize("error", [
    InternalError("failed calling webhook"), Unavailable("not today"), Conflict("changed"),
    TransportError("no answer"),
])  # fmt: skip
async def test_a_gang_is_not_left_half_begun_by_faults_that_do_not_end(fleet, west, error):
    """A webhook that is down answers 500 for ever: no refusal by its code, and one in effect."""
    gate = Refusing(west, "configmaps")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Committed")
    gate.error = error
    await fleet.until(lambda: fleet.placed()["east"][2] == "Running")
    await fleet.until(lambda: any(str(error) in each.message for each in fleet.record().shards))
    await fleet.until(lambda: not fleet.record().shards)
    await fleet.wait(10)
    assert fleet.running() == {}
    await fleet.join("north", room=4)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert set(fleet.placed()) == {"east", "north"}


async def test_a_fault_that_is_over_at_once_is_not_said(fleet, west):
    gate = Refusing(west, "configmaps")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Committed")
    gate.error = Unavailable("not at the moment")
    await fleet.wait(5)
    gate.error = None
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert "ServiceUnavailable" not in fleet.events()


async def test_a_name_that_somebody_takes_after_the_commit_is_a_refusal(fleet, west):
    """Nothing gives it back, so trying again at once would never end."""
    services = Refusing(west, "services")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Holding")
    services.error = Unavailable("not yet")
    await fleet.until(lambda: fleet.record().phase == "Committed")
    services.error = None
    taken = {"name": "train", "namespace": "payments"}
    await west.put("services", {"metadata": taken, "spec": {"ports": [{"port": 80}]}})
    await fleet.until(lambda: any(each.reason == "NameTaken" for each in fleet.record().shards))
    await fleet.until(lambda: not fleet.record().shards)
    assert "Service train" in fleet.bars.of(fleet.job()["metadata"]["uid"])["west"]


async def test_what_is_refused_is_not_counted_anew_by_a_gateway_that_starts_anew(fleet, west):
    slices = Refusing(west, "endpointslices")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Committed")
    slices.error = Invalid("EndpointSlice is invalid")
    await fleet.until(lambda: any(each.refused_at for each in fleet.record().shards))
    said = fleet.record()
    for _ in range(4):
        await fleet.wait(HOLD_LIMIT_S / 3)
        await fleet.restart()
        if not fleet.record().shards:
            break
        assert fleet.record().shards == said.shards
    assert fleet.record().shards == ()


async def test_what_a_member_fails_to_do_keeps_no_status_from_being_told(fleet, west):
    """Its pods, and the other shards', are told of all the same."""
    services = Refusing(west, "services")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    services.error = InternalError("failed calling webhook")
    await west.drop("services", west.find("services", "train"))
    await fleet.wait(61)  # until all is looked at again
    assert fleet.job()["status"]["ready"] == 6
    east = fleet.members["east"]
    east.alive = False
    (job,) = east.all("jobs")
    job["status"]["ready"] = 3
    await east._change("jobs", job)
    await fleet.until(lambda: fleet.job()["status"]["ready"] == 5)
