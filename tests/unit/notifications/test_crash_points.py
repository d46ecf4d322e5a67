"""A notice from event to mailbox, with every call failing in every way: nothing is lost, none told twice.

The tier's calls (each read and write of the table, each read of the contacts, each send) are numbered in the
order in which a calm run makes them. Then one run is played per call and fault; afterwards time passes and
the schedules go on without faults until nothing is left to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from awsmp.domain.errors import MeteringError, StoreUnavailable
from awsmp.domain.notifications.feedback import FeedbackKind
from awsmp.domain.notifications.messages import Message
from awsmp.domain.notifications.outbox import DeliveryStatus, EntryStatus
from awsmp.domain.notifications.ports import OutcomeUnknown, TransportFailed, TransportRefused
from sandbox.memory_aws import aws_error
from tests.unit.notifications.world import (
    OWNER,
    SECOND,
    START,
    TABLE,
    World,
    active_row,
    contact_verified,
    feedback,
    row_change,
)


class Crash(BaseException):
    """The function's process ends here."""


class Fault(StrEnum):
    CRASH_BEFORE = "crash-before"
    CRASH_AFTER = "crash-after"
    ANSWER_LOST = "answer-lost"
    UNAVAILABLE = "unavailable"
    UNAVAILABLE_FOR_LONG = "unavailable-for-long"


_TRANSIENT = {Fault.UNAVAILABLE: 1, Fault.UNAVAILABLE_FOR_LONG: 4}


@dataclass
class Script:
    """Numbers the calls and makes one of them fail."""

    strike_at: int | None = None
    fault: Fault | None = None
    calls: list[str] = field(default_factory=list)
    armed: bool = True
    struck: str | None = None
    left: int = 0

    def before(self, name: str) -> None:
        if not self.armed:
            return
        if self.left:
            self.left -= 1
            raise self._error(name)
        self.calls.append(name)
        if len(self.calls) - 1 != self.strike_at:
            return
        if self.fault is Fault.CRASH_BEFORE:
            self.struck = name
            raise Crash
        if self.fault in _TRANSIENT:
            self.struck = name
            self.left = _TRANSIENT[self.fault] - 1
            raise self._error(name)

    def after(self, name: str) -> None:
        if not self.armed or self.struck or len(self.calls) - 1 != self.strike_at:
            return
        if self.fault is Fault.CRASH_AFTER:
            self.struck = name
            raise Crash
        if self.fault is Fault.ANSWER_LOST:
            self.struck = name
            raise self._lost(name)

    def _error(self, name: str) -> Exception:
        if name == "send":
            return TransportFailed("Throttling")
        if name == "contacts":
            return StoreUnavailable("contacts")
        error: Exception = aws_error("dynamodb", name, "InternalServerError", "injected")
        return error

    def _lost(self, name: str) -> Exception:
        if name == "send":
            return OutcomeUnknown("ReadTimeout")
        if name == "contacts":
            return StoreUnavailable("contacts")
        error: Exception = ReadTimeoutError(endpoint_url="https://dynamodb.example")
        return error


def scripted(script: Script) -> World:
    world = World()

    def before(_service: str, operation: str, _arguments: Mapping[str, Any]) -> None:
        script.before(operation)

    def after(_service: str, operation: str, _arguments: Mapping[str, Any], _answer: dict[str, Any]) -> None:
        script.after(operation)

    def before_send(_message: Message) -> None:
        script.before("send")

    def after_send(_message: Message) -> None:
        script.after("send")

    world.store = world.store_of(world.dynamodb.client(before_call=before, after_call=after))
    world.provider.before, world.provider.after = before_send, after_send
    world.contacts.on_read = lambda _: script.before("contacts")
    return world


def play(world: World, script: Script) -> None:
    """Purchase, registration of two contacts, verification; the sender's and the maintenance's schedules."""
    unregistered = active_row(home=None)
    registered = active_row()
    bodies = [
        row_change(None, unregistered),
        row_change(unregistered, registered, event_id="stream-2", at=START + timedelta(minutes=1)),
        contact_verified(at=START + timedelta(minutes=2)),
    ]
    world.contacts.set()
    for number, body in enumerate(bodies):
        if number == 2:
            world.contacts.set(OWNER, SECOND)
        redeliver(world, body)
    attempt(world.send)
    world.wait(timedelta(minutes=1))
    attempt(world.maintain)
    script.armed = False
    for _ in range(12):
        world.wait(timedelta(minutes=16))
        attempt(world.maintain)
        attempt(world.send)


def attempt(call: Any) -> None:
    try:
        call()
    except (Crash, MeteringError):
        return


def redeliver(world: World, body: str) -> None:
    for _ in range(6):
        try:
            world.take(body)
        except (Crash, MeteringError):
            continue
        return
    pytest.fail("the message was never taken in")


def calm_calls() -> list[str]:
    script = Script()
    play(scripted(script), script)
    return script.calls


CALLS = calm_calls()
CASES = [
    pytest.param(position, fault, id=f"{position:02d}-{name}-{fault}")
    for position, name in enumerate(CALLS)
    for fault in Fault
]


def items(world: World, prefix: str) -> list[dict[str, Any]]:
    return [item for item in world.dynamodb.items(TABLE) if item["sk"]["S"].startswith(prefix)]


@pytest.mark.parametrize(("position", "fault"), CASES)
def test_whatever_call_fails_each_recipient_is_told_once_and_no_entry_is_stuck(
    position: int, fault: Fault
) -> None:
    script = Script(position, fault)
    world = scripted(script)
    play(world, script)
    if script.struck is None:
        assert (fault, CALLS[position]) in {
            (Fault.ANSWER_LOST, "contacts"),
            (Fault.CRASH_AFTER, "contacts"),
        }, "only a read of the contacts has no moment after it"
    sends = Counter((message.recipient.value, message.delivery_id) for message in world.provider.accepted)
    lost = script.struck == "send" and fault in (Fault.CRASH_AFTER, Fault.ANSWER_LOST)
    # The write that records an acceptance fails four times, or the process ends before it is done: for us
    # that is the same as an answer that never came.
    unrecorded = recording(world, script)
    assert {address for address, _ in sends} == {OWNER.address.value, SECOND.address.value}
    assert len({delivery for _, delivery in sends}) == 2, "a resend carries the same delivery id"
    assert sum(sends.values()) == 2 + (1 if lost or unrecorded else 0)
    (entry,) = items(world, "entry")
    assert entry["status"]["S"] == EntryStatus.PROCESSED
    assert [each["status"]["S"] for each in items(world, "delivery#") if "recipientId" in each] == [
        DeliveryStatus.SENT,
        DeliveryStatus.SENT,
    ]


def recording(world: World, script: Script) -> bool:
    """Tell whether the fault kept an acceptance from being recorded.

    The call after a send is the write that records it.
    """
    if script.struck != "TransactWriteItems" or script.strike_at is None:
        return False
    follows_send = CALLS[script.strike_at - 1] == "send"
    return follows_send and script.fault in (Fault.CRASH_BEFORE, Fault.UNAVAILABLE_FOR_LONG)


def test_the_enumeration_covers_every_kind_of_call() -> None:
    assert {"GetItem", "Query", "TransactWriteItems", "send", "contacts"} == set(CALLS)
    assert CALLS.count("send") == 2


FEEDBACK_FAULTS = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.UNAVAILABLE_FOR_LONG]


@pytest.mark.parametrize("fault", FEEDBACK_FAULTS)
@pytest.mark.parametrize("position", range(6))
def test_whatever_call_of_the_feedback_fails_the_recipient_is_suppressed_once(
    position: int, fault: Fault
) -> None:
    script = Script(armed=False)
    world = scripted(script)
    entry = world.queue()
    world.send()
    report = feedback(world.delivery_of(entry.entry_id), FeedbackKind.COMPLAINT)
    script.calls.clear()
    script.armed, script.strike_at, script.fault = True, position, fault
    for _ in range(6):
        attempt(lambda: world.feed(report))
    script.armed = False
    assert world.delivery_of(entry.entry_id).feedback_kind == "complaint"
    (suppression,) = world.store.suppressions(OWNER.recipient_id)
    assert suppression.is_active
    world.queue(event_id="evt-2")
    world.send()
    assert len(world.provider.accepted) == 1


@pytest.mark.parametrize("refusal", [TransportRefused("MessageRejected"), TransportFailed("Throttling")])
def test_a_refused_send_is_not_repeated_within_the_run(refusal: MeteringError) -> None:
    world = World()
    entry = world.queue()

    def refuse(_message: Message) -> None:
        raise refusal

    world.provider.before = refuse
    world.send()
    assert world.provider.calls == 1
    assert world.entry(entry.entry_id).status is EntryStatus.FAILED


def test_no_address_is_in_any_item_or_log_line_after_all_that() -> None:
    for fault in (Fault.ANSWER_LOST, Fault.UNAVAILABLE_FOR_LONG):
        for position, name in enumerate(CALLS):
            if name in ("send", "TransactWriteItems"):
                script = Script(position, fault)
                world = scripted(script)
                play(world, script)
                text = world.stored_text() + world.logged_text()
                for recipient in (OWNER, SECOND):
                    assert recipient.address.value not in text
                    assert recipient.address.value.partition("@")[0] not in text
