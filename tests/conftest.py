"""Settings of the whole suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import coverage
import hypothesis
import pytest

from tests import time_slices
from tests.privileges.judging import module_roles
from tests.privileges.plugin import JUDGE_UNUSED, Privileges, is_whole
from tests.privileges.recording import Recorder

# The same examples on every machine, and none that fails because a machine is slow; a soak draws its own.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

#: Where lines are counted as covered, but for the slow tests: a line that only a random run or a deployment
#: reaches has no test that names what it is for, and the tracer doubles the time of a test that loops.
COVERED = "unit"

#: What the quick tier selects.
QUICK = "not slow and not emulator"

#: What the wide tier selects.
WIDE = "wide"

#: Whole folders and modules that the quick tier leaves out: together they take longer than everything else.
SLOW = (
    "browser",
    "e2e",
    "simulation",
    "contract",
    "terraform/test_provider_range.py",
    "unit/notifications/test_crash_points.py",
    "unit/notifications/test_interleavings.py",
    "unit/notifications/test_profile_contacts.py",
    "unit/notifications/test_races.py",
    "unit/notifications/test_rare_calls.py",
    "unit/notifications/test_ses_transport.py",
    "unit/notifications/test_smtp_transport.py",
    "unit/notifications/test_store.py",
    "unit/test_build_packages.py",
    "unit/test_costs.py",
    "unit/test_handlers_moto.py",
    "unit/test_memory_aws_dynamodb.py",
    "unit/test_module_docs.py",
    "unit/test_money_at_risk.py",
    "unit/test_runbooks.py",
    "unit/test_shifted_time.py",
    "unit/test_submitter_pace.py",
    "unit/test_subscription_stores.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let any selection be judged by what it leaves unused; a run of everything always is."""
    parser.addoption(
        JUDGE_UNUSED, action="store_true", help="fail when a permission of a role was needed by no test"
    )


#: New objects between two looks of the garbage collector, instead of 700: in-memory tables hold hundreds of
#: thousands, in no cycles, and each look goes through them again.
GC_THRESHOLD = 50_000


def pytest_configure(config: pytest.Config) -> None:
    """Hold every AWS call of the functions against their roles."""
    time_slices.lengthen()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    judge_unused = config.getoption(JUDGE_UNUSED) or is_whole(config)
    privileges = Privileges(module_roles(), Recorder(), judge_unused=judge_unused)
    config.pluginmanager.register(privileges, "privileges")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Have a paused measurement be none: a worker of pytest-cov starts one inside another, which goes on."""
    plugin = session.config.pluginmanager.getplugin("_cov")
    controller = plugin.cov_controller if plugin is not None else None
    if controller is None or not hasattr(session.config, "workerinput"):
        return
    controller.pause()
    outer = coverage.Coverage.current()
    if outer is not None:
        outer.stop()
    controller.resume()


@cache
def _may_be_wide(file: Path) -> bool:
    """Tell whether a test file marks anything with ``wide``."""
    return "mark.wide" in file.read_text(encoding="utf-8")


def _is_slow(path: Path) -> bool:
    """Tell whether a folder or file below this one is slow as a whole."""
    relative = path.relative_to(Path(__file__).parent)
    return relative.as_posix() in SLOW or relative.parts[0] in SLOW


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read only files that can have what is asked for: all of them take each worker 15 s of a core."""
    named = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if config.option.markexpr == QUICK and named and _is_slow(collection_path):
        return True
    if config.option.markexpr == WIDE and named and not _may_be_wide(collection_path):
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave other folders' tests out of the coverage, and what is slow as a whole out of the quick tier."""
    here = Path(__file__).parent
    for item in items:
        if item.get_closest_marker(WIDE) and not _may_be_wide(item.path):
            raise pytest.UsageError(f"{item.nodeid} is marked from afar: `-m wide` would not find it")
        if _is_slow(item.path):
            item.add_marker(pytest.mark.slow)
        if item.path.relative_to(here).parts[0] != COVERED or item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.no_cover)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and tests themselves: they live as long as the process."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Leave the fixtures of an uncovered test out as well: pytest-cov leaves out its call only."""
    plugin = item.config.pluginmanager.getplugin("_cov")
    controller = plugin.cov_controller if plugin is not None else None
    if controller is None or not item.get_closest_marker("no_cover"):
        yield
        return
    controller.pause()
    try:
        yield
    finally:
        controller.resume()
