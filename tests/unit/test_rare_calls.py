"""Calls that few runs need: each stands for a permission that no other test would use."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from awsmp.domain.hours import HOUR, bucket_of, format_instant
from awsmp.domain.reasons import MeteringStatus
from tests.unit.metering_world import (
    BUYER,
    LAST_HOUR,
    PRODUCT,
    USAGE,
    Call,
    MeteringWorld,
    license_arn,
)

ALLOCATED = [{"AllocatedUsageQuantity": 6, "Tags": [{"Key": "team", "Value": "blue"}]}]


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture
def world(calls: list[Call]) -> Iterator[MeteringWorld]:
    world = MeteringWorld()
    world.hooks.before_each.append(calls.append)
    yield world
    world.assert_balanced()


def stamped_alone(calls: list[Call]) -> bool:
    """Whether a row went out by itself: its allocations are compared as a whole."""
    return any(each.operation == "UpdateItem" and each.request["TableName"] == USAGE for each in calls)


def test_the_aggregator_stamps_a_row_of_no_group_by_itself_when_it_has_allocations(
    world: MeteringWorld, calls: list[Call]
) -> None:
    world.write(6, meteringPending=bucket_of(LAST_HOUR - 2 * HOUR), usageAllocations=ALLOCATED)

    world.discover(3)
    world.aggregate()

    assert stamped_alone(calls)
    (row,) = world.rows()
    assert row.attributes["meteringStatus"] == MeteringStatus.REJECTED_CLIENT_SIDE
    assert row.pending_bucket is None


def test_age_out_clears_a_row_by_itself_when_it_has_allocations(
    world: MeteringWorld, calls: list[Call]
) -> None:
    world.write(6, hour=LAST_HOUR - 25 * HOUR, usageAllocations=ALLOCATED)

    assert sum(world.age_out(shard) for shard in range(7)) == 1

    assert stamped_alone(calls)
    assert world.pending_rows() == []


def test_an_activation_is_found_by_account_when_its_row_spells_the_licence_otherwise(
    world: MeteringWorld, calls: list[Call]
) -> None:
    arn, activated = license_arn(5), LAST_HOUR + timedelta(minutes=17)
    other = "arn:aws:license-manager:us-east-1:111122223333:license/L-00000005"
    world.marketplace.subscribe(PRODUCT, BUYER, license_arn=arn, activate_at=activated)
    world.put_subscriber(other, activationTime=format_instant(activated))
    world.write(4, arn=arn, second=30)
    world.fold()

    assert world.submit()["billed"] == 1

    assert "customerAWSAccountId-index" in {each.request.get("IndexName") for each in calls}
    (honoured,) = world.marketplace.honoured()
    assert (honoured.license_arn, honoured.timestamp) == (arn, activated)
