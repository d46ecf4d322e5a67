"""The keyed digest that stands for an address wherever one is compared or stored."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from awsmp.domain.errors import Misconfigured
from awsmp.domain.notifications.messages import EmailAddress

#: Shortest pepper, in bytes: as long as the SHA-256 output (RFC 2104, section 3).
MIN_PEPPER_BYTES: Final = 32

# Keeps these digests apart from whatever else may be computed with the same secret.
_DOMAIN: Final = b"awsmp/notifications/address/v1\x00"


@dataclass(frozen=True, slots=True)
class PepperDigest:
    """HMAC-SHA-256 over the canonical address, letter case apart; an AddressDigest of the domain.

    Raises
    ------
    Misconfigured
        The pepper is shorter than 32 bytes.
    """

    pepper: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check the pepper's length; see the class."""
        if len(self.pepper) < MIN_PEPPER_BYTES:
            raise Misconfigured(f"the pepper is shorter than {MIN_PEPPER_BYTES} bytes")

    def digest(self, address: EmailAddress) -> str:
        """See AddressDigest: 64 lower-case hexadecimal digits."""
        return hmac.new(self.pepper, _DOMAIN + address.comparison.encode(), hashlib.sha256).hexdigest()
