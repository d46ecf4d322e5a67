"""The examples that users start from apply on the local emulator, and a second plan changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.emulator import Emulator
from tests.terraform.conftest import ExamplePlan, deployer
from tests.terraform.provider_server import ProviderServer, ProviderServers, has_one_provider
from tests.terraform.tool import Terraform, TerraformError, Values, copy_repository

#: In `make test`, the deployed tiers are `examples/registration`, applied and planned again (tests/e2e).
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulator,
    pytest.mark.wide,
    pytest.mark.xdist_group("state_safety"),
]

#: Each in an account of its own: they make tables of the same names.
ACCOUNTS = {"minimal": "222233334444", "complete": "333344445555", "multi-region": "444455556666"}


#: What the emulator gives back otherwise than it was made, and what a second plan therefore does: it has no
#: mapping of a host's root path, no bodies of a web ACL's answers, and an empty trust store on every host.
GIVEN_BACK_OTHERWISE = {
    "module.registration.aws_api_gateway_base_path_mapping.this[0]": "create",
    "module.registration.aws_api_gateway_domain_name.this[0]": "update",
    "module.registration.aws_wafv2_web_acl.this[0]": "update",
}

#: The Regions in which each keeps usage.
REGIONS = {
    "minimal": ["us-east-1"],
    "complete": ["us-east-1"],
    "multi-region": ["ap-southeast-1", "eu-west-1", "us-east-1"],
}


#: What the emulator makes but does not give back, so that Terraform takes its creation for failed.
LOST_BY_THE_EMULATOR = {"complete": {"module.registration.aws_api_gateway_base_path_mapping.this[0]"}}


@dataclass(frozen=True, slots=True)
class Applied:
    """An applied example: the resources in its state, the broken ones, and what a second plan does."""

    name: str
    made: set[str]
    tainted: set[str]
    changes: dict[str, str]


def addresses(state: Values, *, tainted: bool = False) -> set[str]:
    """Return the addresses of a state file's resources, or only of those whose creation went wrong."""
    return {
        "".join(
            [
                f"{resource['module']}." if "module" in resource else "",
                f"{resource['type']}.{resource['name']}",
                f"[{json.dumps(instance['index_key'])}]" if "index_key" in instance else "",
            ]
        )
        for resource in state["resources"]
        if resource["mode"] == "managed"
        for instance in resource["instances"]
        if not tainted or instance.get("status") == "tainted"
    }


def settings_of(name: str, account: str, cloud: Emulator) -> dict[str, str]:
    """Return what an example cannot be applied without, made in the account where it has to exist."""
    if name != "complete":
        return {}
    zone = cloud.client("route53", account_id=account).create_hosted_zone(
        Name="example.com", CallerReference=name
    )
    return {"account_id": account, "hosted_zone_id": zone["HostedZone"]["Id"].rpartition("/")[2]}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_repository(tmp_path_factory.mktemp("applied")) / "examples"


@pytest.fixture(scope="module", params=ACCOUNTS)
def applied(
    request: pytest.FixtureRequest,
    examples: Path,
    cloud: Emulator,
    provider: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Applied]:
    name: str = request.param
    environment = deployer(cloud, ACCOUNTS[name])
    directory = tmp_path_factory.mktemp("config")
    root = examples / name
    serving = ProviderServer if has_one_provider(root) else ProviderServers
    server = serving(provider, directory, environment, root=root)
    terraform = Terraform(directory, server)
    variables = settings_of(name, ACCOUNTS[name], cloud)
    try:
        terraform.init(root)
        try:
            terraform.apply(root, variables)
        except TerraformError:
            # Of such an apply the state tells which resource failed: exactly that one may have.
            if name not in LOST_BY_THE_EMULATOR:
                raise
        changes = terraform.changes(root, *(f"-var={key}={value}" for key, value in variables.items()))
        state = json.loads((root / "terraform.tfstate").read_text())
        yield Applied(name, addresses(state), addresses(state, tainted=True), changes)
    finally:
        server.stop()


def test_an_example_applies_and_makes_all_that_it_planned(
    applied: Applied, example_plan: ExamplePlan
) -> None:
    planned = {resource.address for resource in example_plan(applied.name)}

    assert len(planned) > 40
    assert applied.made == planned
    assert applied.tainted == LOST_BY_THE_EMULATOR.get(applied.name, set())


def test_a_second_plan_of_an_example_is_empty(applied: Applied) -> None:
    """But for alarms: the emulator forgets attributes, and `test_state_safety.py` looks at which."""
    rest = {
        address: what
        for address, what in applied.changes.items()
        if (what, address.split(".")[-2]) != ("update", "aws_cloudwatch_metric_alarm")
        and GIVEN_BACK_OTHERWISE.get(address) != what
    }

    assert rest == {}


def test_an_examples_tables_are_in_its_regions(applied: Applied, cloud: Emulator) -> None:
    regions = [
        region
        for region in ("ap-southeast-1", "eu-west-1", "us-east-1")
        if "awsmp-1example2product3code4567-usage"
        in cloud.client("dynamodb", region=region, account_id=ACCOUNTS[applied.name]).list_tables()[
            "TableNames"
        ]
    ]

    assert regions == REGIONS[applied.name]
