"""How the fake behaves, through boto3 over HTTP and through the in-process client alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ParamValidationError, ReadTimeoutError

from sandbox.fake_marketplace import (
    FakeMarketplace,
    Fault,
    FaultRates,
    InProcessMarketplaceClient,
    Lost,
    Moment,
    RecordEffect,
    Settings,
)
from sandbox.fake_marketplace.faults import UNKNOWN_STATUS
from sandbox.fake_marketplace.server import FakeMarketplaceServer, Service
from sandbox.fake_marketplace.subscriptions import License

BUYER = "111122223333"
OTHER_BUYER = "444455556666"
SELLER = "123456789012"
PRODUCT = "exampleproductcode"
OTHER_PRODUCT = "otherproductcode"
REGION = "eu-west-1"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
#: Seconds: long enough for the largest request on a machine that is busy, as some tests wait for its end.
READ_TIMEOUT = 3.0


class SettableClock:
    def __init__(self, instant: datetime) -> None:
        self.instant = instant

    def now(self) -> datetime:
        return self.instant

    def pass_seconds(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)


class HttpClients:
    """boto3 clients of one server, made once per Region and account."""

    def __init__(self, server: FakeMarketplaceServer) -> None:
        self._server = server
        self._clients: dict[tuple[str, str], Any] = {}

    def serve(self, engine: FakeMarketplace) -> None:
        self._server.service = Service(engine=engine)

    def client(self, region: str, account: str) -> Any:
        if (region, account) not in self._clients:
            self._clients[region, account] = boto3.client(
                "meteringmarketplace",
                region_name=region,
                endpoint_url=self._server.endpoint,
                aws_access_key_id=account,
                aws_secret_access_key="not-a-secret",
                config=Config(retries={"total_max_attempts": 1}, read_timeout=READ_TIMEOUT),
            )
        return self._clients[region, account]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


@pytest.fixture(scope="module")
def http() -> Iterator[HttpClients]:
    with FakeMarketplaceServer(Service()) as server:
        clients = HttpClients(server)
        yield clients
        clients.close()


@dataclass
class Market:
    clock: SettableClock
    engine: FakeMarketplace
    make_client: Callable[[str, str], Any]
    licenses: dict[str, License] = field(default_factory=dict)

    def client(self, region: str = REGION, account: str = SELLER) -> Any:
        return self.make_client(region, account)

    def license(self, product: str = PRODUCT, buyer: str = BUYER, activated: datetime = LONG_AGO) -> License:
        return self.engine.subscribe(product, buyer, activate_at=activated).license

    def send(
        self, *records: dict[str, Any], region: str = REGION, account: str = SELLER, **request: Any
    ) -> Any:
        return self.client(region, account).batch_meter_usage(UsageRecords=list(records), **request)

    def refusal(self, *records: dict[str, Any], **request: Any) -> str:
        """Send what must be refused as a whole; return the exception's name."""
        honoured = self.engine.honoured_count()
        with pytest.raises(ClientError) as caught:
            self.send(*records, **request)
        assert self.engine.honoured_count() == honoured, "a refused request honours nothing"
        return str(caught.value.response["Error"]["Code"])

    def statuses(self, *records: dict[str, Any], **request: Any) -> list[str]:
        return [result["Status"] for result in self.send(*records, **request)["Results"]]


@pytest.fixture(params=["in-process", "http"])
def market(request: pytest.FixtureRequest) -> Market:
    clock = SettableClock(NOON)
    engine = FakeMarketplace(clock, Settings(seed=7))
    engine.create_product(PRODUCT, ["requests", "gigabytes"])
    engine.create_product(OTHER_PRODUCT, ["requests"])
    if request.param == "http":
        http: HttpClients = request.getfixturevalue("http")
        http.serve(engine)
        return Market(clock, engine, http.client)
    return Market(
        clock,
        engine,
        lambda region, account: InProcessMarketplaceClient(
            engine, region=region, account=account, read_timeout=READ_TIMEOUT
        ),
    )


def usage(grant: License, **changes: Any) -> dict[str, Any]:
    """Return a good record for ``grant`` (this hour, one request) with ``changes``; ``None`` leaves out."""
    record = {
        "Timestamp": NOON,
        "Dimension": "requests",
        "CustomerAWSAccountId": grant.customer_account,
        "LicenseArn": grant.arn,
        "Quantity": 1,
    } | changes
    return {name: value for name, value in record.items() if value is not None}


def allocation(quantity: int | str, **tags: str) -> dict[str, Any]:
    name = "AllocatedUsageQuantity" if isinstance(quantity, int) else "AllocatedUsageQuantityAsDecimal"
    bucket: dict[str, Any] = {name: quantity}
    if tags:
        bucket["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    return bucket


# ---------------------------------------------------------------------- answers


def test_an_accepted_record_is_echoed_with_success_and_an_id(market: Market) -> None:
    record = usage(market.license(), UsageAllocations=[allocation(1, team="a")])
    answer = market.send(record)
    (result,) = answer["Results"]
    assert result == {
        "UsageRecord": record,
        "Status": "Success",
        "MeteringRecordId": result["MeteringRecordId"],
    }
    assert result["UsageRecord"]["Timestamp"].tzinfo is not None
    assert answer["UnprocessedRecords"] == []
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert answer["ResponseMetadata"]["RequestId"] == market.engine.requests()[0].request_id


def test_a_request_without_records_is_answered_with_none(market: Market) -> None:
    answer = market.send()
    assert (answer["Results"], answer["UnprocessedRecords"]) == ([], [])


def test_an_omitted_quantity_counts_as_zero(market: Market) -> None:
    assert market.statuses(usage(market.license(), Quantity=None)) == ["Success"]
    assert [record.quantity for record in market.engine.honoured()] == [0]


@pytest.mark.parametrize(
    ("values", "quantity"),
    [
        ({"Quantity": 0}, Decimal(0)),
        ({"Quantity": 2_147_483_647}, Decimal(2_147_483_647)),
        ({"Quantity": None, "QuantityAsDecimal": "0"}, Decimal(0)),
        ({"Quantity": None, "QuantityAsDecimal": "17.42"}, Decimal("17.42")),
        ({"Quantity": None, "QuantityAsDecimal": "9999999999.999999"}, Decimal("9999999999.999999")),
    ],
)
def test_quantities_up_to_their_limits_are_accepted(
    market: Market, values: dict[str, Any], quantity: Decimal
) -> None:
    assert market.statuses(usage(market.license(), **values)) == ["Success"]
    assert [record.quantity for record in market.engine.honoured()] == [quantity]


def test_callers_may_reuse_their_records_without_changing_history(market: Market) -> None:
    record = usage(market.license(), UsageAllocations=[allocation(1, team="a")])
    answer = market.send(record)
    for copy in (record, answer["Results"][0]["UsageRecord"]):
        copy["Quantity"] = 99
        copy["UsageAllocations"][0]["Tags"][0]["Value"] = "b"
    (honoured,) = market.engine.honoured()
    assert honoured.record["Quantity"] == 1
    assert honoured.record["UsageAllocations"][0]["Tags"] == [{"Key": "team", "Value": "a"}]


# ---------------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("now", "timestamp", "accepted"),
    [
        # the last second before the month closes, and the first after
        ("2026-12-01T05:59:59", "2026-11-30T23:00:00", True),
        ("2026-12-01T06:00:00", "2026-11-30T23:00:00", False),
        # an open month does not reach past the ordinary window
        ("2026-12-01T05:00:00", "2026-11-30T04:59:00", False),
        ("2026-12-01T05:00:00", "2026-11-30T05:00:00", False),
        ("2026-12-01T05:00:00", "2026-11-30T05:00:01", True),
        # exactly 24 hours is too old, one second less is not
        ("2026-11-15T10:00:00", "2026-11-14T10:00:00", False),
        ("2026-11-15T09:59:59", "2026-11-14T10:00:00", True),
        # now is the youngest
        ("2026-11-15T10:00:00", "2026-11-15T10:00:00", True),
        ("2026-11-15T10:00:00", "2026-11-15T10:00:01", False),
        # this month's records do not mind the wall
        ("2026-12-01T06:00:00", "2026-12-01T00:00:00", True),
        ("2026-12-01T23:00:00", "2026-12-01T00:00:00", True),
        # the year turns, a short month ends
        ("2027-01-01T05:59:59", "2026-12-31T23:59:59", True),
        ("2027-01-01T06:00:00", "2026-12-31T23:59:59", False),
        ("2027-03-01T05:00:00", "2027-02-28T20:00:00", True),
        ("2027-03-01T06:00:00", "2027-02-28T20:00:00", False),
        # the second day of a month: yesterday is this month
        ("2026-12-02T00:30:00", "2026-12-01T01:00:00", True),
    ],
)
def test_timestamps_are_taken_within_the_window_and_the_open_months(
    market: Market, now: str, timestamp: str, accepted: bool
) -> None:
    market.clock.instant = datetime.fromisoformat(now).replace(tzinfo=UTC)
    record = usage(market.license(), Timestamp=datetime.fromisoformat(timestamp).replace(tzinfo=UTC))
    if accepted:
        assert market.statuses(record) == ["Success"]
    else:
        assert market.refusal(record) == "TimestampOutOfBoundsException"


@pytest.mark.parametrize("hours", [1, 6, 24])
def test_the_window_is_a_setting(market: Market, hours: int) -> None:
    market.engine.configure(window_hours=hours)
    grant = market.license()
    oldest = NOON - timedelta(hours=hours)
    assert market.refusal(usage(grant, Timestamp=oldest)) == "TimestampOutOfBoundsException"
    assert market.statuses(usage(grant, Timestamp=oldest + timedelta(seconds=1))) == ["Success"]


def test_one_old_record_sinks_the_whole_batch(market: Market) -> None:
    grant = market.license()
    old = usage(grant, Timestamp=NOON - timedelta(hours=25))
    assert market.refusal(usage(grant), old) == "TimestampOutOfBoundsException"


# ---------------------------------------------------------------------- shapes and limits


def test_twenty_five_records_are_taken_and_twenty_six_are_not(market: Market) -> None:
    grant = market.license()
    records = [usage(grant, Timestamp=NOON - timedelta(minutes=30 * n)) for n in range(26)]
    assert market.refusal(*records) == "ValidationException"
    assert len(market.send(*records[:25])["Results"]) == 25


def test_a_request_must_be_smaller_than_a_megabyte(market: Market) -> None:
    grant = market.license()

    def with_buckets(count: int) -> dict[str, Any]:
        buckets = [allocation(1, **{"k" * 100: f"{n:0256d}"}) for n in range(count)]
        return usage(grant, Quantity=count, UsageAllocations=buckets)

    assert market.refusal(with_buckets(2400)) == "ValidationException"
    assert market.statuses(with_buckets(2100)) == ["Success"]


@pytest.mark.parametrize(
    "changes",
    [
        {"Quantity": 2_147_483_648},
        {"Quantity": True},
        {"Quantity": None, "QuantityAsDecimal": "01"},
        {"Quantity": None, "QuantityAsDecimal": "1.1234567"},
        {"Quantity": None, "QuantityAsDecimal": "12345678901"},
        {"Quantity": None, "QuantityAsDecimal": ".5"},
        {"Quantity": None, "QuantityAsDecimal": "1."},
        {"Quantity": None, "QuantityAsDecimal": "1e3"},
        {"Quantity": None, "QuantityAsDecimal": "-1"},
        {"Quantity": None, "QuantityAsDecimal": "1\n"},
        {"Quantity": 1, "QuantityAsDecimal": "1"},
        {"Dimension": "d" * 256},
        {"CustomerAWSAccountId": "abc"},
        {"CustomerAWSAccountId": "1" * 256},
        {"LicenseArn": "aws:license-manager:us-east-1:123456789012:l-0123456789abcdef0123456789abcdef"},
        {"LicenseArn": "arn:aws:license-manager"},
        {"CustomerIdentifier": "customer-1"},
        {"UsageAllocations": [allocation(2_147_483_648)], "Quantity": 1},
    ],
    ids=lambda changes: ",".join(f"{name}={str(value)[:24]!r}" for name, value in changes.items()),
)
def test_a_malformed_record_refuses_the_request(market: Market, changes: dict[str, Any]) -> None:
    grant = market.license()
    assert (
        market.refusal(usage(grant, Dimension="gigabytes"), usage(grant, **changes)) == "ValidationException"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"Quantity": -1},
        {"Quantity": 1.5},
        {"Quantity": "1"},
        {"Quantity": None, "QuantityAsDecimal": 1.5},
        {"Quantity": None, "QuantityAsDecimal": ""},
        {"Dimension": ""},
        {"Dimension": None},
        {"Timestamp": None},
        {"Timestamp": "not a time"},
        {"CustomerAWSAccountId": ""},
        {"UsageAllocations": []},
        {"UsageAllocations": [{"AllocatedUsageQuantity": 1, "Tags": []}]},
        {"UsageAllocations": [{"AllocatedUsageQuantity": 1, "Tags": [{"Key": "k", "Value": ""}]}]},
        {"NoSuchMember": 1},
    ],
    ids=lambda changes: ",".join(f"{name}={str(value)[:24]!r}" for name, value in changes.items()),
)
def test_botocore_itself_refuses_these_before_sending(market: Market, changes: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        market.send(usage(market.license(), **changes))
    assert market.engine.requests() == ()


def test_a_record_must_name_a_customer(market: Market) -> None:
    record = usage(market.license(), CustomerAWSAccountId=None)
    assert market.refusal(record) == "InvalidCustomerIdentifierException"


def test_an_unknown_dimension_refuses_the_request(market: Market) -> None:
    grant = market.license()
    assert (
        market.refusal(usage(grant), usage(grant, Dimension="Requests")) == "InvalidUsageDimensionException"
    )


@pytest.mark.parametrize(
    "tags",
    [
        {f"k{n}": "v" for n in range(6)},
        {"k" * 101: "v"},
        {"k": "v" * 257},
        {"k": "a|b"},
        {"k": "a?b"},
        {"k": "a>b"},
        {"k": "a\\b"},
        {"k": "a\tb"},
        {"k": "größe"},
        {"schlüssel": "v"},
    ],
    ids=lambda tags: str(tags)[:30],
)
def test_a_bad_tag_refuses_the_request(market: Market, tags: dict[str, str]) -> None:
    record = usage(market.license(), UsageAllocations=[allocation(1, **tags)])
    assert market.refusal(record) == "InvalidTagException"


def test_the_tag_pattern_allows_more_than_it_seems_to(market: Market) -> None:
    tags = {
        "k" * 100: ",;#\"&()%<'*!$+-=._:/@ 09azAZ",
        "empty bucket": "v" * 256,
        "a": "b",
        "c": "d",
        "e": "f",
    }
    record = usage(market.license(), UsageAllocations=[allocation(1, **tags)])
    assert market.statuses(record) == ["Success"]


@pytest.mark.parametrize(
    ("changes", "allocations"),
    [
        ({"Quantity": 3}, [allocation(1, t="a"), allocation(1, t="b")]),
        ({"Quantity": None}, [allocation(1)]),
        ({"Quantity": 1}, [allocation("1")]),
        ({"Quantity": None, "QuantityAsDecimal": "1"}, [allocation(1)]),
        (
            {"Quantity": None, "QuantityAsDecimal": "0.3"},
            [allocation("0.1", t="a"), allocation("0.1", t="b")],
        ),
        ({"Quantity": 1}, [{"AllocatedUsageQuantity": 1, "AllocatedUsageQuantityAsDecimal": "1"}]),
        ({"Quantity": 0}, [{"Tags": [{"Key": "t", "Value": "a"}]}]),
        ({"Quantity": 2}, [allocation(1, t="a"), allocation(1, t="a")]),
        ({"Quantity": 2}, [allocation(1, t="a", u="b"), allocation(1, u="b", t="a")]),
        ({"Quantity": 2}, [allocation(1), allocation(1)]),
        ({"Quantity": 2501}, [allocation(1, t=str(n)) for n in range(2501)]),
    ],
    ids=[
        "sum",
        "sum against the default quantity",
        "decimal in a whole record",
        "whole in a decimal record",
        "decimal sum",
        "two quantities",
        "no quantity",
        "same tags",
        "same tags in another order",
        "two untagged",
        "2501 allocations",
    ],
)
def test_inconsistent_allocations_refuse_the_request(
    market: Market, changes: dict[str, Any], allocations: list[dict[str, Any]]
) -> None:
    record = usage(market.license(), **changes, UsageAllocations=allocations)
    assert market.refusal(record) == "InvalidUsageAllocationsException"


@pytest.mark.parametrize(
    ("changes", "allocations"),
    [
        ({"Quantity": 3}, [allocation(1, t="a"), allocation(2)]),
        (
            {"Quantity": None, "QuantityAsDecimal": "0.3"},
            [allocation("0.1", t="a"), allocation("0.2", t="b")],
        ),
        ({"Quantity": 2500}, [allocation(1, t=str(n)) for n in range(2500)]),
        ({"Quantity": 0}, [allocation(0, t="a")]),
        ({"Quantity": None}, [allocation("0", t="a")]),
    ],
    ids=["untagged bucket", "decimals add exactly", "2500 allocations", "zero", "default quantity"],
)
def test_consistent_allocations_are_taken(
    market: Market, changes: dict[str, Any], allocations: list[dict[str, Any]]
) -> None:
    assert market.statuses(usage(market.license(), **changes, UsageAllocations=allocations)) == ["Success"]


def test_repeated_tag_sets_are_a_switch(market: Market) -> None:
    market.engine.configure(distinct_tag_sets=False)
    buckets = [allocation(1, t="a"), allocation(1, t="a")]
    assert market.statuses(usage(market.license(), Quantity=2, UsageAllocations=buckets)) == ["Success"]


# ---------------------------------------------------------------------- first write wins


def honoured_quantities(market: Market) -> list[Any]:
    return [record.quantity for record in market.engine.honoured()]


def test_an_identical_resend_succeeds_under_the_same_id(market: Market) -> None:
    grant = market.license()
    ids = {market.send(usage(grant))["Results"][0]["MeteringRecordId"] for _ in range(3)}
    assert len(ids) == 1
    assert honoured_quantities(market) == [1]


def test_an_identical_resend_may_be_told_to_be_a_duplicate(market: Market) -> None:
    market.engine.configure(identical_resend="DuplicateRecord")
    grant = market.license()
    assert [market.statuses(usage(grant)) for _ in range(2)] == [["Success"], ["DuplicateRecord"]]
    assert honoured_quantities(market) == [1]


@pytest.mark.parametrize("switch", ["Success", "DuplicateRecord"])
def test_another_quantity_for_the_same_hour_is_a_duplicate_and_not_honoured(
    market: Market, switch: str
) -> None:
    market.engine.configure(identical_resend=switch)
    grant = market.license()
    market.send(usage(grant, Quantity=5))
    (result,) = market.send(usage(grant, Quantity=6))["Results"]
    assert result["Status"] == "DuplicateRecord"
    assert honoured_quantities(market) == [5]


@pytest.mark.parametrize(
    ("second", "status"),
    [
        ({"Quantity": None, "QuantityAsDecimal": "17"}, "Success"),
        ({"Quantity": None, "QuantityAsDecimal": "17.00"}, "Success"),
        ({"Quantity": None, "QuantityAsDecimal": "17.000001"}, "DuplicateRecord"),
    ],
)
def test_quantities_are_compared_by_value(market: Market, second: dict[str, Any], status: str) -> None:
    grant = market.license()
    market.send(usage(grant, Quantity=17))
    assert market.statuses(usage(grant, **second)) == [status]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Timestamp": NOON - timedelta(hours=1)}, "Success"),
        ({"Dimension": "gigabytes"}, "Success"),
        ({"Timestamp": NOON - timedelta(seconds=1)}, "Success"),
        ({"Timestamp": NOON + timedelta(minutes=59, seconds=59)}, "DuplicateRecord"),
    ],
    ids=["hour before", "other dimension", "second before the hour", "same hour's end"],
)
def test_the_key_is_license_customer_dimension_and_hour(
    market: Market, changes: dict[str, Any], status: str
) -> None:
    market.clock.pass_seconds(3599)
    grant = market.license()
    market.send(usage(grant))
    assert market.statuses(usage(grant, Quantity=2, **changes)) == [status]


def test_two_licenses_of_one_customer_are_metered_apart(market: Market) -> None:
    one, two = market.license(), market.license()
    assert market.statuses(usage(one, Quantity=1), usage(two, Quantity=2)) == ["Success", "Success"]
    assert market.engine.billed_twice() == {}


def test_within_one_request_the_first_record_wins(market: Market) -> None:
    grant = market.license()
    records = [usage(grant), usage(grant, Quantity=2), usage(grant)]
    assert market.statuses(*records) == ["Success", "DuplicateRecord", "Success"]
    assert honoured_quantities(market) == [1]


@pytest.mark.parametrize(
    ("scope", "status", "honoured"), [("region", "Success", [1, 2]), ("global", "DuplicateRecord", [1])]
)
def test_whether_regions_see_each_others_records_is_a_switch(
    market: Market, scope: str, status: str, honoured: list[int]
) -> None:
    market.engine.configure(dedup_scope=scope)
    grant = market.license()
    market.send(usage(grant), region="eu-west-1")
    assert market.statuses(usage(grant, Quantity=2), region="us-east-1") == [status]
    assert honoured_quantities(market) == honoured
    assert len(market.engine.billed_twice()) == len(honoured) - 1


# ---------------------------------------------------------------------- subscriptions


def test_usage_is_taken_for_an_hour_after_deprovisioning(market: Market) -> None:
    grant = market.license()
    market.engine.deprovision_license(grant.arn)
    market.clock.pass_seconds(3599)
    assert market.statuses(usage(grant)) == ["Success"]
    market.clock.pass_seconds(1)
    assert market.statuses(usage(grant, Dimension="gigabytes")) == ["CustomerNotSubscribed"]
    assert honoured_quantities(market) == [1]


def test_deprovisioning_may_close_usage_at_once(market: Market) -> None:
    market.engine.configure(deprovision_grace_seconds=0)
    grant = market.license()
    market.engine.deprovision_license(grant.arn)
    assert market.statuses(usage(grant)) == ["CustomerNotSubscribed"]


@pytest.mark.parametrize(
    ("switch", "answers"),
    [
        ("CustomerNotSubscribed", ["CustomerNotSubscribed"] * 3),
        ("as-before", ["Success", "CustomerNotSubscribed", "CustomerNotSubscribed"]),
    ],
)
def test_the_answer_to_a_resend_after_the_close_is_a_switch(
    market: Market, switch: str, answers: list[str]
) -> None:
    market.engine.configure(resend_after_close=switch)
    grant = market.license()
    market.send(usage(grant))
    market.engine.deprovision_license(grant.arn)
    market.clock.pass_seconds(3600)
    resent = [usage(grant), usage(grant, Quantity=2), usage(grant, Dimension="gigabytes")]
    assert market.statuses(*resent) == answers
    assert honoured_quantities(market) == [1]


def test_an_unsubscribed_customer_costs_its_neighbours_nothing(market: Market) -> None:
    gone, here = market.license(), market.license(buyer=OTHER_BUYER)
    market.engine.deprovision_license(gone.arn)
    market.clock.pass_seconds(3600)
    assert market.statuses(usage(gone), usage(here)) == ["CustomerNotSubscribed", "Success"]


def test_an_ended_agreement_alone_stops_no_usage(market: Market) -> None:
    grant = market.license()
    market.engine.end_agreement(grant.agreement_id)
    assert market.statuses(usage(grant)) == ["Success"]


def test_a_suspended_account_is_not_subscribed_until_it_is_resumed(market: Market) -> None:
    grant = market.license()
    market.engine.suspend_account(BUYER)
    assert market.statuses(usage(grant)) == ["CustomerNotSubscribed"]
    market.engine.resume_account(BUYER)
    assert market.statuses(usage(grant)) == ["Success"]


@pytest.mark.parametrize(
    ("switch", "answer"),
    [
        ("InvalidLicenseException", "InvalidLicenseException"),
        ("CustomerNotSubscribed", "CustomerNotSubscribed"),
        ("accept", "Success"),
    ],
)
def test_usage_before_activation_is_a_switch(market: Market, switch: str, answer: str) -> None:
    market.engine.configure(before_activation=switch)
    activated = NOON + timedelta(minutes=20)
    market.clock.instant = NOON + timedelta(minutes=40)
    record = usage(market.license(activated=activated), Timestamp=activated - timedelta(seconds=1))
    if answer == "InvalidLicenseException":
        assert market.refusal(record) == answer
    else:
        assert market.statuses(record) == [answer]


def test_usage_of_the_activation_hour_is_taken_with_the_activation_time(market: Market) -> None:
    activated = NOON + timedelta(minutes=20, microseconds=900)
    market.clock.instant = NOON + timedelta(minutes=40)
    grant = market.license(activated=activated)
    assert market.refusal(usage(grant, Timestamp=NOON)) == "InvalidLicenseException"
    assert market.statuses(usage(grant, Timestamp=activated.replace(microsecond=0))) == ["Success"]


def test_a_license_that_was_never_activated_takes_no_usage(market: Market) -> None:
    agreement, _ = market.engine.create_agreement(PRODUCT, BUYER)
    grant = market.engine.create_license(agreement.agreement_id)
    assert market.refusal(usage(grant)) == "InvalidLicenseException"


def test_a_license_must_exist_and_be_the_customers(market: Market) -> None:
    grant = market.license()
    unknown = "arn:aws:license-manager::123456789012:license:l-00000000000000000000000000000000"
    assert market.refusal(usage(grant, LicenseArn=unknown)) == "InvalidLicenseException"
    assert market.refusal(usage(grant, CustomerAWSAccountId=OTHER_BUYER)) == "InvalidLicenseException"


def test_two_products_do_not_fit_into_one_request(market: Market) -> None:
    records = [usage(market.license()), usage(market.license(OTHER_PRODUCT))]
    assert market.refusal(*records) == "InvalidLicenseException"


def test_only_the_publishing_account_may_meter_an_owned_product(market: Market) -> None:
    market.engine.create_product("ownedproduct", ["requests"], owner_account=SELLER)
    grant = market.license("ownedproduct")
    assert market.refusal(usage(grant), account="999900001111") == "InvalidLicenseException"
    assert market.statuses(usage(grant), account=SELLER) == ["Success"]


def test_a_license_may_have_fewer_dimensions_than_its_product(market: Market) -> None:
    agreement = market.engine.subscribe(PRODUCT, BUYER, activate_at=LONG_AGO, dimensions=["gigabytes"])
    assert market.refusal(usage(agreement.license)) == "InvalidUsageDimensionException"
    assert market.statuses(usage(agreement.license, Dimension="gigabytes")) == ["Success"]


def test_an_update_may_change_what_a_license_meters(market: Market) -> None:
    grant = market.license()
    market.engine.update_license(grant.arn, dimensions=["gigabytes"])
    assert market.refusal(usage(grant)) == "InvalidUsageDimensionException"
    assert market.statuses(usage(grant, Dimension="gigabytes")) == ["Success"]


# ---------------------------------------------------------------------- product codes and legacy customers


def legacy_usage(**changes: Any) -> dict[str, Any]:
    record = {"Timestamp": NOON, "Dimension": "requests", "CustomerIdentifier": "customer-1", "Quantity": 1}
    return {name: value for name, value in (record | changes).items() if value is not None}


def test_a_product_code_beside_a_license_is_refused(market: Market) -> None:
    record = usage(market.license())
    assert market.refusal(record, ProductCode=PRODUCT) == "InvalidProductCodeException"


def test_a_tolerated_product_code_must_at_least_be_the_licenses(market: Market) -> None:
    market.engine.configure(product_code_with_license="tolerate")
    grant = market.license()
    assert market.refusal(usage(grant), ProductCode=OTHER_PRODUCT) == "InvalidProductCodeException"
    assert market.statuses(usage(grant), ProductCode=PRODUCT) == ["Success"]


def test_a_legacy_customer_is_metered_by_product_code(market: Market) -> None:
    market.engine.create_legacy_customer(PRODUCT, "customer-1", BUYER)
    assert market.statuses(legacy_usage(), ProductCode=PRODUCT) == ["Success"]
    assert market.statuses(legacy_usage(), ProductCode=PRODUCT) == ["Success"]
    assert market.statuses(legacy_usage(Quantity=2), ProductCode=PRODUCT) == ["DuplicateRecord"]
    assert honoured_quantities(market) == [1]


def test_a_legacy_customer_named_by_account_has_the_same_key(market: Market) -> None:
    market.engine.create_legacy_customer(PRODUCT, "customer-1", BUYER)
    market.send(legacy_usage(), ProductCode=PRODUCT)
    by_account = legacy_usage(CustomerIdentifier=None, CustomerAWSAccountId=BUYER, Quantity=2)
    assert market.statuses(by_account, ProductCode=PRODUCT) == ["DuplicateRecord"]


def test_legacy_usage_needs_a_known_product_code(market: Market) -> None:
    market.engine.create_legacy_customer(PRODUCT, "customer-1", BUYER)
    assert market.refusal(legacy_usage()) == "InvalidProductCodeException"
    assert market.refusal(legacy_usage(), ProductCode="unknown") == "InvalidProductCodeException"
    assert (
        market.refusal(legacy_usage(Dimension="x"), ProductCode=PRODUCT) == "InvalidUsageDimensionException"
    )


def test_only_the_publishing_account_may_meter_by_product_code(market: Market) -> None:
    market.engine.create_product("ownedproduct", ["requests"], owner_account=SELLER)
    market.engine.create_legacy_customer("ownedproduct", "customer-1", BUYER)
    request = {"ProductCode": "ownedproduct"}
    assert market.refusal(legacy_usage(), account="999900001111", **request) == "InvalidProductCodeException"
    assert market.statuses(legacy_usage(), **request) == ["Success"]


def test_an_unknown_legacy_customer_is_a_switch(market: Market) -> None:
    assert market.refusal(legacy_usage(), ProductCode=PRODUCT) == "InvalidCustomerIdentifierException"
    market.engine.configure(unknown_customer="CustomerNotSubscribed")
    assert market.statuses(legacy_usage(), ProductCode=PRODUCT) == ["CustomerNotSubscribed"]


def test_a_legacy_subscription_ends_an_hour_after_its_end(market: Market) -> None:
    market.engine.create_legacy_customer(PRODUCT, "customer-1", BUYER)
    market.engine.end_legacy_customer(PRODUCT, "customer-1")
    assert market.statuses(legacy_usage(), ProductCode=PRODUCT) == ["Success"]
    market.clock.pass_seconds(3600)
    late = legacy_usage(Dimension="gigabytes")
    assert market.statuses(late, ProductCode=PRODUCT) == ["CustomerNotSubscribed"]


def test_the_same_usage_by_product_code_and_by_license_is_billed_by_both(market: Market) -> None:
    """The documented double billing of a careless migration: nothing on AWS's side prevents it."""
    market.engine.create_legacy_customer(PRODUCT, "customer-1", BUYER)
    market.send(legacy_usage(), ProductCode=PRODUCT)
    assert market.statuses(usage(market.license())) == ["Success"]
    assert honoured_quantities(market) == [1, 1]


# ---------------------------------------------------------------------- quota


def hourly(grant: License, count: int) -> list[dict[str, Any]]:
    return [usage(grant, Timestamp=NOON - timedelta(hours=n)) for n in range(count)]


def test_the_eleventh_request_of_a_burst_is_throttled(market: Market) -> None:
    records = hourly(market.license(), 11)
    for record in records[:10]:
        market.send(record)
    assert market.refusal(records[10]) == "ThrottlingException"
    market.clock.pass_seconds(0.1)
    assert market.statuses(records[10]) == ["Success"]
    assert market.refusal(records[10]) == "ThrottlingException"


def test_ten_requests_a_second_can_be_kept_up(market: Market) -> None:
    record = usage(market.license())
    for _ in range(35):
        assert market.statuses(record) == ["Success"]
        market.clock.pass_seconds(0.1)
    assert market.engine.max_requests_in_any_second() == 10


def test_regions_and_accounts_have_their_own_quota(market: Market) -> None:
    market.engine.configure(quota_burst=1)
    record = usage(market.license())
    callers = [("eu-west-1", SELLER), ("us-east-1", SELLER), ("eu-west-1", "999900001111")]
    for region, account in callers:
        market.send(record, region=region, account=account)
    for region, account in callers:
        assert market.refusal(record, region=region, account=account) == "ThrottlingException"


def test_an_api_that_is_disabled_in_a_region_says_so(market: Market) -> None:
    market.engine.configure(disabled_regions=["eu-west-1"])
    record = usage(market.license())
    assert market.refusal(record) == "DisabledApiException"
    assert market.statuses(record, region="us-east-1") == ["Success"]


# ---------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    "code",
    [
        "InternalServiceErrorException",
        "ThrottlingException",
        "DisabledApiException",
        "AccessDeniedException",
        "InvalidLicenseException",
    ],
)
def test_an_error_before_the_effect_honours_nothing(market: Market, code: str) -> None:
    record = usage(market.license())
    market.engine.arm(Fault(code))
    assert market.refusal(record) == code
    assert market.statuses(record) == ["Success"]


LOST_ANSWERS = [
    (Lost.CONNECTION_CLOSED, ConnectionClosedError),
    (Lost.READ_TIMEOUT, ReadTimeoutError),
    ("InternalServiceErrorException", ClientError),
]


@pytest.mark.parametrize(("answer", "exception"), LOST_ANSWERS, ids=["closed", "time-out", "500"])
def test_a_lost_answer_leaves_the_record_honoured(market: Market, answer: str, exception: type) -> None:
    record = usage(market.license())
    market.engine.arm(Fault(answer, Moment.AFTER))
    with pytest.raises(exception):
        market.send(record)
    assert honoured_quantities(market) == [1]
    (entry,) = market.engine.requests()
    assert entry.outcomes[0].newly_honoured
    assert entry.answered == (exception is ClientError)
    assert market.statuses(record) == ["Success"]
    assert honoured_quantities(market) == [1]


@pytest.mark.parametrize(("answer", "exception"), LOST_ANSWERS[:2], ids=["closed", "time-out"])
def test_a_connection_may_break_before_anything_happened(
    market: Market, answer: str, exception: type
) -> None:
    market.engine.arm(Fault(answer, Moment.BEFORE))
    with pytest.raises(exception):
        market.send(usage(market.license()))
    assert honoured_quantities(market) == []


def test_an_answer_slower_than_the_callers_patience_is_lost(market: Market) -> None:
    market.engine.arm(Fault(latency_seconds=READ_TIMEOUT * 2))
    with pytest.raises(ReadTimeoutError):
        market.send(usage(market.license()))
    assert honoured_quantities(market) == [1]


def test_a_throttling_spell_lasts_until_its_time(market: Market) -> None:
    record = usage(market.license())
    market.engine.arm(Fault("ThrottlingException", times=None, until=NOON + timedelta(seconds=30)))
    for _ in range(3):
        assert market.refusal(record) == "ThrottlingException"
        market.clock.pass_seconds(9)
    market.clock.pass_seconds(3)
    assert market.statuses(record) == ["Success"]


def test_unprocessed_records_come_back_and_can_be_sent_again(market: Market) -> None:
    records = hourly(market.license(), 4)
    market.engine.arm(Fault(effect=RecordEffect.UNPROCESSED, positions=(1, 3)))
    answer = market.send(*records)
    assert [result["UsageRecord"] for result in answer["Results"]] == [records[0], records[2]]
    assert answer["UnprocessedRecords"] == [records[1], records[3]]
    assert market.engine.honoured_count() == 2
    again = market.send(*answer["UnprocessedRecords"])
    assert [result["Status"] for result in again["Results"]] == ["Success", "Success"]
    assert market.engine.honoured_count() == 4


def test_a_record_may_be_missing_from_the_answer_though_it_was_honoured(market: Market) -> None:
    records = hourly(market.license(), 2)
    market.engine.arm(Fault(effect=RecordEffect.OMITTED, positions=(0,)))
    answer = market.send(*records)
    assert [result["UsageRecord"] for result in answer["Results"]] == [records[1]]
    assert answer["UnprocessedRecords"] == []
    assert market.engine.honoured_count() == 2


def test_a_status_may_be_one_that_nobody_knows(market: Market) -> None:
    market.engine.arm(Fault(effect=RecordEffect.UNKNOWN_STATUS))
    assert market.statuses(usage(market.license())) == [UNKNOWN_STATUS]
    assert market.engine.requests()[0].outcomes[0].status == "Success"


def test_a_fault_can_wait_and_be_meant_for_one_region(market: Market) -> None:
    record = usage(market.license())
    market.engine.arm(Fault("ThrottlingException", skip=1, times=2, region="us-east-1"))

    def attempt(region: str) -> str:
        try:
            return market.statuses(record, region=region)[0]
        except ClientError as error:
            return str(error.response["Error"]["Code"])

    regions = ["us-east-1", "eu-west-1", "us-east-1", "us-east-1", "us-east-1"]
    throttled = "ThrottlingException"
    assert [attempt(r) for r in regions] == ["Success", "Success", throttled, throttled, "Success"]
    assert market.engine.faults.hits == {"before:ThrottlingException": 2}


def test_seeded_faults_strike_and_lose_nothing_that_was_honoured(market: Market) -> None:
    market.engine.configure(quota_rate=0)
    rates = FaultRates(
        internal_error_before=0.1,
        internal_error_after=0.1,
        throttled=0.1,
        connection_closed_before=0.1,
        connection_closed_after=0.1,
        unprocessed=0.2,
        omitted=0.2,
    )
    market.engine.set_fault_rates(rates)
    records = [record for _ in range(4) for record in hourly(market.license(), 20)]
    for start in range(0, len(records), 2):
        pending = records[start : start + 2]
        while pending:
            try:
                answer = market.send(*pending)
            except (ClientError, ConnectionClosedError):
                continue
            done = [result["UsageRecord"] for result in answer["Results"]]
            pending = [record for record in pending if record not in done]
    assert market.engine.honoured_count() == len(records)
    assert market.engine.billed_twice() == {}
    assert set(market.engine.faults.hits) == {fault.kind for _, fault in rates.faults()}


# ---------------------------------------------------------------------- errors as boto3 shows them


def test_modelled_errors_can_be_caught_by_their_class(market: Market) -> None:
    client = market.client()
    with pytest.raises(client.exceptions.InvalidLicenseException) as caught:
        market.send(usage(market.license(), CustomerAWSAccountId=OTHER_BUYER))
    assert caught.value.operation_name == "BatchMeterUsage"
    assert caught.value.response["message"] == caught.value.response["Error"]["Message"]
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_an_internal_error_has_status_500(market: Market) -> None:
    market.engine.arm(Fault("InternalServiceErrorException"))
    with pytest.raises(market.client().exceptions.InternalServiceErrorException) as caught:
        market.send(usage(market.license()))
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


# ---------------------------------------------------------------------- registration tokens


def resolve(market: Market, token: str, account: str = SELLER) -> dict[str, Any]:
    answer: dict[str, Any] = market.client(account=account).resolve_customer(RegistrationToken=token)
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def resolve_error(market: Market, token: str, account: str = SELLER) -> str:
    with pytest.raises(ClientError) as caught:
        resolve(market, token, account)
    return str(caught.value.response["Error"]["Code"])


def test_a_token_resolves_to_customer_license_product_and_agreement(market: Market) -> None:
    grant = market.license()
    assert resolve(market, market.engine.mint_token(grant.arn)) == {
        "CustomerIdentifier": "",
        "CustomerAWSAccountId": BUYER,
        "ProductCode": PRODUCT,
        "LicenseArn": grant.arn,
        "Metadata": {"AgreementId": grant.agreement_id},
    }


def test_the_agreement_id_is_a_switch(market: Market) -> None:
    market.engine.configure(agreement_id_in_metadata=False)
    assert "Metadata" not in resolve(market, market.engine.mint_token(market.license().arn))


def test_a_legacy_token_resolves_to_a_customer_identifier_without_a_license(market: Market) -> None:
    market.engine.create_legacy_customer(PRODUCT, "customer-1", BUYER)
    token = market.engine.mint_legacy_token(PRODUCT, "customer-1")
    assert resolve(market, token) == {
        "CustomerIdentifier": "customer-1",
        "CustomerAWSAccountId": BUYER,
        "ProductCode": PRODUCT,
    }


def test_tokens_have_every_character_that_careless_decoding_breaks(market: Market) -> None:
    tokens = {market.engine.mint_token(market.license().arn) for _ in range(20)}
    assert len(tokens) == 20
    for token in tokens:
        assert set("+/=") <= set(token)
        assert token.isprintable()
        assert token.isascii()


def test_a_token_broken_by_form_decoding_is_invalid(market: Market) -> None:
    token = market.engine.mint_token(market.license().arn)
    assert resolve_error(market, token.replace("+", " ")) == "InvalidTokenException"
    assert resolve_error(market, "test-invalid-token-00000") == "InvalidTokenException"
    assert resolve_error(market, "") == "ValidationException"


def test_a_token_expires_at_the_end_of_its_life(market: Market) -> None:
    token = market.engine.mint_token(market.license().arn, life=timedelta(hours=1))
    market.clock.pass_seconds(3599)
    assert resolve(market, token)["CustomerAWSAccountId"] == BUYER
    market.clock.pass_seconds(1)
    assert resolve_error(market, token) == "ExpiredTokenException"


def test_a_token_can_be_resolved_again_unless_the_switch_says_once(market: Market) -> None:
    token = market.engine.mint_token(market.license().arn)
    assert resolve(market, token) == resolve(market, token)
    market.engine.configure(token_repeatable=False)
    assert resolve_error(market, token) == "ExpiredTokenException"
    fresh = market.engine.mint_token(market.license().arn)
    resolve(market, fresh)
    assert resolve_error(market, fresh) == "ExpiredTokenException"


def test_a_token_can_be_made_to_expire(market: Market) -> None:
    token = market.engine.mint_token(market.license().arn)
    market.engine.expire_token(token)
    assert resolve_error(market, token) == "ExpiredTokenException"


def test_only_the_publishing_account_may_resolve_an_owned_products_token(market: Market) -> None:
    market.engine.create_product("ownedproduct", ["requests"], owner_account=SELLER)
    token = market.engine.mint_token(market.license("ownedproduct").arn)
    assert resolve_error(market, token, account="999900001111") == "InvalidTokenException"
    assert resolve(market, token)["ProductCode"] == "ownedproduct"


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "DisabledApiException", "InternalServiceErrorException"]
)
def test_resolving_meets_faults_of_its_own(market: Market, code: str) -> None:
    token = market.engine.mint_token(market.license().arn)
    market.engine.arm(Fault(code, operation="ResolveCustomer"))
    market.send(usage(market.license()))
    assert resolve_error(market, token) == code
    assert resolve(market, token)["ProductCode"] == PRODUCT


@pytest.mark.parametrize(("answer", "exception"), LOST_ANSWERS[:2], ids=["closed", "time-out"])
@pytest.mark.parametrize("moment", list(Moment))
def test_the_answer_to_resolving_may_be_lost(
    market: Market, moment: Moment, answer: str, exception: type
) -> None:
    market.engine.configure(token_repeatable=False)
    token = market.engine.mint_token(market.license().arn)
    market.engine.arm(Fault(answer, moment, operation="ResolveCustomer"))
    with pytest.raises(exception):
        resolve(market, token)
    if moment is Moment.BEFORE:
        assert resolve(market, token)["ProductCode"] == PRODUCT
    else:
        assert resolve_error(market, token) == "ExpiredTokenException"


def test_resolving_may_have_a_quota(market: Market) -> None:
    market.engine.configure(resolve_quota_rate=1, resolve_quota_burst=1)
    token = market.engine.mint_token(market.license().arn)
    resolve(market, token)
    assert resolve_error(market, token) == "ThrottlingException"


# ---------------------------------------------------------------------- history


def test_attempts_show_what_was_ever_sent_under_one_billing_key(market: Market) -> None:
    grant = market.license()
    market.engine.arm(Fault(Lost.CONNECTION_CLOSED, Moment.AFTER))
    with pytest.raises(ConnectionClosedError):
        market.send(usage(grant, Quantity=1))
    market.send(usage(grant, Quantity=2), usage(grant, Dimension="gigabytes"))
    market.refusal(usage(grant, Dimension="none"))
    attempts = market.engine.attempts()
    hour = int(NOON.timestamp()) // 3600
    tried = attempts[REGION, grant.arn, BUYER, "requests", hour]
    assert [(a.entry.answered, a.outcome.record["Quantity"], a.outcome.status) for a in tried] == [
        (False, 1, "Success"),
        (True, 2, "DuplicateRecord"),
    ]
    assert {key[3]: len(found) for key, found in attempts.items()} == {
        "requests": 2,
        "gigabytes": 1,
        "none": 1,
    }


def outcomes(market: Market) -> Sequence[list[str | None]]:
    return [[outcome.status for outcome in entry.outcomes] for entry in market.engine.requests()]


def test_history_keeps_every_request_and_what_became_of_its_records(market: Market) -> None:
    grant = market.license()
    market.send(usage(grant))
    market.refusal(usage(grant, Dimension="none"), account="999900001111")
    market.engine.arm(Fault(effect=RecordEffect.UNPROCESSED, positions=(0,)))
    market.send(usage(grant, Quantity=3), usage(grant, Quantity=2), region="us-east-1")
    entries = market.engine.requests()
    assert outcomes(market) == [["Success"], [None], ["Unprocessed", "Success"]]
    assert [entry.exception for entry in entries] == [None, "InvalidUsageDimensionException", None]
    assert [(entry.region, entry.account) for entry in entries] == [
        (REGION, SELLER),
        (REGION, "999900001111"),
        ("us-east-1", SELLER),
    ]
    assert entries[2].fault == "records:unprocessed"
    assert entries[0].outcomes[0].record["Dimension"] == "requests"
    assert [record.quantity for record in market.engine.honoured()] == [1, 2]
