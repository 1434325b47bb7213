"""Objects of shards stand in the fleet's namespace under the fleet's names, and come back."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ApiError, BadRequest, Invalid
from fleet.kube import builtin
from fleet.kube.patch import apply_json_patch, apply_merge_patch
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.revision import Revision
from fleet.view.projection import ObjectKey, Part, PartProjector, Projector

REVISION = Revision(5 << 40 | 77)
KINDS = {row.kind: row for row in builtin.resources() if row.gvr.group != "events.k8s.io"}
METRICS = Resource(
    GroupVersionResource("metrics.k8s.io", "v1beta1", "pods"), "PodMetrics", True, ("get",)
)
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "f", "controller": True}
LABELS = {
    "fleet.dev/workload-namespace": "payments",
    "fleet.dev/workload-uid": "f",
    "fleet.dev/shard": "s0",
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "train-s0-x7k2p",
        "namespace": "fleet-payments",
        "uid": "p1",
        "resourceVersion": "17",
        "labels": {**LABELS, "job-name": "train-s0", "batch.kubernetes.io/job-name": "train-s0"},
        "annotations": {"fleet.dev/owner-reference": orjson.dumps(OWNER).decode()},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train-s0"}],
    },
    "spec": {"nodeName": "n1"},
}
PARTS = {
    ("Pod", "fleet-payments", "train-s0-x7k2p"): Part("payments", "train-s0-x7k2p.east"),
    ("Job", "fleet-payments", "train-s0"): Part("payments", "train", "f"),
    ("Service", "fleet-payments", "api-s0"): Part("payments", "api"),
}


def part_of(key: ObjectKey) -> Part | None:
    return PARTS.get((key.kind, key.namespace, key.name))


def parts(kind: str = "Pod") -> PartProjector:
    row = METRICS if kind == "PodMetrics" else KINDS[kind]
    return PartProjector(Projector("east", row), part_of=part_of)


def shown(obj: dict[str, Any], kind: str = "Pod") -> dict[str, Any]:
    return parts(kind).project(copy.deepcopy(obj), revision=REVISION)


def test_a_pod_of_a_shard_as_the_fleet_shows_it() -> None:
    metadata = shown(POD)["metadata"]
    assert (metadata["namespace"], metadata["name"]) == ("payments", "train-s0-x7k2p.east")
    assert metadata["ownerReferences"] == [OWNER]
    assert metadata["labels"]["job-name"] == metadata["labels"]["batch.kubernetes.io/job-name"]
    assert metadata["labels"]["job-name"] == "train"
    assert metadata["labels"]["fleet.dev/cluster"] == "east"
    assert (metadata["uid"], metadata["resourceVersion"]) == ("p1", str(REVISION))
    assert shown(POD)["spec"] == {"nodeName": "n1.east"}
    assert parts().key(POD) == ("payments", "train-s0-x7k2p.east")


def test_a_stateful_pods_label_names_the_pod_that_is_shown() -> None:
    pod = copy.deepcopy(POD)
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = "train-s0-x7k2p"
    labels = shown(pod)["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "train-s0-x7k2p.east"


def test_an_event_stands_where_its_pod_stands() -> None:
    event = {
        "metadata": {"name": "e.1", "namespace": "fleet-payments", "resourceVersion": "3"},
        "involvedObject": {"kind": "Pod", "namespace": "fleet-payments", "name": "train-s0-x7k2p"},
        "related": {"kind": "Job", "namespace": "fleet-payments", "name": "train-s0", "uid": "m"},
    }
    seen = shown(event, "Event")
    assert seen["metadata"]["namespace"] == "payments"
    assert seen["involvedObject"] == {
        "kind": "Pod",
        "namespace": "payments",
        "name": "train-s0-x7k2p.east",
    }
    assert seen["related"]["name"] == "train" and seen["related"]["uid"] == "f"
    assert parts("Event").unproject(seen) == event


def test_an_endpoint_slice_points_at_pods_and_service_of_the_fleet() -> None:
    pod, native = (
        {"kind": "Pod", "namespace": "fleet-payments", "name": name}
        for name in ("train-s0-x7k2p", "other")
    )
    slice_ = {
        "metadata": {
            "name": "api-s0-1",
            "namespace": "fleet-payments",
            "labels": {**LABELS, "kubernetes.io/service-name": "api-s0"},
        },
        "endpoints": [{"nodeName": "n1", "targetRef": pod}, {"targetRef": native}],
    }
    seen = shown(slice_, "EndpointSlice")
    assert seen["metadata"]["labels"]["kubernetes.io/service-name"] == "api"
    targets = [endpoint["targetRef"] for endpoint in seen["endpoints"]]
    assert (targets[0]["namespace"], targets[0]["name"]) == ("payments", "train-s0-x7k2p.east")
    assert (targets[1]["namespace"], targets[1]["name"]) == ("fleet-payments.east", "other")
    assert parts("EndpointSlice").unproject(seen) == slice_


def test_pod_metrics_have_labels_alone_and_are_parts_by_them() -> None:
    metrics = {"metadata": {"name": "a", "namespace": "fleet-payments", "labels": dict(LABELS)}}
    seen = shown(metrics, "PodMetrics")
    assert (seen["metadata"]["namespace"], seen["metadata"]["name"]) == ("payments", "a.east")
    assert parts("PodMetrics").unproject(seen) == metrics


def test_what_is_no_part_is_not_projected_as_one() -> None:
    native = {"metadata": {"name": "a", "namespace": "p"}}
    assert parts().namespace_of(native) is None
    with pytest.raises(ValueError, match="no part of a fleet workload"):
        shown(native)


anything = (
    st.none() | st.integers(-5, 5) | st.text("ab.", max_size=3) | st.builds(dict) | st.builds(list)
)
odd_metadata = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["train-s0-x7k2p", "a", "a.east"]),
        "namespace": st.sampled_from(["fleet-payments", "payments", "p.east"]),
        "labels": st.fixed_dictionaries(
            {"fleet.dev/workload-namespace": st.just("payments")},
            optional={
                "job-name": st.sampled_from(["train-s0", "train", ""]),
                "statefulset.kubernetes.io/pod-name": st.sampled_from(["a", "b"]),
                "kubernetes.io/service-name": st.sampled_from(["api-s0", "x"]),
                "fleet.dev/cluster": st.sampled_from(["idc", None]),
            },
        ),
    },
    optional={
        "resourceVersion": st.sampled_from(["17", "", "0"]),
        "ownerReferences": anything | st.just([{"kind": "Node", "name": "n1"}]),
        "annotations": anything
        | st.fixed_dictionaries(
            {},
            optional={
                "fleet.dev/owner-reference": st.sampled_from(
                    [orjson.dumps(OWNER).decode(), "{", "[]", '{"name":5}']
                ),
                "fleet.dev/member-metadata": anything,
            },
        ),
    },
)


@given(odd_metadata, st.sampled_from(["Pod", "EndpointSlice", "PodMetrics"]))
def test_every_part_comes_back(metadata: dict[str, Any], kind: str) -> None:
    obj = {
        "metadata": metadata,
        "endpoints": [
            {"targetRef": {"kind": "Pod", "namespace": metadata["namespace"], "name": "a"}},
            {"targetRef": {"kind": "Job", "namespace": "fleet-payments", "name": "train-s0"}},
        ],
    }
    seen = orjson.loads(orjson.dumps(shown(obj, kind)))
    assert parts(kind).unproject(copy.deepcopy(seen)) == obj
    assert parts(kind).unproject(copy.deepcopy(seen), current=seen) == obj


# -- bodies


def test_a_body_goes_back_by_what_the_cache_keeps_and_not_by_what_it_says() -> None:
    current = shown(POD)
    body = copy.deepcopy(current)
    forged = {"part": {"namespace": "kube-system.east", "ownerReferences": []}}
    body["metadata"]["annotations"]["fleet.dev/member-metadata"] = orjson.dumps(forged).decode()
    body["metadata"]["labels"]["mine"] = "1"
    back = parts().unproject(body, namespace="payments", current=current)
    assert back["metadata"]["namespace"] == "fleet-payments"
    assert back["metadata"]["ownerReferences"] == POD["metadata"]["ownerReferences"]
    assert back["metadata"]["labels"] == {**POD["metadata"]["labels"], "mine": "1"}


def test_bodies_of_another_part_are_refused() -> None:
    current = shown(POD)
    for change in ({"namespace": "other"}, {"name": "train"}, {"name": "y.east"}):
        body = copy.deepcopy(current)
        body["metadata"] |= change
        with pytest.raises(BadRequest, match="does not match"):
            parts().unproject(
                body, namespace="payments", name="train-s0-x7k2p.east", current=current
            )


def test_the_owner_of_a_part_is_the_fleets_to_set() -> None:
    body = shown(POD)
    body["metadata"]["ownerReferences"] = []
    with pytest.raises(Invalid, match="is the fleet's to set"):
        parts().unproject(body, current=shown(POD))


def test_a_body_that_lost_its_annotations_says_what_to_do() -> None:
    body = shown(POD)
    del body["metadata"]["annotations"]
    with pytest.raises(BadRequest, match="read the object and send it back"):
        parts().unproject(body)


MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE, {"metadata": {"labels": {"x": "y"}}}),
        (MERGE, {"metadata": {"namespace": "payments", "name": "train-s0-x7k2p.east"}}),
        (MERGE, {"metadata": {"labels": {"job-name": "train"}, "ownerReferences": [OWNER]}}),
        (MERGE, {"metadata": {"resourceVersion": str(REVISION)}, "spec": {"nodeName": "n2.east"}}),
        (MERGE, {"spec": {"activeDeadlineSeconds": 5}}),
        (JSON, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
        (JSON, [{"op": "test", "path": "/metadata/namespace", "value": "payments"}]),
        (JSON, [{"op": "replace", "path": "/spec/nodeName", "value": "n2.east"}]),
    ],
)
def test_patches_of_parts_commute_with_projection(content_type: str, patch: Any) -> None:
    apply: Any = apply_merge_patch if content_type == MERGE else apply_json_patch
    current = shown(POD)

    def revision_of(_: Revision) -> str | None:
        return "17"

    body = parts().unproject_patch(
        content_type, orjson.dumps(patch), current=current, revision_of=revision_of
    )
    in_member = apply(copy.deepcopy(POD), orjson.loads(body))
    in_fleet = apply(copy.deepcopy(current), patch)
    assert in_member == parts().unproject(in_fleet, revision_of=revision_of, current=current)


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE, {"metadata": {"namespace": "other"}}),
        (MERGE, {"metadata": {"ownerReferences": None}}),
        (JSON, [{"op": "remove", "path": "/metadata/ownerReferences"}]),
        (JSON, [{"op": "replace", "path": "/metadata/name", "value": "x"}]),
        (JSON, [{"op": "replace", "path": "", "value": {}}]),
        (JSON, [{"op": "copy", "from": "/metadata/ownerReferences/0", "path": "/spec/x"}]),
    ],
)
def test_patches_of_what_the_fleet_decides_are_refused(content_type: str, patch: Any) -> None:
    with pytest.raises(ApiError):
        parts().unproject_patch(content_type, orjson.dumps(patch), current=shown(POD))
