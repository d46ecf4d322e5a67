"""Puts the functions of the notifications tier together: settings, clients, stores, use cases.

``Runtime`` takes clock, telemetry and clients as parameters, so that a test runs the handlers' own
``run(event, context, runtime)``; :func:`production_runtime` reads the environment once per process. A setting
is looked at by the function that needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from awsmp.adapters.dynamodb import DynamoDBClient
from awsmp.adapters.event_bus import EventBuses, EventsClient
from awsmp.adapters.notifications.pepper import PepperDigest
from awsmp.adapters.notifications.profile_contacts import ProfileContacts, ProfileVerifications
from awsmp.adapters.notifications.secrets import VerificationKeys, read_pepper
from awsmp.adapters.notifications.ses_transport import SES_CLIENT_CONFIG, SesClient, SesTransport
from awsmp.adapters.notifications.smtp_secret import SecretsClient, SmtpSecret
from awsmp.adapters.notifications.smtp_transport import SmtpTransport
from awsmp.adapters.notifications.store import DynamoDBNotificationStore, TransactionClient
from awsmp.adapters.notifications.template_items import TemplateItems
from awsmp.adapters.subscribers_store import SubscribersStore
from awsmp.domain.notifications.ports import Transport
from awsmp.domain.ports import Clock, Telemetry
from awsmp.settings_notifications import Environment, SesSettings
from awsmp.usecases.notifications.administer import Administration
from awsmp.usecases.notifications.compose import Composer
from awsmp.usecases.notifications.feedback import FeedbackIntake
from awsmp.usecases.notifications.follow_contacts import ContactFollower
from awsmp.usecases.notifications.intake import Intake
from awsmp.usecases.notifications.maintain import Maintenance
from awsmp.usecases.notifications.offer_link import LinkOffers
from awsmp.usecases.notifications.send import Sender
from awsmp.usecases.notifications.verify_address import AddressVerification


@dataclass(frozen=True, slots=True)
class Clients:
    """The AWS clients, each made when a function first needs it."""

    dynamodb: Callable[[], TransactionClient]
    dynamodb_of: Callable[[str], DynamoDBClient]
    events_of: Callable[[str], EventsClient]
    secrets: Callable[[], SecretsClient]
    ses: Callable[[], SesClient]


@dataclass(slots=True)
class _Kept:
    """What is read once per process: secrets, and the readers that keep what they have read for a while."""

    pepper: PepperDigest | None = None
    keys: VerificationKeys | None = None
    smtp: SmtpSecret | None = None
    templates: TemplateItems | None = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything that the handlers of the tier reach the world through.

    Each method returns one function's use case, and raises Misconfigured for a setting that is missing or
    malformed, and StoreUnavailable where a secret or the templates cannot be read at the moment.
    """

    environment: Environment
    clients: Clients
    clock: Clock
    telemetry: Telemetry
    _kept: _Kept = field(default_factory=_Kept, repr=False)

    def intake(self) -> Intake:
        """Return the use case of the intake function."""
        env = self.environment
        subscribers = self.clients.dynamodb_of(env.required("SUBSCRIBERS_TABLE_REGION"))
        return Intake(
            region=env.required("AWS_REGION"),
            store=self._store(),
            recipients=self._contacts(),
            licenses=SubscribersStore(subscribers, env.required("SUBSCRIBERS_TABLE"), self.clock),
            clock=self.clock,
            telemetry=self.telemetry,
        )

    def sender(self) -> Sender:
        """Return the use case of the sending function."""
        env = self.environment
        limits, contacts, digests = env.limits(), self._contacts(), self._pepper()
        default, contexts = env.contexts()
        return Sender(
            region=env.required("AWS_REGION"),
            store=self._store(),
            recipients=contacts,
            transport=self._transport(),
            digests=digests,
            composer=Composer(env.sender(), default, contexts, self._templates().overrides()),
            limits=limits,
            clock=self.clock,
            telemetry=self.telemetry,
            links=self._links(contacts, digests),
        )

    def feedback(self) -> FeedbackIntake:
        """Return the use case of the feedback function."""
        return FeedbackIntake(self._store(), self.clock, self.telemetry)

    def feedback_topic(self) -> str:
        """Return the ARN of the topic that feedback has to come from."""
        return self.environment.required("FEEDBACK_TOPIC_ARN")

    def maintenance(self) -> Maintenance:
        """Return the use case of the maintenance function."""
        return Maintenance(self._store(), self.environment.limits(), self.clock, self.telemetry)

    def administration(self) -> Administration:
        """Return the use case of the admin function."""
        return Administration(self._store(), self.environment.limits(), self.clock, self.telemetry)

    def contact_follower(self) -> ContactFollower:
        """Return the use case of the contacts function."""
        tables = self.environment.profile_tables()
        return ContactFollower(
            store=self._store(),
            bus=EventBuses({"notifications": self.environment.event_bus()}, self.clients.events_of),
            verifying_tables=frozenset(name for name, page in tables.items() if page is not None),
            clock=self.clock,
            telemetry=self.telemetry,
        )

    def _store(self) -> DynamoDBNotificationStore:
        table = self.environment.required("NOTIFICATIONS_TABLE")
        return DynamoDBNotificationStore(self.clients.dynamodb(), table, self.clock)

    def _contacts(self) -> ProfileContacts:
        return ProfileContacts(self.clients.dynamodb(), self.environment.profile_tables())

    def _pepper(self) -> PepperDigest:
        if self._kept.pepper is None:
            secret = self.environment.required("PEPPER_SECRET_ARN")
            self._kept.pepper = read_pepper(self.clients.secrets(), secret)
        return self._kept.pepper

    def _templates(self) -> TemplateItems:
        if self._kept.templates is None:
            table = self.environment.required("NOTIFICATIONS_TABLE")
            self._kept.templates = TemplateItems(self.clients.dynamodb(), table, self.clock)
        return self._kept.templates

    def _links(self, contacts: ProfileContacts, digests: PepperDigest) -> LinkOffers | None:
        verifying = [name for name, page in contacts.tables.items() if page is not None]
        if not verifying:
            return None
        if self._kept.keys is None:
            secret = self.environment.required("VERIFICATION_SECRET_ARN")
            self._kept.keys = VerificationKeys(self.clients.secrets(), secret, self.clock)
        signer = self._kept.keys.signer()
        addresses = ProfileVerifications(contacts.client, verifying, self.clock, digests)
        lifetime = self.environment.verification_lifetime()
        return LinkOffers(AddressVerification(signer, addresses, self.clock, lifetime), signer, contacts)

    def _transport(self) -> Transport:
        settings = self.environment.transport()
        if isinstance(settings, SesSettings):
            return SesTransport(self.clients.ses(), settings.configuration_set)
        secret = settings.credentials_secret_arn
        if secret is not None and self._kept.smtp is None:
            self._kept.smtp = SmtpSecret(self.clients.secrets(), secret)
        return SmtpTransport(
            host=settings.host,
            port=settings.port,
            security=settings.security,
            credentials=self._kept.smtp,
            clock=self.clock,
            timeout_seconds=self.environment.smtp_timeout_seconds(),
        )


@cache
def production_runtime(service: str) -> Runtime:
    """Return the runtime of this process, made from its environment on the first call.

    ``service`` names the function in its logs.
    """
    import boto3  # noqa: PLC0415 - only the production runtime needs the SDK's clients
    from botocore.config import Config  # noqa: PLC0415

    from awsmp.adapters.system_clock import SystemClock  # noqa: PLC0415
    from awsmp.adapters.telemetry import LambdaTelemetry  # noqa: PLC0415

    environment = Environment(dict(os.environ))
    # The worst case of one call stays far below the functions' time-outs. A repeated write is safe: it has a
    # request token, or is conditional, and a lost answer shows as a failed condition.
    config = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})

    return Runtime(
        environment=environment,
        clients=Clients(
            dynamodb=cache(lambda: boto3.client("dynamodb", config=config)),
            dynamodb_of=cache(lambda region: boto3.client("dynamodb", region_name=region, config=config)),
            events_of=cache(lambda region: boto3.client("events", region_name=region, config=config)),
            secrets=cache(lambda: boto3.client("secretsmanager", config=config)),
            ses=cache(lambda: boto3.client("sesv2", config=SES_CLIENT_CONFIG)),
        ),
        clock=SystemClock(),
        telemetry=LambdaTelemetry(service, environment=environment.optional("ENVIRONMENT") or "default"),
    )
