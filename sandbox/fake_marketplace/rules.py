"""The rules of BatchMeterUsage that need no state: shapes, limits, allocations and windows.

A rule that is broken raises :class:`Refusal`; a request-level exception refuses the whole batch. Requests
are in wire form: what the JSON body holds, with ``Timestamp`` in epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sandbox.fake_marketplace import limits
from sandbox.fake_marketplace.errors import Code, Refusal
from sandbox.fake_marketplace.settings import Settings

WireRecord = Mapping[str, Any]
Quantity = int | Decimal


def _invalid(message: str) -> Refusal:
    return Refusal(Code.VALIDATION, message)


def request_records(payload: object) -> Sequence[WireRecord]:
    """Return the records of a request.

    Raises:
        Refusal: ``UsageRecords`` is missing, no list of objects, or longer than 25; ``ProductCode`` is no
            product code.
    """
    if not isinstance(payload, Mapping):
        raise _invalid("The request is not a structure.")
    records = payload.get("UsageRecords")
    if not isinstance(records, list):
        raise _invalid("UsageRecords is required and must be a list.")
    if len(records) > limits.MAX_RECORDS:
        raise _invalid(f"UsageRecords has {len(records)} members; the limit is {limits.MAX_RECORDS}.")
    code = payload.get("ProductCode")
    if code is not None and not limits.PRODUCT_CODE.accepts(code):
        raise _invalid("ProductCode does not match its pattern.")
    for record in records:
        if not isinstance(record, Mapping):
            raise _invalid("A member of UsageRecords is not a structure.")
    return records


def check_size(request_bytes: int, settings: Settings) -> None:
    """Refuse a serialised request of ``max_request_bytes`` or more.

    Raises:
        Refusal: the request is not *less than* the limit.
    """
    if request_bytes >= settings.max_request_bytes:
        raise _invalid(
            f"The request has {request_bytes} bytes; it must be less than {settings.max_request_bytes}."
        )


def record_timestamp(record: WireRecord) -> int:
    """Return the timestamp in whole epoch seconds; a fraction is cut off.

    Raises:
        Refusal: it is missing or no number.
    """
    value = record.get("Timestamp")
    if type(value) is int:
        return value
    if type(value) is float:
        return int(value // 1)
    raise _invalid("Timestamp is required and must be a number of epoch seconds.")


def record_dimension(record: WireRecord) -> str:
    """Return the dimension's name.

    Raises:
        Refusal: it is missing, empty or longer than 255 characters.
    """
    value = record.get("Dimension")
    if not limits.DIMENSION.accepts(value):
        raise _invalid("Dimension is required, 1 to 255 characters.")
    return str(value)


def check_customer(record: WireRecord) -> None:
    """Refuse ids that break their patterns, and both kinds of customer id in one record.

    Raises:
        Refusal: as above, or the record names no customer at all.
    """
    account = record.get("CustomerAWSAccountId")
    identifier = record.get("CustomerIdentifier")
    if account is not None and not limits.CUSTOMER_AWS_ACCOUNT_ID.accepts(account):
        raise _invalid("CustomerAWSAccountId must consist of digits.")
    if identifier is not None and not limits.CUSTOMER_IDENTIFIER.accepts(identifier):
        raise _invalid("CustomerIdentifier must be a string of at most 255 characters.")
    if account is not None and identifier:
        raise _invalid("CustomerAWSAccountId and CustomerIdentifier exclude each other.")
    if account is None and not identifier:
        raise Refusal(Code.INVALID_CUSTOMER_IDENTIFIER, "The record names no customer.")


def check_license_arn(value: object) -> None:
    """Refuse a license ARN that breaks the model's pattern.

    Raises:
        Refusal: the text is no ARN.
    """
    if not limits.LICENSE_ARN.accepts(value):
        raise _invalid("LicenseArn does not match its pattern.")


def whole_number(value: object, name: str) -> int:
    """Return a whole quantity; ``True`` and ``False`` are no numbers.

    Raises:
        Refusal: no int, or outside 0..2147483647.
    """
    if type(value) is not int or not 0 <= value <= limits.MAX_QUANTITY:
        raise _invalid(f"{name} must be an integer from 0 to {limits.MAX_QUANTITY}.")
    return value


def _decimal(value: object, rule: limits.TextRule, name: str) -> Decimal:
    if not rule.accepts(value):
        raise _invalid(f"{name} must match {limits.DECIMAL_PATTERN}, at most {rule.maximum} characters.")
    return Decimal(str(value))


def record_quantity(record: WireRecord, settings: Settings) -> Quantity:
    """Return the record's quantity after checking its allocations; omitted means 0.

    An ``int`` and a ``Decimal`` of one value are equal, which is how AWS compares them.

    Raises:
        Refusal: range, pattern, mixture of the number types, tags or sum.
    """
    whole = record.get("Quantity")
    text = record.get("QuantityAsDecimal")
    if whole is not None and text is not None:
        raise _invalid("Quantity and QuantityAsDecimal exclude each other.")
    quantity: Quantity
    if text is not None:
        quantity = _decimal(text, limits.QUANTITY_AS_DECIMAL, "QuantityAsDecimal")
    elif whole is not None:
        quantity = whole_number(whole, "Quantity")
    else:
        quantity = 0
    allocations = record.get("UsageAllocations")
    if allocations is not None:
        kinds = {"Quantity": whole is not None or text is None, "Decimal": text is not None or whole is None}
        _check_allocations(allocations, quantity, settings, whole=kinds["Quantity"], decimal=kinds["Decimal"])
    return quantity


def _check_allocations(
    allocations: object, quantity: Quantity, settings: Settings, *, whole: bool, decimal: bool
) -> None:
    if not isinstance(allocations, list) or not allocations:
        raise _invalid("UsageAllocations must be a list of at least one member.")
    if len(allocations) > settings.max_usage_allocations:
        raise Refusal(
            Code.INVALID_USAGE_ALLOCATIONS,
            f"{len(allocations)} usage allocations; the limit is {settings.max_usage_allocations}.",
        )
    total: Quantity = 0
    seen: set[frozenset[tuple[str, str]]] = set()
    for allocation in allocations:
        if not isinstance(allocation, Mapping):
            raise _invalid("A member of UsageAllocations is not a structure.")
        total += _allocated(allocation, whole=whole, decimal=decimal)
        tags = _tag_set(allocation.get("Tags"))
        if settings.distinct_tag_sets and tags in seen:
            raise Refusal(Code.INVALID_USAGE_ALLOCATIONS, "Two usage allocations have the same tags.")
        seen.add(tags)
    if total != quantity:
        raise Refusal(
            Code.INVALID_USAGE_ALLOCATIONS,
            f"Usage allocations add up to {total}, the quantity is {quantity}.",
        )


def _allocated(allocation: Mapping[str, Any], *, whole: bool, decimal: bool) -> Quantity:
    number = allocation.get("AllocatedUsageQuantity")
    text = allocation.get("AllocatedUsageQuantityAsDecimal")
    if (number is None) == (text is None):
        raise Refusal(Code.INVALID_USAGE_ALLOCATIONS, "An allocation must have exactly one quantity.")
    if text is not None:
        if not decimal:
            raise Refusal(Code.INVALID_USAGE_ALLOCATIONS, "A decimal allocation in a whole-number record.")
        return _decimal(text, limits.ALLOCATED_AS_DECIMAL, "AllocatedUsageQuantityAsDecimal")
    if not whole:
        raise Refusal(Code.INVALID_USAGE_ALLOCATIONS, "A whole-number allocation in a decimal record.")
    return whole_number(number, "AllocatedUsageQuantity")


def _tag_set(tags: object) -> frozenset[tuple[str, str]]:
    if tags is None:
        return frozenset()
    if not isinstance(tags, list):
        raise _invalid("Tags must be a list.")
    if not limits.MIN_TAGS <= len(tags) <= limits.MAX_TAGS:
        raise Refusal(Code.INVALID_TAG, f"An allocation has {len(tags)} tags; 1 to 5 are allowed.")
    pairs: set[tuple[str, str]] = set()
    for tag in tags:
        if not isinstance(tag, Mapping):
            raise _invalid("A member of Tags is not a structure.")
        key, value = tag.get("Key"), tag.get("Value")
        if not limits.TAG_KEY.accepts(key) or not limits.TAG_VALUE.accepts(value):
            raise Refusal(Code.INVALID_TAG, "A tag's key or value breaks its length or its character set.")
        pairs.add((str(key), str(value)))
    return frozenset(pairs)


class Window:
    """The span of timestamps that is accepted at one instant, half-open at its old end.

    A record is taken when its age is less than the window, it is not in the future, and it belongs to this
    month or, before 06:00 UTC on the 1st, to the previous one.
    """

    __slots__ = ("_month_floor", "_now", "_oldest")

    def __init__(self, now: datetime, settings: Settings) -> None:
        """``now`` is aware, in UTC."""
        self._now = now.timestamp()
        self._oldest = self._now - settings.window_hours * 3600.0
        month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if now < month + timedelta(hours=settings.month_end_grace_hours):
            month = (month - timedelta(days=1)).replace(day=1)
        self._month_floor = month.timestamp()

    def check(self, timestamp: int) -> None:
        """Refuse what is too old, in the future or of a month that is closed.

        Raises:
            Refusal: ``TimestampOutOfBoundsException``.
        """
        if not self._oldest < timestamp <= self._now or timestamp < self._month_floor:
            raise Refusal(
                Code.TIMESTAMP_OUT_OF_BOUNDS,
                f"Timestamp {timestamp} is out of the range that is allowed now.",
            )
