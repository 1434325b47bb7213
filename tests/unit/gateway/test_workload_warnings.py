"""Whoever changes a Job that runs already is told what of it has no effect there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.gateway.workload_warnings import WorkloadWarnings
from fleet.kube.wire import Request, UserInfo
from policies.placement import name_of

JOBS = "/apis/batch/v1/namespaces/cv/jobs"
PLACEMENTS = "/apis/fleet.dev/v1alpha1/namespaces/cv/placements"
PLACEMENT = name_of("Job", "train")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def send(door: Any, method: str, path: str, body: Any) -> tuple[str, ...]:
    kind = "merge-patch+json" if method == "PATCH" else "json"
    headers = {"content-type": f"application/{kind}"}
    raw = json.dumps(body).encode()
    answer = await door.handle(
        Request(method, path, headers=headers, body=raw, user=UserInfo("jane"))
    )
    assert answer.status < 300
    return tuple(answer.warnings)


@pytest.fixture
async def door(own_kernel: Any, store: Any) -> Any:
    door = WorkloadWarnings(own_kernel, store, now=lambda: NOW)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cv"}}
    await send(door, "POST", "/api/v1/namespaces", namespace)
    container = {"name": "main", "image": "any"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"parallelism": 1, "template": template},
    }  # fmt: skip
    await send(door, "POST", JOBS, job)
    placement = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "Placement",
        "metadata": {"name": PLACEMENT},
        "spec": {"workload": {"apiVersion": "batch/v1", "kind": "Job", "name": "train",
                              "uid": "uid"}},
    }  # fmt: skip
    await send(door, "POST", PLACEMENTS, placement)
    return door


async def is_in_phase(door: Any, phase: str) -> None:
    path = f"{PLACEMENTS}/{PLACEMENT}/status"
    await send(door, "PATCH", path, {"status": {"phase": phase}})


@pytest.mark.parametrize("phase", ["Holding", "Running"])
@pytest.mark.parametrize("pods", [0, 2])
async def test_other_numbers_of_pods_do_not_reach_a_job_that_runs(
    door: Any, phase: str, pods: int
) -> None:
    await is_in_phase(door, phase)
    (said,) = await send(door, "PATCH", f"{JOBS}/train", {"spec": {"parallelism": pods}})
    assert said.startswith("spec.parallelism: the Job runs on as it was placed")
    assert "spec.suspend" in said


async def test_another_policy_does_not_reach_a_job_that_runs(door: Any) -> None:
    await is_in_phase(door, "Running")
    label = {"metadata": {"labels": {"fleet.dev/policy": "home", "team": "cv"}}}
    unknown, said = await send(door, "PATCH", f"{JOBS}/train", label)
    assert 'no PlacementPolicy is called "home"' in unknown
    assert said.startswith("metadata.labels[fleet.dev/policy]: the Job runs on as it was placed")
    label["metadata"]["labels"]["team"] = "nlp"
    assert await send(door, "PATCH", f"{JOBS}/train", label) == (unknown,)


@pytest.mark.parametrize("phase", ["Queued", "Succeeded"])
async def test_one_that_has_no_place_is_changed(door: Any, phase: str) -> None:
    await is_in_phase(door, phase)
    assert await send(door, "PATCH", f"{JOBS}/train", {"spec": {"parallelism": 2}}) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"backoffLimit": 9, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 1}},
        {"spec": {"parallelism": 2, "suspend": True}},
    ],
)
async def test_what_has_effect_is_not_warned_of(door: Any, change: Any) -> None:
    await is_in_phase(door, "Running")
    assert await send(door, "PATCH", f"{JOBS}/train", change) == ()


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("spread", ""),
        ("spraed", "; did you mean spread?"),
        ("other", ""),
    ],
)
async def test_a_policy_that_is_not_there_is_warned_of(door: Any, named: str, told: str) -> None:
    policy = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "spread"}, "spec": {},
    }  # fmt: skip
    await send(door, "POST", "/apis/fleet.dev/v1alpha1/namespaces/cv/placementpolicies", policy)
    said = await send(
        door, "PATCH", f"{JOBS}/train", {"metadata": {"labels": {"fleet.dev/policy": named}}}
    )
    where = "neither in cv nor in fleet-system: it waits until there is one"
    assert said == (
        ()
        if named == "spread"
        else (
            "metadata.labels[fleet.dev/policy]: no PlacementPolicy is called "
            f'"{named}", {where}{told}',
        )
    )


@pytest.mark.parametrize(
    ("where", "key", "told"),
    [
        ("labels", "fleet.dev/polcy", "; did you mean fleet.dev/policy?"),
        ("annotations", "fleet.dev/policy", "; did you mean the label fleet.dev/policy?"),
        ("annotations", "fleet.dev/runtime", "; did you mean fleet.dev/run-time?"),
        ("labels", "fleet.dev/run-time", "; did you mean the annotation fleet.dev/run-time?"),
        ("annotations", "fleet.dev/checkpointed", "; did you mean fleet.dev/checkpointed-at?"),
        ("labels", "fleet.dev/accelerator", " of a Job; it is a label of Nodes"),
        (
            "labels",
            "fleet.dev/x",
            "; the fleet reads fleet.dev/checkpointed-at, fleet.dev/policy, fleet.dev/run-time",
        ),
        ("annotations", "fleet.dev/run-time", None),
        ("labels", "fleet.dev/generation", None),
        ("labels", "team.fleet.dev/polcy", None),
        ("annotations", "simulation.fleet.dev/runs", None),
        ("labels", "policy", None),
        ("labels", "fleet.dev/team", None),
        ("labels", "fleet.dev/stage", None),
        ("annotations", "fleet.dev/team", "; the fleet reads "),
        ("labels", "fleet.dev/elsewhere", "; the fleet reads "),
        ("labels", "fleet.dev/shared", "; the fleet reads "),
        (
            "labels",
            "fleet.dev/cluster",
            " of a Job; where it may run a PlacementPolicy says (spec.clusters)",
        ),
    ],
)
async def test_a_key_of_the_fleet_that_nobody_reads_is_warned_of(
    door: Any, where: str, key: str, told: str | None
) -> None:
    """Unless a policy for the work of its namespace selects by the label."""
    selectors = {
        "cv": {
            "matchLabels": {"fleet.dev/team": "a"},
            "matchExpressions": [{"key": "fleet.dev/stage", "operator": "Exists"}],
        },
        "nlp": {"matchLabels": {"fleet.dev/elsewhere": "a"}},
        "fleet-system": {"matchLabels": {"fleet.dev/shared": "a"}},
    }
    for namespace in ("nlp", "fleet-system"):
        await send(door, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for namespace, selector in selectors.items():
        policy = {"metadata": {"name": "some"}, "spec": {"workloads": selector}}
        path = f"/apis/fleet.dev/v1alpha1/namespaces/{namespace}/placementpolicies"
        await send(door, "POST", path, policy)
    change = {"metadata": {where: {key: "5m"}}}
    said = await send(door, "PATCH", f"{JOBS}/train", change)
    assert len(said) == (told is not None)
    for each in said:
        assert each.startswith(f"metadata.{where}[{key}]: nobody reads this{told}")


async def test_the_cluster_of_a_pod_is_shown_as_a_label_and_may_be_written_back(door: Any) -> None:
    spec = {"containers": [{"name": "main", "image": "any"}]}
    metadata = {"name": "x", "labels": {"fleet.dev/cluster": "east"}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    assert await send(door, "POST", "/api/v1/namespaces/cv/pods", body) == ()


async def make_class(door: Any, name: str, **more: Any) -> tuple[str, ...]:
    body = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": name}, "value": 1000, **more,
    }  # fmt: skip
    return await send(door, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)


@pytest.mark.parametrize("kind", ["Job", "Pod"])
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"priorityClassName": "high"}, None),
        ({"priorityClassName": "hgih"}, "; did you mean high?"),
        ({"priorityClassName": "other"}, ""),
        ({"priorityClassName": "hgih", "priority": 5}, None),
        ({}, None),
    ],
)
async def test_a_class_of_priority_that_is_not_there_is_warned_of(
    door: Any, kind: str, asked: Any, told: str | None
) -> None:
    await make_class(door, "high")
    spec = {"containers": [{"name": "main", "image": "any"}], "restartPolicy": "Never", **asked}
    if kind == "Job":
        body = {"apiVersion": "batch/v1", "spec": {"template": {"spec": spec}}}
        path, field = JOBS, "spec.template.spec.priorityClassName"
    else:
        body = {"apiVersion": "v1", "spec": spec}
        path, field = "/api/v1/namespaces/cv/pods", "spec.priorityClassName"
    said = await send(door, "POST", path, {**body, "kind": kind, "metadata": {"name": "x"}})
    named = asked.get("priorityClassName")
    waits = f'{field}: no PriorityClass is called "{named}": it waits until there is one'
    assert said == (() if told is None else (f"{waits}{told}",))


async def test_a_default_class_is_told_that_it_is_none(door: Any) -> None:
    (said,) = await make_class(door, "usual", globalDefault=True)
    assert said.startswith("globalDefault: nobody obeys this")
    assert await make_class(door, "other", globalDefault=False) == ()


@pytest.mark.parametrize(
    ("at", "warned"),
    [
        ("2026-01-01T00:00:01Z", True),
        ("2026-01-01T00:00:00Z", False),
        ("2025-12-31T01:00:00Z", False),
    ],
)
async def test_a_last_checkpoint_that_is_to_come_is_warned_of(
    door: Any, at: str, warned: bool
) -> None:
    change = {"metadata": {"annotations": {"fleet.dev/checkpointed-at": at}}}
    told = await send(door, "PATCH", f"{JOBS}/train", change)
    where = "metadata.annotations[fleet.dev/checkpointed-at]"
    assert told == ((f"{where}: {at} is to come; it is not believed before",) if warned else ())
