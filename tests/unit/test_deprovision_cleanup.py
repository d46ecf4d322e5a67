"""Finalisation of licences whose last hour is over: the use case, and the Lambda over DynamoDB in memory."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from awsmp.composition_events import Runtime, Settings
from awsmp.domain.errors import ConditionFailed, Misconfigured, StoreUnavailable
from awsmp.domain.ports import Metric
from awsmp.domain.subscribers import SubscriptionStatus
from awsmp.handlers import deprovision_cleanup, subscription
from awsmp.usecases.deprovision_cleanup import CleanupReport, PendingDeprovisioning, finalize_expired
from tests.unit.lifecycle_support import (
    BUYER,
    LICENSE,
    PARKED_TABLE,
    SUBSCRIBERS_TABLE,
    CountingClient,
    FakeEvents,
    Fault,
    ManualClock,
    RecordingTelemetry,
    at,
    deprovisioned,
    memory_tables,
    sqs_batch,
    updated,
)

HOUR = timedelta(hours=1)


class FakeRows:
    """Index entries, and an error per licence that has one."""

    def __init__(self, errors: dict[str, Exception]) -> None:
        self.errors = errors
        self.finalized: list[str] = []
        self.asked: list[datetime] = []

    def expired(self, now: datetime) -> list[PendingDeprovisioning]:
        self.asked.append(now)
        return [PendingDeprovisioning(name, BUYER, at(0)) for name in ("a", "b", "c")]

    def finalize(self, pending: PendingDeprovisioning) -> None:
        if pending.license_arn in self.errors:
            raise self.errors[pending.license_arn]
        self.finalized.append(pending.license_arn)


def test_everything_expired_is_finalised_and_counted() -> None:
    rows, telemetry, clock = FakeRows({}), RecordingTelemetry(), ManualClock()
    assert finalize_expired(rows, clock, telemetry) == CleanupReport(expired=3, finalized=3)
    assert rows.finalized == ["a", "b", "c"]
    assert rows.asked == [clock.instant]
    assert telemetry.counts == [(Metric.LICENSES_FINALIZED, None)] * 3


def test_a_licence_that_changed_meanwhile_is_left_alone_without_an_error() -> None:
    rows, telemetry = FakeRows({"b": ConditionFailed("changed")}), RecordingTelemetry()
    assert finalize_expired(rows, ManualClock(), telemetry) == CleanupReport(expired=3, finalized=2)
    assert telemetry.errors == []


@pytest.mark.parametrize("error", [StoreUnavailable("x"), Misconfigured("x")])
def test_a_failing_licence_holds_up_no_other_and_the_run_fails_at_its_end(error: Exception) -> None:
    rows, telemetry = FakeRows({"a": error}), RecordingTelemetry()
    with pytest.raises(StoreUnavailable, match="1 of 3") as failure:
        finalize_expired(rows, ManualClock(), telemetry)
    assert failure.value.__cause__ is error
    assert rows.finalized == ["b", "c"]
    assert [fields["license_arn"] for _, fields in telemetry.errors] == ["a"]


@pytest.fixture
def dynamodb() -> Any:
    return memory_tables()


def runtime(client: Any, now: datetime) -> Runtime:
    return Runtime(
        settings=Settings(SUBSCRIBERS_TABLE, PARKED_TABLE),
        clock=ManualClock(now),
        telemetry=RecordingTelemetry(),
        dynamodb=client,
        events_client_for=FakeEvents,
    )


def deprovision(client: Any, count: int = 1) -> None:
    bodies = [
        make(at(number), arn=arn(number), agreement=f"agmt-{number}")
        for number in range(count)
        for make in (updated, lambda time, **fields: deprovisioned(time + timedelta(seconds=1), **fields))
    ]
    subscription.run(sqs_batch(bodies), None, runtime(client, at(count)))


def arn(number: int) -> str:
    return f"arn:aws:license-manager::111122223333:license:l-{number:08x}"


def item(client: Any, license_arn: str) -> dict[str, Any]:
    key = {"licenseArn": {"S": license_arn}, "customerAWSAccountId": {"S": BUYER}}
    found: dict[str, Any] = client.get_item(TableName=SUBSCRIBERS_TABLE, Key=key, ConsistentRead=True)["Item"]
    return found


def test_at_its_expiry_a_licence_becomes_inactive_and_leaves_the_sparse_index(dynamodb: Any) -> None:
    deprovision(dynamodb)
    expiry = at(0) + timedelta(seconds=1) + HOUR
    too_early = runtime(dynamodb, expiry - timedelta(seconds=1))
    assert deprovision_cleanup.run({}, None, too_early) == {"expired": 0, "finalized": 0}
    assert item(dynamodb, arn(0))["subscriptionStatus"] == {"S": "deprovisioning"}
    in_time = runtime(dynamodb, expiry)
    assert deprovision_cleanup.run({}, None, in_time) == {"expired": 1, "finalized": 1}
    found = item(dynamodb, arn(0))
    assert found["subscriptionStatus"] == {"S": "inactive"}
    assert found["updatedAt"] == {"S": "2026-11-10T09:00:01Z"}
    assert "deprovisioningPendingFlag" not in found
    assert "deprovisioningExpiry" not in found
    assert found["agreementStatus"] == {"S": "active"}
    assert deprovision_cleanup.run({}, None, in_time) == {"expired": 0, "finalized": 0}


def test_more_licences_than_one_page_are_all_finalised(dynamodb: Any) -> None:
    deprovision(dynamodb, count=7)

    class SmallPages(CountingClient):
        def query(self, **kwargs: Any) -> Any:
            return dynamodb.query(**kwargs, Limit=2)

    report = deprovision_cleanup.run({}, None, runtime(SmallPages(dynamodb), at(600)))
    assert report == {"expired": 7, "finalized": 7}


def test_a_licence_revived_between_the_query_and_the_write_stays_active(dynamodb: Any) -> None:
    deprovision(dynamodb)

    class RevivedMeanwhile(CountingClient):
        def update_item(self, **kwargs: Any) -> Any:
            revival = updated(at(90), arn=arn(0), agreement="agmt-0")
            subscription.run(sqs_batch([revival]), None, runtime(dynamodb, at(120)))
            return dynamodb.update_item(**kwargs)

    report = deprovision_cleanup.run({}, None, runtime(RevivedMeanwhile(dynamodb), at(120)))
    assert report == {"expired": 1, "finalized": 0}
    assert item(dynamodb, arn(0))["subscriptionStatus"] == {"S": "active"}


class FinalizedMeanwhile(CountingClient):
    """A finalisation gets in between the subscription function's read and its write."""

    def __init__(self, client: Any, now: datetime) -> None:
        super().__init__(client)
        self.real = client
        self.now = now
        self.is_first = True

    def update_item(self, **kwargs: Any) -> Any:
        if self.is_first and kwargs["TableName"] == SUBSCRIBERS_TABLE:
            self.is_first = False
            deprovision_cleanup.run({}, None, runtime(self.real, self.now))
        return self.real.update_item(**kwargs)


def test_a_stale_event_computed_from_before_the_finalisation_does_not_undo_it(dynamodb: Any) -> None:
    deprovision(dynamodb)
    stale = updated(at(-5), arn=arn(0), agreement="agmt-0")
    subscription.run(sqs_batch([stale]), None, runtime(FinalizedMeanwhile(dynamodb, at(120)), at(120)))
    found = item(dynamodb, arn(0))
    assert found["subscriptionStatus"] == {"S": SubscriptionStatus.INACTIVE.value}
    assert "deprovisioningPendingFlag" not in found
    assert found["activationTime"] == {"S": "2026-11-10T07:55:00Z"}


def test_a_newer_deprovisioned_computed_from_before_the_finalisation_starts_a_whole_new_last_hour(
    dynamodb: Any,
) -> None:
    """Without a version of its own the finalisation would leave an expiry with neither flag nor status."""
    deprovision(dynamodb)
    newer = deprovisioned(at(110), arn=arn(0), agreement="agmt-0")
    subscription.run(sqs_batch([newer]), None, runtime(FinalizedMeanwhile(dynamodb, at(120)), at(120)))
    found = item(dynamodb, arn(0))
    assert found["subscriptionStatus"] == {"S": SubscriptionStatus.DEPROVISIONING.value}
    assert found["deprovisioningPendingFlag"] == {"S": "1"}
    assert found["deprovisioningExpiry"] == {"S": "2026-11-10T10:50:00Z"}


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.SERVER, Fault.DENIED])
def test_a_call_that_fails_fails_the_run_and_the_next_run_completes_it(
    dynamodb: Any, fault: Exception, after: bool
) -> None:
    calls = 0
    while True:
        for number in range(2):
            key = {"licenseArn": {"S": arn(number)}, "customerAWSAccountId": {"S": BUYER}}
            dynamodb.delete_item(TableName=SUBSCRIBERS_TABLE, Key=key)
        deprovision(dynamodb, count=2)
        client = CountingClient(dynamodb, fail_at=calls, after=after, fault=fault)
        first = runtime(client, at(120))
        if not _fails(first):
            assert not client.failed
            break
        assert client.failed
        deprovision_cleanup.run({}, None, runtime(dynamodb, at(135)))
        assert all("deprovisioningExpiry" not in item(dynamodb, arn(number)) for number in range(2))
        assert item(dynamodb, arn(0))["subscriptionStatus"] == {"S": "inactive"}
        assert item(dynamodb, arn(1))["subscriptionStatus"] == {"S": "inactive"}
        calls += 1
    assert calls == 3


def _fails(first: Runtime) -> bool:
    try:
        deprovision_cleanup.run({}, None, first)
    except (StoreUnavailable, Misconfigured):
        return True
    return False


def test_the_entry_point_takes_the_production_runtime(dynamodb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deprovision(dynamodb)
    monkeypatch.setattr(
        deprovision_cleanup, "production_runtime", lambda _service: runtime(dynamodb, at(120))
    )
    assert deprovision_cleanup.handler({}, None) == {"expired": 1, "finalized": 1}


def test_a_licence_is_finalised_under_the_key_that_the_index_holds(dynamodb: Any) -> None:
    subscription.run(sqs_batch([deprovisioned(at(0))]), None, runtime(dynamodb, at(1)))
    store = runtime(dynamodb, at(60)).subscribers()
    assert store.expired(at(60)) == [PendingDeprovisioning(LICENSE, BUYER, at(60))]
    with pytest.raises(ConditionFailed):
        store.finalize(PendingDeprovisioning(LICENSE, BUYER, at(61)))
    store.finalize(PendingDeprovisioning(LICENSE, BUYER, at(60)))
    with pytest.raises(ConditionFailed):
        store.finalize(PendingDeprovisioning(LICENSE, BUYER, at(60)))
