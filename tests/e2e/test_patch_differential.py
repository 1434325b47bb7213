"""Patches as we apply them against patches as a real kube-apiserver applies them.

Each patch goes to an object that both sides hold alike; the outcomes must be equal field by field.
Where the apiserver refuses, so must we, with the same code and the same words.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import ApiError
from fleet.kube.defaults import update
from fleet.kube.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, apply_patch
from fleet.kube.schema import FieldValidation, schema_for
from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.controlplane

Object = dict[str, Any]


class Oracle:
    """A kube-apiserver, spoken to in plain JSON."""

    def __init__(self, cluster: LocalCluster) -> None:
        host, port = cluster.server.removeprefix("https://").split(":")
        self._connection = http.client.HTTPSConnection(
            host, int(port), context=cluster.ssl_context(), timeout=60
        )

    def call(
        self, method: str, path: str, body: bytes, content_type: str = "application/json"
    ) -> tuple[int, Object, list[str]]:
        """Status, body and the texts of the Warning headers."""
        self._connection.request(method, path, body=body, headers={"Content-Type": content_type})
        answer = self._connection.getresponse()
        warnings = [
            json.loads(value.removeprefix("299 - "))
            for name, value in answer.getheaders()
            if name == "Warning"
        ]
        return answer.status, json.loads(answer.read()), warnings

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    cluster = LocalCluster("patch-oracle", components=API_ONLY)
    asyncio.run(cluster.start())
    client = Oracle(cluster)
    try:
        yield client
    finally:
        client.close()
        asyncio.run(cluster.stop())


DEPLOYMENT: Object = {
    "metadata": {
        "labels": {"a": "1", "b": "2"},
        "annotations": {"x": "y"},
        "finalizers": ["example.com/a", "example.com/b", "example.com/c"],
    },
    "spec": {
        "replicas": 3,
        "strategy": {"rollingUpdate": {"maxSurge": 1}},
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "initContainers": [{"name": "init", "image": "i:1"}],
                "containers": [
                    {
                        "name": "one",
                        "image": "one:1",
                        "args": ["a", "b", "c"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "ports": [
                            {"containerPort": 80, "name": "web"},
                            {"containerPort": 53, "protocol": "UDP", "name": "dns"},
                        ],
                        "resources": {"limits": {"cpu": "1"}},
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    },
                    {"name": "two", "image": "two:1"},
                ],
                "tolerations": [{"key": "t", "operator": "Exists"}],
                "volumes": [
                    {"name": "v", "emptyDir": {}},
                    {"name": "w", "configMap": {"name": "cm"}},
                ],
                "imagePullSecrets": [{"name": "s1"}],
            },
        },
    },
}
SERVICE: Object = {
    "spec": {
        "selector": {"a": "b"},
        "ports": [
            {"name": "http", "port": 80},
            {"name": "https", "port": 443, "targetPort": "tls"},
        ],
    }
}
CONFIG_MAP: Object = {"data": {"a": "1", "b": "2", "a/b": "no"}}
CONFIG_MAP["data"].pop("a/b")
ACCOUNT: Object = {
    "secrets": [{"name": "a"}, {"name": "b"}],
    "imagePullSecrets": [{"name": "p"}],
}

KINDS: dict[str, tuple[str, str, str, Object]] = {
    "deployment": ("apps/v1", "Deployment", "deployments", DEPLOYMENT),
    "service": ("v1", "Service", "services", SERVICE),
    "configmap": ("v1", "ConfigMap", "configmaps", CONFIG_MAP),
    "account": ("v1", "ServiceAccount", "serviceaccounts", ACCOUNT),
}


def pod(**fields: Any) -> Object:
    return {"spec": {"template": {"spec": fields}}}


def op(kind: str, path: str, *value: Any, **more: Any) -> Object:
    return {"op": kind, "path": path, **({"value": value[0]} if value else {}), **more}


CONTAINERS = "/spec/template/spec/containers"
ENV = f"{CONTAINERS}/0/env"

STRATEGIC: dict[str, tuple[str, Any]] = {
    "nothing": ("deployment", {}),
    "scale": ("deployment", {"spec": {"replicas": 0}}),
    "null-removes": ("deployment", {"metadata": {"labels": {"a": None, "zz": None}}}),
    "null-restores-default": ("deployment", {"spec": {"replicas": None}}),
    "container-by-name": ("deployment", pod(containers=[{"name": "two", "image": "two:2"}])),
    "container-appended": ("deployment", pod(containers=[{"name": "three", "image": "3"}])),
    "two-at-once": (
        "deployment",
        pod(
            containers=[
                {"name": "three", "image": "3"},
                {"name": "one", "env": [{"name": "C", "value": "3"}]},
            ]
        ),
    ),
    "env-merged": (
        "deployment",
        pod(containers=[{"name": "one", "env": [{"name": "B", "value": "9"}, {"name": "C"}]}]),
    ),
    "env-deleted": (
        "deployment",
        pod(containers=[{"name": "one", "env": [{"name": "A", "$patch": "delete"}]}]),
    ),
    "env-replaced": (
        "deployment",
        pod(containers=[{"name": "one", "env": [{"name": "Z"}, {"$patch": "replace"}]}]),
    ),
    "args-replaced": ("deployment", pod(containers=[{"name": "one", "args": ["c"]}])),
    "args-emptied": ("deployment", pod(containers=[{"name": "one", "args": []}])),
    "args-null": ("deployment", pod(containers=[{"name": "one", "args": None}])),
    "container-deleted": (
        "deployment",
        pod(containers=[{"name": "two", "$patch": "delete"}]),
    ),
    "container-deleted-absent": (
        "deployment",
        pod(containers=[{"name": "nobody", "$patch": "delete"}]),
    ),
    "containers-replaced": (
        "deployment",
        pod(containers=[{"$patch": "replace"}, {"name": "new", "image": "n"}]),
    ),
    "tolerations-are-atomic": ("deployment", pod(tolerations=[{"key": "u", "operator": "Exists"}])),
    "port-by-container-port": (
        "deployment",
        pod(containers=[{"name": "one", "ports": [{"containerPort": 80, "name": "renamed"}]}]),
    ),
    "port-key-ignores-protocol": (
        "deployment",
        pod(containers=[{"name": "one", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]),
    ),
    "mount-by-path": (
        "deployment",
        pod(
            containers=[
                {"name": "one", "volumeMounts": [{"mountPath": "/w", "name": "w"}]},
            ]
        ),
    ),
    "volume-source-changed-without-retain": (
        "deployment",
        pod(volumes=[{"name": "v", "configMap": {"name": "cm"}}]),
    ),
    "volume-retain-keys": (
        "deployment",
        pod(
            volumes=[
                {"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "cm"}}
            ]
        ),
    ),
    "retain-keys-inconsistent": (
        "deployment",
        pod(volumes=[{"$retainKeys": ["name"], "name": "v", "configMap": {"name": "cm"}}]),
    ),
    "retain-keys-malformed": ("deployment", {"spec": {"strategy": {"$retainKeys": "type"}}}),
    "strategy-retain-keys": (
        "deployment",
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    ),
    "strategy-without-retain-keys": ("deployment", {"spec": {"strategy": {"type": "Recreate"}}}),
    "map-replaced": ("deployment", {"metadata": {"labels": {"$patch": "replace", "n": "1"}}}),
    "map-deleted": ("deployment", {"metadata": {"annotations": {"$patch": "delete"}}}),
    "map-unknown-directive": ("deployment", {"metadata": {"labels": {"$patch": "explode"}}}),
    "list-unknown-directive": (
        "deployment",
        pod(containers=[{"name": "one", "$patch": "explode"}]),
    ),
    "list-merge-directive": (
        "deployment",
        pod(containers=[{"name": "one", "$patch": "merge"}]),
    ),
    "finalizers-merge": ("deployment", {"metadata": {"finalizers": ["example.com/n"]}}),
    "finalizers-reorder": (
        "deployment",
        {"metadata": {"finalizers": ["example.com/c", "example.com/a", "example.com/n"]}},
    ),
    "finalizers-delete-from": (
        "deployment",
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b", "zz"]}},
    ),
    "finalizers-delete-and-order": (
        "deployment",
        {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["example.com/b"],
                "$setElementOrder/finalizers": ["example.com/c", "example.com/a"],
            }
        },
    ),
    "delete-from-malformed": (
        "deployment",
        {"metadata": {"$deleteFromPrimitiveList": ["example.com/b"]}},
    ),
    "order-containers": (
        "deployment",
        pod(**{"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}),
    ),
    "order-and-add": (
        "deployment",
        pod(
            **{
                "$setElementOrder/containers": [
                    {"name": "three"},
                    {"name": "two"},
                    {"name": "one"},
                ],
                "containers": [{"name": "three", "image": "3"}],
            }
        ),
    ),
    "order-and-delete": (
        "deployment",
        pod(
            **{
                "$setElementOrder/containers": [{"name": "one"}],
                "containers": [
                    {"name": "two", "$patch": "delete"},
                    {"name": "one", "image": "one:2"},
                ],
            }
        ),
    ),
    "order-mismatch": (
        "deployment",
        pod(
            **{
                "$setElementOrder/containers": [{"name": "one"}],
                "containers": [{"name": "three", "image": "3"}],
            }
        ),
    ),
    "order-malformed": ("deployment", pod(**{"$setElementOrder/containers": "x"})),
    "order-env": (
        "deployment",
        pod(
            containers=[
                {
                    "name": "one",
                    "$setElementOrder/env": [{"name": "B"}, {"name": "N"}, {"name": "A"}],
                    "env": [{"name": "N", "value": "n"}],
                }
            ]
        ),
    ),
    "order-of-an-absent-list": (
        "deployment",
        pod(
            containers=[
                {
                    "name": "two",
                    "$setElementOrder/env": [{"name": "N"}],
                    "env": [{"name": "N", "value": "n"}],
                }
            ]
        ),
    ),
    "no-merge-key": ("deployment", pod(containers=[{"image": "x"}])),
    "mixed-list": ("deployment", pod(containers=["x"])),
    "list-of-lists": ("deployment", {"metadata": {"finalizers": [["x"]]}}),
    "list-for-an-object": ("deployment", {"spec": {"template": []}}),
    "object-for-a-list": ("deployment", pod(containers={"name": "x"})),
    "text-for-a-number": ("deployment", {"spec": {"replicas": "3"}}),
    "number-for-a-text": ("deployment", pod(containers=[{"name": "one", "image": 3}])),
    "text-for-an-object": ("deployment", {"spec": "x"}),
    "unknown-field": ("deployment", {"spec": {"bogus": 1, "also": {"x": 1}}}),
    "unknown-object-in-original": ("deployment", {"bogus": {"a": {"b": None}}}),
    "nulls-in-new-objects": (
        "deployment",
        pod(
            containers=[{"name": "two", "securityContext": {"runAsUser": None, "privileged": True}}]
        ),
    ),
    "quantities": (
        "deployment",
        pod(containers=[{"name": "one", "resources": {"limits": {"cpu": "1000m", "memory": 5}}}]),
    ),
    "service-port-added": ("service", {"spec": {"ports": [{"name": "x", "port": 8080}]}}),
    "service-port-by-port": ("service", {"spec": {"ports": [{"port": 443, "targetPort": 1}]}}),
    "service-port-deleted": (
        "service",
        {"spec": {"ports": [{"port": 443, "$patch": "delete"}]}},
    ),
    "service-port-key-type": ("service", {"spec": {"ports": [{"port": "443"}]}}),
    "data-merged": ("configmap", {"data": {"a": None, "c": "3"}}),
    "data-not-text": ("configmap", {"data": {"a": {"b": "c"}}}),
    "data-immutable": ("configmap", {"immutable": True, "data": {"z": "1"}}),
    "secrets-by-name": ("account", {"secrets": [{"name": "c"}, {"name": "a"}]}),
    "secrets-ordered": (
        "account",
        {"$setElementOrder/secrets": [{"name": "b"}, {"name": "a"}]},
    ),
    "owner-by-uid": (
        "configmap",
        {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
                ]
            }
        },
    ),
    "metadata-untouchable": ("configmap", {"metadata": {"generation": 5, "selfLink": "x"}}),
    "kind-changed": ("configmap", {"kind": "Nope", "apiVersion": "v7"}),
    "deletion-set": ("configmap", {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    "name-changed": ("configmap", {"metadata": {"name": "other"}}),
    "uid-changed": ("configmap", {"metadata": {"uid": "other"}}),
}

MERGE: dict[str, tuple[str, Any]] = {
    "nothing": ("deployment", {}),
    "labels": ("deployment", {"metadata": {"labels": {"a": None, "c": "3"}}}),
    "list-replaced": ("deployment", pod(containers=[{"name": "x", "image": "y"}])),
    "null-restores-default": ("deployment", {"spec": {"replicas": None, "strategy": None}}),
    "nulls-in-new-objects": ("deployment", {"metadata": {"annotations": {"q": None}}}),
    "null-in-new-list": (
        "deployment",
        pod(containers=[{"name": "x", "image": "y", "command": None, "args": [None]}]),
    ),
    "object-over-scalar": ("deployment", {"spec": {"replicas": {"a": 1}}}),
    "scalar-over-object": ("deployment", {"spec": 3}),
    "unknown-field": ("deployment", {"spec": {"bogus": {"x": None, "y": 1}}}),
    "required-removed": ("deployment", {"spec": {"selector": None}}),
    "spec-removed": ("configmap", {"data": None}),
    "array": ("deployment", []),
    "text": ("deployment", "x"),
    "null": ("deployment", None),
    "wrong-type": ("deployment", {"spec": {"replicas": "3"}}),
    "kind-changed": ("configmap", {"kind": "Deployment"}),
    "kind-emptied": ("configmap", {"kind": ""}),
    "name-emptied": ("configmap", {"metadata": {"name": None}}),
    "namespace-changed": ("configmap", {"metadata": {"namespace": "other"}}),
    "revision-unset": ("configmap", {"metadata": {"resourceVersion": None}}),
}

JSON: dict[str, tuple[str, Any]] = {
    "nothing": ("deployment", []),
    "null": ("deployment", None),
    "an-object": ("deployment", {"op": "add"}),
    "scalars": ("deployment", [1]),
    "add": ("deployment", [op("add", "/metadata/labels/c", "3")]),
    "add-over": ("deployment", [op("add", "/metadata/labels/a", "3")]),
    "add-escaped": ("deployment", [op("add", "/metadata/annotations/e.com~1a~01", "3")]),
    "add-no-parent": ("deployment", [op("add", "/metadata/nope/c", "3")]),
    "add-into-scalar": ("deployment", [op("add", "/spec/replicas/x", "3")]),
    "add-root": ("deployment", [op("add", "", {"a": 1})]),
    "add-no-slash": ("deployment", [op("add", "metadata/labels", {})]),
    "add-without-value": ("configmap", [op("add", "/data/c")]),
    "add-null": ("configmap", [op("add", "/data/c", None)]),
    "add-at": ("deployment", [op("add", f"{ENV}/1", {"name": "M"})]),
    "add-first": ("deployment", [op("add", f"{ENV}/0", {"name": "M"})]),
    "add-end": ("deployment", [op("add", f"{ENV}/-", {"name": "M"})]),
    "add-at-length": ("deployment", [op("add", f"{ENV}/2", {"name": "M"})]),
    "add-beyond": ("deployment", [op("add", f"{ENV}/3", {"name": "M"})]),
    "add-negative": ("deployment", [op("add", f"{ENV}/-1", {"name": "M"})]),
    "add-negative-beyond": ("deployment", [op("add", f"{ENV}/-4", {"name": "M"})]),
    "add-no-index": ("deployment", [op("add", f"{ENV}/x", {"name": "M"})]),
    "remove": ("deployment", [op("remove", "/metadata/labels/a")]),
    "remove-absent": ("deployment", [op("remove", "/metadata/labels/zz")]),
    "remove-no-parent": ("deployment", [op("remove", "/metadata/nope/zz")]),
    "remove-item": ("deployment", [op("remove", f"{ENV}/0")]),
    "remove-negative": ("deployment", [op("remove", f"{ENV}/-1")]),
    "remove-beyond": ("deployment", [op("remove", f"{ENV}/2")]),
    "remove-dash": ("deployment", [op("remove", f"{ENV}/-")]),
    "replace": ("deployment", [op("replace", "/spec/replicas", 7)]),
    "replace-absent": ("configmap", [op("replace", "/data/zz", "1")]),
    "replace-no-parent": ("configmap", [op("replace", "/nope/zz", "1")]),
    "replace-item": ("deployment", [op("replace", f"{ENV}/-1", {"name": "M"})]),
    "replace-beyond": ("deployment", [op("replace", f"{ENV}/9", {"name": "M"})]),
    "replace-no-index": ("deployment", [op("replace", f"{ENV}/-", {"name": "M"})]),
    "move": ("configmap", [op("move", "/data/c", **{"from": "/data/a"})]),
    "move-absent": ("configmap", [op("move", "/data/c", **{"from": "/data/zz"})]),
    "move-no-parent": ("configmap", [op("move", "/nope/c", **{"from": "/data/a"})]),
    "move-no-from": ("configmap", [op("move", "/data/c")]),
    "move-item": ("deployment", [op("move", f"{ENV}/1", **{"from": f"{ENV}/0"})]),
    "copy": ("configmap", [op("copy", "/data/c", **{"from": "/data/a"})]),
    "copy-absent": ("configmap", [op("copy", "/data/c", **{"from": "/data/zz"})]),
    "copy-no-parent": ("configmap", [op("copy", "/data/c", **{"from": "/nope/zz"})]),
    "copy-deep": (
        "deployment",
        [
            op("copy", f"{CONTAINERS}/-", **{"from": f"{CONTAINERS}/1"}),
            op("replace", f"{CONTAINERS}/2/name", "copy"),
        ],
    ),
    "test": ("deployment", [op("test", "/spec/replicas", 3)]),
    "test-fails": ("deployment", [op("test", "/spec/replicas", 4)]),
    "test-float": ("deployment", [op("test", "/spec/replicas", 3.0)]),
    "test-object": ("configmap", [op("test", "/data", {"b": "2", "a": "1"})]),
    "test-list": (
        "deployment",
        [op("test", "/metadata/finalizers", ["example.com/a", "example.com/b", "example.com/c"])],
    ),
    "test-absent": ("configmap", [op("test", "/data/zz", "1")]),
    "test-absent-null": ("configmap", [op("test", "/data/zz", None)]),
    "test-absent-no-value": ("configmap", [op("test", "/data/zz")]),
    "test-no-parent": ("configmap", [op("test", "/nope/zz", "1")]),
    "test-then-change": (
        "deployment",
        [op("test", "/metadata/labels/a", "1"), op("remove", "/metadata/labels/a")],
    ),
    "change-then-fail": (
        "deployment",
        [op("remove", "/metadata/labels/a"), op("test", "/metadata/labels/a", "1")],
    ),
    "unknown-op": ("configmap", [op("frobnicate", "/data")]),
    "no-op": ("configmap", [{"path": "/data"}]),
    "no-path": ("configmap", [{"op": "add", "value": 1}]),
    "no-path-replace": ("configmap", [{"op": "replace", "value": 1}]),
    "path-number": ("configmap", [{"op": "add", "path": 3, "value": 1}]),
    "unknown-member": ("configmap", [op("add", "/data/c", "1", comment="why")]),
    "unknown-field": ("configmap", [op("add", "/bogus", "1")]),
    "wrong-type": ("deployment", [op("replace", "/spec/replicas", "x")]),
    "root-replaced-by-scalar": ("configmap", [op("replace", "", 3)]),
    "too-many": ("configmap", [op("test", "/data/a", "1")] * 10_001),
}

CASES = [
    pytest.param(media_type, *case, id=f"{label}-{name}")
    for label, media_type, table in (
        ("strategic", STRATEGIC_MERGE_PATCH, STRATEGIC),
        ("merge", MERGE_PATCH, MERGE),
        ("json", JSON_PATCH, JSON),
    )
    for name, case in table.items()
]

# Upstream answers 500 for patches that cannot be applied; the fault is the caller's, so we say 422.
INTERNAL = 500


def path_of(api_version: str, plural: str) -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/default/{plural}"


def comparable(obj: Object) -> Object:
    obj["metadata"].pop("resourceVersion", None)
    obj["metadata"].pop("managedFields", None)
    return obj


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Each place where the two differ, in words."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line
            for key in sorted(ours.keys() | theirs.keys())
            for line in differences(ours.get(key, ...), theirs.get(key, ...), f"{path}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{path}[{i}]")]
    same = type(ours) is type(theirs) and ours == theirs
    return [] if same else [f"{path}: ours {ours!r}, theirs {theirs!r}"]


def words(message: str) -> str:
    """A message without the object and the source file that upstream pastes into it."""
    message = re.sub(r' in scheme "[^"]*"$', "", message)
    head, middle, tail = message.partition("Invalid value: ")
    if not middle:
        return message
    return head + tail.rpartition('": ')[2] if '": ' in tail else head + tail.rpartition("}: ")[2]


@pytest.mark.parametrize("validation", ["Warn", "Strict", "Ignore"])
@pytest.mark.parametrize(("media_type", "kind_name", "patch"), CASES)
def test_a_patch_has_the_outcome_it_has_on_a_real_apiserver(
    oracle: Oracle, request: pytest.FixtureRequest, media_type: str, kind_name: str, patch: Any,
    validation: str,
) -> None:  # fmt: skip
    api_version, kind, plural, parts = KINDS[kind_name]
    name = request.node.callspec.id.lower()[:60].strip("-")
    metadata = {**parts.get("metadata", {}), "name": name}
    base = {"apiVersion": api_version, "kind": kind, **parts, "metadata": metadata}
    status, current, _ = oracle.call(
        "POST", path_of(api_version, plural), json.dumps(base).encode()
    )
    assert status == 201, current["message"]
    current["metadata"].pop("managedFields")

    body = json.dumps(patch).encode()
    status, theirs, their_warnings = oracle.call(
        "PATCH",
        f"{path_of(api_version, plural)}/{name}?fieldValidation={validation}",
        body,
        media_type,
    )

    group, _, version = api_version.rpartition("/")
    schema = schema_for(group, version, kind)
    warnings: list[str] = []
    try:
        patched = apply_patch(
            media_type,
            current,
            body,
            schema=schema,
            validation=FieldValidation(validation),
            warn=warnings.append,
        )
        ours = update(group, version, kind, patched, current, namespace="default")
    except ApiError as error:
        expected = 422 if status == INTERNAL else status
        assert (error.http_code, words(error.message)) == (expected, words(theirs["message"]))
        return
    assert status == 200, theirs["message"]
    assert differences(comparable(ours), comparable(theirs)) == []
    assert sorted(warnings) == sorted(their_warnings)
