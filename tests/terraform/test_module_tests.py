"""The modules' own ``terraform test`` files pass, and between them every validation is seen to refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terraform.conftest import DEPLOYMENTS, WEB_ACLS
from tests.terraform.tool import REPOSITORY, ModuleTest, Terraform, Values, shared

pytestmark = pytest.mark.slow

MODULES = REPOSITORY / "modules"
FILES = sorted(
    path.relative_to(MODULES)
    for path in MODULES.glob("*/tests/*.tftest.hcl")
    if path.name not in {DEPLOYMENTS, WEB_ACLS}
)
PUBLIC = ("events", "metering", "notifications", "registration")


def runs_of(file: Path) -> list[str]:
    return re.findall(r'^run "(\w+)"', file.read_text(), re.M)


@pytest.fixture(scope="module")
def outcome(
    terraform: Terraform, checkout: Path, run_directory: Path
) -> Callable[[Path], tuple[dict[str, str], list[str]]]:
    """Returns the outcomes of a file's runs and the problems: one command runs all files of a module."""

    def found(file: Path) -> tuple[dict[str, str], list[str]]:
        module = file.parts[0]
        files = [each.name for each in FILES if each.parts[0] == module]

        def make() -> Values:
            terraform.init(checkout / "modules" / module)
            tested = terraform.test(checkout / "modules" / module, *files, states=False)
            return {name: [test.outcomes, test.problems] for name, test in tested.items()}

        outcomes, problems = shared(run_directory, f"runs-{module}", make)[file.name]
        return outcomes, problems

    return found


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_run_of_a_test_file_passes(
    file: Path, outcome: Callable[[Path], tuple[dict[str, str], list[str]]]
) -> None:
    outcomes, problems = outcome(file)
    runs = runs_of(MODULES / file)

    assert runs
    assert outcomes == dict.fromkeys(runs, "pass"), problems


@pytest.mark.parametrize("module", PUBLIC)
def test_every_mocked_deployment_passes(module: str, request: pytest.FixtureRequest) -> None:
    result: ModuleTest = request.getfixturevalue(module)

    runs = runs_of(MODULES / module / "tests" / DEPLOYMENTS)
    assert result.outcomes == dict.fromkeys(runs, "pass"), result.problems


def test_the_baseline_web_acl_plans(web_acls: ModuleTest) -> None:
    runs = runs_of(MODULES / "registration" / "tests" / WEB_ACLS)

    assert web_acls.outcomes == dict.fromkeys(runs, "pass"), web_acls.problems


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
