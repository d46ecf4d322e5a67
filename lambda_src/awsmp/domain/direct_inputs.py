"""Direct-submit inputs: the seller's finished hourly records, folded like groups of one row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from awsmp.domain.allocations import Allocation, AllocationSum, canonical_value, parse_row_allocations
from awsmp.domain.folding import Fold, Rejection
from awsmp.domain.hours import parse_bucket
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import LEDGER_SORT_KEY
from awsmp.domain.quantities import ZERO, QuantityType, counted, quantity_reason
from awsmp.domain.reasons import ValidationReason

#: The attributes of an input that decide what it means.
INPUT_ATTRIBUTES: Final = ("quantity", "usageAllocations", "customerIdentifier")


def is_input(item: Mapping[str, object]) -> bool:
    """Tell whether an item of the aggregated-usage table is a seller's input: it has no fold of ours."""
    return "foldDigest" not in item


def input_group(item: Mapping[str, object]) -> Group | ValidationReason:
    """Return the group that an input names, or why its key does not reproduce it."""
    account, dimension = item.get("customerAWSAccountId"), item.get("dimension")
    if dimension is None or dimension == "":
        return ValidationReason.MISSING_DIMENSION
    hour_text = item.get("hour")
    hour = parse_bucket(hour_text) if isinstance(hour_text, str) else None
    if hour is None:
        return ValidationReason.MALFORMED_TIMESTAMP
    group = Group(str(item["licenseArn"]), str(account), str(dimension), hour)
    if item[LEDGER_SORT_KEY] != group.ledger_sort_key:
        return ValidationReason.SORT_KEY_MISMATCH
    if item.get("meteringPending") != group.bucket:
        return ValidationReason.PENDING_BUCKET_MISMATCH
    return group


def fold_input(item: Mapping[str, object], group: Group, kind: QuantityType, *, legacy: bool = False) -> Fold:
    """Fold one input: a group of one row."""
    total = counted(item.get("quantity"))
    allocations, reason = _checked(item, group, total, kind, legacy=legacy)
    identifier = item.get("customerIdentifier")
    text = "\x1f".join(f"{name}={canonical_value(item[name])}" for name in INPUT_ATTRIBUTES if name in item)
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Fold(
        total=total,
        billable=ZERO if reason else total,
        allocations=() if reason or total == ZERO else allocations,
        row_count=1,
        rejections=(Rejection(reason, 1, total, digest),) if reason else (),
        digest=digest,
        pending=(),
        customer_identifier=identifier if isinstance(identifier, str) else None,
    )


def _checked(
    item: Mapping[str, object], group: Group, total: Decimal, kind: QuantityType, *, legacy: bool
) -> tuple[tuple[Allocation, ...], ValidationReason | None]:
    reason = group.reason(legacy=legacy) or quantity_reason(
        item.get("quantity"), kind, present="quantity" in item
    )
    if reason is not None or "usageAllocations" not in item:
        return (), reason
    allocations, reason = parse_row_allocations(item["usageAllocations"], total, kind)
    merged = AllocationSum()
    reason = reason or merged.add(allocations)
    return merged.merged(), reason
