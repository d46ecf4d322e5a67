"""Settings of the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# The same examples on every machine, and none that fails because a machine is slow; a soak draws its own.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

#: Where lines are counted as covered: a line that only a random run or a deployment reaches has no test that
#: names what it is for. It is also what the tracer costs least in.
COVERED = ("unit", "contract")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave every other folder's tests out of the coverage."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] not in COVERED:
            item.add_marker(pytest.mark.no_cover)
