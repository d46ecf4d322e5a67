"""The demonstration's registrations: what they report, and that they notice a buyer who is not known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandbox.buyer import Buyer as Browser
from sandbox.cloud_stage import CloudStage
from sandbox.demo_registrations import Registrations, form_of, line_of
from sandbox.registration_server import PRODUCT, REGION, RegistrationServer, page_configuration
from sandbox.simulation.seller import Buyer
from sandbox.simulation.trace import read_trace
from sandbox.simulation.troubles import Plan

ACCOUNT = "555500000001"
FIELDS = [
    {"name": name, "label": name, "type": kind, "maxLength": 200, "required": False}
    for name, kind in (("email", "email"), ("name", "text"), ("company", "text"))
]


@dataclass
class ServerStage:
    """What the registrations need of a stage, on a server in this process; rows can be tampered with."""

    server: RegistrationServer
    deployment: Any = field(default_factory=lambda: SimpleNamespace(registration_region=REGION))
    lost: set[str] = field(default_factory=set)
    changed: dict[str, Any] = field(default_factory=dict)

    def mint_token(self, license_arn: str) -> str:
        return self.server.marketplace.mint_token(license_arn)

    def expire_token(self, token: str) -> None:
        self.server.expire(token)

    def browser(self) -> Browser:
        return Browser(self.server.fulfillment_url)

    def profiles(self) -> list[Any]:
        rows = self.server.profiles()
        return [] if "profiles" in self.lost else [row | self.changed for row in rows]

    def subscribers(self) -> list[Any]:
        return [] if "subscribers" in self.lost else self.server.subscribers()

    def buyer(self, customer: str) -> Buyer:
        agreement, _ = self.server.marketplace.create_agreement(PRODUCT, ACCOUNT)
        grant = self.server.marketplace.create_license(agreement.agreement_id)
        return Buyer(customer, grant.arn, ACCOUNT, agreement.agreement_id)


@pytest.fixture
def stage() -> Iterator[ServerStage]:
    with RegistrationServer(configuration=page_configuration(fields=FIELDS)) as server:
        yield ServerStage(server)


def started(stage: ServerStage) -> Registrations:
    return Registrations(cast("CloudStage", stage))


def plan(stage: ServerStage) -> Plan:
    return Plan(cast("CloudStage", stage), cast("Any", None), [], {})


def test_buyers_register_side_by_side_each_with_a_form_of_its_own(stage: ServerStage) -> None:
    registrations = started(stage)
    buyers = [stage.buyer(f"customer-{number}") for number in range(9)]
    registrations.register(buyers)
    assert registrations.problems() == []
    assert registrations.to_json() == {
        "registered": 9,
        "alreadyRegistered": 0,
        "refused": {},
        "profiles": 9,
    }
    assert len({str(row["registrationData"]) for row in stage.profiles()}) == 9


def test_the_planted_trouble_is_told_and_judged(stage: ServerStage) -> None:
    registrations, planned = started(stage), plan(stage)
    registrations.post_twice(planned, stage.buyer("customer-1"))
    registrations.expire(planned, stage.buyer("customer-2"))
    assert [(trouble.name, *trouble.judge({})) for trouble in planned.troubles] == [
        ("registration: a token posted twice", True, "registered, then already-registered: 1 profile"),
        ("registration: an expired token, then a new one", True, "ExpiredToken, then registered: 1 profile"),
    ]
    assert registrations.problems() == []
    told = "2 registered, 1 already registered, refused: 1 ExpiredToken; 2 profiles"
    assert line_of(registrations.to_json()) == told


def test_a_trouble_that_ends_otherwise_is_not_as_expected(stage: ServerStage) -> None:
    registrations, planned = started(stage), plan(stage)
    buyer = stage.buyer("customer-1")
    registrations.register([buyer])
    registrations.post_twice(planned, buyer)
    ((good, outcome),) = (trouble.judge({}) for trouble in planned.troubles)
    assert not good
    assert outcome == "registered, then already-registered, then already-registered: 1 profile"


@pytest.mark.parametrize(
    ("tamper", "problems"),
    [
        (lambda stage: stage.lost.add("profiles"), ["customer-1 has no profile with what was entered"]),
        (
            lambda stage: stage.changed.update(registrationData={"email": "other@example.com"}),
            ["customer-1 has no profile with what was entered"],
        ),
        (
            lambda stage: stage.changed.update(licenseArn="another"),
            ["customer-1 has no profile with what was entered", "1 profiles of nobody who registered"],
        ),
        (
            lambda stage: stage.lost.add("subscribers"),
            [f"customer-1 is no subscriber registered in {REGION}"],
        ),
    ],
    ids=["no profile", "another's form", "a stranger's profile", "no subscriber"],
)
def test_a_buyer_who_is_not_known_as_registered_is_a_problem(
    stage: ServerStage, tamper: Any, problems: list[str]
) -> None:
    registrations = started(stage)
    registrations.register([stage.buyer("customer-1")])
    tamper(stage)
    assert registrations.problems() == problems


def test_a_buyer_who_was_refused_or_met_no_answer_is_a_problem(stage: ServerStage) -> None:
    registrations = started(stage)
    stage.server.fail_next(3)
    registrations.register([stage.buyer("customer-1")])
    assert "customer-1 is not registered" in registrations.problems()
    ((code, count),) = registrations.to_json()["refused"].items()
    assert (code, count) == ("Unavailable", 1)


def test_no_customer_of_the_trace_shares_a_form() -> None:
    customers = {usage.customer for usage in read_trace()}
    forms = {form_of(Buyer(customer, "", "", ""))["email"] for customer in customers}
    assert len(forms) == len(customers)
