"""Records of the subscribers table's stream, as Lambda hands them over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from awsmp.adapters.subscribers_store import MalformedRow, row_from_item
from awsmp.domain.subscribers import SubscriberRow
from awsmp.usecases.notifications.forward import StreamChange


def parse_stream_record(record: Mapping[str, Any]) -> StreamChange:
    """Return the change in one record of a stream with old and new images.

    Raises
    ------
    MalformedRow
        The record or an image has a form that ours never have.
    """
    try:
        change = record["dynamodb"]
        time = datetime.fromtimestamp(float(change["ApproximateCreationDateTime"]), UTC)
        event_id = str(record["eventID"])
        old, new = change.get("OldImage"), change.get("NewImage")
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise MalformedRow(f"a stream record cannot be read: {type(error).__name__}") from error
    return StreamChange(event_id, time.replace(microsecond=0), _row(old), _row(new))


def _row(image: Mapping[str, Any] | None) -> SubscriberRow | None:
    return None if image is None else row_from_item(image)
