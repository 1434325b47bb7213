"""Warnings on writes: of workloads that nobody carries out, which are kept and do not run; of rules
that nothing obeys; of changes of a Job that runs already, which are not brought to where it runs;
of a last checkpoint that is to come; of names that nothing has, and keys that nobody reads
(`workload_mentions`); and, on a dry run of what is carried out, what would be decided about it.

Stands before the kernel of the fleet's own objects; `fleet.dispatch.unplaced` says which kinds are
not carried out, `plans` what would be decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from fleet.dispatch import record as records
from fleet.dispatch.jobs import JOBS
from fleet.dispatch.kinds import KINDS, row_of
from fleet.dispatch.unplaced import UNHEEDED, is_unplaced, unheeded, why
from fleet.gateway.givens import PRIORITY_CLASSES
from fleet.gateway.workload_mentions import policy_named, unknown_names, unread_keys
from fleet.kube import builtin, paths
from fleet.scheduling.checkpoints import not_come
from fleet.scheduling.selection import POLICY_LABEL
from policies import PLACEMENT
from policies.placement import name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from fleet.dispatch.record import Record
    from fleet.kube.paths import Target
    from fleet.kube.wire import Handler, Request, Response
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

_WRITES = frozenset({"create", "update", "patch"})
# Of a Job's spec, what is judged by the fleet for as long as the Job is there.
_FOLLOWED = frozenset({
    "activeDeadlineSeconds", "backoffLimit", "managedBy", "suspend", "ttlSecondsAfterFinished",
})  # fmt: skip
_SIZE = frozenset({"spec.completions", "spec.parallelism"})
_NO_DEFAULT = (
    "globalDefault: nobody obeys this; a workload that names no PriorityClass has the priority 0"
)
_PLACED = frozenset({"QuotaHeld", "Holding", "Committed", "Running"})


class WorkloadWarnings:
    """Passes everything on to `own`, and adds the warning to what it answers."""

    def __init__(self, own: Handler, store: ObjectStore, *, now: Callable[[], datetime]) -> None:
        self._own = own
        self._store = store
        self._now = now
        self.foresee: Callable[[dict[str, Any]], str] = lambda obj: ""
        """What would be decided about a workload that is not stored; "" where that is not known."""

    async def handle(self, request: Request) -> Response:
        before = self._placed_job(request)
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
            if target is not None and _is_placed(target):
                obj = _object_in(response)
                told = not_come(obj, now=self._now().timestamp())
                response.warnings += (told,) if told else ()
                response.warnings += tuple(unread_keys(obj, self._store))
                if not _is_a_dry_run(request):  # that one is told more
                    response.warnings += tuple(unknown_names(obj, self._store))
            if target is not None and _is_a_write(target) and target.gvr == PRIORITY_CLASSES:
                marked = _object_in(response).get("globalDefault")
                response.warnings += (_NO_DEFAULT,) if marked else ()
            if before is not None and (kept := _kept(*before, _object_in(response))):
                response.warnings += (kept,)
        return response

    def _foreseen(self, response: Response) -> str:
        obj = _object_in(response)
        return self.foresee(obj) if obj else ""

    def _placed_job(self, request: Request) -> tuple[Object, Record] | None:
        """The Job that a request would change, as it is before, and its record; None unless it has
        a place."""
        if request.method not in ("PUT", "PATCH"):
            return None
        target = paths.parse_target(request.method, request.path, request.query)
        if target is None or target.gvr != JOBS.gvr or not _is_a_write(target):
            return None
        place = (target.namespace, name_of(JOBS.name, target.name))
        placement = self._store.get(PLACEMENT.resource, *place)
        entry = self._store.get(row_of(JOBS.gvr), target.namespace, target.name)
        if placement is None or entry is None:
            return None
        record = records.read(placement.parse().get("status") or {})
        return (entry.parse(), record) if record.phase in _PLACED else None


def _object_in(response: Response) -> Object:
    """The object that is answered; {} where it is in another encoding, for a program."""
    if not isinstance(response.body, bytes) or not response.body.startswith(b"{"):
        return {}
    found: Object = orjson.loads(response.body)
    return found


def _kept(old: Object, record: Record, new: Object) -> str:
    """What of a change has no effect on a Job that has a place; "" where all of it has."""
    before, after = old.get("spec") or {}, new.get("spec")
    if not after or after.get("suspend"):
        return ""  # it is taken away, and made anew by what it says then
    changed = {
        f"spec.{name}"
        for name in (before.keys() | after.keys()) - _FOLLOWED
        if before.get(name) != after.get(name)
    }
    if record.elastic:
        changed -= _SIZE  # it follows them; what it cannot have was refused
    if policy_named(old) != policy_named(new):
        changed.add(f"metadata.labels[{POLICY_LABEL}]")
    if not changed:
        return ""
    fields = ", ".join(sorted(changed))
    return (
        f"{fields}: the Job runs on as it was placed; the change takes effect when it is placed "
        "anew: set spec.suspend to true, and back to false once its pods are gone"
    )


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
