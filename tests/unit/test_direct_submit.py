"""Direct-submit: the seller's finished record and what we know of it are two items of one table."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from awsmp.domain.errors import MeteringError, PartialFailure, SubmissionStopped
from awsmp.domain.hours import HOUR, bucket_of
from awsmp.domain.ledger import DIRECT_PREFIX, LEDGER_SORT_KEY
from awsmp.domain.ports import Metric
from awsmp.domain.reasons import MeteringStatus
from sandbox.fake_marketplace import Code, Fault, Lost, Moment
from tests.unit.metering_world import (
    BUYER,
    LAST_HOUR,
    LICENSE,
    Call,
    MeteringWorld,
    allocation,
    amounts,
    fail_calls,
    group,
    license_arn,
)


def test_an_input_is_billed_and_keeps_an_item_of_its_own() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7, tenant="kept")
    assert world.submit()["billed"] == 1
    record = world.record(group(), direct=True)
    assert (record.status, amounts(record)) == (MeteringStatus.SUCCESS, (7, 7, 0, 0))
    ours = world.ledger_item(group(), prefix=DIRECT_PREFIX)
    theirs = world.ledger_item(group())
    assert ours["directSubmit"] is True
    assert theirs["tenant"] == "kept"
    assert theirs["quantity"] == 7
    assert theirs["meteringStatus"] == "Aggregated"
    assert "meteringPending" not in theirs
    assert "version" not in theirs
    assert world.submit()["requests"] == 0
    world.assert_balanced()


def test_an_unconditional_overwrite_before_an_attempt_replaces_the_input() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    world.put_input(group(), 9)
    world.submit()
    assert amounts(world.record(group(), direct=True)) == (9, 9, 0, 0)


def test_an_overwrite_of_an_adopted_input_that_was_never_sent_replaces_it_too() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED))
    with pytest.raises(SubmissionStopped):
        world.submit()
    world.put_input(group(), 9)
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group(), direct=True)) == (9, 9, 0, 0)
    assert world.telemetry.total(Metric.LATE_AFTER_SUBMISSION) == 0
    world.assert_balanced()


@pytest.mark.parametrize("answer", ["success", "lost"])
def test_an_unconditional_overwrite_after_an_attempt_is_late_and_erases_nothing(answer: str) -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    if answer == "lost":
        world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    world.submit()
    world.put_input(group(), 10)
    world.submit()
    record = world.record(group(), direct=True)
    assert amounts(record) == (10, 7, 0, 3)
    assert record.surfaced_by_reason() == {"LateAfterSubmission": 3}
    assert world.telemetry.total(Metric.SURFACED_UNITS, "LateAfterSubmission") == 3
    assert world.ledger_item(group())["meteringStatus"] == "LateAfterSubmission"
    assert {outcome.record["Quantity"] for e in world.marketplace.requests() for outcome in e.outcomes} == {7}
    world.assert_balanced()


def test_an_overwrite_between_the_intent_and_the_answer_is_late() -> None:
    world = MeteringWorld(api_latency=1.0)
    world.put_input(group(), 7)

    def overwrite(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            world.put_input(group(), 12)

    world.hooks.after_each.append(overwrite)
    assert world.submit()["billed"] == 1
    world.submit()
    assert amounts(world.record(group(), direct=True)) == (12, 7, 0, 5)
    world.assert_balanced()


def test_the_same_input_put_again_changes_nothing() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    world.submit()
    before = world.ledger_item(group(), prefix=DIRECT_PREFIX)
    world.put_input(group(), 7)
    assert world.submit()["requests"] == 0
    assert world.ledger_item(group(), prefix=DIRECT_PREFIX) == before
    assert world.telemetry.total(Metric.LATE_AFTER_SUBMISSION) == 0
    world.assert_balanced()


def test_an_input_that_changes_while_it_is_adopted_is_adopted_again() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    changed: list[Call] = []

    def overwrite(call: Call) -> None:
        if "INSERT" in str(call.request.get("Statements")) and not changed:
            changed.append(call)
            world.put_input(group(), 9)

    world.hooks.after_each.append(overwrite)
    world.submit()
    assert "meteringPending" in world.ledger_item(group())
    world.submit()
    record = world.record(group(), direct=True)
    assert amounts(record) == (9, 7, 0, 2)
    world.assert_balanced()


INVALID: list[tuple[str, dict[str, Any]]] = [
    ("NegativeQuantity", {"quantity": -1}),
    ("MissingQuantity", {"quantity": None}),
    ("NonNumericQuantity", {"quantity": "7"}),
    ("InvalidTag", {"usageAllocations": [allocation(7, ("team", "~"))]}),
    ("AllocationSumMismatch", {"usageAllocations": [allocation(6, ("team", "a"))]}),
]


@pytest.mark.parametrize(("reason", "changes"), INVALID, ids=[case[0] for case in INVALID])
def test_an_invalid_input_never_joins_a_request_and_can_be_corrected(
    reason: str, changes: dict[str, Any]
) -> None:
    world = MeteringWorld()
    world.put_input(group(), changes.pop("quantity", 7), **changes)
    other = license_arn(1)
    world.subscribe(other)
    world.put_input(group(other), 5)
    assert world.submit()["billed"] == 1
    record = world.record(group(), direct=True)
    assert (record.status, record.rejection) == (MeteringStatus.REJECTED_CLIENT_SIDE, reason)
    assert world.ledger_item(group())["meteringStatusReason"] == reason
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED, reason) == 1
    world.put_input(group(), 8)
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group(), direct=True)) == (8, 8, 0, 0)
    world.assert_balanced()


UNCLAIMABLE: list[tuple[str, dict[str, object]]] = [
    ("MissingDimension", {"dimension": None}),
    ("MalformedTimestamp", {"hour": "yesterday"}),
    ("SortKeyMismatch", {"dimension": "seats"}),
    ("SortKeyMismatch", {"customerAWSAccountId": None}),
    ("PendingBucketMismatch", {"meteringPending": bucket_of(LAST_HOUR - HOUR)}),
]


@pytest.mark.parametrize(("reason", "changes"), UNCLAIMABLE, ids=[case[0] for case in UNCLAIMABLE])
def test_an_input_that_no_group_can_claim_is_rejected_by_name_on_the_item(
    reason: str, changes: dict[str, object]
) -> None:
    world = MeteringWorld()
    world.put_input(group(), 7, **changes)
    assert world.submit()["requests"] == 0
    item = next(i for i in world.ledger_items() if i.get(LEDGER_SORT_KEY) == group().ledger_sort_key)
    assert item["meteringStatus"] == "RejectedClientSide"
    assert str(item["meteringStatusReason"]).startswith(reason)
    assert "meteringPending" not in item
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED, reason) == 1
    assert world.telemetry.total(Metric.SURFACED_UNITS, reason) == 7


def test_an_invalid_input_that_nobody_corrects_is_closed_at_the_last_processed_hour() -> None:
    world = MeteringWorld()
    world.put_input(group(), -7)
    world.submit()
    world.clock.advance_to(LAST_HOUR + 23 * HOUR)
    world.submit()
    record = world.record(group(), direct=True)
    assert not record.pending
    assert record.surfaced_by_reason() == {"NegativeQuantity": -7}


def test_an_input_past_its_deadline_is_closed_by_expiry() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    world.clock.advance_to(LAST_HOUR + 24 * HOUR)
    assert world.submit()["requests"] == 0
    assert world.expire() == 1
    record = world.record(group(), direct=True)
    assert record.status is MeteringStatus.SUBMISSION_EXPIRED
    assert amounts(record) == (7, 0, 0, 7)
    assert "meteringPending" not in world.ledger_item(group())
    assert world.telemetry.total(Metric.USAGE_SUBMISSION_EXPIRED) == 1


def test_an_input_of_an_hour_that_has_not_begun_waits() -> None:
    world = MeteringWorld()
    target = group(hour=LAST_HOUR + 2 * HOUR)
    world.put_input(target, 7)
    world.submit()
    assert "meteringPending" in world.ledger_item(target)
    world.clock.advance(timedelta(hours=2))
    assert world.submit()["billed"] == 1


def test_an_input_of_a_closing_licence_is_sent_in_its_unfinished_hour() -> None:
    world = MeteringWorld()
    target = group(hour=LAST_HOUR + HOUR)
    world.put_input(target, 7)
    world.deprovision()
    assert world.submit_closing()["billed"] == 1


def test_allocations_of_an_input_are_sent() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7, usageAllocations=[allocation(3, ("team", "a")), allocation(4)])
    assert world.submit()["billed"] == 1
    sent = world.marketplace.honoured()[0].record["UsageAllocations"]
    assert sorted(entry["AllocatedUsageQuantity"] for entry in sent) == [3, 4]


def test_new_allocations_after_a_released_attempt_are_taken_from_the_input() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7, usageAllocations=[allocation(7, ("team", "a"))])
    world.marketplace.arm(Fault(Code.ACCESS_DENIED))

    def overwrite_and_adopt(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            world.hooks.before_each.clear()
            world.put_input(group(), 7, usageAllocations=[allocation(7, ("team", "b"))])
            world.another_sender()

    world.hooks.before_each.append(overwrite_and_adopt)
    with pytest.raises(SubmissionStopped):
        world.submit()
    assert world.record(group(), direct=True).refold_required
    for _ in range(2):
        world.submit()
    assert world.marketplace.honoured()[0].record["UsageAllocations"][0]["Tags"][0]["Value"] == "b"
    world.assert_balanced()


def fail_statements(world: MeteringWorld, arn: str, text: str) -> None:
    """Throttle every batch statement of that licence whose text contains ``text``."""
    struck: list[bool] = []

    def look(call: Call) -> None:
        if call.operation == "BatchExecuteStatement":
            statements = call.request["Statements"]
            struck[:] = [text in each["Statement"] and arn in str(each["Parameters"]) for each in statements]

    def fault(operation: str, position: int) -> str | None:
        return "ThrottlingError" if operation == "BatchExecuteStatement" and struck[position] else None

    client: Any = world.runtime.clients.dynamodb
    world.hooks.before_each.append(look)
    client.entry_fault = fault


def three_inputs() -> tuple[MeteringWorld, list[str]]:
    world, arns = MeteringWorld(), [license_arn(number) for number in range(3)]
    for arn in arns:
        world.subscribe(arn)
        world.put_input(group(arn), 2)
    return world, arns


def assert_all_billed_in_the_end(world: MeteringWorld) -> None:
    client: Any = world.runtime.clients.dynamodb
    client.entry_fault = None
    world.hooks.clear()
    world.submit()
    assert len(world.marketplace.honoured()) == 3
    assert [item for item in world.ledger_items() if "meteringPending" in item] == []
    world.assert_balanced()


def test_an_input_that_cannot_be_adopted_costs_no_other_input_its_turn() -> None:
    world, arns = three_inputs()
    fail_statements(world, arns[1], "INSERT")
    with pytest.raises(PartialFailure):
        world.submit()
    assert {each.license_arn for each in world.marketplace.honoured()} == {arns[0], arns[2]}
    assert_all_billed_in_the_end(world)


def test_an_input_whose_pending_mark_cannot_be_taken_off_is_billed_once() -> None:
    world, arns = three_inputs()
    fail_statements(world, arns[1], '"foldDigest" IS MISSING')
    with contextlib.suppress(PartialFailure):
        world.submit()
    assert_all_billed_in_the_end(world)


def test_an_unclaimable_input_that_cannot_be_stamped_costs_no_other_input_its_turn() -> None:
    world, arns = three_inputs()
    world.put_input(group(license_arn(0), dimension="a-first"), 2, hour="yesterday")

    def is_unclaimable(request: Any) -> bool:
        return "a-first" in str(request.get("Key"))

    world.hooks.before_each.append(
        fail_calls("dynamodb", "UpdateItem", "InternalServerError", times=None, matches=is_unclaimable)
    )
    with pytest.raises(PartialFailure):
        world.submit()
    assert {each.license_arn for each in world.marketplace.honoured()} == set(arns)


def test_an_input_cannot_take_the_key_of_our_own_item() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    world.submit()
    forged = {"licenseArn": LICENSE, LEDGER_SORT_KEY: f"{DIRECT_PREFIX}{group().ledger_sort_key}x"}
    world.put_ledger(
        {**forged, "customerAWSAccountId": f"{DIRECT_PREFIX}{BUYER}", "dimension": "seats"}
        | {"hour": group().bucket, "quantity": 1, "meteringPending": group().bucket}
    )
    with contextlib.suppress(MeteringError):
        world.submit()
    assert amounts(world.record(group(), direct=True)) == (7, 7, 0, 0)
    assert len(world.marketplace.honoured()) == 1


def test_a_dry_run_adopts_inputs_as_well() -> None:
    world = MeteringWorld(dry_run=True, test_accounts=frozenset({BUYER}))
    world.put_input(group(), 7)
    assert world.submit()["billed"] == 1
    assert world.record(group(), direct=True).status is MeteringStatus.DRY_RUN_SUBMITTED
    assert world.marketplace.requests() == ()
