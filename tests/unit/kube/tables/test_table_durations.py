"""Durations and times; the cases of apimachinery's own tests, and every seam around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.tables import human_duration, short_human_duration
from fleet.kube.tables.durations import age, parse_time

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 365 * 86_400
MS = 0.001

HUMAN = [
    (-2, "<invalid>"),
    (-2 + 1e-9, "0s"),
    (-0.5, "0s"),
    (0, "0s"),
    (1 - MS, "0s"),
    (1, "1s"),
    (70, "70s"),
    (2 * MINUTE - MS, "119s"),
    (2 * MINUTE, "2m"),
    (2 * MINUTE + 1, "2m1s"),
    (190, "3m10s"),
    (10 * MINUTE - MS, "9m59s"),
    (10 * MINUTE, "10m"),
    (10 * MINUTE + 1, "10m"),
    (70 * MINUTE, "70m"),
    (3 * HOUR - MS, "179m"),
    (3 * HOUR, "3h"),
    (3 * HOUR + MINUTE, "3h1m"),
    (8 * HOUR - MS, "7h59m"),
    (8 * HOUR, "8h"),
    (8 * HOUR + 59 * MINUTE, "8h"),
    (47 * HOUR, "47h"),
    (2 * DAY - MS, "47h"),
    (2 * DAY, "2d"),
    (49 * HOUR, "2d1h"),
    (8 * DAY - MS, "7d23h"),
    (8 * DAY, "8d"),
    (8 * DAY + 23 * HOUR, "8d"),
    (367 * DAY, "367d"),
    (2 * YEAR - MS, "729d"),
    (2 * YEAR, "2y"),
    (2 * YEAR + DAY - MS, "2y"),
    (2 * YEAR + DAY, "2y1d"),
    (2 * YEAR + 25 * HOUR, "2y1d"),
    (3 * YEAR, "3y"),
    (8 * YEAR - MS, "7y364d"),
    (8 * YEAR, "8y"),
    (8 * YEAR + 364 * DAY, "8y"),
    (9 * YEAR, "9y"),
    (2000 * YEAR, "292y"),
]
SHORT = [
    (-2, "<invalid>"),
    (-2 + 1e-9, "0s"),
    (0, "0s"),
    (2 - MS, "1s"),
    (MINUTE - MS, "59s"),
    (MINUTE, "1m"),
    (2 * MINUTE - MS, "1m"),
    (HOUR - MS, "59m"),
    (HOUR, "1h"),
    (DAY - MS, "23h"),
    (DAY, "1d"),
    (2 * DAY - MS, "1d"),
    (YEAR - MS, "364d"),
    (YEAR, "1y"),
    (2 * YEAR - MS, "1y"),
    (2 * YEAR, "2y"),
]


@pytest.mark.parametrize(("seconds", "shown"), HUMAN)
def test_human_duration(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown
    assert age(seconds) == shown.encode()


@pytest.mark.parametrize(("seconds", "shown"), SHORT)
def test_short_human_duration(seconds: float, shown: str) -> None:
    assert short_human_duration(seconds) == shown


@given(st.floats(-1e5, 1e11) | st.floats(-5, 1e6) | st.floats(-1e3, 7e7))
def test_looked_up_ages_are_the_computed_ones(seconds: float) -> None:
    assert age(seconds) == human_duration(seconds).encode()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-29T15:56:14Z", 1_795_967_774),
        ("2026-11-29T15:56:14.250000Z", 1_795_967_774.25),
        ("2026-11-29T15:56:14.123456789Z", 1_795_967_774.123456),
        ("2026-11-29T17:56:14+02:00", 1_795_967_774),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_times_are_read_as_seconds(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


NOT_TIMES = [
    "",
    "now",
    "2026-11-29",
    "2026-11-29 15:56:14Z",
    "2026-11-29T15:56:14",
    "2026-13-01T00:00:00Z",
    "20261129T155614Z",
    "2026-11-29T15:56:60Z",
    "2026-11-29t15:56:14z",
    "x" * 10_000,
]


@pytest.mark.parametrize("text", NOT_TIMES)
def test_what_is_no_rfc_3339_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)
