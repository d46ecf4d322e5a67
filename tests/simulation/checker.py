"""Judges a world by the model: P1, P2, P3 and P4, from the tables, the metrics and the Marketplace's history.

It reads stored items as they are and shares no code with the functions that wrote them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from awsmp.domain.ports import Metric
from sandbox.fake_marketplace.history import RecordOutcome, RequestEntry
from sandbox.memory_aws import MemoryDynamoDB
from sandbox.simulation.world import LEDGER, USAGE, World
from tests.simulation.model import GRACE, ZERO, Account, GroupKey, Model

ROW_KEY = "customerAWSAccountId#dimension#timestamp"
UNCLAIMED = " (claimed by no group)"

#: Beyond its lock a healthy group has to be billed within one discovery, one submission and some slack.
BILLED_WITHIN = timedelta(minutes=40)

#: Answers that prove that nothing of a request was honoured.
_NO_PROOF = {None, "InternalServiceErrorException"}

_METRICS = {
    "LateAfterSubmission": Metric.LATE_AFTER_SUBMISSION,
    "AfterFinalFlush": Metric.LATE_AFTER_SUBMISSION,
    "PossibleUnderBilling": Metric.POSSIBLE_UNDER_BILLING,
    "CustomerNotSubscribed": Metric.CUSTOMER_NOT_SUBSCRIBED,
    "SubmissionExpired": Metric.USAGE_SUBMISSION_EXPIRED,
    "AggregationExpired": Metric.USAGE_AGGREGATION_EXPIRED,
    "OutcomeUnknown": Metric.OUTCOME_UNKNOWN,
}


#: Ends that admit that the Marketplace may have honoured the record after all.
_UNSURE = {"OutcomeUnknown", "PossibleUnderBilling"}


class RowKey(NamedTuple):
    """One row of one Region's usage table."""

    region: str
    license_arn: str
    sort_key: str


class Broken(AssertionError):
    """A promise does not hold."""


def text(item: Mapping[str, Any], name: str) -> str | None:
    """Return a string attribute of a stored item."""
    value: Mapping[str, str] | None = item.get(name)
    return None if value is None else value.get("S")


def number(item: Mapping[str, Any], name: str) -> Decimal:
    """Return a number attribute of a stored item; 0 where it is absent or no number."""
    value = item.get(name)
    return Decimal(value["N"]) if value is not None and "N" in value else ZERO


@dataclass(slots=True)
class Checker:
    """Checks one world; what it has seen of the histories is kept between checks."""

    world: World
    model: Model
    calm_since: datetime
    tolerates_emptied: bool = False
    _requests: int = 0
    _honoured: int = 0
    _lines: int = 0
    _reported: dict[tuple[str, ...], set[Decimal]] = field(default_factory=lambda: defaultdict(set))
    _frozen: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    _may_be_honoured: set[tuple[Any, ...]] = field(default_factory=set)
    _billed: dict[GroupKey, Decimal] = field(default_factory=dict)

    def check(self) -> None:
        """Raise Broken unless every promise holds now."""
        self._read_requests()
        self._read_honoured()
        self._read_lines()
        items = {name: ledger_of(self.world, name) for name in self.world.regions}
        problems = [
            *self.model.problems(self._accounts(items)),
            *(
                problem
                for name, ledger in items.items()
                for item in ledger
                for problem in self._item(name, item)
            ),
            *self._late(items),
        ]
        if problems:
            raise Broken("\n".join(problems))

    # --- P1 ------------------------------------------------------------------------------------------

    def _accounts(self, items: Mapping[str, list[Any]]) -> Mapping[GroupKey, Account]:
        seen: dict[GroupKey, Account] = defaultdict(Account)
        totals: dict[GroupKey, Decimal] = {}
        for region, ledger in items.items():
            for item in ledger:
                group = group_of(region, item)
                account, totals[group] = seen[group], number(item, "totalQuantity")
                account.billed = number(item, "billedQuantity")
                account.pending = number(item, "quantity") if "meteringPending" in item else ZERO
                for reason, quantity in surfaced(item).items():
                    account.surfaced[reason] += quantity
        rows = self._rows()
        sums: dict[GroupKey, Decimal] = defaultdict(Decimal)
        marked: set[GroupKey] = set()
        for group, items_of_group in rows.items():
            for item in items_of_group:
                reason = text(item, "meteringStatusReason") or ""
                if "meteringPending" not in item and reason.endswith(UNCLAIMED):
                    seen[group].surfaced[reason.removesuffix(UNCLAIMED)] += number(item, "quantity")
                else:
                    sums[group] += number(item, "quantity")
                if "meteringPending" in item:
                    # A row that no group can claim may have been the row of the group that its key names.
                    marked |= {group, group._replace(hour=group.hour.removeprefix("row:"))}
        for group in marked:
            # What no fold has seen yet is pending, as long as a row of the group carries the mark.
            seen[group].pending += sums[group] - totals.get(group, ZERO)
        return seen

    def _rows(self) -> Mapping[GroupKey, list[Any]]:
        rows: dict[GroupKey, list[Any]] = defaultdict(list)
        for name, region in self.world.regions.items():
            for item in stored(region.dynamodb, USAGE):
                key = RowKey(name, item["licenseArn"]["S"], item[ROW_KEY]["S"])
                rows[self.model.rows[key].group].append(item)
        return rows

    def _item(self, region: str, item: Mapping[str, Any]) -> Iterator[str]:
        """Check one ledger item by itself, and against what the Marketplace holds."""
        group, status = group_of(region, item), text(item, "meteringStatus")
        pending, reason = "meteringPending" in item, text(item, "meteringStatusReason")
        total, billed = number(item, "totalQuantity"), number(item, "billedQuantity")
        open_part = number(item, "quantity") if pending else ZERO
        if number(item, "surfacedQuantity") != total - billed - open_part:
            yield f"P1 {group}: the stored surfaced quantity is not what is left"
        if "ttl" in item and status != "Success":
            yield f"P1 {group}: a record without a billing outcome may expire"
        if not pending and status is None:
            yield f"P1 {group}: neither pending nor ended"
        # An emptied group ends without a reason until the finding in test_regressions is mended.
        emptied = self.tolerates_emptied and number(item, "recordCount") == ZERO
        if not pending and status not in {"Success", None} and not reason and not emptied:
            yield f"P1 {group}: ended as {status} without a reason"
        for code, quantity in surfaced(item).items():
            if quantity != ZERO:
                yield from self._unreported(group, code, quantity)
        honoured = self._honoured_for(group, billed)
        unsure = "attemptId" in item and (pending or reason in _UNSURE)
        if honoured != billed and not (unsure and billed == ZERO):
            yield f"P1 {group}: the Marketplace bills {honoured}, the ledger says {billed} and {status}"

    def _honoured_for(self, group: GroupKey, billed: Decimal) -> Decimal:
        """Return what the Marketplace bills for the group; in any Region, where dedup spans them."""
        if self.model.dedup_is_global and billed in [self._billed.get(other) for other in self._alike(group)]:
            return billed
        return self._billed.get(group, ZERO)

    def _alike(self, group: GroupKey) -> list[GroupKey]:
        return [group._replace(region=name) for name in self.world.regions]

    def _unreported(self, group: GroupKey, reason: str, quantity: Decimal) -> Iterator[str]:
        metric = _METRICS.get(reason, Metric.USAGE_RECORD_REJECTED)
        metrics = self.world.recorder.metrics
        if not metrics[metric, reason] or not metrics[Metric.SURFACED_UNITS, reason]:
            yield f"P1 {group}: {reason} is in the ledger, but in no metric"
        if quantity not in self._reported[(*group[1:], reason)]:
            yield f"P1 {group}: {quantity} surfaced as {reason} was never reported"

    def _read_lines(self) -> None:
        lines = self.world.recorder.lines
        for _, _, fields in lines[self._lines :]:
            if "quantity" in fields and "hour" in fields:
                names = ("licenseArn", "customerAWSAccountId", "dimension", "hour", "reason")
                key = tuple(str(fields.get(name)) for name in names)
                self._reported[key].add(Decimal(str(fields["quantity"])))
        self._lines = len(lines)

    # --- P2 ------------------------------------------------------------------------------------------

    def _read_requests(self) -> None:
        entries = self.world.marketplace.requests()
        for entry in entries[self._requests :]:
            for outcome in entry.outcomes:
                self._read_attempt(entry, outcome)
        self._requests = len(entries)

    def _read_attempt(self, entry: RequestEntry, outcome: RecordOutcome) -> None:
        """Hold the record to the bytes that may have been honoured before; note an answered Success."""
        record = outcome.record
        hour = int(record["Timestamp"] // 3600)
        key = (entry.region, record["LicenseArn"], record["CustomerAWSAccountId"], record["Dimension"], hour)
        quantity = Decimal(str(record.get("QuantityAsDecimal", record.get("Quantity"))))
        sent = (quantity, record["Timestamp"], repr(record.get("UsageAllocations")))
        if self._frozen.setdefault(key, sent) != sent:
            raise Broken(f"P2 {key}: {self._frozen[key]} may have been honoured, then {sent} was sent")
        refused = entry.answered and entry.exception not in _NO_PROOF
        decided = outcome.status in {"CustomerNotSubscribed", "DuplicateRecord", "Unprocessed"}
        if refused or (entry.answered and decided):
            if key not in self._may_be_honoured:
                del self._frozen[key]
        else:
            self._may_be_honoured.add(key)
        if outcome.status == "Success" and entry.answered and entry.exception is None:
            self.model.answered[_group(key)] = quantity

    def _read_honoured(self) -> None:
        honoured = self.world.marketplace.honoured()
        for record in honoured[self._honoured :]:
            key = (record.region, str(record.license_arn), record.customer, record.dimension, record.hour)
            group = _group(key)
            if group in self._billed:
                raise Broken(f"P2 {group}: honoured twice")
            self._billed[group] = Decimal(str(record.quantity))
        self._honoured = len(honoured)

    # --- P3 and P4 -----------------------------------------------------------------------------------

    def check_deadlines(self) -> None:
        """Raise Broken when something is pending past its deadline or held up by somebody else's trouble."""
        if self.world.clock.now() <= self.calm_since + GRACE:
            # Nothing is late yet: every bound lies at least that far behind the last trouble.
            return
        items = {
            name: [item for item in stored(region.dynamodb, LEDGER) if "meteringPending" in item]
            for name, region in self.world.regions.items()
        }
        problems = list(self._late(items))
        if problems:
            raise Broken("\n".join(problems))

    def _late(self, items: Mapping[str, list[Any]]) -> Iterator[str]:
        for group in self._groups_with_pending_rows():
            yield from self._overdue(group, "rows", self.model.row_deadline)
        for region, ledger in items.items():
            for item in ledger:
                if "meteringPending" in item:
                    kind = "a record" if number(item, "quantity") != ZERO else "a zero"
                    yield from self._overdue(group_of(region, item), kind, self.model.deadline)

    def _groups_with_pending_rows(self) -> Mapping[GroupKey, None]:
        return {
            self.model.rows[RowKey(name, item["licenseArn"]["S"], item[ROW_KEY]["S"])].group: None
            for name, region in self.world.regions.items()
            for item in stored(region.dynamodb, USAGE)
            if "meteringPending" in item
        }

    def _overdue(self, group: GroupKey, what: str, deadline: Callable[[GroupKey], datetime]) -> Iterator[str]:
        now = self.world.clock.now()
        bucket = group.hour.removeprefix("row:")
        dated = group._replace(hour=bucket)
        since = max(self.model.writes[group][-1], self.calm_since)
        if now > max(deadline(dated), since) + GRACE:
            yield f"P3 {group}: {what} still pending at {now}, calm since {self.calm_since}"
        if what == "a zero" or now <= since + BILLED_WITHIN:
            return
        bound = max(self.model.first_folded(dated), since) + BILLED_WITHIN
        if bound < now and bound < self.model.deadline(dated) and self._healthy(group):
            yield f"P4 {group}: {what} held up until {now}, though nothing is wrong with it"

    def _healthy(self, group: GroupKey) -> bool:
        model = self.model
        closed = group.account in model.suspended or bool(model.closings[group.license_arn])
        inside = group.hour > model.activated[group.license_arn].isoformat()[:13]
        return not closed and inside and not model.flaws[group]

    # --- the end -------------------------------------------------------------------------------------

    def pending(self) -> list[str]:
        """Return what is still pending anywhere."""
        return [
            f"{name}: {item}"
            for name, region in self.world.regions.items()
            for table in (USAGE, LEDGER)
            for item in stored(region.dynamodb, table)
            if "meteringPending" in item
        ]


def stored(backend: MemoryDynamoDB, table: str) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a table as they are, not copied."""
    return (record.item for _, record in backend.table(table).records())


def ledger_of(world: World, region: str) -> list[Any]:
    """Return the ledger items of a Region without the lease."""
    return [item for item in stored(world.regions[region].dynamodb, LEDGER) if "version" in item]


def group_of(region: str, item: Mapping[str, Any]) -> GroupKey:
    """Return the group of a ledger item."""
    names = ("licenseArn", "customerAWSAccountId", "dimension", "hour")
    return GroupKey(region, *(item[name]["S"] for name in names))


def _group(key: tuple[Any, ...]) -> GroupKey:
    hour = datetime.fromtimestamp(key[4] * 3600, UTC).isoformat()[:13]
    return GroupKey(key[0], key[1], key[2], key[3], hour)


def surfaced(item: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return what a ledger item surfaces, by reason code."""
    parts: dict[str, Decimal] = defaultdict(Decimal)
    late = number(item, "surfacedQuantity")
    for rejection in (entry["M"] for entry in item.get("rejections", {"L": []})["L"]):
        parts[str(text(rejection, "reason"))] += number(rejection, "quantity")
        late -= number(rejection, "quantity")
    reason = text(item, "meteringStatusReason")
    if "meteringPending" not in item and reason is not None:
        unbilled = number(item, "quantity") - number(item, "billedQuantity")
        parts[reason] += unbilled
        late -= unbilled
    parts["AfterFinalFlush" if "finalFlush" in item else "LateAfterSubmission"] += late
    return {reason: quantity for reason, quantity in parts.items() if quantity != ZERO}
