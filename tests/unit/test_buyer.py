"""The sandbox's buyer and registration server, over real HTTP: the whole way as a browser goes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.build_packages import code_entries
from sandbox.buyer import Buyer, RegistrationRefusal, SetUpFailed
from sandbox.registration_server import (
    FIELDS,
    RecordedTelemetry,
    RegistrationServer,
    content_security_policy,
    page_configuration,
    page_values,
)
from tests.unit.registration_support import nothing

ANSWERS = {"email": "ada@example.com", "name": "Ada Example", "plan": "standard", "terms": True}


@pytest.fixture
def server() -> Iterator[RegistrationServer]:
    with RegistrationServer(promoted_fields=["email"]) as running:
        yield running


@pytest.mark.parametrize("base64_bodies", [False, True], ids=["text", "base64"])
@pytest.mark.parametrize("multipart", [False, True], ids=["urlencoded", "multipart"])
def test_a_buyer_goes_from_the_marketplace_to_a_registration(
    server: RegistrationServer, multipart: bool, base64_bodies: bool
) -> None:
    server.base64_bodies = base64_bodies
    buyer, token = Buyer(server.fulfillment_url, multipart=multipart), server.new_token()
    assert buyer.set_up_account(token, ANSWERS, "free-trial") == "registered"
    assert buyer.set_up_account(token, ANSWERS, "free-trial") == "already-registered"
    (profile,), (row,) = server.profiles(), server.subscribers()
    assert (profile["email"], profile["offerType"]) == ("ada@example.com", "free-trial")
    assert profile["registrationData"] == ANSWERS
    assert row["registeredRegions"] == {"eu-west-1"}


def test_the_token_is_in_no_address_that_a_server_sees(server: RegistrationServer) -> None:
    token = server.new_token()
    Buyer(server.fulfillment_url).set_up_account(token, ANSWERS)
    assert [request.target for request in server.requests] == [
        "/v1/fulfillment",
        "/v1/",
        "/v1/assets/app.js",
        "/v1/register",
    ]
    assert not any(token in json.dumps(dict(request.headers)) for request in server.requests)


def test_every_forced_answer_reaches_the_buyer_by_its_code(server: RegistrationServer) -> None:
    buyer = Buyer(server.fulfillment_url)
    expired = server.new_token()
    server.expire(expired)
    cases: list[tuple[Callable[[], None], str, int, str]] = [
        (server.throttle_next, server.new_token(), 429, "Throttled"),
        (server.fail_next, server.new_token(), 503, "Unavailable"),
        (server.disable_api, server.new_token(), 500, "Misconfigured"),
        (nothing, expired, 400, "ExpiredToken"),
        (nothing, "nobody's", 400, "InvalidToken"),
        (nothing, server.new_foreign_token(), 400, "WrongProduct"),
        (nothing, server.new_token_without_license(), 400, "MissingLicense"),
    ]
    for force, token, status, code in cases:
        force()
        with pytest.raises(RegistrationRefusal) as refusal:
            buyer.set_up_account(token, ANSWERS)
        assert (refusal.value.status, refusal.value.code) == (status, code)
    assert server.profiles() == []
    with pytest.raises(RegistrationRefusal) as refusal:
        buyer.set_up_account(server.new_token(), {**ANSWERS, "email": "ada"})
    assert refusal.value.fields == {"email": "InvalidEmail"}
    server.configure(customer_profile_table="")
    with pytest.raises(RegistrationRefusal, match="500 Misconfigured"):
        buyer.set_up_account(server.new_token(), ANSWERS)


def test_the_buyer_is_told_where_the_way_ends(server: RegistrationServer) -> None:
    with pytest.raises(SetUpFailed, match="missing"):
        Buyer(server.fulfillment_url).set_up_account("", ANSWERS)
    with pytest.raises(SetUpFailed, match="invalid"):
        Buyer(server.fulfillment_url).set_up_account("x" * 4097, ANSWERS)
    with pytest.raises(SetUpFailed, match="answered 403"):
        Buyer(server.url + "elsewhere").set_up_account("t", ANSWERS)
    with pytest.raises(SetUpFailed, match="no registration page"):
        Buyer(server.fulfillment_url).open_page(server.url + "assets/app.js")


def test_no_answer_is_a_failed_step() -> None:
    with RegistrationServer() as stopped:
        address = stopped.fulfillment_url
    with pytest.raises(SetUpFailed, match="no answer"):
        Buyer(address, timeout=5).set_up_account("t", ANSWERS)


def test_a_sellers_own_page_is_left_to_the_seller() -> None:
    with RegistrationServer(own_page_url="https://app.example.com/welcome") as server:
        landing = Buyer(server.fulfillment_url).post_form("a+b/c==", "free-trial")
        assert landing.page_url == "https://app.example.com/welcome"
        assert (landing.token, landing.offer_type, landing.problem) == ("a+b/c==", "free-trial", None)


def test_a_buyer_who_chooses_no_region_is_registered_in_the_pages_own() -> None:
    regions = [
        {"label": "Europe", "registrationUrl": "register"},
        {"label": "Australia", "registrationUrl": "https://au.example.com/v1/register"},
    ]
    configuration = page_configuration(regions=regions)
    with RegistrationServer(configuration=configuration) as server:
        assert "connect-src 'self' https://au.example.com;" in server.policy
        buyer = Buyer(server.fulfillment_url)
        assert buyer.open_page(server.url) == server.registration_url
        assert buyer.set_up_account(server.new_token(), ANSWERS) == "registered"


def test_two_deployments_share_one_page_across_origins() -> None:
    with (
        RegistrationServer() as home,
        RegistrationServer(
            allowed_origins=[home.origin], region="ap-southeast-2", marketplace=home.marketplace
        ) as abroad,
    ):
        token = home.new_token()
        headers = {"Origin": home.origin, "Content-Type": "application/json"}
        body = json.dumps({"token": token, "offerType": None, "fields": ANSWERS}).encode()
        answer = Buyer(home.fulfillment_url).request("POST", abroad.registration_url, body, headers)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, home.origin)
        assert (len(home.profiles()), len(abroad.profiles())) == (0, 1)
        assert abroad.subscribers()[0]["homeRegion"] == "ap-southeast-2"


def test_an_unknown_path_is_the_gateways_affair(server: RegistrationServer) -> None:
    buyer = Buyer(server.fulfillment_url)
    for method, path in (("GET", "v1"), ("GET", "v1/register"), ("DELETE", "v1/"), ("GET", "v2/")):
        expected = 200 if path == "v1" else 403
        assert buyer.request(method, f"{server.origin}/{path}").status == expected
    assert isinstance(server.telemetry, RecordedTelemetry)


def test_page_values_are_safe_where_they_go() -> None:
    configuration = page_configuration(productName="A & B <i>", messages={"x": "</script>"}, locale="ar")
    values = page_values(configuration)
    assert values["product_name"] == "A &amp; B &lt;i&gt;"
    assert "<" not in values["configuration"]
    assert json.loads(values["configuration"]) == configuration
    assert (values["lang"], values["dir"]) == ("ar", "rtl")
    assert content_security_policy().count("'none'") == 4
    assert {field["type"] for field in FIELDS} == {"email", "text", "tel", "select", "textarea", "checkbox"}


def test_the_pages_files_are_in_the_package() -> None:
    entries = code_entries(Path(__file__).resolve().parents[2] / "lambda_src" / "awsmp")
    assert {"awsmp/page/index.html", "awsmp/page/app.js", "awsmp/page/style.css"} <= entries.keys()
