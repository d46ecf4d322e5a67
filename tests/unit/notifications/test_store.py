"""The notifications table: the same behaviour on the table in memory and on a mock of AWS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from awsmp.adapters.notifications.pepper import PepperDigest
from awsmp.adapters.notifications.store import DynamoDBNotificationStore, MalformedItem
from awsmp.domain.errors import ConditionFailed, Misconfigured, StoreUnavailable
from awsmp.domain.notifications.audit import AuditAction, AuditEntry
from awsmp.domain.notifications.feedback import ClearingReason, FeedbackKind, StoredFeedback, Suppression
from awsmp.domain.notifications.identities import InvalidIdentity, Subscription, parse_subscription
from awsmp.domain.notifications.kinds import Kind
from awsmp.domain.notifications.license_state import LicenseState, Mark
from awsmp.domain.notifications.messages import EmailAddress
from awsmp.domain.notifications.outbox import (
    Delivery,
    DeliveryStatus,
    EntryStatus,
    Notice,
    delivery_id,
    new_entry,
)
from awsmp.domain.notifications.store import (
    Check,
    Link,
    MessageLink,
    NotificationStore,
    Queue,
    Remove,
    Save,
)
from awsmp.usecases.notifications.saving import saved
from sandbox.memory_aws import ManualClock, MemoryDynamoDB, aws_error
from tests.unit.notifications.world import BUYER, LICENSE, START, SUBSCRIPTION, TABLE, notifications_table

LATER = START + timedelta(minutes=1)
ENTRY = new_entry(SUBSCRIPTION, Notice(Kind.REFUNDED, "evt-1", START), START)
DELIVERY = Delivery(delivery_id(ENTRY.entry_id, "contact-1"), ENTRY.entry_id, "contact-1")
SUPPRESSION = Suppression("contact-1", "a" * 64, FeedbackKind.HARD_BOUNCE, START, LATER)
FEEDBACK = StoredFeedback(
    "b" * 64, "c" * 64, "ses", FeedbackKind.COMPLAINT, DELIVERY.delivery_id, START, LATER
)
AUDIT = AuditEntry(START, AuditAction.ENTRY_ENDED, ENTRY.entry_id, "notification_delivered", 3, {"sent": 2})
STATE = LicenseState(
    SUBSCRIPTION,
    home_region="eu-west-1",
    product_code="prod0example0code",
    agreement_id="agmt-first",
    is_active=True,
    activation_id="activation-1",
    activation_time=START,
    started_id="activation-1",
    start_assumed=True,
    contact_verified=True,
    auto_renewal_off=True,
    approved_request="acr-1",
    status_mark=Mark(START, 3),
    auto_renewal_mark=Mark(LATER, 1),
    request_mark=Mark(START),
    billing_mark=Mark(START),
    hold_mark=Mark(LATER),
)


@pytest.fixture(params=["memory", "moto"])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        memory = MemoryDynamoDB(ManualClock(START)).client(strict_parameters=True)
        memory.create_table(**notifications_table())
        yield memory
        return
    with mock_aws():
        moto = boto3.client("dynamodb", region_name="eu-west-1")
        moto.create_table(**notifications_table())
        yield moto


@pytest.fixture
def store(client: Any) -> DynamoDBNotificationStore:
    return DynamoDBNotificationStore(client, TABLE, ManualClock(LATER))


def test_the_adapter_is_a_notification_store(store: DynamoDBNotificationStore) -> None:
    typed: NotificationStore = store
    assert typed.entry("0" * 64) is None


def test_every_record_is_read_back_as_it_was_written(store: DynamoDBNotificationStore) -> None:
    full_entry = replace(
        ENTRY,
        status=EntryStatus.FAILED,
        attempts=2,
        claimed_at=START,
        resolved=True,
        ended_at=LATER,
        reason="notification_delivery_failed",
        retryable=True,
        due_at=LATER,
    )
    full_delivery = replace(
        DELIVERY,
        status=DeliveryStatus.SENT,
        attempts=2,
        address_digest="d" * 64,
        first_attempt_at=START,
        attempted_at=LATER,
        sent_at=LATER,
        message_id="provider-1",
        code="x",
        retryable=True,
        feedback_kind="complaint",
        feedback_at=LATER,
    )
    cleared = replace(SUPPRESSION, cleared_at=LATER, cleared_reason=ClearingReason.CUSTOMER_REQUEST)
    store.commit(
        Save(STATE),
        Save(full_entry),
        Save(full_delivery),
        Save(cleared),
        Save(FEEDBACK),
        Save(AUDIT),
        Link(MessageLink("provider-1", DELIVERY.delivery_id)),
    )
    assert store.license(SUBSCRIPTION) == saved(STATE)
    assert store.entry(ENTRY.entry_id) == saved(full_entry)
    assert store.delivery(DELIVERY.delivery_id) == saved(full_delivery)
    assert store.deliveries(ENTRY.entry_id) == [saved(full_delivery)]
    assert store.suppression("contact-1", "a" * 64) == saved(cleared)
    assert store.suppressions("contact-1") == [saved(cleared)]
    assert store.feedback("b" * 64) == saved(FEEDBACK)
    assert store.audit(START.date(), 10) == [replace(AUDIT, version=1)]
    assert store.linked("provider-1") == [DELIVERY.delivery_id]


def test_a_sparse_record_is_read_back_as_well(store: DynamoDBNotificationStore) -> None:
    ended = replace(ENTRY, status=EntryStatus.PROCESSED, ended_at=LATER, due_at=LATER)
    store.commit(Save(ended), Save(LicenseState(SUBSCRIPTION)))
    assert store.entry(ENTRY.entry_id) == saved(ended)
    assert store.license(SUBSCRIPTION) == saved(LicenseState(SUBSCRIPTION))


def test_a_record_is_made_once(store: DynamoDBNotificationStore) -> None:
    store.commit(Save(ENTRY))
    with pytest.raises(ConditionFailed):
        store.commit(Save(ENTRY))


def test_of_two_writers_of_one_version_one_gets_through(store: DynamoDBNotificationStore) -> None:
    store.commit(Save(ENTRY))
    read = saved(ENTRY)
    store.commit(Save(replace(read, attempts=1)))
    with pytest.raises(ConditionFailed):
        store.commit(Save(replace(read, attempts=7)))
    known = store.entry(ENTRY.entry_id)
    assert known is not None
    assert (known.attempts, known.version) == (1, 2)


def test_a_commit_is_all_or_nothing(store: DynamoDBNotificationStore) -> None:
    store.commit(Save(ENTRY))
    with pytest.raises(ConditionFailed):
        store.commit(Save(DELIVERY), Save(replace(saved(ENTRY), version=9)))
    assert store.delivery(DELIVERY.delivery_id) is None


def test_a_check_holds_the_other_writes_to_a_version(store: DynamoDBNotificationStore) -> None:
    store.commit(Save(ENTRY))
    store.commit(Check(saved(ENTRY)), Save(DELIVERY))
    with pytest.raises(ConditionFailed):
        store.commit(Check(replace(ENTRY, version=2)), Save(replace(saved(DELIVERY), attempts=1)))
    assert store.entry(ENTRY.entry_id) == saved(ENTRY), "a check changes nothing"


def test_a_record_is_removed_under_its_version_only(store: DynamoDBNotificationStore) -> None:
    store.commit(Save(FEEDBACK))
    with pytest.raises(ConditionFailed):
        store.commit(Remove(replace(FEEDBACK, version=2)))
    store.commit(Remove(saved(FEEDBACK)))
    assert store.feedback(FEEDBACK.key) is None


@pytest.mark.parametrize(
    ("status", "retryable", "queue"),
    [
        (EntryStatus.PENDING, False, Queue.PENDING),
        (EntryStatus.PROCESSING, False, Queue.PROCESSING),
        (EntryStatus.FAILED, True, Queue.RETRYABLE),
        (EntryStatus.FAILED, False, Queue.FAILED),
        (EntryStatus.PROCESSED, False, None),
        (EntryStatus.SKIPPED, False, None),
    ],
)
def test_the_index_lists_an_entry_by_its_status_until_it_has_ended_well(
    store: DynamoDBNotificationStore, status: EntryStatus, retryable: bool, queue: Queue | None
) -> None:
    store.commit(Save(ENTRY))
    store.commit(Save(replace(saved(ENTRY), status=status, retryable=retryable)))
    listed = {each for each in Queue if store.due_entries(each, LATER, 10)}
    assert listed == ({queue} if queue else set())


def test_what_is_due_is_listed_longest_due_first_and_bounded(store: DynamoDBNotificationStore) -> None:
    entries = [
        new_entry(SUBSCRIPTION, Notice(Kind.REFUNDED, f"evt-{n}", START), START + timedelta(seconds=n))
        for n in range(5)
    ]
    for entry in reversed(entries):
        store.commit(Save(entry))
    due = store.due_entries(Queue.PENDING, START + timedelta(seconds=3), 10)
    assert due == [entry.entry_id for entry in entries[:4]]
    assert store.due_entries(Queue.PENDING, LATER, 2) == due[:2]


def test_active_suppressions_and_feedback_are_listed(store: DynamoDBNotificationStore) -> None:
    store.commit(Save(SUPPRESSION), Save(FEEDBACK))
    assert store.active_suppressions(10) == [saved(SUPPRESSION)]
    assert store.due_feedback(LATER, 10) == [FEEDBACK.key]
    assert store.due_feedback(LATER - timedelta(seconds=1), 10) == []
    store.commit(Save(replace(saved(SUPPRESSION), cleared_at=LATER)))
    assert store.active_suppressions(10) == []


def test_a_message_id_of_two_deliveries_leads_to_both(store: DynamoDBNotificationStore) -> None:
    store.commit(Link(MessageLink("provider-1", "d-1")))
    store.commit(Link(MessageLink("provider-1", "d-1")))
    store.commit(Link(MessageLink("provider-1", "d-2")))
    assert store.linked("provider-1") == ["d-1", "d-2"]


@pytest.mark.parametrize("text", ["", "nonsense", ENTRY.entry_id, f"{ENTRY.entry_id}-short"])
def test_a_text_that_is_no_delivery_id_leads_nowhere(store: DynamoDBNotificationStore, text: str) -> None:
    assert store.delivery(text) is None


def test_an_item_that_we_never_write_is_told_apart(client: Any, store: DynamoDBNotificationStore) -> None:
    client.put_item(
        TableName=TABLE,
        Item={"pk": {"S": f"entry#{ENTRY.entry_id}"}, "sk": {"S": "entry"}, "status": {"S": "odd"}},
    )
    with pytest.raises(MalformedItem):
        store.entry(ENTRY.entry_id)


# -- answers that were lost ---------------------------------------------------------------------------


def lossy(times: int) -> tuple[DynamoDBNotificationStore, MemoryDynamoDB]:
    clock = ManualClock(START)
    backend = MemoryDynamoDB(clock)
    backend.client().create_table(**notifications_table())
    left = [times]

    def lose(_service: str, _operation: str, _arguments: Any, _answer: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise ReadTimeoutError(endpoint_url="https://dynamodb.example")

    return DynamoDBNotificationStore(backend.client(after_call=lose), TABLE, clock), backend


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_write_whose_answer_was_lost_is_repeated_and_has_its_effect_once(times: int) -> None:
    store, _ = lossy(times)
    store.commit(Save(ENTRY))
    assert store.entry(ENTRY.entry_id) == saved(ENTRY)


def test_a_write_that_gets_no_answer_at_all_is_of_unknown_outcome() -> None:
    store, backend = lossy(9)
    with pytest.raises(StoreUnavailable):
        store.commit(Save(ENTRY))
    assert len(backend.items(TABLE)) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("ThrottlingException", StoreUnavailable),
        ("TransactionInProgressException", StoreUnavailable),
        ("AccessDeniedException", Misconfigured),
        ("ResourceNotFoundException", Misconfigured),
    ],
)
def test_what_dynamodb_refuses_is_named(code: str, error: type[Exception]) -> None:
    class Refusing:
        def transact_write_items(self, **_arguments: Any) -> Any:
            raise aws_error("dynamodb", "TransactWriteItems", code, "injected")

    refusing: Any = Refusing()
    with pytest.raises(error):
        DynamoDBNotificationStore(refusing, TABLE, ManualClock(START)).commit(Save(ENTRY))


def test_a_transaction_that_met_another_one_is_tried_again() -> None:
    store, _ = lossy(0)
    conflicts = [2]

    def conflict(_service: str, operation: str, _arguments: Any) -> None:
        if operation == "TransactWriteItems" and conflicts[0]:
            conflicts[0] -= 1
            raise aws_error(
                "dynamodb",
                operation,
                "TransactionCanceledException",
                "cancelled",
                {"CancellationReasons": [{"Code": "TransactionConflict"}]},
            )

    client: Any = store.client
    client.before_call = conflict
    store.commit(Save(ENTRY))
    assert store.entry(ENTRY.entry_id) == saved(ENTRY)


# -- digests and ids ----------------------------------------------------------------------------------


def test_an_addresses_digest_is_keyed_and_the_same_for_the_same_address() -> None:
    address = EmailAddress.parse("Owner@Buyer.example")
    digest = PepperDigest(b"k" * 32).digest(address)
    assert digest == PepperDigest(b"k" * 32).digest(EmailAddress.parse("Owner@buyer.EXAMPLE"))
    assert digest != PepperDigest(b"x" * 32).digest(address)
    assert digest != PepperDigest(b"k" * 32).digest(EmailAddress.parse("other@buyer.example"))
    assert len(digest) == 64


def test_the_digest_is_domain_separated_from_a_plain_hmac_of_the_address() -> None:
    import hashlib  # noqa: PLC0415
    import hmac  # noqa: PLC0415

    address = EmailAddress.parse("owner@buyer.example")
    plain = hmac.new(b"k" * 32, address.value.encode(), hashlib.sha256).hexdigest()
    assert PepperDigest(b"k" * 32).digest(address) != plain


@pytest.mark.parametrize("length", [0, 16, 31])
def test_a_short_pepper_is_refused(length: int) -> None:
    with pytest.raises(Misconfigured):
        PepperDigest(b"k" * length)


def test_the_pepper_is_in_no_repr() -> None:
    assert "kkkk" not in repr(PepperDigest(b"k" * 32))


def test_a_subscription_id_is_read_back() -> None:
    assert parse_subscription(SUBSCRIPTION.id) == Subscription(LICENSE, BUYER)


@pytest.mark.parametrize(
    "text", ["", LICENSE, f"x#{LICENSE}", f"{BUYER}#nonsense", f"{BUYER}#{LICENSE.removeprefix('arn:')}"]
)
def test_another_text_is_no_subscription_id(text: str) -> None:
    with pytest.raises(InvalidIdentity):
        parse_subscription(text)


def test_an_audit_entry_takes_no_address() -> None:
    at = datetime(2026, 11, 10, tzinfo=UTC)
    for subject, detail in (("someone@buyer.example", "x"), ("x", "to someone@buyer.example")):
        with pytest.raises(InvalidIdentity):
            AuditEntry(at, AuditAction.ENTRY_ENDED, subject, detail)
