"""The subscribers table, the parked events and the event buses over a mock of AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from awsmp.adapters.client_errors import translated
from awsmp.adapters.event_bus import EventBuses
from awsmp.adapters.parked_events_store import ParkedEventsStore
from awsmp.adapters.subscribers_store import MalformedRow, SubscribersStore, row_from_item
from awsmp.domain.errors import ConditionFailed, Misconfigured, StoreUnavailable
from awsmp.domain.lifecycle_events import EventKind, Stamp
from awsmp.domain.subscribers import AgreementStatus, SubscriberRow, SubscriptionStatus
from awsmp.usecases.subscription import AgreementLog, Subscribers
from tests.unit.lifecycle_support import (
    AGREEMENT,
    BUYER,
    EVENT_SPELLING,
    LICENSE,
    OTHER_BUYER,
    OTHER_LICENSE,
    PARKED_TABLE,
    PRODUCT,
    SLASH_SPELLING,
    SUBSCRIBERS_TABLE,
    CountingClient,
    FakeEvents,
    ManualClock,
    MemoryAgreementLog,
    MemorySubscribers,
    at,
    create_tables,
    ordered,
)

UPDATED = Stamp(at(0), EventKind.LICENSE_UPDATED, "e-1")
ENDED = Stamp(at(5), EventKind.AGREEMENT_ENDED, "e-2")
DEPROVISIONED = Stamp(at(6), EventKind.LICENSE_DEPROVISIONED, "e-3")

ACTIVE_ROW = SubscriberRow(
    license_arn=LICENSE,
    customer_account=BUYER,
    license_arn_spellings=frozenset({LICENSE, EVENT_SPELLING}),
    product_code=PRODUCT,
    agreement_id=AGREEMENT,
    identity_stamp=UPDATED,
    subscription_status=SubscriptionStatus.ACTIVE,
    subscription_stamp=UPDATED,
    agreement_status=AgreementStatus.ACTIVE,
    agreement_stamp=UPDATED,
    activation_time=at(0),
)
FULL_ROW = replace(
    ACTIVE_ROW,
    subscription_status=SubscriptionStatus.DEPROVISIONING,
    subscription_stamp=DEPROVISIONED,
    deprovisioning_expiry=at(66),
    agreement_status=AgreementStatus.INACTIVE,
    agreement_status_reason="CANCELLED",
    agreement_stamp=ENDED,
    end_time=at(1000),
    end_time_stamp=ENDED,
    auto_renewal=False,
    auto_renewal_stamp=ENDED,
    home_region="eu-west-1",
    registered_regions=frozenset({"eu-west-1", "us-east-2"}),
)


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name="us-east-1")
        create_tables(client)
        yield client


def store_of(client: Any) -> SubscribersStore:
    return SubscribersStore(client, SUBSCRIBERS_TABLE, ManualClock(at(10)))


def item(client: Any, license_arn: str = LICENSE, account: str = BUYER) -> dict[str, Any]:
    key = {"licenseArn": {"S": license_arn}, "customerAWSAccountId": {"S": account}}
    found: dict[str, Any] = client.get_item(TableName=SUBSCRIBERS_TABLE, Key=key, ConsistentRead=True)["Item"]
    return ordered(found)


SUBSCRIBERS: dict[str, Callable[[Any], Subscribers]] = {
    "memory": lambda _client: MemorySubscribers(),
    "dynamodb": store_of,
}
LOGS: dict[str, Callable[[Any], AgreementLog]] = {
    "memory": lambda _client: MemoryAgreementLog(),
    "dynamodb": lambda client: ParkedEventsStore(client, PARKED_TABLE, ManualClock(at(10))),
}


@pytest.mark.parametrize("kind", SUBSCRIBERS)
class TestContractOfSubscribers:
    """The in-memory store of the convergence tests and the real one behave alike."""

    @pytest.mark.parametrize("row", [ACTIVE_ROW, FULL_ROW, SubscriberRow(LICENSE, BUYER)])
    def test_what_was_written_is_found_under_every_spelling(
        self, kind: str, dynamodb: Any, row: SubscriberRow
    ) -> None:
        store = SUBSCRIBERS[kind](dynamodb)
        store.write(None, row)
        for spelling in (LICENSE, EVENT_SPELLING, SLASH_SPELLING):
            (found,) = store.find(spelling, BUYER)
            assert found == row
            assert found.version == 1
        assert store.find(LICENSE, OTHER_BUYER) == []
        assert store.find(OTHER_LICENSE, BUYER) == []

    def test_a_row_is_made_once(self, kind: str, dynamodb: Any) -> None:
        store = SUBSCRIBERS[kind](dynamodb)
        store.write(None, ACTIVE_ROW)
        with pytest.raises(ConditionFailed):
            store.write(None, FULL_ROW)
        assert list(store.find(LICENSE, BUYER)) == [ACTIVE_ROW]

    def test_a_write_over_another_version_is_refused(self, kind: str, dynamodb: Any) -> None:
        store = SUBSCRIBERS[kind](dynamodb)
        store.write(None, ACTIVE_ROW)
        (first,) = store.find(LICENSE, BUYER)
        store.write(first, FULL_ROW)
        with pytest.raises(ConditionFailed):
            store.write(first, replace(first, product_code="late"))
        (now,) = store.find(LICENSE, BUYER)
        assert (now, now.version) == (FULL_ROW, 2)

    def test_a_row_under_another_key_of_the_same_licence_is_found_after_the_own_one(
        self, kind: str, dynamodb: Any
    ) -> None:
        store = SUBSCRIBERS[kind](dynamodb)
        foreign = replace(ACTIVE_ROW, license_arn="arn:aws:license-manager::000000000000:license:L-0A1B2C3D")
        store.write(None, foreign)
        store.write(None, ACTIVE_ROW)
        store.write(None, replace(ACTIVE_ROW, license_arn=OTHER_LICENSE))
        assert list(store.find(EVENT_SPELLING, BUYER)) == [ACTIVE_ROW, foreign]

    def test_rows_of_an_agreement_are_found_by_key(self, kind: str, dynamodb: Any) -> None:
        store = SUBSCRIBERS[kind](dynamodb)
        store.write(None, ACTIVE_ROW)
        store.write(None, replace(ACTIVE_ROW, license_arn=OTHER_LICENSE))
        store.write(None, replace(ACTIVE_ROW, customer_account=OTHER_BUYER, agreement_id="agmt-other"))
        assert sorted(store.of_agreement(AGREEMENT)) == [(LICENSE, BUYER), (OTHER_LICENSE, BUYER)]
        assert list(store.of_agreement("agmt-unknown")) == []


@pytest.mark.parametrize("kind", LOGS)
class TestContractOfTheAgreementLog:
    def test_an_event_parked_twice_is_one_entry_and_the_oldest_comes_first(
        self, kind: str, dynamodb: Any
    ) -> None:
        log = LOGS[kind](dynamodb)
        for stamp, body in (
            (DEPROVISIONED, "third"),
            (UPDATED, "first"),
            (ENDED, "second"),
            (ENDED, "second"),
        ):
            log.park(AGREEMENT, stamp, body, at(100))
        log.park("agmt-other", ENDED, "other", at(100))
        log.link(AGREEMENT, LICENSE, BUYER, at(100))
        assert list(log.parked(AGREEMENT)) == ["first", "second", "third"]

    def test_links_are_distinct_and_of_one_agreement(self, kind: str, dynamodb: Any) -> None:
        log = LOGS[kind](dynamodb)
        log.link(AGREEMENT, LICENSE, BUYER, at(100))
        log.link(AGREEMENT, LICENSE, BUYER, at(101))
        log.link(AGREEMENT, LICENSE, OTHER_BUYER, at(100))
        log.link("agmt-other", OTHER_LICENSE, BUYER, at(100))
        log.park(AGREEMENT, ENDED, "body", at(100))
        assert sorted(log.linked(AGREEMENT)) == [(LICENSE, BUYER), (LICENSE, OTHER_BUYER)]


def test_the_stored_attributes_are_those_of_the_contract(dynamodb: Any) -> None:
    store_of(dynamodb).write(None, FULL_ROW)
    assert item(dynamodb) == {
        "licenseArn": {"S": LICENSE},
        "customerAWSAccountId": {"S": BUYER},
        "licenseArnSpellings": {"SS": [LICENSE, EVENT_SPELLING]},
        "productCode": {"S": PRODUCT},
        "agreementId": {"S": AGREEMENT},
        "agreementStatus": {"S": "inactive"},
        "agreementStatusReason": {"S": "CANCELLED"},
        "subscriptionStatus": {"S": "deprovisioning"},
        "deprovisioningPendingFlag": {"S": "1"},
        "deprovisioningExpiry": {"S": "2026-11-10T09:06:00Z"},
        "endTime": {"S": "2026-11-11T00:40:00Z"},
        "autoRenewal": {"BOOL": False},
        "activationTime": {"S": "2026-11-10T08:00:00Z"},
        "homeRegion": {"S": "eu-west-1"},
        "registeredRegions": {"SS": ["eu-west-1", "us-east-2"]},
        "appliedEvents": {
            "M": {
                register: {"M": {"time": {"S": time}, "type": {"S": kind}, "id": {"S": event_id}}}
                for register, time, kind, event_id in [
                    ("identity", "2026-11-10T08:00:00Z", "License Updated", "e-1"),
                    ("subscription", "2026-11-10T08:06:00Z", "License Deprovisioned", "e-3"),
                    ("agreement", "2026-11-10T08:05:00Z", "Purchase Agreement Ended", "e-2"),
                    ("endTime", "2026-11-10T08:05:00Z", "Purchase Agreement Ended", "e-2"),
                    ("autoRenewal", "2026-11-10T08:05:00Z", "Purchase Agreement Ended", "e-2"),
                ]
            }
        },
        "version": {"N": "1"},
        "createdAt": {"S": "2026-11-10T08:10:00Z"},
        "updatedAt": {"S": "2026-11-10T08:10:00Z"},
    }


def test_created_at_is_written_once_and_updated_at_each_time(dynamodb: Any) -> None:
    store_of(dynamodb).write(None, ACTIVE_ROW)
    later = SubscribersStore(dynamodb, SUBSCRIBERS_TABLE, ManualClock(at(20)))
    (row,) = later.find(LICENSE, BUYER)
    later.write(row, replace(row, home_region="eu-west-1"))
    found = item(dynamodb)
    assert found["createdAt"] == {"S": "2026-11-10T08:10:00Z"}
    assert found["updatedAt"] == {"S": "2026-11-10T08:20:00Z"}


def test_a_revival_removes_both_markers(dynamodb: Any) -> None:
    store = store_of(dynamodb)
    store.write(None, FULL_ROW)
    (row,) = store.find(LICENSE, BUYER)
    store.write(row, ACTIVE_ROW)
    found = item(dynamodb)
    assert "deprovisioningPendingFlag" not in found
    assert "deprovisioningExpiry" not in found
    assert "agreementStatusReason" not in found
    # A set is only added to: what another writer put there is never taken away.
    assert found["registeredRegions"] == {"SS": ["eu-west-1", "us-east-2"]}


def test_attributes_and_set_members_of_others_survive(dynamodb: Any) -> None:
    key = {"licenseArn": {"S": LICENSE}, "customerAWSAccountId": {"S": BUYER}}
    dynamodb.put_item(
        TableName=SUBSCRIBERS_TABLE,
        Item={**key, "tenantId": {"S": "t-1"}, "registeredRegions": {"SS": ["eu-west-1"]}},
    )
    store = store_of(dynamodb)
    (row,) = store.find(LICENSE, BUYER)
    assert row.version == 0
    dynamodb.update_item(
        TableName=SUBSCRIBERS_TABLE,
        Key=key,
        UpdateExpression="ADD registeredRegions :r",
        ExpressionAttributeValues={":r": {"SS": ["us-east-2"]}},
    )
    regions = row.registered_regions | {"ap-south-1"}
    store.write(row, replace(ACTIVE_ROW, registered_regions=regions))
    found = item(dynamodb)
    assert found["tenantId"] == {"S": "t-1"}
    assert set(found["registeredRegions"]["SS"]) == {"eu-west-1", "us-east-2", "ap-south-1"}
    with pytest.raises(ConditionFailed):
        store.write(row, FULL_ROW)


def test_get_takes_one_consistent_read_where_the_row_has_its_own_key(dynamodb: Any) -> None:
    store_of(dynamodb).write(None, ACTIVE_ROW)
    client = CountingClient(dynamodb)
    assert store_of(client).get(EVENT_SPELLING, BUYER) == ACTIVE_ROW
    assert [(name, kwargs["ConsistentRead"]) for name, kwargs in client.calls] == [("get_item", True)]


def test_get_joins_what_stands_under_another_key(dynamodb: Any) -> None:
    foreign = replace(ACTIVE_ROW, license_arn="arn:aws:license-manager::000000000000:license:l-0a1b2c3d")
    store = store_of(dynamodb)
    store.write(None, foreign)
    assert store.get(LICENSE, BUYER) == foreign
    assert store.activation_time(LICENSE, BUYER) == at(0)
    assert store.get(LICENSE, OTHER_BUYER) is None
    assert store.activation_time(LICENSE, OTHER_BUYER) is None


def test_a_legacy_id_that_is_no_arn_stands_for_itself(dynamodb: Any) -> None:
    store = store_of(dynamodb)
    store.write(None, replace(ACTIVE_ROW, license_arn="cust-example-id"))
    assert store.activation_time("cust-example-id", BUYER) == at(0)


def test_deprovisioning_lists_running_last_hours_with_every_spelling(dynamodb: Any) -> None:
    store = store_of(dynamodb)
    store.write(None, FULL_ROW)
    store.write(None, replace(FULL_ROW, license_arn=OTHER_LICENSE, deprovisioning_expiry=at(30)))
    store.write(None, replace(ACTIVE_ROW, customer_account=OTHER_BUYER))
    (running,) = store.deprovisioning(at(40))
    assert running.license_arns == {LICENSE, EVENT_SPELLING}
    assert (running.customer_account, running.expiry) == (BUYER, at(66))
    assert len(store.deprovisioning(at(10))) == 2
    assert store.deprovisioning(at(66) - timedelta(seconds=1)) == [running]
    assert store.deprovisioning(at(66)) == []
    assert [pending.license_arn for pending in store.expired(at(66))] == [OTHER_LICENSE, LICENSE]


@pytest.mark.parametrize(
    "now_there",
    [
        None,
        ACTIVE_ROW,
        replace(FULL_ROW, deprovisioning_expiry=at(20)),
    ],
    ids=["gone", "revived", "expired"],
)
def test_an_index_entry_that_lags_behind_its_row_is_left_out(
    dynamodb: Any, now_there: SubscriberRow | None
) -> None:
    store_of(dynamodb).write(None, FULL_ROW)

    class RowHasMovedOn(CountingClient):
        def get_item(self, **kwargs: Any) -> Any:
            key = {"licenseArn": {"S": LICENSE}, "customerAWSAccountId": {"S": BUYER}}
            dynamodb.delete_item(TableName=SUBSCRIBERS_TABLE, Key=key)
            if now_there is not None:
                store_of(dynamodb).write(None, now_there)
            return dynamodb.get_item(**kwargs)

    assert store_of(RowHasMovedOn(dynamodb)).deprovisioning(at(40)) == []


def test_queries_go_on_to_the_last_page(dynamodb: Any) -> None:
    store = store_of(dynamodb)
    for number in range(5):
        arn = f"arn:aws:license-manager::111122223333:license:l-{number}"
        store.write(None, replace(FULL_ROW, license_arn=arn))

    class SmallPages(CountingClient):
        def query(self, **kwargs: Any) -> Any:
            self.calls.append(("query", kwargs))
            return dynamodb.query(**kwargs, Limit=2)

    client = SmallPages(dynamodb)
    assert len(store_of(client).of_agreement(AGREEMENT)) == 5
    assert len(client.calls) == 3
    assert len(store_of(client).deprovisioning(at(40))) == 5
    assert len(store_of(client).expired(at(70))) == 5


@pytest.mark.parametrize(
    "broken",
    [
        {"subscriptionStatus": {"S": "deprovisioned"}},
        {"deprovisioningExpiry": {"S": "soon"}},
        {"appliedEvents": {"M": {"subscription": {"M": {}}}}},
        {"appliedEvents": {"M": {"unknown": {"M": {}}}}},
        {"version": {"S": "x"}},
    ],
)
def test_a_row_that_we_never_wrote_so_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(MalformedRow):
        row_from_item({"licenseArn": {"S": LICENSE}, "customerAWSAccountId": {"S": BUYER}, **broken})


def test_an_index_entry_with_a_broken_expiry_is_refused(dynamodb: Any) -> None:
    dynamodb.put_item(
        TableName=SUBSCRIBERS_TABLE,
        Item={
            "licenseArn": {"S": LICENSE},
            "customerAWSAccountId": {"S": BUYER},
            "deprovisioningPendingFlag": {"S": "1"},
            "deprovisioningExpiry": {"S": "1762761600"},
        },
    )
    with pytest.raises(MalformedRow, match="deprovisioningExpiry"):
        store_of(dynamodb).expired(at(0))


def test_parked_entries_carry_a_ttl_and_both_times(dynamodb: Any) -> None:
    first = ParkedEventsStore(dynamodb, PARKED_TABLE, ManualClock(at(10)))
    first.park(AGREEMENT, ENDED, "body", at(100))
    again = ParkedEventsStore(dynamodb, PARKED_TABLE, ManualClock(at(20)))
    again.park(AGREEMENT, ENDED, "body", at(110))
    (entry,) = dynamodb.scan(TableName=PARKED_TABLE)["Items"]
    assert entry == {
        "agreementId": {"S": AGREEMENT},
        "entryKey": {"S": "event#2026-11-10T08:05:00Z#e-2"},
        "eventType": {"S": "Purchase Agreement Ended"},
        "envelope": {"S": "body"},
        "ttl": {"N": str(int(at(110).timestamp()))},
        "createdAt": {"S": "2026-11-10T08:10:00Z"},
        "updatedAt": {"S": "2026-11-10T08:20:00Z"},
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ConditionalCheckFailedException", ConditionFailed),
        ("AccessDeniedException", Misconfigured),
        ("ResourceNotFoundException", Misconfigured),
        ("ValidationException", Misconfigured),
        ("ProvisionedThroughputExceededException", StoreUnavailable),
        ("InternalServerError", StoreUnavailable),
    ],
)
def test_aws_errors_are_named(code: str, expected: type[Exception]) -> None:
    def call() -> None:
        with translated("some call"):
            raise ClientError({"Error": {"Code": code, "Message": "mentions 123456789012"}}, "Op")

    with pytest.raises(expected) as failure:
        call()
    assert "some call" in str(failure.value)
    assert "123456789012" not in str(failure.value)


def test_a_lost_connection_is_named() -> None:
    def call() -> None:
        with translated("some call"):
            raise EndpointConnectionError(endpoint_url="https://dynamodb.us-east-1.amazonaws.com")

    with pytest.raises(StoreUnavailable, match="EndpointConnectionError"):
        call()


def bus(name: str, region: str = "eu-west-1") -> str:
    return f"arn:aws:events:{region}:111122223333:event-bus/{name}"


def forward(buses: EventBuses) -> int:
    return buses.forward("own.source", "Some Type", at(0), '{"a":1}')


def test_every_bus_gets_the_event_through_a_client_of_its_own_region() -> None:
    clients = {region: FakeEvents(region) for region in ("eu-west-1", "us-east-1")}
    buses = EventBuses(
        {"one": bus("one"), "two": bus("two"), "home": bus("home", "us-east-1")}, clients.__getitem__
    )
    assert forward(buses) == 3
    assert [entry["EventBusName"] for entry in clients["eu-west-1"].taken] == [bus("one"), bus("two")]
    assert clients["us-east-1"].taken == [
        {
            "EventBusName": bus("home", "us-east-1"),
            "Source": "own.source",
            "DetailType": "Some Type",
            "Time": at(0),
            "Detail": '{"a":1}',
        }
    ]


def test_no_bus_is_fine() -> None:
    assert forward(EventBuses({}, FakeEvents)) == 0


def test_more_buses_than_one_request_takes_are_sent_in_several() -> None:
    client = FakeEvents()
    assert forward(EventBuses({f"bus-{n}": bus(f"bus-{n}") for n in range(23)}, lambda _region: client)) == 23
    assert len(client.taken) == 23


def test_a_failed_entry_fails_the_event_after_every_bus_was_tried() -> None:
    clients = {
        "eu-west-1": FakeEvents(refusing={bus("bad")}),
        "us-east-1": FakeEvents(),
    }
    buses = EventBuses(
        {"a-good": bus("good"), "b-bad": bus("bad"), "c-home": bus("home", "us-east-1")}, clients.__getitem__
    )
    with pytest.raises(StoreUnavailable, match="b-bad: InternalFailure"):
        forward(buses)
    assert len(clients["eu-west-1"].taken) == 1
    assert len(clients["us-east-1"].taken) == 1


@pytest.mark.parametrize("value", ["default", "", "arn:aws:events:eu-west-1:111122223333:rule/x"])
def test_a_bus_that_is_no_arn_is_a_configuration_error(value: str) -> None:
    with pytest.raises(Misconfigured, match="some-bus"):
        EventBuses({"some-bus": value}, FakeEvents)


def test_real_request_shapes_are_taken_by_the_api_model() -> None:
    with mock_aws():
        client = boto3.client("events", region_name="eu-west-1")
        arn = client.create_event_bus(Name="notifications")["EventBusArn"]
        assert forward(EventBuses({"n": arn}, lambda _region: client)) == 1
