"""One deployment of the metering tier for tests: real handlers, in-memory AWS, the fake Marketplace.

Time is virtual. Nothing runs by itself: a test invokes the functions it wants, in the order it wants.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from awsmp.adapters.dynamodb import from_wire, to_wire
from awsmp.composition_metering import Clients, MeteringRuntime, MeteringSettings
from awsmp.domain.hours import HOUR, bucket_of, floor_hour, format_instant, format_second
from awsmp.domain.identifiers import Group, row_sort_key
from awsmp.domain.ledger import LEDGER_SORT_KEY, LedgerRecord, from_item
from awsmp.domain.ports import Metric
from awsmp.domain.rows import ROW_SORT_KEY, UNCLAIMED, UsageRow
from awsmp.handlers import aggregator, cleanup, discoverer, expiry, submitter
from sandbox import tables
from sandbox.fake_marketplace import FakeMarketplace, InProcessMarketplaceClient
from sandbox.memory_aws import EventSource, MemoryDynamoDB, MemorySQS, Meter, aws_error
from sandbox.memory_aws.tables import Record
from sandbox.virtual_time import VirtualClock, VirtualWorkers

PRODUCT = "prod0example0code"
BUYER = "123456789012"
LICENSE = "arn:aws:license-manager::111122223333:license:l-0a1b2c3d"
CALLS = "api-calls"
DIMENSIONS = ("api-calls", "storage-gb", "seats")

#: A Tuesday in the middle of a month, twenty minutes into the hour.
NOW = datetime(2026, 11, 10, 12, 20, tzinfo=UTC)
#: The youngest complete hour at NOW.
LAST_HOUR = datetime(2026, 11, 10, 11, 0, tzinfo=UTC)

USAGE, LEDGER, SUBSCRIBERS = "awsmp-usage", "awsmp-aggregated-usage", "awsmp-subscribers"
QUEUES = ("work", "deprovision-work", "cleanup")

Item = dict[str, Any]


class Crash(BaseException):
    """The function's process ended here."""


def license_arn(number: int) -> str:
    """Return one of any number of licence ARNs, in sort order."""
    return f"arn:aws:license-manager::111122223333:license:l-{number:08x}"


@dataclass
class RecordingTelemetry:
    """Keeps every metric and log line."""

    counts: list[tuple[Metric, Decimal, str | None]] = field(default_factory=list)
    lines: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        self.counts.append((metric, Decimal(str(value)), reason))

    def info(self, message: str, **fields: object) -> None:
        self.lines.append(("info", message, fields))

    def error(self, message: str, **fields: object) -> None:
        self.lines.append(("error", message, fields))

    def total(self, metric: Metric, reason: str | None = None) -> Decimal:
        """Sum of a metric's values, of one reason or of all."""
        return sum(
            (value for name, value, why in self.counts if name is metric and reason in (None, why)),
            Decimal(0),
        )

    def reasons(self, metric: Metric) -> set[str | None]:
        return {why for name, _, why in self.counts if name is metric}

    def values(self, metric: Metric) -> list[Decimal]:
        return [value for name, value, _ in self.counts if name is metric]


@dataclass(frozen=True)
class LambdaContext:
    """The part of a Lambda context that the handlers read."""

    aws_request_id: str
    clock: VirtualClock
    ends_at: datetime

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.ends_at - self.clock.now()).total_seconds() * 1000))


@dataclass(frozen=True)
class Call:
    """One AWS call as a hook sees it; ``number`` counts from 0 within the armed scenario."""

    number: int
    service: str
    operation: str
    request: Mapping[str, Any]


class CountingMarketplaceClient:
    """The fake's client behind the same hooks as the in-memory clients."""

    def __init__(self, client: InProcessMarketplaceClient, hooks: Hooks) -> None:
        self._client, self._hooks = client, hooks

    def batch_meter_usage(self, **request: Any) -> dict[str, Any]:
        self._hooks.before("meteringmarketplace", "BatchMeterUsage", request)
        answer = self._client.batch_meter_usage(**request)
        self._hooks.after("meteringmarketplace", "BatchMeterUsage", request, answer)
        return answer


@dataclass
class Hooks:
    """What happens around every AWS call of the functions: latency, injected errors, crashes."""

    clock: VirtualClock
    dynamodb_latency: float = 0.0
    before_each: list[Callable[[Call], None]] = field(default_factory=list)
    after_each: list[Callable[[Call], None]] = field(default_factory=list)
    calls: int = 0
    dead: bool = False

    def before(self, service: str, operation: str, request: Mapping[str, Any]) -> None:
        if self.dead:
            raise Crash
        if service == "dynamodb" and self.dynamodb_latency:
            self.clock.sleep(self.dynamodb_latency)
        number, self.calls = self.calls, self.calls + 1
        for hook in self.before_each:
            hook(Call(number, service, operation, request))

    def after(
        self, service: str, operation: str, request: Mapping[str, Any], _answer: Mapping[str, Any]
    ) -> None:
        for hook in self.after_each:
            hook(Call(self.calls - 1, service, operation, request))

    def strike_at(self, number: int, *, after: bool, error: BaseException | None = None) -> None:
        """Raise ``error`` at the call of that number from now on, before its effect or after it.

        Without an error the process ends there: every later call of the invocation fails too.
        """
        self.calls = 0

        def strike(call: Call) -> None:
            if call.number != number:
                return
            if error is not None:
                raise error
            self.dead = True
            raise Crash

        (self.after_each if after else self.before_each).append(strike)

    def clear(self) -> None:
        self.before_each.clear()
        self.after_each.clear()
        self.dead = False


def fail_calls(
    service: str,
    operation: str,
    code: str,
    *,
    times: int | None = 1,
    matches: Callable[[Mapping[str, Any]], bool] = lambda request: True,
) -> Callable[[Call], None]:
    """Return a hook that answers matching calls with an AWS error, so many times (None: always)."""
    struck = 0

    def strike(call: Call) -> None:
        nonlocal struck
        if (call.service, call.operation) != (service, operation) or not matches(call.request):
            return
        if times is not None and struck >= times:
            return
        struck += 1
        raise aws_error(service, operation, code, "injected")

    return strike


class MeteringWorld:
    """Tables, queues, Marketplace and functions."""

    def __init__(
        self,
        *,
        now: datetime = NOW,
        api_latency: float = 0.0,
        subscribed_since: datetime | None = None,
        dimensions: Sequence[str] = DIMENSIONS,
        **settings: Any,
    ) -> None:
        self.clock = VirtualClock(now)
        self.hooks = Hooks(self.clock)
        self.meter = Meter()
        self.subscribers_meter = Meter()
        self.queue_meter = Meter()
        self.dynamodb = MemoryDynamoDB(self.clock)
        self.us_east_1 = MemoryDynamoDB(self.clock)
        self.sqs = MemorySQS(self.clock)
        self.marketplace = FakeMarketplace(self.clock)
        self.telemetry = RecordingTelemetry()
        self.seller: Any = self.dynamodb.client()
        self.events: Any = self.us_east_1.client()
        self.seller.create_table(**tables.usage_table(USAGE))
        self.seller.create_table(**tables.aggregated_usage_table(LEDGER))
        self.events.create_table(**tables.subscribers_table(SUBSCRIBERS))
        admin = self.sqs.client()
        self.urls = {
            name: str(admin.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "360"})["QueueUrl"])
            for name in QUEUES
        }
        self.since = subscribed_since or now - timedelta(days=30)
        self.marketplace.create_product(PRODUCT, dimensions)
        self.invocations = self.ids = 0
        hooks: dict[str, Any] = {"before_call": self.hooks.before, "after_call": self.hooks.after}
        self.runtime = MeteringRuntime(
            settings=replace(
                MeteringSettings(
                    product_code=PRODUCT,
                    usage_table=USAGE,
                    aggregated_usage_table=LEDGER,
                    subscribers_table=SUBSCRIBERS,
                    work_queue_url=self.urls["work"],
                    deprovision_work_queue_url=self.urls["deprovision-work"],
                    cleanup_queue_url=self.urls["cleanup"],
                ),
                **settings,
            ),
            clients=Clients(
                dynamodb=self.dynamodb.client(meter=self.meter, **hooks),
                subscribers=self.us_east_1.client(meter=self.subscribers_meter, **hooks),
                sqs=self.sqs.client(meter=self.queue_meter, **hooks),
                marketplace=CountingMarketplaceClient(
                    InProcessMarketplaceClient(self.marketplace), self.hooks
                ),
            ),
            clock=self.clock,
            telemetry=self.telemetry,
            workers=VirtualWorkers(self.clock, api_latency),
            new_id=self._new_id,
            jitter=lambda: 0.5,
        )
        self.subscribe(LICENSE)

    def _new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032x}"

    def change(self, **changes: Any) -> None:
        """Replace parts of the runtime (``settings`` fields by their own names)."""
        ours = {name: changes.pop(name) for name in list(changes) if hasattr(self.runtime, name)}
        settings = replace(self.runtime.settings, **changes)
        self.runtime = replace(self.runtime, settings=settings, **ours)

    # --- the outside -------------------------------------------------------------------------------

    def subscribe(self, arn: str, account: str = BUYER, *, since: datetime | None = None) -> None:
        """A purchase: the Marketplace knows the licence, and the subscribers table its activation."""
        activated = since or self.since
        self.marketplace.subscribe(PRODUCT, account, license_arn=arn, activate_at=activated)
        self.put_subscriber(arn, account, activationTime=format_instant(activated))

    def put_subscriber(self, arn: str, account: str = BUYER, **attributes: Any) -> None:
        item = {
            "licenseArn": arn,
            "customerAWSAccountId": account,
            "subscriptionStatus": "active",
            **attributes,
        }
        self.events.put_item(TableName=SUBSCRIBERS, Item=to_wire(item))

    def deprovision(
        self,
        arn: str = LICENSE,
        account: str = BUYER,
        *,
        at: datetime | None = None,
        spellings: Sequence[str] = (),
    ) -> datetime:
        """The Marketplace revokes the licence at ``at``; returns when its final-usage window closes."""
        at = at or self.clock.now()
        self.marketplace.deprovision_license(arn)
        expires = at + HOUR
        extra: Item = {"licenseArnSpellings": set(spellings)} if spellings else {}
        self.put_subscriber(
            arn,
            account,
            **{
                "subscriptionStatus": "deprovisioning",
                "deprovisioningPendingFlag": "1",
                "deprovisioningExpiry": format_instant(expires),
                "activationTime": format_instant(self.since),
                **extra,
            },
        )
        return expires

    def write(
        self,
        quantity: object,
        *,
        arn: str = LICENSE,
        account: str = BUYER,
        dimension: str = CALLS,
        hour: datetime = LAST_HOUR,
        second: int = 0,
        **changes: object,
    ) -> str:
        """The seller puts one raw row, with any attribute changed (None leaves it out); return its key."""
        instant = hour + timedelta(seconds=second)
        timestamp = format_second(instant)
        item: Item = {
            "licenseArn": arn,
            ROW_SORT_KEY: row_sort_key(account, dimension, timestamp),
            "customerAWSAccountId": account,
            "dimension": dimension,
            "timestamp": timestamp,
            "quantity": quantity,
            "meteringPending": bucket_of(hour),
            **{"sort_key": None, **changes},
        }
        if item["sort_key"] is not None:
            item[ROW_SORT_KEY] = item["sort_key"]
        item = {name: value for name, value in item.items() if value is not None and name != "sort_key"}
        self.seller.put_item(TableName=USAGE, Item=to_wire(item))
        return str(item[ROW_SORT_KEY])

    def write_every_second(self, target: Group, *, quantity: int = 1, seconds: int = 3600) -> None:
        """Put the rows of a busy group, as a rule 3,600, bypassing the request machinery for speed."""
        table = self.dynamodb.table(USAGE)
        shared = {
            "licenseArn": {"S": target.license_arn},
            "customerAWSAccountId": {"S": target.customer_account},
            "dimension": {"S": target.dimension},
            "quantity": {"N": str(quantity)},
            "meteringPending": {"S": target.bucket},
        }
        now, bucket, prefix = self.clock.now(), target.bucket, target.row_prefix
        for second in range(seconds):
            suffix = f":{second // 60:02d}:{second % 60:02d}"
            timestamp, sort_key = bucket + suffix, prefix + suffix
            item = {**shared, ROW_SORT_KEY: {"S": sort_key}, "timestamp": {"S": timestamp}}
            table.put((target.license_arn, sort_key), Record(item, 400), now, None)

    def put_ledger(self, item: Mapping[str, object]) -> None:
        self.seller.put_item(TableName=LEDGER, Item=to_wire(item))

    def put_input(self, target: Group, quantity: object, **changes: object) -> None:
        """The seller puts a finished hourly record, unconditionally (direct-submit)."""
        item: Item = {
            "licenseArn": target.license_arn,
            LEDGER_SORT_KEY: target.ledger_sort_key,
            "customerAWSAccountId": target.customer_account,
            "dimension": target.dimension,
            "hour": target.bucket,
            "quantity": quantity,
            "meteringPending": target.bucket,
            **changes,
        }
        self.put_ledger({name: value for name, value in item.items() if value is not None})

    def edit_ledger(self, group: Group, **changes: object) -> None:
        """Somebody edits a record by hand; None removes an attribute."""
        item = self.ledger_item(group) | changes
        self.put_ledger({name: value for name, value in item.items() if value is not None})

    # --- the functions -----------------------------------------------------------------------------

    def context(self, seconds: float = 280) -> LambdaContext:
        self.invocations += 1
        now = self.clock.now()
        return LambdaContext(f"request-{self.invocations}", self.clock, now + timedelta(seconds=seconds))

    def discover(self, offset: int = 1) -> int:
        event = {"mode": "meter", "hourOffset": offset}
        return discoverer.run(event, self.context(), self.runtime)["sent"]

    def age_out(self, shard: int, *, seconds: float = 280) -> int:
        event = {"mode": "ageout", "shard": shard}
        return discoverer.run(event, self.context(seconds), self.runtime)["closed"]

    def flush(self) -> int:
        return discoverer.run({"mode": "flush-deprovisioning"}, self.context(), self.runtime)["sent"]

    def aggregate(self, queue: str = "work") -> None:
        """Let the aggregator work off a queue; a message that fails stays in it."""
        self._drain(queue, aggregator.run)

    def clean(self) -> None:
        self._drain("cleanup", cleanup.run)

    def _drain(self, queue: str, run: Callable[..., dict[str, Any]]) -> None:
        source = EventSource(self.sqs.client(), self.urls[queue])
        source.drain(lambda event: run(event, self.context(), self.runtime))

    def submit(self, *, seconds: float = 280) -> dict[str, Any]:
        return submitter.run({"mode": "submit"}, self.context(seconds), self.runtime)

    def submit_closing(self) -> dict[str, Any]:
        return submitter.run({"mode": "deprovisioning"}, self.context(), self.runtime)

    def another_sender(self) -> dict[str, Any]:
        """Run a second submitter, in a process of its own, that finds the lease free."""
        for item in self.ledger_items():
            if "leaseOwner" in item:
                key = {name: item[name] for name in ("licenseArn", LEDGER_SORT_KEY)}
                self.put_ledger(key)
        other = replace(self.runtime, workers=VirtualWorkers(self.clock, 0.1))
        return submitter.run({"mode": "submit"}, self.context(), other)

    def expire(self, *, seconds: float = 280) -> int:
        return expiry.run({}, self.context(seconds), self.runtime)["closed"]

    def fold(self, offset: int = 1) -> None:
        """Discover, aggregate and clean up one hour."""
        self.discover(offset)
        self.aggregate()
        self.clean()

    # --- what tests judge by -----------------------------------------------------------------------

    def stored(self, table: str) -> list[Item]:
        """Every item of a table in wire form."""
        return self.dynamodb.items(table)

    def bodies(self, queue: str) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.sqs.bodies(queue)]

    def rows(self) -> list[UsageRow]:
        return [UsageRow(from_wire(item)) for item in self.stored(USAGE)]

    def row(self, sort_key: str) -> UsageRow:
        return next(row for row in self.rows() if row.sort_key == sort_key)

    def pending_rows(self) -> list[str]:
        return [row.sort_key for row in self.rows() if row.pending_bucket is not None]

    def ledger_items(self) -> list[Item]:
        return [from_wire(item) for item in self.stored(LEDGER)]

    def ledger_item(self, group: Group, *, prefix: str = "") -> Item:
        key = (group.license_arn, prefix + group.ledger_sort_key)
        return next(i for i in self.ledger_items() if (i["licenseArn"], i[LEDGER_SORT_KEY]) == key)

    def records(self) -> list[LedgerRecord]:
        """Every readable record; one that was edited by hand into something else is left out."""
        found: list[LedgerRecord] = []
        for item in self.ledger_items():
            with contextlib.suppress(ValueError, AttributeError):
                found.append(from_item(item))
        return found

    def record(self, group: Group, *, direct: bool = False) -> LedgerRecord:
        return next(r for r in self.records() if r.group == group and r.direct is direct)

    def billed(self, group: Group) -> Decimal:
        """What AWS would bill for the group, over all records that it honoured."""
        return sum(
            (
                Decimal(each.quantity)
                for each in self.marketplace.honoured()
                if each.license_arn == group.license_arn
                and each.customer == group.customer_account
                and each.dimension == group.dimension
                and floor_hour(each.timestamp) == group.hour
            ),
            Decimal(0),
        )

    def assert_balanced(self, *, settled: bool = True) -> None:
        """Written = billed + pending + surfaced for every group, and nothing is billed twice.

        ``settled``: nothing is pending any more, neither a row nor a record.
        """
        assert self.marketplace.billed_twice() == {}
        records = self.records()
        by_license: dict[str, list[UsageRow]] = {}
        for row in self.rows():
            by_license.setdefault(row.license_arn, []).append(row)
        for record in records:
            rows = by_license.get(record.group.license_arn, [])
            written = sum((row.quantity for row in rows if row.belongs_to(record.group)), Decimal(0))
            if not record.direct:
                assert record.total == written, record
            assert record.total == record.billed + record.pending_quantity + record.surfaced
            assert sum(record.surfaced_by_reason().values(), Decimal(0)) == record.surfaced
            if record.status is not None and record.status.value == "Success":
                assert record.billed == self.billed(record.group), record
        claimed = {record.group for record in records}
        for row in (row for rows in by_license.values() for row in rows):
            disowned = UNCLAIMED in str(row.attributes.get("meteringStatusReason"))
            if row.pending_bucket is None and not disowned:
                owners = [each for each in claimed if each.license_arn == row.license_arn]
                assert any(map(row.belongs_to, owners)), row
        if settled:
            assert self.pending_rows() == [], f"rows left pending: {self.pending_rows()}"
            left = [record for record in records if record.pending]
            assert left == [], f"records left pending: {left}"


class ClientWorld(MeteringWorld):
    """The same deployment on boto3 clients of another implementation of DynamoDB and SQS."""

    def __init__(self, dynamodb: Any, sqs: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.seller = self.events = dynamodb
        self.queues = sqs
        for request in (
            tables.usage_table(USAGE),
            tables.aggregated_usage_table(LEDGER),
            tables.subscribers_table(SUBSCRIBERS),
        ):
            dynamodb.create_table(**request)
        self.urls = {name: str(sqs.create_queue(QueueName=name)["QueueUrl"]) for name in QUEUES}
        self.change(
            clients=replace(self.runtime.clients, dynamodb=dynamodb, subscribers=dynamodb, sqs=sqs),
            work_queue_url=self.urls["work"],
            deprovision_work_queue_url=self.urls["deprovision-work"],
            cleanup_queue_url=self.urls["cleanup"],
        )
        self.put_subscriber(LICENSE, activationTime=format_instant(self.since))

    def stored(self, table: str) -> list[Item]:
        items: list[Item] = []
        for page in self.seller.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            items += page["Items"]
        return items

    def _receive(self, queue: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        while batch := self.queues.receive_message(
            QueueUrl=self.urls[queue], MaxNumberOfMessages=10, VisibilityTimeout=300
        ).get("Messages"):
            messages += batch
        return messages

    def bodies(self, queue: str) -> list[dict[str, Any]]:
        """What is in the queue; the messages are visible again afterwards."""
        messages = self._receive(queue)
        for message in messages:
            self.queues.change_message_visibility(
                QueueUrl=self.urls[queue], ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )
        return [json.loads(message["Body"]) for message in messages]

    def _drain(self, queue: str, run: Callable[..., dict[str, Any]]) -> None:
        for message in self._receive(queue):
            event = {"Records": [{"messageId": message["MessageId"], "body": message["Body"]}]}
            assert run(event, self.context(), self.runtime) == {"batchItemFailures": []}
            self.queues.delete_message(QueueUrl=self.urls[queue], ReceiptHandle=message["ReceiptHandle"])


def group(
    arn: str = LICENSE, account: str = BUYER, dimension: str = CALLS, hour: datetime = LAST_HOUR
) -> Group:
    return Group(arn, account, dimension, hour)


def amounts(record: LedgerRecord) -> tuple[int, int, int, int]:
    """Return total, billed, pending and surfaced of a record of whole numbers."""
    return (int(record.total), int(record.billed), int(record.pending_quantity), int(record.surfaced))


def allocation(quantity: int, *tags: tuple[str, str]) -> Item:
    shaped: Item = {"AllocatedUsageQuantity": quantity}
    if tags:
        shaped["Tags"] = [{"Key": key, "Value": value} for key, value in tags]
    return shaped


def ready_records(world: MeteringWorld, groups: Iterable[Group], quantity: int = 1) -> None:
    """Write and fold one row of each group, so that its record waits for the submitter."""
    hours = set()
    for each in groups:
        world.write(
            quantity,
            arn=each.license_arn,
            account=each.customer_account,
            dimension=each.dimension,
            hour=each.hour,
        )
        hours.add(each.hour)
    now = floor_hour(world.clock.now())
    for hour in sorted(hours):
        world.fold((now - hour) // HOUR)
