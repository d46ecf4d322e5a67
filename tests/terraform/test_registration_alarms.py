"""Each alarm of a registration, by its planned definition, on what the real handlers publish."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from awsmp.handlers import register
from tests.terraform.cloudwatch import Datapoint, PublishedTelemetry, state_at, states_over
from tests.terraform.tool import ModuleTest
from tests.unit.registration_support import (
    ANSWERS,
    BUYER,
    OTHER_PRODUCT,
    FixedMarketplace,
    World,
    http_event,
    post_form,
)
from tests.unit.registration_support import PRODUCT as RESOLVED_PRODUCT

pytestmark = pytest.mark.slow

#: The deployment's product code, under which its functions publish.
PRODUCT = "1example2product3code4567"
OURS = "AWSMarketplaceMetering"

Alarm = dict[str, Any]
Event = Callable[[World], int]


@pytest.fixture(scope="module")
def alarms(registration: ModuleTest) -> dict[str, Alarm]:
    return {r.key: r.values for r in registration.states["regional"].of_type("aws_cloudwatch_metric_alarm")}


def fired(alarms: dict[str, Alarm], happened: Event) -> tuple[int, set[str]]:
    """Return the status that the browser got, and the alarms on metrics of ours that it raised."""
    world = World()
    telemetry = PublishedTelemetry(world.clock, PRODUCT)
    world.telemetry = telemetry
    start = world.clock.now()
    status = happened(world)
    assert telemetry.datapoints
    return status, {
        key
        for key, alarm in alarms.items()
        if alarm["namespace"] == OURS
        and "ALARM" in states_over(alarm, telemetry.datapoints, start, world.clock.now())
    }


def refusal(code: str) -> FixedMarketplace:
    return FixedMarketplace(ClientError({"Error": {"Code": code, "Message": "no"}}, "ResolveCustomer"))


# --- what turns buyers away and none of them can mend ------------------------------------------------------


def a_marketplace_that_fails(world: World) -> int:
    runtime = world.runtime(marketplace=refusal("InternalServiceErrorException"))
    return world.register("t", runtime=runtime)[0]


def a_permission_that_is_missing(world: World) -> int:
    return world.register("t", runtime=world.runtime(marketplace=refusal("AccessDeniedException")))[0]


def a_region_without_resolve_customer(world: World) -> int:
    return world.register("t", runtime=world.runtime(marketplace=refusal("DisabledApiException")))[0]


def a_buyer_of_another_product(world: World) -> int:
    return world.register(world.token(product=OTHER_PRODUCT))[0]


def a_product_without_licences(world: World) -> int:
    answer = {"ProductCode": RESOLVED_PRODUCT, "CustomerAWSAccountId": BUYER}
    return world.register("t", runtime=world.runtime(marketplace=FixedMarketplace(answer)))[0]


@pytest.mark.parametrize(
    ("happened", "status", "key"),
    [
        (a_marketplace_that_fails, 503, "registration-failed"),
        (a_permission_that_is_missing, 500, "registration-failed"),
        (a_region_without_resolve_customer, 500, "registration-failed"),
        (a_buyer_of_another_product, 400, "registration-wrong-product"),
        (a_product_without_licences, 400, "registration-missing-license"),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_what_no_buyer_can_mend_raises_its_alarm_and_no_other(
    happened: Event, status: int, key: str, alarms: dict[str, Alarm]
) -> None:
    assert fired(alarms, happened) == (status, {key})


def test_every_alarm_on_a_metric_of_ours_is_driven_here(alarms: dict[str, Alarm]) -> None:
    assert {key for key, alarm in alarms.items() if alarm["namespace"] == OURS} == {
        "registration-failed",
        "registration-missing-license",
        "registration-wrong-product",
    }


# --- what buyers mend themselves, and what strangers send --------------------------------------------------


def a_registration(world: World) -> int:
    return world.register(world.token())[0]


def a_registration_sent_twice(world: World) -> int:
    token = world.token()
    assert world.register(token)[0] == 200
    return world.register(token)[0]


def a_token_that_expired(world: World) -> int:
    token = world.token()
    world.marketplace.expire_token(token)
    return world.register(token)[0]


def a_token_that_is_made_up(world: World) -> int:
    return world.register("nobody's")[0]


def a_field_left_out(world: World) -> int:
    return world.register(world.token(), {})[0]


def a_body_of_garbage(world: World) -> int:
    return int(register.run(http_event("POST", "/register", b"{"), None, world.runtime())["statusCode"])


def a_busy_marketplace(world: World) -> int:
    return world.register("t", ANSWERS, runtime=world.runtime(marketplace=refusal("ThrottlingException")))[0]


def a_post_without_a_token(world: World) -> int:
    return int(post_form(world.page_runtime(), b"email=")["statusCode"])


@pytest.mark.parametrize(
    ("happened", "status"),
    [
        (a_registration, 200),
        (a_registration_sent_twice, 200),
        (a_token_that_expired, 400),
        (a_token_that_is_made_up, 400),
        (a_field_left_out, 422),
        (a_body_of_garbage, 400),
        (a_busy_marketplace, 429),
        (a_post_without_a_token, 303),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_what_buyers_mend_and_strangers_send_wakes_nobody(
    happened: Event, status: int, alarms: dict[str, Alarm]
) -> None:
    assert fired(alarms, happened) == (status, set())


# --- what AWS publishes, and silence -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["page-errors", "page-throttles", "register-errors", "register-throttles", "registration-api-5xx"]
)
def test_the_first_buyer_who_is_turned_away_raises_the_alarm(key: str, alarms: dict[str, Alarm]) -> None:
    alarm, now = alarms[key], World().clock.now()
    at = now - timedelta(seconds=alarm["period"] / 2)

    def published(value: float) -> list[Datapoint]:
        return [Datapoint(alarm["namespace"], alarm["metric_name"], alarm["dimensions"], value, at)]

    assert state_at(alarm, published(1), now) == "ALARM"
    assert state_at(alarm, published(0), now) == "OK"


def test_an_hour_without_buyers_is_no_alarm_and_ends_every_one(alarms: dict[str, Alarm]) -> None:
    now = World().clock.now()

    assert {state_at(alarm, [], now, before="ALARM") for alarm in alarms.values()} == {"OK"}
