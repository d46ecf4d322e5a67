"""From ``terraform apply`` to billed and surfaced hours, with the functions' roles enforced.

One deployment of ``examples/registration`` serves every test; the last ones change it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from sandbox.demo import END, START, TIMETABLE, stretch
from sandbox.emulator_launcher import PATH as CLOCK_PATH
from sandbox.local_cloud import ACCOUNT_ID, LocalCloud
from sandbox.simulation.play import announce, subscribe_all
from sandbox.simulation.reconciliation import reconcile
from sandbox.simulation.seller import Seller
from sandbox.simulation.stage import WorldStage
from sandbox.simulation.trace import read_trace
from sandbox.simulation.troubles import Plan, plant_all
from sandbox.simulation.world import LEDGER, PARKED, PRODUCT_CODE, SUBSCRIBERS, USAGE, AwsCall, World
from tests.privileges.permissions import Call, Grant, calls_of, grants_of, not_allowed, unused
from tests.terraform.test_state_safety import differing, made

from .conftest import Afternoon, Deployed

pytestmark = [pytest.mark.emulator, pytest.mark.slow, pytest.mark.xdist_group("local-cloud")]

PIPELINE: Final = {
    "aggregator",
    "cleanup",
    "deprovision-cleanup",
    "discoverer",
    "expiry",
    "submitter",
    "subscription",
}
NOTIFICATIONS: Final = {
    "notification-admin",
    "notification-contacts",
    "notification-feedback",
    "notification-intake",
    "notification-maintenance",
    "notification-sender",
    "subscriber-forwarder",
    "verify",
}
#: The page function calls nothing.
CALLERS: Final = PIPELINE | NOTIFICATIONS | {"register"}
FUNCTIONS: Final = CALLERS | {"page"}

#: Who calls what of AWS Marketplace.
MARKETPLACE_CALLERS: Final = {"BatchMeterUsage": "submitter", "ResolveCustomer": "register"}

#: By buyer, dimension and hour: what is written, billed and surfaced, and how the ledger says it ended.
GROUPS: Final[Mapping[tuple[str, str, str], tuple[int, int, dict[str, int], str | None]]] = {
    # A second row after the submission is late.
    ("steady", "requests", "2026-03-10T10"): (16, 12, {"LateAfterSubmission": 4}, "Success"),
    ("steady", "gpu_hours", "2026-03-10T10"): (
        5,
        0,
        {"InvalidUsageDimensionException": 5},
        "RejectedClientSide",
    ),
    ("second licence", "egress_kib", "2026-03-10T10"): (13, 13, {}, "Success"),
    ("second licence", "requests", "2026-03-10T09"): (
        13,
        0,
        {"PendingBucketMismatch": 13},
        "RejectedClientSide",
    ),
    ("second licence", "requests", "2026-03-10T10"): (5, 5, {}, "Success"),
    ("steady", "egress_kib", "2026-03-09T11"): (2, 0, {"SubmissionExpired": 2}, "SubmissionExpired"),
    ("steady", "requests", "2026-03-09T10"): (1, 0, {"AggregationExpired": 1}, "AggregationExpired"),
    # In its last hour the valid row is billed, and the wrong ones surfaced.
    ("overtaken", "requests", "2026-03-09T14"): (1, 3, {"NegativeQuantity": -2}, "Success"),
    ("overtaken", "egress_kib", "2026-03-09T13"): (4, 0, {"SubmissionExpired": 4}, "SubmissionExpired"),
    ("overtaken", "egress_kib", "2026-03-09T10"): (
        10,
        0,
        {"AggregationExpired": 9, "LateAfterSubmission": 1},
        "AggregationExpired",
    ),
    ("former", "requests", "2026-03-10T08"): (3, 0, {"CustomerNotSubscribed": 3}, "CustomerNotSubscribed"),
    ("new", "requests", "2026-03-10T12"): (6, 6, {}, "Success"),
    ("leaving", "requests", "2026-03-10T12"): (2, 2, {}, "Success"),
    ("leaving", "requests", "2026-03-10T13"): (4, 3, {"AfterFinalFlush": 1}, "Success"),
}

_POLLED = "on AWS the event source mapping reads its source under the role; the emulator's needs none"
_LOGGED = "on AWS the runtime writes the log under the role; the emulator writes it itself"
_NOTHING_TO_MEND = "only for claims of a run that died, for what failed, and for old feedback"

#: What no call of either run needed, and why it is allowed all the same.
UNUSED: Final[Mapping[str, str]] = {
    **{
        f"{function} Consume sqs:{action}": _POLLED
        for function in (
            "aggregator",
            "cleanup",
            "notification-feedback",
            "notification-intake",
            "subscription",
        )
        for action in ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
    },
    **{
        f"{function} ConsumeStream dynamodb:{action}": _POLLED
        for function in ("notification-contacts", "subscriber-forwarder")
        for action in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
    },
    **{
        f"{function} GiveUp sqs:SendMessage": _POLLED
        for function in ("notification-contacts", "subscriber-forwarder")
    },
    **{
        f"{function} Logs logs:{action}": _LOGGED
        for function in FUNCTIONS
        for action in ("CreateLogStream", "PutLogEvents")
    },
    **{
        f"notification-admin Notifications dynamodb:{action}": "only to purge old feedback"
        for action in ("ConditionCheckItem", "DeleteItem")
    },
    **{
        f"notification-maintenance Notifications dynamodb:{action}": _NOTHING_TO_MEND
        for action in ("ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query")
    },
    "cleanup Dispatch sqs:SendMessage": "only when rows were folded anew while their cleanup was on its way",
    "submitter Dispatch sqs:SendMessage": "only when allocations change while their record's outcome is open",
    "submitter Ledger dynamodb:GetItem": "only when another run changed a record between sending and answer",
    "submitter SubscribersByAccount dynamodb:Query": (
        "only in the hour of activation, for a licence whose usage spells its ARN otherwise than its event"
    ),
}


# --- The afternoon ------------------------------------------------------------------------------------------


def test_every_group_balances_and_nothing_is_pending(afternoon: Afternoon) -> None:
    assert afternoon.accounts.keys() == GROUPS.keys()
    assert {
        key: account.difference for key, account in afternoon.accounts.items() if account.difference
    } == {}
    assert {key: account.pending for key, account in afternoon.accounts.items() if account.pending} == {}


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_a_group_ends_as_it_has_to(afternoon: Afternoon, group: tuple[str, str, str]) -> None:
    account = afternoon.accounts[group]
    written, billed, surfaced, status = GROUPS[group]
    assert account.written == written
    assert account.billed == account.honoured == billed
    assert account.surfaced == {reason: Decimal(quantity) for reason, quantity in surfaced.items()}
    assert account.status == status


def test_allocations_reach_the_marketplace_merged(afternoon: Afternoon) -> None:
    buyer = afternoon.buyers["second licence"]
    (honoured,) = (
        entry
        for entry in afternoon.stage.cloud.marketplace.query("honoured")
        if (entry["license_arn"], entry["dimension"]) == (buyer.license_arn, "egress_kib")
    )
    sent = {
        json.dumps(allocation.get("Tags")): allocation["AllocatedUsageQuantity"]
        for allocation in honoured["record"]["UsageAllocations"]
    }
    assert sent == {json.dumps([{"Key": "team", "Value": "blue"}]): 9, json.dumps(None): 4}


def test_the_subscribers_are_what_their_events_say(afternoon: Afternoon) -> None:
    names = {buyer.license_arn: name for name, buyer in afternoon.buyers.items()}
    rows = {
        names[arn]: row for row in afternoon.stage.subscribers() if (arn := str(row["licenseArn"])) in names
    }
    assert {name: (row["subscriptionStatus"], row["agreementStatus"]) for name, row in rows.items()} == {
        "steady": ("active", "active"),
        "second licence": ("active", "active"),
        "overtaken": ("active", "active"),
        "new": ("active", "active"),
        "leaving": ("inactive", "inactive"),
    }
    assert {name for name, row in rows.items() if "deprovisioningPendingFlag" in row} == set()
    # The change that came before its licence was kept for it.
    assert {name for name, row in rows.items() if row.get("autoRenewal")} == {"overtaken"}


def test_nothing_is_left_in_a_queue(afternoon: Afternoon) -> None:
    sqs, outputs = afternoon.deployed.cloud.client("sqs"), afternoon.deployed.outputs
    queues = [outputs["event_queue"], outputs["event_dlq"], *outputs["queues"].values()]
    counts = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    left = {
        queue["name"]: sqs.get_queue_attributes(QueueUrl=queue["url"], AttributeNames=counts)["Attributes"]
        for queue in queues
    }
    assert len(left) == 8
    assert {name for name, attributes in left.items() if any(int(n) for n in attributes.values())} == set()


def test_every_function_ran_and_none_failed(afternoon: Afternoon) -> None:
    assert afternoon.runs.keys() == FUNCTIONS
    assert {name for name, count in afternoon.runs.items() if count == 0} == set()
    assert {name: count for name, count in afternoon.failures.items() if count} == {}


# --- Roles --------------------------------------------------------------------------------------------------


def test_no_call_was_denied(afternoon: Afternoon) -> None:
    assert [entry for entry in afternoon.access if entry["refusal"] is not None] == []
    assert {afternoon.deployed.function_of(entry["principal"]) for entry in afternoon.access} == CALLERS


def test_a_denied_call_is_seen_as_denial_and_as_error(afternoon: Afternoon) -> None:
    deployed = afternoon.deployed
    iam, function = deployed.cloud.client("iam"), deployed.outputs["function_names"]["expiry"]
    role = deployed.outputs["role_arns"]["expiry"].rsplit("/", 1)[-1]
    whole = json.loads(deployed.outputs["role_policies_json"]["expiry"])
    (pending,) = (each for each in whole["Statement"] if each["Sid"] == "LedgerPending")
    less = whole | {"Statement": [each for each in whole["Statement"] if each is not pending]}
    failures = deployed.runs("failures")
    iam.put_role_policy(RoleName=role, PolicyName="function", PolicyDocument=json.dumps(less))
    try:
        answer = deployed.cloud.client("lambda").invoke(FunctionName=function, Payload=b"{}")
    finally:
        iam.put_role_policy(RoleName=role, PolicyName="function", PolicyDocument=json.dumps(whole))
    assert "FunctionError" in answer
    assert deployed.runs("failures") == failures | {"expiry": failures["expiry"] + 1}
    denied = {
        (deployed.function_of(entry["principal"]), entry["action"], entry["resource"], entry["refusal"])
        for entry in deployed.access()
        if entry["refusal"] is not None
    }
    assert denied == {("expiry", "dynamodb:Query", *pending["Resource"], "ImplicitDeny")}


def test_plain_http_is_no_secure_transport_but_on_the_machine_itself() -> None:
    """What denies TLS denies everything in the local cloud; what denies plain HTTP denies nothing."""
    with LocalCloud(enforce_roles=True) as cloud:
        sqs, answers = cloud.client("sqs"), {}
        for value in ("false", "true"):
            url = sqs.create_queue(QueueName=f"deny-{value}")["QueueUrl"]
            statement = {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": f"arn:aws:sqs:{cloud.region}:{ACCOUNT_ID}:deny-{value}",
                "Condition": {"Bool": {"aws:SecureTransport": value}},
            }
            policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
            try:
                sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
                answers[value] = "allowed"
            except ClientError as error:
                answers[value] = error.response["Error"]["Code"]
    assert answers == {"false": "allowed", "true": "AccessDenied"}


# --- Calls against policies ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grants(deployed: Deployed) -> list[Grant]:
    """Everything that the modules say the functions need."""
    return grants_of(deployed.outputs["role_policies_json"])


@pytest.fixture(scope="module")
def deployed_calls(afternoon: Afternoon) -> set[Call]:
    """What the deployed functions asked of AWS, as the emulator saw it, and of the fake Marketplace."""
    calls = {
        Call(
            afternoon.deployed.function_of(entry["principal"]),
            entry["action"],
            entry["resource"],
            tuple((name, value) for name, value in entry["keys"]),
        )
        for entry in afternoon.access
    }
    requests = afternoon.stage.cloud.marketplace.query("requests")
    # The fake Marketplace knows no roles; which function calls it, the simulation and the registration tell.
    return calls | {
        Call(MARKETPLACE_CALLERS[operation], f"aws-marketplace:{operation}", "*")
        for operation in {each["operation"] for each in requests}
    }


@pytest.fixture(scope="module")
def simulated_calls(deployed: Deployed) -> set[Call]:
    """What the same functions ask of AWS in the demonstration's 20 hours, played in this process."""
    outputs = deployed.outputs
    subscribers: str = outputs["subscribers_table"]["arn"]
    world = World(START)
    resources = {
        USAGE: outputs["usage_table"]["arn"],
        LEDGER: outputs["aggregated_usage_table"]["arn"],
        SUBSCRIBERS: subscribers,
        PARKED: f"{subscribers.rpartition('/')[0]}/{PARKED}",
        **{url: outputs["queues"][queue.replace("-", "_")]["arn"] for queue, url in world.home.urls.items()},
    }
    calls: set[Call] = set()

    def note(call: AwsCall) -> None:
        function = call.function.replace("_", "-")
        calls.update(calls_of(function, call.service, call.operation, call.request, resources))

    world.fault_plan = note
    _play_stretch(world)
    return calls


def _play_stretch(world: World) -> None:
    world.marketplace.create_product(PRODUCT_CODE, ["requests", "egress_kib"])
    stage, seller, trace = WorldStage(world), Seller(world.writer), stretch()
    buyers = subscribe_all(stage, {usage.customer for usage in read_trace()})
    plan = Plan(stage, seller, trace, buyers, hours=TIMETABLE)
    announce(plan)
    plant_all(plan)
    writes = [
        (
            START + timedelta(seconds=usage.offset),
            lambda usage=usage: seller.write(
                buyers[usage.customer],
                usage.dimension,
                START + timedelta(seconds=usage.offset),
                usage.quantity,
            ),
        )
        for usage in trace
    ]
    for at, action in sorted([*writes, *plan.actions], key=lambda planned: planned[0]):
        world.run_until(at)
        action()
    world.run_until(END)
    assert not [account for account in reconcile(stage, seller.written()) if account.difference]


def test_the_policies_allow_every_call_of_both_runs(
    grants: list[Grant], deployed_calls: set[Call], simulated_calls: set[Call]
) -> None:
    assert not_allowed(grants, deployed_calls) == set()
    assert not_allowed(grants, simulated_calls) == set()
    assert {call.function for call in deployed_calls} == CALLERS
    assert {call.function for call in simulated_calls} == PIPELINE


def test_a_call_that_no_policy_allows_is_found(grants: list[Grant], deployed_calls: set[Call]) -> None:
    """Each call stands on a grant of its own: without it, or on another resource, it is refused."""
    for call in deployed_calls:
        others = [grant for grant in grants if not grant.covers(call)]
        assert not_allowed(others, {call}) == {call}
        elsewhere = call._replace(resource=f"{call.resource}-of-another-product")
        assert call.resource == "*" or not_allowed(grants, {elsewhere}) == {elsewhere}


def test_what_is_allowed_and_never_used_has_its_reason(
    grants: list[Grant], deployed_calls: set[Call], simulated_calls: set[Call]
) -> None:
    never_used = unused(grants, deployed_calls | simulated_calls)
    assert never_used - UNUSED.keys() == set()
    # What is used only in certain moments may be used on a slow machine; what AWS does itself never is.
    assert {key for key, reason in UNUSED.items() if reason in (_POLLED, _LOGGED)} <= never_used


# --- Later plans --------------------------------------------------------------------------------------------


def test_a_plan_after_the_afternoon_is_empty(afternoon: Afternoon) -> None:
    plan = afternoon.deployed.plan()
    changes = {each["address"]: each["change"] for each in plan["resource_changes"]}
    planned = made(plan)
    # The emulator does not keep what the web ACL answers.
    acl = "module.registration.aws_wafv2_web_acl.this[0]"
    assert planned == {acl: ["update"]}
    assert differing(changes[acl]) == {"custom_response_body"}


@pytest.fixture
def tables(afternoon: Afternoon) -> Iterator[dict[str, Any]]:
    """Everything in the tables, and when they were made."""
    yield _tables(afternoon)


def _tables(afternoon: Afternoon) -> dict[str, Any]:
    stage = afternoon.stage
    names = (stage.deployment.usage_table, stage.deployment.aggregated_usage_table)
    described = [stage.dynamodb.describe_table(TableName=name)["Table"] for name in names]
    return {
        "made": [(each["TableArn"], each.get("TableId"), each["CreationDateTime"]) for each in described],
        "protected": [each["DeletionProtectionEnabled"] for each in described],
        "usage": _sorted(stage.usage()),
        # The sender's lease is renewed by every run.
        "ledger": _sorted(item for item in stage.ledger() if "version" in item),
    }


def _sorted(items: Any) -> list[str]:
    return sorted(json.dumps(item, default=str, sort_keys=True) for item in items)


def test_a_connection_that_was_idle_for_minutes_is_still_answered(afternoon: Afternoon) -> None:
    socket = afternoon.deployed.idle.sock
    assert socket is not None
    afternoon.deployed.idle.request("GET", CLOCK_PATH)
    assert afternoon.deployed.idle.getresponse().read().startswith(b"{")
    # It was not opened anew, as the client does by itself.
    assert afternoon.deployed.idle.sock is socket


def test_switching_to_direct_submit_and_back_keeps_both_tables_and_goes_on_billing(
    afternoon: Afternoon, tables: dict[str, Any]
) -> None:
    """What exists was read for the plan before: reading it twice more takes minutes and shows the same."""
    deployed = afternoon.deployed
    planned = made(deployed.plan(refresh=False, deployment_mode="direct-submit"))
    assert [address for address in planned if "aws_dynamodb_table" in address] == []
    assert {tuple(what) for what in planned.values()} == {("delete",), ("update",)}

    deployed.apply_plan()
    assert _tables(afternoon) == tables
    deployed.apply(refresh=False, deployment_mode="full")
    assert _tables(afternoon) == tables

    afternoon.write("new", "requests", timedelta(hours=1, minutes=50), 8)
    _run(afternoon, "discoverer", {"mode": "meter", "hourOffset": 1})
    _run(afternoon, "submitter", {"mode": "submit"})
    buyer = afternoon.buyers["new"]
    billed = [each.quantity for each in afternoon.stage.honoured() if each.license_arn == buyer.license_arn]
    assert billed == [6, 8]


def _run(afternoon: Afternoon, function: str, event: Mapping[str, Any]) -> None:
    cloud = afternoon.deployed.cloud
    name = afternoon.deployed.outputs["function_names"][function]
    answer = cloud.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
    assert "FunctionError" not in answer, answer["Payload"].read()
    cloud.settle()
