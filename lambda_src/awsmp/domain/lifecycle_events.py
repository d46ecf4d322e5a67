"""The Marketplace's lifecycle events: from an EventBridge envelope to what happened, to what, and when.

State is read from the detail type alone (two licence events differ in nothing else) and order from the
envelope's ``time`` alone. Field paths: seller guide, "Amazon EventBridge events".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import format_instant
from awsmp.domain.identifiers import is_customer_account
from awsmp.domain.license_arns import license_id

CANCELLATION_REQUEST_PREFIX: Final = "Agreement Cancellation Request"

# A detail type is a name and, behind this, the role that receives it (Manufacturer, Proposer, ...).
_ROLE_SEPARATOR: Final = " - "


class MalformedEvent(MeteringError):
    """A message that is no lifecycle event, or one that lacks what its handling needs."""


class EventKind(StrEnum):
    """The detail types that change a subscriber row, without their role suffix."""

    LICENSE_UPDATED = "License Updated"
    AGREEMENT_AMENDED = "Purchase Agreement Amended"
    AGREEMENT_ENDED = "Purchase Agreement Ended"
    LICENSE_DEPROVISIONED = "License Deprovisioned"


# Of two events of one second, the one that ends something wins: it is never undone by an event that may
# have come before it, and a genuine revival brings a later event of its own.
_RANK: Final = {kind: rank for rank, kind in enumerate(EventKind)}


@dataclass(frozen=True, slots=True)
class Stamp:
    """Names one event and its place in the total order of events.

    Whole seconds, as stored. The id breaks the ties that time and kind leave, arbitrarily but the same
    way everywhere, so that events of one second lead to one state in whatever order they arrive.
    """

    time: datetime
    kind: EventKind
    event_id: str

    @property
    def order(self) -> tuple[str, int, str]:
        """What two stamps are compared by."""
        return (format_instant(self.time), _RANK[self.kind], self.event_id)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every EventBridge event carries around its detail."""

    event_id: str
    detail_type: str
    source: str
    account: str
    time: datetime
    detail: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The detail type without the role suffix."""
        return self.detail_type.split(_ROLE_SEPARATOR, 1)[0].strip()

    @property
    def is_cancellation_request(self) -> bool:
        """Whether this is one of the cancellation-request events."""
        return self.name.startswith(CANCELLATION_REQUEST_PREFIX)


@dataclass(frozen=True, slots=True)
class LicenseUpdated:
    """The licence is in force."""

    stamp: Stamp
    license_arn: str
    customer_account: str
    product_code: str
    agreement_id: str


@dataclass(frozen=True, slots=True)
class LicenseDeprovisioned:
    """The licence's last hour for usage has begun. What the event left out is None."""

    stamp: Stamp
    license_arn: str | None
    customer_account: str | None
    product_code: str | None
    agreement_id: str | None

    @property
    def is_complete(self) -> bool:
        """Whether the event alone can make a row; otherwise an existing row has to be found."""
        return None not in (self.license_arn, self.customer_account, self.product_code)


@dataclass(frozen=True, slots=True)
class AgreementEnded:
    """The agreement is over; ``reason`` is its status (CANCELLED, RENEWED, ...). The licence may live on."""

    stamp: Stamp
    agreement_id: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class AgreementAmended:
    """The agreement's terms changed.

    ``end_time`` counts only when ``states_end_time``: a null in the event says that there is no end, a
    missing field says nothing. ``auto_renewal`` None says nothing.
    """

    stamp: Stamp
    agreement_id: str
    states_end_time: bool
    end_time: datetime | None
    auto_renewal: bool | None


@dataclass(frozen=True, slots=True)
class CancellationRequest:
    """A request to cancel an agreement was made, decided or withdrawn."""

    event_id: str
    agreement_id: str
    request_id: str
    status_code: str


@dataclass(frozen=True, slots=True)
class OtherEvent:
    """An event that nothing here acts upon."""

    name: str


LicenseEvent = LicenseUpdated | LicenseDeprovisioned
AgreementEvent = AgreementEnded | AgreementAmended
LifecycleEvent = LicenseEvent | AgreementEvent | CancellationRequest | OtherEvent


def parse_envelope(body: str) -> Envelope:
    """Return the EventBridge envelope that a queue message's body holds.

    Raises
    ------
    MalformedEvent
        The body is no JSON object, or a field of the envelope is missing or of another type.
    """
    try:
        parsed = json.loads(body)
    except ValueError as error:
        raise MalformedEvent("the message body is not JSON") from error
    if not isinstance(parsed, dict):
        raise MalformedEvent("the message body is not a JSON object")
    fields = _Fields(parsed, "the envelope")
    detail = parsed.get("detail")
    if not isinstance(detail, dict):
        raise MalformedEvent("the envelope has no detail object")
    return Envelope(
        event_id=fields.required("id"),
        detail_type=fields.required("detail-type"),
        source=fields.required("source"),
        account=fields.required("account"),
        time=_instant(fields.required("time"), "time"),
        detail=detail,
    )


def parse_event(envelope: Envelope) -> LifecycleEvent:
    """Return what ``envelope`` says has happened.

    Raises
    ------
    MalformedEvent
        A field that this detail type needs is missing or of another type.
    InvalidLicenseArn
        The event carries a licence ARN that cannot be repaired.
    """
    fields = _Fields(envelope.detail, envelope.name)
    if envelope.is_cancellation_request:
        return CancellationRequest(
            event_id=envelope.event_id,
            agreement_id=fields.required("agreement", "id"),
            request_id=fields.required("agreementCancellationRequest", "id"),
            status_code=fields.required("agreementCancellationRequest", "statusCode"),
        )
    try:
        kind = EventKind(envelope.name)
    except ValueError:
        return OtherEvent(envelope.name)
    return _PARSERS[kind](Stamp(envelope.time, kind, envelope.event_id), fields)


class _Fields:
    """Typed look-ups of nested fields; messages name the path, never the value."""

    def __init__(self, root: Mapping[str, Any], what: str) -> None:
        self._root = root
        self._what = what

    def find(self, *path: str) -> tuple[bool, Any]:
        """Return whether the field is there at all, and its value."""
        node: Any = self._root
        for name in path:
            if not isinstance(node, Mapping) or name not in node:
                return False, None
            node = node[name]
        return True, node

    def optional(self, *path: str) -> str | None:
        _, value = self.find(*path)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise MalformedEvent(f"{self._what}: {'.'.join(path)} is not a text")
        return value.strip()

    def required(self, *path: str) -> str:
        value = self.optional(*path)
        if value is None:
            raise MalformedEvent(f"{self._what}: {'.'.join(path)} is missing")
        return value

    def account(self) -> str | None:
        value = self.optional("acceptor", "accountId")
        if value is not None and not is_customer_account(value):
            raise MalformedEvent(f"{self._what}: acceptor.accountId is not an account id")
        return value

    def license_arn(self) -> str | None:
        value = self.optional("license", "arn")
        if value is not None:
            license_id(value)
        return value


def _license_updated(stamp: Stamp, fields: _Fields) -> LicenseUpdated:
    license_arn, account = fields.license_arn(), fields.account()
    if license_arn is None or account is None:
        raise MalformedEvent(f"{stamp.kind}: license.arn or acceptor.accountId is missing")
    return LicenseUpdated(
        stamp=stamp,
        license_arn=license_arn,
        customer_account=account,
        product_code=fields.required("product", "code"),
        agreement_id=fields.required("agreement", "id"),
    )


def _license_deprovisioned(stamp: Stamp, fields: _Fields) -> LicenseDeprovisioned:
    event = LicenseDeprovisioned(
        stamp=stamp,
        license_arn=fields.license_arn(),
        customer_account=fields.account(),
        product_code=fields.optional("product", "code"),
        agreement_id=fields.optional("agreement", "id"),
    )
    if event.agreement_id is None and None in (event.license_arn, event.customer_account):
        raise MalformedEvent(f"{stamp.kind}: neither a licence and its account nor an agreement is named")
    return event


def _agreement_ended(stamp: Stamp, fields: _Fields) -> AgreementEnded:
    return AgreementEnded(
        stamp=stamp,
        agreement_id=fields.required("agreement", "id"),
        reason=fields.optional("agreement", "status"),
    )


def _agreement_amended(stamp: Stamp, fields: _Fields) -> AgreementAmended:
    states_end_time, _ = fields.find("agreement", "endTime")
    end_time = fields.optional("agreement", "endTime")
    _, auto_renewal = fields.find("agreement", "autoRenewalEnabled")
    if auto_renewal is not None and not isinstance(auto_renewal, bool):
        raise MalformedEvent(f"{stamp.kind}: agreement.autoRenewalEnabled is not a boolean")
    return AgreementAmended(
        stamp=stamp,
        agreement_id=fields.required("agreement", "id"),
        states_end_time=states_end_time,
        end_time=None if end_time is None else _instant(end_time, "agreement.endTime"),
        auto_renewal=auto_renewal,
    )


_PARSERS: Final[Mapping[EventKind, Callable[[Stamp, _Fields], LifecycleEvent]]] = {
    EventKind.LICENSE_UPDATED: _license_updated,
    EventKind.LICENSE_DEPROVISIONED: _license_deprovisioned,
    EventKind.AGREEMENT_ENDED: _agreement_ended,
    EventKind.AGREEMENT_AMENDED: _agreement_amended,
}


def _instant(text: str, path: str) -> datetime:
    """Return the instant in whole seconds, UTC, the grain in which times are stored and compared."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedEvent(f"{path} is not an ISO-8601 time") from error
    if instant.tzinfo is None:
        raise MalformedEvent(f"{path} names no time zone")
    return instant.astimezone(UTC).replace(microsecond=0)


def at_license(event: LicenseDeprovisioned, license_arn: str, customer_account: str) -> LicenseDeprovisioned:
    """Return ``event`` with the licence that it was resolved to."""
    return replace(event, license_arn=license_arn, customer_account=customer_account)
