"""Plays the usage trace through a whole deployment and draws up the accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sandbox.simulation.reconciliation import Account, number, reconcile, summary
from sandbox.simulation.seller import Buyer, Seller
from sandbox.simulation.stage import Stage, WorldStage
from sandbox.simulation.trace import TRACE, read_trace, totals
from sandbox.simulation.troubles import Plan, plant_all
from sandbox.simulation.world import PRODUCT_CODE, World

#: A fixed date: the trace's 84 hours cross the end of September.
START: Final = datetime(2026, 9, 29, 12, tzinfo=UTC)

#: After the trace, time for the last hour's window and its expiry.
DRAIN: Final = timedelta(hours=26)

_STEP: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Played:
    """The outcome of one run."""

    world: World
    plan: Plan
    accounts: list[Account]
    trace_totals: dict[str, int]

    def outcomes(self) -> list[tuple[str, bool, str]]:
        """Return (trouble, whether it ended as it has to, how it ended)."""
        return judge(self.plan, self.accounts)

    def problems(self) -> list[str]:
        """Return everything that does not add up; empty after a good run."""
        found = account_problems(self.plan, self.accounts, self.trace_totals)
        found += [f"dead letter in {queue}" for queue, _ in self.world.dead_letters()]
        found += [f"billed twice: {key}" for key in self.world.marketplace.billed_twice()]
        return found

    def report(self) -> dict[str, Any]:
        """Return ``report.json``: every group, the totals, the requests and how each trouble ended."""
        requests = self.world.marketplace.requests()
        return report_json(
            self.accounts,
            requests={
                "count": len(requests),
                "throttled": sum(entry.exception == "ThrottlingException" for entry in requests),
                "max_per_second": self.world.marketplace.max_requests_in_any_second(),
            },
            outcomes=self.outcomes(),
            problems=self.problems(),
        )


def report_json(
    accounts: list[Account],
    *,
    requests: dict[str, int],
    outcomes: list[tuple[str, bool, str]],
    problems: list[str],
) -> dict[str, Any]:
    """Return a report of what was reconciled, as JSON types."""
    return {
        "groups": [account.to_json() for account in accounts],
        "totals": {
            dimension: {
                "written": number(line["written"]),
                "billed": number(line["billed"]),
                "pending": number(line["pending"]),
                "surfaced": number(sum(line["surfaced"].values())),
                "surfacedByReason": {name: number(value) for name, value in sorted(line["surfaced"].items())},
                "difference": number(line["difference"]),
            }
            for dimension, line in sorted(summary(accounts).items())
        },
        "requests": requests,
        "troubles": [{"name": name, "asExpected": ok, "outcome": how} for name, ok, how in outcomes],
        "problems": problems,
    }


def account_problems(plan: Plan, accounts: list[Account], trace_totals: Mapping[str, int]) -> list[str]:
    """Return everything in the accounts that does not add up, and every trouble that ended otherwise."""
    found = [f"group {a.group} is off by {a.difference}" for a in accounts if a.difference != 0]
    found += [f"group {a.group} is still pending" for a in accounts if a.pending != 0]
    found += [
        f"group {a.group}: {a.billed} billed, but {a.honoured} honoured by the Marketplace"
        for a in accounts
        if a.billed != a.honoured
    ]
    for dimension, line in summary(accounts).items():
        planted = plan.seller.planted.get(dimension, 0)
        if line["written"] != trace_totals.get(dimension, 0) + planted:
            found.append(f"{dimension}: {line['written']} written, but the trace and what is planted differ")
    ended = judge(plan, accounts)
    found += [f"trouble {name!r} ended otherwise: {how}" for name, ok, how in ended if not ok]
    return found


def judge(plan: Plan, accounts: list[Account]) -> list[tuple[str, bool, str]]:
    """Return (trouble, whether it ended as it has to, how it ended)."""
    by_key = {account.group: account for account in accounts}
    return [(trouble.name, *trouble.judge(by_key)) for trouble in plan.troubles]


def prepare() -> Played:
    """Return a run that has not begun: subscriptions made, every trouble planted."""
    world = World(START)
    world.marketplace.create_product(PRODUCT_CODE, ["requests", "egress_kib"])
    trace = read_trace()
    stage = WorldStage(world)
    seller = Seller(world.writer)
    plan = Plan(stage, seller, trace, subscribe_all(stage, {usage.customer for usage in trace}))
    announce(plan)
    plant_all(plan)
    return Played(world, plan, [], totals(trace))


def subscribe_all(stage: Stage, customers: Iterable[str]) -> dict[str, Buyer]:
    """Buy the product for every customer, activated two hours before the trace begins.

    The second customer is another licence of the first one's account: Concurrent Agreements.
    """
    buyers = {}
    for position, customer in enumerate(sorted(customers), start=1):
        account = f"5555{max(position, 2):08d}"
        bought = stage.subscribe(account, stage.start - timedelta(hours=2))
        buyers[customer] = Buyer(customer, bought.license_arn, account, bought.agreement_id, bought.events)
    return buyers


def announce(plan: Plan) -> None:
    """Deliver the events of every purchase, and remember the activations."""
    for _, buyer in sorted(plan.buyers.items()):
        for envelope in buyer.events:
            if str(envelope["detail-type"]).startswith("License Updated"):
                plan.activations.append(envelope)
            plan.stage.deliver(envelope)


def play(progress: Callable[[datetime, datetime], None] | None = None) -> Played:
    """Play the trace to its end and until everything is drained; ``progress`` sees (now, end) each hour."""
    prepared = prepare()
    world, plan = prepared.world, prepared.plan
    trace_end = START + timedelta(hours=1 + max(usage.hour for usage in plan.trace))
    end = trace_end + DRAIN
    usages = iter([*((START + timedelta(seconds=u.offset), u) for u in plan.trace), (end, None)])
    actions = iter([*sorted(plan.actions, key=lambda planned: planned[0]), (end, None)])
    next_usage, next_action = next(usages), next(actions)
    now = START
    while now < end:
        now += _STEP
        while next_usage[1] is not None and next_usage[0] < now:
            usage = next_usage[1]
            plan.seller.write(plan.buyers[usage.customer], usage.dimension, next_usage[0], usage.quantity)
            next_usage = next(usages)
        while next_action[1] is not None and next_action[0] < now:
            next_action[1]()
            next_action = next(actions)
        world.run_until(now)
        if progress is not None and now.minute == 0:
            progress(now, end)
    accounts = reconcile(plan.stage, plan.seller.written())
    return Played(world, plan, accounts, prepared.trace_totals)


__all__ = ["START", "TRACE", "Played", "play", "prepare"]
