"""Reading fields of an object that may be of any shape.

Go's typed objects give a zero value for whatever is absent; so do these. A value of the wrong
type counts as absent: it cannot come from an API server, and one odd object must not cost the
whole list.
"""

from __future__ import annotations

from typing import Any, Final

Object = dict[str, Any]

_EMPTY: Final[Object] = {}
_NOTHING: Final[list[Any]] = []


def text(parent: Object, key: str) -> str:
    """The string at `key`, or ""."""
    value = parent.get(key)
    return value if isinstance(value, str) else ""


def number(parent: Object, key: str) -> int:
    """The integer at `key`, or 0."""
    value = parent.get(key)
    return value if type(value) is int else 0


def optional_number(parent: Object, key: str) -> int | None:
    """The integer at `key`, or None: Go's `*int32`."""
    value = parent.get(key)
    return value if type(value) is int else None


def flag(parent: Object, key: str, *, default: bool = False) -> bool:
    """The boolean at `key`, or `default`."""
    value = parent.get(key)
    return value if isinstance(value, bool) else default


def mapping(parent: Object, key: str) -> Object:
    """The object at `key`, or an empty one. Never to be changed."""
    value = parent.get(key)
    return value if isinstance(value, dict) else _EMPTY


def within(parent: Object, *keys: str) -> Object:
    """The object at the end of the path `keys`, or an empty one."""
    for key in keys:
        parent = mapping(parent, key)
    return parent


def sequence(parent: Object, key: str) -> list[Any]:
    """The list at `key`, or an empty one. Never to be changed."""
    value = parent.get(key)
    return value if isinstance(value, list) else _NOTHING


def items(parent: Object, key: str) -> list[Object]:
    """The objects of the list at `key`; an entry of another type reads as an empty object."""
    value = parent.get(key)
    if not isinstance(value, list):
        return _NOTHING
    return [each if isinstance(each, dict) else _EMPTY for each in value]


def strings(parent: Object, key: str) -> list[str]:
    """The strings of the list at `key`."""
    return [value for value in sequence(parent, key) if isinstance(value, str)]


def string_map(parent: Object, key: str) -> dict[str, str]:
    """The string-to-string map at `key`: labels, annotations, selectors."""
    return {k: v for k, v in mapping(parent, key).items() if isinstance(v, str)}


def condition(parent: Object, kind: str) -> Object | None:
    """The first of `parent.conditions` whose type is `kind`."""
    for entry in items(parent, "conditions"):
        if entry.get("type") == kind:
            return entry
    return None
