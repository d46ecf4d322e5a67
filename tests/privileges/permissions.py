"""Calls against policies: what the functions asked of AWS, and what their roles say to it.

Resources compare as they stand in the policies of this project, which have no wildcards but ``*`` itself
and the ``:*`` of a log group. Of conditions the policies have ``StringEquals`` only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sandbox.emulator_launcher import partiql_checks

Context = tuple[tuple[str, str], ...]
"""Condition keys of a request and their values, sorted."""


class Call(NamedTuple):
    """One kind of call: the IAM action that AWS checks for it, on one resource, with its condition keys."""

    function: str
    action: str
    resource: str
    context: Context = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """One action of one statement of a function's policy; ``conditions`` are values by condition key."""

    function: str
    sid: str
    action: str
    resources: tuple[str, ...]
    conditions: tuple[tuple[str, frozenset[str]], ...] = ()

    def covers(self, call: Call) -> bool:
        """Tell whether this grant allows ``call``. A condition on a key that a call lacks is not met."""
        context = dict(call.context)
        return (
            (self.function, self.action) == (call.function, call.action)
            and ("*" in self.resources or call.resource in self.resources)
            and all(context.get(key) in values for key, values in self.conditions)
        )

    def __str__(self) -> str:
        return f"{self.function} {self.sid} {self.action}"


_PARTS = frozenset({"Sid", "Effect", "Action", "Resource", "Condition"})


def grants_of(policies: Mapping[str, str]) -> list[Grant]:
    """Return what the policies (JSON, by function key) allow, action by action.

    Raises
    ------
    ValueError
        A policy does anything but allow actions on resources, or has another condition than StringEquals:
        it has to be judged by hand then.
    """
    grants = []
    for function, text in sorted(policies.items()):
        for statement in json.loads(text)["Statement"]:
            conditions = statement.get("Condition", {})
            if (
                statement["Effect"] != "Allow"
                or not statement.keys() <= _PARTS
                or not conditions.keys() <= {"StringEquals"}
            ):
                raise ValueError(f"{function}: {statement}")
            equal = tuple(
                (key, frozenset([values] if isinstance(values, str) else values))
                for key, values in sorted(conditions.get("StringEquals", {}).items())
            )
            grants += [
                Grant(function, statement["Sid"], action, tuple(statement["Resource"]), equal)
                for action in statement["Action"]
            ]
    return grants


def not_allowed(grants: Iterable[Grant], calls: Iterable[Call]) -> set[Call]:
    """Return the calls that no grant covers."""
    granted = list(grants)
    return {call for call in calls if not any(grant.covers(call) for grant in granted)}


def unused(grants: Iterable[Grant], calls: Iterable[Call]) -> set[str]:
    """Return the grants, as text, that cover no call."""
    made = list(calls)
    return {str(grant) for grant in grants if not any(grant.covers(call) for call in made)}


_BATCH_OF = {"SendMessageBatch": "SendMessage"}
_PREFIXES = {
    "dynamodb": "dynamodb",
    "events": "events",
    "marketplace": "aws-marketplace",
    "secretsmanager": "secretsmanager",
    "ses": "ses",
    "sqs": "sqs",
}
#: The actions that AWS checks for the entries of a transaction.
_OF_A_TRANSACTION = {
    "ConditionCheck": "ConditionCheckItem",
    "Delete": "DeleteItem",
    "Get": "GetItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
}


def calls_of(
    function: str, service: str, operation: str, request: Mapping[str, Any], resources: Mapping[str, str]
) -> Iterator[Call]:
    """Yield what AWS checks for one call of an SDK client.

    ``resources`` gives the ARN of a table, an event bus, a secret, a sending address or a configuration set,
    by what a request calls it, or of a queue, by its URL.
    """
    action = f"{_PREFIXES[service]}:{_BATCH_OF.get(operation, operation)}"
    checks = partiql_checks(action, json.dumps(request, default=str).encode(), resources.__getitem__)
    for statement_action, resource in checks:
        yield Call(function, statement_action, resource)
    if checks:
        return
    match service:
        case "marketplace":
            yield Call(function, action, "*")
        case "sqs":
            yield Call(function, action, resources[request["QueueUrl"]])
        case "events":
            for entry in request["Entries"]:
                context = (("events:source", entry["Source"]),)
                yield Call(function, action, resources[entry["EventBusName"]], context)
        case "secretsmanager":
            yield Call(function, action, resources[request["SecretId"]])
        case "ses":
            context = (("ses:FromAddress", request["FromEmailAddress"]),)
            for name in (request["FromEmailAddress"], request["ConfigurationSetName"]):
                yield Call(function, action, resources[name], context)
        case _:
            yield from _table_calls(function, action, request, resources)


def _table_calls(
    function: str, action: str, request: Mapping[str, Any], resources: Mapping[str, str]
) -> Iterator[Call]:
    if "TransactItems" in request:
        for item in request["TransactItems"]:
            for kind, entry in item.items():
                yield Call(function, f"dynamodb:{_OF_A_TRANSACTION[kind]}", resources[entry["TableName"]])
        return
    tables = [request["TableName"]] if "TableName" in request else list(request["RequestItems"])
    index = f"/index/{request['IndexName']}" if "IndexName" in request else ""
    for table in tables:
        yield Call(function, action, resources[table] + index)
