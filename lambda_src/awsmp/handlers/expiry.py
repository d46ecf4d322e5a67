"""Lambda: close ledger records that can no longer be billed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from awsmp.composition_metering import MeteringRuntime, production_runtime
from awsmp.usecases.expire import expire_pending

_MARGIN: Final = timedelta(seconds=15)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, int]:
    """Entry point of the five-minute schedule."""
    return run(event, context, production_runtime("expiry"))


def run(_event: Mapping[str, Any], context: Any, runtime: MeteringRuntime) -> dict[str, int]:
    """Close what is past its deadline."""
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    return {"closed": expire_pending(runtime.expiry(), stop_at=runtime.clock.now() + left - _MARGIN)}
