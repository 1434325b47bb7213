"""OpenAPI v3 documents of kinds that Kubernetes does not have, as API servers make them of CRDs.

kubectl reads from them what `explain` shows, and by the media types and the `fieldValidation`
parameter of the PATCH operations how to apply
(https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3). Shared definitions
(ObjectMeta, Status, …) are those of the pinned Kubernetes release, which `documents` ships.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.kube.schema.documents import document, openapi_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.kube.resources import Resource

Object = dict[str, Any]

_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Any group version whose document holds the shared definitions; this one is small.
_LENDER: Final = "coordination.k8s.io/v1"
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


@dataclass(frozen=True, slots=True)
class Published:
    """A kind and the `openAPIV3Schema` of its objects."""

    resource: Resource
    schema: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def name(self) -> str:
        """Of its definition: `dev.fleet.v1alpha1.Placement`."""
        gvr = self.resource.gvr
        return ".".join([*reversed(gvr.group.split(".")), gvr.version, self.kind])

    def gvk(self, suffix: str = "") -> Object:
        gvr = self.resource.gvr
        return {"group": gvr.group, "kind": self.kind + suffix, "version": gvr.version}


def published(kinds: Iterable[Published]) -> dict[str, bytes]:
    """Path (`apis/example.com/v1`) to document."""
    by_version: dict[str, list[Published]] = {}
    for kind in kinds:
        by_version.setdefault(kind.resource.api_version, []).append(kind)
    return {openapi_path(version): _document(found) for version, found in by_version.items()}


def _document(kinds: Iterable[Published]) -> bytes:
    schemas = dict(_shared())
    paths: Object = {}
    for kind in kinds:
        schemas[kind.name] = _object(kind)
        schemas[kind.name + "List"] = _list(kind)
        paths |= _paths(kind)
    body = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items()))},
    }
    return orjson.dumps(body)


def _ref(name: str) -> Object:
    return {"$ref": f"{_REF}{name}"}


def _object(kind: Published) -> Object:
    properties = dict(kind.schema.get("properties") or {})
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": _STANDARD[name]}
    properties["metadata"] = {
        "description": _STANDARD["metadata"], "allOf": [_ref(f"{_META}ObjectMeta")],
    }  # fmt: skip
    schema = {
        **kind.schema,
        "properties": properties,
        "x-kubernetes-group-version-kind": [kind.gvk()],
    }
    return schema | _selectable(kind)


def _list(kind: Published) -> Object:
    schema = {
        "description": f"{kind.kind}List is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _STANDARD["apiVersion"]},
            "items": {
                "description": f"List of {kind.resource.gvr.resource}.",
                "type": "array",
                "items": _ref(kind.name),
            },
            "kind": {"type": "string", "description": _STANDARD["kind"]},
            "metadata": {
                "description": "Standard list metadata.",
                "allOf": [_ref(f"{_META}ListMeta")],
            },
        },
        "x-kubernetes-group-version-kind": [kind.gvk("List")],
    }
    return schema | _selectable(kind)


def _selectable(kind: Published) -> Object:
    if not kind.resource.selectable_fields:
        return {}
    fields = [{"fieldPath": name} for name in kind.resource.selectable_fields]
    return {"x-kubernetes-selectable-fields": fields}


def _paths(kind: Published) -> Object:
    row = kind.resource
    root = f"/apis/{row.api_version}"
    base = f"{root}/namespaces/{{namespace}}" if row.namespaced else root
    collection = f"{base}/{row.gvr.resource}"
    places = [_path_parameter("namespace")] if row.namespaced else []
    scope = "Namespaced" if row.namespaced else ""
    group = _camel(row.gvr.group.removesuffix(".k8s.io"))
    tag = f"{group[:1].lower()}{group[1:]}_{row.gvr.version}"
    of = group + _camel(row.gvr.version)
    one, whole = _ref(kind.name), _ref(kind.name + "List")
    status, pretty = _ref(f"{_META}Status"), _query({"pretty": "string"})
    name = _path_parameter("name")

    def operation(
        action: str, verb: str, answer: Object, query: Object, *, codes: Iterable[int] = (200,),
        body: Object | None = None, suffix: str = "",
    ) -> Object:  # fmt: skip
        found: Object = {
            "tags": [tag],
            "operationId": f"{verb}{scope}{kind.kind}{suffix}",
            "parameters": _query(query),
            "responses": _responses(answer, codes),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind.gvk(),
        }
        return found if body is None else found | {"requestBody": body}

    def item(suffix: str = "") -> Object:
        return {
            "get": operation(
                "get", f"read{of}", one, {"resourceVersion": "string"}, suffix=suffix
            ),
            "put": operation(
                "put", f"replace{of}", one, _WRITE, codes=(200, 201),
                body=_body(one, _BODIES), suffix=suffix,
            ),
            "patch": operation(
                "patch", f"patch{of}", one, {**_WRITE, "force": "boolean"},
                body=_body(_ref(f"{_META}Patch"), _PATCHES), suffix=suffix,
            ),
            "parameters": [name, *places, *pretty],
        }  # fmt: skip

    found: Object = {
        collection: {
            "get": operation("list", f"list{of}", whole, _LIST),
            "post": operation(
                "post", f"create{of}", one, _WRITE, codes=(200, 201, 202),
                body=_body(one, _BODIES),
            ),
            "delete": operation(
                "deletecollection", f"delete{of}Collection", status, _LIST
            ),
            "parameters": [*places, *pretty],
        },
        f"{collection}/{{name}}": item()
        | {
            "delete": operation(
                "delete", f"delete{of}", status, _DELETE, codes=(200, 202),
                body=_body(_ref(f"{_META}DeleteOptions"), _BODIES, required=False),
            ),
        },
    }  # fmt: skip
    if any(each.name == "status" for each in row.subresources):
        found[f"{collection}/{{name}}/status"] = item("Status")
    if row.namespaced:
        everywhere = operation("list", f"list{of}", whole, {})
        everywhere["operationId"] = f"list{of}{kind.kind}ForAllNamespaces"
        del everywhere["parameters"]
        found[f"{root}/{row.gvr.resource}"] = {
            "get": everywhere, "parameters": [*_query(_LIST), *pretty],
        }  # fmt: skip
    return found


def _camel(text: str) -> str:
    """`fleet.dev` as operations' ids have it, `FleetDev`: upstream's ToValidOperationID."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"\W+", text, flags=re.ASCII))


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


@cache
def _shared() -> Object:
    """The definitions that ours refer to, and those they refer to in turn."""
    lent = orjson.loads(document(_LENDER))["components"]["schemas"]
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
