"""AWS on this machine: the emulator and the fake AWS Marketplace, on one clock that can be moved.

``LocalCloud`` is a context manager for tests and the demonstration; ``python -m sandbox.local_cloud`` keeps
one running and tells how to use it. Everything listens on the loopback interface only, on free ports, and is
gone when the cloud stops: processes, temporary files and all that was created in it.

Deployed functions need no setting to find the fake: the emulator hands its own environment on to them, and
the SDK takes the Marketplace's endpoint from there.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from sandbox.emulator import Emulator, EmulatorUnavailable, emulator
from sandbox.emulator_launcher import PATH as CLOCK_PATH
from sandbox.emulator_launcher import SETTLE_SECONDS, STEP_SECONDS
from sandbox.shifted_time.sitecustomize import CLOCK_VARIABLE, PARENT_VARIABLE, SimulatedClock

#: What the SDKs read for the service id "Marketplace Metering".
MARKETPLACE_ENDPOINT_VARIABLE: Final = "AWS_ENDPOINT_URL_MARKETPLACE_METERING"
#: The account that the emulator's resources belong to; an access key of twelve digits selects it.
ACCOUNT_ID: Final = "123456789012"
SECRET_KEY: Final = "local"

Part = TypeVar("Part")

_HERE: Final = Path(__file__).resolve().parent
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 60.0


class LocalCloudError(RuntimeError):
    """The local cloud did not start, refused a request or did not come to rest; the message says which."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the clock or to the fake Marketplace's admin API."""

    purpose: str
    url: str
    #: The body of a POST; None for a GET.
    body: Mapping[str, Any] | None = None

    def send(self, *, timeout: float = _ANSWER_SECONDS) -> Any:
        """Return the answer's JSON; raises LocalCloudError when it is refused or does not come."""
        data = None if self.body is None else json.dumps(self.body).encode()
        request = urllib.request.Request(self.url, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            detail = error.read().decode(errors="replace")
            raise LocalCloudError(f"{self.url} answered {error.code}: {detail}") from error
        except OSError as error:
            raise LocalCloudError(f"{self.url} did not answer: {error}") from error

    def command(self) -> str:
        """Return a shell command that sends it."""
        if self.body is None:
            return f"curl -s {self.url}"
        return f"curl -s {self.url} -d {shlex.quote(json.dumps(self.body))}"


class MarketplaceAdmin:
    """The fake Marketplace's admin API: products, subscriptions, faults, and what it has honoured."""

    def __init__(self, endpoint: str) -> None:
        """``endpoint`` is the one that SDK clients use."""
        self.endpoint = endpoint

    def request(self, purpose: str, name: str, **arguments: Any) -> Request:
        """Return the request of a command."""
        return Request(purpose, f"{self.endpoint}/_fake/{name}", arguments)

    def command(self, name: str, **arguments: Any) -> Any:
        """Run a command, such as ``subscribe`` or ``arm-fault``; raises LocalCloudError if it is refused."""
        return self.request(name, name, **arguments).send()

    def query(self, name: str, *, since: int = 0) -> Any:
        """Answer a query, such as ``honoured`` or ``summary``; raises LocalCloudError if there is none."""
        return Request(name, f"{self.endpoint}/_fake/{name}?since={since}").send()


class LocalCloud:
    """A running local cloud; see the module.

    Parameters
    ----------
    start_at
        The simulated time at the start, aware; by default the machine's.
    speed
        Simulated seconds per second. Everything that runs then has less of the machine for each simulated
        second; :meth:`advance` does not have this effect.
    enforce_roles
        Have the policies of the functions' roles enforced.
    marketplace_settings
        Switches of the fake Marketplace, see ``sandbox.fake_marketplace.settings``.
    region
        The Region that :attr:`environment` and :meth:`client` stand for.
    """

    def __init__(
        self,
        *,
        start_at: datetime | None = None,
        speed: float = 1.0,
        enforce_roles: bool = False,
        marketplace_settings: Mapping[str, Any] | None = None,
        region: str = "us-east-1",
    ) -> None:
        if start_at is not None and start_at.tzinfo is None:
            raise ValueError("the start time needs an offset from UTC")
        self._start_at = start_at
        self._speed = speed
        self._enforce_roles = enforce_roles
        self._marketplace_settings = dict(marketplace_settings or {})
        self.region = region
        self._resources = ExitStack()
        self._emulator: Emulator | None = None
        self._clock: SimulatedClock | None = None
        self._marketplace: MarketplaceAdmin | None = None

    def __enter__(self) -> Self:
        """Start everything; raises LocalCloudError or EmulatorUnavailable when a part does not come up."""
        with ExitStack() as started:
            directory = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="local-cloud-")))
            clock_file = directory / "clock"
            start = time.time() if self._start_at is None else self._start_at.timestamp()
            self._clock = SimulatedClock.create(clock_file, start, self._speed)
            started.callback(self._clock.close)
            followers = {
                CLOCK_VARIABLE: str(clock_file),
                PARENT_VARIABLE: str(os.getpid()),
                "PYTHONPATH": str(_HERE / "shifted_time"),
                "TMPDIR": str(directory),
            }
            marketplace = started.enter_context(_fake_marketplace(followers, self._marketplace_settings))
            self._marketplace = MarketplaceAdmin(marketplace)
            settings = {
                **followers,
                MARKETPLACE_ENDPOINT_VARIABLE: marketplace,
                "MINISTACK_ACCOUNT_ID": ACCOUNT_ID,
            }
            if self._enforce_roles:
                settings["AUTH"] = "true"
            self._emulator = started.enter_context(_emulator_group(settings))
            self._resources = started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop everything that was started, and remove its files."""
        self._resources.close()
        self._emulator = self._clock = self._marketplace = None

    @property
    def emulator(self) -> Emulator:
        """The emulator; raises LocalCloudError while the cloud is not running."""
        return _running(self._emulator)

    @property
    def marketplace(self) -> MarketplaceAdmin:
        """The fake Marketplace; raises LocalCloudError while the cloud is not running."""
        return _running(self._marketplace)

    @property
    def endpoint(self) -> str:
        """The endpoint of every AWS service but the Marketplace."""
        return self.emulator.endpoint

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which SDKs, the AWS CLI and Terraform talk to this cloud only."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            MARKETPLACE_ENDPOINT_VARIABLE: self.marketplace.endpoint,
            "AWS_ACCESS_KEY_ID": ACCOUNT_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str, *, region: str | None = None, account_id: str = ACCOUNT_ID) -> Any:
        """Return a boto3 client of the emulator."""
        return self.emulator.client(service, region=region or self.region, account_id=account_id)

    def address_of(self, url: str) -> str:
        """Return where this cloud serves a URL of API Gateway's own, ``https://ID.execute-api.REGION...``.

        Raises
        ------
        ValueError
            The URL is of another host: the cloud serves no custom domain.
        """
        address = urlsplit(url)
        api_id, service, *_ = [*(address.hostname or "").split("."), ""]
        if service != "execute-api":
            raise ValueError(f"no URL of API Gateway: {url}")
        return f"{self.endpoint}/_aws/execute-api/{api_id}{address.path}"

    def now(self) -> datetime:
        """Return the simulated time, aware, in UTC."""
        return datetime.fromtimestamp(_running(self._clock).now(), UTC)

    def set_speed(self, speed: float) -> None:
        """Let ``speed`` simulated seconds pass in a second; raises ValueError when it is not positive."""
        _running(self._clock).set_speed(speed)

    def advance(
        self, duration: timedelta | float, *, settle: bool = True, settle_seconds: float = SETTLE_SECONDS
    ) -> datetime:
        """Let time pass, in steps of a minute, and return the new time.

        What falls due at a step starts at that step. With ``settle`` a step ends when no function runs and no
        message waits for one, so that nothing meets a later time than it would have met without the haste.

        Raises
        ------
        LocalCloudError
            A step has not come to rest within ``settle_seconds`` of the machine, or time would go back.
        """
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        steps = max(1.0, seconds / STEP_SECONDS + 1)
        body = {"advance_seconds": seconds, "settle": settle, "settle_seconds": settle_seconds}
        request = Request("advance the clock", self.endpoint + CLOCK_PATH, body)
        request.send(timeout=steps * settle_seconds + _ANSWER_SECONDS)
        return self.now()

    def advance_to(self, instant: datetime, *, settle: bool = True) -> datetime:
        """Let time pass until ``instant``, as :meth:`advance`; raises LocalCloudError when that is past."""
        return self.advance(instant - self.now(), settle=settle)

    def settle(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until no function runs and no message waits for one.

        Raises
        ------
        LocalCloudError
            It has not come to rest within ``seconds`` of the machine.
        """
        body = {"settle": True, "settle_seconds": seconds}
        Request("settle", self.endpoint + CLOCK_PATH, body).send(timeout=seconds + _ANSWER_SECONDS)

    def examples(self) -> list[Request]:
        """Return requests that show what can be done, in an order in which they work."""
        ask = self.marketplace.request
        clock = self.endpoint + CLOCK_PATH
        product, buyer = "1example2product3code4567", "111122223333"
        return [
            Request("tell the time and what is going on", clock),
            Request("let an hour pass", clock, {"advance_seconds": 3600}),
            Request("let a minute pass each second from now on", clock, {"speed": 60}),
            ask("list a product", "create-product", code=product, dimensions=["requests"]),
            ask("subscribe a buyer", "subscribe", product_code=product, acceptor_account=buyer),
            ask("refuse the next requests", "arm-fault", answer="ThrottlingException", times=2),
            ask("lose an answer", "arm-fault", answer="ReadTimeout", moment="after"),
            ask("end all faults", "clear-faults"),
            Request("show the lifecycle events", f"{self.marketplace.endpoint}/_fake/events"),
            Request("show what was billed", f"{self.marketplace.endpoint}/_fake/honoured"),
            Request("sum it up", f"{self.marketplace.endpoint}/_fake/summary"),
        ]


def _running(part: Part | None) -> Part:
    if part is None:
        raise LocalCloudError("the local cloud is not running")
    return part


@contextmanager
def _emulator_group(settings: Mapping[str, str]) -> Iterator[Emulator]:
    """Run the emulator in its own process group, of which nothing is left afterwards."""
    command = ("-P", str(_HERE / "emulator_launcher.py"))
    group: int | None = None
    try:
        with emulator(environment=settings, command=command, start_seconds=_START_SECONDS) as running:
            group = running.pid
            yield running
    finally:
        if group is not None:
            # The launcher ends its workers itself; this is for one that had to be killed.
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


@contextmanager
def _fake_marketplace(followers: Mapping[str, str], switches: Mapping[str, Any]) -> Iterator[str]:
    """Run the fake Marketplace and yield its endpoint."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sandbox.fake_marketplace", "--settings", json.dumps(switches)],
            cwd=_HERE.parent,
            env={**inherited, **followers},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            # Ctrl-C in a terminal goes to the whole foreground group: the cloud decides when parts end.
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            # Either the endpoint is printed, or the process ends and so does the line.
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                detail = log.read().decode(errors="replace").strip()[-1000:]
                raise LocalCloudError(f"the fake Marketplace did not start: {detail}")
            yield str(json.loads(line)["endpoint"])
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def describe(cloud: LocalCloud) -> str:
    """Return how to use a running cloud, as text for a terminal."""
    lines = [
        f"The local cloud is running; its time is {cloud.now():%Y-%m-%d %H:%M:%S} UTC.",
        "",
        f"  AWS          {cloud.endpoint}",
        f"  Marketplace  {cloud.marketplace.endpoint}",
        "",
        "In another terminal, point the AWS CLI, SDKs and Terraform at it:",
        "",
        *(f"  export {name}={shlex.quote(value)}" for name, value in cloud.environment.items()),
        "",
        "and apply an example, look around, or make trouble:",
        "",
        "  terraform -chdir=examples/minimal init && terraform -chdir=examples/minimal apply",
        *(f"  {request.command()}  # {request.purpose}" for request in cloud.examples()),
        "",
        "Ctrl-C stops it and removes everything in it.",
    ]
    return "\n".join(lines)


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def main(arguments: Sequence[str] | None = None) -> int:
    """Keep a local cloud running until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.local_cloud", description=main.__doc__)
    parser.add_argument(
        "--start-at", type=_instant, help="simulated time at the start, ISO 8601; default: now"
    )
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per second")
    parser.add_argument("--enforce-roles", action="store_true", help="enforce the functions' role policies")
    parser.add_argument("--region", default="us-east-1", help="Region of the printed environment")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with LocalCloud(
            start_at=options.start_at,
            speed=options.speed,
            enforce_roles=options.enforce_roles,
            region=options.region,
        ) as cloud:
            print(describe(cloud), flush=True)
            stop.wait()
    except (EmulatorUnavailable, LocalCloudError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
