"""The subscription Lambda over a DynamoDB in memory: batches, failures, and every call failing once."""

from __future__ import annotations

from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from awsmp.composition_events import Runtime, Settings
from awsmp.domain.errors import Misconfigured
from awsmp.domain.ports import Metric
from awsmp.handlers import subscription
from awsmp.usecases.subscription import AcceptedEvents
from tests.unit.lifecycle_support import (
    BUYER,
    LICENSE,
    OTHER_LICENSE,
    PARKED_TABLE,
    PRODUCT,
    RENEWAL,
    SELLER,
    SUBSCRIBERS_TABLE,
    CountingClient,
    FakeEvents,
    Fault,
    ManualClock,
    RecordingTelemetry,
    amended,
    at,
    cancellation_request,
    deprovisioned,
    ended,
    envelope,
    memory_tables,
    ordered,
    sqs_batch,
    updated,
)

BUS = "arn:aws:events:eu-west-1:111122223333:event-bus/notifications"


@pytest.fixture
def dynamodb() -> Any:
    return memory_tables()


def runtime(client: Any, events: Any = None) -> Runtime:
    return Runtime(
        settings=Settings(
            SUBSCRIBERS_TABLE,
            PARKED_TABLE,
            AcceptedEvents(frozenset({"aws.agreement-marketplace"}), frozenset({PRODUCT}), SELLER),
            {"notifications": BUS},
        ),
        clock=ManualClock(at(30)),
        telemetry=RecordingTelemetry(),
        dynamodb=client,
        events_client_for=lambda _region: events or FakeEvents(),
    )


def counts(using: Runtime) -> list[tuple[Metric, str | None]]:
    assert isinstance(using.telemetry, RecordingTelemetry)
    return using.telemetry.counts


def errors(using: Runtime) -> list[tuple[str, dict[str, object]]]:
    assert isinstance(using.telemetry, RecordingTelemetry)
    return using.telemetry.errors


def rows(client: Any) -> dict[str, dict[str, Any]]:
    """Every row without the attributes that never decide anything."""
    return {
        item["licenseArn"]["S"]: {
            name: value
            for name, value in ordered(item).items()
            if name not in ("createdAt", "updatedAt", "version")
        }
        for item in client.scan(TableName=SUBSCRIBERS_TABLE)["Items"]
    }


def test_a_batch_is_applied_and_nothing_comes_again(dynamodb: Any) -> None:
    using = runtime(dynamodb)
    bodies = [ended(at(5)), updated(at(0)), amended(at(2), autoRenewalEnabled=True), deprovisioned(at(6))]
    assert subscription.run(sqs_batch(bodies), None, using) == {"batchItemFailures": []}
    row = rows(dynamodb)[LICENSE]
    assert row["subscriptionStatus"] == {"S": "deprovisioning"}
    assert row["agreementStatus"] == {"S": "inactive"}
    assert row["autoRenewal"] == {"BOOL": True}
    assert counts(using) == [
        (Metric.EVENT_PARKED, "Purchase Agreement Ended"),
        (Metric.EVENT_APPLIED, "License Updated"),
        (Metric.EVENT_STALE, "Purchase Agreement Amended"),
        (Metric.EVENT_APPLIED, "License Deprovisioned"),
    ]


def test_a_bad_message_costs_only_itself(dynamodb: Any) -> None:
    using = runtime(dynamodb)
    foreign = envelope("License Updated", at(0), {}, event_id="e", account="999988887777")
    bodies = ["not json", updated(at(0)), updated(at(0), arn="l-1"), foreign, deprovisioned(at(5), arn=None)]
    response = subscription.run(sqs_batch(bodies), None, using)
    assert response == {"batchItemFailures": [{"itemIdentifier": f"m-{n}"} for n in (0, 2, 3)]}
    assert rows(dynamodb)[LICENSE]["subscriptionStatus"] == {"S": "deprovisioning"}
    assert [(fields["messageId"], fields["error"]) for _, fields in errors(using)] == [
        ("m-0", "MalformedEvent"),
        ("m-2", "InvalidLicenseArn"),
        ("m-3", "Misconfigured"),
    ]


def test_a_batch_in_which_every_message_fails_is_an_error_of_the_function(dynamodb: Any) -> None:
    with pytest.raises(BatchProcessingError):
        subscription.run(sqs_batch(["not json", "{}"]), None, runtime(dynamodb))


def test_a_defect_of_ours_fails_the_message_and_its_text_is_not_logged(dynamodb: Any) -> None:
    class Broken(CountingClient):
        def get_item(self, **_kwargs: Any) -> Any:
            raise KeyError(BUYER)

    using = runtime(Broken(dynamodb))
    with pytest.raises(BatchProcessingError):
        subscription.run(sqs_batch([updated(at(0))]), None, using)
    ((_, fields),) = errors(using)
    assert fields == {"messageId": "m-0", "error": "KeyError", "told": ""}


def test_an_event_type_that_is_not_ours_is_acknowledged(dynamodb: Any) -> None:
    using = runtime(dynamodb)
    body = envelope("Purchase Agreement Created - Proposer", at(0), {}, event_id="e")
    assert subscription.run(sqs_batch([body]), None, using) == {"batchItemFailures": []}
    assert counts(using) == [(Metric.EVENT_IGNORED, "Purchase Agreement Created")]


def test_a_bus_that_does_not_take_a_cancellation_request_keeps_the_message(dynamodb: Any) -> None:
    body = cancellation_request(at(0))
    batch = sqs_batch([body, updated(at(0))])
    failing = runtime(dynamodb, FakeEvents(refusing={BUS}))
    assert subscription.run(batch, None, failing) == {"batchItemFailures": [{"itemIdentifier": "m-0"}]}
    events = FakeEvents()
    assert subscription.run(sqs_batch([body]), None, runtime(dynamodb, events)) == {"batchItemFailures": []}
    assert [entry["EventBusName"] for entry in events.taken] == [BUS]


def test_without_its_tables_setting_the_function_fails(dynamodb: Any) -> None:
    using = Runtime(Settings(SUBSCRIBERS_TABLE), ManualClock(), RecordingTelemetry(), dynamodb, FakeEvents)
    with pytest.raises(Misconfigured, match="PARKED_AGREEMENT_EVENTS_TABLE"):
        subscription.run(sqs_batch([]), None, using)


def test_the_entry_point_takes_the_production_runtime(dynamodb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "production_runtime", lambda _service: runtime(dynamodb))
    assert subscription.handler(sqs_batch([updated(at(0))]), None) == {"batchItemFailures": []}
    assert LICENSE in rows(dynamodb)


SCENARIOS: dict[str, tuple[list[str], str]] = {
    "a new licence": ([], updated(at(0))),
    "a licence whose agreement has ended": ([ended(at(5))], updated(at(0))),
    "a licence goes": ([updated(at(0))], deprovisioned(at(5))),
    "a licence goes before it came": ([], deprovisioned(at(5))),
    "a licence without ARN goes": ([updated(at(0))], deprovisioned(at(5), arn=None)),
    "an agreement of two licences ends": ([updated(at(0)), updated(at(0), arn=OTHER_LICENSE)], ended(at(5))),
    "an agreement of no licence ends": ([], ended(at(5))),
    "an amendment": ([updated(at(0))], amended(at(5), endTime="2027-01-01T00:00:00Z")),
    "a renewal that has been amended": (
        [updated(at(0)), amended(at(7), agreement=RENEWAL, autoRenewalEnabled=True)],
        updated(at(6), agreement=RENEWAL),
    ),
}


def after_events(before: list[str]) -> Any:
    """Return tables to which some events have been applied."""
    client = memory_tables()
    for body in before:
        subscription.run(sqs_batch([body]), None, runtime(client))
    return client


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_call_that_fails_keeps_the_message_and_its_redelivery_completes_it(name: str, after: bool) -> None:
    before, body = SCENARIOS[name]
    dynamodb = after_events(before)
    counting = CountingClient(dynamodb)
    subscription.run(sqs_batch([body]), None, runtime(counting))
    expected = rows(dynamodb)
    # The licence of an agreement event may come later: the end of the story has to be the same then, too.
    subscription.run(sqs_batch([updated(at(1))]), None, runtime(dynamodb))
    finally_expected = rows(dynamodb)
    assert len(counting.calls) >= 3
    for number in range(len(counting.calls)):
        dynamodb = after_events(before)
        fault = (Fault.TIMEOUT, Fault.SERVER, Fault.DENIED)[number % 3]
        failing = CountingClient(dynamodb, fail_at=number, after=after, fault=fault)
        with pytest.raises(BatchProcessingError):
            subscription.run(sqs_batch([body]), None, runtime(failing))
        assert failing.failed
        subscription.run(sqs_batch([body]), None, runtime(dynamodb))
        assert rows(dynamodb) == expected
        subscription.run(sqs_batch([updated(at(1))]), None, runtime(dynamodb))
        assert rows(dynamodb) == finally_expected


@pytest.mark.parametrize("after", [False, True])
def test_a_forwarding_call_that_fails_keeps_the_message_and_its_redelivery_forwards(
    dynamodb: Any, after: bool
) -> None:
    events = FakeEvents()
    failing = CountingClient(events, fail_at=0, after=after)
    batch = sqs_batch([cancellation_request(at(0))])
    with pytest.raises(BatchProcessingError):
        subscription.run(batch, None, runtime(dynamodb, failing))
    subscription.run(batch, None, runtime(dynamodb, events))
    assert len(events.taken) == 1 + after
    assert len({entry["Detail"] for entry in events.taken}) == 1
