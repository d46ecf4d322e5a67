"""Attempts and their outcomes: what may be sent, what an answer changes, and what never changes again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.folding import Fold, Rejection
from awsmp.domain.hours import HOUR
from awsmp.domain.ledger import (
    Attempt,
    Billed,
    DryRun,
    Duplicate,
    LedgerRecord,
    NotSubscribed,
    Outcome,
    Readiness,
    Refused,
    Released,
    Unknown,
    advance,
    apply_outcome,
    begin_attempt,
    close_rejected,
    expire,
    from_item,
    readiness,
    refuse,
    restamp_attempt,
    to_item,
)
from awsmp.domain.reasons import MeteringStatus as Status
from awsmp.domain.reasons import SurfacedReason, ValidationReason
from tests.unit.metering_support import (
    CLOSED,
    HOUR_START,
    OPEN,
    SENDER_TIMEOUT,
    WINDOW,
    allocation,
    blocked_fold,
    conserves,
    fold_of,
    folded,
    pending,
    sent,
    values,
    whole_fold,
)

POSSIBLE = SurfacedReason.POSSIBLE_UNDER_BILLING
DEFINITIVE: list[Outcome] = [Duplicate(), NotSubscribed(), Refused("InvalidTagException")]


# --- intent ----------------------------------------------------------------------------------------


def test_the_intent_fixes_quantity_and_the_hours_start() -> None:
    record = begin_attempt(pending(), "a-1", now=OPEN)
    assert record.attempt == Attempt("a-1", OPEN, open=True, unknown=False)
    assert values(record.quantity, record.timestamp, record.pending) == (10, HOUR_START, True)


def test_identical_bytes_keep_their_attempt_id_and_are_of_unknown_outcome_from_then_on() -> None:
    later = OPEN + SENDER_TIMEOUT
    again = begin_attempt(sent(), "a-2", now=later)
    assert again.attempt == Attempt("a-1", later, open=True, unknown=True)
    assert values(again.quantity, again.timestamp) == (10, HOUR_START)


@pytest.mark.parametrize("minutes", [0, 1, 59])
def test_after_a_definitive_refusal_the_timestamp_may_move_within_the_hour(minutes: int) -> None:
    activation = HOUR_START + timedelta(minutes=minutes)
    record = restamp_attempt(sent(), "a-2", activation, now=OPEN)
    assert record.attempt == Attempt("a-2", OPEN)
    assert values(record.timestamp, record.quantity) == (activation, 10)


@pytest.mark.parametrize(
    ("record", "timestamp"),
    [
        (pending(), HOUR_START),
        (apply_outcome(sent(), "a-1", Unknown()), HOUR_START),
        (begin_attempt(sent(), "a-2", now=OPEN + SENDER_TIMEOUT), HOUR_START),
        (sent(), HOUR_START - timedelta(seconds=1)),
        (sent(), HOUR_START + HOUR),
    ],
    ids=["never sent", "unknown", "sent twice", "hour before", "hour after"],
)
def test_bytes_that_may_have_been_honoured_keep_their_timestamp(
    record: LedgerRecord, timestamp: datetime
) -> None:
    with pytest.raises(ValueError, match="definitively refused"):
        restamp_attempt(record, "a-2", timestamp, now=OPEN)


def test_an_answer_to_the_bytes_before_a_restamp_changes_nothing() -> None:
    record = restamp_attempt(sent(), "a-2", HOUR_START + timedelta(minutes=5), now=OPEN)
    for outcome in (*DEFINITIVE, Released(), Unknown(), Billed("r-1")):
        assert apply_outcome(record, "a-1", outcome) is record


def test_a_refused_restamp_reopens_at_the_hours_start_with_another_fold() -> None:
    record = restamp_attempt(sent(), "a-2", HOUR_START + timedelta(minutes=5), now=OPEN)
    refused = apply_outcome(record, "a-2", Refused("InvalidLicenseException"))
    assert folded(refused, fold_of(11)).timestamp == HOUR_START


# --- every status transition -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status", "reason", "billed", "surfaced"),
    [
        (Billed("r-1"), Status.SUCCESS, None, 10, {}),
        (Duplicate(), Status.DUPLICATE_RECORD, POSSIBLE, 0, {POSSIBLE: 10}),
        (
            NotSubscribed(),
            Status.CUSTOMER_NOT_SUBSCRIBED,
            SurfacedReason.CUSTOMER_NOT_SUBSCRIBED,
            0,
            {SurfacedReason.CUSTOMER_NOT_SUBSCRIBED: 10},
        ),
        (
            Refused("InvalidTagException"),
            Status.REJECTED_CLIENT_SIDE,
            "InvalidTagException",
            0,
            {"InvalidTagException": 10},
        ),
        (DryRun(counted=True), Status.DRY_RUN_SUBMITTED, None, 10, {}),
        (
            DryRun(counted=False),
            Status.DRY_RUN_SUBMITTED,
            SurfacedReason.NOT_ON_TEST_ALLOWLIST,
            0,
            {SurfacedReason.NOT_ON_TEST_ALLOWLIST: 10},
        ),
    ],
)
def test_a_definitive_answer_to_the_only_send_closes_the_record(
    outcome: Outcome, status: Status, reason: str | None, billed: int, surfaced: dict[str, int]
) -> None:
    record = apply_outcome(sent(), "a-1", outcome, ttl=1_900_000_000)
    assert (record.pending, record.status, record.status_reason) == (False, status, reason)
    assert values(record.billed, record.surfaced_by_reason()) == (billed, surfaced)
    assert record.attempt == Attempt("a-1", OPEN, open=False)
    assert conserves(record)


def test_only_success_carries_a_record_id_and_a_ttl() -> None:
    billed = apply_outcome(sent(), "a-1", Billed("r-1"), ttl=1_900_000_000)
    assert (billed.record_id, billed.ttl) == ("r-1", 1_900_000_000)
    others: list[Outcome] = [*DEFINITIVE, Released(), Unknown(), DryRun(counted=True), DryRun(counted=False)]
    for outcome in others:
        record = apply_outcome(sent(), "a-1", outcome, ttl=1_900_000_000)
        assert (record.record_id, record.ttl) == (None, None)


def test_a_duplicate_is_never_billed_by_itself() -> None:
    assert apply_outcome(sent(), "a-1", Duplicate()).billed == 0


def test_a_refused_request_releases_a_record_that_was_sent_once() -> None:
    record = apply_outcome(sent(), "a-1", Released())
    assert values(record.pending, record.attempt, record.status, record.quantity) == (True, None, None, 10)
    assert begin_attempt(record, "a-2", now=OPEN).attempt == Attempt("a-2", OPEN)


@pytest.mark.parametrize(
    ("fold", "quantity"), [(fold_of(13), 13), (fold_of(0), 0), (blocked_fold(12, -3), 12), (whole_fold(9), 0)]
)
def test_a_released_record_sends_what_its_last_fold_left_to_send(fold: Fold, quantity: int) -> None:
    record = apply_outcome(folded(sent(), fold), "a-1", Released())
    assert record.quantity == quantity == record.total - record.rejected
    assert record.surfaced == record.rejected
    assert conserves(record)


def test_an_answer_that_never_came_freezes_the_record() -> None:
    record = apply_outcome(sent(), "a-1", Unknown())
    assert values(record.pending, record.status, record.quantity) == (True, None, 10)
    assert record.attempt == Attempt("a-1", OPEN, open=False, unknown=True)


UNKNOWN: dict[str, LedgerRecord] = {
    "no answer": apply_outcome(sent(), "a-1", Unknown()),
    "crashed sender": begin_attempt(sent(), "a-2", now=OPEN + SENDER_TIMEOUT),
    "sent again": begin_attempt(apply_outcome(sent(), "a-1", Unknown()), "a-2", now=OPEN + HOUR),
}


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("outcome", [Released(), Refused("InvalidTagException"), Unknown()])
def test_no_refusal_reopens_or_closes_what_may_have_been_honoured(name: str, outcome: Outcome) -> None:
    record = apply_outcome(UNKNOWN[name], "a-1", outcome)
    assert values(record.pending, record.status, record.quantity) == (True, None, 10)
    assert record.attempt is not None
    assert (record.attempt.attempt_id, record.attempt.unknown, record.attempt.open) == ("a-1", True, False)


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize(
    ("outcome", "status", "surfaced"),
    [
        (Billed("r-1"), Status.SUCCESS, {}),
        (Duplicate(), Status.DUPLICATE_RECORD, {POSSIBLE: 10}),
        # The earlier send may have been honoured before the subscription ended.
        (NotSubscribed(), Status.CUSTOMER_NOT_SUBSCRIBED, {SurfacedReason.OUTCOME_UNKNOWN: 10}),
    ],
)
def test_a_per_record_answer_settles_what_was_unknown(
    name: str, outcome: Outcome, status: Status, surfaced: dict[str, int]
) -> None:
    record = apply_outcome(UNKNOWN[name], "a-1", outcome)
    assert (record.pending, record.status) == (False, status)
    assert values(record.surfaced_by_reason()) == (surfaced,)
    assert conserves(record)


CLOSED_AGAINST: dict[str, LedgerRecord] = {
    "duplicate": apply_outcome(sent(), "a-1", Duplicate()),
    "not subscribed": apply_outcome(sent(), "a-1", NotSubscribed()),
    "not subscribed, sent before": apply_outcome(UNKNOWN["no answer"], "a-1", NotSubscribed()),
    "refused": apply_outcome(sent(), "a-1", Refused("InvalidTagException")),
    "expired while open": expire(sent(), now=CLOSED, window=WINDOW),
    "expired unknown": expire(UNKNOWN["no answer"], now=CLOSED, window=WINDOW),
}


@pytest.mark.parametrize("name", CLOSED_AGAINST)
def test_success_wins_over_whatever_an_identical_send_was_told(name: str) -> None:
    record = apply_outcome(folded(CLOSED_AGAINST[name], fold_of(13), now=CLOSED), "a-1", Billed("r-1"), ttl=7)
    assert values(record.status, record.status_reason, record.billed, record.record_id, record.ttl) == (
        Status.SUCCESS,
        None,
        10,
        "r-1",
        7,
    )
    assert record.surfaced_by_reason() == {SurfacedReason.LATE_AFTER_SUBMISSION: 3}


@pytest.mark.parametrize("name", CLOSED_AGAINST)
@pytest.mark.parametrize("outcome", [*DEFINITIVE, Released(), Unknown(), DryRun(counted=True)])
def test_no_other_answer_changes_a_closed_record(name: str, outcome: Outcome) -> None:
    assert apply_outcome(CLOSED_AGAINST[name], "a-1", outcome) is CLOSED_AGAINST[name]


@pytest.mark.parametrize(
    "outcome",
    [*DEFINITIVE, Released(), Unknown(), Billed("r-2"), DryRun(counted=True), DryRun(counted=False)],
)
def test_success_is_final(outcome: Outcome) -> None:
    billed = apply_outcome(sent(), "a-1", Billed("r-1"))
    assert apply_outcome(billed, "a-1", outcome) is billed


@pytest.mark.parametrize("outcome", [*DEFINITIVE, Released(), Unknown(), Billed("r-2")])
def test_an_answer_to_another_attempt_changes_nothing(outcome: Outcome) -> None:
    released = apply_outcome(sent(), "a-1", Released())
    resent = begin_attempt(released, "a-2", now=OPEN)
    assert apply_outcome(released, "a-1", outcome) is released
    assert apply_outcome(resent, "a-1", outcome) is resent


# --- any sequence of steps -------------------------------------------------------------------------

ALLOCATIONS = st.sampled_from([None, ("k", "v"), ("k", "w")])
REASONS = [
    ValidationReason.NEGATIVE_QUANTITY,
    ValidationReason.INVALID_TAG,
    ValidationReason.MISSING_QUANTITY,
]


@st.composite
def folds(draw: st.DrawFn) -> Fold:
    """A fold as fold_group makes them: signed refused parts, whole refusals, allocations that add up."""
    quantity = draw(st.integers(0, 6) | st.just(0))
    if draw(st.integers(0, 5)) == 0:
        return whole_fold(draw(st.integers(-4, 9)))
    tag, customer = draw(ALLOCATIONS), draw(st.sampled_from(["c-1", "c-1", "c-2"]))
    allocations = [allocation(quantity, tag)] if tag and quantity else []
    fold = fold_of(quantity, allocations=allocations, customer_identifier=customer)
    if draw(st.integers(0, 3)):
        return fold
    refused = draw(
        st.lists(st.tuples(st.sampled_from(REASONS), st.integers(-5, 5)), max_size=3, unique_by=first)
    )
    rejections = tuple(Rejection(reason, 1, Decimal(units), f"of {units}") for reason, units in refused)
    return replace(
        fold,
        total=fold.total + sum(each.quantity for each in rejections),
        row_count=fold.row_count + len(rejections),
        rejections=rejections,
        digest=f"{fold.digest}/{refused}",
    )


def first(pair: tuple[object, object]) -> object:
    return pair[0]


outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [
        Billed("r-1"),
        Duplicate(),
        NotSubscribed(),
        Released(),
        Refused("InvalidTagException"),
        Unknown(),
        DryRun(counted=True),
        DryRun(counted=False),
    ]
)

steps = st.one_of(
    st.tuples(st.just("fold"), folds(), st.booleans()),
    st.tuples(st.just("send")),
    st.tuples(st.just("answer"), st.integers(0, 3), outcomes),
    st.tuples(st.just("restamp"), st.integers(0, 59)),
    st.tuples(st.just("wait"), st.sampled_from([1, 5, 60, 600])),
    st.tuples(st.just("expire")),
    st.tuples(st.just("refuse")),
)


@dataclass
class Run:
    """One record under arbitrary steps, and a memory of every send that may have been honoured."""

    now: datetime
    direct: bool = False
    record: LedgerRecord | None = None
    ids: int = 0
    sends: dict[str, tuple[object, ...]] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    last_fold: Fold = field(default_factory=lambda: fold_of(0))

    def commit(self, after: LedgerRecord) -> None:
        before = self.record
        if after is before:
            return
        self.record = from_item(to_item(advance(before, after, now=self.now)))
        assert self.record == advance(before, after, now=self.now), "the stored form reads back"

    def new_id(self) -> str:
        self.ids += 1
        return f"a-{self.ids}"

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("fold", Fold() as fold, bool(final)):
                self.last_fold = fold
                self.commit(folded(self.record, fold, now=self.now, final_flush=final, direct=self.direct))
            case ("wait", int(minutes)):
                self.now += timedelta(minutes=minutes)
            case _ if self.record is None:
                return
            case ("send",):
                self.send(self.record)
            case ("answer", int(back), outcome):
                self.answer(self.record, back, outcome)
            case ("restamp", int(minute)):
                self.restamp(self.record, minute)
            case ("expire",):
                self.commit(expire(self.record, now=self.now, window=WINDOW))
            case ("refuse",):
                if self.record.pending and self.record.attempt is None:
                    self.commit(refuse(self.record, ValidationReason.RECORD_TOO_LARGE))

    def send(self, record: LedgerRecord) -> None:
        todo = readiness(record, now=self.now, window=WINDOW, sender_timeout=SENDER_TIMEOUT)
        if todo is Readiness.CLOSE_REJECTED:
            self.commit(close_rejected(record))
        if todo is not Readiness.SEND:
            return
        assert record.pending
        assert WINDOW.is_billable(record.group.hour, self.now)
        if record.attempt is None:
            assert not record.refold_required
            assert self.content_of(record) == self.content_of(self.last_fold), "what is sent is the last fold"
        self.commit(begin_attempt(record, self.new_id(), now=self.now))
        self.remember()

    @staticmethod
    def content_of(source: Fold | LedgerRecord) -> tuple[object, ...]:
        quantity = source.billable if isinstance(source, Fold) else source.quantity
        return quantity, source.allocations, source.customer_identifier

    def remember(self) -> None:
        assert self.record is not None
        assert self.record.attempt is not None
        attempt_id = self.record.attempt.attempt_id
        bytes_sent = (*self.content_of(self.record), self.record.timestamp)
        assert self.sends.setdefault(attempt_id, bytes_sent) == bytes_sent, "identical bytes, one attempt id"
        assert not self.doubtful - {attempt_id}, "no second set of bytes while an earlier one may be honoured"
        self.doubtful.add(attempt_id)
        if self.record.allocations:
            assert sum(each.quantity for each in self.record.allocations) == self.record.quantity

    def answer(self, record: LedgerRecord, back: int, outcome: object) -> None:
        attempt_id = f"a-{max(1, self.ids - back)}"
        if attempt_id not in self.sends:
            return
        assert isinstance(outcome, Billed | Duplicate | NotSubscribed | Released | Refused | Unknown | DryRun)
        current = record.attempt is not None and record.attempt.attempt_id == attempt_id
        alone = current and record.attempt is not None and not record.attempt.unknown
        if isinstance(outcome, Released | Refused) and alone and record.pending:
            self.doubtful.discard(attempt_id)
        if not current and isinstance(outcome, Billed):
            return  # Excluded by the API: those bytes were refused, nothing else was ever sent under this id.
        self.commit(apply_outcome(record, attempt_id, outcome))
        if isinstance(outcome, Refused) and alone and record.pending:
            assert self.record is not None
            newer = self.content_of(self.last_fold) != self.content_of(record)
            assert self.record.pending is newer, "a refusal closes what the rows still say, and only that"

    def restamp(self, record: LedgerRecord, minute: int) -> None:
        attempt = record.attempt
        if not record.pending or attempt is None or attempt.unknown or not attempt.open:
            return
        self.doubtful.discard(attempt.attempt_id)
        stamp = HOUR_START + timedelta(minutes=minute)
        self.commit(restamp_attempt(record, self.new_id(), stamp, now=self.now))
        self.remember()

    def check(self, before: LedgerRecord | None) -> None:
        record = self.record
        if record is None:
            return
        assert conserves(record)
        assert (record.total, record.digest) == (self.last_fold.total, self.last_fold.digest)
        assert (record.rejected, record.rejected_rows) == (
            self.last_fold.rejected,
            self.last_fold.rejected_rows,
        )
        assert record.ttl is None
        assert (record.status is Status.SUCCESS) <= (record.record_id == "r-1")
        if record.pending:
            assert record.billed == 0
            assert record.status in {None, Status.REJECTED_CLIENT_SIDE}
        else:
            assert record.status is not None
        if record.billed:
            assert record.attempt is not None
            assert record.billed == self.sends[record.attempt.attempt_id][0]
        if before is None:
            return
        for attempt_id in self.doubtful:
            assert record.attempt is not None
            assert record.attempt.attempt_id == attempt_id
            assert (*self.content_of(record), record.timestamp) == self.sends[attempt_id]
        if before.attempt is not None and before.attempt.unknown:
            assert record.attempt is not None
            assert record.attempt.unknown, "unknown never becomes known but by an answer"
            assert before.pending or not record.pending, "what is closed of unknown outcome stays closed"
        if before.status is Status.SUCCESS:
            assert (record.status, record.billed) == (Status.SUCCESS, before.billed)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(steps, min_size=1, max_size=25), st.booleans())
def test_after_any_steps_written_is_billed_plus_pending_plus_surfaced(
    sequence: list[tuple[object, ...]], direct: bool
) -> None:
    run = Run(OPEN, direct=direct)
    for step in sequence:
        before = run.record
        run.take(step)
        run.check(before)


def test_the_random_steps_reach_every_status_and_state() -> None:
    """Guards the property above against a change that would leave it nothing to check."""
    bill: tuple[object, ...] = ("answer", 0, Billed("r-1"))
    reached: dict[str, Callable[[LedgerRecord], bool]] = {
        "refold": lambda record: record.refold_required,
        "stale": lambda record: record.content_stale,
        "late": lambda record: record.pending and record.surfaced != 0 and record.attempt is not None,
        "unknown": lambda record: record.attempt is not None and record.attempt.unknown,
        "restamped": lambda record: record.sent_timestamp is not None,
        "blocked": lambda record: record.blocked,
        "superseded": lambda record: record.superseded and not record.content_stale,
    }
    allocated = fold_of(3, allocations=[allocation(3, ("k", "v"))])
    answers: list[Outcome] = [Duplicate(), NotSubscribed(), Refused("x"), DryRun(counted=True), Billed("r-1")]
    late_answers: list[Outcome] = [Billed("r-1"), Duplicate()]
    sent_once: list[tuple[object, ...]] = [("fold", fold_of(3), False), ("send",)]
    sequences: list[list[tuple[object, ...]]] = [
        [("fold", allocated, False), ("send",), ("fold", fold_of(4), False), ("answer", 0, Released())],
        [("fold", fold_of(3), False), ("send",), ("answer", 0, Unknown()), ("expire",)],
        [("fold", fold_of(3), False), ("send",), ("restamp", 7), bill],
        [("fold", blocked_fold(), False), ("wait", 24 * 60), ("expire",)],
        [("fold", whole_fold(), False), ("wait", 21 * 60 + 30), ("send",)],
        [("wait", 24 * 60), ("fold", fold_of(3), False)],
        *[[*sent_once, ("wait", 24 * 60), ("expire",), ("answer", 0, each)] for each in late_answers],
        *[[*sent_once, ("answer", 0, each)] for each in answers],
        [*sent_once, ("fold", fold_of(4), False), ("answer", 0, Refused("x")), ("send",), bill],
    ]
    states, statuses = set(), set()
    for sequence in sequences:
        run = Run(OPEN)
        for step in sequence:
            before = run.record
            run.take(step)
            run.check(before)
            if run.record is not None:
                states |= {name for name, holds in reached.items() if holds(run.record)}
                statuses.add(run.record.status)
    assert states == set(reached)
    assert statuses == {None, *Status}


def test_the_record_that_comes_back_from_a_refusal_is_a_new_one_for_every_later_answer() -> None:
    released = apply_outcome(sent(), "a-1", Released())
    reopened = begin_attempt(folded(released, fold_of(13)), "a-2", now=OPEN)
    assert values(reopened.quantity, reopened.attempt) == (13, Attempt("a-2", OPEN))
    assert replace(reopened, attempt=None).surfaced == 0
