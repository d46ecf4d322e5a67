"""Lambda of the subscribers table's stream: forwards changes to the buses of the Regions that send mail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.adapters.notifications.row_stream import parse_stream_record
from awsmp.composition_events import Runtime, production_runtime
from awsmp.domain.ports import Metric
from awsmp.handlers.stream_batch import each_record


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the stream."""
    return run(event, context, production_runtime("subscriber-forwarder"))


def run(event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, Any]:
    """Forward one batch and return the records that have to come again.

    Raises
    ------
    PartialFailure
        No record was forwarded: the invocation counts as an error and the whole batch comes again.
    Misconfigured
        The function lacks a setting.
    """
    forwarder = runtime.row_change_forwarder()

    def forward(record: Mapping[str, Any]) -> None:
        if forwarder.forward(parse_stream_record(record)):
            runtime.telemetry.count(Metric.ROW_CHANGES_FORWARDED)

    return each_record(event, forward, runtime.telemetry)
