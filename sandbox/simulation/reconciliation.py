"""The accounts: what the seller wrote against what was billed, is pending and was surfaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from awsmp.domain.hours import parse_bucket
from awsmp.domain.identifiers import Group
from awsmp.domain.ledger import LedgerRecord, from_item
from awsmp.domain.quantities import ZERO
from awsmp.domain.rows import UNCLAIMED, UsageRow
from sandbox.simulation.seller import GroupKey
from sandbox.simulation.stage import Stage


@dataclass(slots=True)
class Account:
    """One group's account. ``honoured`` is the Marketplace's own total, not ours."""

    group: GroupKey
    written: Decimal = ZERO
    billed: Decimal = ZERO
    pending: Decimal = ZERO
    surfaced: dict[str, Decimal] = field(default_factory=dict)
    honoured: Decimal = ZERO
    status: str | None = None
    reason: str | None = None

    @property
    def difference(self) -> Decimal:
        """What is missing from, or too much in, the account; 0 when it balances."""
        return self.written - self.billed - self.pending - sum(self.surfaced.values(), ZERO)

    def to_json(self) -> dict[str, Any]:
        """Return the account for ``report.json``; quantities as numbers."""
        license_arn, account, dimension, hour = self.group
        return {
            "licenseArn": license_arn,
            "customerAWSAccountId": account,
            "dimension": dimension,
            "hour": hour,
            "written": number(self.written),
            "billed": number(self.billed),
            "pending": number(self.pending),
            "surfaced": number(sum(self.surfaced.values(), ZERO)),
            "surfacedByReason": {name: number(value) for name, value in sorted(self.surfaced.items())},
            "honoured": number(self.honoured),
            "difference": number(self.difference),
            "status": self.status,
            "reason": self.reason,
        }


def number(value: Decimal | int) -> int | float:
    """Return ``value`` as a JSON number."""
    exact = Decimal(value)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def key_of(group: Group) -> GroupKey:
    """Return a group as the books name it."""
    return group.license_arn, group.customer_account, group.dimension, group.bucket


def ledger_records(items: Iterable[Mapping[str, Any]]) -> list[LedgerRecord]:
    """Return every record of the ledger's items; a seller's inputs and the lease are none."""
    return [from_item(item) for item in items if "version" in item]


def reconcile(stage: Stage, written: Mapping[GroupKey, Decimal]) -> list[Account]:
    """Return the account of every group that was written or is in the ledger, in order.

    A group without a record is pending as far as its rows still are; a row that no group could claim is
    surfaced by its own stamp.
    """
    accounts = {group: Account(group, quantity) for group, quantity in written.items()}
    records = ledger_records(stage.ledger())
    for record in records:
        account = accounts.setdefault(key_of(record.group), Account(key_of(record.group)))
        account.billed += record.billed
        account.pending += record.pending_quantity
        for reason, quantity in record.surfaced_by_reason().items():
            account.surfaced[str(reason)] = account.surfaced.get(reason, ZERO) + quantity
        account.status = None if record.status is None else str(record.status)
        account.reason = record.status_reason or record.rejection
    _add_rows(stage.usage(), accounts, {key_of(record.group): record for record in records})
    by_hour = {(*group[:3], _epoch_hour(group[3])): account for group, account in accounts.items()}
    for honoured in stage.honoured():
        found = by_hour.get((honoured.license_arn, honoured.customer, honoured.dimension, honoured.hour))
        if found is None:
            raise AssertionError(f"the Marketplace honoured a record that nobody wrote: {honoured}")
        found.honoured += honoured.quantity
    return sorted(accounts.values(), key=lambda account: account.group)


def _epoch_hour(bucket: str) -> int | None:
    hour = parse_bucket(bucket)
    return None if hour is None else int(hour.timestamp()) // 3600


def _add_rows(
    rows: Iterable[Mapping[str, Any]],
    accounts: dict[GroupKey, Account],
    records: Mapping[GroupKey, LedgerRecord],
) -> None:
    """Account for rows that the ledger does not hold: unclaimed ones, and those never folded yet."""
    in_table: dict[GroupKey, Decimal] = {}
    marked: set[GroupKey] = set()
    for item in rows:
        row = UsageRow(item)
        group = (
            row.license_arn,
            str(row.attributes.get("customerAWSAccountId")),
            str(row.attributes.get("dimension")),
            str(row.attributes.get("timestamp"))[:13],
        )
        reason = str(row.attributes.get("meteringStatusReason", ""))
        if row.pending_bucket is None and reason.endswith(UNCLAIMED):
            account = accounts.setdefault(group, Account(group))
            name = reason.removesuffix(UNCLAIMED)
            account.surfaced[name] = account.surfaced.get(name, ZERO) + row.quantity
            account.status = account.status or str(row.attributes.get("meteringStatus"))
            account.reason = account.reason or name
        else:
            in_table[group] = in_table.get(group, ZERO) + row.quantity
            if row.pending_bucket is not None:
                marked.add(group)
    for group in marked:
        # What no fold has seen yet is pending, as long as a row of the group carries the mark.
        total = records[group].total if group in records else ZERO
        accounts.setdefault(group, Account(group)).pending += in_table[group] - total


def summary(accounts: Iterable[Account]) -> dict[str, dict[str, Any]]:
    """Return, by dimension, what was written, billed, pending, surfaced by reason, and the difference."""
    sums: dict[str, dict[str, Any]] = {}
    for account in accounts:
        line = sums.setdefault(
            account.group[2],
            {"written": ZERO, "billed": ZERO, "pending": ZERO, "surfaced": {}, "difference": ZERO},
        )
        line["written"] += account.written
        line["billed"] += account.billed
        line["pending"] += account.pending
        line["difference"] += abs(account.difference)
        for reason, quantity in account.surfaced.items():
            line["surfaced"][reason] = line["surfaced"].get(reason, ZERO) + quantity
    return sums
