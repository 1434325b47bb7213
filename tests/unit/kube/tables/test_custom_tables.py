"""Columns of custom resources. The breadth of the path dialect is held to a real API server; here
are the rules by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.tables import printer_for
from fleet.kube.tables.jsonpath import JSONPathError, compile_path

if TYPE_CHECKING:
    from collections.abc import Callable

THING = {
    "metadata": {"name": "x", "annotations": {"a.b/c": "dotted"}},
    "spec": {
        "list": ["a", "b", "c"],
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "it's", "status": "False", "n": 2},
        ],
        "nested": {"deep": {"key": "v"}},
        "null": None,
    },
}

FOUND = [
    (".spec.list", [["a", "b", "c"]]),
    (".spec.list[0]", ["a"]),
    (".spec.list[-1]", ["c"]),
    (".spec.list[*]", ["a", "b", "c"]),
    (".spec.list[:2]", ["a", "b"]),
    (".spec.list[::2]", ["a", "c"]),
    (".spec.list[1:1]", []),
    (".spec.list[0,2]", ["a", "c"]),
    (".spec.nested.*", [{"key": "v"}]),
    (".spec..key", ["v"]),
    (".metadata.annotations.a\\.b/c", ["dotted"]),
    (".metadata.annotations['a\\.b/c']", ["dotted"]),
    (".metadata.annotations['a.b/c']", []),
    ("$.metadata.name", ["x"]),
    ('.spec.conditions[?(@.type=="Ready")].status', ["True"]),
    ('.spec.conditions[?(@.type=="it\'s")].status', ["False"]),
    ('.spec.conditions[?(@.type=="\\u0052eady")].status', ["True"]),
    (".spec.conditions[?(@.type!='Ready')].n", [2]),
    (".spec.conditions[?(@.n>1)].n", [2]),
    (".spec.conditions[?(@.n>=1)].n", [1, 2]),
    (".spec.conditions[?(@.n<2)].n", [1]),
    (".spec.conditions[?(@.n<=2)].n", [1, 2]),
    (".spec.conditions[?(@.absent)].n", []),
    (".spec.conditions[?(@.status)].n", [1, 2]),
    (".spec.conditions[?(@.status==@.type)].n", []),
    (".spec.null", [None]),
    (".spec.null.deeper", []),
    (".spec.absent[0]", []),
]


@pytest.mark.parametrize(("path", "found"), FOUND)
def test_paths_find(path: str, found: list[Any]) -> None:
    assert compile_path(path).find(THING) == found


@pytest.mark.parametrize(
    "path",
    [
        ".spec.list[7]",
        ".spec.list[-7]",
        ".spec.list[2:1]",
        ".spec.list[::0]",
        ".spec.nested[0]",
        ".spec.nested[?(@.a)]",
        ".spec.null[?(@.a)]",
        ".spec.conditions[?(@.type==1)].n",
        ".spec.conditions[?(@.n==1.0)].n",
        ".spec.conditions[?(@.n=1)].n",
        ".spec word",
    ],
)
def test_paths_that_do_not_apply(path: str) -> None:
    with pytest.raises(JSONPathError):
        compile_path(path).find(THING)


@pytest.mark.parametrize(
    "path",
    [
        ".list[",
        ".list[a]",
        ".list[?(@.a",
        ".list[?(@.a)",
        '.list[?(@.a=="b)]',
        '.list[?(@.a=="\\q")]',
        "....a",
        "{.a}",
        ".a,b",
        ".list[99999999999999999999999999:x]",
    ],
)
def test_paths_that_cannot_be_parsed(path: str) -> None:
    with pytest.raises(JSONPathError):
        compile_path(path)


@given(st.text(alphabet=".[]?()@$=!<>'\"*:,-0123456789ab\\{} \n", max_size=40))
def test_any_text_is_a_path_or_refused(path: str) -> None:
    try:
        compiled = compile_path(path)
    except JSONPathError:
        return
    try:
        compiled.find(THING)
    except JSONPathError:
        pass


def cell(value: Any, kind: str, now_s: float) -> Any:
    column = {"name": "C", "type": kind, "jsonPath": ".spec"}
    printer = printer_for(group="x.example", resource="things", crd_columns=[column])
    row = printer.row({"metadata": {"name": "x"}, "spec": value})
    return orjson.loads(row.cells(now_s))[1]


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        ("text", "string", "text"),
        (True, "string", "true"),
        (5, "string", "5"),
        (1.0, "string", "1"),
        (0.0, "string", "0"),
        (-0.25, "string", "-0.25"),
        (0.0001, "string", "0.0001"),
        (0.00001234, "string", "1.234e-05"),
        (1e20, "string", "100000000000000000000"),
        (1.5e21, "string", "1.5e+21"),
        (None, "string", "<no value>"),
        ({"b": 1, "a": "<&>"}, "string", '{"a":"\\u003c\\u0026\\u003e","b":1}'),
        ([1e-7, 1e21, 1e-6, None, True], "string", "[1e-7,1e+21,0.000001,null,true]"),
        (5, "integer", 5),
        (5.9, "integer", 5),
        (-5.9, "integer", -5),
        ("5", "integer", None),
        (True, "integer", None),
        (None, "integer", None),
        (5, "number", 5),
        (5.5, "number", 5.5),
        ("5", "number", None),
        (False, "boolean", False),
        ("false", "boolean", None),
        ("", "date", "<unknown>"),
        ("null", "date", "<unknown>"),
        ("0001-01-01T00:00:00Z", "date", "<unknown>"),
        ("yesterday", "date", "<invalid>"),
        (5, "date", None),
        ("text", "odd", None),
    ],
)
def test_cells_fit_their_columns(value: Any, kind: str, shown: Any, now_s: float) -> None:
    assert cell(value, kind, now_s) == shown


def test_dates_age(now_s: float, ago: Callable[[float], str]) -> None:
    assert cell(ago(7200), "date", now_s) == "120m"
    assert cell(ago(7200), "date", now_s + 7200) == "4h"


def test_columns_of_a_crd() -> None:
    described = {
        "name": "A",
        "type": "string",
        "jsonPath": ".a",
        "description": "says",
        "priority": 1,
    }
    plain = {"name": "B", "type": "integer", "jsonPath": ".b", "format": "int32"}
    broken = {"name": "C", "type": "string", "jsonPath": ".c["}
    printer = printer_for(
        group="x.example", resource="things", crd_columns=[described, plain, broken, described]
    )
    shown = [(c.name, c.type, c.format, c.description, c.priority) for c in printer.columns[1:]]
    generated = "Custom resource definition column (in JSONPath format): .b"
    assert shown == [("A", "string", "", "says", 1), ("B", "integer", "int32", generated, 0)]


def test_a_crd_without_columns_shows_its_age(now_s: float, ago: Callable[[float], str]) -> None:
    printer = printer_for(group="x.example", resource="things", crd_columns=[])
    assert [column.name for column in printer.columns] == ["Name", "Age"]
    row = printer.row({"metadata": {"name": "x", "creationTimestamp": ago(5)}})
    assert row.cells(now_s) == b'["x","5s"]'


def test_scales_of_custom_resources(now_s: float) -> None:
    printer = printer_for(group="x.example", resource="things/scale", crd_columns=[])
    assert [c.name for c in printer.columns] == ["Name", "Desired", "Available", "Age"]
    obj = {"metadata": {"name": "x"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    assert orjson.loads(printer.row(obj).cells(now_s)) == ["x", 3, 2, None]
