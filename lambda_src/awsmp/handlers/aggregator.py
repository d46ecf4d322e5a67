"""Lambda: fold one group per message into the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_metering import MeteringRuntime, production_runtime
from awsmp.domain.messages import UnclaimedRow, decode_work
from awsmp.handlers.sqs_batch import each_message
from awsmp.usecases.aggregate import aggregate_group, reject_unclaimed


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the work and the deprovision-work queue."""
    return run(event, context, production_runtime("aggregator"))


def run(event: Mapping[str, Any], _context: Any, runtime: MeteringRuntime) -> dict[str, Any]:
    """Work off a batch of work messages."""
    aggregation = runtime.aggregation()

    def work(body: str) -> None:
        message = decode_work(body)
        if isinstance(message, UnclaimedRow):
            reject_unclaimed(aggregation, message)
        else:
            aggregate_group(aggregation, message.group, final_flush=message.final_flush)

    return each_message(event, work, runtime.telemetry)
