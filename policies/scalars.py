"""Values that a policy writes as text: durations, money, shares, quantities, times.

Each reads the text exactly – no float anywhere – and says in its error what to write instead.
Money is counted in millionths of the currency's unit, time in `timedelta`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, InstanceOf, WithJsonSchema

from fleet.kube.quantity import InvalidQuantity
from fleet.kube.quantity import Quantity as ExactQuantity
from policies.currencies import CODES

MICRO: Final = 10**6
_PLACES: Final = 6
# Far beyond any price, and short enough to read at a glance.
_MOST_DIGITS: Final = 12

DURATION_PATTERN: Final = r"^([0-9]+(ms|s|m|h))+$"
AMOUNT_PATTERN: Final = rf"^[0-9]{{1,{_MOST_DIGITS}}}(\.[0-9]{{1,{_PLACES}}})?$"
MONEY_PATTERN: Final = rf"^[0-9]{{1,{_MOST_DIGITS}}}(\.[0-9]{{1,{_PLACES}}})? [A-Z]{{3}}$"
RATE_PATTERN: Final = rf"^[0-9]{{1,{_MOST_DIGITS}}}(\.[0-9]{{1,{_PLACES}}})? [A-Z]{{3}}/h$"
SHARE_PATTERN: Final = r"^(100|[0-9]{1,2})%$"
_CURRENCY: Final = r"^[A-Z]{3}$"
_QUANTITY: Final = r"^[+]?[0-9.]+([eEinumkKMGTP]*[-+]?[0-9]*)$"
MOST: Final = 2**63 - 1
"""The largest whole number that every client of the API can hold."""
MOST_PODS: Final = 2**31 - 1
"""Kubernetes counts pods in 32 bits."""
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def parse_duration(value: Any) -> timedelta:
    """`90s`, `10m`, `1h30m`; ValueError says what to write."""
    if not isinstance(value, str):
        raise ValueError(f'{_shown(value)} is no duration, write e.g. "30s", "10m" or "72h"')
    if re.fullmatch(DURATION_PATTERN, value) is None:
        raise ValueError(f'"{value}" is no duration, write e.g. "30s", "10m" or "72h"')
    parts = re.findall(r"([0-9]+)(ms|s|m|h)", value)
    try:
        return timedelta(milliseconds=sum(int(count) * _UNITS[unit] for count, unit in parts))
    except OverflowError:
        raise ValueError(f'"{value}" is longer than any clock runs') from None


def parse_amount(value: Any) -> int:
    """`98.32` to 98_320_000 millionths; ValueError says what to write."""
    if not isinstance(value, str):
        raise ValueError(f'{_shown(value)} must be a text, so that it stays exact: "98.32"')
    if re.fullmatch(rf"0*[0-9]{{{_MOST_DIGITS + 1},}}(\.[0-9]*)?", value):
        raise ValueError(
            f'"{value}" is more than can be counted: at most {_MOST_DIGITS} digits before the point'
        )
    if re.fullmatch(AMOUNT_PATTERN, value) is None:
        reason = "may not be negative" if value.startswith("-") else "is no amount of money"
        raise ValueError(f'"{value}" {reason}, write e.g. "98.32" (at most {_PLACES} places)')
    whole, _, fraction = value.partition(".")
    return int(whole) * MICRO + int(fraction.ljust(_PLACES, "0"))


@dataclass(frozen=True, slots=True)
class Rate:
    """Money per hour: millionths of `currency`."""

    micro: int
    currency: str

    def __str__(self) -> str:
        return f"{amount_text(self.micro)} {self.currency}/h"


def parse_rate(value: Any) -> Rate:
    """`120 USD/h`; ValueError says what to write."""
    if not isinstance(value, str):
        raise ValueError(f'{_shown(value)} needs a currency, e.g. "{_number(value)} USD/h"')
    if re.fullmatch(AMOUNT_PATTERN, value):
        raise ValueError(f'"{value}" needs a currency, e.g. "{value} USD/h"')
    amount, space, currency = value.removesuffix("/h").partition(" ")
    if not space or re.fullmatch(_CURRENCY, currency) is None:
        raise ValueError(f'"{value}" is no price, write e.g. "120 USD/h"')
    if not value.endswith("/h"):
        raise ValueError(f'"{value}" needs a time, e.g. "{value}/h"')
    return Rate(parse_amount(amount), parse_currency(currency))


@dataclass(frozen=True, slots=True)
class Money:
    """Millionths of `currency`."""

    micro: int
    currency: str

    def __str__(self) -> str:
        return f"{amount_text(self.micro)} {self.currency}"


def parse_money(value: Any) -> Money:
    """`200000 USD`; ValueError says what to write."""
    if not isinstance(value, str):
        raise ValueError(f'{_shown(value)} needs a currency, e.g. "{_number(value)} USD"')
    if re.fullmatch(AMOUNT_PATTERN, value):
        raise ValueError(f'"{value}" needs a currency, e.g. "{value} USD"')
    amount, space, currency = value.partition(" ")
    if not space or re.fullmatch(_CURRENCY, currency) is None:
        raise ValueError(f'"{value}" is no sum of money, write e.g. "200000 USD"')
    return Money(parse_amount(amount), parse_currency(currency))


def parse_share(value: Any) -> int:
    """`80%` to 80; ValueError says what to write."""
    if not isinstance(value, str) or re.fullmatch(SHARE_PATTERN, value) is None:
        raise ValueError(f'{_shown(value)} is no share, write "0%" to "100%"')
    return int(value[:-1])


def parse_currency(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch(_CURRENCY, value) is None:
        raise ValueError(f'{_shown(value)} is no currency, write its three letters, e.g. "USD"')
    if value not in CODES:
        raise ValueError(f'"{value}" is no currency there is (ISO 4217), write e.g. "USD"')
    return value


def parse_quantity(value: Any) -> ExactQuantity:
    if isinstance(value, int) and not isinstance(value, bool):
        return ExactQuantity.of(value)
    if not isinstance(value, str):
        raise ValueError(f'{_shown(value)} is no quantity, write e.g. "500m", "4" or "16Gi"')
    try:
        return ExactQuantity.parse(value)
    except InvalidQuantity:
        raise ValueError(f'"{value}" is no quantity, write e.g. "500m", "4" or "16Gi"') from None


def parse_resource_amount(value: Any) -> ExactQuantity:
    """A quantity of something that is there: not negative, and no more than clients can hold."""
    quantity = parse_quantity(value)
    if quantity.nano < 0:
        raise ValueError(f"{_shown(value)} may not be negative")
    # Larger ones with a binary suffix are read as the largest there is, as API servers do.
    if quantity.value >= MOST:
        raise ValueError(f"{_shown(value)} is more than can be counted: it must be below 2^63 - 1")
    return quantity


def parse_time(value: Any) -> datetime:
    """RFC 3339, with a zone: a time without one means something else elsewhere."""
    # YAML reads an unquoted time as one.
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, str) and re.fullmatch(
        r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value, re.ASCII
    ):
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError(f"{_shown(value)} is no time, write e.g. 2026-11-29T06:00:00Z")


def amount_text(micro: int) -> str:
    """Millionths as the shortest decimal: `98.32`, `0`."""
    whole, fraction = divmod(abs(micro), MICRO)
    text = f"{whole}.{fraction:06}".rstrip("0").rstrip(".")
    return f"-{text}" if micro < 0 else text


def duration_text(value: timedelta) -> str:
    """As policies write it: `1h30m`, `90s` as `1m30s`, `0s`."""
    rest, text = value // timedelta(milliseconds=1), ""
    for unit in ("h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS[unit])
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else "120"


def _text(pattern: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, **more})


Duration = Annotated[
    InstanceOf[timedelta], BeforeValidator(parse_duration), _text(DURATION_PATTERN)
]
Amount = Annotated[int, BeforeValidator(parse_amount), _text(AMOUNT_PATTERN)]
PerHour = Annotated[InstanceOf[Rate], BeforeValidator(parse_rate), _text(RATE_PATTERN)]
Share = Annotated[int, BeforeValidator(parse_share), _text(SHARE_PATTERN)]
Sum = Annotated[InstanceOf[Money], BeforeValidator(parse_money), _text(MONEY_PATTERN)]
Currency = Annotated[str, BeforeValidator(parse_currency), _text(_CURRENCY)]
_QUANTITY_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    }
)
Quantity = Annotated[InstanceOf[ExactQuantity], BeforeValidator(parse_quantity), _QUANTITY_SCHEMA]
ResourceAmount = Annotated[
    InstanceOf[ExactQuantity], BeforeValidator(parse_resource_amount), _QUANTITY_SCHEMA
]
Time = Annotated[
    InstanceOf[datetime],
    BeforeValidator(parse_time),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
