"""Puts the verify function of the registration API together: settings, clients, the use case.

``Runtime`` takes clock, telemetry and clients as parameters, so that a test runs the handler's own
``run(event, context, runtime)``. A missing setting is found by the request that needs it, which answers 500.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from awsmp.adapters.dynamodb import DynamoDBClient
from awsmp.adapters.notifications.profile_contacts import ProfileVerifications
from awsmp.adapters.notifications.secrets import VerificationKeys
from awsmp.adapters.notifications.smtp_secret import SecretsClient
from awsmp.domain.notifications.verification_page import PageText
from awsmp.domain.ports import Clock, Telemetry
from awsmp.settings_notifications import Environment
from awsmp.usecases.notifications.verification_api import VerificationApi
from awsmp.usecases.notifications.verify_address import AddressVerification


@dataclass(slots=True)
class _Kept:
    """The reader of the keys, which keeps them for a while."""

    keys: VerificationKeys | None = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything that the verify handler reaches the world through."""

    environment: Environment
    dynamodb: Callable[[], DynamoDBClient]
    secrets: Callable[[], SecretsClient]
    clock: Clock
    telemetry: Telemetry
    _kept: _Kept = field(default_factory=_Kept, repr=False)

    def api(self) -> VerificationApi:
        """Return the use case of the verify function."""
        text = PageText(self.environment.optional("PRODUCT_NAME"), self.environment.optional("SUPPORT"))
        return VerificationApi(self.verification, text, self.telemetry)

    def verification(self) -> AddressVerification:
        """Return what takes links.

        Raises
        ------
        Misconfigured
            A setting is missing, or the secret has another form.
        StoreUnavailable
            Secrets Manager failed.
        """
        table = self.environment.required("CUSTOMER_PROFILE_TABLE")
        if self._kept.keys is None:
            secret = self.environment.required("VERIFICATION_SECRET_ARN")
            self._kept.keys = VerificationKeys(self.secrets(), secret, self.clock)
        addresses = ProfileVerifications(self.dynamodb(), (table,), self.clock)
        return AddressVerification(self._kept.keys.signer(), addresses, self.clock)


@cache
def production_runtime(service: str) -> Runtime:
    """Return the verify function's runtime of this process; ``service`` names it in its logs."""
    import boto3  # noqa: PLC0415 - only the production runtime needs the SDK's clients
    from botocore.config import Config  # noqa: PLC0415

    from awsmp.adapters.system_clock import SystemClock  # noqa: PLC0415
    from awsmp.adapters.telemetry import LambdaTelemetry  # noqa: PLC0415

    environment = Environment(dict(os.environ))
    # A person waits, and API Gateway gives up after 29 s. Repeating is safe: the write is conditional, and a
    # lost answer shows as an address that this very link has confirmed.
    config = Config(connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 3})

    return Runtime(
        environment=environment,
        dynamodb=cache(lambda: boto3.client("dynamodb", config=config)),
        secrets=cache(lambda: boto3.client("secretsmanager", config=config)),
        clock=SystemClock(),
        telemetry=LambdaTelemetry(
            service,
            product_code=environment.optional("PRODUCT_CODE") or "unknown",
            environment=environment.optional("ENVIRONMENT") or "default",
        ),
    )
