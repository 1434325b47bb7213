"""Placements, kept from writes of clients: they are the fleet's own books.

A Placement is the record of what was asked of members: whoever changes it, or takes it away, has
the fleet lose what runs there. Stands before the kernel of the fleet's own objects; the fleet's own
writes do not come by here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import Forbidden
from fleet.kube import paths
from policies import PLACEMENT

if TYPE_CHECKING:
    from fleet.kube.wire import Handler, Request, Response

_READS = frozenset({"get", "list", "watch"})


class Records:
    """Passes everything on to `own` but writes of Placements."""

    def __init__(self, own: Handler) -> None:
        self._own = own

    async def handle(self, request: Request) -> Response:
        """Raises Forbidden, with what to do instead."""
        target = paths.parse_target(request.method, request.path, request.query)
        if target is None or target.gvr != PLACEMENT.resource.gvr or target.verb in _READS:
            return await self._own.handle(request)
        raise Forbidden.of(
            group=target.gvr.group,
            resource=target.gvr.resource,
            name=target.name,
            why="the fleet writes it, as the record of what it put into members; change or delete "
            "the workload instead",
        )
