"""Builders, fakes and fault injection shared by the tests of the subscription lifecycle."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

import sandbox.memory_aws
from awsmp.domain.errors import ConditionFailed
from awsmp.domain.license_arns import row_key, same_license
from awsmp.domain.lifecycle_events import Stamp
from awsmp.domain.ports import Metric
from awsmp.domain.subscribers import SubscriberRow, SubscriptionStatus
from awsmp.usecases.deprovision_cleanup import PendingDeprovisioning
from awsmp.usecases.subscription import AcceptedEvents, SubscriptionLifecycle
from sandbox.memory_aws import DynamoDBClient, MemoryDynamoDB

SELLER = "111122223333"
BUYER = "123456789012"
OTHER_BUYER = "210987654321"
PRODUCT = "prod0example0code"
AGREEMENT = "agmt-first"
RENEWAL = "agmt-second"
LICENSE = "arn:aws:license-manager::111122223333:license:l-0a1b2c3d"
EVENT_SPELLING = "aws:license-manager:us-east-1:111122223333:l-0a1b2c3d"
SLASH_SPELLING = "arn:aws:license-manager:us-east-1:111122223333:license/L-0A1B2C3D"
OTHER_LICENSE = "arn:aws:license-manager::111122223333:license:l-ffffffff"
SUBSCRIBERS_TABLE = "awsmp-subscribers"
PARKED_TABLE = "awsmp-parked-agreement-events"
START = datetime(2026, 11, 10, 8, 0, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """The instant that many minutes after START."""
    return START + timedelta(minutes=minutes)


def iso(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class ManualClock:
    """Stands still unless told otherwise; sleeping moves it."""

    instant: datetime = START
    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.instant

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.instant += timedelta(seconds=seconds)


@dataclass
class RecordingTelemetry:
    counts: list[tuple[Metric, str | None]] = field(default_factory=list)
    infos: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    errors: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        assert value == 1
        self.counts.append((metric, reason))

    def info(self, message: str, **fields: object) -> None:
        self.infos.append((message, fields))

    def error(self, message: str, **fields: object) -> None:
        self.errors.append((message, fields))


def envelope(
    detail_type: str,
    time: datetime,
    detail: Mapping[str, Any],
    *,
    event_id: str,
    source: str = "aws.agreement-marketplace",
    account: str = SELLER,
) -> str:
    return json.dumps(
        {
            "version": "0",
            "id": event_id,
            "detail-type": detail_type,
            "source": source,
            "account": account,
            "time": iso(time),
            "region": "us-east-1",
            "resources": [],
            "detail": {"requestId": "r-1", "catalog": "AWSMarketplace", **detail},
        }
    )


def license_event(
    name: str,
    time: datetime,
    *,
    event_id: str | None = None,
    arn: str | None = EVENT_SPELLING,
    account: str | None = BUYER,
    product: str | None = PRODUCT,
    agreement: str | None = AGREEMENT,
    role: str = "Manufacturer",
) -> str:
    detail: dict[str, Any] = {"proposer": {"accountId": SELLER}, "offer": {"id": "offer-1"}}
    if arn is not None:
        detail["license"] = {"arn": arn}
    if account is not None:
        detail["acceptor"] = {"accountId": account}
    if product is not None:
        detail["product"] = {"id": "prod-entity", "code": product}
    if agreement is not None:
        detail["agreement"] = {"id": agreement}
    return envelope(f"{name} - {role}", time, detail, event_id=event_id or f"{name}@{iso(time)}")


def updated(time: datetime, **fields: Any) -> str:
    return license_event("License Updated", time, **fields)


def deprovisioned(time: datetime, **fields: Any) -> str:
    return license_event("License Deprovisioned", time, **fields)


def ended(
    time: datetime, *, agreement: str = AGREEMENT, status: str = "CANCELLED", event_id: str | None = None
) -> str:
    detail = {"agreement": {"id": agreement, "status": status}, "acceptor": {"accountId": BUYER}}
    name = "Purchase Agreement Ended - Proposer"
    return envelope(name, time, detail, event_id=event_id or f"ended@{iso(time)}")


def amended(time: datetime, *, agreement: str = AGREEMENT, event_id: str | None = None, **terms: Any) -> str:
    detail = {
        "agreement": {"id": agreement, "intent": "AMEND", "status": "ACTIVE", **terms},
        "acceptor": {"accountId": BUYER},
    }
    name = "Purchase Agreement Amended - Proposer"
    return envelope(name, time, detail, event_id=event_id or f"amended@{iso(time)}")


def cancellation_request(time: datetime, status: str = "APPROVED") -> str:
    detail = {
        "agreement": {"id": AGREEMENT, "acceptorId": BUYER, "productId": "prod-entity", "offerId": "offer-1"},
        "agreementCancellationRequest": {"id": "acr-1", "reasonCode": "OTHER", "statusCode": status},
    }
    name = f"Agreement Cancellation Request {status.title()} - Proposer"
    return envelope(name, time, detail, event_id=f"acr@{iso(time)}")


@dataclass
class MemorySubscribers:
    """The subscribers table in memory, with its agreement index lagging for as long as a test wants.

    ``before_call`` runs before every call; an interleaving test switches tasks there.
    """

    rows: dict[tuple[str, str], SubscriberRow] = field(default_factory=dict)
    index_shows_rows: bool = True
    before_call: Callable[[], None] = lambda: None

    def find(self, license_arn: str, customer_account: str) -> list[SubscriberRow]:
        self.before_call()
        key = row_key(license_arn)
        matching = [
            row
            for (arn, account), row in self.rows.items()
            if account == customer_account and same_license(arn, license_arn)
        ]
        return sorted(matching, key=lambda row: (row.license_arn != key, row.license_arn))

    def of_agreement(self, agreement_id: str) -> list[tuple[str, str]]:
        self.before_call()
        if not self.index_shows_rows:
            return []
        return [key for key, row in self.rows.items() if row.agreement_id == agreement_id]

    def write(self, old: SubscriberRow | None, new: SubscriberRow) -> None:
        self.before_call()
        key = (new.license_arn, new.customer_account)
        current = self.rows.get(key)
        if (current.version if current else 0) != (old.version if old else 0):
            raise ConditionFailed("another version")
        self.rows[key] = replace(new, version=(old.version if old else 0) + 1)

    def expired(self, now: datetime) -> list[PendingDeprovisioning]:
        self.before_call()
        return [
            PendingDeprovisioning(row.license_arn, row.customer_account, row.deprovisioning_expiry)
            for row in self.rows.values()
            if row.deprovisioning_expiry is not None and row.deprovisioning_expiry <= now
        ]

    def finalize(self, pending: PendingDeprovisioning) -> None:
        self.before_call()
        key = (pending.license_arn, pending.customer_account)
        row = self.rows[key]
        if row.deprovisioning_expiry != pending.expiry:
            raise ConditionFailed("another expiry")
        self.rows[key] = replace(
            row,
            subscription_status=SubscriptionStatus.INACTIVE,
            deprovisioning_expiry=None,
            version=row.version + 1,
        )


@dataclass
class MemoryAgreementLog:
    events: dict[tuple[str, str, str], str] = field(default_factory=dict)
    licenses: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    before_call: Callable[[], None] = lambda: None

    def park(self, agreement_id: str, stamp: Stamp, body: str, expires_at: datetime) -> None:
        self.before_call()
        assert expires_at.tzinfo is not None
        self.events[(agreement_id, iso(stamp.time), stamp.event_id)] = body

    def link(self, agreement_id: str, license_arn: str, customer_account: str, expires_at: datetime) -> None:
        self.before_call()
        self.licenses[(agreement_id, license_arn, customer_account)] = expires_at

    def parked(self, agreement_id: str) -> list[str]:
        self.before_call()
        return [body for key, body in sorted(self.events.items()) if key[0] == agreement_id]

    def linked(self, agreement_id: str) -> list[tuple[str, str]]:
        self.before_call()
        return [(arn, account) for agreement, arn, account in self.licenses if agreement == agreement_id]


@dataclass
class RecordingForwarder:
    forwarded: list[tuple[str, str, datetime, dict[str, Any]]] = field(default_factory=list)

    def forward(self, source: str, detail_type: str, time: datetime, detail: str) -> int:
        self.forwarded.append((source, detail_type, time, json.loads(detail)))
        return 1


@dataclass
class World:
    """The use case over in-memory stores."""

    subscribers: MemorySubscribers = field(default_factory=MemorySubscribers)
    log: MemoryAgreementLog = field(default_factory=MemoryAgreementLog)
    forwarder: RecordingForwarder = field(default_factory=RecordingForwarder)
    telemetry: RecordingTelemetry = field(default_factory=RecordingTelemetry)
    clock: ManualClock = field(default_factory=ManualClock)
    product_codes: frozenset[str] = frozenset({PRODUCT})
    seller_account: str | None = SELLER

    def lifecycle(self) -> SubscriptionLifecycle:
        accepted = AcceptedEvents(
            frozenset({"aws.agreement-marketplace"}), self.product_codes, self.seller_account
        )
        return SubscriptionLifecycle(
            self.subscribers, self.log, self.forwarder, accepted, self.clock, self.telemetry
        )

    def handle(self, *bodies: str) -> None:
        for body in bodies:
            self.lifecycle().handle(body)

    @property
    def row(self) -> SubscriberRow:
        (row,) = self.subscribers.rows.values()
        return row


def schedules(
    build: Callable[[], tuple[Sequence[Callable[[], None]], Callable[[Callable[[], None]], None]]],
    check: Callable[[], None],
) -> Iterator[tuple[int, ...]]:
    """Run two or more tasks under every interleaving of their store calls; yield each one tried.

    ``build`` makes a fresh world and returns its tasks and a function that installs the switch point.
    A prefix of choices is replayed, then the first runnable task goes on; each point where another could
    have run makes a further prefix.
    """
    stack: list[tuple[int, ...]] = [()]
    while stack:
        prefix = stack.pop()
        tasks, install = build()
        baton = _Baton(len(tasks), prefix)
        install(baton.switch)
        baton.run(tasks)
        check()
        yield tuple(choice for choice, _ in baton.trace)
        for position in range(len(prefix), len(baton.trace)):
            chosen, runnable = baton.trace[position]
            taken = tuple(choice for choice, _ in baton.trace[:position])
            stack.extend((*taken, other) for other in runnable if other != chosen)


class _Baton:
    """Lets exactly one thread run, and decides at every switch point which."""

    def __init__(self, tasks: int, prefix: tuple[int, ...]) -> None:
        self._prefix = prefix
        self._runnable = set(range(tasks))
        self._turn = [threading.Semaphore(0) for _ in range(tasks)]
        self._done = threading.Semaphore(0)
        self._self = threading.local()
        self.trace: list[tuple[int, tuple[int, ...]]] = []
        self.failures: list[BaseException] = []

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        threads = [threading.Thread(target=self._task, args=(i, task)) for i, task in enumerate(tasks)]
        for thread in threads:
            thread.start()
        self._pass_on()
        self._done.acquire()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def switch(self) -> None:
        me: int = self._self.index
        self._pass_on()
        self._turn[me].acquire()

    def _pass_on(self) -> None:
        if not self._runnable:
            self._done.release()
            return
        runnable = tuple(sorted(self._runnable))
        position = len(self.trace)
        choice = self._prefix[position] if position < len(self._prefix) else runnable[0]
        self.trace.append((choice, runnable))
        self._turn[choice].release()

    def _task(self, index: int, task: Callable[[], None]) -> None:
        self._self.index = index
        self._turn[index].acquire()
        try:
            task()
        except BaseException as failure:  # noqa: BLE001 - handed to the test's thread, raised there
            self.failures.append(failure)
        self._runnable.discard(index)
        self._pass_on()


class Fault:
    """What an interrupted call raises."""

    TIMEOUT: Exception = ReadTimeoutError(endpoint_url="https://dynamodb.us-east-1.amazonaws.com")
    SERVER: Exception = ClientError({"Error": {"Code": "InternalServerError", "Message": "x"}}, "Call")
    DENIED: Exception = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "x"}}, "Call")


class CountingClient:
    """Passes calls on to a real client; fails the chosen one before or after its effect."""

    def __init__(
        self,
        client: Any,
        *,
        fail_at: int | None = None,
        after: bool = False,
        fault: Exception = Fault.TIMEOUT,
    ) -> None:
        self._client = client
        self._fail_at = fail_at
        self._after = after
        self._fault = fault
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.failed = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**kwargs: Any) -> Any:
            number = len(self.calls)
            self.calls.append((name, kwargs))
            if number != self._fail_at:
                return getattr(self._client, name)(**kwargs)
            self.failed = True
            if self._after:
                getattr(self._client, name)(**kwargs)
            raise self._fault

        return call


@dataclass
class FakeEvents:
    """EventBridge's PutEvents of one Region; ``refusing`` holds bus ARNs that fail."""

    region: str = "us-east-1"
    refusing: set[str] = field(default_factory=set)
    taken: list[dict[str, Any]] = field(default_factory=list)

    def put_events(self, **kwargs: Any) -> dict[str, Any]:
        entries = kwargs["Entries"]
        assert 1 <= len(entries) <= 10
        answers = []
        for entry in entries:
            if entry["EventBusName"] in self.refusing:
                answers.append({"ErrorCode": "InternalFailure", "ErrorMessage": "x"})
            else:
                self.taken.append(entry)
                answers.append({"EventId": f"e-{len(self.taken)}"})
        return {
            "FailedEntryCount": sum("ErrorCode" in answer for answer in answers),
            "Entries": answers,
        }


def memory_tables() -> DynamoDBClient:
    """Return a client of a DynamoDB in memory that has both tables, as strict as boto3 with parameters."""
    backend = MemoryDynamoDB(sandbox.memory_aws.ManualClock(START), allow_scan=True)
    client = backend.client(strict_parameters=True)
    create_tables(client)
    return client


def create_tables(client: Any) -> None:
    """Create both tables as the Terraform module does."""
    keys = [
        "licenseArn",
        "customerAWSAccountId",
        "agreementId",
        "deprovisioningPendingFlag",
        "deprovisioningExpiry",
    ]
    client.create_table(
        TableName=SUBSCRIBERS_TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        KeySchema=_schema("licenseArn", "customerAWSAccountId"),
        GlobalSecondaryIndexes=[
            {
                "IndexName": "customerAWSAccountId-index",
                "KeySchema": _schema("customerAWSAccountId"),
                "Projection": {"ProjectionType": "ALL"},
            },
            {
                "IndexName": "agreementId-index",
                "KeySchema": _schema("agreementId"),
                "Projection": {"ProjectionType": "ALL"},
            },
            {
                "IndexName": "deprovisioning-pending-index",
                "KeySchema": _schema("deprovisioningPendingFlag", "deprovisioningExpiry"),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
        ],
    )
    client.create_table(
        TableName=PARKED_TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("agreementId", "entryKey")
        ],
        KeySchema=_schema("agreementId", "entryKey"),
    )


def _schema(*names: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
    ]


def ordered(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item with its string sets sorted: their order means nothing and the mock's varies."""
    return {name: {"SS": sorted(value["SS"])} if "SS" in value else value for name, value in item.items()}


def sqs_batch(bodies: Iterable[str]) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m-{number}", "body": body, "eventSource": "aws:sqs"}
            for number, body in enumerate(bodies)
        ]
    }
