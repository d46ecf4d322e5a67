"""From events to entries: AWS Marketplace's, the buyer's verification and the seller's billing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from awsmp.domain.notifications.billing_events import MalformedBillingEvent
from awsmp.domain.notifications.intake_events import MalformedIntakeEvent, row_change_detail
from awsmp.domain.notifications.kinds import Kind, UnknownHold, UnknownStatus
from awsmp.domain.notifications.license_state import Applied
from awsmp.domain.notifications.store import Save
from awsmp.domain.ports import Metric
from awsmp.domain.subscribers import SubscriberRow, SubscriptionStatus
from tests.unit.notifications.world import (
    AGREEMENT,
    BUYER,
    LICENSE,
    OTHER_REGION,
    OWNER,
    START,
    SUBSCRIPTION,
    World,
    active_row,
    billing,
    cancellation,
    contact_verified,
    deprovisioned,
    on_bus,
    renewal,
    row_change,
)

UNREGISTERED = active_row(home=None)
REGISTERED = active_row()
MINUTE = timedelta(minutes=1)


@pytest.fixture
def world() -> World:
    return World()


def kinds(world: World) -> list[str]:
    return [kind.value for kind in world.pending_kinds()]


def payloads(world: World) -> list[dict[str, Any]]:
    return [json.loads(entry.payload) for entry in world.pending()]


# -- the start ----------------------------------------------------------------------------------------


def activation(_: World) -> str:
    return row_change(None, UNREGISTERED)


def registration(_: World) -> str:
    return row_change(UNREGISTERED, REGISTERED, event_id="stream-2", at=START + MINUTE)


def verification(world: World) -> str:
    world.contacts.set(OWNER)
    return contact_verified(at=START + 2 * MINUTE)


STEPS: list[Callable[[World], str]] = [activation, registration, verification]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("row_readable", [True, False])
def test_the_start_is_told_once_whichever_of_activation_registration_and_verification_comes_last(
    world: World, order: tuple[int, ...], row_readable: bool
) -> None:
    world.contacts.set()
    world.licenses.rows = [REGISTERED] if row_readable else []
    for position in order:
        world.take(STEPS[position](world))
    assert kinds(world) == ["subscription_started"]
    assert payloads(world)[0]["eventId"] == "activation-1", "both paths carry the activation's event id"
    for position in (*order, *reversed(order)):
        world.take(STEPS[position](world))
    assert kinds(world) == ["subscription_started"]


def test_the_start_waits_for_the_first_verified_contact(world: World) -> None:
    world.contacts.set(replace(OWNER, verified=False))
    world.take(activation(world))
    world.take(registration(world))
    assert kinds(world) == []
    world.take(verification(world))
    assert kinds(world) == ["subscription_started"]
    assert payloads(world)[0]["eventTime"] == "2026-11-10T08:02:00Z", "the age counts from what came last"


def test_a_contact_verified_while_the_registration_is_being_decided_starts_it(world: World) -> None:
    world.take(activation(world))
    world.contacts.set(replace(OWNER, verified=False))

    def meanwhile(read: int) -> None:
        if read == 1:
            world.take(contact_verified())

    world.contacts.on_read = meanwhile
    world.take(registration(world))
    assert kinds(world) == ["subscription_started"]


def test_a_second_verified_contact_starts_nothing_again(world: World) -> None:
    for step in STEPS:
        world.take(step(world))
    assert world.take(contact_verified("verified-2", START + timedelta(days=30))).queued == 0


def test_a_renewed_licence_is_not_started_again(world: World) -> None:
    for step in STEPS:
        world.take(step(world))
    renewed = active_row(event_id="renewal-1", at=START + timedelta(days=365), agreement_id="agmt-second")
    world.take(row_change(REGISTERED, renewed, event_id="stream-9", at=START + timedelta(days=365)))
    assert kinds(world) == ["subscription_started"]


def test_a_revived_licence_is_started_anew_with_the_event_that_revived_it(world: World) -> None:
    for step in STEPS:
        world.take(step(world))
    ended = deprovisioned(REGISTERED, "end-1", START + timedelta(days=1))
    world.take(row_change(REGISTERED, ended, event_id="s-3"))
    revived = active_row(event_id="activation-2", at=START + timedelta(days=2))
    world.take(row_change(ended, revived, event_id="s-4", at=START + timedelta(days=2)))
    started = [each["eventId"] for each in payloads(world) if each["kind"] == "subscription_started"]
    assert sorted(started) == ["activation-1", "activation-2"]


def test_a_licence_that_was_in_force_and_verified_before_this_tier_was_deployed_is_not_started(
    world: World,
) -> None:
    off = renewal(REGISTERED, False, "amend-1", START)
    world.take(row_change(REGISTERED, off))
    assert kinds(world) == ["cancellation_scheduled"]


def test_an_activation_that_arrives_after_a_later_change_is_still_told(world: World) -> None:
    off = renewal(REGISTERED, False, "amend-1", START + MINUTE)
    world.take(row_change(REGISTERED, off, event_id="s-2", at=START + MINUTE))
    world.take(row_change(None, REGISTERED, event_id="s-1"))
    assert kinds(world) == ["cancellation_scheduled", "subscription_started"]


def test_a_first_verification_long_after_the_purchase_starts_even_if_no_event_told_of_the_licence(
    world: World,
) -> None:
    world.licenses.rows = [REGISTERED]
    world.take(contact_verified(at=START + timedelta(days=90)))
    assert kinds(world) == ["subscription_started"]


# -- AWS Marketplace ----------------------------------------------------------------------------------


def test_deprovisioning_is_told_as_canceled(world: World) -> None:
    world.take(row_change(REGISTERED, deprovisioned(REGISTERED, "end-1", START)))
    assert kinds(world) == ["subscription_canceled"]
    assert payloads(world)[0]["eventId"] == "end-1"


def test_becoming_inactive_after_the_last_hour_is_told_to_nobody(world: World) -> None:
    ended = deprovisioned(REGISTERED, "end-1", START)
    inactive = replace(ended, subscription_status=SubscriptionStatus.INACTIVE)
    world.take(row_change(ended, inactive))
    assert kinds(world) == []
    world.take(row_change(REGISTERED, ended))
    assert kinds(world) == ["subscription_canceled"], "the change before it, coming second, is no older"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (True, False, ["cancellation_scheduled"]),
        (None, False, ["cancellation_scheduled"]),
        (False, True, ["cancellation_reversed"]),
        (None, True, []),
        (False, None, []),
    ],
)
def test_auto_renewal_switched_off_or_on_is_scheduled_or_reversed(
    world: World, before: bool | None, after: bool | None, expected: list[str]
) -> None:
    old = REGISTERED if before is None else renewal(REGISTERED, before, "amend-1", START)
    new = REGISTERED if after is None else renewal(REGISTERED, after, "amend-2", START + MINUTE)
    world.take(row_change(old, new))
    assert kinds(world) == expected


def test_an_approved_cancellation_request_is_scheduled_and_its_withdrawal_reversed(world: World) -> None:
    world.know_home()
    world.take(cancellation("PENDING_APPROVAL", event_id="c-1"))
    assert kinds(world) == []
    world.take(cancellation("APPROVED", event_id="c-2", at=START + MINUTE))
    assert kinds(world) == ["cancellation_scheduled"]
    world.take(cancellation("CANCELLED", event_id="c-3", at=START + 2 * MINUTE))
    assert kinds(world) == ["cancellation_reversed", "cancellation_scheduled"]


@pytest.mark.parametrize("status", ["PENDING_APPROVAL", "REJECTED", "CANCELLED", "VALIDATION_FAILED"])
def test_a_cancellation_request_that_was_never_approved_is_told_to_nobody(world: World, status: str) -> None:
    world.know_home()
    world.take(cancellation(status, event_id="c-1"))
    assert kinds(world) == []


def test_a_cancellation_that_switched_off_renewal_has_told_is_not_told_again(world: World) -> None:
    world.know_home()
    world.take(row_change(REGISTERED, renewal(REGISTERED, False, "amend-1", START)))
    world.take(cancellation("APPROVED", event_id="c-1", at=START + MINUTE))
    assert kinds(world) == ["cancellation_scheduled"]


def test_a_cancellation_request_of_an_agreement_without_a_licence_here_is_dropped_and_counted(
    world: World,
) -> None:
    taken = world.take(cancellation("APPROVED", event_id="c-1"))
    assert taken.outcomes == (Applied.NOT_REGISTERED,)
    assert world.telemetry.total(Metric.NOTIFICATION_EVENTS_DROPPED, "not-registered") == 1


def test_a_cancellation_request_reaches_every_licence_of_its_agreement(world: World) -> None:
    world.know_home()
    other = replace(REGISTERED, license_arn="arn:aws:license-manager::111122223333:license:l-ffffffff")
    world.licenses.rows.append(other)
    taken = world.take(cancellation("APPROVED", event_id="c-1"))
    assert taken.queued == 2


# -- order --------------------------------------------------------------------------------------------


def test_a_change_of_status_that_is_older_than_the_applied_one_is_dropped(world: World) -> None:
    ended = deprovisioned(REGISTERED, "end-1", START + MINUTE)
    world.take(row_change(REGISTERED, ended))
    taken = world.take(row_change(None, REGISTERED, event_id="s-0"))
    assert taken.outcomes == (Applied.STALE,)
    assert kinds(world) == ["subscription_canceled"]
    assert world.telemetry.total(Metric.NOTIFICATION_EVENTS_DROPPED, "stale") == 1


def test_a_switch_of_renewal_that_is_older_than_the_applied_one_is_dropped(world: World) -> None:
    on, off = renewal(REGISTERED, True, "a-1", START), renewal(REGISTERED, False, "a-2", START + MINUTE)
    again = renewal(REGISTERED, True, "a-3", START + 2 * MINUTE)
    world.take(row_change(off, again))
    world.take(row_change(on, off))
    assert kinds(world) == ["cancellation_reversed"]


def test_a_cancellation_request_that_is_older_than_the_applied_one_is_dropped(world: World) -> None:
    world.know_home()
    world.take(cancellation("APPROVED", event_id="c-2", at=START + MINUTE))
    world.take(cancellation("CANCELLED", event_id="c-1", at=START))
    assert kinds(world) == ["cancellation_scheduled"]


def test_billing_events_are_ordered_by_their_time_status_and_hold_apart(world: World) -> None:
    world.know_home()
    world.take(billing({"status": "past_due"}, {"status": "active"}, event_id="b-2", at=START + MINUTE))
    stale = world.take(billing({"status": "active"}, {"status": "past_due"}, event_id="b-1"))
    assert stale.outcomes == (Applied.STALE,)
    world.take(billing(current={"hold": "dispute_open"}, event_id="b-0"))
    assert kinds(world) == ["dispute_open", "payment_recovered"]


def test_two_billing_events_of_one_second_are_both_told(world: World) -> None:
    world.know_home()
    world.take(billing(current={"status": "past_due"}, event_id="b-2"))
    world.take(billing({"status": "past_due"}, {"status": "unpaid"}, event_id="b-1"))
    assert kinds(world) == ["access_suspended", "payment_failed"]


# -- the home Region ----------------------------------------------------------------------------------


EVENTS = [
    pytest.param(row_change(REGISTERED, deprovisioned(REGISTERED, "end-1", START)), id="row"),
    pytest.param(row_change(UNREGISTERED, REGISTERED), id="registration"),
    pytest.param(contact_verified(), id="verification"),
    pytest.param(cancellation("APPROVED", event_id="c-1"), id="cancellation"),
    pytest.param(billing(current={"status": "past_due"}), id="billing"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_of_two_regions_that_get_an_event_only_the_home_region_sends(event: str) -> None:
    home, other = World(), World(region=OTHER_REGION)
    for world in (home, other):
        world.know_home()
        world.licenses.rows = [REGISTERED]
        world.take(event)
        world.try_send()
    assert len(home.provider.accepted) == 1
    assert other.provider.accepted == []
    assert other.pending() == []


@pytest.mark.parametrize("event", [EVENTS[0].values[0], EVENTS[3].values[0], EVENTS[4].values[0]])
def test_of_a_licence_that_nobody_has_registered_nobody_is_told(world: World, event: Any) -> None:
    unregistered = json.loads(event)
    for side in ("old", "new"):
        if "new" in unregistered.get("detail", {}):
            unregistered["detail"][side]["homeRegion"] = None
    world.licenses.rows = [UNREGISTERED]
    taken = world.take(json.dumps(unregistered))
    assert taken.outcomes == (Applied.NOT_REGISTERED,)
    assert world.pending() == []


def test_an_entry_whose_licence_has_another_home_region_is_skipped_at_the_last_moment(world: World) -> None:
    entry = world.queue()
    state = world.store.license(SUBSCRIPTION)
    assert state is not None
    world.store.commit(Save(replace(state, home_region="ap-south-1")))
    world.send()
    assert world.entry(entry.entry_id).reason == "notification_foreign_region"
    assert world.provider.accepted == []


# -- the seller's billing -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("previous", "current", "expected"),
    [
        ({"status": "active"}, {"status": "past_due"}, ["payment_failed"]),
        ({"status": "past_due"}, {"status": "unpaid"}, ["access_suspended"]),
        ({"status": "past_due"}, {"status": "active"}, ["payment_recovered"]),
        ({"hold": "none"}, {"hold": "dispute_open"}, ["dispute_open"]),
        ({"hold": "dispute_open"}, {"hold": "dispute_lost"}, ["dispute_lost"]),
        ({"hold": "dispute_lost"}, {"hold": "none"}, ["dispute_resolved"]),
        ({"hold": "none"}, {"hold": "refunded"}, ["refunded"]),
        (
            {"status": "active", "hold": "none"},
            {"status": "past_due", "hold": "dispute_open"},
            ["dispute_open", "payment_failed"],
        ),
    ],
)
def test_payment_and_hold_notices_come_from_the_sellers_own_events(
    world: World, previous: dict[str, Any], current: dict[str, Any], expected: list[str]
) -> None:
    world.know_home()
    world.take(billing(previous, current))
    assert kinds(world) == expected


@pytest.mark.parametrize(
    ("previous", "current"),
    [
        ({"status": None}, {"status": "active"}),
        ({"status": "active"}, {"status": "canceled"}),
        ({"setToEnd": False}, {"setToEnd": True}),
        ({"setToEnd": True}, {"setToEnd": False}),
    ],
)
def test_what_the_marketplace_tells_is_not_told_a_second_time_by_the_sellers_events(
    world: World, previous: dict[str, Any], current: dict[str, Any]
) -> None:
    world.know_home()
    assert world.take(billing(previous, current)).queued == 0


def test_a_billing_event_may_come_over_the_event_bus_as_well(world: World) -> None:
    world.know_home()
    event = json.loads(billing(current={"status": "past_due"}))
    assert world.take(on_bus("seller.billing", "Billing", event)).queued == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": 2}, MalformedBillingEvent),
        ({"version": True}, MalformedBillingEvent),
        ({"extra": 1}, MalformedBillingEvent),
        ({"eventId": "someone@buyer.example"}, MalformedBillingEvent),
        ({"eventId": ""}, MalformedBillingEvent),
        ({"eventTime": "2026-11-10 08:00"}, MalformedBillingEvent),
        ({"eventTime": "2026-13-10T08:00:00Z"}, MalformedBillingEvent),
        ({"subscription": {"licenseArn": LICENSE}}, MalformedBillingEvent),
        ({"subscription": {"licenseArn": "x", "customerAWSAccountId": BUYER}}, MalformedBillingEvent),
        ({"current": {"status": "active", "setToEnd": 1, "hold": "none"}}, MalformedBillingEvent),
        ({"current": {"status": "gone", "setToEnd": False, "hold": "none"}}, UnknownStatus),
        ({"current": {"status": "active", "setToEnd": False, "hold": "chargeback"}}, UnknownHold),
        ({"current": []}, MalformedBillingEvent),
    ],
)
def test_a_billing_event_that_breaks_the_contract_is_refused_and_nothing_is_stored(
    world: World, changes: dict[str, Any], error: type[Exception]
) -> None:
    world.know_home()
    with pytest.raises(error):
        world.take(json.dumps(json.loads(billing(current={"status": "past_due"})) | changes))
    assert world.stored_text() == "[]"


# -- idempotence and form -----------------------------------------------------------------------------


def test_enqueueing_the_same_event_twice_returns_already_there(world: World) -> None:
    world.know_home()
    event = billing(current={"status": "past_due"})
    assert (world.take(event).queued, world.take(event).already_there) == (1, 1)
    assert len(world.pending()) == 1


def test_another_event_of_the_same_kind_is_another_entry(world: World) -> None:
    world.know_home()
    world.take(billing(current={"status": "past_due"}, event_id="b-1"))
    world.take(billing(current={"status": "past_due"}, event_id="b-2", at=START + MINUTE))
    assert len(world.pending()) == 2


def test_the_payload_holds_schema_version_kind_subscription_event_id_and_time_and_nothing_else(
    world: World,
) -> None:
    world.know_home()
    world.take(billing(current={"status": "past_due"}))
    assert payloads(world) == [
        {
            "schema": "awsmp.notification",
            "version": 1,
            "kind": "payment_failed",
            "subscriptionId": f"{BUYER}#{LICENSE}",
            "eventId": "evt-1",
            "eventTime": "2026-11-10T08:00:00Z",
        }
    ]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        on_bus("awsmp.subscribers", "x", {"schema": "awsmp.unheard-of", "version": 1}),
        on_bus("awsmp.subscribers", "x", {"schema": "awsmp.subscriber-row-change", "version": 2}),
        on_bus("awsmp.subscribers", "x", {"schema": "awsmp.contact-verified", "version": 1}),
        on_bus("awsmp.agreement-marketplace", "x", {"eventId": "e"}),
        on_bus(
            "awsmp.subscribers",
            "x",
            {
                "schema": "awsmp.subscriber-row-change",
                "version": 1,
                "eventId": "e",
                "eventTime": "2026-11-10T08:00:00Z",
                "old": None,
                "new": None,
            },
        ),
    ],
)
def test_a_message_that_is_none_of_the_events_is_refused(world: World, body: str) -> None:
    with pytest.raises(MalformedIntakeEvent):
        world.take(body)


def test_a_change_that_concerns_no_notice_is_not_forwarded() -> None:
    registered_again = replace(REGISTERED, registered_regions=frozenset({"eu-west-1"}))
    assert row_change_detail("s", START, REGISTERED, registered_again) is None
    assert row_change_detail("s", START, REGISTERED, None) is not None


def test_a_deleted_row_is_told_to_nobody(world: World) -> None:
    assert world.take(row_change(REGISTERED, None)).outcomes == (Applied.UNCHANGED,)
    assert world.pending() == []


def test_a_request_of_another_agreement_than_the_current_one_is_dropped(world: World) -> None:
    world.know_home()
    later: SubscriberRow = replace(REGISTERED, agreement_id="agmt-second")
    world.take(row_change(REGISTERED, later))
    taken = world.take(cancellation("APPROVED", event_id="c-1"))
    assert later.agreement_id != AGREEMENT
    assert taken.outcomes == (Applied.STALE,)
    assert Kind.CANCELLATION_SCHEDULED not in world.pending_kinds()
