"""Crashes, cut lines, lost and repeated requests: what is promised holds through each of them.

That nothing starts before its commit is stored, and no rank twice at a time, is checked by the
fixture whenever a pod starts.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.dispatch.jobs import JOBS
from fleet.dispatch.remote import Remote
from fleet.errors import Conflict

LEASE_S = 15.0
HOLD_S = 15.0  # no longer than the lease
STRIDE = 3  # 1 takes minutes


async def two_members(fleet, east=4, west=4):
    await fleet.join("east", room=east)
    await fleet.join("west", room=west)


# -- crashes


async def _count_operations(new_fleet):
    async with new_fleet() as fleet:
        await two_members(fleet)
        await fleet.run_job(ranks=6, **{"run-for": 4})
        await fleet.until(lambda: fleet.condition("Complete"))
        await fleet.delete_job()
        await fleet.until(lambda: fleet.job() is None)
        return fleet.operations


async def _live_through(fleet, crash, condition, *, rounds=200):
    """Rounds until `condition`; a gateway that crashes comes back."""
    for _ in range(rounds):
        if condition():
            return
        try:
            await fleet.round()
        except crash:
            await fleet.restart()
    raise AssertionError(f"it never came to that: {fleet.records()}")


@pytest.mark.timeout(300)
async def test_a_gateway_killed_between_any_two_operations_goes_on_as_if_it_had_not_been(
    new_fleet, crash
):
    total = await _count_operations(new_fleet)
    assert total > 60
    for number in range(0, total, STRIDE):
        async with new_fleet() as fleet:
            await two_members(fleet)
            fleet.crash_after = number
            await fleet.run_job(ranks=6, **{"run-for": 4})
            await _live_through(fleet, crash, lambda: fleet.job() and fleet.condition("Complete"))
            assert sorted(rank for *_, rank in fleet.starts) == [0, 1, 2, 3, 4, 5], number
            await fleet.delete_job()
            await _live_through(fleet, crash, lambda: fleet.job() is None)
            await fleet.settle()
            assert fleet.left_over() == [], number
            assert fleet.records() == {}


@pytest.mark.timeout(300)
async def test_a_gateway_killed_while_it_orphans_leaves_the_shards_all_the_same(new_fleet, crash):
    async def orphans(fleet, number):
        await two_members(fleet)
        await fleet.run_job(ranks=6)
        await fleet.until(lambda: fleet.record().phase == "Running")
        before = fleet.operations
        fleet.crash_after = before + number
        await fleet.delete_job(orphan=True)
        await _live_through(fleet, crash, lambda: not fleet.records())
        taken = fleet.operations - before
        assert fleet.job()["metadata"]["finalizers"] == ["orphan"]
        await fleet.wait(2 * LEASE_S)
        assert sorted(fleet.running()) == [0, 1, 2, 3, 4, 5], number
        return taken

    number, total = 0, 1
    while number < total:
        async with new_fleet() as fleet:
            total = max(total, await orphans(fleet, number))
        number += 1
    assert total > 6


@pytest.mark.parametrize("stands", [("east",), ("east", "west")])
async def test_a_gateway_killed_while_holding_leaves_nothing_held_after_the_holds_time(
    fleet, stands
):
    await two_members(fleet)
    fleet.members["west"].room = 4 if "west" in stands else 1
    fleet.planner.belief = {"east": 4, "west": 2}
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: sum(member.used() for member in fleet.members.values()) >= 5)
    assert fleet.record().phase == "Holding"
    await fleet.wait(HOLD_S + 2, gateway=False)
    assert [member.used() for member in fleet.members.values()] == [0, 0]
    assert fleet.starts == []


async def test_a_gateway_that_stays_away_longer_than_the_lease_finds_it_ended_and_places_it_anew(
    fleet,
):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.wait(LEASE_S + 3, gateway=False)
    assert fleet.running() == {}  # the members ended it themselves
    await fleet.restart()
    await fleet.until(lambda: fleet.record().phase == "Running" and fleet.record().generation == 2)
    await fleet.settle()
    assert fleet.record().owed == ()
    assert not fleet.condition("Failed")


# -- the line between


@pytest.mark.parametrize("fault", ["lost", "twice", "cut"])
@pytest.mark.timeout(300)
async def test_any_one_request_may_be_lost_or_repeated(new_fleet, fault):
    for number in range(0, 70, STRIDE):
        async with new_fleet() as fleet:
            await two_members(fleet)
            for member in fleet.members.values():
                member.faults = [""] * number + [fault]
            await fleet.run_job(ranks=6, **{"run-for": 4})
            await fleet.until(lambda: fleet.condition("Complete"))
            assert len(fleet.starts) == 6, number
            await fleet.delete_job()
            await fleet.until(lambda: fleet.job() is None)
            await fleet.settle()
            assert fleet.left_over() == [], number


async def test_a_member_cut_off_while_holding_makes_the_other_release(fleet):
    await two_members(fleet)
    fleet.members["west"].faults = ["cut"] * 10_000
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Queued" and fleet.record().generation)
    await fleet.wait(5)
    assert fleet.members["east"].used() == 0
    assert fleet.starts == []


async def test_only_the_lost_shard_is_placed_anew_and_only_after_its_lease(fleet):
    await two_members(fleet)
    north = await fleet.join("north", room=2)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    first = list(fleet.starts)
    west = fleet.members["west"]
    cut_at, west.cut = fleet.clock.now, True
    await fleet.until(lambda: fleet.record().generation == 2 and fleet.record().phase == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running"), "north": (4, 2, "Running")}
    anew = fleet.starts[len(first) :]
    assert {(member, rank) for _, member, _, rank in anew} == {("north", 4), ("north", 5)}
    assert min(at for at, *_ in anew) >= cut_at + LEASE_S * 2 / 3  # of the last renewal
    assert {debt.cluster for debt in fleet.record().owed} == {"west"}
    # the survivors were told of the new generation and peers
    gate = fleet.members["east"].find("configmaps", "train-g1-east-gate")["data"]
    assert gate["FLEET_GENERATION"] == "2"
    assert '"cluster": "north"' in gate["peers.json"]
    # the member returns: its old copy goes, nothing else changes
    west.cut = False
    await fleet.settle()
    assert fleet.record().owed == ()
    assert west.all("jobs") == []
    assert fleet.placed() == {"east": (0, 4, "Running"), "north": (4, 2, "Running")}
    assert north.used() == 2


async def test_a_renewal_that_nobody_answered_has_perhaps_been_made(fleet):
    await two_members(fleet)
    await fleet.join("north", room=2)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    west = fleet.members["west"]
    west.breaks_off = "PATCH"
    await fleet.until(lambda: west.cut)
    renewed_at = fleet.clock.now
    await fleet.until(lambda: fleet.record().generation == 2)
    assert fleet.clock.now >= renewed_at + LEASE_S
    await fleet.until(lambda: fleet.record().phase == "Running")


async def test_a_deletion_means_the_very_job_that_was_seen(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    west = fleet.members["west"]
    with pytest.raises(Conflict):
        await Remote(west).delete(JOBS.gvr, "payments", "train-g1-west", uid="of another")
    assert west.find("jobs", "train-g1-west")["metadata"].get("deletionTimestamp") is None


async def test_a_short_silence_changes_nothing(fleet):
    await two_members(fleet)
    await fleet.join("north", room=4)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    fleet.members["west"].cut = True
    await fleet.wait(5)
    fleet.members["west"].cut = False
    await fleet.wait(40)
    assert fleet.record().generation == 1
    assert len(fleet.starts) == 6


async def test_without_proof_or_lease_nothing_is_placed_anew(fleet):
    fleet.planner.fencing = "Confirmed"
    await two_members(fleet)
    await fleet.join("north", room=4)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    fleet.members["west"].cut = True
    await fleet.wait(LEASE_S * 10)
    assert fleet.record().generation == 1


async def test_a_lost_shard_that_fits_nowhere_waits_and_survivors_go_on(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    fleet.members["west"].cut = True
    await fleet.until(lambda: fleet.record().phase == "Lost")
    await fleet.wait(60)
    assert fleet.placed()["east"] == (0, 4, "Running")
    assert set(fleet.running()) >= {0, 1, 2, 3}
    await fleet.join("north", room=2)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert fleet.placed()["north"] == (4, 2, "Running")


async def test_a_deletion_is_owed_to_a_member_that_is_away_until_it_confirms(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    fleet.members["west"].cut = True
    await fleet.delete_job()
    await fleet.wait(60)
    assert fleet.job() is not None
    assert [debt.cluster for debt in fleet.record().owed] == ["west"]
    await fleet.restart()
    await fleet.wait(5)
    assert fleet.job() is not None
    fleet.members["west"].cut = False
    await fleet.until(lambda: fleet.job() is None)
    assert fleet.left_over() == []


@pytest.mark.parametrize("complete", [False, True])
async def test_a_member_that_left_is_not_waited_for_by_a_deletion(fleet, complete):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **({"run-for": 3} if complete else {}))
    phase = "Succeeded" if complete else "Running"
    await fleet.until(lambda: fleet.record().phase == phase)
    await fleet.settle()
    west = fleet.members.pop("west")
    await fleet.round()
    left_at = fleet.clock.now
    await fleet.delete_job()
    await fleet.until(lambda: fleet.job() is None)
    assert fleet.clock.now - left_at < LEASE_S / 2
    assert fleet.left_over() == []
    assert west.all("jobs")  # until its lease is over, or it is a member again


async def test_a_member_that_died_and_is_made_to_leave_is_told_as_such_after_a_restart_too(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    fleet.members["west"].cut = True
    await fleet.round()
    assert "does not answer" in fleet.record().shards[1].message
    del fleet.members["west"]
    await fleet.restart()
    await fleet.round()
    west = fleet.record().shards[1]
    assert (west.state, west.reason) == ("Running", "MemberLeft")
    assert west.message == "west is no member of the fleet any more"
    await fleet.join("north", room=2)
    await fleet.until(lambda: fleet.record().phase == "Running" and fleet.record().generation == 2)


async def test_a_restart_does_not_prolong_the_wait_for_a_silent_member(fleet):
    await two_members(fleet)
    await fleet.join("north", room=2)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    west = fleet.members["west"]
    cut_at, west.cut = fleet.clock.now, True
    await fleet.wait(LEASE_S - 5)
    until = fleet.record().shards[1].leased_until
    assert cut_at < until <= cut_at + LEASE_S + 3
    await fleet.restart()
    await fleet.until(lambda: fleet.record().generation == 2)
    # not before the lease and its margin are over, and not a lease after the restart
    assert until < fleet.clock.now <= until + 3
    assert west.used() == 0
    await fleet.until(lambda: fleet.record().phase == "Running")


# -- what others do in a member


async def test_a_hold_deleted_before_the_commit_releases_all(fleet):
    await two_members(fleet, west=1)
    fleet.planner.belief = {"east": 4, "west": 2}
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.placed().get("east", ("", "", ""))[2] == "Held")
    east = fleet.members["east"]
    (job,) = east.all("jobs")
    job["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:10Z"
    await east._change("jobs", job)
    await fleet.until(lambda: fleet.record().phase == "Queued")
    await fleet.settle()
    assert fleet.left_over() == []
    assert fleet.starts == []


async def test_a_running_shard_deleted_by_others_is_placed_anew_when_it_was_seen_to_go(fleet):
    await two_members(fleet, west=8)
    await fleet.join("north", room=4)
    await fleet.run_job(ranks=6, annotations={})
    await fleet.until(lambda: fleet.record().phase == "Running")
    (cluster,) = fleet.placed()
    member = fleet.members[cluster]
    (job,) = member.all("jobs")
    await member.drop("jobs", job)
    await fleet.until(lambda: fleet.record().generation == 2 and fleet.record().phase == "Running")
    assert not fleet.condition("Failed")


async def test_a_running_shard_that_vanished_unseen_is_not_run_again(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    west = fleet.members["west"]
    (job,) = west.all("jobs")
    await west.drop("jobs", job)
    west.gone_unfinished.clear()  # the gateway was away
    await fleet.until(lambda: fleet.condition("Failed"))
    assert fleet.condition("Failed")["reason"] == "ResultUnknown"
    assert len(fleet.starts) == 6


async def test_an_old_gate_does_not_let_a_new_generation_through(fleet):
    await two_members(fleet)
    for member in fleet.members.values():
        labels = {"fleet.dev/accept": "true"}
        await member.put("namespaces", {"metadata": {"name": "payments", "labels": labels}})
        annotations = {"fleet.dev/fleet": "f1ee7000-0000-4000-8000-000000000000"}
        metadata = {
            "name": f"train-g1-{member.name}-gate",
            "namespace": "payments",
            "annotations": annotations,
        }
        await member.put("configmaps", {"metadata": metadata, "data": {}})
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")  # checked as pods start


# -- histories


@given(st.integers(0, 2**32))
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.timeout(600)
async def test_whatever_happens_it_ends_as_it_should(new_fleet, crash, seed):
    """Faults at random times, then peace: the job completes or is gone, and nothing is left."""
    choose = random.Random(seed)
    async with new_fleet() as fleet:
        for name in ("east", "west", "north"):
            await fleet.join(name, room=choose.choice([2, 4, 6]))
        await fleet.run_job(ranks=6, backoffLimit=6, **{"run-for": choose.choice([3, 20])})
        for _ in range(choose.randint(5, 60)):
            member = fleet.members[choose.choice(sorted(fleet.members))]
            match choose.randrange(12):
                case 0:
                    member.cut = not member.cut
                case 1:
                    fleet.crash_after = fleet.operations + choose.randint(0, 20)
                case 2:
                    await fleet.restart()
                case 3:
                    member.faults += choose.choices(["", "cut", "lost", "twice"], k=8)
                case 4:
                    member.room = choose.choice([0, 2, 4, 6])
                case 5:
                    await fleet.wait(choose.choice([5, 20, 40]), gateway=False)
                case 6:
                    fleet.planner.belief = {member.name: choose.choice([2, 4, 6])}
                case _:
                    try:
                        await fleet.round()
                    except crash:
                        await fleet.restart()
        fleet.crash_after = None
        fleet.planner.belief = {}
        for member in fleet.members.values():
            member.cut, member.faults, member.room = False, [], 6
        for _ in range(300):
            if fleet.condition("Complete") or fleet.condition("Failed"):
                break
            await fleet.round(tick_s=2.0)
        told = fleet.condition("Complete") or fleet.condition("Failed")
        assert told, fleet.records()
        assert told["type"] == "Complete" or told["reason"] == "ResultUnknown", told
        await fleet.delete_job()
        for _ in range(50):
            if fleet.job() is None:
                break
            await fleet.round()
        await fleet.settle()
        assert fleet.job() is None
        assert fleet.left_over() == []


# -- what a gang loses together


async def fail(member, pod):
    """A process that dies with its peer."""
    pod["status"]["phase"] = "Failed"
    await member._change("pods", pod)


async def drain_one(fleet):
    """Take one pod of west away; all the others die at once."""
    west = fleet.members["west"]
    west.lingers = True
    going, *_ = west.all("pods")
    for member in fleet.members.values():
        for pod in member.all("pods"):
            if pod["metadata"]["uid"] == going["metadata"]["uid"]:
                pod["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:10Z"
                await member._change("pods", pod)
            else:
                await fail(member, pod)
    await fleet.round()
    west.lingers = False


def runs_whole(fleet):
    return sorted(fleet.running()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_dies_with_a_pod_that_was_taken_away_uses_no_restart_budget(fleet, restarted):
    await two_members(fleet)
    await fleet.run_job(ranks=6, backoffLimit=0)
    await fleet.until(lambda: fleet.record().phase == "Running")
    for _ in range(3):
        await drain_one(fleet)
        if restarted:
            await fleet.restart()
        await fleet.until(lambda: runs_whole(fleet))
        await fleet.settle()
        assert not fleet.condition("Failed")
        assert fleet.record().budget.charged == 0
    assert fleet.record().generation == 1
    assert fleet.job()["status"]["failed"] >= 15  # told as they are
    east = fleet.members["east"]
    running = [pod for pod in east.all("pods") if pod["status"]["phase"] == "Running"]
    await fail(east, running[0])
    await fleet.until(lambda: fleet.condition("Failed"))
    assert fleet.condition("Failed")["reason"] == "BackoffLimitExceeded"


async def test_what_dies_with_a_lost_member_uses_no_restart_budget(fleet):
    await two_members(fleet)
    await fleet.join("north", room=2)
    await fleet.run_job(ranks=6, backoffLimit=0)
    await fleet.until(lambda: fleet.record().phase == "Running")
    fleet.members["west"].cut = True
    for _ in range(3):  # they look for their peers, in vain
        for pod in fleet.members["east"].all("pods"):
            if pod["status"]["phase"] == "Running":
                await fail(fleet.members["east"], pod)
        await fleet.wait(2)
    await fleet.until(lambda: fleet.record().generation == 2)
    await fleet.until(lambda: fleet.record().phase == "Running" and runs_whole(fleet))
    await fleet.settle()
    assert not fleet.condition("Failed")
    assert fleet.record().budget.charged == 0


async def test_a_job_is_not_complete_while_what_was_lost_finds_no_place(fleet):
    east, west = await fleet.join("east", room=4), await fleet.join("west", room=4)
    await fleet.run_job("train", 8)
    await fleet.until(lambda: fleet.record().phase == "Running")
    west.cut = True
    for pod in east.all("pods"):
        pod["status"]["phase"] = "Succeeded"
        await east._change("pods", pod)
    await fleet.until(lambda: fleet.record().phase == "Lost")
    fleet.planner.belief["west"] = 4
    west.room, west.cut = 0, False
    await fleet.until(lambda: fleet.record().phase == "Holding")
    await fleet.until(lambda: fleet.record().phase == "Lost")
    await fleet.settle()
    assert fleet.condition("Complete") is None
    west.room = 4
    await fleet.until(lambda: sorted(fleet.running()) == [4, 5, 6, 7])
    for pod in west.all("pods"):
        pod["status"]["phase"] = "Succeeded"
        await west._change("pods", pod)
    await fleet.until(lambda: fleet.record().phase == "Succeeded")
    job = fleet.job()["status"]
    assert (job["succeeded"], job["completedIndexes"]) == (8, "0-7")
