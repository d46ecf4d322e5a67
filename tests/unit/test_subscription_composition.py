"""Settings and runtime of the events tier's functions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from awsmp import composition_events
from awsmp.adapters.system_clock import SystemClock
from awsmp.adapters.telemetry import LambdaTelemetry
from awsmp.composition_events import Settings
from awsmp.domain.errors import Misconfigured
from awsmp.usecases.subscription import AcceptedEvents


def test_defaults_accept_the_marketplace_and_every_product() -> None:
    settings = Settings.from_environment({"SUBSCRIBERS_TABLE": "s"})
    accepted = AcceptedEvents(frozenset({"aws.agreement-marketplace"}), frozenset(), None)
    assert settings == Settings("s", None, accepted, {})


def test_every_setting_is_read() -> None:
    settings = Settings.from_environment(
        {
            "SUBSCRIBERS_TABLE": "s",
            "PARKED_AGREEMENT_EVENTS_TABLE": "p",
            "PRODUCT_CODES": "one, two,",
            "SELLER_ACCOUNT_ID": "111122223333",
            "EVENT_SOURCES": "aws.agreement-marketplace,sandbox.agreement-marketplace",
            "FORWARD_EVENT_BUSES": '{"n": "arn"}',
            "ENVIRONMENT": "sandbox",
        }
    )
    accepted = AcceptedEvents(
        frozenset({"aws.agreement-marketplace", "sandbox.agreement-marketplace"}),
        frozenset({"one", "two"}),
        "111122223333",
    )
    assert settings == Settings("s", "p", accepted, {"n": "arn"}, "sandbox")


def test_empty_values_count_as_absent() -> None:
    names = ["PARKED_AGREEMENT_EVENTS_TABLE", "PRODUCT_CODES", "SELLER_ACCOUNT_ID", "EVENT_SOURCES"]
    environ = {"SUBSCRIBERS_TABLE": "s", "FORWARD_EVENT_BUSES": "", **dict.fromkeys(names, "")}
    assert Settings.from_environment(environ) == Settings.from_environment({"SUBSCRIBERS_TABLE": "s"})


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, "SUBSCRIBERS_TABLE"),
        ({"SUBSCRIBERS_TABLE": ""}, "SUBSCRIBERS_TABLE"),
        ({"SUBSCRIBERS_TABLE": "s", "FORWARD_EVENT_BUSES": "{"}, "FORWARD_EVENT_BUSES"),
        ({"SUBSCRIBERS_TABLE": "s", "FORWARD_EVENT_BUSES": "[]"}, "FORWARD_EVENT_BUSES"),
        ({"SUBSCRIBERS_TABLE": "s", "FORWARD_EVENT_BUSES": '{"n": 1}'}, "FORWARD_EVENT_BUSES"),
    ],
)
def test_a_wrong_setting_is_named(environ: dict[str, str], named: str) -> None:
    with pytest.raises(Misconfigured, match=named):
        Settings.from_environment(environ)


def test_the_production_runtime_is_made_once_with_a_client_per_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, str | None]] = []

    def client(service: str, region_name: str | None = None, config: Any = None) -> Any:
        made.append((service, region_name))
        assert config.retries == {"mode": "standard", "total_max_attempts": 4}
        assert config.read_timeout + config.connect_timeout < 10
        return SimpleNamespace()

    monkeypatch.setattr(boto3, "client", client)
    monkeypatch.setenv("SUBSCRIBERS_TABLE", "s")
    monkeypatch.setenv("PARKED_AGREEMENT_EVENTS_TABLE", "p")
    composition_events.production_runtime.cache_clear()
    try:
        runtime = composition_events.production_runtime("subscription")
        assert composition_events.production_runtime("subscription") is runtime
        assert runtime.events_client_for("eu-west-1") is runtime.events_client_for("eu-west-1")
        runtime.events_client_for("us-east-1")
        runtime.subscription_lifecycle()
        assert isinstance(runtime.clock, SystemClock)
        assert isinstance(runtime.telemetry, LambdaTelemetry)
        assert made == [("dynamodb", None), ("events", "eu-west-1"), ("events", "us-east-1")]
    finally:
        composition_events.production_runtime.cache_clear()
