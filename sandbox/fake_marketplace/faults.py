"""Faults: scripted ones in the order in which they were armed, then seeded ones by probability."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sandbox.fake_marketplace.errors import Code

BATCH_METER_USAGE = "BatchMeterUsage"
RESOLVE_CUSTOMER = "ResolveCustomer"


class Moment(StrEnum):
    """Whether the request takes effect before its answer is replaced."""

    BEFORE = "before"
    AFTER = "after"


class Lost(StrEnum):
    """Answers that never arrive; usable wherever an exception's name is."""

    CONNECTION_CLOSED = "ConnectionClosed"
    READ_TIMEOUT = "ReadTimeout"


LOST = frozenset(lost.value for lost in Lost)
_ANSWERS = LOST | {code.value for code in Code}


class RecordEffect(StrEnum):
    """What happens to the chosen records of a request that is answered."""

    #: Not processed, returned under ``UnprocessedRecords``.
    UNPROCESSED = "unprocessed"
    #: Processed, but in neither list of the answer.
    OMITTED = "omitted"
    #: Processed, and answered with a status that no SDK knows.
    UNKNOWN_STATUS = "unknown-status"


#: The status of :attr:`RecordEffect.UNKNOWN_STATUS`.
UNKNOWN_STATUS = "AcceptedWithRemarks"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, applied to the requests that it matches.

    ``answer`` is an exception's name or a :class:`Lost`; ``None`` leaves the answer as it is. ``moment``
    tells whether the request took effect first. ``skip`` requests pass before it strikes ``times`` times
    (``None``: without limit) and never from ``until`` on. ``effect`` strikes the records at ``positions``, or
    each with the chance ``share``, or all. ``latency_seconds`` is added to the answer.
    """

    answer: str | None = None
    moment: Moment = Moment.BEFORE
    operation: str | None = BATCH_METER_USAGE
    region: str | None = None
    account: str | None = None
    skip: int = 0
    times: int | None = 1
    until: datetime | None = None
    effect: RecordEffect | None = None
    positions: tuple[int, ...] | None = None
    share: float | None = None
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.answer is not None and self.answer not in _ANSWERS:
            raise ValueError(f"a fault cannot answer {self.answer!r}")
        if self.answer is None and self.effect is None and self.latency_seconds <= 0:
            raise ValueError("a fault needs an answer, an effect on records or a latency")
        if self.answer is not None and self.effect is not None:
            raise ValueError("a fault replaces the answer or changes records in it, not both")
        if self.until is not None and self.until.tzinfo is None:
            raise ValueError("until must be aware")

    @property
    def kind(self) -> str:
        """A name to count hits by, such as ``before:ThrottlingException`` or ``records:omitted``."""
        if self.answer is not None:
            return f"{self.moment.value}:{self.answer}"
        return f"records:{self.effect.value}" if self.effect is not None else "latency"

    def matches(self, operation: str, region: str, account: str) -> bool:
        """Tell whether the fault is meant for this caller and operation."""
        return (
            self.operation in (None, operation)
            and self.region in (None, region)
            and self.account in (None, account)
        )


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Chances (0..1) of seeded faults, each drawn per request; latency is uniform up to a maximum."""

    internal_error_before: float = 0.0
    internal_error_after: float = 0.0
    throttled: float = 0.0
    connection_closed_before: float = 0.0
    connection_closed_after: float = 0.0
    read_timeout_after: float = 0.0
    unprocessed: float = 0.0
    omitted: float = 0.0
    #: Chance of each record of a request that ``unprocessed`` or ``omitted`` struck.
    record_share: float = 0.5
    latency_seconds: float = 0.0

    def faults(self) -> tuple[tuple[float, Fault], ...]:
        """Return (chance, fault) for every kind with a chance."""
        table = (
            (self.internal_error_before, Fault(Code.INTERNAL_SERVICE_ERROR)),
            (self.internal_error_after, Fault(Code.INTERNAL_SERVICE_ERROR, Moment.AFTER)),
            (self.throttled, Fault(Code.THROTTLING)),
            (self.connection_closed_before, Fault(Lost.CONNECTION_CLOSED)),
            (self.connection_closed_after, Fault(Lost.CONNECTION_CLOSED, Moment.AFTER)),
            (self.read_timeout_after, Fault(Lost.READ_TIMEOUT, Moment.AFTER)),
            (self.unprocessed, Fault(effect=RecordEffect.UNPROCESSED, share=self.record_share)),
            (self.omitted, Fault(effect=RecordEffect.OMITTED, share=self.record_share)),
        )
        return tuple((chance, fault) for chance, fault in table if chance > 0)


@dataclass(slots=True)
class _Armed:
    fault: Fault
    passed: int = 0
    struck: int = 0


@dataclass(slots=True)
class Strike:
    """What strikes one request; ``fault`` is ``None`` when only seeded latency does."""

    fault: Fault | None
    latency_seconds: float
    records: Mapping[int, RecordEffect] = field(default_factory=dict)


class FaultPlan:
    """Decides per request which fault strikes; equal seeds and requests give equal decisions."""

    def __init__(self, seed: int) -> None:
        """Start without faults."""
        self._random = random.Random(seed)
        self._armed: list[_Armed] = []
        self._rates = FaultRates()
        self._seeded: tuple[tuple[float, Fault], ...] = ()
        #: How often each kind of fault struck, by :attr:`Fault.kind`.
        self.hits: Counter[str] = Counter()

    def arm(self, fault: Fault) -> None:
        """Add a scripted fault behind those already armed."""
        self._armed.append(_Armed(fault))

    def set_rates(self, rates: FaultRates) -> None:
        """Replace the chances of seeded faults."""
        self._rates = rates
        self._seeded = rates.faults()

    def clear(self) -> None:
        """Disarm everything; hits stay."""
        self._armed.clear()
        self.set_rates(FaultRates())

    def pending(self) -> list[Fault]:
        """Return the scripted faults that can still strike."""
        return [armed.fault for armed in self._armed]

    def strike(self, operation: str, region: str, account: str, now: datetime, records: int) -> Strike | None:
        """Return what strikes this request, or ``None``."""
        fault = self._scripted(operation, region, account, now) if self._armed else None
        if fault is None and self._seeded and operation == BATCH_METER_USAGE:
            fault = self._drawn()
        latency = fault.latency_seconds if fault is not None else 0.0
        if self._rates.latency_seconds > 0 and operation == BATCH_METER_USAGE:
            latency += self._random.uniform(0.0, self._rates.latency_seconds)
        if fault is None:
            return Strike(None, latency) if latency > 0 else None
        self.hits[fault.kind] += 1
        return Strike(fault, latency, self._struck_records(fault, records))

    def _scripted(self, operation: str, region: str, account: str, now: datetime) -> Fault | None:
        self._armed = [a for a in self._armed if a.fault.until is None or now < a.fault.until]
        for armed in self._armed:
            fault = armed.fault
            if not fault.matches(operation, region, account):
                continue
            if armed.passed < fault.skip:
                armed.passed += 1
                continue
            armed.struck += 1
            if fault.times is not None and armed.struck >= fault.times:
                self._armed.remove(armed)
            return fault
        return None

    def _drawn(self) -> Fault | None:
        for chance, fault in self._seeded:
            if self._random.random() < chance:
                return fault
        return None

    def _struck_records(self, fault: Fault, records: int) -> Mapping[int, RecordEffect]:
        if fault.effect is None:
            return {}
        if fault.positions is not None:
            return dict.fromkeys(fault.positions, fault.effect)
        if fault.share is not None:
            return {i: fault.effect for i in range(records) if self._random.random() < fault.share}
        return dict.fromkeys(range(records), fault.effect)
