"""The token is in the page's memory and in one request body, nowhere else; nothing foreign runs here."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from awsmp.domain.customer_profiles import RefusalCode
from awsmp.domain.registration_fields import FieldCode
from sandbox.registration_server import FIELDS, RegistrationServer, page_configuration
from tests.browser.support import (
    BROWSER_TEST,
    EMAIL,
    Browse,
    MarketplaceSite,
    hold_register,
    posts,
    request_urls,
    sent,
    with_logo,
)

pytestmark = list(BROWSER_TEST)

PAGE = Path(__file__).parents[2] / "lambda_src/awsmp/page"

#: What the page may weigh, uncompressed and without the logo.
MAX_PAGE_BYTES = 50_000

# The document's own navigation entry keeps the address that it was loaded by, in this page's memory, as long
# as it is open; no script can take it out, and none but the page's own can read it.
_STORED = """async () => JSON.stringify([
  location.href, document.referrer, history.state, document.cookie, window.name,
  {...localStorage}, {...sessionStorage},
  await indexedDB.databases(), await caches.keys(),
  performance.getEntries().filter(({ entryType }) => entryType !== "navigation").map(({ name }) => name),
  document.documentElement.outerHTML, Object.keys(awsmpRegistration),
])"""


def _spellings(token: str) -> list[str]:
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return [token, encoded, encoded[:16], token.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")]


def test_the_token_is_in_no_address_header_storage_or_markup(
    browse: Browse, server: RegistrationServer, marketplace: MarketplaceSite
) -> None:
    token = server.new_token()
    assert any(character in token for character in "+/=")
    fields = {"x-amzn-marketplace-token": token}
    visit = browse()
    visit.page.goto(marketplace.offer("buy", server.fulfillment_url, fields))
    visit.page.get_by_role("button").click()
    visit.expect_state("ready")
    assert visit.page.url == server.url
    visit.fill()
    held = hold_register(visit)
    visit.submit()
    visit.expect_state("submitting")
    while_sending = visit.page.evaluate(_STORED)
    held[0]()
    visit.expect_state("registered")
    afterwards = visit.page.evaluate(_STORED)
    for spelling in _spellings(token):
        assert spelling not in while_sending
        assert spelling not in afterwards

    [post] = posts(server)
    assert sent(post)["token"] == token
    assert len(server.requests) >= 5
    for request in server.requests:
        told = json.dumps([request.target, dict(request.headers)])
        assert not any(spelling in told for spelling in _spellings(token))
        if not request.target.endswith("/fulfillment"):
            assert "referer" not in {name.lower() for name in request.headers}
        if request.method == "GET":
            assert request.body == b""
    assert visit.context.cookies() == []


def test_the_token_leaves_the_address_bar_before_anything_else_happens(
    browse: Browse, server: RegistrationServer
) -> None:
    # Even a page whose configuration cannot be read has removed it.
    server.values["configuration"] = "{"
    visit = browse()
    visit.page.goto(server.page_url(server.new_token()))
    expect(visit.page).to_have_url(server.url)
    assert len(visit.errors) == 1
    visit.errors.clear()


def test_leaving_for_another_site_tells_it_nothing(browse: Browse, marketplace: MarketplaceSite) -> None:
    configuration = page_configuration(success_url=marketplace.url("welcome"))
    with RegistrationServer(configuration=configuration) as server:
        visit = browse()
        visit.register(server, server.new_token())
        visit.page.get_by_role("link", name="Continue").click()
        visit.page.wait_for_url(marketplace.url("welcome"))
        assert visit.page.evaluate("document.referrer") == ""
        [welcome] = [headers for _, path, headers in marketplace.requests if path == "/welcome"]
        assert "referer" not in welcome
        assert "cookie" not in welcome


def test_the_page_is_three_small_files_from_one_host(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    seen = request_urls(visit)
    visit.arrive(server, server.new_token())
    loaded: dict[str, bytes] = {}
    for request in seen:
        response = request.response()
        assert response is not None
        if not request.url.endswith("/favicon.ico"):
            loaded[request.url.partition("#")[0]] = response.body()
    assert sorted(loaded) == [server.url, f"{server.url}assets/app.js", f"{server.url}assets/style.css"]
    assert 10_000 < sum(map(len, loaded.values())) < MAX_PAGE_BYTES
    # As a browser gets it where the gateway compresses.
    assert sum(len(gzip.compress(body)) for body in loaded.values()) < MAX_PAGE_BYTES // 3


def test_a_broken_policy_would_be_noticed(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    visit.arrive(server, server.new_token())
    visit.page.evaluate(
        """() => {
          const script = Object.assign(document.createElement("script"), { textContent: "window.evil = 1" });
          document.head.append(script);
          document.body.setAttribute("style", "color: red");
        }"""
    )
    expect(visit.page.locator("#main")).to_be_visible()
    assert visit.page.evaluate("window.evil") is None
    assert any(told.startswith("script-src") for told in visit.violations)
    assert any(told.startswith("style-src") for told in visit.violations)
    visit.violations.clear()


def test_what_the_seller_configures_is_text_and_never_markup(browse: Browse) -> None:
    image, script = (
        '<img src="https://evil.example.com/x" onerror="evil=1">',
        "<script>window.evil=1</script>",
    )
    evil = f"{image}</script>{script}"
    fields = [{**each, "label": f"{each['name']} {evil}"} for each in FIELDS if each["type"] != "select"]
    fields.append(
        {
            "name": "size",
            "label": "Size",
            "type": "select",
            "maxLength": 9,
            "required": False,
            "options": [evil],
        }
    )
    configuration = page_configuration(
        fields=fields,
        regions=[
            {"label": evil, "registrationUrl": "register"},
            {"label": "Other", "registrationUrl": "register"},
        ],
        messages={"intro": evil, "registered": f"{evil} {{product}} {{unknown}}"},
        productName=f"Product {evil}",
    )
    with RegistrationServer(configuration=configuration) as server:
        visit = browse()
        seen = request_urls(visit)
        visit.arrive(server, server.new_token())
        expect(visit.page.locator("main")).to_contain_text(evil)
        visit.page.locator("#field-email").fill(EMAIL)
        visit.page.locator("#field-name").fill("<b>Mira</b>")
        visit.page.locator("#field-terms").check()
        visit.submit()
        visit.expect_state("registered")
        expect(visit.page.locator("main")).to_contain_text("{unknown}")
        assert visit.page.locator("img, main script, main b").count() == 0
        assert visit.page.evaluate("window.evil") is None
        assert not any("evil" in each.url for each in seen)


def test_a_logo_comes_from_the_one_origin_that_the_policy_names(
    browse: Browse, server: RegistrationServer
) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="90"></svg>'
    server.values["logo_html"] = '<img src="https://images.example.com/logo.svg" alt="Example Corp">'
    server.policy = with_logo("https://images.example.com")
    visit = browse()
    visit.page.route(
        "https://images.example.com/**", lambda route: route.fulfill(body=svg, content_type="image/svg+xml")
    )
    visit.arrive(server, server.new_token())
    logo = visit.page.get_by_role("img", name="Example Corp")
    expect(logo).to_be_visible()
    assert logo.bounding_box()["height"] <= 48  # type: ignore[index]


# ------------------------------------------------------------------ texts


def test_every_text_can_be_replaced_and_the_rest_is_marked_as_english(browse: Browse) -> None:
    messages = {
        "title": "Anmeldung zu {product}",
        "submit": "Anmeldung abschließen",
        "Required": "{label}: bitte ausfüllen.",
        "signIn": "Bei einem bestehenden Konto anmelden",
        "signInUrl": "https://app.example.com/sign-in",
        "marketplaceUrl": "",
    }
    configuration = page_configuration(locale="de", messages=messages)
    with RegistrationServer(configuration=configuration) as server:
        visit = browse()
        visit.arrive(server, server.new_token())
        expect(visit.page).to_have_title("Anmeldung zu Example Analytics")
        button = visit.page.get_by_role("button", name="Anmeldung abschließen")
        expect(button).not_to_have_attribute("lang", "en")
        expect(visit.page.get_by_text("Every field is needed")).to_have_attribute("lang", "en")
        sign_in = visit.page.get_by_role("link", name="Bei einem bestehenden Konto anmelden")
        expect(sign_in).to_have_attribute("href", "https://app.example.com/sign-in")
        button.click()
        expect(visit.page.locator("#error-name")).to_have_text("Your name: bitte ausfüllen.")
        visit.page.goto(server.url)
        visit.page.reload()
        expect(visit.page.get_by_role("link", name="Open AWS Marketplace")).to_have_count(0)


def test_every_text_is_used_and_every_code_has_one() -> None:
    table, _, code = (PAGE / "app.js").read_text(encoding="utf-8").partition("  const configuration = ")
    defined = set(re.findall(r'^    (\w+): "', table, re.MULTILINE))
    assert len(defined) > 60
    fields = {each.value for each in FieldCode} - {"UnknownField"}
    notices = {each.value for each in RefusalCode} - {"InvalidFields"} | {"Unavailable", "Misconfigured"}
    panels = notices | {"Offline", "Refused", "missing", "reloaded", "registered", "already"}
    headed = {f"{name}Title" for name in panels | {"summary"}}
    assert fields | panels | headed <= defined
    assert {name for name in defined - fields - panels - headed if f'"{name}"' not in code} == set()


@pytest.mark.parametrize("name", ["index.html", "style.css"])
def test_the_templates_have_nothing_but_placeholders_for_either_template_language(name: str) -> None:
    text = (PAGE / name).read_text(encoding="utf-8")
    assert "%{" not in text
    assert all(part.startswith("{") for part in text.split("$")[1:])
