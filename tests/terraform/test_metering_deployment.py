"""What the metering module deploys, read from the state that a mocked apply leaves."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from awsmp.composition_metering import MeteringSettings
from awsmp.domain.ports import Metric
from sandbox import tables
from tests.terraform.tool import REPOSITORY, ModuleTest, Resources, key_schemas, requested_schemas

pytestmark = pytest.mark.slow

ACCOUNT = "111122223333"
USAGE = f"arn:aws:dynamodb:eu-west-1:{ACCOUNT}:table/usage"
LEDGER = f"arn:aws:dynamodb:eu-west-1:{ACCOUNT}:table/aggregated-usage"
SUBSCRIBERS = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/awsmp-subscribers"
LOGS = f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:mock:*"
BASE = "awsmp-1example2product3code4567"
PENDING = "/index/metering_pending"
DEPROVISIONING = "/index/deprovisioning-pending-index"

FUNCTIONS = {"aggregator", "cleanup", "discoverer", "expiry", "submitter"}
SCHEDULED = {"discoverer", "expiry", "submitter"}
TABLES = ("aws_dynamodb_table.usage", "aws_dynamodb_table.aggregated_usage")


def queue(name: str) -> str:
    return f"arn:aws:sqs:eu-west-1:{ACCOUNT}:{name}"


def function_address(name: str) -> str:
    return f'module.function["{name}"].aws_lambda_function.this'


def grants(policy: str) -> dict[str, set[str]]:
    """Return the actions that a policy allows, by resource, and check that it only allows."""
    granted: dict[str, set[str]] = {}
    for statement in json.loads(policy)["Statement"]:
        assert statement["Effect"] == "Allow"
        for resource in statement["Resource"]:
            granted.setdefault(resource, set()).update(statement["Action"])
    return granted


def actions(service: str, *names: str) -> set[str]:
    return {f"{service}:{name}" for name in names}


LOGGING = {LOGS: actions("logs", "CreateLogStream", "PutLogEvents")}
CONSUME = actions("sqs", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
SEND = actions("sqs", "SendMessage")
LOOK_UP_SUBSCRIBERS = {
    SUBSCRIBERS: actions("dynamodb", "GetItem"),
    SUBSCRIBERS + DEPROVISIONING: actions("dynamodb", "Query"),
}
WRITE_LEDGER = actions("dynamodb", "BatchGetItem", "GetItem", "PartiQLInsert", "PartiQLUpdate", "UpdateItem")

EXPECTED_GRANTS: dict[str, dict[str, set[str]]] = {
    "aggregator": {
        **LOGGING,
        USAGE: actions("dynamodb", "BatchGetItem", "PartiQLUpdate", "Query", "UpdateItem"),
        LEDGER: actions("dynamodb", "GetItem", "PutItem", "UpdateItem"),
        queue("cleanup"): SEND,
        queue("work"): CONSUME,
        queue("deprovision-work"): CONSUME,
    },
    "cleanup": {
        **LOGGING,
        USAGE: actions("dynamodb", "BatchGetItem", "PartiQLUpdate", "UpdateItem"),
        LEDGER: actions("dynamodb", "GetItem"),
        queue("cleanup"): CONSUME,
        queue("work"): SEND,
    },
    "discoverer": {
        **LOGGING,
        **LOOK_UP_SUBSCRIBERS,
        USAGE: actions("dynamodb", "BatchGetItem", "PartiQLUpdate", "Query", "UpdateItem"),
        USAGE + PENDING: actions("dynamodb", "Query"),
        LEDGER: actions("dynamodb", "GetItem", "PutItem", "UpdateItem"),
        queue("work"): SEND,
        queue("deprovision-work"): SEND,
    },
    "expiry": {
        **LOGGING,
        LEDGER: WRITE_LEDGER - actions("dynamodb", "GetItem"),
        LEDGER + PENDING: actions("dynamodb", "Query"),
    },
    "submitter": {
        **LOGGING,
        **LOOK_UP_SUBSCRIBERS,
        f"{SUBSCRIBERS}/index/customerAWSAccountId-index": actions("dynamodb", "Query"),
        LEDGER: WRITE_LEDGER,
        LEDGER + PENDING: actions("dynamodb", "Query"),
        "*": actions("aws-marketplace", "BatchMeterUsage"),
        queue("work"): SEND,
    },
}


@pytest.fixture(scope="module")
def full(metering: ModuleTest) -> Resources:
    return metering.states["full"]


@pytest.fixture(scope="module")
def direct(metering: ModuleTest) -> Resources:
    return metering.states["direct_submit"]


@pytest.fixture(scope="module")
def estate(metering: ModuleTest) -> Resources:
    return metering.states["estate"]


# --- Roles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_function_may_do_exactly_what_it_does(function: str, full: Resources) -> None:
    policy = full[f'module.function["{function}"].aws_iam_role_policy.this[0]']["policy"]

    assert grants(policy) == EXPECTED_GRANTS[function]


def test_direct_submit_has_no_queue_to_send_to(direct: Resources) -> None:
    policy = direct['module.function["submitter"].aws_iam_role_policy.this[0]']["policy"]

    expected = {k: v for k, v in EXPECTED_GRANTS["submitter"].items() if k != queue("work")}
    assert grants(policy) == expected


def test_a_dry_run_may_not_meter(estate: Resources) -> None:
    policies = [r.values["policy"] for r in estate.of_type("aws_iam_role_policy")]

    assert len(policies) == 4
    assert not any("aws-marketplace" in policy for policy in policies)


@pytest.mark.parametrize("run", ["full", "direct_submit", "estate"])
def test_no_role_scans_or_holds_a_wildcard_action(run: str, metering: ModuleTest) -> None:
    for policy in metering.outputs[run]["role_policies_json"].values():
        for resource, allowed in grants(policy).items():
            assert not [a for a in allowed if "*" in a or a.endswith((":Scan", ":PartiQLSelect"))]
            if resource == "*":
                assert allowed <= {"aws-marketplace:BatchMeterUsage"} | {a for a in allowed if "ec2:" in a}


def test_a_role_trusts_lambda_only(full: Resources) -> None:
    for role in full.of_type("aws_iam_role"):
        (statement,) = json.loads(role.values["assume_role_policy"])["Statement"]
        assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_every_role_takes_path_and_boundary(estate: Resources) -> None:
    roles = estate.of_type("aws_iam_role")

    assert {role.values["name"] for role in roles} == {
        f"awsmp-staging-1example2product3code4567-{name}-euw1" for name in FUNCTIONS - {"cleanup"}
    }
    for role in roles:
        assert role.values["path"] == "/billing/"
        assert role.values["permissions_boundary"] == f"arn:aws:iam::{ACCOUNT}:policy/boundary"


def test_an_own_role_replaces_ours_and_the_policy_it_needs_is_an_output(
    estate: Resources, metering: ModuleTest
) -> None:
    assert estate[function_address("cleanup")]["role"] == f"arn:aws:iam::{ACCOUNT}:role/own-cleanup"
    assert 'module.function["cleanup"].aws_iam_role.this[0]' not in estate
    granted = grants(metering.outputs["estate"]["role_policies_json"]["cleanup"])
    assert granted[USAGE] == EXPECTED_GRANTS["cleanup"][USAGE]
    assert granted[queue("cleanup")] == CONSUME


def test_the_keys_are_granted_where_they_are_used(metering: ModuleTest) -> None:
    own = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    foreign = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/subscribers"

    for name, policy in metering.outputs["estate"]["role_policies_json"].items():
        granted = grants(policy)
        assert "kms:Decrypt" in granted[own], name
        assert (foreign in granted) == (name in {"discoverer", "submitter"})


# --- Functions ----------------------------------------------------------------------------------------------


def test_each_mode_has_its_functions(full: Resources, direct: Resources) -> None:
    def deployed(state: Resources) -> set[str]:
        return {r.values["function_name"] for r in state.of_type("aws_lambda_function")}

    assert deployed(full) == {f"{BASE}-{name}" for name in FUNCTIONS}
    assert deployed(direct) == {f"{BASE}-{name}" for name in ("expiry", "submitter")}


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_handler_is_there_to_be_called(function: str, full: Resources) -> None:
    values = full[function_address(function)]

    module, name = values["handler"].rsplit(".", 1)
    source = REPOSITORY / "lambda_src" / (module.replace(".", "/") + ".py")
    assert f"\ndef {name}(" in source.read_text()
    assert values["runtime"] == "python3.13"
    assert values["architectures"] == ["arm64"]
    assert len(values["layers"]) == 1


@pytest.mark.parametrize("run", ["full", "direct_submit", "estate"])
def test_the_code_reads_every_setting_that_it_is_given(run: str, metering: ModuleTest) -> None:
    source = "\n".join(path.read_text() for path in (REPOSITORY / "lambda_src").rglob("*.py"))
    read_by_powertools = {"LOG_LEVEL", "POWERTOOLS_METRICS_NAMESPACE", "POWERTOOLS_SERVICE_NAME"}

    for function in metering.states[run].of_type("aws_lambda_function"):
        variables = function.values["environment"][0]["variables"]
        MeteringSettings.from_environment(variables)
        unread = {name for name in variables if f'"{name}"' not in source}
        assert unread <= read_by_powertools, function.address
        assert variables["POWERTOOLS_METRICS_NAMESPACE"] == "AWSMarketplaceMetering"


def test_every_setting_that_the_code_reads_is_given_to_a_function(full: Resources) -> None:
    source = (REPOSITORY / "lambda_src" / "awsmp" / "composition_metering.py").read_text()
    read = set(re.findall(r'\benv(?:\.get\(|\[)"([A-Z_]+)"', source))

    given = {
        name for r in full.of_type("aws_lambda_function") for name in r.values["environment"][0]["variables"]
    }
    assert len(read) > 15
    assert read <= given


def test_the_settings_arrive_as_they_were_given(estate: Resources, full: Resources) -> None:
    variables = estate[function_address("submitter")]["environment"][0]["variables"]
    settings = MeteringSettings.from_environment(variables)

    assert settings.dry_run
    assert settings.test_accounts == {"111122223333", "444455556666"}
    assert settings.legacy_product_code == "legacy"
    assert settings.marketplace_region == "us-east-1"
    assert settings.subscribers_table_region == "us-east-1"
    assert settings.environment == "staging"
    plain = full[function_address("submitter")]["environment"][0]["variables"]
    assert plain["ENVIRONMENT"] == "default"
    assert plain["MARKETPLACE_REGION"] == "eu-west-1"
    assert not MeteringSettings.from_environment(plain).dry_run


def test_a_sender_is_presumed_dead_only_after_its_time_out(full: Resources) -> None:
    submitter = full[function_address("submitter")]["timeout"]

    variables = full[function_address("submitter")]["environment"][0]["variables"]
    assert int(variables["SENDER_TIMEOUT_SECONDS"]) > submitter


def test_an_environment_fits(estate: Resources) -> None:
    """Lambda takes 4 KB and reserves names of its own; the emulator takes anything."""
    for function in estate.of_type("aws_lambda_function"):
        variables = function.values["environment"][0]["variables"]
        assert sum(len(k) + len(v) for k, v in variables.items()) < 4096
        assert not [name for name in variables if name.startswith(("AWS_", "LAMBDA_"))]


def test_an_estate_says_how_functions_run(estate: Resources) -> None:
    for function in estate.of_type("aws_lambda_function"):
        assert function.values["runtime"] == "python3.12"
        assert function.values["architectures"] == ["x86_64"]
        assert function.values["kms_key_arn"].endswith(":key/1234abcd-12ab-34cd-56ef-1234567890ab")
        assert function.values["vpc_config"][0]["subnet_ids"] == ["subnet-0a"]
        assert function.values["s3_bucket"] == "artefacts"
        assert function.values["s3_key"] == "awsmp/0.1.0/awsmp.zip"
        assert function.values["filename"] is None
        assert function.values["environment"][0]["variables"]["LOG_LEVEL"] == "DEBUG"
    (layer,) = estate.of_type("aws_lambda_layer_version")
    assert layer.values["s3_key"] == "awsmp/0.1.0/dependencies.zip"
    assert estate[function_address("submitter")]["memory_size"] == 2048
    assert estate[function_address("submitter")]["reserved_concurrent_executions"] == 1
    assert estate[function_address("aggregator")]["reserved_concurrent_executions"] in (None, -1)


def test_logs_are_kept_and_are_text(full: Resources, estate: Resources) -> None:
    for state, days in ((full, 365), (estate, 731)):
        names = {r.values["name"] for r in state.of_type("aws_cloudwatch_log_group")}
        for group in state.of_type("aws_cloudwatch_log_group"):
            assert group.values["retention_in_days"] == days
        for function in state.of_type("aws_lambda_function"):
            (logging,) = function.values["logging_config"]
            assert logging["log_group"] == f"/aws/lambda/{function.values['function_name']}"
            assert logging["log_group"] in names
            assert logging["log_format"] == "Text"
    assert all(r.values["kms_key_id"] for r in estate.of_type("aws_cloudwatch_log_group"))


# --- Queues -------------------------------------------------------------------------------------------------


def test_a_message_stays_hidden_for_six_time_outs(full: Resources) -> None:
    mappings = full.of_type("aws_lambda_event_source_mapping")
    timeouts = {
        r.values["event_source_arn"]: full[r.address.split(".aws_")[0] + ".aws_lambda_function.this"][
            "timeout"
        ]
        for r in mappings
    }
    queues = [r for r in full.of_type("aws_sqs_queue") if r.address.endswith(".this")]

    assert len(queues) == len(mappings) == 3
    for found in queues:
        assert found.values["visibility_timeout_seconds"] >= 6 * timeouts[found.values["arn"]]


def test_mappings_report_single_failures_and_are_bounded(full: Resources) -> None:
    found = {
        r.address.split('"')[1] + "/" + r.key: r.values
        for r in full.of_type("aws_lambda_event_source_mapping")
    }

    assert set(found) == {"aggregator/work", "aggregator/deprovision-work", "cleanup/cleanup"}
    for name, values in found.items():
        assert values["function_response_types"] == ["ReportBatchItemFailures"]
        assert values["event_source_arn"] == queue(name.split("/")[1])
        assert values["scaling_config"] == [{"maximum_concurrency": 2 if name == "cleanup/cleanup" else 5}]
        assert values["batch_size"] == 10


def test_every_queue_dead_letters_to_its_own_dlq(full: Resources) -> None:
    for name in ("work", "deprovision-work", "cleanup"):
        prefix = f'module.queue["{name}"]'
        redrive = json.loads(full[f"{prefix}.aws_sqs_queue.this"]["redrive_policy"])
        allow = json.loads(full[f"{prefix}.aws_sqs_queue_redrive_allow_policy.dlq"]["redrive_allow_policy"])
        assert redrive["deadLetterTargetArn"] == queue(f"{name}-dlq")
        assert redrive["maxReceiveCount"] == (3 if name == "deprovision-work" else 5)
        assert allow == {"redrivePermission": "byQueue", "sourceQueueArns": [queue(name)]}
        assert full[f"{prefix}.aws_sqs_queue.dlq"]["message_retention_seconds"] == 14 * 24 * 3600


def test_queues_are_encrypted_and_refuse_plain_http(full: Resources, estate: Resources) -> None:
    assert all(r.values["sqs_managed_sse_enabled"] for r in full.of_type("aws_sqs_queue"))
    assert all(r.values["kms_master_key_id"] for r in estate.of_type("aws_sqs_queue"))
    policies = full.of_type("aws_sqs_queue_policy")
    assert len(policies) == 6
    for policy in policies:
        (statement,) = json.loads(policy.values["policy"])["Statement"]
        assert statement["Effect"] == "Deny"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


# --- Schedules ----------------------------------------------------------------------------------------------


def targets(state: Resources) -> dict[tuple[str, str], list[Any]]:
    """Return the inputs that each rule sends to each function, by their names without the base."""
    found: dict[tuple[str, str], list[Any]] = {}
    for target in state.of_type("aws_cloudwatch_event_target"):
        rule = target.values["rule"].removeprefix(f"{BASE}-")
        identity = target.values["target_id"]
        function = {"flush": "discoverer", "submit": "submitter", "expiry": "expiry"}.get(
            identity, "discoverer"
        )
        found.setdefault((rule, function), []).append(json.loads(target.values["input"]))
    return found


def test_the_schedules_are_those_of_the_design(full: Resources) -> None:
    meter = [{"mode": "meter", "hourOffset": n} for n in range(1, 24)]
    ageout = [{"mode": "ageout", "shard": n} for n in range(7)]
    slices = meter + ageout
    found = targets(full)

    for number in range(6):
        sent = found.pop((f"meter-dispatch-{number + 1}", "discoverer"))
        assert sorted(sent, key=slices.index) == slices[5 * number : 5 * number + 5]
    assert found == {
        ("submit-dispatch", "submitter"): [{"mode": "submit"}],
        ("submit-dispatch", "expiry"): [{}],
        ("flush-deprovisioning", "discoverer"): [{"mode": "flush-deprovisioning"}],
        ("flush-deprovisioning", "submitter"): [{"mode": "deprovisioning"}],
    }


def test_rules_tick_as_designed_and_hold_five_targets_at_most(full: Resources) -> None:
    rates = {
        r.values["name"].removeprefix(f"{BASE}-"): r.values["schedule_expression"]
        for r in full.of_type("aws_cloudwatch_event_rule")
    }
    held = Counter(r.values["rule"] for r in full.of_type("aws_cloudwatch_event_target"))

    assert rates == {
        **{f"meter-dispatch-{n}": "rate(15 minutes)" for n in range(1, 7)},
        "submit-dispatch": "rate(5 minutes)",
        "flush-deprovisioning": "rate(1 minute)",
    }
    assert max(held.values()) == 5


def test_direct_submit_keeps_the_submit_schedule_only(direct: Resources) -> None:
    assert targets(direct) == {
        ("submit-dispatch", "submitter"): [{"mode": "submit"}],
        ("submit-dispatch", "expiry"): [{}],
    }


def test_a_scheduled_run_is_never_retried_or_late(full: Resources) -> None:
    for target in full.of_type("aws_cloudwatch_event_target"):
        assert target.values["retry_policy"] == [
            {"maximum_event_age_in_seconds": 300, "maximum_retry_attempts": 0}
        ]
    configs = full.of_type("aws_lambda_function_event_invoke_config")
    assert {r.address.split('"')[1] for r in configs} == SCHEDULED
    for config in configs:
        assert config.values["maximum_event_age_in_seconds"] == 300
        assert config.values["maximum_retry_attempts"] == 0
    for function in SCHEDULED:
        assert full[function_address(function)]["timeout"] < 300


def test_each_rule_may_invoke_the_functions_of_its_targets(full: Resources) -> None:
    permissions = full.of_type("aws_lambda_permission")
    allowed = {
        (r.values["statement_id"], r.values["function_name"].removeprefix(f"{BASE}-")) for r in permissions
    }

    assert allowed == set(targets(full))
    assert len(permissions) == len(allowed)
    for permission in permissions:
        assert permission.values["principal"] == "events.amazonaws.com"
        assert permission.values["source_arn"]


# --- Tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("address", "sort_key"), list(zip(TABLES, ("timestamp", "hour"), strict=True)))
def test_a_table_is_keyed_and_guarded(address: str, sort_key: str, full: Resources) -> None:
    table = full[address]

    assert (table["hash_key"], table["range_key"]) == (
        "licenseArn",
        f"customerAWSAccountId#dimension#{sort_key}",
    )
    assert table["billing_mode"] == "PAY_PER_REQUEST"
    assert table["deletion_protection_enabled"] is True
    assert table["point_in_time_recovery"][0]["enabled"] is True
    (index,) = table["global_secondary_index"]
    assert (index["name"], index["hash_key"], index["range_key"]) == (
        "metering_pending",
        "meteringPending",
        "licenseArn",
    )
    assert index["projection_type"] == "INCLUDE"
    assert sorted(index["non_key_attributes"]) == ["customerAWSAccountId", "dimension"]


def test_the_local_backends_have_the_same_tables(full: Resources) -> None:
    assert key_schemas(full[TABLES[0]]) == requested_schemas(tables.usage_table("any"))
    assert key_schemas(full[TABLES[1]]) == requested_schemas(tables.aggregated_usage_table("any"))


def test_expiry_is_on_where_it_was_asked_for(full: Resources, estate: Resources) -> None:
    def enabled(state: Resources) -> list[bool]:
        return [state[table]["ttl"][0]["enabled"] for table in TABLES]

    assert enabled(full) == [True, False]
    assert enabled(estate) == [False, False]
    assert {full[table]["ttl"][0]["attribute_name"] for table in TABLES} == {"ttl"}


def test_switching_the_deployment_mode_touches_no_table(metering: ModuleTest) -> None:
    """Computed attributes of a mocked resource are random: equal ones mean the very same table."""
    for address in TABLES:
        lives = [metering.states[run][address] for run in ("full", "direct_submit", "full_again", "estate")]
        assert len({table["stream_label"] for table in lives}) == 1, address
        assert lives[0] == lives[1] == lives[2]


def test_switching_the_deployment_mode_keeps_what_both_modes_have(metering: ModuleTest) -> None:
    before, after = metering.states["full"], metering.states["direct_submit"]
    shared_addresses = [r.address for r in after]

    assert len(shared_addresses) > 30
    for address in shared_addresses:
        assert address in before
    for name in ("expiry", "submitter"):
        address = f'module.function["{name}"].aws_iam_role.this[0]'
        assert before[address]["unique_id"] == after[address]["unique_id"]


def test_tables_and_environment_use_the_customers_key(estate: Resources) -> None:
    for address in TABLES:
        (encryption,) = estate[address]["server_side_encryption"]
        assert encryption["kms_key_arn"].endswith(":key/1234abcd-12ab-34cd-56ef-1234567890ab")


def test_writers_of_other_accounts_may_write_and_nothing_else(estate: Resources, full: Resources) -> None:
    (policy,) = estate.of_type("aws_dynamodb_resource_policy")
    (statement,) = json.loads(policy.values["policy"])["Statement"]

    assert policy.values["resource_arn"] == statement["Resource"] == USAGE
    assert statement["Principal"] == {"AWS": ["arn:aws:iam::444455556666:role/usage-writer"]}
    assert set(statement["Action"]) == actions("dynamodb", "BatchWriteItem", "PutItem", "UpdateItem")
    assert full.of_type("aws_dynamodb_resource_policy") == []


# --- Alarms -------------------------------------------------------------------------------------------------

BUSINESS = {
    Metric.USAGE_AGGREGATION_EXPIRED,
    Metric.USAGE_SUBMISSION_EXPIRED,
    Metric.USAGE_RECORD_REJECTED,
    Metric.USAGE_RECORD_UNPROCESSED,
    Metric.CUSTOMER_NOT_SUBSCRIBED,
    Metric.BATCH_METER_USAGE_EXCEPTION,
    Metric.LATE_AFTER_SUBMISSION,
    Metric.POSSIBLE_UNDER_BILLING,
    Metric.OUTCOME_UNKNOWN,
    Metric.DRY_RUN_NOT_BILLED,
}
PENDING_USAGE = {Metric.OLDEST_UNBILLED_AGE_SECONDS, Metric.SECONDS_TO_MONTH_END_WALL}
RUNS = {"full": {Metric.DISCOVERY_RUNS_COMPLETED, Metric.SUBMISSION_RUNS_COMPLETED},
        "direct_submit": {Metric.SUBMISSION_RUNS_COMPLETED}}  # fmt: skip


@pytest.mark.parametrize("run", ["full", "direct_submit"])
def test_everything_that_is_surfaced_alarms(run: str, metering: ModuleTest) -> None:
    """What each of these alarms makes of the metrics is played in test_alarm_behaviour."""
    alarms = {
        r.values["metric_name"]: r.values
        for r in metering.states[run].of_type("aws_cloudwatch_metric_alarm")
        if r.values["namespace"] == "AWSMarketplaceMetering"
    }

    assert set(alarms) == {str(metric) for metric in BUSINESS | PENDING_USAGE | RUNS[run]}
    for alarm in (alarms[metric] for metric in BUSINESS):
        assert alarm["dimensions"] == {"ProductCode": "1example2product3code4567", "Environment": "default"}
        assert (alarm["statistic"], alarm["threshold"]) == ("Sum", 1)
        assert alarm["comparison_operator"] == "GreaterThanOrEqualToThreshold"
        assert alarm["treat_missing_data"] == "notBreaching"


def test_every_dlq_and_every_function_alarms(full: Resources, direct: Resources) -> None:
    def watched(state: Resources, metric: str) -> set[str]:
        return {
            name.removeprefix(f"{BASE}-")
            for r in state.of_type("aws_cloudwatch_metric_alarm")
            for name in r.values["dimensions"].values()
            if r.values["metric_name"] == metric
        }

    dlqs = {r.values["name"] for r in full.of_type("aws_sqs_queue") if r.address.endswith(".dlq")}
    assert watched(full, "ApproximateNumberOfMessagesVisible") == {n.removeprefix(f"{BASE}-") for n in dlqs}
    assert watched(full, "ApproximateAgeOfOldestMessage") == {"work", "deprovision-work"}
    assert watched(direct, "ApproximateNumberOfMessagesVisible") == set()
    assert watched(direct, "ApproximateAgeOfOldestMessage") == set()
    assert watched(full, "Errors") == FUNCTIONS
    assert watched(full, "Throttles") == {"aggregator", "submitter"}
    assert watched(full, "Invocations") == SCHEDULED
    assert watched(direct, "Errors") == watched(direct, "Invocations") == {"expiry", "submitter"}
    assert watched(direct, "Throttles") == {"submitter"}


def test_what_can_wait_goes_to_the_notice_topic(estate: Resources, full: Resources) -> None:
    def topics(state: Resources) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for alarm in state.of_type("aws_cloudwatch_metric_alarm"):
            (topic,) = alarm.values["alarm_actions"]
            assert alarm.values["ok_actions"] == [topic]
            found.setdefault(topic.rsplit(":", 1)[1], set()).add(alarm.key)
        return found

    assert topics(estate)["notices"] == {
        "aggregator-throttles",
        "cleanup-errors",
        "dry-run-not-billed",
        "submitter-throttles",
        "usage-record-unprocessed",
    }
    assert set(topics(full)) == {"alarms"}


def test_a_threshold_can_be_set(estate: Resources, full: Resources) -> None:
    def thresholds(state: Resources) -> dict[str, float]:
        return {r.key: r.values["threshold"] for r in state.of_type("aws_cloudwatch_metric_alarm")}

    assert thresholds(full)["usage-record-rejected"] == 1
    assert thresholds(estate) == thresholds(full) | {"usage-record-rejected": 5}


# --- Everything ---------------------------------------------------------------------------------------------


def test_everything_that_takes_tags_is_tagged(full: Resources) -> None:
    taggable = [r for r in full if "tags" in r.values]

    assert {r.type for r in taggable} >= {
        "aws_cloudwatch_event_rule",
        "aws_cloudwatch_log_group",
        "aws_cloudwatch_metric_alarm",
        "aws_dynamodb_table",
        "aws_iam_role",
        "aws_lambda_event_source_mapping",
        "aws_lambda_function",
        "aws_sqs_queue",
        "aws_ssm_parameter",
    }
    assert [r.address for r in taggable if r.values["tags"] != {"team": "billing"}] == []


def test_the_deployment_describes_itself(full: Resources, direct: Resources, estate: Resources) -> None:
    parameter = full["aws_ssm_parameter.deployment"]
    description = json.loads(parameter["value"])

    assert parameter["name"] == "/marketplace/awsmp/metering/1example2product3code4567"
    assert parameter["type"] == "String"
    assert description["usageTable"] == f"{BASE}-usage"
    assert description["queues"]["deprovision-work"] == f"{BASE}-deprovision-work"
    assert description["deadLetterQueues"]["work"] == f"{BASE}-work-dlq"
    assert set(description["functions"]) == FUNCTIONS
    assert (description["deploymentMode"], description["meteringMode"]) == ("full", "live")
    assert (
        description["packageVersion"]
        == json.loads((REPOSITORY / "lambda_dist" / "manifest.json").read_text())["version"]
    )
    assert json.loads(direct["aws_ssm_parameter.deployment"]["value"])["queues"] == {}
    longer = estate["aws_ssm_parameter.deployment"]
    assert longer["name"] == "/marketplace/awsmp/staging/metering/1example2product3code4567"
    assert len(longer["value"]) < 4096, "a standard parameter holds 4 KB"


def test_a_keys_policy_names_roles_and_log_groups(metering: ModuleTest) -> None:
    statements = {
        s["Sid"]: s for s in json.loads(metering.outputs["estate"]["kms_key_policy_json"])["Statement"]
    }

    assert set(statements) == {"MeteringFunctions", "MeteringLogs", "MeteringWriters"}
    assert f"arn:aws:iam::{ACCOUNT}:role/own-cleanup" in statements["MeteringFunctions"]["Principal"]["AWS"]
    assert statements["MeteringLogs"]["Principal"] == {"Service": "logs.eu-west-1.amazonaws.com"}
    groups = statements["MeteringLogs"]["Condition"]["ArnEquals"]["kms:EncryptionContext:aws:logs:arn"]
    assert (
        f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:/aws/lambda/awsmp-staging-1example2product3code4567-submitter"
        in groups
    )
