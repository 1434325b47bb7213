"""Which pods of a ReplicaSet go, and what its status says."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtualnode.conditions import stamp
from virtualnode.deployments import replicas

Object = dict[str, Any]
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


def replica_set(wanted: int = 1, **spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "s1", "generation": 3},
        "spec": {"replicas": wanted, "template": template, **spec},
    }


def pod(
    name: str = "p",
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: int | None = 100,
    age: int = 1000,
    cost: str = "",
    restarts: int = 0,
    sidecar_restarts: int = 0,
    ending: bool = False,
    labels: Object | None = None,
) -> Object:
    """A pod; `ready` seconds ago it became ready, None for not."""
    at = NOW - timedelta(seconds=ready or 0)
    metadata: Object = {
        "name": name,
        "namespace": "shop",
        "uid": name,
        "creationTimestamp": stamp(NOW - timedelta(seconds=age)),
        "labels": {"app": "web", "tier": "front"} if labels is None else labels,
    }
    if cost:
        metadata["annotations"] = {replicas.DELETION_COST: cost}
    if ending:
        metadata["deletionTimestamp"] = stamp(NOW)
    said = {
        "type": "Ready",
        "status": "False" if ready is None else "True",
        "lastTransitionTime": stamp(at),
    }
    return {
        "metadata": metadata,
        "spec": {
            **({"nodeName": node} if node else {}),
            "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}],
        },
        "status": {
            "phase": phase,
            "conditions": [said],
            "containerStatuses": [{"name": "web", "restartCount": restarts}],
            "initContainerStatuses": [
                {"name": "side", "restartCount": sidecar_restarts},
                {"name": "init", "restartCount": 99},
            ],
        },
    }


FIRST = {
    "unassigned before assigned": (
        {"node": "", "phase": "Pending", "ready": None},
        {"phase": "Pending", "ready": None},
    ),
    "pending before unknown": ({"phase": "Pending", "ready": None}, {"phase": "Unknown"}),
    "unknown before running": ({"phase": "Unknown"}, {"ready": None}),
    "not ready before ready": ({"ready": None, "cost": "9"}, {"cost": "-9"}),
    "cheap before dear": ({"cost": "-1", "ready": 50_000}, {"ready": 1}),
    "a cost that is no number is none": ({"cost": "+5", "ready": 1}, {"cost": "1"}),
    "nor one beyond 32 bits": ({"cost": "9999999999", "ready": 1}, {"cost": "1"}),
    "lately ready before long ready": ({"ready": 1}, {"ready": 500}),
    "often restarted before seldom": ({"restarts": 2}, {"restarts": 1, "sidecar_restarts": 9}),
    "then by sidecars": ({"sidecar_restarts": 2}, {"sidecar_restarts": 1}),
    "young before old": ({"age": 200}, {"age": 90_000}),
    "of about the same age, chance": ({"age": 1001}, {"age": 1000}),
}


@pytest.mark.parametrize("case", FIRST)
def test_what_goes_first(case: str) -> None:
    first, second = FIRST[case]
    a, b = pod("a", **first), pod("b", **second)
    assert replicas.deletion_order([b, a], [], now=NOW) == [a, b]
    assert replicas.deletion_order([a, b], [], now=NOW) == [a, b]


def test_the_crowded_node_gives_first() -> None:
    a, b = pod("a", node="n1"), pod("b", node="n2")
    others = [pod("c", node="n2"), pod("d", node="n1", ending=True), pod("e", phase="Failed")]
    assert replicas.deletion_order([a, b], [a, b, *others], now=NOW)[0] is b


@given(st.lists(st.tuples(
    st.sampled_from(["", "n1", "n2"]), st.sampled_from(["Pending", "Running"]),
    st.sampled_from([None, 0, 1, 70, 5000]), st.integers(0, 3), st.integers(0, 9000)),
    max_size=8), st.randoms())  # fmt: skip
def test_no_pod_that_is_ready_goes_before_one_that_is_not(rows, rng) -> None:
    pods = [
        pod(f"p{i}", node=n, phase=p, ready=r, restarts=s, age=a)
        for i, (n, p, r, s, a) in enumerate(rows)
    ]
    rng.shuffle(pods)
    order = replicas.deletion_order(pods, pods, now=NOW)
    assert sorted(p["metadata"]["name"] for p in order) == sorted(
        p["metadata"]["name"] for p in pods
    )
    on_nodes = [p for p in order if p["spec"].get("nodeName") and p["status"]["phase"] == "Running"]
    ready = [replicas.available_in(p, min_ready_s=0, now=NOW) is not None for p in on_nodes]
    assert ready == sorted(ready)


@pytest.mark.parametrize(
    ("wanted", "there", "create", "delete"),
    [(3, 1, 2, 0), (3, 3, 0, 0), (1, 3, 0, 2), (0, 2, 0, 2), (900, 0, 500, 0), (0, 700, 0, 500)],
)
def test_how_many(wanted: int, there: int, create: int, delete: int) -> None:
    pods = [pod(f"p{i}") for i in range(there)]
    decision = replicas.decide(replica_set(wanted), pods, pods, now=NOW)
    assert (decision.create, len(decision.delete)) == (create, delete)


def test_a_set_that_goes_away_does_nothing() -> None:
    gone = replica_set(3)
    gone["metadata"]["deletionTimestamp"] = stamp(NOW)
    assert replicas.decide(gone, [], [], now=NOW) == replicas.Decision()


def test_a_pod_is_as_the_template_says() -> None:
    made = replicas.pod_of(replica_set())
    assert made["metadata"] == {
        "generateName": "web-1-",
        "namespace": "shop",
        "labels": {"app": "web", "tier": "front"},
        "annotations": {"a": "b"},
    }
    assert made["spec"] == {"containers": [{"name": "web", "image": "web"}]}


def test_status_counts_what_is_there() -> None:
    pods = [
        pod("ready long"),
        pod("ready", ready=3),
        pod("not ready", ready=None),
        pod("stray", labels={"app": "web"}),
        pod("ended", phase="Succeeded"),
        pod("ending", ending=True),
        pod("ended ending", phase="Failed", ending=True),
    ]
    told = replica_set(4, minReadySeconds=10)
    assert replicas.status(told, pods, now=NOW) == {
        "replicas": 4,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "observedGeneration": 3,
        "terminatingReplicas": 1,
    }
    assert replicas.next_look(told, pods, now=NOW) == 7.0
    assert replicas.next_look(replica_set(4), pods, now=NOW) is None


def test_an_empty_set_says_so() -> None:
    status = replicas.status(replica_set(0), [], now=NOW)
    assert status == {"replicas": 0, "observedGeneration": 3, "terminatingReplicas": 0}


def test_a_failure_is_said_once_and_taken_back() -> None:
    told = replica_set(2)
    told["status"] = replicas.status(told, [pod()], failure="no quota", now=NOW)
    (said,) = told["status"]["conditions"]
    assert (said["type"], said["status"], said["reason"], said["message"]) == (
        "ReplicaFailure", "True", "FailedCreate", "no quota"
    )  # fmt: skip
    later = NOW + timedelta(minutes=1)
    assert replicas.status(told, [pod()], failure="still no quota", now=later) == told["status"]
    assert "conditions" not in replicas.status(told, [pod()], now=later)
    many = [pod("a"), pod("b"), pod("c")]
    status = replicas.status(replica_set(2), many, failure="refused", now=NOW)
    assert status["conditions"][0]["reason"] == "FailedDelete"


def test_availability_is_reached_to_the_second() -> None:
    ready = pod(ready=10)
    assert replicas.available_in(ready, min_ready_s=10, now=NOW) == 0
    assert replicas.available_in(ready, min_ready_s=11, now=NOW) == 1
    assert replicas.available_in(pod(ready=None), min_ready_s=0, now=NOW) is None
    undated = copy.deepcopy(ready)
    del undated["status"]["conditions"][0]["lastTransitionTime"]
    assert replicas.available_in(undated, min_ready_s=0, now=NOW) == 0
    assert replicas.available_in(undated, min_ready_s=1, now=NOW) is None
