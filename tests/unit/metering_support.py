"""Builders shared by the tests of the metering engine's domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from awsmp.domain.allocations import Allocation
from awsmp.domain.folding import Fold, Rejection, fold_group
from awsmp.domain.hours import BillingWindow, format_second
from awsmp.domain.identifiers import Group, row_sort_key
from awsmp.domain.ledger import LedgerRecord, advance, apply_fold, begin_attempt
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import ValidationReason
from awsmp.domain.rows import ROW_SORT_KEY, UsageRow

BUYER = "123456789012"
OTHER_BUYER = "210987654321"
LICENSE = "arn:aws:license-manager::111122223333:license:l-0a1b2c3d"
OTHER_LICENSE = "arn:aws:license-manager::111122223333:license:l-ffffffff"
LEGACY_LICENSE = "legacy-license-1"
HOUR_START = datetime(2026, 11, 10, 8, tzinfo=UTC)
GROUP = Group(LICENSE, BUYER, "requests", HOUR_START)
LEGACY_GROUP = replace(GROUP, license_arn=LEGACY_LICENSE)
WINDOW = BillingWindow()
OPEN = HOUR_START + timedelta(hours=2)
LAST = WINDOW.last_processed_from(HOUR_START)
CLOSED = WINDOW.deadline(HOUR_START)
SENDER_TIMEOUT = timedelta(minutes=5)

_ABSENT = object()


def utc(year: int, month: int, day: int, *clock: int) -> datetime:
    """An instant in UTC; ``clock`` is hour, minute, second."""
    hour, minute, second = (*clock, 0, 0, 0)[:3]
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def tagged(quantity: object, *tags: tuple[str, str]) -> dict[str, object]:
    """One usage allocation in the API's shape; without tags it is the untagged bucket."""
    entry: dict[str, object] = {"AllocatedUsageQuantity": quantity}
    if tags:
        entry["Tags"] = [{"Key": key, "Value": value} for key, value in tags]
    return entry


def row(
    offset: int = 0,
    quantity: object = Decimal(1),
    *,
    group: Group = GROUP,
    pending: bool = True,
    allocations: object = _ABSENT,
    drop: Iterable[str] = (),
    **changes: object,
) -> UsageRow:
    """A well-formed raw row, ``offset`` seconds into the group's hour, with some attributes changed."""
    timestamp = format_second(group.hour + timedelta(seconds=offset))
    attributes: dict[str, object] = {
        "licenseArn": group.license_arn,
        ROW_SORT_KEY: row_sort_key(group.customer_account, group.dimension, timestamp),
        "customerAWSAccountId": group.customer_account,
        "dimension": group.dimension,
        "timestamp": timestamp,
        "quantity": quantity,
    }
    if pending:
        attributes["meteringPending"] = group.bucket
    if allocations is not _ABSENT:
        attributes["usageAllocations"] = allocations
    attributes |= changes
    for name in drop:
        del attributes[name]
    return UsageRow(attributes)


def keyed(suffix: str, quantity: object = Decimal(1), *, group: Group = GROUP, **changes: object) -> UsageRow:
    """A row of the group whose sort key ends in ``suffix`` instead of a canonical minute and second."""
    sort_key = {ROW_SORT_KEY: f"{group.row_prefix}{suffix}"}
    return UsageRow({**row(0, quantity, group=group).attributes, **sort_key, **changes})


def fold_rows(
    *rows: UsageRow,
    group: Group = GROUP,
    kind: QuantityType = QuantityType.INTEGER,
    now: datetime = OPEN,
    legacy: bool = False,
) -> Fold:
    """Fold rows as the table returns them: in key order."""
    return fold_group(group, sorted(rows, key=lambda each: each.sort_key), kind=kind, now=now, legacy=legacy)


def fold_of(
    quantity: int | str,
    *,
    rejected: int | str = 0,
    reason: ValidationReason | None = None,
    whole: bool = False,
    allocations: Sequence[Allocation] = (),
    digest: str | None = None,
    rows: int = 1,
    customer_identifier: str | None = None,
) -> Fold:
    """A fold whose valid rows add up to ``quantity`` and the refused ones (one, or all) to ``rejected``."""
    billable, refused = Decimal(quantity), Decimal(rejected)
    bad = rows if whole else 1
    digest = digest or f"{quantity}/{rejected}/{reason}/{allocations}/{rows}/{customer_identifier}"
    refused_digest = digest if whole else f"{bad} of {rejected}"
    return Fold(
        total=billable + refused,
        billable=billable,
        allocations=tuple(allocations),
        row_count=rows + (0 if whole or reason is None else bad),
        rejections=() if reason is None else (Rejection(reason, bad, refused, refused_digest),),
        digest=digest,
        pending=(),
        customer_identifier=customer_identifier,
    )


def blocked_fold(valid: int | str = 7, bad: int | str = -3) -> Fold:
    """A fold with one bad row beside a valid part."""
    return fold_of(valid, rejected=bad, reason=ValidationReason.NEGATIVE_QUANTITY)


def whole_fold(total: int | str = 9) -> Fold:
    """A fold that is refused as a group: no valid part."""
    return fold_of(0, rejected=total, reason=ValidationReason.MIXED_ALLOCATED_AND_UNALLOCATED, whole=True)


def folded(
    record: LedgerRecord | None,
    fold: Fold,
    *,
    now: datetime = OPEN,
    group: Group = GROUP,
    window: BillingWindow = WINDOW,
    final_flush: bool = False,
    direct: bool = False,
) -> LedgerRecord:
    """The record after a fold."""
    return apply_fold(record, group, fold, now=now, window=window, final_flush=final_flush, direct=direct)


def pending(fold: Fold | None = None, *, group: Group = GROUP) -> LedgerRecord:
    """A record that was folded and written once, not sent yet."""
    now = group.hour + timedelta(hours=2)
    return advance(None, folded(None, fold or fold_of(10), group=group, now=now), now=now)


def sent(fold: Fold | None = None, *, attempt_id: str = "a-1", now: datetime = OPEN) -> LedgerRecord:
    """A record with an open attempt."""
    return begin_attempt(pending(fold), attempt_id, now=now)


def allocation(quantity: int | str, *tags: tuple[str, str]) -> Allocation:
    """A parsed allocation."""
    return Allocation(tuple(sorted(tags)), Decimal(quantity))


def values(*found: object) -> tuple[object, ...]:
    """Some values side by side, so that Decimals may be compared with plain numbers."""
    return found


def conserves(record: LedgerRecord) -> bool:
    """Whether written = billed + pending + surfaced, and the reasons account for all that is surfaced."""
    parts = record.surfaced_by_reason()
    return (
        record.total == record.billed + record.pending_quantity + record.surfaced
        and sum(parts.values(), Decimal(0)) == record.surfaced
        and all(quantity != 0 for quantity in parts.values())
    )


def direct_item(group: Group = GROUP, *, drop: Iterable[str] = (), **changes: object) -> Mapping[str, object]:
    """A seller's direct-submit input, as stored."""
    item: dict[str, object] = {
        "licenseArn": group.license_arn,
        "customerAWSAccountId#dimension#hour": group.ledger_sort_key,
        "customerAWSAccountId": group.customer_account,
        "dimension": group.dimension,
        "hour": group.bucket,
        "quantity": Decimal(10),
        "meteringPending": group.bucket,
    } | changes
    for name in drop:
        del item[name]
    return item
