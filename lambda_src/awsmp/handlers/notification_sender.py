"""Lambda that sends what is due; runs every minute."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from awsmp.composition_notifications import Runtime, production_runtime

# For what a run still has to write and report when its last send has ended.
_MARGIN: Final = timedelta(seconds=5)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, int]:
    """Entry point of the minute's schedule."""
    return run(event, context, production_runtime("notification-sender"))


def run(_event: Mapping[str, Any], context: Any, runtime: Runtime) -> dict[str, int]:
    """Send what is due within the time that the invocation has left.

    Raises
    ------
    PartialFailure
        Something went wrong with an entry or a delivery; the others were done.
    Misconfigured, StoreUnavailable
        A setting, a secret or the table failed; what is due waits for the next run.
    """
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    sent = runtime.sender().run(runtime.clock.now() + left - _MARGIN)
    return {"ended": sent.ended, "lostClaims": sent.lost_claims, **sent.counts.as_mapping()}
