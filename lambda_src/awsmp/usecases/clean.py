"""Taking the pending mark off raw rows that the ledger contains."""

from __future__ import annotations

from dataclasses import dataclass

from awsmp.domain.messages import Cleanup
from awsmp.domain.ports import Clock
from awsmp.domain.stores import LedgerStore, RowStampWrite, UsageStore


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many rows were cleared, and whether the group has to be folded once more."""

    rows: int
    refold: bool


def clean_rows(usage: UsageStore, ledger: LedgerStore, clock: Clock, cleanup: Cleanup) -> Cleaned:
    """Clear the rows of ``cleanup`` that still are exactly what was folded.

    A row that was rewritten since stays pending and is folded again; one that is clean already costs a
    read. So the same message may be worked off any number of times.

    A row may have been rewritten, folded, and written back to what it was, while this message was on its
    way: then the ledger's last fold is another one, and does not hold the row as it is now. That is looked
    at after the rows were cleared, and the group folded again in that case. A crash before that look
    brings the message back.

    Raises
    ------
    StoreUnavailable
        Some rows could not be written after some tries; the message is to be delivered again.
    """
    folded = {row.sort_key: row for row in cleanup.rows}
    writes = []
    for row in usage.rows(cleanup.group.license_arn, list(folded)):
        expected = folded[row.sort_key]
        if row.pending_bucket == cleanup.group.bucket and row.digest() == expected.digest:
            writes.append(RowStampWrite(row, *cleanup.stamp_of(expected)))
    cleared = len(writes) - usage.stamp(writes, now=clock.now()) if writes else 0
    record = ledger.get(cleanup.group)
    return Cleaned(cleared, refold=record is None or record.digest != cleanup.digest)
