"""One Region's deployment of the tier in memory: the handlers' own ``run``, tables, streams, bus, queue, SES.

What AWS does between the functions is done here: a profile table's stream shows what changed since it was
last read, the bus hands events to the input queue, and each is delivered until it is acknowledged.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from awsmp import composition_events, composition_notifications, composition_verify
from awsmp.adapters.customer_profiles_store import CustomerProfilesStore
from awsmp.adapters.dynamodb import from_wire, to_wire
from awsmp.adapters.notifications.store import DynamoDBNotificationStore
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.composition_notifications import Clients
from awsmp.domain.customer_profiles import CustomerProfile
from awsmp.domain.subscribers import SubscriberRow
from awsmp.handlers import (
    notification_admin,
    notification_contacts,
    notification_feedback,
    notification_intake,
    notification_maintenance,
    notification_sender,
    subscriber_forwarder,
    verify,
)
from awsmp.settings_notifications import Environment
from sandbox.memory_aws import ManualClock, MemoryDynamoDB
from tests.unit.lifecycle_support import SUBSCRIBERS_TABLE, create_tables
from tests.unit.notifications.world import (
    BUYER,
    LICENSE,
    PEPPER,
    PRODUCT,
    REGION,
    START,
    TABLE,
    Telemetry,
    active_row,
    notifications_table,
)

PROFILES = "awsmp-prod0example0code-customer-profile"
OWNER_EMAIL = "owner.first@buyer.example"
OWNER_NAME = "Quintessa Firstowner"
VERIFY_URL = "https://api.seller.example/live/verify"
BUS = "arn:aws:events:eu-west-1:111122223333:event-bus/awsmp-notifications"
TOPIC = "arn:aws:sns:eu-west-1:111122223333:awsmp-feedback"
PEPPER_SECRET, LINK_SECRET = "arn:pepper", "arn:links"
KEY = b"k" * 32
STREAM = f"arn:aws:dynamodb:eu-west-1:111122223333:table/{PROFILES}/stream/2026-11-10T00:00:00.000"

CONTEXT = {
    "product": "Example Product",
    "plan": "Standard",
    "seller": "Seller",
    "support": "https://seller.example/help",
    "portalUrl": "https://portal.example/x",
}
ENVIRONMENT = {
    "AWS_REGION": REGION,
    "NOTIFICATIONS_TABLE": TABLE,
    "SUBSCRIBERS_TABLE": SUBSCRIBERS_TABLE,
    "SUBSCRIBERS_TABLE_REGION": "us-east-1",
    "CUSTOMER_PROFILE_TABLES": json.dumps([{"name": PROFILES, "verifyUrl": VERIFY_URL}]),
    "EVENT_BUS_ARN": BUS,
    "FEEDBACK_TOPIC_ARN": TOPIC,
    "SENDER": "billing@seller.example",
    "MESSAGE_CONTEXT": json.dumps(CONTEXT),
    "TRANSPORT": json.dumps({"type": "ses", "configurationSet": "awsmp"}),
    "PEPPER_SECRET_ARN": PEPPER_SECRET,
    "VERIFICATION_SECRET_ARN": LINK_SECRET,
    "SENDER_TIMEOUT_SECONDS": "55",
}
VERIFY_ENVIRONMENT = {
    "CUSTOMER_PROFILE_TABLE": PROFILES,
    "VERIFICATION_SECRET_ARN": LINK_SECRET,
    "PRODUCT_NAME": "Example Product",
    "SUPPORT": "help@seller.example",
}


def encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


@dataclass
class Hooks:
    """Called before and after each call of any service, with the operation's name."""

    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None


@dataclass
class Ses:
    hooks: Hooks
    sent: list[dict[str, Any]] = field(default_factory=list)

    def send_email(self, **kwargs: Any) -> dict[str, Any]:
        self.hooks.before("SendEmail")
        self.sent.append(kwargs)
        number = len(self.sent)
        self.hooks.after("SendEmail")
        return {"MessageId": f"ses-message-{number}"}


@dataclass
class Secrets:
    hooks: Hooks
    values: dict[str, str] = field(
        default_factory=lambda: {
            PEPPER_SECRET: json.dumps({"pepper": encoded(PEPPER)}),
            LINK_SECRET: json.dumps({"keys": [encoded(KEY)]}),
        }
    )
    #: Every secret that was asked for, in order.
    asked: list[str] = field(default_factory=list)

    @property
    def reads(self) -> int:
        return len(self.asked)

    def get_secret_value(self, **kwargs: Any) -> dict[str, Any]:
        self.hooks.before("GetSecretValue")
        self.asked.append(kwargs["SecretId"])
        self.hooks.after("GetSecretValue")
        return {"SecretString": self.values[kwargs["SecretId"]]}


@dataclass
class Bus:
    """The event bus: what it has taken waits for the input queue; ``refuse`` fails entries by number."""

    hooks: Hooks
    taken: list[dict[str, Any]] = field(default_factory=list)
    refuse: Callable[[int], bool] = lambda _: False
    calls: int = 0

    def put_events(self, **kwargs: Any) -> dict[str, Any]:
        self.hooks.before("PutEvents")
        answers: list[dict[str, str]] = []
        for entry in kwargs["Entries"]:
            self.calls += 1
            if self.refuse(self.calls):
                answers.append({"ErrorCode": "InternalFailure", "ErrorMessage": "x"})
            else:
                answers.append({"EventId": str(self.calls)})
                self.taken.append(entry)
        self.hooks.after("PutEvents")
        return {"FailedEntryCount": sum("ErrorCode" in each for each in answers), "Entries": answers}


@dataclass(frozen=True)
class Context:
    """The Lambda context's one member that is used."""

    milliseconds: int = 55_000

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


class Deployment:
    """Functions are made anew for every invocation, as if each had a process of its own."""

    def __init__(self, **environment: str) -> None:
        self.clock = ManualClock(START)
        self.telemetry = Telemetry()
        self.hooks = Hooks()
        self.backend = MemoryDynamoDB(self.clock)
        self.plain: Any = self.backend.client()
        self.plain.create_table(**notifications_table())
        self.plain.create_table(**profiles_table())
        create_tables(self.plain)
        self.dynamodb: Any = self.backend.client(
            before_call=lambda _service, operation, _arguments: self.hooks.before(operation),
            after_call=lambda _service, operation, _arguments, _answer: self.hooks.after(operation),
        )
        self.ses, self.secrets, self.bus = Ses(self.hooks), Secrets(self.hooks), Bus(self.hooks)
        self.environment = {**ENVIRONMENT, **environment}
        self.store = DynamoDBNotificationStore(self.plain, TABLE, self.clock)
        self.profiles = CustomerProfilesStore(self.plain, PROFILES, frozenset(), self.clock)
        self.subscribers = SubscribersStore(self.plain, SUBSCRIBERS_TABLE, self.clock)
        self.seen: dict[str, dict[str, Any]] = {}
        self.stream: list[dict[str, Any]] = []
        self.records = 0

    # -- the functions ----------------------------------------------------------------------------------

    def runtime(self) -> composition_notifications.Runtime:
        return composition_notifications.Runtime(
            environment=Environment(self.environment),
            clients=Clients(
                dynamodb=lambda: self.dynamodb,
                dynamodb_of=lambda _region: self.dynamodb,
                events_of=lambda _region: self.bus,
                secrets=lambda: self.secrets,
                ses=lambda: self.ses,
            ),
            clock=self.clock,
            telemetry=self.telemetry,
        )

    def verify_runtime(self, **environment: str) -> composition_verify.Runtime:
        return composition_verify.Runtime(
            environment=Environment({**VERIFY_ENVIRONMENT, **environment}),
            dynamodb=lambda: self.dynamodb,
            secrets=lambda: self.secrets,
            clock=self.clock,
            telemetry=self.telemetry,
        )

    def send(self, context: Context | None = None) -> dict[str, int]:
        return notification_sender.run({"task": "send"}, context or Context(), self.runtime())

    def maintain(self) -> dict[str, int]:
        return notification_maintenance.run({"task": "maintain"}, Context(), self.runtime())

    def administer(self, **request: Any) -> dict[str, Any]:
        return notification_admin.run(request, Context(), self.runtime())

    def take_feedback(self, *bodies: str) -> dict[str, Any]:
        return notification_feedback.run(sqs(*bodies), Context(), self.runtime())

    def take_in(self, *bodies: str) -> dict[str, Any]:
        return notification_intake.run(sqs(*bodies), Context(), self.runtime())

    def open_link(self, method: str = "GET") -> dict[str, Any]:
        return verify.run(http_event(method), Context(), self.verify_runtime())

    def press(self, token: str) -> dict[str, Any]:
        body = urlencode({"token": token}).encode()
        return verify.run(http_event("POST", body), Context(), self.verify_runtime())

    # -- what the buyer and the seller do ---------------------------------------------------------------

    def register(self, email: str = OWNER_EMAIL) -> None:
        """Register the buyer as the registration tier does: the profile, then the subscriber row."""
        self.write_profile(email)
        self.write_row(active_row())

    def write_profile(self, email: str = OWNER_EMAIL) -> None:
        data = {"email": email, "name": OWNER_NAME}
        self.profiles.put_if_absent(CustomerProfile(LICENSE, BUYER, PRODUCT, registration_data=data))

    def write_row(self, row: SubscriberRow) -> None:
        """Write the subscriber row, and let the events tier forward the change to the input queue."""
        old = self.subscribers.get(LICENSE, BUYER)
        self.subscribers.write(old, row)
        self.bus.taken.append(forwarded(old, row, self.clock.now()))

    def set_contacts(self, **contacts: Mapping[str, Any] | None) -> None:
        """Write the profile's map of contacts as the seller does; None removes one."""
        item = self.profile()
        known = {**item.get("contacts", {}), **contacts}
        item["contacts"] = {name: entry for name, entry in known.items() if entry is not None}
        self.put_profile(item)

    def profile(self) -> dict[str, Any]:
        (item,) = self.backend.items(PROFILES)
        return from_wire(item)

    def put_profile(self, item: Mapping[str, Any]) -> None:
        self.plain.put_item(TableName=PROFILES, Item=to_wire(item))

    # -- what AWS does ----------------------------------------------------------------------------------

    def read_stream(self) -> list[dict[str, Any]]:
        """Append to the stream what has changed since the last look, and return what it holds."""
        now = {item["licenseArn"]["S"]: copy.deepcopy(item) for item in self.backend.items(PROFILES)}
        for key in sorted(now.keys() | self.seen.keys()):
            old, new = self.seen.get(key), now.get(key)
            if old != new:
                self.records += 1
                self.stream.append(profile_record(self.records, old, new, self.clock.now()))
        self.seen = now
        return self.stream

    def deliver(self) -> None:
        """Run the contacts function over the stream, then the intake over the queue, each until done."""
        while self.read_stream():
            event = {"Records": list(self.stream)}
            answer = notification_contacts.run(event, Context(), self.runtime())
            self.stream = from_first_failure(self.stream, answer)
        self.drain()

    def drain(self) -> None:
        while self.bus.taken:
            bodies = [on_bus(entry) for entry in self.bus.taken]
            answer = self.take_in(*bodies)
            failed = {int(each["itemIdentifier"]) for each in answer["batchItemFailures"]}
            self.bus.taken = [entry for place, entry in enumerate(self.bus.taken) if place in failed]

    # -- what came of it --------------------------------------------------------------------------------

    def told(self, kind: str | None = None) -> list[tuple[str, str]]:
        """Return (address, kind) of every mail that SES has taken."""
        mails = [(address_of(mail), kind_of(mail)) for mail in self.ses.sent]
        return [mail for mail in mails if kind in (None, mail[1])]

    def token(self, place: int = -1) -> str:
        """Return the token in a verification mail."""
        mails = [mail for mail in self.ses.sent if kind_of(mail) == "address_verification"]
        return token_of(mails[place])

    def stored_text(self) -> str:
        return json.dumps(self.backend.items(TABLE), default=str)

    def logged_text(self) -> str:
        lines = (self.telemetry.lines, self.telemetry.error_lines, self.telemetry.counts)
        return json.dumps(lines, default=repr)


def profiles_table() -> dict[str, Any]:
    names = ["licenseArn", "customerAWSAccountId"]
    return {
        "TableName": PROFILES,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in names],
        "KeySchema": [
            {"AttributeName": name, "KeyType": kind}
            for name, kind in zip(names, ("HASH", "RANGE"), strict=True)
        ],
    }


def profile_record(
    number: int, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, at: datetime
) -> dict[str, Any]:
    image = new or old
    assert image is not None
    images = {"OldImage": old, "NewImage": new}
    return {
        "eventID": f"{number:032x}",
        "eventName": "INSERT" if old is None else "MODIFY" if new is not None else "REMOVE",
        "eventSourceARN": STREAM,
        "dynamodb": {
            "ApproximateCreationDateTime": at.timestamp(),
            "Keys": {name: image[name] for name in ("licenseArn", "customerAWSAccountId")},
            "SequenceNumber": str(number),
            **{name: shown for name, shown in images.items() if shown is not None},
        },
    }


def from_first_failure(records: list[dict[str, Any]], answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what Lambda delivers again: from the first record that was reported on."""
    failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
    for place, record in enumerate(records):
        if record["dynamodb"]["SequenceNumber"] in failed:
            return records[place:]
    return []


def forwarded(old: SubscriberRow | None, new: SubscriberRow, at: datetime) -> dict[str, Any]:
    """Return what the events tier's forwarder puts on the bus for a change of a row."""
    bus = Bus(Hooks())
    runtime = forwarder_runtime(bus, {"here": BUS})
    clock = ManualClock(at)
    backend = MemoryDynamoDB(clock)
    client: Any = backend.client()
    create_tables(client)
    store = SubscribersStore(client, SUBSCRIBERS_TABLE, clock)
    images: dict[str, Any] = {}
    for name, row in (("OldImage", old), ("NewImage", new)):
        if row is not None:
            store.write(store.get(row.license_arn, row.customer_account), row)
            (images[name],) = copy.deepcopy(backend.items(SUBSCRIBERS_TABLE))
    record = {
        "eventID": f"row{int(at.timestamp())}",
        "dynamodb": {
            "ApproximateCreationDateTime": at.timestamp(),
            "Keys": {"licenseArn": {"S": new.license_arn}},
            "SequenceNumber": "1",
            **images,
        },
    }
    assert subscriber_forwarder.run({"Records": [record]}, None, runtime) == {"batchItemFailures": []}
    (entry,) = bus.taken
    return entry


def forwarder_runtime(
    bus: Bus, buses: Mapping[str, str], telemetry: Telemetry | None = None
) -> composition_events.Runtime:
    nothing: Any = None
    return composition_events.Runtime(
        settings=composition_events.Settings(SUBSCRIBERS_TABLE, forward_event_buses=buses),
        clock=ManualClock(START),
        telemetry=telemetry or Telemetry(),
        dynamodb=nothing,
        events_client_for=lambda _region: bus,
    )


def http_event(method: str, body: bytes = b"", path: str = "/verify") -> dict[str, Any]:
    """Return the event of a REST API's Lambda proxy integration."""
    return {
        "resource": path,
        "path": f"/live{path}",
        "httpMethod": method,
        "headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "queryStringParameters": None,
        "pathParameters": None,
        "body": body.decode("latin-1") or None,
        "isBase64Encoded": False,
    }


def sqs(*bodies: str) -> dict[str, Any]:
    """Return an SQS event whose message ids are the bodies' places."""
    return {
        "Records": [
            {"messageId": str(place), "body": body, "eventSource": "aws:sqs", "receiptHandle": "r"}
            for place, body in enumerate(bodies)
        ]
    }


def on_bus(entry: Mapping[str, Any]) -> str:
    """Return an entry of PutEvents as the rule's target gets it."""
    return json.dumps(
        {
            "version": "0",
            "id": "11111111-2222-3333-4444-555555555555",
            "source": entry["Source"],
            "detail-type": entry["DetailType"],
            "account": "111122223333",
            "time": "2026-11-10T08:00:00Z",
            "region": REGION,
            "resources": [],
            "detail": json.loads(entry["Detail"]),
        }
    )


def address_of(mail: Mapping[str, Any]) -> str:
    (address,) = mail["Destination"]["ToAddresses"]
    return str(address)


def kind_of(mail: Mapping[str, Any]) -> str:
    return str(next(tag["Value"] for tag in mail["EmailTags"] if tag["Name"] == "awsmp-kind"))


def delivery_of(mail: Mapping[str, Any]) -> str:
    return str(next(tag["Value"] for tag in mail["EmailTags"] if tag["Name"] == "awsmp-delivery-id"))


def body_of(mail: Mapping[str, Any]) -> str:
    return str(mail["Content"]["Simple"]["Body"]["Text"]["Data"])


def token_of(mail: Mapping[str, Any]) -> str:
    found = re.search(rf"^{re.escape(VERIFY_URL)}#verify=(\S+)$", body_of(mail), re.MULTILINE)
    assert found is not None, "the link stands on a line of its own"
    return found[1]


def complaint(mail: Mapping[str, Any], number: int, at: datetime) -> str:
    """Return SES's complaint about a mail, as the queue gets it."""
    event = {
        "eventType": "Complaint",
        "complaint": {
            "complainedRecipients": [{"emailAddress": address_of(mail)}],
            "feedbackId": f"feedback-{number}",
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        },
        "mail": {
            "messageId": f"ses-message-{number}",
            "destination": [address_of(mail)],
            "tags": {"awsmp-delivery-id": [delivery_of(mail)]},
        },
    }
    return json.dumps({"Type": "Notification", "TopicArn": TOPIC, "Message": json.dumps(event)})
