"""The aggregator: whole groups into the ledger, one message at a time."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from awsmp.domain.errors import ConditionFailed, StoreUnavailable
from awsmp.domain.hours import HOUR, bucket_of
from awsmp.domain.ledger import LEDGER_SORT_KEY
from awsmp.domain.messages import Cleanup, GroupWork, UnclaimedRow, encode_work
from awsmp.domain.ports import Metric
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import MeteringStatus
from awsmp.domain.rows import ROW_SORT_KEY
from awsmp.handlers import aggregator
from awsmp.usecases.aggregate import aggregate_group
from tests.unit.metering_world import (
    LAST_HOUR,
    LEDGER,
    LICENSE,
    NOW,
    USAGE,
    Call,
    Crash,
    MeteringWorld,
    allocation,
    amounts,
    fail_calls,
    group,
)


def event(*bodies: str) -> dict[str, Any]:
    return {"Records": [{"messageId": f"m-{n}", "body": body} for n, body in enumerate(bodies)]}


def aggregate(world: MeteringWorld, *bodies: str) -> list[str]:
    """Invoke the handler with these messages; return the ids of those that come again."""
    answer = aggregator.run(event(*bodies), world.context(), world.runtime)
    return [entry["itemIdentifier"] for entry in answer["batchItemFailures"]]


MESSAGE = encode_work(GroupWork(group()))

# --- folding -----------------------------------------------------------------------------------------


def test_rows_of_a_group_add_up_to_one_pending_record() -> None:
    world = MeteringWorld()
    for second, quantity in enumerate((5, 7, 11)):
        world.write(quantity, second=second)
    world.write(100, dimension="seats")
    world.write(100, hour=LAST_HOUR - HOUR)
    assert aggregate(world, MESSAGE) == []
    (record,) = world.records()
    assert (record.group, amounts(record), record.row_count) == (group(), (23, 0, 23, 0), 3)
    assert record.pending
    assert record.version == 1


def test_all_rows_of_the_group_are_folded_not_only_the_pending_ones() -> None:
    world = MeteringWorld()
    world.write(5)
    world.fold()
    world.write(7, second=1)
    assert [row for row in world.pending_rows() if row.endswith(":00:00")] == []
    aggregate(world, MESSAGE)
    assert amounts(world.record(group())) == (12, 0, 12, 0)


def test_a_rewritten_row_replaces_its_quantity_while_nothing_was_sent() -> None:
    world = MeteringWorld()
    world.write(5)
    world.fold()
    world.write(9)
    world.fold()
    assert amounts(world.record(group())) == (9, 0, 9, 0)
    world.submit()
    world.assert_balanced()


def test_a_group_with_no_rows_left_is_done() -> None:
    world = MeteringWorld()
    assert aggregate(world, MESSAGE) == []
    assert world.ledger_items() == []


def test_the_same_fold_again_sends_cleanup_only_so_that_a_lost_one_heals() -> None:
    world = MeteringWorld()
    world.write(5)
    aggregate(world, MESSAGE)
    before = world.ledger_items()
    assert len(world.bodies("cleanup")) == 1
    aggregate(world, MESSAGE)
    assert world.ledger_items() == before
    first, second = world.bodies("cleanup")
    assert first == second


def test_cleanup_messages_carry_at_most_a_hundred_rows_with_status_sum_and_count() -> None:
    world = MeteringWorld()
    for second in range(250):
        world.write(2, second=second)
    aggregate(world, MESSAGE)
    bodies = world.bodies("cleanup")
    assert [len(body["rows"]) for body in bodies] == [100, 100, 50]
    assert {body["status"] for body in bodies} == {"Aggregated"}
    assert all("500" in body["reason"] and "250" in body["reason"] for body in bodies)


@pytest.mark.parametrize("already_there", [False, True], ids=["creating", "replacing"])
def test_a_lost_race_restarts_from_the_first_read(already_there: bool) -> None:
    world = MeteringWorld()
    world.write(5)
    if already_there:
        aggregate(world, MESSAGE)
        world.write(2, second=1)
    raced: list[Call] = []

    def another_fold_gets_in_first(call: Call) -> None:
        if call.operation in {"PutItem", "UpdateItem"} and not raced:
            raced.append(call)
            world.write(100, second=50)
            aggregate(world, MESSAGE)

    world.hooks.before_each.append(another_fold_gets_in_first)
    assert aggregate(world, MESSAGE) == []
    assert raced
    assert amounts(world.record(group()))[0] == (107 if already_there else 105)


def test_a_fold_that_loses_every_race_goes_back_to_its_queue() -> None:
    world = MeteringWorld()
    world.write(5)
    world.hooks.before_each.append(
        fail_calls("dynamodb", "PutItem", "ConditionalCheckFailedException", times=None)
    )
    with pytest.raises(BatchProcessingError):
        aggregate(world, MESSAGE)
    assert world.ledger_items() == []
    assert world.meter.requests["PutItem"] == 0


def test_a_zero_fold_over_a_pending_record_is_taken_over() -> None:
    world = MeteringWorld()
    world.write(5)
    world.fold()
    world.write(0)
    world.fold()
    assert amounts(world.record(group())) == (0, 0, 0, 0)
    assert world.record(group()).pending


def test_decimals_are_added_exactly() -> None:
    world = MeteringWorld(quantity_type=QuantityType.DECIMAL)
    for second in range(10):
        world.write(Decimal("0.1"), second=second)
    world.fold()
    assert world.record(group()).total == Decimal(1)
    world.submit()
    assert world.record(group()).billed == Decimal(1)


def test_allocations_with_equal_tags_in_any_order_are_merged() -> None:
    world = MeteringWorld()
    tags = (("team", "a"), ("env", "prod"))
    world.write(5, usageAllocations=[allocation(3, *tags), allocation(2)])
    world.write(4, second=1, usageAllocations=[allocation(4, *reversed(tags))])
    world.fold()
    merged = {allocation.tags: int(allocation.quantity) for allocation in world.record(group()).allocations}
    assert merged == {(): 2, (("env", "prod"), ("team", "a")): 7}
    world.submit()
    world.assert_balanced()


# --- late and expired --------------------------------------------------------------------------------


def test_a_late_row_after_success_is_surfaced_and_stamped() -> None:
    world = MeteringWorld()
    world.write(10)
    world.fold()
    world.submit()
    late = world.write(3, second=59)
    world.fold()
    record = world.record(group())
    assert amounts(record) == (13, 10, 0, 3)
    assert record.surfaced_by_reason() == {"LateAfterSubmission": 3}
    assert world.telemetry.total(Metric.LATE_AFTER_SUBMISSION) == 1
    assert world.telemetry.total(Metric.SURFACED_UNITS, "LateAfterSubmission") == 3
    assert world.row(late).attributes["meteringStatus"] == "LateAfterSubmission"
    world.assert_balanced()


def test_a_repeated_late_fold_is_reported_once() -> None:
    world = MeteringWorld()
    world.write(10)
    world.fold()
    world.submit()
    world.write(3, second=59)
    aggregate(world, MESSAGE)
    aggregate(world, MESSAGE)
    assert world.telemetry.total(Metric.LATE_AFTER_SUBMISSION) == 1


def test_a_group_found_past_its_deadline_is_closed_at_once() -> None:
    world = MeteringWorld()
    hour = LAST_HOUR - 30 * HOUR
    world.write(8, hour=hour)
    aggregate(world, encode_work(GroupWork(group(hour=hour))))
    record = world.record(group(hour=hour))
    assert record.status is MeteringStatus.AGGREGATION_EXPIRED
    assert amounts(record) == (8, 0, 0, 8)
    assert world.telemetry.total(Metric.USAGE_AGGREGATION_EXPIRED) == 1


def test_an_expired_total_of_zero_alarms_nobody() -> None:
    world = MeteringWorld()
    hour = LAST_HOUR - 30 * HOUR
    world.write(0, hour=hour)
    aggregate(world, encode_work(GroupWork(group(hour=hour))))
    assert world.record(group(hour=hour)).status is MeteringStatus.AGGREGATION_EXPIRED
    assert world.telemetry.counts == []


def test_an_hour_that_has_not_begun_is_left_for_its_time() -> None:
    world = MeteringWorld()
    future = LAST_HOUR + 2 * HOUR
    world.write(5, hour=future)
    message = encode_work(GroupWork(group(hour=future)))
    with pytest.raises(BatchProcessingError):
        aggregate(world, message)
    assert world.ledger_items() == []
    world.clock.advance(timedelta(hours=1))
    assert aggregate(world, message) == []
    assert amounts(world.record(group(hour=future))) == (5, 0, 5, 0)


# --- rejected groups ---------------------------------------------------------------------------------

BAD_ROWS: list[tuple[str, dict[str, Any]]] = [
    ("NegativeQuantity", {"quantity": -1}),
    ("NonNumericQuantity", {"quantity": "12"}),
    ("MissingQuantity", {"quantity": None}),
    ("NonIntegerQuantity", {"quantity": Decimal("1.5")}),
    ("QuantityOutOfRange", {"quantity": 2_147_483_648}),
    ("MalformedTimestamp", {"quantity": 1, "timestamp": "yesterday"}),
    ("SortKeyMismatch", {"quantity": 1, "timestamp": f"{bucket_of(LAST_HOUR)}:59:59"}),
    ("MalformedSortKey", {"quantity": 1, "sort_key": f"{group().row_prefix}:00:01.5"}),
    ("InvalidTag", {"quantity": 1, "usageAllocations": [allocation(1, ("team", "ü"))]}),
    (
        "TooManyTags",
        {"quantity": 1, "usageAllocations": [allocation(1, *((f"k{n}", "v") for n in range(6)))]},
    ),
    ("AllocationSumMismatch", {"quantity": 5, "usageAllocations": [allocation(4, ("team", "a"))]}),
]


@pytest.mark.parametrize(("reason", "changes"), BAD_ROWS, ids=[case[0] for case in BAD_ROWS])
def test_a_bad_row_blocks_its_group_by_name_until_it_is_corrected(
    reason: str, changes: dict[str, Any]
) -> None:
    allocated = "usageAllocations" in changes
    good: dict[str, Any] = {"usageAllocations": [allocation(10, ("team", "a"))]} if allocated else {}
    world = MeteringWorld()
    world.write(10, **good)
    bad = world.write(**{"second": 1, **changes})
    world.fold()
    record = world.record(group())
    assert (record.status, record.rejection) == (MeteringStatus.REJECTED_CLIENT_SIDE, reason)
    assert record.pending
    assert record.quantity == 10
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED, reason) == 1
    assert world.row(bad).attributes["meteringStatusReason"] == reason
    assert world.pending_rows() == []
    assert world.submit()["billed"] == 0, "it can still be corrected"

    corrected: dict[str, Any] = {"usageAllocations": [allocation(2, ("team", "b"))]} if allocated else {}
    world.write(2, second=1, **corrected)
    if "sort_key" in changes:
        world.seller.delete_item(
            TableName=USAGE,
            Key={"licenseArn": {"S": LICENSE}, ROW_SORT_KEY: {"S": bad}},
        )
    world.fold()
    assert amounts(world.record(group())) == (12, 0, 12, 0)
    assert world.submit()["billed"] == 1
    world.assert_balanced()


WHOLE_GROUP: list[tuple[str, list[dict[str, Any]]]] = [
    ("MixedAllocatedAndUnallocated", [{"quantity": 1}, {"usageAllocations": [allocation(1, ("t", "a"))]}]),
    ("QuantityOutOfRange", [{"quantity": 2_000_000_000}, {"quantity": 2_000_000_000}]),
    (
        "TooManyAllocations",
        [
            {
                "quantity": 1300,
                "usageAllocations": [allocation(1, ("t", f"{half}-{n}")) for n in range(1300)],
            }
            for half in "ab"
        ],
    ),
    (
        "RecordTooLarge",
        [
            {
                "quantity": 400,
                "usageAllocations": [
                    allocation(1, *((f"{k}", f"{half}-{n}-{'x' * 240}") for k in range(2)))
                    for n in range(400)
                ],
            }
            for half in "ab"
        ],
    ),
]


@pytest.mark.parametrize(("reason", "rows"), WHOLE_GROUP, ids=[case[0] for case in WHOLE_GROUP])
def test_a_group_refused_as_a_whole_has_no_valid_part_and_is_surfaced_whole(
    reason: str, rows: list[dict[str, Any]]
) -> None:
    world = MeteringWorld()
    for second, changes in enumerate(rows):
        world.write(**{"quantity": 1, "second": second, **changes})
    world.fold()
    record = world.record(group())
    total = int(record.total)
    assert record.rejection == reason
    assert record.quantity == 0
    assert world.telemetry.total(Metric.SURFACED_UNITS, reason) == total
    world.clock.advance(timedelta(hours=22))
    world.submit()
    record = world.record(group())
    assert (record.status, record.pending) == (MeteringStatus.REJECTED_CLIENT_SIDE, False)
    assert amounts(record) == (total, 0, 0, total)
    assert world.marketplace.honoured() == ()
    world.assert_balanced()


def test_a_refusal_of_the_marketplace_is_reopened_by_a_corrected_row() -> None:
    world = MeteringWorld()
    world.write(10, dimension="undefined")
    world.fold()
    world.submit()
    target = group(dimension="undefined")
    assert world.record(target).status is MeteringStatus.REJECTED_CLIENT_SIDE
    world.marketplace.update_license(LICENSE, dimensions=["api-calls", "undefined"])
    world.write(11, dimension="undefined")
    world.fold()
    assert world.record(target).pending
    world.submit()
    assert amounts(world.record(target)) == (11, 11, 0, 0)
    world.assert_balanced()


def test_a_cleanup_of_the_longest_keys_fits_into_a_message() -> None:
    world = MeteringWorld()
    dimension = "ü" * 485
    for second in range(100):
        world.write(1, dimension=dimension, second=second)
    target = group(dimension=dimension)
    assert len(target.row_prefix.encode()) + len(":00:00") <= 1024
    aggregate(world, encode_work(GroupWork(target)))
    assert all(len(body.encode()) <= 256 * 1024 for body in world.sqs.bodies("cleanup"))


# --- what left its group -----------------------------------------------------------------------------


def overwrite_unclaimably(world: MeteringWorld, row: str) -> None:
    """The seller writes the row anew, and forgets its dimension."""
    world.write(5, sort_key=row)
    key = {"licenseArn": {"S": LICENSE}, ROW_SORT_KEY: {"S": row}}
    item = world.seller.get_item(TableName=USAGE, Key=key)["Item"]
    del item["dimension"]
    world.seller.put_item(TableName=USAGE, Item=item)


def test_a_claimed_row_that_is_overwritten_by_an_unclaimable_one_leaves_its_groups_total() -> None:
    world = MeteringWorld()
    world.write(7)
    row = world.write(5, second=1)
    world.fold()
    assert amounts(world.record(group())) == (12, 0, 12, 0)
    overwrite_unclaimably(world, row)
    world.fold()
    assert amounts(world.record(group())) == (7, 0, 7, 0)
    assert str(world.row(row).attributes["meteringStatusReason"]).startswith("MissingDimension")
    assert world.telemetry.total(Metric.SURFACED_UNITS, "MissingDimension") == 5
    assert world.submit()["billed"] == 1
    world.assert_balanced()


def test_the_last_row_that_leaves_a_group_takes_its_total_to_zero() -> None:
    world = MeteringWorld()
    row = world.write(5)
    world.fold()
    overwrite_unclaimably(world, row)
    world.fold()
    record = world.record(group())
    assert (amounts(record), record.row_count) == ((0, 0, 0, 0), 0)
    assert world.pending_rows() == []
    world.assert_balanced(settled=False)


def test_a_row_that_leaves_a_group_after_it_was_billed_is_surfaced_with_its_sign() -> None:
    world = MeteringWorld()
    row = world.write(5)
    world.fold()
    world.submit()
    overwrite_unclaimably(world, row)
    world.fold()
    record = world.record(group())
    assert amounts(record) == (0, 5, 0, -5)
    assert record.surfaced_by_reason() == {"LateAfterSubmission": -5}
    world.assert_balanced()


def written_table(call: Call) -> str | None:
    """The table that a call writes to; rows without documents are stamped by statements."""
    if call.operation == "BatchExecuteStatement":
        return USAGE
    return str(call.request["TableName"]) if call.operation in {"PutItem", "UpdateItem"} else None


@pytest.mark.parametrize("table", [LEDGER, USAGE], ids=["the group's fold", "the row's stamp"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_around_the_groups_fold_or_the_rows_stamp_leaves_neither_out(table: str, after: bool) -> None:
    world = MeteringWorld()
    world.write(7)
    row = world.write(5, second=1)
    world.fold()
    overwrite_unclaimably(world, row)

    def die(call: Call) -> None:
        if written_table(call) == table:
            world.hooks.dead = True
            raise Crash

    (world.hooks.after_each if after else world.hooks.before_each).append(die)
    message = encode_work(UnclaimedRow(LICENSE, row))
    with pytest.raises(Crash):
        aggregate(world, message)
    world.hooks.clear()
    assert aggregate(world, message) == []
    assert amounts(world.record(group())) == (7, 0, 7, 0)
    assert world.pending_rows() == []
    assert str(world.row(row).attributes["meteringStatusReason"]).startswith("MissingDimension")


def test_the_group_is_folded_before_the_row_that_left_it_is_stamped() -> None:
    """A row that is stamped is not found again: the ledger has to be right by then."""
    world = MeteringWorld()
    world.write(7)
    row = world.write(5, second=1)
    world.fold()
    overwrite_unclaimably(world, row)
    tables: list[str | None] = []
    world.hooks.before_each.append(lambda call: tables.append(written_table(call)))
    aggregate(world, encode_work(UnclaimedRow(LICENSE, row)))
    assert list(filter(None, tables)) == [LEDGER, USAGE]


@pytest.mark.parametrize("suffix", [":00:01.5", ":x", ":x#2026-11-10T11:00:00"])
def test_a_row_under_a_malformed_key_leaves_its_groups_total_too(suffix: str) -> None:
    world = MeteringWorld()
    world.write(7)
    row = world.write(5, second=1, sort_key=f"{group().row_prefix}{suffix}")
    world.fold()
    assert amounts(world.record(group())) == (12, 0, 7, 5)
    overwrite_unclaimably(world, row)
    world.fold()
    assert amounts(world.record(group())) == (7, 0, 7, 0)
    assert world.submit()["billed"] == 1
    world.assert_balanced()


@pytest.mark.parametrize(
    "sort_key",
    [f"{group().row_prefix}:00:00", "nonsense", group(hour=LAST_HOUR + 2 * HOUR).row_prefix + ":00:00"],
    ids=["a group without a record", "no group", "a group whose hour has not begun"],
)
def test_an_unclaimable_row_that_was_never_a_groups_is_rejected_and_makes_no_record(sort_key: str) -> None:
    world = MeteringWorld()
    overwrite_unclaimably(world, sort_key)
    world.fold()
    assert world.ledger_items() == []
    assert world.pending_rows() == []
    assert world.row(sort_key).attributes["meteringStatus"] == "RejectedClientSide"
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED) == 1


def test_a_group_of_deleted_rows_is_left_as_it_is() -> None:
    """Only a row that another one took the place of is known to have left."""
    world = MeteringWorld()
    row = world.write(5)
    world.fold()
    world.seller.delete_item(TableName=USAGE, Key={"licenseArn": {"S": LICENSE}, ROW_SORT_KEY: {"S": row}})
    before = world.ledger_items()
    assert aggregate(world, MESSAGE) == []
    assert world.ledger_items() == before


# --- hours that nobody looks back at -------------------------------------------------------------------


@pytest.mark.parametrize("forgotten", [False, True])
def test_rows_are_folded_as_long_as_their_hour_is_looked_back_at(forgotten: bool) -> None:
    """Further back the TTL may have deleted some of them: a fold would take their quantity out."""
    world = MeteringWorld(now=LAST_HOUR + HOUR)
    world.write(5)
    deleted = world.write(7, second=1)
    world.fold()
    world.submit()
    key = {"licenseArn": {"S": LICENSE}, ROW_SORT_KEY: {"S": deleted}}
    world.seller.delete_item(TableName=USAGE, Key=key)
    until = LAST_HOUR + (24 + 7 * 24 + 1) * HOUR - timedelta(seconds=1)
    world.clock.advance(until - world.clock.now())
    if forgotten:
        world.clock.advance(timedelta(seconds=1))
    world.meter.reset()
    assert aggregate(world, MESSAGE) == []
    assert amounts(world.record(group())) == ((12, 12, 0, 0) if forgotten else (5, 12, 0, -7))
    assert (world.meter.requests.total() == 0) is forgotten


# --- cleanup at once -----------------------------------------------------------------------------------


def test_a_group_is_folded_again_as_long_as_its_cleanup_asks_for_it() -> None:
    world = MeteringWorld()
    world.write(5)
    cleaned: list[list[Cleanup]] = []

    def clean(cleanups: list[Cleanup]) -> bool:
        cleaned.append(cleanups)
        if len(cleaned) < 3:
            world.write(1, second=len(cleaned))
        return len(cleaned) < 3

    record = aggregate_group(replace(world.runtime.aggregation(), clean=clean), group())
    assert record == world.record(group())
    assert amounts(world.record(group())) == (7, 0, 7, 0)
    assert [len(each.rows) for (each,) in cleaned] == [1, 2, 3]
    assert cleaned[-1][0].digest == world.record(group()).digest


def test_a_cleanup_that_always_asks_for_another_fold_goes_back_to_its_queue() -> None:
    world = MeteringWorld()
    world.write(5)
    work = replace(world.runtime.aggregation(), clean=lambda cleanups: True)
    with pytest.raises(ConditionFailed):
        aggregate_group(work, group())
    assert amounts(world.record(group())) == (5, 0, 5, 0)


def test_a_repeated_cleanup_of_a_late_fold_stamps_what_is_known_of_its_rows() -> None:
    world = MeteringWorld()
    world.write(10)
    world.fold()
    world.submit()
    world.write(3, second=59)
    aggregate(world, MESSAGE)
    aggregate(world, MESSAGE)
    first, again = world.bodies("cleanup")
    assert first["status"] == "LateAfterSubmission"
    assert again["status"] == "Aggregated"
    assert again["reason"] == "Aggregated total quantity 13 from 2 raw usage records, some of it late"
    assert first["digest"] == again["digest"] == world.record(group()).digest
    assert first["rows"] == again["rows"]


# --- isolation and cost ------------------------------------------------------------------------------


NO_HOUR = {"licenseArn": LICENSE, "customerAWSAccountId": "1", "dimension": "d", "hour": "x"}
JUNK = ["", "not json", "[]", "null", "7", '{"group": {}}', '{"group": {"licenseArn": 5}}', '{"row": 3}']


@pytest.mark.parametrize("junk", [*JUNK, json.dumps({"group": NO_HOUR})])
def test_a_message_with_junk_fails_alone(junk: str) -> None:
    world = MeteringWorld()
    world.write(5)
    assert aggregate(world, MESSAGE, junk) == ["m-1"]
    assert amounts(world.record(group())) == (5, 0, 5, 0)


def test_a_foreign_item_under_a_groups_key_fails_its_message_alone() -> None:
    world = MeteringWorld()
    world.write(5)
    world.write(6, dimension="seats")
    foreign = {
        "licenseArn": LICENSE,
        LEDGER_SORT_KEY: group().ledger_sort_key,
        "x": "y",
    }
    world.put_ledger(foreign)
    assert aggregate(world, MESSAGE, encode_work(GroupWork(group(dimension="seats")))) == ["m-0"]
    assert foreign in world.ledger_items()
    assert world.record(group(dimension="seats")).total == 6


def test_an_unclaimable_row_that_vanished_is_done() -> None:
    world = MeteringWorld()
    assert aggregate(world, encode_work(UnclaimedRow(LICENSE, "nothing-there"))) == []


@pytest.mark.parametrize("mark", [bucket_of(LAST_HOUR), None], ids=["corrected", "processed already"])
def test_an_unclaimable_row_that_is_none_any_more_is_left_to_its_group(mark: str | None) -> None:
    world = MeteringWorld()
    row = world.write(5, meteringPending=mark)
    before = world.stored(USAGE)
    assert aggregate(world, encode_work(UnclaimedRow(LICENSE, row))) == []
    assert world.stored(USAGE) == before
    assert world.telemetry.counts == []


@pytest.mark.parametrize("operation", ["GetItem", "Query", "PutItem"])
def test_a_store_that_is_down_leaves_the_message_in_its_queue(operation: str) -> None:
    world = MeteringWorld()
    world.write(5)
    world.hooks.before_each.append(fail_calls("dynamodb", operation, "InternalServerError", times=None))
    with pytest.raises(BatchProcessingError) as failed:
        aggregate(world, MESSAGE)
    assert StoreUnavailable.__name__ in str(failed.value)
    world.hooks.clear()
    assert aggregate(world, MESSAGE) == []
    assert amounts(world.record(group())) == (5, 0, 5, 0)


def test_cleanup_that_cannot_be_enqueued_fails_the_message_and_the_retry_enqueues_it() -> None:
    world = MeteringWorld()
    world.write(5)
    world.hooks.before_each.append(fail_calls("sqs", "SendMessageBatch", "ServiceUnavailable"))
    with pytest.raises(BatchProcessingError):
        aggregate(world, MESSAGE)
    assert aggregate(world, MESSAGE) == []
    world.clean()
    world.submit()
    world.assert_balanced()


def test_a_busy_hours_rows_are_folded_in_bounded_memory_page_by_page() -> None:
    world = MeteringWorld()
    padding = "x" * 2_000
    for second in range(3600):
        world.write(1, second=second, note=padding)
    stored = 3600 * 2_300
    world.runtime.clients.dynamodb.get_item(  # warms what is loaded once per process
        TableName=LEDGER,
        Key={"licenseArn": {"S": "x"}, LEDGER_SORT_KEY: {"S": "x"}},
    )
    world.meter.reset()
    tracemalloc.start()
    try:
        aggregate(world, MESSAGE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert amounts(world.record(group())) == (3600, 0, 3600, 0)
    assert world.meter.requests["Query"] >= stored // 1_048_576, "one page a megabyte"
    assert peak < stored / 2, f"{peak} bytes at the peak for {stored} bytes of rows"


def test_a_record_of_another_hour_of_the_day_keeps_its_own_record() -> None:
    world = MeteringWorld(now=NOW)
    hours = [LAST_HOUR - back * HOUR for back in range(3)]
    for hour in hours:
        world.write(1, hour=hour)
    aggregate(world, *(encode_work(GroupWork(group(hour=hour))) for hour in hours))
    assert {record.group.hour for record in world.records()} == set(hours)
