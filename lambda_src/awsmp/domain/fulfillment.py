"""The browser's post from AWS Marketplace, and the address of the page that it is sent on to.

"Set up your account" makes the buyer's browser post a form with ``x-amzn-marketplace-token`` (an opaque text
with ``+``, ``/`` and ``=`` in it) and, for a trial, ``x-amzn-marketplace-offer-type``. The form is parsed
exactly once, on bytes. The token travels on in the URL *fragment*, which no browser sends to a server: it
stays out of access logs, referrers and query strings.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesHeaderParser
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qsl

from awsmp.domain.errors import MeteringError

#: Longest body that is parsed, in bytes; a token of the greatest length needs 12 KB in escaped form.
MAX_FORM_BYTES: Final = 64 * 1024

#: Longest registration token that is passed on, in characters. AWS states no limit; its tokens are shorter.
MAX_TOKEN_LENGTH: Final = 4096

TOKEN_FIELD: Final = "x-amzn-marketplace-token"  # noqa: S105 - the name of a form field
OFFER_TYPE_FIELD: Final = "x-amzn-marketplace-offer-type"

# More fields than any browser step sends; a flood of them is garbage, not a form.
_MAX_FORM_FIELDS: Final = 100
_TOKEN = re.compile(r"[\x20-\x7e]{1,4096}", re.ASCII)
_OFFER_TYPE = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_MULTIPART: Final = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class Fulfillment:
    """A form post that brought a token; ``offer_type`` is None where none of an acceptable form came."""

    token: str = field(default="", repr=False)
    offer_type: str | None = None


class TokenProblem(StrEnum):
    """Why a post cannot be sent on with a token; the page has a sentence for each."""

    #: An empty body, garbage, or a form without the field.
    MISSING = "missing"
    #: The body or the token is longer than any that AWS Marketplace sends, or of other characters.
    INVALID = "invalid"


class UnusablePost(MeteringError):
    """The browser's post brings no token that can be passed on."""

    def __init__(self, problem: TokenProblem) -> None:
        super().__init__(f"the post's token is {problem.value}")
        self.problem = problem


def is_token(text: str) -> bool:
    """Tell whether ``text`` can be a registration token: 1 to 4,096 printable ASCII characters."""
    return _TOKEN.fullmatch(text) is not None


def accepted_offer_type(text: str | None) -> str | None:
    """Return the offer type if it has the form of one, else None: it is unsigned and decides nothing."""
    return text if text is not None and _OFFER_TYPE.fullmatch(text) else None


def parse_form_post(content_type: str, body: bytes) -> Fulfillment:
    """Return what the form brings; the first of several fields of one name counts.

    A body of any other content type than ``multipart/form-data`` is taken for an URL-encoded form.

    Raises
    ------
    UnusablePost
        There is no token in it, the body exceeds ``MAX_FORM_BYTES``, or the token is none (:func:`is_token`).
    """
    if len(body) > MAX_FORM_BYTES:
        raise UnusablePost(TokenProblem.INVALID)
    fields: dict[str, str] = {}
    for name, value in _form_fields(content_type, body):
        fields.setdefault(name, value)
    token = fields.get(TOKEN_FIELD, "")
    if not token:
        raise UnusablePost(TokenProblem.MISSING)
    if not is_token(token):
        raise UnusablePost(TokenProblem.INVALID)
    return Fulfillment(token, accepted_offer_type(fields.get(OFFER_TYPE_FIELD)))


def token_fragment(fulfillment: Fulfillment) -> str:
    """Return the fragment, without ``#``, by which the page receives the token.

    The token is base64url without padding, so that no character of it means anything in a URL.
    """
    encoded = base64.urlsafe_b64encode(fulfillment.token.encode()).rstrip(b"=").decode()
    offer = "" if fulfillment.offer_type is None else f"&o={fulfillment.offer_type}"
    return f"t={encoded}{offer}"


def _form_fields(content_type: str, body: bytes) -> Iterator[tuple[str, str]]:
    header = Message()
    header["Content-Type"] = content_type.replace("\r", " ").replace("\n", " ")
    if header.get_content_type() == _MULTIPART:
        # The RFC 2231 forms of the parameter would be a tuple; no browser sends them.
        boundary = header.get_param("boundary", "")
        if isinstance(boundary, str) and boundary:
            yield from _multipart_fields(boundary, body)
        return
    try:
        yield from parse_qsl(
            body.decode("utf-8", "replace"),
            keep_blank_values=True,
            errors="replace",
            max_num_fields=_MAX_FORM_FIELDS,
        )
    except ValueError as error:
        raise UnusablePost(TokenProblem.MISSING) from error


def _multipart_fields(boundary: str, body: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and value of each part.

    Split here and not by ``email``'s message parser, which would parse a part that claims to be multipart
    itself, as deep as a hostile body nests them.
    """
    delimiter = b"\r\n--" + boundary.encode("utf-8", "replace")
    # The first delimiter has no line before it; what precedes it and what follows the last is no part.
    parts = (b"\r\n" + body).split(delimiter, _MAX_FORM_FIELDS + 1)
    if len(parts) > _MAX_FORM_FIELDS + 1:
        raise UnusablePost(TokenProblem.MISSING)
    for part in parts[1:]:
        if part.startswith(b"--"):
            return
        head, separator, value = part.partition(b"\r\n\r\n")
        if not separator:
            continue
        name = BytesHeaderParser().parsebytes(head.lstrip()).get_param("name", header="content-disposition")
        if isinstance(name, str):
            yield name, value.decode("utf-8", "replace")
