"""What reaches the tier's input queue: from a message's body to an event of the domain, and back.

Through the Region's event bus come changes of subscriber rows and cancellation requests (forwarded by the
events tier) and verified contacts (from the registration tier); the seller's billing events are put on the
queue as they are, or on the bus with the event as the detail. A detail's ``schema`` says what it is, and
``version`` which form it has: another version is refused, never guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import format_instant, parse_instant
from awsmp.domain.lifecycle_events import (
    CancellationRequest,
    Envelope,
    EventKind,
    MalformedEvent,
    Stamp,
    parse_event,
)
from awsmp.domain.notifications.billing_events import BillingEvent, billing_event_of, is_billing_event
from awsmp.domain.notifications.identities import InvalidIdentity, is_plain_id, subscription_of
from awsmp.domain.notifications.license_state import ContactVerified, RequestDecision, RowChange
from awsmp.domain.subscribers import SubscriberRow, SubscriptionStatus

ROW_CHANGE_SCHEMA: Final = "awsmp.subscriber-row-change"
CONTACT_VERIFIED_SCHEMA: Final = "awsmp.contact-verified"
VERSION: Final = 1

#: Source of the forwarded cancellation requests; their detail wraps the Marketplace's own envelope.
AGREEMENT_SOURCE: Final = "awsmp.agreement-marketplace"

IntakeEvent = RowChange | RequestDecision | ContactVerified | BillingEvent


class MalformedIntakeEvent(MeteringError):
    """A message that is none of the tier's events. The text names the member, never its value."""


def row_change_detail(
    event_id: str, event_time: datetime, old: SubscriberRow | None, new: SubscriberRow | None
) -> dict[str, Any] | None:
    """Return the detail that forwards a change of a row, None for a change that concerns no notice.

    ``event_id`` and ``event_time`` are the stream record's.
    """
    if (None if old is None else _row(old)) == (None if new is None else _row(new)):
        return None
    return {
        "schema": ROW_CHANGE_SCHEMA,
        "version": VERSION,
        "eventId": event_id,
        "eventTime": format_instant(event_time),
        "old": None if old is None else _row(old),
        "new": None if new is None else _row(new),
    }


def contact_verified_detail(event: ContactVerified) -> dict[str, Any]:
    """Return the detail that tells of a verified contact."""
    return {
        "schema": CONTACT_VERIFIED_SCHEMA,
        "version": VERSION,
        "eventId": event.event_id,
        "eventTime": format_instant(event.event_time),
        "licenseArn": event.subscription.license_arn,
        "customerAWSAccountId": event.subscription.customer_account,
    }


def parse_intake(body: str) -> IntakeEvent:
    """Return the event in a queue message's body.

    Raises
    ------
    MalformedIntakeEvent
        The body is none of the events, or lacks what its kind needs.
    MalformedBillingEvent, UnknownStatus, UnknownHold
        As ``billing_events.parse_billing_event``.
    """
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise MalformedIntakeEvent("the message body is not JSON") from None
    if not isinstance(parsed, dict):
        raise MalformedIntakeEvent("the message body is not a JSON object")
    if is_billing_event(parsed):
        return billing_event_of(parsed)
    detail = parsed.get("detail")
    if not isinstance(detail, dict):
        raise MalformedIntakeEvent("the message is neither a billing event nor an event with a detail")
    if is_billing_event(detail):
        return billing_event_of(detail)
    schema = detail.get("schema")
    try:
        if schema == ROW_CHANGE_SCHEMA:
            return _row_change(detail)
        if schema == CONTACT_VERIFIED_SCHEMA:
            return _contact_verified(detail)
        if schema is None and parsed.get("source") == AGREEMENT_SOURCE:
            return _request(detail)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Without its cause, which may quote what was sent, and the runtime logs what fails a whole batch.
        raise MalformedIntakeEvent(f"the event's detail cannot be read: {type(error).__name__}") from None
    except (InvalidIdentity, MalformedEvent) as error:
        raise MalformedIntakeEvent(str(error)) from None
    raise MalformedIntakeEvent("the event's detail has no schema that is known here")


def _row_change(detail: Mapping[str, Any]) -> RowChange:
    _require_version(detail)
    old = None if detail["old"] is None else _parse_row(detail["old"])
    new = None if detail["new"] is None else _parse_row(detail["new"])
    row = new or old
    if row is None:
        raise MalformedIntakeEvent("a change of a row has neither an old nor a new image")
    subscription = subscription_of(row.license_arn, row.customer_account)
    return RowChange(_event_id(detail), _time(detail["eventTime"]), subscription, old, new)


def _contact_verified(detail: Mapping[str, Any]) -> ContactVerified:
    _require_version(detail)
    subscription = subscription_of(detail["licenseArn"], detail["customerAWSAccountId"])
    return ContactVerified(_event_id(detail), _time(detail["eventTime"]), subscription)


def _request(detail: Mapping[str, Any]) -> RequestDecision:
    envelope = Envelope(
        event_id=_event_id(detail),
        detail_type=detail["detailType"],
        source=detail["source"],
        account=detail["account"],
        time=_time(detail["eventTime"]),
        detail=detail["detail"],
    )
    event = parse_event(envelope)
    if not isinstance(event, CancellationRequest):
        raise MalformedIntakeEvent("a forwarded Marketplace event is no cancellation request")
    return RequestDecision(
        event.event_id, envelope.time, event.agreement_id, event.request_id, event.status_code
    )


def _row(row: SubscriberRow) -> dict[str, Any]:
    return {
        "licenseArn": row.license_arn,
        "customerAWSAccountId": row.customer_account,
        "productCode": row.product_code,
        "agreementId": row.agreement_id,
        "subscriptionStatus": row.subscription_status and row.subscription_status.value,
        "subscriptionEvent": _stamp(row.subscription_stamp),
        "autoRenewal": row.auto_renewal,
        "autoRenewalEvent": _stamp(row.auto_renewal_stamp),
        "homeRegion": row.home_region,
    }


def _parse_row(row: Mapping[str, Any]) -> SubscriberRow:
    status, auto_renewal = row["subscriptionStatus"], row["autoRenewal"]
    if not isinstance(auto_renewal, bool | None):
        raise MalformedIntakeEvent("autoRenewal is not a boolean")
    return SubscriberRow(
        license_arn=_text(row["licenseArn"], "licenseArn"),
        customer_account=_text(row["customerAWSAccountId"], "customerAWSAccountId"),
        product_code=_optional(row["productCode"], "productCode"),
        agreement_id=_optional(row["agreementId"], "agreementId"),
        subscription_status=None if status is None else SubscriptionStatus(status),
        subscription_stamp=_parse_stamp(row["subscriptionEvent"]),
        auto_renewal=auto_renewal,
        auto_renewal_stamp=_parse_stamp(row["autoRenewalEvent"]),
        home_region=_optional(row["homeRegion"], "homeRegion"),
    )


def _stamp(stamp: Stamp | None) -> dict[str, str] | None:
    if stamp is None:
        return None
    return {"time": format_instant(stamp.time), "type": stamp.kind.value, "id": stamp.event_id}


def _parse_stamp(stamp: Mapping[str, Any] | None) -> Stamp | None:
    if stamp is None:
        return None
    return Stamp(_time(stamp["time"]), EventKind(stamp["type"]), _plain(stamp["id"], "an event's id"))


def _require_version(detail: Mapping[str, Any]) -> None:
    version = detail["version"]
    if isinstance(version, bool) or version != VERSION:
        raise MalformedIntakeEvent("the event's version is not known here")


def _event_id(detail: Mapping[str, Any]) -> str:
    return _plain(detail["eventId"], "eventId")


def _plain(value: object, name: str) -> str:
    text = _text(value, name)
    if not is_plain_id(text):
        raise MalformedIntakeEvent(f"{name} is not 1 to 128 letters, digits and ._:#/+=-")
    return text


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise MalformedIntakeEvent(f"{name} is not a text")
    return value


def _optional(value: object, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _time(value: object) -> datetime:
    return parse_instant(_text(value, "a time")).astimezone(UTC)
