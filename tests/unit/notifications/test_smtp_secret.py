"""The SMTP login comes from Secrets Manager by reference and from nowhere else."""

from __future__ import annotations

import traceback
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from awsmp.adapters.notifications.smtp_secret import SmtpSecret
from awsmp.domain.errors import Misconfigured, StoreUnavailable

ARN = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:smtp-AbCdEf"


def stubbed() -> tuple[Any, Stubber]:
    client = boto3.client(
        "secretsmanager",
        region_name="eu-west-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    return client, Stubber(client)


def test_the_login_is_read_once_and_again_after_it_was_refused() -> None:
    client, stub = stubbed()
    for password in ("old", "new"):
        stub.add_response(
            "get_secret_value",
            {"SecretString": f'{{"username": "relay", "password": "{password}"}}'},
            {"SecretId": ARN},
        )
    with stub:
        secret = SmtpSecret(client, ARN)
        assert secret.current() is secret.current()
        assert secret.current().password == "old"
        secret.forget()
        assert secret.current().password == "new"
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "[]",
        '"hunter2"',
        "null",
        "{}",
        '{"username": "hunter2"}',
        '{"username": "relay", "password": 7}',
        '{"username": null, "password": "hunter2"}',
        '{"username": "relay", "password": ""}',
        '{"username": "relay", "password": "hunter2\\n"}',
    ],
)
def test_a_secret_of_another_form_is_a_misconfiguration_that_does_not_show_it(text: str) -> None:
    client, stub = stubbed()
    stub.add_response("get_secret_value", {"SecretString": text})
    with stub, pytest.raises(Misconfigured) as refusal:
        SmtpSecret(client, ARN).current()
    assert "hunter2" not in "".join(traceback.format_exception(refusal.value))


def test_a_binary_secret_is_a_misconfiguration() -> None:
    client, stub = stubbed()
    stub.add_response("get_secret_value", {"SecretBinary": b"{}"})
    with stub, pytest.raises(Misconfigured):
        SmtpSecret(client, ARN).current()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("AccessDeniedException", Misconfigured),
        ("ResourceNotFoundException", Misconfigured),
        ("InternalServiceError", StoreUnavailable),
        ("ThrottlingException", StoreUnavailable),
    ],
)
def test_an_answer_without_a_secret_is_named(code: str, expected: type[Exception]) -> None:
    client, stub = stubbed()
    stub.add_client_error("get_secret_value", code)
    with stub, pytest.raises(expected):
        SmtpSecret(client, ARN).current()
