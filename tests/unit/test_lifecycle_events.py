"""From an EventBridge envelope to a lifecycle event."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from awsmp.domain.license_arns import InvalidLicenseArn
from awsmp.domain.lifecycle_events import (
    AgreementAmended,
    AgreementEnded,
    CancellationRequest,
    EventKind,
    LicenseDeprovisioned,
    LicenseUpdated,
    LifecycleEvent,
    MalformedEvent,
    OtherEvent,
    Stamp,
    parse_envelope,
    parse_event,
)
from tests.unit.lifecycle_support import (
    AGREEMENT,
    BUYER,
    EVENT_SPELLING,
    PRODUCT,
    amended,
    at,
    cancellation_request,
    deprovisioned,
    ended,
    envelope,
    license_event,
    updated,
)


def parse(body: str) -> LifecycleEvent:
    return parse_event(parse_envelope(body))


def stamp(kind: EventKind, minutes: float, event_id: str = "e") -> Stamp:
    return Stamp(at(minutes), kind, event_id)


def test_license_updated_is_read_from_the_documented_paths() -> None:
    assert parse(updated(at(0), event_id="e")) == LicenseUpdated(
        stamp=stamp(EventKind.LICENSE_UPDATED, 0),
        license_arn=EVENT_SPELLING,
        customer_account=BUYER,
        product_code=PRODUCT,
        agreement_id=AGREEMENT,
    )


def test_license_deprovisioned_is_told_from_license_updated_by_the_detail_type_alone() -> None:
    assert parse(deprovisioned(at(0), event_id="e")) == LicenseDeprovisioned(
        stamp=stamp(EventKind.LICENSE_DEPROVISIONED, 0),
        license_arn=EVENT_SPELLING,
        customer_account=BUYER,
        product_code=PRODUCT,
        agreement_id=AGREEMENT,
    )


@pytest.mark.parametrize("role", ["Manufacturer", "Proposer", "Acceptor", "Some Future Role"])
def test_any_role_suffix_matches(role: str) -> None:
    assert isinstance(parse(license_event("License Updated", at(0), role=role)), LicenseUpdated)


def test_a_detail_type_without_a_role_matches_too() -> None:
    detail = {"agreement": {"id": AGREEMENT}}
    parsed = parse(envelope("Purchase Agreement Ended", at(0), detail, event_id="e"))
    assert parsed == AgreementEnded(stamp(EventKind.AGREEMENT_ENDED, 0), AGREEMENT, None)


@pytest.mark.parametrize(
    "status", ["CANCELLED", "EXPIRED", "TERMINATED", "RENEWED", "REPLACED", "SUPERSEDED"]
)
def test_ended_carries_the_reason(status: str) -> None:
    parsed = parse(ended(at(0), status=status, event_id="e"))
    assert parsed == AgreementEnded(stamp(EventKind.AGREEMENT_ENDED, 0), AGREEMENT, status)


@pytest.mark.parametrize(
    ("terms", "states_end_time", "end_time", "auto_renewal"),
    [
        ({}, False, None, None),
        ({"endTime": None, "autoRenewalEnabled": None}, True, None, None),
        (
            {"endTime": "2027-11-10T08:00:00.750Z", "autoRenewalEnabled": True},
            True,
            datetime(2027, 11, 10, 8, tzinfo=UTC),
            True,
        ),
        (
            {"endTime": "2027-11-10T10:00:00+02:00", "autoRenewalEnabled": False},
            True,
            datetime(2027, 11, 10, 8, tzinfo=UTC),
            False,
        ),
    ],
)
def test_amended_tells_a_null_end_from_no_statement(
    terms: dict[str, Any], states_end_time: bool, end_time: datetime | None, auto_renewal: bool | None
) -> None:
    assert parse(amended(at(0), event_id="e", **terms)) == AgreementAmended(
        stamp(EventKind.AGREEMENT_AMENDED, 0), AGREEMENT, states_end_time, end_time, auto_renewal
    )


def test_a_cancellation_request_has_the_flat_shape() -> None:
    parsed = parse(cancellation_request(at(0)))
    assert parsed == CancellationRequest("acr@2026-11-10T08:00:00Z", AGREEMENT, "acr-1", "APPROVED")


@pytest.mark.parametrize(
    "name",
    [
        "Purchase Agreement Created",
        "Purchase Agreement Ending",
        "Purchase Agreement Renewal Upcoming",
        "Purchase Agreement Advisory Issued",
        "License Updated Again",
        "Spend Threshold Reached",
    ],
)
def test_every_other_type_is_named_without_its_role(name: str) -> None:
    assert parse(envelope(f"{name} - Proposer", at(0), {}, event_id="e")) == OtherEvent(name)


@pytest.mark.parametrize(
    "body",
    ["", "not json", "[]", '"text"', "{}", json.dumps({"detail": {}}), json.dumps({"detail": "x"})],
)
def test_what_is_no_envelope_is_malformed(body: str) -> None:
    with pytest.raises(MalformedEvent):
        parse_envelope(body)


@pytest.mark.parametrize("field", ["id", "detail-type", "source", "account", "time", "detail"])
def test_an_envelope_that_lacks_a_field_is_malformed(field: str) -> None:
    whole = json.loads(updated(at(0)))
    del whole[field]
    with pytest.raises(MalformedEvent):
        parse_envelope(json.dumps(whole))


@pytest.mark.parametrize("time", ["yesterday", "2026-11-10T08:00:00", 1_762_761_600, " "])
def test_an_envelope_time_that_is_no_instant_is_malformed(time: object) -> None:
    whole = json.loads(updated(at(0)))
    whole["time"] = time
    with pytest.raises(MalformedEvent):
        parse_envelope(json.dumps(whole))


@pytest.mark.parametrize(
    "body",
    [
        updated(at(0), arn=None),
        updated(at(0), account=None),
        updated(at(0), product=None),
        updated(at(0), agreement=None),
        updated(at(0), account="buyer"),
        deprovisioned(at(0), arn=None, agreement=None),
        deprovisioned(at(0), account=None, agreement=None),
        envelope("Purchase Agreement Ended - Proposer", at(0), {}, event_id="e"),
        envelope("Purchase Agreement Ended - Proposer", at(0), {"agreement": "x"}, event_id="e"),
        amended(at(0), autoRenewalEnabled="yes"),
        amended(at(0), endTime="next year"),
        amended(at(0), endTime=5),
        envelope("Agreement Cancellation Request Approved", at(0), {"agreement": {"id": "a"}}, event_id="e"),
    ],
)
def test_an_event_that_lacks_what_it_needs_is_malformed(body: str) -> None:
    with pytest.raises(MalformedEvent):
        parse(body)


@pytest.mark.parametrize("make", [updated, deprovisioned])
def test_a_licence_arn_that_cannot_be_repaired_is_refused(make: Any) -> None:
    with pytest.raises(InvalidLicenseArn):
        parse(make(at(0), arn="license-manager/l-1"))


@pytest.mark.parametrize(
    ("fields", "complete"),
    [({}, True), ({"arn": None}, False), ({"account": None}, False), ({"product": None}, False)],
)
def test_deprovisioned_is_complete_with_licence_account_and_product(
    fields: dict[str, Any], complete: bool
) -> None:
    event = parse(deprovisioned(at(0), **fields))
    assert isinstance(event, LicenseDeprovisioned)
    assert event.is_complete is complete


def test_of_one_second_the_event_that_ends_something_comes_last_and_ids_break_the_tie() -> None:
    ordered = [
        stamp(EventKind.LICENSE_DEPROVISIONED, 0, "z"),
        stamp(EventKind.LICENSE_UPDATED, 1, "a"),
        stamp(EventKind.LICENSE_UPDATED, 1, "b"),
        stamp(EventKind.AGREEMENT_AMENDED, 1, "a"),
        stamp(EventKind.AGREEMENT_ENDED, 1, "a"),
        stamp(EventKind.LICENSE_DEPROVISIONED, 1, "a"),
        stamp(EventKind.LICENSE_UPDATED, 2, "a"),
    ]
    backwards = [*reversed(ordered)]
    assert sorted(backwards, key=lambda each: each.order) == ordered


def test_error_messages_name_paths_and_no_values() -> None:
    with pytest.raises(MalformedEvent) as failure:
        parse(updated(at(0), account="jane.doe"))
    assert "acceptor.accountId" in str(failure.value)
    assert "jane.doe" not in str(failure.value)
