"""Generate the tables of the public modules' READMEs: ``python -m sandbox.module_docs write``, or ``check``.

Inputs and outputs come from the HCL, permissions from a deployment against mocks, which is the only place
where a role's policy is known without an account. What lies outside the markers is written by hand. The same
policies are written down for the tests, which hold every call of a function against its role.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import hcl2

from sandbox.terraform import REPOSITORY, Terraform, TerraformError, copy_repository

MODULES: Final = ("events", "metering", "notifications", "registration")
TEST_FILE: Final = "deployment_unit_test.tftest.hcl"
ROLES_FILE: Final = REPOSITORY / "tests" / "privileges" / "roles.json"

#: Statements that not every deployment has, by module and statement id ("" = any module): when there is one.
CONDITIONS: Final[Mapping[tuple[str, str], str]] = {
    ("", "Key"): "with `kms_key`",
    ("", "NetworkInterfaces"): "with `vpc`",
    ("", "SubscribersKey"): "when the subscribers table has a key of yours",
    ("", "Tracing"): "with `tracing`",
    ("events", "ForwardEvents"): "with `forward_event_buses`",
    ("metering", "Dispatch"): 'with `deployment_mode = "full"`',
    ("metering", "Meter"): 'with `metering_mode = "live"`',
    ("notifications", "CustomerProfilesKey"): "when a customer profile table has a key of yours",
    ("notifications", "PendingVerifications"): "where a table has a `verify_url`",
    ("notifications", "PendingVerificationsKey"): "where such a table has a key of yours",
    ("notifications", "SecretsKey"): "when a secret has a key of yours",
    ("notifications", "Send"): 'with `transport.type = "ses"`',
    ("registration", "VerificationSecretKey"): "when the secret has a key of yours",
}

Policies = Mapping[str, Mapping[str, str]]
"""Policies as JSON, by the name of a test's run and by function."""


class DocsError(ValueError):
    """A README or a module cannot be documented; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Input:
    """A variable of a module; ``default`` is HCL text, None when the caller must set it."""

    name: str
    type: str
    default: str | None
    description: str


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a module."""

    name: str
    description: str


def read_inputs(module: Path) -> list[Input]:
    """Return the variables of a module: the required ones first, then the others, each by name.

    Raises DocsError for a variable without type or description.
    """
    inputs = []
    for name, body in _blocks(module, "variable"):
        if "type" not in body or "description" not in body:
            raise DocsError(f"variable {name} of {module.name} needs a type and a description")
        default = _hcl(body["default"]) if "default" in body else None
        inputs.append(Input(name, _hcl(body["type"]), default, _text(body["description"])))
    return sorted(inputs, key=lambda each: (each.default is not None, each.name))


def read_outputs(module: Path) -> list[Output]:
    """Return the outputs of a module by name; raises DocsError for one without a description."""
    outputs = []
    for name, body in _blocks(module, "output"):
        if "description" not in body:
            raise DocsError(f"output {name} of {module.name} needs a description")
        outputs.append(Output(name, _text(body["description"])))
    return sorted(outputs, key=lambda each: each.name)


def inputs_section(inputs: Sequence[Input]) -> str:
    """Return the tables of inputs, required ones first."""
    tables = []
    for heading, wanted in (("Required", True), ("Optional", False)):
        chosen = [each for each in inputs if (each.default is None) is wanted]
        if not chosen:
            continue
        columns = ["name", "type", "description"] if wanted else ["name", "type", "default", "description"]
        rows = [
            [*map(_code, (each.name, each.type, *([] if wanted else [str(each.default)]))), each.description]
            for each in chosen
        ]
        tables.append(f"### {heading}\n\n{_table(columns, rows)}")
    return "\n\n".join(tables)


def outputs_section(outputs: Sequence[Output]) -> str:
    """Return the table of outputs."""
    return _table(["name", "description"], [[_code(each.name), each.description] for each in outputs])


def iam_section(module: str, policies: Policies) -> str:
    """Return the table of what each function's role may do, and when.

    A statement that every deployment of a function has is unconditional. Raises DocsError for any other one
    whose condition is not in ``CONDITIONS``: a permission is never documented as unconditional by mistake.
    """
    functions = sorted({function for run in policies.values() for function in run})
    holders: dict[tuple[str, ...], list[str]] = {}
    for function in functions:
        deployments = [_statements(run[function]) for run in policies.values() if function in run]
        for sid in dict.fromkeys(sid for statements in deployments for sid in statements):
            present = [statements[sid] for statements in deployments if sid in statements]
            always = len(present) == len(deployments)
            actions = sorted({action for statement in present for action in _listed(statement["Action"])})
            resources = {name for each in present for name in map(_thing, _listed(each["Resource"])) if name}
            row = (
                _code(sid),
                ", ".join(map(_code, actions)),
                ", ".join(sorted(resources)) + "".join(sorted({_restriction(each) for each in present})),
                "always" if always else _condition(module, function, sid),
            )
            holders.setdefault(row, []).append(function)
    everybody = len(functions) > 1
    shared = [["every role", *row] for row, held in holders.items() if everybody and held == functions]
    own = [
        [_code(function), *row]
        for function in functions
        for row, held in holders.items()
        if function in held and not (everybody and held == functions)
    ]
    return _table(["role", "statement", "actions", "on", "when"], [*shared, *own])


def roles_document(policies: Mapping[str, Policies]) -> str:
    """Return the statements of every role as JSON, by module, kind of deployment and function.

    A deployment that gives its functions what an earlier one of the module gives them is left out.
    """
    document: dict[str, dict[str, dict[str, list[Mapping[str, Any]]]]] = {}
    for module, runs in policies.items():
        kept = document.setdefault(module, {})
        for run, functions in runs.items():
            statements = {name: list(_statements(functions[name]).values()) for name in sorted(functions)}
            if statements not in kept.values():
                kept[run] = statements
    return _json(document, "") + "\n"


def _json(value: Any, margin: str) -> str:
    """Return objects over several lines and lists one entry a line, for the sake of diffs."""
    deeper = f"{margin}  "
    if isinstance(value, Mapping):
        lines = [f"{deeper}{json.dumps(name)}: {_json(item, deeper)}" for name, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    return "[\n" + ",\n".join(f"{deeper}{json.dumps(item)}" for item in value) + f"\n{margin}]"


def render(module: str, policies: Policies, root: Path = REPOSITORY) -> str:
    """Return the module's README, its generated parts renewed; raises DocsError where a marker is missing."""
    directory = root / "modules" / module
    text = (directory / "README.md").read_text(encoding="utf-8")
    sections = {
        "iam": iam_section(module, policies),
        "inputs": inputs_section(read_inputs(directory)),
        "outputs": outputs_section(read_outputs(directory)),
    }
    for name, body in sections.items():
        text = replace_section(text, name, body)
    return text


def replace_section(text: str, name: str, body: str) -> str:
    """Return ``text`` with what lies between the markers of ``name`` replaced.

    Raises DocsError unless there is one pair of them.
    """
    begin, end = f"<!-- generated: {name} -->", f"<!-- end of generated: {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise DocsError(f"there have to be one {begin} and, after it, one {end}")
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{body}\n\n{end}{rest.split(end)[1]}"


def deployed_policies(modules: Iterable[str]) -> dict[str, Policies]:
    """Deploy modules against mocks, as their tests do, and return each one's policies.

    Raises TerraformError when Terraform cannot be run or a deployment fails.
    """
    found: dict[str, Policies] = {}
    with tempfile.TemporaryDirectory() as directory:
        terraform = Terraform(Path(directory) / "config")
        checkout = copy_repository(Path(directory) / "checkout")
        for module in modules:
            root = checkout / "modules" / module
            terraform.init(root)
            done = terraform.run("test", "-json", "-verbose", f"-filter=tests/{TEST_FILE}", cwd=root)
            found[module] = policies_of(
                {
                    message["@testrun"]: message["test_state"].get("outputs", {})
                    for message in map(json.loads, done.stdout.splitlines())
                    if message.get("type") == "test_state"
                }
            )
            if not found[module]:
                raise TerraformError(f"the test of modules/{module} left no state with role_policies_json")
    return found


def policies_of(outputs: Mapping[str, Mapping[str, Any]]) -> Policies:
    """Return the policies among the outputs of a test's runs, bare values or Terraform's {"value": ...}."""
    return {
        run: value["value"] if set(value) >= {"value", "type"} else value
        for run, named in outputs.items()
        if (value := named.get("role_policies_json"))
    }


def _blocks(module: Path, kind: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield the blocks of a kind, from the files that may have one: to parse all of them takes seconds."""
    for path in sorted(module.glob("*.tf")):
        text = path.read_text(encoding="utf-8")
        content = _parsed(text) if re.search(rf'\b{kind}\s+["\w]', text) else {}
        for block in content.get(kind, []):
            for name, body in block.items():
                if not name.startswith("__"):
                    yield name.strip('"'), body


@cache
def _parsed(text: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = hcl2.loads(text)
    return content


def _text(value: str) -> str:
    """Return a description: python-hcl2 leaves a string in its quotes."""
    return str(json.loads(value)).strip() if value.startswith('"') else value.strip()


def _hcl(value: Any) -> str:
    """Return a value as HCL on one line."""
    if isinstance(value, str):
        inner = re.fullmatch(r"\$\{(.*)\}", value, re.S)
        text = " ".join((inner.group(1) if inner else value).split())
        # python-hcl2 sets braces tight, `terraform fmt` does not.
        return re.sub(r"(?<=[^{\s])\}\)", " })", re.sub(r"\(\{(?=\w)", "({ ", text))
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_hcl, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{key} = {_hcl(item)}" for key, item in value.items() if not key.startswith("__")]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    return str(value)


def _condition(module: str, function: str, sid: str) -> str:
    found = CONDITIONS.get((module, sid)) or CONDITIONS.get(("", sid))
    if found is None:
        raise DocsError(
            f"{module}: some deployments of {function} have the statement {sid}, others do not; "
            "say in CONDITIONS when"
        )
    return found


def _statements(policy: str) -> dict[str, Mapping[str, Any]]:
    return {str(each["Sid"]): each for each in json.loads(policy)["Statement"]}


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _thing(arn: str) -> str:
    """Return what an ARN of the mocks names, in words of the documentation; empty for one that is not set."""
    if arn == "*":
        return "`*`"
    parts = arn.split(":", 5)
    if len(parts) < 6:
        return ""
    service, name = parts[2], parts[5]
    if service == "logs":
        return "its own log group"
    if service == "kms":
        return "the key"
    if service == "sqs":
        return f"queue `{name}`"
    if service == "events":
        return "its own bus" if name.startswith("event-bus/awsmp-") else "the buses given"
    if service in ("secretsmanager", "ses"):
        return {"secret": "the secrets given", "identity": "the identity given"}.get(
            re.split("[:/]", name)[0], "its own configuration set"
        )
    table, _, stream = re.sub(r"^table/awsmp-(?:\w+-(?=customer-profile))?", "table/", name).partition(
        "/stream/"
    )
    return f"the stream of {_code(table)}" if stream else _code(table)


def _restriction(statement: Mapping[str, Any]) -> str:
    """Return the conditions of a statement in words; a value is named where it is ours, not the caller's."""
    return "".join(
        f", only with {_code(key)}" + (f" {_code(value)}" if value.startswith("awsmp.") else "")
        for values in statement.get("Condition", {}).values()
        for key, value in sorted(values.items())
    )


def _code(text: str) -> str:
    return f"`{text}`"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the READMEs and the roles, or tell which are out of date (1)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["write", "check"])
    options = parser.parse_args(arguments)
    stale = []
    deployed = deployed_policies(MODULES)
    texts = {
        REPOSITORY / "modules" / module / "README.md": render(module, deployed[module]) for module in deployed
    }
    texts[ROLES_FILE] = roles_document(deployed)
    for path, text in texts.items():
        if path.exists() and text == path.read_text(encoding="utf-8"):
            continue
        stale.append(path)
        if options.action == "write":
            path.write_text(text, encoding="utf-8")
    for path in stale:
        done = "written" if options.action == "write" else "out of date: run `make docs`"
        sys.stdout.write(f"{path.relative_to(REPOSITORY)}: {done}\n")
    return 1 if stale and options.action == "check" else 0


if __name__ == "__main__":
    sys.exit(main())
