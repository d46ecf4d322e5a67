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

from sandbox import costs, notifications_tier, tables
from sandbox.billing_meter import BillingMeter
from sandbox.costs import (
    DOCUMENT,
    MEMORY_MIB,
    NOTIFICATION_PRICES,
    PRICES,
    REGISTRATION_PRICES,
    SHOWN,
    Notifications,
    Operations,
    bill_section,
    count_day,
    count_hour,
    count_notifications,
    count_registration,
    dollars,
    made_by_modules,
    made_by_notifications,
    made_by_registration,
    month_of,
    months_shown,
    notification_sections,
    notifications_month,
    operations_section,
    prices_section,
    registration_sections,
)
from sandbox.memory_aws.clock import ManualClock
from sandbox.memory_aws.dynamodb import MemoryDynamoDB
from sandbox.notifications_tier import MAILS_OF_A_LIFE
from tests.unit.notifications.world import notifications_table

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


@pytest.mark.parametrize(("transactions", "units"), [(False, 3), (True, 5)])
def test_the_in_memory_tables_charge_an_item_twice_in_a_transaction_and_its_index_entry_once(
    *, transactions: bool, units: int
) -> None:
    backend = MemoryDynamoDB(ManualClock())
    client = backend.client(meter=(meter := BillingMeter(transactions=transactions)))
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

    item = {"key": {"S": "a"}, "pending": {"S": "x"}, "more": {"S": "y" * 2000}}
    if transactions:
        client.transact_write_items(TransactItems=[{"Put": {"TableName": "rows", "Item": item}}])
    else:
        client.put_item(TableName="rows", Item=item)

    # The item takes two kibibytes, its entry in the index one.
    assert meter.units("write") == units


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
    forwarding = (ROOT / "modules/events/forwarding.tf").read_text()
    assert 'lookup(var.lambda.memory_mib, "subscriber-forwarder", 256)' in forwarding
    notifications = (ROOT / "modules/notifications/main.tf").read_text()
    assert "lookup(var.lambda.memory_mib, each.key, 256)" in notifications
    assert {MEMORY_MIB[name] for name in MEMORY_MIB if name.startswith("notification-")} == {256}


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


# --- Notifications ------------------------------------------------------------------------------------------


@cache
def counted() -> Notifications:
    return count_notifications()


def test_a_licences_life_is_made_of_its_mails_and_of_the_changes_that_lead_to_them() -> None:
    life = counted().life

    # The row: bought, registered, set to end, deprovisioned, ended, finalised. The last concerns no notice.
    row_changes, billing_events = 6, 2
    # The profile: registered, a link offered, the address verified, which is the one that is told.
    profile_changes, verified = 3, 1
    taken_in = row_changes - 1 + verified + billing_events
    pages = 2
    assert life["mails"] == len(MAILS_OF_A_LIFE) == 6
    assert life["bus_events"] == row_changes - 1 + verified
    # Sent, received, deleted.
    assert life["queue_requests"] == 3 * taken_in
    assert life["api_requests"] == life["inspected"] == pages
    # The page's button is checked with the keys; opening it is not.
    assert life["secret_calls"] == 1
    assert life["runs"] == row_changes + profile_changes + taken_in + pages
    # A mail's entry and delivery: queued, claimed, resolved, begun, sent, ended; all in transactions.
    assert life["write_units"] > 20 * life["mails"]


def test_an_idle_hour_is_what_the_schedules_ask_for() -> None:
    hour = counted().idle_hour
    minutes, fives = 60, 12

    assert hour["runs"] == minutes + fives
    # What is due; what is stale, to be tried again or to be purged; and templates, read again like the keys.
    assert hour["read_units"] == Decimal(minutes) / 2 + Decimal(3 * fives) / 2 + fives
    assert hour["secret_calls"] == fives
    asked = {"runs", "read_units", "secret_calls", "gb_seconds", "log_gb"}
    assert {name for name, number in hour.items() if number} == asked
    assert counted().secrets == 2
    assert counted().idle_metrics == 1


def test_one_licences_life_costs_what_each_of_several_costs() -> None:
    one, several = count_notifications(1), counted()

    assert (one.life, one.idle_hour, one.metrics) == (several.life, several.idle_hour, several.metrics)


def test_the_table_that_is_counted_is_the_one_that_the_store_is_tested_with() -> None:
    def attributes(request: dict[str, Any]) -> dict[str, Any]:
        defined = sorted(each["AttributeName"] for each in request["AttributeDefinitions"])
        return {**request, "AttributeDefinitions": defined}

    assert attributes(tables.notifications_table("any")) == attributes(notifications_table("any"))


def test_a_life_in_which_a_buyer_is_told_something_else_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications_tier, "MAILS_OF_A_LIFE", MAILS_OF_A_LIFE[:-1])

    with pytest.raises(RuntimeError, match="subscription_canceled"):
        count_notifications(1)


def test_the_items_that_a_transaction_only_checks_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications_tier.NotificationsTier, "_check", lambda *_: None)

    # One for each mail: its delivery is begun while its entry is the run's own.
    assert counted().life["write_units"] - count_notifications(1).life["write_units"] == 2 * len(
        MAILS_OF_A_LIFE
    )


def test_a_month_of_notifications_is_its_hours_its_lives_and_the_polls_of_its_queues() -> None:
    made = {"alarms": 3, "dashboards": 1, "keys": 1, "polled_queues": 2}
    hours, licenses = 24 * 30, 7

    month, idle = (notifications_month(counted(), number, made) for number in (licenses, 0))

    life, hour = counted().life, counted().idle_hour
    for name in life.keys() - {"stored_gb", "queue_requests"}:
        assert month[name] == hours * hour[name] + licenses * life[name], name
        assert idle[name] == hours * hour[name], name
    assert idle["queue_requests"] == 2 * 15 * 60 * hours
    assert month["queue_requests"] - idle["queue_requests"] == licenses * life["queue_requests"]
    assert month["stored_gb"] == 12 * licenses * life["stored_gb"]
    assert [month[name] for name in ("alarms", "dashboards", "keys", "secrets")] == [3, 1, 1, 2]
    assert [idle["metrics"], month["metrics"]] == [1, counted().metrics]


def test_the_document_shows_what_notifications_do_and_cost() -> None:
    """After a change of the notifications tier: ``python -m sandbox.costs write``."""
    text = DOCUMENT.read_text(encoding="utf-8")

    for name, section in notification_sections().items():
        assert table(text, name) == shown(section), name


def test_the_document_lists_as_many_mails_as_are_counted() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    listed = (
        text.partition("| what happens | what the buyer gets |\n")[2].partition("\n\n")[0].splitlines()[1:]
    )

    assert len(listed) == len(MAILS_OF_A_LIFE)
    assert "**six mails a licence and month**" in text
    for place, licenses in enumerate((0, *SHOWN), start=2):
        mails = column("notification operations", place)["SES mails"]
        assert number(mails) == len(MAILS_OF_A_LIFE) * licenses


def test_the_bill_of_notifications_follows_from_their_operations() -> None:
    prices = {
        price.what: price
        for price in [*PRICES.values(), *REGISTRATION_PRICES.values(), *NOTIFICATION_PRICES.values()]
    }
    for place, licenses in enumerate((0, *SHOWN), start=1):
        asked = column("notification operations", place + 1)
        bill = column("notification bill", place)
        # The first row is the heading, and the last two tell what of the sum a life and a mail are.
        lines = list(bill)[1:-3]
        assert set(lines) == set(list(asked)[1:])
        for label in lines:
            price = prices[label]
            expected = number(asked[label]) * price.dollars / price.per
            assert abs(number(bill[label]) - expected) <= Decimal("0.01"), (place, label)
        assert abs(number(bill["**Sum**"]) - sum(number(bill[label]) for label in lines)) < Decimal("0.08")
        if licenses:
            life, mail = number(bill["of it for each licence's life"]), number(bill["of it for each mail"])
            assert abs(life - mail * len(MAILS_OF_A_LIFE)) < Decimal("0.00001")
            # What is sent is mostly SES's own price.
            assert life / 2 < len(MAILS_OF_A_LIFE) * NOTIFICATION_PRICES["mails"].dollars / 1000 < life


def test_what_notifications_make_is_counted_in_their_module_and_in_those_that_serve_them() -> None:
    made = made_by_notifications()
    served = {
        module: re.findall(
            rf'^    "((?:{"|".join(costs.SWITCHED_OFF)})[a-z-]+)",$',
            (ROOT / "modules" / module / "alarms.tf").read_text(),
            re.M,
        )
        for module in ("events", "registration")
    }

    assert all(served.values())
    own = made_by_modules(["notifications"])
    assert own["alarms"] >= 20
    assert made["alarms"] == own["alarms"] + sum(map(len, served.values()))
    assert (made["dashboards"], made["keys"], made["polled_queues"]) == (1, 1, 2)


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
