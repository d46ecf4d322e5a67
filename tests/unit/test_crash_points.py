"""Every AWS call of every function, interrupted: the retry always leads to the right end.

Each scenario is run once undisturbed to count its calls. Then, for every call, the function is struck
there: its process ends before the call's effect or after it (every later call of the invocation fails
too), or only the call's answer is an error, before its effect or after it. The function's own trigger
comes again, and the books must balance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from _pytest.mark import ParameterSet
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import HOUR, floor_hour
from awsmp.domain.ledger import LedgerRecord
from awsmp.domain.ports import Metric
from awsmp.domain.reasons import MeteringStatus
from sandbox.fake_marketplace import Fault, Lost, Moment, RecordEffect
from tests.unit.metering_world import (
    LAST_HOUR,
    LICENSE,
    NOW,
    Crash,
    MeteringWorld,
    allocation,
    amounts,
    group,
    license_arn,
    ready_records,
)

pytestmark = pytest.mark.slow

#: A message of a function that died is visible again after this, and its open attempts are taken over.
RECOVERY = timedelta(seconds=361)
OLD = LAST_HOUR - 30 * HOUR

LedgerSlot = tuple[str, str, datetime]


@dataclass(frozen=True)
class Strike:
    """How a call is interrupted."""

    name: str
    after: bool
    error: Callable[[], BaseException] | None = None


STRIKES = (
    Strike("crash before the effect", after=False),
    Strike("crash after the effect", after=True),
    Strike("error before the effect", False, lambda: EndpointConnectionError(endpoint_url="https://aws")),
    Strike("lost answer", True, lambda: ReadTimeoutError(endpoint_url="https://aws")),
)


@dataclass(frozen=True)
class Scenario:
    """A function at work: what is there, the invocation that is struck, what follows, what must hold."""

    prepare: Callable[[], MeteringWorld]
    act: Callable[[MeteringWorld], object]
    follow: Callable[[MeteringWorld], object]
    expect: dict[LedgerSlot, tuple[int, int, int, int]]
    pause: timedelta = RECOVERY
    #: Records that the Marketplace refuses: after a crash their outcome is unknown, so they stay frozen and
    #: may end as surfaced instead of corrected and billed.
    whole: frozenset[LedgerSlot] = frozenset()


def slot(record: LedgerRecord) -> LedgerSlot:
    return (record.group.license_arn, record.group.dimension, record.group.hour)


def finish(world: MeteringWorld) -> None:
    """Let the rest of the pipeline do its work, as its schedules and queues would."""
    for _ in range(3):
        world.aggregate()
        world.aggregate("deprovision-work")
        world.clean()
        world.submit()
        world.clock.advance(RECOVERY)


def finish_and_expire(world: MeteringWorld) -> None:
    """Like finish, and past the deadline: what was refused after an unknown outcome is closed."""
    finish(world)
    world.clock.advance_to(LAST_HOUR + 24 * HOUR)
    world.expire()


def undisturbed(world: MeteringWorld, step: Callable[[MeteringWorld], object]) -> None:
    """A scheduled function may fail; its next run comes by itself."""
    with contextlib.suppress(MeteringError, BatchProcessingError):
        step(world)


# --- what is there -----------------------------------------------------------------------------------


def two_groups() -> MeteringWorld:
    world = MeteringWorld()
    for second in range(30):
        world.write(1, second=second)
    world.write(5, dimension="seats")
    world.write(9, second=3, dimension="storage-gb", sort_key="broken-key")
    return world


def queued() -> MeteringWorld:
    """One group is new, one was billed and gets a late row, one has allocations; a row is unclaimable."""
    world = MeteringWorld()
    world.write(4, dimension="seats")
    world.fold()
    world.submit()
    world.write(2, dimension="seats", second=8)
    world.write(6, usageAllocations=[allocation(6, ("team", "a"))])
    world.write(9, second=3, dimension="storage-gb", sort_key="broken-key")
    world.discover()
    return world


def uncleaned() -> MeteringWorld:
    world = two_groups()
    world.write(6, dimension="storage-gb", usageAllocations=[allocation(6, ("team", "a"))])
    world.discover()
    world.aggregate()
    return world


def old_rows() -> MeteringWorld:
    world = MeteringWorld()
    world.write(3, dimension="seats", hour=OLD)
    world.write(4, dimension="api-calls", hour=OLD)
    world.write(9, dimension="storage-gb", hour=OLD, sort_key="broken-key")
    return world


def closing() -> MeteringWorld:
    world = MeteringWorld(now=datetime(2026, 11, 10, 12, 57, tzinfo=UTC))
    world.write(3)
    world.write(4, hour=LAST_HOUR + HOUR)
    world.deprovision(at=datetime(2026, 11, 10, 12, 0, tzinfo=UTC))
    return world


def closing_folded() -> MeteringWorld:
    world = closing()
    world.flush()
    world.aggregate("deprovision-work")
    world.clean()
    return world


def sendable() -> MeteringWorld:
    """Three good records, one undefined dimension, one whose licence was activated within its hour."""
    world = MeteringWorld()
    young = license_arn(1)
    world.subscribe(young, since=LAST_HOUR + timedelta(minutes=10))
    ready_records(world, [group(dimension=d) for d in ("api-calls", "seats", "storage-gb", "undefined")], 4)
    ready_records(world, [group(young)], 7)
    return world


def sendable_with_lost_answer() -> MeteringWorld:
    world = MeteringWorld()
    ready_records(world, [group(), group(dimension="seats")], 4)
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    world.submit()
    world.write(5, second=9)
    world.fold()
    return world


def sendable_with_unprocessed() -> MeteringWorld:
    world = MeteringWorld()
    ready_records(world, [group(), group(dimension="seats")], 4)
    world.marketplace.arm(Fault(effect=RecordEffect.UNPROCESSED, positions=(0,)))
    return world


def direct_inputs() -> MeteringWorld:
    world = MeteringWorld()
    world.put_input(group(), 7)
    world.put_input(group(dimension="seats"), -1)
    return world


def dry() -> MeteringWorld:
    world = MeteringWorld(dry_run=True)
    ready_records(world, [group(), group(dimension="seats")], 4)
    return world


def past_deadline() -> MeteringWorld:
    world = MeteringWorld()
    ready_records(world, [group(), group(dimension="seats")], 4)
    world.marketplace.arm(Fault(effect=RecordEffect.OMITTED, positions=(0,)))
    world.submit()
    ready_records(world, [group(dimension="storage-gb")], 2)
    world.put_input(group(license_arn(3)), 5)
    world.clock.advance_to(LAST_HOUR + 24 * HOUR)
    return world


# --- the table ---------------------------------------------------------------------------------------


def after(hours: int, arn: str = LICENSE) -> Callable[[str], LedgerSlot]:
    return lambda dimension: (arn, dimension, LAST_HOUR + hours * HOUR)


AT = after(0)
SHARD = int((floor_hour(NOW) - OLD) / HOUR) % 7

SCENARIOS: dict[str, Scenario] = {
    "discoverer meter": Scenario(
        two_groups,
        lambda world: world.discover(),
        finish,
        {AT("api-calls"): (30, 30, 0, 0), AT("seats"): (5, 5, 0, 0)},
    ),
    "discoverer ageout": Scenario(
        old_rows,
        lambda world: world.age_out(SHARD),
        lambda world: None,
        {(LICENSE, "seats", OLD): (3, 0, 0, 3), (LICENSE, "api-calls", OLD): (4, 0, 0, 4)},
    ),
    "discoverer flush": Scenario(
        closing,
        lambda world: world.flush(),
        finish,
        {AT("api-calls"): (3, 3, 0, 0), after(1)("api-calls"): (4, 4, 0, 0)},
        pause=timedelta(minutes=1),
    ),
    "aggregator": Scenario(
        queued,
        lambda world: world.aggregate(),
        finish,
        {AT("api-calls"): (6, 6, 0, 0), AT("seats"): (6, 4, 0, 2)},
    ),
    "cleanup": Scenario(
        uncleaned,
        lambda world: world.clean(),
        finish,
        {AT("api-calls"): (30, 30, 0, 0), AT("seats"): (5, 5, 0, 0), AT("storage-gb"): (6, 6, 0, 0)},
    ),
    "submitter": Scenario(
        sendable,
        lambda world: world.submit(),
        finish_and_expire,
        {AT(name): (4, 4, 0, 0) for name in ("api-calls", "seats", "storage-gb")}
        | {AT("undefined"): (4, 0, 0, 4)},
        whole=frozenset({(license_arn(1), "api-calls", LAST_HOUR)}),
    ),
    "submitter after a lost answer": Scenario(
        sendable_with_lost_answer,
        lambda world: world.submit(),
        finish,
        {AT("api-calls"): (9, 4, 0, 5), AT("seats"): (4, 4, 0, 0)},
    ),
    "submitter with unprocessed records": Scenario(
        sendable_with_unprocessed,
        lambda world: world.submit(),
        finish,
        {AT("api-calls"): (4, 4, 0, 0), AT("seats"): (4, 4, 0, 0)},
    ),
    "submitter, closing licence": Scenario(
        closing_folded,
        lambda world: world.submit_closing(),
        finish,
        {AT("api-calls"): (3, 3, 0, 0), after(1)("api-calls"): (4, 4, 0, 0)},
    ),
    "submitter, dry run": Scenario(
        dry,
        lambda world: world.submit(),
        finish,
        {AT("api-calls"): (4, 0, 0, 4), AT("seats"): (4, 0, 0, 4)},
    ),
    "expiry": Scenario(
        past_deadline,
        lambda world: world.expire(),
        lambda world: None,
        {
            AT("api-calls"): (4, 0, 0, 4),
            AT("seats"): (4, 4, 0, 0),
            AT("storage-gb"): (2, 0, 0, 2),
            (license_arn(3), "api-calls", LAST_HOUR): (5, 0, 0, 5),
        },
    ),
}


def recover(world: MeteringWorld, scenario: Scenario) -> None:
    """The trigger of the struck function comes again, then what follows it."""
    world.hooks.clear()
    for _ in range(2):
        world.clock.advance(scenario.pause)
        undisturbed(world, scenario.act)
    undisturbed(world, scenario.follow)


def problems(world: MeteringWorld, scenario: Scenario) -> str | None:
    try:
        world.assert_balanced()
        found = {slot(record): amounts(record) for record in world.records()}
        for key, expected in scenario.expect.items():
            assert found.get(key) == expected, (key, found.get(key), expected)
        for key in scenario.whole:
            total, paid, _, unpaid = found[key]
            assert (paid, unpaid) in {(total, 0), (0, total)}, (key, found[key])
        surfaced: dict[str, Decimal] = {}
        for record in world.records():
            for reason, quantity in record.surfaced_by_reason().items():
                surfaced[reason] = surfaced.get(reason, Decimal(0)) + quantity
        for reason, quantity in surfaced.items():
            told = world.telemetry.total(Metric.SURFACED_UNITS, reason)
            assert abs(told) >= abs(quantity), f"{quantity} of {reason} surfaced, {told} told"
    except AssertionError as error:
        return str(error)
    return None


def calls_of(scenario: Scenario) -> list[str]:
    world = scenario.prepare()
    names: list[str] = []
    world.hooks.before_each.append(lambda call: names.append(f"{call.service} {call.operation}"))
    scenario.act(world)
    return names


def every_interruption() -> list[ParameterSet]:
    return [
        pytest.param(
            name,
            strike,
            id=f"{name}, {strike.name}",
        )
        for name in SCENARIOS
        for strike in STRIKES
    ]


@pytest.mark.parametrize(("name", "strike"), every_interruption())
def test_a_function_interrupted_at_any_call_leaves_books_that_balance(name: str, strike: Strike) -> None:
    scenario = SCENARIOS[name]
    calls = calls_of(scenario)
    assert len(calls) >= 2, "the scenario does nothing"
    failures: list[str] = []
    for number, call in enumerate(calls):
        world = scenario.prepare()
        world.hooks.strike_at(number, after=strike.after, error=strike.error and strike.error())
        struck = True
        try:
            scenario.act(world)
        except Crash:
            assert strike.error is None
        except (MeteringError, BatchProcessingError):
            assert strike.error is not None
        else:
            struck = world.hooks.calls > number
        assert struck, f"call {number} was never reached"
        recover(world, scenario)
        if (problem := problems(world, scenario)) is not None:
            failures.append(f"{strike.name} {number} ({call}): {problem}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(
    "strike",
    [
        pytest.param(
            strike,
            id=strike.name,
        )
        for strike in STRIKES
    ],
)
def test_adopting_direct_inputs_interrupted_at_any_call_bills_them_once(strike: Strike) -> None:
    calls = calls_of(Scenario(direct_inputs, lambda world: world.submit(), finish, {}))
    assert calls.count("dynamodb BatchExecuteStatement") >= 4, "adopted, settled, intended, answered"
    for number in range(len(calls)):
        world = direct_inputs()
        world.hooks.strike_at(number, after=strike.after, error=strike.error and strike.error())
        with contextlib.suppress(Crash, MeteringError):
            world.submit()
        world.hooks.clear()
        for _ in range(4):
            world.clock.advance(RECOVERY)
            undisturbed(world, lambda each: each.submit())
        record = world.record(group(), direct=True)
        assert (record.status, amounts(record)) == (MeteringStatus.SUCCESS, (7, 7, 0, 0)), calls[number]
        assert world.record(group(dimension="seats"), direct=True).rejection == "NegativeQuantity"
        assert len(world.marketplace.honoured()) == 1
        inputs = [item for item in world.ledger_items() if "version" not in item and "quantity" in item]
        assert len(inputs) == 2
        assert all("meteringPending" not in item for item in inputs)
