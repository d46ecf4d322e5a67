"""The seller's own billing events: the versioned contract, and which of our notices they lead to.

``docs/contracts/billing-event.v1.schema.json`` is the same contract as a JSON Schema. Members that the
contract does not have are refused: a misspelt one would lose a notice in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.identities import InvalidIdentity, Subscription, is_plain_id, subscription_of
from awsmp.domain.notifications.kinds import (
    BillingHold,
    BillingState,
    Kind,
    UnknownHold,
    UnknownStatus,
    of_hold,
    of_subscription,
    parse_hold,
    parse_status,
)

SCHEMA: Final = "awsmp.billing-event"
VERSION: Final = 1

#: Longest event, in bytes; a queue message may have more, but no event of ours needs it.
MAX_EVENT_BYTES: Final = 16 * 1024

# RFC 3339 with whole or fractional seconds, UTC.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)

_MEMBERS: Final = frozenset(
    {"schema", "version", "eventId", "eventTime", "subscription", "previous", "current"}
)
_SUBSCRIPTION_MEMBERS: Final = frozenset({"licenseArn", "customerAWSAccountId"})
_STATE_MEMBERS: Final = frozenset({"status", "setToEnd", "hold"})

#: What a seller's billing decides; the other notices follow from AWS Marketplace's own events, and a buyer
#: must not hear of one thing from both.
SELLER_KINDS: Final = frozenset(
    {
        Kind.PAYMENT_FAILED,
        Kind.ACCESS_SUSPENDED,
        Kind.PAYMENT_RECOVERED,
        Kind.DISPUTE_OPEN,
        Kind.DISPUTE_LOST,
        Kind.DISPUTE_RESOLVED,
        Kind.REFUNDED,
    }
)


class MalformedBillingEvent(MeteringError):
    """An event that is not what the contract says. The text names the member, never its value."""


@dataclass(frozen=True, slots=True)
class BillingEvent:
    """A change of one subscription in the seller's billing. ``event_time`` is UTC, whole seconds."""

    event_id: str
    event_time: datetime
    subscription: Subscription
    previous: BillingState
    current: BillingState
    previous_hold: BillingHold
    current_hold: BillingHold

    @property
    def status_kinds(self) -> tuple[Kind, ...]:
        """The notices that the change of the subscription leads to, of those that a seller decides."""
        return tuple(kind for kind in of_subscription(self.previous, self.current) if kind in SELLER_KINDS)

    @property
    def hold_kind(self) -> Kind | None:
        """The notice that the change of the billing hold leads to."""
        return of_hold(self.previous_hold, self.current_hold)


def is_billing_event(parsed: Mapping[str, Any]) -> bool:
    """Tell whether a JSON object claims to be a billing event, of whatever version."""
    return parsed.get("schema") == SCHEMA


def parse_billing_event(body: str | bytes) -> BillingEvent:
    """Return the event in a JSON text.

    Raises
    ------
    MalformedBillingEvent
        The text is no event of version 1.
    UnknownStatus, UnknownHold
        A status or a hold is none of the contract's.
    """
    raw = body.encode() if isinstance(body, str) else body
    if len(raw) > MAX_EVENT_BYTES:
        raise MalformedBillingEvent("the event is longer than 16 KiB")
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        raise MalformedBillingEvent("the event is not JSON") from None
    if not isinstance(parsed, dict):
        raise MalformedBillingEvent("the event is not a JSON object")
    return billing_event_of(parsed)


def billing_event_of(parsed: Mapping[str, Any]) -> BillingEvent:
    """Return the event that a JSON object stands for; raises as :func:`parse_billing_event`."""
    version = parsed.get("version")
    if parsed.get("schema") != SCHEMA or isinstance(version, bool) or version != VERSION:
        raise MalformedBillingEvent("the event is not of schema awsmp.billing-event, version 1")
    _exactly(parsed, _MEMBERS, "the event")
    event_id = _text(parsed, "eventId")
    if not is_plain_id(event_id):
        raise MalformedBillingEvent("eventId is not 1 to 128 letters, digits and ._:#/+=-")
    names = _object(parsed, "subscription", _SUBSCRIPTION_MEMBERS)
    try:
        subscription = subscription_of(_text(names, "licenseArn"), _text(names, "customerAWSAccountId"))
    except InvalidIdentity:
        raise MalformedBillingEvent("subscription names no licence of an account") from None
    previous, previous_hold = _state(parsed, "previous")
    current, current_hold = _state(parsed, "current")
    return BillingEvent(
        event_id=event_id,
        event_time=_time(_text(parsed, "eventTime")),
        subscription=subscription,
        previous=previous,
        current=current,
        previous_hold=previous_hold,
        current_hold=current_hold,
    )


def _state(parsed: Mapping[str, Any], name: str) -> tuple[BillingState, BillingHold]:
    state = _object(parsed, name, _STATE_MEMBERS)
    set_to_end = state["setToEnd"]
    if not isinstance(set_to_end, bool):
        raise MalformedBillingEvent(f"{name}.setToEnd is not a boolean")
    status = None if state["status"] is None else parse_status(_text(state, "status"))
    return BillingState(status, set_to_end), parse_hold(_text(state, "hold"))


def _object(parsed: Mapping[str, Any], name: str, members: frozenset[str]) -> Mapping[str, Any]:
    value = parsed[name]
    if not isinstance(value, dict):
        raise MalformedBillingEvent(f"{name} is not an object")
    _exactly(value, members, name)
    return value


def _exactly(value: Mapping[str, Any], members: frozenset[str], what: str) -> None:
    if value.keys() != members:
        missing = ", ".join(sorted(members - value.keys())) or "nothing"
        raise MalformedBillingEvent(
            f"{what} lacks {missing} and has {len(value.keys() - members)} members too many"
        )


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value[name]
    if not isinstance(text, str):
        raise MalformedBillingEvent(f"{name} is not a text")
    return text


def _time(text: str) -> datetime:
    if _TIME.fullmatch(text) is None:
        raise MalformedBillingEvent("eventTime is not YYYY-MM-DDTHH:MM:SSZ")
    try:
        return datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    except ValueError:
        # Without its cause, which may quote what was sent, and the runtime logs what fails a whole batch.
        raise MalformedBillingEvent("eventTime is no time") from None


__all__ = [
    "MAX_EVENT_BYTES",
    "SCHEMA",
    "SELLER_KINDS",
    "VERSION",
    "BillingEvent",
    "MalformedBillingEvent",
    "UnknownHold",
    "UnknownStatus",
    "billing_event_of",
    "is_billing_event",
    "parse_billing_event",
]
