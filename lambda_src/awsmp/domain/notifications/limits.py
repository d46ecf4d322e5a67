"""The bounds of the notifications tier, with their defaults and ranges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from awsmp.domain.errors import Misconfigured

_RANGES: Final = {
    "max_age": (timedelta(days=1), timedelta(days=30)),
    "stale_after": (timedelta(minutes=1), timedelta(minutes=1440)),
    "send_timeout": (timedelta(seconds=1), timedelta(seconds=120)),
    "feedback_retention": (timedelta(days=1), timedelta(days=3650)),
}
_COUNTS: Final = {"max_attempts": (1, 100), "batch": (1, 1000)}


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds an entry's life, a run's work and how long feedback is kept.

    Parameters
    ----------
    max_age
        Age of the event from which a notice is not worth sending any more (1 to 30 days).
    stale_after
        How long a claim stands before it is taken for abandoned (1 minute to 24 hours). It must exceed the
        sending function's time-out, or a slow sender and its successor could send the same delivery.
    max_attempts
        Claims of one entry after which it is not requeued (1 to 100).
    batch
        Most entries, suppressions or reports that one run handles (1 to 1,000).
    send_timeout
        The transport's time-out (1 to 120 seconds); no send begins that could outlast its claim.
    feedback_retention
        How long reports are kept (1 to 3,650 days). Suppressions outlive them.
    """

    max_age: timedelta = timedelta(days=7)
    stale_after: timedelta = timedelta(minutes=15)
    max_attempts: int = 10
    batch: int = 100
    send_timeout: timedelta = timedelta(seconds=30)
    feedback_retention: timedelta = timedelta(days=365)

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises
        ------
        Misconfigured
            A value is out of its range, or a claim could go stale while its provider is still being called.
        """
        for name, (least, most) in (*_RANGES.items(), *_COUNTS.items()):
            value = getattr(self, name)
            if not least <= value <= most:
                raise Misconfigured(f"{name} is {value}, which is not between {least} and {most}")
        if self.stale_after <= self.send_timeout:
            raise Misconfigured("stale_after must be longer than send_timeout")
