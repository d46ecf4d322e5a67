"""What the domain asks of the outside world: a clock, telemetry and workers.

Domain code and use cases receive these as parameters; the production adapters live in
``awsmp.adapters``, a simulation passes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol


class Clock(Protocol):
    """The time of day; every decision about windows and deadlines takes it from here."""

    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds`` (never negative)."""
        ...


class Metric(StrEnum):
    """Business metrics, namespace ``AWSMarketplaceMetering``; alarms and dashboards use these names."""

    USAGE_AGGREGATION_EXPIRED = "UsageAggregationExpired"
    USAGE_SUBMISSION_EXPIRED = "UsageSubmissionExpired"
    USAGE_RECORD_REJECTED = "UsageRecordRejected"
    USAGE_RECORD_UNPROCESSED = "UsageRecordUnprocessed"
    CUSTOMER_NOT_SUBSCRIBED = "CustomerNotSubscribed"
    BATCH_METER_USAGE_EXCEPTION = "BatchMeterUsageException"
    LATE_AFTER_SUBMISSION = "LateAfterSubmission"
    POSSIBLE_UNDER_BILLING = "PossibleUnderBilling"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    DRY_RUN_NOT_BILLED = "DryRunNotBilled"
    SURFACED_UNITS = "SurfacedUnits"
    RECORDS_BILLED = "RecordsBilled"
    REQUESTS_SENT = "BatchMeterUsageRequests"
    REQUESTS_THROTTLED = "BatchMeterUsageThrottled"
    GROUPS_DISCOVERED = "GroupsDiscovered"
    OLDEST_UNAGGREGATED_AGE_SECONDS = "OldestUnaggregatedAgeSeconds"
    UNITS_AT_RISK = "UnitsAtRisk"
    OLDEST_UNBILLED_AGE_SECONDS = "OldestUnbilledAgeSeconds"
    SECONDS_TO_MONTH_END_WALL = "SecondsToMonthEndWallWithUsagePending"
    DISCOVERY_RUNS_COMPLETED = "DiscoveryRunsCompleted"
    SUBMISSION_RUNS_COMPLETED = "SubmissionRunsCompleted"
    EVENT_APPLIED = "EventApplied"
    EVENT_IGNORED = "EventIgnored"
    EVENT_STALE = "EventStale"
    EVENT_PARKED = "EventParked"
    LICENSES_FINALIZED = "LicensesFinalized"
    FULFILLMENT_RECEIVED = "FulfillmentReceived"
    FULFILLMENT_WITHOUT_TOKEN = "FulfillmentWithoutToken"  # noqa: S105 - a metric's name
    BUYER_REGISTERED = "BuyerRegistered"
    BUYER_ALREADY_REGISTERED = "BuyerAlreadyRegistered"
    REGISTRATION_REJECTED = "RegistrationRejected"
    TOKEN_EXPIRED = "TokenExpired"  # noqa: S105 - a metric's name
    TOKEN_INVALID = "TokenInvalid"  # noqa: S105 - a metric's name
    REGISTRATION_FAILED = "RegistrationFailed"
    NOTIFICATIONS_QUEUED = "NotificationsQueued"
    NOTIFICATION_EVENTS_DROPPED = "NotificationEventsDropped"
    NOTIFICATIONS_SENT = "NotificationsSent"
    NOTIFICATIONS_SKIPPED = "NotificationsSkipped"
    NOTIFICATIONS_FAILED = "NotificationsFailed"
    NOTIFICATION_ENTRIES_FAILED = "NotificationEntriesFailed"
    NOTIFICATION_CLAIMS_RECOVERED = "NotificationClaimsRecovered"
    NOTIFICATION_SEND_RUNS_COMPLETED = "NotificationSendRunsCompleted"
    FEEDBACK_RECEIVED = "FeedbackReceived"
    FEEDBACK_REFUSED = "FeedbackRefused"
    FEEDBACK_CONFLICT = "FeedbackConflict"
    FEEDBACK_PURGED = "FeedbackPurged"
    ROW_CHANGES_FORWARDED = "RowChangesForwarded"
    ADDRESS_VERIFICATIONS_REQUESTED = "AddressVerificationsRequested"
    ADDRESSES_VERIFIED = "AddressesVerified"
    CONTACTS_UNREADABLE = "ContactsUnreadable"
    ADDRESS_VERIFIED = "AddressVerified"
    ADDRESS_VERIFICATION_REFUSED = "AddressVerificationRefused"
    ADDRESS_VERIFICATION_FAILED = "AddressVerificationFailed"


class Telemetry(Protocol):
    """Metrics and structured logs. A metric is written out before the call returns."""

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        """Emit ``metric`` now, so that a crash in the very next call cannot lose it."""
        ...

    def info(self, message: str, **fields: object) -> None:
        """Log ``message``; account ids and licence ARNs among the fields are masked."""
        ...

    def error(self, message: str, **fields: object) -> None:
        """Like :meth:`info`, at error level."""
        ...


class Workers(Protocol):
    """Runs calls beside the caller: threads in production, virtual latency in a simulation."""

    def start(self, call: Callable[[], object]) -> object:
        """Begin ``call`` and return a handle."""
        ...

    def wait(self, until: datetime | None) -> list[tuple[object, Callable[[], object]]]:
        """Return (handle, result) of what has finished; block until one has, or until ``until``.

        ``result()`` returns what the call returned or raises what it raised.
        """
        ...
