"""What only the in-memory DynamoDB does: faults, delayed visibility, metering, TTL and exact limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.memory_aws import (
    DynamoDBClient,
    Lag,
    ManualClock,
    MemoryDynamoDB,
    Meter,
    aws_error,
    raise_aws_error,
)
from sandbox.memory_aws.rejection import Rejection
from sandbox.memory_aws.values import canonical, canonical_item, item_size
from sandbox.memory_aws.values import number as parsed_number

TABLE = "usage_rows"
BUCKET = {"S": "2026-07-15T11"}


def create(backend: MemoryDynamoDB) -> DynamoDBClient:
    client = backend.client()
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("p", "s", "pending")
        ],
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_pending",
                "KeySchema": [
                    {"AttributeName": "pending", "KeyType": "HASH"},
                    {"AttributeName": "p", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )
    client.meter.reset()
    return client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backend(clock: ManualClock) -> MemoryDynamoDB:
    return MemoryDynamoDB(clock, seed=7)


@pytest.fixture
def client(backend: MemoryDynamoDB) -> DynamoDBClient:
    return create(backend)


def key(sort: str, partition: str = "p") -> dict[str, Any]:
    return {"p": {"S": partition}, "s": {"S": sort}}


def put(client: DynamoDBClient, sort: str, partition: str = "p", **attributes: Any) -> None:
    client.put_item(TableName=TABLE, Item={**key(sort, partition), **attributes})


def read(client: DynamoDBClient, sort: str, *, consistent: bool = True) -> dict[str, Any] | None:
    answer = client.get_item(TableName=TABLE, Key=key(sort), ConsistentRead=consistent)
    return answer.get("Item")


def indexed(client: DynamoDBClient) -> list[str]:
    answer = client.query(
        TableName=TABLE,
        IndexName="by_pending",
        KeyConditionExpression="pending = :b",
        ExpressionAttributeValues={":b": BUCKET},
    )
    return sorted(item["s"]["S"] for item in answer["Items"])


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    found: str = error.value.response["Error"]["Code"]
    return found


# -- faults -------------------------------------------------------------------------------------------


def test_an_error_before_the_call_leaves_no_effect(backend: MemoryDynamoDB, client: DynamoDBClient) -> None:
    def throttle(service: str, operation: str, kwargs: Mapping[str, Any]) -> None:
        raise_aws_error(service, operation, "ProvisionedThroughputExceededException", "slow down")

    faulty = backend.client(before_call=throttle)
    with pytest.raises(faulty.exceptions.ProvisionedThroughputExceededException):
        put(faulty, "a")
    assert read(client, "a") is None
    assert faulty.meter.requests == {}


def test_an_error_after_the_call_is_a_lost_response(backend: MemoryDynamoDB, client: DynamoDBClient) -> None:
    seen: list[tuple[str, str]] = []

    def lose(service: str, operation: str, kwargs: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        seen.append((service, operation))
        raise aws_error(service, operation, "InternalServerError", "lost")

    faulty = backend.client(after_call=lose)
    with pytest.raises(ClientError) as caught:
        put(faulty, "a")
    assert code(caught) == "InternalServerError"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert seen == [("dynamodb", "PutItem")]
    assert read(client, "a") == key("a")


def test_an_entry_of_a_batch_can_take_effect_and_be_reported_as_failed(
    backend: MemoryDynamoDB, client: DynamoDBClient
) -> None:
    def spoil(service: str, operation: str, kwargs: Mapping[str, Any], response: dict[str, Any]) -> None:
        response["Responses"][0] = {"Error": {"Code": "InternalServerError", "Message": "lost"}}

    put(client, "a")
    faulty = backend.client(after_call=spoil)
    update = {"Statement": f"UPDATE {TABLE} SET x = 1 WHERE p = 'p' AND s = 'a'"}
    answers = faulty.batch_execute_statement(Statements=[update])["Responses"]
    assert [answer["Error"]["Code"] for answer in answers] == ["InternalServerError"]
    assert (read(client, "a") or {})["x"] == {"N": "1"}


def test_hooks_of_one_client_do_not_touch_another(backend: MemoryDynamoDB, client: DynamoDBClient) -> None:
    calls: list[str] = []
    other = backend.client(before_call=lambda service, operation, kwargs: calls.append(operation))
    put(client, "a")
    read(other, "a")
    assert calls == ["GetItem"]


def test_entries_of_batches_can_be_left_unprocessed(backend: MemoryDynamoDB, client: DynamoDBClient) -> None:
    partial = backend.client(
        entry_fault=lambda operation, position: "ThrottlingError" if position == 1 else None
    )
    requests = [{"PutRequest": {"Item": key(sort)}} for sort in ("a", "b", "c")]
    written = partial.batch_write_item(RequestItems={TABLE: requests})
    assert written["UnprocessedItems"] == {TABLE: [requests[1]]}
    found = partial.batch_get_item(
        RequestItems={TABLE: {"Keys": [key("a"), key("c")], "ConsistentRead": True}}
    )
    assert found["Responses"] == {TABLE: [key("a")]}
    assert found["UnprocessedKeys"] == {TABLE: {"Keys": [key("c")], "ConsistentRead": True}}
    statements = [
        {
            "Statement": f'UPDATE "{TABLE}" SET x = 1 WHERE p = ? AND s = ?',
            "Parameters": [{"S": "p"}, {"S": sort}],
        }
        for sort in ("a", "c")
    ]
    answers = partial.batch_execute_statement(Statements=statements)["Responses"]
    assert [answer.get("Error", {}).get("Code") for answer in answers] == [None, "ThrottlingError"]
    assert "x" in (read(client, "a") or {})
    assert "x" not in (read(client, "c") or {})


def test_scan_is_refused_unless_the_backend_allows_it(client: DynamoDBClient, clock: ManualClock) -> None:
    with pytest.raises(ClientError) as caught:
        client.scan(TableName=TABLE)
    assert code(caught) == "AccessDeniedException"
    allowed = create(MemoryDynamoDB(clock, allow_scan=True))
    for number in range(5):
        put(allowed, f"{number}", partition=f"p{number % 2}")
    found: list[str] = []
    arguments: dict[str, Any] = {}
    while True:
        page = allowed.scan(TableName=TABLE, Limit=2, **arguments)
        found += [item["s"]["S"] for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            break
        arguments = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert sorted(found) == ["0", "1", "2", "3", "4"]


def test_a_select_without_a_full_key_is_refused_like_a_scan(client: DynamoDBClient) -> None:
    with pytest.raises(ClientError) as caught:
        client.execute_statement(Statement=f"SELECT * FROM \"{TABLE}\" WHERE p = 'x'")
    assert code(caught) == "AccessDeniedException"


def test_unknown_parameters_are_refused_and_known_but_unsimulated_ones_say_so(client: DynamoDBClient) -> None:
    with pytest.raises(ParamValidationError):
        client.get_item(TableName=TABLE, Key=key("a"), Consistent=True)
    with pytest.raises(ParamValidationError):
        client.get_item(TableName=TABLE)
    with pytest.raises(NotImplementedError, match="ReturnConsumedCapacity"):
        client.get_item(TableName=TABLE, Key=key("a"), ReturnConsumedCapacity="TOTAL")


# -- visibility ---------------------------------------------------------------------------------------


def test_without_lag_an_index_shows_every_write_at_once(client: DynamoDBClient) -> None:
    put(client, "a", pending=BUCKET)
    assert indexed(client) == ["a"]


def test_an_index_may_lag_and_catches_up_with_time(
    backend: MemoryDynamoDB, client: DynamoDBClient, clock: ManualClock
) -> None:
    backend.index_lag = Lag(seconds=5)
    for number in range(20):
        put(client, f"{number:02d}", pending=BUCKET)
    at_once = indexed(client)
    clock.sleep(2)
    later = indexed(client)
    clock.sleep(3)
    assert len(at_once) < len(later) < 20
    assert indexed(client) == [f"{number:02d}" for number in range(20)]


def test_an_index_may_lag_by_writes(backend: MemoryDynamoDB, client: DynamoDBClient) -> None:
    backend.index_lag = Lag(writes=3)
    put(client, "a", pending=BUCKET)
    put(client, "a")
    for number in range(3):
        put(client, f"later-{number}")
    assert indexed(client) == []


def test_changes_of_one_item_never_overtake_each_other(
    backend: MemoryDynamoDB, client: DynamoDBClient, clock: ManualClock
) -> None:
    backend.index_lag = Lag(seconds=10)
    for count in range(20):
        put(client, f"{count}", pending=BUCKET)
        client.delete_item(TableName=TABLE, Key=key(f"{count}"))
    for _ in range(10):
        clock.sleep(1)
        indexed(client)
    assert indexed(client) == []


def test_settling_makes_every_change_visible(backend: MemoryDynamoDB, client: DynamoDBClient) -> None:
    backend.index_lag = Lag(seconds=1000)
    put(client, "a", pending=BUCKET)
    assert indexed(client) == []
    backend.settle()
    assert indexed(client) == ["a"]


def test_eventually_consistent_reads_may_be_stale_and_consistent_ones_are_exact(
    backend: MemoryDynamoDB, client: DynamoDBClient, clock: ManualClock
) -> None:
    for version in range(4):
        put(client, "a", version={"N": str(version)})
    backend.base_lag = Lag(writes=3)
    seen = {(read(client, "a", consistent=False) or {})["version"]["N"] for _ in range(200)}
    assert seen == {"0", "1", "2", "3"}
    assert {(read(client, "a") or {})["version"]["N"] for _ in range(20)} == {"3"}
    backend.base_lag = Lag(seconds=10)
    clock.sleep(10)
    assert (read(client, "a", consistent=False) or {})["version"]["N"] == "3"


def test_a_stale_query_may_miss_new_items_and_show_deleted_ones(
    backend: MemoryDynamoDB, client: DynamoDBClient
) -> None:
    put(client, "old")
    backend.base_lag = Lag(writes=2)
    client.delete_item(TableName=TABLE, Key=key("old"))
    put(client, "new")
    seen = set()
    for _ in range(100):
        page = client.query(
            TableName=TABLE, KeyConditionExpression="p = :p", ExpressionAttributeValues={":p": {"S": "p"}}
        )
        seen.add(tuple(item["s"]["S"] for item in page["Items"]))
    assert seen == {("old",), (), ("new",)}


def test_equal_seeds_give_equal_histories(clock: ManualClock) -> None:
    def history(seed: int) -> list[list[str]]:
        client = create(MemoryDynamoDB(clock, seed=seed, index_lag=Lag(writes=5)))
        seen = []
        for number in range(30):
            put(client, f"{number}", pending=BUCKET)
            seen.append(indexed(client))
        return seen

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_items_with_equal_index_keys_have_no_promised_order(clock: ManualClock) -> None:
    orders = set()
    for seed in range(5):
        client = create(MemoryDynamoDB(clock, seed=seed))
        for number in range(6):
            put(client, f"{number}", pending=BUCKET)
        page = client.query(
            TableName=TABLE,
            IndexName="by_pending",
            KeyConditionExpression="pending = :b",
            ExpressionAttributeValues={":b": BUCKET},
        )
        orders.add(tuple(item["s"]["S"] for item in page["Items"]))
    assert len(orders) > 1


# -- metering -----------------------------------------------------------------------------------------


def test_the_meter_counts_requests_items_and_bytes(backend: MemoryDynamoDB, client: DynamoDBClient) -> None:
    put(client, "a", n={"N": "1"})
    put(client, "b", pending=BUCKET)
    size_a, size_b = 1 + 1 + 1 + 1 + 1 + 2, 4 + len("pending") + len("2026-07-15T11")
    assert client.meter.bytes_written == {TABLE: size_a + size_b, f"{TABLE}/by_pending": size_b}
    reader = backend.client(meter=Meter())
    reader.query(
        TableName=TABLE,
        KeyConditionExpression="p = :p",
        FilterExpression="attribute_exists(n)",
        ExpressionAttributeValues={":p": {"S": "p"}},
    )
    indexed(reader)
    assert reader.meter.requests == {"Query": 2}
    assert reader.meter.items_evaluated == {TABLE: 2, f"{TABLE}/by_pending": 1}
    assert reader.meter.items_returned == {TABLE: 1, f"{TABLE}/by_pending": 1}
    assert reader.meter.bytes_read == {TABLE: size_a + size_b, f"{TABLE}/by_pending": size_b}


def test_what_a_caller_does_to_an_answer_does_not_reach_the_store(client: DynamoDBClient) -> None:
    item = {**key("a"), "list": {"L": [{"N": "1"}]}}
    client.put_item(TableName=TABLE, Item=item)
    item["list"]["L"].append({"N": "2"})
    answer = read(client, "a") or {}
    answer["list"]["L"].clear()
    answer["s"]["S"] = "z"
    assert read(client, "a") == {**key("a"), "list": {"L": [{"N": "1"}]}}


def test_a_paginator_walks_all_pages(client: DynamoDBClient) -> None:
    for number in range(5):
        put(client, f"{number}")
    pages = client.get_paginator("query").paginate(
        TableName=TABLE,
        KeyConditionExpression="p = :p",
        ExpressionAttributeValues={":p": {"S": "p"}},
        PaginationConfig={"PageSize": 2},
    )
    assert [item["s"]["S"] for page in pages for item in page["Items"]] == ["0", "1", "2", "3", "4"]


# -- time to live -------------------------------------------------------------------------------------


def test_expiry_deletes_past_numbers_only(
    backend: MemoryDynamoDB, client: DynamoDBClient, clock: ManualClock
) -> None:
    now = int(clock.now().timestamp())
    client.update_time_to_live(
        TableName=TABLE, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    put(client, "past", ttl={"N": str(now - 1)}, pending=BUCKET)
    put(client, "now", ttl={"N": str(now)})
    put(client, "text", ttl={"S": str(now - 1)})
    put(client, "ancient", ttl={"N": str(now - int(timedelta(days=6 * 365).total_seconds()))})
    put(client, "none")
    assert [item["s"]["S"] for item in backend.expire(TABLE)] == ["past"]
    assert sorted(item["s"]["S"] for item in backend.items(TABLE)) == ["ancient", "none", "now", "text"]
    assert indexed(client) == []
    clock.sleep(1)
    assert [item["s"]["S"] for item in backend.expire(TABLE)] == ["now"]


# -- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 1),
        ("1", 2),
        ("-1", 3),
        ("12", 2),
        ("123", 3),
        ("123456", 4),
        ("3.14159", 5),
        ("1E125", 2),
        ("100", 2),
        ("0.001", 2),
        ("12.34", 3),
        ("-12.345", 5),
    ],
)
def test_a_number_is_sized_by_its_significant_digits(text: str, size: int) -> None:
    assert parsed_number(text)[2] == size


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "ä"}, 2),
        ({"B": b"abc"}, 3),
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        ({"SS": ["a", "bc"]}, 3),
        ({"L": []}, 3),
        ({"L": [{"S": "a"}, {"S": "b"}]}, 3 + 2 * (1 + 1)),
        ({"M": {"k": {"S": "ab"}}}, 3 + 1 + 2 + 1),
    ],
)
def test_values_are_sized_by_the_published_rules(value: dict[str, Any], size: int) -> None:
    assert canonical(value)[1] == size


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.recursive(
            st.one_of(
                st.text(max_size=5).map(lambda text: {"S": text}),
                st.decimals(-1000, 1000, places=3).map(lambda value: {"N": str(value)}),
                st.booleans().map(lambda value: {"BOOL": value}),
                st.sets(st.text(max_size=3), min_size=1, max_size=3).map(lambda items: {"SS": list(items)}),
            ),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3).map(lambda items: {"L": items}),
                st.dictionaries(st.text(max_size=3), inner, max_size=3).map(lambda items: {"M": items}),
            ),
            max_leaves=6,
        ),
        max_size=4,
    )
)
@settings(max_examples=100, deadline=None)
def test_the_canonical_form_is_stable_and_keeps_its_size(item: dict[str, Any]) -> None:
    stored, size = canonical_item(item)
    assert canonical_item(stored) == (stored, size)
    assert item_size(stored) == size


def test_nesting_ends_at_32_levels() -> None:
    value: dict[str, Any] = {"S": "leaf"}
    for _ in range(32):
        value = {"L": [value]}
    assert canonical(value)[1] > 0
    with pytest.raises(Rejection, match="Nesting Levels"):
        canonical({"L": [value]})


def test_a_transaction_may_have_100_actions(client: DynamoDBClient) -> None:
    actions = [{"Put": {"TableName": TABLE, "Item": key(str(number))}} for number in range(101)]
    with pytest.raises(ClientError) as caught:
        client.transact_write_items(TransactItems=actions)
    assert code(caught) == "ValidationException"
    client.transact_write_items(TransactItems=actions[:100])
    assert len(client.backend.items(TABLE)) == 100


def test_a_transaction_token_is_forgotten_after_ten_minutes(
    client: DynamoDBClient, clock: ManualClock
) -> None:
    update = {
        "TableName": TABLE,
        "Key": key("a"),
        "UpdateExpression": "ADD n :n",
        "ExpressionAttributeValues": {":n": {"N": "1"}},
    }
    for pause in (0, 599, 1):
        clock.sleep(pause)
        client.transact_write_items(ClientRequestToken="once", TransactItems=[{"Update": update}])
    assert (read(client, "a") or {})["n"] == {"N": "2"}


def test_an_expression_may_have_4096_bytes(client: DynamoDBClient) -> None:
    with pytest.raises(ClientError, match="Expression size has exceeded"):
        client.update_item(TableName=TABLE, Key=key("a"), UpdateExpression="REMOVE " + "x" * 4096)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"UPDATE \"{TABLE}\" t SET x = 1 WHERE p = 'a' AND s = 'b'", "Aliasing is not supported"),
        (f'UPDATE "{TABLE}" SET x = 1', "Expected keyword WHERE"),
        (f"UPDATE \"{TABLE}\" SET x = 1 WHERE p = 'a' AND s = 'b' # note", "wasn't well formed"),
        (f"UPDATE \"{TABLE}\" SET timestamp = 1 WHERE p = 'a' AND s = 'b'", "reserved word"),
        (f"UPDATE \"{TABLE}\" SET x = 1E126 WHERE p = 'a' AND s = 'b'", "Number overflow"),
        (f"UPDATE \"{TABLE}\" SET x = 1 WHERE p = 'a' AND (s = 'b' OR s = 'c')", "mandatory equality"),
        (f"UPDATE \"{TABLE}\" SET x = 1, x.y = 2 WHERE p = 'a' AND s = 'b'", "overlap"),
        (f"UPDATE \"{TABLE}\" SET x = 1 WHERE p = 'a' AND s = 'b' AND like(x, 'y')", "Unrecognized function"),
        (f"DELETE FROM \"{TABLE}\" WHERE p = 'a' AND s = 'b' RETURNING ALL NEW *", "Only RETURNING ALL OLD"),
        (f"INSERT INTO \"{TABLE}\" VALUE {{'p': 'a', 's': 'b'}} foo", "Unexpected token after expression"),
        ("UPSERT x", "Expected SELECT"),
    ],
)
def test_statements_that_the_service_cannot_read(
    client: DynamoDBClient, statement: str, message: str
) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        client.execute_statement(Statement=statement)
    assert code(caught) == "ValidationException"
    assert client.backend.items(TABLE) == []


def test_statements_may_have_literals_comments_and_set_functions(client: DynamoDBClient) -> None:
    where = "WHERE p = 'it''s' AND s = 'b'"
    for text, *parameters in (
        (f"INSERT INTO {TABLE} VALUE {{'p': 'it''s', 's': 'b', 'tags': <<'x', 'y'>>, 'n': .5e1}}",),
        (f"UPDATE {TABLE} SET tags = set_add(tags, <<'z'>>) SET n = n - 7 /* note */ {where} -- end",),
        (f"UPDATE {TABLE} SET tags = set_delete(tags, <<'x'>>) SET l = [1, {{'k': true}}, null] {where}",),
        (f"UPDATE {TABLE} SET l = list_append(l, ?) {where}", {"L": [{"S": "e"}]}),
        (f"UPDATE {TABLE} REMOVE l[0] {where}",),
    ):
        client.execute_statement(Statement=text, **({"Parameters": parameters} if parameters else {}))
    assert client.backend.items(TABLE) == [
        {
            "p": {"S": "it's"},
            "s": {"S": "b"},
            "tags": {"SS": ["y", "z"]},
            "n": {"N": "-2"},
            "l": {"L": [{"M": {"k": {"BOOL": True}}}, {"NULL": True}, {"S": "e"}]},
        }
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("((a = :v))", "redundant parentheses"),
        ("a = a", "must be distinct"),
        ("a IN ()", "Syntax error"),
        ("size(:v) = :v", "requires a document path"),
        ("attribute_exists(a, b)", "Incorrect number of operands"),
        ("if_not_exists(a, :v) = :v", "not allowed in this expression"),
        ("attribute_type(a, :v)", "Invalid attribute type name"),
        ("a ! :v", "Syntax error"),
        ("a[x] = :v", "Syntax error"),
    ],
)
def test_conditions_that_the_service_cannot_read(
    client: DynamoDBClient, expression: str, message: str
) -> None:
    arguments = {"ExpressionAttributeValues": {":v": {"S": "v"}}} if ":v" in expression else {}
    with pytest.raises(ClientError, match=message):
        client.put_item(TableName=TABLE, Item=key("a"), ConditionExpression=expression, **arguments)


@given(
    st.lists(st.text("ab#\ud7ff\ue000\U0010ffff", min_size=1, max_size=4), max_size=12, unique=True),
    st.text("ab#\ud7ff\ue000\U0010ffff", min_size=1, max_size=2),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_paged_prefix_queries_find_exactly_what_begins_with_the_prefix(
    sort_keys: list[str], prefix: str, limit: int, forward: bool
) -> None:
    client = create(MemoryDynamoDB(ManualClock()))
    for sort in sort_keys:
        put(client, sort)
    found: list[str] = []
    arguments: dict[str, Any] = {}
    while True:
        page = client.query(
            TableName=TABLE,
            KeyConditionExpression="p = :p AND begins_with(s, :s)",
            ExpressionAttributeValues={":p": {"S": "p"}, ":s": {"S": prefix}},
            Limit=limit,
            ScanIndexForward=forward,
            **arguments,
        )
        found += [item["s"]["S"] for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            break
        arguments = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    wanted = sorted((sort for sort in sort_keys if sort.startswith(prefix)), key=lambda sort: sort.encode())
    assert found == (wanted if forward else wanted[::-1])
