"""Quantities: what is a number, what the API takes, and the one text of a value."""

from __future__ import annotations

import re
from decimal import Decimal, getcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.quantities import (
    COUNTED_DECIMALS,
    COUNTED_LIMIT,
    MAX_DECIMAL,
    MAX_INTEGER,
    QuantityType,
    as_decimal,
    canonical,
    counted,
    decimals_of,
    is_integral,
    quantity_reason,
    range_reason,
)
from awsmp.domain.reasons import ValidationReason as Reason

#: ``QuantityAsDecimal`` of botocore's service model, 1..17 characters.
API_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,9})(\.[0-9]{1,6})?")
INTEGER, DECIMAL = QuantityType.INTEGER, QuantityType.DECIMAL


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (Decimal("1.5"), Decimal("1.5")),
        (7, Decimal(7)),
        (-1, Decimal(-1)),
        (True, None),
        (False, None),
        ("7", None),
        (1.5, None),
        (None, None),
        (b"7", None),
        ([7], None),
        ({"N": "7"}, None),
    ],
)
def test_only_decimals_and_whole_numbers_are_numbers(value: object, number: Decimal | None) -> None:
    assert as_decimal(value) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("-0.00", "0"),
        ("0E+3", "0"),
        ("0E-30", "0"),
        ("17.00", "17"),
        ("17.10", "17.1"),
        ("100", "100"),
        ("1E+3", "1000"),
        ("1E-6", "0.000001"),
        ("-2.50", "-2.5"),
        ("9999999999.999999", "9999999999.999999"),
    ],
)
def test_a_value_has_one_text(value: str, text: str) -> None:
    assert canonical(Decimal(value)) == text


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6))
def test_the_text_keeps_the_value_and_equal_values_have_equal_texts(value: Decimal) -> None:
    assert Decimal(canonical(value)) == value
    assert canonical(value) == canonical(value + Decimal("0.000000000"))
    assert canonical(value.normalize()) == canonical(value)


@pytest.mark.parametrize(("value", "whole"), [("3", True), ("3.00", True), ("3.01", False), ("-2", True)])
def test_a_whole_number_may_be_written_with_decimals(value: str, whole: bool) -> None:
    assert is_integral(Decimal(value)) is whole


@pytest.mark.parametrize(
    ("value", "decimals"),
    [("0", 0), ("-0.00", 0), ("17.00", 0), ("1E+3", 0), ("17.10", 1), ("-0.000001", 6), ("1E-130", 130)],
)
def test_trailing_zeros_are_no_decimals(value: str, decimals: int) -> None:
    assert decimals_of(Decimal(value)) == decimals


# --- what counts as written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "adds"),
    [
        (None, "0"),
        ("12", "0"),
        (True, "0"),
        (1.5, "0"),
        (12, "12"),
        (Decimal("-2.50"), "-2.50"),
        (Decimal("0.00000001"), "0.00000001"),
        (Decimal("0.000000001"), "0"),
        (Decimal("1.000000000000000000000000000000000000"), "1"),
        (Decimal("999999999999999.99999999"), "999999999999999.99999999"),
        (Decimal("-999999999999999.99999999"), "-999999999999999.99999999"),
        (Decimal("999999999999999.00000000000000000000001"), "0"),
        (10**15 - 1, "999999999999999"),
        (10**15, "0"),
        (-(10**15), "0"),
        (Decimal("1E+125"), "0"),
        (Decimal("1E-130"), "0"),
        (Decimal("Infinity"), "0"),
        (Decimal("NaN"), "0"),
    ],
)
def test_a_number_counts_when_sums_of_it_stay_exact(value: object, adds: str) -> None:
    assert counted(value) == Decimal(adds)


stored_numbers = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=38).map(tuple),
    st.integers(-45, 20),
)


@settings(max_examples=60)
@given(stored_numbers, st.sampled_from(QuantityType))
def test_what_does_not_count_is_refused_by_name(value: Decimal, kind: QuantityType) -> None:
    """Otherwise a record would promise a quantity that its total does not hold."""
    if counted(value) != value:
        assert counted(value) == 0
        assert quantity_reason(value, kind) is not None


@settings(max_examples=40)
@given(st.lists(stored_numbers | st.just(COUNTED_LIMIT - Decimal("0.00000001")), max_size=40), st.data())
def test_sums_and_differences_of_what_counts_are_exact(values: list[Decimal], data: st.DataObject) -> None:
    numbers = [counted(value) for value in values]
    some = data.draw(st.lists(st.sampled_from(numbers), max_size=20)) if numbers else []
    total, part = sum(numbers, Decimal(0)), sum(some, Decimal(0))
    assert Fraction(total) == sum((Fraction(each) for each in numbers), Fraction(0))
    assert Fraction(total - part) == Fraction(total) - Fraction(part)
    assert (total - part) + part == total


def test_a_hundred_thousand_rows_of_a_group_have_an_exact_sum_whatever_they_count() -> None:
    """A well-formed group has 3,600; only rows with malformed keys could be more."""
    limit = COUNTED_LIMIT.adjusted() + COUNTED_DECIMALS
    assert 10 ** (getcontext().prec - limit) == 100_000
    largest = COUNTED_LIMIT - Decimal(1).scaleb(-COUNTED_DECIMALS)
    before, exact = largest * 99_999, Fraction(largest) * 99_999
    assert Fraction(before) == exact
    assert Fraction(before + largest) == exact + Fraction(largest)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (INTEGER, "0", None),
        (INTEGER, "-0", None),
        (INTEGER, "1", None),
        (INTEGER, "17.00", None),
        (INTEGER, "2147483647", None),
        (INTEGER, "2147483648", Reason.QUANTITY_OUT_OF_RANGE),
        (INTEGER, "1E+30", Reason.QUANTITY_OUT_OF_RANGE),
        (INTEGER, "0.5", Reason.NON_INTEGER_QUANTITY),
        (INTEGER, "2147483647.5", Reason.NON_INTEGER_QUANTITY),
        (INTEGER, "-1", Reason.NEGATIVE_QUANTITY),
        (INTEGER, "-0.5", Reason.NEGATIVE_QUANTITY),
        (DECIMAL, "0", None),
        (DECIMAL, "0.5", None),
        (DECIMAL, "0.000001", None),
        (DECIMAL, "0.0000010", None),
        (DECIMAL, "0.0000001", Reason.QUANTITY_OUT_OF_RANGE),
        (DECIMAL, "2147483648", None),
        (DECIMAL, "9999999999.999999", None),
        (DECIMAL, "10000000000", Reason.QUANTITY_OUT_OF_RANGE),
        (DECIMAL, "-0.000001", Reason.NEGATIVE_QUANTITY),
        (DECIMAL, "1.0000000000000000000000000000001", Reason.QUANTITY_OUT_OF_RANGE),
        (DECIMAL, "1.0000000000000000000000000000000", None),
        (DECIMAL, "1E-130", Reason.QUANTITY_OUT_OF_RANGE),
        (DECIMAL, "1E+125", Reason.QUANTITY_OUT_OF_RANGE),
        (INTEGER, "1.0000000000000000000000000000000000001", Reason.NON_INTEGER_QUANTITY),
    ],
)
def test_a_number_is_refused_by_name(kind: QuantityType, value: str, reason: Reason | None) -> None:
    assert range_reason(Decimal(value), kind) is reason
    assert quantity_reason(Decimal(value), kind) is reason


@pytest.mark.parametrize(
    ("value", "present", "reason"),
    [
        (None, False, Reason.MISSING_QUANTITY),
        (None, True, Reason.NON_NUMERIC_QUANTITY),
        ("12", True, Reason.NON_NUMERIC_QUANTITY),
        ("", True, Reason.NON_NUMERIC_QUANTITY),
        (True, True, Reason.NON_NUMERIC_QUANTITY),
        (12, True, None),
    ],
)
def test_an_absent_quantity_is_told_from_one_that_is_no_number(
    value: object, present: bool, reason: Reason | None
) -> None:
    assert quantity_reason(value, INTEGER, present=present) is reason


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**11), max_value=10**11, places=8))
def test_what_is_not_refused_has_the_form_that_the_api_takes(value: Decimal) -> None:
    if range_reason(value, DECIMAL) is None:
        text = canonical(value)
        assert API_DECIMAL.fullmatch(text)
        assert 1 <= len(text) <= 17
    else:
        assert value < 0 or value > MAX_DECIMAL or value != round(value, 6)
    if range_reason(value, INTEGER) is None:
        assert 0 <= int(value) <= MAX_INTEGER
        assert int(value) == value
