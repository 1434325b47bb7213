"""How an entry looks in an answer: the whole object, its metadata alone, or a Table row.

A rendering is chosen once per request and turns entries into bytes. Nothing is parsed but for a
Table, and there only when an object is first shown: the row template is kept on the entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import orjson

from fleet.kube.tables import TABLE_TAIL, column_definitions, row_bytes, table_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.kube.resources import Resource
    from fleet.kube.revision import Revision
    from fleet.kube.tables import Include, Printer, TableVersion
    from fleet.store.entry import Entry

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Rendering(Protocol):
    """One representation of one resource's objects.

    `cache_key` names what may be kept on a run of entries, "" when the bytes depend on the clock.
    """

    @property
    def cache_key(self) -> str: ...

    def head(self, metadata: bytes) -> bytes:
        """A list's beginning up to its first item; `metadata` is the ListMeta's JSON."""

    def item(self, entry: Entry) -> bytes:
        """One item of a list."""

    @property
    def tail(self) -> bytes:
        """A list's end."""

    def single(self, entry: Entry) -> bytes:
        """The object by itself, as GET answers it and as a watch event carries it."""

    def bookmark(self, revision: Revision, *, initial_end: bool) -> bytes:
        """The object of a BOOKMARK event."""


def _raw(entry: Entry) -> bytes:
    return entry.raw


class ObjectRendering:
    """Objects as they are kept."""

    cache_key = "object"
    tail = b"]}"
    item = staticmethod(_raw)
    single = staticmethod(_raw)

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def head(self, metadata: bytes) -> bytes:
        resource = self._resource
        return b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[' % (
            orjson.dumps(resource.list_kind),
            orjson.dumps(resource.api_version),
            metadata,
        )

    def bookmark(self, revision: Revision, *, initial_end: bool) -> bytes:
        resource = self._resource
        return _bookmark(resource.kind, resource.api_version, revision, initial_end=initial_end)


class PartialRendering:
    """`PartialObjectMetadata`: kind, apiVersion and the metadata; what metadata informers ask."""

    cache_key = "partial"
    tail = b"]}"

    def __init__(self, version: str = "v1") -> None:
        self._api_version = f"meta.k8s.io/{version}"
        self._head = (
            b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%b","metadata":'
            % (version.encode())
        )

    def head(self, metadata: bytes) -> bytes:
        return b'{"kind":"PartialObjectMetadataList","apiVersion":%b,"metadata":%b,"items":[' % (
            orjson.dumps(self._api_version),
            metadata,
        )

    def item(self, entry: Entry) -> bytes:
        return self._head + entry.raw[entry.meta_start : entry.meta_end] + b"}"

    single = item

    def bookmark(self, revision: Revision, *, initial_end: bool) -> bytes:
        return _bookmark(
            "PartialObjectMetadata", self._api_version, revision, initial_end=initial_end
        )


class TableRendering:
    """`meta.k8s.io` Table, rows rendered for the moment of the request.

    `cluster_of` gives the CLUSTER cell when the printer has that column. Column definitions are
    sent in lists, in single objects and in the first event of a watch, as upstream does.
    """

    cache_key = ""
    tail = TABLE_TAIL

    def __init__(
        self,
        printer: Printer,
        *,
        now: Callable[[], float],
        include: Include = "Metadata",
        version: TableVersion = "v1",
        cluster_of: Callable[[Entry], str] = lambda entry: entry.member,
    ) -> None:
        self._printer = printer
        self._columns = column_definitions(printer.columns)
        self._now = now
        self._now_s = now()
        self._include: Include = include
        self._version: TableVersion = version
        self._cluster_of = cluster_of
        self._columns_sent = False

    def head(self, metadata: bytes) -> bytes:
        return table_head(metadata, columns=self._columns, version=self._version)

    def item(self, entry: Entry) -> bytes:
        row = entry.row
        if row is None or entry.row_printer is not self._printer:
            row = entry.row = self._printer.row(entry.parse(), cluster=self._cluster_of(entry))
            entry.row_printer = self._printer
        return row_bytes(
            row.cells(self._now_s),
            include=self._include,
            metadata=entry.raw[entry.meta_start : entry.meta_end],
            raw=entry.raw,
            conditions=row.conditions,
            version=self._version,
        )

    def single(self, entry: Entry) -> bytes:
        self._now_s = self._now()
        return self._table(entry.revision, self.item(entry))

    def bookmark(self, revision: Revision, *, initial_end: bool) -> bytes:
        row = row_bytes(
            self._printer.row({}).cells(self._now_s),
            include="Metadata",
            metadata=_bookmark_metadata(revision, initial_end=initial_end),
            raw=b"",
            version=self._version,
        )
        return self._table(revision, row)

    def _table(self, revision: Revision, row: bytes) -> bytes:
        columns = None if self._columns_sent else self._columns
        self._columns_sent = True
        metadata = b'{"resourceVersion":"%d"}' % revision
        return table_head(metadata, columns=columns, version=self._version) + row + self.tail


def _bookmark(kind: str, api_version: str, revision: Revision, *, initial_end: bool) -> bytes:
    return b'{"kind":%b,"apiVersion":%b,"metadata":%b}' % (
        orjson.dumps(kind),
        orjson.dumps(api_version),
        _bookmark_metadata(revision, initial_end=initial_end),
    )


def _bookmark_metadata(revision: Revision, *, initial_end: bool) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return orjson.dumps(metadata)
