"""The small table beside the subscribers table: what each agreement's events said, and its licences.

Key: ``agreementId`` (HASH), ``entryKey`` (RANGE). An event's entry key is ``event#<time>#<event id>``, a
licence's is ``license#<account>#<licence ARN>``. ``ttl`` is in epoch seconds. Entries that have expired and
are not yet deleted are still read: applying them changes nothing that they have not changed before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from awsmp.adapters.client_errors import translated
from awsmp.adapters.dynamodb import DynamoDBClient, from_wire, pages, to_wire
from awsmp.domain.hours import format_instant
from awsmp.domain.lifecycle_events import Stamp
from awsmp.domain.ports import Clock

_EVENT: Final = "event#"
_LICENSE: Final = "license#"


@dataclass(frozen=True, slots=True)
class ParkedEventsStore:
    """Every method may raise StoreUnavailable or Misconfigured."""

    client: DynamoDBClient
    table: str
    clock: Clock

    def park(self, agreement_id: str, stamp: Stamp, body: str, expires_at: datetime) -> None:
        """Keep one agreement event's envelope until ``expires_at``; the same event twice is one entry."""
        entry_key = f"{_EVENT}{format_instant(stamp.time)}#{stamp.event_id}"
        self._put(agreement_id, entry_key, expires_at, {"eventType": stamp.kind.value, "envelope": body})

    def link(self, agreement_id: str, license_arn: str, customer_account: str, expires_at: datetime) -> None:
        """Note until ``expires_at`` that a licence belongs to the agreement."""
        entry_key = f"{_LICENSE}{customer_account}#{license_arn}"
        names = {"licenseArn": license_arn, "customerAWSAccountId": customer_account}
        self._put(agreement_id, entry_key, expires_at, names)

    def parked(self, agreement_id: str) -> list[str]:
        """Return the envelopes of the agreement's events, oldest first, read consistently."""
        return [item["envelope"] for item in self._entries(agreement_id, _EVENT)]

    def linked(self, agreement_id: str) -> list[tuple[str, str]]:
        """Return the agreement's (licence, account) pairs, read consistently."""
        items = self._entries(agreement_id, _LICENSE)
        return [(item["licenseArn"], item["customerAWSAccountId"]) for item in items]

    def _entries(self, agreement_id: str, prefix: str) -> Iterator[dict[str, Any]]:
        for page in pages(
            self.client,
            "parked agreement events",
            TableName=self.table,
            ConsistentRead=True,
            KeyConditionExpression="#agreement = :agreement AND begins_with(#entry, :prefix)",
            ExpressionAttributeNames={"#agreement": "agreementId", "#entry": "entryKey"},
            ExpressionAttributeValues=to_wire({":agreement": agreement_id, ":prefix": prefix}),
        ):
            yield from map(from_wire, page["Items"])

    def _put(
        self, agreement_id: str, entry_key: str, expires_at: datetime, attributes: Mapping[str, str]
    ) -> None:
        now = format_instant(self.clock.now())
        changes = {**attributes, "ttl": int(expires_at.timestamp()), "updatedAt": now}
        assignments = [f"#{name} = :{name}" for name in changes]
        assignments.append("#createdAt = if_not_exists(#createdAt, :updatedAt)")
        with translated("park agreement event"):
            self.client.update_item(
                TableName=self.table,
                Key=to_wire({"agreementId": agreement_id, "entryKey": entry_key}),
                UpdateExpression="SET " + ", ".join(assignments),
                ExpressionAttributeNames={f"#{name}": name for name in (*changes, "createdAt")},
                ExpressionAttributeValues=to_wire({f":{name}": value for name, value in changes.items()}),
            )
