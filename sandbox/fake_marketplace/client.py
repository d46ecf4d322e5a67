"""boto3's ``meteringmarketplace`` client without sockets: the same calls, answers and exceptions.

It behaves as a client whose retries are off (``retries={"total_max_attempts": 1}``), so one call is one
request. Argument checks, exception classes and timestamp conversion come from botocore itself; only the
common, plainly correct arguments skip its slow validator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import botocore.session
from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ParamValidationError,
    ReadTimeoutError,
)
from botocore.model import ServiceModel
from botocore.utils import parse_to_aware_datetime
from botocore.validate import ParamValidator

from sandbox.fake_marketplace.engine import FakeMarketplace, Reply
from sandbox.fake_marketplace.faults import BATCH_METER_USAGE, RESOLVE_CUSTOMER, Lost

#: botocore's default ``read_timeout`` in seconds.
DEFAULT_READ_TIMEOUT = 60.0

_REQUEST_MEMBERS = frozenset({"UsageRecords", "ProductCode"})
_PLAIN_MEMBERS = frozenset(
    {"Timestamp", "Dimension", "CustomerAWSAccountId", "LicenseArn", "Quantity", "QuantityAsDecimal"}
)


@functools.cache
def service_model() -> Any:
    """Return botocore's model of the service; loaded once per process."""
    loader = botocore.session.get_session().get_component("data_loader")
    return ServiceModel(loader.load_service_model("meteringmarketplace", "service-2"), "meteringmarketplace")


@functools.cache
def _exceptions() -> Any:
    return ClientExceptionsFactory().create_client_exceptions(service_model())


@functools.cache
def _input_shape(operation: str) -> Any:
    return service_model().operation_model(operation).input_shape


class InProcessMarketplaceClient:
    """Calls a :class:`FakeMarketplace` as boto3 calls AWS. As thread-safe as the engine, that is: not."""

    def __init__(
        self,
        marketplace: FakeMarketplace,
        *,
        region: str = "us-east-1",
        account: str | None = None,
        sleep: Callable[[float], None] | None = None,
        read_timeout: float = DEFAULT_READ_TIMEOUT,
    ) -> None:
        """``sleep`` lets injected latency pass (seconds); without it, latency takes no time."""
        self._marketplace = marketplace
        self._region = region
        self._account = account
        self._sleep = sleep
        self._read_timeout = read_timeout
        self._endpoint = f"https://metering.marketplace.{region}.amazonaws.com/"
        self.exceptions = _exceptions()

    def batch_meter_usage(self, **kwargs: Any) -> dict[str, Any]:
        """Submit usage records.

        Raises:
            ParamValidationError: the arguments are refused before anything is sent.
            ClientError: the modelled subclass where the model has one.
            ReadTimeoutError, ConnectionClosedError: the answer was lost; the records may be honoured.
        """
        records = kwargs.get("UsageRecords")
        plain = type(records) is list and all(map(_is_plain, records))
        if (
            not plain
            or not kwargs.keys() <= _REQUEST_MEMBERS
            or type(kwargs.get("ProductCode", "")) is not str
        ):
            _validate(BATCH_METER_USAGE, kwargs)
        assert records is not None
        payload: dict[str, Any] = {"UsageRecords": [_to_wire(record) for record in records]}
        if "ProductCode" in kwargs:
            payload["ProductCode"] = kwargs["ProductCode"]
        reply = self._marketplace.batch_meter_usage(payload, region=self._region, account=self._account)
        body = self._deliver(reply, BATCH_METER_USAGE)
        results = []
        for result in body["Results"]:
            answered = dict(result)
            answered["UsageRecord"] = _from_wire(result["UsageRecord"])
            results.append(answered)
        return {
            "Results": results,
            "UnprocessedRecords": [_from_wire(record) for record in body["UnprocessedRecords"]],
            "ResponseMetadata": _metadata(reply, 200),
        }

    def resolve_customer(self, **kwargs: Any) -> dict[str, Any]:
        """Resolve a registration token.

        Raises:
            ParamValidationError: the arguments are refused before anything is sent.
            ClientError: the modelled subclass where the model has one.
            ReadTimeoutError, ConnectionClosedError: the answer was lost.
        """
        _validate(RESOLVE_CUSTOMER, kwargs)
        reply = self._marketplace.resolve_customer(kwargs, region=self._region, account=self._account)
        body = self._deliver(reply, RESOLVE_CUSTOMER)
        return {**body, "ResponseMetadata": _metadata(reply, 200)}

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _deliver(self, reply: Reply, operation: str) -> dict[str, Any]:
        if reply.lost is Lost.READ_TIMEOUT or reply.latency_seconds >= self._read_timeout:
            self._wait(self._read_timeout)
            raise ReadTimeoutError(endpoint_url=self._endpoint)
        self._wait(reply.latency_seconds)
        if reply.lost is Lost.CONNECTION_CLOSED:
            raise ConnectionClosedError(endpoint_url=self._endpoint)
        if reply.refusal is not None:
            _raise_refusal(reply, operation)
        assert reply.body is not None
        return reply.body

    def _wait(self, seconds: float) -> None:
        if self._sleep is not None and seconds > 0:
            self._sleep(seconds)


def _validate(operation: str, kwargs: Mapping[str, Any]) -> None:
    report = ParamValidator().validate(dict(kwargs), _input_shape(operation))
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


def _is_plain(record: object) -> bool:
    """Tell whether botocore's validator is sure to accept the record; ``False`` means: ask it."""
    if type(record) is not dict or not record.keys() <= _PLAIN_MEMBERS:
        return False
    quantity = record.get("Quantity", 0)
    return (
        type(record.get("Timestamp")) is datetime
        and all(type(value) is str and value for name, value in record.items() if name not in _NOT_TEXT)
        and "Dimension" in record
        and type(quantity) is int
        and quantity >= 0
    )


_NOT_TEXT = frozenset({"Timestamp", "Quantity"})


def _epoch(value: Any) -> int | float:
    """Return what botocore sends: whole epoch seconds, or a fraction where there is one; naive means UTC."""
    moment = value if type(value) is datetime else parse_to_aware_datetime(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds: float = moment.timestamp()
    return seconds if moment.microsecond else int(seconds)


def _to_wire(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return an own copy, so that the caller may reuse the record."""
    wire = dict(record)
    wire["Timestamp"] = _epoch(record["Timestamp"])
    if "UsageAllocations" in record:
        wire["UsageAllocations"] = _copied(record["UsageAllocations"])
    return wire


def _from_wire(record: Mapping[str, Any]) -> dict[str, Any]:
    answer = dict(record)
    answer["Timestamp"] = datetime.fromtimestamp(record["Timestamp"], UTC)
    if "UsageAllocations" in record:
        answer["UsageAllocations"] = _copied(record["UsageAllocations"])
    return answer


def _copied(allocations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    copies = []
    for allocation in allocations:
        copy = dict(allocation)
        if "Tags" in copy:
            copy["Tags"] = [dict(tag) for tag in copy["Tags"]]
        copies.append(copy)
    return copies


def _metadata(reply: Reply, status: int) -> dict[str, Any]:
    return {
        "RequestId": reply.request_id,
        "HTTPStatusCode": status,
        "HTTPHeaders": {"x-amzn-requestid": reply.request_id, "content-type": "application/x-amz-json-1.1"},
        "RetryAttempts": 0,
    }


def _raise_refusal(reply: Reply, operation: str) -> NoReturn:
    refusal = reply.refusal
    assert refusal is not None
    response: dict[str, Any] = {
        "Error": {"Message": refusal.message, "Code": refusal.code},
        "ResponseMetadata": _metadata(reply, refusal.status),
    }
    exception: type[ClientError] = _exceptions().from_code(refusal.code)
    if exception is not ClientError:
        response["message"] = refusal.message
    raise exception(response, operation)
