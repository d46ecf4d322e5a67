"""The fake against botocore's service model: a change made by AWS breaks one of these tests."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest
from botocore.serialize import create_serializer

from sandbox.fake_marketplace import client as in_process
from sandbox.fake_marketplace import limits, server
from sandbox.fake_marketplace.engine import serialized_size
from sandbox.fake_marketplace.errors import COMMON_CODES, Code, Status

MODEL = in_process.service_model()


def shape(name: str) -> Any:
    return MODEL.shape_for(name)


def constraints(name: str) -> dict[str, Any]:
    return {key: value for key, value in shape(name).metadata.items() if key in {"min", "max", "pattern"}}


def members(name: str) -> dict[str, str]:
    return {member: member_shape.name for member, member_shape in shape(name).members.items()}


def test_the_wire_protocol_is_the_one_that_the_server_speaks() -> None:
    assert MODEL.metadata["protocol"] == "json"
    assert f"application/x-amz-json-{MODEL.metadata['jsonVersion']}" == server.JSON_TYPE
    assert MODEL.metadata["targetPrefix"] == server.TARGET_PREFIX
    assert MODEL.signing_name == server.SIGNING_NAME


def test_the_service_has_no_operation_that_is_not_known_here() -> None:
    assert set(MODEL.operation_names) == {
        "BatchMeterUsage",
        "MeterUsage",
        "RegisterUsage",
        "ResolveCustomer",
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BatchMeterUsageRequest", {"UsageRecords": "UsageRecordList", "ProductCode": "ProductCode"}),
        (
            "BatchMeterUsageResult",
            {"Results": "UsageRecordResultList", "UnprocessedRecords": "UsageRecordList"},
        ),
        (
            "UsageRecord",
            {
                "Timestamp": "Timestamp",
                "CustomerIdentifier": "CustomerIdentifier",
                "Dimension": "UsageDimension",
                "Quantity": "UsageQuantity",
                "QuantityAsDecimal": "UsageQuantityAsDecimalString",
                "UsageAllocations": "UsageAllocations",
                "CustomerAWSAccountId": "CustomerAWSAccountId",
                "LicenseArn": "LicenseArn",
            },
        ),
        (
            "UsageAllocation",
            {
                "AllocatedUsageQuantity": "AllocatedUsageQuantity",
                "AllocatedUsageQuantityAsDecimal": "AllocatedUsageQuantityAsDecimalString",
                "Tags": "TagList",
            },
        ),
        ("Tag", {"Key": "TagKey", "Value": "TagValue"}),
        (
            "UsageRecordResult",
            {"UsageRecord": "UsageRecord", "MeteringRecordId": "String", "Status": "UsageRecordResultStatus"},
        ),
        ("ResolveCustomerRequest", {"RegistrationToken": "NonEmptyString"}),
        (
            "ResolveCustomerResult",
            {
                "CustomerIdentifier": "CustomerIdentifier",
                "ProductCode": "ProductCode",
                "CustomerAWSAccountId": "CustomerAWSAccountId",
                "LicenseArn": "LicenseArn",
                "Metadata": "Metadata",
            },
        ),
        ("Metadata", {"AgreementId": "AgreementId"}),
    ],
)
def test_structures_have_exactly_the_members_that_the_fake_handles(
    name: str, expected: dict[str, str]
) -> None:
    assert members(name) == expected


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("BatchMeterUsageRequest", ["UsageRecords"]),
        ("UsageRecord", ["Timestamp", "Dimension"]),
        ("UsageAllocation", []),
        ("Tag", ["Key", "Value"]),
        ("ResolveCustomerRequest", ["RegistrationToken"]),
    ],
)
def test_required_members_are_those_that_the_fake_requires(name: str, required: list[str]) -> None:
    assert shape(name).required_members == required


@pytest.mark.parametrize("rule", limits.TEXT_RULES, ids=lambda rule: rule.shape)
def test_lengths_and_patterns_are_the_models(rule: limits.TextRule) -> None:
    expected = {"min": rule.minimum, "max": rule.maximum, "pattern": rule.pattern}
    assert constraints(rule.shape) == {key: value for key, value in expected.items() if value is not None}


def test_every_string_of_the_two_operations_has_a_rule() -> None:
    free = {"String"}  # MeteringRecordId, which the service chooses
    names = {
        member
        for structure in (
            "BatchMeterUsageRequest",
            "UsageRecord",
            "UsageAllocation",
            "Tag",
            "Metadata",
            "ResolveCustomerRequest",
            "ResolveCustomerResult",
            "UsageRecordResult",
        )
        for member in members(structure).values()
        if shape(member).type_name == "string" and not shape(member).enum
    }
    assert names - free == {rule.shape for rule in limits.TEXT_RULES}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("UsageRecordList", {"min": 0, "max": limits.MAX_RECORDS}),
        ("UsageAllocations", {"min": 1, "max": limits.MAX_ALLOCATIONS}),
        ("TagList", {"min": limits.MIN_TAGS, "max": limits.MAX_TAGS}),
        ("UsageQuantity", {"min": 0, "max": limits.MAX_QUANTITY}),
        ("AllocatedUsageQuantity", {"min": 0, "max": limits.MAX_QUANTITY}),
    ],
)
def test_counts_and_ranges_are_the_models(name: str, expected: dict[str, int]) -> None:
    assert constraints(name) == expected


def test_the_size_limit_is_still_the_documented_one() -> None:
    documentation = MODEL.operation_model("BatchMeterUsage").documentation
    assert "each request must be less than 1 MB in size" in documentation
    assert "up to 25" in documentation
    assert limits.MAX_REQUEST_BYTES == 1_000_000


def test_the_windows_are_still_the_documented_ones() -> None:
    documentation = MODEL.operation_model("BatchMeterUsage").documentation
    assert "24 hours or more" in documentation
    assert "before 06:00 UTC" in documentation
    assert "regardless of the normal 24-hour" in documentation


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (
            "BatchMeterUsage",
            {
                Code.INTERNAL_SERVICE_ERROR,
                Code.INVALID_PRODUCT_CODE,
                Code.INVALID_USAGE_DIMENSION,
                Code.INVALID_TAG,
                Code.INVALID_USAGE_ALLOCATIONS,
                Code.INVALID_CUSTOMER_IDENTIFIER,
                Code.TIMESTAMP_OUT_OF_BOUNDS,
                Code.THROTTLING,
                Code.DISABLED_API,
                Code.INVALID_LICENSE,
            },
        ),
        (
            "ResolveCustomer",
            {
                Code.INVALID_TOKEN,
                Code.EXPIRED_TOKEN,
                Code.THROTTLING,
                Code.INTERNAL_SERVICE_ERROR,
                Code.DISABLED_API,
            },
        ),
    ],
)
def test_exceptions_are_exactly_the_models(operation: str, expected: set[Code]) -> None:
    assert {error.name for error in MODEL.operation_model(operation).error_shapes} == expected


def test_every_exception_is_in_the_model_or_common_to_all_services() -> None:
    modelled = {error.name for error in MODEL.error_shapes}
    assert {code.value for code in Code if code not in COMMON_CODES} <= modelled
    assert not {code.value for code in COMMON_CODES} & modelled


def test_statuses_are_exactly_the_models() -> None:
    assert shape("UsageRecordResultStatus").enum == [
        Status.SUCCESS,
        Status.CUSTOMER_NOT_SUBSCRIBED,
        Status.DUPLICATE_RECORD,
    ]


RECORD = {"Dimension": "requests", "CustomerAWSAccountId": "111122223333", "Quantity": 1}


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 15, 10, tzinfo=UTC),
        datetime(2026, 11, 15, 10),  # noqa: DTZ001 - botocore takes a naive time as UTC
        datetime(2026, 11, 15, 10, 0, 0, 250_000, tzinfo=UTC),
        datetime(2026, 11, 15, 12, tzinfo=timezone(timedelta(hours=2))),
        "2026-11-15T10:00:00Z",
        1_794_736_800,
    ],
    ids=["aware", "naive", "fraction", "other zone", "text", "epoch"],
)
def test_timestamps_go_over_the_wire_as_botocore_sends_them(moment: Any) -> None:
    operation = MODEL.operation_model("BatchMeterUsage")
    arguments = {"UsageRecords": [{"Timestamp": moment, **RECORD}]}
    sent = create_serializer("json").serialize_to_request(arguments, operation)
    assert json.loads(sent["body"])["UsageRecords"] == [in_process._to_wire(arguments["UsageRecords"][0])]


def test_a_request_is_as_large_as_botocore_makes_it() -> None:
    allocations = [
        {"AllocatedUsageQuantity": 1, "Tags": [{"Key": "team", "Value": f"team-{n}"}]} for n in range(40)
    ]
    record = {"Timestamp": 1_794_736_800, **RECORD, "Dimension": "größe-📦", "UsageAllocations": allocations}
    operation = MODEL.operation_model("BatchMeterUsage")
    sent = create_serializer("json").serialize_to_request({"UsageRecords": [record]}, operation)
    body = AWSRequest(method="POST", url="http://127.0.0.1/", data=sent["body"]).prepare().body
    assert serialized_size({"UsageRecords": [in_process._to_wire(record)]}) == len(body)
