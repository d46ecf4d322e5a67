"""What the use cases share: records after a commit, and commits that do not fit one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeVar

from awsmp.domain.errors import StoreUnavailable
from awsmp.domain.notifications.audit import AuditAction, AuditEntry
from awsmp.domain.notifications.feedback import StoredFeedback, Suppression
from awsmp.domain.notifications.license_state import LicenseState
from awsmp.domain.notifications.outbox import Counts, Delivery, Entry
from awsmp.domain.notifications.store import Check, NotificationStore, Save, Write
from awsmp.domain.ports import Clock

#: Attempts to win against other writers of one record; a lost one means that another writer has got on.
MAX_ATTEMPTS: Final = 12

#: Writes of a partial commit; with the entry's own and its audit entry it stays below 100.
_CHUNK: Final = 90

_R = TypeVar("_R", Entry, Delivery, LicenseState, Suppression, StoredFeedback)


def saved(record: _R) -> _R:
    """Return the record as the table has it after its commit."""
    return replace(record, version=record.version + 1)


def now_of(clock: Clock) -> datetime:
    """Return the instant in whole seconds, the grain in which it is stored."""
    return clock.now().replace(microsecond=0)


def commit_entry(
    store: NotificationStore,
    before: Entry,
    after: Entry,
    deliveries: Sequence[Delivery] = (),
    audit: AuditEntry | None = None,
) -> Entry:
    """Write the deliveries and then, with the last of them, the entry; return the entry as stored.

    All are held to ``before``'s version, so nothing is written below an entry that has moved on. If this
    ends halfway, what is written is a part of the same change, and doing it again completes it.

    Raises
    ------
    ConditionFailed
        The entry or a delivery has been changed by somebody else.
    """
    head = max(len(deliveries) - _CHUNK, 0)
    for start in range(0, head, _CHUNK):
        chunk = deliveries[start : min(start + _CHUNK, head)]
        store.commit(Check(before), *map(Save, chunk))
    writes: list[Write] = [*map(Save, deliveries[head:]), Save(replace(after, version=before.version))]
    if audit is not None:
        writes.append(Save(audit))
    store.commit(*writes)
    return replace(after, version=before.version + 1)


def entry_audit(entry: Entry, action: AuditAction, counts: Counts, now: datetime) -> AuditEntry:
    """Return the audit entry of an act on ``entry``, unique by the entry's version."""
    return AuditEntry(
        at=now,
        action=action,
        subject=entry.entry_id,
        detail=entry.reason or entry.status.value,
        sequence=entry.version,
        counts={**counts.as_mapping(), "attempts": entry.attempts},
    )


def busy(what: str) -> StoreUnavailable:
    """Return the error for a record that did not hold still."""
    return StoreUnavailable(f"other writers kept changing {what}: it is tried again")
