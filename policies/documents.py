"""The OpenAPI v3 document of `apis/fleet.dev/v1alpha1`, in the form API servers give to CRDs.

kubectl reads from it what `explain` shows, and by the `fieldValidation` parameter of the PATCH
operations that the server validates fields. Shared definitions (ObjectMeta, Status, …) are those of
the pinned Kubernetes release.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.schema import document, openapi_path
from policies.registry import kinds
from policies.schema import GROUP, GROUP_VERSION, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kind import Kind

Object = dict[str, Any]

_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Any group version whose document holds the shared definitions; this one is small.
_LENDER: Final = "coordination.k8s.io/v1"
_TAG: Final = "fleetDev_v1alpha1"
_OPERATION: Final = "FleetDevV1alpha1"
_BODIES: Final = ("application/json", "application/yaml")
_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json")

_LIST: Final = {
    "allowWatchBookmarks": "boolean", "continue": "string", "fieldSelector": "string",
    "labelSelector": "string", "limit": "integer", "resourceVersion": "string",
    "resourceVersionMatch": "string", "sendInitialEvents": "boolean", "timeoutSeconds": "integer",
    "watch": "boolean",
}  # fmt: skip
_WRITE: Final = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_DELETE: Final = {
    "dryRun": "string", "gracePeriodSeconds": "integer", "orphanDependents": "boolean",
    "propagationPolicy": "string",
}  # fmt: skip
_STANDARD: Final = {
    "apiVersion": "APIVersion defines the versioned schema of this representation of an object.",
    "kind": "Kind is a string value representing the REST resource this object represents.",
    "metadata": "Standard object's metadata.",
}


@cache
def openapi_document() -> dict[str, bytes]:
    """Path (`apis/fleet.dev/v1alpha1`) to document, as the gateway publishes them."""
    schemas: Object = {}
    paths: Object = {}
    for kind in kinds():
        schemas[_definition(kind)] = _object(kind)
        schemas[_definition(kind, "List")] = _list(kind)
        paths |= _paths(kind)
    schemas |= _shared()
    body = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items()))},
    }
    return {openapi_path(GROUP_VERSION): json.dumps(body, separators=(",", ":")).encode()}


def _definition(kind: Kind[Any], suffix: str = "") -> str:
    return f"dev.fleet.{VERSION}.{kind.name}{suffix}"


def _ref(name: str) -> Object:
    return {"$ref": f"{_REF}{name}"}


def _gvk(kind: Kind[Any], suffix: str = "") -> Object:
    return {"group": GROUP, "kind": kind.name + suffix, "version": VERSION}


def _object(kind: Kind[Any]) -> Object:
    properties = dict(kind.schema["properties"])
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": _STANDARD[name]}
    properties["metadata"] = {
        "description": _STANDARD["metadata"], "allOf": [_ref(f"{_META}ObjectMeta")],
    }  # fmt: skip
    schema = {
        **kind.schema,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(kind)],
    }
    return schema | _selectable(kind)


def _list(kind: Kind[Any]) -> Object:
    schema = {
        "description": f"{kind.name}List is a list of {kind.name}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _STANDARD["apiVersion"]},
            "items": {
                "description": f"List of {kind.plural}.",
                "type": "array",
                "items": _ref(_definition(kind)),
            },
            "kind": {"type": "string", "description": _STANDARD["kind"]},
            "metadata": {
                "description": "Standard list metadata.",
                "allOf": [_ref(f"{_META}ListMeta")],
            },
        },
        "x-kubernetes-group-version-kind": [_gvk(kind, "List")],
    }
    return schema | _selectable(kind)


def _selectable(kind: Kind[Any]) -> Object:
    if not kind.selectable_fields:
        return {}
    fields = [{"fieldPath": name} for name in kind.selectable_fields]
    return {"x-kubernetes-selectable-fields": fields}


def _paths(kind: Kind[Any]) -> Object:
    root = f"/apis/{GROUP_VERSION}"
    base = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
    places = [_path_parameter("namespace")] if kind.namespaced else []
    scope = "Namespaced" if kind.namespaced else ""
    one, whole = _ref(_definition(kind)), _ref(_definition(kind, "List"))
    status, pretty = _ref(f"{_META}Status"), _query({"pretty": "string"})
    name = _path_parameter("name")

    def operation(
        action: str, verb: str, answer: Object, query: Object, *, codes: Iterable[int] = (200,),
        body: Object | None = None, suffix: str = "",
    ) -> Object:  # fmt: skip
        found: Object = {
            "tags": [_TAG],
            "operationId": f"{verb}{scope}{kind.name}{suffix}",
            "parameters": _query(query),
            "responses": _responses(answer, codes),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
        }
        return found if body is None else found | {"requestBody": body}

    def item(suffix: str = "") -> Object:
        return {
            "get": operation(
                "get", f"read{_OPERATION}", one, {"resourceVersion": "string"}, suffix=suffix
            ),
            "put": operation(
                "put", f"replace{_OPERATION}", one, _WRITE, codes=(200, 201),
                body=_body(one, _BODIES), suffix=suffix,
            ),
            "patch": operation(
                "patch", f"patch{_OPERATION}", one, {**_WRITE, "force": "boolean"},
                body=_body(_ref(f"{_META}Patch"), _PATCHES), suffix=suffix,
            ),
            "parameters": [name, *places, *pretty],
        }  # fmt: skip

    found: Object = {
        f"{base}/{kind.plural}": {
            "get": operation("list", f"list{_OPERATION}", whole, _LIST),
            "post": operation(
                "post", f"create{_OPERATION}", one, _WRITE, codes=(200, 201, 202),
                body=_body(one, _BODIES),
            ),
            "delete": operation(
                "deletecollection", f"delete{_OPERATION}Collection", status, _LIST
            ),
            "parameters": [*places, *pretty],
        },
        f"{base}/{kind.plural}/{{name}}": item()
        | {
            "delete": operation(
                "delete", f"delete{_OPERATION}", status, _DELETE, codes=(200, 202),
                body=_body(_ref(f"{_META}DeleteOptions"), _BODIES, required=False),
            ),
        },
    }  # fmt: skip
    if kind.status:
        found[f"{base}/{kind.plural}/{{name}}/status"] = item("Status")
    if kind.namespaced:
        everywhere = operation("list", f"list{_OPERATION}", whole, {})
        everywhere["operationId"] = f"list{_OPERATION}{kind.name}ForAllNamespaces"
        del everywhere["parameters"]
        found[f"{root}/{kind.plural}"] = {
            "get": everywhere, "parameters": [*_query(_LIST), *pretty],
        }  # fmt: skip
    return found


def _path_parameter(name: str) -> Object:
    return {
        "name": name, "in": "path", "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }  # fmt: skip


def _query(parameters: Object) -> list[Object]:
    return [
        {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
        for name, kind in parameters.items()
    ]


def _body(schema: Object, media_types: Iterable[str], *, required: bool = True) -> Object:
    body: Object = {"content": {each: {"schema": schema} for each in media_types}}
    return body | {"required": True} if required else body


def _responses(answer: Object, codes: Iterable[int]) -> Object:
    content = {each: {"schema": answer} for each in _BODIES}
    words = {200: "OK", 201: "Created", 202: "Accepted"}
    given = {str(code): {"description": words[code], "content": content} for code in codes}
    return given | {"401": {"description": "Unauthorized"}}


def _shared() -> Object:
    """The definitions that ours refer to, and those they refer to in turn."""
    lent = json.loads(document(_LENDER))["components"]["schemas"]
    found: Object = {}
    wanted = [f"{_META}{name}" for name in ("ObjectMeta", "ListMeta", "Status", "Patch",
                                            "DeleteOptions")]  # fmt: skip
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = lent[name]
            wanted += _references(lent[name])
    return found


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for each in node for name in _references(each)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"].removeprefix(_REF)] if isinstance(node.get("$ref"), str) else []
    return own + [name for each in node.values() for name in _references(each)]
