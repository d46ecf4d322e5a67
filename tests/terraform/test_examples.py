"""The examples plan in an empty account, offline, as a user would copy them."""

from __future__ import annotations

import re

import pytest

from tests.terraform.conftest import ExamplePlan
from tests.terraform.tool import REPOSITORY, Resources

pytestmark = pytest.mark.slow

EXAMPLES = sorted(path.parent.name for path in (REPOSITORY / "examples").glob("*/main.tf"))


def clashes(resources: Resources, region_of: dict[str, str]) -> list[tuple[str, ...]]:
    """Return names that two resources of one kind would share in one Region."""
    attribute = {
        "aws_cloudwatch_event_rule": "name",
        "aws_cloudwatch_log_group": "name",
        "aws_cloudwatch_metric_alarm": "alarm_name",
        "aws_dynamodb_table": "name",
        "aws_lambda_function": "function_name",
        "aws_lambda_layer_version": "layer_name",
        "aws_sqs_queue": "name",
        "aws_ssm_parameter": "name",
    }
    seen: set[tuple[str, ...]] = set()
    twice: list[tuple[str, ...]] = []
    for resource in resources:
        if resource.type in attribute:
            module = resource.address.split(".")[1]
            name = resource.values[attribute[resource.type]]
            key = (resource.type, name, region_of.get(module, "us-east-1"))
            if key in seen:
                twice.append(key)
            seen.add(key)
    assert len(seen) > 50
    return twice


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_plans_and_nothing_in_it_shares_a_name(example: str, example_plan: ExamplePlan) -> None:
    regions = {
        "metering_apse1": "ap-southeast-1",
        "metering_euw1": "eu-west-1",
        "registration_apse1": "ap-southeast-1",
        "registration_euw1": "eu-west-1",
    }

    assert clashes(example_plan(example), regions) == []


def test_minimal_has_one_of_everything(example_plan: ExamplePlan) -> None:
    plan = example_plan("minimal")

    assert {r.values["name"] for r in plan.of_type("aws_dynamodb_table")} == {
        "awsmp-1example2product3code4567-aggregated-usage",
        "awsmp-1example2product3code4567-usage",
        "awsmp-parked-agreement-events",
        "awsmp-subscribers",
    }
    assert len(plan.of_type("aws_lambda_function")) == 7


def test_two_products_share_a_region_and_its_quota(example_plan: ExamplePlan) -> None:
    """AWS allows an account 10 BatchMeterUsage requests a second and Region."""
    source = (REPOSITORY / "examples" / "multi-product" / "main.tf").read_text()
    rates = re.findall(r"requests_per_second = (\d+)", source)
    functions = example_plan("multi-product").of_type("aws_lambda_function")
    submitters = [r for r in functions if r.values["handler"] == "awsmp.handlers.submitter.handler"]

    assert len(submitters) == 2
    assert len(submitters) * int(rates[0]) <= 10


def test_three_regions_share_one_subscribers_table(example_plan: ExamplePlan) -> None:
    plan = example_plan("multi-region")

    tables = [r.values["name"] for r in plan.of_type("aws_dynamodb_table")]
    assert tables.count("awsmp-subscribers") == 1
    assert tables.count("awsmp-1example2product3code4567-usage") == 3
    assert len(plan.of_type("aws_lambda_function")) == 2 + 3 * 5


def test_a_sandbox_stands_beside_production_and_cannot_bill(example_plan: ExamplePlan) -> None:
    plan = example_plan("sandbox")

    protected = {
        r.values["name"]: r.values["deletion_protection_enabled"] for r in plan.of_type("aws_dynamodb_table")
    }
    assert protected["awsmp-subscribers"] is True
    assert protected["awsmp-sandbox-subscribers"] is False
    assert len(protected) == 8


@pytest.mark.parametrize("example", ["minimal", "multi-product", "multi-region", "sandbox"])
def test_the_readme_prints_what_the_example_is(example: str) -> None:
    """But for where the modules come from, and the alignment that their longer address does not change."""
    readme = (REPOSITORY / "README.md").read_text()
    printed = re.search(rf'href="examples/{example}">.*?```hcl\n(.*?)```', readme, re.S)
    source = (REPOSITORY / "examples" / example / "main.tf").read_text()

    assert printed is not None
    assert re.sub(r'"git::https://example\.com/your/mirror\.git//', '"../../', printed[1]) == source


def test_a_product_with_registration_has_a_page_an_api_and_profiles(example_plan: ExamplePlan) -> None:
    plan = example_plan("registration")

    handlers = [r.values["handler"] for r in plan.of_type("aws_lambda_function", "module.registration")]
    assert sorted(handlers) == ["awsmp.handlers.page.handler", "awsmp.handlers.register.handler"]
    profiles = plan["module.registration.aws_dynamodb_table.customer_profile"]
    assert profiles["name"] == "awsmp-1example2product3code4567-customer-profile"
    assert len(plan.of_type("aws_wafv2_web_acl_association")) == 1
    assert len((REPOSITORY / "examples" / "registration" / "main.tf").read_text().splitlines()) <= 40


def test_three_regions_share_one_page_and_no_profile(example_plan: ExamplePlan) -> None:
    """One deployment owns the page; each keeps its own profiles; the subscribers table is one."""
    plan = example_plan("three-regions-one-page")

    tables = [r.values["name"] for r in plan.of_type("aws_dynamodb_table")]
    assert tables.count("awsmp-subscribers") == 1
    assert tables.count("awsmp-1example2product3code4567-customer-profile") == 3
    assert [r for r in plan.of_type("aws_dynamodb_table") if r.values.get("replica")] == []
    roles = [
        r.values["description"]
        for r in plan.of_type("aws_iam_role")
        if "API Gateway" in r.values["description"]
    ]
    assert len(roles) == 3
    assert len(plan.of_type("aws_wafv2_web_acl_association")) == 3
