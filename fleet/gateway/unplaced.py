"""A warning on writes of workloads that nobody carries out: they are kept, and nothing runs.

Stands before the kernel of the fleet's own objects; `fleet.dispatch.unplaced` says which kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.dispatch.unplaced import is_unplaced, why
from fleet.kube import builtin, paths

if TYPE_CHECKING:
    from fleet.kube.paths import Target
    from fleet.kube.wire import Handler, Request, Response

_WRITES = frozenset({"create", "update", "patch"})


class Unplaced:
    """Passes everything on to `own`, and adds the warning to what it answers."""

    def __init__(self, own: Handler) -> None:
        self._own = own

    async def handle(self, request: Request) -> Response:
        response = await self._own.handle(request)
        if request.method in ("POST", "PUT", "PATCH") and response.status < 300:
            target = paths.parse_target(request.method, request.path, request.query)
            if target is not None and _is_of_one(target):
                response.warnings += (why(_kind(target), target.namespace),)
        return response


def _is_of_one(target: Target) -> bool:
    return target.verb in _WRITES and not target.subresource and is_unplaced(target.gvr)


def _kind(target: Target) -> str:
    row = builtin.resource(target.gvr)
    return row.kind if row is not None else target.gvr.group_resource
