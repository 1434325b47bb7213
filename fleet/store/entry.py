"""One object at one revision: its JSON bytes and the few fields that lists are filtered by.

Nothing parses an object again to answer a LIST: `raw` is spliced into responses as it is, and
the metadata object is a slice of it, so PartialObjectMetadata rows need no parsing either.
Memory is what limits a fleet, so equal label sets and short strings are shared between entries.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.kube.revision import Revision
    from fleet.kube.tables.rows import Printer, RowTemplate

_NO_LABELS: Mapping[str, str] = {}
_LABEL_POOL_LIMIT = 1 << 16
_label_pool: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}


class Entry:
    """An object at one revision; immutable once it is in a collection.

    `raw` begins `{"kind":…,"apiVersion":…,"metadata":{…}`; `metadata` is the slice of it.
    `fields` are the values of the resource's selectable fields, in their order (`Collection.widen`
    is the one that adds to them later).
    `member` is "" for the fleet's own objects, and `member_revision` then 0.
    `row` belongs to whoever renders Tables: a cache of what does not age, by `row_printer`.
    """

    __slots__ = (
        "fields",
        "labels",
        "member",
        "member_revision",
        "meta_end",
        "meta_start",
        "name",
        "namespace",
        "raw",
        "revision",
        "row",
        "row_printer",
    )

    def __init__(
        self,
        obj: Mapping[str, Any],
        *,
        revision: Revision,
        fields: tuple[str, ...] = (),
        member: str = "",
        member_revision: int = 0,
    ) -> None:
        """Encode `obj`, whose `metadata` already carries names and revision as clients see them.

        `obj` is not kept. Raises KeyError when it has no kind, apiVersion or metadata.name.
        """
        metadata = obj["metadata"]
        head = b'{"kind":%b,"apiVersion":%b,"metadata":' % (
            orjson.dumps(obj["kind"]),
            orjson.dumps(obj["apiVersion"]),
        )
        meta = orjson.dumps(metadata)
        rest = orjson.dumps({k: v for k, v in obj.items() if k not in _HEAD_KEYS})
        # join allocates exactly; orjson's own buffers are over-allocated and would be kept alive
        self.raw = b"".join((head, meta, b"," if len(rest) > 2 else b"", rest[1:]))
        self.meta_start = len(head)
        self.meta_end = len(head) + len(meta)
        self.namespace = intern(metadata.get("namespace") or "")
        self.name: str = metadata["name"]
        self.revision = revision
        self.labels = shared_labels(metadata.get("labels"))
        self.fields = tuple(map(intern, fields))
        self.member = member
        self.member_revision = member_revision
        self.row: RowTemplate | None = None
        self.row_printer: Printer | None = None

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    @property
    def metadata(self) -> bytes:
        """The JSON of `metadata`."""
        return self.raw[self.meta_start : self.meta_end]

    @property
    def uid(self) -> str:
        """`metadata.uid`; parsed on demand, for preconditions and re-creation are rare."""
        uid = orjson.loads(self.metadata).get("uid", "")
        return uid if isinstance(uid, str) else ""

    def parse(self) -> dict[str, Any]:
        """A fresh dict of the whole object, the caller's to change."""
        obj: dict[str, Any] = orjson.loads(self.raw)
        return obj

    def restated(self, revision: Revision) -> Entry:
        """The same state under a later revision: the last of a deleted object, or of one that
        left a selector."""
        obj = self.parse()
        obj["metadata"]["resourceVersion"] = str(revision)
        return Entry(
            obj,
            revision=revision,
            fields=self.fields,
            member=self.member,
            member_revision=self.member_revision,
        )

    def __repr__(self) -> str:
        return f"<Entry {self.namespace}/{self.name} @{self.revision}>"


_HEAD_KEYS = frozenset({"kind", "apiVersion", "metadata"})


def shared_labels(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """The one mapping that stands for all equal label sets; never to be changed."""
    if not labels:
        return _NO_LABELS
    key = tuple(labels.items())
    found = _label_pool.get(key)
    if found is None:
        if len(_label_pool) >= _LABEL_POOL_LIMIT:
            _label_pool.clear()
        found = {intern(k): intern(v) if isinstance(v, str) else v for k, v in labels.items()}
        _label_pool[tuple(found.items())] = found
    return found
