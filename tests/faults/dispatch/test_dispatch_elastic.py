"""Elastic gangs carried out: they start with what finds room, and quota is charged for that.

With the planner of the product over what the simulated members have. After every step the book's
charge is what the record promises, no rank has two shards, and units are whole.
"""

from __future__ import annotations

import json

import pytest

from fleet.dispatch.elastic import why_not
from fleet.gateway.placing import Placing
from fleet.scheduling.queue.rules import Rules
from policies import FLEET_QUOTA, PLACEMENT, PLACEMENT_POLICY

EAGER = Rules(worth=None, patience_s=0, damping_s=0)


@pytest.fixture
async def elastic(fleet):
    """A fleet of two members with room for four pods each, and a policy that lets a Job run with
    two ranks, in units of two. `fleet.planners` are those of all lives of the gateway."""
    fleet.planners = []

    def decides():
        fleet.planners.append(
            Placing(
                fleet.store, fleet.books(), now=fleet.clock.datetime, clock=lambda: 0.0,
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


# -- a part is lost, and more finds room


async def two_halves(fleet, ranks=8):
    """A Job with four ranks in each of two members."""
    await quota(fleet, 20)
    await fleet.run_job("train", ranks)
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 4, "Running")}


def world(fleet, name):
    """What the shard's gate in a member tells of those that run."""
    (job,) = fleet.members[name].all("jobs")
    data = gate(fleet.members[name], job["metadata"]["name"])
    peers = json.loads(data["peers.json"])
    return int(data["FLEET_GENERATION"]), [each["rank"] for each in peers["ranks"]]


@pytest.mark.parametrize(("lost", "left"), [("east", "west"), ("west", "east")])
async def test_a_job_goes_on_without_a_lost_part_and_grows_again(elastic, lost, left):
    fleet = elastic
    await two_halves(fleet)
    kept = fleet.placed()[left]
    pods = {pod["metadata"]["uid"] for pod in fleet.members[left].all("pods")}
    fleet.members[lost].cut = True
    await fleet.until(lambda: lost not in fleet.placed())
    assert phase(fleet) == "Running"
    assert fleet.placed() == {left: kept}, "nobody's ranks move"
    assert fleet.record().reason == "ShardDropped"
    assert fleet.record().message.endswith("goes on with 4 of 8 ranks")
    await fleet.settle()
    assert {"ShardDropped"} <= fleet.events()
    assert (charged(fleet), status(fleet)["ranks"]) == (4, "4 of 8")
    assert status(fleet)["usedClusters"] == left
    first = kept[0]
    assert world(fleet, left) == (2, list(range(first, first + 4)))
    assert fleet.condition("fleet.dev/AllRanks")["reason"] == "Smaller"
    assert fleet.condition("fleet.dev/Placed")["status"] == "True"
    fleet.members[lost].cut = False
    await fleet.until(lambda: lost in fleet.placed())
    assert fleet.condition("fleet.dev/Placed")["status"] == "True", "what runs has a place"
    await fleet.until(lambda: phase(fleet) == "Running" and lost in fleet.placed())
    await fleet.settle()
    assert fleet.placed()[left] == kept
    assert sorted(fleet.running()) == list(range(8))
    assert {pod["metadata"]["uid"] for pod in fleet.members[left].all("pods")} == pods
    generation, ranks = world(fleet, left)
    assert ranks == list(range(8))
    assert world(fleet, lost) == (generation, ranks)
    data = [
        gate(member, member.all("jobs")[0]["metadata"]["name"]) for member in fleet.members.values()
    ]
    assert len({each["MASTER_ADDR"] for each in data}) == 1, "all meet at one place"
    assert data[0]["FLEET_NODES"] == "8"
    assert (charged(fleet), status(fleet)["ranks"]) == (8, "8 of 8")
    assert "Grown" in fleet.events()
    assert fleet.condition("fleet.dev/AllRanks")["status"] == "True"


async def test_it_does_not_grow_into_a_cluster_that_was_just_lost_and_is_not_heard_of(elastic):
    """A lease can be over before health checks have told that its cluster is silent."""
    fleet = elastic
    await fleet.run_job("train", 8)
    await fleet.until(lambda: phase(fleet) == "Running")
    west = fleet.members["west"]
    west.cut = west.unnoticed = True
    await fleet.until(lambda: status(fleet)["ranks"] == "4 of 8")
    for _ in range(50):
        assert phase(fleet) == "Running"
        assert set(fleet.placed()) == {"east"}
        await fleet.round()
    west.cut = False
    await fleet.until(lambda: status(fleet)["ranks"] == "8 of 8" and phase(fleet) == "Running")
    assert fleet.placed()["east"] == (0, 4, "Running")


async def test_who_joins_meets_those_that_are_there(elastic):
    """The part with rank 0 came back: it does not call the others to itself."""
    fleet = elastic
    await two_halves(fleet)
    fleet.members["east"].cut = True
    await fleet.until(lambda: "east" not in fleet.placed())
    await fleet.settle()
    lead = world(fleet, "west") and gate(fleet.members["west"], "train-g1-west")["MASTER_ADDR"]
    fleet.members["east"].cut = False
    await fleet.until(lambda: len(fleet.running()) == 8)
    await fleet.settle()
    (job,) = fleet.members["east"].all("jobs")
    assert gate(fleet.members["east"], job["metadata"]["name"])["MASTER_ADDR"] == lead


async def test_fewer_than_it_needs_at_least_waits_for_more_and_keeps_what_it_has(fleet, elastic):
    fleet = elastic
    await fleet.store.delete(
        PLACEMENT_POLICY.resource, namespace="payments", name="all",
        expected=fleet.store.get(PLACEMENT_POLICY.resource, "payments", "all").revision,
    )  # fmt: skip
    await policy(fleet, min=6, unit=2)
    await two_halves(fleet)
    fleet.members["west"].cut = True
    await fleet.until(lambda: phase(fleet) == "Lost")
    await fleet.settle()
    assert fleet.placed()["east"] == (0, 4, "Running")
    assert charged(fleet) == 8, "what is to be placed anew is held still"
    await fleet.join("north", room=3)
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running"), "north": (4, 2, "Running")}
    await fleet.settle()
    assert charged(fleet) == 6


async def test_a_part_that_is_deleted_in_its_member_is_dropped_and_comes_again(elastic):
    fleet = elastic
    await two_halves(fleet)
    west = fleet.members["west"]
    west.lingers = True
    (job,) = west.all("jobs")
    await west.drop("jobs", job)
    await fleet.until(lambda: "west" not in fleet.placed())
    assert phase(fleet) == "Running"
    west.lingers = False
    await fleet.until(lambda: len(fleet.running()) == 8)
    await fleet.settle()
    assert charged(fleet) == 8


async def test_growth_waits_for_quota_and_takes_what_that_pays_for(elastic):
    fleet = elastic
    await quota(fleet, 4)
    await fleet.run_job("train", 8)
    await fleet.until(lambda: phase(fleet) == "Running")
    await fleet.wait(10)
    assert fleet.placed() == {"east": (0, 4, "Running")}
    await quota(fleet, 7)
    await fleet.until(lambda: "west" in fleet.placed())
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 2, "Running")}
    await fleet.settle()
    assert charged(fleet) == 6


async def test_growth_holds_nobody_up_and_comes_after_what_waits(elastic):
    fleet = elastic
    await quota(fleet, 40)
    fleet.members["west"].room = 1
    await fleet.run_job("train", 8)
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running")}
    await fleet.run_job("whole", 4, completionMode="NonIndexed")
    await fleet.until(lambda: fleet.record("whole").reason == "NoRoom")
    await fleet.wait(5)
    fleet.members["west"].room = 3  # enough for it to grow, not for the one that waits
    await fleet.wait(10)
    assert fleet.placed() == {"east": (0, 4, "Running")}
    fleet.members["west"].room = 6
    await fleet.until(lambda: phase(fleet, "whole") == "Running")
    await fleet.until(lambda: "west" in fleet.placed())
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed()["west"] == (4, 2, "Running")


async def test_growth_that_cannot_be_held_changes_nothing(elastic):
    """The member has no room after all: what runs goes on, and the rest is tried again later."""
    fleet = elastic
    await two_halves(fleet)
    fleet.members["west"].cut = True
    await fleet.until(lambda: "west" not in fleet.placed())
    await fleet.settle()
    north = await fleet.join("north", room=4)
    north.alive = False
    await fleet.until(lambda: phase(fleet) == "Holding")
    assert world(fleet, "east") == (2, [0, 1, 2, 3]), "what is to come is not told"
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running")}
    await fleet.settle()
    assert world(fleet, "east") == (2, [0, 1, 2, 3]), "nor that it did not come"
    assert charged(fleet) == 4
    north.alive = True
    await fleet.until(lambda: len(fleet.running()) == 8, rounds=600)
    await fleet.settle()
    assert fleet.placed()["north"] == (4, 4, "Running")
    assert charged(fleet) == 8


async def test_a_part_that_could_not_be_placed_anew_is_asked_for_alone_the_next_time(elastic):
    """Of all or none: the hold of the lost part fails, and what runs stays as it is."""
    fleet = elastic
    await fleet.store.delete(
        PLACEMENT_POLICY.resource, namespace="payments", name="all",
        expected=fleet.store.get(PLACEMENT_POLICY.resource, "payments", "all").revision,
    )  # fmt: skip
    await policy(fleet, unit=2)
    await two_halves(fleet)
    pods = {pod["metadata"]["uid"] for pod in fleet.members["east"].all("pods")}
    fleet.members["west"].cut = True
    await fleet.until(lambda: phase(fleet) == "Lost")
    north = await fleet.join("north", room=4)
    north.alive = False
    await fleet.until(lambda: phase(fleet) == "Holding")
    await fleet.until(lambda: phase(fleet) == "Lost")
    north.alive = True
    await fleet.until(lambda: phase(fleet) == "Running", rounds=600)
    assert fleet.placed()["east"] == (0, 4, "Running")
    assert {pod["metadata"]["uid"] for pod in fleet.members["east"].all("pods")} == pods
    assert sorted(fleet.running()) == list(range(8))


@pytest.mark.parametrize("operations", range(0, 150, 6))
async def test_a_gateway_that_dies_while_a_part_is_lost_or_comes_back_goes_on(
    elastic, crash, operations
):
    fleet = elastic
    await two_halves(fleet)
    west = fleet.members["west"]
    fleet.crash_after = fleet.operations + operations
    try:
        west.cut = True
        for _ in range(50):
            await fleet.round()
        west.cut = False
        for _ in range(40):
            await fleet.round()
    except crash:
        pass
    await fleet.restart()
    west.cut = False
    await fleet.until(lambda: len(fleet.running()) == 8 and phase(fleet) == "Running", rounds=400)
    await fleet.settle()
    assert fleet.placed()["east"][:2] == (0, 4)
    assert fleet.placed()["west"][:2] == (4, 4)
    assert charged(fleet) == 8
    await fleet.delete_job()
    await fleet.settle()
    assert fleet.left_over() == []
    assert charged(fleet) == 0


# -- in the cluster where it is, and by its user


async def replaced(fleet, **more):
    """Another policy instead of the fixture's."""
    present = fleet.store.get(PLACEMENT_POLICY.resource, "payments", "all")
    await fleet.store.delete(
        PLACEMENT_POLICY.resource, namespace="payments", name="all", expected=present.revision
    )
    await policy(fleet, **more)


async def test_a_job_in_one_cluster_grows_where_it_is(elastic):
    fleet = elastic
    await replaced(fleet, mode="One", min=2, unit=2)
    await quota(fleet, 20)
    await fleet.run_job("train", 8)
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running")}
    (job,) = fleet.members["east"].all("jobs")
    pods = {pod["metadata"]["uid"] for pod in fleet.members["east"].all("pods")}
    fleet.members["east"].room = 7
    await fleet.until(lambda: fleet.record().ranks == 6)
    await fleet.until(lambda: phase(fleet) == "Running")
    await fleet.settle()
    assert fleet.placed() == {"east": (0, 6, "Running")}
    (same,) = fleet.members["east"].all("jobs")
    assert same["metadata"]["uid"] == job["metadata"]["uid"]
    assert (same["spec"]["parallelism"], same["spec"]["completions"]) == (6, 6)
    assert pods <= {pod["metadata"]["uid"] for pod in fleet.members["east"].all("pods")}
    assert sorted(fleet.running()) == list(range(6))
    assert charged(fleet) == 6
    generation, ranks = world(fleet, "east")
    assert (generation, ranks) == (fleet.record().generation, list(range(6)))
    assert fleet.record().budget.charged == 0


async def test_ranks_that_find_no_room_where_it_was_to_grow_are_given_up(elastic):
    fleet = elastic
    await replaced(fleet, mode="One", min=2, unit=2)
    await quota(fleet, 20)
    await fleet.run_job("train", 8)
    await fleet.until(lambda: phase(fleet) == "Running")
    east = fleet.members["east"]
    east.room = 8
    await fleet.until(lambda: fleet.record().ranks == 8)
    east.room = 6
    await fleet.until(lambda: phase(fleet) == "Running")
    await fleet.settle()
    assert fleet.placed() == {"east": (0, 6, "Running")}
    assert charged(fleet) == 6
    (job,) = east.all("jobs")
    assert job["spec"]["completions"] == 6
    assert len(east.all("pods")) == 6


async def test_a_lost_part_comes_to_where_the_rest_is_when_there_is_room(elastic):
    fleet = elastic
    await two_halves(fleet)
    fleet.members["west"].cut = True
    await fleet.until(lambda: "west" not in fleet.placed())
    fleet.members["east"].room = 10
    await fleet.until(lambda: phase(fleet) == "Running" and fleet.record().ranks == 8)
    await fleet.settle()
    assert fleet.placed() == {"east": (0, 8, "Running")}
    assert sorted(fleet.members["east"].all("pods"), key=str)
    assert charged(fleet) == 8
    fleet.members["west"].cut = False
    await fleet.settle()
    assert fleet.members["west"].all("jobs") == []


def of_ranks(count):
    return lambda job: job["spec"].update(parallelism=count, completions=count)


async def test_its_user_makes_it_smaller_and_larger(elastic):
    fleet = elastic
    await two_halves(fleet)
    await fleet.change_job("train", of_ranks(6))
    await fleet.settle()
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 2, "Running")}
    assert sorted(fleet.running()) == list(range(6))
    assert (charged(fleet), status(fleet)["ranks"]) == (6, "6 of 6")
    await fleet.change_job("train", of_ranks(2))
    await fleet.settle()
    assert fleet.placed() == {"east": (0, 2, "Running")}
    assert sorted(fleet.running()) == [0, 1]
    assert fleet.members["west"].all("jobs") == []
    assert charged(fleet) == 2
    await fleet.change_job("train", of_ranks(8))
    await fleet.until(lambda: len(fleet.running()) == 8)
    await fleet.settle()
    assert (phase(fleet), charged(fleet), status(fleet)["ranks"]) == ("Running", 8, "8 of 8")
    assert world(fleet, "east")[1] == list(range(8))


async def one_half_is_done_and_the_other_lost(fleet):
    await two_halves(fleet)
    east, west = fleet.members["east"], fleet.members["west"]
    west.cut = True
    for pod in east.all("pods"):
        pod["status"]["phase"] = "Succeeded"
        await east._change("pods", pod)
    await fleet.until(lambda: fleet.record().owed or any(
        each.state == "Lost" for each in fleet.record().shards
    ))  # fmt: skip


async def test_what_is_lost_once_the_rest_is_done_did_not_run(elastic):
    fleet = elastic
    await one_half_is_done_and_the_other_lost(fleet)
    await fleet.until(lambda: phase(fleet) == "Succeeded")
    job = fleet.job()["status"]
    assert (job["succeeded"], job["completedIndexes"]) == (4, "0-3")
    assert "4 of 8 ranks ran" in fleet.condition("Complete")["message"]
    assert status(fleet)["ranks"] == "4 of 8"
    fleet.members["west"].cut = False
    await fleet.settle()
    assert fleet.placed() == {"east": (0, 4, "Succeeded")}
    assert fleet.running() == {}


async def test_a_part_that_is_done_gets_no_ranks_of_one_that_is_lost(fleet, elastic):
    await fleet.store.delete(
        PLACEMENT_POLICY.resource, namespace="payments", name="all",
        expected=fleet.store.get(PLACEMENT_POLICY.resource, "payments", "all").revision,
    )  # fmt: skip
    await policy(fleet, min=6, unit=2)
    await one_half_is_done_and_the_other_lost(fleet)
    await fleet.wait(30)
    assert (phase(fleet), fleet.placed()["east"]) == ("Lost", (0, 4, "Succeeded"))
    fleet.members["west"].cut = False
    await fleet.until(lambda: sorted(fleet.running()) == [4, 5, 6, 7])
    west = fleet.members["west"]
    for pod in west.all("pods"):
        pod["status"]["phase"] = "Succeeded"
        await west._change("pods", pod)
    await fleet.until(lambda: phase(fleet) == "Succeeded")
    assert fleet.job()["status"]["completedIndexes"] == "0-7"


@pytest.mark.parametrize("count", [2, 6, 10])
async def test_a_size_that_is_asked_for_while_it_is_held_is_what_runs(elastic, count):
    fleet = elastic
    await quota(fleet, 20)
    for member in fleet.members.values():
        member.room = 5
    await fleet.run_job("train", 8)
    await fleet.until(lambda: phase(fleet) == "Holding")
    assert why_not(fleet.record(), count) == ""
    await fleet.change_job("train", of_ranks(count))
    runs = min(count, 8)
    await fleet.until(lambda: len(fleet.running()) == runs and phase(fleet) == "Running")
    await fleet.settle()
    assert sorted(fleet.running()) == list(range(runs))
    assert (charged(fleet), status(fleet)["ranks"]) == (runs, f"{runs} of {count}")


@pytest.mark.parametrize("count", [5, 0])
async def test_a_size_that_it_cannot_have_changes_nothing(elastic, count):
    fleet = elastic
    await two_halves(fleet)
    before = status(fleet)
    await fleet.change_job("train", of_ranks(count))
    await fleet.settle()
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 4, "Running")}
    assert status(fleet)["generation"] == before["generation"]


@pytest.mark.parametrize("operations", range(0, 90, 5))
async def test_a_gateway_that_dies_during_a_resize_goes_on_with_it(elastic, crash, operations):
    fleet = elastic
    await two_halves(fleet)
    await fleet.change_job("train", of_ranks(2))
    fleet.crash_after = fleet.operations + operations
    try:
        for _ in range(12):
            await fleet.round()
        await fleet.change_job("train", of_ranks(8))
        for _ in range(30):
            await fleet.round()
    except crash:
        pass
    await fleet.restart()
    await fleet.change_job("train", of_ranks(8))
    await fleet.until(lambda: len(fleet.running()) == 8, rounds=400)
    await fleet.settle()
    assert (phase(fleet), charged(fleet)) == ("Running", 8)
    await fleet.change_job("train", of_ranks(2))
    await fleet.settle()
    assert sorted(fleet.running()) == [0, 1]
    assert charged(fleet) == 2


# -- with others


async def test_it_is_ended_whole_for_others_and_starts_again_with_what_is_left(elastic):
    fleet = elastic
    await quota(fleet, 20)
    await fleet.run_job("train", 10)
    await fleet.until(lambda: phase(fleet) == "Running")
    assert charged(fleet) == 8
    fleet.members["east"].lingers = True
    await fleet.run_job("urgent", 4, completionMode="NonIndexed", pod={"priority": 100})
    await fleet.until(lambda: fleet.record().owed)
    await fleet.round()
    assert charged(fleet) == 8, "what is leaving is charged for what it was, and not for its most"
    fleet.members["east"].lingers = False
    await fleet.until(lambda: phase(fleet, "urgent") == "Running")
    await fleet.until(lambda: phase(fleet) == "Running")
    await fleet.settle()
    assert fleet.record().ranks == 4
    assert charged(fleet) == 8
    await fleet.delete_job("urgent")
    await fleet.until(lambda: fleet.record().ranks == 8 and phase(fleet) == "Running")
    await fleet.settle()
    assert charged(fleet) == 8


async def test_it_is_suspended_whole_and_resumed_with_what_finds_room(elastic):
    fleet = elastic
    await two_halves(fleet)
    await fleet.change_job("train", lambda job: job["spec"].update(suspend=True))
    await fleet.settle()
    assert (fleet.left_over(), charged(fleet)) == ([], 0)
    assert fleet.condition("fleet.dev/AllRanks")["reason"] == "NotPlaced"
    fleet.members["west"].room = 2
    await fleet.change_job("train", lambda job: job["spec"].update(suspend=False))
    await fleet.until(lambda: phase(fleet) == "Running")
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 2, "Running")}


async def test_two_that_grow_at_once_share_what_there_is(elastic):
    fleet = elastic
    await quota(fleet, 40)
    await fleet.run_job("first", 8)
    await fleet.until(lambda: phase(fleet, "first") == "Running")
    fleet.members["east"].room = 6
    await fleet.run_job("second", 8)
    await fleet.until(lambda: phase(fleet, "second") == "Running")
    for member in fleet.members.values():
        member.room = 8
    await fleet.until(
        lambda: sum(fleet.record(name).ranks for name in ("first", "second")) == 16, rounds=400
    )
    await fleet.until(
        lambda: {phase(fleet, "first"), phase(fleet, "second")} == {"Running"}, rounds=400
    )
    await fleet.settle()
    assert charged(fleet) == 16
    assert all(member.used() <= member.room for member in fleet.members.values())
