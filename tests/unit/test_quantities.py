"""Quantities: what is a number, what the API takes, and the one text of a value."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp.domain.quantities import (
    MAX_DECIMAL,
    MAX_INTEGER,
    QuantityType,
    as_decimal,
    canonical,
    is_integral,
    quantity_reason,
    range_reason,
)
from awsmp.domain.reasons import ValidationReason as Reason

#: ``QuantityAsDecimal`` of botocore's service model, 1..17 characters.
API_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,9})(\.[0-9]{1,6})?")
INTEGER, DECIMAL = QuantityType.INTEGER, QuantityType.DECIMAL

EXACT_LIMIT = pytest.mark.xfail(
    reason="quantities.py range_reason: scaleb() rounds to the context's 28 digits, so decimals beyond the"
    " 28th digit pass and the text that is sent breaks the API's pattern"
)


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
        pytest.param(
            DECIMAL, "1.0000000000000000000000000000001", Reason.QUANTITY_OUT_OF_RANGE, marks=EXACT_LIMIT
        ),
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
