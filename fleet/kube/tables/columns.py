"""Column definitions of a Table.

`descriptions.json` holds the prose of the API fields that columns show, keyed by
`<package>.<Type>.<field>`, made by `scripts/generate-table-descriptions` from the pinned release; a
column names its key in `doc`. The printers of `fleet.kube.tables` put columns and cells together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import orjson

DESCRIPTIONS: dict[str, str] = orjson.loads(
    files(__package__).joinpath("descriptions.json").read_bytes()
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column (meta.k8s.io/v1 TableColumnDefinition).

    Priority 0 is always shown, 1 with `-o wide`.
    """

    name: str
    type: str
    format: str = ""
    description: str = ""
    priority: int = 0


def column(
    name: str,
    description: str = "",
    *,
    doc: str = "",
    type: str = "string",
    format: str = "",
    priority: int = 0,
) -> Column:
    """A column, its description given or taken from the API field `doc`."""
    return Column(name, type, format, DESCRIPTIONS[doc] if doc else description, priority)


NAME = column("Name", doc="meta/v1.ObjectMeta.name", format="name")
AGE = column("Age", doc="meta/v1.ObjectMeta.creationTimestamp")
CREATED_AT = column("Created At", doc="meta/v1.ObjectMeta.creationTimestamp", type="date")
CONTAINERS = column("Containers", "Names of each container in the template.", priority=1)
IMAGES = column("Images", "Images referenced by each container in the template.", priority=1)
CLUSTER = column("Cluster", "The cluster that the object lives in.")


@lru_cache(maxsize=512)
def column_definitions(columns: tuple[Column, ...]) -> bytes:
    """The JSON array of `columns` in upstream's field order; cached."""
    definitions: list[dict[str, Any]] = [asdict(each) for each in columns]
    return orjson.dumps(definitions)
