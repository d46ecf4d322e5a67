"""The vocabulary of refusals: one set of names for rows, records, metrics and documentation."""

from __future__ import annotations

from enum import StrEnum


class MeteringStatus(StrEnum):
    """``meteringStatus`` of a ledger record; absent while it is pending and unblocked."""

    SUCCESS = "Success"
    DUPLICATE_RECORD = "DuplicateRecord"
    CUSTOMER_NOT_SUBSCRIBED = "CustomerNotSubscribed"
    REJECTED_CLIENT_SIDE = "RejectedClientSide"
    SUBMISSION_EXPIRED = "SubmissionExpired"
    AGGREGATION_EXPIRED = "AggregationExpired"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    DRY_RUN_SUBMITTED = "DryRunSubmitted"


class RowStamp(StrEnum):
    """``meteringStatus`` that we put on raw rows, for people to read."""

    AGGREGATED = "Aggregated"
    REJECTED_CLIENT_SIDE = "RejectedClientSide"
    AGGREGATION_EXPIRED = "AggregationExpired"
    LATE_AFTER_SUBMISSION = "LateAfterSubmission"


class ValidationReason(StrEnum):
    """Why a row, or a whole group, cannot be sent."""

    MALFORMED_SORT_KEY = "MalformedSortKey"
    SORT_KEY_MISMATCH = "SortKeyMismatch"
    MALFORMED_TIMESTAMP = "MalformedTimestamp"
    TIMESTAMP_OUT_OF_WINDOW = "TimestampOutOfWindow"
    PENDING_BUCKET_MISMATCH = "PendingBucketMismatch"
    MISSING_DIMENSION = "MissingDimension"
    INVALID_DIMENSION = "InvalidDimension"
    NEGATIVE_QUANTITY = "NegativeQuantity"
    MISSING_QUANTITY = "MissingQuantity"
    NON_NUMERIC_QUANTITY = "NonNumericQuantity"
    NON_INTEGER_QUANTITY = "NonIntegerQuantity"
    QUANTITY_OUT_OF_RANGE = "QuantityOutOfRange"
    INVALID_LICENSE_ARN = "InvalidLicenseArn"
    INVALID_CUSTOMER_ACCOUNT = "InvalidCustomerAccount"
    TOO_MANY_TAGS = "TooManyTags"
    INVALID_TAG = "InvalidTag"
    TOO_MANY_ALLOCATIONS = "TooManyAllocations"
    ALLOCATION_SUM_MISMATCH = "AllocationSumMismatch"
    MIXED_ALLOCATED_AND_UNALLOCATED = "MixedAllocatedAndUnallocated"
    RECORD_TOO_LARGE = "RecordTooLarge"


class SurfacedReason(StrEnum):
    """Why a quantity is not billed, beside the validation reasons and the API's exception names."""

    LATE_AFTER_SUBMISSION = "LateAfterSubmission"
    AFTER_FINAL_FLUSH = "AfterFinalFlush"
    POSSIBLE_UNDER_BILLING = "PossibleUnderBilling"
    CUSTOMER_NOT_SUBSCRIBED = "CustomerNotSubscribed"
    SUBMISSION_EXPIRED = "SubmissionExpired"
    AGGREGATION_EXPIRED = "AggregationExpired"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    NOT_ON_TEST_ALLOWLIST = "NotOnTestAllowlist"
    REFUSED_BY_MARKETPLACE = "RefusedByMarketplace"
