"""Puts the functions of the events tier together: settings, clients, stores, use cases.

``Runtime`` takes clock, telemetry and clients as parameters, so that a simulation runs the handlers' own
``run(event, context, runtime)``; :func:`production_runtime` reads the environment once per process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from awsmp.adapters.dynamodb import DynamoDBClient
from awsmp.adapters.event_bus import EventBuses, EventsClient
from awsmp.adapters.parked_events_store import ParkedEventsStore
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.domain.errors import Misconfigured
from awsmp.domain.ports import Clock, Telemetry
from awsmp.usecases.notifications.forward import RowChangeForwarder
from awsmp.usecases.subscription import AcceptedEvents, SubscriptionLifecycle

MARKETPLACE_EVENT_SOURCE: Final = "aws.agreement-marketplace"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says; ``parked_events_table`` is needed by the subscription function only."""

    subscribers_table: str
    parked_events_table: str | None = None
    accepted: AcceptedEvents = field(
        default=AcceptedEvents(frozenset({MARKETPLACE_EVENT_SOURCE}), frozenset(), None)
    )
    forward_event_buses: Mapping[str, str] = field(default_factory=dict)
    environment: str = "default"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read the settings; an empty value counts as absent.

        Raises
        ------
        Misconfigured
            SUBSCRIBERS_TABLE is missing or FORWARD_EVENT_BUSES is no JSON map of texts.
        """
        table = environ.get("SUBSCRIBERS_TABLE", "")
        if not table:
            raise Misconfigured("SUBSCRIBERS_TABLE is not set")
        return cls(
            subscribers_table=table,
            parked_events_table=environ.get("PARKED_AGREEMENT_EVENTS_TABLE") or None,
            accepted=AcceptedEvents(
                sources=_names(environ.get("EVENT_SOURCES", "")) or frozenset({MARKETPLACE_EVENT_SOURCE}),
                product_codes=_names(environ.get("PRODUCT_CODES", "")),
                seller_account=environ.get("SELLER_ACCOUNT_ID") or None,
            ),
            forward_event_buses=_text_map("FORWARD_EVENT_BUSES", environ.get("FORWARD_EVENT_BUSES") or "{}"),
            environment=environ.get("ENVIRONMENT") or "default",
        )


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything that the handlers of the events tier reach the world through."""

    settings: Settings
    clock: Clock
    telemetry: Telemetry
    dynamodb: DynamoDBClient
    events_client_for: Callable[[str], EventsClient]

    def subscribers(self) -> SubscribersStore:
        """Return the store of subscriber rows."""
        return SubscribersStore(self.dynamodb, self.settings.subscribers_table, self.clock)

    def subscription_lifecycle(self) -> SubscriptionLifecycle:
        """Return the use case of the subscription function.

        Raises
        ------
        Misconfigured
            PARKED_AGREEMENT_EVENTS_TABLE is not set, or a forward bus is no event bus ARN.
        """
        if self.settings.parked_events_table is None:
            raise Misconfigured("PARKED_AGREEMENT_EVENTS_TABLE is not set")
        return SubscriptionLifecycle(
            subscribers=self.subscribers(),
            agreement_log=ParkedEventsStore(self.dynamodb, self.settings.parked_events_table, self.clock),
            forwarder=EventBuses(self.settings.forward_event_buses, self.events_client_for),
            accepted=self.settings.accepted,
            clock=self.clock,
            telemetry=self.telemetry,
        )

    def row_change_forwarder(self) -> RowChangeForwarder:
        """Return what forwards changes of subscriber rows.

        Raises
        ------
        Misconfigured
            FORWARD_EVENT_BUSES names no bus, or something that is no event bus ARN: no change may pass
            unforwarded.
        """
        if not self.settings.forward_event_buses:
            raise Misconfigured("FORWARD_EVENT_BUSES names no event bus")
        buses = EventBuses(self.settings.forward_event_buses, self.events_client_for)
        return RowChangeForwarder(buses, self.telemetry)


@cache
def production_runtime(service: str) -> Runtime:
    """Return the runtime of this process, made from its environment on the first call.

    ``service`` names the function in its logs.

    Raises
    ------
    Misconfigured
        A required setting is missing; every invocation fails with it until it is set.
    """
    import boto3  # noqa: PLC0415 - only the production runtime needs the SDK's clients
    from botocore.config import Config  # noqa: PLC0415

    from awsmp.adapters.system_clock import SystemClock  # noqa: PLC0415
    from awsmp.adapters.telemetry import LambdaTelemetry  # noqa: PLC0415

    settings = Settings.from_environment(os.environ)
    # The worst case of one call stays far below the function's time-out. A repeated write is safe: it is
    # conditional, and a lost answer shows as a failed condition.
    config = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 4})

    @cache
    def events_client_for(region: str) -> EventsClient:
        client: EventsClient = boto3.client("events", region_name=region, config=config)
        return client

    return Runtime(
        settings=settings,
        clock=SystemClock(),
        telemetry=LambdaTelemetry(service, environment=settings.environment),
        dynamodb=boto3.client("dynamodb", config=config),
        events_client_for=events_client_for,
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _text_map(setting: str, text: str) -> dict[str, str]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise Misconfigured(f"{setting} is not JSON") from error
    if not isinstance(parsed, dict) or not all(isinstance(value, str) for value in parsed.values()):
        raise Misconfigured(f"{setting} is not a map of texts")
    return parsed
