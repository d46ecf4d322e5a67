"""Folding a group: one pass over its rows, in bounded memory, to what the ledger has to hold.

A fold covers **all** rows of the group that are in the table, not only the pending ones, so that a
later fold always contains an earlier one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final

from awsmp.domain.allocations import Allocation, AllocationSum
from awsmp.domain.identifiers import Group, is_license_arn
from awsmp.domain.quantities import ZERO, QuantityType, range_reason
from awsmp.domain.reasons import ValidationReason
from awsmp.domain.rows import CheckedRow, UsageRow, check_row

#: Second precision bounds a well-formed group to 3,600 rows; a few more are malformed keys. What is
#: beyond stays pending and is cleaned up by the next fold.
MAX_PENDING_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """A row that still is pending: its key, the digest of what was folded, and its refusal, if any."""

    sort_key: str
    digest: str
    reason: ValidationReason | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """Rows that are refused for one reason, what they add up to, signed, and a digest of them."""

    reason: str
    rows: int
    quantity: Decimal
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """What a group's rows add up to.

    Attributes
    ----------
    total
        Sum over every row, valid or not (a row whose quantity is no number adds 0): what was written.
    billable
        Sum over the valid rows; 0 when the group as a whole is refused.
    allocations
        Merged allocations of the valid rows; empty when they carry none or add up to 0.
    row_count
        All rows, valid or not.
    rejections
        What is refused, by reason, in the order in which the reasons were met; a group-level reason refuses
        all rows.
    digest
        Over keys, quantities, allocations and every other attribute that decides a row's meaning.
    pending
        The rows that are still marked pending, in key order.
    customer_identifier
        Legacy products only.
    """

    total: Decimal
    billable: Decimal
    allocations: tuple[Allocation, ...]
    row_count: int
    rejections: tuple[Rejection, ...]
    digest: str
    pending: tuple[FoldedRow, ...]
    customer_identifier: str | None = None

    @property
    def rejected_rows(self) -> int:
        """How many rows are refused."""
        return sum(rejection.rows for rejection in self.rejections)

    @property
    def reason(self) -> str | None:
        """The first reason for which rows are refused."""
        return self.rejections[0].reason if self.rejections else None

    @property
    def rejected(self) -> Decimal:
        """The quantity that was written but cannot be sent, signed."""
        return self.total - self.billable


@dataclass(slots=True)
class _Sums:
    total: Decimal = ZERO
    valid: Decimal = ZERO
    rows: int = 0
    rejections: dict[ValidationReason, Rejection] = field(default_factory=dict)
    group_reason: ValidationReason | None = None
    unallocated: bool = False
    allocated: bool = False
    identifiers: set[str] = field(default_factory=set)
    allocations: AllocationSum = field(default_factory=AllocationSum)
    pending: list[FoldedRow] = field(default_factory=list)


def fold_group(
    group: Group, rows: Iterable[UsageRow], *, kind: QuantityType, now: datetime, legacy: bool = False
) -> Fold:
    """Fold ``rows``, a stream of candidates in key order, into ``group``.

    Rows that are not the group's are passed over. ``legacy`` admits licence ids that are no ARN,
    provided that the rows name one ``customerIdentifier``.
    """
    sums = _Sums(group_reason=group.reason(legacy=legacy))
    hasher = hashlib.sha256()
    for row in rows:
        if row.belongs_to(group):
            checked = check_row(row, group, kind, now)
            digest = row.digest()
            hasher.update(digest.encode())
            _add(sums, row, checked, digest)
    reason = sums.group_reason or _group_reason(sums, group, kind)
    whole = reason is not None
    billable = ZERO if whole else sums.valid
    digest = hasher.hexdigest()[:32]
    whole_group = (Rejection(reason, sums.rows, sums.total, digest),) if reason else ()
    rejections = whole_group or tuple(sums.rejections.values())
    return Fold(
        total=sums.total,
        billable=billable,
        allocations=() if whole or billable == ZERO else sums.allocations.merged(),
        row_count=sums.rows,
        rejections=rejections,
        digest=digest,
        pending=tuple(sums.pending),
        customer_identifier=min(sums.identifiers, default=None),
    )


def _add(sums: _Sums, row: UsageRow, checked: CheckedRow, digest: str) -> None:
    sums.rows += 1
    sums.total += checked.quantity
    if row.pending_bucket is not None and len(sums.pending) < MAX_PENDING_ROWS:
        sums.pending.append(FoldedRow(row.sort_key, digest, checked.reason))
    if checked.reason is not None:
        before = sums.rejections.get(checked.reason, Rejection(checked.reason, 0, ZERO))
        sums.rejections[checked.reason] = Rejection(
            checked.reason,
            before.rows + 1,
            before.quantity + checked.quantity,
            hashlib.sha256(f"{before.digest}{digest}".encode()).hexdigest()[:16],
        )
        return
    sums.valid += checked.quantity
    if isinstance(identifier := row.attributes.get("customerIdentifier"), str):
        sums.identifiers.add(identifier)
    if checked.allocations:
        sums.allocated = True
        sums.group_reason = sums.group_reason or sums.allocations.add(checked.allocations)
    elif checked.quantity != ZERO:
        sums.unallocated = True


def _group_reason(sums: _Sums, group: Group, kind: QuantityType) -> ValidationReason | None:
    if sums.allocated and sums.unallocated:
        return ValidationReason.MIXED_ALLOCATED_AND_UNALLOCATED
    valid_rows = sums.rows - sum(rejection.rows for rejection in sums.rejections.values())
    if valid_rows and not is_license_arn(group.license_arn) and len(sums.identifiers) != 1:
        return ValidationReason.INVALID_LICENSE_ARN
    return range_reason(sums.valid, kind)
