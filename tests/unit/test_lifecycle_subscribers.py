"""Transitions of the subscriber row: the rules one by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from awsmp.domain.lifecycle_events import (
    AgreementAmended,
    AgreementEnded,
    AgreementEvent,
    LicenseDeprovisioned,
    LicenseEvent,
    LicenseUpdated,
    parse_envelope,
    parse_event,
)
from awsmp.domain.subscribers import (
    AgreementStatus,
    IncompleteEvent,
    Outcome,
    Registration,
    SubscriberRow,
    SubscriptionStatus,
    apply,
    apply_all,
    join,
    register,
)
from tests.unit.lifecycle_support import (
    AGREEMENT,
    BUYER,
    EVENT_SPELLING,
    LICENSE,
    PRODUCT,
    RENEWAL,
    SLASH_SPELLING,
    amended,
    at,
    deprovisioned,
    ended,
    updated,
)

ACTIVE, DEPROVISIONING, INACTIVE = SubscriptionStatus


def event(body: str) -> LicenseEvent | AgreementEvent:
    parsed = parse_event(parse_envelope(body))
    assert isinstance(parsed, LicenseUpdated | LicenseDeprovisioned | AgreementEnded | AgreementAmended)
    return parsed


def after(*bodies: str, start: SubscriberRow | None = None) -> SubscriberRow:
    row = start
    for body in bodies:
        row = apply(row, event(body)).row
    assert row is not None
    return row


def finalized(row: SubscriberRow) -> SubscriberRow:
    return replace(row, subscription_status=INACTIVE, deprovisioning_expiry=None)


def test_license_updated_makes_the_row() -> None:
    change = apply(None, event(updated(at(0))))
    assert change.outcome is Outcome.APPLIED
    row = change.row
    assert row is not None
    assert (row.license_arn, row.customer_account) == (LICENSE, BUYER)
    assert row.license_arn_spellings == {EVENT_SPELLING, f"arn:{EVENT_SPELLING}", LICENSE}
    assert (row.product_code, row.agreement_id) == (PRODUCT, AGREEMENT)
    assert (row.subscription_status, row.agreement_status) == (ACTIVE, AgreementStatus.ACTIVE)
    assert row.activation_time == at(0)
    assert row.deprovisioning_expiry is None
    assert row.home_region is None
    assert row.registered_regions == frozenset()


def test_deprovisioned_sets_the_markers_one_hour_after_the_event() -> None:
    row = after(updated(at(0)), deprovisioned(at(30)))
    assert row.subscription_status is DEPROVISIONING
    assert row.deprovisioning_expiry == at(30) + timedelta(hours=1)
    assert row.agreement_status is AgreementStatus.ACTIVE


def test_deprovisioned_that_arrives_first_makes_the_row_with_no_agreement_status() -> None:
    row = after(deprovisioned(at(30)))
    assert (row.subscription_status, row.deprovisioning_expiry) == (DEPROVISIONING, at(90))
    assert (row.product_code, row.agreement_id) == (PRODUCT, AGREEMENT)
    assert row.agreement_status is None
    assert row.activation_time is None


def test_a_stale_license_updated_never_revives_but_brings_the_activation_and_the_agreement_status() -> None:
    change = apply(after(deprovisioned(at(30))), event(updated(at(0))))
    assert change.outcome is Outcome.STALE
    assert change.row is not None
    assert (change.row.subscription_status, change.row.deprovisioning_expiry) == (DEPROVISIONING, at(90))
    assert change.row.activation_time == at(0)
    assert change.row.agreement_status is AgreementStatus.ACTIVE


@pytest.mark.parametrize("is_final", [False, True])
def test_a_newer_license_updated_revives_and_clears_the_markers(is_final: bool) -> None:
    row = after(updated(at(0)), deprovisioned(at(30)))
    revived = after(updated(at(60)), start=finalized(row) if is_final else row)
    assert (revived.subscription_status, revived.deprovisioning_expiry) == (ACTIVE, None)
    assert revived.activation_time == at(0)


@pytest.mark.parametrize("minutes", [0, 30])
def test_a_license_updated_that_is_not_newer_never_revives_a_finalised_licence(minutes: float) -> None:
    row = finalized(after(updated(at(0)), deprovisioned(at(30))))
    change = apply(row, event(updated(at(minutes), event_id="zzz")))
    assert change.row is not None
    assert change.outcome is Outcome.STALE
    assert change.row.subscription_status is INACTIVE


def test_a_redelivered_deprovisioned_after_finalisation_changes_nothing() -> None:
    row = finalized(after(updated(at(0)), deprovisioned(at(30))))
    change = apply(row, event(deprovisioned(at(30))))
    assert change.outcome is Outcome.DUPLICATE
    assert change.row == row


def test_at_equal_times_deprovisioned_wins_whichever_comes_first() -> None:
    first = after(updated(at(0)), deprovisioned(at(0)))
    second = after(deprovisioned(at(0)), updated(at(0)))
    assert first == second
    assert first.subscription_status is DEPROVISIONING


@pytest.mark.parametrize(
    "body", [updated(at(0)), deprovisioned(at(5)), ended(at(5)), amended(at(5), autoRenewalEnabled=True)]
)
def test_a_duplicate_is_no_change(body: str) -> None:
    row = after(updated(at(0)), body)
    change = apply(row, event(body))
    assert change.outcome is Outcome.DUPLICATE
    assert change.row == row


def test_ended_sets_the_agreement_status_and_the_reason_and_nothing_else() -> None:
    row = after(updated(at(0)))
    over = after(ended(at(5), status="EXPIRED"), start=row)
    assert over == replace(
        row,
        agreement_status=AgreementStatus.INACTIVE,
        agreement_status_reason="EXPIRED",
        agreement_stamp=over.agreement_stamp,
    )


def test_a_newer_license_updated_of_the_same_agreement_makes_it_active_again() -> None:
    row = after(updated(at(0)), ended(at(5), status="RENEWED"), updated(at(10)))
    assert row.agreement_status is AgreementStatus.ACTIVE
    assert row.agreement_status_reason is None


def test_amended_sets_the_terms_and_keeps_the_agreement_active() -> None:
    row = after(updated(at(0)), amended(at(5), endTime="2027-01-01T00:00:00Z", autoRenewalEnabled=True))
    assert row.end_time == datetime.fromisoformat("2027-01-01T00:00:00+00:00")
    assert row.auto_renewal is True
    assert row.agreement_status is AgreementStatus.ACTIVE


def test_an_amendment_that_states_nothing_keeps_the_terms_and_one_with_a_null_end_removes_it() -> None:
    row = after(updated(at(0)), amended(at(5), endTime="2027-01-01T00:00:00Z", autoRenewalEnabled=True))
    assert after(amended(at(6)), start=row).end_time == row.end_time
    assert after(amended(at(6)), start=row).auto_renewal is True
    assert after(amended(at(6), endTime=None), start=row).end_time is None


def test_an_amendment_older_than_ended_leaves_the_status_but_brings_its_terms() -> None:
    change = apply(after(updated(at(0)), ended(at(10))), event(amended(at(5), autoRenewalEnabled=False)))
    assert change.outcome is Outcome.STALE
    assert change.row is not None
    assert change.row.agreement_status is AgreementStatus.INACTIVE
    assert change.row.auto_renewal is False


def test_the_former_agreements_late_ended_does_not_touch_its_successor() -> None:
    renewed = after(updated(at(0)), updated(at(10), agreement=RENEWAL))
    change = apply(renewed, event(ended(at(20), status="RENEWED")))
    assert change.outcome is Outcome.STALE
    assert change.row == renewed


def test_a_renewal_under_another_id_drops_what_the_former_agreement_said() -> None:
    row = after(
        updated(at(0)),
        amended(at(5), endTime="2027-01-01T00:00:00Z", autoRenewalEnabled=True),
        ended(at(20), status="RENEWED"),
        updated(at(10), agreement=RENEWAL),
    )
    assert row.agreement_id == RENEWAL
    assert (row.agreement_status, row.agreement_status_reason) == (AgreementStatus.ACTIVE, None)
    assert (row.end_time, row.auto_renewal) == (None, None)


def test_license_updated_decides_about_the_agreement_and_deprovisioned_only_while_there_is_none() -> None:
    row = after(deprovisioned(at(30), agreement=RENEWAL), updated(at(0)))
    assert row.agreement_id == AGREEMENT
    assert after(deprovisioned(at(40), agreement=RENEWAL), start=row).agreement_id == AGREEMENT


def test_a_deprovisioned_without_agreement_fills_in_the_product_only() -> None:
    row = after(deprovisioned(at(30), agreement=None))
    assert (row.product_code, row.agreement_id) == (PRODUCT, None)
    row = after(deprovisioned(at(40), agreement=None, product="other"), start=row)
    assert row.product_code == PRODUCT


def test_an_agreement_event_makes_no_row() -> None:
    change = apply(None, event(ended(at(0))))
    assert (change.row, change.outcome) == (None, Outcome.NO_ROW)


def test_several_agreement_events_are_applied_in_one_change() -> None:
    events = [event(amended(at(5), autoRenewalEnabled=True)), event(ended(at(6)))]
    several = [each for each in events if isinstance(each, AgreementEnded | AgreementAmended)]
    row = after(updated(at(0)))
    change = apply_all(row, several)
    assert change.outcome is Outcome.APPLIED
    assert change.row is not None
    assert (change.row.agreement_status, change.row.auto_renewal) == (AgreementStatus.INACTIVE, True)
    assert apply_all(change.row, several).outcome is Outcome.DUPLICATE


@pytest.mark.parametrize("missing", [{"arn": None}, {"account": None}])
def test_an_unresolved_licence_is_refused(missing: dict[str, None]) -> None:
    with pytest.raises(IncompleteEvent):
        apply(None, event(deprovisioned(at(0), **missing)))


def registration(region: str = "eu-west-1", arn: str = LICENSE) -> Registration:
    return Registration(arn, BUYER, PRODUCT, region)


def test_a_registration_before_license_updated_makes_a_row_without_statuses() -> None:
    change = register(None, registration(arn=SLASH_SPELLING))
    row = change.row
    assert row is not None
    assert change.outcome is Outcome.APPLIED
    assert (row.license_arn, row.product_code, row.agreement_id) == (LICENSE, PRODUCT, None)
    assert (row.subscription_status, row.agreement_status, row.activation_time) == (None, None, None)
    assert row.home_region == "eu-west-1"
    assert row.registered_regions == {"eu-west-1"}


def test_a_second_registration_adds_its_region_and_leaves_the_home_region() -> None:
    row = register(register(None, registration()).row, registration("us-east-2")).row
    assert row is not None
    assert row.home_region == "eu-west-1"
    assert row.registered_regions == {"eu-west-1", "us-east-2"}
    assert register(row, registration("us-east-2")).outcome is Outcome.DUPLICATE


@pytest.mark.parametrize("bodies", [(), (updated(at(0)),), (updated(at(0)), deprovisioned(at(5)))])
def test_registration_and_events_lead_to_one_row_in_either_order(bodies: tuple[str, ...]) -> None:
    registered = register(None, registration()).row
    events_last = after(*bodies, start=registered)
    events_first = register(after(*bodies) if bodies else None, registration()).row
    assert events_first == events_last


def test_joining_two_rows_of_one_licence_takes_the_newest_of_each_register() -> None:
    left = register(after(updated(at(0)), ended(at(20))), registration("us-east-2")).row
    right = replace(
        after(
            deprovisioned(at(10)),
            amended(at(15), autoRenewalEnabled=True),
            start=register(None, registration()).row,
        ),
        license_arn="arn:aws:license-manager::999988887777:license:l-0a1b2c3d",
    )
    assert left is not None
    joined, mirrored = join([left, right]), join([right, left])
    assert joined is not None
    assert joined.license_arn == left.license_arn
    assert joined.subscription_status is DEPROVISIONING
    assert (joined.agreement_status, joined.auto_renewal) == (AgreementStatus.INACTIVE, True)
    assert (joined.activation_time, joined.home_region) == (at(0), "eu-west-1")
    assert joined.registered_regions == {"eu-west-1", "us-east-2"}
    assert mirrored == replace(joined, license_arn=right.license_arn)


def test_joining_takes_the_current_agreement_and_nothing_of_the_former() -> None:
    former = after(updated(at(0)), ended(at(20)))
    current = after(updated(at(10), agreement=RENEWAL))
    joined = join([former, current])
    assert joined is not None
    assert (joined.agreement_id, joined.agreement_status) == (RENEWAL, AgreementStatus.ACTIVE)


def test_joining_keeps_a_finalisation() -> None:
    row = after(updated(at(0)), deprovisioned(at(10)))
    for pair in ([row, finalized(row)], [finalized(row), row]):
        joined = join(pair)
        assert joined is not None
        assert joined.subscription_status is INACTIVE
        assert joined.deprovisioning_expiry is None


def test_joining_nothing_is_nothing() -> None:
    assert join([]) is None
