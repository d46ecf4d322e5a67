"""Takes one event in: decides what buyers are to hear, and writes state and entries in one transaction.

What the state says has been applied therefore has its entries; a redelivery finds them and adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from awsmp.domain.errors import ConditionFailed
from awsmp.domain.notifications.billing_events import BillingEvent
from awsmp.domain.notifications.identities import Subscription, subscription_of
from awsmp.domain.notifications.intake_events import parse_intake
from awsmp.domain.notifications.license_state import (
    Applied,
    ContactVerified,
    Decision,
    LicenseState,
    RequestDecision,
    RowChange,
    apply_billing,
    apply_contact_verified,
    apply_request,
    apply_row_change,
    assume_started,
    at_home,
    awaits_start,
    start,
    was_started_before,
)
from awsmp.domain.notifications.outbox import Entry, new_entry, objection
from awsmp.domain.notifications.ports import Recipients
from awsmp.domain.notifications.store import NotificationStore, Save
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.domain.subscribers import SubscriberRow
from awsmp.usecases.notifications.saving import MAX_ATTEMPTS, busy

_BACKOFF_SECONDS = 0.05


class Licenses(Protocol):
    """The subscribers table, read from here. Every method may raise StoreUnavailable or Misconfigured."""

    def get(self, license_arn: str, customer_account: str) -> SubscriberRow | None:
        """Return the licence's row, read consistently."""
        ...

    def of_agreement(self, agreement_id: str) -> Sequence[tuple[str, str]]:
        """Return the (licence, account) keys of an agreement."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of an event: entries that are new, entries that were there, and the outcome per licence."""

    queued: int = 0
    already_there: int = 0
    outcomes: tuple[Applied, ...] = ()


@dataclass(frozen=True, slots=True)
class Intake:
    """Handles one message; when it returns, the effect is durable. Any error means: deliver it again."""

    region: str
    store: NotificationStore
    recipients: Recipients
    licenses: Licenses
    clock: Clock
    telemetry: Telemetry

    def handle(self, body: str) -> Taken:
        """Take in the event in a message's body.

        Raises
        ------
        MeteringError
            The message is malformed, or a store failed or refused.
        """
        event = parse_intake(body)
        match event:
            case RowChange():
                taken = self._change(event.subscription, lambda state: self._row_change(state, event))
            case ContactVerified():
                taken = self._change(event.subscription, lambda state: self._contact(state, event))
            case BillingEvent():
                taken = self._change(event.subscription, lambda state: self._billing(state, event))
            case RequestDecision():
                taken = self._request(event)
        self._report(event, taken)
        return taken

    def _row_change(self, state: LicenseState | None, change: RowChange) -> Decision:
        decision = apply_row_change(state, change, self.region)
        if not awaits_start(decision.state, self.region) or not self._has_contact(decision.state):
            return decision
        if was_started_before(state, change):
            return replace(decision, state=assume_started(decision.state))
        return _started(decision, change.event_time)

    def _contact(self, state: LicenseState | None, event: ContactVerified) -> Decision:
        if state is None or state.home_region is None or not _knows_status(state):
            # Its row may know what no event has told here yet.
            row = self._row(event.subscription)
            if row is not None:
                change = RowChange(event.event_id, event.event_time, event.subscription, row, row)
                state = apply_row_change(state, change, self.region).state
        decision = apply_contact_verified(state, event, self.region)
        if not awaits_start(decision.state, self.region):
            return decision
        return _started(decision, event.event_time)

    def _billing(self, state: LicenseState | None, event: BillingEvent) -> Decision:
        known = self._at_home(state, event.subscription)
        if known.home_region != self.region:
            return Decision(known, outcome=_elsewhere(known))
        return apply_billing(known, event)

    def _request(self, event: RequestDecision) -> Taken:
        keys = self.licenses.of_agreement(event.agreement_id)
        # A seller's other products send these events too, and nobody registers for those here.
        taken = Taken(outcomes=() if keys else (Applied.NOT_REGISTERED,))
        for license_arn, account in keys:
            subscription = subscription_of(license_arn, account)
            one = self._change(subscription, partial(self._request_of, subscription, event))
            taken = Taken(
                taken.queued + one.queued,
                taken.already_there + one.already_there,
                (*taken.outcomes, *one.outcomes),
            )
        return taken

    def _request_of(
        self, subscription: Subscription, event: RequestDecision, state: LicenseState | None
    ) -> Decision:
        known = self._at_home(state, subscription)
        if known.home_region != self.region:
            return Decision(known, outcome=_elsewhere(known))
        if known.agreement_id not in (None, event.agreement_id):
            return Decision(known, outcome=Applied.STALE)
        return apply_request(known, event)

    def _at_home(self, state: LicenseState | None, subscription: Subscription) -> LicenseState:
        if state is not None and state.home_region is not None:
            return state
        return at_home(state, self._row(subscription), subscription)

    def _row(self, subscription: Subscription) -> SubscriberRow | None:
        return self.licenses.get(subscription.license_arn, subscription.customer_account)

    def _has_contact(self, state: LicenseState) -> bool:
        if state.contact_verified:
            return True
        subscription = state.subscription
        now = self.clock.now()
        owners = self.recipients.owners(subscription.license_arn, subscription.customer_account)
        return any(objection(recipient, now) is None for recipient in owners)

    def _change(self, subscription: Subscription, decide: Callable[[LicenseState | None], Decision]) -> Taken:
        for attempt in range(MAX_ATTEMPTS):
            state = self.store.license(subscription)
            decision = decide(state)
            try:
                return self._commit(state, decision)
            except ConditionFailed:
                self.clock.sleep(_BACKOFF_SECONDS * attempt)
        raise busy("the licence's state")

    def _commit(self, state: LicenseState | None, decision: Decision) -> Taken:
        if decision.outcome is Applied.FOREIGN_REGION:
            return Taken(outcomes=(decision.outcome,))
        now = self.clock.now()
        wanted = {
            entry.entry_id: entry
            for entry in (new_entry(decision.state.subscription, each, now) for each in decision.notices)
        }
        new: list[Entry] = [entry for entry in wanted.values() if self.store.entry(entry.entry_id) is None]
        if decision.state != (state or LicenseState(decision.state.subscription)) or new:
            self.store.commit(Save(decision.state), *map(Save, new))
        return Taken(len(new), len(wanted) - len(new), (decision.outcome,))

    def _report(self, event: object, taken: Taken) -> None:
        outcomes = sorted({outcome.value for outcome in taken.outcomes})
        self.telemetry.info(
            "notification event taken in",
            event=type(event).__name__,
            outcomes=outcomes,
            queued=taken.queued,
            already_there=taken.already_there,
        )
        if taken.queued:
            self.telemetry.count(Metric.NOTIFICATIONS_QUEUED, taken.queued)
        for outcome in taken.outcomes:
            if outcome in (Applied.STALE, Applied.FOREIGN_REGION, Applied.NOT_REGISTERED):
                self.telemetry.count(Metric.NOTIFICATION_EVENTS_DROPPED, reason=outcome.value)


def _started(decision: Decision, at: datetime) -> Decision:
    begun = start(decision.state, at)
    return Decision(begun.state, (*decision.notices, *begun.notices), Applied.APPLIED)


def _knows_status(state: LicenseState) -> bool:
    return state.status_mark is not None or state.activation_id is not None


def _elsewhere(state: LicenseState) -> Applied:
    return Applied.NOT_REGISTERED if state.home_region is None else Applied.FOREIGN_REGION
