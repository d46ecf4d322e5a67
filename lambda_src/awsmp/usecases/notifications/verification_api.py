"""The HTTP side of a verification link. Nothing of the token is logged, and no answer names a contact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from awsmp.domain.errors import MeteringError, StoreUnavailable
from awsmp.domain.http import Request, Response, text_response
from awsmp.domain.notifications.contacts import InvalidContact
from awsmp.domain.notifications.verification import MAX_TOKEN, VerificationCode, VerificationRefused
from awsmp.domain.notifications.verification_page import (
    TOKEN_FIELD,
    PageText,
    confirmed,
    question,
    told,
)
from awsmp.domain.ports import Metric, Telemetry
from awsmp.usecases.notifications.verify_address import AddressVerification, Confirmation

#: Longest body that is looked at, in bytes: the form's one member, and what a browser escapes of it.
MAX_BODY: Final = 4 * MAX_TOKEN

_SENTENCES: Final[Mapping[VerificationCode, str]] = {
    VerificationCode.MALFORMED: "This link is not valid. Open it from the message, or copy it as a whole.",
    VerificationCode.EXPIRED: "This link has expired. Ask for a new one.",
    VerificationCode.SUPERSEDED: "This link is no longer valid. If a later message has another, use that.",
}
_UNAVAILABLE: Final = "Something went wrong on our side. Please open the link again in a few minutes."


@dataclass(frozen=True, slots=True)
class VerificationApi:
    """Answers ``GET``, ``HEAD`` and ``POST /verify``.

    ``verification`` may raise Misconfigured or StoreUnavailable: a missing setting is an answer, too.
    """

    verification: Callable[[], AddressVerification]
    text: PageText
    telemetry: Telemetry

    def answer(self, request: Request) -> Response:
        """Return the answer; only a POST with a good link changes anything."""
        if request.resource != "/verify":
            return text_response(404, "Not found")
        if request.method in ("GET", "HEAD"):
            return question(self.text)
        if request.method != "POST":
            return text_response(405, "Method not allowed", {"Allow": "GET, HEAD, POST"})
        try:
            outcome = self.verification().confirm(_token(request.body))
        except VerificationRefused as refused:
            return self._refused(refused.code)
        except InvalidContact:
            # Signed by us, but for an id that no contact of ours can have (any more).
            return self._refused(VerificationCode.SUPERSEDED)
        except MeteringError as failure:
            return self._failed(failure)
        self.telemetry.info("address verification", outcome=outcome.value)
        if outcome is Confirmation.CONFIRMED:
            self.telemetry.count(Metric.ADDRESS_VERIFIED)
        return confirmed(self.text)

    def _refused(self, code: VerificationCode) -> Response:
        self.telemetry.info("address verification refused", code=code.value)
        self.telemetry.count(Metric.ADDRESS_VERIFICATION_REFUSED, reason=code.value)
        return told(400, _SENTENCES[code], self.text)

    def _failed(self, failure: MeteringError) -> Response:
        """A moment's failure is 503; everything else needs somebody of the seller's and is 500."""
        self.telemetry.count(Metric.ADDRESS_VERIFICATION_FAILED)
        self.telemetry.error("address verification failed", error=type(failure).__name__, told=str(failure))
        return told(503 if isinstance(failure, StoreUnavailable) else 500, _UNAVAILABLE, self.text)


def _token(body: bytes) -> str:
    if len(body) > MAX_BODY:
        raise VerificationRefused(VerificationCode.MALFORMED)
    try:
        values = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=4)[TOKEN_FIELD]
    except (KeyError, ValueError):
        # Without its cause, which quotes what was sent.
        raise VerificationRefused(VerificationCode.MALFORMED) from None
    if len(values) != 1:
        raise VerificationRefused(VerificationCode.MALFORMED)
    return values[0]
