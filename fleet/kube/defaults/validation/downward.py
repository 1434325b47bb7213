"""Rules for fields of the pod that its containers may see (the downward API)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_ENVIRONMENT_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_VOLUME_FIELDS: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid",
)  # fmt: skip
_RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_KNOWN_FIELDS: Final = frozenset(
    (*_ENVIRONMENT_FIELDS, *_VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName",
     "status.phase", "spec.host")
)  # fmt: skip
_UNITS: Final = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
_SUBSCRIPT = re.compile(r"(.+)\['(.*)'\]")


def check_field_selector(
    problems: Problems, reference: Object, path: str, *, volume: bool = False
) -> None:
    """`fieldRef` of a variable or, with `volume`, of a file."""
    for field in ("apiVersion", "fieldPath"):
        if not reference.get(field):
            problems.required(f"{path}.{field}")
            return
    wanted = reference["fieldPath"]
    if (subscript := _SUBSCRIPT.fullmatch(wanted)) is not None:
        place, key = subscript.groups()
        if place == "metadata.annotations":
            problems.invalid_each(path, key.lower(), names.qualified_name(key.lower()))
        elif place == "metadata.labels":
            problems.invalid_each(path, key, names.qualified_name(key))
        else:
            problems.invalid(
                f"{path}.fieldPath",
                wanted,
                f"error converting fieldPath: field label does not support subscript: {wanted}",
            )
        return
    if wanted not in _KNOWN_FIELDS:
        problems.invalid(
            f"{path}.fieldPath",
            wanted,
            f"error converting fieldPath: field label not supported: {wanted}",
        )
        return
    supported = _VOLUME_FIELDS if volume else _ENVIRONMENT_FIELDS
    if wanted not in supported:
        problems.not_supported(f"{path}.fieldPath", wanted, supported)


def check_resource_field_selector(
    problems: Problems, reference: Object, path: str, *, volume: bool = False
) -> None:
    """`resourceFieldRef` of a variable or, with `volume`, of a file."""
    wanted = reference.get("resource", "")
    if volume and not reference.get("containerName"):
        problems.required(f"{path}.containerName")
    elif not wanted:
        problems.required(f"{path}.resource")
    elif wanted not in _RESOURCES and not wanted.startswith(
        ("requests.hugepages-", "limits.hugepages-")
    ):
        problems.not_supported(f"{path}.resource", wanted, _RESOURCES)
    divisor = reference.get("divisor", "0")
    if Quantity.parse(divisor) == ZERO:
        return
    where = f"{path}.divisor"
    kind = wanted.partition(".")[2]
    if kind == "cpu":
        if divisor not in ("1m", "1"):
            problems.invalid(
                where, wanted, "only divisor's values 1m and 1 are supported with the cpu resource"
            )
    elif divisor not in _UNITS.split(", "):
        name = {
            "memory": "memory",
            "ephemeral-storage": "local ephemeral storage",
        }.get(kind, "hugepages")
        problems.invalid(
            where, wanted, f"only divisor's values {_UNITS} are supported with the {name} resource"
        )
