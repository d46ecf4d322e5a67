"""What this Region knows of a licence, and which notices an event about it leads to. Pure.

Events come more than once and in any order. For each *register* (status, auto-renewal, cancellation request,
billing status, billing hold) the mark of the last applied change is kept; a change with an older mark is
dropped. A change is one of the event's own old and new value, so an event that leaves a register alone
neither moves its mark nor is held back by it. State and entries are written in one transaction: what has
been applied has its entry.

``subscription_started`` has two conditions, of which either may come last: the licence is in force, and its
first contact is verified. It is decided whenever one of them, or the home Region, becomes known, and always
carries the event id of the activation. Of a licence that this Region first hears of when both were met long
ago, the start is taken for told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from awsmp.domain.notifications.billing_events import BillingEvent
from awsmp.domain.notifications.identities import Subscription
from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.outbox import Notice
from awsmp.domain.subscribers import SubscriberRow, SubscriptionStatus

_APPROVED: Final = "APPROVED"
_WITHDRAWN: Final = frozenset({"CANCELLED", "REJECTED", "VALIDATION_FAILED"})


class Applied(StrEnum):
    """What an event came to."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    STALE = "stale"
    FOREIGN_REGION = "foreign-region"
    NOT_REGISTERED = "not-registered"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """The place of a change in the order of events: its time in whole seconds, then the event's rank."""

    time: datetime
    rank: int = 0


@dataclass(frozen=True, slots=True)
class LicenseState:
    """One licence in this Region. A mark that is None means that nothing was applied to its register."""

    subscription: Subscription
    home_region: str | None = None
    product_code: str | None = None
    agreement_id: str | None = None
    is_active: bool = False
    activation_id: str | None = None
    activation_time: datetime | None = None
    started_id: str | None = None
    start_assumed: bool = False
    contact_verified: bool = False
    auto_renewal_off: bool = False
    approved_request: str | None = None
    status_mark: Mark | None = None
    auto_renewal_mark: Mark | None = None
    request_mark: Mark | None = None
    billing_mark: Mark | None = None
    hold_mark: Mark | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class RowChange:
    """A subscriber row before and after a write to it, as the table's stream tells; None is no row."""

    event_id: str
    event_time: datetime
    subscription: Subscription
    old: SubscriberRow | None
    new: SubscriberRow | None


@dataclass(frozen=True, slots=True)
class RequestDecision:
    """A cancellation request of an agreement has reached a status."""

    event_id: str
    event_time: datetime
    agreement_id: str
    request_id: str
    status_code: str


@dataclass(frozen=True, slots=True)
class ContactVerified:
    """A contact of the licence has a verified address, durably."""

    event_id: str
    event_time: datetime
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class Decision:
    """The state after an event, what it leads to, and what the event came to."""

    state: LicenseState
    notices: tuple[Notice, ...] = ()
    outcome: Applied = Applied.APPLIED


def apply_row_change(state: LicenseState | None, change: RowChange, region: str) -> Decision:
    """Return what a change of the subscriber row leads to, the start apart (see :func:`start`)."""
    known = state or LicenseState(change.subscription)
    new = change.new
    if new is None:
        return Decision(known, outcome=Applied.UNCHANGED)
    old = change.old or SubscriberRow(new.license_arn, new.customer_account)
    state = _identify(known, old, new)
    notices: list[Notice] = []
    stale = False
    for apply in (_status, _auto_renewal):
        decision = apply(state, old, new, change)
        state = decision.state
        notices += decision.notices
        stale = stale or decision.outcome is Applied.STALE
    if state.home_region is None:
        # Nobody has registered, so there is nobody to tell; the state is kept for the start.
        return Decision(state, outcome=Applied.NOT_REGISTERED)
    if state.home_region != region:
        return Decision(state, outcome=Applied.FOREIGN_REGION)
    if stale and not notices:
        return Decision(state, outcome=Applied.STALE)
    return Decision(state, tuple(notices), Applied.UNCHANGED if state == known else Applied.APPLIED)


def apply_contact_verified(state: LicenseState | None, event: ContactVerified, region: str) -> Decision:
    """Return what the verification leads to, the start apart: it is noted even before anything else is known.

    An activation that is being decided at the same time then finds its state changed, and looks again.
    """
    known = state or LicenseState(event.subscription)
    if known.home_region is not None and known.home_region != region:
        return Decision(known, outcome=Applied.FOREIGN_REGION)
    verified = replace(known, contact_verified=True)
    return Decision(verified, outcome=Applied.UNCHANGED if verified == known else Applied.APPLIED)


def awaits_start(state: LicenseState, region: str) -> bool:
    """Tell whether only a verified contact is missing for the notice of the start."""
    return (
        state.is_active
        and state.activation_id is not None
        and state.home_region == region
        and state.started_id is None
    )


def start(state: LicenseState, at: datetime) -> Decision:
    """Return the start told; ``at`` is when its last condition was met."""
    assert state.activation_id is not None
    assert state.activation_time is not None
    notice = Notice(Kind.SUBSCRIPTION_STARTED, state.activation_id, max(at, state.activation_time))
    return Decision(replace(state, started_id=state.activation_id, start_assumed=False), (notice,))


def was_started_before(state: LicenseState | None, change: RowChange) -> bool:
    """Tell whether this Region first hears of a licence that was in force and registered already."""
    old = change.old
    return (
        state is None
        and old is not None
        and old.subscription_status is SubscriptionStatus.ACTIVE
        and old.home_region is not None
    )


def assume_started(state: LicenseState) -> LicenseState:
    """Return the state with the start taken for told; an activation that is still under way tells it."""
    return replace(state, started_id=state.activation_id, start_assumed=True)


def apply_request(state: LicenseState, decision: RequestDecision) -> Decision:
    """Return what a cancellation request's status leads to.

    Approved means scheduled, and withdrawn after its approval means reversed, each unless switched-off
    auto-renewal has told the buyer already, or still ends the subscription.
    """
    mark = Mark(decision.event_time)
    if _is_older(mark, state.request_mark):
        return Decision(state, outcome=Applied.STALE)
    if decision.status_code == _APPROVED and state.approved_request != decision.request_id:
        approved = replace(state, approved_request=decision.request_id, request_mark=mark)
        kind = Kind.CANCELLATION_SCHEDULED
    elif decision.status_code in _WITHDRAWN and state.approved_request == decision.request_id:
        approved = replace(state, approved_request=None, request_mark=mark)
        kind = Kind.CANCELLATION_REVERSED
    else:
        return Decision(state, outcome=Applied.UNCHANGED)
    if state.auto_renewal_off or (kind is Kind.CANCELLATION_SCHEDULED and state.approved_request):
        return Decision(approved)
    return Decision(approved, (Notice(kind, decision.event_id, decision.event_time),))


def apply_billing(state: LicenseState, event: BillingEvent) -> Decision:
    """Return what an event of the seller's billing leads to: of status and of hold, each by its own mark."""
    mark = Mark(event.event_time)
    notices: list[Notice] = []
    stale = changed = False
    if event.previous != event.current:
        if _is_older(mark, state.billing_mark):
            stale = True
        else:
            changed = True
            state = replace(state, billing_mark=mark)
            notices += [Notice(kind, event.event_id, event.event_time) for kind in event.status_kinds]
    if event.previous_hold is not event.current_hold:
        if _is_older(mark, state.hold_mark):
            stale = True
        else:
            changed = True
            state = replace(state, hold_mark=mark)
            kind = event.hold_kind
            notices += [] if kind is None else [Notice(kind, event.event_id, event.event_time)]
    if changed:
        return Decision(state, tuple(notices))
    return Decision(state, outcome=Applied.STALE if stale else Applied.UNCHANGED)


def at_home(
    state: LicenseState | None, row: SubscriberRow | None, subscription: Subscription
) -> LicenseState:
    """Return the state with what the subscriber row tells of home Region, product and agreement."""
    known = state or LicenseState(subscription)
    if row is None:
        return known
    return replace(
        known,
        home_region=_home(known.home_region, row.home_region),
        product_code=row.product_code or known.product_code,
        agreement_id=row.agreement_id or known.agreement_id,
    )


def _identify(state: LicenseState, old: SubscriberRow, new: SubscriberRow) -> LicenseState:
    state = replace(
        state,
        home_region=_home(state.home_region, new.home_region),
        product_code=new.product_code or state.product_code,
    )
    if new.agreement_id is None or new.agreement_id == state.agreement_id:
        return state
    if state.agreement_id is not None and old.agreement_id == new.agreement_id:
        return state  # an image of before the renewal that is known already, or of after it: no change here
    # Another agreement: what was asked of the former does not end this one.
    return replace(state, agreement_id=new.agreement_id, approved_request=None)


def _home(left: str | None, right: str | None) -> str | None:
    """Of two home Regions the alphabetically first stands, as in the subscribers table's own rule."""
    return min((each for each in (left, right) if each is not None), default=None)


def _status(state: LicenseState, old: SubscriberRow, new: SubscriberRow, change: RowChange) -> Decision:
    stamp = new.subscription_stamp
    mark = Mark(change.event_time) if stamp is None else Mark(stamp.time, stamp.order[1])
    event_id = change.event_id if stamp is None else stamp.event_id
    is_active = new.subscription_status is SubscriptionStatus.ACTIVE
    if old.subscription_status is new.subscription_status:
        # A licence that is in force when it is first heard of: its activation may still be under way.
        if is_active and state.status_mark is None and state.activation_id is None:
            return Decision(replace(state, is_active=True, activation_id=event_id, activation_time=mark.time))
        return Decision(state, outcome=Applied.UNCHANGED)
    if _is_older(mark, state.status_mark):
        return Decision(state, outcome=Applied.STALE)
    if is_active:
        return Decision(_activated(replace(state, status_mark=mark), event_id, mark.time))
    ended = replace(
        state,
        is_active=False,
        activation_id=None,
        activation_time=None,
        started_id=None,
        start_assumed=False,
        status_mark=mark,
    )
    if new.subscription_status is SubscriptionStatus.DEPROVISIONING:
        return Decision(ended, (Notice(Kind.SUBSCRIPTION_CANCELED, event_id, mark.time),))
    return Decision(ended)


def _activated(state: LicenseState, event_id: str, time: datetime) -> LicenseState:
    if not state.is_active or state.activation_id is None:
        return replace(
            state,
            is_active=True,
            activation_id=event_id,
            activation_time=time,
            started_id=None,
            start_assumed=False,
        )
    # In force already: a later image came first, or this is a redelivery. The start was only assumed?
    # Then this is the event that tells it.
    return replace(state, started_id=None, start_assumed=False) if state.start_assumed else state


def _auto_renewal(state: LicenseState, old: SubscriberRow, new: SubscriberRow, change: RowChange) -> Decision:
    if old.auto_renewal is new.auto_renewal:
        return Decision(state, outcome=Applied.UNCHANGED)
    stamp = new.auto_renewal_stamp
    if new.auto_renewal is None or stamp is None:
        # A new agreement of which nothing is known yet: the former's switch does not hold for it.
        return Decision(replace(state, auto_renewal_off=False))
    mark = Mark(stamp.time, stamp.order[1])
    if _is_older(mark, state.auto_renewal_mark):
        return Decision(state, outcome=Applied.STALE)
    is_off = new.auto_renewal is False
    changed = replace(state, auto_renewal_off=is_off, auto_renewal_mark=mark)
    if is_off == (old.auto_renewal is False) or state.approved_request is not None:
        return Decision(changed)
    kind = Kind.CANCELLATION_SCHEDULED if is_off else Kind.CANCELLATION_REVERSED
    return Decision(changed, (Notice(kind, stamp.event_id, mark.time),))


def _is_older(mark: Mark, applied: Mark | None) -> bool:
    return applied is not None and mark < applied
