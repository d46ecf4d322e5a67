"""What Terraform says of modules and examples, as JSON: plans, states and the outcomes of its own tests."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sandbox.terraform
from sandbox.terraform import REPOSITORY, TerraformError, Values, cli_config, copy_repository, find_mirror
from tests.terraform.provider_server import ProviderServer, ProviderServers

__all__ = ["REPOSITORY", "TerraformError", "Values", "cli_config", "copy_repository", "find_mirror"]


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of a plan or state."""

    address: str
    type: str
    values: Values

    @property
    def key(self) -> str:
        """The last ``for_each`` key of the address, or an empty text."""
        found = re.search(r'\["([^"]+)"\]$', self.address)
        return found.group(1) if found else ""


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources by address."""

    by_address: Mapping[str, Resource]

    def __getitem__(self, address: str) -> Values:
        return self.by_address[address].values

    def __contains__(self, address: str) -> bool:
        return address in self.by_address

    def __iter__(self) -> Iterator[Resource]:
        return iter(self.by_address.values())

    def __len__(self) -> int:
        return len(self.by_address)

    def of_type(self, kind: str, under: str = "") -> list[Resource]:
        """Return the resources of a type, sorted by address, below the module address ``under``."""
        return sorted(
            (r for r in self if r.type == kind and r.address.startswith(under)), key=lambda r: r.address
        )


def resources_of(root_module: Values) -> Resources:
    """Flatten the ``root_module`` of a plan's planned values or of a state."""

    def walk(module: Values) -> Iterator[Resource]:
        for resource in module.get("resources", []):
            if resource["mode"] == "managed":
                yield Resource(resource["address"], resource["type"], resource.get("values", {}))
        for child in module.get("child_modules", []):
            yield from walk(child)

    return Resources({resource.address: resource for resource in walk(root_module)})


@dataclass(frozen=True, slots=True)
class ModuleTest:
    """What ``terraform test -verbose`` said: each outcome, and the state that a run left or planned."""

    outcomes: dict[str, str]
    problems: list[str]
    states: dict[str, Resources]
    outputs: dict[str, Values]


#: What needs no provider.
WITHOUT_PROVIDER = {"fmt", "output", "version"}


class Terraform(sandbox.terraform.Terraform):
    """The terraform command, with its own tests; attached to a running provider where it is given one."""

    def __init__(
        self,
        directory: Path,
        provider: ProviderServer | ProviderServers | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Attach to ``provider``, which has an environment of its own, or start one with ``environment``."""
        super().__init__(directory)
        self._provider = provider
        self._environment = dict(environment or {})

    def run(
        self, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; raises TerraformError with its output when it fails and ``check`` is set."""
        settings = {**self._environment, **(environment or {})}
        if self._provider is not None and arguments[0] not in WITHOUT_PROVIDER:
            settings["TF_REATTACH_PROVIDERS"] = self._provider.address
        return super().run(*arguments, cwd=cwd, environment=settings, check=check)

    def plan_from_state(self, cwd: Path, *flags: str, environment: Mapping[str, str] | None = None) -> Values:
        """Plan ``cwd`` from the state that lies in it, asking no account, and return the plan's JSON."""
        path = cwd / "plan.bin"
        self.run(
            "plan",
            "-no-color",
            "-input=false",
            "-lock=false",
            "-refresh=false",
            f"-out={path}",
            *flags,
            cwd=cwd,
            environment=environment,
        )
        shown: Values = json.loads(
            self.run("show", "-json", str(path), cwd=cwd, environment=environment).stdout
        )
        return shown

    def changes(self, cwd: Path, *flags: str) -> dict[str, str]:
        """Read what exists, plan ``cwd`` and return what would be done, by address: no values, but cheap."""
        done = self.run("plan", "-json", "-input=false", "-lock=false", *flags, cwd=cwd)
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        if not any(message["type"] == "change_summary" for message in messages):
            raise TerraformError(f"terraform plan came to no end:\n{done.stdout[-2000:]}")
        return {
            message["change"]["resource"]["addr"]: message["change"]["action"]
            for message in messages
            if message["type"] == "planned_change"
        }

    def test(self, module: Path, *files: str, states: bool = True) -> dict[str, ModuleTest]:
        """Run ``.tftest.hcl`` files of a module in one process; keep the states that runs leave or plan.

        Raises TerraformError when a file is not run.
        """
        filters = [f"-filter={Path('tests') / file}" for file in files]
        done = self.run("test", "-json", *(["-verbose"] if states else []), *filters, cwd=module, check=False)
        found = {file: ModuleTest({}, [], {}, {}) for file in files}
        for line in done.stdout.splitlines():
            message = _without_schemas(line)
            tested = found.get(Path(message.get("@testfile", "")).name)
            diagnostic = message.get("diagnostic", {})
            if diagnostic.get("severity") == "error":
                problem = f"{diagnostic['summary']}: {diagnostic.get('detail', '')}"
                for each in found.values() if tested is None else [tested]:
                    each.problems.append(problem)
            if tested is not None:
                _note(message, tested)
        for file, tested in found.items():
            if not tested.outcomes:
                said = f"{tested.problems}\n{done.stdout[-2000:]}\n{done.stderr}"
                raise TerraformError(f"terraform test ran nothing of {file}:\n{said}")
        return found


def _without_schemas(line: str) -> Values:
    """Return a message of ``terraform test -json``, a state without the schemas of all of AWS behind it.

    They are 14 MB of each. The mark cannot be part of a text, where its quotes would be escaped.
    """
    head, cut, _ = line.partition(',"provider_schemas":{')
    message: Values = json.loads(head + "}}" if cut else line)
    return message


def _note(message: Values, tested: ModuleTest) -> None:
    run = message.get("test_run", {})
    if run.get("progress") == "complete":
        tested.outcomes[run["run"]] = run["status"]
    if "test_state" in message:
        state = message["test_state"]
        tested.states[message["@testrun"]] = resources_of(state.get("root_module", {}))
        tested.outputs[message["@testrun"]] = {
            name: output["value"] for name, output in state.get("outputs", {}).items()
        }
    if "test_plan" in message:
        planned = (
            Resource(change["address"], change["type"], change["change"]["after"])
            for change in message["test_plan"].get("resource_changes", [])
            if change["mode"] == "managed" and change["change"]["after"] is not None
        )
        tested.states[message["@testrun"]] = Resources({each.address: each for each in planned})


_ONE_RULE = """
resource "aws_wafv2_web_acl" "this" {
  rule {
    name     = "in-place-of-all"
    priority = 1

    override_action {
      none {}
    }

    statement {
      geo_match_statement {
        country_codes = ["IE"]
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "in-place-of-all"
      sampled_requests_enabled   = true
    }
  }
}
"""


def with_one_acl_rule(checkout: Path) -> Path:
    """Replace the baseline web ACL's rules in a copy of the repository by one, and return the copy.

    Whenever it validates or plans the module, Terraform compares the types of the rules with one another: of
    four that takes two seconds of a core for each run of a test. The rules themselves are seen in
    ``web_acl_unit_test.tftest.hcl``, in two examples' plans and in what is applied to the emulator.
    """
    (checkout / "modules" / "registration" / "one_acl_rule_override.tf").write_text(_ONE_RULE)
    return checkout


def go_offline(root: Path) -> None:
    """Let every provider of a root module plan without an account: no call is made while planning."""
    blocks = []
    for body in re.findall(r'^provider "aws" \{\n(.*?)^\}', (root / "main.tf").read_text(), re.M | re.S):
        alias = re.search(r'^\s*alias\s*=\s*"(\w+)"', body, re.M)
        blocks.append(
            'provider "aws" {\n'
            + (f'  alias = "{alias.group(1)}"\n' if alias else "")
            + '  access_key = "111122223333"\n'
            + '  secret_key = "none"\n'
            + "  skip_credentials_validation = true\n"
            + "  skip_metadata_api_check = true\n"
            + "  skip_requesting_account_id = true\n"
            + "}\n"
        )
    (root / "offline_override.tf").write_text("\n".join(blocks))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, so that parallel test workers share one result instead of making it twice."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def shared(directory: Path, name: str, make: Callable[[], Values]) -> Values:
    """Return what ``make`` returns, made once for all workers of a test run."""
    path = directory / f"{name}.json"
    with locked(directory / f"{name}.lock"):
        if not path.exists():
            path.write_text(json.dumps(make()))
    value: Values = json.loads(path.read_text())
    return value


def actions(plan: Values) -> dict[str, list[str]]:
    """Return what a plan does, by address, leaving out what it leaves alone or only reads."""
    return {
        change["address"]: change["change"]["actions"]
        for change in plan.get("resource_changes", [])
        if change["change"]["actions"] not in (["no-op"], ["read"])
    }


def key_schemas(table: Values) -> dict[str, tuple[Any, ...]]:
    """Return the keys of a planned table and of its indexes (under their names), with what those project."""
    schemas: dict[str, tuple[Any, ...]] = {"": (table["hash_key"], table["range_key"])}
    for index in table["global_secondary_index"]:
        projected = tuple(sorted(index["non_key_attributes"] or ()))
        keys = (index["hash_key"], index["range_key"] or None)
        schemas[index["name"]] = (*keys, index["projection_type"], projected)
    return schemas


def requested_schemas(request: Values) -> dict[str, tuple[Any, ...]]:
    """Return the same of a CreateTable request."""

    def keys(schema: list[dict[str, str]]) -> tuple[str | None, str | None]:
        by_kind = {key["KeyType"]: key["AttributeName"] for key in schema}
        return by_kind["HASH"], by_kind.get("RANGE")

    schemas: dict[str, tuple[Any, ...]] = {"": keys(request["KeySchema"])}
    for index in request.get("GlobalSecondaryIndexes", []):
        projection = index["Projection"]
        projected = tuple(sorted(projection.get("NonKeyAttributes", ())))
        schemas[index["IndexName"]] = (*keys(index["KeySchema"]), projection["ProjectionType"], projected)
    return schemas
