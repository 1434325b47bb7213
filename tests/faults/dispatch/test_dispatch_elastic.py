"""Elastic gangs carried out: they start with what finds room, and quota is charged for that.

With the planner of the product over what the simulated members have. After every step the book's
charge is what the record promises, no rank has two shards, and units are whole.
"""

from __future__ import annotations

import json

import pytest

from fleet.gateway.placing import Placing
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.queue.rules import Rules
from policies import FLEET_QUOTA, PLACEMENT, PLACEMENT_POLICY

EAGER = Rules(worth=None, patience_s=0, restart_s=0, damping_s=0)


class Books:
    """What the simulated members have, as one node each."""

    def __init__(self, fleet):
        self._fleet = fleet

    def _accounts(self, member):
        accounts = NodeAccounts()
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"pods": str(member.room)}, "conditions": ready}
        accounts.upsert_node({"metadata": {"name": "n1"}, "status": status})
        for pod in member.all("pods"):
            accounts.upsert_pod(pod)
        return accounts

    def clusters(self):
        return [
            Cluster(name, {}, self._accounts(member).capacity(0.0), ready=not member.cut)
            for name, member in self._fleet.members.items()
        ]

    def taken_by_others(self, namespace):
        return {}

    def taken_by(self, workload):
        return {
            name: taken
            for name, member in self._fleet.members.items()
            if (taken := self._accounts(member).taken_by(workload))
        }


@pytest.fixture
async def elastic(fleet):
    """A fleet of two members with room for four pods each, and a policy that lets a Job run with
    two ranks, in units of two. `fleet.planners` are those of all lives of the gateway."""
    fleet.planners = []

    def decides():
        fleet.planners.append(
            Placing(
                fleet.store, Books(fleet), now=fleet.clock.datetime, clock=lambda: 0.0,
                lease_s=15.0, rules=EAGER,
            )
        )  # fmt: skip
        return fleet.planners[-1]

    fleet.decides = decides
    await fleet.join("east", room=4)
    await fleet.join("west", room=4)
    await fleet.restart()
    await policy(fleet, min=2, unit=2)
    return fleet


async def policy(fleet, *, mode="Split", clusters=3, network="None", **gang):
    obj = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": "payments", "uid": "pp"},
        "spec": {
            "workloads": {},
            "mode": mode,
            "gang": {"network": network, "maxClusters": clusters, **gang},
        },
    }
    await fleet.store.create(PLACEMENT_POLICY.resource, obj)


async def quota(fleet, pods, name="team"):
    obj = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "FleetQuota",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"namespaces": {}, "resources": [{"name": "pods", "guaranteed": str(pods)}]},
    }
    present = fleet.store.get(FLEET_QUOTA.resource, "", name)
    if present is None:
        await fleet.store.create(FLEET_QUOTA.resource, obj)
    else:
        await fleet.store.update(FLEET_QUOTA.resource, obj, expected=present.revision)


def status(fleet, name="train"):
    return fleet.store.get(PLACEMENT.resource, "payments", f"job-{name}").parse()["status"]


def phase(fleet, name="train"):
    return fleet.record(name).phase


def charged(fleet, node="team"):
    engine = fleet.planners[-1].engine
    engine.verify()
    return sum(line.used - line.earmarked for line in engine.report() if line.node == node)


def gate(member, shard):
    return member.find("configmaps", f"{shard}-gate")["data"]


async def test_a_job_starts_with_what_finds_room_and_is_charged_for_that(elastic):
    fleet = elastic
    await quota(fleet, 20)
    fleet.members["west"].room = 3
    await fleet.run_job("train", 10, **{"run-for": 5})
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 2, "Running")}
    assert status(fleet)["ranks"] == "6 of 10"
    assert charged(fleet) == 6
    condition = fleet.condition("fleet.dev/AllRanks")
    assert (condition["status"], condition["reason"]) == ("False", "Smaller")
    assert condition["message"] == "6 of 10 ranks have a place, and 2 are enough"
    for name, count in (("east", 4), ("west", 2)):
        member = fleet.members[name]
        (job,) = member.all("jobs")
        assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (count, count)
        data = gate(member, job["metadata"]["name"])
        assert (data["FLEET_NODES"], data["WORLD_SIZE"], data["PET_NNODES"]) == ("6", "6", "2:10")
        assert data["PET_RDZV_BACKEND"] == "c10d"
        assert data["PET_RDZV_ENDPOINT"] == data["FLEET_RDZV_ENDPOINT"]
        peers = json.loads(data["peers.json"])
        assert [each["rank"] for each in peers["ranks"]] == list(range(6))
    await fleet.until(lambda: phase(fleet) == "Succeeded")
    job = fleet.job()["status"]
    assert (job["succeeded"], job["completedIndexes"]) == (6, "0-5")
    assert "6 of 10 ranks ran" in fleet.condition("Complete")["message"]
    await fleet.settle()
    assert charged(fleet) == 0


async def test_quota_makes_it_smaller_in_whole_units(elastic):
    fleet = elastic
    await quota(fleet, 5)
    await fleet.run_job("train", 8)
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running")}
    assert charged(fleet) == 4
    (job,) = fleet.members["east"].all("jobs")
    assert job["spec"]["completions"] == 4, "one shard, and not all of the Job"


async def test_fewer_than_it_needs_at_least_is_not_enough(elastic):
    fleet = elastic
    for member in fleet.members.values():
        member.room = 1
    await fleet.run_job("train", 8)
    await fleet.until(lambda: fleet.record().reason)
    assert phase(fleet) == "Queued"
    assert fleet.left_over() == []


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"completionMode": "NonIndexed"}, "each of its completions is to be reached"),
        ({"parallelism": 4}, "its completions do not equal its parallelism"),
        ({"backoffLimitPerIndex": 1}, "backoffLimitPerIndex counts over all its indexes"),
    ],
)
async def test_a_job_whose_completions_are_work_of_their_own_is_all_or_none(elastic, spec, why):
    fleet = elastic
    fleet.members["west"].room = fleet.members["east"].room = 3
    await fleet.run_job("train", 8, **spec)
    await fleet.until(lambda: fleet.record().reason)
    assert phase(fleet) == "Queued"
    assert f"all of it or none, whatever its policy says: {why}" in fleet.record().message


@pytest.mark.parametrize("operations", range(0, 60, 4))
async def test_a_gateway_that_dies_as_it_starts_one_goes_on(elastic, crash, operations):
    fleet = elastic
    await quota(fleet, 20)
    fleet.members["west"].room = 3
    fleet.crash_after = fleet.operations + operations
    await fleet.run_job("train", 10)
    try:
        for _ in range(30):
            await fleet.round()
    except crash:
        pass
    await fleet.restart()
    await fleet.until(lambda: phase(fleet) == "Running")
    await fleet.settle()
    assert sorted(fleet.running()) == list(range(6))
    assert charged(fleet) == 6
