"""What a deployment costs a month, from counted operations: ``python -m sandbox.costs write``, or ``check``.

A simulated hour of the real functions is counted request by request, as AWS bills it, with as many licences
as the document shows; a day is 24 such hours (a test plays a whole one), a month thirty days. Registrations
are counted one by one, and what buyers are told licence by licence. Prices are list prices, in this file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import hcl2

from awsmp.composition_page import PageRuntime, PageSettings
from awsmp.composition_registration import Runtime, Settings
from awsmp.handlers import page, register
from sandbox.billing_meter import SINGLE_ITEM_CALLS, BillingMeter
from sandbox.fake_marketplace import FakeMarketplace, InProcessMarketplaceClient
from sandbox.memory_aws import ManualClock, MemoryDynamoDB
from sandbox.module_docs import replace_section
from sandbox.notifications_tier import MAILS_OF_A_LIFE, MINUTES_OF_A_LIFE, NotificationsTier
from sandbox.registration_server import (
    FIELDS,
    PROFILE_TABLE,
    REGION,
    SUBSCRIBERS_TABLE,
    SeenRequest,
    content_security_policy,
    page_configuration,
    page_values,
    proxy_event,
)
from sandbox.simulation.seller import Buyer, Seller
from sandbox.simulation.stage import WorldStage
from sandbox.simulation.world import LEDGER, PRODUCT_CODE, USAGE, AwsCall, Recorder, World
from sandbox.tables import customer_profile_table, subscribers_table
from sandbox.terraform import REPOSITORY

DOCUMENT: Final = REPOSITORY / "docs" / "costs.md"

#: Day that is played, whole or its first hours: no month end in or near it.
START: Final = datetime(2026, 9, 14, tzinfo=UTC)
#: Played before the counting begins, so that the first counted hour finds the hour before it to add up.
WARM_UP: Final = timedelta(hours=4)
HOUR: Final = timedelta(hours=1)
HOURS_A_DAY: Final = 24
DAYS_A_MONTH: Final = 30

#: A licence writes one dimension, a row every five minutes, around the clock.
MINUTES_BETWEEN_ROWS: Final = 5
ROWS_AN_HOUR: Final = 60 // MINUTES_BETWEEN_ROWS

#: Licence counts of the document.
SHOWN: Final = (1, 100, 10_000)

#: Buyers who register when a registration is counted: more than one, so that none is special.
REGISTERED: Final = 10

#: Licences whose lives are played when notifications are counted: more than one, so that none is special.
LIVES: Final = 3

#: Alarms of what the counted month has switched off: forwarding to notifications, verified addresses.
SWITCHED_OFF: Final = ("subscriber-forwarder-", "address-verification-", "verify-")

#: Lambda polls each queue with at least five long polls of twenty seconds, whether or not a message comes.
IDLE_POLLS_A_MINUTE: Final = 15
EVENT_SOURCES: Final = 4

#: Time that a call and a start take, in seconds: assumed, because a simulation has no real latency.
SECONDS_A_CALL: Final = Decimal("0.01")
SECONDS_A_METERING_CALL: Final = Decimal("0.3")
SECONDS_A_MAIL: Final = Decimal("0.3")
SECONDS_A_RUN: Final = Decimal("0.03")

#: What Lambda itself writes into the log for each run (START, END, REPORT), and the frame of our own lines.
LOG_BYTES_A_RUN: Final = 350
LOG_BYTES_A_LINE: Final = 250
METRIC_LINE_BYTES: Final = 420
#: A line of API Gateway's access log.
ACCESS_LOG_BYTES: Final = 500

#: Months that raw rows and records are kept when the storage is counted: one year.
MONTHS_KEPT: Final = 12

PRICES_SEEN: Final = "2026-11"


@dataclass(frozen=True, slots=True)
class Price:
    """A list price of us-east-1, in US dollars per ``per`` units."""

    what: str
    dollars: Decimal
    per: int
    unit: str


PRICES: Final[Mapping[str, Price]] = {
    "write_units": Price("DynamoDB on-demand write", Decimal("0.625"), 1_000_000, "write request units"),
    "read_units": Price("DynamoDB on-demand read", Decimal("0.125"), 1_000_000, "read request units"),
    "stored_gb": Price("DynamoDB storage, point-in-time recovery included", Decimal("0.45"), 1, "GB-month"),
    "runs": Price("Lambda requests", Decimal("0.20"), 1_000_000, "requests"),
    "gb_seconds": Price("Lambda duration, arm64", Decimal("0.0000133334"), 1, "GB-seconds"),
    "queue_requests": Price("SQS standard queue", Decimal("0.40"), 1_000_000, "requests"),
    "log_gb": Price("CloudWatch Logs ingestion", Decimal("0.50"), 1, "GB"),
    "metrics": Price("CloudWatch custom metrics", Decimal("0.30"), 1, "metrics"),
    "alarms": Price("CloudWatch alarms", Decimal("0.10"), 1, "alarms"),
    "dashboards": Price("CloudWatch dashboards", Decimal("3.00"), 1, "dashboards"),
    "scheduled_events": Price(
        "EventBridge rules on a schedule and on AWS's own events", Decimal(0), 1, "events"
    ),
}

#: What the registration tier needs beside the services above.
REGISTRATION_PRICES: Final[Mapping[str, Price]] = {
    "api_requests": Price("API Gateway REST API", Decimal("3.50"), 1_000_000, "requests"),
    "inspected": Price("AWS WAF requests", Decimal("0.60"), 1_000_000, "requests"),
    "web_acls": Price("AWS WAF web ACL", Decimal("5.00"), 1, "web ACLs"),
    "rules": Price("AWS WAF rules and rule groups", Decimal("1.00"), 1, "rules"),
}

#: What the notifications tier needs beside the services above.
NOTIFICATION_PRICES: Final[Mapping[str, Price]] = {
    "mails": Price("SES mails", Decimal("0.10"), 1_000, "mails"),
    "bus_events": Price("EventBridge custom events", Decimal("1.00"), 1_000_000, "events"),
    "secret_calls": Price("Secrets Manager requests", Decimal("0.05"), 10_000, "requests"),
    "secrets": Price("Secrets Manager secrets", Decimal("0.40"), 1, "secrets"),
    "keys": Price("KMS customer managed keys", Decimal("1.00"), 1, "keys"),
}

#: Memory of each function, in MiB, as the modules set it by default.
MEMORY_MIB: Final[Mapping[str, int]] = {
    "aggregator": 512,
    "cleanup": 512,
    "discoverer": 512,
    "expiry": 512,
    "submitter": 1024,
    "subscription": 256,
    "deprovision_cleanup": 256,
    "page": 512,
    "register": 512,
    "verify": 512,
    "subscriber-forwarder": 256,
    "notification-contacts": 256,
    "notification-intake": 256,
    "notification-maintenance": 256,
    "notification-sender": 256,
}


@dataclass(frozen=True, slots=True)
class Operations:
    """What one day did, with one product in one Region."""

    groups: Decimal
    rows: Decimal
    runs: Mapping[str, Decimal]
    calls: Mapping[str, Decimal]
    metering_calls: Decimal
    writer_units: Decimal
    write_units: Decimal
    read_units: Decimal
    queue_requests: Decimal
    log_bytes: Decimal
    metrics: Decimal
    stored_bytes: Decimal

    def times(self, factor: int) -> Operations:
        """Return so many times as much; which metrics there are stays the same."""

        def many(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: number * factor for key, number in value.items()}
            return value * factor

        values = {each.name: many(getattr(self, each.name)) for each in fields(self)}
        return Operations(**{**values, "metrics": self.metrics})

    def month(self, fixed: Mapping[str, int]) -> dict[str, Decimal]:
        """Return the quantities of ``PRICES`` for thirty such days; ``fixed`` is what the modules make."""
        seconds = {
            function: runs * SECONDS_A_RUN + self.calls.get(function, Decimal(0)) * SECONDS_A_CALL
            for function, runs in self.runs.items()
        }
        seconds["submitter"] += self.metering_calls * SECONDS_A_METERING_CALL
        gb_seconds = sum((value * MEMORY_MIB[name] / 1024 for name, value in seconds.items()), Decimal(0))
        polls = IDLE_POLLS_A_MINUTE * 60 * 24 * EVENT_SOURCES
        return {
            "writer_units": self.writer_units * DAYS_A_MONTH,
            "write_units": self.write_units * DAYS_A_MONTH,
            "read_units": self.read_units * DAYS_A_MONTH,
            "stored_gb": self.stored_bytes * DAYS_A_MONTH * MONTHS_KEPT / 10**9,
            "runs": sum(self.runs.values(), Decimal(0)) * DAYS_A_MONTH,
            "gb_seconds": gb_seconds * DAYS_A_MONTH,
            "queue_requests": (self.queue_requests + polls) * DAYS_A_MONTH,
            "log_gb": self.log_bytes * DAYS_A_MONTH / 10**9,
            "metrics": self.metrics,
            **{name: Decimal(value) for name, value in fixed.items()},
        }


class CountedWorld(World):
    """A world that counts its runs."""

    def __post_init__(self) -> None:
        """See World."""
        self.runs: Counter[str] = Counter()
        super().__post_init__()

    def invoke(self, function: str, event: Mapping[str, Any], *, region: str | None = None) -> Any:
        """See World."""
        self.runs[function] += 1
        return super().invoke(function, event, region=region)


def count_hour(licenses: int) -> Operations:
    """Play an hour with ``licenses`` licences, one dimension each, and return what it did.

    The hour before it is played for its rows, which is all that the counted hour works on: what writing rows
    costs is counted there. An idle hour comes first, because the first run writes what is written once.
    Raises RuntimeError when the hour did not bill what it should have: its counts would be worth nothing.
    """
    world, buyers = _deployed(licenses)
    tally = _Tally(world)
    world.run_until(START + HOUR)
    before = tally.read()
    _play(world, buyers, START + HOUR, START + 2 * HOUR)
    written = tally.read()
    honoured = len(world.marketplace.honoured())
    world.run_until(START + 3 * HOUR)
    billed = len(world.marketplace.honoured()) - honoured
    if (honoured, billed) != (0, licenses):
        raise RuntimeError(f"{licenses} hours of usage were written; {honoured + billed} were billed")
    rows, done = _difference(before, written, groups=0), _difference(written, tally.read(), groups=billed)
    return replace(
        done,
        rows=rows.rows,
        writer_units=rows.writer_units,
        stored_bytes=rows.stored_bytes + done.stored_bytes,
    )


def count_day(licenses: int) -> Operations:
    """Play a whole day, its hours all writing and billing, and return what it did; see ``count_hour``."""
    world, buyers = _deployed(licenses)
    tally = _Tally(world)
    _play(world, buyers, START, START + WARM_UP)
    before = tally.read()
    honoured = len(world.marketplace.honoured())
    _play(world, buyers, START + WARM_UP, START + WARM_UP + HOURS_A_DAY * HOUR)
    billed = len(world.marketplace.honoured()) - honoured
    if billed != licenses * HOURS_A_DAY:
        raise RuntimeError(f"a day has {licenses * HOURS_A_DAY} hours of usage; {billed} were billed")
    return _difference(before, tally.read(), groups=billed)


def _deployed(licenses: int) -> tuple[CountedWorld, list[Buyer]]:
    world = CountedWorld(START)
    stage = WorldStage(world)
    world.marketplace.create_product(PRODUCT_CODE, ["requests"])
    buyers = []
    for number in range(licenses):
        account = f"5555{number:08d}"
        bought = stage.subscribe(account, START - timedelta(hours=2))
        buyers.append(Buyer(str(number), bought.license_arn, account, bought.agreement_id, bought.events))
        for envelope in bought.events:
            stage.deliver(envelope)
    world.pump()
    return world, buyers


def _play(world: World, buyers: Iterable[Buyer], begin: datetime, end: datetime) -> None:
    seller, people = Seller(world.writer), list(buyers)
    now = begin
    while now < end:
        world.run_until(now)
        for buyer in people:
            seller.write(buyer, "requests", now, 1)
        now += timedelta(minutes=MINUTES_BETWEEN_ROWS)
    world.run_until(end)


class _Tally:
    """Counts what a world does: capacity, calls, runs, log lines."""

    def __init__(self, world: CountedWorld) -> None:
        """Hang meters on every client and look at every call."""
        self._world = world
        self._meter, self._writer_meter = BillingMeter(), BillingMeter()
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._without_item: Counter[str] = Counter()
        self._mark = Decimal(0)
        world.writer.meter = self._writer_meter
        clients = world.metering.clients
        wired: tuple[Any, ...] = (clients.dynamodb, clients.subscribers, world.events.dynamodb)
        for client in wired:
            client._client.meter = self._meter
        world.fault_plan = self._see

    def _see(self, call: AwsCall) -> None:
        kind = SINGLE_ITEM_CALLS.get(call.operation)
        units = self._meter.units(kind) if kind else Decimal(0)
        if not call.after:
            self._mark = units
            return
        self._calls[call.function, call.service, call.operation] += 1
        # A read that finds nothing and a write that its condition refuses are billed as one unit.
        if kind and units == self._mark:
            self._without_item[kind] += 1

    def read(self) -> Operations:
        """Return all counts so far."""
        world, recorder = self._world, self._world.recorder
        functions: Counter[str] = Counter()
        for (function, _, _), number in self._calls.items():
            functions[function] += number
        by_operation = Counter({key[1:]: 0 for key in self._calls})
        for (_, service, operation), number in self._calls.items():
            by_operation[service, operation] += number
        sent = sum(number for (service, _), number in by_operation.items() if service == "sqs")
        # One batch of messages is one run, received in one request and deleted in another.
        batches = sum(world.runs[name] for name in ("aggregator", "cleanup", "subscription"))
        items = [
            record.size + 100  # DynamoDB's own overhead of an item
            for table in (USAGE, LEDGER)
            for _, record in world.dynamodb.tables[table].records()
        ]
        return Operations(
            groups=Decimal(0),
            rows=Decimal(self._writer_meter.requests["PutItem"]),
            runs={name: Decimal(number) for name, number in world.runs.items()},
            calls={name: Decimal(number) for name, number in functions.items()},
            metering_calls=Decimal(by_operation["marketplace", "BatchMeterUsage"]),
            writer_units=self._writer_meter.units("write"),
            write_units=self._meter.units("write") + self._without_item["write"],
            read_units=self._meter.units("read") + self._without_item["read"],
            queue_requests=Decimal(sent + 2 * batches),
            log_bytes=Decimal(_logged(recorder) + sum(world.runs.values()) * LOG_BYTES_A_RUN),
            metrics=Decimal(_metrics_of(recorder)),
            stored_bytes=Decimal(sum(items)),
        )


def _logged(recorder: Recorder) -> int:
    """Return the bytes of a recorder's own lines; a metric with a reason is written as two."""
    emitted = sum(number * (1 if reason is None else 2) for (_, reason), number in recorder.metrics.items())
    lines = sum(
        len(message) + len(json.dumps(fields, default=str)) + LOG_BYTES_A_LINE
        for _, message, fields in recorder.lines
    )
    return lines + emitted * METRIC_LINE_BYTES


def _metrics_of(recorder: Recorder) -> int:
    """Return how many metrics there are; one with a reason is published without it as well."""
    return len({(metric, None) for metric, _ in recorder.metrics} | set(recorder.metrics))


def _difference(before: Operations, after: Operations, *, groups: int) -> Operations:
    """Return what happened between two readings; which metrics there are is no difference."""

    def combine(first: Operations, second: Operations, name: str) -> Any:
        early, late = getattr(first, name), getattr(second, name)
        if isinstance(late, Mapping):
            return {key: late[key] - early.get(key, Decimal(0)) for key in late}
        return late - early

    values = {field.name: combine(before, after, field.name) for field in fields(Operations)}
    return Operations(**{**values, "groups": Decimal(groups), "metrics": after.metrics})


def count_registration(buyers: int = REGISTERED) -> dict[str, Decimal]:
    """Have buyers register and return what one registration asks of each service.

    A browser posts the token, is sent to the page, loads what the page names and posts the form. Raises
    RuntimeError when an answer is another than a buyer should get.
    """
    clock = ManualClock(START)
    marketplace = FakeMarketplace(clock)
    marketplace.create_product(PRODUCT_CODE, ["requests"])
    backend, meter, recorder = MemoryDynamoDB(clock), BillingMeter(), Recorder()
    backend.client().create_table(**customer_profile_table(PROFILE_TABLE))
    backend.client().create_table(**subscribers_table(SUBSCRIBERS_TABLE))
    client: Any = backend.client(meter=meter)
    runtime = Runtime(
        settings=Settings(
            product_code=PRODUCT_CODE,
            region=REGION,
            customer_profile_table=PROFILE_TABLE,
            subscribers_table=SUBSCRIBERS_TABLE,
            registration_fields=json.dumps(FIELDS),
        ),
        clock=clock,
        telemetry=recorder,
        dynamodb=client,
        subscribers_dynamodb=client,
        marketplace=InProcessMarketplaceClient(marketplace, region=REGION),
    )
    values = json.dumps(page_values(page_configuration()))
    page_runtime = PageRuntime(
        PageSettings(PRODUCT_CODE, "sandbox", values, content_security_policy()), recorder
    )
    runs: Counter[str] = Counter()

    def ask(method: str, path: str, content_type: str = "", body: bytes = b"", *, expected: int = 200) -> str:
        headers = {"Content-Type": content_type} if content_type else {}
        event = proxy_event(SeenRequest(method, f"/v1{path}", headers, body), "v1")
        if event is None:
            raise RuntimeError(f"no method takes {method} {path}")
        function = "register" if path == "/register" else "page"
        runs[function] += 1
        answer = (
            register.run(event, None, runtime)
            if function == "register"
            else page.run(event, None, page_runtime)
        )
        if answer["statusCode"] != expected:
            raise RuntimeError(f"{method} {path} was answered with {answer['statusCode']}, not {expected}")
        return str(answer["body"])

    for number in range(buyers):
        agreement, _ = marketplace.create_agreement(PRODUCT_CODE, f"5555{number:08d}")
        grant = marketplace.create_license(agreement.agreement_id)
        marketplace.activate_license(grant.arn)
        token = marketplace.mint_token(grant.arn)
        form = urlencode({"x-amzn-marketplace-token": token}).encode()
        ask("POST", "/fulfillment", "application/x-www-form-urlencoded", form, expected=303)
        html = ask("GET", "/")
        for asset in sorted(set(re.findall(r'(?:href|src)="(assets/[^"]+)"', html))):
            ask("GET", f"/{asset}")
        answers = {
            "email": f"buyer{number}@example.com",
            "name": "A Buyer",
            "plan": "standard",
            "terms": True,
        }
        document = {"token": token, "offerType": None, "fields": answers}
        ask("POST", "/register", "application/json", json.dumps(document).encode())
    requests = sum(runs.values())
    calls = sum(meter.requests.values())
    seconds = {
        "page": runs["page"] * SECONDS_A_RUN,
        # Beside the tables, one call resolves the token.
        "register": runs["register"] * (SECONDS_A_RUN + SECONDS_A_METERING_CALL) + calls * SECONDS_A_CALL,
    }
    gb_seconds = sum((value * MEMORY_MIB[name] / 1024 for name, value in seconds.items()), Decimal(0))
    stored = sum(
        record.size + 100
        for table in (PROFILE_TABLE, SUBSCRIBERS_TABLE)
        for _, record in backend.tables[table].records()
    )
    totals = {
        "api_requests": Decimal(requests),
        "inspected": Decimal(requests),
        "runs": Decimal(requests),
        "gb_seconds": gb_seconds,
        "write_units": meter.units("write"),
        "read_units": meter.units("read") + _found_nothing(meter),
        "stored_gb": Decimal(stored) / 10**9,
        "log_gb": Decimal(_logged(recorder) + requests * (LOG_BYTES_A_RUN + ACCESS_LOG_BYTES)) / 10**9,
    }
    return {
        **{name: total / buyers for name, total in totals.items()},
        "metrics": Decimal(_metrics_of(recorder)),
    }


def _found_nothing(meter: BillingMeter) -> Decimal:
    """Return the units of reads by key that found no item: no bytes were read, one unit is billed."""
    found = sum(number for label, number in meter.read.units.items() if "/" not in label)
    return Decimal(meter.requests["GetItem"] - found)


def registration_month(
    one: Mapping[str, Decimal], licenses: int, fixed: Mapping[str, int]
) -> dict[str, Decimal]:
    """Return the quantities of a month in which each of ``licenses`` licences is registered once."""
    each = {name: value * licenses for name, value in one.items() if name != "metrics"}
    # What lies there after a year of such months.
    each["stored_gb"] *= MONTHS_KEPT
    return {**each, "metrics": one["metrics"], **{name: Decimal(value) for name, value in fixed.items()}}


@dataclass(frozen=True, slots=True)
class Notifications:
    """What the notifications tier asks of each service: in an hour of nothing, and more for a licence's life.

    ``secrets`` and, as soon as there is a licence, ``metrics`` are how many of them there are.
    """

    idle_hour: Mapping[str, Decimal]
    life: Mapping[str, Decimal]
    idle_metrics: int
    metrics: int
    secrets: int


def count_notifications(lives: int = LIVES) -> Notifications:
    """Play an hour of nothing and the lives of licences, one after the other, and return what each asks for.

    Raises RuntimeError when a buyer was told something else than expected: the counts would be worth nothing.
    """
    tier = NotificationsTier(START)
    tier.pass_minutes(60)
    begun = _notification_totals(tier)
    tier.pass_minutes(60)
    idle, idle_metrics = _notification_totals(tier), _metrics_of(tier.recorder)
    for _ in range(lives):
        tier.live()
    ended = _notification_totals(tier)
    hours = Decimal(lives * MINUTES_OF_A_LIFE) / 60
    hour = {name: idle[name] - begun[name] for name in idle}
    return Notifications(
        idle_hour=hour,
        life={name: (ended[name] - idle[name] - hours * hour[name]) / lives for name in ended},
        idle_metrics=idle_metrics,
        metrics=_metrics_of(tier.recorder),
        secrets=len(tier.secrets_read),
    )


def _notification_totals(tier: NotificationsTier) -> dict[str, Decimal]:
    seconds = {
        function: runs * SECONDS_A_RUN + tier.calls[function] * SECONDS_A_CALL
        for function, runs in tier.runs.items()
    }
    seconds["notification-sender"] += len(tier.mails) * SECONDS_A_MAIL
    logged = _logged(tier.recorder) + sum(tier.runs.values()) * LOG_BYTES_A_RUN
    return {
        "mails": Decimal(len(tier.mails)),
        "bus_events": Decimal(tier.bus_events),
        "secret_calls": Decimal(tier.secret_calls),
        "queue_requests": Decimal(tier.queue_requests),
        "api_requests": Decimal(tier.http_requests),
        "inspected": Decimal(tier.http_requests),
        "write_units": tier.units("write"),
        "read_units": tier.units("read"),
        "stored_gb": Decimal(tier.stored_bytes()) / 10**9,
        "runs": Decimal(sum(tier.runs.values())),
        "gb_seconds": sum((value * MEMORY_MIB[name] / 1024 for name, value in seconds.items()), Decimal(0)),
        "log_gb": Decimal(logged + tier.http_requests * ACCESS_LOG_BYTES) / 10**9,
    }


def notifications_month(counted: Notifications, licenses: int, made: Mapping[str, int]) -> dict[str, Decimal]:
    """Return the quantities of a month in which ``licenses`` licences live from purchase to end."""
    hours = HOURS_A_DAY * DAYS_A_MONTH
    month = {name: counted.idle_hour[name] * hours + each * licenses for name, each in counted.life.items()}
    fixed = {name: Decimal(value) for name, value in made.items()}
    month["queue_requests"] += fixed.pop("polled_queues") * IDLE_POLLS_A_MINUTE * 60 * hours
    # What lies there after a year of such months.
    month["stored_gb"] *= MONTHS_KEPT
    metrics = counted.metrics if licenses else counted.idle_metrics
    return {**month, **fixed, "metrics": Decimal(metrics), "secrets": Decimal(counted.secrets)}


def made_by_modules(
    modules: Iterable[str] = ("events", "metering"), root: Path = REPOSITORY
) -> dict[str, int]:
    """Return how many alarms and dashboards modules make, what the counted month has switched off apart."""
    names = list(modules)
    variables = _blocks(names, root, "variable", "create_dashboard")
    return {
        "alarms": sum(not name.startswith(SWITCHED_OFF) for name in _alarms(names, root)),
        "dashboards": sum('"create_dashboard"' in block for block in variables),
    }


def made_by_registration(root: Path = REPOSITORY) -> dict[str, int]:
    """Return what the registration module makes that is paid for by the month."""
    acls = [
        body
        for block in _blocks(["registration"], root, "resource", "aws_wafv2_web_acl")
        for kind, named in block.items()
        if kind.strip('"') == "aws_wafv2_web_acl"
        for name, body in named.items()
        if not name.startswith("__")
    ]
    rules = sum(len(body["rule"]) for body in acls)
    return {**made_by_modules(["registration"], root), "web_acls": len(acls), "rules": rules}


def made_by_notifications(root: Path = REPOSITORY) -> dict[str, int]:
    """Return what notifications make that is paid for by the month, and how many queues they poll.

    In the events and registration modules they switch on alarms, which are counted here.
    """
    module = ["notifications"]
    made = made_by_modules(module, root)
    switched_on = [
        name for name in _alarms(["events", "registration"], root) if name.startswith(SWITCHED_OFF)
    ]
    keys = [
        kind
        for block in _blocks(module, root, "resource", "aws_kms_key")
        for kind in block
        if kind.strip('"') == "aws_kms_key"
    ]
    sources = [
        source
        for block in _blocks(module, root, "locals", "event_sources")
        for source in block.get("event_sources", {}).values()
        # By function: an expression, a map of sources, or nothing.
        if source
    ]
    return {
        **made,
        "alarms": made["alarms"] + len(switched_on),
        "keys": len(keys),
        "polled_queues": len(sources),
    }


def _alarms(modules: Iterable[str], root: Path) -> list[str]:
    """Return the keys of the alarms that modules make."""
    blocks = _blocks(modules, root, "locals", "alarm_keys")
    return [str(name).strip('"') for block in blocks for name in block.get("alarm_keys", [])]


def _blocks(modules: Iterable[str], root: Path, kind: str, word: str) -> Iterator[dict[str, Any]]:
    """Return the blocks of a kind in the files that hold ``word``: to parse all of them takes seconds."""
    for module in modules:
        for path in sorted((root / "modules" / module).glob("*.tf")):
            text = path.read_text(encoding="utf-8")
            if word in text:
                yield from _parsed(text).get(kind, [])


@cache
def _parsed(text: str) -> dict[str, Any]:
    content: dict[str, Any] = hcl2.loads(text)
    return content


def dollars(quantities: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return what quantities cost a month, by the names of ``PRICES``."""
    return {
        name: quantities[name] * price.dollars / price.per for name, price in PRICES.items() if price.dollars
    }


def operations_section(months: Mapping[int, Mapping[str, Decimal]]) -> str:
    """Return the table of a month's operations."""
    rows = [
        [
            PRICES[name].what if name in PRICES else _LABELS[name],
            *(_number(months[n][name]) for n in months),
            unit,
        ]
        for name, unit in ((name, PRICES[name].unit if name in PRICES else _UNITS[name]) for name in _ORDER)
    ]
    return _table(["a month", *(_licenses(n) for n in months), "unit"], rows)


def operations_by_piece(
    prices: Mapping[str, Price],
    piece: tuple[str, Mapping[str, Decimal]],
    months: Mapping[int, Mapping[str, Decimal]],
) -> str:
    """Return the table of what is asked for: by one ``piece`` (its name and quantities), and in a month."""
    name_of_piece, one = piece
    rows = [
        [
            price.what,
            _number(one[name]) if name in one and name not in _NOT_BY_PIECE else "",
            *(_number(month[name]) for month in months.values()),
            price.unit,
        ]
        for name, price in prices.items()
    ]
    return _table(["a month", name_of_piece, *(_licenses(n) for n in months), "unit"], rows)


def bill_by_piece(
    prices: Mapping[str, Price],
    pieces: Mapping[str, Mapping[str, Decimal]],
    months: Mapping[int, Mapping[str, Decimal]],
) -> str:
    """Return the table of what months cost, and what of it each of ``pieces`` is, by what it is called.

    ``months`` are those of so many licences; one of none has no pieces.
    """

    def cost(name: str, quantity: Decimal) -> Decimal:
        return quantity * prices[name].dollars / prices[name].per

    rows = [
        [price.what, *(f"${cost(name, month[name]):,.2f}" for month in months.values())]
        for name, price in prices.items()
    ]
    totals = [sum((cost(name, month[name]) for name in prices), Decimal(0)) for month in months.values()]
    rows.append(["**Sum**", *(f"**${total:,.2f}**" for total in totals)])
    for label, one in pieces.items():
        each = sum((cost(name, one[name]) for name in one if name not in _NOT_BY_PIECE), Decimal(0))
        rows.append([f"of it for {label}", *(f"${each:,.6f}" if n else "" for n in months)])
    return _table(["US dollars a month", *(_licenses(n) for n in months)], rows)


#: Paid for by the month, however many there were.
_NOT_BY_PIECE: Final = frozenset({"metrics", "stored_gb"})


def _registration_prices() -> dict[str, Price]:
    shared = ("write_units", "read_units", "stored_gb", "runs", "gb_seconds", "log_gb")
    monthly = ("metrics", "alarms", "dashboards")
    return {
        **{name: REGISTRATION_PRICES[name] for name in ("api_requests", "inspected")},
        **{name: PRICES[name] for name in shared},
        **{name: REGISTRATION_PRICES[name] for name in ("web_acls", "rules")},
        **{name: PRICES[name] for name in monthly},
    }


def _notification_prices() -> dict[str, Price]:
    shared = ("write_units", "read_units", "stored_gb", "runs", "gb_seconds", "log_gb")
    monthly = ("metrics", "alarms", "dashboards")
    return {
        **{name: NOTIFICATION_PRICES[name] for name in ("mails", "bus_events")},
        "queue_requests": PRICES["queue_requests"],
        "secret_calls": NOTIFICATION_PRICES["secret_calls"],
        **{name: REGISTRATION_PRICES[name] for name in ("api_requests", "inspected")},
        **{name: PRICES[name] for name in shared},
        **{name: NOTIFICATION_PRICES[name] for name in ("secrets", "keys")},
        **{name: PRICES[name] for name in monthly},
    }


def prices_section() -> str:
    """Return the table of prices."""
    rows = [
        [
            price.what,
            f"${price.dollars}",
            f"{price.per:,} {price.unit if price.per > 1 else price.unit.removesuffix('s')}",
        ]
        for price in [*PRICES.values(), *REGISTRATION_PRICES.values(), *NOTIFICATION_PRICES.values()]
    ]
    return _table(["price", "US dollars", "for"], rows)


def bill_section(months: Mapping[int, Mapping[str, Decimal]]) -> str:
    """Return the table of a month's costs."""
    bills = {licenses: dollars(month) for licenses, month in months.items()}
    rows = [
        [PRICES[name].what, *(f"${bills[n][name]:,.2f}" for n in bills)]
        for name in PRICES
        if PRICES[name].dollars
    ]
    totals = {licenses: sum(bill.values(), Decimal(0)) for licenses, bill in bills.items()}
    rows.append(["**Sum**", *(f"**${total:,.2f}**" for total in totals.values())])
    rows.append(["A licence", *(f"${total / n:,.4f}" for n, total in totals.items())])
    return _table(["US dollars a month", *(_licenses(n) for n in bills)], rows)


_LABELS: Final = {
    "licence_hours": "Hours of usage billed",
    "rows": "Usage rows written by the product",
    "metering_calls": "BatchMeterUsage requests (AWS does not charge for them)",
    "writer_units": "DynamoDB on-demand write, by the product",
    "own_units": "DynamoDB on-demand write, by these modules",
}
_UNITS: Final = {
    "licence_hours": "records",
    "rows": "rows",
    "metering_calls": "requests",
    "writer_units": "write request units",
    "own_units": "write request units",
}
_ORDER: Final = (
    "licence_hours",
    "rows",
    "metering_calls",
    "writer_units",
    "own_units",
    "read_units",
    "stored_gb",
    "runs",
    "gb_seconds",
    "queue_requests",
    "log_gb",
    "metrics",
    "alarms",
    "dashboards",
)


def month_of(day: Operations, fixed: Mapping[str, int]) -> dict[str, Decimal]:
    """Return everything that the document shows of a month."""
    quantities = day.month(fixed)
    return {
        **quantities,
        "own_units": quantities["write_units"],
        "write_units": quantities["write_units"] + quantities["writer_units"],
        "licence_hours": day.groups * DAYS_A_MONTH,
        "rows": day.rows * DAYS_A_MONTH,
        "metering_calls": day.metering_calls * DAYS_A_MONTH,
    }


def months_shown(shown: Iterable[int] = SHOWN) -> dict[int, dict[str, Decimal]]:
    """Play an hour of each number of licences and return the months of the document."""
    fixed = made_by_modules()
    return {licenses: month_of(count_hour(licenses).times(HOURS_A_DAY), fixed) for licenses in shown}


def registration_sections() -> dict[str, str]:
    """Count a registration and return the tables about it, by name."""
    one, fixed = count_registration(), made_by_registration()
    months = {licenses: registration_month(one, licenses, fixed) for licenses in SHOWN}
    return {
        "registration operations": operations_by_piece(
            _registration_prices(), ("a registration", one), months
        ),
        "registration bill": bill_by_piece(_registration_prices(), {"each registration": one}, months),
    }


def notification_sections() -> dict[str, str]:
    """Count notifications and return the tables about them, by name; the first month has no licence."""
    counted, made, prices = count_notifications(), made_by_notifications(), _notification_prices()
    months = {licenses: notifications_month(counted, licenses, made) for licenses in (0, *SHOWN)}
    life = counted.life
    mail = {name: value / len(MAILS_OF_A_LIFE) for name, value in life.items()}
    pieces = {"each licence's life": life, "each mail": mail}
    return {
        "notification operations": operations_by_piece(prices, ("a licence's life", life), months),
        "notification bill": bill_by_piece(prices, pieces, months),
    }


def render(text: str, months: Mapping[int, Mapping[str, Decimal]]) -> str:
    """Return the document with its tables renewed; raises DocsError where a marker is missing."""
    sections = {
        "operations": operations_section(months),
        "prices": prices_section(),
        "bill": bill_section(months),
        **registration_sections(),
        **notification_sections(),
    }
    for name, body in sections.items():
        text = replace_section(text, name, body)
    return text


def _licenses(number: int) -> str:
    if number == 0:
        return "no licence"
    return f"{number:,} licence{'' if number == 1 else 's'}"


def _number(value: Decimal) -> str:
    """Return a number to about four digits: no decimals from a hundred on, two digits of a tiny one."""
    if value >= 100 or value == value.to_integral_value():
        return f"{value:,.0f}"
    if value >= 1:
        return f"{value:.2f}"
    return f"{value:.4f}" if value >= Decimal("0.001") else f"{Decimal(f'{value:.2g}'):f}"


def _table(columns: list[str], rows: list[list[str]]) -> str:
    alignment = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [columns, alignment, *rows])


def main(arguments: list[str] | None = None) -> int:
    """Write the document's tables, or tell that they are out of date (1)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["write", "check"])
    options = parser.parse_args(arguments)
    months = months_shown()
    text = DOCUMENT.read_text(encoding="utf-8")
    renewed = render(text, months)
    if options.action == "write":
        DOCUMENT.write_text(renewed, encoding="utf-8")
    elif renewed != text:
        sys.stdout.write("docs/costs.md is out of date: run `python -m sandbox.costs write`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
