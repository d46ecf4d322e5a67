"""Verify a contact's address by a link that was sent to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from awsmp.domain.errors import ConditionFailed, Misconfigured
from awsmp.domain.notifications.verification import (
    DEFAULT_LIFETIME,
    MAX_LIFETIME,
    MIN_LIFETIME,
    AddressVerifications,
    LinkSigner,
    VerificationClaim,
    VerificationCode,
    VerificationRefused,
)
from awsmp.domain.ports import Clock


class Confirmation(StrEnum):
    """What a good link did."""

    CONFIRMED = "confirmed"
    ALREADY_CONFIRMED = "already_confirmed"


@dataclass(frozen=True, slots=True)
class AddressVerification:
    """Offers links and takes them back."""

    signer: LinkSigner
    addresses: AddressVerifications
    clock: Clock
    lifetime: timedelta = DEFAULT_LIFETIME

    def __post_init__(self) -> None:
        """Check the lifetime.

        Raises
        ------
        Misconfigured
            It is not between a minute and seven days.
        """
        if not MIN_LIFETIME <= self.lifetime <= MAX_LIFETIME:
            raise Misconfigured("verification links last between a minute and seven days")

    def offer(self, recipient_id: str, address_digest: str, nonce: bytes) -> str:
        """Return the token of a new link, after it was made the pending one.

        ``nonce`` are at least 16 bytes from a cryptographic source, new for each link.

        Raises
        ------
        ConditionFailed
            The recipient is gone or has another address by now.
        Misconfigured
            The nonce is too short, or an id has characters that no id of ours has.
        """
        expires_at = self.clock.now().replace(microsecond=0) + self.lifetime
        claim = VerificationClaim.of_nonce(recipient_id, address_digest, expires_at, nonce)
        self.addresses.offer(recipient_id, address_digest, claim.nonce_digest)
        return self.signer.token(claim)

    def confirm(self, token: str) -> Confirmation:
        """Take a link: verify the address it was sent to, once.

        A second use, also after an answer that was lost, says ALREADY_CONFIRMED and changes nothing: a
        contact that was set to unverified meanwhile stays so.

        Raises
        ------
        VerificationRefused
            See VerificationCode; SUPERSEDED where the address has changed, the recipient is gone or a later
            link was sent.
        """
        now = self.clock.now()
        claim = self.signer.read(token, now)
        try:
            self.addresses.confirm(claim.recipient_id, claim.address_digest, claim.nonce_digest, now)
        except ConditionFailed as error:
            state = self.addresses.state(claim.recipient_id)
            if state is None or state.address_digest != claim.address_digest:
                raise VerificationRefused(VerificationCode.SUPERSEDED) from error
            if state.confirmed_by != claim.nonce_digest:
                raise VerificationRefused(VerificationCode.SUPERSEDED) from error
            return Confirmation.ALREADY_CONFIRMED
        return Confirmation.CONFIRMED
