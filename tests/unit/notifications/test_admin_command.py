"""The operator's command, against the admin function's own handler."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from sandbox import notifications_admin
from tests.unit.notifications.deployment import OWNER_EMAIL, Deployment, complaint
from tests.unit.notifications.world import BUYER, LICENSE

FUNCTION = "awsmp-notification-admin"
RECIPIENT = f"{BUYER}:owner"


class Lambda:
    """Invokes the handler as Lambda does: JSON in, JSON out, an error as an answer."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.requests: list[dict[str, Any]] = []

    def invoke(self, **kwargs: Any) -> dict[str, Any]:
        assert kwargs["FunctionName"] == FUNCTION
        request = json.loads(kwargs["Payload"])
        self.requests.append(request)
        try:
            answer = self.deployment.administer(**request)
        except Exception as error:  # noqa: BLE001 - as the runtime does
            told = {"errorType": type(error).__name__, "errorMessage": str(error)}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(told).encode())}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


class Broken:
    """Answers in a way that the function never does, or not at all."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer

    def invoke(self, **_: Any) -> dict[str, Any]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"Payload": io.BytesIO(self.answer)}


def run(client: Any, *arguments: str) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    code = notifications_admin.run(["--function", FUNCTION, *arguments], client, out, errors)
    return code, out.getvalue(), errors.getvalue()


def suppressed() -> Deployment:
    deployment = Deployment()
    deployment.register()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    deployment.send()
    deployment.take_feedback(complaint(deployment.ses.sent[0], 1, deployment.clock.now()))
    return deployment


def digest_of(deployment: Deployment) -> str:
    (found,) = deployment.administer(operation="suppressions")["suppressions"]
    return str(found["addressDigest"])


def test_suppressions_are_a_table_or_json_without_an_address() -> None:
    client = Lambda(suppressed())
    code, table, _ = run(client, "suppressions")
    heading, row = table.splitlines()
    assert code == 0
    assert heading.split() == ["recipientId", "addressDigest", "kind", "since", "clearedAt", "clearedReason"]
    assert row.split()[:3] == [RECIPIENT, digest_of(client.deployment), "complaint"]
    _, text, _ = run(client, "--json", "suppressions", "--recipient", RECIPIENT)
    assert json.loads(text)["suppressions"][0]["kind"] == "complaint"
    assert OWNER_EMAIL not in table + text


def test_an_empty_listing_says_so() -> None:
    assert run(Lambda(Deployment()), "list") == (0, "none\n", "")


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        (["list"], {"operation": "entries", "queue": "failed"}),
        (
            ["list", "--queue", "pending", "--limit", "5"],
            {"operation": "entries", "queue": "pending", "limit": 5},
        ),
        (["deliveries", "e"], {"operation": "deliveries", "entryId": "e"}),
        (["suppressions"], {"operation": "suppressions"}),
        (["audit", "2026-11-10"], {"operation": "audit", "day": "2026-11-10"}),
        (["--yes", "requeue", "e"], {"operation": "requeue", "entryId": "e"}),
        (["--yes", "purge", "--limit", "7"], {"operation": "purge", "limit": 7}),
        (
            ["--yes", "clear-suppression", "r", "d", "--reason", "address_corrected"],
            {
                "operation": "clear-suppression",
                "recipientId": "r",
                "addressDigest": "d",
                "reason": "address_corrected",
            },
        ),
        (
            ["--yes", "verify-contact", LICENSE, BUYER, "owner"],
            {
                "operation": "verify-contact",
                "licenseArn": LICENSE,
                "customerAWSAccountId": BUYER,
                "contactId": "owner",
            },
        ),
    ],
)
def test_each_command_is_one_request_of_the_function(arguments: list[str], request_: dict[str, Any]) -> None:
    client = Lambda(suppressed())
    run(client, *arguments)
    assert client.requests == [request_]


@pytest.mark.parametrize(
    "arguments",
    [
        ["requeue", "e"],
        ["purge"],
        ["clear-suppression", "r", "d", "--reason", "customer_request"],
        ["verify-contact", LICENSE, BUYER, "owner"],
    ],
)
def test_what_changes_something_needs_yes_and_says_what_it_would_do(arguments: list[str]) -> None:
    client = Lambda(suppressed())
    code, out, errors = run(client, *arguments)
    assert (code, out, client.requests) == (2, "", [])
    assert "nothing was changed" in errors
    assert f'"operation": "{arguments[0]}"' in errors


def test_a_suppression_is_lifted_with_a_reason() -> None:
    deployment = suppressed()
    client = Lambda(deployment)
    command = ["clear-suppression", RECIPIENT, digest_of(deployment), "--reason", "customer_request"]
    code, out, _ = run(client, "--yes", *command)
    assert code == 0
    assert "clearedReason: customer_request" in out
    assert run(client, "suppressions") == (0, "none\n", "")
    code, _, errors = run(client, "--yes", *command)
    assert code == 1
    assert "NoActiveSuppression" in errors


def test_audit_entries_show_their_counts() -> None:
    _, out, _ = run(Lambda(suppressed()), "audit", "2026-11-10")
    assert "attempts=1,failed=0,incomplete=0,sent=1,skipped=0" in out


@pytest.mark.parametrize(
    "arguments",
    [[], ["drop"], ["clear-suppression", "r", "d"], ["clear-suppression", "r", "d", "--reason", "because"]],
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(Lambda(Deployment()), *arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err


def test_a_failure_of_the_function_is_told_and_ends_with_1() -> None:
    deployment = Deployment(NOTIFICATIONS_TABLE="")
    code, out, errors = run(Lambda(deployment), "list")
    assert (code, out) == (1, "")
    assert "Misconfigured: NOTIFICATIONS_TABLE is not set" in errors


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"{", "no JSON"),
        (b"[]", "no JSON object"),
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": "x"}}, "Invoke"), "AccessDenied"),
        (EndpointConnectionError(endpoint_url="https://lambda.example"), "could not be reached"),
    ],
)
def test_whatever_keeps_the_function_from_answering_is_told_and_ends_with_1(
    answer: bytes | Exception, told: str
) -> None:
    code, _, errors = run(Broken(answer), "list")
    assert code == 1
    assert told in errors
