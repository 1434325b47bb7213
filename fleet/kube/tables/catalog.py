"""Which printer a resource has.

A resource prints here as the API server that serves it upstream does, which is not always with the
printer that upstream has for its kind (CSIStorageCapacity shows CREATED AT, like all without one).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.tables import (
    access,
    autoscaling,
    cluster,
    devices,
    metrics,
    network,
    pods,
    storage,
    workloads,
)
from fleet.kube.tables.columns import CREATED_AT, NAME
from fleet.kube.tables.custom import custom_printer
from fleet.kube.tables.reading import Object, mapping, text
from fleet.kube.tables.rows import Cells, Printer, instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUILT_IN: Final[Mapping[tuple[str, str], Printer]] = {
    key: printer
    for module in (
        access,
        autoscaling,
        cluster,
        devices,
        metrics,
        network,
        pods,
        storage,
        workloads,
    )
    for key, printer in module.PRINTERS.items()
}
_NEVER: Final = "0001-01-01T00:00:00Z"


def _name_and_creation(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    at_s = instant(metadata, "creationTimestamp")
    shown = _NEVER
    if at_s is not None:
        shown = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return text(metadata, "name"), shown


DEFAULT: Final = Printer(columns=(NAME, CREATED_AT), render=_name_and_creation)


def printer_for(
    *, group: str, resource: str, crd_columns: Sequence[Mapping[str, Any]] | None = None
) -> Printer:
    """The printer for `resource` of `group`, in any of its versions; `x/scale` prints a Scale.

    `crd_columns` are the `additionalPrinterColumns` of the CRD version that serves the resource,
    an empty sequence when it declares none, and None when no CRD serves it. Printers of built-in
    resources are shared; keep the one for a CRD as long as the CRD does not change.
    """
    plural, _, subresource = resource.partition("/")
    if subresource == "scale":
        return workloads.SCALE if crd_columns is None else custom_printer(_SCALE_COLUMNS)
    if crd_columns is not None:
        return custom_printer(crd_columns)
    return BUILT_IN.get((group, plural), DEFAULT)


_SCALE_COLUMNS: Final = (
    {
        "name": "Desired",
        "type": "integer",
        "description": "Number of desired replicas",
        "jsonPath": ".spec.replicas",
    },
    {
        "name": "Available",
        "type": "integer",
        "description": "Number of actual replicas",
        "jsonPath": ".status.replicas",
    },
    {
        "name": "Age",
        "type": "date",
        "description": workloads.SCALE.columns[-1].description,
        "jsonPath": ".metadata.creationTimestamp",
    },
)
