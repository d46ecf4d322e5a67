"""Every handler's happy and refusal paths on boto3 clients, answered by moto in this process.

Moto cannot run a PartiQL insert with parameters, nor an update that sets and removes in one statement, and
it hides a failed condition of a batch, so what depends on these is only in ``test_handlers_emulator.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from moto import mock_aws

from awsmp.composition_metering import production_runtime
from awsmp.domain.errors import Misconfigured, PartialFailure
from awsmp.domain.folding import FoldedRow
from awsmp.domain.hours import HOUR, format_instant
from awsmp.domain.ledger import LEDGER_SORT_KEY
from awsmp.domain.messages import Cleanup, GroupWork, UnclaimedRow, encode_cleanup, encode_work
from awsmp.domain.ports import Metric
from awsmp.domain.reasons import MeteringStatus, RowStamp
from awsmp.handlers import aggregator, cleanup, discoverer, expiry, submitter
from tests.unit.metering_world import (
    BUYER,
    LAST_HOUR,
    LEDGER,
    LICENSE,
    PRODUCT,
    SUBSCRIBERS,
    USAGE,
    ClientWorld,
    allocation,
    amounts,
    group,
    license_arn,
)

NOWHERE = "awsmp-no-such-table"


def failed(run: Callable[..., dict[str, Any]], world: ClientWorld, *bodies: str) -> list[str]:
    """Invoke a queue handler; return the ids of the messages that come again."""
    records = [{"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies)]
    answer = run({"Records": records}, world.context(), world.runtime)
    return [entry["itemIdentifier"] for entry in answer["batchItemFailures"]]


# --- discoverer --------------------------------------------------------------------------------------


def meter_enqueues_each_group_and_each_unclaimable_row(world: ClientWorld) -> None:
    for second in range(40):
        world.write(1, second=second)
    world.write(1, dimension="seats")
    world.write(1, arn=license_arn(1))
    broken = world.write(1, arn=license_arn(1), sort_key="broken-key")
    assert world.discover() == 4
    bodies = world.bodies("work")
    assert sorted(body["group"]["dimension"] for body in bodies if "group" in body) == [
        "api-calls",
        "api-calls",
        "seats",
    ]
    assert [body["row"]["sortKey"] for body in bodies if "row" in body] == [broken]


def meter_fails_loudly_without_its_table(world: ClientWorld) -> None:
    world.change(usage_table=NOWHERE)
    with pytest.raises(Misconfigured):
        world.discover()


def flush_enqueues_a_closing_licences_groups_only(world: ClientWorld) -> None:
    world.write(1)
    world.write(1, hour=LAST_HOUR - 5 * HOUR)
    world.write(1, arn=license_arn(1))
    assert world.flush() == 0
    world.deprovision()
    assert world.flush() == 2
    assert {body["group"]["licenseArn"] for body in world.bodies("deprovision-work")} == {LICENSE}


def flush_fails_loudly_without_the_subscribers_table(world: ClientWorld) -> None:
    world.change(subscribers_table=NOWHERE)
    with pytest.raises(Misconfigured):
        world.flush()


# --- aggregator --------------------------------------------------------------------------------------


def a_group_is_folded_page_by_page_and_folded_again(world: ClientWorld) -> None:
    for second in range(12):
        world.write(2, second=second, note="x" * 200_000)
    message = encode_work(GroupWork(group()))
    assert failed(aggregator.run, world, message) == []
    assert amounts(world.record(group())) == (24, 0, 24, 0)
    world.write(5, second=30)
    assert failed(aggregator.run, world, message) == []
    assert amounts(world.record(group())) == (29, 0, 29, 0)
    assert world.record(group()).version == 2
    assert [len(body["rows"]) for body in world.bodies("cleanup")] == [12, 13]


def a_bad_message_and_a_foreign_item_fail_alone(world: ClientWorld) -> None:
    world.write(1)
    world.write(2, dimension="seats")
    world.put_ledger({"licenseArn": LICENSE, LEDGER_SORT_KEY: group(dimension="seats").ledger_sort_key})
    bodies = [encode_work(GroupWork(group(dimension="seats"))), "junk", encode_work(GroupWork(group()))]
    assert failed(aggregator.run, world, *bodies) == ["m-0", "m-1"]
    assert amounts(world.record(group())) == (1, 0, 1, 0)


def a_rejected_group_is_corrected(world: ClientWorld) -> None:
    world.write(10)
    world.write(-2, second=1)
    message = encode_work(GroupWork(group()))
    failed(aggregator.run, world, message)
    assert world.record(group()).rejection == "NegativeQuantity"
    world.write(2, second=1)
    failed(aggregator.run, world, message)
    assert (world.record(group()).rejection, amounts(world.record(group()))) == (None, (12, 0, 12, 0))


# --- cleanup -----------------------------------------------------------------------------------------


def rows_with_allocations_are_cleaned_only_as_folded(world: ClientWorld) -> None:
    tags = [allocation(2, ("team", "a"))]
    kept = world.write(2, usageAllocations=tags)
    rewritten = world.write(2, second=1, usageAllocations=tags)
    failed(aggregator.run, world, encode_work(GroupWork(group())))
    world.write(2, second=1, usageAllocations=[allocation(2, ("team", "b"))])
    world.clean()
    assert world.pending_rows() == [rewritten]
    assert world.row(kept).attributes["meteringStatus"] == "Aggregated"


def a_cleanup_message_with_junk_fails_the_batch(world: ClientWorld) -> None:
    with pytest.raises(BatchProcessingError):
        failed(cleanup.run, world, "junk")


# --- submitter ---------------------------------------------------------------------------------------


def nothing_pending_takes_and_returns_the_lease(world: ClientWorld) -> None:
    assert world.submit()["requests"] == 0
    assert not any("leaseOwner" in item for item in world.ledger_items())
    assert world.submit_closing()["requests"] == 0


def another_senders_lease_is_respected_until_it_ends(world: ClientWorld) -> None:
    until = format_instant(world.clock.now() + timedelta(seconds=30))
    key = {"licenseArn": "internal#submitter", LEDGER_SORT_KEY: "lease"}
    world.put_ledger({**key, "leaseOwner": "other", "leasedUntil": until})
    world.deprovision()
    assert world.submit_closing()["skipped"]
    before = world.clock.now()
    assert not world.submit()["skipped"]
    assert world.clock.now() - before == timedelta(seconds=30)


def a_group_of_bad_rows_only_is_closed(world: ClientWorld) -> None:
    world.write(-2)
    failed(aggregator.run, world, encode_work(GroupWork(group())))
    world.clock.advance_to(LAST_HOUR + 23 * HOUR)
    assert world.submit()["requests"] == 0
    record = world.record(group())
    assert (record.status, record.pending) == (MeteringStatus.REJECTED_CLIENT_SIDE, False)


def the_submitter_fails_loudly_without_its_table(world: ClientWorld) -> None:
    world.change(aggregated_usage_table=NOWHERE)
    with pytest.raises(Misconfigured):
        world.submit()


# --- expiry ------------------------------------------------------------------------------------------


def what_is_past_its_deadline_is_closed(world: ClientWorld) -> None:
    world.write(3)
    failed(aggregator.run, world, encode_work(GroupWork(group())))
    assert world.expire() == 0
    world.clock.advance_to(LAST_HOUR + 24 * HOUR)
    assert world.expire() == 1
    assert amounts(world.record(group())) == (3, 0, 0, 3)
    assert world.telemetry.total(Metric.SURFACED_UNITS, "SubmissionExpired") == 3
    assert world.expire() == 0


def expiry_fails_loudly_without_its_table(world: ClientWorld) -> None:
    world.change(aggregated_usage_table=NOWHERE)
    with pytest.raises(PartialFailure) as failure:
        world.expire()
    assert isinstance(failure.value.__cause__, Misconfigured)


#: What every faithful implementation of DynamoDB and SQS must let pass.
SCENARIOS: list[Callable[[ClientWorld], None]] = [
    meter_enqueues_each_group_and_each_unclaimable_row,
    meter_fails_loudly_without_its_table,
    flush_enqueues_a_closing_licences_groups_only,
    flush_fails_loudly_without_the_subscribers_table,
    a_group_is_folded_page_by_page_and_folded_again,
    a_bad_message_and_a_foreign_item_fail_alone,
    a_rejected_group_is_corrected,
    rows_with_allocations_are_cleaned_only_as_folded,
    a_cleanup_message_with_junk_fails_the_batch,
    nothing_pending_takes_and_returns_the_lease,
    another_senders_lease_is_respected_until_it_ends,
    a_group_of_bad_rows_only_is_closed,
    the_submitter_fails_loudly_without_its_table,
    what_is_past_its_deadline_is_closed,
    expiry_fails_loudly_without_its_table,
]


@pytest.fixture(scope="module")
def clients() -> dict[str, Any]:
    """Clients that moto answers while its mock is on."""
    return {
        service: boto3.client(
            service, region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
        )
        for service in ("dynamodb", "sqs")
    }


@pytest.fixture
def world(clients: dict[str, Any]) -> Iterator[ClientWorld]:
    with mock_aws():
        yield ClientWorld(clients["dynamodb"], clients["sqs"])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_handlers_on_moto(scenario: Callable[[ClientWorld], None], world: ClientWorld) -> None:
    scenario(world)


def test_an_unclaimable_row_that_vanished_is_done(world: ClientWorld) -> None:
    assert failed(aggregator.run, world, encode_work(UnclaimedRow(LICENSE, "gone"))) == []


# --- entry points ------------------------------------------------------------------------------------

NO_ROW_LEFT = Cleanup(group(), "digest", (FoldedRow("gone", "digest"),), RowStamp.AGGREGATED, "done")


def queued(body: str) -> dict[str, Any]:
    return {"Records": [{"messageId": "m-0", "body": body}]}


ENTRY_POINTS: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("discoverer", discoverer.handler, {"mode": "meter", "hourOffset": 1}, {"sent": 0}),
    ("aggregator", aggregator.handler, queued(encode_work(GroupWork(group()))), {"batchItemFailures": []}),
    ("cleanup", cleanup.handler, queued(encode_cleanup(NO_ROW_LEFT)), {"batchItemFailures": []}),
    ("expiry", expiry.handler, {}, {"closed": 0}),
]


@pytest.fixture
def deployed(world: ClientWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClientWorld]:
    """The environment of a deployed function; the entry points make their own clients from it."""
    environment = {
        "PRODUCT_CODE": PRODUCT,
        "USAGE_TABLE": USAGE,
        "AGGREGATED_USAGE_TABLE": LEDGER,
        "SUBSCRIBERS_TABLE": SUBSCRIBERS,
        "SUBSCRIBERS_TABLE_REGION": "us-east-1",
        "WORK_QUEUE_URL": world.urls["work"],
        "CLEANUP_QUEUE_URL": world.urls["cleanup"],
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "METERING_MODE": "dry-run",
        "TEST_ACCOUNT_ALLOWLIST": BUYER,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    production_runtime.cache_clear()
    yield world
    production_runtime.cache_clear()


@pytest.mark.parametrize(
    ("handler", "event", "answer"),
    [case[1:] for case in ENTRY_POINTS],
    ids=[case[0] for case in ENTRY_POINTS],
)
def test_an_entry_point_builds_its_runtime_from_the_environment(
    handler: Callable[..., dict[str, Any]],
    event: dict[str, Any],
    answer: dict[str, Any],
    deployed: ClientWorld,
) -> None:
    assert handler(event, deployed.context()) == answer


def test_the_submitters_entry_point_gives_its_lease_back(deployed: ClientWorld) -> None:
    report = submitter.handler({"mode": "submit"}, deployed.context())
    assert (report["billed"], report["requests"], report["skipped"]) == (0, 0, False)
    assert not any("leaseOwner" in item for item in deployed.ledger_items())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PRODUCT_CODE", None),
        ("METERING_MODE", "dry"),
        ("BILLABLE_WINDOW_HOURS", "a day"),
        ("QUANTITY_TYPE", "float"),
        ("SUBMITTER_REQUESTS_PER_SECOND", ""),
    ],
)
def test_a_missing_or_malformed_setting_fails_every_function_loudly(
    name: str, value: str | None, deployed: ClientWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured):
        expiry.handler({}, deployed.context())
