"""The simulated clock that whole processes can be put on."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.shifted_time import sitecustomize
from sandbox.shifted_time.sitecustomize import CLOCK_VARIABLE, ClockState, SimulatedClock

START = datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clock"


def _run(path: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    folder = Path(sitecustomize.__file__).parent
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        env={"PYTHONPATH": str(folder), CLOCK_VARIABLE: str(path), "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("speed", "passed", "expected"), [(1.0, 10.0, 10.0), (60.0, 10.0, 600.0), (0.5, 8.0, 4.0)]
)
def test_time_passes_at_the_speed_of_the_clock(speed: float, passed: float, expected: float) -> None:
    assert ClockState(START, 100.0, speed).at(100.0 + passed) == START + expected


def test_a_new_clock_starts_at_its_instant(path: Path) -> None:
    assert START <= SimulatedClock.create(path, START).now() < START + 5


def test_two_openings_of_a_file_tell_the_same_time(path: Path) -> None:
    one = SimulatedClock.create(path, START)
    other = SimulatedClock(path)
    one.advance(86400)
    assert other.now() >= START + 86400
    other.set_speed(1000)
    assert one.state().speed == 1000


def test_a_change_of_speed_does_not_make_time_jump(path: Path) -> None:
    clock = SimulatedClock.create(path, START, 1000)
    before = clock.now()
    clock.set_speed(1)
    assert 0 <= clock.now() - before < 1000


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_clock_never_stands_still(path: Path, speed: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        SimulatedClock.create(path, START, speed)
    with pytest.raises(ValueError, match="positive"):
        SimulatedClock.create(path, START).set_speed(speed)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_clock_never_goes_back(path: Path, seconds: float) -> None:
    with pytest.raises(ValueError, match="go back"):
        SimulatedClock.create(path, START).advance(seconds)


def test_a_damaged_file_is_no_time(path: Path) -> None:
    clock = SimulatedClock.create(path, START)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="damaged"):
        clock.now()


def test_a_long_sleep_follows_the_clock_and_a_short_one_the_machine(path: Path) -> None:
    clock = SimulatedClock.create(path, START, 100)
    began = time.monotonic()
    clock.sleep(10)
    assert clock.now() >= START + 10
    assert time.monotonic() - began < 5
    began = time.monotonic()
    clock.sleep(0.2)
    assert time.monotonic() - began >= 0.2


@contextmanager
def _sleeper(path: Path, clock: SimulatedClock) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """A process that sleeps for an hour on the clock, and until when it says that it sleeps."""
    folder = Path(sitecustomize.__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(3600)"],
        env={"PYTHONPATH": str(folder), CLOCK_VARIABLE: str(path)},
        text=True,
    )
    try:
        give_up = time.monotonic() + 20
        while not clock.asleep() and time.monotonic() < give_up:
            time.sleep(0.01)
        (wake,) = clock.asleep()
        yield process, wake
    finally:
        process.kill()
        process.wait()


def test_a_sleeper_is_seen_until_its_time_has_come(path: Path) -> None:
    clock = SimulatedClock.create(path, START)
    with _sleeper(path, clock) as (process, wake):
        assert START + 3600 <= wake < START + 3630
        clock.advance(wake - clock.now())
        assert process.wait(20) == 0
    assert clock.asleep() == []


def test_who_was_killed_sleeps_no_more(path: Path) -> None:
    clock = SimulatedClock.create(path, START)
    with _sleeper(path, clock):
        pass
    assert clock.asleep() == []
    assert list(path.with_name("clock.asleep").iterdir()) == []


def test_a_process_at_work_is_not_asleep_because_one_of_its_threads_is(path: Path) -> None:
    clock = SimulatedClock.create(path, START)
    sleeper = threading.Thread(target=clock.sleep, args=(3600,), daemon=True)
    sleeper.start()
    time.sleep(0.1)
    assert sleeper.is_alive()
    assert clock.asleep() == []
    clock.advance(3600)
    sleeper.join(20)
    assert not sleeper.is_alive()


@pytest.mark.parametrize(
    "expression",
    [
        "time.strftime('%Y-%m-%d')",
        "time.strftime('%Y-%m-%d', time.gmtime())",
        "time.strftime('%Y-%m-%d', time.localtime())",
        "str(datetime.datetime.fromtimestamp(time.time_ns() / 1e9).date())",
        "str(datetime.datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME)).date())",
        "str(datetime.datetime.now().date())",
        "str(datetime.datetime.now(datetime.timezone.utc).date())",
        "str(datetime.datetime.now(zoneinfo.ZoneInfo('UTC')).date())",
        "str(datetime.datetime.today().date())",
        "str(datetime.date.today())",
        "str(email.utils.parsedate_to_datetime(email.utils.formatdate()).date())",
        "logging.Formatter('%(asctime)s').format(logging.makeLogRecord({}))[:10]",
        "time.strftime('%Y-%m-%d', time.strptime(time.ctime()))",
        "time.strftime('%Y-%m-%d', time.strptime(time.asctime()))",
    ],
)
def test_every_way_to_ask_for_the_time_is_answered_by_the_clock(path: Path, expression: str) -> None:
    SimulatedClock.create(path, START)
    done = _run(path, f"import datetime, email.utils, logging, time, zoneinfo; print({expression})")
    assert (done.stdout, done.stderr) == ("2026-03-10\n", "")


def test_monotonic_time_is_left_alone(path: Path) -> None:
    SimulatedClock.create(path, START, 1000)
    before = time.monotonic()
    told = float(_run(path, "import time; print(time.monotonic())").stdout)
    assert before <= told <= time.monotonic()


def test_a_process_whose_clock_is_missing_does_not_run_on_the_machines_time(path: Path) -> None:
    done = _run(path, "print('ran')")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "cannot be opened" in done.stderr


def test_a_clock_that_would_be_installed_too_late_is_refused(path: Path) -> None:
    with pytest.raises(SystemExit, match="too late"):
        sitecustomize.install(SimulatedClock.create(path, START))


def test_a_process_ends_with_the_one_that_started_it(path: Path) -> None:
    SimulatedClock.create(path, START)
    folder = Path(sitecustomize.__file__).parent
    child = "import time\nprint('up', flush=True)\nwhile True: time.sleep(0.1)"
    parent = (
        "import os, subprocess, sys\n"
        f"env = {{'PYTHONPATH': {str(folder)!r}, {sitecustomize.PARENT_VARIABLE!r}: str(os.getpid())}}\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], env=env, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\nprint(child.pid, flush=True)\nos._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, check=True)
    pid = int(done.stdout)
    deadline = time.monotonic() + 15
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    # An orphan that has ended may stay in the process table until its new parent looks: no longer running.
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")
