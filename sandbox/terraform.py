"""Runs Terraform on copies of the modules and examples.

The provider comes from a filesystem mirror where the machine has one, else from Terraform's registry. Nothing
is written into the repository: every command works in a copy under a temporary directory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PROVIDER: Final = Path("registry.terraform.io/hashicorp/aws")
COMMAND_SECONDS: Final = 900
_PLAN: Final = "plan.bin"
_APPLY: Final = ("apply", "-no-color", "-input=false", "-auto-approve", "-parallelism=30")

#: Collect garbage less often than Go's default: schemas are kept, what is left is short-lived.
GO_SETTINGS: Final[Mapping[str, str]] = {"GOGC": "400", "GOMEMLIMIT": "1500MiB"}

Values = dict[str, Any]


class TerraformError(RuntimeError):
    """A command failed, or Terraform or its provider is not to be had; the message says which."""


def find_mirror(home: Path | None = None) -> Path | None:
    """Return the directory of a provider mirror that holds hashicorp/aws, or None.

    Looked for where Terraform itself looks for local providers, and directly below ``/opt``.
    """
    data = Path(os.environ.get("XDG_DATA_HOME", (home or Path.home()) / ".local/share"))
    candidates = [
        (home or Path.home()) / ".terraform.d/plugins",
        data / "terraform/plugins",
        Path("/usr/local/share/terraform/plugins"),
        Path("/usr/share/terraform/plugins"),
        *sorted(path for path in Path("/opt").glob("*") if path.is_dir()),
    ]
    return next((path for path in candidates if (path / PROVIDER).is_dir()), None)


def cli_config(mirror: Path | None, cache: Path) -> str:
    """Return the text of a CLI configuration: the mirror, or Terraform's own download with a cache."""
    if mirror is None:
        return f"plugin_cache_dir = {json.dumps(str(cache))}\n"
    return (
        f"provider_installation {{\n  filesystem_mirror {{\n    path = {json.dumps(str(mirror))}\n  }}\n}}\n"
    )


class Terraform:
    """The terraform command with a configuration of its own."""

    def __init__(self, directory: Path) -> None:
        executable = shutil.which("terraform")
        if executable is None:
            raise TerraformError("These tests need the terraform command (1.9 or newer) on PATH; see README.")
        self._executable = executable
        directory.mkdir(parents=True, exist_ok=True)
        cache = REPOSITORY / "build" / "terraform-plugins"
        mirror = find_mirror()
        if mirror is None:
            cache.mkdir(parents=True, exist_ok=True)
        self._config = directory / "terraform.rc"
        self._config.write_text(cli_config(mirror, cache))

    def run(
        self, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; raises TerraformError with its output when it fails and ``check`` is set."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TF_"))}
        done = subprocess.run(
            [self._executable, *arguments],
            cwd=cwd,
            env={
                **inherited,
                "AWS_EC2_METADATA_DISABLED": "true",
                "CHECKPOINT_DISABLE": "1",
                "TF_CLI_CONFIG_FILE": str(self._config),
                "TF_IN_AUTOMATION": "1",
                **GO_SETTINGS,
                **(environment or {}),
            },
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if check and done.returncode != 0:
            raise TerraformError(f"terraform {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
        return done

    def init(self, cwd: Path) -> None:
        """Initialize ``cwd``; raises TerraformError when the provider is not to be had."""
        done = self.run("init", "-no-color", "-input=false", cwd=cwd, check=False)
        if done.returncode != 0:
            raise TerraformError(
                "terraform init failed: there is no local mirror of hashicorp/aws and the download did not "
                f"work, or the configuration is wrong.\n{done.stdout}\n{done.stderr}"
            )

    def plan(
        self,
        cwd: Path,
        variables: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        refresh: bool = True,
    ) -> Values:
        """Plan ``cwd``, after reading what exists unless told otherwise, and return the plan's JSON."""
        path = cwd / _PLAN
        flags = _flags(variables, refresh=refresh)
        self.run(
            "plan",
            "-no-color",
            "-input=false",
            "-lock=false",
            f"-out={path}",
            *flags,
            cwd=cwd,
            environment=environment,
        )
        shown: Values = json.loads(self.run("show", "-json", str(path), cwd=cwd).stdout)
        return shown

    def apply(
        self,
        cwd: Path,
        variables: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        refresh: bool = True,
    ) -> None:
        """Apply ``cwd`` without asking, after reading what exists unless told otherwise."""
        flags = _flags(variables, refresh=refresh)
        self.run(*_APPLY, *flags, cwd=cwd, environment=environment)

    def apply_plan(self, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
        """Apply what :meth:`plan` planned last in ``cwd``."""
        self.run(*_APPLY, str(cwd / _PLAN), cwd=cwd, environment=environment)


def copy_repository(target: Path) -> Path:
    """Copy what a root module of the examples reads to ``target`` and return it."""
    for name in ("modules", "examples", "lambda_dist"):
        shutil.copytree(REPOSITORY / name, target / name, ignore=shutil.ignore_patterns(".terraform*"))
    page = Path("lambda_src") / "awsmp" / "page"
    shutil.copytree(REPOSITORY / page, target / page)
    return target


def _flags(variables: Mapping[str, Any] | None, *, refresh: bool) -> list[str]:
    given = [f"-var={name}={_text(value)}" for name, value in (variables or {}).items()]
    return given if refresh else [*given, "-refresh=false"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
