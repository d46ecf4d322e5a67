"""Settings of the whole suite."""

from __future__ import annotations

import os

import hypothesis

# The same examples on every machine, and none that fails because a machine is slow; a soak draws its own.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
