"""Raw rows: to which group they belong, and the name of every refusal."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.hours import HOUR
from awsmp.domain.identifiers import Group
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import ValidationReason as Reason
from awsmp.domain.rows import (
    FOLDED_ATTRIBUTES,
    ROW_SORT_KEY,
    UsageRow,
    check_row,
    groups_named_by,
    unclaimable_reason,
    unclaimed_stamp,
)
from tests.unit.metering_support import (
    BUYER,
    GROUP,
    HOUR_START,
    LICENSE,
    OPEN,
    allocation,
    keyed,
    row,
    tagged,
)

INTEGER, DECIMAL = QuantityType.INTEGER, QuantityType.DECIMAL
BUCKET = GROUP.bucket


# --- one named case for every row-level reason -----------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (keyed(":0:00"), Reason.MALFORMED_SORT_KEY),
        (keyed(":00:00Z"), Reason.MALFORMED_SORT_KEY),
        (keyed(":00:00.5"), Reason.MALFORMED_SORT_KEY),
        (keyed(":00:00\n"), Reason.MALFORMED_SORT_KEY),
        (keyed(":"), Reason.MALFORMED_SORT_KEY),
        (row(drop=["timestamp"]), Reason.MALFORMED_TIMESTAMP),
        (row(timestamp=None), Reason.MALFORMED_TIMESTAMP),
        (row(timestamp=1762761600), Reason.MALFORMED_TIMESTAMP),
        (row(timestamp="2026-11-10 08:00:00"), Reason.MALFORMED_TIMESTAMP),
        (row(timestamp="2026-11-10T08:00:00Z"), Reason.MALFORMED_TIMESTAMP),
        (keyed(":60:00", timestamp=f"{BUCKET}:60:00"), Reason.MALFORMED_TIMESTAMP),
        (row(timestamp=f"{BUCKET}:00:01"), Reason.SORT_KEY_MISMATCH),
        (row(timestamp="2026-11-10T09:00:00"), Reason.SORT_KEY_MISMATCH),
        (keyed(":60:00"), Reason.SORT_KEY_MISMATCH),
        (row(drop=["quantity"]), Reason.MISSING_QUANTITY),
        (row(quantity=None), Reason.NON_NUMERIC_QUANTITY),
        (row(quantity="12"), Reason.NON_NUMERIC_QUANTITY),
        (row(quantity=True), Reason.NON_NUMERIC_QUANTITY),
        (row(quantity=Decimal(-1)), Reason.NEGATIVE_QUANTITY),
        (row(quantity=Decimal("1.5")), Reason.NON_INTEGER_QUANTITY),
        (row(quantity=Decimal(2**31)), Reason.QUANTITY_OUT_OF_RANGE),
        (row(quantity=Decimal(1), allocations=[]), Reason.INVALID_TAG),
        (row(quantity=Decimal(1), allocations=None), Reason.INVALID_TAG),
        (row(quantity=Decimal(1), allocations=[tagged(1, ("k", "?"))]), Reason.INVALID_TAG),
        (
            row(quantity=Decimal(1), allocations=[tagged(1, *[(f"k{n}", "v") for n in range(6)])]),
            Reason.TOO_MANY_TAGS,
        ),
        (row(quantity=Decimal(1), allocations=[tagged(2, ("k", "v"))]), Reason.ALLOCATION_SUM_MISMATCH),
    ],
)
def test_a_bad_row_is_refused_by_name(refused: UsageRow, reason: Reason) -> None:
    assert refused.belongs_to(GROUP)
    checked = check_row(refused, GROUP, INTEGER, OPEN)
    assert checked.reason is reason
    assert checked.quantity == refused.quantity
    assert checked.allocations == ()


def test_a_row_of_an_hour_that_has_not_begun_is_out_of_the_window() -> None:
    just_before = HOUR_START - timedelta(seconds=1)
    assert check_row(row(), GROUP, INTEGER, just_before).reason is Reason.TIMESTAMP_OUT_OF_WINDOW
    assert check_row(row(3599), GROUP, INTEGER, HOUR_START).reason is None


@pytest.mark.parametrize(
    ("good", "kind"),
    [
        (row(), INTEGER),
        (row(3599, 0), INTEGER),
        (row(0, Decimal(2**31 - 1)), INTEGER),
        (row(0, Decimal("1.5")), DECIMAL),
        (row(pending=False), INTEGER),
    ],
)
def test_a_good_row_counts_with_its_quantity(good: UsageRow, kind: QuantityType) -> None:
    checked = check_row(good, GROUP, kind, OPEN)
    assert (checked.reason, checked.quantity) == (None, good.quantity)


def test_a_good_row_keeps_its_allocations() -> None:
    checked = check_row(
        row(quantity=Decimal(3), allocations=[tagged(1, ("k", "v")), tagged(2)]), GROUP, INTEGER, OPEN
    )
    assert checked.allocations == (allocation(1, ("k", "v")), allocation(2))


@pytest.mark.parametrize("value", [None, "12", True, [1], 1.5])
def test_a_quantity_that_is_no_number_adds_nothing_to_what_was_written(value: object) -> None:
    assert row(quantity=value).quantity == 0


# --- belonging -------------------------------------------------------------------------------------

NESTED = Group(LICENSE, BUYER, "requests#2026-11-10T08:x", HOUR_START)


@pytest.mark.parametrize(
    ("candidate", "member"),
    [
        (row(), True),
        (row(pending=False), True),
        (row(pending=False, meteringStatus="Aggregated", meteringStatusReason="Aggregated total 5"), True),
        (row(pending=False, meteringStatusReason="InvalidTag"), True),
        (keyed(":nonsense"), True),
        (row(customerAWSAccountId="210987654321"), False),
        (row(drop=["customerAWSAccountId"]), False),
        (row(dimension="storage"), False),
        (row(drop=["dimension"]), False),
        (row(3600), False),
        (keyed(""), False),
        (row(meteringPending="2026-11-10T09"), False),
        (row(pending=False, meteringStatusReason=unclaimed_stamp(Reason.PENDING_BUCKET_MISMATCH)), False),
        # A new mark in its own hour makes a disowned row the group's again.
        (row(meteringStatusReason=unclaimed_stamp(Reason.PENDING_BUCKET_MISMATCH)), True),
        # Another dimension's rows may share the prefix.
        (row(group=NESTED), False),
    ],
)
def test_a_row_is_its_groups_by_attributes_key_and_mark(candidate: UsageRow, member: bool) -> None:
    assert candidate.belongs_to(GROUP) is member


# --- rows that no group can claim ------------------------------------------------------------------


def key_of(account: object = BUYER, dimension: object = "requests", rest: str = f"{BUCKET}:00:00") -> str:
    return f"{account}#{dimension}#{rest}"


@pytest.mark.parametrize(
    ("sort_key", "account", "dimension", "reason"),
    [
        (key_of(), BUYER, "requests", None),
        (key_of(rest=f"{BUCKET}:bad"), BUYER, "requests", None),
        (key_of(), BUYER, None, Reason.MISSING_DIMENSION),
        (key_of(), BUYER, "", Reason.MISSING_DIMENSION),
        (key_of(), None, "requests", Reason.SORT_KEY_MISMATCH),
        (key_of(), 123456789012, "requests", Reason.SORT_KEY_MISMATCH),
        (key_of(), BUYER, 5, Reason.SORT_KEY_MISMATCH),
        (key_of(account="210987654321"), BUYER, "requests", Reason.SORT_KEY_MISMATCH),
        (key_of(dimension="storage"), BUYER, "requests", Reason.SORT_KEY_MISMATCH),
        ("nonsense", BUYER, "requests", Reason.MALFORMED_SORT_KEY),
        ("210987654321#2026-11-10T08:00:00", BUYER, "requests", Reason.MALFORMED_SORT_KEY),
        ("210987654321#storage#today", BUYER, "requests", Reason.MALFORMED_SORT_KEY),
        (key_of(rest="2026-11-10"), BUYER, "requests", Reason.MALFORMED_SORT_KEY),
        (key_of(rest=BUCKET), BUYER, "requests", Reason.MALFORMED_SORT_KEY),
        (key_of(rest="2026-11-10T09:00:00"), BUYER, "requests", Reason.PENDING_BUCKET_MISMATCH),
    ],
)
def test_an_index_entry_that_reproduces_no_group_says_why(
    sort_key: str, account: object, dimension: object, reason: Reason | None
) -> None:
    assert unclaimable_reason(sort_key, BUCKET, account, dimension) is reason


@settings(max_examples=60)
@given(
    st.sampled_from([BUYER, "1", "210987654321"]),
    st.text(min_size=1, max_size=12) | st.sampled_from(["a#b", "#", "requests#2026-11-10T08:00:00"]),
    st.integers(-7200, 7200),
    st.integers(-2, 2),
)
def test_every_marked_row_is_claimed_by_its_group_or_rejected_by_name_never_both(
    account: str, dimension: str, offset: int, bucket_offset: int
) -> None:
    """Discovery decides by the index entry, folding by the row: both have to come to one answer."""
    own = Group(LICENSE, account, dimension, HOUR_START + HOUR * (offset // 3600))
    marked = Group(LICENSE, account, dimension, HOUR_START + HOUR * bucket_offset)
    found = row(offset % 3600, group=own, meteringPending=marked.bucket)
    reason = unclaimable_reason(found.sort_key, marked.bucket, account, dimension)
    assert found.belongs_to(marked) is (reason is None)
    assert (reason is None) is (own == marked)


@pytest.mark.parametrize(
    ("sort_key", "account", "dimension", "hour"),
    [
        (key_of(), BUYER, "requests", HOUR_START),
        (key_of(rest=f"{BUCKET}:59:59"), BUYER, "requests", HOUR_START),
        (key_of(rest="2026-11-10T09:00:00"), BUYER, "requests", HOUR_START + HOUR),
        (key_of(account="buyer"), "buyer", "requests", HOUR_START),
        (key_of(dimension="a#b"), BUYER, "a#b", HOUR_START),
        (key_of(dimension="requests#2026-11-10T07:00:00"), BUYER, "requests#2026-11-10T07:00:00", HOUR_START),
    ],
)
def test_a_canonical_key_names_its_group_whatever_the_rows_attributes_say(
    sort_key: str, account: str, dimension: str, hour: datetime
) -> None:
    assert Group(LICENSE, account, dimension, hour) in groups_named_by(LICENSE, sort_key)


@pytest.mark.parametrize(
    "sort_key",
    [
        "",
        "nonsense",
        f"{BUCKET}:00:00",
        f"{BUYER}#{BUCKET}:00:00",
        key_of(rest=BUCKET),
        key_of(rest=""),
        key_of(rest="2026-02-30T08:00:00"),
    ],
)
def test_a_key_without_account_dimension_and_hour_names_no_group(sort_key: str) -> None:
    assert groups_named_by(LICENSE, sort_key) == []


@settings(max_examples=60)
@given(
    st.sampled_from([BUYER, "1"]),
    st.text(min_size=1, max_size=12) | st.sampled_from(["a#b", "#", "requests#2026-11-10T08:00:00"]),
    st.integers(0, 3599),
)
def test_a_well_formed_row_is_of_the_group_that_its_key_names(
    account: str, dimension: str, offset: int
) -> None:
    named = Group(LICENSE, account, dimension, HOUR_START)
    key = row(offset, group=named).sort_key
    assert named in groups_named_by(LICENSE, key)
    assert all(key.startswith(f"{group.row_prefix}:") for group in groups_named_by(LICENSE, key))


def test_a_malformed_key_names_every_group_whose_prefix_it_begins_with() -> None:
    key = f"{GROUP.row_prefix}:x#2026-11-10T11:00:00"
    later = Group(LICENSE, BUYER, key.split("#", 1)[1].rsplit("#", 1)[0], HOUR_START.replace(hour=11))
    assert groups_named_by(LICENSE, key) == [GROUP, later]
    assert groups_named_by(LICENSE, key_of(rest=f"{BUCKET}:60:00")) == [GROUP]


# --- the digest ------------------------------------------------------------------------------------

BASE = row(quantity=Decimal(3), allocations=[tagged(3, ("k", "v"))], customerIdentifier="c-1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (ROW_SORT_KEY, f"{GROUP.row_prefix}:00:01"),
        ("quantity", Decimal(4)),
        ("quantity", "3"),
        ("quantity", None),
        ("usageAllocations", [tagged(3, ("k", "w"))]),
        ("usageAllocations", [tagged(3)]),
        ("usageAllocations", None),
        ("timestamp", "2026-11-10T08:00:01"),
        ("customerAWSAccountId", "210987654321"),
        ("dimension", "storage"),
        ("customerIdentifier", "c-2"),
    ],
)
def test_the_digest_changes_with_every_attribute_that_decides(name: str, value: object) -> None:
    assert UsageRow({**BASE.attributes, name: value}).digest() != BASE.digest()


@pytest.mark.parametrize("name", FOLDED_ATTRIBUTES)
def test_the_digest_tells_an_absent_attribute_from_a_null_one(name: str) -> None:
    absent = {key: value for key, value in BASE.attributes.items() if key != name}
    assert UsageRow(absent).digest() != UsageRow({**absent, name: None}).digest() != BASE.digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"quantity": Decimal("3.00")},
        {"quantity": 3},
        {"usageAllocations": [tagged(Decimal("3.0"), ("k", "v"))]},
        {"meteringPending": "2026-11-10T09"},
        {"meteringPending": None},
        {"meteringStatus": "Aggregated", "meteringStatusReason": "x", "updatedAt": "2026-11-10T09:00:00Z"},
        {"createdAt": "2026-11-10T09:00:00Z", "ttl": 5, "sellersOwn": {"a": 1}},
    ],
)
def test_the_digest_ignores_stamps_and_the_form_of_a_number(changes: dict[str, object]) -> None:
    assert UsageRow({**BASE.attributes, **changes}).digest() == BASE.digest()


def test_a_row_reads_its_keys_and_mark() -> None:
    assert BASE.license_arn == LICENSE
    assert BASE.sort_key == f"{GROUP.row_prefix}:00:00"
    assert BASE.pending_bucket == BUCKET
    assert row(pending=False).pending_bucket is None
