"""What a mail provider reports about a message after it took it, in one form for every provider.

SES publishes addresses, headers and diagnostic texts. None of them gets past this module: what leaves it
holds ids, a kind and a time, and errors name a member, never its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.feedback import Feedback, FeedbackKind

#: The message tags that the SES transport sets and SES gives back with every event.
DELIVERY_ID_TAG: Final = "awsmp-delivery-id"
KIND_TAG: Final = "awsmp-kind"
#: The provider's name in the key of a feedback.
SES: Final = "ses"

#: Longest text that is looked at, in characters. A queue message has at most 1 MiB (SQS quotas).
MAX_FEEDBACK: Final = 1024 * 1024

# The text that SES publishes once, when an event destination is set up; it is no event.
_VALIDATION: Final = "Successfully validated SNS topic for Amazon SES event publishing."
# Ids as SES writes them; anything else is no id and may be a text with an address in it.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
# With the host that SES appends where it writes the id into the Message-ID header.
_MESSAGE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}(?:@[a-z0-9-]{1,32}\.amazonses\.com)?", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z", re.ASCII)


_BOUNCES: Final[Mapping[str, FeedbackKind]] = {
    "Permanent": FeedbackKind.HARD_BOUNCE,
    "Transient": FeedbackKind.SOFT_BOUNCE,
    # SES could not tell from the bounce message: nobody is suppressed on a guess.
    "Undetermined": FeedbackKind.SOFT_BOUNCE,
}
# Events that SES can publish besides bounces and complaints; they tell neither that a mailbox is gone nor
# that mail is not wanted.
_NO_FEEDBACK: Final = frozenset(
    {
        "Send",
        "Delivery",
        "DeliveryDelay",
        "Open",
        "Click",
        "Reject",
        "Rendering Failure",
        "Subscription",
    }
)


class InvalidFeedback(MeteringError):
    """A message cannot be understood or is not from where it should be. The text never quotes it."""


@dataclass(frozen=True, slots=True)
class NoFeedback:
    """A message of the provider's that needs no action; ``event`` is its type, fit for a log."""

    event: str


def parse_sns_delivery(body: str, topic_arn: str) -> Feedback | NoFeedback:
    """Return the feedback in an SQS message that SNS put there without raw delivery.

    That nobody but the topic sends is for the queue's policy to enforce; here a topic that is not ours shows
    a queue that is wired to another one.

    Raises
    ------
    InvalidFeedback
        It is no SNS notification of ``topic_arn``, or what SES wrote in it cannot be understood.
    """
    envelope = _json_object(body)
    if envelope.get("Type") != "Notification" or envelope.get("TopicArn") != topic_arn:
        raise InvalidFeedback("the message is no notification of the feedback topic")
    message = envelope.get("Message")
    if not isinstance(message, str):
        raise InvalidFeedback("the notification has no message")
    if message.strip() == _VALIDATION:
        return NoFeedback("TopicValidation")
    return parse_ses_event(message)


def parse_ses_event(text: str) -> Feedback | NoFeedback:
    """Return the feedback in one event as SES publishes it.

    A complaint of type ``not-spam`` (SES passes on the types of abuse reports) says that the message is
    wanted, so it is no feedback.

    Raises
    ------
    InvalidFeedback
        It is no such event, its type is unknown, or an id or a time is missing or malformed.
    """
    event = _json_object(text)
    # Notifications of an identity, not of a configuration set, say notificationType; both forms are alike.
    name = event.get("eventType", event.get("notificationType"))
    if not isinstance(name, str):
        raise InvalidFeedback("the event has no type")
    if name in _NO_FEEDBACK:
        return NoFeedback(name)
    if name == "Bounce":
        report = _object(event, "bounce")
        kind = _BOUNCES.get(_text(report, "bounceType"))
        if kind is None:
            raise InvalidFeedback("the bounce is of an unknown type")
    elif name == "Complaint":
        report = _object(event, "complaint")
        if report.get("complaintFeedbackType") == "not-spam":
            return NoFeedback("NotSpam")
        kind = FeedbackKind.COMPLAINT
    else:
        raise InvalidFeedback("the event is of an unknown type")
    mail = _object(event, "mail")
    return Feedback(
        provider=SES,
        event_id=_id(_text(report, "feedbackId")),
        kind=kind,
        occurred_at=_instant(_text(report, "timestamp")),
        delivery_id=_delivery_id(mail),
        message_id=_id(_text(mail, "messageId"), _MESSAGE_ID),
    )


def _delivery_id(mail: Mapping[str, Any]) -> str | None:
    tags = mail.get("tags")
    values = tags.get(DELIVERY_ID_TAG) if isinstance(tags, Mapping) else None
    if values is None:
        # Mail of other senders of this account, or a configuration set that another system shares.
        return None
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], str):
        raise InvalidFeedback("the delivery id tag is not one text")
    return _id(values[0])


def _json_object(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_FEEDBACK:
        raise InvalidFeedback("the message is too long")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        # Without its cause: a decoder's error keeps the whole text, addresses and all.
        raise InvalidFeedback("the message is no JSON") from None
    if not isinstance(value, dict):
        raise InvalidFeedback("the message is no JSON object")
    return value


def _object(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = event.get(name)
    if not isinstance(value, dict):
        raise InvalidFeedback(f"{name} is missing")
    return value


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str):
        raise InvalidFeedback(f"{name} is missing")
    return value


def _id(text: str, form: re.Pattern[str] = _ID) -> str:
    if not form.fullmatch(text):
        raise InvalidFeedback("an id is malformed")
    return text


def _instant(text: str) -> datetime:
    if not _TIMESTAMP.fullmatch(text):
        raise InvalidFeedback("a time is malformed")
    whole, _, fraction = text.removesuffix("Z").partition(".")
    try:
        instant = datetime.fromisoformat(whole)
    except ValueError:
        raise InvalidFeedback("a time is malformed") from None
    return instant.replace(microsecond=int(fraction[:6].ljust(6, "0")), tzinfo=UTC)
