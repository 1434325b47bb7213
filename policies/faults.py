"""What pydantic found wrong, in words that say what to write instead, one cause per field."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause
from fleet.kube.gotext import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_TYPES: Final = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "mapping_type": "an object",
}


def causes(error: ValidationError, schema: Mapping[str, Any]) -> tuple[Cause, ...]:
    """One cause per fault, in the order of the fields in the object."""
    return tuple(_cause(detail, schema) for detail in error.errors(include_url=False))


def fault(field: str, message: str) -> Cause:
    return Cause("FieldValueInvalid", message, field)


def path(steps: Iterable[str | int]) -> str:
    """`spec.gang.roles[0].name`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not step.replace("_", "").replace("-", "").isalnum():
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _cause(detail: ErrorDetails, schema: Mapping[str, Any]) -> Cause:
    steps, value, context = detail["loc"], detail["input"], detail.get("ctx") or {}
    field = path(steps)
    match detail["type"]:
        case "extra_forbidden":
            return Cause("FieldValueInvalid", _unknown(steps, schema), field)
        case "missing":
            meant = str(_at(schema, steps).get("description", ""))
            return Cause("FieldValueRequired", f"must be given: {_lower(meant)}", field)
        case "literal_error":
            supported = _at(schema, steps).get("enum", ())
            return Cause("FieldValueNotSupported", _unsupported(value, supported), field)
        case "value_error":
            return fault(field, str(context["error"]))
        case "greater_than_equal":
            return fault(field, f"must be at least {context['ge']}, not {value}")
        case "less_than_equal":
            return fault(field, f"must be at most {context['le']}, not {value}")
        case kind if kind in _TYPES:
            return Cause("FieldValueTypeInvalid", _wrong_type(value, _TYPES[kind]), field)
    return fault(field, detail["msg"])


def _unknown(steps: tuple[str | int, ...], schema: Mapping[str, Any]) -> str:
    known = tuple(_at(schema, steps[:-1]).get("properties", ()))
    near = get_close_matches(str(steps[-1]), known, n=1)
    if near:
        return f"unknown field, did you mean {near[0]}?"
    return f"unknown field; known here: {', '.join(known)}" if known else "unknown field"


def _unsupported(value: Any, supported: Iterable[Any]) -> str:
    names = [str(name) for name in supported]
    listed = ", ".join(quoted(name) for name in names)
    text = f"Unsupported value: {_shown(value)}: supported values: {listed}"
    near = next((name for name in names if name.lower() == str(value).lower()), None)
    return f"{text}; did you mean {near}?" if near else text


def _wrong_type(value: Any, wanted: str) -> str:
    text = f"must be {wanted}, not {_shown(value)}"
    if wanted == "a whole number" and isinstance(value, str) and value.strip().isdecimal():
        return f"{text}: write {value.strip()} without quotes"
    if wanted == "a text" and isinstance(value, int | float):
        return f"{text}: write it in quotes"
    return text


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _lower(sentence: str) -> str:
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")


def _at(schema: Mapping[str, Any], steps: Iterable[str | int]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema
    for step in steps:
        if isinstance(step, int):
            found = found.get("items", {})
        else:
            found = found.get("properties", {}).get(step) or found.get("additionalProperties", {})
        if not isinstance(found, dict):
            return {}
    return found
