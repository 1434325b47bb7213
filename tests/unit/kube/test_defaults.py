from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.defaults import apply_defaults
from fleet.kube.defaults.pods import pull_policy, quality_of_service
from fleet.kube.schema import decode, schema_for
from fleet.kube.schema.documents import structural_schema

Object = dict[str, Any]


def filled(group: str, version: str, kind: str, body: Object) -> Object:
    key = (group, version, kind)
    decoded = decode(json.dumps(body).encode(), schema=schema_for(*key), kind=key)
    return apply_defaults(*key, decoded.object)


def job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
    return filled("batch", "v1", "Job", {"spec": {"template": template, **spec}})


@pytest.mark.parametrize(
    ("given_spec", "expected"),
    [
        ({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6, "suspend": False}),
        ({"parallelism": 4}, {"parallelism": 4, "backoffLimit": 6}),
        ({"completions": 4}, {"completions": 4, "parallelism": 1}),
        ({"backoffLimitPerIndex": 1}, {"backoffLimit": 2**31 - 1}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
        ({"parallelism": 0, "backoffLimit": 0}, {"parallelism": 0, "backoffLimit": 0}),
    ],
)
def test_a_job_counts_by_what_is_given(given_spec: Object, expected: Object) -> None:
    assert job(**given_spec)["spec"].items() >= expected.items()


def test_an_open_ended_job_gets_no_completions() -> None:
    assert "completions" not in job(parallelism=4)["spec"]


def test_a_template_gets_what_a_pod_template_gets() -> None:
    pod = job()["spec"]["template"]["spec"]
    assert pod.items() >= {
        "dnsPolicy": "ClusterFirst", "restartPolicy": "Never", "securityContext": {},
        "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler",
    }.items()  # fmt: skip
    assert "enableServiceLinks" not in pod
    assert pod["containers"][0].items() >= {
        "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "resources": {},
    }.items()  # fmt: skip


def test_a_deployment_rolls_by_quarters() -> None:
    spec = filled("apps", "v1", "Deployment", {"spec": {}})["spec"]
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
    recreate = {"spec": {"strategy": {"type": "Recreate"}, "replicas": 0}}
    spec = filled("apps", "v1", "Deployment", recreate)["spec"]
    assert (spec["strategy"], spec["replicas"]) == ({"type": "Recreate"}, 0)


def test_a_service_is_reached_by_its_port() -> None:
    spec = filled("", "v1", "Service", {"spec": {"ports": [{"port": 80}]}})["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["sessionAffinity"]) == ("ClusterIP", "None")
    assert "externalTrafficPolicy" not in spec


def test_the_text_of_a_secret_becomes_data() -> None:
    secret = filled("", "v1", "Secret", {"data": {"a": "YQ=="}, "stringData": {"b": "é"}})
    assert secret["data"] == {"a": "YQ==", "b": "w6k="}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"


def test_a_namespace_is_labelled_by_its_name_once_it_has_one() -> None:
    named = filled("", "v1", "Namespace", {"metadata": {"name": "a"}})
    assert named["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    assert "labels" not in filled("", "v1", "Namespace", {})["metadata"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("host:5000/busybox", "Always"),
        ("host:5000/team/busybox:v1", "IfNotPresent"),
        ("busybox@sha256:" + "a" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "a" * 64, "Always"),
        ("Not/An:Image", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_images_without_a_fixed_tag_are_pulled_always(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_a_pod_requests_what_it_is_limited_to() -> None:
    body = {"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}]}}
    resources = filled("", "v1", "Pod", body)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


def test_a_pods_own_limits_lead_to_requests_that_cover_its_containers() -> None:
    body = {
        "spec": {
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"resources": {"requests": {"cpu": "3"}}},
            ],
            "containers": [{"resources": {"requests": {"cpu": "500m"}}}],
        }
    }
    requests = filled("", "v1", "Pod", body)["spec"]["resources"]["requests"]
    # The init container needs 3 beside the sidecar's 1; later 500m beside it are less.
    assert requests == {"cpu": "4", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "Guaranteed",
        ),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            "Burstable",
        ),
    ],
)
def test_quality_of_service(resources: Object, expected: str) -> None:
    assert quality_of_service({"spec": {"containers": [{"resources": resources}]}}) == expected


def test_declared_defaults_of_a_custom_resource_fill_what_is_absent_or_wrongly_null() -> None:
    schema = structural_schema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "mode": {"type": "string", "default": "A"},
                        "maybe": {"type": "string", "nullable": True, "default": "B"},
                        "inner": {
                            "type": "object",
                            "default": {},
                            "properties": {"on": {"type": "boolean", "default": True}},
                        },
                    },
                }
            },
        }
    )
    spec = {"spec": {"mode": None, "maybe": None}}
    result = apply_defaults("example.com", "v1", "Thing", spec, schema=schema)
    assert result["spec"] == {"mode": "A", "maybe": None, "inner": {"on": True}}
    assert "spec" not in apply_defaults("example.com", "v1", "Thing", {}, schema=schema)


KINDS = [
    ("", "v1", "Pod"), ("", "v1", "Service"), ("", "v1", "Secret"), ("", "v1", "Namespace"),
    ("batch", "v1", "Job"), ("batch", "v1", "CronJob"), ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"), ("apps", "v1", "DaemonSet"), ("", "v1", "ConfigMap"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"), ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"), ("", "v1", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[2])
def test_an_empty_object_has_defaults_and_they_are_settled(kind: tuple[str, str, str]) -> None:
    once = filled(*kind, {"metadata": {"name": "x"}})
    before = copy.deepcopy(once)
    assert apply_defaults(*kind, once) == once == before


containers = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"]), "image": st.sampled_from(["i", "i:1"])},
    optional={
        "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(1, 9)}), max_size=2),
        "livenessProbe": st.just({"grpc": {"port": 1}}),
        "resources": st.fixed_dictionaries(
            {"limits": st.dictionaries(st.just("cpu"), st.sampled_from(["1", "0.00001", "1500m"]))}
        ),
    },
)


@given(st.lists(containers, max_size=3), st.booleans())
def test_defaults_settle_whatever_the_pod(drawn: list[Object], host_network: bool) -> None:
    body = {"spec": {"containers": drawn, "hostNetwork": host_network}}
    once = filled("", "v1", "Pod", body)
    assert apply_defaults("", "v1", "Pod", once) == once
