"""The outbox: entries, the deliveries below them and every transition of both. Pure.

An entry is one notice of one provider event; a delivery is that notice to one recipient. Neither holds an
address or a name: who the recipients are is asked at the moment of sending.

A *claim* is a version of an entry: claiming, recovering and ending all raise the entry's version, so that a
sender whose claim was taken away finds the version changed before it can call the provider.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import format_instant, parse_instant
from awsmp.domain.notifications.identities import (
    InvalidIdentity,
    Subscription,
    is_plain_id,
    parse_subscription,
    require_plain_id,
)
from awsmp.domain.notifications.kinds import Kind, ServiceKind
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.ports import Recipient

PAYLOAD_SCHEMA: Final = "awsmp.notification"
VERIFICATION_SCHEMA: Final = "awsmp.address-verification"
PAYLOAD_VERSION: Final = 1

_FIRST_DEFERRAL: Final = timedelta(minutes=1)
_FIRST_RETRY: Final = timedelta(minutes=5)
_LONGEST_RETRY: Final = timedelta(hours=12)


class PayloadInvalid(MeteringError):
    """An entry's payload cannot be read, or is not what its id was computed over."""


class EntryStatus(StrEnum):
    """An entry's life; the last three are its ends, of which only FAILED can be left again."""

    PENDING = "pending"
    PROCESSING = "processing"
    PROCESSED = "processed"
    SKIPPED = "skipped"
    FAILED = "failed"


class DeliveryStatus(StrEnum):
    """A delivery's life."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    SKIPPED = "skipped"
    FAILED = "failed"


class Reason(StrEnum):
    """Why an entry or a delivery ended as it did, where no provider said so."""

    DELIVERED = "notification_delivered"
    ALL_SKIPPED = "notification_all_skipped"
    EXPIRED = "notification_expired"
    PAYLOAD_INVALID = "notification_payload_invalid"
    NO_RECIPIENT = "notification_no_recipient"
    FOREIGN_REGION = "notification_foreign_region"
    DELIVERY_FAILED = "notification_delivery_failed"
    DELIVERY_INCOMPLETE = "notification_delivery_incomplete"
    ATTEMPTS_EXHAUSTED = "notification_attempts_exhausted"
    RECIPIENT_REMOVED = "notification_recipient_removed"
    RECIPIENT_INACTIVE = "notification_recipient_inactive"
    RECIPIENT_UNVERIFIED = "notification_recipient_unverified"
    RECIPIENT_NOT_ENTITLED = "notification_recipient_not_entitled"
    RECIPIENT_SUPPRESSED = "notification_recipient_suppressed"
    RECIPIENT_VERIFIED = "notification_recipient_verified"


@dataclass(frozen=True, slots=True)
class Notice:
    """What a buyer is to hear: a kind, because of a provider's event at a time."""

    kind: Kind
    event_id: str
    event_time: datetime


@dataclass(frozen=True, slots=True)
class Payload:
    """What an entry says. It names no address and no person."""

    kind: Kind
    subscription: Subscription
    event_id: str
    event_time: datetime

    def to_json(self) -> str:
        """Return the stored text."""
        return json.dumps(
            {
                "schema": PAYLOAD_SCHEMA,
                "version": PAYLOAD_VERSION,
                "kind": self.kind.value,
                "subscriptionId": self.subscription.id,
                "eventId": self.event_id,
                "eventTime": format_instant(self.event_time),
            },
            separators=(",", ":"),
        )

    @property
    def entry_id(self) -> str:
        """The id of the entry: SHA-256 over subscription, kind and provider event."""
        return entry_id(self.subscription.id, self.kind, self.event_id)


@dataclass(frozen=True, slots=True)
class VerificationPayload:
    """What an entry says that asks one contact to verify its address. It names no address and no person.

    ``event_id`` is what made the address one to be verified: the profile's change, or an administrator's act.
    """

    subscription: Subscription
    contact_id: str
    event_id: str
    event_time: datetime

    @property
    def kind(self) -> ServiceKind:
        """The kind of the message."""
        return ServiceKind.ADDRESS_VERIFICATION

    def to_json(self) -> str:
        """Return the stored text."""
        return json.dumps(
            {
                "schema": VERIFICATION_SCHEMA,
                "version": PAYLOAD_VERSION,
                "subscriptionId": self.subscription.id,
                "contactId": self.contact_id,
                "eventId": self.event_id,
                "eventTime": format_instant(self.event_time),
            },
            separators=(",", ":"),
        )

    @property
    def entry_id(self) -> str:
        """The id of the entry: SHA-256 over subscription, kind, contact and event."""
        parts = [self.subscription.id, self.kind.value, self.contact_id, self.event_id]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


AnyPayload = Payload | VerificationPayload


@dataclass(frozen=True, slots=True)
class Counts:
    """How an entry's deliveries stand."""

    sent: int = 0
    skipped: int = 0
    failed: int = 0
    incomplete: int = 0

    def as_mapping(self) -> dict[str, int]:
        """Return the counts by name."""
        return {
            "sent": self.sent,
            "skipped": self.skipped,
            "failed": self.failed,
            "incomplete": self.incomplete,
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """One notice. ``due_at`` is when the next run may take it up; ``resolved`` says deliveries are made."""

    entry_id: str
    payload: str
    occurred_at: datetime
    created_at: datetime
    due_at: datetime
    status: EntryStatus = EntryStatus.PENDING
    attempts: int = 0
    claimed_at: datetime | None = None
    resolved: bool = False
    ended_at: datetime | None = None
    reason: str | None = None
    retryable: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notice to one recipient. ``address_digest`` stands for the address of the last attempt."""

    delivery_id: str
    entry_id: str
    recipient_id: str
    status: DeliveryStatus = DeliveryStatus.PENDING
    attempts: int = 0
    address_digest: str | None = None
    first_attempt_at: datetime | None = None
    attempted_at: datetime | None = None
    sent_at: datetime | None = None
    message_id: str | None = None
    code: str | None = None
    retryable: bool = False
    feedback_kind: str | None = None
    feedback_at: datetime | None = None
    version: int = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be tried in any run."""
        return self.status in (DeliveryStatus.SENT, DeliveryStatus.SKIPPED)


def entry_id(subscription_id: str, kind: Kind, event_id: str) -> str:
    """Return the SHA-256 (hex) over the three; the encoding keeps their borders."""
    return hashlib.sha256(json.dumps([subscription_id, kind.value, event_id]).encode()).hexdigest()


def delivery_id(entry: str, recipient_id: str) -> str:
    """Return the delivery's id: the entry's, a hyphen and half a SHA-256 of the recipient's id.

    It finds the delivery without an index, and is at most 97 letters, digits and hyphens.
    """
    return f"{entry}-{hashlib.sha256(recipient_id.encode()).hexdigest()[:32]}"


def entry_of_delivery(delivery: str) -> str | None:
    """Return the id of the entry that a delivery id belongs to, None for what is no delivery id."""
    entry, separator, rest = delivery.partition("-")
    return entry if separator and len(entry) == 64 and len(rest) == 32 else None


def parse_payload(text: str) -> AnyPayload:
    """Return what an entry says.

    Raises
    ------
    PayloadInvalid
        The text is no payload of version 1 of either schema.
    """
    try:
        parsed: Any = json.loads(text)
        if not isinstance(parsed, Mapping):
            raise PayloadInvalid("the payload is no object")
        schema, event_id = parsed["schema"], parsed["eventId"]
        if schema not in (PAYLOAD_SCHEMA, VERIFICATION_SCHEMA) or parsed["version"] != PAYLOAD_VERSION:
            raise PayloadInvalid("the payload is of another schema or version")
        if not is_plain_id(event_id):
            raise PayloadInvalid("the payload's event id is none")
        if schema == VERIFICATION_SCHEMA:
            return VerificationPayload(
                subscription=parse_subscription(parsed["subscriptionId"]),
                contact_id=require_plain_id(parsed["contactId"], "the contact id"),
                event_id=event_id,
                event_time=parse_instant(parsed["eventTime"]),
            )
        return Payload(
            kind=Kind(parsed["kind"]),
            subscription=parse_subscription(parsed["subscriptionId"]),
            event_id=event_id,
            event_time=parse_instant(parsed["eventTime"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, InvalidIdentity) as error:
        raise PayloadInvalid(f"the payload cannot be read: {type(error).__name__}") from error


def payload_of(entry: Entry) -> AnyPayload:
    """Return what ``entry`` says.

    Raises
    ------
    PayloadInvalid
        As :func:`parse_payload`, or the entry's id is not the payload's.
    """
    payload = parse_payload(entry.payload)
    if payload.entry_id != entry.entry_id:
        raise PayloadInvalid("the payload is not what the entry's id was computed over")
    return payload


def new_entry(subscription: Subscription, notice: Notice, now: datetime) -> Entry:
    """Return a pending entry.

    Raises
    ------
    InvalidIdentity
        The event id is no plain id.
    """
    payload = Payload(notice.kind, subscription, notice.event_id, notice.event_time)
    return entry_of(payload, now)


def entry_of(payload: AnyPayload, now: datetime) -> Entry:
    """Return the pending entry of a payload.

    Raises
    ------
    InvalidIdentity
        The event id is no plain id.
    """
    require_plain_id(payload.event_id, "the provider event id")
    return Entry(
        entry_id=payload.entry_id,
        payload=payload.to_json(),
        occurred_at=payload.event_time,
        created_at=now,
        due_at=now,
    )


def claim(entry: Entry, now: datetime) -> Entry:
    """Return the pending entry as claimed at ``now``, one attempt more."""
    return replace(
        entry,
        status=EntryStatus.PROCESSING,
        attempts=entry.attempts + 1,
        claimed_at=now,
        due_at=now,
        ended_at=None,
        reason=None,
        retryable=False,
    )


def defer(entry: Entry, now: datetime) -> Entry:
    """Return the claimed entry pending again, as what it needs to know is not there yet.

    Due after a minute, doubled with each attempt, at most 12 hours.
    """
    pause = min(_FIRST_DEFERRAL * 2 ** min(max(entry.attempts - 1, 0), 16), _LONGEST_RETRY)
    return replace(entry, status=EntryStatus.PENDING, claimed_at=None, due_at=now + pause)


def is_expired(entry: Entry, limits: Limits, now: datetime) -> bool:
    """Tell whether the entry's event is older than the maximum age."""
    return now - entry.occurred_at > limits.max_age


def skip(entry: Entry, reason: Reason, now: datetime) -> Entry:
    """Return the entry ended without a send in this run."""
    return replace(entry, status=EntryStatus.SKIPPED, ended_at=now, due_at=now, reason=reason.value)


def count(deliveries: Iterable[Delivery]) -> Counts:
    """Return how the deliveries stand; what is neither sent, skipped nor failed is incomplete."""
    statuses = [delivery.status for delivery in deliveries]
    sent = statuses.count(DeliveryStatus.SENT)
    skipped = statuses.count(DeliveryStatus.SKIPPED)
    failed = statuses.count(DeliveryStatus.FAILED)
    return Counts(sent, skipped, failed, len(statuses) - sent - skipped - failed)


def end(entry: Entry, deliveries: Iterable[Delivery], limits: Limits, now: datetime) -> Entry:
    """Return the entry ended by its deliveries.

    PROCESSED where all are sent or skipped. Else FAILED: ``retryable`` while attempts are left and a
    delivery is incomplete or failed for the moment, then due after 5 minutes, doubled with each attempt,
    at most 12 hours.
    """
    listed = list(deliveries)
    counts = count(listed)
    if not counts.failed and not counts.incomplete:
        reason = Reason.DELIVERED if counts.sent else Reason.ALL_SKIPPED
        return replace(entry, status=EntryStatus.PROCESSED, ended_at=now, due_at=now, reason=reason.value)
    reason = Reason.DELIVERY_INCOMPLETE if counts.incomplete else Reason.DELIVERY_FAILED
    again = counts.incomplete > 0 or any(
        delivery.retryable for delivery in listed if delivery.status is DeliveryStatus.FAILED
    )
    return _failed(entry, reason, now, retryable=again and entry.attempts < limits.max_attempts)


def fail_unresolved(entry: Entry, limits: Limits, now: datetime) -> Entry:
    """Return the entry failed before its recipients were known; it is tried again while attempts are left."""
    return _failed(entry, Reason.DELIVERY_INCOMPLETE, now, retryable=entry.attempts < limits.max_attempts)


def is_stale(entry: Entry, limits: Limits, now: datetime) -> bool:
    """Tell whether the entry has been claimed for longer than a claim stands."""
    return (
        entry.status is EntryStatus.PROCESSING
        and entry.claimed_at is not None
        and now - entry.claimed_at > limits.stale_after
    )


def recover(entry: Entry, limits: Limits, now: datetime) -> Entry:
    """Return the stale entry pending again, or failed where its attempts are used up."""
    if entry.attempts >= limits.max_attempts:
        return _failed(entry, Reason.ATTEMPTS_EXHAUSTED, now, retryable=False)
    return replace(entry, status=EntryStatus.PENDING, claimed_at=None, due_at=now)


def can_requeue(entry: Entry, limits: Limits) -> bool:
    """Tell whether the entry has failed and has attempts left."""
    return entry.status is EntryStatus.FAILED and entry.attempts < limits.max_attempts


def requeue(entry: Entry, now: datetime) -> Entry:
    """Return the failed entry pending again."""
    return replace(
        entry,
        status=EntryStatus.PENDING,
        claimed_at=None,
        ended_at=None,
        due_at=now,
        reason=None,
        retryable=False,
    )


def new_delivery(entry: Entry, recipient: Recipient) -> Delivery:
    """Return a pending delivery.

    Raises
    ------
    InvalidIdentity
        The recipient's id is no plain id (an address is none).
    """
    recipient_id = require_plain_id(recipient.recipient_id, "the recipient's id")
    return Delivery(delivery_id(entry.entry_id, recipient_id), entry.entry_id, recipient_id)


def reset(delivery: Delivery) -> Delivery:
    """Return a delivery that may be tried again."""
    return replace(delivery, status=DeliveryStatus.PENDING, code=None, retryable=False)


def objection(recipient: Recipient | None, now: datetime) -> Reason | None:
    """Return why nothing may be sent to the recipient at ``now``, None for no objection."""
    if recipient is None:
        return Reason.RECIPIENT_REMOVED
    if not recipient.active:
        return Reason.RECIPIENT_INACTIVE
    if recipient.entitled_until is not None and now >= recipient.entitled_until:
        return Reason.RECIPIENT_NOT_ENTITLED
    return None if recipient.verified else Reason.RECIPIENT_UNVERIFIED


def objection_to_link(recipient: Recipient | None, now: datetime) -> Reason | None:
    """Return why no verification link may be sent to the recipient at ``now``, None for no objection."""
    if recipient is not None and recipient.verified:
        return Reason.RECIPIENT_VERIFIED
    reason = objection(recipient, now)
    return None if reason is Reason.RECIPIENT_UNVERIFIED else reason


def skip_delivery(delivery: Delivery, reason: Reason) -> Delivery:
    """Return the delivery skipped."""
    return replace(delivery, status=DeliveryStatus.SKIPPED, code=reason.value, retryable=False)


def begin_attempt(delivery: Delivery, address_digest: str, now: datetime) -> Delivery:
    """Return the delivery as it is stored before the provider is called."""
    return replace(
        delivery,
        status=DeliveryStatus.SENDING,
        attempts=delivery.attempts + 1,
        address_digest=address_digest,
        first_attempt_at=delivery.first_attempt_at or now,
        attempted_at=now,
        code=None,
        retryable=False,
    )


def accepted(delivery: Delivery, message_id: str, now: datetime) -> Delivery:
    """Return the delivery as the provider's acceptance leaves it; one that is sent already stays as it is."""
    if delivery.status is DeliveryStatus.SENT:
        return delivery
    return replace(
        delivery,
        status=DeliveryStatus.SENT,
        message_id=message_id,
        sent_at=now,
        code=None,
        retryable=False,
    )


def failed(delivery: Delivery, code: str, *, retryable: bool) -> Delivery:
    """Return the delivery as a failure leaves it; one that was sent meanwhile stays sent."""
    if delivery.status is DeliveryStatus.SENT:
        return delivery
    return replace(delivery, status=DeliveryStatus.FAILED, code=code, retryable=retryable)


def _failed(entry: Entry, reason: Reason, now: datetime, *, retryable: bool) -> Entry:
    pause = min(_FIRST_RETRY * 2 ** min(max(entry.attempts - 1, 0), 16), _LONGEST_RETRY)
    return replace(
        entry,
        status=EntryStatus.FAILED,
        ended_at=now,
        due_at=now + pause if retryable else now,
        reason=reason.value,
        retryable=retryable,
    )
