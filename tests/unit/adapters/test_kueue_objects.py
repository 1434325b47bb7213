"""What is read off Kueue's objects, and what is asked of the fleet's placement for them."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.kueue import objects
from fleet.scheduling.workloads import read

TEMPLATE = {
    "spec": {
        "priorityClassName": "of-the-manager",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
    }
}


def workload(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "namespace": "payments",
            "name": "job-train-1a2b3",
            "uid": "u1",
            "resourceVersion": "41",
            "labels": {"fleet.dev/policy": "gangs"},
            "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}],
        },
        "spec": {
            "priority": 70,
            "podSets": [
                {"name": "leader", "count": 1, "template": TEMPLATE},
                {"name": "workers", "count": 3, "template": TEMPLATE},
                {"name": "spare", "count": 0, "template": TEMPLATE},
            ],
            "maximumExecutionTimeSeconds": 600,
        },
        "status": status,
    }


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-29T00:00:00Z",
    }


def test_a_workload_that_waits_for_a_dispatcher():
    found = objects.read_workload(
        workload(
            conditions=[condition("QuotaReserved", "True")],
            admissionChecks=[{"name": "mk", "state": "Pending"}],
            nominatedClusterNames=["east"],
        )
    )
    assert (found.key, found.uid, found.revision) == (("payments", "job-train-1a2b3"), "u1", 41)
    assert found.reserved and found.reserved_at == "2026-11-29T00:00:00Z"
    assert found.checks == {"mk": "Pending"}
    assert found.nominated == ("east",)
    assert (found.owner, found.pods, found.priority) == ("train", 4, 70)
    assert not (found.cluster or found.over or found.evicted or found.refused)


@pytest.mark.parametrize(
    ("reason", "refused"),
    [("Pending", "no quota"), ("Inadmissible", "no quota"), ("Preempted", ""), ("Anything", "")],
)
def test_only_what_kueue_says_when_it_tried_is_a_refusal(reason, refused):
    told = condition("QuotaReserved", "False", reason, "no quota")
    assert objects.read_workload(workload(conditions=[told])).refused == refused


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"conditions": [condition("Finished", "True")]}},
        {"metadata": {"name": "x", "deletionTimestamp": "2026-11-29T00:00:00Z"}},
        {"spec": {"active": False}},
    ],
)
def test_what_is_over(change):
    assert objects.read_workload({**workload(), **change}).over


def test_what_placement_is_asked_about_has_the_workloads_priority_and_no_class_of_the_managers():
    gang = objects.gang_of(workload(clusterName="east"))
    reading = read(gang)
    assert [(part.role, part.pods) for part in reading.parts] == [("leader", 1), ("workers", 3)]
    assert reading.deadline_s == 600
    for part in reading.parts:
        assert part.template["spec"]["priority"] == 70
        assert "priorityClassName" not in part.template["spec"]
        assert part.template["spec"]["containers"] == TEMPLATE["spec"]["containers"]
    assert gang["metadata"]["labels"] == {"fleet.dev/policy": "gangs"}
    assert "status" not in gang


def test_a_cluster_is_the_member_of_its_name_or_the_one_that_its_annotation_names():
    plain = objects.read_worker({"metadata": {"name": "east", "uid": "c"}})
    assert (plain.member, plain.inactive) == ("east", "")
    named = {"name": "worker-1", "annotations": {"fleet.dev/member": "east"}}
    told = {"conditions": [condition("Active", "False", "ClientConnectionFailed", "no route")]}
    worker = objects.read_worker({"metadata": named, "status": told})
    assert (worker.member, worker.inactive) == ("east", "no route")


def test_a_check_of_another_controller_is_none_of_ours():
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    assert objects.config_of({"spec": spec}) == "all"
    assert objects.config_of({"spec": {**spec, "controllerName": "autoscaling"}}) is None


@pytest.mark.parametrize(
    ("labels", "annotations", "is_its"),
    [
        ({"batch.kubernetes.io/job-name": "train"}, {}, True),
        ({"jobset.sigs.k8s.io/jobset-name": "train"}, {}, True),
        ({"batch.kubernetes.io/job-name": "other"}, {}, False),
        ({"kueue.x-k8s.io/podset": "w"}, {"kueue.x-k8s.io/workload": "job-train-1a2b3"}, True),
        ({"kueue.x-k8s.io/podset": "w"}, {"kueue.x-k8s.io/workload": "job-other"}, False),
        ({}, {"kueue.x-k8s.io/workload": "job-train-1a2b3"}, False),
    ],
)
def test_pods_of_a_workload(labels, annotations, is_its):
    found = objects.read_workload(workload())
    pod = {"metadata": {"annotations": annotations}}
    assert objects.has_pod(found, labels, lambda: pod) is is_its
