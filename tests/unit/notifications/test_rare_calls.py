"""Calls that few runs need: each stands for a permission that no other test would use."""

from __future__ import annotations

import json
import socket
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from tests.unit.notifications.deployment import OWNER_EMAIL, PROFILES, Deployment, complaint
from tests.unit.notifications.world import LICENSE, active_row, cancellation

STARTED = "subscription_started"
SMTP = {"type": "smtp", "host": "127.0.0.1", "security": "starttls", "credentialsSecretArn": "arn:smtp"}
#: More than one transaction holds.
CONTACTS = 130


def calls_of(deployment: Deployment) -> list[str]:
    calls: list[str] = []
    deployment.hooks.before = calls.append
    return calls


def many_to_tell() -> Deployment:
    deployment = Deployment()
    deployment.register()
    contacts = {
        f"c{number}": {"email": f"c{number}@buyer.example", "verified": True} for number in range(CONTACTS)
    }
    deployment.set_contacts(owner={"verified": True}, **contacts)
    deployment.deliver()
    return deployment


def refuse_sending(name: str) -> None:
    if name == "SendEmail":
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, name)


@pytest.mark.parametrize("by", ["maintenance", "administrator"])
def test_an_entry_with_more_deliveries_than_a_transaction_holds_is_requeued_in_parts(by: str) -> None:
    deployment = many_to_tell()
    deployment.hooks.before = refuse_sending
    assert deployment.send()["failed"] == CONTACTS + 1
    deployment.hooks.before = lambda _: None
    deployment.clock.sleep(600)
    calls = calls_of(deployment)

    if by == "maintenance":
        assert deployment.maintain()["requeued"] == 1
    else:
        (entry,) = deployment.administer(operation="entries", queue="retryable", limit=10)["entries"]
        deployment.administer(operation="requeue", entryId=entry["entryId"])

    assert calls.count("TransactWriteItems") > 1
    deployment.send()
    assert len(deployment.told(STARTED)) == CONTACTS + 1
    assert len(set(deployment.told(STARTED))) == CONTACTS + 1


def test_maintenance_purges_reports_past_their_retention_and_keeps_the_suppression() -> None:
    deployment = Deployment()
    deployment.register()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    deployment.send()
    deployment.take_feedback(
        complaint(deployment.ses.sent[-1], len(deployment.ses.sent), deployment.clock.now())
    )
    deployment.clock.sleep(timedelta(days=366).total_seconds())

    assert deployment.maintain() == {"recovered": 0, "requeued": 0, "purged": 1}

    assert deployment.maintain()["purged"] == 0
    listed = deployment.administer(operation="suppressions")["suppressions"]
    assert [each["kind"] for each in listed] == ["complaint"]


def test_a_verified_contact_of_a_licence_that_no_event_has_told_of_is_told_by_its_row() -> None:
    deployment = Deployment()
    deployment.write_profile()
    deployment.subscribers.write(None, active_row())
    deployment.set_contacts(owner={"verified": True})
    calls = calls_of(deployment)

    deployment.deliver()

    assert "GetItem" in calls
    deployment.send()
    assert deployment.told(STARTED) == [(OWNER_EMAIL, STARTED)]


def test_a_licence_is_found_by_its_account_where_its_row_spells_it_otherwise() -> None:
    deployment = Deployment()
    deployment.write_profile()
    other = LICENSE.replace("license:l-", "license/L-")
    deployment.subscribers.write(None, active_row(license_arn=other))
    deployment.set_contacts(owner={"verified": True})
    calls = calls_of(deployment)

    deployment.deliver()

    assert "Query" in calls
    deployment.send()
    assert deployment.told(STARTED) == [(OWNER_EMAIL, STARTED)]


def test_a_cancellation_request_finds_its_licences_by_the_agreement() -> None:
    deployment = Deployment()
    deployment.register()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    deployment.send()
    calls = calls_of(deployment)

    body = cancellation("APPROVED", event_id="request-1", at=deployment.clock.now())
    assert deployment.take_in(body) == {"batchItemFailures": []}

    assert "Query" in calls
    deployment.send()
    assert deployment.told("cancellation_scheduled") == [(OWNER_EMAIL, "cancellation_scheduled")]


def test_the_smtp_transport_reads_its_own_secret_and_the_mail_waits_where_no_server_answers() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        deployment = Deployment(
            TRANSPORT=json.dumps({**SMTP, "port": port}),
            CUSTOMER_PROFILE_TABLES=json.dumps([{"name": PROFILES}]),
        )
        deployment.secrets.values["arn:smtp"] = json.dumps({"username": "u", "password": "p"})
        deployment.register()
        deployment.set_contacts(owner={"verified": True})
        deployment.deliver()

        assert deployment.send()["failed"] == 1

    assert "arn:smtp" in deployment.secrets.asked
    (entry,) = deployment.administer(operation="entries", queue="retryable", limit=10)["entries"]
    assert entry["reason"] == "notification_delivery_failed"
