"""What the in-memory clients share: hooks, metering, real botocore errors and parameter checks."""

from __future__ import annotations

import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import botocore.errorfactory
import botocore.loaders
import botocore.model
import botocore.paginate
import botocore.validate
from botocore.exceptions import ClientError, ParamValidationError

from .rejection import Rejection

BeforeCall = Callable[[str, str, Mapping[str, Any]], None]
AfterCall = Callable[[str, str, Mapping[str, Any], dict[str, Any]], None]
EntryFault = Callable[[str, int], str | None]

_HTTP_STATUS = {"InternalServerError": 500, "InternalFailure": 500, "ServiceUnavailable": 503}


@functools.cache
def service_model(service: str) -> botocore.model.ServiceModel:
    """Return botocore's own model of ``service`` ("dynamodb", "sqs")."""
    description = botocore.loaders.Loader().load_service_model(service, "service-2")
    return botocore.model.ServiceModel(description, service)


@functools.cache
def exceptions_of(service: str) -> Any:
    """Return the exception classes that a boto3 client of ``service`` raises."""
    factory = botocore.errorfactory.ClientExceptionsFactory()
    return factory.create_client_exceptions(service_model(service))


@functools.cache
def _required_members(service: str, operation: str) -> frozenset[str]:
    return frozenset(service_model(service).operation_model(operation).input_shape.required_members)


#: Operations with parameters whose names need no closer look: all required ones are there, no unknown one is.
_PLAIN: set[tuple[str, ...]] = set()


@dataclass(slots=True)
class Meter:
    """The cost of work, in requests, items and bytes.

    ``requests`` is keyed by operation; the others by table name, or by ``table/index`` for an index.
    ``items_evaluated`` counts what a read looked at before filtering (what AWS bills), ``items_returned``
    what came back; bytes follow DynamoDB's item sizes, unrounded.
    """

    requests: Counter[str] = field(default_factory=Counter)
    items_evaluated: Counter[str] = field(default_factory=Counter)
    items_returned: Counter[str] = field(default_factory=Counter)
    bytes_read: Counter[str] = field(default_factory=Counter)
    bytes_written: Counter[str] = field(default_factory=Counter)

    def reset(self) -> None:
        """Set every counter to zero."""
        for counter in (
            self.requests,
            self.items_evaluated,
            self.items_returned,
            self.bytes_read,
            self.bytes_written,
        ):
            counter.clear()


class MemoryClient:
    """Base of the in-memory clients.

    ``before_call`` runs before an operation has any effect and ``after_call`` once its effect is durable but
    before the caller learns of it. Whatever they raise reaches the caller: an error from ``before_call``
    means that nothing happened, one from ``after_call`` is a lost response. ``after_call`` may also change
    the response in place, so that an entry of a batch took effect and is reported as failed.

    ``entry_fault`` is asked for every entry of a batch, ``(operation, position) -> error code or None``: an
    entry with a code is left unprocessed (BatchGetItem, BatchWriteItem) or answered with that code
    (BatchExecuteStatement, SQS batches), without effect.
    """

    service = ""
    supported: ClassVar[Mapping[str, frozenset[str]]] = {}

    def __init__(
        self,
        lock: threading.RLock,
        *,
        before_call: BeforeCall | None = None,
        after_call: AfterCall | None = None,
        entry_fault: EntryFault | None = None,
        meter: Meter | None = None,
        strict_parameters: bool = False,
    ) -> None:
        """Create a client; ``strict_parameters`` runs botocore's full, slow request validation each call.

        Operations hold ``lock``; the hooks run outside it.
        """
        self._lock = lock
        self.before_call = before_call
        self.after_call = after_call
        self.entry_fault = entry_fault
        self.meter = meter if meter is not None else Meter()
        self.strict_parameters = strict_parameters
        self._request_numbers = itertools.count(1)

    @property
    def exceptions(self) -> Any:
        """The modeled exception classes, as on a boto3 client."""
        return exceptions_of(self.service)

    def get_paginator(self, operation_name: str) -> Any:
        """Return botocore's paginator over the method ``operation_name``, as on a boto3 client."""
        description = botocore.loaders.Loader().load_service_model(self.service, "paginators-1")
        api_name = "".join(word.capitalize() for word in operation_name.split("_"))
        return botocore.paginate.Paginator(
            getattr(self, operation_name),
            description["pagination"][api_name],
            service_model(self.service).operation_model(api_name),
        )

    def _call(
        self, operation: str, kwargs: dict[str, Any], handler: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        if self.before_call is not None:
            self.before_call(self.service, operation, kwargs)
        if self.strict_parameters or (self.service, operation, *kwargs) not in _PLAIN:
            self._check_parameters(operation, kwargs)
        self.meter.requests[operation] += 1
        try:
            with self._lock:
                response = handler(kwargs)
        except Rejection as refused:
            raise aws_error(
                self.service, operation, refused.code, refused.message, refused.extra
            ) from refused
        self._answered(response)
        if self.after_call is not None:
            self.after_call(self.service, operation, kwargs, response)
        return response

    def _answered(self, response: dict[str, Any]) -> dict[str, Any]:
        response["ResponseMetadata"] = {
            "RequestId": str(next(self._request_numbers)).zfill(32),
            "HTTPStatusCode": 200,
            "HTTPHeaders": {},
            "RetryAttempts": 0,
        }
        return response

    def _check_parameters(self, operation: str, kwargs: dict[str, Any]) -> None:
        supported = self.supported[operation]
        if _required_members(self.service, operation) <= kwargs.keys() <= supported:
            _PLAIN.add((self.service, operation, *kwargs))
            if not self.strict_parameters:
                return
        self._validate(operation, kwargs)
        if kwargs.keys() - supported:
            raise NotImplementedError(
                f"{operation} with {sorted(kwargs.keys() - supported)} is not simulated"
            )

    def _validate(self, operation: str, kwargs: dict[str, Any]) -> None:
        shape = service_model(self.service).operation_model(operation).input_shape
        report = botocore.validate.ParamValidator().validate(kwargs, shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())

    def _fault(self, operation: str, position: int) -> str | None:
        return self.entry_fault(operation, position) if self.entry_fault is not None else None


def aws_error(
    service: str, operation: str, code: str, message: str, extra: Mapping[str, Any] | None = None
) -> ClientError:
    """Build the exception that boto3 would raise for an error answer of ``service``."""
    members = dict(extra or {})
    # SQS names its exceptions twice: boto3 shows the older code and picks the class by the newer one.
    query_code = members.pop("QueryErrorCode", None)
    named = {"QueryErrorCode": query_code} if query_code else {}
    response: dict[str, Any] = {
        "Error": {"Code": code, "Message": message, **named},
        "ResponseMetadata": {
            "RequestId": "0" * 32,
            "HTTPStatusCode": _HTTP_STATUS.get(code, 400),
            "HTTPHeaders": {},
            "RetryAttempts": 0,
        },
        **members,
    }
    error: ClientError = exceptions_of(service).from_code(query_code or code)(response, operation)
    return error


def raise_aws_error(service: str, operation: str, code: str, message: str) -> NoReturn:
    """Raise :func:`aws_error`; for fault injection from a hook."""
    raise aws_error(service, operation, code, message)
