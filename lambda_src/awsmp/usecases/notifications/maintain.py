"""Housekeeping: abandoned claims, entries that are due again, feedback past its retention.

A run handles at most ``limits.batch`` items of all three together, in that order. Runs may overlap: each
item is changed under its version, and whoever comes second leaves it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from awsmp.domain.errors import ConditionFailed, MeteringError, PartialFailure
from awsmp.domain.notifications.audit import AuditAction, AuditEntry
from awsmp.domain.notifications.feedback import StoredFeedback
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.outbox import can_requeue, is_stale
from awsmp.domain.notifications.store import NotificationStore, Queue, Remove, Save
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.usecases.notifications.requeueing import recover_entry, requeue_entry
from awsmp.usecases.notifications.saving import now_of

#: Reports that one transaction deletes; its audit entry counts exactly these.
_PURGE_CHUNK = 50


@dataclass(frozen=True, slots=True)
class Maintained:
    """What a run did."""

    recovered: int = 0
    requeued: int = 0
    purged: int = 0


@dataclass(frozen=True, slots=True)
class Maintenance:
    """One bounded run at a time, any number of runs at once."""

    store: NotificationStore
    limits: Limits
    clock: Clock
    telemetry: Telemetry

    def run(self) -> Maintained:
        """Recover, requeue and purge.

        Raises
        ------
        PartialFailure
            Some items failed; the others were done.
        """
        failures: list[MeteringError] = []
        budget = self.limits.batch
        recovered = self._each(self._stale(budget), self._recover, failures)
        budget -= recovered
        requeued = self._each(self._retryable(budget), self._requeue, failures)
        budget -= requeued
        purged = self.purge(budget, failures)
        if recovered:
            self.telemetry.count(Metric.NOTIFICATION_CLAIMS_RECOVERED, recovered)
        self.telemetry.info(
            "notifications maintained",
            recovered=recovered,
            requeued=requeued,
            purged=purged,
            failures=len(failures),
        )
        if failures:
            raise PartialFailure(f"{len(failures)} steps of the maintenance failed") from failures[0]
        return Maintained(recovered, requeued, purged)

    def purge(self, limit: int, failures: list[MeteringError]) -> int:
        """Delete at most ``limit`` reports that are older than the retention time; return how many.

        Deletion and audit entry are one transaction, so that no purge goes unaudited and none counts twice.
        """
        if limit <= 0:
            return 0
        keys = self.store.due_feedback(self.clock.now() - self.limits.feedback_retention, limit)
        purged = 0
        for start in range(0, len(keys), _PURGE_CHUNK):
            try:
                purged += self._purge(keys[start : start + _PURGE_CHUNK])
            except MeteringError as error:
                failures.append(error)
        if purged:
            self.telemetry.count(Metric.FEEDBACK_PURGED, purged)
        return purged

    def _purge(self, keys: Sequence[str]) -> int:
        now = now_of(self.clock)
        oldest = now - self.limits.feedback_retention
        found = [self.store.feedback(key) for key in keys]
        due = [each for each in found if each is not None and each.received_at <= oldest]
        if not due:
            return 0
        try:
            self._remove(due)
        except ConditionFailed:
            # Another run has some of them; each on its own settles which.
            return sum(self._remove_one(each) for each in due)
        return len(due)

    def _remove_one(self, report: StoredFeedback) -> int:
        try:
            self._remove([report])
        except ConditionFailed:
            return 0
        return 1

    def _remove(self, reports: Sequence[StoredFeedback]) -> None:
        audit = AuditEntry(
            at=now_of(self.clock),
            action=AuditAction.FEEDBACK_PURGED,
            subject=reports[0].key,
            detail="feedback_retention",
            counts={"purged": len(reports)},
        )
        self.store.commit(*map(Remove, reports), Save(audit))

    def _stale(self, limit: int) -> Sequence[str]:
        return self.store.due_entries(Queue.PROCESSING, self.clock.now() - self.limits.stale_after, limit)

    def _retryable(self, limit: int) -> Sequence[str]:
        return self.store.due_entries(Queue.RETRYABLE, self.clock.now(), limit) if limit > 0 else ()

    def _each(self, entries: Sequence[str], act: Callable[[str], bool], failures: list[MeteringError]) -> int:
        done = 0
        for entry_id in entries:
            try:
                done += act(entry_id)
            except ConditionFailed:
                continue
            except MeteringError as error:
                failures.append(error)
        return done

    def _recover(self, entry_id: str) -> bool:
        entry, now = self.store.entry(entry_id), now_of(self.clock)
        if entry is None or not is_stale(entry, self.limits, now):
            return False
        recover_entry(self.store, entry, self.limits, now)
        return True

    def _requeue(self, entry_id: str) -> bool:
        entry, now = self.store.entry(entry_id), now_of(self.clock)
        if entry is None or not can_requeue(entry, self.limits) or not entry.retryable or entry.due_at > now:
            return False
        requeue_entry(self.store, entry, now, lambda delivery: delivery.retryable)
        return True
