"""What the simulation found, each as the shortest sequence that shows it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sandbox.fake_marketplace import Fault, Lost, Moment
from sandbox.memory_aws import aws_error
from sandbox.simulation.world import Trap
from tests.simulation.checker import RowKey, ledger_of, text
from tests.simulation.machine import MINUTE, Profile, Simulation
from tests.simulation.model import HOUR

REGION = "eu-west-1"
NOON = datetime(2026, 9, 10, 12, tzinfo=UTC)
METER = {"mode": "meter", "hourOffset": 1}


@pytest.fixture
def sim() -> Simulation:
    return Simulation(Profile("regression", (2026, 9)), NOON + 5 * MINUTE)


def test_a_delayed_cleanup_does_not_clear_a_row_that_changed_and_changed_back(sim: Simulation) -> None:
    world, buyer = sim.world, sim.buyers[0]
    sim.write(REGION, buyer, "requests", NOON, 5)
    world.run_until(NOON + HOUR)
    world.paused = {"cleanup", "submitter"}
    world.invoke("discoverer", METER)
    world.pump()  # folded: 5; its cleanup waits
    sim.write(REGION, buyer, "requests", NOON, 7)
    world.invoke("discoverer", METER)
    world.pump()  # folded: 7
    messages = world.sqs.queues["cleanup"].messages
    delayed = messages.pop(next(iter(messages)))
    world.paused = {"submitter"}
    world.pump()  # the second fold's cleanup comes first
    sim.write(REGION, buyer, "requests", NOON, 5)
    messages[delayed.message_id] = delayed
    world.pump()
    world.paused = set()
    sim.check()  # the mark is gone, and the ledger would bill 7 of the 5
    sim.drain()


def test_a_row_that_was_nobodys_is_the_groups_for_good_once_it_was_folded(sim: Simulation) -> None:
    buyer = sim.buyers[0]
    sim.write(REGION, buyer, "requests", NOON, 5)
    sim.run(75 * MINUTE)  # billed
    at = NOON + 7 * MINUTE
    sim.write(REGION, buyer, "requests", at, 3, flaw="PendingBucketMismatch")
    sim.run(20 * MINUTE)  # rejected by name, on the row
    sim.correct_bucket(RowKey(REGION, buyer.license_arn, f"{buyer.account}#requests#2026-09-10T12:07:00"))
    sim.world.traps.append(
        Trap(
            lambda function, _s, operation, _r: (function, operation) == ("aggregator", "SendMessageBatch"),
            after=False,
        )
    )
    sim.run(25 * MINUTE)  # folded as late, the cleanup lost; the same fold again sends one without a status
    sim.check()
    sim.write(REGION, buyer, "requests", NOON + 9 * MINUTE, 1)
    sim.drain()


def test_not_subscribed_after_a_lost_answer_admits_that_the_record_may_be_billed(sim: Simulation) -> None:
    buyer = sim.buyers[2]
    sim.write(REGION, buyer, "requests", NOON, 5)
    sim.run(57 * MINUTE)
    sim.world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    sim.run(6 * MINUTE)  # honoured, but nobody was told
    sim.model.suspended.add(buyer.account)
    sim.world.marketplace.suspend_account(buyer.account)
    sim.run(12 * MINUTE)  # the identical send is answered CustomerNotSubscribed
    sim.check()


def test_a_claimed_row_that_is_overwritten_by_an_unclaimable_one_leaves_its_groups_total(
    sim: Simulation,
) -> None:
    buyer = sim.buyers[2]
    sim.write(REGION, buyer, "requests", NOON, 5)
    sim.run(70 * MINUTE)
    sim.write(REGION, buyer, "requests", NOON, 2, flaw="PendingBucketMismatch")
    sim.run(30 * MINUTE)
    sim.check()


def test_usage_in_the_hour_of_activation_whose_first_answer_is_lost_ends_as_unknown_and_reported(
    sim: Simulation,
) -> None:
    """Its bytes are frozen at the hour's start, which is refused, and may not change any more."""
    buyer = sim.subscribe("777788889999", sim.now)
    sim.write(REGION, buyer, "requests", NOON + 6 * MINUTE, 5)
    sim.run(50 * MINUTE)
    sim.world.marketplace.arm(Fault(Lost.CONNECTION_CLOSED))
    sim.run(30 * MINUTE)
    sim.drain()
    (record,) = ledger_of(sim.world, REGION)
    assert text(record, "meteringStatus") == "OutcomeUnknown"


def test_usage_in_the_hour_of_activation_is_billed_with_the_activation_time(sim: Simulation) -> None:
    buyer = sim.subscribe("777788889999", sim.now)
    sim.write(REGION, buyer, "requests", NOON + 6 * MINUTE, 5)
    sim.run(90 * MINUTE)
    (honoured,) = sim.world.marketplace.honoured()
    assert (honoured.quantity, honoured.timestamp) == (5, NOON + 5 * MINUTE)


def test_answers_that_a_crashed_submitter_waited_for_disturb_no_later_run(sim: Simulation) -> None:
    """Two requests are under way when the process dies: the next process knows of neither."""
    for number in range(60):
        sim.write(REGION, sim.buyers[number % 3], "requests", NOON - number * MINUTE // 3, 1)
        sim.write(REGION, sim.buyers[number % 3], "egress", NOON - number * HOUR // 3, 1)
    calls = []

    def second_request(function: str, service: str, _operation: str, _request: object) -> bool:
        calls.append(service)
        return function == "submitter" and service == "marketplace" and calls.count("marketplace") == 2

    sim.world.traps.append(Trap(second_request, after=True))
    sim.run(2 * HOUR)
    sim.drain()
    assert sim.world.crashes == 1


def test_a_submitter_without_permission_to_write_fails_by_that_name(sim: Simulation) -> None:
    sim.write(REGION, sim.buyers[0], "requests", NOON, 1)
    sim.run(54 * MINUTE)
    sim.world.traps.append(
        Trap(
            lambda function, _s, operation, _r: (
                (function, operation) == ("submitter", "BatchExecuteStatement")
            ),
            after=False,
            error=lambda: aws_error("dynamodb", "BatchExecuteStatement", "AccessDeniedException", "no"),
        )
    )
    sim.run(20 * MINUTE)
    told = [
        str(fields["error"])
        for _, message, fields in sim.world.recorder.lines
        if message == "function failed"
    ]
    assert ["Misconfigured" in error for error in told] == [True]
    sim.drain()
    assert len(sim.world.marketplace.honoured()) == 1


def test_a_group_whose_only_row_was_taken_from_it_ends_with_a_reason(sim: Simulation) -> None:
    sim.checker.tolerates_emptied = False
    sim.write(REGION, sim.buyers[0], "requests", NOON, 5)
    sim.run(54 * MINUTE)
    sim.world.paused = {"submitter"}
    sim.run(20 * MINUTE)  # folded, not sent
    sim.world.paused = set()
    sim.write(REGION, sim.buyers[0], "requests", NOON, 2, flaw="PendingBucketMismatch")
    sim.drain()
