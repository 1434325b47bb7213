"""The order of merged lists in a strategic merge patch, and Go's view of JSON values.

Three orders compete, the first wins: the list in `$setElementOrder`, the patch, the live list.
Elements that only the live list has keep their order among themselves and are woven in before the
first element they preceded. Elements are told apart by merge key, or by value in lists of scalars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class NoMergeKey(ValueError):
    """An element of a list that merges by key has no such key."""


@dataclass(frozen=True, slots=True)
class Element:
    """What tells list elements apart: the value of the merge key, or the scalar itself."""

    type: str
    value: Any

    @classmethod
    def of(cls, element: Any, merge_key: str) -> Element:
        """Raises NoMergeKey."""
        if merge_key:
            if not isinstance(element, dict):
                raise NoMergeKey(
                    "expected a map[string]interface {}, but received a " + go_type(element)
                )
            if merge_key not in element:
                raise NoMergeKey(
                    f"map: {go_print(element)} does not contain declared merge key: {merge_key}"
                )
            element = element[merge_key]
        if isinstance(element, dict | list):
            element = go_print(element)
        return cls(go_type(element), element)

    def matches(self, element: Any, merge_key: str) -> bool:
        """Whether a live element has this key; one without a key never does."""
        if not isinstance(element, dict) or merge_key not in element:
            return False
        return self == Element.of(element, merge_key)


def partition(merged: list[Any], named: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The elements that `named` lists, and the others.

    Raises NoMergeKey for an element of `merged` without its key.
    """
    keys = {Element.of(e, merge_key) for e in named if not merge_key or merge_key in _members(e)}
    ours: list[Any] = []
    others: list[Any] = []
    for element in merged:
        (ours if Element.of(element, merge_key) in keys else others).append(element)
    return ours, others


def in_order(
    ours: list[Any], others: list[Any], order: list[Any], live: list[Any], merge_key: str
) -> list[Any]:
    """`ours` sorted by `order`, with `others`, sorted by `live`, woven in.

    Raises NoMergeKey.
    """
    wanted, lived = _positions(order, merge_key), _positions(live, merge_key)
    left, right = _sorted(others, lived, merge_key), _sorted(ours, wanted, merge_key)
    result: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        before = lived.get(Element.of(left[i], merge_key))
        after = lived.get(Element.of(right[j], merge_key))
        if before is not None and after is not None and before < after:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return [*result, *left[i:], *right[j:]]


def _members(element: Any) -> dict[str, Any]:
    return element if isinstance(element, dict) else {}


def _positions(elements: list[Any], merge_key: str) -> dict[Element, int]:
    positions: dict[Element, int] = {}
    for index, element in enumerate(elements):
        positions.setdefault(Element.of(element, merge_key), index)
    return positions


def _sorted(elements: list[Any], positions: dict[Element, int], merge_key: str) -> list[Any]:
    last = len(positions)
    return sorted(elements, key=lambda e: positions.get(Element.of(e, merge_key), last))


def same(left: Any, right: Any) -> bool:
    """Equality of scalars as Go has it: 1, 1.0 and true all differ."""
    return go_type(left) == go_type(right) and bool(left == right)


def go_type(value: Any) -> str:
    """The Go type that holds a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "[]interface {}"
    return "map[string]interface {}" if isinstance(value, dict) else "<nil>"


def go_print(value: Any) -> str:
    """A JSON value as Go's `%v` prints it: `map[a:1 b:[x y]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_print(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_print, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
