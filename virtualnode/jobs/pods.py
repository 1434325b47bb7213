"""The pods of a Job: how one is made from the template, and what one says of itself. Pure.

Pods are numbered as upstream's Job controller does it; whether the number is one over all shards is
for `virtualnode.ranks`, on the pod's way in.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from virtualnode.conditions import is_true
from virtualnode.objects import controller_reference
from virtualnode.ranks import INDEX, INDEX_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
_LONGEST_PREFIX: Final = 58  # five random characters follow


def is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def pod_for(job: Object, index: int | None) -> Object:
    """The pod for `index`, None for a Job without indexes."""
    template = copy.deepcopy(job["spec"]["template"])
    metadata, name = job["metadata"], job["metadata"]["name"]
    own = template.get("metadata") or {}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": metadata["namespace"],
            "generateName": f"{name}-"[:_LONGEST_PREFIX],
            "labels": dict(own.get("labels") or {}),
            "annotations": dict(own.get("annotations") or {}),
            "finalizers": list(dict.fromkeys((*(own.get("finalizers") or ()), FINALIZER))),
            "ownerReferences": [controller_reference(job)],
        },
        "spec": template["spec"],
    }
    if index is not None:
        _number(pod, name, index)
    return pod


def _number(pod: Object, job: str, index: int) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    suffix = f"-{index}-"
    metadata["generateName"] = job[: _LONGEST_PREFIX - len(suffix)] + suffix
    metadata["annotations"][INDEX] = metadata["labels"][INDEX] = str(index)
    spec["hostname"] = f"{job}-{index}"
    reference = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": reference}}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        env = container.setdefault("env", [])
        if all(each["name"] != INDEX_VARIABLE for each in env):
            env.append(copy.deepcopy(variable))


# -- what a pod says


def index_of(pod: Object) -> int | None:
    """The completion index of a pod of an Indexed Job; None when it has no usable one."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def is_tracked(pod: Object) -> bool:
    """Whether the Job's status has yet to take this pod in."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def phase_of(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def is_ended(pod: Object) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    return not is_ended(pod) and not pod["metadata"].get("deletionTimestamp")


def is_terminating(pod: Object) -> bool:
    return not is_ended(pod) and bool(pod["metadata"].get("deletionTimestamp"))


def is_ready(pod: Object) -> bool:
    return is_true(pod, "Ready")


def replaces_failed_only(job: Object) -> bool:
    """Whether a pod in deletion is replaced only once it has ended."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def is_failed(pod: Object, job: Object) -> bool:
    """Whether a pod counts as failed: it did, or it is deleted before it could succeed."""
    if phase_of(pod) == "Failed":
        return True
    if replaces_failed_only(job):
        return False
    return bool(pod["metadata"].get("deletionTimestamp")) and phase_of(pod) != "Succeeded"


def restarts(pod: Object) -> int:
    status = pod.get("status") or {}
    return sum(
        int(each.get("restartCount") or 0)
        for field in ("initContainerStatuses", "containerStatuses")
        for each in status.get(field) or ()
    )


def least_wanted_first(pods: Iterable[Object]) -> list[Object]:
    """The order in which surplus pods go (pkg/controller ActivePods): not bound, pending, not
    ready, restarted more often, younger."""
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}
    newest_first = sorted(
        pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True
    )
    return sorted(
        newest_first,
        key=lambda pod: (
            bool(pod["spec"].get("nodeName")),
            phases.get(phase_of(pod), 0),
            is_ready(pod),
            -restarts(pod),
        ),
    )
