"""Every handler's happy and refusal paths against a local AWS emulator over HTTP.

Beside what moto runs too, these are the batch statements: set and remove in one, each under its own
condition, with every answer told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from awsmp.domain.errors import SubmissionStopped
from awsmp.domain.hours import HOUR, bucket_of, floor_hour
from awsmp.domain.ledger import advance, begin_attempt
from awsmp.domain.messages import GroupWork, encode_work
from awsmp.domain.ports import Metric
from awsmp.domain.reasons import MeteringStatus
from awsmp.domain.stores import SwapResult
from awsmp.handlers import aggregator
from sandbox.emulator import Emulator, emulator
from sandbox.fake_marketplace import Code, Fault, Lost, Moment
from tests.unit.metering_world import (
    LAST_HOUR,
    NOW,
    Call,
    ClientWorld,
    amounts,
    group,
    license_arn,
)
from tests.unit.test_handlers_moto import SCENARIOS, failed

# On one worker: one emulator serves the file.
pytestmark = [pytest.mark.emulator, pytest.mark.xdist_group("handlers-emulator")]


@pytest.fixture(scope="module")
def server() -> Iterator[Emulator]:
    """The emulator, started once for this file and stopped by its process id."""
    with emulator() as running:
        yield running


@pytest.fixture(scope="module")
def clients(server: Emulator) -> Iterator[dict[str, Any]]:
    made = {service: server.client(service) for service in ("dynamodb", "sqs")}
    yield made
    for client in made.values():
        client.close()


@pytest.fixture
def world(server: Emulator, clients: dict[str, Any]) -> ClientWorld:
    server.reset()
    return ClientWorld(clients["dynamodb"], clients["sqs"])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_handlers_on_the_emulator(scenario: Callable[[ClientWorld], None], world: ClientWorld) -> None:
    scenario(world)


def test_usage_goes_through_the_whole_pipeline_and_is_billed_once(world: ClientWorld) -> None:
    for second in range(60):
        world.write(2, second=second)
    world.write(7, dimension="seats")
    world.fold()
    assert world.submit()["billed"] == 2
    assert amounts(world.record(group())) == (120, 120, 0, 0)
    assert world.submit()["requests"] == 0
    assert world.discover() == 0
    world.assert_balanced()


def test_one_undefined_dimension_costs_its_neighbours_nothing(world: ClientWorld) -> None:
    for number in range(9):
        arn = license_arn(number)
        world.subscribe(arn)
        world.write(1, arn=arn)
    world.write(1, dimension="undefined")
    world.fold()
    report = world.submit()
    assert (report["billed"], report["refused"]) == (9, 1)
    assert world.record(group(dimension="undefined")).status_reason == "InvalidUsageDimensionException"
    world.assert_balanced()


def test_a_failed_condition_of_one_statement_is_told_apart_from_the_others(world: ClientWorld) -> None:
    """A record that is refolded between its reading and its intent is not sent, its neighbour is."""
    world.write(1)
    world.write(1, dimension="seats")
    world.fold()
    ledger = world.runtime.ledger()
    stale, fresh = world.record(group()), world.record(group(dimension="seats"))
    world.write(5, second=3)
    failed(aggregator.run, world, encode_work(GroupWork(group())))
    pairs = [(each, advance(each, begin_attempt(each, "a", now=NOW), now=NOW)) for each in (stale, fresh)]
    assert ledger.swap_many(pairs) == [SwapResult.CONDITION_FAILED, SwapResult.DONE]
    assert world.record(group()).attempt is None
    assert world.record(group(dimension="seats")).attempt is not None


def test_a_row_rewritten_between_fold_and_cleanup_stays_pending(world: ClientWorld) -> None:
    for second in range(30):
        world.write(1, second=second)
    world.discover()
    world.aggregate()
    rewritten = world.write(9, second=4)
    world.clean()
    assert world.pending_rows() == [rewritten]
    world.fold()
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group())) == (38, 38, 0, 0)
    world.assert_balanced()


def test_refused_rows_are_stamped_with_their_reason(world: ClientWorld) -> None:
    rows = {
        "NonNumericQuantity": world.write("twelve"),
        "MissingQuantity": world.write(None, second=1),
        "NegativeQuantity": world.write(-1, second=2),
    }
    world.fold()
    assert world.pending_rows() == []
    for reason, row in rows.items():
        assert world.row(row).attributes["meteringStatusReason"] == reason
        assert world.row(row).attributes["meteringStatus"] == "RejectedClientSide"


def test_an_unclaimable_row_is_rejected_by_name(world: ClientWorld) -> None:
    broken = world.write(9, sort_key="broken-key")
    world.fold()
    row = world.row(broken)
    assert row.pending_bucket is None
    assert str(row.attributes["meteringStatusReason"]).startswith("MalformedSortKey")
    assert world.telemetry.total(Metric.SURFACED_UNITS, "MalformedSortKey") == 9


def test_ageout_folds_and_cleans_what_was_left_behind(world: ClientWorld) -> None:
    old = LAST_HOUR - 30 * HOUR
    world.write(3, hour=old)
    shard = int((floor_hour(NOW) - old) / HOUR) % 7
    assert world.age_out(shard) == 1
    record = world.record(group(hour=old))
    assert record.status is MeteringStatus.AGGREGATION_EXPIRED
    world.assert_balanced()


def test_a_lost_answer_is_sent_again_identically(world: ClientWorld) -> None:
    world.write(4)
    world.fold()
    world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    world.submit()
    world.write(5, second=9)
    world.fold()
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group())) == (9, 4, 0, 5)
    world.assert_balanced()


def test_a_refused_run_reopens_its_records(world: ClientWorld) -> None:
    world.write(4)
    world.fold()
    world.marketplace.arm(Fault(Code.DISABLED_API))
    with pytest.raises(SubmissionStopped):
        world.submit()
    assert world.record(group()).attempt is None
    assert world.submit()["billed"] == 1
    world.assert_balanced()


def test_an_answer_meets_a_record_that_was_refolded_meanwhile(world: ClientWorld) -> None:
    world.write(4)
    world.fold()

    def late_row(call: Call) -> None:
        if call.operation == "BatchMeterUsage":
            world.write(3, second=30)
            world.fold()

    world.hooks.after_each.append(late_row)
    assert world.submit()["billed"] == 1
    assert amounts(world.record(group())) == (7, 4, 0, 3)
    world.assert_balanced()


def test_direct_submit_keeps_two_items(world: ClientWorld) -> None:
    world.put_input(group(), 7)
    assert world.submit()["billed"] == 1
    world.put_input(group(), 9)
    world.submit()
    assert amounts(world.record(group(), direct=True)) == (9, 7, 0, 2)
    assert world.ledger_item(group())["meteringStatus"] == "LateAfterSubmission"
    assert world.ledger_item(group())["hour"] == bucket_of(LAST_HOUR)


def test_a_direct_submit_input_past_its_deadline_is_closed(world: ClientWorld) -> None:
    world.put_input(group(), 5)
    world.clock.advance_to(LAST_HOUR + 24 * HOUR)
    assert world.expire() == 1
    assert amounts(world.record(group(), direct=True)) == (5, 0, 0, 5)
    assert "meteringPending" not in world.ledger_item(group())


def test_a_closing_licence_is_flushed_and_sent_within_its_window(world: ClientWorld) -> None:
    world.write(4)
    world.deprovision()
    assert world.flush() == 1
    world.aggregate("deprovision-work")
    world.clean()
    assert world.submit_closing()["billed"] == 1
    world.assert_balanced()
