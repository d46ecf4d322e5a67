"""The pace of requests: never above the quota, and longer pauses after throttling."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.pacing import DEFAULT_REQUESTS_PER_SECOND, Pacer
from tests.unit.metering_support import HOUR_START

SECOND = timedelta(seconds=1)


def most_in_a_second(starts: list[datetime]) -> int:
    return max(sum(start <= other < start + SECOND for other in starts) for start in starts)


def run(pacer: Pacer, waits: list[int]) -> list[datetime]:
    """Send as early as allowed, after waiting so many milliseconds each time."""
    now, starts = HOUR_START, []
    for wait in waits:
        now += timedelta(milliseconds=wait)
        now = pacer.next_turn(now)
        pacer.take(now)
        starts.append(now)
    return starts


def test_the_first_request_may_start_at_once_and_the_next_after_its_share_of_a_second() -> None:
    pacer = Pacer(10)
    assert pacer.next_turn(HOUR_START) == HOUR_START
    pacer.take(HOUR_START)
    assert pacer.next_turn(HOUR_START) == HOUR_START + SECOND / 10
    assert pacer.next_turn(HOUR_START + SECOND) == HOUR_START + SECOND


@pytest.mark.parametrize("rate", range(1, 11))
def test_at_full_speed_no_second_has_more_than_its_quota(rate: int) -> None:
    starts = run(Pacer(rate), [0] * 40)
    assert most_in_a_second(starts) == rate
    assert starts[-1] - starts[0] <= 39 * (SECOND / rate + timedelta(microseconds=1)), "nor needlessly less"


@settings(max_examples=50)
@given(
    st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 10, 2.5, 0.3, 0.5]),
    st.lists(st.integers(0, 1500), min_size=1, max_size=40),
)
def test_no_pause_is_ever_saved_up_for_a_burst(rate: float, waits: list[int]) -> None:
    starts = run(Pacer(rate), waits)
    assert most_in_a_second(starts) <= max(1, -(-rate // 1))
    assert starts == sorted(starts)
    assert all(later - earlier >= SECOND / rate for earlier, later in pairwise(starts))


def test_at_the_documented_quota_the_pipeline_loses_nothing() -> None:
    starts = run(Pacer(DEFAULT_REQUESTS_PER_SECOND), [0] * 101)
    assert starts[-1] - starts[0] == 10 * SECOND


@pytest.mark.parametrize(
    ("jitter", "pauses"),
    [(0.0, [0.25, 0.5, 1, 2, 4, 4, 4]), (0.5, [0.375, 0.75, 1.5, 3, 6, 6, 6])],
)
def test_throttling_in_a_row_pauses_longer_up_to_a_limit(jitter: float, pauses: list[float]) -> None:
    pacer, now, seen = Pacer(10), HOUR_START, []
    for _ in pauses:
        pacer.take(now)
        pacer.throttled(now, jitter)
        seen.append((pacer.next_turn(now) - now).total_seconds())
        now = pacer.next_turn(now)
    assert seen == pauses


def test_an_answer_ends_the_row_of_throttling() -> None:
    pacer = Pacer(10)
    for _ in range(4):
        pacer.throttled(HOUR_START, 0.0)
    pacer.answered()
    later = HOUR_START + timedelta(minutes=1)
    pacer.throttled(later, 0.0)
    assert pacer.next_turn(later) == later + SECOND / 4


def test_a_pause_never_moves_the_next_turn_forward() -> None:
    pacer = Pacer(0.1)
    pacer.take(HOUR_START)
    pacer.throttled(HOUR_START, 0.0)
    assert pacer.next_turn(HOUR_START) == HOUR_START + 10 * SECOND


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("tra"), st.floats(0, 0.999), st.integers(0, 3000)), max_size=40))
def test_throttling_never_lets_a_request_start_early(steps: list[tuple[str, float, int]]) -> None:
    pacer, now, starts = Pacer(10), HOUR_START, list[datetime]()
    for step, jitter, wait in steps:
        now += timedelta(milliseconds=wait)
        earliest = pacer.next_turn(now)
        assert earliest >= now
        if step == "t":
            pacer.throttled(now, jitter)
            assert now + SECOND / 4 <= pacer.next_turn(now) <= max(earliest, now + 8 * SECOND)
        elif step == "a":
            pacer.answered()
            assert pacer.next_turn(now) == earliest
        else:
            now = earliest
            pacer.take(now)
            starts.append(now)
    if starts:
        assert most_in_a_second(starts) <= 10
