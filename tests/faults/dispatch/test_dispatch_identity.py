"""A name that passes from one cluster to another: what a record counts on is a cluster."""

from __future__ import annotations

import pytest


@pytest.fixture
async def running(fleet):
    await fleet.join("east", room=4)
    await fleet.join("west", room=4)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    return fleet


async def another(fleet, name, *, room=4):
    """Another cluster of that name; the one that had it is returned, and lives on."""
    before = fleet.members.pop(name)
    await fleet.join(name, room=room)
    assert fleet.members[name].uid != before.uid
    return before


async def test_another_cluster_of_the_name_says_nothing_of_a_shard(running):
    """It has no such Job, which is no sign that the Job is gone."""
    fleet = running
    old = await another(fleet, "west")
    await fleet.until(lambda: any(s.reason == "MemberLeft" for s in fleet.record().shards))
    assert not fleet.condition("Failed")
    for _ in range(60):  # the old one lives on, unseen
        await old.step()
        await fleet.round()
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert fleet.record().generation == 2
    assert fleet.placed()["east"][0] == 0 and "west" in fleet.placed()


async def test_nothing_is_placed_anew_while_the_old_cluster_may_run_it(running):
    fleet = running
    await another(fleet, "west")
    await fleet.wait(10)
    assert fleet.record().generation == 1
    assert fleet.members["west"].all("jobs") == []


@pytest.mark.parametrize("restart", [False, True])
async def test_what_is_owed_by_one_cluster_is_not_paid_by_another(running, restart):
    """The other has no such Job either; what the first one has may still run."""
    fleet = running
    fleet.members["west"].cut = True
    await fleet.change_job("train", lambda job: job["spec"].update(suspend=True))
    await fleet.until(lambda: [debt.cluster for debt in fleet.record().owed] == ["west"])
    (debt,) = fleet.record().owed
    assert debt.cluster_uid == fleet.members["west"].uid
    await another(fleet, "west")
    if restart:
        await fleet.restart()
    await fleet.change_job("train", lambda job: job["spec"].update(suspend=False))
    while fleet.clock.now + 1 < debt.fenced_at:
        assert fleet.record().owed == (debt,)
        assert fleet.record().generation == 1
        await fleet.round()
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert fleet.record().owed == ()


async def test_a_name_that_comes_back_to_its_cluster_brings_the_shard_back(running):
    fleet = running
    old = await another(fleet, "west")
    await fleet.until(lambda: any(s.reason == "MemberLeft" for s in fleet.record().shards))
    fleet.members["west"] = old
    await fleet.until(lambda: not any(s.reason for s in fleet.record().shards))
    assert fleet.record().generation == 1


async def test_a_hold_in_a_cluster_that_was_exchanged_is_none(fleet):
    await fleet.join("east", room=4)
    west = await fleet.join("west", room=4)
    west.alive = False
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Holding")
    await another(fleet, "west")
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert fleet.record().generation == 2
