"""The specification: what the seller wrote, what the Marketplace answered, and which accounts follow.

Nothing here comes from the product. A group's account has to balance at every instant, what is billed is
what was answered ``Success``, and nothing is surfaced without a cause that the outside gave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

HOUR = timedelta(hours=1)
GRACE = timedelta(minutes=20)
FINAL_FLUSH = timedelta(minutes=57)  # after a licence's end; its unfinished hour is folded from then on
ZERO = Decimal(0)

# Reasons with a cause of their own; every other one is a flaw of a row.
LATE = {"LateAfterSubmission", "AfterFinalFlush"}
EXPIRED = {"SubmissionExpired", "AggregationExpired", "TimestampOutOfBoundsException"}


class GroupKey(NamedTuple):
    """One Region, licence, account, dimension and hour. A row that no group can claim is its own."""

    region: str
    license_arn: str
    account: str
    dimension: str
    hour: str


@dataclass(frozen=True, slots=True)
class Written:
    """A row as the seller last wrote it; ``flaw`` names what is wrong with it."""

    group: GroupKey
    quantity: Decimal
    at: datetime
    flaw: str | None = None


@dataclass(slots=True)
class Account:
    """What is to be seen of one group, outside and in the tables."""

    billed: Decimal = ZERO
    pending: Decimal = ZERO
    surfaced: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))


@dataclass(slots=True)
class Model:
    """A dict of rows and sums over it. ``lock`` and ``window`` are the deployment's, in hours."""

    lock: int
    window: int
    rows: dict[tuple[str, str, str], Written] = field(default_factory=dict)
    writes: dict[GroupKey, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    flaws: dict[GroupKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    answered: dict[GroupKey, Decimal] = field(default_factory=dict)
    closings: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    suspended: set[str] = field(default_factory=set)
    activated: dict[str, datetime] = field(default_factory=dict)
    troubles: list[datetime] = field(default_factory=list)
    dedup_is_global: bool = False
    resend_is_duplicate: bool = False

    def write(self, key: tuple[str, str, str], row: Written) -> None:
        """Book a row by Region, licence and sort key; it replaces what was written there before."""
        before = self.rows.get(key)
        self.rows[key] = row
        for group in {row.group, before.group if before else row.group}:
            self.writes[group].append(row.at)
        self.flaws[row.group] |= {row.flaw} if row.flaw else set()

    def written(self) -> Mapping[GroupKey, Decimal]:
        """Return what was written, by group."""
        sums: dict[GroupKey, Decimal] = defaultdict(Decimal)
        for row in self.rows.values():
            sums[row.group] += row.quantity
        return sums

    def deadline(self, group: GroupKey) -> datetime:
        """Return when a record of the group's hour is refused: too old, or its month closed at 06:00."""
        return _deadline(group.hour, self.window)

    def row_deadline(self, group: GroupKey) -> datetime:
        """Return when the group's raw rows age out; those of a previous month wait for 06:00 of the 1st."""
        return _row_deadline(group.hour, self.window)

    def first_folded(self, group: GroupKey) -> datetime:
        """Return from when on a fold may have been sent: what is written before can never be late."""
        hour, unlocked = _hour(group), _unlocked(group.hour, self.lock)
        closings = [at for at in self.closings[group.license_arn] if at > hour - HOUR]
        flushes = [min(max(hour + HOUR, at), at + FINAL_FLUSH) for at in closings]
        return min(unlocked, *flushes) if flushes else unlocked

    def problems(self, seen: Mapping[GroupKey, Account]) -> Iterator[str]:
        """Yield every way in which the accounts ``seen`` break P1."""
        written = self.written()
        for group in sorted(written.keys() | seen.keys()):
            account = seen.get(group, Account())
            total = account.billed + account.pending + sum(account.surfaced.values(), ZERO)
            if written.get(group, ZERO) != total:
                yield f"P1 {group}: {written.get(group, ZERO)} written, but {total} in {account}"
            if account.billed not in (ZERO, self.answered.get(group, ZERO)):
                yield f"P1 {group}: {account.billed} billed without a Success for it"
            for reason, quantity in account.surfaced.items():
                if quantity != ZERO and not self.allows(group, reason):
                    yield f"P1 {group}: {quantity} surfaced as {reason} without a cause"

    def allows(self, group: GroupKey, reason: str) -> bool:
        """Tell whether something that happened outside makes ``reason`` right for the group."""
        if reason in self.flaws[group] or group.hour.startswith("row:"):
            return reason in self.flaws[group]
        hour = _hour(group)
        closings, last = self.closings[group.license_arn], max(self.writes[group], default=hour)
        if reason in LATE:
            return last >= self.first_folded(group)
        if reason in EXPIRED:
            return last >= self.deadline(group) - HOUR - GRACE or self._troubled(hour, self.deadline(group))
        if reason == "CustomerNotSubscribed":
            ends = [
                at for at in closings if last >= at + FINAL_FLUSH or self._troubled(at - GRACE, at + HOUR)
            ]
            return group.account in self.suspended or bool(ends)
        if reason == "InvalidLicenseException":
            return hour < self.activated[group.license_arn]
        if reason == "PossibleUnderBilling" and not self.resend_is_duplicate:
            return self.dedup_is_global and any(g[1:] == group[1:] and g != group for g in self.writes)
        unsure = {"OutcomeUnknown", "PossibleUnderBilling"}
        return reason in unsure and self._troubled(hour, self.deadline(group))

    def _troubled(self, start: datetime, end: datetime) -> bool:
        return any(start <= at <= end + GRACE for at in self.troubles)


def _hour(group: GroupKey) -> datetime:
    return _start(group.hour)


# A calendar does not change: each of these is asked again for every group after every step.


@lru_cache(maxsize=4096)
def _start(hour: str) -> datetime:
    return datetime.fromisoformat(hour).replace(tzinfo=UTC)


@lru_cache(maxsize=4096)
def _deadline(hour: str, window: int) -> datetime:
    return min(_start(hour) + window * HOUR, _next_month(_start(hour)).replace(hour=6))


@lru_cache(maxsize=4096)
def _row_deadline(hour: str, window: int) -> datetime:
    too_old = _start(hour) + window * HOUR
    return too_old if too_old.isoformat()[:7] == hour[:7] else too_old.replace(day=1, hour=6)


@lru_cache(maxsize=4096)
def _unlocked(hour: str, lock: int) -> datetime:
    start = _start(hour)
    return min(start + lock * HOUR, max(start + HOUR, _next_month(start).replace(hour=3)))


def _next_month(hour: datetime) -> datetime:
    return (hour.replace(day=1, hour=0) + timedelta(days=32)).replace(day=1)
