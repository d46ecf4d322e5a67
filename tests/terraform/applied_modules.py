"""Write modules, applied against mocks, as plans: ``python -m tests.terraform.applied_modules DIRECTORY``.

In a real plan most policies are unknown, because they name ARNs. A mocked apply knows every value, so a
policy scanner sees what a role may do and which alarm watches which queue. One file per module and
deployment.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

import hcl2

from tests.terraform.tool import ModuleTest, Resource, Terraform, Values, copy_repository

MODULES: Final = ("events", "metering", "notifications", "registration")
TEST_FILE: Final = "deployment_unit_test.tftest.hcl"


def as_plan(resources: Iterable[Resource]) -> Values:
    """Return resources as the JSON of a plan that creates them, with nothing unknown."""
    planned, changes = [], []
    for resource in resources:
        described = {
            "address": resource.address,
            "mode": "managed",
            "type": resource.type,
            "name": resource.address.rsplit(".", 1)[-1].partition("[")[0],
            "provider_name": "registry.terraform.io/hashicorp/aws",
        }
        planned.append({**described, "schema_version": 0, "values": resource.values})
        change = {"actions": ["create"], "before": None, "after": resource.values, "after_unknown": {}}
        changes.append({**described, "change": change})
    return {
        "format_version": "1.2",
        "terraform_version": "1.11.4",
        "planned_values": {"root_module": {"resources": planned}},
        "resource_changes": changes,
        "configuration": {"root_module": {}},
    }


def unprotected_runs(module: Path) -> set[str]:
    """Return the runs of a module's deployment test that switch deletion protection off, as a user may."""
    with (module / "tests" / TEST_FILE).open(encoding="utf-8") as file:
        runs = hcl2.load(file)["run"]
    return {
        name.strip('"')
        for run in runs
        for name, body in run.items()
        if any(block.get("deletion_protection") is False for block in body.get("variables", []))
    }


def plans_of(module: str, tested: ModuleTest, unprotected: Collection[str]) -> Iterator[tuple[str, Values]]:
    """Yield (file name, plan) of every deployment that a module's test made.

    Tables are left out of a deployment that asks for unprotected ones: a policy judges what we make, not what
    a caller asks for.
    """
    for run, resources in tested.states.items():
        kept = [each for each in resources if run not in unprotected or each.type != "aws_dynamodb_table"]
        if kept:
            yield f"{module}-{run}.json", as_plan(kept)


def main(directory: str) -> None:
    """Apply every public module against mocks, in each deployment of its test, and write what that made."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        terraform = Terraform(Path(temporary) / "config")
        checkout = copy_repository(Path(temporary) / "checkout")
        for module in MODULES:
            terraform.init(checkout / "modules" / module)
            tested = terraform.test(checkout / "modules" / module, TEST_FILE)[TEST_FILE]
            for name, plan in plans_of(module, tested, unprotected_runs(checkout / "modules" / module)):
                (target / name).write_text(json.dumps(plan))


if __name__ == "__main__":
    main(*sys.argv[1:])
