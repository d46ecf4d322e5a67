"""An administrator's requests through the admin function."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from awsmp.domain.errors import StoreUnavailable
from awsmp.domain.notifications.outbox import Entry, EntryStatus
from awsmp.domain.notifications.store import Save
from awsmp.usecases.notifications.admin_api import QUEUES
from sandbox.memory_aws import aws_error
from tests.unit.notifications.deployment import OWNER_EMAIL, OWNER_NAME, Deployment, complaint
from tests.unit.notifications.world import BUYER, LICENSE

RECIPIENT = f"{BUYER}:owner"


def told() -> Deployment:
    deployment = Deployment()
    deployment.register()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    deployment.send()
    assert len(deployment.ses.sent) == 1
    return deployment


def refused() -> Deployment:
    """Return a deployment whose one notice SES has refused for good."""
    deployment = Deployment()
    deployment.register()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()

    def refuse(name: str) -> None:
        if name == "SendEmail":
            error: Exception = aws_error("sesv2", name, "MessageRejected", f"{OWNER_EMAIL} is not verified")
            raise error

    deployment.hooks.before = refuse
    deployment.send()
    deployment.hooks.before = lambda _: None
    return deployment


def suppressed() -> Deployment:
    deployment = told()
    deployment.take_feedback(complaint(deployment.ses.sent[0], 1, deployment.clock.now()))
    return deployment


def test_failed_entries_are_listed_with_what_they_are_about_and_their_deliveries() -> None:
    deployment = refused()
    (entry,) = deployment.administer(operation="entries", queue="failed")["entries"]
    assert entry["kind"] == "subscription_started"
    assert entry["subscriptionId"] == f"{BUYER}#{LICENSE}"
    assert entry["status"] == EntryStatus.FAILED
    assert entry["occurredAt"] == "2026-11-10T08:00:00Z"
    (delivery,) = deployment.administer(operation="deliveries", entryId=entry["entryId"])["deliveries"]
    assert (delivery["recipientId"], delivery["code"]) == (RECIPIENT, "MessageRejected")
    assert {"payload", "version"}.isdisjoint(entry)


@pytest.mark.parametrize("queue", QUEUES)
def test_every_queue_can_be_listed(queue: str) -> None:
    assert deployment_entries(told(), queue) == []


def deployment_entries(deployment: Deployment, queue: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = deployment.administer(operation="entries", queue=queue)["entries"]
    return listed


def test_an_entry_whose_payload_cannot_be_read_is_listed_all_the_same() -> None:
    deployment = Deployment()
    now = deployment.clock.now()
    entry = Entry("f" * 64, "{", occurred_at=now, created_at=now, due_at=now)
    deployment.store.commit(Save(entry))
    (listed,) = deployment_entries(deployment, "pending")
    assert (listed["entryId"], listed["kind"], listed["subscriptionId"]) == ("f" * 64, None, None)


def test_a_requeued_entry_is_sent_and_both_acts_are_audited() -> None:
    deployment = refused()
    (entry,) = deployment_entries(deployment, "failed")
    answer = deployment.administer(operation="requeue", entryId=entry["entryId"])
    assert answer["entry"]["status"] == EntryStatus.PENDING
    deployment.send()
    assert len(deployment.ses.sent) == 1
    audit = deployment.administer(operation="audit", day="2026-11-10")["audit"]
    assert sorted(each["action"] for each in audit) == ["entry_ended", "entry_ended", "entry_requeued"]
    assert audit[0]["counts"]["attempts"] >= 1


def test_a_suppression_is_cleared_for_a_reason_and_mail_goes_out_again() -> None:
    deployment = suppressed()
    (found,) = deployment.administer(operation="suppressions")["suppressions"]
    assert found["recipientId"] == RECIPIENT
    request = {
        "operation": "clear-suppression",
        "recipientId": RECIPIENT,
        "addressDigest": found["addressDigest"],
    }
    assert deployment.administer(**request, reason="because")["error"] == "UnknownClearingReason"
    assert deployment.administer(**request)["error"] == "InvalidRequest"
    cleared = deployment.administer(**request, reason="customer_request")["suppression"]
    assert cleared["clearedReason"] == "customer_request"
    assert deployment.administer(**request, reason="customer_request")["error"] == "NoActiveSuppression"
    assert deployment.administer(operation="suppressions")["suppressions"] == []
    kept = deployment.administer(operation="suppressions", recipientId=RECIPIENT)["suppressions"]
    assert [each["clearedReason"] for each in kept] == ["customer_request"]


def test_feedback_past_its_retention_is_purged_and_counted() -> None:
    deployment = suppressed()
    deployment.clock.sleep(timedelta(days=366).total_seconds())
    assert deployment.administer(operation="purge", limit=10) == {"purged": 1}
    assert deployment.administer(operation="purge") == {"purged": 0}
    assert deployment.administer(operation="suppressions")["suppressions"], "suppressions outlive it"


def test_a_second_request_for_a_link_within_a_second_is_the_same() -> None:
    deployment = told()
    request = {
        "operation": "verify-contact",
        "licenseArn": LICENSE,
        "customerAWSAccountId": BUYER,
        "contactId": "owner",
    }
    assert deployment.administer(**request)["entry"] == deployment.administer(**request)["entry"]
    assert len(deployment_entries(deployment, "pending")) == 1


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({}, "InvalidRequest"),
        ({"operation": "drop"}, "InvalidRequest"),
        ({"operation": 1}, "InvalidRequest"),
        ({"operation": "entries"}, "InvalidRequest"),
        ({"operation": "entries", "queue": "feedback"}, "InvalidRequest"),
        ({"operation": "entries", "queue": "failed", "limit": 0}, "InvalidRequest"),
        ({"operation": "entries", "queue": "failed", "limit": 1001}, "InvalidRequest"),
        ({"operation": "entries", "queue": "failed", "limit": True}, "InvalidRequest"),
        ({"operation": "deliveries"}, "InvalidRequest"),
        ({"operation": "audit", "day": "today"}, "InvalidRequest"),
        ({"operation": "requeue", "entryId": "none"}, "NotRequeueable"),
        (
            {
                "operation": "clear-suppression",
                "recipientId": "x",
                "addressDigest": "y",
                "reason": "customer_request",
            },
            "NoActiveSuppression",
        ),
        (
            {
                "operation": "verify-contact",
                "licenseArn": "x",
                "customerAWSAccountId": BUYER,
                "contactId": "owner",
            },
            "InvalidIdentity",
        ),
        (
            {
                "operation": "verify-contact",
                "licenseArn": LICENSE,
                "customerAWSAccountId": BUYER,
                "contactId": "a@b.example",
            },
            "InvalidRequest",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_and_changes_nothing(
    request_: dict[str, Any], error: str
) -> None:
    deployment = told()
    before = deployment.stored_text()
    assert deployment.administer(**request_)["error"] == error
    assert deployment.stored_text() == before


def test_a_failing_table_is_an_error_of_the_function_and_no_answer() -> None:
    deployment = told()

    def fail(name: str) -> None:
        if name == "Query":
            error: Exception = aws_error("dynamodb", name, "InternalServerError", "injected")
            raise error

    deployment.hooks.before = fail
    with pytest.raises(StoreUnavailable):
        deployment.administer(operation="suppressions")


def test_no_answer_holds_an_address_or_a_name() -> None:
    deployment = suppressed()
    answers = [
        deployment.administer(operation="suppressions"),
        deployment.administer(operation="audit", day="2026-11-10"),
        *(deployment.administer(operation="entries", queue=queue) for queue in QUEUES),
    ]
    for private in (OWNER_EMAIL, OWNER_NAME):
        assert private not in json.dumps(answers)
