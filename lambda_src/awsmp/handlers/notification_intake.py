"""Lambda of the notifications tier's input queue; the mapping reports batch item failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_notifications import Runtime, production_runtime
from awsmp.handlers.sqs_batch import each_message


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the input queue."""
    return run(event, context, production_runtime("notification-intake"))


def run(event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, Any]:
    """Take one batch in and return the messages that have to come again.

    Raises
    ------
    BatchProcessingError
        Every message failed: the invocation counts as an error and the whole batch comes again.
    Misconfigured
        The function lacks a setting.
    """
    return each_message(event, runtime.intake().handle, runtime.telemetry)
