"""The submitter's pace: the quota, not latency, limits how fast a backlog drains; and it is never exceeded.

The fake enforces the documented quota as a token bucket (10 requests a second, burst 10) and answers
anything faster with ThrottlingException. All latencies are virtual.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from threading import Event

import pytest

from awsmp.adapters.system_clock import SystemClock
from awsmp.adapters.thread_workers import ThreadWorkers
from awsmp.domain.hours import HOUR, floor_hour
from awsmp.domain.ledger import LedgerRecord, advance, to_item
from awsmp.domain.ports import Metric
from tests.unit.metering_world import (
    BUYER,
    LAST_HOUR,
    NOW,
    MeteringWorld,
    group,
    license_arn,
)

QUOTA = 10.0
#: One function's run at that size takes longer than the default context leaves.
RUN_SECONDS = 600


def backlog(world: MeteringWorld, count: int, *, licenses: int = 500) -> None:
    """Put ``count`` pending records of one unit into the ledger, over the hours of the window."""
    hours = [LAST_HOUR - back * HOUR for back in range(count // licenses)]
    for number in range(licenses):
        world.marketplace.subscribe(
            "prod0example0code", BUYER, license_arn=license_arn(number), activate_at=world.since
        )
    for hour in hours:
        for number in range(licenses):
            target = group(license_arn(number), hour=hour)
            fresh = LedgerRecord(target, total=1, digest="d", row_count=1, quantity=1)  # type: ignore[arg-type]
            world.put_ledger(to_item(advance(None, fresh, now=NOW)))


def pace(world: MeteringWorld) -> float:
    """Requests a second of the run, from the first request to the last one."""
    instants = [entry.at for entry in world.marketplace.requests()]
    return (len(instants) - 1) / (instants[-1] - instants[0]).total_seconds()


@pytest.mark.slow
def test_ten_thousand_records_drain_at_the_quota_with_150_ms_answers_and_no_throttle() -> None:
    world = MeteringWorld(api_latency=0.15)
    backlog(world, 10_000)
    report = world.submit(seconds=RUN_SECONDS)
    assert (report["billed"], report["requests"], report["throttled"]) == (10_000, 400, 0)
    assert pace(world) >= 0.95 * QUOTA
    assert world.clock.now() - NOW <= timedelta(seconds=10_000 / 25 / QUOTA / 0.95)
    assert world.marketplace.max_requests_in_any_second() <= QUOTA
    assert world.marketplace.billed_twice() == {}
    assert world.telemetry.total(Metric.RECORDS_BILLED) == 10_000


LATENCIES = [
    pytest.param(0.15, 0.0, id="150 ms answers"),
    pytest.param(0.30, 0.0, id="300 ms answers"),
    pytest.param(0.15, 0.02, id="150 ms answers, 20 ms DynamoDB"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "store"), LATENCIES)
def test_the_quota_and_not_latency_is_the_limit(answer: float, store: float) -> None:
    world = MeteringWorld(api_latency=answer)
    backlog(world, 1_000, licenses=100)
    world.hooks.dynamodb_latency = store
    report = world.submit(seconds=RUN_SECONDS)
    assert (report["billed"], report["throttled"]) == (1_000, 0)
    assert pace(world) >= 0.95 * QUOTA, f"{pace(world):.2f} requests a second"


def test_direct_submit_inputs_drain_at_the_quota_too() -> None:
    world = MeteringWorld(api_latency=0.15)
    for number in range(500):
        arn = license_arn(number)
        world.subscribe(arn)
        world.put_input(group(arn), 1)
    world.hooks.dynamodb_latency = 0.01
    report = world.submit(seconds=RUN_SECONDS)
    assert (report["billed"], report["throttled"]) == (500, 0)
    assert pace(world) >= 0.95 * QUOTA, f"{pace(world):.2f} requests a second"


def test_requests_are_spaced_evenly_so_that_no_second_ever_holds_more_than_the_quota() -> None:
    world = MeteringWorld(api_latency=0.15)
    backlog(world, 1_000, licenses=100)
    world.submit()
    instants = [entry.at for entry in world.marketplace.requests()]
    assert min(b - a for a, b in pairwise(instants)) >= timedelta(seconds=1 / QUOTA)


@pytest.mark.parametrize("rate", [2.0, 5.0])
def test_a_deployments_share_of_the_quota_is_kept(rate: float) -> None:
    world = MeteringWorld(api_latency=0.15, requests_per_second=rate)
    backlog(world, 500, licenses=100)
    world.submit()
    assert 0.95 * rate <= pace(world) <= rate


def test_slow_answers_never_put_more_than_the_pipeline_in_flight() -> None:
    world = MeteringWorld(api_latency=5.0)
    backlog(world, 500, licenses=100)
    report = world.submit()
    assert report["billed"] == 500
    instants = [entry.at for entry in world.marketplace.requests()]
    for instant in instants:
        in_flight = [at for at in instants if at <= instant < at + timedelta(seconds=5)]
        assert len(in_flight) <= 4


def test_a_quota_that_another_product_uses_too_is_shared_without_loss() -> None:
    world = MeteringWorld(api_latency=0.15)
    world.marketplace.configure(quota_rate=4.0, quota_burst=1)
    backlog(world, 500, licenses=100)
    report = world.submit()
    assert report["throttled"] > 0
    while report["billed"] or report["throttled"]:
        report = world.submit()
    assert len(world.marketplace.honoured()) == 500
    assert world.marketplace.billed_twice() == {}
    assert floor_hour(world.clock.now()) == floor_hour(NOW)


def test_worker_threads_give_answers_as_they_finish_and_keep_what_was_raised() -> None:
    workers, gate = ThreadWorkers(SystemClock(), threads=2), Event()

    def fail() -> object:
        raise LookupError("no answer")

    slow = workers.start(lambda: gate.wait(10))
    fast = workers.start(fail)
    ((handle, result),) = workers.wait(None)
    assert handle is fast
    with pytest.raises(LookupError):
        result()
    assert workers.wait(SystemClock().now()) == []
    gate.set()
    ((handle, result),) = workers.wait(None)
    assert (handle, result()) == (slow, True)
