"""One copy of the repository, one Terraform and one result of each expensive command for a whole test run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.terraform.tool import (
    ModuleTest,
    Resource,
    Resources,
    Terraform,
    Values,
    copy_repository,
    go_offline,
    resources_of,
    shared,
)

ExamplePlan = Callable[[str], Resources]


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory that all workers of this test run see."""
    own = tmp_path_factory.getbasetemp()
    directory = (own if worker_id == "master" else own.parent) / "terraform"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    return Terraform(tmp_path_factory.mktemp("terraform-config"))


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of modules, examples and zips that Terraform may write into."""
    return copy_repository(tmp_path_factory.mktemp("checkout"))


def _module_test(terraform: Terraform, checkout: Path, run_directory: Path, module: str) -> ModuleTest:
    def make() -> Values:
        terraform.init(checkout / "modules" / module)
        return asdict(terraform.test(checkout / "modules" / module, "deployment_unit_test.tftest.hcl"))

    value = shared(run_directory, f"deployment-{module}", make)
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
def registration(terraform: Terraform, checkout: Path, run_directory: Path) -> ModuleTest:
    """The registration module, applied against mocks in several deployments."""
    return _module_test(terraform, checkout, run_directory, "registration")


@pytest.fixture(scope="session")
def example_plan(terraform: Terraform, checkout: Path, run_directory: Path) -> ExamplePlan:
    """Plans an example without an account and returns its planned resources."""

    def plan(name: str) -> Resources:
        def make() -> Values:
            root = checkout / "examples" / name
            go_offline(root)
            terraform.init(root)
            return asdict(resources_of(terraform.plan(root)["planned_values"]["root_module"]))

        return _resources(shared(run_directory, f"example-{name}", make))

    return plan
