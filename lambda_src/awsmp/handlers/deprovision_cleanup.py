"""Lambda that closes licences whose hour for final usage is over; runs every 15 minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_events import Runtime, production_runtime
from awsmp.usecases.deprovision_cleanup import finalize_expired


def run(_event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, int]:
    """Finalise what has expired and return the counts.

    Raises
    ------
    StoreUnavailable, Misconfigured
        The index could not be read, or a licence could not be finalised (after trying all).
    """
    report = finalize_expired(runtime.subscribers(), runtime.clock, runtime.telemetry)
    runtime.telemetry.info("cleanup done", expired=report.expired, finalized=report.finalized)
    return {"expired": report.expired, "finalized": report.finalized}


def handler(event: Mapping[str, Any], context: Any) -> dict[str, int]:
    """Entry point of the 15-minute schedule."""
    return run(event, context, production_runtime("deprovision-cleanup"))
