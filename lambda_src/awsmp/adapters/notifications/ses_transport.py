"""SendEmail of the SES API v2 through boto3: one message, one recipient, one answer.

Simple content needs the permission ``ses:SendEmail`` alone (raw content would need ``ses:SendRawEmail``).
The client is built with :data:`SES_CLIENT_CONFIG`: a retry inside the SDK hides a lost answer, and a second
message with it.

No error of this module has the SDK's own as its cause: SES quotes addresses in its texts, and a logged
traceback would show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
)

from awsmp.domain.errors import MeteringError, Misconfigured
from awsmp.domain.notifications.feedback_events import DELIVERY_ID_TAG, KIND_TAG
from awsmp.domain.notifications.messages import Message, message_headers
from awsmp.domain.notifications.ports import OutcomeUnknown, TransportFailed, TransportRefused

#: No retries of the SDK's own, and an answer is waited for well within a function's time-out.
SES_CLIENT_CONFIG: Final = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=20)

_CHARSET: Final = "UTF-8"
_SERVER_FAULT: Final = 500
_FORBIDDEN: Final = 403
# SendEmail's exceptions (botocore model of sesv2). What is about this very message:
_REFUSED: Final = frozenset({"MessageRejected", "BadRequestException"})
# ... about sending as such, until somebody changes a setting:
_MISCONFIGURED: Final = frozenset(
    {
        "AccountSuspendedException",
        "MailFromDomainNotVerifiedException",
        "NotFoundException",
        "SendingPausedException",
    }
)
# ... and credentials that a new invocation has renewed, though the status is that of a forbidden call.
_EXPIRED: Final = frozenset({"ExpiredTokenException", "ExpiredToken"})


class SesClient(Protocol):
    """The call of boto3's ``sesv2`` client that we make."""

    def send_email(self, **kwargs: Any) -> dict[str, Any]:
        """Send one message."""
        ...


@dataclass(frozen=True, slots=True)
class SesTransport:
    """Implements :class:`awsmp.domain.notifications.ports.Transport`.

    ``configuration_set`` is the one whose event destination brings bounces and complaints back, by the tags
    that are set here.
    """

    client: SesClient
    configuration_set: str

    def send(self, message: Message) -> str:
        """See Transport; the id is the one that SES puts into its events."""
        try:
            answer = self.client.send_email(**self._request(message))
        except ClientError as error:
            failure = _meaning_of_answer(error)
        except BotoCoreError as error:
            failure = _meaning_of_silence(error)
        else:
            return _message_id(answer)
        # Outside of the handlers, so that the SDK's error is neither cause nor context.
        raise failure

    def _request(self, message: Message) -> dict[str, Any]:
        return {
            "FromEmailAddress": message.sender.value,
            "Destination": {"ToAddresses": [message.recipient.value]},
            "Content": {
                "Simple": {
                    "Subject": {"Data": message.subject, "Charset": _CHARSET},
                    "Body": {"Text": {"Data": message.body, "Charset": _CHARSET}},
                    "Headers": [
                        {"Name": name, "Value": value} for name, value in message_headers(message).items()
                    ],
                }
            },
            "EmailTags": [
                {"Name": DELIVERY_ID_TAG, "Value": message.delivery_id},
                {"Name": KIND_TAG, "Value": message.kind.value},
            ],
            "ConfigurationSetName": self.configuration_set,
        }


def _message_id(answer: Mapping[str, Any]) -> str:
    message_id = answer.get("MessageId")
    if not isinstance(message_id, str) or not message_id:
        raise OutcomeUnknown("MissingMessageId")
    return message_id


def _meaning_of_answer(error: ClientError) -> MeteringError:
    code = str(error.response.get("Error", {}).get("Code", "Unknown"))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _REFUSED:
        return TransportRefused(code)
    if code in _EXPIRED:
        return TransportFailed(code)
    if code in _MISCONFIGURED or status == _FORBIDDEN:
        return Misconfigured(f"SendEmail was refused: {code}")
    if status == 0 or status >= _SERVER_FAULT:
        return OutcomeUnknown(code)
    # Throttled, over a quota, or an answer in the 400s that nobody has documented: nothing was sent.
    return TransportFailed(code)


def _meaning_of_silence(error: BotoCoreError) -> MeteringError:
    name = type(error).__name__
    if isinstance(error, ParamValidationError):
        return TransportRefused(name)
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        return TransportFailed(name)
    if isinstance(error, NoCredentialsError):
        return Misconfigured(f"SendEmail cannot be signed: {name}")
    # The request may have reached SES: its answer timed out or the connection broke.
    return OutcomeUnknown(name)
