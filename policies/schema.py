"""From models to schemas: the structural schema of a CRD, and the schema for editors.

A structural schema (KEP-1693 rules, `docs: custom resources`) names each type in place, without
references, and closes nothing: unknown fields are the validator's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from policies.base import Model

_REF: Final = "#/$defs/"
_DROPPED: Final = frozenset({"title", "$defs", "additionalProperties", "anyOf", "$ref", "const"})
# What `rules` checks in better words than a schema can; dropped from the kernel's copy.
_CONSTRAINTS: Final = frozenset(
    {"enum", "pattern", "minimum", "maximum", "required", "type", "format", "minItems", "maxItems"}
)

GROUP: Final = "fleet.dev"
VERSION: Final = "v1alpha1"
GROUP_VERSION: Final = f"{GROUP}/{VERSION}"
Schema = dict[str, Any]

_HEAD: Final[Schema] = {
    "apiVersion": {
        "type": "string",
        "description": "Version of the schema this object is written in.",
    },
    "kind": {"type": "string", "description": "Which kind of object this is."},
    "metadata": {"type": "object"},
}


def row(plural: str) -> GroupVersionResource:
    return GroupVersionResource(GROUP, VERSION, plural)


def structural(model: type[Model]) -> Schema:
    """The `openAPIV3Schema` of a CRD for the kind that `model` describes."""
    document = model.model_json_schema(by_alias=True)
    schema = _without_empty(_plain(document, document.get("$defs", {})))
    schema["description"] = summary(model)
    schema["properties"] = {**_HEAD, **schema["properties"]}
    if "status" in schema["properties"]:
        # A status says what was found; nothing in it is there by default.
        schema["properties"]["status"] = _without_defaults(schema["properties"]["status"])
    return schema


def open_copy(schema: Schema) -> Schema:
    """The shape and the defaults alone: nothing is refused or dropped by it.

    A kernel that checks with this leaves every fault to the rules, which name all of them at once
    – unknown fields too, which a structural schema would silently prune. Elements of lists get no
    defaults in the stored object: `kubectl apply` compares lists as a whole, and would find a
    change each time.
    """
    result: Schema = {k: v for k, v in schema.items() if k not in _CONSTRAINTS}
    if "properties" in schema:
        result["properties"] = {
            name: _HEAD[name] if name in _HEAD else open_copy(child)
            for name, child in schema["properties"].items()
        }
        result["x-kubernetes-preserve-unknown-fields"] = True
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _without_defaults(open_copy(schema[key]))
    return result


def for_editors(model: type[Model], kind: str) -> Schema:
    """JSON Schema (2020-12) of a whole object; unknown fields are marked as errors."""
    schema = _closed(structural(model))
    schema["properties"]["metadata"] = {"type": "object", "description": "Name, labels, …"}
    schema["properties"]["apiVersion"]["const"] = GROUP_VERSION
    schema["properties"]["kind"]["const"] = kind
    schema["required"] = [
        "apiVersion", "kind", "metadata",
        *(name for name in schema.get("required", ()) if name not in _HEAD),
    ]  # fmt: skip
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind, **schema}


def summary(model: type[Model]) -> str:
    """What a model says of itself, on one line."""
    return " ".join((model.__doc__ or "").split())


def _plain(node: Schema, definitions: Schema) -> Schema:
    """`node` without references, and without what only Python's side needs."""
    if "$ref" in node:
        referred = _plain(definitions[node["$ref"].removeprefix(_REF)], definitions)
        return {**referred, **_kept(node)}
    if "anyOf" in node and "x-kubernetes-int-or-string" not in node:
        (alternative,) = (each for each in node["anyOf"] if each != {"type": "null"})
        return {**_plain(alternative, definitions), **_kept(node)}
    result = _kept(node)
    if "anyOf" in node:
        result["anyOf"] = node["anyOf"]
    if "const" in node:
        result["enum"] = [node["const"]]
    if "properties" in node:
        result["properties"] = {
            name: _plain(child, definitions) for name, child in node["properties"].items()
        }
    if isinstance(node.get("items"), dict):
        result["items"] = _plain(node["items"], definitions)
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _plain(node["additionalProperties"], definitions)
    return result


def _kept(node: Schema) -> Schema:
    return {k: v for k, v in node.items() if k not in _DROPPED and k not in ("properties", "items")}


def _without_empty(schema: Schema) -> Schema:
    """Without the defaults that say nothing: "", [], null, and {} where nothing is in it.

    What is left out stays out of the stored object then, instead of standing there empty.
    """
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {k: _without_empty(v) for k, v in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _without_empty(schema[key])
    inner = any("default" in child for child in result.get("properties", {}).values())
    if result.get("default", 0) in ("", [], (), None) or (
        result.get("default") == {} and not inner
    ):
        del result["default"]
    return result


def _without_defaults(schema: Schema) -> Schema:
    result = {k: v for k, v in schema.items() if k != "default"}
    if "properties" in schema:
        result["properties"] = {k: _without_defaults(v) for k, v in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _without_defaults(schema[key])
    return result


def _closed(schema: Schema) -> Schema:
    result = dict(schema)
    for key in [key for key in result if key.startswith("x-kubernetes-")]:
        del result[key]
    if "properties" in schema:
        result["properties"] = {k: _closed(v) for k, v in schema["properties"].items()}
        result["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _closed(schema[key])
    return result
