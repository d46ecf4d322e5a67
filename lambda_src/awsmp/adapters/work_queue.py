"""SQS queues that take message bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from awsmp.adapters.client_errors import translated
from awsmp.domain.errors import StoreUnavailable
from awsmp.domain.ports import Clock

#: Most messages of one SendMessageBatch, and the bytes of all of them together (SQS quotas; the older,
#: lower figure of 256 KiB holds everywhere).
MAX_ENTRIES: Final = 10
MAX_BATCH_BYTES: Final = 256 * 1024

_TRIES: Final = 5
_FIRST_PAUSE: Final = 0.05


class SQSClient(Protocol):
    """The call of boto3's SQS client that we make."""

    def send_message_batch(self, **kwargs: Any) -> dict[str, Any]:
        """Send up to ten messages."""
        ...


@dataclass(frozen=True, slots=True)
class SQSWorkQueue:
    """Implements :class:`awsmp.domain.stores.WorkQueue`."""

    client: SQSClient
    url: str
    clock: Clock

    def send(self, bodies: Iterable[str]) -> int:
        """See WorkQueue."""
        sent = 0
        for batch in _batches(bodies):
            self._send_batch(batch)
            sent += len(batch)
        return sent

    def _send_batch(self, batch: list[str]) -> None:
        left = dict(enumerate(batch))
        for attempt in range(_TRIES):
            if attempt:
                self.clock.sleep(_FIRST_PAUSE * 2**attempt)
            with translated("SendMessageBatch"):
                answer = self.client.send_message_batch(
                    QueueUrl=self.url,
                    Entries=[{"Id": str(number), "MessageBody": body} for number, body in left.items()],
                )
            failed = {int(entry["Id"]) for entry in answer.get("Failed", ())}
            left = {number: body for number, body in left.items() if number in failed}
            if not left:
                return
        raise StoreUnavailable(f"SQS took {len(left)} messages of a batch in none of {_TRIES} tries")


def _batches(bodies: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(bodies)
    while batch := list(islice(stream, MAX_ENTRIES)):
        if sum(len(body.encode()) for body in batch) <= MAX_BATCH_BYTES:
            yield batch
        else:
            yield from ([body] for body in batch)
