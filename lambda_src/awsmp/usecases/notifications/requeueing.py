"""Puts a failed or an abandoned entry back, together with the deliveries that may be tried again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from awsmp.domain.notifications.audit import AuditAction
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.outbox import (
    Delivery,
    DeliveryStatus,
    Entry,
    EntryStatus,
    count,
    recover,
    requeue,
    reset,
)
from awsmp.domain.notifications.store import NotificationStore
from awsmp.usecases.notifications.saving import commit_entry, entry_audit


def recover_entry(store: NotificationStore, entry: Entry, limits: Limits, now: datetime) -> Entry:
    """Return a stale entry to pending, and its deliveries that were being sent; audited where it ends.

    Raises
    ------
    ConditionFailed
        Somebody else was faster.
    """
    deliveries = store.deliveries(entry.entry_id)
    recovered = recover(entry, limits, now)
    audit = None
    if recovered.status is EntryStatus.FAILED:
        audit = entry_audit(recovered, AuditAction.ENTRY_ENDED, count(deliveries), now)
    opened = [reset(each) for each in deliveries if each.status is DeliveryStatus.SENDING]
    return commit_entry(store, entry, recovered, opened, audit)


def requeue_entry(
    store: NotificationStore, entry: Entry, now: datetime, may_retry: Callable[[Delivery], bool]
) -> Entry:
    """Return a failed entry to pending, with its failed deliveries that ``may_retry`` and its open ones.

    What was sent or skipped stays as it is. The act is audited.

    Raises
    ------
    ConditionFailed
        Somebody else was faster.
    """
    deliveries = store.deliveries(entry.entry_id)
    again = [
        reset(each)
        for each in deliveries
        if each.status is DeliveryStatus.SENDING or (each.status is DeliveryStatus.FAILED and may_retry(each))
    ]
    audit = entry_audit(entry, AuditAction.ENTRY_REQUEUED, count(deliveries), now)
    return commit_entry(store, entry, requeue(entry, now), again, audit)
