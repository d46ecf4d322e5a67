"""What the events module deploys, read from the state that a mocked apply leaves."""

from __future__ import annotations

import json
from fnmatch import fnmatch

import pytest

from awsmp.composition_events import Settings
from sandbox import tables
from tests.terraform.tool import REPOSITORY, ModuleTest, Resources, key_schemas, requested_schemas

pytestmark = pytest.mark.slow

ACCOUNT = "111122223333"
SUBSCRIBERS = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/subscribers"
PARKED = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/parked-agreement-events"
QUEUE = f"arn:aws:sqs:us-east-1:{ACCOUNT}:events"
LOGS = f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:mock:*"
BUSES = [
    f"arn:aws:events:{region}:{ACCOUNT}:event-bus/notifications" for region in ("eu-west-1", "us-east-1")
]
SUBSCRIPTION = 'module.function["subscription"]'
CLEANUP = 'module.function["deprovision-cleanup"]'


@pytest.fixture(scope="module")
def plain(events: ModuleTest) -> Resources:
    return events.states["plain"]


@pytest.fixture(scope="module")
def estate(events: ModuleTest) -> Resources:
    return events.states["estate"]


def grants(policy: str) -> dict[str, set[str]]:
    granted: dict[str, set[str]] = {}
    for statement in json.loads(policy)["Statement"]:
        assert statement["Effect"] == "Allow"
        for resource in statement["Resource"]:
            granted.setdefault(resource, set()).update(statement["Action"])
    return granted


def actions(service: str, *names: str) -> set[str]:
    return {f"{service}:{name}" for name in names}


EXPECTED_GRANTS = {
    "subscription": {
        LOGS: actions("logs", "CreateLogStream", "PutLogEvents"),
        QUEUE: actions("sqs", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage"),
        SUBSCRIBERS: actions("dynamodb", "GetItem", "UpdateItem"),
        f"{SUBSCRIBERS}/index/agreementId-index": actions("dynamodb", "Query"),
        f"{SUBSCRIBERS}/index/customerAWSAccountId-index": actions("dynamodb", "Query"),
        PARKED: actions("dynamodb", "Query", "UpdateItem"),
    },
    "deprovision-cleanup": {
        LOGS: actions("logs", "CreateLogStream", "PutLogEvents"),
        SUBSCRIBERS: actions("dynamodb", "UpdateItem"),
        f"{SUBSCRIBERS}/index/deprovisioning-pending-index": actions("dynamodb", "Query"),
    },
}


@pytest.mark.parametrize("function", sorted(EXPECTED_GRANTS))
def test_a_function_may_do_exactly_what_it_does(function: str, plain: Resources) -> None:
    policy = plain[f'module.function["{function}"].aws_iam_role_policy.this[0]']["policy"]

    assert grants(policy) == EXPECTED_GRANTS[function]


def test_only_the_named_buses_may_be_put_to(estate: Resources, events: ModuleTest) -> None:
    granted = grants(estate[f"{SUBSCRIPTION}.aws_iam_role_policy.this[0]"]["policy"])

    put = {resource for resource, allowed in granted.items() if "events:PutEvents" in allowed}
    assert put == set(BUSES)
    assert "events:PutEvents" not in events.outputs["plain"]["role_policies_json"]["subscription"]


def test_no_role_scans_or_holds_a_wildcard_action(events: ModuleTest) -> None:
    for run in ("plain", "estate"):
        for policy in events.outputs[run]["role_policies_json"].values():
            for resource, allowed in grants(policy).items():
                assert not [a for a in allowed if "*" in a or a.endswith((":Scan", ":PartiQLSelect"))]
                assert resource != "*" or all(a.startswith("ec2:") for a in allowed)


def test_roles_end_in_a_region_code_and_take_path_and_boundary(estate: Resources, plain: Resources) -> None:
    assert {r.values["name"] for r in plain.of_type("aws_iam_role")} == {
        "awsmp-deprovision-cleanup-use1",
        "awsmp-subscription-use1",
    }
    (role,) = estate.of_type("aws_iam_role")
    assert role.values["name"] == "awsmp-staging-subscription-use1"
    assert role.values["path"] == "/billing/"
    assert role.values["permissions_boundary"] == f"arn:aws:iam::{ACCOUNT}:policy/boundary"
    own = estate[f"{CLEANUP}.aws_lambda_function.this"]["role"]
    assert own == f"arn:aws:iam::{ACCOUNT}:role/own-cleanup"


# --- Delivery -----------------------------------------------------------------------------------------------

# Detail types as AWS documents them, with the role suffixes that occur.
DETAIL_TYPES = [
    "License Updated - Manufacturer",
    "License Deprovisioned - Manufacturer",
    "License Deprovisioned - Proposer",
    "Purchase Agreement Created - Proposer",
    "Purchase Agreement Amended - Manufacturer",
    "Purchase Agreement Ended - Proposer",
    "Purchase Agreement Advisory Issued - Manufacturer",
    "Agreement Cancellation Request Approved - Proposer",
    "Spend Threshold Reached",
]


@pytest.mark.parametrize("detail_type", DETAIL_TYPES)
def test_the_rule_matches_whatever_the_role_suffix(detail_type: str, plain: Resources) -> None:
    pattern = json.loads(plain["aws_cloudwatch_event_rule.events"]["event_pattern"])

    assert pattern["source"] == ["aws.agreement-marketplace"]
    assert [p for p in pattern["detail-type"] if fnmatch(detail_type, p["prefix"] + "*")]


def test_a_sandbox_source_is_an_addition(estate: Resources) -> None:
    pattern = json.loads(estate["aws_cloudwatch_event_rule.events"]["event_pattern"])
    variables = estate[f"{SUBSCRIPTION}.aws_lambda_function.this"]["environment"][0]["variables"]

    assert pattern["source"] == ["aws.agreement-marketplace", "sandbox.agreement-marketplace"]
    assert Settings.from_environment(variables).accepted.sources == set(pattern["source"])


def test_only_the_rule_may_send_to_the_queue_and_its_dlq(plain: Resources) -> None:
    rule = plain["aws_cloudwatch_event_rule.events"]["arn"]
    policies = plain.of_type("aws_sqs_queue_policy")

    assert len(policies) == 2
    for policy in policies:
        deny, allow = json.loads(policy.values["policy"])["Statement"]
        assert deny["Effect"] == "Deny"
        assert allow["Principal"] == {"Service": "events.amazonaws.com"}
        assert allow["Action"] == "sqs:SendMessage"
        assert allow["Condition"] == {"ArnEquals": {"aws:SourceArn": rule}}


def test_what_cannot_be_delivered_or_applied_is_kept(plain: Resources) -> None:
    (dead_letter,) = plain["aws_cloudwatch_event_target.events"]["dead_letter_config"]
    redrive = json.loads(plain["module.queue.aws_sqs_queue.this"]["redrive_policy"])

    assert plain["aws_cloudwatch_event_target.events"]["arn"] == QUEUE
    assert dead_letter["arn"] == redrive["deadLetterTargetArn"] == f"{QUEUE}-dlq"
    assert plain["module.queue.aws_sqs_queue.dlq"]["message_retention_seconds"] == 14 * 24 * 3600


def test_the_queue_feeds_the_subscription_function(plain: Resources) -> None:
    (mapping,) = plain.of_type("aws_lambda_event_source_mapping")
    timeout = plain[f"{SUBSCRIPTION}.aws_lambda_function.this"]["timeout"]

    assert mapping.address.startswith(SUBSCRIPTION)
    assert mapping.values["event_source_arn"] == QUEUE
    assert mapping.values["function_response_types"] == ["ReportBatchItemFailures"]
    assert plain["module.queue.aws_sqs_queue.this"]["visibility_timeout_seconds"] >= 6 * timeout


def test_the_clean_up_runs_every_15_minutes_without_retry(plain: Resources) -> None:
    rule = plain["aws_cloudwatch_event_rule.deprovision_cleanup"]
    target = plain["aws_cloudwatch_event_target.deprovision_cleanup"]
    config = plain[f"{CLEANUP}.aws_lambda_function_event_invoke_config.this[0]"]
    permission = plain["aws_lambda_permission.deprovision_cleanup"]

    assert rule["schedule_expression"] == "rate(15 minutes)"
    assert target["retry_policy"] == [{"maximum_event_age_in_seconds": 300, "maximum_retry_attempts": 0}]
    assert (config["maximum_event_age_in_seconds"], config["maximum_retry_attempts"]) == (300, 0)
    assert plain[f"{CLEANUP}.aws_lambda_function.this"]["timeout"] < 15 * 60
    assert permission["principal"] == "events.amazonaws.com"
    assert permission["source_arn"] == rule["arn"]


# --- Functions, tables, alarms ------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [SUBSCRIPTION, CLEANUP])
def test_the_code_reads_every_setting_that_it_is_given(module: str, plain: Resources) -> None:
    values = plain[f"{module}.aws_lambda_function.this"]
    variables = values["environment"][0]["variables"]
    source = "\n".join(path.read_text() for path in (REPOSITORY / "lambda_src").rglob("*.py"))

    handler, name = values["handler"].rsplit(".", 1)
    file = REPOSITORY / "lambda_src" / (handler.replace(".", "/") + ".py")
    assert f"\ndef {name}(" in file.read_text()
    Settings.from_environment(variables)
    unread = {key for key in variables if f'"{key}"' not in source}
    assert unread <= {"LOG_LEVEL", "POWERTOOLS_METRICS_NAMESPACE", "POWERTOOLS_SERVICE_NAME"}


def test_the_settings_arrive_as_they_were_given(estate: Resources) -> None:
    variables = estate[f"{SUBSCRIPTION}.aws_lambda_function.this"]["environment"][0]["variables"]
    settings = Settings.from_environment(variables)

    assert settings.subscribers_table == "awsmp-staging-subscribers"
    assert settings.parked_events_table == "awsmp-staging-parked-agreement-events"
    assert settings.accepted.product_codes == {"1example", "2example"}
    assert settings.accepted.seller_account == ACCOUNT
    assert settings.forward_event_buses == dict(zip(("eu-west-1", "us-east-1"), BUSES, strict=True))
    assert settings.environment == "staging"


def test_the_subscribers_table_is_keyed_streamed_and_guarded(plain: Resources) -> None:
    table = plain["aws_dynamodb_table.subscribers"]
    indexes = {
        i["name"]: (i["hash_key"], i["range_key"] or None, i["projection_type"])
        for i in table["global_secondary_index"]
    }

    assert (table["hash_key"], table["range_key"]) == ("licenseArn", "customerAWSAccountId")
    assert indexes == {
        "customerAWSAccountId-index": ("customerAWSAccountId", None, "ALL"),
        "agreementId-index": ("agreementId", None, "ALL"),
        "deprovisioning-pending-index": ("deprovisioningPendingFlag", "deprovisioningExpiry", "KEYS_ONLY"),
    }
    assert (table["stream_enabled"], table["stream_view_type"]) == (True, "NEW_AND_OLD_IMAGES")
    assert table["deletion_protection_enabled"] is True
    assert table["point_in_time_recovery"][0]["enabled"] is True


def test_parked_events_expire(plain: Resources) -> None:
    table = plain["aws_dynamodb_table.parked_agreement_events"]

    assert (table["hash_key"], table["range_key"]) == ("agreementId", "entryKey")
    assert (table["ttl"][0]["attribute_name"], table["ttl"][0]["enabled"]) == ("ttl", True)
    assert table["deletion_protection_enabled"] is True
    assert table["point_in_time_recovery"][0]["enabled"] is True


def test_the_local_backends_have_the_same_tables(plain: Resources) -> None:
    subscribers = plain["aws_dynamodb_table.subscribers"]
    parked = plain["aws_dynamodb_table.parked_agreement_events"]

    assert key_schemas(subscribers) == requested_schemas(tables.subscribers_table("any"))
    assert key_schemas(parked) == requested_schemas(tables.parked_events_table("any"))


def test_the_dlq_and_both_functions_alarm(plain: Resources, estate: Resources) -> None:
    found = {r.key: r.values for r in plain.of_type("aws_cloudwatch_metric_alarm")}

    assert {key: (alarm["metric_name"], alarm["dimensions"]) for key, alarm in found.items()} == {
        "events-dlq": ("ApproximateNumberOfMessagesVisible", {"QueueName": "awsmp-events-dlq"}),
        "events-oldest-message": ("ApproximateAgeOfOldestMessage", {"QueueName": "awsmp-events"}),
        "event-rule-failed": ("FailedInvocations", {"RuleName": "awsmp-events"}),
        "schedule-deprovision-cleanup-failed": (
            "FailedInvocations",
            {"RuleName": "awsmp-deprovision-cleanup"},
        ),
        "subscription-errors": ("Errors", {"FunctionName": "awsmp-subscription"}),
        "deprovision-cleanup-did-not-run": ("Invocations", {"FunctionName": "awsmp-deprovision-cleanup"}),
        "deprovision-cleanup-errors": ("Errors", {"FunctionName": "awsmp-deprovision-cleanup"}),
    }
    silent = found.pop("deprovision-cleanup-did-not-run")
    assert (silent["treat_missing_data"], silent["comparison_operator"]) == ("breaching", "LessThanThreshold")
    assert all(alarm["treat_missing_data"] == "notBreaching" for alarm in found.values())
    assert {len(alarm["alarm_actions"]) for alarm in found.values()} == {1}
    notices = {
        r.key
        for r in estate.of_type("aws_cloudwatch_metric_alarm")
        if r.values["alarm_actions"][0].endswith(":notices")
    }
    assert notices == {
        "deprovision-cleanup-did-not-run",
        "deprovision-cleanup-errors",
        "schedule-deprovision-cleanup-failed",
        "subscriber-forwarder-errors",
    }


def test_an_environment_changes_every_name(plain: Resources, estate: Resources) -> None:
    """Both may then stand in one account and Region: nothing that has a name shares it."""
    names = {"alarm_name", "function_name", "layer_name", "name"}
    kinds = {
        "aws_iam_role_policy",
        "aws_lambda_event_source_mapping",
        "aws_lambda_function_event_invoke_config",
    }

    def named(state: Resources) -> set[tuple[str, str]]:
        return {
            (r.type, r.values[attribute])
            for r in state
            for attribute in names & set(r.values)
            if r.type not in kinds and r.values[attribute] and r.type != "aws_lambda_permission"
        }

    assert len(named(plain)) >= 15
    assert named(plain) & named(estate) == set()


def test_everything_that_takes_tags_is_tagged(plain: Resources) -> None:
    taggable = [r for r in plain if "tags" in r.values]

    assert len(taggable) >= 15
    assert [r.address for r in taggable if r.values["tags"] != {"team": "billing"}] == []


def test_the_deployment_describes_itself(estate: Resources) -> None:
    parameter = estate["aws_ssm_parameter.deployment"]
    description = json.loads(parameter["value"])

    assert parameter["name"] == "/marketplace/awsmp/staging/events"
    assert description["subscribersTable"] == "awsmp-staging-subscribers"
    assert description["eventDeadLetterQueue"] == "awsmp-staging-events-dlq"
    assert set(description["functions"]) == {"deprovision-cleanup", "subscriber-forwarder", "subscription"}
    assert len(parameter["value"]) < 4096


def test_a_keys_policy_lets_eventbridge_deliver(events: ModuleTest) -> None:
    statements = {
        s["Sid"]: s for s in json.loads(events.outputs["estate"]["kms_key_policy_json"])["Statement"]
    }

    assert set(statements) == {"EventsDelivery", "EventsForwarder", "EventsFunctions", "EventsLogs"}
    assert statements["EventsDelivery"]["Principal"] == {"Service": "events.amazonaws.com"}
    assert statements["EventsDelivery"]["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
