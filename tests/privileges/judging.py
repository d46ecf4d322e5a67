"""The roles that the modules give, and what a test run's calls say about them.

The policies are read from a file that ``make docs`` writes and a Terraform test holds against the modules,
so that a unit test is judged without Terraform.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from tests.privileges.permissions import Call, Grant, grants_of
from tests.privileges.recording import BUS, EVERY, FROM_ADDRESS, RecordedCall

ROLES_FILE: Final = Path(__file__).with_name("roles.json")

_KMS: Final = ("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo")


class ByAws(NamedTuple):
    """What AWS itself does with a role: statements by their ids, the actions, and why no function asks."""

    sids: frozenset[str]
    actions: frozenset[str]
    why: str


#: Allowed, and asked for by no function.
BY_AWS: Final = (
    ByAws(
        frozenset({"Consume"}),
        frozenset({"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}),
        "the event source mapping reads the queue under the function's role",
    ),
    ByAws(
        frozenset({"ConsumeStream"}),
        frozenset(
            f"dynamodb:{action}"
            for action in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
        ),
        "the event source mapping reads the stream under the function's role",
    ),
    ByAws(
        frozenset({"GiveUp"}),
        frozenset({"sqs:SendMessage"}),
        "the event source mapping puts aside what the function gives up, under its role",
    ),
    ByAws(
        frozenset({"Logs"}),
        frozenset({"logs:CreateLogStream", "logs:PutLogEvents"}),
        "the runtime writes the log under the function's role",
    ),
    ByAws(
        frozenset(
            {
                "CustomerProfilesKey",
                "Key",
                "PendingVerificationsKey",
                "SecretsKey",
                "SubscribersKey",
                "VerificationSecretKey",
            }
        ),
        frozenset(f"kms:{action}" for action in _KMS),
        "the services decrypt and encrypt what the function reads and writes, under its role",
    ),
    ByAws(
        frozenset({"NetworkInterfaces"}),
        frozenset(
            f"ec2:{action}"
            for action in (
                "AssignPrivateIpAddresses",
                "CreateNetworkInterface",
                "DeleteNetworkInterface",
                "DescribeNetworkInterfaces",
                "DescribeSubnets",
                "UnassignPrivateIpAddresses",
            )
        ),
        "Lambda makes and removes the function's network interfaces under its role",
    ),
    ByAws(
        frozenset({"Tracing"}),
        frozenset({"xray:PutTelemetryRecords", "xray:PutTraceSegments"}),
        "the runtime sends traces under the function's role",
    ),
)


class Use(NamedTuple):
    """One action on one resource that a statement of a function's policy allows."""

    function: str
    sid: str
    action: str
    resource: str

    def __str__(self) -> str:
        return f"{self.function} may {self.action} on {self.resource} (statement {self.sid})"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is wrong with the roles, or with the code, after a run."""

    not_allowed: frozenset[RecordedCall] = frozenset()
    never_used: frozenset[Use] = frozenset()

    def lines(self) -> list[str]:
        """Return one sentence for each finding, sorted."""
        refused = [
            f"{call.function} asked for {call.action} on {call.resource}: "
            f"its role in the deployment {call.deployment!r} does not allow it"
            for call in sorted(self.not_allowed)
        ]
        return refused + [f"{use}, and no test needed it" for use in sorted(self.never_used)]


@dataclass(frozen=True, slots=True)
class Roles:
    """What every function may do, by kind of deployment."""

    grants: Mapping[str, tuple[Grant, ...]]

    @classmethod
    def of(cls, policies: Mapping[str, Mapping[str, Mapping[str, list[Mapping[str, Any]]]]]) -> Self:
        """Read statements by module, deployment and function.

        Raises
        ------
        ValueError
            A statement is of a kind that is not judged here, or two modules name a function alike.
        """
        grants: dict[str, list[Grant]] = {}
        owners: dict[str, str] = {}
        for module, deployments in policies.items():
            for deployment, functions in deployments.items():
                for function, statements in functions.items():
                    if owners.setdefault(function, module) != module:
                        raise ValueError(f"{module} and {owners[function]} both have a function {function}")
                    found = grants_of({function: json.dumps({"Statement": statements})})
                    grants.setdefault(deployment, []).extend(map(_named, found))
        return cls({deployment: tuple(found) for deployment, found in grants.items()})

    def not_allowed(self, calls: Iterable[RecordedCall]) -> frozenset[RecordedCall]:
        """Return the calls that the role of their function does not allow in their deployment."""
        return frozenset(call for call in calls if not self._allows(call))

    def never_used(self, calls: Iterable[RecordedCall]) -> frozenset[Use]:
        """Return what is allowed in some deployment and asked for in none, but for what AWS itself does."""
        asked = {(call.function, call.action, call.resource) for call in calls}
        uses = {
            Use(grant.function, grant.sid, grant.action, resource)
            for grants in self.grants.values()
            for grant in grants
            for resource in grant.resources
        }
        return frozenset(
            use
            for use in uses
            if not _is_by_aws(use) and (use.function, use.action, use.resource) not in asked
        )

    def functions(self) -> frozenset[str]:
        """Return the functions that have a role."""
        return frozenset(grant.function for grants in self.grants.values() for grant in grants)

    def _allows(self, recorded: RecordedCall) -> bool:
        call = Call(recorded.function, recorded.action, recorded.resource, recorded.context)
        deployments = {
            deployment: [grant for grant in grants if grant.function == call.function]
            for deployment, grants in self.grants.items()
            if recorded.deployment in {deployment, EVERY}
        }
        having = [grants for grants in deployments.values() if grants]
        return bool(having) and all(any(grant.covers(call) for grant in grants) for grants in having)


@cache
def module_roles() -> Roles:
    """Return the roles of the modules in this repository."""
    return Roles.of(json.loads(ROLES_FILE.read_text(encoding="utf-8")))


def resource_name(arn: str) -> str:
    """Return a resource's short name: ``work`` of a queue, ``usage/index/metering_pending`` of an index."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        return arn
    service, name = parts[2], parts[5]
    match service:
        case "dynamodb":
            return re.sub(r"^table/(?:awsmp-)?(?:\w+-(?=customer-profile))?", "", name)
        case "events":
            return BUS
        case "secretsmanager":
            return re.sub(r"^secret:(.+)-\w{6}$", r"secret/\1", name)
        case "ses":
            return name.partition("/")[0]
    return name


def _named(grant: Grant) -> Grant:
    resources = dict.fromkeys(resource_name(arn) for arn in grant.resources if arn)
    conditions = tuple(
        (key, frozenset({FROM_ADDRESS}) if key == "ses:FromAddress" else values)
        for key, values in grant.conditions
    )
    return Grant(grant.function, grant.sid, grant.action, tuple(resources), conditions)


def _is_by_aws(use: Use) -> bool:
    return any(use.sid in each.sids and use.action in each.actions for each in BY_AWS)
