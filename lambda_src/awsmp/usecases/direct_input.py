"""Direct-submit: the seller's finished hourly record, and the ledger record that we keep beside it.

The input is folded like a group of one row. The two are separate items, so that an unconditional Put
of the seller's cannot erase what we know of an attempt; a different input after an attempt is late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from awsmp.domain.direct_inputs import fold_input, input_group
from awsmp.domain.errors import ConditionFailed, ForeignLedgerItem, MeteringError
from awsmp.domain.hours import BillingWindow
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import (
    LEDGER_SORT_KEY,
    LedgerRecord,
    advance,
    apply_fold,
    from_item,
    ledger_sort_key,
)
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.domain.quantities import QuantityType, counted
from awsmp.domain.reasons import RowStamp, ValidationReason
from awsmp.domain.rows import unclaimed_stamp
from awsmp.domain.stores import LedgerKey, LedgerStore, SwapResult
from awsmp.usecases.surfacing import report_surfacing

_MAX_RACES: Final = 8

# Keys of one consistent batch read.
_CHUNK: Final = 100


@dataclass(frozen=True, slots=True)
class DirectInput:
    """What adopting inputs needs."""

    ledger: LedgerStore
    clock: Clock
    telemetry: Telemetry
    window: BillingWindow
    quantity_type: QuantityType


def adopt_inputs(
    direct: DirectInput, items: Sequence[Mapping[str, object]], *, legacy: bool = False
) -> list[LedgerRecord | MeteringError]:
    """Fold pending inputs into their ledger records, then take their pending marks off.

    Returns the records, or what kept an input from becoming one. An input whose hour has not begun is left
    alone and left out; so is one that no group can claim, after it was rejected by name on the item and in
    the metrics. Reads and writes are batched, each write under its own condition; an input that loses a race
    is folded again.
    """
    found: list[LedgerRecord | MeteringError] = []
    inputs: list[tuple[Mapping[str, object], Group]] = []
    now = direct.clock.now()
    for item in items:
        group = input_group(item)
        if isinstance(group, ValidationReason):
            try:
                _reject(direct, item, group)
            except MeteringError as error:
                found.append(error)
        elif group.hour <= now:
            inputs.append((item, group))
    for _ in range(_MAX_RACES):
        if not inputs:
            return found
        inputs = _adopt_once(direct, inputs, found, legacy=legacy)
    lost = "a direct-submit input lost every race; the next run folds it again"
    return [*found, *(ConditionFailed(lost) for _ in inputs)]


def _adopt_once(
    direct: DirectInput,
    inputs: Sequence[tuple[Mapping[str, object], Group]],
    found: list[LedgerRecord | MeteringError],
    *,
    legacy: bool,
) -> list[tuple[Mapping[str, object], Group]]:
    """Adopt what can be adopted into ``found``; return the inputs that lost a race."""
    now = direct.clock.now()
    steps: list[_Step] = []
    for (item, group), before in zip(inputs, _records(direct, inputs), strict=True):
        if isinstance(before, MeteringError):
            found.append(before)
            continue
        fold = fold_input(item, group, direct.quantity_type, legacy=legacy)
        after = apply_fold(before, group, fold, now=now, window=direct.window, direct=True)
        if after is not before:
            report_surfacing(direct.telemetry, before, after)
            after = advance(before, after, now=now)
        steps.append(_Step(item, group, before, after, fold.reason))
    written = _write(direct, steps)
    done = [step for step, result in zip(steps, written, strict=True) if result is SwapResult.DONE]
    direct.ledger.settle_inputs([(step.item, *step.stamp()) for step in done], now=now)
    found += [step.after for step in done]
    return [
        (step.item, step.group)
        for step, result in zip(steps, written, strict=True)
        if result is not SwapResult.DONE
    ]


@dataclass(frozen=True, slots=True)
class _Step:
    item: Mapping[str, object]
    group: Group
    before: LedgerRecord | None
    after: LedgerRecord
    refused: str | None

    def stamp(self) -> tuple[str, str | None]:
        """Return status and reason to put on the input."""
        late = self.after.attempt is not None and self.after.superseded
        if self.refused:
            return RowStamp.REJECTED_CLIENT_SIDE, self.refused
        return (RowStamp.LATE_AFTER_SUBMISSION if late else RowStamp.AGGREGATED), None


def _records(
    direct: DirectInput, inputs: Sequence[tuple[Mapping[str, object], Group]]
) -> list[LedgerRecord | MeteringError | None]:
    keys = [LedgerKey(group.license_arn, ledger_sort_key(group, direct=True)) for _, group in inputs]
    stored: dict[LedgerKey, LedgerRecord | MeteringError] = {}
    for start in range(0, len(keys), _CHUNK):
        for item in direct.ledger.items(keys[start : start + _CHUNK]):
            key = LedgerKey(str(item["licenseArn"]), str(item[LEDGER_SORT_KEY]))
            try:
                stored[key] = from_item(item)
            except ValueError as error:
                stored[key] = ForeignLedgerItem(f"an input's ledger record is malformed: {error}")
    return [stored.get(key) for key in keys]


def _write(direct: DirectInput, steps: Sequence[_Step]) -> list[SwapResult]:
    """Write every step; one that changes nothing is done."""
    results = [SwapResult.DONE] * len(steps)
    creates = [at for at, step in enumerate(steps) if step.before is None]
    swaps = [
        (at, (step.before, step.after))
        for at, step in enumerate(steps)
        if step.before is not None and step.after is not step.before
    ]
    for at, result in zip(
        creates, direct.ledger.create_many([steps[at].after for at in creates]), strict=True
    ):
        results[at] = result
    for (at, _), result in zip(swaps, direct.ledger.swap_many([pair for _, pair in swaps]), strict=True):
        results[at] = result
    return results


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
    direct.telemetry.count(Metric.USAGE_RECORD_REJECTED, 1, reason=reason)
    direct.telemetry.count(Metric.SURFACED_UNITS, counted(item.get("quantity")), reason=reason)
    direct.telemetry.error(
        "a direct-submit input was rejected: its key reproduces no group",
        licenseArn=item["licenseArn"],
        reason=reason,
    )
    status = RowStamp.REJECTED_CLIENT_SIDE
    direct.ledger.settle_input(item, status=status, reason=unclaimed_stamp(reason), now=direct.clock.now())
