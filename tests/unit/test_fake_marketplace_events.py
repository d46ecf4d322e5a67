"""Lifecycle envelopes carry the documented field paths: no more, no less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandbox.fake_marketplace import FakeMarketplace, Settings, events
from sandbox.fake_marketplace.events import CancellationStatus, Envelope, Role
from sandbox.fake_marketplace.settings import LicenseArnText
from sandbox.fake_marketplace.subscriptions import AgreementStatus, Intent

BUYER = "111122223333"
SELLER = "123456789012"
PRODUCT = "exampleproductcode"
START = datetime(2026, 11, 15, 12, 0, 11, 13_500, tzinfo=UTC)
END = datetime(2027, 11, 15, 12, tzinfo=UTC)
ARN = "arn:aws:license-manager::123456789012:license:l-0123456789abcdef0123456789abcdef"


class SettableClock:
    instant = START

    def now(self) -> datetime:
        return self.instant


@pytest.fixture
def market() -> FakeMarketplace:
    engine = FakeMarketplace(SettableClock(), Settings(seed=1))
    engine.create_product(PRODUCT, ["requests"], product_id="prod-example123", title="Example")
    return engine


def paths(value: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from paths(item, f"{prefix}{name}.")
        else:
            yield prefix + name


PARTIES = {"acceptor.accountId", "proposer.accountId"}
TERMS = {f"agreement.{n}" for n in ("id", "intent", "status", "acceptanceTime", "startTime", "endTime")}
NAMED = PARTIES | {"proposer.name", "product.id", "product.title"}
LICENSE = PARTIES | {"agreement.id", "product.code", "product.id", "license.arn", "offer.id"}
DIRECT = PARTIES | {"resaleAuthorization.id", "offer.id"}
SUMMARY = {"renewalSummary.lockoutStartTime", "renewalSummary.disabledBy"}
SPAN = {"agreement.id", "agreement.startTime", "agreement.endTime"}
RENEWAL = NAMED | SPAN | {f"renewalSummary.{n}" for n in ("tcv", "currency", "lockoutReached")}
FINALIZED = {"renewalSummary.termsFinalizedTime", "renewalSummary.lockoutStartTime"}
ADVISORY = PARTIES | {"agreement.id", "product.id", "offer.id"}
ENDING = {"agreement.status", "agreement.autoRenewalEnabled", "agreement.daysBeforeEndTime", "offer.id"}
REQUEST = {"id", "reasonCode", "reasonMessage", "statusCode", "statusMessage", "createdAt", "updatedAt"}
CANCELLATION = {f"agreement.{name}" for name in ("id", "acceptorId", "productId", "offerId")} | {
    f"agreementCancellationRequest.{name}" for name in REQUEST
}
ADJUSTMENT = {"agreement.id", "invoice.originalInvoiceId"} | {
    f"billingAdjustmentRequest.{name}"
    for name in ("id", "adjustmentAmount", "currencyCode", "adjustmentReasonCode")
}


def all_events(engine: FakeMarketplace) -> list[Envelope]:
    """Return one event of every detail type."""
    sold = engine.subscribe(PRODUCT, BUYER, end_time=END, auto_renewal=True)
    agreement, grant, product = sold.agreement, sold.license, engine.product(PRODUCT)
    number = agreement.agreement_id
    adjustment = {"adjustment_id": "ba-example", "amount": "12.34", "invoice_id": "123456789"}
    sent = [
        *sold.events,
        engine.create_agreement(PRODUCT, BUYER, end_time=END, role=Role.MANUFACTURER)[1],
        engine.create_agreement(
            PRODUCT, BUYER, end_time=END, intent=Intent.RENEW, previous_agreement_id=number
        )[1]
        | {"detail-type": "renewal"},
        engine.amend_agreement(number, end_time=END),
        engine.amend_agreement(number, end_time=END, role=Role.MANUFACTURER),
        engine.end_agreement(number),
        engine.end_agreement(number, role=Role.MANUFACTURER),
        engine.deprovision_license(grant.arn),
        *(engine.request_cancellation(number, status) for status in CancellationStatus),
    ]
    meta = engine.event_meta
    return [
        *sent,
        events.purchase_agreement_ending(meta(), agreement, product, 30),
        events.purchase_agreement_renewal_terms_finalized(meta(), agreement, product, "100.00"),
        events.purchase_agreement_renewal_upcoming(meta(), agreement, product, "100.00"),
        events.purchase_agreement_advisory_issued(meta(), agreement, product),
        events.purchase_agreement_advisory_resolved(meta(), agreement, product),
        events.purchase_agreement_billing_adjustment_completed(meta(), agreement, **adjustment),
        events.purchase_agreement_billing_adjustment_failed(meta(), agreement, **adjustment),
    ]


EXPECTED: dict[str, set[str]] = {
    "Purchase Agreement Created - Proposer": TERMS | DIRECT,
    "Purchase Agreement Created - Manufacturer": TERMS | DIRECT,
    "renewal": TERMS | NAMED | {"agreement.previousAgreementId", "offer.id"},
    "Purchase Agreement Amended - Proposer": TERMS
    | DIRECT
    | SUMMARY
    | {"agreement.autoRenewalEnabled", "product.id", "product.title"},
    "Purchase Agreement Amended - Manufacturer": TERMS | DIRECT,
    "Purchase Agreement Ended - Proposer": DIRECT | {"agreement.id", "agreement.status"},
    "Purchase Agreement Ended - Manufacturer": DIRECT | {"agreement.id", "agreement.status"},
    "License Updated - Manufacturer": LICENSE,
    "License Deprovisioned - Manufacturer": LICENSE,
    "Agreement Cancellation Request Pending Approval - Proposer": CANCELLATION,
    "Agreement Cancellation Request Approved - Proposer": CANCELLATION,
    "Agreement Cancellation Request Rejected - Proposer": CANCELLATION,
    "Agreement Cancellation Request Cancelled - Proposer": CANCELLATION,
    "Agreement Cancellation Request Validation Failed - Proposer": CANCELLATION,
    "Purchase Agreement Ending - Proposer": NAMED | SPAN | SUMMARY | ENDING,
    "Purchase Agreement Renewal Terms Finalized - Proposer": RENEWAL | FINALIZED,
    "Purchase Agreement Renewal Upcoming - Proposer": RENEWAL,
    "Purchase Agreement Advisory Issued - Manufacturer": ADVISORY | {"advisory.issuedAt"},
    "Purchase Agreement Advisory Resolved - Manufacturer": ADVISORY | {"advisory.resolvedAt"},
    "Purchase Agreement Billing Adjustment Completed - Proposer": ADJUSTMENT,
    "Purchase Agreement Billing Adjustment Failed - Proposer": ADJUSTMENT,
}


def test_every_detail_type_has_exactly_its_documented_fields(market: FakeMarketplace) -> None:
    found = {event["detail-type"]: set(paths(event["detail"])) for event in all_events(market)}
    common = {"requestId", "catalog"}
    assert found == {name: fields | common for name, fields in EXPECTED.items()}


def test_every_envelope_has_the_documented_frame(market: FakeMarketplace) -> None:
    sent = all_events(market)
    for event in sent:
        assert list(event) == [
            "version",
            "id",
            "detail-type",
            "source",
            "account",
            "time",
            "region",
            "resources",
            "detail",
        ]
        assert event["source"] == "aws.agreement-marketplace"
        assert (event["account"], event["region"]) == (SELLER, "us-east-1")
        assert event["time"] == "2026-11-15T12:00:11Z"
        assert event["detail"]["catalog"] == "AWSMarketplace"
    assert len({event["id"] for event in sent}) == len(sent)


def test_resources_name_the_agreement_except_for_requests_and_adjustments(market: FakeMarketplace) -> None:
    for event in all_events(market):
        arn = f"arn:aws:aws-marketplace::aws:agreement:{event['detail']['agreement']['id']}"
        bare = "Cancellation Request" in event["detail-type"] or "Adjustment" in event["detail-type"]
        assert event["resources"] == ([] if bare else [arn])


def test_the_two_license_events_differ_in_their_type_alone(market: FakeMarketplace) -> None:
    sold = market.subscribe(PRODUCT, BUYER)
    updated = sold.events[1]
    deprovisioned = market.deprovision_license(sold.license.arn)
    assert updated["detail-type"] != deprovisioned["detail-type"]
    assert _without_request(updated) == _without_request(deprovisioned)


def _without_request(event: Envelope) -> dict[str, Any]:
    return {name: value for name, value in event["detail"].items() if name != "requestId"}


@pytest.mark.parametrize("status", [s for s in AgreementStatus if s is not AgreementStatus.ACTIVE])
def test_ended_carries_its_reason(market: FakeMarketplace, status: AgreementStatus) -> None:
    agreement = market.subscribe(PRODUCT, BUYER).agreement
    ended = market.end_agreement(agreement.agreement_id, status)
    assert ended["detail"]["agreement"] == {"id": agreement.agreement_id, "status": status.value}
    assert market.agreement(agreement.agreement_id).status is status


def test_a_renewal_points_back_to_its_predecessor(market: FakeMarketplace) -> None:
    first = market.subscribe(PRODUCT, BUYER).agreement
    second, event = market.create_agreement(
        PRODUCT, BUYER, intent=Intent.RENEW, previous_agreement_id=first.agreement_id
    )
    assert event["detail"]["agreement"]["previousAgreementId"] == first.agreement_id
    assert event["detail"]["agreement"]["id"] == second.agreement_id != first.agreement_id


def test_amending_changes_end_and_renewal(market: FakeMarketplace) -> None:
    agreement = market.subscribe(PRODUCT, BUYER, end_time=END).agreement
    event = market.amend_agreement(
        agreement.agreement_id, end_time=END + timedelta(days=365), auto_renewal=True
    )
    assert event["detail"]["agreement"]["endTime"] == "2028-11-14T12:00:00Z"
    assert event["detail"]["agreement"]["autoRenewalEnabled"] is True
    assert event["detail"]["renewalSummary"]["disabledBy"] is None
    assert market.agreement(agreement.agreement_id).end_time == END + timedelta(days=365)


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("far-future", {"endTime": "9999-01-01T00:00:00Z"}),
        ("null", {"endTime": None}),
        ("absent", {}),
    ],
)
def test_an_open_end_is_written_as_the_switch_says(
    market: FakeMarketplace, switch: str, expected: dict[str, Any]
) -> None:
    market.configure(open_end_text=switch)
    created = market.subscribe(PRODUCT, BUYER).events[0]["detail"]["agreement"]
    assert {name: value for name, value in created.items() if name == "endTime"} == expected


def test_agreement_times_have_milliseconds_where_they_have_any(market: FakeMarketplace) -> None:
    created = market.subscribe(PRODUCT, BUYER, end_time=END).events[0]["detail"]["agreement"]
    assert created["startTime"] == "2026-11-15T12:00:11.013Z"
    assert created["endTime"] == "2027-11-15T12:00:00Z"


@pytest.mark.parametrize(
    ("variant", "text"),
    [
        ("canonical", ARN),
        (
            "without-prefix",
            "aws:license-manager:us-east-1:123456789012:l-0123456789abcdef0123456789abcdef",
        ),
        ("slash", "arn:aws:license-manager::123456789012:license/l-0123456789abcdef0123456789abcdef"),
        (
            "region-slash",
            "arn:aws:license-manager:us-east-1:123456789012:license/l-0123456789abcdef0123456789abcdef",
        ),
    ],
)
def test_license_arns_have_several_spellings(market: FakeMarketplace, variant: str, text: str) -> None:
    market.configure(license_arn_text=variant)
    sold = market.subscribe(PRODUCT, BUYER, license_arn=ARN)
    assert sold.events[1]["detail"]["license"]["arn"] == text
    assert sold.license.arn == ARN
    assert events.license_arn_text(ARN, LicenseArnText(variant)) == text


def test_an_arn_of_another_form_has_no_spellings() -> None:
    arn = "arn:aws:license-manager::123456789012:license/lic-0123456789abcdef"
    assert {events.license_arn_text(arn, variant) for variant in LicenseArnText} == {arn}


def test_changing_a_returned_event_changes_no_history(market: FakeMarketplace) -> None:
    event = market.subscribe(PRODUCT, BUYER).events[0]
    event["detail"]["agreement"]["id"] = "changed"
    assert market.events()[0]["detail"]["agreement"]["id"] != "changed"


def test_a_license_that_comes_back_keeps_its_first_activation(market: FakeMarketplace) -> None:
    clock = SettableClock()
    engine = FakeMarketplace(clock)
    engine.create_product(PRODUCT, ["requests"])
    first = engine.subscribe(PRODUCT, BUYER).license
    clock.instant = START + timedelta(days=1)
    engine.deprovision_license(first.arn)
    again, event = engine.activate_license(first.arn)
    assert again == first
    assert event["time"] == "2026-11-16T12:00:11Z"


def test_a_second_deprovisioning_keeps_the_first_time(market: FakeMarketplace) -> None:
    clock = SettableClock()
    engine = FakeMarketplace(clock)
    engine.create_product(PRODUCT, ["requests"])
    grant = engine.subscribe(PRODUCT, BUYER).license
    engine.deprovision_license(grant.arn)
    clock.instant = START + timedelta(minutes=30)
    engine.deprovision_license(grant.arn)
    assert engine.license(grant.arn).deprovisioned_at == START.replace(microsecond=0)
