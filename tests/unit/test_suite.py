"""What the suite relies on in its own tools."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests import time_slices
from tests.conftest import QUICK, SLOW, WIDE


@pytest.mark.xdist_group("one-worker")
def test_the_tests_of_a_group_stay_on_one_worker(request: pytest.FixtureRequest) -> None:
    """Else every worker would deploy a cloud of its own: pytest-xdist goes by the node's id."""
    if not request.config.getoption("loadgroup", default=False):
        return
    assert request.node.nodeid.endswith("@one-worker")


@pytest.fixture
def tracer_of_a_fixture() -> object:
    return sys.gettrace()


@pytest.mark.slow
def test_what_is_not_measured_is_not_traced(tracer_of_a_fixture: object) -> None:
    """The tracer doubles the time of what loops, and a worker of pytest-cov has two of them."""
    assert (tracer_of_a_fixture, sys.gettrace()) == (None, None)


def test_the_quick_tier_is_the_selection_for_which_slow_files_are_not_even_read() -> None:
    """Otherwise they would be read in vain, and the tier would miss its minute."""
    assert selections("test-fast") == [QUICK]
    here = Path(__file__).parents[1]
    assert [entry for entry in SLOW if not (here / entry).exists()] == []


def selections(target: str) -> list[str]:
    """Return what the runs of pytest in a target's recipe select."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.M)
    return [quoted or word for quoted, word in re.findall(r'pytest .*? -m (?:"([^"]*)"|(\w+))', recipe)]


@pytest.mark.parametrize("wide", [True, False])
def test_ci_runs_every_test_once(wide: bool) -> None:
    """`make test` has all but the wide ones, and these have a tier."""
    script = (Path(__file__).parents[2] / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    found = [
        target
        for target in ("test", "test-wide")
        for selection in selections(target)
        if f"make {target}" in script and Expression.compile(selection).evaluate(lambda name, /, **_: wide)
    ]

    assert WIDE in selections("test-wide")
    assert found == ["test-wide" if wide else "test"]


def test_the_processes_of_a_run_compute_for_long_and_what_they_start_does_not() -> None:
    """An emulator that waited its turn behind every computing process would be slow to answer."""
    if not time_slices.lengthen():
        pytest.skip("this kernel gives no time slices on request")
    command = [sys.executable, "-c", "from tests.time_slices import current; print(current())"]
    root = Path(__file__).parents[2]
    started = int(subprocess.run(command, cwd=root, capture_output=True, check=True, text=True).stdout)

    assert time_slices.current() == time_slices.SLICE
    assert 0 < started < time_slices.SLICE
