"""Lambda: take the pending mark off rows that the ledger contains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_metering import MeteringRuntime, production_runtime
from awsmp.domain.messages import decode_cleanup
from awsmp.handlers.sqs_batch import each_message
from awsmp.usecases.clean import clean_rows


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the cleanup queue."""
    return run(event, context, production_runtime("cleanup"))


def run(event: Mapping[str, Any], _context: Any, runtime: MeteringRuntime) -> dict[str, Any]:
    """Work off a batch of cleanup messages."""
    usage = runtime.usage()
    return each_message(
        event, lambda body: clean_rows(usage, runtime.clock, decode_cleanup(body)), runtime.telemetry
    )
