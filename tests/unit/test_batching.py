"""Requests: the shape of a record, the two caps, and the halving of a refused request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import zip_longest

import botocore.session
import pytest
from botocore.model import OperationModel
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.allocations import MAX_ALLOCATIONS, Allocation
from awsmp.domain.batching import (
    MAX_RECORDS,
    MAX_REQUEST_BYTES,
    first_batch,
    halves,
    request_bytes,
    request_problem,
    usage_record,
)
from awsmp.domain.ledger import LedgerRecord, restamp_attempt
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import ValidationReason as Reason
from tests.unit.metering_support import (
    BUYER,
    GROUP,
    HOUR_START,
    LEGACY_GROUP,
    LICENSE,
    OPEN,
    allocation,
    fold_of,
    pending,
    sent,
)

INTEGER, DECIMAL = QuantityType.INTEGER, QuantityType.DECIMAL
ONE_MEGABYTE = 1_000_000
ALLOCATED = pending(fold_of(10, allocations=[allocation(4), allocation(6, ("k", "v"))]))
LEGACY = pending(fold_of(10, customer_identifier="c-1"), group=LEGACY_GROUP)


# --- the UsageRecord -------------------------------------------------------------------------------


def test_an_integer_record_names_licence_and_account_and_no_customer_identifier() -> None:
    assert usage_record(pending(), INTEGER, legacy=False) == {
        "Timestamp": HOUR_START,
        "Dimension": "requests",
        "CustomerAWSAccountId": BUYER,
        "LicenseArn": LICENSE,
        "Quantity": 10,
    }


def test_a_legacy_record_names_its_customer_identifier_only() -> None:
    assert usage_record(LEGACY, INTEGER, legacy=True) == {
        "Timestamp": HOUR_START,
        "Dimension": "requests",
        "CustomerIdentifier": "c-1",
        "Quantity": 10,
    }


@pytest.mark.parametrize(
    ("quantity", "text"), [("10", "10"), ("0", "0"), ("0.000001", "0.000001"), ("17.00", "17")]
)
def test_a_decimal_record_sends_the_canonical_text(quantity: str, text: str) -> None:
    shaped = usage_record(pending(fold_of(quantity)), DECIMAL, legacy=False)
    assert shaped["QuantityAsDecimal"] == text
    assert "Quantity" not in shaped


@pytest.mark.parametrize(
    ("kind", "member", "values"),
    [
        (INTEGER, "AllocatedUsageQuantity", [4, 6]),
        (DECIMAL, "AllocatedUsageQuantityAsDecimal", ["4", "6"]),
    ],
)
def test_allocations_have_the_number_type_of_their_record_and_the_untagged_one_no_tags(
    kind: QuantityType, member: str, values: list[object]
) -> None:
    assert usage_record(ALLOCATED, kind, legacy=False)["UsageAllocations"] == [
        {member: values[0]},
        {member: values[1], "Tags": [{"Key": "k", "Value": "v"}]},
    ]


def test_a_restamped_record_sends_the_activation_time() -> None:
    activation = HOUR_START + timedelta(minutes=7)
    record = restamp_attempt(sent(), "a-2", activation, now=OPEN)
    assert usage_record(record, INTEGER, legacy=False)["Timestamp"] == activation


@pytest.fixture(scope="module")
def batch_meter_usage() -> OperationModel:
    model = botocore.session.get_session().get_service_model("meteringmarketplace")
    return model.operation_model("BatchMeterUsage")


@pytest.mark.parametrize("kind", QuantityType)
@pytest.mark.parametrize(("record", "legacy"), [(pending(), False), (ALLOCATED, False), (LEGACY, True)])
def test_every_member_that_is_sent_exists_in_the_service_model(
    batch_meter_usage: OperationModel, record: LedgerRecord, legacy: bool, kind: QuantityType
) -> None:
    shape = batch_meter_usage.input_shape.members["UsageRecords"].member
    shaped = usage_record(record, kind, legacy=legacy)
    assert set(shaped) <= set(shape.members)
    assert set(shape.required_members) <= set(shaped)
    for entry in shaped.get("UsageAllocations", ()):  # type: ignore[attr-defined]
        members = shape.members["UsageAllocations"].member.members
        assert set(entry) <= set(members)


def test_the_record_limit_is_the_service_models(batch_meter_usage: OperationModel) -> None:
    assert batch_meter_usage.input_shape.members["UsageRecords"].metadata["max"] == MAX_RECORDS == 25


# --- what may not join a request -------------------------------------------------------------------


def with_allocations(*allocations: Allocation) -> LedgerRecord:
    total = sum((each.quantity for each in allocations), Decimal(0))
    return replace(pending(), quantity=total, total=total, allocations=allocations)


def wide(number: int) -> Allocation:
    return allocation(1, *[(f"{tag}".ljust(100, "k"), f"{number}".ljust(256, "v")) for tag in range(5)])


@pytest.mark.parametrize(
    ("record", "kind", "legacy", "problem"),
    [
        (pending(), INTEGER, False, None),
        (pending(fold_of(0)), INTEGER, False, None),
        (ALLOCATED, INTEGER, False, None),
        (LEGACY, INTEGER, True, None),
        (LEGACY, INTEGER, False, Reason.INVALID_LICENSE_ARN),
        (replace(LEGACY, customer_identifier=None), INTEGER, True, Reason.INVALID_LICENSE_ARN),
        (replace(LEGACY, customer_identifier=""), INTEGER, True, Reason.INVALID_LICENSE_ARN),
        (
            replace(pending(), group=replace(GROUP, customer_account="x")),
            INTEGER,
            False,
            Reason.INVALID_CUSTOMER_ACCOUNT,
        ),
        (replace(pending(), group=replace(GROUP, dimension="")), INTEGER, False, Reason.INVALID_DIMENSION),
        (pending(fold_of("1.5")), INTEGER, False, Reason.NON_INTEGER_QUANTITY),
        (pending(fold_of("1.5")), DECIMAL, False, None),
        (pending(fold_of(2**31)), INTEGER, False, Reason.QUANTITY_OUT_OF_RANGE),
        (replace(pending(), quantity=Decimal(-1)), INTEGER, False, Reason.NEGATIVE_QUANTITY),
        (replace(ALLOCATED, quantity=Decimal(11)), INTEGER, False, Reason.ALLOCATION_SUM_MISMATCH),
        (
            with_allocations(*[allocation(1, ("user", str(n))) for n in range(MAX_ALLOCATIONS)]),
            INTEGER,
            False,
            None,
        ),
        (
            with_allocations(*[allocation(1, ("user", str(n))) for n in range(MAX_ALLOCATIONS + 1)]),
            INTEGER,
            False,
            Reason.TOO_MANY_ALLOCATIONS,
        ),
        (with_allocations(*[wide(n) for n in range(600)]), INTEGER, False, Reason.RECORD_TOO_LARGE),
    ],
)
def test_a_record_that_would_sink_its_neighbours_is_kept_out_by_name(
    record: LedgerRecord, kind: QuantityType, legacy: bool, problem: Reason | None
) -> None:
    assert request_problem(record, kind, legacy=legacy) is problem


def test_fractional_allocations_may_not_join_an_integer_request() -> None:
    record = with_allocations(allocation("1.5", ("k", "v")), allocation("1.5", ("k", "w")))
    assert request_problem(record, INTEGER, legacy=False) is Reason.ALLOCATION_SUM_MISMATCH
    assert request_problem(record, DECIMAL, legacy=False) is None


# --- the two caps ----------------------------------------------------------------------------------

sizes = st.lists(st.integers(1, MAX_REQUEST_BYTES), max_size=70) | st.lists(st.integers(1, 300), max_size=70)


def cut(all_sizes: Sequence[int]) -> list[list[int]]:
    left, batches = list(all_sizes), []
    while left:
        count = first_batch(left)
        assert count >= 1, "a batch always makes progress"
        batches.append(left[:count])
        left = left[count:]
    return batches


@settings(max_examples=50)
@given(sizes)
def test_batches_keep_both_caps_and_neither_lose_nor_double_a_record(all_sizes: list[int]) -> None:
    batches = cut(all_sizes)
    assert [size for batch in batches for size in batch] == all_sizes
    for batch, following in zip_longest(batches, batches[1:], fillvalue=list[int]()):
        assert len(batch) <= MAX_RECORDS
        assert sum(batch) <= MAX_REQUEST_BYTES
        fits_another = following and sum(batch) + following[0] <= MAX_REQUEST_BYTES
        assert len(batch) == MAX_RECORDS or not fits_another, "a batch is as full as the caps allow"


@pytest.mark.parametrize(
    ("all_sizes", "count"),
    [
        ([], 0),
        ([5], 1),
        ([5] * 25, 25),
        ([5] * 26, 25),
        ([MAX_REQUEST_BYTES, 1], 1),
        ([MAX_REQUEST_BYTES - 1, 1], 2),
        ([MAX_REQUEST_BYTES - 1, 2], 1),
    ],
)
def test_the_caps_are_exact(all_sizes: list[int], count: int) -> None:
    assert first_batch(all_sizes) == count


record_shapes = st.tuples(
    st.text(min_size=1, max_size=255),
    st.integers(0, 2**31 - 1),
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 256)), max_size=5),
    st.integers(0, 40),
)


def shaped_record(shape: tuple[str, int, list[tuple[int, int]], int]) -> LedgerRecord:
    dimension, quantity, tags, count = shape
    allocations = [
        allocation(
            quantity, *[(f"{n}{tag}".ljust(key, "k"), "/" * value) for tag, (key, value) in enumerate(tags)]
        )
        for n in range(count)
    ]
    group = replace(GROUP, dimension=dimension)
    return replace(pending(), group=group, quantity=Decimal(quantity), allocations=tuple(allocations))


@settings(max_examples=15)
@given(st.lists(record_shapes, min_size=1, max_size=MAX_RECORDS), st.sampled_from(QuantityType))
def test_the_estimate_is_never_below_what_goes_over_the_wire(
    shapes: list[tuple[str, int, list[tuple[int, int]], int]], kind: QuantityType
) -> None:
    records = [shaped_record(shape) for shape in shapes]
    wire = []
    for record in records:
        shaped = usage_record(record, kind, legacy=False)
        wire.append(shaped | {"Timestamp": int(record.timestamp.timestamp())})
    body = json.dumps({"ProductCode": "p" * 255, "UsageRecords": wire})
    estimate = sum(request_bytes(record, kind) for record in records)
    assert len(body) <= estimate + (ONE_MEGABYTE - MAX_REQUEST_BYTES)


def test_a_full_request_stays_below_one_megabyte_on_the_wire() -> None:
    record = with_allocations(*[wide(n) for n in range(190)])
    count = MAX_REQUEST_BYTES // request_bytes(record, INTEGER)
    shaped = usage_record(record, INTEGER, legacy=False) | {"Timestamp": 1_794_297_600}
    assert first_batch([request_bytes(record, INTEGER)] * MAX_RECORDS) == count
    assert 1 <= count < MAX_RECORDS
    assert len(json.dumps({"UsageRecords": [shaped] * count})) < ONE_MEGABYTE


# --- halving ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(), min_size=2, max_size=MAX_RECORDS))
def test_halves_lose_no_record_and_differ_by_one_at_most(records: list[int]) -> None:
    first, second = halves(records)
    assert [*first, *second] == records
    assert 0 <= len(first) - len(second) <= 1
    assert second


@pytest.mark.parametrize("count", range(1, MAX_RECORDS + 1))
def test_five_cuts_reach_single_records(count: int) -> None:
    parts: list[Sequence[int]] = [range(count)]
    for _ in range(5):
        parts = [half for part in parts for half in (halves(part) if len(part) > 1 else (part,))]
    assert [list(part) for part in parts] == [[number] for number in range(count)]


def test_four_cuts_do_not() -> None:
    parts: list[Sequence[int]] = [range(MAX_RECORDS)]
    for _ in range(4):
        parts = [half for part in parts for half in (halves(part) if len(part) > 1 else (part,))]
    assert max(len(part) for part in parts) == 2
