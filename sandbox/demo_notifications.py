"""The demonstration's mail: who is told what, from the outbox of the emulator's SES and the tier's table.

Buyers get a verification mail when they register, and most of them click its link. While the recorded usage
is played, the rules that send are paused: a run every simulated minute of 20 hours would be a minute of the
machine's time, for nothing. What has been queued by then is sent at the end, once, as after an outage.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from awsmp.domain.identifiers import mask
from awsmp.domain.notifications.kinds import Kind, ServiceKind
from awsmp.domain.notifications.outbox import Reason
from awsmp.domain.notifications.store import Queue
from sandbox.cloud_stage import CloudStage
from sandbox.demo_registrations import form_of
from sandbox.mailbox import Mailbox, billing_event
from sandbox.simulation.seller import Buyer
from sandbox.simulation.stage import Item

#: Of so many buyers one does not click the link.
ONE_IN: Final = 10
#: The sender looks every minute and sends what it can within its time-out.
MOST_MINUTES: Final = 15

_MINUTE: Final = timedelta(minutes=1)
_AT_A_TIME: Final = 4
#: Queues of entries that a run will take up by itself; on a slow machine a run may not get through.
_WORK: Final = frozenset({Queue.PENDING, Queue.PROCESSING, Queue.RETRYABLE})
_PAUSED: Final = ("notification-sender", "notification-maintenance")

#: Kind of mail by address.
Told = Counter[tuple[str, str]]


@dataclass(slots=True)
class Notifications:
    """Plays the buyers, the seller's billing and the bounce, and tells what came of it.

    ``buyers`` are all who registered, those of them who do not click among them.
    """

    stage: CloudStage
    mailbox: Mailbox
    buyers: list[Buyer] = field(default_factory=list)
    #: Who has clicked, by licence.
    verified: dict[str, Buyer] = field(default_factory=dict)
    #: Addresses that must have been told something that follows from no licence's state.
    planted: Told = field(default_factory=Counter)
    bounced: Buyer | None = None
    #: Clicks that were not answered as they should be.
    refused: int = 0

    def welcome(self, buyers: Iterable[Buyer]) -> None:
        """Wait for the verification mails, click, wait for what follows, and let one mail bounce.

        What the tier is to say while nothing is sent is queued here as well: a failed payment to the buyer
        who bounced and to another one, and an approved request to cancel.
        """
        self.buyers = sorted(buyers, key=lambda buyer: buyer.customer)
        self._send_everything()
        clicking = [buyer for place, buyer in enumerate(self.buyers) if place % ONE_IN != ONE_IN - 1]
        links = {
            mail.recipient: mail.link
            for mail in self.mailbox.mails()
            if mail.kind == ServiceKind.ADDRESS_VERIFICATION
        }
        with ThreadPoolExecutor(_AT_A_TIME) as browsers:
            statuses = list(browsers.map(lambda buyer: self._click(links.get(_address(buyer))), clicking))
        self.refused = sum(status != HTTPStatus.OK for status in statuses)
        self.verified = {buyer.license_arn: buyer for buyer in clicking}
        self._send_everything()
        self._plant(clicking)

    def _click(self, link: str | None) -> int:
        return 0 if link is None else self.mailbox.press_button(link).status

    def _plant(self, clicking: list[Buyer]) -> None:
        cloud = self.stage.cloud
        started = {mail.recipient: mail for mail in self.mailbox.mails() if mail.kind in set(Kind)}
        told = [buyer for buyer in clicking if _address(buyer) in started]
        self.bounced, paying, leaving = told[:3]
        self.mailbox.bounce(started[_address(self.bounced)], cloud.now())
        cloud.settle()
        for number, buyer in enumerate((self.bounced, paying)):
            event = billing_event(buyer, cloud.now(), f"demo-{number}", status=("active", "past_due"))
            self.mailbox.queue_billing_event(event)
        self.planted[_address(paying), Kind.PAYMENT_FAILED.value] += 1
        command = cloud.marketplace.command
        requested = command("request-cancellation", agreement_id=leaving.agreement_id, status="APPROVED")
        self.stage.deliver(requested["events"][-1])
        self.planted[_address(leaving), Kind.CANCELLATION_SCHEDULED.value] += 1

    # --- The rules that send --------------------------------------------------------------------------------

    def pause(self) -> None:
        """Take the sender and the maintenance off their schedules."""
        events = self.stage.cloud.client("events", region=self.mailbox.region)
        for name in self._rules():
            events.disable_rule(Name=name)

    def resume(self) -> None:
        """Put them back, and let them send what has been queued meanwhile."""
        events = self.stage.cloud.client("events", region=self.mailbox.region)
        for name in self._rules():
            events.enable_rule(Name=name)
        self._send_everything()

    def _rules(self) -> list[str]:
        events = self.stage.cloud.client("events", region=self.mailbox.region)
        names = [rule["Name"] for rule in events.list_rules()["Rules"]]
        found = [name for name in names if name.endswith(_PAUSED)]
        assert len(found) == len(_PAUSED), names
        return found

    def _send_everything(self) -> None:
        """Let minutes pass until all that is expected was sent; what still is not is a problem at the end."""
        for _ in range(MOST_MINUTES):
            self.stage.cloud.advance(_MINUTE)
            waiting = any(item.get("workQueue") in _WORK for item in self._entries())
            if not waiting and not self.expected() - self.mailbox.told():
                return

    # --- What came of it ------------------------------------------------------------------------------------

    def _items(self) -> list[Item]:
        return self.stage.items(self.mailbox.outputs["table"]["name"], self.mailbox.region)

    def _entries(self) -> list[Item]:
        return [item for item in self._items() if item["sk"] == "entry"]

    def expected(self) -> Told:
        """Return what everybody must have been told, from what was played and the subscribers' states."""
        told = Counter((_address(buyer), ServiceKind.ADDRESS_VERIFICATION.value) for buyer in self.buyers)
        statuses = {str(row["licenseArn"]): row.get("subscriptionStatus") for row in self.stage.subscribers()}
        for license_arn, buyer in self.verified.items():
            status = statuses.get(license_arn)
            if status is None:
                continue  # its licence is still to be activated
            told[_address(buyer), Kind.SUBSCRIPTION_STARTED.value] += 1
            if status != "active":
                told[_address(buyer), Kind.SUBSCRIPTION_CANCELED.value] += 1
        return told + self.planted

    def problems(self) -> list[str]:
        """Return every mail that is missing or too many, and what else went wrong; empty after a good run."""
        told, expected = self.mailbox.told(), self.expected()
        found = [_difference("missing", key, count) for key, count in sorted((expected - told).items())]
        found += [_difference("too many", key, count) for key, count in sorted((told - expected).items())]
        kinds = {kind for _, kind in told}
        found += [
            f"nobody was told {kind.value}"
            for kind in (Kind.SUBSCRIPTION_CANCELED, Kind.CANCELLATION_SCHEDULED, Kind.PAYMENT_FAILED)
            if kind.value not in kinds
        ]
        if self.refused:
            found.append(f"{self.refused} verification links were missing or refused")
        skipped = self.to_json()["kinds"].get(Kind.PAYMENT_FAILED.value, {}).get("skipped")
        if skipped != {Reason.RECIPIENT_SUPPRESSED.value: 1}:
            found.append(f"the suppressed buyer was not skipped once: {skipped}")
        waiting = [item for item in self._entries() if item.get("workQueue") in _WORK | {Queue.FAILED}]
        found += [f"{len(waiting)} notices were not sent or have failed"] * bool(waiting)
        return found + self._dead_letters()

    def _dead_letters(self) -> list[str]:
        queues, found = self.stage.cloud.client("sqs", region=self.mailbox.region), []
        for url in queues.list_queues(QueueNamePrefix="awsmp-notification")["QueueUrls"]:
            name, wanted = url.rpartition("/")[2], ["ApproximateNumberOfMessages"]
            attributes = queues.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
            if waiting := int(attributes[wanted[0]]):
                found.append(f"{waiting} messages in {name}")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return who was told what, in masked ids, and why somebody was not."""
        items = self._items()
        kinds = {str(item["pk"]): _kind(item) for item in items if item["sk"] == "entry"}
        sent: Counter[str] = Counter()
        skipped: dict[str, Counter[str]] = defaultdict(Counter)
        by_recipient: dict[str, list[str]] = defaultdict(list)
        for item in items:
            if str(item["sk"]).startswith("delivery#") and str(item["pk"]) in kinds:
                kind = kinds[str(item["pk"])]
                if item["status"] == "sent":
                    sent[kind] += 1
                    by_recipient[str(item["recipientId"])].append(kind)
                elif item["status"] == "skipped":
                    skipped[kind][str(item["code"])] += 1
            elif item["sk"] == "entry" and item["status"] == "skipped":
                skipped[kinds[str(item["pk"])]][str(item["reason"])] += 1
        suppressed = [item for item in items if str(item["sk"]).startswith("suppression#")]
        return {
            "mails": len(self.mailbox.mails()),
            "verified": len(self.verified),
            "unverified": len(self.buyers) - len(self.verified),
            "kinds": {
                kind: {"sent": sent[kind], "skipped": dict(sorted(skipped[kind].items()))}
                for kind in sorted({*sent, *skipped})
            },
            "suppressed": [
                {"recipient": _masked(str(item["recipientId"])), "kind": item["kind"]} for item in suppressed
            ],
            "told": [
                {"recipient": _masked(recipient), "kinds": sorted(told)}
                for recipient, told in sorted(by_recipient.items())
            ],
        }


def line_of(notifications: Mapping[str, Any]) -> str:
    """Return a report's mail as one line."""
    skips: Counter[str] = Counter()
    for line in notifications["kinds"].values():
        skips.update(line["skipped"])
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(skips.items())) or "none"
    return (
        f"{notifications['mails']} mails; {notifications['verified']} buyers have verified their address and "
        f"{notifications['unverified']} have not; skipped: {reasons}; "
        f"{len(notifications['suppressed'])} suppressed"
    )


def rows_of(notifications: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    """Return a report's kinds of mail as rows: kind, how many were sent, how many skipped and why."""
    return [
        (kind, line["sent"], ", ".join(f"{count} {why}" for why, count in line["skipped"].items()))
        for kind, line in notifications["kinds"].items()
    ]


def _address(buyer: Buyer) -> str:
    return form_of(buyer)["email"]


def _masked(recipient: str) -> str:
    account, _, contact = recipient.partition(":")
    return f"{mask(account)}:{contact}"


def _difference(what: str, key: tuple[str, str], count: int) -> str:
    address, kind = key
    return f"{what}: {count} mail {kind} to the buyer {mask(address.partition('@')[0])}"


def _kind(entry: Item) -> str:
    payload = json.loads(str(entry["payload"]))
    return str(payload.get("kind", ServiceKind.ADDRESS_VERIFICATION.value))
