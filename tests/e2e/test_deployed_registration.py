"""Buyers register through the deployed API, with the functions' roles enforced; last, every log is read.

Everything is asked over HTTP, where the emulator serves what Terraform made of the REST API. It serves the
routes, the gateway's own answers and the throttling as AWS does. What it does not have is asserted on the
plan, in tests/terraform/test_registration_deployment.py: the web ACL is there but stops nothing, so that
bodies which it would block reach the functions here; nothing is written to the access log.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

import pytest

from awsmp.adapters.telemetry import NAMESPACE
from awsmp.domain.identifiers import mask
from awsmp.domain.notifications.contacts import VERIFICATION_PREFIX
from awsmp.domain.ports import Metric
from sandbox.buyer import Answer, Buyer, RegistrationRefusal
from sandbox.cloud_stage import CloudStage
from sandbox.local_cloud import ACCOUNT_ID

from .conftest import PRODUCT, REGISTRATION_REGION, Afternoon, personal_data
from .fuzz import MARK, STATUSES, Sent, faults_of, generate

pytestmark = [pytest.mark.emulator, pytest.mark.slow, pytest.mark.xdist_group("local-cloud")]

REGIONS: Final = ("us-east-1", REGISTRATION_REGION)
REGISTRATION: Final = ("page", "register", "verify")
FOREIGN_PRODUCT: Final = "2another2product3code4567"
BUYER: Final = "888899990000"

#: Requests that differ from each other, and how many of them are under way at a time.
FUZZED: Final = 2000
_AT_A_TIME: Final = 8


@dataclass
class Desk:
    """The deployed registration, and what has been planted in it so far."""

    afternoon: Afternoon
    tokens: list[str] = field(default_factory=list)
    accounts: set[str] = field(default_factory=set)
    #: Registrations that were answered with a server error.
    failed: int = 0

    @property
    def stage(self) -> CloudStage:
        return self.afternoon.stage

    @cached_property
    def base(self) -> str:
        """The stage's address, without a slash at its end."""
        url = self.stage.deployment.fulfillment_url
        return self.stage.cloud.address_of(url).removesuffix("/fulfillment")

    @property
    def browser(self) -> Buyer:
        return self.stage.browser()

    def command(self, name: str, **arguments: Any) -> Any:
        return self.stage.cloud.marketplace.command(name, **arguments)

    def token(self, account: str = BUYER, *, product: str = PRODUCT) -> str:
        """Let ``account`` subscribe, without any event, and return a token of the licence."""
        bought = self.command("subscribe", product_code=product, acceptor_account=account)
        return self.token_of(bought["license"]["arn"], account)

    def token_of(self, license_arn: str, account: str = BUYER) -> str:
        token = self.stage.mint_token(license_arn)
        self.tokens.append(token)
        self.accounts.add(account)
        return token

    def answer(self, sent: Sent) -> Answer:
        return self.browser.request(sent.method, self.base + sent.path, sent.body, sent.headers)

    def register(self, document: object) -> Answer:
        body, headers = json.dumps(document).encode(), {"Content-Type": "application/json"}
        return self.answer(Sent("POST", "/register", headers, body))

    def stored(self) -> tuple[list[str], list[str]]:
        """Return everything that a registration writes; links to verify an address are noted at any time."""
        profiles = [
            {
                name: value
                for name, value in profile.items()
                if name != "updatedAt" and not name.startswith(VERIFICATION_PREFIX)
            }
            for profile in self.stage.profiles()
        ]
        return _sorted(profiles), _sorted(self.stage.subscribers())


def _sorted(rows: Any) -> list[str]:
    return sorted(json.dumps(row, default=_plain, sort_keys=True) for row in rows)


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


@pytest.fixture(scope="module")
def desk(afternoon: Afternoon) -> Iterator[Desk]:
    """The registration after the afternoon."""
    opened = Desk(afternoon)
    opened.command("create-product", code=FOREIGN_PRODUCT, dimensions=["requests"])
    yield opened
    opened.command("clear-faults")


# --- What the afternoon's buyers left -----------------------------------------------------------------------


def test_each_registered_licence_has_its_profile_with_what_its_buyer_entered(afternoon: Afternoon) -> None:
    buyers, entered = afternoon.buyers, afternoon.entered
    profiles = {str(row["licenseArn"]): row for row in afternoon.stage.profiles()}
    expected = {
        buyers[name].license_arn: {
            "licenseArn": buyers[name].license_arn,
            "customerAWSAccountId": buyers[name].account,
            "agreementId": buyers[name].agreement_id,
            "productCode": PRODUCT,
            "registrationData": entered[name],
            # An index is keyed by it.
            "email": entered[name]["email"],
            **({"offerType": "free-trial"} if name == "second licence" else {}),
        }
        for name in ("steady", "second licence", "new", "leaving")
    }
    # The last is what is known of the links that were sent to the address.
    others = ("createdAt", "updatedAt", "verification#owner")
    assert {
        arn: {key: value for key, value in profiles[arn].items() if key not in others} for arn in expected
    } == expected
    assert all(profiles[arn]["createdAt"] <= profiles[arn]["updatedAt"] for arn in expected)


def test_a_profile_is_found_by_the_field_that_was_promoted(afternoon: Afternoon) -> None:
    dynamodb = afternoon.stage.cloud.client("dynamodb", region=REGISTRATION_REGION)
    found = dynamodb.query(
        TableName=afternoon.stage.deployment.customer_profile_table,
        IndexName="email-index",
        KeyConditionExpression="email = :email",
        ExpressionAttributeValues={":email": {"S": afternoon.entered["steady"]["email"]}},
    )["Items"]
    assert [item["licenseArn"]["S"] for item in found] == [afternoon.buyers["steady"].license_arn]


def test_registered_before_or_after_its_activation_a_subscriber_is_the_same(afternoon: Afternoon) -> None:
    rows = {str(row["licenseArn"]): row for row in afternoon.stage.subscribers()}
    seen = {
        name: (
            rows[buyer.license_arn]["subscriptionStatus"],
            rows[buyer.license_arn].get("registeredRegions"),
        )
        for name, buyer in afternoon.buyers.items()
        if buyer.license_arn in rows
    }
    assert seen == {
        "steady": ("active", {REGISTRATION_REGION}),
        "second licence": ("active", {REGISTRATION_REGION}),
        "new": ("active", {REGISTRATION_REGION}),
        "leaving": ("inactive", {REGISTRATION_REGION}),
        "overtaken": ("active", None),
    }


# --- One buyer after the other ------------------------------------------------------------------------------


def test_the_page_and_its_files_are_where_the_listing_and_the_redirect_lead(desk: Desk) -> None:
    pages = [desk.answer(Sent("GET", path)) for path in ("/", "/fulfillment")]
    assert [page.status for page in pages] == [200, 200]
    assert pages[0].body == pages[1].body
    assert b"Example Analytics" in pages[0].body
    assert b"support@example.com" in pages[0].body
    for page in pages:
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; ")
    files = {
        name: desk.answer(Sent("GET", f"/assets/{name}")).headers["content-type"].partition(";")[0]
        for name in ("app.js", "style.css")
    }
    assert files == {"app.js": "text/javascript", "style.css": "text/css"}
    head = desk.answer(Sent("HEAD", "/fulfillment"))
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("multipart", [False, True], ids=["urlencoded", "multipart"])
def test_the_longest_token_arrives_unchanged_in_the_pages_address(desk: Desk, multipart: bool) -> None:
    every = "".join(chr(code) for code in range(0x20, 0x7F))
    token = (MARK + every * 44)[:4096]
    landing = desk.stage.browser(multipart=multipart).post_form(token, "free-trial")
    assert (landing.token, landing.offer_type, landing.problem) == (token, "free-trial", None)
    assert landing.page_url == f"{desk.base}/"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "missing"),
        (b"\xff\x00\xfe", "missing"),
        (b"x-amzn-marketplace-token=", "missing"),
        (b"x-amzn-marketplace-token=" + b"x" * 4097, "invalid"),
        (b"x" * (64 * 1024 + 1), "invalid"),
    ],
)
def test_a_post_without_a_usable_token_leads_to_the_page_that_says_so(
    desk: Desk, body: bytes, problem: str
) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = desk.answer(Sent("POST", "/fulfillment", headers, body))
    assert (answer.status, answer.headers["location"]) == (303, f"./#e={problem}")


def test_a_token_posted_twice_registers_once_and_keeps_the_first_form(desk: Desk) -> None:
    token = desk.token()
    first, second = personal_data("posted first"), personal_data("posted again")
    assert desk.browser.set_up_account(token, first) == "registered"
    before = desk.stored()
    assert desk.browser.set_up_account(token, second) == "already-registered"
    assert desk.stored() == before
    data = [row["registrationData"] for row in desk.stage.profiles()]
    assert data.count(first) == 1
    assert second not in data


def test_of_registrations_at_the_same_time_one_is_the_first(desk: Desk) -> None:
    bought = desk.command("subscribe", product_code=PRODUCT, acceptor_account=BUYER)
    license_arn = bought["license"]["arn"]
    tokens = [desk.token_of(license_arn), desk.token_of(license_arn)] * 2
    with ThreadPoolExecutor(len(tokens)) as browsers:
        outcomes = list(
            browsers.map(
                lambda token: desk.browser.set_up_account(token, personal_data("at the same time")), tokens
            )
        )
    assert Counter(outcomes) == {"registered": 1, "already-registered": 3}
    assert [row["licenseArn"] for row in desk.stage.profiles()].count(license_arn) == 1
    (subscriber,) = (row for row in desk.stage.subscribers() if row["licenseArn"] == license_arn)
    assert subscriber["registeredRegions"] == {REGISTRATION_REGION}


def _expired(desk: Desk) -> str:
    token = desk.token()
    desk.stage.expire_token(token)
    return token


def _without_license(desk: Desk) -> str:
    desk.command(
        "create-legacy-customer",
        product_code=PRODUCT,
        customer_identifier="customer-1",
        account=BUYER,
    )
    minted = desk.command("mint-legacy-token", product_code=PRODUCT, customer_identifier="customer-1")
    return str(minted["token"])


@pytest.mark.parametrize(
    ("token_of", "code"),
    [
        pytest.param(_expired, "ExpiredToken", id="expired"),
        pytest.param(lambda _: f"{MARK}+nobody's/token==", "InvalidToken", id="invalid"),
        pytest.param(
            lambda desk: desk.token(product=FOREIGN_PRODUCT), "WrongProduct", id="of another product"
        ),
        pytest.param(_without_license, "MissingLicense", id="without a licence"),
    ],
)
def test_a_token_that_is_not_accepted_stores_nothing(desk: Desk, token_of: Any, code: str) -> None:
    token = token_of(desk)
    before = desk.stored()
    with pytest.raises(RegistrationRefusal) as refused:
        desk.browser.set_up_account(token, personal_data("refused"))
    assert (refused.value.status, refused.value.code) == (400, code)
    assert desk.stored() == before


def test_fields_are_judged_before_the_token_is_used(desk: Desk) -> None:
    desk.command("configure", token_repeatable=False)
    try:
        token = desk.token()
        with pytest.raises(RegistrationRefusal) as refused:
            desk.browser.set_up_account(
                token, {"email": "mira.planted.example", "name": "x" * 201, "zip": "1"}
            )
        assert refused.value.status == 422
        assert refused.value.fields == {"email": "InvalidEmail", "name": "TooLong", "zip": "UnknownField"}
        assert desk.browser.set_up_account(token, personal_data("corrected")) == "registered"
    finally:
        desk.command("configure", token_repeatable=True)


@pytest.mark.parametrize(
    ("fault", "status", "document"),
    [
        ("ThrottlingException", 429, {"error": "Throttled"}),
        ("InternalServiceErrorException", 503, {"error": "Unavailable"}),
        ("DisabledApiException", 500, {"error": "Misconfigured"}),
    ],
)
def test_a_marketplace_that_does_not_answer_is_told_and_the_same_token_registers_later(
    desk: Desk, fault: str, status: int, document: Mapping[str, str]
) -> None:
    token = desk.token()
    sent = {"token": token, "offerType": None, "fields": personal_data("patient")}
    desk.command("arm-fault", answer=fault, operation="ResolveCustomer", times=None)
    answer = desk.register(sent)
    desk.command("clear-faults")
    assert (answer.status, json.loads(answer.body)) == (status, document)
    desk.failed += status >= HTTPStatus.INTERNAL_SERVER_ERROR
    assert ("retry-after" in answer.headers) == (status == HTTPStatus.TOO_MANY_REQUESTS)
    assert json.loads(desk.register(sent).body) == {"outcome": "registered"}


def test_a_stage_that_is_full_answers_in_the_apis_own_words(desk: Desk) -> None:
    gateway = desk.stage.cloud.client("apigateway", region=REGISTRATION_REGION)
    stage = {"restApiId": desk.afternoon.deployed.outputs["rest_api_id"], "stageName": "prod"}

    def admit(requests: int) -> None:
        limits = [
            {"op": "replace", "path": f"/*/*/throttling/{name}", "value": str(requests)}
            for name in ("rateLimit", "burstLimit")
        ]
        gateway.update_stage(**stage, patchOperations=limits)

    admit(1)
    try:
        answers = [desk.register({"token": MARK}) for _ in range(20)]
    finally:
        admit(5000)
    full = [answer for answer in answers if answer.status == HTTPStatus.TOO_MANY_REQUESTS]
    assert full
    for answer in full:
        assert json.loads(answer.body) == {"error": "Throttled"}
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["cache-control"] == "no-store"


# --- Thousands of requests ----------------------------------------------------------------------------------


def test_nothing_that_a_caller_can_send_is_a_server_error_or_comes_back(desk: Desk) -> None:
    tokens = [
        desk.token(),
        desk.token(),
        _expired(desk),
        desk.token(product=FOREIGN_PRODUCT),
    ]
    asked: dict[str, Sent] = {}
    statuses: Counter[tuple[str, int]] = Counter()
    faults: dict[str, tuple[Sent, Answer]] = {}

    def ask(sent: Sent) -> tuple[Sent, Answer]:
        return sent, desk.answer(sent)

    with ThreadPoolExecutor(_AT_A_TIME) as callers:
        pending = []

        def use(sent: Sent) -> None:
            if str(sent) not in asked:
                asked[str(sent)] = sent
                pending.append(callers.submit(ask, sent))

        # Some that Hypothesis makes are equal.
        generate(tokens, FUZZED * 13 // 10, use)
        for done in pending:
            sent, answer = done.result()
            statuses[sent.route, answer.status] += 1
            for fault in faults_of(sent, answer):
                faults.setdefault(fault, (sent, answer))
    assert faults == {}
    assert len(asked) >= FUZZED
    # Every route was reached, and every way in which it may answer.
    expected = {(route, status) for route, answers in STATUSES.items() for status in answers}
    assert expected <= statuses.keys()


def test_each_fault_that_an_answer_may_have_is_found() -> None:
    sent = Sent("POST", "/register", token="a-token-of-some-length")
    good = Answer(400, {}, b'{"error":"InvalidToken"}')
    assert faults_of(sent, good) == []
    bad = {
        "a server error": Answer(502, {}, b'{"error":"Unavailable"}'),
        "a stack trace": Answer(400, {}, b'{"error":"InvalidToken","stackTrace":[]}'),
        "the token": Answer(400, {}, b'{"error":"a-token-of-some-length"}'),
        "the token in a header": Answer(400, {"x": "a-token-of-some-length"}, good.body),
        "a planted text": Answer(
            422, {}, json.dumps({"error": "InvalidFields", "fields": {MARK: "x"}}).encode()
        ),
        "another document": Answer(200, {}, b'{"outcome":"registered","licenseArn":"x"}'),
        "no document": Answer(400, {}, b"<html>"),
        "a code of another status": Answer(400, {}, b'{"error":"TooLarge"}'),
    }
    assert {name for name, answer in bad.items() if not faults_of(sent, answer)} == set()
    # A text that was sent, and that the API says anyway.
    own = Answer(200, {}, b'{"outcome":"already-registered"}')
    assert faults_of(Sent("POST", "/register", token="already-registered"), own) == []
    # A refusal names the field that it does not know.
    unknown = Sent("POST", "/register", body=json.dumps({"fields": {MARK: ""}}).encode())
    named = Answer(422, {}, json.dumps({"error": "InvalidFields", "fields": {MARK: "UnknownField"}}).encode())
    assert faults_of(unknown, named) == []
    valued = Answer(422, {}, json.dumps({"error": "InvalidFields", "fields": {MARK: MARK}}).encode())
    assert faults_of(unknown, valued) != []
    elsewhere = Answer(303, {"location": "https://example.com/#t=x"}, b"")
    assert faults_of(Sent("POST", "/fulfillment"), elsewhere) != []


# --- At the end: calls, tables and logs ---------------------------------------------------------------------


def test_no_call_of_the_registration_was_denied(desk: Desk) -> None:
    deployed = desk.afternoon.deployed
    denied = [
        entry
        for entry in deployed.access()
        if entry["refusal"] is not None and deployed.function_of(entry["principal"]) in REGISTRATION
    ]
    assert denied == []
    assert not any(deployed.runs("failures")[name] for name in REGISTRATION)


def planted(desk: Desk) -> list[str]:
    """Return every text that a buyer entered, brought or was sent a link with."""
    afternoon = desk.afternoon
    entered = [text for form in afternoon.entered.values() for text in form.values()]
    links = [link.partition("#verify=")[2] for link in afternoon.links.values()]
    assert all(links)
    return [MARK, "planted.example", "Mira Planted", *entered, *desk.tokens, *afternoon.tokens, *links]


def test_what_buyers_entered_is_in_the_profile_table_of_its_region_and_in_no_other(desk: Desk) -> None:
    holding = set()
    for region in REGIONS:
        dynamodb = desk.stage.cloud.client("dynamodb", region=region)
        for table in dynamodb.list_tables()["TableNames"]:
            pages = dynamodb.get_paginator("scan").paginate(TableName=table)
            rows = json.dumps([item for page in pages for item in page["Items"]], ensure_ascii=False)
            if any(text in rows for text in planted(desk)):
                holding.add((region, table))
    assert holding == {(REGISTRATION_REGION, f"awsmp-{PRODUCT}-customer-profile")}


@dataclass(frozen=True, slots=True)
class Logged:
    """One event of a function's log."""

    group: str
    text: str

    @property
    def is_platforms(self) -> bool:
        """Whether Lambda itself wrote it."""
        return self.text.startswith(("START RequestId", "END RequestId", "REPORT RequestId"))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metric directives in it."""
        if '"_aws"' not in self.text:
            return []
        directives: list[dict[str, Any]] = json.loads(self.text)["_aws"]["CloudWatchMetrics"]
        return directives


@pytest.fixture(scope="module")
def logs(desk: Desk) -> list[Logged]:
    """What is in CloudWatch Logs, of every function and of the whole run."""
    found = []
    for region in REGIONS:
        client = desk.stage.cloud.client("logs", region=region)
        groups = client.get_paginator("describe_log_groups").paginate()
        for name in [group["logGroupName"] for page in groups for group in page["logGroups"]]:
            for page in client.get_paginator("filter_log_events").paginate(logGroupName=name):
                found += [Logged(name, event["message"].strip()) for event in page["events"]]
    return found


def test_every_function_logs(desk: Desk, logs: list[Logged]) -> None:
    names: Mapping[str, str] = desk.afternoon.deployed.outputs["function_names"]
    assert {event.group for event in logs} == {f"/aws/lambda/{name}" for name in names.values()}


def test_nothing_that_buyers_entered_and_no_token_is_in_a_log_or_metric(
    desk: Desk, logs: list[Logged]
) -> None:
    texts = planted(desk)
    assert desk.afternoon.tokens
    found = {(event.group, text) for event in logs for text in texts if text in event.text}
    assert found == set()


#: Twelve digits that are no part of a longer word or number: an account id. A licence by ARN or by its id.
_UNMASKED: Final = re.compile(r"(?<![\w-])\d{12}(?![\w-])|license-manager|(?<![a-z])l-[0-9a-f]{8,}")


def test_account_ids_and_licences_are_in_the_logs_by_their_last_four_characters_only(
    desk: Desk, logs: list[Logged]
) -> None:
    buyers = desk.afternoon.buyers
    whole = {*desk.accounts, *(buyer.account for buyer in buyers.values())}
    assert {(event.group, text) for event in logs for text in whole if text in event.text} == set()
    # Where a call was denied, Lambda writes AWS's own message, with the seller's account in its ARNs.
    own = [
        Logged(event.group, event.text.replace(ACCOUNT_ID, "")) for event in logs if not event.is_platforms
    ]
    assert {(event.group, event.text) for event in own if _UNMASKED.search(event.text)} == set()
    told = "\n".join(event.text for event in own)
    for name in desk.afternoon.entered:
        assert f'"{mask(buyers[name].account)}"' in told
        assert f'"{mask(buyers[name].license_arn)}"' in told


def test_every_metric_has_exactly_the_dimensions_that_alarms_look_for(logs: list[Logged]) -> None:
    directives = [(event, directive) for event in logs for directive in event.metrics]
    assert {directive["Namespace"] for _, directive in directives} == {NAMESPACE}
    keys = {tuple(names) for _, directive in directives for names in directive["Dimensions"]}
    assert keys == {("ProductCode", "Environment"), ("ProductCode", "Environment", "Reason")}
    named = {metric["Name"] for _, directive in directives for metric in directive["Metrics"]}
    assert named <= set(Metric)
    values = {
        (json.loads(event.text)["ProductCode"], json.loads(event.text)["Environment"])
        for event, _ in directives
    }
    assert values == {(PRODUCT, "default"), ("all", "default")}


def test_the_metrics_count_what_happened(desk: Desk, logs: list[Logged]) -> None:
    counts: Counter[str] = Counter()
    for event in logs:
        for name in [metric["Name"] for directive in event.metrics for metric in directive["Metrics"]]:
            counts[name] += int(sum(json.loads(event.text)[name]))
    assert counts[Metric.BUYER_REGISTERED] == len(desk.stage.profiles())
    assert counts[Metric.REGISTRATION_FAILED] == desk.failed
