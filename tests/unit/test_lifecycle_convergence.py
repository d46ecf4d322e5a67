"""Whatever the order, repetition and interleaving of a history, it leads to one row.

The expected row is computed by a reference model that knows no transitions: it looks at the set of events
and takes the greatest stamp per register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awsmp.domain.lifecycle_events import (
    AgreementAmended,
    AgreementEnded,
    LicenseDeprovisioned,
    LicenseEvent,
    LicenseUpdated,
    parse_envelope,
    parse_event,
)
from awsmp.domain.ports import Metric
from awsmp.domain.subscribers import AgreementStatus, Registration, SubscriberRow, SubscriptionStatus
from awsmp.usecases.deprovision_cleanup import finalize_expired
from awsmp.usecases.subscription import register_subscriber
from tests.unit.lifecycle_support import (
    AGREEMENT,
    BUYER,
    EVENT_SPELLING,
    LICENSE,
    PRODUCT,
    RENEWAL,
    SLASH_SPELLING,
    World,
    amended,
    at,
    deprovisioned,
    ended,
    schedules,
    updated,
)

pytestmark = pytest.mark.slow

MINUTES = st.integers(0, 4)
AGREEMENTS = st.sampled_from([AGREEMENT, RENEWAL])
SPELLINGS = st.sampled_from([LICENSE, EVENT_SPELLING, SLASH_SPELLING])
END_TIMES = st.sampled_from([None, "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"])


def _licence_event(make: Callable[..., str]) -> Callable[[int, str, str, str], str]:
    return lambda minutes, event_id, agreement, arn: make(
        at(minutes), event_id=event_id, agreement=agreement, arn=arn
    )


def _amendment(minutes: int, event_id: str, agreement: str, terms: dict[str, Any]) -> str:
    return amended(at(minutes), event_id=event_id, agreement=agreement, **terms)


IDS = st.uuids(version=4).map(str)
LICENCE_EVENTS = st.one_of(
    st.builds(_licence_event(updated), MINUTES, IDS, AGREEMENTS, SPELLINGS),
    st.builds(_licence_event(deprovisioned), MINUTES, IDS, AGREEMENTS, SPELLINGS),
)
AGREEMENT_EVENTS = st.one_of(
    st.builds(
        lambda minutes, event_id, agreement, status: ended(
            at(minutes), event_id=event_id, agreement=agreement, status=status
        ),
        MINUTES,
        IDS,
        AGREEMENTS,
        st.sampled_from(["CANCELLED", "RENEWED"]),
    ),
    st.builds(
        _amendment,
        MINUTES,
        IDS,
        AGREEMENTS,
        st.fixed_dictionaries({}, optional={"endTime": END_TIMES, "autoRenewalEnabled": st.booleans()}),
    ),
)
HISTORIES = st.tuples(
    st.lists(LICENCE_EVENTS, min_size=1, max_size=4), st.lists(AGREEMENT_EVENTS, max_size=4)
).map(lambda parts: [*parts[0], *parts[1]])


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A history, and one delivery of it: every event at least once, in any order."""
    history = draw(HISTORIES)
    repeated = draw(st.lists(st.sampled_from(history), max_size=4))
    return history, draw(st.permutations([*history, *repeated]))


@dataclass(frozen=True)
class Expected:
    """What the reference model says about a row."""

    subscription_status: SubscriptionStatus
    deprovisioning_expiry: datetime | None
    activation_time: datetime | None
    agreement_id: str | None
    agreement_status: AgreementStatus | None
    agreement_status_reason: str | None
    end_time: datetime | None
    auto_renewal: bool | None

    @classmethod
    def of(cls, row: SubscriberRow) -> Expected:
        assert row.subscription_status is not None
        return cls(**{name: getattr(row, name) for name in cls.__dataclass_fields__})


def reference(history: Sequence[str]) -> Expected:
    """The row that the set of events stands for, read off without applying anything."""
    events = [parse_event(parse_envelope(body)) for body in history]
    updates = [each for each in events if isinstance(each, LicenseUpdated)]
    endings = [each for each in events if isinstance(each, LicenseDeprovisioned)]
    licence_events: list[LicenseEvent] = [*updates, *endings]
    last = max(licence_events, key=lambda each: each.stamp.order)
    is_active = isinstance(last, LicenseUpdated)
    deciding: list[LicenseEvent] = [*updates] or [*endings]
    agreement_id = max(deciding, key=lambda each: each.stamp.order).agreement_id
    of_agreement = [
        each
        for each in events
        if isinstance(each, LicenseUpdated | AgreementEnded | AgreementAmended)
        and each.agreement_id == agreement_id
    ]
    last_said = max(of_agreement, key=lambda each: each.stamp.order, default=None)
    amendments = sorted(
        (each for each in of_agreement if isinstance(each, AgreementAmended)),
        key=lambda each: each.stamp.order,
    )
    ends = [each.end_time for each in amendments if each.states_end_time]
    renewals = [each.auto_renewal for each in amendments if each.auto_renewal is not None]
    status = None
    if last_said is not None:
        over = isinstance(last_said, AgreementEnded)
        status = AgreementStatus.INACTIVE if over else AgreementStatus.ACTIVE
    return Expected(
        subscription_status=SubscriptionStatus.ACTIVE if is_active else SubscriptionStatus.DEPROVISIONING,
        deprovisioning_expiry=None if is_active else last.stamp.time + timedelta(hours=1),
        activation_time=min((each.stamp.time for each in updates), default=None),
        agreement_id=agreement_id,
        agreement_status=status,
        agreement_status_reason=last_said.reason if isinstance(last_said, AgreementEnded) else None,
        end_time=ends[-1] if ends else None,
        auto_renewal=renewals[-1] if renewals else None,
    )


@settings(max_examples=400, deadline=None)
@given(deliveries(), st.booleans())
def test_every_delivery_of_a_history_leads_to_the_row_that_its_events_stand_for(
    delivery: tuple[list[str], list[str]], index_shows_rows: bool
) -> None:
    history, delivered = delivery
    world = World()
    world.subscribers.index_shows_rows = index_shows_rows
    world.handle(*delivered)
    assert Expected.of(world.row) == reference(history)
    in_order = World()
    in_order.handle(*history)
    assert world.row == in_order.row


@settings(max_examples=150, deadline=None)
@given(deliveries(), st.data())
def test_a_registration_anywhere_in_a_delivery_keeps_the_statuses_and_is_kept(
    delivery: tuple[list[str], list[str]], data: st.DataObject
) -> None:
    history, delivered = delivery
    position = data.draw(st.integers(0, len(delivered)))
    world = World()
    world.handle(*delivered[:position])
    register_subscriber(world.subscribers, world.clock, Registration(LICENSE, BUYER, PRODUCT, "eu-west-1"))
    world.handle(*delivered[position:])
    assert Expected.of(world.row) == reference(history)
    assert world.row.home_region == "eu-west-1"
    assert world.row.registered_regions == {"eu-west-1"}


@settings(max_examples=150, deadline=None)
@given(deliveries(), st.data())
def test_a_finalisation_anywhere_in_a_delivery_is_undone_by_newer_events_only(
    delivery: tuple[list[str], list[str]], data: st.DataObject
) -> None:
    history, delivered = delivery
    position = data.draw(st.integers(0, len(delivered)))
    world = World()
    world.handle(*delivered[:position])
    world.clock.instant = at(300)
    closed_by = [
        row.subscription_stamp for row in world.subscribers.rows.values() if row.deprovisioning_expiry
    ]
    finalize_expired(world.subscribers, world.clock, world.telemetry)
    world.handle(*delivered[position:])
    expected = reference(history)
    if world.row.subscription_stamp in closed_by:
        assert world.row.subscription_status is SubscriptionStatus.INACTIVE
        assert world.row.deprovisioning_expiry is None
        assert expected.subscription_status is SubscriptionStatus.DEPROVISIONING
    else:
        assert Expected.of(world.row) == expected


INTERLEAVINGS = {
    "a licence appears while its agreement ends": ((), (updated(at(0)), ended(at(5)))),
    "a licence appears while its agreement is amended": ((), (updated(at(0)), amended(at(5), endTime=None))),
    "a deprovisioned licence appears while its agreement ends": ((), (deprovisioned(at(9)), ended(at(5)))),
    "a renewal arrives while the new agreement already ends": (
        (updated(at(0)),),
        (updated(at(10), agreement=RENEWAL), ended(at(20), agreement=RENEWAL)),
    ),
    "a renewal arrives while the former agreement ends": (
        (updated(at(0)),),
        (updated(at(10), agreement=RENEWAL), ended(at(11), status="RENEWED")),
    ),
    "one event is handled twice at once": ((), (updated(at(0)), updated(at(0)))),
    "the licence appears and goes at once": ((), (updated(at(0)), deprovisioned(at(5)))),
}


@pytest.mark.parametrize("name", INTERLEAVINGS)
def test_two_invocations_at_once_lose_nothing_under_any_interleaving(name: str) -> None:
    """The agreement index shows nothing at all here, the worst that its lag can do."""
    before, (first, second) = INTERLEAVINGS[name]
    worlds: list[World] = []

    def build() -> tuple[Sequence[Callable[[], None]], Callable[[Callable[[], None]], None]]:
        world = World()
        world.subscribers.index_shows_rows = False
        world.handle(*before)
        worlds[:] = [world]

        def install(switch: Callable[[], None]) -> None:
            world.subscribers.before_call = world.log.before_call = switch

        return [lambda: world.handle(first), lambda: world.handle(second)], install

    def check() -> None:
        (world,) = worlds
        assert Expected.of(world.row) == reference([*before, first, second])

    tried = list(schedules(build, check))
    assert len(tried) == len(set(tried))
    assert len(tried) > 20


def test_a_revival_and_a_finalisation_at_once_end_in_the_revived_licence() -> None:
    worlds: list[World] = []

    def build() -> tuple[Sequence[Callable[[], None]], Callable[[Callable[[], None]], None]]:
        world = World()
        world.handle(updated(at(0)), deprovisioned(at(10)))
        world.clock.instant = at(120)
        worlds[:] = [world]

        def install(switch: Callable[[], None]) -> None:
            world.subscribers.before_call = switch

        def cleanup() -> None:
            finalize_expired(world.subscribers, world.clock, world.telemetry)

        return [cleanup, lambda: world.handle(updated(at(100)))], install

    def check() -> None:
        row = worlds[0].row
        assert (row.subscription_status, row.deprovisioning_expiry) == (SubscriptionStatus.ACTIVE, None)

    assert len(list(schedules(build, check))) > 5


def test_the_interleavings_meet_both_a_parked_event_and_a_lost_compare_and_set() -> None:
    """The exhaustive tests above are worth something only if both paths are taken."""
    parked, conflicts = 0, 0
    world = World()

    def build() -> tuple[Sequence[Callable[[], None]], Callable[[Callable[[], None]], None]]:
        nonlocal world
        world = World()
        world.subscribers.index_shows_rows = False

        def install(switch: Callable[[], None]) -> None:
            world.subscribers.before_call = world.log.before_call = switch

        return [lambda: world.handle(updated(at(0))), lambda: world.handle(ended(at(5)))], install

    def check() -> None:
        nonlocal parked, conflicts
        parked += (Metric.EVENT_PARKED, "Purchase Agreement Ended") in world.telemetry.counts
        conflicts += bool(world.clock.slept)

    list(schedules(build, check))
    assert parked > 0
    assert conflicts > 0
