"""A mail server of another make on a free port of 127.0.0.1, certificates for it, and rude servers.

The server is aiosmtpd's: what it takes down is what an independent reading of the protocol found on the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USERNAME, PASSWORD = "relay-user", "correct horse battery staple"


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the test's own; certificates are written below ``folder``."""

    folder: Path
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def name(self) -> x509.Name:
        """Name of the authority."""
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Test authority {self.folder.name}")])

    def certificate(self) -> x509.Certificate:
        """Return the authority's own certificate."""
        return (
            _builder(self.name, self.name, self.key, timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def server_context(
        self, host: str = "127.0.0.1", good_for: timedelta = timedelta(days=1)
    ) -> ssl.SSLContext:
        """Return a server's context with a certificate for ``host``; a negative ``good_for`` is expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternative: x509.GeneralName = x509.DNSName(host)
        with contextlib.suppress(ValueError):
            alternative = x509.IPAddress(ipaddress.ip_address(host))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail server")])
        certificate = (
            _builder(subject, self.name, key, good_for)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
            .sign(self.key, hashes.SHA256())
        )
        path = self.folder / f"{host}-{good_for.days}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return a client's context that trusts this authority and no other."""
        certificate = self.certificate().public_bytes(serialization.Encoding.PEM).decode("ascii")
        return ssl.create_default_context(cadata=certificate)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, good_for: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + good_for)
    )


@dataclass(frozen=True)
class Mail:
    """What the server accepted, and over which kind of connection."""

    mail_from: str | None
    rcpt_tos: list[str]
    content: bytes
    tls: bool
    login: str | None


Hook = Callable[[SMTP, Envelope, str], Awaitable[str | None]]


@dataclass
class Handler:
    """Takes mail down. A hook named for a command may answer in the server's place; None: go on as usual."""

    login_required: bool = False
    accepted: list[Mail] = field(default_factory=list)
    hooks: dict[str, Hook] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)

    async def _hook(self, command: str, server: SMTP, envelope: Envelope, argument: str) -> str | None:
        self.commands.append(command)
        hook = self.hooks.get(command)
        return None if hook is None else await hook(server, envelope, argument)

    async def handle_EHLO(
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        answer = await self._hook("EHLO", server, envelope, hostname)
        session.host_name = hostname
        return responses if answer is None else [answer]

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = await self._hook("MAIL", server, envelope, address)
        if self.login_required and not session.authenticated:
            answer = "530 5.7.0 log in first"
        if answer is None:
            envelope.mail_from = address
        return answer or "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = await self._hook("RCPT", server, envelope, address)
        if answer is None:
            envelope.rcpt_tos.append(address)
        return answer or "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        login = session.auth_data.decode() if isinstance(session.auth_data, bytes) else None
        mail = Mail(envelope.mail_from, envelope.rcpt_tos, content, session.ssl is not None, login)
        answer = await self._hook("DATA", server, envelope, "")
        if answer is None:
            self.accepted.append(mail)
        return answer or "250 Accepted as 4711"

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        return await self._hook("QUIT", server, envelope, "") or "221 Bye"


def answering(text: str) -> Hook:
    """Answer ``text``."""

    async def hook(server: SMTP, envelope: Envelope, argument: str) -> str | None:
        return text

    return hook


def hanging_up() -> Hook:
    """Drop the connection without a word."""

    async def hook(server: SMTP, envelope: Envelope, argument: str) -> str | None:
        assert isinstance(server.transport, asyncio.Transport)
        server.transport.abort()
        await asyncio.sleep(60)
        return None

    return hook


def stalling() -> Hook:
    """Say nothing for as long as a test takes."""

    async def hook(server: SMTP, envelope: Envelope, argument: str) -> str | None:
        await asyncio.sleep(60)
        return None

    return hook


def _authenticate(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
) -> AuthResult:
    assert isinstance(data, LoginPassword)
    good = (data.login.decode(), data.password.decode()) == (USERNAME, PASSWORD)
    return AuthResult(success=good, handled=False, auth_data=data.login)


def _out_of_order(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
) -> AuthResult:
    return AuthResult(success=False, handled=False, message="454 4.7.0 cannot check logins at the moment")


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    handler: Handler


@contextlib.contextmanager
def running(
    *,
    implicit: ssl.SSLContext | None = None,
    starttls: ssl.SSLContext | None = None,
    login: bool = False,
    logins_work: bool = True,
    hooks: dict[str, Hook] | None = None,
) -> Iterator[Server]:
    """Run a server in a thread of its own until the block ends."""
    handler = Handler(login, hooks=hooks or {})
    loop = asyncio.new_event_loop()

    def protocol() -> SMTP:
        return SMTP(
            handler,
            hostname="mail.test",
            loop=loop,
            tls_context=starttls,
            require_starttls=starttls is not None,
            # Over implicit TLS the library does not know that the connection is encrypted.
            auth_require_tls=starttls is not None,
            authenticator=_authenticate if logins_work else _out_of_order,
            auth_exclude_mechanism=() if login else ("LOGIN", "PLAIN"),
            timeout=60,
        )

    server = loop.run_until_complete(loop.create_server(protocol, "127.0.0.1", 0, ssl=implicit))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield Server(server.sockets[0].getsockname()[1], handler)
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _stop(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # Closed transports tell their protocols so in the loop's next turns.
    await asyncio.sleep(0.05)


@contextlib.contextmanager
def raw_server(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept one plain connection, hand it to ``talk`` in a thread, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)


def closed_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
