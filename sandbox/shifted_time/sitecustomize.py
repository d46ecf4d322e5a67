"""Run a whole Python process on a simulated clock, without the process knowing.

Python imports a module of this name from ``PYTHONPATH`` before anything else. Where the environment names a
clock file, the functions of :mod:`time` (and through them :mod:`datetime` and :mod:`logging`) tell the time
of that file. Child processes inherit both variables, so the emulator's Lambda workers follow the same clock.

The file can be changed at any moment: it holds an instant, the machine's monotonic time at which that
instant was, and how many simulated seconds pass in a second. Monotonic time itself is left alone: event
loops, locks and socket time-outs wait on the machine.

This file runs in interpreters that have none of the project's packages: standard library only.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Path of the clock file that a process has to follow.
CLOCK_VARIABLE: Final = "AWSMP_SANDBOX_CLOCK"
#: Process id; a process started directly by it ends when it is gone.
PARENT_VARIABLE: Final = "AWSMP_SANDBOX_PARENT"

#: Sleeps from here on (seconds) are waits of the simulated world; shorter ones are a program's own polling.
SHORTEST_SIMULATED_SLEEP: Final = 1.0
#: How soon a simulated sleep notices that another process moved the clock, in seconds of the machine; what
#: its own process does, it notices at once.
_POLL_SECONDS: Final = 0.05
_PARENT_POLL_SECONDS: Final = 0.5

# Kept from before anything is replaced.
_machine_sleep = time.sleep
_machine_monotonic = time.monotonic

_FORMAT: Final = struct.Struct("<ddd")
_CHECKSUM: Final = struct.Struct("<I")
_BYTES: Final = _FORMAT.size + _CHECKSUM.size


@dataclass(frozen=True)
class ClockState:
    """``instant`` (seconds since 1970) was at ``monotonic`` (seconds); since then time runs at ``speed``."""

    instant: float
    monotonic: float
    speed: float

    def at(self, monotonic: float) -> float:
        """Return the simulated time, in seconds since 1970."""
        return self.instant + (monotonic - self.monotonic) * self.speed


class SimulatedClock:
    """The clock in a file, shared by processes of one machine; any of them may move it."""

    def __init__(self, path: Path) -> None:
        """Open an existing file.

        Raises
        ------
        OSError
            There is none.
        """
        self._file = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        self._sleepers = _sleepers_of(path)
        self._changing = threading.Condition()

    @classmethod
    def create(cls, path: Path, instant: float, speed: float = 1.0) -> SimulatedClock:
        """Make the file: it is ``instant`` now. Raises ValueError for a speed that is not positive."""
        path.write_bytes(_encode(ClockState(instant, _machine_monotonic(), _positive(speed))))
        _sleepers_of(path).mkdir()
        return cls(path)

    def state(self) -> ClockState:
        """Return what the file holds.

        Raises
        ------
        ValueError
            The file is no clock.
        """
        # A reader may meet a write half-way: the checksum tells, and the next read sees it whole.
        for _ in range(1000):
            data = os.pread(self._file, _BYTES, 0)
            values, checksum = data[: _FORMAT.size], data[_FORMAT.size :]
            if checksum == _CHECKSUM.pack(zlib.crc32(values)):
                return ClockState(*_FORMAT.unpack(values))
        raise ValueError("the clock file is damaged")

    def now(self) -> float:
        """Return the simulated time, in seconds since 1970."""
        return self.state().at(_machine_monotonic())

    def advance(self, seconds: float) -> float:
        """Let ``seconds`` pass at once; return the time that it was at that moment, in seconds since 1970.

        Whoever asks for the time after the change is told that time or a later one.

        Raises
        ------
        ValueError
            ``seconds`` is negative: programs may rely on time not running backwards.
        """
        if not seconds >= 0:
            raise ValueError(f"the clock cannot go back by {seconds} seconds")
        with self._changing:
            state = self.state()
            moved = ClockState(state.instant + seconds, state.monotonic, state.speed)
            became = moved.at(_machine_monotonic())
            self._write(moved)
            self._changing.notify_all()
        return became

    def set_speed(self, speed: float) -> None:
        """From now on let ``speed`` simulated seconds pass in a second.

        Raises
        ------
        ValueError
            The speed is not positive: a wait on a clock that stands still would never end.
        """
        with self._changing:
            monotonic = _machine_monotonic()
            self._write(ClockState(self.state().at(monotonic), monotonic, _positive(speed)))
            self._changing.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait until ``seconds`` have passed on this clock, below a second on the machine's."""
        if seconds < SHORTEST_SIMULATED_SLEEP:
            _machine_sleep(seconds)
            return
        wake = self.now() + seconds
        with self._shown_asleep(wake), self._changing:
            while (left := wake - self.now()) > 0:
                self._changing.wait(min(left / self.state().speed, _POLL_SECONDS))

    def asleep(self) -> list[float]:
        """Return until when processes sleep on this clock in their main thread, in seconds since 1970.

        Whoever moves the clock can leave out a wait that everybody is in.
        """
        wakes = []
        for entry in self._sleepers.iterdir():
            process, _, wake = entry.name.partition("@")
            if _lives(int(process)):
                wakes.append(float(wake))
            else:
                entry.unlink(missing_ok=True)
        return wakes

    def close(self) -> None:
        """Release the file."""
        os.close(self._file)

    @contextmanager
    def _shown_asleep(self, wake: float) -> Iterator[None]:
        # A process whose main thread goes on is at work, whatever its other threads wait for.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        entry = self._sleepers / f"{os.getpid()}@{wake!r}"
        entry.touch()
        try:
            yield
        finally:
            entry.unlink(missing_ok=True)

    def _write(self, state: ClockState) -> None:
        os.pwrite(self._file, _encode(state), 0)


def _sleepers_of(path: Path) -> Path:
    return path.with_name(path.name + ".asleep")


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _encode(state: ClockState) -> bytes:
    values = _FORMAT.pack(state.instant, state.monotonic, state.speed)
    return values + _CHECKSUM.pack(zlib.crc32(values))


def _positive(speed: float) -> float:
    if not 0 < speed < float("inf"):
        raise ValueError(f"the clock's speed has to be positive, not {speed}")
    return speed


def install(clock: SimulatedClock) -> None:
    """Let this process live by ``clock``.

    Raises
    ------
    SystemExit
        :mod:`datetime` was imported before, with the machine's clock built in.
    """
    if "datetime" in sys.modules or "_datetime" in sys.modules:
        raise SystemExit("the simulated clock was installed too late: datetime is in use already")
    # The compiled datetime asks the operating system for the time, past anything that can be replaced.
    # Without it Python falls back to its own implementation, which asks the time module; likewise zoneinfo,
    # whose compiled form is built on the compiled datetime.
    for compiled in ("_datetime", "_zoneinfo"):
        sys.modules[compiled] = None  # type: ignore[assignment]

    functions = _TimeFunctions(clock)
    for name in ("time_ns", "gmtime", "localtime", "ctime", "strftime", "asctime", "clock_gettime"):
        setattr(time, name, getattr(functions, name))
    for name, function in {"time": clock.now, "sleep": clock.sleep}.items():
        setattr(time, name, function)


class _TimeFunctions:
    """The functions of :mod:`time` that read the clock when they are given no time.

    They are bound methods, because a class may hold one of them as an attribute, as logging's Formatter does:
    a plain function would become a method of that class.
    """

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._gmtime, self._localtime, self._ctime = time.gmtime, time.localtime, time.ctime
        self._strftime, self._asctime, self._clock_gettime = time.strftime, time.asctime, time.clock_gettime

    def _or_now(self, seconds: float | None) -> float:
        return self._clock.now() if seconds is None else seconds

    def time_ns(self) -> int:
        return int(self._clock.now() * 1e9)

    def gmtime(self, seconds: float | None = None, /) -> time.struct_time:
        return self._gmtime(self._or_now(seconds))

    def localtime(self, seconds: float | None = None, /) -> time.struct_time:
        return self._localtime(self._or_now(seconds))

    def ctime(self, seconds: float | None = None, /) -> str:
        return self._ctime(self._or_now(seconds))

    def strftime(self, form: str, moment: Any = None, /) -> str:
        return self._strftime(form, self.localtime() if moment is None else moment)

    def asctime(self, moment: Any = None, /) -> str:
        return self._asctime(self.localtime() if moment is None else moment)

    def clock_gettime(self, which: int, /) -> float:
        return self._clock.now() if which == time.CLOCK_REALTIME else self._clock_gettime(which)


def end_with(parent: int) -> None:
    """Ask this process to stop (SIGTERM) as soon as ``parent``, which has started it, is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            _machine_sleep(_PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


#: The clock that this process lives by; None where it lives by the machine's.
installed_clock: SimulatedClock | None = None

if __name__ == "sitecustomize":
    if os.environ.get(PARENT_VARIABLE) == str(os.getppid()):
        end_with(os.getppid())
    if CLOCK_VARIABLE in os.environ:
        try:
            installed_clock = SimulatedClock(Path(os.environ[CLOCK_VARIABLE]))
        except OSError as error:
            # Python only prints an ordinary exception here, and would go on with the machine's time.
            raise SystemExit(f"the clock file cannot be opened: {error}") from error
        install(installed_clock)
