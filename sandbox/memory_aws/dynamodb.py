"""DynamoDB in memory, behind the method surface of ``boto3.client("dynamodb")``.

Limits, messages and orders of checks follow the service as its API reference and published conformance
captures describe them. What the simulation does not know raises NotImplementedError: it never guesses.
"""

from __future__ import annotations

import functools
import json
import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, NoReturn

from awsmp.domain.ports import Clock

from . import expressions, partiql
from .client import AfterCall, BeforeCall, EntryFault, MemoryClient, Meter
from .expressions import Between, Call, Compare, Condition, Constant, Node, Path, Projection, Update
from .rejection import Rejection, invalid
from .tables import (
    Index,
    Key,
    KeyAttribute,
    KeySchema,
    Lag,
    Position,
    Record,
    Table,
    check_index_keys,
    check_item_keys,
    check_key,
)
from .values import (
    MAX_ITEM_BYTES,
    Item,
    Wire,
    canonical,
    canonical_item,
    comparable,
    copy_item,
    item_size,
    kind_of,
    number,
)

MAX_PAGE_BYTES = 1024 * 1024
MAX_BATCH_GET_KEYS = 100
MAX_BATCH_BYTES = 16 * 1024 * 1024
MAX_BATCH_WRITES = 25
MAX_BATCH_STATEMENTS = 25
MAX_TRANSACTION_ACTIONS = 100
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
TRANSACTION_TOKEN_LIFETIME = timedelta(minutes=10)
TTL_HORIZON = timedelta(days=5 * 365)

#: Shapes of requests whose compiled form is kept; programs have few, fuzzers any number.
MAX_PLANS = 4096

_CONDITION_FAILED = "The conditional request failed"
_TOO_LARGE = "Item size has exceeded the maximum allowed size"
_UPDATE_TOO_LARGE = "Item size to update has exceeded the maximum allowed size"
# Greater than every tie-breaker of an index position, which is a 32-bit number.
_AFTER_ALL = float("inf")

_NAMES = frozenset({"ExpressionAttributeNames"})
_PLACEHOLDERS = frozenset({"ExpressionAttributeNames", "ExpressionAttributeValues"})
_WRITE = _PLACEHOLDERS | {
    "TableName",
    "ConditionExpression",
    "ReturnValues",
    "ReturnValuesOnConditionCheckFailure",
}
_BATCH_ERROR_CODES = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "DuplicateItemException": "DuplicateItem",
    "ItemCollectionSizeLimitExceededException": "ItemCollectionSizeLimitExceeded",
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
    "ResourceNotFoundException": "ResourceNotFound",
    "ThrottlingException": "ThrottlingError",
    "TransactionConflictException": "TransactionConflict",
    "ValidationException": "ValidationError",
}


class _Request:
    """The placeholders of one request; knows at the end which of them no expression used."""

    __slots__ = ("names", "used_names", "used_values", "values")

    def __init__(self, kwargs: Mapping[str, Any]) -> None:
        names = kwargs.get("ExpressionAttributeNames")
        values = kwargs.get("ExpressionAttributeValues")
        if names is not None and not names:
            raise invalid("ExpressionAttributeNames must not be empty")
        if values is not None and not values:
            raise invalid("ExpressionAttributeValues must not be empty")
        self.names: expressions.Names = tuple(sorted(names.items())) if names else ()
        self.values: dict[str, Wire] = {name: canonical(value)[0] for name, value in (values or {}).items()}
        self.used_names: set[str] = set()
        self.used_values: set[str] = set()

    def _use(self, references: expressions.References, label: str) -> None:
        missing = references.values - self.values.keys()
        if missing:
            raise invalid(
                f"Invalid {label}: An expression attribute value used in expression is not defined; "
                f"attribute value: {min(missing)}"
            )
        self.used_names |= references.names
        self.used_values |= references.values

    def condition(self, kwargs: Mapping[str, Any], parameter: str) -> Condition | None:
        """Compile a condition, filter or key condition of the request, if it has one."""
        text = kwargs.get(parameter)
        if text is None:
            return None
        compiled = expressions.condition(text, self.names, parameter)
        self._use(compiled.references, parameter)
        if compiled.rules or compiled.ranges:
            compiled.check(self.values, f"Invalid {parameter}: ")
        return compiled

    def update(self, kwargs: Mapping[str, Any]) -> Update | None:
        text = kwargs.get("UpdateExpression")
        if text is None:
            return None
        compiled = expressions.update(text, self.names)
        self._use(compiled.references, "UpdateExpression")
        return compiled

    def projection(self, kwargs: Mapping[str, Any]) -> Projection | None:
        text = kwargs.get("ProjectionExpression")
        if text is None:
            return None
        compiled = expressions.projection(text, self.names)
        self.used_names |= compiled.references.names
        return compiled

    def finish(self) -> None:
        """Refuse placeholders that nothing used."""
        for kind, unused in (
            ("Names", {name for name, _ in self.names} - self.used_names),
            ("Values", self.values.keys() - self.used_values),
        ):
            if unused:
                raise invalid(
                    f"Value provided in ExpressionAttribute{kind} unused in expressions: "
                    f"keys: {{{', '.join(sorted(unused))}}}"
                )


@dataclass(frozen=True, slots=True)
class _KeyCondition:
    hash_constant: str
    comparator: str | None
    operands: tuple[str, ...]


_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@functools.lru_cache(maxsize=4096)
def _key_condition(
    text: str, names: expressions.Names, hash_name: str, range_name: str | None
) -> _KeyCondition:
    """Read a KeyConditionExpression against a key; raises Rejection for what Query does not take."""
    compiled = expressions.condition(text, names, "KeyConditionExpression")
    terms = _key_terms(compiled.node)
    keys = (hash_name,) if range_name is None else (hash_name, range_name)
    attributes = [attribute for attribute, _, _ in terms]
    if len(set(attributes)) < len(attributes):
        raise invalid(
            "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"
        )
    if len(terms) > len(keys):
        raise invalid(
            f"The number of query conditions ({len(terms)}) exceeds the number "
            "of key attributes defined in the "
            f"schema ({len(keys)})"
        )
    by_attribute = {attribute: (comparator, operands) for attribute, comparator, operands in terms}
    if hash_name not in by_attribute:
        raise invalid(f"Query condition missed key schema element: {hash_name}")
    comparator, operands = by_attribute.pop(hash_name)
    if comparator != "=":
        raise invalid("Query key condition not supported")
    if not by_attribute:
        return _KeyCondition(operands[0], None, ())
    if range_name is None or range_name not in by_attribute:
        raise invalid(f"Query condition missed key schema element: {range_name or hash_name}")
    range_comparator, range_operands = by_attribute[range_name]
    return _KeyCondition(operands[0], range_comparator, range_operands)


def _key_terms(node: Node) -> list[tuple[str, str, tuple[str, ...]]]:
    match node:
        case expressions.And(terms=terms):
            return [entry for term in terms for entry in _key_terms(term)]
        case Compare(
            comparator=comparator, left=Path(parts=(str() as name,)), right=Constant(name=value)
        ) if comparator in _FLIPPED:
            return [(name, comparator, (value,))]
        case Compare(
            comparator=comparator, left=Constant(name=value), right=Path(parts=(str() as name,))
        ) if comparator in _FLIPPED:
            return [(name, _FLIPPED[comparator], (value,))]
        case Between(operand=Path(parts=(str() as name,)), low=Constant(name=low), high=Constant(name=high)):
            return [(name, "BETWEEN", (low, high))]
        case Call(function="begins_with", arguments=(Path(parts=(str() as name,)), Constant(name=value))):
            return [(name, "begins_with", (value,))]
        case expressions.Or():
            raise invalid("Invalid operator used in KeyConditionExpression: OR")
        case expressions.Not():
            raise invalid("Invalid operator used in KeyConditionExpression: NOT")
        case Compare(comparator="<>"):
            raise invalid("Invalid operator used in KeyConditionExpression: <>")
    raise invalid("Invalid KeyConditionExpression: Query key condition not supported")


class _Bounds(NamedTuple):
    low: Position | None
    high: Position | None
    include_low: bool
    include_high: bool

    def contains(self, position: Position) -> bool:
        above = self.low is None or position > self.low or (self.include_low and position == self.low)
        below = self.high is None or position < self.high or (self.include_high and position == self.high)
        return above and below


_EVERYTHING = _Bounds(None, None, True, True)


def _bounds(comparator: str | None, operands: Sequence[Wire]) -> _Bounds:
    """Return the positions that a sort-key condition selects; in an index a value may have many."""
    if comparator is None:
        return _EVERYTHING
    first = comparable(operands[0])
    match comparator:
        case "=":
            return _Bounds((first,), (first, _AFTER_ALL), True, True)
        case "<":
            return _Bounds(None, (first,), True, False)
        case "<=":
            return _Bounds(None, (first, _AFTER_ALL), True, True)
        case ">":
            return _Bounds((first, _AFTER_ALL), None, False, True)
        case ">=":
            return _Bounds((first,), None, True, True)
        case "BETWEEN":
            return _Bounds((first,), (comparable(operands[1]), _AFTER_ALL), True, True)
    end = _after_prefix(first)
    return _Bounds((first,), None if end is None else (end,), True, False)


def _after_prefix(prefix: Any) -> Any:
    """Return the least value greater than everything that begins with ``prefix``; None when there is none."""
    if isinstance(prefix, bytes):
        trimmed = prefix.rstrip(b"\xff")
        return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None
    text = prefix.rstrip("\U0010ffff")
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == 0xD800 else following)


class _Write(NamedTuple):
    """A write that passed its checks and is not applied yet."""

    table: Table
    key: Key
    before: Record | None
    after: Record | None
    update: Update | None = None


class MemoryDynamoDB:
    """The tables of one account and Region, shared by any number of clients.

    ``index_lag`` and ``base_lag`` switch eventual consistency on (they may be changed at any time, a hook
    may do so for one call); consistent reads are always exact. ``seed`` decides lags, tie orders in indexes
    and the order of BatchGetItem answers.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        allow_scan: bool = False,
        index_lag: Lag | None = None,
        base_lag: Lag | None = None,
    ) -> None:
        """Begin without tables; Scan is refused with AccessDeniedException unless ``allow_scan``."""
        self.clock = clock
        self.seed = seed
        self.allow_scan = allow_scan
        self.index_lag = index_lag
        self.base_lag = base_lag
        self.lock = threading.RLock()
        self.tables: dict[str, Table] = {}
        self.generator = random.Random(seed)
        self.transaction_tokens: dict[str, tuple[datetime, str]] = {}

    def client(
        self,
        *,
        before_call: BeforeCall | None = None,
        after_call: AfterCall | None = None,
        entry_fault: EntryFault | None = None,
        meter: Meter | None = None,
        strict_parameters: bool = False,
    ) -> DynamoDBClient:
        """Return a client with its own hooks and, unless one is passed, its own meter."""
        return DynamoDBClient(
            self,
            before_call=before_call,
            after_call=after_call,
            entry_fault=entry_fault,
            meter=meter,
            strict_parameters=strict_parameters,
        )

    def table(self, name: str) -> Table:
        """Return a table; raises Rejection (ResourceNotFoundException)."""
        table = self.tables.get(name)
        if table is None:
            raise Rejection("ResourceNotFoundException", "Requested resource not found")
        return table

    def items(self, table_name: str) -> list[Item]:
        """Return copies of all items, for tests to judge by: unmetered and exact."""
        with self.lock:
            return [copy_item(record.item) for _, record in self.table(table_name).records()]

    def settle(self) -> None:
        """Make every pending index change visible."""
        with self.lock:
            for table in self.tables.values():
                for index in table.indexes.values():
                    index.catch_up(table.writes, self.clock.now(), everything=True)

    def expire(self, table_name: str) -> list[Item]:
        """Delete what the table's TTL attribute says is past, and return it.

        As in the service, only a Number counts, and nothing more than five years old is deleted.
        """
        with self.lock:
            table = self.table(table_name)
            if table.ttl_attribute is None:
                return []
            now = self.clock.now()
            expired = [
                (key, record)
                for key, record in table.records()
                if _is_expired(record.item.get(table.ttl_attribute), now)
            ]
            for key, _ in expired:
                table.put(key, None, now, self.index_lag)
            return [copy_item(record.item) for _, record in expired]


def _is_expired(value: Wire | None, now: datetime) -> bool:
    if value is None or "N" not in value:
        return False
    seconds = number(value["N"])[1]
    return (now - TTL_HORIZON).timestamp() <= seconds < int(now.timestamp())


class DynamoDBClient(MemoryClient):
    """The low-level client. Each method takes and returns what boto3's does; see the AWS API reference."""

    service = "dynamodb"
    supported: ClassVar[Mapping[str, frozenset[str]]] = {
        "BatchExecuteStatement": frozenset({"Statements"}),
        "BatchGetItem": frozenset({"RequestItems"}),
        "BatchWriteItem": frozenset({"RequestItems"}),
        "CreateTable": frozenset(
            {
                "AttributeDefinitions",
                "BillingMode",
                "DeletionProtectionEnabled",
                "GlobalSecondaryIndexes",
                "KeySchema",
                "SSESpecification",
                "StreamSpecification",
                "TableName",
                "Tags",
            }
        ),
        "DeleteItem": _WRITE | {"Key"},
        "DescribeTable": frozenset({"TableName"}),
        "DescribeTimeToLive": frozenset({"TableName"}),
        "ExecuteStatement": frozenset(
            {"Statement", "Parameters", "ConsistentRead", "ReturnValuesOnConditionCheckFailure"}
        ),
        "GetItem": _NAMES | {"TableName", "Key", "ConsistentRead", "ProjectionExpression"},
        "PutItem": _WRITE | {"Item"},
        "Query": _PLACEHOLDERS
        | {
            "ConsistentRead",
            "ExclusiveStartKey",
            "FilterExpression",
            "IndexName",
            "KeyConditionExpression",
            "Limit",
            "ProjectionExpression",
            "ScanIndexForward",
            "Select",
            "TableName",
        },
        "Scan": _PLACEHOLDERS
        | {
            "ConsistentRead",
            "ExclusiveStartKey",
            "FilterExpression",
            "Limit",
            "ProjectionExpression",
            "Select",
            "TableName",
        },
        "TransactGetItems": frozenset({"TransactItems"}),
        "TransactWriteItems": frozenset({"TransactItems", "ClientRequestToken"}),
        "UpdateItem": _WRITE | {"Key", "UpdateExpression"},
        "UpdateTimeToLive": frozenset({"TableName", "TimeToLiveSpecification"}),
    }

    def __init__(
        self,
        backend: MemoryDynamoDB,
        *,
        before_call: BeforeCall | None = None,
        after_call: AfterCall | None = None,
        entry_fault: EntryFault | None = None,
        meter: Meter | None = None,
        strict_parameters: bool = False,
    ) -> None:
        """Create a client of ``backend``."""
        super().__init__(
            backend.lock,
            before_call=before_call,
            after_call=after_call,
            entry_fault=entry_fault,
            meter=meter,
            strict_parameters=strict_parameters,
        )
        self.backend = backend
        self._known: dict[tuple[Any, ...], _EmptyPlan] = {}

    # -- the surface of boto3 -------------------------------------------------------------------------

    def get_item(self, **kwargs: Any) -> dict[str, Any]:
        """Read one item by key."""
        return self._call("GetItem", kwargs, self._get_item)

    def put_item(self, **kwargs: Any) -> dict[str, Any]:
        """Write one whole item."""
        return self._call("PutItem", kwargs, self._put_item)

    def update_item(self, **kwargs: Any) -> dict[str, Any]:
        """Change, or create, one item."""
        return self._call("UpdateItem", kwargs, self._update_item)

    def delete_item(self, **kwargs: Any) -> dict[str, Any]:
        """Delete one item."""
        return self._call("DeleteItem", kwargs, self._delete_item)

    def query(self, **kwargs: Any) -> dict[str, Any]:
        """Read one page of a partition of the table or of an index."""
        plan = self._known.get((kwargs.get("KeyConditionExpression"), kwargs.get("IndexName"), *kwargs))
        if plan is not None and self._finds_nothing(plan, kwargs):
            return self._answered({"Count": 0, "ScannedCount": 0, "Items": []})
        return self._call("Query", kwargs, self._query)

    def _finds_nothing(self, plan: _EmptyPlan, kwargs: dict[str, Any]) -> bool:
        """Tell whether a Query of an index finds its partition empty; meter it then.

        A pipeline asks for many empty partitions and few full ones. Of a shape that was answered before, only
        what can differ is looked at, the values; whatever is out of the ordinary goes the long way.
        """
        if self.before_call is not None or self.after_call is not None or self.strict_parameters:
            return False
        names, values = kwargs.get("ExpressionAttributeNames"), kwargs["ExpressionAttributeValues"]
        if kwargs["TableName"] != plan.table.name or names != plan.names or values.keys() != plan.values:
            return False
        if kwargs.get("Limit", 1) < 1:
            return False
        for value in values.values():
            if len(value) != 1 or type(value.get("S")) is not str or not value["S"]:
                return False
        index, meter = plan.index, self.meter
        with self._lock:
            index.catch_up(plan.table.writes, self.backend.clock.now())
            if values[plan.hash_constant]["S"] in index.partitions:
                return False
            meter.requests["Query"] += 1
            # Counted, though nothing was read: the index is in the meter from its first Query on.
            meter.items_evaluated[index.label] += 0
            meter.items_returned[index.label] += 0
            meter.bytes_read[index.label] += 0
        return True

    def scan(self, **kwargs: Any) -> dict[str, Any]:
        """Read one page of a whole table; refused unless the backend allows it."""
        return self._call("Scan", kwargs, self._scan)

    def batch_get_item(self, **kwargs: Any) -> dict[str, Any]:
        """Read up to 100 items by key."""
        return self._call("BatchGetItem", kwargs, self._batch_get_item)

    def batch_write_item(self, **kwargs: Any) -> dict[str, Any]:
        """Put or delete up to 25 items without conditions."""
        return self._call("BatchWriteItem", kwargs, self._batch_write_item)

    def transact_write_items(self, **kwargs: Any) -> dict[str, Any]:
        """Apply up to 100 writes, all or none."""
        return self._call("TransactWriteItems", kwargs, self._transact_write_items)

    def transact_get_items(self, **kwargs: Any) -> dict[str, Any]:
        """Read up to 100 items as of one moment."""
        return self._call("TransactGetItems", kwargs, self._transact_get_items)

    def execute_statement(self, **kwargs: Any) -> dict[str, Any]:
        """Run one PartiQL statement on one item."""
        return self._call("ExecuteStatement", kwargs, self._execute_statement)

    def batch_execute_statement(self, **kwargs: Any) -> dict[str, Any]:
        """Run up to 25 PartiQL statements, each with its own outcome."""
        return self._call("BatchExecuteStatement", kwargs, self._batch_execute_statement)

    def create_table(self, **kwargs: Any) -> dict[str, Any]:
        """Create a table; it is ACTIVE at once."""
        return self._call("CreateTable", kwargs, self._create_table)

    def describe_table(self, **kwargs: Any) -> dict[str, Any]:
        """Describe a table's keys and indexes."""
        return self._call("DescribeTable", kwargs, self._describe_table)

    def update_time_to_live(self, **kwargs: Any) -> dict[str, Any]:
        """Switch TTL on or off; :meth:`MemoryDynamoDB.expire` does the deleting."""
        return self._call("UpdateTimeToLive", kwargs, self._update_time_to_live)

    def describe_time_to_live(self, **kwargs: Any) -> dict[str, Any]:
        """Describe a table's TTL setting."""
        return self._call("DescribeTimeToLive", kwargs, self._describe_time_to_live)

    # -- reads ----------------------------------------------------------------------------------------

    def _read(self, table: Table, key: Key, consistent: bool) -> Record | None:
        lag = self.backend.base_lag
        if consistent or lag is None:
            record = table.get(key)
        else:
            record = table.get_stale(key, lag, self.backend.clock.now())
        self.meter.items_evaluated[table.name] += 1
        if record is not None:
            self.meter.items_returned[table.name] += 1
            self.meter.bytes_read[table.name] += record.size
        return record

    def _get_item(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        request = _Request(kwargs)
        projection = request.projection(kwargs)
        request.finish()
        table = self.backend.table(kwargs["TableName"])
        record = self._read(table, _key_of(table, kwargs["Key"]), kwargs.get("ConsistentRead", False))
        if record is None:
            return {}
        return {"Item": copy_item(record.item if projection is None else projection.project(record.item))}

    def _query(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        table = self.backend.table(kwargs["TableName"])
        index = _index_of(table, kwargs)
        shape = _query_shape(kwargs)
        plan = table.plans.get(shape)
        if plan is None:
            plan = _query_plan(table, index, kwargs)
            if len(table.plans) >= MAX_PLANS:
                table.plans.clear()
            table.plans[shape] = plan
        values = {name: canonical(value)[0] for name, value in kwargs["ExpressionAttributeValues"].items()}
        plan.check(values)
        limit = _limit_of(kwargs)
        condition = plan.condition
        hash_value = comparable(values[condition.hash_constant])
        bounds = _bounds(condition.comparator, [values[name] for name in condition.operands])
        partition = self._partition(table, index, hash_value, kwargs.get("ConsistentRead", False))
        start = None
        if "ExclusiveStartKey" in kwargs:
            start = _start_position(kwargs["ExclusiveStartKey"], table, index, hash_value, bounds)
        page = _Page(self.meter, table, index, values, plan.filter, plan.projection, plan.select, limit)
        if not partition:
            if index is not None and kwargs.keys() <= _PLAIN_QUERY and plan.is_plain:
                names = kwargs.get("ExpressionAttributeNames")
                self._known[kwargs["KeyConditionExpression"], index.name, *kwargs] = _EmptyPlan(
                    table, index, names and dict(names), set(values), condition.hash_constant
                )
            return page.read(())
        return page.read(_positions(partition, bounds, start, kwargs.get("ScanIndexForward", True)))

    def _partition(self, table: Table, index: Index | None, hash_value: Any, consistent: bool) -> Any:
        """Return the sorted partition to read, None when there is none."""
        now = self.backend.clock.now()
        if index is not None:
            index.catch_up(table.writes, now)
            return index.partitions.get(hash_value)
        lag = self.backend.base_lag
        if consistent or lag is None:
            return table.partitions.get(hash_value)
        return table.partition_stale(hash_value, lag, now)

    def _scan(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        if not self.backend.allow_scan:
            raise Rejection("AccessDeniedException", "User is not authorized to perform: dynamodb:Scan")
        table = self.backend.table(kwargs["TableName"])
        request = _Request(kwargs)
        page = _Page(
            self.meter, table, None, request.values, *_evaluation(kwargs, request, table.schema, None)
        )
        records = table.records()
        if kwargs.get("ExclusiveStartKey") is not None:
            start = _key_of(table, kwargs["ExclusiveStartKey"])
            records = iter([*_after(records, start)])
        return page.read(records)

    def _batch_get_item(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        requested = kwargs["RequestItems"]
        if sum(len(entry["Keys"]) for entry in requested.values()) > MAX_BATCH_GET_KEYS:
            raise invalid("Too many items requested for the BatchGetItem call")
        if not requested or any(not entry["Keys"] for entry in requested.values()):
            raise invalid("The requestItems parameter is required for BatchGetItem")
        plan: list[tuple[str, Table, Key, dict[str, Any], Projection | None]] = []
        for name, entry in requested.items():
            if entry.keys() - {"Keys", "ConsistentRead", "ProjectionExpression", "ExpressionAttributeNames"}:
                raise NotImplementedError(f"BatchGetItem with {sorted(entry)} is not simulated")
            request = _Request(entry)
            projection = request.projection(entry)
            request.finish()
            table = self.backend.table(name)
            keys = [_key_of(table, key) for key in entry["Keys"]]
            if len(set(keys)) < len(keys):
                raise invalid("Provided list of item keys contains duplicates")
            plan += [
                (name, table, key, raw, projection) for key, raw in zip(keys, entry["Keys"], strict=True)
            ]
        responses: dict[str, list[Item]] = {name: [] for name in requested}
        unprocessed: dict[str, dict[str, Any]] = {}
        total = 0
        for position, (name, table, key, raw, projection) in enumerate(plan):
            consistent = requested[name].get("ConsistentRead", False)
            known = table.get(key)
            full = known is not None and total + known.size > MAX_BATCH_BYTES
            if full or self._fault("BatchGetItem", position) is not None:
                rest = {field: value for field, value in requested[name].items() if field != "Keys"}
                unprocessed.setdefault(name, {"Keys": [], **rest})["Keys"].append(copy_item(raw))
                continue
            record = self._read(table, key, consistent)
            if record is not None:
                total += record.size
                responses[name].append(
                    copy_item(projection.project(record.item) if projection else record.item)
                )
        for found in responses.values():
            self.backend.generator.shuffle(found)
        return {"Responses": responses, "UnprocessedKeys": unprocessed}

    def _transact_get_items(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        actions = kwargs["TransactItems"]
        _check_transaction_length(actions)
        responses: list[dict[str, Any]] = []
        for action in actions:
            get = action["Get"]
            request = _Request(get)
            projection = request.projection(get)
            request.finish()
            table = self.backend.table(get["TableName"])
            record = self._read(table, _key_of(table, get["Key"]), True)
            if record is None:
                responses.append({})
            else:
                kept = projection.project(record.item) if projection else record.item
                responses.append({"Item": copy_item(kept)})
        return {"Responses": responses}

    # -- writes ---------------------------------------------------------------------------------------

    def _plan_put(self, kwargs: Mapping[str, Any]) -> _Write:
        plan, values = _write_plan(kwargs)
        table = self.backend.table(kwargs["TableName"])
        item, size = canonical_item(kwargs["Item"])
        check_item_keys(table, item)
        if size > MAX_ITEM_BYTES:
            raise invalid(_TOO_LARGE)
        key = table.schema.key_of(item)
        before = table.get(key)
        _check_condition(kwargs, plan.condition, before, values)
        return _Write(table, key, before, Record(item, size))

    def _plan_update(self, kwargs: Mapping[str, Any]) -> _Write:
        plan, values = _write_plan(kwargs)
        update = plan.update
        table = self.backend.table(kwargs["TableName"])
        key_item, _ = canonical_item(kwargs["Key"])
        check_key(table.schema, key_item)
        key = table.schema.key_of(key_item)
        if update is not None:
            _refuse_key_changes(table, update)
        before = table.get(key)
        _check_condition(kwargs, plan.condition, before, values)
        base: Mapping[str, Wire] = key_item if before is None else before.item
        item = dict(base) if update is None else update.apply(base, values)
        return _Write(table, key, before, _checked(table, item), update)

    def _plan_delete(self, kwargs: Mapping[str, Any]) -> _Write:
        plan, values = _write_plan(kwargs)
        table = self.backend.table(kwargs["TableName"])
        key = _key_of(table, kwargs["Key"])
        before = table.get(key)
        _check_condition(kwargs, plan.condition, before, values)
        return _Write(table, key, before, None)

    def _apply(self, write: _Write) -> None:
        write.table.put(write.key, write.after, self.backend.clock.now(), self.backend.index_lag, self.meter)

    def _put_item(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        returned = _return_values(kwargs, {"NONE", "ALL_OLD"})
        write = self._plan_put(kwargs)
        self._apply(write)
        return _old_attributes(returned, write)

    def _delete_item(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        returned = _return_values(kwargs, {"NONE", "ALL_OLD"})
        write = self._plan_delete(kwargs)
        self._apply(write)
        return _old_attributes(returned, write)

    def _update_item(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        returned = _return_values(kwargs, {"NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"})
        write = self._plan_update(kwargs)
        self._apply(write)
        if returned in {"NONE", "ALL_OLD"}:
            return _old_attributes(returned, write)
        assert write.after is not None
        if returned == "ALL_NEW":
            return {"Attributes": copy_item(write.after.item)}
        source = write.after if returned == "UPDATED_NEW" else write.before
        changed = _changed_paths(write.update, source)
        return {"Attributes": changed} if changed else {}

    def _batch_write_item(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        requested = kwargs["RequestItems"]
        count = sum(len(entries) for entries in requested.values())
        if not requested or any(not entries for entries in requested.values()):
            raise invalid("The batch write request list for a table cannot be null or empty")
        if count > MAX_BATCH_WRITES:
            raise invalid("Too many items requested for the BatchWriteItem call")
        plan: list[tuple[str, dict[str, Any], Table, Key, Record | None]] = []
        total = 0
        for name, entries in requested.items():
            table = self.backend.table(name)
            for entry in entries:
                key, record, size = _batch_write(table, entry)
                total += size
                plan.append((name, entry, table, key, record))
        if len({(name, key) for name, _, _, key, _ in plan}) < len(plan):
            raise invalid("Provided list of item keys contains duplicates")
        if total > MAX_BATCH_BYTES:
            raise invalid(f"The request payload size cannot exceed {MAX_BATCH_BYTES} bytes")
        unprocessed: dict[str, list[Any]] = {}
        for position, (name, entry, table, key, record) in enumerate(plan):
            if self._fault("BatchWriteItem", position) is not None:
                unprocessed.setdefault(name, []).append(entry)
            else:
                self._apply(_Write(table, key, None, record))
        return {"UnprocessedItems": unprocessed}

    def _transact_write_items(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        actions = kwargs["TransactItems"]
        _check_transaction_length(actions)
        if self._is_repeated(kwargs):
            return {}
        self._refuse_shared_targets(actions)
        planners = {"Put": self._plan_put, "Update": self._plan_update, "Delete": self._plan_delete}
        reasons: list[dict[str, Any]] = []
        writes: list[_Write] = []
        for action in actions:
            ((kind, arguments),) = action.items()
            try:
                if kind == "ConditionCheck":
                    if "ConditionExpression" not in arguments:
                        raise invalid("The ConditionExpression of a ConditionCheck cannot be null")
                    self._plan_delete(arguments)
                else:
                    writes.append(planners[kind](arguments))
                reasons.append({"Code": "None"})
            except Rejection as refused:
                reasons.append(_cancellation(refused))
        if any(reason["Code"] != "None" for reason in reasons):
            codes = ", ".join(reason["Code"] for reason in reasons)
            raise Rejection(
                "TransactionCanceledException",
                f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
                {"CancellationReasons": reasons},
            )
        if sum(write.after.size for write in writes if write.after) > MAX_TRANSACTION_BYTES:
            raise invalid("Collection size of the transaction exceeds the maximum of 4 MB")
        for write in writes:
            self._apply(write)
        if kwargs.get("ClientRequestToken"):
            self.backend.transaction_tokens[kwargs["ClientRequestToken"]] = (
                self.backend.clock.now(),
                _fingerprint(actions),
            )
        return {}

    def _is_repeated(self, kwargs: Mapping[str, Any]) -> bool:
        known = self.backend.transaction_tokens.get(kwargs.get("ClientRequestToken", ""))
        if known is None or self.backend.clock.now() - known[0] >= TRANSACTION_TOKEN_LIFETIME:
            return False
        if known[1] != _fingerprint(kwargs["TransactItems"]):
            raise Rejection(
                "IdempotentParameterMismatchException",
                "Idempotent request with different parameters was found for this client token",
            )
        return True

    def _refuse_shared_targets(self, actions: Sequence[Mapping[str, Any]]) -> None:
        targets: set[tuple[str, str]] = set()
        for action in actions:
            if len(action) != 1:
                raise invalid(
                    "TransactItems can only contain one of Check, Put, Update "
                    "or Delete in each of its members"
                )
            ((_, arguments),) = action.items()
            table = self.backend.table(arguments["TableName"])
            holder = arguments.get("Key", arguments.get("Item", {}))
            key = {name: holder[name] for name in table.schema.names if name in holder}
            identity = (table.name, repr(sorted(canonical_item(key)[0].items())))
            if identity in targets:
                raise invalid("Transaction request cannot include multiple operations on one item")
            targets.add(identity)

    # -- PartiQL --------------------------------------------------------------------------------------

    def _execute_statement(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        statement = partiql.parse(kwargs["Statement"])
        if statement.kind == "SELECT":
            _refuse_broad_select(self.backend, kwargs["Statement"], statement)
        item = self._run(kwargs)
        return {"Items": [] if item is None else [item]}

    def _batch_execute_statement(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        requests = kwargs["Statements"]
        if not 1 <= len(requests) <= MAX_BATCH_STATEMENTS:
            bound = "less than or equal to 25" if requests else "greater than or equal to 1"
            raise invalid(
                "1 validation error detected: Value at 'Statements' failed to satisfy constraint: "
                f"Member must have length {bound}"
            )
        self._check_batch(requests)
        responses: list[dict[str, Any]] = []
        for position, request in enumerate(requests):
            code = self._fault("BatchExecuteStatement", position)
            if code is not None:
                responses.append({"Error": {"Code": code, "Message": "Injected fault"}})
                continue
            table_name = _table_name(request)
            try:
                item = self._run(request, batch=True)
            except Rejection as refused:
                error = {
                    "Code": _BATCH_ERROR_CODES[refused.code],
                    "Message": refused.message,
                    **refused.extra,
                }
                # What is wrong with the statement itself never reached a table: its answer names none.
                named = {} if error["Code"] == "ValidationError" else table_name
                responses.append({"Error": error, **named})
            else:
                responses.append({**table_name, **({} if item is None else {"Item": item})})
        return {"Responses": responses}

    def _check_batch(self, requests: Sequence[Mapping[str, Any]]) -> None:
        """Refuse the whole batch when it mixes reads and writes or names one item twice.

        Statements that are wrong by themselves take no part: they get their own error.
        """
        kinds: set[bool] = set()
        targets: set[tuple[str, str]] = set()
        total = 0
        for request in requests:
            if request.keys() - {
                "Statement",
                "Parameters",
                "ConsistentRead",
                "ReturnValuesOnConditionCheckFailure",
            }:
                raise NotImplementedError(f"A batch statement with {sorted(request)} is not simulated")
            total += len(request["Statement"].encode()) + sum(
                canonical(parameter)[1] for parameter in request.get("Parameters", ())
            )
            try:
                statement = partiql.parse(request["Statement"])
                table, key = self._target_key(statement, request)
            except Rejection:
                continue
            kinds.add(statement.kind == "SELECT")
            identity = (table.name, repr(sorted(key.items())))
            if identity in targets:
                raise invalid("Provided list of item keys contains duplicates")
            targets.add(identity)
        if len(kinds) > 1:
            raise invalid("Read and write requests together in the same batch is not supported.")
        if total > MAX_BATCH_BYTES:
            raise invalid(f"BatchExecuteStatement payload size cannot exceed 16MB. Payload Size: {total}")

    def _target_key(self, statement: partiql.Statement, request: Mapping[str, Any]) -> tuple[Table, Item]:
        table = self.backend.table(statement.table)
        values, parameters = statement.bind(request.get("Parameters", ()))
        if statement.kind == "INSERT":
            item = statement.new_item(parameters)
            check_item_keys(table, item)
            return table, table.schema.project(item)
        target = partiql.target(request["Statement"], table.schema.names)
        return table, {name: values[constant] for name, constant in target.key.items()}

    def _run(self, request: Mapping[str, Any], *, batch: bool = False) -> Item | None:
        """Run one statement and return the item that it answers with, if any."""
        text = request["Statement"]
        statement = partiql.parse(text)
        table = self.backend.table(statement.table)
        values, parameters = statement.bind(request.get("Parameters", ()))
        if statement.kind == "INSERT":
            self._insert(table, statement.new_item(parameters))
            return None
        if batch and statement.kind == "SELECT":
            _refuse_broad_batch_select(table, text)
        target = partiql.target(text, table.schema.names)
        key_item = {name: values[constant] for name, constant in target.key.items()}
        check_key(table.schema, key_item)
        if target.condition is not None:
            target.condition.check(values, "")
        key = table.schema.key_of(key_item)
        if statement.kind == "SELECT":
            record = self._read(table, key, request.get("ConsistentRead", False))
            if record is None or not _holds(target, record, values):
                return None
            projection = statement.projection
            return copy_item(record.item if projection is None else projection.project(record.item))
        before = table.get(key)
        if statement.kind == "DELETE" and before is None:
            return None
        if before is None or not _holds(target, before, values):
            _refuse_condition(request, before)
        if statement.update is None:
            self._apply(_Write(table, key, before, None))
            return copy_item(before.item) if statement.returning else None
        _refuse_key_changes(table, statement.update)
        write = _Write(
            table, key, before, _checked(table, statement.update.apply(before.item, values)), statement.update
        )
        self._apply(write)
        return _returned(statement, write)

    def _insert(self, table: Table, item: Item) -> None:
        check_item_keys(table, item)
        size = item_size(item)
        if size > MAX_ITEM_BYTES:
            raise invalid(_TOO_LARGE)
        key = table.schema.key_of(item)
        if table.get(key) is not None:
            raise Rejection("DuplicateItemException", "Duplicate primary key exists in table")
        self._apply(_Write(table, key, None, Record(item, size)))

    # -- tables ---------------------------------------------------------------------------------------

    def _create_table(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        name = kwargs["TableName"]
        if name in self.backend.tables:
            raise Rejection("ResourceInUseException", f"Table already exists: {name}")
        kinds = {entry["AttributeName"]: entry["AttributeType"] for entry in kwargs["AttributeDefinitions"]}
        schema = _schema(kwargs["KeySchema"], kinds)
        used = set(schema.names)
        table = Table(name, schema, self.backend.generator.getrandbits(32))
        for entry in kwargs.get("GlobalSecondaryIndexes", ()):
            index_schema = _schema(entry["KeySchema"], kinds)
            used |= set(index_schema.names)
            table.indexes[entry["IndexName"]] = Index(
                table, entry["IndexName"], index_schema, _projected(entry["Projection"])
            )
        if used != set(kinds):
            raise invalid(
                "One or more parameter values were invalid: Some AttributeDefinitions are not used. "
                f"AttributeDefinitions: {sorted(kinds)}, keys used: {sorted(used)}"
            )
        self.backend.tables[name] = table
        return {"TableDescription": _description(table)}

    def _describe_table(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"Table": _description(self._existing(kwargs["TableName"]))}

    def _existing(self, name: str) -> Table:
        if name not in self.backend.tables:
            raise Rejection(
                "ResourceNotFoundException", f"Requested resource not found: Table: {name} not found"
            )
        return self.backend.tables[name]

    def _update_time_to_live(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        table = self._existing(kwargs["TableName"])
        wanted = kwargs["TimeToLiveSpecification"]
        if wanted["Enabled"] == (table.ttl_attribute is not None):
            raise invalid(f"TimeToLive is already {'enabled' if wanted['Enabled'] else 'disabled'}")
        table.ttl_attribute = wanted["AttributeName"] if wanted["Enabled"] else None
        return {"TimeToLiveSpecification": dict(wanted)}

    def _describe_time_to_live(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        attribute = self._existing(kwargs["TableName"]).ttl_attribute
        if attribute is None:
            return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": attribute}}


@dataclass(slots=True)
class _Page:
    """How one page of a Query or Scan is cut, filtered and metered."""

    meter: Meter
    table: Table
    index: Index | None
    values: Mapping[str, Wire]
    condition: Condition | None
    projection: Projection | None
    select: str
    limit: int | None

    def read(self, records: Iterable[tuple[Any, Record]]) -> dict[str, Any]:
        """Evaluate records until the page is full; a page never holds more than 1 MB."""
        found: list[Item] = []
        evaluated = size = 0
        last: Record | None = None
        more = False
        for _, record in records:
            if evaluated and size + record.size > MAX_PAGE_BYTES:
                more = True
                break
            evaluated += 1
            size += record.size
            last = record
            if self.condition is None or self.condition.test(record.item, self.values):
                found.append(record.item)
            # The service answers with a key at Limit even when nothing follows.
            if evaluated == self.limit:
                more = True
                break
        meter, label = self.meter, self.table.name if self.index is None else self.index.label
        meter.items_evaluated[label] += evaluated
        meter.items_returned[label] += len(found)
        meter.bytes_read[label] += size
        response: dict[str, Any] = {"Count": len(found), "ScannedCount": evaluated}
        if self.select != "COUNT":
            kept = found if self.projection is None else [self.projection.project(item) for item in found]
            response["Items"] = [copy_item(item) for item in kept]
        if more and last is not None:
            key = self.table.schema.project(last.item)
            if self.index is not None:
                key |= self.index.schema.project(last.item)
            response["LastEvaluatedKey"] = copy_item(key)
        return response


# -- checks and answers --------------------------------------------------------------------------------


def _key_of(table: Table, key: Mapping[str, Any]) -> Key:
    item, _ = canonical_item(key)
    check_key(table.schema, item)
    return table.schema.key_of(item)


def _index_of(table: Table, kwargs: Mapping[str, Any]) -> Index | None:
    name = kwargs.get("IndexName")
    if name is None:
        return None
    if name not in table.indexes:
        raise invalid(f"The table does not have the specified index: {name}")
    if kwargs.get("ConsistentRead"):
        raise invalid("Consistent reads are not supported on global secondary indexes")
    return table.indexes[name]


#: Parameters of a Query that decide nothing while there is nothing to read, and those that its shape holds.
_PLAIN_QUERY = frozenset(
    {
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "IndexName",
        "KeyConditionExpression",
        "Limit",
        "TableName",
    }
)


@dataclass(frozen=True, slots=True)
class _EmptyPlan:
    """A Query of an index that was answered before, by an empty page, and whose values are all texts."""

    table: Table
    index: Index
    names: Mapping[str, str] | None
    values: set[str]
    hash_constant: str


class _WritePlan(NamedTuple):
    """The compiled expressions of a PutItem, UpdateItem or DeleteItem of one shape."""

    update: Update | None
    condition: Condition | None


_NO_VALUES: Mapping[str, Wire] = {}
_WRITE_PLANS: dict[Any, _WritePlan] = {}


def _write_plan(kwargs: Mapping[str, Any]) -> tuple[_WritePlan, Mapping[str, Wire]]:
    """Return the compiled expressions of a write and its values; raises Rejection as the service would."""
    names, values = kwargs.get("ExpressionAttributeNames"), kwargs.get("ExpressionAttributeValues")
    shape = (
        kwargs.get("UpdateExpression"),
        kwargs.get("ConditionExpression"),
        None if names is None else tuple(names.items()),
        None if values is None else tuple(values),
    )
    plan = _WRITE_PLANS.get(shape)
    if plan is None:
        request = _Request(kwargs)
        plan = _WritePlan(request.update(kwargs), request.condition(kwargs, "ConditionExpression"))
        request.finish()
        if len(_WRITE_PLANS) >= MAX_PLANS:
            _WRITE_PLANS.clear()
        _WRITE_PLANS[shape] = plan
        return plan, request.values
    if values is None:
        return plan, _NO_VALUES
    canonical_values = {name: canonical(value)[0] for name, value in values.items()}
    condition = plan.condition
    if condition is not None and (condition.rules or condition.ranges):
        condition.check(canonical_values, "Invalid ConditionExpression: ")
    return plan, canonical_values


def _query_shape(kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what decides how a Query is read, besides the values of its placeholders."""
    names, values = kwargs.get("ExpressionAttributeNames"), kwargs.get("ExpressionAttributeValues")
    return (
        kwargs.get("IndexName"),
        kwargs.get("KeyConditionExpression"),
        kwargs.get("FilterExpression"),
        kwargs.get("ProjectionExpression"),
        kwargs.get("Select"),
        None if names is None else tuple(names.items()),
        None if values is None else tuple(values),
    )


@dataclass(frozen=True, slots=True)
class _QueryPlan:
    """How a Query of one shape is read; only a shape that the service takes has one."""

    condition: _KeyCondition
    keys: Condition
    typed: tuple[tuple[str, KeyAttribute], ...]
    filter: Condition | None
    projection: Projection | None
    select: str

    @property
    def is_plain(self) -> bool:
        """Whether only the types of the values can be wrong, and all of them have to be texts."""
        texts_will_do = all("S" in rule.kinds for rule in self.keys.rules) and not self.keys.ranges
        return texts_will_do and all(attribute.kind == "S" for _, attribute in self.typed)

    def check(self, values: Mapping[str, Wire]) -> None:
        """Raise Rejection for values that the shape cannot take."""
        if self.keys.rules or self.keys.ranges:
            self.keys.check(values, "Invalid KeyConditionExpression: ")
        for name, attribute in self.typed:
            if not values[name].get(attribute.kind):
                _check_condition_type(attribute, values[name])
        if self.filter is not None and (self.filter.rules or self.filter.ranges):
            self.filter.check(values, "Invalid FilterExpression: ")


def _query_plan(table: Table, index: Index | None, kwargs: Mapping[str, Any]) -> _QueryPlan:
    schema = table.schema if index is None else index.schema
    request = _Request(kwargs)
    if kwargs.get("KeyConditionExpression") is None:
        raise invalid(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
        )
    keys = request.condition(kwargs, "KeyConditionExpression")
    assert keys is not None
    range_name = None if schema.range_key is None else schema.range_key.name
    condition = _key_condition(
        kwargs["KeyConditionExpression"], request.names, schema.hash_key.name, range_name
    )
    typed = [(condition.hash_constant, schema.hash_key)]
    if schema.range_key is not None:
        typed += [(name, schema.range_key) for name in condition.operands]
    for name, attribute in typed:
        _check_condition_type(attribute, request.values[name])
    found, projection, select, _ = _evaluation(kwargs, request, schema, index)
    return _QueryPlan(condition, keys, tuple(typed), found, projection, select)


def _evaluation(
    kwargs: Mapping[str, Any], request: _Request, schema: KeySchema, index: Index | None
) -> tuple[Condition | None, Projection | None, str, int | None]:
    """Return the filter, the projection, what is selected and the limit of a Query or Scan."""
    condition = request.condition(kwargs, "FilterExpression")
    if condition is not None and kwargs.get("KeyConditionExpression") is not None:
        for name in schema.names:
            if name in condition.attributes:
                raise invalid(
                    "Filter Expression can only contain non-primary key attributes: "
                    f"Primary key attribute: {name}"
                )
    projection = request.projection(kwargs)
    request.finish()
    select = _select_of(kwargs, projection, index)
    return condition, projection, select, _limit_of(kwargs)


def _limit_of(kwargs: Mapping[str, Any]) -> int | None:
    limit: int | None = kwargs.get("Limit")
    if limit is not None and limit < 1:
        raise invalid(
            f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy constraint: "
            "Member must have value greater than or equal to 1"
        )
    return limit


def _check_condition_type(attribute: KeyAttribute, value: Wire) -> None:
    if kind_of(value) != attribute.kind:
        raise invalid(
            "One or more parameter values were invalid: Condition parameter type does not match schema type"
        )
    if attribute.kind != "N" and not value[attribute.kind]:
        raise invalid(
            "One or more parameter values are not valid. The AttributeValue "
            "for a key attribute cannot contain "
            f"an empty {'string' if attribute.kind == 'S' else 'binary'} value. Key: {attribute.name}"
        )


def _start_position(
    raw: Mapping[str, Any] | None, table: Table, index: Index | None, hash_value: Any, bounds: _Bounds
) -> Position | None:
    """Return the position of ExclusiveStartKey; raises Rejection unless a page could have ended there."""
    if raw is None:
        return None
    key, _ = canonical_item(raw)
    schemas = [table.schema] if index is None else [table.schema, index.schema]
    wanted = {attribute.name: attribute.kind for schema in schemas for attribute in schema.attributes}
    if {name: kind_of(value) for name, value in key.items()} != wanted:
        raise invalid("The provided starting key is invalid")
    schema = schemas[-1]
    if comparable(key[schema.hash_key.name]) != hash_value:
        raise invalid("The provided starting key is outside query boundaries based on provided conditions")
    position = table.schema.key_of(key)[1:] if index is None else index.position(key)
    if not bounds.contains(position):
        raise invalid("The provided starting key does not match the range key predicate")
    return position


def _positions(
    partition: Any, bounds: _Bounds, start: Position | None, forward: bool
) -> Iterator[tuple[Position, Record]]:
    if not partition:
        return
    low, high, include_low, include_high = bounds
    if start is not None and forward:
        low, include_low = start, False
    elif start is not None:
        high, include_high = start, False
    for position in partition.irange(low, high, (include_low, include_high), reverse=not forward):
        yield position, partition[position]


def _after(records: Iterator[tuple[Key, Record]], start: Key) -> Iterator[tuple[Key, Record]]:
    """Yield what follows ``start`` in a scan (the whole rest of its partition, then later partitions)."""
    reached = False
    for key, record in records:
        if reached and key[0] != start[0]:
            yield key, record
        elif key[0] == start[0]:
            reached = True
            if key > start:
                yield key, record


def _select_of(kwargs: Mapping[str, Any], projection: Projection | None, index: Index | None) -> str:
    select: str = kwargs.get("Select") or ("SPECIFIC_ATTRIBUTES" if projection else "DEFAULT")
    if projection is not None and select != "SPECIFIC_ATTRIBUTES":
        raise invalid(f"Cannot specify the ProjectionExpression when choosing to get {select}")
    if select == "SPECIFIC_ATTRIBUTES" and projection is None:
        raise invalid("Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
    if index is None:
        if select == "ALL_PROJECTED_ATTRIBUTES":
            raise invalid("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
        return select
    if select == "ALL_ATTRIBUTES" and index.projected is not None:
        raise invalid(
            "One or more parameter values were invalid: Select type "
            "ALL_ATTRIBUTES is not supported for global "
            f"secondary index {index.name} because its projection type is not ALL"
        )
    if projection is not None and index.projected is not None:
        missing = projection.attributes - index.projected
        if missing:
            raise invalid(
                "One or more parameter values were invalid: Global secondary index "
                f"{index.name} does not project [{', '.join(sorted(missing))}]"
            )
    return select


def _check_condition(
    request: Mapping[str, Any], condition: Condition | None, before: Record | None, values: Mapping[str, Wire]
) -> None:
    if condition is not None and not condition.test({} if before is None else before.item, values):
        _refuse_condition(request, before)


def _refuse_condition(request: Mapping[str, Any], before: Record | None) -> NoReturn:
    wanted = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and before is not None
    extra = {"Item": copy_item(before.item)} if wanted and before is not None else {}
    raise Rejection("ConditionalCheckFailedException", _CONDITION_FAILED, extra)


def _holds(target: partiql.Target, record: Record, values: Mapping[str, Wire]) -> bool:
    return target.condition is None or target.condition.test(record.item, values)


def _refuse_key_changes(table: Table, update: Update) -> None:
    for name in table.schema.names:
        if name in update.attributes:
            raise invalid(
                f"One or more parameter values were invalid: Cannot update attribute {name}. "
                "This attribute is part of the key"
            )


def _checked(table: Table, item: Item) -> Record:
    check_index_keys(table, item)
    size = item_size(item)
    if size > MAX_ITEM_BYTES:
        raise invalid(_UPDATE_TOO_LARGE)
    return Record(item, size)


def _return_values(kwargs: Mapping[str, Any], allowed: set[str]) -> str:
    returned: str = kwargs.get("ReturnValues", "NONE")
    if returned not in allowed:
        raise invalid(f"Return values set to invalid value: {returned}")
    return returned


def _old_attributes(returned: str, write: _Write) -> dict[str, Any]:
    if returned == "ALL_OLD" and write.before is not None:
        return {"Attributes": copy_item(write.before.item)}
    return {}


def _changed_paths(update: Update | None, record: Record | None) -> Item:
    if update is None or record is None:
        return {}
    none = expressions.References(frozenset(), frozenset())
    return copy_item(expressions.compile_projection(update.paths, none).project(record.item))


def _returned(statement: partiql.Statement, write: _Write) -> Item | None:
    if statement.returning is None:
        return None
    scope, version = statement.returning.split()
    record = write.before if version == "OLD" else write.after
    assert record is not None
    return copy_item(record.item) if scope == "ALL" else _changed_paths(write.update, record) or None


def _batch_write(table: Table, entry: Mapping[str, Any]) -> tuple[Key, Record | None, int]:
    if len(entry) != 1:
        raise invalid(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one request"
        )
    if "PutRequest" in entry:
        item, size = canonical_item(entry["PutRequest"]["Item"])
        check_item_keys(table, item)
        if size > MAX_ITEM_BYTES:
            raise invalid(_TOO_LARGE)
        return table.schema.key_of(item), Record(item, size), size
    key, size = canonical_item(entry["DeleteRequest"]["Key"])
    check_key(table.schema, key)
    return table.schema.key_of(key), None, size


def _check_transaction_length(actions: Sequence[Any]) -> None:
    if not 1 <= len(actions) <= MAX_TRANSACTION_ACTIONS:
        bound = "less than or equal to 100" if actions else "greater than or equal to 1"
        raise invalid(
            "1 validation error detected: Value at 'TransactItems' failed to satisfy constraint: "
            f"Member must have length {bound}"
        )


def _cancellation(refused: Rejection) -> dict[str, Any]:
    """Return the reason for one action; what is wrong with the request itself is raised again."""
    if refused.code == "ConditionalCheckFailedException":
        return {"Code": "ConditionalCheckFailed", "Message": refused.message, **refused.extra}
    reported = (
        "Type mismatch",
        "does not match the schema",
        "exceeded the maximum allowed size",
        "incorrect data type",
        "does not exist in the item",
        "invalid for update",
        "Number overflow",
        "Nesting Levels",
    )
    if refused.code == "ValidationException" and any(text in refused.message for text in reported):
        return {"Code": "ValidationError", "Message": refused.message}
    raise refused


def _fingerprint(actions: Sequence[Any]) -> str:
    return json.dumps(actions, sort_keys=True, default=repr)


def _table_name(request: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {"TableName": partiql.parse(request["Statement"]).table}
    except Rejection:
        return {}


def _refuse_broad_batch_select(table: Table, text: str) -> None:
    try:
        partiql.target(text, table.schema.names)
    except Rejection as refused:
        raise invalid(
            "Select statements within BatchExecuteStatement must specify the primary key in the where clause."
        ) from refused


def _refuse_broad_select(backend: MemoryDynamoDB, text: str, statement: partiql.Statement) -> None:
    """A SELECT without the full key may read a whole table: refused like Scan."""
    if statement.index is not None:
        raise NotImplementedError("PartiQL SELECT on an index is not simulated: use Query")
    table = backend.table(statement.table)
    try:
        partiql.target(text, table.schema.names)
    except Rejection as refused:
        raise Rejection(
            "AccessDeniedException",
            "User is not authorized to perform: dynamodb:PartiQLSelect without a full key",
        ) from refused


def _schema(elements: Sequence[Mapping[str, str]], kinds: Mapping[str, str]) -> KeySchema:
    keys: dict[str, KeyAttribute] = {}
    for element in elements:
        name = element["AttributeName"]
        if name not in kinds:
            raise invalid(
                "One or more parameter values were invalid: Some index key attributes are not defined in "
                f"AttributeDefinitions. Keys: [{name}], AttributeDefinitions: {sorted(kinds)}"
            )
        keys[element["KeyType"]] = KeyAttribute(name, kinds[name])
    if "HASH" not in keys or len(keys) != len(elements):
        raise invalid("Invalid KeySchema: one HASH element and at most one RANGE element")
    return KeySchema(keys["HASH"], keys.get("RANGE"))


def _projected(projection: Mapping[str, Any]) -> frozenset[str] | None:
    match projection["ProjectionType"]:
        case "ALL":
            return None
        case "KEYS_ONLY":
            return frozenset()
        case "INCLUDE":
            return frozenset(projection["NonKeyAttributes"])
    raise invalid(f"Unknown ProjectionType: {projection['ProjectionType']}")


def _description(table: Table) -> dict[str, Any]:
    kinds = {
        attribute.name: attribute.kind
        for schema in (table.schema, *(index.schema for index in table.indexes.values()))
        for attribute in schema.attributes
    }
    description: dict[str, Any] = {
        "TableName": table.name,
        "TableStatus": "ACTIVE",
        "TableArn": f"arn:aws:dynamodb:us-east-1:123456789012:table/{table.name}",
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "KeySchema": _elements(table.schema),
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, kind in sorted(kinds.items())
        ],
        "ItemCount": sum(len(partition) for partition in table.partitions.values()),
    }
    if table.indexes:
        description["GlobalSecondaryIndexes"] = [
            _index_description(index) for index in table.indexes.values()
        ]
    return description


def _index_description(index: Index) -> dict[str, Any]:
    keys = set(index.schema.names) | set(index.base.names)
    projection: dict[str, Any] = {"ProjectionType": "ALL"}
    if index.projected is not None:
        extra = sorted(index.projected - keys)
        projection = (
            {"ProjectionType": "INCLUDE", "NonKeyAttributes": extra}
            if extra
            else {"ProjectionType": "KEYS_ONLY"}
        )
    return {
        "IndexName": index.name,
        "IndexStatus": "ACTIVE",
        "KeySchema": _elements(index.schema),
        "Projection": projection,
    }


def _elements(schema: KeySchema) -> list[dict[str, str]]:
    elements = [{"AttributeName": schema.hash_key.name, "KeyType": "HASH"}]
    if schema.range_key is not None:
        elements.append({"AttributeName": schema.range_key.name, "KeyType": "RANGE"})
    return elements
