"""Lambda: send pending ledger records to BatchMeterUsage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from awsmp.composition_metering import MeteringRuntime, production_runtime
from awsmp.domain.errors import Misconfigured
from awsmp.usecases.submit import Submitter


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the five-minute run (``submit``) and the minute's run (``deprovisioning``)."""
    return run(event, context, production_runtime("submitter"))


def run(event: Mapping[str, Any], context: Any, runtime: MeteringRuntime) -> dict[str, Any]:
    """Run the mode that ``event`` names; raises Misconfigured for any other input."""
    mode = event.get("mode")
    if mode not in {"submit", "deprovisioning"}:
        raise Misconfigured(f"the schedule's input names no mode of the submitter: {mode!r}")
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    submitter = Submitter(
        runtime.submission(), owner=context.aws_request_id, deadline=runtime.clock.now() + left
    )
    report = asdict(submitter.run(closing_only=mode == "deprovisioning"))
    if report["requests"] or report["billed"]:
        runtime.telemetry.info("submitted", **report)
    return report
