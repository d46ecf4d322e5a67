"""One deployment in one process: tables, queues, schedules, functions and the Marketplace.

Time moves only here. A schedule tick runs the function at once; what it enqueues is worked off before
the clock moves on, unless a fault keeps it back.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from awsmp.composition_events import Runtime as EventsRuntime
from awsmp.composition_events import Settings as EventsSettings
from awsmp.composition_metering import Clients, MeteringRuntime, MeteringSettings
from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import BillingWindow
from awsmp.domain.ports import Metric
from awsmp.handlers import (
    aggregator,
    cleanup,
    deprovision_cleanup,
    discoverer,
    expiry,
    submitter,
    subscription,
)
from sandbox import tables
from sandbox.fake_marketplace import (
    FakeMarketplace,
    InProcessMarketplaceClient,
    Settings,
    Subscription,
)
from sandbox.memory_aws.dynamodb import MemoryDynamoDB
from sandbox.memory_aws.sqs import EventSource, MemorySQS
from sandbox.virtual_time import VirtualClock, VirtualWorkers

SUBSCRIBERS: Final = "awsmp-subscribers"
PARKED: Final = "awsmp-parked-agreement-events"
USAGE: Final = "awsmp-demo-usage"
LEDGER: Final = "awsmp-demo-aggregated-usage"
PRODUCT_CODE: Final = "demo"
FUNCTION_TIMEOUT: Final = timedelta(seconds=280)

Handler = Callable[[Mapping[str, Any], Any, Any], Any]


class Crash(BaseException):
    """The process of a function ended here: nothing of it runs any more."""


class Recorder:
    """Telemetry that keeps what was emitted."""

    def __init__(self) -> None:
        """Begin empty."""
        self.metrics: Counter[tuple[Metric, str | None]] = Counter()
        self.latest: dict[Metric, float] = {}
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        """See Telemetry."""
        self.metrics[metric, reason] += 1
        self.latest[metric] = float(value)

    def info(self, message: str, **fields: object) -> None:
        """See Telemetry."""
        self.lines.append(("info", message, fields))

    def error(self, message: str, **fields: object) -> None:
        """See Telemetry."""
        self.lines.append(("error", message, fields))


@dataclass(frozen=True, slots=True)
class Context:
    """The part of a Lambda context that the handlers read."""

    aws_request_id: str
    clock: VirtualClock
    ends_at: datetime

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the function may still run."""
        return max(0, int((self.ends_at - self.clock.now()).total_seconds() * 1000))


@dataclass(slots=True)
class Trap:
    """Crashes one function at one AWS call, or loses that call's answer.

    ``matches`` sees (function, service, operation, request); the trap springs once. ``after`` lets the call
    have its effect first.
    """

    matches: Callable[[str, str, str, Mapping[str, Any]], bool]
    after: bool
    error: Callable[[], BaseException] = Crash
    sprung: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """A rate rule's target: a function with its constant input."""

    every: timedelta
    function: str
    event: Mapping[str, Any]


def schedules() -> list[Schedule]:
    """Return every schedule target of a full deployment."""
    quarter = timedelta(minutes=15)
    return [
        Schedule(timedelta(minutes=1), "discoverer", {"mode": "flush-deprovisioning"}),
        Schedule(timedelta(minutes=1), "submitter", {"mode": "deprovisioning"}),
        *(Schedule(quarter, "discoverer", {"mode": "meter", "hourOffset": n}) for n in range(1, 24)),
        *(Schedule(quarter, "discoverer", {"mode": "ageout", "shard": n}) for n in range(7)),
        Schedule(timedelta(minutes=5), "submitter", {"mode": "submit"}),
        Schedule(timedelta(minutes=5), "expiry", {}),
        Schedule(quarter, "deprovision_cleanup", {}),
    ]


@dataclass(slots=True)
class World:
    """A deployment, its Marketplace and its clock. Every run with the same seed and input is the same."""

    start: datetime
    seed: int = 0
    window: BillingWindow = field(default_factory=BillingWindow)
    marketplace_settings: Settings | None = None
    api_latency: float = 0.15
    clock: VirtualClock = field(init=False)
    marketplace: FakeMarketplace = field(init=False)
    recorder: Recorder = field(init=False)
    traps: list[Trap] = field(init=False)
    crashes: int = field(init=False, default=0)
    failures: Counter[str] = field(init=False)
    paused: set[str] = field(init=False)
    invocations: int = field(init=False, default=0)
    dynamodb: MemoryDynamoDB = field(init=False)
    us_east_1: MemoryDynamoDB = field(init=False)
    sqs: MemorySQS = field(init=False)
    events_sqs: MemorySQS = field(init=False)
    metering: MeteringRuntime = field(init=False)
    events: EventsRuntime = field(init=False)
    writer: Any = field(init=False)
    subscriptions: dict[str, Subscription] = field(init=False, default_factory=dict)
    _urls: dict[str, str] = field(init=False)
    _function: str = field(init=False, default="")
    _dead: bool = field(init=False, default=False)
    _due: list[tuple[datetime, int, Schedule]] = field(init=False)

    def __post_init__(self) -> None:
        """Create tables, queues and functions."""
        self.clock = VirtualClock(self.start)
        self.marketplace = FakeMarketplace(self.clock, self.marketplace_settings)
        self.recorder, self.traps, self.failures, self.paused = Recorder(), [], Counter(), set()
        self.us_east_1 = MemoryDynamoDB(self.clock, seed=self.seed)
        self.dynamodb = MemoryDynamoDB(self.clock, seed=self.seed)
        self.sqs = MemorySQS(self.clock, seed=self.seed, region="eu-west-1")
        self.events_sqs = MemorySQS(self.clock, seed=self.seed)
        admin = self.us_east_1.client()
        admin.create_table(**tables.subscribers_table(SUBSCRIBERS))
        admin.create_table(**tables.parked_events_table(PARKED))
        self.writer = self.dynamodb.client()
        self.writer.create_table(**tables.usage_table(USAGE))
        self.writer.create_table(**tables.aggregated_usage_table(LEDGER))
        self._urls = {name: self._queue(self.sqs, name) for name in ("work", "deprovision-work", "cleanup")}
        self._urls["events"] = self._queue(self.events_sqs, "events")
        self.metering, self.events = self._metering(), self._events()
        self._due = [(self.start + each.every, order, each) for order, each in enumerate(schedules())]

    def _queue(self, backend: MemorySQS, name: str) -> str:
        client = backend.client()
        dlq = client.create_queue(QueueName=f"{name}-dlq")["QueueUrl"]
        arn = client.get_queue_attributes(QueueUrl=dlq, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "5"})
        attributes = {"VisibilityTimeout": "360", "RedrivePolicy": redrive}
        return str(client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def _hooks(self) -> dict[str, Any]:
        return {"before_call": self._before, "after_call": self._after}

    def _before(self, service: str, operation: str, request: Mapping[str, Any]) -> None:
        if self._dead:
            raise Crash
        self._spring(service, operation, request, after=False)

    def _after(
        self, service: str, operation: str, request: Mapping[str, Any], _answer: Mapping[str, Any]
    ) -> None:
        self._spring(service, operation, request, after=True)

    def _spring(self, service: str, operation: str, request: Mapping[str, Any], *, after: bool) -> None:
        for trap in self.traps:
            if trap.sprung or trap.after is not after:
                continue
            if trap.matches(self._function, service, operation, request):
                trap.sprung = True
                error = trap.error()
                self._dead = isinstance(error, Crash)
                raise error

    def _metering(self) -> MeteringRuntime:
        ids = random.Random(self.seed)
        return MeteringRuntime(
            settings=MeteringSettings(
                product_code=PRODUCT_CODE,
                usage_table=USAGE,
                aggregated_usage_table=LEDGER,
                subscribers_table=SUBSCRIBERS,
                work_queue_url=self._urls["work"],
                deprovision_work_queue_url=self._urls["deprovision-work"],
                cleanup_queue_url=self._urls["cleanup"],
                window=self.window,
                sender_timeout=timedelta(seconds=300),
            ),
            clients=Clients(
                dynamodb=self.dynamodb.client(**self._hooks()),
                subscribers=self.us_east_1.client(**self._hooks()),
                sqs=self.sqs.client(**self._hooks()),
                marketplace=InProcessMarketplaceClient(self.marketplace, region="eu-west-1"),
            ),
            clock=self.clock,
            telemetry=self.recorder,
            workers=VirtualWorkers(self.clock, latency=self.api_latency),
            new_id=lambda: f"{ids.getrandbits(128):032x}",
            jitter=ids.random,
        )

    def _events(self) -> EventsRuntime:
        def no_events(_region: str) -> Any:
            raise AssertionError("no event bus is forwarded to")

        return EventsRuntime(
            settings=EventsSettings(SUBSCRIBERS, PARKED),
            clock=self.clock,
            telemetry=self.recorder,
            dynamodb=self.us_east_1.client(**self._hooks()),
            events_client_for=no_events,
        )

    # --- functions ---------------------------------------------------------------------------------

    def invoke(self, function: str, event: Mapping[str, Any]) -> Any:
        """Run one function; what it raises is counted, as AWS counts it, and None is returned."""
        handler, runtime = self._handler(function)
        self.invocations += 1
        self._function, self._dead = function, False
        context = Context(f"request-{self.invocations}", self.clock, self.clock.now() + FUNCTION_TIMEOUT)
        try:
            return handler(event, context, runtime)
        except Crash:
            self.crashes += 1
            self.failures[function] += 1
        except (MeteringError, BatchProcessingError) as error:
            self.failures[function] += 1
            self.recorder.error("function failed", function=function, error=repr(error))
        finally:
            self._function, self._dead = "", False
        return None

    def _handler(self, function: str) -> tuple[Handler, Any]:
        handlers: dict[str, tuple[Handler, Any]] = {
            "discoverer": (discoverer.run, self.metering),
            "aggregator": (aggregator.run, self.metering),
            "cleanup": (cleanup.run, self.metering),
            "submitter": (submitter.run, self.metering),
            "expiry": (expiry.run, self.metering),
            "subscription": (subscription.run, self.events),
            "deprovision_cleanup": (deprovision_cleanup.run, self.events),
        }
        return handlers[function]

    def pump(self) -> None:
        """Let the event source mappings work off what is visible, until every queue is quiet."""
        worked = True
        while worked:
            worked = False
            for queue, function in _SOURCES:
                if function not in self.paused:
                    worked |= self._pump(queue, function)

    def _pump(self, queue: str, function: str) -> bool:
        backend = self.events_sqs if queue == "events" else self.sqs
        source = EventSource(backend.client(), self._urls[queue])
        worked = False
        while (batch := source.receive()) is not None:
            worked = True
            answer = self.invoke(function, batch.event)
            if answer is not None:
                source.settle(batch, answer)
        return worked

    # --- time --------------------------------------------------------------------------------------

    def run_until(self, end: datetime) -> None:
        """Fire every schedule that falls due before ``end``, in time order, and stop the clock at ``end``."""
        while True:
            self._due.sort(key=lambda due: due[:2])
            at, order, schedule = self._due[0]
            if at >= end:
                break
            self._advance_to(at)
            if schedule.function not in self.paused:
                self.invoke(schedule.function, schedule.event)
                self.pump()
            self._due[0] = (at + schedule.every, order, schedule)
        self._advance_to(end)
        self.pump()

    def _advance_to(self, instant: datetime) -> None:
        if instant > self.clock.now():
            self.clock.sleep((instant - self.clock.now()).total_seconds())

    # --- the outside -------------------------------------------------------------------------------

    def deliver(self, envelope: Mapping[str, Any]) -> None:
        """Put a lifecycle event on the events queue, as EventBridge does."""
        self.events_sqs.client().send_message(QueueUrl=self._urls["events"], MessageBody=json.dumps(envelope))

    def dead_letters(self) -> Iterator[tuple[str, str]]:
        """Yield (queue, body) of everything in the dead-letter queues."""
        for queue in self._urls:
            backend = self.events_sqs if queue == "events" else self.sqs
            for body in backend.bodies(f"{queue}-dlq"):
                yield queue, body


_SOURCES: Final = (
    ("events", "subscription"),
    ("deprovision-work", "aggregator"),
    ("work", "aggregator"),
    ("cleanup", "cleanup"),
)
