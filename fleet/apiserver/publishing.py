"""OpenAPI v3 documents of kinds that definitions define.

What kubectl needs of them: the fields for `explain`, the kind of each definition, and on PATCH the
media types and the `fieldValidation` parameter, by which it decides how to apply
(https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.kube.schema import document, openapi_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.apiserver.kinds import CustomKind

Object = dict[str, Any]

_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_LENDER: Final = "coordination.k8s.io/v1"  # any document that holds the shared definitions
_BODIES: Final = ("application/json", "application/yaml")
_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json")
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_LIST: Final = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit",
    "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip


def documents(kinds: Iterable[CustomKind]) -> dict[str, bytes]:
    """Path (`apis/example.com/v1`) to document."""
    by_group: dict[str, list[CustomKind]] = {}
    for kind in kinds:
        by_group.setdefault(kind.resource.api_version, []).append(kind)
    return {openapi_path(version): _document(found) for version, found in by_group.items()}


def _document(kinds: list[CustomKind]) -> bytes:
    schemas = dict(_shared())
    paths: Object = {}
    for kind in kinds:
        name = _name(kind)
        schemas[name] = _object(kind)
        schemas[name + "List"] = _list(kind)
        paths |= _paths(kind)
    body = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items()))},
    }
    return orjson.dumps(body)


def _name(kind: CustomKind) -> str:
    gvr = kind.resource.gvr
    reversed_group = ".".join(reversed(gvr.group.split(".")))
    return f"{reversed_group}.{gvr.version}.{kind.resource.kind}"


def _gvk(kind: CustomKind, suffix: str = "") -> Object:
    gvr = kind.resource.gvr
    return {"group": gvr.group, "version": gvr.version, "kind": kind.resource.kind + suffix}


def _object(kind: CustomKind) -> Object:
    properties = dict(kind.openapi.get("properties") or {})
    properties |= {
        "apiVersion": {"type": "string", "description": "The version of this form of the object."},
        "kind": {"type": "string", "description": "What kind of object this is."},
        "metadata": {
            "description": "Standard object's metadata.",
            "allOf": [{"$ref": f"{_REF}{_META}ObjectMeta"}],
        },
    }
    return {
        **kind.openapi,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(kind)],
    }


def _list(kind: CustomKind) -> Object:
    return {
        "description": f"A list of {kind.resource.kind}.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": _REF + _name(kind)}},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{_REF}{_META}ListMeta"}]},
        },
        "x-kubernetes-group-version-kind": [_gvk(kind, "List")],
    }


def _paths(kind: CustomKind) -> Object:
    row = kind.resource
    base = f"/apis/{row.api_version}"
    place = f"{base}/namespaces/{{namespace}}" if row.namespaced else base
    one = {"$ref": _REF + _name(kind)}
    listed = {"$ref": f"{_REF}{_name(kind)}List"}
    status = {"$ref": f"{_REF}{_META}Status"}
    patch = {"$ref": f"{_REF}{_META}Patch"}
    scope = [_parameter("namespace", "path")] if row.namespaced else []
    tag = "".join(part.capitalize() for part in _name(kind).split("."))

    def operation(
        action: str, answer: Object, query: Iterable[str], body: Object | None = None, end: str = ""
    ) -> Object:
        bodies = _PATCHES if action == "patch" else _BODIES
        found: Object = {
            "operationId": f"{action}{tag}{end}",
            "parameters": [_parameter(name, "query") for name in query],
            "responses": {"200": {"description": "OK", "content": _content(answer, _BODIES)}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
        }
        return (
            found if body is None else {**found, "requestBody": {"content": _content(body, bodies)}}
        )

    def item(end: str) -> Object:
        return {
            "get": operation("get", one, ("resourceVersion",), end=end),
            "put": operation("put", one, _WRITE, one, end),
            "patch": operation("patch", one, (*_WRITE, "force"), patch, end),
            "parameters": [_parameter("name", "path"), *scope],
        }

    collection = f"{place}/{row.gvr.resource}"
    found: Object = {
        collection: {
            "get": operation("list", listed, _LIST),
            "post": operation("post", one, _WRITE, one),
            "delete": operation("deletecollection", status, _LIST),
            "parameters": scope,
        },
        f"{collection}/{{name}}": {**item(""), "delete": operation("delete", status, ("dryRun",))},
    }
    if kind.status:
        found[f"{collection}/{{name}}/status"] = item("Status")
    if row.namespaced:
        found[f"{base}/{row.gvr.resource}"] = {
            "get": operation("list", listed, _LIST, end="ForAllNamespaces")
        }
    return found


def _content(schema: Object, types: Iterable[str]) -> Object:
    return {media_type: {"schema": schema} for media_type in types}


def _parameter(name: str, where: str) -> Object:
    found: Object = {"name": name, "in": where, "schema": {"type": "string", "uniqueItems": True}}
    return {**found, "required": True} if where == "path" else found


@cache
def _shared() -> Object:
    """The definitions that ours refer to, and those they refer to in turn."""
    lent = orjson.loads(document(_LENDER))["components"]["schemas"]
    names = ("ObjectMeta", "ListMeta", "Status", "Patch")
    found: Object = {}
    wanted = [_META + name for name in names]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = lent[name]
            wanted += _references(lent[name])
    return found


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for inner in node for name in _references(inner)]
    if not isinstance(node, dict):
        return []
    named = [node["$ref"].removeprefix(_REF)] if "$ref" in node else []
    return named + [name for inner in node.values() for name in _references(inner)]
