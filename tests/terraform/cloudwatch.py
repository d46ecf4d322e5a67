"""CloudWatch as far as tests need it: what functions publish, and what an alarm makes of it."""

from __future__ import annotations

import contextlib
import io
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Final

from awsmp.adapters.telemetry import LambdaTelemetry
from awsmp.domain.ports import Clock, Metric

_services = count(1)

#: Longest description that PutMetricAlarm takes.
MAX_DESCRIPTION: Final = 1024

_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanOrEqualToThreshold": operator.le,
    "LessThanThreshold": operator.lt,
}

_STATISTICS: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
}


@dataclass(frozen=True, slots=True)
class Datapoint:
    """One value of one metric."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    value: float
    at: datetime


def datapoints_of(line: str, at: datetime) -> list[Datapoint]:
    """Return what CloudWatch would extract from one line in Embedded Metric Format, stamped ``at``."""
    event = json.loads(line)
    return [
        Datapoint(
            directive["Namespace"], metric["Name"], {name: event[name] for name in names}, float(value), at
        )
        for directive in event["_aws"]["CloudWatchMetrics"]
        for names in directive["Dimensions"]
        for metric in directive["Metrics"]
        for value in event[metric["Name"]]
    ]


@dataclass
class PublishedTelemetry:
    """The production telemetry; what it writes is read back as CloudWatch would, on the clock of the test."""

    clock: Clock
    product_code: str
    environment: str = "default"
    datapoints: list[Datapoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A logger keeps the stream that it was made with, so each has a name of its own.
        self._service = LambdaTelemetry(
            f"published-{next(_services)}", product_code=self.product_code, environment=self.environment
        )

    def count(self, metric: Metric, value: int | Decimal | float = 1, *, reason: str | None = None) -> None:
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            self._service.count(metric, value, reason=reason)
        for line in written.getvalue().splitlines():
            self.datapoints += datapoints_of(line, self.clock.now())

    def info(self, message: str, **fields: object) -> None:
        """Logs are no concern here."""

    def error(self, message: str, **fields: object) -> None:
        """Logs are no concern here."""


def _period_end(instant: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp(instant.timestamp() // seconds * seconds, UTC)


def state_at(
    alarm: Mapping[str, Any], datapoints: Iterable[Datapoint], now: datetime, *, before: str = "OK"
) -> str:
    """Return an alarm's state at ``now`` by its planned definition: ``ALARM``, ``OK`` or, kept, ``before``.

    The last ``evaluation_periods`` whole periods are looked at, aligned as CloudWatch aligns them. A period
    without a datapoint counts as ``treat_missing_data`` says; with ``ignore`` only the others count, and
    without any the state stays.
    """
    statistic, compare = _STATISTICS[alarm["statistic"]], _COMPARISONS[alarm["comparison_operator"]]
    period = timedelta(seconds=alarm["period"])
    end = _period_end(now, alarm["period"])
    mine = [
        point
        for point in datapoints
        if (point.namespace, point.name, dict(point.dimensions))
        == (alarm["namespace"], alarm["metric_name"], alarm["dimensions"])
    ]
    verdicts: list[bool] = []
    for back in range(alarm["evaluation_periods"]):
        upto = end - back * period
        values = [point.value for point in mine if upto - period <= point.at < upto]
        if values:
            verdicts.append(compare(statistic(values), alarm["threshold"]))
        elif alarm["treat_missing_data"] != "ignore":
            verdicts.append({"breaching": True, "notBreaching": False}[alarm["treat_missing_data"]])
    if sum(verdicts) >= alarm["datapoints_to_alarm"]:
        return "ALARM"
    return "OK" if len(verdicts) == alarm["evaluation_periods"] else before


def states_over(
    alarm: Mapping[str, Any], datapoints: Iterable[Datapoint], start: datetime, end: datetime
) -> list[str]:
    """Return the state at the end of every period from ``start`` to one past ``end``."""
    points = list(datapoints)
    step = timedelta(seconds=alarm["period"])
    instant, states = _period_end(start, alarm["period"]) + step, list[str]()
    while instant <= end + step:
        states.append(state_at(alarm, points, instant, before=states[-1] if states else "OK"))
        instant += step
    return states
