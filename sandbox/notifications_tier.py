"""The notifications tier of one Region in memory, with everything counted that its functions ask AWS for.

The handlers' own ``run`` on DynamoDB in memory, with the events and registration tiers before them: a buyer
registers by the real form post, and the Marketplace's events change the subscriber's row. What those do
anyway is not counted; what is there for notifications alone is, in whichever module it is deployed. What AWS
does between the functions is done here: streams, bus, queue and schedules, each change and message as a batch
of its own.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlencode

from awsmp import composition_events, composition_registration, composition_verify
from awsmp.composition_notifications import Clients, Runtime
from awsmp.domain.hours import format_instant
from awsmp.domain.notifications.kinds import Kind, ServiceKind
from awsmp.handlers import (
    deprovision_cleanup,
    notification_contacts,
    notification_intake,
    notification_maintenance,
    notification_sender,
    register,
    subscriber_forwarder,
    subscription,
    verify,
)
from awsmp.settings_notifications import Environment
from sandbox import tables
from sandbox.billing_meter import SINGLE_ITEM_CALLS, BillingMeter
from sandbox.fake_marketplace import FakeMarketplace, InProcessMarketplaceClient
from sandbox.memory_aws import ManualClock, MemoryDynamoDB
from sandbox.memory_aws.tables import Table
from sandbox.registration_server import (
    FIELDS,
    PRODUCT,
    PROFILE_TABLE,
    REGION,
    SUBSCRIBERS_TABLE,
    SeenRequest,
    proxy_event,
)
from sandbox.simulation.world import Recorder

NOTIFICATIONS_TABLE: Final = "awsmp-notifications"
PARKED_TABLE: Final = "awsmp-parked-agreement-events"
BUS: Final = f"arn:aws:events:{REGION}:111122223333:event-bus/awsmp-notifications"
VERIFY_URL: Final = "https://api.seller.example/v1/verify"

#: What a buyer hears in the life that is played, in this order.
MAILS_OF_A_LIFE: Final = (
    ServiceKind.ADDRESS_VERIFICATION,
    Kind.SUBSCRIPTION_STARTED,
    Kind.PAYMENT_FAILED,
    Kind.PAYMENT_RECOVERED,
    Kind.CANCELLATION_SCHEDULED,
    Kind.SUBSCRIPTION_CANCELED,
)
#: A whole number of hours, so that the schedules' share of it is known.
MINUTES_OF_A_LIFE: Final = 120

_MINUTES_BETWEEN_STEPS: Final = 5
_MAINTENANCE_MINUTES: Final = 5
#: Final usage is taken for an hour after the end; then the row is finalised.
_MINUTES_TO_FINALIZE: Final = 65

_PEPPER_SECRET, _LINK_SECRET = "arn:pepper", "arn:links"
_RANDOM: Final = base64.b64encode(b"r" * 32).decode()
_SECRETS: Final = {
    _PEPPER_SECRET: json.dumps({"pepper": _RANDOM}),
    _LINK_SECRET: json.dumps({"keys": [_RANDOM]}),
}
_ENVIRONMENT: Final = {
    "AWS_REGION": REGION,
    "NOTIFICATIONS_TABLE": NOTIFICATIONS_TABLE,
    "SUBSCRIBERS_TABLE": SUBSCRIBERS_TABLE,
    "SUBSCRIBERS_TABLE_REGION": "us-east-1",
    "CUSTOMER_PROFILE_TABLES": json.dumps([{"name": PROFILE_TABLE, "verifyUrl": VERIFY_URL}]),
    "EVENT_BUS_ARN": BUS,
    "SENDER": "billing@seller.example",
    "MESSAGE_CONTEXT": json.dumps(
        {
            "product": "Example Analytics",
            "plan": "Standard",
            "seller": "Example Corp",
            "support": "https://example.com/support",
            "portalUrl": "https://app.example.com/billing",
        }
    ),
    "TRANSPORT": json.dumps({"type": "ses", "configurationSet": "awsmp-notifications"}),
    "PEPPER_SECRET_ARN": _PEPPER_SECRET,
    "VERIFICATION_SECRET_ARN": _LINK_SECRET,
    "SENDER_TIMEOUT_SECONDS": "55",
}
_VERIFY_ENVIRONMENT: Final = {
    "CUSTOMER_PROFILE_TABLE": PROFILE_TABLE,
    "VERIFICATION_SECRET_ARN": _LINK_SECRET,
    "PRODUCT_NAME": "Example Analytics",
    "SUPPORT": "support@example.com",
}


@dataclass(frozen=True, slots=True)
class _Context:
    """The Lambda context's one member that is used."""

    milliseconds: int = 55_000

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@dataclass(frozen=True, slots=True)
class _Licence:
    license_arn: str
    account: str
    agreement_id: str


class NotificationsTier:
    """A deployment with SES, one product and verification by mailed links.

    The scheduled functions have one process each that lives on, which keeps what it has read. Every other run
    is the first of its process.
    """

    def __init__(self, start: datetime) -> None:
        """Create the tables; nobody has bought anything yet."""
        self.clock = ManualClock(start)
        self.recorder = Recorder()
        #: Runs, and calls of AWS, by function key.
        self.runs: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.mails: list[Mapping[str, Any]] = []
        self.secret_calls = 0
        self.secrets_read: set[str] = set()
        self.bus_events = 0
        self.queue_requests = 0
        self.http_requests = 0
        self._running = ""
        self._unanswered = 0
        self._minute = 0
        self._records = 0
        self._lives = 0
        self._bus: list[str] = []
        self._meter, self._transactions = BillingMeter(), BillingMeter(transactions=True)
        self._without_item: Counter[str] = Counter()
        self._home, self._us_east_1 = MemoryDynamoDB(self.clock), MemoryDynamoDB(self.clock)
        home, us_east_1 = self._home.client(), self._us_east_1.client()
        home.create_table(**tables.notifications_table(NOTIFICATIONS_TABLE))
        home.create_table(**tables.customer_profile_table(PROFILE_TABLE))
        us_east_1.create_table(**tables.subscribers_table(SUBSCRIBERS_TABLE))
        us_east_1.create_table(**tables.parked_events_table(PARKED_TABLE))
        self._metered_home = self._metered(self._home)
        self._metered_us_east_1 = self._metered(self._us_east_1)
        self._seen: dict[str, dict[str, dict[str, Any]]] = {PROFILE_TABLE: {}, SUBSCRIBERS_TABLE: {}}
        self._registered_bytes = 0
        self._marketplace = FakeMarketplace(self.clock)
        self._marketplace.create_product(PRODUCT, ["requests"])
        self._scheduled = self._runtime()
        self._others = self._tiers_before(home, us_east_1)

    # --- What is counted ------------------------------------------------------------------------------------

    def units(self, kind: str) -> Decimal:
        """Return DynamoDB's request units so far; ``kind`` is "read" or "write"."""
        return self._meter.units(kind) + self._transactions.units(kind) + self._without_item[kind]

    def stored_bytes(self) -> int:
        """Return what is stored for notifications: the table, and what profiles have grown by."""
        items = [record.size + 100 for _, record in self._table(NOTIFICATIONS_TABLE).records()]
        return sum(items) + self._profile_bytes() - self._registered_bytes

    # --- What happens ---------------------------------------------------------------------------------------

    def pass_minutes(self, minutes: int) -> None:
        """Let the schedules tick."""
        for _ in range(minutes):
            self.clock.sleep(timedelta(minutes=1).total_seconds())
            self._minute += 1
            self._run("notification-sender", notification_sender, {"task": "send"}, self._scheduled)
            if self._minute % _MAINTENANCE_MINUTES == 0:
                task = {"task": "maintain"}
                self._run("notification-maintenance", notification_maintenance, task, self._scheduled)
            self._settle()

    def live(self) -> None:
        """Play the life of one licence, from its purchase until its row is finalised.

        Raises
        ------
        RuntimeError
            The buyer was told something else than MAILS_OF_A_LIFE, or a call was refused, whose cost is not
            known here.
        """
        sent, begun = len(self.mails), self._minute
        bought = self._buy()
        self._wait()
        self._verify()
        self._wait()
        for before, after in (("active", "past_due"), ("past_due", "active")):
            self._bill(bought, before, after)
            self._wait()
        self._tell(self._marketplace.amend_agreement(bought.agreement_id, end_time=None, auto_renewal=False))
        self._wait()
        self._tell(self._marketplace.deprovision_license(bought.license_arn))
        self._tell(self._marketplace.end_agreement(bought.agreement_id))
        self.pass_minutes(_MINUTES_TO_FINALIZE)
        deprovision_cleanup.run({}, None, self._others[0])
        self._settle()
        self.pass_minutes(MINUTES_OF_A_LIFE - (self._minute - begun))
        told = [_kind_of(mail) for mail in self.mails[sent:]]
        if told != list(MAILS_OF_A_LIFE) or self._unanswered:
            raise RuntimeError(f"told {told}; {self._unanswered} calls were refused")

    def _wait(self) -> None:
        self.pass_minutes(_MINUTES_BETWEEN_STEPS)

    def _buy(self) -> _Licence:
        self._lives += 1
        account = f"5555{self._lives:08d}"
        bought = self._marketplace.subscribe(PRODUCT, account, auto_renewal=True)
        self._tell(bought.events[-1])
        answers = {
            "email": f"buyer{self._lives:04d}@example.com",
            "name": "A Buyer",
            "plan": "standard",
            "terms": True,
        }
        token = self._marketplace.mint_token(bought.license.arn)
        document = {"token": token, "offerType": None, "fields": answers}
        event = _request("POST", "/register", "application/json", json.dumps(document))
        before = self._profile_bytes()
        _require_ok(register.run(event, None, self._others[1]))
        self._registered_bytes += self._profile_bytes() - before
        self._settle()
        return _Licence(bought.license.arn, account, bought.agreement.agreement_id)

    def _tell(self, envelope: Mapping[str, Any]) -> None:
        """Let an event of the Marketplace change the subscriber's row."""
        _require_done(subscription.run(_message(json.dumps(envelope)), None, self._others[0]))
        self._settle()

    def _verify(self) -> None:
        """Follow the link of the last mail and press the page's button."""
        found = re.search(r"#verify=(\S+)", self.mails[-1]["Content"]["Simple"]["Body"]["Text"]["Data"])
        if found is None:
            raise RuntimeError("the buyer got no link")
        form = urlencode({"token": found[1]})
        for event in (
            _request("GET", "/verify"),
            _request("POST", "/verify", "application/x-www-form-urlencoded", form),
        ):
            self.http_requests += 1
            runtime = composition_verify.Runtime(
                environment=Environment(_VERIFY_ENVIRONMENT),
                dynamodb=lambda: self._metered_home,
                secrets=lambda: self,
                clock=self.clock,
                telemetry=self.recorder,
            )
            _require_ok(self._run("verify", verify, event, runtime))
        self._settle()

    def _bill(self, bought: _Licence, before: str, after: str) -> None:
        """Send an event of the seller's billing to the queue."""
        now = self.clock.now()
        event = {
            "schema": "awsmp.billing-event",
            "version": 1,
            "eventId": f"billing-{now:%Y%m%d%H%M}",
            "eventTime": format_instant(now),
            "subscription": {
                "licenseArn": bought.license_arn,
                "customerAWSAccountId": bought.account,
            },
            "previous": {"status": before, "setToEnd": False, "hold": "none"},
            "current": {"status": after, "setToEnd": False, "hold": "none"},
        }
        self._take_in(json.dumps(event))

    # --- What AWS does --------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Hand streams and the bus on until nothing is left to do."""
        while True:
            for event in self._changes(self._us_east_1, SUBSCRIBERS_TABLE):
                forwarding = self._events_runtime(None, forwarding=True)
                _require_done(self._run("subscriber-forwarder", subscriber_forwarder, event, forwarding))
            for event in self._changes(self._home, PROFILE_TABLE):
                runtime = self._runtime()
                _require_done(self._run("notification-contacts", notification_contacts, event, runtime))
            if not self._bus:
                return
            while self._bus:
                self._take_in(self._bus.pop(0))

    def _take_in(self, body: str) -> None:
        # Sent, received, deleted.
        self.queue_requests += 3
        _require_done(self._run("notification-intake", notification_intake, _message(body), self._runtime()))

    def _changes(self, backend: MemoryDynamoDB, table: str) -> list[dict[str, Any]]:
        """Return what has changed since the last look, as events of the table's stream."""
        now = {item["licenseArn"]["S"]: copy.deepcopy(item) for item in backend.items(table)}
        old, self._seen[table] = self._seen[table], now
        found = []
        for key, item in now.items():
            if old.get(key) == item:
                continue
            self._records += 1
            images = {"NewImage": item} | ({"OldImage": old[key]} if key in old else {})
            change = {
                "ApproximateCreationDateTime": self.clock.now().timestamp(),
                "Keys": {name: item[name] for name in ("licenseArn", "customerAWSAccountId")},
                "SequenceNumber": f"{self._records:021d}",
                **images,
            }
            record = {
                "eventID": f"{self._records:032x}",
                "eventSourceARN": f"arn:aws:dynamodb:{REGION}:111122223333:table/{table}/stream/2026-01-01",
                "dynamodb": change,
            }
            found.append({"Records": [record]})
        return found

    def _run(self, function: str, module: ModuleType, event: Mapping[str, Any], runtime: Any) -> Any:
        self.runs[function] += 1
        self._running = function
        return module.run(event, _Context(), runtime)

    # --- The clients ----------------------------------------------------------------------------------------

    def send_email(self, **request: Any) -> dict[str, Any]:
        """Take a mail, as SES does."""
        self.mails.append(request)
        return {"MessageId": f"{len(self.mails):060d}"}

    def get_secret_value(self, **request: Any) -> dict[str, Any]:
        """Answer as Secrets Manager does."""
        self.calls[self._running] += 1
        self.secret_calls += 1
        self.secrets_read.add(request["SecretId"])
        return {"SecretString": _SECRETS[request["SecretId"]]}

    def put_events(self, **request: Any) -> dict[str, Any]:
        """Take events for the bus; what a rule hands to the queue is the event with its envelope."""
        self.calls[self._running] += 1
        for entry in request["Entries"]:
            self.bus_events += 1
            envelope = {"source": entry["Source"], "detail-type": entry["DetailType"]}
            self._bus.append(json.dumps({**envelope, "detail": json.loads(entry["Detail"])}))
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in request["Entries"]]}

    def _metered(self, backend: MemoryDynamoDB) -> Any:
        """Return a client that counts its calls; one that is refused never counts as answered."""
        client = backend.client()
        mark = Decimal(0)

        def before(_service: str, operation: str, request: Mapping[str, Any]) -> None:
            nonlocal mark
            self.calls[self._running] += 1
            self._unanswered += 1
            client.meter = self._transactions if operation == "TransactWriteItems" else self._meter
            for action in request.get("TransactItems", ()):
                if "ConditionCheck" in action:
                    self._check(action["ConditionCheck"])
            mark = self._units_of(operation)

        def after(_service: str, operation: str, _request: Mapping[str, Any], _answer: Any) -> None:
            self._unanswered -= 1
            kind = SINGLE_ITEM_CALLS.get(operation)
            if kind is not None and self._units_of(operation) == mark:
                self._without_item[kind] += 1

        client.before_call, client.after_call = before, after
        return client

    def _units_of(self, operation: str) -> Decimal:
        kind = SINGLE_ITEM_CALLS.get(operation)
        return Decimal(0) if kind is None else self._meter.units(kind)

    def _check(self, check: Mapping[str, Any]) -> None:
        """Count a condition's item as written: a transaction is billed for it as for the others."""
        table = self._table(check["TableName"])
        record = table.get(table.schema.key_of(check["Key"]))
        self._transactions.bytes_written[table.name] += 0 if record is None else record.size

    def _table(self, name: str) -> Table:
        return self._home.tables[name]

    def _profile_bytes(self) -> int:
        return sum(record.size for _, record in self._table(PROFILE_TABLE).records())

    # --- The functions' settings ----------------------------------------------------------------------------

    def _runtime(self) -> Runtime:
        return Runtime(
            environment=Environment(_ENVIRONMENT),
            clients=Clients(
                dynamodb=lambda: self._metered_home,
                dynamodb_of=lambda _region: self._metered_us_east_1,
                events_of=lambda _region: self,
                secrets=lambda: self,
                ses=lambda: self,
            ),
            clock=self.clock,
            telemetry=self.recorder,
        )

    def _events_runtime(self, dynamodb: Any, *, forwarding: bool) -> composition_events.Runtime:
        return composition_events.Runtime(
            settings=composition_events.Settings(
                SUBSCRIBERS_TABLE, PARKED_TABLE, forward_event_buses={REGION: BUS} if forwarding else {}
            ),
            clock=self.clock,
            telemetry=self.recorder if forwarding else Recorder(),
            dynamodb=dynamodb,
            events_client_for=lambda _region: self,
        )

    def _tiers_before(
        self, home: Any, us_east_1: Any
    ) -> tuple[composition_events.Runtime, composition_registration.Runtime]:
        """Return what the functions run on whose work is not counted here."""
        registration = composition_registration.Runtime(
            settings=composition_registration.Settings(
                product_code=PRODUCT,
                region=REGION,
                customer_profile_table=PROFILE_TABLE,
                subscribers_table=SUBSCRIBERS_TABLE,
                registration_fields=json.dumps(FIELDS),
            ),
            clock=self.clock,
            telemetry=Recorder(),
            dynamodb=home,
            subscribers_dynamodb=us_east_1,
            marketplace=InProcessMarketplaceClient(self._marketplace, region=REGION),
        )
        return self._events_runtime(us_east_1, forwarding=False), registration


def _kind_of(mail: Mapping[str, Any]) -> str:
    return str(next(tag["Value"] for tag in mail["EmailTags"] if tag["Name"] == "awsmp-kind"))


def _message(body: str) -> dict[str, Any]:
    """Return the event of a queue with one message."""
    return {"Records": [{"messageId": "1", "body": body, "eventSource": "aws:sqs", "receiptHandle": "r"}]}


def _request(method: str, path: str, content_type: str = "", body: str = "") -> dict[str, Any]:
    """Return the registration API's event of a request."""
    headers = {"Content-Type": content_type} if content_type else {}
    event = proxy_event(SeenRequest(method, f"/v1{path}", headers, body.encode()), "v1")
    if event is None:
        raise RuntimeError(f"no method takes {method} {path}")
    return event


def _require_ok(answer: Mapping[str, Any]) -> None:
    if answer["statusCode"] != 200:
        raise RuntimeError(f"answered with {answer['statusCode']}: {answer['body']}")


def _require_done(answer: Mapping[str, Any]) -> None:
    if answer != {"batchItemFailures": []}:
        raise RuntimeError(f"what was to be handled has to come again: {answer}")
