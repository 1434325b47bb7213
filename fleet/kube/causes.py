"""Causes of a 422 in the words of apimachinery's field errors.

Each function makes one `Cause` for `Invalid.of`; the field path is the caller's. Values are shown
as Go prints them, so that messages equal upstream's to the letter.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fleet.errors import Cause
from fleet.kube.gotext import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable


def shown(value: object) -> str:
    """A value as a field error prints it: strings quoted, anything else as JSON."""
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def invalid(field: str, value: object, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)


def not_supported(field: str, value: object, supported: Iterable[str]) -> Cause:
    names = ", ".join(map(quoted, supported))
    return Cause(
        "FieldValueNotSupported",
        f"Unsupported value: {shown(value)}: supported values: {names}",
        field,
    )


def too_long(field: str, *, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)
