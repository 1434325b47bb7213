"""Printers and rows: what an object looks like in a table.

A cell either follows from the object alone, or ages. `Printer.row` renders the former once into
JSON bytes and keeps of the latter only the instant, so a cached `RowTemplate` answers for any
`now` by joining bytes. The caller keeps the templates beside its objects; `assembly` makes the
Table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from fleet.kube.tables.columns import CLUSTER, Column
from fleet.kube.tables.durations import age, parse_time

if TYPE_CHECKING:
    from fleet.kube.tables.reading import Object


class Since(NamedTuple):
    """A cell that shows how long ago an instant was, between two fixed texts."""

    at_s: float
    before: str = ""
    after: str = ""


Cell = str | int | float | bool | None | Since
Cells = Sequence[Cell]

UNKNOWN: Final = "<unknown>"


def since(parent: Object, key: str) -> Since | str:
    """The cell for the time at `key` of `parent`; `<unknown>` when it is not set."""
    at_s = instant(parent, key)
    return UNKNOWN if at_s is None else Since(at_s)


def instant(parent: Object, key: str) -> float | None:
    """Seconds since the epoch of the time at `key`, or None when there is none."""
    value = parent.get(key)
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except ValueError:
        return None


class RowTemplate:
    """The cells of one object at one revision, short of the present time.

    `conditions` is the row's `"conditions":[…]` member with a leading comma, or empty; the bytes
    are shared by all rows that have the same.
    """

    __slots__ = ("_at_s", "_head", "_more", "_tail", "conditions")

    def __init__(
        self,
        head: bytes,
        at_s: float | None = None,
        tail: bytes = b"",
        more: tuple[tuple[float, bytes], ...] = (),
        conditions: bytes = b"",
    ) -> None:
        self._head = head
        self._at_s = at_s
        self._tail = tail
        self._more = more
        self.conditions = conditions

    def cells(self, now_s: float) -> bytes:
        """The JSON array of the cells at `now_s`, seconds since the epoch."""
        at_s = self._at_s
        if at_s is None:
            return self._head
        text = self._head + age(now_s - at_s) + self._tail
        for at_s, tail in self._more:
            text += age(now_s - at_s) + tail
        return text


@dataclass(frozen=True, slots=True)
class Printer:
    """Columns of a resource and the cells of its objects.

    `render` gives the cells in the order of upstream's columns. `row_conditions` gives the row's
    conditions member. `cluster_at` is where the CLUSTER column stands, or None.
    """

    columns: tuple[Column, ...]
    render: Callable[[Object], Cells]
    row_conditions: Callable[[Object], bytes] | None = None
    cluster_at: int | None = None

    def with_cluster(self) -> Printer:
        """The same with a CLUSTER column behind a leading NAME, else as the first column."""
        if self.cluster_at is not None:
            return self
        at = 1 if self.columns[0].name == "Name" else 0
        shown = (*self.columns[:at], CLUSTER, *self.columns[at:])
        return replace(self, columns=shown, cluster_at=at)

    def row(self, obj: Object, *, cluster: str = "") -> RowTemplate:
        """Render what does not depend on the clock. `cluster` fills the CLUSTER column, if any.

        Never raises for an object decoded from JSON, whatever its shape: a bookmark, which has
        nothing but a revision, is a row too.
        """
        cells = self.render(obj)
        if self.cluster_at is not None:
            at = self.cluster_at
            cells = (*cells[:at], cluster, *cells[at:])
        return _template(cells, self.row_conditions(obj) if self.row_conditions else b"")


# Rows whose last cell is the age share this end.
_END: Final = b'"]'


def _template(cells: Cells, conditions: bytes) -> RowTemplate:
    ages = [at for at, cell in enumerate(cells) if type(cell) is Since]
    if not ages:
        return RowTemplate(orjson.dumps(cells), conditions=conditions)
    texts: list[bytes] = []
    times: list[float] = []
    lead, start = b"[", 0
    for at in ages:
        cell = cells[at]
        assert isinstance(cell, Since)
        if at > start:
            lead += orjson.dumps(cells[start:at])[1:-1] + b","
        texts.append(lead + b'"' + _inner(cell.before))
        times.append(cell.at_s)
        lead, start = _inner(cell.after) + b'",', at + 1
    tail = lead + orjson.dumps(cells[start:])[1:] if start < len(cells) else lead[:-1] + b"]"
    if len(ages) == 1:
        return RowTemplate(texts[0], times[0], _END if tail == _END else tail, (), conditions)
    texts.append(tail)
    more = tuple(zip(times[1:], texts[2:], strict=True))
    return RowTemplate(texts[0], times[0], texts[1], more, conditions)


def _inner(text: str) -> bytes:
    return orjson.dumps(text)[1:-1] if text else b""
