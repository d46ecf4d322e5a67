"""Raw usage rows: what belongs to which group, and why a row is refused."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from awsmp.domain.allocations import Allocation, canonical_value, parse_row_allocations
from awsmp.domain.hours import parse_bucket, parse_second
from awsmp.domain.identifiers import Group
from awsmp.domain.quantities import QuantityType, counted, quantity_reason
from awsmp.domain.reasons import ValidationReason

LICENSE_ARN: Final = "licenseArn"
ROW_SORT_KEY: Final = "customerAWSAccountId#dimension#timestamp"
METERING_PENDING: Final = "meteringPending"

#: The attributes that decide what a row means; a change of any of them makes it another row.
FOLDED_ATTRIBUTES: Final = (
    "quantity",
    "usageAllocations",
    "timestamp",
    "customerAWSAccountId",
    "dimension",
    "customerIdentifier",
)

#: Ends the stamp of a row that no group can claim: the stamp, not the ledger, is the record of it.
UNCLAIMED: Final = " (claimed by no group)"

_NAMED_HOUR = re.compile(r"#(\d{4}-\d{2}-\d{2}T\d{2}):", re.ASCII)
_SUFFIX = re.compile(r":\d{2}:\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One item of the usage table, as stored. ``attributes`` are Python values (numbers as Decimals)."""

    attributes: Mapping[str, object]

    @property
    def license_arn(self) -> str:
        """The partition key."""
        return str(self.attributes[LICENSE_ARN])

    @property
    def sort_key(self) -> str:
        """The range key."""
        return str(self.attributes[ROW_SORT_KEY])

    @property
    def pending_bucket(self) -> str | None:
        """The hour bucket under which the row is discoverable, or None once it was processed."""
        value = self.attributes.get(METERING_PENDING)
        return None if value is None else str(value)

    @property
    def quantity(self) -> Decimal:
        """What the row adds to the written quantity: 0 where the attribute is no usable number."""
        return counted(self.attributes.get("quantity"))

    def digest(self) -> str:
        """Return a digest of everything that decides what the row means."""
        hasher = hashlib.sha256(self.sort_key.encode())
        for name in FOLDED_ATTRIBUTES:
            if name in self.attributes:
                hasher.update(f"\x1f{name}={canonical_value(self.attributes[name])}".encode())
        return hasher.hexdigest()[:32]

    def belongs_to(self, group: Group) -> bool:
        """Tell whether this row is one of ``group``'s.

        Its attributes must name the group and its key begin with the group's prefix. A row that is
        marked pending in another hour, or that was rejected by name because no group could claim it, is
        nobody's.
        """
        if self.attributes.get("customerAWSAccountId") != group.customer_account:
            return False
        if self.attributes.get("dimension") != group.dimension:
            return False
        if not self.sort_key.startswith(f"{group.row_prefix}:"):
            return False
        pending = self.pending_bucket
        if pending is not None:
            return pending == group.bucket
        return not self._was_disowned()

    def _was_disowned(self) -> bool:
        return str(self.attributes.get("meteringStatusReason", "")).endswith(UNCLAIMED)


def groups_named_by(license_arn: str, sort_key: str) -> list[Group]:
    """Return every group whose prefix the row's key begins with, whatever its attributes say.

    That is one for a well-formed key: neither an account id nor a timestamp holds ``#``. A malformed key, or
    a dimension that holds a date and hour, may name several.
    """
    account, _, rest = sort_key.partition("#")
    groups = []
    for found in _NAMED_HOUR.finditer(rest):
        hour = parse_bucket(found.group(1))
        if hour is not None and found.start() > 0:
            groups.append(Group(license_arn, account, rest[: found.start()], hour))
    return groups


def unclaimed_stamp(reason: ValidationReason) -> str:
    """Return the ``meteringStatusReason`` of a row that no group can claim."""
    return f"{reason}{UNCLAIMED}"


def unclaimable_reason(
    sort_key: str, pending_bucket: str, customer_account: object, dimension: object
) -> ValidationReason | None:
    """Return why no group can claim an index entry, or None when its key reproduces its group."""
    if dimension is None or dimension == "":
        return ValidationReason.MISSING_DIMENSION
    if not isinstance(customer_account, str) or not isinstance(dimension, str):
        return ValidationReason.SORT_KEY_MISMATCH
    if sort_key.startswith(f"{customer_account}#{dimension}#{pending_bucket}:"):
        return None
    prefix = f"{customer_account}#{dimension}#"
    if not sort_key.startswith(prefix):
        looks_whole = parse_second(sort_key.rpartition("#")[2]) is not None and sort_key.count("#") >= 2
        return ValidationReason.SORT_KEY_MISMATCH if looks_whole else ValidationReason.MALFORMED_SORT_KEY
    instant = parse_second(sort_key.removeprefix(prefix))
    if instant is None:
        return ValidationReason.MALFORMED_SORT_KEY
    return ValidationReason.PENDING_BUCKET_MISMATCH


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A row of a group after validation: its allocations, or the reason why it is refused."""

    quantity: Decimal
    allocations: tuple[Allocation, ...] = ()
    reason: ValidationReason | None = None


def check_row(row: UsageRow, group: Group, kind: QuantityType, now: datetime) -> CheckedRow:
    """Validate one row of ``group``.

    ``kind`` is the deployment's quantity type; ``now`` refuses rows from the future of an hour that has
    not begun.
    """
    reason = _time_reason(row, group, now) or quantity_reason(
        row.attributes.get("quantity"), kind, present="quantity" in row.attributes
    )
    if reason is not None:
        return CheckedRow(row.quantity, (), reason)
    if "usageAllocations" not in row.attributes:
        return CheckedRow(row.quantity)
    allocations, reason = parse_row_allocations(row.attributes["usageAllocations"], row.quantity, kind)
    return CheckedRow(row.quantity, allocations, reason)


def _time_reason(row: UsageRow, group: Group, now: datetime) -> ValidationReason | None:
    suffix = row.sort_key.removeprefix(group.row_prefix)
    if _SUFFIX.fullmatch(suffix) is None:
        return ValidationReason.MALFORMED_SORT_KEY
    timestamp = row.attributes.get("timestamp")
    instant = parse_second(timestamp) if isinstance(timestamp, str) else None
    if instant is None:
        return ValidationReason.MALFORMED_TIMESTAMP
    if timestamp != f"{group.bucket}{suffix}":
        return ValidationReason.SORT_KEY_MISMATCH
    if group.hour > now:
        return ValidationReason.TIMESTAMP_OUT_OF_WINDOW
    return None
