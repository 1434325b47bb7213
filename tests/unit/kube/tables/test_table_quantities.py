"""Quantities in canonical form; cases of apimachinery's quantity tests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.tables.quantities import optional_quantity, quantity, total

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "e3", "E-3"]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("1", "1"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5."),
        ("0.5Gi", "512Mi"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("0.1Ki", "102400m"),
        ("1023", "1023"),
        ("512Ki", "512Ki"),
        ("1000000Ki", "1000000Ki"),
        ("1E", "1E"),
        ("18000e18", "18e21"),
        ("77777777Ei", "9223372036854775807"),
        # Kept as written: upstream takes them for canonical.
        ("12.345", "12.345"),
        ("1.500G", "1.500G"),
        ("5.Mi", "5.Mi"),
        ("+7", "+7"),
        ("08", "08"),
        ("12e3", "12e3"),
        ("12000e0", "12e3"),
        ("1000e-3", "1"),
        ("1e-3", "1e-3"),
        ("100n", "100n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("-1024Mi", "-1Gi"),
        (5, "5"),
        (1500, "1500"),
        (1.5, "1500m"),
        (None, "0"),
        (True, "0"),
        ({}, "0"),
        ("a lot", "a lot"),
        ("1KiB", "1KiB"),
        ("1e999999999", "1e999999999"),
        ("9" * 65, "9" * 65),
    ],
)
def test_canonical_form(written: Any, canonical: str) -> None:
    assert quantity(written) == canonical


def test_an_absent_pointer() -> None:
    assert optional_quantity(None) == "<nil>"
    assert optional_quantity("1000m") == "1"


@given(st.integers(-(10**12), 10**12), st.sampled_from(SUFFIXES))
def test_canonical_form_is_stable(number: int, suffix: str) -> None:
    once = quantity(f"{number}{suffix}")
    assert quantity(once) == once


@pytest.mark.parametrize(
    ("values", "sum_"),
    [
        ([], "0"),
        (["1Mi", "1024Ki"], "2Mi"),
        (["0", "1Gi", "1M"], "1074741824"),
        (["1500m", "500m"], "2"),
        (["5n", "5n"], "10n"),
        (["nonsense", 3], "3"),
    ],
)
def test_sums_take_the_form_of_the_first(values: list[Any], sum_: str) -> None:
    assert total(values) == sum_
