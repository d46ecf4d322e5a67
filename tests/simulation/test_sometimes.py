"""The faults and branches that the runs have to meet: a run of the suite that never met one of them fails.

A promise that was only ever checked in fair weather proves little. Each name below is counted where it
happens: in the fault plan, in the Marketplace's history, in the metrics and in the tables.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest

from tests.simulation.faults import MARKETPLACE_FAULTS, Kind
from tests.simulation.machine import FLAWS, FUNCTIONS, PROFILES, UNCLAIMED, Machine, branches

# One worker plays the runs, once for all tests.
pytestmark = [pytest.mark.slow, pytest.mark.proof, pytest.mark.xdist_group("sometimes")]

#: Runs of this module, beside those of test_machine; played in parts, so that no test takes minutes.
RUNS = 60
STEPS = 60
PARTS = 6

FAULTS_AT_CALLS = [
    *Kind,
    *(
        f"{kind} in {function}"
        for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)
        for function in FUNCTIONS[:5]
    ),
    "batch-entry-failed",
    "batch-entry-failed in BatchExecuteStatement",
    "batch-entry-failed in BatchGetItem",
    "batch-entry-failed in SendMessageBatch",
]

FAULTS_OF_THE_MARKETPLACE = sorted({fault.kind for fault in MARKETPLACE_FAULTS.values()})

FAULTS_OF_DELIVERY = [
    "duplicate-messages",
    "delayed-messages",
    "reordered-messages",
    "stale-reads",
    "work-delivered-again",
    "event-delivered-again",
    "event-delayed",
    "poison-message",
    "dead letter",
    "redriven",
]

OUTAGES = [
    "down for 1 h",
    "down for 5 h",
    "down for 23 h",
    "down for 25 h",
    "region-down",
    *(f"{function}-down" for function in FUNCTIONS[:5]),
    "redeployed",
]

WRITES = [
    "row-late-by-hours",
    "row-late-by-days",
    "writer-clock-ahead",
    "row-rewritten",
    "row-rewritten-by-set",
    "row-rewritten-by-add",
    "write-during-a-run",
    "flawed-row-corrected",
    "unclaimed-row-corrected",
    "claimed-row-overwritten-by-an-unclaimable-one",
    *(f"flaw {flaw}" for flaw in (*FLAWS, *UNCLAIMED)),
    *(f"overlap with {function}" for function in ("discoverer", "submitter", "expiry")),
]

LIFECYCLE = [
    "licence-ends-in-use",
    "deprovisioned",
    "revived",
    "account-suspended",
    "activated-within-the-hour",
]

BRANCHES = [
    "answer without exception",
    "answer InvalidUsageDimensionException",
    "answer InvalidLicenseException",
    "answer DisabledApiException",
    "record Success",
    "record CustomerNotSubscribed",
    "record DuplicateRecord",
    "record Unprocessed",
    "identical resend",
    "zero sent",
    "allocations sent",
    "stamped with the activation",
    "previous month billed before the wall",
    "success after an unknown outcome",
    "ended Success",
    "ended CustomerNotSubscribed",
    "ended DuplicateRecord",
    "ended RejectedClientSide",
    "ended AggregationExpired",
    "ended SubmissionExpired",
    "ended OutcomeUnknown",
    "surfaced LateAfterSubmission",
    "surfaced AfterFinalFlush",
    "surfaced PossibleUnderBilling",
    "stamped Aggregated",
    "stamped LateAfterSubmission",
    "stamped AggregationExpired",
    "stamped RejectedClientSide",
    "metric UsageRecordUnprocessed",
    "metric BatchMeterUsageThrottled",
    "metric EventStale",
    "metric EventParked",
    "metric LicensesFinalized",
]


@cache
def played(part: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for number in range(part, RUNS, PARTS):
        machine = Machine(PROFILES[number % len(PROFILES)], random.Random(number))
        total.update(branches(machine.play(STEPS)))
    return total


@cache
def met() -> Counter[str]:
    return sum((played(part) for part in range(PARTS)), Counter())


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_holds_in_the_runs_that_are_counted(part: int) -> None:
    assert played(part)["record Success"] > 0


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FAULTS_AT_CALLS, id="faults-at-calls"),
        pytest.param(FAULTS_OF_THE_MARKETPLACE, id="faults-of-the-marketplace"),
        pytest.param(FAULTS_OF_DELIVERY, id="faults-of-delivery"),
        pytest.param(OUTAGES, id="outages"),
        pytest.param(WRITES, id="writes"),
        pytest.param(LIFECYCLE, id="lifecycle"),
        pytest.param(BRANCHES, id="branches"),
    ],
)
def test_every_named_fault_and_branch_was_met(names: list[str]) -> None:
    assert [name for name in names if not met()[name]] == []
