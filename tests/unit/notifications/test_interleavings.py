"""Reports, purges and administrators' acts that meet another writer halfway; entries of many recipients."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from awsmp.domain.errors import StoreUnavailable
from awsmp.domain.notifications.billing_events import (
    MAX_EVENT_BYTES,
    MalformedBillingEvent,
    parse_billing_event,
)
from awsmp.domain.notifications.feedback import FeedbackKind
from awsmp.domain.notifications.messages import EmailAddress, InvalidMessage, Message
from awsmp.domain.notifications.outbox import DeliveryStatus, EntryStatus
from awsmp.domain.notifications.ports import OutcomeUnknown, Recipient, TransportFailed
from awsmp.domain.notifications.store import Save
from awsmp.usecases.notifications.administer import NotRequeueable
from awsmp.usecases.notifications.compose import Composer
from awsmp.usecases.notifications.feedback import FeedbackIntake, FeedbackOutcome
from tests.unit.notifications.world import OWNER, SECOND, START, TABLE, World, billing, feedback

MINUTE = timedelta(minutes=1)
SOFT, HARD, COMPLAINT = FeedbackKind.SOFT_BOUNCE, FeedbackKind.HARD_BOUNCE, FeedbackKind.COMPLAINT


@pytest.fixture
def world() -> World:
    return World()


def before_write(world: World, act: Callable[[], object], *, skip: int = 0, times: int = 1) -> Any:
    """Return a store whose write number ``skip`` finds that ``act`` has just been done by somebody else."""
    seen = [0]

    def before(_service: str, operation: str, _arguments: object) -> None:
        if operation == "TransactWriteItems":
            seen[0] += 1
            if skip < seen[0] <= skip + times:
                act()

    return world.store_of(world.dynamodb.client(before_call=before))


def lose(_message: Message) -> None:
    raise OutcomeUnknown("ReadTimeout")


def test_a_complaint_about_an_earlier_attempt_stops_the_next_one_at_the_last_moment(world: World) -> None:
    entry = world.queue()
    world.provider.after = lose
    world.send()
    world.provider.after = lambda _: None
    world.wait(6 * MINUTE)
    world.maintain()
    report = feedback(world.delivery_of(entry.entry_id), COMPLAINT)
    # The second write of the run is the one that says "sending"; the first is the claim.
    store = before_write(world, lambda: world.feed(report) and None, skip=1)
    world.sender(store).run(world.clock.now() + 14 * MINUTE)
    delivery = world.delivery_of(entry.entry_id)
    assert len(world.provider.accepted) == 1
    assert (delivery.status, delivery.code) == (DeliveryStatus.SKIPPED, "notification_recipient_suppressed")
    assert world.entry(entry.entry_id).status is EntryStatus.PROCESSED


def test_of_two_reports_at_once_both_are_kept_and_the_gravest_counts(world: World) -> None:
    entry = world.queue()
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    complaint = feedback(delivery, COMPLAINT, event_id="fb-2")
    store = before_write(world, lambda: world.feed(complaint))
    intake = FeedbackIntake(store, world.clock, world.telemetry)
    assert intake.handle(feedback(delivery, HARD, event_id="fb-1")) is FeedbackOutcome.RECORDED
    assert world.delivery_of(entry.entry_id).feedback_kind == COMPLAINT
    (suppression,) = world.store.suppressions(OWNER.recipient_id)
    assert suppression.kind is COMPLAINT


def test_of_the_same_report_twice_at_once_one_is_a_duplicate(world: World) -> None:
    entry = world.queue()
    world.send()
    report = feedback(world.delivery_of(entry.entry_id))
    store = before_write(world, lambda: world.feed(report))
    intake = FeedbackIntake(store, world.clock, world.telemetry)
    assert intake.handle(report) is FeedbackOutcome.DUPLICATE


def test_of_two_purges_at_once_each_counts_what_it_deleted_itself(world: World) -> None:
    entry = world.queue()
    world.send()
    for number in range(5):
        report = feedback(world.delivery_of(entry.entry_id), SOFT, event_id=f"fb-{number}")
        world.feed(report)
    world.wait(timedelta(days=366))
    other: list[int] = []
    store = before_write(world, lambda: other.append(world.administration().purge(2)))
    purged = world.maintain(store).purged
    assert (other, purged) == ([2], 3)
    audited = [counts["purged"] for action, _, counts in world.audited() if action == "feedback_purged"]
    assert sum(audited) == 5


def test_an_administrator_who_is_second_to_requeue_is_told_so(world: World) -> None:
    entry = world.queue()

    def refuse(_message: Message) -> None:
        raise TransportFailed("Throttling")

    world.provider.before = refuse
    world.send()
    world.wait(6 * MINUTE)
    store = before_write(world, world.maintain)
    with pytest.raises(NotRequeueable):
        replace(world.administration(), store=store).requeue(entry.entry_id)
    assert world.entry(entry.entry_id).status is EntryStatus.PENDING


def test_a_suppression_that_is_hit_while_it_is_being_cleared_is_cleared_as_it_is_then(world: World) -> None:
    entry = world.queue()
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    world.feed(feedback(delivery, HARD))
    complaint = feedback(delivery, COMPLAINT, event_id="fb-2")
    store = before_write(world, lambda: world.feed(complaint))
    digest = world.digests.digest(OWNER.address)
    administration = replace(world.administration(), store=store)
    cleared = administration.clear_suppression(OWNER.recipient_id, digest, "customer_request")
    assert (cleared.is_active, cleared.kind) == (False, COMPLAINT)


def many(number: int) -> list[Recipient]:
    return [
        Recipient(f"contact-{n}", EmailAddress.parse(f"c{n}@buyer.example"), verified=True)
        for n in range(number)
    ]


def test_an_entry_of_more_recipients_than_a_transaction_takes_tells_each_once(world: World) -> None:
    entry = world.queue()
    world.contacts.set(*many(205))
    world.send()
    assert len({address for address, _ in world.provider.told}) == len(world.provider.accepted) == 205
    assert world.entry(entry.entry_id).status is EntryStatus.PROCESSED


def test_recipients_that_were_made_halfway_are_completed(world: World) -> None:
    entry = world.queue()
    world.contacts.set(*many(205))

    def fail() -> None:
        raise StoreUnavailable("injected")

    # The third write is the second part of the deliveries; it fails as often as it is tried.
    broken = before_write(world, fail, skip=2, times=4)
    with pytest.raises(Exception, match="steps of the send run failed"):
        world.sender(broken).run(world.clock.now() + 14 * MINUTE)
    assert 0 < len(world.deliveries(entry.entry_id)) < 205
    assert world.provider.accepted == []
    world.wait(6 * MINUTE)
    world.maintain()
    world.send()
    assert len(world.provider.accepted) == 205


class BrokenFor:
    """Composes for everybody but one."""

    def __init__(self, composer: Composer, recipient: Recipient) -> None:
        self._composer, self._recipient = composer, recipient

    def compose(self, kind: Any, product: Any, recipient: Recipient, delivery: str) -> Message:
        if recipient.recipient_id == self._recipient.recipient_id:
            raise InvalidMessage("the subject is too long")
        return self._composer.compose(kind, product, recipient, delivery)


def test_a_message_that_cannot_be_made_fails_its_delivery_for_good_and_no_other(world: World) -> None:
    entry = world.queue()
    world.contacts.set(OWNER, SECOND)
    broken: Any = BrokenFor(world.composer, OWNER)
    world.composer = broken
    assert world.try_send() is not None
    delivery = world.delivery_of(entry.entry_id, OWNER)
    assert (delivery.status, delivery.code, delivery.retryable, delivery.attempts) == (
        DeliveryStatus.FAILED,
        "InvalidMessage",
        False,
        0,
    )
    assert [address for address, _ in world.provider.told] == [SECOND.address.value]


def test_an_item_that_cannot_be_read_fails_the_run_and_keeps_no_other_from_its_turn(world: World) -> None:
    bad, good = world.queue(event_id="evt-1"), world.queue(event_id="evt-2")
    world.dynamodb.client().update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"entry#{bad.entry_id}"}, "sk": {"S": "entry"}},
        UpdateExpression="SET attempts = :odd",
        ExpressionAttributeValues={":odd": {"S": "many"}},
    )
    assert world.try_send() is not None
    assert world.entry(good.entry_id).status is EntryStatus.PROCESSED


def test_housekeeping_goes_on_behind_an_item_that_it_cannot_read(world: World) -> None:
    entries = [world.queue(event_id=f"evt-{number}") for number in range(2)]
    for entry in entries:
        known = world.entry(entry.entry_id)
        world.store.commit(Save(replace(known, status=EntryStatus.PROCESSING, claimed_at=START)))
    world.dynamodb.client().update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"entry#{entries[0].entry_id}"}, "sk": {"S": "entry"}},
        UpdateExpression="SET attempts = :odd",
        ExpressionAttributeValues={":odd": {"S": "many"}},
    )
    world.wait(16 * MINUTE)
    with pytest.raises(Exception, match="steps of the maintenance failed"):
        world.maintain()
    assert world.entry(entries[1].entry_id).status is EntryStatus.PENDING


@pytest.mark.parametrize("body", ["", "nonsense", "[]", "[" * 100_000, " " * (MAX_EVENT_BYTES + 1)])
def test_a_text_that_is_no_json_object_of_bounded_size_is_no_billing_event(body: str) -> None:
    with pytest.raises(MalformedBillingEvent):
        parse_billing_event(body)


def test_a_billing_event_is_read_from_text_and_bytes_alike() -> None:
    body = billing(current={"status": "past_due"})
    assert parse_billing_event(body) == parse_billing_event(body.encode())
    assert parse_billing_event(body).event_id == json.loads(body)["eventId"]
