"""Bounded exploration of every interleaving of the metering functions on one tiny group.

The real handlers run, cut into steps at their AWS calls (see :mod:`.explorer_processes`). From a small
beginning every order of steps, deliveries, seller's writes, clock steps and faults is tried, up to the
bounds of a :class:`Configuration`. Two states are one when tables, queues, what the Marketplace has,
what was reported, the bounds left and every process's progress are equal; processes of one role are
interchangeable. In each state the record itself and the Marketplace are judged, and from each durable
state (everybody died here) a quiet pipeline has to settle the group.

A process that is never chosen again is a crashed one, so any number of crashes is covered as far as the
tables go; the crashes among the faults give their role, and their message, another turn.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, auto
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from awsmp.adapters.dynamodb import from_wire, to_wire
from awsmp.composition_metering import MeteringSettings
from awsmp.domain.hours import HOUR, BillingWindow, floor_hour, format_instant, format_second
from awsmp.domain.identifiers import Group, row_sort_key
from awsmp.domain.ledger import LedgerRecord, from_item
from awsmp.domain.messages import GroupWork, encode_work
from awsmp.domain.rows import ROW_SORT_KEY
from sandbox import tables
from sandbox.fake_marketplace import FakeMarketplace, InProcessMarketplaceClient, Settings
from sandbox.memory_aws import MemoryDynamoDB
from sandbox.memory_aws.tables import Key, Record
from sandbox.virtual_time import VirtualClock
from tests.simulation.explorer_processes import (
    AGE_OUT,
    AGGREGATOR,
    CLEANUP,
    DISCOVERER,
    EXPIRY,
    FLUSH,
    LEDGER,
    LIFETIME,
    QUEUES,
    ROLES,
    SUBMITTER,
    SUBSCRIBERS,
    USAGE,
    Answer,
    Interner,
    Machine,
    Node,
    Request,
    Role,
    canonical,
)

PRODUCT: Final = "prod0example0code"
BUYER: Final = "123456789012"
LICENSE: Final = "arn:aws:license-manager::111122223333:license:l-0a1b2c3d"
DIMENSION: Final = "api-calls"
HOUR_START: Final = datetime(2026, 11, 10, 8, tzinfo=UTC)
GROUP: Final = Group(LICENSE, BUYER, DIMENSION, HOUR_START)
WINDOW: Final = BillingWindow(billable_hours=3)
DEADLINE: Final = WINDOW.deadline(HOUR_START)

#: Every fault that may strike a step. ``lost``: the effect happened, the caller sees a time-out.
#: ``unsent``: it did not happen, and the caller cannot know.
FAULTS: Final = ("crash", "lost", "unsent", "refused", "throttled", "unprocessed")
_MARKETPLACE_FAULTS: Final = {
    "unsent": Answer(error="lost"),
    "refused": Answer(error="DisabledApiException"),
    "throttled": Answer(error="ThrottlingException"),
}


#: The role that works each queue off, the queue of each such role, and who may still have rows cleaned up.
_FED_BY: Final = tuple(next(role for role in ROLES if role.queue == queue) for queue in QUEUES)
_QUEUE_OF: Final = {role.name: number for number, role in enumerate(_FED_BY)}
_CLEANUP_QUEUE: Final = QUEUES.index("cleanup")
_CLEANING: Final = frozenset({CLEANUP.name, AGGREGATOR.name})


class Violation(AssertionError):
    """A promise is broken; the text tells which, and the schedule that leads there."""


@dataclass(frozen=True, slots=True)
class Put:
    """The seller puts one row: ``second`` of the hour is its key. Quantities are distinct powers of two,
    so that a sum tells which rows, and which versions of them, it holds."""

    second: int
    quantity: int


@dataclass(frozen=True, slots=True)
class Calm:
    """How a quiet pipeline ends the group: when it runs, and how the record may end."""

    instants: tuple[datetime, ...]
    statuses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A tiny world and its bounds.

    ``writers`` are scripts of puts; ``instants`` the values that the clock steps through; ``messages`` what
    waits in queues at the beginning, with copies; ``runs`` how often a schedule may start a role;
    ``together`` how many of a role run at once (1 unless said); ``faults`` how many strike in one history,
    of the kinds in ``fault_kinds``; ``duplicates`` how many deliveries leave their message in its queue.
    ``first_reads`` makes a function's first call a step of its own: without it, a function starts and reads
    in one step, so only what it does later can be overtaken by a clock step.
    """

    name: str
    rows: tuple[Put, ...]
    writers: tuple[tuple[Put, ...], ...]
    instants: tuple[datetime, ...]
    messages: tuple[tuple[str, str, int], ...]
    runs: Mapping[str, int]
    calms: tuple[Calm, ...]
    together: Mapping[str, int] = field(default_factory=dict)
    faults: int = 1
    fault_kinds: tuple[str, ...] = FAULTS
    duplicates: int = 0
    license_expiry: datetime | None = None
    submit_mode: str = "submit"
    first_reads: bool = False
    marketplace: Settings | None = None


class Process(NamedTuple):
    """A live process: its node, the message that it works on (-1: none), the instant of its start."""

    node: int
    message: int
    born: int


class State(NamedTuple):
    """Everything that decides what can still happen; the tables and texts behind the numbers are interned."""

    usage: int
    ledger: int
    market: int
    reported: frozenset[str]
    messages: tuple[tuple[int, int], ...]
    clock: int
    writers: tuple[int, ...]
    runs: tuple[int, ...]
    faults: int
    duplicates: int
    processes: tuple[Process, ...]


class Step(NamedTuple):
    """How a state was left: who, what, how it came out."""

    actor: str
    what: str
    process: int = -1
    request: int = -1
    variant: str = ""
    answer: int = -1


_Messages = tuple[tuple[int, int], ...]


class _Target(Enum):
    """What a call reads or changes."""

    USAGE = auto()
    LEDGER = auto()
    MARKET = auto()
    QUEUES = auto()


class _Outcome(NamedTuple):
    """What a call comes to, in every state that has the same table behind it.

    ``node`` is None where the process draws an attempt id next: which one is fresh, the state decides.
    """

    target: _Target
    answer: int
    snapshot: int
    sent: _Messages
    node: Node | None


class _Move(NamedTuple):
    """One way in which a process's next call may come out; ``outcome`` is None where the process crashes."""

    step: Step
    outcome: _Outcome | None


#: The parents of all states found so far, and the number of one of them: a schedule can be told from these.
_Reached = tuple[Sequence[tuple[int, Step | None]], int]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that reached, or may have reached, the Marketplace."""

    at: datetime
    arguments: Mapping[str, Any]
    arrived: bool


@dataclass(frozen=True, slots=True)
class Marketplace:
    """What the Marketplace has been sent, as far as it can matter."""

    sent: tuple[Sent, ...]
    attempts: frozenset[tuple[int, datetime]]
    honoured: tuple[tuple[int, datetime], ...]


@dataclass(slots=True)
class Exploration:
    """What one configuration came to."""

    configuration: str
    states: int = 0
    transitions: int = 0
    executions: int = 0
    durable_states: int = 0
    drains: int = 0
    seconds: float = 0.0
    witnesses: dict[str, list[str]] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """Return the figures as one line."""
        return (
            f"{self.configuration:<34} {self.states:>8} states {self.transitions:>9} transitions "
            f"{self.executions:>7} executions {self.durable_states:>6} durable {self.drains:>6} drains "
            f"{self.seconds:>6.1f} s"
        )


# --- what a write says -----------------------------------------------------------------------------------

_READS: Final = frozenset({"GetItem", "Query", "BatchGetItem"})
_SET: Final = re.compile(r'"([^"]+)"=\?')


@dataclass(frozen=True, slots=True)
class Write:
    """A conditional write, read back from its request: what it sets and what it expects to find."""

    table: str
    sets: Mapping[str, Any]
    removes: frozenset[str]
    expects: Mapping[str, Any]


def writes_of(request: Request) -> tuple[Write, ...]:
    """Return what ``request`` writes, item by item; nothing for a read or a message."""
    arguments = request.arguments
    if request.operation == "PutItem":
        return (Write(arguments["TableName"], from_wire(arguments["Item"]), frozenset(), {}),)
    if request.operation == "UpdateItem":
        return (_update(arguments),)
    if request.operation == "BatchExecuteStatement":
        return tuple(_statement(each["Statement"], each["Parameters"]) for each in arguments["Statements"])
    return ()


def _update(arguments: Mapping[str, Any]) -> Write:
    names = arguments["ExpressionAttributeNames"]
    values = from_wire(arguments["ExpressionAttributeValues"])
    sets, _, removes = arguments["UpdateExpression"].partition(" REMOVE ")
    conditions = re.findall(r"(#\w+) = (:\w+)", arguments["ConditionExpression"])
    return Write(
        arguments["TableName"],
        {names[name]: values[value] for name, value in re.findall(r"(#\w+) = (:\w+)", sets)},
        frozenset(names[name] for name in re.findall(r"#\w+", removes)),
        {names[name]: values[value] for name, value in conditions},
    )


def _statement(text: str, wire: Sequence[Any]) -> Write:
    head, _, conditions = text.partition(" WHERE ")
    parameters = list(from_wire({str(number): value for number, value in enumerate(wire)}).values())
    sets = _SET.findall(head)
    return Write(
        head.split('"')[1],
        dict(zip(sets, parameters, strict=False)),
        frozenset(re.findall(r'REMOVE "([^"]+)"', head)),
        dict(zip(_SET.findall(conditions), parameters[len(sets) :], strict=True)),
    )


# --- named interleavings -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """One process step, for the predicates of the named interleavings."""

    role: Role
    write: Write
    rows: Mapping[str, Mapping[str, Any]]
    record: LedgerRecord | None
    after_rows: Mapping[str, Mapping[str, Any]]
    after_record: LedgerRecord | None
    waiting_cleanups: bool
    writers_left: bool
    now: datetime

    @property
    def folds(self) -> bool:
        """Whether this step tries to commit a fold."""
        return self.write.table == LEDGER and "foldDigest" in self.write.sets

    @property
    def begins(self) -> bool:
        """Whether this step tries to make an attempt durable."""
        return self.write.sets.get("attemptState") == "open"

    @property
    def tells_success(self) -> bool:
        """Whether this step tries to write a Success back."""
        return self.write.sets.get("meteringStatus") == "Success"

    @property
    def outdated(self) -> bool:
        """Whether this step was computed from another version of the record than is there now."""
        there = None if self.record is None else self.record.version
        return bool(self.write.expects.get("version") != there)

    @property
    def changed_nothing(self) -> bool:
        """Whether the item that this step writes is the same afterwards."""
        if self.write.table == LEDGER:
            return not self.changed_record
        name = self.write.expects[ROW_SORT_KEY]
        return self.rows[name] == self.after_rows[name]

    @property
    def changed_record(self) -> bool:
        """Whether the record is another one afterwards."""
        return self.after_record != self.record


def _older_fold_after_newer(moment: Moment) -> bool:
    if not moment.folds or moment.record is None or "totalQuantity" not in moment.write.sets:
        return False
    present = sum(int(row["quantity"]) for row in moment.rows.values())
    return bool(present & int(moment.record.total) & ~int(moment.write.sets["totalQuantity"]))


def _row_rewritten_before_cleanup(moment: Moment) -> bool:
    if moment.write.table != USAGE or moment.role is not CLEANUP or "quantity" not in moment.write.expects:
        return False
    row = moment.rows[moment.write.expects[ROW_SORT_KEY]]
    return bool(row["quantity"] != moment.write.expects["quantity"] and "meteringPending" in row)


def _late_row_after_lost_cleanup(moment: Moment) -> bool:
    record = moment.record
    if not moment.folds or record is None or record.attempt is None or moment.waiting_cleanups:
        return False
    pending = [int(row["quantity"]) for row in moment.rows.values() if "meteringPending" in row]
    folded = [quantity for quantity in pending if quantity & int(record.total)]
    late = [quantity for quantity in pending if not quantity & int(record.total)]
    return bool(folded and late and moment.changed_record)


def _replaced_between_read_and_intent(moment: Moment) -> bool:
    if not moment.begins or moment.record is None or moment.role is not SUBMITTER:
        return False
    return moment.outdated and moment.record.attempt is None and moment.record.pending


def _fold_after_age_out(moment: Moment) -> bool:
    return (
        moment.role is AGGREGATOR
        and moment.folds
        and moment.outdated
        and moment.record is not None
        and moment.record.status == "AggregationExpired"
    )


def _age_out_after_fold(moment: Moment) -> bool:
    return moment.role is AGE_OUT and moment.folds and moment.outdated


def _answer_after_expiry(moment: Moment) -> bool:
    return (
        moment.tells_success
        and moment.record is not None
        and not moment.record.pending
        and moment.record.status == "OutcomeUnknown"
    )


def _answer_wins_over_expiry(moment: Moment) -> bool:
    after = moment.after_record
    return _answer_after_expiry(moment) and after is not None and after.status == "Success"


def _flush_while_writing(moment: Moment) -> bool:
    unfinished = moment.now < HOUR_START + HOUR
    flushes = moment.folds and bool(moment.write.sets.get("finalFlush"))
    return unfinished and flushes and moment.writers_left and moment.changed_record


def _row_after_final_flush(moment: Moment) -> bool:
    after = moment.after_record
    return moment.folds and after is not None and "AfterFinalFlush" in after.surfaced_by_reason()


def _success_for_an_identical_send(moment: Moment) -> bool:
    record = moment.record
    return (
        moment.tells_success and record is not None and record.attempt is not None and record.attempt.unknown
    )


#: The interleavings that have to be met, each with what tells it. A value of True for ``harmless`` means
#: that the step must change nothing: its condition has to fail.
INTERLEAVINGS: Final[Mapping[str, tuple[Callable[[Moment], bool], bool]]] = {
    "a fold computed before a row landed, written after another fold with it": (
        _older_fold_after_newer,
        True,
    ),
    "a row rewritten between fold and cleanup": (_row_rewritten_before_cleanup, True),
    "a lost cleanup followed by a late row": (_late_row_after_lost_cleanup, False),
    "a record replaced between the submitter's read and its intent": (
        _replaced_between_read_and_intent,
        True,
    ),
    "a delayed fold after age-out": (_fold_after_age_out, True),
    "age-out after a delayed fold": (_age_out_after_fold, True),
    "an answer that arrives after expiry": (_answer_after_expiry, False),
    "an answer that wins over expiry": (_answer_wins_over_expiry, False),
    "a flush of the unfinished hour with writes going on": (_flush_while_writing, False),
    "a row that lands after the final flush": (_row_after_final_flush, False),
    "a success for an identical second send": (_success_for_an_identical_send, False),
}


# --- the search --------------------------------------------------------------------------------------------


class Explorer:
    """Visits every state of one configuration."""

    def __init__(self, configuration: Configuration) -> None:
        """Prepare the tables; nothing is explored yet."""
        self.configuration = configuration
        self.report = Exploration(configuration.name)
        self._clock = VirtualClock(HOUR_START)
        self._dynamodb = MemoryDynamoDB(self._clock)
        self._client = self._dynamodb.client()
        self._client.create_table(**tables.usage_table(USAGE))
        self._client.create_table(**tables.aggregated_usage_table(LEDGER))
        self._loaded = {USAGE: -1, LEDGER: -1}
        self._snapshots: dict[str, Interner[dict[Key, Record]]] = {USAGE: Interner(), LEDGER: Interner()}
        self._markets: Interner[Marketplace] = Interner()
        self._bodies: Interner[str] = Interner()
        self._effects: dict[tuple[int, str, int, datetime | None], tuple[int, int]] = {}
        self._targets: dict[int, _Target] = {}
        self._sendings: dict[tuple[int, bool], tuple[int, _Messages]] = {}
        self._moves: dict[tuple[int, int, int, bool], tuple[_Move, ...]] = {}
        self._puts: dict[tuple[int, Put], int] = {}
        self._met: set[tuple[Any, ...]] = set()
        self._writes: dict[int, tuple[Write, ...]] = {}
        self._rows: dict[int, dict[str, dict[str, Any]]] = {}
        self._records: dict[int, tuple[dict[str, Any], LedgerRecord] | None] = {}
        self._ids: dict[int, frozenset[str]] = {}
        self._inputs: dict[tuple[str, str, datetime], str] = {}
        self._judged: set[tuple[int, int, int, frozenset[str]]] = set()
        self._drained: set[tuple[int, int, int, frozenset[str], tuple[tuple[int, int], ...], int]] = set()
        self._endings: dict[tuple[Any, ...], None] = {}
        self.machine = Machine(
            MeteringSettings(
                product_code=PRODUCT,
                usage_table=USAGE,
                aggregated_usage_table=LEDGER,
                subscribers_table=SUBSCRIBERS,
                work_queue_url="work",
                deprovision_work_queue_url="deprovision-work",
                cleanup_queue_url="cleanup",
                window=WINDOW,
            ),
            shared_buckets=[GROUP.bucket],
            subscribers=self._subscribers(),
        )
        self._versions = self._row_versions()
        self._scheduled = [role for role in ROLES if configuration.runs.get(role.name)]

    def _subscribers(self) -> MemoryDynamoDB:
        backend = MemoryDynamoDB(self._clock)
        client = backend.client()
        client.create_table(**tables.subscribers_table(SUBSCRIBERS))
        item: dict[str, Any] = {
            "licenseArn": LICENSE,
            "customerAWSAccountId": BUYER,
            "subscriptionStatus": "active",
            "activationTime": format_instant(HOUR_START - timedelta(days=30)),
        }
        if self.configuration.license_expiry is not None:
            item |= {
                "subscriptionStatus": "deprovisioning",
                "deprovisioningPendingFlag": "1",
                "deprovisioningExpiry": format_instant(self.configuration.license_expiry),
            }
        client.put_item(TableName=SUBSCRIBERS, Item=to_wire(item))
        return backend

    def _row_versions(self) -> dict[str, int]:
        """Return, for each row's key, the bits of all versions that it may have."""
        versions: dict[str, int] = {}
        seen = 0
        for put in (
            *self.configuration.rows,
            *(put for script in self.configuration.writers for put in script),
        ):
            if put.quantity & (put.quantity - 1) or put.quantity & seen:
                raise ValueError("quantities have to be distinct powers of two")
            seen |= put.quantity
            key = row_key(put)
            versions[key] = versions.get(key, 0) | put.quantity
        return versions

    def run(self) -> Exploration:
        """Explore; return the figures.

        Raises
        ------
        Violation
            A promise is broken somewhere.
        """
        began = perf_counter()
        with _no_garbage_collection():
            self._explore()
        self.report.executions = self.machine.replays
        self.report.durable_states = len(self._drained)
        self.report.seconds = perf_counter() - began
        return self.report

    def _explore(self) -> None:
        first = self._first_state()
        numbers: dict[State, int] = {first: 0}
        parents: list[tuple[int, Step | None]] = [(-1, None)]
        queue = deque([first])
        self._visit(first, [(-1, None)], 0)
        number = -1
        while queue:
            # States leave the queue in the order of their numbers.
            state, number = queue.popleft(), number + 1
            for step, after in self._successors(state):
                self.report.transitions += 1
                known = numbers.get(after)
                if known is None:
                    known = numbers[after] = len(parents)
                    parents.append((number, step))
                    queue.append(after)
                    self._visit(after, parents, known)
                if step.request >= 0 and not step.variant and self._written(step.request):
                    self._meet_all(state, step, after, (parents, number))
        self.report.states = len(parents)

    def _first_state(self) -> State:
        configuration = self.configuration
        usage, ledger = self._snapshot(USAGE), self._snapshot(LEDGER)
        self._loaded = {USAGE: usage, LEDGER: ledger}
        for put in configuration.rows:
            usage = self._put(usage, put)
        messages = sorted(
            (QUEUES.index(queue), self._bodies.number(body, body))
            for queue, body, copies in configuration.messages
            for _ in range(copies)
        )
        market = self._market(Marketplace((), frozenset(), ()))
        return State(
            usage,
            ledger,
            market,
            frozenset(),
            tuple(messages),
            0,
            (0,) * len(configuration.writers),
            tuple(configuration.runs[role.name] for role in self._scheduled),
            configuration.faults,
            configuration.duplicates,
            (),
        )

    # --- what can happen next ------------------------------------------------------------------------------

    def _successors(self, state: State) -> Iterator[tuple[Step, State]]:
        configuration = self.configuration
        if state.clock + 1 < len(configuration.instants):
            yield (
                Step("clock", f"steps to {configuration.instants[state.clock + 1]:%H:%M:%S}"),
                self._tick(state),
            )
        for number, script in enumerate(configuration.writers):
            if state.writers[number] < len(script):
                put = script[state.writers[number]]
                writers = _replaced(state.writers, number, state.writers[number] + 1)
                yield (
                    Step(f"writer {number}", f"puts second {put.second}, quantity {put.quantity}"),
                    state._replace(usage=self._put(state.usage, put), writers=writers),
                )
        yield from self._starts(state)
        for number, process in enumerate(state.processes):
            if number and state.processes[number - 1] == process:
                continue
            yield from self._steps(state, process)

    def _tick(self, state: State) -> State:
        instants = self.configuration.instants
        clock = state.clock + 1
        dead = [p for p in state.processes if instants[clock] - instants[p.born] >= LIFETIME]
        for process in dead:
            state = self._end(state, process, give_back=True)
        return state._replace(clock=clock)

    def _starts(self, state: State) -> Iterator[tuple[Step, State]]:
        running = [self.machine[process.node].role.name for process in state.processes]
        limit = self.configuration.together
        for queue, body in dict.fromkeys(state.messages):
            role = _FED_BY[queue]
            if running.count(role.name) >= limit.get(role.name, 1):
                continue
            rest = _without(state.messages, (queue, body))
            yield (
                Step(role.name, "receives a message"),
                self._started(state._replace(messages=rest), role, self._bodies[body], body),
            )
            if state.duplicates and role is CLEANUP:
                yield (
                    Step(role.name, "receives a message that will be delivered again"),
                    self._started(
                        state._replace(duplicates=state.duplicates - 1), role, self._bodies[body], body
                    ),
                )
        for number, role in enumerate(self._scheduled):
            if state.runs[number] and running.count(role.name) < limit.get(role.name, 1):
                left = state._replace(runs=_replaced(state.runs, number, state.runs[number] - 1))
                argument = self._schedule_input(role, self.configuration.instants[state.clock])
                yield Step(role.name, "starts"), self._started(left, role, argument, -1)

    def _schedule_input(self, role: Role, now: datetime) -> str:
        key = (role.name, self.configuration.submit_mode, now)
        if key not in self._inputs:
            self._inputs[key] = self._new_schedule_input(role, now)
        return self._inputs[key]

    def _new_schedule_input(self, role: Role, now: datetime) -> str:
        hours_back = (floor_hour(now) - HOUR_START) // HOUR
        return canonical(
            {
                SUBMITTER.name: {"mode": self.configuration.submit_mode},
                EXPIRY.name: {},
                AGE_OUT.name: {"mode": "ageout", "shard": hours_back % 7},
                DISCOVERER.name: {"mode": "meter", "hourOffset": hours_back},
                FLUSH.name: {"mode": "flush-deprovisioning"},
            }[role.name]
        )

    def _started(self, state: State, role: Role, argument: str, message: int) -> State:
        node = self.machine.start(role, argument, self.configuration.instants[state.clock])
        if self.configuration.first_reads or node.request is None:
            return self._placed(state, node, message, state.clock)
        answer, after = self._perform(state, node.request, "")
        now = self.configuration.instants[state.clock]
        return self._placed(
            after,
            self.machine.resume(node, answer, now, partial(self._fresh_id, after.ledger, after.processes)),
            message,
            state.clock,
        )

    def _placed(self, state: State, node: Node, message: int, born: int) -> State:
        """Return the state with a process at ``node``; a finished one is gone."""
        if node.reported:
            state = state._replace(reported=state.reported | node.reported)
        if node.done:
            return self._given_back(state, node.role, message) if node.failure else state
        processes = tuple(sorted((*state.processes, Process(node.number, message, born))))
        return state._replace(processes=processes)

    def _end(self, state: State, process: Process, *, give_back: bool) -> State:
        state = state._replace(processes=_without(state.processes, process))
        role = self.machine[process.node].role
        return self._given_back(state, role, process.message) if give_back else state

    def _given_back(self, state: State, role: Role, message: int) -> State:
        if message < 0 or role.queue is None:
            return state
        returned = (QUEUES.index(role.queue), message)
        return state._replace(messages=tuple(sorted((*state.messages, returned))))

    def _steps(self, state: State, process: Process) -> Iterator[tuple[Step, State]]:
        node = self.machine[process.node]
        assert node.request is not None
        target, behind = self._target(node.request), 0
        if target is _Target.USAGE:
            behind = state.usage
        elif target is _Target.LEDGER:
            behind = state.ledger
        elif target is _Target.MARKET:
            behind = state.market
        rest = _without(state.processes, process)
        key = (process.node, behind, state.clock, state.faults > 0)
        known = self._moves.get(key)
        if known is not None:
            for move in known:
                yield move.step, self._moved(state, node, process, rest, move)
            return
        # One by one: what is met first has the smaller number, and the search follows the numbers.
        moves = []
        for variant in ("", *(self.configuration.fault_kinds if state.faults else ())):
            if variant == "crash":
                move = _Move(Step(node.role.name, "crashes", process.node, variant="crash"), None)
            elif self._strikes(variant, target):
                outcome = self._outcome(node, variant, target, behind, state.clock)
                step = Step(node.role.name, "", process.node, node.request, variant, outcome.answer)
                move = _Move(step, outcome)
            else:
                continue
            moves.append(move)
            yield move.step, self._moved(state, node, process, rest, move)
        self._moves[key] = tuple(moves)

    def _moved(
        self, state: State, node: Node, process: Process, rest: tuple[Process, ...], move: _Move
    ) -> State:
        """Return the state after one step of ``process``, ``rest`` being the other processes."""
        faults = state.faults - 1 if move.step.variant else state.faults
        if move.outcome is None:
            left = state._replace(faults=faults, processes=rest)
            return self._given_back(left, node.role, process.message)
        target, answer, snapshot, sent, after = move.outcome
        usage = snapshot if target is _Target.USAGE else state.usage
        ledger = snapshot if target is _Target.LEDGER else state.ledger
        if after is None:
            now = self.configuration.instants[state.clock]
            after = self.machine.resume(node, answer, now, partial(self._fresh_id, ledger, rest))
        processes = rest
        if not after.done:
            started = Process(after.number, process.message, process.born)
            processes = tuple(sorted((*rest, started))) if rest else (started,)
        moved = State(
            usage,
            ledger,
            snapshot if target is _Target.MARKET else state.market,
            state.reported | after.reported if after.reported else state.reported,
            tuple(sorted((*state.messages, *sent))) if sent else state.messages,
            state.clock,
            state.writers,
            state.runs,
            faults,
            state.duplicates,
            processes,
        )
        return self._given_back(moved, node.role, process.message) if after.failure else moved

    def _outcome(self, node: Node, variant: str, target: _Target, behind: int, clock: int) -> _Outcome:
        """Return what the process's next call comes to where ``behind`` is what it reads or changes."""
        assert node.request is not None
        now = self.configuration.instants[clock]
        snapshot, sent = 0, _Messages()
        if target is _Target.QUEUES:
            answer, sent = self._send(node.request, variant)
        else:
            answer, snapshot = self._effect(node.request, variant, target, behind, now)
        return _Outcome(target, answer, snapshot, sent, self.machine.resume_without_id(node, answer, now))

    @staticmethod
    def _strikes(variant: str, target: _Target) -> bool:
        return variant in ("", "lost") or target is _Target.MARKET

    def _fresh_id(self, ledger: int, processes: Sequence[Process]) -> str:
        """Return an attempt id that neither the ledger nor any living process knows."""
        taken = self._ledger_ids(ledger).union(*(self.machine[process.node].ids for process in processes))
        return next(name for name in (f"attempt-{n}" for n in range(100)) if name not in taken)

    def _ledger_ids(self, ledger: int) -> frozenset[str]:
        if ledger not in self._ids:
            found = self._record(ledger)
            self._ids[ledger] = frozenset(
                {str(found[0]["attemptId"])} if found and "attemptId" in found[0] else ()
            )
        return self._ids[ledger]

    # --- calls ---------------------------------------------------------------------------------------------

    def _perform(self, state: State, number: int, variant: str) -> tuple[int, State]:
        """Let a call have its effect; return what its caller is told."""
        now = self.configuration.instants[state.clock]
        match self._target(number):
            case _Target.QUEUES:
                answer, sent = self._send(number, variant)
                return answer, state._replace(messages=tuple(sorted((*state.messages, *sent))))
            case _Target.MARKET as target:
                answer, market = self._effect(number, variant, target, state.market, now)
                return answer, state if market == state.market else state._replace(market=market)
            case _Target.USAGE as target:
                answer, usage = self._effect(number, variant, target, state.usage, now)
                return answer, state if usage == state.usage else state._replace(usage=usage)
            case _Target.LEDGER as target:
                answer, ledger = self._effect(number, variant, target, state.ledger, now)
                return answer, state if ledger == state.ledger else state._replace(ledger=ledger)

    def _target(self, number: int) -> _Target:
        target = self._targets.get(number)
        if target is None:
            request = self.machine.requests[number]
            if request.service == "sqs":
                target = _Target.QUEUES
            elif request.service == "meteringmarketplace":
                target = _Target.MARKET
            else:
                target = _Target.USAGE if self._table_of(request) == USAGE else _Target.LEDGER
            self._targets[number] = target
        return target

    def _send(self, number: int, variant: str) -> tuple[int, _Messages]:
        """Return the answer of a SendMessageBatch and the messages that it puts into a queue."""
        key = (number, variant == "lost")
        if key not in self._sendings:
            arguments = self.machine.requests[number].arguments
            bodies = [entry["MessageBody"] for entry in arguments["Entries"]]
            queue = QUEUES.index(arguments["QueueUrl"])
            sent = tuple((queue, self._bodies.number(body, body)) for body in bodies)
            answer = {"Successful": [{"Id": entry["Id"]} for entry in arguments["Entries"]]}
            told = Answer(error="lost") if variant == "lost" else Answer(answer)
            self._sendings[key] = (self._answer(told), sent)
        return self._sendings[key]

    def _effect(
        self, number: int, variant: str, target: _Target, snapshot: int, now: datetime
    ) -> tuple[int, int]:
        """Return the answer of a call to a table or to the Marketplace, and what it leaves there."""
        # What a table answers does not depend on the time.
        key = (number, variant, snapshot, now if target is _Target.MARKET else None)
        if key not in self._effects:
            request = self.machine.requests[number]
            if target is _Target.MARKET:
                self._effects[key] = self._meter(request, snapshot, now, variant)
            else:
                table = USAGE if target is _Target.USAGE else LEDGER
                self._effects[key] = self._store(request, table, snapshot, variant)
        return self._effects[key]

    def _answer(self, answer: Answer) -> int:
        return self.machine.answers.number(answer, canonical([answer.response, answer.error]))

    @staticmethod
    def _table_of(request: Request) -> str:
        arguments = request.arguments
        if request.operation == "BatchExecuteStatement":
            return str(arguments["Statements"][0]["Statement"].split('"')[1])
        if request.operation == "BatchGetItem":
            (table,) = arguments["RequestItems"]
            return str(table)
        return str(arguments["TableName"])

    def _store(self, request: Request, table: str, snapshot: int, variant: str) -> tuple[int, int]:
        self._load(table, snapshot)
        method = re.sub(r"(?<!^)(?=[A-Z])", "_", request.operation).lower()
        try:
            response = getattr(self._client, method)(**request.arguments)
            response.pop("ResponseMetadata")
            told = Answer(response)
        except ClientError as error:
            told = Answer(error=error.response["Error"]["Code"])
        after = snapshot if request.operation in _READS else self._snapshot(table)
        self._loaded[table] = after
        return self._answer(Answer(error="lost") if variant == "lost" else told), after

    def _load(self, name: str, snapshot: int) -> None:
        """Make the table what it is in ``snapshot``."""
        if self._loaded[name] == snapshot:
            return
        table, wanted = self._dynamodb.table(name), self._snapshots[name][snapshot]
        present = dict(table.records())
        for key in present.keys() - wanted.keys():
            table.put(key, None, HOUR_START, None)
        for key, record in wanted.items():
            if present.get(key) is not record:
                table.put(key, record, HOUR_START, None)
        self._loaded[name] = snapshot

    def _snapshot(self, name: str) -> int:
        records = dict(self._dynamodb.table(name).records())
        text = canonical(sorted((canonical(list(key)), record.item) for key, record in records.items()))
        return self._snapshots[name].number(records, text)

    def _put(self, usage: int, put: Put) -> int:
        key = (usage, put)
        if key not in self._puts:
            self._puts[key] = self._new_put(usage, put)
        return self._puts[key]

    def _new_put(self, usage: int, put: Put) -> int:
        timestamp = format_second(HOUR_START + timedelta(seconds=put.second))
        item = {
            "licenseArn": LICENSE,
            ROW_SORT_KEY: row_key(put),
            "customerAWSAccountId": BUYER,
            "dimension": DIMENSION,
            "timestamp": timestamp,
            "quantity": put.quantity,
            "meteringPending": GROUP.bucket,
        }
        self._load(USAGE, usage)
        self._client.put_item(TableName=USAGE, Item=to_wire(item))
        self._loaded[USAGE] = self._snapshot(USAGE)
        return self._loaded[USAGE]

    def _meter(self, request: Request, market: int, now: datetime, variant: str) -> tuple[int, int]:
        before = self._markets[market]
        if variant == "unprocessed":
            records = request.arguments["UsageRecords"]
            return self._answer(Answer({"Results": [], "UnprocessedRecords": records})), market
        if variant in _MARKETPLACE_FAULTS:
            told = _MARKETPLACE_FAULTS[variant]
            if variant != "unsent":
                return self._answer(told), market
            return self._answer(told), self._market_after(before, Sent(now, request.arguments, arrived=False))
        sent = Sent(now, request.arguments, arrived=True)
        try:
            client = self._marketplace((*before.sent,), now)[1]
            response = client.batch_meter_usage(**request.arguments)
            response.pop("ResponseMetadata")
            told = Answer(response)
        except ClientError as error:
            return self._answer(Answer(error=error.response["Error"]["Code"])), market
        if variant == "lost":
            told = Answer(error="lost")
        return self._answer(told), self._market_after(before, sent)

    def _marketplace(
        self, sent: Sequence[Sent], now: datetime
    ) -> tuple[FakeMarketplace, InProcessMarketplaceClient]:
        """Return a Marketplace that was sent all this before."""
        clock = VirtualClock(HOUR_START - timedelta(days=30))
        marketplace = FakeMarketplace(clock, self.configuration.marketplace)
        marketplace.create_product(PRODUCT, [DIMENSION])
        marketplace.subscribe(PRODUCT, BUYER, license_arn=LICENSE, activate_at=clock.now())
        client = InProcessMarketplaceClient(marketplace)
        expiry = self.configuration.license_expiry
        if expiry is not None:
            clock.advance_to(expiry - HOUR)
            marketplace.deprovision_license(LICENSE)
        for each in sent:
            if each.arrived:
                clock.advance_to(each.at)
                client.batch_meter_usage(**each.arguments)
        clock.advance_to(now)
        return marketplace, client

    def _market_after(self, before: Marketplace, sent: Sent) -> int:
        (record,) = sent.arguments["UsageRecords"]
        attempts = before.attempts | {(record["Quantity"], record["Timestamp"])}
        history = (*before.sent, sent)
        marketplace, _ = self._marketplace(history, sent.at)
        if marketplace.billed_twice():
            raise Violation("the Marketplace honoured two records of one hour")
        honoured = tuple((int(each.quantity), each.timestamp) for each in marketplace.honoured())
        if honoured == before.honoured and attempts == before.attempts:
            # A repetition changes no later answer.
            history = before.sent
        return self._market(Marketplace(history, attempts, honoured))

    def _market(self, market: Marketplace) -> int:
        sent = [[each.at, each.arguments, each.arrived] for each in market.sent]
        return self._markets.number(market, canonical(sent))

    # --- judging -------------------------------------------------------------------------------------------

    def _visit(self, state: State, parents: Sequence[tuple[int, Step | None]], number: int) -> None:
        try:
            self._judge(state)
            self._drain_from(state)
        except Violation as violation:
            story = "\n".join(self._story(parents, number))
            raise Violation(f"{self.configuration.name}: {violation}\n{story}") from violation

    def _row_items(self, usage: int) -> dict[str, dict[str, Any]]:
        if usage not in self._rows:
            items = [from_wire(record.item) for record in self._snapshots[USAGE][usage].values()]
            self._rows[usage] = {item[ROW_SORT_KEY]: item for item in items}
        return self._rows[usage]

    def _record(self, ledger: int) -> tuple[dict[str, Any], LedgerRecord] | None:
        if ledger not in self._records:
            items = [from_wire(record.item) for record in self._snapshots[LEDGER][ledger].values()]
            if len(items) > 1:
                raise Violation("one group has several records")
            self._records[ledger] = (items[0], from_item(items[0])) if items else None
        return self._records[ledger]

    def _judge(self, state: State) -> None:
        """Check P1 of what is stored, P2, and that everything surfaced was reported before."""
        key = (state.usage, state.ledger, state.market, state.reported)
        if key in self._judged:
            return
        self._judged.add(key)
        rows, found = self._row_items(state.usage), self._record(state.ledger)
        market = self._markets[state.market]
        cleared = {name: row for name, row in rows.items() if "meteringPending" not in row}
        if found is None:
            _require(not cleared, "a row was cleared that no record contains")
            _require(not market.attempts, "something was sent without a record")
            return
        item, record = found
        self._judge_record(item, record)
        total = int(record.total)
        for name, row in cleared.items():
            _require(bool(int(row["quantity"]) & total), f"row {name} was cleared and is in no fold")
        for name, versions in self._versions.items():
            _require((total & versions).bit_count() <= 1, f"row {name} is counted twice")
        _require(total & ~sum(self._versions.values()) == 0, "the total holds what nobody wrote")
        unreported = record.surfaced_by_reason().keys() - state.reported
        _require(not unreported, f"surfaced without a metric: {sorted(unreported)}")
        self._judge_market(market, record)

    @staticmethod
    def _judge_record(item: Mapping[str, Any], record: LedgerRecord) -> None:
        pending = item["quantity"] if "meteringPending" in item else Decimal(0)
        balance = item["billedQuantity"] + pending + item["surfacedQuantity"]
        _require(item["totalQuantity"] == balance, f"the stored record does not balance: {dict(item)}")
        _require(not (record.pending and "ttl" in item), "a pending record has a TTL")
        reasons = sum(record.surfaced_by_reason().values(), Decimal(0))
        _require(reasons == record.surfaced, "something is surfaced without a reason")

    @staticmethod
    def _judge_market(market: Marketplace, record: LedgerRecord) -> None:
        _require(len(market.honoured) <= 1, "two records were honoured")
        _require(len(market.attempts) <= 1, f"the bytes of a record changed: {sorted(market.attempts)}")
        frozen = (int(record.quantity), record.timestamp)
        for attempt in market.attempts:
            _require(attempt == frozen, f"sent was {attempt}, the record holds {frozen}")
        if record.billed:
            _require(record.status == "Success", "billed without a Success")
            _require(
                [quantity for quantity, _ in market.honoured] == [int(record.billed)],
                "billed is not what was honoured",
            )

    # --- the end -------------------------------------------------------------------------------------------

    def _drain_from(self, state: State) -> None:
        """Let everybody die here and a quiet pipeline finish, leftover cleanups delivered or lost."""
        held = [
            (_QUEUE_OF[self.machine[process.node].role.name], process.message)
            for process in state.processes
            if process.message >= 0
        ]
        # A copy of a message does nothing that the first one does not, once nobody interferes.
        messages = tuple(sorted({*state.messages, *held}))
        key = (state.usage, state.ledger, state.market, state.reported, messages, state.clock)
        if key in self._drained:
            return
        self._drained.add(key)
        died = state._replace(processes=(), messages=messages)
        lost = tuple(message for message in messages if message[0] != _CLEANUP_QUEUE)
        for calm in self.configuration.calms:
            for left in dict.fromkeys((messages, lost)):
                self._settle(died._replace(messages=left), calm)

    def _settle(self, state: State, calm: Calm) -> None:
        now = self.configuration.instants[state.clock]
        instants = [instant for instant in calm.instants if instant > now]
        writers = tuple(len(script) for script in self.configuration.writers)
        key = (state.usage, state.ledger, state.market, state.reported, state.messages, calm)
        if key in self._endings:
            return
        self._endings[key] = None
        self.report.drains += 1
        quiet = replace(self.configuration, instants=tuple(instants), submit_mode="submit")
        explored, self.configuration = self.configuration, quiet
        try:
            state = state._replace(writers=writers, faults=0, duplicates=0)
            for clock in range(len(instants)):
                state = self._quiet_round(state._replace(clock=clock))
            self._judge_settled(state, calm)
        finally:
            self.configuration = explored

    def _quiet_round(self, state: State) -> State:
        now = self.configuration.instants[state.clock]
        state = self._deliver(state)
        if now < DEADLINE:
            state = self._deliver(self._alone(state, DISCOVERER))
            state = self._deliver(self._alone(state, SUBMITTER))
        else:
            state = self._deliver(self._alone(state, AGE_OUT))
            state = self._alone(state, EXPIRY)
        return state

    def _deliver(self, state: State) -> State:
        for _ in range(20):
            if not state.messages:
                return state
            (queue, body), *rest = state.messages
            role = _FED_BY[queue]
            state = self._alone(state._replace(messages=tuple(rest)), role, body)
        raise Violation("the queues do not empty")

    def _alone(self, state: State, role: Role, message: int = -1) -> State:
        now = self.configuration.instants[state.clock]
        argument = self._bodies[message] if message >= 0 else self._schedule_input(role, now)
        node = self.machine.start(role, argument, now)
        while not node.done:
            assert node.request is not None
            answer, state = self._perform(state, node.request, "")
            fresh_id = partial(self._fresh_id, state.ledger, state.processes)
            node = self.machine.resume(node, answer, now, fresh_id)
            if node.reported:
                state = state._replace(reported=state.reported | node.reported)
            self._judge(state)
        _require(node.failure is None, f"a quiet {role.name} failed: {node.failure}")
        return state

    def _judge_settled(self, state: State, calm: Calm) -> None:
        rows, found = self._row_items(state.usage), self._record(state.ledger)
        written = sum((row["quantity"] for row in rows.values()), Decimal(0))
        marked = [name for name, row in rows.items() if "meteringPending" in row]
        _require(not marked, f"rows stay pending for good: {marked}")
        if found is None:
            _require(written == 0, "rows were written and no record holds them")
            return
        record = found[1]
        _require(not record.pending, f"the record stays pending for good: {record}")
        _require(
            written == record.billed + record.surfaced,
            f"written {written}, billed {record.billed}, surfaced {record.surfaced}",
        )
        _require(
            str(record.status) in calm.statuses,
            f"the group ends as {record.status}, which is none of {sorted(calm.statuses)}",
        )
        self.report.endings[str(record.status)] += 1

    # --- telling -------------------------------------------------------------------------------------------

    def _written(self, request: int) -> tuple[Write, ...]:
        if request not in self._writes:
            self._writes[request] = writes_of(self.machine.requests[request])
        return self._writes[request]

    def _moment(
        self,
        before: State,
        role: Role,
        after: State,
        write: Write,
        *,
        waiting_cleanups: bool,
        writers_left: bool,
    ) -> Moment:
        found, found_after = self._record(before.ledger), self._record(after.ledger)
        return Moment(
            role=role,
            write=write,
            rows=self._row_items(before.usage),
            record=None if found is None else found[1],
            after_rows=self._row_items(after.usage),
            after_record=None if found_after is None else found_after[1],
            waiting_cleanups=waiting_cleanups,
            writers_left=writers_left,
            now=self.configuration.instants[before.clock],
        )

    def _meet_all(self, before: State, step: Step, after: State, reached: _Reached) -> None:
        """Note the named interleavings of a step's writes, unless an equal step was looked at before."""
        waiting, left = self._cleanups_wait(before, step), self._writers_left(before)
        role = self.machine[step.process].role
        tables = (before.usage, before.ledger, after.usage, after.ledger)
        key = (role.name, step.request, tables, waiting, left, before.clock)
        if key in self._met:
            return
        self._met.add(key)
        for write in self._written(step.request):
            moment = self._moment(before, role, after, write, waiting_cleanups=waiting, writers_left=left)
            self._meet(moment, step, reached)

    def _cleanups_wait(self, state: State, step: Step) -> bool:
        """Tell whether a cleanup waits or is under way, or may still be asked for, besides this step."""
        for queue, _ in state.messages:
            if queue == _CLEANUP_QUEUE:
                return True
        for process in state.processes:
            if process.node != step.process and self.machine[process.node].role.name in _CLEANING:
                return True
        return False

    def _writers_left(self, state: State) -> bool:
        return any(
            done < len(script) for done, script in zip(state.writers, self.configuration.writers, strict=True)
        )

    def _meet(self, moment: Moment, step: Step, reached: _Reached) -> None:
        """Note which named interleavings this step is; what has to be harmless is checked every time."""
        for name, (tells, harmless) in INTERLEAVINGS.items():
            if not (harmless or name not in self.report.witnesses) or not tells(moment):
                continue
            if name not in self.report.witnesses:
                self.report.witnesses[name] = [*self._story(*reached), self._tell(step)]
            if harmless and not moment.changed_nothing:
                story = "\n".join([*self._story(*reached), self._tell(step)])
                raise Violation(f"{self.configuration.name}: {name}: the write took effect\n{story}")

    def _story(self, parents: Sequence[tuple[int, Step | None]], number: int) -> list[str]:
        lines: list[str] = []
        while number >= 0:
            number, step = parents[number]
            if step is not None:
                lines.append(self._tell(step))
        return lines[::-1]

    def _tell(self, step: Step) -> str:
        if step.request < 0:
            return f"{step.actor} {step.what}"
        request, answer = self.machine.requests[step.request], self.machine.answers[step.answer]
        table = "" if request.service != "dynamodb" else f" {self._table_of(request)}"
        sets = "".join(f" {_short(write.sets)}" for write in writes_of(request))
        parts: Any = ()
        if request.operation == "BatchExecuteStatement" and answer.response is not None:
            parts = answer.response["Responses"]
        errors = [part["Error"]["Code"] for part in parts if "Error" in part]
        told = answer.error or ", ".join(errors) or "done"
        return f"{step.actor}: {request.operation}{table}{sets} -> {told}"


_TOLD: Final = ("totalQuantity", "quantity", "meteringStatus", "attemptState", "billedQuantity", "version")


def _short(sets: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={sets[name]}" for name in _TOLD if name in sets)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Leave the states alone: they stay to the end, and looking at each again and again finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _replaced(values: tuple[int, ...], position: int, value: int) -> tuple[int, ...]:
    return (*values[:position], value, *values[position + 1 :])


def _without(values: tuple[Any, ...], one: Any) -> tuple[Any, ...]:
    position = values.index(one)
    return (*values[:position], *values[position + 1 :])


def row_key(put: Put) -> str:
    """Return the sort key of the row that ``put`` writes."""
    return row_sort_key(BUYER, DIMENSION, format_second(HOUR_START + timedelta(seconds=put.second)))


def work_message(*, final_flush: bool = False) -> str:
    """Return a work message of the group."""
    return encode_work(GroupWork(GROUP, final_flush=final_flush))


# --- configurations ----------------------------------------------------------------------------------------

_OPEN: Final = HOUR_START + timedelta(minutes=80)
_MINUTE: Final = timedelta(minutes=1)
_SENDER_DEAD: Final = timedelta(seconds=301)
_BILLED: Final = frozenset({"Success"})
_CLOSED: Final = frozenset({"Success", "SubmissionExpired", "AggregationExpired", "OutcomeUnknown"})

#: The pipeline comes back in time, or only after the deadline.
_IN_TIME: Final = Calm((_OPEN + timedelta(minutes=20), _OPEN + timedelta(minutes=35)), _BILLED)
_TOO_LATE: Final = Calm((DEADLINE + timedelta(minutes=20), DEADLINE + timedelta(minutes=35)), _CLOSED)

_R1, _R2, _LATE, _REWRITTEN = Put(5, 1), Put(70, 2), Put(130, 4), Put(5, 8)
_AROUND_DEADLINE: Final = (DEADLINE - _MINUTE, DEADLINE + _MINUTE)


def configurations(*, larger: bool = False) -> list[Configuration]:
    """Return what is explored; ``larger`` bounds take many minutes each and are for soaking.

    Where cleanup cannot matter to what is doubled, its messages wait until the drain, but for ``larger``.
    """
    work = (("work", work_message(), 2),)
    flush_expiry = HOUR_START + timedelta(minutes=30)
    more = 1 if larger else 0
    kinds = FAULTS if larger else ("crash", "lost")
    explored = [
        Configuration(
            "writer doubled",
            rows=(_R1,),
            writers=((_R2,), (_REWRITTEN,)),
            instants=(_OPEN,),
            messages=work,
            runs={SUBMITTER.name: 1 + more},
            calms=(_IN_TIME,),
            fault_kinds=FAULTS if larger else ("crash",),
        ),
        Configuration(
            "aggregator doubled",
            rows=(_R1,),
            writers=((_LATE,),),
            instants=(_OPEN,),
            messages=(("work", work_message(), 2 + more),),
            runs={SUBMITTER.name: 1},
            together={AGGREGATOR.name: 2},
            calms=(_IN_TIME,),
            fault_kinds=kinds,
        ),
        Configuration(
            "cleanup doubled",
            rows=(_R1, _R2) if larger else (_R1,),
            writers=((_REWRITTEN,),),
            instants=(_OPEN,),
            messages=work,
            runs={SUBMITTER.name: 1},
            together={CLEANUP.name: 2},
            duplicates=1,
            calms=(_IN_TIME,),
            fault_kinds=kinds,
        ),
        Configuration(
            "submitter doubled",
            rows=(_R1,),
            writers=((_LATE,),),
            instants=(_OPEN, _OPEN + _SENDER_DEAD),
            messages=work,
            runs={SUBMITTER.name: 2 + more},
            together={SUBMITTER.name: 2, CLEANUP.name: more},
            calms=(_IN_TIME, _TOO_LATE) if larger else (_IN_TIME,),
        ),
        Configuration(
            "age-out doubled",
            rows=(_R1,),
            writers=((_LATE,),),
            instants=_AROUND_DEADLINE,
            messages=(("work", work_message(), 1 + more),),
            runs={SUBMITTER.name: more, AGE_OUT.name: 2},
            together={AGE_OUT.name: 2, CLEANUP.name: more},
            faults=0,
            fault_kinds=kinds,
            calms=(_TOO_LATE,),
        ),
        Configuration(
            "expiry doubled",
            rows=(_R1,),
            writers=((_LATE,),),
            instants=_AROUND_DEADLINE,
            messages=(("work", work_message(), 1 + more),),
            runs={SUBMITTER.name: 1, EXPIRY.name: 2},
            together={EXPIRY.name: 2, CLEANUP.name: more},
            fault_kinds=kinds,
            calms=(_TOO_LATE,),
        ),
        Configuration(
            "all roles around the deadline",
            rows=(_R1,),
            writers=((_REWRITTEN,),),
            instants=_AROUND_DEADLINE,
            messages=(("work", work_message(), 1),),
            runs={SUBMITTER.name: 1, EXPIRY.name: 1, AGE_OUT.name: 1},
            faults=0,
            fault_kinds=kinds,
            calms=(_TOO_LATE,),
        ),
        Configuration(
            "flush of the unfinished hour",
            rows=(_R1,),
            writers=((_R2, _LATE),) if larger else ((_R2,),),
            instants=(flush_expiry - 2 * _MINUTE, flush_expiry + _MINUTE),
            messages=(),
            runs={FLUSH.name: 2, SUBMITTER.name: 1 + more},
            together={CLEANUP.name: more},
            fault_kinds=kinds,
            submit_mode="deprovisioning",
            license_expiry=flush_expiry,
            calms=(
                Calm(_IN_TIME.instants, frozenset({"Success", "CustomerNotSubscribed"})),
                Calm(_TOO_LATE.instants, _CLOSED | {"CustomerNotSubscribed"}),
            ),
        ),
    ]
    return [replace(each, faults=each.faults + more, first_reads=larger) for each in explored]


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore from the command line: ``python -m tests.simulation.explorer [--larger] [NAME ...]``.

    Returns 0 when no promise is broken; else the schedule that breaks one is printed, and 1 returned.
    """
    parser = argparse.ArgumentParser(prog="explorer", description=main.__doc__)
    parser.add_argument("--larger", action="store_true", help="larger bounds, for soaking")
    parser.add_argument("names", nargs="*", help="configurations; all when none is named")
    chosen = parser.parse_args(arguments)
    broken = 0
    for configuration in configurations(larger=chosen.larger):
        if chosen.names and configuration.name not in chosen.names:
            continue
        try:
            print(Explorer(configuration).run().line(), flush=True)
        except Violation as violation:
            print(violation, flush=True)
            broken = 1
    return broken


if __name__ == "__main__":
    sys.exit(main())
