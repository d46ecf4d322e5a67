"""A contact's address from registration to the first notice, through the handlers, with every call failing.

Whatever fails, the buyer can verify the address, hears of the subscription once, and nothing goes to an
address that was not verified but the one message that asks for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.exceptions import ReadTimeoutError

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.outbox import (
    EntryStatus,
    PayloadInvalid,
    Reason,
    VerificationPayload,
    parse_payload,
)
from awsmp.domain.notifications.verification import LinkSigner, VerificationClaim
from awsmp.domain.ports import Metric
from awsmp.handlers import notification_contacts, verify
from sandbox.memory_aws import aws_error
from tests.unit.notifications.deployment import (
    KEY,
    OWNER_EMAIL,
    OWNER_NAME,
    PROFILES,
    VERIFY_URL,
    Context,
    Deployment,
    body_of,
    complaint,
    delivery_of,
    http_event,
    kind_of,
    profiles_table,
)
from tests.unit.notifications.world import BUYER, LICENSE, SUBSCRIPTION, active_row

VERIFICATION, STARTED = "address_verification", "subscription_started"
OPS_EMAIL = "ops.second@buyer.example"


def registered() -> Deployment:
    deployment = Deployment()
    deployment.register()
    deployment.deliver()
    return deployment


def invited() -> Deployment:
    deployment = registered()
    deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, VERIFICATION)]
    return deployment


def verified() -> Deployment:
    deployment = invited()
    assert deployment.press(deployment.token())["statusCode"] == 200
    deployment.deliver()
    return deployment


def later(deployment: Deployment, **span: float) -> None:
    deployment.clock.sleep(timedelta(**span).total_seconds())


def test_a_buyer_who_registers_is_asked_to_verify_and_then_told_that_the_subscription_has_started() -> None:
    deployment = verified()
    deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, VERIFICATION), (OWNER_EMAIL, STARTED)]
    for _ in range(3):
        later(deployment, minutes=10)
        deployment.deliver()
        deployment.send()
        deployment.maintain()
    assert len(deployment.ses.sent) == 2


def test_nothing_but_the_request_is_sent_before_the_link_is_used() -> None:
    deployment = invited()
    for _ in range(20):
        later(deployment, hours=1)
        deployment.maintain()
        deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, VERIFICATION)]


def test_opening_the_link_changes_nothing_so_that_a_mail_scanner_cannot_use_it_up() -> None:
    deployment = invited()
    before = deployment.profile()
    page = deployment.open_link()
    assert page["statusCode"] == 200
    assert deployment.open_link("HEAD")["body"] == ""
    assert deployment.profile() == before
    assert '<form method="post" hidden>' in page["body"]
    assert deployment.press(deployment.token())["statusCode"] == 200
    assert deployment.profile() != before


def test_the_token_is_in_the_fragment_and_nowhere_in_what_the_page_says() -> None:
    deployment = invited()
    assert f"/verify#verify={deployment.token()}" in body_of(deployment.ses.sent[0])
    for answer in (deployment.open_link(), deployment.press(deployment.token())):
        assert deployment.token() not in json.dumps(answer)
        assert OWNER_EMAIL not in json.dumps(answer)


def test_a_link_works_once_and_says_so_again() -> None:
    deployment = invited()
    token = deployment.token()
    first, second = deployment.press(token), deployment.press(token)
    assert first == second
    assert deployment.telemetry.total(Metric.ADDRESS_VERIFIED) == 1


def test_an_expired_link_is_refused_and_an_administrator_sends_another() -> None:
    deployment = invited()
    token = deployment.token()
    later(deployment, hours=24)
    answer = deployment.press(token)
    assert answer["statusCode"] == 400
    assert "expired" in answer["body"]
    assert deployment.telemetry.total(Metric.ADDRESS_VERIFICATION_REFUSED, "ExpiredLink") == 1
    asked = deployment.administer(
        operation="verify-contact", licenseArn=LICENSE, customerAWSAccountId=BUYER, contactId="owner"
    )
    assert asked["entry"]["kind"] == VERIFICATION
    deployment.send()
    assert deployment.press(deployment.token())["statusCode"] == 200


def test_a_later_link_makes_an_earlier_one_void() -> None:
    deployment = invited()
    later(deployment, minutes=1)
    deployment.administer(
        operation="verify-contact", licenseArn=LICENSE, customerAWSAccountId=BUYER, contactId="owner"
    )
    deployment.send()
    assert "no longer valid" in deployment.press(deployment.token(0))["body"]
    assert deployment.press(deployment.token(1))["statusCode"] == 200


def test_a_contact_that_the_seller_adds_is_asked_too_and_told_from_then_on() -> None:
    deployment = verified()
    deployment.send()
    deployment.set_contacts(ops={"email": OPS_EMAIL, "role": "admin"})
    deployment.deliver()
    deployment.send()
    assert deployment.told()[-1] == (OPS_EMAIL, VERIFICATION)
    deployment.press(deployment.token())
    deployment.deliver()
    deployment.send()
    assert deployment.told(STARTED) == [(OWNER_EMAIL, STARTED)], "what was before is not told again"


def test_a_changed_address_has_to_be_verified_anew() -> None:
    deployment = verified()
    deployment.set_contacts(owner={"email": "new.owner@buyer.example"})
    deployment.deliver()
    deployment.send()
    assert deployment.told()[-1] == ("new.owner@buyer.example", VERIFICATION)
    assert deployment.told(STARTED) == [], "the verified address is gone"


def test_an_address_that_is_changed_before_it_was_verified_is_asked_instead() -> None:
    deployment = invited()
    first = deployment.token()
    deployment.set_contacts(owner={"email": "new.owner@buyer.example"})
    deployment.deliver()
    deployment.send()
    assert deployment.told()[-1] == ("new.owner@buyer.example", VERIFICATION)
    assert "no longer valid" in deployment.press(first)["body"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"email": "new.owner@buyer.example"}, [("new.owner@buyer.example", VERIFICATION)]),
        ({"active": False}, []),
        ({"verified": True}, []),
        ({"verified": False}, []),
        ({"active": None, "verified": None, "locale": "de"}, [(OWNER_EMAIL, VERIFICATION)]),
    ],
    ids=["address changed", "deactivated", "vouched for", "ruled out", "nothing that matters"],
)
def test_a_contact_that_changes_between_the_check_and_the_link_is_judged_by_the_write(
    entry: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    deployment = registered()
    changes = [entry]

    def change(name: str) -> None:
        if name == "UpdateItem" and changes:
            deployment.set_contacts(owner=changes.pop())

    deployment.hooks.before = change
    attempt(deployment.send)
    assert changes == []
    assert deployment.told() == told


def test_each_address_that_the_seller_vouches_for_is_news() -> None:
    deployment = registered()
    for number, email in enumerate(("one@buyer.example", "two@buyer.example"), start=1):
        deployment.set_contacts(ops={"email": email, "verified": True})
        deployment.deliver()
        assert deployment.telemetry.total(Metric.ADDRESSES_VERIFIED) == number
    deployment.set_contacts(ops={"email": "two@buyer.example", "verified": True, "locale": "de"})
    deployment.deliver()
    assert deployment.telemetry.total(Metric.ADDRESSES_VERIFIED) == 2


def test_a_change_of_a_profile_that_is_about_no_address_leads_to_no_mail() -> None:
    deployment = invited()
    deployment.put_profile({**deployment.profile(), "plan": "large"})
    deployment.deliver()
    later(deployment, minutes=1)
    deployment.send()
    assert len(deployment.ses.sent) == 1


def test_sellers_who_verify_contacts_themselves_set_it_and_no_link_is_sent() -> None:
    deployment = registered()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, STARTED)]
    assert deployment.telemetry.total(Metric.ADDRESSES_VERIFIED) == 1


def test_without_a_verification_page_no_link_is_sent_and_no_key_is_read() -> None:
    tables = json.dumps([{"name": PROFILES, "verifyUrl": None}])
    deployment = Deployment(CUSTOMER_PROFILE_TABLES=tables, VERIFICATION_SECRET_ARN="")
    deployment.register()
    deployment.deliver()
    assert deployment.send()["ended"] == 0
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, STARTED)]


def test_an_address_that_the_seller_has_ruled_out_is_not_written_to() -> None:
    deployment = verified()
    deployment.set_contacts(owner={"verified": False})
    deployment.deliver()
    deployment.send()
    assert deployment.told(STARTED) == []
    deployment.administer(
        operation="verify-contact", licenseArn=LICENSE, customerAWSAccountId=BUYER, contactId="owner"
    )
    with pytest.raises(MeteringError):
        deployment.send()
    assert len(deployment.ses.sent) == 1


def test_a_contact_removed_before_the_send_is_not_asked() -> None:
    deployment = registered()
    deployment.set_contacts(ops={"email": OPS_EMAIL})
    deployment.deliver()
    deployment.set_contacts(ops=None)
    deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, VERIFICATION)]
    assert deployment.telemetry.total(Metric.NOTIFICATIONS_SKIPPED, Reason.NO_RECIPIENT) == 1


def test_a_recipient_who_complained_about_the_request_is_not_asked_again() -> None:
    deployment = invited()
    report = complaint(deployment.ses.sent[0], 1, deployment.clock.now())
    assert deployment.take_feedback(report) == {"batchItemFailures": []}
    later(deployment, minutes=1)
    deployment.administer(
        operation="verify-contact", licenseArn=LICENSE, customerAWSAccountId=BUYER, contactId="owner"
    )
    deployment.send()
    assert len(deployment.ses.sent) == 1


def test_the_request_waits_until_the_licences_home_region_is_known_here() -> None:
    deployment = Deployment()
    deployment.write_profile()
    deployment.deliver()
    assert deployment.send() == dict.fromkeys(
        ("ended", "lostClaims", "sent", "skipped", "failed", "incomplete"), 0
    )
    deployment.write_row(active_row())
    deployment.deliver()
    later(deployment, minutes=1)
    deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, VERIFICATION)]


def test_a_licence_at_home_in_another_region_gets_no_request_from_here() -> None:
    deployment = Deployment()
    deployment.write_profile()
    deployment.write_row(active_row(home="us-east-2"))
    deployment.deliver()
    for _ in range(40):
        deployment.send()
        deployment.maintain()
        later(deployment, hours=1)
    assert deployment.ses.sent == []
    assert deployment.telemetry.total(Metric.NOTIFICATIONS_SKIPPED, Reason.FOREIGN_REGION) == 1
    assert deployment.telemetry.total(Metric.NOTIFICATION_ENTRIES_FAILED) == 0


def test_a_request_for_an_event_too_long_ago_is_not_sent() -> None:
    deployment = registered()
    later(deployment, days=8)
    deployment.send()
    assert deployment.ses.sent == []
    assert deployment.telemetry.total(Metric.NOTIFICATIONS_SKIPPED, Reason.EXPIRED) == 1


def test_a_record_of_the_stream_that_comes_twice_asks_once() -> None:
    deployment = Deployment()
    deployment.register()
    event = {"Records": [*deployment.read_stream(), *deployment.read_stream()]}
    for _ in range(2):
        notification_contacts.run(event, Context(), deployment.runtime())
    deployment.drain()
    deployment.send()
    assert len(deployment.ses.sent) == 1
    assert deployment.telemetry.total(Metric.ADDRESS_VERIFICATIONS_REQUESTED) == 1


def test_news_of_a_verified_contact_that_the_bus_refuses_comes_again() -> None:
    deployment = invited()
    deployment.press(deployment.token())
    deployment.bus.refuse = lambda number: number <= 1
    event = {"Records": deployment.read_stream()}
    answer = notification_contacts.run(
        {"Records": [*event["Records"], *unrelated(event["Records"])]}, Context(), deployment.runtime()
    )
    number = event["Records"][0]["dynamodb"]["SequenceNumber"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": number}]}
    deployment.deliver()
    deployment.send()
    assert deployment.told(STARTED) == [(OWNER_EMAIL, STARTED)]


def unrelated(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a record of another profile that leads to nothing."""
    key = {"licenseArn": {"S": LICENSE}, "customerAWSAccountId": {"S": "999988887777"}}
    body = {**records[0]["dynamodb"], "Keys": key, "SequenceNumber": "999", "NewImage": key, "OldImage": key}
    return [{**records[0], "dynamodb": body}]


def test_a_contact_entry_that_cannot_be_read_is_counted_when_it_appears() -> None:
    deployment = registered()
    deployment.set_contacts(ops={"email": "no address"})
    deployment.deliver()
    deployment.set_contacts(other={"email": OPS_EMAIL, "active": False})
    deployment.deliver()
    assert deployment.telemetry.total(Metric.CONTACTS_UNREADABLE) == 1


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "not valid"),
        (b"token=", "not valid"),
        (b"token=x.y", "not valid"),
        (b"token=a&token=b", "not valid"),
        (b"other=1", "not valid"),
        (b"\xff\xfe", "not valid"),
        (b"token=" + b"x" * 5000, "not valid"),
    ],
)
def test_a_body_without_a_link_of_ours_is_refused_as_not_valid(body: bytes, sentence: str) -> None:
    deployment = invited()
    answer = verify.run(http_event("POST", body), Context(), deployment.verify_runtime())
    assert answer["statusCode"] == 400
    assert sentence in answer["body"]


def test_a_signed_token_for_what_is_no_contact_is_no_longer_valid() -> None:
    deployment = invited()
    expires = deployment.clock.now() + timedelta(hours=1)
    claim = VerificationClaim.of_nonce("no-contact", "d" * 64, expires, b"n" * 16)
    assert "no longer valid" in deployment.press(LinkSigner((KEY,)).token(claim))["body"]


def test_a_request_for_a_profile_without_a_page_fails_loudly_and_can_be_sent_when_there_is_one() -> None:
    deployment = registered()
    tables = deployment.environment["CUSTOMER_PROFILE_TABLES"]
    other = {"name": "awsmp-other-customer-profile", "verifyUrl": VERIFY_URL}
    deployment.plain.create_table(**{**profiles_table(), "TableName": other["name"]})
    deployment.environment["CUSTOMER_PROFILE_TABLES"] = json.dumps(
        [{"name": PROFILES, "verifyUrl": None}, other]
    )
    with pytest.raises(MeteringError):
        deployment.send()
    assert deployment.telemetry.total(Metric.NOTIFICATION_ENTRIES_FAILED) == 1
    deployment.environment["CUSTOMER_PROFILE_TABLES"] = tables
    later(deployment, minutes=10)
    deployment.maintain()
    deployment.send()
    assert deployment.told() == [(OWNER_EMAIL, VERIFICATION)]


def test_a_request_that_waits_when_all_pages_are_taken_away_is_not_sent_without_a_link() -> None:
    deployment = registered()
    deployment.environment["CUSTOMER_PROFILE_TABLES"] = json.dumps([{"name": PROFILES, "verifyUrl": None}])
    with pytest.raises(MeteringError):
        deployment.send()
    assert deployment.ses.sent == []
    assert deployment.telemetry.total(Metric.NOTIFICATION_ENTRIES_FAILED) == 1


PAYLOAD = VerificationPayload(SUBSCRIPTION, "owner", "event-1", datetime(2026, 11, 10, 8, tzinfo=UTC))


def test_a_requests_payload_comes_back_and_names_no_person() -> None:
    assert parse_payload(PAYLOAD.to_json()) == PAYLOAD
    assert set(json.loads(PAYLOAD.to_json())) == {
        "schema",
        "version",
        "subscriptionId",
        "contactId",
        "eventId",
        "eventTime",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"contactId": "a@buyer.example"},
        {"contactId": 7},
        {"eventId": "a@buyer.example"},
        {"version": 2},
        {"schema": "awsmp.other"},
        {"subscriptionId": "x"},
        {"eventTime": "now"},
    ],
)
def test_a_malformed_payload_of_a_request_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(PayloadInvalid):
        parse_payload(json.dumps({**json.loads(PAYLOAD.to_json()), **change}))


def test_requests_differ_by_contact_and_by_event_and_from_every_notice() -> None:
    others = [replace(PAYLOAD, contact_id="ops"), replace(PAYLOAD, event_id="event-2")]
    ids = {PAYLOAD.entry_id, *(each.entry_id for each in others)}
    assert len(ids) == 3


class Crash(BaseException):
    """The function's process ends here."""


class Fault(StrEnum):
    CRASH_BEFORE = "crash-before"
    CRASH_AFTER = "crash-after"
    ANSWER_LOST = "answer-lost"
    UNAVAILABLE = "unavailable"


@dataclass
class Script:
    """Numbers the calls of all functions and makes one of them fail."""

    strike_at: int | None = None
    fault: Fault | None = None
    calls: list[str] = field(default_factory=list)
    struck: str | None = None
    armed: bool = True

    def attach(self, deployment: Deployment) -> None:
        deployment.hooks.before, deployment.hooks.after = self.before, self.after

    def before(self, name: str) -> None:
        if not self.armed:
            return
        self.calls.append(name)
        if len(self.calls) - 1 == self.strike_at and self.fault in (Fault.CRASH_BEFORE, Fault.UNAVAILABLE):
            self.strike(name)

    def after(self, name: str) -> None:
        if self.armed and self.struck is None and len(self.calls) - 1 == self.strike_at:
            self.strike(name)

    def strike(self, name: str) -> None:
        self.struck = name
        if self.fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            raise Crash
        if self.fault is Fault.ANSWER_LOST:
            lost: Exception = ReadTimeoutError(endpoint_url="https://service.example")
            raise lost
        service = {"SendEmail": "sesv2", "PutEvents": "events", "GetSecretValue": "secretsmanager"}
        error: Exception = aws_error(service.get(name, "dynamodb"), name, "InternalServerError", "injected")
        raise error


def attempt(call: Callable[[], object]) -> object:
    try:
        return call()
    except (Crash, MeteringError, BatchProcessingError):
        return None


def until_done(call: Callable[[], object]) -> None:
    for _ in range(6):
        if attempt(call) is not None:
            return
    pytest.fail("a delivery never succeeded")


def play(deployment: Deployment, script: Script) -> None:
    deployment.register()
    script.attach(deployment)

    def deliver() -> bool:
        deployment.deliver()
        return True

    def press() -> bool:
        answer = deployment.press(deployment.token())
        return answer["statusCode"] == 200 or None  # type: ignore[return-value]

    until_done(deliver)
    attempt(deployment.send)
    for _ in range(3):
        if deployment.told(VERIFICATION):
            break
        later(deployment, minutes=20)
        attempt(deployment.maintain)
        attempt(deployment.send)
    until_done(press)
    until_done(deliver)
    attempt(deployment.send)
    script.armed = False
    for _ in range(12):
        later(deployment, minutes=16)
        deployment.maintain()
        attempt(deployment.send)


def calm_calls() -> list[str]:
    script = Script()
    play(Deployment(), script)
    return script.calls


CALLS = calm_calls()


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("position", range(len(CALLS)), ids=lambda place: f"{place:02d}-{CALLS[place]}")
def test_whatever_call_fails_the_address_is_verified_and_the_start_is_told_once(
    position: int, fault: Fault
) -> None:
    script, deployment = Script(position, fault), Deployment()
    play(deployment, script)
    assert script.struck == CALLS[position]
    sends = Counter((kind_of(mail), delivery_of(mail)) for mail in deployment.ses.sent)
    assert {kind for kind, _ in sends} == {VERIFICATION, STARTED}
    assert len(sends) == 2, "a resend carries the same delivery id"
    lost = script.struck == "SendEmail" and fault in (Fault.CRASH_AFTER, Fault.ANSWER_LOST)
    # SES's 5xx answer counts as lost: it does not say that nothing was sent.
    unrecorded = script.struck == "TransactWriteItems" and CALLS[position - 1] == "SendEmail"
    assert sum(sends.values()) <= 2 + (1 if lost or unrecorded else 0)
    statuses = [
        item["status"]["S"]
        for item in deployment.backend.items("awsmp-notifications")
        if item["sk"]["S"] == "entry"
    ]
    assert len(statuses) == 2
    assert set(statuses) <= {EntryStatus.PROCESSED, EntryStatus.SKIPPED}
    text = deployment.stored_text() + deployment.logged_text()
    for private in (OWNER_EMAIL, "owner.first", OWNER_NAME, "Quintessa"):
        assert private not in text


def test_the_enumeration_covers_every_kind_of_call() -> None:
    assert set(CALLS) == {
        "GetItem",
        "GetSecretValue",
        "PutEvents",
        "Query",
        "SendEmail",
        "TransactWriteItems",
        "UpdateItem",
    }
    assert CALLS.count("SendEmail") == 2


def test_a_link_of_an_attempt_whose_answer_was_lost_still_works_after_the_resend() -> None:
    deployment = registered()

    def lose(name: str) -> None:
        if name == "SendEmail" and len(deployment.ses.sent) == 1:
            lost: Exception = ReadTimeoutError(endpoint_url="https://service.example")
            raise lost

    deployment.hooks.after = lose
    deployment.send()
    later(deployment, minutes=20)
    deployment.maintain()
    deployment.send()
    assert len(deployment.told(VERIFICATION)) == 2
    assert deployment.press(deployment.token(0))["statusCode"] == 200


def test_the_subscription_id_stays_out_of_the_logs_whole() -> None:
    deployment = verified()
    deployment.send()
    assert SUBSCRIPTION.license_arn not in deployment.logged_text()
