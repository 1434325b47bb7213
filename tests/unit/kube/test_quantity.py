from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.quantity import ZERO, Format, InvalidQuantity, Quantity, as_stored

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "e3": Fraction(1000),
    "E-3": Fraction(1, 1000),
}  # fmt: skip

quantities = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**7),
    st.one_of(st.just(""), st.integers(0, 999).map(lambda n: f".{n}")),
    st.sampled_from(sorted(SUFFIXES)),
)


def value_of(text: str) -> Fraction:
    number = text.rstrip("".join(SUFFIXES)) if text[-1].isalpha() else text
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if suffix and text.endswith(suffix):
            number = text.removesuffix(suffix)
            return Fraction(number) * SUFFIXES[suffix]
    return Fraction(number)


@pytest.mark.parametrize(
    ("text", "stored", "canonical"),
    [
        ("1", "1", "1"),
        ("1000m", "1", "1"),
        ("0.5", "500m", "500m"),
        (".5", "500m", "500m"),
        ("1.500", "1.500", "1500m"),
        ("+5", "+5", "5"),
        ("005", "005", "5"),
        ("1000", "1k", "1k"),
        ("1024Mi", "1Gi", "1Gi"),
        ("1500Mi", "1500Mi", "1500Mi"),
        ("1.5Gi", "1536Mi", "1536Mi"),
        ("0.1Ki", "102400m", "102400m"),
        ("1e2", "100", "100"),
        ("1E3", "1E3", "1e3"),
        ("12e6", "12e6", "12e6"),
        ("0Mi", "0", "0"),
        ("-0", "0", "0"),
        ("-1.5", "-1500m", "-1500m"),
        ("0.0000000001", "1n", "1n"),
        ("-0.0000000001", "-1n", "-1n"),
        ("9Ei", "9223372036854775807", "9223372036854775807"),
        (" 7 ", "7", "7"),
        (".", "0", "0"),
    ],
)
def test_texts_are_read_and_written_as_an_apiserver_does(
    text: str, stored: str, canonical: str
) -> None:
    assert as_stored(text) == stored
    assert Quantity.parse(text).canonical == canonical


@pytest.mark.parametrize("text", ["1000E", "1000000000000000000000"])
def test_an_amount_beyond_the_largest_suffix_keeps_its_value(text: str) -> None:
    # Upstream drops the suffix here and stores "1".
    assert Quantity.parse(as_stored(text)) == Quantity.parse(text)


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "1..2", "--1", "1mm", "K", "1e", "1ee3"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999"])
def test_an_absurd_exponent_costs_nothing(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        Quantity.parse(text)


@given(quantities)
def test_the_amount_is_exact_down_to_a_billionth(text: str) -> None:
    expected = value_of(text) * 10**9
    rounded = -(-abs(expected) // 1) * (1 if expected >= 0 else -1)
    assert Quantity.parse(text).nano == rounded


@given(quantities)
def test_the_canonical_text_means_the_same_and_is_its_own_canonical_text(text: str) -> None:
    canonical = Quantity.parse(text).canonical
    assert Quantity.parse(canonical) == Quantity.parse(text)
    assert Quantity.parse(canonical).canonical == canonical


@given(quantities)
def test_what_is_stored_is_stored_again_unchanged(text: str) -> None:
    assert as_stored(as_stored(text)) == as_stored(text)


@given(quantities, quantities)
def test_order_follows_the_amount_and_not_the_text(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert (a < b) == (a.nano < b.nano)
    assert (a == b) == (a.nano == b.nano)
    assert a != b or hash(a) == hash(b)


@given(st.lists(quantities, max_size=6))
def test_sums_are_exact_in_any_order(texts: list[str]) -> None:
    parsed = [Quantity.parse(text) for text in texts]
    assert sum(parsed, ZERO) == sum(reversed(parsed), ZERO)
    assert sum(parsed, ZERO).nano == sum(q.nano for q in parsed)


def test_a_sum_from_zero_takes_the_format_of_what_is_added() -> None:
    total = ZERO + Quantity.parse("1Gi") + Quantity.parse("1Gi")
    assert (str(total), total.format) == ("2Gi", Format.BINARY_SI)


def test_values_round_away_from_zero() -> None:
    assert Quantity.parse("1500m").value == 2
    assert Quantity.parse("-1500m").value == -2
    assert Quantity.parse("1.0001m").milli_value == 2
    assert str(Quantity.parse("1.0001m").rounded_to_milli()) == "2m"


def test_constructors_and_predicates() -> None:
    assert Quantity.of(2) == Quantity.parse("2")
    assert Quantity.milli(250) == Quantity.parse("250m")
    assert Quantity.of(3) * 2 - Quantity.of(6) == ZERO
    assert not ZERO and ZERO.is_whole
    assert -Quantity.of(1) < ZERO
