"""The permissions that the READMEs show are those that a deployment makes."""

from __future__ import annotations

import pytest

from sandbox.costs import made_by_modules
from sandbox.module_docs import iam_section, policies_of, replace_section
from tests.terraform.tool import REPOSITORY, ModuleTest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployments")]


@pytest.mark.parametrize("module", ["events", "metering", "notifications", "registration"])
def test_the_readme_shows_the_permissions_of_every_role(module: str, request: pytest.FixtureRequest) -> None:
    """After a change of permissions: ``make docs``."""
    tested: ModuleTest = request.getfixturevalue(module)
    readme = (REPOSITORY / "modules" / module / "README.md").read_text(encoding="utf-8")

    policies = policies_of(tested.outputs)

    assert policies
    assert replace_section(readme, "iam", iam_section(module, policies)) == readme


def test_the_costs_count_the_alarms_and_dashboards_that_a_full_deployment_makes(
    events: ModuleTest, metering: ModuleTest
) -> None:
    resources = [*events.states["plain"], *metering.states["full"]]

    assert made_by_modules() == {
        "alarms": sum(each.type == "aws_cloudwatch_metric_alarm" for each in resources),
        "dashboards": sum(each.type == "aws_cloudwatch_dashboard" for each in resources),
    }
