"""The fake as a server: authentication, protocol errors, admin API, journal and threads."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sandbox.fake_marketplace import FakeMarketplace, Settings
from sandbox.fake_marketplace.server import FakeMarketplaceServer, Journal, Service

ROOT = Path(__file__).resolve().parents[2]
BUYER = "111122223333"
PRODUCT = "exampleproductcode"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


class FixedClock:
    def __init__(self) -> None:
        self.instant = NOON

    def now(self) -> datetime:
        return self.instant


@contextmanager
def boto(endpoint: str, *, key: str = "123456789012", region: str = "eu-west-1") -> Iterator[Any]:
    client = boto3.client(
        "meteringmarketplace",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key="not-a-secret",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=10, max_pool_connections=20),
    )
    try:
        yield client
    finally:
        client.close()


def call(port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    """Return (status, JSON body, headers)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), dict(answer.getheaders())
    finally:
        connection.close()


def admin(port: int, name: str, **arguments: Any) -> Any:
    status, answer, _ = call(port, "POST", f"/_fake/{name}", arguments)
    assert status == 200, answer
    return answer


def query(port: int, name: str) -> Any:
    status, answer, _ = call(port, "GET", f"/_fake/{name}")
    assert status == 200, answer
    return answer


@pytest.fixture
def server() -> Iterator[FakeMarketplaceServer]:
    with FakeMarketplaceServer(Service()) as running:
        yield running


def port_of(server: FakeMarketplaceServer) -> int:
    return int(server.server_address[1])


def subscribe(port: int) -> dict[str, Any]:
    admin(port, "create-product", code=PRODUCT, dimensions=["requests"])
    answer = admin(
        port, "subscribe", product_code=PRODUCT, acceptor_account=BUYER, activate_at="2026-01-01T00:00:00Z"
    )
    return dict(answer["license"])


def usage(grant: dict[str, Any], moment: datetime, quantity: int = 1) -> dict[str, Any]:
    return {
        "Timestamp": moment,
        "Dimension": "requests",
        "CustomerAWSAccountId": BUYER,
        "LicenseArn": grant["arn"],
        "Quantity": quantity,
    }


# ---------------------------------------------------------------------- protocol


SIGNED = "AWS4-HMAC-SHA256 Credential={key}/20261115/eu-west-1/{service}/aws4_request, Signature=00"
GOOD_HEADERS = {
    "X-Amz-Target": "AWSMPMeteringService.BatchMeterUsage",
    "Authorization": SIGNED.format(key="123456789012", service="aws-marketplace"),
}


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        ({"Authorization": ""}, {"UsageRecords": []}, 403, "MissingAuthenticationTokenException"),
        (
            {"Authorization": SIGNED.format(key="AKIDEXAMPLE", service="metering.marketplace")},
            {"UsageRecords": []},
            403,
            "InvalidSignatureException",
        ),
        ({"X-Amz-Target": "AWSMPMeteringService.MeterUsage"}, {}, 400, "UnknownOperationException"),
        ({"X-Amz-Target": "Other.BatchMeterUsage"}, {}, 400, "UnknownOperationException"),
        ({}, b"{", 400, "SerializationException"),
        ({}, b"[]", 400, "SerializationException"),
        ({}, b"\xff", 400, "SerializationException"),
        ({}, {}, 400, "ValidationException"),
        ({}, {"UsageRecords": None}, 400, "ValidationException"),
        ({}, {"UsageRecords": ["x"]}, 400, "ValidationException"),
    ],
)
def test_a_wrong_request_is_refused_as_aws_refuses_it(
    server: FakeMarketplaceServer, headers: dict[str, str], body: Any, status: int, code: str
) -> None:
    answer = call(port_of(server), "POST", "/", body, GOOD_HEADERS | headers)
    assert answer[0] == status
    assert answer[1]["__type"] == code
    assert answer[2]["x-amzn-ErrorType"] == code
    assert answer[2]["Content-Type"] == "application/x-amz-json-1.1"


def test_a_huge_body_is_refused_without_being_read(server: FakeMarketplaceServer) -> None:
    headers = GOOD_HEADERS | {"Content-Length": "9000000"}
    status, body, _ = call(port_of(server), "POST", "/", b"{}", headers)
    assert (status, body["__type"]) == (413, "ValidationException")


def test_operations_of_other_products_are_unknown_to_boto3(server: FakeMarketplaceServer) -> None:
    with boto(server.endpoint) as client, pytest.raises(ClientError) as caught:
        client.register_usage(ProductCode=PRODUCT, PublicKeyVersion=1)
    assert caught.value.response["Error"]["Code"] == "UnknownOperationException"


@pytest.mark.parametrize(
    ("key", "account"), [("999900001111", "999900001111"), ("AKIDEXAMPLE", "123456789012")]
)
def test_region_and_account_come_from_the_credentials(
    server: FakeMarketplaceServer, key: str, account: str
) -> None:
    with boto(server.endpoint, key=key, region="ap-southeast-2") as client:
        client.batch_meter_usage(UsageRecords=[])
    (entry,) = server.service.engine.requests()
    assert (entry.region, entry.account) == ("ap-southeast-2", account)


def test_an_environment_variable_is_all_that_a_lambda_needs_to_reach_it(
    server: FakeMarketplaceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_MARKETPLACE_METERING", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "123456789012")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    client = boto3.Session(region_name="eu-central-1").client("meteringmarketplace")
    try:
        client.batch_meter_usage(UsageRecords=[])
    finally:
        client.close()
    assert [entry.region for entry in server.service.engine.requests()] == ["eu-central-1"]


# ---------------------------------------------------------------------- admin API


def test_the_admin_api_tells_a_subscriptions_whole_story(server: FakeMarketplaceServer) -> None:
    port = port_of(server)
    admin(port, "clock", now="2026-11-15T12:00:00Z")
    grant = subscribe(port)
    token = admin(port, "mint-token", license_arn=grant["arn"])["token"]
    with boto(server.endpoint) as client:
        assert client.resolve_customer(RegistrationToken=token)["LicenseArn"] == grant["arn"]
        client.batch_meter_usage(UsageRecords=[usage(grant, NOON, 5)])
        admin(port, "deprovision-license", license_arn=grant["arn"])
        admin(port, "clock", now="2026-11-15T13:00:01Z")
        answer = client.batch_meter_usage(UsageRecords=[usage(grant, NOON + timedelta(hours=1))])
    assert answer["Results"][0]["Status"] == "CustomerNotSubscribed"
    assert query(port, "summary") == {
        "requests": 2,
        "requests_in_busiest_second": 1,
        "honoured": 1,
        "quantity": "5",
        "billed_twice": 0,
    }
    assert [event["detail-type"] for event in query(port, "events")] == [
        "Purchase Agreement Created - Proposer",
        "License Updated - Manufacturer",
        "License Deprovisioned - Manufacturer",
    ]
    assert [entry["operation"] for entry in query(port, "requests?since=1")] == [
        "BatchMeterUsage",
        "BatchMeterUsage",
    ]
    assert query(port, "honoured")[0]["quantity"] == 5
    assert query(port, "licenses")[0]["deprovisioned_at"].startswith("2026-11-15T12:00")


def test_every_lifecycle_command_answers_with_its_events(server: FakeMarketplaceServer) -> None:
    port = port_of(server)
    grant = subscribe(port)
    agreement = grant["agreement_id"]
    sent = [
        admin(port, "amend-agreement", agreement_id=agreement, end_time="2027-11-15T00:00:00Z"),
        admin(port, "request-cancellation", agreement_id=agreement, status="PENDING_APPROVAL"),
        admin(port, "end-agreement", agreement_id=agreement, status="TERMINATED"),
        admin(port, "update-license", license_arn=grant["arn"]),
        admin(port, "activate-license", license_arn=grant["arn"]),
        admin(
            port,
            "create-agreement",
            product_code=PRODUCT,
            acceptor_account=BUYER,
            intent="RENEW",
            previous_agreement_id=agreement,
        ),
    ]
    assert [answer["events"][0]["detail-type"] for answer in sent] == [
        "Purchase Agreement Amended - Proposer",
        "Agreement Cancellation Request Pending Approval - Proposer",
        "Purchase Agreement Ended - Proposer",
        "License Updated - Manufacturer",
        "License Updated - Manufacturer",
        "Purchase Agreement Created - Proposer",
    ]
    assert sent[2]["events"][0]["detail"]["agreement"]["status"] == "TERMINATED"


def test_faults_and_switches_can_be_set_from_outside(server: FakeMarketplaceServer) -> None:
    port = port_of(server)
    admin(port, "arm-fault", answer="ThrottlingException", times=1, region="eu-west-1")
    admin(port, "set-fault-rates", latency_seconds=0.001)
    assert admin(port, "configure", window_hours=6)["window_hours"] == 6
    assert query(port, "settings")["window_hours"] == 6
    with boto(server.endpoint) as client:
        with pytest.raises(client.exceptions.ThrottlingException):
            client.batch_meter_usage(UsageRecords=[])
        client.batch_meter_usage(UsageRecords=[])
    assert query(port, "faults") == {"armed": [], "hits": {"before:ThrottlingException": 1}}
    admin(port, "arm-fault", effect="unprocessed", positions=[0])
    admin(port, "clear-faults")
    assert query(port, "faults")["armed"] == []


def test_legacy_customers_and_suspensions_can_be_set_from_outside(server: FakeMarketplaceServer) -> None:
    port = port_of(server)
    subscribe(port)
    admin(
        port,
        "create-legacy-customer",
        product_code=PRODUCT,
        customer_identifier="customer-1",
        account=BUYER,
    )
    arguments = {"product_code": PRODUCT, "customer_identifier": "customer-1"}
    token = admin(port, "mint-legacy-token", **arguments, life_seconds=60)["token"]
    admin(port, "expire-token", text=token)
    admin(port, "suspend-account", account=BUYER)
    record = {"Timestamp": datetime.now(UTC), "Dimension": "requests", "CustomerIdentifier": "customer-1"}
    with boto(server.endpoint) as client:
        with pytest.raises(client.exceptions.ExpiredTokenException):
            client.resolve_customer(RegistrationToken=token)
        answer = client.batch_meter_usage(ProductCode=PRODUCT, UsageRecords=[record])
        assert answer["Results"][0]["Status"] == "CustomerNotSubscribed"
        admin(port, "resume-account", account=BUYER)
        answer = client.batch_meter_usage(ProductCode=PRODUCT, UsageRecords=[record])
        assert answer["Results"][0]["Status"] == "Success"
    admin(port, "end-legacy-customer", **arguments)


def test_reset_forgets_everything_but_the_clock(server: FakeMarketplaceServer) -> None:
    port = port_of(server)
    subscribe(port)
    admin(port, "clock", offset_seconds=3600)
    admin(port, "reset", quota_burst=3)
    assert query(port, "licenses") == []
    assert query(port, "events") == []
    assert query(port, "settings")["quota_burst"] == 3
    assert query(port, "clock")["offset_seconds"] == 3600


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/_fake/no-such-command", {}, 404),
        ("POST", "/_fake/BatchMeterUsage", {"UsageRecords": []}, 404),
        ("GET", "/_fake/no-such-query", None, 404),
        ("GET", "/", None, 404),
        ("GET", "/_fake/requests?since=x", None, 400),
        ("POST", "/_fake/configure", {"no_such_setting": 1}, 400),
        ("POST", "/_fake/configure", {"window_hours": "24"}, 400),
        ("POST", "/_fake/subscribe", {"product_code": "unknown", "acceptor_account": BUYER}, 400),
        ("POST", "/_fake/subscribe", {}, 400),
        ("POST", "/_fake/arm-fault", {"answer": "NoSuchException"}, 400),
        ("POST", "/_fake/clock", {"now": "2026-11-15T12:00:00"}, 400),
        ("POST", "/_fake/clock", {}, 400),
        ("POST", "/_fake/clock", b"{", 400),
    ],
)
def test_admin_mistakes_are_answered_with_a_reason(
    server: FakeMarketplaceServer, method: str, path: str, body: Any, status: int
) -> None:
    answer = call(port_of(server), method, path, body)
    assert answer[0] == status
    assert answer[1]["error"]


# ---------------------------------------------------------------------- threads


def test_racing_clients_get_exactly_one_winner_and_never_more_than_the_quota() -> None:
    clock = FixedClock()
    engine = FakeMarketplace(clock, Settings(quota_burst=10))
    engine.create_product(PRODUCT, ["requests"])
    grant = engine.subscribe(PRODUCT, BUYER, activate_at=NOON - timedelta(days=1)).license
    with FakeMarketplaceServer(Service(engine=engine)) as server, boto(server.endpoint) as client:
        barrier = threading.Barrier(16)

        def race(quantity: int) -> str:
            record = usage({"arn": grant.arn}, NOON, quantity)
            barrier.wait()
            try:
                answer = client.batch_meter_usage(UsageRecords=[record])
            except ClientError as error:
                return str(error.response["Error"]["Code"])
            return str(answer["Results"][0]["Status"])

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(race, range(1, 17)))
    assert {name: answers.count(name) for name in set(answers)} == {
        "Success": 1,
        "DuplicateRecord": 9,
        "ThrottlingException": 6,
    }
    assert engine.honoured_count() == 1


# ---------------------------------------------------------------------- process and journal


@contextmanager
def process(*arguments: str) -> Iterator[int]:
    """Run the module as a process of its own; yield its port."""
    command = [sys.executable, "-m", "sandbox.fake_marketplace", "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            announced = json.loads(running.stdout.readline())
            assert announced["endpoint"] == f"http://127.0.0.1:{announced['port']}"
            yield int(announced["port"])
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(timeout=10) == 0


@pytest.mark.slow
def test_a_restarted_process_goes_on_where_it_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state" / "journal.jsonl"
    arguments = ("--state-file", str(state), "--settings", '{"seed": 3}')
    with process(*arguments) as port:
        admin(port, "clock", now="2026-11-15T12:30:00Z")
        grant = subscribe(port)
        token = admin(port, "mint-token", license_arn=grant["arn"])["token"]
        admin(port, "arm-fault", effect="unprocessed", positions=[1])
        assert call(port, "POST", "/_fake/subscribe", {"product_code": "unknown"})[0] == 400
        with boto(f"http://127.0.0.1:{port}") as client:
            sent = [usage(grant, NOON - timedelta(hours=n)) for n in range(2)]
            answer = client.batch_meter_usage(UsageRecords=sent)
            assert len(answer["UnprocessedRecords"]) == 1
        before = {
            name: query(port, name) for name in ("requests", "honoured", "events", "licenses", "settings")
        }
    with state.open("a", encoding="utf-8") as journal:
        journal.write('{"at": "2026-11-15T12:')
    with process("--state-file", str(state), "--settings", '{"seed": 4}') as port:
        assert {name: query(port, name) for name in before} == before, "the journal's switches stand"
        assert query(port, "clock")["now"].startswith("2026-11-15T12:3")
        with boto(f"http://127.0.0.1:{port}") as client:
            assert client.resolve_customer(RegistrationToken=token)["LicenseArn"] == grant["arn"]
            again = client.batch_meter_usage(UsageRecords=[usage(grant, NOON, 2)])
            assert again["Results"][0]["Status"] == "DuplicateRecord"
    assert '"2026-11-15T12:{' not in state.read_text(encoding="utf-8")


def test_a_journal_damaged_in_its_middle_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("garbage\n{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="Expecting value"):
        Service(journal=Journal(path))


def test_an_engine_and_a_journal_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="journal"):
        Service(engine=FakeMarketplace(FixedClock()), journal=Journal(tmp_path / "journal.jsonl"))


def test_a_clock_of_the_callers_cannot_be_shifted() -> None:
    with FakeMarketplaceServer(Service(clock=FixedClock())) as server:
        assert query(port_of(server), "health") == {
            "status": "ok",
            "now": NOON.isoformat(),
            "offset_seconds": None,
        }
        assert call(port_of(server), "POST", "/_fake/clock", {"offset_seconds": 1})[0] == 400
