"""Discovery and OpenAPI over HTTP paths: `/api`, `/apis`, `/openapi/v3`, and a shell of version 2.

What is served is a catalogue (`fleet.kube.discovery`) and OpenAPI documents by group-version; the
gateway's roots and every kernel hand in their own. Documents carry entity tags, and OpenAPI
documents asked for by hash may be cached for as long as a client likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import orjson

from fleet.errors import MethodNotAllowed, NotFound
from fleet.kube import discovery
from fleet.kube.negotiation import discovery_form
from fleet.kube.wire import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fleet.kube.discovery import Catalogue
    from fleet.kube.wire import Request

_CACHE_FOREVER = "public, immutable"


class OpenApi(Protocol):
    """OpenAPI v3 documents by path (`api/v1`, `apis/apps/v1`)."""

    async def hashes(self) -> Mapping[str, str]:
        """A hash of each document's content; a client asks again only when it changes."""

    async def document(self, path: str) -> bytes | None:
        """The JSON document, or None when there is none of that path."""


_SHELL = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1"}, "paths": {}}
# The same as a `Document` of gnostic's OpenAPIv2.proto: swagger 1, info 2 (title 1, version 2),
# paths 8.
_SHELL_AS_PROTOBUF = b"\n\x032.0\x12\x10\n\nKubernetes\x12\x02v1B\0"


def shell_v2(request: Request) -> Response:
    """An OpenAPI v2 that defines no kind. Raises MethodNotAllowed for anything but GET and HEAD.

    kubectl asks for it before it sends a `kind: List`, which version 3 does not speak of, and gives
    up without. Of a kind that is not defined it leaves it to the server to judge the fields, and
    the server does: each object of the list is written by itself.
    """
    _only_get(request)
    if "protobuf" in request.headers.get("accept", ""):
        kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        return _tagged(request, _SHELL_AS_PROTOBUF, kind)
    return _tagged(request, orjson.dumps(_SHELL), "application/json")


class Documents:
    """Answers the paths above; None for every other path."""

    def __init__(
        self,
        catalogue: Callable[[], Awaitable[Catalogue]],
        openapi: OpenApi,
        *,
        server_address: str,
    ) -> None:
        self._catalogue = catalogue
        self._openapi = openapi
        self._server_address = server_address

    async def answer(self, request: Request) -> Response | None:
        """Raises NotFound for a group or version that is not served, NotAcceptable,
        MethodNotAllowed for anything but GET and HEAD."""
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["api"] | ["api", _] | ["apis"] | ["apis", _] | ["apis", _, _]:
                _only_get(request)
                return await self._discovery(request, parts)
            case ["openapi", "v3", *rest]:
                _only_get(request)
                return await self._open_api(request, "/".join(rest))
        return None

    async def _discovery(self, request: Request, parts: list[str]) -> Response:
        groups = await self._catalogue()
        core = parts[0] == "api"
        content_type = "application/json"
        document: Any
        match parts[1:]:
            case []:
                form = discovery_form(request.headers.get("accept"))
                if form != "legacy":
                    document = discovery.aggregated(groups, core=core, version=form)
                    content_type = discovery.content_type(form)
                elif core:
                    document = discovery.api_versions(groups, server_address=self._server_address)
                else:
                    document = discovery.group_list(groups)
            case [name] if not core:
                document = discovery.group_document(_group(groups, name))
            case [version] if core:
                document = _resource_list(groups, "", version)
            case [name, version] if not core:
                document = _resource_list(groups, name, version)
            case _:
                raise NotFound.path()
        return _tagged(request, orjson.dumps(document), content_type)

    async def _open_api(self, request: Request, path: str) -> Response:
        hashes = await self._openapi.hashes()
        if not path:
            index = {
                "paths": {
                    name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={content}"}
                    for name, content in sorted(hashes.items())
                }
            }
            return _tagged(request, orjson.dumps(index), "application/json")
        document = await self._openapi.document(path) if path in hashes else None
        if document is None:
            raise NotFound.path()
        response = _tagged(request, document, "application/json")
        if request.param("hash") == hashes[path]:
            response.headers = {**response.headers, "cache-control": _CACHE_FOREVER}
        return response


def _only_get(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(f"{request.method} is not supported on {request.path}")


def _group(groups: Catalogue, name: str) -> discovery.Group:
    group = discovery.find_group(groups, name)
    if group is None:
        raise NotFound.path()
    return group


def _resource_list(groups: Catalogue, name: str, version: str) -> Any:
    group = _group(groups, name)
    found = group.version(version)
    if found is None:
        raise NotFound.path()
    return discovery.resource_list(group, found)


def _tagged(request: Request, body: bytes, content_type: str) -> Response:
    tag = discovery.etag(body)
    headers = {"content-type": content_type, "etag": tag, "vary": "Accept"}
    if discovery.not_modified(request.headers.get("if-none-match"), tag):
        return Response(304, headers)
    return Response(200, headers, body)
