"""Printers of custom resources, from the `additionalPrinterColumns` of a CRD version.

Follows apiextensions-apiserver `registry/customresource/tableconvertor`: of each path the first
result, made to fit the column's type, or null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import orjson

from fleet.kube.tables.columns import AGE, NAME, column
from fleet.kube.tables.durations import parse_time
from fleet.kube.tables.jsonpath import JSONPathError, compile_path
from fleet.kube.tables.reading import Object, mapping, text
from fleet.kube.tables.rows import UNKNOWN, Cell, Cells, Printer, Since

_DEFAULT: Final = (
    {
        "name": "Age",
        "type": "date",
        "description": AGE.description,
        "jsonPath": ".metadata.creationTimestamp",
    },
)
# Past these, Go switches to an exponent: fmt's %v, and encoding/json.
_VERB_LOW, _JSON_LOW, _HIGH = 1e-4, 1e-6, 1e21

CellOf = Callable[[Object], Cell]


def custom_printer(definitions: Sequence[Mapping[str, Any]]) -> Printer:
    """The printer for a CRD version with these columns; none means NAME and AGE.

    A definition whose path cannot be parsed ends the columns, as upstream falls back to those
    before it.
    """
    columns, cells = [NAME], list[CellOf]()
    for definition in definitions or _DEFAULT:
        path = str(definition.get("jsonPath", ""))
        kind = str(definition.get("type", ""))
        try:
            cells.append(_cell_of(path, kind))
        except JSONPathError:
            break
        described = str(definition.get("description") or "")
        priority = definition.get("priority")
        columns.append(
            column(
                str(definition.get("name", "")),
                described or f"Custom resource definition column (in JSONPath format): {path}",
                type=kind,
                format=str(definition.get("format") or ""),
                priority=priority if isinstance(priority, int) else 0,
            )
        )

    def render(obj: Object) -> Cells:
        return (text(mapping(obj, "metadata"), "name"), *(cell(obj) for cell in cells))

    return Printer(columns=tuple(columns), render=render)


def _cell_of(expression: str, kind: str) -> CellOf:
    find = compile_path(expression).find
    convert = _CONVERT.get(kind, _nothing)

    def cell(obj: Object) -> Cell:
        try:
            found = find(obj)
        except JSONPathError:
            return None
        return convert(found[0]) if found else None

    return cell


def _nothing(_: Any) -> Cell:
    return None


def _string(value: Any) -> Cell:
    """`value` as client-go's jsonpath prints it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _go_float(value, low=_VERB_LOW)
    return _go_json(value) if isinstance(value, (dict, list)) else str(value)


def _integer(value: Any) -> Cell:
    if type(value) not in (int, float):
        return None
    # What Go makes of a float that does not fit, on amd64.
    return int(value) if abs(value) < 2**63 else -(2**63)


def _number(value: Any) -> Cell:
    if type(value) not in (int, float):
        return None
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)


def _boolean(value: Any) -> Cell:
    return value if isinstance(value, bool) else None


def _date(value: Any) -> Cell:
    if not isinstance(value, str):
        return None
    if value in ("", "null"):
        return UNKNOWN
    try:
        at_s = parse_time(value)
    except ValueError:
        return "<invalid>"
    return UNKNOWN if at_s is None else Since(at_s)


_CONVERT: Final[dict[str, Callable[[Any], Cell]]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}


def _go_float(value: float, *, low: float) -> str:
    """The shortest form that reads back, with Go's thresholds for an exponent."""
    if value and not low <= abs(value) < _HIGH:
        mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
        power = int(exponent)
        # encoding/json writes e-9 where fmt writes e-09.
        digits = str(abs(power)) if low == _JSON_LOW and power < 0 else f"{abs(power):02}"
        return f"{mantissa}e{'-' if power < 0 else '+'}{digits}"
    shown = f"{Decimal(repr(value)):f}"
    return shown.removesuffix(".0")


def _go_json(value: Any) -> str:
    """`value` as encoding/json writes it: keys sorted, HTML escaped."""
    if isinstance(value, dict):
        pairs = (f"{_go_json(key)}:{_go_json(value[key])}" for key in sorted(value))
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_go_json, value))}]"
    if isinstance(value, float):
        return _go_float(value, low=_JSON_LOW)
    encoded = orjson.dumps(value).decode()
    if isinstance(value, str):
        for char in "<>&\u2028\u2029":
            encoded = encoded.replace(char, f"\\u{ord(char):04x}")
    return encoded
