"""Meters DynamoDB as AWS bills it on demand: in request units, every item or page rounded up on its own."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Final

from sandbox.memory_aws.client import Meter

#: DynamoDB bills writes by 1 KiB and reads by 4 KiB of an item, or of all items of a query's page.
WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096

#: Calls of one item, and what DynamoDB bills one unit of where they find none.
SINGLE_ITEM_CALLS: Final = {"GetItem": "read", "PutItem": "write", "UpdateItem": "write"}


class UnitCounter(Counter[str]):
    """Adds up bytes as billed units: every addition is one item or page, rounded up on its own."""

    def __init__(self, unit_bytes: int) -> None:
        """``unit_bytes`` is what one unit holds."""
        super().__init__()
        self.unit_bytes = unit_bytes
        self.units: Counter[str] = Counter()

    def __setitem__(self, label: str, total: int) -> None:
        """See Counter; a read that finds nothing is one unit too."""
        self.units[label] += max(1, -(-(total - self[label]) // self.unit_bytes))
        super().__setitem__(label, total)


class BillingMeter(Meter):
    """A meter of capacity units. Reads of tables are consistent (1 unit), reads of indexes are not (0.5).

    In a transaction DynamoDB writes each item of a table twice, and its entries in indexes once: they follow
    when the transaction is complete (Developer Guide, "Capacity management for transactions").
    """

    def __init__(self, *, transactions: bool = False) -> None:
        """Begin at zero; ``transactions`` for a meter that sees nothing but transactions."""
        super().__init__()
        self.written = UnitCounter(WRITE_UNIT_BYTES)
        self.read = UnitCounter(READ_UNIT_BYTES)
        self.bytes_written = self.written
        self.bytes_read = self.read
        self._table_factor = 2 if transactions else 1

    def units(self, kind: str) -> Decimal:
        """Return the request units so far, indexes included; ``kind`` is "read" or "write"."""
        if kind == "write":
            times = self._table_factor
            units = self.written.units.items()
            return Decimal(sum(number * (1 if "/" in label else times) for label, number in units))
        halves = sum(number * (1 if "/" in label else 2) for label, number in self.read.units.items())
        return Decimal(halves) / 2
