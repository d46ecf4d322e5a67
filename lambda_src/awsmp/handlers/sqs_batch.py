"""Partial batch responses: each message of a batch succeeds or fails on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from awsmp.domain.errors import MeteringError
from awsmp.domain.ports import Telemetry


def each_message(
    event: Mapping[str, Any], work: Callable[[str], object], telemetry: Telemetry
) -> dict[str, Any]:
    """Run ``work`` on every message body; return the ids of those that are to be delivered again.

    Raises
    ------
    BatchProcessingError
        Every message failed: the invocation counts as an error, and the whole batch comes again.
    """

    def handle(record: SQSRecord) -> None:
        try:
            work(record.body)
        except Exception as error:
            # Our own errors' texts hold no buyer's identifier; a foreign one might.
            told = str(error) if isinstance(error, MeteringError) else ""
            telemetry.error(
                "a message failed and is delivered again",
                messageId=record.message_id,
                error=type(error).__name__,
                told=told,
            )
            raise

    return dict(process_partial_response(dict(event), handle, BatchProcessor(EventType.SQS)))
