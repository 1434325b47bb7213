"""What a Deployment needs next: one step at a time, by the present state alone. Pure.

The order is upstream's `syncDeployment`: what is paused or scaled is spread over the sets as they
are; else the strategy takes its next step. Each step changes something that brings the Deployment
here again, until there is nothing left to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from virtualnode.deployments import progress, replicas, revisions, rollout, templates
from virtualnode.deployments.sizes import Bounds, Sets, Sized, is_rolling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """The difference to write.

    `make` is a ReplicaSet to create, `change` sets to resize or annotate, `delete` sets to do
    away with; `status` and `revision` are the Deployment's own. `after_s` is when to look again
    whatever happens.
    """

    status: Object
    revision: str = ""
    make: Object | None = None
    change: tuple[Sized, ...] = ()
    delete: tuple[Object, ...] = ()
    after_s: float | None = None


def decide(
    deployment: Object,
    replica_sets: Sequence[Object],
    pods: Mapping[str, Sequence[Object]],
    *,
    now: datetime,
) -> Step:
    """The next step. `replica_sets` are the Deployment's own, `pods` theirs by the set's uid
    (those in deletion included; only a Recreate asks for them)."""
    bounds = Bounds.of(deployment)
    seen = sets = Sets.of(deployment, replica_sets)
    if deployment["metadata"].get("deletionTimestamp"):
        known = tuple((deployment.get("status") or {}).get("conditions") or ())
        return Step(progress.counted(deployment, known, seen, bounds, now=now))
    known = progress.told_of_pause(deployment, now=now)
    if (new := sets.new) is not None:
        sets = sets.put(_kept_up(new, deployment, sets))
        known = progress.told_of_set(deployment, known, new.name, made=False, now=now)
    paused = bool(deployment["spec"].get("paused"))
    rolling = is_rolling(deployment)
    made: Object | None = None
    if paused or rollout.is_scaled(sets, bounds):
        before = int((deployment.get("status") or {}).get("replicas") or 0)
        sets = rollout.scale(sets, bounds, rolling=rolling, before=before)
        status = progress.counted(deployment, known, seen, bounds, now=now)
        cleaned = paused
    else:
        if rolling and sets.new is not None:
            sets = rollout.roll(sets, bounds)
        elif rolling:
            made = _first(deployment, sets, bounds, rollout.first_size(sets, bounds))
        elif any(each.replicas for each in sets.old):
            sets = rollout.retire(sets, bounds)
        elif not _run_on(sets, pods):
            if sets.new is not None:
                sets = sets.put(sets.new.resized(bounds.desired, bounds))
            else:
                made = _first(deployment, sets, bounds, bounds.desired)
        if made is not None:
            name = made["metadata"]["name"]
            known = progress.told_of_set(deployment, known, name, made=True, now=now)
        status = progress.counted(deployment, known, seen, bounds, now=now)
        status = progress.judged(deployment, status, seen, bounds, now=now)
        cleaned = progress.is_complete(status, bounds)
    gone = revisions.superfluous(deployment, seen) if cleaned and made is None else ()
    return Step(
        status,
        revision=_revision(sets, made),
        make=made,
        change=tuple(s for s in sets if s.changed),
        delete=tuple(each.seen for each in gone),
        after_s=progress.next_look(deployment, status, bounds, now=now),
    )


def _kept_up(new: Sized, deployment: Object, sets: Sets) -> Sized:
    """The set with the Deployment's template, with what it takes over of the Deployment."""
    return replace(
        new,
        annotations=revisions.annotations_for(deployment, new.annotations, sets.old),
        min_ready_s=int(deployment["spec"].get("minReadySeconds") or 0),
    )


def _first(deployment: Object, sets: Sets, bounds: Bounds, size: int) -> Object:
    """The set for a template that none has."""
    annotations = revisions.annotations_for(deployment, bounds.annotations, sets.old)
    return templates.replica_set_of(deployment, replicas=size, annotations=annotations)


def _revision(sets: Sets, made: Object | None) -> str:
    if made is not None:
        return str(made["metadata"]["annotations"][revisions.REVISION])
    return sets.new.annotations.get(revisions.REVISION, "") if sets.new is not None else ""


def _run_on(sets: Sets, pods: Mapping[str, Sequence[Object]]) -> bool:
    """Whether a pod of an old set has not ended yet."""
    return any(
        each.actual
        or any(not replicas.has_ended(pod) for pod in pods.get(each.seen["metadata"]["uid"], ()))
        for each in sets.old
    )
