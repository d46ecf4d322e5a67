"""The notifications tier of a deployment, seen from outside: what buyers get, and what sellers and SES say.

Mail lies in the outbox of the emulator's SES; nothing leaves the machine. ``TIER`` is what has to stand
beside ``examples/registration`` to have the tier in the same apply, with both secrets filled.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from awsmp.domain.hours import format_instant
from awsmp.domain.notifications.billing_events import SCHEMA as BILLING_EVENT
from awsmp.domain.notifications.billing_events import VERSION as BILLING_EVENT_VERSION
from awsmp.domain.notifications.kinds import Kind, ServiceKind
from sandbox.buyer import Answer
from sandbox.buyer import Buyer as Browser
from sandbox.emulator_launcher import MAILS_PATH
from sandbox.local_cloud import ACCOUNT_ID, LocalCloud, Request
from sandbox.notifications_admin import AdminFunction
from sandbox.simulation.seller import Buyer

SENDER: Final = "billing@seller.example"
PORTAL_URL: Final = "https://app.seller.example/billing"
#: A source of the seller's own, for billing events that are put on the bus.
BILLING_SOURCE: Final = "seller.billing"

#: The tier beside ``examples/registration``. It reads the secrets only when they are filled. The first key of
#: each is of this sandbox and known to everybody who reads this file.
TIER: Final = f"""
module "notifications" {{
  source                  = "../../modules/notifications"
  customer_profile_tables = {{ (var.product_code) = module.registration.customer_profile_table }}
  subscribers_table       = module.events.subscribers_table
  sender                  = "{SENDER}"
  transport               = {{ type = "ses", ses = {{ identity_arn = aws_sesv2_email_identity.sender.arn }} }}
  portal_url              = "{PORTAL_URL}"
  pepper_secret           = {{ arn = aws_secretsmanager_secret_version.pepper.arn }}
  verification_secret     = {{ arn = aws_secretsmanager_secret_version.verification.arn }}

  labels = {{
    product = "Example Analytics"
    plan    = "Standard"
    seller  = "Example Corp."
    support = "support@example.com"
  }}
}}

resource "aws_sesv2_email_identity" "sender" {{
  email_identity = "{SENDER.partition("@")[2]}"
}}

resource "aws_secretsmanager_secret" "pepper" {{
  name = "sandbox-pepper"
}}

resource "aws_secretsmanager_secret_version" "pepper" {{
  secret_id     = aws_secretsmanager_secret.pepper.id
  secret_string = jsonencode({{ pepper = base64encode("a pepper that only the sandbox has") }})
}}

resource "aws_secretsmanager_secret" "verification" {{
  name = "sandbox-verification"
}}

resource "aws_secretsmanager_secret_version" "verification" {{
  secret_id     = aws_secretsmanager_secret.verification.id
  secret_string = jsonencode({{ keys = [base64encode("a signing key that only the sandbox has")] }})
}}

output "notifications" {{
  value = {{
    admin_function     = module.notifications.admin_function.name
    configuration_set  = module.notifications.configuration_set_name
    event_bus          = module.notifications.event_bus
    event_queue        = module.notifications.event_queue
    feedback_topic_arn = module.notifications.feedback_topic_arn
    table              = module.notifications.table
  }}
}}
"""

#: What the example's registration module gets besides; the events module: see :func:`events_override`.
REGISTRATION_OVERRIDE: Final = (
    "address_verification = { secret = { arn = aws_secretsmanager_secret_version.verification.arn } }"
)


def events_override(region: str) -> str:
    """Return what the example's events module gets besides: the bus of the tier's Region."""
    return f"forward_event_buses = {{ {region} = module.notifications.event_bus }}"


_LINK = re.compile(r"https://\S+#verify=[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Mail:
    """One message in the outbox. ``repr`` shows neither address nor text."""

    message_id: str
    recipient: str = field(repr=False)
    subject: str = field(repr=False)
    text: str = field(repr=False)
    kind: str
    delivery_id: str
    configuration_set: str
    headers: Mapping[str, str]

    @property
    def link(self) -> str:
        """The verification link in it; raises ValueError where there is not exactly one."""
        (link,) = _LINK.findall(self.text)
        return str(link)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The tier in one Region of a local cloud; ``outputs`` are TIER's output ``notifications``."""

    cloud: LocalCloud
    outputs: Mapping[str, Any]

    @property
    def region(self) -> str:
        """The Region of the tier."""
        return str(self.outputs["table"]["region"])

    def open(self) -> None:
        """Let SES send to everybody: a new account sends to verified addresses only."""
        self.cloud.client("sesv2", region=self.region).put_account_details(
            MailType="TRANSACTIONAL", WebsiteURL="https://seller.example", ProductionAccessEnabled=True
        )

    def mails(self) -> list[Mail]:
        """Return every message that SES has taken, oldest first."""
        found = Request("read the outbox", self.cloud.endpoint + MAILS_PATH).send()
        return [
            Mail(
                message_id=mail["MessageId"],
                recipient=recipient,
                subject=mail["Subject"],
                text=mail["BodyText"],
                kind=mail["EmailTags"]["awsmp-kind"],
                delivery_id=mail["EmailTags"]["awsmp-delivery-id"],
                configuration_set=mail["ConfigurationSetName"],
                headers=mail["Headers"],
            )
            for mail in found
            for recipient in (*mail["To"], *mail["CC"], *mail["BCC"])
        ]

    def told(self) -> Counter[tuple[str, str]]:
        """Return how often which address was told what."""
        return Counter((mail.recipient, mail.kind) for mail in self.mails())

    def last(self, recipient: str, kind: Kind | ServiceKind) -> Mail:
        """Return the newest message of a kind to an address; raises LookupError where there is none."""
        for mail in reversed(self.mails()):
            if (mail.recipient, mail.kind) == (recipient, kind.value):
                return mail
        raise LookupError(f"no mail {kind.value} has been sent to this address")

    # --- What buyers do -----------------------------------------------------------------------------------

    def open_link(self, link: str) -> Answer:
        """Open a verification link as a browser, or a scanner of mail, does."""
        return self._request("GET", link)

    def press_button(self, link: str) -> Answer:
        """Send what the page that a link opens sends when its button is pressed."""
        token = urlsplit(link).fragment.removeprefix("verify=")
        return self._request("POST", link, urlencode({"token": token}).encode())

    def _request(self, method: str, link: str, body: bytes | None = None) -> Answer:
        address = self.cloud.address_of(link)
        headers = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
        return Browser(address).request(method, address, body, headers)

    # --- What the seller's billing and SES say --------------------------------------------------------------

    def queue_billing_event(self, event: Mapping[str, Any]) -> None:
        """Send a billing event straight to the tier's queue."""
        queue = self.outputs["event_queue"]["url"]
        self.cloud.client("sqs", region=self.region).send_message(
            QueueUrl=queue, MessageBody=json.dumps(event)
        )

    def put_billing_event(self, event: Mapping[str, Any]) -> None:
        """Put a billing event on the tier's bus, under a source of the seller's own."""
        entry = {
            "EventBusName": self.outputs["event_bus"]["arn"],
            "Source": BILLING_SOURCE,
            "DetailType": "Billing Changed",
            "Detail": json.dumps(event),
        }
        answer = self.cloud.client("events", region=self.region).put_events(Entries=[entry])
        assert answer["FailedEntryCount"] == 0, answer

    def bounce(self, mail: Mail, at: datetime, *, feedback_id: str | None = None) -> str:
        """Publish to the feedback topic that a message bounced for good; return what was published."""
        event = json.dumps(hard_bounce(mail, at, feedback_id or f"feedback-{mail.message_id[:36]}"))
        self.publish(event)
        return event

    def publish(self, event: str) -> None:
        """Publish to the feedback topic."""
        topic = self.outputs["feedback_topic_arn"]
        self.cloud.client("sns", region=self.region).publish(TopicArn=topic, Message=event)

    def ask(self, operation: str, **members: Any) -> dict[str, Any]:
        """Ask the admin function; raises InvocationFailed when it fails."""
        client = self.cloud.client("lambda", region=self.region)
        return AdminFunction(client, self.outputs["admin_function"]).ask({"operation": operation, **members})


def billing_event(
    buyer: Buyer,
    at: datetime,
    event_id: str,
    *,
    status: tuple[str | None, str | None] = ("active", "active"),
    hold: tuple[str, str] = ("none", "none"),
) -> dict[str, Any]:
    """Return an event of the seller's billing: the status and the hold, each before and after."""
    (before, after), (held, holds) = status, hold
    return {
        "schema": BILLING_EVENT,
        "version": BILLING_EVENT_VERSION,
        "eventId": event_id,
        "eventTime": format_instant(at),
        "subscription": {"licenseArn": buyer.license_arn, "customerAWSAccountId": buyer.account},
        "previous": {"status": before, "setToEnd": False, "hold": held},
        "current": {"status": after, "setToEnd": False, "hold": holds},
    }


def hard_bounce(mail: Mail, at: datetime, feedback_id: str) -> dict[str, Any]:
    """Return what SES publishes of a permanent bounce: with the address, in several places."""
    instant = f"{at:%Y-%m-%dT%H:%M:%S}.000Z"
    return {
        "eventType": "Bounce",
        "bounce": {
            "feedbackId": feedback_id,
            "bounceType": "Permanent",
            "bounceSubType": "General",
            "bouncedRecipients": [
                {
                    "emailAddress": mail.recipient,
                    "action": "failed",
                    "status": "5.1.1",
                    "diagnosticCode": f"smtp; 550 5.1.1 <{mail.recipient}>: user unknown",
                }
            ],
            "timestamp": instant,
            "reportingMTA": "dsn; a8-50.smtp-out.amazonses.com",
        },
        "mail": {
            "timestamp": instant,
            "source": SENDER,
            "sendingAccountId": ACCOUNT_ID,
            "messageId": mail.message_id,
            "destination": [mail.recipient],
            "headersTruncated": False,
            "headers": [{"name": "To", "value": mail.recipient}, {"name": "Subject", "value": mail.subject}],
            "commonHeaders": {"to": [mail.recipient], "subject": mail.subject},
            "tags": {
                "ses:configuration-set": [mail.configuration_set],
                "awsmp-delivery-id": [mail.delivery_id],
                "awsmp-kind": [mail.kind],
            },
        },
    }
