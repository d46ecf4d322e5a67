"""A registration: what it stores, who wins, and that a retry completes whatever a fault has interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from awsmp.adapters.dynamodb import from_wire
from awsmp.adapters.event_bus import EventBuses
from awsmp.adapters.parked_events_store import ParkedEventsStore
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.composition_registration import Runtime
from awsmp.domain.errors import Misconfigured
from awsmp.domain.ports import Metric
from awsmp.usecases.subscription import AcceptedEvents, SubscriptionLifecycle
from sandbox.memory_aws import aws_error
from sandbox.registration_server import PROFILE_TABLE, SUBSCRIBERS_TABLE, RecordedTelemetry
from sandbox.tables import customer_profile_table, subscribers_table
from tests.unit.lifecycle_support import RecordingTelemetry, schedules
from tests.unit.registration_support import (
    ANSWERS,
    BUYER,
    OTHER_PRODUCT,
    PARKED_TABLE,
    PRODUCT,
    REGION,
    CallFault,
    Crash,
    FixedMarketplace,
    World,
    lost_answer,
    nothing,
    refused,
    undated,
)

LICENSE = "arn:aws:license-manager::111122223333:license:l-0a1b2c3d"
ANSWER = {"ProductCode": PRODUCT, "LicenseArn": LICENSE, "CustomerAWSAccountId": BUYER}
REGISTERED = (200, {"outcome": "registered"})
ALREADY = (200, {"outcome": "already-registered"})


def resolving(answer: dict[str, Any] | Exception) -> tuple[World, Runtime, FixedMarketplace]:
    world, marketplace = World(), FixedMarketplace(answer)
    return world, world.runtime(marketplace=marketplace), marketplace


# --- what is stored ---------------------------------------------------------------------------------


def test_form_data_are_kept_in_the_region_and_only_ids_in_the_subscribers_table() -> None:
    world = World()
    token = world.token()
    grant = world.marketplace.licenses()[0]
    assert world.register(token, offer_type="free-trial") == REGISTERED
    (profile,), (row,) = world.profiles(), world.subscribers()
    assert profile == {
        "licenseArn": grant.arn,
        "customerAWSAccountId": BUYER,
        "productCode": PRODUCT,
        "agreementId": grant.agreement_id,
        "offerType": "free-trial",
        "registrationData": {"email": "ada@example.com", "company": "Example Corp"},
        "email": "ada@example.com",
        "createdAt": "2026-07-15T12:00:00Z",
        "updatedAt": "2026-07-15T12:00:00Z",
    }
    assert row == {
        "licenseArn": grant.arn,
        "licenseArnSpellings": {grant.arn},
        "customerAWSAccountId": BUYER,
        "productCode": PRODUCT,
        "homeRegion": REGION,
        "registeredRegions": {REGION},
        "createdAt": "2026-07-15T12:00:00Z",
        "updatedAt": "2026-07-15T12:00:00Z",
        "version": 1,
    }


def test_a_profile_is_written_even_when_nothing_is_asked() -> None:
    world = World(registration_fields="[]", promoted_fields="[]")
    assert world.register(world.token(), {}) == REGISTERED
    (profile,) = world.profiles()
    assert profile["registrationData"] == {}
    assert not {"offerType", "email"} & profile.keys()


def test_a_field_that_is_not_answered_is_no_attribute() -> None:
    world = World(promoted_fields='["company"]')
    assert world.register(world.token(), {"email": " ada@example.com ", "company": " "}) == REGISTERED
    (profile,) = world.profiles()
    assert profile["registrationData"] == {"email": "ada@example.com"}
    assert "company" not in profile


def test_an_agreement_id_is_optional_and_the_legacy_identifier_unused() -> None:
    world, runtime, _ = resolving({**ANSWER, "CustomerIdentifier": "legacy-id"})
    assert world.register("t", runtime=runtime) == REGISTERED
    (profile,) = world.profiles()
    assert "agreementId" not in profile
    assert "legacy-id" not in json.dumps(world.state(), default=str)


@pytest.mark.parametrize(
    "spelling",
    [
        LICENSE,
        "arn:aws:license-manager:us-east-1:111122223333:license/l-0a1b2c3d",
        "arn:aws:license-manager::111122223333:license/L-0A1B2C3D",
        "aws:license-manager:us-east-1:111122223333:l-0a1b2c3d",
    ],
)
def test_every_spelling_of_a_licence_is_one_buyer(spelling: str) -> None:
    world, runtime, _ = resolving({**ANSWER, "LicenseArn": spelling})
    world.register("t", runtime=world.runtime(marketplace=FixedMarketplace(ANSWER)))
    assert world.register("t", runtime=runtime) == ALREADY
    (profile,), (row,) = world.profiles(), world.subscribers()
    assert profile["licenseArn"] == row["licenseArn"] == LICENSE
    assert {LICENSE, spelling} >= row["licenseArnSpellings"] >= {LICENSE}


def test_two_licences_of_one_account_are_two_buyers() -> None:
    world = World()
    assert [world.register(world.token()), world.register(world.token())] == [REGISTERED, REGISTERED]
    assert len({item["licenseArn"] for item in world.profiles()}) == 2
    assert len({item["licenseArn"] for item in world.subscribers()}) == 2
    assert {item["customerAWSAccountId"] for item in world.profiles()} == {BUYER}


def test_the_first_registration_wins_and_its_form_data_are_never_overwritten() -> None:
    world = World()
    token = world.token()
    assert world.register(token) == REGISTERED
    before = world.profiles()
    world.clock.sleep(60)
    assert world.register(token, {"email": "eve@example.com"}, offer_type="free-trial") == ALREADY
    assert world.profiles() == before


def test_a_second_region_is_added_and_the_first_stays_home() -> None:
    world = World()
    token = world.token()
    world.register(token)
    world.settings = World(region="ap-southeast-2").settings
    world.register(token)
    (row,) = world.subscribers()
    assert (row["homeRegion"], row["registeredRegions"]) == (REGION, {REGION, "ap-southeast-2"})


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ("InvalidTokenException", 400, "InvalidToken"),
        ("ExpiredTokenException", 400, "ExpiredToken"),
        ("ValidationException", 400, "InvalidToken"),
        ("SerializationException", 400, "InvalidToken"),
        ("ThrottlingException", 429, "Throttled"),
        ("TooManyRequestsException", 429, "Throttled"),
        ("InternalServiceErrorException", 503, "Unavailable"),
        ("ServiceUnavailable", 503, "Unavailable"),
        ("DisabledApiException", 500, "Misconfigured"),
        ("AccessDeniedException", 500, "Misconfigured"),
        ("UnrecognizedClientException", 500, "Misconfigured"),
    ],
)
def test_what_resolve_customer_raises_has_a_code_that_the_page_knows(
    error: str, status: int, code: str
) -> None:
    world, runtime, _ = resolving(refused(error))
    assert world.register("t", runtime=runtime) == (status, {"error": code})
    assert world.state() == ([], [])


def test_no_answer_of_resolve_customer_is_a_moments_failure() -> None:
    world, runtime, _ = resolving(lost_answer())
    assert world.register("t", runtime=runtime) == (503, {"error": "Unavailable"})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ProductCode": OTHER_PRODUCT}, "WrongProduct"),
        ({"ProductCode": ""}, "WrongProduct"),
        ({"ProductCode": PRODUCT.upper()}, "WrongProduct"),
        ({"ProductCode": OTHER_PRODUCT, "LicenseArn": ""}, "WrongProduct"),
        ({"LicenseArn": ""}, "MissingLicense"),
        ({"LicenseArn": None}, "MissingLicense"),
        ({"LicenseArn": "no licence"}, "MissingLicense"),
        ({"LicenseArn": "arn:aws:license-manager::111122223333:license:"}, "MissingLicense"),
        ({"CustomerAWSAccountId": ""}, "MissingLicense"),
        ({"CustomerAWSAccountId": None}, "MissingLicense"),
        ({"CustomerAWSAccountId": "customer-1"}, "MissingLicense"),
    ],
)
def test_a_buyer_of_something_else_or_without_a_licence_is_not_stored(
    changes: dict[str, str | None], code: str
) -> None:
    world, runtime, _ = resolving({**ANSWER, **changes})
    assert world.register("t", runtime=runtime) == (400, {"error": code})
    assert world.state() == ([], [])


def test_fields_are_checked_before_the_token_is_used() -> None:
    world, runtime, marketplace = resolving(ANSWER)
    answer = world.register("t", {"email": "nobody", "nickname": "x"}, runtime=runtime)
    faults = {"email": "InvalidEmail", "nickname": "UnknownField"}
    assert answer == (422, {"error": "InvalidFields", "fields": faults})
    assert marketplace.tokens == []
    assert world.state() == ([], [])


def test_an_expired_token_is_mended_by_a_fresh_one_for_the_same_licence() -> None:
    world = World()
    token = world.token()
    world.marketplace.expire_token(token)
    assert world.register(token) == (400, {"error": "ExpiredToken"})
    assert world.register(world.marketplace.mint_token(world.marketplace.licenses()[0].arn)) == REGISTERED


@pytest.mark.parametrize("setting", ["customer_profile_table", "subscribers_table", "product_code", "region"])
def test_a_missing_setting_is_an_answer_and_named_in_the_log(setting: str) -> None:
    world = World(**{setting: ""})
    assert world.register(world.token()) == (500, {"error": "Misconfigured"})
    assert isinstance(world.telemetry, RecordedTelemetry)
    assert world.telemetry.metrics == [Metric.REGISTRATION_FAILED]
    assert "is not set" in str(world.telemetry.lines[-1][1]["told"])
    assert world.state() == ([], [])


@pytest.mark.parametrize(
    "settings",
    [
        {"registration_fields": "{"},
        {"promoted_fields": '["nickname"]'},
        {"promoted_fields": "email"},
        {"promoted_fields": '"email"'},
        {"promoted_fields": "[1]"},
        {"allowed_origins": "*"},
        {"allowed_origins": '[""]'},
        {"customer_profile_table": "no-such-table"},
        {"subscribers_table": "no-such-table"},
    ],
)
def test_a_malformed_setting_is_an_answer(settings: dict[str, str]) -> None:
    world = World(**settings)
    assert world.register(world.token()) == (500, {"error": "Misconfigured"})


@pytest.mark.parametrize(
    ("name", "kind"), [("licenseArn", "text"), ("registrationData", "text"), ("terms", "checkbox")]
)
def test_a_field_that_cannot_be_an_indexed_attribute_is_not_promoted(name: str, kind: str) -> None:
    fields = [{"name": name, "label": "x", "type": kind, "maxLength": 9, "required": False}]
    world = World(registration_fields=json.dumps(fields), promoted_fields=json.dumps([name]))
    with pytest.raises(Misconfigured):
        world.settings.form()


# --- crashes and lost answers -----------------------------------------------------------------------


def uninterrupted() -> tuple[int, tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    world, fault = World(), CallFault()
    assert world.register(world.token(), runtime=world.interrupted_by(fault)) == REGISTERED
    return fault.calls, world.state()


CALLS, COMPLETE = uninterrupted()


def test_a_registration_makes_five_calls_and_a_repeated_one_writes_nothing_new() -> None:
    world, fault = World(), CallFault()
    token = world.token()
    world.register(token)
    items = world.profiles(), world.subscribers()
    assert world.register(token, runtime=world.interrupted_by(fault)) == ALREADY
    assert (CALLS, fault.calls) == (5, 4)
    assert (world.profiles(), world.subscribers()) == items


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("number", range(CALLS))
def test_after_a_crash_at_any_call_the_buyers_retry_completes_the_registration(
    number: int, after: bool
) -> None:
    world = World()
    token = world.token()
    with pytest.raises(Crash):
        world.register(token, runtime=world.interrupted_by(CallFault(number, after)))
    profile_was_written = bool(world.profiles())
    assert world.register(token) == (ALREADY if profile_was_written else REGISTERED)
    assert world.state() == COMPLETE


FAULTS: dict[str, tuple[Callable[[], Exception], int, str]] = {
    "no answer": (lost_answer, 503, "Unavailable"),
    "server error": (lambda: aws_error("dynamodb", "Call", "InternalServerError", "x"), 503, "Unavailable"),
    "throttled": (lambda: aws_error("dynamodb", "Call", "ThrottlingException", "x"), 503, "Unavailable"),
    "denied": (lambda: aws_error("dynamodb", "Call", "AccessDeniedException", "x"), 500, "Misconfigured"),
}


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("number", range(1, CALLS))
@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_fails_at_any_call_is_told_and_the_buyers_retry_completes_the_registration(
    fault: str, number: int, after: bool
) -> None:
    error, status, code = FAULTS[fault]
    world = World()
    token = world.token()
    interrupted = world.interrupted_by(CallFault(number, after, error()))
    assert world.register(token, runtime=interrupted) == (status, {"error": code})
    assert world.register(token)[0] == 200
    assert world.state() == COMPLETE


@pytest.mark.parametrize("after", [False, True])
def test_a_token_good_for_one_use_whose_answer_is_lost_is_mended_by_a_fresh_one(after: bool) -> None:
    world = World()
    world.marketplace.configure(token_repeatable=False)
    token = world.token()
    interrupted = world.interrupted_by(CallFault(0, after, lost_answer()))
    assert world.register(token, runtime=interrupted) == (503, {"error": "Unavailable"})
    again = world.register(token)
    assert again == ((400, {"error": "ExpiredToken"}) if after else REGISTERED)
    if after:
        assert world.state() == ([], [])
        fresh = world.marketplace.mint_token(world.marketplace.licenses()[0].arn)
        assert world.register(fresh) == REGISTERED
    assert world.state() == COMPLETE


# --- two at once ------------------------------------------------------------------------------------


def lifecycle(world: World, switch: Callable[[], None]) -> SubscriptionLifecycle:
    client = world.dynamodb.client(before_call=lambda _service, _operation, _kwargs: switch())
    return SubscriptionLifecycle(
        subscribers=SubscribersStore(client, SUBSCRIBERS_TABLE, world.clock),
        agreement_log=ParkedEventsStore(client, PARKED_TABLE, world.clock),
        forwarder=EventBuses({}, lambda _region: pytest.fail("nothing is forwarded")),
        accepted=AcceptedEvents(frozenset({"aws.agreement-marketplace"}), frozenset({PRODUCT}), None),
        clock=world.clock,
        telemetry=RecordingTelemetry(),
    )


class Race:
    """A fresh world for every interleaving, its tasks, and what they were answered."""

    def __init__(self, prepare: Callable[[World], list[Callable[[Callable[[], None]], Any]]]) -> None:
        self._prepare = prepare
        self.world = World()
        self.answers: list[Any] = []

    def build(
        self,
    ) -> tuple[Sequence[Callable[[], None]], Callable[[Callable[[], None]], None]]:
        self.world, self.answers = World(), []
        switches: list[Callable[[], None]] = []

        def run(task: Callable[[Callable[[], None]], Any]) -> None:
            self.answers.append(task(switches[0]))

        tasks = [lambda task=task: run(task) for task in self._prepare(self.world)]
        return tasks, switches.append


@pytest.mark.slow
def test_of_two_submits_at_once_exactly_one_is_told_that_it_registered() -> None:
    def prepare(world: World) -> list[Callable[[Callable[[], None]], Any]]:
        token = world.token()

        def submit(company: str) -> Callable[[Callable[[], None]], Any]:
            values = {**ANSWERS, "company": company}
            return lambda switch: (
                company,
                world.register(token, values, runtime=world.runtime(before=switch, strict=False)),
            )

        return [submit("One"), submit("Two")]

    race = Race(prepare)

    def check() -> None:
        (winner,) = [company for company, answer in race.answers if answer == REGISTERED]
        assert [answer for company, answer in race.answers if company != winner] == [ALREADY]
        (profile,), rows = race.world.profiles(), undated(race.world.subscribers())
        assert profile["registrationData"] == {**ANSWERS, "company": winner}
        assert rows == COMPLETE[1]

    assert len(list(schedules(race.build, check))) > 900


@pytest.mark.slow
def test_a_registration_and_license_updated_lead_to_one_row_in_any_order_and_at_once() -> None:
    def prepare(world: World) -> list[Callable[[Callable[[], None]], Any]]:
        token = world.token(activate=False)
        _, event = world.marketplace.activate_license(world.marketplace.licenses()[0].arn)
        return [
            lambda switch: world.register(token, runtime=world.runtime(before=switch, strict=False)),
            lambda switch: lifecycle(world, switch).handle(json.dumps(event)),
        ]

    orders = []
    for order in ((0, 1), (1, 0)):
        world = World()
        tasks = prepare(world)
        for number in order:
            tasks[number](nothing)
        orders.append(world.state())
    assert orders[0] == orders[1]
    (row,) = orders[0][1]
    assert (row["subscriptionStatus"], row["registeredRegions"]) == ("active", {REGION})
    race = Race(prepare)

    def check() -> None:
        assert sorted(race.answers, key=str) == [REGISTERED, None]
        assert race.world.state() == orders[0]

    assert len(list(schedules(race.build, check))) > 900


def test_a_subscriber_row_that_never_holds_still_is_a_moments_failure_and_the_retry_completes_it() -> None:
    world = World()
    token = world.token()
    world.register(token)
    world.settings = World(region="ap-southeast-2").settings
    rival = world.dynamodb.client()

    def disturb() -> None:
        rival.update_item(
            TableName=SUBSCRIBERS_TABLE,
            Key={
                "licenseArn": {"S": world.marketplace.licenses()[0].arn},
                "customerAWSAccountId": {"S": BUYER},
            },
            UpdateExpression="ADD version :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    assert world.register(token, runtime=world.runtime(before=disturb)) == (503, {"error": "Unavailable"})
    assert world.register(token) == ALREADY
    assert world.subscribers()[0]["registeredRegions"] == {REGION, "ap-southeast-2"}


def test_another_dynamodb_stores_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    world = World()
    token = world.token()
    with mock_aws():
        client = boto3.client("dynamodb", region_name=REGION)
        client.create_table(**customer_profile_table(PROFILE_TABLE, ["email"]))
        client.create_table(**subscribers_table(SUBSCRIBERS_TABLE))
        runtime = replace(world.runtime(), dynamodb=client, subscribers_dynamodb=client)
        assert world.register(token, runtime=runtime) == REGISTERED
        assert world.register(token, {"email": "eve@example.com"}, runtime=runtime) == ALREADY
        stored = [
            undated([from_wire(item) for item in client.scan(TableName=table)["Items"]])
            for table in (PROFILE_TABLE, SUBSCRIBERS_TABLE)
        ]
    assert tuple(stored) == COMPLETE


def test_the_profile_is_written_under_a_condition_and_nothing_else_is_asked_of_its_table() -> None:
    world = World()
    calls: list[tuple[str, str]] = []
    client = world.dynamodb.client(
        before_call=lambda _service, operation, kwargs: calls.append((operation, kwargs["TableName"]))
    )
    runtime = world.runtime()
    both = Runtime(runtime.settings, runtime.clock, runtime.telemetry, client, client, runtime.marketplace)
    world.register(world.token(), runtime=both)
    assert calls == [
        ("PutItem", PROFILE_TABLE),
        ("Query", SUBSCRIBERS_TABLE),
        ("GetItem", SUBSCRIBERS_TABLE),
        ("UpdateItem", SUBSCRIBERS_TABLE),
    ]
