"""Hold, commit, run, end: over simulated members, each test named after what it proves."""

from __future__ import annotations

import pytest


async def two_members(fleet, east=4, west=4):
    await fleet.join("east", room=east)
    await fleet.join("west", room=west)


async def test_a_gang_that_fits_in_no_single_member_runs_over_two(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 5})
    await fleet.until(lambda: fleet.condition("Complete"))
    assert fleet.placed() == {"east": (0, 4, "Succeeded"), "west": (4, 2, "Succeeded")}
    assert sorted(rank for *_, rank in fleet.starts) == [0, 1, 2, 3, 4, 5]
    status = fleet.job()["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (6, "0-5")
    assert {"Holding", "Committed", "Running", "Completed"} <= fleet.events()


async def test_nothing_starts_until_both_holds_stand(fleet):
    await two_members(fleet)
    await fleet.members["west"].put("pods", _native("taken", node=True))
    await fleet.members["west"].put("pods", _native("taken-2", node=True))
    fleet.members["west"].room = 3  # one place less than the planner believes
    fleet.planner.belief = {"east": 4, "west": 2}
    await fleet.run_job(ranks=6)
    await fleet.wait(20)
    assert fleet.record().phase == "Holding"
    assert fleet.placed()["east"] == (0, 4, "Held")
    assert fleet.starts == []
    await fleet.members["west"].drop("pods", fleet.members["west"].find("pods", "taken", "default"))
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert len(fleet.starts) == 6


async def test_with_one_member_too_small_nothing_starts_and_everything_is_released(fleet):
    await two_members(fleet, west=1)
    fleet.planner.belief = {"east": 4, "west": 2}
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Queued" and fleet.record().generation)
    await fleet.settle()
    assert fleet.starts == []
    assert fleet.left_over() == []
    placed = fleet.condition("fleet.dev/Placed")
    assert placed["status"] == "False"
    assert "NoRoom" in fleet.events()
    told = fleet.bars.of(fleet.job()["metadata"]["uid"])
    assert told == {
        "west": "put 1 of 2 pods on nodes in 60 s: 0/1 nodes are available: 1 of 1 taken"
    }


async def test_a_gang_that_fits_nowhere_touches_no_member(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=9)
    await fleet.settle()
    assert fleet.condition("fleet.dev/Placed")["message"] == "8 free, needs 9"
    assert (fleet.members["east"].writes, fleet.members["west"].writes) == ([], [])


async def test_a_refused_gang_runs_when_room_comes(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=9)
    await fleet.settle()
    fleet.members["west"].room = 5
    await fleet.until(lambda: fleet.record().phase == "Running")


async def test_two_gangs_for_one_place_do_not_hold_against_each_other(fleet):
    await two_members(fleet)
    await fleet.run_job("a", ranks=6, **{"run-for": 8})
    await fleet.run_job("b", ranks=6, **{"run-for": 8})
    await fleet.until(lambda: fleet.condition("Complete", "b"))
    starts = sorted({at for at, *_ in fleet.starts})
    assert fleet.condition("Complete", "a")
    assert len(fleet.starts) == 12
    assert starts[-1] - starts[0] >= 8  # one after the other, each whole


async def test_a_second_look_writes_nothing(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.settle(tick_s=0.0)
    written = (
        len(fleet.members["east"].writes),
        len(fleet.members["west"].writes),
        fleet.store.sequencer.current,
    )
    for _ in range(3):
        await fleet.gateway()
    assert (
        len(fleet.members["east"].writes),
        len(fleet.members["west"].writes),
        fleet.store.sequencer.current,
    ) == written


async def test_leases_are_renewed_for_as_long_as_the_gateway_lives(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.wait(120)
    assert fleet.record().phase == "Running"
    assert len(fleet.starts) == 6


async def test_the_failure_of_one_rank_stops_every_shard(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 3, "fail-rank": 5})
    await fleet.until(lambda: fleet.condition("Failed"))
    assert fleet.condition("Failed")["reason"] == "BackoffLimitExceeded"
    await fleet.settle()
    assert fleet.running() == {}
    assert {member.used() for member in fleet.members.values()} == {0}
    assert not fleet.condition("Complete")


async def test_what_ended_is_told_though_the_members_forget(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 3})
    await fleet.until(lambda: fleet.condition("Complete"))
    for member in fleet.members.values():
        for job in member.all("jobs"):
            await member.drop("jobs", job)
    await fleet.restart()
    await fleet.settle()
    assert fleet.condition("Complete")
    assert len(fleet.starts) == 6


async def test_deletion_takes_everything_along(fleet):
    await two_members(fleet)
    await fleet.put("configmaps", "settings", data={"a": "1"})
    container = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
    await fleet.run_job(ranks=6, container=container)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert any("settings" in each for each in fleet.left_over())
    await fleet.delete_job()
    await fleet.settle()
    assert fleet.job() is None
    assert fleet.records() == {}
    assert fleet.left_over() == []


async def test_a_deletion_that_orphans_leaves_the_shards_to_their_members(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.delete_job(orphan=True)
    await fleet.until(lambda: fleet.job()["metadata"]["finalizers"] == ["orphan"])
    assert fleet.records() == {}
    await fleet.wait(60)  # longer than any lease
    assert sorted(fleet.running()) == [0, 1, 2, 3, 4, 5]
    for member in fleet.members.values():
        (job,) = member.all("jobs")
        assert "activeDeadlineSeconds" not in job["spec"]
        assert "fleet.dev/fleet" not in job["metadata"].get("annotations", {})
        pods = member.pods_of(job)
        assert pods  # and they are not shown as parts of a Job that is no more
        assert not any("fleet.dev/workload-namespace" in p["metadata"]["labels"] for p in pods)


async def test_a_job_goes_with_everything_some_time_after_its_end(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, ttlSecondsAfterFinished=30, **{"run-for": 3})
    await fleet.until(lambda: fleet.condition("Complete"))
    await fleet.wait(28)
    assert fleet.job() is not None
    await fleet.until(lambda: fleet.job() is None)
    await fleet.settle()
    assert fleet.left_over() == []


async def test_suspending_and_resuming_runs_a_new_generation(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    began = fleet.job()["status"]["startTime"]
    await fleet.until(lambda: fleet.job()["status"]["ready"] == 6)
    await fleet.change_job("train", lambda obj: obj["spec"].update(suspend=True))
    await fleet.until(lambda: fleet.condition("Suspended"))
    assert fleet.left_over() == []
    status = fleet.job()["status"]
    assert (status["ready"], status["terminating"]) == (0, 0)
    assert "active" not in status
    assert "startTime" not in status
    await fleet.change_job("train", lambda obj: obj["spec"].update(suspend=False))
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert fleet.record().generation == 2
    assert fleet.condition("Suspended")["status"] == "False"
    assert fleet.job()["status"]["startTime"] > began


async def test_suspended_it_is_quiet_and_what_becomes_of_it_is_told_all_the_same(fleet):
    """kuberay#4416, kueue#8308: reconciled for ever, and its status stood still."""
    await two_members(fleet)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    fleet.members["west"].cut = True
    await fleet.change_job("train", lambda obj: obj["spec"].update(suspend=True))
    await fleet.settle()
    assert fleet.condition("Suspended") is None, "west may run its part still"
    assert [debt.cluster for debt in fleet.record().owed] == ["west"]
    fleet.members["west"].cut = False
    await fleet.until(lambda: fleet.condition("Suspended"))
    assert fleet.condition("Suspended")["status"] == "True"
    await fleet.settle()

    def written():
        members = fleet.members.values()
        return [len(each.writes) for each in members], fleet.store.sequencer.current

    before = written()
    for _ in range(5):
        await fleet.round(tick_s=60.0)
    assert written() == before


async def test_the_value_of_a_priority_class_goes_to_members_with_the_work(fleet):
    """kueue#8464: a priority that changed at the manager did not reach them."""
    await fleet.join("east", room=4)

    def value():
        classes = fleet.members["east"].all("priorityclasses")
        return {each["metadata"]["name"]: each["value"] for each in classes}.get("fleet-hold-high")

    for name, priority in (("before", 1000), ("after", 5)):
        fleet.priorities["high"] = priority
        await fleet.run_job(name, ranks=1, pod={"priorityClassName": "high"})
        await fleet.until(lambda name=name: fleet.record(name).phase == "Running")
        assert value() == priority
    (pod, *_) = fleet.members["east"].all("pods")
    assert pod["spec"]["priorityClassName"] == "fleet-hold-high"


async def test_a_job_that_is_suspended_from_the_start_touches_no_member(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, suspend=True)
    await fleet.settle()
    assert (fleet.members["east"].writes, fleet.members["west"].writes) == ([], [])
    assert fleet.condition("Suspended")["status"] == "True"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("configmaps", "settings"), ("services", "train"), ("jobs", "train-g1-west")],
)
async def test_a_native_object_of_an_equal_name_is_a_conflict_and_is_not_touched(fleet, kind, name):
    await two_members(fleet)
    west = fleet.members["west"]
    labels = {"fleet.dev/accept": "true"}
    await west.put("namespaces", {"metadata": {"name": "payments", "labels": labels}})
    await west.put(kind, _plain(kind, name))
    native = west.find(kind, name)
    await fleet.put("configmaps", "settings", data={"a": "1"})
    container = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
    await fleet.run_job(ranks=6, container=container)
    await fleet.until(lambda: fleet.record().phase == "Queued" and fleet.record().generation)
    assert name in fleet.bars.of(fleet.job()["metadata"]["uid"])["west"]
    await fleet.settle()
    assert fleet.starts == []
    left = west.find(kind, name)
    if kind == "jobs":  # its own controller counts
        native.pop("status"), left.pop("status")
        native["metadata"].pop("resourceVersion"), left["metadata"].pop("resourceVersion")
    assert left == native


async def test_a_namespace_that_does_not_accept_the_fleet_is_left_alone(fleet):
    await two_members(fleet)
    await fleet.members["west"].put("namespaces", {"metadata": {"name": "payments"}})
    before = list(fleet.members["west"].writes)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Queued" and fleet.record().generation)
    (why,) = fleet.bars.of(fleet.job()["metadata"]["uid"]).values()
    assert "kubectl label namespace payments.west" in why
    assert fleet.members["west"].writes == before


async def test_a_member_that_cannot_number_ranks_globally_is_not_split_into(fleet):
    await fleet.join("east", room=4)
    await fleet.join("west", room=4, numbers=False)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Queued" and fleet.record().generation)
    assert "MutatingAdmissionPolicy" in fleet.bars.of(fleet.job()["metadata"]["uid"])["west"]
    assert fleet.starts == []


async def test_with_index_mode_offset_the_program_adds_the_offset_where_the_member_cannot(fleet):
    await fleet.join("east", room=4)
    await fleet.join("west", room=4, numbers=False)
    fleet.planner.offsets = True
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    gates = {
        name: member.find("configmaps", f"train-g1-{name}-gate")["data"]
        for name, member in fleet.members.items()
    }
    assert gates["east"]["FLEET_INDEX_OFFSET"] == "0"
    assert gates["west"]["FLEET_INDEX_OFFSET"] == "4"
    (pod, *_) = fleet.members["west"].all("pods")
    names = {each["name"] for each in pod["spec"]["containers"][0]["env"]}
    assert "FLEET_INDEX_OFFSET" in names and "RANK" not in names
    assert {rank for *_, rank in fleet.starts} == {0, 1, 2, 3, 4, 5}


def _native(name, *, node):
    spec = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Always"}
    if node:
        spec["nodeName"] = "n1"
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _plain(kind, name):
    spec = {
        "services": {"spec": {"ports": [{"port": 80}]}},
        "jobs": {
            "spec": {
                "completions": 1, "parallelism": 0,
                "template": {
                    "spec": {
                        "restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}],
                    }
                },
            }
        },
    }.get(kind, {})  # fmt: skip
    return {"metadata": {"name": name, "namespace": "payments"}, **spec}
