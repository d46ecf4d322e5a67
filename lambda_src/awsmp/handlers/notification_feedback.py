"""Lambda of the feedback queue: what SES reports of bounces and complaints, through SNS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.composition_notifications import Runtime, production_runtime
from awsmp.domain.notifications.feedback_events import NoFeedback, parse_sns_delivery
from awsmp.handlers.sqs_batch import each_message


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the feedback queue."""
    return run(event, context, production_runtime("notification-feedback"))


def run(event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, Any]:
    """Take one batch in and return the messages that have to come again.

    Raises
    ------
    BatchProcessingError
        Every message failed: the invocation counts as an error and the whole batch comes again.
    Misconfigured
        The function lacks a setting.
    """
    topic, intake = runtime.feedback_topic(), runtime.feedback()

    def take(body: str) -> None:
        feedback = parse_sns_delivery(body, topic)
        if isinstance(feedback, NoFeedback):
            runtime.telemetry.info("provider event without feedback", event=feedback.event)
        else:
            intake.handle(feedback)

    return each_message(event, take, runtime.telemetry)
