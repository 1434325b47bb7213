"""Custom resources against the structural schema of their CRD.

Covers what kube-openapi's validation checks from a schema alone: types, required fields, enums,
lengths, bounds, patterns, counts, uniqueness. CEL rules are judged elsewhere.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems
    from fleet.kube.schema import Schema

_NAMES: Final = {
    dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
    type(None): "null",
}  # fmt: skip


def check_custom(problems: Problems, value: Any, schema: Schema, path: str = "") -> None:
    if value is None and (schema.nullable or not schema.type):
        return
    if schema.int_or_string:
        if not isinstance(value, str | int) or isinstance(value, bool):
            problems.wrong_type(path, _name(value), "integer,string")
        return
    if schema.enum and value not in schema.enum:
        problems.not_supported(path, value, tuple(map(str, schema.enum)))
    if schema.type and not _is_a(value, schema.type):
        problems.wrong_type(path, _name(value), schema.type)
        return
    if isinstance(value, dict):
        _object(problems, value, schema, path)
    elif isinstance(value, list):
        _array(problems, value, schema, path)
    elif isinstance(value, str):
        _text(problems, value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _number(problems, value, schema, path)


def _object(problems: Problems, value: dict[str, Any], schema: Schema, path: str) -> None:
    for name in schema.required:
        if name not in value:
            problems.required(_join(path, name))
    most = schema.node.get("maxProperties")
    if most is not None and len(value) > most:
        problems.too_many(path, len(value), most)
    for name, entry in value.items():
        child = schema.field(name)
        if child is None:
            child = schema.values
        if child is not None and child.custom:
            check_custom(problems, entry, child, _join(path, name))


def _array(problems: Problems, value: list[Any], schema: Schema, path: str) -> None:
    least, most = schema.node.get("minItems"), schema.node.get("maxItems")
    if least is not None and len(value) < least:
        problems.invalid(path, len(value), f"{path} in body should have at least {least} items")
    if most is not None and len(value) > most:
        problems.too_many(path, len(value), most)
    if (items := schema.items) is not None:
        for index, entry in enumerate(value):
            check_custom(problems, entry, items, f"{path}[{index}]")
    _unique(problems, value, schema, path)


def _unique(problems: Problems, value: list[Any], schema: Schema, path: str) -> None:
    """Lists that are sets or maps hold each element or key once."""
    seen: list[Any] = []
    for index, entry in enumerate(value):
        if schema.list_type == "set":
            key = entry
        elif schema.list_type == "map" and isinstance(entry, dict):
            key = {name: entry[name] for name in schema.list_map_keys if name in entry}
        else:
            return
        if key in seen:
            problems.duplicate(f"{path}[{index}]", key)
        seen.append(key)


def _text(problems: Problems, value: str, schema: Schema, path: str) -> None:
    least, most = schema.node.get("minLength"), schema.node.get("maxLength")
    if least is not None and len(value) < least:
        problems.invalid(path, value, f"{path} in body should be at least {least} chars long")
    if most is not None and len(value) > most:
        problems.too_long(path, most)
    pattern = schema.node.get("pattern")
    if pattern and (compiled := _compiled(pattern)) and not compiled.search(value):
        problems.invalid(path, value, f"{path} in body should match '{pattern}'")


def _number(problems: Problems, value: float, schema: Schema, path: str) -> None:
    low, high = schema.node.get("minimum"), schema.node.get("maximum")
    if low is not None:
        exclusive = bool(schema.node.get("exclusiveMinimum"))
        if value < low or (exclusive and value == low):
            words = "greater than" if exclusive else "greater than or equal to"
            problems.invalid(path, value, f"{path} in body should be {words} {low}")
    if high is not None:
        exclusive = bool(schema.node.get("exclusiveMaximum"))
        if value > high or (exclusive and value == high):
            words = "less than" if exclusive else "less than or equal to"
            problems.invalid(path, value, f"{path} in body should be {words} {high}")
    step = schema.node.get("multipleOf")
    if step and value % step:
        problems.invalid(path, value, f"{path} in body should be a multiple of {step}")


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """RE2 and Python agree on nearly everything; what Python cannot read is not judged."""
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _is_a(value: Any, kind: str) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return _name(value) == kind


def _name(value: Any) -> str:
    if isinstance(value, float):
        return "number"
    return _NAMES.get(type(value), "object" if isinstance(value, dict) else "string")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
