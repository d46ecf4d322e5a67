"""The SES transport: the request that it makes, and what every answer and every silence is called."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
)
from botocore.stub import Stubber
from moto import mock_aws

from awsmp.adapters.notifications.ses_transport import SES_CLIENT_CONFIG, SesTransport
from awsmp.domain.errors import MeteringError, Misconfigured
from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.messages import EmailAddress, Message
from awsmp.domain.notifications.ports import OutcomeUnknown, TransportFailed, TransportRefused

MESSAGE = Message(
    subject="Rückerstattung",
    body="Guten Tag.\n",
    recipient=EmailAddress.parse("buyer@example.com"),
    sender=EmailAddress.parse("billing@acme.example"),
    kind=Kind.REFUNDED,
    delivery_id="f" * 64,
)
REQUEST = {
    "FromEmailAddress": "billing@acme.example",
    "Destination": {"ToAddresses": ["buyer@example.com"]},
    "Content": {
        "Simple": {
            "Subject": {"Data": "Rückerstattung", "Charset": "UTF-8"},
            "Body": {"Text": {"Data": "Guten Tag.\n", "Charset": "UTF-8"}},
            "Headers": [
                {"Name": "Auto-Submitted", "Value": "auto-generated"},
                {"Name": "X-AWSMP-Kind", "Value": "refunded"},
                {"Name": "X-AWSMP-Delivery-Id", "Value": "f" * 64},
            ],
        }
    },
    "EmailTags": [
        {"Name": "awsmp-delivery-id", "Value": "f" * 64},
        {"Name": "awsmp-kind", "Value": "refunded"},
    ],
    "ConfigurationSetName": "awsmp-notifications",
}


def ses_client() -> Any:
    return boto3.client(
        "sesv2",
        region_name="eu-west-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=SES_CLIENT_CONFIG,
    )


@pytest.fixture
def stub() -> Iterator[tuple[SesTransport, Stubber]]:
    client = ses_client()
    with Stubber(client) as stubber:
        yield SesTransport(client, "awsmp-notifications"), stubber


def failure_of(transport: SesTransport) -> MeteringError:
    with pytest.raises(MeteringError) as failure:
        transport.send(MESSAGE)
    shown = "".join(traceback.format_exception(failure.value))
    assert "@example.com" not in shown
    assert "quoting" not in shown
    assert failure.value.__context__ is None
    return failure.value


def test_the_request_names_one_recipient_the_headers_the_tags_and_the_configuration_set(
    stub: tuple[SesTransport, Stubber],
) -> None:
    transport, stubber = stub
    stubber.add_response("send_email", {"MessageId": "0100-ses"}, REQUEST)
    assert transport.send(MESSAGE) == "0100-ses"


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("MessageRejected", 400, TransportRefused),
        ("BadRequestException", 400, TransportRefused),
        ("TooManyRequestsException", 429, TransportFailed),
        ("ThrottlingException", 400, TransportFailed),
        ("LimitExceededException", 400, TransportFailed),
        ("ExpiredTokenException", 403, TransportFailed),
        ("SomethingUndocumented", 400, TransportFailed),
        ("AccessDeniedException", 403, Misconfigured),
        ("UnrecognizedClientException", 403, Misconfigured),
        ("SignatureDoesNotMatch", 403, Misconfigured),
        ("NotFoundException", 404, Misconfigured),
        ("MailFromDomainNotVerifiedException", 400, Misconfigured),
        ("SendingPausedException", 400, Misconfigured),
        ("AccountSuspendedException", 400, Misconfigured),
        ("InternalFailure", 500, OutcomeUnknown),
        ("ServiceUnavailable", 503, OutcomeUnknown),
    ],
)
def test_every_answer_of_ses_is_a_refusal_a_moments_failure_a_misconfiguration_or_unknown(
    stub: tuple[SesTransport, Stubber], code: str, status: int, expected: type[MeteringError]
) -> None:
    transport, stubber = stub
    stubber.add_client_error(
        "send_email", code, "quoting buyer@example.com: Email address is not verified", status
    )
    failure = failure_of(transport)
    assert type(failure) is expected
    assert code in str(failure)


class Silent:
    """A client whose call raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def send_email(self, **kwargs: Any) -> dict[str, Any]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (EndpointConnectionError(endpoint_url="quoting"), TransportFailed),
        (ConnectTimeoutError(endpoint_url="quoting"), TransportFailed),
        (ReadTimeoutError(endpoint_url="quoting"), OutcomeUnknown),
        (ConnectionClosedError(endpoint_url="quoting"), OutcomeUnknown),
        (HTTPClientError(error="quoting"), OutcomeUnknown),
        (ClientError({}, "SendEmail"), OutcomeUnknown),
        (NoCredentialsError(), Misconfigured),
    ],
)
def test_a_silence_was_not_sent_only_where_the_connection_was_never_made(
    error: Exception, expected: type[MeteringError]
) -> None:
    failure = failure_of(SesTransport(Silent(error), "awsmp-notifications"))
    assert type(failure) is expected


def test_a_request_that_the_sdk_refuses_is_a_refusal() -> None:
    failure = failure_of(SesTransport(ses_client(), 7))  # type: ignore[arg-type]
    assert type(failure) is TransportRefused
    assert failure.code == "ParamValidationError"


@pytest.mark.parametrize("answer", [{}, {"MessageId": ""}])
def test_an_answer_without_an_id_is_unknown(
    stub: tuple[SesTransport, Stubber], answer: dict[str, str]
) -> None:
    transport, stubber = stub
    stubber.add_response("send_email", answer)
    assert type(failure_of(transport)) is OutcomeUnknown


def test_the_sdk_makes_one_attempt_and_waits_less_than_a_minute() -> None:
    config = ses_client().meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.connect_timeout + config.read_timeout < 60


@mock_aws
def test_a_service_that_speaks_the_protocol_takes_the_message_and_names_it() -> None:
    client = ses_client()
    client.create_email_identity(EmailIdentity="billing@acme.example")
    assert SesTransport(client, "awsmp-notifications").send(MESSAGE)


@mock_aws
def test_a_service_that_does_not_know_the_sender_refuses() -> None:
    assert type(failure_of(SesTransport(ses_client(), "awsmp-notifications"))) is TransportRefused
