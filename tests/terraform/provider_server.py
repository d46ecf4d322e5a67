"""The AWS provider as one process that many Terraform commands attach to.

Terraform starts the provider anew for every command, several times for most, and each start builds the
schemas of all AWS resources: that, not the plans, is most of what short commands cost. The provider's own
``-debug`` mode keeps one process running that commands attach to through ``TF_REATTACH_PROVIDERS``.

Such a process has one configuration at a time: it serves commands one after another, in roots with one
``provider "aws"`` block. Roots with several (``has_one_provider``) let Terraform start its own. It also has
one working directory: what an apply uploads is found only where that is the root module's.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import sandbox.terraform
from sandbox.terraform import GO_SETTINGS, TerraformError

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 10.0

#: In this mode the provider would otherwise write every call down.
QUIET: Final[Mapping[str, str]] = {
    "TF_LOG_PROVIDER": "off",
    "TF_LOG_SDK": "off",
    "TF_LOG_SDK_MUX": "off",
    "TF_LOG_SDK_PROTO": "off",
}

_ANNOUNCED = re.compile(r"TF_REATTACH_PROVIDERS='(\{.*\})'")

_ROOT = """
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7.0"
    }
  }
}
"""


def provider_executable(directory: Path) -> Path:
    """Let Terraform install the provider below ``directory`` and return its executable.

    Raises TerraformError when Terraform or the provider is not to be had.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "main.tf").write_text(_ROOT)
    sandbox.terraform.Terraform(directory / "config").init(directory)
    found = sorted(
        (directory / ".terraform" / "providers").glob("**/hashicorp/aws/**/terraform-provider-aws_*")
    )
    # The folder of the platform may be a link, which a recursive pattern does not follow.
    found = found or sorted(
        (directory / ".terraform" / "providers").glob("*/hashicorp/aws/*/*/terraform-provider-aws_*")
    )
    if not found:
        raise TerraformError(f"terraform init installed no hashicorp/aws below {directory}.")
    return found[0]


def has_one_provider(root: Path) -> bool:
    """Tell whether a root module configures AWS at most once, so that a running provider can serve it."""
    text = "".join(path.read_text() for path in root.glob("*.tf") if not path.name.endswith("_override.tf"))
    return len(re.findall(r'^provider "aws" \{', text, re.M)) <= 1


class ProviderServer:
    """One running provider; started by the first command that needs it, stopped by ``stop``."""

    def __init__(
        self,
        executable: Path,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        *,
        root: Path | None = None,
    ) -> None:
        """Serve ``executable`` with ``environment`` (endpoint, credentials), logging below ``directory``.

        Applies need ``root``: the root module that is applied.
        """
        self._executable = executable
        self._root = directory if root is None else root
        self._log = directory / "provider.log"
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """The value of ``TF_REATTACH_PROVIDERS``; raises TerraformError when the provider does not start."""
        if self._process is None:
            self._start()
        return self._address

    def _start(self) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TF_"))}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(self._executable), "-debug"],
                cwd=self._root,
                env={
                    **inherited,
                    "AWS_EC2_METADATA_DISABLED": "true",
                    **GO_SETTINGS,
                    **QUIET,
                    **self._environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if announced := _ANNOUNCED.search(self._log.read_text(errors="replace")):
                self._address = announced.group(1)
                return
            time.sleep(0.05)
        self.stop()
        raise TerraformError(
            f"The AWS provider did not start:\n{self._log.read_text(errors='replace')[-2000:]}"
        )

    def stop(self) -> None:
        """End the provider, if it runs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
