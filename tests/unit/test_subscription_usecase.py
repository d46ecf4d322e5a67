"""The subscription use case: what is applied, parked, resolved, forwarded, ignored and refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from awsmp.domain.errors import ConditionFailed, Misconfigured, StoreUnavailable
from awsmp.domain.license_arns import InvalidLicenseArn
from awsmp.domain.lifecycle_events import MalformedEvent
from awsmp.domain.ports import Metric
from awsmp.domain.subscribers import AgreementStatus, Registration, SubscriberRow, SubscriptionStatus
from awsmp.usecases.subscription import (
    FORWARDED_SOURCE,
    MAX_ATTEMPTS,
    PARKED_FOR,
    UnresolvedLicense,
    register_subscriber,
)
from tests.unit.lifecycle_support import (
    AGREEMENT,
    BUYER,
    EVENT_SPELLING,
    LICENSE,
    OTHER_BUYER,
    OTHER_LICENSE,
    PRODUCT,
    SELLER,
    SLASH_SPELLING,
    START,
    ManualClock,
    MemorySubscribers,
    World,
    amended,
    at,
    cancellation_request,
    deprovisioned,
    ended,
    envelope,
    updated,
)

ACCOUNT_IN_ANOTHER_SOURCE = "arn:aws:license-manager::999988887777:license:l-0a1b2c3d"


def test_an_applied_event_is_counted_by_its_type() -> None:
    world = World()
    world.handle(updated(at(0)), deprovisioned(at(5)), ended(at(6)), amended(at(7)))
    assert world.telemetry.counts == [
        (Metric.EVENT_APPLIED, "License Updated"),
        (Metric.EVENT_APPLIED, "License Deprovisioned"),
        (Metric.EVENT_APPLIED, "Purchase Agreement Ended"),
        (Metric.EVENT_APPLIED, "Purchase Agreement Amended"),
    ]


def test_a_stale_event_is_counted_and_a_duplicate_is_only_logged() -> None:
    world = World()
    world.handle(deprovisioned(at(5)), updated(at(0)), deprovisioned(at(5)))
    assert world.telemetry.counts[1:] == [(Metric.EVENT_STALE, "License Updated")]
    assert world.telemetry.infos[-1][1]["outcome"] == "duplicate"


def test_a_duplicate_writes_nothing() -> None:
    world = World()
    world.handle(updated(at(0)))
    version = world.row.version
    world.handle(updated(at(0)))
    assert world.row.version == version


def test_an_agreement_event_without_a_licence_is_parked_and_counted_and_no_error() -> None:
    world = World()
    world.handle(ended(at(5)))
    assert world.subscribers.rows == {}
    assert world.telemetry.counts == [(Metric.EVENT_PARKED, "Purchase Agreement Ended")]
    assert world.telemetry.errors == []


@pytest.mark.parametrize("make", [updated, deprovisioned])
def test_parked_events_are_applied_when_the_licence_comes(make: Any) -> None:
    world = World()
    world.handle(ended(at(5), status="EXPIRED"), amended(at(4), autoRenewalEnabled=False), make(at(0)))
    assert world.row.agreement_status is AgreementStatus.INACTIVE
    assert world.row.agreement_status_reason == "EXPIRED"
    assert world.row.auto_renewal is False


def test_a_redelivered_licence_event_applies_what_was_parked_since() -> None:
    """Its first delivery may have stopped between writing the row and looking for parked events."""
    world = World()
    world.handle(updated(at(0)))
    untouched = dict(world.subscribers.rows)
    world.handle(ended(at(5)))
    world.subscribers.rows = untouched
    world.handle(updated(at(0)))
    assert world.row.agreement_status is AgreementStatus.INACTIVE


def test_an_agreement_event_reaches_every_licence_of_the_agreement() -> None:
    world = World()
    world.handle(updated(at(0)), updated(at(1), arn=OTHER_LICENSE), ended(at(5)))
    rows = world.subscribers.rows.values()
    assert [row.agreement_status for row in rows] == [AgreementStatus.INACTIVE] * 2


def test_an_agreement_event_finds_rows_whose_link_has_expired_through_the_index() -> None:
    world = World()
    world.handle(updated(at(0)))
    world.log.licenses.clear()
    world.handle(ended(at(5)))
    assert world.row.agreement_status is AgreementStatus.INACTIVE


def test_parked_events_and_links_expire_after_two_weeks() -> None:
    world = World()
    world.handle(updated(at(0)))
    assert set(world.log.licenses.values()) == {START + PARKED_FOR}


@pytest.mark.parametrize(
    "fields",
    [
        {"arn": None},
        {"account": None},
        {"product": None},
        {"product": None, "agreement": None},
        {"arn": None, "account": None, "product": None},
    ],
)
def test_a_deprovisioned_that_lacks_something_is_resolved(fields: dict[str, None]) -> None:
    world = World()
    world.handle(updated(at(0)), deprovisioned(at(5), **fields))
    assert world.row.subscription_status is SubscriptionStatus.DEPROVISIONING
    assert world.row.product_code == PRODUCT


@pytest.mark.parametrize(
    "fields",
    [
        {"arn": None},
        {"arn": OTHER_LICENSE, "account": None},
        {"arn": OTHER_LICENSE, "product": None},
        {"arn": None, "account": OTHER_BUYER},
        {"arn": None, "agreement": "agmt-unknown"},
    ],
)
def test_a_deprovisioned_that_leads_to_no_licence_fails_until_it_does(fields: dict[str, Any]) -> None:
    world = World()
    if fields != {"arn": None}:
        world.handle(updated(at(0)))
    before = dict(world.subscribers.rows)
    with pytest.raises(UnresolvedLicense):
        world.handle(deprovisioned(at(5), **fields))
    assert world.subscribers.rows == before
    if fields == {"arn": None}:
        world.handle(updated(at(0)), deprovisioned(at(5), **fields))
        assert world.row.subscription_status is SubscriptionStatus.DEPROVISIONING


def test_a_deprovisioned_without_arn_whose_agreement_has_two_licences_is_not_guessed() -> None:
    world = World()
    world.handle(updated(at(0)), updated(at(1), arn=OTHER_LICENSE))
    with pytest.raises(UnresolvedLicense, match="leads to 2"):
        world.handle(deprovisioned(at(5), arn=None))
    assert {row.subscription_status for row in world.subscribers.rows.values()} == {SubscriptionStatus.ACTIVE}


@pytest.mark.parametrize("make", [updated, deprovisioned])
def test_another_product_is_counted_and_ignored(make: Any) -> None:
    world = World()
    world.handle(make(at(0), product="another"))
    assert world.subscribers.rows == {}
    assert world.log.licenses == {}
    assert [metric for metric, _ in world.telemetry.counts] == [Metric.EVENT_IGNORED]


def test_no_product_codes_mean_every_product() -> None:
    world = World(product_codes=frozenset())
    world.handle(updated(at(0), product="another"))
    assert world.row.product_code == "another"


@pytest.mark.parametrize(
    "name", ["Purchase Agreement Created", "Purchase Agreement Ending", "Something Nobody Has Heard Of"]
)
def test_every_other_type_is_counted_by_name_and_no_error(name: str) -> None:
    world = World()
    world.handle(envelope(f"{name} - Manufacturer", at(0), {}, event_id="e"))
    assert world.telemetry.counts == [(Metric.EVENT_IGNORED, name)]
    assert world.telemetry.infos[0][1] == {"detail_type": name}
    assert world.telemetry.errors == []


def test_a_cancellation_request_is_forwarded_whole_under_a_source_of_our_own() -> None:
    world = World()
    world.handle(cancellation_request(at(3)))
    ((source, detail_type, time, detail),) = world.forwarder.forwarded
    assert source == FORWARDED_SOURCE
    assert not source.startswith("aws.")
    assert detail_type == "Agreement Cancellation Request Approved - Proposer"
    assert time == at(3)
    assert (detail["eventId"], detail["eventTime"]) == ("acr@2026-11-10T08:03:00Z", "2026-11-10T08:03:00Z")
    assert (detail["source"], detail["account"]) == ("aws.agreement-marketplace", SELLER)
    assert detail["detail"]["agreement"]["id"] == AGREEMENT
    assert detail["detail"]["agreementCancellationRequest"]["statusCode"] == "APPROVED"
    assert world.telemetry.counts == [(Metric.EVENT_IGNORED, "Agreement Cancellation Request Approved")]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("not json", MalformedEvent),
        (updated(at(0), account=None), MalformedEvent),
        (updated(at(0), arn="l-1"), InvalidLicenseArn),
        (envelope("License Updated", at(0), {}, event_id="e", source="custom.source"), Misconfigured),
        (envelope("License Updated", at(0), {}, event_id="e", account="999988887777"), Misconfigured),
    ],
)
def test_what_cannot_be_handled_raises_and_leaves_no_trace(body: str, error: type[Exception]) -> None:
    world = World()
    with pytest.raises(error):
        world.handle(body)
    assert world.subscribers.rows == {}
    assert world.log.events == {}
    assert world.telemetry.counts == []


def test_the_seller_account_check_is_optional() -> None:
    world = World(seller_account=None)
    world.handle(envelope("Purchase Agreement Created", at(0), {}, event_id="e", account="999988887777"))
    assert [metric for metric, _ in world.telemetry.counts] == [Metric.EVENT_IGNORED]


def test_every_spelling_meets_in_one_row_that_knows_them_all() -> None:
    world = World()
    world.handle(updated(at(0), arn=EVENT_SPELLING), deprovisioned(at(5), arn=SLASH_SPELLING))
    assert world.row.license_arn == LICENSE
    assert {EVENT_SPELLING, SLASH_SPELLING, LICENSE} <= world.row.license_arn_spellings
    assert world.row.subscription_status is SubscriptionStatus.DEPROVISIONING


def test_a_row_under_a_key_of_another_account_segment_is_found_and_no_second_one_made() -> None:
    world = World()
    world.handle(updated(at(0), arn=ACCOUNT_IN_ANOTHER_SOURCE), deprovisioned(at(5)))
    assert world.row.license_arn == ACCOUNT_IN_ANOTHER_SOURCE
    assert world.row.subscription_status is SubscriptionStatus.DEPROVISIONING
    assert LICENSE in world.row.license_arn_spellings


def test_two_rows_of_one_licence_agree_after_the_next_event() -> None:
    left, right = World(), World()
    left.handle(updated(at(0)))
    right.handle(deprovisioned(at(5), arn=ACCOUNT_IN_ANOTHER_SOURCE))
    world = World()
    world.subscribers.rows = left.subscribers.rows | right.subscribers.rows
    world.handle(ended(at(9)))
    first, second = world.subscribers.rows.values()
    assert replace(first, license_arn="") == replace(second, license_arn="")
    assert first.subscription_status is SubscriptionStatus.DEPROVISIONING
    assert first.agreement_status is AgreementStatus.INACTIVE
    # The activation was known to the one row only, the last hour to the other.
    assert (first.activation_time, first.deprovisioning_expiry) == (at(0), at(65))
    assert {first.license_arn, second.license_arn} == {LICENSE, ACCOUNT_IN_ANOTHER_SOURCE}


def test_two_licences_of_one_account_stay_apart() -> None:
    world = World()
    world.handle(updated(at(0)), updated(at(0), arn=OTHER_LICENSE, agreement="agmt-other"))
    world.handle(deprovisioned(at(5)))
    statuses = {row.license_arn: row.subscription_status for row in world.subscribers.rows.values()}
    assert statuses == {
        LICENSE: SubscriptionStatus.DEPROVISIONING,
        OTHER_LICENSE: SubscriptionStatus.ACTIVE,
    }


class ContestedSubscribers(MemorySubscribers):
    """Another writer is faster ``losses`` times."""

    losses = 0

    def write(self, old: SubscriberRow | None, new: SubscriberRow) -> None:
        if self.losses:
            self.losses -= 1
            raise ConditionFailed("another version")
        super().write(old, new)


@pytest.mark.parametrize("losses", [1, MAX_ATTEMPTS - 1])
def test_a_lost_compare_and_set_starts_again_from_the_read(losses: int) -> None:
    subscribers = ContestedSubscribers()
    subscribers.losses = losses
    world = World(subscribers=subscribers)
    world.handle(updated(at(0)))
    assert world.row.subscription_status is SubscriptionStatus.ACTIVE
    assert len(world.clock.slept) == losses
    assert min(world.clock.slept) >= 0


def test_a_row_that_never_holds_still_fails_the_message() -> None:
    subscribers = ContestedSubscribers()
    subscribers.losses = MAX_ATTEMPTS
    world = World(subscribers=subscribers)
    with pytest.raises(StoreUnavailable):
        world.handle(updated(at(0)))
    assert world.telemetry.counts == []


def test_a_registration_upserts_the_row_and_returns_it() -> None:
    subscribers, clock = MemorySubscribers(), ManualClock(datetime(2026, 11, 10, tzinfo=UTC))
    row = register_subscriber(subscribers, clock, Registration(EVENT_SPELLING, BUYER, PRODUCT, "eu-west-1"))
    assert subscribers.rows == {(LICENSE, BUYER): row}
    assert row.home_region == "eu-west-1"
    with pytest.raises(InvalidLicenseArn):
        register_subscriber(subscribers, clock, Registration("l-1", BUYER, PRODUCT, "eu-west-1"))
