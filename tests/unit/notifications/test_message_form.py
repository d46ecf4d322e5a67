"""The bounds of a message, and what of it goes over the wire: no header that is not ours."""

from __future__ import annotations

import email
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.messages import (
    MAX_BODY_BYTES,
    MAX_SUBJECT,
    EmailAddress,
    InvalidAddress,
    InvalidMessage,
    Message,
    message_headers,
    message_id,
    mime_bytes,
)

DATE = "Sun, 29 Nov 2026 12:00:00 +0000"
#: What SMTP puts on the wire, in order: nothing that a message holds can add to it.
HEADERS = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "X-AWSMP-Kind",
    "X-AWSMP-Delivery-Id",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
]


def message(**changes: Any) -> Message:
    values: dict[str, Any] = {
        "subject": "A payment for Acme Search was refunded",
        "body": "Hello.\n",
        "recipient": EmailAddress.parse("buyer@example.com"),
        "sender": EmailAddress.parse("billing@acme.example"),
        "kind": Kind.REFUNDED,
        "delivery_id": "a1b2c3",
        **changes,
    }
    return Message(**values)


def parsed(wire: bytes) -> EmailMessage:
    read = email.message_from_bytes(wire, policy=default)
    assert isinstance(read, EmailMessage)
    return read


@pytest.mark.parametrize(
    "subject",
    [
        "",
        " ",
        "x" * (MAX_SUBJECT + 1),
        "a\nb",
        "a\rb",
        "a\r\nBcc: all@example.com",
        "a\n\nbody",
        "a\x00b",
        "a\x0bb",
        "a\x0cb",
        "a\x1cb",
        "a\x85b",
        "a\u2028b",
        "a\u2029b",
        "a\ud800",
        "a\t",
    ],
)
def test_a_subject_is_one_printable_line_of_at_most_256_characters(subject: str) -> None:
    with pytest.raises(InvalidMessage) as refusal:
        message(subject=subject)
    assert len(subject) < 2 or subject not in str(refusal.value)


@pytest.mark.parametrize("subject", ["x" * MAX_SUBJECT, "\U0001d49c" * MAX_SUBJECT, "é", "=?utf-8?q?a?="])
def test_a_subject_of_the_longest_length_in_any_script_arrives_as_it_was(subject: str) -> None:
    wire = mime_bytes(message(subject=subject), DATE)
    assert parsed(wire)["Subject"] == subject
    assert max(map(len, wire.split(b"\r\n\r\n")[0].split(b"\r\n"))) <= 998


@pytest.mark.parametrize(
    "body", ["", " \n\t", "a\rb", "a\r\nb", "a\x00", "a\x1b[31m", "a\x7f", "a\x85", "a\ud800", "x" * 32_769]
)
def test_a_body_is_not_blank_has_no_control_characters_and_at_most_32_kib(body: str) -> None:
    with pytest.raises(InvalidMessage):
        message(body=body)


@pytest.mark.parametrize(
    "body",
    [
        "x" * MAX_BODY_BYTES,
        "ü" * (MAX_BODY_BYTES // 2),
        "one\ntwo\n\nthree\n",
        ".\n..\n.x\n",
        "trailing blanks  \n\t\nend \n",
        "=3D = ?=\n",
        "From here\nTo: nobody\n",
        "no line feed at the end",
    ],
)
def test_a_body_arrives_as_it_was(body: str) -> None:
    wire = mime_bytes(message(body=body), DATE)
    assert wire.endswith(b"\r\n")
    assert parsed(wire).get_content().replace("\r\n", "\n").rstrip("\n") == body.rstrip("\n")
    assert max(map(len, wire.split(b"\r\n"))) <= 998


def test_one_byte_more_than_32_kib_in_utf_8_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        message(body="x" + "ü" * (MAX_BODY_BYTES // 2))


@pytest.mark.parametrize("delivery_id", ["", "a b", "a\nb", "a@b", "a.b", "<a>", "ä", "x" * 129, "a:b"])
def test_a_delivery_id_is_fit_for_a_header_a_message_id_and_a_tag(delivery_id: str) -> None:
    with pytest.raises(InvalidMessage):
        message(delivery_id=delivery_id)


@pytest.mark.parametrize("delivery_id", ["a", "A-b_9", "f" * 64, "x" * 128])
def test_the_ids_of_a_delivery_arrive_whole_and_in_one_piece(delivery_id: str) -> None:
    sent = message(delivery_id=delivery_id)
    lines = mime_bytes(sent, DATE).decode("ascii").split("\r\n")
    assert f"X-AWSMP-Delivery-Id: {delivery_id}" in lines
    assert f"Message-ID: <{delivery_id}@acme.example>" in lines


def test_every_message_says_that_it_is_automatic_its_kind_and_its_delivery() -> None:
    assert message_headers(message()) == {
        "Auto-Submitted": "auto-generated",
        "X-AWSMP-Kind": "refunded",
        "X-AWSMP-Delivery-Id": "a1b2c3",
    }


def test_a_resend_of_a_delivery_has_the_same_message_id_and_another_delivery_has_another() -> None:
    first, again = message(), message(subject="corrected")
    assert message_id(first) == message_id(again) == "<a1b2c3@acme.example>"
    assert message_id(message(delivery_id="other")) != message_id(first)


def test_the_longest_addresses_stand_unfolded_in_their_headers() -> None:
    longest = f"{'l' * 64}@{'d' * 63}.{'d' * 63}.{'d' * 57}.com"
    lines = mime_bytes(
        message(recipient=EmailAddress.parse(longest), sender=EmailAddress.parse(longest)), DATE
    ).split(b"\r\n")
    assert f"To: {longest}".encode() in lines
    assert f"From: {longest}".encode() in lines


def test_no_representation_of_a_message_shows_its_text_or_its_addresses() -> None:
    shown = f"{message()} {message()!r}"
    assert shown.count("Kind.REFUNDED") == shown.count("a1b2c3") == 2
    for hidden in ("buyer", "billing", "acme", "Hello", "payment"):
        assert hidden not in shown


HOSTILE = st.lists(
    st.text(max_size=30)
    | st.sampled_from(
        [
            "\r\nBcc: all@example.com",
            "\n",
            "\r",
            "\r\n\r\n",
            "\r\n.\r\n",
            "\nMAIL FROM:<x@example.com>",
            "=?utf-8?q?=0D=0ABcc:_all?=",
            "=?utf-8?b?DQpCY2M6IGFsbA==?=",
            "\u2028",
            "\x85",
            "\x00",
            "\ud800",
            "ü" * 40,
            ":" * 80,
            " " * 80,
        ]
    ),
    max_size=8,
).map("".join)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_whatever_a_message_holds_the_wire_has_our_headers_once_and_in_order(
    subject: str, body: str, delivery_id: str, local_part: str
) -> None:
    try:
        sent = message(
            subject=subject,
            body=body,
            delivery_id=delivery_id or "d",
            recipient=EmailAddress.parse(f"{local_part}@example.com"),
        )
    except (InvalidMessage, InvalidAddress):
        # One hostile part must not hide what the others would have done.
        try:
            sent = message(subject=subject or "s", body=body or "b")
        except InvalidMessage:
            return
    wire = mime_bytes(sent, DATE)
    head, _, rest = wire.partition(b"\r\n\r\n")
    fields = [line for line in head.split(b"\r\n") if not line.startswith(b" ")]
    assert [line.split(b":")[0].decode("ascii") for line in fields] == HEADERS
    assert b"\r" not in wire.replace(b"\r\n", b"")
    assert b"\n" not in wire.replace(b"\r\n", b"")
    assert wire.isascii()
    assert b"\x00" not in wire
    read = parsed(wire)
    assert read["Subject"] == sent.subject
    assert read.get_content().replace("\r\n", "\n").rstrip("\n") == sent.body.rstrip("\n")
    assert rest.endswith(b"\r\n")
