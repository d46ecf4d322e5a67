"""Folding a group into the ledger: the pipeline's commit point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from awsmp.domain.errors import ConditionFailed, HourNotBegun
from awsmp.domain.folding import Fold, fold_group
from awsmp.domain.hours import BillingWindow
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import LedgerRecord, advance, apply_fold
from awsmp.domain.messages import Cleanup, UnclaimedRow, cleanups
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import MeteringStatus, RowStamp, SurfacedReason
from awsmp.domain.rows import groups_named_by, unclaimable_reason, unclaimed_stamp
from awsmp.domain.stores import LedgerStore, RowStampWrite, UsageStore
from awsmp.usecases.surfacing import report_surfacing

#: Restarts after a lost race before the message goes back to its queue.
MAX_RACES: Final = 8


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What folding needs.

    ``clean`` takes the cleanups of a committed fold, to a queue or at once, and tells whether the group has
    to be folded again.
    """

    usage: UsageStore
    ledger: LedgerStore
    clock: Clock
    telemetry: Telemetry
    window: BillingWindow
    clean: Callable[[list[Cleanup]], bool]
    quantity_type: QuantityType = QuantityType.INTEGER
    legacy: bool = False


def aggregate_group(
    work: Aggregation, group: Group, *, final_flush: bool = False, emptied: bool = False
) -> LedgerRecord | None:
    """Fold all rows of ``group`` and commit the result; return the record, or None without rows.

    A group without rows is left as it is, unless ``emptied`` says that its last row was taken from it.

    The record is read before the rows: whatever another fold wrote after that read fails this one's
    condition, so a fold that misses a row can never replace one that has it.

    Raises
    ------
    ConditionFailed
        Every try met another writer; the message is to be delivered again.
    HourNotBegun
        The group's hour lies in the future of this function's clock.
    ForeignLedgerItem, StoreUnavailable, Misconfigured
        From the stores.
    """
    if group.hour > work.clock.now():
        raise HourNotBegun(f"hour {group.bucket} has not begun; the group is left for its own hour")
    if work.window.is_forgotten(group.hour, work.clock.now()):
        return None
    for _ in range(MAX_RACES):
        before = work.ledger.get(group)
        rows = work.usage.group_rows(group)
        now = work.clock.now()
        fold = fold_group(group, rows, kind=work.quantity_type, now=now, legacy=work.legacy)
        if fold.row_count == 0 and (before is None or not emptied):
            return before
        after = apply_fold(before, group, fold, now=now, window=work.window, final_flush=final_flush)
        if after is not before:
            report_surfacing(work.telemetry, before, after)
            after = advance(before, after, now=now)
            if not (work.ledger.create(after) if before is None else work.ledger.swap(before, after)):
                continue
        if fold.pending and work.clean(list(cleanups(group, fold, *_stamp(before, after, fold)))):
            continue
        return after
    raise ConditionFailed(f"{MAX_RACES} folds of one group lost their race; the message is delivered again")


def _stamp(before: LedgerRecord | None, after: LedgerRecord, fold: Fold) -> tuple[RowStamp, str]:
    aggregated = f"Aggregated total quantity {fold.total} from {fold.row_count} raw usage records"
    if after.status is MeteringStatus.AGGREGATION_EXPIRED:
        return RowStamp.AGGREGATION_EXPIRED, "the hour could no longer be billed when its rows were found"
    late = {SurfacedReason.LATE_AFTER_SUBMISSION, SurfacedReason.AFTER_FINAL_FLUSH}
    if not late & set(after.surfaced_by_reason()):
        return RowStamp.AGGREGATED, aggregated
    if after is before:
        # A lost cleanup is repeated, and the record holds late rows: which of these are late is not known.
        return RowStamp.AGGREGATED, f"{aggregated}, some of it late"
    return RowStamp.LATE_AFTER_SUBMISSION, "the hour's record had been sent when this row was folded"


def reject_unclaimed(work: Aggregation, row: UnclaimedRow) -> bool:
    """Reject a pending row that no group can claim: in the metrics first, then on the row.

    Each group that its key names is folded before that: it may hold what the row was once, and a crash
    between the two brings the row back here. Returns whether the row was rejected; one that has changed or
    vanished meanwhile is left alone.
    """
    found = work.usage.rows(row.license_arn, [row.sort_key])
    if not found or (bucket := found[0].pending_bucket) is None:
        return False
    attributes = found[0].attributes
    reason = unclaimable_reason(
        row.sort_key, bucket, attributes.get("customerAWSAccountId"), attributes.get("dimension")
    )
    if reason is None:
        return False
    for left in groups_named_by(row.license_arn, row.sort_key):
        if left.hour <= work.clock.now():
            aggregate_group(work, left, emptied=True)
    work.telemetry.count(Metric.USAGE_RECORD_REJECTED, 1, reason=reason)
    work.telemetry.count(Metric.SURFACED_UNITS, found[0].quantity, reason=reason)
    work.telemetry.error(
        "usage row rejected: its key reproduces no group",
        licenseArn=row.license_arn,
        hour=bucket,
        reason=reason,
        quantity=str(found[0].quantity),
    )
    write = RowStampWrite(found[0], RowStamp.REJECTED_CLIENT_SIDE, unclaimed_stamp(reason))
    return work.usage.stamp([write], now=work.clock.now()) == 0
