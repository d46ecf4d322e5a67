"""What the product relies on in DynamoDB, asked of every implementation that tests run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import KEY, SORT, Aws

Item = dict[str, Any]
LICENSE = "arn:aws:license-manager::294406891311:license:l-0123456789abcdef0123456789abcdef"
NAMES = {"#k": KEY, "#s": SORT}


def key(sort: str, license_arn: str = LICENSE) -> Item:
    return {KEY: {"S": license_arn}, SORT: {"S": sort}}


def put(aws: Aws, table: str, sort: str, license_arn: str = LICENSE, **attributes: Item) -> Item:
    return store(aws, table, {**key(sort, license_arn), **attributes})


def store(aws: Aws, table: str, item: Item) -> Item:
    aws.dynamodb.put_item(TableName=table, Item=item)
    return item


def get(aws: Aws, table: str, sort: str, license_arn: str = LICENSE) -> Item | None:
    answer = aws.dynamodb.get_item(TableName=table, Key=key(sort, license_arn), ConsistentRead=True)
    item: Item | None = answer.get("Item")
    return item


def refusal(call: Callable[[], Any]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value


def code(call: Callable[[], Any]) -> str:
    found: str = refusal(call).response["Error"]["Code"]
    return found


def sorts(items: list[Item]) -> list[str]:
    return [item[SORT]["S"] for item in items]


def query(aws: Aws, table: str, condition: str = "#k = :k", **arguments: Any) -> dict[str, Any]:
    values = {":k": {"S": LICENSE}, **arguments.pop("values", {})}
    names = {name: attribute for name, attribute in NAMES.items() if name in condition}
    answer: dict[str, Any] = aws.dynamodb.query(
        TableName=table,
        KeyConditionExpression=condition,
        ExpressionAttributeNames={**names, **arguments.pop("names", {})},
        ExpressionAttributeValues=values,
        **arguments,
    )
    return answer


def pending(aws: Aws, table: str, bucket: str = "2026-07-15T11", **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = aws.dynamodb.query(
        TableName=table,
        IndexName="metering_pending",
        KeyConditionExpression="meteringPending = :b",
        ExpressionAttributeValues={":b": {"S": bucket}},
        **arguments,
    )
    return answer


# -- tables -------------------------------------------------------------------------------------------


def test_a_table_describes_its_keys_and_indexes(aws: Aws, table: str) -> None:
    described = aws.dynamodb.describe_table(TableName=table)["Table"]
    assert described["TableStatus"] == "ACTIVE"
    assert described["KeySchema"] == [
        {"AttributeName": KEY, "KeyType": "HASH"},
        {"AttributeName": SORT, "KeyType": "RANGE"},
    ]
    projections = {
        index["IndexName"]: (
            index["Projection"]["ProjectionType"],
            sorted(index["Projection"].get("NonKeyAttributes", [])),
        )
        for index in described["GlobalSecondaryIndexes"]
    }
    assert projections == {
        "metering_pending": ("INCLUDE", ["customerAWSAccountId", "dimension"]),
        "by_customer": ("KEYS_ONLY", []),
        "by_dimension": ("ALL", []),
    }


def test_a_table_is_created_once(aws: Aws, numbered_table: str) -> None:
    with pytest.raises(aws.dynamodb.exceptions.ResourceInUseException):
        aws.dynamodb.create_table(
            TableName=numbered_table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
        )


def test_time_to_live_is_switched_on_once(aws: Aws, table: str) -> None:
    def switch() -> None:
        aws.dynamodb.update_time_to_live(
            TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
        )

    switch()
    described = aws.dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    assert code(switch) == "ValidationException"


# -- conditional writes -------------------------------------------------------------------------------


def test_a_put_that_requires_absence_loses_to_an_existing_item(aws: Aws, table: str) -> None:
    def create(quantity: str) -> None:
        aws.dynamodb.put_item(
            TableName=table,
            Item={**key("a"), "quantity": {"N": quantity}},
            ConditionExpression="attribute_not_exists(#k)",
            ExpressionAttributeNames={"#k": KEY},
        )

    create("1")
    assert code(lambda: create("2")) == "ConditionalCheckFailedException"
    assert get(aws, table, "a") == {**key("a"), "quantity": {"N": "1"}}


def test_a_failed_condition_is_the_modeled_exception(aws: Aws, table: str) -> None:
    with pytest.raises(aws.dynamodb.exceptions.ConditionalCheckFailedException):
        aws.dynamodb.delete_item(
            TableName=table,
            Key=key("a"),
            ConditionExpression="attribute_exists(#k)",
            ExpressionAttributeNames={"#k": KEY},
        )


def test_a_failed_condition_shows_the_item_when_asked(aws: Aws, table: str) -> None:
    item = put(aws, table, "a", version={"N": "7"})
    error = refusal(
        lambda: aws.dynamodb.update_item(
            TableName=table,
            Key=key("a"),
            UpdateExpression="SET version = :new",
            ConditionExpression="version = :old",
            ExpressionAttributeValues={":new": {"N": "9"}, ":old": {"N": "8"}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    )
    assert error.response["Item"] == item


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        pytest.param("quantity = :five", True, id="number-by-value"),
        pytest.param("quantity = :text", False, id="number-is-not-text"),
        pytest.param("quantity > :four AND quantity <= :five", True, id="orderings"),
        pytest.param("quantity < :text", False, id="ordering-across-types-is-false"),
        pytest.param("quantity BETWEEN :four AND :five", True, id="between-includes-its-ends"),
        pytest.param("quantity IN (:text, :five)", True, id="in"),
        pytest.param("NOT quantity = :four OR quantity = :five", True, id="not-binds-tighter-than-or"),
        pytest.param("(quantity = :four OR quantity = :five) AND #name = :text", True, id="parentheses"),
        pytest.param("gone <> :five", True, id="absent-is-unequal"),
        pytest.param("attribute_exists(tags) AND attribute_not_exists(gone)", True, id="exists"),
        pytest.param("attribute_type(tags, :stringset)", True, id="type"),
        pytest.param("begins_with(#name, :t)", True, id="begins-with"),
        pytest.param("contains(#name, :ex)", True, id="contains-substring"),
        pytest.param("contains(tags, :text)", False, id="contains-member"),
        pytest.param("size(tags) = :two", True, id="size-of-set"),
        pytest.param("tags = :swapped", True, id="sets-are-unordered"),
        pytest.param("items = :list", True, id="lists-by-value"),
        pytest.param("items = :turned", False, id="lists-are-ordered"),
        pytest.param("nested.deep[1].leaf = :five", True, id="document-path"),
        pytest.param("nested = :nested", True, id="maps-by-value"),
    ],
)
def test_conditions(aws: Aws, table: str, condition: str, holds: bool) -> None:
    nested = {"M": {"deep": {"L": [{"S": "x"}, {"M": {"leaf": {"N": "5"}}}]}}}
    put(
        aws,
        table,
        "a",
        quantity={"N": "5.0"},
        name={"S": "text"},
        tags={"SS": ["b", "a"]},
        items={"L": [{"N": "1"}, {"S": "z"}]},
        nested=nested,
    )
    values = {
        ":five": {"N": "5"},
        ":four": {"N": "4"},
        ":two": {"N": "2"},
        ":text": {"S": "text"},
        ":t": {"S": "te"},
        ":ex": {"S": "ex"},
        ":stringset": {"S": "SS"},
        ":swapped": {"SS": ["a", "b"]},
        ":list": {"L": [{"N": "1.0"}, {"S": "z"}]},
        ":turned": {"L": [{"S": "z"}, {"N": "1"}]},
        ":nested": nested,
    }
    used = {name: value for name, value in values.items() if _uses(condition, name)}
    names = {"#name": "name"} if "#name" in condition else {}
    names |= {"#items": "items"} if "items" in condition else {}

    def write() -> None:
        aws.dynamodb.update_item(
            TableName=table,
            Key=key("a"),
            UpdateExpression="REMOVE absent",
            ConditionExpression=condition.replace("items", "#items"),
            **({"ExpressionAttributeValues": used} if used else {}),
            **({"ExpressionAttributeNames": names} if names else {}),
        )

    if holds:
        write()
    else:
        assert code(write) == "ConditionalCheckFailedException"


def _uses(expression: str, placeholder: str) -> bool:
    words = expression.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return placeholder in words


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(
            {"ConditionExpression": "a = :a", "ExpressionAttributeValues": {":b": {"N": "1"}}}, id="undefined"
        ),
        pytest.param(
            {
                "ConditionExpression": "a = :a",
                "ExpressionAttributeValues": {":a": {"N": "1"}, ":b": {"N": "1"}},
            },
            id="unused-value",
        ),
        pytest.param(
            {
                "ConditionExpression": "attribute_exists(a)",
                "ExpressionAttributeNames": {"#unused": "b"},
            },
            id="unused-name",
        ),
        pytest.param({"ConditionExpression": "attribute_exists(#undefined)"}, id="undefined-name"),
        pytest.param(
            {"ConditionExpression": "status = :a", "ExpressionAttributeValues": {":a": {"S": "x"}}},
            id="reserved-word",
        ),
        pytest.param({"ConditionExpression": "attribute_exists(a) AND"}, id="syntax"),
        pytest.param({"ConditionExpression": ""}, id="empty"),
        pytest.param({"ConditionExpression": "attribute_present(a)"}, id="unknown-function"),
        pytest.param(
            {
                "ConditionExpression": "begins_with(a, :n)",
                "ExpressionAttributeValues": {":n": {"N": "1"}},
            },
            id="operand-type",
        ),
        pytest.param(
            {
                "ConditionExpression": "a BETWEEN :hi AND :lo",
                "ExpressionAttributeValues": {":hi": {"N": "2"}, ":lo": {"N": "1"}},
            },
            id="empty-range",
        ),
    ],
)
def test_wrong_expressions_are_refused(aws: Aws, table: str, arguments: dict[str, Any]) -> None:
    assert (
        code(lambda: aws.dynamodb.put_item(TableName=table, Item=key("a"), **arguments))
        == "ValidationException"
    )
    assert get(aws, table, "a") is None


# -- updates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "values", "changed"),
    [
        pytest.param("SET a = :v", {":v": {"S": "x"}}, {"a": {"S": "x"}}, id="set"),
        pytest.param("SET n = n + :v", {":v": {"N": "0.5"}}, {"n": {"N": "10.5"}}, id="add"),
        pytest.param("SET n = n - :v", {":v": {"N": "12"}}, {"n": {"N": "-2"}}, id="subtract"),
        pytest.param(
            "SET n = if_not_exists(n, :v)", {":v": {"N": "1"}}, {"n": {"N": "10"}}, id="keeps-what-exists"
        ),
        pytest.param(
            "SET c = if_not_exists(c, :v) + :v",
            {":v": {"N": "1"}},
            {"c": {"N": "2"}},
            id="starts-what-does-not",
        ),
        pytest.param(
            "SET l = list_append(l, :v)",
            {":v": {"L": [{"N": "3"}]}},
            {"l": {"L": [{"N": "1"}, {"N": "2"}, {"N": "3"}]}},
            id="list-append",
        ),
        pytest.param(
            "SET m.y = :v", {":v": {"N": "2"}}, {"m": {"M": {"x": {"N": "1"}, "y": {"N": "2"}}}}, id="path"
        ),
        pytest.param(
            "SET l[0] = :v", {":v": {"N": "9"}}, {"l": {"L": [{"N": "9"}, {"N": "2"}]}}, id="element"
        ),
        pytest.param(
            "SET l[7] = :v",
            {":v": {"N": "9"}},
            {"l": {"L": [{"N": "1"}, {"N": "2"}, {"N": "9"}]}},
            id="appends",
        ),
        pytest.param("REMOVE l[0], l[1]", {}, {"l": {"L": []}}, id="removes-by-old-indexes"),
        pytest.param(
            "SET a = n, n = :v", {":v": {"N": "1"}}, {"a": {"N": "10"}, "n": {"N": "1"}}, id="reads-old"
        ),
        pytest.param("REMOVE n, absent", {}, {"n": None}, id="remove"),
        pytest.param("ADD n :v", {":v": {"N": "1"}}, {"n": {"N": "11"}}, id="add-number"),
        pytest.param("ADD c :v", {":v": {"N": "1"}}, {"c": {"N": "1"}}, id="add-creates"),
        pytest.param(
            "ADD regions :v", {":v": {"SS": ["b", "c"]}}, {"regions": {"SS": ["a", "b", "c"]}}, id="add-set"
        ),
        pytest.param("ADD more :v", {":v": {"SS": ["a"]}}, {"more": {"SS": ["a"]}}, id="add-set-creates"),
        pytest.param(
            "DELETE regions :v", {":v": {"SS": ["a"]}}, {"regions": {"SS": ["b"]}}, id="delete-member"
        ),
        pytest.param("DELETE regions :v", {":v": {"SS": ["a", "b"]}}, {"regions": None}, id="no-empty-set"),
    ],
)
def test_updates(
    aws: Aws, table: str, expression: str, values: Item, changed: dict[str, Item | None]
) -> None:
    before = put(
        aws,
        table,
        "a",
        n={"N": "10"},
        l={"L": [{"N": "1"}, {"N": "2"}]},
        m={"M": {"x": {"N": "1"}}},
        regions={"SS": ["a", "b"]},
    )
    answer = aws.dynamodb.update_item(
        TableName=table,
        Key=key("a"),
        UpdateExpression=expression,
        ReturnValues="ALL_NEW",
        **({"ExpressionAttributeValues": values} if values else {}),
    )
    expected = {name: value for name, value in {**before, **changed}.items() if value is not None}
    assert _unordered(answer["Attributes"]) == expected
    assert _unordered(get(aws, table, "a") or {}) == expected


def _unordered(item: Item) -> Item:
    return {name: {"SS": sorted(value["SS"])} if "SS" in value else value for name, value in item.items()}


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        pytest.param(f"SET {KEY} = :v", {":v": {"S": "x"}}, id="key-attribute"),
        pytest.param("SET a = absent", {}, id="absent-attribute"),
        pytest.param("SET absent.x = :v", {":v": {"S": "x"}}, id="absent-parent"),
        pytest.param("SET a = :v REMOVE a", {":v": {"S": "x"}}, id="overlap"),
        pytest.param("SET a = :v, a.b = :v", {":v": {"S": "x"}}, id="overlapping-paths"),
        pytest.param("SET a = :v SET b = :v", {":v": {"S": "x"}}, id="section-twice"),
        pytest.param("SET t = t + :v", {":v": {"N": "1"}}, id="arithmetic-on-text"),
        pytest.param("ADD t :v", {":v": {"N": "1"}}, id="add-to-text"),
        pytest.param("ADD s :v", {":v": {"NS": ["1"]}}, id="add-other-set"),
        pytest.param("SET meteringPending = :v", {":v": {"N": "1"}}, id="index-key-type"),
        pytest.param("SET meteringPending = :v", {":v": {"S": ""}}, id="empty-index-key"),
    ],
)
def test_wrong_updates_are_refused_and_change_nothing(
    aws: Aws, table: str, expression: str, values: Item
) -> None:
    before = put(aws, table, "a", t={"S": "text"}, s={"SS": ["x"]})
    error = code(
        lambda: aws.dynamodb.update_item(
            TableName=table,
            Key=key("a"),
            UpdateExpression=expression,
            **({"ExpressionAttributeValues": values} if values else {}),
        )
    )
    assert error == "ValidationException"
    assert get(aws, table, "a") == before


def test_an_update_creates_what_is_absent(aws: Aws, table: str) -> None:
    aws.dynamodb.update_item(
        TableName=table,
        Key=key("a"),
        UpdateExpression="ADD registeredRegions :r",
        ExpressionAttributeValues={":r": {"SS": ["eu-west-1"]}},
    )
    assert get(aws, table, "a") == {**key("a"), "registeredRegions": {"SS": ["eu-west-1"]}}


@pytest.mark.parametrize(
    ("returned", "attributes"),
    [
        ("NONE", None),
        ("ALL_OLD", {**key("a"), "n": {"N": "1"}, "o": {"N": "5"}}),
        ("UPDATED_OLD", {"n": {"N": "1"}}),
        ("UPDATED_NEW", {"n": {"N": "2"}}),
        ("ALL_NEW", {**key("a"), "n": {"N": "2"}, "o": {"N": "5"}}),
    ],
)
def test_return_values_of_an_update(aws: Aws, table: str, returned: str, attributes: Item | None) -> None:
    put(aws, table, "a", n={"N": "1"}, o={"N": "5"})
    answer = aws.dynamodb.update_item(
        TableName=table,
        Key=key("a"),
        UpdateExpression="SET n = :n",
        ExpressionAttributeValues={":n": {"N": "2"}},
        ReturnValues=returned,
    )
    assert answer.get("Attributes") == attributes


# -- values and sizes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0042.1200", "42.12"),
        ("1E3", "1000"),
        ("-0", "0"),
        ("1." + "0" * 40 + "5E-2", None),
        ("9" * 38, "9" * 38),
    ],
)
def test_numbers_keep_38_digits_exactly(aws: Aws, table: str, text: str, stored: str | None) -> None:
    if stored is None:
        assert code(lambda: put(aws, table, "a", n={"N": text})) == "ValidationException"
    else:
        put(aws, table, "a", n={"N": text})
        assert (get(aws, table, "a") or {})["n"] == {"N": stored}


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"x": {"SS": []}}, id="empty-set"),
        pytest.param({"x": {"SS": ["a", "a"]}}, id="repeated-member"),
        pytest.param({"x": {"N": "many"}}, id="no-number"),
        pytest.param({"x": {"N": "1E126"}}, id="too-large"),
        pytest.param({"meteringPending": {"S": ""}}, id="empty-index-key"),
        pytest.param({"meteringPending": {"N": "1"}}, id="index-key-type"),
        pytest.param({SORT: {"S": ""}}, id="empty-key"),
        pytest.param({SORT: {"N": "1"}}, id="key-type"),
        pytest.param({SORT: {"S": "x" * 1025}}, id="long-sort-key"),
        pytest.param({KEY: {"S": "x" * 2049}}, id="long-hash-key"),
    ],
)
def test_wrong_items_are_refused(aws: Aws, table: str, attributes: Item) -> None:
    item = {**key("a"), **attributes}
    assert code(lambda: aws.dynamodb.put_item(TableName=table, Item=item)) == "ValidationException"


def test_an_item_may_have_400_kib_and_not_a_byte_more(aws: Aws, table: str) -> None:
    empty = sum(len(name) + len(value["S"]) for name, value in key("a").items()) + len("x")
    put(aws, table, "a", x={"S": "x" * (400 * 1024 - empty)})
    too_large = {**key("b"), "x": {"S": "x" * (400 * 1024 - empty + 1)}}
    assert code(lambda: aws.dynamodb.put_item(TableName=table, Item=too_large)) == "ValidationException"


def test_an_update_may_not_grow_an_item_beyond_400_kib(aws: Aws, table: str) -> None:
    put(aws, table, "a", x={"S": "x" * 300_000})
    error = code(
        lambda: aws.dynamodb.update_item(
            TableName=table,
            Key=key("a"),
            UpdateExpression="SET y = :y",
            ExpressionAttributeValues={":y": {"S": "y" * 120_000}},
        )
    )
    assert error == "ValidationException"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({KEY: {"S": "x"}}, id="incomplete"),
        pytest.param({**key("a"), "more": {"S": "x"}}, id="too-much"),
        pytest.param({**key("a"), SORT: {"N": "1"}}, id="type"),
    ],
)
def test_a_key_must_be_exactly_the_tables_key(aws: Aws, table: str, wrong: Item) -> None:
    assert code(lambda: aws.dynamodb.get_item(TableName=table, Key=wrong)) == "ValidationException"


def test_an_absent_table_is_not_found(aws: Aws) -> None:
    with pytest.raises(aws.dynamodb.exceptions.ResourceNotFoundException):
        aws.dynamodb.get_item(TableName="absent", Key={"p": {"S": "x"}})


# -- queries ------------------------------------------------------------------------------------------

SORTS = ["a#1", "a#2", "a#10", "b#1", "b", "a", "a!", "ä#1"]


@pytest.mark.parametrize(
    ("condition", "values", "found"),
    [
        pytest.param("#k = :k", {}, ["a", "a!", "a#1", "a#10", "a#2", "b", "b#1", "ä#1"], id="partition"),
        pytest.param("#k = :k AND #s = :s", {":s": {"S": "a#1"}}, ["a#1"], id="equal"),
        pytest.param("#k = :k AND #s < :s", {":s": {"S": "a#1"}}, ["a", "a!"], id="less"),
        pytest.param("#k = :k AND #s <= :s", {":s": {"S": "a#1"}}, ["a", "a!", "a#1"], id="at-most"),
        pytest.param("#k = :k AND #s > :s", {":s": {"S": "b"}}, ["b#1", "ä#1"], id="greater"),
        pytest.param("#k = :k AND #s >= :s", {":s": {"S": "b"}}, ["b", "b#1", "ä#1"], id="at-least"),
        pytest.param(
            "#k = :k AND #s BETWEEN :s AND :t",
            {":s": {"S": "a#1"}, ":t": {"S": "a#2"}},
            ["a#1", "a#10", "a#2"],
            id="between",
        ),
        pytest.param(
            "#k = :k AND begins_with(#s, :s)", {":s": {"S": "a#"}}, ["a#1", "a#10", "a#2"], id="begins-with"
        ),
        pytest.param("begins_with(#s, :s) AND (#k = :k)", {":s": {"S": "b#"}}, ["b#1"], id="any-order"),
        pytest.param("#k = :k AND :s < #s", {":s": {"S": "b"}}, ["b#1", "ä#1"], id="value-first"),
    ],
)
def test_key_conditions(aws: Aws, table: str, condition: str, values: Item, found: list[str]) -> None:
    for sort in SORTS:
        put(aws, table, sort)
    put(aws, table, "a#1", license_arn=LICENSE + "-other")
    assert sorts(query(aws, table, condition, values=values)["Items"]) == found
    backwards = query(aws, table, condition, values=values, ScanIndexForward=False)
    assert sorts(backwards["Items"]) == found[::-1]


def test_numbers_sort_by_value(aws: Aws, numbered_table: str) -> None:
    for number in ("10", "9", "-1", "2.5", "100"):
        aws.dynamodb.put_item(TableName=numbered_table, Item={"p": {"S": "x"}, "n": {"N": number}})
    answer = aws.dynamodb.query(
        TableName=numbered_table,
        KeyConditionExpression="p = :p AND n >= :n",
        ExpressionAttributeValues={":p": {"S": "x"}, ":n": {"N": "2.50"}},
    )
    assert [item["n"]["N"] for item in answer["Items"]] == ["2.5", "9", "10", "100"]


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        pytest.param("#s = :s", {":s": {"S": "a"}}, id="no-hash-key"),
        pytest.param("#k = :k OR #s = :s", {":s": {"S": "a"}}, id="or"),
        pytest.param("#k > :k", {}, id="range-on-hash-key"),
        pytest.param(
            "#k = :k AND #s > :s AND #s < :t", {":s": {"S": "a"}, ":t": {"S": "b"}}, id="two-on-one-key"
        ),
        pytest.param("#k = :k AND quantity = :s", {":s": {"S": "a"}}, id="no-key-attribute"),
        pytest.param("#k = :k AND #s <> :s", {":s": {"S": "a"}}, id="unequal"),
        pytest.param("#k = :k AND #s = :s", {":s": {"N": "1"}}, id="type"),
        pytest.param("#k = :k AND contains(#s, :s)", {":s": {"S": "a"}}, id="contains"),
    ],
)
def test_wrong_key_conditions_are_refused(aws: Aws, table: str, condition: str, values: Item) -> None:
    if ":k" not in condition:
        call: Callable[[], Any] = lambda: aws.dynamodb.query(  # noqa: E731 - two shapes of one call
            TableName=table,
            KeyConditionExpression=condition,
            ExpressionAttributeNames={"#s": SORT},
            ExpressionAttributeValues=values,
        )
    else:
        call = lambda: query(aws, table, condition, values=values)  # noqa: E731
    assert code(call) == "ValidationException"


def test_limit_counts_what_is_evaluated_not_what_passes_the_filter(aws: Aws, table: str) -> None:
    for number in range(6):
        put(aws, table, f"{number}", n={"N": str(number)})
    answer = query(aws, table, Limit=4, FilterExpression="n >= :n", values={":n": {"N": "3"}})
    assert (answer["ScannedCount"], answer["Count"], sorts(answer["Items"])) == (4, 1, ["3"])
    assert answer["LastEvaluatedKey"] == key("3")


def test_pages_continue_where_the_last_one_ended(aws: Aws, table: str) -> None:
    for number in range(7):
        put(aws, table, f"{number}")
    seen: list[str] = []
    arguments: dict[str, Any] = {}
    while True:
        answer = query(aws, table, Limit=3, **arguments)
        seen += sorts(answer["Items"])
        if "LastEvaluatedKey" not in answer:
            break
        arguments = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
    assert seen == [str(number) for number in range(7)]


def test_a_page_full_to_its_limit_names_a_last_key_even_at_the_end(aws: Aws, table: str) -> None:
    put(aws, table, "a")
    answer = query(aws, table, Limit=1)
    assert answer["LastEvaluatedKey"] == key("a")
    rest = query(aws, table, Limit=1, ExclusiveStartKey=answer["LastEvaluatedKey"])
    assert (rest["Items"], "LastEvaluatedKey" in rest) == ([], False)


def test_a_start_key_need_not_exist_any_more(aws: Aws, table: str) -> None:
    for sort in ("a", "b", "c"):
        put(aws, table, sort)
    aws.dynamodb.delete_item(TableName=table, Key=key("b"))
    assert sorts(query(aws, table, ExclusiveStartKey=key("b"))["Items"]) == ["c"]


@pytest.mark.parametrize(
    "start",
    [
        pytest.param({KEY: {"S": LICENSE}}, id="incomplete"),
        pytest.param({**key("a"), "more": {"S": "x"}}, id="too-much"),
        pytest.param(key("a", "other"), id="other-partition"),
    ],
)
def test_a_start_key_that_no_page_could_end_at_is_refused(aws: Aws, table: str, start: Item) -> None:
    put(aws, table, "a")
    assert code(lambda: query(aws, table, ExclusiveStartKey=start)) == "ValidationException"


def test_a_page_ends_at_one_megabyte(aws: Aws, table: str) -> None:
    for number in range(8):
        put(aws, table, f"{number}", x={"S": "x" * 200_000})
    first = query(aws, table)
    assert 5 <= first["Count"] <= 6
    assert first["LastEvaluatedKey"] == key(str(first["Count"] - 1))
    rest = query(aws, table, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert first["Count"] + rest["Count"] == 8
    assert "LastEvaluatedKey" not in rest


def test_the_megabyte_is_counted_before_the_filter(aws: Aws, table: str) -> None:
    for number in range(8):
        put(aws, table, f"{number}", x={"S": "x" * 200_000})
    answer = query(aws, table, FilterExpression="attribute_exists(absent)")
    assert answer["Count"] == 0
    assert answer["ScannedCount"] <= 6
    assert "LastEvaluatedKey" in answer


def test_a_projection_returns_only_what_it_names(aws: Aws, table: str) -> None:
    put(aws, table, "a", q={"N": "1"}, m={"M": {"x": {"N": "1"}, "y": {"N": "2"}}})
    answer = query(aws, table, ProjectionExpression="q, m.y")
    assert answer["Items"] == [{"q": {"N": "1"}, "m": {"M": {"y": {"N": "2"}}}}]


def test_a_projection_of_list_elements_closes_the_gaps(aws: Aws, table: str) -> None:
    put(aws, table, "a", l={"L": [{"N": "0"}, {"M": {"k": {"S": "v"}, "j": {"S": "w"}}}, {"N": "2"}]})
    answer = aws.dynamodb.get_item(TableName=table, Key=key("a"), ProjectionExpression="l[2], l[1].k, l[9]")
    assert answer["Item"] == {"l": {"L": [{"M": {"k": {"S": "v"}}}, {"N": "2"}]}}


def test_a_start_key_outside_the_condition_is_refused(aws: Aws, table: str) -> None:
    for sort in ("a#1", "b#1"):
        put(aws, table, sort)
    call = lambda: query(  # noqa: E731
        aws,
        table,
        "#k = :k AND begins_with(#s, :s)",
        values={":s": {"S": "a#"}},
        ExclusiveStartKey=key("b#1"),
    )
    assert code(call) == "ValidationException"


def test_select_count_returns_no_items(aws: Aws, table: str) -> None:
    put(aws, table, "a")
    answer = query(aws, table, Select="COUNT")
    assert (answer["Count"], answer.get("Items")) == (1, None)


def test_a_filter_may_not_name_a_key_attribute(aws: Aws, table: str) -> None:
    call = lambda: query(  # noqa: E731
        aws,
        table,
        FilterExpression="#sort = :s",
        names={"#sort": SORT},
        values={":s": {"S": "a"}},
    )
    assert code(call) == "ValidationException"


# -- indexes ------------------------------------------------------------------------------------------


def test_an_item_without_the_attribute_is_not_in_the_index_and_leaves_it_with_the_attribute(
    aws: Aws, table: str
) -> None:
    put(aws, table, "a", meteringPending={"S": "2026-07-15T11"})
    put(aws, table, "b")
    assert sorts(pending(aws, table)["Items"]) == ["a"]
    aws.dynamodb.update_item(TableName=table, Key=key("a"), UpdateExpression="REMOVE meteringPending")
    assert pending(aws, table)["Items"] == []
    aws.dynamodb.update_item(
        TableName=table,
        Key=key("b"),
        UpdateExpression="SET meteringPending = :b",
        ExpressionAttributeValues={":b": {"S": "2026-07-15T11"}},
    )
    assert sorts(pending(aws, table)["Items"]) == ["b"]


def test_an_item_moves_within_the_index_when_its_key_changes(aws: Aws, table: str) -> None:
    put(aws, table, "a", meteringPending={"S": "2026-07-15T11"})
    put(aws, table, "a", meteringPending={"S": "2026-07-15T12"})
    assert pending(aws, table)["Items"] == []
    assert sorts(pending(aws, table, "2026-07-15T12")["Items"]) == ["a"]
    aws.dynamodb.delete_item(TableName=table, Key=key("a"))
    assert pending(aws, table, "2026-07-15T12")["Items"] == []


def test_an_include_index_holds_keys_and_included_attributes_only(aws: Aws, table: str) -> None:
    included: Item = {"customerAWSAccountId": {"S": "111122223333"}, "dimension": {"S": "requests"}}
    store(
        aws,
        table,
        {**key("a"), "meteringPending": {"S": "2026-07-15T11"}, "quantity": {"N": "1"}, **included},
    )
    assert pending(aws, table)["Items"] == [
        {**key("a"), "meteringPending": {"S": "2026-07-15T11"}, **included}
    ]


def test_a_keys_only_index_holds_the_keys(aws: Aws, table: str) -> None:
    put(aws, table, "a", customerAWSAccountId={"S": "111122223333"}, quantity={"N": "1"})
    answer = aws.dynamodb.query(
        TableName=table,
        IndexName="by_customer",
        KeyConditionExpression="customerAWSAccountId = :c",
        ExpressionAttributeValues={":c": {"S": "111122223333"}},
    )
    assert answer["Items"] == [{**key("a"), "customerAWSAccountId": {"S": "111122223333"}}]


def test_an_all_index_holds_everything_in_the_order_of_its_range_key(aws: Aws, table: str) -> None:
    items = [
        put(aws, table, sort, dimension={"S": "d"}, rank={"N": rank}, extra={"S": "x"})
        for sort, rank in (("a", "10"), ("b", "9"), ("c", "-3"))
    ]
    answer = aws.dynamodb.query(
        TableName=table,
        IndexName="by_dimension",
        KeyConditionExpression="dimension = :d AND #r > :r",
        ExpressionAttributeNames={"#r": "rank"},
        ExpressionAttributeValues={":d": {"S": "d"}, ":r": {"N": "-3"}},
    )
    assert answer["Items"] == [items[1], items[0]]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("#r = :nine", ["b1", "b2"]),
        ("#r < :nine", ["a"]),
        ("#r <= :nine", ["a", "b1", "b2"]),
        ("#r > :nine", ["c"]),
        ("#r >= :nine", ["b1", "b2", "c"]),
        ("#r BETWEEN :one AND :nine", ["a", "b1", "b2"]),
    ],
)
def test_range_conditions_take_every_item_with_the_bounding_value(
    aws: Aws, table: str, condition: str, found: list[str]
) -> None:
    for sort, rank in (("a", "1"), ("b1", "9"), ("b2", "9"), ("c", "10")):
        put(aws, table, sort, dimension={"S": "d"}, rank={"N": rank})
    values = {":one": {"N": "1"}, ":nine": {"N": "9"}}
    answer = aws.dynamodb.query(
        TableName=table,
        IndexName="by_dimension",
        KeyConditionExpression=f"dimension = :d AND {condition}",
        ExpressionAttributeNames={"#r": "rank"},
        ExpressionAttributeValues={
            ":d": {"S": "d"},
            **{name: value for name, value in values.items() if name in condition},
        },
    )
    assert sorted(sorts(answer["Items"])) == found


def test_an_index_leaps_from_license_to_license(aws: Aws, table: str) -> None:
    for license_arn in ("l-1", "l-2", "l-3"):
        for number in range(3):
            put(aws, table, f"{number}", license_arn=license_arn, meteringPending={"S": "2026-07-15T11"})
    seen: list[str] = []
    after = " "
    while True:
        answer = aws.dynamodb.query(
            TableName=table,
            IndexName="metering_pending",
            KeyConditionExpression="meteringPending = :b AND #k > :k",
            ExpressionAttributeNames={"#k": KEY},
            ExpressionAttributeValues={":b": {"S": "2026-07-15T11"}, ":k": {"S": after}},
            Limit=1,
        )
        if not answer["Items"]:
            break
        after = answer["Items"][0][KEY]["S"]
        seen.append(after)
    assert seen == ["l-1", "l-2", "l-3"]


def test_index_pages_cover_items_with_equal_index_keys_exactly_once(aws: Aws, table: str) -> None:
    for number in range(9):
        put(aws, table, f"{number}", meteringPending={"S": "2026-07-15T11"})
    seen: list[str] = []
    arguments: dict[str, Any] = {}
    while True:
        answer = pending(aws, table, Limit=2, **arguments)
        seen += sorts(answer["Items"])
        if "LastEvaluatedKey" not in answer:
            break
        assert set(answer["LastEvaluatedKey"]) == {KEY, SORT, "meteringPending"}
        arguments = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
    assert sorted(seen) == [str(number) for number in range(9)]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"ConsistentRead": True}, id="consistent-read"),
        pytest.param({"ProjectionExpression": "quantity"}, id="attribute-that-is-not-projected"),
        pytest.param({"Select": "ALL_ATTRIBUTES"}, id="all-attributes"),
        pytest.param({"ExclusiveStartKey": key("a")}, id="start-key-of-the-table"),
    ],
)
def test_what_an_index_cannot_answer_is_refused(aws: Aws, table: str, arguments: dict[str, Any]) -> None:
    put(aws, table, "a", meteringPending={"S": "2026-07-15T11"}, quantity={"N": "1"})
    assert code(lambda: pending(aws, table, **arguments)) == "ValidationException"


def test_an_unknown_index_is_refused(aws: Aws, table: str) -> None:
    assert code(lambda: query(aws, table, IndexName="absent")) == "ValidationException"


# -- batches ------------------------------------------------------------------------------------------


def test_batch_get_returns_what_exists(aws: Aws, table: str) -> None:
    item = put(aws, table, "a", n={"N": "1"})
    answer = aws.dynamodb.batch_get_item(
        RequestItems={table: {"Keys": [key("a"), key("b")], "ConsistentRead": True}}
    )
    assert (answer["Responses"], answer["UnprocessedKeys"]) == ({table: [item]}, {})


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([key(str(number)) for number in range(101)], id="101-keys"),
        pytest.param([key("a"), key("a")], id="duplicates"),
    ],
)
def test_wrong_batch_gets_are_refused(aws: Aws, table: str, keys: list[Item]) -> None:
    assert (
        code(lambda: aws.dynamodb.batch_get_item(RequestItems={table: {"Keys": keys}}))
        == "ValidationException"
    )


@pytest.mark.slow
def test_batch_get_stops_at_16_megabytes_and_names_the_rest(aws: Aws, table: str) -> None:
    keys = [key(str(number)) for number in range(45)]
    for number in range(45):
        put(aws, table, str(number), x={"S": "x" * 400_000})
    answer = aws.dynamodb.batch_get_item(RequestItems={table: {"Keys": keys}})
    found = {item[SORT]["S"] for item in answer["Responses"][table]}
    unprocessed = {entry[SORT]["S"] for entry in answer["UnprocessedKeys"][table]["Keys"]}
    assert 35 <= len(found) <= 42
    assert found | unprocessed == {str(number) for number in range(45)}
    assert not found & unprocessed


def test_batch_write_puts_and_deletes(aws: Aws, table: str) -> None:
    put(aws, table, "a")
    answer = aws.dynamodb.batch_write_item(
        RequestItems={
            table: [
                {"DeleteRequest": {"Key": key("a")}},
                {"PutRequest": {"Item": {**key("b"), "n": {"N": "1"}}}},
            ]
        }
    )
    assert answer["UnprocessedItems"] == {}
    assert sorts(query(aws, table)["Items"]) == ["b"]


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([{"PutRequest": {"Item": key(str(number))}} for number in range(26)], id="26-items"),
        pytest.param(
            [{"PutRequest": {"Item": key("a")}}, {"DeleteRequest": {"Key": key("a")}}], id="duplicates"
        ),
        pytest.param(
            [{"PutRequest": {"Item": key("a")}}, {"PutRequest": {"Item": {KEY: {"S": "x"}}}}], id="no-key"
        ),
    ],
)
def test_wrong_batch_writes_are_refused_whole(aws: Aws, table: str, requests: list[Item]) -> None:
    assert (
        code(lambda: aws.dynamodb.batch_write_item(RequestItems={table: requests})) == "ValidationException"
    )
    assert get(aws, table, "a") is None


# -- transactions -------------------------------------------------------------------------------------


def test_a_transaction_applies_all_or_nothing_and_says_why(aws: Aws, table: str) -> None:
    present = put(aws, table, "a", n={"N": "1"})
    put(aws, table, "d")
    actions: list[Item] = [
        {"Put": {"TableName": table, "Item": key("b")}},
        {
            "Update": {
                "TableName": table,
                "Key": key("a"),
                "UpdateExpression": "SET n = :two",
                "ConditionExpression": "n = :three",
                "ExpressionAttributeValues": {":two": {"N": "2"}, ":three": {"N": "3"}},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        },
        {"Delete": {"TableName": table, "Key": key("d")}},
    ]
    error = refusal(lambda: aws.dynamodb.transact_write_items(TransactItems=actions))
    assert error.response["Error"]["Code"] == "TransactionCanceledException"
    reasons = error.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed", "None"]
    assert reasons[1]["Item"] == present
    assert sorts(query(aws, table)["Items"]) == ["a", "d"]
    actions[1]["Update"]["ExpressionAttributeValues"][":three"] = {"N": "1"}
    aws.dynamodb.transact_write_items(TransactItems=actions)
    assert sorts(query(aws, table)["Items"]) == ["a", "b"]
    assert (get(aws, table, "a") or {})["n"] == {"N": "2"}


def test_a_condition_check_guards_a_transaction_without_writing(aws: Aws, table: str) -> None:
    def attempt() -> None:
        aws.dynamodb.transact_write_items(
            TransactItems=[
                {
                    "ConditionCheck": {
                        "TableName": table,
                        "Key": key("guard"),
                        "ConditionExpression": "attribute_exists(#k)",
                        "ExpressionAttributeNames": {"#k": KEY},
                    }
                },
                {"Put": {"TableName": table, "Item": key("a")}},
            ]
        )

    assert code(attempt) == "TransactionCanceledException"
    put(aws, table, "guard")
    attempt()
    assert sorts(query(aws, table)["Items"]) == ["a", "guard"]


def test_a_transaction_reads_items_in_the_order_of_the_request(aws: Aws, table: str) -> None:
    item = put(aws, table, "a", n={"N": "1"}, m={"N": "2"})
    gets = [
        {"Get": {"TableName": table, "Key": key("absent")}},
        {"Get": {"TableName": table, "Key": key("a")}},
        {"Get": {"TableName": table, "Key": key("b"), "ProjectionExpression": "n"}},
    ]
    put(aws, table, "b", n={"N": "3"}, m={"N": "4"})
    answer = aws.dynamodb.transact_get_items(TransactItems=gets)
    assert answer["Responses"] == [{}, {"Item": item}, {"Item": {"n": {"N": "3"}}}]


def test_a_transaction_may_not_touch_an_item_twice(aws: Aws, table: str) -> None:
    actions = [
        {"Put": {"TableName": table, "Item": key("a")}},
        {"Delete": {"TableName": table, "Key": key("a")}},
    ]
    assert code(lambda: aws.dynamodb.transact_write_items(TransactItems=actions)) == "ValidationException"


def test_a_transaction_with_a_known_token_is_applied_once(aws: Aws, table: str) -> None:
    def attempt(amount: str) -> None:
        aws.dynamodb.transact_write_items(
            ClientRequestToken="attempt-0001",
            TransactItems=[
                {
                    "Update": {
                        "TableName": table,
                        "Key": key("a"),
                        "UpdateExpression": "ADD n :n",
                        "ExpressionAttributeValues": {":n": {"N": amount}},
                    }
                }
            ],
        )

    attempt("1")
    attempt("1")
    assert (get(aws, table, "a") or {})["n"] == {"N": "1"}
    assert code(lambda: attempt("2")) == "IdempotentParameterMismatchException"


# -- PartiQL ------------------------------------------------------------------------------------------


def statement(table: str, text: str, *parameters: Item, **arguments: Any) -> Item:
    return {
        "Statement": text.format(table=f'"{table}"', key=f'"{KEY}" = ? AND "{SORT}" = ?'),
        "Parameters": list(parameters),
        **arguments,
    }


def key_parameters(sort: str) -> tuple[Item, Item]:
    return {"S": LICENSE}, {"S": sort}


CLEANUP = (
    'UPDATE {table} SET "meteringStatus" = ? SET "stamped" = ? REMOVE "meteringPending" '
    'WHERE {key} AND "quantity" = ? AND "usageAllocations" IS MISSING'
)


def test_a_batch_of_conditional_updates_sets_and_removes(aws: Aws, table: str) -> None:
    for sort, quantity in (("a#1", "5"), ("a#2", "6")):
        put(aws, table, sort, quantity={"N": quantity}, meteringPending={"S": "2026-07-15T11"})
    changed = put(aws, table, "a#3", quantity={"N": "8"}, meteringPending={"S": "2026-07-15T11"})
    status, stamp = {"S": "Aggregated"}, {"N": "1"}
    answer = aws.dynamodb.batch_execute_statement(
        Statements=[
            statement(table, CLEANUP, status, stamp, *key_parameters(sort), {"N": quantity})
            for sort, quantity in (("a#1", "5.0"), ("a#2", "6"), ("a#3", "7"), ("absent", "1"))
        ]
    )
    codes = [response.get("Error", {}).get("Code") for response in answer["Responses"]]
    assert codes == [None, None, "ConditionalCheckFailed", "ConditionalCheckFailed"]
    assert get(aws, table, "a#1") == {
        **key("a#1"),
        "quantity": {"N": "5"},
        "meteringStatus": status,
        "stamped": stamp,
    }
    assert get(aws, table, "a#3") == changed
    assert get(aws, table, "absent") is None
    assert sorts(pending(aws, table)["Items"]) == ["a#3"]


def test_a_batch_statement_shows_the_item_that_failed_its_condition(aws: Aws, table: str) -> None:
    item = put(aws, table, "a", quantity={"N": "5"})
    answer = aws.dynamodb.batch_execute_statement(
        Statements=[
            statement(
                table,
                'UPDATE {table} SET "x" = ? WHERE {key} AND "quantity" = ?',
                {"S": "x"},
                *key_parameters("a"),
                {"N": "6"},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        ]
    )
    assert answer["Responses"][0]["Error"]["Code"] == "ConditionalCheckFailed"
    assert answer["Responses"][0]["Error"]["Item"] == item


@pytest.mark.parametrize(
    ("returning", "item"),
    [
        ("ALL OLD", {**key("a"), "n": {"N": "1"}, "o": {"N": "5"}}),
        ("ALL NEW", {**key("a"), "n": {"N": "2"}, "o": {"N": "5"}}),
        ("MODIFIED OLD", {"n": {"N": "1"}}),
        ("MODIFIED NEW", {"n": {"N": "2"}}),
    ],
)
def test_returning_answers_with_the_item(aws: Aws, table: str, returning: str, item: Item) -> None:
    put(aws, table, "a", n={"N": "1"}, o={"N": "5"})
    update = statement(
        table,
        f"UPDATE {{table}} SET n = n + ? WHERE {{key}} RETURNING {returning} *",
        {"N": "1"},
        *key_parameters("a"),
    )
    answer = aws.dynamodb.batch_execute_statement(Statements=[update])
    assert answer["Responses"] == [{"TableName": table, "Item": item}]


@pytest.mark.parametrize(
    ("condition", "parameters", "holds"),
    [
        pytest.param('"n" = ?', [{"N": "1.0"}], True, id="number-by-value"),
        pytest.param('"n" <> ?', [{"N": "1"}], False, id="unequal"),
        pytest.param('"n" >= ? AND "n" < ?', [{"N": "1"}, {"N": "2"}], True, id="orderings"),
        pytest.param('"m" IS MISSING', [], True, id="missing"),
        pytest.param('"n" IS NOT MISSING', [], True, id="not-missing"),
        pytest.param('("n" = ? OR "m" IS NOT MISSING)', [{"N": "2"}], False, id="or"),
        pytest.param('NOT "n" = ?', [{"N": "2"}], True, id="not"),
        pytest.param('"n" IN [?, ?]', [{"N": "1"}, {"N": "2"}], True, id="in"),
        pytest.param('"n" BETWEEN ? AND ?', [{"N": "2"}, {"N": "3"}], False, id="between"),
        pytest.param('begins_with("s", ?)', [{"S": "te"}], True, id="begins-with"),
        pytest.param('attribute_type("s", ?)', [{"S": "S"}], True, id="attribute-type"),
        pytest.param('contains("tags", ?)', [{"S": "a"}], True, id="contains"),
        pytest.param('"tags" = ?', [{"SS": ["a", "b"]}], True, id="sets-are-unordered"),
        pytest.param(
            '"list" = ?', [{"L": [{"M": {"k": {"S": "v"}}}, {"N": "1"}]}], True, id="lists-and-maps-by-value"
        ),
        pytest.param(
            '"list" = ?', [{"L": [{"N": "1"}, {"M": {"k": {"S": "v"}}}]}], False, id="lists-are-ordered"
        ),
        pytest.param('"a#b" = ?', [{"S": "x"}], True, id="name-with-hash-sign"),
    ],
)
def test_partiql_conditions(
    aws: Aws, table: str, condition: str, parameters: list[Item], holds: bool
) -> None:
    item = {
        **key("a"),
        "n": {"N": "1"},
        "s": {"S": "text"},
        "tags": {"SS": ["b", "a"]},
        "list": {"L": [{"M": {"k": {"S": "v"}}}, {"N": "1"}]},
        "a#b": {"S": "x"},
    }
    store(aws, table, item)
    update = statement(
        table,
        f'UPDATE {{table}} SET "done" = ? WHERE {{key}} AND {condition}',
        {"S": "y"},
        *key_parameters("a"),
        *parameters,
    )
    answer = aws.dynamodb.batch_execute_statement(Statements=[update])
    found = answer["Responses"][0].get("Error", {}).get("Code")
    assert found == (None if holds else "ConditionalCheckFailed")
    assert ("done" in (get(aws, table, "a") or {})) is holds


def test_insert_refuses_an_existing_item(aws: Aws, table: str) -> None:
    insert = statement(
        table, f"INSERT INTO {{table}} VALUE {{{{'{KEY}': ?, '{SORT}': ?, 'n': 1}}}}", *key_parameters("a")
    )
    first = aws.dynamodb.batch_execute_statement(Statements=[insert])
    second = aws.dynamodb.batch_execute_statement(Statements=[insert])
    assert "Error" not in first["Responses"][0]
    assert second["Responses"][0]["Error"]["Code"] == "DuplicateItem"
    assert get(aws, table, "a") == {**key("a"), "n": {"N": "1"}}


def test_delete_returns_the_old_item_and_takes_absence_for_done(aws: Aws, table: str) -> None:
    item = put(aws, table, "a", n={"N": "1"})
    delete = statement(table, "DELETE FROM {table} WHERE {key} RETURNING ALL OLD *", *key_parameters("a"))
    first = aws.dynamodb.batch_execute_statement(Statements=[delete])
    second = aws.dynamodb.batch_execute_statement(Statements=[delete])
    assert first["Responses"] == [{"TableName": table, "Item": item}]
    assert second["Responses"] == [{"TableName": table}]


def test_select_by_key_in_a_batch(aws: Aws, table: str) -> None:
    item = put(aws, table, "a", n={"N": "1"})
    answer = aws.dynamodb.batch_execute_statement(
        Statements=[
            statement(table, "SELECT * FROM {table} WHERE {key}", *key_parameters(sort), ConsistentRead=True)
            for sort in ("a", "b")
        ]
    )
    assert answer["Responses"] == [{"TableName": table, "Item": item}, {"TableName": table}]


def test_a_single_statement_raises_what_a_batch_reports(aws: Aws, table: str) -> None:
    update = statement(table, 'UPDATE {table} SET "x" = ? WHERE {key}', {"S": "x"}, *key_parameters("absent"))
    assert code(lambda: aws.dynamodb.execute_statement(**update)) == "ConditionalCheckFailedException"
    put(aws, table, "absent")
    assert aws.dynamodb.execute_statement(**update)["Items"] == []


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        pytest.param(
            'UPDATE {table} SET "x" = ? WHERE "licenseArn" = ?', [{"S": "x"}, {"S": "l"}], id="no-full-key"
        ),
        pytest.param(
            'UPDATE {table} SET "licenseArn" = ? WHERE {key}',
            [{"S": "x"}, *key_parameters("a")],
            id="key-change",
        ),
        pytest.param(
            'UPDATE {table} SET "x" = ? WHERE {key} nonsense', [{"S": "x"}, *key_parameters("a")], id="syntax"
        ),
        pytest.param(
            'UPDATE {table} SET "x" = ? WHERE {key}', [{"S": "x"}, {"S": "l"}], id="too-few-parameters"
        ),
    ],
)
def test_a_wrong_statement_fails_alone(aws: Aws, table: str, text: str, parameters: list[Item]) -> None:
    put(aws, table, "a")
    put(aws, table, "b")
    answer = aws.dynamodb.batch_execute_statement(
        Statements=[
            statement(table, text, *parameters),
            statement(table, 'UPDATE {table} SET "x" = ? WHERE {key}', {"S": "y"}, *key_parameters("b")),
        ]
    )
    codes = [response.get("Error", {}).get("Code") for response in answer["Responses"]]
    assert codes == ["ValidationError", None]
    assert get(aws, table, "a") == key("a")
    assert get(aws, table, "b") == {**key("b"), "x": {"S": "y"}}


def test_an_absent_table_fails_only_its_statement(aws: Aws, table: str) -> None:
    answer = aws.dynamodb.batch_execute_statement(
        Statements=[
            statement(
                "absent-table", 'UPDATE {table} SET "x" = ? WHERE {key}', {"S": "x"}, *key_parameters("a")
            )
        ]
    )
    assert answer["Responses"][0]["Error"]["Code"] == "ResourceNotFound"


@pytest.mark.parametrize("fault", ["26-statements", "reads-and-writes", "one-item-twice"])
def test_wrong_batches_are_refused_whole(aws: Aws, table: str, fault: str) -> None:
    write = 'UPDATE {table} SET "x" = ? WHERE {key}'
    put(aws, table, "0")
    batches = {
        "26-statements": [
            statement(table, write, {"S": "x"}, *key_parameters(str(number))) for number in range(26)
        ],
        "reads-and-writes": [
            statement(table, write, {"S": "x"}, *key_parameters("0")),
            statement(table, "SELECT * FROM {table} WHERE {key}", *key_parameters("1")),
        ],
        "one-item-twice": [statement(table, write, {"S": "x"}, *key_parameters("0"))] * 2,
    }
    error = code(lambda: aws.dynamodb.batch_execute_statement(Statements=batches[fault]))
    assert error == "ValidationException"
    if fault != "one-item-twice":
        assert get(aws, table, "0") == key("0")
