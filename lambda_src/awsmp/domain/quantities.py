"""Quantities as exact decimals, in the two forms that BatchMeterUsage takes."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Final

from awsmp.domain.reasons import ValidationReason

#: Largest ``Quantity`` (BatchMeterUsage API reference: Integer, 0..2147483647).
MAX_INTEGER: Final = Decimal(2_147_483_647)

#: Largest ``QuantityAsDecimal``: ten integer digits and six decimals (botocore model, pattern).
MAX_DECIMAL: Final = Decimal("9999999999.999999")

#: Most decimals of ``QuantityAsDecimal``.
DECIMALS: Final = 6

#: A row's quantity of this size or more, or with more than :data:`COUNTED_DECIMALS` decimals, is no usage: it
#: is refused and counts 0. Sums of what is counted stay exact in 28 digits.
COUNTED_LIMIT: Final = Decimal(10) ** 15
COUNTED_DECIMALS: Final = 8

ZERO: Final = Decimal(0)


class QuantityType(StrEnum):
    """Which of the two quantity members a deployment sends; a record never mixes them."""

    INTEGER = "integer"
    DECIMAL = "decimal"


def as_decimal(value: object) -> Decimal | None:
    """Return ``value`` as a Decimal when it is a number, else None (booleans and text are none)."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return None


def canonical(value: Decimal) -> str:
    """Return the one text of ``value``: no exponent, no trailing zeros (``17.00`` is ``17``)."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def is_integral(value: Decimal) -> bool:
    """Tell whether ``value`` is a whole number."""
    return value == value.to_integral_value()


def decimals_of(value: Decimal) -> int:
    """Return how many decimals ``value`` needs."""
    return len(canonical(value).partition(".")[2])


def counted(value: object) -> Decimal:
    """Return what a row of this quantity adds to the written quantity: 0 where it is no usable number."""
    number = as_decimal(value)
    if number is None or not number.is_finite():
        return ZERO
    usable = abs(number) < COUNTED_LIMIT and decimals_of(number) <= COUNTED_DECIMALS
    return number if usable else ZERO


def range_reason(value: Decimal, kind: QuantityType) -> ValidationReason | None:
    """Return why ``value`` cannot be sent as ``kind``, or None."""
    if value < 0:
        return ValidationReason.NEGATIVE_QUANTITY
    if kind is QuantityType.INTEGER:
        if not is_integral(value):
            return ValidationReason.NON_INTEGER_QUANTITY
        return ValidationReason.QUANTITY_OUT_OF_RANGE if value > MAX_INTEGER else None
    if value > MAX_DECIMAL or decimals_of(value) > DECIMALS:
        return ValidationReason.QUANTITY_OUT_OF_RANGE
    return None


def quantity_reason(value: object, kind: QuantityType, *, present: bool = True) -> ValidationReason | None:
    """Return why ``value``, a row's raw ``quantity``, is refused, or None.

    ``present`` tells an absent attribute from a null one.
    """
    if not present:
        return ValidationReason.MISSING_QUANTITY
    number = as_decimal(value)
    if number is None:
        return ValidationReason.NON_NUMERIC_QUANTITY
    return range_reason(number, kind)
