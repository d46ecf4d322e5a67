"""Hundreds of derandomised runs: random steps and faults, every promise checked after each, then a drain.

A failure names the profile and the seed; ``python -m sandbox.soak --profile NAME --seed SEED`` plays that run
again and stops at the same step.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from sandbox.simulation.world import USAGE
from tests.simulation import test_sometimes
from tests.simulation.checker import ledger_of
from tests.simulation.machine import PROFILES, STEPS, Machine, Profile

pytestmark = [pytest.mark.slow, pytest.mark.proof]

#: Runs are cut into shards, so that two workers share them; each shard draws seeds of its own.
SHARDS = 4
RUNS_A_SHARD = 11
STEPS_A_RUN = 50


def test_there_are_five_hundred_runs_of_fifty_steps() -> None:
    assert len(PROFILES) * SHARDS * RUNS_A_SHARD + test_sometimes.RUNS >= 500
    assert STEPS_A_RUN >= 50
    assert len({name for name in STEPS if hasattr(Machine, f"_{name}")}) == len(STEPS)


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_nothing_is_lost_and_nothing_billed_twice(profile: Profile, shard: int) -> None:
    @settings(
        max_examples=RUNS_A_SHARD,
        derandomize=True,
        deadline=None,
        database=None,
        print_blob=True,
        # A smaller seed is another run, not a smaller one.
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(min_value=0, max_value=2**32 - 1))
    def runs(drawn: int) -> None:
        seed = drawn * SHARDS + shard
        note(f"profile {profile.name}, seed {seed}")
        Machine(profile, random.Random(seed)).play(STEPS_A_RUN)

    runs()


@pytest.mark.parametrize("profile", PROFILES[:2], ids=lambda profile: profile.name)
def test_one_seed_is_one_run_byte_for_byte(profile: Profile) -> None:
    digests = {Machine(profile, random.Random(11)).play(30).digest() for _ in range(2)}
    assert len(digests) == 1
    assert Machine(profile, random.Random(12)).play(30).digest() not in digests


def test_leaving_out_idle_ticks_changes_nothing_that_is_stored_or_sent() -> None:
    def stored(*, skip_idle: bool) -> tuple[object, ...]:
        # Faults that count AWS calls would strike elsewhere when idle calls are left out: this run has none.
        machine = Machine(PROFILES[3], random.Random(5), skip_idle=skip_idle)
        simulation = machine.simulation
        for _ in range(12):
            machine._write()
            machine._tick()
            machine._rewrite()
        simulation.deprovision(simulation.buyers[0])
        machine._write()
        simulation.drain()
        world = simulation.world
        ledger = [
            {name: value for name, value in item.items() if name != "attemptId"}
            for item in ledger_of(world, "eu-west-1")
        ]
        requests = [
            (entry.at, [(o.record, o.status) for o in entry.outcomes])
            for entry in world.marketplace.requests()
        ]
        return requests, world.dynamodb.items(USAGE), ledger

    assert stored(skip_idle=True) == stored(skip_idle=False)
