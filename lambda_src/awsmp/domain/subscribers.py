"""The subscriber row and every transition of it: pure functions of the row and one event.

The row consists of *registers*, each with the stamp of the event that last set it. An event sets a
register only if its stamp is greater (:attr:`Stamp.order`), a set only grows, and the activation time only
falls. Therefore the row that a history leads to depends on the history's events alone, not on the order
in which they arrive nor on how often: redelivery and reordering need no special case.

Agreement events concern the row's *current* agreement, the one that the newest License Updated named. When
that changes (a renewal under another agreement id, same licence), what the former agreement said is
dropped; the caller then applies what is known of the new one. That is why the former agreement's late
Ended cannot deactivate its successor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import reduce
from typing import Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.license_arns import row_key, spellings
from awsmp.domain.lifecycle_events import (
    AgreementAmended,
    AgreementEnded,
    AgreementEvent,
    EventKind,
    LicenseDeprovisioned,
    LicenseEvent,
    LicenseUpdated,
    Stamp,
)

#: How long usage is taken after License Deprovisioned (EventBridge guide for SaaS products: one hour).
FINAL_USAGE_WINDOW: Final = timedelta(hours=1)


class SubscriptionStatus(StrEnum):
    """The licence's life. Absent on a row that only a registration has made."""

    ACTIVE = "active"
    DEPROVISIONING = "deprovisioning"
    INACTIVE = "inactive"


class AgreementStatus(StrEnum):
    """The agreement's life; it never decides about metering."""

    ACTIVE = "active"
    INACTIVE = "inactive"


class Outcome(StrEnum):
    """What an event did to a row."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    STALE = "stale"
    NO_ROW = "no-row"


class IncompleteEvent(MeteringError):
    """A licence event without its licence was given to a transition; the caller has to resolve it first."""


@dataclass(frozen=True, slots=True)
class SubscriberRow:
    """One licence of one buyer account, free of buyer form data. Times are UTC, whole seconds.

    ``version`` is the store's and no part of a row's value: it counts writes, for compare-and-set. 0 means
    that we have never written the row.
    """

    license_arn: str
    customer_account: str
    license_arn_spellings: frozenset[str] = frozenset()
    product_code: str | None = None
    agreement_id: str | None = None
    identity_stamp: Stamp | None = None
    subscription_status: SubscriptionStatus | None = None
    subscription_stamp: Stamp | None = None
    deprovisioning_expiry: datetime | None = None
    agreement_status: AgreementStatus | None = None
    agreement_status_reason: str | None = None
    agreement_stamp: Stamp | None = None
    end_time: datetime | None = None
    end_time_stamp: Stamp | None = None
    auto_renewal: bool | None = None
    auto_renewal_stamp: Stamp | None = None
    activation_time: datetime | None = None
    home_region: str | None = None
    registered_regions: frozenset[str] = frozenset()
    version: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Registration:
    """A buyer registered for a licence in a Region; the ids are those that ResolveCustomer returned."""

    license_arn: str
    customer_account: str
    product_code: str
    region: str


@dataclass(frozen=True, slots=True)
class Change:
    """The row after an event (None: there is still none) and what the event did.

    A stale event may still change the row: it can bring an earlier activation or another spelling.
    """

    row: SubscriberRow | None
    outcome: Outcome


def apply(row: SubscriberRow | None, event: LicenseEvent | AgreementEvent) -> Change:
    """Return what ``event`` makes of ``row``.

    License Updated makes the row when there is none, and so does License Deprovisioned: it may be the
    first to arrive. Agreement events name no licence and never make one.

    Raises
    ------
    IncompleteEvent
        A Deprovisioned without licence ARN or account; see ``lifecycle_events.at_license``.
    """
    if isinstance(event, LicenseUpdated | LicenseDeprovisioned):
        return _apply_license_event(row, event)
    if row is None:
        return Change(None, Outcome.NO_ROW)
    if row.agreement_id != event.agreement_id:
        return Change(row, Outcome.STALE)
    return _apply_agreement_event(row, event)


def apply_all(row: SubscriberRow | None, events: Iterable[AgreementEvent]) -> Change:
    """Return what several agreement events make of ``row``; the outcome is APPLIED if any was."""
    outcome = Outcome.DUPLICATE
    for event in events:
        change = apply(row, event)
        row = change.row
        if change.outcome is Outcome.APPLIED:
            outcome = Outcome.APPLIED
    return Change(row, outcome)


def register(row: SubscriberRow | None, registration: Registration) -> Change:
    """Return what a registration makes of ``row``.

    ``homeRegion`` is set by the first registration and never again, the Region joins
    ``registeredRegions``, and the product code is filled in if no event has brought it. Statuses and the
    agreement id come from events only: a row that a registration makes has neither, which means
    "registered, not known to be in force". Its License Updated finds it by the same key, whichever comes
    first. The statuses do not gate metering, so nothing is lost in between.
    """
    base = row or _new_row(registration.license_arn, registration.customer_account)
    registered = replace(
        base,
        license_arn_spellings=base.license_arn_spellings | spellings(registration.license_arn),
        product_code=base.product_code or registration.product_code,
        home_region=base.home_region or registration.region,
        registered_regions=base.registered_regions | {registration.region},
    )
    return Change(registered, Outcome.DUPLICATE if registered == row else Outcome.APPLIED)


def join(rows: Iterable[SubscriberRow]) -> SubscriberRow | None:
    """Return the one state that several rows of one licence and account add up to, None for no rows.

    Rows of one licence can stand under two keys when two sources disagreed about more than the spelling
    (the account segment). Each register takes its greatest stamp; the licence's key and the version are
    the first row's. Of two home Regions the alphabetically first is kept: nothing tells which was set first.
    """
    ordered = list(rows)
    return reduce(_join, ordered) if ordered else None


def _new_row(license_arn: str, customer_account: str) -> SubscriberRow:
    return SubscriberRow(license_arn=row_key(license_arn), customer_account=customer_account)


def _order(stamp: Stamp | None) -> tuple[str, int, str]:
    """A register that no event has set comes before every event."""
    return ("", -1, "") if stamp is None else stamp.order


def _identity_order(stamp: Stamp | None) -> tuple[bool, tuple[str, int, str]]:
    """License Updated decides which agreement is current; Deprovisioned only while there is none."""
    is_update = stamp is not None and stamp.kind is EventKind.LICENSE_UPDATED
    return (is_update, _order(stamp))


def _outcome(event: Stamp, register_stamp: Stamp | None) -> Outcome:
    if event == register_stamp:
        return Outcome.DUPLICATE
    return Outcome.APPLIED if event.order > _order(register_stamp) else Outcome.STALE


def _apply_license_event(row: SubscriberRow | None, event: LicenseEvent) -> Change:
    if event.license_arn is None or event.customer_account is None:
        raise IncompleteEvent(f"{event.stamp.kind} names no licence and has not been resolved to one")
    base = row or _new_row(event.license_arn, event.customer_account)
    outcome = _outcome(event.stamp, base.subscription_stamp)
    known = replace(base, license_arn_spellings=base.license_arn_spellings | spellings(event.license_arn))
    identified = _identify(known, event)
    if isinstance(event, LicenseUpdated):
        changed = _activate_agreement(_activate(identified, event.stamp), event)
    else:
        changed = _deprovision(identified, event.stamp)
    return Change(changed, outcome)


def _identify(row: SubscriberRow, event: LicenseEvent) -> SubscriberRow:
    if event.agreement_id is None:
        return replace(row, product_code=row.product_code or event.product_code)
    if _identity_order(event.stamp) <= _identity_order(row.identity_stamp):
        return row
    if event.agreement_id != row.agreement_id:
        row = replace(
            row,
            agreement_status=None,
            agreement_status_reason=None,
            agreement_stamp=None,
            end_time=None,
            end_time_stamp=None,
            auto_renewal=None,
            auto_renewal_stamp=None,
        )
    return replace(
        row,
        product_code=event.product_code or row.product_code,
        agreement_id=event.agreement_id,
        identity_stamp=event.stamp,
    )


def _activate(row: SubscriberRow, stamp: Stamp) -> SubscriberRow:
    first = stamp.time if row.activation_time is None else min(row.activation_time, stamp.time)
    row = replace(row, activation_time=first)
    if stamp.order <= _order(row.subscription_stamp):
        return row
    return replace(
        row,
        subscription_status=SubscriptionStatus.ACTIVE,
        subscription_stamp=stamp,
        deprovisioning_expiry=None,
    )


def _activate_agreement(row: SubscriberRow, event: LicenseUpdated) -> SubscriberRow:
    if event.agreement_id != row.agreement_id or event.stamp.order <= _order(row.agreement_stamp):
        return row
    return replace(
        row,
        agreement_status=AgreementStatus.ACTIVE,
        agreement_status_reason=None,
        agreement_stamp=event.stamp,
    )


def _deprovision(row: SubscriberRow, stamp: Stamp) -> SubscriberRow:
    if stamp.order <= _order(row.subscription_stamp):
        return row
    return replace(
        row,
        subscription_status=SubscriptionStatus.DEPROVISIONING,
        subscription_stamp=stamp,
        deprovisioning_expiry=stamp.time + FINAL_USAGE_WINDOW,
    )


def _apply_agreement_event(row: SubscriberRow, event: AgreementEvent) -> Change:
    outcome = _outcome(event.stamp, row.agreement_stamp)
    changed = row
    if outcome is Outcome.APPLIED:
        ended = isinstance(event, AgreementEnded)
        changed = replace(
            row,
            agreement_status=AgreementStatus.INACTIVE if ended else AgreementStatus.ACTIVE,
            agreement_status_reason=event.reason if isinstance(event, AgreementEnded) else None,
            agreement_stamp=event.stamp,
        )
    if isinstance(event, AgreementAmended):
        changed = _amend_terms(changed, event)
    return Change(changed, outcome)


def _amend_terms(row: SubscriberRow, event: AgreementAmended) -> SubscriberRow:
    if event.states_end_time and event.stamp.order > _order(row.end_time_stamp):
        row = replace(row, end_time=event.end_time, end_time_stamp=event.stamp)
    if event.auto_renewal is not None and event.stamp.order > _order(row.auto_renewal_stamp):
        row = replace(row, auto_renewal=event.auto_renewal, auto_renewal_stamp=event.stamp)
    return row


def _join(left: SubscriberRow, right: SubscriberRow) -> SubscriberRow:
    pair = (left, right)
    identity = max(pair, key=lambda row: (_identity_order(row.identity_stamp), row.agreement_id is not None))
    # A finalised row has the stamp of the Deprovisioned that it finalises, and comes after it.
    subscription = max(
        pair,
        key=lambda row: (
            _order(row.subscription_stamp),
            row.subscription_status is SubscriptionStatus.INACTIVE,
        ),
    )
    current = [row for row in pair if row.agreement_id == identity.agreement_id]
    agreement = max(current, key=lambda row: _order(row.agreement_stamp))
    end = max(current, key=lambda row: _order(row.end_time_stamp))
    renewal = max(current, key=lambda row: _order(row.auto_renewal_stamp))
    activations = [row.activation_time for row in pair if row.activation_time is not None]
    homes = [row.home_region for row in pair if row.home_region is not None]
    return replace(
        left,
        license_arn_spellings=left.license_arn_spellings | right.license_arn_spellings,
        product_code=identity.product_code or left.product_code or right.product_code,
        agreement_id=identity.agreement_id,
        identity_stamp=identity.identity_stamp,
        subscription_status=subscription.subscription_status,
        subscription_stamp=subscription.subscription_stamp,
        deprovisioning_expiry=subscription.deprovisioning_expiry,
        agreement_status=agreement.agreement_status,
        agreement_status_reason=agreement.agreement_status_reason,
        agreement_stamp=agreement.agreement_stamp,
        end_time=end.end_time,
        end_time_stamp=end.end_time_stamp,
        auto_renewal=renewal.auto_renewal,
        auto_renewal_stamp=renewal.auto_renewal_stamp,
        activation_time=min(activations, default=None),
        home_region=min(homes, default=None),
        registered_regions=left.registered_regions | right.registered_regions,
    )
