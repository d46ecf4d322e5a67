"""What a buyer is told about, and which changes of a subscription lead to it: pure tables.

Two independent registers lead to mail: the subscription (its status, and whether it is set to end) and the
billing hold. A change of both at once leads to a notice for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from awsmp.domain.errors import MeteringError


class Kind(StrEnum):
    """The notices there are; the value is stored, sent in a header and used in settings."""

    SUBSCRIPTION_STARTED = "subscription_started"
    PAYMENT_FAILED = "payment_failed"
    ACCESS_SUSPENDED = "access_suspended"
    PAYMENT_RECOVERED = "payment_recovered"
    CANCELLATION_SCHEDULED = "cancellation_scheduled"
    CANCELLATION_REVERSED = "cancellation_reversed"
    SUBSCRIPTION_CANCELED = "subscription_canceled"
    DISPUTE_OPEN = "dispute_open"
    DISPUTE_LOST = "dispute_lost"
    DISPUTE_RESOLVED = "dispute_resolved"
    REFUNDED = "refunded"


class ServiceKind(StrEnum):
    """What is sent besides the notices, to bring them about; no change of a subscription leads to it."""

    ADDRESS_VERIFICATION = "address_verification"


#: What a message, its header and its tag may be about.
MessageKind = Kind | ServiceKind


class UnknownHold(MeteringError):
    """A billing hold that is none of ours: the event cannot be understood and must not be dropped."""


class UnknownStatus(MeteringError):
    """A subscription status that is none of ours: the event cannot be understood and must not be dropped."""


class BillingStatus(StrEnum):
    """A subscription's status in the seller's own billing. Never heard of is None."""

    INCOMPLETE = "incomplete"
    INCOMPLETE_EXPIRED = "incomplete_expired"
    TRIALING = "trialing"
    ACTIVE = "active"
    PAST_DUE = "past_due"
    PAUSED = "paused"
    UNPAID = "unpaid"
    CANCELED = "canceled"


class BillingHold(StrEnum):
    """What a payment provider holds against a subscription."""

    NONE = "none"
    DISPUTE_OPEN = "dispute_open"
    DISPUTE_LOST = "dispute_lost"
    REFUNDED = "refunded"


@dataclass(frozen=True, slots=True)
class BillingState:
    """A subscription's status and whether it is set to end with its period."""

    status: BillingStatus | None = None
    set_to_end: bool = False


_IN_FORCE: Final = frozenset({BillingStatus.ACTIVE, BillingStatus.TRIALING})
_RECOVERABLE: Final = frozenset(
    {BillingStatus.PAST_DUE, BillingStatus.PAUSED, BillingStatus.UNPAID, BillingStatus.INCOMPLETE}
)
_SUSPENDED: Final = frozenset({BillingStatus.PAUSED, BillingStatus.UNPAID, BillingStatus.INCOMPLETE_EXPIRED})
_DISPUTED: Final = frozenset({BillingHold.DISPUTE_OPEN, BillingHold.DISPUTE_LOST})
_HOLD_KINDS: Final = {
    BillingHold.DISPUTE_OPEN: Kind.DISPUTE_OPEN,
    BillingHold.DISPUTE_LOST: Kind.DISPUTE_LOST,
    BillingHold.REFUNDED: Kind.REFUNDED,
}


def parse_status(text: str) -> BillingStatus:
    """Return the status that ``text`` names.

    Raises
    ------
    UnknownStatus
        It names none.
    """
    try:
        return BillingStatus(text)
    except ValueError:
        raise UnknownStatus("the subscription status is none of the known ones") from None


def parse_hold(text: str) -> BillingHold:
    """Return the billing hold that ``text`` names.

    Raises
    ------
    UnknownHold
        It names none.
    """
    try:
        return BillingHold(text)
    except ValueError:
        raise UnknownHold("the billing hold is none of the known ones") from None


def of_status(previous: BillingStatus | None, current: BillingStatus | None) -> Kind | None:
    """Return the notice that a change of status leads to, None for none."""
    if current is previous or current is None:
        return None
    if current in _IN_FORCE:
        if previous is None:
            return Kind.SUBSCRIPTION_STARTED
        return Kind.PAYMENT_RECOVERED if previous in _RECOVERABLE else None
    if current is BillingStatus.PAST_DUE:
        return Kind.PAYMENT_FAILED
    if current in _SUSPENDED:
        return Kind.ACCESS_SUSPENDED
    return Kind.SUBSCRIPTION_CANCELED if current is BillingStatus.CANCELED else None


def of_set_to_end(previous: bool, current: bool) -> Kind | None:
    """Return the notice that a change of the set-to-end flag leads to, None for no change."""
    if previous == current:
        return None
    return Kind.CANCELLATION_SCHEDULED if current else Kind.CANCELLATION_REVERSED


def of_subscription(previous: BillingState, current: BillingState) -> tuple[Kind, ...]:
    """Return the notices that a change of status and of the flag lead to, each independent of the other."""
    kinds = (
        of_status(previous.status, current.status),
        of_set_to_end(previous.set_to_end, current.set_to_end),
    )
    return tuple(kind for kind in kinds if kind is not None)


def of_hold(previous: BillingHold, current: BillingHold) -> Kind | None:
    """Return the notice that a change of the billing hold leads to, None for none."""
    if previous is current:
        return None
    if current is not BillingHold.NONE:
        return _HOLD_KINDS[current]
    return Kind.DISPUTE_RESOLVED if previous in _DISPUTED else None
