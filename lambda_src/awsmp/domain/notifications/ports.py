"""What the notifications tier asks of the outside world besides the clock and telemetry.

The store of entries, deliveries, suppressions and feedback is in ``awsmp.domain.notifications.store``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from awsmp.domain.errors import MeteringError
from awsmp.domain.notifications.messages import EmailAddress, Message

_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)

#: What stands for an error code that is no code; a provider's sentence may quote an address.
UNCLASSIFIED: Final = "unclassified"


class SendFailure(MeteringError):
    """A message was not acknowledged. ``code`` is the provider's error code and is stored and logged.

    Anything that is no code (a sentence, an address) is replaced by ``unclassified``.
    """

    def __init__(self, code: str) -> None:
        self.code = code if _CODE.fullmatch(code) else UNCLASSIFIED
        super().__init__(self.code)


class TransportRefused(SendFailure):
    """The provider has refused this message for good; it was not sent."""


class TransportFailed(SendFailure):
    """The provider could not take the message at the moment; it was not sent."""


class OutcomeUnknown(SendFailure):
    """The provider's answer was lost: the message may have been sent."""


class Transport(Protocol):
    """SES or SMTP."""

    def send(self, message: Message) -> str:
        """Hand one message to the provider and return the provider's message id.

        Raises TransportRefused, TransportFailed or OutcomeUnknown; Misconfigured where no message at all
        can be sent (credentials, permissions, an unverified sender).
        """
        ...


@dataclass(frozen=True, slots=True)
class Recipient:
    """A contact of a licence as it is at the moment of asking.

    ``entitled_until`` is when the membership ends (exclusive), None for no end. ``address`` is shown by no
    ``repr`` and stored nowhere in this tier.
    """

    recipient_id: str
    address: EmailAddress = field(repr=False)
    verified: bool
    active: bool = True
    entitled_until: datetime | None = None
    locale: str | None = None


class Recipients(Protocol):
    """The in-Region customer profiles."""

    def owners(self, license_arn: str, account: str) -> Sequence[Recipient]:
        """Return the licence's contacts that may be told, whatever their state.

        These are the owner and further contacts of the licence or, where an organisation holds it, its
        owners and admins. Read consistently, so that a contact that was removed is not returned. Raises
        StoreUnavailable or Misconfigured.
        """
        ...


class AddressDigest(Protocol):
    """Stands for an address wherever one has to be compared or stored."""

    def digest(self, address: EmailAddress) -> str:
        """Return the keyed digest of the canonical address: equal for equal addresses, useless without key.

        HMAC-SHA-256 with a secret pepper of at least 32 bytes, domain-separated.
        """
        ...
