"""The engine behind AWS's wire protocol, for unmodified SDK clients in other processes.

``POST /`` with ``X-Amz-Target`` speaks AWS JSON 1.1; ``/_fake/`` is the admin API. Signatures are not
verified: the Region comes from the credential scope, the account from an access key of twelve digits. It is
bound to the loopback interface only: whoever reaches it can change everything.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

from sandbox.fake_marketplace.commands import UnknownCommand, parse_instant, run_command, run_query
from sandbox.fake_marketplace.engine import FakeMarketplace, Reply
from sandbox.fake_marketplace.errors import Code, Refusal
from sandbox.fake_marketplace.events import EVENT_REGION
from sandbox.fake_marketplace.faults import BATCH_METER_USAGE, RESOLVE_CUSTOMER, Lost
from sandbox.fake_marketplace.registry import Clock
from sandbox.fake_marketplace.settings import Settings

TARGET_PREFIX = "AWSMPMeteringService"
SIGNING_NAME = "aws-marketplace"
JSON_TYPE = "application/x-amz-json-1.1"
ADMIN_PATH = "/_fake/"
#: A body above this is not read to its end; the engine's own limit lies far below.
MAX_BODY_BYTES = 8_000_000
#: How long an answer that never comes keeps its connection open.
LONGEST_SILENCE_SECONDS = 300.0

_CREDENTIAL = re.compile(r"Credential=([^/\s,]+)/(\d{8})/([^/\s,]+)/([^/\s,]+)/aws4_request")
_NO_REQUEST_ID = "00000000-0000-4000-8000-000000000000"


class WallClock:
    """The machine's time, shifted by an offset that the admin API sets."""

    def __init__(self) -> None:
        """Start without an offset."""
        self.offset = timedelta(0)

    def now(self) -> datetime:
        """Return the shifted time, aware, in UTC."""
        return datetime.fromtimestamp(time.time(), UTC) + self.offset


class _Frozen:
    """One instant per request, so that a journal can repeat the request exactly."""

    def __init__(self) -> None:
        self.instant = datetime(1970, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.instant


class Journal:
    """Every state-changing call as one JSON line; repeating them restores the state.

    A last line that a crash cut short is dropped: the call it was written for may never have been answered.
    """

    def __init__(self, path: Path) -> None:
        """``path`` is created on the first write."""
        self._path = path
        self._file: IO[str] | None = None

    def entries(self) -> list[dict[str, Any]]:
        """Return what was written so far.

        Raises:
            ValueError: a line other than the last is damaged.
        """
        if not self._path.exists():
            return []
        text = self._path.read_text(encoding="utf-8")
        whole, _, rest = text.rpartition("\n")
        if rest:
            self._path.write_text(whole + "\n" if whole else "", encoding="utf-8")
        return [json.loads(line) for line in whole.splitlines() if line]

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write one entry through to the operating system."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        self._file.write(json.dumps(entry, separators=(",", ":")) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: taken from the credential scope."""

    region: str
    account: str | None


class Service:
    """One engine, one lock, one journal: what the HTTP handler threads share."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
        engine: FakeMarketplace | None = None,
        journal: Journal | None = None,
    ) -> None:
        """With an ``engine`` its own clock counts; else one is made on ``clock`` (default: the wall clock).

        Raises:
            ValueError: the journal is damaged, or an engine was given beside it.
        """
        self._lock = threading.RLock()
        self._clock = clock or WallClock()
        self._settings = settings
        self._frozen = _Frozen()
        self._journal = journal
        if engine is not None and journal is not None:
            raise ValueError("a journal restores an engine of its own")
        self.engine = engine or self._fresh()
        if journal is not None:
            self._restore(journal)

    def _fresh(self) -> FakeMarketplace:
        return FakeMarketplace(self._frozen, self._settings)

    def _restore(self, journal: Journal) -> None:
        entries = journal.entries()
        for entry in entries:
            self._frozen.instant = parse_instant(entry["at"])
            self._repeat(entry)
        if not entries:
            # The switches come first in the journal: a restart with others would repeat into another state.
            self.command("reset", self.engine.settings.to_json())

    def _repeat(self, entry: Mapping[str, Any]) -> None:
        try:
            caller = Caller(entry["region"], entry["account"])
            self._apply(entry["call"], entry["arguments"], caller, entry["size"])
        except _CALLER_ERRORS:
            # The call failed when it was made, too: the ids that it used up before are what is restored.
            return

    def _apply(self, call: str, arguments: Any, caller: Caller, size: int | None = None) -> Any:
        if call == BATCH_METER_USAGE:
            return self.engine.batch_meter_usage(
                arguments, region=caller.region, account=caller.account, request_bytes=size
            )
        if call == RESOLVE_CUSTOMER:
            return self.engine.resolve_customer(arguments, region=caller.region, account=caller.account)
        if call == "reset":
            self._settings = Settings().changed(arguments)
            self.engine = self._fresh()
            return {}
        if call == "clock":
            return self._set_clock(arguments)
        return run_command(self.engine, call, arguments)

    def call(self, name: str, arguments: Any, caller: Caller, size: int | None = None) -> Any:
        """Run a request or a command, at one instant, and write it to the journal.

        Raises:
            UnknownCommand, KeyError, TypeError, ValueError: as :func:`run_command`.
        """
        with self._lock:
            self._frozen.instant = self._clock.now()
            if self._journal is not None:
                entry = {
                    "at": self._frozen.instant.isoformat(),
                    "call": name,
                    "arguments": arguments,
                    "region": caller.region,
                    "account": caller.account,
                    "size": size,
                }
                self._journal.append(entry)
            return self._apply(name, arguments, caller, size)

    def command(self, name: str, arguments: Any) -> Any:
        """Run an admin command.

        Raises:
            UnknownCommand, KeyError, TypeError, ValueError: as :func:`run_command`.
        """
        if name in (BATCH_METER_USAGE, RESOLVE_CUSTOMER):
            raise UnknownCommand(name)
        return self.call(name, arguments, Caller(EVENT_REGION, None))

    def query(self, name: str, since: int) -> Any:
        """Answer a query.

        Raises:
            UnknownCommand: there is none of this name.
        """
        with self._lock:
            if name == "clock":
                return self._clock_state()
            if name == "health":
                return {"status": "ok", **self._clock_state()}
            return run_query(self.engine, name, since)

    def _clock_state(self) -> dict[str, Any]:
        offset = self._clock.offset.total_seconds() if isinstance(self._clock, WallClock) else None
        return {"now": self._clock.now().isoformat(), "offset_seconds": offset}

    def _set_clock(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(self._clock, WallClock):
            raise TypeError("this clock cannot be shifted")
        if set(arguments) == {"offset_seconds"}:
            self._clock.offset = timedelta(seconds=float(arguments["offset_seconds"]))
        elif set(arguments) == {"now"}:
            shift = parse_instant(arguments["now"]) - self._frozen.instant
            self._clock.offset += shift
        else:
            raise ValueError("the clock takes either offset_seconds or now")
        return self._clock_state()

    def close(self) -> None:
        """Release the journal."""
        if self._journal is not None:
            self._journal.close()


_CALLER_ERRORS: tuple[type[Exception], ...] = (UnknownCommand, KeyError, TypeError, ValueError)


class FakeMarketplaceServer(ThreadingHTTPServer):
    """Serves a :class:`Service` on the loopback interface; a context manager that serves in a thread."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, service: Service, port: int = 0) -> None:
        """Bind to ``port`` (0: a free one).

        Raises:
            OSError: the port is taken.
        """
        super().__init__(("127.0.0.1", port), _Handler)
        self.service = service
        self.stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def endpoint(self) -> str:
        """The ``endpoint_url`` for SDK clients."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, end silent connections and release the port."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        if self._thread is not None:
            self._thread.join()
        self.service.close()

    def __enter__(self) -> FakeMarketplaceServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent about callers that hang up; report everything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "FakeMarketplace"
    sys_version = ""
    #: Closes idle keep-alive connections, seconds.
    timeout = 120
    disable_nagle_algorithm = True
    server: FakeMarketplaceServer

    def do_POST(self) -> None:
        """Answer an API request or an admin command."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            self._refuse(Refusal(Code.VALIDATION, "The request is too large.", status=413), _NO_REQUEST_ID)
            return
        body = self.rfile.read(length)
        if self.path.startswith(ADMIN_PATH):
            self._admin(lambda name, _: self.server.service.command(name, _parse(body or b"{}")))
            return
        try:
            operation, caller = self._operation(), self._caller()
            arguments = _parse(body)
        except Refusal as refusal:
            self._refuse(refusal, _NO_REQUEST_ID)
            return
        self._reply(self.server.service.call(operation, arguments, caller, len(body)))

    def do_GET(self) -> None:
        """Answer an admin query."""
        if not self.path.startswith(ADMIN_PATH):
            self._json(404, {"error": f"nothing here; queries are below {ADMIN_PATH}"})
            return
        self._admin(self.server.service.query)

    def _admin(self, run: Callable[[str, int], Any]) -> None:
        parts = urlsplit(self.path)
        name = parts.path.removeprefix(ADMIN_PATH).strip("/")
        try:
            since = int(parse_qs(parts.query).get("since", ["0"])[0])
            answer = run(name, since)
        except UnknownCommand:
            self._json(404, {"error": f"unknown: {name}"})
        except (KeyError, TypeError, ValueError, Refusal) as error:
            self._json(400, {"error": f"{type(error).__name__}: {error}"})
        else:
            self._json(200, answer)

    def _operation(self) -> str:
        prefix, _, name = self.headers.get("X-Amz-Target", "").partition(".")
        if prefix != TARGET_PREFIX or name not in (BATCH_METER_USAGE, RESOLVE_CUSTOMER):
            raise Refusal(Code.UNKNOWN_OPERATION, "The operation is unknown to this service.")
        return name

    def _caller(self) -> Caller:
        match = _CREDENTIAL.search(self.headers.get("Authorization", ""))
        if match is None:
            raise Refusal(Code.MISSING_AUTHENTICATION, "The request is not signed.")
        key, _, region, service = match.groups()
        if service != SIGNING_NAME:
            raise Refusal(
                Code.INVALID_SIGNATURE,
                f"The credential is scoped to {service!r} instead of {SIGNING_NAME!r}.",
            )
        return Caller(region, key if re.fullmatch(r"[0-9]{12}", key) else None)

    def _reply(self, reply: Reply) -> None:
        if reply.latency_seconds > 0:
            self.server.stopping.wait(reply.latency_seconds)
        if reply.lost is Lost.READ_TIMEOUT:
            self._stay_silent()
        if reply.lost is not None:
            self._drop()
        elif reply.refusal is not None:
            self._refuse(reply.refusal, reply.request_id)
        else:
            self._json(200, reply.body, {"x-amzn-RequestId": reply.request_id}, JSON_TYPE)

    def _refuse(self, refusal: Refusal, request_id: str) -> None:
        headers = {"x-amzn-RequestId": request_id, "x-amzn-ErrorType": refusal.code}
        body = {"__type": refusal.code, "message": refusal.message}
        self._json(refusal.status, body, headers, JSON_TYPE)

    def _stay_silent(self) -> None:
        """Wait until the caller gives up."""
        deadline = time.monotonic() + LONGEST_SILENCE_SECONDS
        while time.monotonic() < deadline and not self.server.stopping.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.05)
            if readable:
                return

    def _drop(self) -> None:
        self.close_connection = True
        # A caller that timed out has closed its end already, which is all that is wanted.
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _json(
        self,
        status: int,
        body: Any,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Print nothing: the history is the log."""


def _parse(body: bytes) -> Any:
    try:
        value = json.loads(body)
    except ValueError as error:
        raise Refusal(Code.SERIALIZATION, "The body is no JSON.") from error
    if not isinstance(value, dict):
        raise Refusal(Code.SERIALIZATION, "The body is no JSON object.")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; print the endpoint as one JSON line on standard output."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.fake_marketplace", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument(
        "--state-file", type=Path, help="journal; a restart on the same file goes on from there"
    )
    parser.add_argument("--settings", type=json.loads, default={}, help="switches as a JSON object")
    options = parser.parse_args(arguments)
    settings = Settings().changed(options.settings)
    journal = Journal(options.state_file) if options.state_file is not None else None
    server = FakeMarketplaceServer(Service(settings=settings, journal=journal), options.port)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server.start()
    print(json.dumps({"endpoint": server.endpoint, "port": server.server_address[1]}), flush=True)
    stop.wait()
    server.stop()
    return 0
