"""What makes the simulation cheap changes nothing: each shortcut beside the long way."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from sandbox import tables
from sandbox.memory_aws import Lag, ManualClock, MemoryDynamoDB
from tests.simulation.faults import FaultPlan
from tests.simulation.machine import PROFILES, Machine

LEDGER: Final = "ledger"
HOURS: Final = ("2026-11-10T08", "2026-11-10T09")
ROW: Final = {
    "licenseArn": {"S": "arn:aws:license-manager::111122223333:license:l-1"},
    "customerAWSAccountId#dimension#hour": {"S": "123456789012#requests#2026-11-10T09"},
    "meteringPending": {"S": HOURS[1]},
}

#: Queries in turn: the values of the placeholders and what is added to the request.
ASKED: Final[tuple[tuple[Any, dict[str, Any]], ...]] = (
    ({"S": HOURS[0]}, {}),
    ({"S": HOURS[0]}, {}),
    ({"S": HOURS[1]}, {}),
    ({"N": "9"}, {}),
    ({"S": ""}, {}),
    ({"S": 9}, {}),
    ({}, {}),
    ({"S": HOURS[0], "N": "9"}, {}),
    ({"S": HOURS[0]}, {"Limit": 1}),
    ({"S": HOURS[0]}, {"Limit": 1}),
    ({"S": HOURS[1]}, {"Limit": 1}),
    ({"S": HOURS[0]}, {"Limit": 0}),
    ({"S": HOURS[0]}, {"ConsistentRead": True}),
    ({"S": HOURS[0]}, {"Select": "COUNT"}),
    ({"S": HOURS[0]}, {"ExpressionAttributeNames": {"#mp": "licenseArn"}}),
    ({"S": HOURS[0]}, {"ExpressionAttributeNames": {}}),
    ({"S": HOURS[0]}, {"ExpressionAttributeNames": {"#mp": "meteringPending", "#x": "x"}}),
)


class NeverShort(dict[Any, Any]):
    """Knows no request from before."""

    def get(self, _key: Any, default: Any = None) -> Any:
        """Return nothing."""
        return default


@pytest.mark.parametrize("lag", [None, Lag(writes=0), Lag(seconds=0)])
def test_a_query_that_found_nothing_before_is_answered_as_if_it_were_the_first(lag: Lag | None) -> None:
    def told(*, short: bool) -> tuple[list[Any], Any]:
        backend = MemoryDynamoDB(ManualClock(), index_lag=lag)
        client = backend.client()
        client.create_table(**tables.aggregated_usage_table(LEDGER))
        if not short:
            client._known = NeverShort()
            backend.table(LEDGER).plans = NeverShort()
        answers: list[Any] = []
        for row in (None, ROW, None):
            if row is not None:
                client.put_item(TableName=LEDGER, Item=row)
            else:
                client.delete_item(TableName=LEDGER, Key={name: ROW[name] for name in list(ROW)[:2]})
            answers += [_answer(client, value, more) for value, more in ASKED]
        return answers, client.meter

    assert told(short=True) == told(short=False)
    answers, _ = told(short=True)
    assert sum("'Count': 1" in answer for answer in answers) == 2, "the row is there in the second round only"
    assert sum("ValidationException" in answer for answer in answers) > 20


def _answer(client: Any, value: Any, more: dict[str, Any]) -> str:
    request = {
        "TableName": LEDGER,
        "IndexName": "metering_pending",
        "KeyConditionExpression": "#mp = :mp",
        "ExpressionAttributeNames": {"#mp": "meteringPending"},
        "ExpressionAttributeValues": {":mp": value},
    }
    try:
        return repr(client.query(**{**request, **more}))
    except ClientError as error:
        return str(error)


@pytest.mark.slow
def test_not_asking_the_fault_plan_about_other_functions_changes_no_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digests = set()
    for always_asked in (False, True):
        if always_asked:
            monkeypatch.setattr(FaultPlan, "concerns", lambda _plan, _function: True)
        simulation = Machine(PROFILES[3], random.Random(8)).play(30)
        assert simulation.faults.hits, "no fault struck: this run shows nothing"
        digests.add(simulation.digest())
    assert len(digests) == 1
