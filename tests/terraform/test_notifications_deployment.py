"""What the notifications module deploys, and what it adds to events and registration, from mocked applies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from awsmp.composition_events import Settings as EventsSettings
from awsmp.domain.notifications.billing_events import SCHEMA as BILLING_EVENT_SCHEMA
from awsmp.domain.notifications.intake_events import AGREEMENT_SOURCE
from awsmp.settings_notifications import Environment, SesSettings, SmtpSettings
from awsmp.usecases.notifications.follow_contacts import REGISTRATION_SOURCE
from awsmp.usecases.notifications.forward import SUBSCRIBERS_SOURCE
from tests.terraform.tool import ModuleTest, Resource, Resources, Values, key_schemas

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployments")]

ACCOUNT = "111122223333"
RUNS = ("ses", "without_dashboard", "smtp", "estate")


def arn(service: str, rest: str, region: str = "eu-west-1") -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{rest}"


TABLE = arn("dynamodb", "table/notifications")
WORK = f"{TABLE}/index/work-index"
LOGS = arn("logs", "log-group:mock:*")
PROFILES = arn("dynamodb", "table/awsmp-1example2product3code4567-customer-profile")
SECOND_PROFILES = arn("dynamodb", "table/awsmp-2example-customer-profile")
STREAM = f"{PROFILES}/stream/2026-11-10T00:00:00.000"
SUBSCRIBERS = arn("dynamodb", "table/awsmp-subscribers", "us-east-1")
BUS = arn("events", "event-bus/awsmp-notifications")
CONTACTS_FAILED = arn("sqs", "notification-contacts-failed")
PEPPER, VERIFICATION, SMTP = (
    arn("secretsmanager", f"secret:{name}-AbCdEf") for name in ("pepper", "verification", "smtp")
)

Grants = dict[str, set[str]]


def statements(policy: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(policy)["Statement"]
    return found


def by_sid(policy: str) -> dict[str, dict[str, Any]]:
    return {statement["Sid"]: statement for statement in statements(policy)}


def grants(policy: str) -> Grants:
    granted: Grants = {}
    for statement in statements(policy):
        assert statement["Effect"] == "Allow"
        for resource in statement["Resource"]:
            granted.setdefault(resource, set()).update(statement["Action"])
    return granted


def actions(service: str, *names: str) -> set[str]:
    return {f"{service}:{name}" for name in names}


def items(*names: str) -> set[str]:
    return actions("dynamodb", *(name if name == "Query" else f"{name}Item" for name in names))


LOGGING = {LOGS: actions("logs", "CreateLogStream", "PutLogEvents")}
HOUSEKEEPING = {TABLE: items("ConditionCheck", "Delete", "Get", "Put", "Query"), WORK: items("Query")}


def consuming(queue: str) -> Grants:
    return {arn("sqs", queue): actions("sqs", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage")}


EXPECTED_GRANTS: Mapping[str, Grants] = {
    "notification-admin": HOUSEKEEPING,
    "notification-contacts": {
        STREAM: actions("dynamodb", "DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"),
        CONTACTS_FAILED: actions("sqs", "SendMessage"),
        TABLE: items("Put"),
        BUS: actions("events", "PutEvents"),
    },
    "notification-feedback": {**consuming("notification-feedback"), TABLE: items("Get", "Put", "Query")},
    "notification-intake": {
        **consuming("notification-events"),
        TABLE: items("Get", "Put"),
        SUBSCRIBERS: items("Get"),
        f"{SUBSCRIBERS}/index/agreementId-index": items("Query"),
        f"{SUBSCRIBERS}/index/customerAWSAccountId-index": items("Query"),
        PROFILES: items("Get"),
    },
    "notification-maintenance": HOUSEKEEPING,
    "notification-sender": {
        TABLE: items("ConditionCheck", "Get", "Put", "Query"),
        WORK: items("Query"),
        PEPPER: actions("secretsmanager", "GetSecretValue"),
        VERIFICATION: actions("secretsmanager", "GetSecretValue"),
        PROFILES: items("Get", "Update"),
        arn("ses", "identity/example.com"): actions("ses", "SendEmail"),
        arn("ses", "configuration-set/awsmp-notifications"): actions("ses", "SendEmail"),
    },
}


@pytest.fixture(scope="module")
def ses(notifications: ModuleTest) -> Resources:
    return notifications.states["ses"]


@pytest.fixture(scope="module")
def smtp(notifications: ModuleTest) -> Resources:
    return notifications.states["smtp"]


@pytest.fixture(scope="module")
def estate(notifications: ModuleTest) -> Resources:
    return notifications.states["estate"]


def function(state: Resources, key: str) -> Values:
    return state[f'module.function["{key}"].aws_lambda_function.this']


def environment(state: Resources, key: str) -> dict[str, str]:
    variables: dict[str, str] = function(state, key)["environment"][0]["variables"]
    return variables


def settings(state: Resources, key: str) -> Environment:
    return Environment({**environment(state, key), "AWS_REGION": "eu-west-1"})


# --- Roles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(EXPECTED_GRANTS))
def test_a_function_may_do_exactly_what_it_does(key: str, notifications: ModuleTest) -> None:
    policy = notifications.outputs["ses"]["role_policies_json"][key]

    assert grants(policy) == {**LOGGING, **EXPECTED_GRANTS[key]}


def test_mail_is_sent_under_the_senders_address_only(notifications: ModuleTest) -> None:
    send = by_sid(notifications.outputs["ses"]["role_policies_json"]["notification-sender"])["Send"]

    assert send["Condition"] == {"StringEquals": {"ses:FromAddress": "billing@example.com"}}


def test_a_mail_server_of_ones_own_needs_no_right_in_ses(notifications: ModuleTest) -> None:
    policies = notifications.outputs["smtp"]["role_policies_json"]
    granted = grants(policies["notification-sender"])

    assert "notification-feedback" not in policies
    assert not any(action.startswith("ses:") for held in granted.values() for action in held)
    assert granted[SMTP] == actions("secretsmanager", "GetSecretValue")
    # Contacts that the seller verifies: no link is written down, and no key of links is read.
    assert VERIFICATION not in granted
    assert "PendingVerifications" not in by_sid(policies["notification-sender"])


def test_a_link_is_written_down_only_where_the_table_has_a_verify_url(notifications: ModuleTest) -> None:
    sender = by_sid(notifications.outputs["estate"]["role_policies_json"]["notification-sender"])

    assert set(sender["CustomerProfiles"]["Resource"]) == {PROFILES, SECOND_PROFILES}
    assert sender["PendingVerifications"]["Resource"] == [PROFILES]
    assert sender["SecretsKey"]["Resource"] == [arn("kms", "key/secrets")]
    assert sender["CustomerProfilesKey"]["Resource"] == [arn("kms", "key/profiles")]


def test_only_the_sender_sends_mail_and_reads_secrets(notifications: ModuleTest) -> None:
    for run in RUNS:
        for key, policy in notifications.outputs[run]["role_policies_json"].items():
            held = {action for granted in grants(policy).values() for action in granted}
            trusted = {action for action in held if action.startswith(("secretsmanager:", "ses:"))}
            assert bool(trusted) is (key == "notification-sender"), (run, key)


def test_no_role_scans_or_holds_a_wildcard_action(notifications: ModuleTest) -> None:
    for run in RUNS:
        for policy in notifications.outputs[run]["role_policies_json"].values():
            for resource, allowed in grants(policy).items():
                assert not [a for a in allowed if "*" in a or a.endswith((":Scan", ":PartiQLSelect"))]
                assert resource != "*" or all(a.startswith(("ec2:", "xray:")) for a in allowed)


def test_an_estates_rules_hold_for_every_role_and_function(estate: Resources) -> None:
    roles = estate.of_type("aws_iam_role")
    functions = estate.of_type("aws_lambda_function")

    assert {role.values["name"] for role in roles} == {
        f"awsmp-staging-{key}-euw1" for key in EXPECTED_GRANTS if key != "notification-admin"
    }
    assert {(role.values["path"], role.values["permissions_boundary"]) for role in roles} == {
        ("/billing/", f"arn:aws:iam::{ACCOUNT}:policy/boundary")
    }
    assert len(functions) == len(EXPECTED_GRANTS)
    for each in functions:
        assert each.values["kms_key_arn"].startswith("arn:aws:kms:"), each.address
        assert each.values["vpc_config"][0]["subnet_ids"] == ["subnet-0a"], each.address
        assert each.values["tracing_config"][0]["mode"] == "Active", each.address
        assert (each.values["runtime"], each.values["architectures"]) == ("python3.12", ["x86_64"])
    assert function(estate, "notification-admin")["role"] == f"arn:aws:iam::{ACCOUNT}:role/own-admin"
    assert function(estate, "notification-sender")["reserved_concurrent_executions"] == 1


# --- Settings: what the functions' own code reads out of their environments ---------------------------------


def test_the_senders_code_takes_its_settings_as_they_are_deployed(ses: Resources) -> None:
    env = settings(ses, "notification-sender")
    default, contexts = env.contexts()

    assert env.transport() == SesSettings("awsmp-notifications")
    assert env.sender().value == "billing@example.com"
    assert (default.product, default.portal_url) == ("Example Analytics", "https://app.example.com/billing")
    assert contexts == {}
    assert dict(env.profile_tables()) == {
        "awsmp-1example2product3code4567-customer-profile": "https://buy.example.com/verify"
    }
    assert env.required("PEPPER_SECRET_ARN") == PEPPER
    assert env.required("VERIFICATION_SECRET_ARN") == VERIFICATION


def test_the_senders_code_takes_a_mail_server_of_ones_own(smtp: Resources) -> None:
    transport = settings(smtp, "notification-sender").transport()

    assert isinstance(transport, SmtpSettings)
    assert (transport.host, transport.port, str(transport.security)) == ("smtp.example.com", 465, "implicit")
    assert transport.credentials_secret_arn == SMTP


def test_labels_of_a_product_fall_back_to_those_of_all(estate: Resources) -> None:
    _, contexts = settings(estate, "notification-sender").contexts()

    assert set(contexts) == {"2example"}
    assert contexts["2example"].product == "Example Reports"
    assert contexts["2example"].portal_url == "https://reports.example.com/"
    assert contexts["2example"].seller == "Example Corp."


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("key", ["notification-admin", "notification-maintenance", "notification-sender"])
def test_the_limits_of_all_functions_agree_and_a_claim_outlasts_the_sender(
    run: str, key: str, notifications: ModuleTest
) -> None:
    state = notifications.states[run]
    limits = settings(state, key).limits()

    assert limits == settings(state, "notification-sender").limits()
    assert limits.send_timeout.total_seconds() < function(state, "notification-sender")["timeout"]
    assert function(state, "notification-sender")["timeout"] < limits.stale_after.total_seconds()


def test_limits_are_those_that_were_given(estate: Resources) -> None:
    limits = settings(estate, "notification-sender").limits()

    assert (limits.max_age.days, limits.max_attempts, limits.batch) == (30, 100, 1000)
    assert (limits.send_timeout.seconds, limits.stale_after.seconds) == (120, 180)
    assert limits.feedback_retention.days == 3650
    assert settings(estate, "notification-sender").verification_lifetime().total_seconds() == 168 * 3600


def test_the_other_functions_find_what_they_work_on(ses: Resources) -> None:
    intake, contacts = settings(ses, "notification-intake"), settings(ses, "notification-contacts")
    topic = settings(ses, "notification-feedback").required("FEEDBACK_TOPIC_ARN")

    assert intake.required("SUBSCRIBERS_TABLE") == "awsmp-subscribers"
    assert intake.required("SUBSCRIBERS_TABLE_REGION") == "us-east-1"
    assert intake.profile_tables() == contacts.profile_tables()
    assert contacts.event_bus() == BUS
    assert topic == ses["aws_sns_topic.feedback[0]"]["arn"]
    names = {environment(ses, key)["NOTIFICATIONS_TABLE"] for key in EXPECTED_GRANTS}
    assert names == {ses["aws_dynamodb_table.notifications"]["name"]} == {"awsmp-notifications"}


@pytest.mark.parametrize("run", RUNS)
def test_an_environment_fits_into_what_lambda_takes(run: str, notifications: ModuleTest) -> None:
    for each in notifications.states[run].of_type("aws_lambda_function"):
        variables: dict[str, str] = each.values["environment"][0]["variables"]
        assert sum(len(f"{k}{v}".encode()) for k, v in variables.items()) <= 4096, each.address


# --- The table ----------------------------------------------------------------------------------------------


def test_the_table_has_the_keys_that_the_store_uses(ses: Resources) -> None:
    assert key_schemas(ses["aws_dynamodb_table.notifications"]) == {
        "": ("pk", "sk"),
        "work-index": ("workQueue", "dueAt", "KEYS_ONLY", ()),
    }


def test_the_table_is_protected_restorable_and_never_replaced(notifications: ModuleTest) -> None:
    lives = [notifications.states[run]["aws_dynamodb_table.notifications"] for run in RUNS]

    assert [table["deletion_protection_enabled"] for table in lives] == [True, True, True, False]
    assert all(table["point_in_time_recovery"][0]["enabled"] for table in lives)
    # A mock gives a random stream label to each table that it makes.
    assert len({table["stream_label"] for table in lives[:3]}) == 1


def test_templates_lie_in_the_table_under_the_keys_that_the_sender_reads(estate: Resources) -> None:
    written = [json.loads(each.values["item"]) for each in estate.of_type("aws_dynamodb_table_item")]

    assert {item["pk"]["S"] for item in written} == {"template"}
    assert {item["sk"]["S"]: set(item) - {"pk", "sk"} for item in written} == {
        "subscription_started#de": {"subject", "text"},
        "subscription_started#pt-br": {"subject", "text"},
        "address_verification#de": {"subject", "text"},
        "details#de": {"text"},
    }


# --- What comes in ------------------------------------------------------------------------------------------


def test_the_rules_match_what_the_functions_put_and_nothing_else(ses: Resources) -> None:
    patterns = {
        each.key: json.loads(each.values["event_pattern"])
        for each in ses.of_type("aws_cloudwatch_event_rule", "aws_cloudwatch_event_rule.this")
    }

    assert set(patterns) == {"billing", "events"}
    assert patterns["billing"] == {"detail": {"schema": [BILLING_EVENT_SCHEMA]}}
    assert set(patterns["events"]) == {"source"}
    assert sorted(patterns["events"]["source"]) == sorted(
        [AGREEMENT_SOURCE, REGISTRATION_SOURCE, SUBSCRIBERS_SOURCE]
    )


def test_every_rule_has_the_queue_for_a_target_and_its_dlq_for_what_fails(ses: Resources) -> None:
    targets = ses.of_type("aws_cloudwatch_event_target", "aws_cloudwatch_event_target.this")

    assert len(targets) == 2
    for target in targets:
        assert target.values["event_bus_name"] == "awsmp-notifications"
        assert target.values["arn"] == arn("sqs", "notification-events")
        assert target.values["dead_letter_config"][0]["arn"] == arn("sqs", "notification-events-dlq")
        assert not target.values["input"] and not target.values["input_transformer"]


def allowed_senders(state: Resources, address: str) -> dict[str, tuple[Any, Any]]:
    return {
        statement["Sid"]: (statement["Principal"], statement.get("Condition"))
        for statement in statements(state[address]["policy"])
        if statement["Effect"] == "Allow"
    }


def from_service(service: str, source: str) -> tuple[Any, Any]:
    return {"Service": f"{service}.amazonaws.com"}, {"ArnEquals": {"aws:SourceArn": source}}


BY_RULES = {
    "BillingRule": from_service("events", arn("events", "rule/notifications/billing")),
    "EventsRule": from_service("events", arn("events", "rule/notifications/events")),
}


def test_only_the_rules_send_to_the_queue(ses: Resources, estate: Resources) -> None:
    queue, dlq = (f'module.event_queue.aws_sqs_queue_policy.this["{key}"]' for key in ("queue", "dlq"))
    billing = {"Writers": ({"AWS": ["arn:aws:iam::444455556666:role/billing"]}, None)}

    assert allowed_senders(ses, queue) == allowed_senders(ses, dlq) == BY_RULES
    assert allowed_senders(estate, queue) == BY_RULES | billing
    # With a key of the caller's, the bus keeps there what it cannot encrypt.
    assert allowed_senders(estate, dlq) == BY_RULES | {"EventBus": from_service("events", BUS)}
    assert estate["aws_cloudwatch_event_bus.this"]["dead_letter_config"][0]["arn"] == arn(
        "sqs", "notification-events-dlq"
    )


def test_nobody_outside_puts_on_the_bus_unless_named_and_nobody_for_another(
    ses: Resources, estate: Resources
) -> None:
    assert ses.of_type("aws_cloudwatch_event_bus_policy") == []
    policy = by_sid(estate["aws_cloudwatch_event_bus_policy.this[0]"]["policy"])
    ours = {AGREEMENT_SOURCE, SUBSCRIBERS_SOURCE}

    assert set(policy) == {"Billing", "Forwarders"}
    assert all(each["Action"] == "events:PutEvents" and each["Resource"] == BUS for each in policy.values())
    assert set(policy["Forwarders"]["Condition"]["StringEquals"]["events:source"]) == ours
    assert len(policy["Forwarders"]["Principal"]["AWS"]) == 2
    assert policy["Billing"]["Principal"] == {"AWS": ["arn:aws:iam::444455556666:role/billing"]}
    refused = policy["Billing"]["Condition"]["StringNotEquals"]["events:source"]
    assert set(refused) == ours | {REGISTRATION_SOURCE}


def test_billing_of_this_account_gets_a_policy_that_cannot_speak_for_the_functions(
    notifications: ModuleTest,
) -> None:
    plain = by_sid(notifications.outputs["ses"]["billing_event_writer_policy_json"])
    keyed = by_sid(notifications.outputs["estate"]["billing_event_writer_policy_json"])

    assert plain["SendBillingEvents"]["Resource"] == [arn("sqs", "notification-events")]
    assert REGISTRATION_SOURCE in plain["PutBillingEvents"]["Condition"]["StringNotEquals"]["events:source"]
    assert set(keyed) - set(plain) == {"EncryptBillingEvents"}


# --- Streams ------------------------------------------------------------------------------------------------


def check_stream(mapping: Resource, stream: str, failures: str) -> None:
    values = mapping.values
    assert values["event_source_arn"] == stream
    assert values["starting_position"] == "TRIM_HORIZON"
    assert values["function_response_types"] == ["ReportBatchItemFailures"]
    assert values["bisect_batch_on_function_error"] is True
    assert values["batch_size"] == 25
    # Half of a stream's 24 hours: what waits behind a record that is given up is still there then.
    assert (values["maximum_retry_attempts"], values["maximum_record_age_in_seconds"]) == (-1, 12 * 3600)
    assert values["destination_config"][0]["on_failure"][0]["destination_arn"] == failures


def test_every_profile_tables_stream_feeds_the_contacts_function(estate: Resources) -> None:
    mappings = {
        each.key: each
        for each in estate.of_type("aws_lambda_event_source_mapping", 'module.function["notification-c')
    }

    assert set(mappings) == {"one", "two"}
    for key, table in (("one", PROFILES), ("two", SECOND_PROFILES)):
        check_stream(mappings[key], f"{table}/stream/2026-11-10T00:00:00.000", CONTACTS_FAILED)


def test_contacts_tell_of_verified_addresses_under_their_own_source_only(notifications: ModuleTest) -> None:
    tell = by_sid(notifications.outputs["ses"]["role_policies_json"]["notification-contacts"])["TellVerified"]

    assert tell["Condition"] == {"StringEquals": {"events:source": REGISTRATION_SOURCE}}


# --- Schedules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "every", "task", "age"),
    [("sender", "rate(1 minute)", "send", 60), ("maintenance", "rate(5 minutes)", "maintain", 300)],
)
def test_a_schedule_calls_its_function_with_a_constant_input_and_drops_what_is_late(
    key: str, every: str, task: str, age: int, ses: Resources
) -> None:
    rule = ses[f'aws_cloudwatch_event_rule.schedule["{key}"]']
    target = ses[f'aws_cloudwatch_event_target.schedule["{key}"]']
    again = ses[f'module.function["notification-{key}"].aws_lambda_function_event_invoke_config.this[0]']

    assert rule["schedule_expression"] == every
    assert json.loads(target["input"]) == {"task": task}
    assert target["retry_policy"][0]["maximum_retry_attempts"] == 0
    assert target["retry_policy"][0]["maximum_event_age_in_seconds"] == age
    assert again["maximum_retry_attempts"] == 0


# --- Feedback -----------------------------------------------------------------------------------------------


def test_ses_reports_bounces_and_complaints_to_the_topic(ses: Resources) -> None:
    (destination,) = ses["aws_sesv2_configuration_set_event_destination.feedback[0]"]["event_destination"]

    assert set(destination["matching_event_types"]) == {"BOUNCE", "COMPLAINT"}
    assert destination["sns_destination"][0]["topic_arn"] == ses["aws_sns_topic.feedback[0]"]["arn"]


def test_only_ses_publishes_and_only_for_this_configuration_set(ses: Resources) -> None:
    policy = by_sid(ses["aws_sns_topic_policy.feedback[0]"]["policy"])

    assert [sid for sid, each in policy.items() if each["Effect"] == "Allow"] == ["Ses"]
    assert policy["Ses"]["Principal"] == {"Service": "ses.amazonaws.com"}
    assert policy["Ses"]["Condition"]["StringEquals"] == {
        "aws:SourceAccount": ACCOUNT,
        "aws:SourceArn": arn("ses", "configuration-set/awsmp-notifications"),
    }


def test_only_the_topic_sends_to_the_feedback_queue_with_its_envelope(ses: Resources) -> None:
    topic = ses["aws_sns_topic.feedback[0]"]["arn"]
    queue, dlq = (f'module.feedback_queue[0].aws_sqs_queue_policy.this["{key}"]' for key in ("queue", "dlq"))

    assert allowed_senders(ses, queue) == {"FeedbackTopic": from_service("sns", topic)}
    assert allowed_senders(ses, dlq) == {}
    assert not ses["aws_sns_topic_subscription.feedback[0]"]["raw_message_delivery"]


def test_what_holds_addresses_is_encrypted_and_kept_for_days_only(ses: Resources, estate: Resources) -> None:
    queue, dlq = (f"module.feedback_queue[0].aws_sqs_queue.{name}" for name in ("this", "dlq"))

    assert ses[queue]["message_retention_seconds"] == 86400
    # SQS counts from the first sending, so the DLQ keeps a message for longer than the queue did.
    assert ses[dlq]["message_retention_seconds"] == 4 * 86400
    assert ses[queue]["sqs_managed_sse_enabled"] is True
    assert ses["aws_sns_topic.feedback[0]"]["kms_master_key_id"] == ses["aws_kms_key.feedback[0]"]["arn"]
    own = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    assert estate["aws_sns_topic.feedback[0]"]["kms_master_key_id"] == own
    assert {each.values["kms_master_key_id"] for each in estate.of_type("aws_sqs_queue")} == {own}
    assert estate.of_type("aws_kms_key") == []


def test_without_ses_there_is_no_part_for_its_feedback(smtp: Resources) -> None:
    kinds = {each.type for each in smtp}

    assert not [
        kind for kind in kinds if kind.startswith(("aws_sesv2_", "aws_sns_")) or kind == "aws_kms_key"
    ]
    assert 'module.function["notification-feedback"].aws_lambda_function.this' not in smtp
    assert not [each for each in smtp if "feedback_queue" in each.address]


# --- Keys ---------------------------------------------------------------------------------------------------


def test_a_keys_policy_names_every_service_that_needs_it(notifications: ModuleTest) -> None:
    estate = by_sid(notifications.outputs["estate"]["kms_key_policy_json"])
    smtp = by_sid(notifications.outputs["smtp"]["kms_key_policy_json"])
    topic = "arn:aws:sns:eu-west-1:111122223333:awsmp-staging-notification-feedback"

    of_ses = {"NotificationsFeedbackQueue", "NotificationsFeedbackTopic"}
    everywhere = {"Functions", "BusKey", "Delivery", "Logs"}
    assert set(smtp) == {f"Notifications{name}" for name in everywhere}
    assert set(estate) == set(smtp) | of_ses | {"NotificationsBilling"}
    assert estate["NotificationsFeedbackTopic"]["Condition"] == {
        "StringEquals": {"kms:EncryptionContext:aws:sns:topicArn": topic}
    }
    assert estate["NotificationsBusKey"]["Action"] == ["kms:DescribeKey"]
    for sid in ("NotificationsDelivery", "NotificationsFeedbackQueue"):
        assert estate[sid]["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
    assert estate["NotificationsBilling"]["Condition"] == {
        "StringEquals": {"kms:ViaService": "sqs.eu-west-1.amazonaws.com"}
    }


# --- The whole ----------------------------------------------------------------------------------------------


def test_the_deployment_describes_itself(estate: Resources) -> None:
    parameter = estate["aws_ssm_parameter.deployment"]
    description = json.loads(parameter["value"])

    assert parameter["name"] == "/marketplace/awsmp/staging/notifications"
    assert description["notificationsTable"] == "awsmp-staging-notifications"
    assert description["eventDeadLetterQueue"] == "awsmp-staging-notification-events-dlq"
    assert set(description["functions"]) == set(EXPECTED_GRANTS)
    assert len(parameter["value"]) < 4096


def test_everything_that_can_be_tagged_is(ses: Resources) -> None:
    taggable = [each for each in ses if "tags" in each.values and each.type != "aws_dynamodb_table_item"]

    assert len(taggable) > 40
    assert [each.address for each in taggable if each.values["tags"] != {"team": "billing"}] == []


# --- What it adds to the events module ----------------------------------------------------------------------

FORWARDER = "module.forwarder[0].aws_lambda_function.this"
SUBSCRIBERS_STREAM = arn("dynamodb", "table/subscribers/stream/2026-11-10T00:00:00.000", "us-east-1")


def test_a_function_forwards_every_change_to_every_bus(events: ModuleTest) -> None:
    state = events.states["forwarding"]
    policy = by_sid(events.outputs["forwarding"]["role_policies_json"]["subscriber-forwarder"])
    buses = [
        f"arn:aws:events:{region}:{ACCOUNT}:event-bus/notifications" for region in ("eu-west-1", "us-east-1")
    ]
    failures = arn("sqs", "subscriber-forwarder-failed", "us-east-1")

    assert set(policy) == {"Logs", "ConsumeStream", "GiveUp", "ForwardChanges"}
    assert policy["ForwardChanges"]["Resource"] == buses
    assert policy["ForwardChanges"]["Condition"] == {"StringEquals": {"events:source": SUBSCRIBERS_SOURCE}}
    assert policy["ConsumeStream"]["Resource"] == [SUBSCRIBERS_STREAM]
    assert policy["GiveUp"]["Resource"] == [failures]
    (mapping,) = state.of_type("aws_lambda_event_source_mapping", "module.forwarder")
    check_stream(mapping, SUBSCRIBERS_STREAM, failures)
    variables = state[FORWARDER]["environment"][0]["variables"]
    assert sorted(EventsSettings.from_environment(variables).forward_event_buses.values()) == buses


def test_each_of_the_two_forwards_under_its_own_source(events: ModuleTest) -> None:
    forward = by_sid(events.outputs["forwarding"]["role_policies_json"]["subscription"])["ForwardEvents"]

    assert forward["Condition"] == {"StringEquals": {"events:source": AGREEMENT_SOURCE}}


def test_forwarding_is_an_addition_that_replaces_nothing(events: ModuleTest) -> None:
    plain, forwarding = events.states["plain"], events.states["forwarding"]
    added = {each.address for each in forwarding} - {each.address for each in plain}

    assert {each.address for each in plain} <= {each.address for each in forwarding}
    assert {address.split(".")[1].split("[")[0] for address in added} == {
        "alarms",
        "forward_failed",
        "forwarder",
        "forwarding",
    }
    assert FORWARDER not in plain


def test_a_keys_policy_of_events_does_not_depend_on_the_buses(events: ModuleTest) -> None:
    """The buses may be encrypted with the very key: what the policy says is the same with and without."""
    without, along = (events.outputs[run]["kms_key_policy_json"] for run in ("plain", "forwarding"))
    forwarder = by_sid(along)["EventsForwarder"]

    assert without == along
    assert forwarder["Principal"] == {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    assert forwarder["Condition"] == {
        "ArnEquals": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:role/awsmp-subscriber-forwarder-use1"}
    }
    own = by_sid(events.outputs["estate"]["kms_key_policy_json"])["EventsForwarder"]
    assert own["Condition"]["ArnEquals"]["aws:PrincipalArn"].endswith("role/own-forwarder")


# --- What it adds to the registration module ----------------------------------------------------------------

ROUTES = {"GET /verify", "HEAD /verify", "POST /verify"}


def routes(state: Resources) -> set[str]:
    return {each.key for each in state.of_type("aws_api_gateway_method")}


def test_the_verify_route_is_there_with_address_verification_only(registration: ModuleTest) -> None:
    assert routes(registration.states["verifying"]) - routes(registration.states["regional"]) == ROUTES
    for run in ("regional", "cloudfront", "own_page", "estate"):
        assert not routes(registration.states[run]) & ROUTES, run
        assert "verify" not in registration.outputs[run]["role_policies_json"]


def test_the_verify_function_reads_a_profile_and_the_key_of_links_and_no_more(
    registration: ModuleTest,
) -> None:
    policy = registration.outputs["verifying"]["role_policies_json"]["verify"]
    keyed = by_sid(registration.outputs["cloudfront_verifying"]["role_policies_json"]["verify"])

    assert grants(policy) == {
        **LOGGING,
        arn("dynamodb", "table/customer-profile"): items("Get", "Update"),
        VERIFICATION: actions("secretsmanager", "GetSecretValue"),
    }
    assert keyed["VerificationSecretKey"]["Action"] == ["kms:Decrypt"]
    assert keyed["VerificationSecretKey"]["Resource"] == [arn("kms", "key/secrets")]


def test_the_link_reaches_the_api_through_cloudfront_and_is_never_cached(registration: ModuleTest) -> None:
    distribution = registration.states["cloudfront_verifying"]["aws_cloudfront_distribution.this[0]"]
    behaviors = {each["path_pattern"]: each for each in distribution["ordered_cache_behavior"]}

    assert behaviors["/verify"]["cache_policy_id"] == behaviors["/register"]["cache_policy_id"]
    assert behaviors["/verify"]["target_origin_id"] == "api"
    assert {"GET", "HEAD", "POST"} <= set(behaviors["/verify"]["allowed_methods"])


def test_switching_verification_on_replaces_nothing(registration: ModuleTest) -> None:
    before, after = registration.states["regional"], registration.states["verifying"]

    assert {each.address for each in before} <= {each.address for each in after}
    for address in ("aws_dynamodb_table.customer_profile", "aws_api_gateway_rest_api.this"):
        assert before[address]["arn"] == after[address]["arn"]
