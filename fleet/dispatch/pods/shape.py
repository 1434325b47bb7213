"""The Pod that stands in a member for a fleet Pod.

It is the user's Pod with a gate to wait at, under a name of its own: the fleet's name may be a
native Pod's there. Its host name is the fleet's. Pure.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.dispatch import shape
from fleet.dispatch.pods.following import CARRIED_ANNOTATION, users

if TYPE_CHECKING:
    from fleet.dispatch.record import Shard
    from fleet.dispatch.shape import Terms, Workload

Object = dict[str, Any]

# What the fleet has decided, or the member decides anew.
_NOT_CARRIED: Final = ("ephemeralContainers", "nodeName", "schedulingGates")
_HOST_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def pod_of(workload: Workload, shard: Shard, terms: Terms) -> Object:
    """The shard's Pod."""
    spec = {k: copy.deepcopy(v) for k, v in workload.spec.items() if k not in _NOT_CARRIED}
    if node := node_in(workload.spec.get("nodeName") or "", shard.cluster):
        spec["nodeName"] = node
    _name_nodes_as_there(spec, shard.cluster)
    if not spec.get("hostname") and _HOST_NAME.fullmatch(workload.name):
        spec["hostname"] = workload.name
    gate = gate_name(shard.name(workload.name))
    shape.hold(spec, workload, terms, gate=gate, ranks="None")
    metadata = shape.metadata_of(workload, shard, terms)
    carried = {field: sorted(keys) for field, keys in users(workload.obj).items()}
    metadata["annotations"][CARRIED_ANNOTATION] = orjson.dumps(carried).decode()
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return terms.alone(pod)


def _name_nodes_as_there(spec: Object, cluster: str) -> None:
    """Node affinity by name, which the fleet writes `NODE.MEMBER`, in the member's words; nodes of
    other clusters stay as they are, and match none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    terms = [
        *(required.get("nodeSelectorTerms") or ()),
        *(each["preference"] for each in preferred),
    ]
    for term in terms:
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name":
                field["values"] = [node_in(name, cluster) or name for name in field["values"]]


def gate_name(shard: str) -> str:
    """The ConfigMap that lets the shard start. A shard of a Job may have the same name, and no name
    of a shard has a dot."""
    return f"{shard}.pod-gate"


def node_in(name: str, cluster: str) -> str:
    """The member's node that the fleet calls so, "" for none, or one of another cluster."""
    node, dot, member = name.rpartition(".")
    return node if dot and member == cluster else ""
