"""Adding notifications to a deployment that exists: the recorded state of a release, planned with them."""

from __future__ import annotations

import shutil

import pytest

from tests.terraform.record_state import STATES
from tests.terraform.test_upgrade import RENEWED, STATEFUL, type_of
from tests.terraform.tool import (
    Terraform,
    Values,
    actions,
    copy_repository,
    go_offline,
    with_one_acl_rule,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("upgrade")]

VERSIONS = sorted(path.name for path in STATES.iterdir())

SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:{}-AbCdEf"

NOTIFICATIONS = f"""
module "notifications" {{
  source                  = "../../modules/notifications"
  customer_profile_tables = {{ product = module.registration.customer_profile_table }}
  labels                  = {{ product = "Example", plan = "Standard", seller = "Example", support = "help" }}
  pepper_secret           = {{ arn = "{SECRET.format("pepper")}" }}
  portal_url              = "https://app.example.com/"
  sender                  = "billing@example.com"
  subscribers_table       = module.events.subscribers_table
  transport = {{
    type = "ses"
    ses  = {{ identity_arn = "arn:aws:ses:us-east-1:111122223333:identity/example.com" }}
  }}
  verification_secret = {{ arn = "{SECRET.format("verification")}" }}
}}
"""

FORWARDING = "  forward_event_buses = { us-east-1 = module.notifications.event_bus }\n"
VERIFYING = f'  address_verification = {{ secret = {{ arn = "{SECRET.format("verification")}" }} }}\n'


@pytest.fixture(scope="module", params=VERSIONS)
def plan(
    request: pytest.FixtureRequest, terraform: Terraform, tmp_path_factory: pytest.TempPathFactory
) -> Values:
    checkout = with_one_acl_rule(copy_repository(tmp_path_factory.mktemp("notified")))
    root = checkout / "examples" / "notified"
    shutil.copytree(root.parent / "registration", root)
    go_offline(root)
    shutil.copy(STATES / request.param / "registration.tfstate.json", root / "terraform.tfstate")
    main = (root / "main.tf").read_text()
    for module, argument in (("events", FORWARDING), ("registration", VERIFYING)):
        head = f'module "{module}" {{\n'
        assert main.count(head) == 1
        main = main.replace(head, head + argument)
    (root / "main.tf").write_text(main + NOTIFICATIONS)
    terraform.init(root)
    return terraform.plan_from_state(root)


def below(plan: Values, *modules: str) -> dict[str, list[str]]:
    """Return what a plan does below some modules, by address."""
    return {
        address: what
        for address, what in actions(plan).items()
        if address.startswith(tuple(f"module.{module}." for module in modules))
    }


def test_adding_notifications_destroys_and_replaces_nothing(plan: Values) -> None:
    existing = {
        change["address"] for change in plan["resource_changes"] if change["change"]["before"] is not None
    }
    lost = {
        address: what
        for address, what in actions(plan).items()
        if "delete" in what and type_of(address) not in RENEWED
    }

    assert len([address for address in existing if type_of(address) in STATEFUL]) > 30
    assert lost == {}


def test_no_table_that_exists_is_touched(plan: Values) -> None:
    tables = {
        change["address"]: change["change"]["actions"]
        for change in plan["resource_changes"]
        if change["type"] == "aws_dynamodb_table"
    }

    assert tables.pop("module.notifications.aws_dynamodb_table.notifications") == ["create"]
    assert len(tables) == 5
    assert set(map(tuple, tables.values())) == {("no-op",)}


def test_the_forwarder_and_the_verify_route_are_made_beside_what_is_there(plan: Values) -> None:
    made = {address for address, what in below(plan, "events", "registration").items() if what == ["create"]}

    assert "module.events.module.forwarder[0].aws_lambda_function.this" in made
    assert 'module.events.module.forwarder[0].aws_lambda_event_source_mapping.stream["subscribers"]' in made
    assert "module.registration.module.verify[0].aws_lambda_function.this" in made
    assert 'module.registration.aws_api_gateway_method.this["POST /verify"]' in made


def test_metering_is_not_concerned(plan: Values) -> None:
    """But for the code of the release itself, which is newer than the recorded one."""
    concerned = {type_of(address) for address in below(plan, "metering")}

    assert concerned <= {
        *RENEWED,
        "aws_cloudwatch_dashboard",
        "aws_cloudwatch_metric_alarm",
        "aws_lambda_event_source_mapping",
        "aws_lambda_function",
        "aws_ssm_parameter",
    }
