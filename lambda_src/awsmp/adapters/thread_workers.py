"""API calls beside the main thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime
from typing import cast

from awsmp.domain.ports import Clock


class ThreadWorkers:
    """Implements :class:`awsmp.domain.ports.Workers` with a pool of threads."""

    def __init__(self, clock: Clock, threads: int) -> None:
        """``threads`` is the most calls that run at once."""
        self._clock = clock
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="marketplace")
        self._running: set[Future[object]] = set()

    def start(self, call: Callable[[], object]) -> object:
        """See Workers."""
        future = self._pool.submit(call)
        self._running.add(future)
        return future

    def wait(self, until: datetime | None) -> list[tuple[object, Callable[[], object]]]:
        """See Workers."""
        timeout = None if until is None else max(0.0, (until - self._clock.now()).total_seconds())
        done, self._running = wait(self._running, timeout=timeout, return_when=FIRST_COMPLETED)
        return [(future, cast("Callable[[], object]", future.result)) for future in done]
