"""Who of the afternoon's buyers was told what, by the deployed notifications tier with its roles enforced.

Everything was played with the afternoon: links that were followed, billing events, a bounce, an
administrator's act, and all events once more. What the tier wrote into logs and tables is read in
test_deployed_registration.py, its calls are held against its roles in test_deployed_pipeline.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import pytest

from awsmp.domain.notifications.identities import subscription_of
from awsmp.domain.notifications.kinds import Kind, ServiceKind
from awsmp.domain.notifications.outbox import Reason, entry_id
from sandbox.mailbox import PORTAL_URL, SENDER

from .conftest import Afternoon

pytestmark = [pytest.mark.emulator, pytest.mark.slow, pytest.mark.xdist_group("local-cloud")]

#: What each buyer who registered was told in all, every event having come at least twice.
TOLD: Final[Mapping[str, tuple[str, ...]]] = {
    "steady": (
        ServiceKind.ADDRESS_VERIFICATION,
        Kind.SUBSCRIPTION_STARTED,
        # Its renewal was switched off.
        Kind.CANCELLATION_SCHEDULED,
        Kind.PAYMENT_FAILED,
        # The payment came in while the address was suppressed: not told.
        Kind.DISPUTE_OPEN,
    ),
    # Never confirmed the address.
    "second licence": (ServiceKind.ADDRESS_VERIFICATION,),
    "new": (
        ServiceKind.ADDRESS_VERIFICATION,
        Kind.SUBSCRIPTION_STARTED,
        # Its request to cancel was approved.
        Kind.CANCELLATION_SCHEDULED,
        Kind.ACCESS_SUSPENDED,
    ),
    "leaving": (
        ServiceKind.ADDRESS_VERIFICATION,
        Kind.SUBSCRIPTION_STARTED,
        Kind.SUBSCRIPTION_CANCELED,
    ),
}


def entry_of(afternoon: Afternoon, name: str, kind: Kind, event_id: str) -> str:
    """Return the id of the notice that an event of the seller's billing led to."""
    buyer = afternoon.buyers[name]
    return entry_id(subscription_of(buyer.license_arn, buyer.account).id, kind, event_id)


def ends_of(afternoon: Afternoon, entry: str) -> list[tuple[str, Mapping[str, int]]]:
    """Return what the audit tells of how an entry ended: reason and counts."""
    return [
        (
            each["detail"],
            {name: count for name, count in each["counts"].items() if count and name != "attempts"},
        )
        for each in afternoon.seen["audit"]
        if _is_end(each) and each["subject"] == entry
    ]


def _oldest_first(afternoon: Afternoon) -> list[Mapping[str, Any]]:
    return sorted(afternoon.seen["audit"], key=lambda each: (each["at"], each["sequence"]))


def _is_end(audited: Mapping[str, Any]) -> bool:
    return bool(audited["action"] == "entry_ended")


def test_each_buyer_hears_of_each_change_once_and_nobody_else_hears_of_any(afternoon: Afternoon) -> None:
    expected = Counter((afternoon.address(name), str(kind)) for name, kinds in TOLD.items() for kind in kinds)
    assert afternoon.seen["told"] == expected


def test_every_mail_names_what_it_is_and_where_the_subscription_is_managed(afternoon: Afternoon) -> None:
    mails = afternoon.mailbox.mails()
    ids = [mail.delivery_id for mail in mails]
    assert len(set(ids)) == len(ids)
    for mail in mails:
        assert mail.headers["Auto-Submitted"] == "auto-generated"
        assert set(mail.headers.values()) >= {mail.kind, mail.delivery_id}
        assert mail.configuration_set == "awsmp-notifications"
        assert "Example Analytics" in mail.subject
        if mail.kind == ServiceKind.ADDRESS_VERIFICATION:
            assert mail.link.partition("#")[0] == afternoon.deployed.outputs["verify_url"]
        else:
            assert PORTAL_URL in mail.text
            assert "#verify=" not in mail.text
    assert SENDER.endswith("@seller.example")


# --- The link -----------------------------------------------------------------------------------------------


def test_opening_the_link_verifies_nothing(afternoon: Afternoon) -> None:
    opened = afternoon.seen["opened"]
    assert opened.status == HTTPStatus.OK
    assert b"Confirm my address" in opened.body
    assert opened.headers["cache-control"] == "no-store"
    assert opened.headers["content-security-policy"].startswith("default-src 'none'")
    assert "confirmedBy" not in afternoon.seen["profile after a look"]["verification#owner"]


def test_a_forged_link_is_refused(afternoon: Afternoon) -> None:
    forged = afternoon.seen["forged"]
    assert forged.status == HTTPStatus.BAD_REQUEST
    assert b"not valid" in forged.body


def test_a_link_works_once_and_says_so_again(afternoon: Afternoon) -> None:
    confirmed = afternoon.seen["profile after the button"]
    assert "confirmedBy" in confirmed["verification#owner"]
    assert "pending" not in confirmed["verification#owner"]
    again = afternoon.seen["pressed again"]
    assert again.status == HTTPStatus.OK
    assert afternoon.seen["profile after the second press"] == confirmed


# --- Skips, suppressions and the administrator --------------------------------------------------------------


def test_a_buyer_who_has_not_confirmed_is_skipped_and_the_audit_says_so(afternoon: Afternoon) -> None:
    entry = entry_of(afternoon, "second licence", Kind.PAYMENT_FAILED, "billing-2")
    assert ends_of(afternoon, entry) == [(Reason.NO_RECIPIENT, {})]
    assert afternoon.mailbox.ask("deliveries", entryId=entry) == {"deliveries": []}


def test_a_hard_bounce_suppresses_its_recipient_whatever_it_is_reported_again(afternoon: Afternoon) -> None:
    (suppression,) = afternoon.seen["suppressed"]
    account = afternoon.buyers["steady"].account
    assert (suppression["recipientId"], suppression["kind"]) == (f"{account}:owner", "hard_bounce")
    bounced = afternoon.seen["bounced"]
    entry = bounced.delivery_id.partition("-")[0]
    (delivery,) = afternoon.mailbox.ask("deliveries", entryId=entry)["deliveries"]
    assert (delivery["status"], delivery["feedbackKind"]) == ("sent", "hard_bounce")
    assert delivery["messageId"] == bounced.message_id


def test_a_suppressed_recipient_is_skipped_and_the_audit_says_so(afternoon: Afternoon) -> None:
    entry = entry_of(afternoon, "steady", Kind.PAYMENT_RECOVERED, "billing-4")
    assert ends_of(afternoon, entry) == [(Reason.ALL_SKIPPED, {"skipped": 1})]
    (delivery,) = afternoon.mailbox.ask("deliveries", entryId=entry)["deliveries"]
    assert (delivery["status"], delivery["code"]) == ("skipped", Reason.RECIPIENT_SUPPRESSED)


def test_an_administrator_lifts_a_suppression_with_a_reason_and_mail_goes_out_again(
    afternoon: Afternoon,
) -> None:
    assert afternoon.seen["refused"]["error"] == "UnknownClearingReason"
    cleared = afternoon.seen["cleared"]["suppression"]
    assert cleared["clearedReason"] == "address_corrected"
    assert afternoon.seen["still suppressed"] == []
    acts = [each for each in afternoon.seen["audit"] if each["action"] == "suppression_cleared"]
    assert [(each["subject"], each["detail"]) for each in acts] == [
        (cleared["recipientId"], "address_corrected")
    ]
    before, after = afternoon.seen["told while suppressed"], afternoon.mailbox.told()
    steady = (afternoon.address("steady"), str(Kind.DISPUTE_OPEN))
    assert (before[steady], after[steady]) == (0, 1)


def test_what_the_administrator_is_told_names_no_person(afternoon: Afternoon) -> None:
    answers: list[Any] = [afternoon.seen[name] for name in ("suppressed", "cleared", "audit")]
    for kind, event_id in ((Kind.PAYMENT_FAILED, "billing-1"), (Kind.PAYMENT_RECOVERED, "billing-4")):
        entry = entry_of(afternoon, "steady", kind, event_id)
        answers.append(afternoon.mailbox.ask("deliveries", entryId=entry))
    told = str(answers)
    assert [text for form in afternoon.entered.values() for text in form.values() if text in told] == []


def test_no_notice_is_left_to_be_sent_and_none_has_failed(afternoon: Afternoon) -> None:
    for queue in ("pending", "processing", "retryable", "failed"):
        assert afternoon.mailbox.ask("entries", queue=queue) == {"entries": []}
    # The last end of each: on a machine that is busy, a run may not get through.
    ends = {each["subject"]: each["detail"] for each in _oldest_first(afternoon) if _is_end(each)}
    assert Counter(ends.values()) == {
        Reason.DELIVERED: sum(map(len, TOLD.values())),
        Reason.ALL_SKIPPED: 1,
        Reason.NO_RECIPIENT: 1,
    }


def test_nothing_is_left_in_a_queue_of_the_tier(afternoon: Afternoon) -> None:
    cloud, region = afternoon.deployed.cloud, afternoon.mailbox.region
    counts = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    left: dict[str, list[int]] = {}
    for place in (region, "us-east-1"):
        sqs = cloud.client("sqs", region=place)
        for url in sqs.list_queues().get("QueueUrls", []):
            answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=counts)["Attributes"]
            left[url.rpartition("/")[2]] = [int(answer[name]) for name in counts]
    assert {
        "awsmp-notification-contacts-failed",
        "awsmp-notification-events",
        "awsmp-notification-events-dlq",
        "awsmp-notification-feedback",
        "awsmp-notification-feedback-dlq",
    } <= left.keys()
    assert {name: waiting for name, waiting in left.items() if any(waiting)} == {}
