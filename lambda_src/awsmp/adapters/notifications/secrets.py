"""The tier's own secrets from Secrets Manager, by reference: no value is in any setting or state."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from awsmp.adapters.client_errors import translated
from awsmp.adapters.notifications.pepper import PepperDigest
from awsmp.adapters.notifications.smtp_secret import SecretsClient
from awsmp.domain.errors import Misconfigured
from awsmp.domain.notifications.verification import LinkSigner
from awsmp.domain.ports import Clock

#: How long the keys of verification links are kept; a new key is added this long before it signs.
KEYS_KEPT: Final = timedelta(minutes=5)


def read_pepper(client: SecretsClient, secret_arn: str) -> PepperDigest:
    """Return the digest by the pepper in a secret: JSON ``{"pepper": "<base64>"}``.

    Raises
    ------
    Misconfigured
        The secret may not be read, has another form, or the pepper is shorter than 32 bytes.
    StoreUnavailable
        Secrets Manager failed.
    """
    return PepperDigest(_decoded(_document(client, secret_arn).get("pepper"), "pepper"))


@dataclass(slots=True)
class VerificationKeys:
    """The keys of verification links: JSON ``{"keys": ["<base64>", ...]}``, the first of which signs.

    Read again every five minutes, so that a new key needs no deployment: add it as the last, and when every
    function has read it, move it to the front.
    """

    client: SecretsClient
    secret_arn: str
    clock: Clock
    _known: LinkSigner | None = field(default=None, init=False, repr=False)
    _read_at: datetime | None = field(default=None, init=False)

    def signer(self) -> LinkSigner:
        """Return the signer.

        Raises
        ------
        Misconfigured
            The secret may not be read, has another form, or a key is shorter than 32 bytes.
        StoreUnavailable
            Secrets Manager failed.
        """
        now = self.clock.now()
        if self._known is None or self._read_at is None or now - self._read_at >= KEYS_KEPT:
            keys = _document(self.client, self.secret_arn).get("keys")
            if not isinstance(keys, list):
                raise Misconfigured("the verification secret has no list of keys")
            self._known = LinkSigner(tuple(_decoded(key, "keys") for key in keys))
            self._read_at = now
        return self._known


def _document(client: SecretsClient, secret_arn: str) -> dict[str, Any]:
    with translated("GetSecretValue"):
        answer = client.get_secret_value(SecretId=secret_arn)
    try:
        value = json.loads(answer["SecretString"])
    except (KeyError, TypeError, ValueError):
        value = None
    if not isinstance(value, dict):
        # Raised outside of the handler: a decoder's error holds the text that it could not read.
        raise Misconfigured("a secret is no JSON object")
    return value


def _decoded(value: object, name: str) -> bytes:
    octets = None
    if isinstance(value, str):
        try:
            octets = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            octets = None
    if octets is None:
        raise Misconfigured(f"the secret's member {name} is no base64")
    return octets
