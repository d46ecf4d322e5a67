"""The environment of the notifications tier's functions, read and checked before anything is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from awsmp.adapters.notifications.smtp_transport import GOODBYE_SECONDS, SmtpSecurity
from awsmp.domain.errors import MeteringError, Misconfigured
from awsmp.domain.notifications.limits import Limits
from awsmp.domain.notifications.messages import EmailAddress, RenderContext
from awsmp.domain.notifications.templates import MAX_URL, is_portal_url

#: What one SES call may take: its connect and read time-outs (``ses_transport.SES_CLIENT_CONFIG``).
SES_CALL_SECONDS: Final = 25
#: Shortest time-out of a send, in seconds: an SMTP server needs some of it to say goodbye.
MIN_SEND_TIMEOUT_SECONDS: Final = 6

_BUS_ARN = re.compile(r"arn:[^:]+:events:[^:]+:[0-9]{12}:event-bus/.+", re.ASCII)
_CONTEXT_MEMBERS: Final = {
    "product": "product",
    "plan": "plan",
    "seller": "seller",
    "support": "support",
    "portalUrl": "portal_url",
}


@dataclass(frozen=True, slots=True)
class SesSettings:
    """Mail goes through SES; its events come back through the configuration set."""

    configuration_set: str


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    """Mail goes through an SMTP server; ``credentials_secret_arn`` None where it asks for no login."""

    host: str
    port: int
    security: SmtpSecurity
    credentials_secret_arn: str | None


@dataclass(frozen=True, slots=True)
class Environment:
    """Reads one function's settings; an empty value counts as absent. Every error names its setting."""

    values: Mapping[str, str] = field(repr=False)

    def optional(self, name: str) -> str | None:
        """Return a setting, None where it is absent."""
        return self.values.get(name) or None

    def required(self, name: str) -> str:
        """Return a setting.

        Raises
        ------
        Misconfigured
            It is absent.
        """
        value = self.optional(name)
        if value is None:
            raise Misconfigured(f"{name} is not set")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """Return a whole number.

        Raises
        ------
        Misconfigured
            It is none, or absent without a default.
        """
        text = self.optional(name)
        if text is None and default is not None:
            return default
        try:
            return int(self.required(name))
        except ValueError as error:
            raise Misconfigured(f"{name} is no whole number") from error

    def object(self, name: str) -> dict[str, Any]:
        """Return a JSON object.

        Raises
        ------
        Misconfigured
            It is none, or absent.
        """
        value = self._json(name)
        if not isinstance(value, dict):
            raise Misconfigured(f"{name} is no JSON object")
        return value

    def profile_tables(self) -> dict[str, str | None]:
        """Return the verification page by profile table (CUSTOMER_PROFILE_TABLES).

        Raises
        ------
        Misconfigured
            It is no JSON list of ``{"name", "verifyUrl"}``, is empty, or a page is no https address.
        """
        setting = "CUSTOMER_PROFILE_TABLES"
        entries = self._json(setting)
        tables: dict[str, str | None] = {}
        for entry in entries if isinstance(entries, list) else ():
            name = entry.get("name") if isinstance(entry, dict) else None
            page = entry.get("verifyUrl") if isinstance(entry, dict) else None
            if not isinstance(name, str) or not name:
                raise Misconfigured(f"{setting} has an entry without a name")
            if page is not None and not (
                isinstance(page, str) and len(page) <= MAX_URL and is_portal_url(page)
            ):
                raise Misconfigured(
                    f"{setting}: the verifyUrl of {name} is no https URL without credentials and fragment"
                )
            tables[name] = page
        if not tables:
            raise Misconfigured(f"{setting} is no JSON list of tables")
        return tables

    def limits(self) -> Limits:
        """Return the limits.

        Raises
        ------
        Misconfigured
            One is out of its range, or a claim could go stale while the sending function still runs, which
            would let two senders send one delivery.
        """
        send_timeout = self.number("SEND_TIMEOUT_SECONDS", 30)
        sender_timeout = self.number("SENDER_TIMEOUT_SECONDS")
        stale_after = self.number("STALE_AFTER_MINUTES", 15)
        if send_timeout < MIN_SEND_TIMEOUT_SECONDS:
            raise Misconfigured(f"SEND_TIMEOUT_SECONDS is below {MIN_SEND_TIMEOUT_SECONDS}")
        if sender_timeout <= send_timeout:
            raise Misconfigured(
                "SENDER_TIMEOUT_SECONDS is not above SEND_TIMEOUT_SECONDS: nothing could be sent"
            )
        if stale_after * 60 <= sender_timeout:
            raise Misconfigured("STALE_AFTER_MINUTES does not outlast SENDER_TIMEOUT_SECONDS")
        return Limits(
            max_age=timedelta(days=self.number("MAX_AGE_DAYS", 7)),
            stale_after=timedelta(minutes=stale_after),
            max_attempts=self.number("MAX_ATTEMPTS", 10),
            batch=self.number("BATCH_SIZE", 100),
            send_timeout=timedelta(seconds=send_timeout),
            feedback_retention=timedelta(days=self.number("FEEDBACK_RETENTION_DAYS", 365)),
        )

    def verification_lifetime(self) -> timedelta:
        """Return how long a link is good for; its range is for ``AddressVerification`` to check.

        Raises
        ------
        Misconfigured
            VERIFICATION_LIFETIME_HOURS is no whole number.
        """
        return timedelta(hours=self.number("VERIFICATION_LIFETIME_HOURS", 24))

    def event_bus(self) -> str:
        """Return the tier's own bus.

        Raises
        ------
        Misconfigured
            EVENT_BUS_ARN is absent or no event bus ARN.
        """
        arn = self.required("EVENT_BUS_ARN")
        if not _BUS_ARN.fullmatch(arn):
            raise Misconfigured("EVENT_BUS_ARN is not the ARN of an event bus")
        return arn

    def sender(self) -> EmailAddress:
        """Return whom mail is from.

        Raises
        ------
        Misconfigured
            SENDER is absent or no canonical address.
        """
        try:
            return EmailAddress.parse(self.required("SENDER"))
        except Misconfigured:
            raise
        except MeteringError as error:
            raise Misconfigured(f"SENDER is not acceptable: {error}") from error

    def contexts(self) -> tuple[RenderContext, dict[str, RenderContext]]:
        """Return what messages are filled with: the default, and by product code.

        Raises
        ------
        Misconfigured
            A value is missing or out of its bounds.
        """
        default = _context("MESSAGE_CONTEXT", self.object("MESSAGE_CONTEXT"))
        products = {} if self.optional("MESSAGE_CONTEXTS") is None else self.object("MESSAGE_CONTEXTS")
        return default, {
            code: _context(f"MESSAGE_CONTEXTS[{code}]", value) for code, value in products.items()
        }

    def transport(self) -> SesSettings | SmtpSettings:
        """Return how mail is sent.

        Raises
        ------
        Misconfigured
            TRANSPORT is absent or malformed, or SEND_TIMEOUT_SECONDS is shorter than a call to SES may take.
        """
        value = self.object("TRANSPORT")
        match value:
            case {"type": "ses", "configurationSet": str(name)} if name:
                if self.number("SEND_TIMEOUT_SECONDS", 30) <= SES_CALL_SECONDS:
                    raise Misconfigured(f"SEND_TIMEOUT_SECONDS is not above {SES_CALL_SECONDS}, as SES needs")
                return SesSettings(name)
            case {"type": "smtp", "host": str(host), "port": int(port), "security": str(security)}:
                secret = value.get("credentialsSecretArn")
                if security not in list(SmtpSecurity) or not isinstance(secret, str | None):
                    raise Misconfigured("TRANSPORT: security is implicit or starttls, the secret is an ARN")
                return SmtpSettings(host, port, SmtpSecurity(security), secret or None)
            case _:
                raise Misconfigured("TRANSPORT is neither of type ses nor of type smtp, or lacks a member")

    def smtp_timeout_seconds(self) -> float:
        """Return an SMTP server's time for one message; the goodbye still ends within the send's time."""
        return self.number("SEND_TIMEOUT_SECONDS", 30) - GOODBYE_SECONDS

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self.required(name))
        except (ValueError, RecursionError) as error:
            raise Misconfigured(f"{name} is not JSON") from error


def _context(name: str, value: object) -> RenderContext:
    members = value if isinstance(value, dict) else {}
    if set(members) != set(_CONTEXT_MEMBERS) or not all(isinstance(each, str) for each in members.values()):
        raise Misconfigured(f"{name} has not exactly the texts {', '.join(_CONTEXT_MEMBERS)}")
    try:
        return RenderContext(**{_CONTEXT_MEMBERS[member]: text for member, text in members.items()})
    except MeteringError as error:
        raise Misconfigured(f"{name}: {error}") from error
