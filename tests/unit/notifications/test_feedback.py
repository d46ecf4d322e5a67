"""What a provider reports back, and the suppressions that follow."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from awsmp.domain.errors import PartialFailure, StoreUnavailable
from awsmp.domain.notifications.feedback import (
    ClearingReason,
    Feedback,
    FeedbackConflict,
    FeedbackKind,
    FeedbackRefused,
    RefusalCode,
    UnknownDelivery,
)
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.messages import Message
from awsmp.domain.notifications.outbox import Delivery, DeliveryStatus, EntryStatus
from awsmp.domain.notifications.ports import OutcomeUnknown, TransportFailed, TransportRefused
from awsmp.domain.notifications.store import Link, MessageLink, Queue
from awsmp.domain.ports import Metric
from awsmp.usecases.notifications.administer import (
    NoActiveSuppression,
    NotRequeueable,
    UnknownClearingReason,
)
from awsmp.usecases.notifications.feedback import FeedbackOutcome
from tests.unit.notifications.world import OWNER, START, TABLE, World, feedback

SOFT, HARD, COMPLAINT = FeedbackKind.SOFT_BOUNCE, FeedbackKind.HARD_BOUNCE, FeedbackKind.COMPLAINT
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture
def world() -> World:
    return World()


def deliver(world: World, event_id: str = "evt-1") -> Delivery:
    entry = world.queue(event_id=event_id)
    world.send()
    return world.delivery_of(entry.entry_id)


def refusal(world: World, report: Feedback) -> RefusalCode:
    before = len(world.dynamodb.items(TABLE))
    with pytest.raises(FeedbackRefused) as refused:
        world.feed(report)
    assert len(world.dynamodb.items(TABLE)) == before, "nothing of a refused report is stored"
    assert world.telemetry.total(Metric.FEEDBACK_REFUSED, refused.value.code.value) == 1
    return refused.value.code


def digest(world: World) -> str:
    return world.digests.digest(OWNER.address)


# -- one report ---------------------------------------------------------------------------------------


def test_the_same_event_again_has_no_effect(world: World) -> None:
    report = feedback(deliver(world))
    assert world.feed(report) is FeedbackOutcome.RECORDED
    before = world.stored_text()
    assert world.feed(report) is FeedbackOutcome.DUPLICATE
    assert world.stored_text() == before


@pytest.mark.parametrize(
    "change",
    [{"kind": COMPLAINT}, {"at": START + timedelta(seconds=1)}, {"message_id": "provider-1"}],
)
def test_the_same_id_with_other_content_is_an_error_logged_and_counted_for_an_alarm(
    world: World, change: dict[str, object]
) -> None:
    delivery = deliver(world)
    world.feed(feedback(delivery))
    before = world.stored_text()
    changed = {"kind": HARD, "delivery_id": delivery.delivery_id} | change
    with pytest.raises(FeedbackConflict):
        world.feed(feedback(delivery, **changed))  # type: ignore[arg-type]
    assert world.stored_text() == before
    assert world.telemetry.total(Metric.FEEDBACK_CONFLICT) == 1
    assert len(world.telemetry.error_lines) == 1


def test_the_key_is_provider_and_event_id(world: World) -> None:
    delivery = deliver(world)
    world.feed(feedback(delivery, SOFT))
    other = Feedback("smtp", "fb-1", SOFT, START, delivery_id=delivery.delivery_id)
    assert world.feed(other) is FeedbackOutcome.RECORDED


@pytest.mark.parametrize(
    ("offset", "refused"), [(5 * MINUTE, False), (5 * MINUTE + timedelta(seconds=1), True)]
)
def test_a_time_more_than_5_minutes_in_the_future_is_refused(
    world: World, offset: timedelta, refused: bool
) -> None:
    report = feedback(deliver(world), at=world.clock.now() + offset)
    if refused:
        assert refusal(world, report) is RefusalCode.IN_FUTURE
    else:
        assert world.feed(report) is FeedbackOutcome.RECORDED


@pytest.mark.parametrize(
    ("offset", "refused"), [(5 * MINUTE, False), (5 * MINUTE + timedelta(seconds=1), True)]
)
def test_a_time_more_than_5_minutes_before_the_delivery_is_refused(
    world: World, offset: timedelta, refused: bool
) -> None:
    report = feedback(deliver(world), at=START - offset)
    if refused:
        assert refusal(world, report) is RefusalCode.BEFORE_DELIVERY
    else:
        assert world.feed(report) is FeedbackOutcome.RECORDED


def test_feedback_on_a_delivery_that_was_never_attempted_is_refused(world: World) -> None:
    entry = world.queue()
    world.contacts.on_read = lambda read: world.contacts.set() if read == 2 else None
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    assert delivery.status is DeliveryStatus.SKIPPED
    assert refusal(world, feedback(delivery, at=START)) is RefusalCode.BEFORE_DELIVERY


@pytest.mark.parametrize("by", ["delivery", "message", "both"])
def test_the_delivery_is_found_by_its_id_or_by_the_providers_message_id(world: World, by: str) -> None:
    delivery = deliver(world)
    report = feedback(
        delivery,
        delivery_id=None if by == "message" else delivery.delivery_id,
        message_id=None if by == "delivery" else delivery.message_id,
    )
    world.feed(report)
    assert world.delivery_of(delivery.entry_id).feedback_kind == HARD


def test_delivery_id_and_message_id_must_agree(world: World) -> None:
    first, second = deliver(world), deliver(world, "evt-2")
    report = feedback(first, delivery_id=first.delivery_id, message_id=second.message_id)
    assert refusal(world, report) is RefusalCode.IDS_DISAGREE


def test_a_message_id_that_the_delivery_cannot_have_disagrees(world: World) -> None:
    first = deliver(world)
    report = feedback(first, delivery_id=first.delivery_id, message_id="of-nobody")
    assert refusal(world, report) is RefusalCode.IDS_DISAGREE


def test_after_a_lost_answer_a_message_id_that_we_were_never_told_is_taken(world: World) -> None:
    entry = world.queue()

    def lose(_message: Message) -> None:
        raise OutcomeUnknown("ReadTimeout")

    world.provider.after = lose
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    report = feedback(delivery, delivery_id=delivery.delivery_id, message_id="provider-1")
    assert world.feed(report) is FeedbackOutcome.RECORDED


def test_an_ambiguous_message_id_is_refused(world: World) -> None:
    first, second = deliver(world), deliver(world, "evt-2")
    assert first.message_id is not None
    world.store.commit(Link(MessageLink(first.message_id, second.delivery_id)))
    assert refusal(world, feedback(first, message_id=first.message_id)) is RefusalCode.MESSAGE_ID_AMBIGUOUS
    both = feedback(first, delivery_id=first.delivery_id, message_id=first.message_id)
    with pytest.raises(FeedbackRefused):
        world.feed(both)


@pytest.mark.parametrize("known", ["message", "delivery"])
def test_a_report_about_no_delivery_of_ours_is_tried_again_later(world: World, known: str) -> None:
    delivery = deliver(world)
    other = delivery.delivery_id[:-1] + ("0" if delivery.delivery_id[-1] != "0" else "1")
    report = feedback(
        delivery,
        delivery_id=other if known == "delivery" else None,
        message_id="not-yet-known" if known == "message" else None,
    )
    with pytest.raises(UnknownDelivery):
        world.feed(report)
    assert world.store.feedback(report.key) is None


@pytest.mark.parametrize(
    "ids",
    [
        {"provider": "ses", "event_id": "someone@buyer.example", "delivery_id": "d"},
        {"provider": "", "event_id": "e", "delivery_id": "d"},
        {"provider": "ses", "event_id": "e"},
        {"provider": "ses", "event_id": "e", "message_id": "two words"},
        {"provider": "ses", "event_id": "e", "message_id": "x" * 256},
    ],
)
def test_a_report_with_malformed_ids_cannot_be_made(ids: dict[str, str]) -> None:
    with pytest.raises(FeedbackRefused):
        Feedback(kind=HARD, occurred_at=START, **ids)


# -- gravity ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reports", "kind", "minute"),
    [
        ([(SOFT, 1), (HARD, 2)], HARD, 2),
        ([(HARD, 2), (SOFT, 3)], HARD, 2),
        ([(COMPLAINT, 1), (HARD, 2), (SOFT, 3)], COMPLAINT, 1),
        ([(SOFT, 1), (SOFT, 2)], SOFT, 2),
        ([(SOFT, 2), (SOFT, 1)], SOFT, 2),
        ([(HARD, 1), (COMPLAINT, 2), (COMPLAINT, 3)], COMPLAINT, 3),
    ],
)
def test_a_delivery_keeps_its_gravest_feedback_and_of_equal_ones_the_newest(
    world: World, reports: list[tuple[FeedbackKind, int]], kind: FeedbackKind, minute: int
) -> None:
    delivery = deliver(world)
    world.wait(10 * MINUTE)
    for number, (each, at) in enumerate(reports):
        world.feed(feedback(delivery, each, event_id=f"fb-{number}", at=START + at * MINUTE))
    marked = world.delivery_of(delivery.entry_id)
    assert (marked.feedback_kind, marked.feedback_at) == (kind, START + minute * MINUTE)


@pytest.mark.parametrize(("kind", "suppressed"), [(SOFT, False), (HARD, True), (COMPLAINT, True)])
def test_a_hard_bounce_and_a_complaint_suppress_and_a_soft_bounce_does_not(
    world: World, kind: FeedbackKind, suppressed: bool
) -> None:
    world.feed(feedback(deliver(world), kind))
    world.queue(event_id="evt-2")
    world.send()
    assert len(world.provider.accepted) == (1 if suppressed else 2)
    assert (world.store.suppression(OWNER.recipient_id, digest(world)) is not None) is suppressed


def test_a_complaint_is_never_downgraded_to_a_bounce(world: World) -> None:
    delivery = deliver(world)
    world.feed(feedback(delivery, COMPLAINT, event_id="fb-1"))
    world.feed(feedback(delivery, HARD, event_id="fb-2"))
    world.feed(feedback(delivery, SOFT, event_id="fb-3"))
    found = world.store.suppression(OWNER.recipient_id, digest(world))
    assert found is not None
    assert found.kind is COMPLAINT


def test_a_cleared_suppression_that_is_hit_again_is_active_again_from_the_new_time(world: World) -> None:
    delivery = deliver(world)
    world.feed(feedback(delivery, HARD, event_id="fb-1"))
    world.administration().clear_suppression(OWNER.recipient_id, digest(world), "customer_request")
    world.wait(DAY)
    world.feed(feedback(delivery, HARD, event_id="fb-2", at=START + DAY))
    found = world.store.suppression(OWNER.recipient_id, digest(world))
    assert found is not None
    assert (found.is_active, found.since, found.cleared_reason) == (True, START + DAY, None)


# -- clearing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", list(ClearingReason))
def test_an_administrator_clears_a_suppression_with_a_reason_and_an_audit_entry(
    world: World, reason: ClearingReason
) -> None:
    world.feed(feedback(deliver(world)))
    world.administration().clear_suppression(OWNER.recipient_id, digest(world), reason.value)
    assert ("suppression_cleared", reason.value, {"cleared": 1}) in world.audited()
    world.queue(event_id="evt-2")
    world.send()
    assert len(world.provider.accepted) == 2


@pytest.mark.parametrize("reason", ["", "because", "Customer_Request"])
def test_no_other_reason_clears(world: World, reason: str) -> None:
    world.feed(feedback(deliver(world)))
    with pytest.raises(UnknownClearingReason):
        world.administration().clear_suppression(OWNER.recipient_id, digest(world), reason)
    assert len(world.administration().suppressions(10)) == 1


def test_what_is_not_suppressed_cannot_be_cleared(world: World) -> None:
    with pytest.raises(NoActiveSuppression):
        world.administration().clear_suppression("contact-owner", digest(world), "customer_request")
    world.feed(feedback(deliver(world)))
    world.administration().clear_suppression("contact-owner", digest(world), "customer_request")
    with pytest.raises(NoActiveSuppression):
        world.administration().clear_suppression("contact-owner", digest(world), "customer_request")
    assert world.administration().suppressions(10) == []
    assert len(world.administration().suppressions_of("contact-owner")) == 1


# -- retention ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "purged"), [(365 * DAY - timedelta(seconds=1), 0), (365 * DAY, 1)])
def test_feedback_is_purged_after_365_days_and_the_purge_is_audited(
    world: World, age: timedelta, purged: int
) -> None:
    report = feedback(deliver(world))
    world.feed(report)
    world.wait(age)
    assert world.maintain().purged == purged
    assert (world.store.feedback(report.key) is None) is bool(purged)
    expected = [("feedback_purged", "feedback_retention", {"purged": 1})] if purged else []
    assert world.audited() == expected


def test_suppressions_outlive_the_feedback_that_made_them(world: World) -> None:
    world.feed(feedback(deliver(world)))
    world.wait(400 * DAY)
    assert world.maintain().purged == 1
    world.queue(event_id="evt-2")
    world.send()
    assert len(world.provider.accepted) == 1


def test_the_purge_is_bounded_per_run_and_counts_what_it_deleted() -> None:
    world = World(limits=Limits(batch=60))
    delivery = deliver(world)
    for number in range(70):
        world.feed(feedback(delivery, SOFT, event_id=f"fb-{number}"))
    world.wait(366 * DAY)
    assert [world.maintain().purged, world.maintain().purged, world.maintain().purged] == [60, 10, 0]
    counted = sum(counts["purged"] for action, _, counts in world.audited() if action == "feedback_purged")
    assert counted == 70


def test_an_administrator_purges_too(world: World) -> None:
    delivery = deliver(world)
    for number in range(3):
        world.feed(feedback(delivery, SOFT, event_id=f"fb-{number}"))
    world.wait(366 * DAY)
    assert world.administration().purge(2) == 2
    assert world.administration().purge(10_000) == 1


# -- administration of entries ------------------------------------------------------------------------


def fail(world: World, error: Exception, event_id: str = "evt-1") -> str:
    entry = world.queue(event_id=event_id)

    def refuse(_message: Message) -> None:
        raise error

    world.provider.before = refuse
    world.try_send()
    world.provider.before = lambda _: None
    return entry.entry_id


@pytest.mark.parametrize("error", [TransportFailed("Throttling"), TransportRefused("MessageRejected")])
def test_an_administrator_requeues_a_failed_entry_whatever_it_failed_of(
    world: World, error: Exception
) -> None:
    entry_id = fail(world, error)
    queue = Queue.RETRYABLE if isinstance(error, TransportFailed) else Queue.FAILED
    assert [each.entry_id for each in world.administration().entries(queue, 10)] == [entry_id]
    world.administration().requeue(entry_id)
    assert "entry_requeued" in [each[0] for each in world.audited()]
    world.send()
    assert world.entry(entry_id).status is EntryStatus.PROCESSED


def test_an_entry_whose_attempts_are_used_up_is_not_requeued() -> None:
    world = World(limits=Limits(max_attempts=1))
    entry_id = fail(world, TransportFailed("Throttling"))
    with pytest.raises(NotRequeueable):
        world.administration().requeue(entry_id)


@pytest.mark.parametrize("state", ["pending", "processed", "unknown"])
def test_only_failed_entries_are_requeued(world: World, state: str) -> None:
    entry_id = world.queue().entry_id if state != "unknown" else "0" * 64
    if state == "processed":
        world.send()
    with pytest.raises(NotRequeueable):
        world.administration().requeue(entry_id)


def test_the_audit_of_a_day_is_listed_in_order(world: World) -> None:
    fail(world, TransportFailed("Throttling"))
    world.wait(MINUTE)
    deliver(world, "evt-2")
    listed = world.administration().audit(date(2026, 11, 10), 10)
    assert [each.detail for each in listed] == ["notification_delivery_failed", "notification_delivered"]
    assert world.administration().audit(date(2026, 11, 10), 1) == listed[:1]


# -- privacy ------------------------------------------------------------------------------------------


def test_no_address_name_or_text_is_in_any_item_metric_or_log_line(world: World) -> None:
    delivery = deliver(world)
    world.feed(feedback(delivery, COMPLAINT))
    with pytest.raises(FeedbackConflict):
        world.feed(feedback(delivery, SOFT))
    world.administration().clear_suppression(OWNER.recipient_id, digest(world), "address_corrected")
    fail(world, TransportRefused("554 owner.first@buyer.example rejected"), "evt-2")
    (message, *_rest) = world.provider.accepted
    text = world.stored_text() + world.logged_text()
    for secret in ("owner.first", "buyer.example", "seller.example", message.subject, "Example Product", "@"):
        assert secret not in text


def test_feedback_is_stored_without_anything_of_the_providers_payload(world: World) -> None:
    report = feedback(deliver(world))
    world.feed(report)
    (item,) = [each for each in world.dynamodb.items(TABLE) if each["sk"] == {"S": "feedback"}]
    assert set(item) == {
        "pk", "sk", "version", "updatedAt", "workQueue", "dueAt", "key", "content", "provider", "kind",
        "deliveryId", "occurredAt", "receivedAt",
    }  # fmt: skip
    assert json.dumps(item).count("@") == 0


def test_a_purge_that_cannot_write_fails_loudly_and_deletes_nothing(world: World) -> None:
    report = feedback(deliver(world))
    world.feed(report)
    world.wait(366 * DAY)

    def broken(_service: str, operation: str, _arguments: object) -> None:
        if operation == "TransactWriteItems":
            raise StoreUnavailable("injected")

    world.client.before_call = broken
    with pytest.raises(PartialFailure):
        world.administration().purge(10)
    world.client.before_call = None
    assert world.store.feedback(report.key) is not None
