"""A request and an answer, free of the service that carries them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Sent with every answer: nothing is cached, framed, sniffed or referred to, and HTTPS is kept.
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=31536000",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

#: For answers that are no page.
NO_CONTENT_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    ``resource`` is the path as the API defines it, such as ``/assets/{file}``; header names are lower case.
    """

    method: str
    resource: str
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    path_parameters: Mapping[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str:
        """Return a header's value whatever its name's case, empty when it is not there."""
        return self.headers.get(name.lower(), "")


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; its headers come on top of ``SECURITY_HEADERS``."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


def json_response(status: int, document: Mapping[str, object], headers: Mapping[str, str]) -> Response:
    """Return a JSON answer, which no browser may render as anything else."""
    content = {"Content-Type": "application/json", "Content-Security-Policy": NO_CONTENT_POLICY}
    return Response(status, {**content, **headers}, json.dumps(document, separators=(",", ":")))


def text_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a plain-text answer."""
    content = {"Content-Type": "text/plain; charset=utf-8", "Content-Security-Policy": NO_CONTENT_POLICY}
    return Response(status, {**content, **(headers or {})}, text)
