"""From the subscribers table's stream to the buses of the Regions that send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from awsmp.adapters.notifications.row_stream import parse_stream_record
from awsmp.adapters.subscribers_store import MalformedRow, SubscribersStore
from awsmp.domain.subscribers import SubscriberRow
from awsmp.usecases.notifications.forward import RowChangeForwarder
from sandbox.memory_aws import ManualClock, MemoryDynamoDB
from tests.unit.lifecycle_support import SUBSCRIBERS_TABLE, create_tables
from tests.unit.notifications.world import START, Telemetry, World, active_row, deprovisioned, renewal

TIME = datetime(2026, 11, 10, 8, 0, 7, tzinfo=UTC)


@dataclass
class Buses:
    taken: list[tuple[str, str, str]] = field(default_factory=list)

    def forward(self, source: str, detail_type: str, time: datetime, detail: str) -> int:
        assert time == TIME
        self.taken.append((source, detail_type, detail))
        return 3


def image(row: SubscriberRow) -> Mapping[str, Any]:
    """Return the row's item as the subscribers store writes it, so as the stream shows it."""
    clock = ManualClock(START)
    backend = MemoryDynamoDB(clock)
    client: Any = backend.client()
    create_tables(client)
    SubscribersStore(client, SUBSCRIBERS_TABLE, clock).write(None, row)
    (item,) = backend.items(SUBSCRIBERS_TABLE)
    return item


def record(old: SubscriberRow | None, new: SubscriberRow | None) -> dict[str, Any]:
    images = {"OldImage": old, "NewImage": new}
    shown = {name: image(row) for name, row in images.items() if row is not None}
    return {
        "eventID": "0a1b2c3d4e5f",
        "eventName": "MODIFY",
        "dynamodb": {"ApproximateCreationDateTime": TIME.timestamp() + 0.4, **shown},
    }


def test_a_change_of_the_table_reaches_the_buyer_through_stream_bus_and_intake() -> None:
    buses, row = Buses(), active_row()
    forwarder = RowChangeForwarder(buses, Telemetry())
    assert forwarder.forward(parse_stream_record(record(row, deprovisioned(row, "end-1", START))))
    ((source, detail_type, detail),) = buses.taken
    world = World()
    event = {"id": "bus-1", "source": source, "detail-type": detail_type, "detail": json.loads(detail)}
    world.take(json.dumps(event))
    world.send()
    assert [kind for _, kind in world.provider.told] == ["subscription_canceled"]


@pytest.mark.parametrize(
    "change",
    [
        {"registered_regions": frozenset({"eu-west-1"})},
        {"end_time": START},
        {"license_arn_spellings": frozenset({"another"})},
        {"activation_time": START},
    ],
)
def test_a_change_that_concerns_no_notice_is_not_forwarded(change: dict[str, Any]) -> None:
    buses, row = Buses(), active_row()
    assert not RowChangeForwarder(buses, Telemetry()).forward(
        parse_stream_record(record(row, replace(row, **change)))
    )
    assert buses.taken == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, active_row(home=None)),
        (active_row(home=None), active_row()),
        (active_row(), renewal(active_row(), False, "amend-1", START)),
        (active_row(), None),
    ],
)
def test_old_and_new_image_and_the_time_are_forwarded(
    old: SubscriberRow | None, new: SubscriberRow | None
) -> None:
    buses = Buses()
    assert RowChangeForwarder(buses, Telemetry()).forward(parse_stream_record(record(old, new)))
    detail = json.loads(buses.taken[0][2])
    assert (detail["eventId"], detail["eventTime"]) == ("0a1b2c3d4e5f", "2026-11-10T08:00:07Z")
    assert (detail["old"] is None, detail["new"] is None) == (old is None, new is None)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"dynamodb": None, "eventID": "x"},
        {"dynamodb": {"ApproximateCreationDateTime": "soon"}, "eventID": "x"},
        {
            "dynamodb": {"ApproximateCreationDateTime": 1, "NewImage": {"licenseArn": {"S": "x"}}},
            "eventID": "x",
        },
    ],
)
def test_a_record_of_another_form_is_told_apart(broken: dict[str, Any]) -> None:
    with pytest.raises(MalformedRow):
        parse_stream_record(broken)
