"""The discoverer: what it looks at, at what cost, and what it enqueues."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from awsmp.domain.errors import Misconfigured, PartialFailure
from awsmp.domain.hours import HOUR, BillingWindow, bucket_of, floor_hour
from awsmp.domain.identifiers import Group
from awsmp.domain.ports import Metric
from awsmp.domain.reasons import MeteringStatus
from awsmp.handlers import discoverer
from tests.unit.metering_world import (
    BUYER,
    CALLS,
    LAST_HOUR,
    LICENSE,
    NOW,
    MeteringWorld,
    amounts,
    fail_calls,
    group,
    license_arn,
)

SLASH = "arn:aws:license-manager:us-east-1:111122223333:license/L-0A1B2C3D"


def enqueued(world: MeteringWorld, queue: str = "work") -> list[tuple[str, str, str, str]]:
    bodies = [body["group"] for body in world.bodies(queue) if "group" in body]
    return [(b["licenseArn"], b["customerAWSAccountId"], b["dimension"], b["hour"]) for b in bodies]


def key_of(target: Group) -> tuple[str, str, str, str]:
    return (target.license_arn, target.customer_account, target.dimension, target.bucket)


# --- which hours -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "lock", "window", "processed"),
    [
        pytest.param(1, 1, 24, True, id="the youngest complete hour, with the default lock"),
        pytest.param(1, 2, 24, False, id="below the lock"),
        pytest.param(2, 2, 24, True, id="at the lock"),
        pytest.param(23, 1, 24, True, id="the oldest hour of the window"),
        pytest.param(24, 1, 24, False, id="twenty minutes past the window"),
        pytest.param(6, 1, 6, False, id="outside a shorter window"),
        pytest.param(5, 1, 6, True, id="inside a shorter window"),
        pytest.param(0, 1, 24, False, id="the hour that is running"),
    ],
)
def test_meter_processes_only_hours_that_are_unlocked_and_billable(
    offset: int, lock: int, window: int, processed: bool
) -> None:
    world = MeteringWorld(window=BillingWindow(billable_hours=window, lock_hours=lock))
    world.write(7, hour=floor_hour(NOW) - offset * HOUR)
    assert world.discover(offset) == int(processed)
    if not processed:
        assert world.meter.requests.total() == 0


@pytest.mark.parametrize(
    ("now", "offset", "processed"),
    [
        pytest.param(datetime(2026, 12, 1, 2, 59, tzinfo=UTC), 3, False, id="02:59: the lock still holds"),
        pytest.param(datetime(2026, 12, 1, 3, 0, tzinfo=UTC), 4, True, id="03:00: no lock any more"),
        pytest.param(datetime(2026, 12, 1, 5, 59, tzinfo=UTC), 6, True, id="05:59: last minute"),
        pytest.param(datetime(2026, 12, 1, 6, 0, tzinfo=UTC), 7, False, id="06:00: the month is closed"),
        pytest.param(datetime(2026, 12, 1, 5, 59, tzinfo=UTC), 5, False, id="this month's hour: locked"),
    ],
)
def test_previous_month_hours_lose_their_lock_at_three_and_close_at_six(
    now: datetime, offset: int, processed: bool
) -> None:
    world = MeteringWorld(now=now, window=BillingWindow(lock_hours=8 if offset == 5 else 4))
    world.write(7, hour=floor_hour(now) - offset * HOUR)
    assert world.discover(offset) == int(processed)


@pytest.mark.parametrize(
    "event", [{}, {"mode": "meter"}, {"mode": "meter", "hourOffset": "1"}, {"mode": "x"}]
)
def test_an_input_that_names_no_mode_fails_loudly(event: dict[str, Any]) -> None:
    world = MeteringWorld()
    with pytest.raises(Misconfigured):
        discoverer.run(event, world.context(), world.runtime)


# --- messages ----------------------------------------------------------------------------------------


def test_each_group_of_the_hour_becomes_one_message() -> None:
    world = MeteringWorld()
    expected = set()
    for arn in (LICENSE, license_arn(1), license_arn(2)):
        for dimension in ("api-calls", "seats"):
            for second in range(40):
                world.write(1, arn=arn, dimension=dimension, second=second)
            expected.add(key_of(group(arn, dimension=dimension)))
    world.write(1, hour=LAST_HOUR - HOUR)
    assert world.discover() == 6
    assert sorted(enqueued(world)) == sorted(expected)
    assert world.telemetry.total(Metric.GROUPS_DISCOVERED) == 6


def test_processed_rows_are_not_discovered_again() -> None:
    world = MeteringWorld()
    for second in range(60):
        world.write(1, second=second)
    world.fold()
    assert world.discover() == 0


UNCLAIMABLE: list[tuple[str, dict[str, object]]] = [
    ("MissingDimension", {"dimension": None, "sort_key": f"{BUYER}##{bucket_of(LAST_HOUR)}:00:01"}),
    ("MalformedSortKey", {"sort_key": "garbage"}),
    ("SortKeyMismatch", {"sort_key": f"999999999999#{CALLS}#{bucket_of(LAST_HOUR)}:00:01"}),
    ("SortKeyMismatch", {"customerAWSAccountId": None}),
    ("PendingBucketMismatch", {"meteringPending": bucket_of(LAST_HOUR), "hour": LAST_HOUR - HOUR}),
]


@pytest.mark.parametrize(
    ("reason", "changes"), UNCLAIMABLE, ids=[f"{n}-{c[0]}" for n, c in enumerate(UNCLAIMABLE)]
)
def test_a_row_that_no_group_can_claim_is_a_message_of_its_own_and_is_rejected_by_name(
    reason: str, changes: dict[str, Any]
) -> None:
    world = MeteringWorld()
    world.write(4)
    bad = world.write(9, **{"second": 1, **changes})
    assert world.discover() == 2
    assert enqueued(world) == [key_of(group())]
    assert [body["row"] for body in world.bodies("work") if "row" in body] == [
        {"licenseArn": LICENSE, "sortKey": bad}
    ]
    world.aggregate()
    row = world.row(bad)
    assert row.pending_bucket is None
    assert row.attributes["meteringStatus"] == "RejectedClientSide"
    assert str(row.attributes["meteringStatusReason"]).startswith(reason)
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED, reason) == 1
    assert world.telemetry.total(Metric.SURFACED_UNITS, reason) == 9
    assert world.record(group()).total == 4
    assert world.discover() == 1, "only the good row, whose cleanup message is still in its queue"


def test_a_rejected_row_that_was_repaired_before_its_message_came_is_left_alone() -> None:
    world = MeteringWorld()
    changes: dict[str, Any] = {"dimension": None, "sort_key": f"{group().row_prefix}:00:01"}
    bad = world.write(9, **changes)
    world.discover()
    world.write(9, second=1)
    world.aggregate()
    assert world.row(bad).pending_bucket == bucket_of(LAST_HOUR)
    assert world.telemetry.total(Metric.USAGE_RECORD_REJECTED) == 0


# --- cost --------------------------------------------------------------------------------------------

#: A hundred groups, and how many rows each has: what a row costs would show with ten minutes of them too.
ONE_HUNDRED: dict[str, tuple[list[Group], int]] = {
    "a hundred licences": ([group(license_arn(n)) for n in range(100)], 3600),
    "one licence, a hundred dimensions": ([group(dimension=f"dimension-{n:03d}") for n in range(100)], 600),
    "dimensions with # in their names": (
        [group(dimension=name) for n in range(50) for name in (f"d{n:02d}", f"d{n:02d}#sub#{n}")],
        600,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "rows"), ONE_HUNDRED.values(), ids=ONE_HUNDRED.keys())
def test_discovery_costs_by_groups_not_by_rows(groups: list[Group], rows: int) -> None:
    world = MeteringWorld()
    for each in groups:
        world.write_every_second(each, seconds=rows)
    assert world.discover() == 100
    assert sorted(enqueued(world)) == sorted(map(key_of, groups))
    evaluated = world.meter.items_evaluated.total()
    # 25 entries are looked at before each leap, and one row each to find the next pair.
    assert evaluated <= 30 * 100, f"{evaluated} items evaluated for 100 groups of {rows} rows"


def test_discovery_of_other_hours_rows_costs_nothing_per_row() -> None:
    world = MeteringWorld()
    for back in range(1, 5):
        for second in range(100):
            world.write(1, hour=LAST_HOUR - back * HOUR, second=second)
    for second in range(30):
        world.write(1, second=second)
    assert world.discover() == 1
    assert world.meter.items_evaluated.total() <= 60


def hidden_behind_a_leap(world: MeteringWorld, hour: datetime) -> Group:
    """A dimension that begins like another one followed by # and a year sorts among its timestamps."""
    for second in range(30):
        world.write(1, dimension="api", hour=hour, second=second)
    world.write(5, dimension="api#2026-q", hour=hour)
    return group(dimension="api#2026-q", hour=hour)


def test_a_dimension_hidden_behind_a_leap_is_found_in_the_hours_last_processed_hour() -> None:
    world = MeteringWorld()
    hour = floor_hour(NOW) - 23 * HOUR
    hidden = hidden_behind_a_leap(world, hour)
    assert world.discover(23) == 2
    assert key_of(hidden) in enqueued(world)


def test_a_dimension_hidden_behind_a_leap_is_found_once_its_neighbour_is_cleaned_up() -> None:
    world = MeteringWorld(dimensions=("api", "api#2026-q"))
    hidden = hidden_behind_a_leap(world, LAST_HOUR)
    world.fold()
    world.fold()
    assert world.record(hidden).total == 5


def test_rows_with_malformed_keys_never_hide_the_groups_among_them() -> None:
    world = MeteringWorld()
    for number in range(120):
        world.write(1, second=number, sort_key=f"0-broken-{number:03d}")
    for second in range(30):
        world.write(1, dimension="seats", second=second)
    assert world.discover() == 121
    assert enqueued(world) == [key_of(group(dimension="seats"))]


def test_a_malformed_row_among_a_busy_groups_rows_is_rejected_once_these_are_cleaned_up() -> None:
    world = MeteringWorld()
    for second in range(300):
        world.write(1, second=second)
    broken = world.write(9, sort_key="broken-key")
    world.fold()
    world.fold()
    assert world.row(broken).attributes["meteringStatus"] == "RejectedClientSide"
    assert amounts(world.record(group())) == (300, 0, 300, 0)


# --- ageout ------------------------------------------------------------------------------------------


def test_ageout_shards_are_disjoint_and_complete_out_to_seven_days_past_the_window() -> None:
    world = MeteringWorld(now=datetime(2026, 11, 20, 12, 20, tzinfo=UTC))
    current = floor_hour(world.clock.now())
    for back in range(1, 24 + 7 * 24 + 2):
        world.write(1, hour=current - back * HOUR)
    owner: dict[int, int] = {}
    for shard in range(7):
        before = {record.group.hour for record in world.records()}
        closed = world.age_out(shard)
        new = {record.group.hour for record in world.records()} - before
        assert len(new) == closed
        owner |= {(current - hour) // HOUR: shard for hour in new}
    assert sorted(owner) == list(range(24, 24 + 7 * 24 + 1))
    assert all(back % 7 == shard for back, shard in owner.items())
    assert {record.status for record in world.records()} == {MeteringStatus.AGGREGATION_EXPIRED}
    assert world.telemetry.total(Metric.USAGE_AGGREGATION_EXPIRED) == len(owner)
    left = {row.pending_bucket for row in world.rows() if row.pending_bucket}
    assert left == {bucket_of(current - back * HOUR) for back in (*range(1, 24), 24 + 7 * 24 + 1)}
    world.assert_balanced(settled=False)


@pytest.mark.parametrize(
    ("now", "hour", "closed"),
    [
        pytest.param(
            datetime(2026, 12, 1, 5, 59, tzinfo=UTC), datetime(2026, 11, 30, 4, tzinfo=UTC), 0, id="05:59"
        ),
        pytest.param(
            datetime(2026, 12, 1, 6, 0, tzinfo=UTC), datetime(2026, 11, 30, 4, tzinfo=UTC), 1, id="06:00"
        ),
        pytest.param(
            datetime(2026, 12, 1, 6, 0, tzinfo=UTC), datetime(2026, 11, 30, 23, tzinfo=UTC), 1, id="young"
        ),
        pytest.param(
            datetime(2026, 12, 1, 5, 59, tzinfo=UTC),
            datetime(2026, 11, 29, 4, tzinfo=UTC),
            1,
            id="two days old",
        ),
    ],
)
def test_previous_month_rows_age_out_at_six_on_the_first(now: datetime, hour: datetime, closed: int) -> None:
    world = MeteringWorld(now=now)
    world.write(3, hour=hour)
    assert sum(world.age_out(shard) for shard in range(7)) == closed


def test_ageout_folds_late_rows_into_a_record_that_was_billed() -> None:
    world = MeteringWorld()
    world.write(10)
    world.fold()
    world.submit()
    world.write(4, second=9)
    world.clock.advance(timedelta(hours=24))
    assert sum(world.age_out(shard) for shard in range(7)) == 1
    record = world.record(group())
    assert amounts(record) == (14, 10, 0, 4)
    assert world.telemetry.total(Metric.SURFACED_UNITS, "LateAfterSubmission") == 4
    world.assert_balanced()


def test_ageout_keeps_the_other_groups_going_and_fails_loudly_at_its_end() -> None:
    world = MeteringWorld()
    hour = LAST_HOUR - 30 * HOUR
    for dimension in ("api-calls", "seats", "storage-gb"):
        world.write(2, dimension=dimension, hour=hour)
    world.put_ledger(
        {
            "licenseArn": LICENSE,
            "customerAWSAccountId#dimension#hour": group(dimension="seats", hour=hour).ledger_sort_key,
        }
    )
    shard = int((floor_hour(NOW) - hour) / HOUR) % 7
    with pytest.raises(PartialFailure):
        world.age_out(shard)
    assert {record.group.dimension for record in world.records()} == {"api-calls", "storage-gb"}
    assert len(world.pending_rows()) == 1


def test_ageout_stops_before_the_function_is_ended_and_the_next_run_goes_on() -> None:
    world = MeteringWorld()
    hour = LAST_HOUR - 30 * HOUR
    for number in range(40):
        world.write(1, dimension=f"d{number}", hour=hour)
    shard = int((floor_hour(NOW) - hour) / HOUR) % 7
    world.hooks.dynamodb_latency = 0.1
    first = world.age_out(shard, seconds=20)
    assert 0 < first < 40
    world.hooks.dynamodb_latency = 0.0
    assert world.age_out(shard) == 40 - first
    world.assert_balanced()


# --- flush-deprovisioning ----------------------------------------------------------------------------


def test_flush_looks_only_at_the_closing_licence_and_bypasses_the_lock() -> None:
    world = MeteringWorld(window=BillingWindow(lock_hours=8))
    other = license_arn(1)
    for back in (1, 5, 23):
        world.write(1, hour=floor_hour(NOW) - back * HOUR)
    for number in range(200):
        world.write(1, arn=other, second=number)
    assert world.discover(1) == 0, "locked"
    world.deprovision()
    world.meter.reset()
    assert world.flush() == 3
    assert {(arn, hour) for arn, _, _, hour in enqueued(world, "deprovision-work")} == {
        (LICENSE, bucket_of(floor_hour(NOW) - back * HOUR)) for back in (1, 5, 23)
    }
    assert world.bodies("work") == []
    assert world.meter.items_evaluated.total() == 3, "nothing of other licences is read"


def test_flush_of_a_busy_licence_costs_by_groups_too() -> None:
    world = MeteringWorld()
    for dimension in ("api-calls", "seats"):
        for second in range(200):
            world.write(1, dimension=dimension, second=second)
    world.deprovision(at=NOW + HOUR)
    assert world.flush() == 2
    assert world.meter.items_evaluated.total() <= 60


def test_flush_of_a_busy_licence_reads_everything_in_its_last_hour() -> None:
    world = MeteringWorld()
    hidden = hidden_behind_a_leap(world, LAST_HOUR)
    world.deprovision()
    assert world.flush() == 2
    assert key_of(hidden) in enqueued(world, "deprovision-work")


def test_flush_reads_nothing_of_the_usage_table_while_no_licence_is_closing() -> None:
    world = MeteringWorld()
    world.write(1)
    assert world.flush() == 0
    assert world.meter.requests.total() == 0
    assert world.subscribers_meter.items_evaluated.total() == 0


def test_flush_finds_usage_under_every_spelling_of_the_licence() -> None:
    world = MeteringWorld()
    world.write(1)
    world.write(2, arn=SLASH)
    world.deprovision(spellings=(LICENSE, SLASH))
    assert world.flush() == 2
    assert {arn for arn, *_ in enqueued(world, "deprovision-work")} == {LICENSE, SLASH}


def test_flush_leaves_other_accounts_rows_of_the_licence_to_the_ordinary_pass() -> None:
    world = MeteringWorld()
    world.write(1)
    world.write(1, account="210987654321")
    world.deprovision()
    assert world.flush() == 1


@pytest.mark.parametrize(
    ("now", "included"),
    [
        pytest.param("12:56:59", False, id="before the lead"),
        pytest.param("12:57:00", True, id="from three minutes before the window closes"),
        pytest.param("12:59:59", True, id="in its last second"),
    ],
)
def test_the_unfinished_hour_is_flushed_only_within_the_lead(now: str, included: bool) -> None:
    instant = datetime.fromisoformat(f"2026-11-10T{now}").replace(tzinfo=UTC)
    world = MeteringWorld(now=instant)
    world.write(6, hour=floor_hour(instant))
    world.deprovision(at=datetime(2026, 11, 10, 12, 0, tzinfo=UTC))
    assert world.flush() == int(included)
    finals = [body["group"].get("finalFlush") for body in world.bodies("deprovision-work")]
    assert finals == [True] * int(included)


def test_the_unfinished_hour_is_left_alone_when_it_ends_before_the_window_closes() -> None:
    world = MeteringWorld(now=datetime(2026, 11, 10, 12, 58, tzinfo=UTC))
    world.write(6, hour=floor_hour(world.clock.now()))
    world.deprovision(at=datetime(2026, 11, 10, 12, 10, tzinfo=UTC))
    assert world.flush() == 0
    world.clock.advance(timedelta(minutes=3))
    assert world.flush() == 1, "as a complete hour now"
    assert "finalFlush" not in world.bodies("deprovision-work")[0]["group"]


def test_what_is_written_after_the_final_flush_is_surfaced_as_such() -> None:
    world = MeteringWorld(now=datetime(2026, 11, 10, 12, 57, tzinfo=UTC))
    current = floor_hour(world.clock.now())
    world.write(6, hour=current)
    world.deprovision(at=datetime(2026, 11, 10, 12, 0, tzinfo=UTC))
    world.flush()
    world.aggregate("deprovision-work")
    world.clean()
    assert world.submit_closing()["billed"] == 1
    world.write(3, hour=current, second=3570)
    world.clock.advance(timedelta(minutes=1))
    world.flush()
    world.aggregate("deprovision-work")
    world.clean()
    record = world.record(group(hour=current))
    assert record.surfaced_by_reason() == {"AfterFinalFlush": 3}
    assert world.telemetry.total(Metric.SURFACED_UNITS, "AfterFinalFlush") == 3
    world.assert_balanced()


@pytest.mark.parametrize("queue", ["work", "deprovision-work"])
def test_a_queue_that_takes_no_messages_fails_the_run(queue: str) -> None:
    world = MeteringWorld()
    world.write(1)
    world.deprovision()
    world.hooks.before_each.append(fail_calls("sqs", "SendMessageBatch", "AccessDenied", times=None))
    with pytest.raises(Misconfigured):
        world.discover() if queue == "work" else world.flush()


def test_one_unreadable_subscriber_row_costs_no_other_licence_its_flush() -> None:
    world = MeteringWorld()
    world.write(1)
    world.deprovision()
    world.put_subscriber(
        license_arn(9),
        deprovisioningPendingFlag="1",
        deprovisioningExpiry="2026-11-10T13:00:00Z",
        subscriptionStatus="what?",
    )
    with contextlib.suppress(PartialFailure):
        world.flush()
    assert enqueued(world, "deprovision-work") == [key_of(group())]
