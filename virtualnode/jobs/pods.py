"""The pods of a Job: how one is made from the template, and what one says of itself. Pure.

Indexes may be global: a template annotated `fleet.dev/index-offset: "N"` makes pods that call
themselves N + index – in their variables, an annotation and their host name – while the Job goes on
counting from zero. In other clusters a MutatingAdmissionPolicy does the same.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Invalid
from virtualnode.conditions import is_true
from virtualnode.objects import controller_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Object = dict[str, Any]

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
OFFSET: Final = "fleet.dev/index-offset"
GLOBAL_INDEX: Final = "fleet.dev/global-index"
HOSTNAME_PREFIX: Final = "fleet.dev/hostname-prefix"
_LONGEST_PREFIX: Final = 58  # five random characters follow


def is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def pod_for(job: Object, index: int | None) -> Object:
    """The pod for `index`, None for a Job without indexes.

    Raises Invalid for an offset that is no number.
    """
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
        _number(pod, name, index, offset=_offset(job))
    return pod


def _offset(job: Object) -> int | None:
    annotations = (job["spec"]["template"].get("metadata") or {}).get("annotations") or {}
    text = annotations.get(OFFSET)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        field = f"spec.template.metadata.annotations[{OFFSET}]"
        why = f'Invalid value: "{text}": must be a number of ranks, from 0'
        raise Invalid.of(
            group="batch",
            kind="Job",
            name=job["metadata"]["name"],
            causes=[Cause("FieldValueInvalid", why, field)],
        )
    return int(text)


def _number(pod: Object, job: str, index: int, *, offset: int | None) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    suffix = f"-{index}-"
    metadata["generateName"] = f"{job}"[: _LONGEST_PREFIX - len(suffix)] + suffix
    metadata["annotations"][INDEX] = metadata["labels"][INDEX] = str(index)
    containers: Sequence[Object] = [*(spec.get("initContainers") or ()), *spec["containers"]]
    if offset is None:
        spec["hostname"] = f"{job}-{index}"
        for container in containers:
            _define(container, {INDEX_VARIABLE: _field(f"metadata.labels['{INDEX}']")})
        return
    number = offset + index
    metadata["annotations"][GLOBAL_INDEX] = str(number)
    prefix = metadata["annotations"].get(HOSTNAME_PREFIX, job)
    spec["hostname"] = f"{prefix}-{number}"
    reference = _field(f"metadata.annotations['{GLOBAL_INDEX}']")
    for container in containers:
        _define(container, {INDEX_VARIABLE: reference})
        _redefine(
            container, {"FLEET_GLOBAL_INDEX": reference, "FLEET_INDEX_OFFSET": {"value": "0"}}
        )


def _field(path: str) -> Object:
    return {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _define(container: Object, variables: Object) -> None:
    """Add variables that the template does not define itself."""
    env = container.setdefault("env", [])
    known = {each["name"] for each in env}
    env += [{"name": name, **value} for name, value in variables.items() if name not in known]


def _redefine(container: Object, variables: Object) -> None:
    """Set variables whatever the template says of them; others may refer to them."""
    kept = [each for each in container.get("env") or () if each["name"] not in variables]
    container["env"] = [{"name": name, **value} for name, value in variables.items()] + kept


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
