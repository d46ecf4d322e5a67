"""Start and stop the local AWS emulator (MiniStack) on a free port of this machine.

The emulator lives in a virtual environment of its own (``.venv-emulator``, made by ``make setup``); the
environment variable ``AWSMP_EMULATOR_PYTHON`` names another interpreter that has it installed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import boto3
from botocore.config import Config

ADDRESS = "127.0.0.1"
PYTHON_VARIABLE = "AWSMP_EMULATOR_PYTHON"
HEALTH_PATH = "/_ministack/health"
RESET_PATH = "/_ministack/reset"

_REPOSITORY = Path(__file__).resolve().parent.parent
_STOP_SECONDS = 10.0


class EmulatorUnavailable(RuntimeError):
    """The emulator is not installed or did not come up; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A running emulator: its address and process id."""

    endpoint: str
    pid: int

    def client(self, service: str, *, region: str = "us-east-1", account_id: str = "123456789012") -> Any:
        """Return a boto3 client of the emulator; a twelve-digit access key selects the account."""
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=region,
            aws_access_key_id=account_id,
            aws_secret_access_key="local",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def reset(self) -> None:
        """Forget every resource."""
        request = urllib.request.Request(self.endpoint + RESET_PATH, method="POST")
        with urllib.request.urlopen(request, timeout=10):
            pass


def emulator_python(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the interpreter that runs the emulator; raises EmulatorUnavailable when there is none."""
    chosen = environment.get(PYTHON_VARIABLE)
    python = Path(chosen) if chosen else _REPOSITORY / ".venv-emulator" / "bin" / "python"
    if not python.is_file():
        raise EmulatorUnavailable(
            f"The local AWS emulator is missing: no interpreter at {python}; run `make setup` or set "
            f"{PYTHON_VARIABLE} to a Python that has ministack installed."
        )
    return python


def free_port() -> int:
    """Return a TCP port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def emulator(
    *,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = ("-m", "ministack"),
    start_seconds: float = 60.0,
) -> Iterator[Emulator]:
    """Run the emulator for the duration of a ``with`` block.

    ``environment`` is added to the emulator's own (its Lambdas inherit it); ``command`` is what its
    interpreter runs. Raises EmulatorUnavailable when it is missing or not healthy within ``start_seconds``.
    """
    python = emulator_python()
    port = free_port()
    settings = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))},
        "GATEWAY_PORT": str(port),
        "BIND_HOST": ADDRESS,
        "IOT_MTLS_ENABLED": "0",
        **(environment or {}),
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(python), *command],
            env=settings,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            endpoint = f"http://{ADDRESS}:{port}"
            _wait_until_healthy(process, endpoint, log, start_seconds)
            yield Emulator(endpoint, process.pid)
        finally:
            _stop(process)


def _wait_until_healthy(
    process: subprocess.Popen[bytes], endpoint: str, log: IO[bytes], seconds: float
) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if _is_healthy(endpoint):
            return
        time.sleep(0.05)
    log.seek(0)
    last = log.read().decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
    raise EmulatorUnavailable(
        f"The local AWS emulator did not become healthy at {endpoint} within {seconds:.0f} s: {last[0]}"
    )


def _is_healthy(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(endpoint + HEALTH_PATH, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
