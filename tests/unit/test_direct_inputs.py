"""Direct-submit inputs: folded like a group of one row, under the same rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest

from awsmp.domain.allocations import MAX_ALLOCATION_BYTES, MAX_ALLOCATIONS
from awsmp.domain.direct_inputs import fold_input, input_group, is_input
from awsmp.domain.folding import Rejection
from awsmp.domain.ledger import Billed, Readiness, Released, apply_outcome, begin_attempt, readiness, to_item
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import MeteringStatus, SurfacedReason
from awsmp.domain.reasons import ValidationReason as Reason
from awsmp.domain.rows import UsageRow
from tests.unit.metering_support import (
    BUYER,
    CLOSED,
    GROUP,
    LEGACY_GROUP,
    OPEN,
    SENDER_TIMEOUT,
    WINDOW,
    allocation,
    direct_item,
    fold_rows,
    folded,
    row,
    tagged,
    values,
)

INTEGER, DECIMAL = QuantityType.INTEGER, QuantityType.DECIMAL
ENV = ("env", "prod")


def test_our_own_record_is_no_input() -> None:
    assert is_input(direct_item())
    assert is_input(direct_item(version=3, meteringStatus="Success")), "the seller's own attributes are free"
    assert not is_input(to_item(folded(None, fold_input(direct_item(), GROUP, INTEGER), direct=True)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"dimension": None}, Reason.MISSING_DIMENSION),
        ({"dimension": ""}, Reason.MISSING_DIMENSION),
        ({"hour": "2026-11-10"}, Reason.MALFORMED_TIMESTAMP),
        ({"hour": None}, Reason.MALFORMED_TIMESTAMP),
        ({"hour": 8}, Reason.MALFORMED_TIMESTAMP),
        ({"hour": "2026-11-10T09"}, Reason.SORT_KEY_MISMATCH),
        ({"customerAWSAccountId": None}, Reason.SORT_KEY_MISMATCH),
        ({"customerAWSAccountId": "210987654321"}, Reason.SORT_KEY_MISMATCH),
        ({"dimension": "storage"}, Reason.SORT_KEY_MISMATCH),
        ({"customerAWSAccountId#dimension#hour": "nonsense"}, Reason.SORT_KEY_MISMATCH),
        ({"meteringPending": "2026-11-10T09"}, Reason.PENDING_BUCKET_MISMATCH),
        ({"meteringPending": None}, Reason.PENDING_BUCKET_MISMATCH),
    ],
)
def test_an_input_names_its_group_or_says_why_not(changes: dict[str, object], reason: Reason | None) -> None:
    assert input_group({**direct_item(), **changes}) == (reason or GROUP)


@pytest.mark.parametrize("name", ["dimension", "hour", "customerAWSAccountId", "meteringPending"])
def test_an_input_without_one_of_its_names_has_no_group(name: str) -> None:
    assert isinstance(input_group(direct_item(drop=[name])), Reason)


@pytest.mark.parametrize(
    ("changes", "total", "reason"),
    [
        ({}, 10, None),
        ({"quantity": 0}, 0, None),
        ({"quantity": Decimal(-3)}, -3, Reason.NEGATIVE_QUANTITY),
        ({"quantity": Decimal("1.5")}, Decimal("1.5"), Reason.NON_INTEGER_QUANTITY),
        ({"quantity": Decimal(2**31)}, 2**31, Reason.QUANTITY_OUT_OF_RANGE),
        ({"quantity": "10"}, 0, Reason.NON_NUMERIC_QUANTITY),
        ({"quantity": None}, 0, Reason.NON_NUMERIC_QUANTITY),
        ({"quantity": Decimal("1E+15")}, 0, Reason.QUANTITY_OUT_OF_RANGE),
        ({"quantity": Decimal("1.000000001")}, 0, Reason.NON_INTEGER_QUANTITY),
        ({"usageAllocations": []}, 10, Reason.INVALID_TAG),
        ({"usageAllocations": [tagged(9, ENV)]}, 10, Reason.ALLOCATION_SUM_MISMATCH),
        (
            {"usageAllocations": [tagged(10, *[(f"k{n}", "v") for n in range(6)])]},
            10,
            Reason.TOO_MANY_TAGS,
        ),
    ],
)
def test_an_input_is_validated_like_a_row(
    changes: dict[str, object], total: Decimal | int, reason: Reason | None
) -> None:
    fold = fold_input({**direct_item(), **changes}, GROUP, INTEGER)
    assert fold.total == total
    assert fold.rejections == (() if reason is None else (Rejection(reason, 1, Decimal(total), fold.digest),))
    assert fold.billable == (0 if reason else total)
    assert (fold.row_count, fold.rejected_rows, fold.pending) == (1, 1 if reason else 0, ())
    same = fold_rows(UsageRow({**row(0, 10).attributes, **changes}))
    assert (same.total, same.billable, same.reason) == (fold.total, fold.billable, fold.reason)
    assert same.rejected == fold.rejected


def test_an_input_without_a_quantity_is_refused_by_name() -> None:
    fold = fold_input(direct_item(drop=["quantity"]), GROUP, INTEGER)
    assert values(fold.total, fold.reason) == (0, Reason.MISSING_QUANTITY)


def test_decimal_deployments_take_fractions() -> None:
    assert fold_input(direct_item(quantity=Decimal("1.5")), GROUP, DECIMAL).billable == Decimal("1.5")


def test_an_inputs_allocations_are_kept() -> None:
    fold = fold_input(direct_item(usageAllocations=[tagged(4, ENV), tagged(6)]), GROUP, INTEGER)
    assert set(fold.allocations) == {allocation(4, ENV), allocation(6)}
    zero = fold_input(direct_item(quantity=0, usageAllocations=[tagged(0, ENV)]), GROUP, INTEGER)
    assert zero.allocations == ()


def test_an_inputs_equal_tag_sets_are_merged() -> None:
    item = direct_item(usageAllocations=[tagged(4, ENV, ("a", "1")), tagged(6, ("a", "1"), ENV)])
    assert fold_input(item, GROUP, INTEGER).allocations == (allocation(10, ENV, ("a", "1")),)


def test_an_input_with_too_many_allocations_is_refused_by_name() -> None:
    entries = [tagged(1, ("user", str(number))) for number in range(MAX_ALLOCATIONS + 1)]
    item = direct_item(quantity=len(entries), usageAllocations=entries)
    assert fold_input(item, GROUP, INTEGER).reason is Reason.TOO_MANY_ALLOCATIONS


def test_an_input_that_leaves_no_room_for_our_own_attributes_is_refused_by_name() -> None:
    """As stored it is below DynamoDB's 400 KB; the ledger record made of it would not be."""
    entries = [tagged(1, ("user", f"{number}".ljust(256, "v"))) for number in range(1200)]
    assert MAX_ALLOCATION_BYTES < sum(256 + len("user") + 80 for _ in entries) < 410_000
    item = direct_item(quantity=len(entries), usageAllocations=entries)
    assert fold_input(item, GROUP, INTEGER).reason is Reason.RECORD_TOO_LARGE


@pytest.mark.parametrize(
    ("item", "legacy", "reason", "identifier"),
    [
        (direct_item(LEGACY_GROUP, customerIdentifier="c-1"), True, None, "c-1"),
        (direct_item(LEGACY_GROUP, customerIdentifier=7), True, None, None),
        (direct_item(LEGACY_GROUP, customerIdentifier="c-1"), False, Reason.INVALID_LICENSE_ARN, "c-1"),
    ],
)
def test_a_legacy_input_is_admitted_only_for_a_legacy_product(
    item: Mapping[str, object], legacy: bool, reason: Reason | None, identifier: str | None
) -> None:
    fold = fold_input(item, LEGACY_GROUP, INTEGER, legacy=legacy)
    assert (fold.reason, fold.customer_identifier) == (reason, identifier)


def test_a_groups_own_reason_stands_before_the_quantitys() -> None:
    group = replace(GROUP, dimension="d" * 256)
    fold = fold_input(direct_item(group, quantity=-1), group, INTEGER)
    assert values(fold.reason, fold.billable, fold.total) == (Reason.INVALID_DIMENSION, 0, -1)


BASE = direct_item(usageAllocations=[tagged(10, ENV)], customerIdentifier="c-1")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"quantity": Decimal("10.0")}, True),
        ({"quantity": 10}, True),
        ({"meteringStatus": "Aggregated", "updatedAt": "2026-11-10T09:00:00Z", "sellersOwn": 1}, True),
        ({"quantity": 11}, False),
        ({"quantity": "10"}, False),
        ({"usageAllocations": [tagged(10, ("env", "test"))]}, False),
        ({"usageAllocations": None}, False),
        ({"customerIdentifier": "c-2"}, False),
    ],
)
def test_the_digest_changes_exactly_when_the_input_means_something_else(
    changes: dict[str, object], same: bool
) -> None:
    before = fold_input(BASE, GROUP, INTEGER).digest
    assert (fold_input({**BASE, **changes}, GROUP, INTEGER).digest == before) is same


# --- the record beside the input -------------------------------------------------------------------


def test_an_input_is_sent_and_billed_like_a_fold() -> None:
    record = folded(None, fold_input(direct_item(), GROUP, INTEGER), direct=True)
    assert values(record.direct, record.pending_quantity) == (True, 10)
    billed = apply_outcome(begin_attempt(record, "a-1", now=OPEN), "a-1", Billed("r-1"))
    assert values(billed.billed, billed.surfaced) == (10, 0)
    assert folded(billed, fold_input(direct_item(), GROUP, INTEGER), direct=True) is billed


@pytest.mark.parametrize("quantity", [7, 13])
def test_a_different_input_after_an_attempt_is_late(quantity: int) -> None:
    record = folded(None, fold_input(direct_item(), GROUP, INTEGER), direct=True)
    attempt = begin_attempt(record, "a-1", now=OPEN)
    late = folded(attempt, fold_input(direct_item(quantity=quantity), GROUP, INTEGER), direct=True)
    assert values(late.quantity, late.total) == (10, quantity)
    assert late.surfaced_by_reason() == {SurfacedReason.LATE_AFTER_SUBMISSION: quantity - 10}


def test_a_different_input_before_an_attempt_replaces_the_first() -> None:
    record = folded(None, fold_input(direct_item(), GROUP, INTEGER), direct=True)
    assert folded(record, fold_input(direct_item(quantity=7), GROUP, INTEGER), direct=True).quantity == 7


def test_a_different_input_after_a_definitive_refusal_is_sent() -> None:
    record = folded(None, fold_input(direct_item(), GROUP, INTEGER), direct=True)
    attempt = begin_attempt(record, "a-1", now=OPEN)
    later = folded(attempt, fold_input(direct_item(quantity=13), GROUP, INTEGER), direct=True)
    released = apply_outcome(later, "a-1", Released())
    assert values(released.quantity, released.surfaced) == (13, 0)


@pytest.mark.parametrize(("changes", "expected"), [({}, Readiness.SEND), ({"quantity": 0}, Readiness.WAIT)])
def test_a_zero_input_waits_like_a_zero_total(changes: dict[str, object], expected: Readiness) -> None:
    record = folded(None, fold_input({**direct_item(), **changes}, GROUP, INTEGER), direct=True)
    assert readiness(record, now=OPEN, window=WINDOW, sender_timeout=SENDER_TIMEOUT) is expected


def test_an_input_that_comes_too_late_expires_at_once() -> None:
    record = folded(None, fold_input(direct_item(), GROUP, INTEGER), now=CLOSED, direct=True)
    assert (record.pending, record.status) == (False, MeteringStatus.SUBMISSION_EXPIRED)
    assert record.surfaced_by_reason() == {SurfacedReason.SUBMISSION_EXPIRED: 10}
    assert BUYER in record.sort_key
