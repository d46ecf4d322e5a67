"""Proof that a contact reads the mail of its address: a signed, expiring link that has its effect once.

The link's token names the recipient, stands for the address by its keyed digest, and holds when it expires
and a nonce. It is signed, so nobody can make one; the address may have changed since, so its digest is
compared again; and the write that marks the address as verified takes the nonce away in the same condition,
so a second use changes nothing. A link that was sent later replaces the earlier one.

The token travels in a URL's fragment and is posted by a page's script: mail scanners that open links do not
use it up, and it enters no query string and no access log.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from awsmp.domain.errors import MeteringError, Misconfigured
from awsmp.domain.notifications.templates import is_portal_url

#: Shortest signing key, in bytes: as long as the SHA-256 output (RFC 2104 3).
MIN_KEY_BYTES: Final = 32
#: Shortest nonce, in bytes.
MIN_NONCE_BYTES: Final = 16
#: How long a link may be good for at least and at most, and is by default.
MIN_LIFETIME: Final = timedelta(minutes=1)
MAX_LIFETIME: Final = timedelta(days=7)
DEFAULT_LIFETIME: Final = timedelta(days=1)
#: Longest token that is looked at, in characters.
MAX_TOKEN: Final = 1024

_VERSION: Final = 1
# What keeps a signature of this purpose from standing for one of another with the same key.
_DOMAIN: Final = b"awsmp.notifications.address-verification.v1\x00"
_NONCE_DOMAIN: Final = b"awsmp.notifications.address-verification.nonce.v1\x00"
_MEMBER = re.compile(r"[!-~]{1,256}", re.ASCII)
_TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})", re.ASCII)


class VerificationCode(StrEnum):
    """Why a link is refused; the page has a sentence for each."""

    MALFORMED = "MalformedLink"
    EXPIRED = "ExpiredLink"
    SUPERSEDED = "SupersededLink"


class VerificationRefused(MeteringError):
    """The link proves nothing, for the reason ``code``, and nothing was changed."""

    def __init__(self, code: VerificationCode) -> None:
        super().__init__(f"the verification is refused: {code.value}")
        self.code = code


@dataclass(frozen=True, slots=True)
class VerificationClaim:
    """What a token says: this recipient reads the mail of this address, until ``expires_at`` (exclusive)."""

    recipient_id: str
    address_digest: str
    expires_at: datetime
    nonce: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check the members.

        Raises
        ------
        Misconfigured
            The recipient id or the digest is not 1 to 256 printable ASCII characters, so no id of ours.
        """
        if not _MEMBER.fullmatch(self.recipient_id) or not _MEMBER.fullmatch(self.address_digest):
            raise Misconfigured("a verification link cannot carry this recipient id or digest")

    @classmethod
    def of_nonce(
        cls, recipient_id: str, address_digest: str, expires_at: datetime, nonce: bytes
    ) -> VerificationClaim:
        """Return a claim with a nonce of at least 16 bytes from a cryptographic source, used for this one.

        Raises
        ------
        Misconfigured
            The nonce is too short, or a member is malformed.
        """
        if len(nonce) < MIN_NONCE_BYTES:
            raise Misconfigured("the nonce of a verification link is shorter than 16 bytes")
        return cls(recipient_id, address_digest, expires_at, _base64url(nonce))

    @property
    def nonce_digest(self) -> str:
        """What the store keeps of the nonce: its SHA-256 in hex."""
        return hashlib.sha256(self.nonce.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class AddressState:
    """What the store knows of a recipient's address, as it is at the moment of asking.

    ``pending`` is the nonce digest of the link that was sent last and not used, ``confirmed_by`` that of the
    link that verified the present address.
    """

    address_digest: str
    pending: str | None = None
    confirmed_by: str | None = None


class AddressVerifications(Protocol):
    """Where it is kept which address of a recipient is verified; every write is one conditional write."""

    def state(self, recipient_id: str) -> AddressState | None:
        """Return the state, read consistently.

        None where there is no such recipient (any more), or no link was sent to its present address.
        """
        ...

    def offer(self, recipient_id: str, address_digest: str, nonce_digest: str) -> None:
        """Make ``nonce_digest`` the pending link, on condition that the address is (still) this one.

        Raises ConditionFailed where it is another, is verified already, or the recipient is gone or inactive.
        """
        ...

    def confirm(self, recipient_id: str, address_digest: str, nonce_digest: str, at: datetime) -> None:
        """Mark the address as verified at ``at`` and take the pending link away, both in one write.

        Raises ConditionFailed unless the address is this one and the pending link has this nonce.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinkSigner:
    """Signs and reads tokens. The first key signs, all are accepted: that is how keys are replaced."""

    keys: Sequence[bytes] = field(repr=False)

    def __post_init__(self) -> None:
        """Check the keys.

        Raises
        ------
        Misconfigured
            There is none, or one is shorter than 32 bytes.
        """
        if not self.keys or min(map(len, self.keys)) < MIN_KEY_BYTES:
            raise Misconfigured("the keys of verification links are missing or shorter than 32 bytes")

    def token(self, claim: VerificationClaim) -> str:
        """Return the signed token of ``claim``: URL-safe, without padding."""
        payload = json.dumps(
            [
                _VERSION,
                claim.recipient_id,
                claim.address_digest,
                int(claim.expires_at.timestamp()),
                claim.nonce,
            ],
            separators=(",", ":"),
        ).encode("ascii")
        return f"{_base64url(payload)}.{_base64url(_mac(self.keys[0], payload))}"

    def nonce(self, delivery_id: str) -> bytes:
        """Return the nonce of a delivery's link: nobody without the key can guess it.

        Every attempt of one delivery has the same one. A sender that was slow, or whose answer was lost, thus
        never makes a link void that another attempt of the delivery has sent.
        """
        return hmac.new(self.keys[0], _NONCE_DOMAIN + delivery_id.encode(), hashlib.sha256).digest()

    def read(self, token: str, now: datetime) -> VerificationClaim:
        """Return what a token of ours says.

        Raises
        ------
        VerificationRefused
            MALFORMED where it is not one of ours, whatever is wrong with it; EXPIRED.
        """
        version, *members = json.loads(self._signed_payload(token))
        if version != _VERSION:
            raise VerificationRefused(VerificationCode.MALFORMED)
        recipient_id, address_digest, expires, nonce = members
        claim = VerificationClaim(recipient_id, address_digest, datetime.fromtimestamp(expires, UTC), nonce)
        if now >= claim.expires_at:
            raise VerificationRefused(VerificationCode.EXPIRED)
        return claim

    def _signed_payload(self, token: str) -> bytes:
        match = _TOKEN.fullmatch(token) if len(token) <= MAX_TOKEN else None
        if match is None:
            raise VerificationRefused(VerificationCode.MALFORMED)
        try:
            payload, signature = _from_base64url(match[1]), _from_base64url(match[2])
        except ValueError:
            raise VerificationRefused(VerificationCode.MALFORMED) from None
        # Every key is tried, so that the time tells nothing of which one it was.
        good = [hmac.compare_digest(signature, _mac(key, payload)) for key in self.keys]
        # One spelling per token: base64 has spare bits in its last letter.
        if not any(good) or _base64url(payload) != match[1] or _base64url(signature) != match[2]:
            raise VerificationRefused(VerificationCode.MALFORMED)
        return payload


def verification_link(page_url: str, token: str) -> str:
    """Return the link that is sent: the page with the token in the fragment, which no server gets to see.

    Raises
    ------
    Misconfigured
        The page has no https address without credentials and fragment.
    """
    if not is_portal_url(page_url):
        raise Misconfigured("the verification page has no https address without credentials and fragment")
    return f"{page_url}#verify={token}"


def _mac(key: bytes, payload: bytes) -> bytes:
    return hmac.new(key, _DOMAIN + payload, hashlib.sha256).digest()


def _base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")


def _from_base64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
