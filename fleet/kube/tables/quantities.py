"""Quantities in the canonical form in which upstream prints them (apimachinery `resource`).

API servers send quantities canonical already; sums and objects kept as they were written are not.
Values are exact: fractions, never floats.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?\d+))", re.ASCII
).fullmatch
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_NANO = Fraction(1, 10**9)


class _Quantity(NamedTuple):
    value: Fraction
    form: str  # "binary", "decimal" or "exponent"


@lru_cache(maxsize=2048)
def _parse(text: str) -> _Quantity | None:
    match = _NUMBER(text.strip())
    if match is None or len(match[1]) > 64:
        return None
    digits, binary, suffix, exponent = match.groups()
    value = Fraction(digits)
    if binary:
        value *= 1024 ** _BINARY.index(binary)
    elif exponent is not None:
        if len(exponent) > 3:
            return None
        value *= Fraction(10) ** int(exponent)
    else:
        value *= Fraction(10) ** _DECIMAL[suffix]
    # Finer than nano is rounded away from zero.
    steps = ceil(abs(value) / _NANO)
    value = _NANO * (steps if value >= 0 else -steps)
    return _Quantity(value, "binary" if binary else "exponent" if exponent else "decimal")


@lru_cache(maxsize=2048)
def _canonical(value: Fraction, form: str) -> str:
    if not value:
        return "0"
    if form == "binary" and value.denominator == 1 and abs(value) >= 1024:
        whole, power = value.numerator, 0
        while whole % 1024 == 0 and power < len(_BINARY) - 1:
            whole //= 1024
            power += 1
        return f"{whole}{_BINARY[power]}"
    power = -9
    whole = int(value / _NANO)
    while whole % 1000 == 0 and power < 18:
        whole //= 1000
        power += 3
    if form == "exponent":
        return f"{whole}e{power}" if power else str(whole)
    return f"{whole}{_SUFFIX[power]}"


def quantity(value: Any) -> str:
    """`value`, a quantity as JSON has it, in canonical form; absent is `0`, nonsense unchanged."""
    if value is None:
        return "0"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return "0"
    parsed = _parse(value)
    return value if parsed is None else _canonical(*parsed)


def optional_quantity(value: Any) -> str:
    """The same for Go's `*Quantity`: absent is `<nil>`."""
    return "<nil>" if value is None else quantity(value)


def total(values: Iterable[Any]) -> str:
    """The sum in canonical form; its format is that of the first value that is not zero."""
    value, form = Fraction(), ""
    for each in values:
        parsed = _parse(each if isinstance(each, str) else str(each))
        if parsed is not None and parsed.value:
            form = form or parsed.form
            value += parsed.value
    return _canonical(value, form or "decimal")
