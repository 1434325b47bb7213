"""What is amiss with pods of a shard that was committed, and who is moved for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.dispatch import amiss
from fleet.dispatch.amiss import NO_NODE, NOT_MADE, NOT_STARTED
from fleet.dispatch.decisions import decide
from fleet.dispatch.jobs.fold import PLACED, fold
from fleet.dispatch.jobs.sight import JobView
from fleet.dispatch.record import Record, Shard, read, text_of, write
from fleet.dispatch.sight import Refused, Sight, pod_view
from fleet.dispatch.situation import Ask, Situation

NOW = 1_800_000_000.0
CLOCK = NOW - 100  # the member's is behind
LEASE_S = 300.0
NO_ROOM = "0/2 nodes are available: 2 node(s) were unschedulable."
EAST = Shard("east", 0, 1, first=0, count=2, state="Running", committed_at=NOW - 900)
WEST = Shard("west", 1, 1, first=2, count=2, state="Running", committed_at=NOW - 900)
RUNNING = Record(1, "Running", NOW - 900, shards=(EAST, WEST), lease_s=LEASE_S)
ASK = Ask(name="train", completions=4, indexed=True, gang=True)


def pod(rank, *, ago=0.0, node="n1", phase="Running", reason="Unschedulable", **more):
    """Ranks with a node run; others wait for one since `ago`."""
    kind, why = ("Ready", "") if node else ("PodScheduled", reason)
    condition = {
        "type": kind, "status": "False", "reason": why, "lastTransitionTime": text_of(CLOCK - ago),
        "message": NO_ROOM if reason == "Unschedulable" else "gated",
    }  # fmt: skip
    status = {"phase": phase if node else "Pending", **more}
    if not node or ago:
        status["conditions"] = [condition]
    return pod_view(
        {
            "metadata": {"name": f"p{rank}", "annotations": {"fleet.dev/global-index": str(rank)}},
            "spec": {"nodeName": node} if node else {},
            "status": status,
        }
    )


def waiting(rank, reason, message="", *, ago=0.0, phase="Pending", field="containerStatuses"):
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(rank, ago=ago, phase=phase, **{field: [{"name": "main", "state": state}]})


def seen(shard, *pods, **more):
    view = JobView("j", "7", started_at=CLOCK, deadline_s=10_000)
    return Sight(
        shard.cluster, reached=True, clock=CLOCK, view=view, pods=pods, leased_until=NOW, **more
    )


def whole(shard):
    return seen(shard, *(pod(rank) for rank in range(shard.first, shard.first + shard.count)))


def decided(east, *, record=RUNNING, west=None, ask=ASK, **more):
    sights = {"east": east, "west": west or whole(WEST)}
    return decide(Situation(ask=ask, record=record, now=NOW, sights=sights, **more))


def part(decision, cluster="east"):
    return next(each for each in decision.record.shards if each.cluster == cluster)


# -- what is told


@pytest.mark.parametrize(
    ("pods", "reason", "message", "count"),
    [
        ((pod(0), pod(1)), "", "", 0),
        ((pod(0), pod(1, phase="Succeeded")), "", "", 0),
        ((pod(0), pod(1, node="", ago=9)), NO_NODE, f"1 of 2 pods has no node: {NO_ROOM}", 1),
        (
            (pod(0, node="", ago=9), pod(1, node="", ago=9)),
            NO_NODE, f"2 of 2 pods have no node: {NO_ROOM}", 2,
        ),
        (
            (pod(0, node="", ago=9), waiting(1, "CreateContainerConfigError", 'configmap "c"')),
            NO_NODE,
            f"1 of 2 pods has no node: {NO_ROOM}; "
            '1 of 2 pods has not started: CreateContainerConfigError: configmap "c"', 1,
        ),
        (
            (waiting(0, "ErrImagePull", "rpc error 1"), waiting(1, "ImagePullBackOff", "Back-off")),
            NOT_STARTED, "2 of 2 pods have not started: ImagePullBackOff", 2,
        ),
        (
            (pod(0), waiting(1, "CrashLoopBackOff", "back-off 10s", phase="Running")),
            NOT_STARTED, "1 of 2 pods has not started: CrashLoopBackOff", 1,
        ),
        (
            (pod(0), waiting(1, "ImagePullBackOff", field="initContainerStatuses")),
            NOT_STARTED, "1 of 2 pods has not started: ImagePullBackOff", 1,
        ),
        (
            (pod(0), pod(1, node="", reason="SchedulingGated")),
            NOT_STARTED, "1 of 2 pods has not started: gated", 1,
        ),
        # They begin: that is said once it takes long.
        ((pod(0), waiting(1, "ContainerCreating", ago=59)), "", "", 0),
        ((pod(0), waiting(1, "PodInitializing", ago=900, phase="Running")), "", "", 0),
        (
            (pod(0), waiting(1, "ContainerCreating", ago=61)),
            NOT_STARTED, "1 of 2 pods has not started: ContainerCreating", 1,
        ),
        (
            (
                replace(waiting(0, "ContainerCreating", ago=61), waits="ContainerCreating: no cm"),
                waiting(1, "ContainerCreating", ago=61),
            ),
            NOT_STARTED, "2 of 2 pods have not started: ContainerCreating: no cm", 2,
        ),
    ],
)  # fmt: skip
def test_what_is_amiss_is_told(pods, reason, message, count):
    found = amiss.noted(EAST, seen(EAST, *pods), RUNNING, NOW, moves=True)
    assert (found.reason, found.message, found.amiss) == (reason, message, count)
    assert (found.amiss_at is None) is (not reason)


def test_pods_that_are_not_made_are_told_with_what_the_member_says():
    sight = seen(EAST, pod(0), trouble="exceeded quota")
    found = amiss.noted(EAST, sight, RUNNING, NOW, moves=True)
    assert (found.reason, found.message) == (
        "", "",
    )  # fmt: skip
    found = amiss.noted(found, sight, RUNNING, NOW + 11, moves=True)
    assert (found.reason, found.amiss, found.amiss_at) == (NOT_MADE, 1, NOW)
    assert found.message == "1 of 2 pods is gone and not made again: exceeded quota"
    then = amiss.noted(found, seen(EAST, pod(0), pod(1, node="")), RUNNING, NOW + 20, moves=True)
    assert (then.reason, then.amiss_at) == (NO_NODE, NOW)  # one spell
    done = replace(sight, view=replace(sight.view, succeeded=1))
    assert amiss.noted(EAST, done, RUNNING, NOW, moves=True) == EAST


def test_times_are_the_members_by_the_gateways_clock():
    sight = seen(EAST, pod(0, node="", ago=7), pod(1, node="", ago=40))
    found = amiss.noted(EAST, sight, RUNNING, NOW, moves=True)
    assert found.amiss_at == NOW - 40
    assert amiss.noted(found, sight, RUNNING, NOW + 1.5, moves=True) == found  # no new second


def test_a_record_keeps_it():
    found = amiss.noted(EAST, seen(EAST, pod(0), pod(1, node="")), RUNNING, NOW, moves=True)
    record = RUNNING.with_shards([replace(found, planned=())])
    status = write(record, {})
    assert read(status).shards[0].amiss_at == NOW
    assert status["shards"][0]["amissPods"] == 1
    assert write(read(status), status) == status


def test_the_job_is_not_told_that_it_runs_and_nothing_else(make_job):
    found = amiss.noted(EAST, seen(EAST, pod(0), pod(1, node="")), RUNNING, NOW, moves=True)
    status = fold(make_job(), RUNNING.with_shards([found]), {}, now=NOW)
    told = next(each for each in status["conditions"] if each["type"] == PLACED)
    assert (told["status"], told["reason"]) == ("True", NO_NODE)
    assert told["message"] == f"2 in east, 2 in west; in east 1 of 2 pods has no node: {NO_ROOM}"


# -- what is done


def homeless(ago):
    return seen(EAST, pod(0), pod(1, node="", ago=ago))


def test_before_its_time_it_is_looked_at_again_then():
    decision = decided(homeless(250), elsewhere=frozenset({"east"}))
    assert part(decision).state == "Running"
    assert decision.again_s == 50


def test_nothing_is_ended_while_there_is_no_other_place():
    decision = decided(homeless(301))
    assert part(decision).state == "Running"
    assert part(decision).message.endswith("as soon as there is another place for it")
    assert amiss.leaving(decision.record, NOW) == (part(decision),)


def test_where_there_is_another_place_it_is_ended_and_barred():
    decision = decided(homeless(301), elsewhere=frozenset({"east"}))
    assert decision.record.phase == "Lost"
    assert (part(decision).state, part(decision).reason) == ("Evicted", NO_NODE)
    assert part(decision, "west") == WEST
    told = f"in east, for longer than 300 s, 1 of 2 pods has no node: {NO_ROOM}"
    assert part(decision).message == decision.barred["east"] == told
    assert [debt.cluster for debt in decision.record.owed] == ["east"]
    assert decision.record.failures == 0


@pytest.mark.parametrize(
    "pods",
    [
        (pod(0), waiting(1, "CreateContainerConfigError", ago=9_000)),
        (pod(0), waiting(1, "ImagePullBackOff", ago=9_000)),
        (pod(0), waiting(1, "ContainerCreating", ago=9_000)),
        (pod(0), pod(1, node="", ago=9_000, reason="SchedulingGated")),
    ],
)
def test_nothing_is_moved_for_what_is_the_users(pods):
    decision = decided(seen(EAST, *pods), elsewhere=frozenset({"east"}))
    assert part(decision).state == "Running"
    assert part(decision).reason
    assert amiss.leaving(decision.record, NOW + 1e6) == ()


def test_what_is_gone_and_not_made_again_is_moved_as_well():
    """Where many pods are drained, their Job waits for minutes before it makes them again."""
    since = replace(EAST, amiss_at=NOW - 301, amiss=2, reason=NOT_MADE)
    before = RUNNING.with_shards([since])
    assert part(decided(seen(EAST), record=before)).state == "Running"
    decision = decided(seen(EAST), record=before, elsewhere=frozenset({"east"}))
    assert (part(decision).state, part(decision).reason) == ("Evicted", NOT_MADE)


def test_a_pod_of_the_fleet_is_told_and_stays():
    ask = replace(ASK, moves=False)
    decision = decided(homeless(900), ask=ask, elsewhere=frozenset({"east"}))
    assert part(decision).state == "Running"
    assert part(decision).message == f"1 of 2 pods has no node: {NO_ROOM}"


def test_what_was_told_is_taken_back():
    stuck = decided(homeless(9)).record
    decision = decided(whole(EAST), record=stuck)
    assert part(decision) == EAST


@pytest.mark.parametrize("phase", ["Holding", "Lost", "QuotaHeld", "Queued"])
def test_while_something_else_is_on_its_way_nothing_is_ended(phase):
    stuck = replace(decided(homeless(900)).record, phase=phase)
    assert amiss.leaving(stuck, NOW) == ()


def test_a_refusal_comes_first():
    stuck = decided(homeless(900)).record
    why = Refused("Invalid", "no", since=NOW)
    decision = decided(replace(homeless(900), refused=why), record=stuck)
    assert (part(decision).reason, part(decision).amiss_at) == ("Invalid", None)


def test_of_a_plan_that_has_not_begun_all_is_asked_for():
    begun = replace(RUNNING, phase="Committed")
    assert amiss.taken_along(begun, [EAST]) == {"east", "west"}
    assert amiss.taken_along(RUNNING, [EAST]) == {"east"}
    later = replace(begun, generation=2, shards=(replace(EAST, generation=2), WEST))
    assert amiss.taken_along(later, [later.shards[0]]) == {"east"}


# -- elastic gangs


ELASTIC = replace(RUNNING, least=2, most=4)


def test_an_elastic_gang_drops_what_has_no_node_at_all():
    sight = seen(EAST, pod(0, node="", ago=400), pod(1, node="", ago=400))
    decision = decided(sight, record=ELASTIC)
    assert [each.cluster for each in decision.record.shards] == ["west"]
    assert (decision.record.phase, decision.record.reason) == ("Running", "ShardDropped")


def test_an_elastic_gang_keeps_what_runs_in_part():
    assert part(decided(homeless(400), record=ELASTIC)).state == "Running"
    needed = replace(ELASTIC, least=3)
    sight = seen(EAST, pod(0, node="", ago=400), pod(1, node="", ago=400))
    assert part(decided(sight, record=needed)).state == "Running"


def test_an_elastic_gang_goes_for_more_ranks_alone():
    stuck = decided(homeless(400), record=ELASTIC).record
    shards = amiss.leaving(stuck, NOW)
    assert not amiss.is_better(stuck, shards, 3)
    assert amiss.is_better(stuck, shards, 4)
