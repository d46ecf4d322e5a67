"""What later plans do to a deployment that exists: applied once to the local emulator, then planned from it.

The emulator gives alarms back without most of their attributes; updates of those attributes are left out
everywhere, and the mocked deployments assert on them instead.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.emulator import Emulator
from tests.terraform.conftest import deployer
from tests.terraform.provider_server import ProviderServer
from tests.terraform.tool import Terraform, Values, actions, copy_repository

pytestmark = [pytest.mark.slow, pytest.mark.emulator, pytest.mark.xdist_group("state_safety")]

FORGOTTEN_OF_ALARMS = {
    "actions_enabled",
    "alarm_description",
    "dimensions",
    "period",
    "statistic",
    "treat_missing_data",
}

ROOT = """
provider "aws" {
  region = "us-east-1"
}

variable "deployment_mode" {
  type    = string
  default = "direct-submit"
}

variable "generation" {
  type    = string
  default = "1"
}

module "before" {
  source     = "./before"
  generation = var.generation
}

module "metering" {
  source          = "../modules/metering"
  deployment_mode = var.deployment_mode
  metering_mode   = "live"
  product_code    = "1example2product3code4567"

  subscribers_table = {
    arn    = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
    name   = "awsmp-subscribers"
    region = "us-east-1"
  }

  depends_on = [module.before]
}
"""

BEFORE = """
variable "generation" {
  type = string
}

resource "terraform_data" "this" {
  input = var.generation
}
"""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A root module with state, and how to plan it."""

    terraform: Terraform
    root: Path

    def plan(self, **variables: str) -> Values:
        """Plan from the state as it is: reading everything again would change nothing in these plans."""
        return self.terraform.plan_from_state(
            self.root, *(f"-var={name}={value}" for name, value in variables.items())
        )

    def moved_to(self, checkout: Path) -> Deployment:
        """Return the same deployment in another checkout."""
        copy_repository(checkout)
        shutil.copytree(self.root, checkout / "root", ignore=shutil.ignore_patterns(".terraform*"))
        moved = Deployment(self.terraform, checkout / "root")
        self.terraform.init(moved.root)
        return moved


def differing(change: Values) -> set[str]:
    """Return the attributes that an update changes."""
    before, after = change["before"], change["after"]
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def made(plan: Values) -> dict[str, list[str]]:
    """Return a plan's actions without what the emulator forgets."""
    forgotten = {
        change["address"]
        for change in plan["resource_changes"]
        if change["type"] == "aws_cloudwatch_metric_alarm"
        and change["change"]["actions"] == ["update"]
        and differing(change["change"]) <= FORGOTTEN_OF_ALARMS
    }
    return {address: what for address, what in actions(plan).items() if address not in forgotten}


@pytest.fixture(scope="module")
def deployment(
    cloud: Emulator, provider: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    directory = tmp_path_factory.mktemp("deployed")
    root = copy_repository(directory / "checkout") / "root"
    (root / "before").mkdir(parents=True)
    (root / "main.tf").write_text(ROOT)
    (root / "before" / "main.tf").write_text(BEFORE)
    server = ProviderServer(provider, directory, deployer(cloud, "111122223333"), root=root)
    try:
        terraform = Terraform(directory, server)
        terraform.init(root)
        terraform.apply(root)
        yield Deployment(terraform, root)
    finally:
        server.stop()


def test_a_second_plan_is_empty(deployment: Deployment) -> None:
    """Everything that exists is read again for it."""
    assert made(deployment.terraform.plan(deployment.root)) == {}


def test_a_callers_depends_on_plans_nothing(deployment: Deployment) -> None:
    """It defers the module's data source; nothing that exists may follow it."""
    changes = made(deployment.plan(generation="2"))

    assert changes == {"module.before.terraform_data.this": ["update"]}


def test_another_data_directory_changes_nothing(deployment: Deployment, tmp_path: Path) -> None:
    """Some runners keep providers and modules elsewhere: ``path.module`` and ``filename`` must not follow."""
    elsewhere = {"TF_DATA_DIR": str(tmp_path / "data")}
    deployment.terraform.run("init", "-no-color", "-input=false", cwd=deployment.root, environment=elsewhere)

    plan = deployment.terraform.plan_from_state(deployment.root, environment=elsewhere)

    assert (tmp_path / "data" / "modules" / "modules.json").is_file()
    assert made(plan) == {}


def test_a_checkout_in_another_folder_changes_nothing(deployment: Deployment, tmp_path: Path) -> None:
    assert made(deployment.moved_to(tmp_path / "elsewhere").plan()) == {}


def test_new_code_updates_the_functions_and_destroys_nothing_stateful(
    deployment: Deployment, tmp_path: Path
) -> None:
    moved = deployment.moved_to(tmp_path / "next-release")
    packages = moved.root.parent / "lambda_dist"
    manifest = json.loads((packages / "manifest.json").read_text())
    for name in ("awsmp.zip", "dependencies.zip"):
        content = (packages / name).read_bytes() + b"next"
        (packages / name).write_bytes(content)
        digest = hashlib.sha256(content)
        manifest["packages"][name] = {
            "bytes": len(content),
            "sha256": digest.hexdigest(),
            "sha256_base64": base64.b64encode(digest.digest()).decode(),
        }
    (packages / "manifest.json").write_text(json.dumps(manifest))

    changes = made(moved.plan())

    assert changes.pop("module.metering.module.package.aws_lambda_layer_version.dependencies") == [
        "create",
        "delete",
    ]
    pins = {address for address in changes if ".terraform_data." in address}
    functions = {address for address in changes if address.endswith(".aws_lambda_function.this")}
    assert len(pins) == 3
    assert len(functions) == 2
    assert {frozenset(changes.pop(address)) for address in pins} == {frozenset({"create", "delete"})}
    assert {tuple(changes.pop(address)) for address in functions} == {("update",)}
    assert changes == {}


def test_a_zip_that_its_manifest_does_not_describe_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    moved = deployment.moved_to(tmp_path / "mixed-up")
    with (moved.root.parent / "lambda_dist" / "awsmp.zip").open("ab") as package:
        package.write(b"other")

    refused = moved.terraform.run(
        "plan", "-no-color", "-input=false", "-lock=false", "-refresh=false", cwd=moved.root, check=False
    )

    assert refused.returncode == 1
    assert "is not the one that its manifest.json" in " ".join(refused.stderr.split())


def test_switching_to_the_full_pipeline_only_adds(deployment: Deployment) -> None:
    changes = made(deployment.plan(deployment_mode="full"))

    assert {address for address in changes if "aws_dynamodb_table" in address} == set()
    assert {tuple(what) for what in changes.values()} <= {("create",), ("update",)}
    updated = {
        address.removeprefix("module.metering.") for address, what in changes.items() if what == ["update"]
    }
    assert updated <= {
        "aws_ssm_parameter.deployment",
        "module.dashboard[0].aws_cloudwatch_dashboard.this",
        'module.function["submitter"].aws_iam_role_policy.this[0]',
        'module.function["submitter"].aws_lambda_function.this',
    }
