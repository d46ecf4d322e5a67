"""Every fault by name: it strikes one AWS call, one answer of the Marketplace or one entry of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from sandbox.fake_marketplace import Code, Fault, Lost, Moment, RecordEffect
from sandbox.memory_aws import aws_error
from sandbox.simulation.world import AwsCall, Crash, SdkRetry


class Kind(StrEnum):
    """What can happen at one AWS call of a function."""

    CRASH_BEFORE = "crash-before"
    CRASH_AFTER = "crash-after"
    LOST_ANSWER = "lost-answer"
    NO_CONNECTION = "no-connection"
    THROTTLED = "throttled"
    INTERNAL_ERROR = "internal-error"
    INTERNAL_ERROR_AFTER_EFFECT = "internal-error-after-effect"
    ACCESS_DENIED = "access-denied"
    SDK_RETRY = "sdk-retry"
    INTERRUPTED = "interrupted"


_AFTER: Final = frozenset(
    {Kind.CRASH_AFTER, Kind.LOST_ANSWER, Kind.INTERNAL_ERROR_AFTER_EFFECT, Kind.SDK_RETRY}
)

#: What the Marketplace can do to a request, by name.
MARKETPLACE_FAULTS: Final = {
    "marketplace-throttles": Fault(Code.THROTTLING, times=2),
    "marketplace-throttles-for-long": Fault(Code.THROTTLING, times=7),
    "marketplace-internal-error": Fault(Code.INTERNAL_SERVICE_ERROR),
    "marketplace-internal-error-after-effect": Fault(Code.INTERNAL_SERVICE_ERROR, Moment.AFTER),
    "marketplace-answer-lost": Fault(Lost.READ_TIMEOUT, Moment.AFTER),
    "marketplace-connection-closed": Fault(Lost.CONNECTION_CLOSED),
    "marketplace-down": Fault(Lost.CONNECTION_CLOSED, times=9),
    "marketplace-disabled": Fault(Code.DISABLED_API),
    "unprocessed-once": Fault(effect=RecordEffect.UNPROCESSED, share=0.5),
    "unprocessed-twice": Fault(effect=RecordEffect.UNPROCESSED, times=2),
    "omitted": Fault(effect=RecordEffect.OMITTED, share=0.5),
    "unknown-status": Fault(effect=RecordEffect.UNKNOWN_STATUS, share=0.5),
}

_CODES: Final = {
    ("dynamodb", Kind.THROTTLED): "ProvisionedThroughputExceededException",
    ("dynamodb", Kind.INTERNAL_ERROR): "InternalServerError",
    ("sqs", Kind.THROTTLED): "ThrottlingException",
    ("sqs", Kind.INTERNAL_ERROR): "InternalFailure",
    ("marketplace", Kind.THROTTLED): "ThrottlingException",
    ("marketplace", Kind.INTERNAL_ERROR): "InternalServiceErrorException",
}


@dataclass(slots=True)
class Planned:
    """One fault: strikes the call after ``skip`` others of ``function`` (any function where it is empty)."""

    kind: Kind
    function: str
    skip: int
    action: Callable[[], None] | None = None


@dataclass(slots=True)
class FaultPlan:
    """The faults that are still to come, and how often each kind has struck."""

    struck: Callable[[str], None]
    planned: list[Planned] = field(default_factory=list)
    entries: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def concerns(self, function: str) -> bool:
        """Tell whether a fault is planned that may strike a call of ``function``, now or later."""
        return bool(self.planned) and any(fault.function in {"", function} for fault in self.planned)

    def arm(self, fault: Planned) -> None:
        """Plan a fault."""
        self.planned.append(fault)

    def clear(self) -> None:
        """Plan nothing any more; hits stay."""
        self.planned.clear()
        self.entries.clear()

    def __call__(self, call: AwsCall) -> None:
        """See World.fault_plan."""
        for fault in list(self.planned):
            if call.after is not (fault.kind in _AFTER) or fault.function not in ("", call.function):
                continue
            if fault.kind is Kind.SDK_RETRY and call.service == "marketplace":
                continue  # retries of the SDK's own are off for this call
            if fault.skip > 0:
                fault.skip -= 1
                continue
            self.planned.remove(fault)
            self._hit(fault.kind, call)
            self._strike(fault, call)
            return

    def _hit(self, name: str, call: AwsCall) -> None:
        self.hits[name] += 1
        self.hits[f"{name} in {call.function}"] += 1
        self.struck(name)

    def _strike(self, fault: Planned, call: AwsCall) -> None:
        if fault.action is not None:
            fault.action()
            return
        raise error_of(fault.kind, call)

    def entry(self, operation: str, _position: int) -> str | None:
        """See World.entry_faults: leave the next entries of a batch undone."""
        if self.entries[operation] <= 0:
            return None
        self.entries[operation] -= 1
        self.hits["batch-entry-failed"] += 1
        self.hits[f"batch-entry-failed in {operation}"] += 1
        self.struck("batch-entry-failed")
        return "ThrottlingError"


def error_of(kind: Kind, call: AwsCall) -> BaseException:
    """Return what the caller of ``call`` gets to see."""
    error: BaseException = _error_of(kind, call)
    return error


def _error_of(kind: Kind, call: AwsCall) -> Any:
    match kind:
        case Kind.CRASH_BEFORE | Kind.CRASH_AFTER:
            return Crash()
        case Kind.LOST_ANSWER:
            return ReadTimeoutError(endpoint_url=f"https://{call.service}.example")
        case Kind.NO_CONNECTION:
            return EndpointConnectionError(endpoint_url=f"https://{call.service}.example")
        case Kind.SDK_RETRY:
            return SdkRetry()
        case Kind.ACCESS_DENIED:
            code = "AccessDeniedException"
        case Kind.INTERNAL_ERROR_AFTER_EFFECT:
            code = _CODES[call.service, Kind.INTERNAL_ERROR]
        case _:
            code = _CODES[call.service, kind]
    service = "meteringmarketplace" if call.service == "marketplace" else call.service
    return aws_error(service, call.operation, code, f"injected: {kind}")
