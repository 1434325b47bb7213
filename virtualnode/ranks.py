"""Global indexes: the pods of a shard are numbered over all shards. Pure.

A pod template annotated `fleet.dev/index-offset: "N"` makes pods that call themselves N + index –
in an annotation, in their variables and in their host name – while the Job goes on counting from
zero. In other clusters a MutatingAdmissionPolicy of the fleet's does the same on a pod's way in;
here `admission` does it, to whoever creates the pod.
"""

from __future__ import annotations

from typing import Any, Final

from fleet.errors import Cause, Invalid

Object = dict[str, Any]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
OFFSET: Final = "fleet.dev/index-offset"
GLOBAL_INDEX: Final = "fleet.dev/global-index"
HOST_NAME: Final = "fleet.dev/host-name"
"""What the host names of all ranks begin with; without it, what the pod's own begins with."""

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LOCAL: Final = (f"metadata.labels['{INDEX}']", f"metadata.annotations['{INDEX}']")


def number_over_shards(pod: Object) -> None:
    """Number a pod that says its offset and its index, in place. Raises Invalid for an offset that
    is no number."""
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations") or {}
    index = annotations.get(INDEX, "")
    if OFFSET not in annotations or not is_number(index):
        return
    name = metadata.get("name") or metadata.get("generateName") or ""
    check_offset(annotations, kind="Pod", name=name, field="metadata.annotations")
    number = int(annotations[OFFSET]) + int(index)
    annotations[GLOBAL_INDEX] = str(number)
    own = spec.get("hostname") or ""
    prefix = annotations.get(HOST_NAME) or own.removesuffix(f"-{index}")
    if prefix:
        spec["hostname"] = f"{prefix}-{number}"
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        container["env"] = _variables(container.get("env") or [])


def check_offset(annotations: Object, *, kind: str, name: str, field: str) -> None:
    """Raises Invalid for an offset that is no number."""
    text = annotations.get(OFFSET)
    if text is None or is_number(text):
        return
    why = f'Invalid value: "{text}": must be a number of ranks, from 0'
    cause = Cause("FieldValueInvalid", why, f"{field}[{OFFSET}]")
    raise Invalid.of(group="batch" if kind == "Job" else "", kind=kind, name=name, causes=[cause])


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _variables(env: list[Object]) -> list[Object]:
    """The variables with global numbers in front, where others may refer to them. An index that the
    template defines in its own way stays."""
    told: Object = {
        "valueFrom": {
            "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{GLOBAL_INDEX}']"}
        }
    }
    numbers = {"FLEET_GLOBAL_INDEX": told, "FLEET_INDEX_OFFSET": {"value": "0"}}
    if all(_is_local(each) for each in env if each["name"] == INDEX_VARIABLE):
        numbers[INDEX_VARIABLE] = told
    kept = [each for each in env if each["name"] not in numbers]
    return [{"name": name, **value} for name, value in numbers.items()] + kept


def _is_local(variable: Object) -> bool:
    """Whether an index variable is the one that the Job controller adds."""
    reference = (variable.get("valueFrom") or {}).get("fieldRef") or {}
    return reference.get("fieldPath") in _LOCAL
