from __future__ import annotations

from typing import Any

import orjson
import pytest

from fleet.kube.schema import (
    DocumentMissing,
    SchemaSet,
    document,
    group_versions,
    openapi_path,
    schema_for,
)
from fleet.kube.schema.documents import go_fields, structural_schema


def nodes(value: Any, *, named: bool = False) -> Any:
    """Every OpenAPI keyword of a document; names chosen by it do not count."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not named:
                yield key, inner
            chosen = {"properties", "schemas", "paths", "responses", "content"}
            yield from nodes(inner, named=not named and key in chosen)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


@pytest.mark.parametrize("group_version", group_versions())
def test_a_document_is_openapi_without_prose(group_version: str) -> None:
    loaded = orjson.loads(document(group_version))
    assert loaded["openapi"].startswith("3.")
    assert loaded["info"]["version"].startswith("1.")
    texts = {text for key, text in nodes(loaded) if key == "description"}
    assert texts <= {""}


@pytest.mark.parametrize("group_version", group_versions())
def test_every_struct_has_its_go_fields(group_version: str) -> None:
    definitions = orjson.loads(document(group_version))["components"]["schemas"]
    for name, node in definitions.items():
        if "properties" in node:
            assert set(go_fields(name)) == set(node["properties"]), name


def test_the_stable_group_versions_are_there() -> None:
    assert {"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"} <= set(group_versions())
    assert not any("beta" in name or "alpha" in name for name in group_versions())
    assert openapi_path("v1") == "api/v1"
    assert openapi_path("apps/v1") == "apis/apps/v1"


def test_an_unknown_group_version_is_named() -> None:
    with pytest.raises(DocumentMissing, match="nope/v1"):
        document("nope/v1")
    assert schema_for("nope", "v1", "Thing") is None
    assert schema_for("apps", "v1", "Thing") is None


def test_patch_offers_the_media_types_and_field_validation_that_kubectl_looks_for() -> None:
    paths = orjson.loads(document("apps/v1"))["paths"]
    patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}


def test_a_schema_is_navigated_through_references() -> None:
    job = schema_for("batch", "v1", "Job")
    assert job is not None
    containers = job.at("spec", "template", "spec", "containers")
    assert containers is not None
    assert (containers.type, containers.patch_merge_key) == ("array", "name")
    assert containers.patch_strategies == ("merge",)
    assert containers.list_map_keys == ("name",)
    ports = containers.at("[]", "ports")
    assert ports is not None
    assert (ports.patch_merge_key, ports.list_map_keys) == (
        "containerPort",
        ("containerPort", "protocol"),
    )
    labels = job.at("metadata", "labels", "*")
    assert labels is not None and labels.type == "string"
    assert job.at("spec", "nope", "deeper") is None
    assert job.at("spec") is job.at("spec")


def test_retain_keys_and_merge_stand_side_by_side() -> None:
    volumes = schema_for("", "v1", "Pod")
    assert volumes is not None
    found = volumes.at("spec", "volumes")
    assert found is not None and found.patch_strategies == ("merge", "retainKeys")


def test_a_foreign_document_is_a_source_of_schemas() -> None:
    foreign = SchemaSet(
        {
            "components": {
                "schemas": {
                    "com.example.v1.Thing": {
                        "type": "object",
                        "properties": {
                            "spec": {"$ref": "#/components/schemas/com.example.v1.Spec"}
                        },
                        "x-kubernetes-group-version-kind": [
                            {"group": "example.com", "version": "v1", "kind": "Thing"}
                        ],
                    },
                    "com.example.v1.Spec": {
                        "type": "object",
                        "properties": {"size": {"type": "integer", "default": 3}},
                    },
                }
            }
        }
    )
    assert foreign.kinds == (("example.com", "v1", "Thing"),)
    thing = foreign.for_kind("example.com", "v1", "Thing")
    assert thing is not None
    size = thing.at("spec", "size")
    assert size is not None and size.default == 3
    assert foreign.for_kind("example.com", "v1", "Other") is None


def test_a_structural_schema_knows_metadata_and_type_without_declaring_them() -> None:
    root = structural_schema({"type": "object", "properties": {"spec": {"type": "object"}}})
    labels = root.at("metadata", "labels")
    assert labels is not None and labels.values is not None
    assert root.at("kind") is not None
    assert root.custom and root.is_resource
    spec = root.field("spec")
    assert spec is not None and spec.field("metadata") is None
