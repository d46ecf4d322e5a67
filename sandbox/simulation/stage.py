"""Where the trace is played: what the planted trouble needs of it, and the in-process one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from awsmp.adapters.dynamodb import from_wire
from awsmp.domain.hours import bucket_of
from awsmp.domain.ports import Metric
from sandbox.fake_marketplace import Fault, Moment
from sandbox.simulation.world import LEDGER, PRODUCT_CODE, SUBSCRIBERS, USAGE, Trap, World

Envelope = Mapping[str, Any]
Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bought:
    """A purchase: its licence, its agreement and the events that it sent, in order."""

    license_arn: str
    agreement_id: str
    events: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class Honoured:
    """What the Marketplace bills; ``hour`` counts hours since the epoch."""

    license_arn: str
    customer: str
    dimension: str
    hour: int
    quantity: Decimal


class Stage(Protocol):
    """A deployment with its Marketplace, seen from outside."""

    @property
    def start(self) -> datetime:
        """The first instant of the trace."""
        ...

    @property
    def lost_answer(self) -> tuple[Fault, str]:
        """A fault that loses one answer after its effect, and the name under which it is counted."""
        ...

    def subscribe(self, account: str, activate_at: datetime) -> Bought:
        """Buy the product for an account."""
        ...

    def offer(self, account: str) -> Bought:
        """Make an agreement whose licence is not active yet; no events."""
        ...

    def activate(self, license_arn: str) -> Envelope:
        """Activate a licence now and return its event."""
        ...

    def deprovision(self, license_arn: str) -> Envelope:
        """Revoke a licence now and return its event."""
        ...

    def end_agreement(self, agreement_id: str) -> Envelope:
        """End an agreement now and return its event."""
        ...

    def deliver(self, envelope: Envelope) -> None:
        """Bring a lifecycle event to the deployment."""
        ...

    def arm(self, fault: Fault) -> None:
        """Have the Marketplace misbehave."""
        ...

    def lose_cleanup(self, license_arn: str, hour: datetime) -> Callable[[], bool]:
        """Lose the next cleanup of this licence and hour.

        The result, called once some minutes after the hour was folded, puts things right again and tells
        whether a cleanup was lost.
        """
        ...

    def metric(self, metric: Metric, reason: str | None = None) -> int:
        """Return how often a metric was emitted."""
        ...

    def subscribers(self) -> list[Item]:
        """Return the rows of the subscribers table."""
        ...

    def ledger(self) -> list[Item]:
        """Return the items of the aggregated-usage table."""
        ...

    def usage(self) -> list[Item]:
        """Return the rows of the usage table."""
        ...

    def honoured(self) -> list[Honoured]:
        """Return everything that the Marketplace bills."""
        ...


@dataclass(frozen=True, slots=True)
class WorldStage:
    """The in-process deployment as a stage."""

    world: World

    @property
    def start(self) -> datetime:
        """See Stage."""
        return self.world.start

    @property
    def lost_answer(self) -> tuple[Fault, str]:
        """See Stage."""
        return Fault("ReadTimeout", Moment.AFTER), "ReadTimeoutError"

    def subscribe(self, account: str, activate_at: datetime) -> Bought:
        """See Stage."""
        bought = self.world.marketplace.subscribe(PRODUCT_CODE, account, activate_at=activate_at)
        return Bought(bought.license.arn, bought.agreement.agreement_id, bought.events)

    def offer(self, account: str) -> Bought:
        """See Stage."""
        agreement, _ = self.world.marketplace.create_agreement(PRODUCT_CODE, account)
        grant = self.world.marketplace.create_license(agreement.agreement_id)
        return Bought(grant.arn, agreement.agreement_id, ())

    def activate(self, license_arn: str) -> Envelope:
        """See Stage."""
        return self.world.marketplace.activate_license(license_arn)[1]

    def deprovision(self, license_arn: str) -> Envelope:
        """See Stage."""
        return self.world.marketplace.deprovision_license(license_arn)

    def end_agreement(self, agreement_id: str) -> Envelope:
        """See Stage."""
        return self.world.marketplace.end_agreement(agreement_id)

    def deliver(self, envelope: Envelope) -> None:
        """See Stage."""
        self.world.deliver(envelope)

    def arm(self, fault: Fault) -> None:
        """See Stage."""
        self.world.marketplace.arm(fault)

    def lose_cleanup(self, license_arn: str, hour: datetime) -> Callable[[], bool]:
        """See Stage: the aggregator crashes between its ledger write and its cleanup message."""
        needle = f'"hour":"{bucket_of(hour)}"'

        def is_it(function: str, service: str, operation: str, request: Mapping[str, Any]) -> bool:
            if (function, service, operation) != ("aggregator", "sqs", "SendMessageBatch"):
                return False
            bodies = json.dumps([entry["MessageBody"] for entry in request["Entries"]]).replace("\\", "")
            return license_arn in bodies and needle in bodies

        trap = Trap(is_it, after=False)
        self.world.traps.append(trap)
        return lambda: trap.sprung

    def metric(self, metric: Metric, reason: str | None = None) -> int:
        """See Stage."""
        return self.world.recorder.metrics[metric, reason]

    def subscribers(self) -> list[Item]:
        """See Stage."""
        return [from_wire(item) for item in self.world.us_east_1.items(SUBSCRIBERS)]

    def ledger(self) -> list[Item]:
        """See Stage."""
        return [from_wire(item) for item in self.world.dynamodb.items(LEDGER)]

    def usage(self) -> list[Item]:
        """See Stage."""
        return [from_wire(item) for item in self.world.dynamodb.items(USAGE)]

    def honoured(self) -> list[Honoured]:
        """See Stage."""
        return [
            Honoured(str(each.license_arn), each.customer, each.dimension, each.hour, Decimal(each.quantity))
            for each in self.world.marketplace.honoured()
        ]
