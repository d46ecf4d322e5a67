"""The local cloud as a stage: a deployment that Terraform made, seen through boto3 and the admin API."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from awsmp.adapters.dynamodb import from_wire
from awsmp.domain.ports import Metric
from sandbox.buyer import Buyer
from sandbox.fake_marketplace import Fault, Moment
from sandbox.fake_marketplace.commands import to_json
from sandbox.local_cloud import LocalCloud
from sandbox.simulation.stage import Bought, Envelope, Honoured, Item


@dataclass(frozen=True, slots=True)
class Deployment:
    """Names of what Terraform made, as the modules' outputs tell them."""

    product_code: str
    subscribers_table: str
    usage_table: str
    aggregated_usage_table: str
    event_queue_url: str
    dead_letter_queue_urls: tuple[str, ...]
    log_groups: tuple[str, ...]
    customer_profile_table: str
    #: The Region of the registration and its table.
    registration_region: str
    fulfillment_url: str


@dataclass(slots=True)
class CloudStage:
    """Implements :class:`sandbox.simulation.stage.Stage`. ``start`` is the first instant of the trace."""

    cloud: LocalCloud
    deployment: Deployment
    start: datetime
    dynamodb: Any = field(init=False)
    #: Every agreement that was made without activating its licence, by account.
    offers: dict[str, Bought] = field(init=False, default_factory=dict)
    _metrics: Counter[tuple[str, str | None]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Build the client that the seller writes with."""
        self.dynamodb = self.cloud.client("dynamodb")

    @property
    def lost_answer(self) -> tuple[Fault, str]:
        """See Stage: a closed connection, which no function has to wait for."""
        return Fault("ConnectionClosed", Moment.AFTER), "ConnectionClosedError"

    def _command(self, name: str, **arguments: Any) -> Any:
        return self.cloud.marketplace.command(name, **arguments)

    def subscribe(self, account: str, activate_at: datetime) -> Bought:
        """See Stage."""
        answer = self._command(
            "subscribe",
            product_code=self.deployment.product_code,
            acceptor_account=account,
            activate_at=activate_at.isoformat(),
        )
        return Bought(answer["license"]["arn"], answer["agreement"]["agreement_id"], tuple(answer["events"]))

    def offer(self, account: str) -> Bought:
        """See Stage."""
        made = self._command(
            "create-agreement", product_code=self.deployment.product_code, acceptor_account=account
        )
        agreement_id = made["agreement"]["agreement_id"]
        grant = self._command("create-license", agreement_id=agreement_id)
        self.offers[account] = Bought(grant["arn"], agreement_id, ())
        return self.offers[account]

    def activate(self, license_arn: str) -> Envelope:
        """See Stage."""
        return self._event("activate-license", license_arn=license_arn)

    def mint_token(self, license_arn: str) -> str:
        """Return a registration token, as AWS Marketplace gives one to the buyer's browser each time."""
        token: str = self._command("mint-token", license_arn=license_arn)["token"]
        return token

    def expire_token(self, token: str) -> None:
        """Let a registration token expire now."""
        self._command("expire-token", text=token)

    def browser(self, *, multipart: bool = False) -> Buyer:
        """Return a buyer's browser that goes to the deployment's fulfilment URL."""
        return Buyer(self.cloud.address_of(self.deployment.fulfillment_url), multipart=multipart)

    def deprovision(self, license_arn: str) -> Envelope:
        """See Stage."""
        return self._event("deprovision-license", license_arn=license_arn)

    def end_agreement(self, agreement_id: str) -> Envelope:
        """See Stage."""
        return self._event("end-agreement", agreement_id=agreement_id)

    def _event(self, name: str, **arguments: Any) -> Envelope:
        envelope: Envelope = self._command(name, **arguments)["events"][-1]
        return envelope

    def deliver(self, envelope: Envelope) -> None:
        """See Stage: onto the queue, for no account may put events of an ``aws.`` source on a bus."""
        self.cloud.client("sqs").send_message(
            QueueUrl=self.deployment.event_queue_url, MessageBody=json.dumps(envelope)
        )

    def arm(self, fault: Fault) -> None:
        """See Stage."""
        values = {name: value for name, value in to_json(asdict(fault)).items() if value is not None}
        if fault.times is None:
            values["times"] = None
        self._command("arm-fault", **values)

    def lose_cleanup(self, license_arn: str, hour: datetime) -> Callable[[], bool]:
        """Not played here: no call of a deployed function can be made to crash; ``make simulate`` does it."""
        raise NotImplementedError("a deployed function cannot be crashed between two of its calls")

    def metric(self, metric: Metric, reason: str | None = None) -> int:
        """See Stage: read from the functions' logs, where CloudWatch reads them; counted once, at the end."""
        if self._metrics is None:
            self._metrics = Counter(self._emitted())
        return self._metrics[metric, reason]

    def _emitted(self) -> Iterator[tuple[str, str | None]]:
        logs = self.cloud.client("logs")
        for group in self.deployment.log_groups:
            for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group):
                for event in page["events"]:
                    text = event["message"].strip()
                    if not text.startswith("{") or '"_aws"' not in text:
                        continue
                    line = json.loads(text)
                    for directive in line["_aws"]["CloudWatchMetrics"]:
                        for metric in directive["Metrics"]:
                            yield metric["Name"], line.get("Reason")

    def items(self, table: str, region: str | None = None) -> list[Item]:
        """Return everything in a table; ``region`` None is the cloud's own."""
        client = self.dynamodb if region is None else self.cloud.client("dynamodb", region=region)
        pages = client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        return [from_wire(item) for page in pages for item in page["Items"]]

    def profiles(self) -> list[Item]:
        """Return the rows of the customer-profile table."""
        return self.items(self.deployment.customer_profile_table, self.deployment.registration_region)

    def subscribers(self) -> list[Item]:
        """See Stage."""
        return self.items(self.deployment.subscribers_table)

    def ledger(self) -> list[Item]:
        """See Stage."""
        return self.items(self.deployment.aggregated_usage_table)

    def usage(self) -> list[Item]:
        """See Stage."""
        return self.items(self.deployment.usage_table)

    def honoured(self) -> list[Honoured]:
        """See Stage."""
        return [
            Honoured(
                each["license_arn"],
                each["customer"],
                each["dimension"],
                each["hour"],
                Decimal(str(each["quantity"])),
            )
            for each in self.cloud.marketplace.query("honoured")
        ]

    def dead_letters(self) -> int:
        """Return how many messages are in the dead-letter queues."""
        queues, count = self.cloud.client("sqs"), 0
        for url in self.deployment.dead_letter_queue_urls:
            answer = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
            count += int(answer["Attributes"]["ApproximateNumberOfMessages"])
        return count

    def requests(self) -> dict[str, int]:
        """Return how many BatchMeterUsage requests there were, refused for pace, and the most in a second."""
        entries = [
            entry
            for entry in self.cloud.marketplace.query("requests")
            if entry["operation"] == "BatchMeterUsage"
        ]
        instants = [datetime.fromisoformat(entry["at"]).timestamp() for entry in entries]
        return {
            "count": len(entries),
            "throttled": sum(entry["exception"] == "ThrottlingException" for entry in entries),
            "max_per_second": _busiest(instants),
        }


def _busiest(instants: list[float]) -> int:
    instants, first, busiest = sorted(instants), 0, 0
    for last, instant in enumerate(instants):
        while instant - instants[first] >= 1:
            first += 1
        busiest = max(busiest, last - first + 1)
    return busiest


def deployment_of(outputs: Mapping[str, Any]) -> Deployment:
    """Return the deployment that an applied example's outputs describe."""
    queues = outputs["queues"]
    return Deployment(
        product_code=outputs["product_code"],
        subscribers_table=outputs["subscribers_table"]["name"],
        usage_table=outputs["usage_table"]["name"],
        aggregated_usage_table=outputs["aggregated_usage_table"]["name"],
        event_queue_url=outputs["event_queue"]["url"],
        dead_letter_queue_urls=(
            outputs["event_dlq"]["url"],
            *(queue["url"] for key, queue in sorted(queues.items()) if key.endswith("_dlq")),
        ),
        log_groups=tuple(outputs["log_group_names"]),
        customer_profile_table=outputs["customer_profile_table"]["name"],
        registration_region=outputs["customer_profile_table"]["region"],
        fulfillment_url=outputs["fulfillment_url"],
    )
