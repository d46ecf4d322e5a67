"""The submitter: what is sent, in which order, and what each answer does to a record."""

from __future__ import annotations

import contextlib
import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import (
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ProxyConnectionError,
)

from awsmp.domain.errors import (
    MeteringError,
    Misconfigured,
    PartialFailure,
    StoreUnavailable,
    SubmissionStopped,
)
from awsmp.domain.hours import HOUR, BillingWindow, floor_hour, format_instant
from awsmp.domain.ledger import LEDGER_SORT_KEY, Attempt
from awsmp.domain.ports import Metric
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import MeteringStatus
from awsmp.handlers import submitter
from sandbox.fake_marketplace import Code, Fault, Lost, Moment, RecordEffect
from sandbox.virtual_time import VirtualWorkers
from tests.unit.metering_world import (
    BUYER,
    CALLS,
    LAST_HOUR,
    LEDGER,
    LICENSE,
    NOW,
    PRODUCT,
    SUBSCRIBERS,
    Call,
    MeteringWorld,
    allocation,
    amounts,
    fail_calls,
    group,
    license_arn,
    ready_records,
)

SENDER_TIMEOUT = timedelta(seconds=300)


def world_with(count: int, **settings: Any) -> MeteringWorld:
    """A world with so many pending records of one unit each, one a dimension."""
    dimensions = [f"d{number:02d}" for number in range(count)]
    world = MeteringWorld(dimensions=dimensions, **settings)
    ready_records(world, [group(dimension=dimension) for dimension in dimensions])
    return world


def one_record(quantity: int = 4, **settings: Any) -> MeteringWorld:
    world = MeteringWorld(**settings)
    ready_records(world, [group()], quantity=quantity)
    return world


def sent_dimensions(world: MeteringWorld) -> list[list[str]]:
    return [[o.record["Dimension"] for o in entry.outcomes] for entry in world.marketplace.requests()]


def sent_hours(world: MeteringWorld) -> list[datetime]:
    return [
        datetime.fromtimestamp(outcome.record["Timestamp"], UTC)
        for entry in world.marketplace.requests()
        for outcome in entry.outcomes
    ]


# --- the happy path ----------------------------------------------------------------------------------


def test_a_pending_record_is_billed_with_quantity_timestamp_and_identity() -> None:
    world = one_record()
    assert world.submit()["billed"] == 1
    (honoured,) = world.marketplace.honoured()
    assert honoured.timestamp == LAST_HOUR
    assert honoured.record == {
        "Timestamp": int(LAST_HOUR.timestamp()),
        "Dimension": CALLS,
        "CustomerAWSAccountId": BUYER,
        "LicenseArn": LICENSE,
        "Quantity": 4,
    }
    assert world.marketplace.requests()[0].product_code is None, "never beside a licence"
    record = world.record(group())
    assert record.status is MeteringStatus.SUCCESS
    assert record.record_id == honoured.metering_record_id
    assert world.telemetry.total(Metric.RECORDS_BILLED) == 1
    world.assert_balanced()


def test_a_decimal_deployment_sends_decimals() -> None:
    world = MeteringWorld(quantity_type=QuantityType.DECIMAL)
    world.write(Decimal("0.250"))
    world.fold()
    world.submit()
    assert world.marketplace.honoured()[0].record["QuantityAsDecimal"] == "0.25"
    world.assert_balanced()


def test_records_go_out_twenty_five_a_request() -> None:
    world = world_with(60)
    report = world.submit()
    assert (report["billed"], report["requests"]) == (60, 3)
    assert sorted(map(len, sent_dimensions(world))) == [10, 25, 25]


@pytest.mark.slow
def test_a_request_stays_below_a_megabyte() -> None:
    world = MeteringWorld()
    tags = [allocation(1, ("team", f"{n}-{'x' * 240}")) for n in range(900)]
    for dimension in ("api-calls", "seats", "storage-gb"):
        for back in range(2):
            world.write(900, dimension=dimension, hour=LAST_HOUR - back * HOUR, usageAllocations=tags)
    for offset in (1, 2):
        world.fold(offset)
    assert world.submit()["billed"] == 6
    assert len(world.marketplace.requests()) > 1
    world.assert_balanced()


def test_each_batch_is_written_back_as_it_is_answered_not_at_the_end() -> None:
    world = world_with(75, api_latency=0.15)
    done_before_last_send = []

    def watch(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            done_before_last_send.append(sum(not record.pending for record in world.records()))

    world.hooks.before_each.append(watch)
    world.submit()
    assert done_before_last_send[-1] > 0


def test_a_run_with_nothing_pending_sends_nothing() -> None:
    world = MeteringWorld()
    assert world.submit()["requests"] == 0
    assert world.telemetry.values(Metric.OLDEST_UNBILLED_AGE_SECONDS) == [0]


def test_what_a_run_bills_is_at_risk_no_more() -> None:
    world = one_record()
    world.submit()
    assert world.telemetry.values(Metric.UNITS_AT_RISK) == [0]
    assert world.telemetry.values(Metric.OLDEST_UNBILLED_AGE_SECONDS) == [0]
    assert world.telemetry.values(Metric.SECONDS_TO_MONTH_END_WALL) == []


@pytest.mark.parametrize("event", [{}, {"mode": "x"}, {"mode": None}])
def test_an_input_that_names_no_mode_fails_loudly(event: dict[str, Any]) -> None:
    world = one_record()
    with pytest.raises(Misconfigured):
        submitter.run(event, world.context(), world.runtime)
    assert world.marketplace.requests() == ()


# --- one bad record among twenty-five ----------------------------------------------------------------


def test_with_one_undefined_dimension_among_25_the_other_24_are_billed_in_the_same_run() -> None:
    world = world_with(24)
    ready_records(world, [group(dimension="d11-undefined")])
    report = world.submit()
    assert len(world.marketplace.requests()[0].outcomes) == 25
    assert (report["billed"], report["refused"]) == (24, 1)
    refused = world.record(group(dimension="d11-undefined"))
    assert refused.status is MeteringStatus.REJECTED_CLIENT_SIDE
    assert refused.surfaced_by_reason() == {"InvalidUsageDimensionException": 1}
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED, "InvalidUsageDimensionException") == 1
    # 25 are cut in two at most five times; each cut costs two requests.
    assert len(world.marketplace.requests()) <= 1 + 2 * 5
    world.assert_balanced()


def test_three_poison_records_of_different_kinds_are_each_refused_by_their_own_name() -> None:
    world = world_with(22)
    stranger = license_arn(77)
    ready_records(world, [group(dimension="nope"), group(stranger, dimension="d03")])
    world.put_subscriber(stranger)
    assert world.submit()["billed"] == 22
    assert {r.status_reason for r in world.records() if r.status is MeteringStatus.REJECTED_CLIENT_SIDE} == {
        "InvalidUsageDimensionException",
        "InvalidLicenseException",
    }
    world.assert_balanced()


# --- per-record statuses -----------------------------------------------------------------------------


def test_duplicate_record_is_never_billed_by_itself() -> None:
    world = one_record()
    wire = {"Timestamp": int(LAST_HOUR.timestamp()), "Dimension": CALLS, "Quantity": 99}
    wire |= {"CustomerAWSAccountId": BUYER, "LicenseArn": LICENSE}
    world.marketplace.batch_meter_usage({"UsageRecords": [wire]}, region="us-east-1")
    world.submit()
    record = world.record(group())
    assert record.status is MeteringStatus.DUPLICATE_RECORD
    assert record.surfaced_by_reason() == {"PossibleUnderBilling": 4}
    assert amounts(record) == (4, 0, 0, 4)
    assert world.telemetry.total(Metric.POSSIBLE_UNDER_BILLING) == 1
    world.submit()
    assert len(world.marketplace.requests()) == 2, "terminal"


def test_customer_not_subscribed_is_terminal_and_surfaced() -> None:
    world = one_record()
    world.marketplace.suspend_account(BUYER)
    world.submit()
    record = world.record(group())
    assert record.status is MeteringStatus.CUSTOMER_NOT_SUBSCRIBED
    assert amounts(record) == (4, 0, 0, 4)
    assert world.telemetry.total(Metric.CUSTOMER_NOT_SUBSCRIBED) == 1
    world.assert_balanced()


@pytest.mark.parametrize("effect", [RecordEffect.OMITTED, RecordEffect.UNKNOWN_STATUS])
def test_a_record_without_a_known_status_is_frozen_and_sent_again_with_the_same_bytes(
    effect: RecordEffect,
) -> None:
    world = world_with(3)
    world.marketplace.arm(Fault(effect=effect, positions=(1,)))
    assert (world.submit()["billed"], world.submit()["billed"]) == (2, 1)
    first, again = world.marketplace.requests()
    assert [o.record for o in again.outcomes] == [first.outcomes[1].record]
    world.assert_balanced()


def test_unprocessed_records_are_retried_once_then_left_and_counted() -> None:
    world = world_with(3)
    for _ in range(2):
        world.marketplace.arm(Fault(effect=RecordEffect.UNPROCESSED, positions=(0,)))
    report = world.submit()
    assert (report["billed"], report["requests"]) == (2, 2)
    assert list(map(len, sent_dimensions(world))) == [3, 1]
    assert world.telemetry.total(Metric.USAGE_RECORD_UNPROCESSED) == 1
    assert [record.pending for record in world.records()].count(True) == 1
    assert world.submit()["billed"] == 1
    world.assert_balanced()


# --- exceptions of the whole request -----------------------------------------------------------------

POISON = [
    Code.INVALID_USAGE_DIMENSION,
    Code.INVALID_TAG,
    Code.INVALID_USAGE_ALLOCATIONS,
    Code.INVALID_CUSTOMER_IDENTIFIER,
    Code.TIMESTAMP_OUT_OF_BOUNDS,
    Code.INVALID_LICENSE,
    Code.VALIDATION,
    Code.SERIALIZATION,
]


@pytest.mark.parametrize("code", POISON)
def test_a_refusal_that_one_record_causes_isolates_it_and_names_it(code: Code) -> None:
    world = one_record()
    world.marketplace.arm(Fault(code))
    report = world.submit()
    assert report["refused"] == 1
    record = world.record(group())
    assert (record.status, record.status_reason) == (MeteringStatus.REJECTED_CLIENT_SIDE, code)
    assert amounts(record) == (4, 0, 0, 4)
    assert world.telemetry.total(Metric.BATCH_METER_USAGE_EXCEPTION, code) == 1
    assert world.telemetry.total(Metric.SURFACED_UNITS, code) == 4
    world.assert_balanced()


@pytest.mark.parametrize(
    "code",
    [Code.ACCESS_DENIED, Code.DISABLED_API, Code.INVALID_SIGNATURE, Code.MISSING_AUTHENTICATION,
     Code.UNKNOWN_OPERATION],
)  # fmt: skip
def test_a_refusal_of_every_request_stops_the_run_loudly_and_reopens_the_records(code: Code) -> None:
    world = world_with(150)
    world.marketplace.arm(Fault(code, times=None))
    with pytest.raises(SubmissionStopped, match=code):
        world.submit()
    assert len(world.marketplace.requests()) == 1
    assert all(record.pending and record.attempt is None for record in world.records())
    world.marketplace.faults.clear()
    assert world.submit()["billed"] == 150
    world.assert_balanced()


def test_missing_credentials_stop_the_run() -> None:
    world = one_record()

    def no_credentials(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            raise NoCredentialsError

    world.hooks.before_each.append(no_credentials)
    with pytest.raises(SubmissionStopped, match="NoCredentialsError"):
        world.submit()
    assert world.record(group()).attempt is None


def test_throttling_backs_off_with_jitter_and_goes_on() -> None:
    world = one_record()
    world.marketplace.arm(Fault(Code.THROTTLING, times=3))
    assert world.submit()["billed"] == 1
    instants = [entry.at for entry in world.marketplace.requests()]
    pauses = [(b - a).total_seconds() for a, b in itertools.pairwise(instants)]
    # Half of each pause is fixed, the other half is drawn; the draw here is always the middle.
    assert pauses == [0.375, 0.75, 1.5]
    assert world.telemetry.total(Metric.REQUESTS_THROTTLED) == 3
    assert world.telemetry.total(Metric.BATCH_METER_USAGE_EXCEPTION) == 0
    world.assert_balanced()


@pytest.mark.parametrize(("drawn", "pause"), [(0.0, 0.25), (0.999, 0.49975)])
def test_the_pause_after_throttling_is_drawn(drawn: float, pause: float) -> None:
    world = one_record()
    world.change(jitter=lambda: drawn)
    world.marketplace.arm(Fault(Code.THROTTLING))
    world.submit()
    first, second = (entry.at for entry in world.marketplace.requests())
    assert (second - first).total_seconds() == pytest.approx(pause)


def test_throttling_that_does_not_end_leaves_the_records_pending_and_untouched() -> None:
    world = world_with(60)
    world.marketplace.arm(Fault(Code.THROTTLING, times=None))
    report = world.submit()
    assert report["billed"] == 0
    assert report["throttled"] < 12
    assert all(record.pending and record.attempt is None for record in world.records())
    world.marketplace.faults.clear()
    assert world.submit()["billed"] == 60
    world.assert_balanced()


@pytest.mark.parametrize("moment", list(Moment))
def test_an_internal_error_leaves_the_outcome_unknown_and_the_record_billed_once(moment: Moment) -> None:
    world = one_record()
    world.marketplace.arm(Fault(Code.INTERNAL_SERVICE_ERROR, moment))
    assert world.submit()["unknown"] == 1
    attempt = world.record(group()).attempt
    assert attempt is not None
    assert attempt.unknown
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group())) == (4, 4, 0, 0)
    world.assert_balanced()


@pytest.mark.parametrize("lost", list(Lost))
@pytest.mark.parametrize("moment", list(Moment))
def test_a_lost_answer_freezes_the_record_which_is_sent_again_identically_and_billed_once(
    lost: Lost, moment: Moment
) -> None:
    world = one_record()
    world.marketplace.arm(Fault(lost, moment))
    world.submit()
    world.write(5, second=7)
    world.fold()
    frozen = world.record(group())
    assert amounts(frozen) == (9, 0, 4, 5)
    assert world.submit()["billed"] == 1
    first, again = world.marketplace.requests()
    assert first.outcomes[0].record == again.outcomes[0].record
    assert amounts(world.record(group())) == (9, 4, 0, 5)
    assert world.record(group()).surfaced_by_reason() == {"LateAfterSubmission": 5}
    world.assert_balanced()


def test_a_refusal_after_an_unknown_outcome_does_not_reopen_the_record() -> None:
    world = one_record()
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    world.marketplace.arm(Fault(Code.INVALID_USAGE_DIMENSION))
    world.submit()
    world.submit()
    record = world.record(group())
    assert record.pending
    assert record.attempt is not None
    assert record.attempt.unknown
    assert world.submit()["billed"] == 1
    world.assert_balanced()


def test_answers_that_keep_missing_stop_the_run_before_the_whole_backlog_is_frozen() -> None:
    world = world_with(250)
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.BEFORE, times=None))
    with pytest.raises(SubmissionStopped):
        world.submit()
    frozen = [record for record in world.records() if record.attempt is not None]
    assert 0 < len(frozen) <= 7 * 25
    world.marketplace.faults.clear()
    assert world.submit()["billed"] == 250
    world.assert_balanced()


@pytest.mark.parametrize(
    ("error", "frozen"),
    [
        pytest.param(EndpointConnectionError(endpoint_url="https://x"), False, id="no connection: not sent"),
        pytest.param(ConnectTimeoutError(endpoint_url="https://x"), False, id="connect time-out: not sent"),
        pytest.param(ProxyConnectionError(proxy_url="https://x"), True, id="anything else: unknown"),
    ],
)
def test_what_surely_was_not_sent_is_reopened(error: Exception, frozen: bool) -> None:
    world = one_record()
    fired: list[Call] = []

    def strike(call: Call) -> None:
        if call.operation == "BatchMeterUsage" and not fired:
            fired.append(call)
            raise error

    world.hooks.before_each.append(strike)
    world.submit()
    assert (world.record(group()).attempt is not None) is frozen
    assert world.submit()["billed"] == 1
    world.assert_balanced()


def test_identical_resends_may_be_answered_as_duplicates() -> None:
    world = one_record()
    world.marketplace.configure(identical_resend="DuplicateRecord")
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    world.submit()
    world.submit()
    record = world.record(group())
    assert record.status is MeteringStatus.DUPLICATE_RECORD
    assert record.surfaced_by_reason() == {"PossibleUnderBilling": 4}


# --- legacy products ---------------------------------------------------------------------------------


def legacy_world() -> MeteringWorld:
    world = MeteringWorld(legacy_product_code="legacyproduct")
    world.marketplace.create_product("legacyproduct", ["api-calls"])
    world.marketplace.create_legacy_customer("legacyproduct", "c-identifier", BUYER)
    world.write(3, arn="legacy-0001", customerIdentifier="c-identifier")
    world.write(4)
    world.fold()
    return world


def test_legacy_records_go_in_their_own_requests_with_product_code_and_no_licence() -> None:
    world = legacy_world()
    assert world.submit()["billed"] == 2
    requests = {entry.product_code: entry.outcomes for entry in world.marketplace.requests()}
    assert set(requests) == {None, "legacyproduct"}
    assert [o.record.get("LicenseArn") for o in requests[None]] == [LICENSE]
    (legacy,) = requests["legacyproduct"]
    assert "LicenseArn" not in legacy.record
    assert legacy.record["CustomerIdentifier"] == "c-identifier"
    assert {amounts(record) for record in world.records()} == {(3, 3, 0, 0), (4, 4, 0, 0)}


def test_an_invalid_product_code_stops_legacy_requests_only() -> None:
    world = legacy_world()
    world.change(legacy_product_code="unknownproduct")
    with pytest.raises(SubmissionStopped, match="InvalidProductCodeException"):
        world.submit()
    assert amounts(world.record(group())) == (4, 4, 0, 0)
    legacy = world.record(group("legacy-0001"))
    assert legacy.pending
    assert legacy.attempt is None


# --- activation --------------------------------------------------------------------------------------


def test_a_licence_exception_in_the_activation_hour_is_retried_with_the_activation_time() -> None:
    world = MeteringWorld()
    arn, activated = license_arn(5), LAST_HOUR + timedelta(minutes=17)
    world.subscribe(arn, since=activated)
    ready_records(world, [group(arn)], quantity=4)
    assert world.submit()["billed"] == 1
    assert world.marketplace.honoured()[0].timestamp == activated
    assert len(world.marketplace.requests()) == 2
    assert world.record(group(arn)).sent_timestamp == activated
    world.assert_balanced()


def test_the_activation_retry_happens_once() -> None:
    world = MeteringWorld()
    arn = license_arn(5)
    world.subscribe(arn, since=LAST_HOUR + timedelta(minutes=17))
    world.marketplace.arm(Fault(Code.INVALID_LICENSE, times=None))
    ready_records(world, [group(arn)], quantity=4)
    world.submit()
    assert len(world.marketplace.requests()) == 2
    assert world.record(group(arn)).status is MeteringStatus.REJECTED_CLIENT_SIDE
    world.assert_balanced()


def test_a_licence_exception_in_any_other_hour_is_final() -> None:
    world = MeteringWorld()
    arn = license_arn(5)
    world.subscribe(arn, since=LAST_HOUR + HOUR + timedelta(minutes=5))
    ready_records(world, [group(arn)], quantity=4)
    world.submit()
    assert len(world.marketplace.requests()) == 1
    assert world.record(group(arn)).status_reason == "InvalidLicenseException"


def test_an_activation_time_that_cannot_be_read_leaves_the_record_pending_and_fails_the_run() -> None:
    world = MeteringWorld()
    arn = license_arn(5)
    world.subscribe(arn, since=LAST_HOUR + timedelta(minutes=17))
    ready_records(world, [group(arn), group()], quantity=4)
    world.hooks.before_each.append(
        fail_calls(
            "dynamodb",
            "GetItem",
            "AccessDeniedException",
            matches=lambda request: request["TableName"] == SUBSCRIBERS,
        )
    )
    with pytest.raises(PartialFailure):
        world.submit()
    assert world.record(group()).status is MeteringStatus.SUCCESS
    assert world.record(group(arn)).pending
    assert world.submit()["billed"] == 1
    world.assert_balanced()


# --- order, cap, closing licences --------------------------------------------------------------------


def test_the_oldest_hours_are_sent_first_and_the_cap_counts_after_ordering() -> None:
    world = MeteringWorld(max_records=40)
    hours = [floor_hour(NOW) - back * HOUR for back in range(1, 24)]
    ready_records(world, [group(hour=hour) for hour in hours])
    ready_records(world, [group(dimension="seats", hour=hour) for hour in hours])
    assert world.submit()["billed"] == 40
    assert sent_hours(world) == sorted(sent_hours(world))
    left = sorted(record.group.hour for record in world.records() if record.pending)
    assert left == sorted(hours[:3] * 2)
    assert world.submit()["billed"] == 6
    world.assert_balanced()


def test_records_that_wait_do_not_use_up_the_cap() -> None:
    world = MeteringWorld(max_records=1)
    ready_records(world, [group(hour=LAST_HOUR - HOUR)], quantity=0)
    ready_records(world, [group()], quantity=4)
    assert world.submit()["billed"] == 1
    assert world.record(group()).status is MeteringStatus.SUCCESS


def test_closing_licences_go_first_and_outside_the_cap() -> None:
    world = MeteringWorld(max_records=2)
    closing = license_arn(9)
    world.subscribe(closing)
    hours = [LAST_HOUR - back * HOUR for back in range(5)]
    ready_records(world, [group(hour=hour) for hour in hours])
    ready_records(world, [group(closing, hour=hour) for hour in hours])
    world.deprovision(closing)
    assert world.submit()["billed"] == 7
    first = world.marketplace.requests()[0]
    assert {outcome.record["LicenseArn"] for outcome in first.outcomes} == {closing}
    assert {r.group.license_arn for r in world.records() if r.pending} == {LICENSE}


def test_the_minute_run_sends_closing_licences_only_with_their_unfinished_hour() -> None:
    world = MeteringWorld(now=datetime(2026, 11, 10, 12, 57, tzinfo=UTC))
    closing, current = license_arn(9), floor_hour(world.clock.now())
    world.subscribe(closing)
    ready_records(world, [group(), group(closing)])
    world.write(8, arn=closing, hour=current)
    world.deprovision(closing, at=datetime(2026, 11, 10, 12, 0, tzinfo=UTC))
    world.flush()
    world.aggregate("deprovision-work")
    world.clean()
    assert world.submit_closing()["billed"] == 2
    assert world.record(group()).pending
    assert amounts(world.record(group(closing, hour=current))) == (8, 8, 0, 0)


def test_the_minute_run_touches_neither_lease_nor_ledger_while_nothing_is_closing() -> None:
    world = one_record()
    world.meter.reset()
    assert world.submit_closing()["requests"] == 0
    assert world.meter.requests.total() == 0


def test_usage_under_another_spelling_of_a_closing_licence_is_sent() -> None:
    world = MeteringWorld()
    other = "arn:aws:license-manager:us-east-1:111122223333:license/L-0A1B2C3D"
    world.subscribe(other)
    ready_records(world, [group(), group(other)])
    world.deprovision(spellings=(LICENSE, other))
    assert world.submit_closing()["billed"] == 2


def test_a_licence_that_starts_closing_during_an_ordinary_run_is_not_kept_waiting() -> None:
    world = MeteringWorld(api_latency=0.15, requests_per_second=1.0)
    closing = license_arn(99)
    world.subscribe(closing)
    for number in range(60):
        world.subscribe(license_arn(number))
    hours = [LAST_HOUR - back * HOUR for back in range(20)]
    ready_records(world, [group(license_arn(n), hour=hour) for n in range(60) for hour in hours])
    late = group(closing)
    ready_records(world, [late])
    started = world.clock.now()
    begun: list[bool] = []

    def deprovision_after_five_seconds(_call: Call) -> None:
        if not begun and world.clock.now() >= started + timedelta(seconds=5):
            begun.append(True)
            world.deprovision(closing)

    world.hooks.after_each.append(deprovision_after_five_seconds)
    world.submit()
    sent = [
        entry.at
        for entry in world.marketplace.requests()
        if any(outcome.record["LicenseArn"] == closing for outcome in entry.outcomes)
    ]
    assert sent
    assert sent[0] < started + timedelta(seconds=45), "it is the newest hour's last licence"


def test_a_failing_lookup_of_closing_licences_falls_back_to_the_ordinary_pass_and_fails_loudly() -> None:
    world = one_record()
    world.hooks.before_each.append(
        fail_calls(
            "dynamodb",
            "Query",
            "AccessDeniedException",
            times=None,
            matches=lambda request: request["TableName"] == SUBSCRIBERS,
        )
    )
    with pytest.raises(PartialFailure):
        world.submit()
    assert world.record(group()).status is MeteringStatus.SUCCESS


def test_the_minute_run_fails_loudly_too_when_it_cannot_look_up_closing_licences() -> None:
    world = one_record()
    world.hooks.before_each.append(
        fail_calls(
            "dynamodb",
            "Query",
            "AccessDeniedException",
            times=None,
            matches=lambda request: request["TableName"] == SUBSCRIBERS,
        )
    )
    with pytest.raises(PartialFailure):
        world.submit_closing()


# --- zero totals and blocked groups ------------------------------------------------------------------


def test_a_zero_is_deferred_until_the_last_processed_hour_and_then_sent() -> None:
    world = one_record(quantity=0)
    assert world.submit()["requests"] == 0
    world.clock.advance_to(LAST_HOUR + 23 * HOUR - timedelta(seconds=1))
    assert world.submit()["requests"] == 0
    world.clock.advance_to(LAST_HOUR + 23 * HOUR)
    assert world.submit()["billed"] == 1
    assert world.marketplace.honoured()[0].quantity == 0
    world.assert_balanced()


def test_a_zero_of_a_closing_licence_is_sent_at_once() -> None:
    world = one_record(quantity=0)
    world.deprovision()
    assert world.submit_closing()["billed"] == 1


def test_a_zero_of_the_old_month_is_sent_in_the_last_hour_before_the_wall() -> None:
    world = MeteringWorld(now=datetime(2026, 12, 1, 0, 20, tzinfo=UTC))
    hour = datetime(2026, 11, 30, 23, tzinfo=UTC)
    ready_records(world, [group(hour=hour)], quantity=0)
    world.clock.advance_to(datetime(2026, 12, 1, 4, 59, 59, tzinfo=UTC))
    assert world.submit()["requests"] == 0
    world.clock.advance_to(datetime(2026, 12, 1, 5, 0, tzinfo=UTC))
    assert world.submit()["billed"] == 1


def test_a_blocked_group_is_billed_for_its_valid_part_at_the_last_processed_hour() -> None:
    world = MeteringWorld()
    world.write(10)
    world.write(-3, second=1)
    world.fold()
    assert world.submit()["requests"] == 0
    world.clock.advance_to(LAST_HOUR + 23 * HOUR)
    assert world.submit()["billed"] == 1
    record = world.record(group())
    assert amounts(record) == (7, 10, 0, -3)
    assert record.surfaced_by_reason() == {"NegativeQuantity": -3}
    world.assert_balanced()


def test_a_group_of_bad_rows_only_is_closed_at_the_last_processed_hour() -> None:
    world = MeteringWorld()
    world.write(-3)
    world.fold()
    world.clock.advance_to(LAST_HOUR + 23 * HOUR)
    assert world.submit()["requests"] == 0
    assert world.record(group()).status is MeteringStatus.REJECTED_CLIENT_SIDE
    world.assert_balanced()


@pytest.mark.parametrize(
    ("now", "sent"),
    [("2026-12-01T05:59:29", 1), ("2026-12-01T06:00:00", 0)],
)
def test_nothing_of_the_old_month_is_sent_from_six_on(now: str, sent: int) -> None:
    world = MeteringWorld(now=datetime(2026, 12, 1, 0, 20, tzinfo=UTC))
    ready_records(world, [group(hour=datetime(2026, 11, 30, 23, tzinfo=UTC))])
    world.clock.advance_to(datetime.fromisoformat(now).replace(tzinfo=UTC))
    world.submit()
    assert len(world.marketplace.requests()) == sent


def test_a_batch_whose_deadline_passes_while_it_waits_for_its_turn_is_not_sent() -> None:
    hour, wall = datetime(2026, 11, 30, 23, tzinfo=UTC), datetime(2026, 12, 1, 6, tzinfo=UTC)
    dimensions = [f"d{number:02d}" for number in range(50)]
    world = MeteringWorld(
        now=wall - timedelta(hours=1), dimensions=dimensions, requests_per_second=1.0, api_latency=0.1
    )
    ready_records(world, [group(dimension=dimension, hour=hour) for dimension in dimensions])
    world.clock.advance_to(wall - timedelta(seconds=0.5))
    world.submit()
    assert [entry.at for entry in world.marketplace.requests() if entry.at >= wall] == []
    world.expire()
    assert {record.status for record in world.records()} == {
        MeteringStatus.SUCCESS,
        MeteringStatus.SUBMISSION_EXPIRED,
    }
    world.assert_balanced()


# --- records that must not join a request ------------------------------------------------------------


def test_a_licence_that_is_no_arn_never_joins_a_request() -> None:
    world = MeteringWorld()
    ready_records(world, [group("not-an-arn"), group()], quantity=4)
    world.clock.advance_to(LAST_HOUR + 23 * HOUR)
    world.submit()
    assert sent_dimensions(world) == [[CALLS]]
    assert world.record(group("not-an-arn")).surfaced_by_reason() == {"InvalidLicenseArn": 4}


HAND_EDITS: list[tuple[str, dict[str, object]]] = [
    ("quantity as text", {"quantity": "four"}),
    ("no quantity", {"quantity": None}),
    ("negative quantity", {"quantity": -4}),
    ("a fraction", {"quantity": Decimal("0.5")}),
    ("no account", {"customerAWSAccountId": None}),
    ("an account with letters", {"customerAWSAccountId": "12345678901x"}),
    ("no dimension", {"dimension": None}),
    ("another dimension", {"dimension": "seats"}),
    ("a malformed hour", {"hour": "soon"}),
    ("an unknown status", {"meteringStatus": "Fine"}),
    ("an attempt without a time", {"attemptId": "x"}),
    ("allocations that do not add up", {"usageAllocations": [allocation(1, ("a", "b"))]}),
    ("allocations that are no list of maps", {"usageAllocations": ["x"]}),
    ("an allocation of no number", {"usageAllocations": [{"AllocatedUsageQuantity": "x"}]}),
    ("tags that are text", {"usageAllocations": [{"AllocatedUsageQuantity": 4, "Tags": "ab"}]}),
    (
        "a billed record marked pending again",
        {
            "billedQuantity": 4,
            "meteringStatus": "Success",
            "attemptId": "x",
            "attemptStartedAt": "2026-11-10T12:00:00Z",
            "attemptState": "answered",
        },
    ),
]


@pytest.mark.parametrize("changes", [case[1] for case in HAND_EDITS], ids=[case[0] for case in HAND_EDITS])
def test_a_record_edited_by_hand_costs_only_itself(changes: dict[str, object]) -> None:
    world = MeteringWorld()
    others = [group(license_arn(n)) for n in range(3)]
    for other in others:
        world.subscribe(other.license_arn)
    ready_records(world, [*others, group()], quantity=4)
    world.edit_ledger(group(), **changes)
    with contextlib.suppress(MeteringError):
        world.submit()
    assert {world.record(other).status for other in others} == {MeteringStatus.SUCCESS}
    assert all(world.billed(other) == 4 for other in others)
    assert world.marketplace.billed_twice() == {}


# --- stores that fail in the middle ------------------------------------------------------------------


def test_an_answer_that_cannot_be_written_back_is_sent_again_and_billed_once() -> None:
    world = one_record()
    failing = []

    def fail_after_the_answer(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            failing.append(True)

    world.hooks.after_each.append(fail_after_the_answer)
    strike = fail_calls("dynamodb", "BatchExecuteStatement", "InternalServerError", times=None)
    also = fail_calls("dynamodb", "UpdateItem", "InternalServerError", times=None)

    def once_answered(call: Call) -> None:
        if failing and "leaseOwner" not in json.dumps(call.request.get("ExpressionAttributeNames", {})):
            strike(call)
            also(call)

    world.hooks.before_each.append(once_answered)
    with pytest.raises(PartialFailure):
        world.submit()
    world.hooks.clear()
    assert world.record(group()).pending
    assert world.submit()["requests"] == 0, "a sender may still be alive"
    world.clock.advance(SENDER_TIMEOUT)
    assert world.submit()["billed"] == 1
    world.assert_balanced()


def test_an_answer_meets_a_record_that_was_refolded_meanwhile() -> None:
    world = one_record(api_latency=1.0)

    def late_row(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            world.write(3, second=30)
            world.fold()

    world.hooks.after_each.append(late_row)
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group())) == (7, 4, 0, 3)
    world.assert_balanced()


def test_an_intent_that_lost_its_race_is_not_sent() -> None:
    world = one_record()
    raced: list[Call] = []

    def refold(call: Call) -> None:
        if call.operation == "BatchExecuteStatement" and not raced:
            raced.append(call)
            world.write(3, second=30)
            world.fold()

    world.hooks.before_each.append(refold)
    assert world.submit()["requests"] == 0
    assert raced
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group())) == (7, 7, 0, 0)
    world.assert_balanced()


def fail_ledger_writes_of(world: MeteringWorld, arn: str, operation: str = "UpdateItem") -> None:
    world.hooks.before_each.append(
        fail_calls(
            "dynamodb",
            operation,
            "InternalServerError",
            times=None,
            matches=lambda request: request.get("Key", {}).get("licenseArn", {}).get("S") == arn,
        )
    )


def test_a_blocked_record_that_cannot_be_closed_costs_no_other_record_its_turn() -> None:
    world = MeteringWorld()
    world.write(-3, arn=license_arn(1))
    world.subscribe(license_arn(2))
    world.write(4, arn=license_arn(2))
    world.fold()
    world.clock.advance_to(LAST_HOUR + 23 * HOUR)
    fail_ledger_writes_of(world, license_arn(1))
    with pytest.raises(PartialFailure):
        world.submit()
    assert world.record(group(license_arn(2))).status is MeteringStatus.SUCCESS


def test_records_whose_intent_cannot_be_written_are_left_to_the_next_run() -> None:
    world = world_with(30)
    client: Any = world.runtime.clients.dynamodb
    client.entry_fault = lambda operation, position: (
        "ThrottlingError" if operation == "BatchExecuteStatement" and position == 0 else None
    )
    world.submit()
    client.entry_fault = None
    world.clock.advance(SENDER_TIMEOUT)
    world.submit()
    world.assert_balanced()


def test_intents_that_are_refused_fail_the_run_with_the_stores_error() -> None:
    world = one_record()
    world.hooks.before_each.append(fail_calls("dynamodb", "BatchExecuteStatement", "AccessDeniedException"))
    with pytest.raises(Misconfigured):
        world.submit()
    assert world.submit()["billed"] == 1


def test_a_ledger_that_is_down_fails_the_run() -> None:
    world = one_record()
    world.hooks.before_each.append(fail_calls("dynamodb", "BatchGetItem", "InternalServerError", times=None))
    with pytest.raises(StoreUnavailable):
        world.submit()
    world.hooks.clear()
    world.clock.advance(timedelta(seconds=60))
    assert world.submit()["billed"] == 1


# --- the lease and the function's own deadline -------------------------------------------------------


def lease(world: MeteringWorld, owner: str, until: datetime) -> None:
    world.put_ledger(
        {
            "licenseArn": "internal#submitter",
            LEDGER_SORT_KEY: "lease",
            "leaseOwner": owner,
            "leasedUntil": format_instant(until),
        }
    )


def test_the_minute_run_leaves_a_living_sender_alone() -> None:
    world = one_record()
    world.deprovision()
    lease(world, "somebody", NOW + timedelta(seconds=50))
    assert world.submit_closing()["skipped"]
    assert world.marketplace.requests() == ()


def test_the_ordinary_run_waits_for_the_other_sender_and_takes_over_a_dead_ones_lease() -> None:
    world = one_record()
    lease(world, "somebody", NOW + timedelta(seconds=50))
    assert world.submit()["billed"] == 1
    assert world.clock.now() - NOW == timedelta(seconds=50)


def test_a_lease_that_never_ends_makes_the_run_give_up_in_time() -> None:
    world = one_record()
    lease(world, "somebody", NOW + timedelta(days=1))
    assert world.submit()["skipped"]
    assert world.clock.now() <= NOW + timedelta(seconds=280)
    assert world.marketplace.requests() == ()


def test_the_lease_is_given_back() -> None:
    world = one_record()
    world.submit()
    item = next(i for i in world.ledger_items() if i["licenseArn"] == "internal#submitter")
    assert "leaseOwner" not in item


def test_a_long_run_renews_its_lease() -> None:
    world = MeteringWorld(requests_per_second=0.1)
    hours = [LAST_HOUR - back * HOUR for back in range(20)]
    arns = [license_arn(n) for n in range(10)]
    for arn in arns:
        world.subscribe(arn)
    ready_records(world, [group(arn, hour=hour) for arn in arns for hour in hours])
    others_got_in = []

    def try_lease(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            ledger = world.runtime.ledger()
            now = world.clock.now()
            hooks, world.hooks.after_each = world.hooks.after_each, []
            others_got_in.append(ledger.acquire_lease("other", now=now, until=now + timedelta(seconds=1)))
            world.hooks.after_each = hooks

    world.hooks.after_each.append(try_lease)
    assert world.submit()["requests"] == 8
    assert world.clock.now() - NOW >= timedelta(seconds=70)
    assert others_got_in == [False] * 8


def test_no_request_is_started_shortly_before_the_function_is_ended() -> None:
    world = world_with(100, requests_per_second=0.1)
    report = world.submit(seconds=45)
    assert report["requests"] == 2
    assert world.clock.now() <= NOW + timedelta(seconds=45)
    assert all(record.attempt is None for record in world.records() if record.pending)
    assert world.submit()["requests"] == 2
    world.assert_balanced()


def test_two_senders_at_once_bill_everything_once() -> None:
    world = world_with(60, api_latency=0.2)
    entered: list[Call] = []

    def second_sender(call: Call) -> None:
        if call.operation == "BatchMeterUsage" and len(entered) < 2:
            entered.append(call)
            world.another_sender()

    world.hooks.after_each.append(second_sender)
    world.submit()
    assert entered
    world.assert_balanced()
    assert len(world.marketplace.honoured()) == 60


def test_an_open_attempt_is_left_alone_while_its_sender_may_live() -> None:
    world = one_record()
    record = world.record(group())
    begun = replace(record, attempt=Attempt("a", NOW), version=record.version + 1)
    assert world.runtime.ledger().swap(record, begun)
    world.clock.advance(SENDER_TIMEOUT - timedelta(seconds=1))
    assert world.submit()["requests"] == 0
    world.clock.advance(timedelta(seconds=1))
    assert world.submit()["billed"] == 1
    world.assert_balanced()


# --- dry run, TTL ------------------------------------------------------------------------------------


def test_a_dry_run_does_everything_but_the_call() -> None:
    world = MeteringWorld(dry_run=True, test_accounts=frozenset({BUYER}))
    ready_records(world, [group(), group(account="210987654321")], quantity=4)
    report = world.submit()
    assert report["billed"] == 2
    assert world.marketplace.requests() == ()
    counted, other = world.record(group()), world.record(group(account="210987654321"))
    assert counted.status is other.status is MeteringStatus.DRY_RUN_SUBMITTED
    assert amounts(counted) == (4, 4, 0, 0)
    assert amounts(other) == (4, 0, 0, 4)
    assert other.surfaced_by_reason() == {"NotOnTestAllowlist": 4}
    assert world.telemetry.total(Metric.DRY_RUN_NOT_BILLED) == 1


def test_ttl_counts_from_success_and_is_set_on_nothing_else() -> None:
    world = MeteringWorld(ledger_ttl_days=30)
    ready_records(world, [group(), group(dimension="nope"), group(dimension="seats")], quantity=4)
    world.write(-1, dimension="storage-gb")
    world.fold()
    assert all(record.ttl is None for record in world.records())
    world.submit()
    ttls = {record.group.dimension: record.ttl for record in world.records()}
    expires = int((world.clock.now() + timedelta(days=30)).timestamp())
    assert ttls == {CALLS: expires, "seats": expires, "nope": None, "storage-gb": None}


def test_no_ttl_at_all_where_it_is_off() -> None:
    world = one_record()
    world.submit()
    assert world.record(group()).ttl is None


@pytest.mark.parametrize("status", ["duplicate", "not subscribed", "expired"])
def test_terminal_records_that_were_not_billed_have_no_ttl(status: str) -> None:
    world = one_record(ledger_ttl_days=30)
    if status == "not subscribed":
        world.marketplace.suspend_account(BUYER)
    elif status == "duplicate":
        world.marketplace.configure(identical_resend="DuplicateRecord")
        world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
        world.submit()
    else:
        world.clock.advance(timedelta(hours=24))
        world.expire()
    world.submit()
    record = world.record(group())
    assert not record.pending
    assert record.ttl is None


def test_refold_after_a_throttled_send_with_new_allocations_reaches_the_aggregator() -> None:
    world = MeteringWorld()
    world.write(4, usageAllocations=[allocation(4, ("team", "a"))])
    world.fold()

    def rewritten_meanwhile(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            world.hooks.after_each.clear()
            world.write(4, usageAllocations=[allocation(4, ("team", "b"))])
            world.fold()

    world.marketplace.arm(Fault(Code.ACCESS_DENIED))
    before = world.hooks.before_each
    before.append(rewritten_meanwhile)
    with pytest.raises(SubmissionStopped):
        world.submit()
    before.clear()
    assert world.record(group()).refold_required
    assert world.submit()["requests"] == 0
    world.aggregate()
    world.clean()
    assert world.submit()["billed"] == 1
    sent = world.marketplace.honoured()[0].record["UsageAllocations"]
    assert sent[0]["Tags"] == [{"Key": "team", "Value": "b"}]
    world.assert_balanced()


def test_a_shorter_window_of_the_deployment_is_respected() -> None:
    world = MeteringWorld(window=BillingWindow(billable_hours=6))
    ready_records(world, [group(hour=floor_hour(NOW) - 5 * HOUR)])
    world.clock.advance(timedelta(minutes=40))
    assert world.submit()["requests"] == 0


def test_the_product_code_is_never_sent_with_a_licence() -> None:
    world = legacy_world()
    world.submit()
    for entry in world.marketplace.requests():
        licensed = [outcome.record for outcome in entry.outcomes if "LicenseArn" in outcome.record]
        assert entry.product_code is None or not licensed
    assert PRODUCT not in {entry.product_code for entry in world.marketplace.requests()}


# --- races and failures in the middle of a run -------------------------------------------------------


def test_a_store_that_refuses_write_backs_ends_the_run_with_its_error() -> None:
    world = world_with(100)
    answered_together = itertools.chain([0.5, 0.4, 0.3, 0.2], itertools.repeat(0.1))
    world.change(workers=VirtualWorkers(world.clock, lambda: next(answered_together)))
    sent: list[Call] = []

    def refuse_after_the_fourth_request(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            sent.append(call)
        if len(sent) >= 4:
            fail_calls("dynamodb", "BatchExecuteStatement", "AccessDeniedException")(call)

    world.hooks.before_each.append(refuse_after_the_fourth_request)
    with pytest.raises(Misconfigured):
        world.submit()


def test_a_record_that_vanished_before_its_answer_came_fails_the_run_and_costs_no_other() -> None:
    world = world_with(3)

    def delete_one(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            sort_key = group(dimension="d01").ledger_sort_key
            key = {"licenseArn": {"S": LICENSE}, LEDGER_SORT_KEY: {"S": sort_key}}
            world.seller.delete_item(TableName=LEDGER, Key=key)

    world.hooks.after_each.append(delete_one)
    with pytest.raises(PartialFailure):
        world.submit()
    assert [record.status for record in world.records()] == [MeteringStatus.SUCCESS] * 2


def test_an_answer_that_loses_every_race_is_left_to_the_next_run_and_billed_once() -> None:
    world = one_record()
    late: list[int] = []

    def rewritten_again_and_again(call: Call) -> None:
        if call.operation == "BatchMeterUsage" or (late and "billedQuantity" in str(call.request)):
            late.append(1)
            world.write(1, second=len(late))
            hooks, world.hooks.before_each = world.hooks.before_each, []
            world.fold()
            world.hooks.before_each = hooks

    world.hooks.before_each.append(rewritten_again_and_again)
    with pytest.raises(PartialFailure):
        world.submit()
    assert len(late) >= 5
    world.hooks.clear()
    world.clock.advance(SENDER_TIMEOUT)
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group())) == (4 + len(late), 4, 0, len(late))
    world.assert_balanced()


def test_a_record_that_changed_before_its_activation_retry_is_reopened_instead() -> None:
    world = MeteringWorld()
    arn = license_arn(5)
    world.subscribe(arn, since=LAST_HOUR + timedelta(minutes=17))
    ready_records(world, [group(arn)], quantity=4)

    def late_row(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            world.hooks.before_each.clear()
            world.write(3, arn=arn, second=2000)
            world.fold()

    world.hooks.before_each.append(late_row)
    world.submit()
    assert world.record(group(arn)).pending
    world.submit()
    assert amounts(world.record(group(arn))) == (7, 7, 0, 0)
    world.assert_balanced()


def test_legacy_records_that_were_ready_when_their_product_was_refused_are_reopened() -> None:
    world = legacy_world()
    world.write(2, arn="legacy-0001", hour=LAST_HOUR - HOUR, customerIdentifier="c-identifier")
    world.fold(2)
    world.marketplace.arm(Fault(Code.INVALID_USAGE_DIMENSION, skip=1))
    world.marketplace.arm(Fault(Code.INVALID_PRODUCT_CODE))
    with pytest.raises(SubmissionStopped):
        while True:
            world.submit()
            assert len(world.marketplace.requests()) < 10
    assert all(record.attempt is None for record in world.records() if record.pending)
    world.marketplace.faults.clear()
    world.submit()
    assert all(not record.pending for record in world.records())
    assert world.marketplace.billed_twice() == {}


def test_a_lease_that_cannot_be_renewed_fails_the_run_after_everything_is_sent() -> None:
    world = world_with(100, requests_per_second=0.05)
    lease_writes: list[Call] = []

    def fail_renewals(call: Call) -> None:
        if call.operation == "UpdateItem" and ":until" in call.request.get("ExpressionAttributeValues", {}):
            lease_writes.append(call)
            if len(lease_writes) > 1:
                fail_calls("dynamodb", "UpdateItem", "InternalServerError")(call)

    world.hooks.before_each.append(fail_renewals)
    with pytest.raises(PartialFailure):
        world.submit()
    assert len(lease_writes) > 1
    assert len(world.marketplace.honoured()) == 100


def test_an_unprocessed_record_whose_retry_is_throttled_for_good_keeps_its_bytes() -> None:
    world = one_record()
    world.marketplace.arm(Fault(effect=RecordEffect.UNPROCESSED))
    world.marketplace.arm(Fault(Code.THROTTLING, times=None))
    world.submit()
    attempt = world.record(group()).attempt
    assert attempt is not None
    assert attempt.unknown
    world.marketplace.faults.clear()
    assert world.submit()["billed"] == 1
    world.assert_balanced()
