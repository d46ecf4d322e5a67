"""What goes wrong in the demonstration, planted on purpose, and how each trouble has to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from awsmp.domain.hours import bucket_of, floor_hour
from awsmp.domain.ports import Metric
from sandbox.fake_marketplace import Fault
from sandbox.simulation.reconciliation import Account
from sandbox.simulation.seller import Buyer, Seller
from sandbox.simulation.stage import Stage
from sandbox.simulation.trace import Usage, hours_of

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)

#: Hour of the run in which each trouble happens, over the whole trace of 84 hours.
TIMETABLE: Final[Mapping[str, int]] = {
    "malformed": 5,
    "corrected": 8,
    "unclaimed": 9,
    "undefined dimension": 11,
    "throttled spell": 14,
    "late row": 18,
    "rewritten row": 22,
    "lost cleanup": 26,
    "lost answer": 30,
    "former customer": 33,
    "activation": 40,
    "cancellation": 55,
    "resubscription": 60,
    "repeated events": 70,
}

Accounts = Mapping[tuple[str, str, str, str], Account]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One planted trouble: what it is, and a judge that tells from the accounts how it ended."""

    name: str
    judge: Callable[[Accounts], tuple[bool, str]]


@dataclass(slots=True)
class Plan:
    """The timetable of everything that happens besides the trace, and what is to be seen at the end."""

    stage: Stage
    seller: Seller
    trace: list[Usage]
    buyers: dict[str, Buyer]
    actions: list[tuple[datetime, Callable[[], None]]] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    hours: Mapping[str, int] = field(default_factory=lambda: TIMETABLE)
    activations: list[Mapping[str, Any]] = field(default_factory=list)
    reserved: set[str] = field(default_factory=set)

    @property
    def start(self) -> datetime:
        """The first instant of the trace."""
        return self.stage.start

    def hour(self, trouble: str) -> datetime:
        """Return the hour in which a trouble happens."""
        return self.start + self.hours[trouble] * HOUR

    def at(self, instant: datetime, action: Callable[[], None]) -> None:
        """Let ``action`` happen at ``instant``."""
        self.actions.append((instant, action))

    def expect(self, name: str, judge: Callable[[Accounts], tuple[bool, str]]) -> None:
        """Judge the trouble ``name`` by the accounts at the end."""
        self.troubles.append(Trouble(name, judge))

    def write(self, buyer: Buyer, dimension: str, at: datetime, quantity: Any, **changes: Any) -> None:
        """Plant one row now."""
        self.seller.write(buyer, dimension, at, quantity, planted=True, **changes)

    def quiet_second(self, buyer: Buyer, dimension: str, hour: datetime) -> datetime:
        """Return a second of ``hour`` in which the trace has no such row."""
        used = {
            self.start + timedelta(seconds=usage.offset)
            for usage in self.trace
            if (usage.customer, usage.dimension) == (buyer.customer, dimension)
        }
        return next(
            hour + timedelta(seconds=n) for n in range(3599) if hour + timedelta(seconds=n) not in used
        )


def _key(buyer: Buyer, dimension: str, hour: datetime) -> tuple[str, str, str, str]:
    return buyer.license_arn, buyer.account, dimension, bucket_of(hour)


def _surfaced(
    plan: Plan, name: str, key: tuple[str, str, str, str], *, reason: str, quantity: int, status: str | None
) -> None:
    def judge(accounts: Accounts) -> tuple[bool, str]:
        account = accounts[key]
        seen = account.surfaced.get(reason)
        ok = seen == quantity and account.difference == 0 and (status is None or account.status == status)
        return ok, f"{account.status}: {reason} {seen}, billed {account.billed}"

    plan.expect(name, judge)


def _billed_whole(plan: Plan, name: str, key: tuple[str, str, str, str], what: str) -> None:
    def judge(accounts: Accounts) -> tuple[bool, str]:
        account = accounts[key]
        ok = account.billed == account.written == account.honoured and not account.surfaced
        return ok and account.written > 0, f"{account.status}: {what}; billed {account.billed}"

    plan.expect(name, judge)


def _text(surfaced: Mapping[str, Decimal]) -> str:
    return ", ".join(f"{reason!s} {quantity}" for reason, quantity in sorted(surfaced.items()))


def _of_hour(accounts: Accounts, hour: datetime) -> list[Account]:
    return [account for key, account in accounts.items() if key[3] == bucket_of(hour)]


def plant_all(plan: Plan) -> None:
    """Plant every trouble. Each uses customers and hours of its own."""
    busy = sorted(plan.buyers, key=lambda customer: -len(hours_of(plan.trace, customer)))
    take = iter(plan.buyers[customer] for customer in busy)
    _malformed_row(plan, next(take))
    _corrected_row(plan, next(take))
    _unclaimed_row(plan, next(take))
    _undefined_dimension(plan, next(take))
    _late_rows(plan, next(take), next(take))
    _rewritten_row(plan, next(take))
    crashed = next(take)
    if "lost cleanup" in plan.hours:
        _crash_between_put_and_cleanup(plan, crashed)
    _lost_answer(plan)
    _unsubscribed_buyer(plan)
    _cancellation(plan)
    _resubscription(plan)
    _activation_within_the_hour(plan)
    _repeated_events(plan)


def _malformed_row(plan: Plan, buyer: Buyer) -> None:
    hour = plan.hour("malformed")
    good = plan.quiet_second(buyer, "requests", hour)
    plan.at(hour + 30 * MINUTE, lambda: plan.write(buyer, "requests", good, 3))
    bad = good + timedelta(minutes=7)
    plan.at(hour + 31 * MINUTE, lambda: plan.write(buyer, "requests", bad, "twelve"))
    negative = bad + timedelta(minutes=7)
    plan.at(hour + 32 * MINUTE, lambda: plan.write(buyer, "requests", negative, -2))
    key = _key(buyer, "requests", hour)

    def judge(accounts: Accounts) -> tuple[bool, str]:
        account = accounts[key]
        ok = account.status == "Success" and account.surfaced == {"NegativeQuantity": Decimal(-2)}
        rows = plan.stage.metric(Metric.USAGE_RECORD_REJECTED, "NonNumericQuantity")
        text = f"billed {account.billed} in the last hour, surfaced {_text(account.surfaced)}"
        return ok and rows > 0 and account.difference == 0, text

    plan.expect("malformed rows, never corrected", judge)


def _corrected_row(plan: Plan, buyer: Buyer) -> None:
    hour = plan.hour("corrected")
    second = plan.quiet_second(buyer, "requests", hour)
    plan.at(hour + 20 * MINUTE, lambda: plan.write(buyer, "requests", second, Decimal("1.5")))
    plan.at(hour + 5 * HOUR, lambda: plan.write(buyer, "requests", second, 2))
    _billed_whole(
        plan, "malformed row, corrected in time", _key(buyer, "requests", hour), "corrected row billed"
    )


def _unclaimed_row(plan: Plan, buyer: Buyer) -> None:
    hour = plan.hour("unclaimed")
    second = plan.quiet_second(buyer, "requests", hour)
    wrong_bucket = bucket_of(hour + HOUR)

    def plant() -> None:
        plan.write(buyer, "requests", second, 7, meteringPending=wrong_bucket)

    plan.at(hour + 10 * MINUTE, plant)
    _surfaced(
        plan,
        "row in the wrong hour bucket",
        _key(buyer, "requests", hour),
        reason="PendingBucketMismatch",
        quantity=7,
        status=None,
    )


def _undefined_dimension(plan: Plan, buyer: Buyer) -> None:
    hour = plan.hour("undefined dimension")
    plan.at(hour + 15 * MINUTE, lambda: plan.write(buyer, "gpu_hours", hour + 15 * MINUTE, 5))
    key = _key(buyer, "gpu_hours", hour)
    _surfaced(
        plan,
        "undefined dimension",
        key,
        reason="InvalidUsageDimensionException",
        quantity=5,
        status="RejectedClientSide",
    )


def _late_rows(plan: Plan, before: Buyer, after: Buyer) -> None:
    hour = plan.hour("throttled spell")

    def throttle() -> None:
        plan.stage.arm(Fault("ThrottlingException", times=None, until=hour + 2 * HOUR + 10 * MINUTE))

    plan.at(hour + HOUR - MINUTE, throttle)
    early = plan.quiet_second(before, "requests", hour)
    plan.at(hour + HOUR + 20 * MINUTE, lambda: plan.write(before, "requests", early, 6))
    key = _key(before, "requests", hour)
    _billed_whole(
        plan, "late row before submission, in a throttled spell", key, "late row in the same record"
    )

    def spell(accounts: Accounts) -> tuple[bool, str]:
        throttled = plan.stage.metric(Metric.REQUESTS_THROTTLED)
        groups = _of_hour(accounts, hour)
        ok = throttled > 0 and all(account.pending == 0 for account in groups)
        return ok, f"{throttled} throttled requests, {len(groups)} groups of the hour billed after the spell"

    plan.expect("throttled spell", spell)
    late_hour = plan.hour("late row")
    second = plan.quiet_second(after, "requests", late_hour)
    plan.at(late_hour + 10 * MINUTE, lambda: plan.write(after, "requests", second + timedelta(minutes=9), 2))
    plan.at(late_hour + 4 * HOUR, lambda: plan.write(after, "requests", second, 4))
    key = _key(after, "requests", late_hour)
    _surfaced(
        plan, "late row after submission", key, reason="LateAfterSubmission", quantity=4, status="Success"
    )


def _rewritten_row(plan: Plan, buyer: Buyer) -> None:
    hour = plan.hour("rewritten row")
    second = plan.quiet_second(buyer, "requests", hour)
    plan.at(hour + 10 * MINUTE, lambda: plan.write(buyer, "requests", second, 9))
    plan.at(hour + 3 * HOUR, lambda: plan.write(buyer, "requests", second, 6))
    key = _key(buyer, "requests", hour)
    _surfaced(
        plan,
        "row rewritten after submission",
        key,
        reason="LateAfterSubmission",
        quantity=-3,
        status="Success",
    )


def _crash_between_put_and_cleanup(plan: Plan, buyer: Buyer) -> None:
    hour = plan.hour("lost cleanup")
    second = plan.quiet_second(buyer, "requests", hour)
    plan.at(hour + 10 * MINUTE, lambda: plan.write(buyer, "requests", second, 8))
    restore: list[Callable[[], bool]] = []
    lost: list[bool] = []
    plan.at(hour + HOUR - MINUTE, lambda: restore.append(plan.stage.lose_cleanup(buyer.license_arn, hour)))
    plan.at(hour + HOUR + 5 * MINUTE, lambda: lost.append(restore[0]()))
    key = _key(buyer, "requests", hour)

    def judge(accounts: Accounts) -> tuple[bool, str]:
        account = accounts[key]
        ok = lost[0] and account.billed == account.written == account.honoured
        return ok, f"{account.status}: the next delivery cleaned up; billed once, {account.billed}"

    plan.expect("crash between put and cleanup", judge)


def _lost_answer(plan: Plan) -> None:
    hour = plan.hour("lost answer")
    fault, code = plan.stage.lost_answer
    plan.at(
        hour + HOUR - MINUTE,
        lambda: plan.stage.arm(fault),
    )

    def judge(accounts: Accounts) -> tuple[bool, str]:
        groups = _of_hour(accounts, hour)
        ok = bool(groups) and all(account.billed == account.honoured for account in groups)
        lost = plan.stage.metric(Metric.BATCH_METER_USAGE_EXCEPTION, code)
        text = f"{lost} answer lost; {len(groups)} groups of the hour sent again unchanged, billed once"
        return ok and lost > 0, text

    plan.expect("lost API response", judge)


def _unsubscribed_buyer(plan: Plan) -> None:
    gone = plan.stage.subscribe("555500000061", plan.start - 72 * HOUR)
    plan.stage.deprovision(gone.license_arn)
    buyer = Buyer("former customer", gone.license_arn, "555500000061", gone.agreement_id)
    hour = plan.hour("former customer")
    plan.at(hour + 5 * MINUTE, lambda: plan.write(buyer, "requests", hour + 5 * MINUTE, 3))
    key = _key(buyer, "requests", hour)
    _surfaced(
        plan,
        "unsubscribed buyer",
        key,
        reason="CustomerNotSubscribed",
        quantity=3,
        status="CustomerNotSubscribed",
    )


def _quiet_customer(plan: Plan, *, last_before: int) -> Buyer:
    """Return a customer whose trace ends before the hour ``last_before``."""
    for customer in sorted(plan.buyers):
        used = hours_of(plan.trace, customer)
        if max(used, default=0) < last_before and customer not in plan.reserved:
            plan.reserved.add(customer)
            return plan.buyers[customer]
    raise AssertionError(f"no customer's trace ends before hour {last_before}")


def _cancellation(plan: Plan) -> None:
    buyer = _quiet_customer(plan, last_before=plan.hours["cancellation"] - 4)
    hour = plan.hour("cancellation")
    stage = plan.stage
    deprovisioned = hour + 20 * MINUTE

    def cancel() -> None:
        stage.deliver(stage.end_agreement(buyer.agreement_id))
        stage.deliver(stage.deprovision(buyer.license_arn))

    plan.at(hour + 10 * MINUTE, lambda: plan.write(buyer, "requests", hour + 10 * MINUTE, 2))
    plan.at(deprovisioned, cancel)
    final = hour + HOUR
    plan.at(final + 5 * MINUTE, lambda: plan.write(buyer, "requests", final + 5 * MINUTE, 3))
    plan.at(final + 19 * MINUTE, lambda: plan.write(buyer, "requests", final + 19 * MINUTE, 1))
    _billed_whole(
        plan, "cancellation: the last whole hour", _key(buyer, "requests", hour), "within the window"
    )
    key = _key(buyer, "requests", final)

    def judge(accounts: Accounts) -> tuple[bool, str]:
        account = accounts[key]
        ok = account.billed == 3 and account.surfaced == {"AfterFinalFlush": Decimal(1)}
        return (
            ok,
            f"{account.status}: unfinished hour flushed, billed {account.billed}, {_text(account.surfaced)}",
        )

    plan.expect("cancellation: final flush of the unfinished hour", judge)


def _resubscription(plan: Plan) -> None:
    buyer = _quiet_customer(plan, last_before=plan.hours["resubscription"] - 1)
    stage = plan.stage
    cancelled = plan.hour("resubscription") + 30 * MINUTE
    back = plan.hour("resubscription") + 3 * HOUR + 15 * MINUTE
    held_back: list[Mapping[str, Any]] = []

    def cancel() -> None:
        held_back.append(stage.deprovision(buyer.license_arn))

    def resubscribe() -> None:
        stage.deliver(stage.activate(buyer.license_arn))

    plan.at(cancelled, cancel)
    plan.at(back, resubscribe)
    # The older event arrives last: by its time it must not end the new subscription.
    plan.at(back + 20 * MINUTE, lambda: stage.deliver(held_back[0]))
    used = floor_hour(back) + 2 * HOUR
    plan.at(used + 10 * MINUTE, lambda: plan.write(buyer, "requests", used + 10 * MINUTE, 4))
    _billed_whole(
        plan,
        "resubscription, events out of order",
        _key(buyer, "requests", used),
        "subscription stayed active",
    )


def _activation_within_the_hour(plan: Plan) -> None:
    stage = plan.stage
    hour = plan.hour("activation")
    activated = hour + 25 * MINUTE
    offered = stage.offer("555500000062")
    buyer = Buyer("new customer", offered.license_arn, "555500000062", offered.agreement_id)

    def activate() -> None:
        stage.deliver(stage.activate(buyer.license_arn))

    plan.at(activated, activate)
    plan.at(activated + 10 * MINUTE, lambda: plan.write(buyer, "requests", activated + 10 * MINUTE, 5))
    key = _key(buyer, "requests", hour)
    _billed_whole(plan, "usage in the hour of activation", key, "sent with the activation time")


def _repeated_events(plan: Plan) -> None:
    """Deliver the first License Updated of every licence again, long after: nobody is revived by it."""
    first = list(plan.activations)

    def again() -> None:
        for envelope in reversed(first):
            plan.stage.deliver(envelope)

    plan.at(plan.hour("repeated events"), again)

    def judge(accounts: Accounts) -> tuple[bool, str]:
        rows = plan.stage.subscribers()
        active = sum(row.get("subscriptionStatus") == "active" for row in rows)
        inactive = sum(row.get("subscriptionStatus") == "inactive" for row in rows)
        # Everybody announced and the new customer, less the cancelled one.
        ok = (active, inactive) == (len(plan.buyers), 1)
        return ok, f"{len(first)} events delivered again, reversed: {active} active, {inactive} inactive"

    plan.expect("duplicate and reordered events", judge)
