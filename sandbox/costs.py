"""What a deployment costs a month, from counted operations: ``python -m sandbox.costs write``, or ``check``.

A simulated day of the real functions is counted request by request, as AWS bills it; a month is thirty such
days. Counts for more licences than a simulation can play follow from two played days: every figure is a fixed
part, which an empty deployment has too, and a part for each licence. Prices are list prices, in this file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import hcl2

from sandbox.memory_aws.client import Meter
from sandbox.module_docs import replace_section
from sandbox.simulation.seller import Buyer, Seller
from sandbox.simulation.stage import WorldStage
from sandbox.simulation.world import LEDGER, PRODUCT_CODE, USAGE, AwsCall, World
from sandbox.terraform import REPOSITORY

DOCUMENT: Final = REPOSITORY / "docs" / "costs.md"

#: Day that is played: no month end in or near it.
START: Final = datetime(2026, 9, 14, tzinfo=UTC)
#: Played before the counting begins, so that the first counted hour finds the hour before it to add up.
WARM_UP: Final = timedelta(hours=4)
DAY: Final = timedelta(hours=24)
DAYS_A_MONTH: Final = 30

#: A licence writes one dimension, a row every five minutes, around the clock.
MINUTES_BETWEEN_ROWS: Final = 5
ROWS_AN_HOUR: Final = 60 // MINUTES_BETWEEN_ROWS

#: Licence counts of the document, and the counts that are played to know them.
SHOWN: Final = (1, 100, 10_000)
PLAYED: Final = (1, 50, 100)

#: DynamoDB bills writes by 1 KiB and reads by 4 KiB of an item, or of all items of a query's page.
WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096

#: Lambda polls each queue with at least five long polls of twenty seconds, whether or not a message comes.
IDLE_POLLS_A_MINUTE: Final = 15
EVENT_SOURCES: Final = 4

#: Time that a call and a start take, in seconds: assumed, because a simulation has no real latency.
SECONDS_A_CALL: Final = Decimal("0.01")
SECONDS_A_METERING_CALL: Final = Decimal("0.3")
SECONDS_A_RUN: Final = Decimal("0.03")

#: What Lambda itself writes into the log for each run (START, END, REPORT), and the frame of our own lines.
LOG_BYTES_A_RUN: Final = 350
LOG_BYTES_A_LINE: Final = 250
METRIC_LINE_BYTES: Final = 420

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

#: Memory of each function, in MiB, as the modules set it by default.
MEMORY_MIB: Final[Mapping[str, int]] = {
    "aggregator": 512,
    "cleanup": 512,
    "discoverer": 512,
    "expiry": 512,
    "submitter": 1024,
    "subscription": 256,
    "deprovision_cleanup": 256,
}


class UnitCounter(Counter[str]):
    """Adds up bytes as billed units: every addition is one item or page, rounded up on its own."""

    def __init__(self, unit_bytes: int) -> None:
        """``unit_bytes`` is what one unit holds."""
        super().__init__()
        self.unit_bytes = unit_bytes
        self.units: Counter[str] = Counter()

    def __setitem__(self, label: str, total: int) -> None:
        """See Counter; a read that finds nothing is one unit too."""
        self.units[label] += max(1, -(-(total - self[label]) // self.unit_bytes))
        super().__setitem__(label, total)


class BillingMeter(Meter):
    """A meter of capacity units. Reads of tables are consistent (1 unit), reads of indexes are not (0.5)."""

    def __init__(self) -> None:
        """Begin at zero."""
        super().__init__()
        self.written = UnitCounter(WRITE_UNIT_BYTES)
        self.read = UnitCounter(READ_UNIT_BYTES)
        self.bytes_written = self.written
        self.bytes_read = self.read

    def units(self, kind: str) -> Decimal:
        """Return the request units so far, indexes included; ``kind`` is "read" or "write"."""
        if kind == "write":
            return Decimal(sum(self.written.units.values()))
        halves = sum(number * (1 if "/" in label else 2) for label, number in self.read.units.items())
        return Decimal(halves) / 2


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

    def month(self, fixed: Mapping[str, int]) -> dict[str, Decimal]:
        """Return the quantities of ``PRICES`` for a month; ``fixed`` are those that the modules make."""
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


def count_day(licenses: int) -> Operations:
    """Play a day with ``licenses`` licences, one dimension each, and return what it did.

    Raises RuntimeError when the day did not bill what it should have: its counts would be worth nothing.
    """
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
    tally = _Tally(world)
    _play(world, buyers, START, START + WARM_UP)
    before = tally.read()
    honoured = len(world.marketplace.honoured())
    _play(world, buyers, START + WARM_UP, START + WARM_UP + DAY)
    billed = len(world.marketplace.honoured()) - honoured
    if billed != licenses * 24:
        raise RuntimeError(
            f"a day of {licenses} licences has {licenses * 24} hours of usage; {billed} were billed"
        )
    return _difference(before, tally.read(), groups=billed)


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
        kind = _SINGLE_ITEM_CALLS.get(call.operation)
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
        emitted = sum(
            number * (1 if reason is None else 2) for (_, reason), number in recorder.metrics.items()
        )
        lines = sum(
            len(message) + len(json.dumps(fields, default=str)) + LOG_BYTES_A_LINE
            for _, message, fields in recorder.lines
        )
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
        names = {(metric, None) for metric, _ in recorder.metrics} | set(recorder.metrics)
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
            log_bytes=Decimal(
                lines + emitted * METRIC_LINE_BYTES + sum(world.runs.values()) * LOG_BYTES_A_RUN
            ),
            metrics=Decimal(len(names)),
            stored_bytes=Decimal(sum(items)),
        )


_SINGLE_ITEM_CALLS: Final = {"GetItem": "read", "PutItem": "write", "UpdateItem": "write"}


def _difference(before: Operations, after: Operations, *, groups: int) -> Operations:
    """Return what happened between two readings; which metrics there are is no difference."""

    def combine(first: Operations, second: Operations, name: str) -> Any:
        early, late = getattr(first, name), getattr(second, name)
        if isinstance(late, Mapping):
            return {key: late[key] - early.get(key, Decimal(0)) for key in late}
        return late - early

    values = {field.name: combine(before, after, field.name) for field in fields(Operations)}
    return Operations(**{**values, "groups": Decimal(groups), "metrics": after.metrics})


def extrapolate(low: Operations, high: Operations, licenses: int, *, played: tuple[int, int]) -> Operations:
    """Return the day of ``licenses`` licences on the line through two played days of ``played`` licences."""
    factor = Decimal(licenses - played[0]) / (played[1] - played[0])

    def line(first: Any, second: Any) -> Any:
        if isinstance(second, Mapping):
            return {key: line(first.get(key, Decimal(0)), second[key]) for key in second}
        return first + (second - first) * factor

    return Operations(
        **{f.name: line(getattr(low, f.name), getattr(high, f.name)) for f in fields(Operations)}
    )


def made_by_modules(root: Path = REPOSITORY) -> dict[str, int]:
    """Return how many alarms and dashboards the events and metering modules make."""
    made = {"alarms": 0, "dashboards": 0}
    for module in ("events", "metering"):
        for path in sorted((root / "modules" / module).glob("*.tf")):
            with path.open(encoding="utf-8") as file:
                content = hcl2.load(file)
            for block in content.get("locals", []):
                made["alarms"] += len(block.get("alarm_keys", []))
            made["dashboards"] += sum('"create_dashboard"' in block for block in content.get("variable", []))
    return made


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


def prices_section() -> str:
    """Return the table of prices."""
    rows = [
        [
            price.what,
            f"${price.dollars}",
            f"{price.per:,} {price.unit if price.per > 1 else price.unit.removesuffix('s')}",
        ]
        for price in PRICES.values()
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


def months_shown() -> dict[int, dict[str, Decimal]]:
    """Play what has to be played and return the months of the document, by licences."""
    days = {licenses: count_day(licenses) for licenses in PLAYED}
    low, high = PLAYED[-2:]
    fixed = made_by_modules()
    return {
        licenses: month_of(
            days.get(licenses) or extrapolate(days[low], days[high], licenses, played=(low, high)), fixed
        )
        for licenses in SHOWN
    }


def render(text: str, months: Mapping[int, Mapping[str, Decimal]]) -> str:
    """Return the document with its tables renewed; raises DocsError where a marker is missing."""
    sections = (
        ("operations", operations_section(months)),
        ("prices", prices_section()),
        ("bill", bill_section(months)),
    )
    for name, body in sections:
        text = replace_section(text, name, body)
    return text


def _licenses(number: int) -> str:
    return f"{number:,} licence{'' if number == 1 else 's'}"


def _number(value: Decimal) -> str:
    """Return a number to about four digits: no decimals from a hundred on, more below."""
    if value >= 100 or value == value.to_integral_value():
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}"


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
