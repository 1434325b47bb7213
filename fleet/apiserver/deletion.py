"""What a DELETE does to one object, as a pure decision.

Finalizers and a pod's grace period hold an object back: it is marked and stays until they are
gone. The garbage collector's own finalizers are set and taken off here as the propagation policy
says (k8s.io/apiserver, registry/generic/registry/store.go and registry/rest/delete.go);
`writing` stores the outcome, `controllers` does the collecting.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fleet.apiserver import definitions, strategies
from fleet.kube.defaults.lifecycle import timestamp

if TYPE_CHECKING:
    from fleet.kube.options import DeleteOptions
    from fleet.kube.resources import Resource

Object = dict[str, Any]

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Deletion:
    """`obj` is the object after the DELETE; of one that is `gone`, its last state."""

    obj: Object
    gone: bool


def begin(resource: Resource, obj: Object, options: DeleteOptions, *, now: datetime) -> Deletion:
    """What DELETE makes of `obj`, which is not changed. The preconditions have been checked."""
    marked = copy.deepcopy(obj)
    metadata = marked["metadata"]
    if _is_namespace(resource):
        return _begin_namespace(marked, options, now=now)
    if resource.gvr == definitions.CRDS and not metadata.get("deletionTimestamp"):
        return Deletion(definitions.terminating(marked, now=timestamp(now)), gone=False)
    grace_s = 0
    if resource.gvr.group_resource == "pods":
        if not metadata.get("deletionTimestamp"):
            grace_s = _pod_grace_s(marked, options)
            _mark(metadata, now, grace_s=grace_s)
        elif metadata.get("deletionGracePeriodSeconds"):
            shorter = options.grace_period_s
            if shorter is None or shorter >= metadata["deletionGracePeriodSeconds"]:
                return Deletion(marked, gone=False)
            grace_s = _shorten(metadata, shorter, now)
    finalizers = _finalizers(resource, metadata.get("finalizers") or [], options)
    _set(metadata, "finalizers", finalizers)
    if grace_s:
        return Deletion(marked, gone=False)
    if finalizers:
        _mark(metadata, now, grace_s=0)
    return Deletion(marked, gone=not finalizers)


def is_finished(new: Object, old: Object) -> bool:
    """Whether an update takes off the last of what held a marked object back."""
    if new["metadata"].get("finalizers") or not old["metadata"].get("deletionTimestamp"):
        return False
    if new.get("kind") == "Namespace" and (new.get("spec") or {}).get("finalizers"):
        return False
    return not old["metadata"].get("deletionGracePeriodSeconds")


def _begin_namespace(marked: Object, options: DeleteOptions, *, now: datetime) -> Deletion:
    metadata = marked["metadata"]
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = timestamp(now)
        marked["status"] = {**(marked.get("status") or {}), "phase": "Terminating"}
        kept = [f for f in metadata.get("finalizers") or [] if f not in (ORPHAN, FOREGROUND)]
        given = set(metadata.get("finalizers") or ())
        policy = options.propagation
        if policy == "Orphan" or (not policy and ORPHAN in given):
            kept.append(ORPHAN)
        foreground = policy == "Foreground" or options.orphan_dependents is False
        if foreground or (not policy and FOREGROUND in given):
            kept.append(FOREGROUND)
        _set(metadata, "finalizers", kept)
        return Deletion(marked, gone=False)
    held = metadata.get("finalizers") or (marked.get("spec") or {}).get("finalizers")
    return Deletion(marked, gone=not held)


def _finalizers(resource: Resource, present: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers that the policy leaves, in order; the garbage collector's come last."""
    policy: str = options.propagation
    if not strategies.has_dependents(resource):
        policy = "Background"
    elif not policy:
        by_finalizer = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}
        default = "Orphan" if strategies.orphans_by_default(resource) else "Background"
        policy = next((by_finalizer[f] for f in present if f in by_finalizer), default)
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return present if set(present) == {*kept, *added} else [*kept, *added]


def _mark(metadata: Object, now: datetime, *, grace_s: int) -> None:
    """Mark for deletion; a mark that is there is only ever moved to an earlier time."""
    given = metadata.get("deletionTimestamp")
    if not given and metadata.get("generation"):
        metadata["generation"] += 1
    if not given or _moment(given) > now:
        metadata["deletionTimestamp"] = timestamp(now, plus_s=grace_s)
    metadata["deletionGracePeriodSeconds"] = grace_s


def _pod_grace_s(pod: Object, options: DeleteOptions) -> int:
    """Seconds a pod on a node has to end; anywhere else it goes at once."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in _ENDED:
        return 0
    wanted = options.grace_period_s
    if wanted is None:
        wanted = int(spec.get("terminationGracePeriodSeconds") or 0)
    return wanted if wanted >= 0 else 1


def _shorten(metadata: Object, grace_s: int, now: datetime) -> int:
    """Move the end of a pod's grace period closer, not into the past; the period that is left."""
    asked = _moment(metadata["deletionTimestamp"]) - timedelta(
        seconds=metadata["deletionGracePeriodSeconds"]
    )
    end = asked + timedelta(seconds=grace_s)
    if end < now:
        end = now
        grace_s = min(grace_s, 1)  # a grace that is over is still one that a kubelet ends
    metadata["deletionTimestamp"] = timestamp(end)
    metadata["deletionGracePeriodSeconds"] = grace_s
    return grace_s


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _set(metadata: Object, field: str, values: list[str]) -> None:
    if values:
        metadata[field] = values
    else:
        metadata.pop(field, None)


def _is_namespace(resource: Resource) -> bool:
    return resource.gvr.group_resource == "namespaces"
