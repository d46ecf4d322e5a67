"""Products, agreements, licenses, legacy customers and registration tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AgreementStatus(StrEnum):
    """Statuses of the agreement service's model that events may carry."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    RENEWED = "RENEWED"
    REPLACED = "REPLACED"
    ROLLED_BACK = "ROLLED_BACK"
    SUPERSEDED = "SUPERSEDED"
    TERMINATED = "TERMINATED"


class Intent(StrEnum):
    """Why an agreement was created."""

    NEW = "NEW"
    RENEW = "RENEW"
    REPLACE = "REPLACE"


@dataclass(frozen=True, slots=True)
class Product:
    """A listing; ``dimensions`` are those that it meters."""

    code: str
    product_id: str
    title: str
    dimensions: frozenset[str]
    #: The publishing account; ``None`` lets every account meter and resolve (convenient in a sandbox).
    owner_account: str | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """A buyer's agreement; ``end_time`` is ``None`` for pay-as-you-go."""

    agreement_id: str
    product_code: str
    acceptor_account: str
    offer_id: str
    intent: Intent
    status: AgreementStatus
    acceptance_time: datetime
    start_time: datetime
    end_time: datetime | None
    auto_renewal: bool
    previous_agreement_id: str | None


@dataclass(frozen=True, slots=True)
class License:
    """A granted license. Usage is taken from ``activated_at`` until a while after ``deprovisioned_at``."""

    arn: str
    product_code: str
    customer_account: str
    agreement_id: str
    dimensions: frozenset[str]
    #: Whole seconds; ``None`` before the first activation, which a later one never moves.
    activated_at: datetime | None
    deprovisioned_at: datetime | None


@dataclass(frozen=True, slots=True)
class LegacyCustomer:
    """A customer of a product that is metered by product code and customer identifier."""

    product_code: str
    customer_identifier: str
    customer_account: str
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Token:
    """A registration token, for a license or for a legacy customer identifier."""

    text: str
    minted_at: datetime
    expires_at: datetime
    license_arn: str | None
    legacy: tuple[str, str] | None
    resolved: int = 0
