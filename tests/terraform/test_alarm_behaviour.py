"""Each business alarm, by its planned definition, on what the real code publishes: when it fires."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import HOUR
from sandbox.fake_marketplace import Code, Fault, Lost, Moment, RecordEffect
from tests.terraform.cloudwatch import Datapoint, PublishedTelemetry, state_at, states_over
from tests.terraform.tool import ModuleTest
from tests.unit.metering_world import (
    BUYER,
    CALLS,
    LAST_HOUR,
    LICENSE,
    NOW,
    MeteringWorld,
    group,
    ready_records,
)

pytestmark = pytest.mark.slow

PRODUCT = "1example2product3code4567"
TICK = timedelta(minutes=5)

Alarm = dict[str, Any]


@pytest.fixture(scope="module")
def alarms(metering: ModuleTest) -> dict[str, Alarm]:
    return {r.key: r.values for r in metering.states["full"].of_type("aws_cloudwatch_metric_alarm")}


def published(world: MeteringWorld) -> PublishedTelemetry:
    """Let the world's functions publish as production does."""
    telemetry = PublishedTelemetry(world.clock, PRODUCT)
    world.change(telemetry=telemetry)
    return telemetry


def submit(world: MeteringWorld) -> None:
    """One run of the submitter, however it ends."""
    with contextlib.suppress(MeteringError):
        world.submit()


def fired(alarm: Alarm, telemetry: PublishedTelemetry, start: datetime) -> bool:
    end = max((point.at for point in telemetry.datapoints), default=start)
    return "ALARM" in states_over(alarm, telemetry.datapoints, start, end)


# --- what goes wrong -------------------------------------------------------------------------------------


def usage_too_old_to_add_up(world: MeteringWorld) -> None:
    hour = LAST_HOUR - 30 * HOUR
    world.write(4, hour=hour)
    world.age_out(((NOW.replace(minute=0) - hour) // HOUR) % 7)


def a_record_too_old_to_send(world: MeteringWorld) -> None:
    ready_records(world, [group()])
    world.clock.advance(24 * HOUR)
    world.expire()


def a_bad_row(world: MeteringWorld) -> None:
    world.write(-3)
    world.fold()


def a_record_put_back_twice(world: MeteringWorld) -> None:
    ready_records(world, [group()])
    world.marketplace.arm(Fault(effect=RecordEffect.UNPROCESSED, times=2))
    submit(world)


def an_unknown_buyer(world: MeteringWorld) -> None:
    ready_records(world, [group()])
    world.marketplace.suspend_account(BUYER)
    submit(world)


def a_refused_request(world: MeteringWorld) -> None:
    ready_records(world, [group()])
    world.marketplace.arm(Fault(Code.ACCESS_DENIED))
    submit(world)


def a_late_row(world: MeteringWorld) -> None:
    ready_records(world, [group()])
    submit(world)
    world.write(2, second=7)
    world.fold()


def another_quantity_at_the_marketplace(world: MeteringWorld) -> None:
    ready_records(world, [group()])
    wire = {"Timestamp": int(LAST_HOUR.timestamp()), "Dimension": CALLS, "Quantity": 99}
    wire |= {"CustomerAWSAccountId": BUYER, "LicenseArn": LICENSE}
    world.marketplace.batch_meter_usage({"UsageRecords": [wire]}, region="us-east-1")
    submit(world)


def answers_that_never_came(world: MeteringWorld) -> None:
    ready_records(world, [group()])
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER, times=None))
    submit(world)
    world.clock.advance(24 * HOUR)
    world.expire()


def a_dry_run_of_another_account(world: MeteringWorld) -> None:
    world.change(dry_run=True)
    ready_records(world, [group()])
    submit(world)


TROUBLES: dict[str, Callable[[MeteringWorld], None]] = {
    "usage-aggregation-expired": usage_too_old_to_add_up,
    "usage-submission-expired": a_record_too_old_to_send,
    "usage-record-rejected": a_bad_row,
    "usage-record-unprocessed": a_record_put_back_twice,
    "customer-not-subscribed": an_unknown_buyer,
    "batch-meter-usage-exception": a_refused_request,
    "late-after-submission": a_late_row,
    "possible-under-billing": another_quantity_at_the_marketplace,
    "outcome-unknown": answers_that_never_came,
    "dry-run-not-billed": a_dry_run_of_another_account,
}


@pytest.mark.parametrize("key", sorted(TROUBLES))
def test_what_is_not_billed_raises_its_alarm(key: str, alarms: dict[str, Alarm]) -> None:
    world = MeteringWorld()
    telemetry = published(world)
    TROUBLES[key](world)

    assert fired(alarms[key], telemetry, NOW)


def test_every_alarm_on_a_metric_of_ours_is_driven_here(alarms: dict[str, Alarm]) -> None:
    ours = {key for key, alarm in alarms.items() if alarm["namespace"] == "AWSMarketplaceMetering"}

    assert ours == {
        *TROUBLES,
        "oldest-unbilled-age",
        "month-end-wall",
        "submission-stalled",
        "discovery-stalled",
    }


# --- a day on which nothing goes wrong -------------------------------------------------------------------


def run_slices(world: MeteringWorld, numbers: range) -> None:
    """Run slices of the discoverer's schedules: 23 hour offsets and, after them, seven age-out shards."""
    for number in numbers:
        if number < 23:
            world.discover(number + 1)
        else:
            world.age_out(number - 23)


def play(world: MeteringWorld, span: timedelta) -> None:
    """Let the schedules run for ``span``: all slices every 15 minutes, submitter and expiry every 5."""
    end = world.clock.now() + span
    while world.clock.now() < end:
        if world.clock.now().minute % 15 == 0:
            run_slices(world, range(30))
        world.aggregate()
        world.clean()
        world.flush()
        submit(world)
        world.expire()
        world.clock.advance(TICK)


@pytest.fixture(scope="module")
def clean_run() -> Iterator[list[Datapoint]]:
    """Three hours with usage in every hour, one of them written late by a seller who may, one with a zero."""
    world = MeteringWorld(now=NOW.replace(minute=0))
    telemetry = published(world)
    for back in range(3):
        world.write(5, hour=LAST_HOUR - back * HOUR)
    world.write(9, hour=LAST_HOUR - 21 * HOUR)
    world.write(0, dimension="seats")
    for _ in range(3):
        play(world, HOUR)
        world.write(5, hour=world.clock.now().replace(minute=0) - HOUR)
    yield telemetry.datapoints


def test_a_clean_run_bills_and_raises_no_alarm(clean_run: list[Datapoint], alarms: dict[str, Alarm]) -> None:
    assert sum(point.value for point in clean_run if point.name == "RecordsBilled") >= 6
    start = NOW.replace(minute=0)
    loud = {}
    for key, alarm in alarms.items():
        if alarm["namespace"] == "AWSMarketplaceMetering":
            # An alarm on something missing fires until its first whole evaluation lies behind it.
            warm = start + timedelta(seconds=alarm["period"] * (alarm["evaluation_periods"] - 1))
            states = states_over(alarm, clean_run, warm, start + 3 * HOUR - TICK)
            if alarm["period"] > 300:
                states.pop()
            assert states, key
            loud[key] = set(states)

    assert {key: states for key, states in loud.items() if states != {"OK"}} == {}


# --- what is pending ---------------------------------------------------------------------------------------


def refused_runs(world: MeteringWorld, count: int) -> None:
    world.marketplace.arm(Fault(Code.ACCESS_DENIED, times=None))
    for _ in range(count):
        submit(world)
        world.clock.advance(TICK)


@pytest.mark.parametrize(
    ("hours_back", "runs", "fires"),
    [(18, 3, True), (18, 2, False), (16, 3, False)],
    ids=["old and left by three runs", "left by two runs only", "not old yet"],
)
def test_usage_that_stays_unbilled_in_old_age_raises_the_alarm(
    hours_back: int, runs: int, fires: bool, alarms: dict[str, Alarm]
) -> None:
    world = MeteringWorld()
    telemetry = published(world)
    ready_records(world, [group(hour=LAST_HOUR - (hours_back - 1) * HOUR)])
    refused_runs(world, runs)

    assert fired(alarms["oldest-unbilled-age"], telemetry, NOW) is fires


def test_old_usage_that_a_run_bills_at_once_is_no_alarm(alarms: dict[str, Alarm]) -> None:
    world = MeteringWorld()
    telemetry = published(world)
    for _ in range(4):
        ready_records(world, [group(hour=LAST_HOUR - 20 * HOUR, dimension=CALLS)])
        submit(world)
        world.clock.advance(TICK)

    assert not fired(alarms["oldest-unbilled-age"], telemetry, NOW)


def test_the_age_alarm_keeps_its_state_while_no_run_reports(alarms: dict[str, Alarm]) -> None:
    world = MeteringWorld()
    telemetry = published(world)
    ready_records(world, [group(hour=LAST_HOUR - 19 * HOUR)])
    refused_runs(world, 3)

    alarm = alarms["oldest-unbilled-age"]
    assert state_at(alarm, telemetry.datapoints, NOW + HOUR, before="ALARM") == "ALARM"
    world.marketplace.faults.clear()
    for _ in range(3):
        submit(world)
        world.clock.advance(TICK)
    assert state_at(alarm, telemetry.datapoints, world.clock.now(), before="ALARM") == "OK"


@pytest.mark.parametrize(
    ("now", "refused", "fires"),
    [
        ("2026-12-01T01:00", True, True),
        ("2026-12-01T01:00", False, False),
        ("2026-11-30T22:00", True, False),
        ("2026-12-02T01:00", True, False),
    ],
    ids=["the month closes", "all billed", "hours left", "the new month"],
)
def test_usage_of_the_closing_month_raises_the_alarm_in_its_last_six_hours(
    now: str, refused: bool, fires: bool, alarms: dict[str, Alarm]
) -> None:
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)
    world = MeteringWorld(now=at)
    telemetry = published(world)
    ready_records(world, [group(hour=at - 2 * HOUR)])
    if refused:
        refused_runs(world, 3)
    else:
        submit(world)

    assert fired(alarms["month-end-wall"], telemetry, at) is fires


# --- runs that do not end, schedules that have stopped -----------------------------------------------------


def test_a_submitter_that_never_gets_to_its_end_has_stalled(alarms: dict[str, Alarm]) -> None:
    """The function is called, so that its invocations alone would tell nothing."""
    start = NOW.replace(minute=0)
    world = MeteringWorld(now=start)
    telemetry = published(world)
    ready_records(world, [group()])
    refused_runs(world, 6)

    assert state_at(alarms["submission-stalled"], telemetry.datapoints, start + HOUR / 2) == "ALARM"
    world.marketplace.faults.clear()
    submit(world)
    assert state_at(alarms["submission-stalled"], telemetry.datapoints, start + HOUR * 3 / 4) == "OK"


@pytest.mark.parametrize("dispatch", range(6))
def test_one_schedule_that_has_stopped_stalls_discovery(dispatch: int, alarms: dict[str, Alarm]) -> None:
    """The others, and the minute's flush, go on calling the discoverer."""
    start = NOW.replace(minute=0)
    world = MeteringWorld(now=start)
    telemetry = published(world)
    for number in range(6):
        if number != dispatch:
            play_quarters(world, telemetry, start, range(5 * number, 5 * number + 5))

    assert state_at(alarms["discovery-stalled"], telemetry.datapoints, start + HOUR) == "ALARM"
    play_quarters(world, telemetry, start, range(5 * dispatch, 5 * dispatch + 5))
    assert state_at(alarms["discovery-stalled"], telemetry.datapoints, start + HOUR) == "OK"


def play_quarters(
    world: MeteringWorld, telemetry: PublishedTelemetry, start: datetime, slices: range
) -> None:
    """Run slices once and publish what they published in each quarter of an hour."""
    first = len(telemetry.datapoints)
    run_slices(world, slices)
    once = telemetry.datapoints[first:]
    del telemetry.datapoints[first:]
    telemetry.datapoints += [
        Datapoint(p.namespace, p.name, p.dimensions, p.value, start + quarter * timedelta(minutes=15))
        for quarter in range(4)
        for p in once
    ]


# --- what AWS publishes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["submitter-did-not-run", "discoverer-did-not-run", "expiry-did-not-run"])
def test_a_function_that_is_not_called_raises_the_alarm_although_nothing_is_published(
    key: str, alarms: dict[str, Alarm]
) -> None:
    alarm = alarms[key]
    called = [
        Datapoint("AWS/Lambda", "Invocations", alarm["dimensions"], 1, NOW + number * TICK)
        for number in range(12)
    ]

    assert state_at(alarm, [], NOW) == "ALARM"
    assert state_at(alarm, called, NOW + HOUR) == "OK"
    assert state_at(alarm, called, NOW + 2 * HOUR) == "ALARM"


@pytest.mark.parametrize(
    ("key", "values", "state"),
    [
        ("work-dlq", [1], "ALARM"),
        ("work-dlq", [0], "OK"),
        ("deprovision-work-oldest-message", [899], "OK"),
        ("deprovision-work-oldest-message", [900], "ALARM"),
        ("work-oldest-message", [3599], "OK"),
        ("work-oldest-message", [3600], "ALARM"),
        ("submitter-errors", [1], "ALARM"),
        ("submitter-throttles", [1, 1, 1], "ALARM"),
        ("submitter-throttles", [0, 1, 1], "OK"),
        ("schedule-submit-dispatch-failed", [1, 1], "ALARM"),
        ("schedule-submit-dispatch-failed", [0, 1], "OK"),
        ("schedule-meter-dispatch-3-failed", [5, 5], "ALARM"),
        ("cleanup-errors", [], "OK"),
    ],
)
def test_an_alarm_on_what_aws_publishes(
    key: str, values: list[int], state: str, alarms: dict[str, Alarm]
) -> None:
    alarm = alarms[key]
    end, period = NOW.replace(minute=0), timedelta(seconds=alarm["period"])
    points = [
        Datapoint(alarm["namespace"], alarm["metric_name"], alarm["dimensions"], value, end - back * period)
        for back, value in zip(range(len(values), 0, -1), values, strict=True)
    ]

    assert state_at(alarm, points, end) == state
