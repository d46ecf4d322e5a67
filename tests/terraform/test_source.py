"""Rules about the modules' sources that no plan can show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.terraform.tool import REPOSITORY, Terraform

MODULES = sorted(path.parent for path in (REPOSITORY / "modules").glob("*/main.tf"))
PUBLIC = [path for path in MODULES if path.name in {"events", "metering", "notifications", "registration"}]
EXAMPLES = sorted(path.parent for path in (REPOSITORY / "examples").glob("*/main.tf"))


def blocks(directory: Path, kind: str) -> dict[str, str]:
    """Return the bodies of ``variable``, ``output``, ... blocks by name, in the order of the files."""
    return {
        name: body
        for path in sorted(directory.glob("*.tf"))
        for name, body in re.findall(rf'^{kind} "([\w-]+)" \{{\n(.*?)^\}}', path.read_text(), re.M | re.S)
    }


def code(directory: Path) -> str:
    """Return a module's sources without comments."""
    text = "\n".join(path.read_text() for path in sorted(directory.glob("*.tf")))
    return re.sub(r"^\s*#.*$", "", text, flags=re.M)


@pytest.mark.parametrize("module", MODULES + EXAMPLES, ids=lambda path: path.name)
def test_every_variable_has_a_type_and_a_description(module: Path) -> None:
    for name, body in blocks(module, "variable").items():
        assert re.search(r"^  type\s*=", body, re.M), name
        assert re.search(r'^  description\s*=\s*".+\."$', body, re.M), name
        assert not re.search(r"\bany\b", re.search(r"^  type\s*=.*?(?=^  \w|\Z)", body, re.M | re.S)[0]), name  # type: ignore[index]


@pytest.mark.parametrize("module", PUBLIC, ids=lambda path: path.name)
def test_every_variable_is_validated_or_cannot_be_wrong(module: Path) -> None:
    free = {
        "create_dashboard",
        "create_web_acl",
        "deletion_protection",
        "manage_api_gateway_account",
        "tracing",
    }
    for name, body in blocks(module, "variable").items():
        assert name in free or "validation {" in body, name


@pytest.mark.parametrize("module", PUBLIC, ids=lambda path: path.name)
def test_a_validation_shows_the_value_that_it_refuses(module: Path) -> None:
    for name, body in blocks(module, "variable").items():
        for message in re.findall(r'error_message\s*=\s*"(.*)"$', body, re.M):
            assert "${" in message, name


@pytest.mark.parametrize("module", MODULES + EXAMPLES, ids=lambda path: path.name)
def test_outputs_are_described_and_sorted(module: Path) -> None:
    outputs = blocks(module, "output")

    assert list(outputs) == sorted(outputs)
    for name, body in outputs.items():
        assert re.search(r'^  description = ".+\."$', body, re.M), name


def test_the_common_inputs_are_the_same_in_every_public_module() -> None:
    texts = {(module / "variables.common.tf").read_text() for module in PUBLIC}

    assert len(PUBLIC) == 4
    assert len(texts) == 1


def test_the_inputs_of_alarms_and_dashboards_are_the_same_wherever_they_are() -> None:
    texts = [path.read_text() for module in PUBLIC for path in module.glob("variables.observability.tf")]

    assert len(texts) == len(PUBLIC)
    assert len(set(texts)) == 1


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_has_no_provider_block_and_needs_the_aws_provider_only(module: Path) -> None:
    text = code(module)

    assert not re.search(r"^provider ", text, re.M)
    assert not re.search(r"^\s*(provisioner|backend) ", text, re.M)
    assert set(re.findall(r'source\s*=\s*"(hashicorp/\w+)"', text)) <= {"hashicorp/aws"}
    assert 'required_version = ">= 1.9"' in text


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_the_only_data_source_is_the_region_and_it_is_read_by_id(module: Path) -> None:
    """Account and partition come from resources: a data source is read late under a caller's depends_on."""
    text = code(module)

    assert set(re.findall(r'^data "(\w+)"', text, re.M)) <= {"aws_region"}
    assert "aws_region.current.name" not in text


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_no_partition_account_or_region_is_written_into_a_resource(module: Path) -> None:
    text = re.sub(r"error_message\s*=.*", "", code(module))
    text = re.sub(r"description\s*=.*", "", text)

    assert "arn:aws" not in text
    assert not re.search(r'"\d{12}"', text)


@pytest.mark.parametrize("module", PUBLIC, ids=lambda path: path.name)
def test_the_readme_names_every_input_and_output(module: Path) -> None:
    readme = (module / "README.md").read_text()

    for name in [*blocks(module, "variable"), *blocks(module, "output")]:
        assert f"| `{name}` |" in readme, name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_has_a_readme(example: Path) -> None:
    assert (example / "README.md").read_text().startswith("# ")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["examples", "modules"])
def test_sources_are_formatted(folder: str, terraform: Terraform) -> None:
    result = terraform.run("fmt", "-check", "-recursive", "-diff", cwd=REPOSITORY / folder, check=False)

    assert result.returncode == 0, result.stdout
