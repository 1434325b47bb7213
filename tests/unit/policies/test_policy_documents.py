"""What is made of the models: structural schemas, the OpenAPI document, the reference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.kube.tables.custom import custom_printer
from policies.kind import custom_resource_definition
from policies.reference import files

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
KINDS = pytest.mark.parametrize("kind", policies.kinds(), ids=lambda kind: kind.name)


def nodes(schema, path=""):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


@KINDS
def test_every_field_is_described_in_one_sentence(kind):
    for path, node in nodes(kind.schema):
        name = path.rpartition(".")[2]
        if not path or path.endswith("[]") or name in ("apiVersion", "kind", "metadata"):
            continue
        words = node.get("description", "")
        assert words.endswith("."), f"{path}: {words!r}"
        assert "\n" not in words


@KINDS
def test_every_field_of_a_spec_has_a_default_or_may_be_left_out_or_is_needed_with_its_parent(kind):
    needed = kind.schema["properties"]["spec"].get("required", ())
    assert ("spec" in kind.schema.get("required", ())) is bool(needed)
    for path, node in nodes(kind.schema):
        for needed in node.get("required", ()):
            assert "default" not in node["properties"][needed], f"{path}.{needed}"


@KINDS
def test_schemas_are_structural(kind):
    """The rules of custom resources: no references, a type everywhere, no closed objects."""
    for path, node in nodes(kind.schema):
        assert "$ref" not in node and "allOf" not in node, path
        assert "additionalProperties" not in node or isinstance(node["additionalProperties"], dict)
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        if "default" in node and node["default"] != {}:
            assert node["default"] not in ("", [], None), path


@KINDS
def test_the_kernel_can_be_given_the_kind(kind):
    custom = CustomKind(
        resource=kind.resource,
        openapi=kind.openapi,
        columns=kind.columns,
        status=kind.status,
        rules=kind.rules,
    )
    assert custom.schema.field("spec") is not None
    printer = custom_printer(kind.columns)
    assert printer.columns[0].name == "Name"
    assert len(printer.columns) == len(kind.columns) + 1, "every path of a column can be read"


def test_columns_of_clusters():
    (kind,) = (each for each in policies.kinds() if each.name == "Cluster")
    assert [column["name"].upper() for column in kind.columns] == [
        "READY", "API", "DATA", "FRESH", "VERSION", "NODES", "ACCELERATORS", "FREE", "PRICE/H",
        "PLANE", "AGE",
    ]  # fmt: skip


def test_all_kinds_are_in_the_category_fleet():
    assert {kind.resource.categories for kind in policies.kinds()} == {("fleet",)}


@KINDS
def test_a_definition_names_all_there_is(kind):
    definition = custom_resource_definition(kind)
    assert definition["metadata"]["name"] == f"{kind.plural}.fleet.dev"
    (version,) = definition["spec"]["versions"]
    assert ("subresources" in version) is kind.status


def test_the_openapi_document_has_what_kubectl_reads():
    ((path, raw),) = policies.openapi_document().items()
    document = json.loads(raw)
    assert path == "apis/fleet.dev/v1alpha1"
    for kind in policies.kinds():
        schema = document["components"]["schemas"][f"dev.fleet.v1alpha1.{kind.name}"]
        gvk = {"group": "fleet.dev", "kind": kind.name, "version": "v1alpha1"}
        assert schema["x-kubernetes-group-version-kind"] == [gvk]
        place = "namespaces/{namespace}/" if kind.namespaced else ""
        item = document["paths"][f"/apis/fleet.dev/v1alpha1/{place}{kind.plural}/{{name}}"]
        patch = item["patch"]
        assert patch["x-kubernetes-group-version-kind"] == gvk
        assert "fieldValidation" in {each["name"] for each in patch["parameters"]}


def test_every_reference_in_the_document_leads_somewhere():
    (raw,) = policies.openapi_document().values()
    schemas = json.loads(raw)["components"]["schemas"]
    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', raw.decode()))
    assert wanted <= set(schemas)


@pytest.mark.parametrize("name", sorted(files()))
def test_the_reference_is_up_to_date(name):
    stands = (REFERENCE / name).read_text(encoding="utf-8")
    assert stands == files()[name], "run scripts/generate-reference"


def test_the_reference_names_every_field():
    page = files()["policies.md"]
    for kind in policies.kinds():
        for path, _ in nodes(kind.schema["properties"]["spec"]):
            name = path.removesuffix("[]").rpartition(".")[2]
            assert name in page
