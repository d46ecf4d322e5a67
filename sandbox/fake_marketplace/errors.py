"""Refusals: the exceptions that AWS answers with, by their exact names."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Per-record statuses; shape ``UsageRecordResultStatus`` knows these three and no other."""

    SUCCESS = "Success"
    DUPLICATE_RECORD = "DuplicateRecord"
    CUSTOMER_NOT_SUBSCRIBED = "CustomerNotSubscribed"


class Code(StrEnum):
    """Names of request-level exceptions."""

    INTERNAL_SERVICE_ERROR = "InternalServiceErrorException"
    INVALID_PRODUCT_CODE = "InvalidProductCodeException"
    INVALID_USAGE_DIMENSION = "InvalidUsageDimensionException"
    INVALID_TAG = "InvalidTagException"
    INVALID_USAGE_ALLOCATIONS = "InvalidUsageAllocationsException"
    INVALID_CUSTOMER_IDENTIFIER = "InvalidCustomerIdentifierException"
    TIMESTAMP_OUT_OF_BOUNDS = "TimestampOutOfBoundsException"
    THROTTLING = "ThrottlingException"
    DISABLED_API = "DisabledApiException"
    INVALID_LICENSE = "InvalidLicenseException"
    INVALID_TOKEN = "InvalidTokenException"
    EXPIRED_TOKEN = "ExpiredTokenException"
    # What every AWS JSON service may answer; absent from the service model.
    VALIDATION = "ValidationException"
    SERIALIZATION = "SerializationException"
    ACCESS_DENIED = "AccessDeniedException"
    UNKNOWN_OPERATION = "UnknownOperationException"
    MISSING_AUTHENTICATION = "MissingAuthenticationTokenException"
    INVALID_SIGNATURE = "InvalidSignatureException"


#: Codes that the front end of every AWS service may give, so they are in no service's model.
COMMON_CODES = frozenset(
    {
        Code.VALIDATION,
        Code.SERIALIZATION,
        Code.ACCESS_DENIED,
        Code.UNKNOWN_OPERATION,
        Code.MISSING_AUTHENTICATION,
        Code.INVALID_SIGNATURE,
    }
)

_HTTP_STATUS = {
    Code.INTERNAL_SERVICE_ERROR: 500,
    Code.MISSING_AUTHENTICATION: 403,
    Code.INVALID_SIGNATURE: 403,
}


class Refusal(Exception):
    """The whole request is refused and nothing in it is honoured."""

    def __init__(self, code: str, message: str, *, status: int | None = None) -> None:
        """``status`` is the HTTP status; by default 500 for an internal error, else 400."""
        super().__init__(f"{code}: {message}")
        self.code = str(code)
        self.message = message
        self.status = status if status is not None else _HTTP_STATUS.get(Code(code), 400)
