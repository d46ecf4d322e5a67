"""Marshalling and conditional batches, shared by the DynamoDB stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Protocol

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from awsmp.adapters.client_errors import translated
from awsmp.domain.errors import StoreUnavailable
from awsmp.domain.ports import Clock

#: Most statements of one BatchExecuteStatement (DynamoDB API reference).
MAX_STATEMENTS: Final = 25

#: Most keys of one BatchGetItem (DynamoDB API reference).
MAX_KEYS: Final = 100

_TRIES: Final = 6
_FIRST_PAUSE: Final = 0.05

_CONDITION_FAILED: Final = frozenset({"ConditionalCheckFailed", "DuplicateItem"})

_SERIALIZER = TypeSerializer()
_DESERIALIZER = TypeDeserializer()


class DynamoDBClient(Protocol):
    """The calls of boto3's low-level DynamoDB client that the metering tier makes."""

    def get_item(self, **kwargs: Any) -> dict[str, Any]:
        """Read one item."""
        ...

    def put_item(self, **kwargs: Any) -> dict[str, Any]:
        """Write one item."""
        ...

    def update_item(self, **kwargs: Any) -> dict[str, Any]:
        """Change one item."""
        ...

    def query(self, **kwargs: Any) -> dict[str, Any]:
        """Read one page of a partition."""
        ...

    def batch_get_item(self, **kwargs: Any) -> dict[str, Any]:
        """Read up to 100 items by key."""
        ...

    def batch_execute_statement(self, **kwargs: Any) -> dict[str, Any]:
        """Run up to 25 PartiQL statements, each on its own."""
        ...


def to_wire(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values as DynamoDB attribute values."""
    return {name: value_to_wire(value) for name, value in values.items()}


def value_to_wire(value: object) -> Any:
    """Return one plain value as a DynamoDB attribute value."""
    # Nearly every value is a text; boto3's serializer tries a dozen types before it comes to that.
    return {"S": value} if type(value) is str else _SERIALIZER.serialize(value)


def from_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return DynamoDB attribute values as plain values; numbers become Decimal."""
    return {
        name: value["S"] if "S" in value else _DESERIALIZER.deserialize(value) for name, value in item.items()
    }


def pages(client: DynamoDBClient, operation: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Yield the responses of a query, page after page.

    Raises
    ------
    StoreUnavailable, Misconfigured
        As :func:`awsmp.adapters.client_errors.translated`.
    """
    start: dict[str, Any] = {}
    while True:
        with translated(operation):
            page = client.query(**query, **start)
        yield page
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def batch_get(
    client: DynamoDBClient, clock: Clock, table: str, keys: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the items of at most 100 wire-format keys, read consistently, as plain values.

    Raises
    ------
    StoreUnavailable
        Some keys stayed unprocessed after several tries.
    """
    found: list[dict[str, Any]] = []
    request = {table: {"Keys": list(keys), "ConsistentRead": True}}
    for attempt in range(_TRIES):
        if attempt:
            clock.sleep(_FIRST_PAUSE * 2**attempt)
        with translated("BatchGetItem"):
            answer = client.batch_get_item(RequestItems=request)
        found += [from_wire(item) for item in answer["Responses"].get(table, ())]
        request = answer.get("UnprocessedKeys") or {}
        if not request:
            return found
    raise StoreUnavailable("BatchGetItem left keys unprocessed after several tries")


class StatementResult(Enum):
    """How one statement of a batch ended."""

    DONE = auto()
    CONDITION_FAILED = auto()
    UNAVAILABLE = auto()


@dataclass(frozen=True, slots=True)
class Statement:
    """One conditional PartiQL UPDATE, or an INSERT, with its parameters in wire format."""

    text: str
    parameters: tuple[Any, ...]


def execute(client: DynamoDBClient, clock: Clock, statements: Sequence[Statement]) -> list[StatementResult]:
    """Run conditional updates, 25 a request, each under its own condition.

    A statement that was throttled or met an internal error is run again, some times with growing pauses;
    what still fails then is ``UNAVAILABLE`` (and may have had its effect). A request that fails as a
    whole counts as that for each of its statements.
    """
    results = [StatementResult.UNAVAILABLE] * len(statements)
    left = list(range(len(statements)))
    for attempt in range(_TRIES):
        if attempt:
            clock.sleep(_FIRST_PAUSE * 2**attempt)
        for start in range(0, len(left), MAX_STATEMENTS):
            positions = left[start : start + MAX_STATEMENTS]
            for position, result in zip(
                positions, _execute_once(client, [statements[i] for i in positions]), strict=True
            ):
                results[position] = result
        left = [i for i in left if results[i] is StatementResult.UNAVAILABLE]
        if not left:
            break
    return results


def _execute_once(client: DynamoDBClient, statements: Sequence[Statement]) -> list[StatementResult]:
    try:
        with translated("BatchExecuteStatement"):
            answer = client.batch_execute_statement(
                Statements=[
                    {"Statement": statement.text, "Parameters": list(statement.parameters)}
                    for statement in statements
                ]
            )
    except StoreUnavailable:
        return [StatementResult.UNAVAILABLE] * len(statements)
    return [_result(response.get("Error")) for response in answer["Responses"]]


def _result(error: Mapping[str, Any] | None) -> StatementResult:
    if error is None:
        return StatementResult.DONE
    if error.get("Code") in _CONDITION_FAILED:
        return StatementResult.CONDITION_FAILED
    return StatementResult.UNAVAILABLE
