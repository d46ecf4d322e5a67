"""The outbox: claims, recipients at send time, deliveries, ends and what housekeeping does with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from awsmp.domain.errors import Misconfigured, PartialFailure
from awsmp.domain.notifications.feedback import FeedbackKind
from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.messages import EmailAddress, Message
from awsmp.domain.notifications.outbox import (
    DeliveryStatus,
    EntryStatus,
    begin_attempt,
    claim,
    delivery_id,
    new_entry,
    payload_of,
)
from awsmp.domain.notifications.ports import (
    UNCLASSIFIED,
    OutcomeUnknown,
    Recipient,
    SendFailure,
    TransportFailed,
    TransportRefused,
)
from awsmp.domain.notifications.store import Save
from awsmp.domain.ports import Metric
from awsmp.usecases.notifications.saving import saved
from tests.unit.notifications.world import (
    BUYER,
    LICENSE,
    OWNER,
    SECOND,
    START,
    SUBSCRIPTION,
    World,
    feedback,
)

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def world() -> World:
    return World()


def refusing(world: World, error: Exception, *, only: Recipient | None = None) -> None:
    def before(message: Message) -> None:
        if only is None or message.recipient == only.address:
            raise error

    world.provider.before = before


# -- entries ------------------------------------------------------------------------------------------


def test_an_entrys_id_is_the_sha_256_over_subscription_kind_and_provider_event(world: World) -> None:
    entry = world.queue(Kind.PAYMENT_FAILED, "evt-1")
    text = json.dumps([f"{BUYER}#{LICENSE}", "payment_failed", "evt-1"])
    assert entry.entry_id == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((Kind.PAYMENT_FAILED, "evt-1"), (Kind.PAYMENT_FAILED, "evt-2")),
        ((Kind.PAYMENT_FAILED, "evt-1"), (Kind.REFUNDED, "evt-1")),
    ],
)
def test_another_kind_or_another_event_is_another_entry(
    world: World, one: tuple[Kind, str], other: tuple[Kind, str]
) -> None:
    assert world.queue(*one).entry_id != world.queue(*other).entry_id


def test_processing_claims_the_entry_with_one_attempt_more(world: World) -> None:
    entry = world.queue()
    seen: list[tuple[EntryStatus, int]] = []

    def look(_message: Message) -> None:
        known = world.entry(entry.entry_id)
        seen.append((known.status, known.attempts))

    world.provider.before = look
    world.send()
    assert seen == [(EntryStatus.PROCESSING, 1)]


@pytest.mark.parametrize(("age", "skipped"), [(7 * DAY, False), (7 * DAY + timedelta(seconds=1), True)])
def test_an_entry_older_than_the_maximum_age_is_skipped_as_expired(
    world: World, age: timedelta, skipped: bool
) -> None:
    entry = world.queue()
    world.wait(age)
    world.send()
    ended = world.entry(entry.entry_id)
    assert (ended.reason == "notification_expired") is skipped
    assert (len(world.provider.accepted) == 0) is skipped
    assert (ended.status is EntryStatus.SKIPPED) is skipped


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("max_age", timedelta(days=1), timedelta(days=30)),
        ("stale_after", timedelta(minutes=1), timedelta(minutes=1440)),
        ("max_attempts", 1, 100),
        ("batch", 1, 1000),
        ("send_timeout", timedelta(seconds=1), timedelta(seconds=120)),
        ("feedback_retention", timedelta(days=1), timedelta(days=3650)),
    ],
)
def test_every_limit_has_its_range(name: str, least: timedelta | int, most: timedelta | int) -> None:
    step = timedelta(seconds=1) if isinstance(least, timedelta) else 1
    for value in (least, most):
        limits = {"send_timeout": timedelta(seconds=1), name: value}
        assert getattr(Limits(**limits), name) == value  # type: ignore[arg-type]
    for value in (least - step, most + step):  # type: ignore[operator]
        with pytest.raises(Misconfigured):
            Limits(**{name: value})  # type: ignore[arg-type]


def test_a_claim_may_not_go_stale_while_the_provider_is_being_called() -> None:
    with pytest.raises(Misconfigured):
        Limits(stale_after=MINUTE, send_timeout=MINUTE)


def test_the_defaults_are_those_of_the_specification() -> None:
    limits = Limits()
    assert (limits.max_age, limits.stale_after, limits.max_attempts) == (7 * DAY, 15 * MINUTE, 10)
    assert limits.feedback_retention == 365 * DAY


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"schema":"awsmp.notification","version":2}',
        json.dumps(
            {
                "schema": "awsmp.notification",
                "version": 1,
                "kind": "payment_failed",
                "subscriptionId": f"{BUYER}#{LICENSE}",
                "eventId": "another-event",
                "eventTime": "2026-11-10T08:00:00Z",
            }
        ),
    ],
)
def test_an_unreadable_payload_is_skipped_as_invalid(world: World, payload: str) -> None:
    entry = world.queue()
    broken = replace(saved(entry), payload=payload or "?")
    world.store.commit(Save(broken))
    world.send()
    ended = world.entry(entry.entry_id)
    assert (ended.status, ended.reason) == (EntryStatus.SKIPPED, "notification_payload_invalid")
    assert world.provider.accepted == []


def test_a_payload_is_read_back_as_it_was_written(world: World) -> None:
    payload = payload_of(world.queue(Kind.REFUNDED, "evt-7"))
    assert (payload.kind, payload.subscription, payload.event_id) == (Kind.REFUNDED, SUBSCRIPTION, "evt-7")


# -- recipients ---------------------------------------------------------------------------------------


def test_recipients_are_resolved_at_send_time(world: World) -> None:
    world.queue()
    world.contacts.set(SECOND)
    world.send()
    assert [address for address, _ in world.provider.told] == [SECOND.address.value]


INELIGIBLE = [
    pytest.param({"verified": False}, id="unverified"),
    pytest.param({"active": False}, id="inactive"),
    pytest.param({"entitled_until": START}, id="membership-ended"),
]


@pytest.mark.parametrize("change", INELIGIBLE)
def test_only_active_and_entitled_recipients_with_a_verified_address_are_told(
    world: World, change: dict[str, object]
) -> None:
    entry = world.queue()
    world.contacts.set(replace(OWNER, **change), SECOND)  # type: ignore[arg-type]
    world.send()
    assert [address for address, _ in world.provider.told] == [SECOND.address.value]
    assert len(world.deliveries(entry.entry_id)) == 1


@pytest.mark.parametrize("change", INELIGIBLE)
def test_an_entry_without_a_recipient_is_skipped(world: World, change: dict[str, object]) -> None:
    entry = world.queue()
    world.contacts.set(replace(OWNER, **change))  # type: ignore[arg-type]
    world.send()
    ended = world.entry(entry.entry_id)
    assert (ended.status, ended.reason) == (EntryStatus.SKIPPED, "notification_no_recipient")


def test_a_membership_that_has_not_ended_yet_entitles(world: World) -> None:
    world.queue()
    world.contacts.set(replace(OWNER, entitled_until=START + timedelta(seconds=1)))
    world.send()
    assert len(world.provider.accepted) == 1


def test_one_delivery_per_recipient_each_sent_apart(world: World) -> None:
    entry = world.queue()
    world.contacts.set(OWNER, SECOND)
    world.send()
    assert sorted(address for address, _ in world.provider.told) == [
        OWNER.address.value,
        SECOND.address.value,
    ]
    ids = {message.delivery_id for message in world.provider.accepted}
    assert ids == {delivery_id(entry.entry_id, each.recipient_id) for each in (OWNER, SECOND)}


def test_two_contacts_with_one_mailbox_are_told_once(world: World) -> None:
    world.queue()
    world.contacts.set(OWNER, replace(OWNER, recipient_id="contact-again"))
    world.send()
    assert len(world.provider.accepted) == 1


def test_an_address_is_no_recipient_id(world: World) -> None:
    world.queue()
    world.contacts.set(replace(OWNER, recipient_id=OWNER.address.value))
    with pytest.raises(PartialFailure):
        world.send()
    assert world.provider.accepted == []
    assert OWNER.address.value not in world.stored_text() + world.logged_text()


@pytest.mark.parametrize(
    "error", [TransportRefused("MessageRejected"), TransportFailed("Throttling"), OutcomeUnknown("Timeout")]
)
def test_a_failing_recipient_never_blocks_another(world: World, error: SendFailure) -> None:
    entry = world.queue()
    world.contacts.set(OWNER, SECOND)
    refusing(world, error, only=OWNER)
    world.send()
    assert [address for address, _ in world.provider.told] == [SECOND.address.value]
    assert world.delivery_of(entry.entry_id, SECOND).status is DeliveryStatus.SENT
    assert world.delivery_of(entry.entry_id, OWNER).status is DeliveryStatus.FAILED
    assert world.entry(entry.entry_id).status is EntryStatus.FAILED


def test_a_failing_entry_never_blocks_another(world: World) -> None:
    both = [world.queue(event_id="evt-1"), world.queue(event_id="evt-2")]
    world.contacts.on_read = lambda read: (_ for _ in ()).throw(Misconfigured("x")) if read == 1 else None
    assert isinstance(world.try_send(), PartialFailure)
    statuses = sorted(world.entry(each.entry_id).status for each in both)
    assert statuses == [EntryStatus.FAILED, EntryStatus.PROCESSED]


# -- immediately before sending -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ([], "notification_recipient_removed"),
        ([replace(OWNER, active=False)], "notification_recipient_inactive"),
        ([replace(OWNER, verified=False)], "notification_recipient_unverified"),
        ([replace(OWNER, entitled_until=START)], "notification_recipient_not_entitled"),
    ],
)
def test_a_recipient_who_changed_since_is_skipped_with_the_reason(
    world: World, now: list[Recipient], reason: str
) -> None:
    entry = world.queue()
    world.contacts.on_read = lambda read: world.contacts.set(*now) if read == 2 else None
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    assert (delivery.status, delivery.code) == (DeliveryStatus.SKIPPED, reason)
    assert world.provider.accepted == []
    ended = world.entry(entry.entry_id)
    assert (ended.status, ended.reason) == (EntryStatus.PROCESSED, "notification_all_skipped")


def suppress_owner(world: World) -> None:
    world.queue(event_id="evt-0")
    world.send()
    (message,) = world.provider.accepted
    delivery = world.store.delivery(message.delivery_id)
    assert delivery is not None
    world.feed(feedback(delivery, FeedbackKind.HARD_BOUNCE))
    world.provider.accepted.clear()


def test_a_recipient_suppressed_at_this_very_address_is_skipped(world: World) -> None:
    suppress_owner(world)
    entry = world.queue()
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    assert (delivery.status, delivery.code) == (DeliveryStatus.SKIPPED, "notification_recipient_suppressed")
    assert world.provider.accepted == []


def test_a_suppression_holds_for_this_address_only(world: World) -> None:
    suppress_owner(world)
    world.queue()
    world.contacts.set(replace(OWNER, address=EmailAddress.parse("owner.new@buyer.example")))
    world.send()
    assert [address for address, _ in world.provider.told] == ["owner.new@buyer.example"]


def test_a_suppression_holds_for_this_recipient_only(world: World) -> None:
    suppress_owner(world)
    world.queue()
    world.contacts.set(replace(OWNER, recipient_id="another-contact"))
    world.send()
    assert len(world.provider.accepted) == 1


def test_sending_attempts_and_address_digest_are_stored_before_the_provider_is_called(world: World) -> None:
    entry = world.queue()
    seen: list[tuple[DeliveryStatus, int, str | None]] = []

    def look(_message: Message) -> None:
        delivery = world.delivery_of(entry.entry_id)
        seen.append((delivery.status, delivery.attempts, delivery.address_digest))

    world.provider.before = look
    world.send()
    assert seen == [(DeliveryStatus.SENDING, 1, world.digests.digest(OWNER.address))]


def test_success_stores_the_providers_message_id_and_the_time(world: World) -> None:
    entry = world.queue()
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    assert (delivery.status, delivery.message_id, delivery.sent_at) == (
        DeliveryStatus.SENT,
        "provider-1",
        START,
    )


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (TransportRefused("MessageRejected"), "MessageRejected", False),
        (TransportFailed("Throttling"), "Throttling", True),
        (OutcomeUnknown("ReadTimeout"), "outcome_unknown:ReadTimeout", True),
        (TransportRefused("550 no such user <someone@buyer.example>"), UNCLASSIFIED, False),
    ],
)
def test_failure_stores_the_error_code_and_never_the_providers_sentence(
    world: World, error: SendFailure, code: str, retryable: bool
) -> None:
    entry = world.queue()
    refusing(world, error)
    world.send()
    delivery = world.delivery_of(entry.entry_id)
    assert (delivery.status, delivery.code, delivery.retryable) == (DeliveryStatus.FAILED, code, retryable)
    assert "someone" not in world.stored_text() + world.logged_text()


def test_a_transport_that_cannot_send_at_all_fails_the_run_and_keeps_the_entry(world: World) -> None:
    entry = world.queue()
    refusing(world, Misconfigured("no credentials"))
    assert isinstance(world.try_send(), PartialFailure)
    ended = world.entry(entry.entry_id)
    assert (ended.status, ended.retryable) == (EntryStatus.FAILED, True)
    assert world.delivery_of(entry.entry_id).code == "Misconfigured"


# -- ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prepare", "status", "reason", "counts"),
    [
        (
            lambda _: None,
            "processed",
            "notification_delivered",
            {"sent": 1, "skipped": 0, "failed": 0, "incomplete": 0, "attempts": 1},
        ),
        (
            lambda world: refusing(world, TransportFailed("x")),
            "failed",
            "notification_delivery_failed",
            {"sent": 0, "skipped": 0, "failed": 1, "incomplete": 0, "attempts": 1},
        ),
        (
            lambda world: world.contacts.set(),
            "skipped",
            "notification_no_recipient",
            {"sent": 0, "skipped": 0, "failed": 0, "incomplete": 0, "attempts": 1},
        ),
    ],
)
def test_every_end_writes_an_audit_entry_with_counts(
    world: World, prepare: Callable[[World], None], status: str, reason: str, counts: dict[str, int]
) -> None:
    entry = world.queue()
    prepare(world)
    world.send()
    assert world.entry(entry.entry_id).status == status
    assert world.audited() == [("entry_ended", reason, counts)]


def _expire(world: World, _entry_id: str) -> None:
    world.wait(8 * DAY)


def _spoil(world: World, entry_id: str) -> None:
    world.store.commit(Save(replace(world.entry(entry_id), payload="?")))


def _move_home(world: World, _entry_id: str) -> None:
    state = world.store.license(SUBSCRIPTION)
    assert state is not None
    world.store.commit(Save(replace(state, home_region="ap-south-1")))


def _remove_later(world: World, _entry_id: str) -> None:
    world.contacts.on_read = lambda read: world.contacts.set() if read == 2 else None


@pytest.mark.parametrize(
    ("prepare", "reason", "skipped"),
    [
        (_expire, "notification_expired", 0),
        (_spoil, "notification_payload_invalid", 0),
        (_move_home, "notification_foreign_region", 0),
        (_remove_later, "notification_all_skipped", 1),
    ],
)
def test_an_end_without_a_send_is_audited_as_well(
    world: World, prepare: Callable[[World, str], None], reason: str, skipped: int
) -> None:
    entry = world.queue()
    prepare(world, entry.entry_id)
    world.send()
    counts = {"sent": 0, "skipped": skipped, "failed": 0, "incomplete": 0, "attempts": 1}
    assert world.audited() == [("entry_ended", reason, counts)]


def test_an_entry_with_an_incomplete_delivery_ends_as_failed_and_is_due_again(world: World) -> None:
    entry = world.queue()
    world.contacts.set(OWNER, SECOND)
    # The first send takes so long that the claim would not last for the second.
    world.provider.before = lambda _: world.wait(timedelta(minutes=14, seconds=45))
    world.try_send()
    ended = world.entry(entry.entry_id)
    assert (ended.status, ended.reason) == (EntryStatus.FAILED, "notification_delivery_incomplete")
    assert ended.retryable
    assert len(world.provider.accepted) == 1


# -- housekeeping -------------------------------------------------------------------------------------


def abandon(world: World) -> str:
    """Leave an entry claimed and its delivery in ``sending``, as a sender that died does."""
    entry = world.queue()
    refusing(world, TransportFailed("x"))
    world.send()
    failed_entry, delivery = world.entry(entry.entry_id), world.delivery_of(entry.entry_id)
    world.store.commit(
        Save(replace(claim(failed_entry, world.clock.now()), attempts=1)),
        Save(begin_attempt(delivery, world.digests.digest(OWNER.address), world.clock.now())),
    )
    world.provider.before = lambda _: None
    return entry.entry_id


@pytest.mark.parametrize(("waited", "recovered"), [(15 * MINUTE, 0), (15 * MINUTE + timedelta(seconds=1), 1)])
def test_a_claim_older_than_15_minutes_returns_to_pending_with_its_sending_deliveries(
    world: World, waited: timedelta, recovered: int
) -> None:
    entry_id = abandon(world)
    world.wait(waited)
    assert world.maintain().recovered == recovered
    expected = (EntryStatus.PENDING, DeliveryStatus.PENDING)
    if not recovered:
        expected = (EntryStatus.PROCESSING, DeliveryStatus.SENDING)
    assert (world.entry(entry_id).status, world.delivery_of(entry_id).status) == expected


def test_a_recovered_entry_is_sent(world: World) -> None:
    entry_id = abandon(world)
    world.wait(16 * MINUTE)
    world.maintain()
    world.send()
    assert world.entry(entry_id).status is EntryStatus.PROCESSED


def test_an_abandoned_claim_at_the_attempts_limit_ends_as_failed() -> None:
    world = World(limits=Limits(max_attempts=1))
    entry_id = abandon(world)
    world.wait(16 * MINUTE)
    world.maintain()
    ended = world.entry(entry_id)
    assert (ended.status, ended.reason) == (EntryStatus.FAILED, "notification_attempts_exhausted")
    assert ("entry_ended", "notification_attempts_exhausted") in [each[:2] for each in world.audited()]


def test_of_a_requeued_entry_only_the_failed_deliveries_are_sent_again(world: World) -> None:
    entry = world.queue()
    world.contacts.set(OWNER, SECOND)
    refusing(world, TransportFailed("Throttling"), only=OWNER)
    world.send()
    world.provider.before = lambda _: None
    world.contacts.set(OWNER, SECOND, replace(SECOND, recipient_id="joined-since", address=_other()))
    world.wait(5 * MINUTE)
    assert world.maintain().requeued == 1
    world.send()
    assert [address for address, _ in world.provider.told] == [SECOND.address.value, OWNER.address.value]
    assert world.entry(entry.entry_id).status is EntryStatus.PROCESSED


def _other() -> EmailAddress:
    return EmailAddress.parse("joined.since@buyer.example")


def test_a_failed_entry_comes_back_by_itself_until_its_attempts_are_used_up() -> None:
    world = World(limits=Limits(max_attempts=3))
    entry = world.queue()
    refusing(world, TransportFailed("Throttling"))
    for _ in range(8):
        world.try_send()
        world.wait(timedelta(hours=12))
        world.maintain()
    assert world.provider.calls == 3
    ended = world.entry(entry.entry_id)
    assert (ended.status, ended.attempts, ended.retryable) == (EntryStatus.FAILED, 3, False)


def test_each_failure_waits_twice_as_long_as_the_last_and_at_most_12_hours(world: World) -> None:
    entry = world.queue()
    refusing(world, TransportFailed("Throttling"))
    pauses = []
    for _ in range(9):
        world.send()
        ended = world.entry(entry.entry_id)
        assert ended.ended_at is not None
        pauses.append(int((ended.due_at - ended.ended_at) / MINUTE))
        world.wait(timedelta(minutes=pauses[-1]))
        world.maintain()
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 640, 720]


def test_a_delivery_refused_for_good_does_not_come_back_by_itself(world: World) -> None:
    entry = world.queue()
    refusing(world, TransportRefused("MessageRejected"))
    world.send()
    world.wait(timedelta(days=1))
    assert world.maintain().requeued == 0
    assert world.entry(entry.entry_id).status is EntryStatus.FAILED


def test_a_resend_after_a_lost_answer_carries_the_same_delivery_id(world: World) -> None:
    world.queue()

    def lose(_message: Message) -> None:
        raise OutcomeUnknown("ReadTimeout")

    world.provider.after = lose
    world.send()
    world.provider.after = lambda _: None
    world.wait(5 * MINUTE)
    world.maintain()
    world.send()
    first, second = world.provider.accepted
    assert first.delivery_id == second.delivery_id


def test_an_entry_that_expires_while_it_waits_is_skipped_and_its_deliveries_with_it(world: World) -> None:
    entry = world.queue()
    refusing(world, TransportFailed("Throttling"))
    world.send()
    world.wait(8 * DAY)
    world.maintain()
    world.send()
    assert world.entry(entry.entry_id).reason == "notification_expired"
    assert world.delivery_of(entry.entry_id).code == "notification_expired"
    assert world.provider.calls == 1


def test_housekeeping_is_bounded_per_run() -> None:
    world = World(limits=Limits(batch=3))
    entries = [world.queue(event_id=f"evt-{number}") for number in range(5)]
    refusing(world, TransportFailed("Throttling"))
    world.send()
    world.send()
    world.wait(6 * MINUTE)
    assert world.maintain().requeued == 3
    assert world.maintain().requeued == 2
    assert {world.entry(each.entry_id).status for each in entries} == {EntryStatus.PENDING}


def test_a_send_run_is_bounded(world: World) -> None:
    world = World(limits=Limits(batch=2))
    for number in range(3):
        world.queue(event_id=f"evt-{number}")
    assert (world.send().ended, world.send().ended) == (2, 1)


def test_a_send_run_begins_nothing_that_its_time_would_not_last_for(world: World) -> None:
    world.queue()
    world.sender().run(world.clock.now() + timedelta(seconds=29))
    assert world.provider.accepted == []
    assert len(world.pending()) == 1


def test_what_is_sent_is_counted(world: World) -> None:
    world.queue()
    world.send()
    assert world.telemetry.total(Metric.NOTIFICATIONS_SENT) == 1
    assert world.telemetry.total(Metric.NOTIFICATION_SEND_RUNS_COMPLETED) == 1


def test_an_event_id_with_an_address_in_it_makes_no_entry() -> None:
    from awsmp.domain.notifications.identities import InvalidIdentity  # noqa: PLC0415
    from awsmp.domain.notifications.outbox import Notice  # noqa: PLC0415

    with pytest.raises(InvalidIdentity):
        new_entry(SUBSCRIPTION, Notice(Kind.REFUNDED, "refund someone@buyer.example", START), START)
