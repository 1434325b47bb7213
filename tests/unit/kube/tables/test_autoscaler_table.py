"""TARGETS of HorizontalPodAutoscalers, in v2 and as v1 keeps the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def metric(kind: str, part: str, **values: Any) -> dict[str, Any]:
    """A metric of type `kind`; `part` is `target` or `current`."""
    source = kind[0].lower() + kind[1:]
    return {"type": kind, source: {"name": "cpu", part: values}}


def target(kind: str, **values: Any) -> dict[str, Any]:
    return metric(kind, "target", **values)


def current(kind: str, **values: Any) -> dict[str, Any]:
    return metric(kind, "current", **values)


AVERAGE = {"averageValue": "100m"}
VALUE = {"value": "100m"}
PERCENT = {"averageUtilization": 80}

CASES = [
    ([], [], "<none>"),
    ([target("External", **AVERAGE)], [], "<unknown>/100m (avg)"),
    (
        [target("External", **AVERAGE)],
        [current("External", averageValue="50m")],
        "50m/100m (avg)",
    ),
    ([target("External", **AVERAGE)], [current("External", value="1")], "<unknown>/100m (avg)"),
    ([target("External", **VALUE)], [], "<unknown>/100m"),
    ([target("External", **VALUE)], [current("External", value="50m")], "50m/100m"),
    ([target("External", **VALUE)], [current("External")], "<nil>/100m"),
    ([target("Pods", **AVERAGE)], [], "<unknown>/100m"),
    ([target("Pods", **AVERAGE)], [current("Pods", averageValue="0.05")], "50m/100m"),
    ([target("Pods", **AVERAGE)], [current("Pods")], "<nil>/100m"),
    ([target("Object", **VALUE)], [], "<unknown>/100m"),
    ([target("Object", **VALUE)], [current("Object", value="50m")], "50m/100m"),
    ([target("Object", **AVERAGE)], [current("Object", averageValue=2)], "2/100m (avg)"),
    ([target("Resource", **AVERAGE)], [], "cpu: <unknown>/100m"),
    ([target("Resource", **AVERAGE)], [current("Resource", averageValue="5")], "cpu: 5/100m"),
    ([target("Resource", **PERCENT)], [], "cpu: <unknown>/80%"),
    (
        [target("Resource", **PERCENT)],
        [current("Resource", averageUtilization=50, averageValue="40m")],
        "cpu: 50%/80%",
    ),
    ([target("Resource")], [], "cpu: <unknown>/<auto>"),
    ([target("ContainerResource", **PERCENT)], [], "cpu: <unknown>/80%"),
    (
        [target("ContainerResource", **AVERAGE)],
        [current("ContainerResource", averageValue="50m")],
        "cpu: 50m/100m",
    ),
    ([target("Odd")], [], "<unknown type>"),
    (
        [target("Pods", **AVERAGE), target("Resource", **PERCENT), target("Pods", **AVERAGE)],
        [current("Pods", averageValue="50m"), current("Resource", averageUtilization=50)],
        "50m/100m, cpu: 50%/80% + 1 more...",
    ),
    ([target("Pods", **AVERAGE)], [current("Resource", averageValue="1")], "<unknown>/100m"),
]


@pytest.mark.parametrize(("specs", "statuses", "shown"), CASES)
def test_targets(
    cells: Callable[..., list[Any]], specs: list[Any], statuses: list[Any], shown: str
) -> None:
    obj = {
        "metadata": {"name": "x"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "metrics": specs,
            "maxReplicas": 5,
        },
        "status": {"currentReplicas": 2, "currentMetrics": statuses},
    }
    row = cells("autoscaling", "horizontalpodautoscalers", obj)
    assert row == ["x", "Deployment/d", shown, "<unset>", 5, 2, "<unknown>"]


def v1(spec: dict[str, Any], status: dict[str, Any], **annotations: Any) -> dict[str, Any]:
    prefix = "autoscaling.alpha.kubernetes.io/"
    return {
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "annotations": {
                prefix + key.replace("_", "-"): value
                if isinstance(value, str)
                else orjson.dumps(value).decode()
                for key, value in annotations.items()
            }
        },
        "spec": spec,
        "status": status,
    }


OTHERS = [{"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "100m"}}]


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (v1({}, {}), "cpu: <unknown>/80%"),
        (
            v1({"targetCPUUtilizationPercentage": 70}, {"currentCPUUtilizationPercentage": 33}),
            "cpu: 33%/70%",
        ),
        (v1({}, {}, metrics=OTHERS), "<unknown>/100m"),
        (
            v1({"targetCPUUtilizationPercentage": 70}, {}, metrics=OTHERS),
            "<unknown>/100m, cpu: <unknown>/70%",
        ),
        (
            v1(
                {},
                {"currentCPUUtilizationPercentage": 33},
                metrics=OTHERS,
                current_metrics=[{"type": "Pods", "pods": {"currentAverageValue": "7m"}}],
            ),
            "7m/100m",
        ),
        (v1({}, {}, metrics="not json"), "cpu: <unknown>/80%"),
        (v1({}, {}, metrics={}), "cpu: <unknown>/80%"),
    ],
)
def test_targets_of_version_one(
    cells: Callable[..., list[Any]], obj: dict[str, Any], shown: str
) -> None:
    assert cells("autoscaling", "horizontalpodautoscalers", obj)[2] == shown
