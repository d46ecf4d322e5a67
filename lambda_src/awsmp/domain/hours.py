"""Hour buckets and every deadline that follows from them.

All instants are aware and in UTC; intervals are half-open. An hour is named by its bucket,
``YYYY-MM-DDTHH``, and represented by the instant at which it starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

HOUR: Final = timedelta(hours=1)

#: Previous-month usage is taken until this hour of the 1st, UTC (BatchMeterUsage API reference).
MONTH_WALL_HOUR: Final = 6

#: From this hour of the 1st, UTC, previous-month buckets are processed without the lock.
MONTH_UNLOCK_HOUR: Final = 3

#: How far past the window age-out and expiry look for what was left behind.
LOOKBACK_PAST_WINDOW: Final = timedelta(days=7)

#: The schedule of expiry, in minutes, and the number of runs that share the hours far past the window: what
#: an outage has left there is closed within a quarter of an hour.
EXPIRY_INTERVAL_MINUTES: Final = 5
EXPIRY_TURNS: Final = 3

#: Hours past the window that every expiry run reads: a schedule may have missed a few runs.
EXPIRY_NEAR_HOURS: Final = 3

_BUCKET = re.compile(r"\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3])", re.ASCII)
_SECOND = re.compile(r"\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d", re.ASCII)


def floor_hour(instant: datetime) -> datetime:
    """Return the start of the hour that contains ``instant``."""
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


@lru_cache(maxsize=4096)
def bucket_of(instant: datetime) -> str:
    """Return the hour bucket (``YYYY-MM-DDTHH``, UTC) that contains ``instant``."""
    return instant.astimezone(UTC).isoformat()[:13]


@lru_cache(maxsize=4096)
def parse_bucket(bucket: str) -> datetime | None:
    """Return the start of ``bucket``, or None when the text is not a canonical hour bucket."""
    if _BUCKET.fullmatch(bucket) is None:
        return None
    try:
        return datetime.fromisoformat(bucket).replace(tzinfo=UTC)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def parse_second(text: str) -> datetime | None:
    """Return the instant that ``YYYY-MM-DDTHH:MM:SS`` (UTC) names, or None when it is malformed."""
    if _SECOND.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def format_second(instant: datetime) -> str:
    """Return ``instant`` as ``YYYY-MM-DDTHH:MM:SS`` in UTC, the form of a raw row's timestamp."""
    return instant.astimezone(UTC).isoformat()[:19]


@lru_cache(maxsize=4096)
def format_instant(instant: datetime) -> str:
    """Return ``instant`` as ``YYYY-MM-DDTHH:MM:SSZ``, the form of every time that we store."""
    return f"{instant.astimezone(UTC).isoformat()[:19]}Z"


@lru_cache(maxsize=4096)
def parse_instant(text: str) -> datetime:
    """Return the instant of a stored ``YYYY-MM-DDTHH:MM:SSZ``.

    Raises
    ------
    ValueError
        The text has another form.
    """
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def month_wall(hour: datetime) -> datetime:
    """Return the instant from which the Marketplace refuses ``hour`` because its month is closed."""
    return _month_wall(hour.year, hour.month)


@lru_cache(maxsize=256)
def _month_wall(year: int, month: int) -> datetime:
    year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    return datetime(year, month, 1, MONTH_WALL_HOUR, tzinfo=UTC)


def is_previous_month(hour: datetime, now: datetime) -> bool:
    """Tell whether ``hour`` lies in a calendar month (UTC) before that of ``now``."""
    return (hour.year, hour.month) < (now.year, now.month)


@dataclass(frozen=True, slots=True)
class BillingWindow:
    """When an hour may be processed, sent and given up.

    Parameters
    ----------
    billable_hours
        Age, in hours from the hour's start, at which the Marketplace refuses a record (2..24; 24 per
        the BatchMeterUsage API reference).
    lock_hours
        Hours that a bucket stays open for late rows before it is first processed (1..20).
    """

    billable_hours: int = 24
    lock_hours: int = 1

    def deadline(self, hour: datetime) -> datetime:
        """Return the first instant at which a record of ``hour`` can no longer be billed."""
        return min(hour + self.billable_hours * HOUR, month_wall(hour))

    def is_billable(self, hour: datetime, now: datetime) -> bool:
        """Tell whether a record of ``hour`` would be taken at ``now``: neither too old nor in the future."""
        return hour <= now < self.deadline(hour)

    def raw_deadline(self, hour: datetime) -> datetime:
        """Return when raw rows of ``hour`` age out: previous-month rows wait for the month wall."""
        too_old = hour + self.billable_hours * HOUR
        if is_previous_month(hour, too_old):
            return month_wall(hour)
        return too_old

    def last_processed_from(self, hour: datetime, license_expiry: datetime | None = None) -> datetime:
        """Return the start of the last hour in which ``hour`` is still processed.

        From then on nothing is put off any more: a zero total is sent, and a group with bad rows is
        billed for its valid part. A licence's expiry counts like the window and the month wall.
        """
        last = self.deadline(hour)
        if license_expiry is not None:
            last = min(last, license_expiry)
        return last - HOUR

    def meters(self, hour: datetime, now: datetime) -> bool:
        """Tell whether meter mode processes ``hour`` at ``now``: complete, unlocked and billable."""
        if not self.is_billable(hour, now):
            return False
        lock = self.lock_hours
        if is_previous_month(hour, now) and now.hour >= MONTH_UNLOCK_HOUR:
            lock = 1
        return hour <= floor_hour(now) - lock * HOUR

    def ages_out(self, hour: datetime, now: datetime) -> bool:
        """Tell whether raw rows of ``hour`` are past the point at which they could be processed."""
        return now >= self.raw_deadline(hour)

    def lookback(self, now: datetime) -> list[datetime]:
        """Return the hours, newest first, in which something past its deadline may be found at ``now``.

        They reach from the last complete hour (after the month wall even a young one can be past its
        deadline) to seven days past the window.
        """
        current = floor_hour(now)
        count = self.billable_hours + LOOKBACK_PAST_WINDOW // HOUR
        return [current - back * HOUR for back in range(1, count + 1)]

    def expiry_hours(self, now: datetime) -> list[datetime]:
        """Return the hours of the look-back that one expiry run at ``now`` reads, newest first.

        A record's deadline never lies further back than the window, so the hours around it are read by every
        run. What is older can be pending only after an outage: those hours take turns, three runs for all.
        """
        turn = now.minute // EXPIRY_INTERVAL_MINUTES % EXPIRY_TURNS
        near = self.billable_hours + EXPIRY_NEAR_HOURS
        return [
            hour
            for back, hour in enumerate(self.lookback(now), start=1)
            if back <= near or hour.hour % EXPIRY_TURNS == turn
        ]

    def is_forgotten(self, hour: datetime, now: datetime) -> bool:
        """Tell whether ``hour`` lies further back than anybody looks.

        Its rows may have been deleted by their TTL, at least two days later: a fold would not see what was
        written.
        """
        return now >= hour + self.billable_hours * HOUR + LOOKBACK_PAST_WINDOW + HOUR

    def submittable_hours(self, now: datetime) -> list[datetime]:
        """Return the complete hours that may still be billed at ``now``, oldest first."""
        return list(_submittable_hours(self, floor_hour(now)))


@lru_cache(maxsize=1024)
def _submittable_hours(window: BillingWindow, current: datetime) -> tuple[datetime, ...]:
    # A deadline is a whole hour, so what is billable at the start of the current hour is so until its end.
    hours = [current - back * HOUR for back in range(window.billable_hours, 0, -1)]
    return tuple(hour for hour in hours if window.is_billable(hour, current))
