"""What is written down for the unit tests, and counted in the costs, is what a deployment makes."""

from __future__ import annotations

import pytest

from sandbox.costs import made_by_registration
from sandbox.module_docs import MODULES, ROLES_FILE, policies_of, roles_document
from tests.terraform.tool import ModuleTest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployments")]


def test_the_recorded_roles_are_those_of_the_modules(request: pytest.FixtureRequest) -> None:
    """After a change of permissions: ``make docs``."""
    tested: dict[str, ModuleTest] = {module: request.getfixturevalue(module) for module in MODULES}

    deployed = {module: policies_of(test.outputs) for module, test in tested.items()}

    assert roles_document(deployed) == ROLES_FILE.read_text(encoding="utf-8")


def test_the_costs_count_what_a_deployed_registration_is_paid_for_by_the_month(
    registration: ModuleTest,
) -> None:
    resources = list(registration.states["regional"])
    (acl,) = [each for each in resources if each.type == "aws_wafv2_web_acl"]

    assert made_by_registration() == {
        "alarms": sum(each.type == "aws_cloudwatch_metric_alarm" for each in resources),
        "dashboards": sum(each.type == "aws_cloudwatch_dashboard" for each in resources),
        "web_acls": 1,
        "rules": len(acl.values["rule"]),
    }
