"""Senders, housekeeping and changes of the world at every moment of a send run.

A second actor runs before each call of the first one, one call per case. Where the first is held up for
longer than its claim stands, the second takes its entry over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.feedback import FeedbackKind, Suppression
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.messages import Message
from awsmp.domain.notifications.outbox import EntryStatus
from awsmp.domain.notifications.store import Save
from awsmp.usecases.notifications.requeueing import recover_entry
from awsmp.usecases.notifications.send import Sender
from tests.unit.notifications.world import OWNER, SECOND, START, World

_HELD_UP = timedelta(minutes=16)


@dataclass
class Interruption:
    """Runs ``act`` once, before the call of that number (or after it)."""

    at: int
    act: Callable[[], None]
    calls: list[str]
    after: bool = False
    done: bool = False

    def on(self, name: str) -> None:
        if self.done:
            return
        self.calls.append(name)
        if len(self.calls) - 1 == self.at and not self.after:
            self.run()

    def on_after(self) -> None:
        if self.after and not self.done and len(self.calls) - 1 == self.at:
            self.run()

    def run(self) -> None:
        self.done = True
        self.act()


def interrupted_sender(world: World, interruption: Interruption) -> Sender:
    """Return a sender that is interrupted at its calls of the table, the contacts and the provider."""

    def before(_service: str, operation: str, _arguments: Mapping[str, Any]) -> None:
        interruption.on(operation)

    def after(_service: str, _operation: str, _arguments: Mapping[str, Any], _answer: dict[str, Any]) -> None:
        interruption.on_after()

    class Contacts:
        def owners(self, license_arn: str, account: str) -> Any:
            interruption.on("contacts")
            return world.contacts.owners(license_arn, account)

    class Provider:
        def send(self, message: Message) -> str:
            interruption.on("send")
            identifier = world.provider.send(message)
            interruption.on_after()
            return identifier

    client = world.dynamodb.client(before_call=before, after_call=after)
    return replace(world.sender(world.store_of(client)), recipients=Contacts(), transport=Provider())


def fresh() -> World:
    world = World()
    world.contacts.set(OWNER, SECOND)
    world.queue()
    return world


def calls_of_a_run() -> list[str]:
    world = fresh()
    calls: list[str] = []
    interruption = Interruption(10_000, lambda: None, calls)
    interrupted_sender(world, interruption).run(START + timedelta(minutes=14))
    return calls


CALLS = calls_of_a_run()
MOMENTS = [
    pytest.param(number, after, id=f"{number:02d}-{'after' if after else 'before'}-{name}")
    for number, name in enumerate(CALLS)
    for after in (False, True)
    if not (after and name == "contacts")
]


def settle(world: World) -> None:
    for _ in range(6):
        world.wait(_HELD_UP)
        for call in (world.maintain, world.send):
            try:
                call()
            except MeteringError:
                continue


def play(world: World, number: int, after: bool, act: Callable[[], None]) -> None:
    interruption = Interruption(number, act, [], after)
    try:
        interrupted_sender(world, interruption).run(START + timedelta(minutes=14))
    except MeteringError:
        assert interruption.done
    assert interruption.done


def sends(world: World) -> Counter[str]:
    return Counter(message.delivery_id for message in world.provider.accepted)


def statuses(world: World) -> set[EntryStatus]:
    return {
        EntryStatus(item["status"]["S"])
        for item in world.dynamodb.items("awsmp-notifications")
        if item["sk"]["S"] == "entry"
    }


@pytest.mark.parametrize(("number", "after"), MOMENTS)
def test_a_second_sender_and_housekeeping_at_any_moment_send_nothing_twice(number: int, after: bool) -> None:
    world = fresh()

    def act() -> None:
        world.send()
        world.maintain()

    play(world, number, after, act)
    settle(world)
    assert sorted(sends(world).values()) == [1, 1]
    assert statuses(world) == {EntryStatus.PROCESSED}


def is_between_acceptance_and_record(number: int, after: bool) -> bool:
    """Tell whether the provider may have the message and the table does not know it yet."""
    at_send = CALLS[number] == "send"
    return at_send or (not after and CALLS[number - 1] == "send")


def hold_up(number: int, after: bool) -> World:
    """Play a run that is held up for longer than its claim, while another sender takes over."""
    world = fresh()

    def act() -> None:
        world.wait(_HELD_UP)
        world.maintain()
        world.send()

    play(world, number, after, act)
    settle(world)
    assert statuses(world) == {EntryStatus.PROCESSED}
    return world


@pytest.mark.parametrize(
    ("number", "after"),
    [each for each in MOMENTS if not is_between_acceptance_and_record(*each.values)],  # type: ignore[arg-type]
)
def test_a_sender_that_was_held_up_beyond_its_claim_sends_nothing_that_its_successor_has_sent(
    number: int, after: bool
) -> None:
    assert sorted(sends(hold_up(number, after)).values()) == [1, 1]


@pytest.mark.parametrize(
    ("number", "after"),
    [each for each in MOMENTS if is_between_acceptance_and_record(*each.values)],  # type: ignore[arg-type]
)
def test_held_up_before_the_acceptance_is_recorded_a_resend_has_the_same_delivery_id(
    number: int, after: bool
) -> None:
    """The function's time-out, which is shorter than the claim, keeps this from happening in production."""
    assert sorted(sends(hold_up(number, after)).values()) == [1, 2]


@pytest.mark.parametrize(("number", "after"), MOMENTS)
def test_no_attempt_begins_below_an_entry_that_housekeeping_has_ended(number: int, after: bool) -> None:
    """Housekeeping's clock runs ahead, so it takes a living sender for a dead one."""
    world = World(limits=Limits(max_attempts=1))
    world.contacts.set(OWNER, SECOND)
    entry_id = world.queue().entry_id

    def act() -> None:
        entry = world.entry(entry_id)
        if entry.status is EntryStatus.PROCESSING:
            recover_entry(world.store, entry, world.limits, START)

    play(world, number, after, act)
    begun = [at - 1 for at, name in enumerate(CALLS) if name == "send"]
    allowed = sum(at < number or (at == number and after) for at in begun)
    if world.entry(entry_id).reason == "notification_attempts_exhausted":
        assert len(world.provider.accepted) == allowed
    else:
        assert len(world.provider.accepted) == 2, "it was not claimed yet, or had ended already"


def last_check_of(delivery: int) -> int:
    """Return the number of the call that looks for a suppression: the last look before ``sending``."""
    writes = [number for number, name in enumerate(CALLS) if name == "send"]
    return writes[delivery] - 2


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_recipient_suppressed_before_the_last_look_gets_nothing(number: int) -> None:
    world = fresh()

    def act() -> None:
        for recipient in (OWNER, SECOND):
            suppression = Suppression(
                recipient.recipient_id,
                world.digests.digest(recipient.address),
                FeedbackKind.COMPLAINT,
                START,
                START,
            )
            world.store.commit(Save(suppression))

    play(world, number, False, act)
    settle(world)
    late = sum(number > last_check_of(each) for each in range(2))
    assert sum(sends(world).values()) == late
    assert statuses(world) == {EntryStatus.PROCESSED}


@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.parametrize(
    "gone",
    [
        pytest.param((), id="removed"),
        pytest.param((replace(OWNER, verified=False), replace(SECOND, verified=False)), id="unverified"),
        pytest.param((replace(OWNER, active=False), replace(SECOND, active=False)), id="inactive"),
    ],
)
def test_a_recipient_who_is_gone_before_the_last_look_gets_nothing(number: int, gone: Any) -> None:
    world = fresh()
    play(world, number, False, lambda: world.contacts.set(*gone))
    settle(world)
    looks = [at for at, name in enumerate(CALLS) if name == "contacts"]
    assert len(looks) == 3, "once to resolve, once more for each delivery"
    late = sum(number > look for look in looks[1:])
    assert sum(sends(world).values()) == late
    assert statuses(world) <= {EntryStatus.PROCESSED, EntryStatus.SKIPPED}


def test_two_housekeepers_requeue_and_purge_each_item_once() -> None:
    world = World()
    seen: list[int] = []

    def before(_service: str, operation: str, _arguments: Mapping[str, Any]) -> None:
        if operation == "TransactWriteItems" and not seen:
            seen.append(1)
            first.append(world.maintain())

    first: list[Any] = []
    world.queue()
    world.contacts.on_read = _unavailable
    world.try_send()
    world.contacts.on_read = lambda _: None
    world.wait(timedelta(minutes=6))
    second = world.maintain(world.store_of(world.dynamodb.client(before_call=before)))
    assert (first[0].requeued, second.requeued) == (1, 0)


def _unavailable(_read: int) -> None:
    raise MeteringError("injected")
