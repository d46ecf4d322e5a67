"""Forwards changes of subscriber rows to the event buses of the Regions that send notifications."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from awsmp.domain.notifications.intake_events import row_change_detail
from awsmp.domain.ports import Telemetry
from awsmp.domain.subscribers import SubscriberRow
from awsmp.usecases.subscription import EventForwarder

#: Source and detail type of the forwarded changes; the rule of every receiving Region matches them.
SUBSCRIBERS_SOURCE: Final = "awsmp.subscribers"
ROW_CHANGED: Final = "Subscriber Row Changed"


@dataclass(frozen=True, slots=True)
class StreamChange:
    """One record of the subscribers table's stream; ``time`` is when DynamoDB made it."""

    event_id: str
    time: datetime
    old: SubscriberRow | None
    new: SubscriberRow | None


@dataclass(frozen=True, slots=True)
class RowChangeForwarder:
    """Sends what concerns a notice, and nothing else of the row, to every bus."""

    forwarder: EventForwarder
    telemetry: Telemetry

    def forward(self, change: StreamChange) -> bool:
        """Forward one change and tell whether it concerned a notice.

        A retry after a partial failure puts it on some buses again; receivers drop what they have.

        Raises
        ------
        StoreUnavailable, Misconfigured
            At least one bus has not taken it.
        """
        detail = row_change_detail(change.event_id, change.time, change.old, change.new)
        if detail is None:
            return False
        body = json.dumps(detail, separators=(",", ":"))
        buses = self.forwarder.forward(SUBSCRIBERS_SOURCE, ROW_CHANGED, change.time, body)
        self.telemetry.info("subscriber row change forwarded", event=change.event_id, buses=buses)
        return True
