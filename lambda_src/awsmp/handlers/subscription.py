"""Lambda of the lifecycle events' queue; the event source mapping reports batch item failures."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from awsmp.composition_events import Runtime, production_runtime
from awsmp.domain.errors import MeteringError


def run(event: dict[str, Any], context: Any, runtime: Runtime) -> dict[str, Any]:
    """Handle one batch and return the messages that have to come again.

    Raises
    ------
    BatchProcessingError
        Every message failed: the invocation counts as an error and the whole batch comes again.
    Misconfigured
        The function lacks a setting.
    """
    lifecycle = runtime.subscription_lifecycle()

    def handle(record: SQSRecord) -> None:
        try:
            lifecycle.handle(record.body)
        except Exception as error:
            # Our own messages hold no buyer's identifier; a foreign one might.
            told = str(error) if isinstance(error, MeteringError) else ""
            runtime.telemetry.error(
                "message failed", message_id=record.message_id, error_type=type(error).__name__, error=told
            )
            raise

    response = process_partial_response(event, handle, BatchProcessor(EventType.SQS), context)
    return dict(response)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda entry point."""
    return run(event, context, production_runtime())
