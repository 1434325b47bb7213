"""What a workload holds of a quota, read off its Placement, and what its pods count for."""

from __future__ import annotations

import pytest

from fleet.scheduling.counted import pod_counts
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.standing import expectation_of, standing_of, waits, wish_of

GPU = Key("nvidia.com/gpu")
NOW = 1_795_910_400.0  # 2026-11-29T00:00:00Z


def affinity(*terms):
    found = [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
             for key, operator, values in terms]  # fmt: skip
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}
    return {"affinity": {"nodeAffinity": required}}


LABEL = "fleet.dev/accelerator"


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({}, ""),
        ({"nodeSelector": {LABEL: "h200"}}, "h200"),
        ({"nodeSelector": {"nvidia.com/gpu.product": "L40S"}}, "L40S"),
        (affinity((LABEL, "In", ["h200"])), "h200"),
        (affinity((LABEL, "In", ["h200", "l40s"])), ""),
        (affinity((LABEL, "NotIn", ["h200"])), ""),
        (affinity((LABEL, "In", ["h200"]), (LABEL, "In", ["l40s"])), ""),
        (affinity((LABEL, "In", ["h200"]), ("zone", "In", ["a"])), ""),
    ],
)
def test_a_kind_counts_where_the_pod_leaves_no_other(spec, kind):
    container = {"resources": {"requests": {"nvidia.com/gpu": "2", "cpu": "500m"}}}
    counts = pod_counts({"spec": {"containers": [container], **spec}})
    assert counts == {Key("nvidia.com/gpu", kind): 2, Key("cpu"): 500, Key("pods"): 1}


def shard(cluster, count, state, **more):
    roles = [{"name": "worker", "first": 0, "count": count}]
    return {"cluster": cluster, "roles": roles, "state": state, **more}


def held(build, status, pods=6, succeeded=0, **more):
    job = build.job(pods)
    job["status"] = {"succeeded": succeeded, **more}
    wish = wish_of(job)
    found = standing_of(status, wish, now=NOW)
    return None if found is None else (found.amounts.get(GPU, 0), set(found.clusters))


@pytest.mark.parametrize("state", ["Planned", "Holding", "Held", "Committed", "Running"])
def test_a_plan_holds_all_of_it_from_the_moment_it_is_stored(build, state):
    shards = [shard("a", 4, state), shard("b", 2, state)]
    assert held(build, {"phase": "Running", "shards": shards}) == (6, {"a", "b"})


def test_what_is_lost_and_to_be_placed_anew_is_held_still(build):
    shards = [shard("a", 4, "Running"), shard("b", 2, "Lost")]
    assert held(build, {"phase": "Lost", "shards": shards}) == (6, {"a"})


def test_what_has_succeeded_is_held_no_more(build):
    shards = [shard("a", 4, "Succeeded"), shard("b", 2, "Running")]
    assert held(build, {"phase": "Running", "shards": shards}) == (2, {"b"})
    alone = [shard("a", 6, "Running")]
    assert held(build, {"phase": "Running", "shards": alone}, succeeded=5) == (1, {"a"})
    # Of many indexes those run that are left of them, never more than at a time.
    assert held(build, {"phase": "Running", "shards": alone}, pods=9) == (6, {"a"})


@pytest.mark.parametrize(
    ("shards", "succeeded", "amount"),
    [
        ([shard("a", 6, "Running")], 0, 6),
        ([shard("a", 6, "Running")], 2, 4),
        ([shard("a", 2, "Running"), shard("b", 2, "Running")], 1, 3),
        ([shard("a", 4, "Succeeded"), shard("b", 2, "Running")], 0, 2),  # not counted yet
        ([shard("a", 4, "Succeeded"), shard("b", 2, "Running")], 4, 2),
        ([shard("a", 4, "Succeeded"), shard("b", 2, "Running")], 5, 1),
        ([shard("a", 2, "Succeeded"), shard("b", 2, "Running")], 2, 2),
    ],
)
def test_of_an_elastic_gang_what_runs_on_is_held(build, shards, succeeded, amount):
    roles = [{"name": "worker", "pods": 6, "min": 2}]
    status = {"phase": "Running", "roles": roles, "shards": shards}
    (found, _) = held(build, status, succeeded=succeeded)
    assert found == amount


@pytest.mark.parametrize(
    ("failed", "left"), [("", 5), ("3", 4), ("0,2-4", 1), ("0-4", 0), ("1,2,4", 2)]
)
def test_indexes_that_have_failed_for_good_hold_nothing(build, failed, left):
    """kueue#13717: where each index has a budget of its own, the others go on."""
    alone = [shard("a", 6, "Running")]
    found = held(
        build, {"phase": "Running", "shards": alone}, succeeded=1, failedIndexes=failed
    )  # fmt: skip
    assert found == (left, {"a"})


def test_an_end_frees_everything_once_nothing_runs(build):
    stopping = [shard("a", 4, "Running"), shard("b", 2, "Failed")]
    assert held(build, {"phase": "Failed", "shards": stopping}) == (4, {"a"})
    assert held(build, {"phase": "Succeeded", "shards": [shard("a", 6, "Succeeded")]}) is None
    assert held(build, {"phase": "Queued"}) is None


def test_what_is_leaving_is_held_until_it_is_gone_or_fenced(build):
    owed = {"cluster": "a", "shard": "train-g1-a"}
    confirmed = {"phase": "Queued", "owed": [owed], "preemptedFor": {"uid": "u"}}
    assert held(build, confirmed) == (6, {"a"})
    assert not waits(confirmed, now=NOW)
    later, over = "2026-11-29T00:00:05Z", "2026-11-28T23:59:59Z"
    fenced = {"phase": "Queued", "owed": [{**owed, "fencedAt": later}]}
    assert held(build, fenced) == (6, {"a"})
    fenced = {"phase": "Queued", "owed": [{**owed, "fencedAt": over}]}
    assert held(build, fenced) is None
    assert waits(fenced, now=NOW)


def test_a_shard_out_of_reach_is_told_apart(build):
    shards = [shard("a", 4, "Running"), shard("b", 2, "Running", lostAt="2026-11-29T00:00:00Z")]
    found = standing_of({"phase": "Running", "shards": shards}, wish_of(build.job(6)), now=NOW)
    assert found.amounts[GPU] == 6
    assert {name: amounts[GPU] for name, amounts in found.lost.items()} == {"b": 2}


def test_what_cannot_be_read_wishes_for_nothing(build):
    job = build.job(2)
    job["spec"]["parallelism"] = "many"
    assert wish_of(job) is None
    assert wish_of({"apiVersion": "v1", "kind": "Secret", "metadata": {}}) is None


@pytest.mark.parametrize(
    ("annotation", "deadline", "policy", "seconds"),
    [
        ("6h", 60, {"runTime": "1h"}, 21600.0),
        (None, 60, {"runTime": "1h"}, 60.0),
        (None, None, {"runTime": "1h"}, 3600.0),
        (None, None, {}, None),
        (None, None, None, 7.0),
        ("90s", None, None, 90.0),
    ],
)
def test_how_long_it_is_expected_to_run(build, annotation, deadline, policy, seconds):
    """By what stands there at the time; as it was placed where its policy is gone."""
    more = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    job = build.job(2, **more)
    if annotation is not None:
        job["metadata"]["annotations"] = {"fleet.dev/run-time": annotation}
    placement = {"spec": {"policy": {"namespace": "default", "name": "gang"}}}
    found = expectation_of(job, placement)
    there = (
        {} if policy is None else {("default", "gang"): build.policy({"objective": policy}).spec}
    )
    assert found.seconds(there, before_s=7.0) == seconds


@pytest.mark.parametrize("said", ["6parsecs", "", "6", "-1h", 6])
def test_of_a_run_time_that_is_none_nothing_is_known(build, said):
    job = build.job(2)
    job["metadata"]["annotations"] = {"fleet.dev/run-time": said}
    assert expectation_of(job, {"spec": {}}) is None
