"""The production clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Implements :class:`awsmp.domain.ports.Clock` over ``time.time()``."""

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        return datetime.fromtimestamp(time.time(), UTC)

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""
        time.sleep(seconds)
