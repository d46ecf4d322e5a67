"""An administrator's requests and answers as JSON: ids, codes, counts and times, never an address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import format_instant
from awsmp.domain.notifications.audit import AuditEntry
from awsmp.domain.notifications.contacts import ContactReference, InvalidContact, is_contact_id
from awsmp.domain.notifications.feedback import Suppression
from awsmp.domain.notifications.identities import InvalidIdentity, subscription_of
from awsmp.domain.notifications.outbox import Delivery, Entry, PayloadInvalid, payload_of
from awsmp.domain.notifications.store import Queue
from awsmp.usecases.notifications.administer import (
    MAX_LISTED,
    Administration,
    NoActiveSuppression,
    NotRequeueable,
    UnknownClearingReason,
)

#: The queues of entries by the name that a request uses.
QUEUES: Final[Mapping[str, Queue]] = {
    "pending": Queue.PENDING,
    "processing": Queue.PROCESSING,
    "retryable": Queue.RETRYABLE,
    "failed": Queue.FAILED,
}

_DEFAULT_LIMIT: Final = 100
# Internal: the payload is told by its members, the version is nobody's concern.
_UNTOLD: Final = frozenset({"payload", "version"})

Request = Mapping[str, Any]


class InvalidRequest(MeteringError):
    """A request names no operation, or a member is missing or malformed; nothing was done."""


#: What a request is refused for; the answer says which, and nothing was changed.
_REFUSALS: Final = (
    InvalidRequest,
    InvalidContact,
    InvalidIdentity,
    NoActiveSuppression,
    NotRequeueable,
    UnknownClearingReason,
)


@dataclass(frozen=True, slots=True)
class AdminApi:
    """Answers one request after another; who may ask is for IAM to decide."""

    administration: Administration

    def answer(self, request: Request) -> dict[str, Any]:
        """Do what ``request`` asks and return the answer, or ``{"error", "message"}`` where it is refused.

        Raises
        ------
        StoreUnavailable, Misconfigured, PartialFailure
            The table failed or refused; what was done is durable, and the request can be made again.
        """
        operations: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "entries": self._entries,
            "deliveries": self._deliveries,
            "suppressions": self._suppressions,
            "audit": self._audit,
            "requeue": self._requeue,
            "clear-suppression": self._clear_suppression,
            "purge": self._purge,
            "verify-contact": self._verify_contact,
        }
        try:
            operation = operations.get(_text(request, "operation"))
            if operation is None:
                raise InvalidRequest(f"the operation is none of {', '.join(operations)}")
            return operation(request)
        except _REFUSALS as refusal:
            return {"error": type(refusal).__name__, "message": str(refusal)}

    def _entries(self, request: Request) -> dict[str, Any]:
        queue = QUEUES.get(_text(request, "queue"))
        if queue is None:
            raise InvalidRequest(f"the queue is none of {', '.join(QUEUES)}")
        return {"entries": [_entry(each) for each in self.administration.entries(queue, _limit(request))]}

    def _deliveries(self, request: Request) -> dict[str, Any]:
        return {"deliveries": _told(self.administration.deliveries(_text(request, "entryId")))}

    def _suppressions(self, request: Request) -> dict[str, Any]:
        if "recipientId" in request:
            return {"suppressions": _told(self.administration.suppressions_of(_text(request, "recipientId")))}
        return {"suppressions": _told(self.administration.suppressions(_limit(request)))}

    def _audit(self, request: Request) -> dict[str, Any]:
        try:
            day = date.fromisoformat(_text(request, "day"))
        except ValueError as error:
            raise InvalidRequest("the day is no YYYY-MM-DD") from error
        return {"audit": _told(self.administration.audit(day, _limit(request)))}

    def _requeue(self, request: Request) -> dict[str, Any]:
        return {"entry": _entry(self.administration.requeue(_text(request, "entryId")))}

    def _clear_suppression(self, request: Request) -> dict[str, Any]:
        cleared = self.administration.clear_suppression(
            _text(request, "recipientId"), _text(request, "addressDigest"), _text(request, "reason")
        )
        return {"suppression": _members(cleared)}

    def _purge(self, request: Request) -> dict[str, Any]:
        return {"purged": self.administration.purge(_limit(request, MAX_LISTED))}

    def _verify_contact(self, request: Request) -> dict[str, Any]:
        subscription = subscription_of(_text(request, "licenseArn"), _text(request, "customerAWSAccountId"))
        contact_id = _text(request, "contactId")
        if not is_contact_id(contact_id):
            raise InvalidRequest("the contactId is none")
        reference = ContactReference(subscription, contact_id)
        return {"entry": _entry(self.administration.verify_contact(reference))}


def _entry(entry: Entry) -> dict[str, Any]:
    """Return an entry's members with what its payload says, where that can be read."""
    try:
        payload = payload_of(entry)
    except PayloadInvalid:
        return {**_members(entry), "kind": None, "subscriptionId": None}
    return {**_members(entry), "kind": payload.kind.value, "subscriptionId": payload.subscription.id}


def _told(records: Sequence[Delivery] | Sequence[Suppression] | Sequence[AuditEntry]) -> list[dict[str, Any]]:
    return [_members(record) for record in records]


def _members(record: Entry | Delivery | Suppression | AuditEntry) -> dict[str, Any]:
    return {
        _name(each.name): _plain(getattr(record, each.name))
        for each in fields(record)
        if each.name not in _UNTOLD
    }


def _name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return format_instant(value)
        case StrEnum():
            return value.value
        case Mapping():
            return dict(value)
        case _:
            return value


def _text(request: Request, name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"{name} is no text")
    return value


def _limit(request: Request, default: int = _DEFAULT_LIMIT) -> int:
    value = request.get("limit", default)
    if type(value) is not int or not 1 <= value <= MAX_LISTED:
        raise InvalidRequest(f"limit is no whole number from 1 to {MAX_LISTED}")
    return value
