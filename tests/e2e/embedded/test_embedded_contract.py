"""What a member must do for the fleet, the same for an embedded member and for a real cluster.

The real one is etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok; what is
asserted here is what it does.
"""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager

import pytest

from fleet.testbed.embedded import EmbeddedCluster
from fleet.testbed.shape import ACCELERATOR, DEFAULT

_namespaces = itertools.count(1)


@asynccontextmanager
async def namespace(kubeconfig, over_tls):
    name = f"contract-{next(_namespaces)}"
    async with over_tls(kubeconfig, namespace=name) as api:
        await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        try:
            yield api
        finally:
            await api.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(params=["embedded", pytest.param("local", marks=pytest.mark.controlplane)])
def real(request):
    """The real cluster, when it is its turn; it is started outside of any event loop."""
    return request.getfixturevalue("east") if request.param == "local" else None


@pytest.fixture
async def api(real, over_tls):
    """A namespace of its own in a member with two nodes of four accelerators."""
    if real is not None:
        async with namespace(real.kubeconfig, over_tls) as made:
            yield made
        return
    async with EmbeddedCluster("contract", nodes=DEFAULT) as cluster:
        async with namespace(cluster.kubeconfig, over_tls) as made:
            yield made


def job(name="train", *, ranks=2, gate=True, accelerators="1", **spec):
    container = {
        "name": "main",
        "image": "any",
        "command": ["true"],
        "resources": {"limits": {ACCELERATOR: accelerators}},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    if gate:
        container["volumeMounts"] = [{"name": "gate", "mountPath": "/gate"}]
        pod["volumes"] = [{"name": "gate", "configMap": {"name": f"{name}-gate"}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": ranks,
            "parallelism": ranks,
            "template": {"spec": pod},
            **spec,
        },
    }


def of(name):
    return {"labelSelector": f"batch.kubernetes.io/job-name={name}"}


def bound(count):
    return lambda pods: len(pods) == count and all(pod["spec"].get("nodeName") for pod in pods)


def over(subject):
    return any(
        each["type"] in ("Complete", "Failed") and each["status"] == "True"
        for each in subject["status"].get("conditions", ())
    )


def said(subject):
    return [
        (each["type"], each["status"], each.get("reason", ""), each.get("message", ""))
        for each in subject["status"]["conditions"]
    ]


def open_gate(api, name="train"):
    return api.create("configmaps", {"metadata": {"name": f"{name}-gate"}, "data": {"x": "y"}})


async def test_a_gated_job_is_held_and_then_runs_to_its_end(api):
    made = await api.create("jobs", job())
    pods = await api.until("pods", bound(2), **of("train"))
    for index, pod in enumerate(sorted(pods, key=lambda pod: pod["metadata"]["name"])):
        metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
        assert metadata["name"].startswith(f"train-{index}-") and len(metadata["name"]) == 13
        assert metadata["generateName"] == f"train-{index}-"
        assert spec["hostname"] == f"train-{index}"
        numbered = "batch.kubernetes.io/job-completion-index"
        assert metadata["annotations"][numbered] == metadata["labels"][numbered] == str(index)
        assert metadata["labels"]["job-name"] == "train"
        assert metadata["labels"]["batch.kubernetes.io/controller-uid"] == made["metadata"]["uid"]
        assert metadata["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["controller"]) == ("Job", True)
        (variable,) = spec["containers"][0]["env"]
        assert variable == {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {
                "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{numbered}']"}
            },
        }
        assert status["phase"] == "Pending" and "podIP" not in status
    held = await api.until_one("jobs", "train", lambda found: found["status"].get("active") == 2)
    assert held["status"]["startTime"] and held["status"]["ready"] == 0

    await open_gate(api)
    done = await api.until_one("jobs", "train", over)
    reached = ("CompletionsReached", "Reached expected number of succeeded pods")
    assert said(done) == [
        ("SuccessCriteriaMet", "True", *reached), ("Complete", "True", *reached),
    ]  # fmt: skip
    status = done["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (2, "0,1")
    assert status["completionTime"] and status["uncountedTerminatedPods"] == {}
    assert (status["ready"], status["terminating"]) == (0, 0) and "active" not in status
    for pod in await api.list("pods", **of("train")):
        assert pod["status"]["phase"] == "Succeeded" and pod["status"]["podIP"]
        assert "finalizers" not in pod["metadata"]


async def test_a_hold_that_is_not_renewed_lapses_and_gives_its_room_back(api):
    await api.create("jobs", job(ranks=8, activeDeadlineSeconds=3))
    await api.until("pods", bound(8), **of("train"))
    await api.create("jobs", job("next", ranks=8, gate=False))
    await api.until("pods", lambda pods: len(pods) == 8, **of("next"))
    lapsed = await api.until_one("jobs", "train", over)
    why = ("DeadlineExceeded", "Job was active longer than specified deadline")
    assert said(lapsed) == [("FailureTarget", "True", *why), ("Failed", "True", *why)]
    assert lapsed["status"]["failed"] == 8 and "completionTime" not in lapsed["status"]
    await api.until_gone("pods", **of("train"))
    await api.until_one("jobs", "next", over)


async def test_a_hold_that_is_renewed_goes_on(api):
    await api.create("jobs", job(activeDeadlineSeconds=2))
    await api.create("jobs", job("other", activeDeadlineSeconds=2))
    await api.until("pods", bound(2), **of("train"))
    await api.patch("jobs", "train", {"spec": {"activeDeadlineSeconds": 600}})
    await api.until_one("jobs", "other", over)
    kept = await api.get("jobs", "train")
    assert not over(kept) and kept["status"]["active"] == 2
    await open_gate(api)
    assert said(await api.until_one("jobs", "train", over))[-1][0] == "Complete"


async def test_a_job_is_deleted_in_the_foreground(api):
    await api.create("jobs", job())
    await api.until("pods", bound(2), **of("train"))
    await api.delete("jobs", "train", propagationPolicy="Foreground")
    await api.until_gone("jobs")
    assert await api.list("pods", **of("train")) == []


async def test_a_job_is_orphaned_when_nothing_is_said(api):
    await api.create("jobs", job())
    await api.until("pods", bound(2), **of("train"))
    await api.delete("jobs", "train")
    await api.until_gone("jobs")
    pods = await api.until(
        "pods", lambda pods: not any("finalizers" in p["metadata"] for p in pods)
    )
    assert len(pods) == 2 and not any("ownerReferences" in pod["metadata"] for pod in pods)


async def test_what_does_not_fit_waits_with_kube_schedulers_words(api):
    await api.create("jobs", job(ranks=1, gate=False, accelerators="9"))

    def told(pods):
        return pods and [
            each
            for each in pods[0]["status"].get("conditions", ())
            if each["type"] == "PodScheduled" and each["status"] == "False"
        ]

    (pod,) = await api.until("pods", told, **of("train"))
    (condition,) = told([pod])
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == (
        f"0/2 nodes are available: 2 Insufficient {ACCELERATOR}. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


async def test_suspension_takes_the_pods_and_the_clock_starts_anew(api):
    await api.create("jobs", job(suspend=True, activeDeadlineSeconds=600))
    suspended = await api.until_one(
        "jobs", "train", lambda found: found["status"].get("conditions")
    )
    assert said(suspended) == [("Suspended", "True", "JobSuspended", "Job suspended")]
    assert "startTime" not in suspended["status"]
    await api.patch("jobs", "train", {"spec": {"suspend": False}})
    await api.until("pods", bound(2), **of("train"))
    resumed = await api.until_one("jobs", "train", lambda found: found["status"].get("active") == 2)
    assert said(resumed) == [("Suspended", "False", "JobResumed", "Job resumed")]
    assert resumed["status"]["startTime"]
    await api.patch("jobs", "train", {"spec": {"suspend": True}})
    await api.until_gone("pods")
    again = await api.until_one("jobs", "train", lambda found: not found["status"].get("active"))
    assert said(again)[0][:2] == ("Suspended", "True")


async def test_a_shards_own_selector_takes_only_its_own_pods(api):
    """A narrower selector, as shards have it: pods of an earlier generation are not counted."""
    old = job("old", gate=False)
    old["spec"]["template"]["metadata"] = {"labels": {"fleet.dev/epoch": "1"}}
    await api.create("jobs", old)
    await api.until_one("jobs", "old", over)
    new = job("new", manualSelector=True, selector={"matchLabels": {"fleet.dev/epoch": "2"}})
    new["spec"]["template"]["metadata"] = {
        "labels": {"fleet.dev/epoch": "2", "batch.kubernetes.io/job-name": "new"}
    }
    await api.create("jobs", new)
    await api.until("pods", bound(2), labelSelector="fleet.dev/epoch=2")
    held = await api.until_one("jobs", "new", lambda found: found["status"].get("active") == 2)
    assert not held["status"].get("succeeded")


async def test_a_pod_with_a_scheduling_gate_is_left_alone_until_it_is_lifted(api, pod):
    await api.create("pods", pod("p", "true", schedulingGates=[{"name": "example.com/g"}]))
    found = await api.until_one("pods", "p", lambda found: found["status"].get("conditions"))
    (condition,) = found["status"]["conditions"]
    assert condition["reason"] == "SchedulingGated" and not found["spec"].get("nodeName")
    await api.patch("pods", "p", {"spec": {"schedulingGates": []}})
    await api.until_one("pods", "p", lambda found: found["spec"].get("nodeName"))


async def test_a_deployment_and_its_endpoints(api):
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "any", "command": ["sleep", "1000"]}]},
    }
    await api.create("services", {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    })  # fmt: skip
    await api.create("deployments", {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template,
        },
    })  # fmt: skip
    found = await api.until_one(
        "deployments", "web", lambda found: found["status"].get("availableReplicas") == 2
    )
    assert found["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    slices = await api.until(
        "endpointslices",
        lambda found: len([e for each in found for e in each.get("endpoints") or ()]) == 2,
    )
    (piece,) = slices
    assert piece["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert [port["port"] for port in piece["ports"]] == [8080]
    pods = {pod["status"]["podIP"] for pod in await api.list("pods")}
    assert {address for each in piece["endpoints"] for address in each["addresses"]} == pods
    assert all(each["conditions"]["ready"] for each in piece["endpoints"])
    await api.patch("deployments", "web", {"spec": {"replicas": 0}})
    await api.until_gone("pods")
