"""The seller's side: licences, the writer of raw rows, and its own books of what was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from awsmp.adapters.dynamodb import to_wire
from awsmp.domain.hours import bucket_of, format_second
from awsmp.domain.rows import METERING_PENDING, ROW_SORT_KEY
from sandbox.simulation.world import USAGE

GroupKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Buyer:
    """A customer's licence, account and agreement."""

    customer: str
    license_arn: str
    account: str
    agreement_id: str
    events: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class Seller:
    """Writes rows as a seller's application does, and keeps books of its own, by row key.

    ``client`` is a DynamoDB client, in memory or boto3's.
    """

    client: Any
    table: str = USAGE
    books: dict[tuple[str, str], tuple[GroupKey, Decimal]] = field(default_factory=dict)
    planted: dict[str, Decimal] = field(default_factory=dict)

    def write(
        self,
        buyer: Buyer,
        dimension: str,
        at: datetime,
        quantity: int | Decimal | str,
        *,
        planted: bool = False,
        **changes: Any,
    ) -> None:
        """Put one row; ``changes`` replace attributes (None removes one), for rows that are wrong.

        ``planted`` rows are counted apart from the trace. A row that is written again replaces the first, in
        the table and in the books.
        """
        timestamp = format_second(at)
        item: dict[str, Any] = {
            "licenseArn": buyer.license_arn,
            ROW_SORT_KEY: f"{buyer.account}#{dimension}#{timestamp}",
            "customerAWSAccountId": buyer.account,
            "dimension": dimension,
            "timestamp": timestamp,
            "quantity": quantity,
            METERING_PENDING: bucket_of(at),
        }
        item |= changes
        item = {name: value for name, value in item.items() if value is not None}
        self.client.put_item(TableName=self.table, Item=to_wire(item))
        self._book(item, dimension, at, planted)

    def _book(self, item: Mapping[str, Any], dimension: str, at: datetime, planted: bool) -> None:
        quantity = item.get("quantity")
        written = Decimal(quantity) if isinstance(quantity, int | Decimal) else Decimal(0)
        key = (item["licenseArn"], item[ROW_SORT_KEY])
        before = self.books.get(key)
        group = (item["licenseArn"], item["customerAWSAccountId"], dimension, bucket_of(at))
        self.books[key] = (group, written)
        if planted:
            change = written - (before[1] if before else Decimal(0))
            self.planted[dimension] = self.planted.get(dimension, Decimal(0)) + change

    def written(self) -> dict[GroupKey, Decimal]:
        """Return what was written, by group, from the seller's own books."""
        sums: dict[GroupKey, Decimal] = {}
        for group, quantity in self.books.values():
            sums[group] = sums.get(group, Decimal(0)) + quantity
        return sums
