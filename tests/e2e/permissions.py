"""Calls against policies: what the functions asked of AWS, and what their roles say to it.

Resources compare as they stand in the policies of this project, which have no wildcards but ``*`` itself
and the ``:*`` of a log group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sandbox.emulator_launcher import partiql_checks


class Call(NamedTuple):
    """One kind of call: the IAM action that AWS checks for it, on one resource."""

    function: str
    action: str
    resource: str


@dataclass(frozen=True, slots=True)
class Grant:
    """One action of one statement of a function's policy."""

    function: str
    sid: str
    action: str
    resources: tuple[str, ...]

    def covers(self, call: Call) -> bool:
        """Tell whether this grant allows ``call``."""
        return (self.function, self.action) == (call.function, call.action) and (
            "*" in self.resources or call.resource in self.resources
        )

    def __str__(self) -> str:
        return f"{self.function} {self.sid} {self.action}"


def grants_of(policies: Mapping[str, str]) -> list[Grant]:
    """Return what the policies (JSON, by function key) allow, action by action.

    Raises
    ------
    ValueError
        A policy does anything but allow actions on resources: it has to be judged by hand then.
    """
    grants = []
    for function, text in sorted(policies.items()):
        for statement in json.loads(text)["Statement"]:
            if statement["Effect"] != "Allow" or not statement.keys() <= {
                "Sid",
                "Effect",
                "Action",
                "Resource",
            }:
                raise ValueError(f"{function}: {statement}")
            grants += [
                Grant(function, statement["Sid"], action, tuple(statement["Resource"]))
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
_PREFIXES = {"dynamodb": "dynamodb", "sqs": "sqs", "marketplace": "aws-marketplace"}


def calls_of(
    function: str, service: str, operation: str, request: Mapping[str, Any], resources: Mapping[str, str]
) -> Iterator[Call]:
    """Yield what AWS checks for one call of an SDK client.

    ``resources`` gives the ARN of a table, by its name, or of a queue, by its URL.
    """
    action = f"{_PREFIXES[service]}:{_BATCH_OF.get(operation, operation)}"
    checks = partiql_checks(action, json.dumps(request, default=str).encode(), resources.__getitem__)
    for statement_action, resource in checks:
        yield Call(function, statement_action, resource)
    if checks:
        return
    if service == "marketplace":
        yield Call(function, action, "*")
    elif service == "sqs":
        yield Call(function, action, resources[request["QueueUrl"]])
    else:
        tables = [request["TableName"]] if "TableName" in request else list(request["RequestItems"])
        index = f"/index/{request['IndexName']}" if "IndexName" in request else ""
        for table in tables:
            yield Call(function, action, resources[table] + index)
