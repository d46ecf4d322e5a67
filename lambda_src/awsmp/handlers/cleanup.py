"""Lambda: take the pending mark off rows that the ledger contains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_metering import MeteringRuntime, production_runtime
from awsmp.domain.messages import GroupWork, decode_cleanup, encode_work
from awsmp.handlers.sqs_batch import each_message
from awsmp.usecases.clean import clean_rows


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the cleanup queue."""
    return run(event, context, production_runtime("cleanup"))


def run(event: Mapping[str, Any], _context: Any, runtime: MeteringRuntime) -> dict[str, Any]:
    """Work off a batch of cleanup messages."""
    usage, ledger = runtime.usage(), runtime.ledger()
    work_queue = runtime.queue(runtime.settings.work_queue_url)

    def work(body: str) -> None:
        cleanup = decode_cleanup(body)
        if clean_rows(usage, ledger, runtime.clock, cleanup).refold:
            work_queue.send([encode_work(GroupWork(cleanup.group))])

    return each_message(event, work, runtime.telemetry)
