"""Time that moves only when somebody waits: a clock, and workers whose answers take virtual time.

Nothing here blocks or draws a random number, so a run that takes minutes on this clock takes
milliseconds and is the same run every time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

_AT_ONCE: Final = timedelta(0)


class VirtualClock:
    """Implements :class:`awsmp.domain.ports.Clock`; sleeping moves it on at once. Single-threaded."""

    def __init__(self, start: datetime) -> None:
        """Begin at ``start`` (aware).

        Raises
        ------
        ValueError
            ``start`` is naive.
        """
        if start.tzinfo is None:
            raise ValueError("a clock needs an aware instant")
        self._now = start

    def now(self) -> datetime:
        """Return the current virtual instant."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move on by ``seconds``, to the microsecond.

        Raises
        ------
        ValueError
            ``seconds`` is negative: a caller that computes such a pause would hang or spin in production.
        """
        self.advance(timedelta(seconds=seconds))

    def advance(self, span: timedelta) -> None:
        """Move on by ``span``; raises ValueError when it is negative."""
        if span < _AT_ONCE:
            raise ValueError(f"time cannot go back by {-span}")
        self._now += span

    def advance_to(self, instant: datetime) -> None:
        """Move on to ``instant``; an instant that is past already changes nothing."""
        self._now = max(self._now, instant)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A call's outcome, and when its caller may learn of it."""

    ready_at: datetime
    number: int
    handle: object
    result: Callable[[], object]


class VirtualWorkers:
    """Implements :class:`awsmp.domain.ports.Workers`: calls run at their start, answers come later.

    A call has its effect, and sees the clock, at the instant of :meth:`start`; its answer becomes visible
    ``latency`` seconds later. Any number of calls may be under way. What is no ``Exception`` (a simulated
    crash of the process) is raised at the start, because it ends the caller too.
    """

    def __init__(self, clock: VirtualClock, latency: float | Callable[[], float] = 0.0) -> None:
        """``latency`` in seconds, or a function that is asked for each call."""
        self._clock = clock
        self._latency: Callable[[], float] = latency if callable(latency) else lambda: latency
        self._numbers = itertools.count()
        self._running: list[_Answer] = []

    def start(self, call: Callable[[], object]) -> object:
        """See Workers."""
        handle = object()
        ready_at = self._clock.now() + timedelta(seconds=self._latency())
        self._running.append(_Answer(ready_at, next(self._numbers), handle, _run(call)))
        return handle

    def wait(self, until: datetime | None) -> list[tuple[object, Callable[[], object]]]:
        """See Workers; the clock moves on to the first answer, or to ``until`` when that comes first.

        Raises
        ------
        RuntimeError
            Nothing is under way and there is no ``until``: the caller would wait for ever.
        """
        first = min((answer.ready_at for answer in self._running), default=None)
        if first is None and until is None:
            raise RuntimeError("nothing is under way: waiting without a limit would never end")
        ends = min(instant for instant in (first, until) if instant is not None)
        self._clock.advance_to(ends)
        now = self._clock.now()
        done = sorted(
            (answer for answer in self._running if answer.ready_at <= now),
            key=lambda answer: (answer.ready_at, answer.number),
        )
        self._running = [answer for answer in self._running if answer.ready_at > now]
        return [(answer.handle, answer.result) for answer in done]


def _run(call: Callable[[], object]) -> Callable[[], object]:
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - kept for result(), as a thread pool does
        return _raiser(error)
    return lambda: value


def _raiser(error: Exception) -> Callable[[], object]:
    def raise_it() -> object:
        raise error

    return raise_it
