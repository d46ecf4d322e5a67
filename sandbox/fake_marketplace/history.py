"""What happened, append-only: every request with its outcome, and every record that was honoured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from sandbox.fake_marketplace.rules import Quantity, WireRecord


class RecordOutcome(NamedTuple):
    """One record of one request.

    ``status`` is what the service decided (``None`` when the request was refused, ``Unprocessed`` when the
    record was put back), whether or not the caller ever heard of it.
    """

    record: WireRecord
    status: str | None
    metering_record_id: str | None
    #: This very request made the record billable; a repetition does not.
    newly_honoured: bool


@dataclass(frozen=True, slots=True)
class RequestEntry:
    """One request as the service saw it."""

    at: datetime
    region: str
    account: str
    operation: str
    request_id: str
    product_code: str | None
    outcomes: tuple[RecordOutcome, ...]
    #: The exception that the caller was given, or ``None``.
    exception: str | None
    #: Whether the caller was given any answer at all.
    answered: bool
    #: Kind of the injected fault, or ``None``.
    fault: str | None


@dataclass(frozen=True, slots=True)
class HonouredRecord:
    """One record that AWS would bill. ``hour`` counts hours since the epoch."""

    at: datetime
    region: str
    seller_account: str
    product_code: str
    #: ``None`` for a record of a legacy integration.
    license_arn: str | None
    #: The buyer's account, or the legacy customer identifier.
    customer: str
    dimension: str
    hour: int
    timestamp: datetime
    quantity: Quantity
    metering_record_id: str
    record: WireRecord

    @property
    def billing_key(self) -> tuple[str, str, str, int]:
        """License (or legacy product), customer, dimension, hour: bills twice when it occurs twice."""
        return (self.license_arn or self.product_code, self.customer, self.dimension, self.hour)


def busiest_second(entries: Iterable[RequestEntry], span: timedelta = timedelta(seconds=1)) -> int:
    """Return the largest number of requests of one Region and account within any half-open ``span``."""
    times: dict[tuple[str, str, str], list[datetime]] = {}
    for entry in entries:
        times.setdefault((entry.operation, entry.region, entry.account), []).append(entry.at)
    busiest = 0
    for instants in times.values():
        instants.sort()
        first = 0
        for last, instant in enumerate(instants):
            while instant - instants[first] >= span:
                first += 1
            busiest = max(busiest, last - first + 1)
    return busiest


class Attempt(NamedTuple):
    """One record of one request, answered or not."""

    entry: RequestEntry
    outcome: RecordOutcome


#: Region, license (or legacy product code), customer, dimension, hour since the epoch.
AttemptKey = tuple[str, str, str, str, int]


def attempts_by_key(entries: Iterable[RequestEntry]) -> dict[AttemptKey, list[Attempt]]:
    """Group all well-formed records that were ever sent by what they are billed under, in order of arrival.

    Tells whether a caller changed a record after an attempt that may have been honoured.
    """
    groups: dict[AttemptKey, list[Attempt]] = {}
    for entry in entries:
        for outcome in entry.outcomes:
            record = outcome.record
            owner = record.get("LicenseArn") or entry.product_code
            customer = record.get("CustomerAWSAccountId") or record.get("CustomerIdentifier")
            names = (entry.region, owner, customer, record.get("Dimension"))
            moment = record.get("Timestamp")
            if all(isinstance(name, str) for name in names) and isinstance(moment, int | float):
                key = (entry.region, str(owner), str(customer), str(record["Dimension"]), int(moment // 3600))
                groups.setdefault(key, []).append(Attempt(entry, outcome))
    return groups


def total_quantity(records: Iterable[HonouredRecord]) -> Decimal:
    """Return the exact sum of the quantities."""
    return sum((Decimal(record.quantity) for record in records), Decimal(0))
