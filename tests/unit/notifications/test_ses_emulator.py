"""The SES transport against the local emulator: the message lies in its outbox as it was sent."""

from __future__ import annotations

import json
import urllib.request

import pytest

from awsmp.adapters.notifications.ses_transport import SesTransport
from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.messages import EmailAddress, Message, RenderContext, render
from sandbox.emulator import emulator

pytestmark = pytest.mark.emulator


def test_a_rendered_message_lies_in_the_outbox_for_its_recipient_alone() -> None:
    context = RenderContext(
        product="Acme Süche",
        plan="Team",
        portal_url="https://portal.acme.example/",
        seller="Acme Inc.",
        support="https://acme.example/support",
    )
    subject, body = render(Kind.SUBSCRIPTION_STARTED, "de", context)
    message = Message(
        subject=subject,
        body=body,
        recipient=EmailAddress.parse("Buyer@example.com"),
        sender=EmailAddress.parse("billing@acme.example"),
        kind=Kind.SUBSCRIPTION_STARTED,
        delivery_id="d1",
    )
    with emulator() as running:
        client = running.client("sesv2")
        for identity in ("acme.example", "Buyer@example.com"):
            client.create_email_identity(EmailIdentity=identity)
        message_id = SesTransport(client, "awsmp-notifications").send(message)
        client.close()
        with urllib.request.urlopen(f"{running.endpoint}/_ministack/ses/messages", timeout=10) as answer:
            (sent,) = json.load(answer)["messages"]["123456789012"]
    assert sent["MessageId"] == message_id
    assert (sent["Source"], sent["To"], sent["CC"], sent["BCC"]) == (
        "billing@acme.example",
        ["Buyer@example.com"],
        [],
        [],
    )
    assert (sent["Subject"], sent["BodyText"], sent["BodyHtml"]) == (subject, body, "")
