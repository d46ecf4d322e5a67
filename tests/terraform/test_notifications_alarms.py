"""Each alarm of the notifications module, by its planned definition, on what the real handlers publish."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.exceptions import ClientError

from awsmp.domain.errors import PartialFailure
from awsmp.domain.ports import Metric
from tests.terraform.cloudwatch import Datapoint, PublishedTelemetry, state_at, states_over
from tests.terraform.tool import REPOSITORY, ModuleTest, Resources
from tests.unit.notifications.deployment import Deployment, complaint

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployments")]

OURS = "AWSMarketplaceMetering"
RUNBOOKS = REPOSITORY / "docs" / "runbooks"
DIMENSIONS = {"ProductCode": "all", "Environment": "default"}

#: Metrics of AWS's own that alarms and dashboard name, by namespace, with the dimensions that they have.
PUBLISHED_BY_AWS = {
    "AWS/Events": ([{"RuleName"}, {"EventBusName", "RuleName"}], {"FailedInvocations"}),
    "AWS/Lambda": (
        [{"FunctionName"}],
        {"Duration", "Errors", "Invocations", "IteratorAge", "Throttles"},
    ),
    "AWS/SNS": ([{"TopicName"}], {"NumberOfNotificationsFailed"}),
    "AWS/SQS": ([{"QueueName"}], {"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}),
}

Alarm = dict[str, Any]
Event = Callable[[Deployment], object]


def alarms_of(state: Resources) -> dict[str, Alarm]:
    return {r.key: r.values for r in state.of_type("aws_cloudwatch_metric_alarm")}


@pytest.fixture(scope="module")
def alarms(notifications: ModuleTest) -> dict[str, Alarm]:
    return alarms_of(notifications.states["ses"])


def fired(alarms: dict[str, Alarm], happened: Event) -> set[str]:
    """Return the alarms on metrics of ours that an event raised, those that listen for silence left out."""
    deployment = Deployment()
    telemetry: Any = PublishedTelemetry(deployment.clock, "all")
    deployment.telemetry = telemetry
    start = deployment.clock.now()
    deployment.register()
    deployment.set_contacts(owner={"verified": True})
    deployment.deliver()
    happened(deployment)
    assert telemetry.datapoints
    return {
        key
        for key, alarm in alarms.items()
        if alarm["namespace"] == OURS
        and alarm["treat_missing_data"] != "breaching"
        and "ALARM" in states_over(alarm, telemetry.datapoints, start, deployment.clock.now())
    }


def a_mail_that_is_sent(deployment: Deployment) -> None:
    assert deployment.send()["sent"] == 1


def a_mail_that_ses_refuses(deployment: Deployment) -> None:
    def refuse(name: str) -> None:
        if name == "SendEmail":
            raise ClientError({"Error": {"Code": "MessageRejected", "Message": "no"}}, name)

    deployment.hooks.before = refuse
    deployment.send()
    assert deployment.ses.sent == []


def a_complaint(deployment: Deployment) -> None:
    deployment.send()
    deployment.take_feedback(complaint(deployment.ses.sent[0], 1, deployment.clock.now()))


def the_same_complaint_again(deployment: Deployment) -> None:
    deployment.send()
    body = complaint(deployment.ses.sent[0], 1, deployment.clock.now())
    deployment.take_feedback(body)
    deployment.take_feedback(body)


def a_complaint_that_changed(deployment: Deployment) -> None:
    deployment.send()
    at = deployment.clock.now()
    deployment.take_feedback(complaint(deployment.ses.sent[0], 1, at))
    with pytest.raises(BatchProcessingError):
        deployment.take_feedback(complaint(deployment.ses.sent[0], 1, at + timedelta(seconds=1)))


def a_complaint_from_the_future(deployment: Deployment) -> None:
    deployment.send()
    later = deployment.clock.now() + timedelta(minutes=6)
    try:
        deployment.take_feedback(complaint(deployment.ses.sent[0], 1, later))
    except BatchProcessingError:
        """Whether it is also kept as a failed message is not at stake here."""


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        (a_mail_that_is_sent, set()),
        (a_complaint, set()),
        (the_same_complaint_again, set()),
        (a_mail_that_ses_refuses, {"notification-entries-failed"}),
        (a_complaint_that_changed, {"notification-feedback-conflict"}),
        (a_complaint_from_the_future, {"notification-feedback-refused"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_goes_wrong_raises_its_alarm_and_no_other(
    happened: Event, expected: set[str], alarms: dict[str, Alarm]
) -> None:
    assert fired(alarms, happened) == expected


def test_a_sender_that_completes_its_runs_is_no_stall_and_silence_is_one(alarms: dict[str, Alarm]) -> None:
    alarm = alarms["notification-send-stalled"]
    deployment = Deployment()
    telemetry: Any = PublishedTelemetry(deployment.clock, "all")
    deployment.telemetry = telemetry
    for _ in range(20):
        deployment.send()
        deployment.clock.sleep(60)

    now = deployment.clock.now()
    assert state_at(alarm, telemetry.datapoints, now) == "OK"
    assert state_at(alarm, telemetry.datapoints, now + timedelta(minutes=20)) == "ALARM"


def test_a_run_that_fails_as_a_whole_does_not_count_as_completed(alarms: dict[str, Alarm]) -> None:
    alarm = alarms["notification-send-stalled"]
    deployment = Deployment()
    telemetry: Any = PublishedTelemetry(deployment.clock, "all")
    deployment.telemetry = telemetry
    deployment.secrets.values.clear()
    for _ in range(20):
        with pytest.raises((KeyError, PartialFailure)):
            deployment.send()
        deployment.clock.sleep(60)

    assert state_at(alarm, telemetry.datapoints, deployment.clock.now()) == "ALARM"


def test_every_alarm_on_a_metric_of_ours_is_driven_here(alarms: dict[str, Alarm]) -> None:
    assert {key for key, alarm in alarms.items() if alarm["namespace"] == OURS} == {
        "notification-entries-failed",
        "notification-feedback-conflict",
        "notification-feedback-refused",
        "notification-send-stalled",
    }


def test_silence_is_an_alarm_only_where_something_must_speak(alarms: dict[str, Alarm]) -> None:
    assert {key for key, alarm in alarms.items() if alarm["treat_missing_data"] == "breaching"} == {
        "notification-maintenance-did-not-run",
        "notification-send-stalled",
    }
    assert {alarm["treat_missing_data"] for alarm in alarms.values()} == {"breaching", "notBreaching"}


@pytest.mark.parametrize(
    ("key", "value", "periods"),
    [
        ("notification-admin-errors", 1, 1),
        ("notification-contacts-errors", 1, 1),
        ("notification-contacts-failed", 1, 1),
        ("notification-contacts-iterator-age", 900_000, 3),
        ("notification-events-dlq", 1, 1),
        ("notification-events-oldest-message", 900, 1),
        ("notification-feedback-dlq", 1, 1),
        ("notification-feedback-errors", 1, 1),
        ("notification-feedback-oldest-message", 900, 1),
        ("notification-feedback-undelivered", 1, 1),
        ("notification-intake-errors", 1, 1),
        ("notification-maintenance-errors", 1, 1),
        ("notification-rule-billing-failed", 1, 1),
        ("notification-rule-events-failed", 1, 1),
        ("notification-sender-errors", 1, 1),
        ("schedule-notification-maintenance-failed", 1, 2),
        ("schedule-notification-sender-failed", 1, 2),
    ],
)
def test_what_aws_publishes_raises_the_alarm_at_its_threshold_and_not_below(
    key: str, value: float, periods: int, alarms: dict[str, Alarm]
) -> None:
    alarm, now = alarms[key], Deployment().clock.now()

    def published(each: float, count: int) -> list[Datapoint]:
        return [
            Datapoint(
                alarm["namespace"],
                alarm["metric_name"],
                alarm["dimensions"],
                each,
                now - timedelta(seconds=alarm["period"] * (number + 0.5)),
            )
            for number in range(count)
        ]

    assert state_at(alarm, published(value, periods), now) == "ALARM"
    assert state_at(alarm, published(value - 1, periods), now) == "OK"
    assert state_at(alarm, published(value, periods - 1), now) == "OK"
    assert state_at(alarm, [], now, before="ALARM") == "OK"


# --- Names, runbooks and dashboard --------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["ses", "smtp", "estate"])
def test_alarms_and_dashboard_name_what_is_published_and_deployed(
    run: str, notifications: ModuleTest
) -> None:
    state = notifications.states[run]
    environment = "staging" if run == "estate" else "default"
    deployed = {
        "FunctionName": {r.values["function_name"] for r in state.of_type("aws_lambda_function")},
        "QueueName": {r.values["name"] for r in state.of_type("aws_sqs_queue")},
        "RuleName": {r.values["name"] for r in state.of_type("aws_cloudwatch_event_rule")},
        "EventBusName": {r.values["name"] for r in state.of_type("aws_cloudwatch_event_bus")},
        "TopicName": {r.values["name"] for r in state.of_type("aws_sns_topic")},
    }
    ours = {metric.value for metric in Metric}
    named = [*watched(state), *graphed(state)]

    assert len(named) > 40
    for namespace, name, dimensions in named:
        if namespace == OURS:
            assert name in ours
            assert dimensions == {"ProductCode": "all", "Environment": environment}
            continue
        allowed, names = PUBLISHED_BY_AWS[namespace]
        assert name in names
        assert set(dimensions) in allowed
        assert all(value in deployed[dimension] for dimension, value in dimensions.items()), dimensions


def watched(state: Resources) -> Iterator[tuple[str, str, dict[str, str]]]:
    for alarm in alarms_of(state).values():
        yield alarm["namespace"], alarm["metric_name"], alarm["dimensions"]


def graphed(state: Resources) -> Iterator[tuple[str, str, dict[str, str]]]:
    body = json.loads(state["module.dashboard[0].aws_cloudwatch_dashboard.this"]["dashboard_body"])
    for widget in body["widgets"]:
        for entry in widget["properties"].get("metrics", []):
            names = [part for part in entry if isinstance(part, str)]
            if names:
                yield names[0], names[1], dict(zip(names[2::2], names[3::2], strict=True))


def test_the_keys_that_thresholds_may_name_are_those_of_the_alarms(alarms: dict[str, Alarm]) -> None:
    text = (REPOSITORY / "modules" / "notifications" / "alarms.tf").read_text()
    (block,) = re.findall(r"^  alarm_keys = \[\n(.*?)^  \]", text, re.M | re.S)
    keys = re.findall(r'"([a-z0-9-]+)"', block)

    assert keys == sorted(keys)
    assert set(keys) == set(alarms)


def test_a_description_says_until_when_and_ends_with_its_runbook(alarms: dict[str, Alarm]) -> None:
    for key, alarm in alarms.items():
        text = alarm["alarm_description"]
        found = re.search(r" Runbook: docs/runbooks/([a-z0-9-]+)\.md$", text)
        assert found and (RUNBOOKS / f"{found[1]}.md").is_file(), key
        assert len(text) <= 1024
        assert re.search(r"\b(hours?|minutes|days?|no deadline|at once)\b", text), key


def test_every_metric_of_the_tier_is_on_its_dashboard(notifications: ModuleTest) -> None:
    shown = {name for space, name, _ in graphed(notifications.states["ses"]) if space == OURS}
    tier = re.compile(r"^(Notification|Feedback|Contacts|AddressVerificationsRequested|AddressesVerified)")

    assert {metric.value for metric in Metric if tier.match(metric.value)} == shown


def test_no_alarm_outlives_what_it_watches(notifications: ModuleTest) -> None:
    """A mail server of one's own sends no feedback here: its alarms would listen to nothing."""
    with_ses = set(alarms_of(notifications.states["ses"]))
    without = set(alarms_of(notifications.states["smtp"]))

    assert without < with_ses
    assert all("feedback" in key for key in with_ses - without)
