"""Defects of public integrations, each as a test that ours does not have it.

Those that cannot occur in this part of the system, and why:

=====================================================  ==================================================
Defect                                                 Why it is not tested here
=====================================================  ==================================================
A mock raises KeyError without CustomerIdentifier      Nothing is tested against that mock; our own fake is
                                                       held to the service's model in tests/contract.
A local cloud has no metering service                  Likewise: the fake brings one.
A JavaScript SDK wants a Date, not a number            The client here is Python's, which takes an aware
                                                       datetime; every request of every run passes through
                                                       the SDK's own validation.
ResolveCustomer fails in a development account         Registration tier: metering never resolves a token.
A redirect drops the free-trial field                  Registration tier.
A POST to the fulfilment path reaches no backend       Registration tier.
A buyer lands on a page that does not exist            Registration tier.
CSRF protection refuses the landing POST               Registration tier.
No token can be minted in CI                           Registration tier; the fake mints them.
A failing mail service breaks registration             Notifications tier: registration only enqueues.
=====================================================  ==================================================
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from awsmp.adapters.dynamodb import from_wire, to_wire
from awsmp.domain.ports import Metric
from sandbox.fake_marketplace import Code, Fault, Lost, Moment, RecordEffect, RequestEntry
from sandbox.fake_marketplace.client import service_model
from sandbox.fake_marketplace.subscriptions import AgreementStatus
from sandbox.simulation.world import SUBSCRIBERS, USAGE
from tests.simulation.checker import ledger_of, number, text
from tests.simulation.faults import Kind, Planned
from tests.simulation.machine import DIMENSIONS, MINUTE, UNKNOWN_DIMENSION, Profile, Simulation
from tests.simulation.model import HOUR

REGION = "eu-west-1"
NOON = datetime(2026, 9, 10, 12, tzinfo=UTC)


@pytest.fixture
def sim() -> Simulation:
    return Simulation(Profile("pitfalls", (2026, 9)), NOON + 5 * MINUTE)


def billed(sim: Simulation) -> dict[tuple[str, str, str], Decimal]:
    """Return what the ledger says was billed, by account, dimension and hour."""
    names = ("customerAWSAccountId", "dimension", "hour")
    return {
        (str(text(item, names[0])), str(text(item, names[1])), str(text(item, names[2]))): number(
            item, "billedQuantity"
        )
        for item in ledger_of(sim.world, REGION)
    }


def statuses(sim: Simulation) -> list[str | None]:
    return [text(item, "meteringStatus") for item in ledger_of(sim.world, REGION)]


def sent(sim: Simulation) -> list[RequestEntry]:
    return list(sim.world.marketplace.requests())


# --- rows of the table of public threads -------------------------------------------------------------


def test_no_request_has_a_product_code_beside_a_license(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 1)
    sim.drain()
    assert sent(sim)
    assert {entry.product_code for entry in sent(sim)} == {None}


@pytest.mark.parametrize("status", ["CustomerNotSubscribed", "DuplicateRecord"])
def test_an_answer_of_200_with_another_status_is_not_booked_as_billed(sim: Simulation, status: str) -> None:
    buyer = sim.buyers[2]
    sim.write(REGION, buyer, "requests", NOON, 4)
    if status == "CustomerNotSubscribed":
        sim.model.suspended.add(buyer.account)
        sim.world.marketplace.suspend_account(buyer.account)
    else:
        sim.model.flaws[next(iter(sim.model.writes))].add("PossibleUnderBilling")
        record = {
            "Timestamp": NOON.timestamp(),
            "Dimension": "requests",
            "CustomerAWSAccountId": buyer.account,
            "LicenseArn": buyer.license_arn,
            "Quantity": 9,
        }
        # Somebody else has metered the hour by hand.
        sim.world.marketplace.batch_meter_usage({"UsageRecords": [record]}, region=REGION)
    sim.world.run_until(NOON + 3 * HOUR)
    assert statuses(sim) == [status]
    assert set(billed(sim).values()) == {Decimal(0)}


def test_an_unknown_status_is_no_success(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 4)
    sim.world.marketplace.arm(Fault(effect=RecordEffect.UNKNOWN_STATUS))
    sim.world.run_until(NOON + HOUR + 6 * MINUTE)
    sim.check()
    assert statuses(sim) == [None]
    sim.drain()
    assert statuses(sim) == ["Success"]


def test_late_usage_is_sent_with_its_own_hour_or_surfaced_and_never_stamped_anew(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON - 20 * HOUR, 2)
    sim.write(REGION, sim.buyers[0], "requests", NOON - 30 * HOUR, 3)
    sim.drain()
    assert sorted(str(status) for status in statuses(sim)) == ["AggregationExpired", "Success"]
    (honoured,) = sim.world.marketplace.honoured()
    assert honoured.timestamp == NOON - 20 * HOUR


def test_a_throttled_record_stays_pending_and_is_billed_later(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    sim.world.marketplace.arm(Fault(Code.THROTTLING, times=7))
    sim.world.run_until(NOON + HOUR + 6 * MINUTE)
    assert statuses(sim) == [None]
    sim.world.run_until(NOON + 2 * HOUR)
    assert statuses(sim) == ["Success"]
    sim.check()


def test_a_total_of_zero_is_sent_in_the_last_hour_and_does_no_harm_where_it_is_refused(
    sim: Simulation,
) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 0)
    sim.write(REGION, sim.buyers[0], UNKNOWN_DIMENSION, NOON, 0)
    sim.write(REGION, sim.buyers[0], "egress", NOON, 1)
    sim.drain()
    ended = {
        str(text(item, "dimension")): text(item, "meteringStatus") for item in ledger_of(sim.world, REGION)
    }
    assert ended == {"requests": "Success", UNKNOWN_DIMENSION: "RejectedClientSide", "egress": "Success"}


def test_a_late_delta_for_an_hour_already_billed_is_surfaced_and_not_sent(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    sim.run(80 * MINUTE)
    before = len(sent(sim))
    sim.write(REGION, sim.buyers[0], "requests", NOON + MINUTE, 3)
    sim.drain()
    assert len(sent(sim)) == before
    assert sim.world.recorder.metrics[Metric.LATE_AFTER_SUBMISSION, "LateAfterSubmission"]


def test_records_name_license_and_account_and_no_customer_identifier(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    sim.drain()
    (record,) = [outcome.record for entry in sent(sim) for outcome in entry.outcomes]
    assert set(record) == {"Timestamp", "Dimension", "Quantity", "LicenseArn", "CustomerAWSAccountId"}


def test_requests_are_signed_for_the_marketplace() -> None:
    assert service_model().signing_name == "aws-marketplace"


@pytest.mark.parametrize("window", [6, 12, 24])
def test_the_window_is_a_setting_and_its_last_hour_is_still_billed(window: int) -> None:
    sim = Simulation(Profile("window", (2026, 9), window=window), NOON)
    sim.write(REGION, sim.buyers[0], "requests", NOON - (window - 1) * HOUR, 1)
    sim.write(REGION, sim.buyers[0], "requests", NOON - window * HOUR, 1)
    sim.drain()
    assert sorted(str(status) for status in statuses(sim)) == ["AggregationExpired", "Success"]


def test_the_final_partial_hour_is_billed_when_a_license_ends(sim: Simulation) -> None:
    buyer = sim.buyers[2]
    sim.run(20 * MINUTE)
    sim.deprovision(buyer)
    sim.run(50 * MINUTE)
    sim.write(REGION, buyer, "requests", sim.now, 7)
    sim.drain()
    assert billed(sim) == {(buyer.account, "requests", "2026-09-10T13"): 7}


def test_a_customer_whom_the_marketplace_does_not_know_costs_only_his_own_record(sim: Simulation) -> None:
    stranger = sim.buyers[0].__class__(sim.buyers[0].license_arn.replace("l-", "l-0"), "999900001111")
    sim.model.activated[stranger.license_arn] = NOON + 99 * HOUR
    sim.write(REGION, stranger, "requests", NOON, 1)
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    sim.drain()
    assert sorted(str(status) for status in statuses(sim)) == ["RejectedClientSide", "Success"]


# --- defects read in the code of others --------------------------------------------------------------


def test_an_attempt_that_is_repeated_has_the_same_bytes_whatever_the_time(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    sim.world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER, times=2))
    sim.run(55 * MINUTE)
    sim.run(30 * MINUTE)
    sim.drain()
    records = [outcome.record for entry in sent(sim) for outcome in entry.outcomes]
    assert len(records) >= 3
    assert all(record == records[0] for record in records)
    assert billed(sim) == {(sim.buyers[0].account, "requests", "2026-09-10T12"): 2}


def test_two_runs_in_one_hour_bill_once_and_lose_nothing(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    sim.world.run_until(NOON + HOUR)
    for _ in range(2):
        sim.world.invoke("discoverer", {"mode": "meter", "hourOffset": 1})
        sim.world.pump()
        sim.world.invoke("submitter", {"mode": "submit"})
    sim.check()
    assert len(sim.world.marketplace.honoured()) == 1
    assert statuses(sim) == ["Success"]


@pytest.mark.slow
def test_more_rows_than_one_page_of_a_query_are_all_billed(sim: Simulation) -> None:
    padding = {"note": "x" * 3_000}
    hour = NOON - HOUR
    for second in range(500):
        sim.write(REGION, sim.buyers[0], "requests", hour + timedelta(seconds=second), 1)
    for item in sim.world.dynamodb.items(USAGE):
        plain = {**from_wire(item), **padding}
        sim.world.writer.put_item(TableName=USAGE, Item=to_wire(plain))
    sim.drain()
    assert billed(sim) == {(sim.buyers[0].account, "requests", "2026-09-10T11"): 500}


def test_more_groups_than_one_request_takes_are_all_billed(sim: Simulation) -> None:
    for back in range(20):
        for dimension in DIMENSIONS:
            sim.write(REGION, sim.buyers[0], dimension, NOON - back * HOUR, 1)
    sim.drain()
    assert len(billed(sim)) == 40
    assert set(billed(sim).values()) == {Decimal(1)}
    assert max(len(entry.outcomes) for entry in sent(sim)) <= 25


def test_unprocessed_records_are_sent_again_until_they_are_billed(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    sim.world.marketplace.arm(Fault(effect=RecordEffect.UNPROCESSED, times=3))
    sim.run(80 * MINUTE)
    sim.drain()
    assert statuses(sim) == ["Success"]
    assert sim.world.recorder.metrics[Metric.USAGE_RECORD_UNPROCESSED, None]


@pytest.mark.parametrize("function", ["aggregator", "submitter", "cleanup"])
def test_no_pending_mark_goes_when_a_step_fails(sim: Simulation, function: str) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2)
    for skip in range(3):
        sim.faults.arm(Planned(Kind.INTERNAL_ERROR, function, skip))
    sim.run(75 * MINUTE)
    sim.check()
    assert sim.faults.hits[Kind.INTERNAL_ERROR]
    sim.drain()
    assert billed(sim) == {(sim.buyers[0].account, "requests", "2026-09-10T12"): 2}


@pytest.mark.parametrize("status", [AgreementStatus.CANCELLED, AgreementStatus.RENEWED])
def test_the_end_of_one_agreement_touches_no_other_license_and_no_billing(
    sim: Simulation, status: AgreementStatus
) -> None:
    ended, other = sim.buyers[0], sim.buyers[1]
    assert ended.account == other.account
    agreement = sim.world.marketplace.license(ended.license_arn).agreement_id
    sim.deliver(sim.world.marketplace.end_agreement(agreement, status))
    sim.world.pump()
    rows = {
        item["licenseArn"]["S"]: (item["subscriptionStatus"]["S"], item["agreementStatus"]["S"])
        for item in sim.world.us_east_1.items(SUBSCRIBERS)
    }
    assert rows[ended.license_arn] == ("active", "inactive")
    assert rows[other.license_arn] == ("active", "active")
    sim.write(REGION, ended, "requests", NOON, 2)
    sim.drain()
    assert statuses(sim) == ["Success"]


def test_an_event_whose_table_write_fails_comes_again_and_has_its_effect(sim: Simulation) -> None:
    sim.faults.arm(Planned(Kind.INTERNAL_ERROR, "subscription", 0))
    sim.faults.arm(Planned(Kind.ACCESS_DENIED, "subscription", 1))
    sim.deprovision(sim.buyers[2])
    sim.world.pump()
    sim.run(30 * MINUTE)
    (row,) = [
        item
        for item in sim.world.us_east_1.items(SUBSCRIBERS)
        if item["licenseArn"]["S"] == sim.buyers[2].license_arn
    ]
    assert row["subscriptionStatus"]["S"] == "deprovisioning"
    assert sim.faults.hits[Kind.INTERNAL_ERROR]


def test_an_event_that_leads_to_no_license_is_dead_lettered_and_not_acknowledged(sim: Simulation) -> None:
    envelope = dict(sim.world.marketplace.deprovision_license(sim.buyers[2].license_arn))
    detail = {name: value for name, value in envelope["detail"].items() if name in {"agreement", "requestId"}}
    agreement = {**detail.get("agreement", {}), "id": "agmt-nobodys"}
    envelope["detail"] = {**detail, "agreement": agreement}
    sim.world.deliver(envelope)
    for _ in range(7):
        sim.world.run_until(sim.now + 10 * MINUTE)
    assert [queue for queue, _ in sim.world.dead_letters()] == ["events"]


def test_two_licenses_of_one_account_are_billed_apart(sim: Simulation) -> None:
    first, second = sim.buyers[:2]
    assert first.account == second.account
    sim.write(REGION, first, "requests", NOON, 2)
    sim.write(REGION, second, "requests", NOON, 3)
    sim.drain()
    assert {record.license_arn: record.quantity for record in sim.world.marketplace.honoured()} == {
        first.license_arn: 2,
        second.license_arn: 3,
    }


def test_a_zero_of_a_license_that_ends_is_sent_before_its_hour_for_final_usage_is_over(
    sim: Simulation,
) -> None:
    sim.write(REGION, sim.buyers[2], "requests", NOON, 0)
    sim.run(5 * MINUTE)
    sim.deprovision(sim.buyers[2])
    sim.drain()
    assert statuses(sim) == ["Success"]


@pytest.mark.parametrize("minute", [0, 3, 29, 58, 59])
def test_writes_until_the_last_minutes_of_a_license_are_billed_at_any_minute_of_the_hour(minute: int) -> None:
    """A license that ends at any minute: what was written before its final flush is billed."""
    sim = Simulation(Profile("ending", (2026, 9)), NOON + timedelta(minutes=minute))
    buyer = sim.buyers[2]
    sim.deprovision(buyer)
    for _ in range(11):
        sim.write(REGION, buyer, "requests", sim.now, 1)
        sim.run(5 * MINUTE)
    sim.drain()
    assert sum(billed(sim).values()) == sum(sim.model.written().values()) == 11
