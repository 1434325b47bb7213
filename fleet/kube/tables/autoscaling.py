"""HorizontalPodAutoscalers: the TARGETS column, and the v1 form brought to what v2 says.

Servers print the internal version; an object kept as `autoscaling/v1` has its CPU target in a field
of its own and all other metrics in annotations, so both are read here.
"""

from __future__ import annotations

from typing import Final

import orjson

from fleet.kube.tables.columns import AGE, NAME, column
from fleet.kube.tables.quantities import optional_quantity, quantity
from fleet.kube.tables.reading import (
    Object,
    items,
    mapping,
    number,
    optional_number,
    string_map,
    text,
    within,
)
from fleet.kube.tables.rows import Cells, Printer, since
from fleet.kube.tables.wording import NONE, UNSET

_UNKNOWN: Final = "<unknown>"
_SHOWN: Final = 2
_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT_METRICS: Final = "autoscaling.alpha.kubernetes.io/current-metrics"
_DEFAULT_CPU_PERCENT: Final = 80
# autoscaling/v1 and v2 name the parts of a metric differently: {v1: path in v2}.
_SPEC_FIELDS: Final = {
    "targetAverageUtilization": "averageUtilization",
    "targetAverageValue": "averageValue",
    "averageValue": "averageValue",
    "targetValue": "value",
}
_STATUS_FIELDS: Final = {
    "currentAverageUtilization": "averageUtilization",
    "currentAverageValue": "averageValue",
    "averageValue": "averageValue",
    "currentValue": "value",
}
_SOURCES: Final = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _target(spec: Object, status: Object) -> str:
    """One metric as `current/target`; `status` is the metric's status, or empty."""
    kind = text(spec, "type")
    source = _SOURCES.get(kind)
    if source is None:
        return "<unknown type>"
    target = within(spec, source, "target")
    known = isinstance(status.get(source), dict)
    current = within(status, source, "current")
    average = target.get("averageValue")
    if kind in ("Resource", "ContainerResource"):
        name = text(mapping(spec, source), "name")
        if average is not None:
            shown = optional_quantity(current.get("averageValue")) if known else _UNKNOWN
            return f"{name}: {shown}/{quantity(average)}"
        used = optional_number(current, "averageUtilization")
        wanted = optional_number(target, "averageUtilization")
        return (
            f"{name}: {_UNKNOWN if used is None else f'{used}%'}/"
            f"{'<auto>' if wanted is None else f'{wanted}%'}"
        )
    if kind == "Pods":
        shown = optional_quantity(current.get("averageValue")) if known else _UNKNOWN
        return f"{shown}/{optional_quantity(average)}"
    if average is not None:
        value = current.get("averageValue")
        shown = _UNKNOWN if value is None else quantity(value)
        return f"{shown}/{quantity(average)} (avg)"
    shown = optional_quantity(current.get("value")) if known else _UNKNOWN
    return f"{shown}/{optional_quantity(target.get('value'))}"


def _targets(specs: list[Object], statuses: list[Object]) -> str:
    if not specs:
        return NONE
    shown = ", ".join(
        _target(spec, statuses[i] if i < len(statuses) else {})
        for i, spec in enumerate(specs[:_SHOWN])
    )
    return f"{shown} + {len(specs) - _SHOWN} more..." if len(specs) > _SHOWN else shown


def _as_v2(metric: Object, *, under: str, fields: dict[str, str]) -> Object:
    """A metric of autoscaling/v1 in the shape of v2."""
    source = _SOURCES.get(text(metric, "type"), "")
    old = mapping(metric, source)
    values = {new: old[name] for name, new in fields.items() if old.get(name) is not None}
    return {"type": metric.get("type"), source: {"name": old.get("name"), under: values}}


def _annotated(metadata: Object, key: str) -> list[Object] | None:
    """The metrics in annotation `key`; None when there are none that can be read."""
    value = string_map(metadata, "annotations").get(key)
    if value is None:
        return None
    try:
        decoded = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return items({"": decoded}, "") if isinstance(decoded, list) else None


def _cpu(under: str, percent: int) -> Object:
    return {
        "type": "Resource",
        "resource": {"name": "cpu", under: {"averageUtilization": percent}},
    }


def _v1_metrics(obj: Object) -> tuple[list[Object], list[Object]]:
    """The metrics and their status of an autoscaling/v1 object, in the shape of v2."""
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    specs = [
        _as_v2(each, under="target", fields=_SPEC_FIELDS)
        for each in _annotated(metadata, _METRICS) or ()
    ]
    wanted = optional_number(spec, "targetCPUUtilizationPercentage")
    if wanted is not None:
        specs.append(_cpu("target", wanted))
    if not specs:
        specs.append(_cpu("target", _DEFAULT_CPU_PERCENT))
    annotated = _annotated(metadata, _CURRENT_METRICS)
    if annotated is not None:
        return specs, [_as_v2(each, under="current", fields=_STATUS_FIELDS) for each in annotated]
    used = optional_number(status, "currentCPUUtilizationPercentage")
    return specs, [] if used is None else [_cpu("current", used)]


def _autoscaler(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    reference = mapping(spec, "scaleTargetRef")
    minimum = optional_number(spec, "minReplicas")
    specs: list[Object]
    statuses: list[Object]
    if obj.get("apiVersion") == "autoscaling/v1":
        specs, statuses = _v1_metrics(obj)
    else:
        specs, statuses = items(spec, "metrics"), items(status, "currentMetrics")
    return (
        text(metadata, "name"),
        f"{text(reference, 'kind')}/{text(reference, 'name')}",
        _targets(specs, statuses),
        UNSET if minimum is None else str(minimum),
        number(spec, "maxReplicas"),
        number(status, "currentReplicas"),
        since(metadata, "creationTimestamp"),
    )


_SPEC_DOC: Final = "autoscaling/v2.HorizontalPodAutoscalerSpec"

PRINTERS: Final = {
    ("autoscaling", "horizontalpodautoscalers"): Printer(
        columns=(
            NAME,
            column("Reference", doc=f"{_SPEC_DOC}.scaleTargetRef"),
            column("Targets", doc=f"{_SPEC_DOC}.metrics"),
            column("MinPods", doc=f"{_SPEC_DOC}.minReplicas"),
            column("MaxPods", doc=f"{_SPEC_DOC}.maxReplicas"),
            column("Replicas", doc="autoscaling/v2.HorizontalPodAutoscalerStatus.currentReplicas"),
            AGE,
        ),
        render=_autoscaler,
    ),
}
