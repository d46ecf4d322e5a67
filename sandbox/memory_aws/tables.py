"""Tables and their indexes: sorted partitions, sparse projections, delayed visibility.

Nothing here knows of requests or expressions; :mod:`.dynamodb` calls it under one lock.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sortedcontainers import SortedDict  # type: ignore[import-untyped]

from .client import Meter
from .rejection import invalid
from .values import Item, Wire, comparable, item_size, kind_of, utf8_length

MAX_HASH_KEY_BYTES = 2048
MAX_RANGE_KEY_BYTES = 1024

Key = tuple[Any, ...]
Position = tuple[Any, ...]


class Record(NamedTuple):
    """A stored item (never changed in place) and its size in bytes."""

    item: Item
    size: int


@dataclass(frozen=True, slots=True)
class KeyAttribute:
    """One attribute of a key: its name and type (S, N or B)."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Lag:
    """How far an eventually consistent read may be behind, at most.

    A change becomes visible after a random number of later writes to the table (up to ``writes``) or a
    random time (up to ``seconds``), whichever comes first; None switches a limit off.
    """

    writes: int | None = None
    seconds: float | None = None


class Entry(NamedTuple):
    """Where a base item stands in an index, and what the index holds of it."""

    hash_value: Any
    position: Position
    record: Record


class Change(NamedTuple):
    """One write to a table: its number, its time, the key and what stood there before."""

    write: int
    time: datetime
    key: Key
    before: Record | None


class _Pending(NamedTuple):
    due_write: int | None
    due_time: datetime | None
    base_key: Key
    entry: Entry | None


class KeySchema:
    """The key of a table or an index."""

    def __init__(self, hash_key: KeyAttribute, range_key: KeyAttribute | None) -> None:
        self.hash_key = hash_key
        self.range_key = range_key
        self.attributes = (hash_key,) if range_key is None else (hash_key, range_key)
        self.names = tuple(attribute.name for attribute in self.attributes)

    def key_of(self, item: Mapping[str, Wire]) -> Key:
        """Return the comparable key of an item that was checked before."""
        return tuple(comparable(item[name]) for name in self.names)

    def project(self, item: Mapping[str, Wire]) -> Item:
        """Return only the key attributes of ``item``."""
        return {name: item[name] for name in self.names}


class Index:
    """A global secondary index.

    Items with equal index keys stand in an order of their own (a seeded hash of the base key): the service
    promises none, so nothing may rely on one.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        schema: KeySchema,
        projected: frozenset[str] | None,
    ) -> None:
        """``projected`` names the attributes beside the keys, None means all of them."""
        generator = table.generator
        base = table.schema
        self.name = name
        self.label = f"{table.name}/{name}"
        self.schema = schema
        self.base = base
        self.projected = None if projected is None else projected | set(schema.names) | set(base.names)
        self.partitions: dict[Any, SortedDict] = {}
        self._watched = None if self.projected is None else tuple(sorted(self.projected))
        self._latest: dict[Key, Entry] = {}
        self._by_base: dict[Key, tuple[Any, Position]] = {}
        self._pending: list[_Pending] = []
        self._generator = generator
        self._salt = generator.getrandbits(32)

    def position(self, item: Mapping[str, Wire]) -> Position:
        """Return the sort position that an item (or a start key) has in its partition."""
        base_key = self.base.key_of(item)
        tie = zlib.crc32(repr(base_key).encode(), self._salt)
        if self.schema.range_key is None:
            return (tie, *base_key)
        return (comparable(item[self.schema.range_key.name]), tie, *base_key)

    def entry(self, record: Record | None) -> Entry | None:
        """Return the entry of a base record; None when it lacks an index key (the index is sparse)."""
        if record is None or any(name not in record.item for name in self.schema.names):
            return None
        item = record.item
        if self.projected is None:
            projected = record
        else:
            kept = {name: value for name, value in item.items() if name in self.projected}
            projected = Record(kept, item_size(kept))
        return Entry(comparable(item[self.schema.hash_key.name]), self.position(item), projected)

    def follow(self, change: Change, after: Record | None, lag: Lag | None) -> int:
        """Take over one write to the base table; return the bytes written to the index (0: not touched)."""
        base_key, before = change.key, change.before
        if before is not None and after is not None and self._watched is not None:
            old, new = before.item, after.item
            if all(old.get(name) is new.get(name) for name in self._watched):
                return 0
        present = self._latest.get(base_key)
        entry = self.entry(after)
        if present == entry:
            return 0
        if entry is None:
            del self._latest[base_key]
        else:
            self._latest[base_key] = entry
        self._change(change, entry, lag)
        return (present.record.size if present else 0) + (entry.record.size if entry else 0)

    def _change(self, change: Change, entry: Entry | None, lag: Lag | None) -> None:
        if lag is None and not self._pending:
            self._apply(change.key, entry)
            return
        lag = lag or Lag(writes=0)
        generator = self._generator
        self._pending.append(
            _Pending(
                None if lag.writes is None else change.write + generator.randint(0, lag.writes),
                None
                if lag.seconds is None
                else change.time + timedelta(seconds=generator.uniform(0, lag.seconds)),
                change.key,
                entry,
            )
        )

    def catch_up(self, writes: int, now: datetime, *, everything: bool = False) -> None:
        """Apply the pending changes that are due; those of one item never overtake each other."""
        if not self._pending:
            return
        held: list[_Pending] = []
        blocked: set[Key] = set()
        for change in self._pending:
            due = (change.due_write is not None and writes >= change.due_write) or (
                change.due_time is not None and now >= change.due_time
            )
            if everything or (due and change.base_key not in blocked):
                self._apply(change.base_key, change.entry)
            else:
                blocked.add(change.base_key)
                held.append(change)
        self._pending = held

    def _apply(self, base_key: Key, entry: Entry | None) -> None:
        present = self._by_base.pop(base_key, None)
        if present is not None:
            partition = self.partitions[present[0]]
            del partition[present[1]]
            if not partition:
                del self.partitions[present[0]]
        if entry is not None:
            partition = self.partitions.get(entry.hash_value)
            if partition is None:
                partition = self.partitions[entry.hash_value] = SortedDict()
            partition[entry.position] = entry.record
            self._by_base[base_key] = (entry.hash_value, entry.position)


class Table:
    """One table: items by partition and sort key, its indexes and the recent changes."""

    def __init__(self, name: str, schema: KeySchema, seed: int) -> None:
        self.name = name
        self.schema = schema
        self.indexes: dict[str, Index] = {}
        self.plans: dict[Any, Any] = {}
        self.partitions: dict[Any, SortedDict] = {}
        self.writes = 0
        self.ttl_attribute: str | None = None
        self.generator = random.Random(seed)
        self._changes: deque[Change] = deque(maxlen=10_000)

    def get(self, key: Key) -> Record | None:
        """Return the record under ``key`` as of now."""
        partition = self.partitions.get(key[0])
        if partition is None:
            return None
        record: Record | None = partition.get(key[1:])
        return record

    def get_stale(self, key: Key, lag: Lag, now: datetime) -> Record | None:
        """Return the record under ``key`` as an eventually consistent read may see it."""
        before = self._rewound(lag, now)
        return before[key] if key in before else self.get(key)

    def partition_stale(self, hash_value: Any, lag: Lag, now: datetime) -> SortedDict:
        """Return one partition as an eventually consistent read may see it."""
        partition = SortedDict(self.partitions.get(hash_value, {}))
        for key, record in self._rewound(lag, now).items():
            if key[0] == hash_value:
                if record is None:
                    partition.pop(key[1:], None)
                else:
                    partition[key[1:]] = record
        return partition

    def _rewound(self, lag: Lag, now: datetime) -> dict[Key, Record | None]:
        """Return what to put back to see the table at a random moment that ``lag`` still allows."""
        writes = None if lag.writes is None else self.writes - self.generator.randint(0, lag.writes)
        time = (
            None if lag.seconds is None else now - timedelta(seconds=self.generator.uniform(0, lag.seconds))
        )
        before: dict[Key, Record | None] = {}
        for change in reversed(self._changes):
            visible = (writes is not None and change.write <= writes) or (
                time is not None and change.time <= time
            )
            if visible or (writes is None and time is None):
                break
            before[change.key] = change.before
        return before

    def put(
        self, key: Key, record: Record | None, now: datetime, lag: Lag | None, meter: Meter | None = None
    ) -> None:
        """Store ``record`` under ``key``; None deletes. Index entries follow, after ``lag``."""
        hash_value, rest = key[0], key[1:]
        partition = self.partitions.get(hash_value)
        before: Record | None = None if partition is None else partition.get(rest)
        if record is None and before is None:
            return
        self.writes += 1
        if record is not None:
            if partition is None:
                partition = self.partitions[hash_value] = SortedDict()
            partition[rest] = record
        elif partition is not None:
            del partition[rest]
            if not partition:
                del self.partitions[hash_value]
        change = Change(self.writes, now, key, before)
        self._changes.append(change)
        if meter is not None:
            meter.bytes_written[self.name] += max(before.size if before else 0, record.size if record else 0)
        for index in self.indexes.values():
            written = index.follow(change, record, lag)
            if written and meter is not None:
                meter.bytes_written[index.label] += written

    def records(self) -> Iterator[tuple[Key, Record]]:
        """Yield every record in key order, partitions in the order of their creation."""
        for hash_value, partition in self.partitions.items():
            for rest, record in partition.items():
                yield (hash_value, *rest), record


# -- checks of keys -----------------------------------------------------------------------------------


def check_key(schema: KeySchema, key: Mapping[str, Wire]) -> None:
    """Raise Rejection unless ``key`` is exactly a key of ``schema``."""
    if len(key) != len(schema.names):
        raise invalid("The provided key element does not match the schema")
    for attribute in schema.attributes:
        value = key.get(attribute.name)
        if value is None or kind_of(value) != attribute.kind:
            raise invalid("The provided key element does not match the schema")
    _check_key_values(schema, key)


def check_item_keys(table: Table, item: Mapping[str, Wire]) -> None:
    """Raise Rejection unless an item to be stored has the table's key and fits the indexes it enters."""
    for attribute in table.schema.attributes:
        value = item.get(attribute.name)
        if value is None:
            raise invalid(
                f"One or more parameter values were invalid: Missing the key {attribute.name} in the item"
            )
        if kind_of(value) != attribute.kind:
            raise invalid(
                "One or more parameter values were invalid: Type mismatch for key "
                f"{attribute.name} expected: {attribute.kind} actual: {kind_of(value)}"
            )
    _check_key_values(table.schema, item)
    check_index_keys(table, item)


def check_index_keys(table: Table, item: Mapping[str, Wire]) -> None:
    """Raise Rejection when an attribute of ``item`` cannot be the index key that it is declared to be."""
    for index in table.indexes.values():
        for attribute in index.schema.attributes:
            value = item.get(attribute.name)
            if value is None:
                continue
            if kind_of(value) != attribute.kind:
                raise invalid(
                    "One or more parameter values were invalid: Type mismatch for Index Key "
                    f"{attribute.name} Expected: {attribute.kind} Actual: "
                    f"{kind_of(value)} IndexName: {index.name}"
                )
            if attribute.kind != "N" and not value[attribute.kind]:
                word = "string" if attribute.kind == "S" else "binary"
                raise invalid(
                    "One or more parameter values are not valid. A value "
                    "specified for a secondary index key is "
                    "not supported. The AttributeValue for a key attribute cannot "
                    f"contain an empty {word} value. "
                    f"IndexName: {index.name}, IndexKey: {attribute.name}"
                )
            limit = MAX_HASH_KEY_BYTES if attribute is index.schema.hash_key else MAX_RANGE_KEY_BYTES
            if _key_bytes(value) > limit:
                raise invalid(
                    "One or more parameter values were invalid: Size of index key has exceeded the maximum "
                    f"size limit of {limit} bytes. IndexName: {index.name}, IndexKey: {attribute.name}"
                )


def _check_key_values(schema: KeySchema, item: Mapping[str, Wire]) -> None:
    for attribute in schema.attributes:
        value = item[attribute.name]
        if attribute.kind != "N" and not value[attribute.kind]:
            word = "string" if attribute.kind == "S" else "binary"
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
                f"contain an empty {word} value. Key: {attribute.name}"
            )
        if attribute is schema.hash_key and _key_bytes(value) > MAX_HASH_KEY_BYTES:
            raise invalid(
                "One or more parameter values were invalid: Size of hashkey has "
                "exceeded the maximum size limit "
                "of2048 bytes"
            )
        if attribute is schema.range_key and _key_bytes(value) > MAX_RANGE_KEY_BYTES:
            raise invalid(
                "One or more parameter values were invalid: Aggregated size of "
                "all range keys has exceeded the "
                "size limit of 1024 bytes"
            )


def _key_bytes(value: Wire) -> int:
    ((kind, raw),) = value.items()
    return utf8_length(raw) if kind == "S" else len(raw) if kind == "B" else 0
