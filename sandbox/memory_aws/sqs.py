"""SQS standard queues in memory, behind the method surface of ``boto3.client("sqs")``.

Also a simulated event source mapping: :class:`EventSource` turns messages into the event that Lambda passes
to a function, and afterwards deletes all but the failed ones.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from awsmp.domain.ports import Clock

from .client import AfterCall, BeforeCall, EntryFault, MemoryClient, Meter
from .rejection import Rejection

# Both for one message and for the sum over a batch (SendMessageBatch in the SQS API reference).
MAX_MESSAGE_BYTES = 1_048_576
MAX_BATCH_ENTRIES = 10
MAX_RECEIVE_MESSAGES = 10
MAX_VISIBILITY_SECONDS = 43_200
MAX_DELAY_SECONDS = 900
MAX_RETENTION_SECONDS = 1_209_600

_DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": str(MAX_MESSAGE_BYTES),
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
}
_SETTABLE = frozenset({*_DEFAULTS, "KmsMasterKeyId", "Policy", "RedrivePolicy", "SqsManagedSseEnabled"})
_RANGES = {
    "DelaySeconds": (0, MAX_DELAY_SECONDS),
    "MaximumMessageSize": (1024, MAX_MESSAGE_BYTES),
    "MessageRetentionPeriod": (60, MAX_RETENTION_SECONDS),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, MAX_VISIBILITY_SECONDS),
}
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
_FORBIDDEN_CHARACTERS = re.compile("[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTRY_MEMBERS = frozenset({"Id", "MessageBody", "DelaySeconds", "MessageAttributes"})
# Codes as a boto3 client shows them: SQS still reports the names of its older query protocol.
_QUERY_CODES = {
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "EmptyBatchRequest": "AWS.SimpleQueueService.EmptyBatchRequest",
    "TooManyEntriesInBatchRequest": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
    "BatchEntryIdsNotDistinct": "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
    "BatchRequestTooLong": "AWS.SimpleQueueService.BatchRequestTooLong",
    "InvalidBatchEntryId": "AWS.SimpleQueueService.InvalidBatchEntryId",
    "QueueNameExists": "QueueAlreadyExists",
    "MessageNotInflight": "AWS.SimpleQueueService.MessageNotInflight",
}


def _refused(name: str, message: str) -> Rejection:
    """Return the answer for the modeled exception ``name``."""
    code = _QUERY_CODES.get(name, name)
    return Rejection(code, message, {} if code == name else {"QueryErrorCode": name})


@dataclass(slots=True)
class Message:
    """A message in a queue; ``visible_at`` is when it can be received (again)."""

    message_id: str
    body: str
    sent_at: datetime
    visible_at: datetime
    attributes: Mapping[str, Any] = field(default_factory=dict)
    receive_count: int = 0
    first_received_at: datetime | None = None
    receipt_handle: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """How badly a standard queue behaves: chances between 0 and 1, drawn per message from the queue's seed.

    ``duplicate`` keeps a received message visible, so that it is delivered again; ``delay`` adds up to
    ``delay_seconds`` before a message can first be received; ``reorder`` shuffles what one receive may take.
    """

    duplicate: float = 0.0
    delay: float = 0.0
    delay_seconds: float = 0.0
    reorder: bool = False


class Queue:
    """One standard queue."""

    def __init__(
        self, name: str, url: str, arn: str, attributes: Mapping[str, str], created: datetime
    ) -> None:
        self.name = name
        self.url = url
        self.arn = arn
        self.attributes = {**_DEFAULTS, **attributes}
        self.created = created
        self.messages: dict[str, Message] = {}

    def seconds(self, attribute: str) -> timedelta:
        """Return one of the queue's time settings."""
        return timedelta(seconds=int(self.attributes[attribute]))

    @property
    def redrive(self) -> tuple[str, int] | None:
        """Return the dead-letter queue's ARN and the receives that lead there; None without a policy."""
        policy = self.attributes.get("RedrivePolicy")
        if not policy:
            return None
        parsed = json.loads(policy)
        return parsed["deadLetterTargetArn"], int(parsed["maxReceiveCount"])


class MemorySQS:
    """The queues of one account and Region, shared by any number of clients."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        delivery: Delivery | None = None,
        region: str = "us-east-1",
        account_id: str = "123456789012",
    ) -> None:
        """Begin without queues; ``delivery`` may be exchanged at any time."""
        self.clock = clock
        self.delivery = delivery or Delivery()
        self.region = region
        self.account_id = account_id
        self.lock = threading.RLock()
        self.queues: dict[str, Queue] = {}
        self.generator = random.Random(seed)
        self._numbers = 0

    def client(
        self,
        *,
        before_call: BeforeCall | None = None,
        after_call: AfterCall | None = None,
        entry_fault: EntryFault | None = None,
        meter: Meter | None = None,
        strict_parameters: bool = False,
    ) -> SQSClient:
        """Return a client with its own hooks."""
        return SQSClient(
            self,
            before_call=before_call,
            after_call=after_call,
            entry_fault=entry_fault,
            meter=meter,
            strict_parameters=strict_parameters,
        )

    def next_id(self) -> str:
        """Return a fresh identifier in the form of a UUID."""
        self._numbers += 1
        digest = hashlib.sha256(f"{self.account_id}/{self.region}/{self._numbers}".encode()).hexdigest()
        return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"

    def queue(self, url: str) -> Queue:
        """Return the queue at ``url``; raises Rejection (QueueDoesNotExist)."""
        queue = self.queues.get(url.rsplit("/", 1)[-1])
        if queue is None or queue.url != url:
            raise _refused("QueueDoesNotExist", "The specified queue does not exist.")
        return queue

    def bodies(self, queue_name: str) -> list[str]:
        """Return the bodies of all messages that are in a queue, visible or not, for tests to judge by."""
        with self.lock:
            return [message.body for message in self.queues[queue_name].messages.values()]

    def add(self, queue: Queue, body: str, attributes: Mapping[str, Any], delay: timedelta) -> Message:
        """Store a message that was checked before."""
        now = self.clock.now()
        if self.delivery.delay and self.generator.random() < self.delivery.delay:
            delay += timedelta(seconds=self.generator.uniform(0, self.delivery.delay_seconds))
        message = Message(self.next_id(), body, now, now + delay, attributes)
        queue.messages[message.message_id] = message
        return message

    def take(self, queue: Queue, count: int, visibility: timedelta) -> list[Message]:
        """Receive up to ``count`` messages, moving to the dead-letter queue what was received too often."""
        now = self.clock.now()
        self._drop_old(queue, now)
        visible = [message for message in queue.messages.values() if message.visible_at <= now]
        if self.delivery.reorder:
            self.generator.shuffle(visible)
        else:
            visible.sort(key=lambda message: message.visible_at)
        taken: list[Message] = []
        for message in visible:
            if len(taken) == count:
                break
            if queue.redrive is not None and message.receive_count >= queue.redrive[1]:
                self._redrive(queue, message, now)
                continue
            message.receive_count += 1
            message.first_received_at = message.first_received_at or now
            message.receipt_handle = f"{message.message_id}#{message.receive_count}"
            duplicate = self.delivery.duplicate and self.generator.random() < self.delivery.duplicate
            message.visible_at = now if duplicate else now + visibility
            taken.append(message)
        return taken

    def _drop_old(self, queue: Queue, now: datetime) -> None:
        oldest = now - queue.seconds("MessageRetentionPeriod")
        for message_id in [key for key, message in queue.messages.items() if message.sent_at < oldest]:
            del queue.messages[message_id]

    def _redrive(self, queue: Queue, message: Message, now: datetime) -> None:
        assert queue.redrive is not None
        target = next((other for other in self.queues.values() if other.arn == queue.redrive[0]), None)
        if target is None:
            raise _refused("InvalidParameterValue", "The dead-letter queue does not exist.")
        del queue.messages[message.message_id]
        # The time of sending is kept: retention in the dead-letter queue counts from it.
        message.visible_at = now
        message.receipt_handle = None
        target.messages[message.message_id] = message


class SQSClient(MemoryClient):
    """The low-level client. Each method takes and returns what boto3's does; see the AWS API reference."""

    service = "sqs"
    supported: ClassVar[Mapping[str, frozenset[str]]] = {
        "ChangeMessageVisibility": frozenset({"QueueUrl", "ReceiptHandle", "VisibilityTimeout"}),
        "CreateQueue": frozenset({"QueueName", "Attributes", "tags"}),
        "DeleteMessage": frozenset({"QueueUrl", "ReceiptHandle"}),
        "DeleteMessageBatch": frozenset({"QueueUrl", "Entries"}),
        "GetQueueAttributes": frozenset({"QueueUrl", "AttributeNames"}),
        "GetQueueUrl": frozenset({"QueueName"}),
        "ReceiveMessage": frozenset(
            {
                "QueueUrl",
                "AttributeNames",
                "MaxNumberOfMessages",
                "MessageAttributeNames",
                "MessageSystemAttributeNames",
                "VisibilityTimeout",
                "WaitTimeSeconds",
            }
        ),
        "SendMessage": frozenset({"QueueUrl", "MessageBody", "DelaySeconds", "MessageAttributes"}),
        "SendMessageBatch": frozenset({"QueueUrl", "Entries"}),
    }

    def __init__(
        self,
        backend: MemorySQS,
        *,
        before_call: BeforeCall | None = None,
        after_call: AfterCall | None = None,
        entry_fault: EntryFault | None = None,
        meter: Meter | None = None,
        strict_parameters: bool = False,
    ) -> None:
        """Create a client of ``backend``."""
        super().__init__(
            backend.lock,
            before_call=before_call,
            after_call=after_call,
            entry_fault=entry_fault,
            meter=meter,
            strict_parameters=strict_parameters,
        )
        self.backend = backend

    def create_queue(self, **kwargs: Any) -> dict[str, Any]:
        """Create a standard queue, or return the one of the same name and settings."""
        return self._call("CreateQueue", kwargs, self._create_queue)

    def get_queue_url(self, **kwargs: Any) -> dict[str, Any]:
        """Return a queue's URL by its name."""
        return self._call("GetQueueUrl", kwargs, self._get_queue_url)

    def get_queue_attributes(self, **kwargs: Any) -> dict[str, Any]:
        """Return settings and message counts."""
        return self._call("GetQueueAttributes", kwargs, self._get_queue_attributes)

    def send_message(self, **kwargs: Any) -> dict[str, Any]:
        """Send one message."""
        return self._call("SendMessage", kwargs, self._send_message)

    def send_message_batch(self, **kwargs: Any) -> dict[str, Any]:
        """Send up to ten messages, each with its own outcome."""
        return self._call("SendMessageBatch", kwargs, self._send_message_batch)

    def receive_message(self, **kwargs: Any) -> dict[str, Any]:
        """Receive up to ten visible messages; returns at once, whatever WaitTimeSeconds says."""
        return self._call("ReceiveMessage", kwargs, self._receive_message)

    def delete_message(self, **kwargs: Any) -> dict[str, Any]:
        """Delete a received message; deleting it again is no error."""
        return self._call("DeleteMessage", kwargs, self._delete_message)

    def delete_message_batch(self, **kwargs: Any) -> dict[str, Any]:
        """Delete up to ten received messages, each with its own outcome."""
        return self._call("DeleteMessageBatch", kwargs, self._delete_message_batch)

    def change_message_visibility(self, **kwargs: Any) -> dict[str, Any]:
        """Set how long, from now, a received message stays hidden."""
        return self._call("ChangeMessageVisibility", kwargs, self._change_message_visibility)

    # -- queues ---------------------------------------------------------------------------------------

    def _create_queue(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        name, attributes = kwargs["QueueName"], kwargs.get("Attributes", {})
        for attribute, value in attributes.items():
            if attribute not in _SETTABLE:
                raise NotImplementedError(f"The queue attribute {attribute} is not simulated")
            low, high = _RANGES.get(attribute, (None, None))
            if low is not None and high is not None and not (value.isdigit() and low <= int(value) <= high):
                raise _refused("InvalidAttributeValue", f"Invalid value for the parameter {attribute}.")
        known = self.backend.queues.get(name)
        if known is not None:
            if known.attributes != {**_DEFAULTS, **attributes}:
                raise _refused(
                    "QueueNameExists",
                    "A queue already exists with the same name and a different value for one or more "
                    "attributes",
                )
            return {"QueueUrl": known.url}
        region, account = self.backend.region, self.backend.account_id
        queue = Queue(
            name,
            f"https://sqs.{region}.amazonaws.com/{account}/{name}",
            f"arn:aws:sqs:{region}:{account}:{name}",
            attributes,
            self.backend.clock.now(),
        )
        if queue.redrive is not None and not any(
            other.arn == queue.redrive[0] for other in self.backend.queues.values()
        ):
            raise _refused(
                "InvalidParameterValue",
                f"Value {attributes['RedrivePolicy']} for parameter RedrivePolicy is invalid. "
                "Reason: Dead letter target does not exist.",
            )
        self.backend.queues[name] = queue
        return {"QueueUrl": queue.url}

    def _get_queue_url(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        queue = self.backend.queues.get(kwargs["QueueName"])
        if queue is None:
            raise _refused("QueueDoesNotExist", "The specified queue does not exist.")
        return {"QueueUrl": queue.url}

    def _get_queue_attributes(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        queue = self.backend.queue(kwargs["QueueUrl"])
        now = self.backend.clock.now()
        waiting = [message for message in queue.messages.values() if message.visible_at > now]
        in_flight = sum(message.receipt_handle is not None for message in waiting)
        known = {
            **queue.attributes,
            "QueueArn": queue.arn,
            "CreatedTimestamp": str(int(queue.created.timestamp())),
            "ApproximateNumberOfMessages": str(len(queue.messages) - len(waiting)),
            "ApproximateNumberOfMessagesNotVisible": str(in_flight),
            "ApproximateNumberOfMessagesDelayed": str(len(waiting) - in_flight),
        }
        wanted = kwargs.get("AttributeNames", [])
        if "All" in wanted:
            return {"Attributes": known}
        unknown = [name for name in wanted if name not in known and name not in _SETTABLE]
        if unknown:
            raise _refused("InvalidAttributeName", f"Unknown Attribute {unknown[0]}.")
        return {"Attributes": {name: known[name] for name in wanted if name in known}}

    # -- messages -------------------------------------------------------------------------------------

    def _send_message(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        queue = self.backend.queue(kwargs["QueueUrl"])
        size = _message_size(kwargs)
        limit = int(queue.attributes["MaximumMessageSize"])
        if size > limit:
            raise _refused(
                "InvalidParameterValue",
                f"One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes.",
            )
        _check_content(kwargs["MessageBody"])
        return self._sent(queue, kwargs)

    def _sent(self, queue: Queue, entry: Mapping[str, Any]) -> dict[str, Any]:
        delay = entry.get("DelaySeconds")
        if delay is not None and not 0 <= delay <= MAX_DELAY_SECONDS:
            raise _refused(
                "InvalidParameterValue",
                f"Value {delay} for parameter DelaySeconds is invalid. "
                "Reason: DelaySeconds must be >= 0 and <= 900.",
            )
        wait = queue.seconds("DelaySeconds") if delay is None else timedelta(seconds=delay)
        message = self.backend.add(queue, entry["MessageBody"], entry.get("MessageAttributes", {}), wait)
        return {"MessageId": message.message_id, "MD5OfMessageBody": _md5(message.body)}

    def _send_message_batch(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        queue = self.backend.queue(kwargs["QueueUrl"])
        entries = kwargs["Entries"]
        _check_entries(entries, _ENTRY_MEMBERS)
        sizes = [_message_size(entry) for entry in entries]
        if sum(sizes) > MAX_MESSAGE_BYTES:
            raise _refused(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes. "
                f"You have sent {sum(sizes)} bytes.",
            )
        successful: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for position, entry in enumerate(entries):
            code = self._fault("SendMessageBatch", position)
            if code is not None:
                failed.append(_failure(entry["Id"], code, "Injected fault", sender=False))
                continue
            try:
                _check_content(entry["MessageBody"])
                successful.append({"Id": entry["Id"], **self._sent(queue, entry)})
            except Rejection as refused:
                failed.append(_failure(entry["Id"], refused.code, refused.message, sender=True))
        return _outcomes(successful, failed)

    def _receive_message(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        queue = self.backend.queue(kwargs["QueueUrl"])
        count = kwargs.get("MaxNumberOfMessages", 1)
        if not 1 <= count <= MAX_RECEIVE_MESSAGES:
            raise _refused(
                "InvalidParameterValue",
                f"Value {count} for parameter MaxNumberOfMessages is invalid. "
                "Reason: Must be between 1 and 10, if provided.",
            )
        seconds = kwargs.get("VisibilityTimeout")
        visibility = queue.seconds("VisibilityTimeout") if seconds is None else _visibility(seconds)
        wanted = {*kwargs.get("AttributeNames", ()), *kwargs.get("MessageSystemAttributeNames", ())}
        messages = [_received(message, wanted) for message in self.backend.take(queue, count, visibility)]
        return {"Messages": messages} if messages else {}

    def _delete_message(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        self._delete(self.backend.queue(kwargs["QueueUrl"]), kwargs["ReceiptHandle"])
        return {}

    def _delete(self, queue: Queue, handle: str) -> None:
        message_id, found, _ = handle.partition("#")
        if not found:
            raise _refused(
                "ReceiptHandleIsInvalid",
                f'The input receipt handle "{handle}" is not a valid receipt handle.',
            )
        message = queue.messages.get(message_id)
        # Standard queues honour only the newest receipt handle: an older one leaves the message alone.
        if message is not None and message.receipt_handle == handle:
            del queue.messages[message_id]

    def _delete_message_batch(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        queue = self.backend.queue(kwargs["QueueUrl"])
        entries = kwargs["Entries"]
        _check_entries(entries, frozenset({"Id", "ReceiptHandle"}))
        successful: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for position, entry in enumerate(entries):
            code = self._fault("DeleteMessageBatch", position)
            if code is not None:
                failed.append(_failure(entry["Id"], code, "Injected fault", sender=False))
                continue
            try:
                self._delete(queue, entry["ReceiptHandle"])
                successful.append({"Id": entry["Id"]})
            except Rejection as refused:
                failed.append(_failure(entry["Id"], refused.code, refused.message, sender=True))
        return _outcomes(successful, failed)

    def _change_message_visibility(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        queue = self.backend.queue(kwargs["QueueUrl"])
        visibility = _visibility(kwargs["VisibilityTimeout"])
        message = queue.messages.get(kwargs["ReceiptHandle"].partition("#")[0])
        now = self.backend.clock.now()
        if message is None:
            raise _refused(
                "InvalidParameterValue",
                f"Value {kwargs['ReceiptHandle']} for parameter ReceiptHandle is invalid. "
                "Reason: Message does not exist or is not available for visibility timeout change.",
            )
        if message.receipt_handle != kwargs["ReceiptHandle"] or message.visible_at <= now:
            raise _refused("MessageNotInflight", "The message referred to is not in flight.")
        message.visible_at = now + visibility
        return {}


@dataclass(frozen=True, slots=True)
class Batch:
    """One invocation's worth of messages: the Lambda ``event`` and the receipt handles by message id."""

    event: dict[str, Any]
    handles: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EventSource:
    """A simulated event source mapping from a queue to a function, with ReportBatchItemFailures."""

    client: SQSClient
    queue_url: str
    batch_size: int = 10

    def receive(self) -> Batch | None:
        """Receive the next batch, hidden for the queue's visibility timeout; None when nothing is visible."""
        queue = self.client.backend.queue(self.queue_url)
        messages: list[dict[str, Any]] = []
        while len(messages) < self.batch_size:
            answer = self.client.receive_message(
                QueueUrl=self.queue_url,
                MaxNumberOfMessages=min(MAX_RECEIVE_MESSAGES, self.batch_size - len(messages)),
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            if not answer.get("Messages"):
                break
            messages += answer["Messages"]
        if not messages:
            return None
        records = [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "messageAttributes": message.get("MessageAttributes", {}),
                "md5OfBody": message["MD5OfBody"],
                "eventSource": "aws:sqs",
                "eventSourceARN": queue.arn,
                "awsRegion": self.client.backend.region,
            }
            for message in messages
        ]
        return Batch(
            {"Records": records}, {message["MessageId"]: message["ReceiptHandle"] for message in messages}
        )

    def settle(self, batch: Batch, response: Mapping[str, Any] | None) -> None:
        """Delete what the function did not report as failed.

        As Lambda does, an empty identifier or one that is not in the batch fails the whole batch. A function
        that raised is not settled at all: its messages come back after the visibility timeout.
        """
        failures = {entry["itemIdentifier"] for entry in (response or {}).get("batchItemFailures") or ()}
        if not failures <= batch.handles.keys():
            return
        handles = [handle for message_id, handle in batch.handles.items() if message_id not in failures]
        for start in range(0, len(handles), MAX_BATCH_ENTRIES):
            entries = [
                {"Id": str(number), "ReceiptHandle": handle}
                for number, handle in enumerate(handles[start : start + MAX_BATCH_ENTRIES])
            ]
            self.client.delete_message_batch(QueueUrl=self.queue_url, Entries=entries)

    def drain(
        self, function: Callable[[dict[str, Any]], Mapping[str, Any] | None], *, max_batches: int = 1000
    ) -> int:
        """Run ``function`` on every batch that is visible now; return how many batches there were.

        What the function raises reaches the caller, its batch undeleted. Raises RuntimeError after
        ``max_batches``: a visibility timeout of zero would never end.
        """
        for count in range(max_batches):
            batch = self.receive()
            if batch is None:
                return count
            self.settle(batch, function(batch.event))
        raise RuntimeError(f"the queue still has visible messages after {max_batches} batches")


# -- checks and answers --------------------------------------------------------------------------------


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _message_size(entry: Mapping[str, Any]) -> int:
    """Return the bytes that count against the limit: body, and names, types and values of attributes."""
    size = len(entry["MessageBody"].encode())
    for name, value in entry.get("MessageAttributes", {}).items():
        content = value.get("StringValue", "").encode() or value.get("BinaryValue", b"")
        size += len(name.encode()) + len(value["DataType"].encode()) + len(content)
    return size


def _check_content(body: str) -> None:
    if not body:
        raise _refused("MissingParameter", "The request must contain the parameter MessageBody.")
    if _FORBIDDEN_CHARACTERS.search(body):
        raise _refused("InvalidMessageContents", "Invalid characters found in the message body.")


def _check_entries(entries: Sequence[Mapping[str, Any]], members: frozenset[str]) -> None:
    if not entries:
        raise _refused("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > MAX_BATCH_ENTRIES:
        raise _refused(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are 10. You have sent {len(entries)}.",
        )
    identifiers = [entry["Id"] for entry in entries]
    for entry in entries:
        if not _ENTRY_ID.match(entry["Id"]):
            raise _refused(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long.",
            )
        if entry.keys() - members:
            raise NotImplementedError(f"A batch entry with {sorted(entry.keys() - members)} is not simulated")
    if len(set(identifiers)) < len(identifiers):
        repeated = next(identifier for identifier in identifiers if identifiers.count(identifier) > 1)
        raise _refused("BatchEntryIdsNotDistinct", f"Id {repeated} repeated.")


def _failure(identifier: str, code: str, message: str, *, sender: bool) -> dict[str, Any]:
    return {"Id": identifier, "SenderFault": sender, "Code": code, "Message": message}


def _outcomes(successful: list[dict[str, Any]], failed: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    if successful:
        answer["Successful"] = successful
    if failed:
        answer["Failed"] = failed
    return answer


def _visibility(seconds: int) -> timedelta:
    if not 0 <= seconds <= MAX_VISIBILITY_SECONDS:
        raise _refused(
            "InvalidParameterValue",
            f"Value {seconds} for parameter VisibilityTimeout is invalid. "
            "Reason: VisibilityTimeout must be an integer between 0 and 43200.",
        )
    return timedelta(seconds=seconds)


def _received(message: Message, wanted: set[str]) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "MessageId": message.message_id,
        "ReceiptHandle": message.receipt_handle,
        "MD5OfBody": _md5(message.body),
        "Body": message.body,
    }
    assert message.first_received_at is not None
    system = {
        "ApproximateReceiveCount": str(message.receive_count),
        "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at.timestamp() * 1000)),
        "SentTimestamp": str(int(message.sent_at.timestamp() * 1000)),
        "SenderId": "AIDAEXAMPLE",
    }
    shown = system if "All" in wanted else {name: value for name, value in system.items() if name in wanted}
    if shown:
        answer["Attributes"] = shown
    if message.attributes:
        answer["MessageAttributes"] = dict(message.attributes)
    return answer
