"""Composition root of the metering functions: settings from the environment, clients, stores.

A simulation builds :class:`MeteringRuntime` itself, with its own clock and clients, and runs the same
handlers.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, Final

import boto3
from botocore.config import Config

from awsmp.adapters.dynamodb import DynamoDBClient
from awsmp.adapters.ledger_store import DynamoDBLedgerStore
from awsmp.adapters.marketplace import BatchMeterUsage, MeteringClient
from awsmp.adapters.subscriber_directory import DynamoDBSubscriberDirectory
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.adapters.system_clock import SystemClock
from awsmp.adapters.telemetry import LambdaTelemetry
from awsmp.adapters.thread_workers import ThreadWorkers
from awsmp.adapters.usage_store import DynamoDBUsageStore
from awsmp.adapters.work_queue import SQSClient, SQSWorkQueue
from awsmp.domain.errors import Misconfigured
from awsmp.domain.hours import BillingWindow
from awsmp.domain.messages import Cleanup, encode_cleanup
from awsmp.domain.ports import Clock, Telemetry, Workers
from awsmp.domain.quantities import QuantityType
from awsmp.usecases.aggregate import Aggregation
from awsmp.usecases.clean import clean_rows
from awsmp.usecases.discover import Discovery
from awsmp.usecases.expire import Expiry
from awsmp.usecases.submit import PIPELINE_DEPTH, Submission, SubmitSettings

#: How long an answer of BatchMeterUsage is waited for; the submitter's stop margin is longer.
READ_TIMEOUT_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class MeteringSettings:
    """The environment variables of the metering functions; each function is given those that it uses."""

    product_code: str
    environment: str = "default"
    usage_table: str = ""
    aggregated_usage_table: str = ""
    subscribers_table: str = ""
    subscribers_table_region: str = ""
    work_queue_url: str = ""
    deprovision_work_queue_url: str = ""
    cleanup_queue_url: str = ""
    marketplace_region: str = ""
    dry_run: bool = False
    test_accounts: frozenset[str] = frozenset()
    window: BillingWindow = field(default_factory=BillingWindow)
    ledger_ttl_days: int = 0
    max_records: int = 10_000
    requests_per_second: float = 10
    sender_timeout: timedelta = timedelta(seconds=300)
    quantity_type: QuantityType = QuantityType.INTEGER
    legacy_product_code: str | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> MeteringSettings:
        """Read the settings.

        Raises
        ------
        Misconfigured
            A value is missing or has the wrong form.
        """
        try:
            return cls(
                product_code=env["PRODUCT_CODE"],
                environment=env.get("ENVIRONMENT", "default"),
                usage_table=env.get("USAGE_TABLE", ""),
                aggregated_usage_table=env.get("AGGREGATED_USAGE_TABLE", ""),
                subscribers_table=env.get("SUBSCRIBERS_TABLE", ""),
                subscribers_table_region=env.get("SUBSCRIBERS_TABLE_REGION", ""),
                work_queue_url=env.get("WORK_QUEUE_URL", ""),
                deprovision_work_queue_url=env.get("DEPROVISION_WORK_QUEUE_URL", ""),
                cleanup_queue_url=env.get("CLEANUP_QUEUE_URL", ""),
                marketplace_region=env.get("MARKETPLACE_REGION", ""),
                dry_run=_metering_mode(env),
                test_accounts=frozenset(filter(None, env.get("TEST_ACCOUNT_ALLOWLIST", "").split(","))),
                window=BillingWindow(
                    billable_hours=int(env.get("BILLABLE_WINDOW_HOURS", "24")),
                    lock_hours=int(env.get("METERING_LOCK_HOURS", "1")),
                ),
                ledger_ttl_days=int(env.get("AGGREGATED_USAGE_TTL_DAYS", "0")),
                max_records=int(env.get("SUBMITTER_MAX_RECORDS", "10000")),
                requests_per_second=float(env.get("SUBMITTER_REQUESTS_PER_SECOND", "10")),
                sender_timeout=timedelta(seconds=int(env.get("SENDER_TIMEOUT_SECONDS", "300"))),
                quantity_type=QuantityType(env.get("QUANTITY_TYPE", "integer")),
                legacy_product_code=env.get("LEGACY_PRODUCT_CODE") or None,
            )
        except (KeyError, ValueError) as error:
            raise Misconfigured(f"an environment variable is missing or malformed: {error}") from error


def _metering_mode(env: Mapping[str, str]) -> bool:
    mode = env.get("METERING_MODE", "live")
    if mode not in {"live", "dry-run"}:
        raise ValueError(f"METERING_MODE is {mode!r}; allowed are live and dry-run")
    return mode == "dry-run"


@dataclass(frozen=True, slots=True)
class Clients:
    """The AWS clients of the metering functions. ``subscribers`` is the client of that table's Region."""

    dynamodb: DynamoDBClient
    subscribers: Any
    sqs: SQSClient
    marketplace: MeteringClient


@dataclass(frozen=True, slots=True)
class MeteringRuntime:
    """Everything that a metering handler needs."""

    settings: MeteringSettings
    clients: Clients
    clock: Clock
    telemetry: Telemetry
    workers: Workers
    new_id: Callable[[], str]
    jitter: Callable[[], float]

    def usage(self) -> DynamoDBUsageStore:
        """Return the usage table."""
        return DynamoDBUsageStore(self.clients.dynamodb, self.settings.usage_table, self.clock)

    def ledger(self) -> DynamoDBLedgerStore:
        """Return the aggregated-usage table."""
        return DynamoDBLedgerStore(self.clients.dynamodb, self.settings.aggregated_usage_table, self.clock)

    def subscribers(self) -> DynamoDBSubscriberDirectory:
        """Return what the metering tier reads of the subscribers table."""
        store = SubscribersStore(self.clients.subscribers, self.settings.subscribers_table, self.clock)
        return DynamoDBSubscriberDirectory(store)

    def queue(self, url: str) -> SQSWorkQueue:
        """Return the queue at ``url``."""
        return SQSWorkQueue(self.clients.sqs, url, self.clock)

    def discovery(self) -> Discovery:
        """Return what the discoverer's meter and flush modes need."""
        return Discovery(self.usage(), self.clock, self.telemetry, self.settings.window)

    def aggregation(self, *, inline_cleanup: bool = False) -> Aggregation:
        """Return what folding needs; with ``inline_cleanup`` rows are cleaned at once, without a queue."""
        usage, ledger = self.usage(), self.ledger()

        def clean_now(cleanups: list[Cleanup]) -> bool:
            cleaned = [clean_rows(usage, ledger, self.clock, cleanup) for cleanup in cleanups]
            return any(each.refold for each in cleaned)

        def enqueue(cleanups: list[Cleanup]) -> bool:
            self.queue(self.settings.cleanup_queue_url).send(map(encode_cleanup, cleanups))
            return False

        return Aggregation(
            usage=usage,
            ledger=ledger,
            clock=self.clock,
            telemetry=self.telemetry,
            window=self.settings.window,
            clean=clean_now if inline_cleanup else enqueue,
            quantity_type=self.settings.quantity_type,
            legacy=self.settings.legacy_product_code is not None,
        )

    def expiry(self) -> Expiry:
        """Return what submission expiry needs."""
        settings = self.settings
        return Expiry(
            self.ledger(),
            self.clock,
            self.telemetry,
            settings.window,
            settings.quantity_type,
            settings.legacy_product_code is not None,
        )

    def submission(self) -> Submission:
        """Return what the submitter needs."""
        settings = self.settings
        return Submission(
            ledger=self.ledger(),
            marketplace=BatchMeterUsage(
                self.clients.marketplace, settings.quantity_type, settings.legacy_product_code
            ),
            subscribers=self.subscribers(),
            clock=self.clock,
            workers=self.workers,
            telemetry=self.telemetry,
            settings=SubmitSettings(
                window=settings.window,
                sender_timeout=settings.sender_timeout,
                max_records=settings.max_records,
                requests_per_second=settings.requests_per_second,
                quantity_type=settings.quantity_type,
                dry_run=settings.dry_run,
                test_accounts=settings.test_accounts,
                legacy=settings.legacy_product_code is not None,
                ledger_ttl_days=settings.ledger_ttl_days,
            ),
            new_id=self.new_id,
            jitter=self.jitter,
            work_queue=self.queue(settings.work_queue_url) if settings.work_queue_url else None,
        )


@cache
def production_runtime(service: str) -> MeteringRuntime:
    """Return the runtime of a deployed function, built once per process."""
    settings = MeteringSettings.from_environment(os.environ)
    clock = SystemClock()
    # No retries of the SDK's own: they would hide a lost answer.
    metering = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=READ_TIMEOUT_SECONDS)
    store = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=5, read_timeout=15)
    return MeteringRuntime(
        settings=settings,
        clients=Clients(
            dynamodb=boto3.client("dynamodb", config=store),
            subscribers=boto3.client(
                "dynamodb", region_name=settings.subscribers_table_region or None, config=store
            ),
            sqs=boto3.client("sqs", config=store),
            marketplace=boto3.client(
                "meteringmarketplace", region_name=settings.marketplace_region or None, config=metering
            ),
        ),
        clock=clock,
        telemetry=LambdaTelemetry(
            service, product_code=settings.product_code, environment=settings.environment
        ),
        workers=ThreadWorkers(clock, PIPELINE_DEPTH),
        new_id=lambda: uuid.uuid4().hex,
        jitter=random.random,
    )
