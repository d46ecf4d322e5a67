"""Lambda: find pending groups and enqueue them; age out what can no longer be processed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from awsmp.composition_metering import MeteringRuntime, production_runtime
from awsmp.domain.errors import Misconfigured
from awsmp.usecases.discover import age_out, flush_deprovisioning, meter

_MARGIN: Final = timedelta(seconds=15)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, int]:
    """Entry point. ``event`` is the constant input of a schedule target."""
    return run(event, context, production_runtime("discoverer"))


def run(event: Mapping[str, Any], context: Any, runtime: MeteringRuntime) -> dict[str, int]:
    """Run the mode that ``event`` names; raises Misconfigured for any other input."""
    settings = runtime.settings
    match event:
        case {"mode": "meter", "hourOffset": int(offset)}:
            return {"sent": meter(runtime.discovery(), runtime.queue(settings.work_queue_url), offset)}
        case {"mode": "ageout", "shard": int(shard)}:
            left = timedelta(milliseconds=context.get_remaining_time_in_millis())
            stop_at = runtime.clock.now() + left - _MARGIN
            return {"closed": age_out(runtime.aggregation(inline_cleanup=True), shard, stop_at=stop_at)}
        case {"mode": "flush-deprovisioning"}:
            queue = runtime.queue(settings.deprovision_work_queue_url)
            return {"sent": flush_deprovisioning(runtime.discovery(), queue, runtime.subscribers())}
    raise Misconfigured(f"the schedule's input names no mode of the discoverer: {dict(event)!r}")
