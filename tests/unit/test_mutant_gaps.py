"""Rules that no other test would miss: each was written because a dangerous flip went unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from awsmp import composition_metering
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.adapters.work_queue import SQSWorkQueue
from awsmp.domain.errors import ConditionFailed, Misconfigured
from awsmp.domain.hours import HOUR, format_instant
from awsmp.domain.ledger import from_item
from awsmp.domain.ports import Metric
from awsmp.usecases.aggregate import aggregate_group
from sandbox.fake_marketplace import Fault, Lost, Moment, RecordEffect
from sandbox.virtual_time import VirtualClock
from tests.unit.metering_world import (
    LAST_HOUR,
    LEDGER,
    LICENSE,
    NOW,
    SUBSCRIBERS,
    USAGE,
    Call,
    Crash,
    MeteringWorld,
    allocation,
    amounts,
    fail_calls,
    group,
    ready_records,
)


def test_every_read_that_decides_about_money_is_consistent() -> None:
    """Index pages cannot be; whatever they lead to is read again from the table itself."""
    world = MeteringWorld()
    seen: set[tuple[str, str]] = set()

    def look(call: Call) -> None:
        request = call.request
        if call.operation == "BatchGetItem":
            for table, wanted in request["RequestItems"].items():
                assert wanted.get("ConsistentRead") is True, table
                seen.add((call.operation, table))
        elif call.operation == "GetItem" or (call.operation == "Query" and "IndexName" not in request):
            assert request.get("ConsistentRead") is True, request["TableName"]
            seen.add((call.operation, request["TableName"]))

    world.hooks.before_each.append(look)
    world.write(3)
    world.fold()
    world.submit()
    world.write(4, second=1)
    world.fold()
    world.clock.advance(25 * HOUR)
    world.expire()
    for shard in range(7):
        world.age_out(shard)
    assert {
        ("GetItem", LEDGER),
        ("Query", USAGE),
        ("BatchGetItem", USAGE),
        ("BatchGetItem", LEDGER),
    } <= seen


def test_a_group_of_many_pages_is_folded_whole() -> None:
    world = MeteringWorld()
    for second in range(4):
        world.write(1, second=second, note="x" * 390_000)
    world.fold()
    assert world.meter.requests["Query"] > 2, "the rows fill more than one page of a megabyte"
    assert amounts(world.record(group())) == (4, 0, 4, 0)
    world.submit()
    world.assert_balanced()


def test_a_fold_reads_the_record_before_the_rows() -> None:
    """Between the two reads another fold commits a late row; the slower one must not take it out again."""
    world = MeteringWorld()
    world.write(1)
    other = world.runtime.aggregation(inline_cleanup=True)
    overtaken = False

    def overtake(call: Call) -> None:
        nonlocal overtaken
        reads = call.operation == "GetItem" or (call.operation == "Query" and "IndexName" not in call.request)
        if overtaken or not reads or call.number == first:
            return
        overtaken = True
        world.write(2, second=1)
        aggregate_group(other, group())

    world.discover()
    first = world.hooks.calls
    world.hooks.before_each.append(overtake)
    world.aggregate()
    assert overtaken
    world.hooks.clear()
    world.clean()
    assert amounts(world.record(group())) == (3, 0, 3, 0)
    world.submit()
    world.assert_balanced()


def test_the_attempt_is_durable_before_anything_is_sent() -> None:
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)
    attempts: list[object] = []

    def look(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            attempts.append(from_item(world.ledger_item(group())).attempt)

    world.hooks.before_each.append(look)
    world.submit()
    assert len(attempts) == 1
    assert attempts[0] is not None


def _late_fold(world: MeteringWorld) -> None:
    world.write(2, second=1)
    world.fold()


def _expire(world: MeteringWorld) -> None:
    world.clock.advance(25 * HOUR)
    world.expire()


def _age_out(world: MeteringWorld) -> None:
    world.write(2, hour=LAST_HOUR - 30 * HOUR)
    for shard in range(7):
        world.age_out(shard)


@pytest.mark.parametrize("surface", [_late_fold, _expire, _age_out], ids=["late fold", "expiry", "age-out"])
def test_what_is_surfaced_is_in_the_metrics_before_it_is_in_the_ledger(
    surface: Callable[[MeteringWorld], None],
) -> None:
    """A crash between the two then repeats an alarm; the other order could lose one."""
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)
    if surface is _late_fold:
        world.submit()

    def die(call: Call) -> None:
        if call.operation in ("PutItem", "UpdateItem") and call.request["TableName"] == LEDGER:
            world.hooks.dead = True
            raise Crash

    world.hooks.before_each.append(die)
    with pytest.raises(Crash):
        surface(world)
    assert world.telemetry.total(Metric.SURFACED_UNITS) > 0


@pytest.fixture
def made_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The configuration of every client that the production runtime makes, by service."""
    made: dict[str, Any] = {}

    def client(service: str, region_name: str | None = None, config: Any = None) -> object:
        made[service] = config
        return object()

    monkeypatch.setattr(boto3, "client", client)
    monkeypatch.setenv("PRODUCT_CODE", "prod0example0code")
    monkeypatch.setenv("METERING_MODE", "live")
    composition_metering.production_runtime.cache_clear()
    composition_metering.production_runtime("submitter")
    yield made
    composition_metering.production_runtime.cache_clear()


def test_the_sdk_never_retries_batch_meter_usage_by_itself(made_clients: dict[str, Any]) -> None:
    """A retry inside the SDK would hide that an earlier answer was lost."""
    metering = made_clients["meteringmarketplace"]
    assert metering.retries["total_max_attempts"] == 1


def test_an_answer_is_waited_for_less_long_than_a_sender_lives(made_clients: dict[str, Any]) -> None:
    metering = made_clients["meteringmarketplace"]
    longest = metering.connect_timeout + metering.read_timeout
    assert longest < composition_metering.MeteringSettings("code").sender_timeout.total_seconds()


def test_a_licence_that_was_revoked_anew_keeps_its_new_hour() -> None:
    """Between the index query and the write the licence was revived, and revoked for another hour."""
    world = MeteringWorld()
    store = SubscribersStore(world.events, SUBSCRIBERS, world.clock)
    world.deprovision(at=NOW - 2 * HOUR)
    (expired,) = store.expired(NOW)
    world.put_subscriber(
        LICENSE,
        subscriptionStatus="deprovisioning",
        deprovisioningPendingFlag="1",
        deprovisioningExpiry=format_instant(NOW + HOUR),
    )
    with pytest.raises(ConditionFailed):
        store.finalize(expired)
    (closing,) = store.deprovisioning(NOW)
    assert closing.expiry == NOW + HOUR


def test_an_input_whose_allocations_change_while_it_is_adopted_keeps_its_mark() -> None:
    world = MeteringWorld()
    world.put_input(group(), 7, usageAllocations=[allocation(7, ("team", "a"))])
    changed = False

    def overwrite(call: Call) -> None:
        nonlocal changed
        if "INSERT" in str(call.request.get("Statements")) and not changed:
            changed = True
            world.put_input(group(), 9, usageAllocations=[allocation(9, ("team", "b"))])

    world.hooks.after_each.append(overwrite)
    world.submit()
    assert changed
    assert "meteringPending" in world.ledger_item(group())
    world.submit()
    assert amounts(world.record(group(), direct=True)) == (9, 7, 0, 2)
    world.assert_balanced()


def test_a_record_that_was_put_back_twice_keeps_its_bytes() -> None:
    """Nobody says that the Marketplace did nothing with it; a late row may not change what is sent next."""
    world = MeteringWorld()
    ready_records(world, [group()], quantity=4)
    for _ in range(2):
        world.marketplace.arm(Fault(effect=RecordEffect.UNPROCESSED, positions=(0,)))
    world.submit()
    attempt = world.record(group()).attempt
    assert attempt is not None
    assert attempt.unknown
    world.write(2, second=1)
    world.fold()
    world.submit()
    assert amounts(world.record(group())) == (6, 4, 0, 2)
    world.assert_balanced()


def test_a_record_of_unknown_outcome_has_no_ttl() -> None:
    world = MeteringWorld(ledger_ttl_days=30)
    ready_records(world, [group()], quantity=4)
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    world.submit()
    record = world.record(group())
    assert record.pending
    assert record.attempt is not None
    assert record.attempt.unknown
    assert record.ttl is None


def test_messages_that_the_queue_did_not_take_are_sent_again() -> None:
    taken: list[str] = []

    class Refusing:
        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            entries = request["Entries"]
            if not taken:
                taken.extend(entry["MessageBody"] for entry in entries[1:])
                return {"Failed": [{"Id": entries[0]["Id"], "Code": "InternalError"}]}
            taken.extend(entry["MessageBody"] for entry in entries)
            return {}

    assert SQSWorkQueue(Refusing(), "queue", VirtualClock(NOW)).send(["a", "b", "c"]) == 3
    assert sorted(taken) == ["a", "b", "c"]


def test_an_intent_that_is_not_allowed_fails_the_run_by_its_name() -> None:
    """Giving back what was made ready must not hide the refusal: these records never had an attempt."""
    world = MeteringWorld()
    ready_records(world, [group()])
    world.hooks.before_each.append(
        fail_calls("dynamodb", "BatchExecuteStatement", "AccessDeniedException", times=None)
    )
    with pytest.raises(Misconfigured):
        world.submit()
