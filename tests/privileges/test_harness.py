"""The judge of the functions' calls sees what it has to see, and fails where it has to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from sandbox.module_docs import roles_document
from tests.privileges.judging import BY_AWS, Judgement, Roles, Use, module_roles, resource_name
from tests.privileges.permissions import Call, Grant, calls_of, grants_of
from tests.privileges.plugin import JUDGE_UNUSED, Privileges, is_whole
from tests.privileges.recording import (
    EVERY,
    FROM_ADDRESS,
    NO_HANDLERS,
    RecordedCall,
    Recorder,
    handler_modules,
)
from tests.unit.metering_world import LEDGER, USAGE, MeteringWorld

INSERT = "INSERT INTO \"t\" VALUE {'a': ?}"
USAGE_ARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/usage"
READ = {"Sid": "Usage", "Effect": "Allow", "Action": ["dynamodb:Query"], "Resource": [USAGE_ARN]}
SEND = {
    "Sid": "Send",
    "Effect": "Allow",
    "Action": ["ses:SendEmail"],
    "Resource": ["arn:aws:ses:eu-west-1:111122223333:identity/example.com"],
    "Condition": {"StringEquals": {"ses:FromAddress": "billing@example.com"}},
}


def roles(**deployments: list[Mapping[str, Any]]) -> Roles:
    """The role of one function, the reader, in some deployments."""
    return Roles.of({"module": {name: {"reader": given} for name, given in deployments.items()}})


def call(**changes: Any) -> RecordedCall:
    return RecordedCall("reader", "full", "dynamodb:Query", "usage")._replace(**changes)


# --- Judging ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({}, True),
        ({"action": "dynamodb:Scan"}, False),
        ({"resource": "usage/index/metering_pending"}, False),
        ({"resource": "aggregated-usage"}, False),
        ({"function": "writer"}, False),
        ({"deployment": "direct_submit"}, False),
        ({"deployment": "none such"}, False),
        ({"deployment": EVERY}, False),
    ],
)
def test_a_call_is_judged_by_function_deployment_action_and_resource(
    changes: dict[str, str], allowed: bool
) -> None:
    other = {**READ, "Action": ["dynamodb:GetItem"]}
    judged = roles(full=[READ], direct_submit=[other])

    assert judged.not_allowed([call(**changes)]) == (set() if allowed else {call(**changes)})


def test_what_settings_do_not_change_has_to_be_allowed_in_every_deployment_of_a_function() -> None:
    assert roles(full=[READ], other=[READ]).not_allowed([call(deployment=EVERY)]) == set()


@pytest.mark.parametrize(
    ("context", "allowed"),
    [
        ((("ses:FromAddress", FROM_ADDRESS),), True),
        ((("ses:FromAddress", "somebody@example.com"),), False),
        ((), False),
    ],
)
def test_a_condition_has_to_be_met(context: tuple[tuple[str, str], ...], allowed: bool) -> None:
    made = call(action="ses:SendEmail", resource="identity", context=context)

    assert (roles(full=[SEND]).not_allowed([made]) == set()) is allowed


@pytest.mark.parametrize(
    "change",
    [
        {"Effect": "Deny"},
        {"NotAction": ["s3:*"]},
        {"Condition": {"StringLike": {"ses:FromAddress": "*"}}},
    ],
)
def test_a_statement_that_cannot_be_judged_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="reader"):
        grants_of({"reader": json.dumps({"Statement": [{**READ, **change}]})})


def test_an_allowed_action_that_nothing_needs_is_found_for_each_of_its_resources() -> None:
    index = f"{USAGE_ARN}/index/metering_pending"
    judged = roles(full=[{**READ, "Resource": [USAGE_ARN, index]}], other=[READ])

    assert judged.never_used([]) == {
        Use("reader", "Usage", "dynamodb:Query", "usage"),
        Use("reader", "Usage", "dynamodb:Query", "usage/index/metering_pending"),
    }
    assert judged.never_used([call()]) == {
        Use("reader", "Usage", "dynamodb:Query", "usage/index/metering_pending")
    }


def test_what_aws_itself_does_is_excused_by_statement_and_action() -> None:
    polled = {
        "Sid": "Consume",
        "Effect": "Allow",
        "Action": ["sqs:ReceiveMessage", "sqs:PurgeQueue"],
        "Resource": ["arn:aws:sqs:eu-west-1:111122223333:work"],
    }

    assert roles(full=[polled, {**polled, "Sid": "Other"}]).never_used([]) == {
        Use("reader", "Consume", "sqs:PurgeQueue", "work"),
        Use("reader", "Other", "sqs:PurgeQueue", "work"),
        Use("reader", "Other", "sqs:ReceiveMessage", "work"),
    }


def test_no_excuse_is_left_over() -> None:
    held = {(grant.sid, grant.action) for grants in module_roles().grants.values() for grant in grants}
    unheld = {sid for excuse in BY_AWS for sid in excuse.sids} - {sid for sid, _ in held}

    # No deployment of the modules' tests has tracing on.
    assert unheld <= {"Tracing"}
    for excuse in BY_AWS:
        used = {action for sid, action in held if sid in excuse.sids}
        assert excuse.sids <= unheld or excuse.actions <= used, excuse.why


def test_two_modules_do_not_share_the_name_of_a_function() -> None:
    with pytest.raises(ValueError, match="reader"):
        Roles.of({"one": {"full": {"reader": [READ]}}, "two": {"plain": {"reader": [READ]}}})


@pytest.mark.parametrize(
    ("arn", "name"),
    [
        ("*", "*"),
        ("arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers", "subscribers"),
        ("arn:aws:dynamodb:eu-west-1:111122223333:table/usage/index/i", "usage/index/i"),
        (
            "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-1example2product3code4567-customer-profile",
            "customer-profile",
        ),
        ("arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-own-customer-profile", "customer-profile"),
        ("arn:aws:dynamodb:us-east-1:111122223333:table/parked-agreement-events", "parked-agreement-events"),
        ("arn:aws:sqs:eu-west-1:111122223333:deprovision-work", "deprovision-work"),
        ("arn:aws:events:eu-west-1:111122223333:event-bus/notifications", "event-bus"),
        ("arn:aws:secretsmanager:eu-west-1:111122223333:secret:pepper-AbCdEf", "secret/pepper"),
        ("arn:aws:ses:eu-west-1:111122223333:configuration-set/awsmp", "configuration-set"),
    ],
)
def test_a_resource_has_a_short_name(arn: str, name: str) -> None:
    assert resource_name(arn) == name


# --- Recording ----------------------------------------------------------------------------------------------


def test_every_handler_has_a_role_that_its_calls_are_held_against() -> None:
    functions = {name.replace("_", "-") for name in handler_modules()}

    assert functions == module_roles().functions()
    assert not NO_HANDLERS & set(handler_modules())


@pytest.mark.parametrize(
    ("service", "operation", "request_", "expected"),
    [
        ("dynamodb", "GetItem", {"TableName": "t"}, {("dynamodb:GetItem", "T")}),
        ("dynamodb", "Query", {"TableName": "t", "IndexName": "i"}, {("dynamodb:Query", "T/index/i")}),
        ("dynamodb", "BatchGetItem", {"RequestItems": {"t": {}}}, {("dynamodb:BatchGetItem", "T")}),
        (
            "dynamodb",
            "BatchExecuteStatement",
            {"Statements": [{"Statement": 'UPDATE "t" SET a=?'}, {"Statement": INSERT}]},
            {("dynamodb:PartiQLUpdate", "T"), ("dynamodb:PartiQLInsert", "T")},
        ),
        (
            "dynamodb",
            "TransactWriteItems",
            {"TransactItems": [{"Put": {"TableName": "t"}}, {"ConditionCheck": {"TableName": "t"}}]},
            {("dynamodb:PutItem", "T"), ("dynamodb:ConditionCheckItem", "T")},
        ),
        ("sqs", "SendMessageBatch", {"QueueUrl": "q"}, {("sqs:SendMessage", "Q")}),
        ("secretsmanager", "GetSecretValue", {"SecretId": "s"}, {("secretsmanager:GetSecretValue", "S")}),
        ("marketplace", "BatchMeterUsage", {}, {("aws-marketplace:BatchMeterUsage", "*")}),
        (
            "ses",
            "SendEmail",
            {"FromEmailAddress": "f", "ConfigurationSetName": "c"},
            {("ses:SendEmail", "F"), ("ses:SendEmail", "C")},
        ),
        (
            "events",
            "PutEvents",
            {"Entries": [{"EventBusName": "b", "Source": "s"}]},
            {("events:PutEvents", "B")},
        ),
    ],
)
def test_a_request_is_what_aws_checks_for_it(
    service: str, operation: str, request_: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    resources = {name.lower(): name for name in "TQSFCB"}

    made = set(calls_of("reader", service, operation, request_, resources))

    assert {(each.action, each.resource) for each in made} == expected


def test_the_calls_of_a_function_are_recorded_as_what_its_policy_calls_them() -> None:
    world, recorder = MeteringWorld(), Recorder()

    recorded = recorder.recording("cleanup", world.runtime)
    recorded.clients.dynamodb.get_item(TableName=LEDGER, Key={"licenseArn": {"S": "a"}, **SORT})
    recorded.clients.sqs.send_message_batch(
        QueueUrl=world.urls["work"], Entries=[{"Id": "0", "MessageBody": "b"}]
    )

    assert recorder.calls == {
        RecordedCall("cleanup", "full", "dynamodb:GetItem", "aggregated-usage"),
        RecordedCall("cleanup", "full", "sqs:SendMessage", "work"),
    }
    assert world.meter.requests["GetItem"] == 1
    client: Any = world.runtime.clients.dynamodb
    assert recorded.clients.dynamodb.exceptions is client.exceptions


SORT = {"customerAWSAccountId#dimension#hour": {"S": "b"}}


def test_a_table_of_another_region_is_no_table_of_this_one() -> None:
    world, recorder = MeteringWorld(), Recorder()
    recorded = recorder.recording("submitter", world.runtime)

    with pytest.raises(recorded.clients.subscribers.exceptions.ResourceNotFoundException):
        recorded.clients.subscribers.query(
            TableName=USAGE,
            KeyConditionExpression="licenseArn = :l",
            ExpressionAttributeValues={":l": {"S": "a"}},
        )

    assert module_roles().not_allowed(recorder.calls) == recorder.calls
    assert {each.resource for each in recorder.calls} == {f"{USAGE} (in no setting)"}


@pytest.mark.parametrize(
    ("settings", "deployment"),
    [({}, "full"), ({"work_queue_url": ""}, "direct_submit"), ({"dry_run": True}, "estate")],
)
def test_settings_tell_which_deployment_a_function_is_of(settings: dict[str, Any], deployment: str) -> None:
    world, recorder = MeteringWorld(**settings), Recorder()
    metered = recorder.recording("submitter", world.runtime)

    metered.clients.dynamodb.get_item(TableName=LEDGER, Key={"licenseArn": {"S": "a"}, **SORT})

    assert {each.deployment for each in recorder.calls} == {deployment}


def test_an_unknown_runtime_is_refused_because_its_calls_would_go_unseen() -> None:
    with pytest.raises(TypeError, match="dict"):
        Recorder().recording("cleanup", {})


def test_this_run_records() -> None:
    """The functions that the other tests call are the recording ones."""
    from awsmp.handlers import cleanup, register  # noqa: PLC0415

    for module in (cleanup, register):
        assert hasattr(module.run, "__wrapped__")


# --- The run ------------------------------------------------------------------------------------------------


class Session:
    """What the plugin reads and sets of a session."""

    def __init__(self, *, failed: int = 0, worker: dict[str, Any] | None = None) -> None:
        self.testsfailed = failed
        self.shouldstop = False
        self.exitstatus = pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK
        self.config = type("Config", (), {} if worker is None else {"workeroutput": worker})()


def plugin(*, judge_unused: bool = True, calls: set[RecordedCall] | None = None) -> Privileges:
    return Privileges(roles(full=[READ]), Recorder(calls or set()), judge_unused=judge_unused)


def finish(judge: Privileges, **session: Any) -> pytest.ExitCode:
    ended: Any = Session(**session)
    judge.pytest_sessionfinish(ended)
    status: pytest.ExitCode = ended.exitstatus
    return status


def test_a_run_in_which_everything_allowed_was_used_passes() -> None:
    assert finish(plugin(calls={call()})) == pytest.ExitCode.OK


def test_a_run_that_leaves_a_permission_unused_fails_and_names_it() -> None:
    judge = plugin()

    assert finish(judge) == pytest.ExitCode.TESTS_FAILED
    assert judge.judgement.lines() == [
        "reader may dynamodb:Query on usage (statement Usage), and no test needed it"
    ]


def test_a_run_of_a_part_says_nothing_of_what_it_left_unused() -> None:
    assert finish(plugin(judge_unused=False)) == pytest.ExitCode.OK


def test_a_run_that_failed_for_another_reason_is_not_blamed_on_permissions() -> None:
    judge = plugin()

    finish(judge, failed=1)

    assert judge.judgement == Judgement()


class Terminal:
    """Keeps what is written at the end of a run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, _title: str, **_markup: bool) -> None:
        """Begin a section, which is not kept."""

    def write_line(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (0, "1 kinds of call: 0 not allowed, 0 allowed and never used"),
        (1, "1 kinds of call: 0 not allowed, what was never used is not judged"),
    ],
)
def test_a_run_tells_only_what_it_has_judged(failed: int, told: str) -> None:
    judge, terminal = plugin(calls={call()}), Terminal()
    finish(judge, failed=failed)

    judge.pytest_terminal_summary(terminal)

    assert terminal.lines == [told]


def test_a_call_that_is_not_allowed_fails_the_test_that_made_it_once() -> None:
    judge = plugin(calls={call(action="dynamodb:Scan")})

    with pytest.raises(pytest.fail.Exception, match=r"reader asked for dynamodb:Scan on usage"):
        judge.pytest_runtest_teardown()
    judge.pytest_runtest_teardown()

    assert finish(judge) == pytest.ExitCode.TESTS_FAILED


def test_workers_hand_their_calls_to_the_controller() -> None:
    output: dict[str, Any] = {}
    made = {call(), call(action="ses:SendEmail", context=(("ses:FromAddress", "a"),))}
    assert finish(plugin(calls=made), worker=output) == pytest.ExitCode.OK
    controller = plugin()

    node: Any = type("Node", (), {"workeroutput": output})()
    controller.pytest_testnodedown(node, None)

    assert controller.recorder.calls == made


def test_a_worker_that_crashed_leaves_no_verdict_on_unused_permissions() -> None:
    controller = plugin()

    controller.pytest_testnodedown(object(), "crashed")

    assert finish(controller) == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("changes", "whole"),
    [
        ({}, True),
        ({"markexpr": "not slow"}, False),
        ({"keyword": "cleanup"}, False),
        ({"deselect": ["tests/unit"]}, False),
        ({"lf": True}, False),
        ({"collectonly": True}, False),
        ({"args_source": pytest.Config.ArgsSource.ARGS}, False),
    ],
)
def test_only_a_run_of_everything_is_judged_by_what_it_leaves_unused(
    changes: dict[str, Any], whole: bool
) -> None:
    options = {"markexpr": "", "keyword": "", "deselect": None, "lf": False, "collectonly": False}
    source = changes.pop("args_source", pytest.Config.ArgsSource.TESTPATHS)
    option = type("Option", (), options | changes)()
    config: Any = type("Config", (), {"args_source": source, "option": option})()

    assert is_whole(config) is whole


def test_make_test_judges_what_no_test_needed() -> None:
    """What is deployed runs in processes of its own, and is held against its roles by its own tests."""
    from tests.unit.test_commands import recipe  # noqa: PLC0415

    (line,) = (line for line in recipe("test").splitlines() if "pytest" in line)

    assert JUDGE_UNUSED in line.split()
    assert re.findall(r" (?:-k|-m|--deselect|tests/)", line) == [" -m"]
    assert ' -m "not wide" ' in line


# --- The file -----------------------------------------------------------------------------------------------


def test_the_file_keeps_each_different_deployment_once() -> None:
    policy, more = json.dumps({"Statement": [READ]}), json.dumps({"Statement": [READ, SEND]})
    runs = {"full": {"reader": policy}, "again": {"reader": policy}, "estate": {"reader": more}}

    written = json.loads(roles_document({"module": runs}))

    assert written == {"module": {"full": {"reader": [READ]}, "estate": {"reader": [READ, SEND]}}}


def test_every_role_of_the_modules_can_be_judged() -> None:
    judged = module_roles()

    assert {"full", "direct_submit", "estate", "plain", "regional"} <= judged.grants.keys()
    assert Grant("cleanup", "Ledger", "dynamodb:GetItem", ("aggregated-usage",)) in judged.grants["full"]
    assert not [
        grant
        for grants in judged.grants.values()
        for grant in grants
        if "scan" in grant.action.lower() or grant.action.endswith("*")
    ]
    # In a dry run the submitter cannot meter, whatever its code does.
    meter = RecordedCall("submitter", "full", "aws-marketplace:BatchMeterUsage", "*")
    assert judged.not_allowed([meter, meter._replace(deployment="estate")]) == {
        meter._replace(deployment="estate")
    }
    assert Call("a", "b", "c").context == ()
