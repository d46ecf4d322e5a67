"""Metrics in CloudWatch Embedded Metric Format and masked structured logs, on aws-lambda-powertools."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit, single_metric

from awsmp.domain.identifiers import mask
from awsmp.domain.ports import Metric

NAMESPACE: Final = "AWSMarketplaceMetering"

_SECONDS: Final = frozenset(
    {
        Metric.OLDEST_UNAGGREGATED_AGE_SECONDS,
        Metric.OLDEST_UNBILLED_AGE_SECONDS,
        Metric.SECONDS_TO_MONTH_END_WALL,
    }
)

# Whatever the field is called: a licence ARN, and any run of twelve digits (an AWS account id).
_SENSITIVE = re.compile(
    r"arn:aws[a-zA-Z-]*:license-manager:[^\s\"']*|(?<!\d)\d{12}(?!\d)|(?<![a-zA-Z])[lL]-[0-9a-fA-F]{8,}"
)


# Whatever their form: these fields hold nothing else.
_SENSITIVE_FIELDS: Final = frozenset(
    {"licenseArn", "license_arn", "customerAWSAccountId", "customer_account"}
)


def masked_fields(fields: dict[str, object]) -> dict[str, object]:
    """Return log fields with every account id and licence ARN masked."""
    return {
        name: mask(str(value)) if name in _SENSITIVE_FIELDS and value is not None else masked(value)
        for name, value in fields.items()
    }


def masked(value: object) -> object:
    """Return ``value`` with account ids and licence ARNs cut to their last four characters.

    What is no plain value is logged as its text, masked like any other.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Decimal | datetime):
        return masked(str(value))
    if isinstance(value, int | float):
        text = str(value)
        return value if _SENSITIVE.search(text) is None else masked(text)
    if isinstance(value, str):
        return _SENSITIVE.sub(lambda found: mask(found.group()), value)
    if isinstance(value, Mapping):
        return {str(masked(str(key))): masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(item) for item in value]
    return masked(repr(value))


class LambdaTelemetry:
    """Implements :class:`awsmp.domain.ports.Telemetry`.

    Each metric is one EMF line of its own, written before :meth:`count` returns. The dimensions are
    ``ProductCode`` and ``Environment`` always, never a buyer's identifier; with a reason the same value is
    published once more under ``Reason`` as well.
    """

    def __init__(self, service: str, *, product_code: str = "all", environment: str = "default") -> None:
        """``service`` names the function in its logs."""
        self._dimensions = {"ProductCode": product_code, "Environment": environment}
        self._log = Logger(service=service)

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        """See Telemetry."""
        unit = MetricUnit.Seconds if metric in _SECONDS else MetricUnit.Count
        self._emit(metric, float(value), unit, self._dimensions)
        if reason is not None:
            self._emit(metric, float(value), unit, {**self._dimensions, "Reason": reason})

    def _emit(self, metric: Metric, value: float, unit: MetricUnit, dimensions: dict[str, str]) -> None:
        with single_metric(name=metric, unit=unit, value=value, namespace=NAMESPACE) as line:
            # Else POWERTOOLS_SERVICE_NAME would become a third dimension, and no alarm would find its metric.
            line.service = ""
            for name, text in dimensions.items():
                line.add_dimension(name=name, value=text)

    def info(self, message: str, **fields: object) -> None:
        """See Telemetry."""
        self._log.info(masked(message), extra=masked_fields(fields))

    def error(self, message: str, **fields: object) -> None:
        """See Telemetry."""
        self._log.error(masked(message), extra=masked_fields(fields))
