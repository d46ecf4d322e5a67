"""The ledger record's life: every transition of one group, as pure functions.

A record is the only place that decides money. It always satisfies
``total = billed + pending + surfaced``; what is surfaced is recomputed from the other three, never
incremented. Each function takes a record and returns the next one, or the same one when nothing
changes; the store swaps the two under a condition on ``version``, so a transition computed from a
state that is gone is never written.

One *attempt id* stands for one frozen (quantity, timestamp): every identical send of these bytes
carries it, and every answer to any of them may be applied. A definitive refusal of the only send
ends the attempt and reopens the record; an answer that never came freezes it for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum, auto
from typing import Final

from awsmp.domain.allocations import Allocation, from_api_shape, to_api_shape
from awsmp.domain.folding import Fold, Rejection
from awsmp.domain.hours import HOUR, BillingWindow, format_instant, parse_bucket, parse_instant
from awsmp.domain.identifiers import Group
from awsmp.domain.quantities import ZERO
from awsmp.domain.reasons import MeteringStatus, SurfacedReason

LEDGER_SORT_KEY: Final = "customerAWSAccountId#dimension#hour"

#: Begins the sort key of what we know of a seller's direct-submit input. An account id has digits only,
#: so no input's own key begins like this.
DIRECT_PREFIX: Final = "ledger#"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The frozen bytes of a record: sent at least once, or about to be.

    ``open`` while a sender may still be waiting for its answer; ``unknown`` once the outcome of any
    send is not known, and never false again.
    """

    attempt_id: str
    started_at: datetime
    open: bool = True
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """One item of the aggregated-usage table. Quantities are exact; ``version`` counts the writes."""

    group: Group
    total: Decimal
    digest: str
    row_count: int
    quantity: Decimal
    allocations: tuple[Allocation, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    pending: bool = True
    status: MeteringStatus | None = None
    status_reason: str | None = None
    record_id: str | None = None
    billed: Decimal = ZERO
    attempt: Attempt | None = None
    sent_timestamp: datetime | None = None
    content_stale: bool = False
    refold_required: bool = False
    final_flush: bool = False
    customer_identifier: str | None = None
    direct: bool = False
    ttl: int | None = None
    version: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def pending_quantity(self) -> Decimal:
        """What is or will be sent; 0 once the record is terminal."""
        return self.quantity if self.pending else ZERO

    @property
    def surfaced(self) -> Decimal:
        """What was written and is neither billed nor pending, signed."""
        return self.total - self.billed - self.pending_quantity

    @property
    def rejected(self) -> Decimal:
        """What the last fold's refused rows add up to, signed."""
        return sum((rejection.quantity for rejection in self.rejections), ZERO)

    @property
    def rejected_rows(self) -> int:
        """How many rows the last fold refuses."""
        return sum(rejection.rows for rejection in self.rejections)

    @property
    def rejection(self) -> str | None:
        """The first reason for which the last fold refuses rows."""
        return self.rejections[0].reason if self.rejections else None

    @property
    def superseded(self) -> bool:
        """Whether the last fold differs from the bytes that are frozen."""
        return self.content_stale or self.quantity != self.total - self.rejected

    @property
    def has_valid_part(self) -> bool:
        """Whether at least one row of the last fold can be sent, or none is left: then a zero is."""
        return self.row_count > self.rejected_rows or self.row_count == 0

    @property
    def blocked(self) -> bool:
        """Whether bad rows hold the group back, to be corrected."""
        return self.pending and self.rejection is not None and self.attempt is None

    @property
    def timestamp(self) -> datetime:
        """The timestamp that is sent: the hour's start, or the licence's activation within the hour."""
        return self.sent_timestamp or self.group.hour

    @property
    def sort_key(self) -> str:
        """The record's sort key in the aggregated-usage table."""
        return ledger_sort_key(self.group, direct=self.direct)

    def surfaced_by_reason(self) -> dict[str, Decimal]:
        """Split the surfaced quantity by reason code; parts of 0 are left out."""
        parts = {rejection.reason: rejection.quantity for rejection in self.rejections}
        late = self.surfaced - self.rejected
        if not self.pending and self.status_reason is not None:
            # What would have been sent went unbilled for the status' own reason; only the rest came late.
            unbilled = self.quantity - self.billed
            parts[self.status_reason] = parts.get(self.status_reason, ZERO) + unbilled
            late -= unbilled
        reason = self._late_reason()
        parts[reason] = parts.get(reason, ZERO) + late
        return {reason: quantity for reason, quantity in parts.items() if quantity != ZERO}

    def _late_reason(self) -> str:
        return SurfacedReason.AFTER_FINAL_FLUSH if self.final_flush else SurfacedReason.LATE_AFTER_SUBMISSION


def ledger_sort_key(group: Group, *, direct: bool) -> str:
    """Return the sort key of ``group``'s record; ``direct`` where the seller's input holds the plain key."""
    return f"{DIRECT_PREFIX}{group.ledger_sort_key}" if direct else group.ledger_sort_key


# --- folds -----------------------------------------------------------------------------------------


def apply_fold(
    record: LedgerRecord | None,
    group: Group,
    fold: Fold,
    *,
    now: datetime,
    window: BillingWindow,
    final_flush: bool = False,
    direct: bool = False,
) -> LedgerRecord:
    """Return the record after ``fold``; the very same object when the fold brings nothing new.

    ``final_flush`` marks the last look at an unfinished hour before its licence's window closes.

    Raises
    ------
    ValueError
        The group's hour has not begun at ``now``.
    """
    if group.hour > now:
        raise ValueError("the hour has not begun")
    billable = window.is_billable(group.hour, now)
    if record is None:
        created = LedgerRecord(
            group=group,
            total=ZERO,
            digest="",
            row_count=0,
            quantity=ZERO,
            direct=direct,
            customer_identifier=fold.customer_identifier,
        )
        fresh = _reopened(created, fold, final_flush)
        expired = MeteringStatus.SUBMISSION_EXPIRED if direct else MeteringStatus.AGGREGATION_EXPIRED
        return fresh if billable else _closed(fresh, expired, expired)
    if _same_fold(record, fold):
        return replace(record, final_flush=True) if final_flush and not record.final_flush else record
    if record.pending and record.attempt is None:
        reopened = _reopened(record, fold, final_flush)
        return reopened if billable else expire(reopened, now=now, window=window)
    if _reopens(record) and billable:
        return _reopened(replace(record, attempt=None, sent_timestamp=None), fold, final_flush)
    return replace(
        record,
        total=fold.total,
        digest=fold.digest,
        row_count=fold.row_count,
        rejections=fold.rejections,
        content_stale=_content(fold) != _content(record),
        final_flush=record.final_flush or final_flush,
    )


def _same_fold(record: LedgerRecord, fold: Fold) -> bool:
    if record.refold_required:
        return False
    # The outcome is compared beside the digest: a deployment that judges the same rows otherwise (another
    # quantity type, say) has to be able to reopen what it refused before.
    return (record.digest, record.rejections) == (fold.digest, fold.rejections)


def _content(source: Fold | LedgerRecord) -> tuple[object, ...]:
    """Return what is sent beside the quantity."""
    return source.allocations, source.customer_identifier


def _reopens(record: LedgerRecord) -> bool:
    refused = not record.pending and record.status is MeteringStatus.REJECTED_CLIENT_SIDE
    return refused and (record.attempt is None or not record.attempt.unknown)


def _reopened(record: LedgerRecord, fold: Fold, final_flush: bool) -> LedgerRecord:
    return replace(
        record,
        total=fold.total,
        digest=fold.digest,
        row_count=fold.row_count,
        quantity=fold.billable,
        allocations=fold.allocations,
        rejections=fold.rejections,
        pending=True,
        status=None if fold.reason is None else MeteringStatus.REJECTED_CLIENT_SIDE,
        status_reason=fold.reason,
        content_stale=False,
        refold_required=False,
        final_flush=record.final_flush or final_flush,
        customer_identifier=fold.customer_identifier,
    )


def _closed(record: LedgerRecord, status: MeteringStatus, reason: str) -> LedgerRecord:
    return replace(record, pending=False, status=status, status_reason=reason)


# --- intent ----------------------------------------------------------------------------------------


class Readiness(Enum):
    """What the submitter does with a pending record now."""

    SEND = auto()
    WAIT = auto()
    REFOLD = auto()
    CLOSE_REJECTED = auto()


def readiness(
    record: LedgerRecord,
    *,
    now: datetime,
    window: BillingWindow,
    sender_timeout: timedelta,
    license_expiry: datetime | None = None,
) -> Readiness:
    """Tell what is to be done with ``record`` at ``now``.

    ``sender_timeout`` is the longest that a sender lives: an open attempt younger than that is left
    alone. ``license_expiry`` is when the licence's final-usage window closes, if it is closing.
    """
    if not record.pending or not window.is_billable(record.group.hour, now):
        return Readiness.WAIT
    if record.attempt is not None:
        alive = record.attempt.open and now < record.attempt.started_at + sender_timeout
        return Readiness.WAIT if alive else Readiness.SEND
    if record.refold_required:
        return Readiness.REFOLD
    last_chance = now >= window.last_processed_from(record.group.hour, license_expiry)
    if not last_chance:
        return Readiness.WAIT if record.blocked or record.quantity == ZERO else Readiness.SEND
    return Readiness.SEND if record.has_valid_part else Readiness.CLOSE_REJECTED


def begin_attempt(record: LedgerRecord, attempt_id: str, *, now: datetime) -> LedgerRecord:
    """Fix quantity and timestamp before they are sent.

    A record that was sent before keeps its attempt id, for the bytes are the same; an attempt still open
    from then is of unknown outcome now.
    """
    if record.attempt is None:
        return replace(record, attempt=Attempt(attempt_id, now))
    return replace(record, attempt=replace(record.attempt, started_at=now, open=True, unknown=True))


def restamp_attempt(
    record: LedgerRecord, attempt_id: str, timestamp: datetime, *, now: datetime
) -> LedgerRecord:
    """Begin another attempt with another timestamp of the same hour, after a definitive refusal.

    Raises
    ------
    ValueError
        The record's outcome is unknown, or ``timestamp`` lies in another hour: its bytes may not change.
    """
    hour = record.group.hour
    if record.attempt is None or record.attempt.unknown or not hour <= timestamp < hour + HOUR:
        raise ValueError("only a definitively refused record may change its timestamp, within its hour")
    return replace(record, attempt=Attempt(attempt_id, now), sent_timestamp=timestamp)


# --- outcomes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Billed:
    """The Marketplace answered ``Success``."""

    record_id: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The Marketplace holds another record for this hour."""


@dataclass(frozen=True, slots=True)
class NotSubscribed:
    """The Marketplace knows no active agreement of this customer."""


@dataclass(frozen=True, slots=True)
class Released:
    """A definitive refusal of the request that says nothing about this record: try again."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A definitive refusal of this very record; ``reason`` is the exception's name."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody knows whether the record was honoured."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """Nothing was called. ``counted`` is false for an account that is not on the test allowlist."""

    counted: bool


Outcome = Billed | Duplicate | NotSubscribed | Released | Refused | Unknown | DryRun


def apply_outcome(
    record: LedgerRecord, attempt_id: str, outcome: Outcome, *, ttl: int | None = None
) -> LedgerRecord:
    """Return the record after an answer to a send of ``attempt_id``; unchanged when it is another's.

    ``Success`` wins over whatever else an identical send was told and over expiry; any other answer
    changes a pending record only. ``ttl`` (epoch seconds) is set with a billing outcome.
    """
    attempt = record.attempt
    if attempt is None or attempt.attempt_id != attempt_id or record.status is MeteringStatus.SUCCESS:
        return record
    if isinstance(outcome, Billed):
        return replace(
            _answered(record, MeteringStatus.SUCCESS, None),
            billed=record.quantity,
            record_id=outcome.record_id,
            ttl=ttl,
        )
    if not record.pending:
        return record
    match outcome:
        case Duplicate():
            return _answered(record, MeteringStatus.DUPLICATE_RECORD, SurfacedReason.POSSIBLE_UNDER_BILLING)
        case NotSubscribed():
            # Where an earlier send was never answered, the record may have been honoured then.
            unknown, closed = SurfacedReason.OUTCOME_UNKNOWN, SurfacedReason.CUSTOMER_NOT_SUBSCRIBED
            reason = unknown if attempt.unknown else closed
            return _answered(record, MeteringStatus.CUSTOMER_NOT_SUBSCRIBED, reason)
        case DryRun(counted=True):
            return replace(_answered(record, MeteringStatus.DRY_RUN_SUBMITTED, None), billed=record.quantity)
        case DryRun():
            reason = SurfacedReason.NOT_ON_TEST_ALLOWLIST
            return _answered(record, MeteringStatus.DRY_RUN_SUBMITTED, reason)
        case Released() if not attempt.unknown:
            return _released(record)
        case Refused() if not attempt.unknown and record.superseded:
            # What was refused is not what the rows say by now: the newer fold gets its own try.
            return _released(record)
        case Refused(reason=name) if not attempt.unknown:
            return _answered(record, MeteringStatus.REJECTED_CLIENT_SIDE, name)
        case _:
            # Unknown, or a refusal after an unknown outcome: the earlier send may have been honoured, so the
            # bytes stay frozen and are sent again until an answer or the deadline.
            return replace(record, attempt=replace(attempt, open=False, unknown=True))


def _answered(record: LedgerRecord, status: MeteringStatus, reason: str | None) -> LedgerRecord:
    attempt = None if record.attempt is None else replace(record.attempt, open=False)
    return replace(_closed(record, status, reason or ""), status_reason=reason, attempt=attempt)


def _released(record: LedgerRecord) -> LedgerRecord:
    return replace(
        record,
        attempt=None,
        quantity=record.total - record.rejected,
        status=None if record.rejection is None else MeteringStatus.REJECTED_CLIENT_SIDE,
        status_reason=record.rejection,
        refold_required=record.content_stale,
        content_stale=False,
    )


def advance(before: LedgerRecord | None, after: LedgerRecord, *, now: datetime) -> LedgerRecord:
    """Return ``after`` as it is written over ``before``: the next version, with its audit times."""
    created = now if before is None else before.created_at
    return replace(
        after, version=1 if before is None else before.version + 1, created_at=created, updated_at=now
    )


# --- the end ---------------------------------------------------------------------------------------


def expire(record: LedgerRecord, *, now: datetime, window: BillingWindow) -> LedgerRecord:
    """Close ``record`` when it can no longer be billed; unchanged when it can, or is closed already."""
    if not record.pending or now < window.deadline(record.group.hour):
        return record
    if record.attempt is not None:
        return _closed(record, MeteringStatus.OUTCOME_UNKNOWN, SurfacedReason.OUTCOME_UNKNOWN)
    if record.rejection is not None and not record.has_valid_part:
        return close_rejected(record)
    return _closed(record, MeteringStatus.SUBMISSION_EXPIRED, SurfacedReason.SUBMISSION_EXPIRED)


def refuse(record: LedgerRecord, reason: str) -> LedgerRecord:
    """Close a record that was never sent and must not be: it would block its neighbours' request."""
    return _closed(record, MeteringStatus.REJECTED_CLIENT_SIDE, reason)


def close_rejected(record: LedgerRecord) -> LedgerRecord:
    """Close a blocked record that has no valid part, at its last processed hour."""
    return _closed(record, MeteringStatus.REJECTED_CLIENT_SIDE, record.rejection or "")


@dataclass(frozen=True, slots=True)
class Surfacing:
    """A change of what is surfaced for one reason: units to report, signed, and where they stand now."""

    reason: str
    change: Decimal
    now: Decimal


def surfacings(before: LedgerRecord | None, after: LedgerRecord) -> list[Surfacing]:
    """Return what the step newly surfaces; what only shrinks to 0 is left out."""
    old = {} if before is None else before.surfaced_by_reason()
    return [
        Surfacing(reason, quantity - old.get(reason, ZERO), quantity)
        for reason, quantity in after.surfaced_by_reason().items()
        if quantity != old.get(reason, ZERO)
    ]


def newly_rejected(before: LedgerRecord | None, after: LedgerRecord) -> list[tuple[str, int]]:
    """Return (reason, rows) that the step newly refuses; rows without a usable quantity count too."""
    old = {} if before is None else {each.reason: each for each in before.rejections}
    found = []
    for now in after.rejections:
        was = old.get(now.reason, Rejection(now.reason, 0, ZERO))
        # As many rows, or fewer, may be other ones: that counts once, for one alarm too many loses nothing.
        rows = max(now.rows - was.rows, int(now.digest != was.digest))
        if rows:
            found.append((now.reason, rows))
    return found


# --- the stored form -------------------------------------------------------------------------------


def to_item(record: LedgerRecord) -> dict[str, object]:
    """Return the attributes of ``record`` as they are stored; absent values are left out.

    Raises
    ------
    ValueError
        The record breaks the ledger's own rule, so it must not be written.
    """
    if record.pending and record.billed != ZERO:
        raise ValueError("a pending record cannot be billed")
    group, attempt = record.group, record.attempt
    item: dict[str, object] = {
        "licenseArn": group.license_arn,
        LEDGER_SORT_KEY: record.sort_key,
        "customerAWSAccountId": group.customer_account,
        "dimension": group.dimension,
        "hour": group.bucket,
        "totalQuantity": record.total,
        "foldDigest": record.digest,
        "recordCount": record.row_count,
        "quantity": record.quantity,
        "usageAllocations": to_api_shape(record.allocations) or None,
        "rejections": _rejections_to_item(record.rejections) or None,
        "meteringPending": group.bucket if record.pending else None,
        "meteringStatus": record.status,
        "meteringStatusReason": record.status_reason,
        "meteringRecordId": record.record_id,
        "billedQuantity": record.billed,
        "surfacedQuantity": record.surfaced,
        "attemptId": attempt.attempt_id if attempt else None,
        "attemptStartedAt": format_instant(attempt.started_at) if attempt else None,
        "attemptState": _attempt_state(attempt),
        "attemptUnknown": True if attempt and attempt.unknown else None,
        "sentTimestamp": format_instant(record.sent_timestamp) if record.sent_timestamp else None,
        "contentStale": True if record.content_stale else None,
        "refoldRequired": True if record.refold_required else None,
        "finalFlush": True if record.final_flush else None,
        "customerIdentifier": record.customer_identifier,
        "directSubmit": True if record.direct else None,
        "ttl": record.ttl,
        "version": record.version,
        "createdAt": format_instant(record.created_at) if record.created_at else None,
        "updatedAt": format_instant(record.updated_at) if record.updated_at else None,
    }
    return {
        name: str(value) if isinstance(value, Enum) else value
        for name, value in item.items()
        if value is not None
    }


def _rejections_to_item(rejections: tuple[Rejection, ...]) -> list[dict[str, object]]:
    return [
        {"reason": str(each.reason), "rows": each.rows, "quantity": each.quantity, "digest": each.digest}
        for each in rejections
    ]


def _rejections_from_item(stored: object) -> tuple[Rejection, ...]:
    if not isinstance(stored, list | tuple):
        raise TypeError("rejections are a list")
    return tuple(
        Rejection(
            str(each["reason"]), int(_number(each["rows"])), _number(each["quantity"]), str(each["digest"])
        )
        for each in stored
    )


def _attempt_state(attempt: Attempt | None) -> str | None:
    if attempt is None:
        return None
    return "open" if attempt.open else "unknown" if attempt.unknown else "answered"


def from_item(item: Mapping[str, object]) -> LedgerRecord:
    """Return the record of a stored item.

    Raises
    ------
    ValueError
        The item is no ledger record of ours.
    """
    hour = parse_bucket(str(item.get("hour", "")))
    if "version" not in item or hour is None:
        raise ValueError("not a ledger record: it has no version or no hour")
    try:
        return _from_item(item, hour)
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"not a ledger record: {type(error).__name__}") from error


def _from_item(item: Mapping[str, object], hour: datetime) -> LedgerRecord:
    status = item.get("meteringStatus")
    pending, billed = "meteringPending" in item, _number(item["billedQuantity"])
    if pending and billed != ZERO:
        raise ValueError("not a ledger record: it is pending and billed")
    return LedgerRecord(
        group=Group(str(item["licenseArn"]), str(item["customerAWSAccountId"]), str(item["dimension"]), hour),
        total=_number(item["totalQuantity"]),
        digest=str(item["foldDigest"]),
        row_count=int(_number(item["recordCount"])),
        quantity=_number(item["quantity"]),
        allocations=from_api_shape(item.get("usageAllocations")),
        rejections=_rejections_from_item(item.get("rejections", ())),
        pending=pending,
        status=None if status is None else MeteringStatus(str(status)),
        status_reason=_text(item.get("meteringStatusReason")),
        record_id=_text(item.get("meteringRecordId")),
        billed=billed,
        attempt=_attempt(item),
        sent_timestamp=_instant(item.get("sentTimestamp")),
        content_stale=item.get("contentStale") is True,
        refold_required=item.get("refoldRequired") is True,
        final_flush=item.get("finalFlush") is True,
        customer_identifier=_text(item.get("customerIdentifier")),
        direct=item.get("directSubmit") is True,
        ttl=int(_number(item["ttl"])) if "ttl" in item else None,
        version=int(_number(item["version"])),
        created_at=_instant(item.get("createdAt")),
        updated_at=_instant(item.get("updatedAt")),
    )


def _attempt(item: Mapping[str, object]) -> Attempt | None:
    if "attemptId" not in item:
        return None
    return Attempt(
        attempt_id=str(item["attemptId"]),
        started_at=parse_instant(str(item["attemptStartedAt"])),
        open=item.get("attemptState") == "open",
        unknown=item.get("attemptUnknown") is True,
    )


def _number(value: object) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int):
        return Decimal(value)
    raise ValueError(f"not a number: {value!r}")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _instant(value: object) -> datetime | None:
    return None if value is None else parse_instant(str(value))
