"""Applies lifecycle events and registrations to the subscribers table.

Why no agreement event is ever lost, whatever the interleaving of two invocations:

- An agreement event E is first *parked* (P), then the licences *linked* to its agreement are read (L).
- A licence event first links its licence to its agreement (K), then writes the row (U), then reads what
  is parked for the agreement (R) and applies it.

Links and parked events share one partition of one table, and L and R are strongly consistent. If P comes
before R, the licence event sees E. Otherwise K < U < R < P < L: the agreement event sees the link, and the
row behind it exists. The agreement index, which lags, is asked as well but never relied on: it finds rows
whose links have expired. Every step is repeated by a redelivery, and repeating it changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from awsmp.domain.errors import ConditionFailed, MeteringError, Misconfigured, StoreUnavailable
from awsmp.domain.hours import format_instant
from awsmp.domain.license_arns import license_id, row_key, same_license
from awsmp.domain.lifecycle_events import (
    AgreementAmended,
    AgreementEnded,
    AgreementEvent,
    CancellationRequest,
    Envelope,
    LicenseDeprovisioned,
    LicenseEvent,
    LicenseUpdated,
    Stamp,
    at_license,
    parse_envelope,
    parse_event,
)
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.domain.subscribers import (
    Change,
    Outcome,
    Registration,
    SubscriberRow,
    apply,
    apply_all,
    join,
    register,
)

#: How long agreement events wait for their licence. A seller's other products send them too, for ever.
PARKED_FOR: Final = timedelta(days=14)

#: Source of the events that we forward; EventBridge refuses ``aws.*`` sources from anybody else.
FORWARDED_SOURCE: Final = "awsmp.agreement-marketplace"

#: Attempts to win a compare-and-set; a lost one means that another writer has got on.
MAX_ATTEMPTS: Final = 12

_BACKOFF_SECONDS: Final = 0.05


class UnresolvedLicense(MeteringError):
    """An event without a whole licence whose agreement leads to no licence, or to more than one."""


class Subscribers(Protocol):
    """The subscribers table. Every method may raise StoreUnavailable or Misconfigured."""

    def find(self, license_arn: str, customer_account: str) -> Sequence[SubscriberRow]:
        """Return all rows of one licence and account, read consistently: none, one, rarely more."""
        ...

    def of_agreement(self, agreement_id: str) -> Sequence[tuple[str, str]]:
        """Return the (licence, account) keys that the agreement index shows; it may lag."""
        ...

    def write(self, old: SubscriberRow | None, new: SubscriberRow) -> None:
        """Replace ``old`` by ``new``; ConditionFailed when the row is not ``old`` any more."""
        ...


class AgreementLog(Protocol):
    """Parked agreement events and the licences linked to each agreement; reads are consistent."""

    def park(self, agreement_id: str, stamp: Stamp, body: str, expires_at: datetime) -> None:
        """Keep the event's envelope; the same event twice is one entry."""
        ...

    def link(self, agreement_id: str, license_arn: str, customer_account: str, expires_at: datetime) -> None:
        """Note that a licence belongs to the agreement."""
        ...

    def parked(self, agreement_id: str) -> Sequence[str]:
        """Return the bodies of the agreement's parked events."""
        ...

    def linked(self, agreement_id: str) -> Sequence[tuple[str, str]]:
        """Return the (licence, account) keys linked to the agreement."""
        ...


class EventForwarder(Protocol):
    """The event buses of other Regions."""

    def forward(self, source: str, detail_type: str, time: datetime, detail: str) -> int:
        """Put one event on every bus and return on how many; raises unless all have taken it."""
        ...


@dataclass(frozen=True, slots=True)
class AcceptedEvents:
    """Whose events are handled.

    ``product_codes`` empty means every product; ``seller_account`` None means no check.
    """

    sources: frozenset[str]
    product_codes: frozenset[str]
    seller_account: str | None

    def check(self, envelope: Envelope) -> None:
        """Refuse what a wrongly configured rule or a stranger has sent.

        Raises
        ------
        Misconfigured
            The source or the seller account is not ours. Dropping such an event in silence could drop
            a real one, so it goes to the dead-letter queue.
        """
        if envelope.source not in self.sources:
            raise Misconfigured("an event of a source that is not accepted: see EVENT_SOURCES and the rule")
        if self.seller_account is not None and envelope.account != self.seller_account:
            raise Misconfigured("an event of another seller account: see SELLER_ACCOUNT_ID")

    def is_foreign(self, product_code: str | None) -> bool:
        """Tell whether the event is about a product that this deployment does not follow."""
        return (
            bool(self.product_codes) and product_code is not None and product_code not in self.product_codes
        )


@dataclass(frozen=True, slots=True)
class SubscriptionLifecycle:
    """Handles one event at a time; any exception means that the event has to come again."""

    subscribers: Subscribers
    agreement_log: AgreementLog
    forwarder: EventForwarder
    accepted: AcceptedEvents
    clock: Clock
    telemetry: Telemetry

    def handle(self, body: str) -> None:
        """Apply the event in ``body``; when this returns, its effect is durable.

        Raises
        ------
        MeteringError
            The message is malformed, cannot be resolved to a licence, or a store refused or failed.
        """
        envelope = parse_envelope(body)
        self.accepted.check(envelope)
        match parse_event(envelope):
            case LicenseUpdated() | LicenseDeprovisioned() as event:
                self._license_event(event)
            case AgreementEnded() | AgreementAmended() as event:
                self._agreement_event(event, body)
            case CancellationRequest() as event:
                self._cancellation_request(event, envelope)
            case other:
                self.telemetry.info("event type without effect here", detail_type=other.name)
                self.telemetry.count(Metric.EVENT_IGNORED, reason=other.name)

    def _license_event(self, event: LicenseEvent) -> None:
        if self.accepted.is_foreign(event.product_code):
            self.telemetry.info("event of another product", detail_type=event.stamp.kind)
            self.telemetry.count(Metric.EVENT_IGNORED, reason=event.stamp.kind)
            return
        if isinstance(event, LicenseDeprovisioned):
            event = self._resolve(event)
        assert event.license_arn is not None
        assert event.customer_account is not None
        key = row_key(event.license_arn)
        if event.agreement_id is not None:
            expires_at = self.clock.now() + PARKED_FOR
            self.agreement_log.link(event.agreement_id, key, event.customer_account, expires_at)
        change = self._change(event.license_arn, event.customer_account, lambda row: apply(row, event))
        if event.agreement_id is not None:
            self._apply_parked(event.agreement_id, event.license_arn, event.customer_account)
        self._report(change.outcome, event.stamp, license_arn=key)

    def _resolve(self, event: LicenseDeprovisioned) -> LicenseDeprovisioned:
        """Return the event with its licence; one that leaves something out needs an existing row.

        Without ARN or account that is the one row of its agreement that matches what the event does tell.
        More than one match is not resolved by guessing: a licence that lives on would lose its usage.
        """
        if event.is_complete:
            return event
        if event.license_arn is not None and event.customer_account is not None:
            if self.subscribers.find(event.license_arn, event.customer_account):
                return event
            raise UnresolvedLicense(f"{event.stamp.kind} names no product and a licence that has no row yet")
        assert event.agreement_id is not None
        found: dict[tuple[str, str], SubscriberRow] = {}
        for license_arn, account in self._keys_of(event.agreement_id):
            for row in self.subscribers.find(license_arn, account):
                if _matches(row, event):
                    found[(license_id(row.license_arn), row.customer_account)] = row
        if len(found) != 1:
            raise UnresolvedLicense(
                f"{event.stamp.kind} does not name its licence, and its agreement leads to {len(found)}: "
                "it is retried, since License Updated may still come, and then dead-lettered"
            )
        row = next(iter(found.values()))
        return at_license(event, row.license_arn, row.customer_account)

    def _apply_parked(self, agreement_id: str, license_arn: str, account: str) -> None:
        events = [parse_event(parse_envelope(body)) for body in self.agreement_log.parked(agreement_id)]
        parked = [event for event in events if isinstance(event, AgreementEnded | AgreementAmended)]
        if parked:
            self._change(license_arn, account, lambda row: apply_all(row, parked))

    def _agreement_event(self, event: AgreementEvent, body: str) -> None:
        self.agreement_log.park(event.agreement_id, event.stamp, body, self.clock.now() + PARKED_FOR)
        outcomes = {
            self._change(license_arn, account, lambda row: apply(row, event)).outcome
            for license_arn, account in self._keys_of(event.agreement_id)
        }
        strongest = (Outcome.APPLIED, Outcome.DUPLICATE, Outcome.STALE)
        outcome = next((each for each in strongest if each in outcomes), Outcome.NO_ROW)
        self._report(outcome, event.stamp)

    def _keys_of(self, agreement_id: str) -> list[tuple[str, str]]:
        linked = self.agreement_log.linked(agreement_id)
        indexed = self.subscribers.of_agreement(agreement_id)
        distinct = {(license_id(arn), account): (arn, account) for arn, account in (*linked, *indexed)}
        return [distinct[key] for key in sorted(distinct)]

    def _cancellation_request(self, event: CancellationRequest, envelope: Envelope) -> None:
        detail = {
            "eventId": event.event_id,
            "eventTime": format_instant(envelope.time),
            "detailType": envelope.detail_type,
            "source": envelope.source,
            "account": envelope.account,
            "detail": envelope.detail,
        }
        buses = self.forwarder.forward(
            FORWARDED_SOURCE, envelope.detail_type, envelope.time, json.dumps(detail, separators=(",", ":"))
        )
        self.telemetry.info("cancellation request", detail_type=envelope.name, forwarded_to_buses=buses)
        self.telemetry.count(Metric.EVENT_IGNORED, reason=envelope.name)

    def _change(
        self, license_arn: str, account: str, transition: Callable[[SubscriberRow | None], Change]
    ) -> Change:
        return change_subscriber(self.subscribers, self.clock, license_arn, account, transition)

    def _report(self, outcome: Outcome, stamp: Stamp, **fields: str) -> None:
        self.telemetry.info("event handled", detail_type=stamp.kind, outcome=outcome, **fields)
        metric = _METRICS.get(outcome)
        if metric is not None:
            self.telemetry.count(metric, reason=stamp.kind)


_METRICS: Final[Mapping[Outcome, Metric]] = {
    Outcome.APPLIED: Metric.EVENT_APPLIED,
    Outcome.STALE: Metric.EVENT_STALE,
    Outcome.NO_ROW: Metric.EVENT_PARKED,
}


def register_subscriber(subscribers: Subscribers, clock: Clock, registration: Registration) -> SubscriberRow:
    """Record a registration on the licence's row, making the row if no event has, and return the row.

    Raises
    ------
    InvalidLicenseArn
        The licence ARN is none.
    StoreUnavailable, Misconfigured
        The table failed or refused.
    """
    change = change_subscriber(
        subscribers,
        clock,
        registration.license_arn,
        registration.customer_account,
        lambda row: register(row, registration),
    )
    assert change.row is not None
    return change.row


def change_subscriber(
    subscribers: Subscribers,
    clock: Clock,
    license_arn: str,
    customer_account: str,
    transition: Callable[[SubscriberRow | None], Change],
) -> Change:
    """Read, compute, compare-and-set; start again from the read whenever another writer was faster.

    All rows of the licence are brought to the one state that they add up to, so that two rows that came
    from different spellings agree after the next event, each under its own key.

    Raises
    ------
    StoreUnavailable
        The row did not hold still for ``MAX_ATTEMPTS`` attempts, or the table failed.
    Misconfigured
        The table is not there or not ours to use.
    """
    for attempt in range(MAX_ATTEMPTS):
        rows = subscribers.find(license_arn, customer_account)
        change = transition(join(rows))
        try:
            _write(subscribers, rows, change.row)
        except ConditionFailed:
            clock.sleep(_BACKOFF_SECONDS * attempt)
            continue
        return change
    raise StoreUnavailable("other writers kept changing the subscriber row: the message is retried")


def _write(subscribers: Subscribers, rows: Sequence[SubscriberRow], new: SubscriberRow | None) -> None:
    if new is None:
        return
    if not rows:
        subscribers.write(None, new)
    for row in rows:
        target = replace(new, license_arn=row.license_arn, version=row.version)
        if target != row:
            subscribers.write(row, target)


def _matches(row: SubscriberRow, event: LicenseDeprovisioned) -> bool:
    return (
        (event.license_arn is None or same_license(row.license_arn, event.license_arn))
        and (event.customer_account is None or row.customer_account == event.customer_account)
        and (event.product_code is None or row.product_code in (None, event.product_code))
        and row.agreement_id == event.agreement_id
    )
