"""How many pods a ReplicaSet lacks or has too many of, which go first, and its status. Pure.

The rules of upstream's replica set controller (pkg/controller/replicaset, and `ActivePodsWithRanks`
in pkg/controller/controller_utils.go).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

from virtualnode import conditions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

Object = dict[str, Any]

BURST: Final = 500  # pods that one pass creates or deletes at most
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_FAILURE: Final = "ReplicaFailure"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = re.compile(r"0|-?[1-9][0-9]{0,9}")
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Decision:
    """How many pods to create, or which to delete."""

    create: int = 0
    delete: tuple[Object, ...] = ()


def decide(
    replica_set: Object, pods: Sequence[Object], related: Iterable[Object], *, now: datetime
) -> Decision:
    """What brings the active `pods` of a set to the number it asks for.

    `related` are the pods of all sets of the same owner: of two pods, the one that shares its
    node with more of them goes first.
    """
    if replica_set["metadata"].get("deletionTimestamp"):
        return Decision()
    surplus = len(pods) - wanted(replica_set)
    if surplus < 0:
        return Decision(create=min(-surplus, BURST))
    return Decision(delete=tuple(deletion_order(pods, related, now=now)[: min(surplus, BURST)]))


def pod_of(replica_set: Object) -> Object:
    """A pod as the set's template has it."""
    metadata = replica_set["metadata"]
    template = replica_set["spec"]["template"]
    given = template.get("metadata") or {}
    prefix = f"{metadata['name']}-"
    made: Object = {
        "generateName": prefix if len(prefix) <= 253 else metadata["name"],
        "namespace": metadata["namespace"],
    }
    for field in ("labels", "annotations", "finalizers"):
        if given.get(field):
            made[field] = given[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}


def wanted(replica_set: Object) -> int:
    replicas = replica_set["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


# -- facts about pods


def is_active(pod: Object) -> bool:
    """Whether a pod counts as a replica: it has not ended and is not going away."""
    return not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")


def is_terminating(pod: Object) -> bool:
    return not has_ended(pod) and bool(pod["metadata"].get("deletionTimestamp"))


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def available_in(pod: Object, *, min_ready_s: int, now: datetime) -> float | None:
    """Seconds until a pod counts as available, 0 when it does; None while it is not ready."""
    if not conditions.is_true(pod, "Ready"):
        return None
    if not min_ready_s:
        return 0.0
    since = _ready_since(pod)
    if since is None:
        return None
    return max(since + min_ready_s - now.timestamp(), 0.0)


def _ready_since(pod: Object) -> float | None:
    ready = conditions.find((pod.get("status") or {}).get("conditions"), "Ready")
    return conditions.seconds(ready.get("lastTransitionTime")) if ready is not None else None


# -- which pods go first


def deletion_order(
    pods: Sequence[Object], related: Iterable[Object], *, now: datetime
) -> list[Object]:
    """The pods, those first that are missed least.

    Ages are compared by their order of magnitude, so that among pods of about the same age chance
    (the uid) decides, not the last seconds of a rollout.
    """
    on_node = Counter(_node(pod) for pod in related if is_active(pod))
    at = now.timestamp()

    def compare(one: Object, other: Object) -> int:
        a, b = _rank(one, on_node), _rank(other, on_node)
        if a != b:
            return -1 if a < b else 1
        if conditions.is_true(one, "Ready"):
            order = _younger(one, other, _ready_since(one), _ready_since(other), now=at)
            if order:
                return order
        restarts, other_restarts = _restarts(one), _restarts(other)
        if restarts != other_restarts:
            return -1 if restarts > other_restarts else 1
        made, other_made = (
            conditions.seconds(pod["metadata"].get("creationTimestamp")) for pod in (one, other)
        )
        return _younger(one, other, made, other_made, now=at)

    return sorted(pods, key=cmp_to_key(compare))


def _rank(pod: Object, on_node: Counter[str]) -> tuple[bool, int, bool, int, int]:
    """Unassigned, pending, not ready, cheap, and crowded pods first."""
    node = _node(pod)
    phase = (pod.get("status") or {}).get("phase", "Pending")
    cost = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    return (
        bool(node),
        _PHASES.get(phase, 0),
        conditions.is_true(pod, "Ready"),
        _cost(cost),
        -on_node[node],
    )


def _cost(text: str) -> int:
    """The deletion cost an annotation says; 0 when it is not a 32 bit integer."""
    value = int(text) if _COST.fullmatch(text) else 0
    return value if -(2**31) <= value < 2**31 else 0


def _younger(
    one: Object, other: Object, since: float | None, other_since: float | None, *, now: float
) -> int:
    if since == other_since:
        return 0
    if since is None or other_since is None:
        return -1 if since is None else 1
    order = _magnitude(now - since) - _magnitude(now - other_since)
    if order:
        return -1 if order < 0 else 1
    return -1 if one["metadata"]["uid"] < other["metadata"]["uid"] else 1


def _magnitude(age_s: float) -> int:
    """log2 of an age in nanoseconds; -1 for none."""
    return int(math.log2(age_s * 1e9)) if age_s > 0 else -1


def _restarts(pod: Object) -> tuple[int, int]:
    """Most restarts of a container, and of a sidecar."""
    status = pod.get("status") or {}
    sidecars = {
        each["name"]
        for each in pod["spec"].get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    }
    return (
        max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0),
        max(
            (
                c.get("restartCount", 0)
                for c in status.get("initContainerStatuses") or ()
                if c["name"] in sidecars
            ),
            default=0,
        ),
    )


def _node(pod: Object) -> str:
    return pod["spec"].get("nodeName") or ""


# -- status


def status(
    replica_set: Object, pods: Sequence[Object], *, failure: str = "", now: datetime
) -> Object:
    """The status of a set that has `pods`; `failure` is why this pass could not do all it wanted.

    Counts of 0 are left out where upstream leaves them out.
    """
    spec = replica_set["spec"]
    template_labels = ((spec["template"].get("metadata") or {}).get("labels") or {}).items()
    active = [pod for pod in pods if is_active(pod)]
    waits = [_wait(replica_set, pod, now=now) for pod in active]
    counts = {
        "fullyLabeledReplicas": sum(
            template_labels <= (pod["metadata"].get("labels") or {}).items() for pod in active
        ),
        "readyReplicas": sum(conditions.is_true(pod, "Ready") for pod in active),
        "availableReplicas": sum(wait == 0 for wait in waits),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    told: Object = {"replicas": len(active), **{k: v for k, v in counts.items() if v}}
    told["terminatingReplicas"] = sum(map(is_terminating, pods))
    known = (replica_set.get("status") or {}).get("conditions") or []
    said = conditions.find(known, _FAILURE)
    if failure and said is None:
        reason = "FailedCreate" if len(active) < wanted(replica_set) else "FailedDelete"
        condition = {
            "type": _FAILURE,
            "status": "True",
            "reason": reason,
            "message": failure,
            "lastTransitionTime": conditions.stamp(now),
        }
        known = [*known, condition]
    elif not failure and said is not None:
        known = [each for each in known if each is not said]
    if known:
        told["conditions"] = known
    return told


def next_look(replica_set: Object, pods: Iterable[Object], *, now: datetime) -> float | None:
    """Seconds until the next pod turns from ready to available."""
    waits = (_wait(replica_set, pod, now=now) for pod in pods if is_active(pod))
    return min((wait for wait in waits if wait), default=None)


def _wait(replica_set: Object, pod: Object, *, now: datetime) -> float | None:
    min_ready_s = int(replica_set["spec"].get("minReadySeconds") or 0)
    return available_in(pod, min_ready_s=min_ready_s, now=now)
