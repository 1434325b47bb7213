"""What the conditions of a namespace in deletion say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fleet.apiserver.controllers.namespaces import (
    conditions_of,
    is_ending,
    released,
    with_conditions,
)
from fleet.errors import StoreError
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.kube.revision import Revision
from fleet.store.entry import Entry

FIRST, LATER = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)


def space(**metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": "lab", **metadata},
        "spec": {"finalizers": ["kubernetes"]},
    }


def entries(*finalizers: list[str]) -> list[Entry]:
    return [
        Entry(
            {
                "kind": "Deployment",
                "apiVersion": "apps/v1",
                "metadata": {"name": f"d{number}", "namespace": "lab", "finalizers": names},
            },
            revision=Revision(number + 1),
        )
        for number, names in enumerate(finalizers)
    ]


def test_only_a_namespace_in_deletion_that_waits_for_us_is_ours() -> None:
    assert not is_ending(space())
    assert is_ending(space(deletionTimestamp="2024-01-01T00:00:00Z"))
    others = {**space(deletionTimestamp="2024-01-01T00:00:00Z"), "spec": {"finalizers": ["a/b"]}}
    assert not is_ending(others)
    assert not is_ending({**others, "spec": {}})


def test_it_is_released_of_our_finalizer_alone() -> None:
    assert released(space())["spec"] == {}
    both = {**space(), "spec": {"finalizers": ["a/b", "kubernetes"]}}
    assert released(both)["spec"] == {"finalizers": ["a/b"]}
    assert both["spec"] == {"finalizers": ["a/b", "kubernetes"]}


def test_conditions_count_objects_and_finalizers() -> None:
    deployments = builtin.resource(GroupVersionResource("apps", "v1", "deployments"))
    assert deployments is not None
    found = conditions_of(
        {deployments: entries(["a/b"], ["a/b", "c/d"], [])}, [StoreError("full"), KeyError("x")]
    )
    told = {c["type"]: c["message"] for c in found if c["status"] == "True"}
    assert told == {
        "NamespaceDeletionContentFailure": (
            "Failed to delete all resource types, 2 remaining: KeyError, full"
        ),
        "NamespaceContentRemaining": (
            "Some resources are remaining: deployments.apps has 3 resource instances"
        ),
        "NamespaceFinalizersRemaining": (
            "Some content in the namespace has finalizers remaining: a/b in 2 resource instances, "
            "c/d in 1 resource instances"
        ),
    }


def test_a_time_changes_only_with_its_status() -> None:
    first = with_conditions(space(), conditions=conditions_of({}, []), now=FIRST)
    assert with_conditions(first, conditions=conditions_of({}, []), now=LATER) == first
    failed = conditions_of({}, [StoreError("full")])
    later = with_conditions(first, conditions=failed, now=LATER)
    times = {c["type"]: c["lastTransitionTime"] for c in later["status"]["conditions"]}
    assert times.pop("NamespaceDeletionContentFailure") == "2024-01-02T00:00:00Z"
    assert set(times.values()) == {"2024-01-01T00:00:00Z"}
    # another reason for the same status is told, under the old time
    worse = conditions_of({}, [StoreError("worse")])
    much_later = datetime(2024, 1, 3, tzinfo=UTC)
    again = with_conditions(later, conditions=worse, now=much_later)["status"]["conditions"]
    shown = next(c for c in again if c["type"] == "NamespaceDeletionContentFailure")
    assert "worse" in shown["message"]
    assert shown["lastTransitionTime"] == "2024-01-02T00:00:00Z"


def test_conditions_of_others_stay() -> None:
    mine = {"type": "Mine", "status": "True"}
    found = {**space(), "status": {"phase": "Terminating", "conditions": [mine]}}
    after = with_conditions(found, conditions=conditions_of({}, []), now=FIRST)["status"]
    assert after["phase"] == "Terminating"
    assert after["conditions"][0] == mine
    assert len(after["conditions"]) == 6
