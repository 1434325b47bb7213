"""Pods of the fleet: held and committed as any shard, never moved, ended once.

Over simulated members in virtual time.
"""

from __future__ import annotations

import random

import pytest


@pytest.fixture
async def pair(fleet):
    """East with room for two pods, west for one."""
    await fleet.join("east", room=2)
    await fleet.join("west", room=1)
    return fleet


def condition(pod, kind):
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), None)


async def running(fleet, name="web"):
    await fleet.until(lambda: fleet.record(f"pod-{name}").phase == "Running")
    await fleet.settle()
    return fleet.pod(name)


def shard(fleet, member="east", name="web-g1-east"):
    return fleet.members[member].find("pods", name)


async def test_a_pod_runs_in_a_member_and_shows_what_is_said_of_it_there(pair):
    await pair.run_pod()
    pod = await running(pair)
    assert pod["spec"]["nodeName"] == "n1.east"
    assert pod["metadata"]["labels"] == {"fleet.dev/cluster": "east"}
    assert pod["status"] == shard(pair)["status"]
    assert len(pair.starts) == 1


async def test_nothing_starts_before_the_commit_is_stored(pair):
    await pair.run_pod()
    await pair.until(lambda: pair.record("pod-web").phase == "Holding")
    for _ in range(4):
        await pair.round(gateway=False)
    assert shard(pair)["spec"]["nodeName"] == "n1"
    assert not pair.starts
    waiting = condition(pair.pod(), "PodScheduled")
    assert (waiting["status"], waiting["reason"]) == ("False", "Holding")
    assert "nodeName" not in pair.pod()["spec"]


async def test_a_second_pass_writes_nothing(pair):
    await pair.run_pod()
    await running(pair)
    stores = (pair.store, pair.members["east"].store)
    before = [store.sequencer.current for store in stores]
    await pair.wait(60)
    assert [store.sequencer.current for store in stores] == before


async def test_a_member_without_room_is_let_go_and_another_one_tried(pair):
    pair.planner.belief = {"west": 9}
    pair.members["west"].room = 0
    await pair.run_pod()
    pod = await running(pair)
    assert pod["spec"]["nodeName"] == "n1.east"
    assert pair.record("pod-web").generation == 2
    assert not pair.members["west"].all("pods")


async def test_it_says_why_it_waits(pair):
    pair.planner.belief = {"east": 0, "west": 0}
    await pair.run_pod()
    await pair.settle()
    waiting = condition(pair.pod(), "PodScheduled")
    assert (waiting["status"], waiting["reason"]) == ("False", "Unschedulable")
    assert waiting["message"] == "0 free, needs 1"
    assert pair.pod()["status"]["phase"] == "Pending"
    assert "NoRoom" in pair.events()


async def test_gates_of_its_own_come_first(pair):
    await pair.run_pod(schedulingGates=[{"name": "budget"}])
    await pair.settle()
    assert condition(pair.pod(), "PodScheduled")["reason"] == "SchedulingGated"
    assert not pair.record("pod-web").shards
    await pair.change_pod(lambda obj: obj["spec"].pop("schedulingGates"))
    await running(pair)


async def test_a_gateway_killed_while_it_holds_leaves_nothing_held(pair):
    """The hold has no lapse of its own: it waits at its gate until a gateway looks again."""
    await pair.run_pod()
    await pair.until(lambda: pair.record("pod-web").phase == "Holding")
    await pair.wait(600, gateway=False)
    assert shard(pair) is not None
    assert not pair.starts
    await pair.restart()
    await pair.delete_pod(grace_s=0)
    await pair.settle()
    assert not pair.left_over()
    assert not pair.starts
    assert pair.pod() is None


@pytest.mark.parametrize("after", range(0, 60, 3))
async def test_killed_at_any_moment_it_runs_once_in_the_end(pair, crash, after):
    await pair.run_pod()
    pair.crash_after = pair.operations + after
    try:
        await pair.wait(30)
    except crash:
        await pair.restart()
    await running(pair)
    assert len(pair.starts) == 1
    await pair.delete_pod()
    await pair.settle()
    assert not pair.left_over()


@pytest.mark.parametrize("seed", range(12))
async def test_over_lines_that_lose_and_repeat_it_runs_once_and_leaves_nothing(pair, seed):
    chance = random.Random(seed)
    kinds = ["", "", "cut", "lost", "twice"]
    for member in pair.members.values():
        member.faults = [chance.choice(kinds) for _ in range(60)]
    await pair.run_pod()
    await running(pair)
    assert len(pair.starts) == 1
    for member in pair.members.values():
        member.faults = [chance.choice(kinds) for _ in range(60)]
    await pair.delete_pod()
    await pair.until(lambda: pair.pod() is None)
    await pair.settle()
    assert not pair.left_over()
    assert not pair.records()


async def test_silence_moves_nothing(pair):
    await pair.run_pod()
    await running(pair)
    pair.members["east"].cut = True
    await pair.wait(3600)
    pod = pair.pod()
    assert pair.record("pod-web").generation == 1
    assert pod["status"]["phase"] == "Running"
    told = condition(pod, "fleet.dev/Reachable")
    assert told["status"] == "False"
    assert "east does not answer" in told["message"]
    pair.members["east"].cut = False
    await pair.settle()
    assert condition(pair.pod(), "fleet.dev/Reachable") is None
    assert len(pair.starts) == 1


async def test_a_pod_whose_member_leaves_says_so_and_is_found_again_when_that_is_back(pair):
    await pair.run_pod()
    before = await running(pair)
    east = pair.members.pop("east")
    await pair.settle()
    assert pair.pod()["status"]["reason"] == "MemberLeft"
    assert "MemberLeft" in pair.events()
    (shard_of_it,) = pair.record("pod-web").shards
    assert (shard_of_it.state, shard_of_it.reason) == ("Running", "MemberLeft")
    assert shard_of_it.lost_at is not None  # what the bill ends with
    await pair.restart()
    await pair.wait(600)
    assert pair.pod()["status"]["reason"] == "MemberLeft"
    pair.members["east"] = east
    await pair.settle()
    assert pair.pod()["status"] == before["status"]
    assert len(pair.starts) == 1


async def test_a_pod_that_is_taken_away_in_its_member_goes(pair):
    """As a drained node's pods go: gone, and not placed anew."""
    await pair.run_pod()
    await running(pair)
    east = pair.members["east"]
    east.lingers = True
    pod = shard(pair)
    pod["metadata"] |= {
        "deletionTimestamp": "2026-11-29T00:01:00Z", "deletionGracePeriodSeconds": 45,
    }  # fmt: skip
    await east._change("pods", pod)
    await pair.settle()
    assert pair.pod()["metadata"]["deletionGracePeriodSeconds"] == 45
    assert shard(pair) is not None
    east.lingers = False
    await pair.settle()
    assert pair.pod() is None
    assert not pair.left_over()
    assert len(pair.starts) == 1


async def test_a_pod_whose_shard_is_lost_with_its_node_goes(pair):
    await pair.run_pod()
    await running(pair)
    await pair.members["east"].drop("pods", shard(pair))
    await pair.settle()
    assert pair.pod() is None
    assert len(pair.starts) == 1


@pytest.mark.parametrize(("failing", "phase"), [("", "Succeeded"), ("0", "Failed")])
async def test_an_end_is_told_once_and_kept(pair, failing, phase):
    annotations = {"run-for": "5", "fail-rank": failing, "fleet.dev/global-index": "0"}
    await pair.run_pod(metadata={"annotations": annotations}, restartPolicy="Never")
    await pair.until(lambda: pair.record("pod-web").ended)
    await pair.settle()
    status = pair.pod()["status"]
    assert status["phase"] == phase
    await pair.members["east"].drop("pods", shard(pair))
    await pair.wait(60)
    assert pair.pod()["status"] == status
    assert len(pair.starts) == 1


async def test_deleting_it_ends_its_shard_within_the_same_time(pair):
    await pair.run_pod()
    await running(pair)
    pair.members["east"].lingers = True
    await pair.delete_pod(grace_s=7)
    await pair.settle()
    assert shard(pair)["metadata"]["deletionGracePeriodSeconds"] == 7
    assert pair.pod() is not None
    await pair.delete_pod(grace_s=3)
    await pair.settle()
    assert shard(pair)["metadata"]["deletionGracePeriodSeconds"] == 3
    pair.members["east"].lingers = False
    await pair.settle()
    assert pair.pod() is None
    assert not pair.left_over()


async def test_forced_it_goes_at_once_and_is_ended_when_its_member_is_back(pair):
    await pair.run_pod()
    await running(pair)
    pair.members["east"].cut = True
    await pair.delete_pod(grace_s=0)
    await pair.settle()
    assert pair.pod() is None
    assert [debt.cluster for debt in pair.record("pod-web").owed] == ["east"]
    pair.members["east"].cut = False
    await pair.settle()
    assert not pair.left_over()
    assert "pod-web" not in pair.records()


async def test_one_of_the_same_name_waits_until_the_earlier_is_seen_gone(pair):
    await pair.run_pod()
    await running(pair)
    pair.members["east"].cut = True
    await pair.delete_pod(grace_s=0)
    await pair.settle()
    await pair.run_pod()
    await pair.settle()
    told = condition(pair.pod(), "PodScheduled")["message"]
    assert told == "an earlier Pod of this name is not seen gone from east"
    pair.members["east"].cut = False
    await running(pair)
    assert len(pair.starts) == 2


async def test_what_is_changed_at_it_follows(pair):
    await pair.run_pod(metadata={"labels": {"app": "web", "gone": "soon"}})
    await running(pair)

    def change(obj):
        obj["metadata"]["labels"] |= {"tier": "front"}
        del obj["metadata"]["labels"]["gone"]
        obj["metadata"]["annotations"] = {"note": "x"}
        obj["spec"]["containers"][0]["image"] = "y"
        obj["spec"]["activeDeadlineSeconds"] = 600
        obj["spec"]["tolerations"] = [{"key": "k", "operator": "Exists"}]

    await pair.change_pod(change)
    await pair.settle()
    there = shard(pair)
    labels, annotations = there["metadata"]["labels"], there["metadata"]["annotations"]
    assert (labels["app"], labels["tier"], annotations["note"]) == ("web", "front", "x")
    assert "gone" not in labels
    assert labels["fleet.dev/shard"] == "web-g1-east"
    spec = there["spec"]
    assert spec["containers"][0]["image"] == "y"
    assert spec["activeDeadlineSeconds"] == 600
    assert {"key": "k", "operator": "Exists"} in spec["tolerations"]
    assert pair.pod()["metadata"]["labels"]["fleet.dev/cluster"] == "east"


async def test_a_job_of_the_same_name_is_another_workload(pair):
    """Their shards have one name, their gates two."""
    await pair.run_job("web", ranks=1)
    await pair.run_pod()
    await running(pair)
    await pair.until(lambda: pair.record("web").phase == "Running")
    assert {s.cluster for s in pair.record("web").shards} == {"east"}
    assert pair.placed("pod-web").keys() == {"east"}
    assert len(pair.starts) == 2
    await pair.delete_pod()
    await pair.settle()
    assert pair.record("web").phase == "Running"
    assert pair.running()[0] == ["east"]


async def test_a_pod_of_the_members_own_has_the_name(pair):
    native = {"metadata": {"name": "web-g1-east", "namespace": "payments"},
              "spec": {"containers": [{"name": "a", "image": "x"}]}}  # fmt: skip
    await pair.members["east"].put("namespaces", {"metadata": {
        "name": "payments", "labels": {"fleet.dev/accept": "true"}}})  # fmt: skip
    await pair.members["east"].put("pods", native)
    await pair.run_pod()
    pod = await running(pair)
    assert pod["spec"]["nodeName"] == "n1.west"
    assert shard(pair)["spec"]["containers"][0]["name"] == "a"


async def test_secrets_go_along_and_with_it(pair):
    await pair.put("secrets", "token", type="Opaque", data={"a": "Yg=="})
    container = {"name": "main", "image": "x", "envFrom": [{"secretRef": {"name": "token"}}]}
    await pair.run_pod(containers=[container])
    await running(pair)
    east = pair.members["east"]
    assert east.find("secrets", "token")["data"] == {"a": "Yg=="}
    await pair.delete_pod()
    await pair.settle()
    assert not pair.left_over()


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
async def test_what_a_client_writes_over_the_status_does_not_stay(fleet, phase):
    await fleet.join("east", room=4)
    await fleet.run_pod()
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running")
    await fleet.settle()
    true = fleet.pod()["status"]
    await fleet.change_pod(lambda pod: pod.update(status={"phase": phase, "reason": "Forged"}))
    await fleet.gateway()
    assert fleet.pod()["status"] == true
