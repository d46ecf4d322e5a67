"""``python -m sandbox.soak --seconds N``: random runs of the simulation until the time is up.

Prints the first seed and the figures. When promises break it plays on to the end of the time, then names the
smallest seed that broke one, with the step at which it did, and exits with 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.machine import PROFILES, Machine, Profile, branches


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that broke a promise: its seed alone plays it again."""

    seed: int
    profile: str
    steps: int
    told: str


@dataclass(slots=True)
class Figures:
    """What was played."""

    runs: int = 0
    steps: int = 0
    days: float = 0.0
    invocations: int = 0
    met: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """Play and report; 0 when every promise held, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=80, help="steps of each run")
    parser.add_argument("--seed", type=int, help="play this one run only")
    parser.add_argument("--first", type=int, help="begin with this seed instead of a random one")
    parser.add_argument("--profile", choices=[profile.name for profile in PROFILES])
    options = parser.parse_args(arguments)
    figures = Figures()
    if options.seed is not None:
        _play(figures, options.seed, _profile(options.seed, options.profile), options.steps)
    else:
        first = random.SystemRandom().randrange(2**32) if options.first is None else options.first
        print(f"first seed {first}", flush=True)
        ends, seed = time.monotonic() + options.seconds, first
        while time.monotonic() < ends or figures.runs == 0:
            _play(figures, seed, _profile(seed, options.profile), options.steps)
            seed += 1
    _report(figures)
    return 1 if figures.failures else 0


def _profile(seed: int, name: str | None) -> Profile:
    if name is None:
        return PROFILES[seed % len(PROFILES)]
    return next(profile for profile in PROFILES if profile.name == name)


def _play(figures: Figures, seed: int, profile: Profile, steps: int) -> None:
    machine = Machine(profile, random.Random(seed))
    try:
        machine.play(steps)
    except Exception as error:  # noqa: BLE001 - whatever a run ends with is its result
        told = f"{type(error).__name__}: {error}"
        figures.failures.append(Failure(seed, profile.name, machine.steps.total(), told))
    world = machine.simulation.world
    figures.runs += 1
    figures.steps += machine.steps.total()
    figures.days += (machine.simulation.now - world.start).total_seconds() / 86_400
    figures.invocations += world.invocations
    figures.met.update(branches(machine.simulation))


def _report(figures: Figures) -> None:
    print(
        f"{figures.runs} runs, {figures.steps} steps, {figures.days:.1f} simulated days, "
        f"{figures.invocations} invocations, {len(figures.failures)} broken"
    )
    for name, count in sorted(figures.met.items()):
        if not name.startswith("metric "):
            print(f"  {count:8d}  {name}")
    if figures.failures:
        smallest = min(figures.failures, key=lambda failure: (failure.steps, failure.seed))
        print(f"smallest: --seed {smallest.seed} --profile {smallest.profile}, at step {smallest.steps}")
        print(smallest.told)


if __name__ == "__main__":
    sys.exit(main())
