"""Takes the browser's post from AWS Marketplace, sends it on to the page, and delivers the page.

The post is answered 303, so that the browser goes on with GET, and by a relative address, which is right
behind a stage, a base path and a content network alike. It depends on no Origin, Referer or cookie: the post
comes from another site. Nothing that it brings is logged or counted beyond that it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from awsmp.domain.errors import Misconfigured
from awsmp.domain.fulfillment import UnusablePost, parse_form_post, token_fragment
from awsmp.domain.http import NO_CONTENT_POLICY, Request, Response, text_response
from awsmp.domain.page import ASSETS, INDEX, Page
from awsmp.domain.ports import Metric, Telemetry

#: How long browsers keep the page's script and style, in seconds: a new release shows within minutes.
ASSET_MAX_AGE: Final = 300

_HTML: Final = "text/html; charset=utf-8"
_METHODS: Final[Mapping[str, frozenset[str]]] = {
    "/": frozenset({"GET", "HEAD"}),
    "/fulfillment": frozenset({"GET", "HEAD", "POST"}),
    "/assets/{file}": frozenset({"GET", "HEAD"}),
}


@dataclass(frozen=True, slots=True)
class PageDelivery:
    """``own_page_url`` is the seller's own page, an https address; None means that ``page`` is delivered."""

    page: Page
    content_security_policy: str
    own_page_url: str | None
    telemetry: Telemetry

    def answer(self, request: Request) -> Response:
        """Return the answer to any request; what a browser can send never makes it a server error."""
        methods = _METHODS.get(request.resource)
        if methods is None:
            return text_response(404, "Not found.")
        if request.method not in methods:
            return text_response(405, "Method not allowed.", {"Allow": ", ".join(sorted(methods))})
        if request.method == "POST":
            return self._redirect(self._fragment(request))
        try:
            return self._file(request)
        except Misconfigured as error:
            self.telemetry.error("the page cannot be delivered", told=str(error))
            return text_response(500, "This page is not available at the moment. Please try again later.")

    def _fragment(self, request: Request) -> str:
        self.telemetry.count(Metric.FULFILLMENT_RECEIVED)
        try:
            return token_fragment(parse_form_post(request.header("content-type"), request.body))
        except UnusablePost as unusable:
            self.telemetry.count(Metric.FULFILLMENT_WITHOUT_TOKEN)
            self.telemetry.info("a post without a usable token", problem=unusable.problem.value)
            return f"e={unusable.problem.value}"

    def _redirect(self, fragment: str) -> Response:
        target = self.own_page_url or "./"
        return Response(
            303, {"Location": f"{target}#{fragment}", "Content-Security-Policy": NO_CONTENT_POLICY}
        )

    def _file(self, request: Request) -> Response:
        if request.resource == "/assets/{file}":
            name = request.path_parameters.get("file", "")
            if self.own_page_url is not None or name not in ASSETS:
                return text_response(404, "Not found.")
            return self._content(name, ASSETS[name], {"Cache-Control": f"public, max-age={ASSET_MAX_AGE}"})
        if self.own_page_url is not None:
            policy = {"Content-Security-Policy": NO_CONTENT_POLICY}
            return Response(303, {"Location": self.own_page_url, **policy})
        return self._content(INDEX, _HTML, {})

    def _content(self, name: str, content_type: str, headers: Mapping[str, str]) -> Response:
        policy = {"Content-Type": content_type, "Content-Security-Policy": self.content_security_policy}
        return Response(200, {**policy, **headers}, self.page.file(name))
