"""What an earlier gateway, or an earlier membership, left in a member is removed when it is seen.

Run with the controller itself over a view that has one member.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from fleet.dispatch.controller import Dispatch
from fleet.dispatch.leases import ShardKey
from fleet.dispatch.parts import Parts
from policies import PLACEMENT

FLEET = "f1ee7000-0000-4000-8000-000000000000"


class View:
    """As much of `fleet.view.world.World` as the controller asks when nothing is watched."""

    def __init__(self, **members) -> None:
        self.members = {
            name: SimpleNamespace(name=name, uid=member.uid, handler=member, conditions={})
            for name, member in members.items()
        }

    def merged(self, gvr):
        return None

    running = merged

    def projector(self, member, gvr):
        return None


@pytest.fixture
async def east(fleet):
    return await fleet.join("east", room=4)


def shard(name="train-g7-east", *, fleet=FLEET, uid="of-nobody"):
    labels = {"fleet.dev/shard": name, "fleet.dev/workload-uid": uid}
    return {
        "metadata": {
            "name": name,
            "namespace": "payments",
            "labels": labels,
            "annotations": {"fleet.dev/fleet": fleet},
        },
        "spec": {
            "completions": 1, "parallelism": 0,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}
            },
        },
    }  # fmt: skip


async def swept(fleet, east, *, name="east", beside=None, then=None, until=lambda: True):
    """The controller runs, looks for left-overs, and is stopped. Returns it and its parts."""
    parts = Parts(fleet=FLEET)
    stop = parts.follow(fleet.store.collection(PLACEMENT.resource))
    dispatch = Dispatch(
        fleet.store,
        View(**{name: east}, **(beside or {})),
        parts=parts,
        planner=fleet.planner,
        bill=fleet.bills,
        neighbours=fleet,
        fleet=FLEET,
        uid=lambda: "u",
        now=fleet.clock,
    )
    asked = asyncio.Event()
    east.operation = asked.set
    async with asyncio.TaskGroup() as group:
        task = group.create_task(dispatch.run())
        await asked.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        if then is not None:
            await then()
        for _ in range(20_000):
            if until():
                break
            await asyncio.sleep(0)
        assert until()
        task.cancel()
    stop()
    await east.step()
    await east.step()
    return dispatch, parts


async def test_a_shard_that_no_record_knows_is_removed(fleet, east):
    await east.put("jobs", shard())
    await swept(fleet, east)
    assert east.all("jobs") == []


@pytest.mark.parametrize(
    "job",
    [
        shard(fleet="another-fleet"),
        shard() | {"metadata": {"name": "theirs", "namespace": "payments"}},
    ],
    ids=["of another fleet", "of the member"],
)
async def test_what_is_not_this_fleets_stays(fleet, east, job):
    await east.put("jobs", job)
    await swept(fleet, east)
    assert len(east.all("jobs")) == 1


def held_pod(**more):
    """A Pod at its gate, of a gateway that died and was put back to before it was made."""
    made = shard("web-g7-east", **more)
    gate = {"name": "gate", "configMap": {"name": "web-g7-east.pod-gate"}}
    made["spec"] = {
        "nodeName": "n1", "containers": [{"name": "a", "image": "x"}], "volumes": [gate]
    }  # fmt: skip
    return made


async def test_a_held_pod_that_no_record_knows_is_removed(fleet, east):
    await east.put("pods", held_pod())
    await swept(fleet, east)
    assert east.all("pods") == []


async def test_pods_of_jobs_and_of_others_stay(fleet, east):
    of_a_job, of_another = held_pod(), held_pod(fleet="another-fleet")
    of_a_job["metadata"]["name"] = "web-g7-east-0-abcde"
    await east.put("pods", of_a_job)
    await east.put("pods", of_another)
    await swept(fleet, east)
    assert len(east.all("pods")) == 2


async def test_a_recorded_pod_stays(fleet, east):
    await fleet.run_pod()
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running")
    await swept(fleet, east)
    assert [pod["metadata"]["name"] for pod in east.all("pods")] == ["web-g1-east"]


async def test_a_recorded_shard_stays(fleet, east):
    await fleet.run_job(ranks=3)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await swept(fleet, east)
    assert [job["metadata"]["name"] for job in east.all("jobs")] == ["train-g1-east"]
    assert len(fleet.running()) == 3


async def test_what_a_record_counts_on_stays_when_its_cluster_comes_under_another_name(fleet, east):
    await fleet.run_job(ranks=3)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await swept(fleet, east, name="other")
    assert fleet.record().shards[0].reason == "MemberLeft"
    assert len(fleet.running()) == 3
    await fleet.wait(10)  # it is back under its own
    assert (fleet.record().phase, fleet.record().generation) == ("Running", 1)
    assert len(fleet.running()) == 3


async def test_it_stays_though_its_name_is_another_clusters_by_now(fleet, east):
    await fleet.run_job(ranks=3)
    await fleet.until(lambda: fleet.record().phase == "Running")
    another = await fleet.join("spare", room=0)
    await swept(fleet, east, name="other", beside={"east": another})
    assert fleet.record().shards[0].reason == "MemberLeft"
    assert len(fleet.running()) == 3


async def test_what_a_record_counts_on_no_more_is_removed_and_is_no_unknown_result(fleet, east):
    await fleet.run_job(ranks=3)
    await fleet.until(lambda: fleet.record().phase == "Running")
    placements = fleet.store.collection(PLACEMENT.resource)
    (before,) = placements.snapshot().entries()
    dispatch, parts = await swept(
        fleet,
        east,
        name="other",
        then=fleet.delete_job,
        until=lambda: "DELETE" in str(east.writes) and not fleet.records(),
    )
    assert east.all("jobs") == []
    key = ShardKey("east", "Job", "payments", "train-g1-east")
    assert not dispatch.went_unfinished(key)  # of what no record names nothing is asked
    again = before.parse()
    del again["metadata"]["resourceVersion"]
    await fleet.store.create(PLACEMENT.resource, again)
    parts.follow(placements)()
    assert dispatch.went_unfinished(key)
