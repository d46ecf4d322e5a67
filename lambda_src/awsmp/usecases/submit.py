"""Sending ledger records to BatchMeterUsage: paced, pipelined, written back batch by batch.

One thread owns all state; only the API calls run beside it. For every record the order is: the intent
is durable, then the bytes are sent, then the answer is written. A crash between any two of these
leaves an open attempt, which a later run takes for one of unknown outcome once no sender can be alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Final

from awsmp.domain.batching import MAX_RECORDS, first_batch, halves, request_bytes, request_problem
from awsmp.domain.direct_inputs import is_input
from awsmp.domain.errors import ConditionFailed, MeteringError, PartialFailure, SubmissionStopped
from awsmp.domain.hours import HOUR, BillingWindow, bucket_of, floor_hour, month_wall
from awsmp.domain.identifiers import is_license_arn
from awsmp.domain.ledger import (
    LEDGER_SORT_KEY,
    Billed,
    DryRun,
    LedgerRecord,
    Outcome,
    Readiness,
    Refused,
    Released,
    Unknown,
    advance,
    apply_outcome,
    begin_attempt,
    close_rejected,
    from_item,
    readiness,
    refuse,
    restamp_attempt,
)
from awsmp.domain.messages import GroupWork, encode_work
from awsmp.domain.pacing import Pacer
from awsmp.domain.ports import Clock, Metric, Telemetry, Workers
from awsmp.domain.quantities import ZERO, QuantityType
from awsmp.domain.stores import (
    Answers,
    ClosingLicense,
    FailureKind,
    LedgerKey,
    LedgerStore,
    Marketplace,
    RequestFailure,
    SubscriberDirectory,
    SwapResult,
    Unprocessed,
    WorkQueue,
)
from awsmp.usecases.direct_input import DirectInput, adopt_inputs, refold_input
from awsmp.usecases.surfacing import report_surfacing

#: Requests under way at once: enough to keep 10 requests a second going at 300 ms an answer.
PIPELINE_DEPTH: Final = 4

#: Records read ahead of the sender, in one consistent batch read each.
READ_CHUNK: Final = 100

#: How long the single-sender lease lasts unless it is renewed; a crashed sender blocks the next no longer.
LEASE: Final = timedelta(seconds=60)

#: No request is started this shortly before the function's own deadline: the answer (20 s read time-out)
#: still has to be written.
STOP_MARGIN: Final = timedelta(seconds=30)

#: While an ordinary pass runs, licences whose window is closing are looked for this often.
CLOSING_CHECK: Final = timedelta(seconds=30)

#: Unanswered requests in a row after which the run stops, before it freezes the whole backlog.
MAX_UNANSWERED: Final = 3

#: Throttled tries of one request after which the run stops and leaves it to the next.
MAX_THROTTLED: Final = 6

_SWAP_TRIES: Final = 5
_LEASE_POLL: Final = 1.0
_LICENSE_EXCEPTION: Final = "InvalidLicenseException"


@dataclass(frozen=True, slots=True)
class SubmitSettings:
    """How the submitter behaves; see the module's inputs of the same names."""

    window: BillingWindow
    sender_timeout: timedelta
    max_records: int = 10_000
    requests_per_second: float = 10
    quantity_type: QuantityType = QuantityType.INTEGER
    dry_run: bool = False
    test_accounts: frozenset[str] = frozenset()
    legacy: bool = False
    ledger_ttl_days: int = 0


@dataclass(frozen=True, slots=True)
class Submission:
    """What submitting needs. ``new_id`` returns a fresh attempt id, ``jitter`` a number in [0, 1)."""

    ledger: LedgerStore
    marketplace: Marketplace
    subscribers: SubscriberDirectory
    clock: Clock
    workers: Workers
    telemetry: Telemetry
    settings: SubmitSettings
    new_id: Callable[[], str]
    jitter: Callable[[], float]
    work_queue: WorkQueue | None = None


@dataclass(slots=True)
class SubmitReport:
    """What one run did, in records."""

    billed: int = 0
    refused: int = 0
    unknown: int = 0
    released: int = 0
    requests: int = 0
    throttled: int = 0
    skipped: bool = False


@dataclass(slots=True)
class _Batch:
    records: list[LedgerRecord]
    legacy: bool
    intended: bool = False
    retried: bool = False
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class _Candidate:
    key: LedgerKey
    license_expiry: datetime | None = None


@dataclass(slots=True)
class _Run:
    owner: str
    stop_at: datetime
    pacer: Pacer
    report: SubmitReport = field(default_factory=SubmitReport)
    ready: deque[_Batch] = field(default_factory=deque)
    in_flight: dict[int, tuple[object, _Batch]] = field(default_factory=dict)
    failures: list[MeteringError] = field(default_factory=list)
    seen: set[LedgerKey] = field(default_factory=set)
    taken: int = 0
    unanswered: int = 0
    stopped_by: str | None = None
    legacy_stopped_by: str | None = None
    paused: bool = False
    leased_until: datetime | None = None
    unbilled: dict[LedgerKey, tuple[datetime, Decimal]] = field(default_factory=dict)
    waiting: dict[bool, dict[LedgerKey, LedgerRecord]] = field(default_factory=lambda: {False: {}, True: {}})
    arrived: deque[tuple[_Batch, Callable[[], object]]] = field(default_factory=deque)


class Submitter:
    """One run of the submitter."""

    def __init__(self, submission: Submission, *, owner: str, deadline: datetime) -> None:
        """``owner`` names the lease holder; ``deadline`` is when the function will be ended."""
        self._s = submission
        self._run = _Run(owner, deadline - STOP_MARGIN, Pacer(submission.settings.requests_per_second))

    def run(self, *, closing_only: bool) -> SubmitReport:
        """Submit what is pending: licences whose window is closing first, then the oldest hours.

        With ``closing_only`` the ordinary pass is left out, and nothing at all is done while no licence is
        closing.

        Raises
        ------
        SubmissionStopped
            The Marketplace refuses every request, or does not answer; the records stay pending.
        PartialFailure
            Some records could not be read or written back; the others are done.
        """
        closing = self._closing()
        if closing_only and not closing:
            self._raise_failures()
            return self._run.report
        if not self._lease(wait=not closing_only):
            self._run.report.skipped = True
            return self._run.report
        try:
            self._drain(self._closing_candidates(closing), cap=None)
            if not closing_only:
                candidates = self._ordinary_candidates()
                self._drain(candidates, cap=self._s.settings.max_records)
                self._survey(candidates)
                self._report_unbilled()
        finally:
            self._abandon()
        self._s.ledger.release_lease(self._run.owner)
        self._raise_failures()
        if not closing_only:
            self._s.telemetry.count(Metric.SUBMISSION_RUNS_COMPLETED)
        return self._run.report

    # --- who is next -------------------------------------------------------------------------------

    def _closing(self) -> list[ClosingLicense]:
        try:
            return self._s.subscribers.closing_licenses(self._s.clock.now())
        except MeteringError as error:
            # Other licences must not wait for the subscribers table: the ordinary pass goes on, and the run
            # fails loudly at its end.
            self._run.failures.append(error)
            self._s.telemetry.error(
                "licences in their final-usage window could not be read", error=repr(error)
            )
            return []

    def _closing_candidates(self, closing: Sequence[ClosingLicense]) -> Iterator[_Candidate]:
        now = self._s.clock.now()
        hours = [*self._s.settings.window.submittable_hours(now), floor_hour(now)]
        for license_ in sorted(closing, key=lambda each: each.expiry):
            for license_arn in license_.license_arns:
                for hour in hours:
                    for key in self._s.ledger.pending_keys(bucket_of(hour), license_arn):
                        yield _Candidate(key, license_.expiry)

    def _ordinary_candidates(self) -> Iterator[_Candidate]:
        checked = self._s.clock.now()
        for hour in self._s.settings.window.submittable_hours(checked):
            for key in self._s.ledger.pending_keys(bucket_of(hour)):
                now = self._s.clock.now()
                if now >= checked + CLOSING_CHECK:
                    checked = now
                    yield from self._closing_candidates(self._closing())
                yield _Candidate(key)

    # --- the loop ----------------------------------------------------------------------------------

    def _drain(self, candidates: Iterator[_Candidate], *, cap: int | None) -> None:
        run, clock = self._run, self._s.clock
        if self._may_start(clock.now()):
            self._fill(candidates, cap)
        while run.ready or run.in_flight:
            self._renew(clock.now())
            may_start = bool(run.ready) and self._may_start(clock.now())
            room = may_start and len(run.in_flight) < PIPELINE_DEPTH
            if room and not self._make_ready():
                continue
            now = clock.now()
            if room and run.pacer.next_turn(now) <= now:
                self._launch(run.ready.popleft())
            elif run.in_flight:
                self._collect(until=run.pacer.next_turn(now) if room else None)
            elif may_start:
                clock.sleep((run.pacer.next_turn(now) - now).total_seconds())
            else:
                return
            if len(run.ready) < PIPELINE_DEPTH and self._may_start(clock.now()):
                self._fill(candidates, cap)

    def _may_start(self, now: datetime) -> bool:
        run = self._run
        return run.stopped_by is None and not run.paused and now < run.stop_at

    def _survey(self, candidates: Iterator[_Candidate]) -> None:
        """Read on where a run was stopped that may send no more, so that it reports all that is at risk.

        What is read is prepared as ever, but not sent. The cap and the function's own deadline hold here
        too: what lies beyond them is not in the report.
        """
        run, cap = self._run, self._s.settings.max_records
        try:
            while run.taken < cap and self._s.clock.now() < run.stop_at:
                chunk = self._next_chunk(candidates, min(READ_CHUNK, cap - run.taken))
                if not chunk:
                    return
                run.taken += sum(1 for _ in self._read({each.key: each.license_expiry for each in chunk}))
        except MeteringError as error:
            run.failures.append(error)

    def _fill(self, candidates: Iterator[_Candidate], cap: int | None) -> None:
        """Read the next candidates and group those to be sent; only the last batch may be short."""
        run = self._run
        while len(run.ready) < PIPELINE_DEPTH:
            room = READ_CHUNK if cap is None else min(READ_CHUNK, cap - run.taken)
            chunk = self._next_chunk(candidates, room) if room > 0 else []
            expiries = {candidate.key: candidate.license_expiry for candidate in chunk}
            for record, expiry in self._read(expiries) if chunk else ():
                waiting = run.waiting[self._is_legacy(record)]
                key = LedgerKey(record.group.license_arn, record.sort_key)
                # A direct-submit input and its own pending record are both candidates: the newer copy counts.
                if key not in waiting or waiting[key].version < record.version:
                    waiting[key] = record
                run.taken += cap is not None and expiry is None
            for legacy, records in run.waiting.items():
                self._batch_up(records, legacy, everything=not chunk)
            if not chunk:
                return

    def _read(
        self, expiries: Mapping[LedgerKey, datetime | None]
    ) -> Iterator[tuple[LedgerRecord, datetime | None]]:
        """Yield the records that are to be sent now, with their licence's expiry."""
        items = self._s.ledger.items(list(expiries))
        inputs = [item for item in items if is_input(item)]
        if inputs:
            for adopted in adopt_inputs(self._direct(), inputs, legacy=self._s.settings.legacy):
                if isinstance(adopted, MeteringError):
                    self._run.failures.append(adopted)
                    continue
                expiry = expiries.get(LedgerKey(adopted.group.license_arn, adopted.group.ledger_sort_key))
                if self._sendable(adopted, expiry):
                    yield adopted, expiry
        for item in items:
            if not is_input(item):
                expiry = expiries[LedgerKey(str(item["licenseArn"]), str(item[LEDGER_SORT_KEY]))]
                record = self._parse(item)
                if record is not None and self._sendable(record, expiry):
                    yield record, expiry

    def _next_chunk(self, candidates: Iterator[_Candidate], size: int) -> list[_Candidate]:
        chunk: list[_Candidate] = []
        for candidate in candidates:
            # A licence that is closing is met by both passes; whoever met it first decides.
            if candidate.key not in self._run.seen:
                self._run.seen.add(candidate.key)
                chunk.append(candidate)
                if len(chunk) == size:
                    break
        return chunk

    def _batch_up(self, waiting: dict[LedgerKey, LedgerRecord], legacy: bool, *, everything: bool) -> None:
        kind = self._s.settings.quantity_type
        while waiting:
            records = list(islice(waiting.values(), MAX_RECORDS))
            count = first_batch([request_bytes(record, kind, legacy=legacy) for record in records])
            if count == len(records) < MAX_RECORDS and not everything:
                return
            self._run.ready.append(_Batch(records[:count], legacy))
            for key in list(islice(waiting, count)):
                del waiting[key]

    # --- one record --------------------------------------------------------------------------------

    def _parse(self, item: Mapping[str, object]) -> LedgerRecord | None:
        try:
            return from_item(item)
        except ValueError as error:
            # Somebody edited the ledger by hand. The record can neither be sent nor closed; it is counted in
            # every run until it is repaired, and costs no other record anything.
            self._s.telemetry.count(Metric.USAGE_RECORD_REJECTED, 1, reason="MalformedLedgerRecord")
            self._s.telemetry.error("a ledger record is malformed", error=repr(error))
            return None

    def _sendable(self, record: LedgerRecord, expiry: datetime | None) -> bool:
        """Tell whether ``record`` is to be sent now; whatever is wrong with it costs no other record."""
        try:
            return self._prepare(record, expiry)
        except MeteringError as error:
            self._run.failures.append(error)
            self._s.telemetry.error("a pending record could not be prepared", error=repr(error))
            return False

    def _direct(self) -> DirectInput:
        settings = self._s.settings
        return DirectInput(
            self._s.ledger, self._s.clock, self._s.telemetry, settings.window, settings.quantity_type
        )

    def _prepare(self, record: LedgerRecord, expiry: datetime | None) -> bool:
        """Tell whether ``record`` is to be sent now; close or refold it where that is due."""
        settings, now = self._s.settings, self._s.clock.now()
        self._track(record)
        todo = readiness(
            record,
            now=now,
            window=settings.window,
            sender_timeout=settings.sender_timeout,
            license_expiry=expiry,
        )
        if todo is Readiness.CLOSE_REJECTED:
            self._swap(record, close_rejected(record))
        elif todo is Readiness.REFOLD:
            self._refold(record)
        elif todo is Readiness.SEND:
            legacy = self._is_legacy(record)
            problem = request_problem(record, settings.quantity_type, legacy=legacy)
            if problem is None:
                return not (legacy and self._run.legacy_stopped_by)
            if record.attempt is None:
                self._swap(record, refuse(record, problem))
        return False

    def _track(self, record: LedgerRecord) -> None:
        """Remember what ``record`` still has to be billed; nothing once it is billed or closed."""
        key = LedgerKey(record.group.license_arn, record.sort_key)
        if record.pending_quantity == ZERO:
            self._run.unbilled.pop(key, None)
        else:
            self._run.unbilled[key] = (record.group.hour, record.pending_quantity)

    def _refold(self, record: LedgerRecord) -> None:
        if record.direct:
            refold_input(self._direct(), record, legacy=self._s.settings.legacy)
        elif self._s.work_queue is not None:
            self._s.work_queue.send([encode_work(GroupWork(record.group))])

    def _is_legacy(self, record: LedgerRecord) -> bool:
        return self._s.settings.legacy and not is_license_arn(record.group.license_arn)

    # --- intent, send, answer ----------------------------------------------------------------------

    def _make_ready(self) -> bool:
        """Make the next batch's attempts durable, before its turn comes; False when nothing of it is left."""
        batch = self._run.ready[0]
        self._drop_late(batch)
        if batch.records and not batch.intended:
            self._intend(batch)
        if not batch.records:
            self._run.ready.popleft()
        return bool(batch.records)

    def _drop_late(self, batch: _Batch) -> None:
        """Take out of ``batch`` what can no longer be billed; expiry closes it."""
        window, now = self._s.settings.window, self._s.clock.now()
        late = [record for record in batch.records if not window.is_billable(record.group.hour, now)]
        if late:
            batch.records = [record for record in batch.records if record not in late]
            if batch.intended:
                self._give_back(late, batch)

    def _launch(self, batch: _Batch) -> None:
        run, clock = self._run, self._s.clock
        if self._s.settings.dry_run:
            accounts = self._s.settings.test_accounts
            self._write_back(
                [(record, DryRun(record.group.customer_account in accounts)) for record in batch.records]
            )
            return
        run.pacer.take(clock.now())
        run.report.requests += 1
        self._s.telemetry.count(Metric.REQUESTS_SENT)
        records = tuple(batch.records)
        handle = self._s.workers.start(lambda: self._s.marketplace.send(records))
        run.in_flight[id(handle)] = (handle, batch)

    def _intend(self, batch: _Batch) -> None:
        """Make the attempts durable; keep in ``batch`` only what this run owns."""
        now = self._s.clock.now()
        pairs = [
            (record, advance(record, begin_attempt(record, self._s.new_id(), now=now), now=now))
            for record in batch.records
        ]
        results = self._s.ledger.swap_many(pairs)
        batch.intended = True
        batch.records = [
            after for (_, after), result in zip(pairs, results, strict=True) if result is SwapResult.DONE
        ]

    def _collect(self, *, until: datetime | None) -> None:
        run = self._run
        for handle, result in self._s.workers.wait(until) if run.in_flight else ():
            _, batch = run.in_flight.pop(id(handle))
            run.arrived.append((batch, result))
        # One at a time, so that an answer whose write-back raises takes no other answer with it.
        while run.arrived:
            batch, result = run.arrived.popleft()
            answer = result()
            if isinstance(answer, Answers):
                self._answered(batch, answer)
            elif isinstance(answer, RequestFailure):
                self._failed(batch, answer)

    def _give_back(self, records: Sequence[LedgerRecord], batch: _Batch) -> None:
        """Reopen records whose request was definitively refused, or never sent.

        One that was listed as unprocessed before may have been honoured then: it stays frozen.
        """
        outcome: Outcome = Unknown() if batch.retried else Released()
        self._write_back([(record, outcome) for record in records])

    def _answered(self, batch: _Batch, answer: Answers) -> None:
        run = self._run
        run.unanswered = 0
        run.pacer.answered()
        written: list[tuple[LedgerRecord, Outcome]] = []
        again: list[LedgerRecord] = []
        left = 0
        for record, outcome in zip(batch.records, answer.outcomes, strict=True):
            if not isinstance(outcome, Unprocessed):
                written.append((record, outcome))
            elif batch.retried:
                left += 1
                written.append((record, Unknown()))
            else:
                again.append(record)
        if left:
            self._s.telemetry.count(Metric.USAGE_RECORD_UNPROCESSED, left)
        if again:
            run.ready.appendleft(_Batch(again, batch.legacy, intended=True, retried=True))
        self._write_back(written)

    def _failed(self, batch: _Batch, failure: RequestFailure) -> None:
        run, telemetry = self._run, self._s.telemetry
        if failure.kind is FailureKind.THROTTLED:
            self._throttled(batch)
            return
        telemetry.count(Metric.BATCH_METER_USAGE_EXCEPTION, 1, reason=failure.code)
        telemetry.error("a BatchMeterUsage request failed", code=failure.code, records=len(batch.records))
        if failure.kind is FailureKind.POISON:
            run.unanswered = 0
            run.pacer.answered()
            self._isolate(batch, failure.code)
        elif failure.kind is FailureKind.UNKNOWN:
            self._write_back([(record, Unknown()) for record in batch.records])
            self._unanswered(failure.code)
        else:
            self._give_back(batch.records, batch)
            if failure.kind is FailureKind.STOP:
                run.stopped_by = failure.code
            elif failure.kind is FailureKind.STOP_LEGACY:
                run.legacy_stopped_by = failure.code
                self._drop_legacy()
            else:
                self._unanswered(failure.code)

    def _unanswered(self, code: str) -> None:
        self._run.unanswered += 1
        if self._run.unanswered >= MAX_UNANSWERED:
            self._run.stopped_by = code

    def _throttled(self, batch: _Batch) -> None:
        run = self._run
        run.report.throttled += 1
        self._s.telemetry.count(Metric.REQUESTS_THROTTLED, 1)
        run.pacer.throttled(self._s.clock.now(), self._s.jitter())
        batch.throttled += 1
        if batch.throttled >= MAX_THROTTLED:
            run.paused = True
        run.ready.appendleft(batch)

    def _drop_legacy(self) -> None:
        kept = [batch for batch in self._run.ready if not batch.legacy]
        dropped = [batch for batch in self._run.ready if batch.legacy and batch.intended]
        self._run.ready = deque(kept)
        for batch in dropped:
            self._give_back(batch.records, batch)

    def _isolate(self, batch: _Batch, code: str) -> None:
        """Cut a refused request in two, until the poison record stands alone and is refused by name."""
        if len(batch.records) == 1:
            record = batch.records[0]
            outcome: Outcome | None = Unknown() if batch.retried else Refused(code)
            if code == _LICENSE_EXCEPTION and not batch.retried:
                outcome = self._retry_at_activation(record)
            if outcome is not None:
                self._write_back([(record, outcome)])
            return
        for half in reversed(halves(batch.records)):
            self._run.ready.appendleft(_Batch(list(half), batch.legacy, intended=True, retried=batch.retried))

    def _retry_at_activation(self, record: LedgerRecord) -> Outcome | None:
        """Send the record again, stamped with its licence's activation, when that lies in its hour; once.

        Returns None when it is sent again, else the outcome of the refusal.
        """
        attempt, hour = record.attempt, record.group.hour
        refused = Refused(_LICENSE_EXCEPTION)
        if attempt is None or attempt.unknown or record.sent_timestamp is not None:
            return refused
        try:
            activated = self._s.subscribers.activation_time(
                record.group.license_arn, record.group.customer_account
            )
        except MeteringError as error:
            self._run.failures.append(error)
            return Released()
        if activated is None or not hour < activated < hour + HOUR:
            return refused
        now = self._s.clock.now()
        after = advance(record, restamp_attempt(record, self._s.new_id(), activated, now=now), now=now)
        if not self._s.ledger.swap(record, after):
            return Released()
        self._run.ready.appendleft(_Batch([after], legacy=False, intended=True))
        return None

    # --- writing back ------------------------------------------------------------------------------

    def _write_back(self, answers: Sequence[tuple[LedgerRecord, Outcome]]) -> None:
        """Write outcomes: in one request where the record is as this run left it, else one by one."""
        pairs: list[tuple[LedgerRecord, LedgerRecord]] = []
        for record, outcome in answers:
            after = self._after(record, outcome)
            report_surfacing(self._s.telemetry, record, after)
            pairs.append((record, after))
            self._count(outcome)
        results = self._s.ledger.swap_many(pairs) if pairs else []
        for (_, after), result in zip(pairs, results, strict=True):
            if result is SwapResult.DONE:
                self._track(after)
        for (record, outcome), result in zip(answers, results, strict=True):
            if result is not SwapResult.DONE:
                self._settle(record, outcome)
        billed = sum(isinstance(outcome, Billed) for _, outcome in answers)
        if billed:
            self._s.telemetry.count(Metric.RECORDS_BILLED, billed)

    def _after(self, record: LedgerRecord, outcome: Outcome) -> LedgerRecord:
        assert record.attempt is not None
        now, days = self._s.clock.now(), self._s.settings.ledger_ttl_days
        ttl = int((now + timedelta(days=days)).timestamp()) if days else None
        return advance(record, apply_outcome(record, record.attempt.attempt_id, outcome, ttl=ttl), now=now)

    def _settle(self, sent: LedgerRecord, outcome: Outcome) -> None:
        """Apply an answer to a record that changed since it was sent: by its attempt, not its version."""
        try:
            self._settle_or_raise(sent, outcome)
        except MeteringError as error:
            # The attempt stays open: the next run takes it for one of unknown outcome and sends the very same
            # bytes, which the Marketplace honours once.
            self._run.failures.append(error)
            self._s.telemetry.error("an answer could not be written back", error=repr(error))

    def _settle_or_raise(self, sent: LedgerRecord, outcome: Outcome) -> None:
        assert sent.attempt is not None
        for attempt_number in range(_SWAP_TRIES):
            if attempt_number:
                self._s.clock.sleep(0.1 * 2**attempt_number)
            before = self._s.ledger.get(sent.group, direct=sent.direct)
            if before is None:
                raise MeteringError("a record vanished from the ledger between its intent and its answer")
            after = apply_outcome(
                before, sent.attempt.attempt_id, outcome, ttl=self._after(sent, outcome).ttl
            )
            if after is before:
                self._track(before)
                return
            report_surfacing(self._s.telemetry, before, after)
            if self._s.ledger.swap(before, advance(before, after, now=self._s.clock.now())):
                self._track(after)
                return
        raise ConditionFailed("an answer could not be written back: the record kept changing")

    def _count(self, outcome: Outcome) -> None:
        report = self._run.report
        match outcome:
            case Billed() | DryRun():
                report.billed += 1
            case Released():
                report.released += 1
            case Unknown():
                report.unknown += 1
            case _:
                report.refused += 1

    def _swap(self, before: LedgerRecord, after: LedgerRecord) -> None:
        report_surfacing(self._s.telemetry, before, after)
        if self._s.ledger.swap(before, advance(before, after, now=self._s.clock.now())):
            self._track(after)

    # --- the end -----------------------------------------------------------------------------------

    def _abandon(self) -> None:
        """Take in what is under way; reopen what was made ready but never sent, or refused as a whole."""
        run = self._run
        while run.in_flight or run.arrived:
            try:
                self._collect(until=None)
            except MeteringError as error:
                run.failures.append(error)
        while run.ready:
            batch = run.ready.popleft()
            if batch.intended and batch.records:
                self._give_back(batch.records, batch)

    def _lease(self, *, wait: bool) -> bool:
        """Take the single-sender lease; with ``wait``, until another sender is done or known to be dead.

        The minute's run and the five-minute run start together: the ordinary pass must not lose its turn to a
        run that only looked after one licence.
        """
        while True:
            now = self._s.clock.now()
            if self._s.ledger.acquire_lease(self._run.owner, now=now, until=now + LEASE):
                self._run.leased_until = now + LEASE
                return True
            if not wait or now >= self._run.stop_at:
                return False
            self._s.clock.sleep(_LEASE_POLL)

    def _renew(self, now: datetime) -> None:
        until = self._run.leased_until
        if until is None or now < until - LEASE / 2:
            return
        # Without the lease the run goes on: it only keeps two senders from sharing one pace for long.
        self._run.leased_until = now + LEASE
        try:
            self._lease(wait=False)
        except MeteringError as error:
            self._run.failures.append(error)

    def _report_unbilled(self) -> None:
        """Report what this run read and could not bill: how much, how old, how long to the month wall."""
        telemetry, now = self._s.telemetry, self._s.clock.now()
        unbilled = self._run.unbilled.values()
        telemetry.count(Metric.UNITS_AT_RISK, sum((quantity for _, quantity in unbilled), ZERO))
        oldest = min((hour for hour, _ in unbilled), default=None)
        age = 0.0 if oldest is None else (now - oldest).total_seconds()
        telemetry.count(Metric.OLDEST_UNBILLED_AGE_SECONDS, age)
        if oldest is not None:
            left = (month_wall(oldest) - now).total_seconds()
            telemetry.count(Metric.SECONDS_TO_MONTH_END_WALL, left)

    def _raise_failures(self) -> None:
        run = self._run
        if run.stopped_by or run.legacy_stopped_by:
            code = run.stopped_by or run.legacy_stopped_by
            raise SubmissionStopped(
                f"{code}: the Marketplace takes no requests; every record stays pending until it does"
            )
        if run.failures:
            raise PartialFailure(f"{len(run.failures)} steps of this run failed") from run.failures[0]
