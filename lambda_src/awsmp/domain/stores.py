"""The stores and services that the use cases work on, as interfaces.

Every method may raise ``StoreUnavailable`` (a later attempt may succeed) or ``Misconfigured`` (a
permission or a table is missing).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Protocol

from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import LedgerRecord, Outcome
from awsmp.domain.rows import UsageRow


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One entry of the usage table's sparse ``metering_pending`` index."""

    license_arn: str
    sort_key: str
    customer_account: object
    dimension: object


@dataclass(frozen=True, slots=True)
class IndexPage:
    """Entries in licence order; ``more`` when the index holds further ones in the asked range."""

    entries: tuple[IndexEntry, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class RowStampWrite:
    """Take the pending mark off a row that still is ``row``, and stamp it."""

    row: UsageRow
    status: str
    reason: str


class UsageStore(Protocol):
    """The usage table."""

    def index_page(self, bucket: str, *, after_license: str | None, limit: int) -> IndexPage:
        """Return pending entries of ``bucket`` whose licence sorts after ``after_license``."""
        ...

    def license_index_page(self, bucket: str, license_arn: str, *, limit: int) -> IndexPage:
        """Return pending entries of one licence in ``bucket``."""
        ...

    def license_index(self, bucket: str, license_arn: str) -> Iterator[IndexEntry]:
        """Yield all pending entries of one licence in ``bucket``."""
        ...

    def first_row_after(self, license_arn: str, sort_key: str) -> UsageRow | None:
        """Return the licence's first row whose sort key is greater than ``sort_key``."""
        ...

    def may_have_pending(self, group: Group, *, limit: int) -> bool:
        """Look at ``limit`` rows of the group; False only when none of its rows can be pending."""
        ...

    def group_rows(self, group: Group) -> Iterator[UsageRow]:
        """Yield every row under the group's key prefix, in key order, read consistently."""
        ...

    def rows(self, license_arn: str, sort_keys: Sequence[str]) -> list[UsageRow]:
        """Return those of at most 100 rows that exist, read consistently."""
        ...

    def stamp(self, writes: Sequence[RowStampWrite], *, now: datetime) -> int:
        """Apply ``writes``; return how many rows had changed meanwhile and were left as they are."""
        ...


class SwapResult(Enum):
    """How a conditional write of one record ended."""

    DONE = auto()
    CONDITION_FAILED = auto()
    UNAVAILABLE = auto()


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """The key of an item of the aggregated-usage table."""

    license_arn: str
    sort_key: str


class LedgerStore(Protocol):
    """The aggregated-usage table."""

    def get(self, group: Group, *, direct: bool = False) -> LedgerRecord | None:
        """Return the group's record, read consistently, or None.

        Raises ``ForeignLedgerItem`` when the key is taken by an item that is no record of ours.
        """
        ...

    def create(self, record: LedgerRecord) -> bool:
        """Write ``record`` where nothing is; False when something is there already."""
        ...

    def create_many(self, records: Sequence[LedgerRecord]) -> list[SwapResult]:
        """Like :meth:`create`, 25 records a request, each under its own condition."""
        ...

    def swap(self, before: LedgerRecord, after: LedgerRecord) -> bool:
        """Replace ``before`` by ``after``; False when the stored version is another."""
        ...

    def swap_many(self, pairs: Sequence[tuple[LedgerRecord, LedgerRecord]]) -> list[SwapResult]:
        """Like :meth:`swap`, 25 records a request, each under its own condition."""
        ...

    def pending_keys(self, bucket: str, license_arn: str | None = None) -> Iterator[LedgerKey]:
        """Yield the keys of what is pending in ``bucket``, of one licence or of all."""
        ...

    def items(self, keys: Sequence[LedgerKey]) -> list[Mapping[str, object]]:
        """Return those of at most 100 items that exist, read consistently."""
        ...

    def settle_input(
        self, item: Mapping[str, object], *, status: str | None, reason: str | None, now: datetime
    ) -> bool:
        """Take the pending mark off a direct-submit input that still is ``item``; False when it changed."""
        ...

    def settle_inputs(
        self, inputs: Sequence[tuple[Mapping[str, object], str | None, str | None]], *, now: datetime
    ) -> list[SwapResult]:
        """Like :meth:`settle_input` for many (item, status, reason), each under its own condition."""
        ...

    def acquire_lease(self, owner: str, *, now: datetime, until: datetime) -> bool:
        """Take or renew the single-sender lease; False while another owner's has not run out."""
        ...

    def release_lease(self, owner: str) -> None:
        """Give the lease back if it still is ``owner``'s."""
        ...


class WorkQueue(Protocol):
    """A queue that takes message bodies."""

    def send(self, bodies: Iterable[str]) -> int:
        """Send every body, in as few requests as possible; return how many.

        Raises ``StoreUnavailable`` when one was not taken after some tries.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClosingLicense:
    """A licence in its final-usage window: every spelling of its ARN, and when the window closes."""

    license_arns: tuple[str, ...]
    customer_account: str
    expiry: datetime


class SubscriberDirectory(Protocol):
    """What the metering tier reads of the subscribers table."""

    def closing_licenses(self, now: datetime) -> list[ClosingLicense]:
        """Return the licences in their final-usage window."""
        ...

    def activation_time(self, license_arn: str, customer_account: str) -> datetime | None:
        """Return when the licence was first activated, if known."""
        ...


class FailureKind(Enum):
    """What a refused or unanswered BatchMeterUsage request means for the records in it."""

    THROTTLED = auto()
    POISON = auto()
    STOP = auto()
    STOP_LEGACY = auto()
    NOT_SENT = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """A request that was answered as a whole, or not at all. ``code`` is the exception's name."""

    kind: FailureKind
    code: str


@dataclass(frozen=True, slots=True)
class Unprocessed:
    """The Marketplace listed the record among its ``UnprocessedRecords``."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Per-record answers, in the order in which the records were sent."""

    outcomes: tuple[Outcome | Unprocessed, ...]


class Marketplace(Protocol):
    """BatchMeterUsage."""

    def send(self, records: Sequence[LedgerRecord]) -> Answers | RequestFailure:
        """Send one request; never raises for what the service or the network answers."""
        ...
