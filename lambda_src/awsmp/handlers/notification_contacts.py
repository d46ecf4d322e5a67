"""Lambda of the customer-profile tables' streams: verification requests, and news of verified contacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awsmp.adapters.notifications.profile_stream import parse_profile_record
from awsmp.composition_notifications import Runtime, production_runtime
from awsmp.handlers.stream_batch import each_record


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Entry point of the streams."""
    return run(event, context, production_runtime("notification-contacts"))


def run(event: Mapping[str, Any], _context: Any, runtime: Runtime) -> dict[str, Any]:
    """Follow one batch of changes and return the records that have to come again.

    Raises
    ------
    PartialFailure
        No record was done: the invocation counts as an error and the whole batch comes again.
    Misconfigured
        The function lacks a setting.
    """
    follower = runtime.contact_follower()
    return each_record(event, lambda record: follower.handle(parse_profile_record(record)), runtime.telemetry)
