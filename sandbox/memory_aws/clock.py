"""A clock that moves only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """An :class:`awsmp.domain.ports.Clock` for tests: ``sleep`` returns at once and moves the time on."""

    def __init__(self, start: datetime | None = None) -> None:
        """Begin at ``start`` (aware, UTC); by default on an ordinary Wednesday at noon."""
        self._now = start or datetime(2026, 7, 15, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the current simulated instant."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move the time on by ``seconds``; raises ValueError when negative."""
        if seconds < 0:
            raise ValueError(f"cannot sleep {seconds} seconds")
        self._now += timedelta(seconds=seconds)
