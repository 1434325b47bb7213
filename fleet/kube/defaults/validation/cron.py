"""The syntax of a CronJob's schedule, as github.com/robfig/cron/v3 reads it.

Only whether it is right; when it fires is the controller's business.
"""

from __future__ import annotations

import re
from typing import Final

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = frozenset(
    ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
)
_DURATION: Final = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")


def wrong_schedule(schedule: str) -> str:
    """What is wrong with a schedule, or ""."""
    spec = schedule
    if spec.startswith(("TZ=", "CRON_TZ=")):
        spec = spec.partition(" ")[2].strip()
    if spec.startswith("@"):
        return _wrong_descriptor(spec)
    fields = spec.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for text, (low, high, words) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            if part and (wrong := _wrong_range(part, low, high, words)):
                return wrong
    return ""


def _wrong_descriptor(spec: str) -> str:
    if spec in _DESCRIPTORS:
        return ""
    if spec.startswith("@every "):
        duration = spec.removeprefix("@every ")
        if re.fullmatch(rf"[-+]?({_DURATION.pattern})+", duration):
            return ""
        return f'failed to parse duration {spec}: time: invalid duration "{duration}"'
    return f"unrecognized descriptor: {spec}"


def _wrong_range(text: str, low: int, high: int, words: dict[str, int]) -> str:
    parts = text.split("/")
    edges = parts[0].split("-")
    if edges[0] in ("*", "?"):
        start, end = low, high
        if len(edges) > 1:
            return f"too many hyphens: {text}"
    else:
        numbers = []
        for edge in edges[:2]:
            number = words.get(edge.lower())
            if number is None:
                if not re.fullmatch(r"[+-]?[0-9]+", edge):
                    return (
                        f"failed to parse int from {edge}: strconv.Atoi: parsing "
                        f'"{edge}": invalid syntax'
                    )
                number = int(edge)
                if number < 0:
                    return f"negative number ({number}) not allowed: {edge}"
            numbers.append(number)
        if len(edges) > 2:
            return f"too many hyphens: {text}"
        start, end = numbers[0], numbers[-1]
    if len(parts) == 2:
        if not re.fullmatch(r"[+-]?[0-9]+", parts[1]):
            return (
                f"failed to parse int from {parts[1]}: strconv.Atoi: parsing "
                f'"{parts[1]}": invalid syntax'
            )
        step = int(parts[1])
        if step < 0:
            return f"negative number ({step}) not allowed: {parts[1]}"
        if len(edges) == 1:
            end = high
        if step == 0:
            return f"step of range should be a positive number: {text}"
    elif len(parts) > 2:
        return f"too many slashes: {text}"
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {text}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {text}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {text}"
    return ""
