"""The HTTP side of a registration: status codes, CORS, metrics. No answer holds an id or a stack trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from awsmp.domain.customer_profiles import RefusalCode, RegistrationRefused
from awsmp.domain.errors import MeteringError, StoreUnavailable
from awsmp.domain.http import Request, Response, json_response
from awsmp.domain.ports import Metric, Telemetry
from awsmp.usecases.register import BuyerRegistration, RegistrationOutcome

#: Seconds after which a buyer who was throttled may try again.
RETRY_AFTER: Final = 5

#: Seconds for which a browser remembers that it may call from the page's origin.
PREFLIGHT_MAX_AGE: Final = 600

_STATUS: Final[Mapping[RefusalCode, int]] = {
    RefusalCode.MALFORMED_REQUEST: 400,
    RefusalCode.INVALID_TOKEN: 400,
    RefusalCode.EXPIRED_TOKEN: 400,
    RefusalCode.WRONG_PRODUCT: 400,
    RefusalCode.MISSING_LICENSE: 400,
    RefusalCode.TOO_LARGE: 413,
    RefusalCode.INVALID_FIELDS: 422,
    RefusalCode.THROTTLED: 429,
}

_TOKEN_METRICS: Final[Mapping[RefusalCode, Metric]] = {
    RefusalCode.EXPIRED_TOKEN: Metric.TOKEN_EXPIRED,
    RefusalCode.INVALID_TOKEN: Metric.TOKEN_INVALID,
}

_OUTCOME_METRICS: Final[Mapping[RegistrationOutcome, Metric]] = {
    RegistrationOutcome.REGISTERED: Metric.BUYER_REGISTERED,
    RegistrationOutcome.ALREADY_REGISTERED: Metric.BUYER_ALREADY_REGISTERED,
}


@dataclass(frozen=True, slots=True)
class RegistrationApi:
    """Answers ``POST`` and ``OPTIONS /register``.

    ``registration`` and ``allowed_origins`` may raise Misconfigured: a missing setting is an answer, too.
    """

    registration: Callable[[], BuyerRegistration]
    allowed_origins: Callable[[], frozenset[str]]
    telemetry: Telemetry

    def answer(self, request: Request) -> Response:
        """Return the answer; the codes in it are those that the page has sentences for."""
        if request.resource != "/register":
            return json_response(404, {"error": "NotFound"}, {})
        if request.method not in ("OPTIONS", "POST"):
            return json_response(405, {"error": "MethodNotAllowed"}, {"Allow": "OPTIONS, POST"})
        headers: Mapping[str, str] = {}
        try:
            headers = self._cors(request)
            if request.method == "OPTIONS":
                return Response(204, headers)
            outcome = self.registration().register(request.body)
        except RegistrationRefused as refused:
            return self._refused(refused, headers)
        except MeteringError as failure:
            return self._failed(failure, headers)
        self.telemetry.count(_OUTCOME_METRICS[outcome])
        return json_response(200, {"outcome": outcome.value}, headers)

    def _cors(self, request: Request) -> dict[str, str]:
        """Allow the page's origins, as whole texts; a script of another origin cannot read the answer."""
        headers = {"Vary": "Origin"}
        origin = request.header("origin")
        if origin in self.allowed_origins():
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "Retry-After"
            if request.method == "OPTIONS":
                headers["Access-Control-Allow-Methods"] = "OPTIONS, POST"
                headers["Access-Control-Allow-Headers"] = "Content-Type"
                headers["Access-Control-Max-Age"] = str(PREFLIGHT_MAX_AGE)
        return headers

    def _refused(self, refused: RegistrationRefused, headers: Mapping[str, str]) -> Response:
        self.telemetry.count(Metric.REGISTRATION_REJECTED, reason=refused.code.value)
        if refused.code in _TOKEN_METRICS:
            self.telemetry.count(_TOKEN_METRICS[refused.code])
        self.telemetry.info("registration refused", code=refused.code.value)
        document: dict[str, object] = {"error": refused.code.value}
        if refused.code is RefusalCode.INVALID_FIELDS:
            document["fields"] = {name: code.value for name, code in refused.fields.items()}
        if refused.code is RefusalCode.THROTTLED:
            headers = {**headers, "Retry-After": str(RETRY_AFTER)}
        return json_response(_STATUS[refused.code], document, headers)

    def _failed(self, failure: MeteringError, headers: Mapping[str, str]) -> Response:
        """A moment's failure is 503; everything else needs somebody of the seller's and is 500."""
        self.telemetry.count(Metric.REGISTRATION_FAILED)
        self.telemetry.error("registration failed", error=type(failure).__name__, told=str(failure))
        if isinstance(failure, StoreUnavailable):
            return json_response(503, {"error": "Unavailable"}, headers)
        return json_response(500, {"error": "Misconfigured"}, headers)
