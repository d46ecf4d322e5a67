"""The page of a verification link in Chromium: its script, its policy, the keyboard, a phone, and axe."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import pytest
from playwright.sync_api import expect

from awsmp.handlers import verify
from tests.browser.support import BROWSER_TEST, PHONE, Browse, Visit, axe_source
from tests.unit.notifications.deployment import Context, Deployment, http_event

pytestmark = list(BROWSER_TEST)

AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
BUTTON = "Confirm my address"


class VerifySite:
    """The verify function behind HTTP, on a deployment whose buyer has just been sent a link."""

    def __init__(self) -> None:
        self.deployment = Deployment()
        self.deployment.register()
        self.deployment.deliver()
        self.deployment.send()
        #: Method and target of every request, oldest first.
        self.requests: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def page_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/live/verify"

    @property
    def link(self) -> str:
        return f"{self.page_url}#verify={self.deployment.token()}"

    @property
    def is_verified(self) -> bool:
        return "confirmedBy" in self.deployment.profile()["verification#owner"]


def _handler_of(site: VerifySite) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            site.requests.append((self.command, self.path))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.removeprefix("/live")
            answer: dict[str, Any] = verify.run(
                http_event(self.command, body, path), Context(), site.deployment.verify_runtime()
            )
            content = str(answer["body"]).encode()
            self.send_response(answer["statusCode"])
            for name, value in answer["headers"].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_arguments: object) -> None:
            """Keep quiet."""

    return Handler


@pytest.fixture
def site() -> Iterator[VerifySite]:
    with VerifySite() as running:
        yield running


def axe(visit: Visit) -> list[str]:
    visit.page.evaluate(axe_source())
    found = visit.page.evaluate(
        "(tags) => axe.run(document, { runOnly: tags, resultTypes: ['violations'] })", AXE_TAGS
    )
    return [str(each["id"]) for each in found["violations"]]


def test_the_button_verifies_and_the_token_is_in_no_address(browse: Browse, site: VerifySite) -> None:
    visit = browse()
    visit.page.goto(site.link)
    expect(visit.page.get_by_role("button", name=BUTTON)).to_be_visible()
    expect(visit.page.get_by_text("This page needs JavaScript")).to_be_hidden()
    assert visit.page.url == site.page_url, "the token has left the address bar"
    assert not site.is_verified
    visit.page.get_by_role("button", name=BUTTON).click()
    expect(visit.page.get_by_role("heading", name="Your address is confirmed")).to_be_visible()
    assert site.is_verified
    own = [request for request in site.requests if "favicon" not in request[1]]
    assert own == [("GET", "/live/verify"), ("POST", "/live/verify")]


def test_the_keyboard_alone_is_enough(browse: Browse, site: VerifySite) -> None:
    visit = browse()
    visit.page.goto(site.link)
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    expect(visit.page.get_by_role("heading", name="Your address is confirmed")).to_be_visible()


@pytest.mark.parametrize("fragment", ["", "#verify=", "#other=1"])
def test_a_link_that_was_cut_off_says_so_and_has_no_button(
    browse: Browse, site: VerifySite, fragment: str
) -> None:
    visit = browse()
    visit.page.goto(f"{site.page_url}{fragment}")
    expect(visit.page.get_by_role("alert")).to_contain_text("incomplete")
    expect(visit.page.get_by_role("button")).to_have_count(0)


def test_a_used_up_link_shows_the_sentence_of_its_refusal(browse: Browse, site: VerifySite) -> None:
    visit = browse()
    visit.page.goto(f"{site.page_url}#verify=x.y")
    visit.page.get_by_role("button", name=BUTTON).click()
    expect(visit.page.get_by_role("alert")).to_contain_text("not valid")


def test_without_script_the_page_says_why_it_needs_one(browse: Browse, site: VerifySite) -> None:
    visit = browse(java_script_enabled=False)
    visit.page.goto(site.link)
    expect(visit.page.get_by_text("This page needs JavaScript")).to_be_visible()
    expect(visit.page.get_by_role("button")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_phone_and_nothing_overflows(
    browse: Browse, site: VerifySite, scheme: str
) -> None:
    visit = browse(width=PHONE, color_scheme=scheme, bypass_csp=True)
    visit.page.goto(site.link)
    assert axe(visit) == []
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.page.get_by_role("button", name=BUTTON).click()
    expect(visit.page.get_by_role("heading", name="Your address is confirmed")).to_be_visible()
    assert axe(visit) == []
