"""The tier's Lambdas as AWS invokes them: batches, settings, bounded runs, and what they log."""

from __future__ import annotations

import base64
import json
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from moto import mock_aws

from awsmp import composition_notifications, composition_verify
from awsmp.adapters.notifications.ses_transport import SesTransport
from awsmp.adapters.notifications.smtp_transport import SmtpSecurity, SmtpTransport
from awsmp.adapters.telemetry import LambdaTelemetry
from awsmp.composition_notifications import Runtime
from awsmp.domain.errors import Misconfigured, PartialFailure
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.ports import Metric
from awsmp.handlers import (
    notification_admin,
    notification_contacts,
    notification_feedback,
    notification_intake,
    notification_maintenance,
    notification_sender,
    verify,
)
from awsmp.handlers.rest_proxy import RequestFailed
from awsmp.settings_notifications import Environment, SesSettings, SmtpSettings
from tests.unit.notifications.deployment import (
    CONTEXT,
    ENVIRONMENT,
    LINK_SECRET,
    OWNER_EMAIL,
    OWNER_NAME,
    PEPPER_SECRET,
    PROFILES,
    TOPIC,
    VERIFY_ENVIRONMENT,
    Context,
    Deployment,
    complaint,
    http_event,
)
from tests.unit.notifications.world import BUYER, LICENSE, active_row, row_change

STARTED = "subscription_started"
EXAMPLES = Path(__file__).parents[3] / "docs" / "contracts" / "examples"
SMTP = {
    "type": "smtp",
    "host": "smtp.seller.example",
    "port": 465,
    "security": "implicit",
    "credentialsSecretArn": "arn:smtp",
}


def vouched(**environment: str) -> Deployment:
    """Return a deployment whose buyer is verified by the seller, with the first notice queued."""
    deployment = Deployment(**environment)
    deployment.register()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    return deployment


# -- batches ------------------------------------------------------------------------------------------


def test_intake_reports_the_messages_that_have_to_come_again_and_takes_the_others() -> None:
    deployment = Deployment()
    good = row_change(None, active_row())
    assert deployment.take_in("{", good, '{"detail": {"schema": "other"}}') == {
        "batchItemFailures": [{"itemIdentifier": "0"}, {"itemIdentifier": "2"}]
    }
    assert len(deployment.telemetry.error_lines) == 2


def test_intake_of_a_batch_of_failures_is_an_error_of_the_function() -> None:
    with pytest.raises(BatchProcessingError):
        Deployment().take_in("{")


def misplaced(*path: str) -> str:
    """Return a forwarded change of a row, or a billing event, with an address where none belongs."""
    event: Any = json.loads((EXAMPLES / "billing-event.v1.payment-failed.json").read_text(encoding="utf-8"))
    if path[0] == "detail":
        event = json.loads(row_change(None, active_row()))
    place = event
    for name in path[:-1]:
        place = place[name]
    assert path[-1] in place
    place[path[-1]] = OWNER_EMAIL
    return json.dumps(event)


@pytest.mark.parametrize(
    "path",
    [
        ("eventId",),
        ("eventTime",),
        ("subscription",),
        ("subscription", "licenseArn"),
        ("subscription", "customerAWSAccountId"),
        ("current", "status"),
        ("current", "hold"),
        ("previous", "status"),
        ("detail", "eventTime"),
        ("detail", "eventId"),
        ("detail", "new"),
        ("detail", "new", "licenseArn"),
        ("detail", "new", "customerAWSAccountId"),
        ("detail", "new", "subscriptionStatus"),
        ("detail", "new", "subscriptionEvent", "time"),
        ("detail", "new", "subscriptionEvent", "type"),
    ],
    ids=".".join,
)
def test_what_a_malformed_message_holds_is_in_no_error_that_the_runtime_would_log(
    path: tuple[str, ...],
) -> None:
    deployment = Deployment()
    with pytest.raises(BatchProcessingError) as failed:
        deployment.take_in(misplaced(*path))
    told = "".join(traceback.format_exception(failed.value)) + deployment.logged_text()
    assert "awsmp.domain" in told, "the errors of the messages are told"
    assert OWNER_EMAIL not in told


def test_the_sellers_own_billing_event_is_taken_from_the_queue_as_it_is() -> None:
    deployment = vouched()
    deployment.send()
    event = json.loads((EXAMPLES / "billing-event.v1.payment-failed.json").read_text(encoding="utf-8"))
    event["subscription"] = {"licenseArn": LICENSE, "customerAWSAccountId": BUYER}
    event["eventTime"] = "2026-11-10T08:00:00Z"
    assert deployment.take_in(json.dumps(event)) == {"batchItemFailures": []}
    deployment.send()
    assert deployment.told("payment_failed") == [(OWNER_EMAIL, "payment_failed")]


def test_feedback_suppresses_what_can_be_read_and_reports_what_cannot() -> None:
    deployment = vouched()
    deployment.send()
    later = deployment.clock.now() + timedelta(minutes=1)
    delivery = json.dumps({"eventType": "Delivery"})
    answer = deployment.take_feedback(
        complaint(deployment.ses.sent[0], 1, later),
        json.dumps({"Type": "Notification", "TopicArn": TOPIC, "Message": delivery}),
        json.dumps({"Type": "Notification", "TopicArn": "arn:other", "Message": delivery}),
    )
    assert answer == {"batchItemFailures": [{"itemIdentifier": "2"}]}
    deployment.clock.sleep(60)
    listed = deployment.administer(operation="suppressions")["suppressions"]
    assert [each["kind"] for each in listed] == ["complaint"]


def test_the_same_feedback_id_with_other_content_is_logged_counted_and_comes_again() -> None:
    deployment = vouched()
    deployment.send()
    at = deployment.clock.now()
    deployment.take_feedback(complaint(deployment.ses.sent[0], 1, at))
    with pytest.raises(BatchProcessingError):
        deployment.take_feedback(complaint(deployment.ses.sent[0], 1, at + timedelta(seconds=1)))
    assert deployment.telemetry.total(Metric.FEEDBACK_CONFLICT) > 0


# -- bounded runs -------------------------------------------------------------------------------------


def test_the_sender_begins_nothing_that_its_invocation_could_not_finish() -> None:
    deployment = vouched()
    assert deployment.send(Context(milliseconds=34_000))["ended"] == 0
    assert deployment.ses.sent == []
    assert deployment.send(Context(milliseconds=36_000))["sent"] == 1


def test_one_run_sends_at_most_its_batch() -> None:
    deployment = vouched(BATCH_SIZE="1")
    deployment.set_contacts(ops={"email": "ops.second@buyer.example"})
    deployment.deliver()
    assert [deployment.send()["ended"] for _ in range(4)] == [1, 1, 0, 0]


def test_the_sender_fails_loudly_when_nothing_can_be_sent_and_sends_it_later() -> None:
    deployment = vouched()
    refused = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"HTTPStatusCode": 403}}

    def refuse(name: str) -> None:
        from botocore.exceptions import ClientError  # noqa: PLC0415

        if name == "SendEmail":
            raise ClientError(refused, name)

    deployment.hooks.before = refuse
    with pytest.raises(PartialFailure):
        deployment.send()
    deployment.hooks.before = lambda _: None
    deployment.clock.sleep(600)
    assert deployment.maintain() == {"recovered": 0, "requeued": 1, "purged": 0}
    deployment.send()
    assert (OWNER_EMAIL, STARTED) in deployment.told()


def test_secrets_and_templates_are_read_once_a_process_and_the_latter_after_five_minutes_again() -> None:
    deployment = vouched()
    runtime = deployment.runtime()
    queries: list[str] = []
    deployment.hooks.before = queries.append
    runtime.sender()
    runtime.sender()
    assert deployment.secrets.reads == 2, "pepper and verification keys"
    assert queries.count("Query") == 1
    deployment.clock.sleep(300)
    runtime.sender()
    assert deployment.secrets.reads == 3, "the keys can be replaced, the pepper cannot"
    assert queries.count("Query") == 2


# -- settings -----------------------------------------------------------------------------------------


def use_cases() -> list[tuple[str, Any]]:
    return [
        ("intake", Runtime.intake),
        ("sender", Runtime.sender),
        ("feedback", lambda runtime: (runtime.feedback(), runtime.feedback_topic())),
        ("maintenance", Runtime.maintenance),
        ("administration", Runtime.administration),
        ("contacts", Runtime.contact_follower),
    ]


NEEDED = {
    "intake": {
        "AWS_REGION",
        "NOTIFICATIONS_TABLE",
        "CUSTOMER_PROFILE_TABLES",
        "SUBSCRIBERS_TABLE",
        "SUBSCRIBERS_TABLE_REGION",
    },
    "sender": {
        "AWS_REGION",
        "NOTIFICATIONS_TABLE",
        "CUSTOMER_PROFILE_TABLES",
        "SENDER",
        "MESSAGE_CONTEXT",
        "TRANSPORT",
        "PEPPER_SECRET_ARN",
        "VERIFICATION_SECRET_ARN",
        "SENDER_TIMEOUT_SECONDS",
    },
    "feedback": {"NOTIFICATIONS_TABLE", "FEEDBACK_TOPIC_ARN"},
    "maintenance": {"NOTIFICATIONS_TABLE", "SENDER_TIMEOUT_SECONDS"},
    "administration": {"NOTIFICATIONS_TABLE", "SENDER_TIMEOUT_SECONDS"},
    "contacts": {"NOTIFICATIONS_TABLE", "CUSTOMER_PROFILE_TABLES", "EVENT_BUS_ARN"},
}


@pytest.mark.parametrize(("name", "make"), use_cases())
def test_each_function_names_the_setting_that_it_lacks_and_needs_no_other(name: str, make: Any) -> None:
    deployment = Deployment()
    deployment.environment = {each: ENVIRONMENT[each] for each in NEEDED[name]}
    make(deployment.runtime())
    for missing in NEEDED[name]:
        deployment.environment = {each: ENVIRONMENT[each] for each in NEEDED[name] - {missing}}
        with pytest.raises(Misconfigured, match=missing):
            make(deployment.runtime())


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("SENDER_TIMEOUT_SECONDS", "900", "STALE_AFTER_MINUTES does not outlast SENDER_TIMEOUT_SECONDS"),
        ("SENDER_TIMEOUT_SECONDS", "30", "not above SEND_TIMEOUT_SECONDS"),
        ("SENDER_TIMEOUT_SECONDS", "soon", "no whole number"),
        ("STALE_AFTER_MINUTES", "0", "does not outlast"),
        ("STALE_AFTER_MINUTES", "1441", "stale_after"),
        ("SEND_TIMEOUT_SECONDS", "5", "below 6"),
        ("SEND_TIMEOUT_SECONDS", "25", "not above 25"),
        ("MAX_AGE_DAYS", "31", "max_age"),
        ("MAX_ATTEMPTS", "0", "max_attempts"),
        ("BATCH_SIZE", "1001", "batch"),
        ("FEEDBACK_RETENTION_DAYS", "3651", "feedback_retention"),
        ("VERIFICATION_LIFETIME_HOURS", "169", "a minute and seven days"),
        ("SENDER", "Seller <billing@seller.example>", "SENDER is not acceptable"),
        ("MESSAGE_CONTEXT", "{", "MESSAGE_CONTEXT is not JSON"),
        ("MESSAGE_CONTEXT", "{}", "MESSAGE_CONTEXT has not exactly"),
        (
            "MESSAGE_CONTEXT",
            json.dumps({**CONTEXT, "portalUrl": "http://portal.example/"}),
            "MESSAGE_CONTEXT: portal_url",
        ),
        ("MESSAGE_CONTEXTS", '{"other": {"product": "x"}}', r"MESSAGE_CONTEXTS\[other\] has not exactly"),
        ("TRANSPORT", "[]", "no JSON object"),
        ("TRANSPORT", '{"type": "pigeon"}', "neither of type"),
        ("TRANSPORT", '{"type": "ses"}', "neither of type"),
        ("TRANSPORT", json.dumps({**SMTP, "security": "none"}), "implicit or starttls"),
        ("TRANSPORT", json.dumps({**SMTP, "credentialsSecretArn": 1}), "the secret is an ARN"),
        ("TRANSPORT", json.dumps({**SMTP, "port": 0}), "host or port"),
        ("CUSTOMER_PROFILE_TABLES", "[]", "no JSON list"),
        ("CUSTOMER_PROFILE_TABLES", "{}", "no JSON list"),
        ("CUSTOMER_PROFILE_TABLES", "[{}]", "without a name"),
        ("CUSTOMER_PROFILE_TABLES", '[{"name": "t", "verifyUrl": "http://a.example/"}]', "verifyUrl of t"),
    ],
)
def test_a_setting_out_of_its_bounds_is_named_before_anything_is_sent(
    setting: str, value: str, told: str
) -> None:
    deployment = vouched()
    deployment.environment[setting] = value
    with pytest.raises(Misconfigured, match=told):
        deployment.send()
    assert deployment.ses.sent == []


def test_a_bus_that_is_none_is_refused() -> None:
    with pytest.raises(Misconfigured, match="EVENT_BUS_ARN"):
        Deployment(EVENT_BUS_ARN="bus").runtime().contact_follower()


@pytest.mark.parametrize(
    ("secret", "value"),
    [
        (PEPPER_SECRET, "{"),
        (PEPPER_SECRET, "[]"),
        (PEPPER_SECRET, "{}"),
        (PEPPER_SECRET, json.dumps({"pepper": "no base64!"})),
        (PEPPER_SECRET, json.dumps({"pepper": base64.b64encode(b"s" * 31).decode()})),
        (LINK_SECRET, json.dumps({"keys": "x"})),
        (LINK_SECRET, json.dumps({"keys": []})),
        (LINK_SECRET, json.dumps({"keys": [base64.b64encode(b"s" * 31).decode()]})),
    ],
)
def test_a_secret_of_another_form_is_refused_without_its_content(secret: str, value: str) -> None:
    deployment = vouched()
    deployment.secrets.values[secret] = value
    with pytest.raises(Misconfigured) as refused:
        deployment.send()
    assert "sss" not in str(refused.value)
    assert refused.value.__cause__ is None or "sss" not in str(refused.value.__cause__)


def test_the_defaults_are_those_of_the_limits() -> None:
    assert Environment({"SENDER_TIMEOUT_SECONDS": "55"}).limits() == Limits()


def test_every_limit_is_read() -> None:
    values = {
        "MAX_AGE_DAYS": "3",
        "STALE_AFTER_MINUTES": "20",
        "MAX_ATTEMPTS": "5",
        "BATCH_SIZE": "50",
        "SEND_TIMEOUT_SECONDS": "40",
        "FEEDBACK_RETENTION_DAYS": "30",
        "SENDER_TIMEOUT_SECONDS": "65",
    }
    assert Environment(values).limits() == Limits(
        max_age=timedelta(days=3),
        stale_after=timedelta(minutes=20),
        max_attempts=5,
        batch=50,
        send_timeout=timedelta(seconds=40),
        feedback_retention=timedelta(days=30),
    )


def test_the_transport_is_ses_or_smtp_with_its_login_by_reference() -> None:
    assert Environment({"TRANSPORT": json.dumps(SMTP)}).transport() == SmtpSettings(
        "smtp.seller.example", 465, SmtpSecurity.IMPLICIT, "arn:smtp"
    )
    assert Environment(ENVIRONMENT).transport() == SesSettings("awsmp")
    transport = Deployment().runtime().sender().transport
    assert isinstance(transport, SesTransport)
    deployment = Deployment(TRANSPORT=json.dumps(SMTP))
    reads = deployment.secrets.reads
    smtp = deployment.runtime().sender().transport
    assert isinstance(smtp, SmtpTransport)
    assert smtp.timeout_seconds == 25.0
    assert smtp.credentials is not None
    assert deployment.secrets.reads == reads + 2, "the login is read when a message needs it"


def test_messages_are_about_the_product_of_the_licence() -> None:
    own = {**json.loads(ENVIRONMENT["MESSAGE_CONTEXT"]), "product": "Special Product"}
    deployment = vouched(MESSAGE_CONTEXTS=json.dumps({"prod0example0code": own}))
    deployment.send()
    (mail,) = deployment.ses.sent
    assert mail["Content"]["Simple"]["Subject"]["Data"] == "Your Special Product subscription has started"


# -- production ---------------------------------------------------------------------------------------


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in {**ENVIRONMENT, **VERIFY_ENVIRONMENT, "AWS_DEFAULT_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(name, value)
    for module in (composition_notifications, composition_verify):
        module.production_runtime.cache_clear()
    with mock_aws():
        yield monkeypatch
    for module in (composition_notifications, composition_verify):
        module.production_runtime.cache_clear()


def test_the_production_runtime_is_made_once_of_the_environment(production: Any) -> None:
    runtime = composition_notifications.production_runtime("notification-intake")
    assert runtime is composition_notifications.production_runtime("notification-intake")
    assert isinstance(runtime.telemetry, LambdaTelemetry)
    assert runtime.clients.dynamodb() is runtime.clients.dynamodb()
    assert runtime.clients.dynamodb_of("us-east-1").meta.region_name == "us-east-1"  # type: ignore[attr-defined]
    assert runtime.clients.events_of("us-east-2").meta.region_name == "us-east-2"  # type: ignore[attr-defined]
    ses: Any = runtime.clients.ses()
    assert ses.meta.config.retries["total_max_attempts"] == 1, "a retry inside the SDK hides a lost answer"
    assert ses.meta.config.connect_timeout + ses.meta.config.read_timeout == 25
    secrets: Any = runtime.clients.secrets()
    assert secrets.meta.service_model.service_name == "secretsmanager"
    assert runtime.environment.required("NOTIFICATIONS_TABLE") == ENVIRONMENT["NOTIFICATIONS_TABLE"]


def test_every_entry_point_runs_on_the_production_runtime(production: Any) -> None:
    """Against an account without any of its resources: each says so instead of passing over it."""
    for module in (notification_sender, notification_maintenance):
        with pytest.raises(Misconfigured):
            module.handler({}, Context())
    for module in (notification_intake, notification_feedback):
        with pytest.raises(BatchProcessingError):
            module.handler(
                {"Records": [{"messageId": "1", "body": "{", "eventSource": "aws:sqs"}]}, Context()
            )
    record = {"eventID": "1", "dynamodb": {"SequenceNumber": "1"}}
    with pytest.raises(PartialFailure):
        notification_contacts.handler({"Records": [record]}, Context())
    assert notification_admin.handler({"operation": "x"}, Context())["error"] == "InvalidRequest"
    assert verify.handler(http_event("GET"), Context())["statusCode"] == 200
    assert verify.handler(http_event("POST", b"token=x"), Context())["statusCode"] == 500


# -- the verify function ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/other", 404), ("PUT", "/verify", 405), ("OPTIONS", "/verify", 405)],
)
def test_the_verify_function_answers_its_own_route_only(method: str, path: str, status: int) -> None:
    deployment = Deployment()
    answer = verify.run(http_event(method, b"", path), Context(), deployment.verify_runtime())
    assert answer["statusCode"] == status


@pytest.mark.parametrize("missing", ["CUSTOMER_PROFILE_TABLE", "VERIFICATION_SECRET_ARN"])
def test_a_missing_setting_of_the_verify_function_is_a_500_that_is_counted(missing: str) -> None:
    deployment = Deployment()
    runtime = deployment.verify_runtime(**{missing: ""})
    answer = verify.run(http_event("POST", b"token=x"), Context(), runtime)
    assert answer["statusCode"] == 500
    assert missing not in answer["body"]
    assert deployment.telemetry.total(Metric.ADDRESS_VERIFICATION_FAILED) == 1


def test_a_moments_failure_of_the_table_is_a_503_and_the_link_stays_good() -> None:
    from sandbox.memory_aws import aws_error  # noqa: PLC0415

    deployment = Deployment()
    deployment.register()
    deployment.deliver()
    deployment.send()

    def fail(name: str) -> None:
        if name == "UpdateItem":
            error: Exception = aws_error("dynamodb", name, "InternalServerError", "injected")
            raise error

    deployment.hooks.before = fail
    assert deployment.press(deployment.token())["statusCode"] == 503
    deployment.hooks.before = lambda _: None
    assert deployment.press(deployment.token())["statusCode"] == 200


def test_a_defect_of_the_verify_function_is_raised_without_its_text() -> None:
    deployment = Deployment()

    def explode(_name: str) -> None:
        raise RuntimeError(OWNER_EMAIL)

    deployment.hooks.before = explode
    with pytest.raises(RequestFailed) as failed:
        verify.run(http_event("POST", b"token=x"), Context(), deployment.verify_runtime())
    assert OWNER_EMAIL not in str(failed.value)


def test_what_the_page_is_about_is_escaped() -> None:
    runtime = Deployment().verify_runtime(PRODUCT_NAME="<b>A & B</b>", SUPPORT='"help"')
    body = verify.run(http_event("GET"), Context(), runtime)["body"]
    assert "&lt;b&gt;A &amp; B&lt;/b&gt;" in body
    assert "&quot;help&quot;" in body


def test_the_policy_allows_exactly_the_pages_own_script_and_style() -> None:
    import hashlib  # noqa: PLC0415
    import re  # noqa: PLC0415

    answer = verify.run(http_event("GET"), Context(), Deployment().verify_runtime())
    policy = answer["headers"]["Content-Security-Policy"]
    for element, directive in (("script", "script-src"), ("style", "style-src")):
        (source,) = re.findall(rf"<{element}>(.*?)</{element}>", answer["body"], re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


# -- privacy ------------------------------------------------------------------------------------------


def test_what_lambda_writes_to_its_log_holds_no_address_name_token_or_whole_account(
    capsys: pytest.CaptureFixture[str], production: Any
) -> None:
    deployment = Deployment()
    deployment.telemetry = LambdaTelemetry("test")  # type: ignore[assignment]
    deployment.register()
    deployment.set_contacts(
        ops={"email": "no address, Secret Name"}, second={"email": "second@buyer.example"}
    )
    deployment.deliver()
    deployment.send()
    token = deployment.token()
    deployment.press(token)
    deployment.press("x.y")
    deployment.deliver()
    deployment.send()
    deployment.take_feedback(complaint(deployment.ses.sent[0], 1, deployment.clock.now()))
    with pytest.raises(BatchProcessingError):
        deployment.take_in(json.dumps({"to": OWNER_EMAIL}))
    broken = {"eventID": OWNER_EMAIL.replace("@", "-at-"), "dynamodb": {"SequenceNumber": "1", "Keys": {}}}
    with pytest.raises(PartialFailure):
        notification_contacts.run({"Records": [broken]}, Context(), deployment.runtime())
    deployment.administer(operation="suppressions")
    deployment.maintain()
    captured = capsys.readouterr()
    logged = captured.out + captured.err
    assert "notification entry ended" in logged
    assert "address verification" in logged
    for private in (OWNER_EMAIL, OWNER_NAME, "Secret Name", "second@buyer", "seller.example/live", token):
        assert private not in logged
    for account in ("123456789012", "111122223333"):
        assert account not in logged
    assert PROFILES not in logged
