"""Puts the register function together: settings, clients, stores, use cases.

``Runtime`` takes clock, telemetry and clients as parameters, so that a test runs the handler's own
``run(event, context, runtime)``. A missing or malformed setting is found by the request that needs it, which
answers 500: a buyer is shown the page's sentence for it, and not the gateway's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from awsmp.adapters.customer_profiles_store import CustomerProfilesStore
from awsmp.adapters.dynamodb import DynamoDBClient
from awsmp.adapters.registration_tokens import ResolveCustomer, TokensClient
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.domain.customer_profiles import RegistrationForm
from awsmp.domain.errors import Misconfigured
from awsmp.domain.ports import Clock, Telemetry
from awsmp.domain.registration_fields import parse_fields
from awsmp.usecases.register import BuyerRegistration
from awsmp.usecases.registration_api import RegistrationApi


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment of the register function. Fields, promoted names and origins are JSON lists."""

    product_code: str = ""
    environment: str = "default"
    region: str = ""
    customer_profile_table: str = ""
    subscribers_table: str = ""
    subscribers_table_region: str = ""
    marketplace_region: str = ""
    registration_fields: str = "[]"
    promoted_fields: str = "[]"
    allowed_origins: str = "[]"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read the settings; an empty value counts as absent."""
        return cls(
            product_code=environ.get("PRODUCT_CODE", ""),
            environment=environ.get("ENVIRONMENT") or "default",
            region=environ.get("AWS_REGION", ""),
            customer_profile_table=environ.get("CUSTOMER_PROFILE_TABLE", ""),
            subscribers_table=environ.get("SUBSCRIBERS_TABLE", ""),
            subscribers_table_region=environ.get("SUBSCRIBERS_TABLE_REGION", ""),
            marketplace_region=environ.get("MARKETPLACE_REGION", ""),
            registration_fields=environ.get("REGISTRATION_FIELDS") or "[]",
            promoted_fields=environ.get("PROMOTED_FIELDS") or "[]",
            allowed_origins=environ.get("ALLOWED_ORIGINS") or "[]",
        )

    def form(self) -> RegistrationForm:
        """Return the form that buyers fill in.

        Raises
        ------
        Misconfigured
            REGISTRATION_FIELDS or PROMOTED_FIELDS is malformed.
        """
        promoted = _texts("PROMOTED_FIELDS", self.promoted_fields)
        return RegistrationForm(parse_fields(self.registration_fields), promoted)

    def origins(self) -> frozenset[str]:
        """Return the origins whose scripts may call.

        Raises
        ------
        Misconfigured
            ALLOWED_ORIGINS is malformed.
        """
        return _texts("ALLOWED_ORIGINS", self.allowed_origins)


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything that the register handler reaches the world through.

    ``subscribers_dynamodb`` is the client of the subscribers table's Region.
    """

    settings: Settings
    clock: Clock
    telemetry: Telemetry
    dynamodb: DynamoDBClient
    subscribers_dynamodb: DynamoDBClient
    marketplace: TokensClient

    def api(self) -> RegistrationApi:
        """Return the use case of the register function."""
        return RegistrationApi(self.registration, self.settings.origins, self.telemetry)

    def registration(self) -> BuyerRegistration:
        """Return what registers a buyer.

        Raises
        ------
        Misconfigured
            A required setting is missing or one is malformed; it is named.
        """
        settings = self.settings
        required = {
            "PRODUCT_CODE": settings.product_code,
            "CUSTOMER_PROFILE_TABLE": settings.customer_profile_table,
            "SUBSCRIBERS_TABLE": settings.subscribers_table,
            "AWS_REGION": settings.region,
        }
        missing = [name for name, value in required.items() if not value]
        if missing:
            raise Misconfigured(f"{', '.join(missing)} is not set")
        form = settings.form()
        return BuyerRegistration(
            product_code=settings.product_code,
            region=settings.region,
            form=form,
            tokens=ResolveCustomer(self.marketplace),
            profiles=CustomerProfilesStore(
                self.dynamodb, settings.customer_profile_table, form.promoted, self.clock
            ),
            subscribers=SubscribersStore(self.subscribers_dynamodb, settings.subscribers_table, self.clock),
            clock=self.clock,
            telemetry=self.telemetry,
        )


@cache
def production_runtime(service: str) -> Runtime:
    """Return the register function's runtime of this process; ``service`` names it in its logs."""
    import boto3  # noqa: PLC0415 - only the production runtime needs the SDK's clients
    from botocore.config import Config  # noqa: PLC0415

    from awsmp.adapters.system_clock import SystemClock  # noqa: PLC0415
    from awsmp.adapters.telemetry import LambdaTelemetry  # noqa: PLC0415

    settings = Settings.from_environment(os.environ)
    # A buyer waits, and API Gateway gives up after 29 s: one call that never answers stays below 20 s, and
    # fails the request. Repeating is safe: resolving gives the same answer again or says that the token has
    # been used, which the buyer mends, and the writes are conditional.
    config = Config(connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 3})
    return Runtime(
        settings=settings,
        clock=SystemClock(),
        telemetry=LambdaTelemetry(
            service,
            product_code=settings.product_code or "unknown",
            environment=settings.environment,
        ),
        dynamodb=boto3.client("dynamodb", config=config),
        subscribers_dynamodb=boto3.client(
            "dynamodb", region_name=settings.subscribers_table_region or None, config=config
        ),
        marketplace=boto3.client(
            "meteringmarketplace", region_name=settings.marketplace_region or None, config=config
        ),
    )


def _texts(name: str, text: str) -> frozenset[str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"{name} is no JSON list of texts") from error
    if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
        raise Misconfigured(f"{name} is no JSON list of texts")
    return frozenset(names)
