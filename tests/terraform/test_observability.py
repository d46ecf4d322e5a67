"""Alarms and dashboards name what is published and deployed; the runbooks are those of the alarms."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from awsmp.domain.customer_profiles import RefusalCode
from awsmp.domain.ports import Metric
from sandbox.virtual_time import VirtualClock
from tests.terraform.cloudwatch import MAX_DESCRIPTION, Datapoint, PublishedTelemetry
from tests.terraform.tool import REPOSITORY, ModuleTest, Resources

pytestmark = pytest.mark.slow

OURS = "AWSMarketplaceMetering"
PRODUCT = "1example2product3code4567"
RUNBOOKS = REPOSITORY / "docs" / "runbooks"

#: Deployments by module and run, with the dimensions that their functions publish under.
DEPLOYMENTS = [
    ("metering", "full", PRODUCT, "default"),
    ("metering", "direct_submit", PRODUCT, "default"),
    ("metering", "estate", PRODUCT, "staging"),
    ("events", "plain", "all", "default"),
    ("events", "estate", "all", "staging"),
    ("registration", "regional", PRODUCT, "default"),
    ("registration", "cloudfront", PRODUCT, "default"),
    ("registration", "own_page", PRODUCT, "default"),
    ("registration", "estate", PRODUCT, "staging"),
]
#: The deployment of each module that has everything, and the Region that its mocks say it is in.
WHOLE = {
    "metering": ("full", "eu-west-1", "euw1"),
    "events": ("forwarding", "us-east-1", "use1"),
    "registration": ("verifying", "eu-west-1", "euw1"),
}
#: Metrics that the functions of each module publish.
PUBLISHED_BY = {
    "metering": ("aggregate", "direct_input", "discover", "expire", "submit", "surfacing"),
    "events": ("deprovision_cleanup", "../handlers/subscriber_forwarder", "subscription"),
    "registration": ("deliver_page", "registration_api"),
}
#: Metrics that AWS publishes, by namespace, with the dimensions that we name them by.
PUBLISHED_BY_AWS = {
    "AWS/ApiGateway": (
        {"ApiName", "Stage"},
        {"4XXError", "5XXError", "Count", "IntegrationLatency", "Latency"},
    ),
    "AWS/CloudFront": ({"DistributionId", "Region"}, {"4xxErrorRate", "5xxErrorRate"}),
    "AWS/Events": ({"RuleName"}, {"FailedInvocations"}),
    "AWS/Lambda": ({"FunctionName"}, {"Duration", "Errors", "Invocations", "IteratorAge", "Throttles"}),
    "AWS/SQS": ({"QueueName"}, {"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}),
    "AWS/WAFV2": ({"Region", "Rule", "WebACL"}, {"BlockedRequests"}),
}

Widget = dict[str, Any]


@pytest.fixture(params=DEPLOYMENTS, ids=lambda each: f"{each[0]}-{each[1]}")
def deployment(request: pytest.FixtureRequest) -> tuple[str, Resources, str, str]:
    module, run, product, environment = request.param
    result: ModuleTest = request.getfixturevalue(module)
    return module, result.states[run], product, environment


def whole(module: str, request: pytest.FixtureRequest) -> Resources:
    result: ModuleTest = request.getfixturevalue(module)
    return result.states[WHOLE[module][0]]


def emf(product: str, environment: str, metric: Metric, reason: str | None = None) -> list[Datapoint]:
    """Return what the production telemetry publishes of a metric."""
    telemetry = PublishedTelemetry(VirtualClock(datetime(2026, 11, 10, tzinfo=UTC)), product, environment)
    telemetry.count(metric, reason=reason)
    return telemetry.datapoints


def metrics_of(module: str) -> set[str]:
    """Return the names of the metrics that a module's use cases count."""
    used = {
        name
        for file in PUBLISHED_BY[module]
        for name in re.findall(
            r"\bMetric\.([A-Z_]+)",
            (REPOSITORY / "lambda_src" / "awsmp" / "usecases" / f"{file}.py").read_text(),
        )
    }
    return {Metric[name].value for name in used}


def body_of(state: Resources) -> list[Widget]:
    widgets: list[Widget] = json.loads(
        state["module.dashboard[0].aws_cloudwatch_dashboard.this"]["dashboard_body"]
    )["widgets"]
    return widgets


def graphed(widgets: list[Widget]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield namespace, name and dimensions of every metric that a dashboard names outright."""
    for widget in widgets:
        for entry in widget["properties"].get("metrics", []):
            names = [part for part in entry if isinstance(part, str)]
            if names:
                yield names[0], names[1], dict(zip(names[2::2], names[3::2], strict=True))


def expressions(widget: Widget) -> list[dict[str, Any]]:
    return [
        part
        for entry in widget["properties"].get("metrics", [])
        for part in entry
        if isinstance(part, dict) and "expression" in part
    ]


def identifiers(state: Resources) -> dict[str, set[str]]:
    """Return the names of what is deployed, by the dimension that AWS's own metrics carry."""
    return {
        "FunctionName": {r.values["function_name"] for r in state.of_type("aws_lambda_function")},
        "QueueName": {r.values["name"] for r in state.of_type("aws_sqs_queue")},
        "RuleName": {r.values["name"] for r in state.of_type("aws_cloudwatch_event_rule")},
        "ApiName": {r.values["name"] for r in state.of_type("aws_api_gateway_rest_api")},
        "Stage": {r.values["stage_name"] for r in state.of_type("aws_api_gateway_stage")},
        "DistributionId": {r.values["id"] for r in state.of_type("aws_cloudfront_distribution")},
        "WebACL": {
            r.values["visibility_config"][0]["metric_name"] for r in state.of_type("aws_wafv2_web_acl")
        },
    }


def rule_metrics(state: Resources, web_acls: ModuleTest) -> set[str]:
    """Return what the rules of a deployment's baseline web ACL call their metrics, after the ACL."""
    (planned,) = web_acls.states["regional"].of_type("aws_wafv2_web_acl")

    def metric(block: dict[str, Any]) -> str:
        (visibility,) = block["visibility_config"]
        return str(visibility["metric_name"])

    own = [metric(rule).removeprefix(metric(planned.values)) for rule in planned.values["rule"]]
    return {metric(acl.values) + name for acl in state.of_type("aws_wafv2_web_acl") for name in own}


def check_names(
    namespace: str,
    name: str,
    dimensions: dict[str, str],
    deployment: tuple[str, Resources, str, str],
    rules: Collection[str] = (),
) -> None:
    module, state, product, environment = deployment
    if namespace == OURS:
        assert name in metrics_of(module), f"{name}: no function of {module} publishes it"
        reason = dimensions.get("Reason")
        assert reason is None or (name, RefusalCode(reason)) == (Metric.REGISTRATION_REJECTED, reason)
        point = emf(product, environment, Metric(name), reason)[-1]
        assert (point.namespace, point.name, point.dimensions) == (namespace, name, dimensions)
        return
    named_by, names = PUBLISHED_BY_AWS[namespace]
    assert name in names
    assert set(dimensions) == named_by
    deployed = {**identifiers(state), "Rule": set(rules)}
    # CloudFront is everywhere; whatever else has a Region is of the module's.
    deployed["Region"] = {"Global"} if namespace == "AWS/CloudFront" else {WHOLE[module][1]}
    for dimension, value in dimensions.items():
        assert value in deployed[dimension], (namespace, name, value)


# --- Alarms ------------------------------------------------------------------------------------------------


def test_an_alarm_watches_what_is_published(deployment: tuple[str, Resources, str, str]) -> None:
    alarms = deployment[1].of_type("aws_cloudwatch_metric_alarm")

    assert alarms
    for alarm in alarms:
        check_names(
            alarm.values["namespace"],
            alarm.values["metric_name"],
            dict(alarm.values["dimensions"]),
            deployment,
        )


def test_a_description_says_the_loss_and_ends_with_its_runbook(
    deployment: tuple[str, Resources, str, str],
) -> None:
    base = {
        "default": "docs/runbooks",
        "staging": "https://example.com/your/mirror/blob/main/docs/runbooks",
    }[deployment[3]]
    for alarm in deployment[1].of_type("aws_cloudwatch_metric_alarm"):
        text = alarm.values["alarm_description"]
        found = re.search(r" Runbook: (.+)/([a-z0-9-]+)\.md$", text)
        assert found, text
        assert found[1] == base
        assert (RUNBOOKS / f"{found[2]}.md").is_file(), text
        assert len(text) <= MAX_DESCRIPTION
        said = re.compile(r"\blost\b|not billed|billed less|may or may not be billed|status is wrong", re.I)
        assert said.search(text), text
        assert re.search(r"\bhours?\b|\bminutes\b|\b1st\b|no deadline|days", text), text


def test_every_alarm_has_its_runbook_and_every_runbook_its_alarm(
    metering: ModuleTest, events: ModuleTest, registration: ModuleTest, notifications: ModuleTest
) -> None:
    named = {
        str(alarm.values["alarm_description"]).rsplit("/", 1)[1]
        for result, runs in (
            (metering, ("full", "direct_submit")),
            (events, ("forwarding",)),
            (registration, ("verifying",)),
            (notifications, ("ses",)),
        )
        for run in runs
        for alarm in result.states[run].of_type("aws_cloudwatch_metric_alarm")
    }

    assert named == {path.name for path in RUNBOOKS.glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("module", WHOLE)
def test_the_keys_that_thresholds_may_name_are_those_of_the_alarms(
    module: str, request: pytest.FixtureRequest
) -> None:
    text = (REPOSITORY / "modules" / module / "alarms.tf").read_text()
    (block,) = re.findall(r"^  alarm_keys = \[\n(.*?)^  \]", text, re.M | re.S)
    keys = re.findall(r'"([a-z0-9-]+)"', block)

    assert keys == sorted(keys)
    assert set(keys) == {r.key for r in whole(module, request).of_type("aws_cloudwatch_metric_alarm")}


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        (
            "full",
            {
                "breaching": {
                    "discoverer-did-not-run",
                    "discovery-stalled",
                    "expiry-did-not-run",
                    "submission-stalled",
                    "submitter-did-not-run",
                },
                "ignore": {"oldest-unbilled-age"},
            },
        ),
        (
            "direct_submit",
            {
                "breaching": {"expiry-did-not-run", "submission-stalled", "submitter-did-not-run"},
                "ignore": {"oldest-unbilled-age"},
            },
        ),
    ],
)
def test_silence_is_an_alarm_only_where_something_must_speak(
    run: str, missing: dict[str, set[str]], metering: ModuleTest
) -> None:
    found: dict[str, set[str]] = {}
    for alarm in metering.states[run].of_type("aws_cloudwatch_metric_alarm"):
        found.setdefault(alarm.values["treat_missing_data"], set()).add(alarm.key)

    assert {how: keys for how, keys in found.items() if how != "notBreaching"} == missing


def test_the_last_hour_of_a_licence_is_watched_well_within_it(
    metering: ModuleTest, events: ModuleTest
) -> None:
    alarms = [
        result.states[run][f'module.alarms.aws_cloudwatch_metric_alarm.this["{key}"]']
        for result, run, key in (
            (metering, "full", "deprovision-work-oldest-message"),
            (events, "plain", "events-oldest-message"),
        )
    ]

    for alarm in alarms:
        assert alarm["threshold"] + alarm["period"] * alarm["evaluation_periods"] <= 1800


def test_every_schedule_rule_has_an_alarm_on_calls_that_fail(
    deployment: tuple[str, Resources, str, str],
) -> None:
    watched = {
        alarm.values["dimensions"]["RuleName"]
        for alarm in deployment[1].of_type("aws_cloudwatch_metric_alarm")
        if alarm.values["metric_name"] == "FailedInvocations"
    }

    assert watched == identifiers(deployment[1])["RuleName"]


# --- Dashboards --------------------------------------------------------------------------------------------


def test_a_dashboard_shows_what_is_published(
    deployment: tuple[str, Resources, str, str], web_acls: ModuleTest
) -> None:
    shown = list(graphed(body_of(deployment[1])))

    assert len(shown) > 10
    for namespace, name, dimensions in shown:
        check_names(namespace, name, dimensions, deployment, rule_metrics(deployment[1], web_acls))


def test_a_search_by_reason_finds_what_is_published_with_one(
    deployment: tuple[str, Resources, str, str],
) -> None:
    module, state, product, environment = deployment
    pattern = re.compile(
        r"SEARCH\('\{([^}]+)\} MetricName=\"(\w+)\" ProductCode=\"([\w-]+)\" Environment=\"([\w-]+)\"',"
        r" 'Sum', 300\)"
    )
    searches = [e for w in body_of(state) for e in expressions(w) if "SEARCH" in e["expression"]]

    assert len(searches) == {"metering": 3, "events": 0, "registration": 1}[module]
    for search in searches:
        found = pattern.fullmatch(search["expression"])
        assert found, search
        _, reasoned = emf(product, environment, Metric(found[2]), "SomeReason")
        assert found[1].split(",") == [reasoned.namespace, *reasoned.dimensions]
        assert (found[3], found[4]) == (product, environment)


@pytest.mark.parametrize("module", WHOLE)
def test_every_metric_that_a_module_publishes_is_on_its_dashboard(
    module: str, request: pytest.FixtureRequest
) -> None:
    shown = {name for space, name, _ in graphed(body_of(whole(module, request))) if space == OURS}
    by_reason_only = {"UsageRecordRejected"} if module == "metering" else set()

    assert metrics_of(module) - shown == by_reason_only


def test_expressions_refer_to_metrics_of_their_own_widget(
    deployment: tuple[str, Resources, str, str],
) -> None:
    functions = {"EPOCH", "FILL", "IF", "REPEAT", "SEARCH"}
    for widget in body_of(deployment[1]):
        ids = [
            part["id"]
            for entry in widget["properties"].get("metrics", [])
            for part in entry
            if isinstance(part, dict) and "id" in part
        ]
        assert len(ids) == len(set(ids))
        assert all(re.fullmatch(r"[a-z][A-Za-z0-9_]*", each) for each in ids)
        for expression in expressions(widget):
            words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'", "", expression["expression"])))
            assert words - functions <= set(ids) - {expression["id"]}, expression


@pytest.mark.parametrize(
    ("module", "asked"),
    [
        (
            "metering",
            [
                "UnitsAtRisk",
                "OldestUnbilledAgeSeconds",
                "SecondsToMonthEndWallWithUsagePending",
                "SubmissionRunsCompleted",
            ],
        ),
        ("events", ["ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "EventApplied"]),
        ("registration", ["BuyerRegistered", "BuyerAlreadyRegistered", "RegistrationFailed", "5XXError"]),
    ],
)
def test_the_first_row_tells_whether_money_is_at_risk(
    module: str, asked: list[str], request: pytest.FixtureRequest
) -> None:
    row = [widget for widget in body_of(whole(module, request)) if widget["y"] == 0]

    assert [name for _, name, _ in graphed(row)] == asked
    assert sum(widget["width"] for widget in row) == 24


def test_the_first_row_tells_why_buyers_were_refused(registration: ModuleTest) -> None:
    row = [widget for widget in body_of(registration.states["regional"]) if widget["y"] == 0]
    (search,) = [each["expression"] for widget in row for each in expressions(widget)]

    assert 'MetricName="RegistrationRejected"' in search


@pytest.mark.parametrize(
    ("run", "spaces"),
    [
        ("regional", {"AWS/WAFV2"}),
        ("cloudfront", {"AWS/CloudFront", "AWS/WAFV2"}),
        ("own_page", set()),
        ("cloudfront_estate", {"AWS/CloudFront"}),
    ],
)
def test_what_stands_before_the_api_is_shown_where_it_is_deployed(
    run: str, spaces: set[str], registration: ModuleTest, web_acls: ModuleTest
) -> None:
    """Every rule of the baseline web ACL; of an ACL of the seller's own the names cannot be known."""
    state = registration.states[run]
    shown = list(graphed(body_of(state)))

    assert {space for space, _, _ in shown} & {"AWS/CloudFront", "AWS/WAFV2"} == spaces
    rules = {dimensions["Rule"] for space, _, dimensions in shown if space == "AWS/WAFV2"}
    assert rules == rule_metrics(state, web_acls)


def test_the_age_is_measured_against_the_window_and_the_alarm(metering: ModuleTest) -> None:
    state = metering.states["full"]
    (gauge,) = [w for w in body_of(state) if w["properties"].get("view") == "gauge"]
    threshold = state['module.alarms.aws_cloudwatch_metric_alarm.this["oldest-unbilled-age"]']["threshold"]

    assert gauge["properties"]["yAxis"]["left"] == {"min": 0, "max": 24}
    (line,) = gauge["properties"]["annotations"]["horizontal"]
    assert line["value"] * 3600 == threshold


def test_no_two_widgets_overlap_and_all_are_in_the_24_columns(
    deployment: tuple[str, Resources, str, str],
) -> None:
    taken: set[tuple[int, int]] = set()
    for widget in body_of(deployment[1]):
        cells = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert not cells & taken, widget["properties"]["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_a_dashboard_is_of_its_region_and_holds_all_alarms(
    deployment: tuple[str, Resources, str, str],
) -> None:
    module, state, _, _ = deployment
    _, region, code = WHOLE[module]
    name = state["module.dashboard[0].aws_cloudwatch_dashboard.this"]["dashboard_name"]
    widgets = body_of(state)

    assert name.endswith(f"-{module}-{code}")
    for widget in widgets:
        if widget["type"] == "metric":
            # Whatever Region asks, CloudFront's metrics lie in us-east-1.
            of_cloudfront = any(space == "AWS/CloudFront" for space, _, _ in graphed([widget]))
            assert widget["properties"]["region"] == ("us-east-1" if of_cloudfront else region)
    (alarms,) = [w["properties"]["alarms"] for w in widgets if w["type"] == "alarm"]
    assert set(alarms) == {r.values["arn"] for r in state.of_type("aws_cloudwatch_metric_alarm")}


@pytest.mark.parametrize("module", WHOLE)
def test_a_dashboard_can_be_left_out_and_nothing_else_goes_with_it(
    module: str, request: pytest.FixtureRequest
) -> None:
    result: ModuleTest = request.getfixturevalue(module)
    run = WHOLE[module][0]
    before = {r.address for r in result.states[run]}
    after = {r.address for r in result.states["without_dashboard"]}

    assert before - after == {"module.dashboard[0].aws_cloudwatch_dashboard.this"}
    assert result.outputs[run]["dashboard_name"].startswith("awsmp-")
    assert result.outputs["without_dashboard"].get("dashboard_name") is None
