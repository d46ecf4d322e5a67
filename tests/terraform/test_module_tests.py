"""The modules' own ``terraform test`` files pass, and between them every validation is seen to refuse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.terraform.tool import REPOSITORY, ModuleTest, Terraform

pytestmark = pytest.mark.slow

MODULES = REPOSITORY / "modules"
FILES = sorted(
    path.relative_to(MODULES)
    for path in MODULES.glob("*/tests/*.tftest.hcl")
    if not path.name.startswith("deployment_")
)
PUBLIC = ("events", "metering", "registration")


def runs_of(file: Path) -> list[str]:
    return re.findall(r'^run "(\w+)"', file.read_text(), re.M)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_run_of_a_test_file_passes(file: Path, terraform: Terraform, checkout: Path) -> None:
    module = checkout / "modules" / file.parts[0]
    terraform.init(module)

    result = terraform.test(module, file.name)

    assert result.outcomes == dict.fromkeys(runs_of(MODULES / file), "pass"), result.problems


@pytest.mark.parametrize("module", PUBLIC)
def test_every_mocked_deployment_passes(module: str, request: pytest.FixtureRequest) -> None:
    result: ModuleTest = request.getfixturevalue(module)

    runs = runs_of(MODULES / module / "tests" / "deployment_unit_test.tftest.hcl")
    assert result.outcomes == dict.fromkeys(runs, "pass"), result.problems


@pytest.mark.parametrize("module", PUBLIC)
def test_every_validation_has_a_run_in_which_it_fails(module: str) -> None:
    """Each variable is expected to fail at least as often as it has rules."""
    rules: dict[str, int] = {}
    for path in (MODULES / module).glob("variables*.tf"):
        for name, body in re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', path.read_text(), re.M | re.S):
            rules[name] = len(re.findall(r"^  validation \{", body, re.M))
    text = (MODULES / module / "tests" / "validation_unit_test.tftest.hcl").read_text()
    failures = [
        name
        for block in re.findall(r"expect_failures = \[(.*?)\]", text, re.S)
        for name in re.findall(r"var\.(\w+)", block)
    ]

    untested = {name: count for name, count in rules.items() if failures.count(name) < count}
    assert rules
    assert untested == {}
