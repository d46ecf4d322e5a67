"""One Region's notifications tier on a table in memory: providers, contacts and licences that tests steer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from awsmp.adapters.notifications.pepper import PepperDigest
from awsmp.adapters.notifications.store import DynamoDBNotificationStore
from awsmp.domain.errors import MeteringError, PartialFailure
from awsmp.domain.lifecycle_events import EventKind, Stamp
from awsmp.domain.notifications.feedback import Feedback, FeedbackKind
from awsmp.domain.notifications.identities import Subscription
from awsmp.domain.notifications.intake_events import contact_verified_detail, row_change_detail
from awsmp.domain.notifications.kinds import Kind, MessageKind
from awsmp.domain.notifications.license_state import ContactVerified, LicenseState
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.messages import EmailAddress, Message, RenderContext
from awsmp.domain.notifications.outbox import Delivery, Entry, Notice, new_entry
from awsmp.domain.notifications.ports import Recipient
from awsmp.domain.notifications.store import WORK_INDEX, Queue, Save
from awsmp.domain.ports import Metric
from awsmp.domain.subscribers import SubscriberRow, SubscriptionStatus
from awsmp.usecases.notifications.administer import Administration
from awsmp.usecases.notifications.compose import Composer
from awsmp.usecases.notifications.feedback import FeedbackIntake, FeedbackOutcome
from awsmp.usecases.notifications.intake import Intake, Taken
from awsmp.usecases.notifications.maintain import Maintained, Maintenance
from awsmp.usecases.notifications.send import Sender, Sent
from sandbox.memory_aws import ManualClock, MemoryDynamoDB

TABLE = "awsmp-notifications"
REGION = "eu-west-1"
OTHER_REGION = "us-east-2"
LICENSE = "arn:aws:license-manager::111122223333:license:l-0a1b2c3d"
OTHER_LICENSE = "arn:aws:license-manager::111122223333:license:l-ffffffff"
BUYER = "123456789012"
PRODUCT = "prod0example0code"
AGREEMENT = "agmt-first"
SUBSCRIPTION = Subscription(LICENSE, BUYER)
PEPPER = b"p" * 32
SENDER = EmailAddress.parse("billing@seller.example")
OWNER = Recipient("contact-owner", EmailAddress.parse("owner.first@buyer.example"), verified=True)
SECOND = Recipient("contact-second", EmailAddress.parse("second.contact@buyer.example"), verified=True)
START = datetime(2026, 11, 10, 8, 0, tzinfo=UTC)
CONTEXT = RenderContext(
    "Example Product", "Standard", "https://portal.example/x", "Seller", "https://seller.example/help"
)


def notifications_table(name: str = TABLE) -> dict[str, Any]:
    """Return the arguments of CreateTable; see ``awsmp.domain.notifications.store``."""
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk", "workQueue", "dueAt")
        ],
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": WORK_INDEX,
                "KeySchema": [
                    {"AttributeName": "workQueue", "KeyType": "HASH"},
                    {"AttributeName": "dueAt", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    }


class Telemetry:
    """Keeps what was emitted."""

    def __init__(self) -> None:
        self.counts: list[tuple[Metric, float, str | None]] = []
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.error_lines: list[tuple[str, dict[str, object]]] = []

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        self.counts.append((metric, float(value), reason))

    def info(self, message: str, **fields: object) -> None:
        self.lines.append((message, fields))

    def error(self, message: str, **fields: object) -> None:
        self.error_lines.append((message, fields))

    def total(self, metric: Metric, reason: str | None = None) -> float:
        return sum(
            value for name, value, why in self.counts if name is metric and (reason is None or why == reason)
        )


@dataclass
class Contacts:
    """The customer profiles: contacts per licence, as a test sets them; ``on_read`` runs before each read."""

    by_license: dict[tuple[str, str], list[Recipient]] = field(default_factory=dict)
    reads: int = 0
    on_read: Callable[[int], None] = lambda _: None

    def owners(self, license_arn: str, account: str) -> Sequence[Recipient]:
        self.reads += 1
        self.on_read(self.reads)
        return list(self.by_license.get((license_arn, account), ()))

    def set(self, *recipients: Recipient, subscription: Subscription = SUBSCRIPTION) -> None:
        self.by_license[subscription.license_arn, subscription.customer_account] = list(recipients)


@dataclass
class Licenses:
    """The subscribers table as the intake reads it."""

    rows: list[SubscriberRow] = field(default_factory=list)

    def get(self, license_arn: str, customer_account: str) -> SubscriberRow | None:
        return next(
            (
                row
                for row in self.rows
                if (row.license_arn, row.customer_account) == (license_arn, customer_account)
            ),
            None,
        )

    def of_agreement(self, agreement_id: str) -> Sequence[tuple[str, str]]:
        return [
            (row.license_arn, row.customer_account) for row in self.rows if row.agreement_id == agreement_id
        ]


@dataclass
class Provider:
    """A mail provider. ``accepted`` is what it has sent, whatever the caller was told."""

    accepted: list[Message] = field(default_factory=list)
    before: Callable[[Message], None] = lambda _: None
    after: Callable[[Message], None] = lambda _: None
    calls: int = 0

    def send(self, message: Message) -> str:
        self.calls += 1
        self.before(message)
        self.accepted.append(message)
        number = len(self.accepted)
        self.after(message)
        return f"provider-{number}"

    @property
    def told(self) -> list[tuple[str, MessageKind]]:
        return [(message.recipient.value, message.kind) for message in self.accepted]


class World:
    """Builds the use cases of one Region, each with a client of its own, so that hooks tell them apart."""

    def __init__(self, *, region: str = REGION, limits: Limits | None = None) -> None:
        self.region = region
        self.limits = limits or Limits()
        self.clock = ManualClock(START)
        self.dynamodb = MemoryDynamoDB(self.clock)
        self.dynamodb.client().create_table(**notifications_table())
        self.contacts = Contacts()
        self.licenses = Licenses()
        self.provider = Provider()
        self.telemetry = Telemetry()
        self.digests = PepperDigest(PEPPER)
        self.composer = Composer(SENDER, CONTEXT)
        self.client: Any = self.dynamodb.client()
        self.store = self.store_of(self.client)
        self.contacts.set(OWNER)

    def store_of(self, client: Any) -> DynamoDBNotificationStore:
        return DynamoDBNotificationStore(client, TABLE, self.clock)

    # -- what happens ---------------------------------------------------------------------------------

    def take(self, body: str, *, store: DynamoDBNotificationStore | None = None) -> Taken:
        return Intake(
            self.region, store or self.store, self.contacts, self.licenses, self.clock, self.telemetry
        ).handle(body)

    def sender(self, store: DynamoDBNotificationStore | None = None) -> Sender:
        return Sender(
            self.region,
            store or self.store,
            self.contacts,
            self.provider,
            self.digests,
            self.composer,
            self.limits,
            self.clock,
            self.telemetry,
        )

    def send(self) -> Sent:
        return self.sender().run(self.clock.now() + timedelta(minutes=14))

    def try_send(self) -> MeteringError | None:
        try:
            self.send()
        except PartialFailure as error:
            return error
        return None

    def maintain(self, store: DynamoDBNotificationStore | None = None) -> Maintained:
        return Maintenance(store or self.store, self.limits, self.clock, self.telemetry).run()

    def administration(self) -> Administration:
        return Administration(self.store, self.limits, self.clock, self.telemetry)

    def feed(self, feedback: Feedback) -> FeedbackOutcome:
        return FeedbackIntake(self.store, self.clock, self.telemetry).handle(feedback)

    def wait(self, span: timedelta) -> None:
        self.clock.sleep(span.total_seconds())

    def know_home(self, subscription: Subscription = SUBSCRIPTION) -> None:
        """Make the licence one of this Region, in force since long ago."""
        row = active_row(subscription=subscription, home=self.region)
        self.licenses.rows.append(row)

    def queue(
        self, kind: Kind = Kind.PAYMENT_FAILED, event_id: str = "evt-1", *, at: datetime | None = None
    ) -> Entry:
        """Enqueue a notice of the licence, which becomes one of this Region."""
        if self.store.license(SUBSCRIPTION) is None:
            self.store.commit(Save(LicenseState(SUBSCRIPTION, home_region=self.region, product_code=PRODUCT)))
        entry = new_entry(SUBSCRIPTION, Notice(kind, event_id, at or self.clock.now()), self.clock.now())
        self.store.commit(Save(entry))
        return entry

    # -- what is there --------------------------------------------------------------------------------

    def entry(self, entry_id: str) -> Entry:
        found = self.store.entry(entry_id)
        assert found is not None
        return found

    def deliveries(self, entry_id: str) -> list[Delivery]:
        return self.store.deliveries(entry_id)

    def delivery_of(self, entry_id: str, recipient: Recipient = OWNER) -> Delivery:
        (found,) = [each for each in self.deliveries(entry_id) if each.recipient_id == recipient.recipient_id]
        return found

    def pending(self) -> list[Entry]:
        ids = self.store.due_entries(Queue.PENDING, self.clock.now() + timedelta(days=30), 1000)
        return [self.entry(each) for each in ids]

    def pending_kinds(self) -> list[Kind]:
        return sorted(Kind(json.loads(each.payload)["kind"]) for each in self.pending())

    def audited(self) -> list[tuple[str, str, dict[str, int]]]:
        return [
            (each.action.value, each.detail, dict(each.counts))
            for each in self.store.audit(self.clock.now().date(), 1000)
        ]

    def stored_text(self) -> str:
        """Everything in the table, as text."""
        return json.dumps(self.dynamodb.items(TABLE), default=str)

    def logged_text(self) -> str:
        lines = (self.telemetry.lines, self.telemetry.error_lines, self.telemetry.counts)
        return json.dumps(lines, default=repr)


def stamp(event_id: str, time: datetime, kind: EventKind = EventKind.LICENSE_UPDATED) -> Stamp:
    return Stamp(time, kind, event_id)


def active_row(
    *,
    subscription: Subscription = SUBSCRIPTION,
    home: str | None = REGION,
    event_id: str = "activation-1",
    at: datetime = START,
    **changes: Any,
) -> SubscriberRow:
    row = SubscriberRow(
        license_arn=subscription.license_arn,
        customer_account=subscription.customer_account,
        product_code=PRODUCT,
        agreement_id=AGREEMENT,
        subscription_status=SubscriptionStatus.ACTIVE,
        subscription_stamp=stamp(event_id, at),
        home_region=home,
    )
    return replace(row, **changes)


def deprovisioned(row: SubscriberRow, event_id: str, at: datetime) -> SubscriberRow:
    return replace(
        row,
        subscription_status=SubscriptionStatus.DEPROVISIONING,
        subscription_stamp=stamp(event_id, at, EventKind.LICENSE_DEPROVISIONED),
    )


def renewal(row: SubscriberRow, on: bool | None, event_id: str, at: datetime) -> SubscriberRow:
    return replace(row, auto_renewal=on, auto_renewal_stamp=stamp(event_id, at, EventKind.AGREEMENT_AMENDED))


def row_change(
    old: SubscriberRow | None, new: SubscriberRow | None, *, event_id: str = "stream-1", at: datetime = START
) -> str:
    detail = row_change_detail(event_id, at, old, new)
    assert detail is not None
    return on_bus("awsmp.subscribers", "Subscriber Row Changed", detail)


def contact_verified(event_id: str = "verified-1", at: datetime = START) -> str:
    detail = contact_verified_detail(ContactVerified(event_id, at, SUBSCRIPTION))
    return on_bus("awsmp.registration", "Contact Verified", detail)


def cancellation(status: str, *, event_id: str, at: datetime = START, request: str = "acr-1") -> str:
    """Return a cancellation-request event as the events tier forwards it."""
    detail = {
        "eventId": event_id,
        "eventTime": f"{at.isoformat()[:19]}Z",
        "detailType": f"Agreement Cancellation Request {status.title()} - Proposer",
        "source": "aws.agreement-marketplace",
        "account": "111122223333",
        "detail": {
            "agreement": {"id": AGREEMENT},
            "agreementCancellationRequest": {"id": request, "statusCode": status},
        },
    }
    return on_bus("awsmp.agreement-marketplace", detail["detailType"], detail)


def on_bus(source: str, detail_type: Any, detail: dict[str, Any]) -> str:
    return json.dumps({"id": "bus-1", "source": source, "detail-type": detail_type, "detail": detail})


def billing(
    previous: dict[str, Any] | None = None,
    current: dict[str, Any] | None = None,
    *,
    event_id: str = "evt-1",
    at: datetime = START,
    **changes: Any,
) -> str:
    calm = {"status": "active", "setToEnd": False, "hold": "none"}
    event = {
        "schema": "awsmp.billing-event",
        "version": 1,
        "eventId": event_id,
        "eventTime": f"{at.isoformat()[:19]}Z",
        "subscription": {"licenseArn": LICENSE, "customerAWSAccountId": BUYER},
        "previous": calm | (previous or {}),
        "current": calm | (current or {}),
    }
    return json.dumps(event | changes)


def feedback(
    delivery: Delivery,
    kind: FeedbackKind = FeedbackKind.HARD_BOUNCE,
    *,
    event_id: str = "fb-1",
    at: datetime | None = None,
    delivery_id: str | None = None,
    message_id: str | None = None,
) -> Feedback:
    named = delivery_id or (delivery.delivery_id if message_id is None else None)
    when = at or delivery.sent_at or delivery.attempted_at
    assert when is not None
    return Feedback("ses", event_id, kind, when, delivery_id=named, message_id=message_id)
