"""Generated requests for the registration's API, and what no answer to any of them may be.

The API is described by its routes; what is sent over them is generated: forms and documents that are nearly
right, garbage, other methods, other paths. Whatever a caller could plant carries ``MARK``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from awsmp.domain.http import SECURITY_HEADERS, json_response
from sandbox.buyer import Answer

#: In tokens, fields, headers, query strings and bodies: it may come back nowhere, and be logged nowhere.
MARK: Final = "zq7Planted"

#: Long enough that no page or answer holds it by chance.
_MIN_ECHO: Final = 12


@dataclass(frozen=True, slots=True)
class Sent:
    """One generated request; ``path`` may have a query string and begins below the stage."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    #: The token in it, if it has one.
    token: str | None = None

    @property
    def route(self) -> str:
        """The route that API Gateway finds for it, ``unknown`` for none."""
        path, _, _ = self.path.partition("?")
        parts = [part for part in unquote(path).split("/") if part]
        is_asset = len(parts) == len(("assets", "{file}")) and parts[0] == "assets"
        resource = "/assets/{file}" if is_asset else "/" + "/".join(parts)
        name = f"{self.method} {resource}"
        return name if name in STATUSES else "unknown"


#: Every status that a route may answer with, but 429.
STATUSES: Final[Mapping[str, frozenset[int]]] = {
    "GET /": frozenset({200}),
    "HEAD /": frozenset({200}),
    "GET /fulfillment": frozenset({200}),
    "HEAD /fulfillment": frozenset({200}),
    "POST /fulfillment": frozenset({303}),
    "GET /assets/{file}": frozenset({200, 404}),
    "HEAD /assets/{file}": frozenset({200, 404}),
    "OPTIONS /register": frozenset({204}),
    "POST /register": frozenset({200, 400, 413, 422}),
    "unknown": frozenset({404}),
}

_CODES: Final[Mapping[str, int]] = {
    "MalformedRequest": 400,
    "InvalidToken": 400,
    "ExpiredToken": 400,
    "WrongProduct": 400,
    "MissingLicense": 400,
    "InvalidFields": 422,
    "TooLarge": 413,
    "Throttled": 429,
    "NotFound": 404,
}
_FIELD_CODES: Final = {
    "Required",
    "TooLong",
    "InvalidEmail",
    "InvalidTel",
    "InvalidChoice",
    "InvalidType",
    "UnknownField",
    "ControlCharacters",
}
_OUTCOMES: Final = {"registered", "already-registered"}
_HEADERS: Final = {**SECURITY_HEADERS, **json_response(200, {}, {}).headers}
#: Everything that an answer of the API may be made of.
_OWN_WORDS: Final = "\n".join([*_CODES, *_FIELD_CODES, *_OUTCOMES, *_HEADERS.values()])
_LOCATION: Final = re.compile(
    r"\./#(t=[A-Za-z0-9_-]+(&o=[A-Za-z0-9_-]{1,64})?|e=missing|e=invalid)", re.ASCII
)
#: Python's and Lambda's ways to tell of an error.
_TRACES: Final = (
    b"Traceback",
    b'File "',
    b"errorMessage",
    b"errorType",
    b"stackTrace",
    b"awsmp.",
    b"arn:aws",
)


def faults_of(sent: Sent, answer: Answer) -> list[str]:
    """Return what is wrong with an answer; nothing of it repeats what was sent."""
    if answer.status == 429:
        return []
    found = []
    if answer.status not in STATUSES[sent.route]:
        found.append(f"{sent.route} answered {answer.status}")
    headers = " ".join(value for name, value in answer.headers.items() if name != "location")
    whole = _without_field_names(sent, answer) + headers.encode()
    if "/assets/" not in sent.path:
        found += [f"{sent.route} told {trace!r}" for trace in _TRACES if trace in whole]
    token = sent.token or ""
    # Hypothesis also sends texts that it found in the source: one of the API's own words is no echo.
    is_telling = len(token) >= _MIN_ECHO and token not in _OWN_WORDS
    echoes = [MARK, *([token] if is_telling else [])]
    found += [f"{sent.route} repeated {text!r}, which was sent" for text in echoes if text.encode() in whole]
    if answer.status == 303 and _LOCATION.fullmatch(answer.headers.get("location", "")) is None:
        found.append(f"{sent.route} redirected elsewhere")
    if sent.route in {"POST /register", "unknown"}:
        found += _document_faults(sent, answer)
    return found


def _without_field_names(sent: Sent, answer: Answer) -> bytes:
    """Return the body without the names of fields that were sent: a refusal says which it does not know."""
    try:
        asked, told = json.loads(sent.body), json.loads(answer.body)
        known = asked["fields"].keys()
        named = told["fields"].items()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return answer.body
    fields = {str(place) if name in known else name: code for place, (name, code) in enumerate(named)}
    return json.dumps({**told, "fields": fields}, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _document_faults(sent: Sent, answer: Answer) -> list[str]:
    if sent.method == "HEAD":
        return []
    try:
        document: dict[str, Any] = json.loads(answer.body)
    except ValueError:
        return [f"{sent.route} answered {answer.status} without JSON"]
    if answer.status == 200:
        good = document.keys() == {"outcome"} and document["outcome"] in _OUTCOMES
    elif answer.status == 422:
        fields = document.get("fields", {})
        good = (
            document.keys() == {"error", "fields"} and set(fields.values()) <= _FIELD_CODES and bool(fields)
        )
    else:
        good = document.keys() == {"error"} and _CODES.get(document["error"]) == answer.status
    return [] if good else [f"{sent.route} answered {answer.status} with another document"]


# --- What is sent -------------------------------------------------------------------------------------------

_HOSTILE: Final = (
    "",
    " ",
    "null",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "${jndi:ldap://localhost/x}",
    "' OR 1=1 --",
    "{{7*7}}",
    "%00",
    "\x00",
    "\ud7ff\uffff",
    "\u00e9\u202e\u05d9",
    "\U0001d4b3" * 70,
    "a\r\nSet-Cookie: x=y",
    "1e9999",
    "x" * 5000,
)

_marked = st.text(max_size=30).map(lambda text: f"{MARK}{text}")
_texts = st.text(max_size=40) | st.sampled_from(_HOSTILE) | _marked
_printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=60)
_header_values = _printable.map(str.strip) | st.sampled_from(["*/*", "null", MARK])

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_emails = st.emails() | st.sampled_from(["a@b", "a@b.c", "@", "a" * 250 + "@b.example", f"{MARK}@x.example"])
_fields = st.fixed_dictionaries(
    {},
    optional={"email": _emails | _texts | _json, "name": _texts | _json, "company": _texts, "other": _json},
)
_content_types = st.sampled_from(
    [
        "application/x-www-form-urlencoded",
        "application/x-www-form-urlencoded; charset=utf-16",
        "multipart/form-data; boundary=b",
        "multipart/form-data",
        'multipart/form-data; boundary="b; charset=\\"',
        "multipart/mixed; boundary=b",
        "application/json",
        "application/json; charset=latin-1",
        "text/plain",
        "",
    ]
)


@st.composite
def _headers(draw: st.DrawFn) -> dict[str, str]:
    names = ("Accept", "Cookie", "Origin", "Referer", "User-Agent", "X-Forwarded-For", "Content-Encoding")
    return draw(st.dictionaries(st.sampled_from(names), _header_values, max_size=3))


@st.composite
def _form_post(draw: st.DrawFn, tokens: st.SearchStrategy[str]) -> Sent:
    token = draw(tokens)
    pairs = [("x-amzn-marketplace-token", token)] * draw(st.integers(0, 2))
    pairs += draw(st.lists(st.tuples(st.just("x-amzn-marketplace-offer-type") | _texts, _texts), max_size=2))
    encoded = urlencode([(_encodable(name), _encodable(value)) for name, value in pairs]).encode()
    parts = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in pairs
    )
    multipart = _encodable(parts + "--b--\r\n").encode()
    body = draw(
        st.sampled_from([encoded, encoded, multipart, multipart, multipart[: len(multipart) // 2], b""])
        | st.binary(max_size=200)
        | st.just(b"x" * (64 * 1024 + 1))
    )
    headers = draw(_headers()) | {"Content-Type": draw(_content_types)}
    return Sent("POST", "/fulfillment", headers, body, token)


@st.composite
def _registration(draw: st.DrawFn, tokens: st.SearchStrategy[str]) -> Sent:
    token = draw(tokens)
    document: dict[str, Any] = {
        "token": token,
        "offerType": draw(st.none() | _texts),
        "fields": draw(_fields),
    }
    for name in draw(st.sets(st.sampled_from(sorted(document)), max_size=1)):
        document[name] = draw(_json)
    good = json.dumps(document).encode()
    body = draw(
        st.sampled_from([good, good, good, good, good[: len(good) // 2], b"", b"[" * 20_000])
        | _json.map(lambda value: json.dumps(value).encode())
        | st.binary(max_size=100)
        | st.just(b'{"token":"' + b"x" * (32 * 1024) + b'"}')
    )
    headers = draw(_headers()) | {"Content-Type": draw(_content_types)}
    return Sent("POST", "/register", headers, body, token)


@st.composite
def _well_formed(draw: st.DrawFn, tokens: st.SearchStrategy[str]) -> Sent:
    token = draw(tokens)
    fields = {"email": draw(_emails), "name": f"{MARK} {draw(_printable)}"}
    body = json.dumps({"token": token, "offerType": None, "fields": fields}).encode()
    return Sent("POST", "/register", {"Content-Type": "application/json"}, body, token)


@st.composite
def _other(draw: st.DrawFn) -> Sent:
    part = _texts.map(lambda text: quote(_encodable(text)[:200], safe=""))
    path = draw(st.sampled_from([*_PATHS, *_PATHS, "/assets/", "/"]))
    if path.endswith("/") and draw(st.booleans()):
        path += draw(part) or "x"
    if draw(st.booleans()):
        path += f"?{urlencode({MARK: _encodable(draw(_texts))[:80]})}"
    method = draw(st.sampled_from(["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "GET", "HEAD"]))
    return Sent(method, path, draw(_headers()))


_PATHS: Final = ("/", "/fulfillment", "/register", "/assets/app.js", "/assets/style.css", "/assets/x")


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def requests_with(tokens: Sequence[str]) -> st.SearchStrategy[Sent]:
    """Return the strategy of all requests; ``tokens`` are what AWS Marketplace has an answer for."""
    texts = st.sampled_from(tokens) | _printable.map(lambda text: f"{MARK}{text}") | _texts
    known = st.sampled_from(tokens)
    return st.one_of(_form_post(texts), _registration(texts), _well_formed(known), _other())


def generate(tokens: Sequence[str], count: int, use: Callable[[Sent], object]) -> None:
    """Hand ``count`` requests to ``use``, the same ones for the same tokens."""

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(requests_with(tokens))
    def generated(sent: Sent) -> None:
        use(sent)

    run: Callable[[], None] = generated
    run()
