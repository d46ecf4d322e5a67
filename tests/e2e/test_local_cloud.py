"""The local cloud: one clock for emulator, functions and fake Marketplace, and nothing left afterwards."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from sandbox.emulator_launcher import ACCESS_PATH, MAILS_PATH, condition_checks
from sandbox.local_cloud import ACCOUNT_ID, LocalCloud, LocalCloudError, Request
from sandbox.tables import aggregated_usage_table, subscribers_table, usage_table

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[2]
START = datetime(2026, 3, 10, 12, tzinfo=UTC)
BUYER = "111122223333"

TELL = """
import datetime, json, logging, os, sys, time

LOG = logging.StreamHandler()
LOG.setFormatter(logging.Formatter("%(asctime)s %(message)s"))

def handler(event, context):
    LOG.handle(logging.makeLogRecord({"msg": "told"}))
    time.sleep(event.get("sleep", 0))
    return {
        "time": time.time(),
        "datetime": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "log": logging.makeLogRecord({}).created,
        "remaining": context.get_remaining_time_in_millis(),
        "pid": os.getpid(),
        "file": __file__,
        "environment": {name: os.environ.get(name) for name in event.get("environment", [])},
    }
"""

CALL = """
import boto3, datetime, os
from botocore.exceptions import ClientError

def handler(event, context):
    if "at" in event.get("arguments", {}).get("UsageRecords", [{}])[0]:
        for record in event["arguments"]["UsageRecords"]:
            record["Timestamp"] = datetime.datetime.fromisoformat(record.pop("at"))
    try:
        answer = getattr(boto3.client(event["service"]), event["call"])(**event["arguments"])
    except ClientError as error:
        return {"code": error.response["Error"]["Code"]}
    answer.pop("ResponseMetadata")
    statuses = [result["Status"] for result in answer.get("Results", [])]
    return {"code": None, "statuses": statuses, "boto3": boto3.__file__}
"""

NOTE = """
import boto3, json, os, time

def handler(event, context):
    boto3.client("sqs").send_message(QueueUrl=os.environ["QUEUE_URL"], MessageBody=json.dumps(time.time()))
"""

FOLLOW = """
import boto3, json, os, time

def handler(event, context):
    records = [record["dynamodb"] for record in event["Records"]]
    keys = [record["Keys"]["key"]["S"] for record in records]
    boto3.client("sqs").send_message(QueueUrl=os.environ["QUEUE_URL"], MessageBody=json.dumps(keys))
    failed = [] if time.time() >= float(os.environ["GOOD_FROM"]) else records[-1:]
    return {"batchItemFailures": [{"itemIdentifier": record["SequenceNumber"]} for record in failed]}
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    """One cloud for the tests of this module; its time only goes forward."""
    with LocalCloud(start_at=START) as running:
        yield running


def _zip(source: str) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("index.py", source)
    return buffer.getvalue()


def _layer(cloud: LocalCloud) -> str:
    content = (REPOSITORY / "lambda_dist" / "dependencies.zip").read_bytes()
    answer = cloud.client("lambda").publish_layer_version(
        LayerName="dependencies", Content={"ZipFile": content}
    )
    return str(answer["LayerVersionArn"])


def _deploy(
    cloud: LocalCloud,
    name: str,
    code: bytes,
    *,
    handler: str = "index.handler",
    layer: bool = False,
    environment: dict[str, str] | None = None,
    role: str = "any",
    timeout: int = 60,
) -> str:
    answer = cloud.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Handler=handler,
        Role=f"arn:aws:iam::{ACCOUNT_ID}:role/{role}",
        Code={"ZipFile": code},
        Layers=[_layer(cloud)] if layer else [],
        Environment={"Variables": environment or {}},
        Timeout=timeout,
    )
    return str(answer["FunctionArn"])


def _invoke(cloud: LocalCloud, name: str, event: dict[str, Any] | None = None) -> Any:
    answer = cloud.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event or {}))
    payload = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, payload
    return payload


def _queue(cloud: LocalCloud, name: str, **attributes: str) -> tuple[str, str]:
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return url, arn


def _bodies(cloud: LocalCloud, url: str) -> list[str]:
    messages = []
    while (
        received := cloud.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages")
    ):
        messages += [message["Body"] for message in received]
    return messages


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (OSError, http.client.HTTPException):
        # A server that dies in the middle of a request resets the connection or leaves the answer unfinished.
        return False


def _eventually(condition: Callable[[], bool], *, seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return False


# --- One clock ----------------------------------------------------------------------------------------------


def test_a_function_lives_by_the_simulated_clock_however_it_asks_for_the_time(cloud: LocalCloud) -> None:
    _deploy(cloud, "tell", _zip(TELL))
    before = cloud.now()
    told = _invoke(cloud, "tell")
    after = cloud.now()
    for instant in (
        datetime.fromtimestamp(told["time"], UTC),
        datetime.fromisoformat(told["datetime"]),
        datetime.fromtimestamp(told["log"], UTC),
    ):
        assert before <= instant <= after
    assert 50_000 < told["remaining"] <= 60_000


def test_logs_carry_the_simulated_time(cloud: LocalCloud) -> None:
    _deploy(cloud, "log", _zip(TELL))
    answer = cloud.client("lambda").invoke(FunctionName="log", LogType="Tail")
    log = base64.b64decode(answer["LogResult"]).decode()
    assert "Traceback" not in log
    assert re.search(r"^2026-03-1\d \d\d:\d\d:\d\d,\d{3} told$", log, re.MULTILINE), log


def test_a_warm_function_sees_the_time_that_was_advanced(cloud: LocalCloud) -> None:
    _deploy(cloud, "tell-again", _zip(TELL))
    first = _invoke(cloud, "tell-again")
    cloud.advance(timedelta(hours=2))
    second = _invoke(cloud, "tell-again")
    assert second["pid"] == first["pid"]
    assert 7200 <= second["time"] - first["time"] < 7260


def test_at_speed_a_long_wait_of_a_function_is_short(cloud: LocalCloud) -> None:
    _deploy(cloud, "wait", _zip(TELL), timeout=120)
    _invoke(cloud, "wait")
    cloud.set_speed(60)
    try:
        began, simulated = time.monotonic(), cloud.now()
        _invoke(cloud, "wait", {"sleep": 60})
        assert cloud.now() - simulated >= timedelta(seconds=60)
        assert time.monotonic() - began < 20
    finally:
        cloud.set_speed(1)


def test_the_fake_marketplace_tells_the_same_time(cloud: LocalCloud) -> None:
    before = cloud.now()
    told = datetime.fromisoformat(cloud.marketplace.query("clock")["now"])
    assert before <= told <= cloud.now()


def test_time_does_not_go_back(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError, match="forwards"):
        cloud.advance(-1)


def test_advance_to_ends_at_the_instant(cloud: LocalCloud) -> None:
    goal = cloud.now() + timedelta(minutes=7)
    assert goal <= cloud.advance_to(goal) < goal + timedelta(seconds=30)


# --- What the emulator does on simulated time ---------------------------------------------------------------


def test_a_rate_rule_fires_once_for_each_period_that_passes(cloud: LocalCloud) -> None:
    url, arn = _queue(cloud, "rule-target")
    events = cloud.client("events")
    events.put_rule(Name="five-minutes", ScheduleExpression="rate(5 minutes)")
    events.put_targets(Rule="five-minutes", Targets=[{"Id": "1", "Arn": arn, "Input": "fired"}])
    cloud.advance(timedelta(minutes=16))
    events.disable_rule(Name="five-minutes")
    assert _bodies(cloud, url) == ["fired"] * 3


def test_a_schedule_fires_on_simulated_time(cloud: LocalCloud) -> None:
    url, arn = _queue(cloud, "schedule-target")
    scheduler = cloud.client("scheduler")
    scheduler.create_schedule(
        Name="hourly",
        ScheduleExpression="rate(1 hour)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": arn, "RoleArn": f"arn:aws:iam::{ACCOUNT_ID}:role/any", "Input": "fired"},
    )
    cloud.advance(timedelta(minutes=121))
    scheduler.delete_schedule(Name="hourly")
    assert _bodies(cloud, url) == ["fired"] * 2


def test_advance_waits_for_the_functions_that_it_has_started(cloud: LocalCloud) -> None:
    url, _ = _queue(cloud, "notes")
    arn = _deploy(cloud, "note", _zip(NOTE), layer=True, environment={"QUEUE_URL": url})
    events = cloud.client("events")
    events.put_rule(Name="each-minute", ScheduleExpression="rate(1 minute)")
    events.put_targets(Rule="each-minute", Targets=[{"Id": "1", "Arn": arn}])
    cloud.advance(timedelta(minutes=5))
    events.disable_rule(Name="each-minute")
    noted = sorted(json.loads(body) for body in _bodies(cloud, url))
    assert len(noted) == 5
    gaps = [later - earlier for earlier, later in itertools.pairwise(noted)]
    # A cold start costs the first run some seconds of its minute.
    assert all(45 < gap < 90 for gap in gaps)


def test_time_passes_at_once_where_all_that_runs_is_asleep(cloud: LocalCloud) -> None:
    for name in ("short", "long"):
        _deploy(cloud, name, _zip(TELL), timeout=900)
        _invoke(cloud, name)
    began, simulated = time.monotonic(), cloud.now()
    for name, seconds in {"short": 300, "long": 800}.items():
        cloud.client("lambda").invoke(
            FunctionName=name, InvocationType="Event", Payload=json.dumps({"sleep": seconds})
        )
    cloud.settle()
    assert timedelta(seconds=800) <= cloud.now() - simulated < timedelta(seconds=860)
    assert time.monotonic() - began < 60


def test_settle_waits_for_queued_messages(cloud: LocalCloud) -> None:
    url, _ = _queue(cloud, "results")
    source_url, source_arn = _queue(cloud, "work", VisibilityTimeout="600")
    _deploy(cloud, "worker", _zip(NOTE), layer=True, environment={"QUEUE_URL": url})
    cloud.client("lambda").create_event_source_mapping(
        EventSourceArn=source_arn, FunctionName="worker", BatchSize=1
    )
    for number in range(5):
        cloud.client("sqs").send_message(QueueUrl=source_url, MessageBody=str(number))
    cloud.settle()
    assert len(_bodies(cloud, url)) == 5


def test_records_of_a_stream_are_waited_for_and_come_again_until_their_function_is_done_with_them(
    cloud: LocalCloud,
) -> None:
    url, _ = _queue(cloud, "followed")
    good_from = cloud.now() + timedelta(minutes=2)
    table = cloud.client("dynamodb").create_table(
        TableName="followed",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )["TableDescription"]
    settings = {"QUEUE_URL": url, "GOOD_FROM": str(good_from.timestamp())}
    _deploy(cloud, "follower", _zip(FOLLOW), layer=True, environment=settings)
    cloud.client("lambda").create_event_source_mapping(
        EventSourceArn=table["LatestStreamArn"],
        FunctionName="follower",
        BatchSize=1,
        StartingPosition="TRIM_HORIZON",
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    for key in ("first", "second"):
        cloud.client("dynamodb").put_item(TableName="followed", Item={"key": {"S": key}})
    cloud.settle()
    assert set(_bodies(cloud, url)) == {'["first"]'}
    cloud.advance_to(good_from)
    cloud.settle()
    assert [body for body in _bodies(cloud, url) if body != '["first"]'] == ['["second"]']


def test_a_received_message_comes_back_after_its_visibility_timeout(cloud: LocalCloud) -> None:
    url, _ = _queue(cloud, "visibility", VisibilityTimeout="600")
    cloud.client("sqs").send_message(QueueUrl=url, MessageBody="once more")
    assert _bodies(cloud, url) == ["once more"]
    cloud.advance(500)
    assert _bodies(cloud, url) == []
    cloud.advance(120)
    assert _bodies(cloud, url) == ["once more"]


def test_an_item_expires_on_simulated_time(cloud: LocalCloud) -> None:
    dynamodb = cloud.client("dynamodb")
    dynamodb.create_table(
        TableName="expiring",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    dynamodb.update_time_to_live(
        TableName="expiring", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    expiry = int((cloud.now() + timedelta(days=1)).timestamp())
    dynamodb.put_item(TableName="expiring", Item={"id": {"S": "1"}, "ttl": {"N": str(expiry)}})

    def is_gone() -> bool:
        return "Item" not in dynamodb.get_item(TableName="expiring", Key={"id": {"S": "1"}})

    cloud.advance(timedelta(minutes=3))
    assert not is_gone()
    Request(
        "skip a day", cloud.endpoint + "/_sandbox/clock", {"advance_seconds": 86400, "step_seconds": 43200}
    ).send()
    assert _eventually(is_gone)


# --- The real packages and the fake Marketplace -------------------------------------------------------------


def _metering_environment(cloud: LocalCloud) -> dict[str, str]:
    url, _ = _queue(cloud, "metering-work")
    return {
        "PRODUCT_CODE": "1example2product3code4567",
        "USAGE_TABLE": "usage",
        "AGGREGATED_USAGE_TABLE": "aggregated-usage",
        "SUBSCRIBERS_TABLE": "subscribers",
        "SUBSCRIBERS_TABLE_REGION": "us-east-1",
        "WORK_QUEUE_URL": url,
        "DEPROVISION_WORK_QUEUE_URL": url,
    }


def test_the_real_packages_answer_an_invocation(cloud: LocalCloud) -> None:
    for request in (
        usage_table("usage"),
        aggregated_usage_table("aggregated-usage"),
        subscribers_table("subscribers"),
    ):
        cloud.client("dynamodb").create_table(**request)
    code = (REPOSITORY / "lambda_dist" / "awsmp.zip").read_bytes()
    environment = _metering_environment(cloud)
    for name in ("expiry", "discoverer"):
        _deploy(
            cloud, name, code, handler=f"awsmp.handlers.{name}.handler", layer=True, environment=environment
        )
    assert _invoke(cloud, "expiry") == {"closed": 0}
    assert _invoke(cloud, "discoverer", {"mode": "meter", "hourOffset": 1}) == {"sent": 0}
    assert _invoke(cloud, "discoverer", {"mode": "flush-deprovisioning"}) == {"sent": 0}


def test_a_function_meters_at_the_fake_marketplace_and_meets_its_faults(cloud: LocalCloud) -> None:
    cloud.marketplace.command("create-product", code="metered", dimensions=["requests"])
    bought = cloud.marketplace.command("subscribe", product_code="metered", acceptor_account=BUYER)
    _deploy(cloud, "meter", _zip(CALL), layer=True)
    cloud.advance(60)
    usage = {
        "at": cloud.now().isoformat(),
        "Dimension": "requests",
        "Quantity": 17,
        "CustomerAWSAccountId": BUYER,
        "LicenseArn": bought["license"]["arn"],
    }
    event = {
        "service": "meteringmarketplace",
        "call": "batch_meter_usage",
        "arguments": {"UsageRecords": [usage]},
    }
    cloud.marketplace.command("arm-fault", answer="DisabledApiException", times=1)
    assert _invoke(cloud, "meter", event)["code"] == "DisabledApiException"
    answer = _invoke(cloud, "meter", event)
    assert answer["statuses"] == ["Success"]
    assert "layer_" in answer["boto3"], "the SDK comes out of the layer"
    (honoured,) = cloud.marketplace.query("honoured")
    assert honoured["quantity"] == 17


def test_it_knows_where_it_serves_api_gateways_own_urls_and_serves_no_other(cloud: LocalCloud) -> None:
    url = "https://abcdef1234.execute-api.eu-west-1.amazonaws.com/prod/register"
    assert cloud.address_of(url) == f"{cloud.endpoint}/_aws/execute-api/abcdef1234/prod/register"
    with pytest.raises(ValueError, match="no URL of API Gateway"):
        cloud.address_of("https://register.example.com/fulfillment")


def test_every_printed_example_works() -> None:
    with LocalCloud(start_at=START) as cloud:
        for request in cloud.examples():
            request.send()
        assert cloud.marketplace.query("summary")["requests"] == 0


# --- Roles --------------------------------------------------------------------------------------------------


def test_role_policies_are_enforced_whatever_the_simulated_date() -> None:
    with LocalCloud(start_at=START, enforce_roles=True) as cloud:
        url, arn = _queue(cloud, "guarded")
        iam = cloud.client("iam")
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "lambda.amazonaws.com"},
                    "Action": "sts:AssumeRole",
                }
            ],
        }
        policy = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": arn}],
        }
        iam.create_role(RoleName="sender", AssumeRolePolicyDocument=json.dumps(trust))
        iam.put_role_policy(RoleName="sender", PolicyName="send", PolicyDocument=json.dumps(policy))
        _deploy(cloud, "call", _zip(CALL), layer=True, role="sender")
        send = {
            "service": "sqs",
            "call": "send_message",
            "arguments": {"QueueUrl": url, "MessageBody": "allowed"},
        }
        purge = {"service": "sqs", "call": "purge_queue", "arguments": {"QueueUrl": url}}
        assert _invoke(cloud, "call", send)["code"] is None
        assert "AccessDenied" in _invoke(cloud, "call", purge)["code"]
        assert _bodies(cloud, url) == ["allowed"]

        # A user outside signs with the machine's time, months away from the simulated one.
        iam.create_user(UserName="person")
        iam.put_user_policy(UserName="person", PolicyName="send", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName="person")["AccessKey"]
        person = boto3.client(
            "sqs",
            endpoint_url=cloud.endpoint,
            region_name=cloud.region,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )
        person.send_message(QueueUrl=url, MessageBody="from outside")
        with pytest.raises(ClientError, match="AccessDenied"):
            person.purge_queue(QueueUrl=url)


@pytest.mark.parametrize(
    ("action", "request_body", "expected"),
    [
        pytest.param(
            "ses:SendEmail",
            {"FromEmailAddress": "a@one.example", "ConfigurationSetName": "set"},
            [
                ("ses:identity/one.example", {"ses:FromAddress": "a@one.example"}),
                ("ses:configuration-set/set", {"ses:FromAddress": "a@one.example"}),
            ],
            id="the domain and the configuration set",
        ),
        pytest.param(
            "ses:SendEmail",
            {"FromEmailAddress": "known@one.example"},
            [("ses:identity/known@one.example", {"ses:FromAddress": "known@one.example"})],
            id="an address that is an identity itself",
        ),
        pytest.param(
            "events:PutEvents",
            {"Entries": [{"Source": "b"}, {"Source": "a"}, {"Source": "b"}]},
            [("bus", {"events:source": "a"}), ("bus", {"events:source": "b"})],
            id="every source",
        ),
    ],
)
def test_what_a_mail_or_an_event_is_checked_on_as_aws_does(
    action: str, request_body: dict[str, Any], expected: list[tuple[str, dict[str, str]]]
) -> None:
    body = json.dumps(request_body).encode()
    checks = condition_checks(action, body, "bus", "ses:", lambda name: name.startswith("known@"))
    assert [(resource.replace("ses::", "ses:"), keys) for resource, keys in checks] == expected


def test_mail_goes_out_for_the_sender_that_a_policy_names_and_with_its_configuration_set_only() -> None:
    with LocalCloud(start_at=START, enforce_roles=True) as cloud:
        mails, iam = cloud.client("sesv2"), cloud.client("iam")
        mails.create_email_identity(EmailIdentity="seller.example")
        mails.put_account_details(
            MailType="TRANSACTIONAL", WebsiteURL="https://seller.example", ProductionAccessEnabled=True
        )
        prefix = f"arn:aws:ses:{cloud.region}:{ACCOUNT_ID}"
        statement = {
            "Effect": "Allow",
            "Action": "ses:SendEmail",
            "Resource": [f"{prefix}:identity/seller.example", f"{prefix}:configuration-set/ours"],
            "Condition": {"StringEquals": {"ses:FromAddress": "billing@seller.example"}},
        }
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        iam.create_user(UserName="sender")
        iam.put_user_policy(UserName="sender", PolicyName="send", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName="sender")["AccessKey"]
        sender = boto3.client(
            "sesv2",
            endpoint_url=cloud.endpoint,
            region_name=cloud.region,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )

        def send(address: str, configuration_set: str) -> None:
            sender.send_email(
                FromEmailAddress=address,
                ConfigurationSetName=configuration_set,
                Destination={"ToAddresses": ["buyer@example.com"]},
                Content={"Simple": {"Subject": {"Data": "s"}, "Body": {"Text": {"Data": "t"}}}},
                EmailTags=[{"Name": "kind", "Value": "test"}],
            )

        send("billing@seller.example", "ours")
        for address, configuration_set in (
            ("other@seller.example", "ours"),
            ("billing@seller.example", "theirs"),
        ):
            with pytest.raises(ClientError, match="AccessDenied"):
                send(address, configuration_set)
        (mail,) = Request("mails", cloud.endpoint + MAILS_PATH).send()
        assert (mail["Source"], mail["EmailTags"], mail["ConfigurationSetName"]) == (
            "billing@seller.example",
            {"kind": "test"},
            "ours",
        )
        checks = Request("access", cloud.endpoint + ACCESS_PATH).send()
        assert {
            (check["resource"].partition(":identity/")[2], check["keys"][0][1], check["refusal"])
            for check in checks
            if check["principal"].endswith(":user/sender") and ":identity/" in check["resource"]
        } == {
            ("seller.example", "billing@seller.example", None),
            ("seller.example", "other@seller.example", "ImplicitDeny"),
        }


# --- The end ------------------------------------------------------------------------------------------------


def test_nothing_is_left_after_the_end() -> None:
    with LocalCloud(start_at=START) as cloud:
        _deploy(cloud, "tell", _zip(TELL))
        told = _invoke(cloud, "tell")
        emulator_pid = cloud.emulator.pid
        endpoints = [cloud.endpoint + "/_ministack/health", cloud.marketplace.endpoint + "/_fake/health"]
        assert _is_alive(told["pid"])
        assert Path(told["file"]).exists()
        assert all(map(_answers, endpoints))
    assert not _is_alive(told["pid"])
    assert not _is_alive(emulator_pid)
    assert not Path(told["file"]).exists()
    assert not any(map(_answers, endpoints))
    with pytest.raises(LocalCloudError, match="not running"):
        _ = cloud.endpoint


def test_a_function_that_never_returns_does_not_outlive_the_cloud() -> None:
    with LocalCloud(start_at=START) as cloud:
        _deploy(cloud, "tell", _zip(TELL), timeout=900)
        pid = _invoke(cloud, "tell")["pid"]
        cloud.client("lambda").invoke(
            FunctionName="tell", InvocationType="Event", Payload=json.dumps({"sleep": 800})
        )
        time.sleep(0.5)
        assert _is_alive(pid)
    assert not _is_alive(pid)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """``python -m sandbox.local_cloud`` as a user starts it, and its two endpoints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox.local_cloud", "--start-at", "2026-03-10T12:00:00"],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        urls = []
        for line in process.stdout:
            if line.startswith(("  AWS  ", "  Marketplace  ")):
                urls.append(line.split()[-1])
            if line.startswith("Ctrl-C"):
                break
        yield process, urls
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(30)
        process.stdout.close()


def _health(urls: list[str]) -> list[str]:
    aws, marketplace = urls
    return [aws + "/_ministack/health", marketplace + "/_fake/health"]


def test_ctrl_c_ends_the_command_and_leaves_nothing(
    started: tuple[subprocess.Popen[str], list[str]], tmp_path: Path
) -> None:
    process, urls = started
    assert all(map(_answers, _health(urls)))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert not any(map(_answers, _health(urls)))
    assert list(tmp_path.iterdir()) == []


def test_the_parts_end_when_the_command_is_killed(started: tuple[subprocess.Popen[str], list[str]]) -> None:
    process, urls = started
    assert all(map(_answers, _health(urls)))
    process.kill()
    assert _eventually(lambda: not any(map(_answers, _health(urls))))
