"""Durations and timestamps as tables show them.

Equal, to the letter, to upstream's `duration` package (k8s.io/apimachinery pkg/util/duration) and
to how its printers read RFC 3339 times. All numbers are seconds; the present is always passed in.
`age` is the hot path: it is asked for every row of every answer.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

# The longest span that Go's time.Duration can hold; anything longer is shown as this.
_LONGEST_S = 9_223_372_036

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII
).fullmatch
# Go's zero time, 0001-01-01T00:00:00Z: "not set", however it is written.
_ZERO_S = -62_135_596_800


def human_duration(seconds: float) -> str:
    """`seconds` with two or three significant figures: `70s`, `3m10s`, `47h`, `2d1h`, `2y1d`.

    A slightly negative duration (clocks differ) is `0s`; from -2 s on it is `<invalid>`.
    """
    whole = int(min(seconds, _LONGEST_S))
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole // _MINUTE, "m", whole % _MINUTE, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole // _HOUR, "h", whole // _MINUTE % 60, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole // _DAY, "d", whole // _HOUR % 24, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole // _YEAR, "y", whole // _DAY % 365, "d")
    return f"{whole // _YEAR}y"


def short_human_duration(seconds: float) -> str:
    """`seconds` in its largest unit only: `59s`, `1m`, `23h`, `364d`, `2y`."""
    whole = int(min(seconds, _LONGEST_S))
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    for size, unit, below in ((1, "s", _MINUTE), (_MINUTE, "m", _HOUR), (_HOUR, "h", _DAY)):
        if whole < below:
            return f"{whole // size}{unit}"
    return f"{whole // _DAY}d" if whole < _YEAR else f"{whole // _YEAR}y"


def _two(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"


# Below each limit the answer changes with the step only, so it is looked up.
_BY_SECOND = [human_duration(s).encode() for s in range(10 * _MINUTE)]
_BY_MINUTE = [human_duration(s).encode() for s in range(0, 8 * _HOUR, _MINUTE)]
_BY_HOUR = [human_duration(s).encode() for s in range(0, 8 * _DAY, _HOUR)]
_BY_DAY = [human_duration(s).encode() for s in range(0, 2 * _YEAR, _DAY)]


def age(seconds: float) -> bytes:
    """`human_duration(seconds)` as bytes; a table look-up below two years."""
    whole = int(seconds)
    if whole < 600:
        return _BY_SECOND[whole] if whole >= 0 else human_duration(seconds).encode()
    if whole < 28_800:
        return _BY_MINUTE[whole // 60]
    if whole < 691_200:
        return _BY_HOUR[whole // 3600]
    if whole < 63_072_000:
        return _BY_DAY[whole // 86_400]
    return human_duration(seconds).encode()


@lru_cache(maxsize=4096)
def parse_time(text: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 time (an int when whole); None for Go's zero time.

    Raises ValueError when `text` is not such a time. Cached, as objects made together share it.
    """
    if _RFC3339(text) is None:
        raise ValueError(f"not an RFC 3339 time: {text[:64]!r}")
    seconds = datetime.fromisoformat(text).timestamp()
    if seconds == _ZERO_S:
        return None
    return int(seconds) if seconds.is_integer() else seconds
