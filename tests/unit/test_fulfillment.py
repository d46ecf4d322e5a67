"""The form post from AWS Marketplace: every token arrives whole, and no post is ever a server error."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awsmp.domain.fulfillment import (
    MAX_FORM_BYTES,
    MAX_TOKEN_LENGTH,
    OFFER_TYPE_FIELD,
    TOKEN_FIELD,
    accepted_offer_type,
)
from awsmp.domain.ports import Metric
from awsmp.handlers import page, register
from sandbox.registration_server import RecordedTelemetry
from tests.unit.registration_support import (
    ANSWERS,
    BUYER,
    PRODUCT,
    FixedMarketplace,
    World,
    http_event,
    multipart,
    post_form,
    token_of,
)

PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
LICENSE = "arn:aws:license-manager::111122223333:license:l-0a1b2c3d"
URLENCODED = "application/x-www-form-urlencoded"

Fields = list[tuple[str, str]]


def urlencoded(fields: Fields) -> tuple[bytes, str]:
    return urlencode(fields).encode(), URLENCODED


def fully_escaped(fields: Fields) -> tuple[bytes, str]:
    """Every character as %XX: three bytes each, the longest form there is."""
    escaped = "&".join(f"{name}={''.join(f'%{ord(c):02x}' for c in value)}" for name, value in fields)
    return escaped.encode(), f"{URLENCODED}; charset=UTF-8"


ENCODINGS: dict[str, Callable[[Fields], tuple[bytes, str]]] = {
    "urlencoded": urlencoded,
    "fully escaped": fully_escaped,
    "multipart": multipart,
}
WORLD = World()
PAGE = WORLD.page_runtime()


def to_length(text: str, length: int) -> str:
    return (text * length)[:length]


def location(body: bytes, content_type: str = URLENCODED, *, base64_body: bool = False) -> str:
    answer = post_form(PAGE, body, content_type, base64_body=base64_body)
    assert answer["statusCode"] == 303
    return str(answer["headers"]["Location"])


@pytest.mark.parametrize("base64_body", [False, True], ids=["text", "base64"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@given(
    token=st.builds(to_length, st.text(PRINTABLE, min_size=1, max_size=40), st.integers(1, MAX_TOKEN_LENGTH))
)
@example(token="a+b/c==")
@example(token="%2B%20+&x-amzn-marketplace-token=other")
@example(token=" ")
@example(token="--b")
@example(token='"; name="x')
@example(token=(PRINTABLE * 44)[:MAX_TOKEN_LENGTH])
@example(token="+" * MAX_TOKEN_LENGTH)
def test_any_token_arrives_at_resolve_customer_unchanged(
    encoding: str, base64_body: bool, token: str
) -> None:
    body, content_type = ENCODINGS[encoding]([("ignored", "x"), (TOKEN_FIELD, token), ("more", "")])
    carried = token_of(location(body, content_type, base64_body=base64_body))
    marketplace = FixedMarketplace(
        {"ProductCode": PRODUCT, "LicenseArn": LICENSE, "CustomerAWSAccountId": BUYER}
    )
    request = json.dumps({"token": carried, "offerType": None, "fields": ANSWERS}).encode()
    event = http_event("POST", "/register", request, base64_body=base64_body)
    answer = register.run(event, None, WORLD.runtime(marketplace=marketplace))
    assert answer["statusCode"] == 200
    assert marketplace.tokens == [token]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_offer_type_of_a_trial_travels_on(encoding: str) -> None:
    body, content_type = ENCODINGS[encoding]([(TOKEN_FIELD, "t"), (OFFER_TYPE_FIELD, "free-trial")])
    assert location(body, content_type) == "./#t=dA&o=free-trial"


@pytest.mark.parametrize(
    ("offer_type", "accepted"),
    [
        ("free-trial", True),
        ("Free_Trial-2", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("free trial", False),
        ("a&t=b", False),
        ("a#b", False),
        ("a\n", False),
        ("a\r\nSet-Cookie: b=c", False),
        ("\u0661", False),
    ],
)
def test_an_offer_type_of_another_form_is_dropped(offer_type: str, accepted: bool) -> None:
    body, content_type = urlencoded([(TOKEN_FIELD, "t"), (OFFER_TYPE_FIELD, offer_type)])
    expected = f"./#t=dA&o={offer_type}" if accepted else "./#t=dA"
    assert location(body, content_type) == expected
    assert accepted_offer_type(offer_type) == (offer_type if accepted else None)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", URLENCODED),
        (b"", ""),
        (b"", "multipart/form-data"),
        (b"null", "application/json"),
        (b'{"x-amzn-marketplace-token": "t"}', "application/json"),
        (b"x-amzn-marketplace-token", URLENCODED),
        (b"x-amzn-marketplace-token=", URLENCODED),
        (b"token=t", URLENCODED),
        (b"X-Amzn-Marketplace-Token=t", URLENCODED),
        (b"&&&=&", URLENCODED),
        (b"\xff\xfe\x00", URLENCODED),
        (b"a=1&" * 200, URLENCODED),
        (b"--b\r\n" * 300, "multipart/form-data; boundary=b"),
        (b"x-amzn-marketplace-token=t", "multipart/form-data; boundary=b"),
        (b"x-amzn-marketplace-token=t", "multipart/form-data"),
        (
            b'--b\r\nContent-Disposition: form-data; name="x-amzn-marketplace-token"',
            "multipart/form-data; boundary=b",
        ),
        (multipart([("other", "t")])[0], "multipart/form-data; boundary=b"),
        (multipart([(TOKEN_FIELD, "t")])[0], "multipart/form-data; boundary=c"),
        (b"--b\r\nContent-Type: text/plain\r\n\r\nt\r\n--b--\r\n", "multipart/form-data; boundary=b"),
        (b"--b--\r\n" + multipart([(TOKEN_FIELD, "t")])[0], "multipart/form-data; boundary=b"),
    ],
)
def test_a_post_without_a_token_leads_to_the_page_that_says_so(body: bytes, content_type: str) -> None:
    assert location(body, content_type) == "./#e=missing"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        urlencoded([(TOKEN_FIELD, "x" * (MAX_TOKEN_LENGTH + 1))]),
        multipart([(TOKEN_FIELD, "x" * (MAX_TOKEN_LENGTH + 1))]),
        urlencoded([("padding", "x" * MAX_FORM_BYTES), (TOKEN_FIELD, "t")]),
        (b"x" * (MAX_FORM_BYTES + 1), ""),
        urlencoded([(TOKEN_FIELD, "t\x00")]),
        urlencoded([(TOKEN_FIELD, "t\r\n")]),
        urlencoded([(TOKEN_FIELD, "\u00e4")]),
        (b"x-amzn-marketplace-token=%ff", URLENCODED),
    ],
)
def test_a_token_that_can_be_none_leads_to_the_page_that_says_so(body: bytes, content_type: str) -> None:
    assert location(body, content_type) == "./#e=invalid"


def test_a_body_of_the_greatest_size_is_read() -> None:
    prefix = b"x-amzn-marketplace-token=t&padding="
    body = prefix + b"x" * (MAX_FORM_BYTES - len(prefix))
    assert token_of(location(body)) == "t"


def test_base64_is_decoded_only_where_it_is_flagged() -> None:
    event = http_event("POST", "/fulfillment", b"x-amzn-marketplace-token=dG9rZW4=")
    event["headers"] = {"Content-Type": URLENCODED}
    for flag in (False, None, "true"):
        assert token_of(_run(event | {"isBase64Encoded": flag})) == "dG9rZW4="
    # The whole body looks like base64 and is none.
    plain = event | {"body": "x-amzn-marketplace-token=YWJj", "isBase64Encoded": False}
    assert token_of(_run(plain)) == "YWJj"
    garbage = event | {"body": "x-amzn-marketplace-token=t", "isBase64Encoded": True}
    assert _run(garbage) == "./#e=missing"


@pytest.mark.parametrize(
    ("absent", "target"),
    [("headers", "t=dA"), ("body", "e=missing"), ("pathParameters", "t=dA"), ("isBase64Encoded", "t=dA")],
)
def test_what_the_gateway_leaves_out_is_no_error(absent: str, target: str) -> None:
    event = http_event("POST", "/fulfillment", b"x-amzn-marketplace-token=t")
    for shape in ({**event, absent: None}, {name: event[name] for name in event if name != absent}):
        assert _run(shape) == f"./#{target}"


def _run(event: dict[str, Any]) -> str:
    answer = page.run(event, None, PAGE)
    assert answer["statusCode"] == 303
    return str(answer["headers"]["Location"])


def test_of_two_tokens_the_first_counts_and_it_is_decoded_once() -> None:
    assert token_of(location(b"x-amzn-marketplace-token=a%252Bb&x-amzn-marketplace-token=c")) == "a%2Bb"


@pytest.mark.parametrize(
    "disposition",
    [
        'Content-Disposition: form-data; name="x-amzn-marketplace-token"',
        "content-disposition: form-data; name=x-amzn-marketplace-token",
        'Content-Type: text/plain\r\nContent-Disposition: form-data; name="x-amzn-marketplace-token"',
    ],
)
def test_a_part_is_named_by_its_disposition_whatever_else_it_says(disposition: str) -> None:
    body = f"preamble\r\n--b \r\n{disposition}\r\n\r\nt\r\n--b--\r\nepilogue".encode()
    assert token_of(location(body, 'Multipart/Form-Data; charset=utf-8; boundary="b"')) == "t"


def test_a_body_of_multiparts_within_multiparts_is_only_garbage() -> None:
    nested = "".join(
        f'--b\r\nContent-Type: multipart/mixed; boundary="{n}"\r\n\r\n--{n}\r\n' for n in range(1000)
    )
    assert location(nested.encode()[:MAX_FORM_BYTES], "multipart/form-data; boundary=b") == "./#e=missing"


CONTENT_TYPES = st.sampled_from(
    [URLENCODED, "multipart/form-data; boundary=b", "multipart/form-data; boundary*=x''b", ""]
) | st.text(max_size=60)
BODIES = st.binary(max_size=400) | st.lists(
    st.sampled_from(
        [
            b"--b",
            b"--",
            b"\r\n",
            b"Content-Disposition: form-data; name=",
            b'"x-amzn-marketplace-token"',
            b"t",
            *(b"=", b"&", b"%", b"+", b"x-amzn-marketplace-token", b"\xff", b":", b";"),
        ]
    ),
    max_size=30,
).map(b"".join)


@given(body=BODIES, content_type=CONTENT_TYPES, base64_body=st.booleans())
def test_whatever_is_posted_is_answered_with_a_redirect_to_the_page(
    body: bytes, content_type: str, base64_body: bool
) -> None:
    target = location(body, content_type, base64_body=base64_body)
    assert re.fullmatch(r"\./#(e=(missing|invalid)|t=[A-Za-z0-9_-]+(&o=[A-Za-z0-9_-]+)?)", target)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "https://aws.amazon.com", "Referer": "https://aws.amazon.com/x", "Cookie": "a=b"},
        {"origin": "https://attacker.example", "sec-fetch-site": "cross-site"},
    ],
)
def test_nothing_depends_on_origin_referrer_or_cookies(headers: dict[str, str]) -> None:
    event = http_event(
        "POST", "/fulfillment", b"x-amzn-marketplace-token=t", {"content-type": URLENCODED, **headers}
    )
    assert _run(event) == "./#t=dA"


def test_a_post_is_counted_and_one_without_a_token_once_more() -> None:
    world = World()
    world.telemetry = telemetry = RecordedTelemetry()
    post_form(world.page_runtime(), b"x-amzn-marketplace-token=t")
    assert telemetry.metrics == [Metric.FULFILLMENT_RECEIVED]
    post_form(world.page_runtime(), b"")
    assert telemetry.metrics[1:] == [Metric.FULFILLMENT_RECEIVED, Metric.FULFILLMENT_WITHOUT_TOKEN]


def test_the_same_post_twice_leads_to_the_same_page() -> None:
    body = urlencoded([(TOKEN_FIELD, string.printable[:90])])[0]
    assert location(body) == location(body)


def test_with_a_page_of_the_sellers_own_the_browser_is_sent_there() -> None:
    runtime = WORLD.page_runtime(own_page_url="https://app.example.com/welcome?source=aws")
    answer = post_form(runtime, b"x-amzn-marketplace-token=t&x-amzn-marketplace-offer-type=free-trial")
    assert answer["headers"]["Location"] == "https://app.example.com/welcome?source=aws#t=dA&o=free-trial"
    assert post_form(runtime, b"")["headers"]["Location"].endswith("#e=missing")
