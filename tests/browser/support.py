"""A buyer in Chromium, watched for policy violations and script errors, and the site that sends one."""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from sandbox.registration_server import RegistrationServer, SeenRequest, content_security_policy

DESKTOP: Final = 1280
PHONE: Final = 360
HEIGHT: Final = 800

#: Answers that every field of the sandbox's form accepts; invented.
EMAIL: Final = "buyer@example.com"
NAME: Final = "Mira Example"

_WATCH: Final = """
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
  reportViolation(`${violatedDirective} ${blockedURI}`));
"""


@cache
def axe_source() -> str:
    """Return axe-core's script."""
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@dataclass
class Visit:
    """One buyer's tab. ``violations`` and ``errors`` have to stay empty; the fixture checks it."""

    context: BrowserContext
    page: Page
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, browser: Browser, *, width: int = DESKTOP, **options: Any) -> Visit:
        """Open an empty tab of a fresh browser profile."""
        context = browser.new_context(viewport={"width": width, "height": HEIGHT}, **options)
        context.set_default_timeout(15_000)
        visit = cls(context, context.new_page())
        context.expose_binding("reportViolation", lambda _source, told: visit.violations.append(str(told)))
        context.add_init_script(_WATCH)
        visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
        visit.page.on("console", visit._hear)
        return visit

    def _hear(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.violations.append(message.text)

    @property
    def state(self) -> str:
        """The state that the page says it is in."""
        return self.page.locator("#main").get_attribute("data-state") or ""

    def expect_state(self, state: str) -> None:
        """Wait for the page to be in ``state``."""
        expect(self.page.locator("#main")).to_have_attribute("data-state", state)

    def arrive(self, server: RegistrationServer, token: str, offer_type: str | None = None) -> None:
        """Open the page as the fulfilment redirect does, with the form ready."""
        self.page.goto(server.page_url(token, offer_type))
        self.expect_state("ready")

    def fill(self) -> None:
        """Answer every required field."""
        self.page.get_by_label("E-mail address").fill(EMAIL)
        self.page.get_by_label("Your name").fill(NAME)
        self.page.get_by_label("Support plan").select_option("priority")
        self.page.get_by_label("I accept the terms").check()

    def submit(self) -> None:
        """Press the form's button."""
        self.page.locator("#submit").click()

    def register(self, server: RegistrationServer, token: str) -> None:
        """Arrive, answer and send."""
        self.arrive(server, token)
        self.fill()
        self.submit()

    def focused(self) -> str:
        """The id of the element that has the focus, else the name of its tag."""
        return str(self.page.evaluate("document.activeElement.id || document.activeElement.localName"))

    def answer_register_with(
        self, status: int, body: str = "", headers: Mapping[str, str] | None = None, *, times: int = 1
    ) -> None:
        """Let the gateway answer in the function's place, as throttling, a web ACL or a time-out does."""
        self.page.route(
            "**/register",
            lambda route: route.fulfill(status=status, body=body, headers=dict(headers or {})),
            times=times,
        )


def posts(server: RegistrationServer) -> list[SeenRequest]:
    """Return the form posts that reached the registration API."""
    return [each for each in server.requests if each.method == "POST" and each.target.endswith("/register")]


def sent(request: SeenRequest) -> dict[str, Any]:
    """Return the JSON of a form post."""
    document: dict[str, Any] = json.loads(request.body)
    return document


class MarketplaceSite:
    """Another origin with a page that posts a buyer to a fulfilment URL, and pages that links lead to."""

    def __init__(self) -> None:
        #: Method, path and headers of every request, oldest first.
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._forms: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str) -> str:
        """Return the address of a page: ``localhost``, which is another site than 127.0.0.1."""
        return f"http://localhost:{self._server.server_address[1]}/{path}"

    def offer(
        self,
        path: str,
        action: str,
        fields: Mapping[str, str],
        encoding: str = "application/x-www-form-urlencoded",
    ) -> str:
        """Put up a page whose form posts itself to ``action``, and return the page's address."""
        inputs = "".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in fields.items()
        )
        self._forms[f"/{path}"] = (
            f'<!doctype html><title>Marketplace</title><form method="post" action="{html.escape(action)}" '
            f'enctype="{encoding}">{inputs}<button>Set up your account</button></form>'
        )
        return self.url(path)

    def page(self, path: str) -> str:
        """Return the HTML at ``path``."""
        return self._forms.get(path, "<!doctype html><title>Elsewhere</title><h1>Elsewhere</h1>")


def _handler_of(site: MarketplaceSite) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append(
                ("GET", self.path, {name.lower(): value for name, value in self.headers.items()})
            )
            body = site.page(self.path.partition("?")[0]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name of the base class
            """Stay silent."""

    return Handler


def with_logo(origin: str) -> str:
    """Return the policy of a deployment whose logo comes from ``origin``."""
    return content_security_policy().replace("img-src 'self'", f"img-src 'self' {origin}")


#: What every module of this folder is: one browser is enough for two cores, so all of it is on one worker.
BROWSER_TEST: Final = (pytest.mark.slow, pytest.mark.browser, pytest.mark.xdist_group("browser"))

Browse = Callable[..., Visit]
Held = list[Callable[[], None]]


def hold_register(visit: Visit) -> Held:
    """Keep calls of the registration API waiting; calling an entry of the list lets it go on."""
    held: Held = []
    visit.page.route("**/register", lambda route: held.append(route.continue_))
    return held


def request_urls(visit: Visit) -> list[Request]:
    """Return a list that every request of the tab is added to."""
    seen: list[Request] = []
    visit.page.on("request", lambda request: seen.append(request))  # noqa: PLW0108 - it marks what it is given
    return seen
