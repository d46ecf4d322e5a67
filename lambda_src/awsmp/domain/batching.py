"""Requests of at most 25 records and less than 1 MB, and how a refused one is cut in two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, TypeVar

from awsmp.domain.allocations import MAX_ALLOCATIONS, Allocation
from awsmp.domain.hours import format_instant
from awsmp.domain.ledger import LedgerRecord
from awsmp.domain.quantities import QuantityType, canonical, range_reason
from awsmp.domain.reasons import ValidationReason

#: Most records of one request (BatchMeterUsage API reference).
MAX_RECORDS: Final = 25

#: A request has to be smaller than 1 MB (BatchMeterUsage API reference); the envelope gets the rest.
MAX_REQUEST_BYTES: Final = 1_000_000 - 2_000

T = TypeVar("T")


def usage_record(record: LedgerRecord, kind: QuantityType, *, legacy: bool) -> dict[str, object]:
    """Return the UsageRecord that is sent for ``record``; ``Timestamp`` is an aware datetime.

    Legacy records carry ``CustomerIdentifier`` and no ``LicenseArn``.
    """
    integer = kind is QuantityType.INTEGER
    shaped: dict[str, object] = {"Timestamp": record.timestamp, "Dimension": record.group.dimension}
    if legacy:
        shaped["CustomerIdentifier"] = record.customer_identifier
    else:
        shaped["CustomerAWSAccountId"] = record.group.customer_account
        shaped["LicenseArn"] = record.group.license_arn
    if integer:
        shaped["Quantity"] = int(record.quantity)
    else:
        shaped["QuantityAsDecimal"] = canonical(record.quantity)
    if record.allocations:
        shaped["UsageAllocations"] = [_allocation(allocation, integer) for allocation in record.allocations]
    return shaped


def _allocation(allocation: Allocation, integer: bool) -> dict[str, object]:
    shaped: dict[str, object] = (
        {"AllocatedUsageQuantity": int(allocation.quantity)}
        if integer
        else {"AllocatedUsageQuantityAsDecimal": canonical(allocation.quantity)}
    )
    if allocation.tags:
        shaped["Tags"] = [{"Key": key, "Value": value} for key, value in allocation.tags]
    return shaped


def request_bytes(record: LedgerRecord, kind: QuantityType, *, legacy: bool = False) -> int:
    """Return how many bytes ``record`` adds to a request (an upper bound: the timestamp as text)."""
    shaped = usage_record(record, kind, legacy=legacy) | {"Timestamp": format_instant(record.timestamp)}
    return len(json.dumps(shaped, ensure_ascii=True)) + 1


def request_problem(record: LedgerRecord, kind: QuantityType, *, legacy: bool) -> ValidationReason | None:
    """Return why ``record`` may not join a request: it would sink the other records with it."""
    reason = record.group.reason(legacy=legacy) or range_reason(record.quantity, kind)
    if reason is not None:
        return reason
    if legacy and not record.customer_identifier:
        return ValidationReason.INVALID_LICENSE_ARN
    if len(record.allocations) > MAX_ALLOCATIONS:
        return ValidationReason.TOO_MANY_ALLOCATIONS
    if any(range_reason(allocation.quantity, kind) for allocation in record.allocations):
        return ValidationReason.ALLOCATION_SUM_MISMATCH
    if record.allocations and sum(a.quantity for a in record.allocations) != record.quantity:
        return ValidationReason.ALLOCATION_SUM_MISMATCH
    if request_bytes(record, kind, legacy=legacy) > MAX_REQUEST_BYTES:
        return ValidationReason.RECORD_TOO_LARGE
    return None


def first_batch(sizes: Sequence[int]) -> int:
    """Return how many of the leading records, of these sizes in bytes, fit into one request."""
    total = 0
    for count, size in enumerate(sizes[:MAX_RECORDS]):
        total += size
        if count and total > MAX_REQUEST_BYTES:
            return count
    return min(len(sizes), MAX_RECORDS)


def halves(records: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """Cut a refused request in two, the first half the longer: 25, 13, 7, 4, 2, 1 takes five cuts."""
    middle = (len(records) + 1) // 2
    return records[:middle], records[middle:]
