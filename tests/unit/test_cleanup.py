"""Cleanup: the pending mark comes off rows that are exactly what was folded, and off no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from awsmp.adapters.dynamodb import from_wire, to_wire
from awsmp.domain.hours import HOUR, bucket_of
from awsmp.domain.ledger import LEDGER_SORT_KEY
from awsmp.domain.messages import GroupWork, decode_cleanup, encode_work
from awsmp.domain.rows import ROW_SORT_KEY
from awsmp.handlers import aggregator, cleanup
from awsmp.usecases.clean import Cleaned, clean_rows
from tests.unit.metering_world import (
    LAST_HOUR,
    LEDGER,
    LICENSE,
    USAGE,
    Call,
    Crash,
    MeteringWorld,
    allocation,
    amounts,
    fail_calls,
    group,
)


def fold(world: MeteringWorld) -> list[str]:
    """Fold the group; return the bodies of its cleanup messages, taken off the queue."""
    event = {"Records": [{"messageId": "m", "body": encode_work(GroupWork(group()))}]}
    aggregator.run(event, world.context(), world.runtime)
    bodies = world.sqs.bodies("cleanup")
    world.sqs.queues["cleanup"].messages.clear()
    world.meter.reset()
    return bodies


def clean(world: MeteringWorld, *bodies: str) -> list[str]:
    records = [{"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies)]
    answer = cleanup.run({"Records": records}, world.context(), world.runtime)
    return [entry["itemIdentifier"] for entry in answer["batchItemFailures"]]


def change_row(world: MeteringWorld, sort_key: str, **changes: object) -> None:
    """The seller rewrites attributes of a row; None removes one."""
    key = {"licenseArn": {"S": LICENSE}, ROW_SORT_KEY: {"S": sort_key}}
    item = from_wire(world.seller.get_item(TableName=USAGE, Key=key)["Item"]) | changes
    kept = {name: value for name, value in item.items() if value is not None}
    world.seller.put_item(TableName=USAGE, Item=to_wire(kept))


def test_folded_rows_lose_their_mark_and_are_stamped() -> None:
    world = MeteringWorld()
    for second in range(3):
        world.write(2, second=second, tenant="kept")
    clean(world, *fold(world))
    assert world.pending_rows() == []
    for row in world.rows():
        assert row.attributes["meteringStatus"] == "Aggregated"
        assert "total quantity 6 from 3" in str(row.attributes["meteringStatusReason"])
        assert row.attributes["tenant"] == "kept"
        assert row.quantity == 2


REWRITES: list[tuple[str, dict[str, Any]]] = [
    ("another quantity", {"quantity": 3}),
    ("no quantity", {"quantity": None}),
    ("a quantity as text", {"quantity": "2"}),
    ("allocations added", {"usageAllocations": [allocation(2, ("team", "a"))]}),
    ("another hour's mark", {"meteringPending": bucket_of(LAST_HOUR - HOUR)}),
    ("a customer identifier", {"customerIdentifier": "c-1"}),
]


@pytest.mark.parametrize("changes", [case[1] for case in REWRITES], ids=[case[0] for case in REWRITES])
@pytest.mark.parametrize("when", ["before the read", "between read and write"])
def test_a_row_rewritten_since_the_fold_stays_pending(changes: dict[str, Any], when: str) -> None:
    world = MeteringWorld()
    kept = world.write(2, second=0)
    rewritten = world.write(2, second=1)
    bodies = fold(world)
    if when == "before the read":
        change_row(world, rewritten, **changes)
    else:

        def rewrite(call: Call) -> None:
            if call.operation == "BatchExecuteStatement":
                change_row(world, rewritten, **changes)

        world.hooks.before_each.append(rewrite)
    assert clean(world, *bodies) == []
    assert world.pending_rows() == [rewritten]
    assert world.row(kept).attributes["meteringStatus"] == "Aggregated"
    assert "meteringStatus" not in world.row(rewritten).attributes


def test_a_rewritten_row_is_folded_again_and_billed_with_its_new_quantity() -> None:
    world = MeteringWorld()
    rewritten = world.write(2)
    bodies = fold(world)
    change_row(world, rewritten, quantity=5)
    clean(world, *bodies)
    world.fold()
    world.submit()
    assert amounts(world.record(group())) == (5, 5, 0, 0)
    world.assert_balanced()


def test_an_attribute_that_means_nothing_to_us_may_change_meanwhile() -> None:
    world = MeteringWorld()
    row = world.write(2)
    bodies = fold(world)
    change_row(world, row, note="seen by support")
    clean(world, *bodies)
    assert world.pending_rows() == []
    assert world.row(row).attributes["note"] == "seen by support"


def test_a_deleted_row_is_no_failure() -> None:
    world = MeteringWorld()
    row = world.write(2)
    bodies = fold(world)
    world.seller.delete_item(TableName=USAGE, Key={"licenseArn": {"S": LICENSE}, ROW_SORT_KEY: {"S": row}})
    assert clean(world, *bodies) == []
    assert world.rows() == []


def test_the_same_message_again_writes_nothing() -> None:
    world = MeteringWorld()
    for second in range(5):
        world.write(2, second=second)
    bodies = fold(world)
    clean(world, *bodies)
    assert world.bodies("work") == [], "nothing is to be folded again"
    before = world.dynamodb.items(USAGE)
    world.meter.reset()
    clean(world, *bodies)
    assert world.dynamodb.items(USAGE) == before
    assert dict(world.meter.requests) == {"BatchGetItem": 1, "GetItem": 1}
    assert world.bodies("work") == []


def test_a_hundred_rows_cost_one_batch_read_and_four_batch_writes() -> None:
    world = MeteringWorld()
    for second in range(100):
        world.write(1, second=second)
    (body,) = fold(world)
    clean(world, body)
    assert world.pending_rows() == []
    assert world.meter.requests["BatchGetItem"] == 1
    assert world.meter.requests["BatchExecuteStatement"] <= 4
    assert world.meter.requests.total() <= 6, "and one look at the ledger record"


def test_a_row_that_was_rewritten_folded_and_written_back_is_folded_once_more() -> None:
    world = MeteringWorld()
    world.write(2)
    stale = fold(world)
    world.write(3)
    fold(world)
    world.write(2)
    clean(world, *stale)
    assert world.pending_rows() == []
    assert amounts(world.record(group())) == (3, 0, 3, 0), "not what the row says"
    world.aggregate()
    world.clean()
    assert amounts(world.record(group())) == (2, 0, 2, 0)
    assert world.submit()["billed"] == 1
    world.assert_balanced()


def rewritten_folded_and_written_back(world: MeteringWorld) -> list[str]:
    """Write 2, then 3, then 2 again, folded in between; return the first fold's cleanup, still on its way."""
    world.write(2)
    stale = fold(world)
    world.write(3)
    fold(world)
    world.write(2)
    return stale


@pytest.mark.parametrize(
    ("operation", "after"),
    [("GetItem", False), ("GetItem", True), ("SendMessageBatch", False), ("SendMessageBatch", True)],
    ids=["before the look", "after the look", "before the message", "after the message"],
)
def test_a_crash_after_clearing_loses_no_further_fold_for_the_message_comes_back(
    operation: str, after: bool
) -> None:
    world = MeteringWorld()
    stale = rewritten_folded_and_written_back(world)

    def die(call: Call) -> None:
        if call.operation == operation:
            world.hooks.dead = True
            raise Crash

    (world.hooks.after_each if after else world.hooks.before_each).append(die)
    with pytest.raises(Crash):
        clean(world, *stale)
    world.hooks.clear()
    assert world.pending_rows() == [], "cleared before the crash"
    assert clean(world, *stale) == []
    assert world.bodies("work")[-1] == json.loads(encode_work(GroupWork(group())))
    world.aggregate()
    assert amounts(world.record(group())) == (2, 0, 2, 0)
    assert world.submit()["billed"] == 1
    world.assert_balanced()


def test_a_ledger_that_can_not_be_read_after_clearing_brings_the_message_back() -> None:
    world = MeteringWorld()
    stale = rewritten_folded_and_written_back(world)
    world.hooks.before_each.append(fail_calls("dynamodb", "GetItem", "InternalServerError", times=None))
    with pytest.raises(BatchProcessingError):
        clean(world, *stale)
    world.hooks.clear()
    assert world.bodies("work") == []
    assert clean(world, *stale) == []
    assert world.bodies("work") == [json.loads(encode_work(GroupWork(group())))]


def lose_the_record(world: MeteringWorld) -> None:
    key = {"licenseArn": {"S": LICENSE}, LEDGER_SORT_KEY: {"S": group().ledger_sort_key}}
    world.seller.delete_item(TableName=LEDGER, Key=key)


def fold_a_new_row(world: MeteringWorld) -> None:
    world.write(3, second=1)
    fold(world)


def send_the_record(world: MeteringWorld) -> None:
    assert world.submit()["billed"] == 1


@pytest.mark.parametrize(
    ("meanwhile", "refold"),
    [
        (lambda world: None, False),
        (fold, False),
        (send_the_record, False),
        (fold_a_new_row, True),
        (lose_the_record, True),
    ],
    ids=["nothing", "the same fold again", "the record was billed", "another fold", "the record is gone"],
)
def test_another_fold_is_asked_for_when_the_ledgers_last_one_is_not_the_messages(
    meanwhile: Callable[[MeteringWorld], object], refold: bool
) -> None:
    world = MeteringWorld()
    rows = [world.write(2, second=second) for second in (0, 59)]
    (body,) = fold(world)
    meanwhile(world)
    stores = world.runtime.usage(), world.runtime.ledger()
    assert clean_rows(*stores, world.clock, decode_cleanup(body)) == Cleaned(2, refold)
    assert not set(rows) & set(world.pending_rows())
    assert clean_rows(*stores, world.clock, decode_cleanup(body)) == Cleaned(0, refold)
    assert clean(world, body) == []
    assert world.bodies("work") == ([json.loads(encode_work(GroupWork(group())))] if refold else [])


def test_age_out_folds_again_at_once_what_was_written_back_under_its_cleanup() -> None:
    world = MeteringWorld()
    hour = LAST_HOUR - 30 * HOUR
    target = group(hour=hour)
    world.write(2, hour=hour)
    swaps: list[Call] = []

    def another_fold_between(call: Call) -> None:
        if call.operation == "BatchGetItem" and call.service == "dynamodb" and not swaps:
            swaps.append(call)
            world.write(3, hour=hour)
            event = {"Records": [{"messageId": "m", "body": encode_work(GroupWork(target))}]}
            aggregator.run(event, world.context(), world.runtime)
            world.write(2, hour=hour)

    world.hooks.before_each.append(another_fold_between)
    for shard in range(7):
        world.age_out(shard)
    assert swaps
    assert amounts(world.record(target)) == (2, 0, 0, 2)
    assert world.pending_rows() == []
    world.clean()
    assert amounts(world.record(target)) == (2, 0, 0, 2)
    world.aggregate()
    world.assert_balanced()


def test_rows_with_allocations_are_compared_as_a_whole_and_cleaned_too() -> None:
    world = MeteringWorld()
    tags = [allocation(2, ("team", "a"))]
    kept = world.write(2, second=0, usageAllocations=tags)
    rewritten = world.write(2, second=1, usageAllocations=tags)
    bodies = fold(world)

    def rewrite(call: Call) -> None:
        if call.operation == "UpdateItem":
            change_row(world, rewritten, usageAllocations=[allocation(2, ("team", "b"))])

    world.hooks.before_each.append(rewrite)
    clean(world, *bodies)
    assert world.pending_rows() == [rewritten]
    assert world.row(kept).attributes["meteringStatus"] == "Aggregated"
    world.hooks.clear()
    world.fold()
    world.submit()
    world.assert_balanced()


@pytest.mark.parametrize("quantity", [None, "twelve", True], ids=["missing", "text", "boolean"])
def test_refused_rows_are_cleaned_with_their_own_reason(quantity: object) -> None:
    world = MeteringWorld()
    good = world.write(1)
    bad = world.write(quantity, second=1)
    clean(world, *fold(world))
    assert world.pending_rows() == []
    assert world.row(good).attributes["meteringStatus"] == "Aggregated"
    assert world.row(bad).attributes["meteringStatus"] == "RejectedClientSide"


def test_a_row_with_a_null_quantity_is_refused_and_cleaned() -> None:
    world = MeteringWorld()
    bad = world.write(1)
    item = world.seller.get_item(
        TableName=USAGE, Key={"licenseArn": {"S": LICENSE}, ROW_SORT_KEY: {"S": bad}}
    )["Item"]
    world.seller.put_item(TableName=USAGE, Item=item | {"quantity": {"NULL": True}})
    clean(world, *fold(world))
    assert world.pending_rows() == []
    assert world.row(bad).attributes["meteringStatusReason"] == "NonNumericQuantity"


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceeded", "ThrottlingError", "InternalServerError"])
def test_statements_that_fail_for_a_while_are_tried_again_with_growing_pauses(code: str) -> None:
    world = MeteringWorld()
    for second in range(30):
        world.write(1, second=second)
    bodies = fold(world)
    struck: set[int] = set()

    def fault(operation: str, position: int) -> str | None:
        if operation != "BatchExecuteStatement" or position >= 3 or len(struck) >= 6:
            return None
        struck.add(len(struck))
        return code

    world.runtime.clients.dynamodb.entry_fault = fault  # type: ignore[attr-defined]
    before = world.clock.now()
    assert clean(world, *bodies) == []
    assert len(struck) == 6
    assert world.clock.now() > before
    assert world.pending_rows() == []


def test_rows_that_can_not_be_written_fail_the_message_and_the_rest_stays_done() -> None:
    world = MeteringWorld()
    for second in range(30):
        world.write(1, second=second)
    bodies = fold(world)

    def fault(operation: str, position: int) -> str | None:
        return "ThrottlingError" if operation == "BatchExecuteStatement" and position == 0 else None

    client: Any = world.runtime.clients.dynamodb
    client.entry_fault = fault
    with pytest.raises(BatchProcessingError):
        clean(world, *bodies)
    assert 0 < len(world.pending_rows()) <= 2
    client.entry_fault = None
    assert clean(world, *bodies) == []
    assert world.pending_rows() == []


def test_keys_that_stay_unprocessed_fail_the_message() -> None:
    world = MeteringWorld()
    world.write(1)
    bodies = fold(world)
    client: Any = world.runtime.clients.dynamodb
    client.entry_fault = lambda operation, _position: "Throttled" if operation == "BatchGetItem" else None
    with pytest.raises(BatchProcessingError):
        clean(world, *bodies)
    assert len(world.pending_rows()) == 1


@pytest.mark.parametrize("operation", ["BatchGetItem", "BatchExecuteStatement"])
@pytest.mark.parametrize("code", ["AccessDeniedException", "InternalServerError"])
def test_a_refused_request_fails_the_message(operation: str, code: str) -> None:
    world = MeteringWorld()
    world.write(1)
    bodies = fold(world)
    world.hooks.before_each.append(fail_calls("dynamodb", operation, code, times=None))
    with pytest.raises(BatchProcessingError):
        clean(world, *bodies)
    assert len(world.pending_rows()) == 1


@pytest.mark.parametrize("junk", ["", "{}", "[]", '{"rows": 1}', '{"licenseArn": "l", "hour": "h"}'])
def test_a_message_with_junk_fails_alone(junk: str) -> None:
    world = MeteringWorld()
    world.write(1)
    bodies = fold(world)
    assert clean(world, *bodies, junk) == ["m-1"]
    assert world.pending_rows() == []
