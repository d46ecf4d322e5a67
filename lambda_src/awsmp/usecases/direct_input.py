"""Direct-submit: the seller's finished hourly record, and the ledger record that we keep beside it.

The input is folded like a group of one row. The two are separate items, so that an unconditional Put
of the seller's cannot erase what we know of an attempt; a different input after an attempt is late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from awsmp.domain.direct_inputs import fold_input, input_group
from awsmp.domain.errors import ConditionFailed
from awsmp.domain.hours import BillingWindow
from awsmp.domain.ledger import LedgerRecord, advance, apply_fold
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.domain.quantities import ZERO, QuantityType, as_decimal
from awsmp.domain.reasons import RowStamp, ValidationReason
from awsmp.domain.rows import unclaimed_stamp
from awsmp.domain.stores import LedgerKey, LedgerStore
from awsmp.usecases.surfacing import report_surfacing

_MAX_RACES: Final = 8


@dataclass(frozen=True, slots=True)
class DirectInput:
    """What adopting inputs needs."""

    ledger: LedgerStore
    clock: Clock
    telemetry: Telemetry
    window: BillingWindow
    quantity_type: QuantityType


def adopt_input(
    direct: DirectInput, item: Mapping[str, object], *, legacy: bool = False
) -> LedgerRecord | None:
    """Fold a pending input into its ledger record, then take its pending mark off; return the record.

    An input whose hour has not begun is left alone: None. So is one that no group can claim, after it was
    rejected by name on the item and in the metrics.

    Raises
    ------
    ConditionFailed
        Every try met another writer.
    """
    now = direct.clock.now()
    group = input_group(item)
    if isinstance(group, ValidationReason):
        _reject(direct, item, group)
        return None
    if group.hour > now:
        return None
    fold = fold_input(item, group, direct.quantity_type, legacy=legacy)
    for _ in range(_MAX_RACES):
        before = direct.ledger.get(group, direct=True)
        after = apply_fold(before, group, fold, now=now, window=direct.window, direct=True)
        if after is not before:
            report_surfacing(direct.telemetry, before, after)
            after = advance(before, after, now=now)
            if not (direct.ledger.create(after) if before is None else direct.ledger.swap(before, after)):
                continue
        late = after.attempt is not None and after.total != after.quantity
        stamp = RowStamp.LATE_AFTER_SUBMISSION if late else RowStamp.AGGREGATED
        status = RowStamp.REJECTED_CLIENT_SIDE if fold.reason else stamp
        direct.ledger.settle_input(item, status=status, reason=fold.reason, now=now)
        return after
    raise ConditionFailed("a direct-submit input lost every race; the next run folds it again")


def refold_input(direct: DirectInput, record: LedgerRecord, *, legacy: bool = False) -> None:
    """Take the input's newest content into a record that was released with an older one's allocations.

    A lost race, or an input that is gone, leaves the record for the next run.
    """
    key = LedgerKey(record.group.license_arn, record.group.ledger_sort_key)
    now = direct.clock.now()
    for item in direct.ledger.items([key]):
        fold = fold_input(item, record.group, direct.quantity_type, legacy=legacy)
        after = apply_fold(record, record.group, fold, now=now, window=direct.window, direct=True)
        report_surfacing(direct.telemetry, record, after)
        direct.ledger.swap(record, advance(record, after, now=now))


def _reject(direct: DirectInput, item: Mapping[str, object], reason: ValidationReason) -> None:
    number = as_decimal(item.get("quantity"))
    direct.telemetry.count(Metric.USAGE_RECORD_REJECTED, 1, reason=reason)
    direct.telemetry.count(Metric.SURFACED_UNITS, ZERO if number is None else number, reason=reason)
    direct.telemetry.error(
        "a direct-submit input was rejected: its key reproduces no group",
        licenseArn=item["licenseArn"],
        reason=reason,
    )
    status = RowStamp.REJECTED_CLIENT_SIDE
    direct.ledger.settle_input(item, status=status, reason=unclaimed_stamp(reason), now=direct.clock.now())
