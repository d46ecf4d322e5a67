"""EventBridge envelopes of AWS Marketplace, one function per detail type (field paths: seller guide).

State is told by the detail type alone and order by ``time`` alone; no event says more than its fields here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sandbox.fake_marketplace.settings import LicenseArnText, OpenEndText
from sandbox.fake_marketplace.subscriptions import Agreement, AgreementStatus, License, Product

SOURCE = "aws.agreement-marketplace"
CATALOG = "AWSMarketplace"
#: Marketplace events are sent in this Region only.
EVENT_REGION = "us-east-1"
#: How an agreement without an end was seen written in a real event.
FAR_FUTURE = "9999-01-01T00:00:00Z"

Envelope = dict[str, Any]


class Role(StrEnum):
    """The seller's role in an agreement; the suffix of a detail type."""

    PROPOSER = "Proposer"
    MANUFACTURER = "Manufacturer"
    ACCEPTOR = "Acceptor"


class CancellationStatus(StrEnum):
    """Status codes of an agreement cancellation request, each with a detail type of its own."""

    PENDING_APPROVAL = "PENDING_APPROVAL"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"
    VALIDATION_FAILED = "VALIDATION_FAILED"


_CANCELLATION_TITLES = {
    CancellationStatus.PENDING_APPROVAL: "Pending Approval",
    CancellationStatus.APPROVED: "Approved",
    CancellationStatus.REJECTED: "Rejected",
    CancellationStatus.CANCELLED: "Cancelled",
    CancellationStatus.VALIDATION_FAILED: "Validation Failed",
}


@dataclass(frozen=True, slots=True)
class EventMeta:
    """What every envelope carries and how disputed texts are written."""

    event_id: str
    request_id: str
    time: datetime
    seller_account: str
    seller_name: str = "Example Seller"
    open_end_text: OpenEndText = OpenEndText.FAR_FUTURE
    license_arn_text: LicenseArnText = LicenseArnText.CANONICAL


def envelope_time(instant: datetime) -> str:
    """Return whole seconds, as EventBridge writes ``time``."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def instant_text(instant: datetime) -> str:
    """Return an agreement time: with milliseconds where it has any, else whole seconds."""
    instant = instant.astimezone(UTC)
    milliseconds = instant.microsecond // 1000
    return instant.strftime("%Y-%m-%dT%H:%M:%S") + (f".{milliseconds:03d}Z" if milliseconds else "Z")


def license_arn_text(arn: str, variant: LicenseArnText) -> str:
    """Return ``arn`` (``arn:aws:license-manager::<account>:license:l-<hex>``) in one of its spellings.

    An ARN of another form has no spellings and is returned as it is.
    """
    parts = arn.split(":")
    if variant is LicenseArnText.CANONICAL or len(parts) != 7:
        return arn
    _, partition, service, _, account, _, license_id = parts
    place = f"{service}:{EVENT_REGION}:{account}"
    return {
        LicenseArnText.WITHOUT_PREFIX: f"{partition}:{place}:{license_id}",
        LicenseArnText.SLASH: f"arn:{partition}:{service}::{account}:license/{license_id}",
        LicenseArnText.REGION_SLASH: f"arn:{partition}:{place}:license/{license_id}",
    }[variant]


def _envelope(
    meta: EventMeta, detail_type: str, detail: dict[str, Any], agreement_id: str | None
) -> Envelope:
    resources = [] if agreement_id is None else [f"arn:aws:aws-marketplace::aws:agreement:{agreement_id}"]
    return {
        "version": "0",
        "id": meta.event_id,
        "detail-type": detail_type,
        "source": SOURCE,
        "account": meta.seller_account,
        "time": envelope_time(meta.time),
        "region": EVENT_REGION,
        "resources": resources,
        "detail": {"requestId": meta.request_id, "catalog": CATALOG, **detail},
    }


def _parties(meta: EventMeta, agreement: Agreement, *, named: bool = False) -> dict[str, Any]:
    proposer = {"accountId": meta.seller_account}
    if named:
        proposer["name"] = meta.seller_name
    return {"acceptor": {"accountId": agreement.acceptor_account}, "proposer": proposer}


def _end_time(meta: EventMeta, agreement: Agreement) -> dict[str, Any]:
    if agreement.end_time is not None:
        return {"endTime": instant_text(agreement.end_time)}
    if meta.open_end_text is OpenEndText.ABSENT:
        return {}
    return {"endTime": FAR_FUTURE if meta.open_end_text is OpenEndText.FAR_FUTURE else None}


def _terms(meta: EventMeta, agreement: Agreement, intent: str) -> dict[str, Any]:
    return {
        "id": agreement.agreement_id,
        "intent": intent,
        "status": AgreementStatus.ACTIVE.value,
        "acceptanceTime": instant_text(agreement.acceptance_time),
        "startTime": instant_text(agreement.start_time),
        **_end_time(meta, agreement),
    }


def _titled(product: Product) -> dict[str, str]:
    return {"id": product.product_id, "title": product.title}


def purchase_agreement_created(
    meta: EventMeta, agreement: Agreement, product: Product, role: Role
) -> Envelope:
    """New, renewed or replaced agreement. Only a renewal names the product and its predecessor."""
    terms = _terms(meta, agreement, agreement.intent.value)
    detail: dict[str, Any] = {"agreement": terms, "offer": {"id": agreement.offer_id}}
    if agreement.intent.value == "RENEW":
        terms["previousAgreementId"] = agreement.previous_agreement_id
        detail |= {"product": _titled(product), **_parties(meta, agreement, named=True)}
    else:
        detail |= {"resaleAuthorization": {"id": None}, **_parties(meta, agreement)}
    return _envelope(meta, f"Purchase Agreement Created - {role.value}", detail, agreement.agreement_id)


def purchase_agreement_amended(
    meta: EventMeta, agreement: Agreement, product: Product, role: Role
) -> Envelope:
    """Changed terms. Only the proposer learns of auto-renewal and the product."""
    terms = _terms(meta, agreement, "AMEND")
    detail: dict[str, Any] = {
        "agreement": terms,
        "resaleAuthorization": {"id": None},
        "offer": {"id": agreement.offer_id},
        **_parties(meta, agreement),
    }
    if role is Role.PROPOSER:
        terms["autoRenewalEnabled"] = agreement.auto_renewal
        detail["renewalSummary"] = _renewal_summary(agreement)
        detail["product"] = _titled(product)
    return _envelope(meta, f"Purchase Agreement Amended - {role.value}", detail, agreement.agreement_id)


def purchase_agreement_ended(meta: EventMeta, agreement: Agreement, role: Role) -> Envelope:
    """The agreement's end with its reason in ``status``; names neither product nor license."""
    detail = {
        "agreement": {"id": agreement.agreement_id, "status": agreement.status.value},
        "resaleAuthorization": {"id": None},
        "offer": {"id": agreement.offer_id},
        **_parties(meta, agreement),
    }
    return _envelope(meta, f"Purchase Agreement Ended - {role.value}", detail, agreement.agreement_id)


def _renewal_summary(agreement: Agreement) -> dict[str, Any]:
    return {
        "lockoutStartTime": instant_text(agreement.end_time) if agreement.end_time is not None else None,
        "disabledBy": None if agreement.auto_renewal else "ACCEPTOR",
    }


def purchase_agreement_ending(
    meta: EventMeta, agreement: Agreement, product: Product, days_before_end: int, role: Role = Role.PROPOSER
) -> Envelope:
    """Sent 180, 120, 90, 60 and 30 days before an agreement ends."""
    detail = {
        "agreement": {
            "id": agreement.agreement_id,
            "status": AgreementStatus.ACTIVE.value,
            "startTime": instant_text(agreement.start_time),
            **_end_time(meta, agreement),
            "autoRenewalEnabled": agreement.auto_renewal,
            "daysBeforeEndTime": days_before_end,
        },
        "renewalSummary": _renewal_summary(agreement),
        "offer": {"id": agreement.offer_id},
        "product": _titled(product),
        **_parties(meta, agreement, named=True),
    }
    return _envelope(meta, f"Purchase Agreement Ending - {role.value}", detail, agreement.agreement_id)


def _renewal_detail(meta: EventMeta, agreement: Agreement, product: Product, tcv: str) -> dict[str, Any]:
    return {
        "agreement": {
            "id": agreement.agreement_id,
            "startTime": instant_text(agreement.start_time),
            **_end_time(meta, agreement),
        },
        "renewalSummary": {"tcv": tcv, "currency": "USD", "lockoutReached": True},
        "product": _titled(product),
        **_parties(meta, agreement, named=True),
    }


def purchase_agreement_renewal_terms_finalized(
    meta: EventMeta, agreement: Agreement, product: Product, tcv: str, role: Role = Role.PROPOSER
) -> Envelope:
    """The terms of the coming renewal are fixed; ``tcv`` is the total contract value in USD."""
    detail = _renewal_detail(meta, agreement, product, tcv)
    detail["renewalSummary"] |= {
        "termsFinalizedTime": instant_text(meta.time),
        "lockoutStartTime": instant_text(meta.time),
    }
    title = f"Purchase Agreement Renewal Terms Finalized - {role.value}"
    return _envelope(meta, title, detail, agreement.agreement_id)


def purchase_agreement_renewal_upcoming(
    meta: EventMeta, agreement: Agreement, product: Product, tcv: str
) -> Envelope:
    """The lock-out before a renewal begins; ``tcv`` is the total contract value in USD."""
    detail = _renewal_detail(meta, agreement, product, tcv)
    return _envelope(meta, "Purchase Agreement Renewal Upcoming - Proposer", detail, agreement.agreement_id)


def _advisory(meta: EventMeta, agreement: Agreement, product: Product, title: str, member: str) -> Envelope:
    detail = {
        "agreement": {"id": agreement.agreement_id},
        "advisory": {member: instant_text(meta.time)},
        "product": {"id": product.product_id},
        "offer": {"id": agreement.offer_id},
        **_parties(meta, agreement),
    }
    return _envelope(meta, f"{title} - Manufacturer", detail, agreement.agreement_id)


def purchase_agreement_advisory_issued(meta: EventMeta, agreement: Agreement, product: Product) -> Envelope:
    """AWS warns about the buyer's account (closure, compromise, abuse, fraud)."""
    return _advisory(meta, agreement, product, "Purchase Agreement Advisory Issued", "issuedAt")


def purchase_agreement_advisory_resolved(meta: EventMeta, agreement: Agreement, product: Product) -> Envelope:
    """An advisory no longer holds."""
    return _advisory(meta, agreement, product, "Purchase Agreement Advisory Resolved", "resolvedAt")


def _license_event(
    meta: EventMeta, title: str, agreement: Agreement, grant: License, product: Product
) -> Envelope:
    detail = {
        "agreement": {"id": agreement.agreement_id},
        "product": {"code": product.code, "id": product.product_id},
        "license": {"arn": license_arn_text(grant.arn, meta.license_arn_text)},
        "offer": {"id": agreement.offer_id},
        **_parties(meta, agreement),
    }
    return _envelope(meta, f"{title} - {Role.MANUFACTURER.value}", detail, agreement.agreement_id)


def license_updated(meta: EventMeta, agreement: Agreement, grant: License, product: Product) -> Envelope:
    """A license was provisioned or its entitlements changed."""
    return _license_event(meta, "License Updated", agreement, grant, product)


def license_deprovisioned(
    meta: EventMeta, agreement: Agreement, grant: License, product: Product
) -> Envelope:
    """A license was revoked; differs from :func:`license_updated` in its detail type alone."""
    return _license_event(meta, "License Deprovisioned", agreement, grant, product)


def agreement_cancellation_request(
    meta: EventMeta,
    agreement: Agreement,
    product: Product,
    status: CancellationStatus,
    *,
    cancellation_id: str,
    reason_code: str = "OTHER",
    reason_message: str = "",
    created_at: datetime | None = None,
    role: Role = Role.PROPOSER,
) -> Envelope:
    """A step of a cancellation request; ids are flat and ``resources`` is empty."""
    detail = {
        "agreement": {
            "id": agreement.agreement_id,
            "acceptorId": agreement.acceptor_account,
            "productId": product.product_id,
            "offerId": agreement.offer_id,
        },
        "agreementCancellationRequest": {
            "id": cancellation_id,
            "reasonCode": reason_code,
            "reasonMessage": reason_message,
            "statusCode": status.value,
            "statusMessage": None,
            "createdAt": instant_text(created_at or meta.time),
            "updatedAt": instant_text(meta.time),
        },
    }
    title = f"Agreement Cancellation Request {_CANCELLATION_TITLES[status]} - {role.value}"
    return _envelope(meta, title, detail, None)


def _billing_adjustment(meta: EventMeta, agreement: Agreement, title: str, **values: str) -> Envelope:
    detail = {
        "agreement": {"id": agreement.agreement_id},
        "billingAdjustmentRequest": {
            "id": values["adjustment_id"],
            "adjustmentAmount": values["amount"],
            "currencyCode": "USD",
            "adjustmentReasonCode": "OTHER",
        },
        "invoice": {"originalInvoiceId": values["invoice_id"]},
    }
    return _envelope(meta, f"{title} - {Role.PROPOSER.value}", detail, None)


def purchase_agreement_billing_adjustment_completed(
    meta: EventMeta, agreement: Agreement, *, adjustment_id: str, amount: str, invoice_id: str
) -> Envelope:
    """A billing adjustment was applied; ``amount`` is a decimal string in USD."""
    title = "Purchase Agreement Billing Adjustment Completed"
    return _billing_adjustment(
        meta, agreement, title, adjustment_id=adjustment_id, amount=amount, invoice_id=invoice_id
    )


def purchase_agreement_billing_adjustment_failed(
    meta: EventMeta, agreement: Agreement, *, adjustment_id: str, amount: str, invoice_id: str
) -> Envelope:
    """A billing adjustment was refused; ``amount`` is a decimal string in USD."""
    title = "Purchase Agreement Billing Adjustment Failed"
    return _billing_adjustment(
        meta, agreement, title, adjustment_id=adjustment_id, amount=amount, invoice_id=invoice_id
    )
