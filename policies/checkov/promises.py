"""What this project promises of every deployment, as checkov policies for HCL and for plans.

A policy that cannot see a value (an unknown of a plan, an expression that checkov does not resolve) answers
UNKNOWN, never PASSED: the modules are therefore scanned as applied against mocks, where every value is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from checkov.common.graph.graph_builder import CustomAttributes
from checkov.common.models.enums import CheckCategories, CheckResult
from checkov.terraform.checks.resource.base_resource_check import BaseResourceCheck

QUEUE: Final = "aws_sqs_queue"
ALARM: Final = "aws_cloudwatch_metric_alarm"
MAPPING: Final = "aws_lambda_event_source_mapping"
PARTIAL_BATCH: Final = "ReportBatchItemFailures"

Attributes = Mapping[str, Any]


def plain(value: Any) -> Any:
    """Return an attribute without the one-element lists that checkov wraps around values."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def is_known(value: Any) -> bool:
    """Tell whether a text is a value, and not an expression."""
    unresolved = ("${", "var.", "local.", "each.", "module.", "try(", "lookup(")
    return isinstance(value, str) and not any(u in value for u in unresolved)


def document(value: Any) -> Any:
    """Return a policy document as mappings, or None when its text cannot be read."""
    value = plain(value)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def names_of(resource: Attributes) -> set[str]:
    """Return how other resources may name this one: its ARN, where it is known, and its reference in HCL."""
    arn, address = plain(resource.get("arn")), str(resource.get(CustomAttributes.TF_RESOURCE_ADDRESS, ""))
    # Within its module a resource is named without the module's own address.
    reference = ".".join(address.split(".")[-2:])
    return ({arn} if is_known(arn) else set()) | ({f"{reference}.arn"} if address else set())


def failures_of(mapping: Attributes) -> Any:
    """Return where an event source mapping tells of the records that it gave up, or None."""
    on_failure = plain(_member(plain(mapping.get("destination_config")), "on_failure"))
    return plain(_member(on_failure, "destination_arn"))


def _member(block: Any, name: str) -> Any:
    return block.get(name) if isinstance(block, Mapping) else None


class Promise(BaseResourceCheck):
    """A policy on resources that may look at the other resources of the same scan."""

    def __init__(self, number: int, name: str, resources: tuple[str, ...], category: CheckCategories) -> None:
        """Register ``CKV_AWSMP_<number>`` for the resource types ``resources``."""
        super().__init__(
            name=name,
            id=f"CKV_AWSMP_{number}",
            categories=[category],
            supported_resources=list(resources),
        )

    def others(self, kind: str) -> Iterator[Attributes]:
        """Yield the attributes of every resource of a type, of the same plan where a plan is scanned."""
        scanned = self.entity_path.split(":")[0]
        for _, node in self.graph.nodes() if self.graph is not None else ():
            if node.get(CustomAttributes.RESOURCE_TYPE) != kind:
                continue
            # Deployments share names: one deployment's alarm must not stand in for another's.
            if scanned.endswith(".json") and not str(node.get(CustomAttributes.FILE_PATH)).endswith(scanned):
                continue
            yield node

    def dead_letters_into(self, queue: Attributes) -> bool:
        """Tell whether another queue's redrive policy, or a mapping's failures, lead to this queue."""
        own, folder = names_of(queue), self.entity_path.split(":")[0].rpartition("/")[0]
        for other in self.others(QUEUE):
            # A reference means the resource of that name in the same module.
            if not str(other.get(CustomAttributes.FILE_PATH)).rpartition("/")[0].endswith(folder):
                continue
            redrive = document(other.get("redrive_policy"))
            if isinstance(redrive, Mapping) and plain(redrive.get("deadLetterTargetArn")) in own:
                return True
        return any(failures_of(mapping) in own for mapping in self.others(MAPPING))

    def is_alarmed(self, namespace: str, metric: str, dimension: str, name: str) -> bool:
        """Tell whether an alarm watches a metric of the resource called ``name``."""
        for alarm in self.others(ALARM):
            dimensions = plain(alarm.get("dimensions"))
            if (
                plain(alarm.get("namespace")) == namespace
                and plain(alarm.get("metric_name")) == metric
                and isinstance(dimensions, Mapping)
                and plain(dimensions.get(dimension)) == name
            ):
                return True
        return False


class DeadLetterQueue(Promise):
    """Every queue has a dead-letter queue, or is one: a message that fails is kept, whoever reads it."""

    def __init__(self) -> None:
        """Register the policy."""
        super().__init__(
            1,
            "Every queue has a dead-letter queue, and a function reads no queue or stream without one",
            (QUEUE, MAPPING),
            CheckCategories.BACKUP_AND_RECOVERY,
        )

    def scan_resource_conf(self, conf: Attributes) -> CheckResult:
        """See BaseResourceCheck."""
        if self.entity_type == MAPPING:
            return self._judge_source(plain(conf.get("event_source_arn")), failures_of(conf))
        if plain(conf.get("redrive_policy")) or self.dead_letters_into(conf):
            return CheckResult.PASSED
        return CheckResult.FAILED

    def _judge_source(self, source: Any, failures: Any) -> CheckResult:
        if isinstance(source, str) and ("stream_arn" in source or "/stream/" in source):
            # What fails for good would hold back all that comes after it, or be gone with the stream.
            return CheckResult.PASSED if failures else CheckResult.FAILED
        for queue in self.others(QUEUE):
            if source in names_of(queue):
                return CheckResult.PASSED if plain(queue.get("redrive_policy")) else CheckResult.FAILED
        return CheckResult.UNKNOWN


class FunctionAlarm(Promise):
    """Every function has an alarm on its errors."""

    def __init__(self) -> None:
        """Register the policy."""
        super().__init__(
            2,
            "Every Lambda function has an alarm on its errors",
            ("aws_lambda_function",),
            CheckCategories.LOGGING,
        )

    def scan_resource_conf(self, conf: Attributes) -> CheckResult:
        """See BaseResourceCheck."""
        name = plain(conf.get("function_name"))
        if not is_known(name):
            return CheckResult.UNKNOWN
        alarmed = self.is_alarmed("AWS/Lambda", "Errors", "FunctionName", name)
        return CheckResult.PASSED if alarmed else CheckResult.FAILED


class DeadLetterAlarm(Promise):
    """Every dead-letter queue has an alarm on its depth."""

    def __init__(self) -> None:
        """Register the policy."""
        super().__init__(
            3, "Every dead-letter queue has an alarm on its depth", (QUEUE,), CheckCategories.LOGGING
        )

    def scan_resource_conf(self, conf: Attributes) -> CheckResult:
        """See BaseResourceCheck."""
        name = plain(conf.get("name"))
        if not is_known(name) or not self.dead_letters_into(conf):
            return CheckResult.UNKNOWN
        alarmed = self.is_alarmed("AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", name)
        return CheckResult.PASSED if alarmed else CheckResult.FAILED


class DeletionProtection(Promise):
    """Every table is protected from deletion."""

    def __init__(self) -> None:
        """Register the policy."""
        super().__init__(
            4,
            "Every DynamoDB table has deletion protection",
            ("aws_dynamodb_table",),
            CheckCategories.BACKUP_AND_RECOVERY,
        )

    def scan_resource_conf(self, conf: Attributes) -> CheckResult:
        """See BaseResourceCheck."""
        protected = plain(conf.get("deletion_protection_enabled"))
        if isinstance(protected, str) and not is_known(protected):
            return CheckResult.UNKNOWN
        return CheckResult.PASSED if protected in (True, "true") else CheckResult.FAILED


class NamedActions(Promise):
    """A role's policy names each action: no wildcard, and no list of what is left out."""

    def __init__(self) -> None:
        """Register the policy."""
        super().__init__(
            5,
            "No policy of a role allows a wildcard action",
            ("aws_iam_role_policy", "aws_iam_policy", "aws_iam_role"),
            CheckCategories.IAM,
        )

    def scan_resource_conf(self, conf: Attributes) -> CheckResult:
        """See BaseResourceCheck."""
        if self.entity_type == "aws_iam_role":
            inline = conf.get("inline_policy") or []
            policies = [each.get("policy") for each in inline if isinstance(each, Mapping)]
            policies = [policy for policy in policies if plain(policy)]
        else:
            policies = [conf.get("policy")]
        verdicts = [self._judge(policy) for policy in policies]
        if CheckResult.FAILED in verdicts:
            return CheckResult.FAILED
        return CheckResult.UNKNOWN if CheckResult.UNKNOWN in verdicts else CheckResult.PASSED

    def _judge(self, policy: Any) -> CheckResult:
        read = document(policy)
        if not isinstance(read, Mapping) or "Statement" not in read:
            return CheckResult.UNKNOWN
        statements = read["Statement"]
        for statement in statements if isinstance(statements, list) else [statements]:
            if statement.get("Effect") != "Allow":
                continue
            actions = statement.get("Action", [])
            listed = actions if isinstance(actions, list) else [actions]
            if "NotAction" in statement or any("*" in str(action) for action in listed):
                return CheckResult.FAILED
        return CheckResult.PASSED


class PartialBatchResponse(Promise):
    """Every event source mapping reports the messages that failed, so that one costs only itself."""

    def __init__(self) -> None:
        """Register the policy."""
        super().__init__(
            6,
            "Every event source mapping reports which messages failed",
            (MAPPING,),
            CheckCategories.GENERAL_SECURITY,
        )

    def scan_resource_conf(self, conf: Attributes) -> CheckResult:
        """See BaseResourceCheck."""
        types = json.dumps(conf.get("function_response_types") or [])
        return CheckResult.PASSED if PARTIAL_BATCH in types else CheckResult.FAILED


PROMISES: Final = (
    DeadLetterQueue(),
    FunctionAlarm(),
    DeadLetterAlarm(),
    DeletionProtection(),
    NamedActions(),
    PartialBatchResponse(),
)
