"""The pace of BatchMeterUsage requests: a token bucket on the caller's clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

#: Documented quota: 10 BatchMeterUsage requests a second per account and Region.
DEFAULT_REQUESTS_PER_SECOND: Final = 10

_FIRST_PENALTY: Final = 0.5
_LONGEST_PENALTY: Final = 8.0


@dataclass(slots=True)
class Pacer:
    """Spaces requests evenly, so that a quota counted in any second is met without a burst.

    After a throttled request the pace pauses, longer each time in a row, half of it by chance.
    """

    requests_per_second: float
    _next: datetime | None = field(default=None)
    _throttled: int = field(default=0)

    def next_turn(self, now: datetime) -> datetime:
        """Return when the next request may start; not before ``now``."""
        return now if self._next is None or self._next < now else self._next

    def take(self, now: datetime) -> None:
        """Use the turn that :meth:`next_turn` gave."""
        # Rounded up to the clock's grain: rounded down, a second could hold one request more.
        interval = timedelta(microseconds=math.ceil(1_000_000 / self.requests_per_second))
        self._next = self.next_turn(now) + interval

    def throttled(self, now: datetime, jitter: float) -> None:
        """Pause after a throttled request; ``jitter`` is a number in [0, 1)."""
        penalty = min(_LONGEST_PENALTY, _FIRST_PENALTY * 2**self._throttled)
        self._throttled += 1
        pause = timedelta(seconds=penalty / 2 + jitter * penalty / 2)
        self._next = max(self.next_turn(now), now + pause)

    def answered(self) -> None:
        """Forget earlier throttling: a request got through."""
        self._throttled = 0
