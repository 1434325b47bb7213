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
_LARGEST = Fraction(2**63 - 1)


class _Quantity(NamedTuple):
    value: Fraction
    form: str  # "binary", "decimal" or "exponent"
    text: str  # as written, where upstream keeps that


@lru_cache(maxsize=2048)
def _parse(text: str) -> _Quantity | None:
    match = _NUMBER(text.strip())
    if match is None or len(match[1]) > 64:
        return None
    digits, binary, suffix, exponent = match.groups()
    value = Fraction(digits)
    whole, _, fraction = digits.lstrip("+-").partition(".")
    whole = whole.lstrip("0") or "0"
    if binary:
        times = _BINARY.index(binary)
        value = max(-_LARGEST, min(value * 1024**times, _LARGEST))
        kept = not fraction and len(whole) + 3 * times < 15 and int(whole) & 7 != 0
    else:
        if exponent is not None and len(exponent) > 3:
            return None
        power = int(exponent) if exponent is not None else _DECIMAL[suffix]
        value *= Fraction(10) ** power
        kept = _keeps_decimal(whole + fraction, power - len(fraction))
    # Finer than nano is rounded away from zero.
    steps = ceil(abs(value) / _NANO)
    value = _NANO * (steps if value >= 0 else -steps)
    form = "binary" if binary else "exponent" if exponent else "decimal"
    return _Quantity(value, form, text.strip() if kept else "")


def _keeps_decimal(digits: str, scale: int) -> bool:
    """Whether upstream's parser takes the number for canonical and keeps its text.

    It does so after a quick look, and keeps `12.345` and `1.500G` too.
    """
    return (
        scale % 3 == 0
        and scale >= -9
        and len(digits) <= 18
        and digits[0] != "0"
        and not digits.endswith("000")
    )


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
    while whole % 1000 == 0 and (power < 18 or form == "exponent"):
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
    if parsed is None:
        return value
    return parsed.text or _canonical(parsed.value, parsed.form)


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
