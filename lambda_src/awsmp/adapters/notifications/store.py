"""The notifications table in DynamoDB. Layout and meaning: ``awsmp.domain.notifications.store``.

Every write is a transaction with a client request token: one whose answer was lost is repeated with the same
token, and DynamoDB answers the repetition as it had answered the first (for ten minutes), whoever has
written since.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar, cast, get_args, get_type_hints

from botocore.exceptions import ClientError

from awsmp.adapters.client_errors import translated
from awsmp.adapters.dynamodb import DynamoDBClient, from_wire, pages, to_wire
from awsmp.domain.errors import ConditionFailed, MeteringError, StoreUnavailable
from awsmp.domain.hours import format_instant, parse_instant
from awsmp.domain.notifications.audit import AuditEntry
from awsmp.domain.notifications.feedback import StoredFeedback, Suppression
from awsmp.domain.notifications.identities import Subscription, parse_subscription
from awsmp.domain.notifications.license_state import LicenseState, Mark
from awsmp.domain.notifications.outbox import Delivery, Entry, EntryStatus, entry_of_delivery
from awsmp.domain.notifications.store import (
    MAX_WRITES,
    WORK_INDEX,
    Check,
    Link,
    Queue,
    Record,
    Remove,
    Write,
)
from awsmp.domain.ports import Clock

_TRIES: Final = 4
_FIRST_PAUSE: Final = 0.1

_R = TypeVar("_R", bound=Record)

_QUEUE_OF_STATUS: Final = {EntryStatus.PENDING: Queue.PENDING, EntryStatus.PROCESSING: Queue.PROCESSING}


class MalformedItem(MeteringError):
    """An item of the table holds what we never write; somebody has to look at it."""


class TransactionClient(DynamoDBClient, Protocol):
    """The calls of boto3's low-level DynamoDB client that this tier makes."""

    def transact_write_items(self, **kwargs: Any) -> dict[str, Any]:
        """Apply up to 100 writes, all or none."""
        ...


@dataclass(frozen=True, slots=True)
class DynamoDBNotificationStore:
    """Implements :class:`awsmp.domain.notifications.store.NotificationStore`."""

    client: TransactionClient
    table: str
    clock: Clock

    def license(self, subscription: Subscription) -> LicenseState | None:
        """See NotificationStore."""
        return self._read(LicenseState, f"license#{subscription.id}", "state")

    def entry(self, entry_id: str) -> Entry | None:
        """See NotificationStore."""
        return self._read(Entry, f"entry#{entry_id}", "entry")

    def deliveries(self, entry_id: str) -> list[Delivery]:
        """See NotificationStore."""
        return [
            _record(Delivery, item) for item in self._partition(f"entry#{entry_id}", "delivery#", limit=None)
        ]

    def delivery(self, delivery_id: str) -> Delivery | None:
        """See NotificationStore."""
        entry_id = entry_of_delivery(delivery_id)
        if entry_id is None:
            return None
        return self._read(Delivery, f"entry#{entry_id}", f"delivery#{delivery_id}")

    def linked(self, message_id: str) -> list[str]:
        """See NotificationStore."""
        items = self._partition(f"message#{message_id}", "delivery#", limit=None)
        return [item["sk"].removeprefix("delivery#") for item in items]

    def suppression(self, recipient_id: str, address_digest: str) -> Suppression | None:
        """See NotificationStore."""
        return self._read(Suppression, f"recipient#{recipient_id}", f"suppression#{address_digest}")

    def suppressions(self, recipient_id: str) -> list[Suppression]:
        """See NotificationStore."""
        items = self._partition(f"recipient#{recipient_id}", "suppression#", limit=None)
        return [_record(Suppression, item) for item in items]

    def feedback(self, key: str) -> StoredFeedback | None:
        """See NotificationStore."""
        return self._read(StoredFeedback, f"feedback#{key}", "feedback")

    def audit(self, day: date, limit: int) -> list[AuditEntry]:
        """See NotificationStore."""
        items = self._partition(f"audit#{day.isoformat()}", day.isoformat(), limit=limit)
        return [_record(AuditEntry, item) for item in items]

    def due_entries(self, queue: Queue, until: datetime, limit: int) -> list[str]:
        """See NotificationStore."""
        return [pk.removeprefix("entry#") for pk, _ in self._due(queue, until, limit)]

    def due_feedback(self, until: datetime, limit: int) -> list[str]:
        """See NotificationStore."""
        return [pk.removeprefix("feedback#") for pk, _ in self._due(Queue.FEEDBACK, until, limit)]

    def active_suppressions(self, limit: int) -> list[Suppression]:
        """See NotificationStore."""
        found = [
            self._read(Suppression, pk, sk) for pk, sk in self._due(Queue.SUPPRESSED, self.clock.now(), limit)
        ]
        return [each for each in found if each is not None and each.is_active]

    def commit(self, *writes: Write) -> None:
        """See NotificationStore."""
        assert 0 < len(writes) <= MAX_WRITES
        actions = [self._action(write) for write in writes]
        token = secrets.token_hex(16)
        for attempt in range(_TRIES):
            try:
                with translated("write notifications"), _cancellations():
                    self.client.transact_write_items(TransactItems=actions, ClientRequestToken=token)
            except StoreUnavailable:
                if attempt == _TRIES - 1:
                    raise
                self.clock.sleep(_FIRST_PAUSE * 2**attempt)
            else:
                return

    def _action(self, write: Write) -> dict[str, Any]:
        if isinstance(write, Link):
            keys = {"pk": f"message#{write.link.message_id}", "sk": f"delivery#{write.link.delivery_id}"}
            item = {**keys, "updatedAt": format_instant(self.clock.now())}
            return {"Put": {"TableName": self.table, "Item": to_wire(item)}}
        record = write.record
        pk, sk = key_of(record)
        condition: dict[str, Any] = {"TableName": self.table, "ExpressionAttributeNames": {}}
        if record.version:
            condition["ConditionExpression"] = "#version = :version"
            condition["ExpressionAttributeNames"] = {"#version": "version"}
            condition["ExpressionAttributeValues"] = to_wire({":version": record.version})
        else:
            condition["ConditionExpression"] = "attribute_not_exists(#pk)"
            condition["ExpressionAttributeNames"] = {"#pk": "pk"}
        match write:
            case Check():
                return {"ConditionCheck": {**condition, "Key": to_wire({"pk": pk, "sk": sk})}}
            case Remove():
                return {"Delete": {**condition, "Key": to_wire({"pk": pk, "sk": sk})}}
            case _:
                return {"Put": {**condition, "Item": to_wire(item_of(record, self.clock.now()))}}

    def _read(self, kind: type[_R], pk: str, sk: str) -> _R | None:
        with translated("read notifications"):
            answer = self.client.get_item(
                TableName=self.table, Key=to_wire({"pk": pk, "sk": sk}), ConsistentRead=True
            )
        return None if "Item" not in answer else _record(kind, from_wire(answer["Item"]))

    def _partition(self, pk: str, prefix: str, *, limit: int | None) -> Iterator[dict[str, Any]]:
        bound = {} if limit is None else {"Limit": limit}
        left = limit
        for page in pages(
            self.client,
            "query notifications",
            TableName=self.table,
            ConsistentRead=True,
            KeyConditionExpression="#pk = :pk AND begins_with(#sk, :prefix)",
            ExpressionAttributeNames={"#pk": "pk", "#sk": "sk"},
            ExpressionAttributeValues=to_wire({":pk": pk, ":prefix": prefix}),
            **bound,
        ):
            yield from map(from_wire, page["Items"][:left])
            if left is not None:
                left -= len(page["Items"])
                if left <= 0:
                    return

    def _due(self, queue: Queue, until: datetime, limit: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for page in pages(
            self.client,
            "query notifications by work",
            TableName=self.table,
            IndexName=WORK_INDEX,
            KeyConditionExpression="#queue = :queue AND #due <= :until",
            ExpressionAttributeNames={"#queue": "workQueue", "#due": "dueAt"},
            ExpressionAttributeValues=to_wire({":queue": queue.value, ":until": format_instant(until)}),
            Limit=limit,
        ):
            found += [(item["pk"], item["sk"]) for item in map(from_wire, page["Items"])]
            if len(found) >= limit:
                break
        return found[:limit]


def key_of(record: Record) -> tuple[str, str]:
    """Return the table's key of a record."""
    match record:
        case LicenseState():
            return f"license#{record.subscription.id}", "state"
        case Entry():
            return f"entry#{record.entry_id}", "entry"
        case Delivery():
            return f"entry#{record.entry_id}", f"delivery#{record.delivery_id}"
        case Suppression():
            return f"recipient#{record.recipient_id}", f"suppression#{record.address_digest}"
        case StoredFeedback():
            return f"feedback#{record.key}", "feedback"
        case AuditEntry():
            instant = format_instant(record.at)
            return f"audit#{instant[:10]}", f"{instant}#{record.action}#{record.subject}#{record.sequence}"


def queue_of(record: Record) -> tuple[Queue, datetime] | None:
    """Return where the index lists a record, and since when it is due there; None where it is not listed."""
    match record:
        case Entry(status=EntryStatus.PENDING | EntryStatus.PROCESSING):
            return _QUEUE_OF_STATUS[record.status], record.due_at
        case Entry(status=EntryStatus.FAILED):
            return (Queue.RETRYABLE if record.retryable else Queue.FAILED), record.due_at
        case StoredFeedback():
            return Queue.FEEDBACK, record.received_at
        case Suppression() if record.is_active:
            return Queue.SUPPRESSED, record.since
        case _:
            return None


def item_of(record: Record, now: datetime) -> dict[str, Any]:
    """Return the item of a record as it is written: one version on, with key and place in the index."""
    item: dict[str, Any] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if value is not None:
            item[_attribute(each.name)] = _encode(value)
    queue = queue_of(record)
    if queue is not None:
        item |= {"workQueue": queue[0].value, "dueAt": format_instant(queue[1])}
    else:
        item.pop("dueAt", None)
    pk, sk = key_of(record)
    return {**item, "pk": pk, "sk": sk, "version": record.version + 1, "updatedAt": format_instant(now)}


def _record(kind: type[_R], item: Mapping[str, Any]) -> _R:
    hints = _hints(kind)
    values: dict[str, Any] = {}
    try:
        for each in fields(kind):
            name = _attribute(each.name)
            if name in item:
                values[each.name] = _decode(hints[each.name], item[name])
        # The index's own attribute: an item that the index does not list has none, and needs none.
        if kind is Entry:
            values.setdefault("due_at", values.get("ended_at") or values["created_at"])
        return kind(**values)
    except (AttributeError, KeyError, TypeError, ValueError, MeteringError) as error:
        raise MalformedItem(f"a {kind.__name__} item cannot be read: {type(error).__name__}") from error


@dataclass(frozen=True, slots=True)
class _Cancellation:
    """Tells a transaction that met another state from one that merely has to be tried again."""

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise what the reasons of a cancelled transaction mean; any other error goes on."""
        if not isinstance(error, ClientError):
            return
        if error.response.get("Error", {}).get("Code") != "TransactionCanceledException":
            return
        codes = {reason.get("Code") for reason in error.response.get("CancellationReasons", ())}
        if "ConditionalCheckFailed" in codes:
            raise ConditionFailed("write notifications: a record has been changed meanwhile") from error
        named = ", ".join(sorted(code for code in codes if code and code != "None"))
        raise StoreUnavailable(f"write notifications was cancelled: {named or 'no reason'}") from error


def _cancellations() -> _Cancellation:
    return _Cancellation()


_CODECS: Final[Mapping[type, Any]] = {
    datetime: parse_instant,
    Subscription: parse_subscription,
    int: int,
    str: str,
    bool: bool,
    Mark: lambda mark: Mark(parse_instant(mark["time"]), int(mark["rank"])),
}

_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def _attribute(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def _encode(value: Any) -> Any:
    match value:
        case datetime():
            return format_instant(value)
        case StrEnum():
            return value.value
        case Subscription():
            return value.id
        case Mark():
            return {"time": format_instant(value.time), "rank": value.rank}
        case Mapping():
            return dict(value)
        case _:
            return value


def _decode(hint: Any, value: Any) -> Any:
    options = [each for each in get_args(hint) if each is not type(None)]
    if hasattr(hint, "__origin__"):
        return {str(name): int(number) for name, number in cast("Mapping[str, Any]", value).items()}
    plain = options[0] if options else hint
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        return plain(value)
    return _CODECS[plain](value)
