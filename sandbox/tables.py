"""CreateTable requests of the tables that the modules make, for local backends without Terraform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from awsmp.domain.ledger import LEDGER_SORT_KEY
from awsmp.domain.notifications.store import WORK_INDEX
from awsmp.domain.rows import ROW_SORT_KEY


def subscribers_table(name: str) -> dict[str, Any]:
    """Return the request for the subscribers table."""
    return _table(
        name,
        ("licenseArn", "customerAWSAccountId"),
        {
            "customerAWSAccountId-index": (("customerAWSAccountId",), {"ProjectionType": "ALL"}),
            "agreementId-index": (("agreementId",), {"ProjectionType": "ALL"}),
            "deprovisioning-pending-index": (
                ("deprovisioningPendingFlag", "deprovisioningExpiry"),
                {"ProjectionType": "KEYS_ONLY"},
            ),
        },
    )


def parked_events_table(name: str) -> dict[str, Any]:
    """Return the request for the table of parked agreement events."""
    return _table(name, ("agreementId", "entryKey"), {})


def customer_profile_table(name: str, promoted_fields: Sequence[str] = ()) -> dict[str, Any]:
    """Return the request for the customer-profile table, with an index of each promoted field."""
    indexes = {f"{field}-index": ((field,), {"ProjectionType": "ALL"}) for field in promoted_fields}
    return _table(name, ("licenseArn", "customerAWSAccountId"), indexes)


def usage_table(name: str) -> dict[str, Any]:
    """Return the request for the usage table."""
    return _table(name, ("licenseArn", ROW_SORT_KEY), _PENDING_INDEX)


def aggregated_usage_table(name: str) -> dict[str, Any]:
    """Return the request for the aggregated-usage table."""
    return _table(name, ("licenseArn", LEDGER_SORT_KEY), _PENDING_INDEX)


def notifications_table(name: str) -> dict[str, Any]:
    """Return the request for the notifications table."""
    index = {WORK_INDEX: (("workQueue", "dueAt"), {"ProjectionType": "KEYS_ONLY"})}
    return _table(name, ("pk", "sk"), index)


_PENDING_INDEX: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "metering_pending": (
        ("meteringPending", "licenseArn"),
        {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["customerAWSAccountId", "dimension"]},
    )
}


def _table(
    name: str, keys: tuple[str, ...], indexes: Mapping[str, tuple[tuple[str, ...], dict[str, Any]]]
) -> dict[str, Any]:
    attributes = {*keys, *(key for index_keys, _ in indexes.values() for key in index_keys)}
    request: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": "S"} for attribute in sorted(attributes)
        ],
        "KeySchema": _schema(keys),
    }
    if indexes:
        request["GlobalSecondaryIndexes"] = [
            {"IndexName": index, "KeySchema": _schema(index_keys), "Projection": projection}
            for index, (index_keys, projection) in indexes.items()
        ]
    return request


def _schema(keys: tuple[str, ...]) -> list[dict[str, str]]:
    return [
        {"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
    ]
