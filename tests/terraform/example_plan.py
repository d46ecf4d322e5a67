"""Plan every example offline: ``python -m tests.terraform.example_plan`` writes ``build/example-plans``.

``make lint`` scans these plans and the tests read them. A plan is made again when what it follows from has
changed: the example, any module, the packages, the page, Terraform or this code.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tests.terraform.provider_server import (
    ProviderServer,
    ProviderServers,
    has_one_provider,
    provider_executable,
)
from tests.terraform.tool import (
    REPOSITORY,
    Terraform,
    TerraformError,
    copy_repository,
    go_offline,
    locked,
    with_one_acl_rule,
)

PLANS: Final = REPOSITORY / "build" / "example-plans"
EXAMPLES: Final = tuple(sorted(path.parent.name for path in (REPOSITORY / "examples").glob("*/main.tf")))

#: Those whose plans have the baseline web ACL with all of its rules; the others' has one, as in most tests.
WITH_ACL_RULES: Final = frozenset({"complete", "registration"})

#: What every plan follows from, beside its example.
_INPUTS: Final = ("modules", "lambda_dist", "lambda_src/awsmp/page")
_CODE: Final = ("sandbox/terraform.py", "tests/terraform/example_plan.py", "tests/terraform/tool.py")


def _files(name: str) -> Iterator[Path]:
    for folder in (*_INPUTS, f"examples/{name}"):
        for path in sorted((REPOSITORY / folder).rglob("*")):
            parts = path.relative_to(REPOSITORY).parts
            if path.is_file() and path.suffix != ".md" and not {".terraform", "tests"} & set(parts):
                yield path
    yield from (REPOSITORY / path for path in _CODE)


@cache
def _version() -> str:
    executable = shutil.which("terraform")
    if executable is None:
        raise TerraformError(
            "Plans of examples need the terraform command (1.9 or newer) on PATH; see README."
        )
    done = subprocess.run([executable, "version", "-json"], capture_output=True, check=True)
    version: str = json.loads(done.stdout)["terraform_version"]
    return version


def digest(name: str) -> str:
    """Return the hash of everything that an example's plan follows from.

    Raises TerraformError when there is no terraform command.
    """
    found = hashlib.sha256(_version().encode())
    for path in _files(name):
        content = path.read_bytes()
        found.update(f"{path.relative_to(REPOSITORY)}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


class _Planner:
    """Copies of the repository, and Terraform with one running provider and with as many as it takes."""

    def __init__(self, directory: Path, one: ProviderServer, several: ProviderServers) -> None:
        self._whole = copy_repository(directory / "checkout")
        self._one_rule = with_one_acl_rule(copy_repository(directory / "one-rule"))
        self._with_one = Terraform(directory / "one", one)
        self._with_several = Terraform(directory / "several", several)

    def _root(self, name: str) -> Path:
        return (self._whole if name in WITH_ACL_RULES else self._one_rule) / "examples" / name

    def needs_one(self, name: str) -> bool:
        return has_one_provider(self._root(name))

    def plan(self, name: str) -> str:
        root = self._root(name)
        terraform = self._with_one if self.needs_one(name) else self._with_several
        go_offline(root)
        terraform.init(root)
        return json.dumps(terraform.plan(root))


@contextmanager
def _planner() -> Iterator[_Planner]:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        executable = provider_executable(directory / "provider")
        one = ProviderServer(executable, directory / "server")
        several = ProviderServers(executable, directory / "servers")
        try:
            yield _Planner(directory, one, several)
        finally:
            one.stop()
            several.stop()


def refresh(directory: Path) -> dict[str, TerraformError]:
    """Make the plans of ``directory`` that are missing or no longer true; return the errors of what fails."""
    failed: dict[str, TerraformError] = {}
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory / ".lock"):
        stale = {name: wanted for name in EXAMPLES if (wanted := digest(name)) != _made(name, directory)}
        if stale:
            # The running provider serves one command at a time; the others go on beside it.
            with _planner() as planner, ThreadPoolExecutor(max_workers=2) as lanes:
                one = [name for name in stale if planner.needs_one(name)]
                several = [name for name in stale if name not in one]
                work = lanes.map(lambda names: _plan(planner, names, stale, directory), (one, several))
                for failures in work:
                    failed.update(failures)
    return failed


def _plan(
    planner: _Planner, names: list[str], digests: Mapping[str, str], directory: Path
) -> dict[str, TerraformError]:
    failed = {}
    for name in names:
        try:
            plan = planner.plan(name)
        except TerraformError as error:
            failed[name] = error
            continue
        (directory / f"{name}.json").write_text(plan)
        # Last: a plan that was not written whole is made again.
        (directory / f"{name}.sha256").write_text(digests[name])
    return failed


def _made(name: str, directory: Path) -> str:
    mark = directory / f"{name}.sha256"
    return mark.read_text() if mark.exists() and (directory / f"{name}.json").exists() else ""


def main() -> None:
    """Bring the plans of all examples up to date, and drop those of examples that are gone."""
    for name, error in refresh(PLANS).items():
        raise SystemExit(f"examples/{name}: {error}")
    for path in PLANS.glob("*.json"):
        if path.stem not in EXAMPLES:
            path.unlink()


if __name__ == "__main__":
    main()
