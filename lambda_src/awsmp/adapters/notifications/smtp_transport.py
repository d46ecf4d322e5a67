"""SMTP submission over TLS: one connection and one recipient a message.

Whatever goes wrong before the content is on its way was not sent; whatever is lost after that may have been.
A server's texts quote addresses, so none of them gets into an error, and no error shows the library's as its
cause.
"""

from __future__ import annotations

import contextlib
import re
import smtplib
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import format_datetime
from enum import StrEnum
from typing import Final, Protocol

from awsmp.domain.errors import Misconfigured, StoreUnavailable
from awsmp.domain.notifications.messages import Message, message_id, mime_bytes
from awsmp.domain.notifications.ports import OutcomeUnknown, TransportFailed, TransportRefused
from awsmp.domain.ports import Clock

#: Longest time-out of a message, in seconds; what is left of it bounds every wait for the server.
MAX_TIMEOUT_SECONDS: Final = 120.0
#: How long a server may take to say goodbye to a message that it has accepted, in seconds.
GOODBYE_SECONDS: Final = 5.0

_READY_FOR_CONTENT: Final = 354
_LOGIN_REQUIRED: Final = 530
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}", re.ASCII)
# RFC 5321 4.5.2: a line that begins with a full stop gets another one.
_LEADING_STOP = re.compile(rb"^\.", re.MULTILINE)


class SmtpSecurity(StrEnum):
    """When TLS begins: with the connection (RFC 8314 3), or by STARTTLS before anything else is said."""

    IMPLICIT = "implicit"
    STARTTLS = "starttls"


@dataclass(frozen=True, slots=True)
class SmtpCredentials:
    """A login; ``repr`` shows neither part."""

    username: str = field(repr=False)
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check both parts.

        Raises
        ------
        Misconfigured
            One is empty or not printable ASCII, which the login mechanisms of the library cannot send.
        """
        for part in (self.username, self.password):
            if not part or not part.isascii() or not part.isprintable():
                raise Misconfigured("the SMTP credentials are empty or not printable ASCII")


class SmtpCredentialsSource(Protocol):
    """Where the login is kept."""

    def current(self) -> SmtpCredentials:
        """Return the login. Raises Misconfigured or StoreUnavailable."""
        ...

    def forget(self) -> None:
        """Read it anew the next time: it was refused, so it may have been replaced."""
        ...


@dataclass(frozen=True, slots=True)
class SmtpTransport:
    """Implements :class:`awsmp.domain.notifications.ports.Transport`.

    ``credentials`` None is for a relay that knows its clients by other means. ``context`` is replaced where
    the server's certificate has an authority of the seller's own.
    """

    host: str
    port: int
    security: SmtpSecurity
    credentials: SmtpCredentialsSource | None
    clock: Clock
    timeout_seconds: float = 30.0
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context, repr=False)
    monotonic: Callable[[], float] = field(default=time.monotonic, repr=False)

    def __post_init__(self) -> None:
        """Check the settings.

        Raises
        ------
        Misconfigured
            The host or the port is none, the time-out is not above 0 and at most 120 seconds, or the context
            would accept a certificate that is not valid for the host.
        """
        if not _HOST.fullmatch(self.host) or not 1 <= self.port <= 65535:
            raise Misconfigured("the SMTP host or port is malformed")
        if not 0 < self.timeout_seconds <= MAX_TIMEOUT_SECONDS:
            raise Misconfigured("the SMTP time-out is not above 0 and at most 120 seconds")
        if self.context.verify_mode is not ssl.CERT_REQUIRED or not self.context.check_hostname:
            raise Misconfigured("the SMTP server's certificate has to be verified")

    def send(self, message: Message) -> str:
        """See Transport; the id is the Message-ID, the same for every send of one delivery."""
        content = mime_bytes(message, format_datetime(self.clock.now()))
        # Before there is a connection: one that waits for Secrets Manager would only use up its time.
        login = None if self.credentials is None else (self.credentials, _current(self.credentials))
        deadline = _Deadline(self.monotonic, self.monotonic() + self.timeout_seconds)
        with _nothing_sent(deadline):
            client = self._connect(message.sender.domain, deadline)
        with contextlib.closing(client):
            with _nothing_sent(deadline):
                if self.security is SmtpSecurity.STARTTLS:
                    deadline.applied_to(client).starttls(context=self.context)
                if login is not None:
                    _log_in(deadline.applied_to(client), *login)
                _address(client, message, deadline)
                deadline.applied_to(client)
            _transmit(client, content, deadline)
            _say_goodbye(client)
        return message_id(message)

    def _connect(self, local_name: str, deadline: _Deadline) -> smtplib.SMTP:
        timeout = deadline.remaining()
        if self.security is SmtpSecurity.IMPLICIT:
            return smtplib.SMTP_SSL(
                self.host, self.port, local_hostname=local_name, timeout=timeout, context=self.context
            )
        return smtplib.SMTP(self.host, self.port, local_hostname=local_name, timeout=timeout)


@dataclass(frozen=True, slots=True)
class _Deadline:
    """When a message's time is up: a socket's own time-out would begin anew with every command."""

    monotonic: Callable[[], float]
    at: float

    def remaining(self) -> float:
        """Return the seconds that are left; raise TimeoutError for none."""
        seconds = self.at - self.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def applied_to(self, client: smtplib.SMTP) -> smtplib.SMTP:
        """Return ``client`` with what is left as the limit of its next command."""
        if client.sock is None:
            raise smtplib.SMTPServerDisconnected
        client.sock.settimeout(self.remaining())
        return client

    def code(self) -> str:
        """Return the code of a connection that broke: by the deadline, or for another reason."""
        return "smtp_timeout" if self.monotonic() >= self.at else "smtp_disconnected"


@contextlib.contextmanager
def _nothing_sent(deadline: _Deadline) -> Iterator[None]:
    """Name what went wrong before any content was sent."""
    failure: TransportFailed | Misconfigured
    try:
        yield
    except ssl.SSLCertVerificationError:
        failure = Misconfigured("the SMTP server's certificate is not valid for its name and our authorities")
    except smtplib.SMTPResponseException as error:
        failure = TransportFailed(_code(error.smtp_code))
    except (smtplib.SMTPServerDisconnected, TimeoutError):
        failure = TransportFailed(deadline.code())
    except ssl.SSLError:
        failure = TransportFailed("smtp_tls_failed")
    except smtplib.SMTPException:
        # What is left of the library's: an extension is not offered, or no login mechanism is shared.
        failure = Misconfigured("the SMTP server does not offer STARTTLS or login as configured")
    except OSError:
        failure = TransportFailed("smtp_unreachable")
    else:
        return
    raise failure from None


def _current(source: SmtpCredentialsSource) -> SmtpCredentials:
    try:
        return source.current()
    except StoreUnavailable:
        raise TransportFailed("smtp_credentials_unavailable") from None


def _log_in(client: smtplib.SMTP, source: SmtpCredentialsSource, credentials: SmtpCredentials) -> None:
    try:
        client.login(credentials.username, credentials.password)
    except smtplib.SMTPAuthenticationError as error:
        code = error.smtp_code
    else:
        return
    source.forget()
    if _is_momentary(code):
        raise TransportFailed(_code(code))
    raise Misconfigured(f"the SMTP server refuses the login: {_code(code)}")


def _address(client: smtplib.SMTP, message: Message, deadline: _Deadline) -> None:
    """Name sender and recipient, and ask for the content to be taken."""
    deadline.applied_to(client).ehlo_or_helo_if_needed()
    code, _ = deadline.applied_to(client).docmd("MAIL", f"FROM:<{message.sender.value}>")
    if code == _LOGIN_REQUIRED or (_is_refusal(code) and not _is_momentary(code)):
        raise Misconfigured(f"the SMTP server refuses the sender: {_code(code)}")
    _require(200 <= code < 300, code)
    code, _ = deadline.applied_to(client).docmd("RCPT", f"TO:<{message.recipient.value}>")
    _require(200 <= code < 300, code)
    code, _ = deadline.applied_to(client).docmd("DATA")
    _require(code == _READY_FOR_CONTENT, code)


def _transmit(client: smtplib.SMTP, content: bytes, deadline: _Deadline) -> None:
    """Send the content. From its first octet on, an answer that is missing may have been a yes."""
    unknown: OutcomeUnknown
    try:
        client.send(_LEADING_STOP.sub(b"..", content) + b".\r\n")
        code, _ = deadline.applied_to(client).getreply()
    except (smtplib.SMTPServerDisconnected, TimeoutError):
        unknown = OutcomeUnknown(deadline.code())
    except smtplib.SMTPException:
        unknown = OutcomeUnknown("smtp_protocol_error")
    else:
        if not 200 <= code < 600:
            raise OutcomeUnknown("smtp_protocol_error")
        _require(code < 300, code)
        return
    raise unknown


def _say_goodbye(client: smtplib.SMTP) -> None:
    # The message is accepted: whatever a server does now, sending it again would be the mistake.
    with contextlib.suppress(OSError):
        if client.sock is not None:
            client.sock.settimeout(GOODBYE_SECONDS)
        client.quit()


def _require(accepted: bool, code: int) -> None:
    if accepted:
        return
    if _is_refusal(code) and not _is_momentary(code):
        raise TransportRefused(_code(code))
    raise TransportFailed(_code(code))


def _is_refusal(code: int) -> bool:
    return 400 <= code < 600


def _is_momentary(code: int) -> bool:
    """RFC 5321 4.2.1: 4yz may succeed later, 5yz will not."""
    return 400 <= code < 500


def _code(code: int) -> str:
    return f"smtp_{code}" if 200 <= code < 600 else "smtp_protocol_error"
