"""One copy of the repository, one Terraform and one result of each expensive command for a whole test run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sandbox.emulator import Emulator
from sandbox.local_cloud import LocalCloud
from tests.terraform.example_plan import PLANS, refresh
from tests.terraform.provider_server import ProviderServer, provider_executable
from tests.terraform.tool import (
    ModuleTest,
    Resource,
    Resources,
    Terraform,
    TerraformError,
    Values,
    copy_repository,
    resources_of,
    shared,
    with_one_acl_rule,
)

ExamplePlan = Callable[[str], Resources]

DEPLOYMENTS = "deployment_unit_test.tftest.hcl"
WEB_ACLS = "web_acl_unit_test.tftest.hcl"


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory that all workers of this test run see."""
    own = tmp_path_factory.getbasetemp()
    directory = (own if worker_id == "master" else own.parent) / "terraform"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def provider(run_directory: Path) -> Path:
    """The AWS provider's executable, installed once for all workers."""

    def install() -> Values:
        return {"executable": str(provider_executable(run_directory / "provider"))}

    return Path(shared(run_directory, "provider", install)["executable"])


@pytest.fixture(scope="session")
def terraform(tmp_path_factory: pytest.TempPathFactory, provider: Path) -> Iterator[Terraform]:
    """Terraform, attached to one running provider: for modules against mocks and roots with one provider."""
    directory = tmp_path_factory.mktemp("terraform-config")
    server = ProviderServer(provider, directory)
    yield Terraform(directory, server)
    server.stop()


@pytest.fixture(scope="session")
def cloud() -> Iterator[Emulator]:
    """One local AWS for all deployments of a worker; each is in an account of its own.

    By way of the local cloud, which answers again what Terraform sends again: on a busy machine the emulator
    now and then carries a call out and loses the answer.
    """
    with LocalCloud() as running:
        yield running.emulator


def deployer(cloud: Emulator, account: str) -> dict[str, str]:
    """Return the environment in which the provider deploys into an account of the emulator."""
    return {
        "AWS_ACCESS_KEY_ID": account,
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_SECRET_ACCESS_KEY": "none",
    }


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of modules, examples and zips that Terraform may write into; its web ACL has one rule."""
    return with_one_acl_rule(copy_repository(tmp_path_factory.mktemp("checkout")))


def _module_test(
    terraform: Terraform, checkout: Path, run_directory: Path, module: str, file: str = DEPLOYMENTS
) -> ModuleTest:
    def make() -> Values:
        terraform.init(checkout / "modules" / module)
        return asdict(terraform.test(checkout / "modules" / module, file)[file])

    value = shared(run_directory, f"{file}-{module}", make)
    states = {run: _resources(state) for run, state in value["states"].items()}
    return ModuleTest(value["outcomes"], value["problems"], states, value["outputs"])


def _resources(value: Any) -> Resources:
    return Resources({address: Resource(**resource) for address, resource in value["by_address"].items()})


@pytest.fixture(scope="session")
def metering(terraform: Terraform, checkout: Path, run_directory: Path) -> ModuleTest:
    """The metering module, applied against mocks in several deployments."""
    return _module_test(terraform, checkout, run_directory, "metering")


@pytest.fixture(scope="session")
def events(terraform: Terraform, checkout: Path, run_directory: Path) -> ModuleTest:
    """The events module, applied against mocks in several deployments."""
    return _module_test(terraform, checkout, run_directory, "events")


@pytest.fixture(scope="session")
def notifications(terraform: Terraform, checkout: Path, run_directory: Path) -> ModuleTest:
    """The notifications module, applied against mocks in several deployments."""
    return _module_test(terraform, checkout, run_directory, "notifications")


@pytest.fixture(scope="session")
def registration(terraform: Terraform, checkout: Path, run_directory: Path) -> ModuleTest:
    """The registration module, applied against mocks in several deployments; its web ACL has one rule."""
    return _module_test(terraform, checkout, run_directory, "registration")


@pytest.fixture(scope="session")
def web_acls(
    terraform: Terraform, run_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> ModuleTest:
    """The registration module with all rules of its baseline web ACL, planned against mocks."""
    whole = copy_repository(tmp_path_factory.mktemp("web-acls"))
    return _module_test(terraform, whole, run_directory, "registration", WEB_ACLS)


@pytest.fixture(scope="session")
def example_plan() -> ExamplePlan:
    """Returns what an example makes, planned without an account: the plan that ``make lint`` scans."""

    @cache
    def failures() -> dict[str, TerraformError]:
        return refresh(PLANS)

    @cache
    def planned(name: str) -> Resources:
        if name in failures():
            raise failures()[name]
        plan = json.loads((PLANS / f"{name}.json").read_text())
        return resources_of(plan["planned_values"]["root_module"])

    return planned
