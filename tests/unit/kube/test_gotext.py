from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.gotext import duration_s, int64, quoted


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("9" * 5000, None),
        ("0" * 5000 + "1", 1),
        ("", None),
        ("+", None),
        ("1_0", None),
        (" 1", None),
        ("1\n", None),
        ("٣", None),
        ("0x1", None),
        ("1.0", None),
    ],
)
def test_int64(text: str, value: int | None) -> None:
    assert int64(text) == value


@given(st.integers(-(2**64), 2**64))
def test_int64_is_exact_within_its_range(number: int) -> None:
    assert int64(str(number)) == (number if -(2**63) <= number < 2**63 else None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("32s", 32.0),
        ("7m58s", 478.0),
        ("1h", 3600.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("100ms", 0.1),
        ("-2s", -2.0),
        ("+2s", 2.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1h0", 'time: missing unit in duration "1h0"'),
        ("0s0", 'time: missing unit in duration "0s0"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("1h 2m", 'time: unknown unit "h " in duration "1h 2m"'),
        ("1h-2m", 'time: unknown unit "h-" in duration "1h-2m"'),
        ("1e3s", 'time: unknown unit "e" in duration "1e3s"'),
    ],
)
def test_what_is_no_duration(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        duration_s(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", '"a"'),
        ('a"b\\', r'"a\"b\\"'),
        ("é", '"é"'),
        ("\t\n\0", r'"\t\n\x00"'),
        ("\u200b", r'"\u200b"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_quoted(text: str, shown: str) -> None:
    assert quoted(text) == shown
