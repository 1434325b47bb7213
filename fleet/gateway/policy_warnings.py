"""A warning on writes of policies that name what the fleet does not have.

Stands before the kernel of the fleet's own objects; `fleet.scheduling.mentions` says which names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from fleet.errors import Invalid
from fleet.kube import paths
from fleet.scheduling.mentions import known_of, unknown_names
from policies import CLUSTER, FLEET_QUOTA, PLACEMENT_POLICY, PRICE_BOOK

if TYPE_CHECKING:
    from fleet.kube.wire import Handler, Request, Response
    from fleet.store.objects import ObjectStore

_WRITES = frozenset({"create", "update", "patch"})
_JUDGED = {kind.resource.gvr: kind.name for kind in (FLEET_QUOTA, PLACEMENT_POLICY, PRICE_BOOK)}


class PolicyWarnings:
    """Passes everything on to `own`, and adds the warnings to what it answers."""

    def __init__(self, own: Handler, store: ObjectStore) -> None:
        self._own = own
        self._store = store

    async def handle(self, request: Request) -> Response:
        response = await self._own.handle(request)
        if request.method in ("POST", "PUT", "PATCH") and response.status < 300:
            target = paths.parse_target(request.method, request.path, request.query)
            if target is not None and target.verb in _WRITES and not target.subresource:
                kind = _JUDGED.get(target.gvr)
                if kind is not None:
                    response.warnings += self._warnings(kind, response)
        return response

    def _warnings(self, kind: str, response: Response) -> tuple[str, ...]:
        if not isinstance(response.body, bytes):
            return ()
        try:
            written = orjson.loads(response.body)
        except orjson.JSONDecodeError:
            return ()  # in another encoding, for a program
        if not isinstance(written, dict) or written.get("kind") != kind:
            return ()  # a table, or metadata alone
        clusters = self._store.collection(CLUSTER.resource).snapshot().entries()
        known = known_of(entry.parse() for entry in clusters)
        try:
            return tuple(unknown_names(kind, written.get("spec") or {}, known))
        except Invalid:
            return ()  # what was refused elsewhere has no names to judge
