"""AWS providers that go on running, for many Terraform commands to attach to.

Terraform starts the provider anew for every command, several times for most, and each start builds the
schemas of all AWS resources: that, not the plans, is most of what short commands cost. The provider's own
``-debug`` mode keeps a process running that commands attach to through ``TF_REATTACH_PROVIDERS``.

Such a process has one configuration at a time, and Terraform opens one connection for each configured
provider. So every connection gets a process of its own, which serves another when that one is closed: roots
may have several ``provider "aws"`` blocks, and commands may run beside each other. What an apply uploads is
found only where the working directory of these processes is the root module's.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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

_CHUNK: Final = 1 << 16

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


@dataclass(slots=True)
class _Process:
    """One running provider, and what Terraform has to be told of it."""

    popen: subprocess.Popen[bytes]
    announced: dict[str, dict[str, Any]]

    @property
    def socket(self) -> str:
        (described,) = self.announced.values()
        return str(described["Addr"]["String"])


@dataclass(slots=True)
class _Pool:
    """Processes that serve nobody now, and all there are."""

    free: list[_Process] = field(default_factory=list)
    all: list[_Process] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class ProviderServer:
    """Running providers behind one address; the first command starts them, ``stop`` ends them."""

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
        self._directory = directory
        self._environment = dict(environment or {})
        self._pool = _Pool()
        self._listener: socket.socket | None = None
        self._place: tempfile.TemporaryDirectory[str] | None = None
        self._address = ""
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """The value of ``TF_REATTACH_PROVIDERS``; raises TerraformError when a provider does not start."""
        if self._listener is None:
            self._listen()
        return self._address

    def _listen(self) -> None:
        first = self._start()
        self._pool.free.append(first)
        # A path of a socket may have about a hundred letters: fewer than a test's directory can take.
        self._place = tempfile.TemporaryDirectory(prefix="provider-")
        path = Path(self._place.name) / "socket"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        announced = {
            source: {**described, "Pid": os.getpid(), "Addr": {"Network": "unix", "String": str(path)}}
            for source, described in first.announced.items()
        }
        self._address = json.dumps(announced)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed by stop
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Connect a client to a process that no other client has."""
        with connection:
            first = connection.recv(_CHUNK)
            if not first:  # Terraform looks whether anybody listens, and goes.
                return
            process = self._take()
            with socket.socket(socket.AF_UNIX) as provider:
                provider.connect(process.socket)
                provider.sendall(first)
                back = threading.Thread(target=_copy, args=(provider, connection), daemon=True)
                back.start()
                _copy(connection, provider)
                back.join()
            with self._pool.lock:
                self._pool.free.append(process)

    def _take(self) -> _Process:
        with self._pool.lock:
            if self._pool.free:
                return self._pool.free.pop()
        return self._start()

    def _start(self) -> _Process:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TF_"))}
        with self._pool.lock:
            path = self._directory / f"provider-{len(self._pool.all) + 1}.log"
            with path.open("wb") as log:
                popen = subprocess.Popen(
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
            process = _Process(popen, {})
            self._pool.all.append(process)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and popen.poll() is None:
            if announced := _ANNOUNCED.search(path.read_text(errors="replace")):
                process.announced = json.loads(announced.group(1))
                return process
            time.sleep(0.05)
        self.stop()
        raise TerraformError(f"The AWS provider did not start:\n{path.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """End the providers that run."""
        if self._listener is not None:
            # Closing alone does not wake up who waits for a connection.
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        if self._place is not None:
            self._place.cleanup()
        with self._pool.lock:
            processes, self._pool.all, self._pool.free = self._pool.all, [], []
        for process in processes:
            process.popen.terminate()
        for process in processes:
            try:
                process.popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Hand on what one end says until it has no more to say, or the other end is gone."""
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
    # Either way this conversation is over, in both directions.
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
