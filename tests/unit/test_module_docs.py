"""The generated tables of the modules' READMEs say what the HCL says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.module_docs import (
    MODULES,
    DocsError,
    iam_section,
    inputs_section,
    outputs_section,
    policies_of,
    read_inputs,
    read_outputs,
    replace_section,
)

ROOT = Path(__file__).parents[2]


def policy(**statements: tuple[list[str], list[str]]) -> str:
    return json.dumps(
        {
            "Statement": [
                {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
                for sid, (actions, resources) in statements.items()
            ]
        }
    )


TABLE = "arn:aws:dynamodb:eu-west-1:111122223333:table/usage"
READ = (["dynamodb:Query", "dynamodb:GetItem"], [TABLE])
KEY = (["kms:Decrypt"], ["arn:aws:kms:eu-west-1:111122223333:key/own"])


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "main.tf").write_text(
        """
        variable "later" {
          description = "Optional, with a \\"quoted\\" word | and a bar."
          type = object({
            # A comment is no part of the type.
            size  = optional(number, 3)
            names = optional(list(string), [])
          })
          default  = {}
          nullable = false
        }

        variable "first" {
          description = "Required."
          type        = string
        }

        variable "nothing" {
          description = "Null by default."
          type        = map(object({ arn = string }))
          default     = null
        }

        output "z" {
          description = "Last."
          value       = 1
        }

        output "a" {
          description = "First."
          value       = 2
        }
        """
    )
    return tmp_path


def test_required_inputs_come_first_and_have_no_default(module: Path) -> None:
    inputs = read_inputs(module)

    assert [(each.name, each.default) for each in inputs] == [
        ("first", None),
        ("later", "{}"),
        ("nothing", "null"),
    ]


def test_a_type_is_shown_whole_on_one_line_as_terraform_formats_it(module: Path) -> None:
    types = {each.name: each.type for each in read_inputs(module)}

    assert types == {
        "first": "string",
        "later": "object({ size = optional(number, 3), names = optional(list(string), []) })",
        "nothing": "map(object({ arn = string }))",
    }


def test_inputs_are_tables_of_required_and_optional_ones(module: Path) -> None:
    assert inputs_section(read_inputs(module)).splitlines() == [
        "### Required",
        "",
        "| name | type | description |",
        "| --- | --- | --- |",
        "| `first` | `string` | Required. |",
        "",
        "### Optional",
        "",
        "| name | type | default | description |",
        "| --- | --- | --- | --- |",
        "| `later` | `object({ size = optional(number, 3), names = optional(list(string), []) })` | `{}` |"
        ' Optional, with a "quoted" word \\| and a bar. |',
        "| `nothing` | `map(object({ arn = string }))` | `null` | Null by default. |",
    ]


def test_outputs_are_sorted(module: Path) -> None:
    assert outputs_section(read_outputs(module)).splitlines()[2:] == ["| `a` | First. |", "| `z` | Last. |"]


@pytest.mark.parametrize(
    "text",
    [
        'variable "bare" {\n  type = string\n}\n',
        'variable "bare" {\n  description = "No type."\n}\n',
        'output "bare" {\n  value = 1\n}\n',
    ],
)
def test_what_is_not_described_cannot_be_documented(module: Path, text: str) -> None:
    (module / "more.tf").write_text(text)

    with pytest.raises(DocsError, match="bare"):
        [*read_inputs(module), *read_outputs(module)]


def test_a_statement_of_every_deployment_is_unconditional_and_others_say_when() -> None:
    policies = {
        "plain": {"reader": policy(Usage=READ), "idle": policy(Logs=READ)},
        "estate": {"reader": policy(Usage=READ, Key=KEY), "idle": policy(Logs=READ)},
    }

    assert iam_section("metering", policies).splitlines()[2:] == [
        "| `idle` | `Logs` | `dynamodb:GetItem`, `dynamodb:Query` | `table/usage` | always |",
        "| `reader` | `Usage` | `dynamodb:GetItem`, `dynamodb:Query` | `table/usage` | always |",
        "| `reader` | `Key` | `kms:Decrypt` | the key | with `kms_key` |",
    ]


def test_a_function_that_some_deployments_lack_does_not_make_its_statements_conditional() -> None:
    policies = {"full": {"reader": policy(Usage=READ)}, "direct": {"writer": policy(Usage=READ)}}

    assert all(line.endswith("| always |") for line in iam_section("metering", policies).splitlines()[2:])


def test_what_every_role_has_is_said_once() -> None:
    policies = {"plain": {"one": policy(Usage=READ), "two": policy(Usage=READ, Key=KEY)}}

    rows = iam_section("metering", policies).splitlines()[2:]

    assert [row.split(" | ")[0] for row in rows] == ["| every role", "| `two`"]


def test_a_conditional_statement_that_nobody_explained_is_refused() -> None:
    policies = {"plain": {"reader": policy(Usage=READ)}, "estate": {"reader": policy(Usage=READ, New=READ)}}

    with pytest.raises(DocsError, match="New"):
        iam_section("metering", policies)


@pytest.mark.parametrize(
    "outputs",
    [
        {"plain": {"role_policies_json": {"reader": "{}"}}, "none": {}},
        {"plain": {"role_policies_json": {"value": {"reader": "{}"}, "type": "map", "sensitive": False}}},
    ],
)
def test_policies_are_found_among_the_outputs_of_a_run(outputs: dict[str, dict[str, Any]]) -> None:
    assert policies_of(outputs) == {"plain": {"reader": "{}"}}


def test_only_what_lies_between_the_markers_is_replaced() -> None:
    text = "before\n<!-- generated: x -->\nold\n<!-- end of generated: x -->\nafter\n"

    assert replace_section(text, "x", "new") == (
        "before\n<!-- generated: x -->\n\nnew\n\n<!-- end of generated: x -->\nafter\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "no markers",
        "<!-- generated: x -->",
        "<!-- end of generated: x --><!-- generated: x -->",
        "<!-- generated: x --><!-- generated: x --><!-- end of generated: x -->",
    ],
)
def test_missing_or_doubled_markers_are_refused(text: str) -> None:
    with pytest.raises(DocsError, match="generated: x"):
        replace_section(text, "x", "new")


@pytest.mark.parametrize("module_name", MODULES)
def test_the_readme_shows_the_inputs_and_outputs_of_the_module(module_name: str) -> None:
    """After a change of variables or outputs: ``make docs``."""
    directory = ROOT / "modules" / module_name
    readme = (directory / "README.md").read_text(encoding="utf-8")

    assert replace_section(readme, "inputs", inputs_section(read_inputs(directory))) == readme
    assert replace_section(readme, "outputs", outputs_section(read_outputs(directory))) == readme
