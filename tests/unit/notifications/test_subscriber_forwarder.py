"""The forwarder's Lambda: record by record, in the order of each row, nothing lost on a bus that refuses."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from awsmp import composition_events
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.domain.errors import Misconfigured, PartialFailure
from awsmp.domain.ports import Metric
from awsmp.domain.subscribers import SubscriberRow
from awsmp.handlers import subscriber_forwarder
from sandbox.memory_aws import ManualClock, MemoryDynamoDB
from tests.unit.lifecycle_support import SUBSCRIBERS_TABLE, create_tables
from tests.unit.notifications.deployment import Bus, Hooks, forwarder_runtime, from_first_failure
from tests.unit.notifications.world import (
    BUYER,
    OTHER_LICENSE,
    START,
    Telemetry,
    active_row,
    deprovisioned,
    renewal,
)

HOME = "arn:aws:events:us-east-1:111122223333:event-bus/awsmp"
ABROAD = "arn:aws:events:eu-west-1:111122223333:event-bus/awsmp"
BUSES = {"home": HOME, "abroad": ABROAD}

FIRST = active_row()
ENDED = deprovisioned(FIRST, "end-1", START)
OTHER = replace(active_row(event_id="activation-2"), license_arn=OTHER_LICENSE)


def image(row: SubscriberRow) -> Mapping[str, Any]:
    clock = ManualClock(START)
    backend = MemoryDynamoDB(clock)
    client: Any = backend.client()
    create_tables(client)
    SubscribersStore(client, SUBSCRIBERS_TABLE, clock).write(None, row)
    (item,) = copy.deepcopy(backend.items(SUBSCRIBERS_TABLE))
    return item


def record(number: int, old: SubscriberRow | None, new: SubscriberRow | None) -> dict[str, Any]:
    row = new or old
    assert row is not None
    images = {"OldImage": old, "NewImage": new}
    return {
        "eventID": f"stream{number}",
        "dynamodb": {
            "ApproximateCreationDateTime": START.timestamp() + number,
            "Keys": {"licenseArn": {"S": row.license_arn}, "customerAWSAccountId": {"S": BUYER}},
            "SequenceNumber": str(number),
            **{name: image(each) for name, each in images.items() if each is not None},
        },
    }


def malformed(number: int) -> dict[str, Any]:
    bad = record(number, None, OTHER)
    bad["dynamodb"]["NewImage"]["homeRegion"] = {"N": "1"}
    bad["dynamodb"]["NewImage"]["subscriptionStatus"] = {"S": "no such status"}
    return bad


def forward(
    bus: Bus, records: Sequence[dict[str, Any]], telemetry: Telemetry | None = None
) -> dict[str, Any]:
    runtime = forwarder_runtime(bus, BUSES, telemetry)
    return subscriber_forwarder.run({"Records": list(records)}, None, runtime)


def events(bus: Bus, arn: str) -> list[str]:
    return [json.loads(entry["Detail"])["eventId"] for entry in bus.taken if entry["EventBusName"] == arn]


def failures(*numbers: int) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": str(number)} for number in numbers]}


def test_every_change_goes_to_every_bus_with_both_images_and_its_time() -> None:
    bus, telemetry = Bus(Hooks()), Telemetry()
    assert forward(bus, [record(1, None, FIRST), record(2, FIRST, ENDED)], telemetry) == failures()
    assert events(bus, HOME) == events(bus, ABROAD) == ["stream1", "stream2"]
    detail = json.loads(bus.taken[-1]["Detail"])
    assert detail["old"]["subscriptionStatus"] == "active"
    assert detail["new"]["subscriptionStatus"] == "deprovisioning"
    assert detail["eventTime"] == "2026-11-10T08:00:02Z"
    assert {(entry["Source"], entry["DetailType"]) for entry in bus.taken} == {
        ("awsmp.subscribers", "Subscriber Row Changed")
    }
    assert telemetry.total(Metric.ROW_CHANGES_FORWARDED) == 2


def test_a_change_that_concerns_no_notice_is_done_without_a_call() -> None:
    bus, telemetry = Bus(Hooks()), Telemetry()
    same = replace(FIRST, registered_regions=frozenset({"eu-west-1"}))
    assert forward(bus, [record(1, FIRST, same)], telemetry) == failures()
    assert bus.calls == 0
    assert telemetry.total(Metric.ROW_CHANGES_FORWARDED) == 0


def test_a_malformed_record_costs_only_itself() -> None:
    bus = Bus(Hooks())
    records = [record(1, None, FIRST), malformed(2), record(3, FIRST, ENDED)]
    assert forward(bus, records) == failures(2)
    assert events(bus, HOME) == ["stream1", "stream3"]


def test_later_changes_of_a_row_wait_for_the_one_that_failed_and_other_rows_do_not() -> None:
    bus = Bus(Hooks())
    bus.refuse = lambda number: number <= 2
    records = [
        record(1, None, FIRST),
        record(2, FIRST, ENDED),
        record(3, None, OTHER),
    ]
    answer = forward(bus, records)
    assert answer == failures(1, 2)
    assert events(bus, HOME) == ["stream3"]
    again = from_first_failure(records, answer)
    assert again == records
    assert forward(bus, again) == failures()
    assert events(bus, HOME) == ["stream3", "stream1", "stream2", "stream3"], "in the order of each row"


def test_a_change_that_one_bus_has_refused_comes_again_for_all() -> None:
    bus = Bus(Hooks())
    bus.refuse = lambda number: number == 1
    records = [record(1, None, FIRST), record(2, None, OTHER)]
    assert forward(bus, records) == failures(1)
    assert forward(bus, records[:1]) == failures()
    for arn in (HOME, ABROAD):
        assert set(events(bus, arn)) == {"stream1", "stream2"}


def test_a_batch_of_which_nothing_was_forwarded_is_an_error_of_the_function() -> None:
    bus, telemetry = Bus(Hooks()), Telemetry()
    bus.refuse = lambda _: True
    with pytest.raises(PartialFailure):
        forward(bus, [record(1, None, FIRST)], telemetry)
    ((message, fields),) = telemetry.error_lines
    assert message == "a stream record failed and comes again"
    assert fields["error"] == "StoreUnavailable"


def test_no_failure_tells_what_a_row_holds() -> None:
    bus, telemetry = Bus(Hooks()), Telemetry()
    with pytest.raises(PartialFailure) as failed:
        forward(bus, [malformed(1)], telemetry)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None
    assert "no such status" not in json.dumps(telemetry.error_lines)


@pytest.mark.parametrize("seed", range(40))
def test_whichever_entries_are_refused_every_bus_gets_every_change_in_the_order_of_its_row(seed: int) -> None:
    import random  # noqa: PLC0415

    chance = random.Random(seed)
    bus = Bus(Hooks())
    bus.refuse = lambda _: chance.random() < 0.4
    off = renewal(ENDED, False, "renewal-1", START)
    records = [
        record(1, None, FIRST),
        record(2, None, OTHER),
        record(3, FIRST, ENDED),
        record(4, OTHER, deprovisioned(OTHER, "end-2", START)),
        record(5, ENDED, off),
    ]
    rows = {
        "stream1": "first",
        "stream2": "other",
        "stream3": "first",
        "stream4": "other",
        "stream5": "first",
    }
    left = list(records)
    for _ in range(200):
        if not left:
            break
        try:
            left = from_first_failure(left, forward(bus, left))
        except PartialFailure:
            continue
    assert left == []
    for arn in (HOME, ABROAD):
        seen = list(dict.fromkeys(events(bus, arn)))
        assert set(seen) == set(rows)
        for row in ("first", "other"):
            assert [each for each in seen if rows[each] == row] == [
                each for each in rows if rows[each] == row
            ]


def test_the_entry_point_takes_the_buses_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SUBSCRIBERS_TABLE": SUBSCRIBERS_TABLE,
        "FORWARD_EVENT_BUSES": json.dumps({"abroad": ABROAD}),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }.items():
        monkeypatch.setenv(name, value)
    composition_events.production_runtime.cache_clear()
    with mock_aws():
        boto3.client("events", region_name="eu-west-1").create_event_bus(Name="awsmp")
        assert subscriber_forwarder.handler({"Records": [record(1, None, FIRST)]}, None) == failures()
        monkeypatch.setenv("FORWARD_EVENT_BUSES", "{}")
        composition_events.production_runtime.cache_clear()
        with pytest.raises(Misconfigured):
            subscriber_forwarder.handler({"Records": [record(1, None, FIRST)]}, None)
    composition_events.production_runtime.cache_clear()


@pytest.mark.parametrize("buses", [{}, {"home": "no arn"}])
def test_a_forwarder_without_a_bus_says_so_and_passes_over_no_change(buses: Mapping[str, str]) -> None:
    runtime = forwarder_runtime(Bus(Hooks()), buses)
    with pytest.raises(Misconfigured, match="FORWARD_EVENT_BUSES"):
        subscriber_forwarder.run({"Records": [record(1, None, FIRST)]}, None, runtime)
