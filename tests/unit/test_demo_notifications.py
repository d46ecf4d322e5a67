"""The demonstration's mail: what it reports, and that it notices a mail that is missing or too many."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from awsmp.domain.notifications.store import Queue
from sandbox.cloud_stage import CloudStage
from sandbox.demo_notifications import Notifications, line_of, rows_of
from sandbox.demo_registrations import form_of
from sandbox.mailbox import Mailbox
from sandbox.simulation.seller import Buyer

STARTED = Buyer("1", "license-1", "111122223333", "agreement-1")
ENDED = Buyer("2", "license-2", "444455556666", "agreement-2")
UNVERIFIED = Buyer("3", "license-3", "777788889999", "agreement-3")


def address(buyer: Buyer) -> str:
    return form_of(buyer)["email"]


def entry(name: str, kind: str, **members: Any) -> dict[str, Any]:
    payload = json.dumps({"kind": kind})
    return {"pk": f"entry#{name}", "sk": "entry", "payload": payload, "status": "processed", **members}


def delivery(name: str, account: str, **members: Any) -> dict[str, Any]:
    known = {"recipientId": f"{account}:owner", "status": "sent"}
    return {"pk": f"entry#{name}", "sk": "delivery#1", **known, **members}


@dataclass
class World:
    """A deployment after a good run, of which single things can be changed."""

    told: Counter[tuple[str, str]] = field(
        default_factory=lambda: Counter(
            {
                (address(STARTED), "address_verification"): 1,
                (address(ENDED), "address_verification"): 1,
                (address(UNVERIFIED), "address_verification"): 1,
                (address(STARTED), "subscription_started"): 1,
                (address(ENDED), "subscription_started"): 1,
                (address(ENDED), "subscription_canceled"): 1,
                (address(STARTED), "payment_failed"): 1,
                (address(STARTED), "cancellation_scheduled"): 1,
            }
        )
    )
    items: list[dict[str, Any]] = field(
        default_factory=lambda: [
            entry("a", "payment_failed"),
            delivery("a", STARTED.account),
            entry("b", "payment_failed"),
            delivery("b", ENDED.account, status="skipped", code="notification_recipient_suppressed"),
            entry("c", "subscription_started", status="skipped", reason="notification_no_recipient"),
            {
                "pk": f"recipient#{ENDED.account}:owner",
                "sk": "suppression#digest",
                "recipientId": f"{ENDED.account}:owner",
                "kind": "hard_bounce",
            },
        ]
    )
    dead: int = 0
    refused: int = 0

    def notifications(self) -> Notifications:
        queues = SimpleNamespace(
            list_queues=lambda **_: {"QueueUrls": ["http://queues/awsmp-notification-events-dlq"]},
            get_queue_attributes=lambda **_: {"Attributes": {"ApproximateNumberOfMessages": str(self.dead)}},
        )
        stage = SimpleNamespace(
            cloud=SimpleNamespace(client=lambda *_, **__: queues),
            items=lambda *_: self.items,
            subscribers=lambda: [
                {"licenseArn": buyer.license_arn, "subscriptionStatus": status}
                for buyer, status in ((STARTED, "active"), (ENDED, "inactive"), (UNVERIFIED, "active"))
            ],
        )
        mailbox = SimpleNamespace(
            told=lambda: self.told,
            mails=lambda: list(self.told.elements()),
            outputs={"table": {"name": "notifications"}},
            region="us-east-1",
        )
        return Notifications(
            cast("CloudStage", stage),
            cast("Mailbox", mailbox),
            buyers=[STARTED, ENDED, UNVERIFIED],
            verified={buyer.license_arn: buyer for buyer in (STARTED, ENDED)},
            planted=Counter(
                {(address(STARTED), "payment_failed"): 1, (address(STARTED), "cancellation_scheduled"): 1}
            ),
            refused=self.refused,
        )


def test_a_good_run_has_no_problem() -> None:
    assert World().notifications().problems() == []


def _one_less(world: World) -> None:
    world.told[address(ENDED), "subscription_canceled"] = 0


def _one_more(world: World) -> None:
    world.told[address(UNVERIFIED), "subscription_started"] += 1


def _twice(world: World) -> None:
    world.told[address(STARTED), "subscription_started"] += 1


def _written_to_although_suppressed(world: World) -> None:
    world.items[3] |= {"status": "sent"}


def _left(world: World) -> None:
    world.items[0] |= {"workQueue": Queue.FAILED.value}


def _dead(world: World) -> None:
    world.dead = 2


def _refused(world: World) -> None:
    world.refused = 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_one_less, "missing: 1 mail subscription_canceled to the buyer ...2"),
        (_one_more, "too many: 1 mail subscription_started to the buyer ...3"),
        (_twice, "too many: 1 mail subscription_started to the buyer ...1"),
        (_written_to_although_suppressed, "the suppressed buyer was not skipped once: {}"),
        (_left, "1 notices were not sent or have failed"),
        (_dead, "2 messages in awsmp-notification-events-dlq"),
        (_refused, "1 verification links were missing or refused"),
    ],
)
def test_what_is_wrong_is_noticed(change: Callable[[World], None], problem: str) -> None:
    world = World()
    change(world)
    assert problem in world.notifications().problems()


def test_the_report_says_who_was_told_what_without_an_address_or_a_whole_account() -> None:
    report = World().notifications().to_json()
    assert rows_of(report) == [
        ("payment_failed", 1, "1 notification_recipient_suppressed"),
        ("subscription_started", 0, "1 notification_no_recipient"),
    ]
    assert report["suppressed"] == [{"recipient": "...6666:owner", "kind": "hard_bounce"}]
    assert report["told"] == [{"recipient": "...3333:owner", "kinds": ["payment_failed"]}]
    assert line_of(report) == (
        "8 mails; 2 buyers have verified their address and 1 have not; skipped: "
        "1 notification_no_recipient, 1 notification_recipient_suppressed; 1 suppressed"
    )
    text = json.dumps(report)
    assert not any(buyer.account in text or address(buyer) in text for buyer in (STARTED, ENDED, UNVERIFIED))
