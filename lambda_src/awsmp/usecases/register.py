"""Registers a buyer: resolve the token, keep the profile in-Region, note the registration in the home Region.

The order is what makes a crash harmless. Fields are checked before the token is used, since a token may be
good for one use. The profile is written before the subscriber row, and only if there is none: the first
registration wins, and its form data are never overwritten by a stranger who gets hold of a later token. The
subscriber row is written every time: a buyer's retry, which finds the profile, completes what a crash between
the two left undone. Nothing here depends on whether License Updated has come, and metering waits for nothing
of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from awsmp.domain.customer_profiles import (
    CustomerProfile,
    RegistrationForm,
    ResolvedCustomer,
    parse_request,
    profile_of,
)
from awsmp.domain.ports import Clock, Telemetry
from awsmp.domain.subscribers import Registration
from awsmp.usecases.subscription import Subscribers, register_subscriber


class RegistrationOutcome(StrEnum):
    """What a registration came to."""

    REGISTERED = "registered"
    ALREADY_REGISTERED = "already-registered"


class RegistrationTokens(Protocol):
    """AWS Marketplace's ResolveCustomer."""

    def resolve(self, token: str) -> ResolvedCustomer:
        """Return whose token it is.

        Raises RegistrationRefused (INVALID_TOKEN, EXPIRED_TOKEN, THROTTLED), StoreUnavailable or
        Misconfigured.
        """
        ...


class CustomerProfiles(Protocol):
    """The customer-profile table. Every method may raise StoreUnavailable or Misconfigured."""

    def put_if_absent(self, profile: CustomerProfile) -> bool:
        """Write the profile unless the licence and account have one; tell whether it was written."""
        ...


@dataclass(frozen=True, slots=True)
class BuyerRegistration:
    """Handles one request of the page; any error leaves a state that the same request completes."""

    product_code: str
    region: str
    form: RegistrationForm
    tokens: RegistrationTokens
    profiles: CustomerProfiles
    subscribers: Subscribers
    clock: Clock
    telemetry: Telemetry

    def register(self, body: bytes) -> RegistrationOutcome:
        """Register the buyer that ``body`` (JSON) speaks for; when this returns, both rows are durable.

        Raises
        ------
        RegistrationRefused
            The request, the token or the product is not acceptable; nothing was stored.
        MeteringError
            A service failed or refused; the profile may be stored, and the same request completes it.
        """
        request = parse_request(body)
        data = self.form.accept(request.values)
        customer = self.tokens.resolve(request.token)
        profile = profile_of(customer, self.product_code, request.offer_type, data)
        is_new = self.profiles.put_if_absent(profile)
        register_subscriber(
            self.subscribers,
            self.clock,
            Registration(profile.license_arn, profile.customer_account, self.product_code, self.region),
        )
        outcome = RegistrationOutcome.REGISTERED if is_new else RegistrationOutcome.ALREADY_REGISTERED
        self.telemetry.info(
            "buyer registered",
            outcome=outcome.value,
            licenseArn=profile.license_arn,
            customerAWSAccountId=profile.customer_account,
        )
        return outcome
