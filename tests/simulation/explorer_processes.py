"""Real handlers as processes that stop at every shared AWS call and can be resumed from any state.

A process is its function and the answers that it had. To go on, the function runs again from its start,
is given those answers, and stops at the first call that none is left for. So one process can be resumed
in a thousand different states without threads, and the same answers always lead to the same call.

What no other process can see is answered on the spot and is no step of its own: index pages of hours in
which nothing was ever written, the subscribers table (constant here), and the submitter's lease, which is
granted to everybody because correctness must not depend on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Generic, NoReturn, TypeVar

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.exceptions import ClientError, ReadTimeoutError

from awsmp.composition_metering import Clients, MeteringRuntime, MeteringSettings
from awsmp.domain.errors import MeteringError
from awsmp.domain.ports import Metric
from awsmp.handlers import aggregator, cleanup, discoverer, expiry, submitter
from sandbox.memory_aws import MemoryDynamoDB

USAGE: Final = "awsmp-usage"
LEDGER: Final = "awsmp-aggregated-usage"
SUBSCRIBERS: Final = "awsmp-subscribers"
QUEUES: Final = ("work", "deprovision-work", "cleanup")

#: How long a Lambda of the metering tier lives; the modules keep time-outs below the sender's 300 s.
LIFETIME: Final = timedelta(seconds=280)

_LEASE_KEY: Final = "internal#submitter"
_ATTEMPT_ID: Final = re.compile(r"attempt-\d+")

T = TypeVar("T")


class Interner(Generic[T]):
    """Gives equal values one small number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._values: list[T] = []

    def number(self, value: T, text: str) -> int:
        """Return the number of ``value``, whose canonical text is ``text``."""
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self._values)
            self._values.append(value)
        return known

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)


def canonical(value: object) -> str:
    """Return one text for equal nested values."""
    return json.dumps(value, sort_keys=True, default=str)


@dataclass(frozen=True, slots=True)
class Request:
    """One AWS call that a process is about to make."""

    service: str
    operation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came back with: a response, or the name of an error.

    ``lost`` is the client's own time-out: the call may have had its effect.
    """

    response: Mapping[str, Any] | None = None
    error: str | None = None

    def give(self, request: Request) -> Any:
        """Return the response, or raise what boto3 would."""
        if self.error is None:
            return self.response
        if self.error == "lost":
            raise ReadTimeoutError(endpoint_url="https://example.invalid/")
        raise ClientError(
            {
                "Error": {"Code": self.error, "Message": "refused"},
                "ResponseMetadata": {
                    "HTTPStatusCode": 400,
                    "RequestId": "0",
                    "HostId": "",
                    "HTTPHeaders": {},
                    "RetryAttempts": 0,
                },
            },
            request.operation,
        )


class _Suspended(BaseException):
    """The process stops here: no answer is left, or it has to be given an attempt id."""


@dataclass(frozen=True, slots=True)
class Role:
    """A function under exploration; ``queue`` feeds it, or a schedule does (None)."""

    name: str
    run: Callable[[str, Any, MeteringRuntime], object]
    queue: str | None = None


def _of_queue(run: Callable[[Mapping[str, Any], Any, MeteringRuntime], dict[str, Any]]) -> Any:
    def one_message(body: str, context: Any, runtime: MeteringRuntime) -> object:
        record = {
            "messageId": "message-1",
            "receiptHandle": "receipt-1",
            "body": body,
            "attributes": {},
            "messageAttributes": {},
            "md5OfBody": "",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-west-1:111122223333:queue",
            "awsRegion": "eu-west-1",
        }
        if run({"Records": [record]}, context, runtime)["batchItemFailures"]:
            raise MeteringError("the message failed")
        return None

    return one_message


def _of_schedule(run: Callable[[Mapping[str, Any], Any, MeteringRuntime], object]) -> Any:
    return lambda argument, context, runtime: run(json.loads(argument), context, runtime)


AGGREGATOR: Final = Role("aggregator", _of_queue(aggregator.run), "work")
FLUSH_AGGREGATOR: Final = Role("flush aggregator", _of_queue(aggregator.run), "deprovision-work")
CLEANUP: Final = Role("cleanup", _of_queue(cleanup.run), "cleanup")
SUBMITTER: Final = Role("submitter", _of_schedule(submitter.run))
EXPIRY: Final = Role("expiry", _of_schedule(expiry.run))
AGE_OUT: Final = Role("age-out", _of_schedule(discoverer.run))
DISCOVERER: Final = Role("discoverer", _of_schedule(discoverer.run))
FLUSH: Final = Role("flush", _of_schedule(discoverer.run))
ROLES: Final = (
    AGGREGATOR,
    FLUSH_AGGREGATOR,
    CLEANUP,
    SUBMITTER,
    EXPIRY,
    AGE_OUT,
    DISCOVERER,
    FLUSH,
)


@dataclass(frozen=True, slots=True)
class _Segment:
    """What a process did between two calls: the answer that began it, the time, the attempt id it drew."""

    role: Role
    argument: str
    parent: Node | None
    answer: Answer | None
    now: datetime
    fresh_id: str | None


@dataclass(slots=True, eq=False)
class Node:
    """A process at one point: where it waits, or how it ended.

    ``reported`` are the reasons under which the segment that led here emitted surfaced units; ``ids`` the
    attempt ids that the process can remember.
    """

    number: int
    segment: _Segment
    request: int | None
    failure: str | None
    reported: frozenset[str]
    ids: frozenset[str]
    children: dict[tuple[int, datetime, str | None], Node | None] = field(default_factory=dict)
    role: Role = field(init=False)
    done: bool = field(init=False)

    def __post_init__(self) -> None:
        """Note which function runs, and whether it has returned or raised."""
        self.role, self.done = self.segment.role, self.request is None


class _Script:
    """Clock, telemetry, workers, clients and Lambda context of one replay."""

    aws_request_id = "one-sender"

    def __init__(self, machine: Machine, segments: list[_Segment]) -> None:
        self._machine = machine
        self._segments = segments
        self._position = -1
        self._slept = timedelta(0)
        self._results: list[tuple[object, Callable[[], object]]] = []
        self._drawn = False
        self.stopped = False
        self.wants_id = False
        self.request: Request | None = None
        self.reported: set[str] = set()
        self.told: list[str] = []
        self._next_segment()

    def _next_segment(self) -> None:
        self._position += 1
        self._drawn = False
        self.reported.clear()

    # Clock: time passes between steps only; sleeping shifts this process alone.

    def now(self) -> datetime:
        return self._segments[self._position].now + self._slept

    def sleep(self, seconds: float) -> None:
        self._slept += timedelta(seconds=seconds)

    def get_remaining_time_in_millis(self) -> int:
        return int(LIFETIME.total_seconds() * 1000)

    # Telemetry: what is emitted after the process stopped never happened.

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        if not self.stopped and metric is Metric.SURFACED_UNITS and reason is not None:
            self.reported.add(str(reason))

    def info(self, message: str, **fields: object) -> None:
        """Nothing judges by it."""

    def error(self, message: str, **fields: object) -> None:
        if not self.stopped:
            self.told.append(f"{message} {fields.get('error', '')}")

    # Workers: a call has its effect when it is started; its answer may be looked at any time later.

    def start(self, call: Callable[[], object]) -> object:
        handle = object()
        value = call()
        self._results.append((handle, lambda: value))
        return handle

    def wait(self, until: datetime | None) -> list[tuple[object, Callable[[], object]]]:
        done, self._results = self._results, []
        if not done and until is not None:
            self._slept += max(timedelta(0), until - self.now())
        return done

    def new_id(self) -> str:
        if self.stopped:
            raise _Suspended
        fresh = self._segments[self._position].fresh_id
        if fresh is None:
            self.stopped = self.wants_id = True
            raise _Suspended
        if self._drawn:
            raise AssertionError("a tiny group draws one attempt id between two calls")
        self._drawn = True
        return fresh

    # Clients.

    def call(self, service: str, operation: str, arguments: Mapping[str, Any]) -> Any:
        if self.stopped:
            raise _Suspended
        local = self._machine.local_answer(service, operation, arguments)
        if local is not None:
            return local
        request = Request(service, operation, arguments)
        if self._position + 1 == len(self._segments):
            self.stopped, self.request = True, request
            raise _Suspended
        self._next_segment()
        answer = self._segments[self._position].answer
        assert answer is not None
        return answer.give(request)


class _Client:
    """A boto3 client whose every call goes to the script."""

    def __init__(self, script: _Script, service: str) -> None:
        self._script, self._service = script, service

    def __getattr__(self, method: str) -> Callable[..., Any]:
        operation = "".join(word.capitalize() for word in method.split("_"))
        return lambda **arguments: self._script.call(self._service, operation, arguments)


class Machine:
    """Every process that was ever seen, by its role and the answers it had."""

    def __init__(
        self, settings: MeteringSettings, *, shared_buckets: Iterable[str], subscribers: MemoryDynamoDB
    ) -> None:
        """``shared_buckets`` are the hours in which anything may be written."""
        self._settings = settings
        self._shared = frozenset(shared_buckets)
        self._subscribers = subscribers.client()
        self._nodes: list[Node] = []
        self._roots: dict[tuple[str, str, datetime], Node] = {}
        self.requests: Interner[Request] = Interner()
        self.answers: Interner[Answer] = Interner()
        self.replays = 0

    def __getitem__(self, number: int) -> Node:
        return self._nodes[number]

    def start(self, role: Role, argument: str, now: datetime) -> Node:
        """Return the process of ``role`` at its first call."""
        key = (role.name, argument, now)
        if key not in self._roots:
            node = self._run(_Segment(role, argument, None, None, now, None))
            if node is None:
                raise AssertionError("no function draws an attempt id before its first call")
            self._roots[key] = node
        return self._roots[key]

    def resume(self, node: Node, answer: int, now: datetime, fresh_id: Callable[[], str]) -> Node:
        """Return the process after it was given ``answer``; ``fresh_id`` is asked only when it draws one."""
        after = self.resume_without_id(node, answer, now)
        if after is None:
            after = self._child(node, answer, now, fresh_id())
        assert after is not None
        return after

    def resume_without_id(self, node: Node, answer: int, now: datetime) -> Node | None:
        """Return the process after it was given ``answer``; None when it draws an attempt id on its way."""
        return self._child(node, answer, now, None)

    def _child(self, node: Node, answer: int, now: datetime, fresh_id: str | None) -> Node | None:
        key = (answer, now, fresh_id)
        if key not in node.children:
            segment = _Segment(node.role, node.segment.argument, node, self.answers[answer], now, fresh_id)
            node.children[key] = self._run(segment)
        return node.children[key]

    def _run(self, segment: _Segment) -> Node | None:
        """Run the function up to the first call without an answer; None when it wants an id first."""
        segments, parent = [segment], segment.parent
        while parent is not None:
            segments.append(parent.segment)
            parent = parent.segment.parent
        script = _Script(self, segments[::-1])
        self.replays += 1
        request: int | None = None
        failure: str | None = None
        try:
            segment.role.run(segment.argument, script, self._runtime(script))
        except BaseException as error:
            # Whatever a stopped process raises while it unwinds never happened.
            if script.wants_id:
                return None
            if script.request is not None:
                request = self._numbered(script.request)
            elif isinstance(error, MeteringError | BatchProcessingError):
                failure = f"{type(error).__name__}: {error}"
                _refuse_defects(script.told)
            else:
                raise
        node = Node(
            number=len(self._nodes),
            segment=segment,
            request=request,
            failure=failure,
            reported=frozenset(script.reported),
            ids=self._ids(segment),
        )
        self._nodes.append(node)
        return node

    def _numbered(self, request: Request) -> int:
        return self.requests.number(
            request, canonical([request.service, request.operation, request.arguments])
        )

    @staticmethod
    def _ids(segment: _Segment) -> frozenset[str]:
        known = segment.parent.ids if segment.parent is not None else frozenset[str]()
        read = _ATTEMPT_ID.findall(canonical(segment.answer.response)) if segment.answer is not None else ()
        drawn = {segment.fresh_id} if segment.fresh_id is not None else set[str]()
        return known | set(read) | drawn

    def _runtime(self, script: _Script) -> MeteringRuntime:
        return MeteringRuntime(
            settings=self._settings,
            clients=Clients(
                dynamodb=_Client(script, "dynamodb"),
                subscribers=_Client(script, "subscribers"),
                sqs=_Client(script, "sqs"),
                marketplace=_Client(script, "meteringmarketplace"),
            ),
            clock=script,
            telemetry=script,
            workers=script,
            new_id=script.new_id,
            jitter=lambda: 0.0,
        )

    def local_answer(self, service: str, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Answer what no other process can see; None for every call that is a step."""
        if service == "subscribers":
            method = {"Query": "query", "GetItem": "get_item", "BatchGetItem": "batch_get_item"}[operation]
            return getattr(self._subscribers, method)(**arguments)
        if operation == "Query" and "IndexName" in arguments:
            bucket = arguments["ExpressionAttributeValues"][":mp"]["S"]
            return None if bucket in self._shared else {"Items": [], "Count": 0, "ScannedCount": 0}
        if operation == "UpdateItem" and arguments["Key"]["licenseArn"]["S"] == _LEASE_KEY:
            return {}
        return None


def _refuse_defects(told: Iterable[str]) -> None:
    """A handler may fail a message only with an error of ours: anything else is a defect of the code."""
    for line in told:
        if "a message failed" in line and not line.endswith(("ConditionFailed", "StoreUnavailable")):
            _defect(line)


def _defect(line: str) -> NoReturn:
    raise AssertionError(f"a handler met an error that is none of the expected ones: {line}")
