"""The discoverer's three modes: meter, ageout, flush-deprovisioning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from awsmp.domain.errors import MeteringError, PartialFailure
from awsmp.domain.hours import HOUR, BillingWindow, bucket_of, floor_hour
from awsmp.domain.messages import GroupWork, UnclaimedRow, encode_work
from awsmp.domain.ports import Clock, Metric, Telemetry
from awsmp.domain.stores import ClosingLicense, SubscriberDirectory, UsageStore, WorkQueue
from awsmp.usecases.aggregate import Aggregation, aggregate_group, reject_unclaimed
from awsmp.usecases.discovery import Work, pending_work, pending_work_of_license

#: Age-out shards: shard m owns the hours whose distance from now, in hours, leaves m.
AGEOUT_SHARDS: Final = 7

#: The unfinished hour is flushed this long before its licence's window closes. One minute tick finds the
#: groups, the next one submits them, and one more is left for a retry.
FINAL_FLUSH_LEAD: Final = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What finding and enqueueing pending groups needs."""

    usage: UsageStore
    clock: Clock
    telemetry: Telemetry
    window: BillingWindow


def meter(discovery: Discovery, queue: WorkQueue, hour_offset: int) -> int:
    """Enqueue the pending groups of one hour bucket; return how many messages were sent.

    Nothing is done below the lock and outside the window. In the hour's last processed hour every index
    entry is read, so that nothing can stay behind a leap. The metrics say how old the hour is in which
    usage still waits to be added up (0 for an empty one), and that the run came to its end.
    """
    now = discovery.clock.now()
    hour = floor_hour(now) - hour_offset * HOUR
    sent = 0
    if discovery.window.meters(hour, now):
        exhaustive = now >= discovery.window.last_processed_from(hour)
        sent = _enqueue(discovery, queue, pending_work(discovery.usage, hour, exhaustive=exhaustive))
        age = (now - hour).total_seconds() if sent else 0
        discovery.telemetry.count(Metric.OLDEST_UNAGGREGATED_AGE_SECONDS, age)
    discovery.telemetry.count(Metric.DISCOVERY_RUNS_COMPLETED)
    return sent


def flush_deprovisioning(discovery: Discovery, queue: WorkQueue, subscribers: SubscriberDirectory) -> int:
    """Enqueue what licences in their final-usage window still have pending; return how many messages.

    The lock does not apply. The unfinished hour is included only when the window closes before that hour
    ends, from :data:`FINAL_FLUSH_LEAD` before it closes.
    """
    now = discovery.clock.now()
    sent = 0
    for license_ in subscribers.closing_licenses(now):
        sent += _enqueue(discovery, queue, _closing_work(discovery, license_, now))
    return sent


def _closing_work(discovery: Discovery, license_: ClosingLicense, now: datetime) -> Iterator[Work]:
    current = floor_hour(now)
    for license_arn in license_.license_arns:
        for hour in discovery.window.submittable_hours(now):
            exhaustive = now >= discovery.window.last_processed_from(hour, license_.expiry)
            yield from _of_account(
                pending_work_of_license(discovery.usage, license_arn, hour, exhaustive=exhaustive), license_
            )
        closes_first = current < license_.expiry <= current + HOUR
        if closes_first and license_.expiry - FINAL_FLUSH_LEAD <= now < license_.expiry:
            for work in _of_account(
                pending_work_of_license(discovery.usage, license_arn, current, exhaustive=True), license_
            ):
                yield GroupWork(work.group, final_flush=True) if isinstance(work, GroupWork) else work


def _of_account(found: Iterable[Work], license_: ClosingLicense) -> Iterator[Work]:
    for work in found:
        if isinstance(work, UnclaimedRow) or work.group.customer_account == license_.customer_account:
            yield work


def _enqueue(discovery: Discovery, queue: WorkQueue, found: Iterable[Work]) -> int:
    sent = queue.send(encode_work(work) for work in found)
    if sent:
        discovery.telemetry.count(Metric.GROUPS_DISCOVERED, sent)
    return sent


def age_out(aggregation: Aggregation, shard: int, *, stop_at: datetime) -> int:
    """Fold what is pending past its deadline into the ledger; return how many groups and rows.

    One group's failure does not keep the others from being aged out; at the end the run fails loudly.
    At ``stop_at`` the rest is left for the next run.

    Raises
    ------
    PartialFailure
        Some groups could not be aged out.
    """
    done, failures = 0, list[MeteringError]()
    now = aggregation.clock.now()
    for hours_back, hour in enumerate(aggregation.window.lookback(now), start=1):
        if hours_back % AGEOUT_SHARDS != shard or not aggregation.window.ages_out(hour, now):
            continue
        try:
            done += _age_out_hour(aggregation, hour, stop_at, failures)
        except MeteringError as error:
            failures.append(error)
            aggregation.telemetry.error("an hour could not be read", hour=bucket_of(hour), error=repr(error))
    if failures:
        raise PartialFailure(f"{len(failures)} groups or hours could not be aged out") from failures[0]
    aggregation.telemetry.count(Metric.DISCOVERY_RUNS_COMPLETED)
    return done


def _age_out_hour(
    aggregation: Aggregation, hour: datetime, stop_at: datetime, failures: list[MeteringError]
) -> int:
    done = 0
    for work in pending_work(aggregation.usage, hour, exhaustive=True):
        if aggregation.clock.now() >= stop_at:
            break
        try:
            if isinstance(work, UnclaimedRow):
                reject_unclaimed(aggregation, work)
            else:
                aggregate_group(aggregation, work.group)
            done += 1
        except MeteringError as error:
            failures.append(error)
            aggregation.telemetry.error(
                "a group could not be aged out", hour=bucket_of(hour), error=repr(error)
            )
    return done
