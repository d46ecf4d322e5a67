"""What the submitter and the discoverer report about usage that is not billed yet."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from awsmp.domain.errors import MeteringError, PartialFailure, SubmissionStopped
from awsmp.domain.hours import HOUR
from awsmp.domain.ports import Metric
from sandbox.fake_marketplace import Code, Fault, Lost, Moment, RecordEffect
from sandbox.memory_aws import aws_error
from tests.unit.metering_world import (
    BUYER,
    CALLS,
    LAST_HOUR,
    LICENSE,
    NOW,
    Call,
    MeteringWorld,
    fail_calls,
    group,
    license_arn,
    ready_records,
)

AGE = 80 * 60
WALL = datetime(2026, 12, 1, 6, tzinfo=UTC)


def world_with(count: int, **settings: Any) -> MeteringWorld:
    """A world with so many pending records of one unit each, one a dimension."""
    dimensions = [f"d{number:03d}" for number in range(count)]
    world = MeteringWorld(dimensions=dimensions, **settings)
    ready_records(world, [group(dimension=dimension) for dimension in dimensions])
    return world


def run(world: MeteringWorld) -> None:
    """One run of the submitter, however it ends."""
    with contextlib.suppress(MeteringError):
        world.submit()


def reported(world: MeteringWorld) -> tuple[list[float], list[float], list[float]]:
    """Units at risk, age of the oldest and time to the month wall, as every run so far reported them."""

    def values(metric: Metric) -> list[float]:
        return [float(value) for value in world.telemetry.values(metric)]

    return (
        values(Metric.UNITS_AT_RISK),
        values(Metric.OLDEST_UNBILLED_AGE_SECONDS),
        values(Metric.SECONDS_TO_MONTH_END_WALL),
    )


LEFT = [(WALL - NOW).total_seconds()]


def test_a_run_that_bills_everything_leaves_nothing_at_risk() -> None:
    world = world_with(60)
    run(world)
    assert reported(world) == ([0], [0], [])


def test_a_stopped_run_reports_everything_that_waits_not_only_what_it_tried_to_send() -> None:
    world = world_with(350)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED, times=None))
    with pytest.raises(SubmissionStopped):
        world.submit()
    assert len(world.marketplace.requests()) == 1
    assert reported(world) == ([350], [AGE], LEFT)
    world.marketplace.faults.clear()
    assert world.submit()["billed"] == 350
    assert reported(world)[0] == [350, 0]


def test_a_run_that_throttling_ended_reports_everything_that_waits() -> None:
    world = world_with(350)
    world.marketplace.arm(Fault(Code.THROTTLING, times=None))
    world.submit()
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [350]


def test_no_more_than_the_cap_is_read_to_report_it() -> None:
    world = world_with(350, max_records=320)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED, times=None))
    run(world)
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [320]


def test_what_lies_beyond_the_functions_own_deadline_is_not_read() -> None:
    world = world_with(350)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED, times=None))
    reads = itertools.count(1)

    def third_read_is_slow(call: Call) -> None:
        if call.operation == "BatchGetItem" and next(reads) == 3:
            world.clock.sleep(260)

    world.hooks.before_each.append(third_read_is_slow)
    with pytest.raises(SubmissionStopped):
        world.submit()
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [300]


def test_a_report_that_cannot_be_completed_still_stands_and_the_run_names_what_stopped_it() -> None:
    world = world_with(350)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED, times=None))
    reads = itertools.count(1)

    def third_read_fails(call: Call) -> None:
        if call.operation == "BatchGetItem" and next(reads) > 2:
            raise aws_error("dynamodb", "BatchGetItem", "InternalServerError", "injected")

    world.hooks.before_each.append(third_read_fails)
    with pytest.raises(SubmissionStopped):
        world.submit()
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [200]


def test_the_age_is_that_of_the_oldest_hour_and_the_units_are_those_of_all() -> None:
    world = MeteringWorld()
    ready_records(world, [group(), group(hour=LAST_HOUR - 5 * HOUR)], quantity=4)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED, times=None))
    run(world)
    assert reported(world) == ([8], [AGE + 5 * 3600], LEFT)


def closed_as_not_subscribed(world: MeteringWorld) -> None:
    world.marketplace.suspend_account(BUYER)


def answered_by_nobody(world: MeteringWorld) -> None:
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))


def put_back_twice(world: MeteringWorld) -> None:
    world.marketplace.arm(Fault(effect=RecordEffect.UNPROCESSED, times=2))


@pytest.mark.parametrize(
    ("trouble", "units"),
    [(closed_as_not_subscribed, 0), (answered_by_nobody, 4), (put_back_twice, 4)],
)
def test_what_is_closed_is_lost_or_billed_and_only_what_is_open_is_at_risk(
    trouble: Callable[[MeteringWorld], None], units: int
) -> None:
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)
    trouble(world)
    run(world)
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [units]


def test_the_valid_part_of_a_blocked_group_is_at_risk_until_it_is_billed() -> None:
    world = MeteringWorld()
    world.write(7)
    world.write(-3, second=1)
    world.fold()
    world.submit()
    world.clock.advance(21 * HOUR)
    world.submit()
    world.clock.advance(HOUR + HOUR / 2)
    world.submit()
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [7, 7, 0]
    assert world.telemetry.values(Metric.OLDEST_UNBILLED_AGE_SECONDS) == [AGE, AGE + 21 * 3600, 0]


def test_a_zero_is_no_money() -> None:
    world = MeteringWorld()
    world.write(0)
    world.fold()
    world.submit()
    assert reported(world) == ([0], [0], [])


def test_a_direct_submit_input_counts_once_although_it_is_two_items() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED, times=None))
    run(world)
    run(world)
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [7, 7]


def test_an_answer_that_meets_a_changed_record_settles_what_is_at_risk_too() -> None:
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)

    def late_row(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            world.hooks.before_each.clear()
            world.write(2, second=9)
            world.fold()

    world.hooks.before_each.append(late_row)
    world.submit()
    assert world.telemetry.total(Metric.LATE_AFTER_SUBMISSION) == 1
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [0]


# --- that runs come to their end ---------------------------------------------------------------------


def test_a_submitters_run_counts_as_completed_only_when_nothing_failed() -> None:
    world = world_with(1)
    world.marketplace.arm(Fault(Code.ACCESS_DENIED))
    run(world)
    assert world.telemetry.values(Metric.SUBMISSION_RUNS_COMPLETED) == []
    run(world)
    assert world.telemetry.values(Metric.SUBMISSION_RUNS_COMPLETED) == [1]


def test_a_run_that_found_another_sender_or_looked_at_closing_licences_only_does_not_count() -> None:
    world = world_with(1)
    world.subscribe(license_arn(7))
    world.deprovision(license_arn(7))
    world.submit_closing()
    world.runtime.ledger().acquire_lease("other", now=world.clock.now(), until=world.clock.now() + HOUR)
    assert world.submit()["skipped"]
    assert world.telemetry.values(Metric.SUBMISSION_RUNS_COMPLETED) == []
    assert reported(world) == ([], [], [])


def test_every_request_is_counted() -> None:
    world = world_with(60)
    world.submit()
    assert world.telemetry.total(Metric.REQUESTS_SENT) == len(world.marketplace.requests()) == 3


@pytest.mark.parametrize(
    ("offset", "age"),
    [(1, [AGE]), (2, [0]), (0, []), (24, [])],
    ids=["usage waits", "empty hour", "still locked", "past the window"],
)
def test_a_meter_run_reports_how_old_the_usage_is_that_still_waits(offset: int, age: list[int]) -> None:
    world = MeteringWorld()
    world.write(4)
    world.discover(offset)
    assert world.telemetry.values(Metric.OLDEST_UNAGGREGATED_AGE_SECONDS) == age
    assert world.telemetry.values(Metric.DISCOVERY_RUNS_COMPLETED) == [1]


def test_usage_that_was_added_up_waits_no_more() -> None:
    world = MeteringWorld()
    world.write(4, arn=LICENSE, dimension=CALLS)
    world.fold()
    world.discover()
    assert world.telemetry.values(Metric.OLDEST_UNAGGREGATED_AGE_SECONDS) == [AGE, 0]


def test_a_meter_run_that_fails_does_not_count_as_completed() -> None:
    world = MeteringWorld()
    world.write(4)
    world.hooks.before_each.append(fail_calls("dynamodb", "Query", "InternalServerError", times=None))
    with pytest.raises(MeteringError):
        world.discover()
    assert world.telemetry.values(Metric.DISCOVERY_RUNS_COMPLETED) == []


def test_an_age_out_run_counts_unless_something_could_not_be_aged_out() -> None:
    world = MeteringWorld()
    hour = LAST_HOUR - 30 * HOUR
    world.write(4, hour=hour)
    shard = ((NOW.replace(minute=0) - hour) // HOUR) % 7
    strike = fail_calls("dynamodb", "PutItem", "InternalServerError", times=None)
    world.hooks.before_each.append(strike)
    with pytest.raises(PartialFailure):
        world.age_out(shard)
    assert world.telemetry.values(Metric.DISCOVERY_RUNS_COMPLETED) == []
    world.hooks.clear()
    world.age_out(shard)
    assert world.telemetry.values(Metric.DISCOVERY_RUNS_COMPLETED) == [1]


def test_a_flush_run_counts_for_itself_not_for_the_quarter_hours_runs() -> None:
    """The minute's runs would hide that no hour is discovered any more."""
    world = MeteringWorld()
    world.flush()
    assert world.telemetry.values(Metric.DISCOVERY_RUNS_COMPLETED) == []
