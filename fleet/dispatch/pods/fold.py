"""The fleet's Pod, made of its record and of what is seen of its shard.

Once it is placed it shows what the member says of the shard – status, node, debugging containers –
under the fleet's names. Before, it says why it waits, in the words of a scheduler. While the member
is silent it stays as it was, and a condition says so. An end that the record knows is written once,
and kept; what others write over a status gives way to the shard's. Pure.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.pods.following import patch_of
from fleet.dispatch.pods.sight import PodShard
from fleet.dispatch.record import ON_LOAN, text_of
from fleet.view.naming import CLUSTER_LABEL, join

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.dispatch.record import Record
    from fleet.dispatch.sight import Sight

Object = dict[str, Any]

ENDED: Final = ("Succeeded", "Failed")
REACHABLE: Final = "fleet.dev/Reachable"
"""A condition: whether the Pod's cluster answers. Only there while it does not."""
_SCHEDULED: Final = "PodScheduled"
_LEFT: Final = "MemberLeft"
_OBSERVED: Final = "observedGeneration"


def fold(obj: Object, record: Record, sights: Mapping[str, Sight], *, now: float) -> Object:
    """The whole object. Equal to what is there when nothing changed."""
    over = record.ended or obj["metadata"].get("deletionTimestamp")
    if over and (obj.get("status") or {}).get("phase") in ENDED:
        return obj
    shard = next((each for each in record.shards if not each.to_come), None)
    if shard is not None:
        sight = sights.get(shard.cluster)
        return _placed(obj, record, sight, why=shard.message, now=now)
    cluster = (obj["metadata"].get("labels") or {}).get(CLUSTER_LABEL, "")
    if obj["metadata"].get("deletionTimestamp"):
        placed = obj["spec"].get("nodeName") and cluster in sights
        return _placed(obj, record, sights[cluster], why="", now=now) if placed else obj
    return _waiting(obj, record, sights, now=now)


# -- while it has a place


def _placed(obj: Object, record: Record, sight: Sight | None, *, why: str, now: float) -> Object:
    """`why` is what is written down of the member's silence, should it be silent."""
    if sight is None:
        return obj
    view, cluster = sight.view, sight.cluster
    if not sight.reached:
        return _silent(obj, sight, why, now=now)
    if not isinstance(view, PodShard):
        return _ended(obj, record)
    pod = view.pod
    metadata = {**obj["metadata"]}
    metadata["labels"] = {**(metadata.get("labels") or {}), CLUSTER_LABEL: cluster}
    spec = dict(obj["spec"])
    if node := pod["spec"].get("nodeName"):
        spec["nodeName"] = join(node, cluster)
    if debuggers := pod["spec"].get("ephemeralContainers"):
        spec["ephemeralContainers"] = debuggers
    status = copy.deepcopy(pod.get("status") or {})
    if node := status.get("nominatedNodeName"):
        status["nominatedNodeName"] = join(node, cluster)
    _observe(status, obj, pod)
    _say_on_loan(status, obj, record, now=now)
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def _observe(status: Object, obj: Object, pod: Object) -> None:
    """Tell observed generations as of the fleet's Pod: its own, once the shard is as it asks and
    the member has seen that; the one before until then."""
    latest, there = obj["metadata"].get("generation"), pod["metadata"].get("generation")
    follows = patch_of(obj, pod) is None
    for each in (status, *(status.get("conditions") or ())):
        seen = each.pop(_OBSERVED, None)
        if seen is None or not latest or not there:
            continue
        each[_OBSERVED] = latest if follows and seen >= there else max(latest - 1, 1)


def _say_on_loan(status: Object, obj: Object, record: Record, *, now: float) -> None:
    """A condition of the fleet's beside the member's."""
    loan = record.loan if not record.ended else None
    if loan is None:
        return
    before = (obj.get("status") or {}).get("conditions") or ()
    known: Object = next((each for each in before if each.get("type") == ON_LOAN), {})
    told: Object = {
        "type": ON_LOAN,
        "status": "True",
        "reason": loan.reason,
        "message": str(loan),
        "lastProbeTime": None,
        "lastTransitionTime": known.get("lastTransitionTime") or text_of(now),
    }
    status["conditions"] = [*(status.get("conditions") or ()), told]


def _silent(obj: Object, sight: Sight, why: str, *, now: float) -> Object:
    if not sight.member:
        return _left(obj, sight, now=now)
    reason, message = "Unreachable", why or f"{sight.cluster} does not answer"
    if sight.refused is not None:
        reason = sight.refused.reason
        message = f"{sight.cluster} refuses the fleet: {sight.refused.message}"
    message += "; shown as it was last"
    return _with_condition(obj, REACHABLE, reason, message, now=now)


def _left(obj: Object, sight: Sight, *, now: float) -> Object:
    """Lost to the fleet until its cluster is a member again: `kubectl get` prints the reason as its
    status, and nothing takes it for ready."""
    message = f"{sight.cluster} is no member of the fleet any more: what became of it is not known"
    obj = _with_condition(obj, REACHABLE, _LEFT, message, now=now)
    for kind in ("Ready", "ContainersReady"):
        obj = _with_condition(obj, kind, _LEFT, message, now=now)
    status = {**obj["status"], "phase": "Unknown", "reason": _LEFT, "message": message}
    for field in ("containerStatuses", "initContainerStatuses"):
        if listed := status.get(field):
            status[field] = [{**each, "ready": False} for each in listed]
    return {**obj, "status": status}


def _ended(obj: Object, record: Record) -> Object:
    """Its shard is gone: what was written down of its end counts."""
    if not record.ended:
        return obj
    status = {**(obj.get("status") or {}), "phase": record.phase}
    if record.phase == "Failed":
        status |= {"reason": record.reason, "message": record.message}
    return {**obj, "status": status}


# -- while it has none


def _waiting(obj: Object, record: Record, sights: Mapping[str, Sight], *, now: float) -> Object:
    if obj["spec"].get("schedulingGates"):
        why = "Scheduling is blocked due to non-empty scheduling gates"
        return _with_condition(obj, _SCHEDULED, "SchedulingGated", why, now=now)
    coming = [each for each in record.shards if each.to_come]
    if record.waiting:
        if not record.message:
            return obj
        return _with_condition(obj, _SCHEDULED, "Unschedulable", record.message, now=now)
    if not coming:
        return obj
    message, shard = f"its place in {coming[0].cluster} is being held", coming[0]
    sight = sights.get(shard.cluster)
    if sight is not None and sight.reached and (because := sight.unbound_because()):
        return _with_condition(obj, _SCHEDULED, "Unschedulable", f"{message}: {because}", now=now)
    message += f": {shard.message}" if shard.message else ""
    return _with_condition(obj, _SCHEDULED, "Holding", message, now=now)


def _with_condition(obj: Object, kind: str, reason: str, message: str, *, now: float) -> Object:
    """The object with a condition that is False, and since when."""
    status = dict(obj.get("status") or {})
    status.setdefault("phase", "Pending")
    conditions = [dict(each) for each in status.get("conditions") or ()]
    new: Object = {"type": kind, "status": "False", "reason": reason, "message": message}
    for each in conditions:
        if each.get("type") != kind:
            continue
        if each.get("status") != "False":
            each["lastTransitionTime"] = text_of(now)
        each |= new
        break
    else:
        times = {"lastProbeTime": None, "lastTransitionTime": text_of(now)}
        conditions.append({**times, **new})
    return {**obj, "status": {**status, "conditions": conditions}}
