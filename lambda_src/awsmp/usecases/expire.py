"""Submission expiry: closing what can no longer be billed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from awsmp.domain.direct_inputs import is_input
from awsmp.domain.errors import MeteringError, PartialFailure
from awsmp.domain.hours import BillingWindow, bucket_of
from awsmp.domain.ledger import advance, expire, from_item
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.domain.quantities import QuantityType
from awsmp.domain.stores import LedgerKey, LedgerStore
from awsmp.usecases.direct_input import DirectInput, adopt_inputs
from awsmp.usecases.surfacing import report_surfacing

_CHUNK: Final = 100


@dataclass(frozen=True, slots=True)
class Expiry:
    """What closing records needs."""

    ledger: LedgerStore
    clock: Clock
    telemetry: Telemetry
    window: BillingWindow
    quantity_type: QuantityType = QuantityType.INTEGER
    legacy: bool = False


def expire_pending(expiry: Expiry, *, stop_at: datetime) -> int:
    """Close the pending records past their deadline, and return how many.

    Every run reads the hours in which records reach their deadline; three runs, a quarter of an hour, reach
    as far back as age-out does (:meth:`BillingWindow.expiry_hours`). A record that changes meanwhile is left
    to the next run; one that cannot be read or written costs no other record its turn, and the run fails
    loudly at its end.

    Raises
    ------
    PartialFailure
        Some records could not be closed.
    """
    now = expiry.clock.now()
    closed, failures = 0, list[MeteringError]()
    for hour in expiry.window.expiry_hours(now):
        if now < expiry.window.deadline(hour):
            continue
        if expiry.clock.now() >= stop_at:
            break
        try:
            closed += _close_hour(expiry, hour, now, stop_at, failures)
        except MeteringError as error:
            failures.append(error)
            expiry.telemetry.error("an hour could not be read", hour=bucket_of(hour), error=repr(error))
    if failures:
        raise PartialFailure(f"{len(failures)} records or hours could not be closed") from failures[0]
    return closed


def _close_hour(
    expiry: Expiry, hour: datetime, now: datetime, stop_at: datetime, failures: list[MeteringError]
) -> int:
    closed = 0
    for chunk in _chunks(expiry.ledger.pending_keys(bucket_of(hour))):
        if expiry.clock.now() >= stop_at:
            break
        items = expiry.ledger.items(chunk)
        for adopted in adopt_inputs(_direct(expiry), [i for i in items if is_input(i)], legacy=expiry.legacy):
            if isinstance(adopted, MeteringError):
                failures.append(adopted)
            else:
                closed += 1
        for item in items:
            if is_input(item):
                continue
            try:
                closed += _close(expiry, item, now)
            except MeteringError as error:
                failures.append(error)
                expiry.telemetry.error("a record could not be closed", error=repr(error))
    return closed


def _direct(expiry: Expiry) -> DirectInput:
    return DirectInput(expiry.ledger, expiry.clock, expiry.telemetry, expiry.window, expiry.quantity_type)


def _close(expiry: Expiry, item: Mapping[str, object], now: datetime) -> bool:
    try:
        before = from_item(item)
    except ValueError as error:
        expiry.telemetry.count(Metric.USAGE_RECORD_REJECTED, 1, reason="MalformedLedgerRecord")
        raise MeteringError("a pending ledger record is malformed and cannot be closed") from error
    after = expire(before, now=now, window=expiry.window)
    if after is before:
        return False
    report_surfacing(expiry.telemetry, before, after)
    return expiry.ledger.swap(before, advance(before, after, now=now))


def _chunks(keys: Iterator[LedgerKey]) -> Iterator[list[LedgerKey]]:
    while chunk := list(islice(keys, _CHUNK)):
        yield chunk
