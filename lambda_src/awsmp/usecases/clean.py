"""Taking the pending mark off raw rows that the ledger contains."""

from __future__ import annotations

from awsmp.domain.messages import Cleanup
from awsmp.domain.ports import Clock
from awsmp.domain.stores import RowStampWrite, UsageStore


def clean_rows(usage: UsageStore, clock: Clock, cleanup: Cleanup) -> int:
    """Clear the rows of ``cleanup`` that still are exactly what was folded; return how many.

    A row that was rewritten since stays pending and is folded again; one that is clean already costs a
    read. So the same message may be worked off any number of times.

    Raises
    ------
    StoreUnavailable
        Some rows could not be written after some tries; the message is to be delivered again.
    """
    folded = {row.sort_key: row for row in cleanup.rows}
    writes = []
    for row in usage.rows(cleanup.license_arn, list(folded)):
        expected = folded[row.sort_key]
        if row.pending_bucket == cleanup.bucket and row.digest() == expected.digest:
            status, reason = cleanup.stamp_of(expected)
            writes.append(RowStampWrite(row, status, reason))
    return len(writes) - usage.stamp(writes, now=clock.now()) if writes else 0
