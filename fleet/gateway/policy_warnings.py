"""Warnings on writes of policies: of names that the fleet does not have, of fields that nobody
acts on or that have no effect beside others, and of work that is left without a quota or a policy.

Stands before the kernel of the fleet's own objects; `fleet.scheduling.mentions` says which names,
`policies.recorded` and `policies.moot` which fields, `uncounted` and `unruled` which work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import Invalid
from fleet.gateway.own import NAMESPACES
from fleet.gateway.uncounted import Counted
from fleet.gateway.unruled import named_in, ruled_by, selects_as
from fleet.kube import paths
from fleet.scheduling.mentions import known_of, unknown_names
from fleet.scheduling.selection import DEFAULT, SHARED_NAMESPACE
from policies import CLUSTER, FLEET_QUOTA, PLACEMENT_POLICY, kinds
from policies.moot import moot
from policies.recorded import recorded_only

if TYPE_CHECKING:
    from fleet.kube.paths import Target
    from fleet.kube.wire import Handler, Request, Response
    from fleet.store.objects import ObjectStore
    from policies import Kind

Object = dict[str, Any]

_WRITES = frozenset({"create", "update", "patch"})
_CHANGES = frozenset({"update", "patch", "delete", "deletecollection"})
_JUDGED = {kind.resource.gvr: kind for kind in kinds() if kind.written_by_users}
_BUILT_IN = (
    f"work that no policy selects is under {SHARED_NAMESPACE}/{DEFAULT} as it is built in; what "
    "was changed of it is gone"
)
_DELETES = frozenset({"delete", "deletecollection"})
_SELECTORS = ("labelSelector", "fieldSelector")
_COUNTING = frozenset({FLEET_QUOTA.resource.gvr, NAMESPACES})


class PolicyWarnings:
    """Passes everything on to `own`, and adds the warnings to what it answers."""

    def __init__(self, own: Handler, store: ObjectStore) -> None:
        self._own = own
        self._store = store

    async def handle(self, request: Request) -> Response:
        if request.method not in ("POST", "PUT", "PATCH", "DELETE"):
            return await self._own.handle(request)
        target = paths.parse_target(request.method, request.path, request.query)
        if target is None or target.subresource:
            return await self._own.handle(request)
        counts = target.verb in _CHANGES and target.gvr in _COUNTING
        before = Counted(self._store) if counts else None
        rules = target.gvr == PLACEMENT_POLICY.resource.gvr and target.verb in _DELETES
        there = named_in(self._store, target.namespace) if rules and not target.name else None
        response = await self._own.handle(request)
        if response.status >= 300:
            return response
        kind = _JUDGED.get(target.gvr)
        if kind is not None and target.verb in _WRITES:
            response.warnings += self._warnings(kind, response)
        if before is not None and (left := self._left(before, target, response)):
            response.warnings += (left,)
        if rules:
            gone = frozenset({target.name}) if there is None else there
            if there is not None and any(map(request.param, _SELECTORS)):
                # Of a dry run nobody knows then which it would be.
                gone = there - named_in(self._store, target.namespace)
            left = ruled_by(self._store, target.namespace, gone)
            response.warnings += (left,) if left else ()
            if target.namespace == SHARED_NAMESPACE and DEFAULT in gone:
                response.warnings += (_BUILT_IN,)
        return response

    def _warnings(self, kind: Kind[Any], response: Response) -> tuple[str, ...]:
        written = _object_in(response)
        if written.get("kind") != kind.name:
            return ()  # a table, or metadata alone
        clusters = self._store.collection(CLUSTER.resource).snapshot().entries()
        known = known_of(entry.parse() for entry in clusters)
        spec = written.get("spec") or {}
        try:
            read = kind.parse({"spec": spec}).spec
        except Invalid:
            return ()  # what was refused elsewhere has no names to judge
        said = [*unknown_names(kind.name, spec, known), *recorded_only(read, spec), *moot(read)]
        if kind is PLACEMENT_POLICY and (same := selects_as(self._store, written)):
            said.append(same)
        return tuple(said)

    def _left(self, before: Counted, target: Target, response: Response) -> str:
        """What is said of work that the write leaves without a quota. On a dry run nothing is
        stored: what would be there is in the answer."""
        there = Counted(self._store)
        after = {NAMESPACES: there.namespaces, FLEET_QUOTA.resource.gvr: there.quotas}
        changed = after[target.gvr]
        if target.verb == "delete":
            if target.gvr == FLEET_QUOTA.resource.gvr:
                changed.pop(target.name, None)
        elif target.name and "spec" in (written := _object_in(response)):
            changed[target.name] = written
        return before.left_by(there.quotas, there.namespaces)


def _object_in(response: Response) -> Object:
    """The object that is answered; {} where it is in another encoding, for a program."""
    if not isinstance(response.body, bytes):
        return {}
    try:
        written = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        return {}
    return written if isinstance(written, dict) else {}
