"""Every AWS call of one scenario, crashed once before and once after its effect; then everything drains.

The scenario leads through every function: several groups of two licences, a blocked group that is
corrected, a row that no group can claim, an answer of the Marketplace that is lost, a late row, a licence
that ends in mid-hour with writes going on, and rows found too late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from sandbox.fake_marketplace import Code, Fault, Lost, Moment
from sandbox.simulation.world import AwsCall, Crash
from tests.simulation.faults import FaultPlan
from tests.simulation.machine import DIMENSIONS, FUNCTIONS, MINUTE, UNKNOWN_DIMENSION, Profile, Simulation
from tests.simulation.model import HOUR

REGION = "eu-west-1"
START = datetime(2026, 9, 30, 20, 40, tzinfo=UTC)
PROFILE = Profile("crash-points", (2026, 9), window=3)

#: The enumeration is cut into so many tests, for two workers to share.
SHARDS = 8


class CrashAt(FaultPlan):
    """Ends the function's process at one call, counted over the whole run."""

    number: int = 0
    counts: bool = True
    calls: Counter[str]

    def concerns(self, function: str) -> bool:
        """Be asked about every call until the crash; where there is none, about all: they are counted."""
        return self.counts or self.number > 0

    def aim(self, number: int, *, after: bool) -> None:
        """Crash at call ``number`` (from 1; 0 never), before or after its effect."""
        self.number, self.after, self.count, self.where = number, after, 0, ""
        self.calls, self.counts = Counter(), number == 0

    def __call__(self, call: AwsCall) -> None:
        """See World.fault_plan."""
        if not call.after:
            self.count += 1
            self.calls[f"{call.function} {call.service} {call.operation}"] += 1
        if self.count == self.number and call.after is self.after:
            self.number = 0
            self.where = f"{call.function} {call.service} {call.operation}"
            self.struck("crash")
            raise Crash


@dataclass(slots=True)
class Stage:
    """A simulation whose functions run when the scenario says so, until it drains by its schedules."""

    sim: Simulation

    def at(self, minutes: int, *runs: Run) -> None:
        """Go on to ``minutes`` after the start; run functions and let the queues be worked off, and check."""
        world = self.sim.world
        world.paused = set(FUNCTIONS)
        world.run_until(START + minutes * MINUTE)
        world.paused = set()
        for function, event in runs:
            world.invoke(function, event)
            world.pump()
        world.pump()
        # No schedule runs yet, so nothing can be late.
        self.sim._trouble()
        self.sim.check()


Run = tuple[str, Mapping[str, Any]]

METER: Final[Run] = ("discoverer", {"mode": "meter", "hourOffset": 1})
FLUSH: Final[Run] = ("discoverer", {"mode": "flush-deprovisioning"})
AGE_OUT_SIX_HOURS_BACK: Final[Run] = ("discoverer", {"mode": "ageout", "shard": 6})
SUBMIT: Final[Run] = ("submitter", {"mode": "submit"})
SUBMIT_CLOSING: Final[Run] = ("submitter", {"mode": "deprovisioning"})


def scenario(crash_at: int, *, after: bool) -> CrashAt:
    """Play the scenario with one crash; every promise is checked after every act."""
    sim = Simulation(PROFILE, START)
    plan = CrashAt(sim._struck)
    plan.aim(crash_at, after=after)
    sim.world.fault_plan = plan
    stage, (first, second, third), hour = Stage(sim), sim.buyers, START.replace(minute=0)
    # Ordinary rows, a group that is held back, a row that no group can claim, a dimension that is not listed.
    sim.write(REGION, first, DIMENSIONS[0], hour + 5 * MINUTE, 3)
    sim.write(REGION, first, DIMENSIONS[0], hour + 6 * MINUTE, 4)
    sim.write(REGION, second, DIMENSIONS[0], hour + 7 * MINUTE, 0)
    sim.write(REGION, second, DIMENSIONS[1], hour + 8 * MINUTE, 2)
    sim.write(REGION, second, DIMENSIONS[1], hour + 9 * MINUTE, 1, flaw="NonNumericQuantity")
    sim.write(REGION, first, DIMENSIONS[1], hour + 10 * MINUTE, 6, flaw="SortKeyMismatch")
    sim.write(REGION, first, UNKNOWN_DIMENSION, hour + 11 * MINUTE, 1)
    sim.write(REGION, third, DIMENSIONS[0], hour + 12 * MINUTE, 9)
    # The first request's answer is lost; the next one is throttled and comes through in the same run.
    sim.world.marketplace.arm(Fault(Lost.READ_TIMEOUT, Moment.AFTER))
    sim.world.marketplace.arm(Fault(Code.THROTTLING))
    stage.at(21, METER, SUBMIT)
    # Late for what has been sent; the bad row is corrected.
    sim.write(REGION, first, DIMENSIONS[0], hour + 13 * MINUTE, 1)
    sim.write(REGION, second, DIMENSIONS[1], hour + 9 * MINUTE, 5)
    stage.at(30, METER, SUBMIT)
    # The third licence ends while it is being used, in the first hour and in the unfinished one.
    sim.write(REGION, third, DIMENSIONS[0], sim.now, 2)
    sim.deprovision(third)
    sim.write(REGION, third, DIMENSIONS[1], hour + 14 * MINUTE, 1)
    stage.at(31, FLUSH, SUBMIT_CLOSING)
    sim.write(REGION, third, DIMENSIONS[0], sim.now + 40 * MINUTE, 7)
    sim.write(REGION, third, DIMENSIONS[0], sim.now + 50 * MINUTE, 6)
    stage.at(87, FLUSH, SUBMIT_CLOSING)
    # After the final flush and after the window: surfaced.
    sim.write(REGION, third, DIMENSIONS[0], sim.now, 4)
    sim.write(REGION, second, DIMENSIONS[0], hour - 4 * HOUR, 8)
    stage.at(110, ("deprovision_cleanup", {}), AGE_OUT_SIX_HOURS_BACK, SUBMIT)
    stage.at(205, SUBMIT)
    # The zero and the dimension that nobody knows are still there when their hour can no longer be billed.
    stage.at(210, ("expiry", {}))
    plan.number = 0
    count, calls = plan.count, Counter(plan.calls)
    sim.drain()
    plan.count, plan.calls = count, calls
    return plan


@pytest.fixture(scope="module")
def undisturbed() -> CrashAt:
    return scenario(0, after=False)


def test_the_scenario_leads_through_every_function_and_every_kind_of_call(undisturbed: CrashAt) -> None:
    functions = {name.split()[0] for name in undisturbed.calls}
    assert functions == {
        "discoverer",
        "aggregator",
        "cleanup",
        "submitter",
        "expiry",
        "subscription",
        "deprovision_cleanup",
    }
    operations = {name.split(" ", 1)[1] for name in undisturbed.calls}
    assert operations >= {
        "dynamodb GetItem",
        "dynamodb PutItem",
        "dynamodb UpdateItem",
        "dynamodb Query",
        "dynamodb BatchGetItem",
        "dynamodb BatchExecuteStatement",
        "sqs SendMessageBatch",
        "marketplace BatchMeterUsage",
    }


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_crash_at_any_aws_call_loses_nothing_and_bills_nothing_twice(
    undisturbed: CrashAt, shard: int, after: bool
) -> None:
    for number in range(1 + shard, undisturbed.count + 1, SHARDS):
        plan = scenario(number, after=after)
        assert plan.where, f"call {number} was never reached"
