"""Plays a buyer's browser over real HTTP: from "Set up your account" to the registration's outcome.

It does by hand what a browser and the page's script do: posts AWS Marketplace's form from another site,
follows the 303, takes the token out of the fragment, loads the page and sends the form as JSON. Whatever is
not as a browser would need it raises :class:`SetUpFailed`.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

#: Where the buyer comes from: the post is a cross-site one.
MARKETPLACE_ORIGIN: Final = "https://aws.amazon.com"

_CONFIGURATION = re.compile(r'<script type="application/json" id="configuration">(.*?)</script>', re.DOTALL)


class SetUpFailed(Exception):
    """The buyer did not get on; the message says at which step, without token or form data."""


class RegistrationRefusal(SetUpFailed):
    """``/register`` refused: ``code`` is its error code, ``fields`` the codes of single fields."""

    def __init__(self, status: int, code: str, fields: Mapping[str, str]) -> None:
        super().__init__(f"the registration was answered {status} {code}")
        self.status = status
        self.code = code
        self.fields = dict(fields)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Landing:
    """Where the buyer's browser stands after the post. ``problem`` is set where no token came along."""

    page_url: str
    token: str | None
    offer_type: str | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Buyer:
    """A buyer of the listing whose fulfilment URL this is.

    ``multipart`` posts the form as ``multipart/form-data``. ``registration_url`` replaces the address that
    the page names, for a seller's own page. ``tls`` is for certificates of a test's own.
    """

    fulfillment_url: str
    multipart: bool = False
    registration_url: str | None = None
    timeout: float = 30
    tls: ssl.SSLContext | None = None

    def set_up_account(self, token: str, fields: Mapping[str, object], offer_type: str | None = None) -> str:
        """Go the whole way and return the outcome, ``registered`` or ``already-registered``.

        Raises
        ------
        RegistrationRefusal
            The registration was refused.
        SetUpFailed
            A step before it did not answer as a browser needs it.
        """
        landing = self.post_form(token, offer_type)
        if landing.token is None:
            raise SetUpFailed(f"the page was told: {landing.problem}")
        url = self.registration_url or self.open_page(landing.page_url)
        return self.register(url, landing.token, fields, landing.offer_type)

    def post_form(self, token: str, offer_type: str | None = None) -> Landing:
        """Post AWS Marketplace's form and return where the redirect leads.

        Raises
        ------
        SetUpFailed
            The answer is no 303 to a page, or the token is in a part of the address that is sent on.
        """
        fields = {"x-amzn-marketplace-token": token}
        if offer_type is not None:
            fields["x-amzn-marketplace-offer-type"] = offer_type
        content_type, body = _encoded(fields, multipart=self.multipart)
        headers = {"Content-Type": content_type, "Origin": MARKETPLACE_ORIGIN, "Referer": MARKETPLACE_ORIGIN}
        answer = self.request("POST", self.fulfillment_url, body, headers)
        if answer.status != http.client.SEE_OTHER or "location" not in answer.headers:
            raise SetUpFailed(f"the form post was answered {answer.status}")
        address = urlsplit(urljoin(self.fulfillment_url, answer.headers["location"]))
        if address.query:
            raise SetUpFailed("the redirect puts something into the query string")
        arguments = dict(parse_qsl(address.fragment, keep_blank_values=True))
        page_url = address._replace(fragment="").geturl()
        encoded = arguments.get("t")
        return Landing(page_url, _decoded(encoded), arguments.get("o"), arguments.get("e"))

    def open_page(self, page_url: str) -> str:
        """Load the page and return the address that it sends the form to.

        Raises
        ------
        SetUpFailed
            There is no page, or it lacks its configuration or its script.
        """
        page = self.request("GET", page_url)
        configuration = _CONFIGURATION.search(page.body.decode("utf-8", "replace"))
        if page.status != http.client.OK or configuration is None:
            raise SetUpFailed(f"the page was answered {page.status} or is no registration page")
        script = self.request("GET", urljoin(page_url, "assets/app.js"))
        if script.status != http.client.OK:
            raise SetUpFailed(f"the page's script was answered {script.status}")
        regions = json.loads(configuration.group(1))["regions"]
        return urljoin(page_url, str(regions[0]["registrationUrl"]) if regions else "register")

    def register(
        self, url: str, token: str, fields: Mapping[str, object], offer_type: str | None = None
    ) -> str:
        """Send the form as the page does; return the outcome or raise as :meth:`set_up_account`."""
        origin = urlsplit(url)
        headers = {"Content-Type": "application/json", "Origin": f"{origin.scheme}://{origin.netloc}"}
        document = {"token": token, "offerType": offer_type, "fields": dict(fields)}
        answer = self.request("POST", url, json.dumps(document).encode(), headers)
        try:
            result: dict[str, Any] = json.loads(answer.body)
        except ValueError as error:
            raise SetUpFailed(f"the registration was answered {answer.status} without JSON") from error
        if answer.status != http.client.OK:
            code = str(result.get("error", "without a code"))
            raise RegistrationRefusal(answer.status, code, result.get("fields", {}))
        return str(result["outcome"])

    def request(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Make one request, following nothing; raises SetUpFailed when there is no answer."""
        address = urlsplit(url)
        host, port = address.hostname or "", address.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=self.timeout, context=self.tls)
            if address.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self.timeout)
        )
        target = address.path or "/"
        try:
            connection.request(
                method, f"{target}?{address.query}" if address.query else target, body, headers or {}
            )
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise SetUpFailed(f"{method} got no answer: {type(error).__name__}") from error
        finally:
            connection.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)


def _encoded(fields: Mapping[str, str], *, multipart: bool) -> tuple[str, bytes]:
    if not multipart:
        return "application/x-www-form-urlencoded", urlencode(fields).encode()
    boundary = "----form-boundary"
    while any(boundary in value for value in fields.values()):
        boundary += "x"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return f"multipart/form-data; boundary={boundary}", f"{''.join(parts)}--{boundary}--\r\n".encode()


def _decoded(encoded: str | None) -> str | None:
    if encoded is None:
        return None
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except ValueError as error:
        raise SetUpFailed("the redirect's token is no base64url") from error
