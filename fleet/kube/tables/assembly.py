"""Joining a Table from its parts, in upstream's field order.

    {"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},
     "columnDefinitions":[…],"rows":[
       {"cells":[…],"conditions":[…],"object":{…}},…]}

`object` is a PartialObjectMetadata, the whole object, or null. In a watch each event carries a
Table with one row; only the first has column definitions.
"""

from __future__ import annotations

from typing import Final, Literal

Include = Literal["None", "Metadata", "Object"]
TableVersion = Literal["v1", "v1beta1"]

TABLE_TAIL: Final = b"]}"
_PARTIAL: Final = {
    version: b',"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":'
    % version.encode()
    for version in ("v1", "v1beta1")
}


def table_head(metadata: bytes, *, columns: bytes | None, version: TableVersion = "v1") -> bytes:
    """Everything before the first row. `metadata` is the ListMeta's JSON.

    `columns` comes from `column_definitions`; None leaves them out, as in all watch events but the
    first.
    """
    return (
        b'{"kind":"Table","apiVersion":"meta.k8s.io/%b","metadata":%b,"columnDefinitions":%b,"rows":['
        % (version.encode(), metadata, b"null" if columns is None else columns)
    )


def row_bytes(
    cells: bytes,
    *,
    include: Include,
    metadata: bytes,
    raw: bytes,
    conditions: bytes = b"",
    version: TableVersion = "v1",
) -> bytes:
    """One row. `metadata` and `raw` are JSON: the object's metadata, and the object with its kind.

    `conditions` is `RowTemplate.conditions`.
    """
    if include == "Metadata":
        return b"".join((b'{"cells":', cells, conditions, _PARTIAL[version], metadata, b"}}"))
    if include == "Object":
        return b"".join((b'{"cells":', cells, conditions, b',"object":', raw, b"}"))
    return b"".join((b'{"cells":', cells, conditions, b',"object":null}'))
