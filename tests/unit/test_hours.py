"""Hour buckets and deadlines: the worked cases of the month boundary, and the rules between them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.hours import (
    HOUR,
    BillingWindow,
    bucket_of,
    floor_hour,
    format_instant,
    format_second,
    is_previous_month,
    month_wall,
    parse_bucket,
    parse_instant,
    parse_second,
)
from tests.unit.metering_support import utc

DEFAULT = BillingWindow()
SECOND = timedelta(seconds=1)

instants = st.integers(0, int(timedelta(days=5 * 365).total_seconds())).map(
    lambda seconds: utc(2024, 1, 1) + timedelta(seconds=seconds)
)
hours = instants.map(floor_hour)
windows = st.integers(2, 24).flatmap(
    lambda billable: st.builds(BillingWindow, st.just(billable), st.integers(1, min(20, billable - 1)))
)


# --- buckets and texts -----------------------------------------------------------------------------


def test_an_instant_in_another_zone_falls_into_the_utc_hour() -> None:
    local = datetime(2026, 12, 1, 1, 30, 59, 7, tzinfo=timezone(timedelta(hours=2)))
    assert floor_hour(local) == utc(2026, 11, 30, 23)
    assert bucket_of(local) == "2026-11-30T23"
    assert format_second(local) == "2026-11-30T23:30:59"
    assert format_instant(local) == "2026-11-30T23:30:59Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-30",
        "2026-11-30T24",
        "2026-11-30T3",
        "2026-11-31T03",
        "2026-02-29T03",
        "0000-01-01T00",
        "2026-11-30 03",
        "2026-11-30T03Z",
        "2026-11-30T03:00",
        "2026-11-30T03\n",
        " 2026-11-30T03",
        "٢٠٢٦-11-30T03",
    ],
)
def test_a_text_that_is_no_canonical_bucket_names_no_hour(text: str) -> None:
    assert parse_bucket(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-30T03",
        "2026-11-30T03:00",
        "2026-11-30T03:60:00",
        "2026-11-30T03:00:60",
        "2026-11-30T24:00:00",
        "2026-11-31T03:00:00",
        "2026-11-30T03:00:00Z",
        "2026-11-30T03:00:00.5",
        "2026-11-30T03:00:00\n",
        "2026-11-30t03:00:00",
    ],
)
def test_a_text_that_is_no_second_is_malformed(text: str) -> None:
    assert parse_second(text) is None


def test_texts_of_early_years_keep_their_form() -> None:
    for text in ("0001-01-01T00", "0999-12-31T23"):
        hour = parse_bucket(text)
        assert hour is not None
        assert (bucket_of(hour), format_second(hour), format_instant(hour)) == (
            text,
            f"{text}:00:00",
            f"{text}:00:00Z",
        )


def test_a_leap_day_is_an_hour_of_its_year_only() -> None:
    assert parse_bucket("2028-02-29T23") == utc(2028, 2, 29, 23)
    assert parse_second("2028-02-29T23:59:59") == utc(2028, 2, 29, 23, 59, 59)


@given(instants)
def test_texts_and_instants_convert_both_ways(instant: datetime) -> None:
    assert parse_bucket(bucket_of(instant)) == floor_hour(instant)
    assert parse_second(format_second(instant)) == instant
    assert parse_instant(format_instant(instant)) == instant


@pytest.mark.parametrize("text", ["2026-11-30T03:00:00", "2026-11-30T03:00:00+00:00", "yesterday"])
def test_a_stored_time_of_another_form_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="does not match"):
        parse_instant(text)


# --- the month wall --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last_hour", "wall"),
    [
        (utc(2026, 1, 31, 23), utc(2026, 2, 1, 6)),
        (utc(2026, 2, 28, 23), utc(2026, 3, 1, 6)),
        (utc(2028, 2, 28, 23), utc(2028, 3, 1, 6)),
        (utc(2028, 2, 29, 23), utc(2028, 3, 1, 6)),
        (utc(2026, 4, 30, 23), utc(2026, 5, 1, 6)),
        (utc(2026, 11, 1, 0), utc(2026, 12, 1, 6)),
        (utc(2026, 12, 31, 23), utc(2027, 1, 1, 6)),
    ],
    ids=["31 days", "28 days", "28 of 29 days", "29 days", "30 days", "first hour", "year end"],
)
def test_a_month_closes_at_six_on_the_first_of_the_next(last_hour: datetime, wall: datetime) -> None:
    assert month_wall(last_hour) == wall


def test_the_28th_of_a_leap_february_is_still_the_same_month_a_day_later() -> None:
    hour = utc(2028, 2, 28, 23)
    assert DEFAULT.deadline(hour) == utc(2028, 2, 29, 23)
    assert DEFAULT.raw_deadline(hour) == utc(2028, 2, 29, 23)


@pytest.mark.parametrize(
    ("hour", "now", "previous"),
    [
        (utc(2026, 11, 30, 23), utc(2026, 11, 30, 23, 59, 59), False),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1), True),
        (utc(2026, 12, 1), utc(2026, 12, 1), False),
        (utc(2026, 12, 31, 23), utc(2027, 1, 1), True),
        (utc(2026, 12, 1), utc(2026, 11, 30), False),
    ],
)
def test_a_previous_month_hour_lies_before_the_first_of_this_month(
    hour: datetime, now: datetime, previous: bool
) -> None:
    assert is_previous_month(hour, now) is previous


# --- the worked cases: age and month ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("hour", "now", "billable"),
    [
        # Age counts from the hour's start, strictly below 24 hours.
        (utc(2026, 11, 10, 8), utc(2026, 11, 10, 7, 59, 59), False),
        (utc(2026, 11, 10, 8), utc(2026, 11, 10, 8), True),
        (utc(2026, 11, 10, 8), utc(2026, 11, 11, 7, 59, 59), True),
        (utc(2026, 11, 10, 8), utc(2026, 11, 11, 8), False),
        # Previous month: the wall at six, and never later than the age.
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 2, 59, 59), True),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 3), True),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 5, 59, 59), True),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 6), False),
        (utc(2026, 11, 30, 6), utc(2026, 12, 1, 5, 59, 59), True),
        (utc(2026, 11, 30, 6), utc(2026, 12, 1, 6), False),
        (utc(2026, 11, 30, 5), utc(2026, 12, 1, 4, 59, 59), True),
        (utc(2026, 11, 30, 5), utc(2026, 12, 1, 5), False),
        # This month's hours do not know the wall.
        (utc(2026, 12, 1, 0), utc(2026, 12, 1, 6), True),
        (utc(2026, 12, 1, 0), utc(2026, 12, 1, 23, 59, 59), True),
        (utc(2026, 12, 1, 0), utc(2026, 12, 2), False),
        # Year end.
        (utc(2026, 12, 31, 23), utc(2027, 1, 1, 5, 59, 59), True),
        (utc(2026, 12, 31, 23), utc(2027, 1, 1, 6), False),
    ],
)
def test_a_record_is_taken_below_its_age_and_before_its_months_wall(
    hour: datetime, now: datetime, billable: bool
) -> None:
    assert DEFAULT.is_billable(hour, now) is billable


@settings(max_examples=40)
@given(hours, instants)
def test_is_billable_is_the_documented_rule(hour: datetime, now: datetime) -> None:
    same_month = (hour.year, hour.month) == (now.year, now.month)
    first = now.replace(day=1, hour=6, minute=0, second=0)
    expected = timedelta(0) <= now - hour < 24 * HOUR and (same_month or now < first)
    assert DEFAULT.is_billable(hour, now) is expected


@settings(max_examples=40)
@given(hours, st.integers(0, 47 * 3600))
def test_is_billable_is_the_documented_rule_near_the_hour(hour: datetime, seconds: int) -> None:
    now = hour + timedelta(seconds=seconds)
    same_month = (hour.year, hour.month) == (now.year, now.month)
    first = now.replace(day=1, hour=6, minute=0, second=0)
    assert DEFAULT.is_billable(hour, now) is (seconds < 24 * 3600 and (same_month or now < first))


# --- meter mode: lock, window, month ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("lock", "hour", "now", "metered"),
    [
        # The lock counts whole hours back from the running one.
        (1, utc(2026, 11, 10, 8), utc(2026, 11, 10, 8, 59, 59), False),
        (1, utc(2026, 11, 10, 8), utc(2026, 11, 10, 9), True),
        (3, utc(2026, 11, 10, 8), utc(2026, 11, 10, 10, 59, 59), False),
        (3, utc(2026, 11, 10, 8), utc(2026, 11, 10, 11), True),
        (20, utc(2026, 11, 10, 8), utc(2026, 11, 11, 3, 59, 59), False),
        (20, utc(2026, 11, 10, 8), utc(2026, 11, 11, 4), True),
        (20, utc(2026, 11, 10, 8), utc(2026, 11, 11, 7, 59, 59), True),
        (20, utc(2026, 11, 10, 8), utc(2026, 11, 11, 8), False),
        # The running hour and the future are never metered.
        (1, utc(2026, 11, 10, 8), utc(2026, 11, 10, 8), False),
        (1, utc(2026, 11, 10, 8), utc(2026, 11, 10, 7), False),
        # Previous month: locked until 03:00, open until the wall.
        (20, utc(2026, 11, 30, 23), utc(2026, 12, 1, 2, 59, 59), False),
        (20, utc(2026, 11, 30, 23), utc(2026, 12, 1, 3), True),
        (20, utc(2026, 11, 30, 23), utc(2026, 12, 1, 5, 59, 59), True),
        (20, utc(2026, 11, 30, 23), utc(2026, 12, 1, 6), False),
        (4, utc(2026, 11, 30, 22), utc(2026, 12, 1, 1, 59, 59), False),
        (4, utc(2026, 11, 30, 22), utc(2026, 12, 1, 2), True),
        (1, utc(2026, 11, 30, 23), utc(2026, 12, 1), True),
        # This month's young hours keep their lock on the 1st.
        (20, utc(2026, 12, 1, 0), utc(2026, 12, 1, 3), False),
        (20, utc(2026, 12, 1, 0), utc(2026, 12, 1, 6), False),
        (20, utc(2026, 12, 1, 0), utc(2026, 12, 1, 20), True),
        # Year end.
        (20, utc(2026, 12, 31, 23), utc(2027, 1, 1, 2, 59, 59), False),
        (20, utc(2026, 12, 31, 23), utc(2027, 1, 1, 3), True),
    ],
)
def test_meter_mode_takes_complete_unlocked_billable_hours(
    lock: int, hour: datetime, now: datetime, metered: bool
) -> None:
    assert BillingWindow(24, lock).meters(hour, now) is metered


@settings(max_examples=40)
@given(windows, hours, st.integers(0, 30 * 3600))
def test_meter_mode_never_takes_an_unfinished_or_unbillable_hour(
    window: BillingWindow, hour: datetime, seconds: int
) -> None:
    now = hour + timedelta(seconds=seconds)
    if window.meters(hour, now):
        assert hour + HOUR <= now < window.deadline(hour)
        assert is_previous_month(hour, now) or now >= hour + window.lock_hours * HOUR


@settings(max_examples=40)
@given(windows, hours)
def test_every_hour_is_metered_in_its_last_processed_hour(window: BillingWindow, hour: datetime) -> None:
    last = window.last_processed_from(hour)
    assert window.meters(hour, last)
    assert window.meters(hour, last + HOUR - SECOND)
    assert not window.meters(hour, last + HOUR)


@settings(max_examples=40)
@given(windows, hours, st.integers(0, 30 * 60))
def test_once_metered_an_hour_stays_metered_until_its_deadline(
    window: BillingWindow, hour: datetime, minutes: int
) -> None:
    now = hour + timedelta(minutes=minutes)
    if window.meters(hour, now) and now + HOUR / 4 < window.deadline(hour):
        assert window.meters(hour, now + HOUR / 4)


# --- age-out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "hour", "now", "aged_out"),
    [
        (24, utc(2026, 11, 10, 8), utc(2026, 11, 11, 7, 59, 59), False),
        (24, utc(2026, 11, 10, 8), utc(2026, 11, 11, 8), True),
        (2, utc(2026, 11, 10, 8), utc(2026, 11, 10, 9, 59, 59), False),
        (2, utc(2026, 11, 10, 8), utc(2026, 11, 10, 10), True),
        # Previous-month rows wait for the wall, too old or not.
        (24, utc(2026, 11, 30, 2), utc(2026, 12, 1, 2, 59, 59), False),
        (24, utc(2026, 11, 30, 2), utc(2026, 12, 1, 3), False),
        (24, utc(2026, 11, 30, 2), utc(2026, 12, 1, 5, 59, 59), False),
        (24, utc(2026, 11, 30, 2), utc(2026, 12, 1, 6), True),
        (24, utc(2026, 11, 30, 23), utc(2026, 12, 1, 5, 59, 59), False),
        (24, utc(2026, 11, 30, 23), utc(2026, 12, 1, 6), True),
        (24, utc(2026, 11, 30, 0), utc(2026, 12, 1, 0), False),
        (24, utc(2026, 11, 30, 0), utc(2026, 12, 1, 6), True),
        # Too old before the month even ended.
        (24, utc(2026, 11, 29, 23), utc(2026, 11, 30, 23), True),
        (2, utc(2026, 11, 30, 21), utc(2026, 11, 30, 23), True),
        (2, utc(2026, 11, 30, 22), utc(2026, 12, 1, 0), False),
        (2, utc(2026, 11, 30, 23), utc(2026, 12, 1, 5, 59, 59), False),
        (2, utc(2026, 11, 30, 23), utc(2026, 12, 1, 6), True),
        (24, utc(2026, 12, 31, 3), utc(2027, 1, 1, 5, 59, 59), False),
        (24, utc(2026, 12, 31, 3), utc(2027, 1, 1, 6), True),
    ],
)
def test_raw_rows_age_out_with_the_window_and_previous_months_at_the_wall(
    window: int, hour: datetime, now: datetime, aged_out: bool
) -> None:
    assert BillingWindow(window, 1).ages_out(hour, now) is aged_out


@settings(max_examples=40)
@given(windows, hours, st.integers(0, 60 * 3600))
def test_no_row_ages_out_while_its_hour_may_still_be_billed(
    window: BillingWindow, hour: datetime, seconds: int
) -> None:
    now = hour + timedelta(seconds=seconds)
    assert not (window.ages_out(hour, now) and window.is_billable(hour, now))


@settings(max_examples=40)
@given(windows, hours)
def test_age_out_follows_the_deadline_at_once_or_at_the_wall(window: BillingWindow, hour: datetime) -> None:
    raw, deadline = window.raw_deadline(hour), window.deadline(hour)
    assert raw in {deadline, month_wall(hour)}
    assert deadline <= raw <= month_wall(hour)


# --- the last processed hour -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "hour", "license_expiry", "start"),
    [
        (24, utc(2026, 11, 10, 8), None, utc(2026, 11, 11, 7)),
        (2, utc(2026, 11, 10, 8), None, utc(2026, 11, 10, 9)),
        (24, utc(2026, 11, 30, 23), None, utc(2026, 12, 1, 5)),
        (24, utc(2026, 11, 30, 3), None, utc(2026, 12, 1, 2)),
        (24, utc(2026, 12, 31, 20), None, utc(2027, 1, 1, 5)),
        # A closing licence counts like window and wall, whichever is first, at its own minute.
        (24, utc(2026, 11, 10, 8), utc(2026, 11, 10, 12, 34, 56), utc(2026, 11, 10, 11, 34, 56)),
        (24, utc(2026, 11, 10, 8), utc(2026, 11, 12), utc(2026, 11, 11, 7)),
        (24, utc(2026, 11, 30, 23), utc(2026, 12, 1, 7), utc(2026, 12, 1, 5)),
        (24, utc(2026, 11, 30, 23), utc(2026, 12, 1, 5, 30), utc(2026, 12, 1, 4, 30)),
        (24, utc(2026, 11, 10, 8), utc(2026, 11, 10, 8, 30), utc(2026, 11, 10, 7, 30)),
    ],
)
def test_the_last_processed_hour_is_the_least_of_window_wall_and_licence_expiry(
    window: int, hour: datetime, license_expiry: datetime | None, start: datetime
) -> None:
    assert BillingWindow(window, 1).last_processed_from(hour, license_expiry) == start


# --- the hours that a run looks at -----------------------------------------------------------------


@settings(max_examples=40)
@given(windows, instants)
def test_submittable_hours_are_the_complete_billable_ones_oldest_first(
    window: BillingWindow, now: datetime
) -> None:
    found = window.submittable_hours(now)
    assert found == sorted(found)
    around = [floor_hour(now) + back * HOUR for back in range(-50, 3)]
    assert found == [hour for hour in around if hour + HOUR <= now and window.is_billable(hour, now)]


@pytest.mark.parametrize(
    ("now", "oldest", "count"),
    [
        (utc(2026, 11, 10, 8), utc(2026, 11, 9, 9), 23),
        (utc(2026, 11, 10, 8, 59, 59), utc(2026, 11, 9, 9), 23),
        (utc(2026, 12, 1, 5, 59, 59), utc(2026, 11, 30, 6), 23),
        (utc(2026, 12, 1, 6), utc(2026, 12, 1, 0), 6),
    ],
)
def test_the_submitter_sees_23_complete_hours_and_none_of_a_closed_month(
    now: datetime, oldest: datetime, count: int
) -> None:
    found = DEFAULT.submittable_hours(now)
    assert (found[0], len(found)) == (oldest, count)


def test_nothing_is_submittable_when_the_whole_window_lies_behind_the_wall() -> None:
    assert BillingWindow(2, 1).submittable_hours(utc(2026, 12, 1, 0, 30)) == [utc(2026, 11, 30, 23)]
    assert BillingWindow(2, 1).submittable_hours(utc(2026, 12, 1, 1, 0)) == [utc(2026, 12, 1, 0)]


@settings(max_examples=40)
@given(windows, hours, st.integers(0, 7 * 24 * 60 - 1))
def test_whatever_is_past_its_deadline_is_looked_for_during_seven_days(
    window: BillingWindow, hour: datetime, minutes: int
) -> None:
    for deadline in (window.deadline(hour), window.raw_deadline(hour)):
        now = max(deadline, hour + HOUR)
        assert hour in window.lookback(now)
    assert hour in window.lookback(hour + window.billable_hours * HOUR + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("window", "hour", "last"),
    [
        (DEFAULT, utc(2026, 11, 10, 8), utc(2026, 11, 18, 8, 59, 59)),
        (DEFAULT, utc(2026, 11, 30, 23), utc(2026, 12, 8, 23, 59, 59)),
        (BillingWindow(2, 1), utc(2026, 11, 10, 8), utc(2026, 11, 17, 10, 59, 59)),
    ],
)
def test_an_hour_is_forgotten_when_it_leaves_the_lookback(
    window: BillingWindow, hour: datetime, last: datetime
) -> None:
    assert hour in window.lookback(last)
    assert not window.is_forgotten(hour, last)
    after = last + timedelta(seconds=1)
    assert hour not in window.lookback(after)
    assert window.is_forgotten(hour, after)


@settings(max_examples=60)
@given(windows, hours, st.integers(-60, 9 * 24 * 60))
def test_a_complete_hour_is_forgotten_or_looked_back_at_never_both(
    window: BillingWindow, hour: datetime, minutes: int
) -> None:
    now = hour + timedelta(minutes=minutes)
    looked_at = hour in window.lookback(now)
    assert window.is_forgotten(hour, now) is (not looked_at and hour + HOUR <= now)


@settings(max_examples=40)
@given(windows, instants)
def test_the_lookback_is_whole_hours_newest_first_without_the_running_one(
    window: BillingWindow, now: datetime
) -> None:
    back = window.lookback(now)
    assert back[0] == floor_hour(now) - HOUR
    assert back[-1] == floor_hour(now) - (window.billable_hours + 7 * 24) * HOUR
    assert all(newer - older == HOUR for newer, older in pairwise(back))


@settings(max_examples=60)
@given(windows, instants)
def test_three_runs_of_expiry_read_the_whole_lookback_whenever_they_start(
    window: BillingWindow, now: datetime
) -> None:
    runs = [now + timedelta(minutes=5 * number) for number in range(3)]
    read = set().union(*(window.expiry_hours(run) for run in runs))
    assert read >= set(window.lookback(runs[0])) & set(window.lookback(runs[-1]))


@settings(max_examples=60)
@given(windows, hours, st.integers(0, 3 * 60 - 1))
def test_every_run_of_expiry_reads_an_hour_for_three_hours_after_its_deadline(
    window: BillingWindow, hour: datetime, minutes: int
) -> None:
    deadline = max(window.deadline(hour), hour + HOUR)
    assert hour in window.expiry_hours(deadline + timedelta(minutes=minutes))


def test_a_run_of_expiry_reads_fewer_than_half_of_the_hours() -> None:
    now = utc(2026, 11, 10, 8, 25)
    read = DEFAULT.expiry_hours(now)
    assert len(DEFAULT.lookback(now)) == 192
    assert len(read) == 82
    assert read == sorted(read, reverse=True)


@settings(max_examples=40)
@given(hours, windows)
def test_seven_shards_share_the_lookback_and_every_hour_has_one_owner(
    hour: datetime, window: BillingWindow
) -> None:
    numbered = list(enumerate(window.lookback(hour), start=1))
    owners = [[each for back, each in numbered if back % 7 == shard] for shard in range(7)]
    assert sorted(each for owned in owners for each in owned) == sorted(window.lookback(hour))
