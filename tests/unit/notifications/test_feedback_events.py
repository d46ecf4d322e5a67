"""Reading what SES publishes: the kinds, the ids and the time, and nothing that names a person."""

from __future__ import annotations

import dataclasses
import json
import traceback
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp.domain.notifications.feedback import Feedback, FeedbackKind
from awsmp.domain.notifications.feedback_events import (
    MAX_FEEDBACK,
    InvalidFeedback,
    NoFeedback,
    parse_ses_event,
    parse_sns_delivery,
)

TOPIC = "arn:aws:sns:eu-west-1:111122223333:awsmp-feedback"
DELIVERY_ID = "f" * 64
MESSAGE_ID = "0102019a1b2c3d4e-11112222-3333-4444-5555-666677778888-000000"


def event(name: str = "Bounce", **changes: Any) -> dict[str, Any]:
    """An event in the form that SES documents, with addresses wherever SES puts them."""
    reports: dict[str, dict[str, Any]] = {
        "Bounce": {
            "bounce": {
                "bounceType": "Permanent",
                "bounceSubType": "General",
                "bouncedRecipients": [
                    {
                        "emailAddress": "buyer@example.com",
                        "action": "failed",
                        "status": "5.1.1",
                        "diagnosticCode": "smtp; 550 5.1.1 <buyer@example.com> user unknown",
                    }
                ],
                "timestamp": "2026-11-29T10:00:01.123Z",
                "feedbackId": "0102019a-feedback-000000",
                "reportingMTA": "dsn; mta.example.com",
            }
        },
        "Complaint": {
            "complaint": {
                "complainedRecipients": [{"emailAddress": "buyer@example.com"}],
                "timestamp": "2026-11-29T10:00:01Z",
                "feedbackId": "0102019a-complaint-000000",
                "complaintFeedbackType": "abuse",
                "userAgent": "Example/1.0",
                "arrivalDate": "2026-11-29T09:59:58.000Z",
            }
        },
    }
    report = reports.get(name, {})
    for member in report.values():
        member.update({key: value for key, value in changes.items() if key not in ("mail", "tags")})
    mail = {
        "timestamp": "2026-11-29T09:59:00.000Z",
        "source": "Acme <billing@acme.example>",
        "messageId": MESSAGE_ID,
        "destination": ["buyer@example.com"],
        "headers": [{"name": "To", "value": "buyer@example.com"}],
        "commonHeaders": {"to": ["buyer@example.com"], "subject": "Your subscription"},
        "tags": {
            "ses:source-ip": ["192.0.2.1"],
            "awsmp-delivery-id": [DELIVERY_ID],
            "awsmp-kind": ["refunded"],
            **changes.get("tags", {}),
        },
        **changes.get("mail", {}),
    }
    return {"eventType": name, **report, "mail": mail}


def parsed(value: Any) -> Feedback | NoFeedback:
    return parse_ses_event(json.dumps(value))


@pytest.mark.parametrize(
    ("bounce_type", "subtype", "kind"),
    [
        ("Permanent", "General", FeedbackKind.HARD_BOUNCE),
        ("Permanent", "NoEmail", FeedbackKind.HARD_BOUNCE),
        ("Permanent", "Suppressed", FeedbackKind.HARD_BOUNCE),
        ("Permanent", "OnAccountSuppressionList", FeedbackKind.HARD_BOUNCE),
        ("Transient", "General", FeedbackKind.SOFT_BOUNCE),
        ("Transient", "MailboxFull", FeedbackKind.SOFT_BOUNCE),
        ("Undetermined", "Undetermined", FeedbackKind.SOFT_BOUNCE),
    ],
)
def test_a_permanent_bounce_is_hard_and_every_other_soft(
    bounce_type: str, subtype: str, kind: FeedbackKind
) -> None:
    assert parsed(event(bounceType=bounce_type, bounceSubType=subtype)) == Feedback(
        provider="ses",
        event_id="0102019a-feedback-000000",
        kind=kind,
        occurred_at=datetime(2026, 11, 29, 10, 0, 1, 123000, tzinfo=UTC),
        delivery_id=DELIVERY_ID,
        message_id=MESSAGE_ID,
    )


def test_a_complaint_is_one_with_or_without_a_type() -> None:
    for changes in ({}, {"complaintFeedbackType": None}, {"complaintFeedbackType": "fraud"}):
        complaint = parsed(event("Complaint", **changes))
        assert isinstance(complaint, Feedback)
        assert complaint.kind is FeedbackKind.COMPLAINT
        assert complaint.event_id == "0102019a-complaint-000000"


def test_a_report_that_mail_is_wanted_is_no_complaint() -> None:
    assert parsed(event("Complaint", complaintFeedbackType="not-spam")) == NoFeedback("NotSpam")


@pytest.mark.parametrize(
    "name",
    [
        "Send",
        "Delivery",
        "DeliveryDelay",
        "Open",
        "Click",
        "Reject",
        "Rendering Failure",
        "Subscription",
    ],
)
def test_other_events_of_ses_need_no_action(name: str) -> None:
    assert parsed(event(name)) == NoFeedback(name)


def test_a_notification_of_an_identity_is_read_like_an_event_of_a_configuration_set() -> None:
    notification = event()
    notification["notificationType"] = notification.pop("eventType")
    assert parsed(notification) == parsed(event())


def test_mail_without_our_tag_is_found_by_the_providers_message_id() -> None:
    absent: tuple[Any, ...] = ({}, None)
    for tags in absent:
        feedback = parsed(event(mail={"tags": tags}))
        assert isinstance(feedback, Feedback)
        assert (feedback.delivery_id, feedback.message_id) == (None, MESSAGE_ID)


def test_a_message_id_may_carry_the_providers_own_host_and_no_other() -> None:
    feedback = parsed(event(mail={"messageId": f"{MESSAGE_ID}@eu-west-1.amazonses.com"}))
    assert isinstance(feedback, Feedback)
    assert feedback.message_id == f"{MESSAGE_ID}@eu-west-1.amazonses.com"
    with pytest.raises(InvalidFeedback):
        parsed(event(mail={"messageId": f"{MESSAGE_ID}@amazonses.com.example"}))


def without(path: str) -> dict[str, Any]:
    value = event()
    *parents, last = path.split(".")
    holder = value
    for parent in parents:
        holder = holder[parent]
    del holder[last]
    return value


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        None,
        7,
        "Bounce",
        {"eventType": "Bounce"},
        {"eventType": None},
        {"eventType": ["Bounce"]},
        {"eventType": "Unheard"},
        without("mail"),
        without("bounce"),
        without("bounce.bounceType"),
        without("bounce.feedbackId"),
        without("bounce.timestamp"),
        without("mail.messageId"),
        event(bounceType="Unheard"),
        event(bounceType=None),
        event(feedbackId=""),
        event(feedbackId="buyer@example.com"),
        event(feedbackId="x" * 300),
        event(feedbackId=7),
        event(timestamp="yesterday"),
        event(timestamp="2026-11-29T10:00:01"),
        event(timestamp="2026-11-29T10:00:01+01:00"),
        event(timestamp="2026-02-30T10:00:01Z"),
        event(timestamp=1764410401),
        event(mail={"messageId": "buyer@example.com"}),
        event(mail={"messageId": ""}),
        event(tags={"awsmp-delivery-id": []}),
        event(tags={"awsmp-delivery-id": [DELIVERY_ID, "other"]}),
        event(tags={"awsmp-delivery-id": [7]}),
        event(tags={"awsmp-delivery-id": DELIVERY_ID}),
        event(tags={"awsmp-delivery-id": ["buyer@example.com"]}),
        event("Complaint", feedbackId="buyer@example.com"),
    ],
)
def test_what_cannot_be_understood_is_an_error_that_quotes_nothing_of_it(value: Any) -> None:
    with pytest.raises(InvalidFeedback) as refusal:
        parsed(value)
    assert "@example.com" not in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize("text", ["", "buyer@example.com", '{"eventType":', "[" * 100_000, "\ud800"])
def test_what_is_no_json_is_an_error_that_quotes_nothing_of_it(text: str) -> None:
    with pytest.raises(InvalidFeedback) as refusal:
        parse_ses_event(text)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    assert "buyer" not in str(refusal.value)


def test_a_text_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(InvalidFeedback, match="too long"):
        parse_ses_event(json.dumps(event()) + " " * MAX_FEEDBACK)


@pytest.mark.parametrize("name", ["Bounce", "Complaint"])
def test_no_address_no_header_and_no_text_of_the_providers_is_kept(name: str) -> None:
    feedback = parsed(event(name))
    assert isinstance(feedback, Feedback)
    kept = json.dumps(dataclasses.asdict(feedback), default=str)
    for hidden in ("@", "buyer", "acme", "550", "unknown", "Example/1.0", "192.0.2.1", "Your subscription"):
        assert hidden not in kept


def notification(message: Any, **changes: Any) -> str:
    envelope = {
        "Type": "Notification",
        "MessageId": "5f0d6d6a-0000-4000-8000-000000000000",
        "TopicArn": TOPIC,
        "Message": message,
        "Timestamp": "2026-11-29T10:00:02.000Z",
        "SignatureVersion": "1",
        **changes,
    }
    return json.dumps({key: value for key, value in envelope.items() if value is not None})


def test_an_event_is_read_out_of_the_topics_notification() -> None:
    assert parse_sns_delivery(notification(json.dumps(event())), TOPIC) == parsed(event())


def test_the_text_that_ses_publishes_when_an_event_destination_is_set_up_needs_no_action() -> None:
    text = "Successfully validated SNS topic for Amazon SES event publishing."
    assert parse_sns_delivery(notification(text), TOPIC) == NoFeedback("TopicValidation")


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(event()),
        notification(json.dumps(event()), TopicArn="arn:aws:sns:eu-west-1:444455556666:awsmp-feedback"),
        notification(json.dumps(event()), TopicArn=None),
        notification(json.dumps(event()), Type="SubscriptionConfirmation"),
        notification(json.dumps(event()), Type=None),
        notification(None),
        notification(event()),
        notification("buyer@example.com"),
        "buyer@example.com",
        "[]",
    ],
)
def test_a_message_from_elsewhere_or_of_another_form_is_refused_without_quoting_it(body: str) -> None:
    with pytest.raises(InvalidFeedback) as refusal:
        parse_sns_delivery(body, TOPIC)
    assert "@example.com" not in str(refusal.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = ["eventType", "bounce", "mail", "bounceType", "feedbackId", "timestamp", "messageId", "tags"]


@given(st.sampled_from(MEMBERS), JSON, st.sampled_from(["Bounce", "Complaint"]))
def test_any_value_in_the_place_of_a_member_is_read_or_refused(member: str, value: Any, name: str) -> None:
    changed = event(name)
    for holder in (changed, changed["mail"], changed.get("bounce", {}), changed.get("complaint", {})):
        if member in holder:
            holder[member] = value
    try:
        outcome = parsed(changed)
    except InvalidFeedback:
        return
    if isinstance(outcome, Feedback):
        assert outcome.occurred_at.tzinfo is UTC
        assert all("@" not in (text or "") for text in (outcome.event_id, outcome.delivery_id))
