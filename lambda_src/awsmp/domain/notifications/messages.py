"""A message to one recipient: its bounds, its headers and its form on the wire.

Every bound is checked where the value is built, so a transport gets nothing that could inject a header or
that a provider would refuse for its size.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from email import quoprimime
from email.header import Header
from typing import Final

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.addresses import EmailAddress, InvalidAddress
from awsmp.domain.notifications.kinds import MessageKind
from awsmp.domain.notifications.templates import (
    MAX_BODY_BYTES,
    MAX_SUBJECT,
    InvalidTemplate,
    RenderContext,
    Template,
    TemplateOverrides,
    render,
)

__all__ = [
    "AUTO_SUBMITTED",
    "DELIVERY_ID_HEADER",
    "KIND_HEADER",
    "MAX_BODY_BYTES",
    "MAX_SUBJECT",
    "EmailAddress",
    "InvalidAddress",
    "InvalidMessage",
    "InvalidTemplate",
    "Message",
    "RenderContext",
    "Template",
    "TemplateOverrides",
    "message_headers",
    "message_id",
    "mime_bytes",
    "render",
]

#: RFC 3834: no person wrote it, so no auto-responder answers it.
AUTO_SUBMITTED: Final = "auto-generated"
#: Our own headers, by which a resend is recognisable whatever the transport.
KIND_HEADER: Final = "X-AWSMP-Kind"
DELIVERY_ID_HEADER: Final = "X-AWSMP-Delivery-Id"

# Also the alphabet of an SES message tag's value (SES API v2, MessageTag), shorter than its 256.
_DELIVERY_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_CRLF: Final = "\r\n"
_NOT_IN_A_LINE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_NOT_IN_A_BODY: Final = frozenset({"Cc", "Cs"})


class InvalidMessage(MeteringError):
    """A message breaks a bound. The text names the bound, never the content."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message to one recipient. ``repr`` shows what may be logged: kind and delivery id."""

    subject: str = field(repr=False)
    body: str = field(repr=False)
    recipient: EmailAddress = field(repr=False)
    sender: EmailAddress = field(repr=False)
    kind: MessageKind
    delivery_id: str

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises
        ------
        InvalidMessage
            The subject is empty, longer than 256 characters or more than one line; the body is blank, longer
            than 32 KiB in UTF-8 or has control characters other than line feed and tab; or the delivery id is
            not 1 to 128 ASCII letters, digits, ``_`` and ``-``.
        """
        if not self.subject.strip() or len(self.subject) > MAX_SUBJECT:
            raise InvalidMessage("the subject is empty or longer than 256 characters")
        if any(unicodedata.category(character) in _NOT_IN_A_LINE for character in self.subject):
            raise InvalidMessage("the subject is not one line of printable text")
        plain = self.body.replace("\n", "").replace("\t", "")
        if any(unicodedata.category(character) in _NOT_IN_A_BODY for character in plain):
            raise InvalidMessage("the body has control characters")
        if not self.body.strip() or len(self.body.encode()) > MAX_BODY_BYTES:
            raise InvalidMessage("the body is blank or longer than 32 KiB")
        if not _DELIVERY_ID.fullmatch(self.delivery_id):
            raise InvalidMessage("the delivery id is malformed")


def message_headers(message: Message) -> dict[str, str]:
    """Return the headers of every message, whatever the transport: ASCII, one line each."""
    return {
        "Auto-Submitted": AUTO_SUBMITTED,
        KIND_HEADER: message.kind.value,
        DELIVERY_ID_HEADER: message.delivery_id,
    }


def message_id(message: Message) -> str:
    """Return the Message-ID (RFC 5322 3.6.4), the same for every send of one delivery.

    SES sets its own; over SMTP a recipient's client can tell a resend by it.
    """
    return f"<{message.delivery_id}@{message.sender.domain}>"


def mime_bytes(message: Message, date: str) -> bytes:
    """Return the message as SMTP sends it: ASCII, CRLF line ends, no line that a server may refuse.

    ``date`` is the Date header's value (RFC 5322 3.3). The header lines are written out here, token by token:
    the standard library's policies fold or decode long ids and what looks like an encoded word.
    """
    headers = {
        "From": message.sender.value,
        "To": message.recipient.value,
        "Subject": _encoded_subject(message.subject),
        "Date": date,
        "Message-ID": message_id(message),
        **message_headers(message),
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Transfer-Encoding": "quoted-printable",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    text = message.body if message.body.endswith("\n") else f"{message.body}\n"
    octets = text.encode().decode("latin-1")
    return f"{head}\r\n{quoprimime.body_encode(octets, eol=_CRLF)}".encode("ascii")


def _encoded_subject(subject: str) -> str:
    """Return the subject as header text, folded where it needs encoded words (RFC 2047)."""
    if subject.isascii() and "=?" not in subject:
        return subject
    return Header(subject, "utf-8", header_name="Subject").encode(linesep=_CRLF)
