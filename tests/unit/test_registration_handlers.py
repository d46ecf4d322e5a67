"""The two registration Lambdas as API Gateway calls them: routes, headers, CORS, settings, privacy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp import composition_page, composition_registration
from awsmp.adapters.page_files import packaged_page
from awsmp.adapters.system_clock import SystemClock
from awsmp.adapters.telemetry import LambdaTelemetry
from awsmp.composition_page import PageRuntime, PageSettings
from awsmp.composition_registration import Settings
from awsmp.domain.customer_profiles import MAX_REQUEST_BYTES
from awsmp.domain.fulfillment import MAX_TOKEN_LENGTH
from awsmp.domain.ports import Metric
from awsmp.handlers import page, register
from awsmp.handlers.rest_proxy import RequestFailed
from sandbox.registration_server import RecordedTelemetry
from tests.unit.registration_support import (
    ANSWERS,
    BUYER,
    ORIGIN,
    POLICY,
    PRODUCT,
    CallFault,
    FixedMarketplace,
    World,
    http_event,
    lost_answer,
    post_form,
    refused,
)

_services = count(1)

#: Sent with every answer, whatever else it is.
ALWAYS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=31536000",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def get(path: str, runtime: PageRuntime, method: str = "GET") -> dict[str, Any]:
    return page.run(http_event(method, path), None, runtime)


def post(body: bytes | str, world: World | None = None, **headers: str) -> dict[str, Any]:
    content = body.encode() if isinstance(body, str) else body
    event = http_event("POST", "/register", content, {"Content-Type": "application/json", **headers})
    return register.run(event, None, (world or World()).runtime())


def preflight(world: World, origin: str | None) -> dict[str, Any]:
    headers = {} if origin is None else {"Origin": origin, "Access-Control-Request-Method": "POST"}
    return register.run(http_event("OPTIONS", "/register", headers=headers), None, world.runtime())


# --- the page ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/fulfillment"])
def test_the_page_is_delivered_at_its_address_and_at_the_fulfilment_url(path: str) -> None:
    answer = get(path, World().page_runtime())
    assert answer["statusCode"] == 200
    assert answer["isBase64Encoded"] is False
    expected = {
        **ALWAYS,
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-store",
    }
    assert expected.items() <= answer["headers"].items()
    assert "Permissions-Policy" in answer["headers"]
    assert "Example Analytics" in answer["body"]
    assert "${" not in answer["body"]


def test_the_page_carries_its_configuration_and_no_script_or_style_of_its_own() -> None:
    body = get("/", World().page_runtime())["body"]
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", body, re.DOTALL)
    inline = [(attributes, text) for attributes, text in scripts if "src=" not in attributes]
    ((attributes, text),) = inline
    assert 'type="application/json"' in attributes
    assert json.loads(text)["productName"] == "Example Analytics"
    assert "<style" not in body
    assert not re.search(r"\sstyle=|\son[a-z]+=", body)


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("app.js", "text/javascript; charset=utf-8"), ("style.css", "text/css; charset=utf-8")],
)
def test_an_asset_is_kept_for_five_minutes(name: str, content_type: str) -> None:
    answer = get(f"/assets/{name}", World().page_runtime())
    assert answer["statusCode"] == 200
    assert answer["headers"]["Content-Type"] == content_type
    assert answer["headers"]["Cache-Control"] == "public, max-age=300"
    assert answer["headers"].items() >= ALWAYS.items()
    assert len(answer["body"]) > 100


def test_the_script_is_delivered_as_packaged_and_the_style_with_its_colours() -> None:
    runtime = World().page_runtime()
    assert get("/assets/app.js", runtime)["body"] == packaged_page()["app.js"]
    assert "#0b5cad" in get("/assets/style.css", runtime)["body"]
    assert "${" not in get("/assets/style.css", runtime)["body"]


@pytest.mark.parametrize("name", ["index.html", "x.js", "..%2Fcomposition_registration.py", "App.js", ""])
def test_no_other_file_is_an_asset(name: str) -> None:
    event = http_event("GET", "/assets/app.js") | {"pathParameters": {"file": name}}
    assert page.run(event, None, World().page_runtime())["statusCode"] == 404
    assert page.run(event | {"pathParameters": None}, None, World().page_runtime())["statusCode"] == 404


@pytest.mark.parametrize("path", ["/", "/fulfillment", "/assets/app.js"])
def test_head_is_answered_as_get_without_the_body(path: str) -> None:
    runtime = World().page_runtime()
    assert get(path, runtime, "HEAD") == {**get(path, runtime), "body": ""}


@pytest.mark.parametrize(
    ("method", "resource", "status", "allow"),
    [
        ("POST", "/", 405, "GET, HEAD"),
        ("PUT", "/fulfillment", 405, "GET, HEAD, POST"),
        ("POST", "/assets/{file}", 405, "GET, HEAD"),
        ("GET", "/register", 404, None),
        ("GET", "", 404, None),
    ],
)
def test_what_is_no_route_of_the_page_is_told_so(
    method: str, resource: str, status: int, allow: str | None
) -> None:
    event = http_event("GET", "/") | {"httpMethod": method, "resource": resource}
    answer = page.run(event, None, World().page_runtime())
    assert (answer["statusCode"], answer["headers"].get("Allow")) == (status, allow)
    assert answer["headers"].items() >= ALWAYS.items()


@pytest.mark.parametrize("stage", ["v1", "fulfil", "a", "assets"])
@pytest.mark.parametrize("base_path", ["", "/shop"])
def test_routes_do_not_depend_on_the_stages_name_nor_on_a_domains_base_path(
    stage: str, base_path: str
) -> None:
    event = http_event("GET", "/assets/app.js")
    event["path"] = f"{base_path}/assets/app.js"
    event["requestContext"] = {"stage": stage, "path": f"{base_path}/assets/app.js"}
    assert page.run(event, None, World().page_runtime())["statusCode"] == 200


@pytest.mark.parametrize(
    "values",
    ["", "{", "[]", '{"lang": 1}', "{}", '{"lang": "en", "dir": "ltr"}'],
    ids=lambda text: text or "none",
)
def test_a_page_without_its_values_is_an_error_that_tells_the_buyer_nothing_and_the_log_its_name(
    values: str,
) -> None:
    world = World()
    answer = get("/", world.page_runtime(values=values))
    assert answer["statusCode"] == 500
    assert answer["body"] == "This page is not available at the moment. Please try again later."
    assert isinstance(world.telemetry, RecordedTelemetry)
    ((message, _),) = world.telemetry.lines
    assert message == "the page cannot be delivered"
    redirect = post_form(world.page_runtime(values=values), b"x-amzn-marketplace-token=t")
    assert redirect["statusCode"] == 303


def test_a_page_that_is_not_packaged_is_an_error() -> None:
    world = World()
    runtime = PageRuntime(world.page_runtime().settings, world.telemetry, files={})
    assert get("/", runtime)["statusCode"] == 500


def test_with_a_page_of_the_sellers_own_every_address_leads_there() -> None:
    own = "https://app.example.com/welcome"
    runtime = World().page_runtime(own_page_url=own, values="")
    for path in ("/", "/fulfillment"):
        answer = get(path, runtime)
        assert (answer["statusCode"], answer["headers"]["Location"]) == (303, own)
    assert get("/assets/app.js", runtime)["statusCode"] == 404


def test_a_redirect_is_not_kept_and_shows_nothing() -> None:
    answer = post_form(World().page_runtime(), b"x-amzn-marketplace-token=t")
    assert (answer["statusCode"], answer["body"]) == (303, "")
    expected = {
        **ALWAYS,
        "Location": "./#t=dA",
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    }
    assert expected.items() <= answer["headers"].items()


# --- the registration API ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("", 400, "MalformedRequest"),
        ("{", 400, "MalformedRequest"),
        ("[]", 400, "MalformedRequest"),
        ("null", 400, "MalformedRequest"),
        ('"t"', 400, "MalformedRequest"),
        ("{}", 400, "MalformedRequest"),
        ("[" * 30_000, 400, "MalformedRequest"),
        ('{"a":' * 5_000, 400, "MalformedRequest"),
        ("1" * 10_000, 400, "MalformedRequest"),
        (b"\xff\xfe\xfd", 400, "MalformedRequest"),
        (b'{"token": "\xff"}', 400, "InvalidToken"),
        ('{"token": 1}', 400, "MalformedRequest"),
        ('{"token": "t", "fields": []}', 400, "MalformedRequest"),
        ('{"token": "t", "fields": null}', 400, "MalformedRequest"),
        ('{"token": "t", "offerType": 1}', 400, "MalformedRequest"),
        ('{"token": ""}', 400, "InvalidToken"),
        ('{"token": "t\\n"}', 400, "InvalidToken"),
        ('{"token": "\\ud800"}', 400, "InvalidToken"),
        (json.dumps({"token": "t" * (MAX_TOKEN_LENGTH + 1)}), 400, "InvalidToken"),
        ('{"token": "t"}', 422, "InvalidFields"),
        ('{"token": "t", "fields": {"\\ud800": NaN}}', 422, "InvalidFields"),
        ('{"token": "nobody\'s", "fields": {"email": "a@b"}}', 400, "InvalidToken"),
        (" " * (MAX_REQUEST_BYTES + 1), 413, "TooLarge"),
    ],
    ids=lambda value: str(value)[:40] or "empty",
)
def test_a_request_that_cannot_be_is_refused_by_code(body: bytes | str, status: int, code: str) -> None:
    world = World()
    answer = post(body, world)
    document = json.loads(answer["body"])
    assert (answer["statusCode"], document["error"]) == (status, code)
    assert ("fields" in document) == (code == "InvalidFields")
    assert set(document) <= {"error", "fields"}
    assert answer["headers"].items() >= {**ALWAYS, "Content-Type": "application/json"}.items()
    assert answer["headers"]["Cache-Control"] == "no-store"
    assert world.state() == ([], [])
    assert isinstance(world.telemetry, RecordedTelemetry)
    token_metrics = [Metric.TOKEN_INVALID] if code == "InvalidToken" else []
    assert world.telemetry.metrics == [Metric.REGISTRATION_REJECTED, *token_metrics]
    assert world.telemetry.reasons == [(Metric.REGISTRATION_REJECTED, code)]
    assert world.telemetry.lines[-1] == ("registration refused", {"code": code})


def test_the_greatest_request_is_taken_and_members_that_are_not_ours_are_left_out() -> None:
    world = World()
    document = {"token": world.token(), "fields": ANSWERS, "licenseArn": "x", "padding": ""}
    document["padding"] = "x" * (MAX_REQUEST_BYTES - len(json.dumps(document)))
    answer = post(json.dumps(document), world)
    assert (answer["statusCode"], answer["body"]) == (200, '{"outcome":"registered"}')
    assert set(world.profiles()[0]["registrationData"]) == set(ANSWERS)


@pytest.mark.parametrize(
    ("offer_type", "stored"), [("free-trial", "free-trial"), ("a b", None), ("", None), (None, None)]
)
def test_an_offer_type_of_another_form_is_dropped_here_too(
    offer_type: str | None, stored: str | None
) -> None:
    world = World()
    assert world.register(world.token(), offer_type=offer_type)[0] == 200
    assert world.profiles()[0].get("offerType") == stored


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["token", "offerType", "fields", "email", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(
    body=st.binary(max_size=60)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries(
        {"token": JSON, "offerType": JSON, "fields": st.fixed_dictionaries({"email": JSON, "company": JSON})}
    ).map(lambda value: json.dumps(value).encode())
    | st.builds(
        lambda email, company: json.dumps(
            {"token": "t", "offerType": None, "fields": {"email": email, "company": company}}
        ).encode(),
        st.text(max_size=20) | st.just("ada@example.com"),
        st.text(max_size=60),
    ),
    base64_body=st.booleans(),
)
def test_whatever_is_posted_has_a_code_or_an_outcome(body: bytes, base64_body: bool) -> None:
    world = World()
    answered = {"ProductCode": PRODUCT, "LicenseArn": "arn:aws:license-manager::111122223333:license:l-0a"}
    marketplace = FixedMarketplace({**answered, "CustomerAWSAccountId": BUYER})
    event = http_event("POST", "/register", body, base64_body=base64_body)
    answer = register.run(event, None, world.runtime(marketplace=marketplace))
    assert answer["statusCode"] in (200, 400, 422)
    assert set(json.loads(answer["body"])) <= {"outcome", "error", "fields"}
    assert len(world.profiles()) == (answer["statusCode"] == 200)


def test_a_throttled_buyer_is_told_when_to_try_again() -> None:
    world = World()
    runtime = world.runtime(marketplace=FixedMarketplace(refused("ThrottlingException")))
    body = json.dumps({"token": "t", "fields": ANSWERS}).encode()
    answer = register.run(http_event("POST", "/register", body), None, runtime)
    assert (answer["statusCode"], answer["headers"]["Retry-After"]) == (429, "5")


@pytest.mark.parametrize(
    ("method", "resource", "status"),
    [("GET", "/register", 405), ("PUT", "/register", 405), ("POST", "/", 404), ("POST", "/fulfillment", 404)],
)
def test_what_is_no_route_of_the_api_is_told_so(method: str, resource: str, status: int) -> None:
    event = http_event("POST", "/register") | {"httpMethod": method, "resource": resource}
    assert register.run(event, None, World().runtime())["statusCode"] == status


# --- CORS -------------------------------------------------------------------------------------------


def test_a_preflight_from_the_pages_origin_is_allowed() -> None:
    answer = preflight(World(), ORIGIN)
    assert (answer["statusCode"], answer["body"]) == (204, "")
    allowed = {name: value for name, value in answer["headers"].items() if name.startswith("Access-Control")}
    assert allowed == {
        "Access-Control-Allow-Origin": ORIGIN,
        "Access-Control-Allow-Methods": "OPTIONS, POST",
        "Access-Control-Allow-Headers": "Content-Type",
        "Access-Control-Expose-Headers": "Retry-After",
        "Access-Control-Max-Age": "600",
    }
    assert answer["headers"]["Vary"] == "Origin"


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "",
        "null",
        "*",
        "https://attacker.example",
        f"{ORIGIN}/",
        f"{ORIGIN}:443",
        f"{ORIGIN}.attacker.example",
        ORIGIN.upper(),
        ORIGIN.replace("https", "http"),
        f"{ORIGIN}, {ORIGIN}",
    ],
)
def test_no_other_origin_is_allowed_and_a_registration_does_not_depend_on_it(origin: str | None) -> None:
    world = World()
    headers = {} if origin is None else {"Origin": origin}
    body = json.dumps({"token": world.token(), "offerType": None, "fields": ANSWERS})
    for answer in (preflight(world, origin), post(body, world, **headers)):
        assert answer["statusCode"] in (200, 204)
        assert not [name for name in answer["headers"] if name.startswith("Access-Control")]
        assert answer["headers"]["Vary"] == "Origin"
    assert len(world.profiles()) == 1


@pytest.mark.parametrize("broken", [{}, {"customer_profile_table": ""}], ids=["refused", "failed"])
def test_the_page_can_read_an_error_too(broken: dict[str, str]) -> None:
    answer = post("{}", World(**broken), Origin=ORIGIN)
    assert answer["headers"]["Access-Control-Allow-Origin"] == ORIGIN


# --- privacy ----------------------------------------------------------------------------------------

PLANTED = {"email": "planted.person@example.com", "company": "Planted Company Ltd"}
PLANTED_TOKEN = "planted+token/value=="


def test_no_log_and_no_metric_holds_form_data_a_token_or_an_id_in_clear(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def telemetry() -> LambdaTelemetry:
        return LambdaTelemetry(f"registration-{next(_services)}", product_code=PRODUCT, environment="test")

    secrets = {PLANTED_TOKEN, "planted", "Planted", *PLANTED.values()}
    ids = {BUYER}
    capsys.readouterr()
    for fault in (None, *range(5)):
        world = World()
        world.telemetry = telemetry()
        token = world.token()
        secrets.add(token)
        ids.add(world.marketplace.licenses()[0].arn)
        post_form(world.page_runtime(), f"x-amzn-marketplace-token={token.replace('+', '%2B')}".encode())
        post_form(world.page_runtime(), f"x-amzn-marketplace-token={PLANTED_TOKEN}\x00".encode())
        post_form(world.page_runtime(), f"email={PLANTED['email']}".encode())
        if fault is not None:
            failing = world.interrupted_by(CallFault(fault, False, lost_answer()))
            assert world.register(token, PLANTED, runtime=failing)[0] == 503
        assert world.register(token, PLANTED)[0] == 200
        assert world.register(token, PLANTED)[0] == 200
        assert world.register(PLANTED_TOKEN, PLANTED)[0] == 400
        assert world.register(token, {**PLANTED, "planted-field": PLANTED_TOKEN})[0] == 422
        world.marketplace.expire_token(token)
        assert world.register(token, PLANTED)[0] == 400
        post(f"{PLANTED_TOKEN}{{", world)
        world.settings = Settings(product_code=PRODUCT, registration_fields=json.dumps([PLANTED]))
        assert world.register(token, PLANTED)[0] == 500
    written = "".join(capsys.readouterr())
    assert {json.loads(line).get("message") for line in written.splitlines()} >= {
        "a post without a usable token",
        "buyer registered",
        "registration refused",
        "registration failed",
    }
    for metric in ("FulfillmentReceived", "BuyerRegistered", "TokenExpired", "RegistrationFailed"):
        assert f'"{metric}":[1.0]' in written
    for clear in secrets | ids:
        assert clear not in written
    assert f"...{BUYER[-4:]}" in written


def test_an_answer_holds_no_id_no_token_and_no_trace() -> None:
    world = World()
    token = world.token()
    grant = world.marketplace.licenses()[0]
    bodies = [
        str(world.register(token, PLANTED)),
        str(world.register(token, PLANTED)),
        str(world.register("x", PLANTED)),
        str(world.register(token, {"email": PLANTED["email"] + "@"})),
    ]
    for text in (grant.arn, grant.agreement_id, BUYER, token, "planted", "Traceback", PRODUCT):
        assert not any(text in body for body in bodies)


def test_a_defect_of_ours_fails_the_function_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.telemetry = LambdaTelemetry(f"registration-{next(_services)}")
    runtime = world.runtime(marketplace=FixedMarketplace(KeyError(PLANTED_TOKEN)))
    with pytest.raises(RequestFailed) as failure:
        world.register(PLANTED_TOKEN, PLANTED, runtime=runtime)
    assert failure.value.__suppress_context__
    assert failure.value.__cause__ is None
    assert "KeyError" in str(failure.value)
    assert "planted" not in str(failure.value) + capsys.readouterr().out


def test_the_page_starts_without_the_sdk() -> None:
    code = "import sys, awsmp.handlers.page; print({'boto3', 'botocore.client'} & sys.modules.keys())"
    source = str(Path(composition_page.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


# --- settings ---------------------------------------------------------------------------------------

ENVIRONMENT = {
    "PRODUCT_CODE": PRODUCT,
    "ENVIRONMENT": "dev",
    "AWS_REGION": "eu-west-1",
    "CUSTOMER_PROFILE_TABLE": "profiles",
    "SUBSCRIBERS_TABLE": "subscribers",
    "SUBSCRIBERS_TABLE_REGION": "us-east-1",
    "MARKETPLACE_REGION": "us-west-2",
    "REGISTRATION_FIELDS": '[{"name":"email","label":"E","type":"email","maxLength":254,"required":true}]',
    "PROMOTED_FIELDS": '["email"]',
    "ALLOWED_ORIGINS": f'["{ORIGIN}"]',
}


def test_every_setting_of_the_api_is_read() -> None:
    settings = Settings.from_environment(ENVIRONMENT)
    assert settings == Settings(
        PRODUCT,
        "dev",
        "eu-west-1",
        "profiles",
        "subscribers",
        "us-east-1",
        "us-west-2",
        ENVIRONMENT["REGISTRATION_FIELDS"],
        '["email"]',
        f'["{ORIGIN}"]',
    )
    assert settings.origins() == {ORIGIN}
    assert [field.name for field in settings.form().fields] == ["email"]
    assert settings.form().promoted == {"email"}


def test_what_is_not_set_or_empty_has_a_default() -> None:
    assert Settings.from_environment({}) == Settings.from_environment(dict.fromkeys(ENVIRONMENT, ""))
    assert Settings.from_environment({}) == Settings()
    assert Settings().origins() == frozenset()
    names = ("PRODUCT_CODE", "ENVIRONMENT", "PAGE_VALUES", "CONTENT_SECURITY_POLICY", "OWN_PAGE_URL")
    assert PageSettings.from_environment(dict.fromkeys(names, "")) == PageSettings()
    assert PageSettings().content_security_policy == "default-src 'none'; frame-ancestors 'none'"


def test_every_setting_of_the_page_is_read() -> None:
    environ = {
        "PRODUCT_CODE": PRODUCT,
        "ENVIRONMENT": "dev",
        "PAGE_VALUES": '{"lang": "en"}',
        "CONTENT_SECURITY_POLICY": POLICY,
        "OWN_PAGE_URL": "https://app.example.com/",
    }
    expected = PageSettings(PRODUCT, "dev", '{"lang": "en"}', POLICY, "https://app.example.com/")
    assert PageSettings.from_environment(environ) == expected


def test_the_production_runtime_has_each_client_in_its_region_and_gives_up_before_the_gateway_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[tuple[str, str | None], Any] = {}

    def client(service: str, region_name: str | None = None, config: Any = None) -> Any:
        attempts = config.retries["total_max_attempts"]
        assert attempts * (config.connect_timeout + config.read_timeout) < 20
        return made.setdefault((service, region_name), object())

    monkeypatch.setattr(boto3, "client", client)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    composition_registration.production_runtime.cache_clear()
    try:
        runtime = composition_registration.production_runtime("register")
        assert composition_registration.production_runtime("register") is runtime
    finally:
        composition_registration.production_runtime.cache_clear()
    assert runtime.dynamodb is made["dynamodb", None]
    assert runtime.subscribers_dynamodb is made["dynamodb", "us-east-1"]
    assert runtime.marketplace is made["meteringmarketplace", "us-west-2"]
    assert isinstance(runtime.clock, SystemClock)
    assert isinstance(runtime.telemetry, LambdaTelemetry)
    assert runtime.settings == Settings.from_environment(ENVIRONMENT)


def test_the_entry_points_take_the_production_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(register, "production_runtime", lambda _service: world.runtime())
    body = json.dumps({"token": world.token(), "fields": ANSWERS}).encode()
    assert register.handler(http_event("POST", "/register", body), None)["statusCode"] == 200
    monkeypatch.setenv("PRODUCT_CODE", PRODUCT)
    monkeypatch.setenv("OWN_PAGE_URL", "https://app.example.com/")
    composition_page.production_runtime.cache_clear()
    try:
        answer = page.handler(http_event("GET", "/"), None)
    finally:
        composition_page.production_runtime.cache_clear()
    assert answer["headers"]["Location"] == "https://app.example.com/"
