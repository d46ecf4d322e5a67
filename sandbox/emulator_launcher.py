"""Runs the emulator (MiniStack) on the simulated clock; executed by the emulator's own interpreter.

``sandbox/shifted_time`` on PYTHONPATH has put the process on the clock already. What is added here:

* ``GET /_sandbox/clock`` tells the time, what is going on, and how often functions ran and failed,
  ``POST /_sandbox/clock`` moves it: ``{"advance_seconds": 3600}`` or ``{"speed": 60}``. Time is advanced in
  steps, because a rule fires once per sweep, however much time has passed since the last one. With
  ``"settle": true`` (the default) a step ends when nothing is left to do at that instant: no function runs,
  and no message waits for one. Where all that runs is asleep, time passes at once until the first wakes.
* Rules and schedules are looked at every simulated second, so that they fire when they are due.
* What MiniStack measures on the wall clock although it waits for the machine goes back to the machine's
  clock.
* Requests from outside are signed with the machine's time, those of functions with the simulated one: the
  time of a signature is not checked.
* Role policies are enforced as AWS does where the emulator's rules are its own: a request over the loopback
  interface counts as one over TLS (queue policies deny plain HTTP), each PartiQL statement needs
  ``dynamodb:PartiQLUpdate`` and its like on its table, a batch of messages needs ``sqs:SendMessage``, a mail
  ``ses:SendEmail`` on its sender's identity and on its configuration set, and events and mails come with the
  condition keys of their source and their sender.
* Of a function that rules start many times at once, four run side by side.
* What a function reports of a table's stream as failed comes again, with the whole batch.
* ``GET /_sandbox/mails`` tells what SES has taken, with each mail's headers, tags and configuration set.
* ``GET /_sandbox/access`` tells what callers with a policy asked for, and which of it was denied.
* A package is extracted once and shared by the workers that run it: a cold start would spend most of its
  time on writing hundreds of files. As on AWS, a function should not write there.
* Connections stay open until the client closes them. The emulator's web server closes what was idle for 75
  seconds, even if a request has just come: it is carried out and never answered, and the client, which waits
  longer for others, sends it again.
* What Terraform sends again, for want of an answer, is answered as the first time if that was a success: on
  a busy machine answers are lost in other ways as well, and what was made then "already exists".
* Lambda workers end with the emulator.

MiniStack's internals are used: a name that a release has renamed fails the start.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import importlib
import ipaddress
import json
import os
import re
import sys
import tempfile
import threading
import types
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

PATH: Final = "/_sandbox/clock"
ACCESS_PATH: Final = "/_sandbox/access"
MAILS_PATH: Final = "/_sandbox/mails"
#: The finest step in which time is advanced: the shortest rate of a rule.
STEP_SECONDS: Final = 60.0
#: How long, in seconds of the machine, a step may take to settle.
SETTLE_SECONDS: Final = 120.0
#: Simulated seconds between two looks of a scheduler at what is due; the emulator's own value is 10.
SWEEP_SECONDS: Final = 1.0
#: Quiet means: quiet at so many looks in a row. Work changes hands between threads, unseen for a moment.
_QUIET_LOOKS: Final = 3
_LOOK_SECONDS: Final = 0.01
#: So many runs of one function that rules start go on side by side; on AWS all do. Each worker more takes a
#: second of a core to start, and a discovery has two dozen runs.
_DISPATCHED_AT_ONCE: Final = 4
#: Longer than any client keeps a connection that it does not use.
_IDLE_SECONDS: Final = 86_400.0
#: Answers that may be repeated; a client repeats within minutes.
_KEPT_ANSWERS: Final = 5_000
_FIRST_REFUSAL: Final = 300

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Activity:
    """What the emulator is doing: invocations under way, and the schedulers' last completed sweeps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._invocations = 0
        self._executions = 0
        #: Invocations and failed ones by function: the emulator's own metrics know direct invocations only.
        self.runs: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        #: Simulated time at which each scheduler began its last completed sweep.
        self.swept = {"rules": 0.0, "schedules": 0.0}

    @contextmanager
    def _invocation(self, *, executed: bool) -> Iterator[None]:
        with self._lock:
            self._invocations += 1
            self._executions += executed
        try:
            yield
        finally:
            with self._lock:
                self._invocations -= 1
                self._executions -= executed

    def count_invocations(self, service: Any) -> None:
        """Have every run of a function counted while it lasts."""
        execute = service._execute_function

        def counted(function: Any, *args: Any, **kwargs: Any) -> Any:
            config = function.get("config") or function
            # Called from another account's or Region's scope, it calls itself again from the right one.
            again = service._function_config_scope_mismatch(config)
            with self._invocation(executed=not again):
                result = execute(function, *args, **kwargs)
            if not again:
                with self._lock:
                    self.runs[config["FunctionName"]] += 1
                    self.failures[config["FunctionName"]] += bool(result.get("error"))
            return result

        service._execute_function = counted

    def count_dispatches(self, service: Any, lambda_service: Any) -> None:
        """Have a function counted from the moment at which a rule has it started in a thread of its own."""
        target = lambda_service._execute_function_with_config_scope
        activity = self
        gates: defaultdict[str, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(_DISPATCHED_AT_ONCE)
        )

        class CountedThread(threading.Thread):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                function = kwargs["args"][0]
                self._gate = gates[(function.get("config") or function)["FunctionName"]]

            def start(self) -> None:
                with activity._lock:
                    activity._invocations += 1
                super().start()

            def run(self) -> None:
                try:
                    with self._gate:
                        super().run()
                finally:
                    with activity._lock:
                        activity._invocations -= 1

        def thread(*args: Any, **kwargs: Any) -> threading.Thread:
            kind = CountedThread if kwargs.get("target") is target else threading.Thread
            return kind(*args, **kwargs)

        _replace(service, "threading", types.SimpleNamespace(**{**vars(threading), "Thread": thread}))

    def note_sweeps(self, service: Any, function: str, name: str) -> None:
        """Have the completed sweeps of a scheduler noted."""
        sweep = getattr(service, function)

        def noted() -> None:
            began = self._now()
            sweep()
            self.swept[name] = began

        setattr(service, function, noted)

    def invocations(self, lambda_service: Any) -> int:
        """Return a number that is 0 when no function runs, and none has been started or handed a batch."""
        with self._lock:
            running = self._invocations
        batches: int = sum(list(lambda_service._esm_inflight.values()))
        return running + batches

    def executions(self) -> int:
        """Return the number of functions that run, each counted once."""
        with self._lock:
            return self._executions


def retry_failed_records(service: Any) -> None:
    """Have a batch of a table's stream come again, of which the function reports a record as failed.

    The emulator takes it for done. AWS goes on at the first record that failed; here the whole batch comes
    again, which a consumer has to bear anyway.
    """
    execute = service._execute_function

    def executed(function: Any, event: Any, *args: Any, **kwargs: Any) -> Any:
        result = execute(function, event, *args, **kwargs)
        records = event.get("Records") if isinstance(event, dict) else None
        body = result.get("body")
        if not records or records[0].get("eventSource") != "aws:dynamodb" or not isinstance(body, dict):
            return result
        failed = body.get("batchItemFailures")
        return {**result, "error": True, "function_error": "Handled"} if failed else result

    _replace(service, "_execute_function", executed)


def waiting_records(lambda_service: Any, table_service: Any, now: float) -> int:
    """Return the number of records of tables' streams that an event source mapping would take now."""
    waiting = 0
    for account, region, mapping in lambda_service._iter_all_esms():
        table, stream, _ = mapping["EventSourceArn"].partition("/stream/")
        if not stream or not mapping.get("Enabled", True):
            continue
        scope = {"account_id": account, "region": region}
        if lambda_service._esm_backoff_until.get_scoped(account, region, mapping["UUID"], 0) > now:
            continue
        name = table.rpartition("/")[2]
        begin = table_service.stream_start_position(name, **scope)
        done = lambda_service._dynamodb_stream_positions.get_scoped(account, region, mapping["UUID"], begin)
        waiting += max(0, table_service.stream_end_position(name, **scope) - max(begin, done))
    return waiting


def waiting_messages(lambda_service: Any, queue_service: Any, now: float) -> int:
    """Return the number of messages that an event source mapping would take now."""
    sources = {
        mapping["EventSourceArn"]
        for _, _, mapping in lambda_service._iter_all_esms()
        if mapping.get("Enabled", True)
    }
    return sum(
        1
        for queue in list(queue_service._queues._data.values())
        if queue["attributes"].get("QueueArn") in sources
        for message in list(queue["messages"])
        if message.get("visible_at", 0) <= now
    )


_PARTIQL_OPERATIONS: Final = frozenset(
    {"dynamodb:BatchExecuteStatement", "dynamodb:ExecuteStatement", "dynamodb:ExecuteTransaction"}
)
_PARTIQL_ACTIONS: Final = {
    "DELETE": "dynamodb:PartiQLDelete",
    "INSERT": "dynamodb:PartiQLInsert",
    "SELECT": "dynamodb:PartiQLSelect",
    "UPDATE": "dynamodb:PartiQLUpdate",
}
#: The verb, the table and, of a SELECT, the index; names may be quoted.
_PARTIQL: Final = re.compile(
    r"""\s*(?P<verb>UPDATE|INSERT\s+INTO|DELETE\s+FROM|SELECT\s.*?\sFROM)\s+
        "?(?P<table>[\w.-]+?)"?(?:\."(?P<index>[\w.-]+)")?(?:\s|$)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def partiql_checks(action: str, body: bytes, table_arn: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the (action, resource) that AWS checks for each PartiQL statement of a request.

    Empty for requests without statements. A statement that cannot be read is checked as the operation
    itself, which is no IAM action, so no policy allows it.
    """
    if action not in _PARTIQL_OPERATIONS:
        return []
    request = json.loads(body or b"{}")
    entries = request.get("Statements") or request.get("TransactStatements") or [request]
    checks = []
    for entry in entries:
        found = _PARTIQL.match(str(entry.get("Statement", "")))
        if found is None:
            checks.append((action, "*"))
            continue
        index = f"/index/{found['index']}" if found["index"] else ""
        checks.append((_PARTIQL_ACTIONS[found["verb"].split()[0].upper()], table_arn(found["table"]) + index))
    return checks


_WITH_CONDITION_KEYS: Final = frozenset({"events:PutEvents", "ses:SendEmail"})


def condition_checks(
    action: str, body: bytes, resource: str, ses: str, is_identity: Callable[[str], bool]
) -> list[tuple[str, dict[str, str]]]:
    """Return the resources on which AWS checks a request, each with its condition keys.

    ``ses`` is the beginning of the ARNs of SES. Of PutEvents, ``resource`` is the bus, and every source among
    the entries is checked on it.
    """
    request = json.loads(body or b"{}")
    if action == "events:PutEvents":
        sources = sorted({str(entry.get("Source", "")) for entry in request.get("Entries", [])})
        return [(resource, {"events:source": source}) for source in sources]
    sender = str(request.get("FromEmailAddress", ""))
    # The address itself where it is an identity, else its domain.
    identity = sender if is_identity(sender) else sender.rpartition("@")[2]
    named = [f"{ses}:identity/{identity}"]
    if "ConfigurationSetName" in request:
        named.append(f"{ses}:configuration-set/{request['ConfigurationSetName']}")
    return [(each, {"ses:FromAddress": sender}) for each in named]


ConditionKeys = tuple[tuple[str, str], ...]
#: Those that this project's policies ask for and that the emulator does not know.
_CONDITION_KEYS: Final = frozenset({"events:source", "ses:FromAddress"})


class Access:
    """What callers with a policy of their own asked for, and whether it was denied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str, str | None, ConditionKeys]] = Counter()

    def note(
        self, principal: str, action: str, resource: str, refusal: str | None, keys: ConditionKeys = ()
    ) -> None:
        """Count one check; ``refusal`` is the reason of a denial, ``keys`` the request's condition keys."""
        with self._lock:
            self._counts[principal, action, resource, refusal, keys] += 1

    def entries(self) -> list[dict[str, Any]]:
        """Return every different check with its count, sorted."""
        with self._lock:
            counts = sorted(self._counts.items(), key=lambda entry: [str(part) for part in entry[0]])
        names = ("principal", "action", "resource", "refusal", "keys")
        return [{**dict(zip(names, key, strict=True)), "count": count} for key, count in counts]

    def follow(self, evaluator: Any) -> None:
        """Have every check of an identity's policies noted, and every refusal of a resource's policy."""
        enforce, allows = evaluator.enforce, evaluator.resource_policy_allows

        def enforced(access_key: str, action: str, service: str, region: str, **more: Any) -> Any:
            denied = enforce(access_key, action, service, region, **more)
            caller = evaluator.caller_arn()
            if denied is not None or not caller.endswith(":root"):
                # An evaluated denial has a decision, a refused credential a code.
                refusal = getattr(denied, "decision", None) or getattr(denied, "code", None)
                given = more.get("service_context") or {}
                keys = tuple((name, given[name]) for name in sorted(_CONDITION_KEYS & given.keys()))
                self.note(caller, action, more.get("resource_arn", "*"), refusal, keys)
            return denied

        def allowed(policy: Any, context: Any, same_account: bool) -> bool:
            answer: bool = allows(policy, context, same_account)
            if not answer:
                self.note(context.principal_arn, context.action, context.resource_arn, "ResourcePolicy")
            return answer

        _replace(evaluator, "enforce", enforced)
        _replace(evaluator, "resource_policy_allows", allowed)


def authorize_like_aws(gateway: Any, actions: Any, evaluator: Any) -> None:
    """Replace those of the emulator's authorization rules that AWS does not have."""
    pin, action_of, checks_of = (
        gateway.pin_request_origin,
        actions.extract_iam_action,
        actions.dynamodb_transaction_checks,
    )

    def pinned(address: str, secure: bool) -> None:
        # What never leaves the machine needs no TLS; the emulator does not speak it.
        pin(address, secure or ipaddress.ip_address(address).is_loopback)

    def action(*args: Any) -> str | None:
        name: str | None = action_of(*args)
        service, _method, _path, headers, body, query = args
        if service == "ses":
            # The emulator does so for every other service: without it, nobody knows whose call it is.
            evaluator.pin_request_caller(headers, query)
        asked.set((name, body) if name in _WITH_CONDITION_KEYS else (None, b""))
        # AWS has no action of its own for the batch form of a message operation.
        return name.removesuffix("Batch") if name is not None and name.startswith("sqs:") else name

    # What the request that is being authorized holds, for the checks that follow.
    asked: contextvars.ContextVar[tuple[str | None, bytes]] = contextvars.ContextVar(
        "asked", default=(None, b"")
    )
    enforce = evaluator.enforce

    def enforced(access_key: str, name: str, service: str, region: str, **more: Any) -> Any:
        sent, body = asked.get()
        if name != sent:
            return enforce(access_key, name, service, region, **more)
        default = str(more.get("resource_arn", "*"))
        account_id = importlib.import_module("ministack.core.responses").get_account_id()
        prefix = f"arn:aws:ses:{region}:{account_id}"
        denied = None
        for resource, keys in condition_checks(name, body, default, prefix, is_identity):
            context = {**(more.get("service_context") or {}), **keys}
            call = {**more, "resource_arn": resource, "service_context": context}
            denied = denied or enforce(access_key, name, service, region, **call)
        return denied

    def is_identity(name: str) -> bool:
        return name in importlib.import_module("ministack.services.ses")._identities

    def checks(name: str, body: bytes, region: str, account_id: str) -> list[tuple[str, str]]:
        statements = partiql_checks(
            name, body, lambda table: str(actions._dynamodb_table_arn(table, region, account_id))
        )
        found: list[tuple[str, str]] = statements or checks_of(name, body, region, account_id)
        return found

    # For what the emulator does in threads of its own, outside any request.
    origin = contextvars.ContextVar("request_origin", default=("127.0.0.1", True))
    _replace(evaluator, "_request_origin", origin)
    _replace(gateway, "pin_request_origin", pinned)
    _replace(actions, "extract_iam_action", action)
    _replace(evaluator, "enforce", enforced)
    _replace(actions, "dynamodb_transaction_checks", checks)
    actions._dynamodb_table_arn  # noqa: B018 - a release that renames it fails the start, not a request


def keep_whole_mails(service: Any) -> None:
    """Have the outbox keep headers, tags and configuration set of each mail, which the emulator forgets."""
    handle = service.handle_request

    async def handled(method: str, path: str, headers: Any, body: bytes, query: Any) -> Any:
        outbox = service._sent_emails_list()
        known = len(outbox)
        answer = await handle(method, path, headers, body, query)
        if len(outbox) > known and path.endswith("/outbound-emails"):
            request = json.loads(body)
            content = request.get("Content", {}).get("Simple", {})
            outbox[-1] |= {
                "ConfigurationSetName": request.get("ConfigurationSetName"),
                "EmailTags": {tag["Name"]: tag["Value"] for tag in request.get("EmailTags", [])},
                "Headers": {header["Name"]: header["Value"] for header in content.get("Headers", [])},
            }
        return answer

    _replace(service, "handle_request", handled)


def sent_mails(service: Any) -> list[dict[str, Any]]:
    """Return what SES has taken in all Regions, in the order of its time."""
    boxes = [box for _, box in service._sent_emails.all_items()]
    return sorted((mail for box in boxes for mail in list(box)), key=lambda mail: float(mail["Timestamp"]))


def never_close_idle_connections(config: Any) -> None:
    """Have the web server's configuration wait a day for the next request, whatever is set later."""
    _replace(config, "keep_alive_timeout", property(lambda _: _IDLE_SECONDS, lambda *_: None))


class AnsweredOnce:
    """The gateway, for a client that repeats what was not answered: carried out once, answered every time.

    The attempts of one call carry the same id (``amz-sdk-invocation-id``). Only successes are repeated: a
    client that has read a refusal and tries again wants another answer.
    """

    def __init__(self, gateway: Application, client: bytes) -> None:
        """Repeat answers for clients whose ``User-Agent`` contains ``client``."""
        self._gateway = gateway
        self._client = client
        self._answers: OrderedDict[bytes, asyncio.Future[list[MutableMapping[str, Any]]]] = OrderedDict()
        #: How often an answer was repeated.
        self.repeated = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        headers = dict(scope.get("headers", ()))
        call = headers.get(b"amz-sdk-invocation-id")
        if call is None or self._client not in headers.get(b"user-agent", b""):
            await self._gateway(scope, receive, send)
            return
        known = self._answers.get(call)
        if known is not None and (answer := await asyncio.shield(known)):
            self.repeated += 1
            for message in answer:
                await send(message)
            return
        await self._first(call, scope, receive, send)

    async def _first(self, call: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        future: asyncio.Future[list[MutableMapping[str, Any]]] = asyncio.get_running_loop().create_future()
        self._answers[call] = future
        if len(self._answers) > _KEPT_ANSWERS:
            self._answers.popitem(last=False)
        answer: list[MutableMapping[str, Any]] = []

        async def kept(message: MutableMapping[str, Any]) -> None:
            answer.append(message)
            await send(message)

        try:
            await self._gateway(scope, receive, kept)
        finally:
            succeeded = bool(answer) and answer[0].get("status", 500) < _FIRST_REFUSAL
            whole = bool(answer) and not answer[-1].get("more_body", False)
            future.set_result(answer if succeeded and whole else [])


class ControlPlane:
    """The gateway, with the sandbox's own paths in front."""

    def __init__(
        self,
        gateway: Application,
        clock: Any,
        activity: Activity,
        *,
        invocations: Callable[[], int],
        executions: Callable[[], int],
        messages: Callable[[float], int],
        wake: Callable[[], None],
        access: Callable[[], list[dict[str, Any]]],
        mails: Callable[[], list[dict[str, Any]]],
    ) -> None:
        self._gateway = AnsweredOnce(gateway, b"Terraform")
        self._clock = clock
        self._activity = activity
        self._invocations = invocations
        self._executions = executions
        self._messages = messages
        self._wake = wake
        self._told = {ACCESS_PATH: access, MAILS_PATH: mails}
        self._moving = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] != "http" or scope["path"] not in (PATH, *self._told):
            await self._gateway(scope, receive, send)
            return
        if scope["path"] in self._told:
            await _answer(send, 200, self._told[scope["path"]]())
            return
        try:
            if scope["method"] == "POST":
                await self._move(json.loads(await _body(receive) or b"{}"))
            status, answer = 200, self._state()
        except (TypeError, ValueError) as error:
            status, answer = 400, {"error": str(error)}
        except TimeoutError:
            status, answer = 504, {"error": "the emulator did not come to rest", **self._state()}
        await _answer(send, status, answer)

    def _state(self) -> dict[str, Any]:
        now = self._clock.now()
        return {
            "now": now,
            "speed": self._clock.state().speed,
            "invocations": self._invocations(),
            "messages": self._messages(now),
            "swept": dict(self._activity.swept),
            "runs": dict(self._activity.runs),
            "failures": dict(self._activity.failures),
            "repeated_answers": self._gateway.repeated,
        }

    async def _move(self, request: Any) -> None:
        if not isinstance(request, dict) or not request.keys() <= {
            "advance_seconds",
            "settle",
            "settle_seconds",
            "speed",
            "step_seconds",
        }:
            raise ValueError("a clock takes speed, advance_seconds, step_seconds, settle and settle_seconds")
        if "speed" in request:
            self._clock.set_speed(float(request["speed"]))
        left = float(request.get("advance_seconds", 0.0))
        step = float(request.get("step_seconds", STEP_SECONDS))
        limit = float(request.get("settle_seconds", SETTLE_SECONDS))
        settle = bool(request.get("settle", "advance_seconds" in request))
        if not (0 <= left < float("inf") and step > 0):
            raise ValueError("time is advanced forwards, in steps")
        async with self._moving:
            while left > 0:
                instant = self._clock.advance(min(step, left))
                left -= step
                self._wake()
                async with asyncio.timeout(limit):
                    await self._swept(instant)
                    if settle:
                        await self._quiet()
            if settle and "advance_seconds" not in request:
                async with asyncio.timeout(limit):
                    await self._quiet()

    async def _swept(self, instant: float) -> None:
        """Wait until what was due at ``instant`` has begun."""
        while min(self._activity.swept.values()) < instant:
            await asyncio.sleep(_LOOK_SECONDS)

    async def _quiet(self) -> None:
        """Wait until nothing runs and nothing waits to run; where all that runs sleeps, its sleep is over."""
        quiet = asleep = 0
        while quiet < _QUIET_LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            waiting = self._messages(self._clock.now())
            quiet = quiet + 1 if self._invocations() == waiting == 0 else 0
            running = self._executions()
            wakes = self._clock.asleep() if running and not waiting else []
            asleep = asleep + 1 if wakes and len(wakes) == running else 0
            if asleep == _QUIET_LOOKS:
                asleep = 0
                self._clock.advance(max(0.0, min(wakes) - self._clock.now()))
                self._wake()


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _answer(send: Send, status: int, content: object) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Serve until SIGTERM."""
    clock = importlib.import_module("sitecustomize").installed_clock
    if clock is None:
        raise SystemExit("the launcher needs the simulated clock: set PYTHONPATH and the clock file")
    # The emulator and its workers form a process group of their own, which can be ended as one.
    os.setsid()

    gateway: Any = importlib.import_module("ministack.app")
    lambda_runtime: Any = importlib.import_module("ministack.core.lambda_runtime")
    signatures, actions, evaluator = (
        importlib.import_module(f"ministack.core.{name}")
        for name in ("sigv4", "iam_actions", "iam_evaluator")
    )
    rules, schedules, lambdas, queues, tables, mails, outbox = (
        importlib.import_module(f"ministack.services.{name}")
        for name in ("eventbridge", "scheduler", "lambda_svc", "sqs", "dynamodb", "ses_v2", "ses")
    )

    # How long a worker's output is waited for and how long it may be idle is the machine's business.
    _replace(lambda_runtime, "time", _machine_time(lambda_runtime.time))
    archives = types.SimpleNamespace(**vars(zipfile))
    archives.ZipFile = shared_extraction(Path(tempfile.mkdtemp(prefix="packages-")))
    _replace(lambda_runtime, "zipfile", archives)
    _replace(signatures, "request_time_failure", lambda *_args, **_kwargs: None)
    _replace(rules, "_SCHEDULER_TICK_INTERVAL", SWEEP_SECONDS)
    _replace(schedules, "_SCHEDULE_TICK_INTERVAL", SWEEP_SECONDS)

    access = Access()
    access.follow(evaluator)
    authorize_like_aws(gateway, actions, evaluator)
    activity = Activity(clock.now)
    activity.count_invocations(lambdas)
    retry_failed_records(lambdas)
    keep_whole_mails(mails)
    activity.count_dispatches(rules, lambdas)
    never_close_idle_connections(importlib.import_module("hypercorn.config").Config)
    activity.note_sweeps(rules, "_tick_scheduled_rules", "rules")
    activity.note_sweeps(schedules, "_tick_schedules", "schedules")
    control = ControlPlane(
        gateway.app,
        clock,
        activity,
        invocations=lambda: activity.invocations(lambdas),
        executions=activity.executions,
        messages=lambda now: waiting_messages(lambdas, queues, now) + waiting_records(lambdas, tables, now),
        wake=lambdas._esm_wake.set,
        access=access.entries,
        mails=lambda: sent_mails(outbox),
    )
    _replace(gateway, "app", control)
    sys.argv = ["ministack"]
    try:
        gateway.main()
    finally:
        lambda_runtime.reset()


def shared_extraction(cache: Path) -> type[zipfile.ZipFile]:
    """Return a ZipFile that extracts each content once, below ``cache``, and links to it from then on."""
    extracting = threading.Lock()

    class SharedZipFile(zipfile.ZipFile):
        def namelist(self) -> list[str]:
            """Return nothing: before it extracts, the emulator looks where each name of hundreds would lead.

            ``extractall`` leads every name below its directory.
            """
            return []

        def extractall(self, path: Any = None, members: Any = None, pwd: Any = None) -> None:
            """Have the whole content appear at ``path``, an empty directory."""
            with Path(str(self.filename)).open("rb") as file:
                shared = cache / hashlib.file_digest(file, "sha256").hexdigest()
            with extracting:
                if not shared.exists():
                    partial = cache / "partial"
                    super().extractall(partial, members or self.infolist(), pwd)
                    partial.rename(shared)
            Path(path).rmdir()
            Path(path).symlink_to(shared, target_is_directory=True)

    return SharedZipFile


def _replace(module: types.ModuleType, name: str, value: object) -> None:
    """Replace what is there; a name that a release has dropped is an error, not a new attribute."""
    getattr(module, name)
    setattr(module, name, value)


def _machine_time(simulated: types.ModuleType) -> types.SimpleNamespace:
    """Return what a module takes for ``time``, on monotonic time: only differences are ever used."""
    shifted = importlib.import_module("sitecustomize")
    return types.SimpleNamespace(
        time=simulated.monotonic, monotonic=simulated.monotonic, sleep=shifted._machine_sleep
    )


if __name__ == "__main__":
    main()
