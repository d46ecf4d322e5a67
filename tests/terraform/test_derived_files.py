"""What is written down for the unit tests, and counted in the costs, is what a deployment makes."""

from __future__ import annotations

import pytest

from sandbox.costs import made_by_notifications, made_by_registration
from sandbox.module_docs import MODULES, ROLES_FILE, policies_of, roles_document
from tests.terraform.tool import ModuleTest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployments")]


def test_the_recorded_roles_are_those_of_the_modules(request: pytest.FixtureRequest) -> None:
    """After a change of permissions: ``make docs``."""
    tested: dict[str, ModuleTest] = {module: request.getfixturevalue(module) for module in MODULES}

    deployed = {module: policies_of(test.outputs) for module, test in tested.items()}

    assert roles_document(deployed) == ROLES_FILE.read_text(encoding="utf-8")


def test_the_costs_count_what_a_deployed_registration_is_paid_for_by_the_month(
    registration: ModuleTest, web_acls: ModuleTest
) -> None:
    resources = list(registration.states["regional"])
    (acl,) = web_acls.states["regional"].of_type("aws_wafv2_web_acl")

    assert made_by_registration() == {
        "alarms": sum(each.type == "aws_cloudwatch_metric_alarm" for each in resources),
        "dashboards": sum(each.type == "aws_cloudwatch_dashboard" for each in resources),
        "web_acls": 1,
        "rules": len(acl.values["rule"]),
    }


def test_the_costs_count_what_deployed_notifications_are_paid_for_by_the_month(
    notifications: ModuleTest, events: ModuleTest, registration: ModuleTest
) -> None:
    resources = notifications.states["ses"]

    def number(states: ModuleTest, run: str, kind: str) -> int:
        return len(states.states[run].of_type(kind))

    alarm = "aws_cloudwatch_metric_alarm"
    assert made_by_notifications() == {
        "alarms": number(notifications, "ses", alarm)
        + number(events, "forwarding", alarm)
        - number(events, "plain", alarm)
        + number(registration, "verifying", alarm)
        - number(registration, "regional", alarm),
        "dashboards": number(notifications, "ses", "aws_cloudwatch_dashboard"),
        "keys": number(notifications, "ses", "aws_kms_key"),
        # A stream is polled for nothing; its mapping has another name.
        "polled_queues": sum(
            ".aws_lambda_event_source_mapping.this[" in each.address
            for each in resources.of_type("aws_lambda_event_source_mapping")
        ),
    }
