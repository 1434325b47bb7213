"""Resource quantities (`500m`, `1.5Gi`, `12e6`) as exact integers.

A `Quantity` counts billionths, the smallest unit the notation has, so sums and comparisons are
exact and no float appears anywhere. Reading and writing follow apimachinery's `pkg/api/resource`:
what is finer than a billionth rounds away from zero, binary suffixes are capped at 2^63-1, and a
text that an API server would keep as written is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import total_ordering
from typing import Final

_NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * _NANO
_MAX_INT64: Final = 2**63 - 1
# Beyond this an exponent says nothing about resources and only costs memory.
_MAX_EXPONENT: Final = 400

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}

FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class InvalidQuantity(ValueError):
    """A text that is no quantity; the message is upstream's."""


class Format(Enum):
    """Which suffixes a quantity is written with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount: `nano` billionths, written in `format`.

    `written` is the text to show when it differs from the canonical one: API servers keep some
    texts as they came (`1.500`). Equality, order and hash look at the amount alone.
    """

    nano: int
    format: Format = Format.DECIMAL_SI
    written: str = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity; surrounding blanks are ignored.

        Raises InvalidQuantity with upstream's message.
        """
        text = text.strip()
        match = _NUMBER.fullmatch(text)
        if not text or match is None:
            raise InvalidQuantity(FORMAT_WRONG)
        sign, whole, _, fraction, suffix = match.groups()
        whole, fraction = whole.lstrip("0"), fraction or ""
        base, exponent, format_ = _suffix(suffix)
        if abs(exponent) > _MAX_EXPONENT:
            raise InvalidQuantity("unable to parse quantity's suffix")
        digits = int((whole or "0") + fraction)
        kept = text if _kept_as_written(whole or "0", fraction, exponent, format_) else ""
        nano = _scaled_up(digits, base, exponent, len(fraction))
        if format_ is Format.BINARY_SI:
            nano = min(nano, _MAX_BINARY)
            if 0 < nano < _NANO:
                format_ = Format.DECIMAL_SI
        return cls(-nano if sign == "-" else nano, format_, kept)

    @classmethod
    def of(cls, units: int, *, format: Format = Format.DECIMAL_SI) -> Quantity:
        """A whole number of units (cores, bytes, pods)."""
        return cls(units * _NANO, format)

    @classmethod
    def milli(cls, thousandths: int) -> Quantity:
        return cls(thousandths * 10**6)

    def __str__(self) -> str:
        return self.written or self.canonical

    @property
    def canonical(self) -> str:
        """The one shortest text: no fraction, the largest suffix that keeps the number whole."""
        if self.nano == 0:
            return "0"
        if self.format is Format.BINARY_SI:
            units, rest = divmod(self.nano, _NANO)
            if rest == 0 and abs(units) >= 1024:
                power = 0
                while units % 1024 == 0 and power < 60:
                    units, power = units // 1024, power + 10
                return f"{units}{_BINARY_SUFFIX[power]}"
        mantissa, exponent = self.nano, -9
        while mantissa % 1000 == 0:
            mantissa, exponent = mantissa // 1000, exponent + 3
        if self.format is not Format.DECIMAL_EXPONENT and exponent in _DECIMAL_SUFFIX:
            return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)

    @property
    def is_whole(self) -> bool:
        return self.nano % _NANO == 0

    @property
    def value(self) -> int:
        """Units, rounded away from zero."""
        return _away_from_zero(self.nano, _NANO)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded away from zero."""
        return _away_from_zero(self.nano, 10**6)

    def rounded_to_milli(self) -> Quantity:
        """Rounded away from zero to whole thousandths, as API servers store resource lists."""
        if self.nano % 10**6 == 0:
            return self
        return Quantity(self.milli_value * 10**6, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        format_ = other.format if self.nano == 0 else self.format
        return Quantity(self.nano + other.nano, format_)

    def __sub__(self, other: Quantity) -> Quantity:
        format_ = other.format if self.nano == 0 else self.format
        return Quantity(self.nano - other.nano, format_)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nano * factor, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0


ZERO: Final = Quantity(0)


def as_stored(text: str) -> str:
    """How an API server writes back the quantity `text`.

    Raises InvalidQuantity.
    """
    return str(Quantity.parse(text))


def _suffix(suffix: str) -> tuple[int, int, Format]:
    """Base, exponent and format that a suffix stands for."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], Format.BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE" and re.fullmatch(r"[+-]?[0-9]+", suffix[1:]):
        return 10, int(suffix[1:]), Format.DECIMAL_EXPONENT
    raise InvalidQuantity("unable to parse quantity's suffix")


def _scaled_up(digits: int, base: int, exponent: int, places: int) -> int:
    """`digits` · base^exponent / 10^places in billionths, rounded up."""
    if base == 2:
        return _away_from_zero(digits * 2**exponent * _NANO, 10**places)
    power = exponent - places + 9
    return digits * 10**power if power >= 0 else _away_from_zero(digits, 10**-power)


def _kept_as_written(whole: str, fraction: str, exponent: int, format_: Format) -> bool:
    """Whether upstream's fast path takes the text for canonical and keeps it."""
    digits = whole + fraction
    if format_ is Format.BINARY_SI:
        room = 15 - len(whole) - exponent * 3 // 10 - 1
        return (
            not fraction
            and room >= 0
            and int(whole) * 2**exponent <= _MAX_INT64
            and int(whole) & 7 != 0
        )
    scale = exponent - len(fraction)
    return (
        len(digits) <= 18
        and scale >= -9
        and scale % 3 == 0
        and not digits.endswith("000")
        and digits[0] != "0"
    )


def _away_from_zero(number: int, divisor: int) -> int:
    quotient = -(-abs(number) // divisor)
    return quotient if number >= 0 else -quotient
