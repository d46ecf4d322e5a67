"""What the launcher changes in the emulator: the permissions of PartiQL, and idle connections."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from sandbox.emulator_launcher import never_close_idle_connections, partiql_checks


def _checks(action: str, request: dict[str, Any]) -> list[tuple[str, str]]:
    return partiql_checks(f"dynamodb:{action}", json.dumps(request).encode(), lambda table: f"table/{table}")


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("""UPDATE "usage" SET "a"=? REMOVE "b" WHERE "c"=?""", ("PartiQLUpdate", "table/usage")),
        ("""UPDATE usage SET a=?""", ("PartiQLUpdate", "table/usage")),
        ("""INSERT INTO "usage" VALUE {'a': ?}""", ("PartiQLInsert", "table/usage")),
        ("""insert into "usage" value {'a': ?}""", ("PartiQLInsert", "table/usage")),
        ("""DELETE FROM "usage" WHERE "a"=?""", ("PartiQLDelete", "table/usage")),
        ("""SELECT "a", "b" FROM "usage" WHERE "a"=?""", ("PartiQLSelect", "table/usage")),
        ("""SELECT * FROM "usage"."by-hour" WHERE "a"=?""", ("PartiQLSelect", "table/usage/index/by-hour")),
        ("""SELECT * FROM "usage\"""", ("PartiQLSelect", "table/usage")),
    ],
)
def test_a_statement_needs_the_action_of_its_verb_on_its_table(
    statement: str, check: tuple[str, str]
) -> None:
    wanted = [(f"dynamodb:{check[0]}", check[1])]
    assert _checks("ExecuteStatement", {"Statement": statement}) == wanted
    assert _checks("BatchExecuteStatement", {"Statements": [{"Statement": statement}]}) == wanted
    assert _checks("ExecuteTransaction", {"TransactStatements": [{"Statement": statement}]}) == wanted


def test_every_statement_of_a_batch_is_checked() -> None:
    batch = [{"Statement": f'UPDATE "{table}" SET "a"=?'} for table in ("usage", "ledger")]
    checks = _checks("BatchExecuteStatement", {"Statements": batch})
    assert [resource for _, resource in checks] == ["table/usage", "table/ledger"]


def test_a_statement_that_cannot_be_read_needs_what_no_policy_grants() -> None:
    assert _checks("ExecuteStatement", {"Statement": "EXPLAIN usage"}) == [("dynamodb:ExecuteStatement", "*")]


def test_other_operations_have_no_statements() -> None:
    assert _checks("PutItem", {"TableName": "usage"}) == []


def test_the_web_server_never_closes_an_idle_connection_whatever_it_is_told() -> None:
    class Config:
        keep_alive_timeout = 5.0

    never_close_idle_connections(Config)
    config = Config()
    config.keep_alive_timeout = 75.0

    assert config.keep_alive_timeout >= timedelta(hours=1).total_seconds()
