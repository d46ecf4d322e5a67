"""The SMTP login from Secrets Manager, by reference: its value is in no setting and no Terraform state."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

from awsmp.adapters.client_errors import translated
from awsmp.adapters.notifications.smtp_transport import SmtpCredentials
from awsmp.domain.errors import Misconfigured


class SecretsClient(Protocol):
    """The call of boto3's ``secretsmanager`` client that we make."""

    def get_secret_value(self, **kwargs: Any) -> dict[str, Any]:
        """Return the current value of a secret."""
        ...


@dataclass(slots=True)
class SmtpSecret:
    """Implements :class:`SmtpCredentialsSource`: a JSON object with ``username`` and ``password``.

    Read once and kept for the life of the process; a login that is refused makes the next message read it
    again, so that a rotated password needs no deployment.
    """

    client: SecretsClient
    secret_arn: str
    _known: SmtpCredentials | None = field(default=None, init=False, repr=False)

    def current(self) -> SmtpCredentials:
        """See SmtpCredentialsSource."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def forget(self) -> None:
        """See SmtpCredentialsSource."""
        self._known = None

    def _read(self) -> SmtpCredentials:
        with translated("GetSecretValue"):
            answer = self.client.get_secret_value(SecretId=self.secret_arn)
        try:
            value = json.loads(answer["SecretString"])
            username, password = value["username"], value["password"]
        except (KeyError, TypeError, ValueError):
            username = password = None
        if not isinstance(username, str) or not isinstance(password, str):
            # Raised outside of the handler: a decoder's error holds the text that it could not read.
            raise Misconfigured("the SMTP secret is no JSON object with username and password")
        return SmtpCredentials(username, password)
