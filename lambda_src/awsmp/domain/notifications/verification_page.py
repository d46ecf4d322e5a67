"""The page that a verification link opens: a button, and after it what came of it. Pure.

Opening the link changes nothing, so a mail scanner that does cannot use it up: only the button's POST does.
The token is in the URL's fragment, which no browser sends; the page's script moves it into the form and out
of the address bar. The page has no other part from anywhere, and its policy allows exactly its own script
and style, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from html import escape
from typing import Final

from awsmp.domain.http import Response

#: The form's member that carries the token, and the fragment's.
TOKEN_FIELD: Final = "token"  # noqa: S105 - a form field's name
FRAGMENT: Final = "#verify="

_STYLE: Final = (
    ":root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}"
    "body{margin:0;display:grid;min-height:100vh;place-items:center}"
    "main{max-width:34rem;padding:1.5rem}"
    "h1{font-size:1.4rem}"
    "button{font:inherit;font-weight:600;padding:.7rem 1.4rem;border:2px solid;border-radius:.4rem}"
    "button:focus-visible{outline:3px solid Highlight;outline-offset:2px}"
)
_SCRIPT: Final = (
    '"use strict";'
    f'const mark="{FRAGMENT}",fragment=location.hash,form=document.forms[0];'
    'history.replaceState(null,"",location.pathname);'
    "if(fragment.startsWith(mark)&&fragment.length>mark.length){"
    "form.elements.token.value=fragment.slice(mark.length);form.hidden=false}"
    'else{document.getElementById("incomplete").hidden=false}'
    'document.getElementById("scriptless").hidden=true;'
)


@dataclass(frozen=True, slots=True)
class PageText:
    """What the page is about: the product's name, and how to reach the seller."""

    product: str | None = None
    support: str | None = None


def question(text: PageText) -> Response:
    """Return the page with the button."""
    body = (
        "<h1>Confirm your email address</h1>"
        f"<p>Press the button to receive service messages{_about(text)} at this address.</p>"
        '<form method="post" hidden>'
        f'<input type="hidden" name="{TOKEN_FIELD}" value="">'
        '<button type="submit">Confirm my address</button></form>'
        '<p id="incomplete" role="alert" hidden>This link is incomplete. Open it from the message itself, '
        "or copy it as a whole.</p>"
        '<p id="scriptless">This page needs JavaScript: it keeps the secret of your link out of logs.</p>'
        f"{_help(text)}<script>{_SCRIPT}</script>"
    )
    return _page(200, body, script=True)


def confirmed(text: PageText) -> Response:
    """Return the page that says that the address is verified, whether by this request or an earlier one."""
    return _page(
        200,
        "<h1>Your address is confirmed</h1>"
        f"<p>Service messages{_about(text)} will be sent to it. You can close this page.</p>{_help(text)}",
    )


def told(status: int, sentence: str, text: PageText) -> Response:
    """Return a page with one sentence of ours about what went wrong."""
    heading = "<h1>Your address could not be confirmed</h1>"
    return _page(status, f'{heading}<p role="alert">{escape(sentence)}</p>{_help(text)}')


def _about(text: PageText) -> str:
    return "" if text.product is None else f" about {escape(text.product)}"


def _help(text: PageText) -> str:
    return "" if text.support is None else f"<p>Questions: {escape(text.support)}</p>"


def _page(status: int, body: str, *, script: bool = False) -> Response:
    sources = [f"style-src '{_digest(_STYLE)}'"]
    if script:
        sources += [f"script-src '{_digest(_SCRIPT)}'", "form-action 'self'"]
    else:
        sources += ["form-action 'none'"]
    policy = "; ".join(["default-src 'none'", *sources, "base-uri 'none'", "frame-ancestors 'none'"])
    document = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="robots" content="noindex">'
        f"<title>Confirm your email address</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>"
    )
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}
    return Response(status, headers, document)


def _digest(source: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"
