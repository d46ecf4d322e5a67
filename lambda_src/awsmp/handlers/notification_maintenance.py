"""Lambda that recovers stale claims, requeues failed entries and purges feedback; runs every 5 minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from awsmp.composition_notifications import Runtime, production_runtime


def handler(event: Mapping[str, Any], context: Any) -> dict[str, int]:
    """Entry point of the five-minute schedule."""
    return run(event, context, production_runtime("notification-maintenance"))


def run(_event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, int]:
    """Do one bounded run and return its counts.

    Raises
    ------
    PartialFailure
        Some items failed; the others were done.
    Misconfigured, StoreUnavailable
        The function lacks a setting, or the table failed.
    """
    return asdict(runtime.maintenance().run())
