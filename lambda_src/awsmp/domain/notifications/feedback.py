"""What a provider reports back about a delivery, and the suppressions that follow: pure.

A report carries ids, a kind and a time: no address and nothing of the provider's own payload.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import format_instant
from awsmp.domain.notifications.identities import is_plain_id
from awsmp.domain.notifications.outbox import Delivery

#: How far a provider's clock may be off, in either direction.
CLOCK_TOLERANCE: Final = timedelta(minutes=5)


class FeedbackKind(StrEnum):
    """What happened to a message after the provider had taken it."""

    SOFT_BOUNCE = "soft_bounce"
    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"


_GRAVITY: Final = {kind: rank for rank, kind in enumerate(FeedbackKind)}
_SUPPRESSING: Final = frozenset({FeedbackKind.HARD_BOUNCE, FeedbackKind.COMPLAINT})


class FeedbackRefused(MeteringError):
    """The report cannot be true or cannot be attributed; nothing was stored. ``code`` says why."""

    def __init__(self, code: RefusalCode) -> None:
        super().__init__(f"the feedback is refused: {code.value}")
        self.code = code


class RefusalCode(StrEnum):
    """Why a report is refused."""

    MALFORMED = "feedback_malformed"
    IN_FUTURE = "feedback_in_future"
    BEFORE_DELIVERY = "feedback_before_delivery"
    IDS_DISAGREE = "feedback_ids_disagree"
    MESSAGE_ID_AMBIGUOUS = "feedback_message_id_ambiguous"


class FeedbackConflict(MeteringError):
    """An event id that is known comes again with other content; nothing was changed."""


class UnknownDelivery(MeteringError):
    """No delivery is known by the report's ids; it may not be recorded yet, so the report is retried."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """One report, authenticated at the edge.

    ``provider`` and ``event_id`` key it; ``delivery_id`` or ``message_id`` (the provider's) or both say what
    it is about.

    Raises
    ------
    FeedbackRefused
        MALFORMED: an id has a form that ours never have, or neither delivery nor message is named.
    """

    provider: str
    event_id: str
    kind: FeedbackKind
    occurred_at: datetime
    delivery_id: str | None = None
    message_id: str | None = None

    def __post_init__(self) -> None:
        """Check the ids; see the class."""
        named = [each for each in (self.delivery_id, self.message_id) if each is not None]
        plain = is_plain_id(self.provider) and is_plain_id(self.event_id) and all(map(_is_id, named))
        if not named or not plain or self.occurred_at.tzinfo is None:
            raise FeedbackRefused(RefusalCode.MALFORMED)

    @property
    def key(self) -> str:
        """What the report is stored by: SHA-256 over provider and event id."""
        return _digest(self.provider, self.event_id)

    @property
    def content(self) -> str:
        """SHA-256 over everything but the key: equal for a redelivery, else the event id is used twice."""
        return _digest(
            self.kind.value, format_instant(self.occurred_at), self.delivery_id or "", self.message_id or ""
        )


@dataclass(frozen=True, slots=True)
class StoredFeedback:
    """What is kept of a report, for the retention time."""

    key: str
    content: str
    provider: str
    kind: FeedbackKind
    delivery_id: str
    occurred_at: datetime
    received_at: datetime
    version: int = 0


class ClearingReason(StrEnum):
    """Why an administrator may lift a suppression."""

    ADDRESS_CORRECTED = "address_corrected"
    CUSTOMER_REQUEST = "customer_request"
    PROVIDER_CORRECTION = "provider_correction"
    SUPPORT_CORRECTION = "support_correction"


@dataclass(frozen=True, slots=True)
class Suppression:
    """A recipient who gets no mail at one very address, which is known by its keyed digest only.

    ``since`` is when it became active (again), ``last_at`` the newest report behind it. A cleared one is
    kept: it remembers the gravest report.
    """

    recipient_id: str
    address_digest: str
    kind: FeedbackKind
    since: datetime
    last_at: datetime
    cleared_at: datetime | None = None
    cleared_reason: ClearingReason | None = None
    version: int = 0

    @property
    def is_active(self) -> bool:
        """Whether mail is held back."""
        return self.cleared_at is None


def check_time(feedback: Feedback, delivery: Delivery, now: datetime) -> None:
    """Refuse a time that cannot be.

    Raises
    ------
    FeedbackRefused
        IN_FUTURE: more than 5 minutes after ``now``. BEFORE_DELIVERY: more than 5 minutes before the
        delivery's first attempt, or the delivery has not been attempted.
    """
    if feedback.occurred_at > now + CLOCK_TOLERANCE:
        raise FeedbackRefused(RefusalCode.IN_FUTURE)
    first = delivery.first_attempt_at
    if first is None or feedback.occurred_at < first - CLOCK_TOLERANCE:
        raise FeedbackRefused(RefusalCode.BEFORE_DELIVERY)


def gravest(delivery: Delivery, feedback: Feedback) -> Delivery:
    """Return the delivery with the gravest feedback it has had; of equal ones the newest."""
    if delivery.feedback_kind is not None and delivery.feedback_at is not None:
        known = (_GRAVITY[FeedbackKind(delivery.feedback_kind)], delivery.feedback_at)
        if (_GRAVITY[feedback.kind], feedback.occurred_at) <= known:
            return delivery
    return replace(delivery, feedback_kind=feedback.kind.value, feedback_at=feedback.occurred_at)


def suppress(known: Suppression | None, delivery: Delivery, feedback: Feedback) -> Suppression | None:
    """Return the suppression of the delivery's recipient at the delivery's address after ``feedback``.

    None where a soft bounce meets none. A complaint is never downgraded, and a cleared suppression that is
    hit again is active from the report's time.
    """
    if feedback.kind not in _SUPPRESSING:
        return known
    assert delivery.address_digest is not None
    if known is None:
        return Suppression(
            recipient_id=delivery.recipient_id,
            address_digest=delivery.address_digest,
            kind=feedback.kind,
            since=feedback.occurred_at,
            last_at=feedback.occurred_at,
        )
    kind = max(known.kind, feedback.kind, key=lambda each: _GRAVITY[each])
    last_at = max(known.last_at, feedback.occurred_at)
    if known.is_active:
        return replace(known, kind=kind, last_at=last_at)
    return replace(
        known, kind=kind, since=feedback.occurred_at, last_at=last_at, cleared_at=None, cleared_reason=None
    )


def clear(known: Suppression, reason: ClearingReason, now: datetime) -> Suppression:
    """Return the suppression lifted; one that is not active stays as it is."""
    return replace(known, cleared_at=now, cleared_reason=reason) if known.is_active else known


def _is_id(text: str) -> bool:
    # An SMTP Message-ID has an @ between the delivery id and the sender's domain; 255 bounds the key.
    return 0 < len(text) <= 255 and text.isascii() and text.isprintable() and " " not in text


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
