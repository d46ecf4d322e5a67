"""The cost document says what is counted, at the prices of its own table."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import hcl2
import pytest

from sandbox.costs import (
    DOCUMENT,
    MEMORY_MIB,
    PRICES,
    SHOWN,
    BillingMeter,
    Operations,
    bill_section,
    count_day,
    dollars,
    extrapolate,
    made_by_modules,
    month_of,
    operations_section,
    prices_section,
)
from sandbox.memory_aws.clock import ManualClock
from sandbox.memory_aws.dynamodb import MemoryDynamoDB

ROOT = Path(__file__).parents[2]


def table(text: str, name: str) -> list[list[str]]:
    """Return the rows of a generated table, heading first."""
    found = re.search(rf"<!-- generated: {name} -->(.*?)<!-- end of generated: {name} -->", text, re.S)
    assert found is not None
    lines = [line for line in found[1].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


def day(**changes: Any) -> Operations:
    functions = {name: Decimal(0) for name in MEMORY_MIB}
    zero = Decimal(0)
    nothing = Operations(zero, zero, functions, functions, *[zero] * 8)
    return replace(nothing, **changes)


@pytest.fixture(scope="module")
def smallest() -> Operations:
    return count_day(1)


@pytest.mark.slow
def test_the_document_shows_what_a_day_of_one_licence_does(smallest: Operations) -> None:
    """After a change of the pipeline, the metrics or the alarms: ``python -m sandbox.costs write``."""
    month = month_of(smallest, made_by_modules())
    text = DOCUMENT.read_text(encoding="utf-8")

    shown = [[row[0], row[1], row[-1]] for row in table(text, "operations")]
    counted = table(
        f"<!-- generated: x -->\n{operations_section({1: month})}\n<!-- end of generated: x -->", "x"
    )
    assert shown == counted
    bill = table(f"<!-- generated: x -->\n{bill_section({1: month})}\n<!-- end of generated: x -->", "x")
    assert [row[:2] for row in table(text, "bill")] == bill


@pytest.mark.slow
def test_a_day_of_one_licence_is_made_of_what_the_schedules_and_its_rows_ask_for(
    smallest: Operations,
) -> None:
    quarters, fives, minutes = 24 * 4, 24 * 12, 24 * 60

    assert smallest.groups == 24
    assert smallest.rows == 24 * 12
    # A row is written and indexed.
    assert smallest.writer_units == 2 * smallest.rows
    assert smallest.runs == {
        "discoverer": 30 * quarters + minutes,
        "submitter": fives + minutes,
        "expiry": fives,
        "deprovision_cleanup": quarters,
        "subscription": 0,
        "aggregator": 24,
        "cleanup": 24,
    }
    assert smallest.metering_calls == 24
    # Each row is cleared and taken out of the index; each record is created, sent, answered.
    assert smallest.write_units > 2 * smallest.rows + 3 * smallest.groups


def test_the_bill_of_every_column_follows_from_its_operations() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    by_label = {row[0]: row[1:-1] for row in table(text, "operations")[1:]}
    bill = {row[0]: row[1:] for row in table(text, "bill")[1:]}

    for column, licenses in enumerate(SHOWN):
        total = Decimal(0)
        for name, price in PRICES.items():
            if not price.dollars:
                continue
            quantity = (
                number(by_label["DynamoDB on-demand write, by the product"][column])
                + number(by_label["DynamoDB on-demand write, by these modules"][column])
                if name == "write_units"
                else number(by_label[price.what][column])
            )
            expected = quantity * price.dollars / price.per
            charged = number(bill[price.what][column])
            # Operations and dollars are shown rounded.
            assert abs(charged - expected) <= Decimal("0.01") + expected / 100, (licenses, name)
            total += charged
        assert abs(number(bill["**Sum**"][column]) - total) < Decimal("0.1"), licenses


def number(cell: str) -> Decimal:
    return Decimal(cell.strip("*$").replace(",", ""))


def test_the_document_shows_the_prices_that_it_is_computed_with() -> None:
    assert prices_section() in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize(("size", "units"), [(1, 1), (1023, 1), (1024, 1), (1025, 2), (4096, 4), (4097, 5)])
def test_every_item_written_is_rounded_up_to_whole_write_units(size: int, units: int) -> None:
    meter = BillingMeter()

    meter.bytes_written["table"] += size
    meter.bytes_written["table"] += size

    assert meter.units("write") == 2 * units
    assert meter.bytes_written["table"] == 2 * size


@pytest.mark.parametrize(
    ("label", "size", "units"),
    [
        ("table", 0, "1"),
        ("table", 4096, "1"),
        ("table", 4097, "2"),
        ("table/index", 0, "0.5"),
        ("table/index", 4096, "0.5"),
        ("table/index", 4097, "1"),
    ],
)
def test_a_page_read_is_rounded_up_and_an_index_costs_half(label: str, size: int, units: str) -> None:
    meter = BillingMeter()

    meter.bytes_read[label] += size

    assert meter.units("read") == Decimal(units)


def test_the_in_memory_tables_charge_an_item_and_its_index_entry() -> None:
    backend = MemoryDynamoDB(ManualClock())
    client = backend.client(meter=(meter := BillingMeter()))
    client.create_table(
        TableName="rows",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": "key", "AttributeType": "S"},
            {"AttributeName": "pending", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "pending",
                "KeySchema": [{"AttributeName": "pending", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )

    client.put_item(
        TableName="rows", Item={"key": {"S": "a"}, "pending": {"S": "x"}, "more": {"S": "y" * 2000}}
    )

    # The item takes two kibibytes, its entry in the index one.
    assert meter.units("write") == 3


def test_more_licences_lie_on_the_line_through_two_played_days() -> None:
    low = day(rows=Decimal(60), runs={"aggregator": Decimal(10)}, metrics=Decimal(12))
    high = day(rows=Decimal(110), runs={"aggregator": Decimal(20)}, metrics=Decimal(12))

    far = extrapolate(low, high, 1000, played=(50, 100))

    assert far == replace(far, rows=Decimal(1010), runs={"aggregator": Decimal(200)}, metrics=Decimal(12))
    assert extrapolate(low, high, 50, played=(50, 100)).rows == low.rows
    assert extrapolate(low, high, 100, played=(50, 100)).rows == high.rows


def test_a_month_is_thirty_days_and_idle_polls_are_paid_for() -> None:
    month = day(write_units=Decimal(1_000_000), read_units=Decimal(2_000_000)).month({"alarms": 10})

    assert month["write_units"] == 30_000_000
    assert month["queue_requests"] == 4 * 15 * 60 * 24 * 30
    assert dollars({**dict.fromkeys(PRICES, Decimal(0)), **month})["read_units"] == Decimal("7.5")
    assert dollars({**dict.fromkeys(PRICES, Decimal(0)), **month})["alarms"] == 1


def test_memory_is_what_the_modules_set() -> None:
    with (ROOT / "modules/metering/functions.tf").open() as file:
        blocks = hcl2.load(file)["locals"]
    memory = next(block["memory_mib"] for block in blocks if "memory_mib" in block)

    assert {name: value for name, value in memory.items() if not name.startswith("__")} == {
        name: value for name, value in MEMORY_MIB.items() if name in memory
    }
    events = (ROOT / "modules/events/main.tf").read_text()
    assert "lookup(var.lambda.memory_mib, each.key, 256)" in events


def test_alarms_and_dashboards_are_counted_in_the_modules() -> None:
    made = made_by_modules()

    for module in ("events", "metering"):
        text = (ROOT / "modules" / module / "alarms.tf").read_text()
        assert re.search(r"^  alarm_keys = \[", text, re.M), module
    assert made["alarms"] >= 10
    assert 0 <= made["dashboards"] <= 2
