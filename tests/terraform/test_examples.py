"""The examples plan in an empty account, offline, as a user would copy them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.terraform import example_plan as planning
from tests.terraform.conftest import ExamplePlan
from tests.terraform.tool import REPOSITORY, Resources, copy_repository

pytestmark = pytest.mark.slow

EXAMPLES = sorted(path.parent.name for path in (REPOSITORY / "examples").glob("*/main.tf"))


@pytest.mark.parametrize(
    ("changed", "planned_again"),
    [
        ("examples/minimal/main.tf", True),
        ("modules/queue/main.tf", True),
        ("lambda_dist/manifest.json", True),
        ("lambda_src/awsmp/page/index.html", True),
        ("tests/terraform/example_plan.py", True),
        ("examples/complete/main.tf", False),
        ("examples/minimal/README.md", False),
    ],
)
def test_a_kept_plan_is_used_until_something_that_it_follows_from_changes(
    changed: str, planned_again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_repository(tmp_path)
    for code in ("sandbox/terraform.py", "tests/terraform/example_plan.py", "tests/terraform/tool.py"):
        (tmp_path / code).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / code, tmp_path / code)
    monkeypatch.setattr(planning, "REPOSITORY", tmp_path)
    before = planning.digest("minimal")
    assert planning.digest("minimal") == before

    with (tmp_path / changed).open("a") as file:
        file.write("\n")

    assert (planning.digest("minimal") != before) is planned_again


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
    assert len(seen) > 40
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


#: What AWS cannot tag at all.
UNTAGGABLE = {
    "aws_acm_certificate_validation",
    "aws_api_gateway_account",
    "aws_api_gateway_base_path_mapping",
    "aws_api_gateway_deployment",
    "aws_api_gateway_gateway_response",
    "aws_api_gateway_integration",
    "aws_api_gateway_method",
    "aws_api_gateway_method_settings",
    "aws_api_gateway_resource",
    "aws_cloudwatch_dashboard",
    "aws_cloudwatch_event_target",
    "aws_dynamodb_table_item",
    "aws_iam_role_policy",
    "aws_iam_role_policy_attachment",
    "aws_kms_alias",
    "aws_lambda_function_event_invoke_config",
    "aws_lambda_layer_version",
    "aws_lambda_permission",
    "aws_route53_record",
    "aws_sesv2_configuration_set_event_destination",
    "aws_sns_topic_policy",
    "aws_sns_topic_subscription",
    "aws_sqs_queue_policy",
    "aws_sqs_queue_redrive_allow_policy",
    "aws_wafv2_web_acl_association",
    "terraform_data",
}


@pytest.mark.parametrize(
    ("example", "tags"),
    [
        ("complete", {"owner": "billing-team", "service": "marketplace-billing"}),
        ("existing-estate", {"cost-center": "4711", "data-class": "billing"}),
    ],
)
def test_default_tags_and_tags_are_on_everything_that_can_have_them(
    example: str, tags: dict[str, str], example_plan: ExamplePlan
) -> None:
    plan = example_plan(example)

    assert {r.type for r in plan if "tags_all" not in r.values} <= UNTAGGABLE
    tagged = {r.address: r.values["tags_all"] for r in plan if "tags_all" in r.values}
    assert len(tagged) > 50
    assert {address: found for address, found in tagged.items() if found != tags} == {}


def test_complete_has_every_tier_encrypted_on_its_own_host_name(example_plan: ExamplePlan) -> None:
    plan = example_plan("complete")

    tables = plan.of_type("aws_dynamodb_table")
    assert len(tables) == 6
    assert all(table.values["server_side_encryption"][0]["enabled"] for table in tables)
    assert all(table.values["deletion_protection_enabled"] for table in tables)
    assert len(plan.of_type("aws_lambda_function")) == 3 + 5 + 3 + 6
    assert {r.values["domain_name"] for r in plan.of_type("aws_api_gateway_domain_name")} == {
        "buy.example.com"
    }
    assert len(plan.of_type("aws_sns_topic")) == 3


def test_nothing_in_complete_comes_without_a_word_of_what_it_is_for(example_plan: ExamplePlan) -> None:
    """A plan is read by people who have never seen the project."""
    plan = example_plan("complete")
    described = {
        "aws_cloudwatch_event_rule": "description",
        "aws_cloudwatch_metric_alarm": "alarm_description",
        "aws_iam_policy": "description",
        "aws_iam_role": "description",
        "aws_kms_key": "description",
        "aws_lambda_function": "description",
        "aws_ssm_parameter": "description",
    }

    texts = {r.address: r.values.get(described[r.type]) or "" for r in plan if r.type in described}

    assert len(texts) > 50
    assert {address: text for address, text in texts.items() if len(text.split()) < 4} == {}


def test_direct_submit_has_the_tables_and_the_sender_only(example_plan: ExamplePlan) -> None:
    plan = example_plan("direct-submit")

    handlers = {
        r.values["handler"].split(".")[-2] for r in plan.of_type("aws_lambda_function", "module.metering")
    }
    assert handlers == {"expiry", "submitter"}
    assert plan.of_type("aws_sqs_queue", "module.metering") == []
    assert len(plan.of_type("aws_dynamodb_table", "module.metering")) == 2
    assert len(plan.of_type("aws_dynamodb_resource_policy", "module.metering")) == 1


def test_an_existing_estate_keeps_its_rules(example_plan: ExamplePlan) -> None:
    plan = example_plan("existing-estate")

    roles = plan.of_type("aws_iam_role")
    assert len(roles) == 2 + 4
    assert {(r.values["path"], r.values["permissions_boundary"]) for r in roles} == {
        ("/workload/", "arn:aws:iam::111122223333:policy/workload-boundary")
    }
    functions = {r.address: r.values for r in plan.of_type("aws_lambda_function")}
    assert functions['module.metering.module.function["submitter"].aws_lambda_function.this']["role"] == (
        "arn:aws:iam::111122223333:role/security/marketplace-submitter"
    )
    key = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    assert {values["kms_key_arn"] for values in functions.values()} == {key}
    assert {tuple(sorted(values["vpc_config"][0]["subnet_ids"])) for values in functions.values()} == {
        ("subnet-0123456789abcdef0", "subnet-0123456789abcdef1")
    }
    assert {r.values["kms_key_id"] for r in plan.of_type("aws_cloudwatch_log_group")} == {key}
    assert {r.values["kms_master_key_id"] for r in plan.of_type("aws_sqs_queue")} == {key}
    assert {
        r.values["server_side_encryption"][0]["kms_key_arn"] for r in plan.of_type("aws_dynamodb_table")
    } == {key}
    assert plan.of_type("aws_cloudwatch_dashboard") == []
    assert all(r.values["name"].startswith("acme-mp-") for r in roles if "name" in r.values)


def test_a_legacy_product_sends_its_own_product_code(example_plan: ExamplePlan) -> None:
    plan = example_plan("legacy-product")

    expiry = plan['module.metering.module.function["expiry"].aws_lambda_function.this']
    assert expiry["environment"][0]["variables"]["LEGACY_PRODUCT_CODE"] == "1example2product3code4567"
