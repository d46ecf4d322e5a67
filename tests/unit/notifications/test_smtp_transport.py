"""The SMTP transport against a real mail server on 127.0.0.1: what arrives, and what a failure is called."""

from __future__ import annotations

import email
import ssl
import threading
import traceback
from collections.abc import Iterator
from datetime import timedelta
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from awsmp.adapters.notifications.smtp_transport import (
    SmtpCredentials,
    SmtpSecurity,
    SmtpTransport,
)
from awsmp.domain.errors import MeteringError, Misconfigured, StoreUnavailable
from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.messages import EmailAddress, Message
from awsmp.domain.notifications.ports import OutcomeUnknown, TransportFailed, TransportRefused
from sandbox.memory_aws.clock import ManualClock
from tests.unit.notifications.smtp_server import (
    PASSWORD,
    USERNAME,
    Authority,
    Hook,
    Server,
    answering,
    closed_port,
    hanging_up,
    raw_server,
    running,
    stalling,
)

IMPLICIT, STARTTLS = SmtpSecurity.IMPLICIT, SmtpSecurity.STARTTLS
MESSAGE = Message(
    subject="Rückerstattung für Acme Search",
    body="Guten Tag.\n.\n..zwei\nEnde ohne Zeilenumbruch ü",
    recipient=EmailAddress.parse("Buyer@example.com"),
    sender=EmailAddress.parse("billing@acme.example"),
    kind=Kind.REFUNDED,
    delivery_id="f" * 64,
)
#: Long enough for a loaded machine; no test waits it out.
AMPLE = 30.0


class Login:
    """Credentials that count how often they are forgotten."""

    def __init__(self, username: str = USERNAME, password: str = PASSWORD) -> None:
        self.credentials = SmtpCredentials(username, password)
        self.forgotten = 0

    def current(self) -> SmtpCredentials:
        return self.credentials

    def forget(self) -> None:
        self.forgotten += 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def transport(
    port: int, authority: Authority, security: SmtpSecurity = IMPLICIT, **changes: Any
) -> SmtpTransport:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": port,
        "security": security,
        "credentials": None,
        "clock": ManualClock(),
        "timeout_seconds": AMPLE,
        "context": authority.client_context(),
        **changes,
    }
    return SmtpTransport(**values)


def contexts(security: SmtpSecurity, context: ssl.SSLContext) -> dict[str, Any]:
    return {"implicit" if security is IMPLICIT else "starttls": context}


@pytest.fixture(params=[IMPLICIT, STARTTLS])
def security(request: pytest.FixtureRequest) -> SmtpSecurity:
    return SmtpSecurity(request.param)


@pytest.fixture
def relay(security: SmtpSecurity, authority: Authority) -> Iterator[Server]:
    with running(login=True, **contexts(security, authority.server_context())) as server:
        yield server


def failure_of(sending: SmtpTransport) -> MeteringError:
    with pytest.raises(MeteringError) as failure:
        sending.send(MESSAGE)
    shown = "".join(traceback.format_exception_only(failure.value))
    assert failure.value.__suppress_context__ or failure.value.__context__ is None
    shown += repr(failure.value)
    for hidden in ("Buyer", "buyer@", "billing@", "acme.example", "Guten Tag", PASSWORD, "quoting"):
        assert hidden not in shown
    return failure.value


def test_a_message_arrives_over_tls_after_login_once_and_as_it_was(
    security: SmtpSecurity, relay: Server, authority: Authority
) -> None:
    message_id = transport(relay.port, authority, security, credentials=Login()).send(MESSAGE)
    (mail,) = relay.handler.accepted
    assert (mail.mail_from, mail.rcpt_tos) == ("billing@acme.example", ["Buyer@example.com"])
    assert (mail.tls or security is IMPLICIT, mail.login) == (True, USERNAME)
    read = email.message_from_bytes(mail.content, policy=default)
    assert isinstance(read, email.message.EmailMessage)
    assert read["Subject"] == MESSAGE.subject
    assert read.get_content().replace("\r\n", "\n") == f"{MESSAGE.body}\n"
    assert read["Message-ID"] == message_id == f"<{'f' * 64}@acme.example>"
    assert read["Auto-Submitted"] == "auto-generated"
    assert read["X-AWSMP-Kind"] == "refunded"
    assert read["X-AWSMP-Delivery-Id"] == "f" * 64
    assert read["Date"] == "Wed, 15 Jul 2026 12:00:00 +0000"
    assert relay.handler.commands[-1] == "QUIT"


def test_a_resend_has_the_same_message_id(authority: Authority) -> None:
    with running(implicit=authority.server_context()) as server:
        sending = transport(server.port, authority)
        assert sending.send(MESSAGE) == sending.send(MESSAGE)
    first, second = server.handler.accepted
    assert first.content == second.content


def test_a_relay_that_knows_its_clients_needs_no_login(security: SmtpSecurity, authority: Authority) -> None:
    with running(**contexts(security, authority.server_context())) as server:
        transport(server.port, authority, security).send(MESSAGE)
    assert [mail.login for mail in server.handler.accepted] == [None]


def test_a_certificate_of_an_unknown_authority_is_refused_and_nothing_is_sent(
    security: SmtpSecurity, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path)
    with running(login=True, **contexts(security, stranger.server_context())) as server:
        failure = failure_of(transport(server.port, authority, security, credentials=Login()))
    assert isinstance(failure, Misconfigured)
    assert "certificate" in str(failure)
    assert "MAIL" not in server.handler.commands


@pytest.mark.parametrize(
    ("host", "good_for"),
    [("mail.example.com", timedelta(days=1)), ("127.0.0.1", timedelta(days=-1))],
    ids=["for another host", "expired"],
)
def test_a_certificate_for_another_host_or_out_of_date_is_refused_and_nothing_is_sent(
    security: SmtpSecurity, authority: Authority, host: str, good_for: timedelta
) -> None:
    with running(login=True, **contexts(security, authority.server_context(host, good_for))) as server:
        failure = failure_of(transport(server.port, authority, security, credentials=Login()))
    assert isinstance(failure, Misconfigured)
    assert "MAIL" not in server.handler.commands


def test_without_starttls_nothing_is_said_in_the_clear(authority: Authority) -> None:
    login = Login()
    with running() as server:
        failure = failure_of(transport(server.port, authority, STARTTLS, credentials=login))
    assert isinstance(failure, Misconfigured)
    assert "STARTTLS" in str(failure)
    assert server.handler.commands == ["EHLO"]


def test_a_plain_server_on_the_implicit_port_is_a_failure(authority: Authority) -> None:
    with running() as server:
        failure = failure_of(transport(server.port, authority))
    assert isinstance(failure, TransportFailed)
    assert failure.code == "smtp_tls_failed"


def test_a_bad_login_is_a_misconfiguration_and_makes_the_login_be_read_anew(
    security: SmtpSecurity, relay: Server, authority: Authority
) -> None:
    login = Login(password="not the password")
    failure = failure_of(transport(relay.port, authority, security, credentials=login))
    assert isinstance(failure, Misconfigured)
    assert str(failure).endswith("smtp_535")
    assert login.forgotten == 1
    assert relay.handler.accepted == []


def test_a_server_that_cannot_check_logins_at_the_moment_is_a_moments_failure(
    security: SmtpSecurity, authority: Authority
) -> None:
    login = Login()
    offered = contexts(security, authority.server_context())
    with running(login=True, logins_work=False, **offered) as server:
        failure = failure_of(transport(server.port, authority, security, credentials=login))
    assert isinstance(failure, TransportFailed)
    assert failure.code == "smtp_454"


def test_credentials_that_cannot_be_read_at_the_moment_are_a_moments_failure_and_nobody_is_called(
    authority: Authority,
) -> None:
    class Unreadable(Login):
        def current(self) -> SmtpCredentials:
            raise StoreUnavailable("GetSecretValue failed: ThrottlingException")

    with running(implicit=authority.server_context()) as server:
        failure = failure_of(transport(server.port, authority, credentials=Unreadable()))
    assert isinstance(failure, TransportFailed)
    assert failure.code == "smtp_credentials_unavailable"
    assert server.handler.commands == []


def test_a_server_that_offers_no_login_where_one_is_configured_is_a_misconfiguration(
    security: SmtpSecurity, authority: Authority
) -> None:
    with running(**contexts(security, authority.server_context())) as server:
        failure = failure_of(transport(server.port, authority, security, credentials=Login()))
    assert isinstance(failure, Misconfigured)
    assert server.handler.accepted == []


def test_a_server_that_wants_a_login_where_none_is_configured_is_a_misconfiguration(
    security: SmtpSecurity, relay: Server, authority: Authority
) -> None:
    failure = failure_of(transport(relay.port, authority, security))
    assert isinstance(failure, Misconfigured)
    assert str(failure).endswith("smtp_530")


@pytest.mark.parametrize(
    ("command", "answer", "expected", "code"),
    [
        ("RCPT", "550 5.1.1 <Buyer@example.com> no such user, quoting", TransportRefused, "smtp_550"),
        ("RCPT", "553 not quoting", TransportRefused, "smtp_553"),
        ("RCPT", "450 4.2.1 <Buyer@example.com> try later, quoting", TransportFailed, "smtp_450"),
        ("RCPT", "451 greylisted", TransportFailed, "smtp_451"),
        ("RCPT", "354 what", TransportFailed, "smtp_354"),
        ("MAIL", "451 try later", TransportFailed, "smtp_451"),
        ("MAIL", "421 closing", TransportFailed, "smtp_421"),
        ("DATA", "550 5.7.1 message content refused, quoting Guten Tag", TransportRefused, "smtp_550"),
        ("DATA", "552 too large", TransportRefused, "smtp_552"),
        ("DATA", "451 local error", TransportFailed, "smtp_451"),
        ("DATA", "421 shutting down", TransportFailed, "smtp_421"),
        ("DATA", "gibberish", OutcomeUnknown, "smtp_protocol_error"),
        ("DATA", "250 " + "x" * 9000, OutcomeUnknown, "smtp_protocol_error"),
    ],
)
def test_an_answer_in_the_500s_is_a_refusal_and_one_in_the_400s_a_moments_failure(
    authority: Authority, command: str, answer: str, expected: type[MeteringError], code: str
) -> None:
    with running(implicit=authority.server_context(), hooks={command: answering(answer)}) as server:
        failure = failure_of(transport(server.port, authority))
    assert type(failure) is expected
    assert getattr(failure, "code", None) == code
    assert server.handler.accepted == []


@pytest.mark.parametrize("answer", ["550 sender refused, quoting billing@acme.example", "530 log in first"])
def test_a_refused_sender_is_a_misconfiguration(authority: Authority, answer: str) -> None:
    with running(implicit=authority.server_context(), hooks={"MAIL": answering(answer)}) as server:
        failure = failure_of(transport(server.port, authority))
    assert isinstance(failure, Misconfigured)
    assert f"smtp_{answer[:3]}" in str(failure)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("EHLO", TransportFailed),
        ("MAIL", TransportFailed),
        ("RCPT", TransportFailed),
        ("DATA", OutcomeUnknown),
    ],
)
def test_a_connection_that_drops_before_the_content_sent_nothing_and_after_it_nobody_knows(
    authority: Authority, command: str, expected: type[MeteringError]
) -> None:
    with running(implicit=authority.server_context(), hooks={command: hanging_up()}) as server:
        failure = failure_of(transport(server.port, authority))
    assert type(failure) is expected
    assert getattr(failure, "code", None) == "smtp_disconnected"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("EHLO", TransportFailed),
        ("MAIL", TransportFailed),
        ("RCPT", TransportFailed),
        ("DATA", OutcomeUnknown),
    ],
)
def test_a_server_that_falls_silent_is_given_up_at_the_time_out(
    authority: Authority, command: str, expected: type[MeteringError]
) -> None:
    with running(implicit=authority.server_context(), hooks={command: stalling()}) as server:
        # The deadline's clock stands still until the server has gone silent, so that a slow machine cannot
        # run into it earlier; the wait itself is real.
        commands = server.handler.commands
        failure = failure_of(
            transport(
                server.port,
                authority,
                timeout_seconds=0.8,
                monotonic=lambda: 1.0 if command in commands else 0.0,
            )
        )
    assert type(failure) is expected
    assert getattr(failure, "code", None) == "smtp_timeout"


def test_a_server_that_accepted_and_then_drops_or_stalls_has_accepted(authority: Authority) -> None:
    for rude in (hanging_up(), answering("554 no goodbye")):
        hooks: dict[str, Hook] = {"QUIT": rude}
        with running(implicit=authority.server_context(), hooks=hooks) as server:
            assert transport(server.port, authority).send(MESSAGE) == f"<{'f' * 64}@acme.example>"
        assert len(server.handler.accepted) == 1


def test_nobody_listening_is_a_moments_failure(security: SmtpSecurity, authority: Authority) -> None:
    failure = failure_of(transport(closed_port(), authority, security))
    assert isinstance(failure, TransportFailed)
    assert failure.code == "smtp_unreachable"


def test_a_greeting_that_turns_us_away_is_a_moments_failure(authority: Authority) -> None:
    with raw_server(lambda connection: connection.sendall(b"554 5.3.2 not taking mail\r\n")) as port:
        failure = failure_of(transport(port, authority, STARTTLS))
    assert isinstance(failure, TransportFailed)
    assert failure.code == "smtp_554"


def test_a_server_that_never_greets_is_given_up_at_the_time_out(
    security: SmtpSecurity, authority: Authority
) -> None:
    enough = threading.Event()
    with raw_server(lambda connection: (enough.wait(20), None)[1]) as port:
        failure = failure_of(transport(port, authority, security, timeout_seconds=0.5))
        enough.set()
    assert isinstance(failure, TransportFailed)
    assert failure.code == "smtp_timeout"


def test_the_time_out_is_for_the_whole_message_and_not_for_each_command(authority: Authority) -> None:
    with running(implicit=authority.server_context()) as server:
        commands = server.handler.commands
        failure = failure_of(
            transport(server.port, authority, monotonic=lambda: AMPLE if "RCPT" in commands else 0.0)
        )
    assert isinstance(failure, TransportFailed)
    assert failure.code == "smtp_timeout"
    assert commands == ["EHLO", "MAIL", "RCPT"]


def test_when_the_time_is_up_before_the_first_octet_of_the_content_nothing_was_sent(
    authority: Authority,
) -> None:
    # Asked for: at the beginning, and before each of connect, EHLO, MAIL, RCPT and DATA.
    times = iter([0.0] * 6)
    with running(implicit=authority.server_context()) as server:
        sending = transport(server.port, authority, monotonic=lambda: next(times, AMPLE))
        failure = failure_of(sending)
    assert isinstance(failure, TransportFailed)
    assert server.handler.commands == ["EHLO", "MAIL", "RCPT"]


@pytest.mark.parametrize("timeout", [0, -1, 120.001, 1e9])
def test_the_time_out_is_above_0_and_at_most_120_seconds(authority: Authority, timeout: float) -> None:
    with pytest.raises(Misconfigured, match="120 seconds"):
        transport(25, authority, timeout_seconds=timeout)
    transport(25, authority, timeout_seconds=120)


def test_a_context_that_would_accept_any_certificate_is_refused(authority: Authority) -> None:
    lax = ssl.create_default_context()
    lax.check_hostname = False
    with pytest.raises(Misconfigured, match="verified"):
        transport(465, authority, context=lax)
    lax.verify_mode = ssl.CERT_NONE
    with pytest.raises(Misconfigured, match="verified"):
        transport(465, authority, context=lax)


def test_the_context_by_default_verifies_and_wants_tls_1_2_or_newer(authority: Authority) -> None:
    plain = SmtpTransport("mail.example.com", 465, IMPLICIT, None, ManualClock())
    assert plain.context.verify_mode is ssl.CERT_REQUIRED
    assert plain.context.check_hostname
    assert plain.context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("host", "port"), [("", 465), ("mail example", 465), ("mail\r\nx", 465), ("m", 0), ("m", 65536)]
)
def test_a_host_or_port_that_is_none_is_refused(authority: Authority, host: str, port: int) -> None:
    with pytest.raises(Misconfigured, match="host or port"):
        transport(port, authority, host=host)


@pytest.mark.parametrize(
    ("username", "password"), [("", "p"), ("u", ""), ("u", "pä"), ("u\r\n", "p"), ("u", "p\x00")]
)
def test_credentials_that_cannot_be_sent_are_refused_without_showing_them(
    username: str, password: str
) -> None:
    with pytest.raises(Misconfigured) as refusal:
        SmtpCredentials(username, password)
    assert "pä" not in str(refusal.value)


def test_no_representation_shows_the_login() -> None:
    assert USERNAME not in repr(SmtpCredentials(USERNAME, PASSWORD))
    assert PASSWORD not in repr(SmtpCredentials(USERNAME, PASSWORD))
