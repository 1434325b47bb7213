"""Warnings on writes: of workloads that nobody carries out, which are kept and do not run; of rules
that nothing obeys; and, on a dry run of what is carried out, what would be decided about it.

Stands before the kernel of the fleet's own objects; `fleet.dispatch.unplaced` says which kinds are
not carried out, `plans` what would be decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from fleet.dispatch.kinds import KINDS
from fleet.dispatch.unplaced import UNHEEDED, is_unplaced, unheeded, why
from fleet.kube import builtin, paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.kube.paths import Target
    from fleet.kube.wire import Handler, Request, Response

_WRITES = frozenset({"create", "update", "patch"})


class WorkloadWarnings:
    """Passes everything on to `own`, and adds the warning to what it answers."""

    def __init__(self, own: Handler) -> None:
        self._own = own
        self.foresee: Callable[[dict[str, Any]], str] = lambda obj: ""
        """What would be decided about a workload that is not stored; "" where that is not known."""

    async def handle(self, request: Request) -> Response:
        response = await self._own.handle(request)
        if request.method in ("POST", "PUT", "PATCH") and response.status < 300:
            target = paths.parse_target(request.method, request.path, request.query)
            if target is not None and _is_a_write(target) and is_unplaced(target.gvr):
                response.warnings += (why(_kind(target), target.namespace),)
            elif target is not None and _is_a_write(target) and target.gvr in UNHEEDED:
                response.warnings += (unheeded(target.gvr, _kind(target), target.namespace),)
            elif target is not None and _is_a_dry_run(request) and _is_placed(target):
                told = self._foreseen(response)
                response.warnings += (told,) if told else ()
        return response

    def _foreseen(self, response: Response) -> str:
        if not isinstance(response.body, bytes) or not response.body.startswith(b"{"):
            return ""
        return self.foresee(orjson.loads(response.body))


def _is_a_dry_run(request: Request) -> bool:
    return ("dryRun", "All") in request.query


def _is_placed(target: Target) -> bool:
    placed = {kind.gvr for kind in KINDS.values()}
    return _is_a_write(target) and target.gvr in placed


def _is_a_write(target: Target) -> bool:
    return target.verb in _WRITES and not target.subresource


def _kind(target: Target) -> str:
    row = builtin.resource(target.gvr)
    return row.kind if row is not None else target.gvr.group_resource
