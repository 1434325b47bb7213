"""The Job in a member for a shard: valid, the user's, and of this generation only."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from fleet.dispatch import shape
from fleet.dispatch.jobs.shape import job_of
from fleet.dispatch.record import Shard
from fleet.dispatch.shape import Terms, Workload
from fleet.kube import defaults
from fleet.kube.selectors import LabelSelector

WEST = Shard("west", 1, 3, first=4, count=2)
TERMS = Terms(
    fleet="f1e",
    deadline_s=30,
    backoff_limit=6,
    whole=False,
    global_index=True,
    priority_class="fleet-hold",
    names_from=lambda source: [],
)


def stored(job: dict[str, Any]) -> dict[str, Any]:
    """As a member would store it. Raises Invalid for a Job that it would refuse."""
    return defaults.create(
        "batch", "v1", "Job", job,
        namespace=job["metadata"]["namespace"], now=datetime(2026, 11, 29, tzinfo=UTC),
        uid="member-uid", random=random.Random(1),
    )  # fmt: skip


def env_of(job: dict[str, Any], container: int = 0) -> dict[str, dict[str, Any]]:
    return {e["name"]: e for e in job["spec"]["template"]["spec"]["containers"][container]["env"]}


def selects(job: dict[str, Any], labels: dict[str, str]) -> bool:
    return LabelSelector.from_object(job["spec"]["selector"]).matches(labels)


def test_a_shard_is_a_part_of_the_users_job(make_job):
    job = stored(job_of(make_job(), WEST, TERMS))
    spec = job["spec"]
    assert job["metadata"]["name"] == "train-g3-west"
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (2, 2, "Indexed")
    assert spec["activeDeadlineSeconds"] == 30
    assert spec["template"]["spec"]["containers"][0]["image"] == "busybox"
    assert spec["template"]["metadata"]["annotations"]["fleet.dev/index-offset"] == "4"


def test_its_selector_is_of_this_workload_and_generation_only(make_job):
    workload = make_job()
    job = stored(job_of(workload, WEST, TERMS))
    mine = job["spec"]["template"]["metadata"]["labels"]
    earlier = job_of(workload, replace(WEST, generation=2), TERMS)
    assert selects(job, mine)
    assert not selects(job, earlier["spec"]["template"]["metadata"]["labels"])
    assert not selects(job, workload.spec["template"]["metadata"]["labels"])


def test_pods_keep_the_labels_by_which_the_fleets_job_selects_them(make_job):
    workload = make_job()
    labels = job_of(workload, WEST, TERMS)["spec"]["template"]["metadata"]["labels"]
    assert LabelSelector.from_object(workload.spec["selector"]).matches(labels)
    assert labels["app"] == "train"
    assert labels["job-name"] == "train-g3-west"  # true in the member


def test_what_the_fleet_judges_does_not_go_along(make_job):
    workload = make_job(ttlSecondsAfterFinished=5, suspend=False, activeDeadlineSeconds=9)
    job = job_of(workload, WEST, TERMS)
    assert "ttlSecondsAfterFinished" not in job["spec"]
    assert job["spec"]["activeDeadlineSeconds"] == 30
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"}
    job = job_of(make_job(metadata={"annotations": applied}), WEST, TERMS)
    assert "kubectl.kubernetes.io/last-applied-configuration" not in job["metadata"]["annotations"]
    assert job["metadata"]["annotations"]["note"] == "kept"


def test_a_whole_job_keeps_its_completions(make_job):
    whole = Shard("east", 0, 1, first=0, count=3)
    job = stored(job_of(make_job(completions=9, parallelism=3), whole, replace(TERMS, whole=True)))
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (9, 3)
    queue = make_job(completions=None, completionMode="NonIndexed", parallelism=3)
    job = stored(job_of(queue, whole, replace(TERMS, whole=True)))
    assert "completions" not in job["spec"]


def test_every_container_waits_at_the_gate(make_job):
    workload = make_job(
        pod={
            "initContainers": [{"name": "first", "image": "busybox"}],
            "containers": [
                {"name": "main", "image": "busybox"},
                {"name": "side", "image": "busybox"},
            ],
        }
    )
    pod = stored(job_of(workload, WEST, TERMS))["spec"]["template"]["spec"]
    assert {
        "name": "fleet-gate",
        "configMap": {"name": "train-g3-west-gate", "defaultMode": 420},
    } in (pod["volumes"])
    for container in (*pod["initContainers"], *pod["containers"]):
        assert [m["mountPath"] for m in container["volumeMounts"]] == ["/etc/fleet"]
        assert "FLEET_JOB" in {e["name"] for e in container["env"]}


def test_nothing_that_may_change_is_a_literal(make_job):
    env = env_of(job_of(make_job(), WEST, TERMS))
    assert all("value" not in each for each in env.values())
    assert {
        "FLEET_JOB", "FLEET_GENERATION", "FLEET_SHARD_INDEX", "FLEET_SHARD_COUNT", "FLEET_CLUSTER",
        "FLEET_DOMAIN", "FLEET_NODE_RANK", "FLEET_NODES", "FLEET_INDEX_OFFSET",
        "FLEET_GLOBAL_INDEX", "FLEET_RDZV_ENDPOINT", "FLEET_PEERS_FILE", "MASTER_ADDR",
        "MASTER_PORT", "WORLD_SIZE", "RANK", "JOB_COMPLETION_INDEX",
    } <= env.keys()  # fmt: skip


def test_what_the_user_sets_stays(make_job):
    mine = [{"name": "RANK", "value": "7"}, {"name": "FLEET_JOB", "value": "mine"}]
    container = {
        "name": "main",
        "image": "busybox",
        "env": mine,
        "envFrom": [{"configMapRef": {"name": "c"}}],
    }
    terms = replace(TERMS, names_from=lambda source: ["MASTER_ADDR"])
    job = job_of(make_job(pod={"containers": [container]}), WEST, terms)
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    names = [each["name"] for each in env]
    assert len(names) == len(set(names))
    assert "MASTER_ADDR" not in names
    assert [each for each in env if each["name"] in ("RANK", "FLEET_JOB")] == mine


@pytest.mark.parametrize(
    ("global_index", "whole", "annotation"),
    [
        (True, False, "fleet.dev/global-index"),
        (True, True, "fleet.dev/global-index"),
        (False, True, "batch.kubernetes.io/job-completion-index"),
        (False, False, None),  # the program adds the offset itself
    ],
)
def test_ranks_come_from_where_the_member_has_them(make_job, global_index, whole, annotation):
    terms = replace(TERMS, global_index=global_index, whole=whole)
    env = env_of(job_of(make_job(), WEST, terms))
    if annotation is None:
        assert "RANK" not in env and "JOB_COMPLETION_INDEX" not in env
    else:
        path = env["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert path == f"metadata.annotations['{annotation}']"


def test_several_processes_a_node_leave_process_ranks_to_the_launcher(make_job):
    container = {
        "name": "main", "image": "busybox", "env": [{"name": "PET_NPROC_PER_NODE", "value": "8"}],
    }  # fmt: skip
    env = env_of(job_of(make_job(pod={"containers": [container]}), WEST, TERMS))
    assert "RANK" not in env and "PET_NODE_RANK" in env


def test_pods_without_ranks_get_none(make_job):
    workload = make_job(completionMode="NonIndexed", completions=6)
    job = stored(job_of(workload, WEST, TERMS))
    env = env_of(job)
    assert "FLEET_JOB" in env and "RANK" not in env and "MASTER_ADDR" not in env
    assert "subdomain" not in job["spec"]["template"]["spec"]


def test_disruptions_do_not_count_as_failures(make_job):
    spec = stored(job_of(make_job(), WEST, TERMS))["spec"]
    assert spec["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    own = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}
    kept = job_of(make_job(podFailurePolicy=own), WEST, TERMS)["spec"]["podFailurePolicy"]
    assert kept["rules"][0]["action"] == "FailJob"
    in_place = job_of(make_job(pod={"restartPolicy": "OnFailure"}), WEST, TERMS)
    assert "podFailurePolicy" not in stored(in_place)["spec"]


def test_a_hold_has_a_priority_that_does_not_preempt(make_job):
    workload = make_job(
        pod={"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}
    )
    name = shape.hold_class(workload)
    terms = replace(TERMS, priority_class=name)
    pod = job_of(workload, WEST, terms)["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], "preemptionPolicy" in pod) == ("fleet-hold-high", False)
    made = shape.priority_class(name, value=1000, metadata={})
    assert (made["value"], made["preemptionPolicy"]) == (1000, "Never")


def test_parts_say_whose_they_are(make_job):
    workload = make_job()
    metadata = job_of(workload, WEST, TERMS)["spec"]["template"]["metadata"]
    owner = orjson.loads(metadata["annotations"]["fleet.dev/owner-reference"])
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "train", workload.uid)
    assert metadata["labels"]["fleet.dev/workload-namespace"] == "payments"
    assert metadata["labels"]["fleet.dev/workload-uid"] == workload.uid
    assert metadata["labels"]["fleet.dev/shard"] == "train-g3-west"
    assert metadata["labels"]["fleet.dev/generation"] == "3"


@pytest.mark.parametrize(
    ("spec", "splits"),
    [
        ({}, True),
        ({"completions": 9}, False),
        ({"completions": None, "completionMode": "NonIndexed"}, True),
        ({"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}, False),
        ({"backoffLimitPerIndex": 1}, False),
    ],
)
def test_which_jobs_may_be_split(make_job, spec, splits):
    assert (make_job(**spec).unsplittable() == "") is splits


@pytest.mark.parametrize(
    ("name", "subdomain", "service"),
    [
        ("train", None, "train"),
        ("7days", None, "job-7days"),
        ("a.b", None, "job-a-b"),
        ("t", "mesh", "mesh"),
    ],
)
def test_ranks_are_found_by_a_service_whose_name_is_allowed(make_job, name, subdomain, service):
    pod = {"subdomain": subdomain} if subdomain else {}
    mode = {"completionMode": "NonIndexed"} if "." in name else {}
    assert make_job(name, pod=pod, **mode).service == service


def test_a_job_is_not_changed_by_being_read(make_job):
    workload = make_job()
    before = orjson.dumps(workload.obj)
    job_of(workload, WEST, TERMS)
    assert orjson.dumps(workload.obj) == before
    assert isinstance(workload, Workload)
