"""The cost document says what is counted, at the prices of its own table."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import hcl2
import pytest

from sandbox import costs
from sandbox.costs import (
    DOCUMENT,
    MEMORY_MIB,
    PRICES,
    REGISTRATION_PRICES,
    SHOWN,
    BillingMeter,
    Operations,
    bill_section,
    count_day,
    count_hour,
    count_registration,
    dollars,
    made_by_modules,
    made_by_registration,
    month_of,
    months_shown,
    operations_section,
    prices_section,
    registration_sections,
)
from sandbox.memory_aws.clock import ManualClock
from sandbox.memory_aws.dynamodb import MemoryDynamoDB

ROOT = Path(__file__).parents[2]

# On one worker, so that an hour is played once.
pytestmark = pytest.mark.xdist_group("costs")


@cache
def month(licenses: int) -> dict[str, Decimal]:
    """Play an hour of so many licences and return their month."""
    return months_shown([licenses])[licenses]


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


def shown(section: str) -> list[list[str]]:
    """Return the rows of a table that has just been made."""
    return table(f"<!-- generated: x -->\n{section}\n<!-- end of generated: x -->", "x")


def column(section: str, number: int) -> dict[str, str]:
    """Return one column of a table of the document, by row."""
    return {row[0]: row[number] for row in table(DOCUMENT.read_text(encoding="utf-8"), section)}


@pytest.mark.slow
@pytest.mark.parametrize("licenses", [1, 100], ids="{} licences".format)
def test_the_document_shows_what_an_hour_of_so_many_licences_does(licenses: int) -> None:
    """After a change of the pipeline, the metrics or the alarms: ``python -m sandbox.costs write``."""
    months = {licenses: month(licenses)}

    number = 1 + SHOWN.index(licenses)
    assert column("operations", number) == {row[0]: row[1] for row in shown(operations_section(months))}
    assert column("bill", number) == {row[0]: row[1] for row in shown(bill_section(months))}


@pytest.mark.slow
def test_ten_thousand_licences_are_on_the_line_through_fewer() -> None:
    """What only ``sandbox.costs check`` plays cannot become stale unseen: every figure grows evenly."""
    # Whole requests of 25 records.
    few, more = 50, 100
    columns = {
        licenses: {row[0]: number(row[1]) for row in shown(operations_section({1: month(licenses)}))[1:]}
        for licenses in (few, more)
    }

    for label, played in columns[more].items():
        slope = (played - columns[few][label]) / (more - few)
        expected = played + slope * (10_000 - more)
        told = number(column("operations", 3)[label])
        assert abs(told - expected) <= Decimal("0.06") * expected, label


@pytest.mark.slow
def test_a_day_is_twenty_four_times_the_hour_that_is_played(smallest: Operations) -> None:
    assert count_hour(1).times(24) == smallest


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


def test_so_many_hours_are_so_many_times_as_much_of_all_but_the_number_of_metrics() -> None:
    hour = day(rows=Decimal(12), runs={"aggregator": Decimal(1)}, metrics=Decimal(9))

    assert hour.times(24) == replace(
        hour, rows=Decimal(288), runs={"aggregator": Decimal(24)}, metrics=Decimal(9)
    )


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

    registration = (ROOT / "modules/registration/main.tf").read_text()
    assert "lookup(var.lambda.memory_mib, each.key, 512)" in registration
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


# --- Registration -------------------------------------------------------------------------------------------


def test_a_registration_is_made_of_what_a_browser_asks_for_and_of_two_rows() -> None:
    one = count_registration()

    # The token, the page, its style, its script, the form.
    assert one["api_requests"] == one["inspected"] == one["runs"] == 5
    # The profile; the subscriber's row and its entry in the index of accounts.
    assert one["write_units"] == 3
    # The row that is not there yet, and the index that would know it under another text.
    assert one["read_units"] == Decimal("1.5")
    assert one == count_registration(1)


def test_the_document_shows_what_registrations_do_and_cost() -> None:
    """After a change of the registration tier: ``python -m sandbox.costs write``."""
    text = DOCUMENT.read_text(encoding="utf-8")

    for name, section in registration_sections().items():
        assert table(text, name) == shown(section), name


def test_the_bill_of_registrations_follows_from_their_operations() -> None:
    prices = {price.what: price for price in [*PRICES.values(), *REGISTRATION_PRICES.values()]}
    columns = len(SHOWN)
    for place in range(1, columns + 1):
        asked = column("registration operations", place + 1)
        bill = column("registration bill", place)
        # The first row is the heading, and the last tells what of the sum a single registration is.
        lines = list(bill)[1:-2]
        for label in lines:
            price = prices[label]
            expected = number(asked[label]) * price.dollars / price.per
            assert abs(number(bill[label]) - expected) <= Decimal("0.01"), (place, label)
        assert abs(number(bill["**Sum**"]) - sum(number(bill[label]) for label in lines)) < Decimal("0.05")


def test_what_the_registration_module_makes_is_counted_in_it() -> None:
    made = made_by_registration()

    assert (made["web_acls"], made["rules"]) == (1, 4)
    assert made["alarms"] >= 8
    assert made["dashboards"] == 1


# --- The command --------------------------------------------------------------------------------------------


def test_the_command_renews_a_document_that_is_out_of_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "costs.md"
    copy.write_text(DOCUMENT.read_text(encoding="utf-8"), encoding="utf-8")
    month = month_of(day(rows=Decimal(5)), {"alarms": 1, "dashboards": 0})
    monkeypatch.setattr(costs, "DOCUMENT", copy)
    monkeypatch.setattr(costs, "months_shown", lambda: dict.fromkeys(SHOWN, month))

    assert costs.main(["check"]) == 1
    assert "python -m sandbox.costs write" in capsys.readouterr().out
    assert costs.main(["write"]) == 0
    assert costs.main(["check"]) == 0
    rows = {row[0]: row[1:-1] for row in table(copy.read_text(encoding="utf-8"), "operations")}
    assert rows["Usage rows written by the product"] == ["150", "150", "150"]
