"""Values written as text: exact, and errors that say what to write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import scalars


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10m", 600), ("72h", 259200), ("1h30m", 5400), ("500ms", 0.5), ("0s", 0)],
)
def test_durations(text, seconds):
    assert scalars.parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "30", "10 m", "-5s", "1d", "1.5h", "h", "s30", 30, None, True]
)
def test_what_is_no_duration_says_how_to_write_one(text):
    with pytest.raises(ValueError, match=r'is no duration, write e.g. "30s", "10m" or "72h"'):
        scalars.parse_duration(text)


def test_a_duration_that_no_clock_holds():
    with pytest.raises(ValueError, match="longer than any clock runs"):
        scalars.parse_duration("9" * 30 + "h")


@given(st.integers(0, 10**10))
def test_a_duration_reads_back_as_it_was(milliseconds):
    value = timedelta(milliseconds=milliseconds)
    assert scalars.parse_duration(scalars.duration_text(value)) == value


@given(st.integers(0, 10**17))
def test_an_amount_reads_back_as_it_was(micro):
    assert scalars.parse_amount(scalars.amount_text(micro)) == micro


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (98.32, '98.32 must be a text, so that it stays exact: "98.32"'),
        (5, "5 must be a text"),
        ("-1", '"-1" may not be negative'),
        ("1,5", '"1,5" is no amount of money'),
        ("1e3", "is no amount of money"),
        ("0.0000001", r"is no amount of money, write e.g. \"98.32\" \(at most 6 places\)"),
        ("9" * 13, "is more than can be counted: at most 12 digits"),
        ("9" * 13 + ".5", "is more than can be counted"),
    ],
)
def test_amounts_that_are_not_taken(value, message):
    with pytest.raises(ValueError, match=message):
        scalars.parse_amount(value)


def test_rates():
    assert scalars.parse_rate("120 USD/h") == scalars.Rate(120_000_000, "USD")
    assert str(scalars.Rate(11_400_000, "CNY")) == "11.4 CNY/h"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("12", '"12" needs a currency, e.g. "12 USD/h"'),
        (12, '12 needs a currency, e.g. "12 USD/h"'),
        (None, 'null needs a currency, e.g. "120 USD/h"'),
        ("12 USD", '"12 USD" needs a time, e.g. "12 USD/h"'),
        ("$12/h", r'"\$12/h" is no price, write e.g. "120 USD/h"'),
        ("12 usd/h", "is no price"),
        ("-12 USD/h", '"-12" may not be negative'),
        ("12 USX/h", r'"USX" is no currency there is \(ISO 4217\), write e.g. "USD"'),
        ("12 USD/d", "is no price"),
    ],
)
def test_rates_that_are_not_taken(value, message):
    with pytest.raises(ValueError, match=message):
        scalars.parse_rate(value)


@pytest.mark.parametrize(("text", "share"), [("0%", 0), ("100%", 100), ("7%", 7)])
def test_shares(text, share):
    assert scalars.parse_share(text) == share


@pytest.mark.parametrize("value", ["101%", "-1%", "50", 50, "1.5%", None])
def test_shares_that_are_not_taken(value):
    with pytest.raises(ValueError, match='is no share, write "0%" to "100%"'):
        scalars.parse_share(value)


@pytest.mark.parametrize(
    "value",
    ["2026-11-29T06:00:00Z", "2026-11-29T07:00:00+01:00", "2026-11-29t06:00:00.0z",
     datetime(2026, 11, 29, 6, tzinfo=UTC)],
)  # fmt: skip
def test_times(value):
    assert scalars.parse_time(value) == datetime(2026, 11, 29, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    ["2026-11-29", "2026-11-29T06:00:00", "2026-13-29T06:00:00Z", "yesterday", 5,
     datetime(2026, 11, 29)],
)  # fmt: skip
def test_times_without_a_zone_or_sense(value):
    with pytest.raises(ValueError, match=r"is no time, write e.g. 2026-11-29T06:00:00Z"):
        scalars.parse_time(value)


@pytest.mark.parametrize(("value", "units"), [("16Gi", 1 << 34), (8, 8), ("1500m", 2)])
def test_quantities(value, units):
    assert scalars.parse_quantity(value).value == units


@pytest.mark.parametrize("value", ["lots", 1.5, True, None])
def test_quantities_that_are_not_taken(value):
    with pytest.raises(ValueError, match="is no quantity"):
        scalars.parse_quantity(value)


@pytest.mark.parametrize("value", ["usd", "US", "DOLLAR", 5])
def test_currencies_that_are_not_taken(value):
    with pytest.raises(ValueError, match=r'is no currency, write its three letters, e.g. "USD"'):
        scalars.parse_currency(value)
