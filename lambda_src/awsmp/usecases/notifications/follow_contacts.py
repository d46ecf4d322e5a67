"""Follows changes of customer profiles: asks new addresses to verify, and tells of verified contacts.

The profile table's stream carries each change at least once, for a day. So a registration, a contact that the
seller added and a link that was used all have their effect without a second write by whoever made the change:
there is no moment in which a crash could lose it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from awsmp.domain.errors import ConditionFailed
from awsmp.domain.notifications.contacts import Contact, Contacts
from awsmp.domain.notifications.identities import Subscription
from awsmp.domain.notifications.intake_events import contact_verified_detail
from awsmp.domain.notifications.license_state import ContactVerified
from awsmp.domain.notifications.outbox import VerificationPayload, entry_of
from awsmp.domain.notifications.store import NotificationStore, Save
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.usecases.notifications.saving import now_of
from awsmp.usecases.subscription import EventForwarder

#: Source and detail type of verified contacts; the tier's own rule matches the source.
REGISTRATION_SOURCE: Final = "awsmp.registration"
CONTACT_VERIFIED: Final = "Contact Verified"


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """One record of a profile table's stream; ``time`` is when DynamoDB made it."""

    event_id: str
    time: datetime
    table: str
    subscription: Subscription
    old: Contacts = field(default_factory=Contacts)
    new: Contacts = field(default_factory=Contacts)


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of a change."""

    requested: int = 0
    verified: bool = False


@dataclass(frozen=True, slots=True)
class ContactFollower:
    """Handles one change; when it returns, its effect is durable. Doing it again adds nothing.

    ``verifying_tables`` are the profile tables for which verification links are sent.
    """

    store: NotificationStore
    bus: EventForwarder
    verifying_tables: frozenset[str]
    clock: Clock
    telemetry: Telemetry

    def handle(self, change: ProfileChange) -> Followed:
        """Take in ``change``.

        Raises
        ------
        StoreUnavailable, Misconfigured
            The table or the bus failed or refused: the change has to come again.
        """
        asked = [each for each in _awaiting(change) if change.table in self.verifying_tables]
        requested = sum(self._request(change, contact) for contact in asked)
        verified = self._became_verified(change)
        if verified:
            self._announce(change)
        unreadable = len(change.new.unreadable - change.old.unreadable)
        self.telemetry.info(
            "customer profile change followed",
            event=change.event_id,
            requested=requested,
            verified=verified,
            unreadable=unreadable,
        )
        for metric, number in (
            (Metric.ADDRESS_VERIFICATIONS_REQUESTED, requested),
            (Metric.ADDRESSES_VERIFIED, int(verified)),
            (Metric.CONTACTS_UNREADABLE, unreadable),
        ):
            if number:
                self.telemetry.count(metric, number)
        return Followed(requested, verified)

    def _request(self, change: ProfileChange, contact: Contact) -> bool:
        payload = VerificationPayload(change.subscription, contact.contact_id, change.event_id, change.time)
        try:
            self.store.commit(Save(entry_of(payload, now_of(self.clock))))
        except ConditionFailed:
            return False  # an earlier delivery of this record has written it
        return True

    def _became_verified(self, change: ProfileChange) -> bool:
        now = self.clock.now()
        return any(
            contact.may_be_told(now) and not _was_so(change.old.readable, contact, now)
            for contact in change.new.readable.values()
        )

    def _announce(self, change: ProfileChange) -> None:
        event = ContactVerified(change.event_id, change.time, change.subscription)
        detail = json.dumps(contact_verified_detail(event), separators=(",", ":"))
        self.bus.forward(REGISTRATION_SOURCE, CONTACT_VERIFIED, change.time, detail)


def _awaiting(change: ProfileChange) -> list[Contact]:
    """Return the contacts that have come to wait for a link by this change."""
    old = change.old.readable
    return [
        contact
        for contact in change.new.readable.values()
        if contact.awaits_link() and not _awaited_before(old, contact)
    ]


def _awaited_before(old: Mapping[str, Contact], contact: Contact) -> bool:
    before = old.get(contact.contact_id)
    return before is not None and before.awaits_link() and before.email == contact.email


def _was_so(old: Mapping[str, Contact], contact: Contact, now: datetime) -> bool:
    before = old.get(contact.contact_id)
    return before is not None and before.may_be_told(now) and before.email == contact.email
