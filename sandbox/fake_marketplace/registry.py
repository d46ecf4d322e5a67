"""Products, agreements, licenses, customers and tokens, and the events that their changes send."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from sandbox.fake_marketplace import events, limits
from sandbox.fake_marketplace.events import CancellationStatus, Envelope, EventMeta, Role
from sandbox.fake_marketplace.settings import Settings
from sandbox.fake_marketplace.subscriptions import (
    Agreement,
    AgreementStatus,
    Intent,
    LegacyCustomer,
    License,
    Product,
    Token,
)

#: Bytes that become ``+/+/`` in base64: every token has the characters that careless decoding breaks.
_TOKEN_HARD_BYTES = b"\xfb\xff\xbf"


class Clock(Protocol):
    """Where the fake takes the time from."""

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        ...


@dataclass(frozen=True, slots=True)
class Subscription:
    """The outcome of :meth:`Registry.subscribe`; ``events`` are in the order of their sending."""

    agreement: Agreement
    license: License
    events: tuple[Envelope, ...]


class Registry:
    """The subscription side of AWS Marketplace. Every change that AWS announces returns its event."""

    def __init__(self, clock: Clock, settings: Settings | None = None) -> None:
        """``clock`` decides about windows, activation, quota and token life."""
        self._clock = clock
        self._settings = settings or Settings()
        self._products: dict[str, Product] = {}
        self._agreements: dict[str, Agreement] = {}
        self._licenses: dict[str, License] = {}
        self._legacy: dict[tuple[str, str], LegacyCustomer] = {}
        self._suspended: set[str] = set()
        self._tokens: dict[str, Token] = {}
        self._events: list[Envelope] = []
        self._ids: dict[str, int] = {}

    @property
    def settings(self) -> Settings:
        """The switches in force."""
        return self._settings

    def configure(self, **values: object) -> None:
        """Change switches (:class:`Settings`).

        Raises:
            ValueError: a name is unknown or a value does not fit.
        """
        self._settings = self._settings.changed(values)

    def create_product(
        self,
        code: str,
        dimensions: Sequence[str],
        *,
        product_id: str | None = None,
        title: str = "Example product",
        owner_account: str | None = None,
    ) -> Product:
        """List a product with its metered dimensions.

        Raises:
            ValueError: the code or a dimension breaks the service model's limits.
        """
        if not code or not limits.PRODUCT_CODE.accepts(code):
            raise ValueError(f"{code!r} is no product code")
        product_id = product_id or f"prod-{self._word('product', 13)}"
        product = Product(code, product_id, title, _dimensions(dimensions), owner_account)
        self._products[code] = product
        return product

    # ------------------------------------------------------------------ lifecycle

    def create_agreement(
        self,
        product_code: str,
        acceptor_account: str,
        *,
        agreement_id: str | None = None,
        offer_id: str | None = None,
        end_time: datetime | None = None,
        auto_renewal: bool = False,
        intent: Intent = Intent.NEW,
        previous_agreement_id: str | None = None,
        role: Role = Role.PROPOSER,
    ) -> tuple[Agreement, Envelope]:
        """Conclude an agreement now; return it with its Created event.

        Raises:
            KeyError: the product is unknown.
            ValueError: an id breaks the model's limits or is taken.
        """
        product = self._products[product_code]
        agreement_id = agreement_id or f"agmt-{self._word('agreement', 25)}"
        if not limits.AGREEMENT_ID.accepts(agreement_id) or agreement_id in self._agreements:
            raise ValueError(f"{agreement_id!r} is no agreement id, or taken")
        if not limits.CUSTOMER_AWS_ACCOUNT_ID.accepts(acceptor_account):
            raise ValueError(f"{acceptor_account!r} is no account id")
        now = self._clock.now()
        agreement = Agreement(
            agreement_id=agreement_id,
            product_code=product_code,
            acceptor_account=acceptor_account,
            offer_id=offer_id or f"offer-{self._word('offer', 13)}",
            intent=intent,
            status=AgreementStatus.ACTIVE,
            acceptance_time=now,
            start_time=now,
            end_time=end_time,
            auto_renewal=auto_renewal,
            previous_agreement_id=previous_agreement_id,
        )
        self._agreements[agreement_id] = agreement
        return agreement, self._sent(
            events.purchase_agreement_created(self._meta(), agreement, product, role)
        )

    def create_license(
        self, agreement_id: str, *, license_arn: str | None = None, dimensions: Sequence[str] | None = None
    ) -> License:
        """Grant a license of an agreement, not activated yet; its dimensions default to the product's.

        Raises:
            KeyError: the agreement is unknown.
            ValueError: the ARN breaks the model's pattern or is taken.
        """
        agreement = self._agreements[agreement_id]
        arn = license_arn or self._license_arn()
        if not limits.LICENSE_ARN.accepts(arn) or arn in self._licenses:
            raise ValueError(f"{arn!r} is no license ARN, or taken")
        product = self._products[agreement.product_code]
        grant = License(
            arn=arn,
            product_code=product.code,
            customer_account=agreement.acceptor_account,
            agreement_id=agreement_id,
            dimensions=product.dimensions if dimensions is None else _dimensions(dimensions),
            activated_at=None,
            deprovisioned_at=None,
        )
        self._licenses[arn] = grant
        return grant

    def activate_license(self, license_arn: str, *, at: datetime | None = None) -> tuple[License, Envelope]:
        """Activate a license, or bring a deprovisioned one back; return it with its License Updated event.

        ``at`` (default now) is cut to whole seconds and only counts for the first activation.

        Raises:
            KeyError: the license is unknown.
        """
        grant = self._licenses[license_arn]
        since = grant.activated_at or (at or self._clock.now()).replace(microsecond=0)
        grant = replace(grant, activated_at=since, deprovisioned_at=None)
        self._licenses[license_arn] = grant
        return grant, self._license_event(events.license_updated, grant)

    def update_license(self, license_arn: str, *, dimensions: Sequence[str] | None = None) -> Envelope:
        """Change a license's entitlements (or nothing); return its License Updated event.

        Raises:
            KeyError: the license is unknown.
        """
        grant = self._licenses[license_arn]
        if dimensions is not None:
            grant = replace(grant, dimensions=_dimensions(dimensions))
            self._licenses[license_arn] = grant
        return self._license_event(events.license_updated, grant)

    def deprovision_license(self, license_arn: str) -> Envelope:
        """Revoke a license now; return its License Deprovisioned event. A repetition keeps the first time.

        Raises:
            KeyError: the license is unknown.
        """
        grant = self._licenses[license_arn]
        grant = replace(
            grant, deprovisioned_at=grant.deprovisioned_at or self._clock.now().replace(microsecond=0)
        )
        self._licenses[license_arn] = grant
        return self._license_event(events.license_deprovisioned, grant)

    def subscribe(
        self,
        product_code: str,
        acceptor_account: str,
        *,
        license_arn: str | None = None,
        end_time: datetime | None = None,
        auto_renewal: bool = False,
        activate_at: datetime | None = None,
        dimensions: Sequence[str] | None = None,
    ) -> Subscription:
        """Do what a purchase does: agreement, license and activation, with Created and License Updated.

        Raises:
            KeyError: the product is unknown.
            ValueError: an id breaks the model's limits or is taken.
        """
        agreement, created = self.create_agreement(
            product_code, acceptor_account, end_time=end_time, auto_renewal=auto_renewal
        )
        grant = self.create_license(agreement.agreement_id, license_arn=license_arn, dimensions=dimensions)
        grant, updated = self.activate_license(grant.arn, at=activate_at)
        return Subscription(agreement, grant, (created, updated))

    def amend_agreement(
        self,
        agreement_id: str,
        *,
        end_time: datetime | None,
        auto_renewal: bool | None = None,
        role: Role = Role.PROPOSER,
    ) -> Envelope:
        """Change an agreement's end and renewal; return its Amended event.

        Raises:
            KeyError: the agreement is unknown.
        """
        agreement = self._agreements[agreement_id]
        agreement = replace(
            agreement,
            end_time=end_time,
            auto_renewal=agreement.auto_renewal if auto_renewal is None else auto_renewal,
        )
        self._agreements[agreement_id] = agreement
        product = self._products[agreement.product_code]
        return self._sent(events.purchase_agreement_amended(self._meta(), agreement, product, role))

    def end_agreement(
        self,
        agreement_id: str,
        status: AgreementStatus = AgreementStatus.CANCELLED,
        *,
        role: Role = Role.PROPOSER,
    ) -> Envelope:
        """End an agreement for the reason ``status``; return its Ended event. Licenses are not touched.

        Raises:
            KeyError: the agreement is unknown.
        """
        agreement = replace(self._agreements[agreement_id], status=status)
        self._agreements[agreement_id] = agreement
        return self._sent(events.purchase_agreement_ended(self._meta(), agreement, role))

    def request_cancellation(
        self, agreement_id: str, status: CancellationStatus, *, cancellation_id: str | None = None
    ) -> Envelope:
        """Return the event of one step of a cancellation request; it changes no agreement.

        Raises:
            KeyError: the agreement is unknown.
        """
        agreement = self._agreements[agreement_id]
        envelope = events.agreement_cancellation_request(
            self._meta(),
            agreement,
            self._products[agreement.product_code],
            status,
            cancellation_id=cancellation_id or f"acr-{self._word('cancellation', 25)}",
        )
        return self._sent(envelope)

    def suspend_account(self, account: str) -> None:
        """Suspend a buyer's account: its usage is answered ``CustomerNotSubscribed``."""
        self._suspended.add(account)

    def resume_account(self, account: str) -> None:
        """Lift a suspension."""
        self._suspended.discard(account)

    def create_legacy_customer(
        self, product_code: str, customer_identifier: str, account: str
    ) -> LegacyCustomer:
        """Subscribe a customer of a product metered by product code and customer identifier.

        Raises:
            KeyError: the product is unknown.
            ValueError: the identifier is empty or too long.
        """
        product = self._products[product_code]
        if not customer_identifier or not limits.CUSTOMER_IDENTIFIER.accepts(customer_identifier):
            raise ValueError(f"{customer_identifier!r} is no customer identifier")
        customer = LegacyCustomer(product.code, customer_identifier, account, None)
        self._legacy[product.code, customer_identifier] = customer
        return customer

    def end_legacy_customer(self, product_code: str, customer_identifier: str) -> None:
        """End a legacy subscription now; the hour after it is the same as for a license.

        Raises:
            KeyError: the customer is unknown.
        """
        key = (product_code, customer_identifier)
        self._legacy[key] = replace(self._legacy[key], ended_at=self._clock.now())

    # ------------------------------------------------------------------ tokens

    def mint_token(self, license_arn: str, *, life: timedelta | None = None) -> str:
        """Return a registration token for a license, as the buyer's browser would post it.

        Raises:
            KeyError: the license is unknown.
        """
        return self._mint(self._licenses[license_arn].arn, None, life)

    def mint_legacy_token(
        self, product_code: str, customer_identifier: str, *, life: timedelta | None = None
    ) -> str:
        """Return a registration token that resolves to a legacy customer identifier.

        Raises:
            KeyError: the customer is unknown.
        """
        customer = self._legacy[product_code, customer_identifier]
        return self._mint(None, (customer.product_code, customer.customer_identifier), life)

    def expire_token(self, text: str) -> None:
        """Let a token expire now.

        Raises:
            KeyError: the token was never minted.
        """
        self._tokens[text] = replace(self._tokens[text], expires_at=self._clock.now())

    def _mint(self, license_arn: str | None, legacy: tuple[str, str] | None, life: timedelta | None) -> str:
        digest = hashlib.sha512(self._next("token").encode()).digest()
        text = base64.b64encode(digest[:30] + _TOKEN_HARD_BYTES + digest[30:]).decode()
        now = self._clock.now()
        life = timedelta(seconds=self._settings.token_life_seconds) if life is None else life
        self._tokens[text] = Token(text, now, now + life, license_arn, legacy)
        return text

    def events(self) -> Sequence[Envelope]:
        """Return every envelope that was sent, oldest first."""
        return tuple(self._events)

    def license(self, arn: str) -> License:
        """Return a license.

        Raises:
            KeyError: it is unknown.
        """
        return self._licenses[arn]

    def licenses(self) -> Sequence[License]:
        """Return every license."""
        return tuple(self._licenses.values())

    def agreement(self, agreement_id: str) -> Agreement:
        """Return an agreement.

        Raises:
            KeyError: it is unknown.
        """
        return self._agreements[agreement_id]

    def agreements(self) -> Sequence[Agreement]:
        """Return every agreement."""
        return tuple(self._agreements.values())

    def product(self, code: str) -> Product:
        """Return a product.

        Raises:
            KeyError: it is unknown.
        """
        return self._products[code]

    # ------------------------------------------------------------------ ids and events

    def _license_event(self, build: Any, grant: License) -> Envelope:
        agreement = self._agreements[grant.agreement_id]
        envelope: Envelope = build(self._meta(), agreement, grant, self._products[grant.product_code])
        return self._sent(envelope)

    def event_meta(self) -> EventMeta:
        """Return fresh envelope values for an event that the caller builds (:mod:`.events`)."""
        return self._meta()

    def _meta(self) -> EventMeta:
        return EventMeta(
            event_id=self._uuid("event"),
            request_id=self._uuid("event-request"),
            time=self._clock.now(),
            seller_account=self._settings.seller_account,
            open_end_text=self._settings.open_end_text,
            license_arn_text=self._settings.license_arn_text,
        )

    def _sent(self, envelope: Envelope) -> Envelope:
        self._events.append(envelope)
        return json.loads(json.dumps(envelope))  # type: ignore[no-any-return]

    def _next(self, kind: str) -> str:
        number = self._ids.get(kind, 0) + 1
        self._ids[kind] = number
        return f"{self._settings.seed}:{kind}:{number}"

    def _word(self, kind: str, length: int) -> str:
        number = int.from_bytes(hashlib.sha256(self._next(kind).encode()).digest(), "big")
        return base64.b32encode(number.to_bytes(32, "big")).decode().lower()[:length]

    def _uuid(self, kind: str) -> str:
        text = hashlib.sha256(self._next(kind).encode()).hexdigest()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"

    def _license_arn(self) -> str:
        text = hashlib.sha256(self._next("license").encode()).hexdigest()[:32]
        return f"arn:aws:license-manager::{self._settings.seller_account}:license:l-{text}"


def _dimensions(names: Sequence[str]) -> frozenset[str]:
    for name in names:
        if not limits.DIMENSION.accepts(name):
            raise ValueError(f"{name!r} is no dimension")
    return frozenset(names)
