"""An administrator's acts: look, requeue, lift a suppression, purge. Who may is for IAM to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from awsmp.domain.errors import ConditionFailed, MeteringError, PartialFailure
from awsmp.domain.notifications.audit import AuditAction, AuditEntry
from awsmp.domain.notifications.contacts import ContactReference
from awsmp.domain.notifications.feedback import ClearingReason, Suppression, clear
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.outbox import (
    Delivery,
    Entry,
    VerificationPayload,
    can_requeue,
    entry_of,
)
from awsmp.domain.notifications.store import NotificationStore, Queue, Save
from awsmp.domain.ports import Clock, Telemetry
from awsmp.usecases.notifications.maintain import Maintenance
from awsmp.usecases.notifications.requeueing import requeue_entry
from awsmp.usecases.notifications.saving import MAX_ATTEMPTS, busy, now_of, saved

#: Most items that one listing returns.
MAX_LISTED = 1000


class NotRequeueable(MeteringError):
    """The entry does not exist, has not failed, or its attempts are used up."""


class NoActiveSuppression(MeteringError):
    """There is no such suppression, or it has been lifted already."""


class UnknownClearingReason(MeteringError):
    """A suppression is lifted for one of four reasons only."""


@dataclass(frozen=True, slots=True)
class Administration:
    """Every method may raise StoreUnavailable or Misconfigured."""

    store: NotificationStore
    limits: Limits
    clock: Clock
    telemetry: Telemetry

    def entries(self, queue: Queue, limit: int) -> Sequence[Entry]:
        """Return entries that are pending, processing or failed; at most ``limit``, and at most 1,000."""
        # Due times of failed entries may lie ahead, and a listing shows those too.
        until = self.clock.now() + self.limits.max_age
        ids = self.store.due_entries(queue, until, min(limit, MAX_LISTED))
        return [entry for entry in map(self.store.entry, ids) if entry is not None]

    def deliveries(self, entry_id: str) -> Sequence[Delivery]:
        """Return the deliveries of an entry."""
        return self.store.deliveries(entry_id)

    def suppressions(self, limit: int) -> Sequence[Suppression]:
        """Return active suppressions, oldest first; at most ``limit``, and at most 1,000."""
        return self.store.active_suppressions(min(limit, MAX_LISTED))

    def suppressions_of(self, recipient_id: str) -> Sequence[Suppression]:
        """Return all suppressions of a recipient, lifted ones included."""
        return self.store.suppressions(recipient_id)

    def audit(self, day: date, limit: int) -> Sequence[AuditEntry]:
        """Return a day's audit entries (UTC), oldest first; at most ``limit``, and at most 1,000."""
        return self.store.audit(day, min(limit, MAX_LISTED))

    def requeue(self, entry_id: str) -> Entry:
        """Put a failed entry back with all its failed deliveries, those refused for good included.

        Raises
        ------
        NotRequeueable
            See the error; nothing was changed.
        """
        entry = self.store.entry(entry_id)
        if entry is None or not can_requeue(entry, self.limits):
            raise NotRequeueable("the entry has not failed, or its attempts are used up")
        try:
            pending = requeue_entry(self.store, entry, now_of(self.clock), lambda _: True)
        except ConditionFailed as error:
            raise NotRequeueable("the entry has been taken up by another run meanwhile") from error
        self.telemetry.info("notification entry requeued", entry=entry_id)
        return pending

    def verify_contact(self, contact: ContactReference) -> Entry:
        """Ask a contact once more to verify its address, for one whose link has expired.

        A second call within the same second is the same request. Whether there is such a contact, and
        whether it is verified already, is seen when the mail is to be sent.

        Raises
        ------
        InvalidIdentity
            The contact's id is none.
        """
        now = now_of(self.clock)
        event_id = f"administrator-{int(now.timestamp())}"
        entry = entry_of(VerificationPayload(contact.subscription, contact.contact_id, event_id, now), now)
        try:
            self.store.commit(Save(entry))
        except ConditionFailed:
            known = self.store.entry(entry.entry_id)
            return entry if known is None else known
        self.telemetry.info("address verification requested", entry=entry.entry_id)
        return saved(entry)

    def clear_suppression(self, recipient_id: str, address_digest: str, reason: str) -> Suppression:
        """Lift a suppression; with its audit entry, in one transaction.

        Raises
        ------
        UnknownClearingReason, NoActiveSuppression
            See the errors; nothing was changed.
        """
        try:
            accepted = ClearingReason(reason)
        except ValueError as error:
            raise UnknownClearingReason(
                f"the reason is none of {', '.join(each.value for each in ClearingReason)}"
            ) from error
        for _ in range(MAX_ATTEMPTS):
            known = self.store.suppression(recipient_id, address_digest)
            if known is None or not known.is_active:
                raise NoActiveSuppression("the recipient is not suppressed at this address")
            now = now_of(self.clock)
            cleared = clear(known, accepted, now)
            audit = AuditEntry(
                at=now,
                action=AuditAction.SUPPRESSION_CLEARED,
                subject=recipient_id,
                detail=accepted.value,
                sequence=known.version,
                counts={"cleared": 1},
            )
            try:
                self.store.commit(Save(cleared), Save(audit))
            except ConditionFailed:
                continue
            self.telemetry.info("suppression cleared", recipient=recipient_id, reason=accepted.value)
            return saved(cleared)
        raise busy("the suppression")

    def purge(self, limit: int) -> int:
        """Delete feedback past its retention, at most ``limit`` reports and at most 1,000; return how many.

        Raises
        ------
        PartialFailure
            Some failed; the others are deleted and audited.
        """
        failures: list[MeteringError] = []
        maintenance = Maintenance(self.store, self.limits, self.clock, self.telemetry)
        purged = maintenance.purge(min(limit, MAX_LISTED), failures)
        if failures:
            raise PartialFailure(f"{len(failures)} steps of the purge failed") from failures[0]
        return purged
