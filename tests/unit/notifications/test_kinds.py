"""Which change of a subscription leads to which notice."""

from __future__ import annotations

import itertools

import pytest

from awsmp.domain.notifications.kinds import (
    BillingHold,
    BillingState,
    BillingStatus,
    Kind,
    UnknownHold,
    UnknownStatus,
    of_hold,
    of_set_to_end,
    of_status,
    of_subscription,
    parse_hold,
    parse_status,
)

S = BillingStatus
H = BillingHold

#: Every change of status that leads to a notice; the rows are the specification's, expanded.
NOTICES: dict[tuple[BillingStatus | None, BillingStatus | None], Kind] = {
    **{(None, current): Kind.SUBSCRIPTION_STARTED for current in (S.ACTIVE, S.TRIALING)},
    **{(previous, S.PAST_DUE): Kind.PAYMENT_FAILED for previous in (None, *S) if previous is not S.PAST_DUE},
    **{
        (previous, current): Kind.ACCESS_SUSPENDED
        for current in (S.PAUSED, S.UNPAID, S.INCOMPLETE_EXPIRED)
        for previous in (None, *S)
        if previous is not current
    },
    **{
        (previous, S.CANCELED): Kind.SUBSCRIPTION_CANCELED
        for previous in (None, *S)
        if previous is not S.CANCELED
    },
    **{
        (previous, current): Kind.PAYMENT_RECOVERED
        for previous in (S.PAST_DUE, S.PAUSED, S.UNPAID, S.INCOMPLETE)
        for current in (S.ACTIVE, S.TRIALING)
    },
}


@pytest.mark.parametrize(("previous", "current"), list(itertools.product((None, *S), repeat=2)))
def test_a_change_of_status_leads_to_the_notice_of_the_table_and_any_other_to_none(
    previous: BillingStatus | None, current: BillingStatus | None
) -> None:
    assert of_status(previous, current) is NOTICES.get((previous, current))


@pytest.mark.parametrize(
    ("previous", "current"),
    [
        (S.ACTIVE, S.TRIALING),
        (S.TRIALING, S.ACTIVE),
        (S.CANCELED, S.ACTIVE),
        (S.INCOMPLETE_EXPIRED, S.ACTIVE),
    ],
)
def test_a_change_that_the_table_does_not_name_is_no_notice(
    previous: BillingStatus, current: BillingStatus
) -> None:
    assert of_status(previous, current) is None


@pytest.mark.parametrize(
    ("previous", "current", "kind"),
    [
        (False, True, Kind.CANCELLATION_SCHEDULED),
        (True, False, Kind.CANCELLATION_REVERSED),
        (False, False, None),
        (True, True, None),
    ],
)
def test_a_change_of_the_set_to_end_flag_schedules_or_reverses(
    previous: bool, current: bool, kind: Kind | None
) -> None:
    assert of_set_to_end(previous, current) is kind


def test_status_and_flag_lead_to_notices_independently_of_each_other() -> None:
    both = of_subscription(BillingState(S.ACTIVE, False), BillingState(S.PAST_DUE, True))
    assert both == (Kind.PAYMENT_FAILED, Kind.CANCELLATION_SCHEDULED)
    flag_only = of_subscription(BillingState(S.ACTIVE, True), BillingState(S.ACTIVE, False))
    assert flag_only == (Kind.CANCELLATION_REVERSED,)
    assert of_subscription(BillingState(S.ACTIVE), BillingState(S.ACTIVE)) == ()


@pytest.mark.parametrize(
    ("previous", "current", "kind"),
    [
        (H.NONE, H.DISPUTE_OPEN, Kind.DISPUTE_OPEN),
        (H.DISPUTE_OPEN, H.DISPUTE_LOST, Kind.DISPUTE_LOST),
        (H.NONE, H.DISPUTE_LOST, Kind.DISPUTE_LOST),
        (H.DISPUTE_LOST, H.DISPUTE_OPEN, Kind.DISPUTE_OPEN),
        (H.NONE, H.REFUNDED, Kind.REFUNDED),
        (H.DISPUTE_OPEN, H.REFUNDED, Kind.REFUNDED),
        (H.DISPUTE_LOST, H.REFUNDED, Kind.REFUNDED),
        (H.REFUNDED, H.DISPUTE_OPEN, Kind.DISPUTE_OPEN),
        (H.REFUNDED, H.DISPUTE_LOST, Kind.DISPUTE_LOST),
        (H.DISPUTE_OPEN, H.NONE, Kind.DISPUTE_RESOLVED),
        (H.DISPUTE_LOST, H.NONE, Kind.DISPUTE_RESOLVED),
        (H.REFUNDED, H.NONE, None),
        *((hold, hold, None) for hold in H),
    ],
)
def test_a_change_of_the_billing_hold_leads_to_its_notice_and_no_change_to_none(
    previous: BillingHold, current: BillingHold, kind: Kind | None
) -> None:
    assert of_hold(previous, current) is kind


@pytest.mark.parametrize("text", ["", "Dispute_Open", "chargeback", "none "])
def test_an_unknown_hold_is_an_error(text: str) -> None:
    with pytest.raises(UnknownHold):
        parse_hold(text)


@pytest.mark.parametrize("text", ["", "Active", "ended"])
def test_an_unknown_status_is_an_error(text: str) -> None:
    with pytest.raises(UnknownStatus):
        parse_status(text)


def test_there_are_eleven_kinds() -> None:
    assert [kind.value for kind in Kind] == [
        "subscription_started",
        "payment_failed",
        "access_suspended",
        "payment_recovered",
        "cancellation_scheduled",
        "cancellation_reversed",
        "subscription_canceled",
        "dispute_open",
        "dispute_lost",
        "dispute_resolved",
        "refunded",
    ]
