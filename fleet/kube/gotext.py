"""Text as Go reads and prints it: integers, durations, quoted strings.

Query values and messages of the API are what Go's strconv, time and fmt make of them.
"""

from __future__ import annotations

import re

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def quoted(text: str) -> str:
    """A string as Go's %q prints it."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if (escape := _ESCAPES.get(character)) is not None:
        return escape
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def int64(text: str) -> int | None:
    """As strconv.ParseInt(text, 10, 64); None where that fails."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    # Bounded digits only: Python refuses to convert very long ones.
    number = -int(found[2]) if found[1] == "-" else int(found[2])
    return number if -(1 << 63) <= number < 1 << 63 else None


_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
_UNIT = re.compile(r"[^.0-9]+")
_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip


def duration_s(text: str) -> float:
    """Seconds in a Go duration (`7m58s`, `-1.5h`, `0`).

    Raises ValueError, in the words of time.ParseDuration, when it is none.
    """
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    total = 0.0
    while rest:
        number = _NUMBER.match(rest)
        if number is None:
            raise ValueError(f"time: invalid duration {quoted(text)}")
        unit = _UNIT.match(rest, number.end())
        if unit is None:
            raise ValueError(f"time: missing unit in duration {quoted(text)}")
        if unit[0] not in _SECONDS:
            raise ValueError(f"time: unknown unit {quoted(unit[0])} in duration {quoted(text)}")
        total += float(number[0]) * _SECONDS[unit[0]]
        rest = rest[unit.end() :]
    return -total if text[:1] == "-" else total
