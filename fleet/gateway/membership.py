"""A Cluster object stays as long as its member is one: only `fleet leave` ends that.

Deleted alone it would be made anew, without the networks and labels that somebody gave it. Stands
before the kernel of the fleet's own objects; `clusters` makes and removes the objects past it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import Forbidden
from fleet.kube import paths
from policies import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fleet.kube.wire import Handler, Request, Response


class Membership:
    """Passes everything on to `own` but the deletion of what is a member's. Raises Forbidden."""

    def __init__(self, own: Handler, members: Callable[[], Collection[str]]) -> None:
        self._own = own
        self._members = members

    async def handle(self, request: Request) -> Response:
        if request.method == "DELETE":
            target = paths.parse_target(request.method, request.path, request.query)
            if target is not None and target.gvr == CLUSTER.resource.gvr:
                self._refuse(target.name)
        return await self._own.handle(request)

    def _refuse(self, name: str) -> None:
        members = sorted(self._members())
        if name in members or (not name and members):
            which = name or "NAME"
            gvr = CLUSTER.resource.gvr
            why = (
                f"the cluster is a member of the fleet; `fleet leave {which}` takes it out, and "
                "says what stays in it"
            )
            raise Forbidden.of(group=gvr.group, resource=gvr.resource, name=name, why=why)
