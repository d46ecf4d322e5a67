"""Reporting what is surfaced: a metric for every quantity that will not be billed.

The metric goes out **before** the write that surfaces: a crash between the two repeats an alarm, the
other order could lose one.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from awsmp.domain.ledger import LedgerRecord, newly_rejected, surfacings
from awsmp.domain.ports import Metric, Telemetry
from awsmp.domain.quantities import ZERO
from awsmp.domain.reasons import SurfacedReason

_METRICS: Final[dict[str, Metric]] = {
    SurfacedReason.LATE_AFTER_SUBMISSION: Metric.LATE_AFTER_SUBMISSION,
    SurfacedReason.AFTER_FINAL_FLUSH: Metric.LATE_AFTER_SUBMISSION,
    SurfacedReason.POSSIBLE_UNDER_BILLING: Metric.POSSIBLE_UNDER_BILLING,
    SurfacedReason.CUSTOMER_NOT_SUBSCRIBED: Metric.CUSTOMER_NOT_SUBSCRIBED,
    SurfacedReason.SUBMISSION_EXPIRED: Metric.USAGE_SUBMISSION_EXPIRED,
    SurfacedReason.AGGREGATION_EXPIRED: Metric.USAGE_AGGREGATION_EXPIRED,
    SurfacedReason.OUTCOME_UNKNOWN: Metric.OUTCOME_UNKNOWN,
    SurfacedReason.NOT_ON_TEST_ALLOWLIST: Metric.DRY_RUN_NOT_BILLED,
}


def metric_of(reason: str) -> Metric:
    """Return the metric of a reason code; validation reasons and exception names are rejections."""
    return _METRICS.get(reason, Metric.USAGE_RECORD_REJECTED)


def _rejected(record: LedgerRecord) -> dict[str, Decimal]:
    return {rejection.reason: rejection.quantity for rejection in record.rejections}


def report_surfacing(telemetry: Telemetry, before: LedgerRecord | None, after: LedgerRecord) -> None:
    """Emit the metrics of everything that the step from ``before`` to ``after`` newly surfaces."""
    group = after.group
    for reason, rows in newly_rejected(before, after):
        telemetry.count(Metric.USAGE_RECORD_REJECTED, rows, reason=reason)
        telemetry.error(
            "usage rows rejected",
            licenseArn=group.license_arn,
            customerAWSAccountId=group.customer_account,
            dimension=group.dimension,
            hour=group.bucket,
            rows=rows,
            reason=reason,
        )
    rejected = _rejected(after)
    was_rejected = _rejected(before) if before is not None else {}
    for surfacing in surfacings(before, after):
        explained = rejected.get(surfacing.reason, ZERO) - was_rejected.get(surfacing.reason, ZERO)
        if surfacing.change != explained:
            telemetry.count(metric_of(surfacing.reason), 1, reason=surfacing.reason)
        telemetry.count(Metric.SURFACED_UNITS, surfacing.change, reason=surfacing.reason)
        telemetry.error(
            "usage surfaced: it will not be billed unless somebody acts",
            licenseArn=group.license_arn,
            customerAWSAccountId=group.customer_account,
            dimension=group.dimension,
            hour=group.bucket,
            reason=surfacing.reason,
            quantity=str(surfacing.now),
        )
