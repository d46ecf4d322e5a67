"""A whole deployment in one process: tables, queues, schedules, functions and the Marketplace.

One or several Regions share the subscribers table. Time moves only here. A schedule tick runs the function
at once; what it enqueues is worked off before the clock moves on, unless a fault keeps it back.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from awsmp.composition_events import Runtime as EventsRuntime
from awsmp.composition_events import Settings as EventsSettings
from awsmp.composition_metering import Clients, MeteringRuntime, MeteringSettings
from awsmp.domain.errors import MeteringError
from awsmp.domain.hours import HOUR, BillingWindow, floor_hour, parse_bucket
from awsmp.domain.ports import Metric
from awsmp.domain.quantities import QuantityType
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
from sandbox.memory_aws.sqs import EventSource, MemorySQS, Message
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
    """Crashes one function at one AWS call, loses that call's answer, or does something at that moment.

    ``matches`` sees (function, service, operation, request); the trap springs once. ``after`` lets the call
    have its effect first. With ``action`` nothing is raised: another function runs or a row is written while
    the first one waits, and then the first one goes on.
    """

    matches: Callable[[str, str, str, Mapping[str, Any]], bool]
    after: bool
    error: Callable[[], BaseException] = Crash
    sprung: bool = False
    action: Callable[[], None] | None = None


class AwsCall(NamedTuple):
    """One AWS call that a function makes, as a fault plan sees it: once before its effect and once after."""

    region: str
    function: str
    service: str
    operation: str
    request: Mapping[str, Any]
    after: bool


class SdkRetry(Exception):
    """Raised by a fault plan after a call's effect: the SDK lost the answer and sends the call again.

    The function sees only the second answer: a conditional write that took effect looks refused.
    """


@dataclass(slots=True)
class _Invocation:
    region: str
    function: str
    dead: bool = False


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


@dataclass(slots=True, eq=False)
class Region:
    """The metering tier of one Region. ``down`` stops its functions and its schedules."""

    name: str
    dynamodb: MemoryDynamoDB
    sqs: MemorySQS
    urls: dict[str, str]
    writer: Any
    metering: MeteringRuntime
    down: bool = False


@dataclass(slots=True)
class World:
    """A deployment, its Marketplace and its clock. Every run with the same seed and input is the same.

    ``skip_idle`` leaves out schedule ticks whose function would find every index that it reads empty.
    """

    start: datetime
    seed: int = 0
    window: BillingWindow = field(default_factory=BillingWindow)
    marketplace_settings: Settings | None = None
    api_latency: float = 0.15
    region_names: tuple[str, ...] = ("eu-west-1",)
    skip_idle: bool = False
    quantity_type: QuantityType = QuantityType.INTEGER
    clock: VirtualClock = field(init=False)
    marketplace: FakeMarketplace = field(init=False)
    recorder: Recorder = field(init=False)
    traps: list[Trap] = field(init=False)
    fault_plan: Callable[[AwsCall], None] | None = field(init=False, default=None)
    entry_faults: Callable[[str, int], str | None] | None = field(init=False, default=None)
    crashes: int = field(init=False, default=0)
    failures: Counter[str] = field(init=False)
    paused: set[str] = field(init=False)
    invocations: int = field(init=False, default=0)
    us_east_1: MemoryDynamoDB = field(init=False)
    events_sqs: MemorySQS = field(init=False)
    events: EventsRuntime = field(init=False)
    regions: dict[str, Region] = field(init=False)
    subscriptions: dict[str, Subscription] = field(init=False, default_factory=dict)
    _events_url: str = field(init=False)
    _ids: random.Random = field(init=False)
    _stack: list[_Invocation] = field(init=False, default_factory=list)
    _due: list[tuple[datetime, int, Schedule, str]] = field(init=False)
    _inboxes: list[Mapping[str, Message]] = field(init=False)
    _event_sources: dict[str, EventSource] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Create tables, queues and functions."""
        self.clock = VirtualClock(self.start)
        self.marketplace = FakeMarketplace(self.clock, self.marketplace_settings)
        self.recorder, self.traps, self.failures, self.paused = Recorder(), [], Counter(), set()
        self._ids = random.Random(self.seed)
        self.us_east_1 = MemoryDynamoDB(self.clock, seed=self.seed)
        self.events_sqs = MemorySQS(self.clock, seed=self.seed)
        admin = self.us_east_1.client()
        admin.create_table(**tables.subscribers_table(SUBSCRIBERS))
        admin.create_table(**tables.parked_events_table(PARKED))
        self._events_url = _queue(self.events_sqs, "events")
        self.events = self._events()
        self.regions = {name: self._region(name, number) for number, name in enumerate(self.region_names)}
        self._inboxes = [self.events_sqs.queues["events"].messages]
        self._inboxes += [
            region.sqs.queues[queue].messages for region in self.regions.values() for queue in region.urls
        ]
        planned = [(schedule, name) for name in self.region_names for schedule in schedules()]
        self._due = [
            (self.start + schedule.every, order, schedule, name)
            for order, (schedule, name) in enumerate(planned)
            if schedule.function not in _EVENTS_TIER or name == self.region_names[0]
        ]
        heapq.heapify(self._due)

    def _region(self, name: str, number: int) -> Region:
        dynamodb = MemoryDynamoDB(self.clock, seed=self.seed + number)
        sqs = MemorySQS(self.clock, seed=self.seed + number, region=name)
        writer = dynamodb.client()
        writer.create_table(**tables.usage_table(USAGE))
        writer.create_table(**tables.aggregated_usage_table(LEDGER))
        urls = {queue: _queue(sqs, queue) for queue in ("work", "deprovision-work", "cleanup")}
        return Region(name, dynamodb, sqs, urls, writer, self._metering(name, dynamodb, sqs, urls))

    # --- the first Region, which most worlds have alone -----------------------------------------------

    @property
    def home(self) -> Region:
        """The first Region."""
        return self.regions[self.region_names[0]]

    @property
    def dynamodb(self) -> MemoryDynamoDB:
        """The first Region's tables."""
        return self.home.dynamodb

    @property
    def sqs(self) -> MemorySQS:
        """The first Region's queues."""
        return self.home.sqs

    @property
    def writer(self) -> Any:
        """The seller's DynamoDB client in the first Region: no fault ever strikes it."""
        return self.home.writer

    @property
    def metering(self) -> MeteringRuntime:
        """What the first Region's metering functions run on."""
        return self.home.metering

    # --- clients and faults --------------------------------------------------------------------------

    def _wired(self, service: str, client: Any) -> Any:
        return _WiredClient(self, service, client)

    def _entry_fault(self, operation: str, position: int) -> str | None:
        return None if self.entry_faults is None else self.entry_faults(operation, position)

    def call(self, service: str, operation: str, request: Mapping[str, Any], run: Callable[..., Any]) -> Any:
        """Make one AWS call for the function that is running, with whatever is planned for it.

        A fault plan is not asked about a function that its ``concerns`` says no fault is planned for; a plan
        without that method is asked about every call.
        """
        invocation = self._stack[-1]
        if invocation.dead:
            raise Crash
        if not self.traps and not self._may_strike(invocation.function):
            # No AWS call plans a fault, so nothing strikes after it either.
            return run(**request)
        self._spring(invocation, service, operation, request, after=False)
        try:
            answer = run(**request)
        except Exception:
            # An error is an answer too: the function may crash before it learns of it.
            with suppress(SdkRetry):
                self._spring(invocation, service, operation, request, after=True)
            raise
        try:
            self._spring(invocation, service, operation, request, after=True)
        except SdkRetry:
            answer = run(**request)
        return answer

    def _may_strike(self, function: str) -> bool:
        plan = self.fault_plan
        if plan is None:
            return False
        concerns: Callable[[str], bool] | None = getattr(plan, "concerns", None)
        return concerns is None or concerns(function)

    def _spring(
        self,
        invocation: _Invocation,
        service: str,
        operation: str,
        request: Mapping[str, Any],
        *,
        after: bool,
    ) -> None:
        try:
            for trap in self.traps:
                if trap.sprung or trap.after is not after:
                    continue
                if trap.matches(invocation.function, service, operation, request):
                    trap.sprung = True
                    if trap.action is None:
                        raise trap.error()
                    trap.action()
            if self.fault_plan is not None:
                self.fault_plan(
                    AwsCall(invocation.region, invocation.function, service, operation, request, after)
                )
        except Crash:
            invocation.dead = True
            raise

    def _metering(
        self, region: str, dynamodb: MemoryDynamoDB, sqs: MemorySQS, urls: Mapping[str, str]
    ) -> MeteringRuntime:
        return MeteringRuntime(
            settings=MeteringSettings(
                product_code=PRODUCT_CODE,
                usage_table=USAGE,
                aggregated_usage_table=LEDGER,
                subscribers_table=SUBSCRIBERS,
                work_queue_url=urls["work"],
                deprovision_work_queue_url=urls["deprovision-work"],
                cleanup_queue_url=urls["cleanup"],
                window=self.window,
                sender_timeout=timedelta(seconds=300),
                quantity_type=self.quantity_type,
            ),
            clients=Clients(
                dynamodb=self._wired("dynamodb", dynamodb.client(entry_fault=self._entry_fault)),
                subscribers=self._wired("dynamodb", self.us_east_1.client(entry_fault=self._entry_fault)),
                sqs=self._wired("sqs", sqs.client(entry_fault=self._entry_fault)),
                marketplace=self._wired(
                    "marketplace", InProcessMarketplaceClient(self.marketplace, region=region)
                ),
            ),
            clock=self.clock,
            telemetry=self.recorder,
            workers=VirtualWorkers(self.clock, latency=self.api_latency),
            new_id=lambda: f"{self._ids.getrandbits(128):032x}",
            jitter=self._ids.random,
        )

    def _events(self) -> EventsRuntime:
        def no_events(_region: str) -> Any:
            raise AssertionError("no event bus is forwarded to")

        return EventsRuntime(
            settings=EventsSettings(SUBSCRIBERS, PARKED),
            clock=self.clock,
            telemetry=self.recorder,
            dynamodb=self._wired("dynamodb", self.us_east_1.client(entry_fault=self._entry_fault)),
            events_client_for=no_events,
        )

    def redeploy(self) -> None:
        """Replace every function by a new version of itself: nothing but tables and queues stays."""
        self.events = self._events()
        for region in self.regions.values():
            region.metering = self._metering(region.name, region.dynamodb, region.sqs, region.urls)

    # --- functions ---------------------------------------------------------------------------------

    def invoke(self, function: str, event: Mapping[str, Any], *, region: str | None = None) -> Any:
        """Run one function; what it raises is counted, as AWS counts it, and None is returned.

        Runs may nest: a function that is started while another one waits for an answer.
        """
        name = region or self.region_names[0]
        handler, runtime = self._handler(function, name)
        self.invocations += 1
        context = Context(f"request-{self.invocations}", self.clock, self.clock.now() + FUNCTION_TIMEOUT)
        invocation = _Invocation(name, function)
        self._stack.append(invocation)
        try:
            return handler(event, context, runtime)
        except Crash:
            self._count_crash(function)
        except (MeteringError, BatchProcessingError) as error:
            if invocation.dead:
                self._count_crash(function)
            else:
                self.failures[function] += 1
                self.recorder.error("function failed", function=function, error=repr(error))
        except Exception:
            # A dead process raises nothing: what its cleanup code meets here never happens.
            if not invocation.dead:
                raise
            self._count_crash(function)
        finally:
            self._stack.pop()
        return None

    def _count_crash(self, function: str) -> None:
        self.crashes += 1
        self.failures[function] += 1

    def _handler(self, function: str, region: str) -> tuple[Handler, Any]:
        if function in _EVENTS_TIER:
            return _HANDLERS[function], self.events
        # Answers that a crashed process was waiting for are gone with it: each run has workers of its own.
        workers = VirtualWorkers(self.clock, latency=self.api_latency)
        return _HANDLERS[function], replace(self.regions[region].metering, workers=workers)

    def pump(self) -> None:
        """Let the event source mappings work off what is visible, until every queue is quiet."""
        worked = any(self._inboxes)
        while worked:
            worked = "subscription" not in self.paused and self._pump(
                self.events_sqs, self._events_url, "subscription", self.region_names[0]
            )
            for region in self.regions.values():
                for queue, function in _SOURCES:
                    if function not in self.paused and not region.down:
                        worked |= self._pump(region.sqs, region.urls[queue], function, region.name)

    def _pump(self, backend: MemorySQS, url: str, function: str, region: str) -> bool:
        messages = backend.queues[url.rsplit("/", 1)[-1]].messages
        now = self.clock.now()
        if not messages or not any(message.visible_at <= now for message in messages.values()):
            return False
        source = self._event_sources.get(url)
        if source is None:
            source = self._event_sources[url] = EventSource(backend.client(), url)
        worked = False
        while (batch := source.receive()) is not None:
            worked = True
            answer = self.invoke(function, batch.event, region=region)
            if answer is not None:
                source.settle(batch, answer)
        return worked

    # --- time --------------------------------------------------------------------------------------

    def run_until(self, end: datetime) -> None:
        """Fire every schedule that falls due before ``end``, in time order, and stop the clock at ``end``."""
        while self._due[0][0] < end:
            at, order, schedule, region = self._due[0]
            self._advance_to(at)
            if self._is_up(schedule, region):
                if not (self.skip_idle and self._is_idle(schedule, self.regions[region])):
                    self.invoke(schedule.function, schedule.event, region=region)
                self.pump()
            heapq.heapreplace(self._due, (at + schedule.every, order, schedule, region))
        self._advance_to(end)
        self.pump()

    def _is_up(self, schedule: Schedule, region: str) -> bool:
        down = self.regions[region].down and schedule.function not in _EVENTS_TIER
        return not down and schedule.function not in self.paused

    def _is_idle(self, schedule: Schedule, region: Region) -> bool:
        """Tell whether a run of ``schedule`` now would read empty indexes only."""
        mode = schedule.event.get("mode")
        if schedule.function == "deprovision_cleanup" or mode in _CLOSING_MODES:
            return not self._index(self.us_east_1, SUBSCRIBERS, "deprovisioning-pending-index")
        table = USAGE if schedule.function == "discoverer" else LEDGER
        buckets = self._index(region.dynamodb, table, "metering_pending")
        if mode == "submit":
            return not buckets and not self._index(
                self.us_east_1, SUBSCRIBERS, "deprovisioning-pending-index"
            )
        if not buckets:
            return True
        now = self.clock.now()
        hours = [hour for bucket in buckets if (hour := parse_bucket(bucket)) is not None]
        if mode == "meter":
            return floor_hour(now) - schedule.event["hourOffset"] * HOUR not in hours
        if mode == "ageout":
            return not any(self.window.ages_out(hour, now) for hour in hours)
        return not any(now >= self.window.deadline(hour) for hour in hours)

    def _index(self, backend: MemoryDynamoDB, table_name: str, index_name: str) -> Mapping[str, Any]:
        table = backend.tables[table_name]
        index = table.indexes[index_name]
        index.catch_up(table.writes, self.clock.now())
        return index.partitions

    def _advance_to(self, instant: datetime) -> None:
        self.clock.advance_to(instant)

    # --- the outside -------------------------------------------------------------------------------

    def deliver(self, envelope: Mapping[str, Any]) -> None:
        """Put a lifecycle event on the events queue, as EventBridge does."""
        self.events_sqs.client().send_message(QueueUrl=self._events_url, MessageBody=json.dumps(envelope))

    def dead_letters(self) -> Iterator[tuple[str, str]]:
        """Yield (queue, body) of everything in the dead-letter queues."""
        for body in self.events_sqs.bodies("events-dlq"):
            yield "events", body
        for region in self.regions.values():
            for queue in region.urls:
                for body in region.sqs.bodies(f"{queue}-dlq"):
                    yield queue, body

    def redrive(self) -> int:
        """Send every dead letter to its own queue again, as an operator does; return how many."""
        backends = [(self.events_sqs, "events", self._events_url)]
        for region in self.regions.values():
            backends += [(region.sqs, queue, url) for queue, url in region.urls.items()]
        moved = 0
        for backend, queue, url in backends:
            bodies = backend.bodies(f"{queue}-dlq")
            backend.queues[f"{queue}-dlq"].messages.clear()
            for body in bodies:
                backend.client().send_message(QueueUrl=url, MessageBody=body)
            moved += len(bodies)
        return moved


class _WiredClient:
    """An AWS client whose every call goes through :meth:`World.call`."""

    def __init__(self, world: World, service: str, client: Any) -> None:
        self._world = world
        self._service = service
        self._client = client
        self.exceptions = client.exceptions

    def __getattr__(self, method: str) -> Callable[..., Any]:
        operation = _operation(method)
        run = getattr(self._client, method)
        world, service = self._world, self._service

        def call(**request: Any) -> Any:
            return world.call(service, operation, request, run)

        setattr(self, method, call)
        return call


def _operation(method: str) -> str:
    return "".join(word.capitalize() for word in method.split("_"))


def _queue(backend: MemorySQS, name: str) -> str:
    client = backend.client()
    dlq = client.create_queue(QueueName=f"{name}-dlq")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dlq, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "5"})
    attributes = {"VisibilityTimeout": "360", "RedrivePolicy": redrive}
    return str(client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


_HANDLERS: Final[Mapping[str, Handler]] = {
    "discoverer": discoverer.run,
    "aggregator": aggregator.run,
    "cleanup": cleanup.run,
    "submitter": submitter.run,
    "expiry": expiry.run,
    "subscription": subscription.run,
    "deprovision_cleanup": deprovision_cleanup.run,
}
_EVENTS_TIER: Final = frozenset({"subscription", "deprovision_cleanup"})
_CLOSING_MODES: Final = frozenset({"flush-deprovisioning", "deprovisioning"})
_SOURCES: Final = (
    ("deprovision-work", "aggregator"),
    ("work", "aggregator"),
    ("cleanup", "cleanup"),
)
