"""Puts events on event buses, each in its own Region.

``PutEvents`` serves the buses of the Region that it is called in; routing across Regions exists for rule
targets only. So every bus is reached through a client of the Region that its ARN names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from awsmp.adapters.client_errors import translated
from awsmp.domain.errors import MeteringError, Misconfigured, StoreUnavailable

#: Most entries of one PutEvents request (EventBridge quotas).
MAX_ENTRIES: Final = 10

_BUS_ARN = re.compile(
    r"arn:aws[a-zA-Z-]*:events:([a-z0-9-]+):[0-9]{12}:event-bus/[/.\-_A-Za-z0-9]+", re.ASCII
)


class EventsClient(Protocol):
    """The call of boto3's EventBridge client that is made here."""

    def put_events(self, **kwargs: Any) -> dict[str, Any]:
        """Put up to ten entries."""
        ...


class EventBuses:
    """Named event buses, by ARN.

    Parameters
    ----------
    buses
        Bus ARN by a name of the deployment's own; none is fine.
    client_for
        Returns the client of a Region.

    Raises
    ------
    Misconfigured
        A value is no event bus ARN.
    """

    def __init__(self, buses: Mapping[str, str], client_for: Callable[[str], EventsClient]) -> None:
        self._client_for = client_for
        self._by_region: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, arn in sorted(buses.items()):
            match = _BUS_ARN.fullmatch(arn)
            if match is None:
                raise Misconfigured(f"FORWARD_EVENT_BUSES: {name} is not the ARN of an event bus")
            self._by_region[match[1]].append((name, arn))

    def forward(self, source: str, detail_type: str, time: datetime, detail: str) -> int:
        """Put one event on every bus and return the number of buses; ``detail`` is a JSON object.

        Every bus is tried before anything is raised. A retry after a partial failure puts the event a
        second time on the buses that had taken it: consumers tell by the original event's id.

        Raises
        ------
        StoreUnavailable, Misconfigured
            At least one bus has not taken the event.
        """
        failures: list[MeteringError] = []
        for region, buses in self._by_region.items():
            for start in range(0, len(buses), MAX_ENTRIES):
                chunk = buses[start : start + MAX_ENTRIES]
                entries = [
                    {
                        "EventBusName": arn,
                        "Source": source,
                        "DetailType": detail_type,
                        "Time": time,
                        "Detail": detail,
                    }
                    for _, arn in chunk
                ]
                try:
                    self._put(region, [name for name, _ in chunk], entries)
                except MeteringError as error:
                    failures.append(error)
        if failures:
            raise failures[0]
        return sum(len(buses) for buses in self._by_region.values())

    def _put(self, region: str, names: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> None:
        with translated("put events"):
            answer = self._client_for(region).put_events(Entries=list(entries))
        if answer.get("FailedEntryCount", 0):
            refused = [
                f"{name}: {entry['ErrorCode']}"
                for name, entry in zip(names, answer["Entries"], strict=True)
                if "ErrorCode" in entry
            ]
            raise StoreUnavailable(f"event buses have not taken the event: {', '.join(refused)}")
