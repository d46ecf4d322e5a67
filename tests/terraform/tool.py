"""What Terraform says of modules and examples, as JSON: plans, states and the outcomes of its own tests."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sandbox.terraform
from sandbox.terraform import REPOSITORY, TerraformError, Values, cli_config, copy_repository, find_mirror

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
    """What ``terraform test -verbose`` said: the outcome of each run and the state that it left."""

    outcomes: Mapping[str, str]
    problems: Sequence[str]
    states: Mapping[str, Resources]
    outputs: Mapping[str, Values]


class Terraform(sandbox.terraform.Terraform):
    """The terraform command, with its own tests."""

    def plan_from_state(self, cwd: Path, *flags: str) -> Values:
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
        )
        shown: Values = json.loads(self.run("show", "-json", str(path), cwd=cwd).stdout)
        return shown

    def test(self, module: Path, file: str) -> ModuleTest:
        """Run one ``.tftest.hcl`` file of a module."""
        done = self.run(
            "test", "-json", "-verbose", f"-filter={Path('tests') / file}", cwd=module, check=False
        )
        outcomes: dict[str, str] = {}
        states: dict[str, Resources] = {}
        outputs: dict[str, Values] = {}
        problems: list[str] = []
        for line in done.stdout.splitlines():
            message = json.loads(line)
            run = message.get("test_run", {})
            if run.get("progress") == "complete":
                outcomes[run["run"]] = run["status"]
            if message.get("type") == "test_state":
                state = message["test_state"]
                states[message["@testrun"]] = resources_of(state.get("root_module", {}))
                outputs[message["@testrun"]] = {
                    name: output["value"] for name, output in state.get("outputs", {}).items()
                }
            if message.get("type") == "diagnostic" and message["diagnostic"]["severity"] == "error":
                diagnostic = message["diagnostic"]
                problems.append(f"{diagnostic['summary']}: {diagnostic.get('detail', '')}")
        if not outcomes:
            raise TerraformError(f"terraform test ran nothing:\n{done.stdout[-2000:]}\n{done.stderr}")
        return ModuleTest(outcomes, problems, states, outputs)


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
