"""The one write of a dispatcher: a nomination, on a Workload that is still as it was decided about.

It is made as a user of its own, which the manager binds to a ClusterRole of two rules; what a
member joined with is not used for it. Between the look and the apply nothing can slip in: the apply
names the revision of the look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from adapters.kueue.nominations import FIELD_MANAGER, nominating
from adapters.kueue.objects import WORKLOADS, read_workload
from fleet.errors import ApiError, Forbidden
from fleet.kube.paths import path_of
from fleet.kube.wire import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.kueue.fleet import Fleet
    from adapters.kueue.objects import Workload

Object = dict[str, Any]

USER: Final = "fleet:multikueue"
"""As whom a manager is written to. `examples/multikueue/rights.yaml` gives it its rights."""
AS: Final = {"impersonate-user": USER, "accept": "application/json"}
_APPLY: Final = "application/apply-patch+yaml"
_TAKEN = (404, 409)


class Written(NamedTuple):
    """What is there, None where that is not known, and whether this write made it so: somebody else
    may have been there first, or the Workload is gone."""

    obj: Object | None
    done: bool


async def write(fleet: Fleet, manager: str, workload: Workload, clusters: Sequence[str]) -> Written:
    """Nominate, if the Workload still is what `workload` was read from.

    Raises Forbidden where the manager gives no right to, ApiError and TransportError.
    """
    path = path_of(WORKLOADS, namespace=workload.namespace, name=workload.name)
    try:
        present = await fleet.call(manager, Request("GET", path, headers=AS))
        if not _same(present, workload):
            return Written(present, done=False)
        body = orjson.dumps(nominating(present, clusters))
        query = (("fieldManager", FIELD_MANAGER), ("force", "true"))
        headers = AS | {"content-type": _APPLY}
        request = Request("PATCH", f"{path}/status", query, headers=headers, body=body)
        return Written(await fleet.call(manager, request), done=True)
    except ApiError as error:
        if error.http_code in _TAKEN:
            return Written(None, done=False)
        if error.http_code == Forbidden.code:
            raise Forbidden(
                f"{error}; the manager has to let the user {USER} do it: apply "
                "examples/multikueue/rights.yaml there"
            ) from error
        raise


def _same(present: Object, workload: Workload) -> bool:
    """Whether the decision still holds; changes of anything else do no harm."""
    found = read_workload(present)
    return (
        found.uid == workload.uid
        and found.nominated == workload.nominated
        and found.checks == workload.checks
        and found.reserved_at == workload.reserved_at
        and found.reserved
        and not (found.cluster or found.evicted or found.over)
    )
