"""Finding pending groups at a cost that grows with groups, not with rows.

The sparse index orders entries by hour and licence only. Within an hour the walk leaps from licence to
licence by key condition, looking at a few entries each. Where a licence has more, its further groups
are found in the table itself: each account-and-dimension pair occupies one run of sort keys, so one
read finds a pair and one key condition leaps over all its timestamps.

A dimension whose name begins like another one followed by ``#`` and a year could hide behind such a
leap; it shows up once its neighbours are cleaned up, and in the hour's last processed hour nothing
leaps any more: every index entry is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Final

from awsmp.domain.hours import bucket_of
from awsmp.domain.identifiers import Group
from awsmp.domain.messages import GroupWork, UnclaimedRow
from awsmp.domain.rows import unclaimable_reason
from awsmp.domain.stores import IndexEntry, UsageStore

#: Index entries looked at before a leap: one read unit's worth of small rows.
LEAP_ENTRIES: Final = 25

#: Rows with malformed keys that a walk steps over one by one before it reads the index instead.
MAX_SINGLE_STEPS: Final = 50

Work = GroupWork | UnclaimedRow


def pending_work(usage: UsageStore, hour: datetime, *, exhaustive: bool) -> Iterator[Work]:
    """Yield each pending group of ``hour`` once, and each pending row that no group can claim.

    ``exhaustive`` reads every index entry of the hour.
    """
    bucket = bucket_of(hour)
    after: str | None = None
    while True:
        page = usage.index_page(bucket, after_license=after, limit=LEAP_ENTRIES)
        for license_arn, entries in groupby(page.entries, key=lambda entry: entry.license_arn):
            after = license_arn
            cut = page.more and license_arn == page.entries[-1].license_arn
            if not cut:
                yield from _distinct(entries, hour)
            elif exhaustive:
                yield from _distinct(usage.license_index(bucket, license_arn), hour)
            else:
                yield from _leap(usage, license_arn, hour, list(entries))
        if not page.more:
            return


def pending_work_of_license(
    usage: UsageStore, license_arn: str, hour: datetime, *, exhaustive: bool
) -> Iterator[Work]:
    """Like :func:`pending_work`, for one licence: a targeted read, whatever else the hour holds."""
    page = usage.license_index_page(bucket_of(hour), license_arn, limit=LEAP_ENTRIES)
    if not page.more:
        yield from _distinct(page.entries, hour)
    elif exhaustive:
        yield from _distinct(usage.license_index(bucket_of(hour), license_arn), hour)
    else:
        yield from _leap(usage, license_arn, hour, list(page.entries))


def _distinct(entries: Iterable[IndexEntry], hour: datetime, seen: set[Work] | None = None) -> Iterator[Work]:
    seen = set() if seen is None else seen
    for entry in entries:
        work = _work_of(entry, hour)
        if work not in seen:
            seen.add(work)
            yield work


def _work_of(entry: IndexEntry, hour: datetime) -> Work:
    account, dimension = entry.customer_account, entry.dimension
    if unclaimable_reason(entry.sort_key, bucket_of(hour), account, dimension) is not None:
        return UnclaimedRow(entry.license_arn, entry.sort_key)
    return GroupWork(Group(entry.license_arn, str(account), str(dimension), hour))


def _leap(usage: UsageStore, license_arn: str, hour: datetime, first: list[IndexEntry]) -> Iterator[Work]:
    seen: set[Work] = set()
    yield from _distinct(first, hour, seen)
    cursor, single_steps = "", 0
    while (row := usage.first_row_after(license_arn, cursor)) is not None:
        account, dimension = row.attributes.get("customerAWSAccountId"), row.attributes.get("dimension")
        prefix = f"{account}#{dimension}#"
        # A year past the hour's own is beyond every timestamp that a row of this pair can have.
        past_all_timestamps = f"{prefix}{hour.year + 2}"
        if not row.sort_key.startswith(prefix) or row.sort_key >= past_all_timestamps:
            cursor, single_steps = row.sort_key, single_steps + 1
            if single_steps > MAX_SINGLE_STEPS:
                yield from _distinct(usage.license_index(bucket_of(hour), license_arn), hour, seen)
                return
            continue
        work = GroupWork(Group(license_arn, str(account), str(dimension), hour))
        if work not in seen and usage.may_have_pending(work.group, limit=LEAP_ENTRIES):
            seen.add(work)
            yield work
        cursor = past_all_timestamps
