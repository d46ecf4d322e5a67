"""The AWS provider as one process that many Terraform commands attach to.

Terraform starts the provider anew for every command, several times for most, and each start builds the
schemas of all AWS resources: that, not the plans, is most of what short commands cost. The provider's own
``-debug`` mode keeps one process running that commands attach to through ``TF_REATTACH_PROVIDERS``.

Such a process has one configuration at a time: a ``ProviderServer`` serves commands one after another, in
roots with one ``provider "aws"`` block. ``ProviderServers`` are for roots with several of them:
Terraform opens a connection for each configured provider, and each gets a process of its own, which serves
another when that one is closed. (Not for ``terraform test``, which closes none before its end.) What an
apply uploads is found only where the working directory of these processes is the root module's.
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


class ProviderServers:
    """Running providers behind one address, one for each connection; started as needed, ended by ``stop``."""

    def __init__(
        self,
        executable: Path,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        *,
        root: Path | None = None,
    ) -> None:
        """As of ``ProviderServer``."""
        self._executable = executable
        self._directory = directory
        self._environment = dict(environment or {})
        self._root = root
        self._all: list[ProviderServer] = []
        self._free: list[ProviderServer] = []
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        # A path of a socket may have about a hundred letters: fewer than a test's directory can take.
        self._place = tempfile.TemporaryDirectory(prefix="provider-")
        self._address = ""

    @property
    def address(self) -> str:
        """The value of ``TF_REATTACH_PROVIDERS``; raises TerraformError when a provider does not start."""
        if self._listener is None:
            self._listen()
        return self._address

    def _listen(self) -> None:
        first = self._take()
        path = Path(self._place.name) / "socket"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._address = json.dumps(
            {
                source: {**described, "Pid": os.getpid(), "Addr": {"Network": "unix", "String": str(path)}}
                for source, described in json.loads(first.address).items()
            }
        )
        self._free.append(first)
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
            server = self._take()
            (described,) = json.loads(server.address).values()
            with socket.socket(socket.AF_UNIX) as provider:
                provider.connect(described["Addr"]["String"])
                provider.sendall(first)
                back = threading.Thread(target=_copy, args=(provider, connection), daemon=True)
                back.start()
                _copy(connection, provider)
                back.join()
            with self._lock:
                self._free.append(server)

    def _take(self) -> ProviderServer:
        with self._lock:
            if self._free:
                return self._free.pop()
            server = ProviderServer(
                self._executable,
                self._directory / f"provider-{len(self._all) + 1}",
                self._environment,
                root=self._root,
            )
            self._all.append(server)
        # Whoever asks for its address starts it.
        return server

    def stop(self) -> None:
        """End the providers that run, and serve no more."""
        if self._listener is not None:
            # Closing alone does not wake up who waits for a connection.
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self._place.cleanup()
        with self._lock:
            servers, self._all, self._free = self._all, [], []
        for server in servers:
            server.stop()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Hand on what one end says until it has no more to say, or the other end is gone."""
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
    # Either way this conversation is over, in both directions.
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
