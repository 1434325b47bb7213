"""Objects as tables: what `kubectl get` shows (meta.k8s.io/v1 Table).

`printer_for` names the columns of a resource and renders an object once into a `RowTemplate`, which
holds everything but the present time; `table_head` and `row_bytes` join the answer. Columns and
cells are those of Kubernetes 1.36; a differential test holds them to a real API server. Whoever
keeps objects (the store's and the members' caches) keeps the templates beside them, and the lists
and watches of `fleet.apiserver` and `fleet.view` join them.
"""

from __future__ import annotations

from fleet.kube.tables.assembly import TABLE_TAIL, Include, TableVersion, row_bytes, table_head
from fleet.kube.tables.catalog import printer_for
from fleet.kube.tables.columns import Column, column_definitions
from fleet.kube.tables.durations import human_duration, short_human_duration
from fleet.kube.tables.rows import Printer, RowTemplate

__all__ = [
    "TABLE_TAIL",
    "Column",
    "Include",
    "Printer",
    "RowTemplate",
    "TableVersion",
    "column_definitions",
    "human_duration",
    "printer_for",
    "row_bytes",
    "short_human_duration",
    "table_head",
]
