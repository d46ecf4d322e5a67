"""Makes the message of a delivery from the seller's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from awsmp.domain.notifications.kinds import Kind, ServiceKind
from awsmp.domain.notifications.messages import (
    EmailAddress,
    Message,
    RenderContext,
    TemplateOverrides,
    render,
)
from awsmp.domain.notifications.ports import Recipient
from awsmp.domain.notifications.templates import render_verification


@dataclass(frozen=True, slots=True)
class Composer:
    """``contexts`` holds what is written about a product, by product code; ``default`` is for any other."""

    sender: EmailAddress
    default: RenderContext
    contexts: Mapping[str, RenderContext] = field(default_factory=dict)
    overrides: TemplateOverrides = field(default_factory=TemplateOverrides)

    def compose(
        self, kind: Kind, product_code: str | None, recipient: Recipient, delivery_id: str
    ) -> Message:
        """Return the message.

        Raises
        ------
        MeteringError
            The message breaks a bound (InvalidMessage, InvalidTemplate, InvalidLocale).
        """
        context = self._context(product_code)
        subject, body = render(kind, recipient.locale, context, self.overrides)
        return Message(
            subject=subject,
            body=body,
            recipient=recipient.address,
            sender=self.sender,
            kind=kind,
            delivery_id=delivery_id,
        )

    def compose_verification(
        self, product_code: str | None, recipient: Recipient, delivery_id: str, link: str
    ) -> Message:
        """Return the message that asks the recipient to verify its address by ``link``.

        Raises
        ------
        MeteringError
            As :meth:`compose`.
        """
        context = self._context(product_code)
        subject, body = render_verification(recipient.locale, context, link, self.overrides)
        return Message(
            subject=subject,
            body=body,
            recipient=recipient.address,
            sender=self.sender,
            kind=ServiceKind.ADDRESS_VERIFICATION,
            delivery_id=delivery_id,
        )

    def _context(self, product_code: str | None) -> RenderContext:
        return self.contexts.get(product_code or "", self.default)
