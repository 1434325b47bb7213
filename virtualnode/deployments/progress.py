"""What a Deployment's status says: counts, availability, and whether its rollout gets on. Pure.

Upstream's rules and words (pkg/controller/deployment: `calculateStatus` in sync.go, progress.go).
A rollout that does not get on for `progressDeadlineSeconds` is said to have failed; that is all:
nothing is rolled back by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from virtualnode import conditions
from virtualnode.conditions import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from virtualnode.deployments.sizes import Bounds, Sets

Object = dict[str, Any]
Conditions = tuple[Object, ...]

PROGRESSING: Final = "Progressing"
AVAILABLE: Final = "Available"
REPLICA_FAILURE: Final = "ReplicaFailure"

_NEW_AVAILABLE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_PAUSED: Final = "DeploymentPaused"
_UNLIMITED: Final = 2**31 - 1


def deadline_s(deployment: Object) -> int | None:
    """Seconds without progress after which a rollout has failed; None when it never has."""
    deadline = deployment["spec"].get("progressDeadlineSeconds")
    return None if deadline is None or deadline == _UNLIMITED else int(deadline)


# -- conditions that a step brings about


def told_of_pause(deployment: Object, *, now: datetime) -> Conditions:
    """The conditions, saying so when the Deployment was paused or resumed since: the time in
    between does not count against the deadline."""
    known = _known(deployment)
    if deadline_s(deployment) is None:
        return known
    said = conditions.find(known, PROGRESSING)
    reason = said.get("reason") if said is not None else None
    paused = bool(deployment["spec"].get("paused"))
    if reason == _TIMED_OUT or paused == (reason == _PAUSED):
        return known
    if paused:
        return _say(known, "Unknown", _PAUSED, "Deployment is paused", now=now)
    return _say(known, "Unknown", "DeploymentResumed", "Deployment is resumed", now=now)


def told_of_set(
    deployment: Object, known: Conditions, name: str, *, made: bool, now: datetime
) -> Conditions:
    """The conditions after the set with the Deployment's template was made, or found."""
    if deadline_s(deployment) is None:
        return known
    if made:
        message = f'Created new replica set "{name}"'
        return _say(known, "True", "NewReplicaSetCreated", message, now=now)
    if conditions.find(known, PROGRESSING) is None:
        message = f'Found new replica set "{name}"'
        return _say(known, "True", "FoundNewReplicaSet", message, now=now)
    return known


def told_of_failure(deployment: Object, message: str, *, now: datetime) -> Conditions:
    """The conditions when the set with the Deployment's template cannot be made."""
    known = _known(deployment)
    if deadline_s(deployment) is None:
        return known
    return _say(known, "False", "ReplicaSetCreateError", message, now=now)


# -- status


def counted(
    deployment: Object, known: Conditions, sets: Sets, bounds: Bounds, *, now: datetime
) -> Object:
    """The status by what the sets say of their pods."""
    available = sets.count("availableReplicas")
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sets.count("replicas"),
        "updatedReplicas": sets.new.actual if sets.new is not None else 0,
        "readyReplicas": sets.count("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(s.replicas for s in sets) - available, 0),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    terminating = _terminating(sets)
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    collisions = (deployment.get("status") or {}).get("collisionCount")
    if collisions is not None:
        status["collisionCount"] = collisions
    if available >= bounds.least:
        condition = _condition(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            now=now,
        )
    else:
        condition = _condition(
            AVAILABLE,
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            now=now,
        )
    status["conditions"] = list(_with(known, condition))
    return status


def judged(
    deployment: Object, status: Object, sets: Sets, bounds: Bounds, *, now: datetime
) -> Object:
    """A counted status with what is to be said of the rollout."""
    known: Conditions = tuple(status["conditions"])
    if deadline_s(deployment) is None:
        known = _without(known, PROGRESSING)
    elif not _was_complete(status):
        known = _progress(deployment, known, status, sets, bounds, now=now)
    failure = _replica_failure(sets)
    if failure is not None:
        known = _with(known, failure)
    else:
        known = _without(known, REPLICA_FAILURE)
    return {**status, "conditions": list(known)}


def _progress(
    deployment: Object,
    known: Conditions,
    status: Object,
    sets: Sets,
    bounds: Bounds,
    *,
    now: datetime,
) -> Conditions:
    subject = f'Deployment "{deployment["metadata"]["name"]}"'
    if sets.new is not None:
        subject = f'ReplicaSet "{sets.new.name}"'
    if is_complete(status, bounds):
        message = f"{subject} has successfully progressed."
        return _say(known, "True", _NEW_AVAILABLE, message, now=now)
    if _got_on(deployment.get("status") or {}, status):
        said = conditions.find(known, PROGRESSING)
        message = f"{subject} is progressing."
        condition = _condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now=now)
        if said is not None and said.get("status") == "True":
            condition["lastTransitionTime"] = said["lastTransitionTime"]
        # The same reason again, with a later time: that is what the deadline counts from.
        return (*_without(known, PROGRESSING), condition)
    if _is_late(deployment, known, now=now):
        message = f"{subject} has timed out progressing."
        return _say(known, "False", _TIMED_OUT, message, now=now)
    return known


def is_complete(status: Object, bounds: Bounds) -> bool:
    """Whether all pods that are wanted are new and available, and there are no others."""
    return all(
        status.get(field, 0) == bounds.desired
        for field in ("updatedReplicas", "replicas", "availableReplicas")
    )


def next_look(deployment: Object, status: Object, bounds: Bounds, *, now: datetime) -> float | None:
    """Seconds until the rollout is late, if nothing happens before."""
    said = conditions.find(status["conditions"], PROGRESSING)
    deadline = deadline_s(deployment)
    if deadline is None or said is None or deployment["spec"].get("paused"):
        return None
    if is_complete(status, bounds) or said["reason"] in (_TIMED_OUT, _NEW_AVAILABLE):
        return None
    since = conditions.seconds(said.get("lastUpdateTime"))
    if since is None:
        return None
    # Later by a second, since times are whole seconds.
    return max(since + deadline - now.timestamp(), 0.0) + 1.0


def _was_complete(status: Object) -> bool:
    """Whether the rollout had been done before: one set has all pods, and that was said."""
    said = conditions.find(status["conditions"], PROGRESSING)
    alone = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return alone and said is not None and said["reason"] == _NEW_AVAILABLE


def _got_on(before: Object, status: Object) -> bool:
    def old(counts: Object) -> int:
        return int(counts.get("replicas", 0)) - int(counts.get("updatedReplicas", 0))

    return old(status) < old(before) or any(
        status.get(field, 0) > before.get(field, 0)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def _is_late(deployment: Object, known: Conditions, *, now: datetime) -> bool:
    said = conditions.find(known, PROGRESSING)
    deadline = deadline_s(deployment)
    if said is None or deadline is None or said["reason"] == _NEW_AVAILABLE:
        return False
    if said["reason"] == _TIMED_OUT:
        return True
    since = conditions.seconds(said.get("lastUpdateTime"))
    return since is not None and since + deadline < now.timestamp()


def _replica_failure(sets: Sets) -> Object | None:
    """The failure of the new set, else of an old one, as a condition of the Deployment."""
    ordered = (*((sets.new,) if sets.new is not None else ()), *sets.old)
    for each in ordered:
        found = conditions.find((each.seen.get("status") or {}).get("conditions"), REPLICA_FAILURE)
        if found is not None:
            return {**found, "lastUpdateTime": found.get("lastTransitionTime")}
    return None


def _terminating(sets: Sets) -> int | None:
    """The pods that are going away; None when a set does not say."""
    total = 0
    for each in sets:
        status = each.seen.get("status") or {}
        if "terminatingReplicas" in status:
            total += status["terminatingReplicas"]
        elif status.get("observedGeneration"):
            return None
    return total


# -- conditions


def _known(deployment: Object) -> Conditions:
    return tuple((deployment.get("status") or {}).get("conditions") or ())


def _say(known: Conditions, status: str, reason: str, message: str, *, now: datetime) -> Conditions:
    return _with(known, _condition(PROGRESSING, status, reason, message, now=now))


def _condition(kind: str, status: str, reason: str, message: str, *, now: datetime) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": stamp(now),
        "lastTransitionTime": stamp(now),
        "reason": reason,
        "message": message,
    }


def _with(known: Conditions, wanted: Object) -> Conditions:
    """The conditions with `wanted` as the last; one of the same status and reason stays as it
    is, its message and times included."""
    said = conditions.find(known, wanted["type"])
    if said is not None and said["status"] == wanted["status"]:
        if said.get("reason") == wanted["reason"]:
            return known
        wanted = {**wanted, "lastTransitionTime": said["lastTransitionTime"]}
    return (*_without(known, wanted["type"]), wanted)


def _without(known: Iterable[Object], kind: str) -> Conditions:
    return tuple(each for each in known if each["type"] != kind)
