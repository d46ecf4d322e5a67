"""Sends what is pending: claims an entry, resolves its recipients, makes and sends its deliveries.

What may happen, and why no delivery is sent twice or lost:

- Every write below an entry is held to the entry's version, which a claim raises. A sender whose claim was
  recovered cannot begin another attempt, because ``sending`` is written before the provider is called.
- A crash before the provider is called leaves a delivery in ``sending`` that nobody has got. A crash after
  it, or a lost answer, leaves one that may have been got: it is sent again under the same delivery id. There
  is no third way without a provider that tells duplicates apart.
- No attempt begins that could outlast the claim, so a slow sender and its successor do not overlap.
- A verification link goes to a contact that is not verified, else by the same rules. It may come before the
  licence's home Region is known here; the entry then waits.
- An error with one recipient marks that delivery; an error of the store leaves it incomplete. The others
  are sent, and the entry ends as failed and due again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from awsmp.domain.errors import (
    ConditionFailed,
    MeteringError,
    Misconfigured,
    PartialFailure,
    StoreUnavailable,
)
from awsmp.domain.notifications.audit import AuditAction
from awsmp.domain.notifications.contacts import ContactReference, recipient_id
from awsmp.domain.notifications.license_state import LicenseState
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.messages import Message
from awsmp.domain.notifications.outbox import (
    AnyPayload,
    Counts,
    Delivery,
    DeliveryStatus,
    Entry,
    EntryStatus,
    PayloadInvalid,
    Reason,
    VerificationPayload,
    accepted,
    begin_attempt,
    claim,
    count,
    defer,
    end,
    fail_unresolved,
    failed,
    is_expired,
    new_delivery,
    objection,
    objection_to_link,
    payload_of,
    skip,
    skip_delivery,
)
from awsmp.domain.notifications.ports import (
    AddressDigest,
    OutcomeUnknown,
    Recipient,
    Recipients,
    SendFailure,
    Transport,
    TransportFailed,
)
from awsmp.domain.notifications.store import (
    Check,
    Link,
    MessageLink,
    NotificationStore,
    Queue,
    Save,
)
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.usecases.notifications.compose import Composer
from awsmp.usecases.notifications.offer_link import LinkOffers
from awsmp.usecases.notifications.saving import (
    MAX_ATTEMPTS,
    busy,
    commit_entry,
    entry_audit,
    now_of,
    saved,
)


@dataclass(slots=True)
class _Errors:
    """What went wrong in a run; nothing of it kept another delivery or entry from its turn."""

    first: MeteringError | None = None
    number: int = 0

    def add(self, error: MeteringError) -> None:
        self.first = self.first or error
        self.number += 1


@dataclass(frozen=True, slots=True)
class Sent:
    """What a run did: entries that it ended, entries that others had, and how the deliveries stand."""

    ended: int = 0
    lost_claims: int = 0
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True)
class _Work:
    """One claimed entry and what its deliveries need."""

    entry: Entry
    payload: AnyPayload
    state: LicenseState
    cutoff: datetime

    def concerns(self, recipient: Recipient) -> bool:
        """Tell whether the entry is about this contact; a notice is about all."""
        if not isinstance(self.payload, VerificationPayload):
            return True
        account = self.payload.subscription.customer_account
        return recipient.recipient_id == recipient_id(account, self.payload.contact_id)

    def objection(self, recipient: Recipient | None, now: datetime) -> Reason | None:
        """Return why nothing of this entry may be sent to the recipient, None for no objection."""
        if isinstance(self.payload, VerificationPayload):
            return objection_to_link(recipient, now)
        return objection(recipient, now)


class _ClaimLost(Exception):
    """The entry has moved on under another claim."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends pending entries of this Region; any number of senders may run at once.

    ``links`` None: the seller verifies contacts, and no profile table has a verification page.
    """

    region: str
    store: NotificationStore
    recipients: Recipients
    transport: Transport
    digests: AddressDigest
    composer: Composer
    limits: Limits
    clock: Clock
    telemetry: Telemetry
    links: LinkOffers | None = None

    def run(self, until: datetime) -> Sent:
        """Send what is due, oldest first, at most ``limits.batch`` entries, beginning none after ``until``.

        Raises
        ------
        PartialFailure
            Something went wrong with an entry or a delivery; the others were done.
        """
        sent, errors = Sent(), _Errors()
        for entry_id in self.store.due_entries(Queue.PENDING, self.clock.now(), self.limits.batch):
            if self.clock.now() + self.limits.send_timeout > until:
                break
            try:
                counts = self._process(entry_id, until, errors)
            except (ConditionFailed, _ClaimLost):
                sent = replace(sent, lost_claims=sent.lost_claims + 1)
            except MeteringError as error:
                errors.add(error)
            else:
                sent = sent if counts is None else _add(sent, counts)
        self._report(sent, errors)
        if errors.first is not None:
            raise PartialFailure(f"{errors.number} steps of the send run failed") from errors.first
        return sent

    def _process(self, entry_id: str, until: datetime, errors: _Errors) -> Counts | None:
        entry = self.store.entry(entry_id)
        if entry is None or entry.status is not EntryStatus.PENDING:
            return None
        claimed = claim(entry, now_of(self.clock))
        self.store.commit(Save(claimed))
        entry = saved(claimed)
        assert entry.claimed_at is not None
        if is_expired(entry, self.limits, entry.claimed_at):
            return self._skip(entry, Reason.EXPIRED)
        try:
            payload = payload_of(entry)
        except PayloadInvalid:
            return self._skip(entry, Reason.PAYLOAD_INVALID)
        cutoff = min(entry.claimed_at + self.limits.stale_after, until) - self.limits.send_timeout
        try:
            state = self.store.license(payload.subscription)
            if _may_become_home(payload, state) and entry.attempts < self.limits.max_attempts:
                commit_entry(self.store, entry, defer(entry, now_of(self.clock)))
                return None
            if state is None or state.home_region != self.region:
                return self._skip(entry, Reason.FOREIGN_REGION)
            work = _Work(entry, payload, state, cutoff)
            resolved = self._resolve(work)
        except ConditionFailed:
            raise
        except MeteringError as error:
            errors.add(error)
            now = now_of(self.clock)
            deliveries = self.store.deliveries(entry.entry_id)
            return self._end(entry, fail_unresolved(entry, self.limits, now), deliveries, now)
        if resolved is None:
            return self._skip(entry, Reason.NO_RECIPIENT)
        work = replace(work, entry=resolved)
        for delivery in self.store.deliveries(resolved.entry_id):
            self._deliver(work, delivery, errors)
        now = now_of(self.clock)
        deliveries = self.store.deliveries(resolved.entry_id)
        return self._end(resolved, end(resolved, deliveries, self.limits, now), deliveries, now)

    def _resolve(self, work: _Work) -> Entry | None:
        """Return the entry with its deliveries made, None where there is nobody to tell.

        They are made once. A requeued entry keeps those it has: whoever has joined since is not told of
        what was then.
        """
        entry = work.entry
        if entry.resolved:
            return entry
        now = self.clock.now()
        eligible = [each for each in self._owners(work) if work.objection(each, now) is None]
        if not eligible:
            return None
        known = {each.delivery_id for each in self.store.deliveries(entry.entry_id)}
        wanted = {each.delivery_id: each for each in map(self._new(entry), self._distinct(eligible))}
        missing = [each for each in wanted.values() if each.delivery_id not in known]
        return commit_entry(self.store, entry, replace(entry, resolved=True), missing)

    def _new(self, entry: Entry) -> Callable[[Recipient], Delivery]:
        return lambda recipient: new_delivery(entry, recipient)

    def _distinct(self, recipients: Sequence[Recipient]) -> list[Recipient]:
        """Return the recipients without those whose mailbox another one has: one person is told once."""
        by_digest: dict[str, Recipient] = {}
        for recipient in recipients:
            by_digest.setdefault(self.digests.digest(recipient.address), recipient)
        return list(by_digest.values())

    def _owners(self, work: _Work) -> Sequence[Recipient]:
        subscription = work.payload.subscription
        owners = self.recipients.owners(subscription.license_arn, subscription.customer_account)
        return [each for each in owners if work.concerns(each)]

    def _deliver(self, work: _Work, delivery: Delivery, errors: _Errors) -> None:
        if delivery.status not in (DeliveryStatus.PENDING, DeliveryStatus.SENDING):
            return
        if self.clock.now() > work.cutoff:
            return
        current: Delivery | None = delivery
        try:
            for _ in range(MAX_ATTEMPTS):
                if current is None or current.is_done:
                    return
                try:
                    self._attempt(work, current, errors)
                except ConditionFailed as error:
                    # Feedback on an earlier attempt, or a claim that has taken this one's place.
                    self._require_claim(work.entry, error)
                    current = self.store.delivery(delivery.delivery_id)
                else:
                    return
        except MeteringError as error:
            errors.add(error)

    def _require_claim(self, entry: Entry, error: ConditionFailed) -> None:
        known = self.store.entry(entry.entry_id)
        if known is None or known.version != entry.version:
            raise _ClaimLost from error

    def _attempt(self, work: _Work, delivery: Delivery, errors: _Errors) -> None:
        recipient = next(
            (each for each in self._owners(work) if each.recipient_id == delivery.recipient_id), None
        )
        reason = work.objection(recipient, self.clock.now())
        if recipient is None or reason is not None:
            self._save(work, skip_delivery(delivery, reason or Reason.RECIPIENT_REMOVED))
            return
        digest = self.digests.digest(recipient.address)
        suppression = self.store.suppression(recipient.recipient_id, digest)
        if suppression is not None and suppression.is_active:
            self._save(work, skip_delivery(delivery, Reason.RECIPIENT_SUPPRESSED))
            return
        try:
            message = self._message(work, recipient, digest, delivery.delivery_id)
        except (ConditionFailed, StoreUnavailable):
            raise
        except MeteringError as error:
            errors.add(error)
            retryable = isinstance(error, Misconfigured)  # somebody mends a setting; a bound stays broken
            self._save(work, failed(delivery, type(error).__name__, retryable=retryable))
            return
        sending = self._save(work, begin_attempt(delivery, digest, now_of(self.clock)))
        if self.clock.now() > work.cutoff:
            return  # the store took too long: what is left of the claim may not be enough for the provider
        try:
            message_id = self.transport.send(message)
        except SendFailure as error:
            retryable = isinstance(error, TransportFailed | OutcomeUnknown)
            code = f"outcome_unknown:{error.code}" if isinstance(error, OutcomeUnknown) else error.code
            self._record(sending, lambda each: failed(each, code, retryable=retryable))
            self._log(delivery, work.payload, f"failed:{code}")
        except MeteringError as error:
            # No message at all can be sent: a setting or a permission. This one was not sent either.
            errors.add(error)
            name = type(error).__name__
            self._record(sending, lambda each: failed(each, name, retryable=True))
            self._log(delivery, work.payload, f"failed:{name}")
        else:
            now = now_of(self.clock)
            link = Link(MessageLink(message_id, delivery.delivery_id))
            self._record(sending, lambda each: accepted(each, message_id, now), link)
            self._log(delivery, work.payload, "sent")

    def _message(self, work: _Work, recipient: Recipient, digest: str, delivery_id: str) -> Message:
        product = work.state.product_code
        payload = work.payload
        if not isinstance(payload, VerificationPayload):
            return self.composer.compose(payload.kind, product, recipient, delivery_id)
        if self.links is None:
            raise Misconfigured("there is no verification page, so no link can be sent")
        contact = ContactReference(payload.subscription, payload.contact_id)
        link = self.links.link(contact, digest, delivery_id)
        return self.composer.compose_verification(product, recipient, delivery_id, link)

    def _save(self, work: _Work, delivery: Delivery) -> Delivery:
        """Write the delivery if the claim still stands.

        Raises
        ------
        ConditionFailed
            The entry or the delivery has been changed by somebody else.
        """
        self.store.commit(Check(work.entry), Save(delivery))
        return saved(delivery)

    def _record(self, delivery: Delivery, outcome: Callable[[Delivery], Delivery], *links: Link) -> None:
        """Write what the provider said. It is a fact, so it is written whoever has the claim now."""
        for _ in range(MAX_ATTEMPTS):
            try:
                self.store.commit(Save(outcome(delivery)), *links)
            except ConditionFailed:
                known = self.store.delivery(delivery.delivery_id)
                if known is None:
                    raise
                delivery = known
            else:
                return
        raise busy("a delivery")

    def _skip(self, entry: Entry, reason: Reason) -> Counts:
        """End the entry without a send; deliveries of an earlier run that are not done end with it."""
        now = now_of(self.clock)
        before = self.store.deliveries(entry.entry_id)
        deliveries = [each if each.is_done else skip_delivery(each, reason) for each in before]
        changed = [new for old, new in zip(before, deliveries, strict=True) if new != old]
        return self._end(entry, skip(entry, reason, now), deliveries, now, changed)

    def _end(
        self,
        entry: Entry,
        ended: Entry,
        deliveries: Sequence[Delivery],
        now: datetime,
        changed: Sequence[Delivery] = (),
    ) -> Counts:
        counts = count(deliveries)
        audit = entry_audit(ended, AuditAction.ENTRY_ENDED, counts, now)
        commit_entry(self.store, entry, ended, changed, audit)
        self.telemetry.info(
            "notification entry ended",
            entry=entry.entry_id,
            status=ended.status.value,
            reason=ended.reason,
            **counts.as_mapping(),
        )
        if ended.status is EntryStatus.FAILED:
            self.telemetry.count(Metric.NOTIFICATION_ENTRIES_FAILED, reason=ended.reason)
        if ended.status is EntryStatus.SKIPPED:
            self.telemetry.count(Metric.NOTIFICATIONS_SKIPPED, reason=ended.reason)
        return counts

    def _log(self, delivery: Delivery, payload: AnyPayload, outcome: str) -> None:
        self.telemetry.info(
            "notification delivery",
            delivery=delivery.delivery_id,
            kind=payload.kind.value,
            attempt=delivery.attempts + 1,
            outcome=outcome,
        )

    def _report(self, sent: Sent, errors: _Errors) -> None:
        if errors.first is not None:
            self.telemetry.error(
                "send run with errors", errors=errors.number, first=type(errors.first).__name__
            )
        for metric, value in (
            (Metric.NOTIFICATIONS_SENT, sent.counts.sent),
            (Metric.NOTIFICATIONS_FAILED, sent.counts.failed + sent.counts.incomplete),
        ):
            if value:
                self.telemetry.count(metric, value)
        self.telemetry.count(Metric.NOTIFICATION_SEND_RUNS_COMPLETED)


def _may_become_home(payload: AnyPayload, state: LicenseState | None) -> bool:
    """Tell whether the licence's home is not known here yet: its profile is written before its row is."""
    return isinstance(payload, VerificationPayload) and (state is None or state.home_region is None)


def _add(sent: Sent, counts: Counts) -> Sent:
    return replace(
        sent,
        ended=sent.ended + 1,
        counts=Counts(
            sent.counts.sent + counts.sent,
            sent.counts.skipped + counts.skipped,
            sent.counts.failed + counts.failed,
            sent.counts.incomplete + counts.incomplete,
        ),
    )
