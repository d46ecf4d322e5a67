"""What a fold does to the ledger record, in every state in which it can be met."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from awsmp.domain.batching import request_problem
from awsmp.domain.folding import Fold, Rejection
from awsmp.domain.hours import BillingWindow
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import (
    Billed,
    DryRun,
    Duplicate,
    LedgerRecord,
    NotSubscribed,
    Outcome,
    Readiness,
    Refused,
    Released,
    Surfacing,
    Unknown,
    advance,
    apply_outcome,
    begin_attempt,
    close_rejected,
    expire,
    newly_rejected,
    readiness,
    refuse,
    surfacings,
)
from awsmp.domain.ports import Metric
from awsmp.domain.quantities import QuantityType
from awsmp.domain.reasons import MeteringStatus as Status
from awsmp.domain.reasons import SurfacedReason, ValidationReason
from awsmp.usecases.surfacing import report_surfacing
from tests.unit.metering_support import (
    CLOSED,
    GROUP,
    HOUR_START,
    LAST,
    LEGACY_GROUP,
    LICENSE,
    OPEN,
    SENDER_TIMEOUT,
    WINDOW,
    allocation,
    blocked_fold,
    conserves,
    fold_of,
    fold_rows,
    folded,
    pending,
    row,
    sent,
    tagged,
    utc,
    values,
    whole_fold,
)

NEGATIVE = ValidationReason.NEGATIVE_QUANTITY
TEXT = ValidationReason.NON_NUMERIC_QUANTITY
MIXED = ValidationReason.MIXED_ALLOCATED_AND_UNALLOCATED
LATE = SurfacedReason.LATE_AFTER_SUBMISSION
FINAL = SurfacedReason.AFTER_FINAL_FLUSH
SECOND = timedelta(seconds=1)


# --- the first fold --------------------------------------------------------------------------------


def test_the_first_fold_creates_a_pending_record() -> None:
    record = folded(None, fold_of(10, allocations=[allocation(10, ("k", "v"))], digest="d"))
    assert values(record.total, record.quantity, record.billed, record.surfaced) == (10, 10, 0, 0)
    assert (record.pending, record.status, record.attempt, record.digest) == (True, None, None, "d")
    assert record.allocations == (allocation(10, ("k", "v")),)
    assert record.timestamp == HOUR_START
    assert not record.blocked


def test_an_hour_that_has_not_begun_is_not_folded() -> None:
    with pytest.raises(ValueError, match="not begun"):
        folded(None, fold_of(10), now=HOUR_START - SECOND)
    with pytest.raises(ValueError, match="not begun"):
        folded(pending(), fold_of(11), now=HOUR_START - SECOND)
    assert folded(None, fold_of(10), now=HOUR_START).pending


def test_a_group_with_bad_rows_is_created_blocked_with_its_valid_part_pending() -> None:
    record = folded(None, blocked_fold(7, -3))
    assert (record.pending, record.blocked, record.has_valid_part) == (True, True, True)
    assert (record.status, record.status_reason) == (Status.REJECTED_CLIENT_SIDE, NEGATIVE)
    assert values(record.total, record.pending_quantity, record.surfaced) == (4, 7, -3)
    assert record.surfaced_by_reason() == {NEGATIVE: -3}


def test_a_group_that_is_refused_whole_is_created_blocked_without_a_valid_part() -> None:
    record = folded(None, whole_fold(9))
    assert values(record.blocked, record.has_valid_part, record.pending_quantity) == (True, False, 0)
    assert record.surfaced_by_reason() == {MIXED: 9}


@pytest.mark.parametrize("fold", [fold_of(10), blocked_fold(7, -3), whole_fold(9), fold_of(0)])
@pytest.mark.parametrize("direct", [False, True])
def test_a_bucket_that_can_no_longer_be_billed_is_terminal_at_once(fold: Fold, direct: bool) -> None:
    record = folded(None, fold, now=CLOSED, direct=direct)
    status = Status.SUBMISSION_EXPIRED if direct else Status.AGGREGATION_EXPIRED
    assert (record.pending, record.status, record.status_reason) == (False, status, status)
    assert record.surfaced == fold.total
    assert record.surfaced_by_reason().get(status, 0) == fold.billable
    assert conserves(record)


@pytest.mark.parametrize(
    ("hour", "now", "expired"),
    [
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 2, 59, 59), False),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 3), False),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 5, 59, 59), False),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 6), True),
        # Raw rows of the previous month are looked for until the wall; too old is too old before it.
        (utc(2026, 11, 30, 3), utc(2026, 12, 1, 2, 59, 59), False),
        (utc(2026, 11, 30, 3), utc(2026, 12, 1, 3), True),
    ],
)
def test_the_first_fold_at_the_month_boundary(hour: datetime, now: datetime, expired: bool) -> None:
    record = folded(None, fold_of(10), group=replace(GROUP, hour=hour), now=now)
    assert record.pending is not expired


# --- folds of a pending record that was not sent ---------------------------------------------------


def test_the_same_fold_again_changes_nothing_at_all() -> None:
    record = pending()
    assert folded(record, fold_of(10)) is record
    assert folded(sent(), fold_of(10)) == sent()


@pytest.mark.parametrize("record", [pending(), sent(), apply_outcome(sent(), "a-1", Billed("r-1"))])
def test_the_same_fold_at_the_final_flush_sets_the_flag_and_nothing_else(record: LedgerRecord) -> None:
    flushed = folded(record, fold_of(10), final_flush=True)
    assert flushed == replace(record, final_flush=True)
    assert folded(flushed, fold_of(10), final_flush=True) is flushed
    assert folded(flushed, fold_of(10)) is flushed


@pytest.mark.parametrize(
    "refused",
    [
        (),
        (Rejection(NEGATIVE, 1, Decimal(-3), "other rows"),),
        (Rejection(NEGATIVE, 2, Decimal(-3), "1 of -3"),),
    ],
    ids=["nothing", "another row", "more rows"],
)
@pytest.mark.parametrize("record", [pending(blocked_fold(7, -3)), sent(blocked_fold(7, -3))])
def test_a_fold_that_refuses_other_rows_is_another_fold_even_with_the_same_digest(
    record: LedgerRecord, refused: tuple[Rejection, ...]
) -> None:
    before = blocked_fold(7, -3)
    assert folded(record, before) is record
    assert folded(record, replace(before, rejections=refused)).rejections == refused


@pytest.mark.parametrize("identifier", [None, "c-2"])
def test_a_pending_record_names_the_customer_that_its_last_fold_names(identifier: str | None) -> None:
    """An identifier that no row holds any more is not sent."""
    record = pending(fold_of(10, customer_identifier="c-1"), group=LEGACY_GROUP)
    newer = folded(record, fold_of(11, customer_identifier=identifier), group=LEGACY_GROUP)
    assert newer.customer_identifier == identifier


@pytest.mark.parametrize("quantity", [0, 9, 11])
def test_a_pending_record_without_an_attempt_takes_the_new_fold(quantity: int) -> None:
    record = folded(pending(fold_of(10, allocations=[allocation(10, ("k", "v"))])), fold_of(quantity))
    assert values(record.total, record.quantity, record.allocations, record.surfaced) == (
        quantity,
        quantity,
        (),
        0,
    )
    assert record.pending


def test_a_corrected_row_unblocks_the_group() -> None:
    record = folded(pending(blocked_fold(7, -3)), fold_of(10))
    assert (record.blocked, record.status, record.status_reason, record.rejection) == (
        False,
        None,
        None,
        None,
    )
    assert values(record.total, record.quantity, record.surfaced) == (10, 10, 0)


def test_a_bad_row_blocks_a_pending_group() -> None:
    record = folded(pending(fold_of(10)), blocked_fold(10, -3))
    assert values(record.blocked, record.total, record.quantity, record.surfaced) == (True, 7, 10, -3)


def test_a_deployment_that_judges_the_same_rows_otherwise_reopens_them() -> None:
    rows = [row(0, Decimal("1.5"))]
    strict = fold_rows(*rows)
    record = pending(strict)
    assert record.blocked
    lenient = fold_rows(*rows, kind=QuantityType.DECIMAL)
    assert lenient.digest == strict.digest
    reopened = folded(record, lenient)
    assert values(reopened.blocked, reopened.quantity, reopened.surfaced) == (False, Decimal("1.5"), 0)


@pytest.mark.parametrize(
    ("fold", "status"),
    [
        (fold_of(11), Status.SUBMISSION_EXPIRED),
        (blocked_fold(), Status.SUBMISSION_EXPIRED),
        (whole_fold(), Status.REJECTED_CLIENT_SIDE),
    ],
)
def test_a_pending_record_that_is_folded_after_its_deadline_is_closed(fold: Fold, status: Status) -> None:
    record = folded(pending(), fold, now=CLOSED)
    assert (record.pending, record.status, record.total, record.surfaced) == (
        False,
        status,
        fold.total,
        fold.total,
    )
    assert conserves(record)


# --- folds while the bytes are frozen, and afterwards ----------------------------------------------


def after(outcome: Outcome, record: LedgerRecord | None = None) -> LedgerRecord:
    return apply_outcome(record or sent(), "a-1", outcome)


FROZEN = {
    "open": sent(),
    "unknown": after(Unknown()),
    "sent again": begin_attempt(after(Unknown()), "a-2", now=OPEN + SENDER_TIMEOUT),
}


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize("final_flush", [False, True])
def test_a_late_fold_never_changes_what_was_sent_and_is_surfaced(name: str, final_flush: bool) -> None:
    frozen = FROZEN[name]
    late = folded(frozen, fold_of(13), final_flush=final_flush)
    assert (late.quantity, late.timestamp, late.allocations, late.attempt) == (
        frozen.quantity,
        frozen.timestamp,
        frozen.allocations,
        frozen.attempt,
    )
    assert values(late.total, late.pending_quantity, late.surfaced) == (13, 10, 3)
    assert late.surfaced_by_reason() == {FINAL if final_flush else LATE: 3}


@pytest.mark.parametrize("name", FROZEN)
def test_a_shrinking_fold_is_surfaced_with_its_sign(name: str) -> None:
    assert folded(FROZEN[name], fold_of(6)).surfaced_by_reason() == {LATE: -4}


def test_bad_rows_that_come_late_are_surfaced_by_their_own_name() -> None:
    late = folded(sent(), blocked_fold(12, -3))
    assert late.surfaced_by_reason() == {NEGATIVE: -3, LATE: 2}
    assert not late.blocked, "the bytes under way are sent again whatever came after them"


def test_late_quantity_is_billed_after_all_when_the_refusal_was_definitive() -> None:
    record = after(Released(), folded(sent(), fold_of(13)))
    assert values(record.attempt, record.quantity, record.surfaced) == (None, 13, 0)


def test_bad_rows_that_came_meanwhile_block_the_released_record() -> None:
    record = after(Released(), folded(sent(), blocked_fold(12, -3)))
    assert values(record.blocked, record.quantity, record.surfaced) == (True, 12, -3)
    assert (record.status, record.status_reason) == (Status.REJECTED_CLIENT_SIDE, NEGATIVE)


def test_allocations_that_changed_while_frozen_require_another_fold() -> None:
    frozen = sent(fold_of(10, allocations=[allocation(10, ("k", "v"))]))
    newer = fold_of(10, allocations=[allocation(10, ("k", "w"))])
    late = folded(frozen, newer)
    assert (late.content_stale, late.allocations) == (True, frozen.allocations)
    released = after(Released(), late)
    assert (released.refold_required, released.content_stale) == (True, False)
    assert ready(released) is Readiness.REFOLD
    refolded = folded(released, newer)
    assert (refolded.refold_required, refolded.allocations) == (False, newer.allocations)
    assert ready(refolded) is Readiness.SEND


def test_allocations_that_came_back_to_what_is_frozen_require_no_fold() -> None:
    first = fold_of(10, allocations=[allocation(10, ("k", "v"))])
    other = fold_of(10, allocations=[allocation(10, ("k", "w"))])
    assert not folded(folded(sent(first), other), first).content_stale


def test_a_customer_identifier_that_changed_while_frozen_is_the_one_that_is_sent_after_release() -> None:
    first, corrected = fold_of(10, customer_identifier="c-wrong"), fold_of(10, customer_identifier="c-right")
    frozen = begin_attempt(pending(first, group=LEGACY_GROUP), "a-1", now=OPEN)
    released = after(Released(), folded(frozen, corrected, group=LEGACY_GROUP))
    assert ready(released) is Readiness.REFOLD, "the newer fold's customer is not in the record"
    again = folded(released, corrected, group=LEGACY_GROUP)
    assert (again.customer_identifier, again.refold_required) == ("c-right", False)
    assert ready(again) is Readiness.SEND


# --- folds of a terminal record --------------------------------------------------------------------

TERMINAL: dict[str, LedgerRecord] = {
    "Success": after(Billed("r-1")),
    "DryRunSubmitted": after(DryRun(counted=True)),
    "DuplicateRecord": after(Duplicate()),
    "CustomerNotSubscribed": after(NotSubscribed()),
    "CustomerNotSubscribed, sent before": after(NotSubscribed(), after(Unknown())),
    "OutcomeUnknown": expire(after(Unknown()), now=CLOSED, window=WINDOW),
    "SubmissionExpired": expire(pending(), now=CLOSED, window=WINDOW),
    "AggregationExpired": folded(None, fold_of(10), now=CLOSED),
}


@pytest.mark.parametrize("name", TERMINAL)
@pytest.mark.parametrize("quantity", [13, 6, 0])
def test_a_late_fold_of_a_terminal_record_is_surfaced_as_late_beside_the_status_own_reason(
    name: str, quantity: int
) -> None:
    record = TERMINAL[name]
    earlier = record.surfaced_by_reason()
    difference = quantity - 10
    late = folded(record, fold_of(quantity), now=CLOSED)
    assert late.surfaced_by_reason() == {**earlier, LATE: difference}
    flushed = folded(record, fold_of(quantity), now=CLOSED, final_flush=True)
    assert flushed.surfaced_by_reason() == {**earlier, FINAL: difference}
    assert surfacings(record, late) == [Surfacing(LATE, Decimal(difference), Decimal(difference))]


@pytest.mark.parametrize("name", TERMINAL)
def test_bad_rows_that_come_after_the_end_keep_their_own_name(name: str) -> None:
    record = TERMINAL[name]
    late = folded(record, blocked_fold(12, -3), now=CLOSED)
    assert late.surfaced_by_reason() == {**record.surfaced_by_reason(), NEGATIVE: -3, LATE: 2}


@pytest.mark.parametrize("name", TERMINAL)
@pytest.mark.parametrize("now", [OPEN, CLOSED])
@pytest.mark.parametrize("fold", [fold_of(13), fold_of(6), fold_of(0), blocked_fold(12, -3), whole_fold(9)])
def test_a_fold_never_reopens_a_record_that_was_answered_or_has_expired(
    name: str, now: datetime, fold: Fold
) -> None:
    record = TERMINAL[name]
    late = folded(record, fold, now=now)
    assert (late.pending, late.status, late.quantity, late.billed, late.attempt) == (
        False,
        record.status,
        record.quantity,
        record.billed,
        record.attempt,
    )
    assert late.total == fold.total
    assert late.surfaced == fold.total - record.billed
    assert conserves(late)


def test_what_is_written_after_the_final_flush_has_a_reason_of_its_own() -> None:
    flushed = folded(None, fold_of(10), final_flush=True)
    billed = apply_outcome(begin_attempt(flushed, "a-1", now=OPEN), "a-1", Billed("r-1"))
    assert folded(billed, fold_of(12)).surfaced_by_reason() == {FINAL: 2}


REFUSED: dict[str, LedgerRecord] = {
    "by the Marketplace": after(Refused("InvalidTagException")),
    "before it was sent": refuse(pending(), ValidationReason.RECORD_TOO_LARGE),
    "as a group": close_rejected(pending(whole_fold(10))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_fold_inside_the_window_reopens_a_record_that_was_refused_for_good(name: str) -> None:
    reopened = folded(REFUSED[name], fold_of(13))
    assert (reopened.pending, reopened.attempt, reopened.status, reopened.sent_timestamp) == (
        True,
        None,
        None,
        None,
    )
    assert values(reopened.quantity, reopened.surfaced) == (13, 0)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_record_stays_closed_outside_the_window(name: str) -> None:
    late = folded(REFUSED[name], fold_of(13), now=CLOSED)
    assert values(late.pending, late.status, late.surfaced) == (False, Status.REJECTED_CLIENT_SIDE, 13)
    assert conserves(late)


def test_the_same_fold_does_not_reopen_a_refused_record() -> None:
    record = REFUSED["by the Marketplace"]
    assert folded(record, fold_of(10)) is record


@pytest.mark.parametrize("name", ["by the Marketplace", "before it was sent"])
def test_the_same_fold_at_the_final_flush_does_not_reopen_a_refused_record(name: str) -> None:
    record = REFUSED[name]
    assert folded(record, fold_of(10), final_flush=True) == replace(record, final_flush=True)


def test_a_refused_record_of_unknown_outcome_never_reopens() -> None:
    """Unreachable through the transitions; the guard holds for an item that was edited by hand."""
    record = REFUSED["by the Marketplace"]
    assert record.attempt is not None
    doubtful = replace(record, attempt=replace(record.attempt, unknown=True))
    assert not folded(doubtful, fold_of(13)).pending


BAD_TAG = fold_of(10, allocations=[allocation(10, ("k", "bad"))])


@pytest.mark.parametrize(
    ("newer", "status", "quantity", "next_step"),
    [
        (fold_of(10, allocations=[allocation(10, ("k", "good"))]), None, 10, Readiness.REFOLD),
        (fold_of(13, allocations=[allocation(13, ("k", "bad"))]), None, 13, Readiness.REFOLD),
        (fold_of(10), None, 10, Readiness.REFOLD),
        (whole_fold(10), Status.REJECTED_CLIENT_SIDE, 0, Readiness.REFOLD),
    ],
    ids=["corrected tag", "more of the bad tag", "no tag", "refused whole"],
)
def test_a_refusal_of_what_was_superseded_meanwhile_reopens_the_record(
    newer: Fold, status: Status | None, quantity: int, next_step: Readiness
) -> None:
    record = after(Refused("InvalidTagException"), folded(sent(BAD_TAG), newer))
    assert (record.pending, record.status, record.attempt) == (True, status, None)
    assert record.quantity == quantity
    assert ready(record) is next_step
    assert conserves(record)
    refolded = folded(record, newer)
    assert (refolded.allocations, refolded.refold_required) == (newer.allocations, False)
    assert refolded.quantity == newer.billable


def test_late_quantity_of_a_refused_record_gets_its_own_try_and_is_closed_by_its_own_refusal() -> None:
    released = after(Refused("InvalidCustomerException"), folded(sent(), fold_of(13)))
    assert ready(released) is Readiness.SEND
    again = begin_attempt(released, "a-2", now=OPEN)
    closed = apply_outcome(again, "a-2", Refused("InvalidCustomerException"))
    assert not closed.pending
    assert values(closed.surfaced_by_reason()) == ({"InvalidCustomerException": 13},)


@pytest.mark.parametrize(
    "same_bytes", [blocked_fold(10, -3), fold_of(10, rows=2)], ids=["a bad row", "a row of zero units"]
)
def test_a_refusal_stands_when_the_newer_fold_would_send_the_same_bytes(same_bytes: Fold) -> None:
    record = after(Refused("InvalidCustomerException"), folded(sent(), same_bytes))
    assert (record.pending, record.status) == (False, Status.REJECTED_CLIENT_SIDE)
    assert conserves(record)


def test_a_refusal_of_superseded_bytes_that_may_have_been_honoured_reopens_nothing() -> None:
    frozen = begin_attempt(after(Unknown()), "a-2", now=OPEN + SENDER_TIMEOUT)
    record = after(Refused("InvalidTagException"), folded(frozen, fold_of(13)))
    assert record.attempt is not None
    assert values(record.pending, record.attempt.unknown, record.quantity) == (True, True, 10)


# --- readiness -------------------------------------------------------------------------------------


def ready(
    record: LedgerRecord,
    now: datetime = OPEN,
    *,
    expiry: datetime | None = None,
    window: BillingWindow = WINDOW,
) -> Readiness:
    return readiness(record, now=now, window=window, sender_timeout=SENDER_TIMEOUT, license_expiry=expiry)


@pytest.mark.parametrize(
    ("record", "early", "last"),
    [
        (pending(fold_of(10)), Readiness.SEND, Readiness.SEND),
        (pending(fold_of(0)), Readiness.WAIT, Readiness.SEND),
        (pending(blocked_fold(7, -3)), Readiness.WAIT, Readiness.SEND),
        (pending(blocked_fold(0, -3)), Readiness.WAIT, Readiness.SEND),
        (pending(whole_fold(9)), Readiness.WAIT, Readiness.CLOSE_REJECTED),
    ],
    ids=["plain", "zero total", "bad row", "bad row beside a zero", "no valid part"],
)
def test_zero_totals_and_blocked_groups_wait_until_the_last_processed_hour(
    record: LedgerRecord, early: Readiness, last: Readiness
) -> None:
    assert ready(record, HOUR_START) is early
    assert ready(record, LAST - SECOND) is early
    assert ready(record, LAST) is last
    assert ready(record, CLOSED - SECOND) is last
    assert ready(record, CLOSED) is Readiness.WAIT
    assert ready(record, HOUR_START - SECOND) is Readiness.WAIT


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (utc(2026, 12, 1, 2, 59, 59), Readiness.WAIT),
        (utc(2026, 12, 1, 3), Readiness.WAIT),
        (utc(2026, 12, 1, 4, 59, 59), Readiness.WAIT),
        (utc(2026, 12, 1, 5), Readiness.SEND),
        (utc(2026, 12, 1, 5, 59, 59), Readiness.SEND),
        (utc(2026, 12, 1, 6), Readiness.WAIT),
    ],
)
def test_the_last_processed_hour_of_a_month_is_the_one_before_the_wall(
    now: datetime, expected: Readiness
) -> None:
    group = replace(GROUP, hour=utc(2026, 11, 30, 23))
    assert ready(pending(fold_of(0), group=group), now) is expected


def test_a_closing_licence_brings_the_last_processed_hour_forward() -> None:
    expiry = HOUR_START + timedelta(hours=3, minutes=20)
    last = expiry - timedelta(hours=1)
    for record in (pending(fold_of(0)), pending(blocked_fold())):
        assert ready(record, last - SECOND, expiry=expiry) is Readiness.WAIT
        assert ready(record, last, expiry=expiry) is Readiness.SEND
    assert ready(pending(whole_fold()), last, expiry=expiry) is Readiness.CLOSE_REJECTED


def test_an_open_attempt_is_left_alone_while_its_sender_may_live() -> None:
    record = sent(now=OPEN)
    assert ready(record, OPEN) is Readiness.WAIT
    assert ready(record, OPEN + SENDER_TIMEOUT - SECOND) is Readiness.WAIT
    assert ready(record, OPEN + SENDER_TIMEOUT) is Readiness.SEND


def test_frozen_bytes_are_sent_again_at_once_and_until_the_deadline() -> None:
    unknown = after(Unknown())
    assert ready(unknown, OPEN) is Readiness.SEND
    assert ready(folded(unknown, blocked_fold()), OPEN) is Readiness.SEND
    assert ready(folded(unknown, fold_of(0)), OPEN) is Readiness.SEND
    assert ready(unknown, CLOSED - SECOND) is Readiness.SEND
    assert ready(unknown, CLOSED) is Readiness.WAIT


@pytest.mark.parametrize("name", TERMINAL)
def test_a_terminal_record_is_never_sent(name: str) -> None:
    assert ready(TERMINAL[name]) is Readiness.WAIT
    assert ready(TERMINAL[name], LAST) is Readiness.WAIT


# --- the deadline ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "status", "reason"),
    [
        (pending(), Status.SUBMISSION_EXPIRED, SurfacedReason.SUBMISSION_EXPIRED),
        (pending(fold_of(0)), Status.SUBMISSION_EXPIRED, SurfacedReason.SUBMISSION_EXPIRED),
        (pending(blocked_fold()), Status.SUBMISSION_EXPIRED, SurfacedReason.SUBMISSION_EXPIRED),
        (pending(whole_fold()), Status.REJECTED_CLIENT_SIDE, MIXED),
        (sent(), Status.OUTCOME_UNKNOWN, SurfacedReason.OUTCOME_UNKNOWN),
        (after(Unknown()), Status.OUTCOME_UNKNOWN, SurfacedReason.OUTCOME_UNKNOWN),
        (after(Released()), Status.SUBMISSION_EXPIRED, SurfacedReason.SUBMISSION_EXPIRED),
    ],
)
def test_a_record_past_its_deadline_is_closed_by_what_is_known_of_it(
    record: LedgerRecord, status: Status, reason: str
) -> None:
    assert expire(record, now=CLOSED - SECOND, window=WINDOW) is record
    closed = expire(record, now=CLOSED, window=WINDOW)
    assert (closed.pending, closed.status, closed.status_reason) == (False, status, reason)
    assert (closed.quantity, closed.total, closed.attempt) == (record.quantity, record.total, record.attempt)
    assert closed.surfaced == record.total
    assert conserves(closed)
    assert expire(closed, now=CLOSED, window=WINDOW) is closed


@pytest.mark.parametrize(
    ("hour", "now", "closed"),
    [
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 2, 59, 59), False),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 3), False),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 5, 59, 59), False),
        (utc(2026, 11, 30, 23), utc(2026, 12, 1, 6), True),
        (utc(2026, 11, 30, 3), utc(2026, 12, 1, 2, 59, 59), False),
        (utc(2026, 11, 30, 3), utc(2026, 12, 1, 3), True),
        (utc(2026, 12, 1, 0), utc(2026, 12, 1, 6), False),
        (utc(2026, 12, 31, 23), utc(2027, 1, 1, 5, 59, 59), False),
        (utc(2026, 12, 31, 23), utc(2027, 1, 1, 6), True),
    ],
)
def test_expiry_at_the_month_boundary(hour: datetime, now: datetime, closed: bool) -> None:
    record = pending(group=replace(GROUP, hour=hour))
    assert (expire(record, now=now, window=WINDOW) is not record) is closed


@pytest.mark.parametrize("billable_hours", range(2, 25))
def test_a_smaller_window_closes_earlier(billable_hours: int) -> None:
    window = BillingWindow(billable_hours, 1)
    record = pending()
    deadline = HOUR_START + timedelta(hours=billable_hours)
    assert expire(record, now=deadline - SECOND, window=window) is record
    assert expire(record, now=deadline, window=window).status is Status.SUBMISSION_EXPIRED


def test_a_blocked_record_at_its_end_keeps_its_parts_apart() -> None:
    closed = expire(pending(blocked_fold(7, -3)), now=CLOSED, window=WINDOW)
    assert closed.surfaced_by_reason() == {NEGATIVE: -3, SurfacedReason.SUBMISSION_EXPIRED: 7}


def test_the_valid_part_of_a_blocked_record_is_billed_and_the_bad_part_stays_surfaced() -> None:
    attempt = begin_attempt(pending(blocked_fold(7, -3)), "a-1", now=LAST)
    assert not attempt.blocked
    billed = apply_outcome(attempt, "a-1", Billed("r-1"))
    assert values(billed.status, billed.billed, billed.surfaced_by_reason()) == (
        Status.SUCCESS,
        7,
        {NEGATIVE: -3},
    )


def test_a_refusal_before_sending_surfaces_the_whole_quantity_by_name() -> None:
    record = refuse(pending(), ValidationReason.TOO_MANY_ALLOCATIONS)
    assert (record.pending, record.status) == (False, Status.REJECTED_CLIENT_SIDE)
    assert record.surfaced_by_reason() == {ValidationReason.TOO_MANY_ALLOCATIONS: 10}


def test_closing_a_group_without_a_valid_part_surfaces_it_under_its_own_reason() -> None:
    record = close_rejected(pending(whole_fold(9)))
    assert values(record.status, record.status_reason, record.surfaced_by_reason()) == (
        Status.REJECTED_CLIENT_SIDE,
        MIXED,
        {MIXED: 9},
    )


# --- what a step newly surfaces --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "step", "expected"),
    [
        (None, pending(), []),
        (None, pending(whole_fold(9)), [Surfacing(MIXED, Decimal(9), Decimal(9))]),
        (sent(), folded(sent(), fold_of(13)), [Surfacing(LATE, Decimal(3), Decimal(3))]),
        (
            folded(sent(), fold_of(13)),
            folded(folded(sent(), fold_of(13)), fold_of(11)),
            [Surfacing(LATE, Decimal(-2), Decimal(1))],
        ),
        (folded(sent(), fold_of(13)), folded(folded(sent(), fold_of(13)), fold_of(10)), []),
        (pending(whole_fold(9)), close_rejected(pending(whole_fold(9))), []),
        (pending(fold_of(0)), expire(pending(fold_of(0)), now=CLOSED, window=WINDOW), []),
        (
            sent(),
            after(Duplicate()),
            [Surfacing(SurfacedReason.POSSIBLE_UNDER_BILLING, Decimal(10), Decimal(10))],
        ),
        (TERMINAL["OutcomeUnknown"], after(Billed("r-1"), TERMINAL["OutcomeUnknown"]), []),
    ],
)
def test_a_step_reports_the_change_per_reason(
    before: LedgerRecord | None, step: LedgerRecord, expected: list[Surfacing]
) -> None:
    assert surfacings(before, step) == expected


# Which row is refused, and for what, is told apart by reason: one alarm too many, never one too few.
TWO_BAD = fold_rows(row(0, 7), row(1, -3), row(2, -4))
ONE_BAD = fold_rows(row(0, 7), row(1, 3), row(2, -4))


@pytest.mark.parametrize(
    ("before", "fold", "found"),
    [
        (None, fold_of(10), []),
        (None, blocked_fold(), [(NEGATIVE, 1)]),
        (None, whole_fold(), [(MIXED, 1)]),
        (pending(fold_of(10)), blocked_fold(), [(NEGATIVE, 1)]),
        (pending(blocked_fold()), blocked_fold(), []),
        (pending(blocked_fold()), fold_of(10), []),
        (pending(blocked_fold(7, -3)), blocked_fold(8, -3), []),
        (pending(blocked_fold(7, -3)), blocked_fold(7, -4), [(NEGATIVE, 1)]),
        (pending(ONE_BAD), TWO_BAD, [(NEGATIVE, 1)]),
        (None, TWO_BAD, [(NEGATIVE, 2)]),
        (pending(blocked_fold()), whole_fold(), [(MIXED, 1)]),
        (sent(), blocked_fold(), [(NEGATIVE, 1)]),
        (pending(TWO_BAD), ONE_BAD, [(NEGATIVE, 1)]),
        (pending(TWO_BAD), fold_rows(row(0, 7), row(1, 3), row(2, 4)), []),
        (pending(TWO_BAD), fold_rows(row(0, 8), row(1, -3), row(2, -4), row(3, 1)), []),
        (pending(TWO_BAD), fold_rows(row(0, 7), row(1, -4), row(2, -3)), [(NEGATIVE, 1)]),
        (
            pending(ONE_BAD),
            fold_rows(row(0, -7), row(1, -3), row(2, 4), row(3, "x")),
            [(NEGATIVE, 1), (TEXT, 1)],
        ),
        (pending(TWO_BAD), fold_rows(row(0, 7), row(1, -3), row(2, "x")), [(NEGATIVE, 1), (TEXT, 1)]),
        (pending(fold_rows(row(0, "x"), row(1, 3))), fold_rows(row(0, 1), row(1, "x")), [(TEXT, 1)]),
        (pending(fold_rows(row(0, "x"))), fold_rows(row(0, "x"), row(1)), []),
        (pending(fold_rows(row(0, "x"))), fold_rows(row(0, "x"), row(1, "x")), [(TEXT, 1)]),
    ],
)
def test_newly_rejected_rows_are_counted_once_by_reason(
    before: LedgerRecord | None, fold: Fold, found: list[tuple[str, int]]
) -> None:
    assert newly_rejected(before, folded(before, fold)) == found


class CountingTelemetry:
    def __init__(self) -> None:
        self.counts: list[tuple[Metric, Decimal, str | None]] = []
        self.errors = 0

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        self.counts.append((metric, Decimal(value), reason))

    def info(self, message: str, **fields: object) -> None:
        raise AssertionError("surfacing is an error, not information")

    def error(self, message: str, **fields: object) -> None:
        self.errors += 1


def reported(before: LedgerRecord | None, step: LedgerRecord) -> list[tuple[Metric, Decimal, str | None]]:
    telemetry = CountingTelemetry()
    report_surfacing(telemetry, before, step)
    assert (telemetry.errors > 0) is bool(telemetry.counts)
    return telemetry.counts


@pytest.mark.parametrize(
    ("before", "step", "metric", "reason", "units"),
    [
        (None, pending(whole_fold(9)), Metric.USAGE_RECORD_REJECTED, MIXED, 9),
        (sent(), folded(sent(), fold_of(13)), Metric.LATE_AFTER_SUBMISSION, LATE, 3),
        (
            sent(),
            folded(sent(), fold_of(13), final_flush=True),
            Metric.LATE_AFTER_SUBMISSION,
            FINAL,
            3,
        ),
        (sent(), after(Duplicate()), Metric.POSSIBLE_UNDER_BILLING, "PossibleUnderBilling", 10),
        (sent(), after(NotSubscribed()), Metric.CUSTOMER_NOT_SUBSCRIBED, "CustomerNotSubscribed", 10),
        (
            after(Unknown()),
            after(NotSubscribed(), after(Unknown())),
            Metric.OUTCOME_UNKNOWN,
            "OutcomeUnknown",
            10,
        ),
        (
            sent(),
            after(Refused("InvalidTagException")),
            Metric.USAGE_RECORD_REJECTED,
            "InvalidTagException",
            10,
        ),
        (sent(), after(DryRun(counted=False)), Metric.DRY_RUN_NOT_BILLED, "NotOnTestAllowlist", 10),
        (pending(), TERMINAL["SubmissionExpired"], Metric.USAGE_SUBMISSION_EXPIRED, "SubmissionExpired", 10),
        (None, TERMINAL["AggregationExpired"], Metric.USAGE_AGGREGATION_EXPIRED, "AggregationExpired", 10),
        (after(Unknown()), TERMINAL["OutcomeUnknown"], Metric.OUTCOME_UNKNOWN, "OutcomeUnknown", 10),
    ],
)
def test_every_surfacing_has_the_metric_that_its_alarm_watches(
    before: LedgerRecord | None, step: LedgerRecord, metric: Metric, reason: str, units: int
) -> None:
    assert sorted(reported(before, step)) == sorted(
        [(metric, Decimal(1), reason), (Metric.SURFACED_UNITS, Decimal(units), reason)]
    )


def test_a_step_that_surfaces_nothing_is_silent() -> None:
    assert reported(None, pending()) == []
    assert reported(sent(), after(Billed("r-1"))) == []
    assert reported(pending(fold_of(0)), expire(pending(fold_of(0)), now=CLOSED, window=WINDOW)) == []


def test_rows_that_another_quantity_type_refuses_are_counted_as_rejected() -> None:
    rows = [row(0, Decimal("1.5"))]
    before = pending(fold_rows(*rows, kind=QuantityType.DECIMAL))
    step = folded(before, fold_rows(*rows, kind=QuantityType.INTEGER))
    assert step.surfaced == Decimal("1.5")
    assert Metric.USAGE_RECORD_REJECTED in {metric for metric, _, _ in reported(before, step)}


def test_a_valid_part_that_is_refused_for_the_reason_of_a_bad_row_has_its_alarms_metric() -> None:
    rows = [
        row(0, 3, allocations=[tagged(Decimal("1.5"), ("k", "v")), tagged(Decimal("1.5"), ("k", "w"))]),
        row(1, 2, allocations=[tagged(1, ("k", "v"))]),
    ]
    blocked = pending(fold_rows(*rows, kind=QuantityType.DECIMAL))
    problem = request_problem(blocked, QuantityType.INTEGER, legacy=False)
    assert problem is ValidationReason.ALLOCATION_SUM_MISMATCH
    found = reported(blocked, refuse(blocked, problem))
    assert (Metric.SURFACED_UNITS, Decimal(3), problem) in found
    assert (Metric.USAGE_RECORD_REJECTED, Decimal(1), problem) in found


@pytest.mark.parametrize(
    ("before", "step", "expected"),
    [
        (pending(), pending(blocked_fold(10, -3)), [("rejected", 1), ("units", -3)]),
        (pending(TWO_BAD), pending(ONE_BAD), [("rejected", 1), ("units", 3)]),
        (pending(ONE_BAD), pending(TWO_BAD), [("rejected", 1), ("units", -3)]),
        (pending(blocked_fold(7, -3)), pending(blocked_fold(8, -3)), []),
        (
            pending(blocked_fold(7, -3)),
            refuse(pending(blocked_fold(7, -3)), NEGATIVE),
            [
                ("rejected", 1),
                ("units", 7),
            ],
        ),
    ],
    ids=["a bad row", "one of two corrected", "one more", "another valid row", "the valid part refused too"],
)
def test_a_refusal_is_counted_by_row_and_once_more_only_for_what_no_row_explains(
    before: LedgerRecord, step: LedgerRecord, expected: list[tuple[str, int]]
) -> None:
    names = {Metric.USAGE_RECORD_REJECTED: "rejected", Metric.SURFACED_UNITS: "units"}
    found = [(names[metric], int(value)) for metric, value, reason in reported(before, step)]
    assert found == expected


def test_the_version_counts_the_writes_and_createdat_stays() -> None:
    first = advance(None, folded(None, fold_of(10)), now=OPEN)
    second = advance(first, folded(first, fold_of(11)), now=LAST)
    assert (first.version, first.created_at, first.updated_at) == (1, OPEN, OPEN)
    assert (second.version, second.created_at, second.updated_at) == (2, OPEN, LAST)


def test_a_fold_names_its_record_by_the_group() -> None:
    record = folded(None, fold_of(1), direct=True)
    assert record.sort_key == f"ledger#{GROUP.ledger_sort_key}"
    assert folded(None, fold_of(1)).sort_key == GROUP.ledger_sort_key
    assert Group(LICENSE, record.group.customer_account, "requests", HOUR_START) == record.group
