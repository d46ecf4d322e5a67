"""BatchMeterUsage through boto3: one request, its answers matched to the records that were sent.

The client must be built without retries of its own: a retry inside the SDK hides a lost answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
)

from awsmp.domain.batching import usage_record
from awsmp.domain.identifiers import is_license_arn
from awsmp.domain.ledger import Billed, Duplicate, LedgerRecord, NotSubscribed, Outcome, Unknown
from awsmp.domain.quantities import QuantityType
from awsmp.domain.stores import Answers, FailureKind, RequestFailure, Unprocessed

#: Request-level exceptions that one record of the request causes (botocore model of BatchMeterUsage).
POISON: Final = frozenset(
    {
        "InvalidUsageDimensionException",
        "InvalidTagException",
        "InvalidUsageAllocationsException",
        "InvalidCustomerIdentifierException",
        "InvalidLicenseException",
        "TimestampOutOfBoundsException",
        "ValidationException",
        "SerializationException",
    }
)
_THROTTLED: Final = frozenset({"ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded"})
_SERVER_FAULT: Final = 500


class MeteringClient(Protocol):
    """The call of boto3's ``meteringmarketplace`` client that we make."""

    def batch_meter_usage(self, **kwargs: Any) -> dict[str, Any]:
        """Send up to 25 usage records."""
        ...


@dataclass(frozen=True, slots=True)
class BatchMeterUsage:
    """Implements :class:`awsmp.domain.stores.Marketplace`.

    ``legacy_product_code`` is sent with records of products that predate Concurrent Agreements, and with
    no others: product code and licence in one request would be billed twice.
    """

    client: MeteringClient
    quantity_type: QuantityType
    legacy_product_code: str | None = None

    def send(self, records: Sequence[LedgerRecord]) -> Answers | RequestFailure:
        """See Marketplace."""
        legacy = self.legacy_product_code is not None and not is_license_arn(records[0].group.license_arn)
        request: dict[str, Any] = {
            "UsageRecords": [usage_record(record, self.quantity_type, legacy=legacy) for record in records]
        }
        if legacy:
            request["ProductCode"] = self.legacy_product_code
        try:
            answer = self.client.batch_meter_usage(**request)
        except ClientError as error:
            return _refused(error)
        except ParamValidationError:
            return RequestFailure(FailureKind.POISON, "ValidationException")
        except (EndpointConnectionError, ConnectTimeoutError) as error:
            return RequestFailure(FailureKind.NOT_SENT, type(error).__name__)
        except NoCredentialsError as error:
            return RequestFailure(FailureKind.STOP, type(error).__name__)
        except BotoCoreError as error:
            return RequestFailure(FailureKind.UNKNOWN, type(error).__name__)
        return Answers(_match(request["UsageRecords"], answer))


def _refused(error: ClientError) -> RequestFailure:
    code = str(error.response.get("Error", {}).get("Code", "Unknown"))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _THROTTLED:
        return RequestFailure(FailureKind.THROTTLED, code)
    if code in POISON:
        return RequestFailure(FailureKind.POISON, code)
    if code == "InternalServiceErrorException" or status == 0 or status >= _SERVER_FAULT:
        return RequestFailure(FailureKind.UNKNOWN, code)
    if code == "InvalidProductCodeException":
        return RequestFailure(FailureKind.STOP_LEGACY, code)
    # DisabledApiException, AccessDeniedException, bad or expired credentials, and 4xx answers that nobody
    # has documented: the service refused, so nothing was honoured, and the next request would fare alike.
    return RequestFailure(FailureKind.STOP, code)


def _match(sent: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> tuple[Outcome | Unprocessed, ...]:
    outcomes: dict[tuple[object, ...], Outcome | Unprocessed] = {}
    for record in answer.get("UnprocessedRecords", ()):
        outcomes[_identity(record)] = Unprocessed()
    for result in answer.get("Results", ()):
        outcomes[_identity(result.get("UsageRecord", {}))] = _outcome(result)
    # What the answer does not mention may have been honoured.
    return tuple(outcomes.get(_identity(record), Unknown()) for record in sent)


def _identity(record: Mapping[str, Any]) -> tuple[object, ...]:
    timestamp = record.get("Timestamp")
    instant = int(timestamp.timestamp()) if isinstance(timestamp, datetime) else timestamp
    return (
        record.get("LicenseArn") or "",
        record.get("CustomerAWSAccountId") or "",
        record.get("CustomerIdentifier") or "",
        record.get("Dimension"),
        instant,
    )


def _outcome(result: Mapping[str, Any]) -> Outcome:
    match result.get("Status"):
        case "Success":
            return Billed(str(result.get("MeteringRecordId", "")))
        case "DuplicateRecord":
            return Duplicate()
        case "CustomerNotSubscribed":
            return NotSubscribed()
        case _:
            return Unknown()
