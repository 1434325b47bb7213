"""What a DELETE makes of an object: policies, finalizers, grace periods, namespaces."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.apiserver import deletion
from fleet.kube import builtin
from fleet.kube.options import DeleteOptions
from fleet.kube.resources import GroupVersionResource, Resource

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
STAMP = "2024-05-06T07:08:09Z"


def row(group: str, version: str, resource: str) -> Resource:
    found = builtin.resource(GroupVersionResource(group, version, resource))
    assert found is not None
    return found


MAPS = row("", "v1", "configmaps")
PODS = row("", "v1", "pods")
JOBS = row("batch", "v1", "jobs")
EVENTS = row("", "v1", "events")
SPACES = row("", "v1", "namespaces")
CRDS = row("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def named(kind: str = "ConfigMap", **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "metadata": {"name": "x", **metadata}}


def begin(
    resource: Resource, obj: dict[str, Any], now: datetime = NOW, **options: Any
) -> deletion.Deletion:
    before = repr(obj)
    outcome = deletion.begin(resource, obj, DeleteOptions(**options), now=now)
    assert repr(obj) == before
    return outcome


@pytest.mark.parametrize(
    ("resource", "policy", "present", "left"),
    [
        (MAPS, "", [], []),
        (MAPS, "Background", [], []),
        (MAPS, "Foreground", [], ["foregroundDeletion"]),
        (MAPS, "Orphan", [], ["orphan"]),
        (MAPS, "", ["orphan"], ["orphan"]),
        (MAPS, "", ["foregroundDeletion"], ["foregroundDeletion"]),
        (MAPS, "Background", ["orphan", "a/b"], ["a/b"]),
        (MAPS, "Background", ["foregroundDeletion"], []),
        (MAPS, "Orphan", ["foregroundDeletion"], ["orphan"]),
        (MAPS, "Foreground", ["orphan", "a/b"], ["a/b", "foregroundDeletion"]),
        (MAPS, "Foreground", ["foregroundDeletion", "a/b"], ["foregroundDeletion", "a/b"]),
        (JOBS, "", [], ["orphan"]),
        (JOBS, "", ["foregroundDeletion"], ["foregroundDeletion"]),
        (JOBS, "Background", [], []),
        (EVENTS, "Foreground", [], []),
        (EVENTS, "Orphan", ["orphan"], []),
    ],
)
def test_the_policy_sets_and_takes_off_the_collectors_finalizers(
    resource: Resource, policy: str, present: list[str], left: list[str]
) -> None:
    outcome = begin(resource, named(finalizers=present), propagation=policy)
    assert outcome.obj["metadata"].get("finalizers", []) == left
    assert outcome.gone is (not left)
    assert ("deletionTimestamp" in outcome.obj["metadata"]) is bool(left)


def test_what_is_held_back_is_marked_once() -> None:
    first = begin(MAPS, named(finalizers=["a/b"], generation=3))
    assert first.obj["metadata"] == {
        "name": "x", "finalizers": ["a/b"], "generation": 4,
        "deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 0,
    }  # fmt: skip
    again = begin(MAPS, first.obj, now=NOW.replace(hour=9))
    assert again == deletion.Deletion(first.obj, gone=False)


SPEC = {"nodeName": "n1", "terminationGracePeriodSeconds": 30}


def pod(spec: dict[str, Any] | None = None, phase: str = "Running", **metadata: Any) -> Any:
    return {**named("Pod", **metadata), "spec": SPEC if spec is None else spec} | {
        "status": {"phase": phase}
    }


@pytest.mark.parametrize(
    ("obj", "asked", "grace_s"),
    [
        (pod(), None, 30),
        (pod(), 5, 5),
        (pod(), 0, 0),
        (pod({"nodeName": "n1"}), None, 0),
        (pod({"terminationGracePeriodSeconds": 30}), None, 0),  # on no node
        (pod({"terminationGracePeriodSeconds": 30}), 9, 0),
        (pod(phase="Succeeded"), None, 0),
        (pod(phase="Failed"), 9, 0),
        (pod({"nodeName": "n1", "terminationGracePeriodSeconds": -1}), None, 1),
    ],
)
def test_a_pod_on_a_node_has_time_to_end(obj: Any, asked: int | None, grace_s: int) -> None:
    outcome = begin(PODS, obj, grace_period_s=asked)
    metadata = outcome.obj["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == grace_s
    assert outcome.gone is (grace_s == 0)
    ends = datetime.fromisoformat(metadata["deletionTimestamp"])
    assert (ends - NOW).total_seconds() == grace_s


def ending(grace_s: int, ends: str, **metadata: Any) -> Any:
    return pod(deletionGracePeriodSeconds=grace_s, deletionTimestamp=ends, **metadata)


@pytest.mark.parametrize(
    ("asked", "grace_s", "ends"),
    [
        (None, 30, "2024-05-06T07:08:29Z"),
        (60, 30, "2024-05-06T07:08:29Z"),
        (30, 30, "2024-05-06T07:08:29Z"),
        (20, 20, "2024-05-06T07:08:19Z"),
        (5, 1, STAMP),  # over already: as short as a graceful end can be
        (0, 0, STAMP),
    ],
)
def test_a_grace_period_under_way_is_only_ever_shortened(
    asked: int | None, grace_s: int, ends: str
) -> None:
    """Deletion was asked for ten seconds ago."""
    outcome = begin(PODS, ending(30, "2024-05-06T07:08:29Z"), grace_period_s=asked)
    metadata = outcome.obj["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == grace_s
    assert metadata["deletionTimestamp"] == ends
    assert outcome.gone is (asked == 0)


def test_a_pod_whose_grace_is_over_goes_with_the_next_delete() -> None:
    assert begin(PODS, ending(0, STAMP)).gone
    held = begin(PODS, ending(0, STAMP, finalizers=["a/b"]))
    assert not held.gone


def test_policies_change_nothing_while_a_grace_period_runs() -> None:
    before = ending(30, "2024-05-06T07:08:29Z", finalizers=["foregroundDeletion"])
    outcome = begin(PODS, before, propagation="Background")
    assert outcome == deletion.Deletion(before, gone=False)


def test_a_namespace_is_marked_and_terminates() -> None:
    space = {**named("Namespace"), "spec": {"finalizers": ["kubernetes"]}}
    first = begin(SPACES, space)
    assert not first.gone
    assert first.obj["status"] == {"phase": "Terminating"}
    assert first.obj["metadata"] == {"name": "x", "deletionTimestamp": STAMP}
    assert begin(SPACES, first.obj) == deletion.Deletion(first.obj, gone=False)
    assert begin(SPACES, {**first.obj, "spec": {}}).gone
    held = {**first.obj, "spec": {}, "metadata": {**first.obj["metadata"], "finalizers": ["a/b"]}}
    assert not begin(SPACES, held).gone


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"propagation": "Foreground"}, ["foregroundDeletion"]),
        ({"propagation": "Orphan"}, ["orphan"]),
        ({"propagation": "Background", "orphan_dependents": False}, ["foregroundDeletion"]),
        ({"propagation": "Background"}, []),
        ({}, []),
    ],
)
def test_policies_of_a_namespace(options: dict[str, Any], left: list[str]) -> None:
    outcome = begin(SPACES, named("Namespace"), **options)
    assert outcome.obj["metadata"].get("finalizers", []) == left


def test_a_definition_waits_for_its_objects() -> None:
    crd = {**named("CustomResourceDefinition", generation=1), "status": {"conditions": []}}
    first = begin(CRDS, crd)
    assert not first.gone
    assert first.obj["metadata"] == {
        "name": "x", "generation": 1, "deletionTimestamp": STAMP,
        "finalizers": ["customresourcecleanup.apiextensions.k8s.io"],
    }  # fmt: skip
    assert first.obj["status"]["conditions"][0]["type"] == "Terminating"
    assert not begin(CRDS, first.obj).gone


MARK = {"deletionTimestamp": STAMP}


@pytest.mark.parametrize(
    ("new", "old", "finished"),
    [
        (named(**MARK), named(**MARK, finalizers=["a/b"]), True),
        (named(**MARK, finalizers=["a/b"]), named(**MARK, finalizers=["a/b"]), False),
        (named(), named(finalizers=["a/b"]), False),
        (named(**MARK), named(**MARK, deletionGracePeriodSeconds=0), True),
        (named(**MARK), named(**MARK, deletionGracePeriodSeconds=30), False),
        (
            {**named("Namespace", **MARK), "spec": {"finalizers": ["kubernetes"]}},
            named("Namespace", **MARK, finalizers=["a/b"]),
            False,
        ),
        ({**named("Namespace", **MARK), "spec": {}}, named("Namespace", **MARK), True),
    ],
)
def test_the_update_that_takes_off_the_last_hold_finishes_a_deletion(
    new: Any, old: Any, finished: bool
) -> None:
    assert deletion.is_finished(new, old) is finished
