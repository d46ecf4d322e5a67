"""The store of the tier: one DynamoDB table per Region, read by key and written under conditions.

Keys: ``pk`` (HASH), ``sk`` (RANGE), both strings. The items:

=================  ============================  ==================================  =======================
item               ``pk``                        ``sk``                              index
=================  ============================  ==================================  =======================
licence state      ``license#<subscription id>`` ``state``                           none
entry              ``entry#<entry id>``          ``entry``                           by status, until it ends
                                                                                     well
delivery           ``entry#<entry id>``          ``delivery#<delivery id>``          none
provider message   ``message#<message id>``      ``delivery#<delivery id>``          none
suppression        ``recipient#<recipient id>``  ``suppression#<address digest>``    while active
feedback           ``feedback#<key>``            ``feedback``                        until purged
audit entry        ``audit#<day>``               ``<time>#<action>#<subject>``       none
=================  ============================  ==================================  =======================

The one index, ``work-index``, is sparse and KEYS_ONLY: ``workQueue`` (HASH, a value of :class:`Queue`),
``dueAt`` (RANGE, ``YYYY-MM-DDTHH:MM:SSZ``). It may lag, so what it shows is read again by key and written
under its version. One partition takes 1,000 writes a second, far above any seller's mail.

Every item carries ``version``. A write of a record with version 0 makes the item and fails where there is
one; with another version it fails unless that is the item's. That takes the place of row locks: of two
writers who have read the same state, one gets through and the other reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Protocol

from awsmp.domain.notifications.audit import AuditEntry
from awsmp.domain.notifications.feedback import StoredFeedback, Suppression
from awsmp.domain.notifications.identities import Subscription
from awsmp.domain.notifications.license_state import LicenseState
from awsmp.domain.notifications.outbox import Delivery, Entry

WORK_INDEX = "work-index"


class Queue(StrEnum):
    """What the index lists, in order of the time at which it is due."""

    PENDING = "entry#pending"
    PROCESSING = "entry#processing"
    RETRYABLE = "entry#retryable"
    FAILED = "entry#failed"
    FEEDBACK = "feedback"
    SUPPRESSED = "suppression#active"


@dataclass(frozen=True, slots=True)
class MessageLink:
    """The provider's message id leads to a delivery; two deliveries of one message id make it ambiguous."""

    message_id: str
    delivery_id: str


Record = LicenseState | Entry | Delivery | Suppression | StoredFeedback | AuditEntry


@dataclass(frozen=True, slots=True)
class Save:
    """Write the record if the item still has its version (0: if there is no item)."""

    record: Record


@dataclass(frozen=True, slots=True)
class Link:
    """Write the link; writing it again changes nothing."""

    link: MessageLink


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but hold the other writes to the record's version."""

    record: Entry | LicenseState


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the record's item if it still has its version."""

    record: StoredFeedback


Write = Save | Link | Check | Remove

#: Most writes of one commit (DynamoDB: 100 actions of a transaction).
MAX_WRITES = 100


class NotificationStore(Protocol):
    """The table. Reads by key are consistent. Every method may raise StoreUnavailable or Misconfigured.

    Reads raise MalformedItem (``adapters.notifications.store``) for what we never write.
    """

    def license(self, subscription: Subscription) -> LicenseState | None:
        """Return what is known of the licence."""
        ...

    def entry(self, entry_id: str) -> Entry | None:
        """Return the entry."""
        ...

    def deliveries(self, entry_id: str) -> Sequence[Delivery]:
        """Return the entry's deliveries."""
        ...

    def delivery(self, delivery_id: str) -> Delivery | None:
        """Return the delivery."""
        ...

    def linked(self, message_id: str) -> Sequence[str]:
        """Return the ids of the deliveries that the provider's message id leads to."""
        ...

    def suppression(self, recipient_id: str, address_digest: str) -> Suppression | None:
        """Return the suppression of a recipient at an address, active or cleared."""
        ...

    def suppressions(self, recipient_id: str) -> Sequence[Suppression]:
        """Return all suppressions of a recipient, active and cleared."""
        ...

    def feedback(self, key: str) -> StoredFeedback | None:
        """Return the stored report."""
        ...

    def audit(self, day: date, limit: int) -> Sequence[AuditEntry]:
        """Return the day's audit entries (UTC), oldest first, at most ``limit``."""
        ...

    def due_entries(self, queue: Queue, until: datetime, limit: int) -> Sequence[str]:
        """Return ids of entries that the index lists as due at ``until``, longest due first."""
        ...

    def due_feedback(self, until: datetime, limit: int) -> Sequence[str]:
        """Return keys of reports that were received at or before ``until``, oldest first."""
        ...

    def active_suppressions(self, limit: int) -> Sequence[Suppression]:
        """Return active suppressions, oldest first, at most ``limit``."""
        ...

    def commit(self, *writes: Write) -> None:
        """Write all or nothing.

        Raises
        ------
        ConditionFailed
            A record is not at its version any more; nothing was written.
        StoreUnavailable
            It is not known whether the writes were done.
        """
        ...
