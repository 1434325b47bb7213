"""Where each request goes: the first handler behind the gateway's HTTP server.

    /livez /readyz /healthz /version /metrics   answered here
    /clusters/NAME/…                            the member NAME, path below its root
    /fleet/…                                    the fleet's own objects
    /…                                          the merged view

The server has authenticated the caller (`authentication`); this module refuses what no root may
see – requests of nobody, and impersonation, which the gateway itself uses towards members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from fleet.errors import Forbidden, MethodNotAllowed, NotFound, Unauthorized
from fleet.gateway import metrics, version
from fleet.gateway.authentication import is_public
from fleet.gateway.authority import ADMIN_GROUP
from fleet.gateway.routes import MEMBER, OBJECTS, route_of
from fleet.kube.wire import ANONYMOUS, Handler, Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.gateway.health import Health

_INDEX = (
    "/api",
    "/apis",
    "/clusters",
    "/fleet",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
)
_READING = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Roots:
    """What stands behind the three roots. Each sees the path below its own prefix; for `members`
    that begins with the member's name. `actions` are whole paths that are calls, not objects."""

    merged: Handler
    objects: Handler
    members: Handler
    actions: Mapping[str, Handler] = field(default_factory=dict)


class Edge:
    """The gateway as one handler."""

    def __init__(self, roots: Roots, *, health: Health) -> None:
        self._roots = roots
        self._health = health

    async def handle(self, request: Request) -> Response:
        path = request.path
        if request.user == ANONYMOUS and not is_public(path):
            raise Unauthorized("Unauthorized")
        if self._health.owns(path):
            _only_reading(request)
            return await self._health.handle(request)
        if not is_public(path) and ADMIN_GROUP not in request.user.groups:
            raise Forbidden(
                f"{request.user.name} is not in {ADMIN_GROUP}, and the gateway knows no rights but "
                "those of its administrators"
            )
        if any(name.startswith("impersonate-") for name in request.headers):
            raise Forbidden(
                f"{request.user.name} may not impersonate anybody: the gateway does not take "
                "Impersonate headers (kubectl --as)"
            )
        action = self._roots.actions.get(path)
        if action is not None:
            return await action.handle(request)
        route = route_of(path)
        if route.root == MEMBER:
            if not route.member:
                raise NotFound.path()
            below = request.below(f"/{route.member}{route.path}")
            return await self._roots.members.handle(below)
        own = self._own(route.path, request, merged=route.root != OBJECTS)
        if own is not None:
            return own
        if route.root == OBJECTS:
            return await self._roots.objects.handle(request.below(route.path))
        return await self._roots.merged.handle(request)

    def _own(self, path: str, request: Request, *, merged: bool) -> Response | None:
        """What the gateway answers by itself below `/` and `/fleet/`."""
        if path == "/version":
            _only_reading(request)
            return version.response()
        if not merged:
            return None
        if path == "/metrics":
            _only_reading(request)
            return metrics.response()
        if path == "/":
            _only_reading(request)
            return Response(
                200, {"Content-Type": "application/json"}, orjson.dumps({"paths": _INDEX})
            )
        return None


def _only_reading(request: Request) -> None:
    if request.method not in _READING:
        raise MethodNotAllowed(f"{request.method} is not served on {request.path}: it is read-only")
