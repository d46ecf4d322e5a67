"""Usage allocations (vendor-metered tagging): parsing, limits, merging, canonical text.

An allocation is a tag set with the quantity that it accounts for. Equal tag sets, whatever their
order, are one allocation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from awsmp.domain.quantities import ZERO, QuantityType, as_decimal, canonical, range_reason
from awsmp.domain.reasons import ValidationReason

#: Most allocations of one usage record (BatchMeterUsage API reference).
MAX_ALLOCATIONS: Final = 2500

#: Most tags of one allocation (BatchMeterUsage API reference).
MAX_TAGS: Final = 5

#: A ledger item may not exceed DynamoDB's 400 KB; this much of it is left to the allocations, the rest
#: covers keys and the record's own attributes.
MAX_ALLOCATION_BYTES: Final = 360 * 1024

# In the API's pattern, ``^[a-zA-Z0-9+ -=._:\\/@]+$``, the part between space and ``=`` is a range.
_TAG_TEXT = re.compile(r"[a-zA-Z0-9+ -=._:\\/@]+", re.ASCII)
_MAX_TAG_KEY = 100
_MAX_TAG_VALUE = 256

Tags = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """``quantity`` accounted for by ``tags`` (sorted pairs; empty for the untagged bucket)."""

    tags: Tags
    quantity: Decimal


def parse_row_allocations(
    value: object, quantity: Decimal, kind: QuantityType
) -> tuple[tuple[Allocation, ...], ValidationReason | None]:
    """Return the allocations of one row and why they are refused, if they are.

    ``value`` has the API's shape: a list of maps with ``AllocatedUsageQuantity`` (a number) and ``Tags``,
    a list of ``Key``/``Value`` maps that is absent, never empty, for the untagged bucket.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        return (), ValidationReason.INVALID_TAG
    allocations: list[Allocation] = []
    for entry in value:
        if not isinstance(entry, Mapping):
            return (), ValidationReason.INVALID_TAG
        number = as_decimal(entry.get("AllocatedUsageQuantity"))
        if number is None or range_reason(number, kind) is not None:
            return (), ValidationReason.ALLOCATION_SUM_MISMATCH
        tags, reason = _parse_tags(entry)
        if reason is not None:
            return (), reason
        allocations.append(Allocation(tags, number))
    if sum((allocation.quantity for allocation in allocations), ZERO) != quantity:
        return (), ValidationReason.ALLOCATION_SUM_MISMATCH
    return tuple(allocations), None


def _parse_tags(entry: Mapping[object, object]) -> tuple[Tags, ValidationReason | None]:
    if "Tags" not in entry:
        return (), None
    raw = entry["Tags"]
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes) or not raw:
        return (), ValidationReason.INVALID_TAG
    if len(raw) > MAX_TAGS:
        return (), ValidationReason.TOO_MANY_TAGS
    tags: list[tuple[str, str]] = []
    for tag in raw:
        if not isinstance(tag, Mapping):
            return (), ValidationReason.INVALID_TAG
        key, value = tag.get("Key"), tag.get("Value")
        if not _is_tag_text(key, _MAX_TAG_KEY) or not _is_tag_text(value, _MAX_TAG_VALUE):
            return (), ValidationReason.INVALID_TAG
        tags.append((str(key), str(value)))
    return tuple(sorted(tags)), None


def _is_tag_text(text: object, longest: int) -> bool:
    return isinstance(text, str) and len(text) <= longest and _TAG_TEXT.fullmatch(text) is not None


@dataclass(slots=True)
class AllocationSum:
    """Merges allocations as rows stream by; holds at most one entry more than the API takes."""

    _merged: dict[Tags, Decimal] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, allocations: Sequence[Allocation]) -> ValidationReason | None:
        """Add one row's allocations; return why the group cannot be sent any more, if so."""
        for allocation in allocations:
            before = self._merged.get(allocation.tags)
            if before is None:
                if len(self._merged) >= MAX_ALLOCATIONS:
                    return ValidationReason.TOO_MANY_ALLOCATIONS
                self._bytes += _stored_bytes(allocation.tags)
                if self._bytes > MAX_ALLOCATION_BYTES:
                    return ValidationReason.RECORD_TOO_LARGE
            self._merged[allocation.tags] = (before or ZERO) + allocation.quantity
        return None

    def merged(self) -> tuple[Allocation, ...]:
        """Return the merged allocations in the order of their tag sets."""
        return tuple(Allocation(tags, self._merged[tags]) for tags in sorted(self._merged))


def _stored_bytes(tags: Tags) -> int:
    # Upper bound of DynamoDB's item-size rules: names and values in UTF-8, one byte a map or list
    # element, three a map or list, 21 for a number.
    entry = len("AllocatedUsageQuantity") + 21 + len("Tags") + 8
    return entry + sum(len("Key") + len("Value") + 8 + len(key) + len(value) for key, value in tags)


def to_api_shape(allocations: Sequence[Allocation]) -> list[dict[str, object]]:
    """Return ``allocations`` as the ledger stores them: the API's shape, numbers as Decimals."""
    shaped: list[dict[str, object]] = []
    for allocation in allocations:
        entry: dict[str, object] = {"AllocatedUsageQuantity": allocation.quantity}
        if allocation.tags:
            entry["Tags"] = [{"Key": key, "Value": value} for key, value in allocation.tags]
        shaped.append(entry)
    return shaped


def from_api_shape(stored: object) -> tuple[Allocation, ...]:
    """Return what :func:`to_api_shape` stored; nothing for an absent attribute.

    Raises
    ------
    TypeError, KeyError, AttributeError, ArithmeticError
        It has another form.
    """
    if stored is None:
        return ()
    if not isinstance(stored, list | tuple):
        raise TypeError("allocations are a list")
    allocations = []
    for entry in stored:
        tags = tuple(sorted((str(tag["Key"]), str(tag["Value"])) for tag in entry.get("Tags", ())))
        allocations.append(Allocation(tags, Decimal(entry["AllocatedUsageQuantity"])))
    return tuple(allocations)


def canonical_value(value: object) -> str:
    """Return a canonical text of any stored attribute value, for digests.

    Numbers compare by value; text, numbers and other types never collide.
    """
    return json.dumps(_jsonable(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _jsonable(value: object) -> object:
    number = as_decimal(value)
    if number is not None:
        return {"N": canonical(number)}
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        return {"M": {str(key): _jsonable(item) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"SET": sorted(canonical_value(item) for item in value)}
    return {"B": str(value)}
