"""Usage as metrics-server tables it.

metrics-server names its columns after the resources of the first object, which are cpu and memory.
"""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.columns import column
from fleet.kube.tables.quantities import quantity, total
from fleet.kube.tables.reading import Object, items, mapping, text
from fleet.kube.tables.rows import Cells, Printer

_RESOURCES: Final = ("cpu", "memory")


def _node_metrics(obj: Object) -> Cells:
    usage = mapping(obj, "usage")
    return (
        text(mapping(obj, "metadata"), "name"),
        *(quantity(usage.get(resource)) for resource in _RESOURCES),
        text(obj, "window"),
    )


def _pod_metrics(obj: Object) -> Cells:
    usages = [mapping(container, "usage") for container in items(obj, "containers")]
    return (
        text(mapping(obj, "metadata"), "name"),
        *(
            total(usage[resource] for usage in usages if resource in usage)
            for resource in _RESOURCES
        ),
        text(obj, "window"),
    )


_COLUMNS: Final = (
    column("Name", "Name of the resource", format="name"),
    *(column(resource, format="quantity") for resource in _RESOURCES),
    column("Window", format="duration"),
)

PRINTERS: Final = {
    ("metrics.k8s.io", "nodes"): Printer(columns=_COLUMNS, render=_node_metrics),
    ("metrics.k8s.io", "pods"): Printer(columns=_COLUMNS, render=_pod_metrics),
}
