"""The engine's own promises: determinism, raw wire shapes, settings, faults and history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from sandbox.fake_marketplace import (
    FakeMarketplace,
    Fault,
    FaultRates,
    InProcessMarketplaceClient,
    RecordEffect,
    Settings,
)
from sandbox.fake_marketplace.engine import Reply
from sandbox.fake_marketplace.faults import FaultPlan
from sandbox.fake_marketplace.history import RequestEntry, busiest_second, total_quantity

BUYER = "111122223333"
PRODUCT = "exampleproductcode"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
EPOCH_NOON = int(NOON.timestamp())


class SettableClock:
    def __init__(self) -> None:
        self.instant = NOON

    def now(self) -> datetime:
        return self.instant


def fresh(seed: int = 0) -> tuple[SettableClock, FakeMarketplace, str]:
    clock = SettableClock()
    engine = FakeMarketplace(clock, Settings(seed=seed))
    engine.create_product(PRODUCT, ["requests"])
    grant = engine.subscribe(PRODUCT, BUYER, activate_at=NOON - timedelta(days=30)).license
    return clock, engine, grant.arn


def wire(arn: str, **changes: Any) -> dict[str, Any]:
    record = {
        "Timestamp": EPOCH_NOON,
        "Dimension": "requests",
        "CustomerAWSAccountId": BUYER,
        "LicenseArn": arn,
        "Quantity": 1,
    }
    return {name: value for name, value in (record | changes).items() if value is not Ellipsis}


def send(engine: FakeMarketplace, *records: Mapping[str, Any]) -> Reply:
    return engine.batch_meter_usage({"UsageRecords": list(records)}, region="eu-west-1")


# ---------------------------------------------------------------------- determinism


def story(seed: int) -> list[Any]:
    clock, engine, arn = fresh(seed)
    engine.set_fault_rates(FaultRates(throttled=0.3, unprocessed=0.3, connection_closed_after=0.2))
    replies = []
    for hour in range(20):
        clock.instant += timedelta(seconds=1)
        replies.append(send(engine, wire(arn, Timestamp=EPOCH_NOON - 3600 * hour)))
    described = [(r.request_id, r.body, r.lost, r.refusal and r.refusal.code) for r in replies]
    return [described, engine.mint_token(arn), engine.events(), dict(engine.faults.hits), engine.honoured()]


def test_equal_seeds_and_calls_tell_the_same_story() -> None:
    assert story(5) == story(5)


def test_another_seed_tells_another_story() -> None:
    for same, other in zip(story(5), story(6), strict=True):
        assert same != other


# ---------------------------------------------------------------------- what only a raw client can send


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"Timestamp": ...}, "ValidationException"),
        ({"Timestamp": None}, "ValidationException"),
        ({"Timestamp": "2026-11-15T12:00:00Z"}, "ValidationException"),
        ({"Timestamp": True}, "ValidationException"),
        ({"Dimension": ...}, "ValidationException"),
        ({"Dimension": ""}, "ValidationException"),
        ({"Dimension": 5}, "ValidationException"),
        ({"Dimension": ["requests"]}, "ValidationException"),
        ({"Quantity": -1}, "ValidationException"),
        ({"Quantity": 1.0}, "ValidationException"),
        ({"Quantity": "1"}, "ValidationException"),
        ({"Quantity": ..., "QuantityAsDecimal": ""}, "ValidationException"),
        ({"Quantity": ..., "QuantityAsDecimal": 1}, "ValidationException"),
        ({"Quantity": ..., "QuantityAsDecimal": "٣"}, "ValidationException"),
        ({"CustomerAWSAccountId": ""}, "ValidationException"),
        ({"CustomerAWSAccountId": 111122223333}, "ValidationException"),
        ({"CustomerAWSAccountId": ..., "CustomerIdentifier": 5}, "ValidationException"),
        ({"CustomerAWSAccountId": ..., "CustomerIdentifier": ""}, "InvalidCustomerIdentifierException"),
        ({"LicenseArn": 5}, "ValidationException"),
        ({"LicenseArn": ["x"]}, "ValidationException"),
        ({"LicenseArn": ""}, "ValidationException"),
        ({"UsageAllocations": []}, "ValidationException"),
        ({"UsageAllocations": "x"}, "ValidationException"),
        ({"UsageAllocations": ["x"]}, "ValidationException"),
        ({"UsageAllocations": [{"AllocatedUsageQuantity": True}]}, "ValidationException"),
        ({"UsageAllocations": [{"AllocatedUsageQuantity": 1, "Tags": "x"}]}, "ValidationException"),
        ({"UsageAllocations": [{"AllocatedUsageQuantity": 1, "Tags": ["x"]}]}, "ValidationException"),
        ({"UsageAllocations": [{"AllocatedUsageQuantity": 1, "Tags": []}]}, "InvalidTagException"),
        (
            {"UsageAllocations": [{"AllocatedUsageQuantity": 1, "Tags": [{"Key": "k"}]}]},
            "InvalidTagException",
        ),
    ],
    ids=lambda value: str(value)[:50] if isinstance(value, dict) else "",
)
def test_raw_shapes_are_checked_without_botocores_help(changes: dict[str, Any], code: str) -> None:
    _, engine, arn = fresh()
    reply = send(engine, wire(arn), wire(arn, **changes))
    assert reply.refusal is not None
    assert reply.refusal.code == code
    assert engine.honoured() == ()


@pytest.mark.parametrize("payload", [{}, {"UsageRecords": {}}, {"UsageRecords": [1]}, []])
def test_a_request_that_is_no_batch_is_refused_and_remembered(payload: Any) -> None:
    _, engine, _ = fresh()
    reply = engine.batch_meter_usage(payload, region="eu-west-1")
    assert reply.refusal is not None
    assert reply.refusal.code == "ValidationException"
    assert [entry.exception for entry in engine.requests()] == ["ValidationException"]


@pytest.mark.parametrize("code", [5, "a b", "x" * 256])
def test_a_malformed_product_code_is_refused(code: Any) -> None:
    _, engine, _ = fresh()
    reply = engine.batch_meter_usage({"UsageRecords": [], "ProductCode": code}, region="eu-west-1")
    assert reply.refusal is not None
    assert reply.refusal.code == "ValidationException"


def test_a_fraction_of_a_second_is_cut_off() -> None:
    _, engine, arn = fresh()
    send(engine, wire(arn, Timestamp=EPOCH_NOON - 0.5))
    (honoured,) = engine.honoured()
    assert honoured.timestamp == NOON - timedelta(seconds=1)
    assert honoured.hour == EPOCH_NOON // 3600 - 1


def test_a_null_member_counts_as_left_out() -> None:
    _, engine, arn = fresh()
    nulls = dict.fromkeys(("Quantity", "QuantityAsDecimal", "UsageAllocations", "CustomerIdentifier"))
    assert send(engine, wire(arn, **nulls)).refusal is None
    assert [record.quantity for record in engine.honoured()] == [0]


def test_the_size_is_measured_when_the_caller_does_not_tell_it() -> None:
    _, engine, arn = fresh()
    engine.configure(max_request_bytes=300)
    assert send(engine, wire(arn)).refusal is None
    reply = send(engine, wire(arn), wire(arn))
    assert reply.refusal is not None
    assert reply.refusal.code == "ValidationException"


def test_a_request_of_exactly_the_limit_is_too_large() -> None:
    _, engine, arn = fresh()
    payload = {"UsageRecords": [wire(arn)]}
    for size, refused in ((999_999, False), (1_000_000, True)):
        reply = engine.batch_meter_usage(payload, region="eu-west-1", request_bytes=size)
        assert (reply.refusal is not None) == refused


# ---------------------------------------------------------------------- set-up mistakes


@pytest.mark.parametrize(
    "values",
    [
        {"no_such_switch": 1},
        {"dedup_scope": "continent"},
        {"window_hours": "24"},
        {"window_hours": True},
        {"quota_burst": 1.5},
        {"distinct_tag_sets": 1},
        {"disabled_regions": "eu-west-1"},
    ],
)
def test_a_wrong_switch_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"setting|is not a valid"):
        Settings().changed(values)


def test_settings_survive_json() -> None:
    settings = Settings(window_hours=6, disabled_regions=("eu-west-1",), seed=9)
    assert Settings().changed(settings.to_json()) == settings


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"answer": "NoSuchException"},
        {"answer": "ThrottlingException", "effect": RecordEffect.OMITTED},
        {"answer": "ThrottlingException", "until": datetime(2026, 11, 15)},  # noqa: DTZ001 - the mistake
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"fault|aware"):
        Fault(**values)


def test_ids_that_the_service_model_forbids_or_that_are_taken_are_refused() -> None:
    _, engine, arn = fresh()
    agreement = engine.license(arn).agreement_id
    mistakes: list[Any] = [
        lambda: engine.create_product("", ["requests"]),
        lambda: engine.create_product("a b", ["requests"]),
        lambda: engine.create_product("other", [""]),
        lambda: engine.create_agreement(PRODUCT, BUYER, agreement_id=agreement),
        lambda: engine.create_agreement(PRODUCT, BUYER, agreement_id="a b"),
        lambda: engine.create_agreement(PRODUCT, "abc"),
        lambda: engine.create_license(agreement, license_arn=arn),
        lambda: engine.create_license(agreement, license_arn="l-123"),
        lambda: engine.create_legacy_customer(PRODUCT, "", BUYER),
    ]
    for mistake in mistakes:
        with pytest.raises(ValueError, match=r"is no|taken"):
            mistake()


# ---------------------------------------------------------------------- quota, faults and history


def test_a_clock_that_goes_back_gives_no_extra_quota() -> None:
    clock, engine, arn = fresh()
    engine.configure(quota_burst=1, quota_rate=1)
    assert send(engine, wire(arn)).refusal is None
    clock.instant -= timedelta(hours=1)
    record = wire(arn, Timestamp=EPOCH_NOON - 7200)
    assert send(engine, record).refusal is not None
    clock.instant += timedelta(seconds=1)
    assert send(engine, record).refusal is None


def test_refused_requests_take_their_share_of_the_quota() -> None:
    _, engine, arn = fresh()
    engine.configure(quota_burst=1)
    codes = [send(engine, wire(arn, Dimension="none")).refusal for _ in range(2)]
    assert [refusal and refusal.code for refusal in codes] == [
        "InvalidUsageDimensionException",
        "ThrottlingException",
    ]


def test_a_share_of_the_records_is_struck_by_the_seed() -> None:
    plan = FaultPlan(seed=11)
    plan.arm(Fault(effect=RecordEffect.UNPROCESSED, share=0.5, times=None))
    struck = []
    for _ in range(40):
        strike = plan.strike("BatchMeterUsage", "eu-west-1", BUYER, NOON, 25)
        assert strike is not None
        struck.append(len(strike.records))
    assert 400 < sum(struck) < 600
    assert len(set(struck)) > 3


def test_latency_is_waited_for_on_the_callers_clock() -> None:
    clock, engine, arn = fresh()
    waits: list[float] = []
    client = InProcessMarketplaceClient(engine, sleep=waits.append)
    engine.arm(Fault(latency_seconds=2.5))
    record = wire(arn, Timestamp=NOON)
    for _ in range(2):
        client.batch_meter_usage(UsageRecords=[record])
    assert waits == [2.5]
    assert clock.instant == NOON


def entry(at: float, region: str = "eu-west-1", account: str = BUYER) -> RequestEntry:
    return RequestEntry(
        at=NOON + timedelta(seconds=at),
        region=region,
        account=account,
        operation="BatchMeterUsage",
        request_id="request",
        product_code=None,
        outcomes=(),
        exception=None,
        answered=True,
        fault=None,
    )


@pytest.mark.parametrize(
    ("entries", "busiest"),
    [
        ([], 0),
        ([entry(0)], 1),
        ([entry(0), entry(1)], 1),
        ([entry(0), entry(0.999)], 2),
        ([entry(0.9), entry(1.1), entry(1.8), entry(1.95)], 3),
        ([entry(0), entry(0, region="us-east-1"), entry(0, account="444455556666")], 1),
        ([entry(5), entry(0), entry(0.5)], 2),
    ],
)
def test_the_busiest_second_is_half_open_and_per_caller(entries: list[RequestEntry], busiest: int) -> None:
    assert busiest_second(entries) == busiest


def test_quantities_add_up_exactly_over_both_number_types() -> None:
    _, engine, arn = fresh()
    send(
        engine, wire(arn), wire(arn, Timestamp=EPOCH_NOON - 3600, Quantity=..., QuantityAsDecimal="0.100001")
    )
    assert total_quantity(engine.honoured()) == Decimal("1.100001")
