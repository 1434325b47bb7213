"""Collecting what is wrong with an object, worded as upstream's `field.Error`.

Every rule adds to one `Problems`, so a client sees all faults at once. Paths are dotted text, list
elements in brackets: `spec.containers[0].name`, `metadata.labels[app]`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Invalid
from fleet.kube.gotext import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than 0"


class Problems:
    """The faults found so far, in the order of the rules; the same fault counts once."""

    def __init__(self) -> None:
        self._causes: dict[Cause, None] = {}

    def __bool__(self) -> bool:
        return bool(self._causes)

    @property
    def causes(self) -> tuple[Cause, ...]:
        return tuple(self._causes)

    def raise_if_any(self, *, group: str, kind: str, name: str) -> None:
        """Raises Invalid with one cause per fault."""
        if self._causes:
            raise Invalid.of(group=group, kind=kind, name=name, causes=self.causes)

    def _add(self, reason: str, path: str, message: str, detail: str) -> None:
        text = f"{message}: {detail}" if detail else message
        self._causes[Cause(reason, text, path)] = None

    def required(self, path: str, detail: str = "") -> None:
        self._add("FieldValueRequired", path, "Required value", detail)

    def invalid(self, path: str, value: Any, detail: str) -> None:
        self._add("FieldValueInvalid", path, f"Invalid value: {shown(value)}", detail)

    def invalid_each(self, path: str, value: Any, details: Iterable[str]) -> None:
        for detail in details:
            self.invalid(path, value, detail)

    def wrong(self, path: str, detail: str) -> None:
        """Invalid without naming the value."""
        self._add("FieldValueInvalid", path, "Invalid value", detail)

    def wrong_type(self, path: str, found: str, expected: str) -> None:
        """A JSON type that the schema does not allow."""
        self._add(
            "FieldValueTypeInvalid",
            path,
            f"Invalid value: {quoted(found)}",
            f'{path} in body must be of type {expected}: "{found}"',
        )

    def forbidden(self, path: str, detail: str) -> None:
        self._add("FieldValueForbidden", path, "Forbidden", detail)

    def duplicate(self, path: str, value: Any) -> None:
        self._add("FieldValueDuplicate", path, f"Duplicate value: {shown(value)}", "")

    def not_found(self, path: str, value: Any) -> None:
        self._add("FieldValueNotFound", path, f"Not found: {shown(value)}", "")

    def not_supported(self, path: str, value: Any, supported: Sequence[str]) -> None:
        names = ", ".join(quoted(name) for name in supported)
        self._add(
            "FieldValueNotSupported",
            path,
            f"Unsupported value: {shown(value)}",
            f"supported values: {names}",
        )

    def too_long(self, path: str, limit: int) -> None:
        self._add("FieldValueTooLong", path, "Too long", f"may not be more than {limit} bytes")

    def too_many(self, path: str, count: int, limit: int) -> None:
        self._add(
            "FieldValueTooMany",
            path,
            f"Too many: {count}",
            f"must have at most {limit} item{'' if limit == 1 else 's'}",
        )

    def not_negative(self, path: str, value: Any) -> None:
        """`value` is an integer or absent."""
        if isinstance(value, int) and value < 0:
            self.invalid(path, value, NEGATIVE)

    def one_of(self, path: str, value: str, supported: Sequence[str]) -> None:
        """An enumerated field that must be set."""
        if not value:
            self.required(path)
        elif value not in supported:
            self.not_supported(path, value, supported)

    def immutable(self, path: str, new: Any, old: Any) -> None:
        """`new` must equal `old`; nothing and emptiness are the same."""
        if (new or None) != (old or None) or isinstance(new, bool) != isinstance(old, bool):
            self.invalid(path, new, IMMUTABLE)


def shown(value: Any) -> str:
    """A value as messages show it: quoted text, bare numbers, objects as JSON."""
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
