"""Closes licences whose hour for final usage is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from awsmp.domain.errors import ConditionFailed, MeteringError, StoreUnavailable
from awsmp.domain.ports import Clock, Metric, Telemetry


@dataclass(frozen=True, slots=True)
class PendingDeprovisioning:
    """One entry of the sparse deprovisioning index, as read; the row may have moved on since."""

    license_arn: str
    customer_account: str
    expiry: datetime


class DeprovisioningRows(Protocol):
    """The subscribers table, as far as finalisation needs it."""

    def expired(self, now: datetime) -> Sequence[PendingDeprovisioning]:
        """Return every entry whose expiry is at or before ``now``."""
        ...

    def finalize(self, pending: PendingDeprovisioning) -> None:
        """Make the row inactive without markers; ConditionFailed if its flag or expiry is not as read."""
        ...


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What one run found and did."""

    expired: int
    finalized: int


def finalize_expired(rows: DeprovisioningRows, clock: Clock, telemetry: Telemetry) -> CleanupReport:
    """Finalise every licence whose expiry has come; a failing one holds up no other.

    Two runs at once are harmless: the write is conditional on flag and expiry as read, so the slower one
    changes nothing, and neither does a run whose licence was revived in between.

    Raises
    ------
    StoreUnavailable
        At least one licence could not be finalised; raised after all have been tried. The next run finds
        it again.
    Misconfigured
        The index cannot be read for want of a permission or a table.
    """
    expired = rows.expired(clock.now())
    finalized = 0
    failures: list[MeteringError] = []
    for pending in expired:
        try:
            rows.finalize(pending)
        except ConditionFailed:
            telemetry.info("licence changed meanwhile, left alone", license_arn=pending.license_arn)
        except MeteringError as error:
            telemetry.error("licence not finalised", license_arn=pending.license_arn, error=str(error))
            failures.append(error)
        else:
            finalized += 1
            telemetry.count(Metric.LICENSES_FINALIZED)
    if failures:
        raise StoreUnavailable(
            f"{len(failures)} of {len(expired)} licences not finalised; the next run tries them again"
        ) from failures[0]
    return CleanupReport(expired=len(expired), finalized=finalized)
