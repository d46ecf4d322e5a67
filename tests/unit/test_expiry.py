"""Submission expiry: what can no longer be billed is closed, counted, and still open to a later Success."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from awsmp.domain.errors import MeteringError, PartialFailure
from awsmp.domain.hours import HOUR, BillingWindow
from awsmp.domain.ports import Metric
from awsmp.domain.reasons import MeteringStatus
from sandbox.fake_marketplace import Fault, Lost, Moment
from tests.unit.metering_world import (
    LAST_HOUR,
    Call,
    MeteringWorld,
    amounts,
    fail_calls,
    group,
    license_arn,
    ready_records,
)


def aged(world: MeteringWorld, instant: datetime) -> None:
    world.clock.advance_to(instant)


@pytest.mark.parametrize(
    ("window", "hour", "now", "closed"),
    [
        pytest.param(24, "2026-11-10T11", "2026-11-11T10:59:59", 0, id="the last second of the window"),
        pytest.param(24, "2026-11-10T11", "2026-11-11T11:00:00", 1, id="exactly the window's age"),
        pytest.param(6, "2026-11-10T11", "2026-11-10T16:59:59", 0, id="shorter window: last second"),
        pytest.param(6, "2026-11-10T11", "2026-11-10T17:00:00", 1, id="shorter window: its age"),
        pytest.param(24, "2026-11-30T23", "2026-12-01T05:59:59", 0, id="month wall: 05:59:59"),
        pytest.param(24, "2026-11-30T23", "2026-12-01T06:00:00", 1, id="month wall: 06:00"),
        pytest.param(24, "2026-11-30T04", "2026-12-01T04:00:00", 1, id="before the wall, yet 24 hours old"),
    ],
)
def test_a_pending_record_is_closed_from_its_deadline_on(
    window: int, hour: str, now: str, closed: int
) -> None:
    start = datetime.fromisoformat(f"{hour}:00").replace(tzinfo=UTC)
    world = MeteringWorld(now=start + HOUR, window=BillingWindow(billable_hours=window))
    target = group(hour=start)
    ready_records(world, [target], quantity=4)
    aged(world, datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert world.expire() == closed
    record = world.record(target)
    assert record.pending is not bool(closed)
    if closed:
        assert record.status is MeteringStatus.SUBMISSION_EXPIRED
        assert amounts(record) == (4, 0, 0, 4)
        assert world.telemetry.total(Metric.USAGE_SUBMISSION_EXPIRED) == 1
        assert world.telemetry.total(Metric.SURFACED_UNITS, "SubmissionExpired") == 4
        assert world.expire() == 0, "closed once"
        world.assert_balanced()


def test_a_record_of_zero_is_closed_without_an_alarm() -> None:
    world = MeteringWorld()
    ready_records(world, [group()], quantity=0)
    aged(world, LAST_HOUR + 24 * HOUR)
    assert world.expire() == 1
    assert world.telemetry.total(Metric.USAGE_SUBMISSION_EXPIRED) == 0
    assert world.telemetry.total(Metric.SURFACED_UNITS) == 0


def test_a_record_whose_outcome_is_unknown_is_closed_as_such() -> None:
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    world.submit()
    aged(world, LAST_HOUR + 24 * HOUR)
    assert world.expire() == 1
    record = world.record(group())
    assert record.status is MeteringStatus.OUTCOME_UNKNOWN
    assert amounts(record) == (4, 0, 0, 4)
    assert world.telemetry.total(Metric.OUTCOME_UNKNOWN) == 1


def test_a_later_success_wins_over_expiry() -> None:
    world = MeteringWorld(now=LAST_HOUR + 24 * HOUR - timedelta(seconds=60), api_latency=45)
    ready_records(world, [group()], quantity=4)
    closed = []

    def expire_while_the_answer_is_under_way() -> None:
        world.clock.advance_to(LAST_HOUR + 24 * HOUR)
        closed.append(world.expire())

    world.hooks.after_each.append(
        lambda call: expire_while_the_answer_is_under_way() if call.operation == "BatchMeterUsage" else None
    )
    assert world.submit()["billed"] == 1
    assert closed == [1]
    record = world.record(group())
    assert record.status is MeteringStatus.SUCCESS
    assert amounts(record) == (4, 4, 0, 0)
    world.assert_balanced()


def test_a_group_of_bad_rows_only_is_closed_with_its_own_reason() -> None:
    world = MeteringWorld()
    world.write(-4)
    world.fold()
    aged(world, LAST_HOUR + 24 * HOUR)
    assert world.expire() == 1
    record = world.record(group())
    assert record.surfaced_by_reason() == {"NegativeQuantity": -4}
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED, "NegativeQuantity") == 1


def test_a_blocked_group_splits_into_expired_and_rejected_parts() -> None:
    world = MeteringWorld()
    world.write(10)
    world.write("seven", second=1)
    world.write(-3, second=2)
    world.fold()
    aged(world, LAST_HOUR + 24 * HOUR)
    world.expire()
    parts = world.record(group()).surfaced_by_reason()
    assert sum(parts.values()) == 7
    assert parts["SubmissionExpired"] == 10


@pytest.mark.parametrize(("hours", "closed"), [(24 + 7 * 24, 1), (24 + 7 * 24 + 1, 0)])
def test_three_runs_of_expiry_look_seven_days_past_the_window_and_no_further(hours: int, closed: int) -> None:
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)
    aged(world, LAST_HOUR + hours * HOUR)
    runs = 0
    for _ in range(3):
        runs += world.expire()
        world.clock.sleep(5 * 60)
    assert runs == closed


def test_a_record_that_changes_meanwhile_is_left_to_the_next_run() -> None:
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)
    aged(world, LAST_HOUR + 24 * HOUR)
    world.hooks.before_each.append(fail_calls("dynamodb", "UpdateItem", "ConditionalCheckFailedException"))
    assert world.expire() == 0
    assert world.record(group()).pending
    assert world.expire() == 1


def test_two_runs_at_once_close_everything_once() -> None:
    world = MeteringWorld()
    ready_records(world, [group(), group(dimension="seats")], quantity=4)
    aged(world, LAST_HOUR + 24 * HOUR)
    closed: list[int] = []

    def another_run(call: Call) -> None:
        if call.operation == "BatchGetItem" and not closed:
            closed.append(0)
            closed[0] = world.expire()

    world.hooks.before_each.append(another_run)
    assert world.expire() + closed[0] == 2
    assert closed == [2]
    assert world.telemetry.total(Metric.SURFACED_UNITS, "SubmissionExpired") == 8
    world.assert_balanced()


def test_a_record_that_cannot_be_written_costs_no_other_its_turn_and_the_run_fails_loudly() -> None:
    world = MeteringWorld()
    groups = [group(license_arn(n)) for n in range(3)]
    ready_records(world, groups, quantity=4)
    aged(world, LAST_HOUR + 24 * HOUR)
    struck = license_arn(1)
    world.hooks.before_each.append(
        fail_calls(
            "dynamodb",
            "UpdateItem",
            "InternalServerError",
            times=None,
            matches=lambda request: request["Key"]["licenseArn"]["S"] == struck,
        )
    )
    with pytest.raises(PartialFailure):
        world.expire()
    assert [record.group.license_arn for record in world.records() if record.pending] == [struck]


EDITS: list[tuple[str, dict[str, object]]] = [
    ("quantity as text", {"quantity": "many"}),
    ("a malformed hour", {"hour": "soon"}),
    ("an unknown status", {"meteringStatus": "Fine"}),
    ("allocations that are no list of maps", {"usageAllocations": ["x"]}),
    ("a billed record marked pending again", {"billedQuantity": 4}),
]


@pytest.mark.parametrize("changes", [case[1] for case in EDITS], ids=[case[0] for case in EDITS])
def test_a_malformed_record_costs_no_other_its_turn_and_the_run_fails_loudly(
    changes: dict[str, object],
) -> None:
    world = MeteringWorld()
    groups = [group(license_arn(n)) for n in range(3)]
    ready_records(world, groups, quantity=4)
    world.edit_ledger(groups[1], **changes)
    aged(world, LAST_HOUR + 24 * HOUR)
    with pytest.raises(PartialFailure):
        world.expire()
    assert [i["licenseArn"] for i in world.ledger_items() if "meteringPending" in i] == [license_arn(1)]
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED, "MalformedLedgerRecord") == 1


def test_expiry_stops_before_the_function_is_ended_and_the_next_run_goes_on() -> None:
    world = MeteringWorld()
    groups = [group(license_arn(n)) for n in range(250)]
    ready_records(world, groups, quantity=1)
    aged(world, LAST_HOUR + 24 * HOUR)
    world.hooks.dynamodb_latency = 0.1
    first = world.expire(seconds=25)
    assert 0 < first < 250
    world.hooks.dynamodb_latency = 0.0
    assert first + world.expire() == 250
    world.assert_balanced()


def test_a_run_that_stops_early_still_reports_what_failed() -> None:
    world = MeteringWorld()
    groups = [group(license_arn(n)) for n in range(250)]
    ready_records(world, groups, quantity=1)
    world.edit_ledger(groups[0], quantity="many")
    aged(world, LAST_HOUR + 24 * HOUR)
    world.hooks.dynamodb_latency = 0.1
    with pytest.raises(PartialFailure):
        world.expire(seconds=25)


def test_a_chunk_that_cannot_be_read_costs_no_other_hour_its_turn() -> None:
    world = MeteringWorld()
    early = group(hour=LAST_HOUR - HOUR)
    ready_records(world, [group(license_arn(1)), early], quantity=1)
    aged(world, LAST_HOUR + 24 * HOUR)
    world.hooks.before_each.append(fail_calls("dynamodb", "BatchGetItem", "InternalServerError"))
    with pytest.raises(MeteringError):
        world.expire()
    assert not world.record(early).pending
