"""URL paths of the Kubernetes API: a method and a path to a verb on a target, and back.

The grammar is that of k8s.io/apiserver `RequestInfoFactory`. Paths arrive percent-decoded. What
a resource is (its scope, its verbs) is not known here; `check` compares a target with its row
of discovery once the caller has found it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.errors import Details, MethodNotAllowed, NotFound
from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.kube.resources import Resource, Subresource

CONNECT = frozenset({"exec", "attach", "portforward", "proxy"})
"""Subresources of core resources that become a connection rather than a document."""

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_COLLECTION_VERBS = {"POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_SUBRESOURCE_VERBS = _OBJECT_VERBS | {"POST": "create"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a request acts on.

    `verb` is one of get, list, watch, create, update, patch, delete, deletecollection, connect;
    it is "" for a method that has no route on this path (answer 405: `check` does).
    `namespace` is "" for cluster-scoped targets and for requests over all namespaces; a Namespace
    object is itself cluster-scoped, its name in `name`. A `watch` with a `name` comes from a
    legacy watch path and means the field selector `metadata.name=NAME`. `rest` is what follows
    `/proxy`, with its leading slash. `method` is kept for `connect`, where it decides the right
    that is needed.
    """

    verb: str
    gvr: GroupVersionResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    method: str = "GET"

    @property
    def right(self) -> str:
        """The verb that authorisation asks for: a connection by GET is a `get`, by POST a
        `create`, and so on."""
        return self.verb if self.verb != "connect" else _SUBRESOURCE_VERBS.get(self.method, "")


def is_path_segment(text: str) -> bool:
    """Whether `text` may stand as a name or namespace in a path (apimachinery
    IsPathSegmentName)."""
    return bool(text) and text not in (".", "..") and "/" not in text and "%" not in text


def parse_target(method: str, path: str, query: Iterable[tuple[str, str]] = ()) -> Target | None:
    """The target of a request, or None when the path names no resource (discovery, health,
    unknown paths, unusable segments): the caller answers its own documents or 404."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *tail] if tail:
            group = ""
        case ["apis", group, version, *tail] if tail and group:
            pass
        case _:
            return None
    if not all(is_path_segment(part) for part in (*([group] if group else []), version)):
        return None
    by_prefix = tail[0] == "watch"
    if tail[0] == "proxy":
        # A verb prefix of old, like `watch`, which no server answers any more.
        return None
    if by_prefix:
        tail = tail[1:]
    # Only what follows `proxy` may hold segments that are no names.
    if not tail or not all(map(is_path_segment, tail[:3])):
        return None
    namespace, tail = _split_namespace(tail)
    if not all(map(is_path_segment, tail[:3])):
        return None
    gvr = GroupVersionResource(group, version, tail[0])
    if by_prefix:
        return _watch_by_prefix(method, gvr, namespace, tail)
    if len(tail) == 1:
        verb = _collection_verb(method, query)
        return Target(verb, gvr, namespace, method=method)
    if len(tail) == 2:
        return Target(_OBJECT_VERBS.get(method, ""), gvr, namespace, tail[1], method=method)
    if len(tail) > 3 and (group or tail[2] != "proxy"):
        return None
    verb = _SUBRESOURCE_VERBS.get(method, "")
    rest = ""
    if verb and not group and tail[2] in CONNECT:
        verb = "connect"
        rest = _after_proxy(path, tail) if tail[2] == "proxy" else ""
    return Target(verb, gvr, namespace, tail[1], tail[2], rest, method)


def _split_namespace(tail: list[str]) -> tuple[str, list[str]]:
    """The namespace and what follows it; `namespaces/NAME` and its own subresources stay."""
    if tail[:1] == ["namespaces"] and len(tail) > 2 and tail[2] not in _NAMESPACE_SUBRESOURCES:
        return tail[1], tail[2:]
    return "", tail


def _watch_by_prefix(
    method: str, gvr: GroupVersionResource, namespace: str, tail: list[str]
) -> Target | None:
    if len(tail) > 2:
        return None
    verb = "watch" if method in ("GET", "HEAD") else ""
    return Target(verb, gvr, namespace, tail[1] if len(tail) == 2 else "", method=method)


def _collection_verb(method: str, query: Iterable[tuple[str, str]]) -> str:
    if method not in ("GET", "HEAD"):
        return _COLLECTION_VERBS.get(method, "")
    for key, value in query:
        if key == "watch":
            # As apimachinery converts a query value to a bool: anything else is true.
            return "list" if value == "0" or value.lower() == "false" else "watch"
    return "list"


def _after_proxy(path: str, tail: list[str]) -> str:
    """Everything behind `/RESOURCE/NAME/proxy`, kept to the letter."""
    marker = "/" + "/".join(tail[:3])
    return path[path.index(marker) + len(marker) :]


def check(target: Target, resource: Resource) -> Subresource | None:
    """Compare a target with the resource it names; returns its subresource's row, if any.

    Raises NotFound when the path does not fit the resource's scope or names an unknown
    subresource, MethodNotAllowed when no route takes the method or the verb is not served.
    """
    missing_namespace = (
        resource.namespaced
        and not target.namespace
        and (target.name != "" and target.verb != "watch")
    )
    if missing_namespace or (target.namespace and not resource.namespaced):
        raise NotFound.path()
    subresource: Subresource | None = None
    served = resource.verbs
    if target.subresource:
        subresource = resource.subresource(target.subresource)
        if subresource is None:
            raise NotFound.path()
        served = subresource.verbs
    # One request creates in one namespace, and deletes a collection in one only.
    across = (
        target.verb in ("create", "deletecollection")
        and resource.namespaced
        and not target.namespace
    )
    if not target.verb or across or target.right not in served:
        raise MethodNotAllowed(
            "the server does not allow this method on the requested resource", details=Details()
        )
    return subresource


def path_of(
    gvr: GroupVersionResource, *, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """The path of a collection, an object or a subresource."""
    parts = ["apis", gvr.group, gvr.version] if gvr.group else ["api", gvr.version]
    if namespace:
        parts += ["namespaces", namespace]
    parts += [part for part in (gvr.resource, name, subresource) if part]
    return "/" + "/".join(parts)
