"""Rows, the CLUSTER column and the joining of a Table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.kube.tables import (
    TABLE_TAIL,
    Column,
    Printer,
    column_definitions,
    printer_for,
    row_bytes,
    table_head,
)
from fleet.kube.tables.catalog import BUILT_IN
from fleet.kube.tables.columns import DESCRIPTIONS
from fleet.kube.tables.durations import human_duration
from fleet.kube.tables.rows import Since

if TYPE_CHECKING:
    from collections.abc import Callable

SAFE_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | SAFE_TEXT | st.floats(-1e6, 1e6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SAFE_TEXT, inner, max_size=4),
    max_leaves=10,
)
# Fields that printers read, so that odd values land where they matter.
FIELDS = st.sampled_from(
    "metadata spec status name conditions containers initContainers containerStatuses state "
    "initContainerStatuses lastState terminated waiting running finishedAt creationTimestamp type "
    "reason metrics resource target currentMetrics selector matchLabels matchExpressions ports "
    "labels annotations ownerReferences controller template rules endpoints addresses subsets "
    "capacity storage usage webhooks paramRef claimRef limited pools series involvedObject hard "
    "jobTemplate startTime completionTime loadBalancer ingress accessModes taint apiVersion".split()
)
TIMES = st.sampled_from(["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026", "9" * 30])
ODD = st.recursive(
    JSON | TIMES | st.sampled_from(["autoscaling/v1", "a/b/c", "1Gi", "True", "Ready"]),
    lambda inner: st.dictionaries(FIELDS, inner, max_size=6) | st.lists(inner, max_size=3),
    max_leaves=30,
)
OBJECTS = st.dictionaries(FIELDS, ODD, max_size=8)


@settings(max_examples=200, deadline=None)
@given(obj=OBJECTS)
def test_no_object_is_too_odd_for_a_row(obj: dict[str, Any]) -> None:
    for (_, resource), printer in BUILT_IN.items():
        cells = orjson.loads(printer.row(obj).cells(1.8e9))
        # Upstream prints an age for addresses, and declares no column for it.
        extra = 1 if resource == "ipaddresses" else 0
        assert len(cells) == len(printer.columns) + extra, resource


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
def test_a_bookmark_is_a_row(kind: tuple[str, str]) -> None:
    row = printer_for(group=kind[0], resource=kind[1]).row({"metadata": {"resourceVersion": "7"}})
    orjson.loads(row.cells(0))


CELLS = st.lists(
    SAFE_TEXT
    | st.integers(-(2**31), 2**31)
    | st.booleans()
    | st.none()
    | st.builds(Since, st.integers(0, 2 * 10**9), SAFE_TEXT, SAFE_TEXT),
    min_size=1,
    max_size=8,
)


@given(CELLS, st.floats(0, 2e9), st.floats(0, 2e9))
def test_a_template_renders_as_if_made_at_that_moment(
    cells: list[Any], first_s: float, second_s: float
) -> None:
    columns = tuple(Column(str(n), "string") for n in range(len(cells)))
    row = Printer(columns=columns, render=lambda _: cells).row({})
    for now_s in (first_s, second_s):
        expected = [
            f"{cell.before}{human_duration(now_s - cell.at_s)}{cell.after}"
            if isinstance(cell, Since)
            else cell
            for cell in cells
        ]
        assert orjson.loads(row.cells(now_s)) == expected


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (("", "pods"), ["Name", "Cluster", "Ready", "Status"]),
        (("", "events"), ["Cluster", "Last Seen", "Type", "Reason"]),
        (("some.example", "things"), ["Name", "Cluster", "Created At"]),
    ],
)
def test_the_cluster_stands_behind_the_name(kind: tuple[str, str], names: list[str]) -> None:
    plain = printer_for(group=kind[0], resource=kind[1])
    printer = plain.with_cluster()
    assert [column.name for column in printer.columns][:4] == names
    assert printer.columns[names.index("Cluster")].priority == 0
    assert printer.with_cluster() is printer
    obj = {"metadata": {"name": "x"}}
    before = orjson.loads(plain.row(obj, cluster="unused").cells(0))
    after = orjson.loads(printer.row(obj, cluster="east").cells(0))
    assert after.pop(names.index("Cluster")) == "east"
    assert after == before


@pytest.mark.parametrize(
    ("include", "shown"),
    [
        ("None", "null"),
        (
            "Metadata",
            '{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'
            '"metadata":{"name":"x"}}',
        ),
        ("Object", '{"kind":"Pod"}'),
    ],
)
def test_a_row(include: Any, shown: str) -> None:
    row = row_bytes(
        b'["x"]',
        include=include,
        metadata=b'{"name":"x"}',
        raw=b'{"kind":"Pod"}',
        conditions=b',"conditions":[]',
    )
    assert row.decode() == f'{{"cells":["x"],"conditions":[],"object":{shown}}}'


def test_a_table() -> None:
    head = table_head(b'{"resourceVersion":"7"}', columns=b"[]", version="v1beta1")
    assert (head + TABLE_TAIL).decode() == (
        '{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1","metadata":{"resourceVersion":"7"},'
        '"columnDefinitions":[],"rows":[]}'
    )
    follow_up = orjson.loads(table_head(b"{}", columns=None) + TABLE_TAIL)
    assert follow_up["columnDefinitions"] is None
    assert follow_up["metadata"] == {}


def test_column_definitions_are_in_upstreams_order() -> None:
    columns = (Column("N", "string", "name", 'says "x"', 1),)
    assert column_definitions(columns) == (
        b'[{"name":"N","type":"string","format":"name","description":"says \\"x\\"","priority":1}]'
    )


def test_every_description_that_is_shipped_is_shown() -> None:
    shown = {column.description for printer in BUILT_IN.values() for column in printer.columns}
    shown |= {c.description for c in printer_for(group="", resource="x/scale").columns}
    shown |= {c.description for c in printer_for(group="", resource="x").columns}
    assert set(DESCRIPTIONS.values()) <= shown


def test_names_that_json_must_escape(cells: Callable[..., list[Any]]) -> None:
    obj = {"metadata": {"name": 'a"\\\x00é\u2028'}}
    assert cells("", "pods", obj)[0] == 'a"\\\x00é\u2028'
